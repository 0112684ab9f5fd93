//! Carriers: commands that give a shell on a host, to which a script is sent and whose answer is read.
//!
//! An answer is whole when its end was read: a carrier may be cut, may end well without having sent all, and may not end at all when
//! the other side is gone (`srun` when its step daemon is killed). So the end of the stream decides nothing, and silence has a limit.

use std::{
    fs::File,
    io::{self, BufRead, BufReader, Read, Seek, SeekFrom, Write},
    sync::mpsc::{Receiver, RecvTimeoutError, sync_channel},
    thread,
    time::{Duration, Instant},
};
use tilemark_site::{
    Host, Site, SiteEngine, Slurm,
    carrier::{Carrier, CarrierEnd, NodePart, NotStarted, Streams, exec_words, srun_words, ssh_words},
    left_job::end_left_job,
    partition::longest_job,
};
use tilemark_units::{Sha256Hash, printable_line};

const HOST_SCRIPT: &str = include_str!("host.sh");
/// What a login may print before an answer.
const NOISE_BYTES_MAX: usize = 256 << 10;
/// The longest line of an answer.
const LINE_BYTES_MAX: u64 = 4096;
/// The largest answer: that of a record with every second of a thousand guests is below a tenth of it.
const ANSWER_BYTES_MAX: u64 = 8 << 30;
/// The largest answer without an archive: a plan of a thousand guests is below it.
const SHORT_ANSWER_BYTES_MAX: u64 = 64 << 20;
/// How often ssh asks whether a host is there.
const SSH_ALIVE_EVERY: Duration = Duration::from_secs(5);
/// A carrier whose answer was read ends by itself, or is ended.
const ENDS_WITHIN: Duration = Duration::from_secs(5);
/// The host's own: it is not root and cannot be.
const NO_SUDO: i32 = 77;
/// The host's own: it has other work under the id of this fleet run.
const TAKEN: i32 = 78;
/// While a host waits or ends its work, it gives a sign of life every 2 s.
pub(crate) const SILENT_AT_MOST: Duration = Duration::from_secs(15);

/// What is asked of a host.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Question<'a> {
    /// The function of host.sh without its `do_`.
    pub(crate) verb: &'static str,
    /// The fleet run.
    pub(crate) fleet: &'a str,
    /// How many seconds the host may wait before it answers.
    pub(crate) seconds: u64,
    /// Which attempt.
    pub(crate) attempt: u32,
    /// The job, where it is submitted or planned.
    pub(crate) job: &'a str,
    /// How long the whole may take.
    pub(crate) within: Duration,
}

/// A host that could not be asked.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum CarrierError {
    /// The carrier is not on this machine.
    #[error("`{0}` does not start on this machine: {1}")]
    NoProgram(String, String),
    /// This machine cannot start it at this moment.
    #[error("`{0}` does not start: this machine is short of open files, processes or memory: {1}")]
    Short(String, String),
    /// Nothing answers there.
    #[error("it cannot be reached: {0}")]
    Unreachable(String),
    /// Slurm does not know what was named, or does not take a job of this user's there.
    #[error("Slurm refuses the question: {0}")]
    NotTaken(String),
    /// Slurm gives its node to nobody at this moment.
    #[error("its node is not free for a question: {0}")]
    Occupied(String),
    /// Its key is unknown or another one.
    #[error("its key is not the one that is known: {0}")]
    WrongKey(String),
    /// It does not let us in.
    #[error("it refuses the login: {0}")]
    Refused(String),
    /// It lets us in, and not as root.
    #[error("the work needs root there, and `sudo -n` asks for a password")]
    NoSudo,
    /// The answer ended before its end.
    #[error("its answer was cut: {0}")]
    Cut(String),
    /// It did not answer in time.
    #[error("it did not answer within {0} s")]
    TimedOut(u64),
    /// It began to answer, and then nothing more came.
    #[error("it began to answer, and then sent nothing for {0} s")]
    Silent(u64),
    /// Another submitter has a fleet run of this id there.
    #[error("it has other work under the id of this fleet run, of another submitter")]
    Taken,
    /// What it sent is no answer of ours.
    #[error("its answer is not understood: {0}")]
    Odd(String),
    /// It answered that it could not do it.
    #[error("it could not do it: {0}")]
    Failed(String),
    /// It has no room for it.
    #[error("its disk is full: {0}")]
    Full(String),
    /// This machine has no room for the answer.
    #[error("the answer cannot be kept on this machine: {0}")]
    Local(String),
}

