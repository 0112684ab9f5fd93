//! `disk`: requests to the guest's data disks.

use super::facts::{At, Exclusive, Facts, InFlight, LoadKeys, Place};
use crate::JsonSchema;
use crate::problem::Say;
use crate::program::{FIO, Program};
use crate::scenario::{guest::Guest, measure::Measure, role::Role, timing::LoopKind};
use serde::{Deserialize, Serialize};
use std::ops::RangeInclusive;
use tilemark_units::{Bytes, Fraction};

/// For role `disk`: random, direct requests, made and measured inside the guest. At a `rate`, an open loop of our own makes
/// them. As fast as possible (`saturate`, or `loop = "closed"`), fio makes them with libaio, one job a disk.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct DiskParameters {
    /// Size of one request.
    pub block_size: Bytes,
    /// Requests in flight on each disk.
    pub depth: u32,
    /// Part of the requests that read; the others write. Whole per cents where fio makes them.
    pub reads: Fraction,
    /// As fast as the disk goes, instead of at the load's `rate`.
    pub saturate: bool,
}

impl Default for DiskParameters {
    fn default() -> Self {
        Self {
            block_size: Bytes::from_kib(4),
            depth: 32,
            reads: Fraction::new(0.5).expect("a half is a part of a whole"),
            saturate: false,
        }
    }
}

impl DiskParameters {
    /// Most data disks of a guest: `/dev/vda` is the image, and they are called vdb to vdz.
    pub const DISKS_MAX: usize = 25;
    /// Requests that can be in flight on one disk.
    pub const DEPTHS: RangeInclusive<u32> = 1..=4096;
    /// Most requests in flight on all disks of a guest at a rate. Each has a thread: this is more than a guest's disks can do at once, and
    /// little memory.
    pub const IN_FLIGHT_MAX: u64 = 1024;

    /// Whether `block_size` is whole sectors of 512 B, from one sector to 16 MiB.
    pub fn has_possible_block_size(&self) -> bool {
        let block = self.block_size.get();
        (512..=16 << 20).contains(&block) && block.is_multiple_of(512)
    }

    /// Requests in flight on so many disks, at most.
    pub fn in_flight_on(&self, disks: usize) -> u64 {
        u64::from(self.depth) * disks as u64
    }

    /// fio takes the share of reads as a whole number of hundredths (`rwmixread`).
    fn check_share(&self, load: &LoadKeys<'_>, say: &mut Say<'_>) {
        /// What the number of a share in binary lies beside it.
        const ROUNDING: f64 = 1e-9;
        let hundredths = self.reads.get() * 100.0;
        let is_flat_out = self.saturate || load.loop_kind == LoopKind::Closed;
        if !is_flat_out || (hundredths - hundredths.round()).abs() < ROUNDING {
            return;
        }
        let (name, reads, near) = (load.name, self.reads, hundredths.round().clamp(1.0, 99.0));
        say(
            format!(
                "load `{name}` has `reads = \"{reads}\"`, and flat out fio mixes reads and writes by whole per cents"
            ),
            &format!("write whole per cents, such as `reads = \"{near}%\"`, or give the load a `rate`"),
        );
    }
}

impl Facts for DiskParameters {
    fn role(&self) -> Role {
        Role::Disk
    }

    fn programs(&self) -> Vec<Program> {
        vec![FIO]
    }

    fn place(&self) -> Place {
        Place::Inside
    }

    fn in_flight(&self, at: At) -> InFlight {
        InFlight::steady(self.in_flight_on(at.disks), "request")
    }

    fn needs_rate(&self) -> bool {
        !self.saturate
    }

    fn check(&self, load: &LoadKeys<'_>, guest: &Guest, _measure: &Measure, say: &mut Say<'_>) {
        let name = load.name;
        let disks = guest.disk.len();
        if disks == 0 {
            let message = format!("load `{name}` works on disks and guest `{}` has none", guest.name);
            return say(message, "add a `[[guest.disk]]`");
        }
        if !self.has_possible_block_size() {
            say(
                format!("load `{name}` has a `block_size` of {}", self.block_size),
                "use whole sectors of 512B, at most 16MiB",
            );
        }
        if !Self::DEPTHS.contains(&self.depth) {
            say(format!("load `{name}` has a `depth` of {}", self.depth), "use 1 to 4096");
        }
        if disks > Self::DISKS_MAX {
            say(format!("guest `{}` has {disks} disks", guest.name), "give it at most 25");
        }
        if let Some(disk) = guest.disk.iter().find(|disk| disk.size < self.block_size) {
            let (size, block) = (disk.size, self.block_size);
            say(
                format!(
                    "a disk of guest `{}` has {size}, and load `{name}` has a `block_size` of {block}",
                    guest.name
                ),
                "give the guest a larger disk (`size`), or lower `block_size`",
            );
        }
        self.check_share(load, say);
        let in_flight = self.in_flight_on(disks);
        if load.loop_kind == LoopKind::Open && !self.saturate && in_flight > Self::IN_FLIGHT_MAX {
            let message = format!("load `{name}` may have {in_flight} requests in flight at its rate");
            say(
                message,
                "lower `depth` until all disks together have at most 1024, or write `saturate = true`",
            );
        }
    }

    fn exclusive(&self) -> Option<Exclusive> {
        Some(Exclusive::Inside)
    }

    fn is_counted_on_disks(&self) -> bool {
        true
    }

    fn emulated_seconds(&self) -> Option<f64> {
        Some(1.6e-3 + 65e-9 * self.block_size.get() as f64)
    }
}
