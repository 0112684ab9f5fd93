//! Servers that do not behave: whatever they say, a client has an error and no panic.

#![allow(clippy::unwrap_used, reason = "helpers of tests, which clippy does not see as such")]

use std::io::{Read, Write};
use std::net::TcpListener;
use std::os::unix::net::{UnixListener, UnixStream};
use std::thread;

use tempfile::TempDir;
use tilemark_store::{
    Books, Confirmed, DatabaseAddress, DatabaseBooks, HistoryRow, OrderLine, Shelves, Snapshot, StoreError,
    audit, inspect,
};

/// A server of MariaDB that gives these answers, one for each thing that it hears, and then hangs up.
fn served(answers: &[Vec<u8>]) -> (TempDir, DatabaseAddress) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("socket");
    let listener = UnixListener::bind(&path).unwrap();
    let answers = [greeting(), answers.to_vec()].concat();
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            // A client that hangs up has had enough.
            let _ = answer(stream, &answers);
        }
    });
    let address = format!("mysql://web:tiger@localhost/store?socket={}", path.display());
    (folder, address.parse().unwrap())
}

fn answer(mut stream: UnixStream, answers: &[Vec<u8>]) -> std::io::Result<()> {
    let mut heard = [0; 4096];
    for (place, part) in answers.iter().enumerate() {
        if place > 0 && stream.read(&mut heard)? == 0 {
            break;
        }
        stream.write_all(part)?;
    }
    // Whoever still asks hears the end.
    stream.shutdown(std::net::Shutdown::Write)?;
    while stream.read(&mut heard)? > 0 {}
    Ok(())
}

fn packet(number: u8, content: &[u8]) -> Vec<u8> {
    [&(content.len() as u32).to_le_bytes()[..3], &[number], content].concat()
}

/// A log-in.
fn greeting() -> Vec<Vec<u8>> {
    let mut hello = b"\x0a11.4.2-MariaDB\0\x07\0\0\0abcdefgh\0".to_vec();
    hello.extend_from_slice(&[0x0e, 0xa2, 0x21, 2, 0, 0x0b, 0, 21]);
    hello.extend_from_slice(&[0; 10]);
    hello.extend_from_slice(b"abcdefghijkl\0mysql_native_password\0");
    vec![packet(0, &hello), packet(2, &[0, 0, 0, 2, 0, 0, 0])]
}

const END: &[u8] = &[0xfe, 0, 0, 2, 0];

/// A table of one row; each value as it is on the wire.
fn table(values: &[&[u8]]) -> Vec<u8> {
    let column = b"\x03def\x05store\x01t\x01t\x01c\x01c\x0c\x21\x00\x14\x00\x00\x00\x08\0\0\0\0\0";
    let mut contents = vec![vec![values.len() as u8]];
    contents.extend(values.iter().map(|_| column.to_vec()));
    contents.extend([END.to_vec(), values.concat(), END.to_vec()]);
    (1..).zip(contents).flat_map(|(number, content)| packet(number, &content)).collect()
}

fn snapshot(answers: &[Vec<u8>]) -> Result<Snapshot, StoreError> {
    let (_folder, address) = served(answers);
    DatabaseBooks::open(&address)?.snapshot()
}

/// Stock, deliveries, and the last id of a table, as a small store has them.
fn right() -> [Vec<u8>; 3] {
    [table(&[b"\x011", b"\x0250", b"\x013"]), table(&[b"\x011", b"\x015"]), table(&[b"\x011"])]
}

#[test]
fn the_greeting_of_these_tests_is_right() {
    let [stock, deliveries, last] = right();
    let right = snapshot(&[stock, deliveries, last.clone(), last]).unwrap();
    assert_eq!((right.shelves.len(), right.shelves[0].in_stock, right.last_order), (1, 50, 1));
}

/// What a client that wants TLS comes to at a server that says these two things; and all that the server hears of it.
fn secured_by(greeting: Vec<u8>, then: Vec<u8>) -> (StoreError, Vec<u8>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let server = thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut heard = vec![0; 4096];
        // A client that hangs up has had enough.
        let _ = stream.write_all(&greeting);
        let first = stream.read(&mut heard).unwrap_or(0);
        let _ = stream.write_all(&then);
        let _ = stream.shutdown(std::net::Shutdown::Write);
        heard.truncate(first);
        let _ = stream.read_to_end(&mut heard);
        heard
    });
    let address = format!("mysql://shopper:tiger@127.0.0.1:{port}/store?ssl-mode=required");
    let error = inspect(&address.parse().unwrap(), 1).unwrap_err();
    (error, server.join().unwrap())
}

