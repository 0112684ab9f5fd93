//! Where the kernel has the threads and the memory of a process, and the interrupts of devices.
//!
//! One file and one call a thread, one file a process. The kernel walks the process's page tables for that file, so it is read once in a
//! measurement and not once a second.

use crate::{read::list::parse_list, traces::Stat};
use rustix::{process::Pid, thread::sched_getaffinity};
use std::{
    collections::BTreeMap,
    fs, io,
    path::{Path, PathBuf},
};

/// A thread, where it may run and where it ran last.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ThreadPlace {
    /// Its number.
    pub id: u32,
    /// Its name.
    pub name: String,
    /// The processors that it may use, sorted.
    pub allowed: Vec<u32>,
    /// The processor that it last ran on.
    pub ran_on: u32,
}

/// All threads of a process. One that ends meanwhile is left out.
///
/// # Errors
/// Where the process is gone.
pub fn threads_of(pid: u32) -> io::Result<Vec<ThreadPlace>> {
    let folder = PathBuf::from(format!("/proc/{pid}/task"));
    let mut threads = Vec::new();
    for entry in fs::read_dir(&folder)? {
        let Some(id) = entry?.file_name().to_str().and_then(|name| name.parse::<u32>().ok()) else {
            continue;
        };
        threads.extend(thread(&folder, id));
    }
    threads.sort_unstable_by_key(|thread| thread.id);
    Ok(threads)
}

fn thread(folder: &Path, id: u32) -> Option<ThreadPlace> {
    let stat = fs::read(folder.join(id.to_string()).join("stat")).ok()?;
    let (name, ran_on) = parse_stat(&String::from_utf8_lossy(&stat))?;
    let allowed = sched_getaffinity(i32::try_from(id).ok().and_then(Pid::from_raw)).ok()?;
    let allowed = (0..rustix::thread::CpuSet::MAX_CPU).filter(|id| allowed.is_set(*id));
    Some(ThreadPlace { id, name, allowed: allowed.map(|id| id as u32).collect(), ran_on })
}

/// Threads of the kernel that move the packets of processes (vhost), by the process, in the host's `/proc`. Since Linux 6.4 they are threads
/// of the process itself; before, they are found by their name.
pub fn vhost_threads(proc: &Path) -> BTreeMap<u32, Vec<ThreadPlace>> {
    let mut found: BTreeMap<u32, Vec<ThreadPlace>> = BTreeMap::new();
    for entry in fs::read_dir(proc).into_iter().flatten().flatten() {
        let Some(id) = entry.file_name().to_str().and_then(|name| name.parse::<u32>().ok()) else { continue };
        if let Some((process, thread)) = vhost_thread(&entry.path(), id) {
            found.entry(process).or_default().push(thread);
        }
    }
    found
}

/// `kthreadd`, which starts all threads of the kernel: every other process could give itself such a name.
const KERNEL_PARENT: u32 = 2;

fn vhost_thread(folder: &Path, id: u32) -> Option<(u32, ThreadPlace)> {
    let name = fs::read_to_string(folder.join("comm")).ok()?;
    let process = name.trim_end().strip_prefix("vhost-")?.parse().ok()?;
    let stat = fs::read_to_string(folder.join("stat")).ok()?;
    Stat::parse(&stat).filter(|stat| stat.parent == KERNEL_PARENT)?;
    let (name, ran_on) = parse_stat(&stat)?;
    // It has no number here by which its processors could be asked for.
    let status = fs::read_to_string(folder.join("status")).ok()?;
    let allowed = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"))?;
    Some((process, ThreadPlace { id, name, allowed: parse_list(allowed.trim())?, ran_on }))
}

/// The name and the last processor in a line of `/proc/PID/task/TID/stat`. The name may hold anything, parentheses and blanks too.
pub fn parse_stat(stat: &str) -> Option<(String, u32)> {
    let (before, after) = stat.rsplit_once(')')?;
    let (_, name) = before.split_once('(')?;
    // Field 39 of proc(5); the first one after the name is field 3.
    let ran_on = after.split_whitespace().nth(39 - 3)?.parse().ok()?;
    Some((name.to_owned(), ran_on))
}

/// Bytes of a process's memory on each NUMA node: its own and what it shares with its kind, not the programs and libraries that it maps.
///
/// # Errors
/// Where the process is gone, belongs to somebody else, or the kernel knows no NUMA.
pub fn memory_by_node(pid: u32) -> io::Result<BTreeMap<u32, u64>> {
    let text = fs::read(format!("/proc/{pid}/numa_maps"))?;
    Ok(parse_numa_maps(&String::from_utf8_lossy(&text)))
}

/// Files of memory: those that are on no disk. Everything else that is mapped is in the host's page cache, wherever it was first read.
const OF_MEMORY: [&str; 5] = ["/memfd:", "/dev/zero", "/dev/shm/", "/SYSV", "/[aio]"];

/// Bytes on each node in `/proc/PID/numa_maps`.
pub fn parse_numa_maps(text: &str) -> BTreeMap<u32, u64> {
    let mut bytes = BTreeMap::new();
    for line in text.lines() {
        let (mut pages, mut page_bytes, mut is_counted) = (Vec::new(), 4096_u64, true);
        for word in line.split_whitespace().skip(2) {
            let Some((key, value)) = word.split_once('=') else { continue };
            if key == "file" {
                is_counted = OF_MEMORY.iter().any(|start| value.starts_with(start));
            } else if key == "kernelpagesize_kB" {
                page_bytes = value.parse::<u64>().map_or(page_bytes, |kib| kib.saturating_mul(1024));
            } else if let Some(node) = key.strip_prefix('N').and_then(|node| node.parse::<u32>().ok()) {
                pages.extend(value.parse::<u64>().ok().map(|pages| (node, pages)));
            }
        }
        for (node, pages) in pages.into_iter().filter(|_| is_counted) {
            let sum: &mut u64 = bytes.entry(node).or_default();
            *sum = sum.saturating_add(pages.saturating_mul(page_bytes));
        }
    }
    bytes
}