impl From<NotStarted> for CarrierError {
    fn from(NotStarted { program, why, is_short }: NotStarted) -> Self {
        if is_short { Self::Short(program, why) } else { Self::NoProgram(program, why) }
    }
}

impl CarrierError {
    /// What to do about it.
    pub(crate) fn remedy(&self, site: &Site, host: &Host) -> String {
        match self {
            Self::NoProgram(program, _) => {
                format!("install `{program}` on this machine, or choose another engine in the site file")
            }
            Self::Short(..) => {
                "raise its limits (`ulimit -n`, `ulimit -u`), or use fewer hosts at the same time with --at-once"
                    .to_owned()
            }
            Self::Unreachable(_) => match &site.engine {
                SiteEngine::Ssh | SiteEngine::Slurm(Slurm { over_ssh: true, .. }) => {
                    format!("see that {} is up, and that `ssh {}` reaches it", host.name, host.address)
                }
                SiteEngine::Slurm { .. } => {
                    format!("see that `scontrol ping` and `sinfo --Node --nodes={}` answer", host.name)
                }
                SiteEngine::Exec { command } => {
                    let program = command.first().map(String::as_str).unwrap_or_default();
                    format!("see that {} is up, and that `{program}` reaches it", host.name)
                }
            },
            Self::NotTaken(_) => {
                "compare `partition` and the names in the site file with `sinfo --Node`, and your account with `sacctmgr show association user=$USER`"
                    .to_owned()
            }
            Self::Occupied(_) => format!(
                "see `sinfo --Node --nodes={}`: where another job has it, wait, or write carrier = \"ssh\" in the site file",
                host.name
            ),
            Self::WrongKey(_) => format!(
                "compare its key with the one on the host, then `ssh-keygen -R {0}` and `ssh {0}` once",
                host.address
            ),
            Self::Refused(_) => format!(
                "give this user's key to {} (ssh-copy-id), or set `user` in the site file",
                host.address
            ),
            Self::NoSudo => {
                let otherwise = match &site.engine {
                    SiteEngine::Slurm(_) => "give this command as root",
                    SiteEngine::Ssh | SiteEngine::Exec { .. } => "set user = \"root\" in the site file",
                };
                format!("let this user on {} run sudo without a password, or {otherwise}", host.name)
            }
            Self::Cut(_) | Self::TimedOut(_) | Self::Silent(_) => format!(
                "see whether {} is up and idle enough to answer, then give the command again",
                host.name
            ),
            Self::Taken => "start another fleet run: it has another id".to_owned(),
            Self::Odd(_) => {
                format!("see what a login on {} prints, and that its shell is a POSIX shell", host.name)
            }
            Self::Failed(_) => format!("look at it on {}", host.name),
            Self::Full(_) => {
                format!(
                    "free some space on {} (`tilemark fleet clean` removes what is collected), then give the command again",
                    host.name
                )
            }
            Self::Local(_) => {
                "free some space on this machine's disk, or raise its limit of open files (`ulimit -n`)".to_owned()
            }
        }
    }

    /// Whether the host may answer when it is asked a little later.
    pub(crate) fn may_pass(&self) -> bool {
        matches!(
            self,
            Self::Short(..)
                | Self::Unreachable(_)
                | Self::Occupied(_)
                | Self::Cut(_)
                | Self::TimedOut(_)
                | Self::Silent(_)
                | Self::Failed(_)
        )
    }
}

/// What a host answered: lines, and files between them.
#[derive(Debug, Default)]
pub(crate) struct Answer {
    /// Lines that are no file.
    pub(crate) lines: Vec<String>,
    /// Files by their names; length and hash of each are as they were sent.
    pub(crate) parts: Vec<(String, File)>,
}

