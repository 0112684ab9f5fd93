//! What is read in ten seconds: chip, answer, cost, trust, and two charts.

use super::{charts, markup::Markup, section, terms::term};
use crate::view::{self, Axis, Charts, Chip, Restored, Section, SentencePart, View};

/// Squares of the strip of tiles at most; more tiles share a square.
const SQUARES_MAX: u32 = 40;
/// Characters of what was not equal that the first screen shows unfolded.
const UNEQUAL_SHOWN: usize = 180;
/// Reasons for distrust that the first screen has room for.
const REASONS_SHOWN: usize = 3;

pub(super) fn first_screen(page: &mut Markup, view: &View, drawn: &Charts, sections: &[Section]) {
    page.raw("<header>\n");
    identity(page, view);
    answer(page, view);
    page.raw("</header>\n<div class=\"pair\">\n");
    cost(page, view);
    trust(page, view);
    page.raw("</div>\n");
    if let Some(answer) = sections.iter().find(|section| section.is_answer) {
        return section::section(page, answer);
    }
    page.raw("<div class=\"charts\">\n");
    let of_sections = drawn.of_sections();
    if view.report.result.comparison.is_some() {
        charts::forest(page);
    } else if view.headline().is_empty() {
        charts::guest_memory(page, view);
    } else if of_sections.is_empty() {
        charts::latency(page, view, drawn);
    }
    for chart in of_sections {
        section::chart(page, chart);
    }
    if of_sections.len() < 2 {
        charts::processors(page, view, drawn);
    }
    page.raw("</div>\n<noscript><p class=\"reason\">Charts need JavaScript. The tables have every figure.</p></noscript>\n");
}

fn identity(page: &mut Markup, view: &View) {
    page.raw("<div class=\"identity\"><span class=\"chips\">");
    for chip in view::chips(view) {
        verdict_chip(page, chip);
    }
    page.raw("</span><h1>").text(&view.report.result.scenario).raw("</h1><ul class=\"facts\">");
    for fact in view::facts(view) {
        page.element("li", "", &fact);
    }
    let provenance = &view.report.result.provenance;
    restored(page, view::restored(provenance));
    page.raw("</ul></div>\n");
    not_as_before(page, &view::left_lines(provenance), &view::changed_lines(provenance));
}

fn restored(page: &mut Markup, restored: Restored) {
    page.raw(match restored.is_restored {
        Some(true) => "<li class=\"good\">",
        Some(false) => "<li class=\"bad\">",
        None => "<li>",
    });
    page.text(restored.words);
    if let Some(command) = restored.command {
        page.element("code", "", command);
    }
    page.raw("</li>");
}

/// A chip with its meaning.
pub(super) fn verdict_chip(page: &mut Markup, chip: Chip) {
    let word = crate::words::meaning(chip.name()).map_or("", |word| word.meaning);
    page.raw("<strong tabindex=\"0\"").attribute("class", &format!("chip {}", chip.name()));
    page.attribute("data-tip", word).raw(">").text(chip.word()).raw("</strong>");
}

/// What is left of the run, with what to do, and what somebody else changed.
fn not_as_before(page: &mut Markup, left: &[String], changed: &[String]) {
    if left.is_empty() && changed.is_empty() {
        return;
    }
    page.raw("<ul class=\"aside\">");
    for line in left {
        page.raw("<li>Left on the machine: ").text(line).raw("</li>");
    }
    for line in changed {
        page.element("li", "", line);
    }
    page.raw("</ul>\n");
}

fn answer(page: &mut Markup, view: &View) {
    let sentence = view::sentence(view);
    let long = match sentence.chars().count() {
        0..=165 => "",
        166..=240 => " longer",
        _ => " long",
    };
    let is_struck = view.sentence_struck();
    page.raw("<div class=\"answer\"><p id=\"answer\"")
        .attribute("class", &format!("sentence{long}"))
        .raw(">");
    for (place, part) in view::sentence_parts(&sentence).into_iter().enumerate() {
        let (SentencePart::Claim(text) | SentencePart::Remedy(text)) = part;
        let is_struck = is_struck && matches!(part, SentencePart::Claim(_));
        let (lead, rest) = if place == 0 { lead(text) } else { ("", text) };
        page.raw(if is_struck { "<span class=\"struck\">" } else { "" });
        if !lead.is_empty() {
            page.element("b", "", lead);
        }
        with_whole_options(page, rest);
        page.raw(if is_struck { "</span>" } else { "" });
    }
    page.raw("</p>");
    page.raw("<button type=\"button\" id=\"copy\" aria-label=\"Copy the answer\">Copy</button></div>\n");
    let struck = if is_struck { " struck" } else { "" };
    if let Some(capacity) = view::capacity(view) {
        page.element("p", &format!("capacity{struck}"), &capacity).raw("\n");
    }
    if let Some(rule) = view::older_rule(view) {
        page.element("p", "capacity", rule).raw("\n");
    }
    strip(page, view);
}

