//! Which slowdowns of a run are certain: all its ratios together find something by chance in at most one run of twenty.
//!
//! ```text
//! each ratio:    its own t test, and one with the scatter of all repeats of its role -> the smaller p, doubled
//! confirmed:     the p of the planned pairs of repeats ⁄ 0.25, or that of all ⁄ 0.75  -> the smaller one
//! all of a run:  Holm's correction -> p below 5 %, and the whole shown interval above 1.01 -> certain
//! ```

use std::collections::{BTreeMap, BTreeSet};

use crate::compare::LEAST_CHANGE;
use crate::moments::{mean, sample_variance};
use crate::screening::p_of;

/// Probability that any ratio of a run is called certain where no role slows another down.
pub(crate) const LEVEL: f64 = 0.05;

/// Logarithms of the time of a request, by block.
pub(crate) type LogTimes = BTreeMap<u32, f64>;

/// What a ratio is taken of.
#[derive(Clone, Debug)]
pub(crate) struct Times {
    pub(crate) alone: LogTimes,
    pub(crate) beside: LogTimes,
}

/// Part of the level that is spent on the planned pairs of repeats where some are confirmed; the rest is spent on all pairs.
const FIRST_LOOK: f64 = 0.25;

/// How often the ratios of a run are looked at.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Looks {
    /// When all of it is measured.
    Once,
    /// After so many pairs of repeats, and again after those that confirm what looked slow then.
    After(usize),
}

impl Times {
    /// Of each pair of repeats, in the order of blocks: the logarithm of how many times as long a request took. Of the first so many
    /// blocks of the role alone: a repeat beside the other that does not count leaves its place to no later one.
    fn logs_of_slowdowns(&self, blocks: usize) -> Vec<f64> {
        let alone = self.alone.iter().take(blocks);
        alone.filter_map(|(block, log)| Some(self.beside.get(block)? - log)).collect()
    }
}

/// The p of each ratio that the times of one role give, not corrected for their number. A role that is not slower has 1.
pub(crate) fn p_of_role(ratios: &[Times], looks: Looks) -> Vec<f64> {
    let shared = ratios.first().and_then(|first| {
        let all: Vec<&LogTimes> =
            std::iter::once(&first.alone).chain(ratios.iter().map(|ratio| &ratio.beside)).collect();
        scatter(&all)
    });
    ratios.iter().map(|ratio| p_of_looks(ratio, shared, looks)).collect()
}

/// The smaller p of two looks, each divided by its part of the level (Bonferroni with weights, Holm 1979). So it does not matter by what
/// the ratios that are looked at again were chosen: the chance of a false alarm is at most the sum of both parts.
fn p_of_looks(ratio: &Times, shared: Option<Scatter>, looks: Looks) -> f64 {
    let all = ratio.logs_of_slowdowns(usize::MAX);
    let Looks::After(planned) = looks else { return p_of_ratio(&all, shared) };
    let planned = ratio.logs_of_slowdowns(planned);
    let first = p_of_ratio(&planned, shared) / FIRST_LOOK;
    // So many pairs have degrees of freedom enough of their own.
    let second = if all.len() > planned.len() { p_of_ratio(&all, None) / (1.0 - FIRST_LOOK) } else { 1.0 };
    first.min(second).min(1.0)
}

/// Whether a slowdown is certain, by Holm's p and the lower end of its 95 % interval.
pub(crate) fn is_certain(p: f64, low: f64) -> bool {
    p < LEVEL && low > 1.0 + LEAST_CHANGE
}

/// The scatter of one repeat.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Scatter {
    /// Variance of a logarithm.
    variance: f64,
    degrees: f64,
}

/// Two t tests ask the same question, so the smaller p is doubled (Bonferroni). The test with the ratio's own scatter, that of its
/// interval, needs no assumption, but three repeats leave it two degrees of freedom. The other one has more; it takes the larger of
/// both scatters, so that a ratio which scatters more than the others of its role is not tested with theirs.
fn p_of_ratio(logs: &[f64], shared: Option<Scatter>) -> f64 {
    let count = logs.len() as f64;
    let Some((slowdown, variance)) = mean(logs).zip(sample_variance(logs)) else {
        return 1.0;
    };
    if slowdown <= 0.0 {
        return 1.0;
    }
    let own = p_of(slowdown, (variance / count).sqrt(), count - 1.0);
    let Some(shared) = shared else { return own };
    // A difference of two repeats has the variance of both.
    let larger = variance.max(2.0 * shared.variance);
    let of_role = p_of(slowdown, (larger / count).sqrt(), shared.degrees);
    (2.0 * own.min(of_role)).min(1.0)
}

