//! What this program carries in itself.

use tilemark_run::program::Program;

/// Its agent and its version. A constant would be there once for each place that names it.
pub(crate) static PROGRAM: Program =
    Program { agent: include_bytes!(env!("TILEMARK_AGENT")), version: env!("CARGO_PKG_VERSION") };
