//! Ends of channels and connections, and everything they leave behind.

use std::time::Duration;

use tilemark_amqp::{Method, ReplyCode, Scope, ShortStr, put_method};

use super::BrokerCore;
use super::pending::Chore;
use crate::channel::{Channel, Mode};
use crate::connection::Phase;
use crate::exception::Exception;
use crate::ids::{ConnectionId, QueueId};

impl BrokerCore {
    /// Reports to the peer what it did wrong, on the channel or for the whole connection, as the code asks.
    #[cold]
    pub(super) fn raise(&mut self, id: ConnectionId, channel: u16, ids: (u16, u16), exception: &Exception) {
        let open = self.connections.get(id).is_some_and(|found| found.channel(channel).is_some());
        if exception.code().scope() == Scope::Connection || !open {
            self.close_connection(id, ids, exception);
            return;
        }
        let text = exception.reply_text();
        let close = Method::ChannelClose {
            reply_code: exception.code().number(),
            reply_text: ShortStr::cut(&text),
            class_id: ids.0,
            method_id: ids.1,
        };
        self.empty_channel(id, channel);
        self.send(id, channel, &close);
        if let Some(state) = self.channel(id, channel) {
            state.closing = true;
        }
    }

    #[cold]
    pub(super) fn close_connection(&mut self, id: ConnectionId, ids: (u16, u16), exception: &Exception) {
        let Some(connection) = self.connections.get_mut(id) else { return };
        if matches!(connection.phase, Phase::Closing | Phase::Ended) {
            connection.enter(Phase::Ended, self.now);
            self.touch(id);
            return;
        }
        connection.enter(Phase::Closing, self.now);
        let text = exception.reply_text();
        let close = Method::ConnectionClose {
            reply_code: exception.code().number(),
            reply_text: ShortStr::cut(&text),
            class_id: ids.0,
            method_id: ids.1,
        };
        self.leave(id);
        self.send(id, 0, &close);
    }

    pub(super) fn method_while_closing(&mut self, id: ConnectionId, method: &Method<'_>) {
        match method {
            Method::ConnectionCloseOk {} => {}
            Method::ConnectionClose { .. } => self.send(id, 0, &Method::ConnectionCloseOk {}),
            _ => return,
        }
        if let Some(connection) = self.connections.get_mut(id) {
            connection.enter(Phase::Ended, self.now);
        }
        self.touch(id);
    }

    pub(super) fn client_closes_channel(&mut self, id: ConnectionId, number: u16) -> Result<(), Exception> {
        // The two closes have crossed: each side answers the other's, so the client's `close-ok` is still to come.
        match self.channel(id, number) {
            Some(channel) if channel.closing => channel.closed_by_both = true,
            _ => {
                self.empty_channel(id, number);
                self.drop_channel(id, number);
            }
        }
        self.send(id, number, &Method::ChannelCloseOk {});
        Ok(())
    }

    pub(super) fn channel_is_closed(&mut self, id: ConnectionId, number: u16) -> Result<(), Exception> {
        if !self.channel(id, number).is_some_and(|channel| channel.closing) {
            let text = "channel.close-ok without channel.close";
            return Err(Exception::new(ReplyCode::CommandInvalid, text));
        }
        self.drop_channel(id, number);
        Ok(())
    }

    fn drop_channel(&mut self, id: ConnectionId, number: u16) {
        if let Some(connection) = self.connections.get_mut(id)
            && connection.channels[usize::from(number)].take().is_some()
        {
            connection.open_channels -= 1;
        }
    }

    /// Cancels consumers, requeues what was not acknowledged, forgets unfinished messages and transactions.
    fn empty_channel(&mut self, id: ConnectionId, number: u16) {
        if let Some(old) = self.take_channel(id, number) {
            self.start(Some(id), Chore::Leave { channels: vec![old], queues: Vec::new() });
        }
    }

    /// What a channel held; a new one is in its place.
    fn take_channel(&mut self, id: ConnectionId, number: u16) -> Option<Channel> {
        let mut old = std::mem::take(self.channel(id, number)?);
        self.assembling_bytes -= old.assembling_bytes();
        if let Mode::Transaction(transaction) = &mut old.mode {
            self.transaction_bytes -= std::mem::take(&mut transaction.bytes);
            // Acknowledged in a transaction that was never committed: not acknowledged.
            let settlements = std::mem::take(&mut transaction.settlements);
            if !settlements.is_empty() {
                old.unacknowledged
                    .put_back(settlements.into_iter().map(|(unacknowledged, _)| unacknowledged));
            }
        }
        Some(old)
    }

