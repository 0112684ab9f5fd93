//! Clients for tests that need no sockets: methods in, what the broker says out.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use tilemark_amqp::{
    ContentHeader, FrameKind, LongStr, Method, PROTOCOL_HEADER, Properties, ShortStr, Table, TableBuilder,
    Value, decode_frame, put_frame, put_header, put_method,
};

use super::BrokerCore;
use crate::config::Config;
use crate::connection::Origin;
use crate::ids::ConnectionId;
use crate::journal::{Batch, Disk, Recovered, Writer, recover};

/// A broker and its clock.
pub(crate) struct Lab {
    pub(crate) engine: BrokerCore,
    pub(crate) now: Instant,
}

/// A disk that is done at once.
#[derive(Default)]
pub(crate) struct Quick(u64);

impl Writer for Quick {
    fn is_idle(&self) -> bool {
        true
    }
    fn submit(&mut self, batch: Batch) {
        self.0 = batch.number;
    }
    fn stored(&self) -> u64 {
        self.0
    }
    fn failure(&self) -> Option<String> {
        None
    }
}

/// A disk that is done at once and keeps what it got.
#[derive(Clone, Debug, Default)]
pub(crate) struct MemoryDisk(Arc<Mutex<MemorySegments>>);

#[derive(Debug, Default)]
struct MemorySegments {
    stored: u64,
    segments: BTreeMap<u64, Vec<u8>>,
}

impl MemoryDisk {
    fn kept(&self) -> std::sync::MutexGuard<'_, MemorySegments> {
        self.0.lock().unwrap()
    }

    pub(crate) fn segments_now(&self) -> BTreeMap<u64, Vec<u8>> {
        self.kept().segments.clone()
    }

    pub(crate) fn replace(&self, segments: BTreeMap<u64, Vec<u8>>) {
        self.kept().segments = segments;
    }

    /// As the next broker finds it.
    pub(crate) fn recovered(&self) -> Recovered {
        recover(&mut self.clone()).unwrap()
    }
}

impl Writer for MemoryDisk {
    fn is_idle(&self) -> bool {
        true
    }
    fn submit(&mut self, batch: Batch) {
        crate::journal::store_batch(self, &batch).unwrap();
        self.kept().stored = batch.number;
    }
    fn stored(&self) -> u64 {
        self.kept().stored
    }
    fn failure(&self) -> Option<String> {
        None
    }
}

impl Disk for MemoryDisk {
    fn segments(&mut self) -> io::Result<Vec<u64>> {
        Ok(self.kept().segments.keys().copied().collect())
    }
    fn read(&mut self, segment: u64) -> io::Result<Vec<u8>> {
        Ok(self.kept().segments[&segment].clone())
    }
    fn append(&mut self, segment: u64, bytes: &[u8]) -> io::Result<()> {
        self.kept().segments.entry(segment).or_default().extend_from_slice(bytes);
        Ok(())
    }
    fn sync(&mut self) -> io::Result<()> {
        Ok(())
    }
    fn remove(&mut self, segment: u64) -> io::Result<()> {
        self.kept().segments.remove(&segment);
        Ok(())
    }
}

/// Flags of `queue.declare`.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct QueueFlags {
    pub(crate) durable: bool,
    pub(crate) exclusive: bool,
    pub(crate) auto_delete: bool,
}

pub(crate) fn name(text: &str) -> ShortStr<'_> {
    ShortStr::cut(text)
}

pub(crate) fn declare(queue: &str, flags: QueueFlags) -> Method<'_> {
    declare_with(queue, flags, Table::default())
}

pub(crate) fn declare_with<'a>(queue: &'a str, flags: QueueFlags, arguments: Table<'a>) -> Method<'a> {
    let QueueFlags { durable, exclusive, auto_delete } = flags;
    let queue = name(queue);
    Method::QueueDeclare {
        reserved_1: 0,
        queue,
        passive: false,
        durable,
        exclusive,
        auto_delete,
        no_wait: false,
        arguments,
    }
}

