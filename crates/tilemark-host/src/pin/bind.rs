//! Guests are bound, and their old binding is restored.

use std::collections::BTreeSet;
use std::io;

use rustix::io::Errno;
use serde::Serialize;
use tilemark_plan::facts::Fact;
use tilemark_units::ranges;

use super::PinError;
use super::journal::{PinJournal, PinnedGuest, PinnedThread};
use super::map::{Machine, PinMap, Target};
use super::processes::{KernelThreads, Processes, Thread, guests, kernel_threads, start_ticks, threads};

/// How often a guest is looked at for threads that it started meanwhile: one that has more is caught by the next call.
const ROUNDS: u32 = 5;

/// A guest that is where the file wants it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Pinned {
    /// Its name.
    pub name: String,
    /// Its process.
    pub pid: u32,
    /// The processors, as the kernel lists them.
    pub processors: String,
    /// The nodes.
    pub nodes: String,
    /// How many threads it has.
    pub threads: usize,
    /// How many of them were bound by this call: 0 for a guest that was there already.
    pub bound: usize,
    /// What the kernel did otherwise.
    pub notes: Vec<String>,
}

/// A guest that could not be bound: it is restored.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Refused {
    /// Its name.
    pub name: String,
    /// Its process.
    pub pid: u32,
    /// Why.
    pub why: String,
    /// What to do.
    pub remedy: String,
}

/// What came of one call.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct PinReport {
    /// Guests that are where they belong.
    pub pinned: Vec<Pinned>,
    /// Guests that could not be bound.
    pub refused: Vec<Refused>,
    /// Running guests that no line names.
    pub left_alone: Vec<String>,
}

/// Guests whose memory has followed them, by process and start.
pub type Followed = BTreeSet<(u32, u64)>;

/// Binds every running guest that a line names. Guests that were bound before stay in the journal with what they had first.
///
/// # Errors
/// Where guests cannot be found or the journal cannot be written. What was bound by then is in the journal.
pub fn pin(processes: &dyn Processes, journal: &PinJournal, map: &PinMap) -> Result<PinReport, PinError> {
    pin_again(processes, journal, map, &mut Followed::new())
}

/// The same, again and again: memory is moved for a guest that has not `followed`, and for one of which a thread is bound.
///
/// # Errors
/// As [`pin`].
pub fn pin_again(
    processes: &dyn Processes,
    journal: &PinJournal,
    map: &PinMap,
    followed: &mut Followed,
) -> Result<PinReport, PinError> {
    let host = processes.host();
    let machine = Machine::of(host);
    let mut held = journal.guests()?;
    held.retain(|guest| start_ticks(host, guest.pid) == Some(guest.start_ticks));
    let of_kernel = kernel_threads(host);
    let mut report = PinReport::default();
    for guest in guests(host)? {
        let Fact::Value(name) = guest.name else { continue };
        let Some(target) = map.target_of(&name) else {
            report.left_alone.push(name);
            continue;
        };
        // One that has ended meanwhile needs no place.
        let Some(start_ticks) = start_ticks(host, guest.pid) else { continue };
        let before = held.iter().find(|held| held.is(guest.pid, start_ticks)).cloned();
        let fresh = || PinnedGuest { name: name.clone(), pid: guest.pid, start_ticks, threads: Vec::new() };
        let before = before.unwrap_or_else(fresh);
        let mut binding = Binding {
            processes,
            journal,
            target,
            of_kernel: &of_kernel,
            others: held.iter().filter(|held| !held.is(guest.pid, start_ticks)).cloned().collect(),
            guest: before.clone(),
            before,
            bound: Vec::new(),
        };
        let is_first = followed.insert((guest.pid, start_ticks));
        let outcome = binding.follow(&machine, is_first)?;
        held = binding.whole();
        match outcome {
            Outcome::Pinned(pinned) => report.pinned.push(pinned),
            Outcome::Refused(refused) => report.refused.push(refused),
            Outcome::Ended => {}
        }
    }
    Ok(report)
}

enum Outcome {
    Pinned(Pinned),
    Refused(Refused),
    Ended,
}

