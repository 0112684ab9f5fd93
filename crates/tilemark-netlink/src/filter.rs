//! What may come in by a device: frames of one sender only, and how many came.
//!
//! A filter at the device's ingress, before the bridge sees a frame. It is classic BPF in the kernel's traffic control
//! (`sch_ingress`, `cls_bpf`): one program a frame, compiled by the kernel, and the kernel counts what it drops. Every kernel of
//! Debian 12, Ubuntu 22.04 and RHEL 9 has both as modules, which load by themselves.

use crate::{
    message::{
        LINK_BYTES, Message, TRAFFIC_BYTES, find_attribute, flag, kind, link_attribute,
        traffic_attribute as attribute, u32_at, u64_at,
    },
    socket::{Link, Neighbour, Netlink, NetlinkError, refused},
};
use std::io;

/// TC_H_INGRESS: where the discipline of incoming frames hangs.
const INGRESS: u32 = 0xffff_fff1;
/// The discipline's own handle, 65535:0.
const HANDLE: u32 = 0xffff_0000;
/// The filter's priority, and that it is for frames of all kinds (ETH_P_ALL, in the byte order of the wire).
const FIRST_FOR_ALL: u32 = (1 << 16) | (0x0003_u16.to_be() as u32);
/// TCA_BPF_FLAG_ACT_DIRECT: what the program returns is what happens to the frame.
const DIRECT: u32 = 1;
/// TC_ACT_OK and TC_ACT_SHOT.
const PASS: u32 = 0;
const DROP: u32 = 2;

/// Receivers that one sender may have: a jump of the program goes 255 steps at most.
pub const REACHED_MAX: usize = 32;

/// What came and went by a port of the bridge, as the host counts it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PortCounts {
    /// Frames that the guest sent; a batch of the kernel counts as one.
    pub sent: u64,
    /// Frames that went to the guest, counted the same way.
    pub received: u64,
    /// Frames of the guest that were dropped: they had the address of another sender, were for a guest that it may not reach, or were of
    /// no known kind. 0 where they are not looked at.
    pub dropped: u64,
}

impl Netlink {
    /// Lets only frames of one sender in by a device: with its hardware address, and its IPv4 address in IPv4 and ARP. Frames
    /// of IPv6 pass, which the run network does not speak; what is of no other kind is dropped, tags of VLANs too. So is what is
    /// for one receiver that has none of the hardware addresses `reaches`, of which at most [`REACHED_MAX`] count; with `beyond`, only where
    /// its hardware address begins so: other ones are outside of the run network, behind an uplink with a filter of its own.
    ///
    /// # Errors
    /// Where the kernel has no such filter.
    pub fn let_in_only(
        &mut self,
        name: &str,
        port: &Link,
        sender: Neighbour,
        reaches: &[[u8; 6]],
        beyond: Option<[u8; 2]>,
    ) -> Result<(), NetlinkError> {
        self.filter(name, port, &only_from(sender, reaches, beyond))
    }

    /// Whether this kernel has such filters: puts one before a device that lets everything in, and takes it away.
    ///
    /// # Errors
    /// The kernel's reason, where it has none.
    pub fn try_filter(&mut self, name: &str, link: &Link) -> Result<(), NetlinkError> {
        let filtered = self.filter(name, link, &[ends(PASS)]);
        let remove = Message::traffic(kind::DELETE_QDISC, 0, link.index, [HANDLE, INGRESS, 0]);
        let removed = self.ask(remove);
        filtered?;
        removed.map(drop).map_err(|source| refused("remove the filter of", name, source))
    }

    fn filter(&mut self, name: &str, port: &Link, program: &[Instruction]) -> Result<(), NetlinkError> {
        let create = flag::CREATE | flag::EXCLUSIVE;
        let discipline = Message::traffic(kind::NEW_QDISC, create, port.index, [HANDLE, INGRESS, 0])
            .text(attribute::KIND, "ingress");
        self.change("watch what comes in by", name, discipline)?;
        let length = u16::try_from(program.len()).expect("programs here are short");
        let filter = Message::traffic(kind::NEW_FILTER, create, port.index, [0, HANDLE, FIRST_FOR_ALL])
            .text(attribute::KIND, "bpf")
            .nested(attribute::OPTIONS, |options| {
                options
                    .attribute(attribute::BPF_LENGTH, &length.to_ne_bytes())
                    .attribute(attribute::BPF_PROGRAM, &program.concat())
                    .number(attribute::BPF_FLAGS, DIRECT)
            });
        self.change("filter what comes in by", name, filter)
    }

