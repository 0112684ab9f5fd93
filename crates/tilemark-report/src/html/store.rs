//! The online store's tables.

use super::markup::Markup;
use crate::view::{self, Kind, StoreRow, View};

pub(super) fn store(page: &mut Markup, view: &View) {
    let Some(store) = view::store(view) else { return };
    page.raw("<section class=\"part\" id=\"store\"><h2>Orders</h2>");
    for promise in &store.durability {
        page.element("p", "about", &format!("With {promise}."));
    }
    page.raw("<div class=\"scroll\"><table><thead><tr><th scope=\"col\">Step</th><th scope=\"col\">Orders<small>per minute, committed</small></th><th scope=\"col\">Steady window<small>orders per minute; where, repeats</small></th><th scope=\"col\">Against one tile</th><th scope=\"col\">Published 2009<small>against one</small></th><th scope=\"col\">Undone<small>no stock</small></th><th scope=\"col\">Done again<small>deadlocks</small></th><th scope=\"col\">Client<small>\u{b5}s of processor an order</small></th><th scope=\"col\" class=\"left\">Audit</th></tr></thead><tbody>");
    for row in &store.rows {
        begin(page, row);
        page.raw("<th scope=\"row\">").text(&row.step).raw("</th>");
        page.element("td", "measured", &row.orders_per_minute);
        page.raw("<td class=\"measured\">").text(&row.steady.orders_per_minute);
        page.element("small", "", &row.steady.where_and_how_many).raw("</td>");
        page.element("td", "measured", &row.against_one);
        // What others measured is not in doubt.
        page.element("td", "number", &row.published);
        for cell in [&row.rolled_back, &row.retries, &row.client_us] {
            page.element("td", "measured", cell);
        }
        page.element("td", "name", &row.audit).raw("</tr>\n");
    }
    page.raw("</tbody></table></div>");
    if let Some(unsettled) = store.unsettled {
        page.element("p", "about", unsettled);
    }
    if let Some(difference) = &store.difference {
        page.element("p", "about", difference);
    }
    times(page, &store.rows);
    page.element("p", "about", &format!("Server: {}.", store.servers.join("; ")));
    page.raw("</section>\n");
}

fn begin(page: &mut Markup, row: &StoreRow) {
    let struck = if row.struck { "struck" } else { "" };
    let hatched = if row.kind == Kind::Emulated { " hatched" } else { "" };
    page.raw("<tr").attribute("class", &format!("{struck}{hatched}")).raw(">");
}

fn times(page: &mut Markup, rows: &[StoreRow]) {
    if rows.iter().all(|row| row.times.is_empty()) {
        return;
    }
    page.raw("<h3>Time by step of an order</h3><div class=\"scroll\"><table><thead><tr><th scope=\"col\">Step</th><th scope=\"col\" class=\"left\">What</th><th scope=\"col\">Mean<small>ms</small></th><th scope=\"col\">Worst p99<small>ms, any guest and repeat</small></th><th scope=\"col\">Times</th></tr></thead><tbody>");
    for row in rows {
        for (place, step) in row.times.iter().enumerate() {
            begin(page, row);
            if place == 0 {
                let span = row.times.len().to_string();
                page.raw("<th scope=\"rowgroup\"")
                    .attribute("rowspan", &span)
                    .raw(">")
                    .text(&row.step)
                    .raw("</th>");
            }
            page.element("td", "name", &step.name);
            for cell in [&step.mean, &step.p99_worst, &step.count] {
                page.element("td", "measured", cell);
            }
            page.raw("</tr>\n");
        }
    }
    page.raw("</tbody></table></div>");
}
