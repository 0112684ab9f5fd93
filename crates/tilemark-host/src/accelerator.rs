//! Times guest work on an accelerator, in a process of its own, and judges what that said.
//!
//! ```text
//! doctor ──spawns──> itself, PROBE_SUBCOMMAND ──runs──> tilemark_sys::kvm::probe ──judge──> one line of JSON
//!   └── waits PROBE_DEADLINE, then kills the child: a kernel that hangs costs seconds, not the session
//! ```

use std::io::{self, Read, Write};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use tilemark_plan::facts::{Accelerator, AcceleratorVerdict, Fact, ProbeFigures};
use tilemark_sys::kvm::{Part, ProbeError, Readings};

/// The hidden subcommand under which the program calls [`probe_child`].
pub const PROBE_SUBCOMMAND: &str = "__probe-kvm";

/// After this the child is killed. The probe's own budgets end it after 4 s; the rest is for a busy host.
pub const PROBE_DEADLINE: Duration = Duration::from_secs(15);

/// How long a killed child may take to be gone.
const KILLED_GONE_WITHIN: Duration = Duration::from_secs(1);

/// How often a verdict that a busy host may have caused is tried: three times 4 s are below [`PROBE_DEADLINE`].
const ATTEMPTS: u32 = 3;
/// Where plain instructions alone were too slow, it is tried until so much time has passed: with the 4 s of the last attempt that is below
/// [`PROBE_DEADLINE`] too. In a lab that shared two processors with two others and a compiler, three attempts in a row were all too slow.
const TRIED_FOR: Duration = Duration::from_secs(8);
/// Plain instructions so many times slower are not noise. An emulated host reached 17 while compilers ran on the machine below it; an
/// interpreting host has thousands.
const HOPELESS_RATIO: f64 = 100.0;

/// Guest time over host time for the same plain instructions, above which an accelerator is too slow.
///
/// Hardware runs guest instructions as they are: the ratio of the fastest rounds is 1 and some hundredths. Real nested paging
/// inside an emulator on an overloaded machine measured 1.3 to 1.7, an interpreting host 3,500 to 4,100
/// (docs/decisions/0013): three is far from both.
pub const PLAIN_RATIO_MAX: f64 = 3.0;

/// Guest time for a page-table write with a reload of CR3, over the host's own kernel changing a page's protection.
///
/// With nested paging in hardware (EPT, NPT) neither leaves the guest: 0.4 in a laboratory with it. Shadow paging leaves
/// at least twice each turn: 13 to 33 there without it. Measured against the host's own kernel so that a slow host as a whole
/// is not taken for a slow accelerator. At twenty, a fork or exec in a guest, a few hundred such steps, costs a guest
/// tens of times what it costs the host.
pub const TABLES_RATIO_MAX: f64 = 20.0;

/// Times KVM in a child process of this very program, which must answer [`PROBE_SUBCOMMAND`] with [`probe_child`].
pub fn probe_kvm() -> Accelerator {
    let mut command = Command::new("/proc/self/exe");
    command.arg(PROBE_SUBCOMMAND);
    probe_by(command, PROBE_DEADLINE)
}

/// Runs a command that prints an [`Accelerator`] as JSON, and kills it at the deadline.
pub fn probe_by(mut command: Command, deadline: Duration) -> Accelerator {
    let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn();
    match child {
        Err(error) => unknown(format!("the probe's process could not be started: {error}")),
        Ok(child) => answer_of(child, deadline),
    }
}

fn answer_of(mut child: Child, deadline: Duration) -> Accelerator {
    let Some(mut output) = child.stdout.take() else { return unknown("the probe's output is closed".into()) };
    let (send, receive) = mpsc::channel();
    thread::spawn(move || {
        let mut text = String::new();
        let result = output.read_to_string(&mut text).map(|_| text);
        let _ = send.send(result); // nobody listens any more after the deadline
    });
    match receive.recv_timeout(deadline) {
        Err(_) => {
            let _ = child.kill(); // it may just have ended by itself
            // Its output closes when it is gone. Where the kernel does not let it go, waiting would hang as the probe did.
            if receive.recv_timeout(KILLED_GONE_WITHIN).is_ok() {
                let _ = child.wait();
            }
            unknown(format!("the probe did not end within {} s and was killed", deadline.as_secs()))
        }
        Ok(Err(error)) => unknown(format!("the probe's answer could not be read: {error}")),
        Ok(Ok(text)) => {
            let ended = child.wait();
            serde_json::from_str(&text).unwrap_or_else(|_| match ended {
                Ok(status) => unknown(format!("the probe ended without an answer ({status})")),
                Err(error) => unknown(format!("the probe ended without an answer: {error}")),
            })
        }
    }
}

