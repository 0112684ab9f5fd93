//! What changed since an earlier run of the same fleet.

use super::{
    measure::{Asked, FAILING_MIN, figure, outcome},
    read::{HostRecord, ReadFleet, StepKey, VerdictError, fleet},
    sentence::{hosts as count_of, names, percent_words},
    step::{Figures, common_step, figures_at},
    threads,
};
use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
};
use tilemark_report::{
    DriftFailure, DriftHost, DriftOfMeasure, DriftShift, FactChange, FleetDrift, FleetOutcome,
};
use tilemark_statistics::{
    DriftMeasure, GroupDrift, HostChange, HostPair, HostVerdict, Missing, Shift, compare_fleets,
};
use tilemark_units::natural_key;

/// Compares two runs of a fleet, host by host. Hosts whose facts did not change are the controls: only what the others did beyond them
/// can have to do with what changed.
///
/// # Errors
/// As [`super::of`], of either folder, and where `after` is the same run as `before` or was asked before it.
pub fn compare(before: &Path, after: &Path) -> Result<FleetDrift, VerdictError> {
    let (before, after) = (fleet(before)?, fleet(after)?);
    is_since(&before, &after)?;
    Ok(of_fleets(&before, &after))
}

/// A run beside itself is always the same, and beside an earlier one every change has the wrong sign.
fn is_since(before: &ReadFleet, after: &ReadFleet) -> Result<(), VerdictError> {
    let why = if before.is_same_as(after) {
        "it is the same fleet run"
    } else if before.asked_unix_s.zip(after.asked_unix_s).is_some_and(|(before, after)| after < before) {
        "it was asked earlier; name the earlier fleet run first"
    } else {
        return Ok(());
    };
    Err(VerdictError::NotSince { before: before.id.clone(), after: after.id.clone(), why })
}

/// A host that both runs measured.
struct Both<'f> {
    name: &'f str,
    before: &'f HostRecord,
    after: &'f HostRecord,
    /// What changed in its facts: fact, before, after.
    changed: Vec<(String, String, String)>,
}

fn of_fleets(before: &ReadFleet, after: &ReadFleet) -> FleetDrift {
    let (both, only_in_one) = pairs(before, after);
    let is_in_one = |name: &String| both.iter().any(|host| host.name == name) || only_in_one.contains(name);
    let names: BTreeSet<&String> = before.hosts.iter().chain(&after.hosts).map(|host| &host.name).collect();
    let in_neither: Vec<String> = names.into_iter().filter(|name| !is_in_one(name)).cloned().collect();
    let left_out = LeftOut::new(before, &only_in_one);
    let mut drift = FleetDrift::without_figures(before.id.clone(), after.id.clone(), String::new());
    drift.reasons.clear();
    drift.both = both.len();
    drift.only_in_one = only_in_one;
    drift.in_neither = in_order(in_neither);
    drift.changes = fact_changes(&both);
    drift.scenario = both.first().map(|host| host.after.scenario.clone());
    let mut same: Vec<&Both> = Vec::new();
    for host in &both {
        match host.before.facts.other_work(&host.after.facts) {
            None => same.push(host),
            Some(what) => {
                let why = format!("the two runs measured other work: they differ in {what}");
                drift.not_compared.insert(host.name.to_owned(), why);
            }
        }
    }
    let earlier: Vec<&HostRecord> = same.iter().map(|host| host.before).collect();
    let later: Vec<&HostRecord> = same.iter().map(|host| host.after).collect();
    let Some(key) = common_step(&[&earlier, &later]) else {
        let other_work = drift.not_compared.values().next().filter(|_| same.is_empty()).cloned();
        let too_few = "no host was measured in both runs with three repeats that count";
        return without(drift, &other_work.unwrap_or_else(|| too_few.to_owned()));
    };
    drift.step = Some(key.words());
    let turned = turned(&key, &same);
    let read =
        threads::each(&same, |host| Ok((figures_at(host.before, &key)?, figures_at(host.after, &key)?)));
    let mut compared: Vec<(&Both, (Figures, Figures))> = Vec::new();
    for (host, read) in same.iter().zip(read) {
        let read: Result<(Figures, Figures), String> = read;
        match read {
            Ok(figures) => compared.push((host, figures)),
            Err(why) => drop(drift.not_compared.insert(host.name.to_owned(), why)),
        }
    }
    drift.failures = turned.failures.clone();
    if compared.is_empty() && turned.failures.is_empty() {
        return without(drift, "no host has figures of both runs");
    }
    let fail_otherwise = measure(&mut drift, &same, &compared, &turned.both);
    conclude(drift, &turned, &fail_otherwise, &left_out)
}

