//! Which hosts of a group of equal hardware differ from the others, and what changed since an earlier run of the same fleet.
//!
//! Every figure here is taken on logarithms: repeats of a rate or a time scatter by factors. A host's mean is compared with the median
//! of its group, which one slow host does not move. A host *differs* where two things hold: its p is below [`HOST_SIGNIFICANCE`] after
//! Holm's correction over all hosts and measures, and its whole simultaneous interval (Bonferroni: R. G. Miller, Simultaneous
//! Statistical Inference, 1981) lies beyond the least change. Real hosts of one kind lie 1 to 2 % apart and harm nobody; the test alone
//! would name them. Hosts are *alike* where the whole 95 % interval of each lies within the least change: all must pass, so no
//! correction is needed (R. L. Berger, Multiparameter hypothesis testing and acceptance sampling, Technometrics 24, 1982, 295–300).

use statrs::distribution::{ChiSquared, ContinuousCDF, FisherSnedecor, StudentsT};
use tilemark_units::median;

use crate::figure::{CONFIDENCE, Figure, INTERVAL_REPEATS_MIN, Interval, Missing};
use crate::holm::holm;
use crate::interval::student_quantile;
use crate::moments::{logarithms, mean, sample_variance};

mod drift;

pub use drift::{DriftMeasure, GroupDrift, HOSTS_FOR_OWN_DRIFT, HostPair, Shift, compare_fleets};

/// Least difference of a host from its group in a throughput or a median latency that is called one: 3 %.
pub const HOST_LEAST_CHANGE: f64 = 0.03;

/// Least difference of a host from its group in a 99th percentile that is called one: 5 %.
pub const HOST_LEAST_CHANGE_OF_TAIL: f64 = 0.05;

/// Least difference of a host that fails from the others that fail, in the part of its requests that do, which is called one: a factor of 2.
pub const HOST_LEAST_CHANGE_OF_ERRORS: f64 = 1.0;

/// A host differs only where its p after Holm's correction is below this.
pub const HOST_SIGNIFICANCE: f64 = 0.01;

/// A host's repeats scatter more than those of the others where F says so at this level. It is then judged by its own scatter.
const OWN_SCATTER_P: f64 = 0.01;

/// The same of hosts in blocks, which are few: their scatter is known badly, and a milder level still finds one that scatters more.
const OWN_SCATTER_IN_BLOCKS_P: f64 = 0.1;

/// More repeats than this are not asked of anybody.
const REPEATS_MAX: f64 = 1_000.0;

/// The verdict about a host, or a group of hosts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HostVerdict {
    /// The whole interval lies within the least change; of a group: of every host.
    Alike,
    /// It differs; of a group: at least one host does.
    Differs,
    /// There is not enough to say.
    CannotTell,
}

/// One measure of all hosts of a group, at one step.
#[derive(Clone, Debug, PartialEq)]
pub struct GroupMeasure {
    /// The repeats of each host, in the unit of the measure: positive numbers, at least three of each host.
    pub hosts: Vec<Vec<f64>>,
    /// A difference within this, as a part of the group's median, is none: 0.03 is 3 %.
    pub least_change: f64,
    /// Whether the first repeats of all hosts were measured together, and so were the second ones. What a repeat has in common on all of
    /// them then says nothing about a host, and is taken out.
    pub in_blocks: bool,
}

/// A host beside its group.
#[derive(Clone, Debug, PartialEq)]
pub struct HostChange {
    /// The geometric mean of its repeats, in the unit of the measure.
    pub value: f64,
    /// Host over the group's median, less 1, with its 95 % interval. In a group of two: over the other host.
    pub change: Figure,
    /// The same with an interval that covers the truth of all hosts and measures together 95 times of 100.
    pub simultaneous: Interval,
    /// Probability of a difference at least this large if there were none, after Holm's correction over all hosts and measures.
    pub p: f64,
    /// What it says.
    pub verdict: HostVerdict,
    /// About how many repeats of each host would decide, where the verdict is "cannot tell". `None`: more than 1,000, or it is decided.
    pub repeats_to_tell: Option<u32>,
}

/// A measure of a group of hosts.
#[derive(Clone, Debug, PartialEq)]
pub struct GroupSpread {
    /// The median of the hosts' means, in the unit of the measure.
    pub centre: f64,
    /// Standard deviation of a repeat on its own host, as a part of the value, with its 95 % interval.
    pub of_repeats: Figure,
    /// Standard deviation of the hosts' true values without the scatter of repeats, as a part of the value, with its 95 % interval.
    /// Hosts that differ are left out.
    pub between_hosts: Result<Figure, Missing>,
    /// Each host, in the order given.
    pub hosts: Vec<HostChange>,
    /// The verdict about all of them.
    pub verdict: HostVerdict,
    /// About how many repeats of each host would decide, where the verdict is "cannot tell". `None`: more than 1,000, or it is decided.
    pub repeats_to_tell: Option<u32>,
}

