//! The second part of measuring roles in pairs: the pairs that look slow are measured in further blocks, with their roles alone.

use crate::{failure::Failure, pass::world::World, run::pipeline::Pipeline};
use std::{collections::BTreeSet, time::Duration};
use tilemark_plan::{
    expect::{time_for_confirming, time_to_confirm},
    plan::{Pass, Point},
    resolve::passes,
};
use tilemark_statistics::judge::{SlowPair, pairs_to_confirm};
use tilemark_units::counted;

impl<W: World> Pipeline<'_, W> {
    /// Measures as many further blocks as are planned, each in random order. None where no pair looks slow, or none can.
    pub(super) fn confirm_pairs(&mut self) -> Result<(), Failure> {
        if self.plan.confirm_blocks == 0 || self.stop.is_requested() {
            return Ok(());
        }
        let slow = match pairs_to_confirm(&self.plan, &self.repeats) {
            Ok(slow) => slow,
            Err(missing) => return self.note(format!("no pair of roles is confirmed: {}", missing.reason)),
        };
        let pairs = self.within_time(slow);
        if pairs.is_empty() {
            return self.note("no slow pair of roles is left to confirm".to_owned());
        }
        let names: Vec<&str> = pairs.iter().map(|pair| pair.name.as_str()).collect();
        let blocks = counted(self.plan.confirm_blocks, "more block");
        self.note(format!("what looks slow is measured in {blocks}: {}", names.join(", ")))?;
        let indexes: BTreeSet<usize> = pairs.into_iter().flat_map(|pair| pair.points).collect();
        let planned = self.blocks_of_pairs(&indexes);
        let blocks: Vec<&[Pass]> = planned.chunk_by(|one, next| one.block == next.block).collect();
        for (done, block) in blocks.iter().enumerate() {
            if self.stop.is_requested() || !self.time_allows_block(block) {
                break;
            }
            let later: Duration = blocks[done + 1..].iter().map(|block| self.time_of_passes(block)).sum();
            // Not the number of a block in which another pair was retried: that was at another time.
            self.further_block(block, self.new_block(), later)?;
        }
        Ok(())
    }

    /// The first pair, and those whose further blocks fit into the time for them too.
    fn within_time(&self, pairs: Vec<SlowPair>) -> Vec<SlowPair> {
        let (mut chosen, mut points) = (Vec::new(), BTreeSet::new());
        for pair in pairs {
            let with: BTreeSet<usize> = points.iter().chain(&pair.points).copied().collect();
            let time = time_to_confirm(&self.plan, with.iter().map(|index| &self.plan.points[*index]));
            if chosen.is_empty() || time <= time_for_confirming(&self.plan) {
                points = with;
                chosen.push(pair);
            }
        }
        chosen
    }

    /// One repeat of each point of a block, under this number. `later` is how long what follows takes.
    pub(super) fn further_block(
        &mut self,
        block: &[Pass],
        number: u32,
        later: Duration,
    ) -> Result<(), Failure> {
        for (place, pass) in block.iter().enumerate() {
            if !self.stop.is_requested() {
                let after = self.time_of_passes(&block[place + 1..]) + later;
                let repeat = self.next_repeat(pass.point);
                self.pass(Pass { block: number, repeat, ..*pass }, after, None)?;
            }
        }
        Ok(())
    }

    fn blocks_of_pairs(&self, indexes: &BTreeSet<usize>) -> Vec<Pass> {
        let mut points: Vec<Point> = indexes.iter().map(|index| self.plan.points[*index].clone()).collect();
        points.iter_mut().for_each(|point| point.measure.repeats = self.plan.confirm_blocks);
        passes(&points, self.plan.seed)
    }
}
