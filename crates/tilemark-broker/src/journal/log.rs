//! The journal as the broker's loop sees it.

use std::collections::{BTreeMap, VecDeque};

use super::record::{self, BindingRecord, Counts, Definition, MessageFields, SegmentHeader};
use super::recovery::Recovered;
use super::writer::{Batch, Writer};
use crate::store::{Layout, MessageId, Store};

/// A segment is closed from this size on.
const SEGMENT_BYTES: u64 = 64 << 20;
/// Closed segments may hold this many times the bytes of the messages that are still needed, plus two segments.
const WASTE_FACTOR: u64 = 2;

/// Memory of a message in the journal's books: its place in the tree and the list of its queues.
const LIVE_BYTES: u64 = 128;

#[derive(Debug)]
struct Segment {
    number: u64,
    bytes: u64,
    /// Messages whose record is here and that a queue still needs.
    messages: u64,
}

#[derive(Debug)]
struct Live {
    segment: u64,
    message: MessageId,
    queues: Vec<u64>,
    published_ms: u64,
}

/// A persistent message on its way into durable queues.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NewMessage<'a> {
    pub(crate) serial: u64,
    pub(crate) id: MessageId,
    pub(crate) queues: &'a [u64],
    /// When it came in, milliseconds since 1970; 0 for one that no time to live ends.
    pub(crate) published_ms: u64,
}

pub(crate) struct Journal {
    writer: Box<dyn Writer>,
    /// Records of the open batch, and how many they are.
    open: Vec<u8>,
    counts: Counts,
    number: u64,
    header: SegmentHeader,
    /// Batches that the newest segment has got, with the open one.
    batches: u32,
    group: Option<Vec<u8>>,
    segments: VecDeque<Segment>,
    segment_bytes: u64,
    live: BTreeMap<u64, Live>,
    live_bytes: u64,
    remove: Vec<u64>,
}

impl std::fmt::Debug for Journal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Journal").field("number", &self.number).field("segments", &self.segments).finish()
    }
}

impl Journal {
    /// Goes on after what was recovered, in a new segment that starts with `definitions`. `stored` gives each recovered
    /// message its place in the store.
    pub(crate) fn after(
        recovered: &Recovered,
        stored: &BTreeMap<u64, MessageId>,
        writer: Box<dyn Writer>,
        store: &Store,
        definitions: &[Definition],
    ) -> Self {
        let mut segments: VecDeque<Segment> = recovered
            .segments
            .iter()
            .map(|&(number, bytes)| Segment { number, bytes, messages: 0 })
            .collect();
        let mut live = BTreeMap::new();
        let mut live_bytes = 0;
        for (serial, message) in &recovered.messages {
            let id = stored[serial];
            live_bytes += message.bytes.len() as u64;
            let (segment, queues, published_ms) =
                (message.segment, message.queues.clone(), message.published_ms);
            live.insert(*serial, Live { segment, message: id, queues, published_ms });
            if let Some(segment) = segments.iter_mut().find(|segment| segment.number == message.segment) {
                segment.messages += 1;
            }
        }
        let next = segments.back().map_or(1, |last| last.number + 1);
        segments.push_back(Segment { number: next, bytes: 0, messages: 0 });
        let mut journal = Self {
            writer,
            open: Vec::new(),
            counts: Counts::default(),
            number: 1,
            header: SegmentHeader::new(next),
            batches: 0,
            group: None,
            segments,
            segment_bytes: SEGMENT_BYTES,
            live,
            live_bytes,
            remove: Vec::new(),
        };
        definitions.iter().for_each(|definition| journal.define(definition));
        if recovered.damage.is_some() {
            journal.leave_damage(store);
        }
        journal
    }

    /// Writes all messages again and removes the segments that are damaged, with those beside them.
    fn leave_damage(&mut self, store: &Store) {
        while self.segments.len() > 1 {
            self.move_oldest(store);
            self.remove.extend(self.segments.pop_front().map(|segment| segment.number));
        }
    }

