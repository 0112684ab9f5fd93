//! The interval of a mean: none below 3 repeats, Student's t from 3 to 14, bootstrap from 15.

use statrs::distribution::{ContinuousCDF, StudentsT};

use crate::bootstrap::bootstrap_interval;
use crate::figure::{CONFIDENCE, Figure, INTERVAL_REPEATS_MIN, Interval, Missing, Scale};
use crate::moments::{logarithms, mean, sample_deviation};

/// Fewest repeats for the bootstrap. Below, resampling repeats sees too few different samples to know the tails.
pub const BOOTSTRAP_REPEATS_MIN: usize = 15;

/// The value below which Student's t lies with the given probability.
///
/// # Panics
/// When `degrees` is not positive.
pub fn student_quantile(probability: f64, degrees: f64) -> f64 {
    let student = StudentsT::new(0.0, 1.0, degrees).expect("degrees of freedom are positive");
    student.inverse_cdf(probability)
}

/// The factor by which a standard error is widened at [`CONFIDENCE`].
pub(crate) fn student_factor(degrees: f64) -> f64 {
    student_quantile(0.5 + CONFIDENCE / 2.0, degrees)
}

/// A figure from its repeats: mean and interval, on the scale on which they scatter evenly.
///
/// `seed` feeds the bootstrap only, so that an old record gives the same interval whenever it is drawn again.
pub fn estimate(repeats: &[f64], scale: Scale, seed: u64) -> Result<Figure, Missing> {
    if repeats.is_empty() {
        return Err(Missing::because("no repeat was kept"));
    }
    if let Some(odd) = repeats.iter().find(|value| !value.is_finite()) {
        return Err(Missing::because(format!("a repeat holds {odd}, which is not a number")));
    }
    match scale {
        Scale::Linear => Ok(linear(repeats, seed)),
        Scale::Logarithmic => {
            let logs = logarithms(repeats).ok_or_else(|| {
                Missing::because("a repeat is zero or negative, so it cannot be averaged by factors")
            })?;
            Ok(linear(&logs, seed).map(f64::exp))
        }
    }
}

fn linear(values: &[f64], seed: u64) -> Figure {
    let n_repeats = values.len();
    let value = mean(values).expect("the caller refused an empty list");
    let interval = if n_repeats < INTERVAL_REPEATS_MIN {
        Err(Missing::too_few(n_repeats))
    } else if n_repeats < BOOTSTRAP_REPEATS_MIN {
        Ok(student_interval(values, value))
    } else {
        Ok(bootstrap_interval(&[values], |strata| mean(&strata[0]).expect("a resample is never empty"), seed))
    };
    Figure { value, interval, n_repeats }
}

fn student_interval(values: &[f64], centre: f64) -> Interval {
    let count = values.len() as f64;
    let deviation = sample_deviation(values).expect("at least three values");
    let half = student_factor(count - 1.0) * deviation / count.sqrt();
    Interval { low: centre - half, high: centre + half }
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;
    use rand_chacha::ChaCha8Rng;
    use rand_distr::{Distribution, Normal};

    use super::*;

    #[test]
    fn quantiles_of_t_agree_with_the_published_table() {
        // Degrees of freedom, 0.975 quantile, 0.995 quantile: any printed table of Student's t.
        for (degrees, p975, p995) in [
            (1.0, 12.706, 63.657),
            (2.0, 4.303, 9.925),
            (4.0, 2.776, 4.604),
            (7.0, 2.365, 3.499),
            (30.0, 2.042, 2.750),
        ] {
            assert!((student_quantile(0.975, degrees) - p975).abs() < 5e-4 + p975 * 1e-5, "df {degrees}");
            assert!((student_quantile(0.995, degrees) - p995).abs() < 5e-4 + p995 * 1e-5, "df {degrees}");
        }
    }

    #[test]
    fn the_interval_agrees_with_a_worked_example() {
        // 10, 12, 14: mean 12, deviation 2, t(0.975, 2) = 4.3027, half width 4.3027 * 2 / sqrt 3 = 4.9683.
        let figure = estimate(&[10.0, 12.0, 14.0], Scale::Linear, 0).unwrap();
        assert!((figure.value - 12.0).abs() < 1e-12);
        assert!((figure.low().unwrap() - 7.0317).abs() < 1e-3);
        assert!((figure.high().unwrap() - 16.9683).abs() < 1e-3);
        assert_eq!(figure.n_repeats, 3);
    }

    #[test]
    fn below_three_repeats_there_is_a_value_and_no_interval() {
        let figure = estimate(&[10.0, 12.0], Scale::Linear, 0).unwrap();
        assert_eq!(figure.value, 11.0);
        assert_eq!(figure.interval.unwrap_err().reason, "only 2 repeats, and an interval needs 3");
    }

    #[test]
    fn on_logarithms_the_mean_is_geometric_and_the_interval_stays_positive() {
        let figure = estimate(&[1.0, 100.0, 10.0], Scale::Logarithmic, 0).unwrap();
        assert!((figure.value - 10.0).abs() < 1e-9);
        assert!(figure.low().unwrap() > 0.0);
        let (below, above) = (figure.value / figure.low().unwrap(), figure.high().unwrap() / figure.value);
        assert!((below - above).abs() < 1e-6 * above, "factors are alike on both sides");
    }

    #[test]
    fn a_failed_repeat_is_never_averaged_as_a_number() {
        assert!(estimate(&[], Scale::Linear, 0).is_err());
        assert!(estimate(&[1.0, f64::NAN, 2.0], Scale::Linear, 0).is_err());
        assert!(estimate(&[1.0, 0.0, 2.0], Scale::Logarithmic, 0).is_err());
    }

    #[test]
    fn equal_repeats_give_an_interval_of_no_width() {
        for count in [3, 14, 15, 40] {
            let figure = estimate(&vec![8.0; count], Scale::Linear, 0).unwrap();
            assert_eq!((figure.low(), figure.high()), (Some(8.0), Some(8.0)), "{count} repeats");
        }
    }

    /// Share of simulated intervals that cover the true mean.
    fn coverage(repeats: usize, trials: u64, scale: Scale) -> f64 {
        let noise = Normal::new(0.0, 0.05).unwrap();
        let covered = (0..trials).filter(|&trial| {
            let mut random = ChaCha8Rng::seed_from_u64(trial);
            let values: Vec<f64> = (0..repeats)
                .map(|_| match scale {
                    Scale::Linear => 100.0 * (1.0 + noise.sample(&mut random)),
                    Scale::Logarithmic => 100.0 * f64::exp(noise.sample(&mut random)),
                })
                .collect();
            estimate(&values, scale, trial).unwrap().interval.unwrap().contains(100.0)
        });
        covered.count() as f64 / trials as f64
    }

    #[test]
    fn intervals_of_3_to_14_repeats_cover_the_truth_95_times_of_100() {
        for (repeats, scale) in [(3, Scale::Linear), (5, Scale::Logarithmic), (14, Scale::Logarithmic)] {
            let found = coverage(repeats, 4_000, scale);
            assert!((0.94..=0.96).contains(&found), "{repeats} repeats: {found}");
        }
    }

    #[test]
    fn intervals_of_15_and_more_repeats_cover_the_truth_95_times_of_100() {
        for repeats in [15, 30] {
            let found = coverage(repeats, 500, Scale::Logarithmic);
            assert!((0.93..=0.97).contains(&found), "{repeats} repeats: {found}");
        }
    }
}
