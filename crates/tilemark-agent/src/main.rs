//! The agent: first process of a guest, init of a native twin, the load process, and the load process of a client machine.
//!
//! ```text
//! /init (process 1 of a guest's kernel)  -> mounts, modules, root       -> first process -> `serve-port`
//! `twin` (process 1 of namespaces)       -> overlay, /dev, pivot_root   -> first process -> `serve-socket`, behind walls
//! `shell` (process 1 of namespaces)      -> overlay, /dev, pivot_root   -> a shell of the image, behind walls
//! `service` (a process of a disk of the user's own)                     -> parts from its parent -> `serve-disk`
//! ```
//! The first process only reaps and ends the guest; its one child serves. So a program that the child starts can be
//! waited for in the ordinary way, and whatever a daemon leaves behind is reaped all the same.

mod channel;
mod clock;
mod data_disk;
mod decoder;
mod describe;
mod error;
mod execute;
mod first_process;
mod guest;
mod guest_of_disk;
mod identity;
mod load;
mod memory;
mod mounts;
mod power;
mod serve;
mod service;
mod twin;

use error::AgentError;
use std::process::ExitCode;

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let done = match arguments.next().as_deref() {
        Some("twin") => twin::run(arguments),
        Some("shell") => twin::shell(arguments),
        Some("serve-port") => channel::Port::open().and_then(serve::serve),
        Some("serve-socket") => channel::Socket::handed().and_then(serve::serve),
        Some("service") => guest_of_disk::start(),
        Some("serve-disk") => guest_of_disk::run(),
        Some("load") => {
            load::serve(std::io::stdin(), std::io::stdout()).map_err(error::step("read from the host"))
        }
        Some("client") => load::serve_client(std::io::stdin(), std::io::stdout(), arguments.next()),
        None if std::process::id() == 1 => guest::run(),
        other => Err(AgentError::Usage(other.unwrap_or("no mode").to_owned())),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("tilemark-agent: {}", tilemark_units::with_causes(&error));
            ExitCode::FAILURE
        }
    }
}
