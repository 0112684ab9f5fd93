//! The run network against a guest that ruled its own kernel: whoever holds a tap's descriptor sends what it likes.

#![allow(missing_docs, clippy::unwrap_used)]

mod common;

use common::{World, guest, in_namespaces};
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    mount::{MountFlags, mount},
};
use std::{
    fs::{self, File},
    io::{Read, Write},
    net::{Ipv4Addr, UdpSocket},
    os::fd::{AsFd, OwnedFd},
    thread,
    time::{Duration, Instant},
};
use tilemark_guests::{
    BRIDGE, GUESTS_MAX, GuestError, RunNetwork, Uplink,
    own_bridge::{WantedBridge, look_at, refuse_addresses_in_use},
    uplink_name,
};
use tilemark_netlink::Netlink;
use tilemark_plan::{
    own_bridge::OwnBridge,
    plan::{BRIDGE_ADDRESS, GuestPlan, MacAddress},
    scenario::Role,
};
use tilemark_sys::{
    namespace::{join_network, own_network},
    tap::create_tap,
};

const LIMIT: Duration = Duration::from_secs(60);
const IPV4: u16 = 0x0800;
/// The header before each frame of a tap: no offload.
const TAP_HEADER: [u8; 10] = [0; 10];

/// Who sends or receives.
#[derive(Clone, Copy)]
struct Addresses {
    mac: [u8; 6],
    ip: Ipv4Addr,
}

fn of(plan: &GuestPlan) -> Addresses {
    Addresses { mac: plan.mac.0, ip: plan.address }
}

/// The bridge's hardware address is that of the guest after the last.
fn host() -> Addresses {
    Addresses { mac: MacAddress::of_guest(0x00ff_ffff).0, ip: BRIDGE_ADDRESS }
}

fn ethernet(from: [u8; 6], to: [u8; 6], kind: u16, body: &[u8]) -> Vec<u8> {
    [&to[..], &from, &kind.to_be_bytes(), body].concat()
}

/// An IPv4 packet with a datagram in it.
fn datagram(from: Ipv4Addr, to: Ipv4Addr, port: u16, text: &str) -> Vec<u8> {
    let length = u16::try_from(28 + text.len()).unwrap();
    let mut header = vec![0x45, 0];
    header.extend(length.to_be_bytes());
    header.extend([0, 1, 0, 0, 64, 17, 0, 0]);
    header.extend(from.octets());
    header.extend(to.octets());
    let sum: u32 = header.chunks(2).map(|pair| u32::from(u16::from_be_bytes([pair[0], pair[1]]))).sum();
    let sum = !u16::try_from((sum & 0xffff) + (sum >> 16)).unwrap();
    header[10..12].copy_from_slice(&sum.to_be_bytes());
    for field in [4_000, port, length - 20, 0] {
        header.extend(field.to_be_bytes());
    }
    header.extend(text.as_bytes());
    header
}

fn frame(from: Addresses, to: Addresses, port: u16, text: &str) -> Vec<u8> {
    ethernet(from.mac, to.mac, IPV4, &datagram(from.ip, to.ip, port, text))
}

/// An answer of ARP that says who has an address.
fn arp(mac: [u8; 6], claims: Addresses, to: Addresses) -> Vec<u8> {
    let mut body = vec![0, 1, 8, 0, 6, 4, 0, 2];
    body.extend(claims.mac);
    body.extend(claims.ip.octets());
    body.extend(to.mac);
    body.extend(to.ip.octets());
    ethernet(mac, to.mac, 0x0806, &body)
}

fn send(tap: &File, frame: &[u8]) {
    let mut tap = tap;
    tap.write_all(&[&TAP_HEADER, frame].concat()).unwrap();
}

/// The next frame for a guest that holds a text of ours.
fn next_text(tap: &File) -> String {
    loop {
        let within = Timespec { tv_sec: LIMIT.as_secs() as i64, tv_nsec: 0 };
        let ready = poll(&mut [PollFd::from_borrowed_fd(tap.as_fd(), PollFlags::IN)], Some(&within)).unwrap();
        assert_eq!(ready, 1, "nothing came");
        let mut bytes = [0; 2048];
        let mut tap = tap;
        let length = tap.read(&mut bytes).unwrap();
        let text = String::from_utf8_lossy(&bytes[..length]).into_owned();
        if let Some(at) = text.find("text:") {
            return text[at..].to_owned();
        }
    }
}

