//! How much longer a role's requests take beside another role than alone.

pub(crate) mod certain;
mod confirm;
mod failing;

use std::collections::BTreeMap;

use tilemark_plan::plan::{Plan, Point};
use tilemark_plan::scenario::LoopKind;
use tilemark_record::result::{GateMeasure, Interference, RoleFailure, Slowdown, Verdict};
use tilemark_record::summary::RepeatSummary;
use tilemark_units::counted;

use super::blocks::{blocks_and_pairs, figures};
use super::failures::another_ended;
use super::measured::MeasuredPoint;
use super::notes::Notes;
use crate::figure::{Figure, INTERVAL_REPEATS_MIN, Missing};
use crate::holm::holm;
use crate::ratio::ratio;
use crate::sentence;
use certain::{LogTimes, Looks, Times};
pub use confirm::{SlowPair, pairs_to_confirm};
use failing::shared_failures;

/// The slowdowns of every loaded role beside every role; `None` where roles were not measured alone and together.
pub(crate) fn interference(
    plan: &Plan,
    measured: &[MeasuredPoint],
    missing: &mut BTreeMap<String, String>,
) -> Option<Interference> {
    let counted = measured.iter().filter(|point| point.counts);
    let pairs = counted.filter(|point| point.point.together.as_ref().is_some_and(|of| of.second.is_some()));
    let (mut slowdowns, mut tested) = (Vec::new(), Vec::new());
    for pair in pairs {
        let together = pair.point.together.as_ref()?;
        let second = together.second.as_deref()?;
        let mut sides = vec![(together.first.as_str(), second)];
        if second != together.first {
            sides.push((second, together.first.as_str()));
        }
        for (role, beside) in sides {
            let Some((load, loop_kind)) = load_of(plan, pair.point, role) else { continue };
            let alone = alone(measured, pair, role);
            let side = alone.map(|alone| Side { alone, pair, other: beside, load, loop_kind });
            let fails = side.as_ref().ok().and_then(Side::fails);
            let mut notes = Notes { name: format!("interference.{role}"), missing: &mut *missing };
            let slowdown = side.clone().and_then(|side| side.slowdown(fails.as_ref(), plan.seed));
            let slowdown = notes.figure(beside, slowdown);
            let is_tested = slowdown.is_some_and(|figure| figure.low.is_some());
            tested.push(side.ok().filter(|_| is_tested).map(|side| side.times()));
            let (role, beside) = (role.to_owned(), beside.to_owned());
            slowdowns.push(Slowdown { role, beside, slowdown, p: None, certain: Some(false), fails });
        }
    }
    if slowdowns.is_empty() {
        return None;
    }
    decide(&mut slowdowns, tested, looks(plan));
    let certain = slowdowns.iter().filter(|found| found.is_certain());
    let worst = certain.max_by(|one, other| one.value().total_cmp(&other.value())).cloned();
    Some(Interference { worst, slowdowns, level: Some(certain::LEVEL) })
}

/// The verdict, at best "cannot tell" where a slowdown is not known, or has too few pairs of repeats for an interval. That a role fails
/// beside another is known.
pub(crate) fn doubt(
    verdict: Verdict,
    found: Option<&Interference>,
    missing: &BTreeMap<String, String>,
) -> Verdict {
    let lacking = |lacks: fn(&Slowdown) -> bool| {
        let lacking = || found.iter().flat_map(|found| &found.slowdowns).filter(|one| lacks(one));
        let more = match lacking().count().saturating_sub(1) {
            0 => String::new(),
            more => format!(" (and {more} more)"),
        };
        let first = lacking().next()?;
        Some((first, format!("the slowdown of {} beside {}{more}", first.role, first.beside)))
    };
    let is_unknown = |one: &Slowdown| one.slowdown.is_none() && one.fails.is_none();
    let unknown = lacking(is_unknown).map(|(first, slowdown)| {
        let reason = missing.get(&format!("interference.{}.{}", first.role, first.beside));
        let reason = reason.map_or_else(String::new, |reason| format!(": {reason}"));
        format!("{slowdown} is not known{reason}")
    });
    let has_no_interval = |one: &Slowdown| one.slowdown.is_some_and(|figure| figure.low.is_none());
    let wide = lacking(has_no_interval).map(|(_, slowdown)| {
        format!("{slowdown} has no interval: an interval needs {INTERVAL_REPEATS_MIN} pairs of repeats")
    });
    verdict.doubted(&unknown.into_iter().chain(wide).collect::<Vec<String>>())
}

