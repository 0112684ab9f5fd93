//! Scenario, HostFacts and Plan: what shall happen, fully resolved. Pure: nothing here reads a file,
//! a clock or a host.

pub mod plan;
pub mod scenario;
pub mod workload;
