//! Clients that do everything at random, some of them mad: nothing panics, nothing leaks, a bystander notices nothing.

use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{RngExt, SeedableRng};
use tilemark_amqp::{
    FrameKind, Method, Properties, Table, TableBuilder, decode_frame, put_frame, put_method,
};

use crate::engine::testing::{
    Lab, QueueFlags, Quick, bind, consume, declare_with, exchange, get, name, publish_as, unbind,
};
use crate::ids::ConnectionId;
use crate::journal::Recovered;

const NAMES: [&str; 4] = ["a", "b", "", "absent"];
const EXCHANGES: [&str; 5] = ["", "amq.fanout", "amq.topic", "amq.headers", "e"];
/// None, persistent, expiration 60000, user-id "u" (who nobody here is), and `CC` with the queue a.
const PROPERTIES: [&[u8]; 5] = [
    &[0, 0],
    &[0x10, 0, 2],
    &[0x01, 0, 5, b'6', b'0', b'0', b'0', b'0'],
    &[0, 0x10, 1, b'u'],
    &[0x20, 0, 0, 0, 0, 14, 2, b'C', b'C', b'A', 0, 0, 0, 6, b'S', 0, 0, 0, 1, b'a'],
];
const KEYS: [&str; 5] = ["a", "b", "x.y", "#", "*.y"];

fn flag(rng: &mut StdRng) -> bool {
    rng.random_bool(0.5)
}

fn pick<'a>(rng: &mut StdRng, from: &[&'a str]) -> &'a str {
    from.choose(rng).expect("the lists are not empty")
}

/// A method that may be right or wrong at this moment.
fn random_method<'a>(rng: &mut StdRng, durable: f64, limits: &'a TableBuilder) -> Method<'a> {
    let queue = pick(rng, &NAMES);
    let delivery_tag = rng.random_range(0..20);
    match rng.random_range(0..24) {
        0 => {
            let flags = QueueFlags {
                durable: rng.random_bool(durable),
                exclusive: rng.random_bool(0.1),
                auto_delete: flag(rng),
            };
            let arguments = if rng.random_bool(0.2) { limits.as_table() } else { Table::default() };
            declare_with(queue, flags, arguments)
        }
        1 => exchange("e", if flag(rng) { "topic" } else { "direct" }),
        2..4 => bind(queue, pick(rng, &EXCHANGES), pick(rng, &KEYS)),
        4 => unbind(queue, pick(rng, &EXCHANGES), pick(rng, &KEYS)),
        5 => Method::QueueDelete {
            reserved_1: 0,
            queue: name(queue),
            if_unused: flag(rng),
            if_empty: flag(rng),
            no_wait: flag(rng),
        },
        6 => Method::QueuePurge { reserved_1: 0, queue: name(queue), no_wait: flag(rng) },
        7..10 => consume(queue, pick(rng, &["t", "u", ""]), flag(rng)),
        10 => Method::BasicCancel { consumer_tag: name(pick(rng, &["t", "u"])), no_wait: flag(rng) },
        11..13 => get(queue, flag(rng)),
        13..16 => Method::BasicAck { delivery_tag, multiple: flag(rng) },
        16 => Method::BasicNack { delivery_tag, multiple: flag(rng), requeue: flag(rng) },
        17 => Method::BasicReject { delivery_tag, requeue: flag(rng) },
        18 => Method::BasicRecover { requeue: true },
        19 => {
            Method::BasicQos { prefetch_size: 0, prefetch_count: rng.random_range(0..4), global: flag(rng) }
        }
        20 => *[Method::TxSelect {}, Method::ConfirmSelect { no_wait: false }].choose(rng).expect("two"),
        21 => *[Method::TxCommit {}, Method::TxRollback {}].choose(rng).expect("two"),
        22 => Method::ChannelFlow { active: flag(rng) },
        _ => Method::ExchangeDelete {
            reserved_1: 0,
            exchange: name("e"),
            if_unused: flag(rng),
            no_wait: false,
        },
    }
}

fn random_bytes(rng: &mut StdRng, durable: f64) -> Vec<u8> {
    let limits = TableBuilder::new().integer("x-max-length", 3);
    let mut wire = Vec::new();
    if rng.random_bool(0.4) {
        // Most of them fit in one frame.
        let longest = if flag(rng) { 4000 } else { 9000 };
        let length = if rng.random_bool(0.1) { 0 } else { rng.random_range(0..longest) };
        let body = vec![7; length];
        let usual = rng.random_range(0..2);
        let place = if rng.random_bool(0.9) { usual } else { rng.random_range(2..5) };
        let properties = Properties::from_bytes(PROPERTIES[place]);
        wire = publish_as(1, pick(rng, &EXCHANGES), pick(rng, &KEYS), properties, &body, flag(rng));
    } else {
        put_method(&mut wire, rng.random_range(1..3), &random_method(rng, durable, &limits));
    }
    if rng.random_bool(0.02) {
        let at = rng.random_range(0..wire.len());
        wire[at] ^= 1 << rng.random_range(0..8);
    }
    wire
}

/// Answers closes as a good client does; true when the connection is over.
fn answer(lab: &mut Lab, client: ConnectionId, said: &[String]) -> bool {
    for said in said {
        if said.starts_with("ChannelClose {") {
            for channel in 1..3 {
                lab.send(client, channel, &Method::ChannelCloseOk {});
                lab.send(client, channel, &Method::ChannelOpen { reserved_1: name("") });
            }
        }
        if said.starts_with("ConnectionClose {") {
            lab.send(client, 0, &Method::ConnectionCloseOk {});
        }
    }
    lab.engine.is_ended(client)
}

#[test]
fn nothing_that_clients_do_breaks_the_broker_or_a_bystander() {
    let mut lab = Lab::new();
    storm(&mut lab, 0.0);
}

