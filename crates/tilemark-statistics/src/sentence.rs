//! The answer in one or two sentences that can be copied whole: the same on paper, in a browser and in a terminal.

use std::collections::BTreeSet;

use tilemark_plan::plan::{Backend, Demand, Hardware, LoadPlan, Plan, Point};
use tilemark_plan::workload::{MessagingMeasure, MessagingParameters, Work};
use tilemark_record::result::{
    Answer, Break, Comparison, ComparisonOutcome, Cost, Counts, Difference, FailureComparison, Figure,
    Function, GateMeasure, Interference, LimitResource, MeasureComparison, MeasureEffect, More, PointResult,
    RoleFailure, Screening, SettingEffect, SettingOutcome, Slowdown, Verdict, VerdictStatus,
};
use tilemark_record::summary::Better;
use tilemark_units::counted;

use crate::judge::Pairing;

/// How repeats of a setting are called among its failures where other shares of them were discarded with it and without it.
pub(crate) const DISCARDED: &str = "repeats that were discarded";

/// How many the host carries: a range where the repeats allow no single count, each figure with its interval.
pub fn answer(plan: &Plan, answer: &Answer, points: &[PointResult], verdict: &Verdict) -> String {
    if let Some(reason) = &answer.none_because {
        let further = verdict.reasons.iter().find(|further| *further != reason);
        return with_doubt(format!("No answer: {reason}."), further.map(|reason| doubted(verdict, reason)));
    }
    let mut sentences = Vec::new();
    sentences.extend(answer.holds.map(|tiles| carries(plan, answer, points, verdict, tiles)));
    sentences.extend(answer.undecided.map(|counts| undecided_counts(plan, counts, points, answer)));
    sentences.extend(answer.breaks.as_ref().map(|broke| breaks(plan, broke, points, answer)));
    if sentences.is_empty() {
        return "No answer: no step was measured.".to_owned();
    }
    sentences.extend(ran_out(answer));
    sentences.extend(untried(plan, answer));
    sentences.extend(doubt(verdict));
    sentences.extend(answer.more.as_ref().map(further_minutes));
    if plan.host.hardware == Hardware::Virtual {
        sentences
            .push("This host is a virtual machine: the answer is for this hour, on this machine.".to_owned());
    }
    sentences.join(" ")
}

/// `This host carries 6 tiles: 24 guests, 1.5 vCPUs per hardware thread, 200 requests/s each. Their p99 was 32 ms [29, 36], within
/// the limit of 50 ms in 5 of 5 repeats.` Where a tile is one guest: `This host carries 28 of these guests: 1.5 vCPUs …`
fn carries(plan: &Plan, answer: &Answer, points: &[PointResult], verdict: &Verdict, count: u32) -> String {
    let is_native = answer.backend == Some(Backend::Native);
    let planned =
        plan.points.iter().find(|point| point.tiles == count && Some(point.backend) == answer.backend);
    let guests = planned.map_or(0, |point| point.guests.len() as u64);
    let at_least = if answer.breaks.is_none() { "at least " } else { "" };
    // Where our own load was saturated, more was tried than holds.
    let most_tried = answer.breaks.is_none()
        && answer.undecided.is_none()
        && answer.limit.resource != LimitResource::LoadGenerator
        && verdict.status == VerdictStatus::Trusted;
    // Memory may be short at a count that was measured without success, too.
    let memory_end = plan.search.as_ref().and_then(|search| search.memory_end);
    let is_memory = answer.breaks.is_none() && memory_end.is_some_and(|end| end.tiles == count + 1);
    let last = match (is_memory, most_tried) {
        (true, _) => ", the most that fit into its memory",
        (false, true) => ", the most tried",
        (false, false) => "",
    };
    let at_least = if is_memory { "" } else { at_least };
    let without = if is_native { " measured without VMs" } else { "" };
    let mut details = Vec::new();
    let carried = if is_one_guest(plan) {
        format!("{count} of these {}s", what_is_counted(plan, answer))
    } else {
        details.push(format!("{}{without}", counted(guests, if is_native { "service" } else { "guest" })));
        tiles(count)
    };
    let without = if is_one_guest(plan) { without } else { "" };
    details.extend(answer.vcpus_per_thread.filter(|_| !is_native).map(|share| {
        let noun = if share == 1.0 { "vCPU" } else { "vCPUs" };
        format!("{} {noun} per hardware thread", short(share))
    }));
    details.extend(planned.and_then(|planned| demand(plan, planned)));
    let details = if details.is_empty() { String::new() } else { format!(": {}", details.join(", ")) };
    let mut text = format!("This host carries {at_least}{carried}{without}{last}{details}.");
    let Some(planned) = planned else { return text };
    let point = measured(points, answer, count);
    let limit = short(planned.gate.p99.as_milliseconds());
    if let Some((point, p99)) = point.and_then(|point| Some((point, point.p99_ms?))) {
        let within = point.repeats_within.map_or_else(
            || format!("the limit is {limit} ms"),
            |within| {
                let repeats = counted(u64::from(point.repeats_kept), "repeat");
                match within == point.repeats_kept {
                    true => format!("within the limit of {limit} ms in {within} of {repeats}"),
                    false => {
                        format!("the limit is {limit} ms; {within} of {repeats} were within every limit")
                    }
                }
            },
        );
        text +=
            &format!(" Their p99 was {} ms{}, {within}.", short(p99.value), range(p99.low, p99.high, short));
    }
    if let Some(point) = point.filter(|point| !point.repeats_voided.is_empty()) {
        let discarded = counted(point.repeats_voided.len() as u64, "more repeat");
        text += &format!(
            " {discarded} at this count {} discarded.",
            if point.repeats_voided.len() == 1 { "was" } else { "were" }
        );
    }
    text
}

