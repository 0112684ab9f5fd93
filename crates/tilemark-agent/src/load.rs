//! The load: as a process of its own at the end of a pipe, and inside a guest.
//!
//! Over a byte stream the load process answers a hello, then [`Request::StartLoad`] with events, the last of
//! which is `Done` or `Failed`. [`Request::StopLoad`] has no reply of its own while a load runs: its `Done`
//! comes sooner. When the host hangs up, the load ends.

use crate::decoder::{Decoder, Incoming};
use std::{
    error::Error,
    io::{self, Read, Write},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle},
};
use tilemark_agent_protocol::{
    FRAME_BYTES_MAX, Hello, LoadEvent, LoadJob, PROTOCOL_VERSION, Reply, Request, StreamTotal, StreamWork,
    write_frame,
};
use tilemark_load::Stop;
use tilemark_workloads::{disk, web::WebFactory};

/// Does a job to its end. The last event is `Done` or `Failed`.
pub(crate) fn perform(job: &LoadJob, stop: &Stop, events: &mut dyn FnMut(LoadEvent)) {
    let is_web = |work: &StreamWork| matches!(work, StreamWork::Web(_));
    let is_disk = |work: &StreamWork| matches!(work, StreamWork::Disk(_));
    let failed = if job.streams.iter().all(|stream| is_web(&stream.work)) {
        perform_web(job, stop, events)
    } else if job.streams.iter().all(|stream| is_disk(&stream.work)) {
        disk::run(job, stop, events).err().map(|error| failure(&error, error.remedy()))
    } else {
        Some(LoadEvent::Failed {
            message: "this load process can't do such a mix of work".to_owned(),
            remedy: "start one load process for the web loads and one in each guest for its disk load"
                .to_owned(),
        })
    };
    failed.into_iter().for_each(events);
}

fn perform_web(job: &LoadJob, stop: &Stop, events: &mut dyn FnMut(LoadEvent)) -> Option<LoadEvent> {
    let factory = match WebFactory::new(job) {
        Ok(factory) => factory,
        Err(error) => return Some(failure(&error, error.remedy())),
    };
    tilemark_load::run(job, &factory, stop, events).err().map(|error| failure(&error, error.remedy()))
}

fn failure(error: &dyn Error, remedy: &str) -> LoadEvent {
    let causes = std::iter::successors(error.source(), |&cause| cause.source());
    let message = causes.fold(error.to_string(), |text, cause| format!("{text}: {cause}"));
    LoadEvent::Failed { message, remedy: remedy.to_owned() }
}

/// A load that runs beside a conversation. Dropping it ends the load and waits for its end.
pub(crate) struct RunningLoad {
    stop: Arc<Stop>,
    thread: Option<JoinHandle<()>>,
    over: Arc<AtomicBool>,
}

impl RunningLoad {
    /// Starts it. `send` gets each event, made to fit a frame, from the load's thread.
    pub(crate) fn start(job: LoadJob, mut send: impl FnMut(LoadEvent) + Send + 'static) -> io::Result<Self> {
        let stop = Arc::new(Stop::new()?);
        let its_stop = Arc::clone(&stop);
        let over = Arc::new(AtomicBool::new(false));
        let its_over = Arc::clone(&over);
        let work = move || {
            perform(&job, &its_stop, &mut |event| {
                // Before the host reads it: it may ask for the next load at once.
                if matches!(event, LoadEvent::Done(_) | LoadEvent::Failed { .. }) {
                    its_over.store(true, Ordering::Release);
                }
                send(fitted(event));
            });
        };
        let thread = Some(thread::Builder::new().name("load".to_owned()).spawn(work)?);
        Ok(Self { stop, thread, over })
    }
    /// Ends it early; its `Done` still comes.
    pub(crate) fn stop(&self) {
        self.stop.ask();
    }
    /// Whether its last event was sent, or is being sent.
    pub(crate) fn is_over(&self) -> bool {
        self.over.load(Ordering::Acquire) || self.thread.as_ref().is_none_or(JoinHandle::is_finished)
    }
}

impl Drop for RunningLoad {
    fn drop(&mut self) {
        self.stop.ask();
        if let Some(thread) = self.thread.take() {
            // A panic of the load was printed by its thread; the agent goes on.
            let _ = thread.join();
        }
    }
}

