//! Full disclosure: everything that somebody needs to doubt the figures, or to get them again.

use super::{markup::Markup, section::table};
use crate::number::{bytes, counted, seconds, three};
use crate::published;
use crate::view::{self, Group, View, limit_word};
use tilemark_plan::plan::Demand;
use tilemark_record::{
    result::GuestDisk,
    summary::{RepeatSummary, programs_in_words},
};

pub(super) fn disclosure(page: &mut Markup, view: &View) {
    evidence(page, view);
    page.raw("<section class=\"part\" id=\"disclosure\"><h2>Full disclosure</h2><div class=\"command\"><code id=\"command\">");
    page.text(&view.report.result.provenance.command);
    page.raw("</code><button type=\"button\" data-copy=\"command\" aria-label=\"Copy the command\">Copy</button></div><p class=\"about\">Repeats this run. The record holds the rest: plan, events, histograms, consoles.</p><div class=\"columns\">");
    list(page, "Run", &run(view));
    list(page, "Host", &host(view));
    list(page, "Plan", &plan(view));
    list(page, "Guests of one tile", &guests(view));
    list(page, "Loads of one tile", &loads(view));
    list(page, "SHA-256", &hashes(view));
    page.raw("</div>");
    missing(page, view);
    page.raw("</section>\n");
    published(page, view);
}

/// A line of a list: its head and its text.
struct Line(String, String);

fn line(head: &str, text: impl Into<String>) -> Line {
    Line(head.to_owned(), text.into())
}

fn list(page: &mut Markup, title: &str, lines: &[Line]) {
    if lines.is_empty() {
        return;
    }
    page.raw("<section>").element("h3", "", title).raw("<dl>");
    for Line(head, text) in lines {
        page.raw("<div><dt>").text(head).raw("</dt><dd>").text(text).raw("</dd></div>");
    }
    page.raw("</dl></section>");
}

fn evidence(page: &mut Markup, view: &View) {
    let result = &view.report.result;
    page.raw("<section class=\"part\" id=\"evidence\"><h2>Evidence</h2><div class=\"columns\">");
    let limit = format!("First bottleneck: {}", limit_word(result.answer.limit.resource));
    bullets(page, &limit, &result.answer.limit.evidence, "no figure points at one resource");
    bullets(page, "Verdict", &result.verdict.reasons, "no check found anything that spoils the figures");
    let voided: Vec<String> = result
        .points
        .iter()
        .flat_map(|point| {
            let voided = point.repeats_voided.iter();
            voided.map(|void| {
                let is_it =
                    |repeat: &&RepeatSummary| (repeat.point, repeat.repeat) == (point.index, void.repeat);
                let others =
                    view.report.repeats.iter().find(is_it).map(|repeat| repeat.host.others.as_slice());
                let programs =
                    others.and_then(programs_in_words).filter(|_| view::is_of_foreign_load(&void.reason));
                let programs = programs.map(|programs| format!(" ({programs})")).unwrap_or_default();
                format!("{} \u{2013} {}{programs}", repeat_words(view, point.index, void.repeat), void.reason)
            })
        })
        .collect();
    bullets(page, "Repeats discarded", &voided, "none");
    let mut seen: Vec<String> = Vec::new();
    for repeat in &view.report.repeats {
        let place = repeat_words(view, repeat.point, repeat.repeat);
        let incidents = repeat.incidents.iter().map(|incident| match &incident.guest {
            Some(guest) => format!("{place}, {guest}: {}", incident.what),
            None => format!("{place}: {}", incident.what),
        });
        let errors = repeat.loads.iter().flat_map(|load| {
            load.errors.iter().map(|error| format!("{place}, {}: {error}", load.name)).collect::<Vec<_>>()
        });
        let hooks = repeat.hooks.iter().filter_map(|run| {
            Some(format!("{place}: --hook-{} failed: {}", run.hook.name(), run.failed.as_ref()?))
        });
        seen.extend(incidents.chain(errors).chain(hooks));
    }
    bullets(page, "Incidents and first errors", &seen, "none");
    page.raw("</div></section>\n");
}

/// A repeat, named as the steps are.
fn repeat_words(view: &View, point: usize, repeat: u32) -> String {
    let label = |group: &Group| {
        let known = group.points.iter().find(|known| known.index == point);
        known.map(|point| format!("{} {}: ", view.axis_words(), view.label(group, point)))
    };
    format!("{}repeat {repeat}", view.groups.iter().find_map(label).unwrap_or_default())
}