fn measured<'a>(points: &'a [PointResult], answer: &Answer, count: u32) -> Option<&'a PointResult> {
    points.iter().find(|point| point.tiles == count && Some(point.backend) == answer.backend)
}

/// `17 to 18 tiles are undecided: at 17 tiles the p99 of web in tile 3 was 47 ms [41, 55].`
fn undecided_counts(plan: &Plan, counts: Counts, points: &[PointResult], answer: &Answer) -> String {
    let Counts { from, to } = counts;
    let noun = what_is_counted(plan, answer);
    let which = if from == to {
        format!("{} {}", counted(from, noun), if from == 1 { "is" } else { "are" })
    } else {
        format!("{from} to {to} {noun}s are")
    };
    let mut inside = points
        .iter()
        .filter(|point| Some(point.backend) == answer.backend && (from..=to).contains(&point.tiles));
    let shown = inside.find_map(|point| Some((point.tiles, point.across.first()?)));
    let shown = shown.map_or(String::new(), |(count, limit)| {
        format!(": at {} {}", counted(count, noun), what_broke(limit))
    });
    format!("{which} undecided{shown}.")
}

/// `7 tiles do not hold: the p99 of web in tile 5 was 81 ms [74, 90] in 5 repeats.`
fn breaks(plan: &Plan, broke: &Break, points: &[PointResult], answer: &Answer) -> String {
    let repeats = measured(points, answer, broke.tiles).map_or(0, |point| point.repeats_kept);
    let what = what_broke(broke);
    let measured_in = if broke.measure.is_failure() || broke.low.is_none() {
        String::new()
    } else {
        format!(" in {}", counted(u64::from(repeats), "repeat"))
    };
    let count = counted(broke.tiles, what_is_counted(plan, answer));
    match answer.holds {
        Some(_) => format!("{count} do not hold: {what}{measured_in}."),
        None => format!("This host does not carry {count}: {what}{measured_in}."),
    }
}

/// `About 6 more minutes may be enough to decide: run the same command again with --more.`
fn further_minutes(more: &More) -> String {
    let minutes = more.minutes.ceil().max(1.0);
    let plural = if minutes > 1.0 { "s" } else { "" };
    format!(
        "About {minutes:.0} more minute{plural} may be enough to decide: run the same command again with --more."
    )
}

/// Why a limit leaves a point undecided: `the p99 of web in tile 5 was 48 ms [40, 58], across the limit`.
pub(crate) fn across(limit: &Break) -> String {
    format!("{}: its interval lies across the limit", what_broke(limit))
}

/// `256 idle guests were ready in 14.2 s and take 16.1 MiB and 0.4 % of a processor each. This is a density, not
/// a capacity.` Of the most that were measured; nothing where none was.
pub fn density(plan: &Plan, points: &[PointResult], verdict: &Verdict) -> Option<String> {
    let most = points.iter().filter(|point| point.repeats_kept > 0).max_by_key(|point| point.guests)?;
    let (one, noun) = (most.guests == 1, if most.backend == Backend::Native { "twin" } else { "guest" });
    let guests = format!("{} idle {noun}{}", most.guests, if one { "" } else { "s" });
    let was = if one { "was" } else { "were" };
    let ready = most.ready_s.map(|seconds| format!("{was} ready in {seconds:.1} s"));
    let threads = plan.host.threads.len() as f64;
    let processor = most.processor.map(|part| {
        let each = (part.guest_work + part.guest_overhead) * threads / f64::from(most.guests);
        format!("{} % of a processor", short(100.0 * each))
    });
    let memory = most.pss_mib_per_guest.map(|size| format!("{size:.1} MiB"));
    let takes: Vec<String> = memory.into_iter().chain(processor).collect();
    let emulated = plan.host.emulates(most.backend);
    let marked = if emulated { " Emulated: its times say nothing about hardware." } else { "" };
    let (take, each) = if one { ("takes", "") } else { ("take", " each") };
    let doubt = doubt(verdict).map_or_else(String::new, |doubt| format!(" {doubt}"));
    let takes = (!takes.is_empty()).then(|| format!("{take} {}{each}", takes.join(" and ")));
    let found: Vec<String> = ready.into_iter().chain(takes).collect();
    let found = if found.is_empty() { format!("{was} measured") } else { found.join(" and ") };
    Some(format!("{guests} {found}. This is a density, not a capacity.{marked}{doubt}"))
}

/// `web fails beside db: 40 % of its requests failed, 0 % alone. Largest slowdown: beside files, a request of db takes
/// 1.8 times [1.6, 2.1] as long as alone. 2 of 8 slowdowns are certain; the chance that any of them is a false alarm is at most 5 %.`
pub fn interference(found: &Interference, verdict: &Verdict) -> String {
    let failing = failing_roles(found);
    let known = found.slowdowns.iter().filter(|one| one.slowdown.is_some()).count() as u64;
    let effects = found.slowdowns.iter().filter(|one| one.is_certain()).count();
    let chance = found.level.map_or(String::new(), |level| {
        let which = if effects == 1 { "that it" } else { "that any of them" };
        format!("; the chance {which} is a false alarm is at most {} %", short(100.0 * level))
    });
    let worst = found.worst.as_ref().and_then(|worst| Some((worst, worst.slowdown?)));
    let slowdowns = match worst {
        Some((worst, figure)) => format!(
            "{}: beside {}, a request of {} takes {} times{} as long as alone. {effects} of {} {} certain{chance}.",
            if failing.is_some() { "Largest slowdown" } else { "Worst pair" },
            other_role(worst),
            worst.role,
            short(figure.value),
            range(figure.low, figure.high, short),
            counted(known, "slowdown"),
            if effects == 1 { "is" } else { "are" },
        ),
        None => format!(
            "No {}pair of roles is known to slow each other down ({} measured).",
            if failing.is_some() { "other " } else { "" },
            counted(known, "slowdown")
        ),
    };
    let sentences: Vec<String> = failing.into_iter().chain([slowdowns]).chain(doubt(verdict)).collect();
    sentences.join(" ")
}

