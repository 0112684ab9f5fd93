//! Processor time of the kernel's own threads: the children of kthreadd, such as ksoftirqd, kworker, kswapd and khugepaged.
//! They work for whoever uses the host, so what a load causes in them is no foreign load.

use std::collections::HashMap;
use std::fs;
use std::path::Path;

use super::parse::{TICK_NS, TaskStat, parse_task_stat};

/// The process that is the parent of all kernel threads.
const KTHREADD: u32 = 2;

/// One reading of all kernel threads.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KernelThreads {
    /// Ticks that each used since it began, by id and start.
    used_ticks: HashMap<(u32, u64), u64>,
}

impl KernelThreads {
    /// Reads them in a `/proc` of the host's first PID namespace; `None` in any other, where they cannot be seen. It opens one
    /// file of every process, about 10 µs each, so it is for both ends of a measurement and not for each second.
    pub fn read(proc: &Path) -> Option<Self> {
        let name = fs::read_to_string(proc.join(KTHREADD.to_string()).join("comm")).ok()?;
        if name.trim_end() != "kthreadd" {
            return None;
        }
        let ids = fs::read_dir(proc).ok()?.flatten();
        let ids = ids.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
        // One that ended meanwhile is none.
        let stats = ids.filter_map(|id| {
            Some((id, parse_task_stat(&fs::read(proc.join(id.to_string()).join("stat")).ok()?)?))
        });
        let kernel = stats.filter(|(_, stat)| stat.parent == u64::from(KTHREADD));
        // A figure that cannot be is left out.
        let used = |stat: &TaskStat| stat.user_ticks.checked_add(stat.system_ticks);
        let threads = kernel.filter_map(|(id, stat)| Some(((id, stat.start_ticks), used(&stat)?)));
        Some(Self { used_ticks: threads.collect() })
    }

    /// Nanoseconds that they used since an earlier reading. What threads used that ended since is not known and not in it.
    pub fn used_ns_since(&self, before: &Self) -> u64 {
        let used = |(thread, ticks): (&(u32, u64), &u64)| {
            ticks.saturating_sub(before.used_ticks.get(thread).copied().unwrap_or(0))
        };
        // More than all processors together is cut off where it is used.
        self.used_ticks.iter().map(used).fold(0, u64::saturating_add).saturating_mul(TICK_NS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn process(proc: &Path, id: u32, name: &str, parent: u32, ticks: u64, start: u64) {
        let folder = proc.join(id.to_string());
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("comm"), format!("{name}\n")).unwrap();
        let rest = "18446744073709551615 1 1 0 0 0 0 0 0 0 0 0 0 17 1 0 0 0 0 0 0 0 0 0 0 0 0 0 0";
        let stat = format!(
            "{id} ({name}) S {parent} 0 0 0 -1 0 1 2 3 4 1 {ticks} 0 0 20 0 1 0 {start} 0 0 {rest}\n"
        );
        fs::write(folder.join("stat"), stat).unwrap();
    }

    #[test]
    fn children_of_kthreadd_are_counted_and_nobody_else() {
        let proc = tempfile::tempdir().unwrap();
        let read = || KernelThreads::read(proc.path());
        assert_eq!(read(), None, "a /proc without kthreadd is not the host's");
        process(proc.path(), 2, "kthreadd", 0, 50, 0);
        process(proc.path(), 14, "ksoftirqd/0", 2, 100, 5);
        process(proc.path(), 90, "kworker/0:1", 2, 400, 7);
        process(proc.path(), 700, "somebody", 1, 100, 9);
        let before = read().unwrap();
        process(proc.path(), 14, "ksoftirqd/0", 2, 130, 5);
        process(proc.path(), 700, "somebody", 1, 900, 9);
        // Another thread of the same number, and a new one.
        process(proc.path(), 90, "kworker/0:1", 2, 3, 800);
        process(proc.path(), 91, "kworker/1:1", 2, 9, 900);
        // 30, and all of 1 + 3 and 1 + 9.
        assert_eq!(read().unwrap().used_ns_since(&before), 44 * TICK_NS);
    }

    #[test]
    fn in_a_pid_namespace_of_its_own_nothing_is_told() {
        let proc = tempfile::tempdir().unwrap();
        process(proc.path(), 2, "tilemark", 1, 50, 0);
        assert_eq!(KernelThreads::read(proc.path()), None);
    }
}
