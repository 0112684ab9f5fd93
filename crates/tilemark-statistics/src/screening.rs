//! The effects of many settings that were changed at once: each read apart from the others, with its interval and p.
//!
//! ```text
//! logarithm of a figure = level of the time + sum over settings of (effect / 2) x (+1 where it is on, -1 where it is off) + scatter
//! difference of a row and its mirror image = sum over settings of effect x (+1 or -1 in the row) + scatter of two repeats
//! ```
//! The level cancels out in the difference, and so does what two settings do together: it is the same in a row and its mirror image (Box and
//! Wilson 1951, fold-over). The effects are those of least squares, so that a pair which was discarded costs a little precision only.

use statrs::distribution::{ContinuousCDF, StudentsT};

use crate::figure::{Figure, INTERVAL_REPEATS_MIN, Interval, Missing};
use crate::interval::{student_factor, student_quantile};
use crate::resolution::FOUND_FRACTION;

/// Holm's p over all effects of a screening below which a setting looks real and is confirmed: in one screening of so many, a setting that
/// does nothing is confirmed.
pub const SCREENING_LEVEL: f64 = 0.05;

/// A row of the design and its mirror image, measured one after the other.
#[derive(Clone, Debug, PartialEq)]
pub struct PairOfRows {
    /// Which settings were on in the row. In its mirror image the others were.
    pub on: Vec<bool>,
    /// Logarithm of the figure in the row, less that in its mirror image.
    pub difference: f64,
}

/// What one setting does to one measure.
#[derive(Clone, Debug, PartialEq)]
pub struct Effect {
    /// The figure where it is on, divided by the figure where it is off.
    pub ratio: Figure,
    /// Probability of an effect at least this large if there were none; not corrected for the number of effects.
    pub p: f64,
}

/// The effects of all settings on one measure.
#[derive(Clone, Debug, PartialEq)]
pub struct Effects {
    /// One for each setting, in the order of the design's columns.
    pub of_settings: Vec<Effect>,
    /// Standard deviation of the logarithm of one repeat, about what the settings and the time make of it.
    pub repeat_deviation: f64,
    /// Degrees of freedom behind it.
    pub degrees: f64,
}

/// Reads the effects from the pairs.
///
/// # Errors
/// Where the pairs are too few, or where two settings were always changed together.
pub fn effects(pairs: &[PairOfRows]) -> Result<Effects, Missing> {
    let settings = pairs.first().map_or(0, |pair| pair.on.len());
    if settings == 0 {
        return Err(Missing::because("no row was measured together with its mirror image"));
    }
    let left = pairs.len().saturating_sub(settings);
    if left + 1 < INTERVAL_REPEATS_MIN {
        return Err(Missing::because(format!(
            "{} pairs of rows are too few for the effects of {settings} settings and their scatter",
            pairs.len()
        )));
    }
    if pairs.iter().any(|pair| !pair.difference.is_finite()) {
        return Err(Missing::because("a repeat holds what is not a number"));
    }
    let sign = |on: bool| if on { 1.0 } else { -1.0 };
    let signs: Vec<Vec<f64>> =
        pairs.iter().map(|pair| pair.on.iter().map(|on| sign(*on)).collect()).collect();
    let products = |one: usize, other: usize| signs.iter().map(|row| row[one] * row[other]).sum::<f64>();
    let normal: Vec<Vec<f64>> =
        (0..settings).map(|one| (0..settings).map(|other| products(one, other)).collect()).collect();
    let inverse = inverse(normal)
        .ok_or_else(|| Missing::because("the pairs that are left do not tell two of the settings apart"))?;
    let sums: Vec<f64> = (0..settings)
        .map(|at| signs.iter().zip(pairs).map(|(row, pair)| row[at] * pair.difference).sum())
        .collect();
    let found: Vec<f64> = inverse.iter().map(|row| dot(row, &sums)).collect();
    let residual = |(row, pair): (&Vec<f64>, &PairOfRows)| (pair.difference - dot(row, &found)).powi(2);
    let degrees = left as f64;
    let variance = signs.iter().zip(pairs).map(residual).sum::<f64>() / degrees;
    let effect = |at: usize| effect(found[at], (variance * inverse[at][at]).sqrt(), degrees, pairs.len());
    Ok(Effects {
        of_settings: (0..settings).map(effect).collect(),
        repeat_deviation: (variance / 2.0).sqrt(),
        degrees,
    })
}

