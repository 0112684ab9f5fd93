//! When more comes in than goes out.

use std::time::Duration;

use tilemark_amqp::{Method, Properties, TableBuilder};

use crate::Config;
use crate::engine::testing::{Lab, QueueFlags, bind, bind_with, consume, declare, delete_queue, publish};

fn small_lab() -> Lab {
    let mut config = Config::new("127.0.0.1:0".parse().unwrap());
    config.memory_limit_bytes = 2 << 20;
    Lab::with(&config)
}

#[test]
fn publishers_wait_while_memory_is_short_and_go_on_when_it_is_free() {
    let mut lab = small_lab();
    let (publisher, consumer, newcomer) = (lab.client(), lab.client(), lab.client());
    lab.ask(publisher, &declare("q", QueueFlags::default()));
    let message = publish(1, "", "q", Properties::NONE, &[1; 50_000]);
    let mut published = 0;
    while lab.bytes(publisher, &message) == message.len() {
        published += 1;
        assert!(published < 100, "nothing stops the publisher");
    }
    assert!(lab.hear(publisher).contains(&r#"ConnectionBlocked { reason: "low on memory" }"#.to_owned()));
    assert!(lab.engine.is_paused(publisher));
    // Somebody who has not published yet is stopped at the first message, not before.
    assert_eq!(lab.ask(newcomer, &Method::TxSelect {}), ["TxSelectOk"]);
    assert_eq!(lab.bytes(newcomer, &message), 0);
    // A consumer is served, and frees memory.
    lab.send(consumer, 1, &consume("q", "c", true));
    let mut received = 0;
    for _ in 0..100 {
        received += lab.bodies(consumer).concat().len();
    }
    assert_eq!(received, published * 50_000);
    let resumed = lab.engine.take_resumed();
    assert!(resumed.contains(&publisher) && resumed.contains(&newcomer));
    assert!(lab.hear(publisher).contains(&"ConnectionUnblocked".to_owned()));
    assert_eq!(lab.bytes(publisher, &message), message.len());
}

#[test]
fn a_consumer_that_does_not_read_is_given_no_more_than_its_share() {
    let mut lab = small_lab();
    let (publisher, slow, quick) = (lab.client(), lab.client(), lab.client());
    lab.ask(publisher, &declare("q", QueueFlags::default()));
    lab.ask(slow, &consume("q", "slow", true));
    let message = publish(1, "", "q", Properties::NONE, &[1; 10_000]);
    for _ in 0..100 {
        lab.bytes(publisher, &message);
    }
    let waiting = lab.engine.outbox(slow).unwrap().len();
    assert!((500_000..600_000).contains(&waiting), "{waiting}");
    // The rest is for whoever reads.
    lab.send(quick, 1, &consume("q", "quick", true));
    assert!(lab.bodies(quick).concat().len() > 400_000);
}

#[test]
fn a_publisher_waits_a_moment_for_consumers_that_are_behind() {
    let mut lab = Lab::new();
    let (publisher, slow) = (lab.client(), lab.client());
    lab.ask(publisher, &declare("q", QueueFlags::default()));
    lab.ask(slow, &consume("q", "slow", true));
    let message = publish(1, "", "q", Properties::NONE, &[1; 100_000]);
    for _ in 0..18 {
        lab.bytes(publisher, &message);
    }
    assert!(lab.engine.is_paused(publisher));
    assert!(lab.engine.take_resumed().is_empty());
    // It goes on when they have caught up …
    while lab.engine.is_paused(publisher) {
        assert!(!lab.hear(slow).is_empty(), "the consumer has everything and the publisher still waits");
        lab.engine.take_resumed();
    }
    // … or when the moment has passed.
    for _ in 0..25 {
        lab.bytes(publisher, &message);
    }
    assert!(lab.engine.is_paused(publisher));
    lab.pass(Duration::from_millis(6));
    assert_eq!(lab.engine.take_resumed(), [publisher]);
}

#[test]
fn a_publisher_that_consumes_is_never_made_to_wait_for_consumers() {
    let mut lab = Lab::new();
    let both = lab.client();
    lab.ask(both, &declare("q", QueueFlags::default()));
    lab.ask(both, &crate::engine::testing::prefetch(1));
    lab.ask(both, &consume("q", "c", false));
    let message = publish(1, "", "q", Properties::NONE, &[1; 100_000]);
    for _ in 0..30 {
        lab.bytes(both, &message);
    }
    assert!(!lab.engine.is_paused(both));
}

#[test]
fn channel_flow_stops_deliveries() {
    let mut lab = Lab::new();
    let client = lab.client();
    lab.ask(client, &declare("q", QueueFlags::default()));
    lab.ask(client, &consume("q", "c", true));
    assert_eq!(lab.ask(client, &Method::ChannelFlow { active: false }), ["ChannelFlowOk { active: false }"]);
    lab.put(client, "q", "x");
    assert!(lab.hear(client).is_empty());
    lab.send(client, 1, &Method::ChannelFlow { active: true });
    assert_eq!(lab.bodies(client), ["x"]);
}

#[test]
fn unfinished_messages_cannot_take_all_memory() {
    let mut lab = small_lab();
    let client = lab.client();
    let message = publish(1, "", "q", Properties::NONE, &[0; 1_900_000]);
    lab.bytes(client, &message[..message.len() - 4010]);
    assert!(lab.hear(client).join("").contains("ConnectionClose { reply_code: 506"));
}

#[test]
fn a_client_that_sends_requests_without_reading_answers_is_not_read_from() {
    let mut lab = Lab::new();
    let client = lab.client();
    lab.ask(client, &declare("q", QueueFlags::default()));
    lab.put(client, "q", &"x".repeat(1_000_000));
    let mut wire = Vec::new();
    tilemark_amqp::put_method(&mut wire, 1, &crate::engine::testing::get("q", false));
    tilemark_amqp::put_method(&mut wire, 1, &Method::BasicRecover { requeue: true });
    let mut asked = 0;
    while lab.bytes(client, &wire) == wire.len() {
        asked += 1;
        assert!(asked < 20, "nothing stops the client");
    }
    assert!(asked >= 8 && lab.engine.is_paused(client));
    // It has read: it is heard again.
    assert!(!lab.hear(client).is_empty());
    assert_eq!(lab.engine.take_resumed(), [client]);
    assert_eq!(lab.bytes(client, &wire), wire.len());
}

/// A fanout to a thousand queues with a limit of 4 MiB; returns how many messages it took until the publisher had to wait.
fn fanned_out(select: Option<Method<'_>>) -> (Lab, u64) {
    let mut config = Config::new("127.0.0.1:0".parse().unwrap());
    config.memory_limit_bytes = 4 << 20;
    let mut lab = Lab::with(&config);
    let client = lab.client();
    for number in 0..1000 {
        let queue = format!("q{number}");
        lab.ask(client, &declare(&queue, QueueFlags::default()));
        lab.ask(client, &crate::engine::testing::bind(&queue, "amq.fanout", ""));
    }
    if let Some(select) = select {
        lab.ask(client, &select);
    }
    let message = publish(1, "amq.fanout", "", Properties::NONE, &[1; 16]);
    let mut published = 0;
    while lab.bytes(client, &message) == message.len() {
        published += 1;
        assert!(published < 10_000, "nothing stops the publisher");
    }
    assert!(lab.engine.statistics().memory_bytes < 2 * config.memory_limit_bytes);
    (lab, published)
}

#[test]
fn a_message_in_many_queues_counts_in_each() {
    let (_, published) = fanned_out(None);
    assert!((20..100).contains(&published), "{published}");
}

#[test]
fn messages_that_wait_for_a_commit_count_with_their_routes() {
    let (mut lab, published) = fanned_out(Some(Method::TxSelect {}));
    assert!((200..1000).contains(&published), "{published}");
    // A peer that leaves gives all of it back.
    for connection in lab.engine.connections.keys() {
        lab.engine.disconnect(connection);
    }
    assert_eq!((lab.engine.transaction_bytes, lab.engine.outbox_bytes), (0, 0));
    let other = lab.client();
    let message = publish(1, "amq.fanout", "", Properties::NONE, &[1; 16]);
    lab.hear(other);
    assert_eq!(lab.bytes(other, &message), message.len());
}

#[test]
fn answers_that_nobody_reads_count_and_end_the_deliveries() {
    let mut lab = small_lab();
    let publisher = lab.client();
    lab.ask(publisher, &declare("q", QueueFlags::default()));
    lab.put(publisher, "q", &"x".repeat(100_000));
    // Each asks for it, reads nothing and gives it back.
    for _ in 0..100 {
        let client = lab.client();
        let mut wire = Vec::new();
        tilemark_amqp::put_method(&mut wire, 1, &crate::engine::testing::get("q", false));
        tilemark_amqp::put_method(&mut wire, 1, &Method::BasicRecover { requeue: true });
        for _ in 0..20 {
            lab.bytes(client, &wire);
        }
    }
    let memory = lab.engine.statistics().memory_bytes;
    // The first one takes the limit, and each that comes after it no more than while memory is short: 128 KiB, and the answer
    // that goes beyond them.
    assert!(memory > 2 << 20, "{memory}");
    assert!(memory < 100 * 600_000, "{memory}");
    assert!(lab.hear(publisher).join("").contains("ConnectionBlocked"));
}

#[test]
fn queues_and_bindings_without_end_are_refused() {
    let mut lab = small_lab();
    let client = lab.client();
    let mut declared = 0;
    loop {
        let said = lab.ask(client, &declare(&format!("q{declared}"), QueueFlags::default())).join("");
        if said.contains("reply_code: 506") {
            assert!(said.contains("half of the broker's memory"), "{said}");
            break;
        }
        declared += 1;
        assert!(declared < 10_000, "nothing stops the client");
    }
    assert!(declared > 1000, "{declared}");
}

#[test]
fn arguments_and_patterns_of_bindings_count_and_are_free_again_when_they_are_gone() {
    let mut lab = small_lab();
    let client = lab.client();
    lab.ask(client, &declare("q", QueueFlags::default()));
    let before = lab.engine.statistics().memory_bytes;
    let value = "x".repeat(50_000);
    let mut bound = 0;
    while bound < 100 {
        let arguments = TableBuilder::new().text("name", &value).integer("number", bound);
        let said = lab.ask(client, &bind_with("q", "amq.headers", arguments.as_table())).join("");
        if said.contains("reply_code: 506") {
            break;
        }
        bound += 1;
    }
    // Half of 2 MiB.
    assert!((20..23).contains(&bound), "{bound}");
    let client = lab.client();
    lab.ask(client, &delete_queue("q"));
    let after = lab.engine.statistics().memory_bytes;
    assert!(after < before + 10_000, "{after} bytes, and {before} before");
    lab.ask(client, &declare("q", QueueFlags::default()));
    let words = "a.".repeat(120);
    let mut bound = 0;
    while bound < 1000 {
        let key = format!("{words}{bound}");
        if lab.ask(client, &bind("q", "amq.topic", &key)).join("").contains("reply_code: 506") {
            break;
        }
        bound += 1;
    }
    assert!(bound < 40, "{bound}");
}
