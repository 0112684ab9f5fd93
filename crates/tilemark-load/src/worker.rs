//! One sender: a thread with an epoll, its lanes and their connections. The hot path.
//!
//! ```text
//! connect all -> tell Ready -> wait for the start -> drive until the schedule is over and all is answered
//!                                                    (or the drain limit) -> give up the rest -> tell Ended
//! ```

use crate::{
    LoadError, Stop,
    account::ERRORS_KEPT,
    clock::{self, SECOND_NS},
    connection::{Connection, Doing},
    conversation::{Answer, Progress, Verdict},
    lane::{Due, Lane, closed_loop_due},
    sample::{Ended, LastAnswer, Message, SAMPLES_PER_CHUNK, Sample},
    sender::{Scheduling, prepare_thread},
};
use rustix::{
    event::{
        Timespec,
        epoll::{self, CreateFlags, Event, EventData, EventFlags},
    },
    io::Errno,
    net::RecvFlags,
};
use std::{
    cmp::Reverse,
    collections::BinaryHeap,
    os::fd::OwnedFd,
    sync::{
        atomic::{AtomicU64, Ordering},
        mpsc,
    },
    time::Duration,
};

/// Bytes read at once: fits the second-level cache; a longer body takes several reads.
const RECEIVE_BYTES: usize = 64 * 1024;
/// Events taken at once.
const EVENTS_AT_ONCE: usize = 128;
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
    last_answer_ns: u64,
    errors: usize,
}

/// A moment and whom it concerns, soonest first.
type Agenda = BinaryHeap<Reverse<(u64, usize)>>;

/// One sender.
pub(crate) struct Worker<'a> {
    lanes: Vec<Lane>,
    tallies: Vec<Tally>,
    connections: Vec<Connection>,
    timing: Timing,
    thread: Thread,
    budget: &'a AtomicU64,
    /// Next intended time of each open loop that still has one.
    due: Agenda,
    /// When each broken connection is made anew.
    retries: Agenda,
    /// Requests under way.
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
    samples: Vec<Sample>,
}

impl<'a> Worker<'a> {
    pub(crate) fn new(
        lanes: Vec<Lane>,
        connections: Vec<Connection>,
        timing: Timing,
        thread: Thread,
        budget: &'a AtomicU64,
    ) -> Self {
        Self {
            tallies: vec![Tally::default(); lanes.len()],
            due: BinaryHeap::with_capacity(lanes.len()),
            retries: BinaryHeap::with_capacity(connections.len()),
            lanes,
            connections,
            timing,
            thread,
            budget,
            asking: 0,
            origin: 0,
            end: u64::MAX,
            next_tick: u64::MAX,
            seen: 0,
            cpu_at_tick: 0,
            cpu_at_start: 0,
            is_started: false,
            samples: Vec::with_capacity(SAMPLES_PER_CHUNK),
        }
    }

    /// The thread's whole life.
    pub(crate) fn work(&mut self, stop: &Stop, links: Links) {
        if let Err(error) = self.work_until_done(stop, &links) {
            // Nobody listens any more: then the load has failed already.
            let _ = links.tell.send(Message::Lost(error));
        }
    }

    fn work_until_done(&mut self, stop: &Stop, links: &Links) -> Result<(), LoadError> {
        let got = prepare_thread(self.thread.processor, self.thread.scheduling);
        let epoll = epoll::create(CreateFlags::CLOEXEC)?;
        epoll::add(&epoll, stop.descriptor(), EventData::new_u64(STOP_TOKEN), EventFlags::IN)?;
        let mut buffers = Buffers::new();
        self.connect_all(&epoll, links, &mut buffers, stop)?;
        let _ = links.tell.send(Message::Ready(got));
        let Ok(origin) = links.wait.recv() else { return Ok(()) };
        self.start(origin, &epoll, links)?;
        self.drive(&epoll, links, &mut buffers, stop)?;
        self.give_up_the_rest(links);
        self.tell_end(links);
        Ok(())
    }