/// Leaves away what would not fit a frame: the totals' histograms, which all seconds hold too, and then the
/// tool's output.
fn fitted(mut event: LoadEvent) -> LoadEvent {
    // What is left are counts and a few errors, below 2 KiB for each stream.
    let room = FRAME_BYTES_MAX / 2;
    if let LoadEvent::Done(totals) = &mut event {
        let histograms = |total: &StreamTotal| total.latency.len() + total.lateness.len();
        if totals.iter().map(histograms).sum::<usize>() > room / 2 {
            for total in &mut *totals {
                total.latency = Vec::new();
                total.lateness = Vec::new();
            }
        }
        let output = |total: &StreamTotal| total.tool_output.as_ref().map_or(0, String::len);
        if totals.iter().map(output).sum::<usize>() > room / 2 {
            totals.iter_mut().for_each(|total| total.tool_output = None);
        }
    }
    event
}

/// The way back to the host, shared with the load's thread.
#[derive(Clone)]
struct Output(Arc<Mutex<Box<dyn Write + Send>>>);

impl Output {
    /// A host that hung up is noticed by the reading end; here it is no error.
    fn send(&self, reply: &Reply) {
        let _ = write_frame(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner), reply);
    }
    fn hello(&self, nonce: u64) {
        let mut output = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let hello = Hello { version: PROTOCOL_VERSION, nonce };
        let _ = output.write_all(&hello.to_bytes()).and_then(|()| output.flush());
    }
}

