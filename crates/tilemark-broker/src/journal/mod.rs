//! The journal: what survives a restart, appended and checksummed, stored in groups, and read past whatever is damaged.
//!
//! Records go into the *open batch*. When the writer is idle, the batch is handed over, written and flushed to disk while
//! the next one fills: the more publishers wait, the more share a flush. A publish is confirmed when its batch is stored.
//! Batches go into numbered segments. Each segment starts with all definitions, so that old segments can be removed, oldest
//! first, once no message in them is needed; the few that still are move to the newest segment.

mod check;
mod damage;
mod disk;
#[cfg(test)]
mod flipped_bits;
mod log;
#[cfg(test)]
mod power_cut;
mod record;
mod recovery;
mod segment;
mod writer;

pub use check::{JournalCheck, check_journal};
pub use damage::JournalDamage;
#[cfg(test)]
pub(crate) use disk::Disk;
pub(crate) use disk::FolderDisk;
pub(crate) use log::{Journal, NewMessage};
pub(crate) use record::{BindingRecord, Definition, ExchangeRecord, QueueRecord, RecordedDestination};
pub(crate) use recovery::{Recovered, RecoveredMessage, recover};
#[cfg(test)]
pub(crate) use writer::{Batch, store_batch};
pub(crate) use writer::{ThreadWriter, Writer};
