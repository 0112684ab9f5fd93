//! What changed between two runs of one fleet, host by host.

use statrs::distribution::{ChiSquared, ContinuousCDF};
use tilemark_units::median;

use super::{Deviation, HostChange, HostVerdict, Judge, Sample, Scatter, of_all, pooled, sample, two_sided};
use crate::figure::{CONFIDENCE, Figure, Interval, Missing};
use crate::holm::holm;
use crate::interval::student_quantile;
use crate::moments::{mean, sample_variance};

/// Fewest hosts with which a change of one host alone is called one. A run has a level of its own; with fewer hosts nothing shows how
/// far two runs of an unchanged host lie apart.
pub const HOSTS_FOR_OWN_DRIFT: usize = 5;

/// Of so many hosts one is left out of what the others are judged by.
const HOSTS_FOR_ONE_LEFT_OUT: usize = 10;

/// Fewest hosts of which a mean has an interval.
const HOSTS_FOR_MEAN: usize = 3;

/// A host in both runs.
#[derive(Clone, Debug, PartialEq)]
pub struct HostPair {
    /// Its repeats in the earlier run: positive numbers, at least three.
    pub before: Vec<f64>,
    /// Its repeats in the later run.
    pub after: Vec<f64>,
    /// Whether nothing that is recorded changed on it between the two.
    pub is_control: bool,
}

/// One measure of the hosts that are in both runs, at one step.
#[derive(Clone, Debug, PartialEq)]
pub struct DriftMeasure {
    /// The hosts.
    pub hosts: Vec<HostPair>,
    /// A change within this, as a part of the earlier value, is none.
    pub least_change: f64,
}

/// A mean change of several hosts.
#[derive(Clone, Debug, PartialEq)]
pub struct Shift {
    /// Later over earlier, less 1: the geometric mean over hosts, with the 95 % interval of Student's t over hosts.
    pub change: Figure,
    /// Probability of a change at least this large if there were none. Of all hosts, and of changed ones against controls, after Holm's
    /// correction over both and all measures: either of the two names a change.
    pub p: f64,
    /// Changed, the same, or cannot tell.
    pub verdict: HostVerdict,
}

/// What changed in one measure.
#[derive(Clone, Debug, PartialEq)]
pub struct GroupDrift {
    /// All hosts.
    pub all: Result<Shift, Missing>,
    /// The hosts on which something changed.
    pub changed: Result<Shift, Missing>,
    /// The hosts on which nothing changed: the controls.
    pub controls: Result<Shift, Missing>,
    /// How much more the changed hosts changed than the controls did (difference of differences).
    pub against_controls: Result<Shift, Missing>,
    /// Each host by itself, in the order given.
    pub hosts: Result<Vec<HostChange>, Missing>,
    /// The verdict about the hosts by themselves; cannot tell where that is not known.
    pub verdict: HostVerdict,
}

/// Compares two runs of a fleet, host by host, in each of the measures. One correction goes over all hosts and measures together, another
/// one over the means that name a change.
///
/// # Errors
/// For a measure: when it has no host, a host has fewer than three repeats in a run, or a repeat is not a positive number.
pub fn compare_fleets(measures: &[DriftMeasure]) -> Vec<Result<GroupDrift, Missing>> {
    let pairs: Vec<Result<Vec<Pair>, Missing>> = measures.iter().map(pairs).collect();
    let own: Vec<Result<Vec<Deviation>, Missing>> = pairs
        .iter()
        .map(|pairs| pairs.as_ref().map_err(Clone::clone).and_then(|pairs| own_changes(pairs)))
        .collect();
    let all: Vec<f64> = own.iter().flatten().flatten().map(|deviation| deviation.p).collect();
    let questions = all.len().max(1);
    let mut corrected = holm(&all).into_iter();
    let mut means = deciding(&pairs).into_iter();
    let mut out = Vec::new();
    for ((measure, pairs), own) in measures.iter().zip(&pairs).zip(&own) {
        let pairs = match pairs {
            Ok(pairs) => pairs,
            Err(missing) => {
                out.push(Err(missing.clone()));
                continue;
            }
        };
        let hosts = own.as_ref().map_err(Clone::clone).map(|deviations| {
            let mut judge = Judge::new(questions, measure.least_change);
            let hosts = pairs.iter().zip(deviations).zip(corrected.by_ref());
            hosts
                .map(|((pair, deviation), p)| {
                    judge.host(pair.after.mean.exp(), pair.after.repeats as usize, deviation, p)
                })
                .collect::<Vec<_>>()
        });
        let deciding = means.next().expect("each measure with pairs has means");
        out.push(Ok(drift(pairs, deciding, hosts, measure.least_change)));
    }
    out
}

