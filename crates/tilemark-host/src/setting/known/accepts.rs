//! What a setting accepts, and how a message words it.

use std::fmt;

/// What a setting accepts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Accepts {
    /// One of these words, which have `|` between them.
    OneOf(&'static str),
    /// A number within these.
    Number {
        /// The least.
        least: u64,
        /// The most.
        most: u64,
    },
    /// A list of processors that are online, such as `0-3,8`.
    Processors,
    /// One of the words that this host lists beside it.
    Listed,
    /// Whatever the kernel takes.
    Text,
}

impl Accepts {
    /// A number with no other bound than that of the kernel.
    pub(super) const NUMBER: Self = Self::Number { least: 0, most: u64::MAX };

    /// As the catalogue has it: `always|never`, `0-2`, or a word for the others.
    pub(super) fn called(text: &'static str) -> Option<Self> {
        Some(match text {
            "number" => Self::NUMBER,
            "processors" => Self::Processors,
            "listed" => Self::Listed,
            "text" => Self::Text,
            words if words.contains('|') => Self::OneOf(words),
            range => {
                let (least, most) = range.split_once('-')?;
                Self::Number { least: least.parse().ok()?, most: most.parse().ok()? }
            }
        })
    }

    pub(super) fn takes(self, value: &str) -> bool {
        match self {
            Self::OneOf(words) => words.split('|').any(|word| word == value),
            Self::Number { least, most } => {
                value.parse().is_ok_and(|number| (least..=most).contains(&number))
            }
            // These are looked up on the host.
            Self::Processors | Self::Listed => true,
            Self::Text => !value.contains(['\0', '\n']),
        }
    }
}

impl fmt::Display for Accepts {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OneOf(words) => out.write_str(&words.replace('|', ", ")),
            Self::Number { least: 0, most: u64::MAX } => out.write_str("a whole number"),
            Self::Number { least, most: u64::MAX } => write!(out, "a whole number from {least}"),
            Self::Number { least, most } => write!(out, "a whole number from {least} to {most}"),
            Self::Processors => out.write_str("a list of processors that are online, such as 0-3,8"),
            Self::Listed => out.write_str("one of the words that the kernel lists in its file"),
            Self::Text => out.write_str("one line of text that the kernel takes"),
        }
    }
}
