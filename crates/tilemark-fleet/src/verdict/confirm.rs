//! Suspects are measured again among others before one is named.

use super::{
    Groups, VerdictError,
    judge::{Asked, Figures, common_step, figures_at, verdict},
    read::{HostRecord, ReadFleet, fleet},
    threads,
};
use rand::{SeedableRng, seq::SliceRandom};
use rand_chacha::ChaCha8Rng;
use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
};
use tilemark_report::{FleetConfirmation, FleetHost, FleetOutcome, FleetVerdict};
use tilemark_statistics::{HostVerdict, confirm_hosts};
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
}

/// Chooses the hosts to be measured again; `None` where no host differs. The same seed chooses the same hosts.
pub fn to_confirm(found: &FleetVerdict, seed: u64) -> Option<ToConfirm> {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let (mut suspects, mut others) = (Vec::new(), Vec::new());
    for group in found.groups.iter().filter(|group| !group.named.is_empty()) {
        let is_other = |host: &&FleetHost| {
            let is_compared = [FleetOutcome::Alike, FleetOutcome::CannotTell].contains(&host.outcome);
            is_compared && host.trusted && host.group.as_ref() == Some(&group.name)
        };
        let mut rest: Vec<String> =
            found.hosts.iter().filter(is_other).map(|host| host.name.clone()).collect();
        rest.sort_by_cached_key(|name| natural_key(name));
        rest.shuffle(&mut random);
        rest.truncate(group.named.len().max(OTHERS_MIN));
        suspects.extend(group.named.iter().cloned());
        others.extend(rest);
    }
    if suspects.is_empty() {
        return None;
    }
    let mut order: Vec<String> = suspects.iter().chain(&others).cloned().collect();
    order.sort_by_cached_key(|name| natural_key(name));
    order.shuffle(&mut random);
    Some(ToConfirm { suspects, others, order })
}

/// The verdict of a fleet whose suspects were measured again in the fleet run `again`: only those that differ again, in the same measure
/// and the same direction, are named.
///
/// # Errors
/// As [`super::of`], of either folder.
pub fn of_confirmed(folder: &Path, again: &Path, groups: &Groups) -> Result<FleetVerdict, VerdictError> {
    let (first, second) = (fleet(folder)?, fleet(again)?);
    let found = verdict(&first, groups, None);
    let confirmation = confirmation(&found, &second);
    Ok(verdict(&first, groups, Some(confirmation)))
}

fn confirmation(found: &FleetVerdict, again: &ReadFleet) -> FleetConfirmation {
    let mut confirmation = FleetConfirmation {
        fleet: again.id.clone(),
        confirmed: Vec::new(),
        not_confirmed: Vec::new(),
        not_measured: BTreeMap::new(),
        others: Vec::new(),
    };
    let records: BTreeMap<&str, &HostRecord> =
        again.hosts.iter().filter_map(|host| Some((&*host.name, host.record.as_ref()?))).collect();
    for group in found.groups.iter().filter(|group| !group.named.is_empty()) {
        let own: Vec<(&str, &HostRecord)> = group
            .hosts
            .iter()
            .filter_map(|name| Some((name.as_str(), *records.get(name.as_str())?)))
            .collect();
        let others = own.iter().map(|(name, _)| (*name).to_owned());
        confirmation.others.extend(others.filter(|name| !group.named.contains(name)));
        let all: Vec<&HostRecord> = own.iter().map(|(_, record)| *record).collect();
        let key = common_step(&all);
        let figures = match &key {
            Some(key) => threads::each(&all, |record| figures_at(record, key)),
            None => vec![Err("no step was measured with three repeats that count".to_owned()); all.len()],
        };
        let figures: BTreeMap<&str, Result<Figures, String>> =
            own.iter().map(|(name, _)| *name).zip(figures).collect();
        of_group(found, &group.named, &figures, &mut confirmation);
    }
    confirmation
}

/// Which suspects of a group differ again.
fn of_group(
    found: &FleetVerdict,
    suspects: &[String],
    figures: &BTreeMap<&str, Result<Figures, String>>,
    confirmation: &mut FleetConfirmation,
) {
    let mut measured: Vec<(&String, &Figures)> = Vec::new();
    for suspect in suspects {
        match figures.get(suspect.as_str()) {
            Some(Ok(figures)) => measured.push((suspect, figures)),
            Some(Err(why)) => drop(confirmation.not_measured.insert(suspect.clone(), why.clone())),
            None => {
                drop(confirmation.not_measured.insert(suspect.clone(), "it has no whole record".to_owned()))
            }
        }
    }
    let others: Vec<&Figures> = figures
        .iter()
        .filter(|(name, _)| !suspects.iter().any(|suspect| suspect == *name))
        .filter_map(|(_, figures)| figures.as_ref().ok())
        .collect();
    let Some(first) = others.first().and_then(|figures| figures.first()) else {
        let why = "no other host was measured again with it";
        confirmation.not_measured.extend(measured.iter().map(|(name, _)| ((*name).clone(), why.to_owned())));
        return;
    };
    let mut confirmed: BTreeSet<&String> = BTreeSet::new();
    for asked in Asked::of("", first) {
        let values = |figures: &[&Figures]| -> Vec<Vec<f64>> {
            figures.iter().filter_map(|figures| asked.values(figures).ok()).collect()
        };
        let with: Vec<(&String, Vec<f64>)> = measured
            .iter()
            .filter_map(|(name, figures)| Some((*name, asked.values(figures).ok()?)))
            .collect();
        let of_suspects: Vec<Vec<f64>> = with.iter().map(|(_, values)| values.clone()).collect();
        let Ok(changes) = confirm_hosts(&of_suspects, &values(&others), asked.least_change) else { continue };
        for ((name, _), change) in with.iter().zip(changes) {
            let before = found.hosts.iter().find(|host| host.name == **name);
            let mut before = before.into_iter().flat_map(|host| &host.changes);
            let is_same = before.any(|before| {
                before.measure.ends_with(&asked.name)
                    && before.outcome == FleetOutcome::Differs
                    && before.change.value.signum() == change.change.value.signum()
            });
            if is_same && change.verdict == HostVerdict::Differs {
                confirmed.insert(name);
            }
        }
    }
    for (name, _) in measured {
        let list = match confirmed.contains(name) {
            true => &mut confirmation.confirmed,
            false => &mut confirmation.not_confirmed,
        };
        list.push(name.clone());
    }
}
