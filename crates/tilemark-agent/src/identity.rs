//! Becoming this guest and no other.
//!
//! A clone does this first of all, and every instruction that it runs for the first time costs an emulator a hundred
//! times the instruction. So all that is the same for every guest is done before a template is frozen
//! ([`Place::prepare`]), and what is left is little.

use crate::{
    clock::{self, Owner},
    error::{AgentError, step},
    power::Power,
};
use rustix::mount::mount_bind;
use serde::{Deserialize, Serialize};
use std::{
    fs::{self, File},
    net::Ipv4Addr,
    os::unix::fs::FileExt,
    path::Path,
};
use tilemark_agent_protocol::Identity;
use tilemark_netlink::{Link, Netlink};
use tilemark_plan::plan::MacAddress;
use tilemark_sys::entropy::reseed_kernel;
use tilemark_workloads::sessions::ASKS;

/// The guest's one network device.
pub(crate) const DEVICE: &str = "eth0";
const MACHINE_ID: &str = "/etc/machine-id";
/// A file in memory in its place: writing it does not go through the overlay.
const MACHINE_ID_IN_MEMORY: &str = "/run/tilemark-machine-id";

/// Where an identity is put: opened once.
pub(crate) struct Place {
    owner: Owner,
    machine_id: File,
    power: Power,
}

/// What of an identity others see.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Names {
    pub(crate) host_name: String,
    pub(crate) mac: MacAddress,
    address: Ipv4Addr,
    prefix: u8,
}

/// The guest's network device, opened.
pub(crate) struct Network {
    netlink: Netlink,
    name: String,
    device: Link,
}

impl Place {
    /// Opens everything.
    pub(crate) fn prepare(owner: Owner) -> Result<Self, AgentError> {
        let (power, machine_id) = match owner {
            Owner::Guest => (Power::of_guest()?, machine_id_in_memory()?),
            Owner::Disk => (Power::of_disk(), machine_id_in_memory()?),
            Owner::Host => (Power::of_twin()?, open_machine_id()?),
        };
        Ok(Self { owner, machine_id, power })
    }

    /// Who does what needs the power over the kernel.
    pub(crate) fn power(&mut self) -> &mut Power {
        &mut self.power
    }

    /// Entropy first: until then a clone's kernel gives out the bytes that its siblings' kernels give out.
    pub(crate) fn become_guest(&mut self, identity: &Identity) -> Result<(), AgentError> {
        if self.owner != Owner::Host {
            reseed_kernel(&identity.entropy).map_err(step("reseed the kernel"))?;
        }
        clock::set(identity.realtime_ns, self.owner)?;
        // Always 33 bytes: nothing of an older one is left behind it.
        let text = format!("{}\n", identity.machine_id);
        self.machine_id.write_all_at(text.as_bytes(), 0).map_err(step("write the machine id"))?;
        note_asked(identity.asks)?;
        self.power.take_names(Names {
            host_name: identity.host_name.clone(),
            mac: identity.mac,
            address: identity.address,
            prefix: identity.prefix,
        })
    }
}

/// Notes whom the guest's dynamic pages ask: itself, where the tile has no guest for that.
fn note_asked(asked: Option<Ipv4Addr>) -> Result<(), AgentError> {
    let path = Path::new(ASKS);
    let folder = path.parent().expect("it lies in a folder");
    fs::create_dir_all(folder).map_err(step(format!("make {}", folder.display())))?;
    let address = asked.unwrap_or(Ipv4Addr::LOCALHOST);
    fs::write(path, address.to_string()).map_err(step(format!("write {ASKS}")))
}

fn open_machine_id() -> Result<File, AgentError> {
    let opened = File::options().write(true).open(MACHINE_ID_IN_MEMORY);
    opened.map_err(step(format!("open {MACHINE_ID_IN_MEMORY}")))
}

/// Covers the image's machine id by a file in memory.
pub(crate) fn machine_id_in_memory() -> Result<File, AgentError> {
    let file = File::create(MACHINE_ID_IN_MEMORY).map_err(step(format!("make {MACHINE_ID_IN_MEMORY}")))?;
    if !Path::new(MACHINE_ID).exists() {
        fs::write(MACHINE_ID, "").map_err(step(format!("make {MACHINE_ID}")))?;
    }
    mount_bind(MACHINE_ID_IN_MEMORY, MACHINE_ID).map_err(step(format!("cover {MACHINE_ID}")))?;
    Ok(file)
}

/// The network device with this address, in a guest where others have named it.
pub(crate) fn device_of(mac: MacAddress) -> Result<String, AgentError> {
    device_in(Path::new("/sys/class/net"), mac)
        .ok_or_else(|| AgentError::Missing(format!("network device with the address {mac}")))
}

fn device_in(class: &Path, mac: MacAddress) -> Option<String> {
    let wanted = mac.to_string();
    let has_it = |entry: &fs::DirEntry| {
        fs::read_to_string(entry.path().join("address")).is_ok_and(|address| address.trim() == wanted)
    };
    let found = fs::read_dir(class).ok()?.flatten().find(has_it)?;
    found.file_name().into_string().ok()
}

impl Network {
    /// The device of a guest where others have named it and may have set it up: it is switched on, and what it lacks is added.
    pub(crate) fn found(mac: MacAddress) -> Result<Self, AgentError> {
        let name = device_of(mac)?;
        let mut netlink = Netlink::open()?;
        let device = netlink.link(&name)?;
        netlink.switch_on(&name, &device)?;
        Ok(Self { netlink, name, device })
    }

    /// Both devices on, the guest's own without an address: its driver's queues are filled then.
    pub(crate) fn prepare() -> Result<Self, AgentError> {
        let mut netlink = Netlink::open()?;
        let loopback = netlink.link("lo")?;
        netlink.switch_on("lo", &loopback)?;
        let device = netlink.link(DEVICE)?;
        netlink.switch_on(DEVICE, &device)?;
        Ok(Self { netlink, name: DEVICE.to_owned(), device })
    }

    /// Nothing is announced: the host's bridge and its table of neighbours know each guest beforehand.
    pub(crate) fn take(&mut self, names: &Names) -> Result<(), AgentError> {
        if self.device.mac != names.mac.0 {
            self.netlink.set_mac(&self.name, &self.device, names.mac.0)?;
        }
        Ok(self.netlink.add_address(&self.device, names.address, names.prefix)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_network_device_is_found_by_its_address_whatever_it_is_called() {
        let class = tempfile::tempdir().unwrap();
        for (name, address) in [("lo", "00:00:00:00:00:00"), ("enp0s5", "52:54:00:00:00:07")] {
            fs::create_dir(class.path().join(name)).unwrap();
            fs::write(class.path().join(name).join("address"), format!("{address}\n")).unwrap();
        }
        assert_eq!(device_in(class.path(), MacAddress::of_guest(7)).as_deref(), Some("enp0s5"));
        assert_eq!(device_in(class.path(), MacAddress::of_guest(8)), None);
    }
}
