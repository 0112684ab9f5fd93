//! What a comparison could have found. "No difference seen" means little without it.

use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use rand_distr::{Distribution, StandardNormal};

use crate::bootstrap::quantile;
use crate::figure::Missing;
use crate::interval::student_quantile;
use crate::moments::mean;
use crate::permutation::{Block, BlockSize, Design, all_sums, difference};

/// Share of comparisons in which a change of the stated size would have been found.
pub const FOUND_FRACTION: f64 = 0.95;

/// Designs with at most so many relabelings are tried out, larger ones computed by Student's t. A permutation
/// test with few relabelings needs much more than t says (with 8 pairs and p < 0.01 every pair must point the
/// same way); from a thousand relabelings on the two agree within a few percent.
const TRIED_RELABELINGS_MAX: u64 = 1_024;

/// Synthetic comparisons behind a resolution that is tried out.
const TRIALS: u64 = 500;

/// The deviation of one repeat about its block and side: what is left when each block's level and the
/// difference between the sides are taken away. For pairs that is the deviation of the differences divided by
/// the root of two; for one block it is the pooled deviation. `None` where nothing is left to tell it from.
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

/// The smallest change that a permutation test at `p` would have found [`FOUND_FRACTION`] of the time, in the
/// unit of `deviation` (the deviation of one repeat, see [`repeat_deviation`]).
///
/// The reason names the repeats that are needed where the design can never give such a p.
pub fn smallest_change_found(design: &Design, deviation: f64, p: f64) -> Result<f64, Missing> {
    let Some(degrees) = degrees_of_freedom(design) else {
        return Err(Missing::because("too few repeats to know how far they scatter"));
    };
    if design.smallest_p() >= p {
        return Err(design.out_of_reach(p));
    }
    let in_deviations = if design.relabelings() <= TRIED_RELABELINGS_MAX {
        by_trial(design, p)
    } else {
        let weight: f64 =
            design.blocks.iter().map(|size| (size.a * size.b) as f64 / (size.a + size.b) as f64).sum();
        (student_quantile(1.0 - p / 2.0, degrees) + student_quantile(FOUND_FRACTION, degrees)) / weight.sqrt()
    };
    Ok(in_deviations * deviation)
}

/// Makes comparisons with noise of deviation 1, finds for each the smallest planted change at which the test
/// answers, and returns the one that is enough for [`FOUND_FRACTION`] of them. The seed is fixed: the
/// resolution of a design is one number.
fn by_trial(design: &Design, p: f64) -> f64 {
    let mut random = ChaCha8Rng::seed_from_u64(0);
    let of_change = all_sums(&blocks_of(design, |side| if side == Side::B { 1.0 } else { 0.0 }));
    let mut enough: Vec<f64> = (0..TRIALS)
        .map(|_| {
            let noise = blocks_of(design, |_| StandardNormal.sample(&mut random));
            smallest_answered(&all_sums(&noise), &of_change, p)
        })
        .collect();
    enough.sort_by(f64::total_cmp);
    quantile(&enough, FOUND_FRACTION)
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
    fn eight_pairs_need_what_makes_all_eight_point_one_way() {
        // All eight of N(d, 1) above 0 with probability 0.95: d = 2.49 deviations of a difference (normal
        // quantile of 0.95^(1/8)), 3.52 of a repeat. Student's t would promise 2.70.
        let found = smallest_change_found(&Design::of(Arrangement::Pairs, 8), 1.0, 0.01).unwrap();
        assert!((found / 3.52 - 1.0).abs() < 0.06, "{found}");
    }

    #[test]
    fn where_trial_and_formula_meet_they_agree() {
        let design = Design::of(Arrangement::Pairs, 10);
        let tried = smallest_change_found(&design, 1.0, 0.05).unwrap();
        let computed = (student_quantile(0.975, 9.0) + student_quantile(0.95, 9.0)) / 5.0_f64.sqrt();
        assert!((tried / computed - 1.0).abs() < 0.1, "{tried} {computed}");
    }

    #[test]
    fn the_promised_change_is_found_95_times_of_100() {
        for (arrangement, repeats) in
            [(Arrangement::Pairs, 9), (Arrangement::Unpaired, 5), (Arrangement::Pairs, 14)]
        {
            let design = Design::of(arrangement, repeats);
            let change = smallest_change_found(&design, 1.0, 0.01).unwrap();
            let trials = 300;
            let found = (0..trials).filter(|&trial| {
                let mut random = ChaCha8Rng::seed_from_u64(1_000_000 + trial);
                let blocks = blocks_of(&design, |side| {
                    let noise: f64 = StandardNormal.sample(&mut random);
                    noise + if side == Side::B { change } else { 0.0 }
                });
                permutation_test(&blocks, trial).unwrap().p < 0.01
            });
            let found = found.count() as f64 / f64::from(trials as u32);
            assert!((0.91..=0.985).contains(&found), "{arrangement:?} {repeats}: {found}");
        }
    }

    #[test]
    fn more_repeats_see_smaller_changes() {
        let of =
            |repeats| smallest_change_found(&Design::of(Arrangement::Pairs, repeats), 0.02, 0.01).unwrap();
        assert!(of(8) > of(10) && of(10) > of(20) && of(20) > of(40));
    }

    #[test]
    fn a_design_that_cannot_reach_p_says_so() {
        let reason = smallest_change_found(&Design::of(Arrangement::Pairs, 7), 1.0, 0.01).unwrap_err().reason;
        assert_eq!(
            reason,
            "these repeats cannot give p < 0.01: the smallest p they can give is 0.0156; 8 pairs can"
        );
    }
}
