//! Limits of libvirt's running daemon, by virt-admin(1). They last until the daemon ends: its configuration is not touched.

use std::io;
use std::path::Path;

use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with};
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
/// put only to one that did not answer virt-admin. A daemon that is stopped and has as many waiting as it may is not waited for.
fn is_left_behind(socket: &str) -> bool {
    let connected = || {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let asking = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
        connect(&asking, &SocketAddrUnix::new(socket)?)
    };
    connected() == Err(Errno::CONNREFUSED)
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
    program::run("virt-admin", &[&["--connect", &connection], arguments].concat(), program::TO_ANSWER)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::net::{bind, listen};
    use std::{sync::mpsc, thread, time::Duration};

    /// The kernel lets one more wait than is asked for.
    #[test]
    fn a_daemon_that_is_stopped_with_a_full_queue_is_neither_waited_for_nor_left_behind() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket").to_str().unwrap().to_owned();
        let address = SocketAddrUnix::new(&*path).unwrap();
        let new = |flags| socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None).unwrap();
        let daemon = new(SocketFlags::CLOEXEC);
        bind(&daemon, &address).unwrap();
        listen(&daemon, 0).unwrap();
        let [waits, another] = [(); 2].map(|()| new(SocketFlags::CLOEXEC | SocketFlags::NONBLOCK));
        connect(&waits, &address).unwrap();
        assert_eq!(connect(&another, &address), Err(Errno::AGAIN), "its queue is full");
        let (sender, answer) = mpsc::channel();
        let asked = path.clone();
        thread::spawn(move || sender.send(is_left_behind(&asked)));
        assert_eq!(answer.recv_timeout(Duration::from_secs(10)), Ok(false), "it was waited for");
        drop(daemon);
        assert!(is_left_behind(&path));
        assert!(!is_left_behind(&format!("{path}-of-none")));
    }

    #[test]
    fn a_limit_is_the_value_behind_its_own_label() {
        let shown = "nclients_max        : 5000\nnclients            : 3\nnclients_unauth_max : 20\n";
        assert_eq!(value_of(shown, LibvirtLimit::Clients.label()).as_deref(), Some("5000"));
        assert_eq!(value_of(shown, LibvirtLimit::Workers.label()), None);
    }
}
