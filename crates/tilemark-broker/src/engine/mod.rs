//! The broker without sockets: bytes in, bytes out, and a clock that is told to it.
//!
//! The loop calls [`Engine::receive`] for each peer that sent something, then [`Engine::turn`] once, then sends what
//! [`Engine::outbox`] holds for the connections that [`Engine::take_touched`] names. Nothing in here blocks or fails: what a
//! peer does wrong becomes its own exception and touches nobody else.

mod answers;
mod channels;
mod closing;
mod consume;
mod deliver;
mod exchanges;
mod handshake;
mod input;
mod memory;
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

pub(crate) use state::Engine;
pub use state::Statistics;
