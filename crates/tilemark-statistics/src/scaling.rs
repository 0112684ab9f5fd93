//! The Universal Scalability Law (Gunther): throughput(N) = rate * N / (1 + s (N - 1) + k N (N - 1)).
//!
//! `s` is what waits in line (contention), `k` what must be agreed on between all (coherence); k = 0 is
//! Amdahl's law. A fit is tried from seven steps on, its parameters are kept physical (not negative), and it is
//! never read further than twice the largest step: the law describes what was seen, it does not foretell.

use glam::{DMat3, DVec3};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::bootstrap::quantile;
use crate::figure::{CONFIDENCE, Figure, Interval, Missing};
use crate::moments::logarithms;

/// Fewest steps for a fit: three parameters from fewer are a drawing, not a measurement (MLPerf Endpoints asks
/// for as many).
pub const FIT_STEPS_MIN: usize = 7;

/// How far beyond the largest step the law may be read.
pub const EXTRAPOLATION_MAX: f64 = 2.0;

/// Resamples behind the intervals; R's `usl` draws 50, which its manual calls possibly too few.
const RESAMPLES: usize = 999;

/// One step of the ladder with the throughput of each of its repeats.
#[derive(Clone, Debug, PartialEq)]
pub struct ScalingStep {
    /// Tiles, or guests: what was added.
    pub count: f64,
    /// Throughput of each kept repeat, all in one unit.
    pub throughputs: Vec<f64>,
}

/// A fitted law.
#[derive(Clone, Debug, PartialEq)]
pub struct ScalingLaw {
    /// Throughput of one tile by the fit, in the unit of the steps.
    pub rate: Figure,
    /// Contention, `s`.
    pub contention: Figure,
    /// Coherence, `k`.
    pub coherence: Figure,
    /// Largest share by which a step's mean lies off the curve. Where it is large, the law does not hold here
    /// and the parameters mean nothing.
    pub worst_deviation: f64,
    largest_count: f64,
    resampled: Vec<DVec3>,
}

/// Fits the law by Levenberg-Marquardt on logarithms (repeats scatter by factors); intervals by resampling the
/// repeats' distances from the curve, seeded.
pub fn fit_scaling_law(steps: &[ScalingStep], seed: u64) -> Result<ScalingLaw, Missing> {
    let points = points(steps)?;
    let best = fit(&points, start(&points));
    let distances: Vec<f64> =
        points.iter().map(|point| point.log_throughput - log_law(&best, point.count)).collect();
    // Distances from a fitted curve are too small by the three parameters that bent towards them.
    let widened = (points.len() as f64 / (points.len() - 3) as f64).sqrt();
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let resampled: Vec<DVec3> = (0..RESAMPLES)
        .map(|_| {
            let moved = points.iter().map(|point| Point {
                count: point.count,
                log_throughput: log_law(&best, point.count)
                    + widened * distances[random.random_range(0..distances.len())],
            });
            fit(&moved.collect::<Vec<_>>(), best)
        })
        .collect();
    let n_repeats = points.len();
    let figure = |index: usize| of_resamples(best[index], resampled.iter().map(|law| law[index]), n_repeats);
    Ok(ScalingLaw {
        rate: figure(0).map(f64::exp),
        contention: figure(1),
        coherence: figure(2),
        worst_deviation: worst_deviation(steps, &best),
        largest_count: steps.iter().map(|step| step.count).fold(0.0, f64::max),
        resampled,
    })
}

impl ScalingLaw {
    /// The count at which the curve turns, sqrt((1 - s) / k); no count where it never turns, or turns further
    /// out than may be read.
    pub fn peak(&self) -> Result<f64, Missing> {
        let peak = turn(self.contention.value, self.coherence.value);
        if peak.is_finite() && peak <= EXTRAPOLATION_MAX * self.largest_count {
            return Ok(peak);
        }
        Err(Missing::because(format!(
            "throughput does not turn within {EXTRAPOLATION_MAX} times what was measured"
        )))
    }

