//! The ratio of two sides, or of guests to their native twin, with its interval.

use crate::bootstrap::bootstrap_interval;
use crate::figure::INTERVAL_REPEATS_MIN;
use crate::figure::{Figure, Interval, Missing, Scale};
use crate::interval::{BOOTSTRAP_REPEATS_MIN, estimate, student_factor};
use crate::moments::{logarithms, mean, sample_variance};
use crate::permutation::{Block, Design, difference, total_weight};
use crate::resolution::{degrees_of_freedom, repeat_deviation};

/// The blocks on logarithms, or why that cannot be.
pub(crate) fn on_logarithms(blocks: &[Block]) -> Result<Vec<Block>, Missing> {
    let on_logarithms = |block: &Block| Some(Block { a: logarithms(&block.a)?, b: logarithms(&block.b)? });
    let logs: Option<Vec<Block>> = blocks.iter().map(on_logarithms).collect();
    logs.ok_or_else(|| Missing::because("a repeat is zero or negative, so no ratio can be taken"))
}

/// B divided by A with its interval, on logarithms. Pairs cancel what a block did to both; one block with
/// several repeats of each is compared without assuming that both scatter alike (Welch). `n_repeats` is that
/// of the side with fewer.
pub fn ratio(blocks: &[Block], seed: u64) -> Result<Figure, Missing> {
    if blocks.is_empty() || blocks.iter().any(|block| block.a.is_empty() || block.b.is_empty()) {
        return Err(Missing::because("a ratio needs both sides in each block"));
    }
    let logs = on_logarithms(blocks)?;
    if logs.iter().all(|block| block.a.len() == 1 && block.b.len() == 1) {
        let differences: Vec<f64> = logs.iter().map(|block| block.b[0] - block.a[0]).collect();
        return Ok(estimate(&differences, Scale::Linear, seed)?.map(f64::exp));
    }
    let of_a: usize = logs.iter().map(|block| block.a.len()).sum();
    let of_b: usize = logs.iter().map(|block| block.b.len()).sum();
    let n_repeats = of_a.min(of_b);
    let value = difference(&logs);
    let interval = if n_repeats < INTERVAL_REPEATS_MIN {
        Err(Missing::too_few(n_repeats))
    } else if let [only] = logs.as_slice() {
        Ok(of_one_block(only, value, n_repeats, seed))
    } else {
        Ok(of_many_blocks(&logs, value))
    };
    Ok(Figure { value, interval, n_repeats }.map(f64::exp))
}

fn of_one_block(block: &Block, value: f64, n_repeats: usize, seed: u64) -> Interval {
    if n_repeats >= BOOTSTRAP_REPEATS_MIN {
        let difference = |strata: &[Vec<f64>]| {
            let centre = |side: usize| mean(&strata[side]).expect("a resample is never empty");
            centre(1) - centre(0)
        };
        return bootstrap_interval(&[&block.a, &block.b], difference, seed);
    }
    let of_mean = |side: &[f64]| sample_variance(side).expect("at least three repeats") / side.len() as f64;
    let (a, b) = (of_mean(&block.a), of_mean(&block.b));
    if a + b == 0.0 {
        return Interval { low: value, high: value };
    }
    // Welch and Satterthwaite's degrees of freedom.
    let share = |part: f64, side: &[f64]| part * part / (side.len() - 1) as f64;
    let degrees = (a + b).powi(2) / (share(a, &block.a) + share(b, &block.b));
    let half = student_factor(degrees) * (a + b).sqrt();
    Interval { low: value - half, high: value + half }
}

fn of_many_blocks(blocks: &[Block], value: f64) -> Interval {
    let degrees = degrees_of_freedom(&Design::behind(blocks)).expect("several repeats in each block");
    let deviation = repeat_deviation(blocks).expect("degrees of freedom are left");
    let half = student_factor(degrees) * deviation / total_weight(blocks).sqrt();
    Interval { low: value - half, high: value + half }
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;
    use rand_chacha::ChaCha8Rng;
    use rand_distr::{Distribution, Normal};

    use super::*;

    #[test]
    fn pairs_cancel_what_a_block_did_to_both() {
        let blocks: Vec<Block> =
            [100.0, 200.0, 50.0, 400.0].map(|level| Block { a: vec![level], b: vec![level * 0.9] }).to_vec();
        let found = ratio(&blocks, 0).unwrap();
        assert!((found.value - 0.9).abs() < 1e-12);
        assert!(found.high().unwrap() - found.low().unwrap() < 1e-9);
        assert_eq!(found.n_repeats, 4);
    }

    #[test]
    fn welch_agrees_with_a_worked_example() {
        // On logarithms: a = 1, 2, 3 (variance 1), b = 4, 6, 8 (variance 4). Difference 4, standard error
        // sqrt(5/3) = 1.2910, degrees (5/3)^2 / (1/18 + 16/18) = 2.9412, t(0.975, 2.9412) = 3.2195 (between
        // the tabled 3.182 for 3 and 4.303 for 2).
        let blocks =
            [Block { a: [1.0, 2.0, 3.0].map(f64::exp).to_vec(), b: [4.0, 6.0, 8.0].map(f64::exp).to_vec() }];
        let found = ratio(&blocks, 0).unwrap();
        let half = (found.high().unwrap() / found.value).ln();
        assert!((found.value.ln() - 4.0).abs() < 1e-9);
        assert!((half / 1.2910 - 3.2195).abs() < 0.02, "{}", half / 1.2910);
    }

    #[test]
    fn a_side_without_three_repeats_has_a_ratio_and_no_interval() {
        let found = ratio(&[Block { a: vec![10.0, 10.0], b: vec![20.0, 20.0, 20.0] }], 0).unwrap();
        assert!((found.value - 2.0).abs() < 1e-12);
        assert!(found.interval.is_err());
    }

    #[test]
    fn zero_has_no_ratio() {
        assert!(ratio(&[Block { a: vec![0.0], b: vec![1.0] }], 0).is_err());
        assert!(ratio(&[Block { a: vec![1.0], b: vec![] }], 0).is_err());
    }

    #[test]
    fn intervals_of_ratios_cover_the_truth_95_times_of_100_in_every_arrangement() {
        let noise = Normal::new(0.0, 0.03).unwrap();
        let shapes: [&[(usize, usize)]; 4] = [&[(1, 1); 8], &[(5, 5)], &[(2, 2); 4], &[(18, 18)]];
        for shape in shapes {
            let trials = if shape[0].0 >= 15 { 400 } else { 2_000 };
            let covered = (0..trials).filter(|&trial| {
                let mut random = ChaCha8Rng::seed_from_u64(trial);
                let blocks: Vec<Block> = shape
                    .iter()
                    .enumerate()
                    .map(|(index, &(a, b))| {
                        let level = 100.0 + 30.0 * index as f64;
                        let mut draw = |side: f64| level * side * f64::exp(noise.sample(&mut random));
                        Block {
                            a: (0..a).map(|_| draw(1.0)).collect(),
                            b: (0..b).map(|_| draw(0.95)).collect(),
                        }
                    })
                    .collect();
                ratio(&blocks, trial).unwrap().interval.unwrap().contains(0.95)
            });
            let found = covered.count() as f64 / trials as f64;
            assert!((0.93..=0.97).contains(&found), "{shape:?}: {found}");
        }
    }
}
