//! Becoming this guest and no other.

use crate::{
    clock::{self, Owner},
    error::{AgentError, step},
};
use std::{fs, path::Path};
use tilemark_agent_protocol::Identity;
use tilemark_netlink::Netlink;
use tilemark_sys::entropy::reseed_kernel;

/// The guest's one network device.
pub(crate) const DEVICE: &str = "eth0";

/// Entropy first: until then a clone's kernel gives out the bytes that its siblings' kernels give out.
pub(crate) fn become_guest(identity: &Identity, owner: Owner) -> Result<(), AgentError> {
    if owner == Owner::Guest {
        reseed_kernel(&identity.entropy).map_err(step("reseed the kernel"))?;
    }
    clock::set(identity.realtime_ns, owner)?;
    rustix::system::sethostname(identity.host_name.as_bytes()).map_err(step("set the host name"))?;
    set_machine_id(&identity.machine_id)?;
    set_network(identity)
}

fn set_machine_id(machine_id: &str) -> Result<(), AgentError> {
    let path = Path::new("/etc/machine-id");
    // The image may carry a link or an empty file; the overlay makes this one ours.
    let _ = fs::remove_file(path);
    fs::write(path, format!("{machine_id}\n")).map_err(step("write /etc/machine-id"))
}

/// Off, hardware address, address, on: the kernel then announces itself (`arp_notify`), which teaches the bridge.
fn set_network(identity: &Identity) -> Result<(), AgentError> {
    let mut netlink = Netlink::open()?;
    let loopback = netlink.link("lo")?;
    netlink.switch_on("lo", &loopback)?;
    let device = netlink.link(DEVICE)?;
    let notify = format!("/proc/sys/net/ipv4/conf/{DEVICE}/arp_notify");
    fs::write(&notify, "1").map_err(step(format!("write {notify}")))?;
    netlink.switch_off(DEVICE, &device)?;
    netlink.set_mac(DEVICE, &device, identity.mac.0)?;
    netlink.add_address(&device, identity.address, identity.prefix)?;
    Ok(netlink.switch_on(DEVICE, &device)?)
}
