//! The tables that only the page has: fairness, every load, what two sides differ in and what came of it.

use super::section::{
    Beside, Cell, GroupHead, Part, Row, RowGroup, Section, Table, given, group_named, measured, words,
};
use super::{RateColumn, View, charts::shares_shown, load_p99, percent_or_none};
use crate::number::{change, percent, three, whole};
use crate::published::Paper;
use tilemark_plan::scenario::LoopKind;
use tilemark_record::result::{
    Comparison, Fairness, LoadResult, MeasureComparison, Measured, PointResult, Served,
};

/// In place of the least and the most served guest where there is none.
pub(super) const ALL_EQUAL: &str = "all equal";

/// Whether every guest got the same part.
pub(super) fn all_equal(fair: &Fairness) -> bool {
    fair.most_served.of_mean - fair.least_served.of_mean < 1e-9
}

/// Who was served least and most at each step, with a chart of every guest. Nothing where tiles and guests are not compared.
pub(crate) fn fairness(view: &View) -> Option<Section> {
    if !view.compares_tiles() {
        return None;
    }
    let shown = shares_shown(view);
    let mut loads = view.report.result.points.iter().flat_map(|point| &point.loads);
    let is_thinned = loads.any(|load| load.guests.len() > shown);
    let thinned = is_thinned.then(|| {
        format!(
            "The chart draws {shown} guests of a step, evenly by rank, the least and the most served among them."
        )
    });
    let parts = [Part::Table(fairness_table(view))].into_iter().chain(thinned.map(Part::Text));
    let beside =
        Beside { id: "chart-fairness", about: "Throughput of each guest relative to the mean, at each step" };
    Some(Section {
        word: "fairness",
        beside: Some(beside),
        ..Section::new("fairness", "Fairness", parts.collect())
    })
}

fn fairness_table(view: &View) -> Table {
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
    let named = |served: &Served| if all_equal(fair) { ALL_EQUAL.into() } else { (&*served.guest).into() };
    vec![
        format!("{:.4}", fair.jain).into(),
        named(&fair.least_served),
        percent(fair.least_served.of_mean).into(),
        named(&fair.most_served),
        percent(fair.most_served.of_mean).into(),
    ]
}

/// Every load at each step. Nothing where there is no load.
pub(crate) fn loads(view: &View) -> Option<Section> {
    if view.groups.is_empty() || view.headline().is_empty() {
        return None;
    }
    let about = "\u{2013}: not measured, or fewer than 20 requests lie beyond that percentile.".to_owned();
    Some(Section::new("loads", "Every load", vec![Part::Table(loads_table(view)), Part::Text(about)]))
}

fn loads_table(view: &View) -> Table {
    let all = || view.points().flat_map(|(_, point)| point.loads.iter().map(move |load| (point, load)));
    let rate = RateColumn::of(all().map(|(point, load)| view.unit_of_figure(point, &load.name)));
    let columns = vec![
        measured("Step"),
        words("Load"),
        words("Measured"),
        measured("Offered").unit("per s"),
        rate.head(),
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
        let cells = |load: &LoadResult| load_cells(load, rate, view.unit_of_figure(point, &load.name));
        Row::of(view, point, view.label(group, point), point.loads.iter().map(cells).collect())
    });
    Table::new(columns, rows.collect())
}

