//! Charts of the first screen; some of them are below it where it has no room for them.

use super::{
    figure::{Figure, figure},
    markup::Markup,
};
use crate::view::{Charts, Kind, View};

/// p99 against steps.
pub(super) fn latency(page: &mut Markup, view: &View, charts: &Charts) {
    figure(
        page,
        &Figure {
            class: if view.all_emulated() { "latency hatched" } else { "latency" },
            term: ("p99", "p99"),
            title: &format!(" against {}", view.axis_words()),
            unit: "milliseconds, 95 % intervals",
            id: "latency",
            about: "p99 of each step with its interval; the same figures are in the table of steps",
            absent: (!charts.has_latency()).then(|| reason(view, "p99_ms")),
            ..Figure::default()
        },
    );
}

/// The change of each measure from A to B.
pub(super) fn forest(page: &mut Markup) {
    figure(
        page,
        &Figure {
            class: "latency",
            title: "B against A",
            unit: "change in %, 95 % intervals",
            id: "forest",
            about: "Change of each measure from A to B with its interval; the same figures are in the table of measures",
            ..Figure::default()
        },
    );
}

/// What used the processors.
pub(super) fn processors(page: &mut Markup, view: &View, charts: &Charts) {
    figure(
        page,
        &Figure {
            class: if view.all_emulated() { "processors hatched" } else { "processors" },
            title: "CPU time by use",
            unit: "% of all hardware threads, and the bottleneck",
            id: "processors",
            about: "Parts of the processor at each step",
            absent: (!charts.has_processors()).then(|| reason(view, "processor")),
            ..Figure::default()
        },
    );
}

/// Memory per guest against steps.
pub(super) fn guest_memory(page: &mut Markup, view: &View) {
    let points = &view.report.result.points;
    let is_absent = points.iter().all(|point| point.pss_mib_per_guest.is_none());
    let reason = || match points.last() {
        Some(point) => view.missing(point, "pss_mib_per_guest"),
        None => "nothing was measured".to_owned(),
    };
    figure(
        page,
        &Figure {
            class: if view.headline().is_empty() { "latency" } else { "part" },
            term: ("pss", "Memory per guest"),
            unit: "MiB, proportional set size",
            has_legend: false,
            id: "pss",
            about: "Memory per guest at each step",
            absent: is_absent.then(reason),
            ..Figure::default()
        },
    );
}

/// Why a figure of the steps is missing.
fn reason(view: &View, figure: &str) -> String {
    let points = view.groups.iter().filter(|group| group.kind != Kind::Twin).flat_map(|group| &group.points);
    match points.last() {
        Some(point) => view.missing(point, figure),
        None => "no step was measured".to_owned(),
    }
}
