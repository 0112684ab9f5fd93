//! What can go wrong between a load and a broker.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use tilemark_amqp::DecodeError;
use tilemark_plan::problem::Fault;

/// Why a load ended without figures.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The address is not of the form `amqp://user:password@host:port/virtual-host`.
    #[error("'{text}' is not an address of a broker: {reason}")]
    Address {
        /// What was given, without its password.
        text: String,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// The address names a user, and there is no password for it.
    #[error("no password for user `{user}` of {host}")]
    NoPassword {
        /// The user.
        user: String,
        /// The broker's host, with its port where the address has one.
        host: String,
    },
    /// A setting that cannot work.
    #[error("{0}")]
    Setting(Fault),
    /// Nobody listens there.
    #[error("no broker answers at {address}")]
    Connect {
        /// Where.
        address: SocketAddr,
        /// Why not.
        source: io::Error,
    },
    /// User and password were refused.
    #[error("the broker refused user '{user}'")]
    WrongPassword {
        /// The user.
        user: String,
    },
    /// The broker closed the connection and said why.
    #[error("the broker closed the connection: {code} {text}")]
    Closed {
        /// AMQP reply code.
        code: u16,
        /// The broker's words.
        text: String,
    },
    /// The broker closed a channel and said why.
    #[error("the broker closed a channel: {code} {text}")]
    ChannelClosed {
        /// AMQP reply code.
        code: u16,
        /// The broker's words.
        text: String,
    },
    /// A queue or exchange of that name exists and is declared otherwise.
    #[error("a queue or an exchange exists on the broker and is declared otherwise: {text}")]
    DeclaredOtherwise {
        /// The broker's words.
        text: String,
    },
    /// The connection ended without a word.
    #[error("the broker hung up without saying why")]
    HungUp,
    /// The broker does not speak TLS, or its certificate is not accepted.
    #[error("{0}")]
    Tls(String),
    /// The connection failed.
    #[error("the connection to the broker failed")]
    Socket(#[source] io::Error),
    /// Nothing moved for too long.
    #[error("the broker did not {what} within {} s", timeout.as_secs())]
    Stalled {
        /// What it was to do.
        what: &'static str,
        /// For how long we waited.
        timeout: Duration,
    },
    /// The broker has blocked publishers, usually because memory or disk is short.
    #[error("the broker has blocked publishers for {} s: {reason}", timeout.as_secs())]
    Blocked {
        /// The broker's words.
        reason: String,
        /// For how long we waited.
        timeout: Duration,
    },
    /// The broker sent what AMQP 0-9-1 does not allow.
    #[error("the broker sent malformed AMQP 0-9-1")]
    Malformed(#[source] DecodeError),
    /// The broker sent a method that has no place there.
    #[error("the broker sent {method}, which was not expected")]
    Unexpected {
        /// The method.
        method: &'static str,
    },
    /// A publisher or subscriber has no thread.
    #[error("a thread of the load cannot be started")]
    Thread(#[source] io::Error),
    /// Another thread of the load failed first; its error is the one that is reported.
    #[error("the load was ended because another part of it failed")]
    Aborted,
}

impl LoadError {
    /// Whether the broker has ended the connection, or stopped to answer on it.
    pub(crate) const fn is_end_of_connection(&self) -> bool {
        matches!(
            self,
            Self::Closed { .. }
                | Self::ChannelClosed { .. }
                | Self::HungUp
                | Self::Socket(_)
                | Self::Stalled { .. }
                | Self::Blocked { .. }
        )
    }

    /// What the reader should do.
    pub fn remedy(&self) -> &str {
        match self {
            Self::Address { .. } => "give it as amqp://user:password@host:5672/",
            Self::NoPassword { .. } => "set TILEMARK_BROKER_PASSWORD",
            Self::Setting(fault) => &fault.remedy,
            Self::Connect { .. } => {
                "start a broker there (tilemark broker --listen ADDRESS:PORT), or correct the address"
            }
            Self::WrongPassword { .. } => {
                "correct user and password in the address; note that guest is usually admitted from the broker's own machine only"
            }
            Self::Closed { .. } | Self::ChannelClosed { .. } => {
                "look at the reply text and into the broker's log"
            }
            Self::DeclaredOtherwise { .. } => {
                "delete the queue or exchange that is in the way, then run again"
            }
            Self::HungUp | Self::Socket(_) => {
                "look into the broker's log: it may have crashed or run out of memory"
            }
            Self::Tls(_) => {
                "name the authority's certificate with --ca, correct host and port, or accept any certificate with --insecure"
            }
            Self::Stalled { .. } => "see whether the broker is overloaded, paused or out of disk",
            Self::Blocked { .. } => "give the broker more memory or disk, or lower the load",
            Self::Malformed(_) | Self::Unexpected { .. } => {
                "see that the port speaks AMQP 0-9-1; with TLS the address begins with amqps://"
            }
            Self::Thread(_) => {
                "raise the limit of threads (`ulimit -u`), free memory, or give the load fewer publishers and subscribers"
            }
            Self::Aborted => "see the first error",
        }
    }
}
