//! Messages on their way in.

use tilemark_amqp::{
    ContentHeader, Method, PublishArguments, ReplyCode, ShortStr, Wishes, put_content, put_method,
};

use super::Engine;
use super::consume::route_names;
use super::exchanges::no_exchange;
use super::memory::BACKLOG_BYTES;
use crate::channel::{Channel, Mode, PendingPublish, Stage};
use crate::confirms::Verdict;
use crate::connection::{Connection, ConnectionId, Phase};
use crate::exception::{Exception, shown};
use crate::journal::NewMessage;
use crate::queue::{Entry, Overflow, QueueId};
use crate::store::{Layout, MessageId};

/// The channel of a content frame; `None` when it is being closed and everything on it is ignored.
fn channel_of(connection: &mut Connection, number: u16) -> Result<Option<&mut Channel>, Exception> {
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
    match connection.channel_mut(number) {
        Some(channel) if channel.closing => Ok(None),
        Some(channel) => Ok(Some(channel)),
        None => Err(Exception::new(ReplyCode::ChannelError, format!("channel {number} is not open"))),
    }
}

/// As [`channel_of`], with the name of the connection's user.
fn channel_and_user(
    connection: &mut Connection,
    number: u16,
) -> Result<Option<(&mut Channel, &[u8])>, Exception> {
    if channel_of(connection, number)?.is_none() {
        return Ok(None);
    }
    let channel = connection.channels[usize::from(number)].as_deref_mut();
    Ok(channel.map(|channel| (channel, &*connection.user)))
}

/// What a message asks for is done or refused by its name, and never passed over.
#[inline]
fn check_wishes(wishes: &Wishes<'_>, user: &[u8]) -> Result<(), Exception> {
    let refused = |text: String| Err(Exception::new(ReplyCode::NotImplemented, text));
    if let Some(claimed) = wishes.user_id
        && claimed != user
    {
        let text = format!("user-id is '{}', and the connection's user is '{}'", shown(claimed), shown(user));
        return Err(Exception::new(ReplyCode::PreconditionFailed, text));
    }
    if let Some(expiration) = wishes.expiration {
        return refused(format!("expiration '{}' of a message is not supported", shown(expiration)));
    }
    if wishes.priority != 0 {
        return refused(format!("priority {} of a message is not supported, only 0", wishes.priority));
    }
    let more_keys = wishes.headers.entries().find(|(name, _)| matches!(*name, b"CC" | b"BCC"));
    if let Some((name, _)) = more_keys {
        return refused(format!("header '{}' of a message is not supported", shown(name)));
    }
    Ok(())
}

fn unexpected(what: &str) -> Exception {
    Exception::new(ReplyCode::UnexpectedFrame, format!("{what} where it was not expected"))
}

