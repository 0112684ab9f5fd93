//! Field tables: named values in properties and arguments.

use crate::{DecodeError, Decoder};

/// Tables may hold tables; deeper than this is refused, so that a peer cannot exhaust the stack.
const MAX_DEPTH: u8 = 16;

/// A table that has been checked; borrowed, in the form of the wire without its length.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Table<'a>(&'a [u8]);

/// A value in a table. Kinds that nobody here asks for keep their bytes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Value<'a> {
    /// `t`
    Bool(bool),
    /// Any of the integer kinds `b B s u I i l L T`.
    Integer(i64),
    /// `S` or `x`
    Bytes(&'a [u8]),
    /// `F`
    Table(Table<'a>),
    /// `A`
    Array(Array<'a>),
    /// `f d D V`: kind and bytes.
    Other(u8, &'a [u8]),
}

/// An array that has been checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Array<'a>(&'a [u8]);

impl<'a> Array<'a> {
    /// Its values in their order.
    pub fn values(self) -> impl Iterator<Item = Value<'a>> {
        let mut from = Decoder::new(self.0);
        std::iter::from_fn(move || if from.rest().is_empty() { None } else { value(&mut from, 0).ok() })
    }
}

impl<'a> Table<'a> {
    /// Checks every name and value, to the leaves.
    pub fn checked(bytes: &'a [u8]) -> Result<Self, DecodeError> {
        check_table(bytes, 0)?;
        Ok(Self(bytes))
    }

    /// Bytes that [`Table::checked`] has seen.
    pub(crate) const fn of_checked(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    /// The bytes without the length in front.
    pub const fn as_bytes(self) -> &'a [u8] {
        self.0
    }

    /// Names and values in their order.
    pub fn entries(self) -> impl Iterator<Item = (&'a [u8], Value<'a>)> {
        let mut from = Decoder::new(self.0);
        std::iter::from_fn(move || {
            if from.rest().is_empty() {
                return None;
            }
            let name = from.short_str().ok()?.as_bytes();
            Some((name, value(&mut from, 0).ok()?))
        })
    }

    /// Names, and the bytes of each entry: name, kind and value.
    pub fn raw_entries(self) -> impl Iterator<Item = (&'a [u8], &'a [u8])> {
        let mut from = Decoder::new(self.0);
        std::iter::from_fn(move || {
            let before = from.rest();
            if before.is_empty() {
                return None;
            }
            let name = from.short_str().ok()?.as_bytes();
            value(&mut from, 0).ok()?;
            Some((name, &before[..before.len() - from.rest().len()]))
        })
    }

    /// The first value of that name.
    pub fn get(self, name: &str) -> Option<Value<'a>> {
        self.entries().find(|(found, _)| *found == name.as_bytes()).map(|(_, value)| value)
    }
}

fn check_table(bytes: &[u8], depth: u8) -> Result<(), DecodeError> {
    if depth > MAX_DEPTH {
        return Err(DecodeError::Table);
    }
    let mut from = Decoder::new(bytes);
    while !from.rest().is_empty() {
        from.short_str().map_err(|_| DecodeError::Table)?;
        value(&mut from, depth).map_err(|_| DecodeError::Table)?;
    }
    Ok(())
}

/// Reads one value. Kinds are those of RabbitMQ's errata to the specification, which all clients use.
fn value<'a>(from: &mut Decoder<'a>, depth: u8) -> Result<Value<'a>, DecodeError> {
    let kind = from.octet()?;
    Ok(match kind {
        b't' => Value::Bool(from.octet()? != 0),
        b'b' => Value::Integer(i64::from(from.octet()?.cast_signed())),
        b'B' => Value::Integer(i64::from(from.octet()?)),
        b's' | b'U' => Value::Integer(i64::from(from.short()?.cast_signed())),
        b'u' => Value::Integer(i64::from(from.short()?)),
        b'I' => Value::Integer(i64::from(from.long()?.cast_signed())),
        b'i' => Value::Integer(i64::from(from.long()?)),
        b'l' | b'L' | b'T' => Value::Integer(from.long_long()?.cast_signed()),
        b'f' => Value::Other(kind, from.take(4)?),
        b'd' => Value::Other(kind, from.take(8)?),
        b'D' => Value::Other(kind, from.take(5)?),
        b'V' => Value::Other(kind, &[]),
        b'S' | b'x' => Value::Bytes(from.long_str()?.0),
        b'F' => {
            let bytes = from.long_str()?.0;
            check_table(bytes, depth + 1)?;
            Value::Table(Table(bytes))
        }
        b'A' => {
            let bytes = from.long_str()?.0;
            check_array(bytes, depth + 1)?;
            Value::Array(Array(bytes))
        }
        _ => return Err(DecodeError::Table),
    })
}

fn check_array(bytes: &[u8], depth: u8) -> Result<(), DecodeError> {
    if depth > MAX_DEPTH {
        return Err(DecodeError::Table);
    }
    let mut from = Decoder::new(bytes);
    while !from.rest().is_empty() {
        value(&mut from, depth)?;
    }
    Ok(())
}

/// Builds a table to send.
#[derive(Debug, Default)]
pub struct TableBuilder(Vec<u8>);

impl TableBuilder {
    /// Starts empty.
    pub fn new() -> Self {
        Self::default()
    }

