//! Messages on their way in.

use std::collections::HashMap;

use tilemark_amqp::{
    BrokerProperties, ContentHeader, Method, Properties, PublishArguments, ReplyCode, ShortStr, Table,
    TableBuilder, Value, WholePublish, put_content, put_header_payload, put_method,
};

use super::BrokerCore;
use super::consume::route_names;
use super::exchanges::no_exchange;
use super::memory::BACKLOG_BYTES;
use super::queues::LONGEST_MS;
use crate::channel::{Channel, Mode, PendingPublish, PublishOptions, RouteCache, Stage};
use crate::confirms::Verdict;
use crate::connection::{Connection, Phase};
use crate::exception::{Exception, shown};
use crate::ids::{ConnectionId, QueueId};
use crate::journal::NewMessage;
use crate::queue::{Entry, NEVER, Overflow};
use crate::store::{Layout, MessageId};
use crate::topology::{Routing, Topology};

/// The channel of a content frame and the name of the connection's user, both borrowed at once; `None` when the channel is being closed and
/// everything on it is ignored.
#[inline]
fn channel_of(connection: &mut Connection, number: u16) -> Result<Option<(&mut Channel, &[u8])>, Exception> {
    match connection.phase {
        Phase::Running => {}
        Phase::Closing | Phase::Ended => return Ok(None),
        _ => {
            return Err(Exception::new(
                ReplyCode::CommandInvalid,
                "content before the connection was opened",
            ));
        }
    }
    match connection.channels.get_mut(usize::from(number)).and_then(Option::as_deref_mut) {
        Some(channel) if channel.closing => Ok(None),
        Some(channel) => Ok(Some((channel, &connection.user))),
        None => Err(Exception::new(ReplyCode::ChannelError, format!("channel {number} is not open"))),
    }
}

/// What a message asks for is done or refused by its name, and never passed over. Returns its time to live, milliseconds.
#[inline]
fn check_properties(properties: &BrokerProperties<'_>, user: &[u8]) -> Result<u64, Exception> {
    if let Some(claimed) = properties.user_id
        && claimed != user
    {
        let text = format!("user-id is '{}', and the connection's user is '{}'", shown(claimed), shown(user));
        return Err(Exception::new(ReplyCode::PreconditionFailed, text));
    }
    properties.expiration.map_or(Ok(NEVER), |digits| {
        ttl_of(digits).ok_or_else(|| {
            let text =
                format!("expiration '{}' is not a number of milliseconds up to {LONGEST_MS}", shown(digits));
            Exception::new(ReplyCode::PreconditionFailed, text)
        })
    })
}

/// A time to live, milliseconds, as messages carry it: digits.
pub(super) fn ttl_of(digits: &[u8]) -> Option<u64> {
    let are_digits = digits.iter().all(u8::is_ascii_digit);
    let ms = std::str::from_utf8(digits).ok().filter(|_| are_digits)?.parse().ok()?;
    (ms <= LONGEST_MS).then_some(ms)
}

/// The routing keys in headers `CC` and `BCC`, which a message has in addition to its own.
pub(super) fn more_keys<'a>(headers: Table<'a>) -> impl Iterator<Item = &'a [u8]> {
    let arrays = ["CC", "BCC"].into_iter().filter_map(move |name| match headers.get(name) {
        Some(Value::Array(keys)) => Some(keys),
        _ => None,
    });
    arrays.flat_map(|keys| {
        keys.values().filter_map(|key| if let Value::Bytes(key) = key { Some(key) } else { None })
    })
}

fn check_more_keys(headers: Table<'_>) -> Result<bool, Exception> {
    let mut has_some = false;
    for name in ["CC", "BCC"] {
        let Some(value) = headers.get(name) else { continue };
        has_some = true;
        let is_key = |value: Value<'_>| matches!(value, Value::Bytes(key) if key.len() <= 255);
        if !matches!(value, Value::Array(keys) if keys.values().all(is_key)) {
            let text = format!("header '{name}' is not an array of routing keys");
            return Err(Exception::new(ReplyCode::PreconditionFailed, text));
        }
    }
    Ok(has_some)
}

