//! The hot path of a client on MariaDB: commands and answers on a connection that the library has opened and logged in.
//!
//! Of an answer a client wants a count, an id or a few numbers. The library makes every row a list of owned values and reads
//! through a buffer of 4 MiB, so that each byte of an answer falls on cold memory. Here a command leaves by one system call,
//! and answers are read where they were received, always in the same few pages. What the bytes mean is MariaDB's
//! [client/server protocol](https://mariadb.com/docs/server/reference/clientserver-protocol).

use std::io::{self, Write};
use std::ops::Range;
use std::os::fd::OwnedFd;

use mysql::consts::ColumnType;
use mysql::{Column, FromValueError, MySqlError, Statement, Value};
use mysql_common::io::ParseBuf;
use rustix::io::retry_on_intr;
use rustix::net::{RecvFlags, SendFlags, recv, send};
use tilemark_tls::{Secured, Tls, TlsFailure};

/// Length in three bytes and number in one, before each packet.
const HEADER: usize = 4;

/// A packet of this length, in bytes, goes on in the next one. Nothing that a client sends or asks for is near to it.
const TOO_LONG: usize = 0xff_ffff;

/// Bytes received at once; answers of a store have about a thousand.
const RECEIVED_AT_ONCE: usize = 16 << 10;

/// Bytes of rows in a packet, where a table is loaded.
const ROWS_AT_ONCE: usize = 64 << 10;

const COM_QUERY: u8 = 0x03;
const COM_STMT_PREPARE: u8 = 0x16;
const COM_STMT_EXECUTE: u8 = 0x17;

/// First bytes of packets.
const OK: u8 = 0x00;
const LOCAL_INFILE: u8 = 0xfb;
const EOF: u8 = 0xfe;
const REFUSED: u8 = 0xff;

/// In a row of texts: no value.
const NULL: u8 = 0xfb;

/// A bit of the server's status: the command has further answers.
const MORE_ANSWERS: u16 = 0x0008;

/// A value of a prepared statement.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Bound<'a> {
    Number(i64),
    Text(&'a str),
}

/// What a command did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Done {
    /// Rows of all its answers.
    pub(crate) rows: u64,
    /// The first id that one of its statements gave to a row, 0 if none did.
    pub(crate) insert_id: u64,
}

/// A statement that the server keeps.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Prepared {
    pub(crate) id: u32,
    /// Its first column, if that is a whole number.
    pub(crate) first: Option<FirstNumber>,
}

impl Prepared {
    /// One that the library has prepared.
    pub(crate) fn of(statement: &Statement) -> Self {
        let columns = statement.columns();
        let first = columns.first().and_then(|first| FirstNumber::of(first.column_type(), columns.len()));
        Self { id: statement.id(), first }
    }
}

/// What to do with a row's bytes.
type EachRow<'a> = &'a mut dyn FnMut(&[u8]) -> Result<(), mysql::Error>;

/// A logged-in connection, between two commands.
pub(crate) struct Wire {
    socket: OwnedFd,
    /// Where what is said is secured.
    sealing: Option<Box<Sealing>>,
    /// The command under way with its header.
    command: Vec<u8>,
    /// What was received and not yet read is from `read` to `filled`.
    received: Vec<u8>,
    read: usize,
    filled: usize,
    /// Number of the next packet.
    number: u8,
}

impl Wire {
    pub(crate) fn over(socket: OwnedFd) -> Self {
        let received = vec![0; RECEIVED_AT_ONCE];
        Self { socket, sealing: None, command: Vec::new(), received, read: 0, filled: 0, number: 0 }
    }

    /// Secures all that is said from here on.
    pub(crate) fn secure(&mut self, tls: &Tls) -> Result<(), mysql::Error> {
        if self.read != self.filled {
            // Whoever is between could have put it there, and it would count as if it were secured.
            return Err(broken("the server sent what nobody asked for".to_owned()));
        }
        let mut sealing = Sealing::new(tls);
        sealing.shake_hands(&self.socket)?;
        self.sealing = Some(Box::new(sealing));
        Ok(())
    }

