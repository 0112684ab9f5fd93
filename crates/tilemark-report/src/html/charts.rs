//! Charts of the first screen; some of them are below it where it has no room for them.

use super::{markup::Markup, terms::term};
use crate::view::{Charts, Kind, View};

/// p99 against steps.
pub(super) fn latency(page: &mut Markup, view: &View, charts: &Charts) {
    let emulated = if view.all_emulated() { " hatched" } else { "" };
    page.raw("<figure").attribute("class", &format!("latency{emulated}")).raw("><figcaption><h2>");
    term(page, "p99", "p99");
    page.raw(" against ").text(&view.axis_words());
    page.raw("</h2><span class=\"unit\">milliseconds, 95 % intervals</span><div class=\"legend\" id=\"legend-latency\"></div></figcaption>");
    if charts.has_latency() {
        page.raw("<div class=\"chart\" id=\"chart-latency\" role=\"img\" aria-label=\"p99 of each step with its interval; the same figures are in the table of steps\"></div>");
    } else {
        absent(page, view, "p99_ms");
    }
    page.raw("</figure>\n");
}

/// The change of each measure from A to B.
pub(super) fn forest(page: &mut Markup) {
    page.raw("<figure class=\"latency\"><figcaption><h2>B against A</h2><span class=\"unit\">change in %, 95 % intervals</span><div class=\"legend\" id=\"legend-forest\"></div></figcaption>");
    page.raw("<div class=\"chart\" id=\"chart-forest\" role=\"img\" aria-label=\"Change of each measure from A to B with its interval; the same figures are in the table of measures\"></div></figure>\n");
}

/// What used the processors.
pub(super) fn processors(page: &mut Markup, view: &View, charts: &Charts) {
    let emulated = if view.all_emulated() { " hatched" } else { "" };
    page.raw("<figure").attribute("class", &format!("processors{emulated}"));
    page.raw("><figcaption><h2>CPU time by use</h2><span class=\"unit\">% of all hardware threads, and the bottleneck</span><div class=\"legend\" id=\"legend-processors\"></div></figcaption>");
    if charts.has_processors() {
        page.raw("<div class=\"chart\" id=\"chart-processors\" role=\"img\" aria-label=\"Parts of the processor at each step\"></div>");
    } else {
        absent(page, view, "processor");
    }
    page.raw("</figure>\n");
}

/// Memory per guest against steps.
pub(super) fn guest_memory(page: &mut Markup, view: &View) {
    let class = if view.headline().is_empty() { "latency" } else { "part" };
    page.raw("<figure").attribute("class", class).raw("><figcaption><h2>");
    term(page, "pss", "Memory per guest");
    page.raw("</h2><span class=\"unit\">MiB, proportional set size</span></figcaption>");
    if view.report.result.points.iter().any(|point| point.pss_mib_per_guest.is_some()) {
        page.raw("<div class=\"chart\" id=\"chart-pss\" role=\"img\" aria-label=\"Memory per guest at each step\"></div>");
    } else {
        let reason = view.report.result.points.last().map(|point| view.missing(point, "pss_mib_per_guest"));
        page.raw("<div class=\"chart absent\"><p>No figures: ")
            .text(reason.as_deref().unwrap_or("nothing was measured"));
        page.raw("</p></div>");
    }
    page.raw("</figure>");
}

/// In place of a chart: why there is none.
fn absent(page: &mut Markup, view: &View, figure: &str) {
    let points = view.groups.iter().filter(|group| group.kind != Kind::Twin).flat_map(|group| &group.points);
    let reason = match points.last() {
        Some(point) => view.missing(point, figure),
        None => "no step was measured".to_owned(),
    };
    page.raw("<div class=\"chart absent\"><p>No figures: ").text(&reason).raw("</p></div>");
}
