//! Sysctls whose values cannot all be taken back.

use super::{request::Request, sysctl};
use crate::error::HostError;
use crate::setting::Setting;

/// Values that the kernel takes another one after; it keeps every other one until the next boot.
pub(super) const REVERSIBLE: [(&str, &[&str]); 8] = [
    ("vm.drop_caches", &["0"]),
    ("kernel.modules_disabled", &["0"]),
    ("kernel.kexec_load_disabled", &["0"]),
    ("kernel.kexec_load_limit_panic", &["-1"]),
    ("kernel.kexec_load_limit_reboot", &["-1"]),
    ("kernel.unprivileged_bpf_disabled", &["0", "2"]),
    ("kernel.yama.ptrace_scope", &["0", "1", "2"]),
    ("kernel.tainted", &["0"]),
];

/// A value after which the old one could not be restored is refused, unless the host has it already.
pub(super) fn reversible(request: &Request<'_>) -> Result<Vec<Setting>, HostError> {
    let settings = sysctl::sysctl(request)?;
    let known = REVERSIBLE.iter().find(|(key, _)| *key == request.key);
    let (_, values) = known.expect("a test looks for every key of the catalogue that is made here");
    let is_there = settings.iter().all(|setting| setting.now().is_ok_and(|now| now == setting.value));
    if is_there || values.contains(&request.value) {
        return Ok(settings);
    }
    let values = values.join(", ");
    Err(request
        .bad(format!("{values}; every other value is one way: the kernel does not take the old one again")))
}