/// Flags of `exchange.declare`.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ExchangeFlags {
    pub(crate) passive: bool,
    pub(crate) durable: bool,
    pub(crate) auto_delete: bool,
    pub(crate) no_wait: bool,
}

pub(crate) fn exchange<'a>(exchange: &'a str, kind: &'a str) -> Method<'a> {
    exchange_with(exchange, kind, ExchangeFlags::default(), Table::default())
}

pub(crate) fn exchange_with<'a>(
    exchange: &'a str,
    kind: &'a str,
    flags: ExchangeFlags,
    arguments: Table<'a>,
) -> Method<'a> {
    let ExchangeFlags { passive, durable, auto_delete, no_wait } = flags;
    Method::ExchangeDeclare {
        reserved_1: 0,
        exchange: name(exchange),
        kind: name(kind),
        passive,
        durable,
        auto_delete,
        internal: false,
        no_wait,
        arguments,
    }
}

pub(crate) fn delete_queue(queue: &str) -> Method<'_> {
    let queue = name(queue);
    Method::QueueDelete { reserved_1: 0, queue, if_unused: false, if_empty: false, no_wait: false }
}

pub(crate) fn bind<'a>(queue: &'a str, exchange: &'a str, key: &'a str) -> Method<'a> {
    let (queue, exchange, routing_key) = (name(queue), name(exchange), name(key));
    Method::QueueBind {
        reserved_1: 0,
        queue,
        exchange,
        routing_key,
        no_wait: false,
        arguments: Table::default(),
    }
}

pub(crate) fn unbind<'a>(queue: &'a str, exchange: &'a str, key: &'a str) -> Method<'a> {
    let (queue, exchange, routing_key) = (name(queue), name(exchange), name(key));
    Method::QueueUnbind { reserved_1: 0, queue, exchange, routing_key, arguments: Table::default() }
}

/// Binds a queue to a headers exchange.
pub(crate) fn bind_with<'a>(queue: &'a str, exchange: &'a str, arguments: Table<'a>) -> Method<'a> {
    let (queue, exchange, routing_key) = (name(queue), name(exchange), name(""));
    Method::QueueBind { reserved_1: 0, queue, exchange, routing_key, no_wait: false, arguments }
}

/// Binds an exchange to another one.
pub(crate) fn bind_exchange<'a>(destination: &'a str, source: &'a str, key: &'a str) -> Method<'a> {
    Method::ExchangeBind {
        reserved_1: 0,
        destination: name(destination),
        source: name(source),
        routing_key: name(key),
        no_wait: false,
        arguments: Table::default(),
    }
}

/// Properties with headers, and with an expiration where it is not empty.
pub(crate) fn properties(headers: &TableBuilder, expiration: &str) -> Vec<u8> {
    let ends = if expiration.is_empty() {
        vec![0, 0]
    } else {
        [&[0x01, 0, u8::try_from(expiration.len()).unwrap()], expiration.as_bytes()].concat()
    };
    Properties::from_bytes(&ends).with_headers(headers.as_table(), true).unwrap()
}

/// A message that a client was sent.
#[derive(Debug)]
pub(crate) struct Content {
    properties: Vec<u8>,
    pub(crate) body: String,
}

impl Content {
    pub(crate) fn for_broker(&self) -> tilemark_amqp::BrokerProperties<'_> {
        Properties::from_bytes(&self.properties).for_broker().unwrap()
    }

    /// The headers as they print, but for times.
    pub(crate) fn headers(&self) -> Vec<String> {
        printed(self.for_broker().headers)
    }
}

fn printed(table: Table<'_>) -> Vec<String> {
    let entries = table.entries().filter(|(name, _)| *name != b"time");
    entries
        .map(|(name, value)| format!("{}={}", String::from_utf8_lossy(name), printed_value(value)))
        .collect()
}

