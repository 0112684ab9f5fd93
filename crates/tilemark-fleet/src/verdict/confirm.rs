//! Suspects are measured again among others before one is named.

use super::{
    confirmed::Confirmed,
    failures::Failures,
    group::Groups,
    judge::verdict,
    measure::Asked,
    read::{HostRecord, ReadFleet, StepKey, VerdictError, fleet},
    sentence::pair,
    step::{Figures, common_step, figures_at},
    threads,
};
use rand::{SeedableRng, seq::SliceRandom};
use rand_chacha::ChaCha8Rng;
use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
};
use tilemark_report::{FleetConfirmation, FleetGroup, FleetHost, FleetOutcome, FleetVerdict};
use tilemark_statistics::{GroupMeasure, HostChange, HostVerdict, Missing, compare_hosts, confirm_hosts};
use tilemark_units::natural_key;

/// Others of each group at least: of one suspect and one other it could not be said which of the two is out of line.
const OTHERS_MIN: usize = 2;

/// The hosts that are to be measured again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToConfirm {
    /// Hosts that differ from their group.
    pub suspects: Vec<String>,
    /// As many others of their groups, and at least two of each, chosen by the seed.
    pub others: Vec<String>,
    /// All of them in random order: whoever measures cannot see which is which.
    pub order: Vec<String>,
    /// Hosts that differ and cannot be confirmed.
    pub unconfirmable: Vec<Unconfirmable>,
}

/// Hosts of a group that differ, and beside which no other host of the group can be measured: none is both compared and trusted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unconfirmable {
    /// The group's name.
    pub group: String,
    /// Those that differ.
    pub suspects: Vec<String>,
}

/// Chooses the hosts to be measured again; `None` where no host differs. The same seed chooses the same hosts. Two hosts that differ from
/// each other are measured again as a pair where their group has no other.
pub fn to_confirm(found: &FleetVerdict, seed: u64) -> Option<ToConfirm> {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let (mut suspects, mut others, mut unconfirmable) = (Vec::new(), Vec::new(), Vec::new());
    for group in found.groups.iter().filter(|group| !group.named.is_empty()) {
        let is_other = |host: &&FleetHost| {
            let is_compared = [FleetOutcome::Alike, FleetOutcome::CannotTell].contains(&host.outcome);
            is_compared && host.trusted && host.group.as_ref() == Some(&group.name)
        };
        let mut rest: Vec<String> =
            found.hosts.iter().filter(is_other).map(|host| host.name.clone()).collect();
        let is_pair = group.named.len() == 2 && pair(found, group).is_some();
        if rest.is_empty() && !is_pair {
            unconfirmable.push(Unconfirmable { group: group.name.clone(), suspects: group.named.clone() });
            continue;
        }
        rest.sort_by_cached_key(|name| natural_key(name));
        rest.shuffle(&mut random);
        rest.truncate(group.named.len().max(OTHERS_MIN));
        suspects.extend(group.named.iter().cloned());
        others.extend(rest);
    }
    if suspects.is_empty() && unconfirmable.is_empty() {
        return None;
    }
    let mut order: Vec<String> = suspects.iter().chain(&others).cloned().collect();
    order.sort_by_cached_key(|name| natural_key(name));
    order.shuffle(&mut random);
    Some(ToConfirm { suspects, others, order, unconfirmable })
}

/// The verdict of a fleet whose suspects were measured again in the fleet run `again`: only those that differ again, in the same measure
/// and the same direction, or fail again where most of the others hold, are named.
///
/// # Errors
/// As [`super::of`], of either folder, and where `again` is no later run than the first one.
pub fn of_confirmed(folder: &Path, again: &Path, groups: &Groups) -> Result<FleetVerdict, VerdictError> {
    let (first, second) = (fleet(folder)?, fleet(again)?);
    is_later(&first, &second)?;
    let found = verdict(&first, groups, None);
    let confirmed = confirmed(&found, &first, &second);
    Ok(verdict(&first, groups, Some(confirmed)))
}