impl Answer {
    /// A file's text. Files of a short answer are not cut.
    pub(crate) fn text(&mut self, name: &str) -> Option<String> {
        let (_, file) = self.parts.iter_mut().find(|(of, _)| of == name)?;
        let mut bytes = Vec::new();
        file.seek(SeekFrom::Start(0))
            .and_then(|_| file.take(SHORT_ANSWER_BYTES_MAX).read_to_end(&mut bytes))
            .ok()?;
        Some(String::from_utf8_lossy(&bytes).into_owned())
    }

    /// What follows a word at the beginning of a line.
    pub(crate) fn value(&self, key: &str) -> Option<&str> {
        self.lines.iter().find_map(|line| line.strip_prefix(key)?.strip_prefix(' '))
    }
}

/// Text as one word of a shell.
pub(crate) fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}

/// The command that gives a shell on a host. `longest`: more than that no job may take, where there is a limit.
fn words(site: &Site, host: &Host, question: Question<'_>, longest: Option<Duration>) -> Vec<String> {
    match &site.engine {
        SiteEngine::Slurm(slurm @ Slurm { over_ssh: false, .. }) => {
            let wanted = question.within.as_secs().div_ceil(60) + 1;
            let minutes = longest.map_or(wanted, |longest| wanted.min(longest.as_secs() / 60).max(1));
            srun_words(&host.name, slurm.flags(), &question_name(host, question), minutes, NodePart::Task)
        }
        SiteEngine::Ssh | SiteEngine::Slurm(Slurm { over_ssh: true, .. }) => {
            ssh_words(&host.address, host.user.as_deref(), SSH_ALIVE_EVERY)
        }
        SiteEngine::Exec { command } => exec_words(command, &host.name, &host.address, host.user.as_deref()),
    }
}

/// How long a question may take at most, where it is a job of a partition with a limit, or jobs have one in the site file.
fn longest_question(site: &Site) -> Option<Duration> {
    match &site.engine {
        SiteEngine::Slurm(Slurm { partition, time_s, over_ssh: false, .. }) => {
            let limits = [longest_job(partition.as_deref()), time_s.map(Duration::from_secs)];
            limits.into_iter().flatten().min()
        }
        SiteEngine::Slurm(Slurm { over_ssh: true, .. }) | SiteEngine::Ssh | SiteEngine::Exec { .. } => None,
    }
}

/// What Slurm calls a question. Several commands may ask for a status at once, and each ends only its own.
fn question_name(host: &Host, question: Question<'_>) -> String {
    let Question { verb, fleet, .. } = question;
    let name = |kind: &str| format!("tilemark-{kind}-{fleet}-{}", host.name);
    match verb {
        STATUS => format!("{}-{}", name(STATUS), std::process::id()),
        CANCEL => name(CANCEL),
        _ => name("question"),
    }
}

/// Asked by commands that hold no lock of the fleet run, while another one may ask.
pub(crate) const STATUS: &str = "status";
pub(crate) const CANCEL: &str = "cancel";
/// Answered with the archive of an attempt.
pub(crate) const FETCH: &str = "fetch";
/// Answered when the work is over, or its time is.
pub(crate) const WAIT: &str = "wait";

/// The script with its variables, to be run by root.
fn script(site: &Site, host: &Host, question: Question<'_>, nonce: &str) -> String {
    let mut body = String::new();
    for (name, value) in [
        ("verb", question.verb),
        ("nonce", nonce),
        ("fleet", question.fleet),
        ("name", &host.name),
        ("program", &site.program),
        ("seconds", &question.seconds.to_string()),
        ("attempt", &question.attempt.to_string()),
        ("job", question.job),
    ] {
        body += &format!("{name}={}\n", quoted(value));
    }
    as_root(&(body + HOST_SCRIPT), "", "")
}

/// A script that runs another as root, or as the user where it cannot. `kept` are flags of sudo; `before` are words before its shell where
/// it needs no sudo.
pub(crate) fn as_root(body: &str, kept: &str, before: &str) -> String {
    format!(
        "body={}\nif [ \"$(id -u)\" != 0 ] && sudo -n true 2>/dev/null; then exec sudo -n {kept} sh -c \"$body\" </dev/null; fi\nexec {before} sh -c \"$body\" </dev/null\n",
        quoted(body)
    )
}

