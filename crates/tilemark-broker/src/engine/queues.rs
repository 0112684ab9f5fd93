//! Declaring, binding, purging and deleting queues.

use std::time::Duration;

use tilemark_amqp::{Method, ReplyCode, ShortStr, Table, Value};

use super::BrokerCore;
use super::pending::Chore;
use crate::exception::{Exception, Name, shown};
use crate::ids::{ConnectionId, QueueId};
use crate::journal::{Definition, QueueRecord};
use crate::queue::{DeadLetters, Entry, GoneQueue, Overflow, Queue, QueueSettings};

impl BrokerCore {
    /// The queue of that name; the empty name is the last one that the channel declared.
    pub(super) fn find_queue(
        &self,
        id: ConnectionId,
        channel: u16,
        name: ShortStr<'_>,
    ) -> Result<QueueId, Exception> {
        let last =
            self.connections.get(id).and_then(|found| found.channel(channel)).map(|found| &*found.last_queue);
        let wanted = match (name.as_bytes(), last) {
            (b"", Some(last)) if !last.is_empty() => last,
            (b"", _) => {
                let text = "no queue was named and none was declared on this channel";
                return Err(Exception::new(ReplyCode::NotFound, text));
            }
            (name, _) => name,
        };
        let Some(&queue) = self.queue_names.get(wanted) else {
            return Err(Exception::new(ReplyCode::NotFound, format!("no queue '{}'", shown(wanted))));
        };
        match self.queues.get(queue).and_then(|queue| queue.owner) {
            Some(owner) if owner != id => {
                let text = format!("queue '{}' is exclusive to another connection", shown(wanted));
                Err(Exception::new(ReplyCode::ResourceLocked, text))
            }
            _ => Ok(queue),
        }
    }

    pub(super) fn declare_queue(
        &mut self,
        id: ConnectionId,
        channel: u16,
        method: &Method<'_>,
    ) -> Result<(), Exception> {
        let Method::QueueDeclare {
            queue: name,
            passive,
            durable,
            exclusive,
            auto_delete,
            no_wait,
            arguments,
            ..
        } = *method
        else {
            return Ok(());
        };
        if passive && name.is_empty() {
            // Only a declaration that creates can have its name generated.
            return Err(Exception::new(ReplyCode::NotFound, "no queue ''"));
        }
        let queue = if passive || (!name.is_empty() && self.queue_names.contains_key(name.as_bytes())) {
            let queue = self.find_queue(id, channel, name)?;
            if !passive {
                let asked = queue_settings(arguments, [durable, exclusive, auto_delete])?;
                self.check_same(queue, &asked)?;
            }
            queue
        } else {
            let settings = queue_settings(arguments, [durable, exclusive, auto_delete])?;
            self.create_queue(id, name, settings)?
        };
        let Some(found) = self.queues.get_mut(queue) else { return Ok(()) };
        found.unused_since = None;
        let name = found.name.clone();
        let message_count = u32::try_from(found.len()).unwrap_or(u32::MAX);
        let consumer_count = u32::try_from(found.consumers.len()).unwrap_or(u32::MAX);
        let queue = ShortStr::new(&name).expect("names came in as short strings or are generated short");
        self.reply(id, channel, no_wait, Method::QueueDeclareOk { queue, message_count, consumer_count });
        if let Some(channel) = self.channel(id, channel) {
            channel.last_queue = name;
        }
        Ok(())
    }

    fn check_same(&self, queue: QueueId, asked: &QueueSettings) -> Result<(), Exception> {
        let Some(found) = self.queues.get(queue) else { return Ok(()) };
        if found.settings == *asked {
            return Ok(());
        }
        let text = format!("queue '{}' exists: {}", shown(&found.name), found.settings.difference(asked));
        Err(Exception::new(ReplyCode::PreconditionFailed, text))
    }

    fn create_queue(
        &mut self,
        id: ConnectionId,
        name: ShortStr<'_>,
        settings: QueueSettings,
    ) -> Result<QueueId, Exception> {
        if name.as_bytes().starts_with(b"amq.") {
            return Err(Exception::new(ReplyCode::AccessRefused, format!("queue name '{name}' is reserved")));
        }
        self.check_room_for_definition()?;
        let name: Box<[u8]> = match name.as_bytes() {
            b"" => generated_name("amq.gen-"),
            name => name.into(),
        };
        self.last_journal_queue += 1;
        let journal_id = self.last_journal_queue;
        if settings.survives_restart() {
            self.check_durable(&format!("queue '{}'", shown(&name)))?;
            if let Some(journal) = &mut self.journal {
                let settings = settings.clone();
                let record = QueueRecord { id: journal_id, name: name.clone(), settings };
                journal.define(&Definition::Queue(record));
            }
        }
        let is_exclusive = settings.exclusive;
        let mut queue = Queue::new(name.clone(), settings, journal_id);
        queue.owner = is_exclusive.then_some(id);
        let key = self.queues.insert(queue);
        self.queue_names.insert(name, key);
        self.routing_generation += 1;
        if is_exclusive && let Some(connection) = self.connections.get_mut(id) {
            connection.exclusive_queues.insert(key);
        }
        Ok(key)
    }

