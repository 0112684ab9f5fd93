//! How throughput grows with tiles, as a law, where enough steps were measured.

use super::markup::Markup;
use crate::number::{percent, three};
use crate::view::{self, Group, View};
use tilemark_record::result::{Figure, ScalingFit};

/// Beyond this part a step lies too far off the curve for its parameters to say anything.
const DEVIATION_MAX: f64 = 0.1;

/// Writes the table of fits; nothing where there is none.
pub(super) fn scaling(page: &mut Markup, view: &View) {
    let fits = &view.report.result.scaling;
    if fits.is_empty() {
        return;
    }
    page.raw("<section class=\"part\" id=\"scaling\"><h2>How throughput grows</h2><p class=\"about\">The Universal Scalability Law, fitted to what the headline load was served at every step. Contention is the part that waits in line, coherence what each must agree on with all others; both are 0 where twice the tiles serve twice as much. A load with a rate is served no more than it asks: up to its limit the line is straight, whatever the host could do.</p>");
    page.raw("<div class=\"scroll\"><table><thead><tr><th scope=\"col\" class=\"left\">Steps</th><th scope=\"col\">One tile<small>95 % interval</small></th><th scope=\"col\">Contention</th><th scope=\"col\">Coherence</th><th scope=\"col\">Turns at<small>tiles</small></th><th scope=\"col\">Farthest step<small>off the curve</small></th></tr></thead><tbody>");
    for fit in fits {
        row(page, view, fit);
    }
    page.raw("</tbody></table></div>");
    if fits.iter().any(|fit| fit.worst_deviation > DEVIATION_MAX) {
        let text = format!(
            "Where a step lies over {} off the curve, the law does not hold and its parameters mean nothing: they are struck through.",
            percent(DEVIATION_MAX)
        );
        page.element("p", "about", &text);
    }
    page.raw("</section>\n");
}

fn row(page: &mut Markup, view: &View, fit: &ScalingFit) {
    let of_fit = |group: &&Group| {
        let first = group.points.first();
        first.is_some_and(|point| {
            point.backend == fit.backend && point.side == fit.side && point.vary == fit.vary
        })
    };
    let group = view.groups.iter().find(of_fit);
    let in_doubt = group.is_some_and(|group| group.points.iter().any(|point| view.struck(point)));
    let struck = if in_doubt || fit.worst_deviation > DEVIATION_MAX { "struck" } else { "" };
    let name = group.map(|group| group.name.as_str()).filter(|name| !name.is_empty());
    let name = name.map_or_else(|| view::backend_words(fit.backend).to_owned(), str::to_owned);
    let tiles: Vec<String> = fit.tiles.iter().map(ToString::to_string).collect();
    page.raw("<tr").attribute("class", struck).raw("><th scope=\"row\">").text(&name);
    page.raw(" <small>").text(&format!("{} tiles", tiles.join(", "))).raw("</small></th>");
    let one = format!("{} {}", with_interval(fit.one_tile.figure), fit.one_tile.unit);
    page.element("td", "measured", &one);
    page.element("td", "measured", &with_interval(fit.contention));
    page.element("td", "measured", &with_interval(fit.coherence));
    let most = fit.tiles.iter().max().copied().unwrap_or_default();
    let turns = fit.peak_tiles.map_or_else(|| format!("not up to {}", 2 * most), three);
    page.element("td", "measured", &turns);
    page.element("td", "", &percent(fit.worst_deviation)).raw("</tr>\n");
}

fn with_interval(figure: Figure) -> String {
    match (figure.low, figure.high) {
        (Some(low), Some(high)) => format!("{} [{}, {}]", three(figure.value), three(low), three(high)),
        _ => three(figure.value),
    }
}
