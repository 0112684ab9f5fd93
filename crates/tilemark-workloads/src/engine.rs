//! Which engine does which workload. A job with several workloads is done by several engines at the same time.

use crate::{
    merge::{MergedEvents, together},
    start_line::{StartLine, Starter},
    threads::NO_THREAD,
};
use std::{error::Error, fmt, io, sync::mpsc, thread, time::Instant};
use tilemark_agent_protocol::{LOAD_THREAD, LoadEvent, LoadJob, Sender, Stream, StreamTotal};
use tilemark_load::{Start, Stop};
use tilemark_units::with_causes;

/// Does all streams of a job, which are of one workload, in two steps: it prepares all that it needs, then calls [`Start`] once, and
/// runs from the moment that this returns. It reports each second, and returns the totals.
pub(crate) type Engine =
    fn(&LoadJob, &Stop, Start<'_>, &mut dyn FnMut(LoadEvent)) -> Result<Vec<StreamTotal>, LoadFailure>;

/// Why a load could not be done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LoadFailure {
    message: String,
    remedy: String,
}

impl LoadFailure {
    /// An error with all its causes, and what the reader should do.
    pub(crate) fn new(error: &dyn Error, remedy: &str) -> Self {
        Self { message: with_causes(error), remedy: remedy.to_owned() }
    }

    /// The same of any error of a kind that knows what the reader should do, for `map_err`.
    pub(crate) fn with<E: Error>(remedy: fn(&E) -> &str) -> impl Fn(E) -> Self + Copy {
        move |error| Self::new(&error, remedy(&error))
    }

    /// A stream came to an engine that does not do it.
    pub(crate) fn stray(stream: &Stream) -> Self {
        let message = format!("stream {} is not of the workload that it came to", stream.id);
        Self { message, remedy: "use the agent that belongs to this tilemark".to_owned() }
    }

    /// An engine has no thread.
    fn no_thread(error: &io::Error) -> Self {
        let message = format!("a thread of the load cannot be started: {error}");
        Self { message, remedy: NO_THREAD.to_owned() }
    }

    fn nothing() -> Self {
        let remedy = "report it, with the scenario".to_owned();
        Self { message: "the job of the load has no stream".to_owned(), remedy }
    }

    fn event(self) -> LoadEvent {
        LoadEvent::Failed { message: self.message, remedy: self.remedy }
    }
}

impl fmt::Display for LoadFailure {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.message)
    }
}

/// The only stream of a job that a guest does by itself.
pub(crate) fn only_stream(job: &LoadJob) -> Result<&Stream, LoadFailure> {
    match &job.streams[..] {
        [stream] => Ok(stream),
        _ => Err(LoadFailure {
            message: format!("a guest runs one load at a time, and has {}", job.streams.len()),
            remedy: "give the guest one load".to_owned(),
        }),
    }
}

/// The part of a job that is of one workload.
fn part(job: &LoadJob, name: &str) -> Option<LoadJob> {
    let mut part = job.clone();
    part.streams.retain(|stream| stream.work.name() == name);
    (!part.streams.is_empty()).then_some(part)
}

/// What an engine reports to the thread that leads.
enum Message {
    /// It is ready, and its threads got this.
    Ready(Sender),
    /// It works.
    Event(LoadEvent),
    /// It has ended.
    Ended(Result<Vec<StreamTotal>, LoadFailure>),
}

/// Does a job to its end by these engines.
pub(crate) fn run(engines: &[(&str, Engine)], job: &LoadJob, stop: &Stop, events: &mut dyn FnMut(LoadEvent)) {
    run_on(&thread::Builder::new, engines, job, stop, events);
}

/// The same on threads of these builders.
fn run_on(
    builder: &dyn Fn() -> thread::Builder,
    engines: &[(&str, Engine)],
    job: &LoadJob,
    stop: &Stop,
    events: &mut dyn FnMut(LoadEvent),
) {
    let parts: Vec<(&str, Engine, LoadJob)> =
        engines.iter().filter_map(|(name, engine)| Some((*name, *engine, part(job, name)?))).collect();
    if parts.is_empty() {
        return events(LoadFailure::nothing().event());
    }
    let (sender, messages) = mpsc::channel();
    let line = StartLine::default();
    thread::scope(|scope| {
        let works = parts.iter().enumerate().map(|(number, (name, engine, part))| {
            let (sender, starter) = (sender.clone(), Starter(&line));
            let work = move || {
                // The leader listens until every engine has ended.
                let say = |what| drop(sender.send((number, what)));
                let mut start = |got| {
                    say(Message::Ready(got));
                    starter.wait()
                };
                let ended = engine(part, stop, &mut start, &mut |event| say(Message::Event(event)));
                say(Message::Ended(ended));
            };
            (name, work)
        });
        // Threads that it starts have its name, where it gives them no other.
        let named = |name| builder().name(format!("{LOAD_THREAD}{name}"));
        // The starter of one without a thread is gone: those that have one do not begin, and end.
        let start = |(name, work)| named(name).spawn_scoped(scope, work).inspect_err(|_| stop.ask());
        let started: io::Result<Vec<_>> = works.map(start).collect();
        drop(sender);
        let last = lead(parts.len(), &line, &messages, stop, events);
        let last = started.map_err(|error| LoadFailure::no_thread(&error)).and(last);
        events(last.map_or_else(LoadFailure::event, LoadEvent::Done));
    });
}

