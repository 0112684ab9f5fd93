//! A control group that has processors for itself: its partition is `isolated` (cgroup-v2.rst, "cpuset.cpus.partition").

use std::fs;
use std::io;
use std::path::Path;

/// The controller that the tree has to give to the group.
pub(in crate::setting) const CONTROLLER: &str = "cpuset";
const ISOLATED: &str = "isolated";
/// The state of a group that cannot have processors.
const WITHOUT: &str = "without processors";

/// The processors that are isolated now; nothing where the group does not exist.
pub(super) fn read(group: &Path) -> io::Result<String> {
    if !group.is_dir() {
        return Ok(String::new());
    }
    // A group has no such file where its tree does not give it the controller.
    let state = match fs::read_to_string(group.join("cpuset.cpus.partition")) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(WITHOUT.to_owned()),
        read => read?,
    };
    // `isolated invalid (reason)` isolates nothing, and names the reason.
    match state.trim() {
        ISOLATED => Ok(fs::read_to_string(group.join("cpuset.cpus"))?.trim().to_owned()),
        other => Ok(other.to_owned()),
    }
}

/// Makes the group and isolates these processors for it; with no processors, removes it, and they are everybody's again.
pub(super) fn write(group: &Path, text: &str) -> io::Result<()> {
    let processors = text.trim();
    if processors.is_empty() {
        return fs::remove_dir(group);
    }
    if !group.is_dir() {
        fs::create_dir(group)?;
    }
    fs::write(group.join("cpuset.cpus"), processors)?;
    fs::write(group.join("cpuset.cpus.partition"), ISOLATED)
}