/// A run confirms another one only where it was measured after it: else it would confirm itself.
fn is_later(first: &ReadFleet, again: &ReadFleet) -> Result<(), VerdictError> {
    let times = first.asked_unix_s.zip(again.asked_unix_s);
    let why = if first.is_same_as(again) {
        "it is the same fleet run"
    } else if times.is_some_and(|(first, again)| again <= first) {
        "it is not the later one"
    } else {
        return Ok(());
    };
    Err(VerdictError::NotAgain { first: first.id.clone(), again: again.id.clone(), why })
}

/// A host with its record.
type Own<'f> = (&'f str, &'f HostRecord);

fn confirmed(found: &FleetVerdict, first: &ReadFleet, again: &ReadFleet) -> Confirmed {
    let mut confirmed = Confirmed {
        shown: FleetConfirmation {
            fleet: again.id.clone(),
            confirmed: Vec::new(),
            not_confirmed: Vec::new(),
            not_measured: BTreeMap::new(),
            others: Vec::new(),
        },
        why_not: BTreeMap::new(),
        again: BTreeMap::new(),
    };
    let (earlier, later) = (records(first), records(again));
    for group in found.groups.iter().filter(|group| !group.named.is_empty()) {
        let before = of_hosts(&earlier, group);
        let other_work = |(name, record): &Own| match earlier.get(name) {
            // One that measured no step has no work to compare.
            _ if record.steps.is_empty() => None,
            Some(first) => Some(format!("it differs in {}", first.facts.other_work(&record.facts)?)),
            None => Some("the first run has no record of it".to_owned()),
        };
        let (own, other): (Vec<Own>, Vec<Own>) =
            of_hosts(&later, group).into_iter().partition(|own| other_work(own).is_none());
        let others = own.iter().map(|(name, _)| (*name).to_owned());
        confirmed.shown.others.extend(others.filter(|name| !group.named.contains(name)));
        let key = step_again(&before, &own);
        let figures = threads::each(&own, |(_, record)| match &key {
            Some(key) => figures_at(record, key),
            None => Err("no step was measured with three repeats that count".to_owned()),
        });
        let other = other.iter().map(|own| {
            let why = other_work(own).unwrap_or_default();
            (own.0, Err(format!("that run measured other work on it: {why}")))
        });
        let figures: BTreeMap<&str, Result<Figures, String>> =
            own.iter().map(|(name, _)| *name).zip(figures).chain(other).collect();
        let failing = key.as_ref().map(|key| failing(&own, key)).unwrap_or_default();
        let failed = key.map(|key| failed_again(group, &before, &own, &key)).unwrap_or_default();
        of_group(found, group, &Again { figures, failed, failing }, &mut confirmed);
    }
    confirmed
}

fn records(fleet: &ReadFleet) -> BTreeMap<&str, &HostRecord> {
    fleet.hosts.iter().filter_map(|host| Some((&*host.name, host.record.as_ref()?))).collect()
}

fn of_hosts<'f>(records: &BTreeMap<&'f str, &'f HostRecord>, group: &FleetGroup) -> Vec<Own<'f>> {
    let own = |name: &String| records.get_key_value(name.as_str()).map(|(name, record)| (*name, *record));
    group.hosts.iter().filter_map(own).collect()
}

/// The step of the first report, as far as no other was measured again by more hosts: a suspect that breaks it would else be compared at
/// a smaller one, where nothing is wrong with it.
fn step_again(before: &[Own], own: &[Own]) -> Option<StepKey> {
    let of = |hosts: &[Own]| common_step(&[&of_records(hosts)]);
    let measured = |key: &StepKey| {
        let has =
            |record: &HostRecord| record.steps.iter().any(|step| step.key == *key && step.is_measured());
        own.iter().filter(|(_, record)| has(record)).count()
    };
    let most = of(own)?;
    let first = of(before).filter(|first| measured(first) >= measured(&most));
    Some(first.unwrap_or(most))
}

fn of_records<'f>(hosts: &[Own<'f>]) -> Vec<&'f HostRecord> {
    hosts.iter().map(|(_, record)| *record).collect()
}

