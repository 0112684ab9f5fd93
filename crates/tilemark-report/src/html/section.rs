//! The one drawing of sections, tables and their charts' places.

use super::{
    figure::{Figure, figure},
    markup::Markup,
    terms::term,
};
use crate::view::{Beside, Cell, Chart, Column, GroupHead, Holds, Part, Place, Row, Section, Table};

/// Writes the sections of one place. One that is the answer is on the first screen instead.
pub(super) fn sections_at(page: &mut Markup, sections: &[Section], place: Place) {
    for one in sections.iter().filter(|one| one.place == place && !one.is_answer) {
        section(page, one);
    }
}

/// Writes a section with its texts and tables.
pub(super) fn section(page: &mut Markup, section: &Section) {
    page.raw("<section class=\"part\"").attribute("id", section.id).raw("><h2>");
    term(page, section.word, section.title);
    page.raw("</h2>");
    let mut beside = section.beside.as_ref();
    for (place, part) in section.parts.iter().enumerate() {
        match part {
            Part::Text(text) => {
                page.element("p", "about", text);
            }
            Part::Table(table) => {
                let id = format!("{}-{place}", section.id);
                match beside.take() {
                    Some(chart) => table_beside(page, chart, &id, table),
                    None => self::table(page, &id, table),
                };
            }
        };
    }
    page.raw("</section>\n");
}

/// Writes a chart's place and a table beside each other.
fn table_beside<'page>(
    page: &'page mut Markup,
    chart: &Beside,
    id: &str,
    table: &Table,
) -> &'page mut Markup {
    page.raw("<div class=\"charts fair\"><div class=\"chart\"").attribute("id", chart.id);
    page.raw(" role=\"img\"").attribute("aria-label", chart.about).raw("></div>");
    self::table(page, id, table).raw("</div>")
}

/// Writes the place where the page's script draws `chart`.
pub(super) fn chart(page: &mut Markup, chart: &Chart) {
    let Chart { id, title, unit, about, .. } = chart;
    figure(page, &Figure { class: "latency", title, unit, id, about, ..Figure::default() });
}

/// Writes a table, and below it what its marks and missing columns mean. The ids of its notes begin with `id`, which no other table of the
/// page has.
pub(super) fn table<'page>(page: &'page mut Markup, id: &str, table: &Table) -> &'page mut Markup {
    if !table.title.is_empty() {
        page.element("h3", "", table.title);
    }
    if table.columns.iter().any(is_wide) {
        page.raw("<label class=\"all\"><input type=\"checkbox\"> all columns</label>");
    }
    page.raw("<div class=\"scroll\"><table><thead><tr>");
    for column in &table.columns {
        head(page, column);
    }
    page.raw("</tr></thead>");
    for group in &table.groups {
        let emulated = matches!(group.head, Some(GroupHead::Emulated { .. }));
        page.raw(if emulated { "<tbody class=\"emulated\">" } else { "<tbody>" });
        if let Some(head) = &group.head {
            group_head(page, table, head);
        }
        for one in &group.rows {
            row(page, id, table, one);
        }
        page.raw("</tbody>\n");
    }
    page.raw("</table></div>");
    notes(page, id, table)
}

/// Whether a phone leaves a column out until all are asked for.
fn is_wide(column: &Column) -> bool {
    column.dispensable > 0
}

fn head(page: &mut Markup, column: &Column) {
    let left = column.is_left().then_some("left");
    let class: Vec<&str> = left.into_iter().chain(is_wide(column).then_some("wide")).collect();
    page.raw("<th scope=\"col\"");
    if !class.is_empty() {
        page.attribute("class", &class.join(" "));
    }
    page.raw(">");
    term(page, column.word, &column.head);
    if let Some(unit) = &column.unit {
        page.element("small", "", unit);
    }
    page.raw("</th>");
}

fn group_head(page: &mut Markup, table: &Table, head: &GroupHead) {
    page.raw("<tr class=\"group\"><th scope=\"rowgroup\"")
        .attribute("colspan", &table.columns.len().to_string())
        .raw(">");
    match head {
        GroupHead::Named(name) => page.text(name),
        GroupHead::Emulated { name, proof } => {
            page.raw("<span class=\"chip emulated\">EMULATED</span> ");
            if let Some(name) = name {
                page.text(name).raw(": ");
            }
            page.text(proof)
        }
    };
    page.raw("</th></tr>");
}

