//! The one drawing of sections and tables. Columns that do not fit the width go, the least needed first; where even those that
//! must stay do not fit, each row is a paragraph with all of them.

use std::collections::BTreeSet;

use super::paint::{Ink, Paint, clean, columns, wrap};
use crate::view::{Cell, Column, GroupHead, Outcome, Part, Row, Section, Table};

/// A section with its texts and tables.
pub(super) fn section(section: &Section, paint: &Paint, width: usize) -> String {
    let mut out = format!("{}\n", paint.ink(Ink::Strong, section.title));
    for part in &section.parts {
        match part {
            Part::Text(text) => out.push_str(&paragraph(paint, Ink::Dim, text, width)),
            Part::Table(table) => {
                if !table.title.is_empty() {
                    out.push_str(&format!("\n{}\n", paint.ink(Ink::Strong, table.title)));
                }
                out.push_str(&self::table(table, paint, width));
            }
        }
    }
    out
}

/// A table, and below it what its marks and missing columns mean.
fn table(table: &Table, paint: &Paint, width: usize) -> String {
    let widths = widths(table);
    let shown = shown(&table.columns, &widths, width);
    let is_grid = needed(&shown, &widths) <= width;
    let notes = notes(table, |place| !is_grid || shown.contains(&place));
    let text_of = |cell: &Cell| text_of(cell, &notes);
    let line = |text: &dyn Fn(usize) -> String| line(table, &shown, &widths, text);
    let mut out = String::new();
    if is_grid {
        let head = line(&|place| clean(&table.columns[place].head));
        let unit = line(&|place| clean(table.columns[place].narrow_unit()));
        out.push_str(&format!("{}\n", paint.ink(Ink::Strong, &head)));
        if !unit.is_empty() {
            out.push_str(&format!("{}\n", paint.ink(Ink::Dim, &unit)));
        }
    }
    for group in &table.groups {
        out.push_str(&group.head.as_ref().map(|head| group_head(head, paint, width)).unwrap_or_default());
        for row in &group.rows {
            for (place, cells) in row.lines.iter().enumerate() {
                let head = Some(&row.head).filter(|_| place == 0);
                let cell = |place: usize| match place {
                    0 => head,
                    place => cells.get(place - 1),
                };
                out.push_str(&if is_grid {
                    let text = line(&|place| cell(place).map(&text_of).unwrap_or_default());
                    format!("{}\n", row_text(row, &text, paint))
                } else {
                    let ink = if row.struck { Ink::Struck } else { Ink::Plain };
                    paragraph(paint, ink, &sentence(table, head, cells, &text_of), width)
                });
            }
        }
    }
    let notes = (1..).zip(&notes).map(|(number, note)| format!("{} {}", mark(number), table.notes[note - 1]));
    let below = table.below.iter().map(|below| format!("{below}."));
    notes.chain(table.absent.iter().cloned()).chain(below).for_each(|note| {
        out.push_str(&paragraph(paint, Ink::Dim, &note, width));
    });
    out
}

/// The notes that cells of the columns in sight refer to: a mark in a column that does not fit is not seen,
/// and its note would explain nothing.
fn notes(table: &Table, is_in_sight: impl Fn(usize) -> bool) -> Vec<usize> {
    let cells = table.rows().flat_map(|row| &row.lines).flat_map(|line| (1..).zip(line));
    let referred: BTreeSet<usize> =
        cells.filter(|(place, _)| is_in_sight(*place)).filter_map(|(_, cell)| cell.note).collect();
    referred.into_iter().collect()
}

/// Text, wrapped.
pub(super) fn paragraph(paint: &Paint, ink: Ink, text: &str, width: usize) -> String {
    wrap(&clean(text), width).iter().map(|line| format!("{}\n", paint.ink(ink, line))).collect()
}

fn group_head(head: &GroupHead, paint: &Paint, width: usize) -> String {
    match head {
        GroupHead::Named(name) => paragraph(paint, Ink::Dim, name, width),
        GroupHead::Emulated { name, proof } => {
            let whose = name.as_ref().map(|name| format!(" ({name})")).unwrap_or_default();
            paragraph(paint, Ink::Warn, &format!("// EMULATED{whose}: {proof} //"), width)
        }
    }
}