/// How hosts that fail in both runs do so now, where that is not as before.
#[derive(Default)]
struct FailOtherwise {
    /// Hosts with the part of their requests that failed before and fails now.
    hosts: Vec<(String, f64, f64)>,
    /// The mean change of all of them.
    all: Option<f64>,
}

impl FailOtherwise {
    fn new(names: &[String], found: &GroupDrift) -> Self {
        let hosts = names.iter().zip(found.hosts.iter().flatten());
        let differ = hosts.filter(|(_, change)| change.verdict == HostVerdict::Differs);
        let parts = |(name, change): (&String, &HostChange)| {
            (name.clone(), change.value / (1.0 + change.change.value), change.value)
        };
        let all = found.all.as_ref().ok().filter(|all| all.verdict == HostVerdict::Differs);
        Self { hosts: differ.map(parts).collect(), all: all.map(|all| all.change.value) }
    }

    fn is_any(&self) -> bool {
        !self.hosts.is_empty() || self.all.is_some()
    }

    fn sentences(&self) -> Vec<String> {
        let of_all = self.all.map(|change| {
            format!("Hosts that fail in both runs fail {:.1} times as often on average.", 1.0 + change)
        });
        let of_host = |(name, before, now): &(String, f64, f64)| {
            format!(
                "{name}: {:.1} % of its requests fail, and {:.1} % did before.",
                now * 100.0,
                before * 100.0
            )
        };
        of_all.into_iter().chain(self.hosts.iter().take(NAMES_DESCRIBED).map(of_host)).collect()
    }
}

/// Hosts that a sentence describes, each by itself.
const NAMES_DESCRIBED: usize = 3;

/// Hosts that only one of the two runs measured.
struct LeftOut {
    /// Only the earlier one: they are gone.
    earlier: Vec<String>,
    /// Only the later one: they are new.
    later: Vec<String>,
}

impl LeftOut {
    fn new(before: &ReadFleet, only_in_one: &[String]) -> Self {
        let was_measured =
            |name: &&String| before.hosts.iter().any(|host| host.name == **name && host.record.is_some());
        let (earlier, later) = only_in_one.iter().partition::<Vec<_>, _>(was_measured);
        Self { earlier: earlier.into_iter().cloned().collect(), later: later.into_iter().cloned().collect() }
    }

    /// Who is not compared, in clauses.
    fn words(&self, drift: &FleetDrift) -> Vec<String> {
        let clause = |what: &str, hosts: &[String]| {
            let names = names(hosts.iter().map(String::as_str));
            (!hosts.is_empty()).then(|| format!("{what} measured {}: {names}", count_of(hosts.len())))
        };
        let of_both = (!drift.not_compared.is_empty())
            .then(|| format!("not compared: {}", names(drift.not_compared.keys().map(String::as_str))));
        let missing = [
            clause("only the earlier run", &self.earlier),
            clause("only the later run", &self.later),
            clause("neither run", &drift.in_neither),
        ];
        missing.into_iter().flatten().chain(of_both).collect()
    }
}

/// A clause as a sentence.
fn as_sentence(clause: &str) -> String {
    let mut letters = clause.chars();
    let first = letters.next().map(|letter| letter.to_ascii_uppercase());
    format!("{}{}.", first.into_iter().collect::<String>(), letters.as_str())
}

