//! Numbers of processes as programs on the host know them. A run's processes have a PID namespace of their own, whose numbers mean
//! something else outside.

use crate::job::keeper::host_proc;
use std::{
    collections::{BTreeMap, BTreeSet},
    fs, io,
    path::{Path, PathBuf},
};
use tilemark_sys::files::read_kernel_text;

/// The host's number of each of these processes, in their order. `None` stays `None`, and so does a process that is gone.
pub(crate) fn of(own: &[Option<u32>]) -> Vec<Option<u32>> {
    let proc = host_proc();
    // Not in an engine: there is no other namespace.
    if proc == Path::new("/proc") {
        return own.to_vec();
    }
    let numbers = read(&proc).unwrap_or_default();
    own.iter().map(|pid| numbers.get(&(*pid)?).copied()).collect()
}

/// A process, as the host's `/proc` shows it.
struct Seen {
    host: u32,
    parent: u32,
    /// Its number in the namespace below the host's; none where it has no other.
    below: Option<u32>,
}

/// The host's numbers by our own, of all processes below the first one of this namespace.
fn read(proc: &Path) -> io::Result<BTreeMap<u32, u32>> {
    let namespace = fs::read_link("/proc/self/ns/pid")?;
    let mut seen: Vec<Seen> = Vec::new();
    for entry in fs::read_dir(proc)?.flatten() {
        let Some(host) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
        // One that has ended meanwhile is left out.
        let Ok(status) = read_kernel_text(&entry.path().join("status")) else { continue };
        seen.extend(parse(host, &status));
    }
    let is_ours = |host: u32| namespace_of(proc, host).is_ok_and(|of| of == namespace);
    let first = seen.iter().find(|process| process.below == Some(1) && is_ours(process.host));
    Ok(first.map(|first| below(&seen, first.host)).unwrap_or_default())
}

fn namespace_of(proc: &Path, host: u32) -> io::Result<PathBuf> {
    fs::read_link(proc.join(host.to_string()).join("ns/pid"))
}

/// The lines `PPid` and `NSpid` of `/proc/PID/status` (proc_pid_status(5)): the numbers begin with that of this `/proc`.
fn parse(host: u32, status: &str) -> Option<Seen> {
    let of = |key: &str| status.lines().find_map(|line| line.strip_prefix(key));
    let parent = of("PPid:")?.trim().parse().ok()?;
    let below = of("NSpid:")?.split_whitespace().nth(1).and_then(|number| number.parse().ok());
    Some(Seen { host, parent, below })
}

/// All that came of a process. Numbers of other namespaces may be the same as ours, so it is descent that decides.
fn below(seen: &[Seen], first: u32) -> BTreeMap<u32, u32> {
    let mut ours = BTreeSet::from([first]);
    loop {
        let more: Vec<u32> = seen
            .iter()
            .filter(|process| ours.contains(&process.parent) && !ours.contains(&process.host))
            .map(|process| process.host)
            .collect();
        if more.is_empty() {
            break;
        }
        ours.extend(more);
    }
    let own = seen.iter().filter(|process| ours.contains(&process.host));
    own.filter_map(|process| Some((process.below?, process.host))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_of_another_namespace_is_not_taken_for_ours() {
        let status = |parent: u32, numbers: &str| {
            format!("Name:\tx\nPid:\t1\nPPid:\t{parent}\nTracerPid:\t0\nNSpid:\t{numbers}\n")
        };
        let seen: Vec<Seen> = [
            (1, status(0, "1")),
            (500, status(1, "500\t1")),
            (501, status(500, "501\t7")),
            // A twin: its own init is in a namespace below ours.
            (502, status(501, "502\t8\t1")),
            // Of a container beside the run.
            (600, status(1, "600\t1")),
            (601, status(600, "601\t8")),
        ]
        .iter()
        .filter_map(|(host, text)| parse(*host, text))
        .collect();
        assert_eq!(below(&seen, 500), BTreeMap::from([(1, 500), (7, 501), (8, 502)]));
    }

    #[test]
    fn outside_a_run_a_process_has_one_number() {
        assert_eq!(of(&[Some(7), None]), [Some(7), None]);
    }
}