    pub(super) fn purge_queue(
        &mut self,
        id: ConnectionId,
        channel: u16,
        queue: ShortStr<'_>,
        no_wait: bool,
    ) -> Result<(), Exception> {
        let queue = self.find_queue(id, channel, queue)?;
        let Some(found) = self.queues.get_mut(queue) else { return Ok(()) };
        let (entries, journal_id) = (found.take_all(), found.journal_id);
        let count = u32::try_from(entries.len()).unwrap_or(u32::MAX);
        // The answer is for the queue, which is empty; its memory is free a little later.
        self.start(None, Chore::End { journal_id, left: entries });
        self.reply(id, channel, no_wait, Method::QueuePurgeOk { message_count: count });
        Ok(())
    }

    /// A queue is done with a message, and nobody gets it any more.
    #[inline]
    pub(super) fn end_message(&mut self, journal_id: u64, entry: &Entry) {
        if entry.journaled
            && let Some(journal) = &mut self.journal
        {
            journal.settle(&self.store, journal_id, entry.serial);
        }
        self.store.release(entry.message);
    }

    /// As [`BrokerCore::end_message`], for a queue that goes as a whole: its own record covers all its messages.
    pub(super) fn forget_message(&mut self, journal_id: u64, entry: &Entry) {
        if entry.journaled
            && let Some(journal) = &mut self.journal
        {
            journal.forget(&self.store, journal_id, entry.serial);
        }
        self.store.release(entry.message);
    }

    pub(super) fn delete_queue(
        &mut self,
        id: ConnectionId,
        channel: u16,
        method: &Method<'_>,
    ) -> Result<(), Exception> {
        let Method::QueueDelete { queue: name, if_unused, if_empty, no_wait, .. } = *method else {
            return Ok(());
        };
        let mut message_count = 0;
        match self.find_queue(id, channel, name) {
            Ok(queue) => message_count = self.delete_found(queue, if_unused, if_empty)?,
            // Deleting what is not there succeeds, as clients expect it since RabbitMQ 3.2.
            Err(exception) if exception.code() == ReplyCode::NotFound && !name.is_empty() => {}
            Err(exception) => return Err(exception),
        }
        self.reply(id, channel, no_wait, Method::QueueDeleteOk { message_count });
        Ok(())
    }

    fn delete_found(&mut self, queue: QueueId, if_unused: bool, if_empty: bool) -> Result<u32, Exception> {
        let Some(found) = self.queues.get(queue) else { return Ok(0) };
        let name = shown(&found.name);
        if if_unused && !found.consumers.is_empty() {
            return Err(Exception::new(ReplyCode::PreconditionFailed, format!("queue '{name}' is in use")));
        }
        if if_empty && !found.is_empty() {
            return Err(Exception::new(
                ReplyCode::PreconditionFailed,
                format!("queue '{name}' is not empty"),
            ));
        }
        let count = u32::try_from(found.len()).unwrap_or(u32::MAX);
        self.remove_queue(queue);
        Ok(count)
    }

    /// Nobody finds the queue by its name any more.
    pub(super) fn forget_name(&mut self, id: QueueId) {
        if let Some(queue) = self.queues.get(id) {
            self.queue_names.remove(&queue.name);
            self.routing_generation += 1;
        }
    }

    /// Removes a queue with its messages, bindings and consumers.
    pub(super) fn remove_queue(&mut self, id: QueueId) {
        let Some(mut queue) = self.queues.remove(id) else { return };
        if self.queue_names.get(&queue.name) == Some(&id) {
            self.queue_names.remove(&queue.name);
        }
        self.routing_generation += 1;
        if queue.settings.survives_restart() {
            if queue.unacknowledged > 0 {
                self.gone_queues.insert(id, GoneQueue::of(&queue));
            }
            if let Some(journal) = &mut self.journal {
                journal.queue_gone(queue.journal_id);
            }
        }
        self.start(None, Chore::Forget { journal_id: queue.journal_id, left: queue.take_all() });
        self.disarm(id, queue.alarm_ms);
        self.start(None, Chore::UnbindQueue { queue: id, sources: Vec::new() });
        for consumer in queue.consumers {
            self.notify_of_cancel(consumer);
        }
        if let Some(owner) = queue.owner.and_then(|owner| self.connections.get_mut(owner)) {
            owner.exclusive_queues.remove(&id);
        }
        self.resumed.extend(queue.held_back);
    }

