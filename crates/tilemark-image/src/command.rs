//! Runs the tools that a build needs, shows what they say and keeps the end of it for the error message.

use std::collections::VecDeque;
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::process::{Command, ExitStatus, Stdio};

use crate::progress::Progress;
use crate::{ImageError, Result};

/// How many lines of a tool's output are kept for an error message.
const KEPT_LINES: usize = 15;
/// Lines are cut here: some tools draw progress without ever ending the line.
const LINE_BYTES_MAX: u64 = 4096;
/// The system's own folders: tools must be found from a shell without the `sbin` folders too.
const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
/// All that a tool sees of our environment. A proxy is part of how this host reaches its mirror.
const KEPT_VARIABLES: [&str; 8] = [
    "http_proxy",
    "https_proxy",
    "ftp_proxy",
    "no_proxy",
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "FTP_PROXY",
    "NO_PROXY",
];

/// A tool to run, and the package that has it.
pub(crate) struct Tool {
    name: &'static str,
    package: &'static str,
    command: Command,
}

/// How a tool ended, if it did not succeed.
pub(crate) struct Failure {
    pub(crate) tool: &'static str,
    pub(crate) status: ExitStatus,
    /// The last lines of its output.
    pub(crate) output: String,
}

impl From<Failure> for ImageError {
    fn from(Failure { tool, status, output }: Failure) -> Self {
        Self::ToolFailed { tool: tool.to_owned(), status, output }
    }
}

impl Tool {
    /// A tool with a clean environment and no standard input.
    pub(crate) fn new(name: &'static str, package: &'static str) -> Self {
        let mut command = Command::new(name);
        command
            .env_clear()
            .env("PATH", PATH)
            .env("HOME", "/root")
            .env("LC_ALL", "C.UTF-8")
            .stdin(Stdio::null());
        for variable in KEPT_VARIABLES {
            if let Some(value) = std::env::var_os(variable) {
                command.env(variable, value);
            }
        }
        Self { name, package, command }
    }

    pub(crate) fn arg(mut self, argument: impl AsRef<OsStr>) -> Self {
        self.command.arg(argument);
        self
    }

    pub(crate) fn args<A: AsRef<OsStr>>(mut self, arguments: impl IntoIterator<Item = A>) -> Self {
        self.command.args(arguments);
        self
    }

    pub(crate) fn env(mut self, name: &str, value: impl AsRef<OsStr>) -> Self {
        self.command.env(name, value);
        self
    }

    pub(crate) fn stdin(mut self, file: File) -> Self {
        self.command.stdin(file);
        self
    }

    /// Runs to the end, passing each line on.
    pub(crate) fn run(mut self, progress: &mut dyn Progress) -> Result<std::result::Result<(), Failure>> {
        let (reader, writer) = io::pipe().map_err(|source| self.cannot_start(source))?;
        let second_writer = writer.try_clone().map_err(|source| self.cannot_start(source))?;
        self.command.stdout(writer).stderr(second_writer);
        let mut child = self.command.spawn().map_err(|source| self.cannot_start(source))?;
        // Our copies of the writing ends go, so that the pipe ends with the tool.
        self.command.stdout(Stdio::null()).stderr(Stdio::null());
        let read = pass_lines(reader, progress);
        let status = child.wait().map_err(|source| self.cannot_start(source))?;
        let output = read.map_err(|source| self.cannot_start(source))?;
        Ok(if status.success() { Ok(()) } else { Err(Failure { tool: self.name, status, output }) })
    }

    /// Runs to the end and returns its standard output.
    pub(crate) fn output(mut self) -> Result<Vec<u8>> {
        let output = self.command.output().map_err(|source| self.cannot_start(source))?;
        if output.status.success() {
            return Ok(output.stdout);
        }
        let said = String::from_utf8_lossy(&output.stderr);
        let lines: Vec<&str> = said.lines().collect();
        let output_end = lines[lines.len().saturating_sub(KEPT_LINES)..].join("\n");
        Err(Failure { tool: self.name, status: output.status, output: output_end }.into())
    }

    fn cannot_start(&self, source: io::Error) -> ImageError {
        if source.kind() == io::ErrorKind::NotFound {
            return ImageError::ToolMissing { tool: self.name.to_owned(), package: self.package };
        }
        ImageError::io("run", self.name.as_ref())(source)
    }
}

/// Passes lines on until the pipe ends; returns the last of them.
fn pass_lines(pipe: impl io::Read, progress: &mut dyn Progress) -> io::Result<String> {
    let mut reader = BufReader::new(pipe);
    let mut kept: VecDeque<String> = VecDeque::new();
    loop {
        let mut bytes = Vec::new();
        if io::Read::take(&mut reader, LINE_BYTES_MAX).read_until(b'\n', &mut bytes)? == 0 {
            return Ok(Vec::from(kept).join("\n"));
        }
        let line = String::from_utf8_lossy(&bytes);
        let line = line.trim_end();
        if line.is_empty() {
            continue;
        }
        progress.line(line);
        if kept.len() == KEPT_LINES {
            kept.pop_front();
        }
        kept.push_back(line.to_owned());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::progress::Step;

    #[derive(Default)]
    struct Heard(Vec<String>);

    impl Progress for Heard {
        fn step(&mut self, _: Step) {}
        fn line(&mut self, line: &str) {
            self.0.push(line.to_owned());
        }
    }

    #[test]
    fn a_failed_tool_is_named_with_the_end_of_what_it_said_on_either_stream() {
        let mut heard = Heard::default();
        let script = "for i in $(seq 30); do echo line $i; done; echo last >&2; exit 3";
        let failure = Tool::new("sh", "dash").args(["-c", script]).run(&mut heard).unwrap().err().unwrap();
        assert_eq!(failure.status.code(), Some(3));
        assert!(failure.output.ends_with("line 30\nlast"), "{}", failure.output);
        assert_eq!(failure.output.lines().count(), KEPT_LINES);
        assert_eq!(heard.0.len(), 31);
    }

    #[test]
    fn a_tool_that_is_not_there_is_named_with_its_package() {
        let error = Tool::new("no-such-tool", "its-package").run(&mut crate::Silent).err().unwrap();
        assert_eq!(error.to_string(), "`no-such-tool` is not installed");
        assert!(error.remedy().contains("its-package"));
    }

    #[test]
    fn nothing_of_our_environment_is_passed_on_except_proxies() {
        let shown = Tool::new("env", "coreutils").output().unwrap();
        let names: Vec<String> = String::from_utf8(shown)
            .unwrap()
            .lines()
            .filter_map(|line| Some(line.split_once('=')?.0.to_owned()))
            .filter(|name| !KEPT_VARIABLES.contains(&name.as_str()))
            .collect();
        assert_eq!(
            names.iter().filter(|name| !["PATH", "HOME", "LC_ALL"].contains(&name.as_str())).count(),
            0
        );
    }
}
