//! Builds and caches the guest image, and keeps the data disks.
//!
//! An image is four files in a folder that is named by the hash of the last of them: `root.erofs` (the read-only root
//! of all guests), `vmlinux` (the kernel, uncompressed, so that QEMU enters it by PVH), `initrd` (kernel modules) and
//! `image.lock` (every package, version and hash). [`ImageCache`] finds it by what `image.toml` asks for.
//!
//! The agent is no part of it: [`agent_initramfs`] is joined to `initrd` when a guest starts.
//!
//! Whoever builds or mounts here is root in mount and PID namespaces of its own; this crate starts no guest.

mod apt;
mod archive;
mod bootstrap;
mod build;
mod cache;
mod command;
mod cpio;
pub mod disk_store;
mod elf;
mod error;
mod extend;
mod extra_files;
mod files;
mod image;
mod initramfs;
mod kernel;
mod lock;
mod maven;
mod modules;
pub mod own_disk;
mod progress;
mod spec;
mod tree;

/// Pure readers of bytes from elsewhere: packages of a mirror, and what its users wrote of the mirrors. They take any bytes.
pub mod foreign {
    pub use crate::apt::{AptSource, Keys, deb822_sources, one_line_sources};
    pub use crate::elf::Elf;
    pub use crate::kernel::extract_vmlinux;
    pub use crate::lock::locked_packages;
}

pub use cache::{CachedImage, ImageCache, InCache, Network, OF_SCENARIO, Reserved, Standing};
pub use error::ImageError;
pub use extend::mount_root;
pub use image::{FileName, Image};
pub use initramfs::{MODULES_LIST, agent_initramfs};
pub use lock::{ImageLock, LockedFile, LockedFiles, LockedPackage};
pub use progress::{Progress, Silent, Step};
pub use spec::{BUILT_IN_NAMES, ExtraFile, FileSource, ImageSpec};
pub use tilemark_units::Sha256Hash;

/// What this crate's functions return.
pub type Result<T> = std::result::Result<T, ImageError>;
