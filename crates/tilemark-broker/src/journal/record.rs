//! Records: head, kind, fields. Integers are big endian.
//!
//! A head has the payload's length and checksum, the number of its batch in the segment, and a checksum of its own: where a
//! payload is damaged, the next record is still found; where a head is, the next one is searched for. Both checksums begin
//! with a secret of the segment, so that a message that contains what looks like records is never taken for them.

use std::time::Duration;

use crate::exception::Name;
use crate::exchange::ExchangeKind;
use crate::queue::{DeadLetters, NEVER, Overflow, QueueSettings};
use tilemark_amqp::Decoder;

/// A durable exchange.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ExchangeRecord {
    pub(crate) name: Box<[u8]>,
    pub(crate) kind: ExchangeKind,
    pub(crate) auto_delete: bool,
    pub(crate) internal: bool,
    pub(crate) alternate: Option<Name>,
}

/// A durable queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct QueueRecord {
    pub(crate) id: u64,
    pub(crate) name: Box<[u8]>,
    pub(crate) settings: QueueSettings,
}

/// Where a durable binding leads.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum RecordedDestination {
    Queue(u64),
    Exchange(Box<[u8]>),
}

/// A binding between durable things.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct BindingRecord {
    pub(crate) exchange: Box<[u8]>,
    pub(crate) key: Box<[u8]>,
    pub(crate) destination: RecordedDestination,
    pub(crate) arguments: Box<[u8]>,
}

/// Something that is declared and stays until it is deleted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Definition {
    Exchange(ExchangeRecord),
    Queue(QueueRecord),
    Binding(BindingRecord),
}

/// A record as it is read.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Record<'a> {
    Defined(Definition),
    ExchangeGone(Box<[u8]>),
    QueueGone(u64),
    BindingGone(BindingRecord),
    /// A message for these queues; a later record of the same serial replaces it.
    Message {
        serial: u64,
        queues: Vec<u64>,
        /// When it came in, milliseconds since 1970; 0 for one that no time to live ends.
        published_ms: u64,
        route: u16,
        header: u32,
        bytes: &'a [u8],
    },
    /// A queue is done with a message.
    Settled {
        queue: u64,
        serial: u64,
    },
    /// Records that count together or not at all.
    Group(Vec<Record<'a>>),
    /// The records of its batch.
    Batch(Counts),
    Closed,
}

impl Record<'_> {
    /// Adds it to the records that were found.
    pub(crate) fn count(&self, counts: &mut Counts) {
        match self {
            Self::Message { .. } => counts.messages += 1,
            Self::Settled { .. } => counts.settlements += 1,
            Self::Group(records) => records.iter().for_each(|record| record.count(counts)),
            Self::Batch(_) | Self::Closed => {}
            _ => counts.others += 1,
        }
    }
}

const EXCHANGE: u8 = 1;
const EXCHANGE_GONE: u8 = 2;
const QUEUE: u8 = 3;
const QUEUE_GONE: u8 = 4;
const BINDING: u8 = 5;
const BINDING_GONE: u8 = 6;
const MESSAGE: u8 = 7;
const SETTLED: u8 = 8;
const GROUP: u8 = 9;
/// A binding with arguments or to an exchange.
const WIDE_BINDING: u8 = 10;
const WIDE_BINDING_GONE: u8 = 11;
/// A message with a time to live: as [`MESSAGE`], with the time when it came in.
const ENDING_MESSAGE: u8 = 12;
/// The first record of a batch: how many records of which kinds it has.
const BATCH: u8 = 13;
/// The broker has ended in order: the batch before is whole.
const CLOSED: u8 = 14;

/// In front of each record: length, checksum, batch, checksum of these three.
const RECORD_HEAD: usize = 16;
/// In front of each record of the journal's first version: length and checksum.
const OLD_RECORD_HEAD: usize = 8;
/// A whole record of kind [`BATCH`].
pub(crate) const BATCH_BYTES: usize = RECORD_HEAD + 13;

/// How many records a batch has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) messages: u32,
    pub(crate) settlements: u32,
    /// Definitions, and their ends.
    pub(crate) others: u32,
}