/// Compares the hosts of a group with each other, in each of the measures. One correction goes over all hosts and measures together.
///
/// # Errors
/// For a measure: when it has fewer than two hosts, a host fewer than three repeats, a repeat is not a positive number, or hosts that
/// were measured together have different numbers of repeats.
pub fn compare_hosts(measures: &[GroupMeasure]) -> Vec<Result<GroupSpread, Missing>> {
    let samples: Vec<Result<Vec<Sample>, Missing>> = measures.iter().map(samples).collect();
    let deviations: Vec<Result<Vec<Deviation>, Missing>> = samples
        .iter()
        .map(|samples| samples.as_ref().map(|samples| deviations(samples)).map_err(Clone::clone))
        .collect();
    let corrected = corrected(&deviations);
    let mut out = Vec::new();
    for (place, measure) in measures.iter().enumerate() {
        out.push(match (&samples[place], &deviations[place]) {
            (Ok(samples), Ok(deviations)) => {
                Ok(spread(samples, deviations, &corrected, place, measure.least_change))
            }
            (Err(missing), _) | (_, Err(missing)) => Err(missing.clone()),
        });
    }
    out
}

/// Compares hosts that looked different with others that did not, all measured again. The correction goes over the suspects alone: they
/// were chosen by the first run, and these repeats are new.
///
/// # Errors
/// When there is no suspect or no other host, a host has fewer than three repeats, or a repeat is not a positive number.
pub fn confirm_hosts(
    suspects: &[Vec<f64>],
    others: &[Vec<f64>],
    least_change: f64,
) -> Result<Vec<HostChange>, Missing> {
    if suspects.is_empty() || others.is_empty() {
        return Err(Missing::because("a host is confirmed beside others that were measured again with it"));
    }
    let all: Vec<Sample> =
        suspects.iter().chain(others).map(|host| sample(host)).collect::<Result<_, _>>()?;
    let (scatters, shared) = scatters(&all);
    let (of_suspects, of_others) = all.split_at(suspects.len());
    let count = of_others.len() as f64;
    let centre = centre(of_others);
    let per_host = of_others.iter().map(|other| shared.variance / other.repeats).sum::<f64>() / count;
    let widened = if of_others.len() > 2 { std::f64::consts::FRAC_PI_2 } else { 1.0 };
    let reference = (widened * per_host / count, shared);
    let deviations: Vec<Deviation> = of_suspects
        .iter()
        .zip(&scatters)
        .map(|(suspect, scatter)| {
            let own = (scatter.variance / suspect.repeats, *scatter);
            Deviation::new(suspect.mean - centre, own, reference, suspect.repeats)
        })
        .collect();
    let corrected = holm(&deviations.iter().map(|deviation| deviation.p).collect::<Vec<_>>());
    let mut judge = Judge::new(deviations.len(), least_change);
    let hosts = of_suspects.iter().zip(&deviations).zip(corrected);
    Ok(hosts
        .map(|((suspect, deviation), p)| {
            judge.host(suspect.mean.exp(), suspect.repeats as usize, deviation, p)
        })
        .collect())
}

/// A host's repeats on logarithms.
#[derive(Clone, Debug)]
struct Sample {
    mean: f64,
    variance: f64,
    /// Degrees of freedom of the variance.
    degrees: f64,
    repeats: f64,
    /// The repeats themselves where all hosts were measured together, else none.
    blocks: Vec<f64>,
}

fn samples(measure: &GroupMeasure) -> Result<Vec<Sample>, Missing> {
    let hosts = &measure.hosts;
    if hosts.len() < 2 {
        return Err(Missing::because("one host has nothing to be compared with"));
    }
    let samples: Vec<Sample> = hosts.iter().map(|repeats| sample(repeats)).collect::<Result<_, _>>()?;
    if measure.in_blocks { in_blocks(hosts, samples) } else { Ok(samples) }
}

fn in_blocks(hosts: &[Vec<f64>], samples: Vec<Sample>) -> Result<Vec<Sample>, Missing> {
    let repeats = hosts[0].len();
    if hosts.iter().any(|host| host.len() != repeats) {
        return Err(Missing::because("not all were measured in the same repeats"));
    }
    let logs = hosts.iter().filter_map(|host| logarithms(host));
    Ok(samples.into_iter().zip(logs).map(|(sample, blocks)| Sample { blocks, ..sample }).collect())
}