impl Engine {
    #[inline]
    pub(super) fn publish_method(
        &mut self,
        id: ConnectionId,
        number: u16,
        payload: &[u8],
    ) -> Result<(), Exception> {
        let Some(connection) = self.connections.get_mut(id) else { return Ok(()) };
        connection.has_published = true;
        let Some(channel) = channel_of(connection, number)? else { return Ok(()) };
        let arguments = PublishArguments::decode(payload)?;
        if channel.assembly.stage != Stage::Idle {
            return Err(unexpected("basic.publish"));
        }
        if arguments.immediate {
            return Err(Exception::new(ReplyCode::NotImplemented, "immediate messages are not supported"));
        }
        let cache = &mut channel.route;
        if cache.generation != self.routing_generation || cache.route != arguments.route {
            cache.generation = 0;
            cache.targets.clear();
            cache.route.clear();
            cache.route.extend_from_slice(arguments.route);
            if arguments.exchange.is_empty() {
                cache.targets.extend(self.queue_names.get(arguments.routing_key.as_bytes()));
            } else {
                let exchange = self.exchanges.get(arguments.exchange.as_bytes());
                let exchange = exchange.ok_or_else(|| no_exchange(arguments.exchange))?;
                if exchange.settings.internal {
                    let text = format!("exchange '{}' is internal", arguments.exchange);
                    return Err(Exception::new(ReplyCode::AccessRefused, text));
                }
                exchange.route(arguments.routing_key.as_bytes(), &mut cache.targets);
            }
            cache.generation = self.routing_generation;
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
        let Some((channel, user)) = channel_and_user(connection, number)? else { return Ok(()) };
        if channel.assembly.stage != Stage::Header {
            return Err(unexpected("a content header"));
        }
        let header = ContentHeader::decode(payload)?;
        let wishes = header.properties.wishes()?;
        if let Err(exception) = check_wishes(&wishes, user) {
            channel.assembly.stage = Stage::Idle;
            return Err(exception);
        }
        let persistent = wishes.persistent;
        if header.body_size > self.limits.largest_message_bytes {
            let limit = self.limits.largest_message_bytes;
            let text = format!("a message of {} bytes is larger than the limit of {limit}", header.body_size);
            channel.assembly.stage = Stage::Idle;
            return Err(Exception::new(ReplyCode::ContentTooLarge, text));
        }
        let assembly = &mut channel.assembly;
        assembly.layout = Layout {
            route: u16::try_from(assembly.bytes.len()).expect("two short strings"),
            header: u32::try_from(payload.len()).expect("a frame's payload"),
        };
        assembly.persistent = persistent;
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
        let Some(channel) = channel_of(connection, number)? else { return Ok(()) };
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

    /// A message has come in: `rest` is what of it is not in the assembly yet.
    #[inline]
    fn complete(&mut self, id: ConnectionId, number: u16, rest: &[u8]) -> Result<(), Exception> {
        let Some(connection) = self.connections.get_mut(id) else { return Ok(()) };
        let Some(channel) = connection.channel_mut(number) else { return Ok(()) };
        let assembly = &mut channel.assembly;
        assembly.stage = Stage::Idle;
        let message = self.store.append(assembly.layout, &assembly.bytes, rest);
        if assembly.bytes.capacity() > KEPT_ASSEMBLY_BYTES {
            assembly.bytes = Vec::new();
        }
        let (persistent, mandatory) = (assembly.persistent, assembly.mandatory);
        self.statistics.published += 1;
        if let Mode::Transaction(transaction) = &mut channel.mode {
            let targets = channel.route.targets.clone();
            transaction.publishes.push(PendingPublish { message, targets, persistent, mandatory });
            return Ok(());
        }
        let wants_answer = matches!(channel.mode, Mode::Confirm(_));
        let targets = std::mem::take(&mut channel.route.targets);
        let result = self.place(id, number, message, &targets, Wish { persistent, mandatory });
        if let Some(channel) = self.channel(id, number) {
            channel.route.targets = targets;
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
        wish: Wish,
    ) -> Result<Verdict, Exception> {
        if targets.is_empty() {
            if wish.mandatory {
                self.give_back(id, number, message);
            }
            self.store.release(message);
            return Ok(Verdict::Stored(0));
        }
        let length = self.store.length(message);
        self.last_serial += 1;
        let serial = self.last_serial;
        let verdict = self.journal_message(message, targets, wish, serial);
        if !matches!(verdict, Ok(Verdict::Stored(_))) {
            self.store.release(message);
            return verdict;
        }
        for &target in targets {
            let Some(queue) = self.queues.get_mut(target) else { continue };
            let journaled = wish.persistent && self.journal.is_some() && queue.settings.survives_restart();
            self.store.retain(message);
            queue.push(Entry { serial, message, redelivered: false, journaled }, length);
            if queue.ready_bytes > BACKLOG_BYTES && !queue.consumers.is_empty() {
                self.note_backlog(id, target);
            }
            while self.queues.get(target).is_some_and(crate::queue::Queue::is_over_limit) {
                self.drop_head(target);
            }
            self.mark_dirty(target);
        }
        self.store.release(message);
        verdict
    }

    /// Refuses what a full queue refuses, and writes to the journal what durable queues will hold.
    #[inline]
    fn journal_message(
        &mut self,
        message: MessageId,
        targets: &[QueueId],
        wish: Wish,
        serial: u64,
    ) -> Result<Verdict, Exception> {
        let mut durable = Vec::new();
        for &target in targets {
            let Some(queue) = self.queues.get(target) else { continue };
            if queue.settings.overflow == Overflow::RejectPublish
                && queue.would_be_over_limit(self.store.length(message))
            {
                return Ok(Verdict::Refused);
            }
            if wish.persistent && queue.settings.survives_restart() {
                durable.push(queue.journal_id);
            }
        }
        if durable.is_empty() {
            return Ok(Verdict::Stored(0));
        }
        self.check_durable("a message")?;
        let Some(journal) = &mut self.journal else { return Ok(Verdict::Stored(0)) };
        let new = NewMessage { serial, id: message, queues: &durable };
        Ok(Verdict::Stored(journal.publish(&self.store, new)))
    }

    /// A mandatory message found no queue.
    #[cold]
    fn give_back(&mut self, id: ConnectionId, number: u16, message: MessageId) {
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

/// What a publisher wants for a message.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wish {
    pub(super) persistent: bool,
    pub(super) mandatory: bool,
}

/// Buffers of channels that grew beyond this are given back.
const KEPT_ASSEMBLY_BYTES: usize = 64 * 1024;
