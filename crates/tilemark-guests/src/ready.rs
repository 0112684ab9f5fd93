//! From a started guest to one that is ready: identity, clock and entropy set, the host's nonce answered over the
//! channel, one ping answered over the bridge.

use crate::{
    backend::{Backend, GuestId, StartMode},
    console::ConsoleTail,
    conversation::AgentSession,
    error::GuestError,
};
use std::{
    sync::atomic::{AtomicU16, AtomicUsize, Ordering},
    thread,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};
use tilemark_agent_protocol::{Description, Identity, Reply, Request, Service};
use tilemark_netlink::Ping;
use tilemark_plan::plan::{BRIDGE_ADDRESS, GuestPlan, NETWORK_PREFIX};

/// A guest's clock is set again until it is at most this far from the host's.
pub const CLOCK_BOUND: Duration = Duration::from_millis(50);
/// How often it is tried.
const CLOCK_ATTEMPTS: u32 = 20;
/// Bytes of entropy for each guest: twice the state of the kernel's generator, rounded up.
const ENTROPY_BYTES: usize = 64;

/// A guest that may be loaded.
#[derive(Debug)]
pub struct ReadyGuest {
    /// Its number in the backend.
    pub id: GuestId,
    /// The conversation with its agent.
    pub session: AgentSession,
    /// Where its service listens; 0 when it serves nobody.
    pub port: u16,
    /// How far its clock can be from the host's.
    pub clock_bound: Duration,
    /// The machine id that it was given.
    pub machine_id: String,
    /// When it was ready.
    pub ready_at: Instant,
    /// Where the time went.
    pub steps: ReadySteps,
}

/// How long each step on the way took.
#[derive(Debug, Clone, Copy, Default)]
pub struct ReadySteps {
    /// Until the agent gave back the nonce.
    pub connect: Duration,
    /// Identity, entropy, clock.
    pub identity: Duration,
    /// The service.
    pub service: Duration,
    /// The ping over the bridge.
    pub ping: Duration,
}

/// One guest to be made ready.
#[derive(Debug, Clone, Copy)]
pub struct Expected<'a> {
    /// Its plan.
    pub plan: &'a GuestPlan,
    /// Its number in the backend.
    pub id: GuestId,
    /// What shall run in it.
    pub service: &'a Service,
}

/// Makes one guest ready, within a time for each step.
pub fn make_ready(
    backend: &dyn Backend,
    guest: Expected<'_>,
    within: Duration,
) -> Result<ReadyGuest, GuestError> {
    let mut steps = ReadySteps::default();
    let start = Instant::now();
    let mut session = backend.connect(guest.id, within)?;
    steps.connect = start.elapsed();
    let identity = identity_of(guest.plan)?;
    let machine_id = identity.machine_id.clone();
    let asked = Instant::now();
    expect_done(guest.plan, session.ask(&Request::Become(Box::new(identity)), within)?)?;
    // The clock was set between sending and answering.
    let bound = set_clock(guest.plan, &mut session, asked.elapsed(), within)?;
    steps.identity = asked.elapsed();
    let asked = Instant::now();
    let serving = session.ask(&Request::StartService(guest.service.clone()), within)?;
    let port = expect_serving(guest.plan, serving)?;
    steps.service = asked.elapsed();
    steps.ping = ping(backend, guest, within)?;
    Ok(ReadyGuest {
        id: guest.id,
        session,
        port,
        clock_bound: bound,
        machine_id,
        ready_at: Instant::now(),
        steps,
    })
}

fn ping(backend: &dyn Backend, guest: Expected<'_>, within: Duration) -> Result<Duration, GuestError> {
    if !backend.has_network() {
        return Ok(Duration::ZERO);
    }
    static NEXT: AtomicU16 = AtomicU16::new(1);
    let socket = Ping::open(NEXT.fetch_add(1, Ordering::Relaxed)).map_err(|source| GuestError::File {
        action: "open",
        path: "an ICMP socket".into(),
        source,
    })?;
    socket.ask(guest.plan.address, within).map_err(|source| GuestError::Unreachable {
        guest: guest.plan.name.clone(),
        console: backend.console(guest.id).map_or_else(
            |_| ConsoleTail { path: "(none)".into(), lines: Vec::new() },
            |path| ConsoleTail::read(&path),
        ),
        source,
    })
}

