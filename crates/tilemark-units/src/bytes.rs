//! Sizes.

use crate::text::{UnitError, split, textual};
use std::{
    fmt,
    iter::Sum,
    ops::{Add, AddAssign, Mul},
    str::FromStr,
};

/// A size in bytes. MB is 10^6 bytes, MiB is 2^20.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Bytes(u64);

const UNITS: [(&str, u64); 8] = [
    ("TiB", 1 << 40),
    ("GiB", 1 << 30),
    ("MiB", 1 << 20),
    ("KiB", 1 << 10),
    ("TB", 1_000_000_000_000),
    ("GB", 1_000_000_000),
    ("MB", 1_000_000),
    ("kB", 1_000),
];

impl Bytes {
    /// So many bytes.
    pub const fn new(bytes: u64) -> Self {
        Self(bytes)
    }
    /// So many KiB (2^10 bytes).
    pub const fn from_kib(kib: u64) -> Self {
        Self(kib << 10)
    }
    /// So many MiB (2^20 bytes).
    pub const fn from_mib(mib: u64) -> Self {
        Self(mib << 20)
    }
    /// So many GiB (2^30 bytes).
    pub const fn from_gib(gib: u64) -> Self {
        Self(gib << 30)
    }
    /// The number of bytes.
    pub const fn get(self) -> u64 {
        self.0
    }
    /// The size in MiB (2^20 bytes), with its fraction.
    pub fn as_mib(self) -> f64 {
        self.0 as f64 / f64::from(1 << 20)
    }
    /// What is left after taking `other` away, never below zero.
    pub const fn saturating_sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }
    /// For a person: at most one decimal in the binary unit that fits, such as `1.5 GiB`.
    pub fn rounded(self) -> String {
        let (unit, size) = UNITS[..4].iter().find(|(_, size)| self.0 >= *size).copied().unwrap_or(("B", 1));
        format!("{} {unit}", crate::text::shortest(self.0 as f64 / size as f64, 1))
    }
}

impl fmt::Display for Bytes {
    /// The largest unit that leaves no fraction, so that the text reads back to the same size.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match UNITS.iter().find(|(_, size)| self.0 != 0 && self.0.is_multiple_of(*size)) {
            Some((unit, size)) => write!(formatter, "{}{unit}", self.0 / size),
            None => write!(formatter, "{}B", self.0),
        }
    }
}

impl FromStr for Bytes {
    type Err = UnitError;
    fn from_str(text: &str) -> Result<Self, UnitError> {
        const WANTED: &str = "a size such as `512B`, `4KiB`, `256MiB`, `20MB` or `4GB`";
        let (number, unit) = split(text, WANTED)?;
        let size = match unit {
            "B" => 1,
            unit => {
                UNITS
                    .iter()
                    .find(|(name, _)| *name == unit)
                    .ok_or_else(|| UnitError { text: text.to_owned(), wanted: WANTED })?
                    .1
            }
        };
        Ok(Self((number * size as f64).round() as u64))
    }
}

/// Ends at 2^64 - 1: sizes may come from anybody, and none that is so large fits anywhere.
impl Add for Bytes {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

/// Ends at 2^64 - 1.
impl Mul<u64> for Bytes {
    type Output = Self;
    fn mul(self, count: u64) -> Self {
        Self(self.0.saturating_mul(count))
    }
}

impl AddAssign for Bytes {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

impl Sum for Bytes {
    fn sum<I: Iterator<Item = Self>>(sizes: I) -> Self {
        sizes.fold(Self::default(), Add::add)
    }
}

textual!(Bytes, "256MiB");

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_printed_size_reads_back_as_itself(bytes in 0_u64..1 << 52) {
            let size = Bytes::new(bytes);
            prop_assert_eq!(size.to_string().parse::<Bytes>().unwrap(), size);
        }
    }

    #[test]
    fn decimal_and_binary_units_differ() {
        assert_eq!("1MB".parse::<Bytes>().unwrap().get(), 1_000_000);
        assert_eq!("1MiB".parse::<Bytes>().unwrap().get(), 1 << 20);
        assert_eq!("1.5 KiB".parse::<Bytes>().unwrap().get(), 1536);
    }

    #[test]
    fn a_size_without_a_known_unit_is_refused_by_name() {
        for text in ["256", "256mib", "MiB", "-1MiB", ""] {
            let error = text.parse::<Bytes>().unwrap_err();
            assert!(error.to_string().starts_with(&format!("`{text}` is not a size")), "{error}");
        }
    }

    #[test]
    fn a_person_reads_one_decimal() {
        assert_eq!(Bytes::from_mib(1536).rounded(), "1.5 GiB");
        assert_eq!(Bytes::new(12).rounded(), "12 B");
    }
}
