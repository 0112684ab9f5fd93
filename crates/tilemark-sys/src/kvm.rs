//! Times guest kernel-mode work on `/dev/kvm` against the same work on the host.
//!
//! A device file that opens, an API version and a VM that can be created prove nothing: a host may interpret guest kernel
//! mode one instruction at a time. So this runs real work in long mode, ring 0, and returns figures; what they mean is
//! decided elsewhere. It is not a VMM: there is no kernel, no interrupt, no device.
//!
//! ```text
//! open -> version -> VM, memory, vCPU -> prove (42 arrives) -> exits -> plain -> tables -> touch -> exchange
//!    any error: ProbeError                  each part: Timed, or Stopped with the reason; the next one still runs
//! ```
//! Each part has a budget. At its end the vCPU thread is kicked out of the kernel by a signal, again every millisecond
//! until it is out. A kernel that ignores signals can still hang: call this in a process of its own that can be killed.

mod code;
mod guest;
mod kick;
mod work;

pub use guest::ProbeError;
pub use work::{Exits, Part, Readings, Timed, probe};

use std::arch::x86_64::__cpuid;

/// First leaf that only hypervisors answer ("Hypervisor CPUID Information Leaf" in every hypervisor's interface).
const HYPERVISOR_LEAF: u32 = 0x4000_0000;
/// Leaf 1, ECX bit 31: set by every hypervisor, never by a processor (Intel SDM vol. 2A, CPUID; AMD APM vol. 3, E.3.2).
const HYPERVISOR_PRESENT: u32 = 1 << 31;

/// The signature of the hypervisor this processor runs under (`KVMKVMKVM`), or nothing on bare metal.
#[allow(unused_unsafe)] // safe since Rust 1.94, unsafe in the oldest version that we support
pub fn hypervisor_signature() -> Option<String> {
    // SAFETY: every x86-64 processor has CPUID and leaf 1. No safe way reaches it in the oldest Rust that we support.
    let present = unsafe { __cpuid(1) }.ecx & HYPERVISOR_PRESENT != 0;
    if !present {
        return None;
    }
    // SAFETY: as above; a hypervisor that set the bit answers this leaf.
    let leaf = unsafe { __cpuid(HYPERVISOR_LEAF) };
    let bytes: Vec<u8> = [leaf.ebx, leaf.ecx, leaf.edx].iter().flat_map(|word| word.to_le_bytes()).collect();
    let text: String =
        bytes.iter().filter(|byte| byte.is_ascii_graphic()).map(|&byte| char::from(byte)).collect();
    Some(text)
}
