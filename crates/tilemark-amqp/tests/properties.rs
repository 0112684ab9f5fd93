//! What holds for every message and every stream of bytes.

use proptest::prelude::*;
use tilemark_amqp::{
    ContentHeader, DecodeError, DeliverMethod, FrameKind, Inbox, LongStr, Method, Properties,
    PublishArguments, ShortStr, Table, TableBuilder, decode_frame, put_deliver, put_heartbeat, put_method,
};

const FRAME_MAX: usize = 4096;

fn short() -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(any::<u8>(), 0..=255)
}

fn table() -> impl Strategy<Value = TableBuilder> {
    prop::collection::vec(("[a-z-]{1,20}", "[ -~]{0,40}", any::<bool>(), any::<i64>()), 0..5).prop_map(
        |entries| {
            entries.into_iter().fold(TableBuilder::new(), |table, (name, text, truth, integer)| {
                table.text(&name, &text).truth(&name, truth).integer(&name, integer)
            })
        },
    )
}

/// Arguments from which every kind of field and every packing of bits is made.
#[derive(Debug)]
struct Parts {
    a: Vec<u8>,
    b: Vec<u8>,
    c: Vec<u8>,
    table: TableBuilder,
    bits: [bool; 5],
    tag: u64,
    long: u32,
    short: u16,
}

fn parts() -> impl Strategy<Value = Parts> {
    (short(), short(), short(), table(), any::<[bool; 5]>(), any::<u64>(), any::<u32>(), any::<u16>())
        .prop_map(|(a, b, c, table, bits, tag, long, short)| Parts { a, b, c, table, bits, tag, long, short })
}

fn methods(parts: &Parts) -> Vec<Method<'_>> {
    let Parts { tag, long, short, .. } = *parts;
    let [b0, b1, b2, b3, b4] = parts.bits;
    let a = ShortStr::new(&parts.a).expect("at most 255 bytes");
    let b = ShortStr::new(&parts.b).expect("at most 255 bytes");
    let c = ShortStr::new(&parts.c).expect("at most 255 bytes");
    let arguments = parts.table.as_table();
    vec![
        Method::ConnectionStart {
            version_major: 0,
            version_minor: 9,
            server_properties: arguments,
            mechanisms: LongStr(&parts.a),
            locales: LongStr(&parts.b),
        },
        Method::ConnectionStartOk {
            client_properties: arguments,
            mechanism: a,
            response: LongStr(&parts.b),
            locale: c,
        },
        Method::ConnectionTune { channel_max: short, frame_max: long, heartbeat: short },
        Method::ConnectionOpen { virtual_host: a, reserved_1: b, reserved_2: b0 },
        Method::ConnectionClose { reply_code: short, reply_text: a, class_id: short, method_id: short },
        Method::ChannelFlow { active: b0 },
        Method::ExchangeDeclare {
            reserved_1: short,
            exchange: a,
            kind: b,
            passive: b0,
            durable: b1,
            auto_delete: b2,
            internal: b3,
            no_wait: b4,
            arguments,
        },
        Method::QueueDeclare {
            reserved_1: short,
            queue: a,
            passive: b0,
            durable: b1,
            exclusive: b2,
            auto_delete: b3,
            no_wait: b4,
            arguments,
        },
        Method::QueueDeclareOk { queue: a, message_count: long, consumer_count: long },
        Method::BasicQos { prefetch_size: long, prefetch_count: short, global: b0 },
        Method::BasicConsume {
            reserved_1: short,
            queue: a,
            consumer_tag: b,
            no_local: b0,
            no_ack: b1,
            exclusive: b2,
            no_wait: b3,
            arguments,
        },
        Method::BasicPublish { reserved_1: short, exchange: a, routing_key: b, mandatory: b0, immediate: b1 },
        Method::BasicDeliver {
            consumer_tag: a,
            delivery_tag: tag,
            redelivered: b0,
            exchange: b,
            routing_key: c,
        },
        Method::BasicGetOk {
            delivery_tag: tag,
            redelivered: b0,
            exchange: a,
            routing_key: b,
            message_count: long,
        },
        Method::BasicNack { delivery_tag: tag, multiple: b0, requeue: b1 },
        Method::TxCommit {},
    ]
}

