//! Opening channels and choosing how they work.

use tilemark_amqp::{LongStr, Method, ReplyCode};

use super::BrokerCore;
use crate::channel::{Channel, Mode, Transaction};
use crate::confirms::Confirms;
use crate::exception::Exception;
use crate::ids::ConnectionId;

impl BrokerCore {
    pub(super) fn open_channel(&mut self, id: ConnectionId, number: u16) -> Result<(), Exception> {
        let Some(connection) = self.connections.get_mut(id) else { return Ok(()) };
        let is_over = connection.channel(number).is_some_and(|channel| channel.closed_by_both);
        if is_over && connection.channels[usize::from(number)].take().is_some() {
            connection.open_channels -= 1;
        }
        if connection.channel(number).is_some() {
            return Err(Exception::new(ReplyCode::ChannelError, format!("channel {number} is open already")));
        }
        if number > connection.channel_max {
            let text = format!("channel {number} is beyond the {} that were agreed", connection.channel_max);
            return Err(Exception::new(ReplyCode::ChannelError, text));
        }
        let place = usize::from(number);
        if connection.channels.len() <= place {
            connection.channels.resize_with(place + 1, || None);
        }
        connection.channels[place] = Some(Box::default());
        connection.open_channels += 1;
        self.send(id, number, &Method::ChannelOpenOk { reserved_1: LongStr(b"") });
        Ok(())
    }

    /// The channel, which the dispatcher has found open.
    pub(super) fn channel(&mut self, id: ConnectionId, number: u16) -> Option<&mut Channel> {
        self.connections.get_mut(id)?.channel_mut(number)
    }

    pub(super) fn channel_flow(
        &mut self,
        id: ConnectionId,
        number: u16,
        active: bool,
    ) -> Result<(), Exception> {
        let Some(channel) = self.channel(id, number) else { return Ok(()) };
        channel.stopped = !active;
        let consumers = channel.consumers.clone();
        self.send(id, number, &Method::ChannelFlowOk { active });
        for consumer in consumers {
            if let Some(queue) = self.consumers.get(consumer).map(|consumer| consumer.queue) {
                self.mark_dirty(queue);
            }
        }
        Ok(())
    }

    pub(super) fn select_confirms(
        &mut self,
        id: ConnectionId,
        number: u16,
        no_wait: bool,
    ) -> Result<(), Exception> {
        let Some(channel) = self.channel(id, number) else { return Ok(()) };
        match channel.mode {
            Mode::Plain => channel.mode = Mode::Confirm(Confirms::default()),
            Mode::Confirm(_) => {}
            Mode::Transaction(_) => {
                let text = "a channel with transactions cannot have confirms";
                return Err(Exception::new(ReplyCode::PreconditionFailed, text));
            }
        }
        if !no_wait {
            self.send(id, number, &Method::ConfirmSelectOk {});
        }
        Ok(())
    }

    pub(super) fn select_transactions(&mut self, id: ConnectionId, number: u16) -> Result<(), Exception> {
        let Some(channel) = self.channel(id, number) else { return Ok(()) };
        match channel.mode {
            Mode::Plain => channel.mode = Mode::Transaction(Transaction::default()),
            Mode::Transaction(_) => {}
            Mode::Confirm(_) => {
                let text = "a channel with confirms cannot have transactions";
                return Err(Exception::new(ReplyCode::PreconditionFailed, text));
            }
        }
        self.send(id, number, &Method::TxSelectOk {});
        Ok(())
    }
}
