//! One socket, one request at a time.

use crate::message::{
    LINK_BYTES, Message, answers, find_attribute, flag, kind, link_attribute as attribute, u32_at,
};
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, netlink::SocketAddrNetlink, recv, sendto,
    socket_with,
};
use std::{
    io,
    net::Ipv4Addr,
    os::fd::{AsRawFd, BorrowedFd, OwnedFd},
};

const IFF_UP: u32 = 1;
const NEIGHBOUR_PERMANENT: u16 = 0x80;
/// NUD_NOARP: for a bridge, an entry that does not age.
const NEIGHBOUR_STATIC: u16 = 0x40;
/// NTF_MASTER: the entry is the bridge's, not the device's.
const FLAG_MASTER: u8 = 0x04;
/// AF_BRIDGE.
const FAMILY_BRIDGE: u8 = 7;

/// A request that the kernel refused or that could not be sent.
#[derive(Debug, thiserror::Error)]
#[error("cannot {action} {object}")]
pub struct NetlinkError {
    /// What was asked, as a verb.
    pub action: &'static str,
    /// Of which device or address.
    pub object: String,
    /// The kernel's reason.
    #[source]
    pub source: io::Error,
}

impl NetlinkError {
    /// What the reader should do.
    pub fn remedy(&self) -> &'static str {
        match self.source.kind() {
            io::ErrorKind::PermissionDenied => "run as root",
            io::ErrorKind::AlreadyExists => {
                "a device of that name exists in this network namespace: end the run that made it"
            }
            _ => "check that the kernel has the modules bridge, veth and tun (`tilemark doctor`)",
        }
    }
}

/// A network device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Link {
    /// Its number in this namespace.
    pub index: u32,
    /// Its hardware address; zero where it has none.
    pub mac: [u8; 6],
}

/// What a device is, as somebody needs to know who wants to make another one a port of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BridgeFacts {
    /// Itself.
    pub link: Link,
    /// Whether it is a bridge of the kernel's.
    pub is_bridge: bool,
    /// Whether it is switched on.
    pub is_on: bool,
    /// Whether it has a port that carries frames.
    pub has_carrier: bool,
    /// The largest packet that it takes, in bytes.
    pub mtu: u32,
    /// How long a new port waits in each of two states before it forwards, in hundredths of a second; 0 where it forwards at once.
    pub port_waits: u32,
}

/// A neighbour that is known without asking.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Neighbour {
    /// Its address.
    pub address: Ipv4Addr,
    /// Its hardware address.
    pub mac: [u8; 6],
}

/// Talks to the kernel about the network namespace in which it was opened.
#[derive(Debug)]
pub struct Netlink {
    socket: OwnedFd,
    sequence: u32,
}

impl Netlink {
    /// Opens it in the calling thread's network namespace.
    pub fn open() -> Result<Self, NetlinkError> {
        let socket = socket_with(AddressFamily::NETLINK, SocketType::RAW, SocketFlags::CLOEXEC, None)
            .map_err(|error| refused("open", "a netlink socket", error.into()))?;
        Ok(Self { socket, sequence: 0 })
    }

    /// The device of this name.
    pub fn link(&mut self, name: &str) -> Result<Link, NetlinkError> {
        let message = Message::link(kind::GET_LINK, 0, 0).text(attribute::NAME, name);
        let found = self.ask(message).and_then(|body| {
            let body = body.ok_or(io::ErrorKind::NotFound)?;
            let index = u32_at(&body, 4).ok_or(io::ErrorKind::InvalidData)?;
            let attributes = body.get(LINK_BYTES..).unwrap_or_default();
            let mac = find_attribute(attributes, attribute::HARDWARE_ADDRESS);
            let mac = mac.and_then(|bytes| bytes.try_into().ok()).unwrap_or_default();
            Ok(Link { index, mac })
        });
        found.map_err(|source| refused("find the device", name, source))
    }

    /// What the device of this name is.
    pub fn bridge_facts(&mut self, name: &str) -> Result<BridgeFacts, NetlinkError> {
        let message = Message::link(kind::GET_LINK, 0, 0).text(attribute::NAME, name);
        let found = self.ask(message).and_then(|body| facts_in(&body.ok_or(io::ErrorKind::NotFound)?));
        let facts = found.map_err(|source| refused("find the device", name, source))?;
        // A bridge that never had a port says that it has carrier.
        let all = self.ask_all(Message::link(kind::GET_LINK, flag::ALL, 0));
        let all = all.map_err(|source| refused("list the ports of", name, source))?;
        let carries = |body: &Vec<u8>| carries_for(body, facts.link.index);
        Ok(BridgeFacts { has_carrier: all.iter().any(carries), ..facts })
    }

