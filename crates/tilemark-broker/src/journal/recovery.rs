//! Reading a journal back.

use std::collections::{BTreeMap, BTreeSet};
use std::io;

use super::damage::JournalDamage;
use super::disk::Disk;
use super::record::{
    BindingRecord, Definition, ExchangeRecord, QueueRecord, Record, RecordedDestination, SegmentHeader,
    read_old,
};
use super::segment::{Segment, Whole};

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
    /// What was stored once and cannot be read any more.
    pub(crate) damage: Option<JournalDamage>,
    pub(crate) last_serial: u64,
    pub(crate) last_queue: u64,
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct RecoveredMessage {
    pub(crate) segment: u64,
    pub(crate) queues: Vec<u64>,
    pub(crate) published_ms: u64,
    pub(crate) route: u16,
    pub(crate) header: u32,
    pub(crate) bytes: Vec<u8>,
}

/// Reads all segments, oldest first. What cannot be read is passed over, and what is behind it is read again. Only the last
/// batch of a life may be torn, because each batch is on the disk before the next one is written; whatever else cannot be
/// read is damage.
pub(crate) fn recover(disk: &mut dyn Disk) -> io::Result<Recovered> {
    let mut recovered = Recovered::default();
    let mut damage = JournalDamage::default();
    let numbers = disk.segments()?;
    let mut bytes = numbers.first().map(|first| disk.read(*first)).transpose()?.unwrap_or_default();
    for (place, number) in numbers.iter().enumerate() {
        // The next one shows whether this is the last one of its life.
        let next = numbers.get(place + 1).map(|next| disk.read(*next)).transpose()?.unwrap_or_default();
        if let Some(following) = numbers.get(place + 1) {
            damage.missing_segments += following - number - 1;
        }
        recovered.segments.push((*number, bytes.len() as u64));
        let header = SegmentHeader::read(&bytes);
        let life = |header: Option<SegmentHeader>| header.map(|header| header.life);
        let whole = if life(header).is_some() && life(header) == life(SegmentHeader::read(&next)) {
            Whole::All
        } else {
            Whole::AllButTheLast
        };
        recovered.read_segment(*number, &bytes, header, whole, &mut damage);
        bytes = next;
    }
    recovered.drop_what_leads_nowhere();
    recovered.damage = (damage != JournalDamage::default()).then_some(damage);
    Ok(recovered)
}

impl Recovered {
    fn read_segment(
        &mut self,
        number: u64,
        bytes: &[u8],
        header: Option<SegmentHeader>,
        whole: Whole,
        damage: &mut JournalDamage,
    ) {
        let Some(header) = header else {
            self.ignored_bytes += self.read_old_segment(number, bytes, damage);
            return;
        };
        let mut segment = Segment::new(bytes, header);
        while let Some(record) = segment.next_record() {
            self.apply(number, record);
        }
        self.ignored_bytes += segment.judge(number, whole, damage);
    }

    /// Reads a segment of the journal's first version, up to the first record that is torn or damaged: it does not say which.
    /// Returns how many bytes are left.
    fn read_old_segment(&mut self, number: u64, bytes: &[u8], damage: &mut JournalDamage) -> u64 {
        let mut rest = bytes;
        while let Some((record, used)) = read_old(rest) {
            self.apply(number, record);
            rest = &rest[used..];
        }
        // A header is flushed before anything is written behind it.
        if rest.len() == bytes.len() && bytes.len() > super::record::HEADER_BYTES {
            damage.unreadable_segment(number, bytes.len() as u64);
            return 0;
        }
        rest.len() as u64
    }

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
                let gone = RecordedDestination::Exchange(name.clone());
                self.bindings.retain(|binding| binding.exchange != name && binding.destination != gone);
            }
            Record::QueueGone(id) => {
                // No other queue ever has its number: its bindings go at the end.
                self.queues.remove(&id);
            }
            Record::BindingGone(binding) => {
                self.bindings.remove(&binding);
            }
            Record::Message { serial, queues, published_ms, route, header, bytes } => {
                self.last_serial = self.last_serial.max(serial);
                let bytes = bytes.to_vec();
                let message = RecoveredMessage { segment, queues, published_ms, route, header, bytes };
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
            Record::Batch(_) | Record::Closed => {}
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
        self.bindings.retain(|binding| match binding.destination {
            RecordedDestination::Queue(id) => queues.contains_key(&id),
            RecordedDestination::Exchange(_) => true,
        });
    }
}
