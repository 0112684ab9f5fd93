//! What speaks at a port that a load is to be sent to. A load that meets another protocol would wait for an answer until it times
//! out, or count errors until its time is over.

use crate::failure::{Failure, FailureCode};
use std::{
    io::{Read, Write},
    net::{SocketAddr, TcpStream},
    time::{Duration, Instant},
};

/// What a load speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Protocol {
    Amqp,
    Http,
    Mysql,
    Postgresql,
}

/// A server that answers at all does so within this; one that does not is left to the load, which waits longer.
const TIMEOUT: Duration = Duration::from_millis(700);
/// Most servers that speak first do so within this.
const FIRST_WORD: Duration = Duration::from_millis(200);
/// The first bytes say what it is.
const READ_MAX: usize = 64;

/// What HTTP servers answer, and most others complain of.
const HTTP_REQUEST: &[u8] = b"HEAD / HTTP/1.0\r\n\r\n";
/// AMQP 0-9-1, section 4.2.2.
const AMQP_HEADER: &[u8] = b"AMQP\x00\x00\x09\x01";
/// PostgreSQL's SSLRequest, which every version answers with a letter.
const SSL_REQUEST: &[u8] = &[0, 0, 0, 8, 0x04, 0xd2, 0x16, 0x2f];

impl Protocol {
    const fn name(self) -> &'static str {
        match self {
            Self::Amqp => "AMQP 0-9-1",
            Self::Http => "HTTP",
            Self::Mysql => "the protocol of MariaDB and MySQL",
            Self::Postgresql => "the protocol of PostgreSQL",
        }
    }

    const fn scheme(self) -> &'static str {
        match self {
            Self::Amqp => "amqp://",
            Self::Http => "http://",
            Self::Mysql => "mysql://",
            Self::Postgresql => "postgres://",
        }
    }

    /// What a client says first; nothing where the server does.
    const fn first_words(self) -> &'static [u8] {
        match self {
            Self::Amqp => AMQP_HEADER,
            Self::Http => HTTP_REQUEST,
            Self::Mysql => &[],
            Self::Postgresql => SSL_REQUEST,
        }
    }

    /// Whether this is how a server of this protocol begins after [`Self::first_words`].
    fn is_begun_by(self, answer: &[u8]) -> bool {
        match self {
            // A method frame on channel 0: Connection.Start.
            Self::Amqp => answer.starts_with(&[1, 0, 0]),
            Self::Http => answer.starts_with(b"HTTP/1."),
            Self::Mysql => is_mysql(answer),
            Self::Postgresql => matches!(answer.first(), Some(b'S' | b'N' | b'E')) && answer.len() < READ_MAX,
        }
    }
}

/// A greeting, or an error that takes its place: a packet of number 0 whose first byte is the version 10, or 255.
fn is_mysql(answer: &[u8]) -> bool {
    answer.len() > 5 && answer[2] == 0 && answer[3] == 0 && matches!(answer[4], 10 | 255)
}

/// The name of what begins so, where that is known.
fn spoken(answer: &[u8]) -> Option<&'static str> {
    let begins: [(&[u8], &str); 9] = [
        (b"HTTP/", "HTTP"),
        (b"<!DOCTYPE", "HTTP"),
        (b"SSH-", "SSH"),
        (b"AMQP\x00\x00\x09\x01", "AMQP 0-9-1"),
        (b"AMQP", "another version of AMQP"),
        (b"-ERR", "Redis"),
        (b"+OK", "POP3"),
        (b"* OK", "IMAP"),
        (b"220", "FTP or SMTP"),
    ];
    let known = begins.iter().find(|(begin, _)| answer.starts_with(begin)).map(|(_, name)| *name);
    let tls = || matches!(answer, [0x14..=0x17, 3, ..]).then_some("TLS");
    known.or_else(|| is_mysql(answer).then_some("the protocol of MariaDB and MySQL")).or_else(tls)
}

