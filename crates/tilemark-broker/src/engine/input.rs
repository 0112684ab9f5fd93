//! From bytes to methods.

use tilemark_amqp::{
    Frame, FrameKind, Method, PROTOCOL_HEADER, PublishArguments, ReplyCode, WholePublish, decode_frame,
};

use super::BrokerCore;
use crate::connection::{Pause, Phase};
use crate::exception::Exception;
use crate::ids::ConnectionId;

impl BrokerCore {
    /// Takes bytes of a peer and returns how many were used: the rest is the start of a frame, or the peer is paused.
    pub(crate) fn receive(&mut self, id: ConnectionId, bytes: &[u8]) -> usize {
        let mut used = 0;
        let steps_before = self.steps;
        loop {
            let unread_bytes = self.unread_bytes();
            let Some(connection) = self.connections.get_mut(id) else { return bytes.len() };
            if matches!(connection.pause, Some(Pause::Work { .. })) {
                return used;
            }
            if connection.outbox.len() > unread_bytes && connection.phase == Phase::Running {
                connection.pause = Some(Pause::Unread);
                return used;
            }
            let (phase, frame_max) = (connection.phase, connection.frame_max);
            if !self.short_of_memory
                && let Some(publish) = WholePublish::decode(&bytes[used..], frame_max)
                && let Some(result) = self.publish_at_once(id, &publish)
            {
                used += publish.length;
                if let Err(exception) = result {
                    self.raise(id, publish.channel, PublishArguments::IDS, &exception);
                }
                if self.has_had_its_share(id, steps_before) {
                    return used;
                }
                continue;
            }
            match phase {
                Phase::Ended => return bytes.len(),
                Phase::Header => match self.protocol_header(id, &bytes[used..]) {
                    0 => return used,
                    count => used += count,
                },
                _ => match decode_frame(&bytes[used..], frame_max) {
                    Ok(Some((frame, length))) => {
                        if self.short_of_memory && self.must_wait(id, &frame) {
                            return used;
                        }
                        used += length;
                        self.frame(id, &frame);
                        if self.has_had_its_share(id, steps_before) {
                            return used;
                        }
                    }
                    Ok(None) => return used,
                    Err(error) => {
                        self.close_connection(id, (0, 0), &error.into());
                        return bytes.len();
                    }
                },
            }
        }
    }

    /// Notes that a peer has shown a sign of life.
    pub(crate) fn heard_from(&mut self, id: ConnectionId) {
        if let Some(connection) = self.connections.get_mut(id) {
            connection.last_received = self.now;
        }
    }

    fn protocol_header(&mut self, id: ConnectionId, bytes: &[u8]) -> usize {
        let expected = &PROTOCOL_HEADER[..bytes.len().min(PROTOCOL_HEADER.len())];
        if !bytes.starts_with(expected) {
            // The specification: say which protocol is spoken here, then close the socket.
            if let Some(connection) = self.connections.get_mut(id) {
                connection.outbox.buffer().extend_from_slice(&PROTOCOL_HEADER);
                connection.enter(Phase::Ended, self.now);
            }
            self.touch(id);
            return bytes.len();
        }
        if bytes.len() < PROTOCOL_HEADER.len() {
            return 0;
        }
        self.send_start(id);
        PROTOCOL_HEADER.len()
    }

    /// While memory is short, connections that publish wait in front of their next message. Others go on: their
    /// acknowledgements are what frees memory.
    #[cold]
    fn must_wait(&mut self, id: ConnectionId, frame: &Frame<'_>) -> bool {
        if frame.kind != FrameKind::Method || !frame.payload.starts_with(&PublishArguments::START) {
            return false;
        }
        self.notify_of_block(id);
        if let Some(connection) = self.connections.get_mut(id) {
            connection.has_published = true;
            connection.pause = Some(Pause::Memory);
            self.paused.push(id);
        }
        true
    }

    #[inline]
    fn frame(&mut self, id: ConnectionId, frame: &Frame<'_>) {
        let Frame { kind, channel, payload } = *frame;
        let result = match kind {
            FrameKind::Method if payload.starts_with(&PublishArguments::START) => {
                self.publish_method(id, channel, payload)
            }
            FrameKind::Header => self.content_header(id, channel, payload),
            FrameKind::Body => self.content_body(id, channel, payload),
            FrameKind::Method => self.method_frame(id, channel, payload),
            FrameKind::Heartbeat if channel == 0 => Ok(()),
            FrameKind::Heartbeat => Err(Exception::new(ReplyCode::FrameError, "heartbeat on a channel")),
        };
        if let Err(exception) = result {
            let ids = match (kind, payload) {
                (FrameKind::Method, [c0, c1, m0, m1, ..]) => {
                    (u16::from_be_bytes([*c0, *c1]), u16::from_be_bytes([*m0, *m1]))
                }
                (FrameKind::Header | FrameKind::Body, _) => PublishArguments::IDS,
                _ => (0, 0),
            };
            self.raise(id, channel, ids, &exception);
        }
    }

