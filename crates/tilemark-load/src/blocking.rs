//! Blocking operations, for work that has no socket to wait on, such as a disk's. In an open loop each of some threads takes
//! the next intended time, sleeps until then, and does its operation to the end. In a closed loop the next time is now.
//!
//! ```text
//! schedule ──next intended time──> a free thread ──sleeps──> operation ──sample──> account
//!              (no thread free: wait; latency counts on)
//! ```

use crate::{
    LoadError, Stop,
    account::Account,
    clock::{self, SECOND_NS, nanoseconds},
    conversation::Verdict,
    run::{Start, longest_drain},
    sample::{Ended, InTime, NO_LATENESS, Sample},
    schedule::Schedule,
    sender::{Scheduling, prepare_thread},
};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::{
    sync::{Mutex, PoisonError, mpsc},
    thread,
};
use tilemark_agent_protocol::{LOAD_THREAD, LoadEvent, LoadJob, Sender, Stream, StreamTotal};

/// Something that is done again and again, each time to its end.
pub trait Operation: Send {
    /// Does it once and says how it went. It may block.
    fn run_once(&mut self) -> OperationResult;
}

/// How an operation went.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OperationResult {
    /// Whether it was right.
    pub verdict: Verdict,
    /// Bytes that it moved.
    pub bytes: u64,
    /// What went wrong, in words.
    pub trouble: Option<String>,
}

/// Does the `stream` of a job when `start` lets it begin, as many operations at the same time as there are, and reports each second to
/// `events`. Returns its totals; none where it did not begin.
///
/// Latency counts from the intended start. There is no lateness: a thread that wakes late on a busy
/// processor is what the users of that processor feel, since these threads run where the work belongs.
pub fn run_blocking(
    job: &LoadJob,
    stream: &Stream,
    operations: Vec<Box<dyn Operation>>,
    stop: &Stop,
    start: Start<'_>,
    events: &mut dyn FnMut(LoadEvent),
) -> Result<Vec<StreamTotal>, LoadError> {
    run_on(&thread::Builder::new, job, stream, operations, stop, start, events)
}

/// The same on threads of these builders.
fn run_on(
    builder: &dyn Fn() -> thread::Builder,
    job: &LoadJob,
    stream: &Stream,
    operations: Vec<Box<dyn Operation>>,
    stop: &Stop,
    start: Start<'_>,
    events: &mut dyn FnMut(LoadEvent),
) -> Result<Vec<StreamTotal>, LoadError> {
    let schedule = Schedule::new(&stream.demand, stream.seed, stream.id)?;
    if operations.is_empty() {
        return Err(LoadError::Nothing);
    }
    let warmup_ns = nanoseconds(job.warmup.get());
    let length_ns = nanoseconds(job.length.get());
    let threads = operations.len();
    let sender = Sender { workers: threads as u32, real_time: false, timer_slack_ns: 1, pinned: false };
    let mut account = Account::new([(stream.id, 1)].into_iter(), 0);
    let Some(origin) = start(sender) else { return Ok(Vec::new()) };
    let queue = Mutex::new(Queue::new(schedule, warmup_ns, length_ns));
    let end_ns = warmup_ns + length_ns;
    // As long as a load over the network waits for its last answers.
    let given_up_after_ns = nanoseconds(longest_drain(job));
    let origin_ns = clock::at(origin);
    let line = Line { queue: &queue, origin_ns, warmup_ns, end_ns, given_up_after_ns, stop };
    let last = thread::scope(|scope| {
        let (tell, messages) = mpsc::channel();
        for (index, mut operation) in operations.into_iter().enumerate() {
            let tell = tell.clone();
            let work = move || line.run(&mut *operation, &tell);
            let started = builder().name(format!("{LOAD_THREAD}{index}")).spawn_scoped(scope, work);
            if let Err(source) = started {
                // Those that work already are waited for, and would work to the end of the load.
                stop.ask();
                return Err(LoadError::NoThread(source));
            }
        }
        drop(tell);
        listen(&messages, threads, &mut account, events)
    })?;
    let in_time = vec![InTime { stream: 0, completed: last.in_time }];
    let ended = Ended { schedule_ns: length_ns, in_time, cpu_ns: last.cpu_ns };
    Ok(account.totals(&[ended], last.cpu_ns, events))
}

/// What was done in time, and the processor time of all.
#[derive(Default)]
struct Last {
    in_time: u64,
    cpu_ns: u64,
}

