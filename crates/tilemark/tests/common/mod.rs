//! What the tests of the command share: it is started as a user would, in a home of its own.

#![allow(dead_code, missing_docs, unreachable_pub, clippy::unwrap_used)]

pub mod real;
pub mod record;

use assert_cmd::Command;
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use serde_json::Value;
use std::{
    fs::File,
    io::Read,
    path::{Path, PathBuf},
    sync::LazyLock,
};
use tempfile::TempDir;
pub use tilemark_fixtures::skipped;
use tilemark_record::result::RunResult;

/// The program that is tested.
pub const TILEMARK: &str = env!("CARGO_BIN_EXE_tilemark");

/// The words of a command line.
pub fn words(line: &str) -> Vec<&str> {
    line.split_whitespace().collect()
}

/// A command line with which many tests begin.
pub type Line = LazyLock<Vec<&'static str>>;

/// A home without runs, images and anything under way.
pub struct Home {
    folder: TempDir,
}

impl Home {
    pub fn new() -> Self {
        Self::called("tilemark-test-")
    }

    /// In a folder whose name begins so.
    pub fn called(start: &str) -> Self {
        Self { folder: TempDir::with_prefix(start).unwrap() }
    }

    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Where the lock of the host is for what runs in this home.
    pub fn lock_folder(&self) -> PathBuf {
        self.path().join("lock-of-host")
    }

    /// A command line in this home.
    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(TILEMARK);
        command.env("TILEMARK_HOME", self.path()).env_remove("NO_COLOR").args(arguments);
        // Test runs go beside each other and beside measured runs of this host.
        command.env("TILEMARK_LOCK_FOLDER", self.lock_folder());
        command
    }

    /// What it says.
    pub fn says(&self, arguments: &[&str]) -> Said {
        Said::of(&self.command(arguments).output().unwrap())
    }

    /// A file in this home.
    pub fn file(&self, name: &str, text: &str) -> PathBuf {
        let path = self.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, text).unwrap();
        path
    }
}

/// What a command said.
#[derive(Debug)]
pub struct Said {
    pub code: Option<i32>,
    pub out: String,
    pub error: String,
}

impl Said {
    pub fn of(output: &std::process::Output) -> Self {
        Self {
            code: output.status.code(),
            out: String::from_utf8(output.stdout.clone()).unwrap(),
            error: String::from_utf8(output.stderr.clone()).unwrap(),
        }
    }

    /// It ended with this exit code.
    #[track_caller]
    pub fn ended(self, code: i32) -> Self {
        assert_eq!(self.code, Some(code), "{self:?}");
        self
    }

    /// It measured to its end. Trusted, or not: that is the machine's business.
    #[track_caller]
    pub fn measured(self) -> Self {
        assert!(matches!(self.code, Some(0 | 5)), "{self:?}");
        self
    }

    /// Its standard output has these words.
    #[track_caller]
    pub fn with_output(self, words: &str) -> Self {
        assert!(self.out.contains(words), "{words}: {self:?}");
        self
    }

    /// Its standard error has these words.
    #[track_caller]
    pub fn with_error(self, words: &str) -> Self {
        assert!(self.error.contains(words), "{words}: {self:?}");
        self
    }

    /// Its document is an error with these words in its message and in what to do.
    #[track_caller]
    pub fn fails_with(&self, code: i32, message: &str, remedy: &str) {
        assert_eq!(self.code, Some(code), "{self:?}");
        assert!(self.message().contains(message), "{self:?}");
        assert!(self.json()["error"]["remedy"].as_str().unwrap().contains(remedy), "{self:?}");
    }

    /// The message of the error that is its document.
    #[track_caller]
    pub fn message(&self) -> String {
        self.json()["error"]["message"].as_str().unwrap().to_owned()
    }

    /// The result of a run, as its document.
    #[track_caller]
    pub fn result(&self) -> RunResult {
        serde_json::from_value(self.json()).unwrap()
    }

    /// Standard output as one line, wherever its lines are broken.
    pub fn words(&self) -> String {
        self.out.split_whitespace().collect::<Vec<_>>().join(" ")
    }

    /// The one document on standard output.
    #[track_caller]
    pub fn json(&self) -> Value {
        let documents: Vec<Value> =
            serde_json::Deserializer::from_str(&self.out).into_iter().collect::<Result<_, _>>().unwrap();
        assert_eq!(documents.len(), 1, "not one document: {self:?}");
        documents.into_iter().next().unwrap()
    }
}

/// The program, deaf to Ctrl-C no more: what ignores it (`nohup`, a script's `&`) hands that on to the tests, and they to
/// every program that does not listen for it.
pub fn hears_ctrl_c() -> std::process::Command {
    let mut command = std::process::Command::new("env");
    command.args(["--default-signal=INT", TILEMARK]);
    command
}

/// A command in the lab of many hosts, to which its words are added; nothing where that lab cannot be here.
pub fn fleet_lab() -> Option<std::process::Command> {
    // A soak is a build for release, which has no xtask beside it.
    let xtask = std::env::var_os("TILEMARK_TEST_XTASK")
        .map_or_else(|| Path::new(TILEMARK).with_file_name("xtask"), PathBuf::from);
    if !rustix::process::geteuid().is_root() || !xtask.is_file() {
        skipped("the lab of many hosts needs root, and xtask beside the program: `cargo build --workspace`");
        return None;
    }
    if std::env::var_os("TILEMARK_TEST_CACHE").is_none() {
        skipped("the lab of many hosts needs the tests' image: set TILEMARK_TEST_CACHE");
        return None;
    }
    let mut lab = std::process::Command::new(xtask);
    lab.args(["fleet-lab", "--program", TILEMARK, "--"]).stdin(std::process::Stdio::null());
    Some(lab)
}

/// What a command writes on a terminal.
pub fn on_a_terminal(home: &Home, arguments: &[&str], no_color: Option<&str>) -> String {
    let ours = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
    grantpt(&ours).unwrap();
    unlockpt(&ours).unwrap();
    let name = ptsname(&ours, Vec::new()).unwrap();
    let its = File::options().read(true).write(true).open(name.to_str().unwrap()).unwrap();
    let mut command = std::process::Command::new(TILEMARK);
    command.args(arguments).env("TILEMARK_HOME", home.path()).env("TERM", "xterm").env_remove("NO_COLOR");
    command.envs(no_color.map(|value| ("NO_COLOR", value)));
    command.stdin(its.try_clone().unwrap()).stdout(its.try_clone().unwrap()).stderr(its);
    let mut child = command.spawn().unwrap();
    // The last copies of its end go with it.
    drop(command);
    let mut written = Vec::new();
    // A terminal whose other end is closed says so with an error.
    let _ = File::from(ours).read_to_end(&mut written);
    child.wait().unwrap();
    String::from_utf8_lossy(&written).into_owned()
}

pub fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}
