//! Values of flags: quantities, with a unit or as a bare number, counts of tiles, and keys with their values.

use std::ops::RangeInclusive;
use tilemark_units::{Bytes, Rate, Span};

/// No load lasts longer than a day: figures are kept for each second.
const SECONDS_MAX: u64 = 24 * 60 * 60;

/// Seconds in which something can be measured: `60`, `60s` or `1m`.
pub(crate) fn seconds(text: &str) -> Result<u64, String> {
    seconds_within(text, 1..=SECONDS_MAX)
}

/// The same before a measurement: there may be none.
pub(crate) fn warmup(text: &str) -> Result<u64, String> {
    seconds_within(text, 0..=SECONDS_MAX)
}

fn seconds_within(text: &str, range: RangeInclusive<u64>) -> Result<u64, String> {
    let seconds = whole_seconds(text)?;
    let within = range.contains(&seconds).then_some(seconds);
    within.ok_or_else(|| format!("{seconds} is not in {}..={}", range.start(), range.end()))
}

/// Seconds without a limit.
pub(crate) fn whole_seconds(text: &str) -> Result<u64, String> {
    let of_span = |span: Span| (span.get().subsec_nanos() == 0).then(|| span.get().as_secs());
    let with_unit = || of_span(text.parse().ok()?);
    let seconds = text.parse().ok().or_else(with_unit);
    seconds.ok_or_else(|| "it is not a whole number of seconds, such as 90, 90s or 10m".to_owned())
}

/// Seconds and parts of them: `0.5` or `500ms`.
pub(crate) fn seconds_and_parts(text: &str) -> Result<f64, String> {
    let with_unit = || text.parse::<Span>().ok().map(Span::as_seconds);
    let seconds = text.parse().ok().or_else(with_unit);
    seconds.ok_or_else(|| "it is not a number of seconds, such as 0.5 or 500ms".to_owned())
}

/// How often a second: `500` or `500/s`.
pub(crate) fn rate(text: &str) -> Result<f64, String> {
    let with_unit = || text.parse::<Rate>().ok().map(Rate::get);
    let rate = text.parse().ok().or_else(with_unit);
    rate.ok_or_else(|| "it is not a number for each second, such as 500 or 500/s".to_owned())
}

/// The same, where only a whole number can be sent.
pub(crate) fn whole_rate(text: &str) -> Result<u64, String> {
    let of_rate = |rate: Rate| (rate.get().fract() == 0.0).then_some(rate.get() as u64);
    let with_unit = || of_rate(text.parse().ok()?);
    let rate = text.parse().ok().or_else(with_unit);
    rate.ok_or_else(|| "it is not a whole number for each second, such as 1000 or 1000/s".to_owned())
}

/// A size in bytes: `1024` or `1KiB`.
pub(crate) fn bytes(text: &str) -> Result<usize, String> {
    let with_unit = || usize::try_from(text.parse::<Bytes>().ok()?.get()).ok();
    let bytes = text.parse().ok().or_else(with_unit);
    bytes.ok_or_else(|| "it is not a number of bytes, such as 1024 or 1KiB".to_owned())
}

/// One of several counts of tiles. The ladder is checked as a whole, later.
pub(crate) fn one_of_tiles(text: &str) -> Result<u32, String> {
    text.parse().map_err(|_| "write whole numbers from 1 with commas, such as 1,2,4".to_owned())
}

/// The only count of tiles.
pub(crate) fn tiles(text: &str) -> Result<u32, String> {
    text.parse().map_err(|_| "write one whole number from 1, such as 4".to_owned())
}

/// A key with its value.
pub(crate) fn key_value(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.is_empty() => Ok((key.trim().to_owned(), value.trim().to_owned())),
        _ => Err(format!("`{text}` is not KEY=VALUE")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quantity_is_taken_with_its_unit_and_as_a_bare_number() {
        for (text, wanted) in [("90", 90), ("90s", 90), ("10m", 600), ("1500ms", 0), ("10 parsecs", 0)] {
            assert_eq!(seconds(text).unwrap_or(0), wanted, "{text}");
        }
        assert_eq!(seconds("0s").unwrap_err(), "0 is not in 1..=86400");
        assert_eq!(seconds("25h").unwrap_err(), "90000 is not in 1..=86400");
        assert_eq!((warmup("0"), warmup("0s"), whole_seconds("25h")), (Ok(0), Ok(0), Ok(90_000)));
        assert_eq!((seconds_and_parts("0.5"), seconds_and_parts("500ms")), (Ok(0.5), Ok(0.5)));
        assert_eq!((rate("0.5"), rate("500/s"), rate("30/min")), (Ok(0.5), Ok(500.0), Ok(0.5)));
        assert_eq!((whole_rate("1000"), whole_rate("1000/s")), (Ok(1000), Ok(1000)));
        assert_eq!((bytes("1024"), bytes("1KiB"), bytes("16B")), (Ok(1024), Ok(1024), Ok(16)));
    }

    #[test]
    fn what_is_no_quantity_is_refused_with_what_to_write() {
        for (refused, example) in [
            (seconds("1500ms").unwrap_err(), "such as 90, 90s or 10m"),
            (seconds("1.5").unwrap_err(), "such as 90, 90s or 10m"),
            (seconds_and_parts("soon").unwrap_err(), "such as 0.5 or 500ms"),
            (rate("500/day").unwrap_err(), "such as 500 or 500/s"),
            (whole_rate("0.5").unwrap_err(), "such as 1000 or 1000/s"),
            (whole_rate("0.5/s").unwrap_err(), "such as 1000 or 1000/s"),
            (bytes("1kb").unwrap_err(), "such as 1024 or 1KiB"),
            (one_of_tiles("1-4").unwrap_err(), "such as 1,2,4"),
            (one_of_tiles("99999999999").unwrap_err(), "such as 1,2,4"),
            (tiles("1,2").unwrap_err(), "such as 4"),
        ] {
            assert!(refused.ends_with(example), "{refused}");
        }
    }
}