    /// The ends of the peak's 95 % interval, over the resamples. An end is `None` where the curve of that resample does not turn
    /// within what may be read.
    pub fn peak_interval(&self) -> (Option<f64>, Option<f64>) {
        let mut peaks: Vec<f64> = self.resampled.iter().map(|law| turn(law[1], law[2])).collect();
        peaks.sort_by(f64::total_cmp);
        let tail = (1.0 - CONFIDENCE) / 2.0;
        // By nearest rank: between a count and infinity lies nothing to interpolate.
        let rank = |part: f64| peaks.get((part * (peaks.len() - 1) as f64).round() as usize).copied();
        let readable = |peak: &f64| *peak <= EXTRAPOLATION_MAX * self.largest_count;
        (rank(tail).filter(readable), rank(1.0 - tail).filter(readable))
    }

    /// Throughput at a count by the fit, with its interval; refused beyond [`EXTRAPOLATION_MAX`] times the
    /// largest step.
    pub fn throughput_at(&self, count: f64) -> Result<Figure, Missing> {
        let limit = EXTRAPOLATION_MAX * self.largest_count;
        if !(count >= 1.0 && count <= limit) {
            return Err(Missing::because(format!(
                "{count} lies outside 1 to {limit}, where the fit may be read"
            )));
        }
        let best = DVec3::new(self.rate.value.ln(), self.contention.value, self.coherence.value);
        let laws = self.resampled.iter().map(|law| log_law(law, count));
        Ok(of_resamples(log_law(&best, count), laws, self.rate.n_repeats).map(f64::exp))
    }
}

/// The count at which a law's curve turns; infinite or no number where it never does.
fn turn(contention: f64, coherence: f64) -> f64 {
    ((1.0 - contention).max(0.0) / coherence).sqrt()
}

#[derive(Clone, Copy)]
struct Point {
    count: f64,
    log_throughput: f64,
}

fn points(steps: &[ScalingStep]) -> Result<Vec<Point>, Missing> {
    let mut counts: Vec<f64> =
        steps.iter().filter(|step| !step.throughputs.is_empty()).map(|step| step.count).collect();
    counts.sort_by(f64::total_cmp);
    counts.dedup();
    if counts.len() < FIT_STEPS_MIN {
        let steps = counts.len();
        return Err(Missing::because(format!("only {steps} steps, and a scaling law needs {FIT_STEPS_MIN}")));
    }
    if counts.iter().any(|count| !(*count >= 1.0 && count.is_finite())) {
        return Err(Missing::because("a step with fewer than one tile has no place in a scaling law"));
    }
    let mut points = Vec::new();
    for step in steps {
        let logs = logarithms(&step.throughputs).ok_or_else(|| {
            Missing::because(format!(
                "a repeat at {} tiles has no throughput to take the logarithm of",
                step.count
            ))
        })?;
        points.extend(logs.into_iter().map(|log_throughput| Point { count: step.count, log_throughput }));
    }
    Ok(points)
}

/// The law on logarithms; parameters are ln(rate), s, k.
fn log_law(law: &DVec3, count: f64) -> f64 {
    law[0] + count.ln() - slowdown(law, count).ln()
}

fn slowdown(law: &DVec3, count: f64) -> f64 {
    1.0 + law[1] * (count - 1.0) + law[2] * count * (count - 1.0)
}

/// A start on the ground: count / throughput is a parabola in count, so an ordinary least-squares parabola
/// gives all three parameters.
fn start(points: &[Point]) -> DVec3 {
    let (mut normal, mut right) = (DMat3::ZERO, DVec3::ZERO);
    for point in points {
        let n = point.count;
        let row = DVec3::new(1.0, n - 1.0, n * (n - 1.0));
        let value = n / point.log_throughput.exp();
        // Divided by the value: relative errors count alike at both ends of the ladder.
        normal += outer_square(row) / (value * value);
        right += row / value;
    }
    let parabola = normal.try_inverse().map_or(DVec3::X, |inverse| inverse * right);
    let one = if parabola[0] > 0.0 { parabola[0] } else { 1.0 };
    physical(DVec3::new(-one.ln(), parabola[1] / one, parabola[2] / one))
}

fn physical(law: DVec3) -> DVec3 {
    DVec3::new(law[0], law[1].max(0.0), law[2].max(0.0))
}

fn squares(points: &[Point], law: &DVec3) -> f64 {
    points.iter().map(|point| (point.log_throughput - log_law(law, point.count)).powi(2)).sum()
}

