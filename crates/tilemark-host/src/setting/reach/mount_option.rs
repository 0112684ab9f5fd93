//! An option of a file system that is mounted, changed by mounting it again with its other options unchanged.

use std::ffi::CString;
use std::fs;
use std::io;
use std::path::Path;

use rustix::mount::{MountFlags, mount_remount};

const ON: &str = "on";
const OFF: &str = "off";

/// Whether the mount has the option.
pub(super) fn read(mount: &Path, option: &str) -> io::Result<String> {
    let options = options(&fs::read_to_string("/proc/self/mountinfo")?, mount)?;
    Ok(if options.iter().any(|found| found == option) { ON } else { OFF }.to_owned())
}

/// Mounts it again with the option, or without.
pub(super) fn write(mount: &Path, option: &str, text: &str) -> io::Result<()> {
    let mut options = options(&fs::read_to_string("/proc/self/mountinfo")?, mount)?;
    options.retain(|found| found != option && !matches!(found.as_str(), "rw" | "ro"));
    if text.trim() == ON {
        options.push(option.to_owned());
    }
    let data = CString::new(options.join(","))?;
    Ok(mount_remount(mount, MountFlags::empty(), data.as_c_str())?)
}

/// Options of the file system at a mount point: the last field of its line (proc_pid_mountinfo(5)). Of several mounts on one point the
/// last one is seen.
fn options(mountinfo: &str, mount: &Path) -> io::Result<Vec<String>> {
    let of_line = |line: &str| {
        let (before, after) = line.split_once(" - ")?;
        let point = crate::cgroup::unescape(before.split(' ').nth(4)?);
        (Path::new(&point) == mount)
            .then(|| after.split(' ').nth(2).unwrap_or_default().split(',').map(str::to_owned).collect())
    };
    mountinfo.lines().rev().find_map(of_line).ok_or_else(|| {
        io::Error::new(io::ErrorKind::NotFound, format!("nothing is mounted at {}", mount.display()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_options_of_the_file_system_are_found_and_not_those_of_the_mount() {
        let text = "29 24 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate,favordynmods\n\
                    30 24 0:27 / /tmp rw - tmpfs none rw\n";
        let found = options(text, Path::new("/sys/fs/cgroup")).unwrap();
        assert_eq!(found, ["rw", "nsdelegate", "favordynmods"]);
        assert!(options(text, Path::new("/absent")).unwrap_err().to_string().contains("/absent"));
    }
}
