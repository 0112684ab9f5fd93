//! How throughput grows with tiles, as a law, where enough steps were measured.

use super::markup::Markup;
use crate::view::{self, ScalingRow, View};

/// Writes the table of fits; nothing where there is none.
pub(super) fn scaling(page: &mut Markup, view: &View) {
    let rows = view::scaling(view);
    let missing = view::scaling_missing(view);
    if rows.is_empty() {
        if let Some(why) = missing {
            page.raw("<section class=\"part\" id=\"scaling\"><h2>How throughput grows</h2>");
            page.element("p", "about", &format!("No scaling law was fitted: {why}.")).raw("</section>\n");
        }
        return;
    }
    page.raw("<section class=\"part\" id=\"scaling\"><h2>How throughput grows</h2><p class=\"about\">The Universal Scalability Law, fitted to what the headline load was served at every step. Contention is the part that waits in line, coherence what each must agree on with all others; both are 0 where twice the tiles serve twice as much.</p>");
    page.raw("<div class=\"scroll\"><table><thead><tr><th scope=\"col\" class=\"left\">Steps</th><th scope=\"col\">One tile<small>95 % interval</small></th><th scope=\"col\">Contention</th><th scope=\"col\">Coherence</th><th scope=\"col\">Turns at<small>tiles</small></th><th scope=\"col\">Farthest step<small>off the curve</small></th></tr></thead><tbody>");
    for fit in &rows {
        row(page, fit);
    }
    page.raw("</tbody></table></div>");
    if let Some(doubt) = view::scaling_doubt(view) {
        page.element("p", "about", &doubt);
    }
    page.raw("</section>\n");
}

fn row(page: &mut Markup, fit: &ScalingRow) {
    let struck = if fit.struck { "struck" } else { "" };
    page.raw("<tr").attribute("class", struck).raw("><th scope=\"row\">").text(&fit.name);
    page.raw(" <small>").text(&fit.tiles).raw("</small></th>");
    for figure in [&fit.one_tile, &fit.contention, &fit.coherence, &fit.turns] {
        page.element("td", "measured", figure);
    }
    page.element("td", "", &fit.deviation).raw("</tr>\n");
}
