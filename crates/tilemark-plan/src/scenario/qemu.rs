//! The table `[qemu]` of a scenario.

use crate::JsonSchema;
use serde::{Deserialize, Serialize};

/// Which QEMU runs the guests, and with which machine type and kernel.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct QemuTable {
    /// Path of the QEMU program. Default: the first that is found.
    pub binary: Option<String>,
    /// Machine type, such as `pc` or `q35`, with options of its own after a comma, such as `q35,hpet=off`. Default: `"pc"`.
    pub machine: Option<String>,
    /// Processor model, with options of its own after a comma, such as `Nehalem` or `max,-avx2`. Default: `"host,migratable=on"` with kvm,
    /// `"qemu64,+rdrand"` for emulated guests.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu: Option<String>,
    /// Further arguments of QEMU, each a text of its own, such as `["-device", "virtio-rng-pci"]`. What Tilemark sets itself, and what would open
    /// the sandbox, is refused. Default: none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub args: Vec<String>,
    /// Firmware of the machine: the path of an image, or a name that QEMU knows, such as `bios-256k.bin` (SeaBIOS) or `qboot.rom`. UEFI
    /// (`/usr/share/ovmf/OVMF.fd`) only where every guest has `from`: it loads no kernel of an image. Default: what the machine type has.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub firmware: Option<String>,
    /// Another kernel for the guests: the path of an ELF `vmlinux`. Default: the image's.
    pub kernel: Option<String>,
    /// Whether QEMU runs in a sandbox: as a user of its own without capabilities, with a filter of system calls, in an
    /// empty root. Default: `"on"`.
    #[serde(skip_serializing_if = "QemuWalls::are_on")]
    pub walls: QemuWalls,
}

/// Whether QEMU runs in a sandbox.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum QemuWalls {
    /// QEMU runs in the sandbox.
    #[default]
    On,
    /// QEMU runs as root without the sandbox, to measure what it costs. A guest that breaks out of QEMU then has the host.
    Off,
}

impl QemuWalls {
    /// Whether they are on.
    pub const fn are_on(&self) -> bool {
        matches!(self, Self::On)
    }
}
