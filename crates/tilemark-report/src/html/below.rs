//! What is below the first screen: time line, bands, response, fairness, memory, percentiles.

use super::{
    charts::{guest_memory, processors},
    figure::{Figure, figure},
    markup::Markup,
    section::sections_at,
};
use crate::view::{Charts, Place, Section, View};

pub(super) fn below(page: &mut Markup, view: &View, charts: &Charts, sections: &[Section]) {
    sections_at(page, sections, Place::BelowSteps);
    // Two charts of sections, or a section that is the answer, leave no room for it on the first screen.
    if charts.of_sections().len() > 1 || sections.iter().any(|section| section.is_answer) {
        page.raw("<div class=\"charts even\">\n");
        processors(page, view, charts);
        page.raw("</div>\n");
    }
    timeline(page, charts);
    if view.groups.is_empty() {
        return;
    }
    if view.headline().is_empty() {
        memory(page, view);
        notes(page, view);
        return;
    }
    if view.compares_tiles() {
        tiles_and_guests(page, view, charts, sections);
    }
    notes(page, view);
    sections_at(page, sections, Place::Last);
}

/// What tiles and guests were served, and the memory that they took.
fn tiles_and_guests(page: &mut Markup, view: &View, charts: &Charts, sections: &[Section]) {
    page.raw("<div class=\"charts even\">\n");
    chart(page, "Served by tile", "one band a tile; even bands are fair", "bands");
    if charts.has_ladder() {
        chart(
            page,
            "Mean and p99 against tiles",
            "milliseconds; the red line is the limit on p99",
            "response",
        );
    }
    chart(page, "Percentiles", "milliseconds, one line a step", "percentiles");
    page.raw("</div>\n");
    sections_at(page, sections, Place::BelowCharts);
    sections_at(page, sections, Place::BelowChartsOfPage);
    memory(page, view);
}

fn chart(page: &mut Markup, title: &str, unit: &str, id: &str) {
    figure(page, &Figure { title, unit, id, about: title, ..Figure::default() });
}

fn timeline(page: &mut Markup, charts: &Charts) {
    page.raw("<figure class=\"part\" id=\"timeline\"><figcaption><h2>Time line</h2><span class=\"unit\">second by second, repeats in a row; a request counts in the second in which it was due, however late its answer</span>");
    if !charts.has_timeline() {
        page.raw(
            "</figcaption><div class=\"chart absent\"><p>The record holds no seconds.</p></div></figure>\n",
        );
        return;
    }
    page.raw("<label class=\"pick\">Step <select id=\"pick-step\"></select></label></figcaption>");
    page.raw("<div class=\"legend\" id=\"legend-timeline\"></div>");
    page.raw("<div class=\"chart\" id=\"chart-timeline\" role=\"img\" aria-label=\"p99, answered requests and processor for each second of the chosen step\"></div>");
    if let Some(thinned) = charts.thinned() {
        page.element("p", "about", &thinned);
    }
    page.raw("</figure>\n");
}

fn memory(page: &mut Markup, view: &View) {
    page.raw("<div class=\"charts even\">\n");
    // Without a load it is on the first screen already.
    if !view.headline().is_empty() {
        guest_memory(page, view);
    }
    let repeats = &view.report.repeats;
    let is_absent = repeats.iter().all(|repeat| repeat.host.memory_available_min.is_none());
    figure(
        page,
        &Figure {
            title: "Memory left on the host",
            unit: "GiB, least of any second",
            has_legend: false,
            id: "left",
            about: "Least memory available at each step",
            absent: is_absent.then(|| "the record does not say.".to_owned()),
            ..Figure::default()
        },
    );
    page.raw("</div>\n");
}

fn notes(page: &mut Markup, view: &View) {
    for note in view.notes() {
        page.element("p", "about", &note);
    }
}
