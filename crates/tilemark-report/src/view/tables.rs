//! The tables that only the page has: fairness, every load, what two sides differ in and what came of it.

use super::section::{Cell, Row, Table, given, measured, words};
use super::{View, load_p99, percent_or_none};
use crate::number::{change, percent, three, whole};
use crate::published::Paper;
use tilemark_plan::scenario::LoopKind;
use tilemark_record::result::{Comparison, LoadResult, Measured, PointResult};

/// Who was served least and most at each step.
pub(crate) fn fairness(view: &View) -> Table {
    let columns = vec![
        measured("Step"),
        measured("Jain's index"),
        words("Least served"),
        measured("of mean"),
        words("Most served"),
        measured("of mean"),
    ];
    let rows = view.points().map(|(group, point)| {
        Row::of(view, point, view.label(group, point), vec![fairness_cells(view, point)])
    });
    Table::new(columns, rows.collect())
}

fn fairness_cells(view: &View, point: &PointResult) -> Vec<Cell> {
    let Some(fair) = &point.fairness else {
        let reason = match point.loads.iter().map(|load| load.guests.len()).max() {
            Some(1) => "fairness needs at least two guests".to_owned(),
            _ => view.missing(point, "fairness"),
        };
        return vec![reason.into()];
    };
    vec![
        format!("{:.4}", fair.jain).into(),
        fair.least_served.guest.clone().into(),
        percent(fair.least_served.of_mean).into(),
        fair.most_served.guest.clone().into(),
        percent(fair.most_served.of_mean).into(),
    ]
}

/// Every load at each step.
pub(crate) fn loads(view: &View) -> Table {
    let columns = vec![
        measured("Step"),
        words("Load"),
        words("Measured"),
        measured("Offered").unit("per s"),
        measured("Served").unit("per s"),
        measured("Achieved"),
        measured("Mean").unit("ms"),
        measured("p50"),
        measured("p90"),
        measured("p99"),
        measured("p99.9"),
        measured("Max").unit("ms"),
        measured("Errors"),
        measured("Requests"),
        measured("Lateness").unit("p99, \u{b5}s").word("lateness"),
    ];
    let rows = view.points().filter(|(_, point)| !point.loads.is_empty()).map(|(group, point)| {
        Row::of(view, point, view.label(group, point), point.loads.iter().map(load_cells).collect())
    });
    Table::new(columns, rows.collect())
}

fn load_cells(load: &LoadResult) -> Vec<Cell> {
    let how = match (load.measured, load.loop_kind) {
        (Measured::Outside, LoopKind::Open) => "outside, open loop",
        (Measured::Outside, LoopKind::Closed) => "outside, closed loop",
        (Measured::Inside, LoopKind::Open) => "inside, open loop",
        (Measured::Inside, LoopKind::Closed) => "inside, closed loop",
    };
    let figure = |value: Option<f64>| Cell::figure(value.map(three));
    let latency = load.latency_ms;
    vec![
        load.name.clone().into(),
        how.into(),
        figure(load.offered),
        figure(load.throughput.as_ref().map(|throughput| throughput.figure.value)),
        Cell::figure(load.achieved_fraction.map(percent)),
        figure(latency.mean),
        figure(latency.p50),
        figure(latency.p90),
        figure(load_p99(load).map(|figure| figure.value)),
        figure(latency.p999),
        figure(latency.max),
        Cell::figure(load.errors.map(percent_or_none)),
        whole(latency.n).into(),
        figure(load.send_lateness_us.p99),
    ]
}

/// Settings that set two sides apart.
pub(crate) fn differences(comparison: &Comparison) -> Table {
    let mut rows: Vec<Row> = comparison
        .differences
        .iter()
        .map(|difference| {
            Row::new(&*difference.key, vec![difference.a.clone().into(), difference.b.clone().into()])
        })
        .collect();
    if rows.is_empty() {
        rows.push(Row::new("nothing: the two sides are the same", vec![Cell::default()]));
    }
    Table::new(vec![given("Setting"), words("A"), words("B")], rows)
}

/// What the sides failed in, which decides before any measure.
pub(crate) fn failures(comparison: &Comparison) -> Table {
    let rows = comparison.failures.iter().map(|failure| {
        let cells = vec![
            percent(failure.a).into(),
            percent(failure.b).into(),
            Cell::figure(failure.p.map(three)),
            failure.outcome.words().into(),
        ];
        Row::new(&*failure.name, cells)
    });
    let columns = vec![given("Failure"), measured("A"), measured("B"), given("p"), words("B is")];
    Table::new(columns, rows.collect())
}

/// The change of each measure from A to B.
pub(crate) fn measures(view: &View, comparison: &Comparison) -> Table {
    let rows = comparison.measures.iter().map(|measure| {
        let figure = &measure.change;
        let interval = figure.low.zip(figure.high);
        let head = Cell::from(&*measure.name).beside((!measure.primary).then(|| "not primary".to_owned()));
        let cells = vec![
            format!("{}\u{202f}%", change(figure.value)).into(),
            Cell::figure(interval.map(|(low, high)| format!("[{}, {}]", change(low), change(high)))),
            Cell::figure(measure.p.map(three)),
            Cell::figure(measure.margin.map(percent)),
            measure.resolution.map_or_else(|| "not known".to_owned(), percent).into(),
            figure.n_repeats.to_string().into(),
            if measure.more_is_better { "better" } else { "worse" }.into(),
            measure.outcome.words().into(),
        ];
        Row { struck: view.answer_struck(), ..Row::new(head, cells) }
    });
    let columns = vec![
        given("Measure"),
        measured("Change"),
        measured("95 % interval").word("interval"),
        given("p"),
        given("Margin"),
        given("Smallest visible").word("resolution"),
        given("Pairs"),
        words("More is"),
        words("B is"),
    ];
    Table::new(columns, rows.collect())
}

/// What a paper published.
pub(crate) fn published(paper: &Paper) -> Table {
    let columns = paper.heads.iter().map(|head| given(head.clone()));
    let rows = paper.rows.iter().filter_map(|row| {
        let (head, cells) = row.split_first()?;
        Some(Row::new(&**head, cells.iter().map(|cell| cell.clone().into()).collect()))
    });
    Table::new(columns.collect(), rows.collect())
}
