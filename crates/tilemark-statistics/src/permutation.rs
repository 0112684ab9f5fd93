//! Permutation tests in blocks: would swapping the labels A and B inside each block give as large a difference?
//!
//! Repeats run in random order inside a block, so inside a block the labels are exchangeable when the sides
//! do not differ, whatever the host did between blocks. One rule covers both arrangements: blocks of one A and
//! one B are pairs (swapping a block flips a sign), and one block with all repeats is the unpaired test.

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::figure::Missing;
use crate::moments::mean;

/// Most relabelings that are counted one by one; beyond it they are drawn.
pub const EXACT_RELABELINGS_MAX: u64 = 1 << 16;

/// Relabelings drawn where they cannot all be counted. At p = 0.01 the drawn p is then off by less than 0.001.
pub const DRAWN_RELABELINGS: u64 = 99_999;

/// What was measured in one block of the run, on whatever scale differences are to be taken.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Block {
    /// Repeats of side A.
    pub a: Vec<f64>,
    /// Repeats of side B.
    pub b: Vec<f64>,
}

/// How many repeats of each side one block holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct BlockSize {
    /// Repeats of side A.
    pub a: usize,
    /// Repeats of side B.
    pub b: usize,
}

/// How two sides are laid out over blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrangement {
    /// Each block holds one repeat of each side.
    Pairs,
    /// One block holds all: two runs made at different times.
    Unpaired,
}

/// The blocks of a comparison, before anything was measured: enough to know what it can ever find.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Design {
    /// One entry per block.
    pub blocks: Vec<BlockSize>,
}

impl Design {
    /// The design with `repeats` of each side.
    pub fn of(arrangement: Arrangement, repeats: usize) -> Self {
        match arrangement {
            Arrangement::Pairs => Self { blocks: vec![BlockSize { a: 1, b: 1 }; repeats] },
            Arrangement::Unpaired => Self { blocks: vec![BlockSize { a: repeats, b: repeats }] },
        }
    }

    /// The design behind measured blocks.
    pub fn behind(blocks: &[Block]) -> Self {
        Self { blocks: blocks.iter().map(|block| BlockSize { a: block.a.len(), b: block.b.len() }).collect() }
    }

    /// In how many ways the labels can be dealt; saturates at `u64::MAX`.
    pub fn relabelings(&self) -> u64 {
        self.blocks
            .iter()
            .fold(1_u64, |product, size| product.saturating_mul(combinations(size.a + size.b, size.a)))
    }

    /// The smallest p that this design can give, by counting: the dealing that was seen and, where every
    /// block is even, its mirror image, out of all dealings.
    pub fn smallest_p(&self) -> f64 {
        let relabelings = self.relabelings();
        if relabelings > EXACT_RELABELINGS_MAX {
            return 1.0 / (DRAWN_RELABELINGS + 1) as f64;
        }
        let mirrored = self.blocks.iter().all(|size| size.a == size.b);
        let as_extreme = if mirrored { 2 } else { 1 };
        (as_extreme.min(relabelings)) as f64 / relabelings as f64
    }

    /// Says that the design cannot give such a p, and which can.
    pub(crate) fn out_of_reach(&self, p: f64) -> Missing {
        let arrangement = match self.blocks.as_slice() {
            [BlockSize { a: 1, b: 1 }] => Arrangement::Pairs,
            [_] => Arrangement::Unpaired,
            _ => Arrangement::Pairs,
        };
        let enough = match (repeats_needed(arrangement, p), arrangement) {
            (Some(pairs), Arrangement::Pairs) => format!("use {pairs} pairs"),
            (Some(repeats), Arrangement::Unpaired) => format!("use {repeats} repeats a side"),
            (None, _) => "no number of repeats is enough".to_owned(),
        };
        Missing::because(format!(
            "p < {} is not possible with so few repeats (smallest possible: {:.4}); {enough}",
            (p * 1e4).round() / 1e4,
            self.smallest_p()
        ))
    }
}

/// Fewest repeats of each side with which the test can give a p below `p`. `None` where no number below 1,000
/// can.
pub fn repeats_needed(arrangement: Arrangement, p: f64) -> Option<usize> {
    (1..1_000).find(|&repeats| Design::of(arrangement, repeats).smallest_p() < p)
}

