//! Becoming this guest and no other.
//!
//! A clone does this first of all, and every instruction that it runs for the first time costs an emulator a hundred
//! times the instruction. So all that is the same for every guest is done before a template is frozen
//! ([`Place::prepare`]), and what is left is little.

use crate::{
    clock::{self, Owner},
    error::{AgentError, step},
};
use rustix::mount::mount_bind;
use std::{
    fs::{self, File},
    os::unix::fs::FileExt,
    path::Path,
};
use tilemark_agent_protocol::Identity;
use tilemark_netlink::{Link, Netlink};
use tilemark_sys::entropy::reseed_kernel;

/// The guest's one network device.
pub(crate) const DEVICE: &str = "eth0";
const MACHINE_ID: &str = "/etc/machine-id";
/// A file in memory that stands in for it: writing it does not go through the overlay.
const MACHINE_ID_IN_MEMORY: &str = "/run/tilemark-machine-id";

/// Where an identity is put: opened once.
pub(crate) struct Place {
    owner: Owner,
    machine_id: File,
    network: Option<Network>,
}

struct Network {
    netlink: Netlink,
    device: Link,
}

impl Place {
    /// Opens everything. A twin's network device comes later, from the host.
    pub(crate) fn prepare(owner: Owner) -> Result<Self, AgentError> {
        let network = match owner {
            Owner::Guest => Some(Network::prepare()?),
            Owner::Host => None,
        };
        Ok(Self { owner, machine_id: machine_id_in_memory()?, network })
    }

    /// Entropy first: until then a clone's kernel gives out the bytes that its siblings' kernels give out.
    pub(crate) fn become_guest(&mut self, identity: &Identity) -> Result<(), AgentError> {
        if self.owner == Owner::Guest {
            reseed_kernel(&identity.entropy).map_err(step("reseed the kernel"))?;
        }
        clock::set(identity.realtime_ns, self.owner)?;
        rustix::system::sethostname(identity.host_name.as_bytes()).map_err(step("set the host name"))?;
        // Always 33 bytes: nothing of an older one is left behind it.
        let text = format!("{}\n", identity.machine_id);
        self.machine_id.write_all_at(text.as_bytes(), 0).map_err(step("write the machine id"))?;
        let network = match &mut self.network {
            Some(network) => network,
            missing => missing.insert(Network::prepare()?),
        };
        network.take(identity)
    }
}

fn machine_id_in_memory() -> Result<File, AgentError> {
    let file = File::create(MACHINE_ID_IN_MEMORY).map_err(step(format!("make {MACHINE_ID_IN_MEMORY}")))?;
    if !Path::new(MACHINE_ID).exists() {
        fs::write(MACHINE_ID, "").map_err(step(format!("make {MACHINE_ID}")))?;
    }
    mount_bind(MACHINE_ID_IN_MEMORY, MACHINE_ID).map_err(step(format!("cover {MACHINE_ID}")))?;
    Ok(file)
}

impl Network {
    /// Both devices on, the guest's own without an address: its driver's queues are filled then.
    fn prepare() -> Result<Self, AgentError> {
        let mut netlink = Netlink::open()?;
        let loopback = netlink.link("lo")?;
        netlink.switch_on("lo", &loopback)?;
        let device = netlink.link(DEVICE)?;
        netlink.switch_on(DEVICE, &device)?;
        Ok(Self { netlink, device })
    }

    /// Nothing is announced: the host's bridge and its table of neighbours know each guest beforehand.
    fn take(&mut self, identity: &Identity) -> Result<(), AgentError> {
        self.netlink.set_mac(DEVICE, &self.device, identity.mac.0)?;
        Ok(self.netlink.add_address(&self.device, identity.address, identity.prefix)?)
    }
}
