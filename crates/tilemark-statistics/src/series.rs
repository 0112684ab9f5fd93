//! Seconds of one repeat are not independent: how many independent ones they are worth.

use crate::moments::mean;

/// How alike a series is to itself `lag` later, -1 to 1. `None` where the series is too short or never moves.
pub(crate) fn autocorrelation(series: &[f64], lag: usize) -> Option<f64> {
    if lag >= series.len() {
        return None;
    }
    let centre = mean(series)?;
    let moved = |value: &f64| value - centre;
    let whole: f64 = series.iter().map(|value| moved(value).powi(2)).sum();
    let shifted: f64 = series.iter().zip(&series[lag..]).map(|(now, later)| moved(now) * moved(later)).sum();
    (whole > 0.0).then(|| shifted / whole)
}

/// How many independent values a series is worth: n / (1 + 2 * sum of autocorrelations), where the sum ends
/// with the first pair of neighbouring lags that is not positive (Geyer 1992, initial positive sequence),
/// because beyond it there is only noise. Never more than n. `None` of nothing; a series that never moves is
/// worth one value.
pub(crate) fn effective_sample_size(series: &[f64]) -> Option<f64> {
    let count = series.len();
    if count == 0 {
        return None;
    }
    if autocorrelation(series, 0).is_none() {
        return Some(1.0);
    }
    let mut pairs = 0.0;
    for even in (0..count - 1).step_by(2) {
        let at = |lag| autocorrelation(series, lag).unwrap_or(0.0);
        let pair = at(even) + at(even + 1);
        if pair <= 0.0 {
            break;
        }
        pairs += pair;
    }
    // The first pair holds lag 0, which is 1 and counted once: 1 + 2 * sum = 2 * pairs - 1.
    Some((count as f64 / (2.0 * pairs - 1.0).max(1.0)).max(1.0))
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;
    use rand_chacha::ChaCha8Rng;
    use rand_distr::{Distribution, StandardNormal};

    use super::*;

    /// A series in which each second keeps `kept` of the one before; worth n * (1 - kept) / (1 + kept).
    fn remembering(kept: f64, count: usize) -> Vec<f64> {
        let mut random = ChaCha8Rng::seed_from_u64(11);
        let mut last = 0.0;
        let mut step = || {
            let noise: f64 = StandardNormal.sample(&mut random);
            last = kept * last + noise;
            last
        };
        (0..count).map(|_| step()).collect()
    }

    #[test]
    fn lag_zero_is_one_and_a_turning_series_is_opposed_to_itself() {
        let turning: Vec<f64> = (0..100).map(|i| if i % 2 == 0 { 1.0 } else { -1.0 }).collect();
        assert_eq!(autocorrelation(&turning, 0), Some(1.0));
        assert!((autocorrelation(&turning, 1).unwrap() + 0.99).abs() < 1e-9);
        assert_eq!(autocorrelation(&turning, 100), None);
    }

    #[test]
    fn independent_seconds_count_fully() {
        let found = effective_sample_size(&remembering(0.0, 5_000)).unwrap();
        assert!((4_000.0..=5_000.0).contains(&found), "{found}");
    }

    #[test]
    fn seconds_that_depend_on_the_one_before_count_as_the_law_says() {
        let found = effective_sample_size(&remembering(0.8, 20_000)).unwrap();
        let wanted = 20_000.0 * 0.2 / 1.8;
        assert!((found / wanted - 1.0).abs() < 0.2, "{found}, by the law {wanted}");
    }

    #[test]
    fn a_series_that_never_moves_is_one_value_and_nothing_is_none() {
        assert_eq!(effective_sample_size(&[4.0; 60]), Some(1.0));
        assert_eq!(effective_sample_size(&[]), None);
    }
}