/// `web fails beside db: 40 % of its requests failed, 0 % alone. 2 more pairs fail.` Nothing where none does.
fn failing_roles(found: &Interference) -> Option<String> {
    let failing = || found.slowdowns.iter().filter_map(|one| Some((one, one.fails.as_ref()?)));
    // A part of the repeats is not to be compared with a part of the requests: a guest that ended once is worse than requests that failed.
    let (worst, most) = failing().max_by(|(_, one), (_, other)| {
        let is_of_repeats = |of: &RoleFailure| of.detail.is_some();
        is_of_repeats(one).cmp(&is_of_repeats(other)).then(one.beside.total_cmp(&other.beside))
    })?;
    let first = format!("{} fails beside {}: {}.", worst.role, other_role(worst), fails(most));
    let pair = |one: &Slowdown| BTreeSet::from([one.role.clone(), one.beside.clone()]);
    let pairs: BTreeSet<BTreeSet<String>> = failing().map(|(one, _)| pair(one)).collect();
    Some(match pairs.len() - 1 {
        0 => first,
        1 => format!("{first} 1 more pair fails."),
        more => format!("{first} {more} more pairs fail."),
    })
}

fn other_role(of: &Slowdown) -> &str {
    if of.role == of.beside { "a second one of its kind" } else { &of.beside }
}

/// `40 % of its requests failed, 0 % alone`.
pub(crate) fn fails(failure: &RoleFailure) -> String {
    let RoleFailure { measure, beside, alone, detail } = failure;
    let (beside, alone) = (short(100.0 * beside), short(100.0 * alone));
    match detail {
        Some(detail) => format!("{detail}, but not when it ran alone"),
        None if *measure == GateMeasure::Achieved => {
            format!("{beside} % of its demand was not served, {alone} % alone")
        }
        None => format!("{beside} % of its requests failed, {alone} % alone"),
    }
}

/// `Of 11 settings, 1 pays: vm.swappiness = 10 (throughput +5.1 % [4.0, 6.2]). 9 have no effect that matters. 1 setting is undecided: it needs more repeats.`
pub fn screening(found: &Screening, verdict: &Verdict) -> String {
    let count = |outcome: SettingOutcome| found.of(outcome).count();
    let named = |outcome: SettingOutcome, one: &str, many: &str| {
        let settings: Vec<String> = found.of(outcome).map(setting).collect();
        let verb = if settings.len() == 1 { one } else { many };
        (!settings.is_empty()).then(|| format!("{} {verb}: {}", settings.len(), settings.join("; ")))
    };
    let screened = counted(found.settings.len() as u64, "setting");
    let pays = named(SettingOutcome::Pays, "pays", "pay");
    let lost: Vec<String> = found.of(SettingOutcome::CannotTell).filter_map(lost_repeats).collect();
    let unknown = count(SettingOutcome::CannotTell) - lost.len();
    let mut sentences = vec![match pays {
        Some(pays) => format!("Of {screened}, {pays}."),
        None if unknown == found.settings.len() => undecided_settings(unknown),
        None => format!("None of {screened} is known to pay."),
    }];
    sentences.extend(named(SettingOutcome::Harms, "harms", "harm").map(|text| format!("{text}.")));
    let none = count(SettingOutcome::NoEffect);
    if none > 0 {
        let verb = if none == 1 { "has" } else { "have" };
        sentences.push(format!("{none} {verb} no effect that matters."));
    }
    if (1..found.settings.len()).contains(&unknown) {
        sentences.push(undecided_settings(unknown));
    }
    sentences.extend(lost);
    sentences.extend(doubt(verdict));
    sentences.join(" ")
}

/// `vm.x = 1 is undecided: 45 % of the repeats with it were discarded, 0 % of those without it.` More repeats do not decide such a one.
fn lost_repeats(found: &SettingEffect) -> Option<String> {
    let FailureComparison { a, b, .. } = found.failures.iter().find(|failure| failure.name == DISCARDED)?;
    Some(format!(
        "{} = {} is undecided: {} % of the repeats with it were discarded, {} % of those without it.",
        found.key,
        found.value,
        short(100.0 * b),
        short(100.0 * a)
    ))
}

fn undecided_settings(count: usize) -> String {
    match count {
        1 => "1 setting is undecided: it needs more repeats.".to_owned(),
        _ => format!("{count} settings are undecided: they need more repeats."),
    }
}

/// `vm.swappiness = 10 (throughput +5.1 % [4.0, 6.2])`: what fails more with it, or else the measure whose effect in the direction of the
/// outcome is the most certain.
fn setting(found: &SettingEffect) -> String {
    let decided = found.failures.iter().find(|failure| failure.outcome == ComparisonOutcome::Worse);
    let why = decided.map(|failure| {
        let of = |share: f64| short(100.0 * share);
        format!("{}: {} % with it, {} % without", failure.name, of(failure.b), of(failure.a))
    });
    let why = why.or_else(|| surest_effect(found)).map(|why| format!(" ({why})"));
    format!("{} = {}{}", found.key, found.value, why.unwrap_or_default())
}

