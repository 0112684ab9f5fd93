//! The services that run in this guest.

use super::{broker, database, pages, program, site, web};
use crate::{
    data_disk::DataDisk,
    error::{AgentError, step},
    power::Power,
};
use std::process::Child;
use tilemark_agent_protocol::Service;
use tilemark_broker::Broker;
use tilemark_plan::scenario::Role;
use tilemark_workloads::sessions::BackEnd;

/// The running services, in the order of their start.
#[derive(Default)]
pub(crate) struct Services {
    running: Vec<Running>,
}

struct Running {
    service: Service,
    started: Started,
}

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
    fn port_if_it_runs(&mut self) -> Result<u16, AgentError> {
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

    /// A service that listens there, with nothing said of what it is.
    pub(in crate::service) const fn at(port: u16) -> Self {
        Self { port, has_group: false, child: None, pages: None, back_end: None, broker: None }
    }

    /// Nothing runs until a load begins.
    const fn nothing() -> Self {
        Self::at(0)
    }
}

impl Services {
    /// Starts it and those after it, each when the one before it answers; their ports. The same services again are no error while they
    /// run: a clone's do already.
    pub(crate) fn start(&mut self, first: &Service, power: &mut Power) -> Result<Vec<u16>, AgentError> {
        let asked: Vec<&Service> = std::iter::once(first).chain(&first.then).collect();
        let is_same = |(running, asked): (&Running, &&Service)| running.service == **asked;
        if self.running.len() > asked.len() || !self.running.iter().zip(&asked).all(is_same) {
            return Err(AgentError::Refused("another service runs in this guest"));
        }
        let mut ports = Vec::new();
        for running in &mut self.running {
            ports.push(running.started.port_if_it_runs()?);
        }
        for service in asked.into_iter().skip(ports.len()) {
            let started = Self::start_one(service, power)?;
            ports.push(started.port);
            self.running.push(Running { service: service.clone(), started });
        }
        Ok(ports)
    }

    fn start_one(service: &Service, power: &mut Power) -> Result<Started, AgentError> {
        let started = match service.role {
            Role::Web => match (service.site(), &service.pages) {
                (Some(site), _) => site::start(service, &site)?,
                (None, Some(folder)) => pages::start(service, folder)?,
                (None, None) => web::start(service)?,
            },
            Role::Backend => site::start_back_end()?,
            // Their work is started by a load, or there is none.
            Role::Idle | Role::Disk | Role::Client => Started::nothing(),
            Role::Compute => {
                // The files of its jobs are on it.
                DataDisk::Data.take(power)?;
                Started::nothing()
            }
            Role::Broker => broker::start(service, power)?,
            Role::Database => database::start(service, power)?,
            Role::Program => program::start(service)?,
        };
        Ok(started)
    }

    /// Ends all of them, the last first, and waits until they are gone.
    pub(crate) fn stop(&mut self, power: &mut Power) -> Result<(), AgentError> {
        while let Some(running) = self.running.pop() {
            Self::stop_one(running, power)?;
        }
        Ok(())
    }

    fn stop_one(Running { service, started }: Running, power: &mut Power) -> Result<(), AgentError> {
        if let Some(broker) = started.broker {
            // Dropped, it ends.
            drop(broker);
            power.unmount(DataDisk::Data)?;
        }
        if service.role == Role::Compute {
            power.unmount(DataDisk::Data)?;
        }
        drop(started.back_end);
        if let Some(mut pages) = started.pages {
            let _ = pages.kill();
            pages.wait().map_err(step("wait for the end of what makes its pages"))?;
        }
        let Some(mut child) = started.child else { return Ok(()) };
        match service.role {
            // Its disks shall be whole and free afterwards.
            Role::Database => database::stop(&service, child, power),
            _ => {
                if started.has_group {
                    program::end_group(&child);
                }
                let _ = child.kill();
                child.wait().map_err(step("wait for the service's end"))?;
                Ok(())
            }
        }
    }
}
