//! The broker with TLS: our loads over it lose nothing, and whoever does not keep TLS disturbs nobody.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use tilemark_amqp_load::{
    BrokerAddress, LatencyLoad, LoadError, MessagingMode, MessagingParameters, Session, ThroughputLoad,
    latency, throughput,
};
use tilemark_broker::{Broker, Config, ServerTls, serve};
use tilemark_units::Bytes;

const TIMEOUT: Duration = Duration::from_secs(30);

fn secured() -> (Broker, String) {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).expect("a certificate");
    let tls =
        ServerTls::of_pem(&made.cert.pem(), &made.signing_key.serialize_pem()).expect("they belong together");
    let config = Config { tls: Some(tls), ..Config::new("127.0.0.1:0".parse().expect("an address")) };
    (serve(config).expect("a free port"), made.cert.pem())
}

fn named(broker: &Broker, ca: &str) -> BrokerAddress {
    let address = format!("amqps://localhost:{}", broker.address().port());
    address.parse::<BrokerAddress>().expect("an address").trusting(Some(ca.to_owned()))
}

fn load(broker: BrokerAddress, messages: MessagingParameters) -> ThroughputLoad {
    ThroughputLoad {
        messages,
        seconds: Duration::from_secs(600),
        timeout: TIMEOUT,
        ..ThroughputLoad::new(broker)
    }
}

#[test]
fn every_message_comes_through_tls_once_and_whole() {
    let (broker, ca) = secured();
    let of =
        |count, size| MessagingParameters { count, size: Bytes::new(size), ..MessagingParameters::default() };
    let runs = [
        (of(200_000, 16), 200_000, 200_000),
        (of(40, 3_000_000), 40, 40),
        (
            MessagingParameters { confirms: 100, acknowledge: 50, prefetch: 100, ..of(3_000, 1_000) },
            3_000,
            3_000,
        ),
        (MessagingParameters { transactions: 70, acknowledge: 10, ..of(3_000, 16) }, 3_000, 3_000),
        (
            MessagingParameters {
                mode: MessagingMode::Fanout,
                subscribers: 3,
                publishers: 2,
                ..of(2_000, 20_000)
            },
            4_000,
            12_000,
        ),
    ];
    for (messages, published, received) in runs {
        let report = throughput(&load(named(&broker, &ca), messages)).expect("a run");
        let wrong = report.lost + report.duplicated + report.reordered + report.damaged + report.refused;
        assert_eq!((report.published, report.received, wrong), (published, received, 0), "{report:?}");
    }
    let seconds = Duration::from_millis(500);
    let by_schedule = LatencyLoad { seconds, timeout: TIMEOUT, ..LatencyLoad::new(named(&broker, &ca)) };
    let report = latency(&by_schedule).expect("a run");
    assert_eq!((report.published, report.received, report.lost), (500, 500, 0));
    let left = broker.stop().expect("a good end");
    assert_eq!((left.messages, left.queues), (0, 0));
}

#[test]
fn a_client_that_breaks_tls_is_not_served_and_disturbs_no_other() {
    let (broker, ca) = secured();
    // A client without TLS.
    let plain = BrokerAddress::guest(broker.address());
    let error = Session::open(&plain, TIMEOUT).expect_err("nobody is served without TLS");
    assert!(!matches!(error, LoadError::WrongPassword { .. }), "{error}");
    // One who says nothing, one who says half of a greeting, one who says something else: in its pieces, at once, and at length.
    let connect = || TcpStream::connect(broker.address()).expect("it listens");
    let silent = connect();
    let mut half = connect();
    half.write_all(&[22, 3, 1, 2, 0, 1, 0, 1, 252]).expect("it listens");
    for said in [&b"AMQP\0\0\x09\x01"[..], &[0; 1], &[22, 3, 1, 255, 255, 1, 2, 3], &[0x17; 100_000]] {
        let mut stranger = connect();
        stranger.set_read_timeout(Some(TIMEOUT)).expect("a good time");
        // The broker may hang up before all is sent.
        let _ = stranger.write_all(said);
        let _ = stranger.shutdown(std::net::Shutdown::Write);
        let mut answer = Vec::new();
        let _ = stranger.read_to_end(&mut answer);
        assert!(!answer.windows(4).any(|bytes| bytes == b"AMQP"), "it answered in plain text: {answer:?}");
    }
    // The others are served meanwhile.
    let messages = MessagingParameters { count: 1_000, ..MessagingParameters::default() };
    let report = throughput(&load(named(&broker, &ca), messages)).expect("a run");
    assert_eq!((report.received, report.lost, report.errors.len()), (1_000, 0, 0), "{report:?}");
    drop((silent, half));
    broker.stop().expect("a good end");
}

/// What is wrong with a certificate is named by whoever connects.
#[test]
fn a_certificate_is_checked_by_authority_and_name() {
    let (broker, ca) = secured();
    Session::open(&named(&broker, &ca), TIMEOUT).expect("it is the right one").close().expect("a good end");
    let said = |address: BrokerAddress| match Session::open(&address, TIMEOUT) {
        Ok(_) => panic!("a wrong certificate was accepted"),
        Err(error) => error.to_string(),
    };
    let other = rcgen::generate_simple_self_signed(["other".to_owned()]).expect("a certificate").cert.pem();
    assert!(said(named(&broker, &other)).contains("no authority that is accepted"));
    let by_address: SocketAddr = broker.address();
    let address: BrokerAddress = format!("amqps://{by_address}").parse().expect("an address");
    assert!(said(address.trusting(Some(ca))).contains("is for another name"));
    broker.stop().expect("a good end");
}