/// Lines that a list shows before it is folded.
const LINES_SHOWN: usize = 8;

fn bullets(page: &mut Markup, title: &str, lines: &[String], none: &str) {
    page.raw("<section>").element("h3", "", title);
    if lines.is_empty() {
        page.element("p", "aside", none);
    } else {
        page.raw("<ul>");
        for line in lines.iter().take(LINES_SHOWN) {
            page.element("li", "", line);
        }
        page.raw("</ul>");
    }
    if lines.len() > LINES_SHOWN {
        page.raw("<details><summary>")
            .text(&format!("{} more", lines.len() - LINES_SHOWN))
            .raw("</summary><ul>");
        for line in &lines[LINES_SHOWN..] {
            page.element("li", "", line);
        }
        page.raw("</ul></details>");
    }
    page.raw("</section>");
}

fn run(view: &View) -> Vec<Line> {
    let (result, plan) = (&view.report.result, &view.report.plan);
    let provenance = &result.provenance;
    let mut lines = vec![
        line("Id", &*result.run),
        line("Scenario", &*result.scenario),
        line("Preset", result.preset.as_deref().unwrap_or("none")),
        line("Began", &*provenance.began),
        line(
            "Took",
            format!("{} (expected {})", seconds(provenance.seconds), seconds(provenance.expected_seconds)),
        ),
        line("Seed", plan.seed.to_string()),
        line("Tilemark", &*provenance.tilemark),
        line("Format", format!("result {}, plan {}", result.schema, plan.schema)),
    ];
    let hooks = [("before", &provenance.hooks.before), ("after", &provenance.hooks.after)];
    let given = hooks.into_iter().filter_map(|(when, command)| Some((when, command.as_ref()?)));
    lines.extend(given.map(|(when, command)| line(&format!("Hook {when}"), &**command)));
    lines.extend(plan.settings.iter().map(|(key, value)| line(&format!("Set {key}"), &**value)));
    lines
}

fn host(view: &View) -> Vec<Line> {
    let provenance = &view.report.result.provenance;
    let none = "not used";
    let mut lines = vec![
        line("Name", if provenance.host.is_empty() { "not named" } else { &provenance.host }),
        line(
            "Processor",
            format!("{}, {}", provenance.processor, counted(provenance.threads.into(), "thread")),
        ),
        line("Memory", bytes(provenance.memory_bytes)),
        line("Kernel", &*provenance.kernel),
        line("QEMU", view.qemu().unwrap_or(none)),
        line("Image", provenance.image.as_deref().unwrap_or(none)),
        line("Kernel of guests", provenance.guest_kernel.as_deref().unwrap_or(none)),
        line("Threads for load", threads(&view.report.plan.processors.load)),
        line("Threads for guests", threads(&view.report.plan.processors.guests)),
    ];
    lines.extend(provenance.disks.iter().map(disk));
    lines
}

/// A disk of the user's own that a guest booted.
fn disk(disk: &GuestDisk) -> Line {
    let GuestDisk { guest, file, format, bytes: length, mark, kernel } = disk;
    let kernel = kernel.as_ref().map_or(String::new(), |kernel| format!(", kernel {kernel}"));
    line(&format!("Disk of {guest}"), format!("{file} ({format}, {}), {mark}{kernel}", bytes(*length)))
}

/// `0-3,8`
fn threads(ids: &[u32]) -> String {
    let mut runs: Vec<(u32, u32)> = Vec::new();
    for id in ids {
        match runs.last_mut() {
            Some((_, last)) if last.checked_add(1) == Some(*id) => *last = *id,
            _ => runs.push((*id, *id)),
        }
    }
    let words = runs.iter().map(|(first, last)| match first == last {
        true => first.to_string(),
        false => format!("{first}-{last}"),
    });
    words.collect::<Vec<_>>().join(",")
}