/// Of suspects that were named because they failed, and whose step counts this time too: whether they failed again where most of the
/// others hold, or why that is not so.
fn failed_again<'f>(
    group: &FleetGroup,
    before: &[Own<'f>],
    own: &[Own],
    key: &StepKey,
) -> BTreeMap<&'f str, Result<(), String>> {
    let records = of_records(before);
    let Some(first) = common_step(&[&records]).map(|key| Failures::at(&key, &records)) else {
        return BTreeMap::new();
    };
    if !first.most_hold() {
        return BTreeMap::new();
    }
    let is_suspect = |name: &str| group.named.iter().any(|suspect| suspect == name);
    let others: Vec<Own> = own.iter().filter(|(name, _)| !is_suspect(name)).copied().collect();
    let most_hold = Failures::at(key, &of_records(&others)).most_hold();
    let failed = before.iter().zip(&first.failed).filter(|(_, failed)| failed.is_some());
    let again = |(name, _): &Own<'f>| {
        let (_, record) = own.iter().find(|(own, _)| own == name)?;
        let has_failed = record.counting_step(key)?.failed.is_some();
        let found = match (has_failed, most_hold) {
            (true, true) => Ok(()),
            (true, false) => Err(format!(
                "it failed again {}, and half of the others or more did not hold either",
                key.words()
            )),
            (false, _) => Err("it failed once, and not when it was measured again".to_owned()),
        };
        Some((*name, found))
    };
    failed.filter_map(|(host, _)| again(host)).collect()
}

/// The hosts that fail at this step.
fn failing<'f>(own: &[Own<'f>], key: &StepKey) -> BTreeSet<&'f str> {
    let fails = |(_, record): &&Own| record.counting_step(key).is_some_and(|step| step.failed.is_some());
    own.iter().filter(fails).map(|(name, _)| *name).collect()
}

/// The second measurement of a group's hosts.
struct Again<'f> {
    figures: BTreeMap<&'f str, Result<Figures, String>>,
    /// Of those that were named because they failed: whether they did so again, or why that is not so.
    failed: BTreeMap<&'f str, Result<(), String>>,
    failing: BTreeSet<&'f str>,
}

/// Which suspects of a group differ or fail again.
fn of_group(found: &FleetVerdict, group: &FleetGroup, measured: &Again, confirmed: &mut Confirmed) {
    let differ = differ_again(found, group, measured);
    for name in &group.named {
        let failed = measured.failed.get(name.as_str());
        let shown = &mut confirmed.shown;
        let not_measured = match (measured.figures.get(name.as_str()), &differ) {
            (None, _) => Some("it has no whole record"),
            (Some(Err(why)), _) => Some(why.as_str()),
            (Some(Ok(_)), None) => Some("no other host was measured again with it"),
            (Some(Ok(_)), Some(_)) => None,
        };
        let again = differ.as_ref().and_then(|found| found.get(name)).cloned().unwrap_or_default();
        if let Some(Err(why)) = failed {
            confirmed.why_not.insert(name.clone(), why.clone());
        }
        if failed == Some(&Ok(())) || !again.is_empty() {
            shown.confirmed.push(name.clone());
            confirmed.again.insert(name.clone(), again);
        } else if let Some(Err(_)) = failed {
            shown.not_confirmed.push(name.clone());
        } else if let Some(why) = not_measured {
            shown.not_measured.insert(name.clone(), why.to_owned());
        } else {
            shown.not_confirmed.push(name.clone());
        }
    }
}

