//! Errors that are reported to a peer in the protocol's own codes.

use tilemark_amqp::{DecodeError, ReplyCode};

/// Closes a channel or the connection, as its code says. As small as a pointer: results are returned for every frame.
#[derive(Debug)]
pub(crate) struct Exception(Box<Reason>);

#[derive(Debug)]
struct Reason {
    code: ReplyCode,
    text: String,
}

impl Exception {
    pub(crate) fn new(code: ReplyCode, text: impl Into<String>) -> Self {
        Self(Box::new(Reason { code, text: text.into() }))
    }

    pub(crate) fn code(&self) -> ReplyCode {
        self.0.code
    }

    /// The text as peers know it from other brokers: the code's name, then what happened.
    pub(crate) fn reply_text(&self) -> String {
        format!("{} - {}", self.code().name(), self.0.text)
    }
}

impl From<DecodeError> for Exception {
    fn from(error: DecodeError) -> Self {
        Self::new(error.reply_code(), error.to_string())
    }
}

/// Names as they are shown in messages.
pub(crate) fn shown(name: &[u8]) -> String {
    String::from_utf8_lossy(name).into_owned()
}

/// The name of an exchange or a routing key among settings, which messages print.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Name(pub(crate) Box<[u8]>);

impl std::fmt::Display for Name {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "'{}'", shown(&self.0))
    }
}

impl std::fmt::Debug for Name {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{self}")
    }
}