fn surest_effect(found: &SettingEffect) -> Option<String> {
    let is_of_outcome = |effect: &&MeasureEffect| match (effect.change, found.outcome) {
        (Some(change), SettingOutcome::Pays) => (change.value > 0.0) == effect.more_is_better,
        (Some(change), SettingOutcome::Harms) => (change.value > 0.0) != effect.more_is_better,
        (change, _) => change.is_some(),
    };
    let p = |effect: &&MeasureEffect| effect.p.unwrap_or(1.0);
    let surest =
        found.effects().iter().filter(is_of_outcome).min_by(|one, other| p(one).total_cmp(&p(other)));
    let effect = surest.and_then(|effect| Some((effect, effect.change?)));
    effect.map(|(MeasureEffect { measure, .. }, change)| {
        let percent = |part: f64| short(100.0 * part);
        let sign = if change.value < 0.0 { "" } else { "+" };
        let interval = range(change.low, change.high, percent);
        format!("{measure} {sign}{} %{interval}", percent(change.value))
    })
}

/// `Emulated guests work: 412 of 412 requests were answered correctly.`
pub fn function(function: &Function) -> String {
    let Function { proven, asked, right, failed, why_not, .. } = function;
    let counts = format!("{right} of {} were answered correctly", counted(*asked, "request"));
    match why_not.as_ref().filter(|_| !proven) {
        Some(why) if *asked == 0 => format!("It is not known whether emulated guests work: {why}."),
        Some(why) => format!("It is not proven that emulated guests work: {counts}; {why}."),
        None if *failed > 0 => format!("Emulated guests work: {counts}, {failed} failed."),
        None => format!("Emulated guests work: {counts}."),
    }
}

/// `Carries 5.9 million messages/s of 16 B and 295 thousand of 4096 B natively at 1 tile. At 1000 messages/s a message
/// of 16 B takes 0.108 ms on average, p99 0.479 ms. These are curves, not a capacity.` The ends of both curves at
/// the smallest step; nothing where anything but messages is loaded, something else than measure and size varies, or nothing can be said.
pub fn messages(plan: &Plan, points: &[PointResult], answer: &Answer, verdict: &Verdict) -> Option<String> {
    let mut own: Vec<(&LoadPlan, &MessagingParameters, &PointResult)> = Vec::new();
    for point in points.iter().filter(|point| Some(point.backend) == answer.backend) {
        let [load] = plan.points[point.index].loads.get(..1)? else { return None };
        let Work::Messaging(work) = &load.work else { return None };
        own.push((load, work, point));
    }
    own.retain(|(.., point)| has_most_repeats(point));
    let first = own.iter().map(|(.., point)| point.tiles).min()?;
    own.retain(|(.., point)| point.tiles == first);
    own.sort_by_key(|(_, work, _)| work.size);
    let is_same = |one: &MessagingParameters, other: &MessagingParameters| {
        (one.measure, one.size) == (other.measure, other.size)
    };
    if own
        .iter()
        .enumerate()
        .any(|(at, (_, work, _))| own[..at].iter().any(|(_, other, _)| is_same(work, other)))
    {
        // Something else varies too, and one curve would be made of several.
        return None;
    }
    let curve = |measure| own.iter().filter(move |(_, work, _)| work.measure == measure);
    let how = if answer.backend == Some(Backend::Native) { " natively" } else { "" };
    let mut sentences = Vec::new();
    let throughput = || {
        curve(MessagingMeasure::Throughput)
            .filter_map(|(_, work, point)| Some((work.size.get(), point.throughput.as_ref()?.figure.value)))
    };
    if let (Some((size, rate)), Some((largest, lowest))) = (throughput().next(), throughput().next_back()) {
        let (more, of) = many(rate);
        let mut text = format!("Carries {more}{of} messages/s of {size} B");
        if largest > size {
            let (fewer, of) = many(lowest);
            text += &format!(" and {fewer}{of} of {largest} B");
        }
        sentences.push(format!("{text}{how} at {}.", tiles(first)));
    }
    if let Some((load, work, point)) = curve(MessagingMeasure::Latency).next()
        && let Some(latency) = &point.latency_ms
        && let (Some(mean), Demand::Open { rate, .. }) = (latency.mean, &load.demand)
    {
        let tail = latency.p99.map_or_else(String::new, |p99| format!(", p99 {p99:.3} ms"));
        let rate = short(rate.get());
        sentences.push(format!(
            "At {rate} messages/s a message of {} B takes {mean:.3} ms on average{tail}.",
            work.size.get()
        ));
    }
    if sentences.is_empty() {
        return None;
    }
    sentences.push("These are curves, not a capacity.".to_owned());
    sentences.extend(doubt(verdict));
    Some(sentences.join(" "))
}

/// Whether most repeats of a point count: then it is reported even if the run is not trusted.
fn has_most_repeats(point: &PointResult) -> bool {
    point.repeats_kept > 0 && point.repeats_kept as usize >= point.repeats_voided.len()
}

/// A large number and its word.
fn many(value: f64) -> (String, &'static str) {
    match value {
        value if value >= 1e6 => (short(value / 1e6), " million"),
        value if value >= 1e4 => (short(value / 1e3), " thousand"),
        value => (short(value), ""),
    }
}

fn tiles(count: u32) -> String {
    counted(count, "tile")
}

/// Whether a tile is one guest, so that a reader counts guests.
fn is_one_guest(plan: &Plan) -> bool {
    plan.scenario.guest.len() == 1
}

