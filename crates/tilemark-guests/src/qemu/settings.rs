//! Which QEMU, with which files.

use super::program::{asked, not_qemu};
use crate::{disks::DiskFolders, error::GuestError};
use std::{
    fmt,
    path::{Path, PathBuf},
};
use tilemark_plan::scenario::QemuWalls;

/// What carries a guest's instructions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Accelerator {
    /// The processor's own virtualization. There is no falling back: without it QEMU does not start.
    Kvm,
    /// QEMU's translator.
    Emulated,
}

/// What guests in QEMU are made of.
#[derive(Debug, Clone)]
pub struct QemuSettings {
    /// What carries them.
    pub accelerator: Accelerator,
    /// The QEMU program; `find_qemu` finds one.
    pub binary: PathBuf,
    /// Machine type, such as `pc`.
    pub machine: String,
    /// Processor model; the accelerator's usual one where it is not named.
    pub cpu: Option<String>,
    /// Further arguments.
    pub more: Vec<String>,
    /// Firmware; the machine type's own where it is not named.
    pub firmware: Option<PathBuf>,
    /// What guests boot from that have no disk of their own; nothing where all have one.
    pub image: Option<BootFiles>,
    /// The agent's program, for guests that boot from a disk of their own.
    pub agent: Vec<u8>,
    /// How many thousand times in a second the host's time-stamp counter counts, where it is known (`tilemark_sys::clock::tsc_khz`).
    pub tsc_khz: Option<u32>,
    /// A folder of this manager's own, in the run's directory.
    pub folder: PathBuf,
    /// Where data disks are made.
    pub disks: DiskFolders,
    /// Whether QEMU is kept away from the host.
    pub walls: QemuWalls,
    /// The run's group in cgroup2, where there is one. It hands on the memory controller where the host has it.
    pub cgroup: Option<PathBuf>,
}

/// The files of an image that a guest boots from.
#[derive(Debug, Clone)]
pub struct BootFiles {
    /// The kernel as an ELF file.
    pub vmlinux: PathBuf,
    /// The image's initramfs and after it the agent's (`tilemark_image::agent_initramfs`), in one.
    pub initramfs: Vec<u8>,
    /// The image's root.
    pub root_erofs: PathBuf,
}

impl QemuSettings {
    /// The processor model that a guest has.
    pub(super) fn cpu_model(&self, has_own_disk: bool) -> &str {
        let usual = if has_own_disk {
            self.accelerator.usual_cpu_of_own_disk()
        } else {
            self.accelerator.usual_cpu()
        };
        self.cpu.as_deref().unwrap_or(usual)
    }
}

impl Accelerator {
    /// The processor model of guests whose scenario names none.
    pub const fn usual_cpu(self) -> &'static str {
        match self {
            // `invtsc` would make its state impossible to save.
            Self::Kvm => "host,migratable=on",
            // The kernel's generator is ready at once when there is an instruction for randomness.
            Self::Emulated => "qemu64,+rdrand",
        }
    }

    /// The same for guests that boot from a disk of their own: distributions are built for newer processors than `qemu64`. Tables of five
    /// levels would only make the translator slower.
    pub const fn usual_cpu_of_own_disk(self) -> &'static str {
        match self {
            Self::Kvm => self.usual_cpu(),
            Self::Emulated => "max,la57=off",
        }
    }
}

/// The machine type of guests whose scenario names none.
pub const USUAL_MACHINE: &str = "pc";

/// The oldest QEMU that serves: its clones and its monitor were tried.
const OLDEST: QemuVersion = QemuVersion { major: 7, minor: 2, micro: 0 };

/// The first QEMU whose translator locks code while it is translated ("accel/tcg: Always lock pages before translation", July 2023).
const LOCKS_CODE: QemuVersion = QemuVersion { major: 8, minor: 1, micro: 0 };

