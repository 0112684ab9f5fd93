//! What QEMU gives up before its guest begins. As root it opens its files, devices and memory; then it takes an empty folder as
//! its root and becomes a user of its own, whom nobody else is, and has no capability any more. The walls around it (a filter of
//! system calls) stand from its start.

use super::settings::QemuVersion;
use crate::error::{GuestError, file};
use rustix::process::{Pid, Resource, Rlimit, prlimit};
use std::{
    fs, io,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
};

/// Users whom distributions, containers and services leave alone: 1,879,048,192 to 2,147,483,647
/// (systemd, "Users, Groups, UIDs and GIDs on systemd Systems").
const FIRST_USER: u32 = 1_879_048_192;
/// Each backend has its own among them.
const USERS_OF_A_BACKEND: u32 = 1 << 12;
const BACKENDS: u32 = 1 << 16;

/// Where QEMU's file sizes end: nothing that it writes is longer, but memory and disks that were handed to it.
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
        fs::create_dir_all(&empty).map_err(file("make", &empty))?;
        fs::set_permissions(&empty, fs::Permissions::from_mode(0o555)).map_err(file("close", &empty))?;
        let mut random = [0; 4];
        rustix::rand::getrandom(&mut random, rustix::rand::GetRandomFlags::empty())
            .map_err(io::Error::from)
            .map_err(file("draw bytes from", "the kernel's randomness".as_ref()))?;
        let backend = u32::from_ne_bytes(random) % BACKENDS;
        Ok(Self { empty, first_user: FIRST_USER + backend * USERS_OF_A_BACKEND })
    }

    /// What of it stands on the command line of the guest with this number.
    pub(super) fn arguments(&self, version: QemuVersion, number: u64) -> Vec<String> {
        let user = u64::from(self.first_user) + number % u64::from(USERS_OF_A_BACKEND);
        let user = format!("{user}:{user}");
        let empty = self.empty.display().to_string();
        let is_from = |major, minor| (version.major, version.minor) >= (major, minor);
        // A comma begins the next option, unless there are two.
        let with = || format!("chroot={}", empty.replace(',', ",,"));
        if is_from(9, 1) {
            vec!["-run-with".to_owned(), format!("{},user={user}", with())]
        } else if is_from(8, 1) {
            vec!["-run-with".to_owned(), with(), "-runas".to_owned(), user]
        } else {
            vec!["-chroot".to_owned(), empty, "-runas".to_owned(), user]
        }
    }
}

/// Limits a QEMU that runs: no dump of the guest's memory on the host's disk, and no file that fills it.
pub(super) fn limit(pid: u32) -> io::Result<()> {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
    let most = |most| Rlimit { current: Some(most), maximum: Some(most) };
    prlimit(pid, Resource::Core, most(0))?;
    prlimit(pid, Resource::Fsize, most(LONGEST_FILE))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_qemu_is_told_in_its_own_words() {
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

    #[test]
    fn users_stay_within_the_range_that_nobody_uses() {
        let last = u64::from(FIRST_USER) + u64::from(BACKENDS) * u64::from(USERS_OF_A_BACKEND) - 1;
        assert_eq!(last, 2_147_483_647);
    }
}