    /// The broker ends in order. A batch of its own: when it is there, all batches before it are whole.
    pub(crate) fn close(&mut self) {
        self.write(record::put_closed);
    }

    #[cfg(test)]
    pub(crate) fn set_segment_bytes(&mut self, bytes: u64) {
        self.segment_bytes = bytes;
    }

    /// Messages that a queue still needs, and their bytes.
    #[cfg(test)]
    pub(crate) fn live_messages(&self) -> u64 {
        let by_segment: u64 = self.segments.iter().map(|segment| segment.messages).sum();
        assert_eq!(by_segment, self.live.len() as u64, "the segments count otherwise");
        by_segment
    }

    #[cfg(test)]
    pub(crate) fn segment_count(&self) -> usize {
        self.segments.len()
    }

    #[cfg(test)]
    pub(crate) const fn live_bytes(&self) -> u64 {
        self.live_bytes
    }

    fn write(&mut self, fill: impl FnOnce(&mut Vec<u8>)) {
        if let Some(group) = &mut self.group {
            fill(group);
            return;
        }
        if self.open.is_empty() {
            self.batches += 1;
            // Its counts are known when it is handed over.
            self.open.resize(record::BATCH_BYTES, 0);
        }
        let start = record::open(&mut self.open);
        fill(&mut self.open);
        record::close(&mut self.open, start, self.header, self.batches);
    }

    /// What is written until [`Journal::end_group`] counts together or not at all.
    pub(crate) fn begin_group(&mut self) {
        self.group = Some(Vec::new());
    }

    pub(crate) fn end_group(&mut self) {
        let records = self.group.take().unwrap_or_default();
        if !records.is_empty() {
            self.write(|out| record::put_group(out, &records));
        }
    }

    pub(crate) fn define(&mut self, definition: &Definition) {
        self.counts.others += 1;
        self.write(|out| record::put_definition(out, definition));
    }

    pub(crate) fn exchange_gone(&mut self, name: &[u8]) {
        self.counts.others += 1;
        self.write(|out| record::put_exchange_gone(out, name));
    }

    pub(crate) fn queue_gone(&mut self, queue: u64) {
        self.counts.others += 1;
        self.write(|out| record::put_queue_gone(out, queue));
    }

    pub(crate) fn binding_gone(&mut self, binding: &BindingRecord) {
        self.counts.others += 1;
        self.write(|out| record::put_binding_gone(out, binding));
    }

    /// Writes a message; it is stored when [`Journal::stored`] reaches the number that this returns.
    pub(crate) fn publish(&mut self, store: &Store, new: NewMessage<'_>) -> u64 {
        let NewMessage { serial, id, queues, published_ms } = new;
        let segment = self.newest();
        segment.messages += 1;
        let segment = segment.number;
        self.live.insert(serial, Live { segment, message: id, queues: queues.to_vec(), published_ms });
        self.live_bytes += u64::from(store.length(id));
        self.put_message(store, new);
        self.number
    }

    fn put_message(&mut self, store: &Store, message: NewMessage<'_>) {
        self.counts.messages += 1;
        let NewMessage { serial, id, queues, published_ms } = message;
        let Layout { route, header } = store.layout(id);
        let whole = store.parts(id).whole;
        let fields = MessageFields { serial, queues, published_ms, route, header };
        self.write(|out| record::put_message(out, fields, whole));
    }

    fn newest(&mut self) -> &mut Segment {
        self.segments.back_mut().expect("the newest segment is never removed")
    }

    /// A queue is done with a message: call it before the message leaves the store.
    pub(crate) fn settle(&mut self, store: &Store, queue: u64, serial: u64) {
        self.counts.settlements += 1;
        self.write(|out| record::put_settled(out, queue, serial));
        self.forget(store, queue, serial);
    }

