//! Repeats of two points, block by block. A repeat that was voided takes its whole block away; one that served nothing does not
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
