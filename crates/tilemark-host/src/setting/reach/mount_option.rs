//! An option of a file system that is mounted, changed with its other options unchanged (fsconfig(2)). The flags of its mounts, such as
//! `nosuid`, are not the file system's: mount(2) would take those that are not named again.

use std::io;
use std::path::Path;

use rustix::fs::CWD;
use rustix::mount::{FsPickFlags, fsconfig_reconfigure, fsconfig_set_flag, fsconfig_set_string, fspick};
use tilemark_sys::mounts::{self, Mount};

const ON: &str = "on";
const OFF: &str = "off";

/// Whether the mount has the option.
pub(super) fn read(mount: &Path, option: &str) -> io::Result<String> {
    let options = options(mounts::of_this_thread()?, mount)?;
    Ok(if options.iter().any(|found| found == option) { ON } else { OFF }.to_owned())
}

/// Gives the file system the option, or all others without it.
pub(super) fn write(mount: &Path, option: &str, text: &str) -> io::Result<()> {
    let mut options = options(mounts::of_this_thread()?, mount)?;
    options.retain(|found| found != option && !matches!(found.as_str(), "rw" | "ro"));
    if text.trim() == ON {
        options.push(option.to_owned());
    }
    let picked = fspick(CWD, mount, FsPickFlags::FSPICK_CLOEXEC)?;
    for option in options.iter().filter(|option| !option.is_empty()) {
        match option.split_once('=') {
            Some((key, value)) => fsconfig_set_string(&picked, key, value)?,
            None => fsconfig_set_flag(&picked, option.as_str())?,
        }
    }
    Ok(fsconfig_reconfigure(&picked)?)
}

/// Options of the file system at a mount point. Of several mounts on one point the last one is seen.
fn options(mounts: Vec<Mount>, point: &Path) -> io::Result<Vec<String>> {
    let mount = mounts.into_iter().rev().find(|mount| mount.point == point);
    mount.map(|mount| mount.options).ok_or_else(|| {
        io::Error::new(io::ErrorKind::NotFound, format!("nothing is mounted at {}", point.display()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::mount::{MountFlags, mount};
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;
    use tilemark_sys::files::read_kernel_text;
    use tilemark_sys::mounts::{MOUNTINFO, parse};

    #[test]
    fn the_options_of_the_file_system_are_found_and_not_those_of_the_mount() {
        let text = "29 24 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate,favordynmods\n\
                    30 24 0:27 / /tmp rw - tmpfs none rw\n";
        let found = options(parse(text.as_bytes()), Path::new("/sys/fs/cgroup")).unwrap();
        assert_eq!(found, ["rw", "nsdelegate", "favordynmods"]);
        assert!(
            options(parse(text.as_bytes()), Path::new("/absent"))
                .unwrap_err()
                .to_string()
                .contains("/absent")
        );
    }

    const MOUNTS_IN: &str = "TILEMARK_TEST_MOUNTS_IN";

    /// Flags of the mount itself: field 6 of its line.
    fn flags(mount: &Path) -> String {
        let text = read_kernel_text(MOUNTINFO.as_ref()).unwrap();
        let line = text.lines().rev().find(|line| line.split(' ').nth(4) == mount.to_str());
        line.unwrap().split(' ').nth(5).unwrap().to_owned()
    }

    #[test]
    fn an_option_is_changed_and_the_flags_of_the_mount_are_not() {
        if let Some(folder) = std::env::var_os(MOUNTS_IN) {
            let folder = Path::new(&folder);
            let all = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC | MountFlags::NOATIME;
            mount("none", folder, "tmpfs", all, c"size=1m").unwrap();
            let tree = crate::cgroup::mount_point().ok();
            // Any user may mount something at such a folder, and all lines must be read still.
            let odd = folder.join(OsStr::from_bytes(b"\xff"));
            std::fs::create_dir(&odd).unwrap();
            mount("none", &odd, "tmpfs", MountFlags::empty(), c"size=1m").unwrap();
            assert!(std::fs::read_to_string(MOUNTINFO).is_err(), "the kernel escapes it");
            assert_eq!(crate::cgroup::mount_point().ok(), tree);
            let before = flags(folder);
            assert!(before.contains("nosuid,nodev,noexec,noatime"), "{before}");
            write(folder, "nr_inodes=100", ON).unwrap();
            assert_eq!(read(folder, "nr_inodes=100").unwrap(), ON);
            assert_eq!(read(folder, "size=1024k").unwrap(), ON);
            assert_eq!(flags(folder), before);
            return;
        }
        if !rustix::process::geteuid().is_root() {
            tilemark_fixtures::skipped("mounting needs root");
            return;
        }
        let name =
            "setting::reach::mount_option::tests::an_option_is_changed_and_the_flags_of_the_mount_are_not";
        let folder = tempfile::tempdir().unwrap();
        // A mount namespace of its own for the whole process: the test's thread is not the first one.
        let mut own = std::process::Command::new("unshare");
        own.arg("--mount").arg(std::env::current_exe().unwrap()).args(["--exact", name, "--nocapture"]);
        let ended = own.env(MOUNTS_IN, folder.path()).output().unwrap();
        let said =
            String::from_utf8_lossy(&ended.stdout).into_owned() + &String::from_utf8_lossy(&ended.stderr);
        assert!(ended.status.success() && said.contains("1 passed"), "{said}");
    }
}
