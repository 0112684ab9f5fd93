//! Where the kernel has guests and their load, read once about in the middle of a measurement and compared with the plan.
//!
//! Of every guest all threads are read, and where its memory is: some 10 microseconds a thread, and a walk through the page tables of
//! each process. The load's threads that the plan binds are read too. Plans that put no guest in a place do without; of their twins only the
//! threads are read. Where one side of a comparison is placed, the other one is read as well, so that both are disturbed alike.

use crate::job::{
    host_pids,
    keeper::{bind_in_host, host_proc},
};
use std::{
    cell::Cell,
    collections::BTreeMap,
    io,
    sync::mpsc::{self, Receiver, Sender},
    time::Instant,
};
use tilemark_agent_protocol::LOAD_THREAD;
use tilemark_guests::{GuestId, GuestManager, processes_below};
use tilemark_host::placement::{ThreadPlace, device_interrupts, memory_by_node, threads_of, vhost_threads};
use tilemark_plan::{
    place::{GuestPlace, is_placed},
    plan::{self, GuestPlan, Plan, Point, Processors},
};
use tilemark_record::{
    placement::{GuestPlaceFigures, InterruptFigures, LoadPlaceFigures, PlaceFigures, ThreadFigures},
    summary::{Incident, IncidentKind},
};
use tilemark_units::{counted, ranges};

/// Threads of a guest or of the load that are listed one by one though they are in their place.
const THREADS_LISTED: usize = 64;
/// Threads that are listed at all: a guest, or a program beside the load, may have as many as it likes.
const ELSEWHERE_LISTED: usize = 256;
/// Bytes of a thread's name: a process calls its threads as it likes.
const NAME_BYTES: usize = 32;

/// Counts readings of the host, and says when half of them are done.
pub(crate) struct Halfway {
    left: Cell<u32>,
    reached: Sender<()>,
}

impl Halfway {
    /// Of a measurement of so many seconds, which is read once more than it has seconds. The other end hears of it.
    pub(crate) fn of(seconds: u32) -> (Self, Receiver<()>) {
        let (reached, hears) = mpsc::channel();
        (Self { left: Cell::new(seconds / 2 + 1), reached }, hears)
    }

    /// One more reading.
    pub(crate) fn count(&self) {
        self.left.set(self.left.get().saturating_sub(1));
        if self.left.get() == 0 {
            // Nobody listens any more after the first time.
            let _ = self.reached.send(());
        }
    }
}

/// Whether places are read while this plan is carried out.
pub(crate) fn is_wanted(plan: &Plan) -> bool {
    is_placed(&plan.points)
}

/// Has threads of the kernel that move packets of a point's guests put in their place, where it has any. Their QEMUs are in theirs since they
/// are ready; since Linux 6.4 such threads are QEMU's own.
pub(crate) fn put_kernel_threads(point: &Point) {
    if are_kernel_threads_put(point) {
        bind_in_host();
    }
}

fn are_kernel_threads_put(point: &Point) -> bool {
    with_vhost(point).any(|guest| guest.place.is_some())
}

/// Guests whose packets the kernel moves.
fn with_vhost(point: &Point) -> impl Iterator<Item = &GuestPlan> {
    let is_native = point.backend == plan::Backend::Native;
    point.guests.iter().filter(move |guest| guest.net.vhost && !is_native)
}

/// The process that sends load from this host, and the processors that the plan gives it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LoadOnHost<'a> {
    pub(crate) pid: u32,
    pub(crate) processors: &'a [u32],
}

/// Reads where all guests of a point are, and its load on this host, if it has one.
pub(crate) fn read(
    manager: &dyn GuestManager,
    point: &Point,
    ids: &[GuestId],
    load: Option<LoadOnHost<'_>>,
) -> PlaceFigures {
    let began = Instant::now();
    let processes = manager.all_processes(ids);
    let of_kernel =
        if with_vhost(point).next().is_some() { vhost_threads(&host_proc()) } else { BTreeMap::new() };
    let guest = |(plan, pids): (&GuestPlan, Vec<u32>)| {
        let own: Vec<Option<u32>> = pids.iter().copied().map(Some).collect();
        let hosts = if of_kernel.is_empty() { Vec::new() } else { host_pids::of(&own) };
        guest(point.backend, plan, &pids, &of_kernel_for(&of_kernel, &hosts))
    };
    let guests = point.guests.iter().zip(processes).map(guest).collect();
    let load = load.map(|load| load_place(&load));
    PlaceFigures { took_ms: began.elapsed().as_secs_f64() * 1000.0, guests, load, interrupts: None }
}