    fn method_frame(&mut self, id: ConnectionId, channel: u16, payload: &[u8]) -> Result<(), Exception> {
        let Some(connection) = self.connections.get(id) else { return Ok(()) };
        let phase = connection.phase;
        let method = match Method::decode(payload) {
            Ok(method) => method,
            Err(_) if phase == Phase::Closing => return Ok(()),
            Err(error) => return Err(error.into()),
        };
        let (class, _) = method.ids();
        match (phase, channel, class) {
            (Phase::Closing, 0, 10) => self.method_while_closing(id, &method),
            (Phase::Closing, ..) => return Ok(()),
            (_, 0, 10) => return self.connection_method(id, &method),
            (Phase::Running, 1.., 10) => {
                return Err(Exception::new(
                    ReplyCode::CommandInvalid,
                    format!("{} on a channel", method.name()),
                ));
            }
            (Phase::Running, 1.., _) => return self.channel_method(id, channel, &method),
            _ => {
                let text = format!("{} is not expected here", method.name());
                return Err(Exception::new(ReplyCode::CommandInvalid, text));
            }
        }
        Ok(())
    }

    fn channel_method(
        &mut self,
        id: ConnectionId,
        channel: u16,
        method: &Method<'_>,
    ) -> Result<(), Exception> {
        if let Method::ChannelOpen { .. } = method {
            return self.open_channel(id, channel);
        }
        let Some(connection) = self.connections.get_mut(id) else { return Ok(()) };
        let Some(state) = connection.channel_mut(channel) else {
            let text = format!("channel {channel} is not open");
            return Err(Exception::new(ReplyCode::ChannelError, text));
        };
        if state.closing && !matches!(method, Method::ChannelClose { .. } | Method::ChannelCloseOk {}) {
            return Ok(());
        }
        if state.assembly.stage != crate::channel::Stage::Idle
            && !matches!(method, Method::ChannelClose { .. } | Method::ChannelCloseOk {})
        {
            let text = format!("{} where the content of a message was expected", method.name());
            return Err(Exception::new(ReplyCode::UnexpectedFrame, text));
        }
        match method {
            Method::ChannelFlow { active } => self.channel_flow(id, channel, *active),
            Method::ChannelFlowOk { .. } => Ok(()),
            Method::ChannelClose { .. } => self.client_closes_channel(id, channel),
            Method::ChannelCloseOk {} => self.channel_is_closed(id, channel),
            Method::ExchangeDeclare { .. } => self.declare_exchange(id, channel, method),
            Method::ExchangeDelete { .. } => self.delete_exchange(id, channel, method),
            Method::ExchangeBind { .. } => self.bind_exchange(id, channel, method),
            Method::ExchangeUnbind { .. } => self.unbind_exchange(id, channel, method),
            Method::QueueDeclare { .. } => self.declare_queue(id, channel, method),
            Method::QueueBind { .. } => self.bind_queue(id, channel, method),
            Method::QueueUnbind { .. } => self.unbind_queue(id, channel, method),
            Method::QueuePurge { queue, no_wait, .. } => self.purge_queue(id, channel, *queue, *no_wait),
            Method::QueueDelete { .. } => self.delete_queue(id, channel, method),
            Method::BasicQos { .. } => self.set_prefetch(id, channel, method),
            Method::BasicConsume { .. } => self.consume(id, channel, method),
            Method::BasicCancel { consumer_tag, no_wait } => {
                self.cancel(id, channel, *consumer_tag, *no_wait)
            }
            Method::BasicGet { queue, no_ack, .. } => self.get(id, channel, *queue, *no_ack),
            Method::BasicAck { .. } | Method::BasicReject { .. } | Method::BasicNack { .. } => {
                self.settle_method(id, channel, method)
            }
            Method::BasicRecover { requeue } => self.recover(id, channel, *requeue, true),
            Method::BasicRecoverAsync { requeue } => self.recover(id, channel, *requeue, false),
            Method::ConfirmSelect { no_wait } => self.select_confirms(id, channel, *no_wait),
            Method::TxSelect {} => self.select_transactions(id, channel),
            Method::TxCommit {} => self.commit(id, channel),
            Method::TxRollback {} => self.rollback(id, channel),
            Method::AccessRequest { .. } => {
                let text = format!("this broker has no {}", method.name());
                Err(Exception::new(ReplyCode::NotImplemented, text))
            }
            _ => {
                let text = format!("{} is not for clients to send", method.name());
                Err(Exception::new(ReplyCode::CommandInvalid, text))
            }
        }
    }
}
