//! What QEMU gives up before its guest begins. As root it opens its files, devices and memory; then it takes an empty folder as
//! its root and becomes a user of its own, whom nobody else is, and has no capability any more. The walls around it (a filter of
//! system calls) are there from its start.

use super::{command::option_value, settings::QemuVersion};
use crate::error::{GuestError, file};
use rustix::process::{Pid, Resource, Rlimit, prlimit};
use std::{
    fs, io,
    path::{Path, PathBuf},
};
use tilemark_sys::files::make_folder;

/// Users whom distributions, containers and services leave alone: 1,879,048,192 to 2,147,483,647
/// (systemd, "Users, Groups, UIDs and GIDs on systemd Systems").
const FIRST_USER: u32 = 1_879_048_192;
/// Each backend has its own among them.
const USERS_OF_A_BACKEND: u32 = 1 << 12;
const BACKENDS: u32 = 1 << 16;
const _: () = assert!(FIRST_USER + BACKENDS * USERS_OF_A_BACKEND == 1 << 31);

/// The longest file that QEMU may write, in bytes. Memory and disks that it gets as descriptors may be larger.
const LONGEST_FILE: u64 = 1 << 30;

/// What QEMU gives up.
#[derive(Debug)]
pub(super) struct Confinement {
    empty: PathBuf,
    first_user: u32,
}

impl Confinement {
    /// Makes the empty folder in the backend's own.
    pub(super) fn new(folder: &Path) -> Result<Self, GuestError> {
        let empty = folder.join("empty");
        make_folder(&empty, 0o555).map_err(file("make", &empty))?;
        let mut random = [0; 4];
        rustix::rand::getrandom(&mut random, rustix::rand::GetRandomFlags::empty())
            .map_err(io::Error::from)
            .map_err(file("draw bytes from", "the kernel's randomness".as_ref()))?;
        let backend = u32::from_ne_bytes(random) % BACKENDS;
        let map = fs::read_to_string(USERS).map_err(file("read", USERS.as_ref()))?;
        let first_user = first_user(&map, FIRST_USER + backend * USERS_OF_A_BACKEND);
        Ok(Self { empty, first_user })
    }

    /// QEMU's arguments for the guest with this number.
    pub(super) fn arguments(&self, version: QemuVersion, number: u64) -> Vec<String> {
        let user = u64::from(self.first_user) + number % u64::from(USERS_OF_A_BACKEND);
        let user = format!("{user}:{user}");
        let empty = self.empty.display().to_string();
        let is_from = |major, minor| (version.major, version.minor) >= (major, minor);
        let with = format!("chroot={}", option_value(&self.empty));
        if is_from(9, 1) {
            vec!["-run-with".to_owned(), format!("{with},user={user}")]
        } else if is_from(8, 1) {
            vec!["-run-with".to_owned(), with, "-runas".to_owned(), user]
        } else {
            vec!["-chroot".to_owned(), empty, "-runas".to_owned(), user]
        }
    }
}

/// The users that there are in this user namespace: lines of the first one, its number outside, and how many.
const USERS: &str = "/proc/self/uid_map";

/// The first of the wanted users, where this namespace has them all. In a container with fewer, as with 65,536, those below its last
/// ones, where usually nobody else is either.
fn first_user(map: &str, wanted: u32) -> u32 {
    let ranges = map.lines().filter_map(|line| {
        let mut numbers = line.split_whitespace().map(str::parse::<u32>);
        let (first, _, count) = (numbers.next()?.ok()?, numbers.next()?.ok()?, numbers.next()?.ok()?);
        Some((first, first.saturating_add(count)))
    });
    let ranges: Vec<(u32, u32)> = ranges.collect();
    let has_all = |(first, end): &(u32, u32)| *first <= wanted && wanted + USERS_OF_A_BACKEND <= *end;
    if ranges.iter().any(has_all) {
        return wanted;
    }
    let end = ranges.iter().map(|(_, end)| *end).max().unwrap_or(u32::MAX);
    end.saturating_sub(2 * USERS_OF_A_BACKEND)
}

/// Limits a QEMU that runs: no file that fills the host's disk. A guest that boots from a disk of its own may write as much of it as there is,
/// which is `overlay` bytes.
pub(super) fn limit(pid: u32, overlay: u64) -> io::Result<()> {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
    let most = Some(LONGEST_FILE.max(overlay));
    prlimit(pid, Resource::Fsize, Rlimit { current: most, maximum: most })?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn a_container_with_few_users_has_one_for_qemu_too() {
        assert_eq!(first_user("         0          0 4294967295\n", FIRST_USER), FIRST_USER);
        assert_eq!(first_user("0 100000 65536\n", FIRST_USER), 65_536 - 8_192);
    }

    #[test]
    fn each_qemu_version_gets_its_own_arguments() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path().join("a,b");
        let confinement = Confinement { first_user: 7_000, ..Confinement::new(&folder).unwrap() };
        let of = |major, minor| confinement.arguments(QemuVersion { major, minor, micro: 0 }, 5).join(" ");
        let plain = folder.join("empty").display().to_string();
        let doubled = plain.replace(',', ",,");
        assert_eq!(of(7, 2), format!("-chroot {plain} -runas 7005:7005"));
        assert_eq!(of(8, 1), format!("-run-with chroot={doubled} -runas 7005:7005"));
        assert_eq!(of(9, 1), format!("-run-with chroot={doubled},user=7005:7005"));
        assert_eq!(of(10, 0), of(9, 1));
        assert_eq!(fs::metadata(folder.join("empty")).unwrap().permissions().mode() & 0o777, 0o555);
    }
}
