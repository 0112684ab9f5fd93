//! A message broker as the service: ours in this process, or one of two that others wrote.

mod foreign;
mod qpid;
mod rabbitmq;
mod reference;
mod start;

pub(super) use start::start;

/// Where AMQP brokers listen.
const PORT: u16 = 5672;