    /// As [`Journal::settle`], for a queue that goes as a whole: its own record covers all its messages.
    pub(crate) fn forget(&mut self, store: &Store, queue: u64, serial: u64) {
        let Some(live) = self.live.get_mut(&serial) else { return };
        live.queues.retain(|id| *id != queue);
        if !live.queues.is_empty() {
            return;
        }
        let (segment, message) = (live.segment, live.message);
        self.live.remove(&serial);
        self.live_bytes -= u64::from(store.length(message));
        if let Some(segment) = self.segments.iter_mut().rev().find(|found| found.number == segment) {
            segment.messages -= 1;
        }
    }

    /// The number of the batch that the next record goes into.
    pub(crate) const fn open_batch(&self) -> u64 {
        self.number
    }

    /// The number of the last batch that survives a power cut.
    pub(crate) fn stored(&self) -> u64 {
        self.writer.stored()
    }

    pub(crate) fn failure(&self) -> Option<String> {
        self.writer.failure()
    }

    /// Memory that it takes, bytes: what waits for the disk, and where each message is.
    pub(crate) fn memory_bytes(&self) -> u64 {
        self.open.capacity() as u64 + self.live.len() as u64 * LIVE_BYTES
    }

    /// Bytes that wait for the disk.
    pub(crate) fn waiting_bytes(&self) -> u64 {
        self.open.len() as u64
    }

    /// Whether all that was written is stored.
    pub(crate) fn is_settled(&self) -> bool {
        self.open.is_empty() && self.writer.is_idle()
    }

    /// Hands the open batch to an idle writer; called once in each turn of the loop. `definitions` is asked for all
    /// definitions when a new segment has to start.
    pub(crate) fn turn(&mut self, store: &Store, definitions: impl FnOnce() -> Vec<Definition>) {
        if !self.writer.is_idle() || (self.open.is_empty() && self.remove.is_empty()) {
            return;
        }
        let mut bytes = std::mem::take(&mut self.open);
        let counts = std::mem::take(&mut self.counts);
        let (header, batches) = (self.header, self.batches);
        if let Some(first) = bytes.get_mut(..record::BATCH_BYTES) {
            first.copy_from_slice(&record::batch_record(counts, header, batches));
        }
        let remove = std::mem::take(&mut self.remove);
        let number = self.number;
        self.number += 1;
        let newest = self.newest();
        let header = if newest.bytes == 0 { header.bytes() } else { Vec::new() };
        newest.bytes += (header.len() + bytes.len()) as u64;
        let batch = Batch { number, segment: newest.number, header, bytes, remove };
        let full = newest.bytes >= self.segment_bytes;
        self.writer.submit(batch);
        if full {
            self.roll(&definitions());
            self.clean(store);
        }
    }

    /// Starts a segment. The batch before is complete, so a segment never shares a batch with another.
    fn roll(&mut self, definitions: &[Definition]) {
        let number = self.newest().number + 1;
        self.segments.push_back(Segment { number, bytes: 0, messages: 0 });
        self.batches = 0;
        definitions.iter().for_each(|definition| self.define(definition));
    }

    /// Removes segments that nothing needs, and frees the oldest one of its last messages when the waste is large.
    fn clean(&mut self, store: &Store) {
        loop {
            while self.segments.len() > 1 && self.segments[0].messages == 0 {
                self.remove.extend(self.segments.pop_front().map(|segment| segment.number));
            }
            let held: u64 = self.segments.iter().map(|segment| segment.bytes).sum();
            if self.segments.len() < 3 || held < WASTE_FACTOR * (self.live_bytes + self.segment_bytes) {
                return;
            }
            self.move_oldest(store);
        }
    }

    fn move_oldest(&mut self, store: &Store) {
        let oldest = self.segments[0].number;
        let newest = self.newest().number;
        let moving: Vec<u64> =
            self.live.iter().filter(|(_, live)| live.segment == oldest).map(|(serial, _)| *serial).collect();
        for serial in &moving {
            let live = self.live.get_mut(serial).expect("collected above");
            live.segment = newest;
            let (id, queues, published_ms) = (live.message, live.queues.clone(), live.published_ms);
            self.put_message(store, NewMessage { serial: *serial, id, queues: &queues, published_ms });
        }
        self.newest().messages += moving.len() as u64;
        self.segments[0].messages = 0;
    }
}
