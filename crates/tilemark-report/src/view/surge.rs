//! What a surge in one tile did to guests of the others: before, while it lasted and after.

use super::{Axis, Cell, Group, Kind, Part, Row, Section, Table, View, given, measured, words};
use crate::number::three;
use tilemark_record::result::{Figure, LoadResult, PointResult, SurgeResult, SurgeTime};

const ABOUT: &str = "All figures are of guests in other tiles, of the requests that were due then, however late their answers. \
    Slowdown: how many times as long their requests took as before the surge, with its 95 % interval; 1 means no effect.";

/// The largest step with a surge, of each side and each value of what varies; nothing where there was none. The native twin is in the
/// table of steps: what its tiles do to each other is not what was asked.
pub(crate) fn surge(view: &View) -> Option<Section> {
    let mains = view.groups.iter().filter(|group| group.kind == Kind::Main);
    let steps = mains.flat_map(|group| largest(group).map(move |point| (group, point)));
    let mut parts: Vec<Part> =
        steps.filter_map(|(group, point)| of_step(view, group, point)).flatten().collect();
    if parts.is_empty() {
        return None;
    }
    parts.push(Part::Text(ABOUT.to_owned()));
    Some(Section::new("surge", "What a surge does to others", parts))
}

/// The points with a surge at the largest tile count of the group: several where values vary at one count.
fn largest<'g>(group: &'g Group) -> impl Iterator<Item = &'g PointResult> {
    let has_surge = |point: &&PointResult| point.loads.iter().any(|load| load.surge.is_some());
    let surges = move || group.points.iter().copied().filter(has_surge);
    let most = surges().map(|point| point.tiles).max();
    surges().filter(move |point| Some(point.tiles) == most)
}

/// What others felt of it at one step, in words and as a table.
fn of_step(view: &View, group: &Group, point: &PointResult) -> Option<[Part; 2]> {
    let planned = view.report.plan.points.iter().find(|planned| planned.index == point.index)?;
    let surge = planned.measure.surge?;
    let seconds = planned.measure.surge_seconds();
    let columns = vec![
        given("Load"),
        words("When"),
        measured("Answered").unit("per s"),
        measured("Mean").unit("ms"),
        measured("p99").unit("ms"),
        measured("Errors"),
        measured("Slowdown").unit("95 % interval").short_unit("[95 %]").word("slowdown"),
    ];
    let gate = planned.gate.errors.get();
    let rows =
        point.loads.iter().filter_map(|load| Some(Row::of(view, point, &*load.name, lines(load, gate)?)));
    let rows = rows.collect();
    let is_left_out = |surge: &SurgeResult| {
        [surge.during, surge.after].iter().any(|part| !surge.compares_times(part, gate))
    };
    let notes = match point.loads.iter().filter_map(|load| load.surge.as_ref()).any(is_left_out) {
        true => vec!["requests failed: their times are not compared".to_owned()],
        false => Vec::new(),
    };
    let what = format!(
        "From second {} to {} the users of tile {} asked {} times as much. At {}: {}.",
        seconds.start,
        seconds.end,
        surge.tile,
        surge.factor,
        place(view, group, point),
        felt(point, gate)
    );
    Some([Part::Text(what), Part::Table(Table { notes, ..Table::new(columns, rows) })])
}

/// The tiles of a step, with what sets it apart where there are other groups or values.
fn place(view: &View, group: &Group, point: &PointResult) -> String {
    let tiles = crate::number::counted(point.tiles.into(), "tile");
    let group = (view.groups.len() > 1).then(|| group.name.clone());
    let value = (view.axis == Axis::Vary).then(|| view.step(point));
    let apart = group.into_iter().chain(value).filter(|words| !words.is_empty());
    [tiles].into_iter().chain(apart).collect::<Vec<_>>().join(", ")
}

/// The load whose requests failed most, and the one that was certainly slowed most.
fn felt(point: &PointResult, gate: f64) -> String {
    let failing = point.loads.iter().filter_map(|load| Some((load, load.surge?)));
    let failing = failing.filter(|(_, surge)| surge.fails(gate));
    // Of a load that was answered nothing, nothing is left to fail.
    let part = |surge: &SurgeResult| surge.during.errors.unwrap_or(1.0);
    let failed = failing.max_by(|(_, one), (_, other)| part(one).total_cmp(&part(other)));
    let failed = failed.map(|(load, surge)| how_it_failed(load, &surge));
    let slowed = slowed_most(point, gate);
    match (failed, slowed) {
        (None, None) => "no other tile is known to have felt it".to_owned(),
        (Some(failed), Some(slowed)) => format!("{failed}; {slowed}"),
        (Some(felt), None) | (None, Some(felt)) => felt,
    }
}

fn how_it_failed(load: &LoadResult, surge: &SurgeResult) -> String {
    let name = &load.name;
    let Some(during) = surge.during.errors else {
        return format!("{name} in other tiles received no answer meanwhile");
    };
    let [before, during] = [surge.before.errors.unwrap_or(0.0), during].map(super::percent_or_none);
    format!("{during} of the requests of {name} in other tiles failed meanwhile, {before} before")
}

fn slowed_most(point: &PointResult, gate: f64) -> Option<String> {
    let certain = point.loads.iter().filter_map(|load| {
        let surge = load.surge.filter(SurgeResult::is_certain)?;
        let figure = surge.slowdown_during.filter(|_| surge.compares_times(&surge.during, gate))?;
        Some((load, figure))
    });
    let (load, figure) = certain.max_by(|one, other| one.1.value.total_cmp(&other.1.value))?;
    let interval = super::rows::interval(&figure).map(|interval| format!(" {interval}")).unwrap_or_default();
    Some(format!(
        "requests of {} in other tiles took {}{interval} times as long meanwhile",
        load.name,
        three(figure.value)
    ))
}

fn lines(load: &LoadResult, gate: f64) -> Option<Vec<Vec<Cell>>> {
    let surge = load.surge?;
    let line = |when: &str, time: SurgeTime, slowdown: Option<Cell>| {
        vec![
            when.into(),
            Cell::figure(time.throughput.map(three)),
            Cell::figure(time.mean_ms.map(three)),
            Cell::figure(time.p99_ms.map(three)),
            Cell::figure(time.errors.map(super::percent_or_none)),
            slowdown.unwrap_or_else(|| Cell::figure(None)),
        ]
    };
    let cell = |figure: Figure| Cell::from(three(figure.value)).beside(super::rows::interval(&figure));
    let slowdown = |part: SurgeTime, figure: Option<Figure>| match surge.compares_times(&part, gate) {
        true => figure.map(cell),
        false => Some(Cell { note: Some(1), ..Cell::figure(None) }),
    };
    Some(vec![
        line("before", surge.before, Some(three(1.0).into())),
        line("during", surge.during, slowdown(surge.during, surge.slowdown_during)),
        line("after", surge.after, slowdown(surge.after, surge.slowdown_after)),
    ])
}
