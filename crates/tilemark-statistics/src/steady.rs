//! Whether a measurement had settled: two tests over its seconds, each for what the other does not see.
//!
//! A level that changes at some moment (a cache that fills, a neighbour that comes) is found by the self-normalised CUSUM of Shao
//! and Zhang (2010); one that grows all the time (a queue, a leak) by the slope of a line, whose error is widened to the number of
//! seconds that the series is worth. Both limits were found by simulation (docs/decisions/0050).

use crate::moments::{logarithms, mean};
use crate::series::effective_sample_size;

/// Fewest seconds that say something.
pub const SECONDS_MIN: usize = 12;
/// Least change between the halves that is worth a word.
pub const CHANGE_MIN: f64 = 0.1;
/// How often a measurement that had settled is said to drift, at most: with 20 seconds of which each keeps half of the one before.
pub const FALSE_ALARMS_MAX: f64 = 0.01;

/// Beyond this the CUSUM finds a change of level.
const LEVEL_LIMIT: f64 = 205.0;
/// Beyond this many of its standard errors a slope is one.
const SLOPE_LIMIT: f64 = 6.0;

/// A series that had not settled.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Unsettled {
    /// Geometric mean of its first half.
    pub first_half: f64,
    /// Geometric mean of its second half.
    pub second_half: f64,
}

/// Whether a figure drifts over the seconds of a measurement; `None` where it does not, or where there are fewer than
/// [`SECONDS_MIN`] seconds or one without a positive figure.
pub fn drift(seconds: &[f64]) -> Option<Unsettled> {
    let logs = logarithms(seconds).filter(|logs| logs.len() >= SECONDS_MIN)?;
    let half = logs.len() / 2;
    let first_half = mean(&logs[..half])?.exp();
    let second_half = mean(&logs[logs.len() - half..])?.exp();
    let change = (second_half / first_half).max(first_half / second_half) - 1.0;
    let moved = change >= CHANGE_MIN && (level(&logs) > LEVEL_LIMIT || slope(&logs) > SLOPE_LIMIT);
    moved.then_some(Unsettled { first_half, second_half })
}

/// The largest CUSUM over all moments that leave a quarter on each side, squared and normalised by the CUSUMs of the two sides.
/// No variance is estimated, so seconds that remember each other do not mislead it much.
fn level(series: &[f64]) -> f64 {
    let count = series.len();
    let total: f64 = series.iter().sum();
    let at = |moment: usize| {
        let (before, after) = series.split_at(moment);
        let distance = before.iter().sum::<f64>() - moment as f64 / count as f64 * total;
        let own = (wandering(before) + wandering(after)) / (count * count) as f64;
        ratio(distance * distance / count as f64, own)
    };
    let edge = count / 4;
    (edge..=count - edge).map(at).fold(0.0, f64::max)
}

/// Sum of squares of a part's own CUSUM.
fn wandering(part: &[f64]) -> f64 {
    let centre = part.iter().sum::<f64>() / part.len() as f64;
    let mut sum = 0.0;
    part.iter()
        .map(|value| {
            sum += value - centre;
            sum * sum
        })
        .sum()
}

/// The slope of the least-squares line in its standard errors, with as many independent values as the distances from it are worth.
fn slope(series: &[f64]) -> f64 {
    let count = series.len() as f64;
    let centre = series.iter().sum::<f64>() / count;
    let time = |second: usize| second as f64 - (count - 1.0) / 2.0;
    let squares: f64 = (0..series.len()).map(|second| time(second).powi(2)).sum();
    let moment: f64 = series.iter().enumerate().map(|(second, value)| time(second) * (value - centre)).sum();
    let slope = moment / squares;
    let distances: Vec<f64> =
        series.iter().enumerate().map(|(second, value)| value - centre - slope * time(second)).collect();
    let variance = distances.iter().map(|distance| distance * distance).sum::<f64>() / (count - 2.0);
    let worth = effective_sample_size(&distances).unwrap_or(1.0);
    ratio(slope * slope, variance / squares * count / worth).sqrt()
}

