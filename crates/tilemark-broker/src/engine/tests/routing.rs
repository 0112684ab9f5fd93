//! Exchanges bound to exchanges, headers exchanges, alternates, and keys in headers.

use tilemark_amqp::{Method, Properties, Table, TableBuilder};

use crate::engine::testing::{
    ExchangeFlags, Lab, MemoryDisk, QueueFlags, bind, bind_exchange, bind_with, declare, exchange,
    exchange_with, name, properties, publish,
};
use crate::journal::Recovered;

/// Publishes and says which of the queues have got it.
fn reached(
    lab: &mut Lab,
    client: crate::ids::ConnectionId,
    (on, key): (&str, &str),
    with: &[u8],
    queues: &[&str],
) -> String {
    lab.bytes(client, &publish(1, on, key, Properties::from_bytes(with), b"x"));
    let mut reached = String::new();
    for queue in queues {
        while lab.take(client, queue).is_some() {
            reached.push_str(queue);
        }
    }
    reached
}

fn lab_with(queues: &[&str]) -> (Lab, crate::ids::ConnectionId) {
    let mut lab = Lab::new();
    let client = lab.client();
    queues.iter().for_each(|queue| drop(lab.ask(client, &declare(queue, QueueFlags::default()))));
    (lab, client)
}

const NO_PROPERTIES: &[u8] = &[0, 0];

#[test]
fn an_exchange_passes_on_to_exchanges_each_queue_once_and_round_in_circles_too() {
    let (mut lab, client) = lab_with(&["a", "b"]);
    for (on, kind) in [("d", "direct"), ("t", "topic"), ("f", "fanout")] {
        lab.ask(client, &exchange(on, kind));
    }
    for method in [
        bind_exchange("t", "d", "x.y"),
        bind_exchange("f", "t", "#.y"),
        bind_exchange("d", "f", ""),
        bind("a", "f", ""),
        bind("a", "t", "*.*"),
        bind("b", "t", "x.z"),
    ] {
        let said = lab.ask(client, &method);
        assert!(said == ["ExchangeBindOk"] || said == ["QueueBindOk"], "{said:?}");
    }
    let mut route = |on, key| reached(&mut lab, client, (on, key), NO_PROPERTIES, &["a", "b"]);
    assert_eq!(route("d", "x.y"), "a");
    assert_eq!(route("d", "x.z"), "");
    assert_eq!(route("t", "x.z"), "ab");
    // What is unbound, or bound to what is gone, leads nowhere; and a repeating publisher notices.
    let unbind = Method::ExchangeUnbind {
        reserved_1: 0,
        destination: name("t"),
        source: name("d"),
        routing_key: name("x.y"),
        no_wait: false,
        arguments: Table::default(),
    };
    assert_eq!(lab.ask(client, &unbind), ["ExchangeUnbindOk"]);
    assert_eq!(reached(&mut lab, client, ("d", "x.y"), NO_PROPERTIES, &["a"]), "");
    assert_eq!(lab.ask(client, &unbind), ["ExchangeUnbindOk"]);
    lab.ask(client, &bind_exchange("f", "d", "k"));
    assert_eq!(reached(&mut lab, client, ("d", "k"), NO_PROPERTIES, &["a"]), "a");
    let delete =
        Method::ExchangeDelete { reserved_1: 0, exchange: name("f"), if_unused: false, no_wait: false };
    lab.ask(client, &delete);
    assert_eq!(reached(&mut lab, client, ("d", "k"), NO_PROPERTIES, &["a"]), "");
    lab.refused(client, &bind_exchange("absent", "d", ""), 404);
}

#[test]
fn a_chain_of_exchanges_that_go_with_their_last_binding_goes_as_a_whole() {
    let (mut lab, client) = lab_with(&[]);
    let count = 5000;
    for number in 0..count {
        let exchange = format!("e{number}");
        let flags =
            ExchangeFlags { auto_delete: number + 1 < count, no_wait: true, ..ExchangeFlags::default() };
        lab.send(client, 1, &exchange_with(&exchange, "fanout", flags, Table::default()));
        if number > 0 {
            lab.send(client, 1, &bind_exchange(&exchange, &format!("e{}", number - 1), ""));
        }
    }
    assert_eq!(lab.engine.statistics().exchanges, count);
    let last = format!("e{}", count - 1);
    let delete =
        Method::ExchangeDelete { reserved_1: 0, exchange: name(&last), if_unused: false, no_wait: false };
    lab.ask(client, &delete);
    assert_eq!(lab.engine.statistics().exchanges, 0);
}

#[test]
fn a_headers_exchange_looks_at_each_message() {
    let (mut lab, client) = lab_with(&["all", "any"]);
    lab.ask(client, &exchange("h", "headers"));
    let wanted = |word| TableBuilder::new().text("x-match", word).text("a", "1").integer("b", 2);
    let (all, any) = (wanted("all"), wanted("any"));
    lab.ask(client, &bind_with("all", "h", all.as_table()));
    lab.ask(client, &bind_with("any", "h", any.as_table()));
    let message = |a: &str, b| properties(&TableBuilder::new().text("a", a).integer("b", b), "");
    let mut route = |with: &[u8]| reached(&mut lab, client, ("h", "k"), with, &["all", "any"]);
    assert_eq!(route(&message("1", 2)), "allany");
    assert_eq!(route(&message("1", 3)), "any");
    assert_eq!(route(&message("2", 3)), "");
    assert_eq!(route(NO_PROPERTIES), "");
    assert_eq!(route(&message("1", 2)), "allany");
    // The same arguments in another order are the same binding.
    let turned = TableBuilder::new().integer("b", 2).text("a", "1").text("x-match", "any");
    let unbind = Method::QueueUnbind {
        reserved_1: 0,
        queue: name("any"),
        exchange: name("h"),
        routing_key: name(""),
        arguments: turned.as_table(),
    };
    lab.ask(client, &unbind);
    assert_eq!(reached(&mut lab, client, ("h", "k"), &message("1", 2), &["all", "any"]), "all");
    let some = wanted("some");
    lab.refused(client, &bind_with("all", "h", some.as_table()), 406);
}

