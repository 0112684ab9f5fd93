//! Where a run has settled.

use serde::Serialize;

/// Seconds put together before anything is compared, as in MSER-5; a run under [`LONG_S`] has too few for that.
const BATCH_S: usize = 5;

/// From so many seconds on a run is long enough for batches.
const LONG_S: usize = 100;

/// Seconds below which nothing can be said.
pub(crate) const SHORTEST_S: usize = 20;

/// How much the second half of the steady part may differ from the first before it counts as a drift.
const DRIFT_MAX: f64 = 0.1;

/// The part of a run that counts as steady, in seconds after measuring began.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Steady {
    /// First second of it.
    pub from_s: u64,
    /// First second after it.
    pub to_s: u64,
    /// Committed orders a minute in it.
    pub orders_per_minute: f64,
}

/// Finds it by MSER-5 (White, Cobb, Spratt 2000): cut off as many seconds at the start as make the standard error of the
/// rest smallest. `None` if the best cut takes half of the run, if the two halves of what is left differ by more than
/// a tenth, or if the run is shorter than 20 s: it never settled, or that cannot be seen. With `window_s` the last so many
/// seconds of the steady part are taken; `None` if it is shorter.
pub fn find_steady(orders_by_second: &[u32], window_s: Option<u64>) -> Option<Steady> {
    if orders_by_second.len() < SHORTEST_S {
        return None;
    }
    let batch_s = if orders_by_second.len() < LONG_S { 1 } else { BATCH_S };
    let batches: Vec<f64> = orders_by_second
        .chunks_exact(batch_s)
        .map(|batch| batch.iter().map(|&orders| f64::from(orders)).sum())
        .collect();
    let error_of = |cut: usize| {
        let rest = &batches[cut..];
        let n = rest.len() as f64;
        let mean = rest.iter().sum::<f64>() / n;
        rest.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (n * n)
    };
    let half = batches.len() / 2;
    let cut = (0..=half).min_by(|&a, &b| error_of(a).total_cmp(&error_of(b)))?;
    if cut == half || drifts(&batches[cut..]) {
        return None;
    }
    let to = batches.len() * batch_s;
    let mut from = cut * batch_s;
    if let Some(window) = window_s.map(|window| window as usize) {
        if window > to - from {
            return None;
        }
        from = to - window;
    }
    let orders: u64 = orders_by_second[from..to].iter().map(|&orders| u64::from(orders)).sum();
    let orders_per_minute = orders as f64 * 60.0 / (to - from) as f64;
    Some(Steady { from_s: from as u64, to_s: to as u64, orders_per_minute })
}

fn drifts(batches: &[f64]) -> bool {
    let half = batches.len() / 2;
    let mean = |part: &[f64]| part.iter().sum::<f64>() / part.len() as f64;
    let (first, second) = (mean(&batches[..half]), mean(&batches[batches.len() - half..]));
    (second - first).abs() > DRIFT_MAX * first
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Ten seconds of cold start, then 100 with a small ripple.
    fn run() -> Vec<u32> {
        (0..60).map(|second| if second < 10 { 10 * second } else { 100 + second % 3 }).collect()
    }

    #[test]
    fn a_cold_start_is_cut_off() {
        let steady = find_steady(&run(), None).unwrap();
        assert_eq!((steady.from_s, steady.to_s), (10, 60));
        assert!((steady.orders_per_minute - 6_060.0).abs() < 12.0, "{steady:?}");
        let window = find_steady(&run(), Some(30)).unwrap();
        assert_eq!((window.from_s, window.to_s), (30, 60));
        assert_eq!(find_steady(&run(), Some(51)), None);
    }

    #[test]
    fn a_long_run_is_cut_at_a_batch() {
        let long: Vec<u32> = (0..200).map(|second| if second < 12 { 0 } else { 100 + second % 7 }).collect();
        let steady = find_steady(&long, Some(150)).unwrap();
        assert_eq!((steady.from_s, steady.to_s), (50, 200));
        assert_eq!(find_steady(&long, None).unwrap().from_s % 5, 0);
    }

    #[test]
    fn a_run_that_never_settles_or_is_too_short_has_none() {
        let rising: Vec<u32> = (0..60).map(|second| second * second).collect();
        assert_eq!(find_steady(&rising, None), None);
        assert_eq!(find_steady(&[100; 19], None), None);
    }
}
