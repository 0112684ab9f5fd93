//! Process 1: starts the serving child, reaps, ends when it ends.

use crate::{
    channel::SOCKET_NUMBER,
    error::{AgentError, step},
    power::POWER_NUMBER,
};
use std::os::fd::OwnedFd;
use tilemark_sys::{
    process::{Ended, Spawn, init_loop},
    walls::Walls,
};
use tilemark_units::with_causes;

/// The environment of everything in a guest.
pub(crate) const ENVIRONMENT: [&str; 3] =
    ["PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/root", "LANG=C.UTF-8"];

/// What the serving process of a twin gets, and what keeps it from the host.
pub(crate) struct Twin {
    /// To the host.
    pub(crate) channel: OwnedFd,
    /// To process 1.
    pub(crate) power: OwnedFd,
    pub(crate) walls: Walls,
}

/// Starts the child in `mode` and waits for its end, reaping everybody's orphans.
pub(crate) fn serve_and_reap(mode: &str, twin: Option<Twin>) -> Result<Ended, AgentError> {
    let prepare = step::<std::io::Error>("prepare the serving process");
    let spawn = Spawn::this_program("tilemark-agent")
        .and_then(|spawn| spawn.argument(mode))
        .and_then(|spawn| spawn.environment(ENVIRONMENT))
        .map_err(prepare)?
        .own_session();
    let spawn = match twin {
        Some(Twin { channel, power, walls }) => {
            spawn.hand(channel, SOCKET_NUMBER).hand(power, POWER_NUMBER).behind(walls)
        }
        None => spawn,
    };
    let child = spawn.start()?;
    init_loop(&child).map_err(step("wait for the serving process"))
}

/// Prints how it ended, for the console.
pub(crate) fn report(ended: &Result<Ended, AgentError>) {
    match ended {
        Ok(Ended::Exited(0)) => println!("tilemark-agent: the guest ends in order"),
        Ok(Ended::Exited(code)) => println!("tilemark-agent: the serving process ended with code {code}"),
        Ok(Ended::Signalled(signal)) => println!("tilemark-agent: signal {signal} ended the serving process"),
        Err(error) => println!("tilemark-agent: {}", with_causes(error)),
    }
}