/// Fails where another protocol than `wanted` is spoken at the first of these addresses that takes a connection. What says nothing, or
/// nothing known, is left to the load.
///
/// # Errors
/// When it is another protocol.
pub(crate) fn check(addresses: &[SocketAddr], wanted: Protocol) -> Result<(), Failure> {
    let connect = |address: &SocketAddr| {
        TcpStream::connect_timeout(address, TIMEOUT).ok().map(|stream| (*address, stream))
    };
    let Some((address, stream)) = addresses.iter().find_map(connect) else { return Ok(()) };
    match found(&address, stream, wanted) {
        Some(found) => Err(refusal(address, wanted, found)),
        None => Ok(()),
    }
}

fn found(address: &SocketAddr, mut stream: TcpStream, wanted: Protocol) -> Option<&'static str> {
    // One that speaks first would take our words for a mistake, and end the connection.
    let timeout = if wanted == Protocol::Mysql { TIMEOUT } else { FIRST_WORD };
    let mut answer = first_bytes(&mut stream, &[], timeout);
    let speaks_first = !answer.is_empty();
    if !speaks_first {
        answer = first_bytes(&mut stream, wanted.first_words(), TIMEOUT);
    }
    // Of these servers only MariaDB and MySQL speak first.
    if speaks_first == (wanted == Protocol::Mysql) && wanted.is_begun_by(&answer) {
        return None;
    }
    if answer.is_empty() && wanted != Protocol::Http {
        // It waits for more of what it takes for its own protocol, or hung up. HTTP says its name.
        let mut again = TcpStream::connect_timeout(address, TIMEOUT).ok()?;
        answer = first_bytes(&mut again, HTTP_REQUEST, TIMEOUT);
    }
    // A broker is asked for its protocol by its own header, and answers another one with it.
    spoken(&answer).filter(|name| !(wanted == Protocol::Amqp && *name == Protocol::Amqp.name()))
}

/// What comes back within the time; nothing where the server hangs up or says nothing.
fn first_bytes(stream: &mut TcpStream, words: &[u8], timeout: Duration) -> Vec<u8> {
    let end = Instant::now() + timeout;
    let mut answer = Vec::new();
    if stream.write_all(words).is_err() {
        return answer;
    }
    let mut buffer = [0; READ_MAX];
    while answer.len() < READ_MAX {
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() || stream.set_read_timeout(Some(left)).is_err() {
            break;
        }
        match stream.read(&mut buffer) {
            Ok(0) | Err(_) => break,
            Ok(count) => answer.extend(&buffer[..count]),
        }
        // The first few bytes are enough.
        if answer.len() >= 8 || matches!(answer.first(), Some(b'S' | b'N')) && answer.len() == 1 {
            break;
        }
    }
    answer
}

