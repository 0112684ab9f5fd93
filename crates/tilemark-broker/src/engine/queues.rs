//! Declaring, binding, purging and deleting queues.

use std::time::Duration;

use tilemark_amqp::{Method, ReplyCode, ShortStr, Table, Value};

use super::Engine;
use super::exchanges::no_exchange;
use crate::connection::ConnectionId;
use crate::exception::{Exception, shown};
use crate::journal::{BindingRecord, Definition, QueueRecord};
use crate::queue::{Overflow, Queue, QueueId, QueueSettings};

impl Engine {
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
                self.check_same(queue, asked)?;
            }
            queue
        } else {
            let settings = queue_settings(arguments, [durable, exclusive, auto_delete])?;
            self.create_queue(id, name, settings)?
        };
        let Some(found) = self.queues.get_mut(queue) else { return Ok(()) };
        found.unused_since = None;
        let name = found.name.clone();
        let message_count = u32::try_from(found.ready.len()).unwrap_or(u32::MAX);
        let consumer_count = u32::try_from(found.consumers.len()).unwrap_or(u32::MAX);
        let queue = ShortStr::new(&name).expect("names came in as short strings or are generated short");
        self.reply(id, channel, no_wait, Method::QueueDeclareOk { queue, message_count, consumer_count });
        if let Some(channel) = self.channel(id, channel) {
            channel.last_queue = name;
        }
        Ok(())
    }

    fn check_same(&self, queue: QueueId, asked: QueueSettings) -> Result<(), Exception> {
        let Some(found) = self.queues.get(queue) else { return Ok(()) };
        if found.settings == asked {
            return Ok(());
        }
        let text =
            format!("queue '{}' exists as {:?}, asked for {asked:?}", shown(&found.name), found.settings);
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
        let name: Box<[u8]> = match name.as_bytes() {
            b"" => generated_name("amq.gen-"),
            name => name.into(),
        };
        self.last_journal_queue += 1;
        let journal_id = self.last_journal_queue;
        if settings.survives_restart() {
            self.check_durable(&format!("queue '{}'", shown(&name)))?;
            if let Some(journal) = &mut self.journal {
                let record = QueueRecord { id: journal_id, name: name.clone(), settings };
                journal.define(&Definition::Queue(record));
            }
        }
        let mut queue = Queue::new(name.clone(), settings, journal_id);
        queue.owner = settings.exclusive.then_some(id);
        let key = self.queues.insert(queue);
        self.queue_names.insert(name, key);
        self.routing_generation += 1;
        if settings.exclusive
            && let Some(connection) = self.connections.get_mut(id)
        {
            connection.exclusive_queues.push(key);
        }
        Ok(key)
    }

    pub(super) fn bind_queue(
        &mut self,
        id: ConnectionId,
        channel: u16,
        method: &Method<'_>,
    ) -> Result<(), Exception> {
        let Method::QueueBind { queue: name, exchange, routing_key, no_wait, arguments, .. } = *method else {
            return Ok(());
        };
        let queue = self.find_queue(id, channel, name)?;
        check_exchange_name(exchange)?;
        check_no_arguments("a binding", arguments)?;
        let key = self.key_of_binding(queue, name, routing_key);
        let routing_key = ShortStr::new(&key).expect("a key or the name of a queue");
        let found = self.exchanges.get_mut(exchange.as_bytes()).ok_or_else(|| no_exchange(exchange))?;
        if found.bind(routing_key.as_bytes(), queue) {
            self.routing_generation += 1;
            let durable = found.settings.durable;
            if let Some(record) = self.binding_record(durable, queue, exchange, routing_key)
                && let Some(journal) = &mut self.journal
            {
                journal.define(&Definition::Binding(record));
            }
        }
        self.reply(id, channel, no_wait, Method::QueueBindOk {});
        Ok(())
    }

    pub(super) fn unbind_queue(
        &mut self,
        id: ConnectionId,
        channel: u16,
        method: &Method<'_>,
    ) -> Result<(), Exception> {
        let Method::QueueUnbind { queue: name, exchange, routing_key, arguments, .. } = *method else {
            return Ok(());
        };
        check_exchange_name(exchange)?;
        check_no_arguments("a binding", arguments)?;
        let queue = match self.find_queue(id, channel, name) {
            Ok(queue) => Some(queue),
            // Unbinding what is gone succeeds, as deleting it does.
            Err(exception) if exception.code == ReplyCode::NotFound && !name.is_empty() => None,
            Err(exception) => return Err(exception),
        };
        if let Some(queue) = queue {
            let key = self.key_of_binding(queue, name, routing_key);
            self.unbind(exchange, queue, ShortStr::new(&key).expect("a key or the name of a queue"));
        }
        self.send(id, channel, &Method::QueueUnbindOk {});
        Ok(())
    }

    /// Without a queue's name and a key, the key is the name of the queue that the channel declared last.
    fn key_of_binding(&self, queue: QueueId, name: ShortStr<'_>, key: ShortStr<'_>) -> Box<[u8]> {
        match self.queues.get(queue) {
            Some(found) if name.is_empty() && key.is_empty() => found.name.clone(),
            _ => key.as_bytes().into(),
        }
    }

    fn unbind(&mut self, exchange: ShortStr<'_>, queue: QueueId, routing_key: ShortStr<'_>) {
        let Some(found) = self.exchanges.get_mut(exchange.as_bytes()) else { return };
        if found.unbind(routing_key.as_bytes(), queue) {
            self.routing_generation += 1;
            let durable = found.settings.durable;
            if let Some(record) = self.binding_record(durable, queue, exchange, routing_key)
                && let Some(journal) = &mut self.journal
            {
                journal.binding_gone(&record);
            }
            self.remove_exchange_if_done(exchange.as_bytes());
        }
    }

    /// A binding is durable when both its ends are.
    fn binding_record(
        &self,
        durable_exchange: bool,
        queue: QueueId,
        exchange: ShortStr<'_>,
        key: ShortStr<'_>,
    ) -> Option<BindingRecord> {
        let queue = self.queues.get(queue)?;
        (durable_exchange && queue.settings.survives_restart()).then(|| BindingRecord {
            exchange: exchange.as_bytes().into(),
            key: key.as_bytes().into(),
            queue: queue.journal_id,
        })
    }

    fn remove_exchange_if_done(&mut self, name: &[u8]) {
        if self.exchanges.get(name).is_some_and(|found| found.settings.auto_delete && found.is_unused()) {
            self.remove_exchange(name);
        }
    }

    pub(super) fn purge_queue(
        &mut self,
        id: ConnectionId,
        channel: u16,
        queue: ShortStr<'_>,
        no_wait: bool,
    ) -> Result<(), Exception> {
        let queue = self.find_queue(id, channel, queue)?;
        let mut count = 0;
        while self.drop_head(queue) {
            count += 1;
        }
        self.reply(id, channel, no_wait, Method::QueuePurgeOk { message_count: count });
        Ok(())
    }

    /// Drops the first message that is ready; false when there is none.
    pub(super) fn drop_head(&mut self, queue: QueueId) -> bool {
        let Some(found) = self.queues.get_mut(queue) else { return false };
        let Some(entry) = found.pop(|message| self.store.length(message)) else { return false };
        let journal_id = found.journal_id;
        if entry.journaled
            && let Some(journal) = &mut self.journal
        {
            journal.settle(&self.store, journal_id, entry.serial);
        }
        self.store.release(entry.message);
        true
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
            Err(exception) if exception.code == ReplyCode::NotFound && !name.is_empty() => {}
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
        if if_empty && !found.ready.is_empty() {
            return Err(Exception::new(
                ReplyCode::PreconditionFailed,
                format!("queue '{name}' is not empty"),
            ));
        }
        let count = u32::try_from(found.ready.len()).unwrap_or(u32::MAX);
        self.remove_queue(queue);
        Ok(count)
    }

    /// Removes a queue with its messages, bindings and consumers.
    pub(super) fn remove_queue(&mut self, id: QueueId) {
        let Some(queue) = self.queues.remove(id) else { return };
        self.queue_names.remove(&queue.name);
        self.routing_generation += 1;
        if queue.settings.survives_restart() {
            self.forget_unacknowledged(id, &queue);
            if let Some(journal) = &mut self.journal {
                journal.queue_gone(queue.journal_id);
                for entry in queue.ready.iter().filter(|entry| entry.journaled) {
                    journal.forget(&self.store, queue.journal_id, entry.serial);
                }
            }
        }
        queue.ready.iter().for_each(|entry| self.store.release(entry.message));
        let mut emptied = Vec::new();
        for (name, exchange) in &mut self.exchanges {
            if exchange.forget(id) && exchange.settings.auto_delete && exchange.is_unused() {
                emptied.push(name.clone());
            }
        }
        emptied.iter().for_each(|name| self.remove_exchange(name));
        for consumer in queue.consumers {
            self.tell_cancelled(consumer);
        }
        if let Some(owner) = queue.owner.and_then(|owner| self.connections.get_mut(owner)) {
            owner.exclusive_queues.retain(|other| *other != id);
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

    /// Consumers may still hold messages of a queue that goes; the journal need not keep them for it.
    fn forget_unacknowledged(&mut self, id: QueueId, queue: &Queue) {
        let Some(journal) = &mut self.journal else { return };
        if queue.unacknowledged == 0 {
            return;
        }
        for connection in self.connections.keys() {
            let Some(connection) = self.connections.get_mut(connection) else { continue };
            for channel in connection.channels.iter_mut().flatten() {
                let in_transaction = match &mut channel.mode {
                    crate::channel::Mode::Transaction(transaction) => &mut transaction.settlements[..],
                    _ => &mut [],
                };
                let in_transaction = in_transaction.iter_mut().map(|(unacknowledged, _)| unacknowledged);
                for held in channel.unacknowledged.iter_mut().chain(in_transaction) {
                    if held.queue == id && std::mem::take(&mut held.entry.journaled) {
                        journal.forget(&self.store, queue.journal_id, held.entry.serial);
                    }
                }
            }
        }
    }
}

/// Arguments that nothing here knows are refused by their name.
pub(super) fn check_no_arguments(what: &str, arguments: Table<'_>) -> Result<(), Exception> {
    let Some((name, _)) = arguments.entries().next() else { return Ok(()) };
    let text = format!("argument '{}' of {what} is not supported", shown(name));
    Err(Exception::new(ReplyCode::NotImplemented, text))
}

/// The default exchange has the bindings that it has.
fn check_exchange_name(exchange: ShortStr<'_>) -> Result<(), Exception> {
    if exchange.is_empty() {
        let text = "the default exchange cannot be bound or unbound";
        return Err(Exception::new(ReplyCode::AccessRefused, text));
    }
    Ok(())
}

/// A name that nobody else has: 128 random bits.
pub(super) fn generated_name(prefix: &str) -> Box<[u8]> {
    let mut random = [0_u8; 16];
    rustix::rand::getrandom(&mut random, rustix::rand::GetRandomFlags::empty())
        .expect("the kernel gives 16 random bytes at once");
    let hex: String = random.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("{prefix}{hex}").into_bytes().into()
}

fn queue_settings(arguments: Table<'_>, bits: [bool; 3]) -> Result<QueueSettings, Exception> {
    let [durable, exclusive, auto_delete] = bits;
    let mut settings = QueueSettings {
        durable,
        exclusive,
        auto_delete,
        max_length: None,
        max_length_bytes: None,
        overflow: Overflow::DropHead,
        expires: None,
    };
    for (name, value) in arguments.entries() {
        let limit = match value {
            Value::Integer(limit) => u64::try_from(limit).ok(),
            _ => None,
        };
        match (name, value) {
            (b"x-max-length", _) if limit.is_some() => settings.max_length = limit,
            (b"x-max-length-bytes", _) if limit.is_some() => settings.max_length_bytes = limit,
            (b"x-expires", _) if limit.is_some_and(|ms| ms > 0) => {
                settings.expires = limit.map(Duration::from_millis);
            }
            (b"x-overflow", Value::Bytes(b"drop-head")) => {}
            (b"x-overflow", Value::Bytes(b"reject-publish")) => settings.overflow = Overflow::RejectPublish,
            (b"x-queue-type", Value::Bytes(b"classic")) | (b"x-queue-mode", _) => {}
            (b"x-max-length" | b"x-max-length-bytes" | b"x-expires" | b"x-overflow", _) => {
                let text = format!("value of argument '{}' is invalid", shown(name));
                return Err(Exception::new(ReplyCode::PreconditionFailed, text));
            }
            _ => {
                let text = format!("argument '{}' of a queue is not supported", shown(name));
                return Err(Exception::new(ReplyCode::NotImplemented, text));
            }
        }
    }
    Ok(settings)
}
