//! The report in the terminal: chip, answer, cost, trust, a small chart, one row a step.

mod chart;
mod paint;
mod section;
mod sheet;
mod style;

use crate::Report;
use crate::number::counted;
use crate::view::{self, Chip, Outcome, Part, Place, Section, SentencePart, Table, View};
use paint::{Ink, Paint, clean, wrap};
pub(crate) use sheet::sheet_text;
pub use style::{Colour, Style};

/// Guests of the largest step from which on a report keeps to [`LINES_MAX`].
const MANY_GUESTS: u32 = 128;
/// Lines of a report of many guests. What has no room is on the page, and is named.
const LINES_MAX: usize = 60;
/// Rows that a table of steps has before those in the middle are left out.
const STEPS_MAX: usize = 16;
/// Rows that are left of such a table: with these, who suffers has room within [`LINES_MAX`].
const STEPS_SHOWN: usize = 7;
/// Room for lists and texts.
#[derive(Debug, Clone, Copy)]
struct Room {
    /// Items of each list.
    items: usize,
    /// Lines of each item.
    lines: usize,
    /// Lines of the answer.
    answer: usize,
    /// Lines of the whole report.
    all: usize,
}

impl Room {
    /// That of most reports, which show all.
    const WHOLE: Self = Self { items: usize::MAX, lines: usize::MAX, answer: usize::MAX, all: usize::MAX };
    /// That of a report of many guests.
    const SHORT: Self = Self { items: 3, lines: 2, answer: 9, all: LINES_MAX };

    fn of(report: &Report) -> Self {
        let has_many = report.result.points.iter().any(|point| point.guests >= MANY_GUESTS);
        if has_many { Self::SHORT } else { Self::WHOLE }
    }
}

/// The report for a terminal. Every line fits the width; names and texts from the record lose their control
/// characters.
pub fn terminal(report: &Report, style: Style) -> String {
    let view = View::of(report);
    let paint = Paint(style.colour);
    let width = style.width.max(40);
    let room = Room::of(report);
    let sections = view::sections(&view).into_iter().filter(|section| section.place.is_in_terminal());
    let (lead, others): (Vec<_>, Vec<_>) = sections.partition(view::Section::leads);
    let mut out = head(&view, &paint, width, room);
    let last = last_lines(&view, &paint, width, room);
    // What is left out is named in a paragraph of its own.
    let most = room.all.saturating_sub(last.lines().count() + 3);
    let mut left_out = Vec::new();
    let mut add = |title: &'static str, text: &str| {
        if room.all < usize::MAX && out.lines().count() + text.lines().count() > most {
            left_out.push(title);
        } else {
            out.push_str(text);
        }
    };
    if report.result.comparison.is_some() {
        add("Differences", &chart::forest(&view, &paint, width));
    } else if lead.is_empty() {
        add("Latency", &chart::latency(&view, &paint, width));
    }
    for one in &lead {
        add(one.title, &format!("{}\n", section::section(one, &paint, width)));
    }
    for one in others {
        // Above the steps is an empty line already.
        match one.place {
            Place::Steps => add(one.title, &section::section(&folded(one), &paint, width)),
            _ => add(one.title, &format!("\n{}", section::section(&one, &paint, width))),
        }
    }
    if !left_out.is_empty() {
        let text = format!("On the page only: {}.", left_out.join(", "));
        out.push_str(&format!("\n{}", section::paragraph(&paint, Ink::Dim, &text, width)));
    }
    out + &last
}

/// Notes, and the command that repeats the run.
fn last_lines(view: &View, paint: &Paint, width: usize, room: Room) -> String {
    let mut out = String::new();
    for (place, note) in listed(view.notes(), room).iter().enumerate() {
        out.push_str(if place == 0 { "\n" } else { "" });
        labelled(&mut out, paint, width, "Note", note, room.lines);
    }
    let command = clean(&view.report.result.provenance.command);
    if !command.is_empty() {
        out.push_str(&format!("\n{} {command}\n", paint.ink(Ink::Dim, "To repeat this run:")));
    }
    out
}

/// A list as far as there is room for it.
fn listed(mut items: Vec<String>, room: Room) -> Vec<String> {
    if items.len() > room.items {
        let more = items.split_off(room.items - 1).len();
        items.push(format!("{more} more are on the page."));
    }
    items
}

/// A long ladder without its middle: of each group the first step stays, and those around the first that does not hold.
fn folded(mut steps: Section) -> Section {
    for part in &mut steps.parts {
        match part {
            Part::Table(table) if table.rows().count() > STEPS_MAX => fold(table),
            _ => {}
        }
    }
    steps
}

fn fold(table: &mut Table) {
    let shown = (STEPS_SHOWN / table.groups.len()).max(3);
    let mut left_out = 0;
    for rows in table.groups.iter_mut().map(|group| &mut group.rows).filter(|rows| rows.len() > shown) {
        let does_not_hold = rows.iter().position(|row| row.outcome != Some(Outcome::Holds));
        let centre = does_not_hold.unwrap_or(rows.len());
        let from = centre.saturating_sub(shown / 2).clamp(1, rows.len() - (shown - 1));
        left_out += rows.len() - shown;
        rows.drain(from + shown - 1..);
        rows.drain(1..from);
    }
    if left_out > 0 {
        table.absent.push(format!("{}: on the page.", counted(left_out as u64, "more step")));
    }
}

