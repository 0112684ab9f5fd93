//! Which broker.

use super::{foreign, qpid, rabbitmq, reference};
use crate::{error::AgentError, power::Power, service::started::Started};
use tilemark_agent_protocol::Service;
use tilemark_plan::scenario::BrokerService;

/// Starts the broker that the service names, for one user, and waits until it answers.
pub(in crate::service) fn start(service: &Service, power: &mut Power) -> Result<Started, AgentError> {
    let Some(credentials) = &service.credentials else {
        return Err(AgentError::Service("a broker needs a user, and none was made".to_owned()));
    };
    match service.broker.unwrap_or_default() {
        BrokerService::Reference => reference::start(service, credentials, power),
        BrokerService::Rabbitmq => foreign::start(&rabbitmq::RabbitMq, service, credentials),
        BrokerService::QpidBrokerJ => foreign::start(&qpid::QpidBrokerJ, service, credentials),
    }
}
