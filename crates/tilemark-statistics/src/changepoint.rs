//! Where the level of a series of runs changed, if it did.
//!
//! The statistic is the largest standardized sum of ranks over all places of a cut: Pettitt's test (A. N. Pettitt, A non-parametric
//! approach to the change-point problem, Applied Statistics 28, 1979, 126–135) with each cut divided by its own deviation, so that a
//! change near an end is found too. Its law is taken by relabeling the runs (J. Antoch and M. Hušková, Permutation tests in change
//! point analysis, Statistics and Probability Letters 53, 2001, 37–46), which is exact for any series without a change whose runs are
//! independent. Where a change was found, each part is searched again (binary segmentation, L. Ju. Vostrikova, Detecting "disorder" in
//! multidimensional random processes, Soviet Mathematics Doklady 24, 1981, 55–59).

use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;
use tilemark_units::median;

use crate::figure::Missing;

/// Fewest runs in which a change is named. With 12, even the clearest cut (2 / C(12, 6) is 0.0022) is hardly below a third of
/// [`CHANGE_LEVEL`], which is left to each of three measures; with 13 it is 0.0012.
pub const CHANGE_RUNS_MIN: usize = 13;

/// The level of the test over all measures of a series that has no change. A little below the 1 % that is promised: the relabelings are
/// drawn, and the same ones for all series of one length.
pub const CHANGE_LEVEL: f64 = 0.008;

/// Fewest runs on either side of a cut: one run that is out of line is no change of the level.
const SEGMENT_MIN: usize = 3;

/// Relabelings that are drawn. At p = 0.003 the drawn p is then off by less than 0.0006 in two cases of three.
const RELABELINGS: u32 = 9_999;

/// Relabelings with a cut as clear as that of the runs, from which on p is above every level and no more are drawn.
const AS_CLEAR_MAX: u32 = 100;

/// Any fixed seed: the same runs give the same words.
const SEED: u64 = 1979;

/// A change of the level of a series.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LevelChange {
    /// Index of the first value at the new level.
    pub at: usize,
    /// The median of the values since the change before it, or since the first, in the unit of the series.
    pub before: f64,
    /// The median of the values up to the next change, or up to the last.
    pub after: f64,
    /// Probability of a cut at least this clear if there were no change.
    pub p: f64,
}

impl LevelChange {
    /// The level after it over the level before it, less 1: 0.05 is five in a hundred more. `None` where it was 0 before.
    pub fn change(&self) -> Option<f64> {
        (self.before > 0.0).then(|| self.after / self.before - 1.0)
    }
}

/// The changes of the level of a series of values from 0 on, the oldest first; empty where there is none. `measures`: of how many
/// measures of the same runs this is one; [`CHANGE_LEVEL`] is shared among them. A change of less than `least_change` (0.05 is 5 %) is
/// none, however certain.
///
/// # Errors
/// When there are fewer than [`CHANGE_RUNS_MIN`] values, or one is negative or not finite.
pub fn level_changes(
    values: &[f64],
    measures: usize,
    least_change: f64,
) -> Result<Vec<LevelChange>, Missing> {
    if values.len() < CHANGE_RUNS_MIN {
        return Err(Missing::because(format!(
            "a change is named from {CHANGE_RUNS_MIN} trusted runs on, and there are {}",
            values.len()
        )));
    }
    if let Some(odd) = values.iter().find(|value| !value.is_finite() || **value < 0.0) {
        return Err(Missing::because(format!("the value {odd} of a run is not a number from 0 on")));
    }
    let level = CHANGE_LEVEL / measures.max(1) as f64;
    let mut cuts = Vec::new();
    search(values, 0, level, least_change, &mut cuts);
    cuts.sort_unstable_by_key(|(at, _)| *at);
    let ends: Vec<usize> =
        [0].into_iter().chain(cuts.iter().map(|(at, _)| *at)).chain([values.len()]).collect();
    let level_of = |from: usize, to: usize| median(values[from..to].to_vec()).expect("a part is never empty");
    let changes = cuts.iter().zip(ends.windows(3)).map(|(&(at, p), ends)| LevelChange {
        at,
        before: level_of(ends[0], at),
        after: level_of(at, ends[2]),
        p,
    });
    Ok(changes.collect())
}

/// Adds the clearest cut of a part that begins at `start`, and those of the two parts that it leaves.
fn search(part: &[f64], start: usize, level: f64, least_change: f64, cuts: &mut Vec<(usize, f64)>) {
    if part.len() < CHANGE_RUNS_MIN {
        return;
    }
    let (at, p) = clearest_cut(part);
    let (before, after) = part.split_at(at);
    let Some((low, high)) = median(before.to_vec()).zip(median(after.to_vec())) else { return };
    // From 0 any change is large, and two levels of 0 are equal.
    if p >= level || low == high || (high / low).ln().abs() < least_change.ln_1p() {
        return;
    }
    cuts.push((start + at, p));
    search(before, start, level, least_change, cuts);
    search(after, start + at, level, least_change, cuts);
}

