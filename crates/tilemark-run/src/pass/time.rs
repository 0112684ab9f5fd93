//! How long the passes of a run take, beside what was expected of them.

use crate::progress::Progress;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use tilemark_units::Span;

/// The time of a run up to now.
pub(crate) struct RunTime {
    /// When its first pass began.
    began: Instant,
    /// Seconds of passes that are behind, as they were expected.
    expected_done: f64,
    /// Time spent on templates. They are made once, so it says nothing of how long passes take.
    pub(crate) on_templates: Duration,
}

impl RunTime {
    /// Of a run that begins now.
    pub(crate) fn from_now() -> Self {
        Self { began: Instant::now(), expected_done: 0.0, on_templates: Duration::ZERO }
    }

    /// A pass is over that was expected to take so long.
    pub(crate) fn passed(&mut self, expected: Duration) {
        self.expected_done += expected.as_secs_f64();
    }

    /// Since the first pass began.
    pub(crate) fn elapsed(&self) -> Duration {
        self.began.elapsed()
    }

    /// How much longer or shorter than expected all took that is behind: a factor.
    pub(crate) fn pace(&self) -> f64 {
        let took = self.elapsed().saturating_sub(self.on_templates).as_secs_f64();
        if self.expected_done > 0.0 { (took / self.expected_done).clamp(0.3, 3.0) } else { 1.0 }
    }

    /// How far a run is that was expected to take so long: what is to come takes as much longer or shorter as what is behind.
    pub(crate) fn progress(&self, expected: Span, doing: String) -> Progress {
        let seconds_done = self.elapsed().as_secs_f64();
        let left = (expected.as_seconds() - self.expected_done).max(0.0);
        Progress { doing, seconds_done, seconds_expected: seconds_done + left * self.pace() }
    }
}

/// Milliseconds since 1970.
pub(crate) fn unix_ms() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(now.as_millis()).unwrap_or(u64::MAX)
}
