//! What may pass between a run's guests and a network of the user's own.
//!
//! Two programs at the run's end of the cable. The one for what comes in passes IPv4 and ARP for addresses of guests, notes who sent it and
//! to whom, and answers questions of ARP itself: guests need not be woken, and an address is the run's even while its guest is not up. The
//! one for what goes out passes only what answers: to an address that is noted for its sender, and of that ARP, echo replies, and TCP
//! segments that open no connection.

use crate::{
    assembler::{Assembler, FRAME_IS_TAGGED, FRAME_KIND, R0, R2, R7, Size, When},
    message::{Message, flag, kind, traffic_attribute as attribute},
    socket::{Link, Netlink, NetlinkError, refused},
};
use std::{
    net::Ipv4Addr,
    os::fd::{AsRawFd, OwnedFd},
};
use tilemark_sys::bpf::{Instruction, create_forgetting_table, load_classifier};

/// TC_H_CLSACT, and where its filters of what comes in and what goes out hang.
const BOTH_WAYS: u32 = 0xffff_fff1;
const COMES_IN: u32 = 0xffff_fff2;
const GOES_OUT: u32 = 0xffff_fff3;
const HANDLE: u32 = 0xffff_0000;
const FIRST_FOR_ALL: u32 = (1 << 16) | (0x0003_u16.to_be() as u32);
const DIRECT: u32 = 1;
/// TC_ACT_OK and TC_ACT_SHOT.
const PASS: i32 = 0;
const DROP: i32 = 2;

/// Pairs of a machine outside and a guest that are remembered. Where there are more, the one that was used longest ago is forgotten, until
/// that machine sends again. About 4 MiB of the kernel's memory.
const PAIRS_MAX: u32 = 1 << 16;
/// Two IPv4 addresses: the machine's, the guest's.
const PAIR_BYTES: u32 = 8;

/// What the programs need to know.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Answering {
    /// The first address of a guest.
    pub first: Ipv4Addr,
    /// The last one.
    pub last: Ipv4Addr,
    /// How hardware addresses of guests begin; their addresses follow.
    pub mac_start: [u8; 2],
}

impl Netlink {
    /// Holds what passes a device to what machines outside ask of guests, and what guests answer. Put before a device that is off.
    ///
    /// # Errors
    /// Where the kernel has no such filter, or refuses the programs.
    pub fn only_answers(
        &mut self,
        name: &str,
        uplink: &Link,
        answering: &Answering,
    ) -> Result<(), NetlinkError> {
        let create = flag::CREATE | flag::EXCLUSIVE;
        let discipline = Message::traffic(kind::NEW_QDISC, create, uplink.index, [HANDLE, BOTH_WAYS, 0])
            .text(attribute::KIND, "clsact");
        self.change("watch what passes", name, discipline)?;
        let table = create_forgetting_table(PAIR_BYTES, PAIRS_MAX)
            .map_err(|source| refused("make a table of BPF for", name, source))?;
        let programs = [
            (COMES_IN, "tilemark-in", comes_in(answering, table.as_raw_fd())),
            (GOES_OUT, "tilemark-out", goes_out(table.as_raw_fd())),
        ];
        for (parent, program_name, program) in programs {
            let loaded = load_classifier(&program)
                .map_err(|source| refused("load a program of BPF for", name, source))?;
            self.put_before(name, uplink, parent, program_name, &loaded)?;
        }
        // The programs hold the table.
        Ok(())
    }

    fn put_before(
        &mut self,
        name: &str,
        uplink: &Link,
        parent: u32,
        program_name: &str,
        program: &OwnedFd,
    ) -> Result<(), NetlinkError> {
        let create = flag::CREATE | flag::EXCLUSIVE;
        let number = u32::try_from(program.as_raw_fd()).expect("an open descriptor is not negative");
        let filter = Message::traffic(kind::NEW_FILTER, create, uplink.index, [0, parent, FIRST_FOR_ALL])
            .text(attribute::KIND, "bpf")
            .nested(attribute::OPTIONS, |options| {
                options
                    .number(attribute::BPF_DESCRIPTOR, number)
                    .text(attribute::BPF_NAME, program_name)
                    .number(attribute::BPF_FLAGS, DIRECT)
            });
        self.change("filter what passes", name, filter)
    }
}

const KIND_IPV4: u32 = 0x0800_u16.to_be() as u32;
const KIND_ARP: u32 = 0x0806_u16.to_be() as u32;
/// What an ARP frame is, as on the wire.
const ARP_ASKS: u32 = 1_u16.to_be() as u32;
const ARP_ANSWERS: i32 = 2_u16.to_be() as i32;

// Places in an Ethernet frame.
const AT_RECEIVER_MAC: i32 = 0;
const AT_SENDER_MAC: i32 = 6;
const AT_IPV4: i32 = 14;
const AT_IPV4_SENDER: i32 = 26;
const AT_IPV4_RECEIVER: i32 = 30;
/// Where IPv4's header has no options, as the program wants it.
const AT_ICMP_KIND: i32 = 34;
const AT_TCP_FLAGS: i32 = 47;
const AT_ARP_KIND: i32 = 20;
const AT_ARP_SENDER_MAC: i32 = 22;
const AT_ARP_SENDER: i32 = 28;
const AT_ARP_RECEIVER_MAC: i32 = 32;
const AT_ARP_RECEIVER: i32 = 38;

// Places on the stack, below its end.
const OUTSIDE: i16 = -8;
const GUEST: i16 = -4;
const WORD: i16 = -12;
const VALUE: i16 = -16;
const MAC_OUTSIDE: i16 = -24;
const MAC_GUEST: i16 = -32;
const HEADER: i16 = -48;