/// Asks a host.
pub(crate) fn ask(site: &Site, host: &Host, question: Question<'_>) -> Result<Answer, CarrierError> {
    let nonce = nonce();
    let over_srun = matches!(site.engine, SiteEngine::Slurm(Slurm { over_ssh: false, .. }));
    if over_srun && question.verb != STATUS {
        // That of a command that was killed with its srun would keep the host from us.
        end_left_job(&question_name(host, question));
    }
    let longest = longest_question(site);
    let within = longest.map_or(question.within, |longest| longest.min(question.within));
    let question = Question { within, ..question };
    let end = match &site.engine {
        SiteEngine::Exec { command } => CarrierEnd::of_command(command),
        _ if over_srun => CarrierEnd::NewJobInOrder,
        _ => CarrierEnd::AtOnce,
    };
    let (carrier, streams) = Carrier::start(&words(site, host, question, longest), end, None)?;
    let Streams { mut stdin, mut stdout, messages } = streams;
    let script = script(site, host, question, &nonce);
    // None of the threads is waited for: something that left the carrier's session may still hold a stream open.
    thread::spawn(move || stdin.write_all(script.as_bytes()));
    let (sender, pieces) = sync_channel::<Vec<u8>>(16);
    thread::spawn(move || {
        let mut buffer = vec![0; 64 << 10];
        while let Ok(length @ 1..) = stdout.read(&mut buffer) {
            if sender.send(buffer[..length].to_vec()).is_err() {
                break;
            }
        }
    });
    let limits = Limits {
        bytes: if question.verb == FETCH { ANSWER_BYTES_MAX } else { SHORT_ANSWER_BYTES_MAX },
        within: question.within,
        silent_at_most: [WAIT, CANCEL].contains(&question.verb).then_some(SILENT_AT_MOST),
    };
    let read = read_answer(pieces, &nonce, limits);
    carrier.reap(if read.is_ok() { ENDS_WITHIN } else { Duration::ZERO });
    if over_srun && read.is_err() {
        // An srun that was killed leaves its job, which keeps the host until its time is over.
        end_left_job(&question_name(host, question));
    }
    let messages = messages.last(Duration::from_secs(1));
    match read {
        Ok((answer, 0)) => Ok(answer),
        Ok((_, NO_SUDO)) => Err(CarrierError::NoSudo),
        Ok((_, TAKEN)) => Err(CarrierError::Taken),
        Ok((_, _))
            if messages.contains("No space left on device") || messages.contains("Disk quota exceeded") =>
        {
            Err(CarrierError::Full(messages))
        }
        Ok((_, code)) => Err(CarrierError::Failed(format!("exit code {code}: {messages}"))),
        Err(CarrierError::Cut(how)) => Err(refused(&messages, &how)),
        Err(other) => Err(other),
    }
}

/// What Slurm refuses for as long as nobody changes the site file or Slurm's own settings (`slurm_errno.c` of Slurm 22.05).
const NOT_TAKEN: [&str; 10] = [
    "Invalid partition name",
    "Invalid node name",
    "Invalid account",
    "Invalid qos",
    "time limit is invalid",
    "not in this partition",
    "Requested node configuration is not available",
    "not permitted to use this partition",
    "Access/permission denied",
    "Job violates accounting/QOS policy",
];
/// What passes when another job ends, or when the node is back.
const OCCUPIED: [&str; 4] = [
    "Requested nodes are busy",
    "Immediate execution impossible",
    "Required node not available",
    "Requested partition configuration not available now",
];

/// Why a carrier gave no whole answer, by its own messages: those of OpenSSH 9, and of Slurm 22.05.
fn refused(messages: &str, how: &str) -> CarrierError {
    let has = |words: &[&str]| words.iter().any(|word| messages.contains(word));
    let messages = if messages.is_empty() { how.to_owned() } else { messages.to_owned() };
    if has(&["Host key verification failed", "HOST IDENTIFICATION HAS CHANGED"]) {
        CarrierError::WrongKey(messages)
    } else if has(&["Permission denied", "Too many authentication failures"]) {
        CarrierError::Refused(messages)
    } else if has(&NOT_TAKEN) {
        CarrierError::NotTaken(messages)
    } else if has(&OCCUPIED) {
        CarrierError::Occupied(messages)
    } else if has(&[
        "Connection refused",
        "timed out",
        "No route to host",
        "Could not resolve",
        "Unable to allocate resources",
        "Network is unreachable",
        "Connection reset",
        "Connection closed",
    ]) {
        CarrierError::Unreachable(messages)
    } else {
        CarrierError::Cut(messages)
    }
}