#[test]
fn nobody_learns_who_logs_in_before_tls_is_there() {
    let [hello, ok] = greeting().try_into().unwrap();
    let offers = |yes: bool| {
        let mut hello = hello.clone();
        let bits = hello.windows(2).position(|pair| pair == [0x0e, 0xa2]).unwrap() + 1;
        // The bit for TLS.
        hello[bits] |= if yes { 0x08 } else { 0 };
        hello
    };
    let wrong = |greeting: Vec<u8>, then: &[u8]| {
        let (error, heard) = secured_by(greeting, then.to_vec());
        for secret in [&b"shopper"[..], b"tiger", b"store"] {
            assert!(!heard.windows(secret.len()).any(|bytes| bytes == secret), "{heard:?}");
        }
        error
    };
    // It offers no TLS, as somebody in the middle might say for it.
    assert!(matches!(wrong(offers(false), &ok), StoreError::NoTls { .. }));
    // It offers TLS and goes on without.
    let error = wrong(offers(true), &ok);
    assert!(matches!(error, StoreError::Tls { .. }), "{}", error.with_causes());
    // What follows the greeting in plain text is not taken for what comes through TLS.
    let error = wrong([offers(true), ok.clone()].concat(), &[]);
    assert!(error.with_causes().contains("what nobody asked for"), "{}", error.with_causes());
    // It ends.
    assert!(matches!(wrong(offers(true), &[]), StoreError::Down { .. }));
}

#[test]
fn a_version_that_is_no_text_is_an_error() {
    const NULL: &[u8] = &[0xfb];
    for value in [NULL, b"\x02\xff\xfe"] {
        let (_folder, address) = served(&[table(&[value])]);
        assert!(inspect(&address, 1).is_err());
    }
}

#[test]
fn values_that_are_no_numbers_are_an_error() {
    assert!(snapshot(&[table(&[b"\x03one", b"\x0250", b"\x013"])]).is_err());
}

#[test]
fn rows_with_too_few_columns_are_an_error() {
    assert!(snapshot(&[table(&[b"\x011"])]).is_err());
}

#[test]
fn an_empty_packet_is_an_error_wherever_it_comes() {
    let empty = packet(1, b"");
    assert!(snapshot(std::slice::from_ref(&empty)).is_err());
    // In the place of a row.
    let mut cut = table(&[b"\x011", b"\x0250", b"\x013"]);
    cut.truncate(cut.len() - (4 + END.len()) - (4 + b"\x011\x0250\x013".len()));
    cut.extend(packet(6, b""));
    assert!(snapshot(&[cut]).is_err());
}

#[test]
fn a_server_without_end_is_not_read_into_memory() {
    // The ids of products decide how much is kept of them.
    let huge = table(&[b"\x0d9000000000000", b"\x0250", b"\x013"]);
    let [_, deliveries, last] = right();
    assert_eq!(snapshot(&[huge, deliveries, last.clone(), last]).unwrap().shelves.len(), 1);
}

/// Books at the ends of their numbers.
struct Extreme(i64);

impl Books for Extreme {
    fn snapshot(&mut self) -> Result<Snapshot, StoreError> {
        let shelves = Shelves { in_stock: self.0, sales: self.0, delivered: self.0 };
        self.0 = self.0.checked_neg().unwrap_or(i64::MAX);
        Ok(Snapshot { shelves: vec![shelves], last_order: 0, last_customer: 0 })
    }
    fn orders_after(&mut self, _: i64, each: &mut dyn FnMut(OrderLine)) -> Result<(), StoreError> {
        for order_id in [1, 2] {
            each(OrderLine {
                order_id,
                customer_id: Some(1),
                net_cents: self.0,
                tax_cents: self.0,
                total_cents: self.0,
                number: Some(1),
                prod_id: Some(1),
                quantity: Some(self.0),
                price_cents: Some(self.0),
            });
        }
        Ok(())
    }
    fn history_after(&mut self, _: i64, each: &mut dyn FnMut(HistoryRow)) -> Result<(), StoreError> {
        each(HistoryRow { customer_id: self.0, order_id: self.0, prod_id: self.0 });
        Ok(())
    }
    fn customers_after(&mut self, _: i64, each: &mut dyn FnMut(i64)) -> Result<(), StoreError> {
        each(self.0);
        Ok(())
    }
}

#[test]
fn books_at_the_ends_of_their_numbers_are_audited_and_do_not_agree() {
    for end in [i64::MIN, i64::MAX] {
        let mut books = Extreme(end);
        let before = books.snapshot().unwrap();
        assert!(!audit(&mut books, &before, &Confirmed::default()).unwrap().agrees, "{end}");
    }
}
