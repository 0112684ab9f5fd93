//! What the probe runs, natively and in the guest in turn, and what it reads from the clock.

use std::hint::black_box;
use std::thread;
use std::time::{Duration, Instant};

use kvm_bindings::kvm_regs;
use rustix::mm::{MapFlags, MprotectFlags, ProtFlags, mmap_anonymous, mprotect, munmap};

use super::code::{Routine, Scratch};
use super::guest::{
    End, FRAME_WORDS, FRAMES, Guest, PRESENT_WRITABLE, ProbeError, SCRATCH, Stretch, TOUCH_PAGES,
    TOUCH_START, WINDOW, WINDOW_LEVEL_1,
};
use super::kick::{Kicker, install_handler, thread_time};

/// Rounds of each timed loop, guest and host in turn; the fastest counts, so that a busy host does not look slow.
const ROUNDS: u32 = 10;
/// Turns of the plain loop in a round: 4 million instructions, about a millisecond on hardware, so that the exit at the
/// end of a round, tens of microseconds where hosts are nested, hardly counts.
const PLAIN_TURNS: u64 = 500_000;
/// Instructions in a turn of the plain loop.
const PLAIN_INSTRUCTIONS: u64 = 8;
/// Page-table turns in a round.
const TABLE_TURNS: u64 = 2_000;
/// `cmpxchg16b` turns in a round.
const EXCHANGE_TURNS: u64 = 20_000;
/// Port writes, each timed alone.
const EXITS: u64 = 10_000;

/// For three instructions. A busy host takes hundreds of milliseconds to get there, so a short budget would call its KVM unusable.
const PROOF_BUDGET: Duration = Duration::from_secs(2);
// Budgets of what is timed, together under 2 s. What takes longer is cut there and judged by how far it came.
const EXITS_BUDGET: Duration = Duration::from_millis(250);
const PLAIN_BUDGET: Duration = Duration::from_millis(500);
const TABLES_BUDGET: Duration = Duration::from_millis(350);
const TOUCH_BUDGET: Duration = Duration::from_millis(250);
const EXCHANGE_BUDGET: Duration = Duration::from_millis(250);

/// Guest work that was timed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Timed {
    /// Nanoseconds for one turn: of the fastest whole round, or of the one round that the budget cut.
    pub ns_per_turn: f64,
    /// Turns done in all rounds.
    pub turns: u64,
}

/// One part of the probe.
#[derive(Clone, Debug, PartialEq)]
pub enum Part {
    /// It ran.
    Timed(Timed),
    /// It did not, and why.
    Stopped(String),
}

/// Exits from guest to this program and back.
#[derive(Clone, Debug, PartialEq)]
pub struct Exits {
    /// Median, in nanoseconds.
    pub ns_p50: u64,
    /// 99th percentile, in nanoseconds.
    pub ns_p99: u64,
    /// How many were timed.
    pub count: u64,
}

/// Everything that was measured.
#[derive(Clone, Debug, PartialEq)]
pub struct Readings {
    /// A turn of the plain loop on the host, in nanoseconds, fastest round; 0 where its clock did not move.
    pub plain_host_ns: f64,
    /// The plain loop in the guest.
    pub plain_guest: Part,
    /// A change of a page's protection by the host's kernel with one access, in nanoseconds, fastest round.
    pub tables_host_ns: f64,
    /// A page-table write, a reload of CR3 and a checked access in the guest.
    pub tables_guest: Part,
    /// A `cmpxchg16b` on the host, in nanoseconds, fastest round.
    pub exchange_host_ns: f64,
    /// A `cmpxchg16b` in the guest.
    pub exchange_guest: Part,
    /// First touch of a page of guest memory.
    pub touch_guest: Part,
    /// Exits, or why there were none.
    pub exits: Result<Exits, String>,
    /// Plain guest instructions run.
    pub instructions: u64,
    /// How long all of it took.
    pub elapsed: Duration,
}

/// Runs the probe on the calling thread. It takes about 20 ms on hardware and at most about 4 s, of which the first 2 s are for a host that
/// is slow to run guest code at all.
///
/// Sets a handler for a real-time signal in the process. A kernel that ignores signals can hold it for ever, so call it in a
/// process that somebody else can kill.
///
/// # Errors
/// [`ProbeError`] where no guest code could be run at all; a part that fails later is [`Part::Stopped`].
pub fn probe() -> Result<Readings, ProbeError> {
    install_handler().map_err(|source| ProbeError::Step { step: "setting a signal handler", source })?;
    let kicker = Kicker::for_this_thread();
    thread::scope(|scope| {
        scope.spawn(|| kicker.watch());
        let readings = Guest::create(&kicker).and_then(|mut guest| measure(&mut guest));
        kicker.end();
        readings
    })
}

