//! A site: nginx with PHP, and the back end that PHP asks.

use super::{
    started::Started,
    wait::spawn,
    web::{Awaited, STATE, TREE, lay_out, start_nginx, write_file},
};
use crate::error::{AgentError, step};
use std::{net::Ipv4Addr, path::Path, process::Command};
use tilemark_agent_protocol::Service;
use tilemark_plan::workload::Site;
use tilemark_workloads::sessions::{self, BACK_END_PORT, BackEnd};

/// Starts nginx, PHP and a back end of the guest's own, and waits until PHP answers.
pub(super) fn start(service: &Service, site: &Site) -> Result<Started, AgentError> {
    let (tree, state) = (Path::new(TREE), Path::new(STATE));
    lay_out(&sessions::site_files(site))?;
    let back_end = BackEnd::start(Ipv4Addr::LOCALHOST, BACK_END_PORT).map_err(step("start the back end"))?;
    if site.tls {
        for file in sessions::certificate() {
            write_file(STATE, &file.path, &file.contents)?;
        }
    }
    let conf = write_file(STATE, "php.conf", sessions::php_conf(service.vcpus, state).as_bytes())?;
    let mut pages = spawn(Command::new(sessions::PHP_FPM).args(sessions::php_arguments(&conf)), "PHP")?;
    let conf = sessions::site_conf(site, service.vcpus, tree, state);
    match start_nginx(&conf, &sessions::ready_request(), Awaited::Status(sessions::READY_STATUS)) {
        Ok(child) => {
            let port = sessions::site_port(site);
            Ok(Started { pages: Some(pages), back_end: Some(back_end), ..Started::process(port, child) })
        }
        Err(error) => {
            let _ = pages.kill();
            let _ = pages.wait();
            Err(error)
        }
    }
}

/// Starts the back end of other guests.
pub(super) fn start_back_end() -> Result<Started, AgentError> {
    let back_end =
        BackEnd::start(Ipv4Addr::UNSPECIFIED, BACK_END_PORT).map_err(step("start the back end"))?;
    Ok(Started { back_end: Some(back_end), ..Started::at(BACK_END_PORT) })
}