/// What all records of a segment have in common; it is written three times at its start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SegmentHeader {
    /// The first segment of the broker's life that wrote this one.
    pub(crate) life: u64,
    secret: u64,
}

const MAGIC: [u8; 8] = *b"tilemrk2";
const HEADER_COPY: usize = 8 + 8 + 8 + 4;
/// A segment starts with so many bytes.
pub(crate) const HEADER_BYTES: usize = 3 * HEADER_COPY;

impl SegmentHeader {
    /// Of a new life of the broker.
    pub(crate) fn new(life: u64) -> Self {
        let mut secret = [0; 8];
        if cfg!(test) {
            secret = life.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes();
        } else {
            rustix::rand::getrandom(&mut secret, rustix::rand::GetRandomFlags::empty())
                .expect("the kernel gives 8 random bytes at once");
        }
        Self { life, secret: u64::from_be_bytes(secret) }
    }

    pub(crate) fn bytes(self) -> Vec<u8> {
        let mut copy = [&MAGIC[..], &self.life.to_be_bytes(), &self.secret.to_be_bytes()].concat();
        copy.extend_from_slice(&crc32fast::hash(&copy).to_be_bytes());
        copy.repeat(3)
    }

    /// From the start of a segment: the first whole one of the three.
    pub(crate) fn read(segment: &[u8]) -> Option<Self> {
        segment.chunks_exact(HEADER_COPY).take(3).find_map(|copy| {
            let mut from = Decoder::new(copy);
            let is_ours = from.take(8).ok()? == MAGIC;
            let (life, secret) = (from.long_long().ok()?, from.long_long().ok()?);
            let is_whole = crc32fast::hash(&copy[..HEADER_COPY - 4]) == from.long().ok()?;
            (is_ours && is_whole).then_some(Self { life, secret })
        })
    }

    /// Checksum of a payload, and of a head.
    fn hashers(self) -> [crc32fast::Hasher; 2] {
        let [a, b, c, d, e, f, g, h] = self.secret.to_be_bytes();
        [[a, b, c, d], [e, f, g, h]].map(|half| crc32fast::Hasher::new_with_initial(u32::from_be_bytes(half)))
    }

    fn sums(self, length: u32, payload: &[u8], batch: u32) -> [u32; 2] {
        let [mut of_payload, mut of_head] = self.hashers();
        of_payload.update(&length.to_be_bytes());
        of_payload.update(payload);
        let sum = of_payload.finalize();
        for field in [length, sum, batch] {
            of_head.update(&field.to_be_bytes());
        }
        [sum, of_head.finalize()]
    }
}

/// Opens a record at the end of `out`; close it with [`close`].
pub(crate) fn open(out: &mut Vec<u8>) -> usize {
    let start = out.len();
    out.extend_from_slice(&[0; RECORD_HEAD]);
    start
}

/// Fills in the head of the record that was opened at `start`.
pub(crate) fn close(out: &mut [u8], start: usize, header: SegmentHeader, batch: u32) {
    let length = u32::try_from(out.len() - start - RECORD_HEAD).expect("a group is limited far below 4 GiB");
    let [sum, head_sum] = header.sums(length, &out[start + RECORD_HEAD..], batch);
    let fields = [length, sum, batch, head_sum].map(u32::to_be_bytes);
    out[start..start + RECORD_HEAD].copy_from_slice(fields.as_flattened());
}

/// The first record of a batch.
pub(crate) fn batch_record(counts: Counts, header: SegmentHeader, batch: u32) -> Vec<u8> {
    let mut out = vec![0; RECORD_HEAD];
    out.push(BATCH);
    for count in [counts.messages, counts.settlements, counts.others] {
        out.extend_from_slice(&count.to_be_bytes());
    }
    close(&mut out, 0, header, batch);
    out
}

pub(crate) fn put_closed(out: &mut Vec<u8>) {
    out.push(CLOSED);
}

fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    out.push(u8::try_from(bytes.len()).expect("names and keys are short strings"));
    out.extend_from_slice(bytes);
}

fn put_limit(out: &mut Vec<u8>, limit: Option<u64>) {
    out.extend_from_slice(&limit.unwrap_or(u64::MAX).to_be_bytes());
}

