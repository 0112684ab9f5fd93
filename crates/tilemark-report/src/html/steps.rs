//! The table of steps, and those of two sides that were compared.

use super::{
    markup::Markup,
    section::{begin, table},
};
use crate::view::{self, View};

/// Writes the tables.
pub(super) fn steps(page: &mut Markup, view: &View) {
    sides(page, view);
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

/// In what the sides differ, what they failed in, and each measure.
fn sides(page: &mut Markup, view: &View) {
    let Some(comparison) = &view.report.result.comparison else {
        return;
    };
    begin(page, "differences", "What differs");
    table(page, "differences", &view::differences(comparison)).raw("</section>\n");
    if !comparison.failures.is_empty() {
        begin(page, "failures", "Failures");
        page.raw("<p class=\"about\">Failures are compared first, then the measures.</p>");
        table(page, "failures", &view::failures(comparison)).raw("</section>\n");
    }
    begin(page, "measures", "Measures");
    let of_run = (String::new(), comparison, view.answer_struck());
    table(page, "measures", &view::measures(&[of_run])).raw("</section>\n");
}
