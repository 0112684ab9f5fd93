//! Exchanges, queues and bindings.

use std::time::Duration;

use tilemark_amqp::{Method, Properties, Table, TableBuilder};

use crate::engine::testing::{
    ExchangeFlags, Lab, QueueFlags, bind, consume, declare, declare_with, delete_queue, exchange,
    exchange_with, get, name, publish, unbind,
};

#[test]
fn exchanges_of_each_kind_reach_the_queues_they_should() {
    let mut lab = Lab::new();
    let client = lab.client();
    ["a", "b", "c"].iter().for_each(|queue| drop(lab.ask(client, &declare(queue, QueueFlags::default()))));
    lab.ask(client, &exchange("d", "direct"));
    for (queue, on, key) in [
        ("a", "d", "k"),
        ("b", "d", "k"),
        ("a", "amq.fanout", ""),
        ("b", "amq.fanout", "x"),
        ("b", "amq.fanout", "y"),
        ("c", "amq.topic", "news.#"),
        ("c", "amq.topic", "#.uk"),
        ("a", "amq.topic", "*.uk"),
    ] {
        assert_eq!(lab.ask(client, &bind(queue, on, key)), ["QueueBindOk"]);
    }
    for (on, key, expected) in [
        ("d", "k", "ab"),
        ("d", "other", ""),
        ("amq.fanout", "whatever", "ab"),
        ("amq.topic", "news.uk", "ac"),
        ("amq.topic", "news", "c"),
        ("amq.topic", "weather.uk.x", ""),
    ] {
        lab.bytes(client, &publish(1, on, key, Properties::NONE, b"x"));
        let mut reached = String::new();
        for queue in ["a", "b", "c"] {
            lab.send(client, 1, &get(queue, true));
            lab.send(client, 1, &get(queue, true));
            let count = lab.bodies(client).len();
            assert!(count < 2, "{queue} got it twice");
            reached.push_str(&queue[..count]);
        }
        assert_eq!(reached, expected, "{on} {key}");
    }
}

#[test]
fn a_queue_that_exists_otherwise_is_refused_with_plain_values() {
    let mut lab = Lab::new();
    let client = lab.client();
    let limits = TableBuilder::new()
        .integer("x-max-length", 5)
        .text("x-overflow", "reject-publish")
        .integer("x-expires", 60_000);
    lab.ask(client, &declare_with("q", QueueFlags::default(), limits.as_table()));
    let said = lab.refused(client, &declare("q", QueueFlags { durable: true, ..QueueFlags::default() }), 406);
    let expected = "queue 'q' exists: durable is false, asked for true; x-max-length is 5, asked for not set; \
                    x-overflow is reject-publish, asked for drop-head; x-expires is 60000 ms, asked for not set";
    assert!(said.contains(expected), "{said}");
}

#[test]
fn an_exchange_that_exists_otherwise_is_refused_with_plain_values() {
    let mut lab = Lab::new();
    let client = lab.client();
    lab.ask(client, &exchange("e", "direct"));
    let arguments = TableBuilder::new().text("alternate-exchange", "amq.fanout");
    let flags = ExchangeFlags { auto_delete: true, ..ExchangeFlags::default() };
    let said = lab.refused(client, &exchange_with("e", "topic", flags, arguments.as_table()), 406);
    let is = "type direct, durable false, auto-delete false, internal false, alternate-exchange not set";
    let asked =
        "type topic, durable false, auto-delete true, internal false, alternate-exchange 'amq.fanout'";
    assert!(said.contains(&format!("exchange 'e' exists as: {is}; asked for: {asked}")), "{said}");
}

#[test]
fn a_publisher_that_repeats_itself_notices_new_and_lost_bindings() {
    let mut lab = Lab::new();
    let client = lab.client();
    let message = publish(1, "amq.direct", "k", Properties::NONE, b"x");
    lab.bytes(client, &message);
    lab.ask(client, &declare("q", QueueFlags::default()));
    lab.ask(client, &bind("q", "amq.direct", "k"));
    lab.bytes(client, &message);
    assert_eq!(lab.ask(client, &unbind("q", "amq.direct", "k")), ["QueueUnbindOk"]);
    lab.bytes(client, &message);
    assert_eq!(lab.engine.statistics().messages, 1);
}

