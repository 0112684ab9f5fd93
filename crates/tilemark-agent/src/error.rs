//! What can go wrong inside a guest.

use rustix::process::Signal;
use std::{io, os::unix::process::ExitStatusExt, process::ExitStatus, time::Duration};
use tilemark_units::Bytes;

/// A request that could not be carried out, or an agent that could not begin.
#[derive(Debug, thiserror::Error)]
pub(crate) enum AgentError {
    /// Started in a way that it does not know.
    #[error("the agent does not know the mode `{0}`")]
    Usage(String),
    /// One step on the way.
    #[error("cannot {0}")]
    Step(String, #[source] io::Error),
    /// The run network's device.
    #[error("the guest's network device cannot be set up")]
    Network(#[from] tilemark_netlink::NetlinkError),
    /// A process.
    #[error("a process of the guest cannot be started")]
    Spawn(#[from] tilemark_sys::process::SpawnError),
    /// A device of the guest that should be there.
    #[error("the guest has no {0}")]
    Missing(String),
    /// The service.
    #[error("the service did not start: {0}")]
    Service(String),
    /// A service that is not in the guest's image.
    #[error("the image has no {service}: it lacks {lacks}")]
    NotInImage {
        /// Its name, for people.
        service: String,
        /// What of it was looked for.
        lacks: String,
    },
    /// Memory that the guest cannot spare.
    #[error(
        "{wanted} of its memory were to be written and {available} are available",
        wanted = wanted.rounded(),
        available = available.rounded()
    )]
    NoMemory {
        /// So much was to be written.
        wanted: Bytes,
        /// So much its kernel could give.
        available: Bytes,
    },
    /// A service that ended before it answered.
    #[error("{service} ended with {status} before it answered{said}")]
    Ended {
        /// Its name, for people.
        service: String,
        /// How.
        status: ExitStatus,
        /// Its last words, as a continuation of the sentence; empty where they are shown elsewhere.
        said: String,
    },
    /// A port that the guest's own system should serve.
    #[error("nobody listens on port {port} of the guest after {} s", within.as_secs())]
    NobodyListens {
        /// The port.
        port: u16,
        /// How long was waited.
        within: Duration,
        /// What came of the last attempt.
        #[source]
        source: io::Error,
    },
    /// A service that runs and did not answer in its time.
    #[error("{service} runs and did not answer within {} s: {refusal}{said}", within.as_secs())]
    Slow {
        /// Its name, for people.
        service: String,
        /// Its time.
        within: Duration,
        /// What came of the last attempt.
        refusal: String,
        /// Its last words, as a continuation of the sentence; empty where they are shown elsewhere.
        said: String,
    },
    /// The database of the service's store.
    #[error("the service did not start")]
    Store(#[from] tilemark_store::StoreError),
    /// A root that would lead us out of it.
    #[error("the image cannot be the root of a native twin: {0}")]
    Detour(String),
    /// What process 1 of a twin could not do.
    #[error("{0}")]
    Power(String),
    /// The filter of system calls.
    #[error(transparent)]
    Walls(#[from] tilemark_sys::walls::WallsError),
    /// Something else is going on.
    #[error("{0}")]
    Refused(&'static str),
    /// A service that was ready is gone.
    #[error("the service ended with {0} after it was ready")]
    ServiceEnded(std::process::ExitStatus),
}

impl AgentError {
    /// What the reader should do.
    pub(crate) fn remedy(&self) -> &str {
        match self {
            Self::Usage(_) => "the agent is started by tilemark only",
            Self::Step(..) | Self::Missing(_) | Self::Service(_) | Self::Power(_) | Self::Walls(_) => {
                "read the guest's console"
            }
            Self::Network(error) => error.remedy(),
            Self::Detour(_) => {
                "use an image that you trust: a link in such a place would lead to the host's files"
            }
            Self::Spawn(_) => "build the image again (`tilemark image build --refresh`)",
            Self::NotInImage { .. } => {
                "name an image that has it (`brokers`, `database` and `first-look` are built in), or build it again: \
                 `tilemark image build IMAGE --refresh`"
            }
            // Nobody else in a guest sends it.
            Self::Ended { status, .. } if status.signal() == Some(Signal::KILL.as_raw()) => {
                "the guest's kernel ended it, most likely because memory ran out: give the guest more, as with \
                 `--set guest.NAME.memory=2GiB`"
            }
            Self::Ended { .. } => {
                "its last messages, here or on the guest's console, show why; if memory ran out, give the guest more, as \
                 with `--set guest.NAME.memory=2GiB`"
            }
            Self::Slow { .. } => {
                "its last messages, here or on the guest's console, show how far it came. A slow guest needs longer than \
                 that: leave the host to itself, start fewer guests (--tiles), or give each more, as with \
                 `--set guest.NAME.vcpus=2` or `--set guest.NAME.memory=2GiB`"
            }
            Self::NobodyListens { .. } => {
                "check that the disk's system starts that service, on all addresses; a slow one needs a longer `ready.within`"
            }
            Self::Store(error) => error.remedy(),
            Self::NoMemory { .. } => {
                "give the guest more memory (`--set guest.NAME.memory=`), or let it write less (`--set guest.NAME.working_set=`)"
            }
            Self::Refused(_) => "wait for it, or stop it first",
            Self::ServiceEnded(_) => {
                "read the console of its guest; one that was killed may have had too little memory"
            }
        }
    }
}

/// Names the step that failed.
pub(crate) fn step<E: Into<io::Error>>(what: impl Into<String>) -> impl FnOnce(E) -> AgentError {
    move |error| AgentError::Step(what.into(), error.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use tilemark_store::StoreError;

    #[test]
    fn a_full_database_is_reported_with_its_own_remedy() {
        let full = StoreError::Full { source: "no space left on device".into() };
        let remedy = full.remedy().to_owned();
        let error = AgentError::from(full);
        assert_eq!(
            tilemark_units::with_causes(&error),
            "the service did not start: the database's disk is full: no space left on device"
        );
        assert_eq!(error.remedy(), remedy);
    }

    #[test]
    fn a_service_that_is_missing_ended_or_slow_gets_a_remedy_of_its_own() {
        let (service, said) = ("RabbitMQ".to_owned(), "; it said nothing".to_owned());
        let missing = AgentError::NotInImage { service: service.clone(), lacks: "/usr/bin/erl".to_owned() };
        assert_eq!(missing.to_string(), "the image has no RabbitMQ: it lacks /usr/bin/erl");
        assert!(missing.remedy().contains("tilemark image build"));
        let ended = |wait_status| AgentError::Ended {
            service: service.clone(),
            status: ExitStatus::from_raw(wait_status),
            said: said.clone(),
        };
        assert_eq!(
            ended(3 << 8).to_string(),
            "RabbitMQ ended with exit status: 3 before it answered; it said nothing"
        );
        assert!(ended(3 << 8).remedy().contains("show why"));
        assert!(ended(9).remedy().contains("memory ran out"), "{}", ended(9));
        let (within, refusal) = (Duration::from_secs(400), "no broker answers".to_owned());
        let slow = AgentError::Slow { service: service.clone(), within, refusal, said: said.clone() };
        assert_eq!(
            slow.to_string(),
            "RabbitMQ runs and did not answer within 400 s: no broker answers; it said nothing"
        );
        assert!(slow.remedy().contains("--set guest.NAME.vcpus=2"));
        assert!([ended(9), ended(3 << 8), slow].iter().all(|error| !error.remedy().contains("image")));
    }
}