    /// A packet of a log-in.
    pub(crate) fn read_packet(&mut self) -> Result<Vec<u8>, mysql::Error> {
        let at = self.packet()?;
        Ok(self.received[at].to_vec())
    }

    /// Sends the next packet of a conversation that is no command.
    pub(crate) fn send_packet(&mut self, body: &[u8]) -> Result<(), mysql::Error> {
        self.command.clear();
        self.command.extend_from_slice(&[0; HEADER]);
        self.command.extend_from_slice(body);
        self.send_numbered(self.number)
    }

    /// Has the server keep a statement.
    pub(crate) fn prepare(&mut self, sql: &str) -> Result<Prepared, mysql::Error> {
        self.begin(COM_STMT_PREPARE);
        self.command.extend_from_slice(sql.as_bytes());
        self.send()?;
        let at = self.packet()?;
        let mut said = Bytes(&self.received[at]);
        said.skip(1)?;
        let (id, columns, values) = (said.number(4)? as u32, said.u16()?, said.u16()?);
        self.definitions(values)?;
        let first = self.definitions(columns)?;
        let first = first.and_then(|first| FirstNumber::of(first.column_type(), columns.into()));
        Ok(Prepared { id, first })
    }

    /// Reads so many definitions and their end; the first of them.
    fn definitions(&mut self, count: u16) -> Result<Option<Column>, mysql::Error> {
        let mut first = None;
        for number in 0..count {
            let at = self.packet()?;
            if number == 0 {
                first = Some(ParseBuf(&self.received[at]).parse(())?);
            }
        }
        if count > 0 {
            let at = self.packet()?;
            if end_of_rows(&self.received[at]).is_none() {
                return Err(broken("the columns of a statement have no end".to_owned()));
            }
        }
        Ok(first)
    }

    /// Does a statement that loads rows from its client, which `write` writes. It is not called where the server asks for none.
    pub(crate) fn load(
        &mut self,
        sql: &str,
        write: impl FnOnce(&mut dyn Write) -> io::Result<()>,
    ) -> Result<(), mysql::Error> {
        self.begin(COM_QUERY);
        self.command.extend_from_slice(sql.as_bytes());
        self.send()?;
        let at = self.packet()?;
        if self.received[at].first() != Some(&LOCAL_INFILE) {
            return Ok(());
        }
        let mut rows = Rows { wire: self, body: Vec::with_capacity(ROWS_AT_ONCE) };
        write(&mut rows)?;
        rows.flush()?;
        self.send_packet(&[])?;
        self.packet().map(drop)
    }

    /// Does one or several statements. After an error of the server or of `each`, the next command may follow; any other
    /// error ends the connection.
    pub(crate) fn query(&mut self, sql: &str, each: EachRow<'_>) -> Result<Done, mysql::Error> {
        self.begin(COM_QUERY);
        self.command.extend_from_slice(sql.as_bytes());
        self.send()?;
        self.answers(each)
    }

