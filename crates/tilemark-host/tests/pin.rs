//! Running guests are bound to nodes, and their old binding is restored: on a tree that plays a host, and with processes that play QEMU.
#![allow(clippy::unwrap_used)] // only tests

mod fixture;

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;

use fixture::Server;
use tempfile::TempDir;
use tilemark_fixtures::QemuPlayer;
use tilemark_host::parse_list;
use tilemark_host::pin::{
    Followed, LiveProcesses, Machine, PinError, PinJournal, PinMap, PinReport, Processes, Unpinned,
    bind_kernel_threads, pin, pin_again, unpin,
};
use tilemark_host::{HostView, TreeHost};

const SRCH: i32 = 3;
const PERM: i32 = 1;
const INVAL: i32 = 22;

fn set(list: &str) -> BTreeSet<u32> {
    parse_list(list).unwrap().into_iter().collect()
}

/// A host whose guests are files, and whose scheduler is a map.
struct Fake {
    server: Server,
    host: TreeHost,
    affinities: RefCell<BTreeMap<u32, BTreeSet<u32>>>,
    /// What the scheduler was asked to do, in order.
    asked: RefCell<Vec<String>>,
    /// The journal's text at the moment when a thread is first bound.
    journal_at_first_bind: RefCell<Option<String>>,
    /// Threads that the kernel refuses to bind, with its error.
    refused: RefCell<BTreeMap<u32, i32>>,
    /// Processors that a control group leaves to everybody in it.
    cpuset: RefCell<BTreeSet<u32>>,
    pages_that_stay: Cell<u64>,
    state: TempDir,
}

impl Fake {
    fn new() -> Self {
        let server = Server::new();
        let host = TreeHost::new(server.root());
        Self {
            server,
            host,
            affinities: RefCell::default(),
            asked: RefCell::default(),
            journal_at_first_bind: RefCell::default(),
            refused: RefCell::default(),
            cpuset: RefCell::new(set("0-7")),
            pages_that_stay: Cell::new(0),
            state: tempfile::tempdir().unwrap(),
        }
    }

    /// A guest with threads; the first one is its main one.
    fn guest(&self, name: &str, tids: &[u32]) {
        let pid = tids[0];
        let command_line = format!("/usr/bin/qemu-system-x86_64\0-name\0guest={name},debug-threads=on\0");
        self.server.put(&format!("proc/{pid}/cmdline"), &command_line);
        self.server.put(&format!("proc/{pid}/stat"), &stat(pid, 1, 100));
        for tid in tids {
            self.thread(pid, *tid, "0-7");
        }
    }

    fn thread(&self, pid: u32, tid: u32, processors: &str) {
        self.server.put(&format!("proc/{pid}/task/{tid}/stat"), &stat(tid, 1, 100));
        self.affinities.borrow_mut().insert(tid, set(processors));
    }

    /// A thread that is called like one of the kernel that works for a process.
    fn kernel_thread(&self, tid: u32, of: u32, parent: u32) {
        self.server.put(&format!("proc/{tid}/comm"), &format!("vhost-{of}\n"));
        self.server.put(&format!("proc/{tid}/stat"), &stat(tid, parent, 100));
        self.affinities.borrow_mut().insert(tid, set("0-7"));
    }

    fn end(&self, pid: u32) {
        fs::remove_dir_all(self.server.root().join(format!("proc/{pid}"))).unwrap();
    }

    fn journal(&self) -> PinJournal {
        PinJournal::at(self.state.path().join("pins.json"), "this-boot")
    }

    fn has_journal(&self) -> bool {
        self.state.path().join("pins.json").exists()
    }

    fn pin(&self, text: &str) -> PinReport {
        let map = PinMap::parse(text, &Machine::of(&self.host)).unwrap();
        pin(self, &self.journal(), &map).unwrap()
    }

    fn unpin(&self) -> Vec<Unpinned> {
        unpin(self, &self.journal()).unwrap()
    }

    fn affinity_of(&self, tid: u32) -> BTreeSet<u32> {
        self.affinities.borrow()[&tid].clone()
    }
}

