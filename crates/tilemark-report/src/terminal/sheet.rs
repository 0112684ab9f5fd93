//! Several runs in the terminal: compared, or over time.

use super::{
    chip_text, labelled,
    paint::{Ink, Paint, clean, wrap},
    section::{paragraph, section},
    style::Style,
};
use crate::number::{counted, three};
use crate::several::Sheet;
use crate::view::{Chart, Part, Section, Stroke};

/// Lines of a chart.
const LINES: usize = 7;
/// Columns before a chart: a figure and the axis.
const MARGIN: usize = 10;
/// Columns of one run at most.
const SLOT_MAX: usize = 6;

/// Rows of a group that a terminal shows.
const ROWS_MAX: usize = 40;

/// A long table without its last rows.
fn folded(mut section: Section) -> Section {
    for part in &mut section.parts {
        let Part::Table(table) = part else { continue };
        let long = table.groups.iter_mut().filter(|group| group.rows.len() > ROWS_MAX);
        let left_out: usize = long.map(|group| group.rows.drain(ROWS_MAX..).len()).sum();
        if left_out > 0 {
            table.below.push(format!("{} on the page (`--html FILE`)", counted(left_out as u64, "more row")));
        }
    }
    section
}

/// The sheet. Every line fits the width.
pub(crate) fn sheet_text(sheet: Sheet, style: Style) -> String {
    let (paint, width) = (Paint(style.colour), style.width.max(40));
    let mut out = String::new();
    for line in wrap(&clean(&sheet.title), width) {
        out.push_str(&format!("{}\n", paint.ink(Ink::Strong, &line)));
    }
    for one in &sheet.lead {
        out.push_str(&format!("\n{}", section(one, &paint, width)));
    }
    for finding in &sheet.findings {
        out.push('\n');
        out.push_str(&paragraph(&paint, Ink::Dim, &finding.head, width));
        let chip = finding.chip.map(|chip| format!("{}\n", chip_text(chip, &paint)));
        out.push_str(&chip.unwrap_or_default());
        out.push_str(&paragraph(&paint, Ink::Strong, &finding.text, width));
        for reason in &finding.reasons {
            labelled(&mut out, &paint, width, "", &format!("because: {reason}"), usize::MAX);
        }
    }
    for one in &sheet.charts {
        out.push_str(&format!("\n{}", chart(one, &paint, width)));
    }
    for one in sheet.sections {
        out.push_str(&format!("\n{}", section(&folded(one), &paint, width)));
    }
    out
}

/// One place of a chart: its value, and whether it counts.
struct Dot {
    value: f64,
    counts: bool,
}

/// A line over runs: the newest that fit.
fn chart(chart: &Chart, paint: &Paint, width: usize) -> String {
    let room = width - MARGIN;
    let slot = (room / chart.places.len().max(1)).clamp(1, SLOT_MAX);
    let first = chart.places.len().saturating_sub(room / slot);
    let mut dots: Vec<Option<Dot>> = chart.places.iter().map(|_| None).collect();
    for series in &chart.series {
        for point in &series.points {
            if let Some(dot) = dots.get_mut(point.place) {
                *dot = Some(Dot { value: point.value, counts: series.stroke != Stroke::Hollow });
            }
        }
    }
    let shown = &dots[first..];
    let values = || shown.iter().flatten().map(|dot| dot.value);
    let (low, high) = (values().fold(f64::INFINITY, f64::min), values().fold(f64::NEG_INFINITY, f64::max));
    let title =
        clean(&format!("{} in {}: \u{25cf} trusted, \u{25cb} does not count", chart.title, unit(chart)));
    let mut out: String =
        wrap(&title, width).iter().map(|line| format!("{}\n", paint.ink(Ink::Dim, line))).collect();
    if low > high {
        return out + "No figures.\n";
    }
    let line_of = |value: f64| {
        let part = if high > low { (value - low) / (high - low) } else { 0.5 };
        (part * (LINES - 1) as f64).round() as usize
    };
    for line in (0..LINES).rev() {
        let label = match (line, high > low) {
            (0, true) => three(low),
            (line, true) if line == LINES - 1 => three(high),
            (line, false) if line == LINES / 2 => three(low),
            _ => String::new(),
        };
        let axis = if label.is_empty() { '\u{2502}' } else { '\u{2524}' };
        let mut row = format!("{label:>width$} {axis}", width = MARGIN - 2);
        for dot in shown {
            let here = dot.as_ref().filter(|dot| line_of(dot.value) == line);
            let sign = here.map_or(" ", |dot| if dot.counts { "\u{25cf}" } else { "\u{25cb}" });
            row.push_str(&format!("{sign}{}", " ".repeat(slot - 1)));
        }
        out.push_str(&format!("{}\n", row.trim_end()));
    }
    out + &below(chart, first, slot, width, paint)
}

/// Under a chart: where something changed, and from when to when it reaches.
fn below(chart: &Chart, first: usize, slot: usize, width: usize, paint: &Paint) -> String {
    let mut out = String::new();
    let marks: Vec<_> = chart.marks.iter().filter(|mark| mark.place >= first).collect();
    if !marks.is_empty() {
        let mut signs = vec![' '; (chart.places.len() - first) * slot];
        for mark in &marks {
            signs[(mark.place - first) * slot] = if mark.level { '\u{25b2}' } else { '\u{2506}' };
        }
        let signs: String = signs.into_iter().collect();
        out.push_str(&format!("{:>MARGIN$}{}\n", "", signs.trim_end()));
        let words = match marks.iter().any(|mark| mark.level) {
            true => "\u{25b2} the level changed; \u{2506} something of the host or its programs changed",
            false => "\u{2506} something of the host or its programs changed",
        };
        out.push_str(&paragraph(paint, Ink::Dim, words, width));
    }
    let (from, to) = (chart.places.get(first), chart.places.last());
    if let Some((from, to)) = from.zip(to) {
        let left_out = if first > 0 {
            format!("; {first} older runs are on the page (`--html FILE`)")
        } else {
            String::new()
        };
        out.push_str(&paragraph(paint, Ink::Dim, &format!("{from} to {to}{left_out}"), width));
    }
    out
}

/// The unit alone: what follows it is about the page's axis.
fn unit(chart: &Chart) -> &str {
    chart.unit.split(';').next().unwrap_or_default()
}
