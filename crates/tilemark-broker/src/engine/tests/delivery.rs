//! Messages from publisher to consumer.

use tilemark_amqp::{Method, Properties};

use crate::engine::testing::{
    Lab, QueueFlags, ack, consume, declare, declare_with, get, name, prefetch, publish, publish_as,
};

fn lab_with_queue() -> (Lab, crate::ids::ConnectionId) {
    let mut lab = Lab::new();
    let client = lab.client();
    lab.ask(client, &declare("q", QueueFlags::default()));
    (lab, client)
}

#[test]
fn a_message_reaches_a_consumer_with_its_route_and_in_order() {
    let (mut lab, client) = lab_with_queue();
    lab.ask(client, &consume("q", "c", true));
    (0..3).for_each(|n| lab.put(client, "q", &format!("m{n}")));
    let said = lab.hear(client);
    let deliver = r#"BasicDeliver { consumer_tag: "c", delivery_tag: 1, redelivered: false, exchange: "", routing_key: "q" }"#;
    assert_eq!(said[..2], [deliver, "= m0"]);
    assert_eq!([&said[3], &said[5]], ["= m1", "= m2"]);
}

#[test]
fn large_and_empty_bodies_arrive_whole() {
    let (mut lab, client) = lab_with_queue();
    for length in [0, 1, 3999, 4000, 4001, 100_000, 700_000] {
        let body = "x".repeat(length);
        lab.put(client, "q", &body);
        let said = lab.ask(client, &get("q", true));
        let received: String = said[1..].iter().map(|part| &part[2..]).collect();
        assert_eq!(received.len(), length);
    }
    assert_eq!(lab.engine.statistics().messages, 0);
}

#[test]
fn consumers_take_turns_and_prefetch_limits_each() {
    let (mut lab, client) = lab_with_queue();
    let (one, two) = (lab.client(), lab.client());
    lab.ask(one, &prefetch(2));
    lab.ask(one, &consume("q", "one", false));
    lab.ask(two, &consume("q", "two", true));
    (0..6).for_each(|n| lab.put(client, "q", &n.to_string()));
    assert_eq!(lab.bodies(one), ["0", "2"]);
    assert_eq!(lab.bodies(two), ["1", "3", "4", "5"]);
    lab.send(one, 1, &ack(1));
    lab.put(client, "q", "6");
    lab.put(client, "q", "7");
    assert_eq!((lab.bodies(one).len(), lab.bodies(two).len()), (1, 1));
}

#[test]
fn an_acknowledgement_makes_room_for_the_next() {
    let (mut lab, client) = lab_with_queue();
    (0..5).for_each(|n| lab.put(client, "q", &n.to_string()));
    lab.ask(client, &prefetch(2));
    lab.send(client, 1, &consume("q", "c", false));
    assert_eq!(lab.bodies(client), ["0", "1"]);
    lab.send(client, 1, &Method::BasicAck { delivery_tag: 2, multiple: true });
    assert_eq!(lab.bodies(client), ["2", "3"]);
    lab.send(client, 1, &ack(4));
    assert_eq!(lab.bodies(client), ["4"]);
    lab.send(client, 1, &Method::BasicAck { delivery_tag: 0, multiple: true });
    assert_eq!(lab.engine.statistics().messages, 0);
}

#[test]
fn a_limit_for_the_channel_counts_all_its_consumers() {
    let (mut lab, client) = lab_with_queue();
    (0..5).for_each(|n| lab.put(client, "q", &n.to_string()));
    lab.ask(client, &Method::BasicQos { prefetch_size: 0, prefetch_count: 3, global: true });
    lab.send(client, 1, &consume("q", "a", false));
    lab.send(client, 1, &consume("q", "b", false));
    assert_eq!(lab.bodies(client).len(), 3);
    lab.send(client, 1, &ack(2));
    assert_eq!(lab.bodies(client).len(), 1);
}

#[test]
fn what_is_not_acknowledged_comes_back_in_order_and_marked() {
    let (mut lab, client) = lab_with_queue();
    let lost = lab.client();
    (0..5).for_each(|n| lab.put(client, "q", &n.to_string()));
    lab.ask(lost, &prefetch(3));
    lab.ask(lost, &consume("q", "c", false));
    lab.send(lost, 1, &ack(2));
    lab.engine.disconnect(lost);
    lab.send(client, 1, &consume("q", "c", true));
    let said = lab.hear(client).join("\n");
    assert!(said.contains("delivery_tag: 1, redelivered: true"), "{said}");
    assert!(said.contains("delivery_tag: 4, redelivered: false"), "{said}");
    let bodies: Vec<&str> = said.lines().filter(|line| line.starts_with('=')).collect();
    assert_eq!(bodies, ["= 0", "= 2", "= 3", "= 4"]);
}

