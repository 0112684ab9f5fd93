//! The table of steps, and that of measures where two sides were compared.

use super::{markup::Markup, term};
use crate::number::{change, percent, three};
use crate::view::{self, COLUMNS, Group, Kind, Outcome, Row, Table, View, proof};
use tilemark_plan::plan::Backend;
use tilemark_record::result::Comparison;

/// Writes the tables.
pub(super) fn steps(page: &mut Markup, view: &View) {
    measures(page, view);
    page.raw("<section class=\"part\" id=\"steps\"><h2>Steps</h2><p class=\"about\">");
    match view.headline() {
        "" => page.raw("This scenario sends no load."),
        headline => {
            page.raw("Figures of the load <b>").text(headline).raw("</b>. The gate: every load keeps ");
            page.text(&view::gate_words(&view.report.plan.scenario.gate)).raw(".")
        }
    };
    let table = view::table(view);
    if table.groups.is_empty() {
        page.raw("</p><p class=\"reason\">No step was measured.</p></section>\n");
        return;
    }
    page.raw("</p>\n<div class=\"scroll\"><table class=\"steps\"><thead><tr>");
    for place in &table.columns {
        let column = &COLUMNS[*place];
        page.raw("<th scope=\"col\"").attribute("class", class(*place)).raw(">");
        term(page, column.word, column.head);
        page.raw("<small>").text(column.unit).raw("</small></th>");
    }
    page.raw("</tr></thead>\n");
    for (group, rows) in &table.groups {
        body(page, view, &table, (group, rows));
    }
    page.raw("</table></div>\n");
    notes(page, &table);
    page.raw("</section>\n");
}

/// How the style sheet lays a column out.
const fn class(place: usize) -> &'static str {
    match place {
        9 => "name",
        12 => "repeats",
        14 => "gate",
        _ => "",
    }
}

fn body(page: &mut Markup, view: &View, table: &Table, (group, rows): (&Group, &[Row])) {
    let emulated = group.kind == Kind::Emulated;
    page.raw("<tbody").attribute("class", if emulated { "emulated" } else { "" }).raw(">");
    if table.groups.len() > 1 || emulated {
        page.raw("<tr class=\"group\"><th scope=\"rowgroup\"")
            .attribute("colspan", &table.columns.len().to_string());
        page.raw(">");
        if emulated {
            page.raw("<span class=\"chip emulated\">EMULATED</span> ");
            if group.backend != Backend::Emulated {
                page.text(&group.name).raw(": ");
            }
            page.text(&proof(view, group.backend));
        } else {
            page.text(&group.name);
        }
        page.raw("</th></tr>");
    }
    for row in rows {
        line(page, table, row);
    }
    page.raw("</tbody>\n");
}

fn line(page: &mut Markup, table: &Table, row: &Row) {
    let outcome = match row.outcome {
        Outcome::Unknown => "unknown",
        known => known.word(),
    };
    let struck = if row.struck { " struck" } else { "" };
    let emulated = if row.emulated { " hatched" } else { "" };
    page.raw("<tr").attribute("class", &format!("{outcome}{struck}{emulated}")).raw(">");
    for place in &table.columns {
        let cell = &row.cells[*place];
        // Only what was measured is struck: a count of guests stays true.
        let measured = if (3..=11).contains(place) && !cell.is_missing() { " measured" } else { "" };
        page.raw("<td")
            .attribute("class", format!("{}{measured}", class(*place)).trim())
            .raw(">")
            .text(&cell.text);
        if let Some(interval) = &cell.interval {
            page.raw(" <span class=\"interval\">").text(interval).raw("</span>");
        }
        if let Some(note) = cell.note {
            let number = note.to_string();
            let reason = table.notes.get(note - 1).map_or("", String::as_str);
            page.raw("<sup><a")
                .attribute("href", &format!("#note-{number}"))
                .attribute("data-tip", reason)
                .raw(">")
                .text(&number)
                .raw("</a></sup>");
        }
        page.raw("</td>");
    }
    page.raw("</tr>\n");
}