    /// All IPv4 addresses of this namespace: the index of the device, the address, the bits of its prefix.
    pub fn addresses(&mut self) -> Result<Vec<(u32, Ipv4Addr, u8)>, NetlinkError> {
        let family = u8::try_from(AddressFamily::INET.as_raw()).expect("it is 2");
        let message = Message::new(kind::GET_ADDRESS, flag::ALL).raw(&[family, 0, 0, 0]).raw(&[0; 4]);
        let bodies =
            self.ask_all(message).map_err(|source| refused("read", "the addresses of this host", source))?;
        Ok(bodies.iter().filter_map(|body| address_in(body)).collect())
    }

    /// Makes a bridge that forwards at once and never joins a spanning tree: one run's network has no loops.
    /// Snooping is off: there are no queriers, and group traffic would be lost after minutes.
    pub fn create_bridge(&mut self, name: &str) -> Result<Link, NetlinkError> {
        let message = new_link(name).nested(attribute::INFORMATION, |information| {
            information.attribute(attribute::KIND, b"bridge").nested(attribute::DATA, |data| {
                data.number(attribute::BRIDGE_FORWARD_DELAY, 0)
                    // In hundredths of a second: 300 s, the default of IEEE 802.1D.
                    .number(attribute::BRIDGE_AGEING_TIME, 30_000)
                    .number(attribute::BRIDGE_STP, 0)
                    .attribute(attribute::BRIDGE_MULTICAST_SNOOPING, &[0])
            })
        });
        self.change("create the bridge", name, message)?;
        self.link(name)
    }

    /// Makes a pair of devices joined like a cable: `name` here and `peer` in another network namespace.
    pub fn create_veth(
        &mut self,
        name: &str,
        peer: &str,
        peer_namespace: BorrowedFd<'_>,
    ) -> Result<Link, NetlinkError> {
        let namespace =
            u32::try_from(peer_namespace.as_raw_fd()).expect("an open descriptor is not negative");
        let message = new_link(name).nested(attribute::INFORMATION, |information| {
            information.attribute(attribute::KIND, b"veth").nested(attribute::DATA, |data| {
                data.nested(attribute::VETH_PEER, |other| {
                    other
                        .link_part(0, 0, 0)
                        .text(attribute::NAME, peer)
                        .number(attribute::NAMESPACE_DESCRIPTOR, namespace)
                })
            })
        });
        self.change("create the pair of devices", name, message)?;
        self.link(name)
    }

    /// Makes a device a port of a bridge and switches it on, in one request.
    pub fn join_bridge(&mut self, name: &str, port: &Link, bridge: &Link) -> Result<(), NetlinkError> {
        let message = Message::new(kind::NEW_LINK, 0)
            .link_part(port.index, IFF_UP, IFF_UP)
            .number(attribute::MASTER, bridge.index);
        self.change("join the bridge with", name, message)
    }

    /// Makes a port of a bridge deaf to everything that is not sent to its one hardware address, and to all other such ports where it
    /// is `isolated`.
    /// The bridge answers for its neighbours' addresses: hundreds of guests would otherwise be woken by each other's broadcasts.
    pub fn guard_port(
        &mut self,
        name: &str,
        port: &Link,
        mac: [u8; 6],
        isolated: bool,
    ) -> Result<(), NetlinkError> {
        let switches = [
            (attribute::PORT_LEARNING, 0),
            (attribute::PORT_UNICAST_FLOOD, 0),
            (attribute::PORT_MULTICAST_FLOOD, 0),
            (attribute::PORT_BROADCAST_FLOOD, 0),
            (attribute::PORT_PROXY_ARP, 1),
            // From one such port to another nothing is forwarded; the bridge itself, which is the host, is none.
            (attribute::PORT_ISOLATED, isolated.into()),
        ];
        let message =
            Message::link(kind::NEW_LINK, 0, port.index).nested(attribute::INFORMATION, |information| {
                information.attribute(attribute::SLAVE_KIND, b"bridge").nested(
                    attribute::SLAVE_DATA,
                    |data| {
                        switches.iter().fold(data, |data, (switch, value)| data.attribute(*switch, &[*value]))
                    },
                )
            });
        self.change("guard the bridge's port", name, message)?;
        // struct ndmsg: family and padding, index, state, flags, type. NDA_LLADDR 2.
        let message = Message::new(kind::NEW_NEIGHBOUR, flag::CREATE | flag::REPLACE)
            .raw(&[FAMILY_BRIDGE, 0, 0, 0])
            .raw(&port.index.to_ne_bytes())
            .raw(&NEIGHBOUR_STATIC.to_ne_bytes())
            .raw(&[FLAG_MASTER, 0])
            .attribute(2, &mac);
        self.change("tell the bridge who is at", name, message)
    }

