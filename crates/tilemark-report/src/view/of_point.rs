//! What every part of the report shows of a point: whether it holds, and a row that is struck where its figures are not trusted.

use super::{Cell, Outcome, Row, View};
use tilemark_record::result::PointResult;

impl Outcome {
    /// Of a point. The gate is no measure of what is emulated.
    pub(crate) fn of(view: &View, point: &PointResult) -> Self {
        if view.report.plan.host.emulates(point.backend) {
            return Self::Unknown;
        }
        match point.holds {
            Some(true) => Self::Holds,
            Some(false) => Self::Breaks,
            None if point.repeats_kept > 0 && point.p99_ms.is_some() => Self::Undecided,
            None => Self::Unknown,
        }
    }
}

impl Row {
    /// Of a point: struck where its figures are not trusted.
    pub(crate) fn of(view: &View, point: &PointResult, head: impl Into<Cell>, lines: Vec<Vec<Cell>>) -> Self {
        Self {
            head: head.into(),
            lines,
            outcome: None,
            struck: view.struck(point),
            emulated: view.report.plan.host.emulates(point.backend),
        }
    }
}
