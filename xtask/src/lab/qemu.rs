//! The QEMU that translates the lab's server. Linux replaces instructions when KVM's first guest starts and when its last one ends. With a QEMU
//! before 8.1 a processor may go on with an old one, and then the whole server hangs. Where the installed QEMU is older, the lab has a newer
//! one of its own (docs/decisions/0135-one-thread-before-qemu-8.1.md).

use anyhow::{Context, Result, bail};
use std::{
    fs::{self, File},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::{Duration, SystemTime},
};
use tilemark_guests::QemuVersion;

/// Fetches it, and sees it start with the libraries of the installed one.
const FETCH: &str = include_str!("newer_qemu.sh");
/// So many seconds may that take.
const FETCHES_WITHIN: &str = "300";
/// Where it could not be fetched, that is not tried again for so long.
const TRIED_AGAIN_AFTER: Duration = Duration::from_secs(3600);

/// The installed QEMU; or the lab's own, where the installed one is older than 8.1 and another can be fetched.
pub(crate) fn find() -> Result<PathBuf> {
    let installed = tilemark_guests::find_qemu(None).map_err(|error| {
        let remedy = error.remedy();
        anyhow::Error::new(error).context(format!("to fix: {remedy}"))
    })?;
    if is_new(&installed) {
        return Ok(installed);
    }
    let folder = crate::cargo::target().join("lab-qemu");
    fs::create_dir_all(&folder)?;
    match fetched(&folder.canonicalize()?, &fetch)? {
        Fetched::Program(program) => Ok(program),
        Fetched::Failed(reason) => {
            eprintln!("lab: the installed QEMU is used, with which a lab now and then hangs: {reason}");
            Ok(installed)
        }
    }
}

fn is_new(program: &Path) -> bool {
    QemuVersion::of(program).is_ok_and(QemuVersion::sees_replaced_code)
}

/// What came of fetching it, now or before.
#[derive(Debug, PartialEq, Eq)]
enum Fetched {
    Program(PathBuf),
    /// It could not be fetched, for this reason.
    Failed(String),
}

fn fetched(folder: &Path, fetch: &dyn Fn(&Path) -> Result<()>) -> Result<Fetched> {
    let (files, failure) = (folder.join("files"), folder.join("failure"));
    let program = files.join("usr/bin/qemu-system-x86_64");
    // One at a time fetches; the others find it done.
    let lock = File::create(folder.join("lock"))?;
    lock.lock()?;
    if is_new(&program) {
        return Ok(Fetched::Program(program));
    }
    if was_tried(&failure) {
        return Ok(Fetched::Failed(fs::read_to_string(&failure)?.trim().to_owned()));
    }
    eprintln!("lab: fetching a newer QEMU for the lab's own server, once");
    let reason = match fetch(&files) {
        Ok(()) if is_new(&program) => return Ok(Fetched::Program(program)),
        Ok(()) => "Debian's backports have no newer one".to_owned(),
        Err(error) => format!("{error:#}"),
    };
    let reason = reason.split_whitespace().collect::<Vec<_>>().join(" ");
    let reason = format!("{reason}; to try again, remove {}", failure.display());
    fs::write(&failure, &reason)?;
    Ok(Fetched::Failed(reason))
}

fn was_tried(failure: &Path) -> bool {
    let written = fs::metadata(failure).and_then(|found| found.modified());
    written.is_ok_and(|at| SystemTime::now().duration_since(at).is_ok_and(|age| age < TRIED_AGAIN_AFTER))
}

fn fetch(files: &Path) -> Result<()> {
    let output = Command::new("timeout")
        .args([FETCHES_WITHIN, "sh", "-c", FETCH, "sh"])
        .arg(files)
        .stdin(Stdio::null())
        .output()
        .context("timeout (package coreutils) does not start")?;
    if !output.status.success() {
        bail!("a newer one cannot be fetched: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    /// Makes a program that prints this version. Another process writes it: a file of ours could still be open for writing in a child that
    /// another test just started, and does not start then.
    fn player(files: &Path, version: &str) -> Result<()> {
        let script = "mkdir -p $1/usr/bin && cd $1/usr/bin && printf '#!/bin/sh\\necho QEMU emulator version %s\\n' $2 >qemu-system-x86_64 \
            && chmod 755 qemu-system-x86_64";
        let status = Command::new("sh").args(["-euc", script, "sh"]).arg(files).arg(version).status()?;
        anyhow::ensure!(status.success(), "{status}");
        Ok(())
    }

    #[test]
    fn it_is_fetched_once_and_a_failure_is_kept_for_an_hour() {
        let place = tempfile::tempdir().unwrap();
        let (times, answer) = (Cell::new(0), Cell::new(None));
        let fetch = |files: &Path| {
            times.set(times.get() + 1);
            answer.get().map_or_else(|| bail!("no network"), |version| player(files, version))
        };
        let found = || {
            let found = fetched(place.path(), &fetch).unwrap();
            (matches!(found, Fetched::Program(_)), times.get())
        };
        assert_eq!(found(), (false, 1));
        assert_eq!(found(), (false, 1), "not tried again so soon");
        let Fetched::Failed(reason) = fetched(place.path(), &fetch).unwrap() else {
            panic!("it was fetched")
        };
        assert!(reason.starts_with("no network; to try again, remove "), "{reason}");
        let before = SystemTime::now() - 2 * TRIED_AGAIN_AFTER;
        let an_hour_passes = || {
            let failure = File::options().append(true).open(place.path().join("failure")).unwrap();
            failure.set_modified(before).unwrap();
        };
        an_hour_passes();
        answer.set(Some("8.0.5"));
        assert_eq!(found(), (false, 2), "too old");
        an_hour_passes();
        answer.set(Some("8.1.0"));
        assert_eq!(found(), (true, 3));
        assert_eq!(found(), (true, 3), "it is there");
    }
}