/// The noun of a count in the answer.
fn what_is_counted(plan: &Plan, answer: &Answer) -> &'static str {
    match (is_one_guest(plan), answer.backend) {
        (false, _) => "tile",
        (true, Some(Backend::Native)) => "service",
        (true, _) => "guest",
    }
}

fn demand(plan: &Plan, point: &Point) -> Option<String> {
    let headline = plan.scenario.headline.as_deref();
    let load = point.loads.iter().find(|load| Some(load.name.as_str()) == headline);
    let load = load?;
    let guest = point.guests.get(load.guest as usize)?;
    Some(match &load.demand {
        Demand::Open { rate, .. } => format!("{} {}/s each", short(rate.get()), load.work.facts().unit()),
        Demand::Closed => format!("with {} at each", load.in_flight(guest).in_closed_loop()),
    })
}

/// `the p99 of web in tile 5 was 81 ms [74, 90]`
pub(crate) fn what_broke(broke: &Break) -> String {
    let who = broke.guest.as_deref().map_or_else(|| broke.load.clone(), guest);
    let percent = |value: f64| short(100.0 * value);
    if let Some(detail) = &broke.detail {
        return if broke.guest.is_some() { format!("{who}: {detail}") } else { detail.clone() };
    }
    match broke.measure {
        GateMeasure::P99 => {
            format!("the p99 of {who} was {} ms{}", short(broke.value), range(broke.low, broke.high, short))
        }
        GateMeasure::Mean => {
            format!("{who} took {} ms on average{}", short(broke.value), range(broke.low, broke.high, short))
        }
        GateMeasure::Good | GateMeasure::Tolerable => format!(
            "{} % of the pages of {who} were {}{}",
            percent(broke.value),
            if broke.measure == GateMeasure::Good { "good" } else { "tolerable" },
            range(broke.low, broke.high, percent)
        ),
        GateMeasure::Achieved => format!(
            "{who} was served {} % of its demand{}",
            percent(broke.value),
            range(broke.low, broke.high, percent)
        ),
        _ => format!(
            "{who} failed {} % of its requests{}",
            percent(broke.value),
            range(broke.low, broke.high, percent)
        ),
    }
}

/// `tile-005-web` is `web in tile 5`; another name is unchanged.
fn guest(name: &str) -> String {
    let parts = name.strip_prefix("tile-").and_then(|rest| rest.split_once('-'));
    match parts.and_then(|(tile, role)| Some((tile.parse::<u32>().ok()?, role))) {
        Some((tile, role)) => format!("{role} in tile {tile}"),
        None => name.to_owned(),
    }
}

fn range(low: Option<f64>, high: Option<f64>, text: impl Fn(f64) -> String) -> String {
    match (low, high) {
        (Some(low), Some(high)) => format!(" [{}, {}]", text(low), text(high)),
        _ => String::new(),
    }
}

fn ran_out(answer: &Answer) -> Option<String> {
    let what = match answer.limit.resource {
        LimitResource::Processor => "The CPU",
        LimitResource::Memory => "Memory",
        LimitResource::Disk => "The disk",
        LimitResource::Network => "The network",
        LimitResource::LoadGenerator => {
            let the = answer.holds.map_or("The".to_owned(), |held| format!("Above {} the", tiles(held)));
            return Some(format!("{the} load generator was saturated. This is not a limit of the host."));
        }
        LimitResource::Unknown => return None,
    };
    Some(format!("{what} was the first bottleneck."))
}

/// "5 to 7 tiles were not tried. To try them: `tilemark capacity first-look`."
fn untried(plan: &Plan, answer: &Answer) -> Option<String> {
    let gap = answer.untried?;
    let (from, to) = (gap.from, gap.to);
    let (counts, them) = match (from == to, from) {
        (true, 1) => ("1 tile was".to_owned(), "it"),
        (true, _) => (format!("{from} tiles were"), "them"),
        (false, _) => (format!("{from} to {to} tiles were"), "them"),
    };
    let on = answer.backend.filter(|backend| *backend == Backend::Native).map_or("", |_| " --on native");
    Some(format!("{counts} not tried. To try {them}: `{}{on}`.", plan.command("capacity")))
}

fn doubt(verdict: &Verdict) -> Option<String> {
    let first = verdict.reasons.first()?;
    (verdict.status != VerdictStatus::Trusted).then(|| doubted(verdict, first))
}

/// A reason of a verdict that is not trusted.
fn doubted(verdict: &Verdict, reason: &str) -> String {
    let word = if verdict.status == VerdictStatus::NotTrusted { "Not trusted" } else { "Cannot tell" };
    format!("{word}: {reason}.")
}

fn with_doubt(text: String, doubt: Option<String>) -> String {
    match doubt {
        Some(doubt) => format!("{text} {doubt}"),
        None => text,
    }
}

/// Where on their ladders guests and twins are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CostStep {
    /// Both hold the gate.
    Held,
    /// The guests are at the largest count that they hold.
    AtCapacity,
    /// The guests break the gate.
    GuestsBreak,
    /// Their twins do.
    TwinsBreak,
    /// Both do.
    BothBreak,
    /// It is not known whether both hold the gate.
    Unknown,
}