/// A line that ends within `--more` would show another option.
fn with_whole_options(page: &mut Markup, text: &str) {
    for (place, word) in text.split(' ').enumerate() {
        page.raw(if place > 0 { " " } else { "" });
        match word.starts_with("--") {
            true => page.element("span", "whole", word),
            false => page.text(word),
        };
    }
}

/// The part up to the first colon or full stop that ends a sentence is what must be seen first.
fn lead(sentence: &str) -> (&str, &str) {
    let colon = sentence.find(": ").map(|at| at + 1);
    let stop = sentence.find(". ").map(|at| at + 1);
    let end = [colon, stop].into_iter().flatten().min().unwrap_or(sentence.len());
    sentence.split_at(if end > 90 { 0 } else { end })
}

/// A square for each tile: holds, undecided, not tried, breaks.
fn strip(page: &mut Markup, view: &View) {
    let answer = &view.report.result.answer;
    let holds = answer.holds.unwrap_or(0);
    let breaks = answer.breaks.as_ref().map(|broken| broken.tiles);
    let undecided_to = answer.undecided.map_or(0, |range| range.to);
    let last = breaks.unwrap_or(holds).max(holds).max(undecided_to);
    if view.axis != Axis::Tiles || view.report.result.comparison.is_some() || last == 0 {
        return;
    }
    let each = last.div_ceil(SQUARES_MAX);
    let doubted = if view.answer_struck() { " doubted" } else { "" };
    page.raw("<div aria-hidden=\"true\"").attribute("class", &format!("strip{doubted}")).raw(">");
    for first in (1..=last).step_by(each as usize) {
        let end = first.saturating_add(each - 1).min(last);
        let class = if Some(end) == breaks {
            "breaks"
        } else if end <= holds {
            "holds"
        } else if answer.undecided.is_some_and(|range| (range.from..=range.to).contains(&end)) {
            "undecided"
        } else {
            "untried"
        };
        page.raw("<i").attribute("class", class).raw("></i>");
    }
    let mut legend = vec![match holds {
        0 => "none holds".to_owned(),
        1 => "1 holds".to_owned(),
        holds => format!("{holds} hold"),
    }];
    legend.extend(answer.undecided.map(|range| match range.from == range.to {
        true => format!("{} undecided", range.from),
        false => format!("{} to {} undecided", range.from, range.to),
    }));
    legend.extend(answer.untried.map(|gap| match gap.from == gap.to {
        true => format!("{} not tried", gap.from),
        false => format!("{} to {} not tried", gap.from, gap.to),
    }));
    legend.push(breaks.map_or_else(|| "none breaks".to_owned(), |tiles| format!("{tiles} breaks")));
    if view.answer_struck() {
        legend.push("not trusted".to_owned());
    }
    if each > 1 {
        legend.push(format!("a square is {each} tiles"));
    }
    page.element("span", "", &legend.join(" \u{b7} ")).raw("</div>\n");
}

fn cost(page: &mut Markup, view: &View) {
    let cost = view::cost(view);
    page.raw("<section class=\"fact\"><h2>Cost of virtualization</h2><p");
    page.attribute(
        "class",
        if view.answer_struck() && view.report.result.cost.is_some() { "struck" } else { "" },
    );
    page.raw(">").text(&cost.sentence).raw("</p>");
    let unequal = cost.unequal.join("; ");
    match unequal.chars().count() {
        0 => {}
        1..=UNEQUAL_SHOWN => {
            page.raw("<p class=\"aside\">Not equal: ").text(&unequal).raw(".</p>");
        }
        _ => {
            let count = format!("Not equal: {} things", cost.unequal.len());
            page.raw("<details class=\"aside\"><summary>").text(&count).raw("</summary><ul>");
            for thing in &cost.unequal {
                page.element("li", "", thing);
            }
            page.raw("</ul></details>");
        }
    }
    if let Some((label, command)) = &cost.command {
        page.raw("<p class=\"aside\">").text(label).raw(": <code>");
        with_whole_options(page, command);
        page.raw("</code></p>");
    }
    page.raw("</section>\n");
}

fn trust(page: &mut Markup, view: &View) {
    let trust = view::trust(view);
    page.raw("<section class=\"fact\"><h2>Trust</h2><p>");
    term(page, "resolution", view::SMALLEST_CHANGE);
    page.raw(": ").text(&trust.resolution).raw(". ");
    term(page, "repeat", view::REPEATS);
    page.raw(": ").text(&trust.repeats).raw(".</p>");
    match trust.reasons.as_slice() {
        [] => {}
        [only] => {
            page.element("p", "aside", only);
        }
        several => {
            let shown = if several.len() > REASONS_SHOWN { REASONS_SHOWN - 1 } else { several.len() };
            page.raw("<ul class=\"aside\">");
            for reason in several.iter().take(shown) {
                page.element("li", "", reason);
            }
            if several.len() > shown {
                let more = format!("{} more", several.len() - shown);
                page.raw("<li><a href=\"#evidence\">").text(&more).raw("</a></li>");
            }
            page.raw("</ul>");
        }
    }
    page.raw("</section>\n");
}
