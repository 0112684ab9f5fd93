//! RabbitMQ as Debian ships it.

use super::{
    PORT, TLS_PORT,
    foreign::{Foreign, STATE, Settings},
};
use std::{path::Path, process::Command};
use tilemark_agent_protocol::{Credentials, Service};

/// The script itself: the one on the path wants to be another user.
const SERVER: &str = "/usr/lib/rabbitmq/bin/rabbitmq-server";

/// RabbitMQ with its defaults, but for its user and what a small guest needs.
pub(super) struct RabbitMq;

impl Foreign for RabbitMq {
    fn name(&self) -> &'static str {
        "RabbitMQ"
    }

    fn needs(&self) -> &'static Path {
        Path::new(SERVER)
    }

    fn settings(&self, service: &Service, credentials: &Credentials) -> Settings {
        let Credentials { user, password } = credentials;
        let memory = service.memory.get() / 10 * 4;
        let listens = if service.tls {
            format!(
                "listeners.tcp = none\nlisteners.ssl.default = {TLS_PORT}\nssl_options.versions.1 = tlsv1.3\n\
                 ssl_options.certfile = {STATE}/server.crt\nssl_options.keyfile = {STATE}/server.key\n\
                 ssl_options.verify = verify_none\n"
            )
        } else {
            format!("listeners.tcp.default = {PORT}\n")
        };
        let text = format!(
            "default_user = {user}\ndefault_pass = {password}\nloopback_users = none\n\
             {listens}vm_memory_high_watermark.absolute = {memory}\n\
             # The default of 50 MB is more than a small guest has over its image.\n\
             disk_free_limit.absolute = 8MB\n"
        );
        Settings { file: "rabbitmq.conf", text }
    }

    fn command(&self, _: &Service) -> Command {
        let mut command = Command::new(SERVER);
        command
            .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
            // Its script becomes the server then. Else it waits for the server as a shell that ends with 0 whatever came of
            // it, and that leaves it running when it is ended itself.
            .env("RUNNING_UNDER_SYSTEMD", "true")
            // A name that a clone does not change.
            .env("RABBITMQ_NODENAME", "tilemark@localhost")
            .env("RABBITMQ_CONFIG_FILE", format!("{STATE}/rabbitmq.conf"))
            .env("RABBITMQ_MNESIA_BASE", format!("{STATE}/mnesia"))
            .env("RABBITMQ_LOG_BASE", STATE)
            .env("RABBITMQ_LOGS", "-")
            .env("RABBITMQ_ENABLED_PLUGINS_FILE", format!("{STATE}/plugins"));
        command
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{os::unix::fs::symlink, process::Stdio};
    use tilemark_plan::scenario::{BrokerService, Role};
    use tilemark_units::Bytes;

    /// In CI it must be there.
    fn has_rabbitmq() -> bool {
        let has = Path::new(SERVER).exists();
        assert!(
            has || std::env::var_os("TILEMARK_CI").is_none(),
            "rabbitmq-server is missing and CI may not skip"
        );
        if !has {
            eprintln!("skipped: rabbitmq-server is not installed");
        }
        has
    }

    #[test]
    fn how_the_server_ends_is_seen_through_its_script() {
        if !has_rabbitmq() {
            return;
        }
        let folder = tempfile::tempdir().unwrap();
        // In Erlang's place a program that does not know its options and says so by 125.
        symlink("/usr/bin/timeout", folder.path().join("erl")).unwrap();
        let broker = Some(BrokerService::Rabbitmq);
        let service = Service { broker, ..Service::new(Role::Broker, Bytes::from_gib(1), 1) };
        let path = format!("{}:/usr/bin:/bin", folder.path().display());
        let mut command = RabbitMq.command(&service);
        command.env("PATH", path).env("HOME", folder.path()).stdin(Stdio::null()).stderr(Stdio::null());
        assert_eq!(command.status().unwrap().code(), Some(125));
    }
}