    /// What passed a port since it was made.
    pub fn port_counts(&mut self, name: &str) -> Result<PortCounts, NetlinkError> {
        self.read_counts(name).map_err(|source| refused("read the counters of", name, source))
    }

    fn read_counts(&mut self, name: &str) -> io::Result<PortCounts> {
        let asked = Message::link(kind::GET_LINK, 0, 0).text(link_attribute::NAME, name);
        let body = self.ask(asked)?.ok_or(io::ErrorKind::NotFound)?;
        let index = u32_at(&body, 4).ok_or(io::ErrorKind::InvalidData)?;
        let attributes = body.get(LINK_BYTES..).unwrap_or_default();
        // struct rtnl_link_stats64 begins with packets that came in by the device, and that went out.
        let statistics = find_attribute(attributes, link_attribute::STATISTICS).unwrap_or_default();
        let count = |place: usize| u64_at(statistics, 8 * place).ok_or(io::ErrorKind::InvalidData);
        Ok(PortCounts { sent: count(0)?, received: count(1)?, dropped: self.dropped(index)? })
    }

    /// What the discipline of incoming frames dropped; 0 where there is none.
    fn dropped(&mut self, index: u32) -> io::Result<u64> {
        let asked = Message::traffic(kind::GET_QDISC, flag::ECHO, index, [HANDLE, INGRESS, 0]);
        let body = match self.ask(asked) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(0),
            other => other?.ok_or(io::ErrorKind::NotFound)?,
        };
        let attributes = body.get(TRAFFIC_BYTES..).unwrap_or_default();
        let statistics = find_attribute(attributes, attribute::STATISTICS).unwrap_or_default();
        // struct gnet_stats_queue: length, backlog, drops.
        let queue = find_attribute(statistics, attribute::STATISTICS_QUEUE).unwrap_or_default();
        Ok(u32_at(queue, 8).ok_or(io::ErrorKind::InvalidData)?.into())
    }
}

/// `struct sock_filter` of linux/filter.h.
type Instruction = [u8; 8];

/// Loads 4 or 2 bytes of the frame; jumps where they are equal to a number; ends.
const LOAD_WORD: u16 = 0x20;
const LOAD_HALF: u16 = 0x28;
const JUMP_IF_EQUAL: u16 = 0x15;
const JUMP_IF_BITS: u16 = 0x45;
const RETURN: u16 = 0x06;

/// Where a test leads.
#[derive(Debug, Clone, Copy)]
enum To {
    Next,
    Step(usize),
    Pass,
    Drop,
}

/// A step of the program: loads from the frame, or compares what was loaded: with a number, or with bits of which one must be set.
#[derive(Debug, Clone, Copy)]
enum Step {
    Word(u32),
    Half(u32),
    Test(u32, To, To),
    Bits(u32, To, To),
}

/// Steps as a program, with the two ends behind them.
fn assembled(steps: &[Step]) -> Vec<Instruction> {
    let of = |(place, step): (usize, &Step)| match *step {
        Step::Word(offset) => instruction(LOAD_WORD, [0, 0], offset),
        Step::Half(offset) => instruction(LOAD_HALF, [0, 0], offset),
        Step::Test(operand, so, other) | Step::Bits(operand, so, other) => {
            let jump = if matches!(step, Step::Bits(..)) { JUMP_IF_BITS } else { JUMP_IF_EQUAL };
            let over = |to| {
                let target = match to {
                    To::Next => place + 1,
                    To::Step(step) => step,
                    To::Pass => steps.len(),
                    To::Drop => steps.len() + 1,
                };
                u8::try_from(target - place - 1).expect("programs here are short and go forward")
            };
            instruction(jump, [over(so), over(other)], operand)
        }
    };
    steps.iter().enumerate().map(of).chain([ends(PASS), ends(DROP)]).collect()
}

fn instruction(code: u16, [equal, other]: [u8; 2], operand: u32) -> Instruction {
    let [c0, c1] = code.to_ne_bytes();
    let [o0, o1, o2, o3] = operand.to_ne_bytes();
    [c0, c1, equal, other, o0, o1, o2, o3]
}

fn ends(with: u32) -> Instruction {
    instruction(RETURN, [0, 0], with)
}

