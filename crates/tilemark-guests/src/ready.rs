//! From a started guest to one that is ready: identity, clock and entropy set, the host's nonce answered over the
//! channel, one ping answered over the bridge.

use crate::{
    console::ConsoleTail,
    conversation::AgentSession,
    error::{GuestError, file},
    manager::{GuestId, GuestManager, StartMode},
};
use std::{
    num::NonZeroUsize,
    path::Path,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU16, AtomicUsize, Ordering},
    },
    thread,
    time::{Duration, Instant},
};
use tilemark_agent_protocol::{Description, Identity, Reply, Request, Service};
use tilemark_netlink::Ping;
use tilemark_plan::plan::{BRIDGE_ADDRESS, GuestPlan, NETWORK_PREFIX};
use tilemark_sys::clock::realtime_ns;
use tilemark_units::{Bytes, hex};

/// A guest's clock is set again until it is at most this far from the host's.
pub const CLOCK_BOUND: Duration = Duration::from_millis(50);
/// Bytes of entropy for each guest: twice the state of the kernel's generator, rounded up.
const ENTROPY_BYTES: usize = 64;

/// A guest that may be loaded.
#[derive(Debug)]
pub struct ReadyGuest {
    /// Its number with its manager.
    pub id: GuestId,
    /// The conversation with its agent.
    pub session: AgentSession,
    /// Where each of its services listens; 0 where one serves nobody.
    pub ports: Vec<u16>,
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
    /// Until the agent returned the nonce.
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
    /// Its number with its manager.
    pub id: GuestId,
    /// What shall run in it.
    pub service: &'a Service,
}

/// Makes one guest ready, within a time for each step.
pub fn make_ready(
    manager: &dyn GuestManager,
    guest: Expected<'_>,
    within: Duration,
) -> Result<ReadyGuest, GuestError> {
    let mut steps = ReadySteps::default();
    let start = Instant::now();
    let mut session = connect(manager, guest, within)?;
    steps.connect = start.elapsed();
    let identity = identity_of(guest.plan)?;
    let machine_id = identity.machine_id.clone();
    let asked = Instant::now();
    expect_done(guest.plan, session.ask(&Request::Become(Box::new(identity)), within)?)?;
    // The clock was set between sending and answering.
    let bound = set_clock(guest.plan, &mut session, asked.elapsed(), within)?;
    steps.identity = asked.elapsed();
    let asked = Instant::now();
    let serving = session.ask(&Request::StartService(Box::new(guest.service.clone())), within)?;
    let ports = expect_serving(guest.plan, serving, guest.service)?;
    steps.service = asked.elapsed();
    steps.ping = ping(manager, guest, within)?;
    Ok(ReadyGuest {
        id: guest.id,
        session,
        ports,
        clock_bound: bound,
        machine_id,
        ready_at: Instant::now(),
        steps,
    })
}

/// Waits for the agent: of a disk of the user's own, whose system starts it, for as long as the scenario says.
fn connect(
    manager: &dyn GuestManager,
    guest: Expected<'_>,
    within: Duration,
) -> Result<AgentSession, GuestError> {
    let Some(own) = &guest.plan.from else { return manager.connect(guest.id, within) };
    manager.connect(guest.id, own.boots_within.get()).map_err(|error| match error {
        // What was left of the time when it was called is of no interest.
        GuestError::Silent { guest, console, .. } => {
            GuestError::NoAgent { guest, disk: own.path.clone(), within: own.boots_within.get(), console }
        }
        error => error,
    })
}

fn ping(manager: &dyn GuestManager, guest: Expected<'_>, within: Duration) -> Result<Duration, GuestError> {
    if !manager.has_network() {
        return Ok(Duration::ZERO);
    }
    static NEXT: AtomicU16 = AtomicU16::new(1);
    let socket = Ping::open(NEXT.fetch_add(1, Ordering::Relaxed))
        .map_err(file("open", Path::new("an ICMP socket")))?;
    socket.ask(guest.plan.address, within).map_err(|source| GuestError::Unreachable {
        guest: guest.plan.name.clone(),
        console: manager.console(guest.id).map_or_else(
            |_| ConsoleTail { path: "(none)".into(), lines: Vec::new() },
            |path| ConsoleTail::read(&path),
        ),
        source,
    })
}

/// Brings the clock's bound under the limit. Each question gives an interval in which the offset must lie (the guest
/// read its clock between question and answer); all intervals together are narrower than any of them, so it also
/// works while the host is busy and every answer is late.
fn set_clock(
    plan: &GuestPlan,
    session: &mut AgentSession,
    first_bound: Duration,
    within: Duration,
) -> Result<Duration, GuestError> {
    let mut known = ClockOffset::unknown();
    let mut bound = first_bound;
    let deadline = Instant::now() + within;
    while bound > CLOCK_BOUND {
        let adjust_ns = known.correction();
        let before = realtime_ns();
        let reply = session.ask(&Request::Clock { adjust_ns }, within)?;
        let after = realtime_ns();
        let Reply::Clock { realtime_ns } = reply else { return Err(misplaced(plan, "setting the clock")) };
        known.moved(adjust_ns);
        known.narrow(realtime_ns, before, after);
        bound = known.bound();
        if Instant::now() > deadline {
            return Err(GuestError::ClockUnsure { guest: plan.name.clone(), bound });
        }
    }
    Ok(bound)
}

