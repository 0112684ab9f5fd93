//! A point with its repeats, sorted by what they are worth.

use tilemark_plan::plan::{Backend, Plan, Point};
use tilemark_record::result::Voided;
use tilemark_record::summary::{LoadFigures, RepeatSummary};

use super::failures;
use super::gate::{GateFinding, gate};
use super::validity::{Soundness, TypicalP99, soundness};

pub(crate) struct MeasuredPoint<'a> {
    pub(crate) point: &'a Point,
    /// Repeats whose figures count, by block and repeat.
    pub(crate) kept: Vec<&'a RepeatSummary>,
    /// Repeats in which our own load was too late or too busy.
    pub(crate) saturated: Vec<&'a RepeatSummary>,
    /// Repeats that something else spoiled.
    pub(crate) spoiled: Vec<&'a RepeatSummary>,
    /// All that do not count, with reasons.
    pub(crate) voided: Vec<Voided>,
    pub(crate) gate: GateFinding,
    /// Whether its figures may enter answer and cost: those of an emulator may not.
    pub(crate) counts: bool,
}

impl<'a> MeasuredPoint<'a> {
    /// In this plan. What is late is judged by all repeats of the step, of both sides.
    pub(crate) fn on(plan: &Plan, point: &'a Point, repeats: &'a [RepeatSummary]) -> Self {
        let is_compared = |other: &Point| {
            let is_alike = other.vary == point.vary || (other.screened.is_some() && point.screened.is_some());
            other.tiles == point.tiles && is_alike && other.backend == point.backend
        };
        let typical = TypicalP99::of(
            repeats.iter().filter(|repeat| plan.points.get(repeat.point).is_some_and(is_compared)),
        );
        Self { counts: !plan.host.emulates(point.backend), ..Self::beside(point, repeats, &typical) }
    }

    /// Wherever it was measured.
    pub(crate) fn of(point: &'a Point, repeats: &'a [RepeatSummary]) -> Self {
        let typical = TypicalP99::of(repeats.iter().filter(|repeat| repeat.point == point.index));
        Self::beside(point, repeats, &typical)
    }

    /// With the p99 that is typical of all that it is compared with.
    pub(crate) fn beside(point: &'a Point, repeats: &'a [RepeatSummary], typical: &TypicalP99) -> Self {
        let mut own: Vec<&RepeatSummary> =
            repeats.iter().filter(|repeat| repeat.point == point.index).collect();
        own.sort_by_key(|repeat| (repeat.block, repeat.repeat));
        let mut sorted = Self {
            point,
            kept: Vec::new(),
            saturated: Vec::new(),
            spoiled: Vec::new(),
            voided: Vec::new(),
            gate: GateFinding::Holds,
            counts: point.backend != Backend::Emulated,
        };
        for repeat in own {
            sorted.take(repeat, typical);
        }
        sorted.gate = gate(point, &sorted.kept, &sorted.saturated, &sorted.voided);
        sorted
    }

    fn take(&mut self, repeat: &'a RepeatSummary, typical: &TypicalP99) {
        // A failure is a finding, whatever else disturbed the repeat.
        if failures::has_failed(repeat) && repeat.backend == self.point.backend {
            return self.kept.push(repeat);
        }
        let reason = match soundness(self.point, repeat, typical) {
            Soundness::Sound => return self.kept.push(repeat),
            Soundness::Saturated(reason) => {
                self.saturated.push(repeat);
                reason
            }
            Soundness::Spoiled(reason) => {
                self.spoiled.push(repeat);
                reason
            }
        };
        self.voided.push(Voided { repeat: repeat.repeat, reason });
    }

    /// Every repeat, counted or not.
    pub(crate) fn all(&self) -> Vec<&'a RepeatSummary> {
        self.kept.iter().chain(&self.saturated).chain(&self.spoiled).copied().collect()
    }

    /// Whether all repeats were discarded, most of them because our own load was saturated.
    pub(crate) fn is_load_saturated(&self) -> bool {
        self.kept.is_empty() && self.saturated.len() > self.spoiled.len()
    }

    /// Whether anything was measured here at all.
    pub(crate) fn tried(&self) -> bool {
        !(self.kept.is_empty() && self.voided.is_empty())
    }

    /// How many repeats were discarded after as many as were planned counted: of a pair of roles, or of a role alone, those are of the blocks
    /// that confirm what looked slow.
    pub(crate) fn discarded_further(&self) -> usize {
        let planned = (self.point.measure.repeats as usize).checked_sub(1);
        let last = planned.and_then(|place| self.kept.get(place)).filter(|_| self.point.together.is_some());
        last.map_or(0, |last| self.voided.iter().filter(|voided| voided.repeat > last.repeat).count())
    }

    /// Every load by name, in the plan's order, once.
    pub(crate) fn load_names(&self) -> Vec<&'a str> {
        load_names(self.point)
    }

    /// Figures of a load in each kept repeat.
    pub(crate) fn load(&self, name: &str) -> Vec<&'a LoadFigures> {
        load(&self.kept, name)
    }

    /// The same step, values and side on another backend.
    pub(crate) fn is_twin_of(&self, other: &Self, backend: Backend) -> bool {
        self.point.backend == backend && self.point.side == other.point.side && self.is_step_of(other)
    }

    /// The same step and values.
    pub(crate) fn is_step_of(&self, other: &Self) -> bool {
        self.point.tiles == other.point.tiles && self.point.vary == other.point.vary
    }
}

pub(crate) fn load_names(point: &Point) -> Vec<&str> {
    let mut names: Vec<&str> = Vec::new();
    for load in &point.loads {
        if !names.contains(&load.name.as_str()) {
            names.push(&load.name);
        }
    }
    names
}

pub(crate) fn load<'a>(repeats: &[&'a RepeatSummary], name: &str) -> Vec<&'a LoadFigures> {
    repeats.iter().filter_map(|repeat| repeat.loads.iter().find(|load| load.name == name)).collect()
}
