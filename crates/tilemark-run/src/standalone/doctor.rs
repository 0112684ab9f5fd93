//! `doctor`: what this host has and lacks.

use crate::plan::host::{Probe, facts};
use serde::Serialize;
use tilemark_host::{
    LiveHost,
    doctor::{self, Finding, Severity, Style},
};
use tilemark_plan::facts::HostFacts;

/// Facts with what is to be said of them.
#[derive(Debug, Clone)]
pub struct Diagnosis {
    facts: HostFacts,
    findings: Vec<Finding>,
}

/// Reads the host, times its accelerator, and says what it lacks.
pub fn diagnose() -> Diagnosis {
    let facts = facts(Probe::Time);
    let mut findings = doctor::diagnose(&facts);
    findings.extend(tilemark_guests::missing_wall().map(no_ingress_filter));
    findings.extend(doctor::libvirt(&LiveHost));
    Diagnosis { facts, findings }
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

impl Diagnosis {
    /// As `--json` prints it.
    pub fn json(&self) -> impl Serialize + use<> {
        doctor::report(self.facts.clone(), self.findings.clone())
    }

    /// As a person reads it.
    pub fn text(&self, colours: bool) -> String {
        doctor::render_text(&self.facts, &self.findings, if colours { Style::Colour } else { Style::Plain })
    }
}