#[test]
fn nothing_that_clients_do_breaks_a_broker_with_a_journal() {
    let mut lab = Lab::new();
    lab.engine.restore(&Recovered::default(), Box::new(Quick::default()));
    lab.engine.journal_mut().expect("restored above").set_segment_bytes(20_000);
    storm(&mut lab, 0.7);
    let journal = lab.engine.journal_mut().expect("restored above");
    assert_eq!((journal.live_messages(), journal.live_bytes()), (0, 0));
}

/// `durable` is the share of declared queues that are.
fn storm(lab: &mut Lab, durable: f64) {
    let mut rng = StdRng::seed_from_u64(7);
    let bystander = lab.client();
    lab.ask(
        bystander,
        &declare_with("mine", QueueFlags { exclusive: true, ..QueueFlags::default() }, Table::default()),
    );
    let mut clients: Vec<ConnectionId> = (0..4).map(|_| lab.client()).collect();
    for round in 0..60_000 {
        let place = rng.random_range(0..clients.len());
        lab.bytes(clients[place], &random_bytes(&mut rng, durable));
        let is_over = rng.random_bool(0.5) && {
            let said = lab.hear(clients[place]);
            answer(lab, clients[place], &said)
        };
        if is_over || rng.random_bool(0.003) {
            lab.engine.disconnect(clients[place]);
            clients[place] = lab.client();
            lab.send(clients[place], 2, &Method::ChannelOpen { reserved_1: name("") });
        }
        if round % 1000 == 0 {
            lab.put(bystander, "mine", "x");
            let said = lab.ask(bystander, &get("mine", true));
            assert_eq!(said.last().map(String::as_str), Some("= x"));
        }
    }
    clients.into_iter().for_each(|client| lab.engine.disconnect(client));
    for queue in lab.engine.queues.keys() {
        lab.engine.remove_queue(queue);
    }
    lab.engine.disconnect(bystander);
    assert_eq!((lab.engine.consumers.len(), lab.engine.assembling_bytes), (0, 0));
    let left = lab.engine.statistics();
    assert!(left.published > 5_000 && left.delivered > 2_000, "{left:?}");
    assert_eq!((left.connections, left.messages, left.queues), (0, 0, 0), "{left:?}");
}

/// Without what the broker makes up in names of queues and consumers: 32 hexadecimal digits behind a hyphen.
fn without_random_names(said: &str) -> String {
    let parts = said.split('-').map(|part| match part.split_at_checked(32) {
        Some((digits, rest)) if digits.bytes().all(|digit| digit.is_ascii_hexdigit()) => rest,
        _ => part,
    });
    parts.collect()
}

/// A publish whose frames come together goes another way through the engine than one whose frames come one by one.
#[test]
fn what_comes_in_one_piece_does_what_it_does_byte_by_byte() {
    compare([Lab::new(), Lab::new()], 0.0);
}

#[test]
fn what_comes_in_one_piece_does_what_it_does_byte_by_byte_with_a_journal() {
    let with_journal = || {
        let mut lab = Lab::new();
        lab.engine.restore(&Recovered::default(), Box::new(Quick::default()));
        lab
    };
    compare([with_journal(), with_journal()], 0.7);
}

/// Sends the same to both, whole to the first and byte by byte to the second. `durable` is the share of declared queues that are.
fn compare(mut labs: [Lab; 2], durable: f64) {
    let mut rng = StdRng::seed_from_u64(8);
    let mut empty_body = Vec::new();
    put_frame(&mut empty_body, FrameKind::Body, 1, b"");
    let mut clients = labs.each_mut().map(Lab::client);
    let mut bodies = 0;
    for _ in 0..4_000 {
        let again = random_bytes(&mut rng, durable);
        let between = random_bytes(&mut rng, durable);
        let first_frame = match decode_frame(&again, 1 << 20) {
            Ok(Some((_, length))) if rng.random_bool(0.1) => &again[..length],
            _ => &[],
        };
        // It belongs to nothing, whatever was before it.
        let last: &[u8] = if rng.random_bool(0.05) { &empty_body } else { &[] };
        let wire = [&again[..], &between, &again, first_frame, &again, last].concat();
        labs[0].bytes(clients[0], &wire);
        let mut left = Vec::new();
        for byte in &wire {
            left.push(*byte);
            let used = labs[1].engine.receive(clients[1], &left);
            left.drain(..used);
        }
        let said = [0, 1].map(|side| labs[side].hear(clients[side]));
        let comparable = said
            .each_ref()
            .map(|said| said.iter().map(|said| without_random_names(said)).collect::<Vec<_>>());
        assert_eq!(comparable[0], comparable[1]);
        bodies += said[0].iter().filter(|said| said.starts_with('=')).count();
        let is_over = [0, 1].map(|side| answer(&mut labs[side], clients[side], &said[side]));
        assert_eq!(is_over[0], is_over[1]);
        if is_over[0] {
            for (lab, client) in labs.iter_mut().zip(&mut clients) {
                lab.engine.disconnect(*client);
                *client = lab.client();
                lab.send(*client, 2, &Method::ChannelOpen { reserved_1: name("") });
            }
        }
    }
    let [whole, bytewise] = labs.each_ref().map(|lab| lab.engine.statistics());
    assert_eq!(
        (whole.published, whole.delivered, whole.memory_bytes),
        (bytewise.published, bytewise.delivered, bytewise.memory_bytes)
    );
    assert!(whole.published > 1_500 && bodies > 1_000, "{whole:?}, {bodies} bodies");
    let taken_at_once = labs.each_ref().map(|lab| lab.engine.taken_at_once);
    assert!(taken_at_once[0] > 300 && taken_at_once[1] == 0, "{taken_at_once:?}");
}
