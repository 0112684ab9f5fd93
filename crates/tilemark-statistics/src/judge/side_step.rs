//! A step that both sides have, with its repeats.

use tilemark_record::summary::RepeatSummary;
use tilemark_units::counted;

use super::blocks::{RepeatBlock, serves, whole_blocks};
use super::measured::MeasuredPoint;
use super::pairing::Pairing;

/// A step that both sides have: one measured point a side, or one of each run.
pub(crate) struct SideStep<'m, 'a> {
    pub(crate) a: Vec<&'m MeasuredPoint<'a>>,
    pub(crate) b: Vec<&'m MeasuredPoint<'a>>,
}

impl<'m, 'a> SideStep<'m, 'a> {
    pub(crate) fn first(&self) -> &'m MeasuredPoint<'a> {
        self.a[0]
    }

    pub(crate) fn all(&self) -> impl Iterator<Item = &'m MeasuredPoint<'a>> {
        self.a.iter().chain(&self.b).copied()
    }

    /// Whether both sides hold the gate here.
    pub(crate) fn holds(&self) -> bool {
        held(&self.a) == Some(true) && held(&self.b) == Some(true)
    }

    pub(crate) fn is_measured(&self) -> bool {
        let kept = |side: &[&MeasuredPoint]| side.iter().any(|point| !point.kept.is_empty());
        kept(&self.a) && kept(&self.b)
    }

    /// Repeats that count, of both sides, in which a load was served.
    pub(crate) fn served(&self, load: &str) -> Vec<&'a RepeatSummary> {
        self.all()
            .flat_map(|point| point.kept.iter().copied())
            .filter(|repeat| serves(repeat, load))
            .collect()
    }

    pub(crate) fn place(&self) -> String {
        let point = self.first().point;
        let tiles = format!("at {}", counted(point.tiles, "tile"));
        point.vary.iter().fold(tiles, |text, (name, value)| format!("{text}, {name} {value}"))
    }

    /// Repeats in the blocks of their run, or of each side all in one block.
    pub(crate) fn blocks(
        &self,
        pairing: Pairing,
        of: fn(&MeasuredPoint<'a>) -> Vec<&'a RepeatSummary>,
    ) -> Vec<RepeatBlock<'a>> {
        let all = |side: &[&MeasuredPoint<'a>]| side.iter().flat_map(|point| of(point)).collect::<Vec<_>>();
        let (a, b) = (all(&self.a), all(&self.b));
        match pairing {
            Pairing::Blocks => whole_blocks(&a, &b),
            Pairing::None | Pairing::Runs => vec![RepeatBlock { a, b }],
        }
    }
}

/// The step that decides: the largest that both sides hold. Beyond, speed is the length of a queue. Where there is none, the
/// smallest that was measured.
pub(crate) fn decisive<'s, 'm, 'a>(steps: &'s [SideStep<'m, 'a>]) -> Option<&'s SideStep<'m, 'a>> {
    // In the order given, so that of several values at one count the first decides.
    let held = steps.iter().filter(|step| step.holds());
    let largest = held.rev().max_by_key(|step| step.first().point.tiles);
    let measured = || steps.iter().filter(|step| step.is_measured());
    largest.or_else(|| measured().min_by_key(|step| step.first().point.tiles)).or(steps.first())
}

/// Whether a side holds a step: no run broke the gate, and at least one kept it.
pub(crate) fn held(side: &[&MeasuredPoint]) -> Option<bool> {
    let findings = || side.iter().map(|point| point.gate.holds());
    if findings().any(|holds| holds == Some(false)) {
        return Some(false);
    }
    findings().any(|holds| holds == Some(true)).then_some(true)
}
