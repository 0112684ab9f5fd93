//! AMQP: the codec, and the end of a client.

use std::{
    io::{Read, Write},
    net::{Shutdown, SocketAddr, TcpListener},
    sync::{
        Mutex, OnceLock,
        mpsc::{Receiver, SyncSender, sync_channel},
    },
    thread,
    time::Duration,
};
use tilemark_amqp::{
    ContentHeader, DeliverMethod, FrameKind, Inbox, LongStr, Method, Properties, PublishArguments, ShortStr,
    Table, TableBuilder, WholePublish, decode_frame, put_content, put_deliver, put_heartbeat, put_method,
};
use tilemark_amqp_load::{BrokerAddress, Ledger, Session};

/// Takes the frames of any peer.
pub fn take_codec(bytes: &[u8]) {
    read_in_one_step(bytes);
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
}

/// What is read in one step is what its frames are, one by one.
fn read_in_one_step(bytes: &[u8]) {
    let Some(publish) = WholePublish::decode(bytes, 4096) else { return };
    let mut rest = &bytes[..publish.length];
    let mut next = |kind| {
        let (frame, used) = decode_frame(rest, 4096).expect("right").expect("whole");
        assert_eq!((frame.kind, frame.channel), (kind, publish.channel));
        rest = &rest[used..];
        frame.payload
    };
    assert_eq!(PublishArguments::decode(next(FrameKind::Method)), Ok(publish.arguments));
    let header = next(FrameKind::Header);
    assert_eq!(header, publish.header);
    let header = ContentHeader::decode(header).expect("right");
    assert_eq!(header.body_size, publish.body.len() as u64);
    assert_eq!(header.properties.for_broker().map(|found| found.persistent), Ok(publish.persistent));
    assert_eq!((next(FrameKind::Body), publish.body.is_empty()), (publish.body, false));
    assert!(rest.is_empty());
}

fn look_inside(kind: FrameKind, payload: &[u8]) {
    match kind {
        FrameKind::Method => {
            let _ = PublishArguments::decode(payload);
            if let Ok(method) = Method::decode(payload) {
                // What is read is written back the same.
                let mut wire = Vec::new();
                put_method(&mut wire, 1, &method);
                let (frame, _) = decode_frame(&wire, usize::MAX).expect("our frame").expect("whole");
                assert_eq!(Method::decode(frame.payload), Ok(method));
                drop(format!("{method:?}"));
            }
        }
        FrameKind::Header => {
            if let Ok(header) = ContentHeader::decode(payload) {
                let _ = (header.properties.check(), header.properties.for_broker());
            }
        }
        FrameKind::Body | FrameKind::Heartbeat => {}
    }
}