/// Levenberg-Marquardt with each step brought back to physical parameters. A parameter that is zero and
/// is pulled below it is left out of the step, so that it cannot hold the others back.
fn fit(points: &[Point], start: DVec3) -> DVec3 {
    let (mut law, mut damping) = (start, 1e-3);
    let mut error = squares(points, &law);
    for _ in 0..200 {
        let (curvature, pull) = curvature_and_pull(points, &law);
        let Some(step) = damped_step(&curvature, &pull, &law, damping) else { return law };
        let next = physical(law + step);
        let next_error = squares(points, &next);
        if next_error < error {
            let gained = error - next_error;
            (law, error, damping) = (next, next_error, (damping / 10.0).max(1e-12));
            if gained <= 1e-14 * error.max(1e-30) {
                return law;
            }
        } else if damping > 1e12 {
            return law;
        } else {
            damping *= 10.0;
        }
    }
    law
}

fn curvature_and_pull(points: &[Point], law: &DVec3) -> (DMat3, DVec3) {
    let (mut curvature, mut pull) = (DMat3::ZERO, DVec3::ZERO);
    for point in points {
        let (n, slow) = (point.count, slowdown(law, point.count));
        let gradient = DVec3::new(1.0, -(n - 1.0) / slow, -n * (n - 1.0) / slow);
        curvature += outer_square(gradient);
        pull += gradient * (point.log_throughput - log_law(law, n));
    }
    (curvature, pull)
}

/// A vector times itself transposed.
fn outer_square(vector: DVec3) -> DMat3 {
    DMat3::from_cols(vector * vector.x, vector * vector.y, vector * vector.z)
}

fn damped_step(curvature: &DMat3, pull: &DVec3, law: &DVec3, damping: f64) -> Option<DVec3> {
    let (mut system, mut right) = (*curvature, *pull);
    for index in 0..3 {
        system.col_mut(index)[index] *= 1.0 + damping;
        if index > 0 && law[index] == 0.0 && pull[index] < 0.0 {
            for other in 0..3 {
                system.col_mut(other)[index] = 0.0;
                system.col_mut(index)[other] = 0.0;
            }
            system.col_mut(index)[index] = 1.0;
            right[index] = 0.0;
        }
    }
    system.try_inverse().map(|inverse| inverse * right)
}

fn of_resamples(value: f64, resampled: impl Iterator<Item = f64>, n_repeats: usize) -> Figure {
    let mut sorted: Vec<f64> = resampled.collect();
    sorted.sort_by(f64::total_cmp);
    let tail = (1.0 - CONFIDENCE) / 2.0;
    let interval = Interval { low: quantile(&sorted, tail), high: quantile(&sorted, 1.0 - tail) };
    Figure { value, interval: Ok(interval), n_repeats }
}

fn worst_deviation(steps: &[ScalingStep], law: &DVec3) -> f64 {
    let off = |step: &ScalingStep| {
        let log = crate::moments::mean(&logarithms(&step.throughputs)?)?;
        Some(((log - log_law(law, step.count)).exp() - 1.0).abs())
    };
    steps.iter().filter_map(off).fold(0.0, f64::max)
}

#[cfg(test)]
mod tests {
    use rand_distr::{Distribution, Normal};

    use super::*;

    fn law(rate: f64, s: f64, k: f64, count: f64) -> f64 {
        rate * count / (1.0 + s * (count - 1.0) + k * count * (count - 1.0))
    }

    fn measured(noise: f64, seed: u64, throughput: impl Fn(f64) -> f64) -> Vec<ScalingStep> {
        let noise = Normal::new(0.0, noise).unwrap();
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let mut repeats = |count: f64| {
            (0..3).map(|_| throughput(count) * f64::exp(noise.sample(&mut random))).collect::<Vec<f64>>()
        };
        [1.0, 2.0, 4.0, 6.0, 8.0, 12.0, 16.0, 24.0]
            .map(|count| ScalingStep { count, throughputs: repeats(count) })
            .to_vec()
    }

