//! Messages whose time is over.

use std::time::Duration;

use tilemark_amqp::{Properties, TableBuilder};

use crate::engine::testing::{
    Lab, QueueFlags, ack, consume, declare, declare_with, get, prefetch, properties, publish,
};

fn put_with(lab: &mut Lab, client: crate::ids::ConnectionId, body: &str, expiration: &str) {
    let with = properties(&TableBuilder::new(), expiration);
    lab.bytes(client, &publish(1, "", "q", Properties::from_bytes(&with), body.as_bytes()));
}

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// Lets time pass as the event loop does: it turns when the next alarm is due.
fn pass(lab: &mut Lab, time: Duration) {
    lab.now += time;
    lab.engine.set_now(lab.now);
    lab.engine.turn();
}

#[test]
fn a_message_is_gone_to_the_millisecond() {
    let mut lab = Lab::new();
    let client = lab.client();
    lab.ask(client, &declare("q", QueueFlags::default()));
    put_with(&mut lab, client, "short", "100");
    put_with(&mut lab, client, "none", "");
    assert_eq!(lab.engine.next_alarm(), Some(lab.now + ms(100)));
    pass(&mut lab, ms(99));
    assert_eq!(lab.engine.statistics().messages, 2);
    pass(&mut lab, ms(1));
    assert_eq!(lab.engine.statistics().messages, 1);
    assert_eq!(lab.engine.next_alarm(), None);
    assert_eq!(lab.take(client, "q").unwrap().body, "none");
}

#[test]
fn the_shorter_of_two_times_counts_and_only_the_head_is_looked_at() {
    let mut lab = Lab::new();
    let client = lab.client();
    let ttl = TableBuilder::new().integer("x-message-ttl", 1000);
    lab.ask(client, &declare_with("q", QueueFlags::default(), ttl.as_table()));
    put_with(&mut lab, client, "queue's", "60000");
    put_with(&mut lab, client, "own", "10");
    // Behind one that has more time it stays.
    pass(&mut lab, ms(500));
    assert_eq!(lab.engine.statistics().messages, 2);
    pass(&mut lab, ms(500));
    assert_eq!(lab.engine.statistics().messages, 0);
    put_with(&mut lab, client, "first", "");
    put_with(&mut lab, client, "second", "10");
    pass(&mut lab, ms(20));
    assert_eq!(lab.take(client, "q").unwrap().body, "first");
    // Now it is in front, and nobody gets it.
    assert!(lab.take(client, "q").is_none());
    assert_eq!(lab.engine.statistics().messages, 0);
}

#[test]
fn a_consumer_gets_nothing_whose_time_is_over_and_at_once_what_has_none() {
    let mut lab = Lab::new();
    let client = lab.client();
    lab.ask(client, &declare("q", QueueFlags::default()));
    lab.ask(client, &prefetch(1));
    lab.ask(client, &consume("q", "c", false));
    put_with(&mut lab, client, "at once", "0");
    assert_eq!(lab.bodies(client), ["at once"]);
    // Nobody has room for these.
    put_with(&mut lab, client, "no time", "0");
    assert_eq!(lab.engine.statistics().messages, 1);
    put_with(&mut lab, client, "long", "60000");
    put_with(&mut lab, client, "short", "10");
    put_with(&mut lab, client, "last", "");
    pass(&mut lab, ms(20));
    lab.send(client, 1, &ack(1));
    assert_eq!(lab.bodies(client), ["long"]);
    lab.send(client, 1, &ack(2));
    assert_eq!(lab.bodies(client), ["last"]);
}

#[test]
fn a_message_that_becomes_the_first_of_a_full_queue_is_gone_in_time_without_a_reader() {
    let mut lab = Lab::new();
    let client = lab.client();
    let full = TableBuilder::new().integer("x-max-length", 2);
    lab.ask(client, &declare_with("q", QueueFlags::default(), full.as_table()));
    put_with(&mut lab, client, "dropped", "");
    put_with(&mut lab, client, "first then", "100");
    put_with(&mut lab, client, "last", "");
    assert_eq!(lab.engine.statistics().messages, 2);
    pass(&mut lab, ms(100));
    assert_eq!(lab.engine.statistics().messages, 1);
    assert_eq!(lab.take(client, "q").unwrap().body, "last");
}

#[test]
fn a_requeued_message_keeps_its_time() {
    let mut lab = Lab::new();
    let client = lab.client();
    lab.ask(client, &declare("q", QueueFlags::default()));
    put_with(&mut lab, client, "x", "100");
    lab.ask(client, &get("q", false));
    pass(&mut lab, ms(200));
    assert_eq!(lab.engine.statistics().messages, 1, "it is with its consumer");
    lab.send(client, 1, &tilemark_amqp::Method::BasicReject { delivery_tag: 1, requeue: true });
    assert_eq!(lab.engine.statistics().messages, 0);
}

#[test]
fn an_invalid_time_is_refused() {
    for wrong in ["", "-1", "1.5", "soon", "4294967296"] {
        let mut lab = Lab::new();
        let client = lab.client();
        let length = u8::try_from(wrong.len()).unwrap();
        let with = [&[0x01, 0, length], wrong.as_bytes()].concat();
        lab.bytes(client, &publish(1, "", "q", Properties::from_bytes(&with), b"x"));
        let said = lab.hear(client).join("");
        assert!(said.contains("ChannelClose { reply_code: 406") && said.contains("expiration"), "{said}");
    }
    for (argument, wrong) in [("x-message-ttl", -1), ("x-message-ttl", 1 << 32), ("x-expires", 0)] {
        let mut lab = Lab::new();
        let client = lab.client();
        let arguments = TableBuilder::new().integer(argument, wrong);
        lab.refused(client, &declare_with("q", QueueFlags::default(), arguments.as_table()), 406);
    }
}

#[test]
fn many_that_end_together_end_in_several_turns() {
    let mut lab = Lab::new();
    let client = lab.client();
    lab.ask(client, &declare("q", QueueFlags::default()));
    for _ in 0..10_000 {
        put_with(&mut lab, client, "x", "100");
    }
    pass(&mut lab, ms(100));
    let mut turns = 1;
    while lab.engine.statistics().messages > 0 {
        assert_eq!(lab.engine.next_alarm(), Some(lab.now), "the loop comes back at once");
        lab.engine.turn();
        turns += 1;
    }
    assert_eq!(turns, 3);
}

#[test]
fn a_queue_that_is_gone_leaves_no_alarm() {
    let mut lab = Lab::new();
    let client = lab.client();
    lab.ask(client, &declare("q", QueueFlags { exclusive: true, ..QueueFlags::default() }));
    put_with(&mut lab, client, "x", "100");
    lab.engine.disconnect(client);
    assert_eq!(lab.engine.next_alarm(), None);
}
