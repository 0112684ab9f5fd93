//! Parts of a whole.

use crate::text::{UnitError, shortest, split, textual};
use std::{fmt, str::FromStr};

/// A part of a whole, 0 to 1. Written and printed in percent: `"99%"`, `"0.1%"`.
#[derive(Clone, Copy, Default, PartialEq, PartialOrd)]
pub struct Fraction(f64);

impl Fraction {
    /// From a number between 0 and 1. `None` outside of it.
    pub fn new(fraction: f64) -> Option<Self> {
        (0.0..=1.0).contains(&fraction).then_some(Self(fraction))
    }
    /// The number between 0 and 1.
    pub const fn get(self) -> f64 {
        self.0
    }
}

impl fmt::Display for Fraction {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}%", shortest(self.0 * 100.0, 6))
    }
}

impl FromStr for Fraction {
    type Err = UnitError;
    fn from_str(text: &str) -> Result<Self, UnitError> {
        const WANTED: &str = "a part of a whole from `0%` to `100%`";
        let (number, unit) = split(text, WANTED)?;
        let wrong = || UnitError { text: text.to_owned(), wanted: WANTED };
        if unit != "%" {
            return Err(wrong());
        }
        Self::new(number / 100.0).ok_or_else(wrong)
    }
}

textual!(Fraction, "99%");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percent_is_for_people_and_the_number_for_arithmetic() {
        let fraction: Fraction = "0.1%".parse().unwrap();
        assert!((fraction.get() - 0.001).abs() < 1e-15);
        assert_eq!(fraction.to_string(), "0.1%");
        assert_eq!(Fraction::new(0.07).unwrap().to_string(), "7%");
    }

    #[test]
    fn more_than_the_whole_is_refused() {
        assert!("101%".parse::<Fraction>().is_err());
        assert!("0.5".parse::<Fraction>().is_err());
    }
}
