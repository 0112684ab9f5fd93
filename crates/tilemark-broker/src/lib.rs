//! The reference broker: so small that a run measures the host and not the broker.
//!
//! AMQP 0-9-1 on one thread of its own: an engine that knows no sockets (bytes in, bytes out), an epoll loop
//! around it, and, when there is a journal, one more thread that writes and flushes it. [`serve`] starts a broker in this
//! process; it listens when `serve` returns and ends with [`Broker::stop`].
//!
//! ```
//! let broker = tilemark_broker::serve(tilemark_broker::Config::new("127.0.0.1:0".parse()?))?;
//! println!("amqp://guest:guest@{}", broker.address());
//! broker.stop()?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod channel;
mod config;
mod confirms;
mod connection;
mod engine;
mod error;
mod event_loop;
mod exception;
mod exchange;
mod ids;
mod journal;
mod outbox;
mod queue;
mod secured;
mod serve;
mod slab;
mod socketless;
mod store;
mod topic;
mod topology;

pub use config::{Config, Notice, Reach, User};
pub use engine::Statistics;
pub use error::BrokerError;
pub use journal::{JournalCheck, JournalDamage, check_journal};
pub use serve::{Broker, serve};
pub use socketless::{Peer, SocketlessBroker};
pub use tilemark_tls::{ServerTls, ServerTlsError};