/// The next text that reaches the host.
fn heard(socket: &UdpSocket) -> String {
    let mut bytes = [0; 2048];
    let (length, _) = socket.recv_from(&mut bytes).unwrap();
    String::from_utf8_lossy(&bytes[..length]).into_owned()
}

fn host_socket() -> (UdpSocket, u16) {
    let socket = UdpSocket::bind((BRIDGE_ADDRESS, 0)).unwrap();
    socket.set_read_timeout(Some(LIMIT)).unwrap();
    let port = socket.local_addr().unwrap().port();
    (socket, port)
}

/// The guests' taps, as ports that forward: a bridge switches a new port on when the kernel has noticed its carrier, which takes
/// a while on a busy machine, and a frame that comes before is lost.
fn taps<const N: usize>(world: &World, network: &RunNetwork, plans: &[GuestPlan; N]) -> [File; N] {
    let taps = plans.each_ref().map(|plan| File::from(network.tap(plan).unwrap().remove(0)));
    let sys = world.folder.join("sys");
    fs::create_dir(&sys).unwrap();
    mount("sysfs", &sys, "sysfs", MountFlags::empty(), None).unwrap();
    let until = Instant::now() + LIMIT;
    for plan in plans {
        let state = sys.join(format!("class/net/guest{}/brport/state", plan.index));
        // BR_STATE_FORWARDING of linux/if_bridge.h.
        while fs::read_to_string(&state).unwrap().trim() != "3" {
            assert!(Instant::now() < until, "the port of {} does not forward", plan.name);
            thread::sleep(Duration::from_millis(5));
        }
    }
    // The bridge itself is switched on in the same way: what the host sends before that is lost too.
    let state = sys.join("class/net").join(BRIDGE).join("operstate");
    while fs::read_to_string(&state).unwrap().trim() != "up" {
        assert!(Instant::now() < until, "the bridge has no carrier");
        thread::sleep(Duration::from_millis(5));
    }
    taps
}

#[test]
fn a_guest_reaches_the_host_and_no_other_guest() {
    in_namespaces("a_guest_reaches_the_host_and_no_other_guest", |world| {
        // As on a host that forwards: a new namespace may inherit it.
        fs::write("/proc/sys/net/ipv4/ip_forward", "1").unwrap();
        let network = RunNetwork::create().unwrap();
        let plans = [guest(0, Role::Idle), guest(1, Role::Idle)];
        let [ours, other] = taps(world, &network, &plans);
        let (a, b) = (of(&plans[0]), of(&plans[1]));
        let (socket, port) = host_socket();
        send(&ours, &frame(a, host(), port, "text: a guest"));
        assert_eq!(heard(&socket), "text: a guest");
        // To the other's address, to everybody, to a group, by way of the host.
        send(&ours, &frame(a, b, 9, "text: attack"));
        send(&ours, &frame(a, Addresses { mac: [0xff; 6], ..b }, 9, "text: attack"));
        send(&ours, &frame(a, Addresses { mac: [1, 0, 0x5e, 0, 0, 1], ..b }, 9, "text: attack"));
        send(&ours, &frame(a, Addresses { mac: host().mac, ..b }, 9, "text: attack"));
        // What the host sends afterwards comes first where nothing else did.
        send(&ours, &frame(a, host(), port, "text: sent"));
        assert_eq!(heard(&socket), "text: sent");
        socket.send_to(b"text: the host", (b.ip, 9)).unwrap();
        assert!(next_text(&other).starts_with("text: the host"));
        let counts = network.port_counts(&plans[0]).unwrap();
        assert_eq!((counts.sent, counts.dropped), (6, 1), "{counts:?}");
    });
}

