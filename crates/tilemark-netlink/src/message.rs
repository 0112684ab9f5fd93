//! Requests as bytes: a header, a fixed part, attributes, in the machine's byte order.

/// Kinds of requests and answers, of linux/netlink.h and linux/rtnetlink.h.
pub(crate) mod kind {
    pub(crate) const ERROR: u16 = 2;
    pub(crate) const DONE: u16 = 3;
    pub(crate) const NEW_LINK: u16 = 16;
    pub(crate) const DELETE_LINK: u16 = 17;
    pub(crate) const GET_LINK: u16 = 18;
    pub(crate) const NEW_ADDRESS: u16 = 20;
    pub(crate) const GET_ADDRESS: u16 = 22;
    pub(crate) const NEW_NEIGHBOUR: u16 = 28;
    pub(crate) const NEW_QDISC: u16 = 36;
    pub(crate) const DELETE_QDISC: u16 = 37;
    pub(crate) const GET_QDISC: u16 = 38;
    pub(crate) const NEW_FILTER: u16 = 44;
}

/// Flags of a request's header.
pub(crate) mod flag {
    pub(crate) const REQUEST: u16 = 0x1;
    pub(crate) const ACKNOWLEDGE: u16 = 0x4;
    /// The answer comes to the one who asked; older kernels otherwise only announce it.
    pub(crate) const ECHO: u16 = 0x8;
    /// All that there are; NLM_F_DUMP.
    pub(crate) const ALL: u16 = 0x300;
    pub(crate) const REPLACE: u16 = 0x100;
    pub(crate) const EXCLUSIVE: u16 = 0x200;
    pub(crate) const CREATE: u16 = 0x400;
}

/// Attributes of a link, of linux/if_link.h and linux/veth.h.
pub(crate) mod link_attribute {
    pub(crate) const HARDWARE_ADDRESS: u16 = 1;
    pub(crate) const NAME: u16 = 3;
    pub(crate) const MTU: u16 = 4;
    pub(crate) const MASTER: u16 = 10;
    pub(crate) const INFORMATION: u16 = 18;
    pub(crate) const STATISTICS: u16 = 23;
    pub(crate) const NAMESPACE_DESCRIPTOR: u16 = 28;
    pub(crate) const KIND: u16 = 1;
    pub(crate) const DATA: u16 = 2;
    pub(crate) const SLAVE_KIND: u16 = 4;
    pub(crate) const SLAVE_DATA: u16 = 5;
    pub(crate) const PORT_LEARNING: u16 = 8;
    pub(crate) const PORT_UNICAST_FLOOD: u16 = 9;
    pub(crate) const PORT_PROXY_ARP: u16 = 10;
    pub(crate) const PORT_MULTICAST_FLOOD: u16 = 27;
    pub(crate) const PORT_BROADCAST_FLOOD: u16 = 30;
    pub(crate) const PORT_ISOLATED: u16 = 33;
    pub(crate) const VETH_PEER: u16 = 1;
    pub(crate) const BRIDGE_FORWARD_DELAY: u16 = 1;
    pub(crate) const BRIDGE_AGEING_TIME: u16 = 4;
    pub(crate) const BRIDGE_STP: u16 = 5;
    pub(crate) const BRIDGE_MULTICAST_SNOOPING: u16 = 23;
}

/// Attributes of queueing disciplines and their filters, of linux/rtnetlink.h, linux/gen_stats.h and linux/pkt_cls.h.
pub(crate) mod traffic_attribute {
    pub(crate) const KIND: u16 = 1;
    pub(crate) const OPTIONS: u16 = 2;
    pub(crate) const STATISTICS: u16 = 7;
    pub(crate) const STATISTICS_QUEUE: u16 = 3;
    pub(crate) const BPF_LENGTH: u16 = 4;
    pub(crate) const BPF_PROGRAM: u16 = 5;
    pub(crate) const BPF_DESCRIPTOR: u16 = 6;
    pub(crate) const BPF_NAME: u16 = 7;
    pub(crate) const BPF_FLAGS: u16 = 8;
}

/// Bytes of `struct nlmsghdr`.
pub(crate) const HEADER_BYTES: usize = 16;
/// Bytes of `struct ifinfomsg`.
pub(crate) const LINK_BYTES: usize = 16;

/// Bytes of `struct tcmsg`.
pub(crate) const TRAFFIC_BYTES: usize = 20;

/// One request.
#[derive(Debug)]
pub(crate) struct Message {
    bytes: Vec<u8>,
}

impl Message {
    pub(crate) fn new(kind: u16, flags: u16) -> Self {
        let mut bytes = vec![0; HEADER_BYTES];
        bytes[4..6].copy_from_slice(&kind.to_ne_bytes());
        let flags = flags | flag::REQUEST | flag::ACKNOWLEDGE;
        bytes[6..8].copy_from_slice(&flags.to_ne_bytes());
        Self { bytes }
    }

    /// A request about a link: `struct ifinfomsg`.
    pub(crate) fn link(kind: u16, flags: u16, index: u32) -> Self {
        Self::new(kind, flags).link_part(index, 0, 0)
    }

    /// `struct ifinfomsg`: family, type, index, flags and which of them are meant.
    pub(crate) fn link_part(self, index: u32, flags: u32, change: u32) -> Self {
        self.raw(&[0; 4]).raw(&index.to_ne_bytes()).raw(&flags.to_ne_bytes()).raw(&change.to_ne_bytes())
    }

