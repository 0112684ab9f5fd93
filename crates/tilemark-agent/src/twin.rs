//! Process 1 of a native twin's namespaces: from the host's files to the image's.

use crate::{
    channel::SOCKET_NUMBER,
    error::{AgentError, step},
    first_process::{self, ENVIRONMENT, Twin},
    identity, mounts, power,
};
use rustix::{
    fs::{CWD, FileType, Mode, mknodat},
    mount::{UnmountFlags, unmount},
    process::pivot_root,
    stdio::dup2_stdin,
};
use std::{
    fs::{self, File},
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};
use tilemark_sys::{
    descriptor::keep_from_children,
    limits::refuse_core_dumps,
    namespace,
    process::{Ended, Spawn, init_loop, take_handed},
    walls::Walls,
};

/// What the host says on the command line: `LOWER SCRATCH BYTES [DISK …]`.
#[derive(Debug, PartialEq, Eq)]
struct Orders {
    /// The mounted image.
    lower: PathBuf,
    /// An empty folder; a memory file system is mounted on it, seen by this twin only.
    scratch: PathBuf,
    /// At most so many bytes may be written over the image.
    bytes: u64,
    /// Block devices that become the twin's data disks.
    disks: Vec<PathBuf>,
}

impl Orders {
    fn parse(mut arguments: impl Iterator<Item = String>) -> Result<Self, AgentError> {
        let mut next =
            || arguments.next().ok_or_else(|| AgentError::Usage("twin with too few orders".into()));
        let (lower, scratch, bytes) = (next()?, next()?, next()?);
        let bytes = bytes.parse().map_err(|_| AgentError::Usage(format!("twin with size {bytes}")))?;
        let disks = arguments.map(PathBuf::from).collect();
        Ok(Self { lower: lower.into(), scratch: scratch.into(), bytes, disks })
    }
}

/// Prepares the twin's root and serves in it until the host hangs up.
pub(crate) fn run(arguments: impl Iterator<Item = String>) -> Result<(), AgentError> {
    let orders = Orders::parse(arguments)?;
    let channel = take_handed(SOCKET_NUMBER).map_err(step("take the handed socket"))?;
    prepare_root(&orders, mounts::memory_folders)?;
    own_input()?;
    let twin = Twin { channel, power: power::serve()?, walls: Walls::of_services()? };
    let ended = first_process::serve_and_reap("serve-socket", Some(twin));
    first_process::report(&ended);
    ended.map(|_| ())
}

/// The shells of an image, the one that people like first.
const SHELLS: [&str; 2] = ["/bin/bash", "/bin/sh"];

/// Runs a command of the image, or a shell, in the same root as a twin's, and ends with its code. The orders are those of a twin, with
/// the command's words in place of disks.
pub(crate) fn shell(arguments: impl Iterator<Item = String>) -> Result<(), AgentError> {
    let mut orders = Orders::parse(arguments)?;
    let words = std::mem::take(&mut orders.disks);
    // No control group bounds its memory: what it writes anywhere counts as one.
    prepare_root(&orders, |root| mounts::memory_folders_in(&orders.scratch, root))?;
    rustix::system::sethostname(b"image").map_err(step("set the host name"))?;
    let prepare = step::<std::io::Error>("prepare the shell");
    let spawn = || match &words[..] {
        [] => Spawn::path(Path::new(
            SHELLS.into_iter().find(|path| Path::new(path).exists()).unwrap_or(SHELLS[1]),
        )),
        // It looks for the program in PATH.
        words => Spawn::path(Path::new("/usr/bin/env"))?.argument("--")?.arguments(words),
    };
    let terminal = std::env::var("TERM").unwrap_or_default();
    let environment = ENVIRONMENT.map(str::to_owned).into_iter().chain([format!("TERM={terminal}")]);
    let spawn = spawn().and_then(|spawn| spawn.environment(environment)).map_err(prepare)?;
    let child = spawn.behind(Walls::of_services()?).start()?;
    match init_loop(&child).map_err(step("wait for the shell"))? {
        Ended::Exited(code) => std::process::exit(code),
        // As a shell says it (POSIX, "Exit Status for Commands").
        Ended::Signalled(signal) => std::process::exit(128 + signal),
    }
}

fn prepare_root(
    orders: &Orders,
    memory_folders: impl Fn(&Path) -> Result<(), AgentError>,
) -> Result<(), AgentError> {
    refuse_core_dumps();
    namespace::isolate_mounts().map_err(step("part its mounts from the host's"))?;
    // Read before the host's files are gone.
    let disks: Result<Vec<u64>, AgentError> = orders.disks.iter().map(|disk| device_number(disk)).collect();
    let disks = disks?;
    mounts::tmpfs(&orders.scratch, &format!("mode=755,size={}", orders.bytes))?;
    let root = orders.scratch.join("root");
    mounts::overlay(&orders.lower, &orders.scratch, &root)?;
    mounts::refuse_detours(&root)?;
    mounts::kernel_file_systems(&root)?;
    mounts::devices(&root.join("dev"))?;
    memory_folders(&root)?;
    for (index, number) in disks.into_iter().enumerate() {
        data_disk(&root.join("dev"), index, number)?;
    }
    std::env::set_current_dir(&root).map_err(step("enter the root"))?;
    // The old root is stacked under the new one at the same place, and taken away from there.
    pivot_root(".", ".").map_err(step("change the root"))?;
    unmount(".", UnmountFlags::DETACH).map_err(step("leave the host's files"))?;
    std::env::set_current_dir("/").map_err(step("enter the root"))?;
    crate::guest::quiet_network();
    identity::machine_id_in_memory()?;
    mounts::close_kernel_file_systems()?;
    namespace::own_view_of_groups().map_err(step("part its view of control groups from the host's"))
}

/// Leaves the host's /dev/null, which came as the input, and whatever else the host left open: through a descriptor the mode and owner of a
/// device could be changed on the host.
fn own_input() -> Result<(), AgentError> {
    keep_from_children().map_err(step("keep the host's descriptors from its services"))?;
    let own = File::open("/dev/null").map_err(step("open /dev/null"))?;
    dup2_stdin(own).map_err(step("take its own /dev/null as input"))
}

fn device_number(disk: &Path) -> Result<u64, AgentError> {
    Ok(fs::metadata(disk).map_err(step(format!("look at {}", disk.display())))?.rdev())
}

/// The name that a guest's data disk `index` has: the image is /dev/vda.
fn disk_name(index: usize) -> String {
    let letter = u8::try_from(index).ok().and_then(|index| b'b'.checked_add(index)).unwrap_or(b'z');
    format!("vd{}", char::from(letter))
}

fn data_disk(dev: &Path, index: usize, number: u64) -> Result<(), AgentError> {
    let path = dev.join(disk_name(index));
    mknodat(CWD, &path, FileType::BlockDevice, Mode::from_raw_mode(0o600), number)
        .map_err(step(format!("make {}", path.display())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_twin_has_its_disks_under_the_names_that_a_guest_has() {
        assert_eq!([disk_name(0), disk_name(1)], ["vdb", "vdc"]);
    }

    #[test]
    fn too_few_orders_are_refused() {
        let parse = |text: &str| Orders::parse(text.split(' ').map(str::to_owned));
        assert!(parse("/lower /scratch").is_err());
        assert!(parse("/lower /scratch many").is_err());
        assert_eq!(parse("/lower /scratch 4096 /dev/loop3").unwrap().disks, [Path::new("/dev/loop3")]);
    }
}
