//! Which engine does which workload. A job with several workloads is done by several engines at the same time.

use crate::{disk, messaging, mix::Mix, start_line::StartLine, store, sysbench, web};
use std::{error::Error, sync::mpsc, thread};
use tilemark_agent_protocol::{LoadEvent, LoadJob};
use tilemark_load::Stop;

/// Does all streams of a job, which are of one workload. It reports `Started` when it has all that it needs, begins when that
/// was heard, and reports `Done` last.
type Engine = fn(&LoadJob, &Stop, &mut dyn FnMut(LoadEvent)) -> Result<(), LoadFailure>;

/// Each workload by its name, with its engine.
const ENGINES: &[(&str, Engine)] = &[
    ("web", web::run_job),
    ("disk", disk::run_job),
    ("messaging", messaging::run_job),
    ("store", store::run_job),
    ("sysbench", sysbench::run_job),
];

/// Why a load could not be done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LoadFailure {
    message: String,
    remedy: String,
}

impl LoadFailure {
    /// An error with all its causes, and what the reader should do.
    pub(crate) fn new(error: &dyn Error, remedy: &str) -> Self {
        let causes = std::iter::successors(error.source(), |&cause| cause.source());
        let message = causes.fold(error.to_string(), |text, cause| format!("{text}: {cause}"));
        Self { message, remedy: remedy.to_owned() }
    }

    fn event(self) -> LoadEvent {
        LoadEvent::Failed { message: self.message, remedy: self.remedy }
    }
}

/// The part of a job that is of one workload.
fn part(job: &LoadJob, name: &str) -> Option<LoadJob> {
    let mut part = job.clone();
    part.streams.retain(|stream| stream.work.name() == name);
    (!part.streams.is_empty()).then_some(part)
}

/// What an engine reports, and its failure if there is one.
fn perform(engine: Engine, job: &LoadJob, stop: &Stop, events: &mut dyn FnMut(LoadEvent)) {
    if let Err(failure) = engine(job, stop, events) {
        events(failure.event());
    }
}

/// Does a job to its end. The last event is `Done` or `Failed`.
pub fn run(job: &LoadJob, stop: &Stop, events: &mut dyn FnMut(LoadEvent)) {
    let parts: Vec<(Engine, LoadJob)> =
        ENGINES.iter().filter_map(|(name, engine)| Some((*engine, part(job, name)?))).collect();
    match &parts[..] {
        // A job without streams is an engine's to refuse.
        [] => perform(web::run_job, job, stop, events),
        [(engine, part)] => perform(*engine, part, stop, events),
        parts => run_mix(parts, stop, events),
    }
}

/// Every engine waits with its start until all others are ready too, so that their schedules, warm-ups and seconds begin
/// together.
fn run_mix(parts: &[(Engine, LoadJob)], stop: &Stop, events: &mut dyn FnMut(LoadEvent)) {
    let (sender, told) = mpsc::channel();
    let line = StartLine::of(parts.len() + 1, stop);
    thread::scope(|scope| {
        for (number, (engine, part)) in parts.iter().enumerate() {
            let (sender, line) = (sender.clone(), &line);
            scope.spawn(move || {
                let starter = line.starter(number);
                let mut send = |event| {
                    let starts = matches!(event, LoadEvent::Started(_));
                    // The other end listens until every engine has ended.
                    let _ = sender.send((number, event));
                    if starts {
                        starter.wait_for_all();
                    }
                };
                perform(*engine, part, stop, &mut send);
            });
        }
        drop(sender);
        // Whoever listens may have the load wait, and all engines wait with it.
        let mut listener = Some(line.starter(parts.len()));
        let mut mix = Mix::of(parts.len());
        for (number, event) in told {
            if matches!(event, LoadEvent::Failed { .. }) {
                stop.ask();
            }
            for event in mix.take(number, event) {
                let all_stand = matches!(event, LoadEvent::Started(_));
                events(event);
                if all_stand {
                    drop(listener.take());
                }
            }
        }
        events(mix.end());
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use tilemark_plan::workload::Work;

    #[test]
    fn every_workload_has_an_engine() {
        let engines: Vec<&str> = ENGINES.iter().map(|(name, _)| *name).collect();
        assert_eq!(engines, Work::NAMES);
    }
}