/// A host's repeats in both runs, on logarithms.
struct Pair {
    before: Sample,
    after: Sample,
    is_control: bool,
}

impl Pair {
    fn change(&self) -> f64 {
        self.after.mean - self.before.mean
    }
}

fn pairs(measure: &DriftMeasure) -> Result<Vec<Pair>, Missing> {
    if measure.hosts.is_empty() {
        return Err(Missing::because("no host was measured in both runs"));
    }
    let pair = |host: &HostPair| {
        Ok(Pair { before: sample(&host.before)?, after: sample(&host.after)?, is_control: host.is_control })
    };
    measure.hosts.iter().map(pair).collect()
}

/// Each host's change. Its error is what the scatter of repeats says or what the changes of the other hosts say, whichever is larger: the
/// levels of two runs of one host are in the second alone. Its degrees are those of the hosts in both cases: which of the two is larger is
/// chance as well, and a scatter of repeats that is known well says nothing about levels.
fn own_changes(pairs: &[Pair]) -> Result<Vec<Deviation>, Missing> {
    if pairs.len() < HOSTS_FOR_OWN_DRIFT {
        return Err(Missing::because(format!(
            "a change of one host alone is named from {HOSTS_FOR_OWN_DRIFT} hosts on, and there are {}",
            pairs.len()
        )));
    }
    let shared = pooled(pairs.iter().flat_map(|pair| [&pair.before, &pair.after])).expect("there are hosts");
    let changes: Vec<f64> = pairs.iter().map(Pair::change).collect();
    let deviation = |(pair, of_others): (&Pair, Scatter)| {
        let by_repeats = shared.variance * (1.0 / pair.before.repeats + 1.0 / pair.after.repeats);
        let own = (by_repeats.max(of_others.variance), of_others);
        Deviation::new(pair.change(), own, (0.0, of_others), pair.after.repeats)
    };
    Ok(pairs.iter().zip(scatters_of_others(&changes)).map(deviation).collect())
}

/// For each host how the changes of the others scatter. A host is no part of what it is judged by, so Student's t of normal changes is
/// exact. Of each ten hosts one of the others is left out, the farthest from the median, so that a few hosts that changed do not hide each
/// other.
fn scatters_of_others(changes: &[f64]) -> Vec<Scatter> {
    let centre = median(changes.to_vec()).expect("there are hosts");
    let distance = |place: usize| changes[place] - centre;
    let mut nearest_first: Vec<usize> = (0..changes.len()).collect();
    nearest_first.sort_by(|one, other| distance(*one).abs().total_cmp(&distance(*other).abs()));
    let others = changes.len() - 1;
    let counted = others - changes.len() / HOSTS_FOR_ONE_LEFT_OUT;
    let widened = widened_to_all(counted as f64 / others as f64);
    // One more than is counted: a host that is among them is left out itself, and for any other one the farthest of them.
    let (sum, squares) = nearest_first[..=counted].iter().fold((0.0, 0.0), |(sum, squares), place| {
        (sum + distance(*place), squares + distance(*place).powi(2))
    });
    let (count, degrees) = (counted as f64, counted as f64 - 1.0);
    let mut scatters = vec![Scatter { variance: 0.0, degrees }; changes.len()];
    for (rank, place) in nearest_first.iter().enumerate() {
        let out = distance(nearest_first[rank.min(counted)]);
        let about_mean = (squares - out * out) - (sum - out).powi(2) / count;
        scatters[*place].variance = widened * about_mean.max(0.0) / degrees;
    }
    scatters
}

/// How many times as large the variance of normal values is as that of this part of them, the nearest to their middle: C. Croux and
/// G. Haesbroeck, Influence function and efficiency of the minimum covariance determinant scatter matrix estimator, Journal of
/// Multivariate Analysis 71, 1999, 161–190. For few values it is up to a tenth too large, which names nobody.
fn widened_to_all(part: f64) -> f64 {
    if part >= 1.0 {
        return 1.0;
    }
    let law = |degrees: f64| ChiSquared::new(degrees).expect("degrees are positive");
    part / law(3.0).cdf(law(1.0).inverse_cdf(part))
}

