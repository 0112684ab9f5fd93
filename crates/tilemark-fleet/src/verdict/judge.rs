//! From what was read to the verdict.

use super::{
    confirmed::{Confirmed, drop_unconfirmed},
    failures::Failures,
    group::{Group, Groups, groups, unusual},
    measure::{measures, name_by_errors, outcome_of},
    read::{HostRecord, ReadFleet, ReadHost, StepKey},
    sentence,
    step::{Figures, common_step, figures_at},
    threads,
};
use crate::End;
use std::collections::BTreeMap;
use tilemark_record::result::VerdictStatus;
use tilemark_report::{FLEET_SCHEMA, FleetGroup, FleetHost, FleetOutcome, FleetVerdict, GroupCapacity};
use tilemark_units::natural_key;

/// The verdict of a fleet. With a confirmation only hosts that it confirms are named.
pub(super) fn verdict(fleet: &ReadFleet, chosen: &Groups, confirmed: Option<Confirmed>) -> FleetVerdict {
    let mut hosts: Vec<FleetHost> = fleet.hosts.iter().map(described).collect();
    let groups = groups(fleet, chosen);
    let (mut described_groups, failing): (Vec<FleetGroup>, Vec<Option<String>>) =
        groups.iter().map(|group| judge_group(fleet, group, &mut hosts)).unzip();
    if let Some(confirmed) = &confirmed {
        drop_unconfirmed(confirmed, &mut hosts, &mut described_groups);
    }
    for host in &mut hosts {
        host.why = sentence::why(host);
    }
    let order: BTreeMap<&str, usize> =
        groups.iter().enumerate().map(|(place, group)| (&*group.name, place)).collect();
    hosts.sort_by_cached_key(|host| {
        // Hosts without a record come first: nobody should overlook them.
        let group = host.group.as_deref().and_then(|name| order.get(name)).map_or(0, |place| place + 1);
        (group, host.outcome, natural_key(&host.name))
    });
    let missing: Vec<String> =
        hosts.iter().filter(|host| !host.measured).map(|host| host.name.clone()).collect();
    let mut found = FleetVerdict {
        schema: FLEET_SCHEMA,
        fleet: fleet.id.clone(),
        scenario: fleet.hosts.iter().find_map(|host| Some(host.record.as_ref()?.scenario.clone())),
        asked: hosts.len(),
        measured: hosts.iter().filter(|host| host.measured).count(),
        trusted: hosts.iter().filter(|host| host.trusted).count(),
        missing,
        verdict: FleetOutcome::CannotTell,
        confirmed: confirmed.is_some() && described_groups.iter().any(|group| !group.named.is_empty()),
        named: named(&described_groups),
        confirmation: confirmed.map(|confirmed| confirmed.shown),
        reasons: fleet.asked_unknown.iter().cloned().chain(beside_others(fleet)).collect(),
        sentence: String::new(),
        paragraphs: Vec::new(),
        hosts,
        groups: described_groups,
    };
    conclude(&mut found, &failing);
    found
}

/// What the verdict of a host says against its own figures. The rows of narrow terminals have no room for it.
fn own_words(host: &FleetHost) -> Option<String> {
    let is_silent = host.end == End::Trusted || host.because.is_empty();
    (!is_silent).then(|| format!("{}, {}: {}", host.name, host.end.words(), host.because))
}

/// Hosts that did not answer while others took their turns: more than were to may have measured at the same time.
fn beside_others(fleet: &ReadFleet) -> Option<String> {
    let hosts: Vec<&str> =
        fleet.hosts.iter().filter(|host| host.turn_passed_on).map(|host| &*host.name).collect();
    let names = sentence::names(hosts.iter().copied());
    let were = if hosts.len() == 1 { "was" } else { "were" };
    (!hosts.is_empty())
        .then(|| format!("more hosts than `--at-once` allows may have measured at the same time: {names} {were} given up, and the next host began"))
}

/// A host before it is compared.
fn described(host: &ReadHost) -> FleetHost {
    let record = host.record.as_ref();
    let status = record.map(|record| record.verdict.status);
    let end = match (&host.end, status) {
        (Some(end), _) => end.end,
        (None, Some(VerdictStatus::Trusted)) => End::Trusted,
        (None, Some(VerdictStatus::NotTrusted)) => End::NotTrusted,
        (None, Some(VerdictStatus::CannotTell)) => End::CannotTell,
        (None, None) if host.step.as_deref().is_some_and(|step| step == "waiting") => End::NotSubmittedYet,
        (None, None) if host.step.is_some() => End::NotCollectedYet,
        (None, None) if host.attempts == 0 => End::NeverStarted,
        (None, None) => End::Lost,
    };
    let reasons = || record.map(|record| record.verdict.reasons.join("; ")).unwrap_or_default();
    let because = host.end.as_ref().map_or_else(reasons, |end| end.because.clone());
    FleetHost {
        name: host.name.clone(),
        end,
        exit_code: host.end.as_ref().and_then(|end| end.exit_code),
        because,
        attempt: record.map(|record| record.attempt),
        attempts: host.attempts,
        measured: record.is_some(),
        trusted: record.is_some_and(|record| record.trusted),
        group: None,
        run: record.map(|record| record.run.clone()),
        sentence: record.map(|record| record.sentence.clone()),
        capacity: record.and_then(|record| record.capacity.clone()),
        outcome: FleetOutcome::NotCompared,
        changes: Vec::new(),
        errors: None,
        why: None,
        unusual: Vec::new(),
        problems: host.problems.clone(),
    }
}

