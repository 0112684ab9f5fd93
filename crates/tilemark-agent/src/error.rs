//! What can go wrong inside a guest.

use std::{error::Error, io};

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
    /// The database of the service's store.
    #[error("the service did not start")]
    Store(#[from] tilemark_store::StoreError),
    /// Something else is going on.
    #[error("{0}")]
    Refused(&'static str),
}

impl AgentError {
    /// What the reader should do.
    pub(crate) fn remedy(&self) -> &'static str {
        match self {
            Self::Usage(_) => "the agent is started by tilemark only",
            Self::Step(..) | Self::Missing(_) => "read the guest's console",
            Self::Network(error) => error.remedy(),
            Self::Spawn(_) => "build the image again (`tilemark image build --refresh`)",
            Self::Service(_) => "read the guest's console; the image may lack the service's package",
            Self::Store(error) => error.remedy(),
            Self::Refused(_) => "wait for it, or stop it first",
        }
    }
}

/// Names the step that failed.
pub(crate) fn step<E: Into<io::Error>>(what: impl Into<String>) -> impl FnOnce(E) -> AgentError {
    move |error| AgentError::Step(what.into(), error.into())
}

/// An error with its causes, in one line.
pub(crate) fn explain(error: &AgentError) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text += &format!(": {error}");
        cause = error.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use tilemark_store::StoreError;

    #[test]
    fn a_database_that_is_full_is_told_as_that_with_its_own_remedy() {
        let full = StoreError::Full { source: "no space left on device".into() };
        let remedy = full.remedy();
        let error = AgentError::from(full);
        assert_eq!(
            explain(&error),
            "the service did not start: the database's disk is full: no space left on device"
        );
        assert_eq!(error.remedy(), remedy);
    }
}