/// Makes events of what the threads report, until all have ended.
fn listen(
    messages: &mpsc::Receiver<Message>,
    mut threads: usize,
    account: &mut Account,
    events: &mut dyn FnMut(LoadEvent),
) -> Result<Last, LoadError> {
    let mut last = Last::default();
    while threads > 0 {
        match messages.recv().map_err(|_| LoadError::SenderLost)? {
            Message::Offered { second, count } => account.offered(0, second, count),
            Message::Sample { sample, trouble } => {
                account.samples(&[sample]);
                trouble.into_iter().for_each(|text| account.trouble(0, text));
                account.close_ready(events);
            }
            Message::Ended { cpu_ns, in_time } => {
                threads -= 1;
                last.cpu_ns += cpu_ns;
                last.in_time += in_time;
            }
        }
    }
    Ok(last)
}

/// What threads and queue report to the account.
enum Message {
    /// So many were intended in a second that is over.
    Offered { second: u32, count: u64 },
    /// One ended.
    Sample { sample: Sample, trouble: Option<String> },
    /// A thread's last word: the processor time of its measured operations, and how many went right within the measurement's time.
    Ended { cpu_ns: u64, in_time: u64 },
}

/// The intended times that nobody has taken yet.
struct Queue {
    /// `None` in a closed loop.
    schedule: Option<Schedule>,
    warmup_ns: u64,
    end_ns: u64,
    second: u32,
    offered: u64,
    is_over: bool,
}

impl Queue {
    fn new(schedule: Option<Schedule>, warmup_ns: u64, length_ns: u64) -> Self {
        let end_ns = warmup_ns + length_ns;
        Self { schedule, warmup_ns, end_ns, second: 0, offered: 0, is_over: false }
    }

    /// The next intended time, from the start of the schedule; `None` after the last. Reports seconds that are over.
    fn next(&mut self, now_ns: u64, tell: &mpsc::Sender<Message>) -> Option<u64> {
        if self.is_over {
            return None;
        }
        let next = match &mut self.schedule {
            Some(schedule) => schedule.next(),
            None => Some(now_ns),
        };
        let intended = next.filter(|time| *time < self.end_ns);
        let until = match intended {
            Some(time) => second_of(time, self.warmup_ns).unwrap_or(0),
            None => (self.end_ns - self.warmup_ns).div_ceil(SECOND_NS) as u32,
        };
        while self.second < until {
            // The account listens until every thread has ended.
            let _ = tell.send(Message::Offered { second: self.second, count: self.offered });
            (self.second, self.offered) = (self.second + 1, 0);
        }
        self.is_over = intended.is_none();
        self.offered += u64::from(intended.is_some_and(|time| time >= self.warmup_ns));
        intended
    }
}

/// The second of the measurement to which an intended time belongs; `None` in the warm-up.
fn second_of(intended_ns: u64, warmup_ns: u64) -> Option<u32> {
    Some((intended_ns.checked_sub(warmup_ns)? / SECOND_NS) as u32)
}

/// An operation that was never begun: its user waited until now.
fn given_up(after_ns: u64) -> OperationResult {
    let seconds = after_ns / SECOND_NS;
    OperationResult {
        verdict: Verdict::Failed,
        bytes: 0,
        trouble: Some(format!("not begun within {seconds} s after the end of the schedule")),
    }
}

/// What every thread knows.
#[derive(Clone, Copy)]
struct Line<'a> {
    queue: &'a Mutex<Queue>,
    origin_ns: u64,
    warmup_ns: u64,
    end_ns: u64,
    given_up_after_ns: u64,
    stop: &'a Stop,
}

