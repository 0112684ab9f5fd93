//! Processor time of every process of the host: what the kernel's own threads used, and which programs outside a run used most.
//!
//! The children of kthreadd (ksoftirqd, kworker, kswapd, khugepaged) work for whoever uses the host, so what a load causes in them is no
//! foreign load.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs;
use std::path::Path;

use super::parse::{TICK_NS, parse_task_name, parse_task_stat};

/// The process that is the parent of all kernel threads.
const KTHREADD: u32 = 2;

/// One reading of all processes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Census {
    /// By id and start, which together are one process for ever.
    processes: HashMap<(u32, u64), Counted>,
    /// Whether this is the `/proc` of the host's first PID namespace.
    has_kernel: bool,
}

/// A process and what it had used.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Counted {
    name: String,
    parent: u32,
    /// Ticks that it used itself.
    own: u64,
    /// Ticks of its children that ended.
    ended: u64,
}

/// What all processes with one name used between two readings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedUse {
    /// The name, which programs choose: it may hold anything.
    pub name: String,
    /// Processor time in nanoseconds.
    pub used_ns: u64,
    /// How many processes.
    pub processes: u32,
}

impl Census {
    /// Reads all processes in this `/proc`; `None` where it cannot be listed. It opens one file of every process, about 10 µs each, so
    /// it is for both ends of a measurement and not for each second.
    pub fn read(proc: &Path) -> Option<Self> {
        let ids = fs::read_dir(proc).ok()?.flatten();
        let ids = ids.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
        // One that ended meanwhile, and a figure that cannot be, are left out.
        let counted = |id: u32| {
            let text = fs::read(proc.join(id.to_string()).join("stat")).ok()?;
            let stat = parse_task_stat(&text)?;
            let own = stat.user_ticks.checked_add(stat.system_ticks)?;
            let parent = u32::try_from(stat.parent).ok()?;
            let counted = Counted { name: parse_task_name(&text)?, parent, own, ended: stat.ended_ticks };
            Some(((id, stat.start_ticks), counted))
        };
        let processes: HashMap<_, _> = ids.filter_map(counted).collect();
        let name = fs::read_to_string(proc.join(KTHREADD.to_string()).join("comm")).ok();
        let has_kernel = name.is_some_and(|name| name.trim_end() == "kthreadd");
        Some(Self { processes, has_kernel })
    }

    /// Nanoseconds that kernel threads used since an earlier reading; `None` in a PID namespace, where they cannot be seen. What threads
    /// used that ended since is not known and not in it.
    pub fn kernel_ns_since(&self, before: &Self) -> Option<u64> {
        let kernel = self.processes.iter().filter(|(_, counted)| counted.parent == KTHREADD);
        let used = kernel.map(|(process, counted)| counted.own.saturating_sub(before.own(process)));
        // More than all processors together is cut off where it is used.
        self.has_kernel.then(|| used.fold(0, u64::saturating_add).saturating_mul(TICK_NS))
    }

    /// What programs used since an earlier reading, the most first: all but kernel threads and `ours` with all that came of them.
    /// What a process used that is gone now is under the name of the one that waited for it: `children of make`.
    pub fn others_since(&self, before: &Self, ours: &[u32]) -> Vec<NamedUse> {
        let ours = self.descent(ours);
        let is_other = |id: u32, parent: u32| id != KTHREADD && parent != KTHREADD && !ours.contains(&id);
        let gone = self.gone_since(before);
        let mut uses: BTreeMap<String, NamedUse> = BTreeMap::new();
        let mut add = |name: String, ticks: u64| {
            if ticks > 0 {
                let of_name = || NamedUse { name: name.clone(), used_ns: 0, processes: 0 };
                let found = uses.entry(name.clone()).or_insert_with(of_name);
                found.used_ns = found.used_ns.saturating_add(ticks.saturating_mul(TICK_NS));
                found.processes = found.processes.saturating_add(1);
            }
        };
        for (process, counted) in self.processes.iter().filter(|(process, of)| is_other(process.0, of.parent))
        {
            let then = before.processes.get(process);
            add(counted.name.clone(), counted.own.saturating_sub(then.map_or(0, |then| then.own)));
            // They bring all that they ever used, of which the earlier reading had seen a part.
            let known = gone.get(&process.0).copied().unwrap_or(0);
            let ended = counted.ended.saturating_sub(then.map_or(0, |then| then.ended)).saturating_sub(known);
            // What a process that is new here waited for, it may have waited for before.
            add(format!("children of {}", counted.name), if then.is_some() { ended } else { 0 });
        }
        let mut uses: Vec<NamedUse> = uses.into_values().collect();
        uses.sort_by(|one, other| other.used_ns.cmp(&one.used_ns).then_with(|| one.name.cmp(&other.name)));
        uses
    }

    /// The parent of a process, where it is known.
    pub fn parent(&self, id: u32) -> Option<u32> {
        self.of(id).map(|counted| counted.parent)
    }

    /// The name of a process, where it is known.
    pub fn name(&self, id: u32) -> Option<&str> {
        self.of(id).map(|counted| counted.name.as_str())
    }

    fn of(&self, id: u32) -> Option<&Counted> {
        self.processes.iter().find(|(process, _)| process.0 == id).map(|(_, counted)| counted)
    }

    fn own(&self, process: &(u32, u64)) -> u64 {
        self.processes.get(process).map_or(0, |counted| counted.own)
    }

