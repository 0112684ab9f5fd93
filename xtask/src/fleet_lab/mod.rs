//! The lab of many hosts: three hosts with Slurm, ssh and this workspace's `tilemark`, and one from which they are used, in
//! namespaces on this machine.
//!
//! ```text
//! xtask ──starts──> first process of the lab (lab.sh): a network namespace with a bridge
//!   ├── ctl  (10.99.0.10)      slurmctld; the command runs here
//!   └── n1, n2, n3 (… .11-13)  slurmd, sshd; each with its own processes, network, files and control group (host.sh)
//! ```
//! A host's files are this machine's own with a layer of packages above them and a layer in memory above that: nothing is
//! installed on this machine. When xtask ends, however it ends, a pipe closes and the lab takes all away.

use crate::{
    cargo::workspace,
    lab::{GUEST_IMAGE, build_program, image},
};
use anyhow::{Context, Result, bail, ensure};
use std::{
    fs::File,
    os::unix::process::CommandExt,
    path::{Path, PathBuf},
    process::{Command, ExitCode, Stdio},
};
use tilemark_image::ImageSpec;
use tilemark_record::places::{Places, Surroundings};
use tilemark_units::Sha256Hash;

const USAGE: &str = "usage: cargo xtask fleet-lab [--program FILE] -- COMMAND [ARGUMENT…]
  --program FILE  the `tilemark` of all hosts, instead of the one that is built here";
/// The lab itself failed: no code of the command's. As of containers and `env`.
const LAB_FAILED: u8 = 125;
/// What the hosts have in addition to this machine's own packages.
const PACKAGES: [&str; 8] =
    ["iproute2", "munge", "openssh-client", "openssh-server", "slurm-client", "slurmctld", "slurmd", "sudo"];
/// The lab's folder in its own mount namespace: a tmpfs is mounted over it, so that nothing is left of it here.
const FOLDER: &str = "/mnt";
const INSTALL: &str = include_str!("packages.sh");

/// Runs a command in a lab. The exit code is the command's, or 125 and a reason when there was no command to have one.
pub(crate) fn run(arguments: &[String]) -> ExitCode {
    match run_command(arguments) {
        Ok(code) => ExitCode::from(u8::try_from(code).unwrap_or(u8::MAX)),
        Err(error) => {
            eprintln!("fleet-lab: {error:#}");
            ExitCode::from(LAB_FAILED)
        }
    }
}

fn run_command(arguments: &[String]) -> Result<i32> {
    let (program, command) = parse(arguments)?;
    ensure!(rustix::process::geteuid().is_root(), "it needs root: it makes namespaces, mounts and a network");
    let layer = layer_of_packages()?;
    let program = program.map_or_else(build_program, Ok)?;
    let program =
        program.canonicalize().with_context(|| format!("there is no program {}", program.display()))?;
    let images = images(&program)?;
    let scripts = workspace().join("xtask/src/fleet_lab");
    let mut lab = Command::new("unshare");
    lab.args(["--mount", "--net", "--uts", "--ipc", "--pid", "--fork", "--kill-child", "--mount-proc", "sh"]);
    lab.arg(scripts.join("lab.sh")).arg(FOLDER).args([&layer, &program, &images]);
    lab.args([scripts.join("host.sh"), scripts.join("slurm.conf")]).args(command);
    // Ctrl-C is for this process alone: the lab ends in order when the pipe closes.
    let mut lab = lab
        .process_group(0)
        .stdin(Stdio::piped())
        .spawn()
        .context("unshare does not start; to fix: install `util-linux`")?;
    // `wait` would close it first.
    let pipe = lab.stdin.take();
    let status = lab.wait()?;
    drop(pipe);
    status.code().context("the lab was killed")
}

fn parse(arguments: &[String]) -> Result<(Option<PathBuf>, Vec<String>)> {
    match arguments {
        [dashes, command @ ..] if dashes == "--" && !command.is_empty() => Ok((None, command.to_vec())),
        [flag, file, dashes, command @ ..]
            if flag == "--program" && dashes == "--" && !command.is_empty() =>
        {
            Ok((Some(PathBuf::from(file)), command.to_vec()))
        }
        _ => bail!("{USAGE}"),
    }
}

/// The folder of guest images that all hosts read; the image of web servers is built where it is missing.
fn images(program: &Path) -> Result<PathBuf> {
    let cache = std::env::var_os("TILEMARK_TEST_CACHE")
        .map_or_else(|| Places::of(&Surroundings::of_this_process()).cache, PathBuf::from);
    image(program, &cache, GUEST_IMAGE, &ImageSpec::built_in(GUEST_IMAGE)?)?;
    Ok(cache.join("images").canonicalize()?)
}

/// The packages as a layer of files. It is made once for each state of this machine's own packages, with apt, and kept.
fn layer_of_packages() -> Result<PathBuf> {
    let status = std::fs::read("/var/lib/dpkg/status").context(
        "this machine has no packages of Debian; to fix: use a Debian or Ubuntu machine, whose packages the hosts share",
    )?;
    let key = Sha256Hash::of(&[&status, INSTALL.as_bytes(), PACKAGES.join(" ").as_bytes()].concat());
    let folder = crate::cargo::target().join("fleet-lab");
    std::fs::create_dir_all(&folder)?;
    let folder = folder.canonicalize()?;
    let layer = folder.join(&key.to_string()[..16]);
    // One at a time installs; the others find it done.
    let lock = File::create(folder.join("lock"))?;
    lock.lock()?;
    if layer.exists() {
        return Ok(layer);
    }
    eprintln!("fleet-lab: installing {} in a layer of its own, once", PACKAGES.join(", "));
    let output = Command::new("unshare")
        .args(["--mount", "sh", "-c", INSTALL, "sh"])
        .arg(&layer)
        .args(PACKAGES)
        .stdin(Stdio::null())
        .output()
        .context("unshare does not start; to fix: install `util-linux`")?;
    if !output.status.success() {
        bail!(
            "the packages {} could not be installed: {}\n  to fix: see that `apt-get update` and `apt-get install --download-only slurmd` work on this machine",
            PACKAGES.join(", "),
            String::from_utf8_lossy(&output.stderr).trim()
        );
    }
    Ok(layer)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> Option<(Option<PathBuf>, Vec<String>)> {
        parse(&text.split_whitespace().map(str::to_owned).collect::<Vec<_>>()).ok()
    }

    #[test]
    fn what_follows_the_dashes_is_the_commands_own() {
        assert_eq!(parsed("-- sh -c --").unwrap(), (None, vec!["sh".into(), "-c".into(), "--".into()]));
        assert_eq!(parsed("--program t -- true").unwrap().0, Some("t".into()));
        for text in ["", "--", "true", "--program", "--program t", "--program t --", "--fast -- true"] {
            assert!(parsed(text).is_none(), "{text}");
        }
    }
}
