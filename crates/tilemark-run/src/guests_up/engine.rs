//! `guests up`: guests that stay until they are asked to go.
//!
//! The engine starts them, reports when they are ready, and answers other commands over a socket in its state
//! folder, also while it starts them. It holds no lock: what it keeps counts as foreign load for a measured run.

use crate::{
    failure::{Failure, FailureCode, state_failed},
    guests::memory,
    guests::services::hardware,
    guests::start::{StartedGuests, origin_name},
    job::host_pids,
    job::messages::{CommandLink, Messages, send},
    job::state_folder::StateFolder,
    job::types::{GuestsJob, GuestsReady, JobDone, ReadyGuest},
    memory_limit::limit_for_guests,
    pass::place_watch,
    pass::real_world::{Folders, RealWorld},
    pass::world::World,
    program::Program,
    progress::Progress,
    stop::StopSignal,
};
use rustix::process::geteuid;
use serde::{Deserialize, Serialize};
use std::{
    io,
    os::{
        fd::AsFd,
        unix::net::{UnixListener, UnixStream},
    },
    path::PathBuf,
    sync::{
        Mutex, MutexGuard, OnceLock, TryLockError,
        atomic::{AtomicUsize, Ordering},
        mpsc::{self, Sender},
    },
    thread::{self, Scope},
    time::{Duration, Instant},
};
use tilemark_agent_protocol::{Execute, Reply, Request};
use tilemark_guests::{
    AgentConversation, AgentSession, GuestError, GuestId, GuestManager, GuestState, ReadyGuest as Ready,
    describe,
};
use tilemark_plan::{
    expect,
    place::{is_placed, place_in_words},
    plan::Point,
};
use tilemark_record::{
    placement::{GuestPlaceFigures, ThreadFigures},
    summary::SecondsToReady,
};
use tilemark_sys::{files::listen_privately, peer::user_of};
use tilemark_units::{Bytes, Span, counted};

