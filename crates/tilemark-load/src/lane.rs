//! One worker's part of one stream: who may be sent when. It knows neither sockets nor clocks.

use crate::{sample::NO_LATENESS, schedule::Schedule};
use rand_chacha::{ChaCha8Rng, rand_core::Rng};
use std::collections::VecDeque;

/// A request that is to be sent now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Due {
    /// When its user wanted it, in absolute nanoseconds. Latency counts from here.
    pub(crate) intended: u64,
    /// How long our sender held it up, in nanoseconds, or [`NO_LATENESS`]. Waiting for a free connection is
    /// not in it: that is the server's doing, and in the latency.
    pub(crate) lateness: u64,
}

/// A request that waits for a free connection.
#[derive(Debug, Clone, Copy)]
struct Waiting {
    intended: u64,
    taken_up_late: u64,
}

/// One worker's part of one stream.
#[derive(Debug)]
pub(crate) struct Lane {
    /// Place of the stream in the job.
    pub(crate) stream: u32,
    /// `None`: closed loop.
    schedule: Option<Part>,
    waiting: VecDeque<Waiting>,
    idle: VecDeque<u32>,
    /// Draws the connection that takes the next request; `None`: the one that has rested longest.
    random: Option<ChaCha8Rng>,
}

/// Every so manieth time of a schedule: a stream that several workers share has one schedule.
#[derive(Debug)]
pub(crate) struct Part {
    schedule: Schedule,
    skip_first: usize,
    parts: usize,
}

impl Part {
    pub(crate) fn new(schedule: Schedule, index: usize, parts: usize) -> Self {
        Self { schedule, skip_first: index, parts }
    }
    fn next(&mut self) -> u64 {
        let skip = std::mem::replace(&mut self.skip_first, self.parts - 1);
        self.schedule.nth(skip).expect("a schedule has no end")
    }
}

impl Lane {
    pub(crate) fn new(
        stream: u32,
        schedule: Option<Part>,
        connections: usize,
        random: Option<ChaCha8Rng>,
    ) -> Self {
        Self {
            stream,
            schedule,
            waiting: VecDeque::with_capacity(1024),
            idle: VecDeque::with_capacity(connections),
            random,
        }
    }
    /// The next intended time, in nanoseconds from the start of the schedule. `None`: closed loop.
    pub(crate) fn next_intended(&mut self) -> Option<u64> {
        self.schedule.as_mut().map(Part::next)
    }
    pub(crate) fn is_closed_loop(&self) -> bool {
        self.schedule.is_none()
    }
    /// A request's intended time has come, and our sender got to it at `now`. A connection: send on it.
    /// `None`: all are busy, and it waits.
    pub(crate) fn take_up(&mut self, intended: u64, now: u64) -> Option<u32> {
        let connection = self.take_idle();
        if connection.is_none() {
            self.waiting.push_back(Waiting { intended, taken_up_late: now - intended });
        }
        connection
    }
    /// A connection is free again. We saw that at `seen` and can send at `now`. Gives the request that has
    /// waited longest; if none waits, the connection rests.
    pub(crate) fn freed(&mut self, connection: u32, seen: u64, now: u64) -> Option<Due> {
        let Some(first) = self.waiting.pop_front() else {
            self.idle.push_back(connection);
            return None;
        };
        let lateness = first.taken_up_late + now.saturating_sub(seen);
        Some(Due { intended: first.intended, lateness })
    }
    /// Takes a resting connection.
    pub(crate) fn take_idle(&mut self) -> Option<u32> {
        match &mut self.random {
            // Far fewer than 2^32: the remainder's bias is nothing.
            Some(random) if !self.idle.is_empty() => {
                self.idle.swap_remove_back((random.next_u64() % self.idle.len() as u64) as usize)
            }
            _ => self.idle.pop_front(),
        }
    }
    /// A resting connection broke.
    pub(crate) fn lost(&mut self, connection: u32) {
        self.idle.retain(|idle| *idle != connection);
    }
    pub(crate) fn has_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }
    /// The next request that will never be sent.
    pub(crate) fn give_up(&mut self) -> Option<Due> {
        let first = self.waiting.pop_front()?;
        Some(Due { intended: first.intended, lateness: first.taken_up_late })
    }
}