fn head(view: &View, paint: &Paint, width: usize, room: Room) -> String {
    let mut out = String::new();
    let chips: Vec<String> = view::chips(view).into_iter().map(|chip| chip_text(chip, paint)).collect();
    let scenario = clean(&view.report.result.scenario);
    out.push_str(&format!("{}  {}\n", chips.join(" "), paint.ink(Ink::Strong, &scenario)));
    for line in wrap(&clean(&facts(view)), width) {
        out.push_str(&format!("{}\n", paint.ink(Ink::Dim, &line)));
    }
    let provenance = &view.report.result.provenance;
    for one in listed(view::left_lines(provenance), room) {
        labelled(&mut out, paint, width, "Left", &one, room.lines);
    }
    for one in listed(view::changed_lines(provenance), room) {
        labelled(&mut out, paint, width, "Others", &one, room.lines);
    }
    out.push('\n');
    answer(&mut out, view, paint, width, room);
    if view.sentence_struck() && paint.0 == Colour::Plain {
        out.push_str("(not trusted)\n");
    }
    for text in view::capacity(view).into_iter().chain(view::older_rule(view).map(str::to_owned)) {
        for line in wrap(&text, width) {
            out.push_str(&format!("{}\n", paint.ink(ink_of_aside(view), &line)));
        }
    }
    out.push('\n');
    let cost = view::cost(view);
    let mut text = cost.sentence;
    if !cost.unequal.is_empty() {
        text.push_str(&format!(" Not equal: {}.", cost.unequal.join("; ")));
    }
    text.extend(cost.command.map(|(label, command)| format!(" {label}: {command}")));
    labelled(&mut out, paint, width, "Cost", &text, room.answer);
    let trust = view::trust(view);
    let (smallest, repeats) = (view::SMALLEST_CHANGE, view::REPEATS);
    let first = format!("{smallest}: {}. {repeats}: {}.", trust.resolution, trust.repeats);
    labelled(&mut out, paint, width, "Trust", &first, usize::MAX);
    for reason in listed(trust.reasons, room) {
        labelled(&mut out, paint, width, "", &format!("- {reason}"), room.lines);
    }
    out.push('\n');
    out
}

/// The answer. Where it is not trusted its claims are struck through, its reasons and remedies not.
fn answer(out: &mut String, view: &View, paint: &Paint, width: usize, room: Room) {
    let sentence = view::sentence(view);
    let mut write = |text: &str, ink| {
        for line in cut(&clean(text), width, room.answer) {
            out.push_str(&format!("{}\n", paint.ink(ink, &line)));
        }
    };
    if !view.sentence_struck() {
        return write(&sentence, Ink::Strong);
    }
    let (claims, remedies) = parted(&sentence);
    write(&claims, Ink::Struck);
    write(&remedies, Ink::Strong);
}

/// What a sentence claims, and what it says to do about it. Where a remedy was taken out of a sentence, that one ends with a full stop.
fn parted(sentence: &str) -> (String, String) {
    let (mut claims, mut remedies) = (String::new(), String::new());
    let mut is_cut = false;
    for part in view::sentence_parts(sentence) {
        match part {
            SentencePart::Claim(text) => {
                claims += if is_cut { ". " } else { "" };
                claims += text;
                is_cut = false;
            }
            SentencePart::Remedy(text) => {
                is_cut |= text.starts_with("; ") && !claims.is_empty();
                remedies += text.trim_start_matches("; ");
            }
        }
    }
    (claims, remedies)
}

/// A figure of an answer that is not trusted is struck with it.
fn ink_of_aside(view: &View) -> Ink {
    if view.sentence_struck() { Ink::Struck } else { Ink::Plain }
}

fn chip_text(chip: Chip, paint: &Paint) -> String {
    let ink = match chip {
        Chip::Trusted => Ink::Good,
        Chip::NotTrusted => Ink::Bad,
        Chip::CannotTell | Chip::Emulated | Chip::PartEmulated => Ink::Warn,
    };
    let word = match chip {
        Chip::Emulated | Chip::PartEmulated => format!("[// {} //]", chip.word()),
        _ => format!("[{}]", chip.word()),
    };
    paint.ink(ink, &word)
}

/// What the run was made on and with, and whether the host was restored.
fn facts(view: &View) -> String {
    let restored = view::restored(&view.report.result.provenance);
    let last = format!("{}{}", restored.words, restored.command.unwrap_or_default());
    let facts: Vec<String> = view::facts(view).into_iter().chain([last]).collect();
    facts.join(" \u{b7} ")
}

/// A text in at most so many lines; one that is cut ends with three dots.
fn cut(text: &str, width: usize, lines_max: usize) -> Vec<String> {
    let lines = wrap(text, width);
    if lines.len() <= lines_max {
        return lines;
    }
    let mut lines = wrap(text, width - 2);
    lines.truncate(lines_max);
    if let Some(last) = lines.last_mut() {
        last.push_str(" \u{2026}");
    }
    lines
}

/// `Trust  text …`, wrapped under itself.
fn labelled(out: &mut String, paint: &Paint, width: usize, label: &str, text: &str, lines_max: usize) {
    for (place, line) in cut(&clean(text), width - 7, lines_max).into_iter().enumerate() {
        let label = if place == 0 { label } else { "" };
        out.push_str(&format!("{}{line}\n", paint.ink(Ink::Dim, &format!("{label:<7}"))));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn where_a_remedy_is_taken_out_the_sentence_before_it_ends() {
        let (claims, remedies) = parted(
            "A and B: other programs used 93 % of the host; to fix: measure on a quiet host. Only gate.p99 differs: 5ms.",
        );
        assert_eq!(claims, "A and B: other programs used 93 % of the host. Only gate.p99 differs: 5ms.");
        assert_eq!(remedies, "to fix: measure on a quiet host. ");
    }
}
