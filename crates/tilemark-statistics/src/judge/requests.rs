//! Requests of repeats by their latency: what is in their histograms, without the places that are empty. Those are thousands, and a
//! jackknife would go through them once for each repeat.

use std::sync::LazyLock;

use hdrhistogram::Histogram;

/// Its places are those into which all others are merged: somebody else's histogram may have wider ones.
static PLACES: LazyLock<Histogram<u64>> =
    LazyLock::new(|| Histogram::new(3).expect("three significant digits are allowed"));

/// What is in a place.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Place {
    /// The longest time in it, in nanoseconds.
    longest: u64,
    requests: u64,
}

impl Place {
    /// The time in its middle, in nanoseconds.
    fn middle(self) -> f64 {
        PLACES.median_equivalent(self.longest) as f64
    }
}

/// Those of one repeat, or of several together. A foreign record may have any counts: sums stay at the greatest number, as hdrhistogram's do.
pub(crate) struct Requests {
    /// From the fastest to the slowest.
    places: Vec<Place>,
    count: u64,
}

impl Requests {
    pub(crate) fn of(histogram: &Histogram<u64>) -> Self {
        let longest = |time: u64| PLACES.highest_equivalent(histogram.lowest_equivalent(time));
        let places = histogram.iter_recorded().map(|found| Place {
            longest: longest(found.value_iterated_to()),
            requests: found.count_at_value(),
        });
        Self { places: places.collect(), count: histogram.len() }
    }

    pub(crate) fn merged(all: &[Self]) -> Self {
        let mut places: Vec<Place> = all.iter().flat_map(|one| &one.places).copied().collect();
        places.sort_unstable();
        places.dedup_by(|other, first| {
            let is_same = other.longest == first.longest;
            if is_same {
                first.requests = first.requests.saturating_add(other.requests);
            }
            is_same
        });
        Self { places, count: sum(all.iter()) }
    }

    /// How many there are.
    pub(crate) fn count(&self) -> u64 {
        self.count
    }

    /// In milliseconds.
    pub(crate) fn quantile_ms(&self, fraction: f64) -> f64 {
        self.quantile_ms_without(fraction, &[])
    }

    /// The quantile without some of the repeats that were merged, in milliseconds; 0 where nothing is left.
    pub(crate) fn quantile_ms_without(&self, fraction: f64, left_out: &[&Self]) -> f64 {
        let count = self.count.saturating_sub(sum(left_out.iter().copied()));
        let wanted = ((fraction * count as f64).ceil() as u64).max(1);
        let mut left_out: Vec<&[Place]> = left_out.iter().map(|one| one.places.as_slice()).collect();
        let mut up_to = 0_u64;
        for place in &self.places {
            up_to = up_to.saturating_add(place.requests);
            for rest in &mut left_out {
                while let [first, others @ ..] = rest
                    && first.longest <= place.longest
                {
                    up_to = up_to.saturating_sub(first.requests);
                    *rest = others;
                }
            }
            if up_to >= wanted {
                return place.longest as f64 / 1e6;
            }
        }
        0.0
    }

    /// In nanoseconds; 0 of none.
    fn mean(&self) -> f64 {
        let part = |place: &Place| place.middle() * place.requests as f64 / self.count as f64;
        self.places.iter().map(part).sum()
    }

    /// In milliseconds; nothing of none.
    pub(crate) fn mean_ms(&self) -> Option<f64> {
        (self.count > 0).then(|| self.mean() / 1e6)
    }

    /// The standard deviation in milliseconds; nothing of fewer than two.
    pub(crate) fn deviation_ms(&self) -> Option<f64> {
        let mean = self.mean();
        let square = |place: &Place| {
            let distance = place.middle() - mean;
            distance * distance * place.requests as f64
        };
        let squares: f64 = self.places.iter().map(square).sum();
        (self.count > 1).then(|| (squares / self.count as f64).sqrt() / 1e6)
    }
}

fn sum<'a>(all: impl Iterator<Item = &'a Requests>) -> u64 {
    all.fold(0, |sum, one| sum.saturating_add(one.count))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::SeedableRng;
    use rand_chacha::ChaCha8Rng;
    use rand_distr::{Distribution, Exp1};

    #[test]
    fn figures_without_some_repeats_are_those_of_a_histogram_without_them() {
        let mut random = ChaCha8Rng::seed_from_u64(5);
        let mut histograms = [300, 40, 1_500, 1].map(|requests| {
            let mut histogram = Histogram::new(3).unwrap();
            for _ in 0..requests {
                let time: f64 = Exp1.sample(&mut random);
                histogram.record((3e6 * time) as u64).unwrap();
            }
            histogram
        });
        let mut wide = Histogram::new_with_bounds(1_000_000, 60_000_000_000, 3).unwrap();
        wide.add(&histograms[0]).unwrap();
        histograms[3] = wide;
        let mut histograms = Vec::from(histograms);
        histograms.push(Histogram::new(3).unwrap());
        let requests: Vec<Requests> = histograms.iter().map(Requests::of).collect();
        let all = Requests::merged(&requests);
        for left_out in 0..1_u32 << histograms.len() {
            let mut wanted = PLACES.clone();
            wanted.auto(true);
            let (mut out, mut rest) = (Vec::new(), Vec::new());
            for (place, (histogram, requests)) in histograms.iter().zip(&requests).enumerate() {
                if left_out & 1 << place == 0 {
                    wanted.add(histogram).unwrap();
                    rest.push(Requests { places: requests.places.clone(), count: requests.count });
                } else {
                    out.push(requests);
                }
            }
            for fraction in [0.5, 0.9, 0.99, 0.999] {
                let wanted = wanted.value_at_quantile(fraction) as f64 / 1e6;
                assert_eq!(all.quantile_ms_without(fraction, &out), wanted, "{left_out:b}, {fraction}");
            }
            let rest = Requests::merged(&rest);
            assert_eq!(rest.count(), wanted.len());
            assert_eq!(rest.mean_ms(), (!wanted.is_empty()).then(|| wanted.mean() / 1e6), "{left_out:b}");
            assert_eq!(rest.deviation_ms(), (wanted.len() > 1).then(|| wanted.stdev() / 1e6), "{left_out:b}");
        }
    }

    #[test]
    fn no_count_and_no_time_of_a_foreign_record_is_too_large() {
        let mut histogram = Histogram::new_with_bounds(1, u64::MAX, 3).unwrap();
        for time in [1, 1_000_000, u64::MAX] {
            histogram.record_n(time, u64::MAX / 2).unwrap();
        }
        let requests = [0, 1, 2].map(|_| Requests::of(&histogram));
        let all = Requests::merged(&requests);
        assert_eq!(all.count(), u64::MAX);
        assert!(all.mean_ms().unwrap().is_finite() && all.deviation_ms().unwrap().is_finite());
        let places = [1, 1_000_000, u64::MAX].map(|time| PLACES.highest_equivalent(time) as f64 / 1e6);
        for left_out in [vec![], vec![&requests[0]], requests.iter().collect()] {
            let found = all.quantile_ms_without(0.99, &left_out);
            assert!(found == 0.0 || places.contains(&found), "{found}");
        }
    }
}