fn printed_value(value: Value<'_>) -> String {
    match value {
        Value::Bytes(text) => String::from_utf8_lossy(text).into_owned(),
        Value::Integer(number) => number.to_string(),
        Value::Table(table) => format!("{{{}}}", printed(table).join(" ")),
        Value::Array(values) => {
            format!("[{}]", values.values().map(printed_value).collect::<Vec<_>>().join(" "))
        }
        other => format!("{other:?}"),
    }
}

pub(crate) fn consume<'a>(queue: &'a str, tag: &'a str, no_ack: bool) -> Method<'a> {
    Method::BasicConsume {
        reserved_1: 0,
        queue: name(queue),
        consumer_tag: name(tag),
        no_local: false,
        no_ack,
        exclusive: false,
        no_wait: false,
        arguments: Table::default(),
    }
}

pub(crate) fn get(queue: &str, no_ack: bool) -> Method<'_> {
    Method::BasicGet { reserved_1: 0, queue: name(queue), no_ack }
}

pub(crate) fn prefetch(count: u16) -> Method<'static> {
    Method::BasicQos { prefetch_size: 0, prefetch_count: count, global: false }
}

pub(crate) fn ack(delivery_tag: u64) -> Method<'static> {
    Method::BasicAck { delivery_tag, multiple: false }
}

/// The bytes of a publish.
pub(crate) fn publish(
    channel: u16,
    exchange: &str,
    key: &str,
    properties: Properties<'_>,
    body: &[u8],
) -> Vec<u8> {
    publish_as(channel, exchange, key, properties, body, false)
}

pub(crate) fn publish_as(
    channel: u16,
    exchange: &str,
    key: &str,
    properties: Properties<'_>,
    body: &[u8],
    mandatory: bool,
) -> Vec<u8> {
    let mut wire = Vec::new();
    let (exchange, routing_key) = (name(exchange), name(key));
    let method = Method::BasicPublish { reserved_1: 0, exchange, routing_key, mandatory, immediate: false };
    put_method(&mut wire, channel, &method);
    put_header(&mut wire, channel, body.len() as u64, properties);
    for part in body.chunks(4000) {
        put_frame(&mut wire, FrameKind::Body, channel, part);
    }
    wire
}

impl Lab {
    pub(crate) fn new() -> Self {
        Self::with(&Config::new("127.0.0.1:0".parse().unwrap()))
    }

    pub(crate) fn with(config: &Config) -> Self {
        let now = Instant::now();
        Self { engine: BrokerCore::new(config, now), now }
    }

    /// A peer that has said nothing yet.
    pub(crate) fn peer(&mut self) -> ConnectionId {
        self.engine.connect(Origin::ThisMachine)
    }

    /// A client that is logged in and has channel 1 open.
    pub(crate) fn client(&mut self) -> ConnectionId {
        let id = self.peer();
        self.log_in(id, "guest", "guest");
        self.send(id, 1, &Method::ChannelOpen { reserved_1: name("") });
        assert!(self.hear(id).last().is_some_and(|said| said.contains("ChannelOpenOk")));
        id
    }

    pub(crate) fn log_in(&mut self, id: ConnectionId, user: &str, password: &str) {
        let capabilities = tilemark_amqp::TableBuilder::new()
            .truth("connection.blocked", true)
            .truth("consumer_cancel_notify", true)
            .truth("authentication_failure_close", true);
        let properties = tilemark_amqp::TableBuilder::new().table("capabilities", &capabilities);
        self.bytes(id, &PROTOCOL_HEADER);
        let response = format!("\0{user}\0{password}");
        let start_ok = Method::ConnectionStartOk {
            client_properties: properties.as_table(),
            mechanism: name("PLAIN"),
            response: LongStr(response.as_bytes()),
            locale: name("en_US"),
        };
        self.send(id, 0, &start_ok);
        self.send(id, 0, &Method::ConnectionTuneOk { channel_max: 0, frame_max: 0, heartbeat: 10 });
        let open =
            Method::ConnectionOpen { virtual_host: name("/"), reserved_1: name(""), reserved_2: false };
        self.send(id, 0, &open);
    }

