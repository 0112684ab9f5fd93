//! The web load and its server by hand, for measuring; `cargo xtask bench` calls it.
//!
//! ```text
//! web_bench serve|serve-tls PORT FOLDER [SIZE]                              nginx with one worker, until it is ended
//! web_bench [tls://]ADDRESS[,ADDRESS…] closed|RATE CONNECTIONS SECONDS PROCESSOR [SIZE]
//! ```
//! The second prints one JSON line: requests/s, processor time for each, latency and lateness.

use hdrhistogram::Histogram;
use std::{os::unix::process::CommandExt, path::Path, process::Command};
use tilemark_agent_protocol::{LoadJob, Stream};
use tilemark_load::{Stop, figures::Gathered};
use tilemark_plan::{
    plan::Demand,
    scenario::Arrival,
    workload::{WebFile, WebParameters, Work},
};
use tilemark_units::{Bytes, Rate, Span};
use tilemark_workloads::{
    sessions::certificate,
    web::{NGINX, ServiceFile, WebFactory, nginx_arguments, nginx_conf, service_conf, service_files},
};

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match &arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["serve", port, folder, size @ ..] => serve(port, Path::new(folder), &files(size)),
        ["serve-tls", port, folder, size @ ..] => serve(port, Path::new(folder), &over_tls(size)),
        [addresses, pace, connections, seconds, processor, size @ ..] => {
            let job = LoadJob {
                streams: streams(addresses, &demand(pace), number(connections), size),
                processors: vec![number(processor)],
                warmup: Span::from_seconds(1),
                length: Span::from_seconds(u64::from(number(seconds))),
            };
            load(&job);
        }
        _ => panic!("see the first lines of web_bench.rs for its arguments"),
    }
}

fn number(text: &str) -> u32 {
    text.parse().expect("a whole number")
}

fn files(size: &[&str]) -> WebParameters {
    let size = Bytes::new(size.first().map_or(1024, |size| u64::from(number(size))));
    WebParameters { files: vec![WebFile { size, weight: 1 }], ..WebParameters::default() }
}

fn over_tls(size: &[&str]) -> WebParameters {
    WebParameters { tls: true, ..files(size) }
}

fn demand(pace: &str) -> Demand {
    match pace {
        "closed" => Demand::Closed,
        rate => Demand::Open {
            rate: Rate::per_second(rate.parse().expect("a rate")).expect("a rate above 0"),
            arrival: Arrival::Even,
            burst_every: Span::from_seconds(1),
            burst_length: Span::from_seconds(1),
            surge: None,
        },
    }
}

fn streams(addresses: &str, demand: &Demand, connections: u32, size: &[&str]) -> Vec<Stream> {
    let (addresses, parameters) = match addresses.strip_prefix("tls://") {
        Some(addresses) => (addresses, over_tls(size)),
        None => (addresses, files(size)),
    };
    let stream = |(id, address): (u32, &str)| Stream {
        connections,
        seed: u64::from(id) + 1,
        ..Stream::new(
            id,
            address.parse().expect("an address with its port"),
            demand.clone(),
            Work::Web(parameters.clone()),
        )
    };
    (0..).zip(addresses.split(',')).map(stream).collect()
}

/// Becomes nginx with one worker, as a guest has it, but on that port of the loopback.
fn serve(port: &str, folder: &Path, parameters: &WebParameters) {
    let (root, state) = (folder.join("root"), folder.join("state"));
    for path in [&root, &state] {
        std::fs::create_dir_all(path).expect("a folder that may be written");
    }
    let write = |folder: &Path, file: &ServiceFile| {
        std::fs::write(folder.join(&file.path), &file.contents).expect("a folder that may be written");
    };
    for file in service_files(parameters).expect("a good size") {
        write(&root, &file);
    }
    for file in certificate() {
        write(&state, &file);
    }
    let conf = folder.join("nginx.conf");
    let port = port.parse().expect("a port");
    let mut text = nginx_conf(1, port, &root, &state);
    if parameters.tls {
        let guests = service_conf(parameters, 1, &root, &state);
        text = guests.replace("listen 443 ssl", &format!("listen {port} ssl"));
        text = text.replace("listen 80 default_server", &format!("listen unix:{}/plain", state.display()));
        assert!(!text.contains("listen 443") && !text.contains("listen 80 "), "a port of a guest: {text}");
    }
    std::fs::write(&conf, text).expect("a folder that may be written");
    let error = Command::new(NGINX).args(nginx_arguments(&conf)).exec();
    panic!("{NGINX} does not start: {error}");
}

fn load(job: &LoadJob) {
    let factory = WebFactory::new(job).expect("a good mix");
    let stop = Stop::new().expect("an eventfd");
    let gathered = Gathered::of(|start, events| tilemark_load::run(job, &factory, &stop, start, events))
        .expect("a load");
    let totals = &gathered.totals;
    let completed: u64 = totals.iter().map(|total| total.counts.completed).sum();
    let bad: u64 = totals.iter().map(|total| total.counts.failed + total.counts.wrong).sum();
    let processor_s: f64 = totals.iter().map(|total| total.client_cpu_s).sum();
    let in_ms = |times: Histogram<u64>| {
        let at = |quantile| times.value_at_quantile(quantile) as f64 / 1e6;
        (!times.is_empty()).then(|| serde_json::json!({ "p50": at(0.5), "p99": at(0.99), "p999": at(0.999) }))
    };
    let latency = in_ms(gathered.latency(|_| true).expect("ours"));
    let lateness = in_ms(gathered.lateness(|_| true).expect("ours"));
    let document = serde_json::json!({
        "requests_per_s": totals.iter().map(|total| total.counts.completed as f64 / total.seconds).sum::<f64>(),
        "completed": completed,
        "errors": bad,
        "processor_us_per_request": processor_s * 1e6 / completed as f64,
        "latency_ms": latency,
        "lateness_ms": lateness,
        "sender": gathered.sender.map(|sender| serde_json::json!({
            "real_time": sender.real_time, "timer_slack_ns": sender.timer_slack_ns, "pinned": sender.pinned,
        })),
    });
    println!("{document}");
}
