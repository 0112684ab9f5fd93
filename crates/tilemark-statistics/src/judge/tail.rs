//! The p99 of all requests of several repeats, with its interval over these repeats.

use hdrhistogram::Histogram;
use tilemark_record::result::LatencyMs;
use tilemark_record::summary::EncodedHistogram;
use tilemark_units::median;

use super::requests::Requests;
use crate::figure::INTERVAL_REPEATS_MIN;
use crate::figure::{Figure, Interval, Missing, Scale};
use crate::interval::{estimate, student_factor};
use crate::moments::{mean, sample_deviation};
use crate::percentile::percentile_admissible;

/// The percentile of the gate.
const TAIL: f64 = 0.99;

/// Requests of a repeat from which on its own p99 says anything: one lies beyond it.
const OWN_REQUESTS_MIN: u64 = 100;

/// Latency of one repeat: its figures, and the histogram behind them where the record has it.
#[derive(Clone, Copy)]
pub(crate) struct RepeatLatency<'a> {
    pub(crate) figures: &'a LatencyMs,
    pub(crate) histogram: Option<&'a EncodedHistogram>,
}

impl RepeatLatency<'_> {
    /// The p99 of this repeat alone, in milliseconds, even if only one request lies beyond it: for the scatter between repeats, not to be
    /// printed.
    pub(crate) fn own_p99(&self) -> Option<f64> {
        let is_printed = percentile_admissible(self.figures.n, TAIL).is_ok();
        self.figures
            .p99
            .filter(|p99| is_printed && *p99 > 0.0)
            .or_else(|| p99_of(&self.histogram?.decode().ok()?))
    }
}

fn p99_of(histogram: &Histogram<u64>) -> Option<f64> {
    (histogram.len() >= OWN_REQUESTS_MIN).then(|| quantile_ms(histogram))
}

fn quantile_ms(histogram: &Histogram<u64>) -> f64 {
    histogram.value_at_quantile(TAIL) as f64 / 1e6
}

/// Several repeats together.
pub(crate) struct Merged<'r, 'a> {
    repeats: &'r [RepeatLatency<'a>],
    /// Nothing of a record without histograms.
    requests: Option<MergedRequests>,
}

struct MergedRequests {
    of_repeats: Vec<Requests>,
    all: Requests,
}

impl<'r, 'a> Merged<'r, 'a> {
    pub(crate) fn of(repeats: &'r [RepeatLatency<'a>]) -> Self {
        let requests = |repeat: &RepeatLatency| Some(Requests::of(&repeat.histogram?.decode().ok()?));
        let requests = repeats.iter().map(requests).collect::<Option<Vec<Requests>>>();
        let requests = requests
            .filter(|of_repeats| !of_repeats.is_empty())
            .map(|of_repeats| MergedRequests { all: Requests::merged(&of_repeats), of_repeats });
        Self { repeats, requests }
    }

    /// The p99 in milliseconds of all requests of these repeats together, with its interval over the repeats.
    ///
    /// The interval is that of the jackknife (Tukey 1958): the p99 is computed again without each repeat, and the spread of these
    /// values gives the standard error, on logarithms, with Student's t for repeats less one. It is never narrower than what the
    /// scatter of the repeats' own p99s gives, and its upper end is further off ([`upper_half`]). A record without histograms has only
    /// the p99s of its repeats: their geometric mean.
    pub(crate) fn p99(&self) -> Result<Figure, Missing> {
        let Some(MergedRequests { of_repeats, all }) = &self.requests else {
            return mean_of_p99s(self.repeats);
        };
        percentile_admissible(all.count(), TAIL)?;
        let value = all.quantile_ms(TAIL);
        let n_repeats = of_repeats.len();
        let interval = if n_repeats < INTERVAL_REPEATS_MIN {
            Err(Missing::too_few(n_repeats))
        } else {
            Ok(interval(value, all, of_repeats))
        };
        Ok(Figure { value, interval, n_repeats })
    }

    /// Latency of all requests of these repeats together; of a record without histograms, the median repeat's.
    pub(crate) fn latency(&self) -> LatencyMs {
        let repeats = self.repeats;
        let median_of = |figure: fn(&LatencyMs) -> Option<f64>| {
            median(repeats.iter().filter_map(|repeat| figure(repeat.figures)).collect())
        };
        let of_repeats = LatencyMs {
            n: repeats.iter().map(|repeat| repeat.figures.n).sum(),
            mean: median_of(|latency| latency.mean),
            deviation: median_of(|latency| latency.deviation),
            deviation_of_seconds: median_of(|latency| latency.deviation_of_seconds),
            max: repeats.iter().filter_map(|repeat| repeat.figures.max).reduce(f64::max),
            ..LatencyMs::default()
        };
        let Some(MergedRequests { all, .. }) = &self.requests else {
            let admissible = |fraction: f64, figure: fn(&LatencyMs) -> Option<f64>| {
                let enough =
                    repeats.iter().filter(|repeat| percentile_admissible(repeat.figures.n, fraction).is_ok());
                median(enough.filter_map(|repeat| figure(repeat.figures)).collect())
            };
            return LatencyMs {
                p50: admissible(0.5, |latency| latency.p50),
                p90: admissible(0.9, |latency| latency.p90),
                p99: admissible(TAIL, |latency| latency.p99),
                p999: admissible(0.999, |latency| latency.p999),
                ..of_repeats
            };
        };
        let at = |fraction: f64| {
            percentile_admissible(all.count(), fraction).is_ok().then(|| all.quantile_ms(fraction))
        };
        LatencyMs {
            n: all.count(),
            mean: all.mean_ms(),
            deviation: all.deviation_ms(),
            p50: at(0.5),
            p90: at(0.9),
            p99: at(TAIL),
            p999: at(0.999),
            ..of_repeats
        }
    }
}

