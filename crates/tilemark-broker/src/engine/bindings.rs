//! Binding and unbinding, of queues and of exchanges.

use tilemark_amqp::{Method, ReplyCode, ShortStr, Table};

use super::BrokerCore;
use super::exchanges::no_exchange;
use crate::exception::{Exception, shown};
use crate::exchange::{ExchangeKind, Match};
use crate::ids::{ConnectionId, QueueId};
use crate::journal::{BindingRecord, Definition, RecordedDestination};
use crate::topology::{Binding, Destination, ExchangeId};

impl BrokerCore {
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
        self.check_room_for_definition()?;
        let source = self.source_of_binding(exchange, arguments)?;
        let key = self.key_of_binding(queue, name, routing_key);
        self.bind(binding(source, Destination::Queue(queue), key, arguments));
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
        let queue = match self.find_queue(id, channel, name) {
            Ok(queue) => Some(queue),
            // Unbinding what is gone succeeds, as deleting it does.
            Err(exception) if exception.code() == ReplyCode::NotFound && !name.is_empty() => None,
            Err(exception) => return Err(exception),
        };
        let source = found_or_gone(self.source_of_binding(exchange, arguments))?;
        if let (Some(queue), Some(source)) = (queue, source) {
            let key = self.key_of_binding(queue, name, routing_key);
            self.unbind(&binding(source, Destination::Queue(queue), key, arguments));
        }
        self.send(id, channel, &Method::QueueUnbindOk {});
        Ok(())
    }

    pub(super) fn bind_exchange(
        &mut self,
        id: ConnectionId,
        channel: u16,
        method: &Method<'_>,
    ) -> Result<(), Exception> {
        let Method::ExchangeBind { destination, source, routing_key, no_wait, arguments, .. } = *method
        else {
            return Ok(());
        };
        self.check_room_for_definition()?;
        let from = self.source_of_binding(source, arguments)?;
        let to = self.destination_exchange(destination)?;
        self.bind(binding(from, Destination::Exchange(to), routing_key.as_bytes().into(), arguments));
        self.reply(id, channel, no_wait, Method::ExchangeBindOk {});
        Ok(())
    }

    pub(super) fn unbind_exchange(
        &mut self,
        id: ConnectionId,
        channel: u16,
        method: &Method<'_>,
    ) -> Result<(), Exception> {
        let Method::ExchangeUnbind { destination, source, routing_key, no_wait, arguments, .. } = *method
        else {
            return Ok(());
        };
        let from = found_or_gone(self.source_of_binding(source, arguments))?;
        let to = found_or_gone(self.destination_exchange(destination))?;
        if let (Some(from), Some(to)) = (from, to) {
            let key = routing_key.as_bytes().into();
            self.unbind(&binding(from, Destination::Exchange(to), key, arguments));
        }
        self.reply(id, channel, no_wait, Method::ExchangeUnbindOk {});
        Ok(())
    }

    /// The exchange that a binding leads from. Arguments that it does not look at are refused by their name.
    fn source_of_binding(&self, name: ShortStr<'_>, arguments: Table<'_>) -> Result<ExchangeId, Exception> {
        let source = self.destination_exchange(name)?;
        let kind = self.topology.get(source).map(|found| found.settings.kind);
        if kind != Some(ExchangeKind::Headers) {
            check_no_arguments("a binding", arguments)?;
        } else if Match::check(arguments).is_none() {
            let text = "value of argument 'x-match' is none of all, any, all-with-x, any-with-x";
            return Err(Exception::new(ReplyCode::PreconditionFailed, text));
        }
        Ok(source)
    }

    /// An exchange by its name; the default exchange has the bindings that it has.
    fn destination_exchange(&self, name: ShortStr<'_>) -> Result<ExchangeId, Exception> {
        if name.is_empty() {
            let text = "the default exchange cannot be bound or unbound";
            return Err(Exception::new(ReplyCode::AccessRefused, text));
        }
        self.topology.find(name.as_bytes()).ok_or_else(|| no_exchange(name))
    }

    /// Without a queue's name and a key, the key is the name of the queue that the channel declared last.
    fn key_of_binding(&self, queue: QueueId, name: ShortStr<'_>, key: ShortStr<'_>) -> Box<[u8]> {
        match self.queues.get(queue) {
            Some(found) if name.is_empty() && key.is_empty() => found.name.clone(),
            _ => key.as_bytes().into(),
        }
    }

    fn bind(&mut self, binding: Binding) {
        let record = self.binding_record(&binding);
        if self.topology.bind(binding) {
            self.routing_generation += 1;
            if let (Some(record), Some(journal)) = (record, &mut self.journal) {
                journal.define(&Definition::Binding(record));
            }
        }
    }

    fn unbind(&mut self, binding: &Binding) {
        let record = self.binding_record(binding);
        if self.topology.unbind(binding) {
            self.routing_generation += 1;
            if let (Some(record), Some(journal)) = (record, &mut self.journal) {
                journal.binding_gone(&record);
            }
            self.remove_exchanges(self.done_among(vec![binding.source]));
        }
    }

    /// A binding is durable when both its ends are.
    pub(super) fn binding_record(&self, binding: &Binding) -> Option<BindingRecord> {
        let source = self.topology.get(binding.source).filter(|found| found.settings.durable)?;
        let destination = match binding.destination {
            Destination::Queue(queue) => {
                let queue = self.queues.get(queue).filter(|queue| queue.settings.survives_restart())?;
                RecordedDestination::Queue(queue.journal_id)
            }
            Destination::Exchange(other) => {
                let other = self.topology.get(other).filter(|found| found.settings.durable)?;
                RecordedDestination::Exchange(other.name.clone())
            }
        };
        Some(BindingRecord {
            exchange: source.name.clone(),
            key: binding.key.clone(),
            destination,
            arguments: binding.arguments.clone(),
        })
    }
}

/// Arguments in another order are the same arguments.
fn binding(source: ExchangeId, destination: Destination, key: Box<[u8]>, arguments: Table<'_>) -> Binding {
    let mut entries: Vec<&[u8]> = arguments.raw_entries().map(|(_, entry)| entry).collect();
    entries.sort_unstable();
    Binding { source, destination, key, arguments: entries.concat().into() }
}

/// What is not there is nothing to unbind; other errors stay errors.
fn found_or_gone<T>(found: Result<T, Exception>) -> Result<Option<T>, Exception> {
    match found {
        Ok(found) => Ok(Some(found)),
        Err(exception) if exception.code() == ReplyCode::NotFound => Ok(None),
        Err(exception) => Err(exception),
    }
}

/// Arguments that nothing here knows are refused by their name.
pub(super) fn check_no_arguments(what: &str, arguments: Table<'_>) -> Result<(), Exception> {
    let Some((name, _)) = arguments.entries().next() else { return Ok(()) };
    let text = format!("argument '{}' of {what} is not supported", shown(name));
    Err(Exception::new(ReplyCode::NotImplemented, text))
}
