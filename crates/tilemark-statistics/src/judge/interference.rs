//! How much longer a role's requests take beside another role than alone.

use std::collections::BTreeMap;

use tilemark_plan::plan::{Plan, Point};
use tilemark_plan::scenario::LoopKind;
use tilemark_record::result::{Interference, Slowdown};
use tilemark_record::summary::RepeatSummary;

use super::blocks::{figures, whole_blocks};
use super::measured::MeasuredPoint;
use super::points::Notes;
use crate::figure::Missing;
use crate::ratio::ratio;

/// The slowdowns of every loaded role beside every role; `None` where roles were not measured alone and together.
pub(crate) fn interference(
    plan: &Plan,
    measured: &[MeasuredPoint],
    missing: &mut BTreeMap<String, String>,
) -> Option<Interference> {
    let counted = measured.iter().filter(|point| point.counts);
    let pairs = counted.filter(|point| point.point.together.as_ref().is_some_and(|of| of.second.is_some()));
    let mut slowdowns = Vec::new();
    for pair in pairs {
        let together = pair.point.together.as_ref()?;
        let second = together.second.as_deref()?;
        let mut sides = vec![(together.first.as_str(), second)];
        if second != together.first {
            sides.push((second, together.first.as_str()));
        }
        for (role, beside) in sides {
            let Some((load, loop_kind)) = load_of(plan, pair.point, role) else { continue };
            let mut notes = Notes { name: format!("interference.{role}"), missing: &mut *missing };
            let slowdown = alone(measured, pair, role)
                .and_then(|alone| slowdown(alone, pair, load, loop_kind, plan.seed));
            let slowdown = notes.figure(beside, slowdown);
            slowdowns.push(Slowdown { role: role.to_owned(), beside: beside.to_owned(), slowdown });
        }
    }
    if slowdowns.is_empty() {
        return None;
    }
    let worst = slowdowns
        .iter()
        .filter(|found| found.is_certain())
        .max_by(|one, other| one.value().total_cmp(&other.value()));
    Some(Interference { worst: worst.cloned(), slowdowns })
}

/// The point at which the role is measured alone, under the same conditions as the pair.
fn alone<'m, 'a>(
    measured: &'m [MeasuredPoint<'a>],
    pair: &MeasuredPoint,
    role: &str,
) -> Result<&'m MeasuredPoint<'a>, Missing> {
    let is_alone = |point: &&MeasuredPoint| {
        let together = point.point.together.as_ref();
        point.point.backend == pair.point.backend
            && together.is_some_and(|of| of.first == role && of.second.is_none())
    };
    measured.iter().find(is_alone).ok_or_else(|| Missing::because("the role was not measured alone"))
}

/// The first load of a role, which its slowdown is read from.
fn load_of<'p>(plan: &'p Plan, point: &Point, role: &str) -> Option<(&'p str, LoopKind)> {
    let load = plan.scenario.load.iter().find(|load| load.guest == role)?;
    let planned = point.loads.iter().find(|planned| planned.name == load.name)?;
    Some((&load.name, planned.demand.loop_kind()))
}

/// How many times as long a request takes in the company of others, block by block.
pub(crate) fn slowdown(
    alone: &MeasuredPoint,
    company: &MeasuredPoint,
    load: &str,
    loop_kind: LoopKind,
    seed: u64,
) -> Result<crate::figure::Figure, Missing> {
    let blocks = whole_blocks(&alone.kept, &company.kept);
    let blocks = figures(&blocks, &|repeat| time_of_request(repeat, load, loop_kind))?;
    ratio(&blocks, seed)
}

/// The time that a guest takes for a request. In an open loop it is the mean latency. A closed loop has always as many requests under way,
/// so that it is the inverse of the throughput of a guest, up to a factor (Little 1961); that is known where a tool reports no
/// latencies, too.
fn time_of_request(repeat: &RepeatSummary, load: &str, loop_kind: LoopKind) -> Option<f64> {
    let figures = repeat.loads.iter().find(|figures| figures.name == load)?;
    match loop_kind {
        LoopKind::Open => figures.latency_ms.mean,
        LoopKind::Closed if figures.figure.is_some() => None,
        LoopKind::Closed => {
            Some(figures.guests.len() as f64 / figures.rate()).filter(|time| time.is_finite())
        }
    }
}
