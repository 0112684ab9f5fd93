//! Exchanges: which queues a message goes to.

use std::collections::HashMap;

use crate::queue::QueueId;
use crate::topic;

/// How an exchange compares routing keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ExchangeKind {
    /// Equal keys.
    Direct,
    /// Every queue.
    Fanout,
    /// Patterns of words.
    Topic,
}

impl ExchangeKind {
    pub(crate) fn from_name(name: &[u8]) -> Option<Self> {
        match name {
            b"direct" => Some(Self::Direct),
            b"fanout" => Some(Self::Fanout),
            b"topic" => Some(Self::Topic),
            _ => None,
        }
    }

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Direct => "direct",
            Self::Fanout => "fanout",
            Self::Topic => "topic",
        }
    }
}

/// What `exchange.declare` fixes; declaring again must repeat it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ExchangeSettings {
    pub(crate) kind: ExchangeKind,
    pub(crate) durable: bool,
    pub(crate) auto_delete: bool,
    pub(crate) internal: bool,
}

#[derive(Debug)]
pub(crate) struct Exchange {
    pub(crate) settings: ExchangeSettings,
    bindings: HashMap<Box<[u8]>, Vec<QueueId>>,
}

impl Exchange {
    pub(crate) fn new(settings: ExchangeSettings) -> Self {
        Self { settings, bindings: HashMap::new() }
    }

    /// Binds; false when it was bound with this key already.
    pub(crate) fn bind(&mut self, key: &[u8], queue: QueueId) -> bool {
        let queues = self.bindings.entry(key.into()).or_default();
        if queues.contains(&queue) {
            return false;
        }
        queues.push(queue);
        true
    }

    /// Unbinds; false when it was not bound with this key.
    pub(crate) fn unbind(&mut self, key: &[u8], queue: QueueId) -> bool {
        let Some(queues) = self.bindings.get_mut(key) else { return false };
        let before = queues.len();
        queues.retain(|found| *found != queue);
        let removed = queues.len() < before;
        if queues.is_empty() {
            self.bindings.remove(key);
        }
        removed
    }

    /// Forgets a queue; true when it had been bound.
    pub(crate) fn forget(&mut self, queue: QueueId) -> bool {
        let before = self.bindings.len();
        let mut found = false;
        self.bindings.retain(|_, queues| {
            let length = queues.len();
            queues.retain(|other| *other != queue);
            found |= queues.len() < length;
            !queues.is_empty()
        });
        found || self.bindings.len() < before
    }

    pub(crate) fn is_unused(&self) -> bool {
        self.bindings.is_empty()
    }

    /// Keys and queues.
    pub(crate) fn bindings(&self) -> impl Iterator<Item = (&[u8], QueueId)> {
        self.bindings.iter().flat_map(|(key, queues)| queues.iter().map(|queue| (&**key, *queue)))
    }

    /// Adds the queues that a routing key leads to, each once.
    pub(crate) fn route(&self, routing_key: &[u8], targets: &mut Vec<QueueId>) {
        match self.settings.kind {
            ExchangeKind::Direct => {
                if let Some(queues) = self.bindings.get(routing_key) {
                    targets.extend_from_slice(queues);
                }
            }
            ExchangeKind::Fanout => targets.extend(self.bindings.values().flatten()),
            ExchangeKind::Topic => {
                let fitting =
                    self.bindings.iter().filter(|(pattern, _)| topic::matches(pattern, routing_key));
                targets.extend(fitting.flat_map(|(_, queues)| queues));
            }
        }
        if targets.len() > 1 {
            targets.sort_unstable();
            targets.dedup();
        }
    }
}
