//! What a surge in one tile did to guests of the others: before, while it lasted and after.

use super::{Cell, Part, Row, Section, Table, View, given, measured, words};
use crate::number::three;
use tilemark_record::result::{Figure, LoadResult, PointResult, SurgeTime};

const ABOUT: &str = "All figures are of guests in other tiles. Slowdown: how many times as long their requests took as before the surge, \
    with its 95 % interval; 1 is no effect.";

/// The largest step with a surge; nothing where there was none.
pub(crate) fn surge(view: &View) -> Option<Section> {
    let points = view.report.result.points.iter();
    let has_surge = |point: &&PointResult| point.loads.iter().any(|load| load.surge.is_some());
    let real = points.filter(|point| !view.report.plan.host.emulates(point.backend)).filter(has_surge);
    let point = real.max_by_key(|point| point.tiles)?;
    let planned = view.report.plan.points.iter().find(|planned| planned.index == point.index)?;
    let surge = planned.measure.surge?;
    let seconds = planned.measure.surge_seconds();
    let columns = vec![
        given("Load"),
        words("When"),
        measured("Served").unit("per s"),
        measured("Mean").unit("ms"),
        measured("p99").unit("ms"),
        measured("Errors"),
        measured("Slowdown").unit("95 % interval").short_unit("[95 %]").word("slowdown"),
    ];
    let rows = point.loads.iter().filter_map(|load| Some(Row::of(view, point, &*load.name, lines(load)?)));
    let rows = rows.collect();
    let what = format!(
        "From second {} to {} the users of tile {} asked {} times as much. At {} tiles: {}. {ABOUT}",
        seconds.start,
        seconds.end,
        surge.tile,
        surge.factor,
        point.tiles,
        felt(point)
    );
    let parts = vec![Part::Text(what), Part::Table(Table::new(columns, rows))];
    Some(Section {
        id: "surge",
        title: "What a surge does to others",
        parts,
        charts: Vec::new(),
        is_answer: false,
    })
}

/// The load that felt it most by a whole interval.
fn felt(point: &PointResult) -> String {
    let during = |load: &LoadResult| load.surge.and_then(|surge| surge.slowdown_during);
    let is_certain = |figure: &Figure| figure.low.is_some_and(|low| low > 1.0);
    let certain = point.loads.iter().filter_map(|load| Some((load, during(load).filter(is_certain)?)));
    let most = certain.max_by(|one, other| one.1.value.total_cmp(&other.1.value));
    most.map_or_else(
        || "no other tile is known to have felt it".to_owned(),
        |(load, figure)| {
            let text = Cell::from(three(figure.value)).beside(super::rows::interval(&figure));
            let interval = text.aside.map(|aside| format!(" {aside}")).unwrap_or_default();
            format!(
                "requests of {} in other tiles took {}{interval} times as long meanwhile",
                load.name, text.text
            )
        },
    )
}

fn lines(load: &LoadResult) -> Option<Vec<Vec<Cell>>> {
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
    Some(vec![
        line("before", surge.before, Some(three(1.0).into())),
        line("during", surge.during, surge.slowdown_during.map(cell)),
        line("after", surge.after, surge.slowdown_after.map(cell)),
    ])
}
