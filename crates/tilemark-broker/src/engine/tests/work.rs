//! No peer makes a turn long: what takes much is done in many turns, and others are served in between. What a turn costs is
//! counted in steps.

use tilemark_amqp::{Method, Properties, put_method};

use crate::engine::testing::{Lab, QueueFlags, bind, consume, declare, delete_queue, get, name, publish};
use crate::engine::work::{STEPS_OF_A_PEER, STEPS_OF_CHORES};
use crate::ids::ConnectionId;

/// A turn may cost a peer's share, the share of chores twice (chores, and dead letters), and the last step of each.
const TURN: u64 = STEPS_OF_A_PEER + 2 * STEPS_OF_CHORES + 10_000;

/// Goes on with what a peer has sent, turn by turn, until it is done; a bystander gets an answer in each turn. Returns the
/// turns, and what the longest one has cost.
fn play(lab: &mut Lab, peer: ConnectionId, bystander: ConnectionId, wire: &[u8]) -> (u64, u64) {
    let (mut turns, mut longest, mut used) = (0, 0, 0);
    while used < wire.len() || lab.engine.has_work() {
        let before = lab.engine.steps;
        lab.engine.take_resumed();
        if !lab.engine.is_paused(peer) && used < wire.len() {
            used += lab.engine.receive(peer, &wire[used..wire.len().min(used + 256 * 1024)]);
        }
        let mut question = Vec::new();
        put_method(&mut question, 1, &Method::TxSelect {});
        lab.engine.receive(bystander, &question);
        lab.engine.turn();
        longest = longest.max(lab.engine.steps - before);
        turns += 1;
        let outbox = lab.engine.outbox(bystander).unwrap();
        let count = outbox.len();
        assert!(count > 0, "the bystander got no answer");
        lab.engine.was_sent(bystander, count);
        let sent = lab.engine.outbox(peer).map_or(0, |outbox| outbox.len());
        lab.engine.was_sent(peer, sent);
        assert!(turns < 100_000, "it never ends");
    }
    (turns, longest)
}

fn assert_shared(what: &str, (turns, longest): (u64, u64)) {
    assert!(turns > 2 && longest <= TURN, "{what}: {turns} turns, the longest of {longest} steps");
}

#[test]
fn a_key_that_fits_thousands_of_topics_is_published_in_shares() {
    let mut lab = Lab::new();
    let (peer, bystander) = (lab.client(), lab.client());
    for number in 0..4000 {
        let queue = format!("q{}", number % 100);
        if number < 100 {
            lab.ask(peer, &declare(&queue, QueueFlags::default()));
        }
        lab.ask(peer, &bind(&queue, "amq.topic", &format!("a.#.{number}.#.b")));
        lab.ask(peer, &bind(&queue, "amq.topic", &format!("#.{number}")));
    }
    // Each key is another one, so that nothing is remembered.
    let words = "a.1.2.3.4.5.6.7.8.9.10.11.12.13.14.15.16.17.18.19.20.b";
    let wire: Vec<u8> = (0..5000)
        .flat_map(|number| publish(1, "amq.topic", &format!("{words}.{number}.x.b"), Properties::NONE, b"x"))
        .collect();
    assert_shared("topics", play(&mut lab, peer, bystander, &wire));
    assert!(lab.engine.statistics().messages > 0);
}

#[test]
fn publishes_to_a_hundred_queues_that_come_in_one_piece_are_taken_in_shares() {
    let mut lab = Lab::new();
    let (peer, bystander) = (lab.client(), lab.client());
    for number in 0..100 {
        let queue = format!("q{number}");
        lab.ask(peer, &declare(&queue, QueueFlags::default()));
        lab.ask(peer, &bind(&queue, "amq.fanout", ""));
    }
    let wire = publish(1, "amq.fanout", "", Properties::NONE, b"x").repeat(5000);
    assert_shared("publishes", play(&mut lab, peer, bystander, &wire));
    assert_eq!((lab.engine.statistics().messages, lab.engine.taken_at_once), (5_000, 4999));
}