fn notes(page: &mut Markup, table: &Table) {
    if !table.notes.is_empty() {
        page.raw("<ol class=\"notes\">");
        for (place, reason) in table.notes.iter().enumerate() {
            page.raw("<li")
                .attribute("id", &format!("note-{}", place + 1))
                .raw(">")
                .text(reason)
                .raw("</li>");
        }
        page.raw("</ol>");
    }
    for absent in &table.absent {
        page.raw("<p class=\"about\">Not in the table \u{2013} ").text(absent).raw(".</p>");
    }
}

/// What the sides failed in, which decides before any measure.
fn failures(page: &mut Markup, comparison: &Comparison) {
    if comparison.failures.is_empty() {
        return;
    }
    page.raw("<section class=\"part\"><h2>Failures</h2><p class=\"about\">They decide before any measure.</p><div class=\"scroll\"><table><thead><tr><th scope=\"col\">Failure</th><th scope=\"col\">A</th><th scope=\"col\">B</th><th scope=\"col\">p</th><th scope=\"col\" class=\"left\">B is</th></tr></thead><tbody>");
    for failure in &comparison.failures {
        page.raw("<tr><th scope=\"row\">").text(&failure.name).raw("</th>");
        page.element("td", "measured", &percent(failure.a));
        page.element("td", "measured", &percent(failure.b));
        page.element("td", "", &failure.p.map_or_else(|| "\u{2013}".to_owned(), three));
        page.element("td", "name", failure.outcome.words()).raw("</tr>\n");
    }
    page.raw("</tbody></table></div></section>\n");
}

fn measures(page: &mut Markup, view: &View) {
    let Some(comparison) = &view.report.result.comparison else {
        return;
    };
    page.raw("<section class=\"part\"><h2>What differs</h2><div class=\"scroll\"><table><thead><tr><th scope=\"col\">Setting</th><th scope=\"col\" class=\"left\">A</th><th scope=\"col\" class=\"left\">B</th></tr></thead><tbody>");
    for difference in &comparison.differences {
        page.raw("<tr><th scope=\"row\">")
            .text(&difference.key)
            .raw("</th><td class=\"name\">")
            .text(&difference.a);
        page.raw("</td><td class=\"name\">").text(&difference.b).raw("</td></tr>");
    }
    if comparison.differences.is_empty() {
        page.raw("<tr><td colspan=\"3\">nothing: the two sides are the same</td></tr>");
    }
    page.raw("</tbody></table></div></section>\n");
    failures(page, comparison);
    page.raw("<section class=\"part\"><h2>Measures</h2><div class=\"scroll\"><table><thead><tr><th scope=\"col\">Measure</th><th scope=\"col\">Change</th><th scope=\"col\">");
    term(page, "interval", "95 % interval");
    page.raw("</th><th scope=\"col\">p</th><th scope=\"col\">Margin</th><th scope=\"col\">");
    term(page, "resolution", "Smallest visible");
    page.raw("</th><th scope=\"col\">Pairs</th><th scope=\"col\" class=\"left\">More is</th><th scope=\"col\" class=\"left\">B is</th></tr></thead><tbody>");
    for measure in &comparison.measures {
        let figure = &measure.change;
        let interval = match (figure.low, figure.high) {
            (Some(low), Some(high)) => format!("[{}, {}]", change(low), change(high)),
            _ => "\u{2013}".to_owned(),
        };
        let struck = if view.answer_struck() { "struck" } else { "" };
        page.raw("<tr").attribute("class", struck).raw("><th scope=\"row\">").text(&measure.name);
        page.raw(if measure.primary { "</th>" } else { " <small>not primary</small></th>" });
        page.element("td", "measured", &format!("{}\u{202f}%", change(figure.value)));
        page.element("td", "measured", &interval);
        page.element("td", "", &measure.p.map_or_else(|| "\u{2013}".to_owned(), three));
        page.element("td", "", &measure.margin.map_or_else(|| "\u{2013}".to_owned(), percent));
        page.element("td", "", &measure.resolution.map_or_else(|| "not known".to_owned(), percent));
        page.element("td", "", &figure.n_repeats.to_string());
        page.element("td", "name", if measure.more_is_better { "better" } else { "worse" });
        page.element("td", "name", measure.outcome.words()).raw("</tr>\n");
    }
    page.raw("</tbody></table></div></section>\n");
}
