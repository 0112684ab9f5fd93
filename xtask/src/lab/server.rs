//! A booted lab.

use super::{
    machine::{arguments, number},
    materials::Materials,
};
use anyhow::{Context, Result, bail};
use rustix::{
    fs::{MemfdFlags, memfd_create},
    process::Signal,
};
use std::{
    fs::File,
    io::{Read, Seek, SeekFrom},
    os::{fd::OwnedFd, unix::net::UnixStream},
    time::Duration,
};
use tilemark_agent_protocol::{Execute, Reply, Request, Session};
use tilemark_sys::process::{Child, Spawn};
use tilemark_units::Span;

/// An emulated server is up in 6 s on two idle processors, and in 45 s on busy ones; beyond this is a fault.
const BOOTS_WITHIN: Duration = Duration::from_secs(180);
/// How often a lab is booted before its failure is reported.
const BOOTS_MAX: u32 = 3;
/// Nobody waits longer for a command.
const COMMAND_WITHIN: Span = Span::from_seconds(30 * 24 * 3600);
/// Size of the disk that the lab may write, of which the host's memory holds what was written.
const DATA_BYTES: u64 = 8 << 30;
/// So much of the console's end is shown when something fails.
const SHOWN_BYTES: u64 = 8000;

/// What a command in the lab ended with.
pub(super) struct Executed {
    pub(super) code: i32,
    /// What it printed on both streams, in so far as it was not sent elsewhere.
    pub(super) said: String,
}

/// A running lab. It ends with this process, or when dropped.
pub(super) struct Server {
    qemu: Child,
    agent: UnixStream,
    session: Session<UnixStream>,
    console: File,
    log: File,
    /// What commands print, to be taken once.
    pub(super) output: Option<UnixStream>,
    pub(super) error: Option<UnixStream>,
}

impl Server {
    /// Starts QEMU and waits until the agent in it answers. The calling thread must stay: the lab dies with it.
    ///
    /// A kernel that hangs or panics before its first process is the translator's fault, not the command's: on a host with
    /// ten runnable threads for two processors one boot of some twenty did. It is booted again.
    pub(super) fn boot(materials: &Materials) -> Result<Self> {
        let mut tries = 1..=BOOTS_MAX;
        loop {
            let last = tries.next() == Some(BOOTS_MAX);
            match Self::boot_once(materials) {
                Err(_) if !last => {}
                booted => return booted,
            }
        }
    }

    fn boot_once(materials: &Materials) -> Result<Self> {
        let (agent, theirs) = UnixStream::pair()?;
        let (output, output_theirs) = UnixStream::pair()?;
        let (error, error_theirs) = UnixStream::pair()?;
        let (mut console, mut log) = (in_memory("lab-console")?, in_memory("lab-log")?);
        let data = data_disk(materials)?;
        let qemu = Spawn::path(&materials.qemu)?
            .arguments(arguments(materials))?
            .hand(File::open("/dev/null")?.into(), 0)
            .hand(log.try_clone()?.into(), 1)
            .hand(log.try_clone()?.into(), 2)
            .hand(theirs.into(), number::AGENT)
            .hand(output_theirs.into(), number::OUTPUT)
            .hand(error_theirs.into(), number::ERROR)
            .hand(console.try_clone()?.into(), number::CONSOLE)
            .hand(materials.initramfs.try_clone()?, number::INITRAMFS)
            .hand(materials.cache.try_clone()?, number::CACHE)
            .hand(data.into(), number::DATA)
            .oom_score(1000)
            .own_session()
            .dies_with_thread(Signal::KILL)
            .start()?;
        let opened = agent
            .set_read_timeout(Some(BOOTS_WITHIN))
            .map_err(anyhow::Error::from)
            .and_then(|()| Ok(Session::open(agent.try_clone()?, u64::from(std::process::id()))?));
        match opened {
            Ok(session) => {
                Ok(Self { qemu, agent, session, console, log, output: Some(output), error: Some(error) })
            }
            Err(error) => {
                let _ = qemu.signal(Signal::KILL);
                let _ = qemu.wait();
                Err(error.context(format!("the lab did not come up{}", tails(&mut console, &mut log))))
            }
        }
    }

    /// Runs a program in the lab and waits for its end.
    pub(super) fn execute(&mut self, arguments: Vec<String>) -> Result<Executed> {
        self.agent.set_read_timeout(None)?;
        let order = Request::Execute(Execute { arguments, within: COMMAND_WITHIN });
        match self.session.ask(&order) {
            Ok(Reply::Executed { code, output, error }) => {
                let said = [output, error].concat();
                Ok(Executed { code, said: String::from_utf8_lossy(&said).into_owned() })
            }
            Ok(Reply::Failed { message, .. }) => bail!("the lab's agent could not do it: {message}"),
            Ok(other) => bail!("the lab's agent answered something else: {other:?}"),
            Err(error) => {
                let tails = tails(&mut self.console, &mut self.log);
                Err(error).with_context(|| format!("the lab ended before its command{tails}"))
            }
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.qemu.signal(Signal::KILL);
        let _ = self.qemu.wait();
    }
}

/// The disk that the lab may write. One that is there already keeps what it holds.
fn data_disk(materials: &Materials) -> Result<File> {
    let data = match &materials.disk {
        Some(path) => File::options()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(path)
            .with_context(|| format!("{} cannot be the lab's disk", path.display()))?,
        None => in_memory("lab-data")?,
    };
    data.set_len(DATA_BYTES)?;
    Ok(data)
}

fn in_memory(name: &str) -> Result<File> {
    let memory: OwnedFd = memfd_create(name, MemfdFlags::CLOEXEC)?;
    Ok(memory.into())
}

/// The ends of the console and of what QEMU said, to be shown below an error.
fn tails(console: &mut File, log: &mut File) -> String {
    let mut text = String::new();
    for (name, file) in [("QEMU said", log), ("its console ends with", console)] {
        let tail = tail(file).unwrap_or_default();
        if !tail.trim().is_empty() {
            text += &format!("\n  {name}:");
            tail.lines().for_each(|line| text += &format!("\n    {}", line.trim_end()));
        }
    }
    text
}

fn tail(file: &mut File) -> std::io::Result<String> {
    let length = file.metadata()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(SHOWN_BYTES)))?;
    let mut bytes = Vec::new();
    file.take(SHOWN_BYTES).read_to_end(&mut bytes)?;
    let text = String::from_utf8_lossy(&bytes);
    Ok(text.chars().filter(|c| *c == '\n' || !c.is_control()).collect())
}
