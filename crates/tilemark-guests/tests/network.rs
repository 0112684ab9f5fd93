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
    os::fd::AsFd,
    thread,
    time::{Duration, Instant},
};
use tilemark_guests::RunNetwork;
use tilemark_plan::{
    plan::{BRIDGE_ADDRESS, GuestPlan, MacAddress},
    scenario::Role,
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
        // What a guest that behaves sends besides.
        send(&ours, &arp(a.mac, a, host()));
        send(&ours, &arp(a.mac, Addresses { ip: Ipv4Addr::UNSPECIFIED, ..a }, host()));
        send(&ours, &ethernet(a.mac, to, 0x86dd, &[0x60; 60]));
        send(&ours, &frame(a, host(), port, "text: fair"));
        assert_eq!(heard(&socket), "text: fair");
        assert_eq!(network.port_counts(&plans[0]).unwrap().dropped, attacks.len() as u64);
    });
}