fn stat(pid: u32, parent: u32, start_ticks: u64) -> String {
    let zeros = "0 ".repeat(17);
    format!("{pid} (a) name) S {parent} {zeros}{start_ticks} 0 0\n")
}

impl Processes for Fake {
    fn host(&self) -> &dyn HostView {
        &self.host
    }

    fn affinity(&self, tid: u32) -> io::Result<BTreeSet<u32>> {
        self.affinities.borrow().get(&tid).cloned().ok_or_else(|| io::Error::from_raw_os_error(SRCH))
    }

    fn bind(&self, tid: u32, processors: &BTreeSet<u32>) -> io::Result<()> {
        let journal = fs::read_to_string(self.state.path().join("pins.json")).unwrap_or_default();
        self.journal_at_first_bind.borrow_mut().get_or_insert(journal);
        if let Some(error) = self.refused.borrow().get(&tid) {
            return Err(io::Error::from_raw_os_error(*error));
        }
        let allowed: BTreeSet<u32> = processors.intersection(&self.cpuset.borrow()).copied().collect();
        if allowed.is_empty() {
            return Err(io::Error::from_raw_os_error(INVAL));
        }
        self.asked.borrow_mut().push(format!("bind {tid}"));
        *self.affinities.borrow_mut().get_mut(&tid).ok_or_else(|| io::Error::from_raw_os_error(SRCH))? =
            allowed;
        Ok(())
    }

    fn move_memory(&self, pid: u32, from: &BTreeSet<u32>, to: &BTreeSet<u32>) -> io::Result<u64> {
        self.asked.borrow_mut().push(format!("move {pid} {from:?} -> {to:?}"));
        Ok(self.pages_that_stay.get())
    }
}

#[test]
fn a_guest_that_a_line_names_is_bound_and_no_other_is_touched() {
    let fake = Fake::new();
    fake.guest("node1-web", &[10, 11, 12]);
    fake.guest("other", &[20, 21]);
    let report = fake.pin("node1-* 1\n");
    assert_eq!((report.pinned.len(), report.refused.len()), (1, 0));
    let pinned = &report.pinned[0];
    assert_eq!(
        (pinned.processors.as_str(), pinned.nodes.as_str(), pinned.threads, pinned.bound),
        ("2-3,6-7", "1", 3, 3)
    );
    assert_eq!(report.left_alone, ["other"]);
    for tid in [10, 11, 12] {
        assert_eq!(fake.affinity_of(tid), set("2-3,6-7"));
    }
    assert_eq!(*fake.asked.borrow(), ["bind 10", "bind 11", "bind 12", "move 10 {0} -> {1}"]);
}

#[test]
fn what_threads_had_is_in_the_journal_before_the_first_is_bound() {
    let fake = Fake::new();
    fake.guest("web", &[10, 11]);
    fake.thread(10, 11, "0-3");
    fake.pin("web 1\n");
    let journal = fake.journal_at_first_bind.borrow().clone().unwrap();
    let journal: serde_json::Value = serde_json::from_str(&journal).unwrap();
    let threads = &journal["guests"][0]["threads"];
    assert_eq!(threads[1]["found"], serde_json::json!([0, 1, 2, 3]));
    assert_eq!(threads[1]["set"], serde_json::json!([2, 3, 6, 7]));
}

#[test]
fn unpinning_gives_every_thread_what_it_had_and_those_that_began_later_too() {
    let fake = Fake::new();
    fake.guest("web", &[10, 11]);
    fake.thread(10, 11, "0-3");
    fake.pin("web 1\n");
    fake.thread(10, 12, "2-3,6-7"); // it began later and inherited
    let unpinned = fake.unpin();
    assert_eq!((unpinned[0].threads, unpinned[0].left_alone.len(), unpinned[0].failed.len()), (3, 0, 0));
    assert_eq!(fake.affinity_of(10), set("0-7"));
    assert_eq!(fake.affinity_of(11), set("0-3"));
    assert_eq!(fake.affinity_of(12), set("0-7"));
    assert!(!fake.has_journal());
    assert_eq!(fake.unpin(), []);
}

