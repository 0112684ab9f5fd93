//! Limits of libvirt's running daemon, by virt-admin(1). They last until the daemon ends: its configuration is not touched.

use std::io;
use std::os::unix::net::UnixStream;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::program;

/// Daemons that manage QEMU, the one of current versions first, each with the socket of its admin interface.
const DAEMONS: [(&str, &str); 2] =
    [("virtqemud", "/run/libvirt/virtqemud-admin-sock"), ("libvirtd", "/run/libvirt/libvirt-admin-sock")];

/// A limit of the daemon that can be changed while it runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LibvirtLimit {
    /// Clients that are connected at once.
    Clients,
    /// Requests that run at once.
    Workers,
}

impl LibvirtLimit {
    pub(super) fn read(self) -> io::Result<String> {
        let label = self.label();
        on_running_daemon(|daemon| {
            let shown = virt_admin(daemon, &[self.command("info"), daemon])?;
            value_of(&shown, label).ok_or_else(|| {
                io::Error::other(format!("virt-admin shows no {label} of {daemon}: {}", shown.trim()))
            })
        })
    }

    pub(super) fn write(self, text: &str) -> io::Result<()> {
        let option = match self {
            Self::Clients => "--max-clients",
            Self::Workers => "--max-workers",
        };
        on_running_daemon(|daemon| {
            virt_admin(daemon, &[self.command("set"), daemon, option, text.trim()]).map(drop)
        })
    }

    fn command(self, verb: &str) -> &'static str {
        match (self, verb) {
            (Self::Clients, "set") => "server-clients-set",
            (Self::Clients, _) => "server-clients-info",
            (Self::Workers, "set") => "server-threadpool-set",
            (Self::Workers, _) => "server-threadpool-info",
        }
    }

    /// As virt-admin shows it.
    fn label(self) -> &'static str {
        match self {
            Self::Clients => "nclients_max",
            Self::Workers => "maxWorkers",
        }
    }
}

/// Does something with the first daemon that runs.
fn on_running_daemon<T>(work: impl Fn(&'static str) -> io::Result<T>) -> io::Result<T> {
    for (daemon, socket) in DAEMONS.iter().filter(|(_, socket)| Path::new(socket).exists()) {
        match work(daemon) {
            Err(_) if is_left_behind(socket) => {}
            done => return done,
        }
    }
    Err(io::Error::new(io::ErrorKind::NotFound, "neither virtqemud nor libvirtd runs on this host"))
}

/// Whether nobody listens on a socket any more, as where its daemon was killed. The question itself is seen in the daemon's log, so it is
/// put only to one that did not answer virt-admin.
fn is_left_behind(socket: &str) -> bool {
    UnixStream::connect(socket).is_err_and(|error| error.kind() == io::ErrorKind::ConnectionRefused)
}

/// The value in a line such as `maxWorkers     : 20`.
fn value_of(shown: &str, label: &str) -> Option<String> {
    shown
        .lines()
        .filter_map(|line| line.split_once(':'))
        .find(|(name, _)| name.trim() == label)
        .map(|(_, value)| value.trim().to_owned())
}

fn virt_admin(daemon: &str, arguments: &[&str]) -> io::Result<String> {
    let connection = format!("{daemon}:///system");
    program::run("virt-admin", &[&["--connect", &connection], arguments].concat())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_is_the_value_behind_its_own_label() {
        let shown = "nclients_max        : 5000\nnclients            : 3\nnclients_unauth_max : 20\n";
        assert_eq!(value_of(shown, LibvirtLimit::Clients.label()).as_deref(), Some("5000"));
        assert_eq!(value_of(shown, LibvirtLimit::Workers.label()), None);
    }
}