/// Where the two parts of a series differ most, and the probability of so clear a cut if nothing changed.
fn clearest_cut(values: &[f64]) -> (usize, f64) {
    let weights = weights(values.len());
    let mut ranks = centred_ranks(values);
    let (at, seen) = largest_cut(&ranks, &weights);
    let mut random = ChaCha8Rng::seed_from_u64(SEED);
    let mut as_clear = 0;
    for _ in 0..RELABELINGS {
        ranks.shuffle(&mut random);
        // Sums in another order differ in the last digits.
        as_clear += u32::from(largest_cut(&ranks, &weights).1 >= seen * (1.0 - 1e-9));
        if as_clear >= AS_CLEAR_MAX {
            break;
        }
    }
    (at, f64::from(as_clear + 1) / f64::from(RELABELINGS + 1))
}

/// The ranks of values, equal ones sharing theirs, less their mean.
fn centred_ranks(values: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..values.len()).collect();
    order.sort_by(|&left, &right| values[left].total_cmp(&values[right]));
    let centre = (values.len() as f64 - 1.0) / 2.0;
    let mut ranks = vec![0.0; values.len()];
    let mut first = 0;
    while first < order.len() {
        let alike = order[first..].iter().take_while(|&&at| values[at] == values[order[first]]).count();
        let shared = first as f64 + (alike as f64 - 1.0) / 2.0 - centre;
        order[first..first + alike].iter().for_each(|&at| ranks[at] = shared);
        first += alike;
    }
    ranks
}

/// One over the deviation of the sum of the first k ranks, up to a factor that all cuts share; 0 where a part would be too short.
fn weights(count: usize) -> Vec<f64> {
    let weight = |first: usize| {
        let rest = count - first;
        if first < SEGMENT_MIN || rest < SEGMENT_MIN { 0.0 } else { ((first * rest) as f64).sqrt().recip() }
    };
    (0..count).map(weight).collect()
}

/// The cut whose standardized sum is the largest, and that sum.
fn largest_cut(ranks: &[f64], weights: &[f64]) -> (usize, f64) {
    let (mut sum, mut at, mut largest): (f64, usize, f64) = (0.0, SEGMENT_MIN, 0.0);
    for (first, rank) in (1..ranks.len()).zip(ranks) {
        sum += rank;
        let size = sum.abs() * weights[first];
        if size > largest {
            (at, largest) = (first, size);
        }
    }
    (at, largest)
}

#[cfg(test)]
mod tests {
    use rand_distr::{Distribution, StandardNormal, StudentT};

    use super::*;

    /// Series that a trial has: enough to see 1 %, or thousands in a soak.
    fn trials(short: u64) -> u64 {
        std::env::var("TILEMARK_TEST_COMPARISONS").map_or(short, |count| count.parse().unwrap())
    }

    /// Prints what a trial came to: `cargo xtask soak` reads it.
    fn print_trial(what: &str, called: usize, of: u64) {
        println!("{{\"what\":\"{what}\",\"called\":{called},\"of\":{of}}}");
    }

    /// A series of runs whose level is 100 and scatters by 2 %, with `noise` for the scatter.
    fn white(count: usize, random: &mut ChaCha8Rng, noise: impl Fn(&mut ChaCha8Rng) -> f64) -> Vec<f64> {
        (0..count).map(|_| 100.0 * f64::exp(0.02 * noise(random))).collect()
    }

    fn normal(random: &mut ChaCha8Rng) -> f64 {
        StandardNormal.sample(random)
    }

    fn names_one(series: &[f64]) -> bool {
        level_changes(series, 3, 0.0).is_ok_and(|changes| !changes.is_empty())
    }

    /// Of so many series of three measures, those in which a change is named in one of them.
    fn false_alarms(count: usize, of: u64, noise: impl Fn(&mut ChaCha8Rng) -> f64) -> usize {
        let named = (0..of).filter(|trial| {
            let mut random = ChaCha8Rng::seed_from_u64(*trial);
            (0..3).any(|_| names_one(&white(count, &mut random, &noise)))
        });
        named.count()
    }

    #[test]
    fn of_series_without_a_change_at_most_one_in_a_hundred_is_called_changed() {
        let heavy = StudentT::new(3.0).unwrap();
        let of = trials(400);
        // 1 % of the series, and what chance adds in one case of a thousand.
        let expected = of as f64 * 0.01;
        let most = (expected + 3.0 * expected.sqrt()) as usize;
        for count in [13, 15, 20, 40, 100] {
            let found = false_alarms(count, of, normal);
            print_trial(
                &format!("white noise of {count} runs, three measures: a change is named"),
                found,
                of,
            );
            assert!(found <= most, "{count} runs: {found} of {of}");
        }
        let found = false_alarms(30, of, |random| heavy.sample(random));
        print_trial(
            "noise of Student's t with 3 degrees, 30 runs, three measures: a change is named",
            found,
            of,
        );
        assert!(found <= most, "Student's t: {found} of {of}");
    }