    /// What processes that are gone now had used when they were seen, by the one that it came to: their parent, or that one's where it is
    /// gone too.
    fn gone_since(&self, before: &Self) -> HashMap<u32, u64> {
        let mut gone: HashMap<u32, u64> = HashMap::new();
        let ended = || before.processes.iter().filter(|(process, _)| !self.processes.contains_key(*process));
        let parents: HashMap<u32, u32> =
            ended().map(|(process, counted)| (process.0, counted.parent)).collect();
        for (_, counted) in ended() {
            let mut parent = counted.parent;
            // A number that is used again could lead round in a circle, and a chain may be as long as somebody makes it.
            for _ in 0..DESCENT_MAX {
                let Some(&next) = parents.get(&parent) else { break };
                parent = next;
            }
            let of_parent = gone.entry(parent).or_default();
            *of_parent = of_parent.saturating_add(counted.own).saturating_add(counted.ended);
        }
        gone
    }

    /// These processes and all that came of them.
    fn descent(&self, first: &[u32]) -> BTreeSet<u32> {
        let mut children: HashMap<u32, Vec<u32>> = HashMap::new();
        for (process, counted) in &self.processes {
            children.entry(counted.parent).or_default().push(process.0);
        }
        let mut found = BTreeSet::new();
        let mut left = first.to_vec();
        while let Some(id) = left.pop() {
            if found.insert(id) {
                left.extend(children.get(&id).into_iter().flatten());
            }
        }
        found
    }
}

/// Generations that ended together and are followed.
const DESCENT_MAX: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    /// A process, with its own ticks and those of its ended children.
    fn process(proc: &Path, (id, name, parent): (u32, &str, u32), ticks: (u64, u64), start: u64) {
        let folder = proc.join(id.to_string());
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("comm"), format!("{name}\n")).unwrap();
        let rest = "18446744073709551615 1 1 0 0 0 0 0 0 0 0 0 0 17 1 0 0 0 0 0 0 0 0 0 0 0 0 0 0";
        let (own, ended) = ticks;
        let stat = format!(
            "{id} ({name}) S {parent} 0 0 0 -1 0 1 2 3 4 1 {own} {ended} 0 20 0 1 0 {start} 0 0 {rest}\n"
        );
        fs::write(folder.join("stat"), stat).unwrap();
    }

    fn uses(all: &[NamedUse]) -> Vec<(&str, u64, u32)> {
        all.iter().map(|one| (one.name.as_str(), one.used_ns / TICK_NS, one.processes)).collect()
    }

    #[test]
    fn children_of_kthreadd_are_counted_as_the_kernels() {
        let proc = tempfile::tempdir().unwrap();
        let read = || Census::read(proc.path()).unwrap();
        process(proc.path(), (700, "somebody", 1), (100, 0), 9);
        assert_eq!(read().kernel_ns_since(&read()), None, "a /proc without kthreadd is not the host's");
        process(proc.path(), (2, "kthreadd", 0), (50, 0), 0);
        process(proc.path(), (14, "ksoftirqd/0", 2), (100, 0), 5);
        process(proc.path(), (90, "kworker/0:1", 2), (400, 0), 7);
        let before = read();
        process(proc.path(), (14, "ksoftirqd/0", 2), (130, 0), 5);
        process(proc.path(), (700, "somebody", 1), (900, 0), 9);
        // Another thread of the same number, and a new one.
        process(proc.path(), (90, "kworker/0:1", 2), (3, 0), 800);
        process(proc.path(), (91, "kworker/1:1", 2), (9, 0), 900);
        // 30, and all of 1 + 3 and 1 + 9.
        assert_eq!(read().kernel_ns_since(&before), Some(44 * TICK_NS));
        assert_eq!(uses(&read().others_since(&before, &[])), [("somebody", 800, 1)]);
    }

    #[test]
    fn programs_outside_a_run_are_named_with_those_of_their_children_that_ended() {
        let proc = tempfile::tempdir().unwrap();
        let read = || Census::read(proc.path()).unwrap();
        process(proc.path(), (100, "tilemark", 1), (10, 0), 1);
        process(proc.path(), (101, "engine", 100), (10, 0), 1);
        process(proc.path(), (102, "nginx", 101), (10, 0), 1);
        process(proc.path(), (200, "make", 1), (10, 500), 1);
        process(proc.path(), (201, "cc1", 200), (50, 0), 2);
        process(proc.path(), (300, "chrome", 1), (70, 0), 3);
        let before = read();
        process(proc.path(), (102, "nginx", 101), (5000, 0), 1);
        // cc1 ended: of the 250 ticks that came to make with it, 50 were seen before. Another one lives.
        fs::remove_dir_all(proc.path().join("201")).unwrap();
        process(proc.path(), (200, "make", 1), (14, 750), 1);
        process(proc.path(), (202, "cc1", 200), (40, 0), 8);
        process(proc.path(), (203, "cc1", 200), (30, 0), 9);
        process(proc.path(), (300, "chrome", 1), (75, 0), 3);
        // Each new one has one tick of user mode more.
        assert_eq!(
            uses(&read().others_since(&before, &[100])),
            [("children of make", 199, 1), ("cc1", 72, 2), ("chrome", 5, 1), ("make", 4, 1)]
        );
    }

    #[test]
    fn what_a_child_of_a_child_had_used_before_is_not_counted_when_both_end() {
        let proc = tempfile::tempdir().unwrap();
        let read = || Census::read(proc.path()).unwrap();
        process(proc.path(), (400, "bash", 1), (10, 0), 1);
        process(proc.path(), (401, "cargo", 400), (20, 0), 2);
        process(proc.path(), (402, "rustc", 401), (300, 0), 3);
        let before = read();
        fs::remove_dir_all(proc.path().join("401")).unwrap();
        fs::remove_dir_all(proc.path().join("402")).unwrap();
        // Of 333 ticks, 1 + 20 and 1 + 300 were seen before.
        process(proc.path(), (400, "bash", 1), (10, 333), 1);
        assert_eq!(uses(&read().others_since(&before, &[])), [("children of bash", 11, 1)]);
    }
}
