//! The user's own bridge from the host's side: whether guests can be joined to it, whether addresses are in use, and the host's end of
//! the cable. Nothing of the bridge is changed but that it has one port more.

use crate::error::{GuestError, file};
use std::{
    collections::BTreeMap,
    net::Ipv4Addr,
    os::fd::BorrowedFd,
    path::Path,
    thread,
    time::{Duration, Instant},
};
use tilemark_netlink::{BridgeFacts, Netlink};
use tilemark_plan::{
    own_bridge::OwnBridge,
    plan::{GUESTS_MAX, MacAddress},
};
use tilemark_sys::{namespace::join_network, packet::ArpSocket};

/// What a packet of a guest has at most, in bytes.
const MTU_MIN: u32 = 1500;
/// How often each address is asked for, and how long each time: RFC 5227 asks three times, up to two seconds apart. An answer on one network
/// takes far less than a millisecond.
const ROUNDS: u32 = 3;
const EACH: Duration = Duration::from_millis(200);
/// Each question goes to every port of the network: so many at once, then a pause.
const AT_ONCE: usize = 64;
const PAUSE: Duration = Duration::from_millis(5);

/// What the user's site says about a bridge.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WantedBridge {
    /// Its name.
    pub bridge: String,
    /// The first address that may be used.
    pub first: Ipv4Addr,
    /// The last one.
    pub last: Ipv4Addr,
}

/// Looks whether guests can be joined to a bridge: what it is, and whether the addresses are of its network. Sends nothing. What it returns
/// has no more addresses than a run can use.
///
/// # Errors
/// Names what is wrong, and what to do.
pub fn look_at(wanted: &WantedBridge) -> Result<OwnBridge, GuestError> {
    let WantedBridge { bridge, first, last } = wanted;
    let refuse = |why: String, remedy: String| GuestError::OwnBridge { why, remedy };
    let mut netlink = Netlink::open()?;
    let facts = netlink.bridge_facts(bridge).map_err(|_| {
        refuse(
            format!("there is no network device `{bridge}` (`network.bridge`)"),
            "`ip link show type bridge` lists the bridges of this host: name one of them in the site file"
                .to_owned(),
        )
    })?;
    check_state(bridge, &facts)?;
    let addresses = netlink.addresses()?;
    // A bridge may be in several networks: the one of the range, else the first.
    let is_of_range = |(_, host, prefix): &&(u32, Ipv4Addr, u8)| {
        let bits = u32::MAX.checked_shl(32 - u32::from(*prefix)).unwrap_or(0);
        u32::from(*host) & bits == u32::from(*first) & bits
    };
    let of_bridge = || addresses.iter().filter(|(index, ..)| *index == facts.link.index);
    let own = of_bridge().find(is_of_range).or_else(|| of_bridge().next());
    let Some(&(_, host, prefix)) = own else {
        return Err(refuse(
            format!("the bridge `{bridge}` has no IPv4 address, so its network is not known"),
            format!("give it one of its network, such as `ip address add 192.0.2.1/24 dev {bridge}`"),
        ));
    };
    check_range(wanted, host, prefix)?;
    if let Some((_, taken, _)) = addresses.iter().find(|(_, address, _)| (*first..=*last).contains(address)) {
        return Err(refuse(
            format!("`network.addresses` = {first}-{last} has the address {taken} of this host itself"),
            "leave it out of the range".to_owned(),
        ));
    }
    let mut own = OwnBridge { bridge: bridge.clone(), first: *first, last: *last, prefix };
    own.keep_addresses_of(GUESTS_MAX);
    Ok(own)
}

/// The first address of a bridge's own; nothing where it has none, or there is no such device.
pub fn address_of(bridge: &str) -> Option<Ipv4Addr> {
    let mut netlink = Netlink::open().ok()?;
    let index = netlink.link(bridge).ok()?.index;
    netlink.addresses().ok()?.into_iter().find_map(|(of, address, _)| (of == index).then_some(address))
}

/// A port of the bridge that has an address of its network, with that address. Seen only where `/sys` shows this network.
pub fn port_with_address(own: &OwnBridge) -> Option<(String, Ipv4Addr)> {
    let mut netlink = Netlink::open().ok()?;
    let addresses = netlink.addresses().ok()?;
    let bits = u32::MAX.checked_shl(32 - u32::from(own.prefix)).unwrap_or(0);
    let is_within = |address: Ipv4Addr| u32::from(address) & bits == u32::from(own.first) & bits;
    let ports = std::fs::read_dir(format!("/sys/class/net/{}/brif", own.bridge)).ok()?.flatten();
    ports.filter_map(|port| port.file_name().into_string().ok()).find_map(|port| {
        let index = netlink.link(&port).ok()?.index;
        let found = addresses.iter().find(|(of, address, _)| *of == index && is_within(*address));
        found.map(|(_, address, _)| (port, *address))
    })
}