/// What other commands ask of the guests' engine.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) enum GuestsRequest {
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
pub(crate) enum GuestsReply {
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
pub(crate) const EXECUTE_WITHIN: Duration = Duration::from_secs(600);

/// Starts guests, reports them, and keeps them until they are asked to go.
pub(crate) fn up(
    program: &Program,
    job: &GuestsJob,
    link: &CommandLink,
    stop: &StopSignal,
    report: &dyn Fn(JobDone),
) -> Result<(), Failure> {
    limit_for_guests(&job.point);
    let folders = Folders {
        state: job.state.clone(),
        cache: job.cache.clone(),
        image: job.image.clone(),
        consoles: job.state.join("guests"),
    };
    let state = StateFolder::at(&job.state);
    let under_way = state.under_way().map_err(state_failed)?;
    let world = RealWorld::new(program, folders, under_way.cgroup, job.own_bridge.as_ref())?;
    let manager = world.manager(&job.point)?;
    // Its folder is closed to all others from before it is there.
    let listener = listen_privately(&state.socket()).map_err(state_failed)?;
    let server =
        GuestsServer { id: &under_way.id, point: &job.point, manager, link, served: OnceLock::new() };
    let (ask_down, down) = mpsc::channel();
    thread::scope(|scope| {
        let (listener, server) = (&listener, &server);
        // However the guests come to their end: nobody is answered any more.
        let _closing = ShutDownOnDrop(listener);
        scope.spawn(move || answer_all(scope, listener, server, &ask_down));
        let mut started = StartedGuests::new(manager);
        let served = start_all(&world, job, server, &mut started, stop)?;
        let Some(served) = served.filter(|_| !stop.is_requested()) else {
            started.stop()?;
            return Err(ended_early("Ctrl-C"));
        };
        let ready = served.ready.clone();
        // Before it is reported: whoever hears of it may ask at once.
        let _ = server.served.set(served);
        report(JobDone::Guests(Box::new(ready)));
        // It fails when nobody can ask any more, and then there is nothing to wait for.
        let _ = down.recv();
        // What a program in one of them is still doing breaks off with it.
        started.stop()
    })
}

/// Whether root or the user of this process connected; decided by the kernel's word and not by theirs.
fn may_ask(stream: &UnixStream) -> bool {
    user_of(stream).is_ok_and(|user| user == 0 || user == geteuid().as_raw())
}

/// Starts all guests, and reads their memory if that was wanted. Nothing where it is to end meanwhile.
fn start_all(
    world: &RealWorld<'_>,
    job: &GuestsJob,
    server: &GuestsServer<'_>,
    started: &mut StartedGuests<'_>,
    stop: &StopSignal,
) -> Result<Option<ServedGuests>, Failure> {
    let GuestsServer { id, point, manager, link, .. } = server;
    let (all, began) = (point.guests.len(), Instant::now());
    let doing = format!("starting {}", counted(all as u64, "guest"));
    let afterwards = if job.read_memory { IDLE } else { Duration::ZERO };
    let seconds_expected = (expect::time_to_ready(point) + afterwards).as_secs_f64();
    link.progress(Progress {
        doing: doing.clone(),
        seconds_done: 0.0,
        seconds_expected,
        seconds_at_most: None,
    });
    let templates = started.templates(point)?;
    let template_was_ready = Instant::now();
    let are_ready = AtomicUsize::new(0);
    let one_more_is_ready = || {
        let count = are_ready.fetch_add(1, Ordering::Relaxed) + 1;
        let Some(left) = left_of_starts(template_was_ready.elapsed(), count, all) else { return };
        let seconds_done = began.elapsed().as_secs_f64();
        let seconds_expected = seconds_done + (left + afterwards).as_secs_f64();
        link.progress(Progress {
            doing: format!("{doing}, {count} ready"),
            seconds_done,
            seconds_expected,
            seconds_at_most: None,
        });
    };
    let Some(mut guests) = started.start(point, &templates, stop, &one_more_is_ready)? else {
        return Ok(None);
    };
    let mut ready = describe_all(id, point, *manager, &mut guests, template_was_ready)?;
    ready.template_seconds = templates.seconds();
    if job.read_memory {
        ready.pss_mib_per_guest = read_memory(world, *manager, &guests, link, stop);
    }
    let one = |guest: Ready| OneGuest { id: guest.id, session: Mutex::new(guest.session) };
    Ok(Some(ServedGuests { ready, guests: guests.into_iter().map(one).collect() }))
}

/// How long the others will take if they become ready as fast as the first ones; nothing while those are too few, since
/// several start at once.
fn left_of_starts(elapsed: Duration, are_ready: usize, all: usize) -> Option<Duration> {
    const SHOWN_FROM: f64 = 0.1;
    let part = are_ready as f64 / all as f64;
    (part >= SHOWN_FROM).then(|| elapsed.mul_f64((1.0 - part) / part))
}

fn ended_early(by: &str) -> Failure {
    Failure::new(
        FailureCode::Interrupted,
        format!("{by} ended the guests before they were ready"),
        "nothing to do: everything that they started was removed",
    )
}

fn read_memory(
    world: &RealWorld<'_>,
    manager: &dyn GuestManager,
    guests: &[Ready],
    link: &CommandLink,
    stop: &StopSignal,
) -> Option<f64> {
    link.progress(Progress {
        doing: "waiting ten idle seconds".to_owned(),
        seconds_done: 0.0,
        seconds_expected: IDLE.as_secs_f64(),
        seconds_at_most: None,
    });
    let until = Instant::now() + IDLE;
    while Instant::now() < until && !stop.is_requested() {
        thread::sleep(Duration::from_millis(100));
    }
    memory::of_guests(manager, guests, |pid| world.pss(pid)).map(|memory| memory.pss_mib_per_guest)
}

fn describe_all(
    id: &str,
    point: &Point,
    manager: &dyn GuestManager,
    guests: &mut [Ready],
    template_was_ready: Instant,
) -> Result<GuestsReady, Failure> {
    let mut seen = Vec::new();
    let ids: Vec<GuestId> = guests.iter().map(|guest| guest.id).collect();
    let pids = first_pids(manager, &ids);
    for ((guest, plan), pid) in guests.iter_mut().zip(&point.guests).zip(pids) {
        let description = describe(plan, &mut guest.session)?;
        let random = guest.session.ask(&Request::Random(16), Duration::from_secs(30))?;
        let Reply::Random(random) = random else {
            let message = "a guest gave no randomness";
            return Err(Failure::new(FailureCode::GuestFailed, message, "read its console"));
        };
        seen.push(ReadyGuest {
            name: plan.name.clone(),
            mac: description.mac.to_string(),
            address: description.address.to_string(),
            machine_id: description.machine_id,
            random_hex: tilemark_units::hex(&random),
            seconds_to_ready: guest.ready_at.saturating_duration_since(template_was_ready).as_secs_f64(),
            how: origin_name(manager.origin(guest.id)?).to_owned(),
            ended: None,
            place: plan.place.as_ref().map(place_in_words),
            elsewhere: None,
            pid,
            console: manager.console(guest.id).ok(),
        });
    }
    Ok(GuestsReady {
        starting: false,
        ready: seen.len() as u32,
        seconds_to_ready: SecondsToReady::of(seen.iter().map(|guest| guest.seconds_to_ready).collect()),
        guests: seen,
        ..starting(id, point)
    })
}

/// The first process of each guest, as programs on the host number it.
fn first_pids(manager: &dyn GuestManager, ids: &[GuestId]) -> Vec<Option<u32>> {
    let firsts = manager.all_processes(ids).into_iter().map(|pids| pids.first().copied());
    host_pids::of(&firsts.collect::<Vec<_>>())
}

/// What is known of guests while they start.
fn starting(id: &str, point: &Point) -> GuestsReady {
    GuestsReady {
        id: id.to_owned(),
        backend: point.backend,
        hardware: hardware(),
        starting: true,
        ready: 0,
        seconds_to_ready: None,
        template_seconds: None,
        pss_mib_per_guest: None,
        guests: Vec::new(),
    }
}

/// What all who answer other commands know.
struct GuestsServer<'a> {
    id: &'a str,
    point: &'a Point,
    manager: &'a dyn GuestManager,
    link: &'a CommandLink,
    /// The guests, from when they are ready.
    served: OnceLock<ServedGuests>,
}

