//! QEMU's threads on their processors. QEMU itself can no longer do that behind its walls: the engine does it from outside.

use crate::error::GuestError;
use rustix::{
    io::Errno,
    process::Pid,
    thread::{CpuSet, sched_setaffinity},
};
use serde_json::Value;
use std::{
    collections::BTreeMap,
    fs, io,
    path::{Path, PathBuf},
};
use tilemark_plan::place::GuestPlace;
use tilemark_units::ranges;

/// The name by which QEMU's answer about its threads is known.
pub(super) const THREADS: &str = "threads";

/// Asks QEMU which thread each of its virtual processors is.
pub(super) fn ask_threads() -> Value {
    serde_json::json!({"execute": "query-cpus-fast", "id": THREADS})
}

/// The thread of each virtual processor in QEMU's answer, by the thread's number in QEMU's own PID namespace. The translator may have one
/// thread for several.
pub(super) fn threads_in(answer: &Value) -> Vec<(usize, u32)> {
    let thread = |cpu: &Value| {
        let number = |key: &str| cpu.get(key).and_then(Value::as_u64);
        Some((usize::try_from(number("cpu-index")?).ok()?, u32::try_from(number("thread-id")?).ok()?))
    };
    let cpus = answer.get("return").and_then(Value::as_array);
    cpus.into_iter().flatten().filter_map(thread).collect()
}

/// Puts all threads of a QEMU on their processors.
pub(super) fn pin(
    guest: &str,
    pid: u32,
    place: &GuestPlace,
    cpus: &[(usize, u32)],
) -> Result<(), GuestError> {
    let failed = |what: String| {
        let guest = guest.to_owned();
        move |source: io::Error| GuestError::Place { guest, what, source }
    };
    let threads = threads_of(pid).map_err(failed("find the threads of its QEMU".to_owned()))?;
    let wanted = wanted(place, cpus);
    if cpus.len() < place.vcpus.len()
        || wanted.keys().any(|own| !threads.iter().any(|(_, number)| number == own))
    {
        let missing = io::Error::new(io::ErrorKind::NotFound, "QEMU does not show a thread for each of them");
        return Err(failed("find the threads of its virtual processors".to_owned())(missing));
    }
    for (thread, own) in threads {
        let processors = wanted.get(&own).unwrap_or(&place.emulator);
        let what = || format!("put a thread of it on processors {}", ranges(processors));
        match set_affinity(thread, processors) {
            // It served input and output and has ended.
            Ok(()) | Err(Errno::SRCH) => {}
            Err(error) => return Err(failed(what())(error.into())),
        }
    }
    Ok(())
}

/// The processors of each thread that is a virtual processor, by the thread's own number.
fn wanted(place: &GuestPlace, cpus: &[(usize, u32)]) -> BTreeMap<u32, Vec<u32>> {
    let mut wanted: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
    for (cpu, thread) in cpus {
        let processors = wanted.entry(*thread).or_default();
        processors.extend(place.vcpus.get(*cpu).into_iter().flatten());
        processors.sort_unstable();
        processors.dedup();
    }
    wanted
}

fn set_affinity(thread: u32, processors: &[u32]) -> Result<(), Errno> {
    let mut set = CpuSet::new();
    for &id in processors.iter().filter(|id| (**id as usize) < CpuSet::MAX_CPU) {
        set.set(id as usize);
    }
    sched_setaffinity(i32::try_from(thread).ok().and_then(Pid::from_raw), &set)
}

/// The threads of a process: their numbers here, and those that they know themselves.
fn threads_of(pid: u32) -> io::Result<Vec<(u32, u32)>> {
    let folder = PathBuf::from(format!("/proc/{pid}/task"));
    let mut threads = Vec::new();
    for entry in fs::read_dir(&folder)? {
        let name = entry?.file_name();
        let Some(number) = name.to_str().and_then(|name| name.parse().ok()) else { continue };
        threads.extend(own_number(&folder.join(&name).join("status")).map(|own| (number, own)));
    }
    Ok(threads)
}

/// The number of a thread in the innermost PID namespace that it is in. Nothing where it has ended.
fn own_number(status: &Path) -> Option<u32> {
    let text = fs::read(status).ok()?;
    let text = String::from_utf8_lossy(&text);
    let line = text.lines().find_map(|line| line.strip_prefix("NSpid:"))?;
    line.split_whitespace().next_back()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn qemu_says_which_thread_is_which_processor() {
        let answer = json!({"id": THREADS, "return": [
            {"cpu-index": 1, "thread-id": 8, "props": {"node-id": 1}},
            {"cpu-index": 0, "thread-id": 7},
            {"cpu-index": 2},
        ]});
        assert_eq!(threads_in(&answer), [(1, 8), (0, 7)]);
        assert_eq!(threads_in(&json!({"return": {}})), []);
    }

    #[test]
    fn a_thread_of_several_processors_may_use_those_of_all() {
        let place = GuestPlace { vcpus: vec![vec![3], vec![1, 2], vec![5]], ..GuestPlace::default() };
        assert_eq!(wanted(&place, &[(0, 7), (1, 7), (2, 8)]), [(7, vec![1, 2, 3]), (8, vec![5])].into());
    }

    #[test]
    fn threads_of_a_process_are_put_on_their_processors_and_a_missing_one_is_reported() {
        let status = std::fs::read_to_string("/proc/thread-self/status").unwrap();
        let own: u32 =
            status.lines().find_map(|line| line.strip_prefix("Pid:")).unwrap().trim().parse().unwrap();
        let mut child = std::process::Command::new("sleep").arg("1000").spawn().unwrap();
        let pid = child.id();
        let place = GuestPlace { vcpus: vec![vec![0]], emulator: vec![0], ..GuestPlace::default() };
        pin("tile-001-web", pid, &place, &[(0, pid)]).unwrap();
        let set = rustix::thread::sched_getaffinity(Pid::from_raw(pid as i32)).unwrap();
        assert_eq!((set.count(), set.is_set(0)), (1, true));
        let error = pin("tile-001-web", pid, &place, &[(0, own)]).unwrap_err().to_string();
        assert!(error.contains("cannot find the threads of its virtual processors"), "{error}");
        let nowhere = GuestPlace { vcpus: vec![vec![1_000]], ..place };
        let error = pin("tile-001-web", pid, &nowhere, &[(0, pid)]).unwrap_err().to_string();
        assert!(error.contains("cannot put a thread of it on processors 1000"), "{error}");
        child.kill().unwrap();
        child.wait().unwrap();
    }
}
