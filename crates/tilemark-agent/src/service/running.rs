//! The services that run in this guest.

use super::{broker, database, pages, program, site, started::Started, web};
use crate::{
    data_disk::DataDisk,
    error::{AgentError, step},
    power::Power,
};
use tilemark_agent_protocol::Service;
use tilemark_plan::scenario::Role;

/// The running services, in the order of their start.
#[derive(Default)]
pub(crate) struct Services {
    running: Vec<Running>,
}

struct Running {
    service: Service,
    started: Started,
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