    /// Does a prepared statement; errors as of [`query`](Self::query).
    pub(crate) fn execute(
        &mut self,
        statement: u32,
        values: &[Bound<'_>],
        each: EachRow<'_>,
    ) -> Result<Done, mysql::Error> {
        self.begin(COM_STMT_EXECUTE);
        write_execution(&mut self.command, statement, values);
        self.send()?;
        self.answers(each)
    }

    fn begin(&mut self, command: u8) {
        self.command.clear();
        self.command.extend_from_slice(&[0; HEADER]);
        self.command.push(command);
    }

    /// Sends a command, which is packet 0.
    fn send(&mut self) -> Result<(), mysql::Error> {
        self.send_numbered(0)
    }

    fn send_numbered(&mut self, number: u8) -> Result<(), mysql::Error> {
        let length = self.command.len() - HEADER;
        if length >= TOO_LONG {
            return Err(broken(format!("a command of {length} bytes is longer than a packet can be")));
        }
        if self.read != self.filled {
            return Err(broken("the server sent what nobody asked for".to_owned()));
        }
        self.command[..3].copy_from_slice(&length.to_le_bytes()[..3]);
        self.command[3] = number;
        self.number = number.wrapping_add(1);
        match &mut self.sealing {
            None => send_all(&self.socket, &self.command)?,
            Some(sealing) => sealing.send(&self.socket, &mut self.command)?,
        }
        Ok(())
    }

    /// Reads all answers of a command, to the end even if `each` does not like a row: the next command's come after them.
    fn answers(&mut self, each: EachRow<'_>) -> Result<Done, mysql::Error> {
        let mut done = Done::default();
        let mut outcome = Ok(());
        loop {
            let status = self.answer(&mut done, &mut |row| {
                if outcome.is_ok() {
                    outcome = each(row);
                }
            })?;
            if status & MORE_ANSWERS == 0 {
                break;
            }
        }
        outcome.map(|()| done)
    }

    /// Reads one answer and says the server's status after it.
    fn answer(&mut self, done: &mut Done, each: &mut dyn FnMut(&[u8])) -> Result<u16, mysql::Error> {
        let at = self.packet()?;
        let mut first = Bytes(&self.received[at]);
        let columns = match first.peek() {
            Some(OK) => {
                first.skip(1)?;
                first.length()?; // Rows that were changed.
                let insert_id = first.length()?;
                if done.insert_id == 0 {
                    done.insert_id = insert_id;
                }
                return Ok(first.u16()?);
            }
            Some(LOCAL_INFILE) => return Err(broken("the server asked for a file".to_owned())),
            _ => first.length()?,
        };
        // Columns that did not change since the statement was prepared are not described again, and a byte says so.
        let described = if first.peek() == Some(0) { 0 } else { columns };
        for _ in 0..described {
            self.packet()?;
        }
        let at = self.packet()?;
        if end_of_rows(&self.received[at]).is_none() {
            return Err(broken("the columns of an answer have no end".to_owned()));
        }
        loop {
            let at = self.packet()?;
            let row = &self.received[at];
            if let Some(status) = end_of_rows(row) {
                return Ok(status);
            }
            done.rows += 1;
            each(row);
        }
    }

    /// Where the next packet is in what was received. The server's refusal is an error, wherever it comes.
    fn packet(&mut self) -> Result<Range<usize>, mysql::Error> {
        self.receive(HEADER)?;
        let [low, middle, high, number] = self.header();
        let length = usize::from(low) | usize::from(middle) << 8 | usize::from(high) << 16;
        if length >= TOO_LONG {
            return Err(broken(format!("an answer's packet of {length} bytes or more is too long")));
        }
        if number != self.number {
            return Err(broken(format!("the server sent packet {number} in the place of {}", self.number)));
        }
        self.number = number.wrapping_add(1);
        self.receive(HEADER + length)?;
        let at = self.read + HEADER..self.read + HEADER + length;
        self.read = at.end;
        match self.received[at.clone()] {
            [] => Err(broken("the server sent an empty packet".to_owned())),
            [REFUSED, ref body @ ..] => Err(refusal(body)?),
            _ => Ok(at),
        }
    }

    fn header(&self) -> [u8; HEADER] {
        std::array::from_fn(|byte| self.received[self.read + byte])
    }

    /// Receives until at least this many bytes are there to be read.
    fn receive(&mut self, wanted: usize) -> Result<(), mysql::Error> {
        while self.filled - self.read < wanted {
            if self.read == self.filled || self.received.len() - self.read < wanted {
                self.received.copy_within(self.read..self.filled, 0);
                (self.read, self.filled) = (0, self.filled - self.read);
            }
            if self.received.len() < wanted {
                self.received.resize(wanted, 0);
            }
            if let Some(sealing) = &mut self.sealing {
                sealing.receive(&self.socket)?;
                self.received.copy_within(self.read..self.filled, 0);
                (self.read, self.filled) = (0, self.filled - self.read);
                let filled = self.filled + sealing.plain.len();
                if self.received.len() < filled {
                    self.received.resize(filled, 0);
                }
                self.received[self.filled..filled].copy_from_slice(&sealing.plain);
                self.filled = filled;
                continue;
            }
            let room = &mut self.received[self.filled..];
            let (count, _) = retry_on_intr(|| recv(&self.socket, &mut *room, RecvFlags::empty()))
                .map_err(io::Error::from)?;
            if count == 0 {
                return Err(disconnected().into());
            }
            self.filled += count;
        }
        Ok(())
    }
}

fn send_all(socket: &OwnedFd, mut rest: &[u8]) -> io::Result<()> {
    while !rest.is_empty() {
        let sent = retry_on_intr(|| send(socket, rest, SendFlags::NOSIGNAL))?;
        rest = &rest[sent..];
    }
    Ok(())
}

fn disconnected() -> io::Error {
    io::Error::new(io::ErrorKind::BrokenPipe, "server disconnected")
}

/// The TLS of a wire.
struct Sealing {
    secured: Secured,
    arrived: Vec<u8>,
    /// What was received last, opened.
    plain: Vec<u8>,
}

impl Sealing {
    fn new(tls: &Tls) -> Self {
        Self { secured: Secured::new(tls), arrived: vec![0; RECEIVED_AT_ONCE], plain: Vec::new() }
    }

