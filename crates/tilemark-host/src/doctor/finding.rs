//! The shapes of a diagnosis.

use crate::JsonSchema;
use serde::{Deserialize, Serialize};
use tilemark_plan::{
    facts::{Accelerators, HostFacts},
    plan::Backend,
};

/// How bad a shortfall is, worst first.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Severity {
    /// The backends named in [`Finding::blocks`] cannot be used.
    Blocks,
    /// Some scenarios cannot run, or some figures are not taken.
    Limits,
    /// Figures are taken and mean less than they seem to.
    Distorts,
    /// Something could be better.
    NiceToHave,
}

/// One shortfall.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Finding {
    /// A fixed name for it, for scripts (`kvm-too-slow`).
    pub key: String,
    /// How bad it is.
    pub severity: Severity,
    /// Backends that cannot be used; empty unless the severity says so.
    pub blocks: Vec<Backend>,
    /// What was found.
    pub what: String,
    /// What that costs.
    pub cost: String,
    /// How to end it.
    pub remedy: String,
}

/// Whether a backend can be used here.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct BackendState {
    /// Which.
    pub backend: Backend,
    /// Keys of the findings that block it; none: it can be used.
    pub blocked_by: Vec<String>,
}

/// What `doctor --json` prints.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DoctorReport {
    /// Version of this shape.
    pub schema: String,
    /// The same as in `facts`, at the top because scripts ask for it: `accelerators.kvm.verdict`.
    pub accelerators: Accelerators,
    /// Which backends can be used.
    pub backends: Vec<BackendState>,
    /// Shortfalls, worst first.
    pub findings: Vec<Finding>,
    /// Everything that was read.
    pub facts: HostFacts,
}

/// The version of [`DoctorReport`].
const SCHEMA: &str = "tilemark/doctor/1";

/// Puts facts and findings into the shape that `doctor --json` prints.
pub fn report(facts: HostFacts, findings: Vec<Finding>) -> DoctorReport {
    DoctorReport {
        schema: SCHEMA.to_owned(),
        accelerators: facts.accelerators.clone(),
        backends: backend_states(&findings),
        findings,
        facts,
    }
}

/// Each backend with the findings that block it.
pub(super) fn backend_states(findings: &[Finding]) -> Vec<BackendState> {
    let blocked_by = |backend| {
        let blocking = findings.iter().filter(|finding| finding.blocks.contains(&backend));
        blocking.map(|finding| finding.key.clone()).collect()
    };
    Backend::ALL.map(|backend| BackendState { backend, blocked_by: blocked_by(backend) }).to_vec()
}