pub(crate) fn put_definition(out: &mut Vec<u8>, definition: &Definition) {
    match definition {
        Definition::Exchange(exchange) => {
            out.push(EXCHANGE);
            put_bytes(out, &exchange.name);
            put_bytes(out, exchange.kind.name().as_bytes());
            let bits = u8::from(exchange.auto_delete)
                | u8::from(exchange.internal) << 1
                | u8::from(exchange.alternate.is_some()) << 2;
            out.push(bits);
            if let Some(alternate) = &exchange.alternate {
                put_bytes(out, &alternate.0);
            }
        }
        Definition::Queue(queue) => put_queue(out, queue),
        Definition::Binding(binding) => put_binding(out, [BINDING, WIDE_BINDING], binding),
    }
}

fn put_queue(out: &mut Vec<u8>, queue: &QueueRecord) {
    out.push(QUEUE);
    out.extend_from_slice(&queue.id.to_be_bytes());
    put_bytes(out, &queue.name);
    let QueueSettings { expires, message_ttl_ms, dead_letters, .. } = &queue.settings;
    let routing_key = dead_letters.as_ref().and_then(|letters| letters.routing_key.as_ref());
    let bits = [
        queue.settings.auto_delete,
        queue.settings.overflow == Overflow::RejectPublish,
        expires.is_some(),
        *message_ttl_ms != NEVER,
        dead_letters.is_some(),
        routing_key.is_some(),
    ];
    out.push(bits.iter().enumerate().map(|(place, bit)| u8::from(*bit) << place).sum());
    put_limit(out, queue.settings.max_length);
    put_limit(out, queue.settings.max_length_bytes);
    if let Some(expires) = expires {
        let ms = u64::try_from(expires.as_millis()).expect("it came in as 64 bits");
        out.extend_from_slice(&ms.to_be_bytes());
    }
    if *message_ttl_ms != NEVER {
        out.extend_from_slice(&message_ttl_ms.to_be_bytes());
    }
    let names = dead_letters.iter().map(|letters| &letters.exchange).chain(routing_key);
    names.for_each(|name| put_bytes(out, &name.0));
}

/// A binding without arguments to a queue is written as it always was: the first kind.
fn put_binding(out: &mut Vec<u8>, [plain, wide]: [u8; 2], binding: &BindingRecord) {
    let is_plain = binding.arguments.is_empty();
    let kind = match binding.destination {
        RecordedDestination::Queue(_) if is_plain => plain,
        _ => wide,
    };
    out.push(kind);
    put_bytes(out, &binding.exchange);
    put_bytes(out, &binding.key);
    match &binding.destination {
        RecordedDestination::Queue(queue) if is_plain => out.extend_from_slice(&queue.to_be_bytes()),
        RecordedDestination::Queue(queue) => {
            out.push(0);
            out.extend_from_slice(&queue.to_be_bytes());
        }
        RecordedDestination::Exchange(name) => {
            out.push(1);
            put_bytes(out, name);
        }
    }
    if kind == wide {
        let length = u32::try_from(binding.arguments.len()).expect("arguments fit into a frame");
        out.extend_from_slice(&length.to_be_bytes());
        out.extend_from_slice(&binding.arguments);
    }
}

pub(crate) fn put_exchange_gone(out: &mut Vec<u8>, name: &[u8]) {
    out.push(EXCHANGE_GONE);
    put_bytes(out, name);
}

pub(crate) fn put_queue_gone(out: &mut Vec<u8>, id: u64) {
    out.push(QUEUE_GONE);
    out.extend_from_slice(&id.to_be_bytes());
}

pub(crate) fn put_binding_gone(out: &mut Vec<u8>, binding: &BindingRecord) {
    put_binding(out, [BINDING_GONE, WIDE_BINDING_GONE], binding);
}

/// Fields of a message except its bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MessageFields<'a> {
    pub(crate) serial: u64,
    pub(crate) queues: &'a [u64],
    pub(crate) published_ms: u64,
    pub(crate) route: u16,
    pub(crate) header: u32,
}

