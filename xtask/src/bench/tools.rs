//! What benches share: release programs, servers that end with their bench, and one JSON document out of what a
//! program prints.

use crate::cargo::cargo_command;
use anyhow::{Context, Result, bail};
use serde_json::Value;
use std::{
    net::{SocketAddr, TcpListener, TcpStream},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

/// A bench or a trial by its name.
pub(crate) struct Named<T> {
    pub(crate) name: &'static str,
    /// About how long it takes with its own number of repeats, in minutes on two processors.
    pub(crate) minutes: f64,
    pub(crate) run: fn(&Bench) -> Result<T>,
    pub(crate) about: &'static str,
}

pub(crate) const fn named<T>(
    name: &'static str,
    minutes: f64,
    run: fn(&Bench) -> Result<T>,
    about: &'static str,
) -> Named<T> {
    Named { name, minutes, run, about }
}

/// Where a bench works and how long it is.
pub(crate) struct Bench {
    /// `TILEMARK_HOME` of all that is started.
    pub(crate) home: PathBuf,
    /// Repeats or pairs instead of each bench's own number.
    pub(crate) n: Option<usize>,
}

/// Why a bench cannot be done here.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct Skipped(pub(crate) String);

impl Bench {
    /// How often.
    pub(crate) fn times(&self, own: usize) -> usize {
        self.n.unwrap_or(own)
    }

    /// Tilemark itself, built in release.
    pub(crate) fn tilemark(&self) -> Result<Command> {
        build(&["-p", "tilemark"])?;
        let mut command = Command::new(release("tilemark"));
        command.env("TILEMARK_HOME", &self.home);
        Ok(command)
    }

    /// A folder for what a bench writes.
    pub(crate) fn folder(&self, name: &str) -> Result<PathBuf> {
        let folder = self.home.join("bench").join(name);
        std::fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
        Ok(folder)
    }

    /// The folder of the image that every guest without one of its own has, built if it is not cached.
    pub(crate) fn image(&self) -> Result<PathBuf> {
        self.image_called("first-look")
    }

    /// The folder of an image of the program's own, built if it is not cached.
    pub(crate) fn image_called(&self, name: &str) -> Result<PathBuf> {
        need_root()?;
        let printed = json_of(self.tilemark()?.args(["image", "build", name, "--json"]))?;
        Ok(printed["folder"].as_str().context("`image build` names no folder")?.into())
    }
}

/// Stops a bench that needs root.
pub(crate) fn need_root() -> Result<()> {
    if rustix::process::geteuid().is_root() { Ok(()) } else { bail!(Skipped("needs root".to_owned())) }
}

/// Stops a bench whose tools are not installed.
pub(crate) fn need(programs: &[&str]) -> Result<()> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders: Vec<PathBuf> =
        std::env::split_paths(&path).chain(["/usr/sbin".into(), "/sbin".into()]).collect();
    let missing: Vec<&str> = programs
        .iter()
        .copied()
        .filter(|program| !folders.iter().any(|folder| folder.join(program).is_file()))
        .collect();
    if missing.is_empty() { Ok(()) } else { bail!(Skipped(format!("needs {}", missing.join(", ")))) }
}

/// Builds something in release; at once where it is built.
pub(crate) fn build(what: &[&str]) -> Result<()> {
    let mut cargo = cargo_command(&["build", "--release", "--quiet", "--locked"]);
    let status = cargo.args(what).status().context("cargo does not start")?;
    if status.success() { Ok(()) } else { bail!("cargo build {} ended with {status}", what.join(" ")) }
}

/// A program that was built in release.
pub(crate) fn release(name: &str) -> PathBuf {
    crate::cargo::target().join("release").join(name)
}

/// An example of one of our crates, built in release.
pub(crate) fn example(package: &str, name: &str) -> Result<PathBuf> {
    build(&["-p", package, "--example", name])?;
    Ok(crate::cargo::target().join("release/examples").join(name))
}