    fn name(&mut self, name: &str) {
        let length = u8::try_from(name.len()).expect("names that we send are short literals");
        self.0.push(length);
        self.0.extend_from_slice(name.as_bytes());
    }

    fn long(&mut self, kind: u8, bytes: &[u8]) {
        self.0.push(kind);
        let length = u32::try_from(bytes.len()).expect("tables that we send are far below 4 GiB");
        self.0.extend_from_slice(&length.to_be_bytes());
        self.0.extend_from_slice(bytes);
    }

    /// Adds a text.
    #[must_use]
    pub fn text(mut self, name: &str, text: &str) -> Self {
        self.name(name);
        self.long(b'S', text.as_bytes());
        self
    }

    /// Adds a truth value.
    #[must_use]
    pub fn truth(mut self, name: &str, value: bool) -> Self {
        self.name(name);
        self.0.extend_from_slice(&[b't', u8::from(value)]);
        self
    }

    /// Adds a 64-bit integer.
    #[must_use]
    pub fn integer(mut self, name: &str, value: i64) -> Self {
        self.name(name);
        self.0.push(b'l');
        self.0.extend_from_slice(&value.to_be_bytes());
        self
    }

    /// Adds a table in the table.
    #[must_use]
    pub fn table(mut self, name: &str, table: &Self) -> Self {
        self.name(name);
        self.long(b'F', &table.0);
        self
    }

    /// Adds a time, seconds since 1970.
    #[must_use]
    pub fn time(mut self, name: &str, seconds: u64) -> Self {
        self.name(name);
        self.0.push(b'T');
        self.0.extend_from_slice(&seconds.to_be_bytes());
        self
    }

    /// Adds a long string of any bytes.
    #[must_use]
    pub fn bytes(mut self, name: &str, bytes: &[u8]) -> Self {
        self.name(name);
        self.long(b'S', bytes);
        self
    }

    /// Adds an array of long strings.
    #[must_use]
    pub fn texts<'t>(mut self, name: &str, texts: impl IntoIterator<Item = &'t [u8]>) -> Self {
        let mut inside = Self::default();
        texts.into_iter().for_each(|text| inside.long(b'S', text));
        self.name(name);
        self.long(b'A', &inside.0);
        self
    }

    /// Adds an array of tables.
    #[must_use]
    pub fn tables<'t>(mut self, name: &str, tables: impl IntoIterator<Item = Table<'t>>) -> Self {
        let mut inside = Self::default();
        tables.into_iter().for_each(|table| inside.long(b'F', table.0));
        self.name(name);
        self.long(b'A', &inside.0);
        self
    }

    /// Adds an entry of another table, as [`Table::raw_entries`] gives it.
    #[must_use]
    pub fn raw_entry(mut self, entry: &[u8]) -> Self {
        self.0.extend_from_slice(entry);
        self
    }

    /// The table, borrowed for encoding.
    pub fn as_table(&self) -> Table<'_> {
        Table(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_built_is_found() {
        let inner = TableBuilder::new().truth("basic.nack", true);
        let built =
            TableBuilder::new().text("product", "x").integer("x-max-length", 7).table("capabilities", &inner);
        let table = Table::checked(built.as_table().as_bytes()).unwrap();
        assert_eq!(table.get("product"), Some(Value::Bytes(b"x")));
        assert_eq!(table.get("x-max-length"), Some(Value::Integer(7)));
        let Some(Value::Table(inner)) = table.get("capabilities") else { panic!("capabilities") };
        assert_eq!(inner.get("basic.nack"), Some(Value::Bool(true)));
        assert_eq!(table.get("absent"), None);
    }

    #[test]
    fn arrays_read_back_and_entries_are_copied_whole() {
        let inner = TableBuilder::new().time("time", 7);
        let built = TableBuilder::new()
            .texts("keys", [&b"a"[..], b"b"])
            .tables("deaths", [inner.as_table(), inner.as_table()])
            .bytes("any", &[255]);
        let table = Table::checked(built.as_table().as_bytes()).unwrap();
        let Some(Value::Array(keys)) = table.get("keys") else { panic!("keys") };
        assert_eq!(keys.values().collect::<Vec<_>>(), [Value::Bytes(b"a"), Value::Bytes(b"b")]);
        let Some(Value::Array(deaths)) = table.get("deaths") else { panic!("deaths") };
        assert_eq!(deaths.values().filter(|death| *death == Value::Table(inner.as_table())).count(), 2);
        let copied = table.raw_entries().fold(TableBuilder::new(), |copy, (_, entry)| copy.raw_entry(entry));
        assert_eq!(copied.as_table(), table);
    }

    #[test]
    fn tables_nested_without_end_are_refused() {
        let mut table = TableBuilder::new();
        for _ in 0..64 {
            table = TableBuilder::new().table("t", &table);
        }
        assert_eq!(Table::checked(table.as_table().as_bytes()), Err(DecodeError::Table));
    }

    #[test]
    fn a_value_of_unknown_kind_is_refused() {
        assert_eq!(Table::checked(&[1, b'a', b'?']), Err(DecodeError::Table));
        assert_eq!(Table::checked(&[1, b'a', b'S', 0, 0, 0, 9, 1]), Err(DecodeError::Table));
    }
}
