//! The journal: what survives a restart, appended and checksummed, stored in groups.
//!
//! Records go into the *open batch*. When the writer is idle, the batch is handed over, written and flushed to disk while
//! the next one fills: the more publishers wait, the more share a flush. A publish is confirmed when its batch is stored.
//! Batches go into numbered segments. Each segment starts with all definitions, so that old segments can be removed, oldest
//! first, once no message in them is needed; the few that still are move to the newest segment.

mod disk;
mod log;
#[cfg(test)]
mod power_cut;
mod record;
mod recovery;
mod writer;

#[cfg(test)]
pub(crate) use disk::Disk;
pub(crate) use disk::FolderDisk;
pub(crate) use log::{Journal, NewMessage};
pub(crate) use record::{BindingRecord, Definition, ExchangeRecord, QueueRecord};
pub(crate) use recovery::{Recovered, RecoveredMessage, recover};
#[cfg(test)]
pub(crate) use writer::Batch;
pub(crate) use writer::{ThreadWriter, Writer};
