//! The agent of a client machine: a load process that was brought through a stream, and must not outlive whoever brought it.
//!
//! The end of its stream says little: a stream over `srun` was seen to stay open when its other end was gone. So both ends give a sign
//! of life each second, and silence ends the agent, and with it its load. Its file is removed before it does anything else.

use super::serve::{Output, converse};
use crate::{
    clock,
    error::{AgentError, step},
};
use std::{
    io::{Read, Write},
    process,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    thread,
    time::Duration,
};
use tilemark_agent_protocol::Reply;

/// It gives a sign of life so often.
const ALIVE_EVERY: Duration = Duration::from_secs(1);
/// Without one of the host for so long it ends.
const SILENT_AT_MOST: Duration = Duration::from_secs(10);
/// How often it looks.
const LOOKS_EVERY: Duration = Duration::from_millis(200);
/// How it ends when its host was silent.
const HOST_SILENT: i32 = 3;
/// And when its time is over: an agent that lives to the end of a plan was not ended by its host.
const TIME_OVER: i32 = 4;
/// How the folder begins that it was brought into.
const FOLDER: &str = "tilemark-client.";

/// When its host was heard last.
#[derive(Clone)]
pub(super) struct Lifeline(Arc<AtomicU64>);

impl Lifeline {
    fn new() -> Self {
        Self(Arc::new(AtomicU64::new(clock::monotonic_ns())))
    }

    /// It is heard now.
    pub(super) fn heard(&self) {
        self.0.store(clock::monotonic_ns(), Ordering::Relaxed);
    }

    fn is_cut(&self) -> bool {
        let silent = clock::monotonic_ns().saturating_sub(self.0.load(Ordering::Relaxed));
        u128::from(silent) > SILENT_AT_MOST.as_nanos()
    }
}

/// Serves a host until it hangs up, is silent for 10 s, or so many seconds are over.
pub(crate) fn serve_client(
    input: impl Read,
    output: impl Write + Send + 'static,
    seconds: Option<String>,
) -> Result<(), AgentError> {
    remove_own_file();
    let seconds: u64 = seconds
        .and_then(|seconds| seconds.parse().ok())
        .ok_or_else(|| AgentError::Usage("client without its seconds".to_owned()))?;
    let (lifeline, output) = (Lifeline::new(), Output::to(output));
    let end = clock::monotonic_ns().saturating_add(seconds.saturating_mul(1_000_000_000));
    // It writes nothing, so nothing can hold it up.
    let watched = lifeline.clone();
    thread::Builder::new()
        .name("watchdog".to_owned())
        .spawn(move || {
            loop {
                thread::sleep(LOOKS_EVERY);
                if watched.is_cut() {
                    process::exit(HOST_SILENT);
                }
                if clock::monotonic_ns() > end {
                    process::exit(TIME_OVER);
                }
            }
        })
        .map_err(step("start a thread"))?;
    let alive = output.clone();
    thread::Builder::new()
        .name("alive".to_owned())
        .spawn(move || {
            loop {
                thread::sleep(ALIVE_EVERY);
                alive.send(&Reply::Alive);
            }
        })
        .map_err(step("start a thread"))?;
    let ended = converse(input, &output, Some(&lifeline));
    // A load that runs ends with its process: nobody is left who wants its figures.
    process::exit(i32::from(ended.is_err()));
}

/// A program that runs needs no file. Only what was made to bring it is removed.
fn remove_own_file() {
    let Ok(program) = std::env::current_exe() else { return };
    let Some(folder) = program.parent() else { return };
    let is_ours =
        folder.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(FOLDER.as_bytes()));
    if is_ours {
        // Whoever brought it removes what is left here.
        let _ = std::fs::remove_file(&program);
        let _ = std::fs::remove_dir(folder);
    }
}
