//! Mixes of jobs: jobs a minute and how equal users' times were at each step, and the time of each kind of job.

use super::{Axis, Cell, Group, Kind, Part, Row, Section, Table, View, measured, words};
use crate::number::{counted, three, whole};
use std::collections::{BTreeMap, BTreeSet};
use tilemark_record::{
    jobs::{JobKind, JobTimes, JobsFigures},
    result::PointResult,
};
use tilemark_units::mean;

const ABOUT: &str = "Each user draws its jobs from the mix without replacement; every result is checked. JTI is AIM7's index of how \
    equal users' times were within a guest, 100 if they were the same: the mean over guests and repeats, and the lowest. There is none where the users did too few jobs, \
    or had too few kinds of jobs in common, to be compared.";

/// The part of a report that loads of jobs have; nothing where the record has none.
pub(crate) fn jobs(view: &View) -> Option<Section> {
    let loads: BTreeSet<&str> = view
        .report
        .repeats
        .iter()
        .flat_map(|repeat| &repeat.loads)
        .filter(|load| !load.jobs.is_empty())
        .map(|load| load.name.as_str())
        .collect();
    if loads.is_empty() {
        return None;
    }
    let rows: Vec<Row> =
        view.points().filter_map(|(group, point)| rates(view, group, point, &loads)).collect();
    if rows.is_empty() {
        // No repeat with jobs was kept.
        return None;
    }
    let mut parts = vec![Part::Text(ABOUT.to_owned()), Part::Table(rates_table(rows))];
    parts.extend(times_table(view, &loads).map(Part::Table));
    Some(Section::new("jobs", "Jobs", parts))
}

/// The figures of a load at a point: those of all its guests in each kept repeat.
fn repeats<'a>(view: &View<'a>, point: &'a PointResult, name: &str) -> Vec<&'a [JobsFigures]> {
    let kept = view.kept_repeats(point).flat_map(|repeat| &repeat.loads).filter(|load| load.name == name);
    kept.map(|load| &load.jobs[..]).filter(|jobs| !jobs.is_empty()).collect()
}

fn rates_table(rows: Vec<Row>) -> Table {
    let columns = vec![
        measured("Step"),
        words("Load"),
        measured("Jobs").unit("per minute, all guests").short_unit("/min"),
        measured("Each user").unit("jobs per minute").short_unit("/min"),
        measured("JTI").unit("mean; lowest"),
    ];
    Table::new(columns, rows)
}

fn rates<'a>(view: &View<'a>, group: &Group, point: &'a PointResult, loads: &BTreeSet<&str>) -> Option<Row> {
    let lines: Vec<Vec<Cell>> = loads.iter().filter_map(|name| rates_of(view, point, name)).collect();
    (!lines.is_empty()).then(|| Row::of(view, point, view.head(group, point), lines))
}

fn rates_of<'a>(view: &View<'a>, point: &'a PointResult, name: &str) -> Option<Vec<Cell>> {
    let repeats = repeats(view, point, name);
    if repeats.is_empty() {
        return None;
    }
    let of_repeat =
        |jobs: &&[JobsFigures]| -> Option<f64> { jobs.iter().map(|jobs| jobs.jobs_per_minute).sum() };
    let all = mean(repeats.iter().filter_map(of_repeat));
    let each = mean(repeats.iter().copied().flatten().filter_map(|jobs| jobs.jobs_per_minute_and_user));
    let indices = || repeats.iter().copied().flatten().filter_map(|jobs| jobs.jti);
    let in_percent = |jti: f64| format!("{:.1}", 100.0 * jti);
    let lowest = indices().reduce(f64::min).map(in_percent);
    Some(vec![
        name.into(),
        Cell::figure(all.map(|rate| whole(rate.round() as u64))),
        Cell::figure(each.map(three)),
        Cell::figure(mean(indices()).map(in_percent)).beside(lowest),
    ])
}

/// The head of a column of means, such as `Mean at 2 tiles`.
fn mean_at(view: &View, group: &Group, point: &PointResult) -> String {
    match view.axis {
        Axis::Tiles => format!("Mean at {}", counted(point.tiles.into(), "tile")),
        Axis::Vary | Axis::Roles => format!("Mean at {}", view.head(group, point).text),
    }
}