    /// Switches a device on.
    pub fn switch_on(&mut self, name: &str, link: &Link) -> Result<(), NetlinkError> {
        self.change("switch on", name, Message::new(kind::NEW_LINK, 0).link_part(link.index, IFF_UP, IFF_UP))
    }

    /// Gives a device another hardware address.
    pub fn set_mac(&mut self, name: &str, link: &Link, mac: [u8; 6]) -> Result<(), NetlinkError> {
        let message =
            Message::link(kind::NEW_LINK, 0, link.index).attribute(attribute::HARDWARE_ADDRESS, &mac);
        self.change("set the hardware address of", name, message)
    }

    /// Says how large a packet of a device may be, in bytes.
    pub fn set_mtu(&mut self, name: &str, link: &Link, bytes: u32) -> Result<(), NetlinkError> {
        let message = Message::link(kind::NEW_LINK, 0, link.index).number(attribute::MTU, bytes);
        self.change("set the largest packet of", name, message)
    }

    /// Gives a device an address. One that it has already is no error.
    pub fn add_address(&mut self, link: &Link, address: Ipv4Addr, prefix: u8) -> Result<(), NetlinkError> {
        // struct ifaddrmsg: family, prefix, flags, scope, index. IFA_ADDRESS 1, IFA_LOCAL 2, IFA_BROADCAST 4.
        let family = u8::try_from(AddressFamily::INET.as_raw()).expect("it is 2");
        let host_bits = u32::MAX.checked_shr(prefix.into()).unwrap_or(0);
        let broadcast = Ipv4Addr::from(u32::from(address) | host_bits);
        let message = Message::new(kind::NEW_ADDRESS, flag::CREATE | flag::REPLACE)
            .raw(&[family, prefix, 0, 0])
            .raw(&link.index.to_ne_bytes())
            .attribute(2, &address.octets())
            .attribute(1, &address.octets())
            .attribute(4, &broadcast.octets());
        self.change("set the address", &address.to_string(), message)
    }

    /// Makes a neighbour known for good: no question is asked on the wire, and the kernel's limits on
    /// learned neighbours do not count it.
    pub fn add_neighbour(&mut self, link: &Link, neighbour: Neighbour) -> Result<(), NetlinkError> {
        // struct ndmsg: family and padding, index, state, flags, type. NDA_DST 1, NDA_LLADDR 2.
        let family = u8::try_from(AddressFamily::INET.as_raw()).expect("it is 2");
        let message = Message::new(kind::NEW_NEIGHBOUR, flag::CREATE | flag::REPLACE)
            .raw(&[family, 0, 0, 0])
            .raw(&link.index.to_ne_bytes())
            .raw(&NEIGHBOUR_PERMANENT.to_ne_bytes())
            .raw(&[0, 0])
            .attribute(1, &neighbour.address.octets())
            .attribute(2, &neighbour.mac);
        self.change("make known the neighbour", &neighbour.address.to_string(), message)
    }

    /// Deletes a device. One that is gone is no error.
    pub fn delete(&mut self, name: &str) -> Result<(), NetlinkError> {
        let message = Message::link(kind::DELETE_LINK, 0, 0).text(attribute::NAME, name);
        match self.ask(message) {
            Err(error) if error.raw_os_error() != Some(rustix::io::Errno::NODEV.raw_os_error()) => {
                Err(refused("delete", name, error))
            }
            _ => Ok(()),
        }
    }

    pub(crate) fn change(
        &mut self,
        action: &'static str,
        object: &str,
        message: Message,
    ) -> Result<(), NetlinkError> {
        self.ask(message).map(|_| ()).map_err(|source| refused(action, object, source))
    }

