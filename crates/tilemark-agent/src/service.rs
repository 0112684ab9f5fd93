//! The service of this guest: one at a time, started once.

use crate::error::{AgentError, step};
use std::{
    fs,
    io::Write,
    net::{Ipv4Addr, TcpStream},
    process::{Child, Command},
    thread,
    time::{Duration, Instant},
};
use tilemark_agent_protocol::Service;
use tilemark_plan::scenario::Role;

const WEB_PORT: u16 = 80;
const ANSWERS_WITHIN: Duration = Duration::from_secs(60);
const CONFIGURATION: &str = "daemon off; user root; worker_processes 1; pid /run/tilemark-nginx.pid; \
    error_log stderr; events { worker_connections 4096; } \
    http { access_log off; sendfile on; keepalive_requests 1000000000; keepalive_timeout 3600; \
    server { listen 80; root /srv/tilemark; } }\n";

/// The running service, if any.
#[derive(Default)]
pub(crate) struct Services {
    running: Option<Running>,
}

struct Running {
    service: Service,
    port: u16,
    child: Option<Child>,
}

impl Services {
    /// Starts it and waits until it answers. The same service again is no error: a clone's runs already.
    pub(crate) fn start(&mut self, service: &Service) -> Result<u16, AgentError> {
        match &self.running {
            Some(running) if running.service == *service => return Ok(running.port),
            Some(_) => return Err(AgentError::Refused("another service runs in this guest")),
            None => {}
        }
        let (child, port) = match service.role {
            Role::Web => (Some(start_web(service)?), WEB_PORT),
            _ => (None, 0),
        };
        self.running = Some(Running { service: service.clone(), port, child });
        Ok(port)
    }

    /// Ends it and waits until it is gone.
    pub(crate) fn stop(&mut self) -> Result<(), AgentError> {
        if let Some(mut child) = self.running.take().and_then(|running| running.child) {
            let _ = child.kill();
            child.wait().map_err(step("wait for the service's end"))?;
        }
        Ok(())
    }
}

fn start_web(service: &Service) -> Result<Child, AgentError> {
    let files = service.web.clone().unwrap_or_default().files;
    fs::create_dir_all("/srv/tilemark").map_err(step("make /srv/tilemark"))?;
    for file in files {
        let path = format!("/srv/tilemark/{}", file.size.get());
        let length = usize::try_from(file.size.get()).unwrap_or(0);
        fs::write(&path, vec![b'x'; length]).map_err(step(format!("write {path}")))?;
    }
    let path = "/run/tilemark-nginx.conf";
    fs::File::create(path)
        .and_then(|mut file| file.write_all(CONFIGURATION.as_bytes()))
        .map_err(step(format!("write {path}")))?;
    for folder in ["/var/log/nginx", "/var/lib/nginx"] {
        fs::create_dir_all(folder).map_err(step(format!("make {folder}")))?;
    }
    let mut child = Command::new("nginx").args(["-c", path]).spawn().map_err(step("start nginx"))?;
    let deadline = Instant::now() + ANSWERS_WITHIN;
    loop {
        if TcpStream::connect((Ipv4Addr::LOCALHOST, WEB_PORT)).is_ok() {
            return Ok(child);
        }
        if let Ok(Some(status)) = child.try_wait() {
            return Err(AgentError::Service(format!("nginx ended with {status}")));
        }
        if Instant::now() > deadline {
            let _ = child.kill();
            let _ = child.wait();
            return Err(AgentError::Service("nginx did not answer within 60 s".into()));
        }
        thread::sleep(Duration::from_millis(5));
    }
}