#[test]
fn hanging_up_with_thousands_of_queues_and_bindings_is_no_long_turn() {
    let mut lab = Lab::new();
    let (peer, bystander) = (lab.client(), lab.client());
    let exclusive = QueueFlags { exclusive: true, ..QueueFlags::default() };
    for number in 0..4000 {
        let queue = format!("q{number}");
        lab.send(peer, 1, &declare(&queue, exclusive));
        for key in 0..10 {
            lab.send(peer, 1, &bind(&queue, "amq.topic", &format!("{number}.{key}.#")));
        }
        lab.hear(peer);
    }
    lab.engine.disconnect(peer);
    // Their names are free at once.
    assert!(lab.ask(bystander, &declare("q0", exclusive))[0].starts_with("QueueDeclareOk"));
    assert_shared("hanging up", play(&mut lab, peer, bystander, &[]));
    let left = lab.engine.statistics();
    assert_eq!((left.queues, left.connections, lab.engine.topology.bindings().count()), (1, 1, 0));
    assert!(lab.ask(bystander, &get("q0", true))[0].starts_with("BasicGetEmpty"), "the new q0 is there");
}

/// A queue of so many messages, all of them with one consumer.
fn lab_with_unacknowledged(count: u64) -> (Lab, ConnectionId, ConnectionId) {
    let mut lab = Lab::new();
    let (peer, bystander) = (lab.client(), lab.client());
    lab.ask(peer, &declare("q", QueueFlags::default()));
    lab.ask(peer, &consume("q", "c", false));
    for _ in 0..count {
        lab.put(peer, "q", "x");
        lab.hear(peer);
    }
    lab.ask(peer, &Method::BasicCancel { consumer_tag: name("c"), no_wait: false });
    (lab, peer, bystander)
}

#[test]
fn requeuing_many_messages_at_once_or_one_by_one_costs_each_the_same() {
    let count = 60_000;
    let (mut lab, peer, bystander) = lab_with_unacknowledged(count);
    let mut wire = Vec::new();
    put_method(&mut wire, 1, &Method::BasicRecover { requeue: true });
    put_method(&mut wire, 1, &Method::TxSelect {});
    let before = lab.engine.steps;
    assert_shared("recover", play(&mut lab, peer, bystander, &wire));
    assert!(lab.engine.steps - before < 3 * count);
    // Every second one, then the others: each has its place among those that are there.
    let (mut lab, peer, bystander) = lab_with_unacknowledged(count);
    let mut wire = Vec::new();
    for first in [2, 1] {
        for delivery_tag in (first..=count).step_by(2) {
            put_method(&mut wire, 1, &Method::BasicReject { delivery_tag, requeue: true });
        }
    }
    assert_shared("rejections", play(&mut lab, peer, bystander, &wire));
    assert_eq!(lab.engine.statistics().messages, count);
}

#[test]
fn purging_deleting_and_closing_are_done_in_shares_and_answered_in_order() {
    let count = 60_000;
    for (what, method) in [
        ("purge", Method::QueuePurge { reserved_1: 0, queue: name("q"), no_wait: false }),
        ("delete", delete_queue("q")),
    ] {
        let (mut lab, peer, bystander) = lab_with_unacknowledged(count);
        let mut wire = Vec::new();
        put_method(&mut wire, 1, &Method::BasicNack { delivery_tag: 0, multiple: true, requeue: true });
        put_method(&mut wire, 1, &method);
        assert_shared(what, play(&mut lab, peer, bystander, &wire));
        assert_eq!(lab.engine.statistics().messages, 0, "{what}");
    }
    let (mut lab, peer, bystander) = lab_with_unacknowledged(count);
    let mut wire = Vec::new();
    let close = Method::ChannelClose { reply_code: 200, reply_text: name(""), class_id: 0, method_id: 0 };
    put_method(&mut wire, 1, &close);
    put_method(&mut wire, 1, &Method::ChannelOpen { reserved_1: name("") });
    put_method(&mut wire, 1, &get("q", false));
    assert_shared("close", play(&mut lab, peer, bystander, &wire));
    let declared = lab.ask(bystander, &declare("q", QueueFlags::default()));
    assert_eq!(declared, [r#"QueueDeclareOk { queue: "q", message_count: 59999, consumer_count: 0 }"#]);
}

#[test]
fn an_exchange_with_many_bindings_goes_in_shares() {
    let mut lab = Lab::new();
    let (peer, bystander) = (lab.client(), lab.client());
    lab.ask(peer, &crate::engine::testing::exchange("e", "direct"));
    lab.ask(peer, &declare("q", QueueFlags::default()));
    for number in 0..20_000 {
        lab.send(peer, 1, &bind("q", "e", &format!("{number}")));
        lab.hear(peer);
    }
    let mut wire = Vec::new();
    let delete =
        Method::ExchangeDelete { reserved_1: 0, exchange: name("e"), if_unused: false, no_wait: false };
    put_method(&mut wire, 1, &delete);
    assert_shared("exchange", play(&mut lab, peer, bystander, &wire));
    assert_eq!(lab.engine.topology.bindings().count(), 0);
}