/// Guests that are ready.
struct ServedGuests {
    /// At the moment when that was reported.
    ready: GuestsReady,
    /// In the order of the plan.
    guests: Vec<OneGuest>,
}

struct OneGuest {
    id: GuestId,
    /// Its agent does one thing at a time.
    session: Mutex<AgentSession>,
}

/// Ends the wait for the next who asks when it is dropped.
pub(crate) struct ShutDownOnDrop<'a>(pub(crate) &'a UnixListener);

impl Drop for ShutDownOnDrop<'_> {
    fn drop(&mut self) {
        // It fails only for what is no socket.
        let _ = rustix::net::shutdown(self.0, rustix::net::Shutdown::Both);
    }
}

/// Answers other commands, each on a thread of its own: a program in one guest holds up nobody else.
fn answer_all<'scope>(
    scope: &'scope Scope<'scope, '_>,
    listener: &UnixListener,
    server: &'scope GuestsServer<'scope>,
    ask_down: &Sender<()>,
) {
    loop {
        match listener.accept() {
            Ok((stream, _)) => {
                let ask_down = ask_down.clone();
                scope.spawn(move || server.answer(stream, &ask_down));
            }
            // What a socket says that was shut down.
            Err(error) if error.kind() == io::ErrorKind::InvalidInput => return,
            // Such as too many open files, for a while.
            Err(_) => thread::sleep(Duration::from_millis(100)),
        }
    }
}

/// Whoever connects and says or reads nothing is waited for so long.
const TIMEOUT: Duration = Duration::from_secs(5);

