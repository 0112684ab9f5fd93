//! Scenario, HostFacts and Plan: what shall happen, fully resolved. Pure.