#[test]
fn guests_of_one_load_reach_each_other_and_nobody_else() {
    in_namespaces("guests_of_one_load_reach_each_other_and_nobody_else", |world| {
        let network = RunNetwork::create().unwrap();
        let plans = [
            GuestPlan { reaches: vec![1], ..guest(0, Role::Client) },
            GuestPlan { reaches: vec![0], ..guest(1, Role::Web) },
            GuestPlan { reaches: vec![3], ..guest(2, Role::Client) },
            guest(4, Role::Idle),
        ];
        let [client, web, stranger, idle] = taps(world, &network, &plans);
        let [a, b, c, d] = plans.each_ref().map(of);
        for (from, tap) in [(c, &stranger), (d, &idle)] {
            for to in [a, b] {
                send(tap, &frame(from, to, 9, "text: attack"));
            }
        }
        send(&client, &frame(a, d, 9, "text: attack"));
        send(&client, &frame(a, b, 9, "text: a request"));
        assert!(next_text(&web).starts_with("text: a request"));
        send(&web, &frame(b, a, 9, "text: an answer"));
        assert!(next_text(&client).starts_with("text: an answer"));
        // Nothing of the attacks came first, and all were counted.
        let (socket, port) = host_socket();
        send(&client, &frame(a, host(), port, "text: to the host"));
        assert_eq!(heard(&socket), "text: to the host");
        socket.send_to(b"text: the host", (d.ip, 9)).unwrap();
        assert!(next_text(&idle).starts_with("text: the host"));
        let dropped = plans.each_ref().map(|plan| network.port_counts(plan).unwrap().dropped);
        assert_eq!(dropped, [1, 0, 2, 2]);
    });
}

#[test]
fn a_guest_is_heard_under_its_own_addresses_only_and_the_rest_is_counted() {
    in_namespaces("a_guest_is_heard_under_its_own_addresses_only_and_the_rest_is_counted", |world| {
        let network = RunNetwork::create().unwrap();
        assert_eq!(network.missing_wall(), None, "this kernel cannot check senders");
        assert_eq!(tilemark_guests::missing_wall(), None, "`doctor` says the same");
        let plans = [guest(0, Role::Idle), guest(1, Role::Idle)];
        let [ours, _other] = taps(world, &network, &plans);
        let (a, b) = (of(&plans[0]), of(&plans[1]));
        let (socket, port) = host_socket();
        let attack = |from: Addresses| datagram(from.ip, BRIDGE_ADDRESS, port, "text: attack");
        let to = host().mac;
        let in_tag = |body: &[u8]| [&[0, 0][..], &IPV4.to_be_bytes(), body].concat();
        let in_two = |body: &[u8]| [&[0, 0, 0x81, 0][..], &in_tag(body)].concat();
        let attacks = [
            ("another's address", frame(Addresses { ip: b.ip, ..a }, host(), port, "text: attack")),
            (
                "another's hardware address",
                frame(Addresses { mac: b.mac, ..a }, host(), port, "text: attack"),
            ),
            ("both of another", frame(b, host(), port, "text: attack")),
            (
                "an address of nobody",
                frame(Addresses { ip: [10, 77, 9, 9].into(), ..a }, host(), port, "text: attack"),
            ),
            ("the template's hardware address", {
                let mac = [0x52, 0x54, 0, 0xff, 0xff, 0xfe];
                frame(Addresses { mac, ..a }, host(), port, "text: attack")
            }),
            ("another's address in a tag", ethernet(a.mac, to, 0x8100, &in_tag(&attack(b)))),
            ("another's address in two tags", ethernet(a.mac, to, 0x8100, &in_two(&attack(b)))),
            ("another's address in a tag of providers", ethernet(a.mac, to, 0x88a8, &in_tag(&attack(b)))),
            ("its own address as another's of ARP", arp(a.mac, Addresses { mac: a.mac, ip: b.ip }, host())),
            ("the host's address of ARP", arp(a.mac, Addresses { mac: a.mac, ..host() }, b)),
            ("another's hardware address in ARP", arp(a.mac, b, host())),
            ("another kind of frame", ethernet(a.mac, to, 0x88cc, &[0; 46])),
            ("a frame with its length for a kind", ethernet(a.mac, to, 46, &[0xaa; 46])),
        ];
        for (place, (what, attack)) in attacks.iter().enumerate() {
            send(&ours, attack);
            send(&ours, &frame(a, host(), port, "text: fair"));
            assert_eq!(heard(&socket), "text: fair", "heard with {what}");
            let counts = network.port_counts(&plans[0]).unwrap();
            assert_eq!(counts.dropped, place as u64 + 1, "{what} is not counted");
        }
        assert_eq!(network.port_counts(&plans[1]).unwrap().dropped, 0, "the other did nothing");
        // What else a well-behaved guest sends.
        send(&ours, &arp(a.mac, a, host()));
        send(&ours, &arp(a.mac, Addresses { ip: Ipv4Addr::UNSPECIFIED, ..a }, host()));
        send(&ours, &ethernet(a.mac, to, 0x86dd, &[0x60; 60]));
        send(&ours, &frame(a, host(), port, "text: fair"));
        assert_eq!(heard(&socket), "text: fair");
        assert_eq!(network.port_counts(&plans[0]).unwrap().dropped, attacks.len() as u64);
    });
}