pub(crate) fn put_message(out: &mut Vec<u8>, fields: MessageFields<'_>, bytes: &[u8]) {
    let MessageFields { serial, queues, published_ms, route, header } = fields;
    if published_ms == 0 {
        out.push(MESSAGE);
    } else {
        out.push(ENDING_MESSAGE);
        out.extend_from_slice(&published_ms.to_be_bytes());
    }
    out.extend_from_slice(&serial.to_be_bytes());
    let count = u32::try_from(queues.len()).expect("fewer queues than 2^32");
    out.extend_from_slice(&count.to_be_bytes());
    for queue in queues {
        out.extend_from_slice(&queue.to_be_bytes());
    }
    out.extend_from_slice(&route.to_be_bytes());
    out.extend_from_slice(&header.to_be_bytes());
    out.extend_from_slice(&u32::try_from(bytes.len()).expect("messages are far below 4 GiB").to_be_bytes());
    out.extend_from_slice(bytes);
}

pub(crate) fn put_settled(out: &mut Vec<u8>, queue: u64, serial: u64) {
    out.push(SETTLED);
    out.extend_from_slice(&queue.to_be_bytes());
    out.extend_from_slice(&serial.to_be_bytes());
}

/// Joins records, written one after the other without heads, into one.
pub(crate) fn put_group(out: &mut Vec<u8>, records: &[u8]) {
    out.push(GROUP);
    out.extend_from_slice(records);
}

/// What is at some place of a segment.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Found<'a> {
    /// A record, its batch, and how many bytes it takes.
    Record(Record<'a>, u32, usize),
    /// A record that is damaged or cut off; the next one is so many bytes further.
    Damaged(u32, usize),
    Nothing,
}

/// Reads the record at the start of `bytes`.
pub(crate) fn read(bytes: &[u8], header: SegmentHeader) -> Found<'_> {
    let Some((length, sum, batch)) = read_head(bytes, header) else { return Found::Nothing };
    let end = RECORD_HEAD.saturating_add(length as usize);
    let Some(payload) = bytes.get(RECORD_HEAD..end) else { return Found::Damaged(batch, bytes.len()) };
    match fields(payload) {
        Some(record) if header.sums(length, payload, batch)[0] == sum => Found::Record(record, batch, end),
        _ => Found::Damaged(batch, end),
    }
}

fn read_head(bytes: &[u8], header: SegmentHeader) -> Option<(u32, u32, u32)> {
    let mut from = Decoder::new(bytes);
    let head = from.take(RECORD_HEAD).ok()?;
    let mut from = Decoder::new(head);
    let (length, sum, batch) = (from.long().ok()?, from.long().ok()?, from.long().ok()?);
    let [_, mut of_head] = header.hashers();
    of_head.update(&head[..RECORD_HEAD - 4]);
    (of_head.finalize() == from.long().ok()?).then_some((length, sum, batch))
}

/// Reads a record of the journal's first version: `None` when it is torn or damaged.
pub(crate) fn read_old(bytes: &[u8]) -> Option<(Record<'_>, usize)> {
    let mut from = Decoder::new(bytes);
    let length = from.long().ok()?;
    let sum = from.long().ok()?;
    let payload = from.take(length as usize).ok()?;
    let mut found = crc32fast::Hasher::new();
    found.update(&length.to_be_bytes());
    found.update(payload);
    if found.finalize() != sum {
        return None;
    }
    Some((fields(payload)?, OLD_RECORD_HEAD + payload.len()))
}

fn fields(payload: &[u8]) -> Option<Record<'_>> {
    let mut from = Decoder::new(payload);
    let record = fields_of(&mut from)?;
    from.finish().ok()?;
    Some(record)
}

fn name(from: &mut Decoder<'_>) -> Option<Box<[u8]>> {
    Some(from.short_str().ok()?.as_bytes().into())
}

fn limit(from: &mut Decoder<'_>) -> Option<Option<u64>> {
    let limit = from.long_long().ok()?;
    Some((limit != u64::MAX).then_some(limit))
}