/// Those threads of the load's process that are to be on the load's processors, and all of the programs that it has started.
fn load_place(load: &LoadOnHost<'_>) -> LoadPlaceFigures {
    let (mut threads, mut unread) = (Vec::new(), None);
    for pid in processes_below(load.pid) {
        let is_held = |thread: &ThreadPlace| pid != load.pid || thread.name.starts_with(LOAD_THREAD);
        match threads_of(pid) {
            Ok(found) => threads.extend(found.into_iter().filter(is_held)),
            Err(error) => note(&mut unread, "threads", &error),
        }
    }
    let compared = threads.iter().map(|thread| compared_thread(load.processors, thread));
    let (listed, elsewhere) = elsewhere_first(compared);
    LoadPlaceFigures {
        threads: listed,
        threads_count: threads.len() as u32,
        threads_elsewhere: elsewhere,
        unread,
    }
}

/// Interrupts of devices since the boot by processor; nothing where the kernel does not say.
pub(crate) fn interrupts_so_far() -> Option<BTreeMap<u32, u64>> {
    device_interrupts(&host_proc()).ok()
}

/// Which processors served the interrupts of devices between two readings.
pub(crate) fn interrupts_between(
    before: &BTreeMap<u32, u64>,
    after: &BTreeMap<u32, u64>,
    processors: &Processors,
) -> InterruptFigures {
    let mut figures = InterruptFigures::default();
    for (id, count) in after {
        let place = if processors.guests.contains(id) {
            &mut figures.on_guests
        } else if processors.load.contains(id) {
            &mut figures.on_load
        } else {
            &mut figures.elsewhere
        };
        // A processor that came online meanwhile had none before.
        let served = count.saturating_sub(before.get(id).copied().unwrap_or_default());
        *place = place.saturating_add(served);
    }
    figures
}

/// Twins that may run beside their own processors. The host's kernel lets any program choose others, and where it has no controller that
/// keeps a twin on its own, a hostile image could take those of the load. One that uses fewer is fine.
pub(crate) fn strayed(manager: &dyn GuestManager, point: &Point, ids: &[GuestId]) -> Vec<Incident> {
    let processes = manager.all_processes(ids);
    let twins = point.guests.iter().zip(processes);
    twins.filter_map(|(plan, pids)| strayed_twin(plan, &pids)).collect()
}

fn strayed_twin(plan: &GuestPlan, pids: &[u32]) -> Option<Incident> {
    if plan.processors.is_empty() {
        return None;
    }
    let threads: Vec<ThreadPlace> = pids.iter().flat_map(|pid| threads_of(*pid)).flatten().collect();
    let beside = |thread: &ThreadPlace| {
        thread.allowed.iter().copied().filter(|id| !plan.processors.contains(id)).collect::<Vec<_>>()
    };
    let strayed: Vec<Vec<u32>> = threads.iter().map(beside).filter(|others| !others.is_empty()).collect();
    (!strayed.is_empty()).then(|| Incident {
        kind: IncidentKind::Unproven,
        what: format!(
            "{} of its {} could run on processors {}, which are not its own ({}): it may have slowed the load and others",
            strayed.len(),
            counted(threads.len() as u64, "thread"),
            ranges(&strayed.concat()),
            ranges(&plan.processors),
        ),
        guest: Some(plan.name.clone()),
    })
}

/// Threads of the kernel that work for these processes, by their numbers on the host.
fn of_kernel_for(found: &BTreeMap<u32, Vec<ThreadPlace>>, hosts: &[Option<u32>]) -> Vec<ThreadPlace> {
    hosts.iter().flatten().filter_map(|pid| found.get(pid)).flatten().cloned().collect()
}

fn guest(
    backend: plan::Backend,
    plan: &GuestPlan,
    pids: &[u32],
    of_kernel: &[ThreadPlace],
) -> GuestPlaceFigures {
    let (mut threads, mut memory, mut unread) = (Vec::new(), BTreeMap::new(), None);
    for pid in pids {
        match threads_of(*pid) {
            Ok(found) => threads.extend(found),
            Err(error) => note(&mut unread, "threads", &error),
        }
        match memory_by_node(*pid) {
            Ok(found) => {
                for (node, bytes) in found {
                    *memory.entry(node).or_default() += bytes;
                }
            }
            Err(error) => note(&mut unread, "memory", &error),
        }
    }
    if pids.is_empty() {
        unread = Some("it has no process".to_owned());
    }
    compared(backend, plan, of_kernel, &threads, memory, unread)
}