fn effect(log: f64, error: f64, degrees: f64, n_repeats: usize) -> Effect {
    let half = student_factor(degrees) * error;
    let interval = Interval { low: log - half, high: log + half };
    let p = p_of(log, error, degrees);
    let ratio = Figure { value: log, interval: Ok(interval), n_repeats };
    Effect { ratio: ratio.map(f64::exp), p }
}

/// Two-sided p of a mean with its standard error, by Student's t.
pub(crate) fn p_of(mean: f64, error: f64, degrees: f64) -> f64 {
    // Repeats that do not scatter at all leave no doubt.
    if error > 0.0 { two_sided(mean / error, degrees) } else { f64::from(u8::from(mean == 0.0)) }
}

fn two_sided(t: f64, degrees: f64) -> f64 {
    let student = StudentsT::new(0.0, 1.0, degrees).expect("degrees of freedom are positive");
    2.0 * student.cdf(-t.abs())
}

fn dot(one: &[f64], other: &[f64]) -> f64 {
    one.iter().zip(other).map(|(one, other)| one * other).sum()
}

/// The inverse of a symmetric matrix of whole numbers by Gauss and Jordan with the largest pivot; `None` where it has none.
fn inverse(mut matrix: Vec<Vec<f64>>) -> Option<Vec<Vec<f64>>> {
    let size = matrix.len();
    let unit = |at: usize| (0..size).map(|other| f64::from(u8::from(at == other))).collect::<Vec<_>>();
    let mut inverse: Vec<Vec<f64>> = (0..size).map(unit).collect();
    for column in 0..size {
        let pivot = (column..size)
            .max_by(|one, other| matrix[*one][column].abs().total_cmp(&matrix[*other][column].abs()))?;
        if matrix[pivot][column].abs() < 1e-9 {
            return None;
        }
        matrix.swap(column, pivot);
        inverse.swap(column, pivot);
        let divisor = matrix[column][column];
        for value in matrix[column].iter_mut().chain(&mut inverse[column]) {
            *value /= divisor;
        }
        let (own, own_inverse) = (matrix[column].clone(), inverse[column].clone());
        for row in (0..size).filter(|row| *row != column) {
            let factor = matrix[row][column];
            for at in 0..size {
                matrix[row][at] -= factor * own[at];
                inverse[row][at] -= factor * own_inverse[at];
            }
        }
    }
    Some(inverse)
}

/// The smallest effect, as a share (0.02 is 2 %), that so many pairs of rows find in [`FOUND_FRACTION`] of all screenings, where a repeat
/// scatters by `deviation` on logarithms and `tests` effects are corrected together. `None` where the pairs are too few.
pub fn smallest_effect_found(pairs: usize, settings: usize, tests: usize, deviation: f64) -> Option<f64> {
    let degrees = pairs.checked_sub(settings).filter(|left| left + 1 >= INTERVAL_REPEATS_MIN)? as f64;
    let error = deviation * (2.0 / pairs as f64).sqrt();
    let by_test = student_quantile(1.0 - SCREENING_LEVEL / tests as f64 / 2.0, degrees);
    Some(((by_test + student_quantile(FOUND_FRACTION, degrees)) * error).exp_m1())
}