fn binding(from: &mut Decoder<'_>) -> Option<BindingRecord> {
    let (exchange, key) = (name(from)?, name(from)?);
    let destination = RecordedDestination::Queue(from.long_long().ok()?);
    Some(BindingRecord { exchange, key, destination, arguments: Box::default() })
}

fn wide_binding(from: &mut Decoder<'_>) -> Option<BindingRecord> {
    let (exchange, key) = (name(from)?, name(from)?);
    let destination = match from.octet().ok()? {
        0 => RecordedDestination::Queue(from.long_long().ok()?),
        1 => RecordedDestination::Exchange(name(from)?),
        _ => return None,
    };
    let arguments = from.table().ok()?.as_bytes().into();
    Some(BindingRecord { exchange, key, destination, arguments })
}

fn fields_of<'a>(from: &mut Decoder<'a>) -> Option<Record<'a>> {
    Some(match from.octet().ok()? {
        EXCHANGE => {
            let name = name(from)?;
            let kind = ExchangeKind::from_name(from.short_str().ok()?.as_bytes())?;
            let bits = from.octet().ok()?;
            let (auto_delete, internal) = (bits & 1 != 0, bits & 2 != 0);
            let alternate = if bits & 4 != 0 { Some(Name(self::name(from)?)) } else { None };
            let exchange = ExchangeRecord { name, kind, auto_delete, internal, alternate };
            Record::Defined(Definition::Exchange(exchange))
        }
        EXCHANGE_GONE => Record::ExchangeGone(name(from)?),
        QUEUE => Record::Defined(Definition::Queue(queue(from)?)),
        QUEUE_GONE => Record::QueueGone(from.long_long().ok()?),
        BINDING => Record::Defined(Definition::Binding(binding(from)?)),
        BINDING_GONE => Record::BindingGone(binding(from)?),
        WIDE_BINDING => Record::Defined(Definition::Binding(wide_binding(from)?)),
        WIDE_BINDING_GONE => Record::BindingGone(wide_binding(from)?),
        BATCH => {
            let (messages, settlements) = (from.long().ok()?, from.long().ok()?);
            Record::Batch(Counts { messages, settlements, others: from.long().ok()? })
        }
        CLOSED => Record::Closed,
        MESSAGE => message(from, 0)?,
        ENDING_MESSAGE => {
            let published_ms = from.long_long().ok()?;
            message(from, published_ms)?
        }
        SETTLED => Record::Settled { queue: from.long_long().ok()?, serial: from.long_long().ok()? },
        GROUP => {
            let mut records = Vec::new();
            while !from.rest().is_empty() {
                match fields_of(from)? {
                    Record::Group(_) | Record::Batch(_) | Record::Closed => return None,
                    record => records.push(record),
                }
            }
            Record::Group(records)
        }
        _ => return None,
    })
}

fn queue(from: &mut Decoder<'_>) -> Option<QueueRecord> {
    let id = from.long_long().ok()?;
    let name = name(from)?;
    let bits = from.octet().ok()?;
    let has = |place: u32| bits >> place & 1 != 0;
    let mut settings = QueueSettings::plain([true, false, has(0)]);
    if has(1) {
        settings.overflow = Overflow::RejectPublish;
    }
    settings.max_length = limit(from)?;
    settings.max_length_bytes = limit(from)?;
    if has(2) {
        settings.expires = Some(Duration::from_millis(from.long_long().ok()?));
    }
    if has(3) {
        settings.message_ttl_ms = from.long_long().ok()?;
    }
    if has(4) {
        let exchange = Name(self::name(from)?);
        let routing_key = if has(5) { Some(Name(self::name(from)?)) } else { None };
        settings.dead_letters = Some(DeadLetters { exchange, routing_key });
    }
    Some(QueueRecord { id, name, settings })
}