/// What is known of a guest's clock minus the host's, in nanoseconds: it lies between these two.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct ClockOffset {
    least: i128,
    most: i128,
}

impl ClockOffset {
    fn unknown() -> Self {
        // Far beyond any clock, and far from overflowing.
        Self { least: -(1 << 100), most: 1 << 100 }
    }

    /// The guest read `guest` at some moment between `before` and `after` on the host. Where that cannot be true beside
    /// what was known, one of the two clocks was moved meanwhile, and only the newest answer counts.
    fn narrow(&mut self, guest: u64, before: u64, after: u64) {
        let of_answer = Self {
            least: i128::from(guest) - i128::from(after),
            most: i128::from(guest) - i128::from(before),
        };
        let both = Self { least: self.least.max(of_answer.least), most: self.most.min(of_answer.most) };
        *self = if both.least <= both.most { both } else { of_answer };
    }

    /// The guest's clock was moved.
    fn moved(&mut self, by_ns: i64) {
        self.least += i128::from(by_ns);
        self.most += i128::from(by_ns);
    }

    /// By what to move it so that the middle of what is known becomes nothing; 0 while little is known.
    fn correction(&self) -> i64 {
        if self.most - self.least > 1 << 62 {
            return 0;
        }
        i64::try_from(-(self.most + self.least) / 2).unwrap_or(0)
    }

    /// How far off it can be at most.
    fn bound(&self) -> Duration {
        let worst = self.most.unsigned_abs().max(self.least.unsigned_abs());
        Duration::from_nanos(u64::try_from(worst).unwrap_or(u64::MAX))
    }
}

/// What this guest shall be.
fn identity_of(plan: &GuestPlan) -> Result<Identity, GuestError> {
    let mut random = [0; ENTROPY_BYTES + 16];
    rustix::rand::getrandom(&mut random, rustix::rand::GetRandomFlags::empty())
        .map_err(file("draw bytes from", Path::new("the kernel's randomness")))?;
    let (entropy, machine) = random.split_at(ENTROPY_BYTES);
    Ok(Identity {
        host_name: plan.name.clone(),
        machine_id: hex(machine),
        mac: plan.mac,
        address: plan.address,
        prefix: plan.network.map_or(NETWORK_PREFIX, |network| network.prefix),
        gateway: plan.network.map_or(BRIDGE_ADDRESS, |network| network.host),
        asks: plan.asks,
        entropy: entropy.to_vec(),
        realtime_ns: realtime_ns(),
    })
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

pub(crate) fn expect_serving(
    plan: &GuestPlan,
    reply: Reply,
    asked: &Service,
) -> Result<Vec<u16>, GuestError> {
    match reply {
        Reply::Serving { ports } if ports.len() == 1 + asked.then.len() => Ok(ports),
        _ => Err(misplaced(plan, "starting the service")),
    }
}

/// Asks a ready guest what it says about itself.
pub fn describe(plan: &GuestPlan, session: &mut AgentSession) -> Result<Description, GuestError> {
    match session.ask(&Request::Describe, Duration::from_secs(30))? {
        Reply::Description(description) => Ok(description),
        _ => Err(misplaced(plan, "a description")),
    }
}

/// One guest to be started and made ready.
#[derive(Debug, Clone, Copy)]
pub struct Wanted<'a> {
    /// Its plan.
    pub plan: &'a GuestPlan,
    /// How it is started.
    pub mode: StartMode,
    /// What shall run in it.
    pub service: &'a Service,
}

/// What is heard of each guest while many start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StartEvent {
    /// It exists, ready or not: whoever started it must end it.
    Exists(GuestId),
    /// It has become ready.
    Ready,
}

/// Starts many guests and makes them ready, some at once: a guest is ready before many others begin, so that their starts
/// do not all contend for the host. They come back in the order of `guests`.
///
/// # Errors
/// The first that failed, after which no further guest is begun: each of hundreds may take its whole time to fail.
pub fn start_all_ready(
    manager: &dyn GuestManager,
    guests: &[Wanted<'_>],
    within: Duration,
    hear: &(dyn Fn(StartEvent) + Sync),
) -> Result<Vec<ReadyGuest>, GuestError> {
    let all = start_all_ready_while(&|| true, manager, guests, within, hear)?;
    Ok(all.unwrap_or_default())
}

/// The same; nothing where they are no longer wanted, which is asked before each. Those that began are made ready.
///
/// # Errors
/// The first that failed.
pub fn start_all_ready_while(
    are_wanted: &(dyn Fn() -> bool + Sync),
    manager: &dyn GuestManager,
    guests: &[Wanted<'_>],
    within: Duration,
    hear: &(dyn Fn(StartEvent) + Sync),
) -> Result<Option<Vec<ReadyGuest>>, GuestError> {
    let has_failed = AtomicBool::new(false);
    let one = |guest: &Wanted<'_>| {
        let id = manager.start(guest.plan, guest.mode)?;
        hear(StartEvent::Exists(id));
        let expected = Expected { plan: guest.plan, id, service: guest.service };
        make_ready(manager, expected, within).inspect(|_| hear(StartEvent::Ready))
    };
    let unless_failed = |guest: &Wanted<'_>| {
        if has_failed.load(Ordering::Relaxed) || !are_wanted() {
            return None;
        }
        Some(one(guest).inspect_err(|_| has_failed.store(true, Ordering::Relaxed)))
    };
    let ready: Vec<ReadyGuest> =
        at_once(starts(), guests, unless_failed).into_iter().flatten().collect::<Result<_, _>>()?;
    // Where none failed, one is left out only if it was not wanted.
    Ok((ready.len() == guests.len()).then_some(ready))
}