impl GuestsServer<'_> {
    /// Answers one command, of those who may ask.
    fn answer(&self, stream: UnixStream, ask_down: &Sender<()>) {
        // Before a byte is read: who may not ask does not reach the reader either.
        if !may_ask(&stream) {
            return;
        }
        let _ = stream.set_read_timeout(Some(TIMEOUT));
        let _ = stream.set_write_timeout(Some(TIMEOUT));
        let Ok(mut writing) = stream.try_clone() else { return };
        let Ok(Some(asked)) = Messages::of(stream).receive::<GuestsRequest>() else { return };
        let answer = match &asked {
            GuestsRequest::List => GuestsReply::List(Box::new(self.list())),
            GuestsRequest::Down => GuestsReply::GoingDown,
            GuestsRequest::Console { guest } | GuestsRequest::Execute { guest, .. } => match self.find(guest)
            {
                Ok(guest) => self.about_one(&asked, guest, &writing),
                Err(failure) => GuestsReply::Failed(failure),
            },
        };
        // Whoever asked may be gone again.
        let _ = send(&mut writing, &answer);
        if matches!(asked, GuestsRequest::Down) {
            self.go_down(ask_down);
        }
    }

    /// The guests as they are now.
    fn list(&self) -> GuestsReady {
        let Some(served) = self.served.get() else { return starting(self.id, self.point) };
        let mut now = served.ready.clone();
        let ids: Vec<GuestId> = served.guests.iter().map(|guest| guest.id).collect();
        let pids = first_pids(self.manager, &ids);
        for ((shown, guest), pid) in now.guests.iter_mut().zip(&served.guests).zip(pids) {
            shown.ended = match self.manager.state(guest.id) {
                Ok(GuestState::Ended(how)) => Some(how),
                Ok(GuestState::Starting | GuestState::Running) => None,
                Err(error) => Some(error.to_string()),
            };
            shown.pid = pid.filter(|_| shown.ended.is_none());
        }
        if is_placed(std::slice::from_ref(self.point)) {
            let read = place_watch::read(self.manager, self.point, &ids, None);
            for (shown, read) in now.guests.iter_mut().zip(&read.guests) {
                shown.elsewhere = elsewhere(read).filter(|_| shown.ended.is_none());
            }
        }
        now.ready = now.guests.iter().filter(|guest| guest.ended.is_none()).count() as u32;
        now
    }

    fn find(&self, name: &str) -> Result<&OneGuest, Failure> {
        let served = self.served.get().ok_or_else(|| {
            Failure::new(
                FailureCode::HostUnfit,
                format!("the guests of {} are being started", self.id),
                "wait until `tilemark guests list` shows them",
            )
        })?;
        let place = self.point.guests.iter().position(|guest| guest.name == name);
        place.and_then(|place| served.guests.get(place)).ok_or_else(|| no_such_guest(name))
    }

    fn about_one(&self, asked: &GuestsRequest, guest: &OneGuest, caller: &UnixStream) -> GuestsReply {
        match asked {
            GuestsRequest::Execute { arguments, .. } => execute(&guest.session, arguments, caller),
            _ => match self.manager.console(guest.id) {
                Ok(path) => GuestsReply::Console(path),
                Err(error) => GuestsReply::Failed(error.into()),
            },
        }
    }

    fn go_down(&self, ask_down: &Sender<()>) {
        if self.served.get().is_some() {
            // They may be going down already.
            let _ = ask_down.send(());
            return;
        }
        // A guest that boots cannot be hurried: the keeper takes everything away, as after a second Ctrl-C.
        let failure = ended_early("`tilemark guests down`");
        let code = failure.code.exit_code();
        self.link.failed(failure);
        std::process::exit(code.into());
    }
}

/// What of a guest is not where it was put.
fn elsewhere(read: &GuestPlaceFigures) -> Option<String> {
    if let Some(why) = &read.unread {
        return Some(why.clone());
    }
    let first = read.threads.iter().find(|thread| thread.is_elsewhere);
    let threads = first.map(|thread| {
        let ThreadFigures { name, planned, allowed, ran_on, .. } = thread;
        format!(
            "{} of {} elsewhere, such as {name:?}, put on {planned}, which may run on {allowed} and ran on {ran_on}",
            read.threads_elsewhere,
            counted(read.threads_count, "thread")
        )
    });
    let memory = (read.memory_bytes_elsewhere > 0)
        .then(|| format!("{} of memory on another node", Bytes::new(read.memory_bytes_elsewhere).rounded()));
    let all: Vec<String> = threads.into_iter().chain(memory).collect();
    (!all.is_empty()).then(|| all.join("; "))
}

fn execute(session: &Mutex<AgentSession>, arguments: &[String], caller: &UnixStream) -> GuestsReply {
    let mut session = match unless_busy(session) {
        Ok(session) => session,
        Err(failure) => return GuestsReply::Failed(failure),
    };
    match run_program(&mut **session, arguments, caller) {
        Ok(Reply::Executed { code, output, error }) => GuestsReply::Executed { code, output, error },
        Ok(_) => GuestsReply::Failed(Failure::new(
            FailureCode::GuestFailed,
            "the guest gave an answer that does not belong to a program",
            "read its console with `tilemark guests console`",
        )),
        Err(error) => GuestsReply::Failed(error.into()),
    }
}

/// Has a guest run a program to its end, or to that of the caller who waits for it.
fn run_program(
    session: &mut dyn AgentConversation,
    arguments: &[String],
    caller: &UnixStream,
) -> Result<Reply, GuestError> {
    let order = Execute { arguments: arguments.to_vec(), within: Span::new(EXECUTE_WITHIN) };
    session.send(&Request::Execute(order))?;
    if session.is_abandoned(caller.as_fd(), EXECUTE_WITHIN)? {
        session.send(&Request::EndProgram)?;
        return session.receive(ENDS_WITHIN);
    }
    session.receive(ANSWERS_AFTER)
}

