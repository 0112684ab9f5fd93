//! `memory`: blocks of memory copied inside the guest.

use super::facts::{At, Exclusive, Facts, InFlight, LoadKeys, Place};
use crate::JsonSchema;
use crate::problem::Say;
use crate::scenario::{guest::Guest, measure::Measure, role::Role};
use serde::{Deserialize, Serialize};
use tilemark_units::Bytes;

/// Each block is made of whole pages, which are checked one by one.
const PAGE: Bytes = Bytes::from_kib(4);
const THREADS_MAX: u32 = 256;

/// For role `compute`: blocks of memory copied inside the guest, as the copy of McCalpin's STREAM does. Each page of each copy
/// is checked.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct MemoryParameters {
    /// Size of each thread's two arrays. Arrays smaller than the processor's cache measure the cache.
    pub array: Bytes,
    /// Size of the block that is copied at once, from one array into the other.
    pub block: Bytes,
    /// Threads that copy at the same time.
    pub threads: u32,
}

impl Default for MemoryParameters {
    fn default() -> Self {
        Self { array: Bytes::from_mib(32), block: Bytes::from_mib(1), threads: 1 }
    }
}

impl Facts for MemoryParameters {
    fn role(&self) -> Role {
        Role::Compute
    }

    fn place(&self) -> Place {
        Place::Inside
    }

    fn unit(&self) -> &'static str {
        "blocks"
    }

    fn in_flight(&self, _at: At) -> InFlight {
        InFlight { state: "being copied", ..InFlight::steady(self.threads.into(), "block") }
    }

    fn check(&self, load: &LoadKeys<'_>, guest: &Guest, _measure: &Measure, say: &mut Say<'_>) {
        let (name, &Self { array, block, threads }) = (load.name, self);
        if block < PAGE || !block.get().is_multiple_of(PAGE.get()) || block > array {
            let message = format!("load `{name}` has a `block` of {block} in an `array` of {array}");
            say(message, "use a block of whole pages of 4KiB, at most as large as the array");
        }
        if !(1..=THREADS_MAX).contains(&threads) {
            say(format!("load `{name}` has {threads} threads"), &format!("use 1 to {THREADS_MAX}"));
        }
        let (arrays, most) = (self.memory(), Bytes::new(guest.memory.get() / 2));
        if arrays > most {
            let (guest, memory) = (&guest.name, guest.memory);
            let message =
                format!("load `{name}` needs {arrays} for its arrays, and guest `{guest}` has {memory}");
            say(message, "give the guest twice that memory, or lower `array` or `threads`");
        }
    }

    fn exclusive(&self) -> Option<Exclusive> {
        Some(Exclusive::Inside)
    }

    fn memory(&self) -> Bytes {
        Bytes::new(self.array.get().saturating_mul(2).saturating_mul(self.threads.into()))
    }

    /// 1 MiB took 1 ms.
    fn emulated_seconds(&self) -> Option<f64> {
        Some(1e-9 * self.block.get() as f64)
    }
}

#[cfg(test)]
mod tests {
    use crate::parse::Draft;

    fn said(memory: &str) -> String {
        let text = format!(
            "schema = 1\nname = \"m\"\nabout = \"m\"\nheadline = \"m\"\n[[guest]]\nname = \"g\"\nrole = \"compute\"\n\
             memory = \"256MiB\"\n[[load]]\nname = \"m\"\nguest = \"g\"\nloop = \"closed\"\n[load.memory]\n{memory}\n\
             [ladder]\ntiles = [1]\n"
        );
        let finished = Draft::from_toml(&text, "test").unwrap().finish();
        finished.map_or_else(|problems| problems.to_string(), |_| String::new())
    }

    #[test]
    fn what_cannot_be_copied_is_refused_before_anything_starts() {
        assert_eq!(said(""), "");
        assert_eq!(said("array = \"64MiB\"\nblock = \"4KiB\""), "", "half of the guest's memory");
        for (memory, wanted) in [
            ("block = \"6KiB\"", "a `block` of 6KiB"),
            ("block = \"0B\"", "a `block` of 0B"),
            ("block = \"33MiB\"", "in an `array` of 32MiB"),
            ("threads = 0", "has 0 threads"),
            ("threads = 4", "needs 256MiB for its arrays, and guest `g` has 256MiB"),
            ("array = \"18014398509481984KiB\"\nthreads = 256", "for its arrays"),
        ] {
            assert!(said(memory).contains(wanted), "{memory}: {}", said(memory));
        }
    }
}
