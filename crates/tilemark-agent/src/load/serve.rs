//! The conversation of a load process.
//!
//! Over a byte stream the load process answers a hello, then [`Request::PrepareLoad`] with events, the last of
//! which is `Done` or `Failed`. [`Request::BeginLoad`] has no reply. [`Request::StopLoad`] has no reply of its own while
//! a load runs: its `Done` comes sooner. When the host hangs up, the load ends.

use super::{client::Lifeline, client_machine, running::RunningLoad};
use crate::{
    clock,
    decoder::{Decoder, Incoming},
};
use std::{
    io::{self, Read, Write},
    sync::{Arc, Mutex, PoisonError},
};
use tilemark_agent_protocol::{Hello, LoadEvent, LoadJob, PROTOCOL_VERSION, Reply, Request, write_frame};

/// The way back to the host, shared with the load's thread.
#[derive(Clone)]
pub(super) struct Output(Arc<Mutex<Box<dyn Write + Send>>>);

impl Output {
    pub(super) fn to(output: impl Write + Send + 'static) -> Self {
        Self(Arc::new(Mutex::new(Box::new(output))))
    }

    /// A host that hung up is noticed by the reading end; here it is no error.
    pub(super) fn send(&self, reply: &Reply) {
        let _ = write_frame(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner), reply);
    }
    fn hello(&self, nonce: u64) {
        let mut output = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let hello = Hello { version: PROTOCOL_VERSION, nonce };
        let _ = output.write_all(&hello.to_bytes()).and_then(|()| output.flush());
    }
}

/// Serves a host until it hangs up: the load process's whole life, on its standard input and output.
pub(crate) fn serve(input: impl Read, output: impl Write + Send + 'static) -> io::Result<()> {
    converse(input, &Output::to(output), None)
}

/// The conversation of a load process, or with a lifeline of a client machine's agent.
pub(super) fn converse(mut input: impl Read, output: &Output, lifeline: Option<&Lifeline>) -> io::Result<()> {
    tilemark_sys::limits::raise_open_files();
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
        if let Some(lifeline) = lifeline {
            lifeline.heard();
        }
        for incoming in decoder.take(&buffer[..length]) {
            match incoming {
                Incoming::Hello(hello) => {
                    // An older session's load ends with it.
                    drop(load.take());
                    output.hello(hello.nonce);
                }
                Incoming::Frame(body) => answer(&body, &mut load, output, lifeline),
            }
        }
    }
}

/// Over a client's stream nothing but signs of life passes while it is measured: what its load finds is kept until it is over.
fn prepared(job: LoadJob, output: &Output, is_client: bool) -> io::Result<RunningLoad> {
    let (of_events, of_beginning) = (output.clone(), output.clone());
    let mut held = Vec::new();
    let send = move |event| {
        let is_last = matches!(event, LoadEvent::Done(_) | LoadEvent::Failed { .. });
        if is_client && !is_last && !matches!(event, LoadEvent::Started(_)) {
            return held.push(event);
        }
        held.drain(..).for_each(|event| of_events.send(&Reply::Load(event)));
        of_events.send(&Reply::Load(event));
    };
    RunningLoad::prepare_with_begin_report(job, send, move |intended_ns, actual_ns| {
        of_beginning.send(&Reply::Began { intended_ns, actual_ns });
    })
}