    /// Sends bytes; returns how many were used.
    pub(crate) fn bytes(&mut self, id: ConnectionId, bytes: &[u8]) -> usize {
        self.engine.heard_from(id);
        let used = self.engine.receive(id, bytes);
        self.engine.turn();
        used
    }

    pub(crate) fn send(&mut self, id: ConnectionId, channel: u16, method: &Method<'_>) {
        let mut wire = Vec::new();
        put_method(&mut wire, channel, method);
        self.bytes(id, &wire);
    }

    /// Publishes a transient message to a queue by the default exchange.
    pub(crate) fn put(&mut self, id: ConnectionId, queue: &str, body: &str) {
        self.bytes(id, &publish(1, "", queue, Properties::NONE, body.as_bytes()));
    }

    /// What the broker has said: methods as they print, bodies as `= text`. A method of channel 0 has no prefix.
    pub(crate) fn hear(&mut self, id: ConnectionId) -> Vec<String> {
        self.engine.turn();
        let Some(outbox) = self.engine.outbox(id) else { return vec!["gone".into()] };
        let wire = outbox.unsent().to_vec();
        self.engine.was_sent(id, wire.len());
        self.engine.turn();
        let mut rest = &wire[..];
        let mut said = Vec::new();
        while let Ok(Some((frame, used))) = decode_frame(rest, 1 << 30) {
            rest = &rest[used..];
            match frame.kind {
                FrameKind::Method => said.push(format!("{:?}", Method::decode(frame.payload).unwrap())),
                FrameKind::Body => said.push(format!("= {}", String::from_utf8_lossy(frame.payload))),
                FrameKind::Heartbeat => said.push("heartbeat".into()),
                FrameKind::Header => {}
            }
        }
        said
    }

    /// Takes a message of a queue, which may be empty.
    pub(crate) fn take(&mut self, id: ConnectionId, queue: &str) -> Option<Content> {
        self.hear(id);
        self.send(id, 1, &get(queue, true));
        let outbox = self.engine.outbox(id)?;
        let wire = outbox.unsent().to_vec();
        self.engine.was_sent(id, wire.len());
        let (mut rest, mut properties, mut body) = (&wire[..], None, String::new());
        while let Ok(Some((frame, used))) = decode_frame(rest, 1 << 30) {
            rest = &rest[used..];
            match frame.kind {
                FrameKind::Header => {
                    let header = ContentHeader::decode(frame.payload).unwrap();
                    properties = Some(header.properties.as_bytes().to_vec());
                }
                FrameKind::Body => body.push_str(&String::from_utf8_lossy(frame.payload)),
                _ => {}
            }
        }
        properties.map(|properties| Content { properties, body })
    }

    /// Only the bodies of what the broker has said.
    pub(crate) fn bodies(&mut self, id: ConnectionId) -> Vec<String> {
        self.hear(id).iter().filter_map(|said| said.strip_prefix("= ").map(String::from)).collect()
    }

    /// Sends a method and returns what the broker says then.
    pub(crate) fn ask(&mut self, id: ConnectionId, method: &Method<'_>) -> Vec<String> {
        self.hear(id);
        self.send(id, 1, method);
        self.hear(id)
    }

    /// Sends a method whose answer must name this code.
    pub(crate) fn refused(&mut self, id: ConnectionId, method: &Method<'_>, code: u16) -> String {
        let said = self.ask(id, method).join("\n");
        assert!(said.contains(&format!("reply_code: {code},")), "expected {code}, got {said}");
        said
    }

    /// Lets time pass.
    pub(crate) fn pass(&mut self, time: Duration) {
        self.now += time;
        self.engine.set_now(self.now);
        self.engine.tick();
        self.engine.turn();
    }
}
