//! Links, addresses, bridges and what may pass their ports by netlink, for the run network and for the inside of a guest.
//!
//! Small on purpose: the agent carries it, and a shell command for each step would cost a guest 1.3 s under an
//! emulator. One request at a time, each waiting for the kernel's acknowledgement. Not a general library.

mod assembler;
mod filter;
mod message;
mod ping;
mod socket;
mod uplink;

pub use filter::{PortCounts, REACHED_MAX};
pub use ping::{Ping, PingError};
pub use socket::{BridgeFacts, Link, Neighbour, Netlink, NetlinkError};
pub use uplink::Answering;
