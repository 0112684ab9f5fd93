//! The run network and the addresses of guests in it.

use crate::JsonSchema;
use serde::{Deserialize, Serialize};
use std::net::Ipv4Addr;

/// Guests that one bridge serves. It has 1,024 ports (Linux's BR_MAX_PORTS); some are kept for templates and a load's own
/// device.
pub const GUESTS_MAX: u32 = 1000;

/// A hardware address.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub struct MacAddress(pub [u8; 6]);

impl MacAddress {
    /// 52:54:00, the prefix that QEMU's guests have, then 24 bits of the guest's index.
    pub const fn of_guest(index: u32) -> Self {
        let [_, high, middle, low] = index.to_be_bytes();
        Self([0x52, 0x54, 0x00, high, middle, low])
    }
}

impl std::fmt::Display for MacAddress {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let [a, b, c, d, e, f] = self.0;
        write!(formatter, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{f:02x}")
    }
}

impl std::fmt::Debug for MacAddress {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Display::fmt(self, formatter)
    }
}

/// The address of guest `index` in the run network: 10.77.0.0 + 256 + index.
pub fn guest_address(index: u32) -> Ipv4Addr {
    Ipv4Addr::from(u32::from(Ipv4Addr::new(10, 77, 1, 0)) + index)
}

/// The host's end of the run network.
pub const BRIDGE_ADDRESS: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 1);
/// Bits of the run network's prefix.
pub const NETWORK_PREFIX: u8 = 16;