/// A machine outside, on the user's own bridge; and one that never asks a guest anything.
const CLIENT: Addresses = Addresses { mac: [2, 0, 0, 0, 0, 10], ip: Ipv4Addr::new(192, 0, 2, 10) };
const BYSTANDER: Addresses = Addresses { mac: [2, 0, 0, 0, 0, 11], ip: Ipv4Addr::new(192, 0, 2, 11) };

/// A host with a bridge `br0`, 192.0.2.1/24, and a port of it whose frames are ours.
struct Host {
    network: OwnedFd,
    outside: File,
}

impl Host {
    fn new() -> Self {
        let made = thread::spawn(|| {
            own_network().unwrap();
            for scope in ["all", "default"] {
                let _ = fs::write(format!("/proc/sys/net/ipv6/conf/{scope}/disable_ipv6"), "1");
            }
            let mut netlink = Netlink::open().unwrap();
            let bridge = netlink.create_bridge("br0").unwrap();
            netlink.add_address(&bridge, "192.0.2.1".parse().unwrap(), 24).unwrap();
            netlink.switch_on("br0", &bridge).unwrap();
            let outside = File::from(create_tap("outside").unwrap());
            let port = netlink.link("outside").unwrap();
            netlink.join_bridge("outside", &port, &bridge).unwrap();
            Self { network: File::open("/proc/thread-self/ns/net").unwrap().into(), outside }
        });
        made.join().unwrap()
    }

    /// Does something in the host's network.
    fn there<T: Send>(&self, work: impl FnOnce() -> T + Send) -> T {
        thread::scope(|scope| {
            let there = scope.spawn(|| {
                join_network(self.network.as_fd()).unwrap();
                work()
            });
            there.join().unwrap()
        })
    }

    fn run_on(&self, own: &OwnBridge) -> RunNetwork {
        let host = self.network.try_clone().unwrap();
        RunNetwork::create_on(Uplink { own: own.clone(), device: uplink_name(1), host }).unwrap()
    }

    fn wanted() -> WantedBridge {
        let own = own_bridge();
        WantedBridge { bridge: own.bridge, first: own.first, last: own.last }
    }

    /// The next frame that comes out there, without what the host itself says.
    fn heard(&self) -> Vec<u8> {
        loop {
            let frame = next_frame(&self.outside, LIMIT).expect("nothing came");
            if frame[12..14] != [0x86, 0xdd] {
                return frame;
            }
        }
    }

    /// Asks for a guest's address until the run answers: ports of a bridge forward only after a while.
    fn ask(&self, asks: Addresses, address: Ipv4Addr) -> Vec<u8> {
        let until = Instant::now() + LIMIT;
        loop {
            send(&self.outside, &arp_question(asks, address));
            let answer = next_frame(&self.outside, Duration::from_millis(100));
            if let Some(answer) = answer.filter(|frame| frame[12..14] == [8, 6] && frame[20..22] == [0, 2]) {
                // Earlier questions may have been answered too.
                while next_frame(&self.outside, Duration::from_millis(100)).is_some() {}
                return answer;
            }
            assert!(Instant::now() < until, "nobody answers for {address}");
        }
    }
}