    #[test]
    fn a_law_without_noise_is_fitted_exactly() {
        let found = fit_scaling_law(&measured(0.0, 0, |n| law(955.0, 0.027, 0.0011, n)), 1).unwrap();
        assert!((found.rate.value / 955.0 - 1.0).abs() < 1e-6, "{found:?}");
        assert!((found.contention.value - 0.027).abs() < 1e-6);
        assert!((found.coherence.value - 0.0011).abs() < 1e-7);
        assert!(found.worst_deviation < 1e-6);
        assert!((found.peak().unwrap() - (0.973_f64 / 0.0011).sqrt()).abs() < 0.01);
    }

    #[test]
    fn the_fit_is_the_best_that_a_search_over_a_fine_grid_finds() {
        // A published ladder: SPEC SDM91 throughput of Gunther's "Guerrilla Capacity Planning", chapter 5.
        let data = [
            (1.0, 64.9),
            (18.0, 995.9),
            (36.0, 1652.4),
            (72.0, 1853.2),
            (108.0, 1828.9),
            (144.0, 1775.0),
            (216.0, 1702.2),
        ];
        let steps = data.map(|(count, throughput)| ScalingStep { count, throughputs: vec![throughput] });
        let points = points(&steps).unwrap();
        let mut best = (f64::INFINITY, 0.0, 0.0);
        for s in (0..600).map(|i| f64::from(i) * 5e-5) {
            for k in (0..500).map(|i| f64::from(i) * 5e-7) {
                // For given s and k the best rate is the mean distance on logarithms.
                let bare = DVec3::new(0.0, s, k);
                let rate =
                    points.iter().map(|p| p.log_throughput - log_law(&bare, p.count)).sum::<f64>() / 7.0;
                let error = squares(&points, &DVec3::new(rate, s, k));
                best = if error < best.0 { (error, s, k) } else { best };
            }
        }
        let found = fit_scaling_law(&steps, 1).unwrap();
        assert!((found.contention.value - best.1).abs() <= 1e-4, "{:?} {best:?}", found.contention);
        assert!((found.coherence.value - best.2).abs() <= 1e-6, "{:?} {best:?}", found.coherence);
        assert!(
            (80.0..=120.0).contains(&found.peak().unwrap()),
            "measured best at 72 to 108: {:?}",
            found.peak()
        );
    }

    #[test]
    fn intervals_of_the_parameters_cover_the_truth() {
        let trials = 60;
        let covered = (0..trials).filter(|&trial| {
            let found =
                fit_scaling_law(&measured(0.02, trial, |n| law(500.0, 0.05, 0.002, n)), trial).unwrap();
            found.coherence.interval.unwrap().contains(0.002)
        });
        let found = covered.count();
        assert!((52..=60).contains(&found), "{found} of {trials}");
    }

    #[test]
    fn a_straight_line_has_no_contention_no_coherence_and_no_peak() {
        let found = fit_scaling_law(&measured(0.0, 0, |n| 200.0 * n), 1).unwrap();
        assert!(found.contention.value < 1e-9 && found.coherence.value < 1e-9);
        assert!(found.peak().is_err());
    }

    #[test]
    fn what_does_not_follow_the_law_shows_it() {
        let found =
            fit_scaling_law(&measured(0.0, 0, |n| if n < 9.0 { 100.0 * n } else { 300.0 }), 1).unwrap();
        assert!(found.worst_deviation > 0.2, "{}", found.worst_deviation);
        assert!(found.contention.value >= 0.0 && found.coherence.value >= 0.0);
    }

    #[test]
    fn six_steps_are_no_law() {
        let steps = &measured(0.0, 0, |n| 200.0 * n)[..6];
        assert_eq!(fit_scaling_law(steps, 1).unwrap_err().reason, "only 6 steps, and a scaling law needs 7");
    }

    #[test]
    fn the_law_is_not_read_beyond_twice_the_largest_step() {
        let found = fit_scaling_law(&measured(0.01, 3, |n| law(500.0, 0.05, 0.002, n)), 1).unwrap();
        let at = found.throughput_at(48.0).unwrap();
        assert!(at.low().unwrap() < at.value && at.value < at.high().unwrap());
        assert!(found.throughput_at(48.1).is_err());
        assert!(found.throughput_at(0.5).is_err());
    }
}