/// Has all engines begin when the last one is ready, and reports what they say, until all have ended.
fn lead(
    engines: usize,
    line: &StartLine,
    messages: &mpsc::Receiver<(usize, Message)>,
    stop: &Stop,
    events: &mut dyn FnMut(LoadEvent),
) -> Result<Vec<StreamTotal>, LoadFailure> {
    let (mut merged, mut ready, mut ended) = (MergedEvents::of(engines), Vec::new(), Vec::new());
    for (number, what) in messages {
        let reported = match what {
            Message::Ready(got) => {
                ready.push(got);
                if ready.len() == engines {
                    events(LoadEvent::Started(together(&ready)));
                    line.give(Some(Instant::now()));
                }
                Vec::new()
            }
            Message::Event(event) => merged.take(number, event),
            Message::Ended(totals) => {
                if totals.is_err() {
                    stop.ask();
                }
                ended.push(totals);
                merged.ended(number)
            }
        };
        reported.into_iter().for_each(&mut *events);
    }
    if ended.len() < engines {
        ended.push(Err(LoadFailure {
            message: "an engine of the load ended by a bug".to_owned(),
            remedy: "report it, with the console of the guest or the output of the load process".to_owned(),
        }));
    }
    // The first failure is the one to report: others follow from it.
    ended.into_iter().collect::<Result<Vec<_>, _>>().map(|totals| totals.concat())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ENGINES, run, threads::only};
    use tilemark_plan::{
        plan::Demand,
        workload::{MemoryParameters, WebParameters, Work},
    };
    use tilemark_units::Span;

    #[test]
    fn every_workload_has_an_engine() {
        let engines: Vec<&str> = ENGINES.iter().map(|(name, _)| *name).collect();
        assert_eq!(engines, Work::NAMES);
    }

    fn job(works: Vec<Work>) -> LoadJob {
        let target = ([127, 0, 0, 1], 1).into();
        let stream = |(id, work)| Stream { connections: 0, ..Stream::new(id, target, Demand::Closed, work) };
        LoadJob {
            streams: (0..).zip(works).map(stream).collect(),
            processors: Vec::new(),
            warmup: Span::default(),
            length: Span::from_seconds(1),
        }
    }

    fn events(job: &LoadJob) -> Vec<LoadEvent> {
        let mut events = Vec::new();
        run(job, &Stop::new().unwrap(), &mut |event| events.push(event));
        events
    }

    #[test]
    fn an_engine_without_a_thread_ends_all_before_they_begin_and_the_limit_is_named() {
        // Waits to begin, then for the stop.
        let waits: Engine = |_, stop, start, _| {
            let sender = Sender { workers: 0, real_time: false, timer_slack_ns: 0, pinned: false };
            assert!(start(sender).is_none(), "the load began");
            while !stop.is_asked() {
                thread::sleep(std::time::Duration::from_millis(1));
            }
            Ok(Vec::new())
        };
        let job = job(vec![Work::Memory(MemoryParameters::default()), Work::Web(WebParameters::default())]);
        let (done, is_done) = mpsc::channel();
        thread::spawn(move || {
            let mut events = Vec::new();
            let stop = Stop::new().unwrap();
            run_on(&only(1), &[("memory", waits), ("web", waits)], &job, &stop, &mut |event| {
                events.push(event)
            });
            done.send(events).unwrap();
        });
        let events = is_done.recv_timeout(std::time::Duration::from_secs(60)).expect("nobody waits");
        let [LoadEvent::Failed { message, remedy }] = &events[..] else { panic!("{events:?}") };
        assert!(message.starts_with("a thread of the load cannot be started: "), "{message}");
        assert!(remedy.contains("`ulimit -u`"), "{remedy}");
    }

    #[test]
    fn an_engine_that_fails_before_the_start_ends_all_and_is_the_one_to_report() {
        // The memory engine is ready at once; the web engine has no connection to make.
        let (memory, web) = (MemoryParameters::default(), WebParameters::default());
        let failed = events(&job(vec![Work::Memory(memory.clone()), Work::Web(web)]));
        assert!(
            matches!(&failed[..], [LoadEvent::Failed { message, .. }] if message.contains("no stream")),
            "{failed:?}"
        );
        let nothing = events(&job(Vec::new()));
        assert!(
            matches!(&nothing[..], [LoadEvent::Failed { message, .. }] if message.contains("has no stream")),
            "{nothing:?}"
        );
        let alone = events(&job(vec![Work::Memory(memory)]));
        assert!(
            matches!(&alone[..], [LoadEvent::Started(_), .., LoadEvent::Done(totals)] if totals.len() == 1)
        );
    }
}
