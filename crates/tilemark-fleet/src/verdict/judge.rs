//! From what was read to the verdict.

use super::{
    Groups,
    confirm::Confirmed,
    failures::Failures,
    group::{Group, groups, unusual},
    read::{HostRecord, ReadFleet, ReadHost, StepKey, repeats},
    sentence, threads,
};
use crate::End;
use std::collections::BTreeMap;
use tilemark_record::result::{Figure, VerdictStatus};
use tilemark_report::{
    FLEET_SCHEMA, FleetGroup, FleetHost, FleetMeasure, FleetOutcome, FleetVerdict, GroupCapacity,
    HostDifference,
};
use tilemark_statistics::{
    GroupMeasure, GroupSpread, HOST_LEAST_CHANGE, HOST_LEAST_CHANGE_OF_ERRORS, HOST_LEAST_CHANGE_OF_TAIL,
    HostChange, HostVerdict, INTERVAL_REPEATS_MIN, judge::DecidingFigures, judge::deciding_figures,
};
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
        reasons: fleet.asked_unknown.iter().cloned().collect(),
        sentence: String::new(),
        paragraphs: Vec::new(),
        hosts,
        groups: described_groups,
    };
    conclude(&mut found, &failing);
    found
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

/// The figures of a host at the step of its group.
pub(super) type Figures = Vec<DecidingFigures>;

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
    write_errors(&failing, hosts);
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

/// What the hosts of a group that are compared say of it together.
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
        (FleetOutcome::CannotTell, Some(sentence::untold(&judged.measures)))
    }
}

fn too_few(compared: usize) -> String {
    match compared {
        0 => "no host has figures to compare".to_owned(),
        _ => "one host has nothing to be compared with".to_owned(),
    }
}

/// Hosts of a run that measured a step.
#[derive(Clone, Default)]
struct OfRun {
    hosts: usize,
    in_time: usize,
    hold: usize,
}

/// The step that most hosts measured with enough repeats; of several the largest that three in four of them hold in one of the runs, else
/// the smallest: beyond what hosts hold, their times are the length of a queue. One host that breaks it is what is looked for, as is a later
/// run that does. Where some hold a step, a host that fails there and is quick even so counts as they do: else it would hide its failures by
/// moving the step.
pub(super) fn common_step(runs: &[&[&HostRecord]]) -> Option<StepKey> {
    let mut found: BTreeMap<&StepKey, Vec<OfRun>> = BTreeMap::new();
    for (run, records) in runs.iter().enumerate() {
        for step in records.iter().flat_map(|record| &record.steps).filter(|step| step.is_measured()) {
            let of_run =
                &mut found.entry(&step.key).or_insert_with(|| vec![OfRun::default(); runs.len()])[run];
            of_run.hosts += 1;
            of_run.in_time += usize::from(step.is_in_time);
            of_run.hold += usize::from(step.holds == Some(true));
        }
    }
    let rank = |(key, runs): &(&StepKey, Vec<OfRun>)| {
        let tiles = i64::from(key.tiles);
        let hosts: usize = runs.iter().map(|run| run.hosts).sum();
        let most_hold = runs.iter().any(|run| run.hold > 0 && 4 * run.in_time >= 3 * run.hosts);
        (hosts, key.backend == "kvm", most_hold, if most_hold { tiles } else { -tiles })
    };
    found.into_iter().max_by_key(rank).map(|(key, _)| key.clone())
}

/// The figures of each repeat of a host at a step, or why it has none.
pub(super) fn figures_at(record: &HostRecord, key: &StepKey) -> Result<Figures, String> {
    if record.verdict.status == VerdictStatus::NotTrusted {
        return Err(format!("not trusted: {}", record.verdict.reasons.join("; ")));
    }
    let Some(step) = record.steps.iter().find(|step| step.key == *key) else {
        return Err(format!("it did not measure {}", key.words()));
    };
    if !step.is_measured() {
        return Err(format!("only {} repeats count {}, and 3 are needed", step.kept, key.words()));
    }
    let Some(headline) = &record.headline else { return Err("its scenario has no headline load".to_owned()) };
    let repeats = repeats(record, step)?;
    let figures: Option<Figures> = repeats.iter().map(|repeat| deciding_figures(repeat, headline)).collect();
    match figures {
        Some(figures) if figures.len() >= INTERVAL_REPEATS_MIN => Ok(figures),
        _ => Err(format!("its record has not the repeats of `{headline}` {}", key.words())),
    }
}

