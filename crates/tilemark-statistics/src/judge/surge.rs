//! What guests of other tiles felt of a surge: before, while it lasted and after, repeat by repeat.

use tilemark_plan::scenario::LoopKind;
use tilemark_record::result::{PointResult, SurgeResult, SurgeTime};
use tilemark_record::summary::{AroundSurge, LoadFigures, SurgePart};

use super::interference::certain::{LogTimes, Looks, Times, is_certain, p_of_role};
use super::measured::MeasuredPoint;
use super::notes::Notes;
use crate::figure::{Figure, Missing};
use crate::holm::holm;
use crate::moments::mean;
use crate::permutation::Block;
use crate::ratio::ratio;

/// What one load felt over all kept repeats; nothing where there was no surge, or nobody in another tile.
pub(crate) fn surge(kept: &[&LoadFigures], seed: u64, notes: &mut Notes) -> Option<SurgeResult> {
    let loop_kind = kept.first()?.loop_kind;
    let around: Vec<AroundSurge> = kept.iter().map(|load| load.surge).collect::<Option<_>>()?;
    if around.iter().all(|around| around.before.offered == 0) {
        return None;
    }
    let time = |of: fn(&AroundSurge) -> &SurgePart| time(&around.iter().map(of).collect::<Vec<_>>());
    let slowdown = |of: fn(&AroundSurge) -> &SurgePart| slowdown(&around, of, loop_kind, seed);
    Some(SurgeResult {
        before: time(|around| &around.before),
        during: time(|around| &around.during),
        after: time(|around| &around.after),
        slowdown_during: notes.figure("surge.slowdown_during", slowdown(|around| &around.during)),
        slowdown_after: notes.figure("surge.slowdown_after", slowdown(|around| &around.after)),
        p: None,
        certain: Some(false),
    })
}

/// Notes of each load what p its slowdown has among those of all loads of the run, and whether it is certain: as of roles that slow each
/// other down.
pub(crate) fn decide(measured: &[MeasuredPoint], points: &mut [PointResult]) {
    let mut tested: Vec<(&mut SurgeResult, f64, f64)> = Vec::new();
    for (measured, point) in measured.iter().zip(points).filter(|(measured, _)| measured.counts) {
        let errors_max = measured.point.gate.errors.get();
        for load in &mut point.loads {
            let kept = measured.load(&load.name);
            let is_compared = |surge: &&mut SurgeResult| surge.compares_times(&surge.during, errors_max);
            let Some(surge) = load.surge.as_mut().filter(is_compared) else { continue };
            let Some(low) = surge.slowdown_during.and_then(|figure| figure.low) else { continue };
            tested.push((surge, low, p_alone(&kept)));
        }
    }
    let p: Vec<f64> = tested.iter().map(|(.., p)| *p).collect();
    for ((surge, low, _), p) in tested.into_iter().zip(holm(&p)) {
        surge.p = Some(p);
        surge.certain = Some(is_certain(p, low));
    }
}

/// The p of one load, not corrected. Each repeat is a block: before, during and after are the conditions in it.
fn p_alone(kept: &[&LoadFigures]) -> f64 {
    let logs = |of: fn(&AroundSurge) -> &SurgePart| -> LogTimes {
        let log = |load: &&LoadFigures| Some(time_of_request(of(load.surge.as_ref()?), load.loop_kind)?.ln());
        let finite = |(repeat, log): (u32, Option<f64>)| Some((repeat, log.filter(|log| log.is_finite())?));
        (0..).zip(kept.iter().map(log)).filter_map(finite).collect()
    };
    let [before, during, after] =
        [logs(|around| &around.before), logs(|around| &around.during), logs(|around| &around.after)];
    let of_during = Times { alone: before.clone(), beside: during };
    let of_after = Times { alone: before, beside: after };
    p_of_role(&[of_during, of_after], Looks::Once)[0]
}

fn time(parts: &[&SurgePart]) -> SurgeTime {
    let of = |figure: fn(&SurgePart) -> Option<f64>| {
        let figures: Option<Vec<f64>> = parts.iter().map(|part| figure(part)).collect();
        mean(&figures?)
    };
    SurgeTime {
        throughput: of(rate),
        mean_ms: of(|part| part.mean_ms),
        p99_ms: of(|part| part.p99_ms),
        errors: of(|part| {
            let ended = part.completed + part.errors;
            (ended > 0).then(|| part.errors as f64 / ended as f64)
        }),
    }
}

fn rate(part: &SurgePart) -> Option<f64> {
    (part.seconds > 0).then(|| part.completed as f64 / f64::from(part.seconds))
}

fn time_of_request(part: &SurgePart, loop_kind: LoopKind) -> Option<f64> {
    match loop_kind {
        LoopKind::Open => part.mean_ms,
        LoopKind::Closed => rate(part).map(|rate| 1.0 / rate).filter(|time| time.is_finite()),
    }
}

/// Each repeat is a pair: what disturbs all of it cancels.
fn slowdown(
    around: &[AroundSurge],
    then: fn(&AroundSurge) -> &SurgePart,
    loop_kind: LoopKind,
    seed: u64,
) -> Result<Figure, Missing> {
    let of = |part: &SurgePart| time_of_request(part, loop_kind);
    let pair =
        |around: &AroundSurge| Some(Block { a: vec![of(&around.before)?], b: vec![of(then(around))?] });
    let blocks: Option<Vec<Block>> = around.iter().map(pair).collect();
    let blocks = blocks.ok_or_else(|| {
        let has_no_time = |part: &SurgePart| part.completed > 0 && part.mean_ms.is_none();
        let is_of_end = loop_kind == LoopKind::Open
            && around.iter().any(|around| has_no_time(&around.before) || has_no_time(then(around)));
        Missing::because(if is_of_end {
            "its program reports latencies only at the end"
        } else {
            "a repeat has no answer in one of the times"
        })
    })?;
    ratio(&blocks, seed)
}
