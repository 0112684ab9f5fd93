//! nginx as the web service.

use super::{
    running::Started,
    wait::{Wait, spawn},
};
use crate::error::{AgentError, step};
use std::{
    fs,
    io::{self, Read, Write},
    net::{Ipv4Addr, TcpStream},
    path::Path,
    process::Command,
    time::Duration,
};
use tilemark_agent_protocol::Service;
use tilemark_workloads::web;

/// An emulated guest on a busy host takes some seconds to start a server.
const ANSWERS_WITHIN: Duration = Duration::from_secs(120);
/// Time between two attempts while a server starts; none are made once it answers.
const ASK_AGAIN_AFTER: Duration = Duration::from_millis(5);
const TREE: &str = "/srv/tilemark";
const STATE: &str = "/run/tilemark";

/// Starts it with the files that its load will ask for, and waits until it answers.
pub(super) fn start(service: &Service) -> Result<Started, AgentError> {
    let parameters = service.web();
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
    let mut child = spawn(Command::new(web::NGINX).args(web::nginx_arguments(&conf)), "nginx")?;
    let wait = Wait { service: "nginx", within: ANSWERS_WITHIN, ask_again_after: ASK_AGAIN_AFTER };
    // It speaks to the console.
    wait.until_it_serves(&mut child, || is_right(&request), String::new)?;
    Ok(Started::process(web::PORT, child))
}

/// Whether the right answer comes.
fn is_right(request: &[u8]) -> io::Result<()> {
    let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, web::PORT))?;
    stream.set_read_timeout(Some(ANSWERS_WITHIN))?;
    stream.write_all(request)?;
    let mut beginning = [0; 12];
    stream.read_exact(&mut beginning)?;
    if beginning == *b"HTTP/1.1 200" {
        return Ok(());
    }
    Err(io::Error::other(format!("it answers `{}`", String::from_utf8_lossy(&beginning))))
}