/// A group, and which of its hosts fail, where that does not make them differ: as many do as hold, or all.
fn judge_group(fleet: &ReadFleet, group: &Group, hosts: &mut [FleetHost]) -> (FleetGroup, Option<String>) {
    let record = |place: &usize| fleet.hosts[*place].record.as_ref().expect("hosts of groups have records");
    let records: Vec<&HostRecord> = group.hosts.iter().map(record).collect();
    for (place, unusual) in group.hosts.iter().zip(unusual(&records)) {
        hosts[*place].unusual = unusual;
        hosts[*place].group = Some(group.name.clone());
    }
    let mut judged = FleetGroup {
        name: group.name.clone(),
        hosts: group.hosts.iter().map(|place| fleet.hosts[*place].name.clone()).collect(),
        facts: group.facts.clone(),
        capacity: capacity(&records),
        step: None,
        measures: Vec::new(),
        outcome: FleetOutcome::CannotTell,
        named: Vec::new(),
        why: None,
    };
    let Some(key) = common_step(&[&records]) else {
        judged.why = Some("no step was measured with three repeats that count".to_owned());
        for place in &group.hosts {
            hosts[*place].why.clone_from(&judged.why);
        }
        return (judged, None);
    };
    judged.step = Some(key.words());
    let figures = threads::each(&records, |record| figures_at(record, &key));
    for (place, figures) in group.hosts.iter().zip(&figures) {
        if let Err(why) = figures {
            hosts[*place].why = Some(why.clone());
        }
    }
    let compared: Vec<(usize, &Figures)> = group
        .hosts
        .iter()
        .zip(&figures)
        .filter_map(|(place, figures)| Some((*place, figures.as_ref().ok()?)))
        .collect();
    let headline = records.iter().find_map(|record| record.headline.clone()).unwrap_or_default();
    let failures = Failures::at(&key, &records);
    let has_failed = |place: &usize| failures.has_failed(group.hosts.iter().position(|own| own == place));
    let failing: Vec<(usize, &Figures)> =
        compared.iter().filter(|(place, _)| has_failed(place)).copied().collect();
    judged.measures = measures(&headline, &compared, &failing, hosts);
    for (place, _) in &compared {
        hosts[*place].outcome = outcome_of(&hosts[*place], &judged.measures);
    }
    write_failures(&failures, &key, group, hosts);
    name_by_errors(&failing, hosts);
    let is_divided = failures.are_of_some() && !failures.most_hold();
    let failing = match is_divided {
        true => Some(failures.words(&key, &judged.hosts)),
        false => failures.words_of_all(&key),
    };
    let differs = group.hosts.iter().filter(|place| hosts[**place].outcome == FleetOutcome::Differs);
    judged.named = differs.map(|place| hosts[*place].name.clone()).collect();
    let outcomes = compared.iter().map(|(place, _)| hosts[*place].outcome).collect::<Vec<_>>();
    let (outcome, why) = of_group(&judged, &outcomes, is_divided);
    judged.outcome = outcome;
    let whys: Vec<String> = failing.iter().filter(|_| is_divided).cloned().chain(why).collect();
    judged.why = (!whys.is_empty()).then(|| whys.join("; "));
    (judged, failing)
}

/// What the hosts of a group that are compared say about it together.
fn of_group(
    judged: &FleetGroup,
    outcomes: &[FleetOutcome],
    is_divided: bool,
) -> (FleetOutcome, Option<String>) {
    let are_alike = judged.measures.iter().all(|measure| measure.outcome == FleetOutcome::Alike);
    if !judged.named.is_empty() {
        (FleetOutcome::Differs, None)
    } else if outcomes.len() < 2 {
        (FleetOutcome::CannotTell, Some(too_few(outcomes.len())))
    } else if outcomes.iter().all(|outcome| *outcome == FleetOutcome::Alike) && !is_divided {
        (FleetOutcome::Alike, None)
    } else if is_divided && are_alike {
        (FleetOutcome::CannotTell, None)
    } else {
        (FleetOutcome::CannotTell, Some(sentence::why_not_known(&judged.measures)))
    }
}