    /// Sends one request and reads until its acknowledgement; returns the body of an answer before that.
    pub(crate) fn ask(&mut self, message: Message) -> io::Result<Option<Vec<u8>>> {
        self.ask_all(message).map(|mut bodies| bodies.pop())
    }

    /// Sends one request and reads until its acknowledgement or the end of a list; returns the bodies of all answers.
    fn ask_all(&mut self, message: Message) -> io::Result<Vec<Vec<u8>>> {
        self.sequence += 1;
        let request = message.finish(self.sequence);
        sendto(&self.socket, &request, SendFlags::empty(), &SocketAddrNetlink::new(0, 0))?;
        let mut bodies = Vec::new();
        // The kernel's answers about one link are below 8 KiB; longer ones would be cut, not overrun.
        let mut buffer = vec![0; 32 * 1024];
        loop {
            let (length, _) = match recv(&self.socket, buffer.as_mut_slice(), RecvFlags::empty()) {
                Err(rustix::io::Errno::INTR) => continue,
                other => other?,
            };
            for found in answers(&buffer[..length]) {
                match (found.sequence == self.sequence, found.kind) {
                    (false, _) => {}
                    (true, kind::DONE) => return Ok(bodies),
                    (true, kind::ERROR) => {
                        let code = u32_at(found.body, 0).ok_or(io::ErrorKind::InvalidData)?;
                        return match code.cast_signed() {
                            0 => Ok(bodies),
                            error => Err(io::Error::from_raw_os_error(-error)),
                        };
                    }
                    (true, _) => bodies.push(found.body.to_vec()),
                }
            }
        }
    }
}

/// Whether a link is a port of a bridge and carries frames, out of the kernel's answer about it.
fn carries_for(body: &[u8], bridge: u32) -> bool {
    /// IFF_LOWER_UP.
    const CARRIER: u32 = 1 << 16;
    let master = find_attribute(body.get(LINK_BYTES..).unwrap_or_default(), attribute::MASTER);
    master.and_then(|index| u32_at(index, 0)) == Some(bridge)
        && u32_at(body, 8).is_some_and(|flags| flags & CARRIER != 0)
}

/// What a link is, out of the kernel's answer about it; not what its ports are.
fn facts_in(body: &[u8]) -> io::Result<BridgeFacts> {
    let index = u32_at(body, 4).ok_or(io::ErrorKind::InvalidData)?;
    let flags = u32_at(body, 8).ok_or(io::ErrorKind::InvalidData)?;
    let attributes = body.get(LINK_BYTES..).unwrap_or_default();
    let number = |attributes, kind| find_attribute(attributes, kind).and_then(|bytes| u32_at(bytes, 0));
    let mac = find_attribute(attributes, attribute::HARDWARE_ADDRESS);
    let information = find_attribute(attributes, attribute::INFORMATION).unwrap_or_default();
    let data = find_attribute(information, attribute::DATA).unwrap_or_default();
    let has_spanning_tree = number(data, attribute::BRIDGE_STP).unwrap_or(0) != 0;
    let waits = number(data, attribute::BRIDGE_FORWARD_DELAY).unwrap_or(0);
    Ok(BridgeFacts {
        link: Link { index, mac: mac.and_then(|bytes| bytes.try_into().ok()).unwrap_or_default() },
        is_bridge: find_attribute(information, attribute::KIND)
            .is_some_and(|kind| kind.starts_with(b"bridge\0")),
        is_on: flags & IFF_UP != 0,
        has_carrier: false,
        mtu: number(attributes, attribute::MTU).unwrap_or(0),
        port_waits: if has_spanning_tree { waits } else { 0 },
    })
}

/// An address, out of the kernel's answer: `struct ifaddrmsg` with IFA_ADDRESS 1 and IFA_LOCAL 2.
fn address_in(body: &[u8]) -> Option<(u32, Ipv4Addr, u8)> {
    let prefix = *body.get(1)?;
    let index = u32_at(body, 4)?;
    let attributes = body.get(8..)?;
    let own = find_attribute(attributes, 2).or_else(|| find_attribute(attributes, 1))?;
    let own: [u8; 4] = own.try_into().ok()?;
    Some((index, own.into(), prefix))
}

fn new_link(name: &str) -> Message {
    Message::link(kind::NEW_LINK, flag::CREATE | flag::EXCLUSIVE, 0).text(attribute::NAME, name)
}

pub(crate) fn refused(action: &'static str, object: &str, source: io::Error) -> NetlinkError {
    NetlinkError { action, object: object.to_owned(), source }
}
