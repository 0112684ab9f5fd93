//! The stream of one client: its carrier, the agent behind it, and signs of life both ways.
//!
//! The end of the stream decides nothing by itself: over some carriers it is never seen. Who is silent for 5 s is lost.

use super::bring;
use std::{
    fs::File,
    io::{self, BufReader, Read, Write},
    os::fd::AsFd,
    path::PathBuf,
    sync::{
        Arc, Mutex, OnceLock, PoisonError,
        atomic::{AtomicU64, Ordering},
        mpsc::{self, Receiver, RecvTimeoutError, Sender, SyncSender},
    },
    thread,
    time::{Duration, Instant},
};
use tilemark_agent_protocol::{FrameError, LoadEvent, Reply, Request, Session, read_frame, write_frame};
use tilemark_record::clients::ClockOffset;
use tilemark_site::{
    Client, ClientCarrier,
    carrier::{Carrier, CarrierEnd, Messages, Streams},
    left_job::end_left_job,
};
use tilemark_sys::{clock::monotonic_ns, namespace::join_network, process::Ended};
use tilemark_units::{median, with_causes};

/// The host gives a sign of life so often, and so does the agent.
const ALIVE_EVERY: Duration = Duration::from_secs(1);
/// A client that was silent for so long is lost.
const SILENT_AT_MOST: Duration = Duration::from_secs(5);
/// How often it is looked for silence.
const LOOKS_EVERY: Duration = Duration::from_millis(200);
/// Until a client's agent answers: a login, eleven megabytes, a start.
const REACHED_WITHIN: Duration = Duration::from_secs(150);
/// How long an agent may take to say something that it is asked.
const ANSWERS_WITHIN: Duration = Duration::from_secs(20);
/// What a carrier that has ended wrote last is read at once, and on a busy host a moment later.
const SAID_WITHIN: Duration = Duration::from_secs(2);
/// So many readings of its clock are intersected.
const CLOCK_READINGS: u64 = 64;
/// An agent whose stream ended is gone after so long, and its carrier with it.
const ENDS_WITHIN: Duration = Duration::from_secs(if cfg!(test) { 10 } else { 2 });
/// So many replies wait for us. A client that sends more is not read from until they were taken.
const REPLIES_WAITING_MAX: usize = 64;

const STREAM_ENDED: &str = "its stream ended";

/// Why a client is not there any more, in words.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(crate) struct ClientLost(pub(crate) String);

/// What came, and when by the host's monotonic clock.
struct Arrived {
    at_ns: u64,
    reply: Reply,
}

/// What the threads of a line share.
#[derive(Default)]
struct Shared {
    heard_ns: AtomicU64,
    carrier: OnceLock<(Carrier, Messages)>,
    /// How long the agent may live.
    lifetime: OnceLock<Duration>,
    /// The name of its job, where it is one of Slurm's.
    job: OnceLock<String>,
    ended: Mutex<Option<String>>,
}

impl Shared {
    fn heard(&self) {
        self.heard_ns.store(monotonic_ns(), Ordering::Relaxed);
    }

    fn silent(&self) -> Duration {
        Duration::from_nanos(monotonic_ns().saturating_sub(self.heard_ns.load(Ordering::Relaxed)))
    }

    /// Ends the carrier with all that it started.
    fn end(&self) {
        if let Some((carrier, _)) = self.carrier.get() {
            carrier.end();
        }
    }

    /// Ends the carrier and all that it started, and says how it had ended before, in words that go on.
    fn reap(&self, program: &str) -> String {
        match self.carrier.get().and_then(|(carrier, _)| carrier.reap(ENDS_WITHIN)) {
            Some(Ended::Exited(code)) => format!("; `{program}` ended with code {code}"),
            Some(Ended::Signalled(signal)) => format!("; `{program}` was ended by signal {signal}"),
            None => String::new(),
        }
    }

    /// The first reason is the one; what the carrier itself said within so long is beside it.
    fn note_end(&self, why: String, said_within: Duration) {
        let last = self.carrier.get().map(|(_, messages)| messages.last(said_within)).unwrap_or_default();
        let mut ended = self.ended.lock().unwrap_or_else(PoisonError::into_inner);
        if ended.is_none() {
            *ended = Some(if last.is_empty() { why } else { format!("{why} ({last})") });
        }
    }

