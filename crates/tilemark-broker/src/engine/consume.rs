//! Consumers, prefetch and `basic.get`.

use tilemark_amqp::{Method, ReplyCode, ShortStr, put_content, put_method};

use super::BrokerCore;
use super::bindings::check_no_arguments;
use super::expiry::EXPIRED_PER_TURN;
use super::queues::generated_name;
use crate::channel::Unacknowledged;
use crate::exception::Exception;
use crate::ids::{ConnectionId, ConsumerId};
use crate::queue::Consumer;

impl BrokerCore {
    pub(super) fn set_prefetch(
        &mut self,
        id: ConnectionId,
        number: u16,
        method: &Method<'_>,
    ) -> Result<(), Exception> {
        let Method::BasicQos { prefetch_size, prefetch_count, global } = *method else { return Ok(()) };
        if prefetch_size != 0 {
            let text = "prefetch by size is not supported, by count is";
            return Err(Exception::new(ReplyCode::NotImplemented, text));
        }
        if let Some(channel) = self.channel(id, number) {
            if global {
                channel.prefetch_per_channel = prefetch_count;
                self.limits_channels |= prefetch_count != 0;
                self.wake_channel(id, number);
            } else {
                channel.prefetch_per_consumer = prefetch_count;
            }
        }
        self.send(id, number, &Method::BasicQosOk {});
        Ok(())
    }

    pub(super) fn consume(
        &mut self,
        id: ConnectionId,
        number: u16,
        method: &Method<'_>,
    ) -> Result<(), Exception> {
        let Method::BasicConsume {
            queue, consumer_tag, no_local, no_ack, exclusive, no_wait, arguments, ..
        } = *method
        else {
            return Ok(());
        };
        check_no_arguments("a consumer", arguments)?;
        if no_local {
            let text = "consumers that take nothing of their own connection (no-local) are not supported";
            return Err(Exception::new(ReplyCode::NotImplemented, text));
        }
        let queue = self.find_queue(id, number, queue)?;
        self.check_room_for_definition()?;
        let tag: Box<[u8]> = match consumer_tag.as_bytes() {
            b"" => generated_name("amq.ctag-"),
            tag => tag.into(),
        };
        if self.find_consumer(id, number, &tag).is_some() {
            let text = format!("consumer tag '{consumer_tag}' is in use on this channel");
            return Err(Exception::new(ReplyCode::NotAllowed, text));
        }
        let Some(found) = self.queues.get_mut(queue) else { return Ok(()) };
        let taken = found
            .consumers
            .iter()
            .any(|other| self.consumers.get(*other).is_some_and(|other| other.exclusive));
        if taken || (exclusive && !found.consumers.is_empty()) {
            let text = "the queue has a consumer already, and one of them is exclusive";
            return Err(Exception::new(ReplyCode::AccessRefused, text));
        }
        let Some(connection) = self.connections.get_mut(id) else { return Ok(()) };
        connection.consumers += 1;
        let Some(channel) = connection.channel_mut(number) else { return Ok(()) };
        let consumer = self.consumers.insert(Consumer {
            connection: id,
            channel: number,
            queue,
            tag: tag.clone(),
            no_ack,
            exclusive,
            prefetch: channel.prefetch_per_consumer,
            unacknowledged: 0,
        });
        channel.consumers.push(consumer);
        found.consumers.push(consumer);
        found.unused_since = None;
        let consumer_tag = ShortStr::new(&tag).expect("it came in as a short string or was generated short");
        self.reply(id, number, no_wait, Method::BasicConsumeOk { consumer_tag });
        self.mark_dirty(queue);
        Ok(())
    }

    fn find_consumer(&self, id: ConnectionId, number: u16, tag: &[u8]) -> Option<ConsumerId> {
        let channel = self.connections.get(id)?.channel(number)?;
        let is_it =
            |consumer: &&ConsumerId| self.consumers.get(**consumer).is_some_and(|found| &*found.tag == tag);
        channel.consumers.iter().find(is_it).copied()
    }

