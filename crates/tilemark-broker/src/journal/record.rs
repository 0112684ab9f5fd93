//! Records: length, checksum, kind, fields. Integers are big endian.

use std::time::Duration;

use crate::exchange::ExchangeKind;
use crate::queue::{Overflow, QueueSettings};
use tilemark_amqp::Decoder;

/// A durable exchange.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ExchangeRecord {
    pub(crate) name: Box<[u8]>,
    pub(crate) kind: ExchangeKind,
    pub(crate) auto_delete: bool,
    pub(crate) internal: bool,
}

/// A durable queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct QueueRecord {
    pub(crate) id: u64,
    pub(crate) name: Box<[u8]>,
    pub(crate) settings: QueueSettings,
}

/// A binding between the two.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct BindingRecord {
    pub(crate) exchange: Box<[u8]>,
    pub(crate) key: Box<[u8]>,
    pub(crate) queue: u64,
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

/// Length and checksum in front of each record.
pub(crate) const RECORD_HEAD: usize = 8;

/// Opens a record at the end of `out`; close it with [`close`].
pub(crate) fn open(out: &mut Vec<u8>) -> usize {
    let start = out.len();
    out.extend_from_slice(&[0; RECORD_HEAD]);
    start
}

/// Fills in the length and the checksum of the record that was opened at `start`.
pub(crate) fn close(out: &mut [u8], start: usize) {
    let length = u32::try_from(out.len() - start - RECORD_HEAD).expect("a group is limited far below 4 GiB");
    let mut sum = crc32fast::Hasher::new();
    sum.update(&length.to_be_bytes());
    sum.update(&out[start + RECORD_HEAD..]);
    out[start..start + 4].copy_from_slice(&length.to_be_bytes());
    out[start + 4..start + RECORD_HEAD].copy_from_slice(&sum.finalize().to_be_bytes());
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
            out.push(u8::from(exchange.auto_delete) | u8::from(exchange.internal) << 1);
        }
        Definition::Queue(queue) => {
            out.push(QUEUE);
            out.extend_from_slice(&queue.id.to_be_bytes());
            put_bytes(out, &queue.name);
            let rejects = queue.settings.overflow == Overflow::RejectPublish;
            let expires = queue.settings.expires;
            let bits = u8::from(queue.settings.auto_delete)
                | u8::from(rejects) << 1
                | u8::from(expires.is_some()) << 2;
            out.push(bits);
            put_limit(out, queue.settings.max_length);
            put_limit(out, queue.settings.max_length_bytes);
            if let Some(expires) = expires {
                let ms = u64::try_from(expires.as_millis()).expect("it came in as 64 bits");
                out.extend_from_slice(&ms.to_be_bytes());
            }
        }
        Definition::Binding(binding) => put_binding(out, BINDING, binding),
    }
}

fn put_binding(out: &mut Vec<u8>, kind: u8, binding: &BindingRecord) {
    out.push(kind);
    put_bytes(out, &binding.exchange);
    put_bytes(out, &binding.key);
    out.extend_from_slice(&binding.queue.to_be_bytes());
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
    put_binding(out, BINDING_GONE, binding);
}

pub(crate) fn put_message(
    out: &mut Vec<u8>,
    serial: u64,
    queues: &[u64],
    route: u16,
    header: u32,
    bytes: &[u8],
) {
    out.push(MESSAGE);
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

/// Reads the record at the start of `bytes` and says how long it is; `None` when it is torn or damaged.
pub(crate) fn read(bytes: &[u8]) -> Option<(Record<'_>, usize)> {
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
    let mut fields = Decoder::new(payload);
    let record = fields_of(&mut fields)?;
    fields.finish().ok()?;
    Some((record, RECORD_HEAD + payload.len()))
}

fn name(from: &mut Decoder<'_>) -> Option<Box<[u8]>> {
    Some(from.short_str().ok()?.as_bytes().into())
}

fn limit(from: &mut Decoder<'_>) -> Option<Option<u64>> {
    let limit = from.long_long().ok()?;
    Some((limit != u64::MAX).then_some(limit))
}

fn binding(from: &mut Decoder<'_>) -> Option<BindingRecord> {
    Some(BindingRecord { exchange: name(from)?, key: name(from)?, queue: from.long_long().ok()? })
}

fn fields_of<'a>(from: &mut Decoder<'a>) -> Option<Record<'a>> {
    Some(match from.octet().ok()? {
        EXCHANGE => {
            let name = name(from)?;
            let kind = ExchangeKind::from_name(from.short_str().ok()?.as_bytes())?;
            let bits = from.octet().ok()?;
            let (auto_delete, internal) = (bits & 1 != 0, bits & 2 != 0);
            Record::Defined(Definition::Exchange(ExchangeRecord { name, kind, auto_delete, internal }))
        }
        EXCHANGE_GONE => Record::ExchangeGone(name(from)?),
        QUEUE => Record::Defined(Definition::Queue(queue(from)?)),
        QUEUE_GONE => Record::QueueGone(from.long_long().ok()?),
        BINDING => Record::Defined(Definition::Binding(binding(from)?)),
        BINDING_GONE => Record::BindingGone(binding(from)?),
        MESSAGE => message(from)?,
        SETTLED => Record::Settled { queue: from.long_long().ok()?, serial: from.long_long().ok()? },
        GROUP => {
            let mut records = Vec::new();
            while !from.rest().is_empty() {
                match fields_of(from)? {
                    Record::Group(_) => return None,
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
    let settings = QueueSettings {
        durable: true,
        exclusive: false,
        auto_delete: bits & 1 != 0,
        overflow: if bits & 2 != 0 { Overflow::RejectPublish } else { Overflow::DropHead },
        max_length: limit(from)?,
        max_length_bytes: limit(from)?,
        expires: match bits & 4 {
            0 => None,
            _ => Some(Duration::from_millis(from.long_long().ok()?)),
        },
    };
    Some(QueueRecord { id, name, settings })
}

fn message<'a>(from: &mut Decoder<'a>) -> Option<Record<'a>> {
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
    Some(Record::Message { serial, queues, route, header, bytes })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_read_back_and_a_torn_or_damaged_one_is_refused() {
        let settings = QueueSettings {
            durable: true,
            exclusive: false,
            auto_delete: true,
            max_length: Some(7),
            max_length_bytes: None,
            overflow: Overflow::RejectPublish,
            expires: Some(Duration::from_secs(90)),
        };
        let definition = Definition::Queue(QueueRecord { id: 9, name: b"q"[..].into(), settings });
        let mut out = Vec::new();
        let start = open(&mut out);
        let mut group = Vec::new();
        put_definition(&mut group, &definition);
        put_message(&mut group, 5, &[9, 10], 1, 2, b"rhhbody");
        put_settled(&mut group, 9, 4);
        put_group(&mut out, &group);
        close(&mut out, start);
        let (record, used) = read(&out).unwrap();
        assert_eq!(used, out.len());
        let expected = Record::Group(vec![
            Record::Defined(definition),
            Record::Message { serial: 5, queues: vec![9, 10], route: 1, header: 2, bytes: b"rhhbody" },
            Record::Settled { queue: 9, serial: 4 },
        ]);
        assert_eq!(record, expected);
        for length in 0..out.len() {
            assert_eq!(read(&out[..length]), None);
        }
        for at in 0..out.len() {
            let mut damaged = out.clone();
            damaged[at] ^= 0x40;
            assert_eq!(read(&damaged), None, "octet {at}");
        }
    }
}