/// Guests that are being started at once: four for each processor of the host.
fn starts() -> usize {
    4 * thread::available_parallelism().map_or(1, NonZeroUsize::get)
}

/// Has each guest write its plan's working set, some at once, all before one deadline. `plans` are those of `guests`, in their order.
///
/// # Errors
/// The first that did not: one that has not so much memory, has ended, or does not answer in time.
pub fn write_working_sets(
    guests: &mut [ReadyGuest],
    plans: &[GuestPlan],
    within: Duration,
) -> Result<(), GuestError> {
    let deadline = Instant::now() + within;
    let wanted = guests.iter_mut().zip(plans).filter(|(_, plan)| plan.working_set > Bytes::default());
    let wanted: Vec<_> = wanted.map(Mutex::new).collect();
    let one = |wanted: &Mutex<(&mut ReadyGuest, &GuestPlan)>| {
        let mut wanted = wanted.lock().unwrap_or_else(PoisonError::into_inner);
        let (guest, plan) = &mut *wanted;
        let left = deadline.saturating_duration_since(Instant::now());
        expect_done(plan, guest.session.ask(&Request::TouchMemory(plan.working_set), left)?)
    };
    at_once(starts(), &wanted, one).into_iter().collect()
}

/// Ends all these guests and waits until they are gone, with an outcome for each in its place. Most of an end is
/// waiting for the kernel to take a network namespace apart, which it does for many as fast as for one.
pub fn stop_all(manager: &dyn GuestManager, guests: &[GuestId]) -> Vec<Result<(), GuestError>> {
    at_once(STOPS, guests, |guest| manager.stop(*guest))
}

/// Does something for each, for at most `workers` at once; results in their order.
fn at_once<I: Sync, R: Send>(workers: usize, items: &[I], each: impl Fn(&I) -> R + Sync) -> Vec<R> {
    let next = AtomicUsize::new(0);
    let mut found: Vec<(usize, R)> = thread::scope(|scope| {
        let work = || {
            let mut mine = Vec::new();
            loop {
                let index = next.fetch_add(1, Ordering::Relaxed);
                let Some(item) = items.get(index) else { return mine };
                mine.push((index, each(item)));
            }
        };
        let handles: Vec<_> = (0..items.len().min(workers)).map(|_| scope.spawn(work)).collect();
        let join = |handle: thread::ScopedJoinHandle<'_, _>| {
            handle.join().expect("no step of a guest's life panics")
        };
        handles.into_iter().flat_map(join).collect()
    });
    found.sort_by_key(|(index, _)| *index);
    found.into_iter().map(|(_, result)| result).collect()
}

/// Guests that are being ended at once.
const STOPS: usize = 64;

/// Starts a guest and makes it ready.
pub fn start_ready(
    manager: &dyn GuestManager,
    plan: &GuestPlan,
    service: &Service,
    mode: StartMode,
    within: Duration,
) -> Result<ReadyGuest, GuestError> {
    let id = manager.start(plan, mode)?;
    make_ready(manager, Expected { plan, id, service }, within)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn late_answers_narrow_the_offset_together() {
        let mut known = ClockOffset::unknown();
        assert_eq!(known.correction(), 0);
        // The guest is 1,000 ahead. One answer was slow on the way there, one on the way back.
        known.narrow(5_000 + 1_000, 4_900, 5_010);
        known.narrow(6_000 + 1_000, 5_995, 6_900);
        assert_eq!(known, ClockOffset { least: 990, most: 1_005 });
        let correction = known.correction();
        assert_eq!(correction, -997);
        known.moved(correction);
        assert!(known.bound() <= Duration::from_nanos(8), "{known:?}");
    }

    #[test]
    fn an_answer_that_contradicts_the_others_is_the_only_one_that_counts() {
        let mut known = ClockOffset::unknown();
        known.narrow(6_000, 4_990, 5_010);
        // Something moved the guest's clock back by 900.
        known.narrow(7_100, 6_990, 7_010);
        assert_eq!(known, ClockOffset { least: 90, most: 110 });
    }
}
