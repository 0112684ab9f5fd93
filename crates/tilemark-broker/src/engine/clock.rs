//! The time of messages: a steady clock while the broker runs, the wall's between two lives of it.

use std::time::{Instant, SystemTime, UNIX_EPOCH};

use crate::queue::NEVER;

#[derive(Debug)]
pub(crate) struct Clock {
    started: Instant,
    /// Milliseconds since 1970 when the broker started.
    wall_at_start_ms: u64,
    now_ms: u64,
}

impl Clock {
    pub(super) fn starting_at(now: Instant) -> Self {
        let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self { started: now, wall_at_start_ms: u64::try_from(wall.as_millis()).unwrap_or(0), now_ms: 0 }
    }

    pub(super) fn set(&mut self, now: Instant) {
        let passed = now.saturating_duration_since(self.started);
        self.now_ms = u64::try_from(passed.as_millis()).unwrap_or(NEVER);
    }

    /// Milliseconds since the broker started.
    #[inline]
    pub(super) const fn now_ms(&self) -> u64 {
        self.now_ms
    }

    /// Milliseconds since 1970.
    pub(super) const fn wall_ms(&self) -> u64 {
        self.wall_at_start_ms + self.now_ms
    }

    /// A point of the wall's time on this clock; what was before the start is the start.
    pub(super) const fn of_wall_ms(&self, wall_ms: u64) -> u64 {
        wall_ms.saturating_sub(self.wall_at_start_ms)
    }

    /// When a number of milliseconds of this clock will have passed.
    pub(super) fn instant_of(&self, ms: u64) -> Instant {
        self.started + std::time::Duration::from_millis(ms)
    }

    #[cfg(test)]
    pub(crate) const fn set_wall_at_start_ms(&mut self, wall_ms: u64) {
        self.wall_at_start_ms = wall_ms;
    }
}
