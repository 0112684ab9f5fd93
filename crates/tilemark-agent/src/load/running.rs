//! A load beside a conversation.

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

/// A load that runs beside a conversation. Dropping it ends the load and waits for its end.
pub(crate) struct RunningLoad {
    stop: Arc<Stop>,
    begin: mpsc::Sender<()>,
    thread: Option<JoinHandle<()>>,
    over: Arc<AtomicBool>,
}

impl RunningLoad {
    /// Prepares it: it waits for its beginning when it has told that all stands. `send` gets each event, made to fit a
    /// frame, from the load's thread.
    pub(crate) fn prepare(
        job: LoadJob,
        mut send: impl FnMut(LoadEvent) + Send + 'static,
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
                let stands = matches!(event, LoadEvent::Started(_));
                fitted(event).into_iter().for_each(&mut send);
                if stands {
                    // An engine's schedule begins when this returns. Whoever could tell lives until this thread ends.
                    let _ = begun.recv();
                }
            });
        };
        let thread = Some(thread::Builder::new().name("load".to_owned()).spawn(work)?);
        Ok(Self { stop, begin, thread, over })
    }
    /// Lets it begin, at once or as soon as all stands.
    pub(crate) fn begin(&self) {
        // One that has ended needs no beginning.
        let _ = self.begin.send(());
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

/// The same in events that fit a frame: outputs of tools go before the totals.
fn fitted(event: LoadEvent) -> Vec<LoadEvent> {
    let LoadEvent::Done(mut totals) = event else { return vec![event] };
    let mut events = Vec::new();
    for total in &mut totals {
        if let Some(mut text) = total.tool_output.take() {
            let most = OUTPUT_BYTES_MAX.min(text.len());
            text.truncate((0..=most).rev().find(|&end| text.is_char_boundary(end)).unwrap_or(0));
            events.push(LoadEvent::Output { id: total.id, text });
        }
    }
    // What is left are counts and a few errors, below 2 KiB for each stream.
    events.push(LoadEvent::Done(totals));
    events
}

/// Of one tool's output: with its length and the stream's number it fits a frame.
const OUTPUT_BYTES_MAX: usize = FRAME_BYTES_MAX - 64;

#[cfg(test)]
mod tests {
    use super::*;
    use tilemark_agent_protocol::{Reply, StreamTotal, write_frame};

    #[test]
    fn totals_of_many_streams_fit_a_frame() {
        let total = StreamTotal {
            seconds: 10.0,
            client_cpu_s: 0.1,
            errors: vec!["an error of a usual length, as they come".to_owned(); 5],
            wrong_answers: vec!["messages duplicated: 1234567".to_owned(); 3],
            ..StreamTotal::default()
        };
        let done = LoadEvent::Done(vec![total.clone(); 10]);
        assert_eq!(fitted(done.clone()), [done]);
        for event in fitted(LoadEvent::Done(vec![total.clone(); 1_000])) {
            write_frame(&mut Vec::new(), &Reply::Load(event)).unwrap();
        }
        let spoken = StreamTotal { tool_output: Some("\u{e9}".repeat(FRAME_BYTES_MAX)), ..total.clone() };
        let events = fitted(LoadEvent::Done(vec![spoken; 3]));
        assert_eq!(events.last(), Some(&LoadEvent::Done(vec![total; 3])));
        assert_eq!(events.len(), 4, "each output goes by itself");
        for event in events {
            write_frame(&mut Vec::new(), &Reply::Load(event)).unwrap();
        }
    }
}
