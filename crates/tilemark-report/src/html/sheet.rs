//! A page of several runs: compared, or over time.

use super::{
    charts::forest,
    first_screen::verdict_chip,
    frame::{foot, head},
    markup::Markup,
    section::{self, section},
    terms::glossary,
};
use crate::several::{Finding, Sheet};
use crate::view::SheetCharts;

/// The sheet as one HTML file.
pub(crate) fn sheet_page(sheet: &Sheet) -> String {
    let mut page = Markup::default();
    head(&mut page, &sheet.title, "runs");
    page.raw("<body>\n<main class=\"sheet\">\n<header><div class=\"identity\"><h1>").text(&sheet.title);
    page.raw("</h1></div></header>\n");
    for one in &sheet.lead {
        section(&mut page, one);
    }
    page.raw("<section class=\"part\" id=\"findings\"><h2>What was found</h2>\n");
    for one in &sheet.findings {
        finding(&mut page, one);
    }
    page.raw("</section>\n<div class=\"charts wide\">\n");
    if !sheet.forest.is_empty() {
        forest(&mut page);
    }
    for chart in &sheet.charts {
        section::chart(&mut page, chart);
    }
    page.raw("</div>\n<noscript><p class=\"reason\">Charts need JavaScript. The tables have every figure.</p></noscript>\n");
    for one in &sheet.sections {
        section(&mut page, one);
    }
    glossary(&mut page);
    foot(&mut page, &SheetCharts::new(&sheet.forest, &sheet.charts));
    page.finish()
}

fn finding(page: &mut Markup, finding: &Finding) {
    page.raw("<div class=\"finding\">");
    if !finding.head.is_empty() {
        page.element("h3", "", &finding.head);
    }
    page.raw("<p>");
    if let Some(chip) = finding.chip {
        verdict_chip(page, chip);
        page.raw(" ");
    }
    page.text(&finding.text).raw("</p>");
    if !finding.reasons.is_empty() {
        page.raw("<ul class=\"aside\">");
        for reason in &finding.reasons {
            page.element("li", "", reason);
        }
        page.raw("</ul>");
    }
    page.raw("</div>\n");
}
