//! Measures the web load by hand: `web_bench ADDRESS closed|RATE CONNECTIONS SECONDS PROCESSOR [SIZE]`.
//! Prints one line: requests/s, processor time for each request, latency and lateness.

use tilemark_agent_protocol::{LoadJob, Stream, StreamWork};
use tilemark_load::{
    Stop,
    figures::{Gathered, percentiles_ms},
};
use tilemark_plan::{
    plan::Demand,
    scenario::Arrival,
    workload::{WebFile, WebParameters},
};
use tilemark_units::{Bytes, Rate, Span};
use tilemark_workloads::web::WebFactory;

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let number = |place: usize| -> u64 { arguments[place].parse().expect("a whole number") };
    let demand = match &arguments[2][..] {
        "closed" => Demand::Closed,
        rate => Demand::Open {
            rate: Rate::per_second(rate.parse().expect("a rate")).expect("a rate above 0"),
            arrival: Arrival::Even,
            burst_every: Span::from_seconds(1),
            burst_length: Span::from_seconds(1),
        },
    };
    let size = Bytes::new(arguments.get(6).map_or(1024, |size| size.parse().expect("a size")));
    let work = StreamWork::Web(WebParameters { files: vec![WebFile { size, weight: 1 }], path: None });
    let target = arguments[1].parse().expect("an address with its port");
    let connections = u32::try_from(number(3)).expect("few connections");
    let job = LoadJob {
        streams: vec![Stream { id: 0, target, demand, connections, seed: 1, work }],
        processors: vec![u32::try_from(number(5)).expect("a processor")],
        warmup: Span::from_seconds(1),
        length: Span::from_seconds(number(4)),
        requests_max: 0,
    };
    let factory = WebFactory::new(&job).expect("a good mix");
    let stop = Stop::new().expect("an eventfd");
    let mut gathered = Gathered::default();
    tilemark_load::run(&job, &factory, &stop, &mut |event| gathered.take(event)).expect("a load");
    let total = &gathered.totals[0];
    let counts = total.counts;
    println!("{:?} {counts:?} {:?}", gathered.sender, total.errors);
    println!(
        "{:.0} requests/s, {:.2} us of processor time each",
        counts.completed as f64 / total.seconds,
        total.client_cpu_s * 1e6 / counts.completed as f64
    );
    println!("latency {:?}", percentiles_ms(&gathered.latency(|_| true).expect("ours")));
    println!("lateness {:?}", percentiles_ms(&gathered.lateness(|_| true).expect("ours")));
}