/// Hosts that fail at a step in one run and not in the other.
struct Turned {
    /// The step in words.
    step: String,
    /// Those that hold in the other run.
    failures: Vec<DriftFailure>,
    /// Those that do not hold in the other run either: they break otherwise there, or are undecided.
    open: Vec<String>,
    /// Those that hold in the other run, at a step that is so near a limit that half of the hosts or more are undecided: chance alone makes some hold and
    /// others fail there.
    near: Vec<String>,
    /// Those that fail in both runs.
    both: BTreeSet<String>,
    /// Hosts that count in both runs and on which something changed.
    of_changed: usize,
    /// Hosts that count in both runs and on which nothing changed.
    of_controls: usize,
}

fn turned(key: &StepKey, same: &[&Both]) -> Turned {
    let mut turned = Turned {
        step: key.words(),
        failures: Vec::new(),
        open: Vec::new(),
        near: Vec::new(),
        both: BTreeSet::new(),
        of_changed: 0,
        of_controls: 0,
    };
    let (mut decided_before, mut decided_after) = (0, 0);
    for host in same {
        let steps = host.before.counting_step(key).zip(host.after.counting_step(key));
        let Some((before, after)) = steps else { continue };
        decided_before += usize::from(before.holds.is_some());
        decided_after += usize::from(after.holds.is_some());
        let is_control = host.changed.is_empty();
        *(if is_control { &mut turned.of_controls } else { &mut turned.of_changed }) += 1;
        let (what, other, fails_now) = match (&before.failed, &after.failed) {
            (None, Some(what)) => (what, before, true),
            (Some(what), None) => (what, after, false),
            (None, None) => continue,
            (Some(_), Some(_)) => {
                turned.both.insert(host.name.to_owned());
                continue;
            }
        };
        let name = host.name.to_owned();
        match other.holds {
            Some(true) => {
                turned.failures.push(DriftFailure { name, fails_now, what: what.clone(), is_control });
            }
            Some(false) | None => turned.open.push(name),
        }
    }
    if 2 * decided_before.min(decided_after) <= turned.of_changed + turned.of_controls {
        turned.near = turned.failures.drain(..).map(|host| host.name).collect();
    }
    turned
}

impl Turned {
    /// Who fails now and held before, what is known about the cause, and who holds again.
    fn sentences(&self, changes: &[FactChange]) -> Vec<String> {
        let step = &self.step;
        let of = |fails_now: bool| self.failures.iter().filter(move |host| host.fails_now == fails_now);
        let mut said = Vec::new();
        if let Some(first) = of(true).next() {
            let (hosts, fail) = counted(of(true).count(), "fails", "fail");
            let names = names(of(true).map(|host| &*host.name));
            said.push(format!("{hosts} {fail} {step} and held before: {names}."));
            said.push(format!("What failed on {}: {}.", first.name, first.what));
            said.push(self.cause(changes));
        }
        if of(false).next().is_some() {
            let (hosts, hold) = counted(of(false).count(), "holds", "hold");
            let names = names(of(false).map(|host| &*host.name));
            said.push(format!("{hosts} {hold} {step} and failed before: {names}."));
        }
        said
    }

    /// Failures on hosts with a change beside those on the controls. They are counted, and nothing is blamed.
    fn cause(&self, changes: &[FactChange]) -> String {
        let of = |is_control: bool| {
            self.failures.iter().filter(|host| host.fails_now && host.is_control == is_control).count()
        };
        if self.of_changed == 0 {
            return "The cause is not known: nothing that is recorded changed on any host.".to_owned();
        }
        if self.of_controls == 0 {
            let why = "something changed on every host, so there is no control";
            return format!("The cause is not known: {why}.");
        }
        format!(
            "That is {} of {} on which something changed ({}) and {} of {} on which nothing did.",
            of(false),
            count_of(self.of_changed),
            fact_names(changes),
            of(true),
            count_of(self.of_controls)
        )
    }