/// One guest on its way to its place.
struct Binding<'p> {
    processes: &'p dyn Processes,
    journal: &'p PinJournal,
    target: &'p Target,
    of_kernel: &'p KernelThreads,
    /// All other guests of the journal.
    others: Vec<PinnedGuest>,
    guest: PinnedGuest,
    /// The same before this call.
    before: PinnedGuest,
    /// Threads that were bound by this call, and what they might use just before.
    bound: Vec<(Thread, BTreeSet<u32>)>,
}

impl Binding<'_> {
    /// `is_first`: its memory may be elsewhere although its threads are there, as where a call was killed between the two.
    fn follow(&mut self, machine: &Machine, is_first: bool) -> Result<Outcome, PinError> {
        let mut all = Vec::new();
        for _ in 0..ROUNDS {
            all = threads(self.processes.host(), self.guest.pid, self.of_kernel);
            let wanting = self.wanting(&all);
            if wanting.is_empty() {
                break;
            }
            self.note(&wanting)?;
            for (thread, now) in wanting {
                match self.processes.bind(thread.tid, &self.target.processors) {
                    Ok(()) => self.bound.push((thread, now)),
                    Err(error) if is_gone(&error) => {}
                    Err(error) => return self.refuse(&error),
                }
            }
        }
        if start_ticks(self.processes.host(), self.guest.pid) != Some(self.guest.start_ticks) {
            self.guest.threads.clear();
            self.write()?;
            return Ok(Outcome::Ended);
        }
        let mut notes = self.read_back()?;
        if is_first || !self.bound.is_empty() {
            notes.extend(self.bring_memory(machine));
        }
        Ok(Outcome::Pinned(Pinned {
            name: self.guest.name.clone(),
            pid: self.guest.pid,
            processors: ranges(&self.target.processors),
            nodes: ranges(&self.target.nodes),
            threads: all.len(),
            bound: self.bound.len(),
            notes,
        }))
    }

    /// Threads that are not where they belong, with what they may use now. One that the kernel bound more narrowly than we asked is not
    /// bound again.
    fn wanting(&self, all: &[Thread]) -> Vec<(Thread, BTreeSet<u32>)> {
        let wanting = all.iter().filter_map(|thread| {
            let now = self.processes.affinity(thread.tid).ok()?;
            let is_ours = self.bound.iter().any(|(bound, _)| bound == thread);
            (now != self.target.processors && !is_ours).then(|| (thread.clone(), now))
        });
        wanting.collect()
    }

    /// Writes into the journal what these threads had, before they are touched.
    fn note(&mut self, wanting: &[(Thread, BTreeSet<u32>)]) -> Result<(), PinError> {
        // A thread that began after an earlier call inherited its place.
        let main = self.guest.threads.first().cloned();
        for (thread, now) in wanting {
            let inherited = main.as_ref().filter(|main| main.is_ours(now));
            let known = self
                .guest
                .threads
                .iter_mut()
                .find(|known| (known.tid, known.start_ticks) == (thread.tid, thread.start_ticks));
            match known {
                Some(known) => {
                    // Ours from an earlier call: what was there first is what counts. Else somebody else has bound it since.
                    known.set_before = known.is_ours(now).then(|| now.clone());
                    if known.set_before.is_none() {
                        known.found.clone_from(now);
                    }
                    known.set.clone_from(&self.target.processors);
                }
                None => self.guest.threads.push(PinnedThread {
                    tid: thread.tid,
                    start_ticks: thread.start_ticks,
                    found: inherited.map_or(now, |main| &main.found).clone(),
                    set: self.target.processors.clone(),
                    set_before: inherited.map(|_| now.clone()),
                }),
            }
        }
        self.write()
    }

    /// Puts what the kernel made of it into the journal, and says where it is not what was asked.
    fn read_back(&mut self) -> Result<Vec<String>, PinError> {
        let mut narrower = BTreeSet::new();
        // All are at the target now, those too that a killed call had brought there.
        let mut was_elsewhere = false;
        for known in self.guest.threads.iter_mut().filter(|known| known.set_before.is_some()) {
            known.set_before = None;
            known.set.clone_from(&self.target.processors);
            was_elsewhere = true;
        }
        for (thread, _) in &self.bound {
            let Ok(now) = self.processes.affinity(thread.tid) else { continue };
            if now == self.target.processors {
                continue;
            }
            narrower.insert(ranges(&now));
            for known in self.guest.threads.iter_mut().filter(|known| known.tid == thread.tid) {
                known.set.clone_from(&now);
            }
        }
        if was_elsewhere || !narrower.is_empty() {
            self.write()?;
        }
        if narrower.is_empty() {
            return Ok(Vec::new());
        }
        let got = narrower.into_iter().collect::<Vec<_>>().join(" and ");
        Ok(vec![format!("its control group (cpuset) has fewer processors than asked: threads may use {got}")])
    }

    fn bring_memory(&self, machine: &Machine) -> Option<String> {
        let from: BTreeSet<u32> =
            machine.nodes.keys().copied().filter(|node| !self.target.nodes.contains(node)).collect();
        if from.is_empty() {
            return None;
        }
        match self.processes.move_memory(self.guest.pid, &from, &self.target.nodes) {
            Ok(0) => None,
            Ok(pages) => Some(format!("{pages} pages could not be moved from node {}", ranges(&from))),
            Err(error) => Some(format!("its memory stays where it is: {error}")),
        }
    }

    /// Undoes what this call bound: a guest is bound whole or not at all.
    fn refuse(&mut self, error: &io::Error) -> Result<Outcome, PinError> {
        for (thread, before) in self.bound.drain(..).collect::<Vec<_>>() {
            // One that has ended needs nothing, and any other error would come again.
            let _ = self.processes.bind(thread.tid, &before);
        }
        let is_still_bound = |thread: &PinnedThread| {
            thread.found != thread.set
                && self.processes.affinity(thread.tid).is_ok_and(|now| now == thread.set)
        };
        let mut threads = self.before.threads.clone();
        threads.retain(|known| {
            !self.guest.threads.iter().any(|new| new.tid == known.tid && is_still_bound(new))
        });
        threads.extend(self.guest.threads.iter().filter(|new| is_still_bound(new)).cloned());
        self.guest.threads = threads;
        self.write()?;
        Ok(Outcome::Refused(Refused {
            name: self.guest.name.clone(),
            pid: self.guest.pid,
            why: format!("cannot bind it to processors {}: {error}", ranges(&self.target.processors)),
            remedy: remedy(error).to_owned(),
        }))
    }

    /// All guests of the journal.
    fn whole(&self) -> Vec<PinnedGuest> {
        let guest = (!self.guest.threads.is_empty()).then(|| self.guest.clone());
        self.others.iter().cloned().chain(guest).collect()
    }

    fn write(&self) -> Result<(), PinError> {
        self.journal.write(&self.whole())
    }
}

