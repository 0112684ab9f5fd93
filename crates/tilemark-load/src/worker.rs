//! One sender: a thread with an epoll, its lanes and their connections. The hot path.
//!
//! ```text
//! connect all -> send Ready -> wait for the start -> drive until the schedule is over and all is answered
//!                                                    (or the drain limit) -> give up the rest -> send Ended
//! ```

mod buffers;
mod exchange;
mod reporting;

use crate::{
    LoadError, Stop, clock,
    clock::SECOND_NS,
    connection::{Connection, Doing},
    conversation::{Answer, Verdict},
    lane::{Due, Lane},
    sample::{Message, SAMPLES_PER_CHUNK, Sample},
    sender::{Scheduling, prepare_thread},
};
use buffers::Buffers;
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use std::{cmp::Reverse, collections::BinaryHeap, os::fd::OwnedFd, sync::mpsc, time::Duration};

/// The token of the stop's descriptor; connections have their place.
const STOP_TOKEN: u64 = u64::MAX;

/// Lengths in nanoseconds.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Timing {
    pub(crate) warmup_ns: u64,
    pub(crate) length_ns: u64,
    pub(crate) connect_ns: u64,
    pub(crate) drain_ns: u64,
}

/// Where and how the worker's thread runs.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Thread {
    pub(crate) processor: Option<u32>,
    pub(crate) scheduling: Scheduling,
}

/// The worker's ends of its channels.
pub(crate) struct Links {
    pub(crate) tell: mpsc::Sender<Message>,
    pub(crate) wait: mpsc::Receiver<u64>,
    pub(crate) recycled: mpsc::Receiver<Vec<Sample>>,
}

/// What is noted of a lane for the account.
#[derive(Debug, Clone, Copy, Default)]
struct Tally {
    second: u32,
    offered: u64,
    /// Right answers that came within the measurement's time.
    in_time: u64,
    errors: usize,
}

/// A moment and whom it concerns, soonest first.
type Agenda = BinaryHeap<Reverse<(u64, usize)>>;

/// One sender.
pub(crate) struct Worker {
    lanes: Vec<Lane>,
    tallies: Vec<Tally>,
    connections: Vec<Connection>,
    timing: Timing,
    thread: Thread,
    /// Next intended time of each open loop that still has one.
    due: Agenda,
    /// When each broken connection is made again.
    retries: Agenda,
    /// When each paused wire, by its token, is read again.
    pauses: Agenda,
    /// Requests in flight.
    asking: usize,
    /// Absolute times.
    origin: u64,
    end: u64,
    next_tick: u64,
    /// When the events that are worked on were seen.
    seen: u64,
    cpu_at_tick: u64,
    cpu_at_start: u64,
    is_started: bool,
    /// Why a server will never be what the load is for, with its address.
    is_wrong: Option<(std::net::SocketAddr, String)>,
    samples: Vec<Sample>,
}

impl Worker {
    pub(crate) fn new(
        lanes: Vec<Lane>,
        connections: Vec<Connection>,
        timing: Timing,
        thread: Thread,
    ) -> Self {
        Self {
            tallies: vec![Tally::default(); lanes.len()],
            due: BinaryHeap::with_capacity(lanes.len()),
            retries: BinaryHeap::with_capacity(connections.len()),
            pauses: BinaryHeap::new(),
            lanes,
            connections,
            timing,
            thread,
            asking: 0,
            origin: 0,
            end: u64::MAX,
            next_tick: u64::MAX,
            seen: 0,
            cpu_at_tick: 0,
            cpu_at_start: 0,
            is_started: false,
            is_wrong: None,
            samples: Vec::with_capacity(SAMPLES_PER_CHUNK),
        }
    }

    /// The thread's whole life.
    pub(crate) fn run(&mut self, stop: &Stop, links: Links) {
        if let Err(error) = self.connect_and_run(stop, &links) {
            // Nobody listens any more: then the load has failed already.
            let _ = links.tell.send(Message::Lost(error));
        }
    }

    fn connect_and_run(&mut self, stop: &Stop, links: &Links) -> Result<(), LoadError> {
        let got = prepare_thread(self.thread.processor, self.thread.scheduling);
        let epoll = epoll::create(CreateFlags::CLOEXEC)?;
        epoll::add(&epoll, stop.descriptor(), EventData::new_u64(STOP_TOKEN), EventFlags::IN)?;
        let mut buffers = Buffers::new();
        self.connect_all(&epoll, links, &mut buffers, stop)?;
        let _ = links.tell.send(Message::Ready(got));
        let Ok(origin) = links.wait.recv() else { return Ok(()) };
        self.start(origin, &epoll, links)?;
        self.run_until_end(&epoll, links, &mut buffers, stop)?;
        self.give_up_the_rest(links);
        self.report_end(links);
        Ok(())
    }

    /// Connects all, and waits until all are open.
    fn connect_all(
        &mut self,
        epoll: &OwnedFd,
        links: &Links,
        buffers: &mut Buffers,
        stop: &Stop,
    ) -> Result<(), LoadError> {
        let begin = clock::now();
        let limit = begin.saturating_add(self.timing.connect_ns);
        self.retries.extend((0..self.connections.len()).map(|place| Reverse((begin, place))));
        loop {
            let missing = self.connections.iter().find(|connection| connection.doing != Doing::Resting);
            let Some(missing) = missing else { return Ok(()) };
            if let Some((target, reason)) = self.is_wrong.take() {
                return Err(LoadError::WrongServer { target, reason });
            }
            let now = clock::now();
            if now >= limit || stop.is_asked() {
                return Err(LoadError::Unreachable {
                    target: missing.target,
                    seconds: (now - begin) as f64 / SECOND_NS as f64,
                    reason: missing.reason.clone().unwrap_or_else(|| "no answer".to_owned()),
                });
            }
            self.retry(now, epoll, links);
            let wake = self.retries.peek().map_or(limit, |Reverse((time, _))| limit.min(*time));
            buffers.wait(epoll, wake)?;
            self.seen = clock::now();
            for index in 0..buffers.events.len() {
                let event = buffers.events[index];
                self.handle(event, epoll, links, buffers);
            }
        }
    }