/// One of the measures: how it is read, and when a change of it is one.
pub(super) struct Asked {
    pub(super) name: String,
    pub(super) unit: String,
    pub(super) more_is_better: bool,
    pub(super) least_change: f64,
    read: fn(&DecidingFigures) -> Option<f64>,
}

impl Asked {
    /// Throughput, median or figure first, then the tail.
    pub(super) fn of(headline: &str, first: &DecidingFigures) -> [Self; 2] {
        [
            Self {
                name: format!("{headline} {}", first.name),
                unit: first.unit.clone(),
                more_is_better: first.more_is_better,
                least_change: HOST_LEAST_CHANGE,
                read: |figures| figures.value,
            },
            Self {
                name: format!("{headline} p99"),
                unit: "ms".to_owned(),
                more_is_better: false,
                least_change: HOST_LEAST_CHANGE_OF_TAIL,
                read: |figures| figures.p99_ms,
            },
        ]
    }

    /// The part of requests that failed, of hosts on which some do: the difference between 1 and 90 % is none of times.
    pub(super) fn errors(headline: &str) -> Self {
        Self {
            name: format!("{headline} errors"),
            unit: "part".to_owned(),
            more_is_better: false,
            least_change: HOST_LEAST_CHANGE_OF_ERRORS,
            read: |figures| figures.errors,
        }
    }

    /// Its value in every repeat, or why that cannot be: a repeat without it is not left out, since that would choose repeats by their
    /// result.
    pub(super) fn values(&self, figures: &Figures) -> Result<Vec<f64>, String> {
        let values: Vec<f64> =
            figures.iter().filter_map(self.read).filter(|value| *value > 0.0 && value.is_finite()).collect();
        match figures.len() - values.len() {
            0 => Ok(values),
            without => Err(format!("{without} of {} repeats have no {}", figures.len(), self.name)),
        }
    }
}

/// The place of a host with a measure in each of its repeats, or why it has none.
type HostValues = (usize, Result<Vec<f64>, String>);

/// Hosts that fail, of which one can be said to fail more than most of them.
pub(super) const FAILING_MIN: usize = 3;

/// Compares the hosts of a group, and writes what was found to each. `failing`: those that fail, which are compared by how much they do too.
fn measures(
    headline: &str,
    compared: &[(usize, &Figures)],
    failing: &[(usize, &Figures)],
    hosts: &mut [FleetHost],
) -> Vec<FleetMeasure> {
    let Some(first) = compared.first().and_then(|(_, figures)| figures.first()) else { return Vec::new() };
    let asked = Asked::of(headline, first);
    let values: Vec<Vec<HostValues>> = asked
        .iter()
        .map(|asked| compared.iter().map(|(place, figures)| (*place, asked.values(figures))).collect())
        .collect();
    let errors = Asked::errors(headline);
    let of_errors: Vec<(usize, Vec<f64>)> =
        failing.iter().filter_map(|(place, figures)| Some((*place, errors.values(figures).ok()?))).collect();
    let mut questions: Vec<GroupMeasure> = asked
        .iter()
        .zip(&values)
        .map(|(asked, values)| GroupMeasure {
            hosts: values.iter().filter_map(|(_, values)| values.clone().ok()).collect(),
            least_change: asked.least_change,
            in_blocks: false,
        })
        .collect();
    let is_asked = of_errors.len() >= FAILING_MIN;
    if is_asked {
        let hosts = of_errors.iter().map(|(_, values)| values.clone()).collect();
        questions.push(GroupMeasure { hosts, least_change: errors.least_change, in_blocks: false });
    }
    let mut spreads = tilemark_statistics::compare_hosts(&questions);
    if let Some(Ok(spread)) = spreads.pop_if(|_| is_asked) {
        for ((place, _), change) in of_errors.iter().zip(&spread.hosts) {
            hosts[*place].errors = Some(of_errors_only(difference(&errors, change)));
        }
    }
    let mut found = Vec::new();
    for ((asked, values), spread) in asked.iter().zip(&values).zip(spreads) {
        let has_any = values.iter().any(|(_, values)| values.is_ok());
        if let Ok(spread) = &spread {
            let with = values.iter().filter(|(_, values)| values.is_ok());
            for ((place, _), change) in with.zip(&spread.hosts) {
                hosts[*place].changes.push(difference(asked, change));
            }
        }
        for (place, values) in values.iter().filter(|_| has_any) {
            if let Err(why) = values {
                hosts[*place].why = Some(why.clone());
            }
        }
        let none = || values.iter().find_map(|(_, values)| values.as_ref().err().cloned());
        found.push(described_measure(
            asked,
            spread.map_err(|missing| match has_any {
                true => missing.reason,
                false => none().unwrap_or(missing.reason),
            }),
        ));
    }
    found
}

