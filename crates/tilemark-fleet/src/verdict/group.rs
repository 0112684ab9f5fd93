//! Which hosts are compared with each other.

use super::{
    facts::{FactSheet, memory_words},
    read::{HostRecord, ReadFleet},
};
use std::collections::BTreeMap;
use tilemark_report::UnusualFact;

/// Names of groups that the user chose, by host. Hosts that are not in it are grouped by their hardware.
pub type Groups = BTreeMap<String, String>;

/// Hosts of equal memory lie within this of each other, one after the other in the order of their memory: firmware keeps a little of it,
/// and memory comes in steps of a module.
const MEMORY_APART: f64 = 0.02;

/// Hosts that are compared with each other.
pub(super) struct Group {
    pub(super) name: String,
    /// Their places in the fleet.
    pub(super) hosts: Vec<usize>,
    /// What they share.
    pub(super) facts: BTreeMap<String, String>,
}

/// What hosts of a group share.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum Key {
    /// The user's name for it, and what was measured.
    Chosen(String, BTreeMap<String, String>),
    /// Hardware and settings, the class of memory, and what was measured.
    Equal(BTreeMap<String, String>, usize, BTreeMap<String, String>),
}

/// The groups of all hosts with a record, the largest first.
pub(super) fn groups(fleet: &ReadFleet, chosen: &Groups) -> Vec<Group> {
    let classes = memory_classes(fleet);
    let mut found: BTreeMap<Key, Vec<usize>> = BTreeMap::new();
    for (place, host) in fleet.hosts.iter().enumerate() {
        let Some(record) = &host.record else { continue };
        let facts = &record.facts;
        let key = match chosen.get(&host.name) {
            Some(name) => Key::Chosen(name.clone(), facts.work.clone()),
            None => Key::Equal(facts.equal.clone(), classes[place], facts.work.clone()),
        };
        found.entry(key).or_default().push(place);
    }
    let mut all: Vec<(Key, Vec<usize>)> = found.into_iter().collect();
    all.sort_by(|(_, a), (_, b)| b.len().cmp(&a.len()).then(a.cmp(b)));
    let only = all.len() == 1;
    let mut names: BTreeMap<String, usize> = BTreeMap::new();
    let mut groups = Vec::new();
    for (number, (key, hosts)) in (1..).zip(all) {
        let (name, facts) = match key {
            Key::Chosen(name, work) => (name, work),
            Key::Equal(mut facts, _, work) => {
                facts.insert("memory".to_owned(), memory_of(fleet, &hosts));
                facts.extend(work);
                (if only { "all hosts".to_owned() } else { format!("group {number}") }, facts)
            }
        };
        // The user's name for hosts that measured two scenarios is that of two groups.
        let again = names.entry(name.clone()).and_modify(|count| *count += 1).or_insert(1);
        let name = if *again > 1 { format!("{name} ({again})") } else { name };
        groups.push(Group { name, hosts, facts });
    }
    groups
}

/// The class of each host's memory: a gap of more than 2 % to the next smaller host begins another.
fn memory_classes(fleet: &ReadFleet) -> Vec<usize> {
    let memory = |place: &usize| fleet.hosts[*place].record.as_ref().and_then(|record| record.facts.memory);
    let mut order: Vec<usize> = (0..fleet.hosts.len()).collect();
    order.sort_by_key(memory);
    let (mut class, mut before) = (0, None);
    let mut classes = vec![0; order.len()];
    for place in order {
        let own = memory(&place);
        let is_apart = match (before, own) {
            (Some(before), Some(own)) => own as f64 > before as f64 * (1.0 + MEMORY_APART),
            (before, own) => before.is_some() != own.is_some(),
        };
        class += usize::from(is_apart);
        classes[place] = class;
        before = own;
    }
    classes
}

fn memory_of(fleet: &ReadFleet, hosts: &[usize]) -> String {
    let bytes = hosts.iter().filter_map(|place| fleet.hosts[*place].record.as_ref()?.facts.memory);
    let words: Vec<String> = bytes.clone().min().into_iter().chain(bytes.max()).map(memory_words).collect();
    match words.as_slice() {
        [low, high] if low == high => low.clone(),
        [low, high] => format!("{low} to {high}"),
        _ => "not known".to_owned(),
    }
}

/// For each host of a group: the facts in which it is not like more than half of the group.
pub(super) fn unusual(records: &[&HostRecord]) -> Vec<Vec<UnusualFact>> {
    let sheets: Vec<&FactSheet> = records.iter().map(|record| &record.facts).collect();
    let mut counts: BTreeMap<&str, BTreeMap<&str, usize>> = BTreeMap::new();
    for (fact, value) in sheets.iter().flat_map(|sheet| sheet.all.iter()) {
        *counts.entry(fact).or_default().entry(value).or_default() += 1;
    }
    let usual: BTreeMap<&str, &str> = counts
        .iter()
        .filter_map(|(fact, values)| {
            let (value, count) = values.iter().max_by_key(|(_, count)| **count)?;
            (2 * count > sheets.len()).then_some((*fact, *value))
        })
        .collect();
    let of = |sheet: &&FactSheet| {
        let odd = sheet.all.iter().filter_map(|(fact, value)| {
            let usual = *usual.get(fact.as_str())?;
            // Memory differs by what firmware keeps; classes of memory are groups of their own.
            (value != usual && fact != "memory").then(|| UnusualFact {
                fact: fact.clone(),
                value: value.clone(),
                usual: usual.to_owned(),
                hosts: counts[fact.as_str()][value.as_str()],
            })
        });
        odd.collect()
    };
    sheets.iter().map(of).collect()
}