/// Interrupts of devices since the boot, by the processor that served them; `proc` is the folder of proc(5). Those of the processors
/// themselves, such as their timers, are not among them.
///
/// # Errors
/// Where the kernel does not give them.
pub fn device_interrupts(proc: &Path) -> io::Result<BTreeMap<u32, u64>> {
    Ok(parse_interrupts(&fs::read_to_string(proc.join("interrupts"))?))
}

/// The sums in `/proc/interrupts`: its head names the processors that are online, and a line of a device begins with a number.
fn parse_interrupts(text: &str) -> BTreeMap<u32, u64> {
    let mut lines = text.lines();
    let head = lines.next().unwrap_or_default().split_whitespace();
    let processors: Vec<u32> = head.map_while(|word| word.strip_prefix("CPU")?.parse().ok()).collect();
    let mut sums: BTreeMap<u32, u64> = processors.iter().map(|id| (*id, 0)).collect();
    for line in lines {
        let Some((_, counts)) = line.split_once(':').filter(|(name, _)| name.trim().parse::<u32>().is_ok())
        else {
            continue;
        };
        let counts = counts.split_whitespace().map_while(|word| word.parse::<u64>().ok());
        for (id, count) in processors.iter().zip(counts) {
            let sum = sums.entry(*id).or_default();
            *sum = sum.saturating_add(count);
        }
    }
    sums
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interrupts_of_devices_are_summed_by_processor_and_those_of_processors_are_not() {
        let text = "\
            CPU0       CPU2
  24:          1          0  IO-APIC   5-edge      ACPI:Ged
  36:         40   16561300 PCI-MSIX-0000:00:02.0   1-edge      virtio1-req.0
  37:          7
 NMI:          0          9   Non-maskable interrupts
 LOC:   28445702   26796140   Local timer interrupts
 ERR:          3
";
        assert_eq!(parse_interrupts(text), [(0, 48), (2, 16_561_300)].into());
        assert_eq!(parse_interrupts(""), BTreeMap::new());
        assert!(!device_interrupts(Path::new("/proc")).unwrap().is_empty());
    }

    #[test]
    fn pages_are_counted_by_node_in_their_size_and_programs_are_not() {
        let text = "\
55cb5e86e000 bind:0 file=/usr/bin/qemu-system-x86_64 mapped=900 mapmax=2 N0=900 kernelpagesize_kB=4
55cb849f7000 bind:0 heap anon=393 dirty=393 active=0 N0=390 N1=3 kernelpagesize_kB=4
7f8787e00000 bind:1 file=/memfd:memory-backend-memfd\\040(deleted) huge dirty=64 N1=64 kernelpagesize_kB=2048
7f0000000000 default stack anon=2 dirty=2 N12=2 kernelpagesize_kB=4
7f0000001000 default
7f0000002000 prefer (many):0-1 anon=1 dirty=1 N0=1 kernelpagesize_kB=4
nonsense N=1 Nx=2 N3=x kernelpagesize_kB=y
";
        let wanted = [(0, 391 * 4096), (1, 3 * 4096 + (64 << 21)), (12, 2 * 4096)];
        assert_eq!(parse_numa_maps(text), wanted.into());
        assert_eq!(parse_numa_maps(""), BTreeMap::new());
        let most = format!("1 default N0={} N0=7 kernelpagesize_kB={}", u64::MAX, u64::MAX);
        assert_eq!(parse_numa_maps(&most), [(0, u64::MAX)].into());
    }

    #[test]
    fn threads_of_the_kernel_for_a_process_are_found_and_impostors_are_not() {
        let proc = tempfile::tempdir().unwrap();
        let put = |id: u32, parent: u32| {
            let folder = proc.path().join(id.to_string());
            fs::create_dir(&folder).unwrap();
            let rest = (5..39).map(|field| field.to_string()).collect::<Vec<_>>().join(" ");
            fs::write(folder.join("comm"), "vhost-10\n").unwrap();
            fs::write(folder.join("stat"), format!("{id} (vhost-10) S {parent} {rest} 7 0 0\n")).unwrap();
            fs::write(folder.join("status"), "Name:\tvhost-10\nCpus_allowed_list:\t0-2,7\n").unwrap();
        };
        put(30, 2);
        put(31, 1);
        let thread =
            ThreadPlace { id: 30, name: "vhost-10".to_owned(), allowed: vec![0, 1, 2, 7], ran_on: 7 };
        assert_eq!(vhost_threads(proc.path()), [(10, vec![thread])].into());
    }

    #[test]
    fn the_last_processor_is_read_whatever_a_thread_is_called() {
        let rest = (4..39).map(|field| field.to_string()).collect::<Vec<_>>().join(" ");
        let stat = format!("12 (CPU 0/KVM) x) S {rest} 7 0 0\n");
        assert_eq!(parse_stat(&stat), Some(("CPU 0/KVM) x".to_owned(), 7)));
        assert_eq!(parse_stat("12 (a) S 1 2"), None);
        assert_eq!(parse_stat(""), None);
    }

    #[test]
    fn this_process_runs_where_it_may_and_has_memory_on_a_node() {
        let this = std::process::id();
        let threads = threads_of(this).unwrap();
        assert!(threads.iter().any(|thread| thread.id == this));
        for thread in &threads {
            assert!(thread.allowed.contains(&thread.ran_on), "{thread:?}");
        }
        assert!(memory_by_node(this).unwrap().values().sum::<u64>() > 0);
    }
}
