//! A user's own pages: nginx serves a folder of the image, and PHP runs its `.php` files.

use super::{
    started::Started,
    wait::{Wait, spawn},
    web::{ANSWERS_WITHIN, Awaited, RETRY_AFTER, STATE, start_nginx, write_file},
};
use crate::error::{AgentError, step};
use std::{fs, os::unix::net::UnixStream, path::Path, process::Command};
use tilemark_agent_protocol::Service;
use tilemark_workloads::{pages, sessions};

/// Starts PHP and nginx, and waits until both answer. What a page says is for its load to check: a database that it asks may be
/// started later.
pub(super) fn start(service: &Service, folder: &str) -> Result<Started, AgentError> {
    if !Path::new(folder).is_dir() {
        let lacks = format!("the folder {folder}, its `pages`");
        return Err(AgentError::NotInImage { service: "web server".to_owned(), lacks });
    }
    let (parameters, state) = (service.web(), Path::new(STATE));
    fs::create_dir_all(state).map_err(step(format!("make {STATE}")))?;
    if parameters.tls {
        for file in sessions::certificate() {
            write_file(STATE, &file.path, &file.contents)?;
        }
    }
    let conf = write_file(STATE, "php.conf", sessions::php_conf(service.vcpus, state).as_bytes())?;
    let mut php = spawn(Command::new(sessions::PHP_FPM).args(pages::php_arguments(&conf)), "PHP")?;
    let wait = Wait { service: "PHP", within: ANSWERS_WITHIN, retry_after: RETRY_AFTER };
    let socket = pages::php_socket(state);
    // It speaks to the console.
    wait.until_it_serves(&mut php, || UnixStream::connect(&socket).map(drop), String::new)?;
    let conf = pages::nginx_conf(&parameters, service.vcpus, Path::new(folder), state);
    match start_nginx(&conf, pages::READY_REQUEST, Awaited::Any) {
        Ok(child) => Ok(Started { pages: Some(php), ..Started::process(parameters.service_port(), child) }),
        Err(error) => {
            let _ = php.kill();
            let _ = php.wait();
            Err(error)
        }
    }
}
