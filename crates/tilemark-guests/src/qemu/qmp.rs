//! QEMU's monitor: one JSON document a line, answers and events mixed.

use crate::{conversation::Limited, error::GuestError};
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
use serde_json::{Value, json};
use std::{
    cell::RefCell,
    io::{self, BufRead, BufReader, IoSlice, Write},
    mem::MaybeUninit,
    os::{fd::BorrowedFd, unix::net::UnixStream},
    time::Duration,
};

/// A line longer than this is not QEMU's.
const LINE_BYTES_MAX: u64 = 1 << 20;

/// The monitor of one QEMU.
#[derive(Debug)]
pub(super) struct Monitor {
    guest: String,
    stream: UnixStream,
    reader: BufReader<Limited>,
    /// The reason in QEMU's last SHUTDOWN event.
    shutdown: Option<String>,
}

/// QEMU is gone when the rest of its messages is read: nothing is waited for.
const REST_WITHIN: Duration = Duration::from_secs(1);

/// The name by which QEMU knows the descriptor of the state. QEMU 7.2 takes no number here, and no file.
const STATE: &str = "state";

fn capabilities() -> Value {
    let capabilities = json!([
        {"capability": "x-ignore-shared", "state": true},
        {"capability": "events", "state": true},
    ]);
    json!({"execute": "migrate-set-capabilities", "arguments": {"capabilities": capabilities}})
}

fn receive_state() -> Value {
    json!({"execute": "getfd", "arguments": {"fdname": STATE}})
}

/// The first command to every monitor.
pub(super) fn greeting() -> Value {
    json!({"execute": "qmp_capabilities"})
}

/// The commands with which a clone begins, written before QEMU even starts; the state's descriptor goes with them.
pub(super) fn clone_commands() -> [Value; 5] {
    let uri = format!("fd:{STATE}");
    let load = json!({"execute": "migrate-incoming", "arguments": {"uri": uri}});
    // QEMU would announce the template's address to the whole bridge, several times for each clone.
    let silent = json!({"execute": "migrate-set-parameters", "arguments": {"announce-rounds": 0}});
    [greeting(), capabilities(), silent, receive_state(), load]
}

/// The commands that freeze a template; a descriptor to write the state to goes with them. QEMU stops the guest for
/// good at the end of it. It is not stopped before: a state says whether its guest ran, and a clone of a running one
/// runs on by itself.
pub(super) fn freeze_commands() -> [Value; 3] {
    let uri = format!("fd:{STATE}");
    let save = json!({"execute": "migrate", "arguments": {"uri": uri}});
    [capabilities(), receive_state(), save]
}

impl Monitor {
    /// The host's end of a pair, whose other end QEMU is or will be handed.
    pub(super) fn new(guest: &str, stream: UnixStream) -> io::Result<Self> {
        let reader = BufReader::new(Limited::new(stream.try_clone()?, Duration::ZERO));
        Ok(Self { guest: guest.to_owned(), stream, reader, shutdown: None })
    }

    /// Writes commands without waiting for anything.
    pub(super) fn send(&mut self, commands: &[Value]) -> io::Result<()> {
        let text: String = commands.iter().map(|command| format!("{command}\n")).collect();
        self.stream.write_all(text.as_bytes())
    }

    /// The same, with a descriptor for the `getfd` among them. All in one message, for QEMU keeps one at a time.
    pub(super) fn send_with(&mut self, commands: &[Value], descriptor: BorrowedFd<'_>) -> io::Result<()> {
        let text: String = commands.iter().map(|command| format!("{command}\n")).collect();
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        let descriptors = [descriptor];
        if !ancillary.push(SendAncillaryMessage::ScmRights(&descriptors)) {
            return Err(io::ErrorKind::OutOfMemory.into());
        }
        let sent =
            sendmsg(&self.stream, &[IoSlice::new(text.as_bytes())], &mut ancillary, SendFlags::NOSIGNAL)?;
        self.stream.write_all(&text.as_bytes()[sent..])
    }

    /// Reads until `wanted` says that it saw what it waits for. A command that QEMU refused is an error, as is a
    /// migration that failed.
    pub(super) fn wait(
        &mut self,
        within: Duration,
        wanted: impl Fn(&Value) -> bool,
    ) -> Result<(), MonitorError> {
        self.reader.get_mut().limit(within);
        loop {
            let message = self.next()?;
            if let Some(error) = message.get("error") {
                return Err(MonitorError::Refused(self.refused("a command", error)));
            }
            if status_of(&message) == Some("failed") {
                let reason = self.reason_of_failure();
                return Err(MonitorError::Refused(self.refused("migrate", &reason)));
            }
            if wanted(&message) {
                return Ok(());
            }
        }
    }

    /// Sends a command with an `id` and waits for the answer with it.
    pub(super) fn ask(&mut self, command: &Value, within: Duration) -> Result<Value, MonitorError> {
        self.send(std::slice::from_ref(command))?;
        let answer = RefCell::new(Value::Null);
        self.wait(within, |message| {
            let is_answer = message.get("id") == command.get("id");
            if is_answer {
                answer.replace(message.clone());
            }
            is_answer
        })?;
        Ok(answer.into_inner())
    }