/// Adds the queues that an exchange leads to; the default exchange, which has no name, leads to the queue of the key's name.
fn add_targets(
    topology: &Topology,
    queue_names: &HashMap<Box<[u8]>, QueueId>,
    (exchange, key): (&[u8], &[u8]),
    headers: Table<'_>,
    targets: &mut Vec<QueueId>,
) -> Routing {
    if exchange.is_empty() {
        targets.extend(queue_names.get(key));
        return Routing::default();
    }
    topology
        .find(exchange)
        .map_or_else(Routing::default, |found| topology.route(found, key, headers, targets))
}

/// Finds the queues of a message, asking each exchange once for each of its routing keys. Those of its route alone go into the channel's
/// cache; where its headers decide too, its own go into the assembly. Returns the steps that it took.
fn find_targets(
    (topology, queue_names): (&Topology, &HashMap<Box<[u8]>, QueueId>),
    generation: u64,
    channel: &mut Channel,
    headers: Table<'_>,
) -> u64 {
    let RouteCache { generation: known, route, targets: known_targets, by_headers } = &mut channel.route;
    let (exchange, key) = route_names(route);
    let mut steps = 0;
    let mut add = |key: &[u8], targets: &mut Vec<QueueId>| {
        let routing = add_targets(topology, queue_names, (exchange.as_bytes(), key), headers, targets);
        steps += routing.looked_at;
        routing.by_headers
    };
    if *known != generation || *by_headers {
        known_targets.clear();
        *by_headers = add(key.as_bytes(), known_targets);
        *known = generation;
    }
    let mut more = more_keys(headers).peekable();
    if *by_headers || more.peek().is_some() {
        let mut targets = known_targets.clone();
        for key in more {
            add(key, &mut targets);
        }
        targets.sort_unstable();
        targets.dedup();
        channel.assembly.own_targets = Some(targets);
    }
    steps + known_targets.len() as u64
}

/// The header's payload without header `BCC`, which nobody is to see.
fn without_bcc(header: &ContentHeader<'_>, headers: Table<'_>) -> Result<Vec<u8>, Exception> {
    let kept = headers.raw_entries().filter(|(name, _)| *name != b"BCC");
    let kept = kept.fold(TableBuilder::new(), |table, (_, entry)| table.raw_entry(entry));
    let properties = header.properties.with_headers(kept.as_table(), true)?;
    let mut payload = Vec::new();
    put_header_payload(&mut payload, header.body_size, Properties::from_bytes(&properties));
    Ok(payload)
}

fn unexpected(what: &str) -> Exception {
    Exception::new(ReplyCode::UnexpectedFrame, format!("{what} where it was not expected"))
}

impl BrokerCore {
    #[inline]
    pub(super) fn publish_method(
        &mut self,
        id: ConnectionId,
        number: u16,
        payload: &[u8],
    ) -> Result<(), Exception> {
        let Some(connection) = self.connections.get_mut(id) else { return Ok(()) };
        connection.has_published = true;
        let Some((channel, _)) = channel_of(connection, number)? else { return Ok(()) };
        let arguments = PublishArguments::decode(payload)?;
        if channel.assembly.stage != Stage::Idle {
            return Err(unexpected("basic.publish"));
        }
        if arguments.immediate {
            return Err(Exception::new(ReplyCode::NotImplemented, "immediate messages are not supported"));
        }
        let cache = &mut channel.route;
        if cache.generation != self.routing_generation || cache.route != arguments.route {
            // Where it leads is found when the message's headers are here: an exchange may ask for them.
            cache.generation = 0;
            cache.route.clear();
            cache.route.extend_from_slice(arguments.route);
            if !arguments.exchange.is_empty() {
                let exchange = self.topology.named(arguments.exchange.as_bytes());
                let exchange = exchange.ok_or_else(|| no_exchange(arguments.exchange))?;
                if exchange.settings.internal {
                    let text = format!("exchange '{}' is internal", arguments.exchange);
                    return Err(Exception::new(ReplyCode::AccessRefused, text));
                }
            }
        }
        let assembly = &mut channel.assembly;
        assembly.stage = Stage::Header;
        assembly.mandatory = arguments.mandatory;
        assembly.bytes.clear();
        assembly.bytes.extend_from_slice(arguments.route);
        Ok(())
    }