/// Kinds of jobs with what they stress, at the fewest tiles and beside that at the most.
fn times_table(view: &View, loads: &BTreeSet<&str>) -> Option<Table> {
    let group = view.groups.iter().find(|group| group.kind == Kind::Main).or(view.groups.first())?;
    let has_times = |point: &&&PointResult| loads.iter().any(|name| !repeats(view, point, name).is_empty());
    let (first, last) = (group.points.iter().find(has_times)?, group.points.iter().rfind(has_times)?);
    let has_two = first.index != last.index;
    let mut columns = vec![
        words("Load"),
        words("Job"),
        words("Stresses").dispensable(1),
        measured("Jobs"),
        measured(mean_at(view, group, first)).unit("ms"),
        measured("Worst median").unit("ms, any guest and repeat").short_unit("ms").dispensable(2),
        measured("Worst p90").unit("ms, any guest and repeat").short_unit("ms").dispensable(3),
    ];
    columns.extend(has_two.then(|| measured(mean_at(view, group, last)).unit("ms")));
    let rows = loads.iter().map(|name| {
        let (now, then) = (kinds(view, first, name), kinds(view, last, name));
        let line = |(kind, times): (&JobKind, &Vec<&JobTimes>)| {
            let mut cells = vec![kind.name().into(), kind.stresses().into()];
            cells.extend(of_kind(times));
            cells.extend(
                has_two.then(|| Cell::figure(then.get(kind).and_then(|times| mean_of(times)).map(three))),
            );
            cells
        };
        let lines = now.iter().map(line).collect();
        let row = Row::of(view, first, *name, lines);
        Row { struck: row.struck || view.struck(last), ..row }
    });
    let rows: Vec<Row> = rows.filter(|row| !row.lines.is_empty()).collect();
    let mut lines = rows.iter().flat_map(|row| &row.lines);
    let lacks_times = lines.any(|line| line.iter().any(Cell::is_missing));
    let below = lacks_times.then(|| TOO_FEW.to_owned()).into_iter().collect();
    Some(Table { title: "Time by kind of job", below, ..Table::new(columns, rows) })
}

/// What a dash means in the table of kinds.
const TOO_FEW: &str = "\u{2013}: no guest did enough jobs of that kind in a repeat for this figure";

fn kinds<'a>(view: &View<'a>, point: &'a PointResult, name: &str) -> BTreeMap<JobKind, Vec<&'a JobTimes>> {
    let mut kinds: BTreeMap<JobKind, Vec<&JobTimes>> = BTreeMap::new();
    for (kind, times) in repeats(view, point, name).into_iter().flatten().flat_map(|jobs| &jobs.kinds) {
        kinds.entry(*kind).or_default().push(times);
    }
    kinds
}

fn of_kind(times: &[&JobTimes]) -> Vec<Cell> {
    let worst = |of: fn(&JobTimes) -> Option<f64>| {
        Cell::figure(times.iter().filter_map(|times| of(times)).reduce(f64::max).map(three))
    };
    let sum = |of: fn(&JobTimes) -> u64| times.iter().map(|times| of(times)).fold(0, u64::saturating_add);
    let not_right = sum(|times| times.not_right);
    let bad = (not_right > 0).then(|| format!("{} not right", whole(not_right)));
    vec![
        Cell::from(whole(sum(|times| times.count))).beside(bad),
        Cell::figure(mean_of(times).map(three)),
        worst(|times| times.p50_ms),
        worst(|times| times.p90_ms),
    ]
}

/// The mean over all jobs.
fn mean_of(times: &[&JobTimes]) -> Option<f64> {
    let with_mean = || times.iter().filter_map(|times| Some((times.count as f64, times.mean_ms?)));
    let count: f64 = with_mean().map(|(count, _)| count).sum();
    let sum: f64 = with_mean().map(|(count, mean)| count * mean).sum();
    (count > 0.0).then(|| sum / count)
}
