//! Kinds of exchanges, and how they choose.

use std::collections::BTreeMap;
use std::fmt;

use tilemark_amqp::{Table, Value};

use crate::exception::Name;

/// How an exchange chooses among its bindings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ExchangeKind {
    /// Equal keys.
    Direct,
    /// All of them.
    Fanout,
    /// Patterns of words.
    Topic,
    /// Headers of the message.
    Headers,
}

impl ExchangeKind {
    pub(crate) const ALL: [Self; 4] = [Self::Direct, Self::Fanout, Self::Topic, Self::Headers];

    pub(crate) fn from_name(name: &[u8]) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name().as_bytes() == name)
    }

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Direct => "direct",
            Self::Fanout => "fanout",
            Self::Topic => "topic",
            Self::Headers => "headers",
        }
    }
}

/// What `exchange.declare` fixes; declaring again must repeat it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ExchangeSettings {
    pub(crate) kind: ExchangeKind,
    pub(crate) durable: bool,
    pub(crate) auto_delete: bool,
    pub(crate) internal: bool,
    /// The exchange that gets what leads nowhere (`alternate-exchange`).
    pub(crate) alternate: Option<Name>,
}

impl ExchangeSettings {
    /// Of an exchange that every broker has.
    pub(crate) const fn of_broker(kind: ExchangeKind) -> Self {
        Self { kind, durable: true, auto_delete: false, internal: false, alternate: None }
    }
}

/// All of them by the names of `exchange.declare`, as messages print them.
impl fmt::Display for ExchangeSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { kind, durable, auto_delete, internal, alternate } = self;
        let kind = kind.name();
        write!(
            f,
            "type {kind}, durable {durable}, auto-delete {auto_delete}, internal {internal}, alternate-exchange "
        )?;
        match alternate {
            Some(name) => write!(f, "{name}"),
            None => f.write_str("not set"),
        }
    }
}

/// How a binding of a headers exchange compares (`x-match`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Match {
    /// One header is enough.
    any: bool,
    /// Headers whose names begin with `x-` count too.
    with_x: bool,
}

impl Match {
    /// Of a binding's arguments; what is none of the four words is taken for `all`, and refused by [`Match::check`].
    pub(crate) fn of(arguments: Table<'_>) -> Self {
        Self::check(arguments).unwrap_or(Self { any: false, with_x: false })
    }

    /// `None` where `x-match` is none of the four words.
    pub(crate) fn check(arguments: Table<'_>) -> Option<Self> {
        match arguments.get("x-match") {
            None | Some(Value::Bytes(b"all")) => Some(Self { any: false, with_x: false }),
            Some(Value::Bytes(b"any")) => Some(Self { any: true, with_x: false }),
            Some(Value::Bytes(b"all-with-x")) => Some(Self { any: false, with_x: true }),
            Some(Value::Bytes(b"any-with-x")) => Some(Self { any: true, with_x: true }),
            _ => None,
        }
    }

    /// Whether headers fit a binding's arguments. Adds the arguments that were compared to `looked_at`.
    pub(crate) fn fits(
        self,
        wanted: Table<'_>,
        headers: &BTreeMap<&[u8], Value<'_>>,
        looked_at: &mut u64,
    ) -> bool {
        *looked_at += 1;
        for (name, value) in wanted.entries() {
            if name == b"x-match" || (!self.with_x && name.starts_with(b"x-")) {
                continue;
            }
            *looked_at += 1;
            // An argument without a value asks only that the header is there.
            let fits = match (value, headers.get(name)) {
                (_, None) => false,
                (Value::Other(b'V', _), Some(_)) => true,
                (value, Some(found)) => value == *found,
            };
            if fits == self.any {
                return self.any;
            }
        }
        !self.any
    }
}

#[cfg(test)]
mod tests {
    use tilemark_amqp::TableBuilder;

    use super::*;

    #[test]
    fn headers_fit_as_the_binding_says() {
        let headers = TableBuilder::new().text("a", "1").integer("b", 2).text("x-c", "3");
        let headers = headers.as_table().entries().collect();
        let wanted = |word: &str| TableBuilder::new().text("x-match", word);
        for (arguments, fits) in [
            (TableBuilder::new(), true),
            (wanted("any"), false),
            (TableBuilder::new().text("a", "1").integer("b", 2), true),
            (wanted("all").text("a", "1").integer("b", 3), false),
            (wanted("any").text("a", "1").integer("b", 3), true),
            (wanted("any").text("a", "2").text("absent", ""), false),
            (wanted("all").text("a", "1").text("x-c", "4"), true),
            (wanted("all-with-x").text("a", "1").text("x-c", "4"), false),
            (wanted("any").text("x-c", "3"), false),
            (wanted("any-with-x").text("x-c", "3"), true),
            // Another kind of value is another value, but for one that is none.
            (TableBuilder::new().text("b", "2"), false),
            (TableBuilder::new().raw_entry(b"\x01bV"), true),
            (TableBuilder::new().raw_entry(b"\x01dV"), false),
        ] {
            let table = arguments.as_table();
            assert_eq!(Match::of(table).fits(table, &headers, &mut 0), fits, "{table:?}");
        }
        assert_eq!(Match::check(wanted("some").as_table()), None);
    }
}