fn refusal(address: SocketAddr, wanted: Protocol, found: &str) -> Failure {
    let other = match found {
        "HTTP" => Some("another load, with http:// (`tilemark load --help`)"),
        "AMQP 0-9-1" => Some("another load, with amqp:// (`tilemark load --help`)"),
        "the protocol of MariaDB and MySQL" if wanted == Protocol::Postgresql => Some("mysql://"),
        "the protocol of MariaDB and MySQL" => Some("another load, with mysql:// (`tilemark load --help`)"),
        "TLS" if wanted == Protocol::Http => Some("https://"),
        "TLS" if wanted == Protocol::Amqp => Some("amqps://"),
        _ => None,
    };
    let other = other.map(|other| format!(", or use {other}")).unwrap_or_default();
    Failure::new(
        FailureCode::BadInput,
        format!("{address} speaks {found}, and {} is needed", wanted.name()),
        format!("correct host and port of the address after {}{other}", wanted.scheme()),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{net::TcpListener, thread};

    /// A server that greets so and answers so, to whatever it is sent, until the test's process ends.
    fn server(greeting: &'static [u8], answer: &'static [u8]) -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                thread::spawn(move || {
                    let _ = stream.write_all(greeting);
                    let mut buffer = [0; 256];
                    // A server of lines answers a whole one.
                    while let Ok(count @ 1..) = stream.read(&mut buffer) {
                        if buffer[..count].ends_with(b"\n") || !answer.starts_with(b"HTTP") {
                            let _ = stream.write_all(answer);
                        }
                    }
                });
            }
        });
        address
    }

    const GREETING_OF_MYSQL: &[u8] = b"\x4a\x00\x00\x00\x0a8.0.36\x00\x01\x02\x03";
    const START_OF_AMQP: &[u8] = b"\x01\x00\x00\x00\x00\x01\x00\x0a\x00\x0a";

    #[test]
    fn another_protocol_at_the_port_is_named() {
        let http = server(b"", b"HTTP/1.0 400 Bad Request\r\n\r\n");
        let ssh = server(b"SSH-2.0-OpenSSH_9.2\r\n", b"");
        let mysql = server(GREETING_OF_MYSQL, b"");
        let amqp = server(b"", b"AMQP\x00\x00\x09\x01");
        for (address, wanted, found, instead) in [
            (http, Protocol::Amqp, "HTTP", "another load, with http:// ("),
            (http, Protocol::Mysql, "HTTP", "another load, with http:// ("),
            (http, Protocol::Postgresql, "HTTP", "another load, with http:// ("),
            (ssh, Protocol::Amqp, "SSH", ""),
            (ssh, Protocol::Http, "SSH", ""),
            (ssh, Protocol::Mysql, "SSH", ""),
            (ssh, Protocol::Postgresql, "SSH", ""),
            (mysql, Protocol::Amqp, "MariaDB", "another load, with mysql:// ("),
            (mysql, Protocol::Http, "MariaDB", "another load, with mysql:// ("),
            (mysql, Protocol::Postgresql, "MariaDB", "mysql://"),
            (amqp, Protocol::Http, "AMQP 0-9-1", "another load, with amqp:// ("),
            (amqp, Protocol::Mysql, "AMQP 0-9-1", "another load, with amqp:// ("),
            (amqp, Protocol::Postgresql, "AMQP 0-9-1", "another load, with amqp:// ("),
        ] {
            let failure = check(&[address], wanted).unwrap_err();
            assert_eq!(failure.code, FailureCode::BadInput);
            assert!(failure.message.contains(&format!("speaks {found}")) || failure.message.contains(found));
            assert!(failure.message.contains(wanted.name()), "{failure:?}");
            let remedy = failure.remedy.split(", or use ").collect::<Vec<_>>();
            assert!(remedy[0].ends_with(wanted.scheme()), "{failure:?}");
            let other = remedy.get(1).copied().unwrap_or_default();
            assert!(other.starts_with(instead) && other.is_empty() == instead.is_empty(), "{failure:?}");
        }
    }

    #[test]
    fn the_wanted_protocol_and_a_silent_port_are_left_to_the_load() {
        let http = server(b"", b"HTTP/1.1 200 OK\r\n\r\n");
        let mysql = server(GREETING_OF_MYSQL, b"");
        let postgresql = server(b"", b"N");
        let amqp = server(b"", START_OF_AMQP);
        let silent = server(b"", b"");
        for (address, wanted) in [
            (http, Protocol::Http),
            (mysql, Protocol::Mysql),
            (postgresql, Protocol::Postgresql),
            (amqp, Protocol::Amqp),
            (silent, Protocol::Http),
            (silent, Protocol::Mysql),
            (silent, Protocol::Amqp),
        ] {
            assert_eq!(check(&[address], wanted), Ok(()), "{wanted:?}");
        }
        // Nobody listens there: the load says it in its own words.
        let nobody = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        assert_eq!(check(&[nobody], Protocol::Amqp), Ok(()));
    }
}
