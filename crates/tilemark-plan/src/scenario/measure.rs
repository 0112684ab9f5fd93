//! How long and how often is measured.

use crate::JsonSchema;
use serde::{Deserialize, Serialize};
use tilemark_units::{Fraction, Span};

/// How long and how often to measure.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Measure {
    /// How long the load runs before the measurement. This time is not counted. Whole seconds where a load runs a
    /// program that counts in seconds: that load's own section says so, and `plan` refuses others.
    pub warmup: Span,
    /// How long is measured, in whole seconds.
    pub length: Span,
    /// Passes over each step. With 3 or more, figures have intervals.
    pub repeats: u32,
    /// One tile's users ask much more for a quarter of the measurement. Default: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub surge: Option<Surge>,
    /// How guests are created.
    pub start: Start,
    /// The p-value that a difference between sides must reach.
    pub significance: Fraction,
    /// A change of throughput, p50 or processor time within this counts as no difference between sides.
    pub margin: Fraction,
    /// The same for p99.
    pub margin_p99: Fraction,
}

impl Default for Measure {
    fn default() -> Self {
        Self {
            warmup: Span::from_seconds(3),
            length: Span::from_seconds(10),
            repeats: 5,
            surge: None,
            start: Start::Clone,
            significance: Fraction::new(0.01).expect("one in a hundred is a part of a whole"),
            margin: Fraction::new(0.03).expect("three in a hundred are a part of a whole"),
            margin_p99: Fraction::new(0.1).expect("one in ten is a part of a whole"),
        }
    }
}

/// The users of one tile ask so many times as much of the headline load for a quarter of the measurement. Other tiles are measured before,
/// during and after it. A step without the tile, or without another one, has no surge; a plan in which none has it is refused. It needs a load
/// `web` or `sessions` with a rate, sent from outside, as the headline, a ladder with 2 tiles or more, and a measurement of 8 s or longer.
/// `interference` refuses it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Surge {
    /// The tile, counted from 1.
    pub tile: u32,
    /// How many times as much.
    pub factor: u32,
    /// When it begins.
    #[serde(default)]
    pub at: SurgeAt,
}

impl Surge {
    /// The fewest tiles of a point that has it: those up to its own, and another one to feel it.
    pub fn least_tiles(&self) -> u32 {
        self.tile.max(2)
    }
}

/// When a surge begins.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum SurgeAt {
    /// At half of the measurement. It ends after a quarter of it.
    #[default]
    Half,
}

impl Measure {
    /// The longest measurement, and the longest warm-up: seconds are kept one by one.
    pub const LENGTH_MAX: Span = Span::from_seconds(24 * 3600);

    /// The seconds of the measurement in which a surge lasts: from the first to the one after the last.
    pub fn surge_seconds(&self) -> std::ops::Range<u32> {
        let length = u32::try_from(self.length.get().as_secs()).unwrap_or(u32::MAX);
        length / 2..length / 2 + length / 4
    }
}

/// How guests are created.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Start {
    /// Each is cloned copy-on-write from a booted, warmed and frozen template of its role.
    #[default]
    Clone,
    /// Each is booted.
    Boot,
}
