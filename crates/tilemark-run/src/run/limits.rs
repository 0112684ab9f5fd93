//! Whether the time, the memory and the disk are enough for what comes next.

use crate::{
    failure::{Failure, FailureCode},
    job::resources::{self, DISK_RESERVE},
    pass::world::World,
    run::pipeline::Pipeline,
};
use std::time::Duration;
use tilemark_plan::{
    expect,
    place::{check_point, newly_reserved},
    plan::{Pass, Point},
};
use tilemark_statistics::judge::{CapacitySearch, Known};
use tilemark_units::{Bytes, Span};

impl<W: World> Pipeline<'_, W> {
    /// Whether a block of repeats would end in time.
    pub(super) fn time_allows_block(&self, block: &[Pass]) -> bool {
        self.time_allows_more(block.iter().map(|pass| expect::time_of(&self.plan.points[pass.point])).sum())
    }

    /// Whether what takes so long would end in time.
    pub(super) fn time_allows_more(&self, needed: Duration) -> bool {
        let Some(within) = self.plan.within else { return true };
        let before = expect::time_of_idle_power(&self.plan.host);
        before + self.time.elapsed() + needed.mul_f64(self.time.pace()) <= within.get()
    }

    /// Whether one more repeat of a count would end in time, and leave enough of it to measure both ends of the answer afterwards.
    pub(super) fn time_allows(
        &self,
        like: &Point,
        search: &CapacitySearch,
        known: &Known,
        tiles: u32,
        within: Option<Span>,
    ) -> bool {
        let Some(within) = within else { return true };
        let time = |tiles: u32| expect::time_of(&self.point_with(like, tiles));
        let is_new = known.repeats(tiles) == 0;
        let kept_back: Duration = match search.is_settled() || !is_new {
            true => Duration::ZERO,
            false => search.to_confirm(known, tiles).into_iter().map(time).sum(),
        };
        let needed = (time(tiles) + kept_back).mul_f64(self.time.pace());
        self.time.elapsed() + needed <= within.get()
    }

    /// Stops before memory or disk would fall under what must stay free.
    pub(super) fn fits(&self, point: &Point) -> Result<(), Failure> {
        let remedy = "end other programs, or lower the number of tiles";
        let reserve = expect::memory_reserve(self.plan.host.memory_total);
        let needed = expect::memory_of(point) + newly_reserved(point, &self.plan.host);
        let is_short = |free: &Bytes| free.saturating_sub(needed) < reserve;
        if let Some(free) = self.world.memory_available().filter(is_short) {
            let message = format!(
                "{} tiles need {} of memory, {} is free and {} must stay so",
                point.tiles,
                needed.rounded(),
                free.rounded(),
                reserve.rounded()
            );
            return Err(Failure::new(FailureCode::HostUnfit, message, remedy));
        }
        // A search adds points that were not known before the run.
        if let Some(lack) = check_point(point, &self.plan.host).into_iter().next() {
            return Err(Failure::new(FailureCode::HostUnfit, lack.message, lack.remedy));
        }
        resources::enough_files(std::slice::from_ref(point))?;
        if let Some(free) = self.world.disk_available().filter(|free| *free < DISK_RESERVE) {
            let message = format!("only {} of disk space is left, {DISK_RESERVE} must be", free.rounded());
            return Err(Failure::new(FailureCode::HostUnfit, message, "free some space"));
        }
        Ok(())
    }
}
