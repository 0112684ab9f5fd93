//! The guest as it sees itself.

use crate::{clock, error::AgentError, error::step};
use rustix::system::{sysinfo, uname};
use std::{fs, net::Ipv4Addr};
use tilemark_agent_protocol::Description;
use tilemark_netlink::Netlink;
use tilemark_plan::plan::MacAddress;
use tilemark_sys::memory::available_bytes;
use tilemark_units::Bytes;

/// Reads it all now.
pub(crate) fn describe(boot_nonce: u64, address: Ipv4Addr, device: &str) -> Result<Description, AgentError> {
    let names = uname();
    let memory = sysinfo();
    let unit = u64::from(memory.mem_unit);
    let total = memory.totalram * unit;
    let device = Netlink::open()?.link(device)?;
    let processors = std::thread::available_parallelism().map_err(step("count processors"))?;
    Ok(Description {
        host_name: names.nodename().to_string_lossy().into_owned(),
        machine_id: fs::read_to_string("/etc/machine-id").unwrap_or_default().trim().to_owned(),
        kernel: names.release().to_string_lossy().into_owned(),
        mac: MacAddress(device.mac),
        address,
        processors: u32::try_from(processors.get()).unwrap_or(u32::MAX),
        memory: Bytes::new(total),
        memory_used: Bytes::new(total.saturating_sub(available_bytes().unwrap_or(0))),
        boot_nonce,
        realtime_ns: clock::realtime_ns(),
    })
}