/// A program pinned to one processor and, where `priority` says so, ahead of all ordinary ones.
pub(crate) fn pinned(program: &Path, processor: u32, priority: Priority) -> Command {
    let mut command = Command::new("taskset");
    command.args(["-c", &processor.to_string()]);
    if priority == Priority::RealTime {
        command.args(["chrt", "-f", "1"]);
    }
    command.arg(program);
    command
}

/// How a program is scheduled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Priority {
    /// As any other.
    Ordinary,
    /// SCHED_FIFO 1, as our loads ask for.
    RealTime,
}

/// What a program prints on standard output; a failure has what it printed on standard error.
pub(crate) fn text_of(command: &mut Command) -> Result<String> {
    let output =
        command.stdin(Stdio::null()).output().with_context(|| format!("{command:?} does not start"))?;
    if !output.status.success() {
        // A test's reason is on its standard output.
        let [out, errors] = [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text));
        bail!("{command:?} ended with {}: {errors}{out}", output.status);
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// The one JSON document that a program prints. Tilemark's own exit code 5 (not trusted) is no failure here: the figures
/// of one repeat are wanted.
pub(crate) fn json_of(command: &mut Command) -> Result<Value> {
    let output =
        command.stdin(Stdio::null()).output().with_context(|| format!("{command:?} does not start"))?;
    let errors = String::from_utf8_lossy(&output.stderr);
    match serde_json::from_slice(&output.stdout) {
        Ok(document) if output.status.success() || output.status.code() == Some(5) => Ok(document),
        _ => bail!(
            "{command:?} ended with {}: {}{errors}",
            output.status,
            String::from_utf8_lossy(&output.stdout)
        ),
    }
}

/// The JSON lines that a program prints. A test harness may have begun the line with the test's name.
pub(crate) fn json_lines(text: &str) -> Vec<Value> {
    text.lines().filter_map(|line| serde_json::from_str(&line[line.find('{')?..]).ok()).collect()
}

/// A number at a path such as `/latency_ms/p99`.
pub(crate) fn number(document: &Value, path: &str) -> Result<f64> {
    document.pointer(path).and_then(Value::as_f64).with_context(|| format!("no {path} in {document}"))
}

/// The first number after some words.
pub(crate) fn number_after(text: &str, words: &str) -> Result<f64> {
    let (_, rest) = text.split_once(words).with_context(|| format!("no {words:?} in {text}"))?;
    let rest = rest.trim_start();
    let end = rest.find(|letter: char| !letter.is_ascii_digit() && letter != '.').unwrap_or(rest.len());
    rest[..end].parse().with_context(|| format!("no number after {words:?} in {text}"))
}

/// Processor seconds of all children that were waited for, theirs included.
pub(crate) fn children_s() -> Result<f64> {
    let text = std::fs::read_to_string("/proc/self/stat")?;
    let fields = text.rsplit_once(')').context("/proc/self/stat has a name")?.1.split_whitespace();
    // cutime and cstime in the kernel's ticks of 10 ms; of the later one the 17th field.
    let ticks: u64 = fields.skip(13).take(2).filter_map(|field| field.parse::<u64>().ok()).sum();
    Ok(ticks as f64 / 100.0)
}

/// A text without the passwords of the addresses in it: commands and what programs say may repeat them.
pub(crate) fn masked(text: &str) -> String {
    let mut parts = text.split("://");
    let mut shown = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let end = part.find(|letter: char| letter.is_whitespace() || "\"'".contains(letter));
        let (address, rest) = part.split_at(end.unwrap_or(part.len()));
        let secret =
            address.rsplit_once('@').and_then(|(before, host)| Some((before.split_once(':')?.0, host)));
        shown.push_str("://");
        match secret {
            Some((user, host)) => shown.push_str(&format!("{user}:***@{host}")),
            None => shown.push_str(address),
        }
        shown.push_str(rest);
    }
    shown
}

/// A server that ends with this.
pub(crate) struct Server {
    child: Child,
}