    /// Connects all, and waits until all stand.
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
            let now = clock::now();
            if now >= limit || stop.is_asked() {
                return Err(LoadError::Unreachable {
                    stream: missing.stream_id,
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
                self.handle(event, epoll, links, &mut buffers.received);
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
    fn drive(
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
                let now = self.handle(event, epoll, links, &mut buffers.received);
                // A due request does not wait for the rest of the events.
                self.take_up_due(now, epoll, links);
            }
        }
    }

    fn next_wake(&self, limit: u64, is_schedule_over: bool) -> u64 {
        let soonest = |agenda: &Agenda| agenda.peek().map_or(u64::MAX, |Reverse((time, _))| *time);
        let end = if is_schedule_over { limit } else { self.end };
        soonest(&self.due).min(soonest(&self.retries)).min(self.next_tick).min(end)
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
            if !self.is_within_budget(now) {
                return;
            }
            self.note_next_due(lane);
            self.count_offered(lane, intended, links);
            if let Some(place) = self.lanes[lane].take_up(intended, now) {
                // Read again: the request before may have taken a while to send.
                now = clock::now();
                self.ask(place as usize, Due { intended, lateness: now - intended }, now, epoll, links);
            }
        }
    }

    /// Takes one request from the budget of all workers. At its end the schedule ends.
    fn is_within_budget(&mut self, now: u64) -> bool {
        // Without a limit the budget lasts for centuries: no need to touch what other workers touch.
        if self.budget.load(Ordering::Relaxed) > u64::MAX / 2 {
            return true;
        }
        let take = |left: u64| left.checked_sub(1);
        let is_left = self.budget.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take).is_ok();
        if !is_left {
            self.end_schedule(now);
        }
        is_left
    }

    fn end_schedule(&mut self, now: u64) {
        self.end = self.end.min(now);
        self.due.clear();
    }

    /// The second of the measurement to which `intended` belongs; `None` in the warm-up.
    fn second_of(&self, intended: u64) -> Option<u32> {
        let start = self.origin + self.timing.warmup_ns;
        let into = intended.checked_sub(start)?;
        Some((into / SECOND_NS) as u32)
    }

    fn count_offered(&mut self, lane: usize, intended: u64, links: &Links) {
        if let Some(second) = self.second_of(intended) {
            self.tell_offered_before(lane, second, links);
            self.tallies[lane].offered += 1;
        }
    }

    /// Tells the counts of all seconds of a lane before `second`: nothing more will be intended in them.
    fn tell_offered_before(&mut self, lane: usize, second: u32, links: &Links) {
        let stream = self.lanes[lane].stream;
        let tally = &mut self.tallies[lane];
        while tally.second < second {
            let count = std::mem::take(&mut tally.offered);
            let _ = links.tell.send(Message::Offered { stream, second: tally.second, count });
            tally.second += 1;
        }
    }

    /// Once a second, at its end: what was offered, processor time, samples.
    fn tick(&mut self, now: u64, links: &Links) {
        let cpu = clock::thread_cpu();
        let second = self.second_of(now).expect("ticks begin with the measurement");
        let ended = self.second_of(self.next_tick).expect("ticks begin with the measurement");
        if self.cpu_at_start == 0 {
            self.cpu_at_start = cpu;
        } else if self.next_tick <= self.end {
            // A worker that was held up for seconds tells their time as one.
            let cpu_ns = cpu - self.cpu_at_tick;
            let _ = links.tell.send(Message::Used { second: ended - 1, cpu_ns });
        }
        self.cpu_at_tick = cpu;
        let last = self.seconds_of_measurement();
        for lane in 0..self.lanes.len() {
            self.tell_offered_before(lane, second.min(last), links);
        }
        self.hand_over(links);
        self.next_tick += SECOND_NS;
    }

    /// How many seconds, the last one perhaps cut, the measurement has.
    fn seconds_of_measurement(&self) -> u32 {
        let start = self.origin + self.timing.warmup_ns;
        self.end.saturating_sub(start).div_ceil(SECOND_NS) as u32
    }

    /// Gives the samples to the account.
    fn hand_over(&mut self, links: &Links) {
        if self.samples.is_empty() {
            return;
        }
        let empty = links.recycled.try_recv().unwrap_or_else(|_| Vec::with_capacity(SAMPLES_PER_CHUNK));
        let full = std::mem::replace(&mut self.samples, empty);
        let _ = links.tell.send(Message::Samples(full));
    }

    /// Makes broken connections anew whose pause is over.
    fn retry(&mut self, now: u64, epoll: &OwnedFd, links: &Links) {
        while let Some(Reverse((time, place))) = self.retries.peek().copied() {
            if time > now {
                return;
            }
            self.retries.pop();
            if let Err(errno) = self.connections[place].connect(epoll, place as u64) {
                self.broke(place, now, Verdict::Failed, &|| format!("connecting: {errno}"), links);
            }
        }
    }

    /// Works on one event. The time after it.
    fn handle(&mut self, event: Event, epoll: &OwnedFd, links: &Links, buffer: &mut [u8]) -> u64 {
        let token = event.data.u64();
        if token == STOP_TOKEN {
            return self.seen;
        }
        let place = token as usize;
        let connection = &mut self.connections[place];
        if connection.doing == Doing::Down {
            return self.seen;
        }
        if connection.doing == Doing::Connecting {
            match connection.connect_result() {
                Ok(()) => self.greet(place, epoll, links),
                Err(errno) => {
                    let now = clock::now();
                    self.broke(place, now, Verdict::Failed, &|| format!("connecting: {errno}"), links);
                }
            }
            return clock::now();
        }
        let flags = event.flags;
        if flags.contains(EventFlags::OUT)
            && let Err(errno) = connection.flush(epoll, token)
        {
            let now = clock::now();
            self.broke(place, now, Verdict::Failed, &|| format!("sending: {errno}"), links);
            return now;
        }
        if flags.intersects(EventFlags::IN | EventFlags::HUP | EventFlags::ERR) {
            return self.receive(place, epoll, links, buffer);
        }
        clock::now()
    }

    /// The connection stands: the conversation may greet.
    fn greet(&mut self, place: usize, epoll: &OwnedFd, links: &Links) {
        let connection = &mut self.connections[place];
        connection.doing = Doing::Greeting;
        connection.reason = None;
        let progress = connection.conversation.connected(&mut connection.out);
        // Also takes the socket out of waiting to write.
        if let Err(errno) = connection.flush(epoll, place as u64) {
            let now = clock::now();
            self.broke(place, now, Verdict::Failed, &|| format!("sending: {errno}"), links);
            return;
        }
        if progress == Progress::Ready {
            self.connection_is_free(place, epoll, links);
        }
    }

    /// Reads what came. The time after it.
    fn receive(&mut self, place: usize, epoll: &OwnedFd, links: &Links, buffer: &mut [u8]) -> u64 {
        loop {
            let connection = &mut self.connections[place];
            let Some(socket) = &connection.socket else { return self.seen };
            let count = match rustix::net::recv(socket, &mut *buffer, RecvFlags::empty()) {
                Ok((count, _)) => count,
                Err(Errno::AGAIN) => return clock::now(),
                Err(Errno::INTR) => continue,
                Err(errno) => {
                    let now = clock::now();
                    self.broke(place, now, Verdict::Failed, &|| format!("receiving: {errno}"), links);
                    return now;
                }
            };
            let now = clock::now();
            if count == 0 {
                self.closed_by_peer(place, now, links);
                return now;
            }
            let progress = connection.conversation.received(&buffer[..count], &mut connection.out);
            if !connection.out.is_empty()
                && let Err(errno) = connection.flush(epoll, place as u64)
            {
                self.broke(place, now, Verdict::Failed, &|| format!("sending: {errno}"), links);
                return now;
            }
            match progress {
                Progress::More if count == buffer.len() => {}
                Progress::More => return now,
                other => {
                    self.progressed(place, other, now, epoll, links);
                    return now;
                }
            }
        }
    }

    fn progressed(&mut self, place: usize, progress: Progress, now: u64, epoll: &OwnedFd, links: &Links) {
        let doing = self.connections[place].doing;
        match (progress, doing) {
            (Progress::More, _) => {}
            (Progress::Ready, Doing::Greeting) => self.connection_is_free(place, epoll, links),
            (Progress::Answered(answer), Doing::Asking(due)) => {
                self.answered(place, due, answer, now, links);
                self.connection_is_free(place, epoll, links);
            }
            (Progress::Last(answer), Doing::Asking(due)) => {
                self.answered(place, due, answer, now, links);
                self.connections[place].close();
                self.retries.push(Reverse((now, place)));
            }
            (Progress::Broken(verdict), Doing::Asking(_)) => {
                let said = self.connections[place].conversation.explain();
                self.broke(place, now, verdict, &|| said.clone(), links);
            }
            (Progress::Broken(_) | Progress::Ready | Progress::Answered(_) | Progress::Last(_), _) => {
                let why = || "the peer spoke unasked, or refused the connection".to_owned();
                self.broke(place, now, Verdict::Failed, &why, links);
            }
        }
    }

    /// A request was answered, rightly or not.
    fn answered(&mut self, place: usize, due: Due, answer: Answer, now: u64, links: &Links) {
        self.asking -= 1;
        let connection = &mut self.connections[place];
        connection.doing = Doing::Resting;
        connection.proved_good();
        let lane = connection.lane;
        if answer.verdict != Verdict::Right {
            self.tell_trouble(place, None, links);
        } else if due.intended >= self.origin + self.timing.warmup_ns {
            self.tallies[lane].last_answer_ns = now - self.origin - self.timing.warmup_ns;
        }
        self.note(lane, due, now, answer, links);
    }

    /// Notes how a request of the measurement ended.
    fn note(&mut self, lane: usize, due: Due, now: u64, answer: Answer, links: &Links) {
        let Some(second) = self.second_of(due.intended) else { return };
        let latency = now.saturating_sub(due.intended);
        let stream = self.lanes[lane].stream;
        let Answer { verdict, body_bytes } = answer;
        self.samples.push(Sample { stream, second, latency, lateness: due.lateness, body_bytes, verdict });
        if self.samples.len() == SAMPLES_PER_CHUNK {
            self.hand_over(links);
        }
    }

    /// A connection can take a request: the one that waited longest, or in a closed loop the next.
    fn connection_is_free(&mut self, place: usize, epoll: &OwnedFd, links: &Links) {
        let now = clock::now();
        self.connections[place].doing = Doing::Resting;
        let lane = self.connections[place].lane;
        let may_ask = self.is_started && self.lanes[lane].is_closed_loop() && now < self.end;
        if may_ask && self.is_within_budget(now) {
            self.count_offered(lane, now, links);
            self.ask(place, closed_loop_due(now), now, epoll, links);
        } else if let Some(due) = self.lanes[lane].freed(place as u32, self.seen, now) {
            self.ask(place, due, now, epoll, links);
        }
    }

    /// Sends a request.
    fn ask(&mut self, place: usize, due: Due, now: u64, epoll: &OwnedFd, links: &Links) {
        self.asking += 1;
        let connection = &mut self.connections[place];
        connection.doing = Doing::Asking(due);
        connection.conversation.request(&mut connection.out);
        if let Err(errno) = connection.flush(epoll, place as u64) {
            self.broke(place, now, Verdict::Failed, &|| format!("sending: {errno}"), links);
        }
    }

    /// The peer closed: in order when nothing was asked, a failure when something was.
    fn closed_by_peer(&mut self, place: usize, now: u64, links: &Links) {
        let why = || "the peer closed the connection before the answer was whole".to_owned();
        self.broke(place, now, Verdict::Failed, &why, links);
    }

    /// A connection is no more. Its request, if any, ends like `verdict`; it is made anew after a pause.
    fn broke(&mut self, place: usize, now: u64, verdict: Verdict, why: &dyn Fn() -> String, links: &Links) {
        let connection = &mut self.connections[place];
        let lane = connection.lane;
        match connection.doing {
            Doing::Asking(due) => {
                self.asking -= 1;
                self.tell_trouble(place, Some(why), links);
                self.note(lane, due, now, Answer { verdict, body_bytes: 0 }, links);
            }
            Doing::Resting => self.lanes[lane].lost(place as u32),
            Doing::Down | Doing::Connecting | Doing::Greeting => {
                connection.reason = Some(why());
                if self.is_started {
                    self.tell_trouble(place, Some(why), links);
                }
            }
        }
        let connection = &mut self.connections[place];
        connection.close();
        let pause = connection.next_backoff();
        self.retries.push(Reverse((now + pause, place)));
    }

    /// Tells an error in words while there are few. Without `why` the conversation says it.
    fn tell_trouble(&mut self, place: usize, why: Option<&dyn Fn() -> String>, links: &Links) {
        let connection = &self.connections[place];
        let tally = &mut self.tallies[connection.lane];
        if tally.errors >= ERRORS_KEPT {
            return;
        }
        tally.errors += 1;
        let text = why.map_or_else(|| connection.conversation.explain(), |why| why());
        let stream = self.lanes[connection.lane].stream;
        let _ = links.tell.send(Message::Trouble { stream, text });
    }

    /// What was neither answered nor sent by now failed; it stands in the histogram with its wait so far.
    fn give_up_the_rest(&mut self, links: &Links) {
        let now = clock::now();
        let unanswered = Answer { verdict: Verdict::Failed, body_bytes: 0 };
        let why = || "no answer until the end of the load".to_owned();
        for place in 0..self.connections.len() {
            if let Doing::Asking(due) = self.connections[place].doing {
                self.tell_trouble(place, Some(&why), links);
                self.note(self.connections[place].lane, due, now, unanswered, links);
            }
        }
        for lane in 0..self.lanes.len() {
            while let Some(due) = self.lanes[lane].give_up() {
                self.note(lane, due, now, unanswered, links);
            }
        }
    }

    fn tell_end(&mut self, links: &Links) {
        let cpu = clock::thread_cpu();
        let start = self.origin + self.timing.warmup_ns;
        let seconds = self.seconds_of_measurement();
        for lane in 0..self.lanes.len() {
            self.tell_offered_before(lane, seconds, links);
        }
        self.hand_over(links);
        let last =
            |(lane, tally): (&Lane, &Tally)| LastAnswer { stream: lane.stream, at_ns: tally.last_answer_ns };
        let _ = links.tell.send(Message::Ended(Ended {
            schedule_ns: self.end.saturating_sub(start),
            last_answers: self.lanes.iter().zip(&self.tallies).map(last).collect(),
            cpu_ns: if self.cpu_at_start == 0 { 0 } else { cpu - self.cpu_at_start },
        }));
    }
}

/// What every wait and every read uses again.
struct Buffers {
    events: Vec<Event>,
    received: Vec<u8>,
}

impl Buffers {
    fn new() -> Self {
        Self { events: Vec::with_capacity(EVENTS_AT_ONCE), received: vec![0; RECEIVE_BYTES] }
    }

    /// Sleeps until something happens or the absolute time `wake` comes.
    fn wait(&mut self, epoll: &OwnedFd, wake: u64) -> Result<(), LoadError> {
        self.events.clear();
        let left = wake.saturating_sub(clock::now());
        // At most an hour at once: an absolute end far away must not overflow the kernel's clock.
        let left = left.min(3600 * SECOND_NS);
        let timeout = Timespec { tv_sec: (left / SECOND_NS) as i64, tv_nsec: (left % SECOND_NS) as i64 };
        match epoll::wait(epoll, rustix::buffer::spare_capacity(&mut self.events), Some(&timeout)) {
            Ok(_) | Err(Errno::INTR) => Ok(()),
            Err(errno) => Err(LoadError::Kernel { doing: "wait for its sockets", source: errno.into() }),
        }
    }
}
