//! A load beside a conversation.

use crate::clock;
use std::{
    io,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
        mpsc,
    },
    thread::{self, JoinHandle},
};
use tilemark_agent_protocol::{FRAME_BYTES_MAX, LoadEvent, LoadJob};
use tilemark_load::Stop;
use tilemark_sys::thread::{ask_for_default, ask_for_fifo};

/// A load that runs beside a conversation. Dropping it ends the load and waits for its end.
pub(crate) struct RunningLoad {
    stop: Arc<Stop>,
    begin: mpsc::Sender<Beginning>,
    thread: Option<JoinHandle<()>>,
    over: Arc<AtomicBool>,
}

/// When a load begins.
#[derive(Debug, Clone, Copy)]
enum Beginning {
    /// As soon as all that it needs is there.
    Now,
    /// When the monotonic clock shows so many nanoseconds.
    At(u64),
}

impl RunningLoad {
    /// Prepares it: it reports that all is ready and waits for its beginning. `send` gets each event, made to fit a
    /// frame, from the load's thread.
    pub(crate) fn prepare(job: LoadJob, send: impl FnMut(LoadEvent) + Send + 'static) -> io::Result<Self> {
        Self::prepare_with_begin_report(job, send, |_, _| ())
    }

    /// The same. `began` gets the intended and the actual beginning, in nanoseconds of the monotonic clock, of one that
    /// [`Self::begin_at`] is called for.
    pub(crate) fn prepare_with_begin_report(
        job: LoadJob,
        mut send: impl FnMut(LoadEvent) + Send + 'static,
        began: impl Fn(u64, u64) + Send + 'static,
    ) -> io::Result<Self> {
        let stop = Arc::new(Stop::new()?);
        let its_stop = Arc::clone(&stop);
        let over = Arc::new(AtomicBool::new(false));
        let its_over = Arc::clone(&over);
        let (begin, begun) = mpsc::channel();
        let work = move || {
            tilemark_workloads::run(&job, &its_stop, &mut |event| {
                // Before the host reads it: it may ask for the next load at once.
                if matches!(event, LoadEvent::Done(_) | LoadEvent::Failed { .. }) {
                    its_over.store(true, Ordering::Release);
                }
                let is_ready = matches!(event, LoadEvent::Started(_));
                send(fitted(event));
                if is_ready {
                    // An engine's schedule begins when this returns. The sender of that signal lives until this thread ends.
                    if let Ok(Beginning::At(intended_ns)) = begun.recv() {
                        began(intended_ns, woken_at(intended_ns));
                    }
                }
            });
        };
        let thread = Some(thread::Builder::new().name("load".to_owned()).spawn(work)?);
        Ok(Self { stop, begin, thread, over })
    }
    /// Lets it begin, at once or as soon as all is ready.
    pub(crate) fn begin(&self) {
        // One that has ended needs no beginning.
        let _ = self.begin.send(Beginning::Now);
    }
    /// Lets it begin when the monotonic clock shows so many nanoseconds.
    pub(crate) fn begin_at(&self, monotonic_ns: u64) {
        let _ = self.begin.send(Beginning::At(monotonic_ns));
    }
    /// Ends it early; its `Done` still comes.
    pub(crate) fn stop(&self) {
        self.stop.ask();
        self.begin();
    }
    /// Whether its last event was sent, or is being sent.
    pub(crate) fn is_over(&self) -> bool {
        self.over.load(Ordering::Acquire) || self.thread.as_ref().is_none_or(JoinHandle::is_finished)
    }
}

impl Drop for RunningLoad {
    fn drop(&mut self) {
        self.stop();
        if let Some(thread) = self.thread.take() {
            // A panic of the load was printed by its thread; the agent goes on.
            let _ = thread.join();
        }
    }
}

/// Sleeps until the monotonic clock shows so many nanoseconds, and returns what it shows then. With priority: on a busy machine the
/// default scheduler lets a thread that wakes wait for milliseconds, and clients are to begin together.
fn woken_at(intended_ns: u64) -> u64 {
    with_priority(|| {
        clock::sleep_until_monotonic(intended_ns);
        clock::monotonic_ns()
    })
}

/// Does something under SCHED_FIFO, where that is allowed, and without that afterwards: the load itself is not to have an advantage.
fn with_priority<T>(work: impl FnOnce() -> T) -> T {
    let is_fifo = ask_for_fifo(LOWEST_PRIORITY).is_ok();
    let done = work();
    if is_fifo {
        ask_for_default().expect("a thread may give up its priority");
    }
    done
}

/// Of SCHED_FIFO: above all threads of the default scheduler.
const LOWEST_PRIORITY: i32 = 1;

/// The same, fit for a frame: an output is cut. Totals are counts and a few errors, below 2 KiB for each stream.
fn fitted(mut event: LoadEvent) -> LoadEvent {
    if let LoadEvent::Output { text, .. } = &mut event {
        let most = OUTPUT_BYTES_MAX.min(text.len());
        text.truncate((0..=most).rev().find(|&end| text.is_char_boundary(end)).unwrap_or(0));
    }
    event
}

/// Of one tool's output: with its length and the stream's number it fits a frame.
const OUTPUT_BYTES_MAX: usize = FRAME_BYTES_MAX - 64;

#[cfg(test)]
mod tests {
    use super::*;
    use tilemark_agent_protocol::{Reply, StreamTotal, write_frame};
    use tilemark_plan::workload::Finding;

    /// The scheduling policy of this thread (proc(5), field 41 of `stat`): 0 SCHED_OTHER, 1 SCHED_FIFO.
    fn policy() -> u32 {
        let stat = std::fs::read_to_string("/proc/thread-self/stat").unwrap();
        // The name, the second field, may have blanks.
        let after_name = stat.rsplit_once(')').unwrap().1;
        after_name.split_whitespace().nth(38).unwrap().parse().unwrap()
    }

    #[test]
    fn what_is_done_with_priority_leaves_none_behind_and_nothing_wakes_early() {
        let may = ask_for_fifo(LOWEST_PRIORITY).and_then(|()| ask_for_default()).is_ok();
        assert_eq!((with_priority(policy), policy()), (u32::from(may), 0));
        let intended_ns = clock::monotonic_ns() + 1_000_000;
        assert!(woken_at(intended_ns) >= intended_ns);
    }

    #[test]
    fn what_many_streams_report_fits_frames() {
        let total = StreamTotal {
            seconds: 10.0,
            client_cpu_s: 0.1,
            errors: vec!["an error of a usual length, as they come".to_owned(); 5],
            findings: vec![
                Finding { what: "messages duplicated: 1234567".to_owned(), ..Finding::default() };
                3
            ],
            ..StreamTotal::default()
        };
        let done = LoadEvent::Done(vec![total; 1_000]);
        let output = LoadEvent::Output { id: u32::MAX, text: "\u{e9}".repeat(FRAME_BYTES_MAX) };
        for event in [done, output] {
            write_frame(&mut Vec::new(), &Reply::Load(fitted(event))).unwrap();
        }
    }
}