fn row(page: &mut Markup, id: &str, table: &Table, row: &Row) {
    let outcome = row.outcome.map_or("", |outcome| outcome.class());
    let struck = if row.struck { "struck" } else { "" };
    let hatched = if row.emulated { "hatched" } else { "" };
    let class: Vec<&str> = [outcome, struck, hatched].into_iter().filter(|word| !word.is_empty()).collect();
    for (place, line) in row.lines.iter().enumerate() {
        page.raw("<tr").attribute("class", &class.join(" ")).raw(">");
        match (place, row.lines.len()) {
            (0, 1) => row_head(page.raw("<th scope=\"row\">"), &row.head),
            (0, lines) => {
                page.raw("<th scope=\"rowgroup\"").attribute("rowspan", &lines.to_string()).raw(">");
                row_head(page, &row.head);
            }
            _ => {}
        }
        for (place, (cell, column)) in line.iter().zip(&table.columns[1..]).enumerate() {
            let left = table.columns.len() - 1 - place;
            match place + 1 == line.len() && left > 1 {
                true => {
                    page.raw("<td").attribute("colspan", &left.to_string());
                    page.raw(" class=\"reason\">").text(&cell.text).raw("</td>");
                }
                false => self::cell(page, id, table, column, cell),
            }
        }
        page.raw("</tr>\n");
    }
}

fn row_head(page: &mut Markup, head: &Cell) {
    page.text(&head.text);
    if let Some(aside) = &head.aside {
        page.raw(" ").element("small", "", aside);
    }
    page.raw("</th>");
}

fn cell(page: &mut Markup, id: &str, table: &Table, column: &Column, cell: &Cell) {
    let class = match column.holds {
        Holds::Measured if cell.is_missing() => "",
        Holds::Measured if cell.struck => "measured struck",
        Holds::Measured => "measured",
        Holds::MeasuredName if cell.is_missing() => "name",
        Holds::MeasuredName => "name measured",
        Holds::Given => "",
        Holds::Words => "name",
        Holds::Outcome => "gate",
    };
    let wide = is_wide(column).then_some("wide");
    let class: Vec<&str> = [class].into_iter().chain(wide).filter(|class| !class.is_empty()).collect();
    page.raw("<td");
    if !class.is_empty() {
        page.attribute("class", &class.join(" "));
    }
    if let Some(heat) = cell.heat {
        page.attribute("style", &format!("--heat:{heat}%"));
    }
    page.raw(">").text(&cell.text);
    // The mark stays with what it follows, where that gets a line of its own.
    if let Some(aside) = &cell.aside {
        page.raw(" <span").attribute("class", "interval").raw(">").text(aside);
        mark(page, id, table, cell.note);
        page.raw("</span>");
    } else {
        mark(page, id, table, cell.note);
    }
    page.raw("</td>");
}

/// The mark of a cell's note, with its reason at the pointer.
fn mark(page: &mut Markup, id: &str, table: &Table, note: Option<usize>) {
    let Some(note) = note else { return };
    let number = note.to_string();
    let reason = table.notes.get(note - 1).map_or("", String::as_str);
    page.raw("<sup><a").attribute("href", &format!("#{id}-note-{number}")).attribute("data-tip", reason);
    page.raw(">").text(&number).raw("</a></sup>");
}

fn notes<'page>(page: &'page mut Markup, id: &str, table: &Table) -> &'page mut Markup {
    if !table.notes.is_empty() {
        page.raw("<ol class=\"notes\">");
        for (number, reason) in (1..).zip(&table.notes) {
            page.raw("<li")
                .attribute("id", &format!("{id}-note-{number}"))
                .raw(">")
                .text(reason)
                .raw("</li>");
        }
        page.raw("</ol>");
    }
    for absent in &table.absent {
        page.raw("<p class=\"about\">Not in the table \u{2013} ").text(absent).raw(".</p>");
    }
    for below in &table.below {
        page.raw("<p class=\"about\">").text(below).raw(".</p>");
    }
    page
}
