//! Declaring and deleting exchanges; durable things in general.

use tilemark_amqp::{Method, ReplyCode, ShortStr, Table, Value};

use super::BrokerCore;
use super::pending::Chore;
use crate::exception::{Exception, Name, shown};
use crate::exchange::{ExchangeKind, ExchangeSettings};
use crate::ids::ConnectionId;
use crate::journal::{Definition, ExchangeRecord};
use crate::topology::ExchangeId;

impl BrokerCore {
    /// Sends the answer, unless the client asked for none.
    pub(super) fn reply(&mut self, id: ConnectionId, channel: u16, no_wait: bool, method: Method<'_>) {
        if !no_wait {
            self.send(id, channel, &method);
        }
    }

    /// Durable things need a journal that works.
    pub(super) fn check_durable(&self, what: &str) -> Result<(), Exception> {
        let Some(journal) = &self.journal else {
            let text = format!(
                "{what} cannot be durable: this broker has no folder for a journal. Start it with `--journal DIR`"
            );
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
        let found = self.topology.named(exchange.as_bytes()).map(|exchange| exchange.settings.clone());
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
                let text = format!("exchange '{name}' exists as: {found}; asked for: {settings}");
                return Err(Exception::new(ReplyCode::PreconditionFailed, text));
            }
            None => {}
        }
        if name.is_empty() || name.as_bytes().starts_with(b"amq.") {
            let text = format!("exchange name '{name}' is reserved");
            return Err(Exception::new(ReplyCode::AccessRefused, text));
        }
        self.check_room_for_definition()?;
        if settings.durable {
            self.check_durable(&format!("exchange '{name}'"))?;
            let record = exchange_record(name.as_bytes(), &settings);
            if let Some(journal) = &mut self.journal {
                journal.define(&Definition::Exchange(record));
            }
        }
        self.topology.declare(name.as_bytes(), settings);
        // It may be what others name as their alternate.
        self.routing_generation += 1;
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
        match self.topology.find(exchange.as_bytes()) {
            Some(found) if if_unused && !self.topology.is_unused(found) => {
                let text = format!("exchange '{exchange}' is in use");
                return Err(Exception::new(ReplyCode::PreconditionFailed, text));
            }
            // Deleting what is not there succeeds, as clients expect it since RabbitMQ 3.2.
            _ => self.remove_exchanges(vec![exchange.as_bytes().into()]),
        }
        self.reply(id, channel, no_wait, Method::ExchangeDeleteOk {});
        Ok(())
    }

    /// Removes exchanges, and those that were to be deleted with their last binding and lose it by that.
    pub(super) fn remove_exchanges(&mut self, mut names: Vec<Box<[u8]>>) {
        while let Some(name) = names.pop() {
            let Some((exchange, bindings)) = self.topology.remove(&name) else { continue };
            self.routing_generation += 1;
            if exchange.settings.durable
                && let Some(journal) = &mut self.journal
            {
                journal.exchange_gone(&name);
            }
            if bindings.len() > BINDINGS_AT_ONCE {
                self.start(None, Chore::Unbind { left: bindings, sources: Vec::new() });
                continue;
            }
            self.steps += bindings.len() as u64;
            let sources: Vec<ExchangeId> =
                bindings.into_iter().filter_map(|binding| self.topology.forget(binding)).collect();
            names.extend(self.done_among(sources));
        }
    }

    /// Which of these exchanges were to be deleted with their last binding, and have lost it.
    pub(super) fn done_among(&self, mut exchanges: Vec<ExchangeId>) -> Vec<Box<[u8]>> {
        exchanges.sort_unstable();
        exchanges.dedup();
        let done = exchanges.into_iter().filter(|id| self.topology.is_unused(*id));
        let done = done.filter_map(|id| self.topology.get(id)).filter(|found| found.settings.auto_delete);
        done.map(|found| found.name.clone()).collect()
    }
}

/// More bindings than this are removed piece by piece.
const BINDINGS_AT_ONCE: usize = 4096;

/// 404 for an exchange.
pub(super) fn no_exchange(name: ShortStr<'_>) -> Exception {
    Exception::new(ReplyCode::NotFound, format!("no exchange '{name}'"))
}

pub(super) fn exchange_record(name: &[u8], settings: &ExchangeSettings) -> ExchangeRecord {
    let ExchangeSettings { kind, auto_delete, internal, .. } = *settings;
    ExchangeRecord { name: name.into(), kind, auto_delete, internal, alternate: settings.alternate.clone() }
}

fn exchange_settings(
    kind: ShortStr<'_>,
    arguments: Table<'_>,
    bits: [bool; 3],
) -> Result<ExchangeSettings, Exception> {
    let [durable, auto_delete, internal] = bits;
    let mut alternate = None;
    for (name, value) in arguments.entries() {
        match (name, value) {
            (b"alternate-exchange", Value::Bytes(other)) if !other.is_empty() && other.len() <= 255 => {
                alternate = Some(Name(other.into()));
            }
            (b"alternate-exchange", _) => {
                let text = "value of argument 'alternate-exchange' is not the name of a declared exchange";
                return Err(Exception::new(ReplyCode::PreconditionFailed, text));
            }
            _ => {
                let text = format!("argument '{}' of an exchange is not supported", shown(name));
                return Err(Exception::new(ReplyCode::NotImplemented, text));
            }
        }
    }
    let kind = ExchangeKind::from_name(kind.as_bytes()).ok_or_else(|| {
        let text = format!("exchange type '{kind}' is none of direct, fanout, topic, headers");
        Exception::new(ReplyCode::CommandInvalid, text)
    })?;
    Ok(ExchangeSettings { kind, durable, auto_delete, internal, alternate })
}
