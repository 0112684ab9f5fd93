//! What a report is drawn from.

use serde::{Deserialize, Serialize};
use tilemark_plan::plan::Plan;
use tilemark_record::{
    result::RunResult,
    rows::{SecondRow, TelemetryRow},
    summary::RepeatSummary,
};

/// A record, read into memory. Only `result` and `plan` are needed: what is missing of the rest is said in
/// its place in the report.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// What the run found.
    pub result: RunResult,
    /// Every repeat, discarded ones too.
    pub repeats: Vec<RepeatSummary>,
    /// The time line of every load.
    pub seconds: Vec<SecondRow>,
    /// The time line of the host.
    pub telemetry: Vec<TelemetryRow>,
    /// What was to happen.
    pub plan: Plan,
}