/// Whether so many repeats of each side can give a p below `p`; the reason names how many can. To be asked before
/// a run starts.
pub fn can_reach(arrangement: Arrangement, repeats: usize, p: f64) -> Result<(), Missing> {
    let design = Design::of(arrangement, repeats);
    if design.smallest_p() < p { Ok(()) } else { Err(design.out_of_reach(p)) }
}

/// n over k; saturates.
fn combinations(n: usize, k: usize) -> u64 {
    let k = k.min(n - k) as u128;
    let mut result = 1_u128;
    for step in 0..k {
        result = result * (n as u128 - step) / (step + 1);
        if result > u128::from(u64::MAX) {
            return u64::MAX;
        }
    }
    result as u64
}

/// How the relabelings were gone through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Relabelings {
    /// Every one of so many.
    All(u64),
    /// So many, drawn by the seed.
    Drawn(u64),
}

/// What a permutation test found.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PermutationTest {
    /// B minus A, averaged over blocks.
    pub difference: f64,
    /// Share of relabelings whose difference is at least as large, either way.
    pub p: f64,
    /// How they were gone through.
    pub relabelings: Relabelings,
}

/// Tests whether the sides differ. Exact up to [`EXACT_RELABELINGS_MAX`] relabelings, drawn by `seed` beyond.
pub fn permutation_test(blocks: &[Block], seed: u64) -> Result<PermutationTest, Missing> {
    check(blocks)?;
    let difference = difference(blocks);
    // Relabelings that are equal on paper differ by rounding; they must count as equal.
    let largest =
        blocks.iter().flat_map(|block| block.a.iter().chain(&block.b)).fold(0.0, |m: f64, v| m.max(v.abs()));
    let bar = difference.abs() - 1e-12 * largest;
    let relabelings = Design::behind(blocks).relabelings();
    if relabelings <= EXACT_RELABELINGS_MAX {
        let weight = total_weight(blocks);
        let hits = all_sums(blocks).iter().filter(|sum| (*sum / weight).abs() >= bar).count();
        let p = hits as f64 / relabelings as f64;
        return Ok(PermutationTest { difference, p, relabelings: Relabelings::All(relabelings) });
    }
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let mut shuffled = blocks.to_vec();
    let hits = (0..DRAWN_RELABELINGS).filter(|_| {
        shuffled.iter_mut().for_each(|block| deal(block, &mut random));
        self::difference(&shuffled).abs() >= bar
    });
    // The dealing that was seen is one of the dealings: p is never 0.
    let p = (hits.count() + 1) as f64 / (DRAWN_RELABELINGS + 1) as f64;
    Ok(PermutationTest { difference, p, relabelings: Relabelings::Drawn(DRAWN_RELABELINGS) })
}

fn check(blocks: &[Block]) -> Result<(), Missing> {
    if blocks.is_empty() {
        return Err(Missing::because("no block holds both sides"));
    }
    for (index, block) in blocks.iter().enumerate() {
        if block.a.is_empty() || block.b.is_empty() {
            return Err(Missing::because(format!("block {} holds one side only", index + 1)));
        }
        if block.a.iter().chain(&block.b).any(|value| !value.is_finite()) {
            return Err(Missing::because(format!("block {} holds what is not a number", index + 1)));
        }
    }
    Ok(())
}

/// B minus A over blocks, each block weighted by what its two means know (1 / (1/a + 1/b)).
pub(crate) fn difference(blocks: &[Block]) -> f64 {
    blocks.iter().map(|block| weight(block) * block_difference(&block.a, &block.b)).sum::<f64>()
        / total_weight(blocks)
}

fn block_difference(a: &[f64], b: &[f64]) -> f64 {
    mean(b).expect("a block holds side B") - mean(a).expect("a block holds side A")
}

fn weight(block: &Block) -> f64 {
    let (a, b) = (block.a.len() as f64, block.b.len() as f64);
    a * b / (a + b)
}

pub(crate) fn total_weight(blocks: &[Block]) -> f64 {
    blocks.iter().map(weight).sum()
}