/// Asks for the version.
const VERSION: [&str; 1] = ["--version"];
/// So many characters are shown of what a program printed that is not a QEMU.
const PRINTED_SHOWN: usize = 100;

/// A version of QEMU.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct QemuVersion {
    /// The first number.
    pub major: u32,
    /// The second.
    pub minor: u32,
    /// The third.
    pub micro: u32,
}

impl fmt::Display for QemuVersion {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}.{}.{}", self.major, self.minor, self.micro)
    }
}

impl QemuVersion {
    /// Asks the program, and refuses one that is too old.
    pub fn of(binary: &Path) -> Result<Self, GuestError> {
        let text = asked(binary, &VERSION)?;
        let version = Self::parse(&text).ok_or_else(|| {
            let line: String = text.lines().next().unwrap_or_default().chars().take(PRINTED_SHOWN).collect();
            let why = if line.is_empty() {
                "it printed nothing".to_owned()
            } else {
                format!("it printed {line:?}")
            };
            not_qemu(binary, &VERSION, why)
        })?;
        if version < OLDEST {
            return Err(GuestError::QemuTooOld { path: binary.to_owned(), found: version.to_string() });
        }
        Ok(version)
    }

    /// Whether a translated processor runs what another one, in a thread of its own, has just written in place of an instruction. Before 8.1
    /// it may go on with the old instruction, and a guest then hangs for good
    /// (docs/decisions/0135-one-thread-before-qemu-8.1.md).
    pub fn sees_replaced_code(self) -> bool {
        self >= LOCKS_CODE
    }

    fn parse(text: &str) -> Option<Self> {
        let after = text.strip_prefix("QEMU emulator version ")?;
        let number: String = after.chars().take_while(|c| c.is_ascii_digit() || *c == '.').collect();
        let mut parts = number.split('.').map(str::parse::<u32>);
        let mut next = || parts.next().and_then(Result::ok);
        Some(Self { major: next()?, minor: next()?, micro: next().unwrap_or(0) })
    }
}

/// Where distributions put it: Debian, SUSE and Arch; then Fedora and Red Hat.
const PLACES: [&str; 4] = [
    "/usr/bin/qemu-system-x86_64",
    "/usr/local/bin/qemu-system-x86_64",
    "/usr/libexec/qemu-kvm",
    "/usr/bin/qemu-kvm",
];

/// The named program, or the first one found.
pub fn find_qemu(named: Option<&Path>) -> Result<PathBuf, GuestError> {
    let places: Vec<PathBuf> = match named {
        Some(path) => vec![path.to_owned()],
        None => PLACES.map(PathBuf::from).to_vec(),
    };
    places.iter().find(|path| path.is_file()).cloned().ok_or_else(|| {
        let looked_for: Vec<String> = places.iter().map(|path| path.display().to_string()).collect();
        GuestError::QemuMissing { looked_for: looked_for.join(", ") }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_of_distributions_are_read() {
        let version = |text| QemuVersion::parse(text).map(|version| version.to_string());
        let debian = "QEMU emulator version 7.2.22 (Debian 1:7.2+dfsg-7+deb12u18+b3)\nCopyright";
        assert_eq!(version(debian).as_deref(), Some("7.2.22"));
        assert_eq!(version("QEMU emulator version 10.1.0 (qemu-10.1.0-1.fc43)").as_deref(), Some("10.1.0"));
        assert_eq!(version("QEMU emulator version 9.0").as_deref(), Some("9.0.0"));
        for other in ["busybox", "qemu-img version 9.0.0", "GNU bash, version 5.2.15(1)-release"] {
            assert_eq!(version(other), None, "{other}");
        }
        assert!(QemuVersion::parse(debian).unwrap() >= OLDEST);
    }

    #[test]
    fn a_named_qemu_that_is_not_there_is_named() {
        let error = find_qemu(Some(Path::new("/nowhere/qemu"))).unwrap_err();
        assert_eq!(error.to_string(), "no QEMU found; looked for /nowhere/qemu");
    }
}