/// Brings the clock's bound under the limit: the host's clock is compared with the middle of each question.
fn set_clock(
    plan: &GuestPlan,
    session: &mut AgentSession,
    first_bound: Duration,
    within: Duration,
) -> Result<Duration, GuestError> {
    let mut bound = first_bound;
    let mut adjust_ns = 0;
    for _ in 0..CLOCK_ATTEMPTS {
        if bound <= CLOCK_BOUND && adjust_ns == 0 {
            return Ok(bound);
        }
        let before = realtime_ns();
        let asked = Instant::now();
        let reply = session.ask(&Request::Clock { adjust_ns }, within)?;
        let took = asked.elapsed();
        let Reply::Clock { realtime_ns } = reply else { return Err(misplaced(plan, "setting the clock")) };
        let middle = before + u64::try_from(took.as_nanos() / 2).unwrap_or(u64::MAX);
        let offset_ns = i64::try_from(i128::from(realtime_ns) - i128::from(middle)).unwrap_or(i64::MAX);
        bound = took / 2 + Duration::from_nanos(offset_ns.unsigned_abs());
        // An offset within the question's own uncertainty tells nothing and is left alone.
        let uncertain_ns = u64::try_from(took.as_nanos() / 2).unwrap_or(u64::MAX);
        adjust_ns = if offset_ns.unsigned_abs() > uncertain_ns { offset_ns.saturating_neg() } else { 0 };
        if bound <= CLOCK_BOUND {
            return Ok(bound);
        }
    }
    if bound <= CLOCK_BOUND {
        Ok(bound)
    } else {
        Err(GuestError::ClockUnsure { guest: plan.name.clone(), bound })
    }
}

/// What this guest shall be.
fn identity_of(plan: &GuestPlan) -> Result<Identity, GuestError> {
    let mut random = [0; ENTROPY_BYTES + 16];
    rustix::rand::getrandom(&mut random, rustix::rand::GetRandomFlags::empty()).map_err(|source| {
        GuestError::File {
            action: "draw bytes from",
            path: "the kernel's randomness".into(),
            source: source.into(),
        }
    })?;
    let (entropy, machine) = random.split_at(ENTROPY_BYTES);
    Ok(Identity {
        host_name: plan.name.clone(),
        machine_id: machine.iter().map(|byte| format!("{byte:02x}")).collect(),
        mac: plan.mac,
        address: plan.address,
        prefix: NETWORK_PREFIX,
        gateway: BRIDGE_ADDRESS,
        entropy: entropy.to_vec(),
        realtime_ns: realtime_ns(),
    })
}

fn realtime_ns() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(now.as_nanos()).unwrap_or(u64::MAX)
}

fn misplaced(plan: &GuestPlan, asked: &'static str) -> GuestError {
    GuestError::Misplaced { guest: plan.name.clone(), asked }
}

fn expect_done(plan: &GuestPlan, reply: Reply) -> Result<(), GuestError> {
    match reply {
        Reply::Done => Ok(()),
        _ => Err(misplaced(plan, "an identity")),
    }
}

pub(crate) fn expect_serving(plan: &GuestPlan, reply: Reply) -> Result<u16, GuestError> {
    match reply {
        Reply::Serving { port } => Ok(port),
        _ => Err(misplaced(plan, "starting the service")),
    }
}

/// Asks a ready guest what it says of itself.
pub fn describe(plan: &GuestPlan, session: &mut AgentSession) -> Result<Description, GuestError> {
    match session.ask(&Request::Describe, Duration::from_secs(30))? {
        Reply::Description(description) => Ok(description),
        _ => Err(misplaced(plan, "a description")),
    }
}

/// Makes many guests ready with some threads at once. The answers stand in the order of `guests`; one that failed
/// does not stop the others.
pub fn make_all_ready(
    backend: &dyn Backend,
    guests: &[Expected<'_>],
    within: Duration,
) -> Vec<Result<ReadyGuest, GuestError>> {
    let next = AtomicUsize::new(0);
    let workers = guests.len().min(WORKERS);
    let mut found: Vec<(usize, Result<ReadyGuest, GuestError>)> = thread::scope(|scope| {
        let handles: Vec<_> = (0..workers)
            .map(|_| {
                scope.spawn(|| {
                    let mut mine = Vec::new();
                    loop {
                        let index = next.fetch_add(1, Ordering::Relaxed);
                        let Some(guest) = guests.get(index) else { return mine };
                        mine.push((index, make_ready(backend, *guest, within)));
                    }
                })
            })
            .collect();
        handles.into_iter().flat_map(|handle| handle.join().expect("no step of readiness panics")).collect()
    });
    found.sort_by_key(|(index, _)| *index);
    found.into_iter().map(|(_, result)| result).collect()
}

/// Conversations at once. They wait most of the time; more threads than this only take turns on the host.
const WORKERS: usize = 64;

/// Starts a guest and makes it ready.
pub fn start_ready(
    backend: &dyn Backend,
    plan: &GuestPlan,
    service: &Service,
    mode: StartMode,
    within: Duration,
) -> Result<ReadyGuest, GuestError> {
    let id = backend.start(plan, mode)?;
    make_ready(backend, Expected { plan, id, service }, within)
}
