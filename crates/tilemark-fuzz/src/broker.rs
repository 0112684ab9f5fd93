//! Peers of our broker: any bytes of any of them, in any order.

use std::time::Duration;
use tilemark_amqp::{
    FrameKind, LongStr, Method, PROTOCOL_HEADER, Properties, ShortStr, Table, TableBuilder, decode_frame,
    put_frame, put_header, put_method,
};
use tilemark_broker::{Config, SocketlessBroker};

/// Peers at the same time.
const PEERS: u8 = 3;
/// The broker may hold so much of messages: far less than the fuzzer's own limit.
const MEMORY: u64 = 16 << 20;

/// An input is a list of turns: which peer (or how much time passes), how many bytes, the bytes.
pub fn take_peers(bytes: &[u8]) {
    let mut config = Config::new(([127, 0, 0, 1], 0).into());
    config.memory_limit_bytes = MEMORY;
    config.largest_message_bytes = MEMORY / 4;
    let mut broker = SocketlessBroker::new(&config);
    let mut peers: Vec<_> = (0..PEERS).map(|_| broker.connect()).collect();
    let mut rest = bytes;
    while let Some(([who, high, low], after)) = rest.split_first_chunk::<3>() {
        let length = usize::from(u16::from_be_bytes([*high, *low])).min(after.len());
        let (turn, after) = after.split_at(length);
        rest = after;
        let place = usize::from(who % PEERS);
        match who / PEERS {
            0 => broker.receive(peers[place], turn),
            // The usual log-in, so that an input need not have it.
            1 => broker.receive(peers[place], &[log_in(), turn.to_vec()].concat()),
            2 => broker.pass(Duration::from_millis(length as u64 * 10)),
            3 => {
                broker.disconnect(peers[place]);
                peers[place] = broker.connect();
            }
            // A peer that does not read what it is sent.
            4 => {
                broker.receive(peers[place], turn);
                continue;
            }
            _ => {}
        }
        for peer in &peers {
            frames_of(&broker.take_answers(*peer));
        }
    }
}

/// What the broker says is right AMQP.
fn frames_of(mut wire: &[u8]) {
    // To a peer that speaks another protocol it says which one is spoken here.
    while let Some(rest) = wire.strip_prefix(&PROTOCOL_HEADER) {
        wire = rest;
    }
    while !wire.is_empty() {
        let (frame, used) = decode_frame(wire, 1 << 30).expect("our frames are right").expect("and whole");
        if frame.kind == FrameKind::Method {
            Method::decode(frame.payload).expect("our methods are right");
        }
        wire = &wire[used..];
    }
}

fn log_in() -> Vec<u8> {
    let capabilities =
        TableBuilder::new().truth("connection.blocked", true).truth("consumer_cancel_notify", true);
    let properties = TableBuilder::new().table("capabilities", &capabilities);
    let empty = ShortStr::default();
    let methods = [
        Method::ConnectionStartOk {
            client_properties: properties.as_table(),
            mechanism: ShortStr::cut("PLAIN"),
            response: LongStr(b"\0guest\0guest"),
            locale: ShortStr::cut("en_US"),
        },
        Method::ConnectionTuneOk { channel_max: 0, frame_max: 4096, heartbeat: 10 },
        Method::ConnectionOpen { virtual_host: ShortStr::cut("/"), reserved_1: empty, reserved_2: false },
    ];
    let mut wire = PROTOCOL_HEADER.to_vec();
    methods.iter().for_each(|method| put_method(&mut wire, 0, method));
    put_method(&mut wire, 1, &Method::ChannelOpen { reserved_1: empty });
    wire
}

fn turn(who: u8, wire: &[u8]) -> Vec<u8> {
    let length = u16::try_from(wire.len()).expect("first inputs are short").to_be_bytes();
    [&[who][..], &length, wire].concat()
}

fn of(methods: &[Method<'_>]) -> Vec<u8> {
    let mut wire = Vec::new();
    methods.iter().for_each(|method| put_method(&mut wire, 1, method));
    wire
}

fn publish(exchange: &str, key: &str, body: &[u8]) -> Vec<u8> {
    let mut wire = of(&[Method::BasicPublish {
        reserved_1: 0,
        exchange: ShortStr::cut(exchange),
        routing_key: ShortStr::cut(key),
        mandatory: true,
        immediate: false,
    }]);
    put_header(&mut wire, 1, body.len() as u64, Properties::NONE);
    put_frame(&mut wire, FrameKind::Body, 1, body);
    wire
}

pub(crate) fn peers() -> Vec<Vec<u8>> {
    let queue = ShortStr::cut("q");
    let limits = TableBuilder::new().integer("x-max-length", 2).text("x-overflow", "reject-publish");
    let declare = |arguments| Method::QueueDeclare {
        reserved_1: 0,
        queue,
        passive: false,
        durable: false,
        exclusive: false,
        auto_delete: true,
        no_wait: false,
        arguments,
    };
    let exchange = Method::ExchangeDeclare {
        reserved_1: 0,
        exchange: ShortStr::cut("e"),
        kind: ShortStr::cut("topic"),
        passive: false,
        durable: false,
        auto_delete: true,
        internal: false,
        no_wait: false,
        arguments: Table::default(),
    };
    let bind = Method::QueueBind {
        reserved_1: 0,
        queue,
        exchange: ShortStr::cut("e"),
        routing_key: ShortStr::cut("a.#"),
        no_wait: false,
        arguments: Table::default(),
    };
    let consume = Method::BasicConsume {
        reserved_1: 0,
        queue,
        consumer_tag: ShortStr::cut("t"),
        no_local: false,
        no_ack: false,
        exclusive: false,
        no_wait: false,
        arguments: Table::default(),
    };
    let qos = Method::BasicQos { prefetch_size: 0, prefetch_count: 2, global: false };
    let ack = Method::BasicAck { delivery_tag: 1, multiple: true };
    let nack = Method::BasicNack { delivery_tag: 2, multiple: false, requeue: true };
    let get = Method::BasicGet { reserved_1: 0, queue, no_ack: true };
    let setup =
        [of(&[declare(Table::default()), exchange, bind]), of(&[Method::ConfirmSelect { no_wait: false }])];
    let whole = [
        turn(PEERS, &setup.concat()),
        turn(PEERS + 1, &of(&[qos, consume])),
        turn(
            0,
            &[publish("", "q", b"one"), publish("e", "a.b", b"two"), publish("e", "nowhere", b"")].concat(),
        ),
        turn(1, &of(&[ack, nack, get])),
        turn(2 * PEERS, b"some time"),
        turn(3 * PEERS + 1, b""),
        turn(
            0,
            &of(&[Method::QueueDelete {
                reserved_1: 0,
                queue,
                if_unused: false,
                if_empty: false,
                no_wait: false,
            }]),
        ),
    ];
    let transaction = [
        turn(PEERS, &of(&[declare(limits.as_table()), Method::TxSelect {}])),
        turn(0, &[publish("", "q", b"a"), publish("", "q", b"b"), of(&[Method::TxCommit {}])].concat()),
        turn(0, &[publish("", "q", b"c"), of(&[Method::TxRollback {}])].concat()),
    ];
    vec![whole.concat(), transaction.concat(), turn(0, &log_in()), turn(0, b"HTTP/1.1 GET /")]
}