#[test]
fn a_guest_that_is_pinned_again_keeps_what_it_had_first() {
    let fake = Fake::new();
    fake.guest("web", &[10]);
    fake.pin("web 1\n");
    let again = fake.pin("web 1\n");
    assert_eq!(again.pinned[0].bound, 0, "it is where it belongs");
    fake.thread(10, 11, "2-3,6-7");
    fake.pin("web 0\n");
    assert_eq!(fake.affinity_of(10), set("0-1,4-5"));
    fake.unpin();
    assert_eq!(fake.affinity_of(10), set("0-7"));
    assert_eq!(fake.affinity_of(11), set("0-7"), "it inherited what was ours");
}

#[test]
fn a_thread_that_somebody_else_has_bound_since_is_left_alone_and_named() {
    let fake = Fake::new();
    fake.guest("web", &[10, 11]);
    fake.pin("web 1\n");
    fake.thread(10, 11, "7");
    let unpinned = fake.unpin();
    assert_eq!(unpinned[0].threads, 1);
    let kept = &unpinned[0].left_alone[0];
    assert_eq!((kept.tid, kept.found.as_str(), kept.now.as_str()), (11, "0-7", "7"));
    assert_eq!(fake.affinity_of(11), set("7"));
}

#[test]
fn a_process_that_took_the_number_of_a_guest_is_not_touched() {
    let fake = Fake::new();
    fake.guest("web", &[10]);
    fake.pin("web 1\n");
    fake.server.put("proc/10/stat", &stat(10, 1, 200));
    fake.server.put("proc/10/cmdline", "/bin/sh\0");
    assert_eq!(fake.unpin(), []);
    assert_eq!(fake.affinity_of(10), set("2-3,6-7"));
    assert!(!fake.has_journal());
}

#[test]
fn a_guest_of_another_boot_is_not_touched() {
    let fake = Fake::new();
    fake.guest("web", &[10]);
    fake.pin("web 1\n");
    let next_boot = PinJournal::at(fake.state.path().join("pins.json"), "next-boot");
    assert_eq!(unpin(&fake, &next_boot).unwrap(), []);
    assert_eq!(fake.affinity_of(10), set("2-3,6-7"));
}

#[test]
fn memory_follows_a_guest_whose_threads_are_there_already() {
    let fake = Fake::new();
    fake.guest("web", &[10]);
    // A call was killed before it moved the memory.
    fake.affinities.borrow_mut().insert(10, set("2-3,6-7"));
    let map = PinMap::parse("web 1\n", &Machine::of(&fake.host)).unwrap();
    let mut followed = Followed::new();
    for _ in 0..3 {
        let report = pin_again(&fake, &fake.journal(), &map, &mut followed).unwrap();
        assert_eq!((report.pinned.len(), report.pinned[0].bound), (1, 0));
    }
    assert_eq!(*fake.asked.borrow(), ["move 10 {0} -> {1}"], "once, while it stays there");
    fake.pin("web 1\n");
    assert_eq!(fake.asked.borrow().len(), 2, "by each command");
}

#[test]
fn a_guest_that_ends_meanwhile_is_no_error() {
    let fake = Fake::new();
    fake.guest("web", &[10, 11]);
    fake.affinities.borrow_mut().remove(&11); // it is listed, and gone when it is asked
    fake.guest("db", &[20]);
    let report = fake.pin("* 1\n");
    assert_eq!((report.pinned.len(), report.refused.len()), (2, 0));
    fake.end(10);
    fake.end(20);
    assert_eq!(fake.unpin(), []);
}

#[test]
fn a_guest_is_bound_whole_or_not_at_all() {
    let fake = Fake::new();
    fake.guest("web", &[10, 11, 12]);
    fake.guest("db", &[20]);
    fake.refused.borrow_mut().insert(12, PERM);
    let report = fake.pin("* 1\n");
    assert_eq!(report.refused[0].name, "web");
    assert!(report.refused[0].remedy.contains("root"), "{:?}", report.refused);
    assert_eq!(fake.affinity_of(10), set("0-7"));
    assert_eq!(fake.affinity_of(20), set("2-3,6-7"));
    let held = fake.journal().guests().unwrap();
    assert_eq!(held.iter().map(|guest| guest.name.as_str()).collect::<Vec<_>>(), ["db"]);
}

