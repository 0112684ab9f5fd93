//! The one way to the host: files, devices and programs, so that a specification test reads a tree of its own.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use rustix::fs::{Access, access};
use tilemark_plan::facts::{AskedBy, Fact, Virtualisation};
use tilemark_sys::process::CLEAN_ENVIRONMENT;

/// How long a tool may take to say its version.
const VERSION_DEADLINE: Duration = Duration::from_secs(5);
/// Where tools are: `PATH` of root, and where some distributions hide QEMU.
const TOOL_FOLDERS: [&str; 7] =
    ["/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin", "/usr/libexec"];

/// A host that can be read. Paths are absolute, as on the host.
pub trait HostView {
    /// The text of a file.
    fn read(&self, path: &str) -> io::Result<String>;
    /// The names in a folder, sorted.
    fn list(&self, path: &str) -> io::Result<Vec<String>>;
    /// Where a symbolic link leads.
    fn link(&self, path: &str) -> io::Result<PathBuf>;
    /// Whether who asks may read and write a device.
    fn device(&self, path: &str) -> io::Result<()>;
    /// Whether there is a program that who asks may run.
    fn is_program(&self, path: &Path) -> bool;
    /// Runs a program to its end and returns all that it printed.
    fn run(&self, program: &Path, arguments: &[&str]) -> io::Result<String>;
    /// Folders in which tools are looked for, in this order.
    fn tool_folders(&self) -> Vec<PathBuf>;
    /// What the processor says about a hypervisor.
    fn virtualisation(&self) -> Fact<Virtualisation>;
    /// Who asks.
    fn asked_by(&self) -> Fact<AskedBy>;
}

/// The host that this program runs on.
#[derive(Clone, Copy, Debug, Default)]
pub struct LiveHost;

impl HostView for LiveHost {
    fn read(&self, path: &str) -> io::Result<String> {
        read_text(Path::new(path))
    }

    fn list(&self, path: &str) -> io::Result<Vec<String>> {
        list_names(Path::new(path))
    }

    fn link(&self, path: &str) -> io::Result<PathBuf> {
        fs::read_link(path)
    }

    fn device(&self, path: &str) -> io::Result<()> {
        Ok(access(path, Access::READ_OK | Access::WRITE_OK)?)
    }

    fn is_program(&self, path: &Path) -> bool {
        path.is_file() && access(path, Access::EXEC_OK).is_ok()
    }

    fn run(&self, program: &Path, arguments: &[&str]) -> io::Result<String> {
        let mut command = Command::new(program);
        command.args(arguments).env_clear().envs(CLEAN_ENVIRONMENT);
        run_within(&mut command, VERSION_DEADLINE)
    }

    fn tool_folders(&self) -> Vec<PathBuf> {
        let own = std::env::var_os("PATH").unwrap_or_else(|| "".into());
        let mut folders: Vec<PathBuf> =
            std::env::split_paths(&own).filter(|path| path.is_absolute()).collect();
        for folder in TOOL_FOLDERS.map(PathBuf::from) {
            if !folders.contains(&folder) {
                folders.push(folder);
            }
        }
        folders
    }

    fn virtualisation(&self) -> Fact<Virtualisation> {
        Fact::Value(match tilemark_sys::kvm::hypervisor_signature() {
            None => Virtualisation::None,
            Some(signature) if signature.is_empty() => Virtualisation::Guest {
                hypervisor: Fact::Missing("the hypervisor leaf holds no signature".into()),
            },
            Some(signature) => Virtualisation::Guest { hypervisor: Fact::Value(signature) },
        })
    }

    fn asked_by(&self) -> Fact<AskedBy> {
        Fact::Value(if rustix::process::geteuid().is_root() { AskedBy::Root } else { AskedBy::User })
    }
}

/// A tree of files that represents a host. Programs are not run: what they would print is given.
#[derive(Clone, Debug)]
pub struct TreeHost {
    root: PathBuf,
    programs: BTreeMap<PathBuf, String>,
}