pub(super) fn difference(asked: &Asked, change: &HostChange) -> HostDifference {
    HostDifference {
        measure: asked.name.clone(),
        value: change.value,
        change: figure(&change.change),
        simultaneous_low: finite(change.simultaneous.low),
        simultaneous_high: finite(change.simultaneous.high),
        p: change.p,
        outcome: outcome(change.verdict),
    }
}

/// A host that fails less than most of those that fail is not out of line, and none is alike by failing as much.
fn of_errors_only(change: HostDifference) -> HostDifference {
    let is_more = change.outcome == FleetOutcome::Differs && change.change.value > 0.0;
    let outcome = if is_more { FleetOutcome::Differs } else { FleetOutcome::CannotTell };
    HostDifference { outcome, ..change }
}

/// Hosts that fail far more than most of those that fail are out of line, whether others hold or not.
fn write_errors(failing: &[(usize, &Figures)], hosts: &mut [FleetHost]) {
    for (place, _) in failing {
        let host = &mut hosts[*place];
        let Some(errors) = host.errors.as_ref().filter(|own| own.outcome == FleetOutcome::Differs) else {
            continue;
        };
        let words = in_words(errors);
        host.why = Some(host.why.iter().cloned().chain([words]).collect::<Vec<_>>().join("; "));
        host.outcome = FleetOutcome::Differs;
    }
}

/// How much of its requests a host fails, and the others that fail.
fn in_words(errors: &HostDifference) -> String {
    let median = errors.value / (1.0 + errors.change.value);
    format!(
        "{:.1} % of its requests fail, and {:.1} % is the median of the hosts that fail",
        errors.value * 100.0,
        median * 100.0
    )
}

/// JSON has no infinity.
fn finite(value: f64) -> Option<f64> {
    value.is_finite().then_some(value)
}

pub(super) fn figure(figure: &tilemark_statistics::Figure) -> Figure {
    Figure {
        value: figure.value,
        low: figure.low(),
        high: figure.high(),
        n_repeats: u32::try_from(figure.n_repeats).unwrap_or(u32::MAX),
    }
}

pub(super) const fn outcome(verdict: HostVerdict) -> FleetOutcome {
    match verdict {
        HostVerdict::Alike => FleetOutcome::Alike,
        HostVerdict::Differs => FleetOutcome::Differs,
        HostVerdict::CannotTell => FleetOutcome::CannotTell,
    }
}

fn described_measure(asked: &Asked, spread: Result<GroupSpread, String>) -> FleetMeasure {
    let (spread, why) = match spread {
        Ok(spread) => (Some(spread), None),
        Err(why) => (None, Some(why)),
    };
    FleetMeasure {
        name: asked.name.clone(),
        unit: asked.unit.clone(),
        more_is_better: asked.more_is_better,
        least_change: asked.least_change,
        hosts: spread.as_ref().map_or(0, |spread| spread.hosts.len()),
        centre: spread.as_ref().map(|spread| spread.centre),
        of_repeats: spread.as_ref().map(|spread| figure(&spread.of_repeats)),
        between_hosts: spread.as_ref().and_then(|spread| spread.between_hosts.as_ref().ok()).map(figure),
        outcome: spread.as_ref().map_or(FleetOutcome::NotCompared, |spread| outcome(spread.verdict)),
        repeats_to_tell: spread.as_ref().and_then(|spread| spread.repeats_to_tell),
        why,
    }
}