    #[inline]
    pub(super) fn content_header(
        &mut self,
        id: ConnectionId,
        number: u16,
        payload: &[u8],
    ) -> Result<(), Exception> {
        let Some(connection) = self.connections.get_mut(id) else { return Ok(()) };
        let Some((channel, user)) = channel_of(connection, number)? else { return Ok(()) };
        if channel.assembly.stage != Stage::Header {
            return Err(unexpected("a content header"));
        }
        let header = ContentHeader::decode(payload)?;
        let properties = header.properties.for_broker()?;
        let ttl_ms =
            check_properties(&properties, user).inspect_err(|_| channel.assembly.stage = Stage::Idle)?;
        let persistent = properties.persistent;
        let without_bcc;
        let mut payload = payload;
        let has_more_keys = !properties.headers.as_bytes().is_empty()
            && check_more_keys(properties.headers).inspect_err(|_| channel.assembly.stage = Stage::Idle)?;
        let is_routed = channel.route.generation == self.routing_generation && !channel.route.by_headers;
        if has_more_keys || !is_routed {
            let places = (&self.topology, &self.queue_names);
            self.steps += find_targets(places, self.routing_generation, channel, properties.headers);
        }
        if has_more_keys && properties.headers.get("BCC").is_some() {
            without_bcc = self::without_bcc(&header, properties.headers)?;
            payload = &without_bcc;
        }
        if header.body_size > self.limits.largest_message_bytes {
            let limit = self.limits.largest_message_bytes;
            let text = format!("a message of {} bytes is larger than the limit of {limit}", header.body_size);
            channel.assembly.stage = Stage::Idle;
            return Err(Exception::new(ReplyCode::ContentTooLarge, text));
        }
        let assembly = &mut channel.assembly;
        assembly.layout = Layout::of(&assembly.bytes, payload);
        assembly.persistent = persistent;
        assembly.ttl_ms = ttl_ms;
        assembly.bytes.extend_from_slice(payload);
        assembly.stage = Stage::Body(header.body_size);
        if header.body_size == 0 {
            return self.complete(id, number, &[]);
        }
        self.assembling_bytes += assembly.bytes.len() as u64;
        Ok(())
    }

    #[inline]
    pub(super) fn content_body(
        &mut self,
        id: ConnectionId,
        number: u16,
        payload: &[u8],
    ) -> Result<(), Exception> {
        let Some(connection) = self.connections.get_mut(id) else { return Ok(()) };
        let Some((channel, _)) = channel_of(connection, number)? else { return Ok(()) };
        let assembly = &mut channel.assembly;
        let Stage::Body(missing) = assembly.stage else { return Err(unexpected("a content body")) };
        let length = payload.len() as u64;
        if length == missing {
            self.assembling_bytes -= assembly.bytes.len() as u64;
            return self.complete(id, number, payload);
        }
        if length > missing {
            return Err(unexpected("a content body that is longer than its header said"));
        }
        if self.assembling_bytes + length > self.limits.memory_bytes / 2 {
            let text = "unfinished messages take half of the broker's memory";
            return Err(Exception::new(ReplyCode::ResourceError, text));
        }
        self.assembling_bytes += length;
        assembly.stage = Stage::Body(missing - length);
        assembly.bytes.extend_from_slice(payload);
        Ok(())
    }

