//! The engine against truth that was planted, over real sockets: `planted law|stall SECONDS RATE [PROCESSOR]`.
//!
//! `law`: a scripted server answers after times from a fixed list, 5 ms and an exponential part with mean 10 ms;
//! compares each percentile of what was drawn with what was measured. `stall`: the server answers nothing in the middle
//! third; compares mean and p99 that users felt, computed from the schedule, with what was measured. Prints JSON lines.
//! Its threads ask for SCHED_FIFO: what is tested is the load.

use std::{
    cmp::Reverse,
    collections::BinaryHeap,
    io::{Read, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    sync::{
        Arc, OnceLock,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
    time::{Duration, Instant},
};
use tilemark_agent_protocol::{LoadJob, Stream};
use tilemark_load::{Schedule, Stop, figures::Gathered};
use tilemark_plan::{
    plan::Demand,
    scenario::Arrival,
    workload::{WebFile, WebParameters, Work},
};
use tilemark_units::{Bytes, Rate, Span};
use tilemark_workloads::web::{WebFactory, fill_body};

const SIZE: usize = 1024;
/// What a stalled server takes for each request when it does not stall.
const SERVICE: Duration = Duration::from_millis(2);

/// How long the server takes for the next request, which came now.
type Law = dyn Fn() -> Duration + Send + Sync;

fn server(law: Arc<Law>) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("bound");
    thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let law = Arc::clone(&law);
            thread::spawn(move || serve(stream, &*law));
        }
    });
    address
}

fn serve(mut stream: TcpStream, law: &Law) {
    let _ = tilemark_sys::thread::ask_for_fifo(2);
    stream.set_nodelay(true).expect("a TCP socket");
    let mut answer = format!("HTTP/1.1 200 OK\r\nContent-Length: {SIZE}\r\n\r\n").into_bytes();
    let mut body = vec![0; SIZE];
    fill_body(&mut body);
    answer.extend(body);
    let mut buffer = [0; 4096];
    while matches!(stream.read(&mut buffer), Ok(1..)) {
        thread::sleep(law());
        if stream.write_all(&answer).is_err() {
            return;
        }
    }
}

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let seconds: u64 = arguments[2].parse().expect("seconds");
    let rate: f64 = arguments[3].parse().expect("a rate");
    let demand = Demand::Open {
        rate: Rate::per_second(rate).expect("a rate above 0"),
        arrival: Arrival::Poisson,
        burst_every: Span::from_seconds(1),
        burst_length: Span::from_seconds(1),
        surge: None,
    };
    let schedule = Schedule::new(&demand, 1, 0).expect("a good rate").expect("an open loop");
    let intended: Vec<u64> = schedule.take_while(|time| *time < seconds * 1_000_000_000).collect();
    let processors = arguments.get(4).map(|word| word.parse().expect("a processor")).into_iter().collect();
    match &arguments[1][..] {
        "law" => law(seconds, demand, intended.len(), processors),
        _ => stall(seconds, demand, &intended, processors),
    }
}

fn load(
    target: SocketAddr,
    demand: Demand,
    seconds: u64,
    connections: u32,
    processors: Vec<u32>,
) -> Gathered {
    let work = Work::Web(WebParameters {
        files: vec![WebFile { size: Bytes::new(SIZE as u64), weight: 1 }],
        ..WebParameters::default()
    });
    let job = LoadJob {
        streams: vec![Stream { connections, ..Stream::new(0, target, demand, work) }],
        processors,
        warmup: Span::default(),
        length: Span::from_seconds(seconds),
    };
    let factory = WebFactory::new(&job).expect("a good mix");
    let stop = Stop::new().expect("an eventfd");
    let gathered = Gathered::of(|start, events| tilemark_load::run(&job, &factory, &stop, start, events))
        .expect("a load");
    eprintln!("{:?} {:?}", gathered.sender, gathered.totals[0].counts);
    gathered
}

fn law(seconds: u64, demand: Demand, count: usize, processors: Vec<u32>) {
    // Quantiles of the law in a scrambled order: drawn without chance.
    let step = 7_919;
    let times: Vec<Duration> = (0..count)
        .map(|k| ((k * step) % count) as f64 + 0.5)
        .map(|rank| Duration::from_secs_f64(0.005 - 0.010 * (1.0 - rank / count as f64).ln()))
        .collect();
    let mut planted = times.clone();
    planted.sort_unstable();
    let next = AtomicUsize::new(0);
    let address = server(Arc::new(move || times[next.fetch_add(1, Ordering::Relaxed) % times.len()]));
    let gathered = load(address, demand, seconds, 64, processors);
    let latency = gathered.latency(|_| true).expect("ours");
    for part in [0.5, 0.9, 0.99, 0.999] {
        let truth = planted[(planted.len() as f64 * part) as usize].as_secs_f64() * 1e3;
        let got = latency.value_at_quantile(part) as f64 / 1e6;
        compare(&format!("p{}", part * 100.0), truth, got);
    }
    let lateness = gathered.lateness(|_| true).expect("ours");
    eprintln!("lateness {} ns at p99, at most {} ns", lateness.value_at_quantile(0.99), lateness.max());
}

fn stall(seconds: u64, demand: Demand, intended: &[u64], processors: Vec<u32>) {
    const CONNECTIONS: u32 = 8;
    let begin = seconds * 1_000_000_000 / 3;
    let (first, begin, end) = (intended[0], begin, 2 * begin);
    let origin: OnceLock<Instant> = OnceLock::new();
    let address = server(Arc::new(move || {
        let now = Instant::now();
        let origin = origin.get_or_init(|| now - Duration::from_nanos(first));
        let now = (now - *origin).as_nanos() as u64;
        let wait = if (begin..end).contains(&now) { end - now } else { 0 };
        Duration::from_nanos(wait) + SERVICE
    }));
    let gathered = load(address, demand, seconds, CONNECTIONS, processors);
    let mut free: BinaryHeap<Reverse<u64>> = (0..CONNECTIONS).map(|_| Reverse(0)).collect();
    let mut felt: Vec<f64> = Vec::new();
    for time in intended {
        let Reverse(free_at) = free.pop().expect("as many as connections");
        let start = free_at.max(*time);
        let wait = if (begin..end).contains(&start) { end - start } else { 0 };
        let done = start + wait + SERVICE.as_nanos() as u64;
        free.push(Reverse(done));
        felt.push((done - time) as f64 / 1e6);
    }
    felt.sort_unstable_by(f64::total_cmp);
    let latency = gathered.latency(|_| true).expect("ours");
    let mean = felt.iter().sum::<f64>() / felt.len() as f64;
    let p99 = felt[(felt.len() as f64 * 0.99) as usize];
    for (name, truth, got) in
        [("mean", mean, latency.mean() / 1e6), ("p99", p99, latency.value_at_quantile(0.99) as f64 / 1e6)]
    {
        compare(name, truth, got);
    }
}

fn compare(name: &str, truth_ms: f64, measured_ms: f64) {
    let off_percent = (measured_ms / truth_ms - 1.0) * 100.0;
    println!(
        "{}",
        serde_json::json!({
            "what": name, "truth_ms": truth_ms, "measured_ms": measured_ms, "off_percent": off_percent,
        })
    );
}
