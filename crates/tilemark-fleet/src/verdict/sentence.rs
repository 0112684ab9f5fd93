//! The verdict in sentences.

use crate::End;
use tilemark_record::result::Figure;
use tilemark_report::{FleetGroup, FleetHost, FleetMeasure, FleetOutcome, FleetVerdict, HostDifference};

/// Names that a sentence has room for.
const NAMES_SHOWN: usize = 20;
/// Hosts that a sentence describes.
const DESCRIBED: usize = 3;

/// `1 host`, `3 hosts`
pub(super) fn hosts(count: usize) -> String {
    if count == 1 { "1 host".to_owned() } else { format!("{count} hosts") }
}

/// `h1, h2 and 5 more`
pub(super) fn names<'n>(all: impl Iterator<Item = &'n str>) -> String {
    let all: Vec<&str> = all.collect();
    let shown = all[..all.len().min(NAMES_SHOWN)].join(", ");
    match all.len().saturating_sub(NAMES_SHOWN) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}

/// What was asked and who is missing; which hosts differ; whether the others are alike; what they carry. `failing` has for each group which
/// hosts fail and are not named for it.
pub(super) fn fleet(found: &FleetVerdict, failing: &[Option<String>]) -> Vec<String> {
    let mut first = format!("{} asked, {} measured, {} trusted.", found.asked, found.measured, found.trusted);
    if !found.missing.is_empty() {
        let missing = found.hosts.iter().filter(|host| !host.measured);
        let missing: Vec<String> =
            missing.map(|host| format!("{} ({})", host.name, host.end.words())).collect();
        first = format!("{first} Missing: {}.", names(missing.iter().map(String::as_str)));
    }
    let not_restored: Vec<&FleetHost> =
        found.hosts.iter().filter(|host| host.end == End::NotRestored).collect();
    if !not_restored.is_empty() {
        let names = names(not_restored.iter().map(|host| &*host.name));
        let on = if not_restored.len() == 1 { "it" } else { "each" };
        first = format!("{first} Not restored: {names} (`sudo tilemark recover` on {on}).");
    }
    let mut said = vec![first];
    said.extend(Some(differing(found).join(" ")).filter(|text| !text.is_empty()));
    let failing = found.groups.iter().zip(failing).filter_map(|(group, failing)| {
        let of = if found.groups.len() > 1 { format!("{}: ", group.name) } else { String::new() };
        Some(format!("{of}{}.", failing.as_ref()?))
    });
    said.extend(failing);
    said.extend(others(found));
    said.extend(left_out(found));
    said.extend(carries(found));
    said
}

fn differing(found: &FleetVerdict) -> Vec<String> {
    let mut said = Vec::new();
    for group in found.groups.iter().filter(|group| !group.named.is_empty()) {
        let pair = pair(found, group);
        said.extend(pair.map(|pair| two_hosts(pair, group)));
        let is_of_pair = |name: &str| pair.is_some_and(|pair| pair.iter().any(|host| host.name == name));
        let others: Vec<&String> = group.named.iter().filter(|name| !is_of_pair(name)).collect();
        for name in others.iter().take(DESCRIBED) {
            let host = found.hosts.iter().find(|host| host.name == **name);
            said.extend(host.map(|host| one_host(host, group)));
        }
        if others.len() > DESCRIBED {
            let more = others[DESCRIBED..].iter().map(|name| name.as_str());
            said.push(format!("So do {}.", names(more)));
        }
    }
    if !found.named.is_empty() {
        said.push(match &found.confirmation {
            Some(confirmation) => format!("Confirmed by a second measurement ({}).", confirmation.fleet),
            None => suspects(&found.named),
        });
    }
    if let Some(confirmation) = found.confirmation.as_ref().filter(|one| !one.not_confirmed.is_empty()) {
        let not = confirmation.not_confirmed.iter().map(String::as_str);
        said.push(format!("Not confirmed: {}.", names(not)));
    }
    said
}

/// Hosts that differed in one run are no more than that.
fn suspects(named: &[String]) -> String {
    let are = if named.len() == 1 { "is a suspect" } else { "are suspects" };
    let names = names(named.iter().map(String::as_str));
    format!(
        "{names} {are}: each host was measured in one run only. Measure again with `fleet confirm` before you blame a host."
    )
}

