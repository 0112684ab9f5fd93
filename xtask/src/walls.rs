//! Which crate may know which. A crate is a wall: what it must not know, it cannot name.

use crate::cargo::cargo_command;
use anyhow::{Context, Result, bail};
use serde_json::Value;

/// Each crate with all of Tilemark's crates that it may depend on (tests aside).
const ALLOWED: [(&str, &[&str]); 26] = [
    (
        "tilemark",
        &[
            "tilemark-fleet",
            "tilemark-record",
            "tilemark-report",
            "tilemark-run",
            "tilemark-site",
            "tilemark-units",
        ],
    ),
    ("tilemark-sys", &[]),
    ("tilemark-units", &[]),
    ("tilemark-schema", &[]),
    ("tilemark-netlink", &["tilemark-sys"]),
    ("tilemark-plan", &["tilemark-schema", "tilemark-units"]),
    ("tilemark-host", &["tilemark-plan", "tilemark-schema", "tilemark-sys", "tilemark-units"]),
    ("tilemark-image", &["tilemark-sys", "tilemark-units"]),
    ("tilemark-agent-protocol", &["tilemark-plan", "tilemark-units"]),
    ("tilemark-site", &["tilemark-sys", "tilemark-units"]),
    ("tilemark-tls", &[]),
    (
        "tilemark-load",
        &["tilemark-agent-protocol", "tilemark-plan", "tilemark-sys", "tilemark-tls", "tilemark-units"],
    ),
    (
        "tilemark-workloads",
        &[
            "tilemark-agent-protocol",
            "tilemark-amqp-load",
            "tilemark-load",
            "tilemark-plan",
            "tilemark-store",
            "tilemark-sys",
            "tilemark-units",
        ],
    ),
    (
        "tilemark-agent",
        &[
            "tilemark-agent-protocol",
            "tilemark-amqp-load",
            "tilemark-broker",
            "tilemark-load",
            "tilemark-netlink",
            "tilemark-plan",
            "tilemark-store",
            "tilemark-store-data",
            "tilemark-sys",
            "tilemark-units",
            "tilemark-workloads",
        ],
    ),
    (
        "tilemark-guests",
        &[
            "tilemark-agent-protocol",
            "tilemark-image",
            "tilemark-netlink",
            "tilemark-plan",
            "tilemark-sys",
            "tilemark-units",
        ],
    ),
    ("tilemark-record", &["tilemark-plan", "tilemark-schema", "tilemark-units"]),
    ("tilemark-statistics", &["tilemark-plan", "tilemark-record", "tilemark-units"]),
    (
        "tilemark-fleet",
        &[
            "tilemark-plan",
            "tilemark-record",
            "tilemark-report",
            "tilemark-site",
            "tilemark-statistics",
            "tilemark-sys",
            "tilemark-units",
        ],
    ),
    ("tilemark-report", &["tilemark-plan", "tilemark-record", "tilemark-units"]),
    (
        "tilemark-run",
        &[
            "tilemark-agent-protocol",
            "tilemark-amqp-load",
            "tilemark-broker",
            "tilemark-guests",
            "tilemark-host",
            "tilemark-image",
            "tilemark-plan",
            "tilemark-record",
            "tilemark-report",
            "tilemark-site",
            "tilemark-statistics",
            "tilemark-store",
            "tilemark-store-data",
            "tilemark-sys",
            "tilemark-units",
        ],
    ),
    ("tilemark-fixtures", &["tilemark-plan", "tilemark-units"]),
    (
        "tilemark-fuzz",
        &[
            "tilemark-agent-protocol",
            "tilemark-amqp",
            "tilemark-amqp-load",
            "tilemark-broker",
            "tilemark-fixtures",
            "tilemark-fleet",
            "tilemark-host",
            "tilemark-image",
            "tilemark-load",
            "tilemark-plan",
            "tilemark-record",
            "tilemark-report",
            "tilemark-run",
            "tilemark-statistics",
            "tilemark-store",
            "tilemark-units",
            "tilemark-workloads",
        ],
    ),
    ("tilemark-amqp", &[]),
    ("tilemark-amqp-load", &["tilemark-amqp", "tilemark-plan", "tilemark-tls"]),
    ("tilemark-broker", &["tilemark-amqp", "tilemark-tls"]),
    ("tilemark-store", &["tilemark-store-data", "tilemark-sys", "tilemark-tls"]),
];

/// Fails where a crate knows one that it must not, or is not in the list.
pub(crate) fn check() -> Result<()> {
    let output = cargo_command(&["metadata", "--no-deps", "--format-version", "1", "--locked"])
        .output()
        .context("cargo metadata")?;
    let metadata: Value = serde_json::from_slice(&output.stdout).context("cargo metadata")?;
    let broken = broken(&metadata);
    if broken.is_empty() { Ok(()) } else { bail!("{}", broken.join("; ")) }
}

fn broken(metadata: &Value) -> Vec<String> {
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let mut broken = Vec::new();
    for package in list(&metadata["packages"]) {
        let name = package["name"].as_str().unwrap_or_default();
        let free = ["xtask", "tilemark-store-data"];
        let allowed = ALLOWED.iter().find(|(known, _)| *known == name).map(|(_, allowed)| *allowed);
        for dependency in list(&package["dependencies"]) {
            let known = dependency["name"].as_str().unwrap_or_default();
            let is_ours = known.starts_with("tilemark-") && dependency["kind"].is_null();
            match allowed {
                Some(allowed) if is_ours && !allowed.contains(&known) => {
                    broken.push(format!("{name} must not know {known}"));
                }
                None if is_ours && !free.contains(&name) => {
                    broken.push(format!("{name} is in no list of xtask/src/walls.rs"));
                }
                _ => {}
            }
        }
    }
    broken
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn package(name: &str, dependency: &str, kind: Value) -> Value {
        json!({ "packages": [{ "name": name, "dependencies": [{ "name": dependency, "kind": kind }] }] })
    }

    #[test]
    fn a_plan_that_knows_the_host_is_caught() {
        let metadata = package("tilemark-plan", "tilemark-host", Value::Null);
        assert_eq!(broken(&metadata), ["tilemark-plan must not know tilemark-host"]);
    }

    #[test]
    fn tests_may_know_more() {
        assert!(broken(&package("tilemark-plan", "tilemark-host", json!("dev"))).is_empty());
    }
}
