//! Tilemark's own broker.

use super::port_of;
use crate::{
    data_disk::DataDisk,
    error::AgentError,
    power::Power,
    service::{certificate::Certificate, started::Started},
};
use std::net::Ipv4Addr;
use tilemark_agent_protocol::{Credentials, Service};
use tilemark_broker::{BrokerError, Config, Reach, ServerTls, User};
use tilemark_units::with_causes;

/// Ours, in this process: no other program is between a message and the guest's kernel. A guest with a disk keeps durable messages on
/// it.
pub(super) fn start(
    service: &Service,
    credentials: &Credentials,
    power: &mut Power,
) -> Result<Started, AgentError> {
    let with_cause = |error: BrokerError| AgentError::Service(with_causes(&error));
    let tls = service.tls.then(certificate).transpose()?;
    let has_disk = DataDisk::Data.take(power)?;
    let config = Config {
        users: vec![User::new(&*credentials.user, &*credentials.password, Reach::Anywhere)],
        journal: has_disk.then(|| DataDisk::Data.folder().join("journal")),
        notify: |notice| eprintln!("broker: {notice}"),
        // The guest's memory, where the kernel shows a twin that of its host.
        memory_limit_bytes: service.memory.get() / 10 * 4,
        tls,
        ..Config::new((Ipv4Addr::UNSPECIFIED, port_of(service)).into())
    };
    let broker = tilemark_broker::serve(config).map_err(with_cause)?;
    let port = broker.address().port();
    Ok(Started { broker: Some(broker), ..Started::at(port) })
}

/// One of this start.
fn certificate() -> Result<ServerTls, AgentError> {
    let made = Certificate::make()?;
    ServerTls::of_pem(&made.certificate, &made.key).map_err(|error| AgentError::Service(error.to_string()))
}