fn too_few(compared: usize) -> String {
    match compared {
        0 => "no host has figures to compare".to_owned(),
        _ => "one host has nothing to be compared with".to_owned(),
    }
}

/// A host that fails where most of its group hold is out of line, however quick its answers are. Where fewer hold, it cannot be said which
/// hosts are, and none is alike with those of the other kind.
fn write_failures(failures: &Failures, key: &StepKey, group: &Group, hosts: &mut [FleetHost]) {
    if !failures.are_of_some() {
        return;
    }
    for (place, failed) in group.hosts.iter().zip(&failures.failed) {
        let host = &mut hosts[*place];
        if let Some(failed) = failed {
            host.why = Some(format!("it fails {} {}: {failed}", key.words(), failures.beside()));
        }
        match (failed, host.outcome) {
            (Some(_), _) if failures.most_hold() => host.outcome = FleetOutcome::Differs,
            (_, FleetOutcome::Alike) if !failures.most_hold() => {
                host.outcome = FleetOutcome::CannotTell;
                host.why.get_or_insert_with(|| format!("others of its group fail {}", key.words()));
            }
            _ => {}
        }
    }
}

/// What the trusted hosts carry.
fn capacity(records: &[&HostRecord]) -> Option<GroupCapacity> {
    let trusted = records.iter().filter(|record| record.trusted);
    let answers = trusted.filter_map(|record| record.capacity.as_ref());
    let answers: Vec<(u32, bool)> =
        answers.filter_map(|capacity| Some((capacity.holds?, capacity.breaks.is_none()))).collect();
    let holds: Vec<f64> = answers.iter().map(|(holds, _)| f64::from(*holds)).collect();
    Some(GroupCapacity {
        min: answers.iter().map(|(holds, _)| *holds).min()?,
        median: tilemark_units::median(holds)?,
        sum: answers.iter().map(|(holds, _)| u64::from(*holds)).sum(),
        hosts: answers.len(),
        at_least: answers.iter().filter(|(_, nothing_broke)| *nothing_broke).count(),
    })
}

fn named(groups: &[FleetGroup]) -> Vec<String> {
    let mut named: Vec<String> = groups.iter().flat_map(|group| group.named.iter().cloned()).collect();
    named.sort_by_cached_key(|name| natural_key(name));
    named
}

/// The verdict of the whole from those of its groups, why it is not more, and the sentence. `failing` has for each group which hosts fail and
/// are not named for it.
fn conclude(found: &mut FleetVerdict, failing: &[Option<String>]) {
    let mut reasons = std::mem::take(&mut found.reasons);
    if found.asked == 0 {
        reasons.push("no host was asked".to_owned());
    }
    if !found.missing.is_empty() {
        reasons.push(format!(
            "{} missing: nothing is known about {}",
            sentence::hosts(found.missing.len()),
            if found.missing.len() == 1 { "it" } else { "them" }
        ));
    }
    let not_restored: Vec<&FleetHost> =
        found.hosts.iter().filter(|host| host.end == End::NotRestored).collect();
    if !not_restored.is_empty() {
        reasons.push(format!(
            "not restored: {}. To restore a host: `sudo tilemark recover` on it",
            sentence::names(not_restored.iter().map(|host| &*host.name))
        ));
    }
    let alone: Vec<&FleetHost> = found
        .hosts
        .iter()
        .filter(|host| host.measured && host.outcome == FleetOutcome::NotCompared)
        .collect();
    let groups_of_one = found.groups.iter().filter(|group| group.hosts.len() == 1).count();
    if found.measured > 1 && groups_of_one > 0 {
        reasons.push(format!(
            "{groups_of_one} of {} hosts have no other host of equal hardware and settings; `--site-groups` puts those of one group of the site file together",
            found.measured
        ));
    }
    if !alone.is_empty() && found.measured > 1 {
        reasons.push(format!("not compared: {}", sentence::names(alone.iter().map(|host| &*host.name))));
        // One of them, for an example: the rows have all.
        reasons.extend(alone.iter().find_map(|host| own_words(host)));
    }
    for group in &found.groups {
        let of = if found.groups.len() > 1 { format!("{}: ", group.name) } else { String::new() };
        reasons.extend(group.why.iter().filter(|_| group.hosts.len() > 1).map(|why| format!("{of}{why}")));
    }
    let is_open = !found.missing.is_empty()
        || found.asked == 0
        || !alone.is_empty()
        || found.groups.iter().any(|group| group.outcome != FleetOutcome::Alike)
        || reasons.iter().any(|reason| reason.starts_with("fleet.json"));
    found.verdict = match (found.named.is_empty(), is_open) {
        (false, _) => FleetOutcome::Differs,
        (true, true) => FleetOutcome::CannotTell,
        (true, false) => FleetOutcome::Alike,
    };
    found.reasons = reasons;
    found.paragraphs = sentence::fleet(found, failing);
    found.sentence = found.paragraphs.join(" ");
}
