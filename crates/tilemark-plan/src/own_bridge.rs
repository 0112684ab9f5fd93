//! The user's own bridge: a run's guests have addresses of its network, so that machines outside reach them.

use crate::JsonSchema;
use crate::network::MacAddress;
use serde::{Deserialize, Serialize};
use std::net::Ipv4Addr;

/// How the hardware addresses begin that guests have on a bridge of the user's own. They are of the kind that an owner of a network gives
/// out himself (IEEE 802, "locally administered"), and no program for virtual machines uses them.
pub const MAC_START: [u8; 2] = [0x72, 0x54];

/// A bridge of the user's own, and the addresses of its network that a run may use.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct OwnBridge {
    /// Its name on the host.
    pub bridge: String,
    /// The first address of the range. The run itself has it; machines outside do not reach it.
    pub first: Ipv4Addr,
    /// The last address of the range.
    pub last: Ipv4Addr,
    /// Bits of its network's prefix.
    pub prefix: u8,
}

/// The network of a guest that is reached through a bridge of the user's own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct GuestNetwork {
    /// Bits of its prefix.
    pub prefix: u8,
    /// The run's own address in it.
    pub host: Ipv4Addr,
}

impl OwnBridge {
    /// How many guests the range has addresses for: all but one, which the run itself has.
    pub fn guests_max(&self) -> u32 {
        u32::from(self.last).saturating_sub(u32::from(self.first))
    }

    /// The address of guest `index`. Beyond the range where the index is not below [`OwnBridge::guests_max`].
    pub fn guest_address(&self, index: u32) -> Ipv4Addr {
        Ipv4Addr::from(u32::from(self.first).saturating_add(1).saturating_add(index))
    }

    /// Ends the range at the last address of so many guests.
    pub fn keep_addresses_of(&mut self, guests: u32) {
        self.last = self.last.min(u32::from(self.first).saturating_add(guests).into());
    }

    /// The hardware address that belongs to an address: two runs of one network cannot have the same.
    pub fn mac_of(address: Ipv4Addr) -> MacAddress {
        let ([m0, m1], [a, b, c, d]) = (MAC_START, address.octets());
        MacAddress([m0, m1, a, b, c, d])
    }

    /// What a guest needs to know of it.
    pub fn guest_network(&self) -> GuestNetwork {
        GuestNetwork { prefix: self.prefix, host: self.first }
    }
}
