//! What is below the first screen: time line, bands, response, fairness, memory, percentiles.

use super::{
    charts::{guest_memory, processors},
    markup::Markup,
    section::{section, table},
    terms::term,
};
use crate::view::{self, Axis, Charts, Section, View};

pub(super) fn below(page: &mut Markup, view: &View, charts: &Charts, sections: &[Section]) {
    for one in sections.iter().filter(|section| !section.is_answer) {
        section(page, one);
    }
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
    // Of roles and pairs of them the matrix compares what can be compared: their tiles and guests are few and differ.
    if view.axis != Axis::Roles {
        tiles_and_guests(page, view, charts);
    }
    notes(page, view);
    section(page, &view::loads(view));
}

/// What tiles and guests were served, and the memory that they took.
fn tiles_and_guests(page: &mut Markup, view: &View, charts: &Charts) {
    page.raw("<div class=\"charts even\">\n");
    chart(page, "Served by tile", "one band a tile; even bands are fair", "chart-bands");
    if charts.has_ladder() {
        chart(
            page,
            "Mean and p99 against tiles",
            "milliseconds; the red line is the limit on p99",
            "chart-response",
        );
    }
    chart(page, "Percentiles", "milliseconds, one line a step", "chart-percentiles");
    page.raw("</div>\n");
    if let Some(scaling) = view::scaling(view) {
        section(page, &scaling);
    }
    fairness(page, view);
    memory(page, view);
}

fn chart(page: &mut Markup, title: &'static str, unit: &'static str, id: &'static str) {
    page.raw("<figure class=\"part\"><figcaption><h2>")
        .raw(title)
        .raw("</h2><span class=\"unit\">")
        .raw(unit);
    page.raw("</span><div class=\"legend\"").attribute("id", &id.replace("chart-", "legend-"));
    page.raw("></div></figcaption><div class=\"chart\" role=\"img\" id=\"")
        .raw(id)
        .raw("\" aria-label=\"")
        .raw(title);
    page.raw("\"></div></figure>\n");
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

fn fairness(page: &mut Markup, view: &View) {
    page.raw("<section class=\"part\"><h2>");
    term(page, "fairness", "Fairness");
    page.raw("</h2><div class=\"charts fair\"><div class=\"chart\" id=\"chart-fairness\" role=\"img\" aria-label=\"Throughput of each guest relative to the mean, at each step\"></div>");
    table(page, "fairness", &view::fairness(view)).raw("</div>");
    let shown = view::shares_shown(view);
    if view.report.result.points.iter().flat_map(|point| &point.loads).any(|load| load.guests.len() > shown) {
        let text = format!(
            "The chart draws {shown} guests of a step, evenly by rank, the least and the most served among them."
        );
        page.element("p", "about", &text);
    }
    page.raw("</section>\n");
}

fn memory(page: &mut Markup, view: &View) {
    page.raw("<div class=\"charts even\">\n");
    // Without a load it is on the first screen already.
    if !view.headline().is_empty() {
        guest_memory(page, view);
    }
    page.raw("<figure class=\"part\"><figcaption><h2>Memory left on the host</h2><span class=\"unit\">GiB, least of any second</span></figcaption>");
    if view.report.repeats.iter().any(|repeat| repeat.host.memory_available_min.is_some()) {
        page.raw("<div class=\"chart\" id=\"chart-left\" role=\"img\" aria-label=\"Least memory available at each step\"></div>");
    } else {
        page.raw("<div class=\"chart absent\"><p>No figures: the record does not say.</p></div>");
    }
    page.raw("</figure></div>\n");
}

fn notes(page: &mut Markup, view: &View) {
    for note in view.notes() {
        page.element("p", "about", &note);
    }
}
