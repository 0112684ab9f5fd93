//! Asking a QEMU program what it is and has.

use crate::error::GuestError;
use std::{io, path::Path, time::Duration};
use tilemark_sys::{
    answer::{Most, answer},
    process::Spawn,
};

/// Its lists have some KiB and come at once; a busy host may be many times slower.
const MOST: Most = Most { bytes: 1 << 20, time: Duration::from_secs(60) };

/// What it prints for these arguments. It has the environment of a guest's QEMU.
pub(super) fn asked(binary: &Path, arguments: &[&str]) -> Result<String, GuestError> {
    let ask = || -> io::Result<Vec<u8>> {
        answer(Spawn::path(binary)?.arguments(arguments)?.clean_environment()?, MOST)
    };
    let printed = ask().map_err(|error| not_qemu(binary, arguments, error.to_string()))?;
    Ok(String::from_utf8_lossy(&printed).into_owned())
}

/// For a program that did not answer these arguments as QEMU does.
pub(super) fn not_qemu(binary: &Path, arguments: &[&str], why: String) -> GuestError {
    let command = format!("{} {}", binary.display(), arguments.join(" "));
    GuestError::NotQemu { command, why }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::qemu::{QemuLists, QemuVersion, find_firmware};
    use std::{fs, os::unix::fs::PermissionsExt, process::Command};
    use tilemark_sys::passwords::BROKER_PASSWORD;

    /// A program that plays QEMU, and what it does first.
    fn player(folder: &Path, first: &str) -> std::path::PathBuf {
        let qemu = folder.join("qemu");
        let script = format!(
            "#!/bin/sh\n{first}\ncase $1 in --version) echo 'QEMU emulator version 9.0.0' ;;\n\
             -machine) printf 'Supported machines are:\\npc PC\\n' ;;\n\
             -cpu) printf 'Available CPUs:\\nmax\\n' ;;\n-L) echo {} ;; esac\n",
            folder.display()
        );
        fs::write(&qemu, script).unwrap();
        fs::set_permissions(&qemu, fs::Permissions::from_mode(0o755)).unwrap();
        qemu
    }

    #[test]
    fn a_qemu_that_is_asked_sees_nothing_of_our_environment() {
        let name = "qemu::program::tests::a_qemu_that_is_asked_sees_nothing_of_our_environment";
        if std::env::var_os(BROKER_PASSWORD).is_none() {
            // Once more, in an environment with a password.
            let itself = std::env::current_exe().unwrap();
            let again =
                Command::new(itself).args([name, "--exact"]).env(BROKER_PASSWORD, "secret").output().unwrap();
            let printed = String::from_utf8_lossy(&again.stdout);
            assert!(again.status.success() && printed.contains("1 passed"), "{printed}");
            return;
        }
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("own.bin"), vec![0; 64 << 10]).unwrap();
        let seen = folder.path().join("seen");
        let qemu = player(folder.path(), &format!("/usr/bin/env >>'{}'", seen.display()));
        QemuVersion::of(&qemu).unwrap();
        QemuLists::of(&qemu).unwrap();
        find_firmware(&qemu, "own.bin").unwrap();
        let seen = fs::read_to_string(seen).unwrap();
        // A shell adds where it is.
        let variables: Vec<&str> = seen.lines().filter(|line| !line.starts_with("PWD=")).collect();
        assert_eq!(variables.len(), 2 * 4, "two variables in each of four questions: {seen}");
        let of_guests = ["PATH=/usr/sbin:/usr/bin:/sbin:/bin", "LANG=C.UTF-8"];
        assert!(variables.iter().all(|variable| of_guests.contains(variable)), "{seen}");
    }
}