    fn why_ended(&self) -> String {
        let ended = self.ended.lock().unwrap_or_else(PoisonError::into_inner);
        ended.clone().unwrap_or_else(|| STREAM_ENDED.to_owned())
    }
}

/// What is brought to a client, and from where.
#[derive(Debug, Clone)]
pub(crate) struct Brought {
    /// The agent.
    pub(crate) agent: &'static [u8],
    /// It ends by itself after so long.
    pub(crate) lifetime: Duration,
    /// The network namespace that carriers are started in; none: ours.
    pub(crate) network: Option<PathBuf>,
    /// `TMPDIR` of carriers. One that is on this machine then has its files where they go with the run.
    pub(crate) temporary: Option<PathBuf>,
}

/// A client whose agent answers. Dropping it ends the agent.
pub(crate) struct ClientLine {
    name: String,
    /// Nothing once it is dropped: then the agent's input ends.
    outgoing: Option<Sender<Vec<u8>>>,
    replies: Receiver<Arrived>,
    shared: Arc<Shared>,
    /// When a load was to begin and began, by its own clock, of the last one that began so.
    began: Option<(u64, u64)>,
    /// Ways there and back that were seen.
    round_trips: Vec<Duration>,
}

impl ClientLine {
    /// Reaches a client, brings the agent and says hello.
    pub(crate) fn open(client: &Client, brought: &Brought) -> Result<Self, ClientLost> {
        let end = match &client.carrier {
            ClientCarrier::Srun { .. } => CarrierEnd::NewJobInOrder,
            ClientCarrier::Ssh => CarrierEnd::AtOnce,
            ClientCarrier::Exec { command } => CarrierEnd::of_command(command),
        };
        // The environment of srun goes to the client, where this run has no folder.
        let temporary = brought.temporary.clone().filter(|_| end == CarrierEnd::AtOnce);
        let shared = Arc::new(Shared::default());
        shared.heard();
        let (replied, replies) = mpsc::sync_channel(REPLIES_WAITING_MAX);
        let (outgoing, to_send) = mpsc::channel();
        let (opened, is_open) = mpsc::channel();
        let program = bring::words(client, brought.lifetime, "").swap_remove(0);
        let (of, brought) = (client.clone(), Brought { temporary, ..brought.clone() });
        let carrying = Arc::clone(&shared);
        let work = move || {
            let carried = carry(&of, end, &brought, &carrying, to_send, &opened, &replied);
            let how = carrying.reap(&program);
            if let Err(why) = carried {
                carrying.note_end(format!("{why}{how}"), SAID_WITHIN);
            }
            drop((opened, replied));
            // An srun that was killed leaves its job, which would keep the client from us too.
            if let Some(job) = carrying.job.get() {
                end_left_job(job);
            }
        };
        thread::Builder::new()
            .name("client".to_owned())
            .spawn(work)
            .map_err(|error| ClientLost(format!("no thread can be started: {error}")))?;
        match is_open.recv_timeout(REACHED_WITHIN) {
            Ok(()) => Ok(Self {
                name: client.name.clone(),
                outgoing: Some(outgoing),
                replies,
                shared,
                began: None,
                round_trips: Vec::new(),
            }),
            Err(RecvTimeoutError::Disconnected) => Err(ClientLost(shared.why_ended())),
            Err(RecvTimeoutError::Timeout) => {
                shared.end();
                Err(ClientLost(format!("its agent did not answer within {} s", REACHED_WITHIN.as_secs())))
            }
        }
    }

    /// Its name in the site file.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// How long its agent may live, which may be shorter than was wanted.
    pub(crate) fn lifetime(&self) -> Option<Duration> {
        self.shared.lifetime.get().copied()
    }

    /// A way to end it from another thread.
    pub(crate) fn ender(&self) -> impl Fn() + Send + use<> {
        let shared = Arc::clone(&self.shared);
        move || {
            // Not waited for: the carrier still lives.
            shared.note_end("it was ended".to_owned(), Duration::ZERO);
            shared.end();
        }
    }

