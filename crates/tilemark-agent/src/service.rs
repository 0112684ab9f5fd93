//! The service of this guest: one at a time, started once. What it is made of stands in `tilemark-workloads`.

use crate::error::{AgentError, step};
use std::{
    fs,
    io::{Read, Write},
    net::{Ipv4Addr, TcpStream},
    path::Path,
    process::{Child, Command},
    thread,
    time::{Duration, Instant},
};
use tilemark_agent_protocol::Service;
use tilemark_plan::scenario::Role;
use tilemark_workloads::web;

/// An emulated guest on a busy host takes some seconds to start a server.
const ANSWERS_WITHIN: Duration = Duration::from_secs(120);
/// Time between two attempts while a server starts; none are made once it answers.
const ASK_AGAIN_AFTER: Duration = Duration::from_millis(5);
const TREE: &str = "/srv/tilemark";
const STATE: &str = "/run/tilemark";

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
            Role::Web => (Some(start_web(service)?), web::PORT),
            // Their work is started by a load, or there is none.
            Role::Idle | Role::Disk | Role::Compute => (None, 0),
            Role::Broker | Role::Database => {
                return Err(AgentError::Service("this agent does not carry it yet".to_owned()));
            }
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
    let parameters = service.web.clone().unwrap_or_default();
    let unfit = |error: tilemark_workloads::WorkloadError| AgentError::Service(error.to_string());
    let tree = Path::new(TREE);
    let state = Path::new(STATE);
    for folder in [tree, state] {
        fs::create_dir_all(folder).map_err(step(format!("make {}", folder.display())))?;
    }
    for file in web::service_files(&parameters).map_err(unfit)? {
        let path = tree.join(&file.path);
        fs::write(&path, &file.contents).map_err(step(format!("write {}", path.display())))?;
    }
    let conf = state.join("nginx.conf");
    let text = web::nginx_conf(service.vcpus, web::PORT, tree, state);
    fs::write(&conf, text).map_err(step(format!("write {}", conf.display())))?;
    let request = web::ready_request(&parameters).map_err(unfit)?;
    let child = Command::new(web::NGINX).args(web::nginx_arguments(&conf)).spawn();
    await_answer(child.map_err(step(format!("start {}", web::NGINX)))?, &request)
}

/// Asks until the right answer comes, or the server is gone, or the time is over.
fn await_answer(mut child: Child, request: &[u8]) -> Result<Child, AgentError> {
    let deadline = Instant::now() + ANSWERS_WITHIN;
    loop {
        if is_right(request).unwrap_or(false) {
            return Ok(child);
        }
        if let Ok(Some(status)) = child.try_wait() {
            return Err(AgentError::Service(format!("nginx ended with {status}")));
        }
        if Instant::now() > deadline {
            let _ = child.kill();
            let _ = child.wait();
            let seconds = ANSWERS_WITHIN.as_secs();
            return Err(AgentError::Service(format!("nginx did not answer within {seconds} s")));
        }
        thread::sleep(ASK_AGAIN_AFTER);
    }
}

fn is_right(request: &[u8]) -> std::io::Result<bool> {
    let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, web::PORT))?;
    stream.set_read_timeout(Some(ANSWERS_WITHIN))?;
    stream.write_all(request)?;
    let mut beginning = [0; 12];
    stream.read_exact(&mut beginning)?;
    Ok(beginning == *b"HTTP/1.1 200")
}