fn sample(repeats: &[f64]) -> Result<Sample, Missing> {
    if repeats.len() < INTERVAL_REPEATS_MIN {
        return Err(Missing::too_few(repeats.len()));
    }
    let logs = logarithms(repeats).ok_or_else(|| {
        Missing::because("a repeat is zero or negative, so it cannot be compared by factors")
    })?;
    let known = mean(&logs).zip(sample_variance(&logs));
    let (mean, variance) = known.expect("at least three repeats");
    let repeats = repeats.len() as f64;
    Ok(Sample { mean, variance, degrees: repeats - 1.0, repeats, blocks: Vec::new() })
}

/// A variance and how well it is known.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Scatter {
    variance: f64,
    degrees: f64,
}

/// The scatter of all repeats about the mean of their host.
fn pooled<'s>(samples: impl Iterator<Item = &'s Sample>) -> Option<Scatter> {
    let (squares, degrees) = samples.fold((0.0, 0.0), |(squares, degrees), sample| {
        (squares + sample.degrees * sample.variance, degrees + sample.degrees)
    });
    (degrees > 0.0).then(|| Scatter { variance: squares / degrees, degrees })
}

/// The scatter that each host is judged by: that of all, or its own where its repeats scatter more than those of the others.
fn scatters(samples: &[Sample]) -> (Vec<Scatter>, Scatter) {
    if samples.iter().all(|sample| !sample.blocks.is_empty()) {
        return scatters_in_blocks(samples);
    }
    let all = pooled(samples.iter()).expect("each host has three repeats");
    let total = all.variance * all.degrees;
    let mut bars = Cached::default();
    let is_odd = |sample: &Sample, bars: &mut Cached| {
        let others = all.degrees - sample.degrees;
        let of_others = (total - sample.variance * sample.degrees).max(0.0) / others;
        let bar = bars.get((sample.degrees, others), |(own, others)| {
            FisherSnedecor::new(own, others).expect("degrees are positive").inverse_cdf(1.0 - OWN_SCATTER_P)
        });
        sample.variance > bar * of_others
    };
    let odd: Vec<bool> = samples.iter().map(|sample| is_odd(sample, &mut bars)).collect();
    let even = samples.iter().zip(&odd).filter(|(_, odd)| !**odd).map(|(sample, _)| sample);
    let shared = pooled(even).unwrap_or(all);
    let of = samples.iter().zip(odd).map(|(sample, odd)| match odd {
        true => Scatter { variance: sample.variance, degrees: sample.degrees },
        false => shared,
    });
    (of.collect(), shared)
}

/// The same without what the repeats of a block have in common: a two-way layout without replication (H. Scheffé, The Analysis of
/// Variance, 1959, chapter 4).
fn scatters_in_blocks(samples: &[Sample]) -> (Vec<Scatter>, Scatter) {
    let own: Vec<Option<Scatter>> = (0..samples.len()).map(|place| odd_in_blocks(samples, place)).collect();
    let even = samples.iter().zip(&own).filter(|(_, own)| own.is_none()).map(|(sample, _)| sample);
    let all = || of_blocks(&samples.iter().collect::<Vec<_>>()).expect("there are two hosts");
    let shared = of_blocks(&even.collect::<Vec<_>>()).unwrap_or_else(all);
    (own.into_iter().map(|own| own.unwrap_or(shared)).collect(), shared)
}

/// A host's own scatter where it is larger than that of the others. Beside the mean of a block that it is a part of, a host takes its
/// scatter along to the others, and of three hosts none could look odd. So it is compared with the mean of the others, and what that adds
/// is taken off again: F. E. Grubbs, On estimating precision of measuring instruments, Journal of the American Statistical Association
/// 43, 1948, 243–264.
fn odd_in_blocks(samples: &[Sample], place: usize) -> Option<Scatter> {
    let others = samples.iter().enumerate().filter(|(other, _)| *other != place);
    let others: Vec<&Sample> = others.map(|(_, sample)| sample).collect();
    let (of_others, count) = (of_blocks(&others)?, others.len() as f64);
    let sample = &samples[place];
    let beside = variance_beside(sample, &block_means(&others));
    let law = FisherSnedecor::new(sample.degrees, of_others.degrees).expect("degrees are positive");
    let bar = law.inverse_cdf(1.0 - OWN_SCATTER_IN_BLOCKS_P);
    (beside > bar * of_others.variance * (1.0 + 1.0 / count))
        .then(|| Scatter { variance: beside - of_others.variance / count, degrees: sample.degrees })
}

/// The scatter of some hosts together. One host alone has none, since its block is the host itself.
fn of_blocks(samples: &[&Sample]) -> Option<Scatter> {
    let (first, more) = samples.split_first()?;
    if more.is_empty() {
        return None;
    }
    let (common, more) = (block_means(samples), more.len() as f64);
    let squares: f64 = samples.iter().map(|sample| variance_beside(sample, &common)).sum();
    Some(Scatter { variance: squares / more, degrees: more * first.degrees })
}