impl Server {
    /// Starts one and waits until something listens at the address.
    pub(crate) fn start(command: &mut Command, address: SocketAddr) -> Result<Self> {
        let mut server = Self {
            child: command
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                .spawn()
                .with_context(|| format!("{command:?}"))?,
        };
        let until = Instant::now() + Duration::from_secs(30);
        while TcpStream::connect(address).is_err() {
            if let Some(status) = server.child.try_wait()? {
                bail!("{command:?} ended with {status}");
            }
            if Instant::now() > until {
                bail!("{command:?} does not listen at {address}");
            }
            thread::sleep(Duration::from_millis(10));
        }
        Ok(server)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // TERM, so that nginx ends its workers too; one that has ended already is what is wanted.
        let pid = rustix::process::Pid::from_child(&self.child);
        let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
        let until = Instant::now() + Duration::from_secs(5);
        while Instant::now() < until {
            if matches!(self.child.try_wait(), Ok(Some(_)) | Err(_)) {
                return;
            }
            thread::sleep(Duration::from_millis(10));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// An address of loopback that nobody listens at.
pub(crate) fn free_address() -> Result<SocketAddr> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?)
}

/// Both in turn, in random order.
pub(crate) fn in_turn<T>(
    ours: impl FnOnce() -> Result<T>,
    peer: impl FnOnce() -> Result<T>,
) -> Result<(T, T)> {
    if ours_first() {
        let ours = ours()?;
        Ok((ours, peer()?))
    } else {
        let peer = peer()?;
        Ok((ours()?, peer))
    }
}

/// Whether ours goes first in this pair; random, so that drift favours nobody.
fn ours_first() -> bool {
    let mut byte = [0];
    // Without randomness it is always ours.
    let _ = rustix::rand::getrandom(&mut byte, rustix::rand::GetRandomFlags::empty());
    byte[0] & 1 == 0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cargo::workspace;

    #[test]
    fn no_password_of_an_address_is_shown() {
        let mut command = Command::new("load");
        command.args(["--uri", "amqp://me:a:b@c/d@host:5672/v", "mysql://web:tiger@db/x?socket=/s"]);
        let shown = masked(&format!("{command:?} ended: no amqp://me:a:b@c/d@host"));
        assert_eq!(
            shown,
            r#""load" "--uri" "amqp://me:***@host:5672/v" "mysql://web:***@db/x?socket=/s" ended: no amqp://me:***@host"#
        );
        let plain = "http://127.0.0.1:80/a amqp://guest@h:1 user:word";
        assert_eq!(masked(plain), plain);
    }

    /// Nothing else builds them.
    #[test]
    fn every_example_that_a_benchmark_or_a_figure_names_is_there() {
        let sources = crate::sources::files(&workspace().join("xtask/src/bench"), "rs").unwrap();
        let read = |path: PathBuf| std::fs::read_to_string(path).unwrap();
        let text: String = sources.into_iter().map(read).collect();
        let calls =
            text.split("= example(\"").skip(1).map(|call| call.split('"').step_by(2).take(2).collect());
        let figures = read(workspace().join("docs/benchmarks/figures.ndjson"));
        let commands = figures.split("--package ").skip(1).filter_map(|command| {
            let words: Vec<&str> = command.split([' ', '"']).take(3).collect();
            (words.get(1) == Some(&"--example")).then(|| vec![words[0], words[2]])
        });
        let named: Vec<Vec<&str>> = calls.chain(commands).collect();
        assert!(named.len() > 10, "{named:?}");
        for example in named {
            let [package, name] = example[..] else { panic!("{example:?}") };
            let path = workspace().join(format!("crates/{package}/examples/{name}.rs"));
            assert!(path.exists(), "no {}", path.display());
        }
    }

    #[test]
    fn a_number_is_found_after_its_words() {
        let text = "Requests/sec:  52512.31\n  104 requests in 2.00s";
        assert_eq!(number_after(text, "Requests/sec:").unwrap(), 52512.31);
        assert_eq!(number_after(text, "requests in").unwrap(), 2.0);
        assert!(number_after(text, "errors").is_err());
    }
}