#[test]
fn reject_and_nack_requeue_or_discard() {
    let (mut lab, client) = lab_with_queue();
    (0..4).for_each(|n| lab.put(client, "q", &n.to_string()));
    (0..4).for_each(|_| lab.send(client, 1, &get("q", false)));
    assert_eq!(lab.bodies(client), ["0", "1", "2", "3"]);
    lab.send(client, 1, &Method::BasicReject { delivery_tag: 3, requeue: true });
    lab.send(client, 1, &Method::BasicNack { delivery_tag: 2, multiple: true, requeue: true });
    lab.send(client, 1, &Method::BasicReject { delivery_tag: 4, requeue: false });
    (0..4).for_each(|_| lab.send(client, 1, &get("q", true)));
    let said = lab.hear(client);
    assert_eq!(said.iter().filter(|said| said.starts_with('=')).collect::<Vec<_>>(), ["= 0", "= 1", "= 2"]);
    assert!(said.last().unwrap().starts_with("BasicGetEmpty"));
    assert_eq!(lab.engine.statistics().messages, 0);
}

#[test]
fn recover_requeues_everything() {
    let (mut lab, client) = lab_with_queue();
    lab.put(client, "q", "a");
    lab.ask(client, &get("q", false));
    let said = lab.ask(client, &Method::BasicRecover { requeue: true });
    assert_eq!(said, ["BasicRecoverOk"]);
    assert!(lab.ask(client, &get("q", true))[0].contains("redelivered: true"));
}

#[test]
fn confirms_come_in_ranges_and_returns_before_them() {
    let (mut lab, client) = lab_with_queue();
    assert_eq!(lab.ask(client, &Method::ConfirmSelect { no_wait: false }), ["ConfirmSelectOk"]);
    let mut wire = Vec::new();
    (0..3).for_each(|_| wire.extend(publish(1, "", "q", Properties::NONE, b"x")));
    lab.bytes(client, &wire);
    assert_eq!(lab.hear(client), ["BasicAck { delivery_tag: 3, multiple: true }"]);
    lab.bytes(client, &publish_as(1, "", "nowhere", Properties::NONE, b"lost", true));
    let said = lab.hear(client);
    assert!(said[0].starts_with(
        r#"BasicReturn { reply_code: 312, reply_text: "NO_ROUTE", exchange: "", routing_key: "nowhere""#
    ));
    assert_eq!(said[1..], ["= lost", "BasicAck { delivery_tag: 4, multiple: false }"]);
    lab.bytes(client, &publish(1, "", "nowhere", Properties::NONE, b"dropped"));
    assert_eq!(lab.hear(client), ["BasicAck { delivery_tag: 5, multiple: false }"]);
}

#[test]
fn a_full_queue_drops_its_oldest_or_refuses_the_newest() {
    let mut lab = Lab::new();
    let client = lab.client();
    let drop_head = tilemark_amqp::TableBuilder::new().integer("x-max-length", 2);
    let reject =
        tilemark_amqp::TableBuilder::new().integer("x-max-length", 2).text("x-overflow", "reject-publish");
    let flags = QueueFlags::default();
    lab.ask(client, &crate::engine::testing::declare_with("drop", flags, drop_head.as_table()));
    lab.ask(client, &crate::engine::testing::declare_with("reject", flags, reject.as_table()));
    lab.ask(client, &Method::ConfirmSelect { no_wait: false });
    for queue in ["drop", "reject"] {
        (0..3).for_each(|n| lab.put(client, queue, &n.to_string()));
    }
    assert!(lab.hear(client).last().unwrap().starts_with("BasicNack { delivery_tag: 6"));
    let mut left = |queue| {
        (0..2).for_each(|_| lab.send(client, 1, &get(queue, true)));
        lab.bodies(client)
    };
    assert_eq!(left("drop"), ["1", "2"]);
    assert_eq!(left("reject"), ["0", "1"]);
}

#[test]
fn a_transaction_counts_whole_or_not_at_all() {
    let (mut lab, client) = lab_with_queue();
    lab.put(client, "q", "before");
    assert_eq!(lab.ask(client, &Method::TxSelect {}), ["TxSelectOk"]);
    let rounds = [(Method::TxRollback {}, "TxRollbackOk", 1), (Method::TxCommit {}, "TxCommitOk", 2)];
    for (end, answer, messages) in rounds {
        lab.ask(client, &get("q", false));
        lab.put(client, "q", "x");
        lab.put(client, "q", "y");
        let tag = if answer == "TxRollbackOk" { 1 } else { 2 };
        lab.send(client, 1, &ack(tag));
        assert_eq!(lab.ask(client, &end), [answer]);
        if answer == "TxRollbackOk" {
            lab.ask(client, &Method::BasicNack { delivery_tag: 1, multiple: false, requeue: true });
            lab.ask(client, &Method::TxCommit {});
        }
        assert_eq!(lab.engine.statistics().messages, messages, "{answer}");
    }
    lab.ask(client, &get("q", true));
    assert_eq!(lab.bodies(client).len(), 0);
}