    /// Removes the queues that nobody has used for as long as they may be unused; called with each tick.
    pub(super) fn expire_queues(&mut self) {
        for id in self.queues.keys() {
            let Some(queue) = self.queues.get_mut(id) else { continue };
            let Some(expires) = queue.settings.expires else { continue };
            if !queue.consumers.is_empty() {
                queue.unused_since = None;
                continue;
            }
            let since = *queue.unused_since.get_or_insert(self.now);
            if self.now.duration_since(since) >= expires {
                self.remove_queue(id);
            }
        }
    }
}

/// A name that nobody else has: 128 random bits.
pub(super) fn generated_name(prefix: &str) -> Box<[u8]> {
    let mut random = [0_u8; 16];
    rustix::rand::getrandom(&mut random, rustix::rand::GetRandomFlags::empty())
        .expect("the kernel gives 16 random bytes at once");
    format!("{prefix}{:032x}", u128::from_be_bytes(random)).into_bytes().into()
}

/// The longest time to live and the longest time without use, milliseconds; RabbitMQ's limit, too.
pub(super) const LONGEST_MS: u64 = u32::MAX as u64;

fn invalid(argument: &[u8]) -> Exception {
    let text = format!("value of argument '{}' is invalid", shown(argument));
    Exception::new(ReplyCode::PreconditionFailed, text)
}

fn not_supported(argument: &[u8], value: Value<'_>) -> Exception {
    let argument = shown(argument);
    let text = match value {
        Value::Bytes(value) => {
            format!("argument '{argument}' = '{}' of a queue is not supported", shown(value))
        }
        _ => format!("argument '{argument}' of a queue is not supported"),
    };
    Exception::new(ReplyCode::NotImplemented, text)
}

fn queue_settings(arguments: Table<'_>, bits: [bool; 3]) -> Result<QueueSettings, Exception> {
    let mut settings = QueueSettings::plain(bits);
    let mut routing_key = None;
    for (name, value) in arguments.entries() {
        let number = match value {
            Value::Integer(number) => u64::try_from(number).ok(),
            _ => None,
        };
        let number = || number.ok_or_else(|| invalid(name));
        let ms = || number().ok().filter(|ms| *ms <= LONGEST_MS).ok_or_else(|| invalid(name));
        let text = || match value {
            Value::Bytes(text) if text.len() <= 255 => Ok(Name(text.into())),
            _ => Err(invalid(name)),
        };
        match (name, value) {
            (b"x-max-length", _) => settings.max_length = Some(number()?),
            (b"x-max-length-bytes", _) => settings.max_length_bytes = Some(number()?),
            (b"x-expires", Value::Integer(0)) => return Err(invalid(name)),
            (b"x-expires", _) => settings.expires = Some(Duration::from_millis(ms()?)),
            (b"x-message-ttl", _) => settings.message_ttl_ms = ms()?,
            (b"x-dead-letter-exchange", _) => {
                settings.dead_letters = Some(DeadLetters { exchange: text()?, routing_key: None });
            }
            (b"x-dead-letter-routing-key", _) => routing_key = Some(text()?),
            (b"x-overflow", Value::Bytes(b"drop-head")) => {}
            (b"x-overflow", Value::Bytes(b"reject-publish")) => settings.overflow = Overflow::RejectPublish,
            (b"x-overflow", Value::Bytes(b"reject-publish-dlx")) => return Err(not_supported(name, value)),
            (b"x-overflow", _) => return Err(invalid(name)),
            (b"x-queue-type", Value::Bytes(b"classic")) | (b"x-queue-mode", _) => {}
            _ => return Err(not_supported(name, value)),
        }
    }
    match (&mut settings.dead_letters, routing_key) {
        (Some(dead_letters), routing_key) => dead_letters.routing_key = routing_key,
        (None, Some(_)) => {
            let text = "x-dead-letter-routing-key needs x-dead-letter-exchange";
            return Err(Exception::new(ReplyCode::PreconditionFailed, text));
        }
        (None, None) => {}
    }
    Ok(settings)
}
