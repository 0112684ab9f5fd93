//! Starting from a journal.

use std::collections::BTreeMap;

use super::Engine;
use crate::exchange::{Exchange, ExchangeSettings};
use crate::journal::{Journal, Recovered, RecoveredMessage, Writer};
use crate::queue::{Entry, Queue, QueueId};
use crate::store::{Layout, MessageId};

impl Engine {
    /// Takes over what a journal held, and writes to `writer` from now on.
    pub(crate) fn restore(&mut self, recovered: &Recovered, writer: Box<dyn Writer>) {
        for exchange in recovered.exchanges.values() {
            let settings = ExchangeSettings {
                kind: exchange.kind,
                durable: true,
                auto_delete: exchange.auto_delete,
                internal: exchange.internal,
            };
            self.exchanges.insert(exchange.name.clone(), Exchange::new(settings));
        }
        let mut queues = BTreeMap::new();
        for record in recovered.queues.values() {
            let queue = self.queues.insert(Queue::new(record.name.clone(), record.settings, record.id));
            self.queue_names.insert(record.name.clone(), queue);
            queues.insert(record.id, queue);
        }
        for binding in &recovered.bindings {
            if let (Some(exchange), Some(queue)) =
                (self.exchanges.get_mut(&binding.exchange), queues.get(&binding.queue))
            {
                exchange.bind(&binding.key, *queue);
            }
        }
        let mut stored = BTreeMap::new();
        for (serial, message) in &recovered.messages {
            stored.insert(*serial, self.restore_message(*serial, message, &queues));
        }
        self.last_serial = recovered.last_serial;
        self.last_journal_queue = recovered.last_queue;
        self.statistics.journal_ignored_bytes = recovered.ignored_bytes;
        self.journal = Some(Journal::after(recovered, &stored, writer, &self.definitions()));
    }

    fn restore_message(
        &mut self,
        serial: u64,
        message: &RecoveredMessage,
        queues: &BTreeMap<u64, QueueId>,
    ) -> MessageId {
        let layout = Layout { route: message.route, header: message.header };
        let id = self.store.append(layout, &message.bytes, &[]);
        let length = self.store.length(id);
        for queue in message.queues.iter().filter_map(|queue| queues.get(queue)) {
            if let Some(queue) = self.queues.get_mut(*queue) {
                self.store.retain(id);
                // Whether it was delivered before is not known: the mark says "may have been".
                queue.push(Entry { serial, message: id, redelivered: true, journaled: true }, length);
            }
        }
        self.store.release(id);
        id
    }

    #[cfg(test)]
    pub(crate) fn journal_mut(&mut self) -> Option<&mut Journal> {
        self.journal.as_mut()
    }
}
