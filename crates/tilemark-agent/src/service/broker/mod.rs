//! A message broker as the service: ours in this process, or one of two third-party brokers.

mod foreign;
mod qpid;
mod rabbitmq;
mod reference;
mod start;

pub(super) use start::start;

use tilemark_agent_protocol::Service;

/// Where AMQP brokers listen.
const PORT: u16 = 5672;
/// Where they listen for TLS.
const TLS_PORT: u16 = 5671;

/// Where this one listens, with TLS or without.
const fn port_of(service: &Service) -> u16 {
    if service.tls { TLS_PORT } else { PORT }
}