/// What virtualization costs. `better`: which way the one figure of a command is better, where the load has one.
pub fn cost(cost: &Cost, step: CostStep, better: Option<Better>) -> String {
    let better = match better {
        Some(Better::Lower) => " (lower is better)",
        Some(Better::Higher) => " (higher is better)",
        None => "",
    };
    let parts = [
        cost.processor.map(|figure| format!("guests use {} the CPU time for the same work", factor(&figure))),
        cost.p99.map(|figure| format!("their p99 is {} as long", factor(&figure))),
        cost.throughput.map(|figure| format!("their throughput is {} as high", factor(&figure))),
        cost.figure.map(|figure| format!("their figure is {} as high{better}", factor(&figure))),
    ];
    let costs: Vec<String> = parts.into_iter().flatten().collect();
    if costs.is_empty() {
        return format!("At {} the cost of virtualization is unknown.", tiles(cost.tiles));
    }
    let doubt = doubt_of_step(cost, step).map_or_else(String::new, |doubt| format!(" {doubt}"));
    format!("At {}, compared with their native twins: {}.{doubt}", tiles(cost.tiles), costs.join("; "))
}

/// What else than virtualization the ratios show.
fn doubt_of_step(cost: &Cost, step: CostStep) -> Option<String> {
    let who = match step {
        CostStep::AtCapacity => {
            return cost.p99.map(|_| {
                "Here the guests are at their capacity and the twins are not. The p99 ratio therefore depends on the load: it is not a \
                 fixed cost of virtualization."
                    .to_owned()
            });
        }
        CostStep::Held => return None,
        CostStep::Unknown => {
            return Some("It is not known whether guests and twins both hold the gate here.".to_owned());
        }
        CostStep::GuestsBreak => "the guests do not hold the gate",
        CostStep::TwinsBreak => "the twins do not hold the gate",
        CostStep::BothBreak => "neither the guests nor the twins hold the gate",
    };
    Some(format!(
        "Here {who}: the ratios also show overload or failures, and are not a fixed cost of virtualization."
    ))
}

fn factor(figure: &Figure) -> String {
    let of = |value: f64| format!("{value:.2}");
    format!("{} times{}", of(figure.value), range(figure.low, figure.high, of))
}

/// A side of which every repeat was discarded.
pub struct LostSide {
    /// Which one, how many repeats and why.
    pub reason: String,
    /// Whether others used the host in each of them.
    pub by_busy_host: bool,
}

impl LostSide {
    /// More of what is discarded is no remedy.
    fn remedy(&self) -> &'static str {
        if self.by_busy_host {
            "measure on a quiet host: end the programs that use its processors (`--wait-quiet 10m` waits until it is quiet); more repeats \
             would be discarded too"
        } else {
            "remove the cause first: more repeats would be discarded too"
        }
    }
}

/// Why a comparison has no outcome, whatever its figures are.
pub struct NoOutcome {
    /// Why nothing may be said about the sides, or why a measure that decides has no interval.
    pub reason: String,
    /// What to do, where more repeats do not help.
    pub remedy: Option<String>,
}

/// How two sides differ.
pub fn sides(
    comparison: &Comparison,
    pairing: Pairing,
    why_not: Option<&NoOutcome>,
    lost: Option<&LostSide>,
) -> String {
    let with = |outcome| first_with(comparison, pairing, outcome);
    let text = match comparison.outcome {
        ComparisonOutcome::Worse => {
            format!("B is worse than A in {}.", with(ComparisonOutcome::Worse).unwrap_or_default())
        }
        ComparisonOutcome::Better => {
            let better = with(ComparisonOutcome::Better).unwrap_or_default();
            let open = nearest_to_worse(comparison).map(|measure| open_beside_better(measure, pairing));
            format!("B is better than A in {better}.{}", open.unwrap_or_default())
        }
        ComparisonOutcome::NoDifference => no_difference(comparison, pairing),
        ComparisonOutcome::DiffersBetweenRuns => differs_between_runs(comparison, pairing),
        ComparisonOutcome::CannotTell => cannot_tell(comparison, pairing, why_not, lost),
    };
    format!("{text} {}", cause(&comparison.differences))
}

/// How the two sides of a run differ, with the doubt of the run. `of_sides`: how many of the verdict's reasons come from the comparison,
/// which has them in its own words where it cannot tell.
pub(crate) fn comparison(comparison: &Comparison, verdict: &Verdict, of_sides: usize) -> String {
    let text = comparison.sentence.clone();
    let are_named = comparison.outcome == ComparisonOutcome::CannotTell
        && (verdict.status != VerdictStatus::NotTrusted || text.contains("discarded"));
    let doubt = if are_named {
        verdict.reasons.get(of_sides).map(|reason| format!("Cannot tell: {reason}."))
    } else {
        doubt(verdict)
    };
    with_doubt(text, doubt)
}

/// The open measure in which B may be worse by the most margins.
fn nearest_to_worse(comparison: &Comparison) -> Option<&MeasureComparison> {
    let open =
        |measure: &&MeasureComparison| measure.primary && measure.outcome == ComparisonOutcome::CannotTell;
    let margins =
        |measure: &MeasureComparison| worst_loss(measure) / measure.margin.unwrap_or(f64::MIN_POSITIVE);
    comparison.measures.iter().filter(open).max_by(|one, other| margins(one).total_cmp(&margins(other)))
}

/// By what share B may be worse, to the further end of the interval; infinite without an interval.
fn worst_loss(measure: &MeasureComparison) -> f64 {
    let (low, high) = (measure.change.low, measure.change.high);
    let worst = if measure.more_is_better { low.map(|low| -low) } else { high };
    worst.unwrap_or(f64::INFINITY)
}

/// What is known of an open measure where B is better by another, or fails less.
fn open_beside_better(measure: &MeasureComparison, pairing: Pairing) -> String {
    let change = change(measure, pairing);
    match measure.margin {
        Some(margin) if worst_loss(measure) > margin => {
            let margin = short(100.0 * margin);
            format!(" It is not known whether it is worse by more than the margin of {margin} % in {change}.")
        }
        _ => format!(" It is not worse by more than the margin in {change}."),
    }
}