fn check_state(bridge: &str, facts: &BridgeFacts) -> Result<(), GuestError> {
    let refuse = |why: String, remedy: String| Err(GuestError::OwnBridge { why, remedy });
    if !facts.is_bridge {
        return refuse(
            format!("the network device `{bridge}` (`network.bridge`) is not a bridge"),
            "`ip link show type bridge` lists the bridges of this host: name one of them in the site file"
                .to_owned(),
        );
    }
    if !facts.is_on {
        return refuse(
            format!("the bridge `{bridge}` is switched off"),
            format!("`ip link set {bridge} up`"),
        );
    }
    if !facts.has_carrier {
        return refuse(
            format!(
                "the bridge `{bridge}` has no port that carries frames: nobody outside could reach a guest"
            ),
            format!(
                "join the device to it that leads outside, such as `ip link set eth1 master {bridge}`, and switch that on"
            ),
        );
    }
    if facts.mtu < MTU_MIN {
        return refuse(
            format!(
                "the bridge `{bridge}` takes packets of {} bytes, and guests send up to {MTU_MIN}",
                facts.mtu
            ),
            format!("name a bridge whose ports have an MTU of {MTU_MIN} or more"),
        );
    }
    Ok(())
}

/// Whether the range lies within the bridge's network, and has neither its own nor its broadcast address.
fn check_range(wanted: &WantedBridge, host: Ipv4Addr, prefix: u8) -> Result<(), GuestError> {
    let WantedBridge { bridge, first, last } = wanted;
    let beyond = u32::MAX.checked_shr(prefix.into()).unwrap_or(0);
    let (network, broadcast) = (u32::from(host) & !beyond, u32::from(host) | beyond);
    // A network of two addresses or one has neither.
    let usable = if beyond > 1 { network + 1..broadcast } else { network..broadcast.saturating_add(1) };
    if first <= last && [first, last].iter().all(|address| usable.contains(&u32::from(**address))) {
        return Ok(());
    }
    Err(GuestError::OwnBridge {
        why: format!(
            "`network.addresses` = {first}-{last} is not within the network of the bridge `{bridge}`, {}/{prefix}",
            Ipv4Addr::from(network)
        ),
        remedy: format!(
            "give addresses between {} and {} that nobody else has",
            Ipv4Addr::from(usable.start),
            Ipv4Addr::from(usable.end.saturating_sub(1))
        ),
    })
}

/// Asks three times for each address of the range.
///
/// # Errors
/// Where one machine answers: names its address and its hardware address. Needs root.
pub fn refuse_addresses_in_use(own: &OwnBridge) -> Result<(), GuestError> {
    let wanted: Vec<Ipv4Addr> = (u32::from(own.first)..=own.last.into()).map(Ipv4Addr::from).collect();
    let link = Netlink::open()?.link(&own.bridge)?;
    let failed = file("ask on", Path::new(&own.bridge));
    let found = answers(link.index, link.mac, &wanted).map_err(failed)?;
    let Some((address, mac)) = found.iter().next() else { return Ok(()) };
    let more = match found.len() {
        1 => String::new(),
        count => format!(" (and {} more)", count - 1),
    };
    Err(GuestError::AddressInUse {
        address: *address,
        mac: MacAddress(*mac),
        more,
        bridge: own.bridge.clone(),
    })
}

/// Who has one of these addresses, or asks for it to take it himself.
fn answers(
    index: u32,
    own_mac: [u8; 6],
    wanted: &[Ipv4Addr],
) -> std::io::Result<BTreeMap<Ipv4Addr, [u8; 6]>> {
    let socket = ArpSocket::open(index)?;
    let mut found = BTreeMap::new();
    for _ in 0..ROUNDS {
        for some in wanted.chunks(AT_ONCE) {
            some.iter().try_for_each(|address| socket.send(&question(own_mac, *address)))?;
            hear(&socket, own_mac, wanted, PAUSE, &mut found)?;
        }
        hear(&socket, own_mac, wanted, EACH, &mut found)?;
        if !found.is_empty() {
            break;
        }
    }
    Ok(found)
}

/// Notes for so long who has one of these addresses.
fn hear(
    socket: &ArpSocket,
    own_mac: [u8; 6],
    wanted: &[Ipv4Addr],
    within: Duration,
    found: &mut BTreeMap<Ipv4Addr, [u8; 6]>,
) -> std::io::Result<()> {
    let until = Instant::now() + within;
    let mut frame = [0; 64];
    while let Some(length) = socket.receive(&mut frame, until)? {
        let heard = has_address(&frame[..length], own_mac);
        found.extend(heard.filter(|(address, _)| wanted.contains(address)));
    }
    Ok(())
}

/// A question of ARP from nobody's address, as RFC 5227 wants it of a probe: no neighbour's table is changed by it.
fn question(own_mac: [u8; 6], address: Ipv4Addr) -> [u8; 42] {
    let mut frame = [0; 42];
    frame[..6].fill(0xff);
    frame[6..12].copy_from_slice(&own_mac);
    // ARP; Ethernet, IPv4, their lengths; a question.
    frame[12..22].copy_from_slice(&[0x08, 0x06, 0, 1, 0x08, 0, 6, 4, 0, 1]);
    frame[22..28].copy_from_slice(&own_mac);
    frame[38..42].copy_from_slice(&address.octets());
    frame
}