    /// Why hosts that fail in one run only are not said to have changed.
    fn doubts(&self) -> Vec<String> {
        let doubt = |hosts: &[String], why: &str| {
            let names = names(hosts.iter().map(String::as_str));
            (!hosts.is_empty()).then(|| format!("{names} failed {} in one run only, and {why}", self.step))
        };
        let open = doubt(&self.open, "the other does not hold it");
        let near =
            doubt(&self.near, "half of the hosts or more are undecided there: the step is near a limit");
        open.into_iter().chain(near).collect()
    }
}

/// `1 host fails`, `3 hosts fail`
fn counted(count: usize, one: &'static str, many: &'static str) -> (String, &'static str) {
    (count_of(count), if count == 1 { one } else { many })
}

/// The facts that changed, as far as a sentence has room.
fn fact_names(changes: &[FactChange]) -> String {
    let mut facts: Vec<&str> = changes.iter().map(|change| &*change.fact).collect();
    facts.dedup();
    names(facts.into_iter().take(5))
}

fn without(mut drift: FleetDrift, why: &str) -> FleetDrift {
    drift.reasons.push(why.to_owned());
    drift.sentence = format!("The two runs cannot be compared: {why}.");
    drift
}

fn pairs<'f>(before: &'f ReadFleet, after: &'f ReadFleet) -> (Vec<Both<'f>>, Vec<String>) {
    let of = |fleet: &'f ReadFleet| -> BTreeMap<&'f str, &'f HostRecord> {
        fleet.hosts.iter().filter_map(|host| Some((&*host.name, host.record.as_ref()?))).collect()
    };
    let (earlier, later) = (of(before), of(after));
    // In the order of the fleet, which is that of people.
    let both = after.hosts.iter().filter_map(|host| {
        let (name, before, after) = (&*host.name, *earlier.get(&*host.name)?, *later.get(&*host.name)?);
        Some(Both { name, before, after, changed: changed(before, after) })
    });
    let alone = before.hosts.iter().chain(&after.hosts).filter(|host| {
        host.record.is_some() && earlier.contains_key(&*host.name) != later.contains_key(&*host.name)
    });
    (both.collect(), alone.map(|host| host.name.clone()).collect())
}

fn changed(before: &HostRecord, after: &HostRecord) -> Vec<(String, String, String)> {
    let (before, after) = (&before.facts.all, &after.facts.all);
    let facts: BTreeSet<&String> = before.keys().chain(after.keys()).collect();
    let value = |of: &BTreeMap<String, String>, fact: &String| {
        of.get(fact).cloned().unwrap_or_else(|| "not known".to_owned())
    };
    let all = facts.into_iter().map(|fact| (fact.clone(), value(before, fact), value(after, fact)));
    all.filter(|(_, before, after)| before != after).collect()
}

fn fact_changes(both: &[Both]) -> Vec<FactChange> {
    let mut found: BTreeMap<&(String, String, String), Vec<String>> = BTreeMap::new();
    for host in both {
        for change in &host.changed {
            found.entry(change).or_default().push(host.name.to_owned());
        }
    }
    let all = found.into_iter().map(|((fact, before, after), hosts)| FactChange {
        fact: fact.clone(),
        before: before.clone(),
        after: after.clone(),
        hosts,
    });
    let mut all: Vec<FactChange> = all.collect();
    all.sort_by_key(|change| std::cmp::Reverse(change.hosts.len()));
    all
}

