//! Messages that a queue gives up and another one gets.

use std::time::Duration;

use tilemark_amqp::{Method, Properties, Table, TableBuilder};

use crate::engine::testing::{
    Lab, MemoryDisk, QueueFlags, bind, declare, declare_with, exchange, get, properties, publish,
};
use crate::ids::ConnectionId;
use crate::journal::Recovered;

fn to_exchange(exchange: &str) -> TableBuilder {
    TableBuilder::new().text("x-dead-letter-exchange", exchange)
}

fn reject(delivery_tag: u64) -> Method<'static> {
    Method::BasicReject { delivery_tag, requeue: false }
}

fn put(lab: &mut Lab, client: ConnectionId, body: &str, headers: &TableBuilder, expiration: &str) {
    let with = properties(headers, expiration);
    lab.bytes(client, &publish(1, "", "q", Properties::from_bytes(&with), body.as_bytes()));
}

/// Queue `q`, whose dead letters go to queue `dead` by its name.
fn lab_with(more: TableBuilder) -> (Lab, ConnectionId) {
    let mut lab = Lab::new();
    let client = lab.client();
    let arguments = more.text("x-dead-letter-exchange", "").text("x-dead-letter-routing-key", "dead");
    lab.ask(client, &declare_with("q", QueueFlags::default(), arguments.as_table()));
    lab.ask(client, &declare("dead", QueueFlags::default()));
    (lab, client)
}

#[test]
fn rejected_expired_and_surplus_messages_go_where_the_queue_says() {
    let (mut lab, client) = lab_with(TableBuilder::new().integer("x-max-length", 1));
    let none = TableBuilder::new();
    put(&mut lab, client, "too much", &none, "");
    put(&mut lab, client, "rejected", &none, "");
    lab.ask(client, &get("q", false));
    lab.send(client, 1, &reject(1));
    put(&mut lab, client, "over", &none, "10");
    lab.now += Duration::from_millis(10);
    lab.engine.set_now(lab.now);
    lab.engine.turn();
    for (body, reason, more) in [
        ("too much", "maxlen", ""),
        ("rejected", "rejected", ""),
        ("over", "expired", " original-expiration=10"),
    ] {
        let dead = lab.take(client, "dead").unwrap_or_else(|| panic!("{body} is missing"));
        assert_eq!(dead.body, body);
        let event = format!("count=1 reason={reason} queue=q exchange= routing-keys=[q]{more}");
        let expected = [
            format!("x-first-death-reason={reason}"),
            "x-first-death-queue=q".into(),
            "x-first-death-exchange=".into(),
            format!("x-death=[{{{event}}}]"),
        ];
        assert_eq!(dead.headers(), expected);
        assert_eq!(dead.for_broker().expiration, None, "it would end again");
    }
    assert_eq!(lab.engine.statistics().messages, 0);
}

#[test]
fn acknowledged_purged_and_deleted_messages_are_not_dead_letters() {
    let (mut lab, client) = lab_with(TableBuilder::new());
    let none = TableBuilder::new();
    put(&mut lab, client, "acknowledged", &none, "");
    lab.ask(client, &get("q", false));
    lab.send(client, 1, &Method::BasicAck { delivery_tag: 1, multiple: false });
    put(&mut lab, client, "purged", &none, "");
    lab.ask(
        client,
        &Method::QueuePurge { reserved_1: 0, queue: crate::engine::testing::name("q"), no_wait: false },
    );
    put(&mut lab, client, "deleted", &none, "");
    let queue = crate::engine::testing::name("q");
    lab.ask(
        client,
        &Method::QueueDelete { reserved_1: 0, queue, if_unused: false, if_empty: false, no_wait: false },
    );
    assert!(lab.take(client, "dead").is_none());
    assert_eq!(lab.engine.statistics().messages, 0);
}

