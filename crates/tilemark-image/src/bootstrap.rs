//! Installs the packages of an image into a folder, by mmdebstrap.
//!
//! mmdebstrap gives apt a configuration of its own (`Dir` is the tree), so hooks and policies of the host stay out; it
//! keeps services from starting (`policy-rc.d`) and mounts only in a mount namespace of its own.

use std::fs;
use std::path::{Path, PathBuf};

use crate::apt::{self, Keys};
use crate::command::{Failure, Tool};
use crate::progress::Progress;
use crate::spec::ImageSpec;
use crate::{ImageError, Result};

/// The time that everything in an image carries: any would do, as long as it is the same in every build. 2024-01-01.
pub(crate) const EPOCH: u64 = 1_704_067_200;

const ETC_APT: &str = "/etc/apt";
/// Comes with mmdebstrap. For bookworm, where `/bin` is still made a link by a package that needs all of Perl (46 MB).
const MERGED_USR_HOOKS: &str = "/usr/share/mmdebstrap/hooks/merged-usr";
const SUITES_WITH_USRMERGE: [&str; 2] = ["bullseye", "bookworm"];
/// Scripts for mmdebstrap, run by it in the course of the build.
const NAMES_HOOK: Hook = Hook { file: "names_hook.sh", text: include_str!("names_hook.sh") };
const PACKAGES_HOOK: Hook = Hook { file: "packages_hook.sh", text: include_str!("packages_hook.sh") };
/// Never installed, so that the image is small: documents, translations.
const EXCLUDED: [&str; 6] = [
    "/usr/share/doc/*",
    "/usr/share/man/*",
    "/usr/share/info/*",
    "/usr/share/locale/*",
    "/usr/share/lintian/*",
    "/usr/share/bug/*",
];

struct Hook {
    file: &'static str,
    text: &'static str,
}

/// What mmdebstrap left in the build folder.
pub(crate) struct Bootstrapped {
    /// The installed tree.
    pub(crate) tree: PathBuf,
    /// The kernel's packages.
    pub(crate) kernel_packages: Vec<PathBuf>,
    /// What is installed, `name=version` a line.
    pub(crate) installed: String,
    /// What the archive says about each.
    pub(crate) records: String,
}

/// Installs into the folder `build`, which is empty.
pub(crate) fn bootstrap(spec: &ImageSpec, build: &Path, progress: &mut dyn Progress) -> Result<Bootstrapped> {
    let sources = write_sources(spec, build)?;
    let kernel = build.join("kernel");
    let tree = build.join("tree");
    for hook in [NAMES_HOOK, PACKAGES_HOOK] {
        let path = build.join(hook.file);
        fs::write(&path, hook.text).map_err(ImageError::io("write", &path))?;
    }
    fs::create_dir(&kernel).map_err(ImageError::io("create", &kernel))?;

    let mut tool = Tool::new("mmdebstrap", "mmdebstrap")
        .args(["--mode=root", "--variant=minbase", "--format=directory", "--architectures=amd64"])
        .args(apt::host_options()?.iter().map(|option| format!("--aptopt={option}")))
        // dpkg need not sync: an interrupted build is thrown away.
        .args(["--dpkgopt=force-unsafe-io"])
        .args(EXCLUDED.iter().map(|pattern| format!("--dpkgopt=path-exclude={pattern}")));
    if !spec.packages.is_empty() {
        tool = tool.arg(format!("--include={}", spec.packages.join(",")));
    }
    if SUITES_WITH_USRMERGE.contains(&spec.suite.as_str()) && Path::new(MERGED_USR_HOOKS).is_dir() {
        tool = tool.arg(format!("--hook-dir={MERGED_USR_HOOKS}"));
    }
    let ended = tool
        .arg(hook_option("extract", &NAMES_HOOK))
        .arg(hook_option("customize", &PACKAGES_HOOK))
        .arg(&spec.suite)
        .arg(&tree)
        .arg(sources)
        .env("DEBIAN_FRONTEND", "noninteractive")
        .env("SOURCE_DATE_EPOCH", EPOCH.to_string())
        .env("TMPDIR", build)
        .env("TILEMARK_BUILD", build)
        .env("TILEMARK_KERNEL", &spec.kernel)
        .env("TILEMARK_PACKAGES", spec.packages.join(" "))
        .run(progress)?;
    ended.map_err(|failure| explain(failure, spec, build))?;

    let read = |name: &str| {
        let path = build.join(name);
        fs::read_to_string(&path).map_err(ImageError::io("read", &path))
    };
    Ok(Bootstrapped {
        tree,
        kernel_packages: packages_in(&kernel)?,
        installed: read("installed")?,
        records: read("records")?,
    })
}