pub(super) fn is_gone(error: &io::Error) -> bool {
    error.raw_os_error() == Some(Errno::SRCH.raw_os_error())
}

fn remedy(error: &io::Error) -> &'static str {
    match Errno::from_io_error(error) {
        Some(Errno::PERM | Errno::ACCESS) => "run as root: the guest belongs to another user",
        Some(Errno::INVAL) => {
            "its control group (cpuset) allows none of these processors: widen it (libvirt: `virsh emulatorpin` and `vcpupin`, or \
             <cputune>), or name others"
        }
        _ => "look at the guest's process, and try again",
    }
}

/// What became of a guest whose binding was restored.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Unpinned {
    /// Its name.
    pub name: String,
    /// Its process.
    pub pid: u32,
    /// Threads that this call restored.
    pub threads: usize,
    /// Threads that somebody else has bound since: left alone.
    pub left_alone: Vec<ThreadBinding>,
    /// Threads whose binding could not be restored, or only in part: their guest stays in the journal, and the next call restores them.
    pub failed: Vec<ThreadBinding>,
}

/// A thread that has not what it had.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ThreadBinding {
    /// Its number.
    pub tid: u32,
    /// What it had.
    pub found: String,
    /// What it has.
    pub now: String,
    /// Why it could not be restored; null for a thread that is left alone.
    pub why: Option<String>,
}

/// Gives every guest of the journal that still runs what its threads had. Memory that was moved stays where it is: nothing holds it there.
/// A guest with a thread that could not be restored stays in the journal until a later call restores it, or until it ends.
///
/// # Errors
/// Where the journal cannot be read or written.
pub fn unpin(processes: &dyn Processes, journal: &PinJournal) -> Result<Vec<Unpinned>, PinError> {
    let host = processes.host();
    let mut held = journal.guests()?;
    held.retain(|guest| start_ticks(host, guest.pid) == Some(guest.start_ticks));
    let of_kernel = kernel_threads(host);
    let online = Machine::of(host).online;
    let mut unpinned = Vec::new();
    let mut left = Vec::new();
    for guest in held {
        let (outcome, threads) = release(processes, &guest, &of_kernel, &online);
        if !outcome.failed.is_empty() {
            left.push(PinnedGuest { threads, ..guest });
        }
        unpinned.push(outcome);
    }
    journal.write(&left)?;
    Ok(unpinned)
}

