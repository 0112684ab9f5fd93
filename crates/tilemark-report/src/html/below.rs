//! What stands below the first screen: time line, bands, fairness, memory, percentiles.

use super::{markup::Markup, messaging, scaling, term};
use crate::number::{percent, three, whole};
use crate::view::{self, Charts, Kind, View};
use tilemark_plan::scenario::LoopKind;
use tilemark_record::result::{LoadResult, Measured};

pub(super) fn below(page: &mut Markup, view: &View, charts: &Charts) {
    if let Some(figures) = charts.messaging().filter(|_| view.report.result.comparison.is_none()) {
        messaging::tables(page, view, charts, figures);
    }
    timeline(page, charts);
    if view.groups.is_empty() {
        return;
    }
    if view.headline().is_empty() {
        memory(page, view);
        return;
    }
    page.raw("<div class=\"charts even\">\n");
    chart(page, "Served by tile", "one band a tile; even bands are fair", "chart-bands");
    chart(page, "Percentiles", "milliseconds, one line a step", "chart-percentiles");
    page.raw("</div>\n");
    scaling::scaling(page, view);
    fairness(page, view);
    memory(page, view);
    loads(page, view);
}

fn chart(page: &mut Markup, title: &'static str, unit: &'static str, id: &'static str) {
    page.raw("<figure class=\"part\"><figcaption><h2>")
        .raw(title)
        .raw("</h2><span class=\"unit\">")
        .raw(unit);
    page.raw("</span></figcaption><div class=\"chart\" role=\"img\" id=\"")
        .raw(id)
        .raw("\" aria-label=\"")
        .raw(title);
    page.raw("\"></div></figure>\n");
}

fn timeline(page: &mut Markup, charts: &Charts) {
    page.raw("<figure class=\"part\" id=\"timeline\"><figcaption><h2>Time line</h2><span class=\"unit\">second by second, repeats in a row</span>");
    if !charts.has_timeline() {
        page.raw(
            "</figcaption><div class=\"chart absent\"><p>The record holds no seconds.</p></div></figure>\n",
        );
        return;
    }
    page.raw("<label class=\"pick\">Step <select id=\"pick-step\"></select></label></figcaption>");
    page.raw("<div class=\"legend\" id=\"legend-timeline\"></div>");
    page.raw("<div class=\"chart\" id=\"chart-timeline\" role=\"img\" aria-label=\"p99, served requests and processor for each second of the chosen step\"></div>");
    if let Some(thinned) = charts.thinned() {
        page.element("p", "about", &thinned);
    }
    page.raw("</figure>\n");
}