/// A host differs where one measure says so, and is alike where all say so that the group has.
fn outcome_of(host: &FleetHost, measures: &[FleetMeasure]) -> FleetOutcome {
    let in_group = measures.iter().filter(|measure| measure.why.is_none()).count();
    let any = |outcome| host.changes.iter().any(|change| change.outcome == outcome);
    if any(FleetOutcome::Differs) {
        FleetOutcome::Differs
    } else if host.changes.is_empty() {
        FleetOutcome::NotCompared
    } else if any(FleetOutcome::CannotTell) || host.changes.len() < in_group {
        FleetOutcome::CannotTell
    } else {
        FleetOutcome::Alike
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
        median: tilemark_statistics::median(holds)?,
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

/// Suspects that did not differ again, and those without figures, are no longer named.
fn drop_unconfirmed(confirmed: &Confirmed, hosts: &mut [FleetHost], groups: &mut [FleetGroup]) {
    let is_confirmed = |name: &String| confirmed.shown.confirmed.contains(name);
    let mut whys: BTreeMap<String, String> = BTreeMap::new();
    for host in hosts.iter_mut().filter(|host| host.outcome == FleetOutcome::Differs) {
        if let Some(again) = confirmed.again.get(&host.name) {
            keep_confirmed(host, again, confirmed.why_not.get(&host.name));
            continue;
        }
        host.outcome = FleetOutcome::CannotTell;
        let why = match (confirmed.shown.not_measured.get(&host.name), confirmed.why_not.get(&host.name)) {
            (Some(why), _) => format!("it differed once, and was not measured again: {why}"),
            (None, Some(why)) => why.clone(),
            (None, None) => "it differed once, and not when it was measured again".to_owned(),
        };
        whys.insert(host.name.clone(), why.clone());
        host.why = Some(why);
    }
    for group in groups.iter_mut().filter(|group| !group.named.is_empty()) {
        let dropped = group.named.extract_if(.., |name| !is_confirmed(name)).collect::<Vec<_>>();
        if group.named.is_empty() {
            group.outcome = FleetOutcome::CannotTell;
            let own = group.why.iter().cloned().chain(by_reason(&dropped, &whys));
            group.why = Some(own.collect::<Vec<_>>().join("; "));
        }
    }
}

/// A host that was named for several things stays so for those that were confirmed.
fn keep_confirmed(host: &mut FleetHost, again: &[String], no_failure: Option<&String>) {
    let differs = |change: &&mut HostDifference| change.outcome == FleetOutcome::Differs;
    for change in host.changes.iter_mut().filter(differs) {
        if !again.contains(&change.measure) {
            change.outcome = FleetOutcome::CannotTell;
        }
    }
    let of_errors = host.errors.as_mut().filter(|errors| errors.outcome == FleetOutcome::Differs);
    let Some(errors) = of_errors else {
        host.why = no_failure.cloned().or(host.why.take());
        return;
    };
    let words = in_words(errors);
    let own = host.why.iter().flat_map(|why| why.split("; ")).filter(|part| *part != words);
    let mut why: Vec<String> = match no_failure {
        Some(why) => vec![why.clone()],
        None => own.map(str::to_owned).collect(),
    };
    if again.contains(&errors.measure) {
        why.push(words);
    } else {
        errors.outcome = FleetOutcome::CannotTell;
    }
    host.why = (!why.is_empty()).then(|| why.join("; "));
}

/// `h4, h5: it differed once, and not when it was measured again`
fn by_reason(dropped: &[String], whys: &BTreeMap<String, String>) -> Vec<String> {
    let mut found: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (name, why) in dropped.iter().filter_map(|name| Some((name, whys.get(name)?))) {
        found.entry(why).or_default().push(name);
    }
    found.into_iter().map(|(why, hosts)| format!("{}: {why}", sentence::names(hosts.into_iter()))).collect()
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
    } else if !alone.is_empty() && found.measured > 1 {
        reasons.push(format!("not compared: {}", sentence::names(alone.iter().map(|host| &*host.name))));
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