/// The first failure with this outcome, or else the first measure that decides.
fn first_with(comparison: &Comparison, pairing: Pairing, outcome: ComparisonOutcome) -> Option<String> {
    let failure = comparison.failures.iter().find(|failure| failure.outcome == outcome);
    let primary = || comparison.measures.iter().filter(|measure| measure.primary);
    let measure = || primary().find(|measure| measure.outcome == outcome);
    failure.map(failed).or_else(|| measure().map(|measure| change(measure, pairing)))
}

/// `errors of web at 1 tile: 30 % of B, 0 % of A`
fn failed(failure: &FailureComparison) -> String {
    let of = |share: f64| short(100.0 * share);
    format!("{}: {} % of B, {} % of A", failure.name, of(failure.b), of(failure.a))
}

/// The measure that is the furthest from an answer, by its interval against its margin.
fn widest<'m>(measures: impl Iterator<Item = &'m MeasureComparison>) -> Option<&'m MeasureComparison> {
    measures.max_by(|one, other| beyond_margin(one).total_cmp(&beyond_margin(other)))
}

/// How many margins the interval reaches, to its further end; infinite without an interval.
fn beyond_margin(measure: &MeasureComparison) -> f64 {
    let (Some(low), Some(high)) = (measure.change.low, measure.change.high) else { return f64::INFINITY };
    let factor = |change: f64| change.ln_1p().abs();
    factor(low).max(factor(high)) / factor(measure.margin.unwrap_or(f64::MIN_POSITIVE))
}

fn undecided(comparison: &Comparison, pairing: Pairing) -> Option<String> {
    let open = comparison
        .measures
        .iter()
        .filter(|measure| measure.primary && measure.outcome == ComparisonOutcome::CannotTell);
    widest(open).map(|measure| change(measure, pairing))
}

fn no_difference(comparison: &Comparison, pairing: Pairing) -> String {
    let primary = || comparison.measures.iter().filter(|measure| measure.primary);
    let Some(widest) = widest(primary()) else { return "No difference between A and B.".to_owned() };
    let margin = widest.margin.map_or_else(String::new, |margin| format!(" of {} %", short(100.0 * margin)));
    format!(
        "No difference between A and B: every measure lies within its margin. The least certain is {}, within the margin{margin}.",
        change(widest, pairing)
    )
}

/// Why single runs give no verdict, and what to do.
pub const TWO_RUNS: &str = "Each side has one run. Two runs of the same configuration also differ, so the change may not be the cause; \
    to fix: compare them in turn (`tilemark ab`), or measure three runs of each (`tilemark runs baseline`).";

fn differs_between_runs(comparison: &Comparison, pairing: Pairing) -> String {
    let of = |outcome| first_with(comparison, pairing, outcome);
    let found = of(ComparisonOutcome::Worse).or_else(|| of(ComparisonOutcome::Better)).unwrap_or_default();
    format!("These two runs differ in {found}. {TWO_RUNS}")
}

fn cannot_tell(
    comparison: &Comparison,
    pairing: Pairing,
    why_not: Option<&NoOutcome>,
    lost: Option<&LostSide>,
) -> String {
    if let Some(lost) = lost {
        return format!("No answer: {}; to fix: {}.", lost.reason, lost.remedy());
    }
    if comparison.voided.is_none() && comparison.measures.is_empty() {
        return "No answer: no step was measured on both sides; to fix: measure the same steps (`--tiles`) on the same \
                backend (`--on`)."
            .to_owned();
    }
    let primary = || comparison.measures.iter().filter(|measure| measure.primary);
    if pairing == Pairing::None && primary().next().is_some() {
        let why = why_not.map_or("no difference was seen between these two runs", |why| why.reason.as_str());
        return format!("No answer: {why}. {TWO_RUNS}");
    }
    if let Some(both) = fails_less_and_is_slower(comparison, pairing) {
        return format!("No answer: {both}. Weigh one against the other: more repeats will not decide it.");
    }
    let failure = open_failure(comparison);
    let (reason, fix) = match (failure, why_not, undecided(comparison, pairing)) {
        (Some(failure), ..) => (format!("{failure}, which can be chance"), more(None)),
        (None, Some(NoOutcome { reason, remedy }), _) => {
            (reason.clone(), remedy.clone().unwrap_or_else(|| more(None)))
        }
        (None, None, Some(open)) => {
            let widest = widest(primary().filter(|open| open.outcome == ComparisonOutcome::CannotTell));
            let margin = widest.and_then(|measure| measure.margin).unwrap_or_default();
            let better = first_with(comparison, pairing, ComparisonOutcome::Better)
                .map_or_else(String::new, |better| format!("B is better in {better}, but "));
            let text = format!(
                "{better}it is not known whether B is worse in {open}: its interval reaches beyond the margin of {} %",
                short(100.0 * margin)
            );
            (text, more(widest.and_then(repeats_wanted)))
        }
        (None, None, None) => ("the sides have no measure in common".to_owned(), more(None)),
    };
    format!("No answer: {reason}; to fix: {fix}.")
}

/// `B is better than A in errors of web at 1 tile: 0 % of B, 2 % of A, and worse in web p50 at 1 tile: +8.0 % [7.1, 8.9], 12 pairs`
fn fails_less_and_is_slower(comparison: &Comparison, pairing: Pairing) -> Option<String> {
    let is_open = |failure: &FailureComparison| failure.outcome == ComparisonOutcome::CannotTell;
    let less = comparison.failures.iter().find(|failure| failure.outcome == ComparisonOutcome::Better)?;
    let is_worse =
        |measure: &&MeasureComparison| measure.primary && measure.outcome == ComparisonOutcome::Worse;
    let slower = comparison.measures.iter().find(is_worse)?;
    (!comparison.failures.iter().any(is_open))
        .then(|| format!("B is better than A in {}, and worse in {}", failed(less), change(slower, pairing)))
}