#[test]
fn a_commit_fails_when_a_full_queue_refuses_a_message() {
    let mut lab = Lab::new();
    let client = lab.client();
    let reject =
        tilemark_amqp::TableBuilder::new().integer("x-max-length", 1).text("x-overflow", "reject-publish");
    let flags = QueueFlags::default();
    lab.ask(client, &crate::engine::testing::declare_with("q", flags, reject.as_table()));
    lab.ask(client, &Method::TxSelect {});
    lab.put(client, "q", "x");
    assert_eq!(lab.ask(client, &Method::TxCommit {}), ["TxCommitOk"]);
    lab.put(client, "q", "y");
    let said = lab.refused(client, &Method::TxCommit {}, 406);
    assert!(said.contains("ChannelClose") && said.contains("refused a message"), "{said}");
}

#[test]
fn a_cancelled_consumer_gets_nothing_more() {
    let (mut lab, client) = lab_with_queue();
    lab.ask(client, &consume("q", "c", true));
    let said = lab.ask(client, &Method::BasicCancel { consumer_tag: name("c"), no_wait: false });
    assert_eq!(said, [r#"BasicCancelOk { consumer_tag: "c" }"#]);
    lab.put(client, "q", "x");
    assert!(lab.hear(client).is_empty());
}

/// Two queues with 50 messages each, and consumers of both on one channel with a limit for all of them.
fn lab_with_shared_limit(limit: u16) -> (Lab, crate::ids::ConnectionId) {
    let (mut lab, client) = lab_with_queue();
    lab.ask(client, &declare("r", QueueFlags::default()));
    for queue in ["q", "r"] {
        (0..50).for_each(|_| lab.put(client, queue, queue));
    }
    lab.ask(client, &Method::BasicQos { prefetch_size: 0, prefetch_count: limit, global: true });
    (lab, client)
}

#[test]
fn queues_that_share_a_channels_limit_take_turns() {
    let (mut lab, client) = lab_with_shared_limit(1);
    lab.send(client, 1, &consume("q", "a", false));
    lab.send(client, 1, &consume("r", "b", false));
    let mut seen = lab.bodies(client);
    for tag in 1..50 {
        lab.send(client, 1, &ack(tag));
        seen.extend(lab.bodies(client));
        // A queue that is never empty has its turn like others.
        lab.put(client, "q", "q");
    }
    let of_q = seen.iter().filter(|body| *body == "q").count();
    assert!((24..=26).contains(&of_q) && seen.len() == 50, "{of_q} of {} came from q", seen.len());
}

#[test]
fn a_commit_makes_room_for_every_queue_of_its_channel() {
    let (mut lab, client) = lab_with_shared_limit(2);
    lab.ask(client, &Method::TxSelect {});
    lab.send(client, 1, &consume("q", "a", false));
    lab.send(client, 1, &consume("r", "b", false));
    let mut seen = lab.bodies(client);
    let mut tag = 0;
    while seen.len() < 100 {
        let before = seen.len();
        tag += 2;
        lab.send(client, 1, &Method::BasicAck { delivery_tag: tag, multiple: true });
        // What is acknowledged and not committed still counts.
        assert!(lab.bodies(client).is_empty());
        lab.send(client, 1, &Method::TxCommit {});
        seen.extend(lab.bodies(client));
        assert!(seen.len() > before, "nothing comes after {before} messages");
    }
}

#[test]
fn a_limit_of_length_holds_after_a_requeue() {
    let mut lab = Lab::new();
    let client = lab.client();
    let arguments = tilemark_amqp::TableBuilder::new().integer("x-max-length", 2);
    lab.ask(client, &declare_with("l", QueueFlags::default(), arguments.as_table()));
    ["0", "1"].iter().for_each(|body| lab.put(client, "l", body));
    lab.ask(client, &get("l", false));
    ["2", "3"].iter().for_each(|body| lab.put(client, "l", body));
    lab.send(client, 1, &Method::BasicReject { delivery_tag: 1, requeue: true });
    (0..3).for_each(|_| lab.send(client, 1, &get("l", true)));
    assert_eq!(lab.bodies(client), ["2", "3"]);
}
