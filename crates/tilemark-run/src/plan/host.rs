//! What the host is, as far as a plan depends on it, and on which backend it measures.

use crate::{
    failure::{Failure, FailureCode},
    guests::services::hardware,
};
use tilemark_host::{LiveHost, accelerator, read_facts};
use tilemark_plan::{
    facts::{Accelerator, AcceleratorVerdict, Fact, Hardware, HostFacts},
    place::Topology,
    plan::{Backend, HostSummary},
};
use tilemark_units::Bytes;

/// Whether the accelerator must be timed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Probe {
    /// Time guest work: takes some hundredths of a second where KVM is usable, and seconds elsewhere.
    Time,
    /// Nobody will ask.
    Skip,
}

/// Reads what the host is.
pub fn facts(probe: Probe) -> HostFacts {
    let kvm = match probe {
        Probe::Time => accelerator::probe_kvm(),
        Probe::Skip => Accelerator {
            verdict: AcceleratorVerdict::Unknown,
            reason: "not timed: nothing that was asked needs it".to_owned(),
            figures: None,
        },
    };
    read_facts(&LiveHost, kvm)
}

/// `auto` means kvm, or stop and say why: nothing becomes emulated by surprise.
pub fn choose(on: Option<Backend>, facts: &HostFacts) -> Result<Backend, Failure> {
    let kvm = &facts.accelerators.kvm;
    match on {
        Some(Backend::Kvm) | None if kvm.verdict != AcceleratorVerdict::Usable => Err(Failure::new(
            FailureCode::HostUnfit,
            format!("kvm is not usable on this host: {}", kvm.reason),
            if is_refused_to_this_user(kvm) { MAY_NOT_OPEN } else { NO_KVM },
        )),
        Some(backend) => Ok(backend),
        None => Ok(Backend::Kvm),
    }
}

const NO_KVM: &str = "use `--on native` to measure without guests, or `--on emulated` only to check that guests work; `tilemark doctor` explains why";
const MAY_NOT_OPEN: &str = "this user may not open it: use sudo, or join the group `kvm` (sudo usermod -aG kvm $USER), or measure without guests (`--on native`)";

/// Whether it is a right that is missing, and no fact about the host.
fn is_refused_to_this_user(kvm: &Accelerator) -> bool {
    let refused = std::io::Error::from(rustix::io::Errno::ACCESS).to_string();
    kvm.verdict == AcceleratorVerdict::Unknown && kvm.reason.ends_with(&refused)
}

/// Why no time of this host is to be trusted, where it is emulated.
pub(crate) fn emulated_reason() -> Option<String> {
    let emulated = hardware() == Hardware::Emulated;
    emulated.then(|| "this host is itself emulated: times measured on it mean nothing".to_owned())
}

/// Whether the energy of the processors' packages can be read.
fn counts_energy(facts: &HostFacts) -> bool {
    facts.energy_zones.value().is_some_and(|zones| zones.iter().any(|zone| zone.starts_with("package")))
}

/// What resolution needs to know of the host.
pub fn summary(facts: &HostFacts) -> Result<HostSummary, Failure> {
    let unread = |what: &str| {
        Failure::new(
            FailureCode::HostUnfit,
            format!("this host does not tell {what}"),
            "check that /proc and /sys are mounted",
        )
    };
    let text = |fact: &Fact<String>| fact.value().cloned().unwrap_or_default();
    let threads: Vec<u32> = facts.processors.threads.iter().map(|thread| thread.id).collect();
    if threads.is_empty() {
        return Err(unread("its processors"));
    }
    Ok(HostSummary {
        name: text(&facts.host_name),
        kernel: text(&facts.kernel.release),
        processor: text(&facts.processors.model),
        threads,
        memory_total: Bytes::new(*facts.memory.bytes_total.value().ok_or_else(|| unread("its memory"))?),
        memory_available: Bytes::new(
            *facts.memory.bytes_available.value().ok_or_else(|| unread("its free memory"))?,
        ),
        kvm: facts.accelerators.kvm.verdict,
        hardware: facts.hardware(),
        counts_energy: counts_energy(facts),
        topology: Topology::of(facts),
        own_bridge: None,
    })
}

/// How the first look is taken on this host.
#[derive(Debug, Clone)]
pub struct Demonstration {
    /// What is measured.
    pub backend: Backend,
    /// What is shown too.
    pub demonstrate: Option<Backend>,
    /// Why guests are not measured, where they are not.
    pub why_not_kvm: Option<String>,
    /// What the probe found.
    pub kvm: Accelerator,
}

fn why_not(kvm: &Accelerator) -> String {
    let as_root = if is_refused_to_this_user(kvm) { "; with sudo it may be" } else { "" };
    format!("kvm is not usable: {}{as_root}", kvm.reason)
}

/// Guests where they run at speed; else the host itself, and emulated guests to show that they live.
pub fn demonstration() -> Demonstration {
    let kvm = accelerator::probe_kvm();
    if kvm.verdict == AcceleratorVerdict::Usable {
        return Demonstration { backend: Backend::Kvm, demonstrate: None, why_not_kvm: None, kvm };
    }
    Demonstration {
        backend: Backend::Native,
        demonstrate: Some(Backend::Emulated),
        why_not_kvm: Some(why_not(&kvm)),
        kvm,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tilemark_host::accelerator::judge;
    use tilemark_sys::kvm::ProbeError;

    #[test]
    fn a_user_without_access_to_kvm_is_advised_to_use_root_and_not_another_host() {
        let found = |errno: rustix::io::Errno| judge(&Err(ProbeError::Open(errno.into())));
        let refused = found(rustix::io::Errno::ACCESS);
        assert!(is_refused_to_this_user(&refused), "{}", refused.reason);
        assert!(why_not(&refused).ends_with("; with sudo it may be"));
        for errno in [rustix::io::Errno::NOENT, rustix::io::Errno::BUSY] {
            assert!(!is_refused_to_this_user(&found(errno)));
        }
    }
}
