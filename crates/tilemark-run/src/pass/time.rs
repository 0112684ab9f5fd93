//! How long the passes of a run take, beside what was expected of them, and what is left.

use crate::progress::Progress;
use std::time::{Duration, Instant};

/// What is left of a run when a pass begins, as it is expected.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct TimeLeft {
    /// The pass itself.
    pub(crate) pass: Duration,
    /// What probably follows it.
    pub(crate) after: Duration,
    /// What follows it at most, where that is known and may be more.
    pub(crate) at_most_after: Option<Duration>,
    /// How long after its beginning the run ends at the latest, whatever is left.
    pub(crate) end: Option<Duration>,
}

/// The time of a run up to now.
pub(crate) struct RunTime {
    /// When its first pass began.
    began: Instant,
    /// Seconds of passes that are behind, as they were expected.
    expected_done: f64,
    /// Time spent on templates and on waiting for a quiet host. It says nothing of how long passes take.
    pub(crate) on_templates: Duration,
    /// What was left when the pass that is under way began.
    left: TimeLeft,
    /// Since the first pass began, until that one did.
    pass_began: Duration,
}

impl RunTime {
    /// Of a run that begins now.
    pub(crate) fn from_now() -> Self {
        Self {
            began: Instant::now(),
            expected_done: 0.0,
            on_templates: Duration::ZERO,
            left: TimeLeft::default(),
            pass_began: Duration::ZERO,
        }
    }

    /// A pass begins, with this left.
    pub(crate) fn begins(&mut self, left: TimeLeft) {
        (self.left, self.pass_began) = (left, self.elapsed());
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

    /// How far a run is: what is to come takes as much longer or shorter as what is behind.
    pub(crate) fn progress(&self, doing: String) -> Progress {
        self.left.progress(doing, self.elapsed(), self.pass_began, self.pace())
    }
}

impl TimeLeft {
    fn progress(&self, doing: String, now: Duration, pass_began: Duration, pace: f64) -> Progress {
        let in_pass = now.saturating_sub(pass_began);
        let of_pass = self.pass.mul_f64(pace).saturating_sub(in_pass);
        let of_time = |left: Duration| match self.end {
            Some(end) => left.min(end.saturating_sub(now)),
            None => left,
        };
        let left = of_time(of_pass + self.after.mul_f64(pace));
        // What can come at most is never less because passes were quick up to now.
        let at_most = self.at_most_after.map(|most| of_pass + most.mul_f64(pace.max(1.0)));
        let at_most = at_most.or(self.end.map(|_| Duration::MAX)).map(of_time).filter(|most| *most > left);
        Progress {
            doing,
            seconds_done: now.as_secs_f64(),
            seconds_expected: (now + left).as_secs_f64(),
            seconds_at_most: at_most.map(|most| (now + most).as_secs_f64()),
        }
    }
}

/// Milliseconds since 1970.
pub(crate) fn unix_ms() -> u64 {
    tilemark_sys::clock::realtime_ns() / 1_000_000
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    /// Seconds that are left and at most left, so many seconds after the run's beginning, in a pass that began after 100 s.
    fn left(left: TimeLeft, now: u64, pace: f64) -> (f64, Option<f64>) {
        let found = left.progress(String::new(), seconds(now), seconds(100), pace);
        let of_now = |all: f64| all - found.seconds_done;
        (of_now(found.seconds_expected), found.seconds_at_most.map(of_now))
    }

    #[test]
    fn the_time_left_after_a_pass_does_not_depend_on_how_long_it_takes() {
        let known = TimeLeft { pass: seconds(10), after: seconds(60), ..TimeLeft::default() };
        assert_eq!(left(known, 100, 1.0), (70.0, None));
        assert_eq!(left(known, 104, 1.0), (66.0, None));
        assert_eq!(left(known, 150, 1.0), (60.0, None), "the pass takes longer than expected");
        assert_eq!(left(known, 100, 2.0), (140.0, None));
        let last = TimeLeft { after: Duration::ZERO, ..known };
        assert_eq!((left(last, 109, 1.0), left(last, 300, 1.0)), ((1.0, None), (0.0, None)));
    }

    #[test]
    fn the_most_that_can_follow_is_no_less_than_what_is_likely_and_no_more_than_the_run_may_take() {
        let known =
            TimeLeft { pass: seconds(10), after: seconds(60), at_most_after: Some(seconds(200)), end: None };
        assert_eq!(left(known, 100, 1.0), (70.0, Some(210.0)));
        assert_eq!(left(known, 100, 0.5), (35.0, Some(205.0)));
        let within = TimeLeft { end: Some(seconds(180)), ..known };
        assert_eq!(left(within, 100, 1.0), (70.0, Some(80.0)));
        assert_eq!(left(within, 150, 1.0), (30.0, None));
        assert_eq!(left(TimeLeft { at_most_after: None, ..within }, 100, 1.0), (70.0, Some(80.0)));
    }
}
