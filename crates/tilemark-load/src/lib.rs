//! The load engine: schedules, senders and histograms. It does not know which workload it sends.
//!
//! ```text
//! schedule ──intended times──> lane ──free connection──> worker ══ sockets ══> guest
//!                               │ (no free connection: wait; latency counts on)
//!                               └── samples ──> account ──seconds, totals──> LoadEvent
//! ```
//! A worker is one thread with one epoll; a request costs it no allocation, lock, log or formatting. What
//! it measured goes as plain samples, a few hundred at a time, to the calling thread, which makes one
//! HdrHistogram for each stream and second of them. Schedule, lane and account know neither sockets nor
//! clocks: tests drive them with invented times.

mod account;
mod blocking;
mod clock;
mod connection;
mod conversation;
mod error;
pub mod figures;
mod lane;
mod run;
mod sample;
mod schedule;
mod sender;
#[cfg(test)]
mod simulation;
mod stop;
mod worker;

pub use account::Account;
pub use blocking::{Operation, OperationResult, run_blocking};
pub use conversation::{Answer, Conversation, Factory, Progress, Verdict};
pub use error::LoadError;
pub use run::{Limits, Start, run, run_within};
pub use sample::{NO_LATENESS, Sample};
pub use schedule::Schedule;
pub use sender::{Got, Scheduling, pin, prepare_thread};
pub use stop::Stop;
pub use tilemark_tls::Tls;