#[test]
fn without_a_key_of_the_queue_a_message_keeps_its_own_ones() {
    let mut lab = Lab::new();
    let client = lab.client();
    lab.ask(client, &exchange("dlx", "direct"));
    let arguments = to_exchange("dlx");
    lab.ask(client, &declare_with("q", QueueFlags::default(), arguments.as_table()));
    for (queue, key) in [("a", "q"), ("b", "more")] {
        lab.ask(client, &declare(queue, QueueFlags::default()));
        lab.ask(client, &bind(queue, "dlx", key));
    }
    put(&mut lab, client, "x", &TableBuilder::new().texts("CC", [&b"more"[..]]), "");
    lab.ask(client, &get("q", false));
    lab.send(client, 1, &reject(1));
    for queue in ["a", "b"] {
        let dead = lab.take(client, queue).unwrap();
        assert!(dead.headers().last().unwrap().contains("routing-keys=[q more]"), "{:?}", dead.headers());
    }
    // Without its exchange a dead letter is dropped.
    let name = crate::engine::testing::name("dlx");
    lab.ask(
        client,
        &Method::ExchangeDelete { reserved_1: 0, exchange: name, if_unused: false, no_wait: false },
    );
    put(&mut lab, client, "x", &TableBuilder::new(), "");
    lab.ask(client, &get("q", false));
    lab.send(client, 1, &reject(4));
    assert_eq!(lab.engine.statistics().messages, 0);
}

#[test]
fn deaths_are_counted_by_queue_and_reason_newest_first() {
    let (mut lab, client) = lab_with(TableBuilder::new());
    let back = TableBuilder::new()
        .text("x-dead-letter-exchange", "")
        .text("x-dead-letter-routing-key", "q")
        .integer("x-message-ttl", 10);
    lab.ask(client, &declare_with("retry", QueueFlags::default(), back.as_table()));
    lab.ask(client, &declare_with("dead", QueueFlags::default(), Table::default()));
    put(&mut lab, client, "x", &TableBuilder::new().text("own", "kept"), "");
    // Rejected, published again by the test as a client does that retries, over, rejected …
    let mut tag = 0;
    for _ in 0..3 {
        lab.ask(client, &get("q", false));
        tag += 1;
        lab.send(client, 1, &reject(tag));
        let dead = lab.take(client, "dead").unwrap();
        tag += 1;
        let headers = dead.for_broker().headers.raw_entries();
        let headers = headers.fold(TableBuilder::new(), |table, (_, entry)| table.raw_entry(entry));
        let with = properties(&headers, "");
        lab.bytes(client, &publish(1, "", "retry", Properties::from_bytes(&with), b"x"));
        lab.now += Duration::from_millis(10);
        lab.engine.set_now(lab.now);
        lab.engine.turn();
    }
    let last = lab.take(client, "q").unwrap();
    assert_eq!(
        last.headers(),
        [
            "own=kept",
            "x-first-death-reason=rejected",
            "x-first-death-queue=q",
            "x-first-death-exchange=",
            "x-death=[{count=3 reason=expired queue=retry exchange= routing-keys=[retry]} \
             {count=3 reason=rejected queue=q exchange= routing-keys=[q]}]",
        ]
    );
}

#[test]
fn a_cycle_of_dead_letters_ends_unless_it_has_a_rejection() {
    let mut lab = Lab::new();
    let client = lab.client();
    for (queue, next) in [("q", "r"), ("r", "q")] {
        let arguments = TableBuilder::new()
            .text("x-dead-letter-exchange", "")
            .text("x-dead-letter-routing-key", next)
            .integer("x-message-ttl", 10);
        lab.ask(client, &declare_with(queue, QueueFlags::default(), arguments.as_table()));
    }
    let pass = |lab: &mut Lab| {
        lab.now += Duration::from_millis(10);
        lab.engine.set_now(lab.now);
        lab.engine.turn();
    };
    put(&mut lab, client, "x", &TableBuilder::new(), "");
    pass(&mut lab);
    assert_eq!(lab.engine.statistics().messages, 1, "it is in r");
    pass(&mut lab);
    assert_eq!(lab.engine.statistics().messages, 0, "it would be in q again by itself");
    put(&mut lab, client, "x", &TableBuilder::new(), "");
    for tag in 1..=3 {
        lab.ask(client, &get("q", false));
        lab.send(client, 1, &reject(tag));
        pass(&mut lab);
        assert_eq!(lab.engine.statistics().messages, 1, "somebody has rejected it in between");
    }
}

