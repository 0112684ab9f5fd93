//! The verdict of a fleet without whose fleet it was: hosts and the user's groups get numbers, and what hosts said in their own words
//! goes. Figures, hardware and versions stay.

use super::{Scrub, in_name};
use crate::several::{
    DriftFailure, DriftHost, DriftOfMeasure, DriftShift, FactChange, FleetConfirmation, FleetDrift,
    FleetGroup, FleetHost, FleetMeasure, FleetVerdict,
};
use std::collections::BTreeMap;

/// Facts whose values may name a host or who built its kernel.
const OF_ONE_HOST: [&str; 2] = ["kernel command line", "kernel build"];

/// Takes out of the verdict of a fleet what shows whose machines they are.
pub fn redact_fleet(found: &mut FleetVerdict) {
    let mut names = Numbered::new(found.hosts.iter().map(|host| &host.name));
    // Groups of equal hardware have names of ours.
    let chosen = found.groups.iter().filter(|group| !group.facts.contains_key("processor"));
    for (number, group) in (1..).zip(chosen) {
        let word = group.name.split(' ').next().unwrap_or_default();
        names.of.entry(word.to_owned()).or_insert_with(|| format!("group-{number}"));
    }
    let FleetVerdict {
        schema: _,
        fleet: _,
        scenario: _,
        asked: _,
        measured: _,
        trusted: _,
        missing,
        verdict: _,
        named,
        confirmed: _,
        confirmation,
        reasons,
        sentence,
        paragraphs,
        hosts,
        groups,
    } = found;
    [missing, named, reasons, paragraphs].into_iter().for_each(|texts| names.all(texts));
    names.text(sentence);
    if let Some(FleetConfirmation { fleet: _, confirmed, not_confirmed, not_measured, others }) = confirmation
    {
        [confirmed, not_confirmed, others].into_iter().for_each(|texts| names.all(texts));
        names.keys(not_measured);
    }
    for FleetHost {
        name,
        end: _,
        exit_code: _,
        because,
        attempt: _,
        attempts: _,
        measured: _,
        trusted: _,
        group,
        run,
        sentence,
        capacity: _,
        outcome: _,
        changes: _,
        errors: _,
        why,
        unusual,
        problems,
    } in hosts
    {
        names.text(name);
        // Words of the host, of ssh and of the queue, with addresses, users and folders.
        because.clear();
        // A record that was imported may be called as its host.
        *run = None;
        problems.clear();
        [group, sentence, why].into_iter().flatten().for_each(|text| names.text(text));
        unusual.retain(|fact| !OF_ONE_HOST.contains(&fact.fact.as_str()));
        for fact in unusual {
            names.text(&mut fact.value);
            names.text(&mut fact.usual);
        }
    }
    for FleetGroup { name, hosts, facts, capacity: _, step: _, measures, outcome: _, named, why } in groups {
        names.text(name);
        names.all(hosts);
        names.all(named);
        facts.values_mut().chain(why).for_each(|text| names.text(text));
        for FleetMeasure { why, .. } in measures {
            why.iter_mut().for_each(|text| names.text(text));
        }
    }
}