#[test]
fn a_guest_that_cannot_be_moved_on_stays_where_it_was_pinned_before() {
    let fake = Fake::new();
    fake.guest("web", &[10, 11]);
    fake.pin("web 1\n");
    fake.refused.borrow_mut().insert(11, PERM);
    let report = fake.pin("web 0\n");
    assert_eq!(report.refused.len(), 1);
    assert_eq!(fake.affinity_of(10), set("2-3,6-7"));
    fake.refused.borrow_mut().clear();
    fake.unpin();
    assert_eq!(fake.affinity_of(10), set("0-7"));
    assert_eq!(fake.affinity_of(11), set("0-7"));
}

#[test]
fn a_control_group_that_leaves_none_of_the_processors_is_named() {
    let fake = Fake::new();
    fake.guest("web", &[10]);
    *fake.cpuset.borrow_mut() = set("0-1");
    let report = fake.pin("web 1\n");
    assert!(report.refused[0].remedy.contains("cpuset"), "{:?}", report.refused);
    assert!(!fake.has_journal());
}

#[test]
fn a_control_group_that_leaves_some_of_the_processors_is_a_note_and_is_still_restored() {
    let fake = Fake::new();
    fake.guest("web", &[10]);
    *fake.cpuset.borrow_mut() = set("0-2");
    fake.affinities.borrow_mut().insert(10, set("0-2"));
    let report = fake.pin("web 1\n");
    assert_eq!(
        report.pinned[0].notes,
        ["its control group (cpuset) has fewer processors than asked: threads may use 2"]
    );
    *fake.cpuset.borrow_mut() = set("0-7");
    fake.unpin();
    assert_eq!(fake.affinity_of(10), set("0-2"));
}

/// A pinned guest whose control group was narrowed since: a thread of it had less before, and one began later.
fn narrowed_since_it_was_pinned() -> Fake {
    let fake = Fake::new();
    fake.guest("web", &[10, 11]);
    fake.thread(10, 11, "2-7");
    fake.pin("web 1\n");
    fake.thread(10, 12, "2-3,6-7"); // it began later and inherited
    *fake.cpuset.borrow_mut() = set("2-7");
    fake
}

#[test]
fn a_control_group_that_allows_fewer_than_a_thread_had_keeps_its_guest_in_the_journal() {
    let fake = narrowed_since_it_was_pinned();
    for call in ["the first", "the second"] {
        let unpinned = fake.unpin();
        let failed = &unpinned[0].failed;
        assert_eq!(failed.iter().map(|kept| kept.tid).collect::<Vec<_>>(), [10, 12], "{call}: {unpinned:?}");
        assert_eq!((failed[0].found.as_str(), failed[0].now.as_str()), ("0-7", "2-7"), "{call}");
        assert!(failed[0].why.as_ref().unwrap().contains("(cpuset) allows fewer: widen it"), "{failed:?}");
        assert_eq!(unpinned[0].threads, usize::from(call == "the first"), "{call}: thread 11");
        assert_eq!(unpinned[0].left_alone, [], "{call}");
        assert!(fake.has_journal(), "{call}");
    }
}

#[test]
fn a_control_group_that_is_widened_again_lets_unpin_end() {
    let fake = narrowed_since_it_was_pinned();
    fake.unpin();
    *fake.cpuset.borrow_mut() = set("0-7");
    // The kernel has restored one of the threads by itself.
    fake.affinities.borrow_mut().insert(12, set("0-7"));
    let unpinned = fake.unpin();
    assert_eq!((unpinned[0].threads, unpinned[0].failed.len(), unpinned[0].left_alone.len()), (2, 0, 0));
    assert_eq!([10, 11, 12].map(|tid| fake.affinity_of(tid)), ["0-7", "2-7", "0-7"].map(set));
    assert!(!fake.has_journal());
}

#[test]
fn a_guest_that_ends_leaves_the_journal_whatever_its_control_group_allows() {
    let fake = narrowed_since_it_was_pinned();
    fake.unpin();
    fake.end(10);
    assert_eq!(fake.unpin(), []);
    assert!(!fake.has_journal());
}