#[test]
fn dead_letters_without_end_are_published_without_recursion_and_in_turns() {
    // Each queue holds one message and passes the one before on to the next queue.
    let mut lab = Lab::new();
    let client = lab.client();
    let count = 1000;
    for number in 0..count {
        let next = format!("q{}", number + 1);
        let arguments = TableBuilder::new()
            .text("x-dead-letter-exchange", "")
            .text("x-dead-letter-routing-key", &next)
            .integer("x-max-length", 0);
        lab.send(
            client,
            1,
            &declare_with(&format!("q{number}"), QueueFlags::default(), arguments.as_table()),
        );
    }
    lab.ask(client, &declare(&format!("q{count}"), QueueFlags::default()));
    lab.bytes(client, &publish(1, "", "q0", Properties::NONE, b"x"));
    let mut turns = 0;
    while lab.engine.has_work() {
        lab.engine.turn();
        turns += 1;
    }
    assert!((2..100).contains(&turns), "{turns} turns");
    assert_eq!(lab.take(client, &format!("q{count}")).unwrap().body, "x");
}

#[test]
fn times_and_dead_letters_survive_a_restart_and_time_passes_meanwhile() {
    let mut lab = Lab::new();
    lab.engine.clock_mut().set_wall_at_start_ms(1_000_000);
    let disk = MemoryDisk::default();
    lab.engine.restore(&Recovered::default(), Box::new(disk.clone()));
    let client = lab.client();
    let durable = QueueFlags { durable: true, ..QueueFlags::default() };
    let arguments = TableBuilder::new()
        .text("x-dead-letter-exchange", "")
        .text("x-dead-letter-routing-key", "dead")
        .integer("x-message-ttl", 60_000);
    lab.ask(client, &declare_with("q", durable, arguments.as_table()));
    lab.ask(client, &declare("dead", durable));
    let with = |expiration: &str| {
        let ends = properties(&TableBuilder::new(), expiration);
        let mode = Properties::PERSISTENT.as_bytes();
        if expiration.is_empty() { mode.to_vec() } else { [&[0x11, 0, 2][..], &ends[2..]].concat() }
    };
    for (body, expiration) in [("own", "5000"), ("queue's", "")] {
        let with = with(expiration);
        lab.bytes(client, &publish(1, "", "q", Properties::from_bytes(&with), body.as_bytes()));
    }
    lab.pass(Duration::from_secs(1));
    let mut next = Lab::new();
    // Nine seconds after the end.
    next.engine.clock_mut().set_wall_at_start_ms(1_010_000);
    next.engine.restore(&disk.recovered(), Box::new(disk));
    next.engine.turn();
    let client = next.client();
    let dead = next.take(client, "dead").unwrap();
    assert_eq!(dead.body, "own");
    assert!(dead.headers()[3].contains("original-expiration=5000"));
    assert_eq!(next.engine.next_alarm(), Some(next.now + Duration::from_secs(50)));
    next.pass(Duration::from_secs(50));
    // The other one was silent for too long.
    let client = next.client();
    assert_eq!(next.take(client, "dead").unwrap().body, "queue's");
    assert_eq!(next.engine.journal_mut().unwrap().live_messages(), 0);
}

#[test]
fn arguments_of_dead_letters_are_checked() {
    let alone = TableBuilder::new().text("x-dead-letter-routing-key", "k");
    let number = TableBuilder::new().integer("x-dead-letter-exchange", 1);
    for (arguments, code) in [(alone, 406), (number, 406)] {
        let mut lab = Lab::new();
        let client = lab.client();
        lab.refused(client, &declare_with("q", QueueFlags::default(), arguments.as_table()), code);
    }
    let (mut lab, client) = lab_with(TableBuilder::new());
    let other = to_exchange("amq.direct");
    let said = lab.refused(client, &declare_with("q", QueueFlags::default(), other.as_table()), 406);
    let expected = "x-dead-letter-exchange is '', asked for 'amq.direct'; \
                    x-dead-letter-routing-key is 'dead', asked for not set";
    assert!(said.contains(expected), "{said}");
}