/// Returns what became of a guest, and its threads as the journal has them while one of them could not be restored.
fn release(
    processes: &dyn Processes,
    guest: &PinnedGuest,
    of_kernel: &KernelThreads,
    online: &BTreeSet<u32>,
) -> (Unpinned, Vec<PinnedThread>) {
    let mut outcome = Unpinned {
        name: guest.name.clone(),
        pid: guest.pid,
        threads: 0,
        left_alone: Vec::new(),
        failed: Vec::new(),
    };
    let mut kept = Vec::new();
    // The main thread is the first one, and a thread inherits from who starts it.
    let Some(main) = guest.threads.first() else { return (outcome, kept) };
    for Thread { tid, start_ticks } in threads(processes.host(), guest.pid, of_kernel) {
        let known = guest.threads.iter().find(|known| (known.tid, known.start_ticks) == (tid, start_ticks));
        // One that began after the binding inherited from the main thread.
        let held = known.unwrap_or(main);
        let Some((now, end)) = restore(processes, tid, held, online) else { continue };
        let (is_failed, is_known) = (matches!(end, ThreadEnd::Failed(_)), known.is_some());
        let binding = |why| ThreadBinding { tid, found: ranges(&held.found), now: ranges(&now), why };
        match end {
            ThreadEnd::Restored => outcome.threads += 1,
            // Widening a control group restores a thread without us, since Linux 6.2.
            ThreadEnd::Unchanged => outcome.threads += usize::from(is_known && held.set != held.found),
            ThreadEnd::Others if is_known => outcome.left_alone.push(binding(None)),
            // A thread that began after the binding and has a place of its own was never ours.
            ThreadEnd::Others => {}
            ThreadEnd::Failed(why) => outcome.failed.push(binding(Some(why))),
        }
        if is_failed || is_known {
            // What it has now is ours where it failed; for any other thread there is nothing left to restore.
            let found = if is_failed { held.found.clone() } else { now.clone() };
            kept.push(PinnedThread { tid, start_ticks, found, set: now, set_before: None });
        }
    }
    (outcome, kept)
}

/// What became of a thread.
enum ThreadEnd {
    /// This call gave it what it had.
    Restored,
    /// It had that already.
    Unchanged,
    /// Somebody else has bound it since.
    Others,
    /// It has not what it had: why.
    Failed(String),
}

/// Gives a thread what it had, and returns what it has then. `None`: it has ended and needs nothing.
fn restore(
    processes: &dyn Processes,
    tid: u32,
    held: &PinnedThread,
    online: &BTreeSet<u32>,
) -> Option<(BTreeSet<u32>, ThreadEnd)> {
    let before = processes.affinity(tid).ok()?;
    if before == held.found {
        return Some((before, ThreadEnd::Unchanged));
    }
    if !held.is_ours(&before) {
        return Some((before, ThreadEnd::Others));
    }
    match processes.bind(tid, &held.found) {
        Ok(()) => {}
        Err(error) if is_gone(&error) => return None,
        Err(error) => return Some((before, ThreadEnd::Failed(not_restored(&error)))),
    }
    // The kernel leaves out what the control group does not allow, and reports no error. Some kernels leave out what is offline too:
    // no control group has to be widened for that.
    let now = processes.affinity(tid).ok()?;
    let is_whole = held.found.difference(&now).all(|lacking| !online.contains(lacking));
    let end = if is_whole { ThreadEnd::Restored } else { ThreadEnd::Failed(cpuset_allows("fewer")) };
    Some((now, end))
}

fn not_restored(error: &io::Error) -> String {
    match Errno::from_io_error(error) {
        Some(Errno::INVAL) => cpuset_allows("none of them"),
        _ => error.to_string(),
    }
}

fn cpuset_allows(how_many: &str) -> String {
    format!(
        "its control group (cpuset) allows {how_many}: widen it (libvirt: `virsh emulatorpin` and `vcpupin`, or <cputune>)"
    )
}