#[test]
fn a_message_with_another_key_is_compared_with_each_headers_binding_once() {
    let (mut lab, client) = lab_with(&["q"]);
    lab.ask(client, &exchange("h", "headers"));
    for number in 0..100 {
        let wanted = TableBuilder::new().text("x-match", "all").integer("n", number);
        lab.ask(client, &bind_with("q", "h", wanted.as_table()));
    }
    let with = properties(&TableBuilder::new().integer("n", 1), "");
    let mut steps = |key: &str| {
        let before = lab.engine.steps;
        lab.bytes(client, &publish(1, "h", key, Properties::from_bytes(&with), b"x"));
        lab.engine.steps - before
    };
    let (first, again, other) = (steps("k"), steps("k"), steps("other"));
    assert!(again >= 100, "each binding is looked at: {again} steps");
    assert_eq!([first, other], [again; 2]);
}

#[test]
fn unroutable_messages_go_to_the_alternate_exchange() {
    let (mut lab, client) = lab_with(&["a", "b"]);
    let arguments = TableBuilder::new().text("alternate-exchange", "else");
    let flags = ExchangeFlags::default();
    lab.ask(client, &exchange_with("d", "direct", flags, arguments.as_table()));
    lab.ask(client, &bind("a", "d", "k"));
    let route = |lab: &mut Lab, key| reached(lab, client, ("d", key), NO_PROPERTIES, &["a", "b"]);
    assert_eq!(route(&mut lab, "other"), "");
    lab.ask(client, &exchange("else", "fanout"));
    lab.ask(client, &bind("b", "else", ""));
    assert_eq!(route(&mut lab, "other"), "b");
    assert_eq!(route(&mut lab, "k"), "a");
    lab.refused(client, &exchange("d", "direct"), 406);
}

#[test]
fn copies_go_to_the_keys_in_the_headers_and_blind_ones_are_not_seen() {
    let (mut lab, client) = lab_with(&["a", "b", "c"]);
    let headers =
        TableBuilder::new().texts("CC", [&b"b"[..], b"a"]).texts("BCC", [&b"c"[..]]).text("other", "kept");
    let message = publish(1, "", "a", Properties::from_bytes(&properties(&headers, "")), b"x");
    lab.bytes(client, &message);
    for queue in ["a", "b", "c"] {
        let content = lab.take(client, queue).unwrap();
        assert_eq!(
            (content.body.as_str(), content.headers()),
            ("x", vec!["CC=[b a]".into(), "other=kept".into()])
        );
        assert!(lab.take(client, queue).is_none());
    }
    let wrong = properties(&TableBuilder::new().text("CC", "b"), "");
    lab.bytes(client, &publish(1, "", "a", Properties::from_bytes(&wrong), b"x"));
    assert!(lab.hear(client).join("").contains("ChannelClose { reply_code: 406"));
}

#[test]
fn bindings_of_every_kind_survive_a_restart() {
    let mut lab = Lab::new();
    let disk = MemoryDisk::default();
    lab.engine.restore(&Recovered::default(), Box::new(disk.clone()));
    let client = lab.client();
    lab.ask(client, &declare("q", QueueFlags { durable: true, ..QueueFlags::default() }));
    let alternate = TableBuilder::new().text("alternate-exchange", "amq.fanout");
    for (on, kind, arguments) in [("h", "headers", Table::default()), ("d", "direct", alternate.as_table())] {
        let flags = ExchangeFlags { durable: true, ..ExchangeFlags::default() };
        lab.ask(client, &exchange_with(on, kind, flags, arguments));
    }
    let wanted = TableBuilder::new().text("a", "1");
    lab.ask(client, &bind_with("q", "h", wanted.as_table()));
    lab.ask(client, &bind_exchange("h", "amq.fanout", ""));
    let sorted = |lab: &Lab| {
        let definitions = lab.engine.definitions();
        let mut sorted: Vec<String> =
            definitions.iter().map(|definition| format!("{definition:?}")).collect();
        sorted.sort();
        sorted
    };
    let definitions = sorted(&lab);
    let mut next = Lab::new();
    next.engine.restore(&disk.recovered(), Box::new(disk));
    assert_eq!((sorted(&next), definitions.len()), (definitions.clone(), 5));
    let client = next.client();
    // d has no binding, its alternate is amq.fanout, and that leads to h.
    let with = properties(&TableBuilder::new().text("a", "1"), "");
    assert_eq!(reached(&mut next, client, ("d", "k"), &with, &["q"]), "q");
    assert_eq!(reached(&mut next, client, ("d", "k"), NO_PROPERTIES, &["q"]), "");
}