/// How long a guest may take to end a program. It needs a second or two, and more on a busy host: an answer that came later would be taken
/// for that to the next program.
const ENDS_WITHIN: Duration = Duration::from_secs(60);
/// How long after its time a program's guest may take to answer.
const ANSWERS_AFTER: Duration = Duration::from_secs(10);
/// How long one that asks waits for a program that runs in the guest already.
const BUSY_AFTER: Duration = Duration::from_secs(2);

/// A guest's session, where no program runs in it, or none does soon: that of a caller who has gone is being ended. Another program
/// would wait for one that goes on without a word.
fn unless_busy<S>(session: &Mutex<S>) -> Result<MutexGuard<'_, S>, Failure> {
    let until = Instant::now() + BUSY_AFTER;
    loop {
        match session.try_lock() {
            Ok(session) => return Ok(session),
            Err(TryLockError::Poisoned(session)) => return Ok(session.into_inner()),
            Err(TryLockError::WouldBlock) if Instant::now() < until => {
                thread::sleep(Duration::from_millis(10))
            }
            Err(TryLockError::WouldBlock) => return Err(busy()),
        }
    }
}

fn busy() -> Failure {
    Failure::new(
        FailureCode::HostUnfit,
        "the guest runs another program, of a `guests exec` that goes on",
        format!(
            "try again once that has ended, after {} s at most; to run several beside each other, start them by one command",
            (EXECUTE_WITHIN + ANSWERS_AFTER).as_secs()
        ),
    )
}

pub(crate) fn no_such_guest(guest: &str) -> Failure {
    Failure::new(FailureCode::BadInput, format!("no guest `{guest}`"), "`tilemark guests list` shows them")
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::event::{PollFd, PollFlags, poll};
    use std::os::fd::BorrowedFd;

    #[test]
    fn a_guest_in_which_a_program_runs_is_busy_and_nobody_waits_for_it() {
        let session = Mutex::new(());
        let first = unless_busy(&session).unwrap();
        let refused = unless_busy(&session).unwrap_err();
        assert_eq!(refused.code, FailureCode::HostUnfit);
        assert!(refused.message.contains("runs another program"), "{refused:?}");
        drop(first);
        assert!(unless_busy(&session).is_ok());
    }

    /// A guest whose program never ends by itself.
    #[derive(Debug, Default)]
    struct Endless {
        asked: Vec<Request>,
    }

    impl AgentConversation for Endless {
        fn ask(&mut self, _: &Request, _: Duration) -> Result<Reply, GuestError> {
            unreachable!("nothing waits for it without an eye on the caller")
        }

        fn send(&mut self, request: &Request) -> Result<(), GuestError> {
            self.asked.push(request.clone());
            Ok(())
        }

        fn receive(&mut self, _: Duration) -> Result<Reply, GuestError> {
            assert_eq!(self.asked.last(), Some(&Request::EndProgram), "it never ends by itself");
            Ok(Reply::Executed { code: 143, output: Vec::new(), error: Vec::new() })
        }

        fn is_abandoned(&mut self, caller: BorrowedFd<'_>, _: Duration) -> Result<bool, GuestError> {
            let mut polled = [PollFd::from_borrowed_fd(caller, PollFlags::empty())];
            Ok(poll(&mut polled, None).unwrap() == 1)
        }
    }

    #[test]
    fn a_program_whose_caller_has_gone_is_ended_and_the_guest_is_free_for_the_next() {
        let (ours, caller) = UnixStream::pair().unwrap();
        drop(caller);
        let mut guest = Endless::default();
        let ended = run_program(&mut guest, &["sleep".to_owned(), "1000".to_owned()], &ours).unwrap();
        assert!(matches!(ended, Reply::Executed { code: 143, .. }), "{ended:?}");
        assert!(matches!(&guest.asked[..], [Request::Execute(_), Request::EndProgram]), "{:?}", guest.asked);
    }

    #[test]
    fn the_time_left_is_known_once_a_tenth_of_the_guests_is_ready() {
        let left = |are_ready| left_of_starts(Duration::from_secs(30), are_ready, 256);
        assert_eq!(left(25), None, "several start at once, so that the first few show nothing");
        assert_eq!(left(64), Some(Duration::from_secs(90)));
        assert_eq!(left(256), Some(Duration::ZERO));
        assert_eq!(left_of_starts(Duration::from_secs(4), 1, 2), Some(Duration::from_secs(4)));
    }
}