/// The weighted sum of differences for every relabeling, the one that was seen first. Blocks are combined one
/// after another, so that two lists made from blocks of equal sizes have the same order.
pub(crate) fn all_sums(blocks: &[Block]) -> Vec<f64> {
    blocks.iter().fold(vec![0.0], |sums, block| {
        let parts = block_parts(block);
        let mut combined = Vec::with_capacity(sums.len() * parts.len());
        for sum in &sums {
            combined.extend(parts.iter().map(|part| sum + part));
        }
        combined
    })
}

/// The weighted difference of one block for every choice of which of its values are called A.
fn block_parts(block: &Block) -> Vec<f64> {
    if let ([a], [b]) = (block.a.as_slice(), block.b.as_slice()) {
        // Pairs are the usual case, and a resolution goes through a million of them.
        return vec![(b - a) / 2.0, (a - b) / 2.0];
    }
    let values: Vec<f64> = block.a.iter().chain(&block.b).copied().collect();
    let (of_a, of_b) = (block.a.len() as f64, block.b.len() as f64);
    let whole: f64 = values.iter().sum();
    let mut parts = Vec::new();
    let mut chosen: Vec<usize> = (0..block.a.len()).collect();
    loop {
        let sum_a: f64 = chosen.iter().map(|&index| values[index]).sum();
        parts.push(weight(block) * ((whole - sum_a) / of_b - sum_a / of_a));
        if !advance(&mut chosen, values.len()) {
            return parts;
        }
    }
}

/// The next choice in dictionary order; false after the last.
fn advance(chosen: &mut [usize], from: usize) -> bool {
    let size = chosen.len();
    let Some(place) = (0..size).rev().find(|&place| chosen[place] < from - size + place) else {
        return false;
    };
    chosen[place] += 1;
    for later in place + 1..size {
        chosen[later] = chosen[later - 1] + 1;
    }
    true
}