/// mmdebstrap hands its hooks to a shell, with the tree as the first argument.
fn hook_option(moment: &str, hook: &Hook) -> String {
    format!(r#"--{moment}-hook=sh "$TILEMARK_BUILD/{}" "$1""#, hook.file)
}

/// Writes the sources for the suite and returns the file.
fn write_sources(spec: &ImageSpec, build: &Path) -> Result<PathBuf> {
    let chosen = apt::sources_for_suite(&apt::host_sources(Path::new(ETC_APT))?, &spec.suite);
    if chosen.is_empty() {
        return Err(ImageError::NoAptSource { suite: spec.suite.clone(), folder: ETC_APT.into() });
    }
    let mut lines = Vec::new();
    for (index, source) in chosen.iter().enumerate() {
        let key_file = build.join(format!("key-{index}.asc"));
        if let Keys::Inline(key) = &source.keys {
            fs::write(&key_file, key).map_err(ImageError::io("write", &key_file))?;
        }
        lines.extend(source.to_line(&key_file));
    }
    let path = build.join("image.list");
    fs::write(&path, lines.join("\n") + "\n").map_err(ImageError::io("write", &path))?;
    Ok(path)
}

fn packages_in(folder: &Path) -> Result<Vec<PathBuf>> {
    let entries = fs::read_dir(folder).map_err(ImageError::io("read", folder))?;
    let mut packages = Vec::new();
    for entry in entries {
        packages.push(entry.map_err(ImageError::io("read", folder))?.path());
    }
    packages.sort();
    Ok(packages)
}

/// Says what the tool's output means, where it is one of the things that users can fix.
fn explain(failure: Failure, spec: &ImageSpec, build: &Path) -> ImageError {
    let has = |words: &[&str]| words.iter().any(|word| failure.output.contains(word));
    let missing: Vec<String> = failure.output.lines().filter_map(missing_package).collect();
    if has(&["No space left on device", "You don't have enough free space"]) {
        ImageError::DiskFull { path: build.to_owned() }
    } else if !missing.is_empty() {
        ImageError::PackagesNotFound { suite: spec.suite.clone(), names: missing }
    } else if has(&["does not have a Release file"]) {
        ImageError::SuiteNotFound { suite: spec.suite.clone(), output: failure.output }
    } else if has(&["Failed to fetch", "Could not resolve", "Could not connect", "Unable to connect", "Err:"])
    {
        ImageError::MirrorUnreachable { output: failure.output }
    } else {
        failure.into()
    }
}

/// apt's own words for a name, or a version, that it does not know.
fn missing_package(line: &str) -> Option<String> {
    let line = line.trim().strip_prefix("E: ")?;
    if let Some(name) = line.strip_prefix("Unable to locate package ") {
        return Some(name.to_owned());
    }
    if let Some(rest) = line.strip_prefix("Version '") {
        let (version, rest) = rest.split_once("' for '")?;
        return Some(format!("{}={version}", rest.split_once('\'')?.0));
    }
    let rest = line.strip_prefix("Package '")?;
    let (name, why) = rest.split_once('\'')?;
    why.contains("no installation candidate").then(|| name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::process::ExitStatusExt;
    use std::process::ExitStatus;

    fn explained(output: &str) -> ImageError {
        let failure =
            Failure { tool: "mmdebstrap", status: ExitStatus::from_raw(256), output: output.to_owned() };
        explain(failure, &ImageSpec::built_in("first-look").unwrap(), Path::new("/cache"))
    }

    #[test]
    fn what_users_can_fix_gets_its_own_error() {
        let error = explained(
            "E: Unable to locate package ngnix\nE: Package 'fio' has no installation candidate\nE: x",
        );
        assert_eq!(error.to_string(), "the archive of `bookworm` has no package ngnix, fio");
        let error = explained("E: Version '9' for 'fio' was not found");
        assert_eq!(error.to_string(), "the archive of `bookworm` has no package fio=9");
        let error = explained(
            "Err:1 http://nowhere bookworm InRelease\n  Could not resolve 'nowhere'\nE: apt failed",
        );
        assert!(matches!(error, ImageError::MirrorUnreachable { ref output } if output.contains("nowhere")));
        let error = explained(
            "Err:4 http://m/debian bookwurm Release\n  404  Not Found\nE: The repository \
            'http://m/debian bookwurm Release' does not have a Release file.",
        );
        assert!(matches!(error, ImageError::SuiteNotFound { .. }), "{error}");
        assert!(matches!(explained("cp: x: No space left on device"), ImageError::DiskFull { .. }));
    }

    #[test]
    fn any_other_failure_shows_the_tool_its_status_and_its_words() {
        let error = explained("E: setup failed: something new").to_string();
        assert!(
            error.starts_with("`mmdebstrap` failed (exit status: 1)") && error.ends_with("something new"),
            "{error}"
        );
    }
}