fn measure(
    drift: &mut FleetDrift,
    same: &[&Both],
    compared: &[(&Both, (Figures, Figures))],
    fail_in_both: &BTreeSet<String>,
) -> FailOtherwise {
    let Some(first) = compared.first().and_then(|(_, (before, _))| before.first()) else {
        return FailOtherwise::default();
    };
    let headline = same.iter().find_map(|host| host.after.headline.clone()).unwrap_or_default();
    let asked = Asked::of(&headline, first);
    let of_pairs = |asked: &Asked| -> Vec<(String, HostPair)> {
        let pair = |(host, (before, after)): &(&Both, (Figures, Figures))| {
            let pair = HostPair {
                before: asked.values(before).ok()?,
                after: asked.values(after).ok()?,
                is_control: host.changed.is_empty(),
            };
            Some((host.name.to_owned(), pair))
        };
        compared.iter().filter_map(pair).collect()
    };
    let values: Vec<Vec<(String, HostPair)>> = asked.iter().map(of_pairs).collect();
    let mut questions: Vec<DriftMeasure> = asked
        .iter()
        .zip(&values)
        .map(|(asked, values)| DriftMeasure {
            hosts: values.iter().map(|(_, pair)| pair.clone()).collect(),
            least_change: asked.least_change,
        })
        .collect();
    let errors = Asked::errors(&headline);
    let (failing, pairs): (Vec<String>, Vec<HostPair>) =
        of_pairs(&errors).into_iter().filter(|(name, _)| fail_in_both.contains(name)).unzip();
    let is_asked = failing.len() >= FAILING_MIN;
    if is_asked {
        questions.push(DriftMeasure { hosts: pairs, least_change: errors.least_change });
    }
    let mut found = compare_fleets(&questions);
    let of_errors = found.pop_if(|_| is_asked).and_then(Result::ok);
    for ((asked, values), found) in asked.iter().zip(&values).zip(found) {
        match found {
            Ok(found) => drift.measures.push(described(asked, values, found)),
            Err(missing) => drift.reasons.push(format!("{}: {}", asked.name, missing.reason)),
        }
    }
    of_errors.map(|found| FailOtherwise::new(&failing, &found)).unwrap_or_default()
}

fn described(asked: &Asked, values: &[(String, HostPair)], found: GroupDrift) -> DriftOfMeasure {
    let (hosts, hosts_why) = match found.hosts {
        Ok(hosts) => (hosts, None),
        Err(missing) => (Vec::new(), Some(missing.reason)),
    };
    let host = |((name, _), change): (&(String, HostPair), &tilemark_statistics::HostChange)| DriftHost {
        name: name.clone(),
        value: change.value,
        change: figure(&change.change),
        p: change.p,
        outcome: outcome(change.verdict),
    };
    DriftOfMeasure {
        name: asked.name.clone(),
        unit: asked.unit.clone(),
        more_is_better: asked.more_is_better,
        least_change: asked.least_change,
        all: shift(found.all),
        changed: shift(found.changed),
        controls: shift(found.controls),
        against_controls: shift(found.against_controls),
        hosts: values.iter().zip(&hosts).map(host).collect(),
        hosts_why,
    }
}

fn shift(found: Result<Shift, Missing>) -> DriftShift {
    match found {
        Ok(shift) => DriftShift {
            change: Some(figure(&shift.change)),
            p: Some(shift.p),
            outcome: outcome(shift.verdict),
            why: None,
        },
        Err(missing) => {
            DriftShift { change: None, p: None, outcome: FleetOutcome::CannotTell, why: Some(missing.reason) }
        }
    }
}