    /// A request about a queueing discipline or a filter: `struct tcmsg`, with its family, device, handle, parent and what
    /// belongs to the kind of request.
    pub(crate) fn traffic(kind: u16, flags: u16, index: u32, [handle, parent, info]: [u32; 3]) -> Self {
        let message = Self::new(kind, flags).raw(&[0; 4]).raw(&index.to_ne_bytes());
        [handle, parent, info].iter().fold(message, |message, number| message.raw(&number.to_ne_bytes()))
    }

    pub(crate) fn raw(mut self, bytes: &[u8]) -> Self {
        self.bytes.extend_from_slice(bytes);
        self
    }

    pub(crate) fn attribute(mut self, kind: u16, value: &[u8]) -> Self {
        let length = u16::try_from(4 + value.len()).expect("attributes here are names and addresses");
        self.bytes.extend_from_slice(&length.to_ne_bytes());
        self.bytes.extend_from_slice(&kind.to_ne_bytes());
        self.bytes.extend_from_slice(value);
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
        self
    }

    pub(crate) fn text(self, kind: u16, value: &str) -> Self {
        let mut bytes = value.as_bytes().to_vec();
        bytes.push(0);
        self.attribute(kind, &bytes)
    }

    pub(crate) fn number(self, kind: u16, value: u32) -> Self {
        self.attribute(kind, &value.to_ne_bytes())
    }

    /// An attribute that holds what `fill` appends.
    pub(crate) fn nested(mut self, kind: u16, fill: impl FnOnce(Self) -> Self) -> Self {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(&[0; 2]);
        self.bytes.extend_from_slice(&kind.to_ne_bytes());
        let mut filled = fill(self);
        let length = u16::try_from(filled.bytes.len() - start).expect("nested attributes here are short");
        filled.bytes[start..start + 2].copy_from_slice(&length.to_ne_bytes());
        filled
    }

    /// The finished bytes.
    pub(crate) fn finish(mut self, sequence: u32) -> Vec<u8> {
        let length = u32::try_from(self.bytes.len()).expect("requests here are short");
        self.bytes[..4].copy_from_slice(&length.to_ne_bytes());
        self.bytes[8..12].copy_from_slice(&sequence.to_ne_bytes());
        self.bytes
    }
}

/// One answer out of a datagram: its kind, sequence and body.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Answer<'a> {
    pub(crate) kind: u16,
    pub(crate) sequence: u32,
    pub(crate) body: &'a [u8],
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_ne_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}

pub(crate) fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_ne_bytes(bytes.get(at..at + 8)?.try_into().ok()?))
}

pub(crate) fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

/// The answers in one datagram. Stops at the first that is cut.
pub(crate) fn answers(mut datagram: &[u8]) -> Vec<Answer<'_>> {
    let mut found = Vec::new();
    while let (Some(length), Some(kind), Some(sequence)) =
        (u32_at(datagram, 0), u16_at(datagram, 4), u32_at(datagram, 8))
    {
        let length = length as usize;
        let Some(body) = datagram.get(HEADER_BYTES..length) else { break };
        found.push(Answer { kind, sequence, body });
        datagram = datagram.get(length.next_multiple_of(4)..).unwrap_or_default();
    }
    found
}

/// The value of the first attribute of a kind.
pub(crate) fn find_attribute(mut attributes: &[u8], wanted: u16) -> Option<&[u8]> {
    while let (Some(length), Some(kind)) = (u16_at(attributes, 0), u16_at(attributes, 2)) {
        let length = usize::from(length);
        let value = attributes.get(4..length)?;
        if kind & 0x3fff == wanted {
            return Some(value);
        }
        attributes = attributes.get(length.next_multiple_of(4)..)?;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_are_padded_and_found_again() {
        let bytes = Message::link(kind::NEW_LINK, 0, 7)
            .text(link_attribute::NAME, "br")
            .nested(link_attribute::INFORMATION, |m| m.attribute(link_attribute::KIND, b"bridge"))
            .number(link_attribute::MASTER, 9)
            .finish(3);
        assert_eq!(bytes.len() % 4, 0);
        let all = answers(&bytes);
        assert_eq!((all.len(), all[0].kind, all[0].sequence), (1, kind::NEW_LINK, 3));
        let attributes = &all[0].body[LINK_BYTES..];
        assert_eq!(find_attribute(attributes, link_attribute::NAME), Some(b"br\0".as_slice()));
        let information = find_attribute(attributes, link_attribute::INFORMATION).unwrap();
        assert_eq!(find_attribute(information, link_attribute::KIND), Some(b"bridge".as_slice()));
        assert_eq!(find_attribute(attributes, link_attribute::MASTER), Some(9_u32.to_ne_bytes().as_slice()));
    }

    #[test]
    fn a_cut_datagram_ends_the_answers_and_does_not_panic() {
        let bytes = Message::link(kind::NEW_LINK, 0, 7).text(link_attribute::NAME, "br").finish(3);
        for length in 0..bytes.len() {
            assert!(answers(&bytes[..length]).is_empty());
        }
        assert_eq!(find_attribute(&[3, 0, 1, 0], 1), None, "a length below its own header");
    }
}