/// Kind, channel and payload of each frame, copied.
type Seen = Vec<(FrameKind, u16, Vec<u8>)>;

/// Feeds a stream in pieces of the given lengths and returns the frames, or the first error.
fn read_in_pieces(wire: &[u8], pieces: &[usize]) -> Result<Seen, DecodeError> {
    let mut inbox = Inbox::new(0, FRAME_MAX);
    let mut seen = Vec::new();
    let mut rest = wire;
    let mut pieces = pieces.iter().cycle();
    while !rest.is_empty() {
        let space = inbox.space();
        assert!(!space.is_empty(), "a buffer that was read empty must take more");
        let length = (*pieces.next().unwrap_or(&1)).clamp(1, rest.len()).min(space.len());
        space[..length].copy_from_slice(&rest[..length]);
        inbox.received(length);
        rest = &rest[length..];
        while let Some(frame) = inbox.next_frame()? {
            seen.push((frame.kind, frame.channel, frame.payload.to_vec()));
        }
    }
    Ok(seen)
}

proptest! {
    #[test]
    fn a_method_reads_back_as_it_was_written(parts in parts(), channel: u16) {
        for method in methods(&parts) {
            let mut wire = Vec::new();
            put_method(&mut wire, channel, &method);
            let (frame, used) = decode_frame(&wire, 1 << 20).unwrap().unwrap();
            prop_assert_eq!(used, wire.len());
            prop_assert_eq!((frame.kind, frame.channel), (FrameKind::Method, channel));
            prop_assert_eq!(Method::decode(frame.payload).unwrap(), method);
            for length in 0..frame.payload.len() {
                prop_assert!(Method::decode(&frame.payload[..length]).is_err());
            }
        }
    }

    #[test]
    fn how_the_stream_is_cut_makes_no_difference(
        bodies in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..9000), 1..6),
        pieces in prop::collection::vec(1..6000_usize, 1..20),
        tag: u64,
    ) {
        let mut wire = Vec::new();
        for body in &bodies {
            let method = DeliverMethod { consumer_tag: b"tag", delivery_tag: tag, redelivered: false, route: b"\0\x01q" };
            put_deliver(&mut wire, 1, &method, &[0; 14], body, FRAME_MAX);
            put_heartbeat(&mut wire);
        }
        let whole = read_in_pieces(&wire, &[usize::MAX]).unwrap();
        prop_assert_eq!(&whole, &read_in_pieces(&wire, &pieces).unwrap());
        prop_assert_eq!(&whole, &read_in_pieces(&wire, &[1]).unwrap());
        let received: Vec<u8> =
            whole.iter().filter(|(kind, ..)| *kind == FrameKind::Body).flat_map(|(.., body)| body.clone()).collect();
        prop_assert_eq!(received, bodies.concat());
    }

    #[test]
    fn garbage_is_refused_or_read_but_never_panics(bytes in prop::collection::vec(any::<u8>(), 0..400), class in 0..100_u16, id in 0..130_u16) {
        let _ = read_in_pieces(&bytes, &[7]);
        let _ = Method::decode(&bytes);
        let _ = PublishArguments::decode(&bytes);
        let _ = Table::checked(&bytes).map(|table| table.entries().count());
        if let Ok(header) = ContentHeader::decode(&bytes) {
            let _ = (header.properties.check(), header.properties.for_broker());
        }
        let _ = Properties::from_bytes(&bytes).check();
        let mut payload = [class.to_be_bytes(), id.to_be_bytes()].concat();
        payload.extend_from_slice(&bytes);
        if let Ok(method) = Method::decode(&payload) {
            let mut wire = Vec::new();
            put_method(&mut wire, 1, &method);
            let (frame, _) = decode_frame(&wire, usize::MAX).unwrap().unwrap();
            prop_assert_eq!(Method::decode(frame.payload), Ok(method));
        }
    }

    #[test]
    fn one_flipped_octet_never_panics(parts in parts(), at: prop::sample::Index, value: u8) {
        for method in methods(&parts) {
            let mut wire = Vec::new();
            put_method(&mut wire, 1, &method);
            let at = at.index(wire.len());
            wire[at] = value;
            if let Ok(Some((frame, _))) = decode_frame(&wire, 1 << 20) {
                let _ = Method::decode(frame.payload);
            }
        }
    }
}