/// The verdict, hosts by name, and the sentence. What changed is named as a change; that it comes from what changed in the facts is said
/// only beside unchanged hosts, and then as what it is: more than they did.
fn conclude(
    mut drift: FleetDrift,
    turned: &Turned,
    fail_otherwise: &FailOtherwise,
    left_out: &LeftOut,
) -> FleetDrift {
    let differs = |outcome: &FleetOutcome| *outcome == FleetOutcome::Differs;
    let hosts = drift.measures.iter().flat_map(|measure| &measure.hosts);
    let by_measure: Vec<String> =
        hosts.filter(|host| differs(&host.outcome)).map(|host| host.name.clone()).collect();
    let by_failure = drift.failures.iter().map(|host| host.name.clone());
    let by_errors = fail_otherwise.hosts.iter().map(|(name, ..)| name.clone());
    let named = in_order(by_failure.chain(by_errors).chain(by_measure.iter().cloned()).collect());
    let by_measure = in_order(by_measure);
    // Where a part of the hosts changed, the mean of all may be anything.
    let changes = |measure: &DriftOfMeasure| {
        differs(&measure.all.outcome) || differs(&measure.against_controls.outcome)
    };
    let doubts = turned.doubts();
    let left_out = left_out.words(&drift);
    let any = drift.measures.iter().any(changes) || fail_otherwise.is_any() || !named.is_empty();
    let all_same = !drift.measures.is_empty()
        && doubts.is_empty()
        && drift.is_about_all()
        && drift.measures.iter().all(|measure| measure.all.outcome == FleetOutcome::Alike);
    drift.verdict = match (any, all_same) {
        (true, _) => FleetOutcome::Differs,
        (false, true) => FleetOutcome::Alike,
        (false, false) => FleetOutcome::CannotTell,
    };
    let compared = drift.both - drift.not_compared.len();
    let mut said = vec![format!("{} in both runs, {compared} compared.", count_of(drift.both))];
    said.extend(left_out.iter().map(|clause| as_sentence(clause)));
    // What is sure comes first, and times say nothing of it.
    said.extend(turned.sentences(&drift.changes));
    said.extend(fail_otherwise.sentences());
    for measure in &drift.measures {
        said.extend(sentence_of(measure, &drift.changes, drift.is_about_all()));
    }
    if !by_measure.is_empty() {
        said.push(format!("Changed by themselves: {}.", names(by_measure.iter().map(String::as_str))));
    }
    drift.reasons.extend(left_out);
    drift.reasons.extend(doubts);
    drift.reasons.extend(
        drift
            .measures
            .iter()
            .filter_map(|measure| measure.hosts_why.as_ref().map(|why| format!("{}: {why}", measure.name))),
    );
    drift.reasons.dedup();
    drift.named = named;
    drift.sentence = said.join(" ");
    drift
}

fn in_order(mut hosts: Vec<String>) -> Vec<String> {
    hosts.sort_by_cached_key(|name| natural_key(name));
    hosts.dedup();
    hosts
}

/// `of_all`: whether no host is missing from the comparison.
fn sentence_of(measure: &DriftOfMeasure, changes: &[FactChange], of_all: bool) -> Vec<String> {
    let Some(all) = &measure.all.change else {
        return vec![format!("{}: {}.", measure.name, measure.all.why.clone().unwrap_or_default())];
    };
    let what = match measure.all.outcome {
        FleetOutcome::Differs => "changed on average by",
        FleetOutcome::Alike if of_all => "is the same:",
        FleetOutcome::Alike => "is the same on the hosts that are compared:",
        FleetOutcome::CannotTell | FleetOutcome::NotCompared => "may have changed or not:",
    };
    let against = &measure.against_controls;
    let is_of_changed = against.outcome == FleetOutcome::Differs;
    let mut said = match is_of_changed {
        // What is sure comes first.
        true => Vec::new(),
        false => vec![format!("{} {what} {}.", measure.name, percent_words(all))],
    };
    match (&against.change, &against.why) {
        (Some(change), _) if is_of_changed => {
            let what = fact_names(changes);
            let hosts = count_of(change.n_repeats as usize);
            said.push(format!(
                "{}: {hosts} on which something changed ({what}) changed by {} more than the hosts on which nothing did; the mean of all \
                 changed by {}.",
                measure.name,
                percent_words(change),
                percent_words(all)
            ));
        }
        (Some(_), _)
            if measure.all.outcome == FleetOutcome::Differs
                && against.outcome == FleetOutcome::CannotTell =>
        {
            said.push(
                "Whether hosts on which something changed did more than the others is not known.".to_owned(),
            );
        }
        (Some(_), _) if measure.all.outcome == FleetOutcome::Differs => {
            said.push("Hosts on which nothing changed did the same, so what changed on the others is not the cause.".to_owned());
        }
        (None, Some(why)) if measure.all.outcome == FleetOutcome::Differs => {
            said.push(format!("The cause is not known: {why}."));
        }
        _ => {}
    }
    said
}