/// Deals the values of a block to its two sides again.
fn deal(block: &mut Block, random: &mut ChaCha8Rng) {
    let (of_a, all) = (block.a.len(), block.a.len() + block.b.len());
    for place in 0..of_a {
        let other = random.random_range(place..all);
        if other < of_a {
            block.a.swap(place, other);
        } else {
            std::mem::swap(&mut block.a[place], &mut block.b[other - of_a]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pairs(a: &[f64], b: &[f64]) -> Vec<Block> {
        a.iter().zip(b).map(|(&a, &b)| Block { a: vec![a], b: vec![b] }).collect()
    }

    #[test]
    fn eight_pairs_and_five_a_side_are_the_fewest_for_p_below_a_hundredth() {
        assert_eq!(repeats_needed(Arrangement::Pairs, 0.01), Some(8));
        assert_eq!(repeats_needed(Arrangement::Unpaired, 0.01), Some(5));
    }

    #[test]
    fn what_is_needed_follows_the_stated_p() {
        assert_eq!(repeats_needed(Arrangement::Pairs, 0.05), Some(6)); // 2 / 64
        assert_eq!(repeats_needed(Arrangement::Unpaired, 0.05), Some(4)); // 2 / 70
        assert_eq!(repeats_needed(Arrangement::Pairs, 0.001), Some(11)); // 2 / 2048
        assert_eq!(repeats_needed(Arrangement::Pairs, 1e-9), None);
    }

    #[test]
    fn a_plan_that_cannot_reach_its_p_names_one_that_can() {
        assert_eq!(can_reach(Arrangement::Pairs, 8, 0.01), Ok(()));
        let reason = can_reach(Arrangement::Pairs, 5, 0.01).unwrap_err().reason;
        assert_eq!(
            reason,
            "p < 0.01 is not possible with so few repeats (smallest possible: 0.0625); use 8 pairs"
        );
        let reason = can_reach(Arrangement::Unpaired, 4, 0.01).unwrap_err().reason;
        assert!(reason.ends_with("0.0286); use 5 repeats a side"), "{reason}");
    }

    #[test]
    fn relabelings_are_counted_as_published() {
        assert_eq!(Design::of(Arrangement::Unpaired, 5).relabelings(), 252);
        assert_eq!(Design::of(Arrangement::Pairs, 16).relabelings(), 65_536);
        assert_eq!(Design::of(Arrangement::Unpaired, 500).relabelings(), u64::MAX);
        let uneven = Design { blocks: vec![BlockSize { a: 2, b: 3 }, BlockSize { a: 1, b: 1 }] };
        assert_eq!(uneven.relabelings(), 20);
        assert_eq!(uneven.smallest_p(), 1.0 / 20.0);
    }

    #[test]
    fn pairs_that_all_point_one_way_reach_exactly_the_smallest_p() {
        let found =
            permutation_test(&pairs(&[1.0; 8], &[1.1, 1.2, 1.3, 1.15, 1.25, 1.35, 1.4, 1.45]), 0).unwrap();
        assert_eq!(found.p, 2.0 / 256.0);
        assert_eq!(found.relabelings, Relabelings::All(256));
    }

    #[test]
    fn the_published_example_of_darwins_maize_is_reproduced() {
        // Fisher, The Design of Experiments (1935), section 21: 15 pairs of plants, differences in eighths of
        // an inch; 863 of 32,768 sign patterns reach +314, so two-sided p = 2 * 863 / 32768 = 0.05267.
        let d = [49.0, -67.0, 8.0, 16.0, 6.0, 23.0, 28.0, 41.0, 14.0, 29.0, 56.0, 24.0, 75.0, 60.0, -48.0];
        let found = permutation_test(&pairs(&[0.0; 15], &d), 0).unwrap();
        assert_eq!(found.p, 2.0 * 863.0 / 32_768.0);
    }

    #[test]
    fn the_unpaired_test_agrees_with_a_count_by_hand() {
        // 1, 2 against 3, 4: of the six dealings only {1,2} and {3,4} reach a difference of 2.
        let found = permutation_test(&[Block { a: vec![1.0, 2.0], b: vec![3.0, 4.0] }], 0).unwrap();
        assert_eq!((found.difference, found.p), (2.0, 2.0 / 6.0));
    }

    #[test]
    fn equal_sides_give_p_of_one() {
        assert_eq!(permutation_test(&pairs(&[3.3; 9], &[3.3; 9]), 0).unwrap().p, 1.0);
    }

    #[test]
    fn drawn_relabelings_agree_with_the_exact_count() {
        // The same differences once as 15 pairs (counted) and once with eight empty pairs beside them (drawn):
        // a pair without a difference changes no sum, so p must agree.
        let d = [49.0, -67.0, 8.0, 16.0, 6.0, 23.0, 28.0, 41.0, 14.0, 29.0, 56.0, 24.0, 75.0, 60.0, -48.0];
        let mut more = d.to_vec();
        more.extend([0.0; 8]);
        let found = permutation_test(&pairs(&[0.0; 23], &more), 7).unwrap();
        assert_eq!(found.relabelings, Relabelings::Drawn(DRAWN_RELABELINGS));
        assert!((found.p - 0.05267).abs() < 0.003, "{}", found.p);
        assert_eq!(found.p, permutation_test(&pairs(&[0.0; 23], &more), 7).unwrap().p, "seeded");
    }

    #[test]
    fn a_block_with_one_side_is_refused_with_its_number() {
        let blocks = [Block { a: vec![1.0], b: vec![2.0] }, Block { a: vec![1.0], b: vec![] }];
        assert_eq!(permutation_test(&blocks, 0).unwrap_err().reason, "block 2 holds one side only");
        assert!(permutation_test(&[], 0).is_err());
    }

    #[test]
    fn dealing_keeps_every_value() {
        let mut block = Block { a: vec![1.0, 2.0, 3.0], b: vec![4.0, 5.0] };
        let mut random = ChaCha8Rng::seed_from_u64(3);
        let mut moved = false;
        for _ in 0..50 {
            deal(&mut block, &mut random);
            moved |= block.a.contains(&5.0);
            let mut all = [block.a.clone(), block.b.clone()].concat();
            all.sort_by(f64::total_cmp);
            assert_eq!(all, [1.0, 2.0, 3.0, 4.0, 5.0]);
        }
        assert!(moved);
    }
}