    pub(super) fn cancel(
        &mut self,
        id: ConnectionId,
        number: u16,
        consumer_tag: ShortStr<'_>,
        no_wait: bool,
    ) -> Result<(), Exception> {
        if let Some(consumer) = self.find_consumer(id, number, consumer_tag.as_bytes()) {
            if let Some(channel) = self.channel(id, number) {
                channel.consumers.retain(|other| *other != consumer);
            }
            self.remove_consumer(consumer);
        }
        self.reply(id, number, no_wait, Method::BasicCancelOk { consumer_tag });
        Ok(())
    }

    /// Takes a consumer from its queue, and the queue away when it is auto-delete and this was the last one.
    pub(super) fn remove_consumer(&mut self, id: ConsumerId) {
        let Some(consumer) = self.consumers.remove(id) else { return };
        if let Some(connection) = self.connections.get_mut(consumer.connection) {
            connection.consumers -= 1;
        }
        let Some(queue) = self.queues.get_mut(consumer.queue) else { return };
        queue.consumers.retain(|other| *other != id);
        if queue.consumers.is_empty() && queue.settings.auto_delete {
            self.remove_queue(consumer.queue);
        }
    }

    /// The queue of a consumer is gone.
    pub(super) fn notify_of_cancel(&mut self, id: ConsumerId) {
        let Some(consumer) = self.consumers.remove(id) else { return };
        let Some(connection) = self.connections.get_mut(consumer.connection) else { return };
        connection.consumers -= 1;
        let wants_to_know = connection.capabilities.cancel_notify;
        if let Some(channel) = connection.channel_mut(consumer.channel) {
            channel.consumers.retain(|other| *other != id);
        }
        if wants_to_know {
            let consumer_tag = ShortStr::new(&consumer.tag).expect("tags are short strings");
            let cancel = Method::BasicCancel { consumer_tag, no_wait: true };
            self.notify(consumer.connection, consumer.channel, &cancel);
        }
    }

    pub(super) fn get(
        &mut self,
        id: ConnectionId,
        number: u16,
        queue: ShortStr<'_>,
        no_ack: bool,
    ) -> Result<(), Exception> {
        let queue_id = self.find_queue(id, number, queue)?;
        self.expire_heads(queue_id, EXPIRED_PER_TURN);
        let now_ms = self.clock.now_ms();
        let Some(queue) = self.queues.get_mut(queue_id) else { return Ok(()) };
        queue.unused_since = None;
        // Behind more than one turn gives up there may be others, but what is over is for nobody.
        let is_over = queue.head().is_some_and(|head| head.expires_ms <= now_ms);
        let Some(entry) = (if is_over { None } else { queue.pop(|message| self.store.length(message)) })
        else {
            self.send(id, number, &Method::BasicGetEmpty { reserved_1: ShortStr::default() });
            return Ok(());
        };
        let left = u32::try_from(queue.len()).unwrap_or(u32::MAX);
        let journal_id = queue.journal_id;
        let Some(connection) = self.connections.get_mut(id) else { return Ok(()) };
        let frame_max = connection.frame_max;
        let Some(channel) = connection.channel_mut(number) else { return Ok(()) };
        channel.last_delivery += 1;
        let tag = channel.last_delivery;
        if !no_ack {
            queue.unacknowledged += 1;
            channel.unacknowledged.push_back(Unacknowledged { tag, queue: queue_id, entry, consumer: None });
        }
        let parts = self.store.parts(entry.message);
        let (exchange, routing_key) = route_names(parts.route);
        let out = connection.outbox.buffer();
        let ok = Method::BasicGetOk {
            delivery_tag: tag,
            redelivered: entry.redelivered,
            exchange,
            routing_key,
            message_count: left,
        };
        put_method(out, number, &ok);
        put_content(out, number, parts.header, parts.body, frame_max);
        self.touch(id);
        self.statistics.delivered += 1;
        if no_ack {
            self.end_message(journal_id, &entry);
        }
        self.arm(queue_id);
        Ok(())
    }
}

/// Exchange and routing key of a stored route.
pub(super) fn route_names(route: &[u8]) -> (ShortStr<'_>, ShortStr<'_>) {
    let mut from = tilemark_amqp::Decoder::new(route);
    let names = from.short_str().and_then(|exchange| Ok((exchange, from.short_str()?)));
    names.expect("a route was checked when its message came in")
}