    /// Until both ends agree.
    fn shake_hands(&mut self, socket: &OwnedFd) -> io::Result<()> {
        self.send(socket, &mut Vec::new())?;
        while self.secured.is_handshaking() {
            self.receive_once(socket)?;
        }
        Ok(())
    }

    /// Sends what is in `bytes`, and empties it.
    fn send(&mut self, socket: &OwnedFd, bytes: &mut Vec<u8>) -> io::Result<()> {
        let sealed = self.secured.seal(bytes);
        send_all(socket, sealed)?;
        sealed.clear();
        Ok(())
    }

    /// Receives until something is in `plain`.
    fn receive(&mut self, socket: &OwnedFd) -> io::Result<()> {
        loop {
            self.receive_once(socket)?;
            if !self.plain.is_empty() {
                return Ok(());
            }
        }
    }

    fn receive_once(&mut self, socket: &OwnedFd) -> io::Result<()> {
        let (count, _) = retry_on_intr(|| recv(socket, &mut self.arrived[..], RecvFlags::empty()))?;
        if count == 0 {
            return Err(disconnected());
        }
        let opened = self.secured.open(&self.arrived[..count], &mut self.plain);
        if self.secured.has_to_send() {
            // What it has to say about a failure is the failure's affair.
            let sent = self.send(socket, &mut Vec::new());
            if opened.is_ok() {
                sent?;
            }
        }
        opened.map_err(|failure: TlsFailure| io::Error::other(failure))
    }
}

/// Rows on their way to a server, in packets.
struct Rows<'a> {
    wire: &'a mut Wire,
    body: Vec<u8>,
}

impl Write for Rows<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.body.extend_from_slice(bytes);
        if self.body.len() >= ROWS_AT_ONCE {
            self.flush()?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        for part in self.body.chunks(ROWS_AT_ONCE) {
            self.wire.send_packet(part).map_err(|error| match error {
                mysql::Error::IoError(error) => error,
                other => io::Error::other(other),
            })?;
        }
        self.body.clear();
        Ok(())
    }
}

