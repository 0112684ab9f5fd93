//! What QEMU gives up before its guest begins. As root it opens its files, devices and memory; then it takes an empty folder as
//! its root and becomes a user of its own, whom nobody else is, and has no capability any more. The walls around it (a filter of
//! system calls) are there from its start.

use super::{command::option_value, settings::QemuVersion};
use crate::{
    error::{GuestError, file},
    own_disk::Overlay,
};
use std::path::{Path, PathBuf};
use tilemark_sys::{
    files::make_folder,
    users::{self, OWN_USERS},
};

/// In bytes. Memory and disks that a QEMU gets as descriptors may be larger.
const LONGEST_FILE: u64 = 1 << 30;

/// What QEMU gives up.
#[derive(Debug)]
pub(super) struct Confinement {
    empty: PathBuf,
    first_user: u32,
}

impl Confinement {
    /// Makes the empty folder in the manager's own.
    pub(super) fn new(folder: &Path) -> Result<Self, GuestError> {
        let empty = folder.join("empty");
        make_folder(&empty, 0o555).map_err(file("make", &empty))?;
        let first_user = users::first_of_own().map_err(file("find a user for", "QEMU".as_ref()))?;
        Ok(Self { empty, first_user })
    }

    /// QEMU's arguments for the guest with this number.
    pub(super) fn arguments(&self, version: QemuVersion, number: u64) -> Vec<String> {
        let user = u64::from(self.first_user) + number % u64::from(OWN_USERS);
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

/// The longest file that a QEMU may write, in bytes: none that fills the host's disk. A guest that boots from a disk of its own may write as
/// much of it as there is.
pub(super) fn longest_file(overlay: Option<&Overlay>) -> u64 {
    LONGEST_FILE.max(overlay.map_or(0, Overlay::longest))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

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