fn load_cells(load: &LoadResult, rate: RateColumn, unit: Option<&str>) -> Vec<Cell> {
    let how = match (load.measured, load.loop_kind) {
        (Measured::Outside, LoopKind::Open) => "outside, open loop",
        (Measured::Outside, LoopKind::Closed) => "outside, closed loop",
        (Measured::Inside, LoopKind::Open) => "inside, open loop",
        (Measured::Inside, LoopKind::Closed) => "inside, closed loop",
    };
    let figure = |value: Option<f64>| Cell::figure(value.map(three));
    let latency = load.latency_ms;
    let served = load.throughput.as_ref().map(|throughput| throughput.figure.value);
    vec![
        load.name.clone().into(),
        how.into(),
        figure(load.offered),
        Cell::figure(served.map(|value| rate.cell(value, unit))),
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

/// In what two sides that were compared differ.
pub(crate) fn sides_differ(view: &View) -> Option<Section> {
    let comparison = view.report.result.comparison.as_ref()?;
    Some(Section::new("differences", "What differs", vec![Part::Table(differences(comparison))]))
}

/// What two sides that were compared failed in, if any did.
pub(crate) fn sides_failed(view: &View) -> Option<Section> {
    let comparison = view.report.result.comparison.as_ref()?;
    (!comparison.failures.is_empty()).then(|| failures_section(failures(comparison)))
}

/// What came of each measure of two sides that were compared.
pub(crate) fn sides_measured(view: &View) -> Option<Section> {
    let comparison = view.report.result.comparison.as_ref()?;
    let of_run = (String::new(), comparison, view.answer_struck());
    Some(Section::new("measures", "Measures", vec![Part::Table(measures(&[of_run]))]))
}

/// What sides that were compared failed in.
pub(crate) fn failures_section(table: Table) -> Section {
    let about = "Failures are compared first, then the measures.".to_owned();
    Section::new("failures", "Failures", vec![Part::Text(about), Part::Table(table)])
}

/// Settings that set two sides apart.
fn differences(comparison: &Comparison) -> Table {
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

/// The head of a group of a side that is compared with the first.
pub(crate) fn against_first(label: &str) -> GroupHead {
    group_named(&format!("{label} against A"))
}

/// The change of each measure from A to B, with both values where the record has them. Of several comparisons, each with the label of its
/// side and whether its figures are struck through, each is a group.
pub(crate) fn measures(comparisons: &[(String, &Comparison, bool)]) -> Table {
    let all = || comparisons.iter().flat_map(|(_, comparison, _)| &comparison.measures);
    let has_values = all().any(|measure| measure.a.is_some() || measure.b.is_some());
    let sides = ["A", "B"].into_iter().filter(|_| has_values).map(measured);
    let mut columns = vec![given("Measure")];
    columns.extend(sides);
    columns.extend([
        measured("Change"),
        measured("95 % interval").word("interval"),
        given("p").dispensable(1),
        given("Margin").dispensable(3),
        given("Smallest visible").word("resolution").dispensable(4),
        given("Pairs").dispensable(2),
        words("More is").dispensable(5),
        words("B is"),
    ]);
    let group = |(label, comparison, struck): &(String, &Comparison, bool)| {
        let row = |measure| Row { struck: *struck, ..measure_row(measure, has_values) };
        RowGroup {
            head: (comparisons.len() > 1).then(|| against_first(label)),
            rows: comparison.measures.iter().map(row).collect(),
        }
    };
    Table { groups: comparisons.iter().map(group).collect(), ..Table::new(columns, Vec::new()) }
}

fn measure_row(measure: &MeasureComparison, has_values: bool) -> Row {
    let figure = &measure.change;
    let interval = figure.low.zip(figure.high);
    let head = Cell::from(&*measure.name).beside((!measure.primary).then(|| "not primary".to_owned()));
    let unit = measure.unit.as_deref().unwrap_or_default();
    let value =
        |value: Option<f64>| Cell::figure(value.map(|value| format!("{}\u{202f}{unit}", three(value))));
    let values = [measure.a, measure.b].into_iter().filter(|_| has_values).map(value);
    let others = [
        format!("{}\u{202f}%", change(figure.value)).into(),
        Cell::figure(interval.map(|(low, high)| format!("[{}, {}]", change(low), change(high)))),
        Cell::figure(measure.p.map(three)),
        Cell::figure(measure.margin.map(percent)),
        measure.resolution.map_or_else(|| "not known".to_owned(), percent).into(),
        figure.n_repeats.to_string().into(),
        if measure.more_is_better { "better" } else { "worse" }.into(),
        measure.outcome.words().into(),
    ];
    Row::new(head, values.chain(others).collect())
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