    #[test]
    fn a_shift_of_three_deviations_in_the_middle_of_20_runs_is_found_95_times_of_100() {
        let of = trials(200);
        let (mut found, mut nearby) = (0, 0);
        for trial in 0..of {
            let mut random = ChaCha8Rng::seed_from_u64(trial);
            let mut series = white(20, &mut random, normal);
            series[10..].iter_mut().for_each(|value| *value *= f64::exp(3.0 * 0.02));
            let changes = level_changes(&series, 3, 0.0).unwrap();
            found += usize::from(!changes.is_empty());
            nearby += usize::from(matches!(changes[..], [only] if only.at.abs_diff(10) <= 1));
        }
        print_trial("a shift of three deviations in the middle of 20 runs: found", found, of);
        print_trial("the same: found within one run of where it is", nearby, of);
        assert!(found as u64 * 100 > of * 95, "{found} of {of}");
        assert!(nearby as u64 * 100 > of * 85, "{nearby} of {of}");
    }

    /// Two levels that do not overlap.
    fn stepped(levels: &[(f64, usize)]) -> Vec<f64> {
        let wobble = [0.3, -0.2, 0.1, -0.3, 0.2, 0.0, -0.1];
        let all = levels.iter().flat_map(|&(level, count)| std::iter::repeat_n(level, count));
        all.zip(wobble.iter().cycle()).map(|(level, wobble)| level * (1.0 + wobble / 100.0)).collect()
    }

    #[test]
    fn a_change_has_its_place_and_both_levels() {
        let changes = level_changes(&stepped(&[(100.0, 9), (120.0, 8)]), 3, 0.05).unwrap();
        let [only] = changes[..] else { panic!("{changes:?}") };
        assert_eq!(only.at, 9);
        assert!((only.change().unwrap() - 0.2).abs() < 0.01 && only.p < 0.0033, "{only:?}");
    }

    #[test]
    fn several_changes_are_found_each_with_the_levels_around_it() {
        let changes = level_changes(&stepped(&[(100.0, 13), (120.0, 13), (90.0, 13)]), 3, 0.05).unwrap();
        let found: Vec<(usize, i32)> =
            changes.iter().map(|one| (one.at, (one.change().unwrap() * 100.0).round() as i32)).collect();
        assert_eq!(found, [(13, 20), (26, -25)]);
    }

    #[test]
    fn a_change_that_is_too_small_to_matter_is_none_however_certain() {
        let series = stepped(&[(100.0, 20), (103.0, 20)]);
        assert_eq!(level_changes(&series, 3, 0.01).unwrap().len(), 1);
        assert!(level_changes(&series, 3, 0.05).unwrap().is_empty());
    }

    #[test]
    fn one_run_out_of_line_and_runs_that_are_all_the_same_are_no_change() {
        let mut series = stepped(&[(100.0, 20)]);
        *series.last_mut().unwrap() = 900.0;
        assert!(level_changes(&series, 3, 0.0).unwrap().is_empty());
        assert!(level_changes(&[7.0; 30], 3, 0.0).unwrap().is_empty());
    }

    #[test]
    fn too_few_runs_and_values_that_are_not_finite_are_refused_with_the_reason() {
        let reason = |series: &[f64]| level_changes(series, 3, 0.0).unwrap_err().reason;
        assert!(
            reason(&stepped(&[(1.0, 6), (9.0, 5)])).contains("from 13 trusted runs on, and there are 11")
        );
        let mut odd = stepped(&[(1.0, 20)]);
        odd[3] = f64::NAN;
        assert!(reason(&odd).contains("NaN"));
        odd[3] = -1.0;
        assert!(reason(&odd).contains("not a number from 0 on"));
    }

    #[test]
    fn a_level_may_fall_to_0_and_rise_from_it_and_levels_of_0_are_equal() {
        let series = |before: f64, after: f64| [[before; 10], [after; 10]].concat();
        let only = |series: &[f64]| match level_changes(series, 3, 0.01).unwrap()[..] {
            [only] => (only.at, only.change()),
            ref several => panic!("{several:?}"),
        };
        assert_eq!(only(&series(1.0, 0.0)), (10, Some(-1.0)));
        assert_eq!(only(&series(0.0, 2.0)), (10, None));
        // The last runs rank higher, and the median of either part is 0.
        let mut rising = series(0.0, 0.0);
        rising[11..].iter_mut().step_by(2).for_each(|value| *value = 1.0);
        assert!(level_changes(&rising, 3, 0.01).unwrap().is_empty());
    }
}
