//! Sizes as a user writes them: ours, and those of DVD Store 2.

use std::fmt;
use std::str::FromStr;

use crate::error::StoreDataError;

/// How many bytes of CSV are wanted, from 10 MB to 100 GB. MB is 10^6 bytes, GB 10^9.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct DataSize(u64);

impl DataSize {
    /// The least: 10 MB.
    pub const MIN: DataSize = DataSize(10_000_000);
    /// The most: 100 GB.
    pub const MAX: DataSize = DataSize(100_000_000_000);

    /// A size in bytes, if it is in range.
    pub fn from_bytes(bytes: u64) -> Result<Self, StoreDataError> {
        if (Self::MIN.0..=Self::MAX.0).contains(&bytes) {
            Ok(Self(bytes))
        } else {
            Err(StoreDataError::SizeOutOfRange { bytes })
        }
    }

    /// The size in bytes.
    pub fn bytes(self) -> u64 {
        self.0
    }
}

impl FromStr for DataSize {
    type Err = StoreDataError;

    /// Accepts `250MB`, `4GB`, `1.5 GB`, `512MiB` in any case.
    fn from_str(text: &str) -> Result<Self, StoreDataError> {
        let not_understood = || StoreDataError::SizeNotUnderstood(text.to_owned());
        let (number, unit) = split_unit(text).ok_or_else(not_understood)?;
        let number: f64 = number.parse().map_err(|_| not_understood())?;
        if !number.is_finite() || number < 0.0 {
            return Err(not_understood());
        }
        Self::from_bytes((number * unit as f64).round() as u64)
    }
}

impl fmt::Display for DataSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_multiple_of(1_000_000_000) {
            write!(f, "{} GB", self.0 / 1_000_000_000)
        } else {
            write!(f, "{} MB", self.0 as f64 / 1e6)
        }
    }
}

/// In lower case, as sizes are compared. What ends in another of them comes before it.
const UNITS: [(&str, u64); 9] = [
    ("kib", 1 << 10),
    ("mib", 1 << 20),
    ("gib", 1 << 30),
    ("tib", 1 << 40),
    ("kb", 1_000),
    ("mb", 1_000_000),
    ("gb", 1_000_000_000),
    ("tb", 1_000_000_000_000),
    ("b", 1),
];

/// The number before a unit, and how many bytes the unit has.
fn split_unit(text: &str) -> Option<(String, u64)> {
    let text = text.trim().to_ascii_lowercase();
    UNITS.iter().find_map(|(unit, bytes)| Some((text.strip_suffix(unit)?.trim_end().to_owned(), *bytes)))
}

/// A size as DVD Store 2 knew it. Its label is a name for row counts, not a number of bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ds2Size {
    /// `S`: labelled 10 MB.
    Small,
    /// `M`: labelled 1 GB.
    Medium,
    /// `L`: labelled 100 GB.
    Large,
    /// 1 to 1023 MB: row counts of S times n / 10.
    Megabytes(u64),
    /// 2 to 4095 GB: row counts of L times n / 100. (1 GB is M.)
    Gigabytes(u64),
}

impl FromStr for Ds2Size {
    type Err = StoreDataError;

    /// Accepts `S`, `M`, `L`, `NNmb` and `NNgb` in any case, whole numbers only, within the old installer's limits.
    fn from_str(text: &str) -> Result<Self, StoreDataError> {
        let unknown = || StoreDataError::Ds2SizeUnknown(text.to_owned());
        match text.trim().to_ascii_lowercase().as_str() {
            "s" => return Ok(Self::Small),
            "m" => return Ok(Self::Medium),
            "l" => return Ok(Self::Large),
            _ => {}
        }
        let (number, unit) = split_unit(text).ok_or_else(unknown)?;
        let number: u64 = number.parse().map_err(|_| unknown())?;
        match (unit, number) {
            (1_000_000, 1..=1023) => Ok(Self::Megabytes(number)),
            (1_000_000_000, 1) => Ok(Self::Medium),
            (1_000_000_000, 2..=4095) => Ok(Self::Gigabytes(number)),
            _ => Err(unknown()),
        }
    }
}

impl fmt::Display for Ds2Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Small => f.write_str("S"),
            Self::Medium => f.write_str("M"),
            Self::Large => f.write_str("L"),
            Self::Megabytes(n) => write!(f, "{n}MB"),
            Self::Gigabytes(n) => write!(f, "{n}GB"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_decimal_and_bounded() {
        assert_eq!("4GB".parse::<DataSize>().unwrap().bytes(), 4_000_000_000);
        assert_eq!("1.5 gb".parse::<DataSize>().unwrap().bytes(), 1_500_000_000);
        assert_eq!("10MB".parse::<DataSize>().unwrap(), DataSize::MIN);
        assert_eq!("100GB".parse::<DataSize>().unwrap(), DataSize::MAX);
        // Every unit that other sizes have; MiB is 2^20.
        for (text, bytes) in
            [("96MiB", 96 << 20), ("1GiB", 1 << 30), ("20000kB", 20_000_000), ("20000000B", 20_000_000)]
        {
            assert_eq!(text.parse::<DataSize>().unwrap().bytes(), bytes, "{text}");
        }
        for text in ["9.99MB", "100.1GB", "0MB", "4TB", "1KiB", "1TiB"] {
            let error = text.parse::<DataSize>().unwrap_err();
            assert!(matches!(error, StoreDataError::SizeOutOfRange { .. }), "{text}: {error}");
        }
        for text in ["", "4", "GB", "4XB", "four GB", "-4GB", "NaNGB", "é"] {
            let error = text.parse::<DataSize>().unwrap_err();
            assert!(matches!(error, StoreDataError::SizeNotUnderstood(_)), "{text}: {error}");
        }
    }

    #[test]
    fn the_old_kit_accepts_what_its_installer_accepted() {
        for (text, size) in [
            ("S", Ds2Size::Small),
            ("m", Ds2Size::Medium),
            ("L", Ds2Size::Large),
            ("1gb", Ds2Size::Medium),
            ("1023mb", Ds2Size::Megabytes(1023)),
            ("4095GB", Ds2Size::Gigabytes(4095)),
        ] {
            assert_eq!(text.parse::<Ds2Size>().unwrap(), size);
        }
        for text in ["0mb", "1024mb", "0gb", "4096gb", "1.5gb", "XL", ""] {
            assert!(text.parse::<Ds2Size>().is_err(), "{text}");
        }
    }
}
