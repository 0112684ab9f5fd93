//! RabbitMQ as Debian ships it.

use super::{
    foreign::{Foreign, STATE, Settings},
    start::PORT,
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
        let text = format!(
            "default_user = {user}\ndefault_pass = {password}\nloopback_users = none\n\
             listeners.tcp.default = {PORT}\nvm_memory_high_watermark.absolute = {memory}\n\
             # The default of 50 MB is more than a small guest has over its image.\n\
             disk_free_limit.absolute = 8MB\n"
        );
        Settings { file: "rabbitmq.conf", text }
    }

    fn command(&self, _: &Service) -> Command {
        let mut command = Command::new(SERVER);
        command
            .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
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
