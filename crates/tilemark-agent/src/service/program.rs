//! A program of the user's own as a service.

use super::{
    started::Started,
    wait::{Wait, spawn},
};
use crate::error::{AgentError, step};
use std::{
    collections::VecDeque,
    io::{self, BufRead, BufReader, Read, Write},
    net::{Ipv4Addr, TcpStream},
    os::unix::process::CommandExt,
    process::{Child, Command, Stdio},
    sync::{Arc, Mutex, PoisonError},
    thread,
    time::{Duration, Instant},
};
use tilemark_agent_protocol::Service;
use tilemark_plan::scenario::Ready;

/// Time between two looks while it starts.
const RETRY_AFTER: Duration = Duration::from_millis(10);
/// A connection to a port of this very guest.
const CONNECT_WITHIN: Duration = Duration::from_secs(1);
/// Bytes of a line; what is longer is cut into several.
const LINE_MAX: u64 = 4096;
/// So many of its last lines are shown when it does not get ready.
const LINES: usize = 5;
/// So much of each is shown.
const CHARACTERS: usize = 200;

/// What it has printed.
#[derive(Default)]
struct Said {
    has_line: bool,
    last: VecDeque<String>,
}

/// Starts it and waits until it is ready.
pub(super) fn start(service: &Service) -> Result<Started, AgentError> {
    if let ([], Some(Ready { port: Some(port), within, .. })) = (&service.run[..], &service.ready) {
        return wait_for_port(*port, within.get());
    }
    let (Some((program, arguments)), Some(ready)) = (service.run.split_first(), &service.ready) else {
        return Err(AgentError::Refused("a program of one's own needs `run` and `ready`"));
    };
    if let Some(port) = ready.port.filter(|port| connect(*port).is_ok()) {
        let message = format!("port {port} of `{program}` is taken before it is started");
        return Err(AgentError::Service(message));
    }
    let mut command = Command::new(program);
    // A group of its own, so that it ends with all that it started.
    command.args(arguments).current_dir("/").stdin(Stdio::null()).process_group(0);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = spawn(&mut command, program)?;
    let said = Arc::new(Mutex::new(Said::default()));
    let line = ready.line.clone();
    if let Some(output) = child.stdout.take() {
        listen(output, line.clone(), &said)?;
    }
    if let Some(errors) = child.stderr.take() {
        listen(errors, line, &said)?;
    }
    let wait = Wait { service: program, within: ready.within.get(), retry_after: RETRY_AFTER };
    let is_ready = || is_ready(ready, &said);
    if let Err(error) = wait.until_it_serves(&mut child, is_ready, || last_words(&said)) {
        // What it started goes too.
        end_group(&child);
        return Err(error);
    }
    Ok(Started { has_group: true, ..Started::process(ready.port.unwrap_or(0), child) })
}

/// Waits for a service that the guest's own system starts.
fn wait_for_port(port: u16, within: Duration) -> Result<Started, AgentError> {
    let deadline = Instant::now() + within;
    loop {
        match connect(port) {
            Ok(_) => return Ok(Started::at(port)),
            Err(source) if Instant::now() > deadline => {
                return Err(AgentError::NobodyListens { port, within, source });
            }
            Err(_) => thread::sleep(RETRY_AFTER),
        }
    }
}

fn connect(port: u16) -> io::Result<TcpStream> {
    TcpStream::connect_timeout(&(Ipv4Addr::LOCALHOST, port).into(), CONNECT_WITHIN)
}

fn is_ready(ready: &Ready, said: &Mutex<Said>) -> Result<(), String> {
    match (ready.port, &ready.line) {
        (Some(port), _) => connect(port).map(drop).map_err(|error| format!("port {port}: {error}")),
        (None, Some(line)) if !locked(said).has_line => Err(format!("no line of its output holds {line:?}")),
        (None, _) => Ok(()),
    }
}

fn locked(said: &Mutex<Said>) -> std::sync::MutexGuard<'_, Said> {
    said.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Passes what it prints on to the console, line by line, for as long as it runs.
