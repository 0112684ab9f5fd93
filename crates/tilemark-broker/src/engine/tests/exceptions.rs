//! What peers get when they break a rule, and that only they are affected.

use tilemark_amqp::{FrameKind, Method, Properties, Table, TableBuilder, put_frame, put_header, put_method};

use crate::engine::testing::{
    ExchangeFlags, Lab, QueueFlags, ack, bind, consume, declare, declare_with, exchange, exchange_with, get,
    name, publish,
};

#[test]
fn channel_errors_close_the_channel_only() {
    let cases: [(Method<'_>, u16); 9] = [
        (get("absent", true), 404),
        (bind("q", "absent", ""), 404),
        (bind("q", "", ""), 403),
        (exchange("amq.mine", "direct"), 403),
        (exchange("amq.direct", "fanout"), 406),
        (declare("amq.mine", QueueFlags::default()), 403),
        (declare("q", QueueFlags { auto_delete: true, ..QueueFlags::default() }), 406),
        (ack(1), 406),
        (Method::TxCommit {}, 406),
    ];
    for (method, code) in cases {
        let mut lab = Lab::new();
        let client = lab.client();
        lab.ask(client, &declare("q", QueueFlags::default()));
        let said = lab.refused(client, &method, code);
        assert!(said.contains("ChannelClose"), "{said}");
        // Until the client has agreed, the channel hears nothing; then it can be opened again.
        assert!(lab.ask(client, &get("q", true)).is_empty());
        lab.send(client, 1, &Method::ChannelCloseOk {});
        lab.send(client, 1, &Method::ChannelOpen { reserved_1: name("") });
        assert!(lab.hear(client)[0].starts_with("ChannelOpenOk"));
        assert!(lab.ask(client, &get("q", true))[0].starts_with("BasicGetEmpty"));
    }
}

#[test]
fn connection_errors_close_the_connection() {
    let text = TableBuilder::new().text("x-max-priority", "1");
    let cases: [(u16, Method<'_>, u16); 10] = [
        (2, get("q", true), 504),
        (1, Method::ChannelOpen { reserved_1: name("") }, 504),
        (1, Method::BasicGetEmpty { reserved_1: name("") }, 503),
        (1, Method::ConnectionOpen { virtual_host: name("/"), reserved_1: name(""), reserved_2: false }, 503),
        (0, Method::BasicQosOk {}, 503),
        (1, exchange("e", "x-random"), 503),
        (1, Method::BasicQos { prefetch_size: 1, prefetch_count: 0, global: false }, 540),
        (1, declare_with("t", QueueFlags::default(), text.as_table()), 540),
        (1, declare("d", QueueFlags { durable: true, ..QueueFlags::default() }), 540),
        (1, Method::ChannelCloseOk {}, 503),
    ];
    for (channel, method, code) in cases {
        let mut lab = Lab::new();
        let (client, bystander) = (lab.client(), lab.client());
        lab.send(client, channel, &method);
        let said = lab.hear(client).join("\n");
        assert!(
            said.contains("ConnectionClose {") && said.contains(&format!("reply_code: {code},")),
            "{code}: {said}"
        );
        lab.send(client, 0, &Method::ConnectionCloseOk {});
        assert!(lab.engine.is_ended(client));
        assert_eq!(lab.ask(bystander, &Method::TxSelect {}), ["TxSelectOk"]);
    }
}

#[test]
fn a_consumer_tag_that_is_in_use_is_not_allowed() {
    let mut lab = Lab::new();
    let client = lab.client();
    lab.ask(client, &declare("q", QueueFlags::default()));
    lab.ask(client, &consume("q", "c", true));
    lab.refused(client, &consume("q", "c", true), 530);
}

#[test]
fn bad_frames_get_the_codes_of_the_specification() {
    let mut unknown_kind = Vec::new();
    put_frame(&mut unknown_kind, FrameKind::Body, 1, b"x");
    unknown_kind[0] = 7;
    let mut bad_end = Vec::new();
    put_frame(&mut bad_end, FrameKind::Method, 1, &[0, 20, 0, 41]);
    *bad_end.last_mut().unwrap() = 0;
    let oversized = [3, 0, 1, 0x7f, 0, 0, 0];
    let mut truncated = Vec::new();
    put_frame(&mut truncated, FrameKind::Method, 1, &[0, 50, 0, 10, 0]);
    let mut unknown_method = Vec::new();
    put_frame(&mut unknown_method, FrameKind::Method, 1, &[0, 60, 0, 41]);
    let mut body_first = Vec::new();
    put_frame(&mut body_first, FrameKind::Body, 1, b"x");
    let mut method_in_content = publish(1, "", "q", Properties::NONE, b"xyz");
    method_in_content.truncate(method_in_content.len() - 11);
    put_method(&mut method_in_content, 1, &Method::TxSelect {});
    let mut long_body = publish(1, "", "q", Properties::NONE, b"");
    long_body.clear();
    let start = publish(1, "", "q", Properties::NONE, b"xyz");
    long_body.extend_from_slice(&start[..start.len() - 11]);
    put_frame(&mut long_body, FrameKind::Body, 1, b"wxyz");
    let mut heartbeat_on_channel = Vec::new();
    put_frame(&mut heartbeat_on_channel, FrameKind::Heartbeat, 1, b"");
    let mut malformed_properties = publish(1, "", "q", Properties::NONE, b"");
    let method_length = malformed_properties.len() - (7 + 14 + 1);
    malformed_properties.truncate(method_length);
    put_header(&mut malformed_properties, 1, 0, Properties::from_bytes(&[0x80, 0, 9]));
    for (bytes, code) in [
        (&unknown_kind[..], 501),
        (&bad_end[..], 501),
        (&oversized[..], 501),
        (&heartbeat_on_channel[..], 501),
        (&truncated[..], 502),
        (&malformed_properties[..], 502),
        (&unknown_method[..], 503),
        (&body_first[..], 505),
        (&method_in_content[..], 505),
        (&long_body[..], 505),
    ] {
        let mut lab = Lab::new();
        let client = lab.client();
        lab.bytes(client, bytes);
        let said = lab.hear(client).join("\n");
        assert!(said.contains(&format!("ConnectionClose {{ reply_code: {code},")), "{code}: {said}");
    }
}

#[test]
fn publishing_to_nowhere_closes_the_channel_and_its_content_is_passed_over() {
    let mut lab = Lab::new();
    let client = lab.client();
    lab.bytes(client, &publish(1, "absent", "k", Properties::NONE, &[7; 10_000]));
    let said = lab.hear(client);
    assert_eq!(said.len(), 1);
    assert!(
        said[0].contains("ChannelClose { reply_code: 404") && said[0].contains("class_id: 60, method_id: 40")
    );
}

#[test]
fn a_message_beyond_the_limit_closes_the_channel_before_it_takes_memory() {
    let mut config = crate::Config::new("127.0.0.1:0".parse().unwrap());
    config.largest_message_bytes = 1000;
    let mut lab = Lab::with(&config);
    for is_first in [true, false] {
        let client = lab.client();
        if !is_first {
            lab.put(client, "q", "within the limit");
        }
        lab.bytes(client, &publish(1, "", "q", Properties::NONE, &[0; 1001]));
        assert!(lab.hear(client)[0].contains("ChannelClose { reply_code: 311"));
    }
}

#[test]
fn an_immediate_message_is_refused_also_behind_others() {
    let mut lab = Lab::new();
    let client = lab.client();
    lab.ask(client, &declare("q", QueueFlags::default()));
    lab.put(client, "q", "not immediate");
    let (exchange, routing_key) = (name(""), name("q"));
    let immediate =
        Method::BasicPublish { reserved_1: 0, exchange, routing_key, mandatory: false, immediate: true };
    let mut wire = Vec::new();
    put_method(&mut wire, 1, &immediate);
    put_header(&mut wire, 1, 1, Properties::NONE);
    put_frame(&mut wire, FrameKind::Body, 1, b"x");
    lab.bytes(client, &wire);
    let said = lab.hear(client).concat();
    assert!(said.contains("reply_code: 540") && said.contains("immediate"), "{said}");
}

#[test]
fn only_known_arguments_are_taken() {
    let mut lab = Lab::new();
    let client = lab.client();
    let wrong = TableBuilder::new().text("x-max-length", "many");
    lab.refused(client, &declare_with("q", QueueFlags::default(), wrong.as_table()), 406);
    let mut lab = Lab::new();
    let client = lab.client();
    let unknown = TableBuilder::new().text("x-unknown", "other");
    let declare = exchange_with("e", "direct", ExchangeFlags::default(), unknown.as_table());
    assert_ne!(unknown.as_table(), Table::default());
    lab.refused(client, &declare, 540);
}

#[test]
fn closes_that_cross_end_the_channel_and_not_the_connection() {
    let close = Method::ChannelClose { reply_code: 200, reply_text: name(""), class_id: 0, method_id: 0 };
    // Most clients answer our close after all, some go on at once.
    for answers in [true, false] {
        let mut lab = Lab::new();
        let client = lab.client();
        let mut wire = publish(1, "absent", "k", Properties::NONE, b"x");
        put_method(&mut wire, 1, &close);
        lab.bytes(client, &wire);
        let said = lab.hear(client);
        assert!(said[0].starts_with("ChannelClose { reply_code: 404"), "{said:?}");
        assert_eq!(said[1..], ["ChannelCloseOk"]);
        if answers {
            lab.send(client, 1, &Method::ChannelCloseOk {});
        }
        for channel in [2, 1] {
            lab.send(client, channel, &Method::ChannelOpen { reserved_1: name("") });
            assert!(lab.hear(client)[0].starts_with("ChannelOpenOk"));
        }
        assert!(lab.ask(client, &declare("q", QueueFlags::default()))[0].starts_with("QueueDeclareOk"));
    }
}

#[test]
fn what_a_message_asks_for_and_does_not_get_is_refused_by_its_name() {
    // user-id "eve".
    let (properties, code, named) = ([0, 0x10, 3, b'e', b'v', b'e'], 406, "eve");
    let mut lab = Lab::new();
    let client = lab.client();
    lab.ask(client, &declare("q", QueueFlags::default()));
    lab.bytes(client, &publish(1, "", "q", Properties::from_bytes(&properties), b"x"));
    let said = lab.hear(client).join("");
    assert!(said.contains(&format!("reply_code: {code},")) && said.contains(named), "{said}");
    assert_eq!(lab.engine.statistics().messages, 0);
    // A true user is taken, and so is a priority: RabbitMQ keeps it in queues that do not sort by it, too.
    let mut lab = Lab::new();
    let client = lab.client();
    lab.ask(client, &declare("q", QueueFlags::default()));
    let honest = [0, 0x10, 5, b'g', b'u', b'e', b's', b't'];
    for properties in [&honest[..], &[0x08, 0, 7]] {
        lab.bytes(client, &publish(1, "", "q", Properties::from_bytes(properties), b"x"));
    }
    assert_eq!(lab.engine.statistics().messages, 2);
}

#[test]
fn arguments_of_consumers_and_bindings_are_refused_by_their_name() {
    let arguments = TableBuilder::new().integer("x-priority", 5);
    let consume = |no_local, arguments| Method::BasicConsume {
        reserved_1: 0,
        queue: name("q"),
        consumer_tag: name("c"),
        no_local,
        no_ack: true,
        exclusive: false,
        no_wait: false,
        arguments,
    };
    let bind = Method::QueueBind {
        reserved_1: 0,
        queue: name("q"),
        exchange: name("amq.topic"),
        routing_key: name("k"),
        no_wait: false,
        arguments: arguments.as_table(),
    };
    for (method, named) in [
        (consume(false, arguments.as_table()), "x-priority"),
        (consume(true, Table::default()), "no-local"),
        (bind, "x-priority"),
    ] {
        let mut lab = Lab::new();
        let client = lab.client();
        lab.ask(client, &declare("q", QueueFlags::default()));
        let said = lab.refused(client, &method, 540);
        assert!(said.contains(named), "{said}");
    }
}