/// Runs that it takes to compare each setting by itself, in pairs with and without it, so that every effect has the same standard error as
/// from so many pairs of rows. All settings of a design share all of its runs, so it is once the design for each setting.
pub fn runs_one_at_a_time(pairs: usize, settings: usize) -> usize {
    2 * pairs * settings
}

/// The same with one shared baseline: each setting is measured in n runs and compared with the same n √settings runs without any, which
/// is the best that a shared baseline can do (Dunnett 1955).
pub fn runs_with_shared_baseline(pairs: usize, settings: usize) -> usize {
    // Variance of an effect from so many pairs of rows, in squares of the repeat's deviation.
    let variance = 2.0 / pairs as f64;
    let settings = settings as f64;
    let each = (1.0 + 1.0 / settings.sqrt()) / variance;
    (each * (settings + settings.sqrt())).ceil() as usize
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;
    use rand_chacha::ChaCha8Rng;
    use rand_distr::{Distribution, Normal};
    use tilemark_plan::screening::Design;

    use super::*;
    use crate::holm::holm;

    const SETTINGS: usize = 11;

    /// A screening of eleven settings with these effects, where a repeat scatters by `deviation`, the host drifts by 10 % over the
    /// whole of it, and the first two settings do 3 % more together.
    fn screened(planted: &[(usize, f64)], deviation: f64, random: &mut ChaCha8Rng) -> Vec<PairOfRows> {
        let scatter = Normal::new(0.0, deviation).unwrap();
        let design = Design::of(SETTINGS).unwrap();
        let mut time = 0.0;
        let mut pairs = Vec::new();
        for _ in 0..design.repeats() {
            for on in design.rows() {
                let mut run = |mirrored: bool| {
                    let is_on = |at: usize| on[at] != mirrored;
                    let own: f64 =
                        planted.iter().filter(|(at, _)| is_on(*at)).map(|(_, effect)| effect.ln_1p()).sum();
                    let together = if is_on(0) == is_on(1) { 0.03 } else { 0.0 };
                    time += 1.0;
                    own + together + 0.1 * time / 48.0 + scatter.sample(random)
                };
                let difference = run(false) - run(true);
                pairs.push(PairOfRows { on: on.clone(), difference });
            }
        }
        pairs
    }

    /// Which settings look real by throughput, which scatters by 2 %, and by p99, which scatters by 10 %.
    fn named(planted: &[(usize, f64)], random: &mut ChaCha8Rng) -> Vec<usize> {
        let of_both = [0.02, 0.1].map(|deviation| effects(&screened(planted, deviation, random)).unwrap());
        let p: Vec<f64> =
            of_both.iter().flat_map(|of| of.of_settings.iter().map(|effect| effect.p)).collect();
        let corrected = holm(&p);
        (0..SETTINGS)
            .filter(|at| corrected[*at] < SCREENING_LEVEL || corrected[SETTINGS + at] < SCREENING_LEVEL)
            .collect()
    }

    #[test]
    fn a_slow_setting_among_eleven_is_found_19_times_of_20_and_no_other_is_named_more_often_than_stated() {
        const SCREENINGS: usize = 400;
        for planted in [vec![(4, -0.05)], vec![(0, -0.05), (7, -0.05)], vec![]] {
            let mut random = ChaCha8Rng::seed_from_u64(planted.len() as u64);
            let (mut found, mut with_others) = (0, 0);
            for _ in 0..SCREENINGS {
                let named = named(&planted, &mut random);
                let is_planted = |at: &usize| planted.iter().any(|(slow, _)| slow == at);
                found += usize::from(planted.iter().all(|(slow, _)| named.contains(slow)));
                with_others += usize::from(named.iter().any(|at| !is_planted(at)));
            }
            assert!(found * 20 >= SCREENINGS * 19, "{planted:?}: found in {found} of {SCREENINGS}");
            // Three deviations of a count with the stated probability.
            let stated = SCREENING_LEVEL * SCREENINGS as f64;
            let most = stated + 3.0 * (stated * (1.0 - SCREENING_LEVEL)).sqrt();
            assert!((with_others as f64) < most, "{planted:?}: others named in {with_others}");
        }
    }

    #[test]
    fn one_at_a_time_takes_four_times_the_runs_for_the_same_resolution_even_with_a_shared_baseline() {
        let design = Design::of(SETTINGS).unwrap();
        let pairs = design.rows().len() * design.repeats() as usize;
        let runs = 2 * pairs;
        assert_eq!((runs, runs_one_at_a_time(pairs, SETTINGS)), (48, 528));
        // 16 runs of each setting and 48 without any: 1/16 + 1/48 is the variance of an effect from 24 pairs of rows, 2/24.
        assert_eq!(runs_with_shared_baseline(pairs, SETTINGS), 11 * 16 + 48);
        assert!(4 * runs <= runs_with_shared_baseline(pairs, SETTINGS));
        // Two that look real are confirmed in twelve blocks: nothing set, each alone, both together.
        assert!(4 * (runs + 12 * 4) <= runs_one_at_a_time(pairs, SETTINGS));
    }

    #[test]
    fn the_scatter_and_the_intervals_are_right() {
        let mut random = ChaCha8Rng::seed_from_u64(7);
        let (mut covered, mut deviations, mut all) = (0, 0.0, 0);
        for _ in 0..200 {
            let found = effects(&screened(&[(3, -0.05)], 0.02, &mut random)).unwrap();
            deviations += found.repeat_deviation;
            for (at, effect) in found.of_settings.iter().enumerate() {
                let truth = if at == 3 { 0.95 } else { 1.0 };
                covered += usize::from(effect.ratio.interval.as_ref().unwrap().contains(truth));
                all += 1;
            }
        }
        assert!((deviations / 200.0 - 0.02).abs() < 0.001, "{}", deviations / 200.0);
        let part = f64::from(u32::try_from(covered).unwrap()) / f64::from(all);
        assert!((0.93..0.97).contains(&part), "{part}");
    }

    #[test]
    fn a_pair_that_was_discarded_leaves_the_effects_as_they_are() {
        let mut random = ChaCha8Rng::seed_from_u64(1);
        let mut pairs = screened(&[(2, 0.5), (9, -0.2)], 1e-9, &mut random);
        pairs.remove(5);
        pairs.remove(17);
        let found = effects(&pairs).unwrap().of_settings;
        // The drift within a pair is 0.2 %.
        for (at, truth) in [(2, 1.5), (9, 0.8), (0, 1.0), (1, 1.0)] {
            assert!((found[at].ratio.value / truth - 1.0).abs() < 0.005, "{at}: {:?}", found[at]);
        }
    }

    #[test]
    fn settings_always_changed_together_have_a_reason_and_no_effect() {
        let pair = |on: [bool; 2], difference| PairOfRows { on: on.to_vec(), difference };
        let alike = [
            pair([true, true], 0.1),
            pair([false, false], -0.1),
            pair([true, true], 0.2),
            pair([true; 2], 0.0),
        ];
        assert!(effects(&alike).unwrap_err().reason.contains("do not tell two"));
        assert!(effects(&alike[..3]).unwrap_err().reason.contains("too few"));
        assert!(effects(&[]).unwrap_err().reason.contains("no row"));
    }

    #[test]
    fn the_effect_that_is_promised_is_found_as_often_as_promised() {
        let promised = smallest_effect_found(24, SETTINGS, 2 * SETTINGS, 0.02).unwrap();
        assert!((0.02..0.05).contains(&promised), "{promised}");
        let mut random = ChaCha8Rng::seed_from_u64(3);
        let found = (0..400).filter(|_| named(&[(5, promised)], &mut random).contains(&5)).count();
        assert!(found * 100 >= 400 * 93, "{found} of 400");
        assert_eq!(smallest_effect_found(12, 11, 22, 0.02), None);
    }
}