fn nonce() -> String {
    format!("{:032x}", u128::from_ne_bytes(random_bytes()))
}

/// Random bytes of the kernel.
pub(crate) fn random_bytes<const COUNT: usize>() -> [u8; COUNT] {
    let mut bytes = [0; COUNT];
    rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty())
        .expect("the kernel gives random bytes");
    bytes
}

/// How long an answer may take.
#[derive(Debug, Clone, Copy)]
struct Limits {
    /// All bytes of it.
    bytes: u64,
    /// The whole.
    within: Duration,
    /// Between two pieces of it, where the host gives signs of life. A login, or a queue before it, may take longer.
    silent_at_most: Option<Duration>,
}

/// The carrier's output as it comes, with limits of time.
struct Incoming {
    pieces: Receiver<Vec<u8>>,
    piece: io::Cursor<Vec<u8>>,
    began: Instant,
    limits: Limits,
    total: u64,
    given_up: Option<CarrierError>,
}

impl Incoming {
    /// The next limit, and what it means.
    fn limit(&self) -> (Duration, CarrierError) {
        let Limits { within, silent_at_most, bytes: _ } = self.limits;
        let left = within.saturating_sub(self.began.elapsed());
        match silent_at_most.filter(|silent| self.total > 0 && *silent < left) {
            Some(silent) => (silent, CarrierError::Silent(silent.as_secs())),
            None => (left, CarrierError::TimedOut(within.as_secs())),
        }
    }
}

impl Read for Incoming {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            let length = self.piece.read(buffer)?;
            if length > 0 {
                return Ok(length);
            }
            let (left, why) = self.limit();
            match self.pieces.recv_timeout(left) {
                Ok(piece) => {
                    self.total += piece.len() as u64;
                    if self.total > self.limits.bytes {
                        let what = format!("it has more than {} bytes", self.limits.bytes);
                        self.given_up = Some(CarrierError::Odd(what));
                        return Ok(0);
                    }
                    self.piece = io::Cursor::new(piece);
                }
                Err(RecvTimeoutError::Disconnected) => return Ok(0),
                Err(RecvTimeoutError::Timeout) => {
                    self.given_up = Some(why);
                    return Ok(0);
                }
            }
        }
    }
}

/// Reads up to the end mark; the exit code in it.
fn read_answer(
    pieces: Receiver<Vec<u8>>,
    nonce: &str,
    limits: Limits,
) -> Result<(Answer, i32), CarrierError> {
    let incoming = Incoming {
        pieces,
        piece: io::Cursor::default(),
        began: Instant::now(),
        limits,
        total: 0,
        given_up: None,
    };
    let mut from = BufReader::new(incoming);
    let outcome = parse(&mut from, nonce);
    match from.get_mut().given_up.take() {
        Some(why) if outcome.is_err() => Err(why),
        _ => outcome,
    }
}

/// Reads the bytes of a host's answer up to its end mark, without a carrier: its lines and how many files it brought.
///
/// # Errors
/// In words, when it is cut, damaged or too long.
pub fn read_host_answer(mut bytes: &[u8], nonce: &str) -> Result<(Vec<String>, usize), String> {
    let (answer, _) = parse(&mut bytes, nonce).map_err(|error| error.to_string())?;
    Ok((answer.lines, answer.parts.len()))
}

fn parse(from: &mut impl BufRead, nonce: &str) -> Result<(Answer, i32), CarrierError> {
    let (begin, end) = (format!("tilemark-fleet begin {nonce}"), format!("tilemark-fleet end {nonce} "));
    let mut noise = 0;
    loop {
        let line = line(from)?;
        if line == begin {
            break;
        }
        noise += line.len() + 1;
        if noise > NOISE_BYTES_MAX {
            return Err(CarrierError::Odd(format!("more than {NOISE_BYTES_MAX} bytes come before it")));
        }
    }
    let mut answer = Answer::default();
    loop {
        let line = line(from)?;
        if let Some(code) = line.strip_prefix(&end) {
            let code = code.parse().map_err(|_| CarrierError::Odd(printable_line(&line).into_owned()))?;
            return Ok((answer, code));
        }
        match line.split(' ').collect::<Vec<_>>().as_slice() {
            ["part", name, length, hash] => {
                let file = part(from, length, hash)?;
                answer.parts.push(((*name).to_owned(), file));
            }
            [""] => {}
            _ => answer.lines.push(line),
        }
        if answer.lines.len() > 10_000 || answer.parts.len() > 100 {
            return Err(CarrierError::Odd("it has too many lines".to_owned()));
        }
    }
}