/// Changes of the hosts that are wanted.
fn changes(pairs: &[Pair], is_wanted: impl Fn(&Pair) -> bool) -> Vec<f64> {
    pairs.iter().filter(|pair| is_wanted(pair)).map(Pair::change).collect()
}

/// The two means of a measure that name a change.
struct Deciding {
    all: Result<Mean, Missing>,
    against_controls: Result<Mean, Missing>,
}

impl Deciding {
    fn of(pairs: &[Pair]) -> Self {
        let (changed, controls) =
            (changes(pairs, |pair| !pair.is_control), changes(pairs, |pair| pair.is_control));
        Self { all: mean_change(&changes(pairs, |_| true)), against_controls: against(&changed, &controls) }
    }

    fn known(&mut self) -> impl Iterator<Item = &mut Mean> {
        [&mut self.all, &mut self.against_controls].into_iter().flatten()
    }
}

/// Those of each measure that has pairs, with one correction over all of them.
fn deciding(pairs: &[Result<Vec<Pair>, Missing>]) -> Vec<Deciding> {
    let mut deciding: Vec<Deciding> = pairs.iter().flatten().map(|pairs| Deciding::of(pairs)).collect();
    let all: Vec<f64> = deciding.iter_mut().flat_map(Deciding::known).map(|mean| mean.p).collect();
    let means = deciding.iter_mut().flat_map(Deciding::known);
    means.zip(holm(&all)).for_each(|(mean, p)| mean.p = p);
    deciding
}

fn drift(
    pairs: &[Pair],
    deciding: Deciding,
    hosts: Result<Vec<HostChange>, Missing>,
    least_change: f64,
) -> GroupDrift {
    let judged = |mean: Result<Mean, Missing>| mean.map(|mean| mean.judged(least_change));
    let verdict = hosts.as_ref().map_or(HostVerdict::CannotTell, |hosts| of_all(hosts).0);
    GroupDrift {
        all: judged(deciding.all),
        against_controls: judged(deciding.against_controls),
        changed: judged(mean_change(&changes(pairs, |pair| !pair.is_control))),
        controls: judged(mean_change(&changes(pairs, |pair| pair.is_control))),
        hosts,
        verdict,
    }
}

/// A mean change on logarithms.
struct Mean {
    value: f64,
    error: f64,
    degrees: f64,
    hosts: usize,
    p: f64,
}

impl Mean {
    fn new(value: f64, error: f64, degrees: f64, hosts: usize) -> Self {
        Self { value, error, degrees, hosts, p: two_sided(value, error, degrees) }
    }

    fn judged(self, least_change: f64) -> Shift {
        let Self { value, error, degrees, hosts, p } = self;
        let half = student_quantile(0.5 + CONFIDENCE / 2.0, degrees) * error;
        let (low, high, bar) = (value - half, value + half, least_change.ln_1p());
        let verdict = if p < super::HOST_SIGNIFICANCE && (low > bar || high < -bar) {
            HostVerdict::Differs
        } else if low > -bar && high < bar {
            HostVerdict::Alike
        } else {
            HostVerdict::CannotTell
        };
        let change =
            Figure { value, interval: Ok(Interval { low, high }), n_repeats: hosts }.map(f64::exp_m1);
        Shift { change, p, verdict }
    }
}

/// The mean of changes of several hosts.
fn mean_change(changes: &[f64]) -> Result<Mean, Missing> {
    let Some(value) = mean(changes) else { return Err(Missing::because("there is no such host")) };
    let variance = sample_variance(changes).filter(|_| changes.len() >= HOSTS_FOR_MEAN);
    let Some(variance) = variance else {
        return Err(Missing::because(format!(
            "only {} of such hosts, and an interval over hosts needs {HOSTS_FOR_MEAN}",
            changes.len()
        )));
    };
    let count = changes.len() as f64;
    Ok(Mean::new(value, (variance / count).sqrt(), count - 1.0, changes.len()))
}