/// Every point of roles has as many planned repeats.
fn looks(plan: &Plan) -> Looks {
    let planned = plan.points.first().map_or(0, |point| point.measure.repeats as usize);
    if plan.confirm_blocks > 0 { Looks::After(planned) } else { Looks::Once }
}

/// Notes p of each slowdown that has times to test, and whether it is certain. Times that share a point alone are of one role.
fn decide(slowdowns: &mut [Slowdown], tested: Vec<Option<(usize, Times)>>, looks: Looks) {
    let (mut places, mut times): (BTreeMap<usize, Vec<usize>>, BTreeMap<usize, Vec<Times>>) =
        Default::default();
    for (place, tested) in tested.into_iter().enumerate() {
        if let Some((alone, of)) = tested {
            places.entry(alone).or_default().push(place);
            times.entry(alone).or_default().push(of);
        }
    }
    let p: Vec<f64> = times.values().flat_map(|of_role| certain::p_of_role(of_role, looks)).collect();
    for (place, p) in places.into_values().flatten().zip(holm(&p)) {
        let found = &mut slowdowns[place];
        let low = found.slowdown.and_then(|figure| figure.low);
        found.p = Some(p);
        found.certain = Some(low.is_some_and(|low| certain::is_certain(p, low)));
    }
}

/// A role, alone and beside another one.
#[derive(Clone)]
struct Side<'m, 'a> {
    alone: &'m MeasuredPoint<'a>,
    pair: &'m MeasuredPoint<'a>,
    other: &'m str,
    load: &'m str,
    loop_kind: LoopKind,
}

impl<'a> Side<'_, 'a> {
    /// The repeats in which the other one was there to the end: beside a guest that ended the role is as good as alone.
    fn beside(&self) -> Vec<&'a RepeatSummary> {
        let kept = self.pair.kept.iter().copied();
        kept.filter(|repeat| !another_ended(self.pair.point, repeat, self.load)).collect()
    }

    /// The ratio of its times. Requests that fail may end early or late: a mean over them is the time of nothing.
    fn slowdown(&self, fails: Option<&RoleFailure>, seed: u64) -> Result<Figure, Missing> {
        if let Some(fails) = fails {
            return Err(Missing::because(format!("{}: times are not compared", sentence::fails(fails))));
        }
        if self.broke_alone().is_some_and(|broke| broke.measure != GateMeasure::Achieved) {
            return Err(Missing::because("its requests failed alone too: times are not compared"));
        }
        if let Some(broke) = shared_failures(self.alone).first() {
            let what = sentence::what_broke(broke);
            return Err(Missing::because(format!("{what}, where it was alone: times are not compared")));
        }
        let (beside, kept) = (self.beside(), self.pair.kept.len());
        if beside.is_empty() && kept > 0 {
            let repeats = counted(kept as u64, "repeat");
            return Err(Missing::because(format!("{} ended in {kept} of {repeats}", self.other)));
        }
        slowdown(&self.alone.kept, &beside, self.load, self.loop_kind, seed)
    }

    /// What the ratio is tested by, with the point at which the role is alone.
    fn times(&self) -> (usize, Times) {
        // Each repeat beside the other has the block of the one alone that it is compared with.
        let pairs = blocks_and_pairs(&self.alone.kept, &self.beside());
        let beside = pairs.iter().flat_map(|pair| pair.b.iter().map(|repeat| (pair.a[0].block, *repeat)));
        let alone = self.alone.kept.iter().map(|repeat| (repeat.block, *repeat));
        (self.alone.point.index, Times { alone: self.log_times(alone), beside: self.log_times(beside) })
    }

    /// Logarithms of the time of a request in each repeat that has one, by block.
    fn log_times<'r>(&self, repeats: impl Iterator<Item = (u32, &'r RepeatSummary)>) -> LogTimes {
        let log = |(block, repeat)| {
            let time = time_of_request(repeat, self.load, self.loop_kind)?;
            Some((block, time.ln())).filter(|(_, log)| log.is_finite())
        };
        repeats.filter_map(log).collect()
    }
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

/// How many times as long a request takes in the company of others, block by block, then in pairs of what is left.
pub(crate) fn slowdown(
    alone: &[&RepeatSummary],
    company: &[&RepeatSummary],
    load: &str,
    loop_kind: LoopKind,
    seed: u64,
) -> Result<Figure, Missing> {
    let blocks = blocks_and_pairs(alone, company);
    let blocks = figures(&blocks, &|repeat| time_of_request(repeat, load, loop_kind))?;
    ratio(&blocks, seed)
}

/// The time that a guest takes for a request. In an open loop it is the mean latency. A closed loop has always as many requests in flight,
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
