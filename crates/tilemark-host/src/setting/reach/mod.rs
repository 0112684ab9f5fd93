//! How a setting is read and written: a file of the kernel, or something that is no file.
//!
//! Each gives its value as a text, so that a journal holds all of them alike.

mod libvirt;
mod limit;
mod mount_option;
mod partition;
mod program;
pub(super) mod service;

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
pub use tilemark_sys::{nic::NicValue, nvme::NvmeCoalescing};

pub use libvirt::LibvirtLimit;
pub use limit::Limit;
pub(super) use partition::CONTROLLER;

/// How a setting is read and written.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Reach {
    /// By its file.
    #[default]
    File,
    /// By its file, which says where the interrupts of one vector go. Vectors that the kernel spreads itself ("managed") refuse to
    /// be moved, with EIO or EPERM: that is reported, and no error.
    Vector,
    /// By its file, which the kernel changes when another setting of the same journal is written, as the depth of a queue with its
    /// scheduler. It is held only to be restored, after that one, and never set.
    Follower,
    /// A value of a network device, by the requests of ethtool.
    Nic {
        /// The device.
        device: String,
        /// Which of its values.
        value: NicValue,
    },
    /// Interrupt coalescing of the controller of an NVMe disk.
    Nvme {
        /// The disk.
        disk: String,
        /// Which of its values.
        value: NvmeCoalescing,
    },
    /// Whether a service of systemd is running: `running` or `stopped`.
    Service {
        /// Its unit.
        unit: String,
    },
    /// A service that runs and that systemd stops with another one, or that does not and starts with it. It is held only to be restored,
    /// after that one, and never set.
    Dependent {
        /// Its unit.
        unit: String,
    },
    /// A limit of this process and of what it starts.
    Limit(Limit),
    /// A limit of libvirt's daemon.
    Libvirt(LibvirtLimit),
    /// An option of a mount: `on` or `off`.
    MountOption {
        /// Where it is mounted.
        mount: PathBuf,
        /// The option.
        option: String,
    },
    /// Processors that a control group has for itself, isolated from the scheduler of all others: a list, or nothing.
    Partition {
        /// The group's folder; it exists while it has processors.
        group: PathBuf,
    },
}

impl Reach {
    pub(super) fn is_file(&self) -> bool {
        *self == Self::File
    }

    /// The text now.
    pub(super) fn read(&self, path: &Path) -> io::Result<String> {
        match self {
            Self::File | Self::Vector | Self::Follower => fs::read_to_string(path),
            Self::Nic { device, value } => value.read(device),
            Self::Nvme { disk, value } => value.read(disk),
            Self::Service { unit } | Self::Dependent { unit } => service::read(unit),
            Self::Limit(limit) => Ok(limit.read()),
            Self::Libvirt(limit) => limit.read(),
            Self::MountOption { mount, option } => mount_option::read(mount, option),
            Self::Partition { group } => partition::read(group),
        }
    }

    /// Has it take a value.
    pub(super) fn write(&self, path: &Path, text: &str) -> io::Result<()> {
        match self {
            Self::File | Self::Vector | Self::Follower => write_existing(path, text),
            Self::Nic { device, value } => value.write(device, text),
            Self::Nvme { disk, value } => value.write(disk, text),
            Self::Service { unit } | Self::Dependent { unit } => service::write(unit, text),
            Self::Limit(limit) => limit.write(text),
            Self::Libvirt(limit) => limit.write(text),
            Self::MountOption { mount, option } => mount_option::write(mount, option, text),
            Self::Partition { group } => partition::write(group, text),
        }
    }
}

/// What plays the kernel in a test: a write of a file.
#[cfg(test)]
pub(super) type Kernel = Box<dyn FnMut(&Path, &str) -> io::Result<()>>;

#[cfg(test)]
thread_local! {
    pub(super) static KERNEL: std::cell::RefCell<Option<Kernel>> = const { std::cell::RefCell::new(None) };
}

/// The file is never created: where the kernel has none there is nothing to set.
fn write_existing(path: &Path, order: &str) -> io::Result<()> {
    #[cfg(test)]
    if let Some(played) = KERNEL.with_borrow_mut(|own| own.as_mut().map(|play| play(path, order))) {
        return played;
    }
    // One write: the kernel takes each as a whole value. A file that plays a value is cut after it, not before: whoever is killed between
    // leaves no empty one.
    let mut file = File::options().write(true).open(path)?;
    file.write_all(order.as_bytes())?;
    let length = order.len() as u64;
    if file.metadata()?.len() > length { file.set_len(length) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{fs, thread};

    /// A killed process leaves what a reader beside it may see.
    #[test]
    fn a_file_is_at_no_moment_of_a_write_empty() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("value");
        fs::write(&path, "100\n").unwrap();
        let writing = thread::spawn({
            let path = path.clone();
            move || {
                ["77\n", "100\n"]
                    .iter()
                    .cycle()
                    .take(2000)
                    .for_each(|value| write_existing(&path, value).unwrap())
            }
        });
        while !writing.is_finished() {
            assert_ne!(fs::read_to_string(&path).unwrap(), "");
        }
        writing.join().unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "100\n");
    }
}
