//! Which broker runs in a guest.

use crate::JsonSchema;
use serde::{Deserialize, Serialize};

/// Which broker runs in a guest with role `broker`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum BrokerService {
    /// The reference broker, in the agent: so small that a run measures the host.
    #[default]
    Reference,
    /// RabbitMQ as Debian ships it.
    Rabbitmq,
    /// Apache Qpid Broker-J from Maven Central, by version and hash, with its memory store.
    QpidBrokerJ,
}

impl BrokerService {
    /// The name as a scenario writes it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Reference => "reference",
            Self::Rabbitmq => "rabbitmq",
            Self::QpidBrokerJ => "qpid-broker-j",
        }
    }
}
