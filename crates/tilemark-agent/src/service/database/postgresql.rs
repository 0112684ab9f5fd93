//! PostgreSQL's part.

use super::{STATE, Server, own};
use crate::{
    error::{AgentError, step},
    service::wait::spawn,
};
use std::{
    fs,
    path::{Path, PathBuf},
    process::Child,
};
use tilemark_store::{DatabaseAddress, DatabaseKind, Endpoint};

pub(super) const PORT: u16 = 5432;
/// The user that the package made.
pub(super) const USER: &str = "postgres";
/// Who may come where connections are secured.
const SECURED_ACCESS: &str = "/run/tilemark/pg_hba.conf";
const PROGRAMS: &str = "/usr/lib/postgresql";

/// The server's owner, by its socket and without a password: nobody else is in the guest.
pub(super) fn owner() -> DatabaseAddress {
    DatabaseAddress {
        kind: DatabaseKind::Postgresql,
        endpoint: Endpoint::Socket { path: STATE.into(), port: PORT },
        user: USER.to_owned(),
        password: None,
        database: "postgres".to_owned(),
        tls: None,
    }
}

pub(super) fn start(server: &Server<'_>, is_new: bool) -> Result<Child, AgentError> {
    let programs = programs()?;
    if is_new {
        let mut make = server.command(&programs.join("initdb").display().to_string());
        make.args([
            "--auth-local=trust",
            "--auth-host=scram-sha-256",
            "-U",
            USER,
            "-E",
            "UTF8",
            "--locale=C",
        ]);
        make.arg("-D").arg(&server.data).arg("-X").arg(server.log.join("wal"));
        server.run(&mut make, "initdb")?;
        let access = server.data.join("pg_hba.conf");
        let rules = "local all all trust\nhost all all all scram-sha-256\n";
        fs::write(&access, rules).map_err(step(format!("write {}", access.display())))?;
        server.made()?;
    }
    let messages = server.messages()?;
    let other = messages.try_clone().map_err(step("keep the database's messages"))?;
    let mut command = server.command(&programs.join("postgres").display().to_string());
    command.arg("-D").arg(&server.data).arg("-k").arg(STATE).args(["-p", &PORT.to_string()]);
    command.args(["-c", "listen_addresses=0.0.0.0"]);
    for line in server.settings()? {
        command.args(["-c", &line]);
    }
    if let Some(files) = server.certificate()? {
        command.args(["-c", "ssl=on"]);
        command.args(["-c", &format!("ssl_cert_file={}", files.certificate.display())]);
        command.args(["-c", &format!("ssl_key_file={}", files.key.display())]);
        // A client that does not secure its connection is no part of the measurement. The rules on the disk are those of all starts.
        fs::write(SECURED_ACCESS, "local all all trust\nhostssl all all all scram-sha-256\n")
            .map_err(step(format!("write {SECURED_ACCESS}")))?;
        own(Path::new(SECURED_ACCESS), server.user)?;
        command.args(["-c", &format!("hba_file={SECURED_ACCESS}")]);
    }
    spawn(command.stdout(messages).stderr(other), "PostgreSQL")
}

/// The folder of the newest version in the image.
fn programs() -> Result<PathBuf, AgentError> {
    let entries = fs::read_dir(PROGRAMS).map_err(step(format!("read {PROGRAMS}")))?;
    let mut versions: Vec<PathBuf> = entries.flatten().map(|entry| entry.path().join("bin")).collect();
    versions.sort();
    versions.pop().ok_or_else(|| AgentError::NotInImage {
        service: "PostgreSQL".to_owned(),
        lacks: format!("a version in {PROGRAMS}"),
    })
}