    /// Sends it a request. One that is gone is found to be so when it is listened to.
    pub(crate) fn send(&self, request: &Request) -> Result<(), ClientLost> {
        let mut frame = Vec::new();
        write_frame(&mut frame, request).map_err(|error| ClientLost(error.to_string()))?;
        if let Some(outgoing) = &self.outgoing {
            let _ = outgoing.send(frame);
        }
        Ok(())
    }

    fn next(&self, within: Duration) -> Result<Option<Arrived>, ClientLost> {
        let until = Instant::now() + within;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            match self.replies.recv_timeout(left.min(LOOKS_EVERY)) {
                Ok(arrived) => return Ok(Some(arrived)),
                Err(RecvTimeoutError::Disconnected) => return Err(ClientLost(self.shared.why_ended())),
                Err(RecvTimeoutError::Timeout) if self.shared.silent() > SILENT_AT_MOST => {
                    let why = format!("it was silent for {} s", SILENT_AT_MOST.as_secs());
                    self.shared.note_end(why, Duration::ZERO);
                    self.shared.end();
                    return Err(ClientLost(self.shared.why_ended()));
                }
                Err(RecvTimeoutError::Timeout) if left.is_zero() => return Ok(None),
                Err(RecvTimeoutError::Timeout) => {}
            }
        }
    }

    /// The next event of its load; nothing if none comes within this time.
    pub(crate) fn next_event(&mut self, within: Duration) -> Result<Option<LoadEvent>, ClientLost> {
        let until = Instant::now() + within;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            let Some(arrived) = self.next(left)? else { return Ok(None) };
            match arrived.reply {
                Reply::Load(event) => return Ok(Some(event)),
                Reply::Failed { message, remedy } => return Ok(Some(LoadEvent::Failed { message, remedy })),
                Reply::Began { intended_ns, actual_ns } => self.began = Some((intended_ns, actual_ns)),
                // A reply that came later than anybody waited for it.
                _ => {}
            }
            // A client that keeps sending must not keep us.
            if left.is_zero() {
                return Ok(None);
            }
        }
    }

    /// Asks and waits for what `wanted` takes out of the reply.
    fn ask<T>(&mut self, request: &Request, wanted: impl Fn(&Arrived) -> Option<T>) -> Result<T, ClientLost> {
        self.ask_until(Instant::now() + ANSWERS_WITHIN, request, wanted)
    }

    fn ask_until<T>(
        &mut self,
        until: Instant,
        request: &Request,
        wanted: impl Fn(&Arrived) -> Option<T>,
    ) -> Result<T, ClientLost> {
        self.send(request)?;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            // Also where it keeps sending what nobody asked for.
            let arrived = if left.is_zero() { None } else { self.next(left)? };
            let Some(arrived) = arrived else {
                return Err(ClientLost(format!(
                    "its agent did not answer within {} s",
                    ANSWERS_WITHIN.as_secs()
                )));
            };
            if let Some(found) = wanted(&arrived) {
                return Ok(found);
            }
            if let Reply::Failed { message, .. } = arrived.reply {
                return Err(ClientLost(message));
            }
        }
    }

    /// The interval of its clock's offset: its monotonic clock less the host's. A reading `r` that was asked for at `t0` and came at `t3`
    /// bounds it to `[r − t3, r − t0]`; what all readings allow is the answer.
    pub(crate) fn clock(&mut self) -> Result<ClockOffset, ClientLost> {
        self.clock_within(ANSWERS_WITHIN)
    }

    /// With one limit of time for all readings: a client that answers each of them slowly must not keep us for as many times as long.
    fn clock_within(&mut self, within: Duration) -> Result<ClockOffset, ClientLost> {
        let mut offset: Option<ClockOffset> = None;
        self.round_trips.clear();
        let until = Instant::now() + within;
        for number in 0..CLOCK_READINGS {
            let asked_ns = monotonic_ns();
            let (ns, at_ns) =
                self.ask_until(until, &Request::Monotonic(number), |arrived| match arrived.reply {
                    Reply::Monotonic { number: of, ns } if of == number => Some((ns, arrived.at_ns)),
                    _ => None,
                })?;
            self.round_trips.push(Duration::from_nanos(at_ns.saturating_sub(asked_ns)));
            let difference = |ours: u64| {
                i64::try_from(i128::from(ns) - i128::from(ours)).unwrap_or(if ns > ours {
                    i64::MAX
                } else {
                    i64::MIN
                })
            };
            let reading = ClockOffset { least_ns: difference(at_ns), most_ns: difference(asked_ns) };
            offset = match offset {
                None => Some(reading),
                Some(offset) => Some(
                    offset
                        .and(reading)
                        .ok_or_else(|| ClientLost("its clock jumped while it was read".to_owned()))?,
                ),
            };
        }
        Ok(offset.unwrap_or_default())
    }

    /// The longest way there and back when its clock was read last.
    pub(crate) fn round_trip_max(&self) -> Duration {
        self.round_trips.iter().max().copied().unwrap_or_default()
    }

    /// The median of those ways.
    pub(crate) fn round_trip_median(&self) -> Duration {
        let seconds = self.round_trips.iter().map(Duration::as_secs_f64);
        median(seconds.collect()).map(Duration::from_secs_f64).unwrap_or_default()
    }

    /// When its last load was to begin and began, by its own clock, in nanoseconds.
    pub(crate) fn take_began(&mut self) -> Option<(u64, u64)> {
        self.began.take()
    }

    /// What it has and has done, with its device towards an address.
    pub(crate) fn describe(
        &mut self,
        towards: Option<std::net::Ipv4Addr>,
    ) -> Result<tilemark_agent_protocol::ClientDescription, ClientLost> {
        self.ask(&Request::DescribeClient { towards }, |arrived| match &arrived.reply {
            Reply::Client(description) => Some(description.clone()),
            _ => None,
        })
    }

    /// Median time of so many connections to a service, and why one of them failed.
    pub(crate) fn probe(
        &mut self,
        target: std::net::SocketAddr,
        times: u32,
    ) -> Result<Result<Duration, String>, ClientLost> {
        let (ns, failed) = self.ask(&Request::Probe { target, times }, |arrived| match &arrived.reply {
            Reply::Probed { ns, failed } => Some((ns.clone(), failed.clone())),
            _ => None,
        })?;
        Ok(match (failed, median(ns.into_iter().map(|ns| ns as f64).collect())) {
            (None, Some(median)) => Ok(Duration::from_nanos(median as u64)),
            (failed, _) => Err(failed.unwrap_or_else(|| "it connected to nothing".to_owned())),
        })
    }
}

