//! The table of steps, and those of two sides that were compared.

use super::{
    markup::Markup,
    section::{begin, section, table},
};
use crate::view::{self, View};

/// Writes the tables.
pub(super) fn steps(page: &mut Markup, view: &View) {
    for one in view::sides(view) {
        section(page, &one);
    }
    begin(page, "steps", "Steps");
    page.raw("<p class=\"about\">");
    match view.headline() {
        "" => page.raw("This scenario sends no load."),
        _ if view.report.result.interference.is_some() => {
            page.raw("The gate: every load keeps ");
            page.text(&view::gate_words(&view.report.plan.scenario.gate)).raw(".")
        }
        headline => {
            page.raw("Figures of the load <b>").text(headline).raw("</b>. The gate: every load keeps ");
            page.text(&view::gate_words(&view.report.plan.scenario.gate)).raw(".")
        }
    };
    page.raw("</p>");
    if view.groups.is_empty() {
        page.raw("<p class=\"reason\">No step was measured.</p>");
    } else {
        table(page, "steps", &view::steps(view));
    }
    page.raw("</section>\n");
}