/// The program. A frame that is too short for what is read passes: nobody takes it for an address. So does the address 0.0.0.0,
/// which is nobody's.
fn only_from(sender: Neighbour, reaches: &[[u8; 6]], beyond: Option<[u8; 2]>) -> Vec<Instruction> {
    use Step::{Half, Test, Word};
    use To::{Drop, Next, Pass};
    let receivers = only_to(&reaches[..reaches.len().min(REACHED_MAX)], beyond);
    let other_kinds = receivers.len() + 9;
    let [m0, m1, m2, m3, m4, m5] = sender.mac;
    let (mac, mac_rest) = (u32::from_be_bytes([m0, m1, m2, m3]), u16::from_be_bytes([m4, m5]).into());
    let address = u32::from(sender.address);
    let senders = [
        // Ethernet: sender's hardware address at 6, kind at 12.
        Word(6),
        Test(mac, Next, Drop),
        Half(10),
        Test(mac_rest, Next, Drop),
        Half(12),
        // Nearly all are of this kind.
        Test(KIND_IPV4, Next, To::Step(other_kinds)),
        // IPv4: sender's address at 12.
        Word(14 + 12),
        Test(address, Pass, Next),
        Test(0, Pass, Drop),
        Test(KIND_IPV6, Pass, Next),
        Test(KIND_ARP, Next, Drop),
        // ARP: sender's hardware address at 8, its address at 14.
        Word(14 + 8),
        Test(mac, Next, Drop),
        Half(14 + 12),
        Test(mac_rest, Next, Drop),
        Word(14 + 14),
        Test(address, Pass, Next),
        Test(0, Pass, Drop),
    ];
    assembled(&[receivers, senders.to_vec()].concat())
}

/// The first steps: go on behind them with a frame for many receivers, for one of these, or for one whose address begins otherwise than
/// `beyond`.
fn only_to(reaches: &[[u8; 6]], beyond: Option<[u8; 2]>) -> Vec<Step> {
    use Step::{Bits, Half, Test, Word};
    use To::{Drop, Next};
    /// Steps for each receiver.
    const EACH: usize = 4;
    /// The bit of a hardware address that many receive, in the first four bytes of it.
    const MANY: u32 = 0x0100_0000;
    let end = 2 + EACH * reaches.len() + if beyond.is_some() { 2 } else { 1 };
    let mut steps = vec![Word(0), Bits(MANY, To::Step(end), Next)];
    for (number, [m0, m1, m2, m3, m4, m5]) in reaches.iter().copied().enumerate() {
        let next = To::Step(2 + EACH * (number + 1));
        steps.extend([
            Word(0),
            Test(u32::from_be_bytes([m0, m1, m2, m3]), Next, next),
            Half(4),
            Test(u16::from_be_bytes([m4, m5]).into(), To::Step(end), next),
        ]);
    }
    // It was none of them.
    match beyond {
        Some(start) => steps.extend([Half(0), Test(u16::from_be_bytes(start).into(), Drop, Next)]),
        None => steps.push(Bits(0, Next, Drop)),
    }
    steps
}

/// Kinds of Ethernet frames.
const KIND_IPV4: u32 = 0x0800;
const KIND_ARP: u32 = 0x0806;
const KIND_IPV6: u32 = 0x86dd;

#[cfg(test)]
mod tests {
    use super::*;

    /// What the program does with a frame, as the kernel would: a load beyond the frame's end ends it with 0.
    fn runs(program: &[Instruction], frame: &[u8]) -> u32 {
        let (mut place, mut loaded) = (0, 0);
        loop {
            let [c0, c1, equal, other, o0, o1, o2, o3] = program[place];
            let operand = u32::from_ne_bytes([o0, o1, o2, o3]);
            let at = operand as usize;
            place += 1;
            match u16::from_ne_bytes([c0, c1]) {
                LOAD_WORD => match frame.get(at..at + 4) {
                    Some(bytes) => loaded = u32::from_be_bytes(bytes.try_into().unwrap()),
                    None => return PASS,
                },
                LOAD_HALF => match frame.get(at..at + 2) {
                    Some(bytes) => loaded = u16::from_be_bytes(bytes.try_into().unwrap()).into(),
                    None => return PASS,
                },
                JUMP_IF_EQUAL => place += usize::from(if loaded == operand { equal } else { other }),
                JUMP_IF_BITS => place += usize::from(if loaded & operand != 0 { equal } else { other }),
                RETURN => return operand,
                code => panic!("no instruction {code}"),
            }
        }
    }

