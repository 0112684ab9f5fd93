//! The QEMU that translates the lab's server. Before 8.1 a processor may keep an instruction that the server's kernel has just replaced, as it
//! does when KVM's first guest starts and its last one ends: then the whole server hangs. Where the installed QEMU is older, the lab has a
//! newer one of its own (docs/decisions/0135-one-thread-before-qemu-8.1.md).

use anyhow::{Context, Result, bail};
use std::{
    fs::{self, File},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::{Duration, SystemTime},
};
use tilemark_guests::QemuVersion;

/// Fetches it. Its libraries are those that the installed QEMU needs too.
const FETCH: &str = include_str!("newer_qemu.sh");
/// Where it could not be fetched, that is not tried again for so long.
const TRIED_AGAIN_AFTER: Duration = Duration::from_secs(3600);

/// The installed QEMU, or the lab's own where that is too old and a newer one can be had.
pub(crate) fn find() -> Result<PathBuf> {
    let installed = tilemark_guests::find_qemu(None).map_err(|error| {
        let remedy = error.remedy();
        anyhow::Error::new(error).context(format!("to fix: {remedy}"))
    })?;
    if QemuVersion::of(&installed)?.sees_replaced_code() {
        return Ok(installed);
    }
    let folder = crate::cargo::target().join("lab-qemu");
    fs::create_dir_all(&folder)?;
    Ok(own(&folder.canonicalize()?)?.unwrap_or(installed))
}

/// The lab's own; `None` where it cannot be fetched, which is reported once.
fn own(folder: &Path) -> Result<Option<PathBuf>> {
    let (files, failure) = (folder.join("files"), folder.join("failure"));
    let program = files.join("usr/bin/qemu-system-x86_64");
    // One at a time fetches; the others find it done.
    let lock = File::create(folder.join("lock"))?;
    lock.lock()?;
    if program.is_file() {
        return Ok(Some(program));
    }
    if was_tried(&failure) {
        return Ok(None);
    }
    eprintln!("lab: fetching a newer QEMU for the lab's own server, once");
    match fetch(&files) {
        Ok(()) => Ok(Some(program)),
        Err(error) => {
            eprintln!("lab: the installed QEMU is used, with which a lab now and then hangs: {error:#}");
            fs::write(&failure, format!("{error:#}"))?;
            Ok(None)
        }
    }
}

fn was_tried(failure: &Path) -> bool {
    let written = fs::metadata(failure).and_then(|found| found.modified());
    written.is_ok_and(|at| SystemTime::now().duration_since(at).is_ok_and(|age| age < TRIED_AGAIN_AFTER))
}

fn fetch(files: &Path) -> Result<()> {
    let output = Command::new("sh")
        .args(["-c", FETCH, "sh"])
        .arg(files)
        .stdin(Stdio::null())
        .output()
        .context("sh does not start")?;
    if !output.status.success() {
        bail!("a newer one cannot be fetched: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(())
}
