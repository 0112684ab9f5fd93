//! The table of power.

use super::markup::Markup;
use crate::view::{self, Kind, View};

pub(super) fn power(page: &mut Markup, view: &View) {
    let Some(power) = view::power(view) else { return };
    page.raw("<section class=\"part\" id=\"power\"><h2>Power</h2>");
    page.element("p", "about", &format!("Idle: {}.", power.idle));
    page.raw("<div class=\"scroll\"><table><thead><tr><th scope=\"col\">Step</th><th scope=\"col\">Power<small>mean</small></th><th scope=\"col\">Above idle</th><th scope=\"col\">Served<small>for a joule</small></th></tr></thead><tbody>");
    for row in &power.rows {
        let struck = if row.struck { "struck" } else { "" };
        let hatched = if row.kind == Kind::Emulated { " hatched" } else { "" };
        page.raw("<tr").attribute("class", &format!("{struck}{hatched}"));
        page.raw("><th scope=\"row\">").text(&row.step).raw("</th>");
        for cell in [&row.watts, &row.above_idle, &row.per_joule] {
            page.element("td", "measured", cell);
        }
        page.raw("</tr>\n");
    }
    page.raw("</tbody></table></div>");
    page.element("p", "about", view::POWER_ABOUT);
    page.raw("</section>\n");
}
