//! Power of the processors' packages: idle, at each step, and what was served per joule. Nothing where the host counts no
//! energy.

use super::{Cell, Part, Row, Section, Table, View, measured};
use crate::number::{NARROW_SPACE, three};
use tilemark_record::result::PointResult;

const ABOUT: &str = "Energy of the CPU packages, measured by themselves (RAPL): without memory, disks and \
    fans. Idle is before the first guest; a step includes the load, whose processors are kept awake.";

/// The power part of a report.
pub(crate) fn power(view: &View) -> Option<Section> {
    let result = &view.report.result;
    let idle = result.idle_power_w;
    if idle.is_none() && result.points.iter().all(|point| point.power_w.is_none()) {
        return None;
    }
    let columns = vec![
        measured("Step"),
        measured("Power").unit("mean"),
        measured("Above idle"),
        measured("Served").unit("per joule"),
    ];
    let rows = view.points().map(|(group, point)| {
        let above_idle = point.power_w.zip(idle).map(|(power, idle)| power - idle);
        let cells = [point.power_w.map(watts), above_idle.map(watts), per_joule(view, point)];
        Row::of(view, point, view.head(group, point), vec![cells.map(Cell::figure).into()])
    });
    let idle = Cell::figure(idle.map(watts)).text;
    Some(Section::new(
        "power",
        "Power",
        vec![
            Part::Text(format!("Idle: {idle}.")),
            Part::Table(Table::new(columns, rows.collect())),
            Part::Text(ABOUT.to_owned()),
        ],
    ))
}

fn watts(power: f64) -> String {
    format!("{}{NARROW_SPACE}W", three(power))
}

/// Emulated work is no measure of hardware, and neither is what it takes. The one figure of a command is not an amount of work.
fn per_joule(view: &View, point: &PointResult) -> Option<String> {
    let is_work = view.unit_of_figure(point, view.headline_of(point)).is_none();
    let is_real = !view.report.plan.host.emulates(point.backend);
    let served = point.throughput.as_ref().filter(|_| is_work && is_real)?;
    let watts = point.power_w.filter(|watts| *watts > 0.0)?;
    Some(format!("{} {}", three(served.figure.value / watts), served.unit.trim_end_matches("/s")))
}