/// A process that ended meanwhile is no reason: its successor is among the others.
fn note(unread: &mut Option<String>, what: &str, error: &io::Error) {
    let is_gone = error.kind() == io::ErrorKind::NotFound || error.raw_os_error() == Some(ESRCH);
    if !is_gone {
        unread.get_or_insert_with(|| format!("its {what} cannot be read: {error}"));
    }
}

/// "No such process", which reading a file of a process that has just ended gives.
const ESRCH: i32 = rustix::io::Errno::SRCH.raw_os_error();

/// What was read of a guest beside its plan.
fn compared(
    backend: plan::Backend,
    plan: &GuestPlan,
    of_kernel: &[ThreadPlace],
    threads: &[ThreadPlace],
    memory_bytes: BTreeMap<u32, u64>,
    unread: Option<String>,
) -> GuestPlaceFigures {
    let planned = |thread: &ThreadPlace| {
        plan.place.as_ref().map(|place| planned(backend, place, &thread.name)).unwrap_or_default()
    };
    let own = threads.iter().map(|thread| compared_thread(&planned(thread), thread));
    let of_kernel = of_kernel.iter().map(|thread| compared_kernel_thread(&planned(thread), thread));
    let threads_count = (own.len() + of_kernel.len()) as u32;
    let (listed, elsewhere) = elsewhere_first(of_kernel.chain(own));
    let nodes = plan.place.as_ref().map_or(&[][..], |place| &place.nodes);
    let is_elsewhere = |node: &u32| !nodes.is_empty() && !nodes.contains(node);
    let bytes_elsewhere =
        memory_bytes.iter().filter(|(node, _)| is_elsewhere(node)).map(|(_, bytes)| bytes).sum();
    GuestPlaceFigures {
        guest: plan.name.clone(),
        is_planned: plan.place.is_some(),
        threads: listed,
        threads_count,
        threads_elsewhere: elsewhere,
        memory_bytes,
        memory_bytes_elsewhere: bytes_elsewhere,
        unread,
    }
}

/// Threads in the order of their numbers, those that are elsewhere first, as far as they are listed; and how many are elsewhere.
fn elsewhere_first(threads: impl Iterator<Item = ThreadFigures>) -> (Vec<ThreadFigures>, u32) {
    let mut listed: Vec<ThreadFigures> = threads.collect();
    listed.sort_by_key(|thread| !thread.is_elsewhere);
    let elsewhere = listed.iter().filter(|thread| thread.is_elsewhere).count();
    listed.truncate(elsewhere.min(ELSEWHERE_LISTED) + THREADS_LISTED);
    (listed, elsewhere as u32)
}

fn compared_thread(planned: &[u32], thread: &ThreadPlace) -> ThreadFigures {
    let is_planned = |id: &u32| planned.contains(id);
    let is_kept = planned.is_empty() || (thread.allowed.iter().all(is_planned) && is_planned(&thread.ran_on));
    ThreadFigures {
        name: tilemark_units::printable(&shortened(&thread.name)).to_string(),
        planned: ranges(planned),
        allowed: ranges(&thread.allowed),
        ran_on: thread.ran_on,
        is_elsewhere: !is_kept,
    }
}

/// A thread of the kernel. It is bound when its guest is ready: one that has had nothing to do since ran last where it could before.
fn compared_kernel_thread(planned: &[u32], thread: &ThreadPlace) -> ThreadFigures {
    let is_elsewhere = !planned.is_empty() && !thread.allowed.iter().all(|id| planned.contains(id));
    ThreadFigures { is_elsewhere, ..compared_thread(planned, thread) }
}

fn shortened(name: &str) -> String {
    let end = (0..=NAME_BYTES.min(name.len())).rev().find(|end| name.is_char_boundary(*end));
    name[..end.unwrap_or(0)].to_owned()
}