/// The child's side: probes, judges, prints one line of JSON on standard output.
///
/// # Errors
/// Where standard output cannot be written.
pub fn probe_child() -> io::Result<()> {
    let found = best_of(|| judge(&tilemark_sys::kvm::probe()), TRIED_FOR);
    let line = serde_json::to_string(&found)?;
    writeln!(io::stdout().lock(), "{line}")
}

/// Probes until an attempt finds the accelerator usable, or another one can change nothing, or there were enough of them.
fn best_of(mut probe: impl FnMut() -> Accelerator, within: Duration) -> Accelerator {
    let began = Instant::now();
    let mut found = probe();
    for attempt in 1.. {
        let has_time = is_slow_at_plain_work(&found) && began.elapsed() < within;
        if !deserves_another_try(&found) || attempt >= ATTEMPTS && !has_time {
            break;
        }
        let again = probe();
        if again.verdict == AcceleratorVerdict::Usable || found.verdict == AcceleratorVerdict::Unknown {
            found = again;
        }
    }
    found
}

/// A verdict that a busy host can have caused: guest work ran and was not far from usable.
fn deserves_another_try(found: &Accelerator) -> bool {
    let is_near = |ratio: f64| ratio < HOPELESS_RATIO || !ratio.is_finite();
    found.verdict != AcceleratorVerdict::Usable
        && found.figures.is_some()
        && plain_ratio(found).is_none_or(is_near)
}

/// Plain instructions are what other programs disturb most, and what stays slow in each attempt where it is really slow. Page tables are
/// another matter: shadow paging is near its limit, and many attempts would find one below it.
fn is_slow_at_plain_work(found: &Accelerator) -> bool {
    plain_ratio(found).is_some_and(|ratio| ratio > PLAIN_RATIO_MAX)
}

/// How many times as long plain instructions take in a guest.
fn plain_ratio(found: &Accelerator) -> Option<f64> {
    let figures = found.figures.as_ref()?;
    figures.plain_guest_ns.value().map(|ns| ns / figures.plain_host_ns)
}

fn unknown(reason: String) -> Accelerator {
    Accelerator { verdict: AcceleratorVerdict::Unknown, reason, figures: None }
}

/// What readings mean. Pure.
pub fn judge(probed: &Result<Readings, ProbeError>) -> Accelerator {
    match probed {
        Err(error) => judge_error(error),
        Ok(readings) => {
            let figures = figures(readings);
            let (verdict, reason) = match weigh(&figures) {
                Weighed::Usable(reason) => (AcceleratorVerdict::Usable, reason),
                Weighed::TooSlow(reason) => (AcceleratorVerdict::TooSlow, reason),
                Weighed::Unknown(reason) => (AcceleratorVerdict::Unknown, reason),
            };
            Accelerator { verdict, reason, figures: Some(figures) }
        }
    }
}

/// No device is absent; a device that refuses is unknown, for somebody else may be let in.
fn judge_error(error: &ProbeError) -> Accelerator {
    let verdict = match error {
        ProbeError::Open(source) if is_absent(source) => AcceleratorVerdict::Absent,
        ProbeError::Open(_) | ProbeError::Version { .. } | ProbeError::Step { .. } => {
            AcceleratorVerdict::Unknown
        }
        ProbeError::Memory(_) | ProbeError::Proof(_) => AcceleratorVerdict::Unknown,
    };
    Accelerator { verdict, reason: tilemark_units::with_causes(error), figures: None }
}

/// The device file is not there, or no driver is behind it.
fn is_absent(error: &io::Error) -> bool {
    use rustix::io::Errno;
    let absent = [Errno::NOENT, Errno::NXIO, Errno::NODEV];
    absent.iter().any(|errno| error.raw_os_error() == Some(errno.raw_os_error()))
}

enum Weighed {
    Usable(String),
    TooSlow(String),
    Unknown(String),
}