fn plan(view: &View) -> Vec<Line> {
    let plan = &view.report.plan;
    let scenario = &plan.scenario;
    let tiles: Vec<String> = scenario.ladder.tiles.iter().map(u32::to_string).collect();
    let mut lines = vec![
        line("About", &*scenario.about),
        line("Headline load", scenario.headline.as_deref().unwrap_or("none: this scenario sends no load")),
        line("Ladder", format!("{} tiles", tiles.join(", "))),
        line("Gate", crate::view::gate_words(&scenario.gate)),
        line(
            "Measurement",
            format!(
                "{} repeats of {} after {} of warming up, in random order within blocks",
                scenario.measure.repeats,
                scenario.measure.length.rounded(),
                scenario.measure.warmup.rounded()
            ),
        ),
        line(
            "Guests are created by",
            match scenario.measure.start {
                tilemark_plan::scenario::Start::Clone => "cloning a warmed template of their role",
                tilemark_plan::scenario::Start::Boot => "booting each one",
            },
        ),
    ];
    if let Some(search) = &plan.search {
        let twin = if search.twin { ", then the largest that holds beside its native twin" } else { "" };
        lines.push(line("Search", format!("from {} to at most {} tiles{twin}", search.from, search.limit)));
    }
    lines.extend(scenario.vary.iter().map(|(name, vary)| {
        let values: Vec<String> = vary.values.iter().map(|value| value.to_string()).collect();
        line(&format!("Varies: {name}"), format!("{} = {}", vary.key, values.join(", ")))
    }));
    lines
}

fn guests(view: &View) -> Vec<Line> {
    let guests = view.report.plan.scenario.guest.iter().map(|guest| {
        let disks: Vec<String> =
            guest.disk.iter().map(|disk| format!("disk of {}", disk.size.rounded())).collect();
        let disks = if disks.is_empty() { String::new() } else { format!(", {}", disks.join(", ")) };
        let roles: Vec<&str> = guest.roles().iter().map(|role| role.name()).collect();
        let text = format!("{}: {} vCPU, {}{disks}", roles.join(" + "), guest.vcpus, guest.memory.rounded());
        line(&guest.name, text)
    });
    guests.collect()
}

fn loads(view: &View) -> Vec<Line> {
    let Some(point) = view.report.plan.points.first() else {
        return Vec::new();
    };
    let loads = point.loads.iter().filter(|load| load.tile == 1).filter_map(|load| {
        let under_way = load.in_flight(point.guests.get(load.guest as usize)?);
        let demand = match &load.demand {
            Demand::Open { rate, arrival, .. } => {
                let arrival = match arrival {
                    tilemark_plan::scenario::Arrival::Poisson => "Poisson",
                    tilemark_plan::scenario::Arrival::Even => "even",
                    tilemark_plan::scenario::Arrival::Bursts => "bursts",
                };
                let (rate, unit) = (three(rate.get()), load.work.facts().unit());
                format!("open loop, {rate} {unit}/s, {arrival}, {}", under_way.in_open_loop())
            }
            // A command counts in a unit of its own, which no other line need show.
            Demand::Closed if load.work.facts().starts_own_program() => {
                format!(
                    "closed loop, {}, counted in {}",
                    under_way.in_closed_loop(),
                    load.work.facts().unit()
                )
            }
            Demand::Closed => format!("closed loop, {}", under_way.in_closed_loop()),
        };
        let sender = load.from.and_then(|from| point.guests.get(from as usize));
        let sender = sender.map(|guest| format!(", sent from {}", guest.name)).unwrap_or_default();
        Some(line(&load.name, format!("{}: {demand}{sender}", load.work.name())))
    });
    loads.collect()
}

fn hashes(view: &View) -> Vec<Line> {
    view.report.result.provenance.hashes.iter().map(|(name, hash)| line(name, &**hash)).collect()
}

fn missing(page: &mut Markup, view: &View) {
    let missing = &view.report.result.missing;
    if missing.is_empty() {
        return;
    }
    page.raw("<details><summary>").text(&format!("{} not measured", counted(missing.len() as u64, "figure")));
    page.raw("</summary><dl class=\"plain\">");
    for (figure, reason) in missing {
        page.raw("<div><dt><code>").text(figure).raw("</code></dt><dd>").text(reason).raw("</dd></div>");
    }
    page.raw("</dl></details>");
}

fn published(page: &mut Markup, view: &View) {
    let emulated = view.all_emulated();
    page.raw("<details class=\"part\" id=\"published\"><summary>Published figures</summary><p class=\"about\">From the papers that this tool comes from, on the machines of their time. They show the order of magnitude");
    page.raw(if emulated {
        "; figures of emulated guests cannot be compared with them.</p>"
    } else {
        ".</p>"
    });
    for (place, paper) in published::papers(&view.report.plan.scenario).into_iter().enumerate() {
        page.raw("<section>").element("h3", "", &paper.title);
        page.element("p", "about", &paper.about);
        table(page, &format!("published-{place}"), &view::published(&paper)).raw("</section>");
    }
    page.raw("</details>\n");
}
