//! Reading a journal back.

use std::collections::{BTreeMap, BTreeSet};
use std::io;

use super::disk::Disk;
use super::record::{BindingRecord, Definition, ExchangeRecord, QueueRecord, Record, read};

/// What a journal held when the broker ended, however it ended.
#[derive(Debug, Default)]
pub(crate) struct Recovered {
    pub(crate) exchanges: BTreeMap<Box<[u8]>, ExchangeRecord>,
    pub(crate) queues: BTreeMap<u64, QueueRecord>,
    pub(crate) bindings: BTreeSet<BindingRecord>,
    /// By serial: the order in which the broker took them.
    pub(crate) messages: BTreeMap<u64, RecoveredMessage>,
    /// Segment numbers and their sizes in bytes.
    pub(crate) segments: Vec<(u64, u64)>,
    /// Bytes behind the last whole record of a segment: batches that were not yet stored when the broker ended.
    pub(crate) ignored_bytes: u64,
    pub(crate) last_serial: u64,
    pub(crate) last_queue: u64,
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct RecoveredMessage {
    pub(crate) segment: u64,
    pub(crate) queues: Vec<u64>,
    pub(crate) route: u16,
    pub(crate) header: u32,
    pub(crate) bytes: Vec<u8>,
}

/// Reads all segments, oldest first. A segment counts up to its first torn or damaged record: what follows was never
/// stored, because each batch is on the disk before the next one is written.
pub(crate) fn recover(disk: &mut dyn Disk) -> io::Result<Recovered> {
    let mut recovered = Recovered::default();
    for segment in disk.segments()? {
        let bytes = disk.read(segment)?;
        recovered.segments.push((segment, bytes.len() as u64));
        let mut rest = &bytes[..];
        while let Some((record, used)) = read(rest) {
            recovered.apply(segment, record);
            rest = &rest[used..];
        }
        recovered.ignored_bytes += rest.len() as u64;
    }
    recovered.drop_what_leads_nowhere();
    Ok(recovered)
}

impl Recovered {
    fn apply(&mut self, segment: u64, record: Record<'_>) {
        match record {
            Record::Defined(Definition::Exchange(exchange)) => {
                self.exchanges.insert(exchange.name.clone(), exchange);
            }
            Record::Defined(Definition::Queue(queue)) => {
                self.last_queue = self.last_queue.max(queue.id);
                self.queues.insert(queue.id, queue);
            }
            Record::Defined(Definition::Binding(binding)) => {
                self.bindings.insert(binding);
            }
            Record::ExchangeGone(name) => {
                self.exchanges.remove(&name);
                self.bindings.retain(|binding| binding.exchange != name);
            }
            Record::QueueGone(id) => {
                self.queues.remove(&id);
                self.bindings.retain(|binding| binding.queue != id);
            }
            Record::BindingGone(binding) => {
                self.bindings.remove(&binding);
            }
            Record::Message { serial, queues, route, header, bytes } => {
                self.last_serial = self.last_serial.max(serial);
                let message = RecoveredMessage { segment, queues, route, header, bytes: bytes.to_vec() };
                self.messages.insert(serial, message);
            }
            Record::Settled { queue, serial } => {
                if let Some(message) = self.messages.get_mut(&serial) {
                    message.queues.retain(|id| *id != queue);
                    if message.queues.is_empty() {
                        self.messages.remove(&serial);
                    }
                }
            }
            Record::Group(records) => {
                for record in records {
                    self.apply(segment, record);
                }
            }
        }
    }

    /// A queue that was deleted took its messages with it, without a record for each.
    fn drop_what_leads_nowhere(&mut self) {
        let queues = &self.queues;
        self.messages.retain(|_, message| {
            message.queues.retain(|id| queues.contains_key(id));
            !message.queues.is_empty()
        });
        self.bindings.retain(|binding| queues.contains_key(&binding.queue));
    }
}