impl Drop for ClientLine {
    fn drop(&mut self) {
        // Its input ends, and so does its agent.
        self.outgoing = None;
        if let Some((carrier, _)) = self.shared.carrier.get() {
            carrier.ends_within(ENDS_WITHIN);
        }
        self.shared.end();
    }
}

/// Both ends of the agent's streams, for the hello.
struct Duplex<R> {
    input: R,
    output: File,
}

impl<R: Read> Read for Duplex<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.input.read(buffer)
    }
}

impl<R> Write for Duplex<R> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.output.write(bytes)
    }
    fn flush(&mut self) -> io::Result<()> {
        self.output.flush()
    }
}

/// The carrier's output; each byte is a sign of life.
struct Heard {
    output: File,
    shared: Arc<Shared>,
}

impl Read for Heard {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let length = self.output.read(buffer)?;
        self.shared.heard();
        Ok(length)
    }
}

/// The life of one carrier, in a thread of its own, which the carrier does not outlive.
fn carry(
    client: &Client,
    end: CarrierEnd,
    brought: &Brought,
    shared: &Arc<Shared>,
    to_send: Receiver<Vec<u8>>,
    opened: &Sender<()>,
    replied: &SyncSender<Arrived>,
) -> Result<(), String> {
    if let Some(network) = &brought.network {
        File::open(network)
            .and_then(|network| Ok(join_network(network.as_fd())?))
            .map_err(|error| format!("the host's network cannot be used: {error}"))?;
    }
    // Slurm is asked from the host's network.
    let lifetime = *shared.lifetime.get_or_init(|| bring::lifetime_of(client, brought.lifetime));
    let mut nonce = [0; 8];
    rustix::rand::getrandom(&mut nonce, rustix::rand::GetRandomFlags::empty())
        .map_err(|error| format!("the kernel gives no random bytes: {error}"))?;
    let nonce = u64::from_ne_bytes(nonce);
    let job = format!("tilemark-client-{nonce:016x}");
    let words = bring::words(client, lifetime, &job);
    if matches!(client.carrier, ClientCarrier::Srun { .. }) {
        let _ = shared.job.set(job);
    }
    let started = Carrier::start(&words, end, brought.temporary.as_deref());
    let (carrier, Streams { mut stdin, stdout, messages }) = started.map_err(|error| error.to_string())?;
    let _ = shared.carrier.set((carrier, messages));
    let mut input = BufReader::new(Heard { output: stdout, shared: Arc::clone(shared) });
    bring::bring(brought.agent, lifetime, &format!("{nonce:016x}"), &mut input, &mut stdin)?;
    let session =
        Session::open(Duplex { input, output: stdin }, nonce).map_err(|error| with_causes(&error))?;
    let Duplex { mut input, output: mut stdin } = session.into_stream();
    // Not waited for: it may be held up by a stream that nobody reads, until the carrier is ended.
    thread::spawn(move || {
        loop {
            let frame = match to_send.recv_timeout(ALIVE_EVERY) {
                Ok(frame) => frame,
                Err(RecvTimeoutError::Timeout) => {
                    let mut frame = Vec::new();
                    if write_frame(&mut frame, &Request::Alive).is_err() {
                        return;
                    }
                    frame
                }
                Err(RecvTimeoutError::Disconnected) => return,
            };
            if stdin.write_all(&frame).is_err() {
                return;
            }
        }
    });
    let _ = opened.send(());
    loop {
        match read_frame::<Reply>(&mut input) {
            Ok(Reply::Alive) => {}
            Ok(reply) => {
                if replied.send(Arrived { at_ns: monotonic_ns(), reply }).is_err() {
                    return Ok(());
                }
            }
            Err(FrameError::Stream(error)) if error.kind() == io::ErrorKind::UnexpectedEof => {
                return Err(STREAM_ENDED.to_owned());
            }
            Err(error) => return Err(with_causes(&error)),
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::test_needs::agent_of_tests;
    use std::{io::BufRead, path::Path};
    use tilemark_fixtures::skipped;

    fn open(words: &[&str]) -> Option<ClientLine> {
        let command = words.iter().map(|&word| word.to_owned()).collect();
        let client = Client {
            name: "c1".to_owned(),
            carrier: ClientCarrier::Exec { command },
            address: "c1".to_owned(),
            user: None,
        };
        Some(
            ClientLine::open(
                &client,
                &Brought {
                    agent: agent_of_tests()?,
                    lifetime: Duration::from_secs(600),
                    network: None,
                    temporary: None,
                },
            )
            .unwrap(),
        )
    }

    #[test]
    fn the_interval_of_a_shifted_clock_holds_the_truth_100_of_100_times() {
        if !crate::program::is_root() {
            return skipped("a clock is shifted in a namespace, which needs root");
        }
        let shifted = ["unshare", "-T", "--monotonic", "1000", "--fork", "--kill-child", "sh"];
        let Some(mut line) = open(&shifted) else { return };
        let truth = 1_000_000_000_000;
        let offsets: Vec<ClockOffset> = (0..100).map(|_| line.clock().unwrap()).collect();
        let holds = |offset: &&ClockOffset| offset.least_ns <= truth && truth <= offset.most_ns;
        assert_eq!(offsets.iter().filter(holds).count(), 100, "{offsets:?}");
        // All of them hold it, so they have a part in common.
        assert!(offsets.into_iter().map(Some).reduce(|all, one| all?.and(one?)).unwrap().is_some());
        drop(line);
        // A way that is slow in one direction only moves the middle of the interval, and one end stays at the truth.
        let program = std::env::current_exe().unwrap();
        let relay = format!("{DELAYS}=1 {} --exact {RELAY} 3>&1 >/dev/null", program.display());
        let slow_there = format!("{{ {relay}; }} | {}", shifted.join(" "));
        let mut line = open(&["sh", "-c", &slow_there]).unwrap();
        for _ in 0..3 {
            let offset = line.clock().unwrap();
            assert!(offset.least_ns <= truth && truth <= offset.most_ns, "{offset:?}");
            assert!(offset.most_ns >= truth + DELAY.as_nanos() as i64, "nothing was delayed: {offset:?}");
        }
    }

    /// Set where this test program delays one direction of a stream.
    const DELAYS: &str = "TILEMARK_TEST_DELAYS";
    const RELAY: &str = "clients::line::tests::relay";
    const DELAY: Duration = Duration::from_millis(3);

    /// Passes its standard input on, what is small after a while: the agent itself need not take long.
    #[test]
    fn relay() {
        if std::env::var_os(DELAYS).is_none() {
            return;
        }
        // What it prints as a test goes elsewhere.
        let mut output = std::fs::OpenOptions::new().write(true).open("/dev/fd/3").unwrap();
        let (mut input, mut buffer) = (io::stdin(), vec![0; 64 << 10]);
        while let Ok(length @ 1..) = input.read(&mut buffer) {
            if length < 1024 {
                thread::sleep(DELAY);
            }
            if output.write_all(&buffer[..length]).is_err() {
                return;
            }
        }
    }

    #[test]
    fn a_shell_that_reads_ahead_takes_nothing_of_the_agent() {
        for shell in [&["sh"][..], &["bash"], &["sh", "-c", "echo welcome; exec sh"]] {
            let Some(mut line) = open(shell) else { return };
            let described = line.describe(None).unwrap();
            assert!(!described.processors.is_empty() && described.busy_ns > 0, "{described:?}");
        }
    }

    #[test]
    fn an_agent_that_is_killed_is_found_to_be_gone_and_an_ender_ends_it() {
        let Some(mut line) = open(&["sh"]) else { return };
        line.ender()();
        let lost = (0..100).find_map(|_| line.describe(None).err()).unwrap();
        assert!(lost.0.contains("it was ended"), "{lost}");
    }

    /// Set where this test program is a client: what it plays, and the file that it leaves its word in.
    const PLAYED: &str = "TILEMARK_TEST_PLAYED_CLIENT";
    /// More than every buffer on the way holds.
    const FLOOD_BYTES: usize = 4 << 20;
    const TIMEOUT: Duration = Duration::from_secs(60);

    /// A client that is this test program: it takes the agent's bytes as a shell does, and speaks in the agent's place.
    fn played(what: &str, word: &Path) -> ClientLine {
        let program = std::env::current_exe().unwrap().to_str().unwrap().to_owned();
        let played = format!("{PLAYED}={what} {}", word.display());
        let words =
            ["env", &played, &program, "--exact", "--nocapture", "clients::line::tests::played_client"];
        let command = words.iter().map(|&word| word.to_owned()).collect();
        let client = Client {
            name: "c1".to_owned(),
            carrier: ClientCarrier::Exec { command },
            address: "c1".to_owned(),
            user: None,
        };
        let lifetime = Duration::from_secs(600);
        let brought = Brought { agent: b"an agent", lifetime, network: None, temporary: None };
        ClientLine::open(&client, &brought).unwrap()
    }

    #[test]
    fn played_client() {
        let Ok(played) = std::env::var(PLAYED) else { return };
        let (what, word) = played.split_once(' ').unwrap();
        let mut input = BufReader::new(io::stdin());
        let mut output = File::from(io::stdout().as_fd().try_clone_to_owned().unwrap());
        let mut script = String::new();
        input.read_line(&mut script).unwrap();
        let between = |from: &str, to: &str| {
            let rest = &script[script.find(from).unwrap() + from.len()..];
            rest[..rest.find(to).unwrap()].to_owned()
        };
        let nonce = between("tilemark-client ready ", "\"");
        writeln!(output, "\ntilemark-client ready {nonce}").unwrap();
        let length: u64 = between("head -c ", " ").parse().unwrap();
        io::copy(&mut input.by_ref().take(length), &mut io::sink()).unwrap();
        writeln!(output, "tilemark-client starts {nonce}").unwrap();
        let mut hello = tilemark_agent_protocol::Hello { version: 0, nonce: 0 }.to_bytes();
        input.read_exact(&mut hello).unwrap();
        output.write_all(&hello).unwrap();
        match what {
            "floods" => floods(output, Path::new(word)),
            "jumps" => answers_with_a_clock_that_jumps(&mut input, &mut output, word.parse().unwrap()),
            _ => answers_slowly(&mut input, &mut output),
        }
        let _ = io::copy(&mut input, &mut io::sink());
    }

    /// Sends without being asked, and leaves whether that came to a stop.
    fn floods(mut output: File, word: &Path) {
        rustix::fs::fcntl_setfl(&output, rustix::fs::OFlags::NONBLOCK).unwrap();
        let mut frame = Vec::new();
        write_frame(&mut frame, &Reply::Pong(0)).unwrap();
        let (mut sent, mut refused) = (0, 0);
        while sent < FLOOD_BYTES && refused < 100 {
            match output.write(&frame[sent % frame.len()..]) {
                Ok(length) => (sent, refused) = (sent + length, 0),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    refused += 1;
                    thread::sleep(Duration::from_millis(20));
                }
                Err(_) => return,
            }
        }
        let found = if sent < FLOOD_BYTES { "held up" } else { "all was taken" };
        std::fs::write(word.with_extension("new"), found).unwrap();
        std::fs::rename(word.with_extension("new"), word).unwrap();
    }

    fn answers_slowly(input: &mut impl Read, output: &mut File) {
        while let Ok(request) = read_frame::<Request>(input) {
            if let Request::Monotonic(number) = request {
                thread::sleep(Duration::from_millis(100));
                write_frame(output, &Reply::Monotonic { number, ns: monotonic_ns() }).unwrap();
            }
        }
    }

    /// Its clock goes back by a second after so many readings.
    fn answers_with_a_clock_that_jumps(input: &mut impl Read, output: &mut File, after: usize) {
        let mut answered = 0;
        while let Ok(request) = read_frame::<Request>(input) {
            if let Request::Monotonic(number) = request {
                let ns = monotonic_ns() - if answered < after { 0 } else { JUMP_NS };
                write_frame(output, &Reply::Monotonic { number, ns }).unwrap();
                answered += 1;
            }
        }
    }

    const JUMP_NS: u64 = 1_000_000_000;

    #[test]
    fn a_client_whose_clock_jumps_while_it_is_read_is_lost_by_name() {
        let mut line = played("jumps", Path::new("32"));
        let error = line.clock().unwrap_err();
        assert_eq!(error.0, "its clock jumped while it was read");
    }

    #[test]
    fn a_client_whose_clock_jumps_between_two_readings_is_as_uncertain() {
        let mut line = played("jumps", Path::new("64"));
        let (before, after) = (line.clock().unwrap(), line.clock().unwrap());
        let ms = before.uncertainty_ms(&after);
        assert!((950.0..1_050.0).contains(&ms), "{ms}: {before:?}, {after:?}");
    }

    #[test]
    fn a_client_that_sends_without_end_is_held_up_until_it_is_listened_to() {
        let folder = tempfile::tempdir().unwrap();
        let word = folder.path().join("word");
        let _line = played("floods", &word);
        let until = Instant::now() + TIMEOUT;
        while !word.exists() {
            assert!(Instant::now() < until, "the client says nothing");
            thread::sleep(Duration::from_millis(20));
        }
        assert_eq!(std::fs::read_to_string(&word).unwrap(), "held up");
    }

    #[test]
    fn a_client_that_answers_each_reading_of_its_clock_slowly_has_one_limit_for_all() {
        let mut line = played("slow", Path::new("/dev/null"));
        // Each answer comes within a tenth of that, and all of them take six times as long.
        let error = line.clock_within(Duration::from_secs(1)).unwrap_err();
        assert!(error.0.contains("did not answer within"), "{error}");
    }

    #[test]
    fn clients_are_ended_at_the_same_time() {
        let folder = tempfile::tempdir().unwrap();
        let count = 3;
        let open = |number: usize| {
            // A carrier that ends only when all others have lost their input too.
            let script = format!(
                "sh; cd {}; touch over-{number}; until [ $(ls | grep -c over-) = {count} ]; do sleep 0.01; done; touch together-{number}",
                folder.path().display()
            );
            open(&["sh", "-c", &script])
        };
        let Some(lines) = (0..count).map(open).collect::<Option<Vec<ClientLine>>>() else { return };
        super::super::reach::end_all(lines);
        let found = std::fs::read_dir(folder.path()).unwrap().flatten();
        let together = found.filter(|entry| entry.file_name().to_string_lossy().starts_with("together-"));
        assert_eq!(together.count(), count, "one was ended before the next one was asked to end");
    }
}