fn fairness(page: &mut Markup, view: &View) {
    page.raw("<section class=\"part\"><h2>");
    term(page, "fairness", "Fairness");
    page.raw("</h2><div class=\"charts fair\"><div class=\"chart\" id=\"chart-fairness\" role=\"img\" aria-label=\"What each guest was served over the mean, at each step\"></div>");
    page.raw("<div class=\"scroll\"><table><thead><tr><th scope=\"col\">Step</th><th scope=\"col\">Jain's index</th><th scope=\"col\" class=\"left\">Least served</th><th scope=\"col\">of mean</th><th scope=\"col\" class=\"left\">Most served</th><th scope=\"col\">of mean</th></tr></thead><tbody>");
    for (group, point) in
        view.groups.iter().flat_map(|group| group.points.iter().map(move |point| (group, *point)))
    {
        let class = row_class(view, group.kind, point);
        page.raw("<tr")
            .attribute("class", &class)
            .raw("><th scope=\"row\">")
            .text(&view.label(group, point))
            .raw("</th>");
        match &point.fairness {
            Some(fair) => {
                page.element("td", "measured", &format!("{:.4}", fair.jain));
                page.element("td", "name", &fair.least_served.guest);
                page.element("td", "measured", &percent(fair.least_served.of_mean));
                page.element("td", "name", &fair.most_served.guest);
                page.element("td", "measured", &percent(fair.most_served.of_mean));
            }
            None => {
                let reason = match point.loads.iter().map(|load| load.guests.len()).max() {
                    Some(1) => "one guest has nobody to be unfair to".to_owned(),
                    _ => view.missing(point, "fairness"),
                };
                page.raw("<td colspan=\"5\" class=\"reason\">").text(&reason).raw("</td>");
            }
        }
        page.raw("</tr>");
    }
    page.raw("</tbody></table></div></div>");
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
    // Without a load it stands on the first screen already.
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
    for note in view.notes() {
        page.element("p", "about", &note);
    }
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

fn loads(page: &mut Markup, view: &View) {
    page.raw("<section class=\"part\"><h2>Every load</h2><div class=\"scroll\"><table><thead><tr><th scope=\"col\">Step</th><th scope=\"col\" class=\"left\">Load</th><th scope=\"col\" class=\"left\">Measured</th><th scope=\"col\">Offered<small>per s</small></th><th scope=\"col\">Served<small>per s</small></th><th scope=\"col\">Achieved</th><th scope=\"col\">Mean<small>ms</small></th><th scope=\"col\">p50</th><th scope=\"col\">p90</th><th scope=\"col\">p99</th><th scope=\"col\">p99.9</th><th scope=\"col\">Max<small>ms</small></th><th scope=\"col\">Errors</th><th scope=\"col\">Requests</th><th scope=\"col\">");
    term(page, "lateness", "Lateness");
    page.raw("<small>p99, \u{b5}s</small></th></tr></thead><tbody>");
    for (group, point) in
        view.groups.iter().flat_map(|group| group.points.iter().map(move |point| (group, *point)))
    {
        for (place, load) in point.loads.iter().enumerate() {
            let class = row_class(view, group.kind, point);
            page.raw("<tr").attribute("class", &class).raw(">");
            if place == 0 {
                page.raw("<th scope=\"rowgroup\"")
                    .attribute("rowspan", &point.loads.len().to_string())
                    .raw(">");
                page.text(&view.label(group, point)).raw("</th>");
            }
            load_cells(page, load);
            page.raw("</tr>\n");
        }
    }
    page.raw("</tbody></table></div><p class=\"about\">\u{2013}: not measured, or fewer than 20 requests lie beyond that percentile.</p></section>\n");
}

fn load_cells(page: &mut Markup, load: &LoadResult) {
    let how = match (load.measured, load.loop_kind) {
        (Measured::Outside, LoopKind::Open) => "outside, open loop",
        (Measured::Outside, LoopKind::Closed) => "outside, closed loop",
        (Measured::Inside, LoopKind::Open) => "inside, open loop",
        (Measured::Inside, LoopKind::Closed) => "inside, closed loop",
    };
    let figure = |value: Option<f64>| value.map_or_else(|| "\u{2013}".to_owned(), three);
    let share = |value: Option<f64>| value.map_or_else(|| "\u{2013}".to_owned(), percent);
    let latency = load.latency_ms;
    let p99 = view::load_p99(load).map(|figure| figure.value);
    page.element("td", "name", &load.name).element("td", "name", how);
    page.element("td", "measured", &figure(load.offered));
    page.element(
        "td",
        "measured",
        &figure(load.throughput.as_ref().map(|throughput| throughput.figure.value)),
    );
    page.element("td", "measured", &share(load.achieved_fraction));
    for value in [latency.mean, latency.p50, latency.p90, p99, latency.p999, latency.max] {
        page.element("td", "measured", &figure(value));
    }
    let errors = load.errors.map(|errors| if errors == 0.0 { "0".to_owned() } else { percent(errors) });
    page.element("td", "measured", errors.as_deref().unwrap_or("\u{2013}")).element(
        "td",
        "measured",
        &whole(latency.n),
    );
    page.element("td", "measured", &figure(load.send_lateness_us.p99));
}

fn row_class(view: &View, kind: Kind, point: &tilemark_record::result::PointResult) -> String {
    let struck = if view.struck(point) { "struck" } else { "" };
    let hatched = if kind == Kind::Emulated { " hatched" } else { "" };
    format!("{struck}{hatched}")
}
