//! The data disks of a guest.

use crate::{JsonSchema, left_out::is_default};
use serde::{Deserialize, Serialize};
use tilemark_units::Bytes;

/// A data disk of a guest.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Disk {
    /// Its size.
    pub size: Bytes,
    /// Where its bytes are.
    #[serde(default)]
    pub on: DiskMedium,
    /// How QEMU caches it on the host, in QEMU's own words. A native twin's disk is always without the host's cache. Default: `"none"`.
    #[serde(default, skip_serializing_if = "is_default")]
    pub cache: DiskCache,
    /// How QEMU reads and writes it: `native` (the kernel's asynchronous I/O), `threads` or `io_uring`. Default: `native` where the host
    /// does not cache it, `threads` where it does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub aio: Option<DiskAio>,
    /// Whether a thread of QEMU's serves this disk alone, instead of the one that serves all devices. Default: `false`.
    #[serde(default, skip_serializing_if = "is_default")]
    pub iothread: bool,
}

/// Where the bytes of a data disk are.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum DiskMedium {
    /// In the disk store, on the host's disk.
    #[default]
    Store,
    /// In the host's memory, behind a loop device with 512-byte sectors.
    Memory,
}

/// How QEMU caches a disk.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum DiskCache {
    /// The host does not cache it; the guest sees a write cache that it flushes.
    #[default]
    None,
    /// The host caches it; the guest flushes.
    Writeback,
    /// The host caches what is read; each write is on the disk before it is answered.
    Writethrough,
    /// The host does not cache it; each write is on the disk before it is answered.
    Directsync,
    /// The host caches it, and the guest's flushes do nothing: a crash of the host may lose all of it.
    Unsafe,
}

impl DiskCache {
    /// As scenarios write it, which is QEMU's own word for it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Writeback => "writeback",
            Self::Writethrough => "writethrough",
            Self::Directsync => "directsync",
            Self::Unsafe => "unsafe",
        }
    }

    /// Whether reads and writes pass by the host's cache.
    pub const fn is_direct(self) -> bool {
        matches!(self, Self::None | Self::Directsync)
    }

    /// Whether the guest sees a write cache.
    pub const fn has_write_cache(self) -> bool {
        !matches!(self, Self::Writethrough | Self::Directsync)
    }
}

/// How QEMU reads and writes a disk.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum DiskAio {
    /// The kernel's asynchronous I/O.
    #[default]
    #[serde(rename = "native")]
    Native,
    /// Threads of QEMU that read and write.
    #[serde(rename = "threads")]
    Threads,
    /// The kernel's `io_uring`.
    #[serde(rename = "io_uring")]
    IoUring,
}

impl DiskAio {
    /// QEMU's own word for it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Native => "native",
            Self::Threads => "threads",
            Self::IoUring => "io_uring",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_as_scenarios_write_them() {
        let caches = [
            DiskCache::None,
            DiskCache::Writeback,
            DiskCache::Writethrough,
            DiskCache::Directsync,
            DiskCache::Unsafe,
        ];
        for cache in caches {
            assert_eq!(serde_json::to_value(cache).unwrap(), cache.name());
        }
        for aio in [DiskAio::Native, DiskAio::Threads, DiskAio::IoUring] {
            assert_eq!(serde_json::to_value(aio).unwrap(), aio.name());
        }
    }
}