fn next_frame(tap: &File, within: Duration) -> Option<Vec<u8>> {
    let within = Timespec { tv_sec: within.as_secs() as i64, tv_nsec: within.subsec_nanos().into() };
    if poll(&mut [PollFd::from_borrowed_fd(tap.as_fd(), PollFlags::IN)], Some(&within)).unwrap() == 0 {
        return None;
    }
    let mut bytes = [0; 2048];
    let mut tap = tap;
    let length = tap.read(&mut bytes).unwrap();
    Some(bytes[TAP_HEADER.len()..length].to_vec())
}

fn arp_question(asks: Addresses, address: Ipv4Addr) -> Vec<u8> {
    let mut body = vec![0, 1, 8, 0, 6, 4, 0, 1];
    body.extend(asks.mac);
    body.extend(asks.ip.octets());
    body.extend([0; 6]);
    body.extend(address.octets());
    ethernet(asks.mac, [0xff; 6], 0x0806, &body)
}

/// Six addresses: the run's own and five guests'.
fn own_bridge() -> OwnBridge {
    OwnBridge {
        bridge: "br0".to_owned(),
        first: "192.0.2.64".parse().unwrap(),
        last: "192.0.2.69".parse().unwrap(),
        prefix: 24,
    }
}

fn guest_on(own: &OwnBridge, index: u32) -> GuestPlan {
    let address = own.guest_address(index);
    GuestPlan {
        address,
        mac: OwnBridge::mac_of(address),
        network: Some(own.guest_network()),
        ..guest(index, Role::Idle)
    }
}

/// An IPv4 packet of a protocol; `change` alters its header.
fn packet(from: Addresses, to: Addresses, protocol: u8, body: &[u8], change: impl Fn(&mut [u8])) -> Vec<u8> {
    let mut packet = datagram(from.ip, to.ip, 0, "");
    packet.truncate(20);
    packet[9] = protocol;
    packet.extend(body);
    let length = u16::try_from(packet.len()).unwrap();
    packet[2..4].copy_from_slice(&length.to_be_bytes());
    change(&mut packet);
    // A bridge may check it: what it drops is not dropped by us.
    packet[10..12].fill(0);
    let header = &packet[..usize::from(packet[0] & 0x0f) * 4];
    let sum: u32 = header.chunks(2).map(|pair| u32::from(u16::from_be_bytes([pair[0], pair[1]]))).sum();
    let sum = !u16::try_from((sum & 0xffff) + (sum >> 16)).unwrap();
    packet[10..12].copy_from_slice(&sum.to_be_bytes());
    ethernet(from.mac, to.mac, IPV4, &packet)
}

const TCP: u8 = 6;
const ICMP: u8 = 1;
const SYN: u8 = 2;
const ACK: u8 = 0x10;

/// A TCP segment with these flags, and a number that it is known by.
fn segment(flags: u8, number: u8) -> Vec<u8> {
    let mut segment = vec![0, 80, 0x9c, 0x40, 0, 0, 0, number, 0, 0, 0, 0, 0x50, flags];
    segment.resize(60, 0);
    segment
}

fn tcp(from: Addresses, to: Addresses, flags: u8, number: u8) -> Vec<u8> {
    packet(from, to, TCP, &segment(flags, number), |_| {})
}