/// Takes out of a comparison of two fleet runs what shows whose machines they are.
pub fn redact_drift(drift: &mut FleetDrift) {
    let in_changes = drift.changes.iter().flat_map(|change| &change.hosts);
    let in_measures = drift.measures.iter().flat_map(|measure| measure.hosts.iter().map(|host| &host.name));
    let in_failures = drift.failures.iter().map(|host| &host.name);
    let names = Numbered::new(
        in_measures
            .chain(in_changes)
            .chain(&drift.only_in_one)
            .chain(&drift.in_neither)
            .chain(drift.not_compared.keys())
            .chain(in_failures),
    );
    let FleetDrift {
        schema: _,
        before: _,
        after: _,
        scenario: _,
        both: _,
        only_in_one,
        in_neither,
        not_compared,
        step: _,
        verdict: _,
        named,
        failures,
        measures,
        changes,
        reasons,
        sentence,
    } = drift;
    [only_in_one, in_neither, named, reasons].into_iter().for_each(|texts| names.all(texts));
    names.text(sentence);
    names.keys(not_compared);
    for DriftFailure { name, fails_now: _, what, is_control: _ } in failures {
        names.text(name);
        names.text(what);
    }
    for measure in measures {
        let DriftOfMeasure { all, changed, controls, against_controls, hosts, hosts_why, .. } = measure;
        for DriftShift { why, .. } in [all, changed, controls, against_controls] {
            why.iter_mut().for_each(|text| names.text(text));
        }
        hosts_why.iter_mut().for_each(|text| names.text(text));
        hosts.iter_mut().for_each(|DriftHost { name, .. }| names.text(name));
    }
    for FactChange { fact, before, after, hosts } in changes {
        names.all(hosts);
        let is_of_one = OF_ONE_HOST.contains(&fact.as_str());
        for text in [before, after] {
            *text = if is_of_one { "(left out)".to_owned() } else { names.clean(text) };
        }
    }
}

/// Names and what is read instead of them.
struct Numbered {
    of: BTreeMap<String, String>,
    scrub: Scrub,
}

impl Numbered {
    /// Hosts by numbers, in the order of their first mention.
    fn new<'n>(hosts: impl Iterator<Item = &'n String>) -> Self {
        let mut of = BTreeMap::new();
        for host in hosts {
            let number = of.len() + 1;
            of.entry(host.clone()).or_insert_with(|| format!("host-{number}"));
        }
        Self { of, scrub: Scrub::new(std::iter::empty(), BTreeMap::new()) }
    }

    fn all(&self, texts: &mut [String]) {
        texts.iter_mut().for_each(|text| self.text(text));
    }

    fn keys(&self, texts: &mut BTreeMap<String, String>) {
        let all = std::mem::take(texts).into_iter();
        *texts = all.map(|(key, value)| (self.clean(&key), self.clean(&value))).collect();
    }

    fn text(&self, text: &mut String) {
        *text = self.clean(text);
    }

    /// All names at once: a host may be called as another one's number is.
    fn clean(&self, text: &str) -> String {
        // The name of a host may be an address.
        let in_word = |letter: char| in_name(letter) || matches!(letter, '.' | ':');
        let mut clean = String::with_capacity(text.len());
        let mut rest = text;
        while let Some(start) = rest.find(in_word) {
            clean.push_str(&self.scrub.clean(&rest[..start]));
            let word = &rest[start..];
            let (word, after) = word.split_at(word.find(|letter| !in_word(letter)).unwrap_or(word.len()));
            let body = word.trim_end_matches(['.', ':']);
            let short = body.split('.').next().unwrap_or_default();
            match self.of.get(body).or_else(|| self.of.get(short)) {
                Some(number) => clean.push_str(number),
                None => clean.push_str(body),
            }
            clean.push_str(&word[body.len()..]);
            rest = after;
        }
        clean.push_str(rest);
        self.scrub.clean(&clean)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_numbered_where_they_are_alone() {
        let names = ["n1", "n12", "host-1", "db.example.org"].map(str::to_owned);
        let names = Numbered::new(names.iter());
        for (before, after) in [
            ("n1 (lost), n12 and n123.", "host-1 (lost), host-2 and n123."),
            ("Missing: host-1.", "Missing: host-3."),
            ("n1.example.org: n1\u{2019}s", "host-1: host-1\u{2019}s"),
            ("db.example.org at 192.168.7.9", "host-4 at (address)"),
            ("at 4 tiles on kvm: web p50 +8.2 %", "at 4 tiles on kvm: web p50 +8.2 %"),
        ] {
            assert_eq!(names.clean(before), after);
        }
    }
}
