//! Servers of databases: whatever answers at the address of a store.

use crate::server::{Script, Server, joined, parts};
use std::{panic, sync::Once};
use tilemark_store::{
    Books, Cart, Confirmed, DatabaseAddress, DatabaseBooks, DatabaseKind, Endpoint, Item, MariadbSession,
    NewCustomer, PostgresqlSession, Search, SearchKey, Session, StoreError, audit, inspect,
};

/// The first byte says what the client wants and how far the server behaves: an input whose server must say all of a log-in right
/// before anything of ours is reached would rarely get there.
fn take(kind: DatabaseKind, server: &Server, greeting: fn(Wanted) -> Vec<Vec<u8>>, bytes: &[u8]) {
    let Some((first, rest)) = bytes.split_first() else { return };
    let wanted = Wanted::of(first % 4);
    let behaves = first & 0x80 == 0;
    let mut answers = if behaves { greeting(wanted) } else { Vec::new() };
    answers.extend(parts(rest));
    let (path, port) = (server.path(), 5432);
    let path = match kind {
        DatabaseKind::Mariadb => path,
        // It names its socket itself, in a folder.
        DatabaseKind::Postgresql => path.parent().expect("it is in a folder").to_owned(),
    };
    let address = DatabaseAddress {
        kind,
        endpoint: Endpoint::Socket { path, port },
        user: "web".to_owned(),
        password: None,
        database: "store".to_owned(),
        tls: None,
    };
    let script = Script { answers, greets: kind == DatabaseKind::Mariadb };
    server.talk(script, || {
        // What came of it is the server's affair: it must only come to an end.
        let _ = visit(&address, wanted);
    });
}

/// The library of MariaDB panics where a server does not keep the protocol, and its user catches that: such a panic is no finding,
/// and the fuzzer must not take it for one before it is caught. Any other is.
fn let_the_library_panic() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let usual = panic::take_hook();
        panic::set_hook(Box::new(move |panic| {
            let is_of_library = |file: &str| file.contains("/mysql-") || file.contains("/mysql_common-");
            if !panic.location().is_some_and(|place| is_of_library(place.file())) {
                usual(panic);
            }
        }));
    });
}

/// What a client wants.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Wanted {
    Orders,
    Inspection,
    Audit,
    Restock,
}

impl Wanted {
    const fn of(number: u8) -> Self {
        match number {
            0 => Self::Orders,
            1 => Self::Inspection,
            2 => Self::Audit,
            _ => Self::Restock,
        }
    }
}

fn visit(address: &DatabaseAddress, wanted: Wanted) -> Result<(), StoreError> {
    match wanted {
        Wanted::Inspection => {
            inspect(address, 4)?;
        }
        Wanted::Audit => {
            let mut books = DatabaseBooks::open(address)?;
            let before = books.snapshot()?;
            audit(&mut books, &before, &Confirmed::default())?;
        }
        Wanted::Orders | Wanted::Restock => {
            let mut session: Box<dyn Session> = match address.kind {
                DatabaseKind::Mariadb => Box::new(MariadbSession::open(address)?),
                DatabaseKind::Postgresql => Box::new(PostgresqlSession::open(address)?),
            };
            shop(session.as_mut(), wanted)?;
        }
    }
    Ok(())
}

/// All that a client does. An error that leaves the connection lets it go on.
fn shop(session: &mut dyn Session, wanted: Wanted) -> Result<(), StoreError> {
    let cart = Cart {
        customer_id: 1,
        items: vec![Item { prod_id: 7, quantity: 1 }, Item { prod_id: 8, quantity: 3 }],
    };
    let go_on = |outcome: Result<(), StoreError>| match outcome {
        Err(error) if error.ends_connection() => Err(error),
        Ok(()) | Err(_) => Ok(()),
    };
    if wanted == Wanted::Restock {
        go_on(session.restock(Item { prod_id: 7, quantity: 3 }, 100).map(drop))?;
        return go_on(session.purchase(&cart).map(drop));
    }
    go_on(session.login("user1", "password").map(drop))?;
    go_on(session.purchase(&cart).map(drop))?;
    for key in [SearchKey::Category(1), SearchKey::Actor("A B".into()), SearchKey::Title("C".into())] {
        go_on(session.browse(&Search { key, limit: 10 }).map(drop))?;
    }
    go_on(session.new_customer(&NewCustomer::default()).map(drop))
}

