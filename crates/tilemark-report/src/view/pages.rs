//! Pages of sites: how many were good and tolerable at each step.

use super::{Cell, Group, Part, Row, Section, Table, View, given, measured, words};
use crate::number::{limit, percent, three};
use tilemark_record::result::{Figure, LoadResult, PagesResult, PointResult};

/// One row a step and load with pages; nothing where no load has any.
pub(crate) fn pages(view: &View) -> Option<Section> {
    // There each step is a part of the tile, and the table of who slows whom says what matters.
    if view.report.result.interference.is_some() || view.report.result.screening.is_some() {
        return None;
    }
    let real = view.points().filter(|(_, point)| !view.report.plan.host.emulates(point.backend));
    let rows: Vec<Row> = real.filter_map(|(group, point)| row(view, group, point)).collect();
    if rows.is_empty() {
        return None;
    }
    let columns = vec![
        given("Step"),
        words("Load"),
        measured("Good").unit("95 % interval").short_unit("[95 %]"),
        measured("Tolerable").unit("95 % interval").short_unit("[95 %]"),
        measured("Mean").unit("ms"),
        given("Good within").unit("ms").dispensable(1),
        given("Tolerable within").unit("ms").dispensable(2),
    ];
    let about = "A page is complete when its last file has arrived. Good and tolerable are shares of all pages that ended; a page with an error is neither.";
    Some(Section::new(
        "pages",
        "How good pages were",
        vec![Part::Text(about.to_owned()), Part::Table(Table::new(columns, rows))],
    ))
}

fn row(view: &View, group: &Group, point: &PointResult) -> Option<Row> {
    let lines: Vec<Vec<Cell>> =
        point.loads.iter().filter_map(|load| Some(line(load, load.pages.as_ref()?))).collect();
    (!lines.is_empty()).then(|| Row::of(view, point, view.head(group, point), lines))
}

fn line(load: &LoadResult, pages: &PagesResult) -> Vec<Cell> {
    let part = |figure: Option<Figure>| match figure {
        Some(figure) => Cell::from(percent(figure.value)).beside(interval(&figure)),
        None => Cell::figure(None),
    };
    vec![
        (&*load.name).into(),
        part(pages.good),
        part(pages.tolerable),
        Cell::figure(load.latency_ms.mean.map(three)),
        limit(pages.good_ms).into(),
        limit(pages.tolerable_ms).into(),
    ]
}

fn interval(figure: &Figure) -> Option<String> {
    let (low, high) = (figure.low?, figure.high?);
    Some(format!("[{}, {}]", percent(low.max(0.0)), percent(high.min(1.0))))
}