    /// The event only says that it failed; the reason has to be asked for.
    fn reason_of_failure(&mut self) -> Value {
        let unknown = json!({"desc": "QEMU gives no reason"});
        if self.send(&[json!({"execute": "query-migrate"})]).is_err() {
            return unknown;
        }
        while let Ok(message) = self.next() {
            if let Some(reason) = message.get("return").and_then(|answer| answer.get("error-desc")) {
                return json!({ "desc": reason });
            }
            if message.get("return").and_then(|answer| answer.get("status")).is_some() {
                return unknown;
            }
        }
        unknown
    }

    fn next(&mut self) -> io::Result<Value> {
        let mut line = Vec::new();
        let read = io::Read::take(&mut self.reader, LINE_BYTES_MAX).read_until(b'\n', &mut line)?;
        if read == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let message: Value = serde_json::from_slice(&line).map_err(io::Error::other)?;
        if let Some(reason) = shutdown_reason(&message) {
            self.shutdown = Some(reason.to_owned());
        }
        Ok(message)
    }

    /// Why a QEMU that is gone shut down, as its SHUTDOWN event says; nothing where it sent none.
    pub(super) fn reason_of_end(&mut self) -> Option<&str> {
        self.reader.get_mut().limit(REST_WITHIN);
        while self.next().is_ok() {}
        self.shutdown.as_deref()
    }

    fn refused(&self, command: &str, error: &Value) -> GuestError {
        let said = error.get("desc").and_then(Value::as_str).map_or_else(|| error.to_string(), str::to_owned);
        GuestError::Qmp { guest: self.guest.clone(), command: command.to_owned(), said }
    }
}

/// Why a wait ended without what was waited for.
#[derive(Debug)]
pub(super) enum MonitorError {
    /// QEMU said no.
    Refused(GuestError),
    /// Time ran out, or QEMU is gone.
    Stream(io::Error),
}

impl From<io::Error> for MonitorError {
    fn from(error: io::Error) -> Self {
        Self::Stream(error)
    }
}

fn status_of(message: &Value) -> Option<&str> {
    (message.get("event")?.as_str()? == "MIGRATION").then_some(())?;
    message.get("data")?.get("status")?.as_str()
}

/// `ShutdownCause` of QEMU's machine protocol.
fn shutdown_reason(message: &Value) -> Option<&str> {
    (message.get("event")?.as_str()? == "SHUTDOWN").then_some(())?;
    message.get("data")?.get("reason")?.as_str()
}

/// The state was saved or loaded.
pub(super) fn is_migrated(message: &Value) -> bool {
    status_of(message) == Some("completed")
}

/// The guest runs.
pub(super) fn is_resumed(message: &Value) -> bool {
    message.get("event").and_then(Value::as_str) == Some("RESUME")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(lines: &str) -> Result<(), MonitorError> {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        theirs.write_all(lines.as_bytes()).unwrap();
        drop(theirs);
        Monitor::new("web", ours).unwrap().wait(Duration::from_secs(10), is_resumed)
    }

    #[test]
    fn events_and_answers_are_passed_until_the_wanted_one() {
        let lines = "{\"QMP\": {}}\n{\"return\": {}}\n{\"event\": \"STOP\"}\n{\"event\": \"RESUME\"}\n";
        assert!(after(lines).is_ok());
    }

    #[test]
    fn the_reason_of_a_shutdown_is_kept_whoever_reads_the_event() {
        let event = "{\"event\": \"SHUTDOWN\", \"data\": {\"guest\": true, \"reason\": \"guest-reset\"}}\n";
        for waits in [false, true] {
            let (ours, mut theirs) = UnixStream::pair().unwrap();
            theirs.write_all(event.as_bytes()).unwrap();
            drop(theirs);
            let mut monitor = Monitor::new("web", ours).unwrap();
            if waits {
                monitor.wait(Duration::from_secs(10), is_resumed).unwrap_err();
            }
            assert_eq!(monitor.reason_of_end(), Some("guest-reset"), "{waits}");
        }
    }

    #[test]
    fn an_answer_is_known_by_its_number_among_those_before_it() {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        theirs
            .write_all(b"{\"return\": {}}\n{\"event\": \"STOP\"}\n{\"return\": [1], \"id\": \"a\"}\n")
            .unwrap();
        let mut monitor = Monitor::new("web", ours).unwrap();
        let answer = monitor.ask(&json!({"execute": "x", "id": "a"}), Duration::from_secs(10)).unwrap();
        assert_eq!(answer["return"], json!([1]));
    }

    #[test]
    fn a_refusal_is_reported_in_qemus_words() {
        let error =
            after("{\"error\": {\"class\": \"GenericError\", \"desc\": \"no such fd\"}}\n").unwrap_err();
        let MonitorError::Refused(error) = error else { panic!("{error:?}") };
        assert_eq!(error.to_string(), "QEMU of guest `web` refused `a command`: no such fd");
    }

    #[test]
    fn a_failed_migration_and_a_lost_qemu_end_the_wait() {
        let failed = after("{\"event\": \"MIGRATION\", \"data\": {\"status\": \"failed\"}}\n");
        assert!(matches!(failed, Err(MonitorError::Refused(_))));
        assert!(matches!(after("{\"return\": {}}\n"), Err(MonitorError::Stream(_))));
    }
}