fn listen(
    output: impl Read + Send + 'static,
    line: Option<String>,
    said: &Arc<Mutex<Said>>,
) -> Result<(), AgentError> {
    let said = Arc::clone(said);
    let pass_on = move || {
        let mut lines = BufReader::new(output);
        let mut bytes = Vec::new();
        loop {
            bytes.clear();
            match Read::take(&mut lines, LINE_MAX).read_until(b'\n', &mut bytes) {
                Ok(0) | Err(_) => return,
                Ok(_) => {}
            }
            // Without a console it still must not block.
            let _ = io::stdout().write_all(&bytes);
            let text = String::from_utf8_lossy(&bytes);
            let mut said = locked(&said);
            said.has_line |= line.as_ref().is_some_and(|line| text.contains(line.as_str()));
            let shown: String = text.chars().filter(|c| !c.is_control()).take(CHARACTERS).collect();
            if said.last.len() == LINES {
                said.last.pop_front();
            }
            said.last.push_back(shown);
        }
    };
    let thread = thread::Builder::new().name("program".to_owned()).spawn(pass_on);
    thread.map(drop).map_err(step("start a thread for its output"))
}

/// Its last lines, as a continuation of a sentence.
fn last_words(said: &Mutex<Said>) -> String {
    // A program that has ended may have said something that was not read yet.
    thread::sleep(10 * RETRY_AFTER);
    let said = locked(said);
    if said.last.is_empty() {
        return "; it printed nothing".to_owned();
    }
    let last: Vec<&str> = said.last.iter().map(String::as_str).collect();
    format!("; it printed last:\n    {}", last.join("\n    "))
}

/// Ends a program with all that it started.
pub(super) fn end_group(child: &Child) {
    let id = rustix::process::Pid::from_child(child);
    let _ = rustix::process::kill_process_group(id, rustix::process::Signal::KILL);
}

#[cfg(test)]
mod tests {
    use super::*;
    use tilemark_plan::scenario::Role;
    use tilemark_units::{Bytes, Span};

    fn service(script: &str, ready: Ready) -> Service {
        Service {
            run: ["/bin/sh", "-c", script].map(str::to_owned).to_vec(),
            ready: Some(ready),
            ..Service::new(Role::Program, Bytes::from_mib(64), 1)
        }
    }

    fn on_line(within: u64) -> Ready {
        Ready { port: None, line: Some("listening".to_owned()), within: Span::from_seconds(within) }
    }

    #[test]
    fn a_program_is_ready_when_it_prints_its_line_and_ends_with_what_it_started() {
        let script = "echo starting; echo now listening here >&2; sleep 3600 & wait";
        let started = start(&service(script, on_line(60))).unwrap();
        let mut child = started.child.unwrap();
        assert!(child.try_wait().unwrap().is_none(), "it runs");
        end_group(&child);
        child.wait().unwrap();
        assert_eq!(started.port, 0);
    }

    #[test]
    fn a_program_that_ends_is_silent_or_is_absent_is_named_with_its_last_lines() {
        let error = |service: &Service| start(service).map(drop).unwrap_err().to_string();
        let ended = error(&service("echo no such table; exit 3", on_line(60)));
        assert!(
            ended.contains("/bin/sh ended with exit status: 3") && ended.contains("no such table"),
            "{ended}"
        );
        let silent = error(&service("exec sleep 3600", on_line(0)));
        assert!(silent.contains("no line of its output holds \"listening\"; it printed nothing"), "{silent}");
        let mut absent = service("", on_line(1));
        absent.run[0] = "/nowhere/app".to_owned();
        assert!(error(&absent).contains("/nowhere/app"), "{}", error(&absent));
        let mut own = absent.clone();
        own.run.clear();
        own.ready = Some(Ready { port: Some(1), line: None, within: Span::from_seconds(0) });
        assert!(
            error(&own).starts_with("nobody listens on port 1 of the guest after 0 s"),
            "{}",
            error(&own)
        );
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let taken =
            service("exec sleep 3600", Ready { port: Some(port), line: None, within: Span::from_seconds(1) });
        assert!(error(&taken).contains("is taken before it is started"));
        own.ready = Some(Ready { port: Some(port), line: None, within: Span::from_seconds(60) });
        let started = start(&own).unwrap();
        assert_eq!((started.port, started.child.is_none()), (port, true), "the disk's own service");
    }
}