#[test]
fn a_guest_on_a_bridge_of_the_users_own_only_answers() {
    in_namespaces("a_guest_on_a_bridge_of_the_users_own_only_answers", |world| {
        let host = Host::new();
        let own = own_bridge();
        let network = host.run_on(&own);
        let plans = [guest_on(&own, 0), guest_on(&own, 1)];
        let [ours, other] = taps(world, &network, &plans);
        let (a, b) = (of(&plans[0]), of(&plans[1]));
        // The run answers for its guests, and they are not woken.
        let answer = host.ask(CLIENT, a.ip);
        assert_eq!((&answer[..6], &answer[6..12]), (&CLIENT.mac[..], &a.mac[..]));
        assert_eq!(&answer[22..42], [&a.mac[..], &a.ip.octets(), &CLIENT.mac, &CLIENT.ip.octets()].concat());
        // A connection from outside, and its answer.
        send(&host.outside, &tcp(CLIENT, a, SYN, 200));
        let asked = next_frame(&ours, LIMIT).unwrap();
        assert_eq!(asked, tcp(CLIENT, a, SYN, 200), "the first that the guest hears");
        send(&ours, &tcp(a, CLIENT, SYN | ACK, 201));
        assert_eq!(host.heard(), tcp(a, CLIENT, SYN | ACK, 201));
        send(&ours, &arp_question(a, CLIENT.ip));
        assert_eq!(host.heard(), arp_question(a, CLIENT.ip), "it may ask who asked it");
        let all = Addresses { mac: [0xff; 6], ip: [255; 4].into() };
        let echo = |kind: u8| vec![kind, 0, 0, 0, 0, 0, 0, 0];
        let to_nobody = |from: Addresses, to: Addresses| datagram(from.ip, to.ip, 53, "text: attack");
        let tagged = |body: &[u8]| [&[0, 0][..], &IPV4.to_be_bytes(), body].concat();
        let attacks = [
            ("a connection to one that asked", tcp(a, CLIENT, SYN, 1)),
            ("a datagram to one that asked", ethernet(a.mac, CLIENT.mac, IPV4, &to_nobody(a, CLIENT))),
            ("a ping of one that asked", packet(a, CLIENT, ICMP, &echo(8), |_| {})),
            ("a redirection of one that asked", packet(a, CLIENT, ICMP, &echo(5), |_| {})),
            ("a fragment", packet(a, CLIENT, TCP, &segment(ACK, 2), |packet| packet[6] = 0x20)),
            ("a later fragment", packet(a, CLIENT, TCP, &segment(ACK, 2), |packet| packet[7] = 1)),
            ("options before the flags", packet(a, CLIENT, TCP, &segment(ACK, 2), |packet| packet[0] = 0x46)),
            ("a segment without flags", tcp(a, CLIENT, 0, 3)),
            ("another protocol", packet(a, CLIENT, 47, &segment(ACK, 3), |_| {})),
            ("a tag of a VLAN", ethernet(a.mac, CLIENT.mac, 0x8100, &tagged(&to_nobody(a, CLIENT)))),
            ("another kind", ethernet(a.mac, CLIENT.mac, 0x88cc, &[0; 46])),
            ("IPv6", ethernet(a.mac, CLIENT.mac, 0x86dd, &[0x60; 60])),
            ("a connection to a bystander", tcp(a, BYSTANDER, SYN, 4)),
            ("an answer to a bystander", tcp(a, BYSTANDER, SYN | ACK, 4)),
            ("a segment to a bystander", tcp(a, BYSTANDER, ACK, 4)),
            ("a segment to a bystander by another's hardware", {
                tcp(a, Addresses { ip: BYSTANDER.ip, ..CLIENT }, ACK, 4)
            }),
            ("an answer to no ping", packet(a, BYSTANDER, ICMP, &echo(0), |_| {})),
            ("a datagram to a bystander", ethernet(a.mac, BYSTANDER.mac, IPV4, &to_nobody(a, BYSTANDER))),
            ("a datagram to all", ethernet(a.mac, all.mac, IPV4, &to_nobody(a, all))),
            ("a question for a bystander", arp_question(a, BYSTANDER.ip)),
            ("an answer to a bystander", arp(a.mac, a, BYSTANDER)),
            ("its own address to all", arp_question(a, a.ip)),
            ("the host's address to all", arp_question(Addresses { ip: [192, 0, 2, 1].into(), ..a }, b.ip)),
            ("the client's address as its own", arp(a.mac, Addresses { ip: CLIENT.ip, ..a }, CLIENT)),
            ("another guest's address", tcp(Addresses { ip: b.ip, ..a }, CLIENT, ACK, 5)),
            ("another guest's hardware address", tcp(Addresses { mac: b.mac, ..a }, CLIENT, ACK, 5)),
            ("both of another guest", tcp(b, CLIENT, ACK, 5)),
            ("the client's own addresses", tcp(CLIENT, a, ACK, 5)),
            ("another guest", tcp(a, b, ACK, 6)),
            ("a guest that is not there", tcp(a, of(&guest_on(&own, 3)), ACK, 6)),
            ("the run's own address to one that asked", {
                tcp(Addresses { mac: a.mac, ip: own.first }, CLIENT, ACK, 7)
            }),
        ];
        // The other guest has been asked too: what its neighbour sends in its name is not held up for that reason.
        host.ask(CLIENT, b.ip);
        for (number, (what, attack)) in attacks.iter().enumerate() {
            send(&ours, attack);
            let fair = tcp(a, CLIENT, ACK, 100 + number as u8);
            send(&ours, &fair);
            assert_eq!(host.heard(), fair, "heard outside: {what}");
        }
        send(&ours, &packet(a, CLIENT, ICMP, &echo(0), |_| {}));
        assert_eq!(host.heard(), packet(a, CLIENT, ICMP, &echo(0), |_| {}), "an answer to a ping passes");
        // The other guest heard nothing of it all, nor of what goes on outside.
        send(&host.outside, &tcp(CLIENT, BYSTANDER, SYN, 8));
        send(&host.outside, &ethernet(CLIENT.mac, all.mac, IPV4, &to_nobody(CLIENT, all)));
        send(&host.outside, &tcp(Addresses { mac: a.mac, ..CLIENT }, b, SYN, 9));
        send(&host.outside, &tcp(CLIENT, b, SYN, 10));
        assert_eq!(next_frame(&other, LIMIT).unwrap(), tcp(CLIENT, b, SYN, 10));
        // One that calls itself the guest has not taken its place in the run's bridge; the user's own has believed it until now.
        host.ask(CLIENT, a.ip);
        send(&host.outside, &tcp(CLIENT, a, SYN, 11));
        let mut heard = next_frame(&ours, LIMIT).unwrap();
        // The bridge has answered what it asked for itself.
        while heard[12..14] == [8, 6] {
            heard = next_frame(&ours, LIMIT).unwrap();
        }
        assert_eq!(heard, tcp(CLIENT, a, SYN, 11));
    });
}

