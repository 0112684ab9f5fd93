//! Who holds a namespace: processes in it or with a descriptor of it, and mounts of it.
//!
//! A namespace is named as the kernel shows it, `net:[4026532300]`. The number of one that has ended may be given to a new one at
//! once, so a name alone proves nothing: compare who held it while it was known to live.

use std::collections::BTreeSet;
use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use tilemark_sys::mounts;

use super::process::Process;

/// Kinds that a run has of its own.
const KINDS: [&str; 4] = ["ipc", "mnt", "net", "pid"];

/// What keeps a namespace from ending.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Holder {
    /// A process in it, or with a descriptor of it.
    Process {
        /// The process.
        process: Process,
        /// The namespace.
        namespace: String,
    },
    /// A mount of it.
    Mount {
        /// The mount's number.
        id: u32,
        /// Where it is mounted.
        point: PathBuf,
        /// The namespace.
        namespace: String,
    },
}

/// `process 1234 (bash) in net:[4026532300]`.
impl fmt::Display for Holder {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Process { process, namespace } => {
                write!(out, "process {} ({}) holds the namespace {namespace}", process.pid, process.name)
            }
            Self::Mount { point, namespace, .. } => {
                write!(out, "the mount {} holds the namespace {namespace}", point.display())
            }
        }
    }
}

/// The namespaces of a process that are not the caller's own.
///
/// # Errors
/// Where the process is gone.
pub fn of_process(pid: u32) -> io::Result<Vec<String>> {
    let of = |process: &str| -> io::Result<BTreeSet<String>> {
        KINDS.iter().map(|kind| link(process, kind)).collect()
    };
    let own = of("self")?;
    Ok(of(&pid.to_string())?.difference(&own).cloned().collect())
}

fn link(process: &str, kind: &str) -> io::Result<String> {
    Ok(fs::read_link(format!("/proc/{process}/ns/{kind}"))?.to_string_lossy().into_owned())
}

/// All that holds one of these namespaces, as far as the caller sees processes and mounts.
///
/// # Errors
/// Where `/proc` cannot be read.
pub fn holders(namespaces: &[String]) -> io::Result<BTreeSet<Holder>> {
    if namespaces.is_empty() {
        return Ok(BTreeSet::new());
    }
    let mut found = BTreeSet::new();
    for pid in Process::all()? {
        let held = held_by(pid, namespaces);
        // A process that is gone meanwhile holds nothing.
        let Some(process) = Process::of(pid).filter(|_| !held.is_empty()) else { continue };
        found.extend(
            held.into_iter().map(|namespace| Holder::Process { process: process.clone(), namespace }),
        );
    }
    let bound = mounts::of_this_thread()?
        .into_iter()
        .filter(|mount| mount.kind == "nsfs" && namespaces.contains(&mount.root));
    found.extend(bound.map(|mount| Holder::Mount {
        id: mount.id,
        point: mount.point,
        namespace: mount.root,
    }));
    Ok(found)
}

/// Of these namespaces, those that a process is in or has a descriptor of.
fn held_by(pid: u32, namespaces: &[String]) -> BTreeSet<String> {
    let own = KINDS.iter().filter_map(|kind| link(&pid.to_string(), kind).ok());
    let descriptors = links_in(&PathBuf::from(format!("/proc/{pid}/fd")));
    let links = descriptors.map(|path| path.to_string_lossy().into_owned());
    own.chain(links).filter(|name| namespaces.contains(name)).collect()
}

fn links_in(folder: &Path) -> impl Iterator<Item = PathBuf> + use<> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.filter_map(|entry| fs::read_link(entry.path()).ok())
}

/// The block devices that processes in these namespaces have mounted or open.
///
/// # Errors
/// Where `/proc` cannot be read.
pub fn loop_devices_in(namespaces: &[String]) -> io::Result<BTreeSet<PathBuf>> {
    let mut used = BTreeSet::new();
    for pid in Process::all()? {
        if !KINDS.iter().any(|kind| link(&pid.to_string(), kind).is_ok_and(|name| namespaces.contains(&name)))
        {
            continue;
        }
        used.extend(links_in(&PathBuf::from(format!("/proc/{pid}/fd"))));
        let mountinfo = fs::read(format!("/proc/{pid}/mountinfo")).unwrap_or_default();
        used.extend(mounts::parse(&mountinfo).into_iter().map(|mount| PathBuf::from(mount.source)));
    }
    used.retain(|path| path.to_string_lossy().starts_with("/dev/loop"));
    Ok(used)
}
