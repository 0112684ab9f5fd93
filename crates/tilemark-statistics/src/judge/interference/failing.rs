//! What a role fails at beside another one, and not alone.

use tilemark_plan::plan::Point;
use tilemark_record::result::{Break, GateMeasure, RoleFailure};
use tilemark_record::summary::{LoadFigures, RepeatSummary};
use tilemark_units::counted;

use super::Side;
use crate::judge::failures::breaks_of;
use crate::judge::gate::{achieved_fraction, error_fraction, not_served};
use crate::judge::measured::{self, MeasuredPoint};
use crate::moments::mean;
use crate::sentence;

impl Side<'_, '_> {
    /// What the role fails at beside the other, and not alone: a failure of its guest, else one that is no more its own than the other's,
    /// else errors, demand that was not served, or no answer at all.
    pub(super) fn fails(&self) -> Option<RoleFailure> {
        let own = self.own_failure();
        if own.as_ref().is_some_and(|own| own.measure.is_failure()) {
            return own;
        }
        self.shared_failure().or(own)
    }

    fn own_failure(&self) -> Option<RoleFailure> {
        let failure = breaks_of(self.pair.point, &self.pair.kept, self.load).into_iter().next();
        let broke = failure.or_else(|| unserved(self.pair.point, &self.beside(), self.load))?;
        let is_unserved = |broke: &Break| broke.measure == GateMeasure::Achieved;
        // Errors are new where demand was not served alone, but no request failed.
        let alone = self.broke_alone();
        if alone.is_some_and(|alone| !is_unserved(&alone) || is_unserved(&broke)) {
            return None;
        }
        let alone = self.alone.load(self.load);
        let part_alone = |part: fn(&LoadFigures) -> Option<f64>| {
            mean(&alone.iter().filter_map(|load| part(load)).collect::<Vec<f64>>())
        };
        let (beside, alone) = match broke.measure {
            GateMeasure::Errors => (broke.value, part_alone(error_fraction).unwrap_or(0.0)),
            GateMeasure::Achieved => (1.0 - broke.value, 1.0 - part_alone(achieved_fraction).unwrap_or(1.0)),
            _ => (broke.value, 0.0),
        };
        Some(RoleFailure { measure: broke.measure, beside, alone, detail: broke.detail })
    }

    /// How the role is beyond its gate alone.
    pub(super) fn broke_alone(&self) -> Option<Break> {
        let failure = breaks_of(self.alone.point, &self.alone.kept, self.load).into_iter().next();
        failure.or_else(|| unserved(self.alone.point, &self.alone.kept, self.load))
    }

    /// A failure of the whole host, or of a guest without a load, that was not there alone: both roles fail by it.
    fn shared_failure(&self) -> Option<RoleFailure> {
        let alone = shared_failures(self.alone);
        let is_alone = |broke: &Break| {
            alone.iter().any(|one| (one.measure, &one.guest) == (broke.measure, &broke.guest))
        };
        let broke = shared_failures(self.pair).into_iter().find(|broke| !is_alone(broke))?;
        let detail = Some(sentence::what_broke(&broke));
        Some(RoleFailure { measure: broke.measure, beside: broke.value, alone: 0.0, detail })
    }
}

/// How a load is beyond its gate in these repeats, other than by its latency and by failures.
fn unserved(point: &Point, repeats: &[&RepeatSummary], load: &str) -> Option<Break> {
    not_served(point, repeats, load).or_else(|| starved(point, repeats, load))
}

/// Failures of the whole host and of guests without a load.
pub(super) fn shared_failures(point: &MeasuredPoint) -> Vec<Break> {
    breaks_of(point.point, &point.kept, "")
}

/// A load that had no answer in time in some repeat, without an error that the gate would see: the worst that a neighbour can do, and
/// there is no time to compare.
fn starved(point: &Point, repeats: &[&RepeatSummary], load: &str) -> Option<Break> {
    let figures = measured::load(repeats, load);
    let is_starved =
        |load: &&&LoadFigures| load.figure.is_none() && (load.rate().is_nan() || load.rate() <= 0.0);
    let (had, all) = (figures.iter().filter(is_starved).count(), figures.len());
    (had > 0).then(|| Break {
        tiles: point.tiles,
        measure: GateMeasure::Achieved,
        value: 1.0 - had as f64 / all as f64,
        low: None,
        high: None,
        load: load.to_owned(),
        guest: None,
        second: None,
        detail: Some(format!("no request was answered in time ({had} of {})", counted(all as u64, "repeat"))),
    })
}