thread_local! {
    static MARIADB_SERVER: Server = Server::listen("mariadb");
    static POSTGRESQL_SERVER: Server = Server::listen(".s.PGSQL.5432");
}

/// Takes what a server of MariaDB says.
pub fn take_mariadb(bytes: &[u8]) {
    let_the_library_panic();
    MARIADB_SERVER.with(|server| take(DatabaseKind::Mariadb, server, mariadb_greeting, bytes));
}

/// Takes what a server of PostgreSQL says.
pub fn take_postgresql(bytes: &[u8]) {
    POSTGRESQL_SERVER.with(|server| take(DatabaseKind::Postgresql, server, postgresql_greeting, bytes));
}

/// A packet of MariaDB: its length in three bytes, its number, its content.
fn packet(number: u8, content: &[u8]) -> Vec<u8> {
    let length = (content.len() as u32).to_le_bytes();
    [&length[..3], &[number], content].concat()
}

/// Packets of one answer, numbered from 1.
fn packets(contents: &[Vec<u8>]) -> Vec<u8> {
    (1..).zip(contents).flat_map(|(number, content)| packet(number, content)).collect()
}

const DONE: &[u8] = &[0, 0, 9, 2, 0, 0, 0];
const END: &[u8] = &[0xfe, 0, 0, 2, 0];
/// The same where further answers follow.
const DONE_MORE: &[u8] = &[0, 0, 0, 10, 0, 0, 0];
const END_MORE: &[u8] = &[0xfe, 0, 0, 10, 0];

/// A column of whole numbers (8) or of texts (253).
fn column(kind: u8) -> Vec<u8> {
    let names = b"\x03def\x05store\x01t\x01t\x01c\x01c\x0c\x21\x00\x14\x00\x00\x00";
    [&names[..], &[kind, 0, 0, 0, 0, 0]].concat()
}

fn text(value: &str) -> Vec<u8> {
    [&[value.len() as u8][..], value.as_bytes()].concat()
}

/// A table of one row of texts, whose columns are of a kind.
fn table(kind: u8, row: &[&str], end: &[u8]) -> Vec<Vec<u8>> {
    let columns = std::iter::repeat_n(column(kind), row.len());
    let values: Vec<u8> = row.iter().flat_map(|value| text(value)).collect();
    [vec![vec![row.len() as u8]], columns.collect(), vec![end.to_vec(), values, end.to_vec()]].concat()
}

/// The answer to a statement that is prepared.
fn prepared(id: u8, columns: u8, parameters: u8) -> Vec<u8> {
    let mut contents = vec![vec![0, id, 0, 0, 0, columns, 0, parameters, 0, 0, 0, 0]];
    for count in [parameters, columns] {
        contents.extend(std::iter::repeat_n(column(8), count.into()));
        if count > 0 {
            contents.push(END.to_vec());
        }
    }
    packets(&contents)
}

/// A log-in, and for orders the statements that every client prepares.
fn mariadb_greeting(wanted: Wanted) -> Vec<Vec<u8>> {
    let mut hello = b"\x0a10.11.6-MariaDB\0\x07\0\0\0abcdefgh\0".to_vec();
    // What it can do, as its makers number it: everything that is asked of it and no compression.
    hello.extend_from_slice(&[0x0e, 0xa2, 0x21, 2, 0, 0x0b, 0, 21]);
    hello.extend_from_slice(&[0; 10]);
    hello.extend_from_slice(b"abcdefghijkl\0mysql_native_password\0");
    let mut answers = vec![packet(0, &hello), packet(2, DONE)];
    if matches!(wanted, Wanted::Orders | Wanted::Restock) {
        answers.extend([
            prepared(1, 4, 2),
            prepared(2, 0, 18),
            prepared(3, 7, 2),
            prepared(4, 7, 2),
            prepared(5, 7, 2),
        ]);
    }
    answers
}