fn block_means(samples: &[&Sample]) -> Vec<f64> {
    let of_block =
        |block: usize| samples.iter().map(|sample| sample.blocks[block]).sum::<f64>() / samples.len() as f64;
    (0..samples[0].blocks.len()).map(of_block).collect()
}

/// How a host scatters beside what its blocks have in common.
fn variance_beside(sample: &Sample, common: &[f64]) -> f64 {
    let left: Vec<f64> = sample.blocks.iter().zip(common).map(|(log, common)| log - common).collect();
    sample_variance(&left).expect("at least three repeats")
}

/// Values of a slow function, each computed once.
#[derive(Default)]
struct Cached(Vec<((f64, f64), f64)>);

impl Cached {
    fn get(&mut self, key: (f64, f64), compute: impl Fn((f64, f64)) -> f64) -> f64 {
        if let Some((_, value)) = self.0.iter().find(|(known, _)| *known == key) {
            return *value;
        }
        let value = compute(key);
        self.0.push((key, value));
        value
    }
}

/// How far a host is from what it is compared with, on logarithms.
#[derive(Clone, Copy, Debug)]
struct Deviation {
    value: f64,
    error: f64,
    degrees: f64,
    /// Two-sided p of Student's t.
    p: f64,
    /// Deviation of one repeat, with the uncertainty of what it is compared with in it: divided by the root of the number of repeats
    /// it is the standard error.
    of_one: f64,
}

impl Deviation {
    /// Of two parts of the error: each its square, and the scatter from which it is known.
    fn new(value: f64, own: (f64, Scatter), reference: (f64, Scatter), repeats: f64) -> Self {
        let square = own.0 + reference.0;
        // Welch and Satterthwaite's degrees of freedom. They add up what two scatters are known by, and one scatter is not two.
        let parts = own.0 * own.0 / own.1.degrees + reference.0 * reference.0 / reference.1.degrees;
        let degrees =
            if parts > 0.0 && own.1 != reference.1 { square * square / parts } else { own.1.degrees };
        let error = square.sqrt();
        Self { value, error, degrees, p: two_sided(value, error, degrees), of_one: (square * repeats).sqrt() }
    }

    fn interval(&self, quantile: f64) -> Interval {
        Interval { low: self.value - quantile * self.error, high: self.value + quantile * self.error }
    }
}

fn two_sided(value: f64, error: f64, degrees: f64) -> f64 {
    if error == 0.0 {
        return if value == 0.0 { 1.0 } else { 0.0 };
    }
    let student = StudentsT::new(0.0, 1.0, degrees).expect("degrees of freedom are positive");
    2.0 * student.cdf(-(value / error).abs())
}

fn deviations(samples: &[Sample]) -> Vec<Deviation> {
    let (scatters, shared) = scatters(samples);
    let of_mean = |place: usize| {
        let (sample, scatter) = (&samples[place], scatters[place]);
        (scatter.variance / sample.repeats, scatter)
    };
    if let [first, second] = samples {
        let (a, b) = (of_mean(0), of_mean(1));
        return vec![
            Deviation::new(first.mean - second.mean, a, b, first.repeats),
            Deviation::new(second.mean - first.mean, b, a, second.repeats),
        ];
    }
    let centre = centre(samples);
    let hosts = samples.len() as f64;
    let per_host = samples.iter().map(|sample| shared.variance / sample.repeats).sum::<f64>() / hosts;
    // The variance of a median of normal values is π/2 of that of their mean; a little less of few.
    let of_median = (std::f64::consts::FRAC_PI_2 * per_host / hosts, shared);
    let deviation = |(place, sample): (usize, &Sample)| {
        Deviation::new(sample.mean - centre, of_mean(place), of_median, sample.repeats)
    };
    samples.iter().enumerate().map(deviation).collect()
}

fn centre(samples: &[Sample]) -> f64 {
    median(samples.iter().map(|sample| sample.mean).collect()).expect("there are hosts")
}

/// The p of each question, corrected over all of them.
struct Corrected {
    p: Vec<Vec<f64>>,
    questions: usize,
}

/// Two hosts are one question: each is as far from the other.
fn corrected(deviations: &[Result<Vec<Deviation>, Missing>]) -> Corrected {
    let asked = |of: &[Deviation]| if of.len() == 2 { 1 } else { of.len() };
    let all: Vec<f64> = deviations
        .iter()
        .flatten()
        .flat_map(|of| of[..asked(of)].iter().map(|deviation| deviation.p))
        .collect();
    let mut left = holm(&all).into_iter();
    let p = deviations.iter().map(|of| match of {
        Err(_) => Vec::new(),
        Ok(of) => {
            let mut own: Vec<f64> = left.by_ref().take(asked(of)).collect();
            own.resize(of.len(), own.last().copied().unwrap_or(1.0));
            own
        }
    });
    Corrected { p: p.collect(), questions: all.len().max(1) }
}

