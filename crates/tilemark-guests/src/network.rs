//! The run network: one bridge in the network namespace of the run, one port for each guest.
//!
//! Loads talk to guests: a port reaches the host. It reaches another port only where one of the two guests sends the other a load. A
//! guest is let in under its own addresses only.
//!
//! With a bridge of the user's own the run's bridge has one port more, the uplink: a cable to that bridge. What passes it is asked by
//! machines outside, or answers them.

use crate::{
    error::{GuestError, file},
    own_bridge::plug_in,
};
use std::{
    net::Ipv4Addr,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    path::Path,
    sync::{Mutex, MutexGuard, PoisonError},
};
use tilemark_netlink::{Answering, Link, Neighbour, Netlink, PortCounts};
pub use tilemark_plan::plan::GUESTS_MAX;
use tilemark_plan::{
    own_bridge::{MAC_START, OwnBridge},
    plan::{BRIDGE_ADDRESS, GuestPlan, MacAddress, NETWORK_PREFIX},
};
use tilemark_sys::{
    namespace::own_network,
    tap::{create_tap, create_tap_with_queues},
};

/// The bridge's name.
pub const BRIDGE: &str = "tilemark0";

/// The bridge's hardware address: no guest's, since indices end at 1,000.
const BRIDGE_MAC: MacAddress = MacAddress::of_guest(0x00ff_ffff);

/// The network of a run, in the network namespace of the thread that made it.
#[derive(Debug)]
pub struct RunNetwork {
    netlink: Mutex<Netlink>,
    bridge: Link,
    own: Option<OwnBridge>,
    /// Why senders are not checked, where the kernel cannot.
    unchecked: Option<String>,
}

/// The cable from the run's bridge to one of the user's own.
#[derive(Debug)]
pub struct Uplink {
    /// The bridge and its addresses.
    pub own: OwnBridge,
    /// How the host's end is called: see [`uplink_name`].
    pub device: String,
    /// The host's network namespace.
    pub host: OwnedFd,
}

/// The name of the run's end of the uplink.
const UPLINK: &str = "uplink";
/// How the host's end of an uplink begins; the number of the command that started the run follows.
const UPLINK_AT_HOST: &str = "tmuplink";

/// How the host's end of the uplink is called of a run that this process starts.
pub fn uplink_name(process: u32) -> String {
    format!("{UPLINK_AT_HOST}{process}")
}

/// Takes the host's end of an uplink away, and so both; one that is gone is no error. In the caller's network namespace.
///
/// # Errors
/// When the kernel refuses, or the name is none of ours.
pub fn remove_uplink(device: &str) -> Result<(), GuestError> {
    if !device.starts_with(UPLINK_AT_HOST) {
        return Err(file("remove the network device", device.as_ref())(std::io::ErrorKind::InvalidInput));
    }
    Ok(Netlink::open()?.delete(device)?)
}

/// The name of guest `index`'s port.
pub fn port_name(index: u32) -> String {
    format!("guest{index}")
}

/// Whether a network device is called as those of a run are: the bridge, a guest's port, a template's tap.
pub fn is_named_as_ours(device: &str) -> bool {
    let numbered = |start: &str| {
        let number = device.strip_prefix(start);
        number.is_some_and(|number| !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit()))
    };
    device == BRIDGE || numbered("guest") || numbered("template")
}

/// Where a guest could reach another through the host, which forwards in any new network namespace where the first one does.
const ROUTING: [&str; 4] = [
    "/proc/sys/net/ipv4/ip_forward",
    "/proc/sys/net/ipv4/conf/all/forwarding",
    "/proc/sys/net/ipv4/conf/default/forwarding",
    "/proc/sys/net/ipv4/conf/all/route_localnet",
];

fn no_routing() -> Result<(), GuestError> {
    ROUTING.iter().try_for_each(|path| std::fs::write(path, "0").map_err(file("switch off", path.as_ref())))
}

impl RunNetwork {
    /// Switches the loopback on and makes the bridge with its address. Only ever in a namespace of the run's own.
    pub fn create() -> Result<Self, GuestError> {
        Self::create_in(BRIDGE_ADDRESS, NETWORK_PREFIX, BRIDGE_MAC)
    }

    /// The same, joined to a bridge of the user's own.
    ///
    /// # Errors
    /// Where the kernel has no filter for what guests send: nothing would hold them to answering.
    pub fn create_on(uplink: Uplink) -> Result<Self, GuestError> {
        let Uplink { own, device, host } = uplink;
        let mut network = Self::create_in(own.first, own.prefix, OwnBridge::mac_of(own.first))?;
        if let Some(why) = network.unchecked.take() {
            return Err(GuestError::Unheld { bridge: own.bridge, why });
        }
        network.join_own_bridge(&own, &device, host.as_fd())?;
        network.own = Some(own);
        Ok(network)
    }

    /// Lays the cable: both filters are there before a frame can pass.
    fn join_own_bridge(&self, own: &OwnBridge, device: &str, host: BorrowedFd<'_>) -> Result<(), GuestError> {
        let mut netlink = self.netlink();
        let uplink = netlink.create_veth(UPLINK, device, host)?;
        let guests = own.guests_max().min(GUESTS_MAX);
        let answering = Answering {
            first: own.guest_address(0),
            last: own.guest_address(guests.saturating_sub(1)),
            mac_start: MAC_START,
        };
        netlink.only_answers(UPLINK, &uplink, &answering)?;
        let mtu = plug_in(own, device, host)?;
        netlink.set_mtu(UPLINK, &uplink, mtu)?;
        Ok(netlink.join_bridge(UPLINK, &uplink, &self.bridge)?)
    }

