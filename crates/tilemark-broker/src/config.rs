//! The settings of a broker.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use tilemark_tls::ServerTls;

use crate::connection::Origin;
use crate::journal::JournalDamage;

/// From where a user may come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    /// From any address.
    Anywhere,
    /// From this machine only.
    Loopback,
}

/// Somebody who may connect. The password is never printed.
#[derive(Clone, PartialEq, Eq)]
pub struct User {
    name: String,
    password: String,
    reach: Reach,
}

impl User {
    /// A user with a password.
    pub fn new(name: impl Into<String>, password: impl Into<String>, reach: Reach) -> Self {
        Self { name: name.into(), password: password.into(), reach }
    }

    /// `guest` with password `guest`, from this machine only, as clients expect it of a broker.
    pub fn guest() -> Self {
        Self::new("guest", "guest", Reach::Loopback)
    }

    /// Whether these credentials from such a peer are this user's.
    pub(crate) fn admits(&self, name: &[u8], password: &[u8], origin: Origin) -> bool {
        let same_name = self.name.as_bytes() == name;
        let same_password = same_bytes(self.password.as_bytes(), password);
        same_name && same_password && (origin == Origin::ThisMachine || self.reach == Reach::Anywhere)
    }
}

impl std::fmt::Debug for User {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("User").field("name", &self.name).field("reach", &self.reach).finish_non_exhaustive()
    }
}

/// Compares in a time that does not depend on where the first difference is.
fn same_bytes(a: &[u8], b: &[u8]) -> bool {
    a.len() == b.len() && a.iter().zip(b).fold(0, |difference, (a, b)| difference | (a ^ b)) == 0
}

/// What an operator must know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Notice {
    /// The journal is damaged, and its broker starts with what is left.
    DamageAccepted {
        /// The folder of the journal.
        folder: PathBuf,
        /// What is lost.
        damage: JournalDamage,
    },
    /// The journal cannot be written, as on a full disk.
    JournalFailed {
        /// What the kernel says.
        error: String,
    },
}

impl std::fmt::Display for Notice {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::DamageAccepted { folder, damage } => {
                write!(f, "the journal in {} is damaged; {damage}", folder.display())
            }
            Self::JournalFailed { error } => write!(
                f,
                "the journal cannot be written: {error}. Durable messages are refused from now on, transient ones are \
                 served. See that the disk is neither full nor failing, then start the broker again"
            ),
        }
    }
}

/// How a broker is to run.
#[derive(Clone, Debug)]
pub struct Config {
    /// Where to listen; port 0 takes a free one ([`crate::Broker::address`] says which).
    pub listen: SocketAddr,
    /// Who may connect.
    pub users: Vec<User>,
    /// Certificate and key with which every connection is secured; `None`: none is.
    pub tls: Option<ServerTls>,
    /// Folder of the journal. Without one, durable queues are refused: nothing here only pretends to be stored.
    pub journal: Option<PathBuf>,
    /// Whether a journal that is damaged is taken for what is left of it. Otherwise the broker does not start.
    pub accept_damage: bool,
    /// Called with what an operator must know, from the thread that starts the broker and from the broker's own.
    pub notify: fn(&Notice),
    /// Memory for messages, bytes. Above it publishers wait (TCP back-pressure, `connection.blocked`).
    pub memory_limit_bytes: u64,
    /// Proposed to clients; they may choose otherwise.
    pub heartbeat: Duration,
    /// A larger message closes its channel with 311, bytes.
    pub largest_message_bytes: u64,
}

impl Config {
    /// Guest from this machine, no journal, 40 % of the machine's memory, 60 s heartbeat, messages up to 128 MiB.
    /// Share, heartbeat and size are what RabbitMQ 3 ships with.
    pub fn new(listen: SocketAddr) -> Self {
        let info = rustix::system::sysinfo();
        let memory_bytes = info.totalram as u64 * u64::from(info.mem_unit.max(1));
        Self {
            listen,
            users: vec![User::guest()],
            tls: None,
            journal: None,
            accept_damage: false,
            notify: |_| {},
            memory_limit_bytes: memory_bytes / 10 * 4,
            heartbeat: Duration::from_secs(60),
            largest_message_bytes: 128 << 20,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn guest_is_admitted_from_this_machine_only_and_prints_no_password() {
        let guest = User::new("guest", "secret-word", Reach::Loopback);
        assert!(guest.admits(b"guest", b"secret-word", Origin::ThisMachine));
        assert!(!guest.admits(b"guest", b"secret-word", Origin::Elsewhere));
        assert!(!guest.admits(b"guest", b"secret-worm", Origin::ThisMachine));
        assert!(!guest.admits(b"guest", b"", Origin::ThisMachine));
        assert!(!format!("{guest:?}").contains("secret"));
    }
}