fn spread(
    samples: &[Sample],
    deviations: &[Deviation],
    corrected: &Corrected,
    place: usize,
    least_change: f64,
) -> GroupSpread {
    let mut judge = Judge::new(corrected.questions, least_change);
    let hosts: Vec<HostChange> = samples
        .iter()
        .zip(deviations)
        .zip(&corrected.p[place])
        .map(|((sample, deviation), &p)| judge.host(sample.mean.exp(), sample.repeats as usize, deviation, p))
        .collect();
    let (_, shared) = scatters(samples);
    let sound = samples.iter().zip(&hosts).filter(|(_, host)| host.verdict != HostVerdict::Differs);
    let sound: Vec<&Sample> = sound.map(|(sample, _)| sample).collect();
    let (verdict, repeats_to_tell) = of_all(&hosts);
    GroupSpread {
        centre: centre(samples).exp(),
        of_repeats: of_repeats(shared, samples),
        between_hosts: between_hosts(&sound, shared),
        hosts,
        verdict,
        repeats_to_tell,
    }
}

/// The verdict about all hosts, and the repeats that the one with the most needs.
fn of_all(hosts: &[HostChange]) -> (HostVerdict, Option<u32>) {
    let open = || hosts.iter().filter(|host| host.verdict == HostVerdict::CannotTell);
    if hosts.iter().any(|host| host.verdict == HostVerdict::Differs) {
        (HostVerdict::Differs, None)
    } else if open().next().is_none() {
        (HostVerdict::Alike, None)
    } else {
        let each: Option<Vec<u32>> = open().map(|host| host.repeats_to_tell).collect();
        (HostVerdict::CannotTell, each.and_then(|each| each.into_iter().max()))
    }
}

/// The two rules by which a host is called different or alike.
struct Judge {
    level: f64,
    questions: usize,
    /// The least change on logarithms.
    bar: f64,
    quantiles: Cached,
}

impl Judge {
    fn new(questions: usize, least_change: f64) -> Self {
        let level = (1.0 - CONFIDENCE) / 2.0;
        Self { level, questions, bar: least_change.ln_1p(), quantiles: Cached::default() }
    }

    fn host(&mut self, value: f64, repeats: usize, deviation: &Deviation, p: f64) -> HostChange {
        // Degrees that differ in the third digit have one quantile.
        let degrees = (deviation.degrees * 10.0).floor() / 10.0;
        let quantile = |cached: &mut Cached, level: f64| {
            cached.get((level, degrees), |(p, d)| student_quantile(1.0 - p, d))
        };
        let one = quantile(&mut self.quantiles, self.level);
        let all = quantile(&mut self.quantiles, self.level / self.questions as f64);
        let (own, simultaneous) = (deviation.interval(one), deviation.interval(all));
        let is_beyond = simultaneous.low > self.bar || simultaneous.high < -self.bar;
        let verdict = if p < HOST_SIGNIFICANCE && is_beyond {
            HostVerdict::Differs
        } else if own.low > -self.bar && own.high < self.bar {
            HostVerdict::Alike
        } else {
            HostVerdict::CannotTell
        };
        let less_one = |log: f64| log.exp_m1();
        HostChange {
            value,
            change: Figure { value: deviation.value, interval: Ok(own), n_repeats: repeats }.map(less_one),
            simultaneous: simultaneous.map(less_one),
            p,
            verdict,
            repeats_to_tell: (verdict == HostVerdict::CannotTell)
                .then(|| self.repeats_to_tell(deviation, repeats, (one, all)))
                .flatten(),
        }
    }

    /// With how many repeats the interval would lie on one side of the least change, if the difference is what it seems to be.
    fn repeats_to_tell(&self, deviation: &Deviation, repeats: usize, (one, all): (f64, f64)) -> Option<u32> {
        let room = self.bar - deviation.value.abs();
        let quantile = if room > 0.0 { one } else { all };
        let needed = (quantile * deviation.of_one / room).powi(2).ceil().max(repeats as f64 + 1.0);
        (needed <= REPEATS_MAX).then_some(needed as u32)
    }
}

fn of_repeats(shared: Scatter, samples: &[Sample]) -> Figure {
    let law = ChiSquared::new(shared.degrees).expect("degrees are positive");
    let tail = (1.0 - CONFIDENCE) / 2.0;
    let end = |part: f64| (shared.degrees * shared.variance / law.inverse_cdf(part)).sqrt();
    Figure {
        value: shared.variance.sqrt(),
        interval: Ok(Interval { low: end(1.0 - tail), high: end(tail) }),
        n_repeats: samples.iter().map(|sample| sample.repeats as usize).sum(),
    }
}