/// Goes on at `ipv4` or `arp` with frames of these kinds, and drops the others.
fn by_kind(program: &mut Assembler) {
    program.fact(R2, FRAME_IS_TAGGED);
    program.jump(When::Unequal, R2, 0, "drop");
    program.fact(R2, FRAME_KIND);
    program.jump(When::Equal, R2, KIND_IPV4, "ipv4");
    program.jump(When::Equal, R2, KIND_ARP, "arp");
    program.go("drop");
}

fn ends(mut program: Assembler) -> Vec<Instruction> {
    program.here("pass");
    program.end(PASS);
    program.here("drop");
    program.end(DROP);
    program.finish()
}

fn comes_in(answering: &Answering, table: i32) -> Vec<Instruction> {
    let mut program = Assembler::default();
    program.begin();
    // Guests of another run, or who calls himself one of ours: the bridge would learn that it is out there.
    program.load(AT_SENDER_MAC, 2, WORD, "drop");
    program.read(R2, Size::Two, WORD);
    program.jump(When::Equal, R2, u16::from_ne_bytes(answering.mac_start).into(), "drop");
    by_kind(&mut program);
    program.here("ipv4");
    // Sender and receiver lie side by side, as the pair does.
    program.load(AT_IPV4_SENDER, 8, OUTSIDE, "drop");
    program.set(R7, 0);
    program.go("to whom");
    program.here("arp");
    program.load(AT_ARP_SENDER, 4, OUTSIDE, "drop");
    program.load(AT_ARP_RECEIVER, 4, GUEST, "drop");
    program.load(AT_ARP_KIND, 2, WORD, "drop");
    program.read(R7, Size::Two, WORD);
    program.here("to whom");
    program.read(R2, Size::Four, GUEST);
    program.wire_to_number(R2);
    program.jump(When::Below, R2, answering.first.into(), "drop");
    program.jump(When::Above, R2, answering.last.into(), "drop");
    program.look_up(table, OUTSIDE);
    program.jump(When::Found, R0, 0, "noted");
    program.write_number(1, Size::Four, VALUE);
    program.note(table, OUTSIDE, VALUE);
    program.here("noted");
    program.jump(When::Unequal, R7, ARP_ASKS, "pass");
    answer(&mut program, answering.mac_start);
    ends(program)
}

/// Makes a question of ARP its answer, and sends it back.
fn answer(program: &mut Assembler, [m0, m1]: [u8; 2]) {
    program.load(AT_ARP_SENDER_MAC, 6, MAC_OUTSIDE, "drop");
    program.write_number(u16::from_ne_bytes([m0, m1]).into(), Size::Two, MAC_GUEST);
    for half in [0, 2] {
        program.read(R2, Size::Two, GUEST + half);
        program.write(R2, Size::Two, MAC_GUEST + 2 + half);
    }
    program.write_number(ARP_ANSWERS, Size::Two, WORD);
    program.store(AT_RECEIVER_MAC, 6, MAC_OUTSIDE);
    program.store(AT_SENDER_MAC, 6, MAC_GUEST);
    program.store(AT_ARP_KIND, 2, WORD);
    program.store(AT_ARP_SENDER_MAC, 6, MAC_GUEST);
    program.store(AT_ARP_SENDER, 4, GUEST);
    program.store(AT_ARP_RECEIVER_MAC, 6, MAC_OUTSIDE);
    program.store(AT_ARP_RECEIVER, 4, OUTSIDE);
    program.send_back();
}

fn goes_out(table: i32) -> Vec<Instruction> {
    /// Version 4 and a header of 20 bytes.
    const PLAIN: u32 = 0x45;
    /// More fragments follow, or it is not the first one.
    const FRAGMENT: u32 = 0x3fff_u16.to_be() as u32;
    const ICMP: u32 = 1;
    const TCP: u32 = 6;
    const ECHO_REPLY: u32 = 0;
    /// ACK and RST: the first segment of a connection has neither.
    const OF_A_CONNECTION: u32 = 0x14;
    let mut program = Assembler::default();
    program.begin();
    by_kind(&mut program);
    program.here("ipv4");
    program.load(AT_IPV4, 10, HEADER, "drop");
    program.read(R2, Size::One, HEADER);
    program.jump(When::Unequal, R2, PLAIN, "drop");
    program.read(R2, Size::Two, HEADER + 6);
    program.jump(When::Bits, R2, FRAGMENT, "drop");
    program.read(R7, Size::One, HEADER + 9);
    program.load(AT_IPV4_SENDER, 4, GUEST, "drop");
    program.load(AT_IPV4_RECEIVER, 4, OUTSIDE, "drop");
    program.jump(When::Equal, R7, TCP, "tcp");
    program.jump(When::Unequal, R7, ICMP, "drop");
    program.load(AT_ICMP_KIND, 1, WORD, "drop");
    program.read(R2, Size::One, WORD);
    program.jump(When::Equal, R2, ECHO_REPLY, "to whom");
    program.go("drop");
    program.here("tcp");
    program.load(AT_TCP_FLAGS, 1, WORD, "drop");
    program.read(R2, Size::One, WORD);
    program.jump(When::Bits, R2, OF_A_CONNECTION, "to whom");
    program.go("drop");
    program.here("arp");
    program.load(AT_ARP_RECEIVER, 4, OUTSIDE, "drop");
    program.load(AT_ARP_SENDER, 4, GUEST, "drop");
    program.here("to whom");
    program.look_up(table, OUTSIDE);
    program.jump(When::Missing, R0, 0, "drop");
    ends(program)
}
