//! Carriers: commands that give a POSIX shell on another machine. Their words, their start and their end, for hosts of a fleet and for
//! client machines alike.

use rustix::{
    io::Errno,
    pipe::{PipeFlags, pipe_with},
    process::{Pid, Signal, kill_process_group},
};
use std::{
    error::Error,
    ffi::{OsStr, OsString},
    fs::File,
    io::{self, Read},
    path::Path,
    sync::{Arc, Condvar, Mutex, PoisonError},
    thread,
    time::Duration,
};
use tilemark_sys::passwords::PASSWORDS;
use tilemark_sys::process::{Child, Ended, HasEnded, Spawn, on_path};
use tilemark_units::printable_line;

/// What is kept of a carrier's messages, in bytes.
const MESSAGE_BYTES_KEPT: usize = 4096;
/// How many of their lines are shown.
const MESSAGE_LINES_SHOWN: usize = 4;
/// `srun` that is asked to end has ended its job after so long.
const ENDS_IN_ORDER_WITHIN: Duration = Duration::from_secs(5);
/// A connection of ssh's from which nothing came is over after so many questions.
const SSH_QUESTIONS: u32 = 3;

/// The words of `ssh` that gives a shell. It never asks for a password, and gives a silent connection up after three times `alive_every`.
pub fn ssh_words(address: &str, user: Option<&str>, alive_every: Duration) -> Vec<String> {
    let mut words = vec!["ssh".to_owned(), "-T".to_owned()];
    let alive = [
        format!("ServerAliveInterval={}", alive_every.as_secs().max(1)),
        format!("ServerAliveCountMax={SSH_QUESTIONS}"),
    ];
    for option in ["BatchMode=yes", "ConnectTimeout=10"].map(str::to_owned).into_iter().chain(alive) {
        words.extend(["-o".to_owned(), option]);
    }
    words.extend(user.iter().flat_map(|user| ["-l".to_owned(), (*user).to_owned()]));
    words.extend(["--".to_owned(), address.to_owned(), "sh".to_owned()]);
    words
}

/// What a job of Slurm's has of its node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NodePart {
    /// One processor, as Slurm gives it to one task: enough to ask something.
    Task,
    /// All processors and all memory, and no other job beside it: a load needs them.
    Whole,
}

/// The words of `srun` that gives a shell on one host, as a job that Slurm ends after so many minutes: with a killed `srun` nobody else
/// would. `flags` say which partition has it, and who pays.
pub fn srun_words(
    host: &str,
    flags: Vec<String>,
    job_name: &str,
    minutes: u64,
    part: NodePart,
) -> Vec<String> {
    // Without `--unbuffered` what is sent waits for a line's end that may never come.
    let words = ["srun", "--unbuffered", "--quiet", "--nodes=1", "--ntasks=1", "--immediate=60", "--chdir=/"];
    let mut words: Vec<String> = words.map(str::to_owned).into();
    words.push(format!("--time={minutes}"));
    words.push(format!("--job-name={job_name}"));
    words.push(format!("--nodelist={host}"));
    words.extend(flags);
    if part == NodePart::Whole {
        words.extend(["--exclusive", "--mem=0"].map(str::to_owned));
    }
    // It brings the environment of this machine along, whose places are none of the host.
    words.extend(["env", "-u", "TILEMARK_HOME", "-u", "TMPDIR", "sh"].map(str::to_owned));
    words
}

/// Whether a word is the program `srun`.
pub fn is_srun(word: &str) -> bool {
    Path::new(word).file_name().is_some_and(|name| name == "srun")
}

/// The words of the user's own command, with `{host}`, `{address}` and `{user}` replaced.
pub fn exec_words(command: &[String], host: &str, address: &str, user: Option<&str>) -> Vec<String> {
    let user = user.unwrap_or_default();
    let filled =
        |word: &String| word.replace("{host}", host).replace("{address}", address).replace("{user}", user);
    command.iter().map(filled).collect()
}