    /// Sets all clocks to a schedule that begins at `origin`.
    fn start(&mut self, origin: u64, epoll: &OwnedFd, links: &Links) -> Result<(), LoadError> {
        self.origin = origin;
        self.end = origin + self.timing.warmup_ns + self.timing.length_ns;
        self.next_tick = origin + self.timing.warmup_ns;
        for lane in 0..self.lanes.len() {
            self.note_next_due(lane);
        }
        let now = clock::now();
        if now < origin {
            let wait = Duration::from_nanos(origin - now);
            std::thread::sleep(wait);
        }
        self.is_started = true;
        self.seen = clock::now();
        for lane in 0..self.lanes.len() {
            while self.lanes[lane].is_closed_loop() {
                let Some(place) = self.lanes[lane].take_idle() else { break };
                self.connection_is_free(place as usize, epoll, links);
            }
        }
        Ok(())
    }

    /// Until the schedule is over and all is answered, or the drain limit.
    fn run_until_end(
        &mut self,
        epoll: &OwnedFd,
        links: &Links,
        buffers: &mut Buffers,
        stop: &Stop,
    ) -> Result<(), LoadError> {
        let mut is_stop_seen = false;
        loop {
            let now = clock::now();
            self.take_up_due(now, epoll, links);
            if now >= self.next_tick {
                self.tick(now, links);
            }
            self.retry(now, epoll, links);
            self.resume(now, epoll, links);
            if !is_stop_seen && stop.is_asked() {
                is_stop_seen = true;
                // It stays readable: without this the epoll would never sleep again.
                epoll::delete(epoll, stop.descriptor())?;
                self.end_schedule(now);
            }
            let is_schedule_over = self.due.is_empty() && now >= self.end;
            let is_all_answered = self.asking == 0 && !self.lanes.iter().any(Lane::has_waiting);
            let limit = self.end.saturating_add(self.timing.drain_ns);
            if is_schedule_over && (is_all_answered || now >= limit) {
                return Ok(());
            }
            let wake = self.next_wake(limit, is_schedule_over);
            buffers.wait(epoll, wake)?;
            self.seen = clock::now();
            for index in 0..buffers.events.len() {
                let event = buffers.events[index];
                let now = self.handle(event, epoll, links, buffers);
                // A due request does not wait for the rest of the events.
                self.take_up_due(now, epoll, links);
            }
        }
    }

    fn next_wake(&self, limit: u64, is_schedule_over: bool) -> u64 {
        let soonest = |agenda: &Agenda| agenda.peek().map_or(u64::MAX, |Reverse((time, _))| *time);
        let end = if is_schedule_over { limit } else { self.end };
        soonest(&self.due).min(soonest(&self.retries)).min(soonest(&self.pauses)).min(self.next_tick).min(end)
    }

    /// Notes when the lane's next request is due; none after the end.
    fn note_next_due(&mut self, lane: usize) {
        if let Some(time) = self.lanes[lane].next_intended() {
            let time = self.origin + time;
            if time < self.end {
                self.due.push(Reverse((time, lane)));
            }
        }
    }

    /// Sends, or queues, every request whose time has come.
    fn take_up_due(&mut self, now: u64, epoll: &OwnedFd, links: &Links) {
        let mut now = now;
        while let Some(Reverse((intended, lane))) = self.due.peek().copied() {
            if intended > now {
                return;
            }
            self.due.pop();
            self.note_next_due(lane);
            self.count_offered(lane, intended, links);
            if let Some(place) = self.lanes[lane].take_up(intended, now) {
                // Read again: the request before may have taken a while to send.
                now = clock::now();
                self.ask(place as usize, Due { intended, lateness: now - intended }, now, epoll, links);
            }
        }
    }

    fn end_schedule(&mut self, now: u64) {
        self.end = self.end.min(now);
        self.due.clear();
    }

    /// Reconnects broken connections whose pause is over.
    fn retry(&mut self, now: u64, epoll: &OwnedFd, links: &Links) {
        while let Some(Reverse((time, place))) = self.retries.peek().copied() {
            if time > now {
                return;
            }
            self.retries.pop();
            if let Err(errno) = self.connections[place].connect(epoll) {
                self.broke(place, now, Verdict::Failed, &|| format!("connecting: {errno}"), links);
            }
        }
    }

    /// What was neither answered nor sent by now failed; it is in the histogram with its wait so far.
    fn give_up_the_rest(&mut self, links: &Links) {
        let now = clock::now();
        let unanswered = Answer { verdict: Verdict::Failed, body_bytes: 0 };
        let why = || "no answer until the end of the load".to_owned();
        for place in 0..self.connections.len() {
            if let Doing::Asking(due) = self.connections[place].doing {
                self.report_trouble(place, Some(&why), links);
                self.note(self.connections[place].lane, due, now, unanswered, links);
            }
        }
        for lane in 0..self.lanes.len() {
            while let Some(due) = self.lanes[lane].give_up() {
                self.note(lane, due, now, unanswered, links);
            }
        }
    }
}