fn open_failure(comparison: &Comparison) -> Option<String> {
    let open = |failure: &&FailureComparison| failure.outcome == ComparisonOutcome::CannotTell;
    comparison.failures.iter().find(open).map(failed)
}

fn more(repeats: Option<u32>) -> String {
    match repeats {
        Some(repeats) => format!("about {repeats} repeats (`--set measure.repeats={repeats}`)"),
        None => "more repeats (`--set measure.repeats=…`)".to_owned(),
    }
}

/// Repeats with which the interval would lie within the margin if the change stayed what it is; nothing where it lies beyond.
fn repeats_wanted(measure: &MeasureComparison) -> Option<u32> {
    let (low, high) = (measure.change.low?.ln_1p(), measure.change.high?.ln_1p());
    let room = measure.margin?.ln_1p() - measure.change.value.ln_1p().abs();
    let half = (high - low) / 2.0;
    let wanted = f64::from(measure.change.n_repeats) * (half / room).powi(2);
    (room > 0.0 && wanted < 1_000.0).then(|| wanted.ceil() as u32 + 1)
}

/// `4 KiB disk I/O: −6.1 % [−7.5, −4.8], 8 pairs`
fn change(measure: &MeasureComparison, pairing: Pairing) -> String {
    let Figure { value, low, high, n_repeats } = measure.change;
    let of = |value: f64| signed(100.0 * value);
    let each = match pairing {
        Pairing::Blocks => counted(n_repeats, "pair"),
        Pairing::None => format!("{} a side", counted(n_repeats, "repeat")),
        Pairing::Runs => format!("{} a side", counted(n_repeats, "run")),
    };
    format!("{}: {} %{}, {each}", measure.name, of(value), range(low, high, of))
}

fn cause(differences: &[Difference]) -> String {
    match differences {
        [] => "A and B have the same configuration.".to_owned(),
        [only] => format!("Only {} differs: {} (A), {} (B).", only.key, only.a, only.b),
        several => {
            let keys: Vec<&str> = several.iter().map(|difference| difference.key.as_str()).collect();
            format!("{} things differ, so no cause is named: {}.", keys.len(), keys.join(", "))
        }
    }
}

/// Two or three digits that matter, without empty ones.
fn short(value: f64) -> String {
    let text = match value.abs() {
        size if size >= 10.0 => format!("{value:.0}"),
        size if size >= 1.0 => format!("{value:.1}"),
        size if size >= 0.1 => format!("{value:.2}"),
        _ => format!("{value:.3}"),
    };
    if !text.contains('.') {
        return text;
    }
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// With a sign that is as wide as a plus.
fn signed(value: f64) -> String {
    let text = format!("{value:+.1}");
    text.replace('-', "−")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_setting_that_harms_is_named_with_what_it_harms() {
        let of = |measure: &str, change: f64| MeasureEffect {
            measure: measure.to_owned(),
            change: Some(Figure { value: change, low: None, high: None, n_repeats: 12 }),
            p: Some(0.001),
            resolution: None,
            margin: 0.03,
            more_is_better: measure == "throughput",
        };
        let mut found = SettingEffect {
            key: "vm.x".to_owned(),
            value: "1".to_owned(),
            found: None,
            claim: None,
            screened: vec![of("p50", -0.1), of("p99", 0.3), of("throughput", 0.0)],
            confirmed: Vec::new(),
            failures: Vec::new(),
            outcome: SettingOutcome::Harms,
        };
        assert_eq!(setting(&found), "vm.x = 1 (p99 +30 %)");
        found.outcome = SettingOutcome::Pays;
        assert_eq!(setting(&found), "vm.x = 1 (p50 -10 %)");
        found.outcome = SettingOutcome::Harms;
        found.failures.push(FailureComparison {
            name: "errors of web".to_owned(),
            a: 0.0,
            b: 0.02,
            p: Some(0.001),
            outcome: ComparisonOutcome::Worse,
        });
        assert_eq!(setting(&found), "vm.x = 1 (errors of web: 2 % with it, 0 % without)");
    }

    #[test]
    fn settings_that_are_undecided_and_sides_that_are_alike_are_named_as_that() {
        assert_eq!(undecided_settings(1), "1 setting is undecided: it needs more repeats.");
        assert_eq!(undecided_settings(3), "3 settings are undecided: they need more repeats.");
        assert_eq!(cause(&[]), "A and B have the same configuration.");
    }

    #[test]
    fn more_repeats_are_asked_for_only_where_a_possible_number_is_enough() {
        let of = |value: f64| MeasureComparison {
            name: "web p50".to_owned(),
            unit: None,
            a: None,
            b: None,
            change: Figure { value, low: Some(value - 0.02), high: Some(value + 0.02), n_repeats: 16 },
            p: None,
            resolution: None,
            margin: Some(0.03),
            primary: true,
            more_is_better: false,
            outcome: ComparisonOutcome::CannotTell,
        };
        assert_eq!(repeats_wanted(&of(0.02)), Some(66));
        assert_eq!(repeats_wanted(&of(0.03 - 1e-9)), None, "at its very margin no number is enough");
        assert_eq!(repeats_wanted(&of(0.05)), None);
    }
}