#[test]
fn a_guest_that_could_not_be_restored_is_pinned_again_and_keeps_what_it_had_first() {
    let fake = narrowed_since_it_was_pinned();
    fake.unpin();
    fake.pin("web 1\n");
    *fake.cpuset.borrow_mut() = set("0-7");
    fake.unpin();
    assert_eq!([10, 11, 12].map(|tid| fake.affinity_of(tid)), ["0-7", "2-7", "0-7"].map(set));
}

#[test]
fn a_control_group_that_allows_none_of_what_a_thread_had_is_named() {
    let fake = Fake::new();
    fake.guest("web", &[10]);
    fake.thread(10, 10, "0-1");
    fake.pin("web 1\n");
    *fake.cpuset.borrow_mut() = set("2-7");
    let unpinned = fake.unpin();
    let failed = &unpinned[0].failed[0];
    assert!(failed.why.as_ref().unwrap().contains("(cpuset) allows none of them: widen it"), "{failed:?}");
    assert_eq!(failed.now, "2-3,6-7");
    assert!(fake.has_journal());
}

#[test]
fn processors_that_are_offline_are_restored_as_far_as_the_kernel_does() {
    let fake = Fake::new();
    fake.guest("web", &[10]);
    fake.pin("web 1\n");
    // Such a kernel leaves them out.
    fake.server.put("sys/devices/system/cpu/online", "0-5\n");
    *fake.cpuset.borrow_mut() = set("0-5");
    let unpinned = fake.unpin();
    assert_eq!((unpinned[0].threads, unpinned[0].failed.len()), (1, 0), "{unpinned:?}");
    assert!(!fake.has_journal());
}

#[test]
fn pages_that_stay_behind_are_a_note() {
    let fake = Fake::new();
    fake.guest("web", &[10]);
    fake.pages_that_stay.set(7);
    let report = fake.pin("web cpus 6-7\n");
    assert_eq!(report.pinned[0].notes, ["7 pages could not be moved from node 0"]);
    assert_eq!(fake.affinity_of(10), set("6-7"));
}

#[test]
fn threads_of_the_kernel_that_work_for_a_guest_go_with_it_and_impostors_do_not() {
    let fake = Fake::new();
    fake.guest("web", &[10]);
    fake.kernel_thread(30, 10, 2);
    fake.kernel_thread(31, 10, 1);
    fake.pin("web 1\n");
    assert_eq!(fake.affinity_of(30), set("2-3,6-7"));
    assert_eq!(fake.affinity_of(31), set("0-7"));
}

#[test]
fn threads_of_the_kernel_are_put_beside_their_process_and_those_of_others_stay() {
    let fake = Fake::new();
    fake.guest("web", &[10, 11]);
    fake.thread(10, 10, "2-3");
    fake.thread(10, 11, "2"); // a virtual processor
    fake.guest("other", &[20]);
    fake.thread(20, 20, "1");
    for (tid, of, parent) in [(30, 10, 2), (31, 10, 1), (32, 10, 2), (33, 20, 2), (34, 10, 2), (35, 40, 2)] {
        fake.kernel_thread(tid, of, parent);
    }
    fake.refused.borrow_mut().extend([(32, PERM), (34, SRCH)]);
    // 40 has ended since its thread was found.
    let refused = bind_kernel_threads(&fake, &[1, 10, 40]);
    assert_eq!(*fake.asked.borrow(), ["bind 30"]);
    assert_eq!(fake.affinity_of(30), set("2-3"));
    let [one] = &refused[..] else { panic!("{refused:?}") };
    assert!(one.starts_with("cannot bind vhost-10 (32) to processors 2-3: Operation not permitted"), "{one}");
}

#[test]
fn a_journal_that_cannot_be_read_stops_before_anything_is_touched() {
    let fake = Fake::new();
    fake.guest("web", &[10]);
    fs::write(fake.state.path().join("pins.json"), "{").unwrap();
    let map = PinMap::parse("web 1\n", &Machine::of(&fake.host)).unwrap();
    let error = pin(&fake, &fake.journal(), &map).unwrap_err();
    assert!(matches!(error, PinError::Journal { verb: "read", .. }), "{error}");
    assert_eq!(fake.affinity_of(10), set("0-7"));
}