/// Serves a host until it hangs up: the load process's whole life, on its standard input and output.
pub(crate) fn serve(mut input: impl Read, output: impl Write + Send + 'static) -> io::Result<()> {
    let output = Output(Arc::new(Mutex::new(Box::new(output))));
    let mut decoder = Decoder::default();
    let mut buffer = vec![0; 64 << 10];
    let mut load: Option<RunningLoad> = None;
    loop {
        let length = match input.read(&mut buffer) {
            Ok(0) => return Ok(()),
            Ok(length) => length,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        for incoming in decoder.take(&buffer[..length]) {
            match incoming {
                Incoming::Hello(hello) => {
                    // An older session's load ends with it.
                    drop(load.take());
                    output.hello(hello.nonce);
                }
                Incoming::Frame(body) => answer(&body, &mut load, &output),
            }
        }
    }
}

fn answer(body: &[u8], load: &mut Option<RunningLoad>, output: &Output) {
    let failed = |message: &str, remedy: &str| {
        output.send(&Reply::Failed { message: message.to_owned(), remedy: remedy.to_owned() });
    };
    let is_running = load.as_ref().is_some_and(|load| !load.is_over());
    match postcard::from_bytes::<Request>(body) {
        Ok(Request::Ping(number)) => output.send(&Reply::Pong(number)),
        Ok(Request::StartLoad(_)) if is_running => failed("a load runs already", "stop it first"),
        Ok(Request::StartLoad(job)) => {
            let output = output.clone();
            match RunningLoad::start(*job, move |event| output.send(&Reply::Load(event))) {
                Ok(running) => *load = Some(running),
                Err(error) => {
                    failed(&format!("the load did not start: {error}"), "free some of the host's memory")
                }
            }
        }
        Ok(Request::StopLoad) if is_running => load.iter().for_each(RunningLoad::stop),
        Ok(Request::StopLoad) => output.send(&Reply::Done),
        Ok(_) => failed("a load process only loads", "ask the agent in a guest"),
        Err(error) => {
            failed(
                &format!("a request does not decode: {error}"),
                "use the agent that belongs to this tilemark",
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{
        io::Cursor,
        net::{SocketAddr, TcpListener},
        os::unix::net::UnixStream,
    };
    use tilemark_agent_protocol::{Counts, Session, Stream};
    use tilemark_load::figures::Gathered;
    use tilemark_plan::{
        plan::Demand,
        workload::{WebFile, WebParameters},
    };
    use tilemark_units::{Bytes, Span};
    use tilemark_workloads::web::fill_body;

    const SIZE: usize = 100;

    /// Answers rightly for as long as the test's process lives.
    fn web_server() -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        thread::spawn(move || {
            for mut stream in listener.incoming().map_while(Result::ok) {
                thread::spawn(move || {
                    let mut answer =
                        format!("HTTP/1.1 200 OK\r\nContent-Length: {SIZE}\r\n\r\n").into_bytes();
                    let mut body = [0; SIZE];
                    fill_body(&mut body);
                    answer.extend(body);
                    let mut buffer = [0; 4096];
                    while matches!(stream.read(&mut buffer), Ok(1..)) && stream.write_all(&answer).is_ok() {}
                });
            }
        });
        address
    }

    fn job(target: SocketAddr, requests_max: u64) -> LoadJob {
        let files = vec![WebFile { size: Bytes::new(SIZE as u64), weight: 1 }];
        let work = StreamWork::Web(WebParameters { files, path: None });
        LoadJob {
            streams: vec![Stream { id: 3, target, demand: Demand::Closed, connections: 2, seed: 1, work }],
            processors: Vec::new(),
            warmup: Span::default(),
            length: Span::from_seconds(3600),
            requests_max,
        }
    }

    fn session() -> Session<UnixStream> {
        let (host, agent) = UnixStream::pair().unwrap();
        thread::spawn(move || serve(agent.try_clone().unwrap(), agent));
        Session::open(host, 77).unwrap()
    }

    fn gather(session: &mut Session<UnixStream>) -> Gathered {
        let mut gathered = Gathered::default();
        while !gathered.is_over() {
            match session.receive().unwrap() {
                Reply::Load(event) => gathered.take(event),
                other => panic!("{other:?}"),
            }
        }
        gathered
    }

    #[test]
    fn a_load_goes_over_the_channel_and_a_second_one_after_it() {
        let address = web_server();
        let mut session = session();
        for requests in [10, 20] {
            session.send(&Request::StartLoad(Box::new(job(address, requests)))).unwrap();
            let gathered = gather(&mut session);
            let bytes = requests * SIZE as u64;
            let expected = Counts { offered: requests, completed: requests, bytes, ..Counts::default() };
            assert_eq!(gathered.counts(|id| id == 3), expected);
            assert!(gathered.sender.is_some());
        }
        assert_eq!(session.ask(&Request::Ping(5)).unwrap(), Reply::Pong(5));
    }

    #[test]
    fn a_stop_is_heard_while_the_load_runs_and_its_totals_still_come() {
        let mut session = session();
        session.send(&Request::StartLoad(Box::new(job(web_server(), 0)))).unwrap();
        assert!(matches!(session.receive().unwrap(), Reply::Load(LoadEvent::Started(_))));
        session.send(&Request::StopLoad).unwrap();
        let gathered = gather(&mut session);
        assert_eq!(gathered.failed, None);
        assert_eq!(gathered.totals.len(), 1);
    }

    #[test]
    fn a_job_that_cannot_be_done_fails_with_a_remedy() {
        let mut session = session();
        let mut job = job(web_server(), 1);
        job.streams[0].connections = 0;
        session.send(&Request::StartLoad(Box::new(job))).unwrap();
        let failed = gather(&mut session).failed.unwrap();
        assert_eq!(failed.message, "the load has no stream with a connection");
        assert!(!failed.remedy.is_empty());
    }

    #[test]
    fn what_is_no_load_is_refused_and_a_hangup_ends_the_process() {
        let mut session = session();
        assert!(matches!(session.ask(&Request::Describe).unwrap(), Reply::Failed { .. }));
        assert_eq!(session.ask(&Request::StopLoad).unwrap(), Reply::Done);
        serve(Cursor::new(Vec::new()), Vec::new()).unwrap();
    }

    #[test]
    fn totals_of_many_streams_fit_a_frame() {
        let total = StreamTotal {
            id: 0,
            counts: Counts::default(),
            seconds: 10.0,
            client_cpu_s: 0.1,
            latency: vec![1; 5_000],
            lateness: vec![1; 2_000],
            errors: vec!["an error of a usual length, as they come".to_owned(); 5],
            tool_output: None,
        };
        let small = fitted(LoadEvent::Done(vec![total.clone(); 10]));
        assert_eq!(small, LoadEvent::Done(vec![total.clone(); 10]), "what fits stays whole");
        let frame = Reply::Load(fitted(LoadEvent::Done(vec![total; 1_000])));
        write_frame(&mut Vec::new(), &frame).unwrap();
    }
}