fn weigh(figures: &ProbeFigures) -> Weighed {
    if figures.plain_host_ns <= 0.0 || figures.tables_host_ns <= 0.0 {
        return Weighed::Unknown("the host's clock of processor time did not move".to_owned());
    }
    let plain = match &figures.plain_guest_ns {
        Fact::Value(ns) => ns / figures.plain_host_ns,
        Fact::Missing(reason) => return Weighed::Unknown(format!("plain guest work stopped: {reason}")),
    };
    if plain > PLAIN_RATIO_MAX {
        let and = figures.exchange_guest_ns.why_missing().map(|reason| format!("; cmpxchg16b: {reason}"));
        return Weighed::TooSlow(format!(
            "plain instructions in a guest's kernel mode are {} times slower than on the host (limit: {PLAIN_RATIO_MAX:.0}){}",
            round(plain),
            and.as_deref().unwrap_or("")
        ));
    }
    let tables = match &figures.tables_guest_ns {
        Fact::Value(ns) => ns / figures.tables_host_ns,
        Fact::Missing(reason) => return Weighed::Unknown(format!("page-table work stopped: {reason}")),
    };
    if tables > TABLES_RATIO_MAX {
        return Weighed::TooSlow(format!(
            "a page-table write in a guest takes {} times as long as on the host (limit: {TABLES_RATIO_MAX:.0})",
            round(tables)
        ));
    }
    match &figures.exchange_guest_ns {
        Fact::Missing(reason) => Weighed::Unknown(format!("cmpxchg16b stopped: {reason}")),
        Fact::Value(_) => Weighed::Usable(format!(
            "a guest's kernel mode takes {} times as long as the host for plain instructions, and {} times as long for page-table work",
            round(plain),
            round(tables)
        )),
    }
}

/// Two decimals below ten, none above.
fn round(ratio: f64) -> String {
    if ratio < 10.0 { format!("{ratio:.2}") } else { format!("{ratio:.0}") }
}

