//! The report as one HTML file that needs no network, and no script for its figures: the charts are drawn by
//! the page's own script from data in the page; every figure is in a table too.
//!
//! A content policy names the hashes of the page's two scripts. Nothing else can run in it.

mod below;
mod charts;
mod disclosure;
mod figure;
mod first_screen;
mod frame;
mod markup;
mod section;
mod sheet;
mod terms;

use crate::{Report, view};
pub(crate) use markup::Markup;
pub(crate) use sheet::sheet_page;

/// The whole report as one HTML file.
pub fn html(report: &Report) -> String {
    let view = view::View::of(report);
    let sections = view::sections(&view);
    let charts = view::charts(&view, &sections);
    let mut page = Markup::default();
    frame::head(&mut page, &report.result.scenario, "report");
    page.raw("<body>\n<main>\n");
    first_screen::first_screen(&mut page, &view, &charts, &sections);
    section::sections_at(&mut page, &sections, view::Place::First);
    section::sections_at(&mut page, &sections, view::Place::Steps);
    below::below(&mut page, &view, &charts, &sections);
    disclosure::disclosure(&mut page, &view);
    terms::glossary(&mut page);
    frame::foot(&mut page, &charts);
    page.finish()
}
