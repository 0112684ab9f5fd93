//! A broker's figures by message size: two charts on the first screen, and every figure of them in tables below.

use super::{first_screen, markup::Markup};
use crate::number::{percent, three, whole};
use crate::view::{Charts, LatencyPoint, Messaging, View};

/// The charts of the first screen. Where only one of the two was measured, the processors stand beside it.
pub(super) fn charts(page: &mut Markup, view: &View, charts: &Charts, messaging: &Messaging) {
    if !messaging.throughput.is_empty() {
        page.raw("<figure class=\"latency\"><figcaption><h2>Throughput by message size</h2><span class=\"unit\">left: messages in and out per second; right: MB/s of payload</span><div class=\"legend\" id=\"legend-size-throughput\"></div></figcaption><div class=\"chart\" id=\"chart-size-throughput\" role=\"img\" aria-label=\"Throughput in messages and in bytes by message size, and the published curves; the same figures are in the table below\"></div></figure>\n");
    }
    if !messaging.latency.is_empty() {
        page.raw("<figure class=\"latency\"><figcaption><h2>Latency by message size</h2><span class=\"unit\">milliseconds; bars: standard deviation of the seconds' means</span><div class=\"legend\" id=\"legend-size-latency\"></div></figcaption><div class=\"chart\" id=\"chart-size-latency\" role=\"img\" aria-label=\"Mean and 99th percentile of latency by message size, and the published means; the same figures are in the table below\"></div></figure>\n");
    }
    if messaging.throughput.is_empty() || messaging.latency.is_empty() {
        first_screen::processors(page, view, charts);
    }
}

/// Every figure of the charts.
pub(super) fn tables(page: &mut Markup, view: &View, charts: &Charts, messaging: &Messaging) {
    page.raw("<section class=\"part\" id=\"messaging\"><h2>Messages by size, beside what was published</h2>");
    page.element("p", "about", &messaging.differs);
    if !messaging.throughput.is_empty() {
        throughput(page, messaging);
    }
    if !messaging.latency.is_empty() {
        latency(page, messaging);
    }
    page.raw("</section>\n");
    if !messaging.throughput.is_empty() && !messaging.latency.is_empty() {
        page.raw("<div class=\"charts even\">\n");
        first_screen::processors(page, view, charts);
        page.raw("</div>\n");
    }
}

fn throughput(page: &mut Markup, messaging: &Messaging) {
    page.raw("<div class=\"scroll\"><table><thead><tr><th scope=\"col\">Size<small>bytes</small></th>");
    for line in &messaging.throughput {
        page.raw("<th scope=\"col\">").text(&line.name).raw("<small>transfers/s</small></th><th scope=\"col\">MB/s<small>in + out</small></th><th scope=\"col\">Median of sums<small>transfers/s</small></th>");
    }
    page.raw("<th scope=\"col\">Published<small>bridged, transfers/s</small></th><th scope=\"col\">MB/s<small>from MiB/s</small></th><th scope=\"col\">Published<small>passed through</small></th><th scope=\"col\">MB/s<small>from MiB/s</small></th></tr></thead><tbody>");
    for size in &messaging.sizes {
        page.raw("<tr><th scope=\"row\">").text(&whole(*size)).raw("</th>");
        for line in &messaging.throughput {
            let point = line.at(*size);
            page.element(
                "td",
                class(point.map(|point| point.struck)),
                &said(point, |point| with_interval(point.transfers, point.low, point.high)),
            );
            page.element(
                "td",
                class(point.map(|point| point.struck)),
                &said(point, |point| three(point.megabytes)),
            );
            page.element(
                "td",
                class(point.map(|point| point.struck)),
                &said(point, |point| three(point.median_of_sums)),
            );
        }
        let published = messaging.paper.throughput_at(*size);
        for figure in [
            said(published, |point| three(point.bridged)),
            said(published, |point| three(point.bridged_megabytes)),
            said(published, |point| three(point.passthrough)),
            said(published, |point| three(point.passthrough_megabytes)),
        ] {
            page.element("td", "", &figure);
        }
        page.raw("</tr>\n");
    }
    page.raw("</tbody></table></div><p class=\"about\">A transfer is a message in or a message out; \u{b1} is half the 95 % interval of the mean. Published: two guests. Median of sums: all guests summed, the median of the kept repeats, as the paper takes it of nine.</p>");
}

fn latency(page: &mut Markup, messaging: &Messaging) {
    page.raw("<div class=\"scroll\"><table><thead><tr><th scope=\"col\">Size<small>bytes</small></th>");
    for line in &messaging.latency {
        page.raw("<th scope=\"col\">").text(&line.name).raw("<small>mean, ms</small></th><th scope=\"col\">Deviation<small>of messages, ms</small></th><th scope=\"col\">p99<small>ms</small></th><th scope=\"col\">Median run<small>mean \u{b1} of seconds, ms</small></th>");
    }
    page.raw("<th scope=\"col\">Published, one guest<small>mean \u{b1} deviation, ms</small></th><th scope=\"col\">Published, two guests<small>mean \u{b1} deviation, ms</small></th></tr></thead><tbody>");
    for size in &messaging.sizes {
        page.raw("<tr><th scope=\"row\">").text(&whole(*size)).raw("</th>");
        for line in &messaging.latency {
            let point = line.at(*size);
            let struck = class(point.map(|point| point.struck));
            let optional = |value: Option<f64>| value.map_or_else(|| NONE.to_owned(), three);
            page.element("td", struck, &said(point, |point| three(point.mean)));
            page.element("td", struck, &said(point, |point| optional(point.deviation)));
            page.element("td", struck, &said(point, |point| optional(point.p99)));
            page.element("td", struck, &said(point, median_run));
        }
        let published = messaging.paper.latency_at(*size);
        let one = said(published, |point| deviating(point.one_mean, point.one_deviation));
        let two = said(published, |point| deviating(point.two_mean, point.two_deviation));
        page.element("td", "", &one).element("td", "", &two);
        page.raw("</tr>\n");
    }
    page.raw("</tbody></table></div><p class=\"about\">Latency counts from the intended time of sending to receipt by a consumer, at the load's rate. Median run: the repeat whose deviation of seconds is the median, as the paper takes it of nine. The paper does not say what its deviation is taken over; its tool printed one average a second, so we show the deviation of our seconds' means beside it.</p>");
}

const NONE: &str = "\u{2013}";

fn class(struck: Option<bool>) -> &'static str {
    if struck == Some(true) { "measured struck" } else { "measured" }
}

fn said<T>(point: Option<T>, figure: impl Fn(T) -> String) -> String {
    point.map_or_else(|| NONE.to_owned(), figure)
}

fn with_interval(value: f64, low: Option<f64>, high: Option<f64>) -> String {
    match (low, high) {
        (Some(low), Some(high)) => format!("{} \u{b1} {}", three(value), percent((high - low) / 2.0 / value)),
        _ => three(value),
    }
}

fn deviating(mean: f64, deviation: f64) -> String {
    format!("{} \u{b1} {}", three(mean), three(deviation))
}

fn median_run(point: &LatencyPoint) -> String {
    point.median_run.map_or_else(|| NONE.to_owned(), |run| deviating(run.mean, run.deviation_of_seconds))
}
