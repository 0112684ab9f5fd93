//! Declaring and deleting exchanges; durable things in general.

use tilemark_amqp::{Method, ReplyCode, ShortStr, Table};

use super::Engine;
use crate::connection::ConnectionId;
use crate::exception::{Exception, shown};
use crate::exchange::{Exchange, ExchangeKind, ExchangeSettings};
use crate::journal::{Definition, ExchangeRecord};

impl Engine {
    /// Sends the answer, unless the client asked for none.
    pub(super) fn reply(&mut self, id: ConnectionId, channel: u16, no_wait: bool, method: Method<'_>) {
        if !no_wait {
            self.send(id, channel, &method);
        }
    }

    /// Durable things need a journal that works.
    pub(super) fn check_durable(&self, what: &str) -> Result<(), Exception> {
        let Some(journal) = &self.journal else {
            let text = format!("{what} cannot be durable: this broker was started without a journal folder");
            return Err(Exception::new(ReplyCode::NotImplemented, text));
        };
        match journal.failure() {
            Some(failure) => {
                Err(Exception::new(ReplyCode::InternalError, format!("the journal failed: {failure}")))
            }
            None => Ok(()),
        }
    }

    pub(super) fn declare_exchange(
        &mut self,
        id: ConnectionId,
        channel: u16,
        method: &Method<'_>,
    ) -> Result<(), Exception> {
        let Method::ExchangeDeclare {
            exchange,
            kind,
            passive,
            durable,
            auto_delete,
            internal,
            no_wait,
            arguments,
            ..
        } = *method
        else {
            return Ok(());
        };
        let found = self.exchanges.get(exchange.as_bytes()).map(|exchange| exchange.settings);
        match (passive, found) {
            (true, None) => return Err(no_exchange(exchange)),
            (true, Some(_)) => {}
            (false, found) => {
                let settings = exchange_settings(kind, arguments, [durable, auto_delete, internal])?;
                self.declare_exchange_as(exchange, settings, found)?;
            }
        }
        self.reply(id, channel, no_wait, Method::ExchangeDeclareOk {});
        Ok(())
    }

    fn declare_exchange_as(
        &mut self,
        name: ShortStr<'_>,
        settings: ExchangeSettings,
        found: Option<ExchangeSettings>,
    ) -> Result<(), Exception> {
        match found {
            Some(found) if found == settings => return Ok(()),
            Some(found) => {
                let text = format!("exchange '{name}' exists as {found:?}, asked for {settings:?}");
                return Err(Exception::new(ReplyCode::PreconditionFailed, text));
            }
            None => {}
        }
        if name.is_empty() || name.as_bytes().starts_with(b"amq.") {
            let text = format!("exchange name '{name}' is reserved");
            return Err(Exception::new(ReplyCode::AccessRefused, text));
        }
        if settings.durable {
            self.check_durable(&format!("exchange '{name}'"))?;
            let record = exchange_record(name.as_bytes(), settings);
            if let Some(journal) = &mut self.journal {
                journal.define(&Definition::Exchange(record));
            }
        }
        self.exchanges.insert(name.as_bytes().into(), Exchange::new(settings));
        Ok(())
    }

    pub(super) fn delete_exchange(
        &mut self,
        id: ConnectionId,
        channel: u16,
        method: &Method<'_>,
    ) -> Result<(), Exception> {
        let Method::ExchangeDelete { exchange, if_unused, no_wait, .. } = *method else { return Ok(()) };
        if exchange.is_empty() || exchange.as_bytes().starts_with(b"amq.") {
            let text = format!("exchange '{exchange}' belongs to the broker");
            return Err(Exception::new(ReplyCode::AccessRefused, text));
        }
        match self.exchanges.get(exchange.as_bytes()) {
            Some(found) if if_unused && !found.is_unused() => {
                let text = format!("exchange '{exchange}' is in use");
                return Err(Exception::new(ReplyCode::PreconditionFailed, text));
            }
            // Deleting what is not there succeeds, as clients expect it since RabbitMQ 3.2.
            _ => self.remove_exchange(exchange.as_bytes()),
        }
        self.reply(id, channel, no_wait, Method::ExchangeDeleteOk {});
        Ok(())
    }

    pub(super) fn remove_exchange(&mut self, name: &[u8]) {
        let Some(exchange) = self.exchanges.remove(name) else { return };
        self.routing_generation += 1;
        if exchange.settings.durable
            && let Some(journal) = &mut self.journal
        {
            journal.exchange_gone(name);
        }
    }
}

/// 404 for an exchange.
pub(super) fn no_exchange(name: ShortStr<'_>) -> Exception {
    Exception::new(ReplyCode::NotFound, format!("no exchange '{name}'"))
}

pub(super) fn exchange_record(name: &[u8], settings: ExchangeSettings) -> ExchangeRecord {
    let ExchangeSettings { kind, auto_delete, internal, .. } = settings;
    ExchangeRecord { name: name.into(), kind, auto_delete, internal }
}

fn exchange_settings(
    kind: ShortStr<'_>,
    arguments: Table<'_>,
    bits: [bool; 3],
) -> Result<ExchangeSettings, Exception> {
    let [durable, auto_delete, internal] = bits;
    if let Some((name, _)) = arguments.entries().next() {
        let text = format!("argument '{}' of an exchange is not supported", shown(name));
        return Err(Exception::new(ReplyCode::NotImplemented, text));
    }
    let kind = ExchangeKind::from_name(kind.as_bytes()).ok_or_else(|| {
        let text = format!("exchange type '{kind}' is none of direct, fanout, topic");
        Exception::new(ReplyCode::CommandInvalid, text)
    })?;
    Ok(ExchangeSettings { kind, durable, auto_delete, internal })
}
