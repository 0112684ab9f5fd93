//! What a comparison could have found.
//!
//! A change is called one where the test and the interval both say so. Both are tried out together here, in comparisons with noise
//! of known deviation; and the deviation that a real comparison estimates from its few repeats is itself drawn again each time.

use std::collections::HashMap;
use std::sync::{LazyLock, Mutex};

use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use rand_distr::{ChiSquared, Distribution, StandardNormal};

use crate::bootstrap::quantile;
use crate::figure::Missing;
use crate::interval::{student_factor, student_quantile};
use crate::moments::mean;
use crate::permutation::{Block, BlockSize, Design, all_sums, difference, total_weight};

/// Share of comparisons in which a change of the stated size is found.
pub const FOUND_FRACTION: f64 = 0.95;

/// Share that is aimed at. Repeats scatter with heavier tails than the normal law that the trials use.
const AIMED_FRACTION: f64 = 0.985;

/// Designs with at most so many relabelings are tried out with every relabeling; larger ones with Student's t instead of the test.
const TRIED_RELABELINGS_MAX: u64 = 1 << 12;

/// By how much more than Student's t a permutation test needs in the smallest designs that are not tried out (13 pairs).
const BEYOND_STUDENT: f64 = 1.1;

/// Synthetic comparisons behind a resolution.
const TRIALS: usize = 2_000;

/// The deviation of one repeat about its block and side: what is left when each block's level and the
/// difference between the sides are taken away. For pairs that is the deviation of the differences divided by
/// the root of two; for one block it is the pooled deviation. `None` where too few values are left to compute it from.
pub fn repeat_deviation(blocks: &[Block]) -> Option<f64> {
    if blocks.iter().any(|block| block.a.is_empty() || block.b.is_empty()) {
        return None;
    }
    let degrees = degrees_of_freedom(&Design::behind(blocks))?;
    let shift = difference(blocks);
    let squares: f64 = blocks
        .iter()
        .map(|block| {
            let level: Vec<f64> = block.a.iter().copied().chain(block.b.iter().map(|b| b - shift)).collect();
            let centre = mean(&level).expect("a block holds both sides");
            level.iter().map(|value| (value - centre).powi(2)).sum::<f64>()
        })
        .sum();
    Some((squares / degrees).sqrt())
}

/// Repeats less one for each block's level and one for the difference.
pub(crate) fn degrees_of_freedom(design: &Design) -> Option<f64> {
    let repeats: usize = design.blocks.iter().map(|size| size.a + size.b).sum();
    let degrees = repeats.checked_sub(design.blocks.len() + 1)?;
    (degrees > 0).then_some(degrees as f64)
}

/// The smallest change that a comparison like this one finds [`FOUND_FRACTION`] of the time: the permutation test gives a p below
/// `p`, and the interval lies wholly beyond `least_change`. All on one scale (logarithms for ratios); `deviation` is that of one
/// repeat as this comparison estimated it, see [`repeat_deviation`].
///
/// The reason names the repeats that are needed where the design can never give such a p.
pub fn smallest_change_found(
    design: &Design,
    deviation: f64,
    least_change: f64,
    p: f64,
) -> Result<f64, Missing> {
    if degrees_of_freedom(design).is_none() {
        return Err(Missing::because("too few repeats to know how far they scatter"));
    }
    if design.smallest_p() >= p {
        return Err(design.out_of_reach(p));
    }
    let needed = needed(design, p);
    Ok((needed.by_test * deviation).max(least_change + needed.by_interval * deviation))
}

/// What a change must be for test and interval to find it, in deviations as a comparison estimates them.
#[derive(Clone, Copy, Debug)]
struct Needed {
    by_test: f64,
    /// Beyond the least change.
    by_interval: f64,
}

/// The same for every comparison of one design, so it is tried out once.
fn needed(design: &Design, p: f64) -> Needed {
    static KNOWN: LazyLock<Mutex<HashMap<(Design, u64), Needed>>> = LazyLock::new(Mutex::default);
    let key = (design.clone(), p.to_bits());
    let known = || KNOWN.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    if let Some(needed) = known().get(&key) {
        return *needed;
    }
    let needed = by_trial(design, p);
    known().insert(key, needed);
    needed
}