/// Writes the body of a prepared statement's execution: no cursor, once, no value NULL, each value's type and the value.
fn write_execution(out: &mut Vec<u8>, statement: u32, values: &[Bound<'_>]) {
    out.extend_from_slice(&statement.to_le_bytes());
    out.extend_from_slice(&[0, 1, 0, 0, 0]);
    if values.is_empty() {
        return;
    }
    out.resize(out.len() + values.len().div_ceil(8), 0);
    out.push(1); // The types follow.
    for value in values {
        let kind = match value {
            Bound::Number(_) => ColumnType::MYSQL_TYPE_LONGLONG,
            Bound::Text(_) => ColumnType::MYSQL_TYPE_VAR_STRING,
        };
        out.extend_from_slice(&[kind as u8, 0]);
    }
    for value in values {
        match value {
            Bound::Number(number) => out.extend_from_slice(&number.to_le_bytes()),
            Bound::Text(text) => {
                write_length(out, text.len());
                out.extend_from_slice(text.as_bytes());
            }
        }
    }
}

/// Writes a text's length in as few bytes as the protocol has for it.
fn write_length(out: &mut Vec<u8>, length: usize) {
    let bytes = length.to_le_bytes();
    match length {
        0..=0xfa => out.push(bytes[0]),
        0xfb..=0xffff => out.extend_from_slice(&[0xfc, bytes[0], bytes[1]]),
        // Longer ones do not fit into a packet, which is refused.
        _ => out.extend_from_slice(&[0xfd, bytes[0], bytes[1], bytes[2]]),
    }
}

/// The server's status, if a packet ends columns or rows. A row may begin with the same byte, but is longer then.
fn end_of_rows(packet: &[u8]) -> Option<u16> {
    match *packet {
        [EOF, _, _, low, high] => Some(u16::from_le_bytes([low, high])),
        _ => None,
    }
}

/// What the server said when it refused: code, `#` and state, message. Early refusals have no state.
fn refusal(body: &[u8]) -> io::Result<mysql::Error> {
    let mut body = Bytes(body);
    let code = body.u16()?;
    let mut state = "HY000".to_owned();
    if body.peek() == Some(b'#') {
        state = String::from_utf8_lossy(&body.skip(6)?[1..]).into_owned();
    }
    let message = String::from_utf8_lossy(body.0).into_owned();
    Ok(mysql::Error::MySqlError(MySqlError { state, message, code }))
}

/// The protocol was not kept, so nothing on this connection can be understood any more.
pub(crate) fn broken(what: String) -> mysql::Error {
    io::Error::new(io::ErrorKind::InvalidData, what).into()
}

/// Bytes of a packet that were not read yet.
struct Bytes<'a>(&'a [u8]);

impl<'a> Bytes<'a> {
    fn peek(&self) -> Option<u8> {
        self.0.first().copied()
    }

    fn skip(&mut self, count: usize) -> io::Result<&'a [u8]> {
        let short =
            || io::Error::new(io::ErrorKind::InvalidData, "the server sent a packet that is too short");
        let (skipped, rest) = self.0.split_at_checked(count).ok_or_else(short)?;
        self.0 = rest;
        Ok(skipped)
    }

    /// A number in this many bytes, at most eight, the lowest first.
    fn number(&mut self, bytes: usize) -> io::Result<u64> {
        Ok(self.skip(bytes)?.iter().rev().fold(0, |number, &byte| number << 8 | u64::from(byte)))
    }

    fn u16(&mut self) -> io::Result<u16> {
        Ok(self.number(2)? as u16)
    }

    /// A number that says by its first byte how long it is.
    fn length(&mut self) -> io::Result<u64> {
        match self.number(1)? {
            0xfc => self.number(2),
            0xfd => self.number(3),
            0xfe => self.number(8),
            small => Ok(small),
        }
    }

    /// The next value of a row of texts; `None` is NULL.
    fn text(&mut self) -> Result<Option<&'a [u8]>, mysql::Error> {
        if self.peek() == Some(NULL) {
            self.skip(1)?;
            return Ok(None);
        }
        let length = self.length()?;
        Ok(Some(self.skip(usize::try_from(length).unwrap_or(usize::MAX))?))
    }

    /// The next value of a row of texts, a whole number or NULL.
    fn text_number(&mut self) -> Result<Option<i64>, mysql::Error> {
        let Some(text) = self.text()? else { return Ok(None) };
        let number = std::str::from_utf8(text).ok().and_then(|text| text.parse().ok());
        number.map(Some).ok_or_else(|| FromValueError(Value::Bytes(text.to_vec())).into())
    }
}

/// The first whole numbers of a row of texts.
pub(crate) fn numbers<const N: usize>(row: &[u8]) -> Result<[i64; N], mysql::Error> {
    let mut row = Bytes(row);
    let mut numbers = [0; N];
    for number in &mut numbers {
        *number = row.text_number()?.ok_or(FromValueError(Value::NULL))?;
    }
    Ok(numbers)
}

/// All whole numbers of a row of texts, put behind those that are there; `None` is NULL.
pub(crate) fn put_numbers(row: &[u8], numbers: &mut Vec<Option<i64>>) -> Result<(), mysql::Error> {
    let mut row = Bytes(row);
    while row.peek().is_some() {
        numbers.push(row.text_number()?);
    }
    Ok(())
}