fn mean_of_p99s(repeats: &[RepeatLatency]) -> Result<Figure, Missing> {
    let admissible = |repeat: &&RepeatLatency| percentile_admissible(repeat.figures.n, TAIL).is_ok();
    if let Some(few) = repeats.iter().find(|repeat| !admissible(repeat)) {
        percentile_admissible(few.figures.n, TAIL)?;
    }
    let values: Vec<f64> = repeats.iter().filter_map(|repeat| repeat.figures.p99).collect();
    estimate(&values, Scale::Logarithmic, 0)
}

/// The upper end lies further off than the lower one: the p99 of a queue is inverse to the capacity that is left, so it scatters evenly
/// on that scale, and bursts that few repeats have seen lie above. The factor is
/// the one at which the p99 of queues that are up to 85 % busy is covered 93 times of 100 (tests below).
const UPPER_FACTOR: f64 = 1.25;

/// The logarithm of the upper end over the figure, for a half width on logarithms.
pub(crate) fn upper_half(half: f64) -> f64 {
    let of_inverse = -(1.0 - (UPPER_FACTOR * half).min(0.8)).ln();
    half.max(of_inverse)
}

fn around(value: f64, half: f64) -> Interval {
    Interval { low: value * (-half).exp(), high: value * upper_half(half).exp() }
}

fn interval(value: f64, all: &Requests, repeats: &[Requests]) -> Interval {
    let count = repeats.len() as f64;
    let without: Vec<f64> =
        repeats.iter().map(|repeat| all.quantile_ms_without(TAIL, &[repeat]).ln()).collect();
    let centre = mean(&without).expect("at least three repeats");
    if without.iter().any(|value| !value.is_finite()) {
        // Without one repeat nothing is left: nothing is known of the scatter.
        return Interval { low: 0.0, high: f64::MAX };
    }
    let squares: f64 = without.iter().map(|value| (value - centre).powi(2)).sum();
    let by_jackknife = ((count - 1.0) / count * squares).sqrt();
    let has_own = |repeat: &&Requests| repeat.count() >= OWN_REQUESTS_MIN;
    let own: Vec<f64> = repeats.iter().filter(has_own).map(|repeat| repeat.quantile_ms(TAIL).ln()).collect();
    let by_scatter = sample_deviation(&own).map_or(0.0, |deviation| deviation / count.sqrt());
    let half = student_factor(count - 1.0) * by_jackknife.max(by_scatter);
    let around = around(value, half);
    Interval { low: around.low.min(without_worst(all, repeats)), ..around }
}

/// A resample of repeats that holds none of the worst is no surprise while at least so many of all resamples are such.
const RESAMPLES_MIN: f64 = 0.025;

