//! Power of the processors' packages: idle, at each step, and what was served for a joule. Nothing where the host counts no
//! energy.

use super::{Group, Kind, View};
use crate::number::{NARROW_SPACE, three};
use tilemark_record::result::PointResult;

/// All that the report says of power.
pub(crate) struct Power {
    /// Before the first guest.
    pub(crate) idle: String,
    /// One row a step.
    pub(crate) rows: Vec<PowerRow>,
}

/// One step of it.
pub(crate) struct PowerRow {
    /// The step with its group.
    pub(crate) step: String,
    /// Whether its figures are no measure of hardware.
    pub(crate) kind: Kind,
    /// Whether they are not trusted.
    pub(crate) struck: bool,
    /// Under load.
    pub(crate) watts: String,
    /// More than idle.
    pub(crate) above_idle: String,
    /// What the headline load was served for a joule, with its unit.
    pub(crate) per_joule: String,
}

/// Of what the figures are.
pub(crate) const POWER_ABOUT: &str = "Of the processors' packages, as they count it themselves (RAPL): without memory, disks and \
    fans. Idle is before the first guest; a step includes the load, whose processors are kept awake.";

const NONE: &str = "\u{2013}";

/// The power part of a report.
pub(crate) fn power(view: &View) -> Option<Power> {
    let result = &view.report.result;
    let is_counted =
        result.idle_power_w.is_some() || result.points.iter().any(|point| point.power_w.is_some());
    let of_group = |group: &'_ Group<'_>| -> Vec<PowerRow> {
        group.points.iter().map(|point| row(view, group, point)).collect()
    };
    is_counted.then(|| Power {
        idle: watts(result.idle_power_w),
        rows: view.groups.iter().flat_map(of_group).collect(),
    })
}

fn watts(power: Option<f64>) -> String {
    power.map_or_else(|| NONE.to_owned(), |watts| format!("{}{NARROW_SPACE}W", three(watts)))
}

fn row(view: &View, group: &Group, point: &PointResult) -> PowerRow {
    let idle = view.report.result.idle_power_w;
    let step = view.step(point);
    PowerRow {
        step: if group.name.is_empty() { step } else { format!("{step}, {}", group.name) },
        kind: group.kind,
        struck: view.struck(point),
        watts: watts(point.power_w),
        above_idle: watts(point.power_w.zip(idle).map(|(power, idle)| power - idle)),
        per_joule: per_joule(group.kind, point).unwrap_or_else(|| NONE.to_owned()),
    }
}

/// Emulated work is no measure of hardware, and neither is what it takes.
fn per_joule(kind: Kind, point: &PointResult) -> Option<String> {
    let served = point.throughput.as_ref().filter(|_| kind != Kind::Emulated)?;
    let watts = point.power_w.filter(|watts| *watts > 0.0)?;
    Some(format!("{} {}", three(served.figure.value / watts), served.unit.trim_end_matches("/s")))
}