/// Why a host is not compared or differs by no measure; of one that is named by how much it fails, that too.
pub(super) fn why(host: &FleetHost) -> Option<String> {
    let is_named = host.outcome == FleetOutcome::Differs;
    let errors = host.errors.as_ref().filter(|errors| is_named && errors.outcome == FleetOutcome::Differs);
    let all: Vec<String> = host.why.iter().cloned().chain(errors.map(errors_words)).collect();
    (!all.is_empty()).then(|| all.join("; "))
}

/// How much of its requests a host fails, and the others that fail.
fn errors_words(errors: &HostDifference) -> String {
    let median = errors.value / (1.0 + errors.change.value);
    format!(
        "{:.1} % of its requests fail, and {:.1} % is the median of the hosts that fail",
        errors.value * 100.0,
        median * 100.0
    )
}

/// Whether only two hosts of a group have a measure: each figure of it is beside the other host then, and not beside a median.
pub(super) fn is_of_two(group: &FleetGroup, measure: &str) -> bool {
    group.measures.iter().any(|one| one.name == measure && one.hosts == 2)
}

/// The two hosts of a group that differ only in measures that only they have: it cannot be said which one is out of line.
pub(super) fn pair<'v>(found: &'v FleetVerdict, group: &FleetGroup) -> Option<[&'v FleetHost; 2]> {
    let is_of_pair = |host: &&FleetHost| {
        let mut odd = odd(host).peekable();
        let is_odd = group.named.contains(&host.name) && odd.peek().is_some();
        is_odd && odd.all(|change| is_of_two(group, &change.measure))
    };
    let hosts: Vec<&FleetHost> = found.hosts.iter().filter(is_of_pair).collect();
    hosts.try_into().ok()
}

fn odd(host: &FleetHost) -> impl Iterator<Item = &HostDifference> {
    host.changes.iter().filter(|change| change.outcome == FleetOutcome::Differs)
}

fn one_host(host: &FleetHost, group: &FleetGroup) -> String {
    let step = group.step.as_deref().unwrap_or_default();
    let words = |change: &HostDifference| {
        let of_two =
            if is_of_two(group, &change.measure) { " beside the only other host with it" } else { "" };
        format!("{}{of_two}", change_words(change))
    };
    let odd: Vec<String> = odd(host).map(words).collect();
    match (odd.is_empty(), &host.why) {
        (true, Some(why)) => format!("{} differs from its group: {why}.", host.name),
        (_, why) => {
            let more = why.iter().map(|why| format!("; {why}")).collect::<String>();
            format!("{} differs from the median of its group {step}: {}{more}.", host.name, odd.join(", "))
        }
    }
}

fn two_hosts([one, other]: [&FleetHost; 2], group: &FleetGroup) -> String {
    let odd: Vec<String> = odd(one).map(change_words).collect();
    let why = |host: &FleetHost| host.why.as_ref().map(|why| format!(" {}: {why}.", host.name));
    format!(
        "{0} and {1} differ {2}. {0} beside {1}: {3}.{4} With two hosts only, it is unknown which of them is out of line.",
        one.name,
        other.name,
        group.step.as_deref().unwrap_or_default(),
        odd.join(", "),
        why(one).into_iter().chain(why(other)).collect::<String>(),
    )
}

/// `web p50 +8.1 % [+7.0 %, +9.2 %]`
fn change_words(change: &HostDifference) -> String {
    format!("{} {}", change.measure, percent_words(&change.change))
}

/// `+8.1 % [+7.0 %, +9.2 %]`
pub(super) fn percent_words(figure: &Figure) -> String {
    let interval = figure.low.zip(figure.high);
    let interval = interval.map(|(low, high)| format!(" [{}, {}]", percent(low), percent(high)));
    format!("{}{}", percent(figure.value), interval.unwrap_or_default())
}

fn percent(part: f64) -> String {
    let sign = if part < 0.0 { '\u{2212}' } else { '+' };
    format!("{sign}{:.1} %", part.abs() * 100.0)
}