fn message<'a>(from: &mut Decoder<'a>, published_ms: u64) -> Option<Record<'a>> {
    let serial = from.long_long().ok()?;
    let count = from.long().ok()?;
    let mut queues = Vec::new();
    for _ in 0..count {
        queues.push(from.long_long().ok()?);
    }
    let route = from.short().ok()?;
    let header = from.long().ok()?;
    let length = from.long().ok()?;
    let bytes = from.take(length as usize).ok()?;
    if u32::from(route).checked_add(header)? > length {
        return None;
    }
    Some(Record::Message { serial, queues, published_ms, route, header, bytes })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_read_back_and_a_torn_or_damaged_one_is_refused() {
        let mut settings = QueueSettings::plain([true, false, true]);
        settings.max_length = Some(7);
        settings.overflow = Overflow::RejectPublish;
        settings.expires = Some(Duration::from_secs(90));
        settings.message_ttl_ms = 60_000;
        let (exchange, routing_key) = (Name(b"dead"[..].into()), Some(Name(b"k"[..].into())));
        settings.dead_letters = Some(DeadLetters { exchange, routing_key });
        let definition = Definition::Queue(QueueRecord { id: 9, name: b"q"[..].into(), settings });
        let mut out = Vec::new();
        let start = open(&mut out);
        let mut group = Vec::new();
        let arguments = tilemark_amqp::TableBuilder::new().text("x-match", "any");
        let binding = |destination| {
            Definition::Binding(BindingRecord {
                exchange: b"e"[..].into(),
                key: b"k"[..].into(),
                destination,
                arguments: arguments.as_table().as_bytes().into(),
            })
        };
        let exchange = Definition::Exchange(ExchangeRecord {
            name: b"e"[..].into(),
            kind: ExchangeKind::Headers,
            auto_delete: true,
            internal: false,
            alternate: Some(Name(b"other"[..].into())),
        });
        let definitions = [
            definition,
            exchange,
            binding(RecordedDestination::Queue(9)),
            binding(RecordedDestination::Exchange(b"f"[..].into())),
        ];
        definitions.iter().for_each(|definition| put_definition(&mut group, definition));
        let fields = MessageFields { serial: 5, queues: &[9, 10], published_ms: 0, route: 1, header: 2 };
        put_message(&mut group, fields, b"rhhbody");
        put_message(&mut group, MessageFields { serial: 6, published_ms: 77, ..fields }, b"rhhbody");
        put_settled(&mut group, 9, 4);
        put_group(&mut out, &group);
        let header = SegmentHeader::new(3);
        close(&mut out, start, header, 8);
        let message = |serial, published_ms| {
            let (queues, bytes) = (vec![9, 10], &b"rhhbody"[..]);
            Record::Message { serial, queues, published_ms, route: 1, header: 2, bytes }
        };
        let mut expected: Vec<Record<'_>> = definitions.into_iter().map(Record::Defined).collect();
        expected.extend([message(5, 0), message(6, 77), Record::Settled { queue: 9, serial: 4 }]);
        let expected = Record::Group(expected);
        assert_eq!(read(&out, header), Found::Record(expected, 8, out.len()));
        for length in 0..RECORD_HEAD {
            assert_eq!(read(&out[..length], header), Found::Nothing);
        }
        for length in RECORD_HEAD..out.len() {
            assert_eq!(read(&out[..length], header), Found::Damaged(8, length));
        }
        for at in 0..out.len() {
            let mut damaged = out.clone();
            damaged[at] ^= 0x40;
            let expected = if at < RECORD_HEAD { Found::Nothing } else { Found::Damaged(8, out.len()) };
            assert_eq!(read(&damaged, header), expected, "octet {at}");
        }
        // To another segment it is no record.
        assert_eq!(read(&out, SegmentHeader::new(4)), Found::Nothing);
    }

    #[test]
    fn a_segment_is_read_with_any_one_whole_copy_of_its_header() {
        let header = SegmentHeader::new(7);
        let bytes = header.bytes();
        assert_eq!(bytes.len(), HEADER_BYTES);
        for kept in 0..3 {
            let mut damaged = vec![0; HEADER_BYTES];
            let copy = kept * HEADER_COPY..(kept + 1) * HEADER_COPY;
            damaged[copy.clone()].copy_from_slice(&bytes[copy]);
            assert_eq!(SegmentHeader::read(&damaged), Some(header));
        }
        assert_eq!(SegmentHeader::read(&bytes[1..]), None);
        assert_eq!(SegmentHeader::read(&[0; HEADER_BYTES]), None);
    }
}
