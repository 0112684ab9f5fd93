//! A broker that others wrote, as a process of the guest. Its user's password stands in a file that only root reads:
//! never in arguments or environment, which every process of a guest can see.

use super::start::PORT;
use crate::{
    error::{AgentError, step},
    service::running::Started,
};
use std::{
    fs::{self, OpenOptions},
    io::{self, Write},
    net::Ipv4Addr,
    os::unix::fs::OpenOptionsExt,
    path::Path,
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};
use tilemark_agent_protocol::{Credentials, Service};
use tilemark_amqp_load::{BrokerAddress, LoadError, Session};

/// An emulated guest on a busy host takes minutes to start a virtual machine of a language in a virtual machine.
const ANSWERS_WITHIN: Duration = Duration::from_secs(400);
/// Time between two attempts while it starts; none are made once it answers.
const ASK_AGAIN_AFTER: Duration = Duration::from_millis(50);
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
    if !broker.needs().exists() {
        let message = format!("the image has no {name}: it lacks {}", broker.needs().display());
        return Err(AgentError::Service(message));
    }
    fs::create_dir_all(STATE).map_err(step(format!("make {STATE}")))?;
    name_this_guest().map_err(step("write /etc/hosts"))?;
    let Settings { file, text } = broker.settings(service, credentials);
    let path = Path::new(STATE).join(file);
    write_for_root(&path, &text).map_err(step(format!("write {}", path.display())))?;
    let said = fs::File::create(Path::new(STATE).join("said")).map_err(step("make the broker's log"))?;
    let heard = said.try_clone().map_err(step("make the broker's log"))?;
    let mut command = broker.command(service);
    command.stdin(Stdio::null()).stdout(said).stderr(heard).current_dir(STATE).env("HOME", STATE);
    let child = command.spawn().map_err(step(format!("start {name}")))?;
    let child = await_answer(child, name, credentials)?;
    Ok(Started::process(PORT, child))
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
    // A file that is there keeps its mode: begin anew.
    let _ = fs::remove_file(path);
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    file.write_all(text.as_bytes())
}

/// Asks until it serves its user, or is gone, or the time is over.
fn await_answer(mut child: Child, name: &str, credentials: &Credentials) -> Result<Child, AgentError> {
    let deadline = Instant::now() + ANSWERS_WITHIN;
    loop {
        let Err(refusal) = serves(credentials) else { return Ok(child) };
        if let Ok(Some(status)) = child.try_wait() {
            return Err(AgentError::Service(format!("{name} ended with {status}; {}", last_words())));
        }
        if Instant::now() > deadline {
            let _ = child.kill();
            let _ = child.wait();
            let seconds = ANSWERS_WITHIN.as_secs();
            return Err(AgentError::Service(format!(
                "{name} did not serve its user within {seconds} s, which an emulated guest on a busy host may need and more: {refusal}; {}",
                last_words()
            )));
        }
        thread::sleep(ASK_AGAIN_AFTER);
    }
}

/// The port is open, and Broker-J even greets, before there is a virtual host for the user: a client's whole way is tried.
fn serves(credentials: &Credentials) -> Result<(), LoadError> {
    let here = BrokerAddress::guest((Ipv4Addr::LOCALHOST, PORT).into());
    let Credentials { user, password } = credentials;
    Session::open(&here.with_user(&**user, &**password), ASKED_FOR)?.close()
}

/// What it said last, for the one who looks for the fault.
fn last_words() -> String {
    let said = fs::read(Path::new(STATE).join("said")).unwrap_or_default();
    let from = said.len().saturating_sub(600);
    format!("it said last: {}", String::from_utf8_lossy(&said[from..]).trim())
}
