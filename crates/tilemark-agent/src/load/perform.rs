//! A job is done by the engine of its kind of work; a mix of kinds by several engines at the same time.

use super::{gate::StartGate, messaging, mix::Mix, store, sysbench};
use std::{error::Error, sync::mpsc, thread};
use tilemark_agent_protocol::{LoadEvent, LoadJob, StreamWork};
use tilemark_load::Stop;
use tilemark_workloads::{disk, web::WebFactory};

/// The engine that does a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Engine {
    Web,
    Disk,
    Messaging,
    Store,
    Sysbench,
}

impl Engine {
    const ALL: [Self; 5] = [Self::Web, Self::Disk, Self::Messaging, Self::Store, Self::Sysbench];

    const fn of(work: &StreamWork) -> Self {
        match work {
            StreamWork::Web(_) => Self::Web,
            StreamWork::Disk(_) => Self::Disk,
            StreamWork::Messaging { .. } => Self::Messaging,
            StreamWork::Store { .. } => Self::Store,
            StreamWork::Sysbench(_) => Self::Sysbench,
        }
    }

    /// The part of a job that this engine does.
    fn part(self, job: &LoadJob) -> Option<LoadJob> {
        let mut part = job.clone();
        part.streams.retain(|stream| Self::of(&stream.work) == self);
        (!part.streams.is_empty()).then_some(part)
    }

    /// The failure, if there is one; an engine tells everything else itself.
    fn perform(self, job: &LoadJob, stop: &Stop, events: &mut dyn FnMut(LoadEvent)) -> Option<LoadEvent> {
        match self {
            Self::Web => perform_web(job, stop, events),
            Self::Disk => disk::run(job, stop, events).err().map(|error| failure(&error, error.remedy())),
            Self::Messaging => {
                messaging::perform(job, stop, events).err().map(|error| failure(&error, error.remedy()))
            }
            Self::Sysbench => {
                sysbench::perform(job, stop, events).err().map(|error| failure(&error, error.remedy()))
            }
            Self::Store => {
                store::perform(job, stop, events).err().map(|error| failure(&error, error.remedy()))
            }
        }
    }
}

/// Does a job to its end. The last event is `Done` or `Failed`.
pub(super) fn perform(job: &LoadJob, stop: &Stop, events: &mut dyn FnMut(LoadEvent)) {
    let parts: Vec<(Engine, LoadJob)> =
        Engine::ALL.into_iter().filter_map(|engine| Some((engine, engine.part(job)?))).collect();
    match &parts[..] {
        // A job without streams is an engine's to refuse.
        [] => Engine::Web.perform(job, stop, events).into_iter().for_each(events),
        [(engine, _)] => engine.perform(job, stop, events).into_iter().for_each(events),
        parts => perform_mix(parts, stop, events),
    }
}

/// Every engine tells that it started when all that it needs stands, and begins when that was heard: there it is held
/// until all others stand too, so that their schedules, warm-ups and seconds begin together.
fn perform_mix(parts: &[(Engine, LoadJob)], stop: &Stop, events: &mut dyn FnMut(LoadEvent)) {
    let (sender, told) = mpsc::channel();
    let gate = StartGate::of(parts.len() + 1, stop);
    thread::scope(|scope| {
        for (number, (engine, part)) in parts.iter().enumerate() {
            let (sender, gate) = (sender.clone(), &gate);
            scope.spawn(move || {
                let comer = gate.comer(number);
                let mut send = |event| {
                    let starts = matches!(event, LoadEvent::Started(_));
                    // The other end listens until every engine has ended.
                    let _ = sender.send((number, event));
                    if starts {
                        comer.stands();
                    }
                };
                engine.perform(part, stop, &mut send).into_iter().for_each(send);
            });
        }
        drop(sender);
        // Whoever listens may have the load wait, and all engines wait with it.
        let mut listener = Some(gate.comer(parts.len()));
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

fn perform_web(job: &LoadJob, stop: &Stop, events: &mut dyn FnMut(LoadEvent)) -> Option<LoadEvent> {
    let factory = match WebFactory::new(job) {
        Ok(factory) => factory,
        Err(error) => return Some(failure(&error, error.remedy())),
    };
    tilemark_load::run(job, &factory, stop, events).err().map(|error| failure(&error, error.remedy()))
}

fn failure(error: &dyn Error, remedy: &str) -> LoadEvent {
    let causes = std::iter::successors(error.source(), |&cause| cause.source());
    let message = causes.fold(error.to_string(), |text, cause| format!("{text}: {cause}"));
    LoadEvent::Failed { message, remedy: remedy.to_owned() }
}
