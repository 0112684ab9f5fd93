//! Starting from a journal.

use std::collections::BTreeMap;

use tilemark_amqp::ContentHeader;

use super::BrokerCore;
use super::publish::ttl_of;
use crate::exchange::ExchangeSettings;
use crate::ids::QueueId;
use crate::journal::{Journal, RecordedDestination, Recovered, RecoveredMessage, Writer};
use crate::queue::{Entry, NEVER, Queue};
use crate::store::{Layout, MessageId};
use crate::topology::{Binding, Destination};

impl BrokerCore {
    /// Takes over what a journal held, and writes to `writer` from now on.
    pub(crate) fn restore(&mut self, recovered: &Recovered, writer: Box<dyn Writer>) {
        for exchange in recovered.exchanges.values() {
            let settings = ExchangeSettings {
                kind: exchange.kind,
                durable: true,
                auto_delete: exchange.auto_delete,
                internal: exchange.internal,
                alternate: exchange.alternate.clone(),
            };
            self.topology.declare(&exchange.name, settings);
        }
        let mut queues = BTreeMap::new();
        for record in recovered.queues.values() {
            let queue =
                self.queues.insert(Queue::new(record.name.clone(), record.settings.clone(), record.id));
            self.queue_names.insert(record.name.clone(), queue);
            queues.insert(record.id, queue);
        }
        for binding in &recovered.bindings {
            let source = self.topology.find(&binding.exchange);
            let destination = match &binding.destination {
                RecordedDestination::Queue(id) => queues.get(id).copied().map(Destination::Queue),
                RecordedDestination::Exchange(name) => self.topology.find(name).map(Destination::Exchange),
            };
            if let (Some(source), Some(destination)) = (source, destination) {
                let (key, arguments) = (binding.key.clone(), binding.arguments.clone());
                self.topology.bind(Binding { source, destination, key, arguments });
            }
        }
        let mut stored = BTreeMap::new();
        for (serial, message) in &recovered.messages {
            stored.insert(*serial, self.restore_message(*serial, message, &queues));
        }
        self.last_serial = recovered.last_serial;
        self.last_journal_queue = recovered.last_queue;
        self.statistics.journal_ignored_bytes = recovered.ignored_bytes;
        self.journal = Some(Journal::after(recovered, &stored, writer, &self.store, &self.definitions()));
    }

    fn restore_message(
        &mut self,
        serial: u64,
        message: &RecoveredMessage,
        queues: &BTreeMap<u64, QueueId>,
    ) -> MessageId {
        let layout = Layout { route: message.route, header: message.header };
        let id = self.store.append(layout, [&message.bytes]);
        let length = self.store.length(id);
        let ttl_ms = own_ttl_ms(self.store.parts(id).header);
        for queue_id in message.queues.iter().filter_map(|queue| queues.get(queue)) {
            if let Some(queue) = self.queues.get_mut(*queue_id) {
                self.store.retain(id);
                let ttl_ms = ttl_ms.min(queue.settings.message_ttl_ms);
                // Time passes while no broker runs, too.
                let expires_ms = match ttl_ms {
                    NEVER => NEVER,
                    ttl_ms => self.clock.of_wall_ms(message.published_ms.saturating_add(ttl_ms)),
                };
                // Whether it was delivered before is not known: the mark says "may have been".
                let entry = Entry { serial, message: id, redelivered: true, journaled: true, expires_ms };
                queue.push(entry, length);
                self.arm(*queue_id);
            }
        }
        self.store.release(id);
        id
    }

    #[cfg(test)]
    pub(crate) const fn clock_mut(&mut self) -> &mut super::clock::Clock {
        &mut self.clock
    }

    #[cfg(test)]
    pub(crate) fn journal_mut(&mut self) -> Option<&mut Journal> {
        self.journal.as_mut()
    }
}

/// The time to live that a message brings along; its header was checked when it came in.
fn own_ttl_ms(header: &[u8]) -> u64 {
    let properties = ContentHeader::decode(header).map(|header| header.properties);
    let properties = properties.and_then(|properties| properties.for_broker());
    properties.ok().and_then(|properties| ttl_of(properties.expiration?)).unwrap_or(NEVER)
}