/// The first value of a row of texts, which is UTF-8 and not NULL.
pub(crate) fn first_text(row: &[u8]) -> Result<String, mysql::Error> {
    let text = Bytes(row).text()?.ok_or(FromValueError(Value::NULL))?;
    String::from_utf8(text.to_vec()).map_err(|error| FromValueError(Value::Bytes(error.into_bytes())).into())
}

/// Where the first column is in the rows of a prepared statement, if it is a whole number.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FirstNumber {
    /// Bytes before it: a zero and a bit for each column and two more.
    at: usize,
    bytes: usize,
}

impl FirstNumber {
    /// Of a statement with so many columns; `None` if its first is no whole number of four or eight bytes.
    fn of(first: ColumnType, columns: usize) -> Option<Self> {
        let bytes = match first {
            ColumnType::MYSQL_TYPE_INT24 | ColumnType::MYSQL_TYPE_LONG => 4,
            ColumnType::MYSQL_TYPE_LONGLONG => 8,
            _ => return None,
        };
        Some(Self { at: 1 + (columns + 2).div_ceil(8), bytes })
    }

    pub(crate) fn read(self, row: &[u8]) -> Result<i64, mysql::Error> {
        let mut row = Bytes(row);
        row.skip(self.at)?;
        let number = row.number(self.bytes)?;
        Ok(if self.bytes == 4 { i64::from(number as i32) } else { number as i64 })
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use rustix::net::sockopt::{Timeout, set_socket_timeout};
    use rustix::net::{AddressFamily, Shutdown, SocketFlags, SocketType, shutdown, socketpair};

    use super::*;

    const LAST: u16 = 0;

    /// A wire, and the server's end of it. What one end sends in a piece, the other receives in that piece.
    fn pair() -> (Wire, OwnedFd) {
        pair_of(SocketType::SEQPACKET)
    }

    fn pair_of(kind: SocketType) -> (Wire, OwnedFd) {
        let (client, server) = socketpair(AddressFamily::UNIX, kind, SocketFlags::CLOEXEC, None).unwrap();
        // What never comes fails, and does not hang.
        set_socket_timeout(&client, Timeout::Recv, Some(Duration::from_secs(20))).unwrap();
        (Wire::over(client), server)
    }

    /// Lets the server answer, in pieces of so many bytes. It may do so before it is asked: the socket keeps it.
    fn tell(server: &OwnedFd, packets: &[Vec<u8>], piece: usize) {
        let mut bytes = Vec::new();
        for (number, packet) in (1..).zip(packets) {
            bytes.extend_from_slice(&packet.len().to_le_bytes()[..3]);
            bytes.push(number);
            bytes.extend_from_slice(packet);
        }
        for piece in bytes.chunks(piece) {
            assert_eq!(send(server, piece, SendFlags::NOSIGNAL).unwrap(), piece.len());
        }
    }

    /// What the server received, a piece of it.
    fn heard(server: &OwnedFd) -> Vec<u8> {
        let mut bytes = vec![0; 4096];
        let (count, _) = recv(server, &mut bytes[..], RecvFlags::DONTWAIT).unwrap();
        bytes.truncate(count);
        bytes
    }

    fn done(insert_id: u8, status: u16) -> Vec<u8> {
        let [low, high] = status.to_le_bytes();
        vec![OK, 1, insert_id, low, high, 0, 0]
    }

    fn end(status: u16) -> Vec<u8> {
        let [low, high] = status.to_le_bytes();
        vec![EOF, 0, 0, low, high]
    }

    fn no(code: u16, state_and_message: &str) -> Vec<u8> {
        [&[REFUSED][..], &code.to_le_bytes(), state_and_message.as_bytes()].concat()
    }

    fn texts(values: &[&str]) -> Vec<u8> {
        values.iter().flat_map(|value| [&[value.len() as u8][..], value.as_bytes()].concat()).collect()
    }

    /// Two columns that are described, and these rows.
    fn table(rows: &[Vec<u8>], status: u16) -> Vec<Vec<u8>> {
        let columns = [vec![2, 1], b"\x03def first".to_vec(), b"\x03def second".to_vec(), end(status)];
        columns.into_iter().chain(rows.iter().cloned()).chain([end(status)]).collect()
    }

    /// A begin, a table, and an insert.
    fn three_answers() -> Vec<Vec<u8>> {
        let rows = [texts(&["7", "-12"]), texts(&["8", "4000000000"])];
        [vec![done(0, MORE_ANSWERS)], table(&rows, MORE_ANSWERS), vec![done(9, LAST)]].concat()
    }

    fn ask(wire: &mut Wire) -> Result<Done, mysql::Error> {
        wire.query("SELECT 1", &mut |_| Ok(()))
    }

    #[track_caller]
    fn assert_broken(outcome: Result<Done, mysql::Error>, reason: &str) {
        match outcome {
            Err(mysql::Error::IoError(error)) => assert!(error.to_string().contains(reason), "{error}"),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_command_leaves_in_one_piece_with_its_values() {
        let (mut wire, server) = pair();
        tell(&server, &[done(5, LAST)], 100);
        let long = "x".repeat(300);
        let values = [Bound::Number(-2), Bound::Text("ab"), Bound::Text(&long)];
        let done = wire.execute(0x0102, &values, &mut |_| Ok(())).unwrap();
        assert_eq!(done, Done { rows: 0, insert_id: 5 });
        let mut wanted = vec![0x4c, 1, 0, 0, 0x17, 2, 1, 0, 0, 0, 1, 0, 0, 0, 0, 1, 8, 0, 253, 0, 253, 0];
        wanted.extend_from_slice(&(-2_i64).to_le_bytes());
        wanted.extend_from_slice(b"\x02ab\xfc\x2c\x01");
        wanted.extend_from_slice(long.as_bytes());
        assert_eq!(heard(&server), wanted);
    }

    #[test]
    fn an_answer_is_the_same_in_however_many_pieces_it_comes() {
        for piece in [1, 2, 3, 5, 64, 1000] {
            let (mut wire, server) = pair();
            for _ in 0..3 {
                tell(&server, &three_answers(), piece);
                let mut rows = Vec::new();
                let done = wire.query("three", &mut |row| {
                    rows.push(numbers::<2>(row)?);
                    Ok(())
                });
                assert_eq!(done.unwrap(), Done { rows: 2, insert_id: 9 });
                assert_eq!(rows, [[7, -12], [8, 4_000_000_000]]);
                assert_eq!(heard(&server), b"\x06\0\0\0\x03three");
            }
        }
    }

    #[test]
    fn columns_that_are_not_described_again_are_not_awaited() {
        let (mut wire, server) = pair();
        let row = b"\0\0\x2a\0\0\0\x05title".to_vec();
        tell(&server, &[vec![2, 0], end(LAST), row.clone(), row, end(LAST)], 100);
        let mut ids = Vec::new();
        let column = FirstNumber { at: 2, bytes: 4 };
        let done = wire.execute(1, &[], &mut |row| {
            ids.push(column.read(row)?);
            Ok(())
        });
        assert_eq!((done.unwrap().rows, ids), (2, vec![42, 42]));
    }

    #[test]
    fn an_answer_longer_than_what_is_received_at_once_is_read_whole() {
        let (mut wire, server) = pair_of(SocketType::STREAM);
        let long: Vec<u8> = (0..2 * RECEIVED_AT_ONCE + 5).map(|at| (at / 7) as u8).collect();
        let rows = [texts(&["1", "2"]), long, texts(&["3", "4"])];
        tell(&server, &table(&rows, LAST), 1000);
        let mut seen = Vec::new();
        let done = wire.query("long", &mut |row| {
            seen.push(row.to_vec());
            Ok(())
        });
        assert_eq!(done.unwrap().rows, 3);
        assert!(seen == rows, "the rows are those that were sent");
    }

    #[test]
    fn a_refusal_in_the_third_of_several_answers_is_reported_and_the_connection_goes_on() {
        let (mut wire, server) = pair();
        let first_two = [vec![done(3, MORE_ANSWERS)], table(&[texts(&["1", "2"])], MORE_ANSWERS)].concat();
        tell(&server, &[first_two, vec![no(1213, "#40001Deadlock found")]].concat(), 7);
        let Err(mysql::Error::MySqlError(error)) = ask(&mut wire) else { panic!("no refusal") };
        assert_eq!((error.code, &*error.state, &*error.message), (1213, "40001", "Deadlock found"));
        // Among the rows too, and without a state.
        let mut broken_off = table(&[texts(&["1", "2"])], LAST);
        *broken_off.last_mut().unwrap() = no(1205, "waited too long");
        tell(&server, &broken_off, 7);
        let Err(mysql::Error::MySqlError(error)) = ask(&mut wire) else { panic!("no refusal") };
        assert_eq!((error.code, &*error.state, &*error.message), (1205, "HY000", "waited too long"));
        tell(&server, &[done(4, LAST)], 100);
        assert_eq!(ask(&mut wire).unwrap().insert_id, 4);
    }

    #[test]
    fn a_row_that_is_not_understood_does_not_shift_the_answers_that_follow() {
        let (mut wire, server) = pair();
        for row in [texts(&["1", "2.5"]), [texts(&["1"]), vec![NULL]].concat()] {
            tell(
                &server,
                &[table(&[row, texts(&["1", "2"])], MORE_ANSWERS), vec![done(3, LAST)]].concat(),
                100,
            );
            let outcome = wire.query("odd", &mut |row| numbers::<2>(row).map(drop));
            assert!(matches!(outcome, Err(mysql::Error::FromValueError(_))), "{outcome:?}");
            tell(&server, &[done(4, LAST)], 100);
            assert_eq!(ask(&mut wire).unwrap().insert_id, 4);
        }
    }

    #[test]
    fn a_server_that_ends_in_the_middle_of_an_answer_is_lost() {
        let (mut wire, server) = pair();
        let mut packets = three_answers();
        packets.truncate(6);
        tell(&server, &packets, 100);
        shutdown(&server, Shutdown::Write).unwrap();
        assert_broken(ask(&mut wire), "server disconnected");
        drop(server);
        assert!(matches!(ask(&mut wire), Err(mysql::Error::IoError(_))));
    }

    #[test]
    fn packets_that_cannot_be_are_refused_with_their_name() {
        let (mut wire, server) = pair();
        let outcome = wire.query(&" ".repeat(TOO_LONG), &mut |_| Ok(()));
        assert_broken(outcome, "a command of 16777216 bytes is longer than a packet can be");
        let mut nothing = [0; 1];
        assert!(recv(&server, &mut nothing[..], RecvFlags::DONTWAIT).is_err(), "nothing was sent");
        for (bytes, reason) in [
            (&[0xff, 0xff, 0xff, 1][..], "16777215 bytes or more is too long"),
            (&[1, 0, 0, 2, 0], "packet 2 in the place of 1"),
            (&[0, 0, 0, 1], "an empty packet"),
            (&[2, 0, 0, 1, 0, 1], "too short"),
            (&[2, 0, 0, 1, 0xfb, b'f'], "asked for a file"),
            (&[1, 0, 0, 1, 1, 1, 0, 0, 2, 3, 1, 0, 0, 3, 3], "have no end"),
        ] {
            let (mut wire, server) = pair();
            send(&server, bytes, SendFlags::NOSIGNAL).unwrap();
            assert_broken(ask(&mut wire), reason);
        }
        let (mut wire, server) = pair();
        send(&server, b"\x07\0\0\x01\0\0\0\0\0\0\0more", SendFlags::NOSIGNAL).unwrap();
        ask(&mut wire).unwrap();
        assert_broken(ask(&mut wire), "what nobody asked for");
    }

    #[test]
    fn the_first_number_of_a_row_has_its_sign() {
        let read = |bytes, row: &[u8]| FirstNumber { at: 2, bytes }.read(row);
        assert_eq!(read(4, b"\0\0\xfe\xff\xff\xff").unwrap(), -2);
        assert_eq!(read(8, b"\0\0\0\0\0\0\x01\0\0\0").unwrap(), 1 << 32);
        assert!(read(8, b"\0\0\0\0\0\0").is_err(), "four bytes are no eight");
    }
}