/// The suspects of a group that differ again, with the measures in which they do so in the same direction; `None` where no other host has figures. Two hosts that
/// differed from each other, and have no other, are compared with each other again.
fn differ_again<'g>(
    found: &FleetVerdict,
    group: &'g FleetGroup,
    measured: &Again,
) -> Option<BTreeMap<&'g String, Vec<String>>> {
    let with_figures = |name: &'g String| Some((name, measured.figures.get(name.as_str())?.as_ref().ok()?));
    let (suspects, others): (Vec<_>, Vec<_>) =
        group.hosts.iter().filter_map(with_figures).partition(|(name, _)| group.named.contains(name));
    let fails = |(name, _): &&(&String, &Figures)| measured.failing.contains(name.as_str());
    let fail_again: Vec<(&String, &Figures)> = suspects.iter().filter(fails).copied().collect();
    let others_that_fail: Vec<&Figures> = others.iter().filter(fails).map(|(_, figures)| *figures).collect();
    let others: Vec<&Figures> = others.into_iter().map(|(_, figures)| figures).collect();
    let of_any = others.first().copied().or_else(|| suspects.first().map(|(_, figures)| *figures));
    let asked = Asked::of("", of_any?.first()?);
    let is_of_two = |asked: &Asked| {
        group.measures.iter().any(|measure| measure.name.ends_with(&asked.name) && measure.hosts == 2)
    };
    if others.is_empty() && (suspects.len() != 2 || !asked.iter().any(is_of_two)) {
        return None;
    }
    let mut again: BTreeMap<&String, Vec<String>> = BTreeMap::new();
    for asked in &asked {
        let of_others: Vec<Vec<f64>> =
            others.iter().filter_map(|figures| asked.values(figures).ok()).collect();
        let (with, of_suspects): (Vec<&String>, Vec<Vec<f64>>) =
            suspects.iter().filter_map(|(name, figures)| Some((*name, asked.values(figures).ok()?))).unzip();
        let is_pair = of_others.is_empty() && of_suspects.len() == 2 && is_of_two(asked);
        let changes = match is_pair {
            true => each_beside_the_other(of_suspects, asked.least_change),
            false => confirm_hosts(&of_suspects, &of_others, asked.least_change),
        };
        let Ok(changes) = changes else { continue };
        for (name, change) in with.into_iter().zip(changes) {
            let before = found.hosts.iter().find(|host| host.name == *name);
            let mut before = before.into_iter().flat_map(|host| &host.changes);
            let same = before.find(|before| {
                before.measure.ends_with(&asked.name)
                    && before.outcome == FleetOutcome::Differs
                    && before.change.value.signum() == change.change.value.signum()
            });
            if let Some(same) = same.filter(|_| change.verdict == HostVerdict::Differs) {
                again.entry(name).or_default().push(same.measure.clone());
            }
        }
    }
    errors_again(found, &fail_again, &others_that_fail, &mut again);
    Some(again)
}

/// Suspects that fail far more than others that fail, again. Where fewer others fail than the first time, that cannot be said.
fn errors_again<'g>(
    found: &FleetVerdict,
    suspects: &[(&'g String, &Figures)],
    others: &[&Figures],
    again: &mut BTreeMap<&'g String, Vec<String>>,
) {
    let named = |name: &String| {
        let host = found.hosts.iter().find(|host| host.name == *name)?;
        host.errors.as_ref().filter(|errors| errors.outcome == FleetOutcome::Differs)
    };
    for (name, figures) in suspects {
        let Some(errors) = named(name) else { continue };
        let asked = Asked::errors(errors.measure.trim_end_matches(" errors"));
        let of_others: Vec<Vec<f64>> =
            others.iter().filter_map(|figures| asked.values(figures).ok()).collect();
        let Ok(own) = asked.values(figures) else { continue };
        if of_others.len() < OTHERS_MIN {
            continue;
        }
        let Ok(changes) = confirm_hosts(&[own], &of_others, asked.least_change) else { continue };
        let is_more =
            |change: &HostChange| change.verdict == HostVerdict::Differs && change.change.value > 0.0;
        if changes.iter().all(is_more) {
            again.entry(name).or_default().push(errors.measure.clone());
        }
    }
}

fn each_beside_the_other(pair: Vec<Vec<f64>>, least_change: f64) -> Result<Vec<HostChange>, Missing> {
    let mut found = compare_hosts(&[GroupMeasure { hosts: pair, least_change, in_blocks: false }]);
    found.pop().expect("one measure was asked").map(|spread| spread.hosts)
}
