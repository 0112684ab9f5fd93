//! What is compared between hosts of a fleet, of one repeat.

use tilemark_plan::scenario::LoopKind;
use tilemark_record::summary::{Better, RepeatSummary};

use super::gate::error_fraction;
use super::repeat_figures::{p50, p99, throughput};

/// The figures of a repeat by which hosts are compared.
#[derive(Clone, Debug, PartialEq)]
pub struct DecidingFigures {
    /// `throughput`, `p50`, or `figure` of a command with one figure.
    pub name: &'static str,
    /// The unit of `value`.
    pub unit: String,
    /// Whether more of it is better.
    pub more_is_better: bool,
    /// A closed loop shows a slower host by what it gets done, an open loop by how long it takes. `None` where nothing was served.
    pub value: Option<f64>,
    /// The 99th percentile of latency in milliseconds, where enough requests lie beyond it.
    pub p99_ms: Option<f64>,
    /// Part of its requests that failed or were answered wrongly. `None` where none ended.
    pub errors: Option<f64>,
}

/// The figures of the headline load; `None` where the repeat has no such load.
pub fn deciding_figures(repeat: &RepeatSummary, headline: &str) -> Option<DecidingFigures> {
    let load = repeat.loads.iter().find(|load| load.name == headline)?;
    let (p99_ms, errors) = (p99(repeat, headline), error_fraction(load));
    let figures = match (&load.figure, load.loop_kind) {
        (Some(figure), _) => DecidingFigures {
            name: "figure",
            unit: figure.unit.clone(),
            more_is_better: figure.better == Better::Higher,
            value: throughput(repeat, headline),
            p99_ms,
            errors,
        },
        (None, LoopKind::Closed) => DecidingFigures {
            name: "throughput",
            unit: load.unit_of_rate(),
            more_is_better: true,
            value: throughput(repeat, headline),
            p99_ms,
            errors,
        },
        (None, LoopKind::Open) => DecidingFigures {
            name: "p50",
            unit: "ms".to_owned(),
            more_is_better: false,
            value: p50(repeat, headline),
            p99_ms,
            errors,
        },
    };
    Some(figures)
}