fn wire_of(methods: &[(u16, Method<'_>)]) -> Vec<u8> {
    let mut wire = Vec::new();
    methods.iter().for_each(|(channel, method)| put_method(&mut wire, *channel, method));
    wire
}

/// All that a broker says to a client that logs in, and more.
fn broker_side() -> Vec<u8> {
    let capabilities = TableBuilder::new().truth("publisher_confirms", true).integer("n", -7);
    let properties = TableBuilder::new().text("product", "broker").table("capabilities", &capabilities);
    let empty = ShortStr::default();
    let start = Method::ConnectionStart {
        version_major: 0,
        version_minor: 9,
        server_properties: properties.as_table(),
        mechanisms: LongStr(b"PLAIN AMQPLAIN"),
        locales: LongStr(b"en_US"),
    };
    let mut wire = wire_of(&[
        (0, start),
        (0, Method::ConnectionTune { channel_max: 2047, frame_max: 131_072, heartbeat: 60 }),
        (0, Method::ConnectionOpenOk { reserved_1: empty }),
        (1, Method::ChannelOpenOk { reserved_1: LongStr(b"") }),
        (0, Method::ConnectionBlocked { reason: ShortStr::cut("low on memory") }),
        (0, Method::ConnectionUnblocked {}),
        (1, Method::QueueDeclareOk { queue: ShortStr::cut("q"), message_count: 3, consumer_count: 0 }),
    ]);
    let deliver =
        DeliverMethod { consumer_tag: b"t", delivery_tag: 1, redelivered: false, route: b"\x00\x01q" };
    put_deliver(&mut wire, 1, &deliver, Properties::PERSISTENT.as_bytes(), b"body", 4096);
    put_heartbeat(&mut wire);
    wire
}

pub(crate) fn streams() -> Vec<Vec<u8>> {
    let name = ShortStr::cut("q");
    let publish = Method::BasicPublish {
        reserved_1: 0,
        exchange: ShortStr::default(),
        routing_key: name,
        mandatory: true,
        immediate: false,
    };
    let declare = Method::QueueDeclare {
        reserved_1: 0,
        queue: name,
        passive: false,
        durable: true,
        exclusive: false,
        auto_delete: true,
        no_wait: false,
        arguments: Table::default(),
    };
    let mut wire = wire_of(&[(1, declare), (1, publish)]);
    put_content(&mut wire, 1, &[0, 0], &[7; 100], 4096);
    vec![broker_side(), wire, wire_of(&[(1, Method::BasicAck { delivery_tag: 9, multiple: true })])]
}

/// A broker on this machine that says what an input says.
struct FakeBroker {
    address: SocketAddr,
    words: Mutex<SyncSender<Vec<u8>>>,
}

impl FakeBroker {
    fn listen() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
        let address = listener.local_addr().expect("it is bound");
        let (sender, words) = sync_channel(1);
        thread::spawn(move || speak(&listener, &words));
        Self { address, words: Mutex::new(sender) }
    }
}

fn speak(listener: &TcpListener, words: &Receiver<Vec<u8>>) {
    for stream in listener.incoming() {
        let (Ok(mut stream), Ok(bytes)) = (stream, words.recv()) else { continue };
        // Whatever the client does to the connection is its own affair.
        let _ = stream.write_all(&bytes).and_then(|()| stream.shutdown(Shutdown::Write));
        let mut heard = [0; 4096];
        while matches!(stream.read(&mut heard), Ok(1..)) {}
    }
}

/// Takes what a broker says.
pub fn take_client(bytes: &[u8]) {
    static BROKER: OnceLock<FakeBroker> = OnceLock::new();
    let broker = BROKER.get_or_init(FakeBroker::listen);
    account(bytes);
    let words = broker.words.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    words.send(bytes.to_vec()).expect("the broker lives as long as its process");
    // The broker hangs up after its last word, so nothing is waited for.
    let Ok(mut session) = Session::open(&BrokerAddress::guest(broker.address), Duration::from_secs(10))
    else {
        return;
    };
    let look = Method::QueueDeclare {
        reserved_1: 0,
        queue: ShortStr::cut("q"),
        passive: true,
        durable: false,
        exclusive: false,
        auto_delete: false,
        no_wait: false,
        arguments: Table::default(),
    };
    let answer = session.call(&look, "declare", |method| match method {
        Method::QueueDeclareOk { message_count, .. } => Some(*message_count),
        _ => None,
    });
    if answer.is_ok() {
        let _ = session.close();
    }
}

/// Keeps account of messages with these numbers, as two subscribers that compete do.
fn account(bytes: &[u8]) {
    let mut ledgers = [Ledger::new(2), Ledger::new(2)];
    for part in bytes.chunks_exact(9) {
        let (who, number) = part.split_first().expect("nine bytes");
        let sequence = u64::from_be_bytes(number.try_into().expect("eight of nine bytes"));
        // Numbers that come, and any others.
        let sequence = if *who < 0x80 { sequence % 4096 } else { sequence };
        ledgers[usize::from(who % 2)].record(u16::from(who / 2 % 3), sequence);
    }
    let [mut one, other] = ledgers;
    one.merge(&other);
    let _ = (one.received(), one.lost(0, 1000), one.missing(1, 1000, 5));
}

pub(crate) fn brokers() -> Vec<Vec<u8>> {
    let close = Method::ConnectionClose {
        reply_code: 403,
        reply_text: ShortStr::cut("ACCESS_REFUSED"),
        class_id: 10,
        method_id: 11,
    };
    vec![broker_side(), wire_of(&[(0, close)])]
}