    fn create_in(address: Ipv4Addr, prefix: u8, mac: MacAddress) -> Result<Self, GuestError> {
        let mut netlink = Netlink::open()?;
        let loopback = netlink.link("lo")?;
        netlink.switch_on("lo", &loopback)?;
        // No IPv6 on this network: hundreds of guests would announce themselves to each other.
        for scope in ["all", "default"] {
            let _ = std::fs::write(format!("/proc/sys/net/ipv6/conf/{scope}/disable_ipv6"), "1");
        }
        no_routing()?;
        let mut bridge = netlink.create_bridge(BRIDGE)?;
        // A bridge otherwise takes the lowest address of its ports, again with each that joins, and the kernel then forgets
        // all its neighbours, the permanent ones too.
        netlink.set_mac(BRIDGE, &bridge, mac.0)?;
        bridge.mac = mac.0;
        netlink.add_address(&bridge, address, prefix)?;
        netlink.switch_on(BRIDGE, &bridge)?;
        let unchecked = why_unchecked(&mut netlink, &loopback);
        Ok(Self { netlink: Mutex::new(netlink), bridge, own: None, unchecked })
    }

    /// Which wall between guests is missing on this kernel, in a sentence.
    pub fn missing_wall(&self) -> Option<&str> {
        self.unchecked.as_deref()
    }

    /// What passed a guest's port since it was made; nothing where it has none.
    pub fn port_counts(&self, guest: &GuestPlan) -> Option<PortCounts> {
        self.netlink().port_counts(&port_name(guest.index)).ok()
    }

    fn netlink(&self) -> MutexGuard<'_, Netlink> {
        self.netlink.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes guest's tap and joins it to the bridge: a descriptor of each of its queues. It is gone when the last copy of all of them is
    /// closed.
    pub fn tap(&self, guest: &GuestPlan) -> Result<Vec<OwnedFd>, GuestError> {
        check_index(guest.index)?;
        let name = port_name(guest.index);
        let queues = queues_of(&name, guest.net.queues)?;
        self.join(&name, guest)?;
        Ok(queues)
    }

    /// Makes a tap that leads nowhere, for a template: it must have the device, and must not be heard.
    pub fn unconnected_tap(&self, number: u64, queues: u32) -> Result<Vec<OwnedFd>, GuestError> {
        queues_of(&format!("template{number}"), queues)
    }

    /// Makes a pair of devices: one a port of the bridge, the other `eth0` in the guest's namespace.
    pub fn veth(&self, guest: &GuestPlan, namespace: BorrowedFd<'_>) -> Result<(), GuestError> {
        check_index(guest.index)?;
        let name = port_name(guest.index);
        self.netlink().create_veth(&name, "eth0", namespace)?;
        self.join(&name, guest)
    }

    /// Takes a guest's port away; one that is gone is no error.
    pub fn remove(&self, guest: &GuestPlan) -> Result<(), GuestError> {
        Ok(self.netlink().delete(&port_name(guest.index))?)
    }

    fn mac_of(&self, index: u32) -> MacAddress {
        let own = |own: &OwnBridge| OwnBridge::mac_of(own.guest_address(index));
        self.own.as_ref().map_or_else(|| MacAddress::of_guest(index), own)
    }

    fn join(&self, name: &str, guest: &GuestPlan) -> Result<(), GuestError> {
        let mut netlink = self.netlink();
        let port = netlink.link(name)?;
        let neighbour = Neighbour { address: guest.address, mac: guest.mac.0 };
        if self.unchecked.is_none() {
            let others = guest.reaches.iter().map(|&index| self.mac_of(index).0);
            let reaches: Vec<[u8; 6]> = [self.bridge.mac].into_iter().chain(others).collect();
            let beyond = self.own.as_ref().map(|_| MAC_START);
            netlink.let_in_only(name, &port, neighbour, &reaches, beyond)?;
        }
        netlink.join_bridge(name, &port, &self.bridge)?;
        // A port that is not isolated hears all others too: that each sends to its own receivers only is up to the filter.
        netlink.guard_port(name, &port, guest.mac.0, guest.reaches.is_empty())?;
        // The host never asks who has an address: its table of learned neighbours ends at some hundreds.
        Ok(netlink.add_neighbour(&self.bridge, neighbour)?)
    }
}

/// Which wall between guests would be missing on this kernel, in a sentence. Nothing too where that cannot be tried: only
/// root may.
pub fn missing_wall() -> Option<String> {
    let tried = std::thread::spawn(|| {
        own_network().ok()?;
        let mut netlink = Netlink::open().ok()?;
        let loopback = netlink.link("lo").ok()?;
        why_unchecked(&mut netlink, &loopback)
    });
    tried.join().ok()?
}

fn why_unchecked(netlink: &mut Netlink, loopback: &Link) -> Option<String> {
    let error = netlink.try_filter("lo", loopback).err()?;
    Some(format!(
        "addresses of senders and receivers on the run network are not checked: this kernel has no filter for it ({})",
        error.source
    ))
}

fn check_index(index: u32) -> Result<(), GuestError> {
    if index < GUESTS_MAX { Ok(()) } else { Err(GuestError::TooMany { index, limit: GUESTS_MAX }) }
}
/// A tap with one queue is made as ever: the kernel treats one that could have more otherwise.
fn queues_of(name: &str, queues: u32) -> Result<Vec<OwnedFd>, GuestError> {
    let made = match queues {
        0 | 1 => create_tap(name).map(|tap| vec![tap]),
        several => create_tap_with_queues(name, several),
    };
    made.map_err(file("make a tap with", Path::new("/dev/net/tun")))
}
