//! How often.

use crate::text::{UnitError, shortest, split, textual};
use std::{fmt, str::FromStr};

/// How often something happens, a second. Written as `"200/s"`.
#[derive(Clone, Copy, Default, PartialEq, PartialOrd)]
pub struct Rate(f64);

impl Rate {
    /// So often a second. `None` unless finite and not negative.
    pub fn per_second(times: f64) -> Option<Self> {
        (times.is_finite() && times >= 0.0).then_some(Self(times))
    }
    /// How often a second.
    pub const fn get(self) -> f64 {
        self.0
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}/s", shortest(self.0, 6))
    }
}

impl FromStr for Rate {
    type Err = UnitError;
    fn from_str(text: &str) -> Result<Self, UnitError> {
        const WANTED: &str = "a rate such as `200/s` or `12/min`";
        let (number, unit) = split(text, WANTED)?;
        let wrong = || UnitError { text: text.to_owned(), wanted: WANTED };
        let seconds = match unit {
            "/s" => 1.0,
            "/min" => 60.0,
            _ => return Err(wrong()),
        };
        Self::per_second(number / seconds).ok_or_else(wrong)
    }
}

textual!(Rate, "200/s");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_reads_back_as_itself() {
        for text in ["200/s", "0.5/s"] {
            assert_eq!(text.parse::<Rate>().unwrap().to_string(), text);
        }
        assert_eq!("30/min".parse::<Rate>().unwrap().to_string(), "0.5/s");
    }

    #[test]
    fn a_rate_without_its_unit_is_refused() {
        assert_eq!(
            "200".parse::<Rate>().unwrap_err().to_string(),
            "`200` is not a rate such as `200/s` or `12/min`"
        );
    }
}