    /// Takes a complete message that goes where the channel's previous message went. `None` for any other message, which is then read
    /// frame by frame.
    #[inline]
    pub(super) fn publish_at_once(
        &mut self,
        id: ConnectionId,
        publish: &WholePublish<'_>,
    ) -> Option<Result<(), Exception>> {
        let connection = self.connections.get_mut(id)?;
        let (channel, _) = channel_of(connection, publish.channel).ok()??;
        let route = &channel.route;
        let is_routed = route.generation == self.routing_generation
            && !route.by_headers
            && route.route == publish.arguments.route;
        let is_plain = channel.assembly.stage == Stage::Idle && !publish.arguments.immediate;
        if !is_routed || !is_plain || publish.body.len() as u64 > self.limits.largest_message_bytes {
            return None;
        }
        connection.has_published = true;
        #[cfg(test)]
        {
            self.taken_at_once += 1;
        }
        let layout = Layout::of(publish.arguments.route, publish.header);
        let message = self.store.append(layout, [publish.arguments.route, publish.header, publish.body]);
        let options = PublishOptions {
            persistent: publish.persistent,
            mandatory: publish.arguments.mandatory,
            ttl_ms: NEVER,
        };
        Some(self.publish(id, publish.channel, message, None, options))
    }

    /// A message has come in: `rest` is what of it is not in the assembly yet.
    #[inline]
    fn complete(&mut self, id: ConnectionId, number: u16, rest: &[u8]) -> Result<(), Exception> {
        let Some(connection) = self.connections.get_mut(id) else { return Ok(()) };
        let Some(channel) = connection.channel_mut(number) else { return Ok(()) };
        let assembly = &mut channel.assembly;
        assembly.stage = Stage::Idle;
        let message = self.store.append(assembly.layout, [&assembly.bytes, rest]);
        if assembly.bytes.capacity() > KEPT_ASSEMBLY_BYTES {
            assembly.bytes = Vec::new();
        }
        let options = PublishOptions {
            persistent: assembly.persistent,
            mandatory: assembly.mandatory,
            ttl_ms: assembly.ttl_ms,
        };
        let own_targets = assembly.own_targets.take();
        self.publish(id, number, message, own_targets, options)
    }

    /// Places a message of a peer, or keeps it for the commit. Without targets of its own it has those of its channel's route.
    #[inline]
    fn publish(
        &mut self,
        id: ConnectionId,
        number: u16,
        message: MessageId,
        own_targets: Option<Vec<QueueId>>,
        options: PublishOptions,
    ) -> Result<(), Exception> {
        let Some(connection) = self.connections.get_mut(id) else { return Ok(()) };
        let Some(channel) = connection.channel_mut(number) else { return Ok(()) };
        self.statistics.published += 1;
        if let Mode::Transaction(transaction) = &mut channel.mode {
            let targets = own_targets.unwrap_or_else(|| channel.route.targets.clone());
            let bytes = (size_of::<PendingPublish>() * 2 + targets.len() * size_of::<QueueId>()) as u64;
            transaction.bytes += bytes;
            self.transaction_bytes += bytes;
            self.steps += targets.len() as u64;
            transaction.publishes.push(PendingPublish { message, targets, options });
            return Ok(());
        }
        let wants_answer = matches!(channel.mode, Mode::Confirm(_));
        let is_own = own_targets.is_some();
        let targets = own_targets.unwrap_or_else(|| std::mem::take(&mut channel.route.targets));
        let result = self.place(id, number, message, &targets, options);
        if let Some(channel) = self.channel(id, number) {
            if !is_own {
                channel.route.targets = targets;
            }
            if wants_answer && let Ok(verdict) = result {
                channel.note(verdict);
                self.answer_later(id, number);
            }
        }
        result.map(|_| ())
    }

    /// Puts a message into its queues, or back to its publisher. Takes over the reference of the caller.
    #[inline]
    pub(super) fn place(
        &mut self,
        id: ConnectionId,
        number: u16,
        message: MessageId,
        targets: &[QueueId],
        options: PublishOptions,
    ) -> Result<Verdict, Exception> {
        if targets.is_empty() {
            if options.mandatory {
                self.return_unroutable(id, number, message);
            }
            self.store.release(message);
            return Ok(Verdict::Stored(0));
        }
        self.put_into_queues(Some(id), message, targets, options)
    }