/// Makes comparisons with noise of deviation 1 and finds for each the smallest planted change at which test and interval answer;
/// divides it by a deviation that another comparison of the same design estimated; and returns what is enough for
/// [`AIMED_FRACTION`] of them in both. The seed is fixed: the resolution of a design is one number.
fn by_trial(design: &Design, p: f64) -> Needed {
    let mut random = ChaCha8Rng::seed_from_u64(0);
    let degrees = degrees_of_freedom(design).expect("the caller refused a design without");
    let squares = ChiSquared::new(degrees).expect("degrees of freedom are positive");
    let of_change = (design.relabelings() <= TRIED_RELABELINGS_MAX)
        .then(|| all_sums(&blocks_of(design, |side| if side == Side::B { 1.0 } else { 0.0 })));
    let trials: Vec<Needed> = (0..TRIALS)
        .map(|_| {
            let estimated = (squares.sample(&mut random) / degrees).sqrt();
            let noise = blocks_of(design, |_| StandardNormal.sample(&mut random));
            let error = repeat_deviation(&noise).unwrap_or(1.0) / total_weight(&noise).sqrt();
            let shift = difference(&noise);
            let by_test = match &of_change {
                Some(of_change) => smallest_answered(&all_sums(&noise), of_change, p),
                None => BEYOND_STUDENT * (student_quantile(1.0 - p / 2.0, degrees) * error - shift),
            };
            let by_interval = student_factor(degrees) * error - shift;
            Needed { by_test: by_test / estimated, by_interval: by_interval / estimated }
        })
        .collect();
    enough_for(&trials)
}

/// Two bars that [`AIMED_FRACTION`] of the trials keep at once, each as high among its own kind as the other.
fn enough_for(trials: &[Needed]) -> Needed {
    let sorted = |of: fn(&Needed) -> f64| {
        let mut values: Vec<f64> = trials.iter().map(of).collect();
        values.sort_by(f64::total_cmp);
        values
    };
    let (tests, intervals) = (sorted(|trial| trial.by_test), sorted(|trial| trial.by_interval));
    let place = |values: &[f64], value: f64| values.partition_point(|other| *other < value) as f64;
    let mut places: Vec<f64> = trials
        .iter()
        .map(|trial| place(&tests, trial.by_test).max(place(&intervals, trial.by_interval)))
        .collect();
    places.sort_by(f64::total_cmp);
    let fraction = quantile(&places, AIMED_FRACTION) / (trials.len() - 1) as f64;
    Needed { by_test: quantile(&tests, fraction), by_interval: quantile(&intervals, fraction) }
}

#[derive(Clone, Copy, PartialEq)]
enum Side {
    A,
    B,
}

fn blocks_of(design: &Design, mut value: impl FnMut(Side) -> f64) -> Vec<Block> {
    let block = |size: &BlockSize| Block {
        a: (0..size.a).map(|_| value(Side::A)).collect(),
        b: (0..size.b).map(|_| value(Side::B)).collect(),
    };
    design.blocks.iter().map(block).collect()
}

