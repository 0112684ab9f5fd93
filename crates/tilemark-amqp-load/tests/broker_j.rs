//! Our loads against Apache Qpid Broker-J, whose libraries Maven fetches, the first time for some seconds. The broker is the
//! test's own and ends with it.

mod common;

use std::net::SocketAddr;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use common::{Group, accounts_for_everything, free_port, wait_until_it_serves};

/// The libraries' folder; nothing where they cannot be had, which in CI is a failure.
fn libraries() -> Option<PathBuf> {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("broker_j");
    let project = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/broker_j/pom.xml");
    let mut fetch = Command::new("mvn");
    fetch.args(["--batch-mode", "--quiet", "dependency:copy-dependencies", "--file"]).arg(project);
    fetch.arg("-DincludeScope=runtime").arg(format!("-DoutputDirectory={}", folder.display()));
    let why = match fetch.output() {
        Ok(output) if output.status.success() => return Some(folder),
        Ok(output) => format!("Maven cannot fetch Broker-J: {}", String::from_utf8_lossy(&output.stdout)),
        Err(_) => "mvn is not installed".to_owned(),
    };
    assert!(std::env::var_os("TILEMARK_CI").is_none(), "{why}, and CI may not skip");
    eprintln!("skipped: {why}");
    None
}

/// Guest on the loopback interface, messages in memory.
fn settings(port: u16) -> String {
    format!(
        r#"{{
  "name": "test", "modelVersion": "9.0",
  "authenticationproviders": [{{
    "name": "test", "type": "Plain", "secureOnlyMechanisms": [],
    "users": [{{ "name": "guest", "type": "managed", "password": "guest" }}]
  }}],
  "ports": [{{
    "name": "amqp", "port": {port}, "bindingAddress": "127.0.0.1", "authenticationProvider": "test",
    "protocols": ["AMQP_0_9_1"],
    "virtualhostaliases": [{{ "name": "default", "type": "defaultAlias" }}, {{ "name": "name", "type": "nameAlias" }}]
  }}],
  "virtualhostnodes": [{{
    "name": "default", "type": "Memory", "defaultVirtualHostNode": true,
    "virtualHostInitialConfiguration": "{{\"type\":\"Memory\",\"name\":\"default\"}}"
  }}]
}}"#
    )
}

#[test]
fn every_load_accounts_for_all_messages_of_broker_j_too() {
    let Some(libraries) = libraries() else { return };
    let folder = tempfile::tempdir().expect("a temporary folder");
    let port = free_port();
    let file = folder.path().join("settings.json");
    std::fs::write(&file, settings(port)).expect("a file in our own folder");
    let work = folder.path().display();
    let mut java = Command::new("java");
    java.arg("-cp").arg(libraries.join("*"));
    java.args([format!("-Dqpid.work_dir={work}"), format!("-DQPID_WORK={work}")]);
    java.args(["org.apache.qpid.server.Main", "-st", "Memory", "-icp"]).arg(&file);
    java.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).process_group(0);
    let _broker = Group(java.spawn().expect("Maven needs java, too"));
    let address = SocketAddr::from(([127, 0, 0, 1], port));
    wait_until_it_serves(address);
    accounts_for_everything(address, false);
}