impl TreeHost {
    /// A host whose `/` is `root`.
    pub fn new(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into(), programs: BTreeMap::new() }
    }

    /// The program at `path` prints `output`, whatever its arguments.
    #[must_use]
    pub fn with_program(mut self, path: impl Into<PathBuf>, output: impl Into<String>) -> Self {
        self.programs.insert(path.into(), output.into());
        self
    }

    fn at(&self, path: impl AsRef<Path>) -> PathBuf {
        let path = path.as_ref();
        self.root.join(path.strip_prefix("/").unwrap_or(path))
    }
}

impl HostView for TreeHost {
    fn read(&self, path: &str) -> io::Result<String> {
        read_text(&self.at(path))
    }

    fn list(&self, path: &str) -> io::Result<Vec<String>> {
        list_names(&self.at(path))
    }

    fn link(&self, path: &str) -> io::Result<PathBuf> {
        fs::read_link(self.at(path))
    }

    fn device(&self, path: &str) -> io::Result<()> {
        fs::symlink_metadata(self.at(path)).map(drop)
    }

    fn is_program(&self, path: &Path) -> bool {
        self.programs.contains_key(path)
    }

    fn run(&self, program: &Path, _arguments: &[&str]) -> io::Result<String> {
        self.programs.get(program).cloned().ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn tool_folders(&self) -> Vec<PathBuf> {
        TOOL_FOLDERS.map(PathBuf::from).to_vec()
    }

    fn virtualisation(&self) -> Fact<Virtualisation> {
        match self.read("/proc/cpuinfo") {
            Err(error) => Fact::Missing(format!("/proc/cpuinfo: {error}")),
            Ok(text) if text.split_whitespace().any(|word| word == "hypervisor") => {
                Fact::Value(Virtualisation::Guest {
                    hypervisor: Fact::Missing("a tree of files has no CPUID".into()),
                })
            }
            Ok(_) => Fact::Value(Virtualisation::None),
        }
    }

    fn asked_by(&self) -> Fact<AskedBy> {
        Fact::Value(AskedBy::Root)
    }
}

/// Text as the kernel gives it; a byte that is no UTF-8 (a process can name itself anything) is replaced.
fn read_text(path: &Path) -> io::Result<String> {
    Ok(String::from_utf8_lossy(&fs::read(path)?).into_owned())
}

fn list_names(path: &Path) -> io::Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in fs::read_dir(path)? {
        names.push(entry?.file_name().to_string_lossy().into_owned());
    }
    names.sort_unstable();
    Ok(names)
}

/// Runs a program and ends it where it takes too long; standard output and error together.
fn run_within(command: &mut Command, deadline: Duration) -> io::Result<String> {
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
    let (mut output, mut errors) = (child.stdout.take(), child.stderr.take());
    let (send, receive) = mpsc::channel();
    thread::spawn(move || {
        let mut bytes = Vec::new();
        for stream in [output.as_mut().map(|stream| stream as &mut dyn Read), errors.as_mut().map(|s| s as _)]
        {
            // What was read before an error is still what the program said.
            let _ = stream.map(|stream| stream.take(64 << 10).read_to_end(&mut bytes));
        }
        let _ = send.send(bytes); // nobody listens any more after the deadline
    });
    let answer = receive.recv_timeout(deadline);
    if answer.is_err() {
        child.kill()?;
    }
    child.wait()?;
    let bytes = answer.map_err(|_| io::Error::from(io::ErrorKind::TimedOut))?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_never_ends_is_ended() {
        let error = run_within(Command::new("sleep").arg("1000"), Duration::from_millis(1)).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
    }

    #[test]
    fn both_streams_are_read() {
        let text =
            run_within(Command::new("sh").args(["-c", "echo one; echo two >&2"]), VERSION_DEADLINE).unwrap();
        assert_eq!(text, "one\ntwo\n");
    }
}