fn measure(guest: &mut Guest) -> Result<Readings, ProbeError> {
    let start = Instant::now();
    prove(guest)?;
    let exits = time_exits(guest);
    let mut scratch = Scratch::new();
    let in_scratch = |turns| kvm_regs { rdi: SCRATCH, rsi: turns, ..Default::default() };
    let plain = in_turn(guest, Routine::Plain, in_scratch(PLAIN_TURNS), PLAIN_BUDGET, &mut |turns| {
        scratch.plain(turns)
    });
    let mut page = Page::new().map_err(|source| ProbeError::Step { step: "mapping a page", source })?;
    let tables = in_turn(guest, Routine::Tables, window(), TABLES_BUDGET, &mut |turns| page.change(turns));
    let touch = kvm_regs { rdi: TOUCH_START, rsi: TOUCH_PAGES, ..Default::default() };
    let touch_guest =
        Rounds::default().with(&guest.run(Routine::Touch, touch, TOUCH_BUDGET, &mut |_| ())).part();
    // Last, because an interpreting host gives up here.
    let exchange =
        in_turn(guest, Routine::Exchange, in_scratch(EXCHANGE_TURNS), EXCHANGE_BUDGET, &mut |turns| {
            scratch.exchange(turns);
        });
    Ok(Readings {
        plain_host_ns: plain.host_ns,
        instructions: plain.guest.turns * PLAIN_INSTRUCTIONS,
        plain_guest: plain.guest.part(),
        tables_host_ns: tables.host_ns,
        tables_guest: tables.guest.part(),
        exchange_host_ns: exchange.host_ns,
        exchange_guest: exchange.guest.part(),
        touch_guest,
        exits,
        elapsed: start.elapsed(),
    })
}

/// One turn of the exits: 42 must arrive.
fn prove(guest: &mut Guest) -> Result<(), ProbeError> {
    let mut arrived = 0;
    let once = kvm_regs { rsi: 1, ..Default::default() };
    let stretch = guest.run(Routine::Exits, once, PROOF_BUDGET, &mut |_| arrived += 1);
    match stretch.end {
        End::Finished if arrived == 1 => Ok(()),
        End::Finished => Err(ProbeError::Proof(format!("it wrote {arrived} times"))),
        End::OutOfTime => Err(ProbeError::Proof(format!("three instructions took over {PROOF_BUDGET:?}"))),
        End::Stopped(reason) => Err(ProbeError::Proof(reason)),
    }
}

fn time_exits(guest: &mut Guest) -> Result<Exits, String> {
    let mut took_ns: Vec<u64> = Vec::with_capacity(EXITS as usize);
    let mut last: Option<Instant> = None;
    let turns = kvm_regs { rsi: EXITS, ..Default::default() };
    let stretch = guest.run(Routine::Exits, turns, EXITS_BUDGET, &mut |now| {
        if let Some(before) = last.replace(now) {
            took_ns.push(u64::try_from((now - before).as_nanos()).unwrap_or(u64::MAX));
        }
    });
    if let End::Stopped(reason) = stretch.end {
        return Err(reason);
    }
    took_ns.sort_unstable();
    let Some(&ns_p99) = took_ns.get(took_ns.len() * 99 / 100) else {
        return Err(format!("fewer than two exits in {EXITS_BUDGET:?}"));
    };
    // Of an even number, the middle of the two in the middle.
    let ns_p50 = took_ns[(took_ns.len() - 1) / 2].midpoint(took_ns[took_ns.len() / 2]);
    Ok(Exits { ns_p50, ns_p99, count: took_ns.len() as u64 })
}

/// The same work on both sides.
struct InTurn {
    host_ns: f64,
    guest: Rounds,
}

fn in_turn(
    guest: &mut Guest,
    routine: Routine,
    registers: kvm_regs,
    budget: Duration,
    native: &mut dyn FnMut(u64),
) -> InTurn {
    let deadline = Instant::now() + budget;
    let mut rounds = Rounds::default();
    let mut host_ns: Option<f64> = None;
    for _ in 0..ROUNDS {
        let start = thread_time();
        native(registers.rsi);
        let ns = (thread_time() - start).as_nanos() as f64 / registers.rsi as f64;
        // An overloaded emulator's clock may not move at all: that is no reading.
        host_ns = [host_ns, Some(ns).filter(|ns| *ns > 0.0)].into_iter().flatten().reduce(f64::min);
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            break;
        }
        let stretch = guest.run(routine, registers, left, &mut |_| ());
        let finished = stretch.end == End::Finished;
        rounds = rounds.with(&stretch);
        if !finished {
            break;
        }
    }
    InTurn { host_ns: host_ns.unwrap_or(0.0), guest: rounds }
}

/// Rounds of one part in the guest.
#[derive(Default)]
struct Rounds {
    fastest_ns: Option<f64>,
    cut_ns: Option<f64>,
    turns: u64,
    stopped: Option<String>,
}