/// Of a series without any scatter every movement is one, but for the error of the arithmetic.
fn ratio(moved: f64, own: f64) -> f64 {
    const ROUNDING: f64 = 1e-24;
    if own > ROUNDING {
        moved / own
    } else if moved > ROUNDING {
        f64::INFINITY
    } else {
        0.0
    }
}

#[cfg(test)]
mod tests {
    use rand::{RngExt, SeedableRng};
    use rand_chacha::ChaCha8Rng;
    use rand_distr::{Distribution, StandardNormal};

    use super::*;

    const TRIALS: usize = 2_000;

    /// Seconds that keep a part of the one before, with that deviation on logarithms, moved by `shape` at each part of the time.
    fn seconds(
        random: &mut ChaCha8Rng,
        (count, kept, deviation): (usize, f64, f64),
        shape: impl Fn(f64) -> f64,
    ) -> Vec<f64> {
        let mut last: f64 = StandardNormal.sample(random);
        let mut step = || {
            let noise: f64 = StandardNormal.sample(random);
            last = kept * last + f64::sqrt(1.0 - kept * kept) * noise;
            last
        };
        let at = |second: usize| (second as f64 + 0.5) / count as f64;
        (0..count).map(|second| (deviation * step()).exp() * shape(at(second))).collect()
    }

    /// How many of the trials are said to drift, in percent.
    fn found(mut series: impl FnMut(&mut ChaCha8Rng) -> Vec<f64>) -> f64 {
        let mut random = ChaCha8Rng::seed_from_u64(5);
        let found = (0..TRIALS).filter(|_| drift(&series(&mut random)).is_some()).count();
        100.0 * found as f64 / TRIALS as f64
    }

    #[test]
    fn what_has_settled_is_said_to_drift_in_one_of_a_hundred_at_most() {
        for kept in [0.0, 0.3, 0.5] {
            let alarms = found(|random| seconds(random, (20, kept, 0.2), |_| 1.0));
            assert!(alarms <= 100.0 * FALSE_ALARMS_MAX, "{kept}: {alarms} %");
        }
    }

    #[test]
    fn bursts_and_hiccups_are_no_drift() {
        let bursts = found(|random| {
            let phase = random.random_range(0..5);
            let mut series = seconds(random, (20, 0.3, 0.2), |_| 1.0);
            series.iter_mut().skip(phase).step_by(5).for_each(|second| *second *= 5.0);
            series
        });
        let hiccups = found(|random| {
            let mut series = seconds(random, (20, 0.0, 0.1), |_| 1.0);
            series.iter_mut().filter(|_| random.random_bool(0.05)).for_each(|second| *second *= 5.0);
            series
        });
        assert!(bursts <= 0.1 && hiccups <= 0.2, "{bursts} % {hiccups} %");
    }

    #[test]
    fn what_grows_and_what_changes_its_level_is_found() {
        let by = |shape: fn(f64) -> f64| found(|random| seconds(random, (20, 0.3, 0.05), shape));
        let grows = by(|time| 1.4_f64.powf(time));
        let changes = by(|time| if time > 0.5 { 1.4 } else { 1.0 });
        let warms_up = by(|time| if time < 0.25 { 2.0 } else { 1.0 });
        assert!(grows > 75.0 && changes > 90.0 && warms_up > 90.0, "{grows} {changes} {warms_up}");
    }

    #[test]
    fn a_drift_has_both_halves_and_a_small_change_is_not_one() {
        let steps = |to: f64| (0..20).map(|second| if second < 10 { 2.0 } else { to }).collect::<Vec<f64>>();
        let found = drift(&steps(3.0)).unwrap();
        assert!((found.first_half - 2.0).abs() < 1e-9 && (found.second_half - 3.0).abs() < 1e-9);
        assert_eq!(drift(&steps(2.1)), None, "5 %");
        assert_eq!(drift(&[4.0; 60]), None);
        assert_eq!(drift(&steps(3.0)[5..16]), None, "eleven seconds");
        assert_eq!(drift(&steps(0.0)), None, "a second without a figure");
    }
}