#[test]
fn an_address_that_is_in_use_is_refused_and_a_run_holds_its_own() {
    in_namespaces("an_address_that_is_in_use_is_refused_and_a_run_holds_its_own", |_| {
        let host = Host::new();
        let own = host.there(|| look_at(&Host::wanted())).unwrap();
        assert_eq!(own, own_bridge());
        assert_eq!(in_use(&host, &own), None);
        // Somebody has one of them.
        let taken = Addresses { mac: [2, 0, 0, 0, 0, 66], ip: "192.0.2.66".parse().unwrap() };
        // One that answers the first question, and one that hears the second one only, as after a frame that was lost.
        for heard_from in [1, 2] {
            let found = thread::scope(|scope| {
                let probe = scope.spawn(|| in_use(&host, &own));
                let mut questions = 0;
                while !probe.is_finished() {
                    let Some(frame) = next_frame(&host.outside, Duration::from_millis(10)) else { continue };
                    if frame[12..14] == [8, 6] && frame[38..42] == taken.ip.octets() {
                        assert_eq!(frame[28..32], [0; 4], "nobody's table is changed by the question");
                        questions += 1;
                        let asks =
                            Addresses { mac: frame[6..12].try_into().unwrap(), ip: Ipv4Addr::UNSPECIFIED };
                        if questions >= heard_from {
                            send(&host.outside, &arp(taken.mac, taken, asks));
                        }
                    }
                }
                probe.join().unwrap()
            });
            let wanted =
                "192.0.2.66 of `network.addresses` is in use: 02:00:00:00:00:42 answered on the bridge `br0`";
            assert_eq!(found.as_deref(), Some(wanted), "heard from question {heard_from} on");
        }
        // A run has them from its beginning, before a guest of it is up.
        let _network = host.run_on(&own);
        host.ask(CLIENT, own.guest_address(4));
        let found = in_use(&host, &own).unwrap();
        assert!(found.starts_with("192.0.2.65 (and 4 more)"), "{found}");
    });
}