    const OWN: Neighbour =
        Neighbour { address: std::net::Ipv4Addr::new(10, 77, 1, 3), mac: [0x52, 0x54, 0, 0, 1, 3] };

    const HOST: [u8; 6] = [0x52, 0x54, 0, 0xff, 0xff, 0xff];
    const PEER: [u8; 6] = [0x52, 0x54, 0, 0, 1, 4];

    fn frame(mac: [u8; 6], kind: u32, at: usize, address: [u8; 4]) -> Vec<u8> {
        let mut frame = vec![0; 64];
        frame[..6].copy_from_slice(&HOST);
        frame[6..12].copy_from_slice(&mac);
        frame[12..14].copy_from_slice(&u16::try_from(kind).unwrap().to_be_bytes());
        frame[at..at + 4].copy_from_slice(&address);
        if kind == KIND_ARP {
            frame[22..28].copy_from_slice(&mac);
        }
        frame
    }

    #[test]
    fn each_bit_of_a_senders_addresses_counts() {
        let program = only_from(OWN, &[HOST], None);
        for (kind, at) in [(KIND_IPV4, 26), (KIND_ARP, 28)] {
            let own = frame(OWN.mac, kind, at, OWN.address.octets());
            assert_eq!(runs(&program, &own), PASS);
            let places = (6..12).chain(at..at + 4).chain(if kind == KIND_ARP { 22..28 } else { 0..0 });
            for (byte, bit) in places.flat_map(|byte| (0..8).map(move |bit| (byte, bit))) {
                let mut other = own.clone();
                other[byte] ^= 1 << bit;
                assert_eq!(runs(&program, &other), DROP, "byte {byte}, bit {bit}, kind {kind:#x}");
            }
        }
    }

    #[test]
    fn each_bit_of_the_receivers_address_counts_unless_many_receive_it() {
        let own = frame(OWN.mac, KIND_IPV4, 26, OWN.address.octets());
        let to = |reaches: &[[u8; 6]], receiver: [u8; 6]| {
            let mut frame = own.clone();
            frame[..6].copy_from_slice(&receiver);
            runs(&only_from(OWN, reaches, None), &frame)
        };
        assert_eq!([HOST, PEER].map(|receiver| to(&[HOST, PEER], receiver)), [PASS, PASS]);
        assert_eq!(to(&[HOST], PEER), DROP);
        assert_eq!(to(&[], HOST), DROP);
        for (byte, bit) in (0..6).flat_map(|byte| (0..8).map(move |bit| (byte, bit))) {
            let mut other = PEER;
            other[byte] ^= 1 << bit;
            let wanted = if (byte, bit) == (0, 0) { PASS } else { DROP };
            assert_eq!(to(&[HOST, PEER], other), wanted, "byte {byte}, bit {bit}");
        }
        let many: Vec<[u8; 6]> = (0..=REACHED_MAX as u8).map(|last| [0x52, 0x54, 0, 0, 2, last]).collect();
        assert_eq!(to(&many, many[REACHED_MAX - 1]), PASS);
        assert_eq!(to(&many, many[REACHED_MAX]), DROP, "more than a program can hold");
    }

    #[test]
    fn with_an_uplink_others_may_receive_it_but_no_other_guest() {
        let own = frame(OWN.mac, KIND_IPV4, 26, OWN.address.octets());
        let to = |receiver: [u8; 6]| {
            let mut frame = own.clone();
            frame[..6].copy_from_slice(&receiver);
            runs(&only_from(OWN, &[HOST, [0x72, 0x54, 192, 0, 2, 66]], Some([0x72, 0x54])), &frame)
        };
        assert_eq!(to([0x72, 0x54, 192, 0, 2, 66]), PASS, "a guest that it may reach");
        assert_eq!(to([0x72, 0x54, 192, 0, 2, 67]), DROP, "a guest that it may not reach");
        assert_eq!(to([0x0c, 0x42, 0xa1, 0, 0x11, 0x22]), PASS, "a machine outside");
    }

    #[test]
    fn of_all_kinds_of_frames_three_pass() {
        let program = only_from(OWN, &[HOST], None);
        let passes = |kind: &u32| runs(&program, &frame(OWN.mac, *kind, 40, [0; 4])) == PASS;
        let all: Vec<u32> = (0..=0xffff).filter(passes).collect();
        assert_eq!(all, [KIND_IPV4, KIND_ARP, KIND_IPV6], "IPv4 and ARP from 0.0.0.0");
    }
}
