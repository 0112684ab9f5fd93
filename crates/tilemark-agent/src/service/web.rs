//! nginx as the web service.

use super::{
    started::Started,
    wait::{Wait, spawn},
};
use crate::error::{AgentError, step};
use std::{
    fs,
    io::{self, Read, Write},
    net::{Ipv4Addr, TcpStream},
    path::{Path, PathBuf},
    process::{Child, Command},
    time::Duration,
};
use tilemark_agent_protocol::Service;
use tilemark_workloads::{
    sessions,
    web::{self, ServiceFile},
};

/// An emulated guest on a busy host takes some seconds to start a server.
pub(super) const ANSWERS_WITHIN: Duration = Duration::from_secs(120);
/// Time between two attempts while a server starts; none are made once it answers.
pub(super) const RETRY_AFTER: Duration = Duration::from_millis(5);
/// The answer that says that a web server serves.
#[derive(Debug, Clone, Copy)]
pub(super) enum Awaited {
    /// One with this status.
    Status(&'static str),
    /// Any.
    Any,
}

pub(super) const TREE: &str = "/srv/tilemark";
pub(super) const STATE: &str = "/run/tilemark";

/// Starts it with the files that its load will ask for, and waits until it answers.
pub(super) fn start(service: &Service) -> Result<Started, AgentError> {
    let parameters = service.web();
    let unfit = |error: tilemark_workloads::WorkloadError| AgentError::Service(error.to_string());
    lay_out(&web::service_files(&parameters).map_err(unfit)?)?;
    if parameters.tls {
        for file in sessions::certificate() {
            write_file(STATE, &file.path, &file.contents)?;
        }
    }
    let conf = web::service_conf(&parameters, service.vcpus, Path::new(TREE), Path::new(STATE));
    let request = web::ready_request(&parameters).map_err(unfit)?;
    let child = start_nginx(&conf, &request, Awaited::Status("200"))?;
    Ok(Started::process(parameters.service_port(), child))
}

/// Writes what the service serves.
pub(super) fn lay_out(files: &[ServiceFile]) -> Result<(), AgentError> {
    for folder in [TREE, STATE] {
        fs::create_dir_all(folder).map_err(step(format!("make {folder}")))?;
    }
    files.iter().try_for_each(|file| write_file(TREE, &file.path, &file.contents).map(drop))
}

/// Writes a file into one of the folders.
pub(super) fn write_file(folder: &str, name: &str, contents: &[u8]) -> Result<PathBuf, AgentError> {
    let path = Path::new(folder).join(name);
    fs::write(&path, contents).map_err(step(format!("write {}", path.display())))?;
    Ok(path)
}

/// Starts nginx, and waits until it answers that request so.
pub(super) fn start_nginx(conf: &str, request: &[u8], awaited: Awaited) -> Result<Child, AgentError> {
    let conf = write_file(STATE, "nginx.conf", conf.as_bytes())?;
    let mut child = spawn(Command::new(web::NGINX).args(web::nginx_arguments(&conf)), "nginx")?;
    let wait = Wait { service: "nginx", within: ANSWERS_WITHIN, retry_after: RETRY_AFTER };
    // It speaks to the console.
    wait.until_it_serves(&mut child, || is_right(request, awaited), String::new)?;
    Ok(child)
}

/// Whether the right answer comes.
fn is_right(request: &[u8], awaited: Awaited) -> io::Result<()> {
    let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, web::PORT))?;
    stream.set_read_timeout(Some(ANSWERS_WITHIN))?;
    stream.write_all(request)?;
    let mut beginning = [0; 12];
    stream.read_exact(&mut beginning)?;
    let beginning = String::from_utf8_lossy(&beginning);
    match (beginning.strip_prefix("HTTP/1.1 "), awaited) {
        (Some(_), Awaited::Any) => return Ok(()),
        (Some(status), Awaited::Status(wanted)) if status == wanted => return Ok(()),
        _ => {}
    }
    Err(io::Error::other(format!("it answers `{beginning}`")))
}
