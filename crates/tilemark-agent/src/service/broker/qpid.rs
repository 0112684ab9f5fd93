//! Apache Qpid Broker-J: the living relative of the broker that the 2009 paper measured.

use super::{
    PORT,
    foreign::{Foreign, STATE, Settings},
};
use std::{path::Path, process::Command};
use tilemark_agent_protocol::{Credentials, Service};

const JAVA: &str = "/usr/bin/java";
const LIBRARIES: &str = "/opt/qpid-broker-j";

/// Broker-J with AMQP 0-9-1 and its memory store.
pub(super) struct QpidBrokerJ;

impl Foreign for QpidBrokerJ {
    fn name(&self) -> &'static str {
        "Apache Qpid Broker-J"
    }

    fn needs(&self) -> &'static Path {
        Path::new(LIBRARIES)
    }

    /// User and password are our own letters and digits: nothing in them needs an escape.
    fn settings(&self, _: &Service, credentials: &Credentials) -> Settings {
        let Credentials { user, password } = credentials;
        let text = format!(
            r#"{{
  "name": "tilemark",
  "modelVersion": "9.0",
  "authenticationproviders": [{{
    "name": "run", "type": "Plain", "secureOnlyMechanisms": [],
    "users": [{{ "name": "{user}", "type": "managed", "password": "{password}" }}]
  }}],
  "ports": [{{
    "name": "amqp", "port": {PORT}, "authenticationProvider": "run", "protocols": ["AMQP_0_9_1"],
    "virtualhostaliases": [{{ "name": "default", "type": "defaultAlias" }}, {{ "name": "name", "type": "nameAlias" }}]
  }}],
  "virtualhostnodes": [{{
    "name": "default", "type": "Memory", "defaultVirtualHostNode": true,
    "virtualHostInitialConfiguration": "{{\"type\":\"Memory\",\"name\":\"default\"}}"
  }}]
}}
"#
        );
        Settings { file: "qpid.json", text }
    }

    fn command(&self, service: &Service) -> Command {
        // Messages live in direct memory, the rest on the heap; together with the runtime they fit the guest.
        let part = (service.memory.get() / 10 * 3) >> 20;
        let mut command = Command::new(JAVA);
        if service.is_emulated {
            // Java's first compiler only: what the second one gains in minutes of running, its own work costs many times over
            // where it is itself translated. Elsewhere Java is as Debian ships it: its times are figures.
            command.arg("-XX:TieredStopAtLevel=1");
        }
        command
            .args([format!("-Xmx{part}m"), format!("-XX:MaxDirectMemorySize={part}m")])
            .args(["-cp", &format!("{LIBRARIES}/*")])
            .args([format!("-Dqpid.work_dir={STATE}/qpid"), format!("-DQPID_WORK={STATE}/qpid")])
            .args(["org.apache.qpid.server.Main", "-st", "Memory", "-icp"])
            .arg(format!("{STATE}/qpid.json"));
        command
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tilemark_plan::scenario::{BrokerService, Role};
    use tilemark_units::Bytes;

    #[test]
    fn only_an_emulated_java_gets_a_flag_for_its_compiler() {
        let has_the_flag = |is_emulated| {
            let broker = Some(BrokerService::QpidBrokerJ);
            let service =
                Service { is_emulated, broker, ..Service::new(Role::Broker, Bytes::from_gib(1), 1) };
            QpidBrokerJ.command(&service).get_args().any(|argument| argument == "-XX:TieredStopAtLevel=1")
        };
        assert!(has_the_flag(true) && !has_the_flag(false));
    }
}
