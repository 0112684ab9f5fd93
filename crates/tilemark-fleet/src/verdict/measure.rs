//! The measures in which hosts are compared: how each is read, and what it says about each host and about their group.

use super::step::Figures;
use tilemark_record::result::Figure;
use tilemark_report::{FleetHost, FleetMeasure, FleetOutcome, HostDifference};
use tilemark_statistics::{
    GroupMeasure, GroupSpread, HOST_LEAST_CHANGE, HOST_LEAST_CHANGE_OF_ERRORS, HOST_LEAST_CHANGE_OF_TAIL,
    HostChange, HostVerdict, judge::DecidingFigures,
};

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
pub(super) fn measures(
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

fn difference(asked: &Asked, change: &HostChange) -> HostDifference {
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
pub(super) fn name_by_errors(failing: &[(usize, &Figures)], hosts: &mut [FleetHost]) {
    for (place, _) in failing {
        let host = &mut hosts[*place];
        if host.errors.as_ref().is_some_and(|own| own.outcome == FleetOutcome::Differs) {
            host.outcome = FleetOutcome::Differs;
        }
    }
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
pub(super) fn outcome_of(host: &FleetHost, measures: &[FleetMeasure]) -> FleetOutcome {
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