#[test]
fn an_exclusive_queue_belongs_to_its_connection_and_ends_with_it() {
    let mut lab = Lab::new();
    let (owner, other) = (lab.client(), lab.client());
    lab.ask(owner, &declare("mine", QueueFlags { exclusive: true, ..QueueFlags::default() }));
    lab.refused(other, &consume("mine", "c", true), 405);
    lab.engine.disconnect(owner);
    let third = lab.client();
    lab.refused(third, &consume("mine", "c", true), 404);
}

#[test]
fn an_auto_delete_queue_ends_with_its_last_consumer() {
    let mut lab = Lab::new();
    let (one, two) = (lab.client(), lab.client());
    lab.ask(one, &declare("q", QueueFlags { auto_delete: true, ..QueueFlags::default() }));
    lab.ask(one, &consume("q", "c", true));
    lab.ask(two, &consume("q", "c", true));
    lab.engine.disconnect(one);
    assert_eq!(lab.engine.statistics().queues, 1);
    lab.engine.disconnect(two);
    assert_eq!(lab.engine.statistics().queues, 0);
}

#[test]
fn a_deleted_queue_takes_its_messages_and_notifies_its_consumers() {
    let mut lab = Lab::new();
    let (client, other) = (lab.client(), lab.client());
    lab.ask(client, &declare("q", QueueFlags::default()));
    lab.put(client, "q", "held");
    lab.put(client, "q", "ready");
    lab.ask(other, &get("q", false));
    lab.ask(other, &crate::engine::testing::prefetch(1));
    lab.ask(other, &consume("q", "c", false));
    lab.put(client, "q", "more");
    let delete = delete_queue("q");
    assert_eq!(lab.ask(client, &delete), ["QueueDeleteOk { message_count: 1 }"]);
    assert_eq!(lab.hear(other), [r#"BasicCancel { consumer_tag: "c", no_wait: true }"#]);
    // Deleting what is gone succeeds; acknowledging what it had delivered still does, too.
    assert_eq!(lab.ask(client, &delete), ["QueueDeleteOk { message_count: 0 }"]);
    assert!(lab.ask(other, &Method::BasicAck { delivery_tag: 0, multiple: true }).is_empty());
    assert_eq!(lab.engine.statistics().messages, 0);
}

#[test]
fn names_are_generated_and_the_last_one_is_remembered() {
    let mut lab = Lab::new();
    let client = lab.client();
    let said = lab.ask(client, &declare("", QueueFlags::default())).join("");
    assert!(said.starts_with(r#"QueueDeclareOk { queue: "amq.gen-"#), "{said}");
    assert_eq!(lab.ask(client, &bind("", "amq.fanout", "")), ["QueueBindOk"]);
    lab.bytes(client, &publish(1, "amq.fanout", "", Properties::NONE, b"x"));
    assert_eq!(
        lab.ask(client, &Method::QueuePurge { reserved_1: 0, queue: name(""), no_wait: false }),
        ["QueuePurgeOk { message_count: 1 }"]
    );
}

#[test]
fn declaring_counts_messages_and_consumers() {
    let mut lab = Lab::new();
    let client = lab.client();
    lab.ask(client, &declare("q", QueueFlags::default()));
    lab.put(client, "q", "x");
    let said = lab.ask(client, &declare("q", QueueFlags::default()));
    assert_eq!(said, [r#"QueueDeclareOk { queue: "q", message_count: 1, consumer_count: 0 }"#]);
}

#[test]
fn an_auto_delete_exchange_ends_with_its_last_binding() {
    let mut lab = Lab::new();
    let client = lab.client();
    lab.ask(client, &auto_delete_exchange("e"));
    lab.ask(client, &declare("q", QueueFlags { exclusive: true, ..QueueFlags::default() }));
    lab.ask(client, &bind("q", "e", ""));
    lab.engine.disconnect(client);
    let client = lab.client();
    lab.refused(client, &exchange_passive("e"), 404);
}

#[test]
fn a_queue_that_nobody_uses_expires_and_takes_its_exchange_along() {
    let mut lab = Lab::new();
    let client = lab.client();
    let expires = TableBuilder::new().integer("x-expires", 5_000);
    let declare = declare_with("q", QueueFlags::default(), expires.as_table());
    lab.ask(client, &auto_delete_exchange("e"));
    lab.ask(client, &declare);
    lab.ask(client, &bind("q", "e", ""));
    let left = |lab: &Lab| (lab.engine.statistics().queues, lab.engine.statistics().exchanges);
    // A consumer, a get and a declaration are uses.
    lab.ask(client, &consume("q", "c", true));
    lab.pass(Duration::from_secs(8));
    lab.ask(client, &Method::BasicCancel { consumer_tag: name("c"), no_wait: false });
    for used in [get("q", true), declare] {
        lab.pass(Duration::from_secs(4));
        lab.ask(client, &used);
    }
    lab.pass(Duration::from_secs(4));
    lab.pass(Duration::from_secs(4));
    assert_eq!(left(&lab), (1, 1));
    lab.pass(Duration::from_secs(1));
    assert_eq!(left(&lab), (0, 0));
    let never = TableBuilder::new().integer("x-expires", 0);
    lab.refused(client, &declare_with("q", QueueFlags::default(), never.as_table()), 406);
}

fn auto_delete_exchange(exchange: &str) -> Method<'_> {
    let flags = ExchangeFlags { auto_delete: true, ..ExchangeFlags::default() };
    exchange_with(exchange, "fanout", flags, Table::default())
}

fn exchange_passive(exchange: &str) -> Method<'_> {
    let flags = ExchangeFlags { passive: true, ..ExchangeFlags::default() };
    exchange_with(exchange, "fanout", flags, Table::default())
}

#[test]
fn unbinding_what_is_gone_succeeds() {
    let mut lab = Lab::new();
    let client = lab.client();
    lab.ask(client, &declare("q", QueueFlags::default()));
    for (queue, exchange) in [("q", "amq.direct"), ("q", "absent"), ("absent", "amq.direct")] {
        assert_eq!(lab.ask(client, &unbind(queue, exchange, "k")), ["QueueUnbindOk"], "{queue} {exchange}");
    }
}

#[test]
fn without_a_queue_and_a_key_the_last_queue_is_bound_with_its_name() {
    let mut lab = Lab::new();
    let client = lab.client();
    lab.ask(client, &declare("q", QueueFlags::default()));
    assert_eq!(lab.ask(client, &bind("", "amq.direct", "")), ["QueueBindOk"]);
    for (key, held) in [("", 0), ("q", 1)] {
        lab.bytes(client, &publish(1, "amq.direct", key, Properties::NONE, b"x"));
        assert_eq!(lab.engine.statistics().messages, held, "key '{key}'");
    }
    assert_eq!(lab.ask(client, &unbind("", "amq.direct", "")), ["QueueUnbindOk"]);
    lab.bytes(client, &publish(1, "amq.direct", "q", Properties::NONE, b"x"));
    assert_eq!(lab.engine.statistics().messages, 1);
}

#[test]
fn a_passive_declaration_of_no_name_finds_nothing() {
    let mut lab = Lab::new();
    let client = lab.client();
    lab.ask(client, &declare("q", QueueFlags::default()));
    let passive = Method::QueueDeclare {
        reserved_1: 0,
        queue: name(""),
        passive: true,
        durable: false,
        exclusive: false,
        auto_delete: false,
        no_wait: false,
        arguments: Table::default(),
    };
    lab.refused(client, &passive, 404);
}