/// Whether the hosts that are not named are alike.
fn others(found: &FleetVerdict) -> Option<String> {
    if found.measured == 0 {
        return None;
    }
    if found.measured == 1 {
        return Some("One host has nothing to be compared with.".to_owned());
    }
    let compared = || found.hosts.iter().filter(|host| host.outcome != FleetOutcome::NotCompared);
    let of = |outcome| compared().filter(|host| host.outcome == outcome).count();
    let (alike, open) = (of(FleetOutcome::Alike), of(FleetOutcome::CannotTell));
    let within = within(found);
    let in_groups = if found.groups.len() > 1 { " with the others of their group" } else { "" };
    let are_all = alike + found.named.len() == found.measured;
    match (alike, open) {
        (0, 0) if found.named.is_empty() => Some("No hosts could be compared.".to_owned()),
        (0, 0) => None,
        (alike, 0) if found.named.is_empty() => {
            let all = if alike == found.measured { "All " } else { "" };
            Some(format!("{all}{} are alike{in_groups}{within}.", hosts(alike)))
        }
        (1, 0) if are_all => Some(format!("The other host is like its group{within}.")),
        (alike, 0) if are_all => Some(format!("The other {} are alike{in_groups}{within}.", hosts(alike))),
        (1, 0) => Some(format!("1 other host is like its group{within}.")),
        (alike, 0) => Some(format!("{alike} others are alike{in_groups}{within}.")),
        (_, open) => {
            let whole = match open {
                _ if open == compared().count() => "whether the hosts are alike".to_owned(),
                1 if found.groups.len() > 1 => {
                    "of 1 host whether it is like the others of its group".to_owned()
                }
                1 => "of 1 host whether it is like the others".to_owned(),
                _ => format!("of {} whether they are alike{in_groups}", hosts(open)),
            };
            Some(format!("It is not known {whole}."))
        }
    }
}

/// Hosts that were measured and are not compared, where others are. Why in full is in their rows.
fn left_out(found: &FleetVerdict) -> Option<String> {
    let is_left_out = |host: &&FleetHost| host.measured && host.outcome == FleetOutcome::NotCompared;
    let words = |host: &FleetHost| {
        let why = host.why.as_deref().unwrap_or("no other host of its group");
        format!("{} ({})", host.name, why.split_once(": ").map_or(why, |(first, _)| first))
    };
    let out: Vec<String> = found.hosts.iter().filter(is_left_out).map(words).collect();
    (!out.is_empty() && out.len() < found.measured)
        .then(|| format!("Not compared: {}.", names(out.iter().map(String::as_str))))
}

/// ` within 3 % in web p50 and 5 % in web p99`
fn within(found: &FleetVerdict) -> String {
    let mut parts: Vec<String> = Vec::new();
    for measure in found.groups.iter().flat_map(|group| &group.measures).filter(|one| one.why.is_none()) {
        let part = format!("{:.0} % in {}", measure.least_change * 100.0, measure.name);
        if !parts.contains(&part) {
            parts.push(part);
        }
    }
    if parts.is_empty() { String::new() } else { format!(" within {}", parts.join(" and ")) }
}

/// Which measures of a group cannot tell, and how many repeats would.
pub(super) fn why_not_known(measures: &[FleetMeasure]) -> String {
    let open = measures.iter().filter(|measure| measure.outcome == FleetOutcome::CannotTell);
    let words = |measure: &FleetMeasure| match measure.repeats_to_tell {
        Some(repeats) => format!(
            "{}: about {repeats} repeats of each host would show whether they are alike within {:.0} %",
            measure.name,
            measure.least_change * 100.0
        ),
        None => format!("{}: it would take more than 1,000 repeats of each host", measure.name),
    };
    let all: Vec<String> = open.map(words).collect();
    if all.is_empty() { "some hosts lack figures of a measure".to_owned() } else { all.join("; ") }
}

/// How many tiles: of the fleet only where no host is missing and each is trusted.
fn carries(found: &FleetVerdict) -> Option<String> {
    let known = found.groups.iter().filter_map(|group| group.capacity.as_ref());
    let (sum, count, least, open) = known.fold((0, 0, u32::MAX, 0), |(sum, count, least, open), one| {
        (sum + one.sum, count + one.hosts, least.min(one.min), open + one.at_least)
    });
    if count == 0 {
        return None;
    }
    let at_least = if open > 0 { "at least " } else { "" };
    let tiles = |count: u64| if count == 1 { "1 tile".to_owned() } else { format!("{count} tiles") };
    let is_whole = found.missing.is_empty() && count == found.asked;
    Some(match is_whole {
        true if count == 1 => format!("It holds {at_least}{}.", tiles(sum)),
        true => format!("The fleet holds {at_least}{}: {} on the host with the fewest.", tiles(sum), least),
        false => {
            format!("The {} with a trusted answer carry {at_least}{} together.", hosts(count), tiles(sum))
        }
    })
}