fn row_text(row: &Row, text: &str, paint: &Paint) -> String {
    if row.struck {
        return paint.ink(Ink::Struck, text);
    }
    let ink = match row.outcome {
        Some(Outcome::Breaks) => Ink::Bad,
        Some(Outcome::Undecided | Outcome::Unknown) => Ink::Warn,
        Some(Outcome::Holds) | None => Ink::Plain,
    };
    // The gate's word is the last: only it has the colour.
    match text.rfind("  ") {
        Some(at) if ink != Ink::Plain => format!("{}{}", &text[..at], paint.ink(ink, &text[at..])),
        _ => text.to_owned(),
    }
}

/// A row where there is no room for columns: every cell after its head and before its unit.
fn sentence(table: &Table, head: Option<&Cell>, cells: &[Cell], text_of: &dyn Fn(&Cell) -> String) -> String {
    let cells = cells.iter().zip(&table.columns[1..]).filter(|(cell, _)| !cell.is_missing());
    let cells = cells.map(|(cell, column)| {
        let is_figure = cell.text.starts_with(|c: char| c.is_ascii_digit());
        let unit = if is_figure { clean(column.narrow_unit()) } else { String::new() };
        format!("{} {} {unit}", column.head, text_of(cell)).trim_end().to_owned()
    });
    let cells = cells.collect::<Vec<_>>().join("; ");
    head.map(|head| format!("{}: {cells}", text_of(head))).unwrap_or(cells)
}

/// A cell's text with the mark of its note, numbered by its place among these.
fn text_of(cell: &Cell, notes: &[usize]) -> String {
    let mut text = clean(&cell.text);
    if let Some(aside) = &cell.aside {
        text.push(' ');
        text.push_str(&clean(aside));
    }
    if let Some(place) = cell.note.and_then(|note| notes.iter().position(|other| *other == note)) {
        text.push_str(&mark(place + 1));
    }
    // Alone in its row it can't be struck through.
    if cell.struck { format!("({text})") } else { text }
}

/// A note's sign: raised digits.
fn mark(note: usize) -> String {
    const RAISED: [char; 10] = ['⁰', '¹', '²', '³', '⁴', '⁵', '⁶', '⁷', '⁸', '⁹'];
    note.to_string().bytes().map(|digit| RAISED[usize::from(digit - b'0')]).collect()
}

fn widths(table: &Table) -> Vec<usize> {
    let of_head = |column: &Column| columns(&clean(&column.head)).max(columns(&clean(column.narrow_unit())));
    let mut widths: Vec<usize> = table.columns.iter().map(of_head).collect();
    let notes = notes(table, |_| true);
    for row in table.rows() {
        for line in &row.lines {
            for (width, cell) in widths.iter_mut().zip([&row.head].into_iter().chain(line)) {
                *width = (*width).max(columns(&text_of(cell, &notes)));
            }
        }
    }
    widths
}

fn needed(shown: &[usize], widths: &[usize]) -> usize {
    shown.iter().map(|place| widths[*place] + 2).sum::<usize>().saturating_sub(2)
}

/// The columns that fit, or those that must stay.
fn shown(columns: &[Column], widths: &[usize], width: usize) -> Vec<usize> {
    let mut shown: Vec<usize> = (0..columns.len()).collect();
    while needed(&shown, widths) > width {
        let least = shown.iter().copied().max_by_key(|place| columns[*place].dispensable);
        match least {
            Some(place) if columns[place].dispensable > 0 => shown.retain(|other| *other != place),
            _ => break,
        }
    }
    shown
}

fn line(table: &Table, shown: &[usize], widths: &[usize], text: &dyn Fn(usize) -> String) -> String {
    let cells = shown.iter().map(|place| {
        let (text, width) = (text(*place), widths[*place]);
        // Names and words from the left, figures from the right.
        if table.columns[*place].is_left() { format!("{text:<width$}") } else { format!("{text:>width$}") }
    });
    cells.collect::<Vec<_>>().join("  ").trim_end().to_owned()
}
