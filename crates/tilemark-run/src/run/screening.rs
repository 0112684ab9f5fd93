//! The second part of a screening: settings that looked real by the design are confirmed, each alone and all that paid together.

use crate::{failure::Failure, pass::world::World, run::pipeline::Pipeline};
use std::time::Duration;
use tilemark_plan::{
    plan::{Pass, Point},
    resolve::passes,
    screening::Screened,
};
use tilemark_record::Event;
use tilemark_statistics::judge::{self, ToConfirm};
use tilemark_units::counted;

impl<W: World> Pipeline<'_, W> {
    /// Confirms what the design found, in blocks of one repeat of each, in random order; where repeats are discarded, at most as often again.
    pub(super) fn confirm(&mut self) -> Result<(), Failure> {
        let Some(screening) = self.plan.screening.clone() else { return Ok(()) };
        let ToConfirm { real, paid } = judge::to_confirm(&self.plan, &self.repeats);
        if real.is_empty() {
            return self.note("no setting seems to have an effect: nothing is confirmed".to_owned());
        }
        if self.stop.is_requested() || screening.pairs == 0 {
            return Ok(());
        }
        self.note(format!(
            "{} to have an effect, and {} confirmed in {}: {}",
            if real.len() == 1 {
                "1 setting looks".to_owned()
            } else {
                format!("{} settings look", real.len())
            },
            if real.len() == 1 { "is" } else { "are" },
            counted(screening.pairs, "pair"),
            real.join(", ")
        ))?;
        let mut points = Vec::new();
        for (screened, host) in screening.confirming(&real, &paid) {
            points.push(self.add_to_confirm(screened, host, screening.pairs)?);
        }
        let planned = self.blocks_to_confirm(&points);
        let blocks: Vec<&[Pass]> = planned.chunk_by(|one, next| one.block == next.block).collect();
        let points: Vec<&Point> = points.iter().collect();
        for done in 0..2 * blocks.len() {
            let is_settled = judge::blocks_settled(&points, &self.repeats) as usize >= blocks.len();
            let block = blocks[done % blocks.len()];
            if is_settled || self.stop.is_requested() || !self.time_allows_block(block) {
                break;
            }
            let later: Duration = blocks.iter().skip(done + 1).map(|block| self.time_of_passes(block)).sum();
            let number = self.next_block(&block.iter().map(|pass| pass.point).collect::<Vec<_>>());
            self.further_block(block, number, later)?;
        }
        Ok(())
    }

    fn add_to_confirm(
        &mut self,
        screened: Screened,
        host: tilemark_plan::host_settings::HostSettings,
        pairs: u32,
    ) -> Result<Point, Failure> {
        let point = self.plan.point_to_confirm(self.plan.points.len(), screened, host, pairs);
        self.event(Event::PointAdded { point: Box::new(point.clone()) })?;
        self.plan.points.push(point.clone());
        Ok(point)
    }

    fn blocks_to_confirm(&self, points: &[Point]) -> Vec<Pass> {
        passes(points, self.plan.seed)
    }
}
