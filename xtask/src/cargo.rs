//! Cargo, the workspace, and where cargo puts what it builds.

use anyhow::{Context, Result, bail};
use serde_json::Value;
use std::{
    ffi::{OsStr, OsString},
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
    without_ours(&mut command);
    command
}

/// Takes away the variables in which `cargo run` names this package. The build script of ring runs again where they change, and all that
/// uses ring is compiled again: a build by hand and one of `cargo xtask` would undo each other.
pub(crate) fn without_ours(command: &mut Command) {
    for (name, _) in std::env::vars_os().filter(|(name, _)| names_package(name)) {
        command.env_remove(name);
    }
}

fn names_package(variable: &OsStr) -> bool {
    variable
        .to_str()
        .is_some_and(|name| name.starts_with("CARGO_MANIFEST_") || name.starts_with("CARGO_PKG_"))
}

/// The values of a list in cargo's JSON; none where it is no list.
pub(crate) fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_names_this_package_is_taken_away() {
        let taken = ["CARGO_PKG_NAME", "CARGO_MANIFEST_DIR", "CARGO_HOME", "CARGO", "PATH"]
            .map(|name| names_package(OsStr::new(name)));
        assert_eq!(taken, [true, true, false, false, false]);
    }
}
