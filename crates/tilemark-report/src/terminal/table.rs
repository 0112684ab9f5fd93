//! One row a step. What does not fit the width goes, the least needed column first.

use super::paint::{Ink, Paint, clean, columns, wrap};
use crate::view::{COLUMNS, Cell, Kind, Outcome, Row, View, proof, table};
use tilemark_plan::plan::Backend;

pub(super) fn steps(view: &View, paint: &Paint, width: usize) -> String {
    let table = table(view);
    if table.groups.is_empty() {
        return "No step was measured.\n".to_owned();
    }
    let all: Vec<&Row> = table.groups.iter().flat_map(|(_, rows)| rows).collect();
    let widths = widths(&all);
    let shown = shown(&table.columns, &widths, width);
    let mut out = String::new();
    let head = line(&shown, &widths, |place| COLUMNS[place].head.to_owned());
    let unit = line(&shown, &widths, |place| short_unit(place).to_owned());
    out.push_str(&format!(
        "{}\n{}\n",
        paint.ink(Ink::Strong, head.trim_end()),
        paint.ink(Ink::Dim, unit.trim_end())
    ));
    for (group, rows) in &table.groups {
        if group.kind == Kind::Emulated {
            let whose = match group.backend {
                Backend::Emulated => String::new(),
                _ => format!(" ({})", clean(&group.name)),
            };
            let text = format!("// EMULATED{whose}: {} //", proof(view, group.backend));
            for line in wrap(&text, width) {
                out.push_str(&format!("{}\n", paint.ink(Ink::Warn, &line)));
            }
        } else if table.groups.len() > 1 {
            out.push_str(&format!("{}\n", paint.ink(Ink::Dim, &clean(&group.name))));
        }
        for row in rows {
            let text = line(&shown, &widths, |place| text_of(&row.cells[place]));
            out.push_str(&format!("{}\n", row_text(row, text.trim_end(), paint)));
        }
    }
    // A mark in a column that does not fit is not seen, and its note would explain nothing.
    let is_seen =
        |note: usize| all.iter().any(|row| shown.iter().any(|place| row.cells[*place].note == Some(note)));
    let notes = (1..).zip(&table.notes).filter(|(note, _)| is_seen(*note));
    let notes = notes.map(|(note, reason)| format!("{} {reason}", mark(note)));
    for note in notes.chain(table.absent.iter().cloned()) {
        for line in wrap(&clean(&note), width) {
            out.push_str(&format!("{}\n", paint.ink(Ink::Dim, &line)));
        }
    }
    out
}

fn row_text(row: &Row, text: &str, paint: &Paint) -> String {
    if row.struck {
        return paint.ink(Ink::Struck, text);
    }
    let ink = match row.outcome {
        Outcome::Breaks => Ink::Bad,
        Outcome::Undecided | Outcome::Unknown => Ink::Warn,
        Outcome::Holds => Ink::Plain,
    };
    // The gate's word is the last: only it has the colour.
    match text.rfind("  ") {
        Some(at) if ink != Ink::Plain => format!("{}{}", &text[..at], paint.ink(ink, &text[at..])),
        _ => text.to_owned(),
    }
}

fn short_unit(place: usize) -> &'static str {
    match COLUMNS[place].unit {
        "ms, 95 % interval" => "ms [95 %]",
        "its p99, ms" => "p99, ms",
        "MiB per guest" => "MiB/guest",
        "s, slowest [p50, p99]" => "s [p50, p99]",
        "per thread" => "/thread",
        "kept of all" => "kept",
        unit => unit,
    }
}

fn text_of(cell: &Cell) -> String {
    let mut text = clean(&cell.text);
    if let Some(interval) = &cell.interval {
        text.push(' ');
        text.push_str(&clean(interval));
    }
    if let Some(note) = cell.note {
        text.push_str(&mark(note));
    }
    text
}

/// A note's sign: raised digits.
fn mark(note: usize) -> String {
    const RAISED: [char; 10] = ['⁰', '¹', '²', '³', '⁴', '⁵', '⁶', '⁷', '⁸', '⁹'];
    note.to_string().bytes().map(|digit| RAISED[usize::from(digit - b'0')]).collect()
}

fn widths(rows: &[&Row]) -> Vec<usize> {
    (0..COLUMNS.len())
        .map(|place| {
            let cells = rows.iter().map(|row| columns(&text_of(&row.cells[place])));
            cells.chain([columns(COLUMNS[place].head), columns(short_unit(place))]).max().unwrap_or(0)
        })
        .collect()
}

/// The columns that fit.
fn shown(columns: &[usize], widths: &[usize], width: usize) -> Vec<usize> {
    let mut shown = columns.to_vec();
    let needed =
        |shown: &[usize]| shown.iter().map(|place| widths[*place] + 2).sum::<usize>().saturating_sub(2);
    while needed(&shown) > width && shown.len() > 1 {
        let least = shown.iter().copied().max_by_key(|place| COLUMNS[*place].dispensable);
        match least {
            Some(place) if COLUMNS[place].dispensable > 0 => shown.retain(|other| *other != place),
            _ => break,
        }
    }
    shown
}

fn line(shown: &[usize], widths: &[usize], text: impl Fn(usize) -> String) -> String {
    let cells = shown.iter().map(|place| {
        let (text, width) = (text(*place), widths[*place]);
        // Names and words from the left, figures from the right.
        if matches!(place, 9 | 14) { format!("{text:<width$}") } else { format!("{text:>width$}") }
    });
    cells.collect::<Vec<_>>().join("  ")
}