/// Which address the sender of an ARP frame has or is about to take, and under which hardware address; nothing where it is our own frame.
fn has_address(frame: &[u8], own_mac: [u8; 6]) -> Option<(Ipv4Addr, [u8; 6])> {
    let address = |at: usize| -> Option<Ipv4Addr> {
        let bytes: [u8; 4] = frame.get(at..at + 4)?.try_into().ok()?;
        Some(bytes.into())
    };
    // ARP; of Ethernet and IPv4, with the lengths of their addresses.
    if frame.get(12..20)? != [0x08, 0x06, 0, 1, 0x08, 0, 6, 4] {
        return None;
    }
    let mac: [u8; 6] = frame.get(22..28)?.try_into().ok()?;
    let sender = address(28)?;
    // A probe of another one, from nobody's address: it is about to take what it asks for.
    let asked = address(38)?;
    let has = if sender.is_unspecified() { asked } else { sender };
    (mac != own_mac).then_some((has, mac))
}

/// Makes the host's end of the cable a port of the bridge, and waits until it forwards. Returns the size of packets there.
pub(crate) fn plug_in(own: &OwnBridge, device: &str, host: BorrowedFd<'_>) -> Result<u32, GuestError> {
    thread::scope(|scope| {
        // A thread of its own: it sees the host's network from its first socket on, and nobody else in this process does.
        let work = scope.spawn(|| {
            let joined = join_network(host);
            joined.map_err(file("join the network namespace", Path::new("of the host")))?;
            join_at_host(own, device)
        });
        work.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

fn join_at_host(own: &OwnBridge, device: &str) -> Result<u32, GuestError> {
    let mut netlink = Netlink::open()?;
    let bridge = netlink.bridge_facts(&own.bridge)?;
    check_state(&own.bridge, &bridge)?;
    // Images are built and others waited for since they were asked for first: another run may have them by now.
    refuse_addresses_in_use(own)?;
    let port = netlink.link(device)?;
    // No address of IPv6, and no words of it: it is a plug.
    let _ = std::fs::write(format!("/proc/sys/net/ipv6/conf/{device}/disable_ipv6"), "1");
    // A bridge without a fixed address takes the lowest of its ports, one whose MTU nobody set the smallest.
    let [a, b, c, d] = own.first.octets();
    netlink.set_mac(device, &port, [0xfe, 0xff, a, b, c, d])?;
    netlink.set_mtu(device, &port, bridge.mtu)?;
    netlink.join_bridge(device, &port, &bridge.link)?;
    // With a spanning tree a port listens and learns before it forwards.
    thread::sleep(Duration::from_millis(20 * u64::from(bridge.port_waits)));
    Ok(bridge.mtu)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wanted(first: &str, last: &str) -> WantedBridge {
        WantedBridge { bridge: "br0".into(), first: first.parse().unwrap(), last: last.parse().unwrap() }
    }

    #[test]
    fn a_range_lies_within_the_network_without_its_ends() {
        let check = |first, last, prefix| {
            check_range(&wanted(first, last), "192.0.2.1".parse().unwrap(), prefix).map_err(|error| {
                match error {
                    GuestError::OwnBridge { remedy, .. } => remedy,
                    other => panic!("{other}"),
                }
            })
        };
        assert_eq!(check("192.0.2.64", "192.0.2.254", 24), Ok(()));
        let between = Err("give addresses between 192.0.2.1 and 192.0.2.254 that nobody else has".to_owned());
        assert_eq!(check("192.0.2.64", "192.0.2.255", 24), between);
        assert_eq!(check("192.0.2.0", "192.0.2.9", 24), between);
        assert_eq!(check("198.51.100.7", "198.51.100.9", 24), between);
        assert_eq!(check("192.0.2.9", "192.0.2.8", 24), between);
        assert!(check("192.0.2.2", "192.0.2.8", 30).is_err());
        for prefix in [0, 31, 32] {
            // Nothing overflows.
            let _ = check("192.0.2.0", "192.0.2.1", prefix);
        }
    }

    #[test]
    fn an_answer_and_anothers_probe_count_and_our_own_do_not() {
        let (own, other) = ([2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2]);
        let address = Ipv4Addr::new(192, 0, 2, 64);
        assert_eq!(has_address(&question(own, address), own), None);
        assert_eq!(has_address(&question(other, address), own), Some((address, other)), "two runs at once");
        let mut answer = question(other, Ipv4Addr::new(192, 0, 2, 1));
        answer[21] = 2;
        answer[28..32].copy_from_slice(&address.octets());
        assert_eq!(has_address(&answer, own), Some((address, other)));
        for length in 0..42 {
            assert_eq!(has_address(&answer[..length], own), None, "cut at {length}");
        }
    }
}
