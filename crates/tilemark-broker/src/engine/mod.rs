//! The broker without sockets: bytes in, bytes out, and a clock that is set from outside.
//!
//! The loop calls [`BrokerCore::receive`] for each peer that sent something, then [`BrokerCore::turn`] once, then sends what
//! [`BrokerCore::outbox`] holds for the connections that [`BrokerCore::take_touched`] names. Nothing in here blocks or fails: what a
//! peer does wrong becomes its own exception and touches nobody else.

mod answers;
mod bindings;
mod channels;
mod clock;
mod closing;
mod consume;
mod dead_letters;
mod deliver;
mod exchanges;
mod expiry;
mod handshake;
mod input;
mod memory;
mod pending;
mod publish;
mod queues;
mod restore;
mod settle;
mod state;
#[cfg(test)]
pub(crate) mod testing;
#[cfg(test)]
mod tests;
mod transactions;
pub(super) mod work;

pub(crate) use state::BrokerCore;
pub use state::Statistics;
