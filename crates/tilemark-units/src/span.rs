//! Lengths of time.

use crate::text::{UnitError, split, textual};
use std::{fmt, ops::Add, str::FromStr, time::Duration};

/// A length of time. Written as `"50ms"`, `"10s"`, `"10m"`, `"2h"`.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Span(Duration);

const UNITS: [(&str, u128); 6] = [
    ("h", 3_600_000_000_000),
    ("m", 60_000_000_000),
    ("s", 1_000_000_000),
    ("ms", 1_000_000),
    ("us", 1_000),
    ("ns", 1),
];

impl Span {
    /// The units that a length of time may have, the longest first.
    pub fn units() -> [&'static str; 6] {
        UNITS.map(|(unit, _)| unit)
    }
    /// From the standard library's type.
    pub const fn new(duration: Duration) -> Self {
        Self(duration)
    }
    /// So many seconds.
    pub const fn from_seconds(seconds: u64) -> Self {
        Self(Duration::from_secs(seconds))
    }
    /// So many milliseconds.
    pub const fn from_milliseconds(milliseconds: u64) -> Self {
        Self(Duration::from_millis(milliseconds))
    }
    /// As the standard library's type.
    pub const fn get(self) -> Duration {
        self.0
    }
    /// In seconds, with their fraction.
    pub fn as_seconds(self) -> f64 {
        self.0.as_secs_f64()
    }
    /// In milliseconds, with their fraction.
    pub fn as_milliseconds(self) -> f64 {
        self.0.as_secs_f64() * 1e3
    }
    /// For a person: `45 s`, `4 min 10 s`, `2 h 5 min`.
    pub fn rounded(self) -> String {
        let seconds = self.0.as_secs_f64().round() as u64;
        match (seconds / 3600, seconds / 60 % 60, seconds % 60) {
            (0, 0, s) => format!("{s} s"),
            (0, m, 0) => format!("{m} min"),
            (0, m, s) => format!("{m} min {s} s"),
            (h, 0, _) => format!("{h} h"),
            (h, m, _) => format!("{h} h {m} min"),
        }
    }
}

impl Add for Span {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self(self.0 + other.0)
    }
}

impl fmt::Display for Span {
    /// The largest unit that leaves no fraction, so that the text reads back to the same length.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let nanoseconds = self.0.as_nanos();
        if nanoseconds == 0 {
            return write!(formatter, "0s");
        }
        let (unit, size) = UNITS
            .iter()
            .find(|(_, size)| nanoseconds.is_multiple_of(*size))
            .expect("every number of nanoseconds is a multiple of one nanosecond");
        write!(formatter, "{}{unit}", nanoseconds / size)
    }
}

impl FromStr for Span {
    type Err = UnitError;
    fn from_str(text: &str) -> Result<Self, UnitError> {
        const WANTED: &str = "a length of time such as `50ms`, `10s`, `10m` or `2h`";
        let (number, unit) = split(text, WANTED)?;
        let wrong = || UnitError { text: text.to_owned(), wanted: WANTED };
        let unit = if unit == "min" { "m" } else { unit };
        let (_, size) = UNITS.iter().find(|(name, _)| *name == unit).ok_or_else(wrong)?;
        let nanoseconds = number * *size as f64;
        // About 146 years: what a nanosecond clock in 64 bits can still add twice.
        if nanoseconds > 4.6e18 {
            return Err(wrong());
        }
        Ok(Self(Duration::from_nanos(nanoseconds.round() as u64)))
    }
}

textual!(Span, "50ms");

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_printed_span_reads_back_as_itself(nanoseconds in 0_u64..1 << 50) {
            let span = Span::new(Duration::from_nanos(nanoseconds));
            prop_assert_eq!(span.to_string().parse::<Span>().unwrap(), span);
        }
    }

    #[test]
    fn a_person_reads_two_units_at_most() {
        assert_eq!(Span::from_seconds(250).rounded(), "4 min 10 s");
        assert_eq!(Span::from_seconds(7_500).rounded(), "2 h 5 min");
    }

    #[test]
    fn a_span_without_a_unit_is_refused() {
        assert!("10".parse::<Span>().is_err());
        assert!("10 parsecs".parse::<Span>().is_err());
    }
}
