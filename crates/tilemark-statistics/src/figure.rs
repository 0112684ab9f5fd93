//! What every piece of arithmetic here returns: a figure with its interval, or the reason why there is none.

use std::fmt;

/// Fewest repeats that give an interval. With two, t has one degree of freedom and the interval is 12.7
/// deviations wide: a number that nobody should read.
pub const INTERVAL_REPEATS_MIN: usize = 3;

/// Share of intervals that are to cover the truth. Every interval of Tilemark has this one level, so that two
/// intervals on one page can be compared.
pub const CONFIDENCE: f64 = 0.95;

/// A confidence interval at [`CONFIDENCE`], in the unit of the figure that it belongs to.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Interval {
    /// Lower end.
    pub low: f64,
    /// Upper end.
    pub high: f64,
}

impl Interval {
    /// Says whether a value lies within, ends included.
    pub fn contains(&self, value: f64) -> bool {
        self.low <= value && value <= self.high
    }

    /// The interval with both ends sent through a growing function.
    pub(crate) fn map(self, growing: impl Fn(f64) -> f64) -> Self {
        Self { low: growing(self.low), high: growing(self.high) }
    }
}

/// Why there is no number. A failure is never replaced by a number such as 0.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Missing {
    /// A lower-case sentence that can be printed in place of the number.
    pub reason: String,
}

impl Missing {
    /// States a reason.
    pub fn because(reason: impl Into<String>) -> Self {
        Self { reason: reason.into() }
    }

    /// Fewer repeats than an interval needs.
    pub(crate) fn too_few(repeats: usize) -> Self {
        let plural = if repeats == 1 { "" } else { "s" };
        Self::because(format!("only {repeats} repeat{plural}, and an interval needs {INTERVAL_REPEATS_MIN}"))
    }
}

impl fmt::Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.reason)
    }
}

/// A number drawn from repeats, with what is known about it.
#[derive(Clone, Debug, PartialEq)]
pub struct Figure {
    /// The mean of the repeats: geometric on [`Scale::Logarithmic`], arithmetic on [`Scale::Linear`].
    pub value: f64,
    /// The interval of that mean, or why there is none.
    pub interval: Result<Interval, Missing>,
    /// How many repeats it is of.
    pub n_repeats: usize,
}

impl Figure {
    /// Lower end of the interval, where there is one.
    pub fn low(&self) -> Option<f64> {
        self.interval.as_ref().ok().map(|interval| interval.low)
    }

    /// Upper end of the interval, where there is one.
    pub fn high(&self) -> Option<f64> {
        self.interval.as_ref().ok().map(|interval| interval.high)
    }

    /// The figure with value and ends sent through a growing function.
    pub(crate) fn map(self, growing: impl Fn(f64) -> f64) -> Self {
        Self {
            value: growing(self.value),
            interval: self.interval.map(|interval| interval.map(&growing)),
            n_repeats: self.n_repeats,
        }
    }
}

/// On which scale repeats scatter evenly about their mean.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scale {
    /// Shares and counts.
    Linear,
    /// Rates and times: they are positive, scatter by factors and are skewed to the right.
    Logarithmic,
}