/// Processors of a thread by its name. QEMU calls the threads of virtual processors `CPU 0/KVM`; a guest cannot change that.
fn planned(backend: plan::Backend, place: &GuestPlace, name: &str) -> Vec<u32> {
    if backend == plan::Backend::Native {
        return place.processors();
    }
    if name.starts_with("ALL CPUs/") {
        return place.processors();
    }
    let number = name.strip_prefix("CPU ").and_then(|rest| rest.split_once('/')?.0.parse::<usize>().ok());
    number.and_then(|number| place.vcpus.get(number)).unwrap_or(&place.emulator).clone()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fakes::{TILE, ladder, plan_of};
    use rustix::process::{Pid, Signal, kill_process};
    use std::{
        io::{BufRead, BufReader},
        os::unix::fs::symlink,
        path::Path,
        process::{Child, Command, Stdio},
    };

    fn placed() -> GuestPlan {
        let place = GuestPlace {
            vcpus: vec![vec![2], vec![3]],
            emulator: vec![2, 3],
            nodes: vec![1],
            ..GuestPlace::default()
        };
        let guest = plan_of(TILE, &ladder()).points[0].guests[0].clone();
        GuestPlan { place: Some(place), ..guest }
    }

    fn thread(name: &str, allowed: &[u32], ran_on: u32) -> ThreadPlace {
        ThreadPlace { id: 1, name: name.to_owned(), allowed: allowed.to_vec(), ran_on }
    }

    #[test]
    fn threads_of_the_kernel_are_put_only_where_a_guest_with_vhost_has_a_place() {
        let of = |vhost, place: Option<GuestPlace>, backend| {
            let mut point = plan_of(TILE, &ladder()).points[0].clone();
            point.backend = backend;
            // The other guest has a place in any case.
            point.guests[0].place = placed().place;
            let guest = point.guests.last_mut().unwrap();
            (guest.net.vhost, guest.place) = (vhost, place);
            are_kernel_threads_put(&point)
        };
        let place = || placed().place;
        assert!(of(true, place(), plan::Backend::Kvm) && of(true, place(), plan::Backend::Emulated));
        assert!(!of(true, place(), plan::Backend::Native));
        assert!(!of(true, None, plan::Backend::Kvm) && !of(false, place(), plan::Backend::Kvm));
    }

    #[test]
    fn a_thread_of_the_kernel_that_works_for_a_guest_belongs_to_its_place() {
        // The second one is bound and has not run since.
        let of_500 = vec![thread("vhost-500", &[0, 1, 2, 3], 2), thread("vhost-500", &[2, 3], 0)];
        let found = BTreeMap::from([(500, of_500), (600, Vec::new())]);
        let of_kernel = of_kernel_for(&found, &[Some(500), None, Some(7)]);
        let figures = compared(plan::Backend::Kvm, &placed(), &of_kernel, &[], BTreeMap::new(), None);
        assert_eq!((figures.threads_count, figures.threads_elsewhere), (2, 1));
        assert_eq!(&*figures.threads[0].allowed, "0-3");
        assert_eq!((&*figures.threads[0].name, &*figures.threads[0].planned), ("vhost-500", "2-3"));
    }

    #[test]
    fn a_thread_that_may_run_or_ran_elsewhere_is_named_with_both() {
        let threads = [
            thread("CPU 0/KVM", &[2], 2),
            thread("CPU 1/KVM", &[2, 3], 2),
            thread("qemu-system-x86", &[2, 3], 3),
            thread("worker", &[2, 3], 0),
        ];
        let memory = BTreeMap::from([(0, 8), (1, 992)]);
        let found = compared(plan::Backend::Kvm, &placed(), &[], &threads, memory, None);
        assert_eq!((found.threads_count, found.threads_elsewhere, found.memory_bytes_elsewhere), (4, 2, 8));
        let first = &found.threads[0];
        assert_eq!(
            (&*first.name, &*first.planned, &*first.allowed, first.ran_on),
            ("CPU 1/KVM", "3", "2-3", 2)
        );
        assert_eq!((&*found.threads[1].name, found.threads[1].ran_on), ("worker", 0));
        assert!(!found.threads[2].is_elsewhere);
    }

    /// A shell with this name, which has started `sleep`.
    fn shell(folder: &Path, name: &str) -> Child {
        let program = folder.join(name);
        symlink("/bin/sh", &program).unwrap();
        // It is ready once its child has become `sleep`.
        let script =
            "sleep 1000 & until read name </proc/$!/comm && [ \"$name\" = sleep ]; do :; done; echo; wait";
        let mut shell = Command::new(program).args(["-c", script]).stdout(Stdio::piped()).spawn().unwrap();
        BufReader::new(shell.stdout.as_mut().unwrap()).read_line(&mut String::new()).unwrap();
        shell
    }

    #[test]
    fn of_a_load_its_sending_threads_and_its_programs_are_held_to_its_processors() {
        let folder = tempfile::tempdir().unwrap();
        let own = threads_of(std::process::id()).unwrap().swap_remove(0).allowed;
        let place = |name: &str, processors: &[u32]| {
            let mut load = shell(folder.path(), name);
            let found = load_place(&LoadOnHost { pid: load.id(), processors });
            for pid in processes_below(load.id()).into_iter().rev() {
                kill_process(Pid::from_raw(pid as i32).unwrap(), Signal::KILL).unwrap();
            }
            load.wait().unwrap();
            found
        };
        let names = |found: &LoadPlaceFigures| {
            found.threads.iter().map(|thread| thread.name.clone()).collect::<Vec<_>>()
        };
        let kept = place("tilemark-load", &own);
        assert_eq!((names(&kept), kept.threads_elsewhere, &kept.unread), (vec!["sleep".into()], 0, &None));
        let moved = place("load-0", &[4000]);
        assert_eq!((names(&moved), moved.threads_elsewhere), (vec!["load-0".into(), "sleep".into()], 2));
        let ThreadFigures { planned, allowed, .. } = &moved.threads[0];
        assert_eq!((&**planned, &**allowed), ("4000", &*ranges(&own)));
    }

    #[test]
    fn a_twin_is_held_to_all_its_processors_whatever_its_threads_are_called() {
        let found = compared(
            plan::Backend::Native,
            &placed(),
            &[],
            &[thread("CPU 1/x", &[2, 3], 2)],
            BTreeMap::new(),
            None,
        );
        assert_eq!((found.threads_elsewhere, &*found.threads[0].planned), (0, "2-3"));
    }

    #[test]
    fn a_twin_whose_threads_may_run_elsewhere_is_named_and_one_on_fewer_processors_is_not() {
        let own = std::process::id();
        let allowed = threads_of(own).unwrap().iter().flat_map(|thread| thread.allowed.clone()).collect();
        let more = GuestPlan { processors: allowed, ..placed() };
        let more = GuestPlan { processors: [more.processors, vec![4000]].concat(), ..placed() };
        assert_eq!(strayed_twin(&more, &[own]), None);
        assert_eq!(strayed_twin(&GuestPlan { processors: Vec::new(), ..placed() }, &[own]), None);
        let elsewhere = GuestPlan { processors: vec![4000], ..placed() };
        assert_eq!(strayed_twin(&elsewhere, &[]), None);
        let found = strayed_twin(&elsewhere, &[own]).unwrap();
        assert_eq!((found.kind, found.guest.as_ref()), (IncidentKind::Unproven, Some(&elsewhere.name)));
        assert!(found.what.contains("which are not its own (4000)"), "{}", found.what);
    }

    #[test]
    fn interrupts_count_where_they_were_served_since_the_first_reading() {
        let processors = Processors { load: vec![0], guests: vec![1, 2] };
        let before = BTreeMap::from([(0, 100), (1, 7), (3, 5)]);
        let after = BTreeMap::from([(0, 140), (1, 7), (2, 9), (3, 6)]);
        let wanted = InterruptFigures { on_guests: 9, on_load: 40, elsewhere: 1 };
        assert_eq!(interrupts_between(&before, &after, &processors), wanted);
        let shared = Processors { load: vec![0, 1], guests: vec![0, 1] };
        assert_eq!(interrupts_between(&before, &after, &shared).on_load, 0, "guests have them too");
    }

    #[test]
    fn a_guest_without_a_place_is_never_reported_elsewhere() {
        let plan = GuestPlan { place: None, ..placed() };
        let found =
            compared(plan::Backend::Native, &plan, &[], &[thread("a", &[0], 0)], [(0, 9)].into(), None);
        assert_eq!((found.is_planned, found.threads_elsewhere, found.memory_bytes_elsewhere), (false, 0, 0));
        assert_eq!(found.threads[0].allowed, "0");
    }

    #[test]
    fn a_guest_of_many_threads_fills_no_record() {
        let name = "x".repeat(10_000);
        let mut threads = vec![thread(&name, &[2], 2); 10_000];
        threads.extend(vec![thread("\u{1b}[2J", &[0], 0); 10_000]);
        let found = compared(plan::Backend::Native, &placed(), &[], &threads, BTreeMap::new(), None);
        assert_eq!((found.threads_count, found.threads_elsewhere), (20_000, 10_000));
        assert_eq!(found.threads.len(), ELSEWHERE_LISTED + THREADS_LISTED);
        assert!(
            found.threads.iter().all(|thread| thread.name.len() <= 64 && !thread.name.contains('\u{1b}'))
        );
    }

    #[test]
    fn half_of_the_readings_is_reached_once_whatever_the_length() {
        for (seconds, wanted) in [(1, 1), (2, 2), (10, 6)] {
            let (halfway, hears) = Halfway::of(seconds);
            let reached = (1..=seconds + 1).find(|_| {
                halfway.count();
                hears.try_recv().is_ok()
            });
            assert_eq!(reached, Some(wanted), "{seconds}");
        }
    }
}
