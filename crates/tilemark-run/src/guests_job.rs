//! `guests up`: guests that stay until they are asked to go.
//!
//! The engine starts them, tells when they are ready, and then answers other commands over a socket in its
//! state folder. It holds no lock: what it keeps counts as foreign load for a measured run.

use crate::{
    Program,
    engine::{Teller, Wish, Wishes},
    job::{GuestsJob, GuestsReady, JobDone, ReadyGuest, SecondsToReady},
    pipeline::{Started, World, guest_failed, memory_of, origin_name},
    prepare,
    state::StateFolder,
    wire::{Failure, FailureCode, Messages, Progress, send},
    world::{Folders, RealWorld},
};
use serde::{Deserialize, Serialize};
use std::{
    collections::BTreeMap,
    os::unix::net::{UnixListener, UnixStream},
    path::PathBuf,
    thread,
    time::{Duration, Instant},
};
use tilemark_agent_protocol::{Execute, Reply, Request};
use tilemark_guests::{Backend, ReadyGuest as Ready, describe};
use tilemark_plan::plan::Point;
use tilemark_units::Span;

/// What other commands ask of the guests' engine.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) enum AskGuests {
    /// Which guests there are.
    List,
    /// Run a program in one.
    Execute {
        /// The guest's name.
        guest: String,
        /// The program and its arguments.
        arguments: Vec<String>,
    },
    /// Where a guest's console is written.
    Console {
        /// The guest's name.
        guest: String,
    },
    /// End all of them.
    Down,
}

/// What it answers.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) enum GuestsAnswer {
    /// The guests.
    List(Box<GuestsReady>),
    /// A program ended.
    Executed {
        /// Its exit code.
        code: i32,
        /// Its standard output.
        output: Vec<u8>,
        /// Its standard error.
        error: Vec<u8>,
    },
    /// A console's path.
    Console(PathBuf),
    /// They end now.
    GoingDown,
    /// It could not be done.
    Failed(Failure),
}

/// Guests are idle for so long before their memory is read.
const IDLE: Duration = Duration::from_secs(10);
/// A program in a guest may take so long.
const EXECUTE_WITHIN: Duration = Duration::from_secs(600);

/// Starts guests, tells, and keeps them until they are asked to go.
pub(crate) fn up(
    program: &Program,
    job: &GuestsJob,
    teller: &Teller,
    wishes: &Wishes,
    told: &dyn Fn(JobDone),
) -> Result<(), Failure> {
    let folders = Folders {
        state: job.state.clone(),
        cache: job.cache.clone(),
        image: job.image.clone(),
        consoles: job.state.join("guests"),
    };
    let state = StateFolder::at(&job.state);
    let under_way = state.under_way().map_err(crate::measure::state_failed)?;
    let world = RealWorld::new(program, folders, under_way.cgroup)?;
    let point = &job.point;
    let backend = world.backend(point)?;
    let listener = UnixListener::bind(state.socket()).map_err(crate::measure::state_failed)?;

    let doing = format!("starting {} guests", point.guests.len());
    teller.progress(Progress { doing, seconds_done: 0.0, seconds_expected: 10.0 });
    let mut started = Started::new(backend);
    let modes = started.templates(point)?;
    let template_stood = Instant::now();
    let mut guests = started.start(point, &modes)?;
    let mut ready = describe_all(&under_way.id, point, backend, &mut guests, template_stood)?;
    ready.template_seconds = modes.seconds();
    if job.read_memory {
        ready.pss_mib_per_guest = read_memory(&world, backend, &guests, teller, wishes);
    }
    if wishes.now() != Wish::GoOn {
        return started.stop();
    }
    told(JobDone::Guests(Box::new(ready.clone())));
    serve(&listener, &ready, backend, point, &mut guests);
    started.stop()
}

fn read_memory(
    world: &RealWorld<'_>,
    backend: &dyn Backend,
    guests: &[Ready],
    teller: &Teller,
    wishes: &Wishes,
) -> Option<f64> {
    teller.progress(Progress {
        doing: "waiting ten idle seconds".to_owned(),
        seconds_done: 0.0,
        seconds_expected: 10.0,
    });
    let until = Instant::now() + IDLE;
    while Instant::now() < until && wishes.now() == Wish::GoOn {
        thread::sleep(Duration::from_millis(100));
    }
    memory_of(world, backend, guests).map(|memory| memory.pss_mib_per_guest)
}

