//! What can stop a load.

use std::{io, net::SocketAddr};

/// A load that could not be done.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// There is nothing to send.
    #[error("the load has no stream with a connection")]
    Nothing,
    /// An open loop without a usable schedule.
    #[error("stream {stream} asks for {rate} requests/s, which gives no schedule")]
    BadRate {
        /// Which stream.
        stream: u32,
        /// Its rate.
        rate: f64,
    },
    /// Bursts that do not fit their period.
    #[error("stream {stream} has bursts that are longer than their period, or of no length")]
    BadBursts {
        /// Which stream.
        stream: u32,
    },
    /// Nobody answered there in time.
    #[error("could not connect to {target} within {seconds:.0} s: {reason}")]
    Unreachable {
        /// Where it goes.
        target: SocketAddr,
        /// How long it was tried.
        seconds: f64,
        /// What the last try ended with.
        reason: String,
    },
    /// The server is not what the load is for, and trying longer would not help.
    #[error("{target} cannot be loaded: {reason}")]
    WrongServer {
        /// Where it goes.
        target: SocketAddr,
        /// Why.
        reason: String,
    },
    /// The kernel refused what a sender needs.
    #[error("a sender could not {doing}")]
    Kernel {
        /// What it needed.
        doing: &'static str,
        /// What the kernel said.
        #[source]
        source: io::Error,
    },
    /// The kernel refused a thread for a sender.
    #[error("a sender could not start a thread")]
    NoThread(#[source] io::Error),
    /// Our bug.
    #[error("a sender ended without a report")]
    SenderLost,
    /// A histogram from another process does not decode.
    #[error("a histogram of {bytes} bytes does not decode: {reason}")]
    BadHistogram {
        /// Its length.
        bytes: usize,
        /// What the decoder said.
        reason: String,
    },
}

impl LoadError {
    /// What the reader should do.
    pub fn remedy(&self) -> &'static str {
        match self {
            Self::Nothing => "give the load at least one connection to a guest",
            Self::BadRate { .. } => "give a rate above 0, at most 10,000,000/s",
            Self::BadBursts { .. } => "set `burst_length` above 0 and at most `burst_every`",
            Self::Unreachable { .. } => {
                "check that the service runs, listens on that address and accepts that many connections"
            }
            Self::WrongServer { .. } => {
                "check protocol and port (https:// or `tls` only where the server has TLS); for a certificate give the name that it is \
                 for, the authority that signed it with `--ca FILE` (`ca` in a scenario), or accept any with `--insecure`"
            }
            Self::Kernel { .. } => {
                "raise the limit of open files (`ulimit -n`); Linux 5.11 or newer is needed"
            }
            Self::NoThread(_) => {
                "raise the limit of processes and threads (`ulimit -u`, `pids.max` of the control group), or free memory"
            }
            Self::SenderLost => "report this as a bug of Tilemark, with the output above",
            Self::BadHistogram { .. } => "use the same version of Tilemark at both ends",
        }
    }
}

impl From<rustix::io::Errno> for LoadError {
    fn from(errno: rustix::io::Errno) -> Self {
        Self::Kernel { doing: "make a socket or wait for one", source: errno.into() }
    }
}