/// What is left of the logarithms when the level of each condition and of each block is taken away: the residual of a two-way layout
/// (Scheffé 1959, The Analysis of Variance, chapter 4), over the blocks that have all conditions. `None` where that is no more than a
/// ratio's own scatter.
fn scatter(conditions: &[&LogTimes]) -> Option<Scatter> {
    let (first, others) = conditions.split_first()?;
    let is_whole = |block: &&u32| others.iter().all(|other| other.contains_key(*block));
    let blocks: BTreeSet<u32> = first.keys().filter(is_whole).copied().collect();
    if conditions.len() < 3 || blocks.len() < 2 {
        return None;
    }
    let of_condition =
        |condition: &LogTimes| mean(&blocks.iter().map(|block| condition[block]).collect::<Vec<_>>());
    let of_block =
        |block: &u32| mean(&conditions.iter().map(|condition| condition[block]).collect::<Vec<_>>());
    let levels: Vec<f64> =
        conditions.iter().map(|condition| of_condition(condition)).collect::<Option<_>>()?;
    let centre = mean(&levels)?;
    let mut squares = 0.0;
    for block in &blocks {
        let shift = of_block(block)? - centre;
        let residuals =
            conditions.iter().zip(&levels).map(|(condition, level)| condition[block] - level - shift);
        squares += residuals.map(|residual| residual.powi(2)).sum::<f64>();
    }
    let degrees = ((conditions.len() - 1) * (blocks.len() - 1)) as f64;
    Some(Scatter { variance: squares / degrees, degrees })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::holm::holm;
    use crate::interval::student_factor;

    fn times(logs: &[f64]) -> LogTimes {
        (1..).zip(logs.iter().copied()).collect()
    }

    #[test]
    fn the_scatter_of_a_role_is_the_residual_of_a_two_way_layout() {
        // Levels of conditions 1, 2, 6 and of blocks -1, 0, 1, plus residuals that sum to 0 in each row and column: 1, -1, 0;
        // -1, 1, 0; 0, 0, 0. Squares 4, degrees (3 - 1) * (3 - 1).
        let rows = [[1.0, 0.0, 2.0], [0.0, 3.0, 3.0], [5.0, 6.0, 7.0]].map(|row| times(&row));
        let found = scatter(&rows.each_ref()).unwrap();
        assert_eq!(found.degrees, 4.0);
        assert!((found.variance - 1.0).abs() < 1e-12, "{found:?}");
        assert_eq!(scatter(&[&rows[0], &rows[1]]), None, "of two conditions it is the ratio's own");
    }

    #[test]
    fn a_block_that_lacks_a_condition_does_not_count_for_the_scatter() {
        let mut rows =
            [[1.0, 0.0, 2.0, 9.0], [0.0, 3.0, 3.0, 0.0], [5.0, 6.0, 7.0, 3.0]].map(|row| times(&row));
        rows[1].remove(&4);
        let found = scatter(&rows.each_ref()).unwrap();
        assert!((found.variance - 1.0).abs() < 1e-12 && found.degrees == 4.0, "{found:?}");
    }

    #[test]
    fn a_ratio_alone_is_tested_as_its_interval_is_made() {
        // An interval that ends at 1 has p = 0.05.
        let half = student_factor(2.0) / 3.0_f64.sqrt();
        let ratio = Times { alone: times(&[0.0; 3]), beside: times(&[half - 1.0, half, half + 1.0]) };
        let found = p_of_role(std::slice::from_ref(&ratio), Looks::Once);
        assert!((found[0] - 0.05).abs() < 1e-6, "{found:?}");
        let faster = Times { alone: ratio.beside, beside: ratio.alone };
        assert_eq!(p_of_role(&[faster], Looks::Once), [1.0]);
    }

    #[test]
    fn a_bad_neighbour_is_certain_among_64_ratios_by_three_repeats_whatever_the_others_scatter() {
        // 1.49 [1.47, 1.52], and 63 ratios of the same role that scatter by a half.
        let (log, half) = (1.49_f64.ln(), (1.52_f64 / 1.47).ln() / 2.0);
        let step = half * 3.0_f64.sqrt() / student_factor(2.0);
        let bad = Times { alone: times(&[0.0; 3]), beside: times(&[log - step, log, log + step]) };
        let other = Times { alone: times(&[0.0; 3]), beside: times(&[0.5, -0.5, 0.1]) };
        let ratios: Vec<Times> = std::iter::once(bad).chain(vec![other; 63]).collect();
        let found = holm(&p_of_role(&ratios, Looks::Once));
        assert!(is_certain(found[0], 1.47), "{}", found[0]);
        assert!(found[1..].iter().all(|p| *p > LEVEL));
    }

    #[test]
    fn less_than_one_in_a_hundred_is_never_certain() {
        assert!(is_certain(0.0, 1.02) && !is_certain(0.0, 1.009) && !is_certain(0.06, 1.5));
    }

    #[test]
    fn a_ratio_that_is_confirmed_is_tested_by_its_planned_pairs_and_by_all() {
        let beside = [0.4, 0.5, 0.6, 0.45, 0.55, 0.5];
        let p = |count: usize, looks| {
            let ratio = Times { alone: times(&[0.0; 6]), beside: times(&beside[..count]) };
            p_of_role(&[ratio], looks)[0]
        };
        assert_eq!(p(3, Looks::After(3)), p(3, Looks::Once) / 0.25, "only the first look");
        assert_eq!(p(6, Looks::After(3)), p(6, Looks::Once) / 0.75, "the second look");
        let fades = Times { alone: times(&[0.0; 6]), beside: times(&[0.5, 0.501, 0.502, -0.5, 0.1, -0.3]) };
        let first = Times { alone: fades.alone.clone(), beside: times(&[0.5, 0.501, 0.502]) };
        let of_first = p_of_role(&[first], Looks::Once)[0];
        assert_eq!(p_of_role(&[fades], Looks::After(3))[0], of_first / 0.25, "the first one has it");
        assert_eq!(p(1, Looks::After(3)), 1.0);
        let mut lacks =
            Times { beside: times(&[0.5, 0.501, 0.502, -0.5, 0.1, -0.3]), alone: times(&[0.0; 6]) };
        lacks.beside.remove(&2);
        let planned = Times { alone: times(&[0.0; 3]), beside: [(1, 0.5), (3, 0.502)].into() };
        let of_planned = p_of_role(&[planned], Looks::Once)[0] / 0.25;
        assert_eq!(p_of_role(&[lacks], Looks::After(3)), [of_planned], "two planned pairs, not a later one");
    }
}
