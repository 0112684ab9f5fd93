//! The order of measurement: blocks of one repeat of every point, each in a random order in which points that are compared with
//! each other come first equally often.

use crate::{
    plan::{Pass, Point},
    screening::Screened,
};
use rand::{SeedableRng, rngs::StdRng, seq::SliceRandom};
use std::collections::BTreeMap;

/// Blocks of one repeat of every point each, every block in an order of its own.
///
/// Points of one step that differ in side or backend only are compared with each other. Of two sides each comes first in as many
/// blocks as the other, give or take one, for every seed; so do guests and their native twin. Otherwise a drift of the host, or an
/// advantage of the first place, would add to what is measured.
pub fn passes(points: &[Point], seed: u64) -> Vec<Pass> {
    if points.iter().any(|point| matches!(point.screened, Some(Screened::Row { .. }))) {
        return passes_of_screening(points, seed);
    }
    let mut random = StdRng::seed_from_u64(seed);
    let blocks = points.iter().map(|point| point.measure.repeats).max().unwrap_or(0);
    let steps = steps(points, blocks, &mut random);
    let mut passes = Vec::new();
    for block in 1..=blocks {
        let mut order: Vec<usize> = (0..points.len()).collect();
        order.shuffle(&mut random);
        for step in &steps {
            step.arrange(&mut order, points, block);
        }
        let of_block = order.into_iter().map(|place| &points[place]);
        passes.extend(of_block.filter(|point| block <= point.measure.repeats).map(|point| Pass {
            block,
            point: point.index,
            repeat: block,
        }));
    }
    passes
}

/// The order of a screening: in each block every row once, in random order, with its mirror image right before or after it, each first in half
/// of the blocks and rows, give or take one.
fn passes_of_screening(points: &[Point], seed: u64) -> Vec<Pass> {
    let mut random = StdRng::seed_from_u64(seed);
    let pairs: Vec<&[Point]> = points.chunk_by(|one, next| group(one) == group(next)).collect();
    let blocks = points.iter().map(|point| point.measure.repeats).max().unwrap_or(0);
    let mut mirror_first = balanced(blocks * pairs.len() as u32, &mut random).into_iter();
    let mut passes = Vec::new();
    for block in 1..=blocks {
        let mut order: Vec<usize> = (0..pairs.len()).collect();
        order.shuffle(&mut random);
        for place in order {
            let mut pair: Vec<&Point> = pairs[place].iter().collect();
            if mirror_first.next() == Some(true) {
                pair.reverse();
            }
            passes.extend(pair.into_iter().map(|point| Pass { block, point: point.index, repeat: block }));
        }
    }
    passes
}

fn group(point: &Point) -> Option<u32> {
    point.screened.as_ref().map(Screened::group)
}

/// Points that are compared with each other, with which of two comes first in each block.
struct Step {
    /// Their places in the list of points.
    members: Vec<usize>,
    /// Whether side B comes first, block by block.
    b_first: Vec<bool>,
    /// Whether the later backend comes first, block by block.
    later_backend_first: Vec<bool>,
}

/// The steps of which several points are measured.
fn steps(points: &[Point], blocks: u32, random: &mut StdRng) -> Vec<Step> {
    let mut members: BTreeMap<_, Vec<usize>> = BTreeMap::new();
    for (place, point) in points.iter().enumerate() {
        members.entry((point.tiles, &point.vary)).or_default().push(place);
    }
    let compared = members.into_values().filter(|members| members.len() > 1);
    compared
        .map(|members| Step {
            members,
            b_first: balanced(blocks, random),
            later_backend_first: balanced(blocks, random),
        })
        .collect()
}

/// As many of yes as of no, give or take one, in random order.
fn balanced(count: u32, random: &mut StdRng) -> Vec<bool> {
    let mut alternating: Vec<bool> = (0..count).map(|place| place % 2 == 0).collect();
    // Which of the two is the odd one is drawn as well.
    let mut flip = [false, true];
    flip.shuffle(random);
    alternating.iter_mut().for_each(|first| *first ^= flip[0]);
    alternating.shuffle(random);
    alternating
}

impl Step {
    /// Puts the members into the order of this block, at the places that chance gave them.
    fn arrange(&self, order: &mut [usize], points: &[Point], block: u32) {
        let places: Vec<usize> = (0..order.len()).filter(|&at| self.members.contains(&order[at])).collect();
        let at = block as usize - 1;
        let (b_first, later_first) = (self.b_first[at], self.later_backend_first[at]);
        let rank = |&member: &usize| {
            let point = &points[member];
            let side = point.side.map_or(0, |side| side as u8);
            let backend = point.backend as u8;
            (
                if b_first { u8::MAX - side } else { side },
                if later_first { u8::MAX - backend } else { backend },
            )
        };
        let mut members = self.members.clone();
        members.sort_by_key(rank);
        for (place, member) in places.into_iter().zip(members) {
            order[place] = member;
        }
    }
}
