//! A third-party broker, as a process of the guest. Its user's password is in a file that only root reads:
//! never in arguments or environment, which every process of a guest can see.

use super::port_of;
use crate::{
    error::{AgentError, step},
    service::{
        certificate::Certificate,
        started::Started,
        wait::{Wait, last_words, spawn},
    },
};
use std::{
    fs::{self, OpenOptions},
    io::{self, Write},
    net::Ipv4Addr,
    os::unix::fs::OpenOptionsExt,
    path::Path,
    process::{Command, Stdio},
    time::Duration,
};
use tilemark_agent_protocol::{Credentials, Service};
use tilemark_amqp_load::{BrokerAddress, LoadError, Session};

/// Time between two attempts while it starts; none are made once it answers.
const RETRY_AFTER: Duration = Duration::from_millis(50);
/// Each attempt takes so long at most: the first client of a runtime that is still cold waits for its code to be compiled.
const ASKED_FOR: Duration = Duration::from_secs(10);
/// Settings, state and what the broker says.
pub(super) const STATE: &str = "/run/tilemark/broker";

/// How one of them is set up.
pub(super) trait Foreign {
    /// Its name, for people.
    fn name(&self) -> &'static str;
    /// A program or file without which it cannot start.
    fn needs(&self) -> &'static Path;
    /// Its settings, with the one user that may use it.
    fn settings(&self, service: &Service, credentials: &Credentials) -> Settings;
    /// The command that starts it in the foreground.
    fn command(&self, service: &Service) -> Command;
}

/// A file of settings.
pub(super) struct Settings {
    /// Its name, below [`STATE`].
    pub(super) file: &'static str,
    /// Its text. It holds the password.
    pub(super) text: String,
}

/// Starts it and waits until it serves its user.
pub(super) fn start(
    broker: &dyn Foreign,
    service: &Service,
    credentials: &Credentials,
) -> Result<Started, AgentError> {
    let name = broker.name();
    find(name, broker.needs())?;
    fs::create_dir_all(STATE).map_err(step(format!("make {STATE}")))?;
    name_this_guest().map_err(step("write /etc/hosts"))?;
    let Settings { file, text } = broker.settings(service, credentials);
    let path = Path::new(STATE).join(file);
    write_for_root(&path, &text).map_err(step(format!("write {}", path.display())))?;
    let log = Path::new(STATE).join("said");
    let said = fs::File::create(&log).map_err(step("make the broker's log"))?;
    let heard = said.try_clone().map_err(step("make the broker's log"))?;
    if service.tls {
        Certificate::make()?.write(Path::new(STATE), None)?;
    }
    let mut command = broker.command(service);
    command.stdin(Stdio::null()).stdout(said).stderr(heard).current_dir(STATE).env("HOME", STATE);
    let mut child = spawn(&mut command, name)?;
    let within = service.foreign_broker_within();
    let wait = Wait { service: name, within, retry_after: RETRY_AFTER };
    wait.until_it_serves(
        &mut child,
        || serves(service, credentials),
        || last_words(&log, Some(credentials)),
    )?;
    Ok(Started::process(port_of(service), child))
}

/// Whether the image has it.
fn find(name: &str, needs: &Path) -> Result<(), AgentError> {
    if needs.exists() {
        return Ok(());
    }
    Err(AgentError::NotInImage { service: name.to_owned(), lacks: needs.display().to_string() })
}

/// Both brokers look up `localhost`, and a bare image has nobody who answers.
fn name_this_guest() -> io::Result<()> {
    let hosts = Path::new("/etc/hosts");
    if fs::read_to_string(hosts).is_ok_and(|text| text.contains("localhost")) {
        return Ok(());
    }
    fs::write(hosts, "127.0.0.1 localhost\n")
}

fn write_for_root(path: &Path, text: &str) -> io::Result<()> {
    // A file that is there keeps its mode: begin again.
    let _ = fs::remove_file(path);
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    file.write_all(text.as_bytes())
}

/// The port is open, and Broker-J even greets, before there is a virtual host for the user: a client's whole way is tried.
fn serves(service: &Service, credentials: &Credentials) -> Result<(), LoadError> {
    let here = BrokerAddress::guest((Ipv4Addr::LOCALHOST, port_of(service)).into());
    let here = if service.tls { here.secured() } else { here };
    let Credentials { user, password } = credentials;
    Session::open(&here.with_user(&**user, &**password), ASKED_FOR)?.close()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_broker_that_the_image_lacks_is_reported() {
        find("RabbitMQ", Path::new("/")).unwrap();
        let error = find("RabbitMQ", Path::new("/nowhere/rabbitmq-server")).unwrap_err();
        assert_eq!(error.to_string(), "the image has no RabbitMQ: it lacks /nowhere/rabbitmq-server");
    }
}