/// The p99 in milliseconds of the repeats without the worst, that other repeats of the same thing might have lacked by chance. The
/// jackknife does not see this: it leaves out one at a time, and p99 stays where one other bad repeat holds it. Of resamples of repeats
/// (the bootstrap of Efron 1979) this is the 2.5th percentile where a few repeats are bad and the others alike.
fn without_worst(all: &Requests, repeats: &[Requests]) -> f64 {
    let count = repeats.len();
    let is_likely = |worst: &usize| (1.0 - *worst as f64 / count as f64).powf(count as f64) > RESAMPLES_MIN;
    let worst = (1..count).take_while(is_likely).count();
    let mut by_p99: Vec<(f64, &Requests)> =
        repeats.iter().map(|repeat| (repeat.quantile_ms(TAIL), repeat)).collect();
    by_p99.sort_by(|one, other| one.0.total_cmp(&other.0));
    let worst: Vec<&Requests> = by_p99[count - worst..].iter().map(|(_, repeat)| *repeat).collect();
    all.quantile_ms_without(TAIL, &worst)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::SeedableRng;
    use rand_chacha::ChaCha8Rng;
    use rand_distr::{Distribution, Exp};

    /// Response times in milliseconds of a queue with one server and random arrivals (M/M/1), after a warm-up: each waits for the one
    /// before (Lindley 1952).
    fn queue(random: &mut ChaCha8Rng, busy: f64, warm_up: usize, requests: usize) -> Histogram<u64> {
        let (gap, work) = (Exp::new(busy).unwrap(), Exp::new(1.0).unwrap());
        let mut histogram = Histogram::new(3).unwrap();
        let mut waits: f64 = 0.0;
        for request in 0..warm_up + requests {
            let own: f64 = work.sample(random);
            if request >= warm_up {
                histogram.record(((waits + own) * 1e6) as u64).unwrap();
            }
            waits = (waits + own - gap.sample(random)).max(0.0);
        }
        histogram
    }

    fn latency(histogram: &Histogram<u64>) -> LatencyMs {
        let p99 = percentile_admissible(histogram.len(), TAIL).ok().map(|()| quantile_ms(histogram));
        LatencyMs { n: histogram.len(), p99, ..LatencyMs::default() }
    }

    fn figure_of(histograms: &[Histogram<u64>]) -> Figure {
        let figures: Vec<LatencyMs> = histograms.iter().map(latency).collect();
        let encoded: Vec<EncodedHistogram> = histograms.iter().map(EncodedHistogram::of).collect();
        let repeats: Vec<RepeatLatency> = figures
            .iter()
            .zip(&encoded)
            .map(|(figures, histogram)| RepeatLatency { figures, histogram: Some(histogram) })
            .collect();
        Merged::of(&repeats).p99().unwrap()
    }

    /// What is to be covered: the p99 of all such repeats, of 2,000 others. A repeat is shorter than a busy queue needs to forget that it
    /// began empty, so the p99 of an endless queue is another figure.
    fn true_p99(busy: f64) -> f64 {
        let mut random = ChaCha8Rng::seed_from_u64(u64::MAX);
        let mut all = Histogram::new(3).unwrap();
        all.auto(true);
        (0..2_000).for_each(|_| all.add(queue(&mut random, busy, 2_000, 4_000)).unwrap());
        quantile_ms(&all)
    }

    /// Share of intervals that hold the true p99, where each repeat has arrivals of its own.
    fn coverage(repeats: usize, busy: f64, truth: f64, trials: u64) -> f64 {
        let covered = (0..trials).filter(|trial| {
            let mut random = ChaCha8Rng::seed_from_u64(*trial);
            let histograms: Vec<Histogram<u64>> =
                (0..repeats).map(|_| queue(&mut random, busy, 2_000, 4_000)).collect();
            figure_of(&histograms).interval.unwrap().contains(truth)
        });
        covered.count() as f64 / trials as f64
    }

    #[test]
    fn the_interval_of_a_p99_covers_the_truth_over_arrival_schedules() {
        let trials =
            std::env::var("TILEMARK_TEST_CAPACITIES").ok().and_then(|text| text.parse().ok()).unwrap_or(60);
        let (calm, busy) = ((0.7, true_p99(0.7)), (0.85, true_p99(0.85)));
        for (repeats, (busy, truth)) in [(3, calm), (5, calm), (3, busy), (5, busy), (9, busy)] {
            let found = coverage(repeats, busy, truth, trials);
            println!(
                "{}",
                serde_json::json!({ "what": format!("{repeats} repeats, {busy} busy"), "covered": found, "of": trials })
            );
            assert!(
                found >= 0.93 - 2.0 * (0.07 * 0.93 / trials as f64).sqrt(),
                "{repeats} repeats, {busy} busy: {found}"
            );
        }
    }

    /// A repeat of which every request took so long.
    fn histogram(ms: f64) -> Histogram<u64> {
        let mut histogram = Histogram::new(3).unwrap();
        histogram.record_n((ms * 1e6) as u64, 4_000).unwrap();
        histogram
    }

    #[test]
    fn a_few_bad_repeats_of_many_do_not_prove_that_p99_is_bad() {
        let with_bad = |bad: usize| {
            let of = (0..16).map(|repeat| histogram(if repeat < bad { 900.0 } else { 20.0 }));
            figure_of(&of.collect::<Vec<_>>())
        };
        // Two sixteenths of such repeats give 16 good ones 12 times of 100; eight sixteenths practically never.
        let (two, eight) = (with_bad(2), with_bad(8));
        assert!((two.value / 900.0 - 1.0).abs() < 0.01, "{two:?}");
        assert!(two.interval.as_ref().unwrap().low < 20.1, "{two:?}");
        assert!(eight.interval.as_ref().unwrap().low > 100.0, "{eight:?}");
    }

    #[test]
    fn one_bad_repeat_of_five_makes_the_interval_wide_and_not_the_figure_small() {
        let histograms: Vec<Histogram<u64>> = [20.0, 20.0, 20.0, 20.0, 900.0].map(histogram).into();
        let p99 = figure_of(&histograms);
        assert!((p99.value / 900.0 - 1.0).abs() < 0.01, "{p99:?}");
        let interval = p99.interval.unwrap();
        assert!(interval.low < 20.0 && interval.high > 900.0, "{interval:?}");
    }
}