/// How much more the changed hosts changed than the controls, by Welch's test; one or two changed hosts by the spread of the controls.
fn against(changed: &[f64], controls: &[f64]) -> Result<Mean, Missing> {
    let known = mean(changed).zip(mean(controls)).filter(|_| controls.len() >= HOSTS_FOR_MEAN);
    let Some((of_changed, of_controls)) = known else {
        return Err(Missing::because(match (changed.len(), controls.len()) {
            (0, _) => "nothing that is recorded changed on any host".to_owned(),
            (_, 0) => "something changed on every host, so there is no control".to_owned(),
            (_, few) => format!("only {few} hosts without a change, and a control needs {HOSTS_FOR_MEAN}"),
        }));
    };
    let (n, m) = (changed.len() as f64, controls.len() as f64);
    let of = sample_variance(controls).expect("at least three controls");
    let (error, degrees) = if changed.len() >= HOSTS_FOR_MEAN {
        let own = sample_variance(changed).expect("at least three hosts");
        let (a, b) = (own / n, of / m);
        let parts = a * a / (n - 1.0) + b * b / (m - 1.0);
        ((a + b).sqrt(), if parts > 0.0 { (a + b).powi(2) / parts } else { n + m - 2.0 })
    } else {
        ((of / n + of / m).sqrt(), m - 1.0)
    };
    Ok(Mean::new(of_changed - of_controls, error, degrees, changed.len()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fleet::{HOST_LEAST_CHANGE, HOST_SIGNIFICANCE};

    /// Five repeats that scatter by 0.5 %, in another order for each number.
    fn repeats(level: f64, number: usize) -> Vec<f64> {
        (0..5).map(|place| level * (1.0 + 0.003 * ((place + number) % 5) as f64 - 0.006)).collect()
    }

    /// A fleet in which each host after the first `controls` changed by `change`; all hosts drift by `drift`.
    fn fleet(hosts: usize, controls: usize, change: f64, drift: f64) -> DriftMeasure {
        let host = |number: usize| {
            let own = 1.0 + 0.01 * (number % 3) as f64;
            let is_control = number < controls;
            let wobble = 1.0 + 0.002 * (number % 4) as f64;
            let factor = drift * wobble * if is_control { 1.0 } else { change };
            let (before, after) = (repeats(100.0 * own, number), repeats(100.0 * own * factor, number + 1));
            HostPair { before, after, is_control }
        };
        DriftMeasure { hosts: (0..hosts).map(host).collect(), least_change: HOST_LEAST_CHANGE }
    }

    fn only(measure: DriftMeasure) -> GroupDrift {
        compare_fleets(&[measure]).remove(0).unwrap()
    }

    #[test]
    fn what_all_hosts_share_is_no_effect_of_what_changed_on_some() {
        let found = only(fleet(12, 6, 1.0, 0.9));
        assert_eq!(found.all.as_ref().unwrap().verdict, HostVerdict::Differs);
        assert_eq!(found.controls.unwrap().verdict, HostVerdict::Differs);
        let against = found.against_controls.unwrap();
        assert_eq!(against.verdict, HostVerdict::Alike, "{against:?}");
    }

    #[test]
    fn what_only_changed_hosts_do_is_seen_against_the_controls() {
        let found = only(fleet(12, 6, 0.92, 1.0));
        let against = found.against_controls.unwrap();
        assert_eq!(against.verdict, HostVerdict::Differs);
        assert!((against.change.value + 0.08).abs() < 0.005, "{against:?}");
        assert_eq!(found.controls.unwrap().verdict, HostVerdict::Alike);
    }

    #[test]
    fn one_correction_goes_over_both_means_of_all_measures() {
        let p = |measures: &[DriftMeasure]| {
            let found = compare_fleets(measures).remove(0).unwrap();
            (found.all.unwrap().p, found.against_controls.unwrap().p, found.controls.unwrap().p)
        };
        // The mean of all has the smallest p: Holm multiplies it by the number of means.
        let measure = fleet(12, 6, 1.0, 0.9);
        let changes: Vec<f64> = pairs(&measure).unwrap().iter().map(Pair::change).collect();
        let (one, two) = (p(std::slice::from_ref(&measure)), p(&[measure.clone(), measure]));
        let plain = mean_change(&changes).unwrap().p;
        assert!((one.0 / plain - 2.0).abs() < 1e-9 && (two.0 / plain - 4.0).abs() < 1e-9, "{one:?} {two:?}");
        assert!(two.1 >= one.1 && one.1 > HOST_SIGNIFICANCE, "{one:?} {two:?}");
        assert_eq!(one.2, two.2, "the controls alone decide nothing");
    }

    #[test]
    fn without_controls_there_is_no_cause() {
        let found = only(fleet(12, 0, 0.92, 1.0));
        assert_eq!(found.all.unwrap().verdict, HostVerdict::Differs);
        assert_eq!(
            found.against_controls.unwrap_err().reason,
            "something changed on every host, so there is no control"
        );
        let none = only(fleet(12, 12, 1.0, 1.0)).against_controls.unwrap_err();
        assert_eq!(none.reason, "nothing that is recorded changed on any host");
        let few = only(fleet(12, 2, 0.92, 1.0)).against_controls.unwrap_err();
        assert_eq!(few.reason, "only 2 hosts without a change, and a control needs 3");
    }

    #[test]
    fn one_host_that_became_slow_is_the_one_that_is_named() {
        let mut measure = fleet(12, 12, 1.0, 1.0);
        measure.hosts[7].after = repeats(90.0, 3);
        let found = only(measure);
        let named: Vec<usize> = (0..12)
            .filter(|place| found.hosts.as_ref().unwrap()[*place].verdict == HostVerdict::Differs)
            .collect();
        assert_eq!(named, [7]);
        assert_eq!(found.verdict, HostVerdict::Differs);
    }

    #[test]
    fn hosts_that_became_slow_do_not_hide_each_other() {
        // One of each ten: with all of them in it, the scatter of the others would be as large as what they changed by.
        for (hosts, slow) in [(12, &[2, 7][..]), (20, &[2, 7, 11])] {
            let mut measure = fleet(hosts, hosts, 1.0, 1.0);
            for place in slow {
                measure.hosts[*place].after = repeats(90.0, 3);
            }
            let found = only(measure).hosts.unwrap();
            let named: Vec<usize> =
                (0..hosts).filter(|place| found[*place].verdict == HostVerdict::Differs).collect();
            assert_eq!(named, slow);
        }
    }

    #[test]
    fn the_scatter_of_the_other_hosts_agrees_with_a_worked_example() {
        let scatters = scatters_of_others(&[1.0, 2.0, 3.0, 4.0, 10.0]);
        // Without the first: mean 4.75, squares 7.5625 + 3.0625 + 0.5625 + 27.5625 = 38.75, by 3 degrees.
        assert!((scatters[0].variance - 38.75 / 3.0).abs() < 1e-12 && scatters[0].degrees == 3.0);
        // Without the last: 1, 2, 3, 4.
        assert!((scatters[4].variance - 5.0 / 3.0).abs() < 1e-12, "{scatters:?}");
        // Of ten one of the others is left out as well: of the ninth the tenth, and of the tenth the ninth.
        let scatters = scatters_of_others(&[-3.0, -2.0, -1.0, 0.0, 0.0, 1.0, 2.0, 3.0, 50.0, 60.0]);
        // Eight of nine are counted: the quantile of 8 / 9 is 2.5396 of chi²(1), and chi²(3) is below it with probability 0.5317.
        let wanted = (8.0 / 9.0) / 0.5317 * 28.0 / 7.0;
        for scatter in &scatters[8..] {
            assert!((scatter.variance / wanted - 1.0).abs() < 1e-3 && scatter.degrees == 7.0, "{scatter:?}");
        }
        // Of the first the ninth is counted, and the tenth is not.
        assert!(scatters[0].variance > 100.0, "{scatters:?}");
    }

    #[test]
    fn of_few_hosts_none_is_named_alone() {
        let mut measure = fleet(4, 4, 1.0, 1.0);
        measure.hosts[1].after = repeats(80.0, 3);
        let found = only(measure);
        assert_eq!(
            found.hosts.unwrap_err().reason,
            "a change of one host alone is named from 5 hosts on, and there are 4"
        );
        assert_eq!(found.verdict, HostVerdict::CannotTell);
    }

    #[test]
    fn a_fleet_whose_runs_have_levels_of_their_own_names_no_host() {
        // Each host is 5 % faster or slower in the second run, none more than others.
        let mut measure = fleet(12, 12, 1.0, 1.0);
        for (number, host) in measure.hosts.iter_mut().enumerate() {
            let level = [0.95, 1.05, 1.02, 0.97][number % 4];
            host.after.iter_mut().for_each(|value| *value *= level);
        }
        assert_ne!(only(measure).verdict, HostVerdict::Differs);
    }

    #[test]
    fn two_fleets_without_a_common_host_have_no_answer() {
        let none = DriftMeasure { hosts: Vec::new(), least_change: HOST_LEAST_CHANGE };
        assert_eq!(
            compare_fleets(&[none])[0].as_ref().unwrap_err().reason,
            "no host was measured in both runs"
        );
    }
}