impl Line<'_> {
    /// One thread's whole life.
    fn run(&self, operation: &mut dyn Operation, tell: &mpsc::Sender<Message>) {
        prepare_thread(None, Scheduling::Ordinary);
        let (mut cpu_before, mut in_time) = (None, 0);
        while let Some(intended) = self.take(tell) {
            if !self.sleep_until(self.origin_ns + intended) {
                break;
            }
            let second = second_of(intended, self.warmup_ns);
            if second.is_some() && cpu_before.is_none() {
                cpu_before = Some(clock::thread_cpu());
            }
            let performed = if clock::now() < self.origin_ns + self.end_ns + self.given_up_after_ns {
                operation.run_once()
            } else {
                given_up(self.given_up_after_ns)
            };
            let ended = clock::now() - self.origin_ns;
            let is_in_time = ended >= self.warmup_ns && ended < self.end_ns;
            in_time += u64::from(is_in_time && performed.verdict == Verdict::Right);
            if let Some(second) = second {
                let sample = Sample {
                    stream: 0,
                    second,
                    latency: ended.saturating_sub(intended),
                    lateness: NO_LATENESS,
                    body_bytes: performed.bytes,
                    verdict: performed.verdict,
                };
                let _ = tell.send(Message::Sample { sample, trouble: performed.trouble });
            }
        }
        let cpu_ns = cpu_before.map_or(0, |before| clock::thread_cpu() - before);
        let _ = tell.send(Message::Ended { cpu_ns, in_time });
    }

    fn take(&self, tell: &mpsc::Sender<Message>) -> Option<u64> {
        let mut queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
        queue.next(clock::now() - self.origin_ns, tell)
    }

    /// Whether that time came before a stop was asked.
    fn sleep_until(&self, time_ns: u64) -> bool {
        loop {
            let left = time_ns.saturating_sub(clock::now());
            if self.stop.is_asked() {
                return false;
            }
            if left == 0 {
                return true;
            }
            let left = Timespec { tv_sec: (left / SECOND_NS) as i64, tv_nsec: (left % SECOND_NS) as i64 };
            let descriptor = self.stop.descriptor();
            // A signal wakes early, and the loop sleeps on.
            let _ = poll(&mut [PollFd::new(&descriptor, PollFlags::IN)], Some(&left));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figures::Gathered;
    use std::{cell::Cell, net::SocketAddr, sync::Arc, time::Duration};
    use tilemark_plan::{
        plan::Demand,
        scenario::Arrival,
        workload::{WebParameters, Work},
    };
    use tilemark_units::{Rate, Span};

    /// Takes turns in being right and failing, and may ask for a stop.
    struct Turns {
        done: u64,
        stop_after: Option<(u64, Arc<Stop>)>,
    }

    impl Operation for Turns {
        fn run_once(&mut self) -> OperationResult {
            self.done += 1;
            if let Some((_, stop)) = self.stop_after.as_ref().filter(|(after, _)| *after == self.done) {
                stop.ask();
            }
            let is_right = !self.done.is_multiple_of(2);
            OperationResult {
                verdict: if is_right { Verdict::Right } else { Verdict::Failed },
                bytes: 10,
                trouble: (!is_right).then(|| "broken".to_owned()),
            }
        }
    }

    fn job(length: Span) -> LoadJob {
        let demand = Demand::Open {
            rate: Rate::per_second(1000.0).unwrap(),
            arrival: Arrival::Even,
            burst_every: Span::from_seconds(5),
            burst_length: Span::from_seconds(1),
            surge: None,
        };
        let target = SocketAddr::from(([127, 0, 0, 1], 0));
        let work = Work::Web(WebParameters::default());
        LoadJob {
            streams: vec![Stream::new(4, target, demand, work)],
            processors: Vec::new(),
            warmup: Span::from_milliseconds(50),
            length,
        }
    }

    fn gather(job: &LoadJob, operations: Vec<Box<dyn Operation>>, stop: &Stop) -> Gathered {
        Gathered::of(|start, events| run_blocking(job, &job.streams[0], operations, stop, start, events))
            .unwrap()
    }

    /// Is right after a while.
    struct Brief;

    impl Operation for Brief {
        fn run_once(&mut self) -> OperationResult {
            thread::sleep(Duration::from_micros(200));
            OperationResult { verdict: Verdict::Right, bytes: 10, trouble: None }
        }
    }

    #[test]
    fn what_waits_for_a_slow_thread_is_given_up_after_the_streams_own_time() {
        let outcome = |drain| {
            let mut job = job(Span::from_milliseconds(40));
            job.warmup = Span::default();
            job.streams[0].drain = drain;
            let gathered = gather(&job, vec![Box::new(Slow)], &Stop::new().unwrap());
            let total = gathered.totals[0].clone();
            (total.counts.completed, total.counts.failed, total.errors)
        };
        let (completed, failed, errors) = outcome(Span::from_seconds(1));
        assert!(completed < 40 && completed + failed == 40, "{completed} {failed}");
        assert!(errors[0].contains("within 1 s after the end"), "{errors:?}");
        assert_eq!(outcome(Span::from_seconds(600)), (40, 0, Vec::new()));
    }

    #[test]
    fn in_a_closed_loop_each_operation_follows_the_one_before() {
        let mut job = job(Span::from_seconds(1));
        job.streams[0].demand = Demand::Closed;
        let gathered = gather(&job, vec![Box::new(Brief), Box::new(Brief)], &Stop::new().unwrap());
        let total = &gathered.totals[0];
        assert!(total.counts.offered > 2, "each thread did more than one: {:?}", total.counts);
        assert_eq!(total.counts.offered, total.counts.completed);
        assert_eq!(gathered.seconds.len(), 1, "the warm-up has no second");
        assert_eq!(gathered.seconds[0].counts.offered, total.counts.offered);
    }

    #[test]
    fn every_intended_operation_is_counted_once_and_the_warm_up_is_not() {
        let operations: Vec<Box<dyn Operation>> = vec![
            Box::new(Turns { done: 0, stop_after: None }),
            Box::new(Turns { done: 0, stop_after: None }),
        ];
        let gathered = gather(&job(Span::from_milliseconds(1200)), operations, &Stop::new().unwrap());
        let counts = gathered.totals[0].counts;
        assert_eq!((counts.offered, counts.completed + counts.failed, counts.bytes), (1200, 1200, 12_000));
        let seconds: Vec<(u32, u64)> =
            gathered.seconds.iter().map(|second| (second.second, second.counts.offered)).collect();
        assert_eq!(seconds, [(0, 1000), (1, 200)]);
        assert_eq!(gathered.latency(|_| true).unwrap().len(), 1200);
        assert_eq!(gathered.totals[0].errors[0], "broken");
    }

    /// Ten a second.
    struct Slow;

    impl Operation for Slow {
        fn run_once(&mut self) -> OperationResult {
            thread::sleep(Duration::from_millis(100));
            OperationResult { verdict: Verdict::Right, bytes: 10, trouble: None }
        }
    }

    #[test]
    fn what_an_overloaded_device_did_not_begin_in_time_failed_and_is_not_done() {
        let job = LoadJob { warmup: Span::default(), ..job(Span::from_seconds(1)) };
        let gathered = gather(&job, vec![Box::new(Slow)], &Stop::new().unwrap());
        let counts = gathered.totals[0].counts;
        assert_eq!((counts.offered, counts.completed + counts.failed), (1_000, 1_000));
        // 1 s of schedule and 2 s after it, at ten a second: all of them would take 100 s.
        assert!((1..=31).contains(&counts.completed), "{counts:?}");
        assert_eq!(gathered.latency(|_| true).unwrap().len(), 1_000, "each waited for as long as it did");
    }

    #[test]
    fn a_stop_wakes_those_who_sleep_and_the_totals_still_come() {
        let stop = Arc::new(Stop::new().unwrap());
        let operation = Turns { done: 0, stop_after: Some((1_100, Arc::clone(&stop))) };
        let gathered = gather(&job(Span::from_seconds(3600)), vec![Box::new(operation)], &stop);
        let counts = gathered.totals[0].counts;
        assert_eq!(counts.offered, 1_000, "the last whole second is kept");
    }

    #[test]
    fn a_thread_that_cannot_be_started_ends_those_that_were() {
        let (done, is_done) = mpsc::channel();
        thread::spawn(move || {
            let operation = || -> Box<dyn Operation> { Box::new(Turns { done: 0, stop_after: None }) };
            let (job, stop) = (job(Span::from_seconds(3600)), Stop::new().unwrap());
            let started = Cell::new(0);
            let builder = || {
                started.set(started.get() + 1);
                // No address space holds the stack of the second.
                let stack_bytes = if started.get() == 1 { 1 << 20 } else { 1 << 60 };
                thread::Builder::new().stack_size(stack_bytes)
            };
            let operations = vec![operation(), operation(), operation()];
            let result = Gathered::of(|start, events| {
                run_on(&builder, &job, &job.streams[0], operations, &stop, start, events)
            });
            done.send((result, started.get())).unwrap();
        });
        let (result, started) = is_done.recv_timeout(Duration::from_secs(60)).expect("it ends at once");
        let error = result.unwrap_err();
        assert!(matches!(error, LoadError::NoThread(_)), "{error:?}");
        assert!(
            error.remedy().contains("`ulimit -u`"),
            "open files are not what it lacks: {}",
            error.remedy()
        );
        assert_eq!(started, 2);
    }

    #[test]
    fn a_load_without_an_operation_is_refused() {
        let job = job(Span::from_seconds(1));
        let stop = Stop::new().unwrap();
        let result = Gathered::of(|start, events| {
            run_blocking(&job, &job.streams[0], Vec::new(), &stop, start, events)
        });
        assert!(matches!(result, Err(LoadError::Nothing)));
    }
}