pub(crate) fn mariadb() -> Vec<Vec<u8>> {
    let row = [&[0, 0][..], &[7, 0, 0, 0, 0, 0, 0, 0], b"\x01a\x01b\x01c"].concat();
    let login = packets(&[
        vec![4],
        column(8),
        column(253),
        column(253),
        column(253),
        END.to_vec(),
        row,
        END.to_vec(),
    ]);
    let rows = table(8, &["7", "1200", "5"], END_MORE);
    let shelves = packets(&[vec![DONE_MORE.to_vec()], rows, vec![DONE.to_vec()]].concat());
    let order = packets(&[DONE_MORE.to_vec(), DONE_MORE.to_vec(), DONE.to_vec()]);
    let browse =
        packets(&[vec![1], column(8), END.to_vec(), vec![0, 0, 1, 0, 0, 0, 0, 0, 0, 0], END.to_vec()]);
    let refused = packet(1, b"\xff\xbd\x04#40001Deadlock found");
    let orders = [login, shelves, order, browse.clone(), refused.clone(), browse, packet(1, DONE)];
    let one = |value: &str| packets(&table(253, &[value], END));
    let inspection = [
        one("11.4.2-MariaDB"),
        one("0"),
        packets(&table(8, &["100"], END)),
        one("products"),
        one("complete"),
    ];
    let numbers = packets(&table(8, &["1", "2", "3", "4", "5", "6", "7", "8", "9"], END));
    let three = packets(&table(8, &["1", "50", "3"], END));
    let two = packets(&table(8, &["1", "5"], END));
    let single = packets(&table(8, &["1"], END));
    let snapshot = vec![three.clone(), two, single.clone(), single.clone()];
    let audit = [snapshot.clone(), vec![numbers, three, single], snapshot].concat();
    let low = packets(&table(8, &["1"], END));
    let restock = [packet(1, DONE), low, packet(1, DONE), packet(1, DONE), packet(1, DONE), refused];
    let raw = mariadb_greeting(Wanted::Orders);
    [
        (0, joined(&orders)),
        (1, joined(&inspection)),
        (2, joined(&audit)),
        (3, joined(&restock)),
        (0x80, joined(&raw)),
    ]
    .into_iter()
    .map(|(first, rest)| [&[first][..], &rest].concat())
    .collect()
}

/// A message of PostgreSQL: its kind, its length with the length itself, its content.
fn message(kind: u8, content: &[u8]) -> Vec<u8> {
    let length = (content.len() as u32 + 4).to_be_bytes();
    [&[kind][..], &length, content].concat()
}

fn ready(state: u8) -> Vec<u8> {
    message(b'Z', &[state])
}

/// Columns of these types.
fn row_description(types: &[u32]) -> Vec<u8> {
    let mut content = (types.len() as u16).to_be_bytes().to_vec();
    for kind in types {
        content.extend_from_slice(b"c\0\0\0\0\0\0\0");
        content.extend_from_slice(&kind.to_be_bytes());
        content.extend_from_slice(&[0, 8, 0xff, 0xff, 0xff, 0xff, 0, 0]);
    }
    message(b'T', &content)
}

fn row(values: &[&[u8]]) -> Vec<u8> {
    let mut content = (values.len() as u16).to_be_bytes().to_vec();
    for value in values {
        content.extend_from_slice(&(value.len() as u32).to_be_bytes());
        content.extend_from_slice(value);
    }
    message(b'D', &content)
}

const INT8: u32 = 20;
const INT4: u32 = 23;
const TEXT: u32 = 25;
const INT4_ARRAY: u32 = 1007;

/// The answer to a statement that is prepared.
fn described(parameters: &[u32], columns: &[u32]) -> Vec<u8> {
    let mut content = (parameters.len() as u16).to_be_bytes().to_vec();
    parameters.iter().for_each(|kind| content.extend_from_slice(&kind.to_be_bytes()));
    let columns = if columns.is_empty() { message(b'n', b"") } else { row_description(columns) };
    [message(b'1', b""), message(b't', &content), columns, ready(b'I')].concat()
}