/// A carrier that cannot be started.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{program}` does not start on this machine: {why}")]
pub struct NotStarted {
    /// Its first word.
    pub program: String,
    /// Why, in words.
    pub why: String,
    /// Whether this machine is short of open files, processes or memory, so that it may start a little later.
    pub is_short: bool,
}

/// What the system answers to a process that may start a little later (errno-base.h of Linux).
const SHORT: [Errno; 4] = [Errno::MFILE, Errno::NFILE, Errno::AGAIN, Errno::NOMEM];

fn with_causes<'e>(error: &'e (dyn Error + 'static)) -> impl Iterator<Item = &'e (dyn Error + 'static)> {
    std::iter::successors(Some(error), |&error| error.source())
}

/// Whether an error, or what caused it, is that this machine is short of something.
fn is_short(error: &(dyn Error + 'static)) -> bool {
    let mut numbers =
        with_causes(error).filter_map(|error| error.downcast_ref::<io::Error>()?.raw_os_error());
    numbers.any(|number| SHORT.iter().any(|short| short.raw_os_error() == number))
}

/// How a carrier is ended that does not end by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CarrierEnd {
    /// At once, with all that it started.
    AtOnce,
    /// By SIGTERM first: it ends in order what it started elsewhere, as `srun` does its job.
    InOrder,
    /// The same, and its job is a new one, also where this process is in a job.
    NewJobInOrder,
}

impl CarrierEnd {
    /// That of the user's own command. An `srun` that is killed leaves its job, and the job keeps its node.
    pub fn of_command(words: &[String]) -> Self {
        if words.iter().any(|word| is_srun(word)) { Self::InOrder } else { Self::AtOnce }
    }

    const fn signal(self) -> Signal {
        match self {
            Self::AtOnce => Signal::KILL,
            Self::InOrder | Self::NewJobInOrder => Signal::TERM,
        }
    }
}

/// A carrier that was started. It ends with the thread that started it, however that ends.
#[derive(Debug)]
pub struct Carrier {
    child: Child,
    end: CarrierEnd,
    /// Whether it was waited for: its number may be another's then.
    is_reaped: Mutex<bool>,
}

/// Our ends of a carrier's streams.
#[derive(Debug)]
pub struct Streams {
    /// What is sent to the shell.
    pub stdin: File,
    /// What the shell answers.
    pub stdout: File,
    /// What the carrier itself says.
    pub messages: Messages,
}

impl Carrier {
    /// Starts a carrier in a session of its own. With `temporary` that is its `TMPDIR`.
    ///
    /// # Errors
    /// When its program is missing, or the system starts no process.
    pub fn start(
        words: &[String],
        end: CarrierEnd,
        temporary: Option<&Path>,
    ) -> Result<(Self, Streams), NotStarted> {
        let name = words.first().cloned().unwrap_or_default();
        let not_started = |why: String, is_short| NotStarted { program: name.clone(), why, is_short };
        let failed = |error: &(dyn Error + 'static)| {
            let words: Vec<String> = with_causes(error).map(ToString::to_string).collect();
            not_started(words.join(": "), is_short(error))
        };
        let program = on_path(&name).ok_or_else(|| not_started("it is not on the PATH".to_owned(), false))?;
        let pipe = || pipe_with(PipeFlags::CLOEXEC).map_err(|error| failed(&io::Error::from(error)));
        let ((its_in, stdin), (stdout, its_out), (stderr, its_error)) = (pipe()?, pipe()?, pipe()?);
        let spawn = Spawn::path(&program)
            .and_then(|spawn| spawn.arguments(&words[1..]))
            .and_then(|spawn| spawn.environment(environment(std::env::vars_os(), end, temporary)))
            .map_err(|error| failed(&error))?;
        let child = spawn
            .hand(its_in, 0)
            .hand(its_out, 1)
            .hand(its_error, 2)
            .own_session()
            .dies_with_thread(end.signal())
            .start()
            .map_err(|error| failed(&error))?;
        let messages = Messages::of(stderr.into());
        let streams = Streams { stdin: stdin.into(), stdout: stdout.into(), messages };
        Ok((Self { child, end, is_reaped: Mutex::new(false) }, streams))
    }

    /// Waits for its end, at most so long; whether it ended.
    pub fn ends_within(&self, limit: Duration) -> bool {
        matches!(self.child.ends_within(limit), Ok(HasEnded::Yes))
    }

    /// Ends it with all that it started. One that ends in order has five seconds for it.
    pub fn end(&self) {
        let is_reaped = self.is_reaped.lock().unwrap_or_else(PoisonError::into_inner);
        if !*is_reaped {
            if self.end != CarrierEnd::AtOnce && !self.ends_within(Duration::ZERO) {
                self.signal_group(Signal::TERM);
                self.ends_within(ENDS_IN_ORDER_WITHIN);
            }
            self.signal_group(Signal::KILL);
        }
    }

    /// Waits for its end, at most so long, ends what is left, and says how it had ended if it did so by itself.
    pub fn reap(&self, limit: Duration) -> Option<Ended> {
        let by_itself = self.ends_within(limit);
        // Also what it started and left, which would hold its output open.
        self.end();
        let mut is_reaped = self.is_reaped.lock().unwrap_or_else(PoisonError::into_inner);
        *is_reaped = true;
        self.child.wait().ok().filter(|_| by_itself)
    }

    /// Its session is a process group, whose number is its own until it is waited for.
    fn signal_group(&self, signal: Signal) {
        if let Some(group) = i32::try_from(self.child.pid()).ok().and_then(Pid::from_raw) {
            let _ = kill_process_group(group, signal);
        }
    }
}

/// The last of what a carrier says on its standard error.
#[derive(Debug, Clone)]
pub struct Messages(Arc<(Mutex<Said>, Condvar)>);

#[derive(Debug, Default)]
struct Said {
    bytes: Vec<u8>,
    is_over: bool,
}

impl Messages {
    /// Not waited for: something that left the carrier's session may hold the stream open.
    fn of(mut stream: File) -> Self {
        let messages = Self(Arc::default());
        let said = Arc::clone(&messages.0);
        thread::spawn(move || {
            let (said, news) = &*said;
            let mut buffer = [0; 4096];
            while let Ok(length @ 1..) = stream.read(&mut buffer) {
                let bytes = &mut said.lock().unwrap_or_else(PoisonError::into_inner).bytes;
                bytes.extend_from_slice(&buffer[..length]);
                bytes.drain(..bytes.len().saturating_sub(MESSAGE_BYTES_KEPT));
            }
            said.lock().unwrap_or_else(PoisonError::into_inner).is_over = true;
            news.notify_all();
        });
        messages
    }

    /// Its last lines as one, once they are over; at the latest after so long.
    pub fn last(&self, limit: Duration) -> String {
        let (said, news) = &*self.0;
        let said = said.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = news.wait_timeout_while(said, limit, |said| !said.is_over);
        let (said, _) = waited.unwrap_or_else(PoisonError::into_inner);
        last_lines(&said.bytes)
    }
}

fn last_lines(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    // ssh frames what it says about a changed key with `@`.
    let is_said = |line: &&str| !line.is_empty() && !line.starts_with('@');
    let lines: Vec<&str> = text.lines().map(str::trim).filter(is_said).collect();
    printable_line(&lines[lines.len().saturating_sub(MESSAGE_LINES_SHOWN)..].join("; ")).into_owned()
}

/// The variables that show `srun` that it is in a job already. It would start a step of that job then, which has none of another host.
const OF_A_JOB: [&str; 2] = ["SLURM_JOB_ID", "SLURM_JOBID"];

/// Our environment without passwords, with another folder for temporary files where there is one, and outside of any job for what starts
/// one.
fn environment(
    ours: impl Iterator<Item = (OsString, OsString)>,
    end: CarrierEnd,
    temporary: Option<&Path>,
) -> Vec<OsString> {
    let variable = |name: &OsStr, value: &OsStr| {
        let mut text = name.to_owned();
        text.push("=");
        text.push(value);
        text
    };
    let is_kept = |name: &OsStr| {
        let of_a_job = end == CarrierEnd::NewJobInOrder && OF_A_JOB.iter().any(|of_a_job| name == *of_a_job);
        let is_secret = PASSWORDS.iter().any(|secret| name == *secret);
        !of_a_job && !is_secret && (temporary.is_none() || name != "TMPDIR")
    };
    let kept = ours.filter(|(name, _)| is_kept(name));
    let folder = temporary.map(|folder| variable("TMPDIR".as_ref(), folder.as_os_str()));
    kept.map(|(name, value)| variable(&name, &value)).chain(folder).collect()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use std::io::Write;

    fn start(words: &[&str], end: CarrierEnd) -> (Carrier, Streams) {
        let words: Vec<String> = words.iter().map(|&word| word.to_owned()).collect();
        Carrier::start(&words, end, None).unwrap()
    }

    #[test]
    fn a_machine_without_open_files_or_processes_is_short_of_them() {
        #[derive(Debug, thiserror::Error)]
        #[error("it was to be started")]
        struct Above(#[source] io::Error);
        for (number, wanted) in [(24, true), (23, true), (11, true), (12, true), (2, false), (13, false)] {
            assert_eq!(is_short(&Above(io::Error::from_raw_os_error(number))), wanted, "{number}");
        }
    }

    #[test]
    fn each_carrier_gives_a_shell() {
        let ssh = ssh_words("192.0.2.1", Some("me"), Duration::from_secs(3)).join(" ");
        assert!(ssh.contains("BatchMode=yes") && ssh.contains("ServerAliveInterval=3"), "{ssh}");
        assert!(ssh.ends_with("-l me -- 192.0.2.1 sh"), "{ssh}");
        let srun = srun_words("n1", vec!["--partition=p".into()], "job", 12, NodePart::Task).join(" ");
        assert!(srun.contains("--unbuffered") && srun.contains("--time=12"), "{srun}");
        assert!(
            srun.ends_with("--job-name=job --nodelist=n1 --partition=p env -u TILEMARK_HOME -u TMPDIR sh"),
            "{srun}"
        );
        let whole = srun_words("n1", Vec::new(), "job", 12, NodePart::Whole).join(" ");
        assert!(whole.contains(" --nodelist=n1 --exclusive --mem=0 env -u "), "{whole}");
        let command = ["a".to_owned(), "{user}@{address}-{host}".to_owned()];
        assert_eq!(exec_words(&command, "c1", "192.0.2.1", Some("me")), ["a", "me@192.0.2.1-c1"]);
    }

    #[test]
    fn no_carrier_gets_a_password_of_the_environment_or_the_number_of_a_job() {
        let ours =
            ["PATH", "TILEMARK_BROKER_PASSWORD", "TILEMARK_DATABASE_PASSWORD", "SLURM_JOB_ID", "TMPDIR"];
        let given = |end, temporary: Option<&str>| {
            let ours = ours.iter().map(|&name| (name.into(), "x".into()));
            let given = environment(ours, end, temporary.map(Path::new));
            given.into_iter().map(|variable| variable.into_string().unwrap()).collect::<Vec<String>>()
        };
        assert_eq!(given(CarrierEnd::NewJobInOrder, Some("/t")), ["PATH=x", "TMPDIR=/t"]);
        for end in [CarrierEnd::AtOnce, CarrierEnd::InOrder] {
            assert_eq!(given(end, None), ["PATH=x", "SLURM_JOB_ID=x", "TMPDIR=x"], "{end:?}");
        }
    }

    #[test]
    fn a_carrier_that_ends_in_order_gets_sigterm_and_the_others_none() {
        let folder = tempfile::tempdir().unwrap();
        let of = |words: &str| {
            CarrierEnd::of_command(&words.split(' ').map(str::to_owned).collect::<Vec<String>>())
        };
        assert_eq!(of("ssh n1 sh"), CarrierEnd::AtOnce);
        for (end, wanted) in [
            (CarrierEnd::NewJobInOrder, true),
            (of("sudo -u me /usr/bin/srun --unbuffered sh"), true),
            (CarrierEnd::AtOnce, false),
        ] {
            let mark = folder.path().join(format!("{end:?}"));
            let script = format!(
                "trap 'touch {}; exit 0' TERM; echo ready; while :; do sleep 0.05; done",
                mark.display()
            );
            let (carrier, mut streams) = start(&["sh", "-c", &script], end);
            let mut ready = [0; 6];
            streams.stdout.read_exact(&mut ready).unwrap();
            carrier.end();
            assert!(carrier.reap(Duration::from_secs(60)).is_some());
            assert_eq!(mark.exists(), wanted, "{end:?}");
        }
    }

    #[test]
    fn a_carrier_that_ends_in_order_gets_sigterm_when_its_thread_ends() {
        let folder = tempfile::tempdir().unwrap();
        let mark = folder.path().join("mark");
        let script =
            format!("trap 'touch {}; exit 0' TERM; echo ready; while :; do sleep 0.05; done", mark.display());
        let started = thread::spawn(move || {
            let (carrier, mut streams) = start(&["sh", "-c", &script], CarrierEnd::InOrder);
            let mut ready = [0; 6];
            streams.stdout.read_exact(&mut ready).unwrap();
            carrier
        });
        let carrier = started.join().unwrap();
        assert!(carrier.reap(Duration::from_secs(60)).is_some(), "it ended by itself");
        assert!(mark.exists(), "it was ended by another signal than SIGTERM");
    }

    #[test]
    fn what_a_carrier_left_ends_with_it_and_its_last_lines_are_known() {
        let script = "seq 10 >&2; echo @@@@ >&2; echo 'key \x1b[1m changed' >&2; sleep 1000 & echo $!";
        let (carrier, mut streams) = start(&["sh", "-c", script], CarrierEnd::AtOnce);
        let ended = carrier.reap(Duration::from_secs(60));
        assert!(matches!(ended, Some(Ended::Exited(0))), "{ended:?}");
        let said = streams.messages.last(Duration::from_secs(60));
        assert!(said.starts_with("8; 9; 10; key ") && !said.contains('\x1b'), "{said}");
        // Its output is closed, so nobody holds it any more.
        let mut rest = String::new();
        streams.stdout.read_to_string(&mut rest).unwrap();
        assert!(rest.trim().parse::<u32>().is_ok(), "{rest}");
        // An end that is asked for later meets nobody else's process.
        carrier.end();
    }

    #[test]
    fn a_folder_for_temporary_files_is_handed_on_and_a_missing_program_is_named() {
        let words = ["sh", "-c", "echo $TMPDIR; cat"].map(str::to_owned);
        let (carrier, mut streams) =
            Carrier::start(&words, CarrierEnd::AtOnce, Some(Path::new("/x"))).unwrap();
        streams.stdin.write_all(b"sent").unwrap();
        drop(streams.stdin);
        let mut answer = String::new();
        streams.stdout.read_to_string(&mut answer).unwrap();
        assert_eq!(answer, "/x\nsent");
        carrier.reap(Duration::from_secs(60));
        let missing = Carrier::start(&["tilemark-no-such-program".to_owned()], CarrierEnd::AtOnce, None);
        let missing = missing.unwrap_err();
        assert!(!missing.is_short);
        let why = missing.to_string();
        assert_eq!(why, "`tilemark-no-such-program` does not start on this machine: it is not on the PATH");
    }
}
