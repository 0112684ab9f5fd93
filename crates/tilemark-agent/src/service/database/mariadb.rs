//! MariaDB's part.

use super::{STATE, Server};
use crate::{
    error::{AgentError, step},
    service::wait::spawn,
};
use std::{
    fs,
    process::{Child, Command},
};
use tilemark_store::{DatabaseAddress, DatabaseKind, Endpoint};
use tilemark_workloads::store::MARIADB_SOCKET as SOCKET;

pub(super) const PORT: u16 = 3306;
/// The user that the package made.
pub(super) const USER: &str = "mysql";
const SETTINGS: &str = "/run/tilemark/mariadb.cnf";

/// The system's root is the server's root, by its socket and without a password.
pub(super) fn owner() -> DatabaseAddress {
    DatabaseAddress {
        kind: DatabaseKind::Mariadb,
        endpoint: Endpoint::Socket { path: SOCKET.into(), port: PORT },
        user: "root".to_owned(),
        password: None,
        database: "mysql".to_owned(),
        tls: None,
    }
}

/// Its client as the system's root, which reads statements from its standard input and ends at the first one that fails.
pub(super) fn client() -> Command {
    let mut client = Command::new("/usr/bin/mariadb");
    client
        .args(["--no-defaults", "--batch", "--user=root"])
        .arg(format!("--socket={SOCKET}"))
        .current_dir("/");
    client
}

pub(super) fn start(server: &Server<'_>, is_new: bool) -> Result<Child, AgentError> {
    let (data, log) = (server.data.display(), server.log.display());
    let mut lines = vec![
        "[mysqld]".to_owned(),
        format!("datadir={data}"),
        format!("innodb_log_group_home_dir={log}"),
        format!("socket={SOCKET}"),
        format!("port={PORT}"),
        format!("pid_file={STATE}/mariadb.pid"),
        format!("tmpdir={data}"),
        "bind_address=0.0.0.0".to_owned(),
        "skip_name_resolve=ON".to_owned(),
        // Caches begin cold in every repeat, whatever was warm when the template was frozen.
        "innodb_buffer_pool_load_at_startup=OFF".to_owned(),
        "innodb_buffer_pool_dump_at_shutdown=OFF".to_owned(),
    ];
    lines.extend(server.settings()?);
    if let Some(files) = server.certificate()? {
        lines.push(format!("ssl_cert={}", files.certificate.display()));
        lines.push(format!("ssl_key={}", files.key.display()));
        // A client that does not secure its connection is no part of the measurement; the owner comes by the socket.
        lines.push("require_secure_transport=ON".to_owned());
    }
    fs::write(SETTINGS, lines.join("\n") + "\n").map_err(step(format!("write {SETTINGS}")))?;
    let defaults = format!("--defaults-file={SETTINGS}");
    if is_new {
        let mut install = server.command("/usr/bin/mariadb-install-db");
        install.args([&defaults, "--auth-root-authentication-method=socket", "--skip-test-db"]);
        // The server's root is let in by the name of the system's user, which is root and not the server's own.
        install.arg("--auth-root-socket-user=root");
        server.run(&mut install, "mariadb-install-db")?;
        server.made()?;
    }
    let messages = server.messages()?;
    let other = messages.try_clone().map_err(step("keep the database's messages"))?;
    let mut command = server.command("/usr/sbin/mariadbd");
    command.arg(&defaults).stdout(messages).stderr(other);
    spawn(&mut command, "MariaDB")
}