/// The answer to a statement with rows.
fn rows(rows: &[Vec<u8>]) -> Vec<u8> {
    [&message(b'2', b"")[..], &rows.concat(), &message(b'C', b"SELECT 1\0"), &ready(b'T')].concat()
}

fn command(tag: &[u8]) -> Vec<u8> {
    [message(b'C', tag), ready(b'T')].concat()
}

fn postgresql_greeting(wanted: Wanted) -> Vec<Vec<u8>> {
    let hello = [message(b'R', &[0; 4]), message(b'S', b"server_version\x0015.6\0"), ready(b'I')].concat();
    let mut answers = vec![hello];
    if matches!(wanted, Wanted::Orders | Wanted::Restock) {
        answers.extend([
            described(&[TEXT, TEXT], &[INT4, TEXT, TEXT, TEXT]),
            described(
                &[
                    TEXT, TEXT, TEXT, TEXT, TEXT, TEXT, TEXT, INT4, TEXT, TEXT, INT4, TEXT, TEXT, TEXT, TEXT,
                    INT4, INT4, TEXT,
                ],
                &[INT4],
            ),
            described(&[INT4, INT8], &[INT4, INT4, TEXT, TEXT, TEXT, INT4, INT4]),
            described(&[TEXT, INT8], &[INT4, INT4, TEXT, TEXT, TEXT, INT4, INT4]),
            described(&[TEXT, INT8], &[INT4, INT4, TEXT, TEXT, TEXT, INT4, INT4]),
            described(&[INT4_ARRAY], &[INT4, INT8, INT4]),
            described(&[INT4, INT8, INT8, INT8, INT4_ARRAY, INT4_ARRAY, INT4_ARRAY, INT4_ARRAY], &[INT4]),
        ]);
    }
    answers
}

pub(crate) fn postgresql() -> Vec<Vec<u8>> {
    let seven = 7_i32.to_be_bytes();
    let cents = 1200_i64.to_be_bytes();
    let begun = command(b"BEGIN\0");
    let shelf =
        |cents: &[u8]| rows(&[row(&[&seven, cents, &seven]), row(&[&8_i32.to_be_bytes(), cents, &seven])]);
    let refused = [message(b'E', b"SERROR\0C40P01\0Mdeadlock detected\0\0"), ready(b'E')].concat();
    let orders = |cents: &[u8]| {
        [
            rows(&[row(&[&seven, b"a", b"b", b"c"])]),
            begun.clone(),
            shelf(cents),
            rows(&[row(&[&seven])]),
            command(b"COMMIT\0"),
            rows(&[]),
            rows(&[]),
            refused.clone(),
        ]
    };
    let one = |kind, value: &[u8]| [described(&[], &[kind]), rows(&[row(&[value])])];
    let inspection = [
        one(TEXT, b"PostgreSQL 15.6"),
        one(TEXT, b"0"),
        one(INT8, &100_i64.to_be_bytes()),
        one(TEXT, b"products"),
    ]
    .concat();
    let wide: Vec<&[u8]> = vec![&cents; 9];
    let audit = vec![[described(&[], &[INT8; 9]), rows(&[row(&wide)])]; 4].concat();
    let low = [
        begun.clone(),
        described(&[INT4], &[INT4]),
        rows(&[row(&[&1_i32.to_be_bytes()])]),
        command(b"COMMIT\0"),
    ];
    let raw = postgresql_greeting(Wanted::Orders);
    [
        (0, joined(&orders(&cents))),
        // The sum of such a price and its tax was too large for its number.
        (0, joined(&orders(&i64::MAX.to_be_bytes()))),
        (1, joined(&inspection)),
        (2, joined(&audit)),
        (3, joined(&low)),
        (0x80, joined(&raw)),
    ]
    .into_iter()
    .map(|(first, rest)| [&[first][..], &rest].concat())
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_that_ends_leaves_no_folder_of_its_server() {
        let used = std::thread::spawn(|| POSTGRESQL_SERVER.with(Server::path)).join().unwrap();
        assert!(!used.parent().unwrap().exists(), "{used:?} is left");
    }
}