/// The change from which on the test answers. Every sum is linear in the change, and that of the dealing that
/// was seen (the first) grows fastest; so each other dealing is overtaken at one change, and the answer comes
/// when only as many are left as `p` allows.
fn smallest_answered(of_noise: &[f64], of_change: &[f64], p: f64) -> f64 {
    let (noise, slope) = (of_noise[0], of_change[0]);
    let mut overtaken: Vec<f64> = of_noise
        .iter()
        .zip(of_change)
        .map(|(&other, &other_slope)| {
            let from = |distance: f64, gain: f64| if gain > 1e-9 { distance / gain } else { f64::INFINITY };
            from(other - noise, slope - other_slope).max(from(-other - noise, slope + other_slope))
        })
        .collect();
    let left = (p * overtaken.len() as f64).ceil() as usize - 1;
    let (_, change, _) = overtaken.select_nth_unstable_by(left, |one, other| other.total_cmp(one));
    change.max(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::permutation::{Arrangement, permutation_test};
    use crate::ratio::ratio;
    use rand_distr::StudentT;

    #[test]
    fn the_deviation_of_a_repeat_is_the_textbook_one_for_pairs_and_for_one_block() {
        // Differences 1, 2, 3: deviation 1, one repeat 1 / sqrt 2, whatever the levels of the blocks.
        let pairs: Vec<Block> = [(10.0, 11.0), (50.0, 52.0), (90.0, 93.0)]
            .map(|(a, b)| Block { a: vec![a], b: vec![b] })
            .to_vec();
        assert!((repeat_deviation(&pairs).unwrap() - 0.5_f64.sqrt()).abs() < 1e-12);
        // 1, 3 and 10, 14: squares 2 and 8, two degrees of freedom: pooled variance 5.
        let one = [Block { a: vec![1.0, 3.0], b: vec![10.0, 14.0] }];
        assert!((repeat_deviation(&one).unwrap() - 5.0_f64.sqrt()).abs() < 1e-12);
        assert_eq!(repeat_deviation(&pairs[..1]), None);
    }

    #[test]
    fn ten_pairs_need_what_makes_all_ten_point_one_way() {
        // With p < 0.01 / 3 every pair must point one way: the largest of ten N(0, 1) is below 2.75 with probability 0.97, and
        // the deviation is estimated. Student's t with known deviation would promise 2.25 of a difference, 3.2 of a repeat.
        let design = Design::of(Arrangement::Pairs, 10);
        let found = smallest_change_found(&design, 1.0, 0.0, 0.01 / 3.0).unwrap();
        assert!((3.9..7.0).contains(&found), "{found}");
    }

    /// In how many of 100 comparisons the change that another comparison promised is found by test and interval both.
    fn found_again(
        design: &Design,
        least_change: f64,
        p: f64,
        noise: impl Fn(&mut ChaCha8Rng) -> f64,
    ) -> f64 {
        let trials = 800;
        let found = (0..trials).filter(|&trial| {
            let mut random = ChaCha8Rng::seed_from_u64(1_000_000 + trial);
            let first = blocks_of(design, |_| noise(&mut random));
            let deviation = repeat_deviation(&first).unwrap();
            let change = smallest_change_found(design, deviation, least_change, p).unwrap();
            let again =
                blocks_of(design, |side| noise(&mut random) + if side == Side::B { change } else { 0.0 });
            let exp = |values: &[f64]| values.iter().map(|value| value.exp()).collect();
            let ratios: Vec<Block> =
                again.iter().map(|block| Block { a: exp(&block.a), b: exp(&block.b) }).collect();
            let beyond = ratio(&ratios, trial).unwrap().low().unwrap().ln() > least_change;
            beyond && permutation_test(&again, trial).unwrap().p < p
        });
        100.0 * found.count() as f64 / trials as f64
    }

    #[test]
    fn the_promised_change_is_found_95_times_of_100_by_test_and_interval_together() {
        let designs = [
            (Arrangement::Pairs, 10),
            (Arrangement::Pairs, 12),
            (Arrangement::Pairs, 13),
            (Arrangement::Unpaired, 6),
        ];
        let mut short = Vec::new();
        for (arrangement, repeats) in designs {
            let design = Design::of(arrangement, repeats);
            for least_change in [0.01, 0.05] {
                let normal = found_again(&design, least_change, 0.01 / 3.0, |random| {
                    let noise: f64 = StandardNormal.sample(random);
                    0.02 * noise
                });
                // Student's t with 5 degrees of freedom: one repeat in 70 lies beyond three of its scales.
                let heavy = StudentT::new(5.0).unwrap();
                let tailed =
                    found_again(&design, least_change, 0.01 / 3.0, |random| 0.02 * heavy.sample(random));
                println!(
                    "{arrangement:?} {repeats}, least {least_change}: {normal} %, heavy tails {tailed} %"
                );
                if normal < 95.0 || tailed < 94.0 {
                    short.push((arrangement, repeats, least_change, normal, tailed));
                }
            }
        }
        assert!(short.is_empty(), "{short:?}");
    }

    #[test]
    fn more_repeats_see_smaller_changes() {
        let of = |repeats| {
            smallest_change_found(&Design::of(Arrangement::Pairs, repeats), 0.02, 0.01, 0.01).unwrap()
        };
        assert!(of(8) > of(10) && of(10) > of(12) && of(12) > of(20) && of(20) > of(40));
    }

    #[test]
    fn a_design_that_cannot_reach_p_says_so() {
        let seven = Design::of(Arrangement::Pairs, 7);
        let reason = smallest_change_found(&seven, 1.0, 0.01, 0.01).unwrap_err().reason;
        assert_eq!(
            reason,
            "p < 0.01 is not possible with so few repeats (smallest possible: 0.0156); use 8 pairs"
        );
    }
}