fn describe_all(
    id: &str,
    point: &Point,
    backend: &dyn Backend,
    guests: &mut [Ready],
    template_stood: Instant,
) -> Result<GuestsReady, Failure> {
    let mut seen = Vec::new();
    for (guest, plan) in guests.iter_mut().zip(&point.guests) {
        let description = describe(plan, &mut guest.session).map_err(guest_failed)?;
        let random =
            guest.session.ask(&Request::Random(16), Duration::from_secs(30)).map_err(guest_failed)?;
        let Reply::Random(random) = random else {
            return Err(Failure::told(
                FailureCode::GuestFailed,
                "a guest gave no randomness",
                "read its console",
            ));
        };
        seen.push(ReadyGuest {
            name: plan.name.clone(),
            mac: description.mac.to_string(),
            address: description.address.to_string(),
            machine_id: description.machine_id,
            random_hex: random.iter().map(|byte| format!("{byte:02x}")).collect(),
            seconds_to_ready: guest.ready_at.saturating_duration_since(template_stood).as_secs_f64(),
            how: origin_name(backend.origin(guest.id).map_err(guest_failed)?).to_owned(),
        });
    }
    let mut seconds: Vec<f64> = seen.iter().map(|guest| guest.seconds_to_ready).collect();
    seconds.sort_by(f64::total_cmp);
    Ok(GuestsReady {
        id: id.to_owned(),
        backend: point.backend,
        hardware: prepare::hardware(),
        ready: seen.len() as u32,
        seconds_to_ready: SecondsToReady {
            p50: rank(&seconds, 0.5),
            p99: rank(&seconds, 0.99),
            max: rank(&seconds, 1.0),
        },
        template_seconds: None,
        pss_mib_per_guest: None,
        guests: seen,
    })
}

/// The smallest value that so large a part of all values does not pass (nearest rank).
fn rank(sorted: &[f64], part: f64) -> f64 {
    let place = (part * sorted.len() as f64).ceil() as usize;
    sorted.get(place.saturating_sub(1)).copied().unwrap_or(0.0)
}

/// Answers other commands until one asks the guests to go.
fn serve(
    listener: &UnixListener,
    ready: &GuestsReady,
    backend: &dyn Backend,
    point: &Point,
    guests: &mut [Ready],
) {
    let places: BTreeMap<&str, usize> =
        point.guests.iter().enumerate().map(|(place, guest)| (guest.name.as_str(), place)).collect();
    for stream in listener.incoming() {
        let Ok(stream) = stream else { continue };
        let Ok(writing) = stream.try_clone() else { continue };
        // Whoever connects and says nothing must not keep others out.
        let _ = stream.set_read_timeout(Some(Duration::from_secs(5)));
        let Ok(Some(asked)) = Messages::of(stream).receive::<AskGuests>() else { continue };
        let answer = match &asked {
            AskGuests::List => GuestsAnswer::List(Box::new(ready.clone())),
            AskGuests::Down => GuestsAnswer::GoingDown,
            AskGuests::Console { guest } | AskGuests::Execute { guest, .. } => {
                match places.get(guest.as_str()) {
                    None => GuestsAnswer::Failed(no_such_guest(guest)),
                    Some(&place) => about_one(&asked, backend, &mut guests[place]),
                }
            }
        };
        reply(writing, &answer);
        if matches!(asked, AskGuests::Down) {
            return;
        }
    }
}

fn about_one(asked: &AskGuests, backend: &dyn Backend, guest: &mut Ready) -> GuestsAnswer {
    match asked {
        AskGuests::Execute { arguments, .. } => execute(guest, arguments),
        _ => match backend.console(guest.id) {
            Ok(path) => GuestsAnswer::Console(path),
            Err(error) => GuestsAnswer::Failed(guest_failed(error)),
        },
    }
}

fn execute(guest: &mut Ready, arguments: &[String]) -> GuestsAnswer {
    let request = Execute { arguments: arguments.to_vec(), within: Span::new(EXECUTE_WITHIN) };
    match guest.session.ask(&Request::Execute(request), EXECUTE_WITHIN + Duration::from_secs(10)) {
        Ok(Reply::Executed { code, output, error }) => GuestsAnswer::Executed { code, output, error },
        Ok(_) => GuestsAnswer::Failed(Failure::told(
            FailureCode::GuestFailed,
            "the guest gave an answer that does not belong to a program",
            "read its console with `tilemark guests console`",
        )),
        Err(error) => GuestsAnswer::Failed(guest_failed(error)),
    }
}

fn reply(mut stream: UnixStream, answer: &GuestsAnswer) {
    // Whoever asked may be gone again.
    let _ = send(&mut stream, answer);
}

fn no_such_guest(guest: &str) -> Failure {
    Failure::told(FailureCode::BadInput, format!("no guest `{guest}`"), "`tilemark guests list` shows them")
}