/// A closed loop's request at `now`.
pub(crate) fn closed_loop_due(now: u64) -> Due {
    Due { intended: now, lateness: NO_LATENESS }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand_chacha::rand_core::SeedableRng;
    use tilemark_plan::{plan::Demand, scenario::Arrival};
    use tilemark_units::{Rate, Span};

    fn lane(connections: u32) -> Lane {
        let mut lane = Lane::new(0, None, connections as usize, None);
        (0..connections).for_each(|connection| assert!(lane.freed(connection, 0, 0).is_none()));
        lane
    }

    #[test]
    fn waiting_for_the_server_is_latency_and_not_lateness() {
        let mut lane = lane(1);
        assert_eq!(lane.take_up(100, 103), Some(0));
        assert_eq!(lane.take_up(200, 205), None);
        // The answer comes long after; we see it at 9,000 and send at 9,002.
        let due = lane.freed(0, 9_000, 9_002).unwrap();
        assert_eq!(due, Due { intended: 200, lateness: 5 + 2 });
    }

    #[test]
    fn nothing_is_skipped_and_the_oldest_goes_first() {
        let mut lane = lane(1);
        assert_eq!(lane.take_up(1, 1), Some(0));
        for intended in 2..1_000 {
            assert_eq!(lane.take_up(intended, intended), None);
        }
        for intended in 2..1_000 {
            assert_eq!(lane.freed(0, 5_000, 5_000).unwrap().intended, intended);
        }
        assert_eq!(lane.freed(0, 5_000, 5_000), None);
    }

    #[test]
    fn connections_take_turns() {
        let mut lane = lane(3);
        let mut used = Vec::new();
        for time in 0..6 {
            let connection = lane.take_up(time, time).unwrap();
            used.push(connection);
            assert!(lane.freed(connection, time, time).is_none());
        }
        assert_eq!(used, [0, 1, 2, 0, 1, 2]);
    }

    #[test]
    fn drawn_connections_pause_as_independent_users_do() {
        let random = Some(ChaCha8Rng::seed_from_u64(3));
        let mut lane = Lane::new(0, None, 10, random);
        (0..10).for_each(|connection| assert!(lane.freed(connection, 0, 0).is_none()));
        let (mut last, mut gaps) = ([0_u64; 10], Vec::new());
        for time in 1..=20_000 {
            let connection = lane.take_up(time, time).unwrap() as usize;
            gaps.push(time - std::mem::replace(&mut last[connection], time));
            assert!(lane.freed(connection as u32, time, time).is_none());
        }
        // Geometric with p = 0.1: 0.9^10 = 34.9 % are longer than 10, standard error 0.34 %. In turn, none were.
        let long = gaps.iter().filter(|gap| **gap > 10).count() as f64 / gaps.len() as f64;
        assert!((0.33..0.37).contains(&long), "{long}");
    }

    #[test]
    fn parts_of_a_stream_share_its_schedule() {
        let demand = Demand::Open {
            rate: Rate::per_second(1000.0).unwrap(),
            arrival: Arrival::Poisson,
            burst_every: Span::from_seconds(1),
            burst_length: Span::from_seconds(1),
            surge: None,
        };
        let schedule = Schedule::new(&demand, 5, 0).unwrap().unwrap();
        let whole: Vec<u64> = schedule.clone().take(300).collect();
        let mut parts: Vec<u64> = Vec::new();
        for index in 0..3 {
            let mut part = Part::new(schedule.clone(), index, 3);
            parts.extend((0..100).map(|_| part.next()));
        }
        parts.sort_unstable();
        assert_eq!(parts, whole);
    }
}