fn figures(readings: &Readings) -> ProbeFigures {
    let ns = |part: &Part| match part {
        Part::Timed(timed) => Fact::Value(timed.ns_per_turn),
        Part::Stopped(reason) => Fact::Missing(reason.clone()),
    };
    let (exit_ns_p50, exit_ns_p99, exits) = match &readings.exits {
        Ok(exits) => (Fact::Value(exits.ns_p50 as f64), Fact::Value(exits.ns_p99 as f64), exits.count),
        Err(reason) => (Fact::Missing(reason.clone()), Fact::Missing(reason.clone()), 0),
    };
    ProbeFigures {
        plain_host_ns: readings.plain_host_ns,
        plain_guest_ns: ns(&readings.plain_guest),
        tables_host_ns: readings.tables_host_ns,
        tables_guest_ns: ns(&readings.tables_guest),
        exchange_host_ns: readings.exchange_host_ns,
        exchange_guest_ns: ns(&readings.exchange_guest),
        touch_guest_ns: ns(&readings.touch_guest),
        exit_ns_p50,
        exit_ns_p99,
        exits,
        instructions: readings.instructions,
        seconds: readings.elapsed.as_secs_f64(),
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use tilemark_sys::kvm::{Exits, Timed};

    use super::*;

    fn timed(ns_per_turn: f64) -> Part {
        Part::Timed(Timed { ns_per_turn, turns: 1000 })
    }

    fn hardware() -> Readings {
        Readings {
            plain_host_ns: 1.4,
            plain_guest: timed(1.45),
            tables_host_ns: 600.0,
            tables_guest: timed(90.0),
            exchange_host_ns: 9.0,
            exchange_guest: timed(9.1),
            touch_guest: timed(900.0),
            exits: Ok(Exits { ns_p50: 1100, ns_p99: 1900, count: 9999 }),
            instructions: 8_000_000,
            elapsed: Duration::from_millis(30),
        }
    }

    fn verdict(readings: Readings) -> AcceleratorVerdict {
        judge(&Ok(readings)).verdict
    }

    #[test]
    fn guest_work_at_the_hosts_speed_is_usable() {
        assert_eq!(verdict(hardware()), AcceleratorVerdict::Usable);
    }

    #[test]
    fn an_interpreting_host_is_too_slow_and_the_missing_instruction_is_named() {
        let readings = Readings {
            plain_guest: timed(5025.0),
            exchange_guest: Part::Stopped("KVM stopped with an internal error".into()),
            ..hardware()
        };
        let found = judge(&Ok(readings));
        assert_eq!(found.verdict, AcceleratorVerdict::TooSlow);
        assert!(found.reason.contains("3589 times slower"), "{}", found.reason);
        assert!(found.reason.contains("cmpxchg16b"), "{}", found.reason);
    }

    #[test]
    fn fast_arithmetic_over_slow_page_tables_is_too_slow() {
        assert_eq!(
            verdict(Readings { tables_guest: timed(20_000.0), ..hardware() }),
            AcceleratorVerdict::TooSlow
        );
    }

    #[test]
    fn work_that_stopped_for_another_reason_than_slowness_cannot_be_judged() {
        let stopped = || Part::Stopped("lost".into());
        for readings in [
            Readings { plain_guest: stopped(), ..hardware() },
            Readings { tables_guest: stopped(), ..hardware() },
            Readings { exchange_guest: stopped(), ..hardware() },
        ] {
            assert_eq!(verdict(readings), AcceleratorVerdict::Unknown);
        }
    }

    #[test]
    fn a_host_whose_clock_did_not_move_is_not_judged_and_probed_again() {
        for readings in
            [Readings { plain_host_ns: 0.0, ..hardware() }, Readings { tables_host_ns: 0.0, ..hardware() }]
        {
            let found = judge(&Ok(readings));
            assert_eq!(found.verdict, AcceleratorVerdict::Unknown);
            assert!(deserves_another_try(&found), "{}", found.reason);
        }
    }

    #[test]
    fn no_device_is_absent_and_a_closed_one_unknown() {
        let open = |errno| judge(&Err(ProbeError::Open(io::Error::from_raw_os_error(errno))));
        let absent = open(2);
        assert_eq!(absent.verdict, AcceleratorVerdict::Absent);
        assert!(
            absent.reason.contains("/dev/kvm") && absent.reason.contains("os error 2"),
            "{}",
            absent.reason
        );
        assert_eq!(open(13).verdict, AcceleratorVerdict::Unknown);
    }

    #[test]
    fn only_what_noise_can_explain_is_tried_again() {
        let tried = |readings| deserves_another_try(&judge(&Ok(readings)));
        assert!(!tried(hardware()));
        assert!(tried(Readings { plain_guest: timed(5.0), ..hardware() }));
        assert!(tried(Readings { plain_guest: timed(17.0), ..hardware() }));
        assert!(tried(Readings { tables_guest: Part::Stopped("no time".into()), ..hardware() }));
        assert!(!tried(Readings { plain_guest: timed(5025.0), ..hardware() }));
        assert!(!deserves_another_try(&unknown("closed".into())));
    }

    #[test]
    fn a_host_that_is_busy_for_several_attempts_is_usable_in_the_end() {
        let attempts = Cell::new(0);
        let tried = |usable_at, slow: &dyn Fn() -> Readings, within| {
            attempts.set(0);
            let probe = || {
                attempts.set(attempts.get() + 1);
                judge(&Ok(if attempts.get() == usable_at { hardware() } else { slow() }))
            };
            (best_of(probe, within).verdict, attempts.get())
        };
        let plain = |ns: f64| move || Readings { plain_guest: timed(ns), ..hardware() };
        let tables = || Readings { tables_guest: timed(20_000.0), ..hardware() };
        let long = Duration::from_secs(3600);
        assert_eq!(tried(6, &plain(7.4), long), (AcceleratorVerdict::Usable, 6));
        assert_eq!(tried(6, &plain(7.4), Duration::ZERO), (AcceleratorVerdict::TooSlow, 3));
        assert_eq!(tried(6, &plain(5025.0), long), (AcceleratorVerdict::TooSlow, 1));
        assert_eq!(tried(6, &tables, long), (AcceleratorVerdict::TooSlow, 3), "shadow paging");
    }

    #[test]
    fn a_child_that_hangs_is_killed_and_one_that_says_nothing_is_unknown() {
        let mut hangs = Command::new("sleep");
        hangs.arg("1000");
        let found = probe_by(hangs, Duration::from_millis(1));
        assert_eq!(found.verdict, AcceleratorVerdict::Unknown);
        assert!(found.reason.contains("was killed"), "{}", found.reason);
        let silent = probe_by(Command::new("true"), PROBE_DEADLINE);
        assert!(silent.reason.contains("without an answer"), "{}", silent.reason);
    }

    #[test]
    fn what_the_child_prints_is_what_the_caller_gets() {
        let found = judge(&Ok(hardware()));
        let mut echo = Command::new("echo");
        echo.arg(serde_json::to_string(&found).unwrap());
        assert_eq!(probe_by(echo, PROBE_DEADLINE), found);
    }
}
