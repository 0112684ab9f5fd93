//! What guests of other tiles felt of a surge: before, while it lasted and after, repeat by repeat.

use tilemark_plan::scenario::LoopKind;
use tilemark_record::result::{SurgeResult, SurgeTime};
use tilemark_record::summary::{AroundSurge, LoadFigures, SurgePart};

use super::points::Notes;
use crate::figure::{Figure, Missing};
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
    })
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

/// Each repeat is a pair: what disturbs all of it cancels.
fn slowdown(
    around: &[AroundSurge],
    then: fn(&AroundSurge) -> &SurgePart,
    loop_kind: LoopKind,
    seed: u64,
) -> Result<Figure, Missing> {
    let of = |part: &SurgePart| match loop_kind {
        LoopKind::Open => part.mean_ms,
        LoopKind::Closed => rate(part).map(|rate| 1.0 / rate).filter(|time| time.is_finite()),
    };
    let pair =
        |around: &AroundSurge| Some(Block { a: vec![of(&around.before)?], b: vec![of(then(around))?] });
    let blocks: Option<Vec<Block>> = around.iter().map(pair).collect();
    ratio(&blocks.ok_or_else(|| Missing::because("a repeat has no answer in one of the times"))?, seed)
}
