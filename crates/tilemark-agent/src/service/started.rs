//! A service as the one that started it hands it on.

use crate::error::{AgentError, step};
use std::process::Child;
use tilemark_broker::Broker;
use tilemark_workloads::sessions::BackEnd;

/// A service that answers.
pub(in crate::service) struct Started {
    /// TCP port, 0 when the role serves nobody.
    pub(in crate::service) port: u16,
    /// Its process has a group of its own.
    pub(in crate::service) has_group: bool,
    /// Its process, if it has one.
    pub(in crate::service) child: Option<Child>,
    /// The process that makes its dynamic pages.
    pub(in crate::service) pages: Option<Child>,
    /// The back end, which runs in this very process.
    pub(in crate::service) back_end: Option<BackEnd>,
    /// The reference broker, which runs in this very process.
    pub(in crate::service) broker: Option<Broker>,
}

impl Started {
    /// The port, unless the service's process has ended.
    pub(in crate::service) fn port_if_it_runs(&mut self) -> Result<u16, AgentError> {
        for child in self.child.iter_mut().chain(&mut self.pages) {
            if let Some(status) = child.try_wait().map_err(step("look at the service"))? {
                return Err(AgentError::ServiceEnded(status));
            }
        }
        Ok(self.port)
    }

    /// A service that is a process.
    pub(in crate::service) fn process(port: u16, child: Child) -> Self {
        Self { child: Some(child), ..Self::at(port) }
    }

    /// A service that listens there, with nothing said about what it is.
    pub(in crate::service) const fn at(port: u16) -> Self {
        Self { port, has_group: false, child: None, pages: None, back_end: None, broker: None }
    }

    /// Nothing runs until a load begins.
    pub(in crate::service) const fn nothing() -> Self {
        Self::at(0)
    }
}
