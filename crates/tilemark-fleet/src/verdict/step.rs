//! The step at which hosts are compared, and what each measured at it.

use super::read::{HostRecord, StepKey, repeats};
use std::collections::BTreeMap;
use tilemark_record::result::VerdictStatus;
use tilemark_statistics::{INTERVAL_REPEATS_MIN, judge::DecidingFigures, judge::deciding_figures};

/// The figures of a host at the step of its group.
pub(super) type Figures = Vec<DecidingFigures>;

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
