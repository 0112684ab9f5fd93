//! `doctor`: what this host has and lacks.

use crate::plan::{
    bridge_filter::{self, Filtered},
    host::{Probe, facts},
};
use serde::Serialize;
use std::net::Ipv4Addr;
use tilemark_guests::own_bridge::{WantedBridge, look_at, port_with_address, refuse_addresses_in_use};
use tilemark_host::{
    LiveHost,
    doctor::{self, Finding, Severity, Style},
};
use tilemark_plan::{facts::HostFacts, own_bridge::OwnBridge};
use tilemark_units::counted;

/// The finding about a bridge of the user's own.
const OWN_BRIDGE: &str = "own-bridge";

/// Facts with what is to be said about them.
#[derive(Debug, Clone)]
pub struct Diagnosis {
    facts: HostFacts,
    findings: Vec<Finding>,
    /// What is right with the bridge, in words.
    said: Option<String>,
}

/// Reads the host, times its accelerator, and says what it lacks; and whether guests can be joined to a bridge of the user's own.
pub fn diagnose(wanted: Option<&WantedBridge>) -> Diagnosis {
    let facts = facts(Probe::Time);
    let mut findings = doctor::diagnose(&facts);
    findings.extend(tilemark_guests::missing_wall().map(no_ingress_filter));
    findings.extend(doctor::libvirt(&LiveHost));
    let (said, found) = match wanted.map(own_bridge) {
        Some(Ok((own, said))) => (Some(said), doubts(&own)),
        Some(Err(finding)) => (None, vec![*finding]),
        None => (None, Vec::new()),
    };
    findings.extend(found);
    Diagnosis { facts, findings, said }
}

fn no_ingress_filter(what: String) -> Finding {
    Finding {
        key: "no-ingress-filter".to_owned(),
        severity: Severity::Limits,
        blocks: Vec::new(),
        what,
        cost:
            "a hostile guest can send to the host under another guest's address; it cannot reach other guests"
                .to_owned(),
        remedy: "load the kernel modules sch_ingress and cls_bpf: modprobe -a sch_ingress cls_bpf".to_owned(),
    }
}

/// What may keep others from guests of a bridge that they can be joined to.
fn doubts(own: &OwnBridge) -> Vec<Finding> {
    let filtered = bridge_filter::look(own).map(filtered_bridge);
    let on_port = port_with_address(own).map(|(port, address)| address_on_port(own, &port, address));
    filtered.into_iter().chain(on_port).collect()
}

/// A card that was joined to a bridge and kept its address: this host still sends by it, and what is answered arrives at the bridge.
fn address_on_port(own: &OwnBridge, port: &str, address: Ipv4Addr) -> Finding {
    let OwnBridge { bridge, prefix, .. } = own;
    Finding {
        key: "bridge-port-address".to_owned(),
        severity: Severity::Limits,
        blocks: Vec::new(),
        what: format!("{port}, a port of the bridge {bridge}, has the address {address} of the bridge's network"),
        cost: "this host may not reach machines of that network, such as clients: it sends to them by that port, and their answers arrive at the bridge"
            .to_owned(),
        remedy: format!(
            "move the address to the bridge: `ip address del {address}/{prefix} dev {port}`; docs/own-bridge.md has all commands"
        ),
    }
}

/// Rules may let the guests' packets through, so a run is not refused.
fn filtered_bridge(filtered: Filtered) -> Finding {
    Finding {
        key: "bridge-netfilter".to_owned(),
        severity: Severity::Limits,
        blocks: Vec::new(),
        what: filtered.what,
        cost: "machines outside may not reach guests".to_owned(),
        remedy: filtered.remedy,
    }
}

/// Whether guests can be joined to the bridge, in words. Only root can ask whether its addresses are in use.
fn own_bridge(wanted: &WantedBridge) -> Result<(OwnBridge, String), Box<Finding>> {
    let is_root = rustix::process::geteuid().is_root();
    let looked = look_at(wanted).and_then(|own| {
        if is_root {
            refuse_addresses_in_use(&own)?;
        }
        Ok(own)
    });
    let asked = if is_root { "no address is in use" } else { "run as root to check whether they are in use" };
    looked
        .map(|own| {
            let OwnBridge { bridge, first, last, .. } = &own;
            let guests = counted(own.guests_max(), "guest");
            let said = format!(
                "{guests} can be joined to the bridge {bridge}, with addresses of {first} to {last}: {asked}"
            );
            (own, said)
        })
        .map_err(|error| {
            Box::new(Finding {
                key: OWN_BRIDGE.to_owned(),
                severity: Severity::Limits,
                blocks: Vec::new(),
                what: error.to_string(),
                cost: "machines outside do not reach guests, and a run with this site is refused".to_owned(),
                remedy: error.remedy(),
            })
        })
}

impl Diagnosis {
    /// Whether a run with this site would be refused because of its bridge.
    pub fn refuses_bridge(&self) -> bool {
        self.findings.iter().any(|finding| finding.key == OWN_BRIDGE)
    }

    /// What is to be said beside the findings.
    pub fn said(&self) -> Option<&str> {
        self.said.as_deref()
    }

    /// As `--json` prints it.
    pub fn json(&self) -> impl Serialize + use<> {
        doctor::report(self.facts.clone(), self.findings.clone())
    }

    /// As a person reads it.
    pub fn text(&self, colours: bool) -> String {
        doctor::render_text(&self.facts, &self.findings, if colours { Style::Colour } else { Style::Plain })
    }
}