#[test]
fn a_host_without_nodes_is_one_node() {
    let fake = Fake::new();
    fs::remove_dir_all(fake.server.root().join("sys/devices/system/node")).unwrap();
    fake.guest("web", &[10]);
    fake.thread(10, 10, "0");
    let report = fake.pin("web 0\n");
    assert_eq!(report.pinned[0].processors, "0-7");
    assert_eq!(*fake.asked.borrow(), ["bind 10"], "there is no other node that memory could come from");
}

fn affinity(player: &QemuPlayer) -> BTreeSet<u32> {
    LiveProcesses.affinity(player.id()).unwrap()
}

#[test]
fn real_processes_are_bound_and_released_by_their_names() {
    let before = LiveProcesses.affinity(std::process::id()).unwrap();
    let Some(first) = before.first().filter(|_| before.len() > 1) else {
        println!("skipped: it needs two processors that this process may use");
        return;
    };
    let mark = std::process::id();
    let (mine, other) =
        (QemuPlayer::named(&format!("pin-{mark}-web")), QemuPlayer::named(&format!("unpinned-{mark}")));
    let state = tempfile::tempdir().unwrap();
    let journal = PinJournal::at(state.path().join("pins.json"), "this-boot");
    let map =
        PinMap::parse(&format!("pin-{mark}-* cpus {first}\n"), &Machine::of(LiveProcesses.host())).unwrap();
    let report = pin(&LiveProcesses, &journal, &map).unwrap();
    assert_eq!(report.pinned.iter().map(|pinned| pinned.pid).collect::<Vec<_>>(), [mine.id()]);
    assert_eq!(report.refused, []);
    assert_eq!(affinity(&mine), BTreeSet::from([*first]));
    assert_eq!(affinity(&other), before);
    let unpinned = unpin(&LiveProcesses, &journal).unwrap();
    assert_eq!((unpinned.len(), unpinned[0].threads), (1, 1));
    assert_eq!(affinity(&mine), before);
}

/// A guest that is pinned to node 1, and whose next pinning to node 0 was killed: the journal is written, and no thread is bound.
fn killed_while_it_pins_again() -> Fake {
    let fake = Fake::new();
    fake.guest("web", &[10, 11]);
    fake.pin("web 1\n");
    fake.thread(10, 12, "2-3,6-7"); // it began later and inherited
    *fake.journal_at_first_bind.borrow_mut() = None;
    fake.pin("web 0\n");
    let journal = fake.journal_at_first_bind.borrow().clone().unwrap();
    fs::write(fake.state.path().join("pins.json"), journal).unwrap();
    for tid in [10, 11, 12] {
        fake.affinities.borrow_mut().insert(tid, set("2-3,6-7"));
    }
    fake
}

#[test]
fn a_pinning_that_is_killed_before_it_binds_leaves_what_is_restored() {
    let fake = killed_while_it_pins_again();
    let unpinned = fake.unpin();
    assert_eq!((unpinned[0].threads, unpinned[0].left_alone.len()), (3, 0), "{unpinned:?}");
    for tid in [10, 11, 12] {
        assert_eq!(fake.affinity_of(tid), set("0-7"));
    }
    // The next call goes on from either place, and what was there first is still known.
    for place in ["web 0\n", "web 1\n", "web cpus 7\n"] {
        for half in [false, true] {
            let fake = killed_while_it_pins_again();
            if half {
                fake.affinities.borrow_mut().insert(10, set("0-1,4-5"));
            }
            fake.thread(10, 13, "2-3,6-7");
            fake.pin(place);
            fake.unpin();
            for tid in [10, 11, 12, 13] {
                assert_eq!(fake.affinity_of(tid), set("0-7"), "{place} {half} {tid}");
            }
        }
    }
}

#[test]
fn what_was_ours_before_is_not_ours_once_a_pinning_is_done() {
    let fake = Fake::new();
    fake.guest("web", &[10, 11]);
    fake.pin("web 1\n");
    fake.pin("web 0\n");
    fake.thread(10, 11, "2-3,6-7");
    let unpinned = fake.unpin();
    assert_eq!((unpinned[0].threads, unpinned[0].left_alone[0].tid), (1, 11), "{unpinned:?}");
    assert_eq!(fake.affinity_of(11), set("2-3,6-7"));
}
