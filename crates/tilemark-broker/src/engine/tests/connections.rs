//! How connections begin, live and end.

use std::time::Duration;

use tilemark_amqp::{Method, PROTOCOL_HEADER, Properties};

use crate::connection::Origin;
use crate::engine::testing::{Lab, QueueFlags, consume, declare, get, name, publish};
use crate::{Config, Reach, User};

#[test]
fn another_protocol_is_answered_with_ours_and_dropped() {
    for bytes in [&b"AMQP\x01\x01\x00\x09"[..], b"GET / HTTP/1.1\r\n", b"X"] {
        let mut lab = Lab::new();
        let peer = lab.peer();
        lab.bytes(peer, bytes);
        assert_eq!(lab.engine.outbox(peer).unwrap().unsent(), PROTOCOL_HEADER);
        assert!(lab.engine.is_ended(peer));
    }
}

#[test]
fn a_wrong_password_is_refused() {
    let mut lab = Lab::new();
    let peer = lab.peer();
    lab.log_in(peer, "guest", "wrong");
    let said = lab.hear(peer).join("\n");
    assert!(said.contains("ConnectionClose { reply_code: 403"), "{said}");
    assert!(!said.contains("ConnectionTune"), "{said}");
}

#[test]
fn guest_is_for_this_machine_and_others_come_from_anywhere() {
    let mut config = Config::new("127.0.0.1:0".parse().unwrap());
    config.users.push(User::new("run", "secret", Reach::Anywhere));
    let mut lab = Lab::with(&config);
    let stranger = lab.engine.connect(Origin::Elsewhere);
    lab.log_in(stranger, "guest", "guest");
    assert!(lab.hear(stranger).join("\n").contains("reply_code: 403"));
    let stranger = lab.engine.connect(Origin::Elsewhere);
    lab.log_in(stranger, "run", "secret");
    assert!(lab.hear(stranger).join("\n").contains("ConnectionOpenOk"));
}

#[test]
fn an_unknown_virtual_host_is_not_allowed() {
    let mut lab = Lab::new();
    let client = lab.client();
    lab.send(
        client,
        0,
        &Method::ConnectionClose { reply_code: 200, reply_text: name(""), class_id: 0, method_id: 0 },
    );
    assert_eq!(lab.hear(client), ["ConnectionCloseOk"]);
    assert!(lab.engine.is_ended(client));
    let peer = lab.peer();
    lab.bytes(peer, &PROTOCOL_HEADER);
    let start_ok = Method::ConnectionStartOk {
        client_properties: tilemark_amqp::Table::default(),
        mechanism: name("PLAIN"),
        response: tilemark_amqp::LongStr(b"\0guest\0guest"),
        locale: name("en_US"),
    };
    lab.send(peer, 0, &start_ok);
    lab.send(peer, 0, &Method::ConnectionTuneOk { channel_max: 0, frame_max: 4096, heartbeat: 0 });
    let open =
        Method::ConnectionOpen { virtual_host: name("other"), reserved_1: name(""), reserved_2: false };
    lab.send(peer, 0, &open);
    assert!(lab.hear(peer).join("\n").contains("reply_code: 530"));
}

#[test]
fn a_client_that_falls_silent_is_dropped_and_its_messages_go_to_others() {
    let mut lab = Lab::new();
    let (silent, alive) = (lab.client(), lab.client());
    lab.ask(silent, &declare("q", QueueFlags::default()));
    lab.put(silent, "q", "x");
    lab.ask(silent, &get("q", false));
    for _ in 0..5 {
        lab.pass(Duration::from_secs(5));
        assert!(lab.hear(alive).contains(&"heartbeat".to_owned()));
        lab.engine.heard_from(alive);
    }
    assert!(lab.engine.is_ended(silent));
    assert!(!lab.engine.is_ended(alive));
    assert!(lab.ask(alive, &get("q", true))[0].contains("redelivered: true"));
}

#[test]
fn a_handshake_that_is_never_finished_ends() {
    let mut lab = Lab::new();
    let peer = lab.peer();
    lab.bytes(peer, &PROTOCOL_HEADER);
    lab.pass(Duration::from_secs(9));
    assert!(!lab.engine.is_ended(peer));
    lab.pass(Duration::from_secs(2));
    assert!(lab.engine.is_ended(peer));
}

#[test]
fn bytes_may_come_one_at_a_time() {
    let mut lab = Lab::new();
    let client = lab.client();
    lab.ask(client, &declare("q", QueueFlags::default()));
    lab.ask(client, &consume("q", "c", true));
    let mut left = Vec::new();
    for byte in publish(1, "", "q", Properties::PERSISTENT, &[b'x'; 9000]) {
        left.push(byte);
        let used = lab.bytes(client, &left);
        left.drain(..used);
    }
    assert!(left.is_empty());
    assert_eq!(lab.bodies(client).concat().len(), 9000);
}

#[test]
fn what_a_client_leaves_unfinished_costs_nothing() {
    let mut lab = Lab::new();
    let client = lab.client();
    let message = publish(1, "", "q", Properties::NONE, &[0; 50_000]);
    lab.bytes(client, &message[..message.len() - 4010]);
    assert!(lab.engine.statistics().memory_bytes > 40_000 + lab_memory());
    lab.engine.disconnect(client);
    assert_eq!(lab.engine.statistics().memory_bytes, lab_memory());
}

/// Memory of a broker without messages.
fn lab_memory() -> u64 {
    Lab::new().engine.statistics().memory_bytes
}

#[test]
fn every_peer_is_informed_of_a_shutdown() {
    let mut lab = Lab::new();
    let client = lab.client();
    lab.engine.shut_down();
    assert!(lab.hear(client).join("").contains("ConnectionClose { reply_code: 320"));
}

#[test]
fn a_silent_client_is_dropped_after_two_of_its_intervals() {
    let mut lab = Lab::new();
    let silent = lab.client();
    // The lab's clients agree on 10 s.
    lab.pass(Duration::from_millis(19_750));
    assert!(!lab.engine.is_ended(silent));
    lab.pass(Duration::from_millis(250));
    assert!(lab.engine.is_ended(silent));
}
