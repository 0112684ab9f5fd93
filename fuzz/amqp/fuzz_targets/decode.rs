//! Any bytes, read as a peer's stream: never a panic, and every method that is read is written back the same.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tilemark_amqp::{ContentHeader, FrameKind, Inbox, Method, PublishArguments, decode_frame, put_method};

fuzz_target!(|bytes: &[u8]| {
    let mut inbox = Inbox::new(0, 4096);
    let mut rest = bytes;
    while !rest.is_empty() {
        let space = inbox.space();
        let length = rest.len().min(space.len()).min(97);
        space[..length].copy_from_slice(&rest[..length]);
        inbox.received(length);
        rest = &rest[length..];
        loop {
            match inbox.next_frame() {
                Ok(Some(frame)) => look_inside(frame.kind, frame.payload),
                Ok(None) => break,
                Err(error) => {
                    let _ = error.reply_code();
                    return;
                }
            }
        }
    }
});

fn look_inside(kind: FrameKind, payload: &[u8]) {
    match kind {
        FrameKind::Method => {
            let _ = PublishArguments::decode(payload);
            if let Ok(method) = Method::decode(payload) {
                let mut wire = Vec::new();
                put_method(&mut wire, 1, &method);
                let (frame, _) = decode_frame(&wire, usize::MAX).expect("our frame").expect("whole");
                assert_eq!(Method::decode(frame.payload), Ok(method));
            }
        }
        FrameKind::Header => {
            if let Ok(header) = ContentHeader::decode(payload) {
                let _ = (header.properties.check(), header.properties.is_persistent());
            }
        }
        FrameKind::Body | FrameKind::Heartbeat => {}
    }
}