fn answer(body: &[u8], load: &mut Option<RunningLoad>, output: &Output, lifeline: Option<&Lifeline>) {
    let failed = |message: &str, remedy: &str| {
        output.send(&Reply::Failed { message: message.to_owned(), remedy: remedy.to_owned() });
    };
    let is_running = load.as_ref().is_some_and(|load| !load.is_over());
    match postcard::from_bytes::<Request>(body) {
        Ok(Request::Ping(number)) => output.send(&Reply::Pong(number)),
        Ok(Request::PrepareLoad(_)) if is_running => failed("a load runs already", "stop it first"),
        Ok(Request::PrepareLoad(job)) => match prepared(*job, output, lifeline.is_some()) {
            Ok(running) => *load = Some(running),
            Err(error) => {
                failed(&format!("the load did not start: {error}"), "free some of the host's memory")
            }
        },
        Ok(Request::BeginLoad) => load.iter().for_each(RunningLoad::begin),
        Ok(Request::StopLoad) if is_running => load.iter().for_each(RunningLoad::stop),
        Ok(Request::StopLoad) => output.send(&Reply::Done),
        Ok(Request::BeginLoadAt(ns)) => load.iter().for_each(|load| load.begin_at(ns)),
        Ok(Request::Alive) => {}
        Ok(Request::Monotonic(number)) => {
            output.send(&Reply::Monotonic { number, ns: clock::monotonic_ns() });
        }
        Ok(Request::DescribeClient { towards }) => {
            output.send(&Reply::Client(client_machine::describe(towards)));
        }
        Ok(Request::Probe { target, times }) => {
            // What the host sends meanwhile is not read, and it waits no longer than this may take.
            let connected = || lifeline.into_iter().for_each(Lifeline::heard);
            output.send(&client_machine::probe(target, times, connected));
        }
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
    use std::thread;
    use std::{
        io::Cursor,
        net::{SocketAddr, TcpListener},
        os::unix::net::UnixStream,
        time::Duration,
    };
    use tilemark_agent_protocol::{Counts, Session, Stream};
    use tilemark_load::figures::Gathered;
    use tilemark_plan::{
        plan::Demand,
        scenario::Arrival,
        workload::{WebFile, WebParameters, Work},
    };
    use tilemark_units::{Bytes, Rate, Span};
    use tilemark_workloads::web::fill_body;

    const SIZE: usize = 100;
    /// Until it is stopped.
    const FOREVER: Span = Span::new(Duration::from_secs(3600));

    /// Answers correctly for as long as the test's process lives.
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

    /// A request each millisecond.
    fn job(target: SocketAddr, length: Span) -> LoadJob {
        let files = vec![WebFile { size: Bytes::new(SIZE as u64), weight: 1 }];
        let work = Work::Web(WebParameters { files, ..WebParameters::default() });
        let demand = Demand::Open {
            rate: Rate::per_second(1_000.0).unwrap(),
            arrival: Arrival::Even,
            burst_every: Span::from_seconds(1),
            burst_length: Span::from_seconds(1),
            surge: None,
        };
        LoadJob {
            streams: vec![Stream { connections: 2, ..Stream::new(3, target, demand, work) }],
            processors: Vec::new(),
            warmup: Span::default(),
            length,
        }
    }

    fn session() -> Session<UnixStream> {
        let (host, agent) = UnixStream::pair().unwrap();
        thread::spawn(move || serve(agent.try_clone().unwrap(), agent));
        Session::open(host, 77).unwrap()
    }

    fn start(session: &mut Session<UnixStream>, job: LoadJob) {
        session.send(&Request::PrepareLoad(Box::new(job))).unwrap();
        session.send(&Request::BeginLoad).unwrap();
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
            start(&mut session, job(address, Span::from_milliseconds(requests)));
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
        start(&mut session, job(web_server(), FOREVER));
        assert!(matches!(session.receive().unwrap(), Reply::Load(LoadEvent::Started(_))));
        session.send(&Request::StopLoad).unwrap();
        let gathered = gather(&mut session);
        assert_eq!(gathered.failed, None);
        assert_eq!(gathered.totals.len(), 1);
    }

    #[test]
    fn a_prepared_load_sends_nothing_before_it_is_asked_to_begin() {
        let mut session = session();
        session
            .send(&Request::PrepareLoad(Box::new(job(web_server(), Span::from_milliseconds(10)))))
            .unwrap();
        assert!(matches!(session.receive().unwrap(), Reply::Load(LoadEvent::Started(_))));
        // Ten requests take some milliseconds: one that did not wait would have ended by now.
        thread::sleep(Duration::from_millis(200));
        assert_eq!(session.ask(&Request::Ping(6)).unwrap(), Reply::Pong(6), "and no event before it");
        session.send(&Request::BeginLoad).unwrap();
        assert_eq!(gather(&mut session).counts(|id| id == 3).completed, 10);
    }

    #[test]
    fn a_load_that_waits_for_its_beginning_can_be_stopped() {
        let mut session = session();
        session.send(&Request::PrepareLoad(Box::new(job(web_server(), FOREVER)))).unwrap();
        assert!(matches!(session.receive().unwrap(), Reply::Load(LoadEvent::Started(_))));
        session.send(&Request::StopLoad).unwrap();
        assert_eq!(gather(&mut session).totals.len(), 1);
    }

    #[test]
    fn a_job_that_cannot_be_done_fails_with_a_remedy() {
        let mut session = session();
        let mut job = job(web_server(), FOREVER);
        job.streams[0].connections = 0;
        start(&mut session, job);
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
}