    /// Takes back everything that a connection holds. What it had for itself nobody finds from now on.
    pub(super) fn leave(&mut self, id: ConnectionId) {
        let Some(connection) = self.connections.get_mut(id) else { return };
        connection.pause = None;
        let numbers = 0..u16::try_from(connection.channels.len()).unwrap_or(u16::MAX);
        let mut channels = Vec::new();
        for number in numbers {
            channels.extend(self.take_channel(id, number));
            self.drop_channel(id, number);
        }
        channels.reverse();
        let Some(connection) = self.connections.get_mut(id) else { return };
        let queues: Vec<QueueId> =
            std::mem::take(&mut connection.exclusive_queues).into_iter().rev().collect();
        for queue in &queues {
            self.forget_name(*queue);
        }
        self.start(None, Chore::Leave { channels, queues });
    }

    /// The socket is gone.
    pub(crate) fn disconnect(&mut self, id: ConnectionId) {
        self.leave(id);
        if let Some(connection) = self.connections.remove(id) {
            self.outbox_bytes -= connection.counted_outbox;
        }
    }

    /// Announces to every peer that the broker ends.
    pub(crate) fn shut_down(&mut self) {
        for id in self.connections.keys() {
            let exception = Exception::new(ReplyCode::ConnectionForced, "the broker is shutting down");
            match self.connections.get(id).map(|connection| connection.phase) {
                Some(Phase::Running) => self.close_connection(id, (0, 0), &exception),
                _ => self.leave(id),
            }
        }
    }

    /// Heartbeats and deadlines; called about once a second.
    pub(crate) fn tick(&mut self) {
        for id in self.connections.keys() {
            let Some(connection) = self.connections.get_mut(id) else { continue };
            let silent = self.now.duration_since(connection.last_received);
            let quiet_s = self.now.duration_since(connection.last_sent).as_secs();
            let in_phase_s = self.now.duration_since(connection.phase_since).as_secs();
            let heartbeat_s = u64::from(connection.heartbeat);
            // A peer that we do not read from cannot be heard.
            let is_gone = heartbeat_s > 0
                && connection.pause.is_none()
                && silent >= Duration::from_secs(2 * heartbeat_s);
            let is_overdue = connection.phase != Phase::Running && in_phase_s >= PHASE_LIMIT_S;
            if is_gone || is_overdue {
                self.leave(id);
                if let Some(connection) = self.connections.get_mut(id) {
                    connection.enter(Phase::Ended, self.now);
                    let unsent = connection.outbox.len();
                    connection.outbox.sent(unsent);
                }
                self.touch(id);
            } else if heartbeat_s > 0 && connection.phase == Phase::Running && 2 * quiet_s >= heartbeat_s {
                tilemark_amqp::put_heartbeat(connection.outbox.buffer());
                self.touch(id);
            }
        }
        self.expire_queues();
        self.store.evacuate_if_wasteful();
        self.free_memory();
    }

    fn free_memory(&mut self) {
        for key in self.queues.keys() {
            if let Some(queue) = self.queues.get_mut(key) {
                queue.free_memory();
            }
        }
        self.store.shrink_if_empty();
    }

    /// Sends a method and remembers nothing: for peers that may be half gone.
    pub(super) fn notify(&mut self, id: ConnectionId, channel: u16, method: &Method<'_>) {
        if let Some(connection) = self.connections.get_mut(id)
            && connection.phase == Phase::Running
        {
            put_method(connection.outbox.buffer(), channel, method);
            self.touch(id);
        }
    }
}

/// A handshake or a close that takes longer than this ends the connection; RabbitMQ allows a handshake 10 s, too.
const PHASE_LIMIT_S: u64 = 10;

impl Channel {
    /// Bytes of an unfinished message that count against the broker's memory.
    pub(super) fn assembling_bytes(&self) -> u64 {
        match self.assembly.stage {
            crate::channel::Stage::Body(_) => self.assembly.bytes.len() as u64,
            _ => 0,
        }
    }
}