/// The spread of the hosts' true values: analysis of variance of their means, each host with the same weight (J. D. Thomas and R. A.
/// Hultquist, Interval estimation for the unbalanced case of the one-way random effects model, Annals of Statistics 6, 1978, 582–587),
/// its interval by J. S. Williams, A confidence interval for variance components, Biometrika 49, 1962, 278–281.
fn between_hosts(samples: &[&Sample], shared: Scatter) -> Result<Figure, Missing> {
    if samples.len() < 3 {
        return Err(Missing::because(format!(
            "{} hosts that do not differ, and a spread needs 3",
            samples.len()
        )));
    }
    let means: Vec<f64> = samples.iter().map(|sample| sample.mean).collect();
    let of_means = sample_variance(&means).expect("at least three hosts");
    let hosts = samples.len() as f64;
    let repeats = hosts / samples.iter().map(|sample| 1.0 / sample.repeats).sum::<f64>();
    let degrees = hosts - 1.0;
    let between = repeats * of_means;
    let ratio = FisherSnedecor::new(degrees, shared.degrees).expect("degrees are positive");
    let law = ChiSquared::new(degrees).expect("degrees are positive");
    let tail = (1.0 - CONFIDENCE) / 2.0;
    let end = |part: f64| {
        let square = degrees * (between - shared.variance * ratio.inverse_cdf(part))
            / (repeats * law.inverse_cdf(part));
        square.max(0.0).sqrt()
    };
    Ok(Figure {
        value: ((between - shared.variance) / repeats).max(0.0).sqrt(),
        interval: Ok(Interval { low: end(1.0 - tail), high: end(tail) }),
        n_repeats: samples.len(),
    })
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;
    use rand_chacha::ChaCha8Rng;
    use rand_distr::{Distribution, Normal};

    use super::*;

    /// Repeats with a known mean and a scatter of about 1 %.
    fn repeats(level: f64) -> Vec<f64> {
        [0.99, 1.0, 1.01, 0.995, 1.005].map(|part| level * part).to_vec()
    }

    fn only(hosts: Vec<Vec<f64>>) -> Result<GroupSpread, Missing> {
        compare_hosts(&[GroupMeasure { hosts, least_change: HOST_LEAST_CHANGE, in_blocks: false }]).remove(0)
    }

    #[test]
    fn a_slow_host_is_the_only_one_that_differs() {
        let mut hosts = vec![repeats(100.0); 9];
        hosts[4] = repeats(92.0);
        let found = only(hosts).unwrap();
        let verdicts: Vec<HostVerdict> = found.hosts.iter().map(|host| host.verdict).collect();
        let mut wanted = vec![HostVerdict::Alike; 9];
        wanted[4] = HostVerdict::Differs;
        assert_eq!(verdicts, wanted);
        assert_eq!(found.verdict, HostVerdict::Differs);
        assert!((found.hosts[4].change.value + 0.08).abs() < 1e-9, "{:?}", found.hosts[4].change);
        assert!((found.centre - repeats(100.0)[1]).abs() < 0.1, "the slow host does not move the centre");
    }

    #[test]
    fn a_host_that_is_surely_different_by_less_than_the_least_change_is_not_named() {
        let mut hosts = vec![repeats(100.0); 9];
        hosts[4] = repeats(98.0);
        let found = only(hosts).unwrap();
        assert!(found.hosts[4].p < HOST_SIGNIFICANCE, "the test alone would name it: {}", found.hosts[4].p);
        assert_ne!(found.hosts[4].verdict, HostVerdict::Differs);
        assert_ne!(found.verdict, HostVerdict::Differs);
    }

    #[test]
    fn repeats_that_scatter_too_much_cannot_tell_and_say_how_many_would() {
        let wild = |level: f64| [0.9, 1.0, 1.1, 0.95, 1.05].map(|part| level * part).to_vec();
        let found = only(vec![wild(100.0); 6]).unwrap();
        assert_eq!(found.verdict, HostVerdict::CannotTell);
        // Deviation 7.9 % of a repeat, t(0.975, 24 and more) about 2.06, the median adds 12 % to the error: (2.06 × 0.079 × 1.12 /
        // ln 1.03)² is 38.
        let needed = found.repeats_to_tell.unwrap();
        assert!((34..=42).contains(&needed), "{needed}");
    }

    #[test]
    fn of_two_hosts_that_differ_neither_is_the_odd_one() {
        let found = only(vec![repeats(100.0), repeats(90.0)]).unwrap();
        assert!(found.hosts.iter().all(|host| host.verdict == HostVerdict::Differs));
        assert!((found.hosts[1].change.value + 0.1).abs() < 1e-9);
        assert_eq!(found.hosts[0].p, found.hosts[1].p);
        assert!(found.between_hosts.is_err());
        assert_eq!(only(vec![repeats(100.0), repeats(100.0)]).unwrap().verdict, HostVerdict::Alike);
    }

    #[test]
    fn a_suspect_is_confirmed_beside_others_and_a_chance_find_is_not() {
        let (suspects, others) = ([repeats(92.0), repeats(100.0)], [repeats(100.0), repeats(101.0)]);
        let found = confirm_hosts(&suspects, &others, HOST_LEAST_CHANGE).unwrap();
        assert_eq!(found[0].verdict, HostVerdict::Differs);
        assert_ne!(found[1].verdict, HostVerdict::Differs);
        assert!(confirm_hosts(&[], &others, HOST_LEAST_CHANGE).is_err());
        assert!(confirm_hosts(&suspects, &[], HOST_LEAST_CHANGE).is_err());
    }

    #[test]
    fn one_host_and_repeats_that_say_nothing_have_no_answer() {
        let why = |hosts| only(hosts).unwrap_err().reason;
        assert_eq!(why(vec![repeats(1.0)]), "one host has nothing to be compared with");
        assert_eq!(why(Vec::new()), "one host has nothing to be compared with");
        assert_eq!(why(vec![repeats(1.0), vec![1.0, 1.0]]), "only 2 repeats, and an interval needs 3");
        assert!(why(vec![repeats(1.0), vec![1.0, 0.0, 1.0]]).starts_with("a repeat is zero or negative"));
    }

    #[test]
    fn one_correction_goes_over_all_measures() {
        let mut hosts = vec![repeats(100.0); 5];
        hosts[0] = repeats(96.0);
        let measure = GroupMeasure { hosts, least_change: HOST_LEAST_CHANGE, in_blocks: false };
        let alone = compare_hosts(std::slice::from_ref(&measure)).remove(0).unwrap();
        let both = compare_hosts(&[measure.clone(), measure]).remove(1).unwrap();
        assert!(both.hosts[0].p > 1.9 * alone.hosts[0].p);
        let width = |of: &GroupSpread| of.hosts[0].simultaneous.high - of.hosts[0].simultaneous.low;
        assert!(width(&both) > width(&alone));
    }

    #[test]
    fn what_repeats_have_in_common_is_taken_out_of_blocks_and_agrees_with_a_worked_example() {
        // Two hosts in three blocks; on logarithms 1, 2, 6 and 0, 2, 4. Differences 1, 0, 2: their mean is 1, their variance 1. Scatter of
        // one host: 1 / 2, with 2 degrees of both together. Error of the mean difference: sqrt(1 / 3) = 0.5774, t = 1.7321, p = 0.2254.
        let host = |logs: [f64; 3]| logs.map(f64::exp).to_vec();
        let hosts = vec![host([1.0, 2.0, 6.0]), host([0.0, 2.0, 4.0])];
        let measure = GroupMeasure { hosts, least_change: HOST_LEAST_CHANGE, in_blocks: true };
        let found = compare_hosts(std::slice::from_ref(&measure)).remove(0).unwrap();
        assert!((found.of_repeats.value - 0.5_f64.sqrt()).abs() < 1e-12, "{:?}", found.of_repeats);
        assert!((found.hosts[0].change.value.ln_1p() - 1.0).abs() < 1e-12, "{:?}", found.hosts[0].change);
        assert!((found.hosts[0].p - 0.2254).abs() < 5e-5, "{}", found.hosts[0].p);
        let uneven = GroupMeasure { hosts: vec![vec![1.0; 4], vec![1.0; 3]], ..measure };
        let why = compare_hosts(&[uneven]).remove(0).unwrap_err().reason;
        assert_eq!(why, "not all were measured in the same repeats");
    }

    #[test]
    fn of_three_hosts_in_blocks_the_one_that_scatters_is_judged_by_its_own_scatter() {
        let noisy = [-0.3, 0.2, 0.1, -0.2, 0.2];
        let hosts = [noisy, [0.01, -0.01, 0.0, 0.01, -0.01], [-0.01, -0.02, 0.02, 0.0, 0.01]];
        let hosts = hosts.map(|logs| logs.map(f64::exp).to_vec()).to_vec();
        let measure = GroupMeasure { hosts, least_change: HOST_LEAST_CHANGE, in_blocks: true };
        let found = samples(&measure).unwrap();
        let all: Vec<&Sample> = found.iter().collect();
        let raw: Vec<f64> = all.iter().map(|sample| variance_beside(sample, &block_means(&all))).collect();
        // Grubbs' estimate for three: 3 (v - sum / 6).
        let wanted = 3.0 * (raw[0] - raw.iter().sum::<f64>() / 6.0);
        let (scatters, shared) = scatters(&found);
        assert!((scatters[0].variance / wanted - 1.0).abs() < 1e-9, "{scatters:?} {wanted}");
        assert_eq!((scatters[0].degrees, scatters[1], scatters[2]), (4.0, shared, shared));
        // Half the variance of the difference of the two others, which are 0.02, 0.01, -0.02, 0.01, -0.02 apart.
        assert!((shared.variance - 0.000_175).abs() < 1e-9 && shared.degrees == 4.0, "{shared:?}");
    }

    #[test]
    fn one_scatter_in_two_places_is_known_as_well_as_in_one() {
        // Student's test of two samples of three: pooled variance 1, error sqrt(2 / 3), 4 degrees; means 2 apart give t = 2.4495 and p =
        // 0.0705.
        let host = |logs: [f64; 3]| logs.map(f64::exp).to_vec();
        let found = only(vec![host([3.0, 4.0, 5.0]), host([1.0, 2.0, 3.0])]).unwrap();
        assert!((found.hosts[0].p - 0.0705).abs() < 5e-5, "{}", found.hosts[0].p);
    }

    #[test]
    fn a_host_whose_repeats_scatter_far_more_is_judged_by_its_own_scatter() {
        let mut hosts = vec![repeats(100.0); 9];
        hosts[4] = vec![70.0, 110.0, 90.0, 130.0, 80.0];
        let found = only(hosts).unwrap();
        assert_eq!(found.hosts[4].verdict, HostVerdict::CannotTell);
        assert!(
            found.of_repeats.value < 0.01,
            "it is not a part of the scatter of the other hosts: {:?}",
            found.of_repeats
        );
        assert_eq!(found.hosts[0].verdict, HostVerdict::Alike);
    }

    #[test]
    fn equal_repeats_are_alike_and_a_host_beside_them_differs() {
        let mut hosts = vec![vec![5.0; 3]; 4];
        assert_eq!(only(hosts.clone()).unwrap().verdict, HostVerdict::Alike);
        hosts[0] = vec![6.0; 3];
        let found = only(hosts).unwrap();
        assert_eq!(found.hosts[0].verdict, HostVerdict::Differs);
        assert_eq!(found.hosts[1].verdict, HostVerdict::Alike);
    }

    #[test]
    fn the_spread_between_hosts_agrees_with_a_worked_example() {
        // Means 1, 2, 3 on logarithms, each from three repeats with variance 0.01. Between: 3 × 1 = 3. Value: sqrt((3 − 0.01) / 3) =
        // 0.9983. Low: F(0.975; 2, 6) = 7.2599, chi²(0.975; 2) = 7.3778: sqrt(2 (3 − 0.0726) / (3 × 7.3778)) = 0.5143. High:
        // F(0.025; 2, 6) = 0.02540, chi²(0.025; 2) = 0.05064: sqrt(2 (3 − 0.000254) / (3 × 0.05064)) = 6.2842.
        let samples: Vec<Sample> = [1.0, 2.0, 3.0]
            .map(|mean| Sample { mean, variance: 0.01, degrees: 2.0, repeats: 3.0, blocks: Vec::new() })
            .to_vec();
        let of: Vec<&Sample> = samples.iter().collect();
        let found = between_hosts(&of, pooled(samples.iter()).unwrap()).unwrap();
        assert!((found.value - 0.9983).abs() < 1e-4, "{}", found.value);
        assert!((found.low().unwrap() - 0.5143).abs() < 5e-4, "{:?}", found.low());
        assert!((found.high().unwrap() - 6.2842).abs() < 5e-3, "{:?}", found.high());
    }

    #[test]
    fn the_interval_of_the_spread_between_hosts_covers_the_truth() {
        let (noise, own) = (Normal::new(0.0, 0.012).unwrap(), Normal::new(0.0, 0.01).unwrap());
        let trials = 1_000;
        let covered = (0..trials).filter(|&trial| {
            let mut random = ChaCha8Rng::seed_from_u64(trial);
            let mut host = || {
                let level: f64 = own.sample(&mut random);
                (0..5).map(|_| (level + noise.sample(&mut random)).exp()).collect::<Vec<f64>>()
            };
            let hosts: Vec<Vec<f64>> = (0..10).map(|_| host()).collect();
            let measure = GroupMeasure { hosts, least_change: HOST_LEAST_CHANGE, in_blocks: false };
            let samples = samples(&measure).unwrap();
            let found = between_hosts(&samples.iter().collect::<Vec<_>>(), pooled(samples.iter()).unwrap());
            found.unwrap().interval.unwrap().contains(0.01)
        });
        let found = covered.count() as f64 / trials as f64;
        // Williams' interval covers at least 90 % by its construction, and about 95 % in fact.
        assert!((0.93..=0.98).contains(&found), "{found}");
    }
}