#[test]
fn no_more_addresses_are_asked_for_than_a_run_has_guests() {
    in_namespaces("no_more_addresses_are_asked_for_than_a_run_has_guests", |_| {
        let host = Host::new();
        let own = host.there(|| {
            let mut netlink = Netlink::open().unwrap();
            let bridge = netlink.link("br0").unwrap();
            netlink.add_address(&bridge, "198.18.0.1".parse().unwrap(), 16).unwrap();
            let [first, last] = ["198.18.1.0", "198.18.255.0"].map(|address| address.parse().unwrap());
            look_at(&WantedBridge { bridge: "br0".to_owned(), first, last }).unwrap()
        });
        assert_eq!((own.guests_max(), own.last), (GUESTS_MAX, "198.18.4.232".parse().unwrap()));
        let mut asked = 0;
        thread::scope(|scope| {
            let probe = scope.spawn(|| in_use(&host, &own));
            while !probe.is_finished() {
                let frame = next_frame(&host.outside, Duration::from_millis(10));
                asked += u32::from(frame.is_some_and(|frame| frame[12..14] == [8, 6]));
            }
            assert_eq!(probe.join().unwrap(), None);
        });
        // Three times for each guest's address and for the run's own. One that did not come through is no mistake.
        assert!((1..=3 * (GUESTS_MAX + 1)).contains(&asked), "{asked} questions");
    });
}

/// The error about the addresses, if one is in use.
fn in_use(host: &Host, own: &OwnBridge) -> Option<String> {
    match host.there(|| refuse_addresses_in_use(own)) {
        Ok(()) => None,
        Err(error @ GuestError::AddressInUse { .. }) => Some(error.to_string()),
        Err(other) => panic!("{other}"),
    }
}

#[test]
fn a_bridge_that_guests_cannot_be_joined_to_is_refused() {
    in_namespaces("a_bridge_that_guests_cannot_be_joined_to_is_refused", |_| {
        let host = Host::new();
        let said = |wanted: WantedBridge| {
            let error = host.there(|| look_at(&wanted)).unwrap_err();
            assert!(!error.remedy().is_empty());
            error.to_string()
        };
        let range = |first: &str, last: &str| WantedBridge {
            first: first.parse().unwrap(),
            last: last.parse().unwrap(),
            ..Host::wanted()
        };
        let named = |bridge: &str| WantedBridge { bridge: bridge.to_owned(), ..Host::wanted() };
        assert_eq!(said(named("br7")), "there is no network device `br7` (`network.bridge`)");
        assert_eq!(said(named("outside")), "the network device `outside` (`network.bridge`) is not a bridge");
        let beyond = "`network.addresses` = 198.51.100.1-198.51.100.9 is not within the network of the bridge `br0`, 192.0.2.0/24";
        assert_eq!(said(range("198.51.100.1", "198.51.100.9")), beyond);
        let own = "`network.addresses` = 192.0.2.1-192.0.2.9 has the address 192.0.2.1 of this host itself";
        assert_eq!(said(range("192.0.2.1", "192.0.2.9")), own);
        host.there(|| {
            let mut netlink = Netlink::open().unwrap();
            netlink.create_bridge("off").unwrap();
            let empty = netlink.create_bridge("empty").unwrap();
            netlink.switch_on("empty", &empty).unwrap();
        });
        assert_eq!(said(named("off")), "the bridge `off` is switched off");
        let empty = "the bridge `empty` has no port that carries frames: nobody outside could reach a guest";
        assert_eq!(said(named("empty")), empty);
        host.there(|| {
            let mut netlink = Netlink::open().unwrap();
            let (empty, outside) = (netlink.link("empty").unwrap(), netlink.link("outside").unwrap());
            netlink.join_bridge("outside", &outside, &empty).unwrap();
        });
        assert_eq!(
            said(named("empty")),
            "the bridge `empty` has no IPv4 address, so its network is not known"
        );
    });
}
