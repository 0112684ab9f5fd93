//! Services of systemd, by systemctl(1).

use std::io;
use std::path::Path;
use std::process::Command;

/// As a service is read and written.
pub(in crate::setting) const RUNNING: &str = "running";
/// The same, when it does not run.
pub(in crate::setting) const STOPPED: &str = "stopped";

/// Whether the unit is active. A unit that systemd does not know is an error: it can be neither started nor stopped.
pub(super) fn read(unit: &str) -> io::Result<String> {
    let shown = systemctl(&["show", "--property=LoadState,ActiveState", "--", unit])?;
    let value = |key: &str| shown.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix('='));
    if value("LoadState") != Some("loaded") {
        return Err(io::Error::new(io::ErrorKind::NotFound, format!("systemd has no unit {unit}")));
    }
    let is_running = matches!(value("ActiveState"), Some("active" | "activating" | "reloading"));
    Ok(if is_running { RUNNING } else { STOPPED }.to_owned())
}

/// Starts or stops it, and waits until that is done.
pub(super) fn write(unit: &str, text: &str) -> io::Result<()> {
    let verb = if text.trim() == RUNNING { "start" } else { "stop" };
    systemctl(&[verb, "--", unit]).map(drop)
}

fn systemctl(arguments: &[&str]) -> io::Result<String> {
    // As sd_booted(3) finds out.
    if !Path::new("/run/systemd/system").is_dir() {
        let why = "systemd does not run on this host";
        return Err(io::Error::new(io::ErrorKind::Unsupported, why));
    }
    let output = Command::new("systemctl").args(arguments).output()?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(io::Error::other(format!("systemctl {}: {}", arguments.join(" "), said.trim())))
}
