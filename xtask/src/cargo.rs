//! Cargo, the workspace, and where cargo puts what it builds.

use anyhow::{Context, Result, bail};
use std::{
    ffi::OsString,
    path::{Path, PathBuf},
    process::{Command, ExitStatus},
};

/// Cargo: the one that runs this program.
pub(crate) fn cargo_program() -> OsString {
    std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into())
}

/// Cargo with these arguments, in the workspace.
pub(crate) fn cargo_command(arguments: &[&str]) -> Command {
    let mut command = Command::new(cargo_program());
    command.args(arguments).current_dir(workspace());
    command
}

/// The workspace's folder.
pub(crate) fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask is a folder of the workspace").to_owned()
}

/// Where cargo puts what it builds.
pub(crate) fn target() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| workspace().join("target"), PathBuf::from)
}

/// Runs cargo to its end.
///
/// # Errors
/// It does not start, or fails.
pub(crate) fn cargo(arguments: &[&str]) -> Result<()> {
    let status = cargo_command(arguments).status().context("cargo does not start")?;
    ended(status, arguments)
}

/// What a cargo that has ended comes to.
pub(crate) fn ended(status: ExitStatus, arguments: &[&str]) -> Result<()> {
    if status.success() { Ok(()) } else { bail!("cargo {} ended with {status}", arguments.join(" ")) }
}
