//! What each guest of the tile used at one step: who takes the processors, disks and network.

use super::{Cell, Kind, Part, Row, Section, Table, View, given, measured};
use crate::number::{percent, three};
use tilemark_record::result::PointResult;
use tilemark_record::summary::GuestUse;

/// Bytes in a megabyte.
const MB: f64 = 1e6;

const ABOUT: &str = "Each row is the average guest of that name: CPUs used, the same as a share of its vCPUs, CPUs used by the busiest such guest, \
    MB/s of disk and network (both directions).";

/// At the largest step, of guests rather than of their native twin; nothing where a tile has one guest.
pub(crate) fn uses(view: &View) -> Option<Section> {
    // There each step is a part of the tile, and the table of who slows whom says what matters.
    if view.report.result.interference.is_some() || view.report.result.screening.is_some() {
        return None;
    }
    let is_known =
        |point: &PointResult| point.uses.len() > 1 && !view.report.plan.host.emulates(point.backend);
    let known = view.points().filter(|(_, point)| is_known(point));
    let (group, point) = known.max_by_key(|(group, point)| (group.kind == Kind::Main, point.tiles))?;
    let columns = vec![
        given("Guest"),
        given("Guests").dispensable(3),
        measured("CPUs"),
        measured("Share of its vCPUs"),
        measured("Busiest guest").dispensable(2),
        measured("Disk").unit("MB/s"),
        measured("Network").unit("MB/s").dispensable(1),
    ];
    let rows = point.uses.iter().map(|one| Row::of(view, point, head(one), vec![line(one)])).collect();
    let step = view.head(group, point).text;
    Some(Section::new(
        "uses",
        "What each guest used",
        vec![
            Part::Text(format!("Step: {step}. {}{ABOUT}", back_end(point))),
            Part::Table(Table::new(columns, rows)),
        ],
    ))
}

/// A back end is to answer web servers and never to limit them: how busy the busiest was.
fn back_end(point: &PointResult) -> String {
    let back_ends = point.uses.iter().filter(|one| one.role == tilemark_plan::scenario::Role::Backend);
    back_ends
        .map(|one| {
            format!(
                "The busiest {} used {} of its vCPUs. ",
                one.guest,
                percent(of_own(one.processors_max, one))
            )
        })
        .collect()
}

fn head(one: &GuestUse) -> Cell {
    let role = one.role.name();
    Cell::from(&*one.guest).beside((role != one.guest).then(|| role.to_owned()))
}

fn line(one: &GuestUse) -> Vec<Cell> {
    vec![
        crate::number::whole(one.guests.into()).into(),
        three(one.processors).into(),
        percent(of_own(one.processors, one)).into(),
        three(one.processors_max).into(),
        Cell::figure(one.disk_bytes_per_s.map(|bytes| three(bytes / MB))),
        Cell::figure(one.network_bytes_per_s.map(|bytes| three(bytes / MB))),
    ]
}

fn of_own(processors: f64, one: &GuestUse) -> f64 {
    processors / f64::from(one.vcpus.max(1))
}