    /// Puts a message into its queues. Takes over the reference of the caller.
    #[inline]
    pub(super) fn put_into_queues(
        &mut self,
        publisher: Option<ConnectionId>,
        message: MessageId,
        targets: &[QueueId],
        options: PublishOptions,
    ) -> Result<Verdict, Exception> {
        let length = self.store.length(message);
        self.steps += targets.len() as u64;
        self.last_serial += 1;
        let serial = self.last_serial;
        let verdict = self.journal_message(message, targets, options, serial);
        if !matches!(verdict, Ok(Verdict::Stored(_))) {
            self.store.release(message);
            return verdict;
        }
        for &target in targets {
            let Some(queue) = self.queues.get_mut(target) else { continue };
            let journaled = options.persistent && self.journal.is_some() && queue.settings.survives_restart();
            self.store.retain(message);
            let ttl_ms = options.ttl_ms.min(queue.settings.message_ttl_ms);
            let expires_ms = self.clock.now_ms().saturating_add(ttl_ms);
            queue.push(Entry { serial, message, redelivered: false, journaled, expires_ms }, length);
            let is_behind = queue.ready_bytes > BACKLOG_BYTES && !queue.consumers.is_empty();
            let is_over_limit = queue.is_over_limit();
            if is_behind {
                self.note_backlog(publisher, target);
            }
            if is_over_limit {
                self.drop_until_within_limit(target);
            }
            if ttl_ms != NEVER {
                self.arm(target);
            }
            self.mark_dirty(target);
        }
        self.store.release(message);
        verdict
    }

    /// The queues that an exchange leads to.
    pub(super) fn targets_of(&self, exchange: &[u8], key: &[u8], headers: Table<'_>) -> Vec<QueueId> {
        let mut targets = Vec::new();
        add_targets(&self.topology, &self.queue_names, (exchange, key), headers, &mut targets);
        targets
    }

    /// Refuses what a full queue refuses, and writes to the journal what durable queues will hold.
    #[inline]
    fn journal_message(
        &mut self,
        message: MessageId,
        targets: &[QueueId],
        options: PublishOptions,
        serial: u64,
    ) -> Result<Verdict, Exception> {
        let mut durable = Vec::new();
        let mut ends = options.ttl_ms != NEVER;
        for &target in targets {
            let Some(queue) = self.queues.get(target) else { continue };
            if queue.settings.overflow == Overflow::RejectPublish
                && queue.would_be_over_limit(self.store.length(message))
            {
                return Ok(Verdict::Refused);
            }
            if options.persistent && queue.settings.survives_restart() {
                durable.push(queue.journal_id);
                ends |= queue.settings.message_ttl_ms != NEVER;
            }
        }
        if durable.is_empty() {
            return Ok(Verdict::Stored(0));
        }
        self.check_durable("a message")?;
        let Some(journal) = &mut self.journal else { return Ok(Verdict::Stored(0)) };
        let published_ms = if ends { self.clock.wall_ms() } else { 0 };
        let new = NewMessage { serial, id: message, queues: &durable, published_ms };
        Ok(Verdict::Stored(journal.publish(&self.store, new)))
    }

    /// A mandatory message found no queue.
    #[cold]
    fn return_unroutable(&mut self, id: ConnectionId, number: u16, message: MessageId) {
        let Some(connection) = self.connections.get_mut(id) else { return };
        let parts = self.store.parts(message);
        let (exchange, routing_key) = route_names(parts.route);
        let returned = Method::BasicReturn {
            reply_code: ReplyCode::NoRoute.number(),
            reply_text: ShortStr::cut("NO_ROUTE"),
            exchange,
            routing_key,
        };
        let frame_max = connection.frame_max;
        let out = connection.outbox.buffer();
        put_method(out, number, &returned);
        put_content(out, number, parts.header, parts.body, frame_max);
        self.touch(id);
    }
}

/// Buffers of channels that grew beyond this are freed.
const KEPT_ASSEMBLY_BYTES: usize = 64 * 1024;
