//! The agent in a guest that boots from a disk of the user's own: an ordinary process, started by that disk's system.

use crate::{
    channel::{OfDisk, Port},
    error::{AgentError, step},
    first_process::ENVIRONMENT,
    serve,
};
use rustix::system::{RebootCommand, reboot};
use std::{
    fs::OpenOptions,
    os::fd::OwnedFd,
    thread,
    time::{Duration, Instant},
};
use tilemark_sys::process::Spawn;

/// Modules are loaded in the background while a system starts.
const PORT_APPEARS_WITHIN: Duration = Duration::from_secs(60);
const LOOK_AGAIN_AFTER: Duration = Duration::from_millis(100);
/// Where the host reads what is printed.
const CONSOLE: &str = "/dev/console";

/// Starts the process that serves, in a session of its own, and leaves it alone: whoever called this goes on.
pub(crate) fn start() -> Result<(), AgentError> {
    let opened = |path: &str| -> Result<OwnedFd, AgentError> {
        let file = OpenOptions::new().read(true).write(true).open(path);
        file.map(OwnedFd::from).map_err(step(format!("open {path}")))
    };
    let prepare = || step::<std::io::Error>("prepare the serving process");
    let console = opened(CONSOLE)?;
    let spawn = Spawn::this_program("tilemark-agent")
        .and_then(|spawn| spawn.argument("serve-disk"))
        .and_then(|spawn| spawn.environment(ENVIRONMENT))
        .map_err(prepare())?
        .hand(opened("/dev/null")?, 0)
        .hand(console.try_clone().map_err(prepare())?, 1)
        .hand(console, 2)
        .own_session();
    spawn.start()?;
    Ok(())
}

/// Serves until the host wants it to end, and powers the guest off then.
pub(crate) fn run() -> Result<(), AgentError> {
    // After an error the disk's system goes on: its console shows the error, and the host waits for an answer without success.
    serve::serve(OfDisk(port()?))?;
    rustix::fs::sync();
    reboot(RebootCommand::PowerOff).map_err(step("power off"))
}

fn port() -> Result<Port, AgentError> {
    let deadline = Instant::now() + PORT_APPEARS_WITHIN;
    loop {
        match Port::open() {
            Err(AgentError::Missing(_)) if Instant::now() < deadline => thread::sleep(LOOK_AGAIN_AFTER),
            done => return done,
        }
    }
}
