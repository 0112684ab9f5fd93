//! Repeats of two points, block by block. A repeat that was discarded takes its whole block away, unless each point is measured again for
//! itself (`blocks_and_pairs`); one that served nothing does not
//! vanish: whoever compares speed counts such blocks apart.

use std::collections::BTreeMap;

use tilemark_record::summary::RepeatSummary;

use crate::figure::Missing;
use crate::permutation::Block;

/// What is read from a repeat; `None` where the repeat does not have it.
pub(crate) type FigureOf<'f> = &'f dyn Fn(&RepeatSummary) -> Option<f64>;

/// Repeats of one block, of both points.
#[derive(Default)]
pub(crate) struct RepeatBlock<'a> {
    pub(crate) a: Vec<&'a RepeatSummary>,
    pub(crate) b: Vec<&'a RepeatSummary>,
}

/// The blocks that have repeats of both.
pub(crate) fn whole_blocks<'a>(a: &[&'a RepeatSummary], b: &[&'a RepeatSummary]) -> Vec<RepeatBlock<'a>> {
    let mut blocks: BTreeMap<u32, RepeatBlock> = BTreeMap::new();
    for repeat in a {
        blocks.entry(repeat.block).or_default().a.push(repeat);
    }
    for repeat in b {
        blocks.entry(repeat.block).or_default().b.push(repeat);
    }
    blocks.into_values().filter(|block| !block.a.is_empty() && !block.b.is_empty()).collect()
}

/// The blocks that have repeats of both; then what is left over of both, paired in order of time. A discarded repeat is measured again
/// in a later block, where each point lacks one for itself: it belongs to a repeat that another block has.
pub(crate) fn blocks_and_pairs<'a>(a: &[&'a RepeatSummary], b: &[&'a RepeatSummary]) -> Vec<RepeatBlock<'a>> {
    let left_over = |of: &[&'a RepeatSummary], other: &[&RepeatSummary]| {
        let is_left = |own: &&&RepeatSummary| other.iter().all(|repeat| repeat.block != own.block);
        let mut left: Vec<&'a RepeatSummary> = of.iter().filter(is_left).copied().collect();
        left.sort_by_key(|repeat| (repeat.block, repeat.repeat));
        left
    };
    let pairs = left_over(a, b).into_iter().zip(left_over(b, a));
    let pairs = pairs.map(|(a, b)| RepeatBlock { a: vec![a], b: vec![b] });
    whole_blocks(a, b).into_iter().chain(pairs).collect()
}

impl<'a> RepeatBlock<'a> {
    /// Its repeats that served something, or nothing where a side is left without one.
    pub(crate) fn served(&self, load: &str) -> Option<Self> {
        let of = |repeats: &[&'a RepeatSummary]| -> Vec<&'a RepeatSummary> {
            repeats.iter().copied().filter(|repeat| serves(repeat, load)).collect()
        };
        let served = Self { a: of(&self.a), b: of(&self.b) };
        (!served.a.is_empty() && !served.b.is_empty()).then_some(served)
    }
}

/// Whether a load had any right answer.
pub(crate) fn serves(repeat: &RepeatSummary, load: &str) -> bool {
    repeat.loads.iter().any(|figures| figures.name == load && figures.completed > 0)
}

/// A figure of every repeat. One that lacks it is a reason to have no answer: leaving it out would choose repeats by their result.
pub(crate) fn figures(blocks: &[RepeatBlock], figure: FigureOf) -> Result<Vec<Block>, Missing> {
    let of = |repeats: &[&RepeatSummary]| repeats.iter().filter_map(|repeat| figure(repeat)).collect();
    let found: Vec<Block> = blocks.iter().map(|block| Block { a: of(&block.a), b: of(&block.b) }).collect();
    let count = |blocks: &[Block]| blocks.iter().map(|block| block.a.len() + block.b.len()).sum::<usize>();
    let (has, all) = (count(&found), blocks.iter().map(|block| block.a.len() + block.b.len()).sum::<usize>());
    if all == 0 {
        Err(Missing::because("no block has repeats of both"))
    } else if has < all {
        Err(Missing::because(format!("{} of {all} repeats do not have it", all - has)))
    } else {
        Ok(found)
    }
}