fn line(from: &mut impl BufRead) -> Result<String, CarrierError> {
    let mut bytes = Vec::new();
    from.take(LINE_BYTES_MAX)
        .read_until(b'\n', &mut bytes)
        .map_err(|error| CarrierError::Odd(error.to_string()))?;
    match bytes.pop() {
        Some(b'\n') => Ok(String::from_utf8_lossy(&bytes).into_owned()),
        Some(_) if bytes.len() as u64 + 1 >= LINE_BYTES_MAX => {
            Err(CarrierError::Odd("a line is too long".to_owned()))
        }
        _ => Err(CarrierError::Cut("the stream ended before the answer did".to_owned())),
    }
}

/// One file: exactly as many bytes as were announced, with that hash.
fn part(from: &mut impl BufRead, length: &str, hash: &str) -> Result<File, CarrierError> {
    let length: u64 = length.parse().map_err(|_| CarrierError::Odd(format!("a length of {length:?}")))?;
    if length > ANSWER_BYTES_MAX {
        return Err(CarrierError::Odd(format!("a file of {length} bytes")));
    }
    let local = |error: io::Error| CarrierError::Local(error.to_string());
    let mut file = tempfile::tempfile().map_err(local)?;
    let copied = io::copy(&mut from.take(length), &mut file).map_err(local)?;
    if copied < length {
        return Err(CarrierError::Cut(format!("{copied} of {length} bytes of a file came")));
    }
    file.seek(SeekFrom::Start(0)).map_err(local)?;
    let found = Sha256Hash::of_reader(&mut file).map_err(local)?.to_string();
    if found != hash {
        return Err(CarrierError::Odd(format!(
            "a file of {length} bytes has another SHA-256 than it was sent with"
        )));
    }
    file.seek(SeekFrom::Start(0)).map_err(local)?;
    Ok(file)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn answer() -> Vec<u8> {
        let hash = Sha256Hash::of(b"a\nb");
        format!(
            "Welcome!\n\ntilemark-fleet begin 7\nversion 1\npart p 3 {hash}\na\nb\n\ntilemark-fleet end 7 0\n"
        )
        .into_bytes()
    }

    #[test]
    fn an_answer_is_read_past_what_a_login_prints() {
        let (mut read, code) = parse(&mut answer().as_slice(), "7").unwrap();
        assert_eq!((read.value("version"), code), (Some("1"), 0));
        assert_eq!(read.text("p").as_deref(), Some("a\nb"));
    }

    #[test]
    fn an_answer_that_is_cut_anywhere_is_no_answer() {
        let whole = answer();
        for length in 0..whole.len() {
            let error = parse(&mut &whole[..length], "7").unwrap_err();
            assert!(matches!(error, CarrierError::Cut(_)), "{length}: {error:?}");
        }
    }

    #[test]
    fn a_changed_byte_of_a_file_is_seen() {
        let mut bytes = answer();
        let at = bytes.windows(3).position(|three| three == b"a\nb").unwrap();
        bytes[at] = b'x';
        assert!(matches!(parse(&mut bytes.as_slice(), "7"), Err(CarrierError::Odd(_))));
    }

    #[test]
    fn endless_noise_and_lines_are_refused() {
        for byte in [b'\n', b'x'] {
            let mut noise = BufReader::new(io::repeat(byte));
            assert!(matches!(parse(&mut noise, "7"), Err(CarrierError::Odd(_))));
        }
    }

    #[test]
    fn a_carrier_s_own_words_say_what_is_wrong() {
        for (words, wanted) in [
            ("Host key verification failed.", "its key is not"),
            ("root@n1: Permission denied (publickey).", "refuses the login"),
            ("ssh: connect to host n1 port 22: Connection refused", "cannot be reached"),
            (
                "srun: error: Unable to allocate resources: Requested nodes are busy",
                "not free for a question",
            ),
            ("srun: error: Immediate execution impossible, insufficient priority", "not free for a question"),
            (
                "srun: error: Unable to allocate resources: Invalid partition name specified",
                "refuses the question",
            ),
            (
                "srun: error: Unable to allocate resources: Unable to contact slurm controller (connect failure)",
                "cannot be reached",
            ),
            ("", "was cut"),
        ] {
            assert!(refused(words, "end").to_string().contains(wanted), "{words}");
        }
    }

    #[test]
    fn a_carrier_that_begins_and_falls_silent_is_given_up_long_before_the_whole_time() {
        let (sender, pieces) = sync_channel(4);
        sender.send(b"tilemark-fleet begin 7\n\n".to_vec()).unwrap();
        let mut limits = Limits {
            bytes: 1 << 20,
            within: Duration::from_secs(600),
            silent_at_most: Some(Duration::from_millis(1)),
        };
        let error = read_answer(pieces, "7", limits).unwrap_err();
        assert_eq!(error, CarrierError::Silent(0));
        assert!(error.may_pass());
        // Before anything came, only the whole time counts: it may still wait for its turn in a queue.
        let (sender_of_none, pieces) = sync_channel(4);
        limits.within = Duration::from_millis(2);
        assert_eq!(read_answer(pieces, "7", limits).unwrap_err(), CarrierError::TimedOut(0));
        drop((sender, sender_of_none));
    }

    #[test]
    fn an_answer_that_is_longer_than_its_question_needs_is_given_up() {
        let (sender, pieces) = sync_channel(4);
        sender.send(answer()).unwrap();
        let bytes = answer().len() as u64;
        let limits = |bytes| Limits { bytes, within: Duration::from_secs(600), silent_at_most: None };
        assert!(read_answer(pieces, "7", limits(bytes)).is_ok());
        let (sender, pieces) = sync_channel(4);
        sender.send(answer()).unwrap();
        let error = read_answer(pieces, "7", limits(bytes - 1)).unwrap_err();
        assert!(error.to_string().contains(&format!("it has more than {} bytes", bytes - 1)), "{error}");
    }

    fn exec(words: &[&str]) -> (Site, Host) {
        let engine = SiteEngine::Exec { command: words.iter().map(|&word| word.to_owned()).collect() };
        let host = Host { name: "n'1".into(), address: "a".into(), user: None, groups: vec![] };
        (
            Site {
                engine,
                program: "tilemark".into(),
                lost_after_s: 1,
                hosts: vec![host.clone()],
                clients: vec![],
                network: None,
            },
            host,
        )
    }

    fn question(verb: &'static str, within: u64) -> Question<'static> {
        Question { verb, fleet: "f", seconds: 0, attempt: 0, job: "", within: Duration::from_secs(within) }
    }

    #[test]
    fn a_machine_that_is_short_of_files_is_no_missing_program() {
        let not_started = |is_short| NotStarted { program: "env".into(), why: "why".into(), is_short };
        let short = CarrierError::from(not_started(true));
        let (site, host) = exec(&["env"]);
        assert!(short.may_pass() && short.remedy(&site, &host).contains("ulimit -n"), "{short}");
        assert!(short.to_string().contains("short of open files"), "{short}");
        assert!(CarrierError::from(not_started(false)).remedy(&site, &host).contains("install `env`"));
    }

    #[test]
    fn a_carrier_that_is_silent_or_missing_is_named() {
        let (site, host) = exec(&["sh", "-c", "exec sleep 1000 # {host}"]);
        assert_eq!(ask(&site, &host, question("state", 0)).unwrap_err(), CarrierError::TimedOut(0));
        let (site, host) = exec(&["tilemark-no-such-program"]);
        assert!(matches!(ask(&site, &host, question("state", 9)), Err(CarrierError::NoProgram(..))));
        let (site, host) = exec(&["sh", "-c", "cat >/dev/null"]);
        assert!(matches!(ask(&site, &host, question("state", 60)), Err(CarrierError::Cut(_))));
    }
}
