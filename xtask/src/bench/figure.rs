//! A figure: what was measured, how often, how it spread, and what was wanted.

use serde_json::{Value, json};
use std::fmt;

/// What is wanted of a figure.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Target {
    /// So much or more.
    AtLeast(f64),
    /// So much or less.
    AtMost(f64),
    /// No further from nothing than this, either way.
    Within(f64),
    /// Nothing: it is printed for itself.
    None,
}

/// One row of the table.
#[derive(Debug, Clone)]
pub(crate) struct Figure {
    /// What was measured.
    pub(crate) what: String,
    /// Its unit, as it is printed after the number.
    pub(crate) unit: &'static str,
    /// The figure itself.
    pub(crate) value: f64,
    /// Least and most of what it was made of.
    pub(crate) least: f64,
    /// The most.
    pub(crate) most: f64,
    /// Of how many.
    pub(crate) n: usize,
    /// What was wanted.
    pub(crate) target: Target,
    /// Both sides, or whatever else must be beside it.
    pub(crate) note: String,
}

impl Figure {
    /// The median of some values.
    pub(crate) fn median_of(
        what: impl Into<String>,
        unit: &'static str,
        values: &[f64],
        target: Target,
    ) -> Self {
        Self::at(0.5, what, unit, values, target)
    }

    /// Any quantile of some values (nearest rank).
    pub(crate) fn at(
        part: f64,
        what: impl Into<String>,
        unit: &'static str,
        values: &[f64],
        target: Target,
    ) -> Self {
        let sorted = sorted(values);
        let edge = |value: Option<&f64>| value.copied().unwrap_or(f64::NAN);
        Self {
            what: what.into(),
            unit,
            value: quantile(&sorted, part),
            least: edge(sorted.first()),
            most: edge(sorted.last()),
            n: sorted.len(),
            target,
            note: String::new(),
        }
    }

    /// Ours over the peer's, measured in pairs: the ratio of the medians, with the least and most of the pairs.
    pub(crate) fn ratio(what: impl Into<String>, pairs: &[Pair], unit: &'static str, target: Target) -> Self {
        let of = |side: fn(&Pair) -> f64| pairs.iter().map(side).collect::<Vec<_>>();
        let (ours, peers) = (median(&of(|pair| pair.ours)), median(&of(|pair| pair.peer)));
        let ratios = sorted(&of(|pair| pair.ours / pair.peer));
        Self {
            value: ours / peers,
            note: format!("{} and {} {unit}", short(ours), short(peers)),
            ..Self::median_of(what, "×", &ratios, target)
        }
    }

    /// With words beside it.
    pub(crate) fn noting(mut self, note: impl Into<String>) -> Self {
        let note = note.into();
        self.note = if self.note.is_empty() { note } else { format!("{}; {note}", self.note) };
        self
    }

    /// Whether it is what was wanted; `None` where nothing was.
    pub(crate) fn reached(&self) -> Option<bool> {
        match self.target {
            Target::AtLeast(least) => Some(self.value >= least),
            Target::AtMost(most) => Some(self.value <= most),
            Target::Within(bound) => Some(self.value.abs() <= bound),
            Target::None => None,
        }
    }

    pub(crate) fn json(&self, bench: &str) -> Value {
        json!({
            "bench": bench, "what": self.what, "unit": self.unit, "value": self.value, "least": self.least,
            "most": self.most, "n": self.n, "wanted": self.target.to_string(), "reached": self.reached(),
            "note": self.note,
        })
    }
}

/// Ours and the peer's, measured one after the other.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Pair {
    pub(crate) ours: f64,
    pub(crate) peer: f64,
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AtLeast(value) => write!(f, "≥ {}", short(*value)),
            Self::AtMost(value) => write!(f, "≤ {}", short(*value)),
            Self::Within(value) => write!(f, "± {}", short(*value)),
            Self::None => write!(f, "none"),
        }
    }
}

impl fmt::Display for Figure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = match self.reached() {
            Some(true) => "reached",
            Some(false) => "NOT REACHED",
            None => "",
        };
        write!(
            f,
            "{:<66} {:>9} {:<6} wanted {:<9} n {:<4} {} to {}  {word}",
            self.what,
            short(self.value),
            self.unit,
            self.target.to_string(),
            self.n,
            short(self.least),
            short(self.most),
        )?;
        if self.note.is_empty() { Ok(()) } else { write!(f, "\n{:>8}{}", "", self.note) }
    }
}

fn sorted(values: &[f64]) -> Vec<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted
}

/// The smallest value that so large a part of all values does not pass (nearest rank).
fn quantile(sorted: &[f64], part: f64) -> f64 {
    if part == 0.5 {
        return median(sorted);
    }
    let place = (part * sorted.len() as f64).ceil() as usize;
    sorted.get(place.saturating_sub(1)).copied().unwrap_or(f64::NAN)
}

/// The middle one.
pub(crate) fn median(values: &[f64]) -> f64 {
    tilemark_units::median(values.to_vec()).unwrap_or(f64::NAN)
}

/// Three to four digits that count.
pub(crate) fn short(value: f64) -> String {
    match value.abs() {
        size if size >= 100.0 => format!("{value:.0}"),
        size if size >= 10.0 => format!("{value:.1}"),
        size if size >= 1.0 => format!("{value:.2}"),
        _ => format!("{value:.3}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ratio_is_that_of_the_medians_and_its_spread_that_of_the_pairs() {
        let pairs = [(10.0, 10.0), (30.0, 20.0), (20.0, 40.0)].map(|(ours, peer)| Pair { ours, peer });
        let figure = Figure::ratio("x", &pairs, "s", Target::AtMost(1.0));
        assert_eq!((figure.value, figure.least, figure.most, figure.n), (1.0, 0.5, 1.5, 3));
        assert_eq!(figure.reached(), Some(true));
        assert_eq!(Figure { target: Target::AtLeast(1.01), ..figure }.reached(), Some(false));
    }

    #[test]
    fn quantiles_are_by_nearest_rank_and_nothing_is_no_number() {
        let values: Vec<f64> = (1..=100).map(f64::from).collect();
        assert_eq!(Figure::at(0.99, "x", "", &values, Target::None).value, 99.0);
        assert_eq!(median(&[1.0, 2.0]), 1.5);
        assert!(median(&[]).is_nan());
    }
}
