//! What a second measurement of suspects found, and which of them it leaves named.

use super::sentence::names;
use std::collections::{BTreeMap, BTreeSet};
use tilemark_report::{FleetConfirmation, FleetGroup, FleetHost, FleetOutcome};

/// What measuring suspects again found.
pub(super) struct Confirmed {
    pub(super) shown: FleetConfirmation,
    /// Why a suspect that was measured again is not confirmed, where that is not because it did not differ. Of one that is confirmed by a
    /// measure: why its failure is not.
    pub(super) why_not: BTreeMap<String, String>,
    /// Of confirmed suspects: the measures in which they differ again.
    pub(super) again: BTreeMap<String, Vec<String>>,
}

/// Suspects that did not differ again, and those without figures, are no longer named.
pub(super) fn drop_unconfirmed(confirmed: &Confirmed, hosts: &mut [FleetHost], groups: &mut [FleetGroup]) {
    let is_confirmed = |name: &String| confirmed.shown.confirmed.contains(name);
    let mut whys: BTreeMap<String, String> = BTreeMap::new();
    for host in hosts.iter_mut().filter(|host| host.outcome == FleetOutcome::Differs) {
        if let Some(again) = confirmed.again.get(&host.name) {
            keep_confirmed(host, again, confirmed.why_not.get(&host.name));
            continue;
        }
        host.outcome = FleetOutcome::CannotTell;
        differ_only_in(host, &[]);
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
        if !dropped.is_empty() {
            measures_of_confirmed(group, hosts);
        }
    }
}

/// In which measures a group differs still: those in which one of its hosts does.
fn measures_of_confirmed(group: &mut FleetGroup, hosts: &[FleetHost]) {
    let of_group = hosts.iter().filter(|host| group.hosts.contains(&host.name));
    let differ: BTreeSet<&String> = of_group
        .flat_map(|host| &host.changes)
        .filter(|change| change.outcome == FleetOutcome::Differs)
        .map(|change| &change.measure)
        .collect();
    for measure in &mut group.measures {
        if measure.outcome == FleetOutcome::Differs && !differ.contains(&measure.name) {
            measure.outcome = FleetOutcome::CannotTell;
        }
    }
}

/// A host that was named for several things stays so for those that were confirmed.
fn keep_confirmed(host: &mut FleetHost, again: &[String], no_failure: Option<&String>) {
    differ_only_in(host, again);
    if let Some(why) = no_failure {
        host.why = Some(why.clone());
    }
}

/// In which measures a host differs still: in all others it did so once, and it is not known whether it does.
fn differ_only_in(host: &mut FleetHost, again: &[String]) {
    for change in host.changes.iter_mut().chain(&mut host.errors) {
        if change.outcome == FleetOutcome::Differs && !again.contains(&change.measure) {
            change.outcome = FleetOutcome::CannotTell;
        }
    }
}

/// `h4, h5: it differed once, and not when it was measured again`
fn by_reason(dropped: &[String], whys: &BTreeMap<String, String>) -> Vec<String> {
    let mut found: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (name, why) in dropped.iter().filter_map(|name| Some((name, whys.get(name)?))) {
        found.entry(why).or_default().push(name);
    }
    found.into_iter().map(|(why, hosts)| format!("{}: {why}", names(hosts.into_iter()))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{End, verdict::sentence::why};
    use tilemark_record::result::Figure;
    use tilemark_report::HostDifference;

    const MUCH: &str = "30.0 % of its requests fail, and 1.0 % is the median of the hosts that fail";

    fn host(why: &str) -> FleetHost {
        let errors = HostDifference {
            measure: "web errors".to_owned(),
            value: 0.3,
            change: Figure { value: 29.0, low: None, high: None, n_repeats: 3 },
            simultaneous_low: None,
            simultaneous_high: None,
            p: 0.001,
            outcome: FleetOutcome::Differs,
        };
        FleetHost {
            name: "h4".to_owned(),
            end: End::NotTrusted,
            exit_code: None,
            because: String::new(),
            attempt: Some(1),
            attempts: 1,
            measured: true,
            trusted: false,
            group: None,
            run: None,
            sentence: None,
            capacity: None,
            outcome: FleetOutcome::Differs,
            changes: Vec::new(),
            errors: Some(errors),
            why: Some(why.to_owned()),
            unusual: Vec::new(),
            problems: Vec::new(),
        }
    }

    #[test]
    fn how_much_a_host_fails_is_said_by_its_figures_and_no_other_reason_goes_with_it() {
        // The last reason reads as the figures' own sentence does.
        for reason in ["it fails at 4 tiles on kvm", MUCH] {
            let said = |again: &[&str], no_failure: Option<&str>| {
                let mut host = host(reason);
                let again: Vec<String> = again.iter().map(|&measure| measure.to_owned()).collect();
                keep_confirmed(&mut host, &again, no_failure.map(str::to_owned).as_ref());
                why(&host).unwrap()
            };
            assert_eq!(said(&["web errors"], None), format!("{reason}; {MUCH}"));
            assert_eq!(said(&["web errors"], Some("it failed once")), format!("it failed once; {MUCH}"));
            assert_eq!(said(&["web p50"], None), reason);
            assert_eq!(said(&["web p50"], Some("it failed once")), "it failed once");
        }
    }
}
