//! A service's process on its way to serving: waited for, and its last words when it does not get there.

use crate::error::{AgentError, step};
use std::{
    fmt::Display,
    fs, io,
    path::Path,
    process::{Child, Command},
    thread,
    time::{Duration, Instant},
};
use tilemark_agent_protocol::Credentials;

/// So many of its last lines are shown: RabbitMQ prints why it gives up before its runtime prints how it ended.
const LINES: usize = 20;
/// So much of each is shown.
const CHARACTERS: usize = 200;

/// How a service is waited for.
#[derive(Debug)]
pub(super) struct Wait<'a> {
    /// Its name, for people.
    pub(super) service: &'a str,
    /// How long at most.
    pub(super) within: Duration,
    /// Time between two attempts while it starts; none are made once it answers.
    pub(super) retry_after: Duration,
}

/// Starts a service's program.
pub(super) fn spawn(command: &mut Command, service: &str) -> Result<Child, AgentError> {
    command.spawn().map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => AgentError::NotInImage {
            service: service.to_owned(),
            lacks: command.get_program().to_string_lossy().into_owned(),
        },
        _ => step(format!("start {service}"))(error),
    })
}

impl Wait<'_> {
    /// Asks until it serves, or is gone, or its time is over: then it is ended. `said` gives its last words.
    pub(super) fn until_it_serves<E: Display>(
        &self,
        child: &mut Child,
        serves: impl Fn() -> Result<(), E>,
        said: impl Fn() -> String,
    ) -> Result<(), AgentError> {
        let service = self.service.to_owned();
        let deadline = Instant::now() + self.within;
        loop {
            let Err(refusal) = serves() else { return Ok(()) };
            if let Ok(Some(status)) = child.try_wait() {
                return Err(AgentError::Ended { service, status, said: said() });
            }
            if Instant::now() > deadline {
                let _ = child.kill();
                let _ = child.wait();
                let refusal = refusal.to_string();
                return Err(AgentError::Slow { service, within: self.within, refusal, said: said() });
            }
            thread::sleep(self.retry_after);
        }
    }
}

/// The last lines that a service wrote into its log, as a continuation of a sentence. Its user's password is left out.
pub(super) fn last_words(log: &Path, credentials: Option<&Credentials>) -> String {
    let said = fs::read(log).unwrap_or_default();
    let said = String::from_utf8_lossy(&said);
    let said = match credentials {
        Some(credentials) if !credentials.password.is_empty() => {
            said.replace(&credentials.password, "(password)")
        }
        _ => said.into_owned(),
    };
    let clean = |line: &str| {
        let shown = line.chars().filter(|character| !character.is_control()).take(CHARACTERS);
        shown.collect::<String>().trim_end().to_owned()
    };
    let lines: Vec<String> = said.lines().map(clean).filter(|line| !line.is_empty()).collect();
    match &lines[lines.len().saturating_sub(LINES)..] {
        [] => "; it said nothing".to_owned(),
        last => format!("; it said last:\n    {}", last.join("\n    ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Stdio;

    const SECOND: Duration = Duration::from_secs(1);

    /// What comes of waiting for a program of the shell that never serves.
    fn waited_for(script: &str, within: Duration) -> AgentError {
        let mut command = Command::new("/bin/sh");
        let mut child = spawn(command.args(["-c", script]).stdin(Stdio::null()), "a service").unwrap();
        let wait = Wait { service: "a service", within, retry_after: Duration::from_millis(1) };
        let never = || Err("nobody listens");
        let error = wait.until_it_serves(&mut child, never, || "; it said this".to_owned()).unwrap_err();
        assert!(child.try_wait().unwrap().is_some(), "it was left running");
        error
    }

    #[test]
    fn a_service_that_ends_and_one_that_is_slow_have_errors_of_their_own_with_their_output() {
        let ended = waited_for("exit 3", 3600 * SECOND);
        assert_eq!(ended.to_string(), "a service ended with exit status: 3 before it answered; it said this");
        let killed = waited_for("kill -KILL $$", 3600 * SECOND);
        assert!(killed.remedy().contains("memory ran out"), "{killed}");
        let slow = waited_for("exec sleep 3600", Duration::ZERO);
        assert_eq!(
            slow.to_string(),
            "a service runs and did not answer within 0 s: nobody listens; it said this"
        );
    }

    #[test]
    fn a_program_that_is_not_there_is_the_image_s_fault() {
        let error = spawn(&mut Command::new("/nowhere/nginx"), "nginx").unwrap_err();
        assert_eq!(error.to_string(), "the image has no nginx: it lacks /nowhere/nginx");
        // A folder is there and cannot be run.
        let error = spawn(&mut Command::new("/"), "nginx").unwrap_err();
        assert_eq!(error.to_string(), "cannot start nginx");
    }

    #[test]
    fn the_last_lines_are_whole_and_without_the_password() {
        let folder = tempfile::tempdir().unwrap();
        let log = folder.path().join("said");
        assert_eq!(last_words(&log, None), "; it said nothing");
        let lines: String = (1..=30).map(|line| format!("line {line}\r\n\n")).collect();
        fs::write(&log, format!("{lines}\x1b[1mdefault_pass = 0123abcd{}", "x".repeat(CHARACTERS))).unwrap();
        let credentials = Credentials { user: "run".to_owned(), password: "0123abcd".to_owned() };
        let shown = last_words(&log, Some(&credentials));
        let shown: Vec<&str> = shown.lines().collect();
        assert_eq!((shown.len(), shown[0], shown[1]), (1 + LINES, "; it said last:", "    line 12"));
        assert!(shown[LINES].starts_with("    [1mdefault_pass = (password)xxx"), "{}", shown[LINES]);
        assert_eq!(shown[LINES].len(), 4 + CHARACTERS);
        // Nothing is no secret.
        let nobody = Credentials { user: String::new(), password: String::new() };
        assert!(last_words(&log, Some(&nobody)).contains("line 30\n"));
    }
}
