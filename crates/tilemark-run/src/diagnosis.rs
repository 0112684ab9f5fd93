//! `doctor`: what this host has and lacks.

use crate::prepare::{Probe, facts};
use serde::Serialize;
use tilemark_host::doctor::{self, Finding, Style};
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
    let findings = doctor::diagnose(&facts);
    Diagnosis { facts, findings }
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