impl Rounds {
    fn with(mut self, stretch: &Stretch) -> Self {
        self.turns += stretch.turns;
        let ns = stretch.used.as_nanos() as f64 / stretch.turns as f64;
        match &stretch.end {
            End::Finished if ns == 0.0 => {}
            End::Finished => self.fastest_ns = Some(self.fastest_ns.map_or(ns, |fastest| fastest.min(ns))),
            End::OutOfTime if stretch.turns > 0 => self.cut_ns = Some(ns),
            End::OutOfTime => self.stopped = Some(format!("not one turn in {:?}", stretch.elapsed)),
            End::Stopped(reason) => self.stopped = Some(reason.clone()),
        }
        self
    }

    fn part(self) -> Part {
        match (self.fastest_ns.or(self.cut_ns), self.stopped) {
            (_, Some(reason)) => Part::Stopped(reason),
            (Some(ns_per_turn), None) => Part::Timed(Timed { ns_per_turn, turns: self.turns }),
            (None, None) => Part::Stopped("no round was timed within its budget".into()),
        }
    }
}

/// The registers of [`Routine::Tables`]. The first turn writes the second frame's entry.
fn window() -> kvm_regs {
    kvm_regs {
        rdi: WINDOW_LEVEL_1,
        rsi: TABLE_TURNS,
        rdx: WINDOW,
        r8: FRAMES[1] | PRESENT_WRITABLE,
        r9: FRAMES[0] | PRESENT_WRITABLE,
        r10: FRAME_WORDS[1],
        r11: FRAME_WORDS[0],
        ..Default::default()
    }
}

/// A page of this process whose protection the host's kernel changes: what the host can do that is most like
/// [`Routine::Tables`], for user mode may not write page tables.
struct Page {
    address: *mut std::ffi::c_void,
}

const PAGE_BYTES: usize = 4096;

impl Page {
    fn new() -> Result<Self, std::io::Error> {
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new private mapping at an address that the kernel chooses touches nothing that exists.
        let address =
            unsafe { mmap_anonymous(std::ptr::null_mut(), PAGE_BYTES, protection, MapFlags::PRIVATE) }?;
        // SAFETY: the page is ours and writable. It is written once so that later turns do not count its first fault.
        unsafe { address.cast::<u64>().write_volatile(1) };
        Ok(Self { address })
    }

    /// One change of protection and one read a turn.
    fn change(&mut self, turns: u64) {
        for turn in 0..turns {
            let protection =
                if turn % 2 == 0 { MprotectFlags::READ } else { MprotectFlags::READ | MprotectFlags::WRITE };
            // SAFETY: the page is ours, nobody writes to it, and it can be read under both protections. The change is the
            // work that is timed.
            if unsafe { mprotect(self.address, PAGE_BYTES, protection) }.is_err() {
                return; // the host's figure comes out too fast, which only makes the guest look slower
            }
            // SAFETY: as above.
            black_box(unsafe { self.address.cast::<u64>().read_volatile() });
        }
    }
}

impl Drop for Page {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours and nothing points into it any more.
        let _ = unsafe { munmap(self.address, PAGE_BYTES) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stretch(end: End, turns: u64, ms: u64) -> Stretch {
        Stretch { end, turns, elapsed: Duration::from_millis(ms), used: Duration::from_millis(ms) }
    }

    #[test]
    fn the_fastest_whole_round_counts() {
        let rounds = Rounds::default()
            .with(&stretch(End::Finished, 1000, 3))
            .with(&stretch(End::Finished, 1000, 2))
            .with(&stretch(End::OutOfTime, 10, 1));
        assert_eq!(rounds.part(), Part::Timed(Timed { ns_per_turn: 2000.0, turns: 2010 }));
    }

    #[test]
    fn a_round_in_which_the_clock_did_not_move_is_no_reading() {
        let still = || Rounds::default().with(&stretch(End::Finished, 1000, 0));
        assert!(matches!(still().part(), Part::Stopped(_)));
        let moved = still().with(&stretch(End::Finished, 1000, 2)).part();
        assert_eq!(moved, Part::Timed(Timed { ns_per_turn: 2000.0, turns: 2000 }));
    }

    #[test]
    fn a_round_that_was_cut_counts_by_how_far_it_came() {
        let rounds = Rounds::default().with(&stretch(End::OutOfTime, 50, 100));
        assert_eq!(rounds.part(), Part::Timed(Timed { ns_per_turn: 2_000_000.0, turns: 50 }));
    }

    #[test]
    fn a_vcpu_that_stopped_has_no_figure_even_after_whole_rounds() {
        let rounds = Rounds::default().with(&stretch(End::Finished, 1000, 3)).with(&stretch(
            End::Stopped("lost".into()),
            1,
            1,
        ));
        assert_eq!(rounds.part(), Part::Stopped("lost".into()));
    }

    #[test]
    fn no_turn_at_all_has_no_figure() {
        let rounds = Rounds::default().with(&stretch(End::OutOfTime, 0, 100));
        assert_eq!(rounds.part(), Part::Stopped("not one turn in 100ms".into()));
    }
}
