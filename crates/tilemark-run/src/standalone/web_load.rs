//! `tilemark load`: a load alone, against any address, from the caller's own network.

use crate::{
    failure::{Failure, FailureCode},
    pass::load_alone::{End, run_alone},
    pass::load_figures::LoadReports,
    pass::load_process::{AgentProcess, load_failed},
    plan::host::emulated_reason,
    program::Program,
};
use serde::Serialize;
use std::net::SocketAddr;
use tilemark_agent_protocol::{LoadJob, Stream};
use tilemark_plan::{
    plan::Demand,
    scenario::{Arrival, Gate},
    workload::{WebParameters, Work},
};
use tilemark_record::result::{LatencyMs, LatenessUs, Verdict, VerdictStatus};
use tilemark_statistics::judge::{LATENESS_OF_P99_MAX, SENDER_BUSY_MAX};
use tilemark_units::{Rate, Span};

/// A web load that was asked for.
#[derive(Debug, Clone)]
pub struct WebLoadRequest {
    /// Such as `http://127.0.0.1:8080/index.html`.
    pub url: String,
    /// Connections.
    pub connections: u32,
    /// Length of the measurement.
    pub seconds: u64,
    /// Requests a second; `None`: closed loop.
    pub rate: Option<f64>,
    /// How requests of a rate are spread.
    pub arrival: Arrival,
    /// Seed of the schedule.
    pub seed: u64,
}

/// What a load alone found.
#[derive(Debug, Clone, Serialize)]
pub struct WebLoadResult {
    /// Where it was sent.
    pub target: String,
    /// `open` or `closed`.
    #[serde(rename = "loop")]
    pub loop_kind: &'static str,
    /// Length of the measurement.
    pub seconds: f64,
    /// Requests whose intended start came.
    pub offered: u64,
    /// Requests answered rightly.
    pub completed: u64,
    /// Requests answered rightly, a second.
    pub requests_per_s: f64,
    /// Bytes of bodies a second, in 10^6.
    pub megabytes_per_s: f64,
    /// Requests that failed or were answered wrongly.
    pub errors: u64,
    /// The first of them in words.
    pub error_examples: Vec<String>,
    /// Processor seconds of the load.
    pub client_cpu_s: f64,
    /// The busiest load thread, 0 to 1.
    pub sender_busy_max: f64,
    /// Latency, in an open loop from intended start.
    pub latency_ms: LatencyMs,
    /// How late requests were sent.
    pub send_lateness_us: LatenessUs,
    /// Whether that can be trusted.
    pub verdict: Verdict,
}

/// Sends a web load. Ctrl-C ends it, and its figures up to then are reported too.
pub fn web(program: &Program, asked: &WebLoadRequest) -> Result<WebLoadResult, Failure> {
    let (target, path) = parse_url(&asked.url)?;
    let demand = match asked.rate {
        None => Demand::Closed,
        Some(rate) => Demand::Open {
            rate: Rate::per_second(rate).filter(|rate| rate.get() > 0.0).ok_or_else(|| {
                Failure::new(
                    FailureCode::BadInput,
                    format!("`--rate {rate}` is not a valid rate"),
                    "give a number above 0",
                )
            })?,
            arrival: asked.arrival,
            burst_every: Span::from_seconds(5),
            burst_length: Span::from_seconds(1),
            surge: None,
        },
    };
    let work = Work::Web(WebParameters { path: Some(path), ..WebParameters::default() });
    let stream = Stream {
        connections: asked.connections,
        seed: asked.seed,
        ..Stream::new(0, target, demand.clone(), work)
    };
    let job = LoadJob {
        streams: vec![stream],
        processors: Vec::new(),
        warmup: Span::from_milliseconds(500),
        length: Span::from_seconds(asked.seconds),
    };
    let process = AgentProcess::start(program.agent).map_err(load_failed)?;
    let (reports, end) = run_alone(process, &job)?;
    result(asked, target, &demand, &reports, end)
}

fn result(
    asked: &WebLoadRequest,
    target: SocketAddr,
    demand: &Demand,
    reports: &LoadReports,
    end: End,
) -> Result<WebLoadResult, Failure> {
    let figures = reports
        .of_one_stream(0)
        .map_err(|error| Failure::from_error(FailureCode::Bug, &error, "report it"))?;
    let errors = figures.counts.failed + figures.counts.wrong;
    let seconds = figures.seconds.max(f64::MIN_POSITIVE);
    let mut reasons: Vec<String> = emulated_reason().into_iter().collect();
    if end == End::Interrupted {
        reasons.push(format!("it was stopped by Ctrl-C after {:.1} of {} s", figures.seconds, asked.seconds));
    }
    let busy = reports.sender_busy().max_fraction;
    if busy > SENDER_BUSY_MAX && asked.rate.is_some() {
        reasons.push(format!("the load used {:.0} % of its processor", busy * 100.0));
    }
    // A run forgives lateness that is little beside its gate; here the latency itself is the answer.
    if let (Some(_), Some(lateness), Some(p99)) =
        (asked.rate, figures.lateness_us.p99, figures.latency_ms.p99)
        && lateness / 1e3 > LATENESS_OF_P99_MAX * p99
    {
        reasons.push(format!(
            "requests were sent {lateness:.0} µs late at p99, beside a latency of {p99:.3} ms"
        ));
    }
    let offered = figures.counts.offered;
    if figures.counts.completed == 0 {
        reasons.push("nothing was answered correctly".to_owned());
    } else if errors as f64 > Gate::default().errors.get() * offered as f64 {
        // As much as a point's gate lets pass by default.
        reasons.push(format!(
            "{errors} of {offered} requests failed or were answered wrongly, and their times are among the latencies"
        ));
    }
    let status = if reasons.is_empty() { VerdictStatus::Trusted } else { VerdictStatus::NotTrusted };
    Ok(WebLoadResult {
        target: target.to_string(),
        loop_kind: if matches!(demand, Demand::Closed) { "closed" } else { "open" },
        seconds: figures.seconds,
        offered,
        completed: figures.counts.completed,
        requests_per_s: figures.completed_in_time as f64 / seconds,
        megabytes_per_s: figures.counts.bytes as f64 / seconds / 1e6,
        errors,
        error_examples: figures.errors,
        client_cpu_s: figures.client_cpu_s,
        sender_busy_max: busy,
        latency_ms: figures.latency_ms,
        send_lateness_us: figures.lateness_us,
        verdict: Verdict { status, reasons },
    })
}

/// `http://ADDRESS[:PORT]/PATH`; names are not looked up, so that nothing but the load is measured.
fn parse_url(url: &str) -> Result<(SocketAddr, String), Failure> {
    let wrong = |why: &str| {
        Failure::new(
            FailureCode::BadInput,
            format!("`{url}` cannot be loaded: {why}"),
            "write it like http://127.0.0.1:8080/index.html",
        )
    };
    let rest = url.strip_prefix("http://").ok_or_else(|| wrong("only http:// is spoken"))?;
    let (host, path) = rest.find('/').map_or((rest, "/"), |slash| rest.split_at(slash));
    let target = host.parse::<SocketAddr>().or_else(|_| format!("{host}:80").parse());
    Ok((target.map_err(|_| wrong("its host must be an address"))?, path.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_read_with_and_without_port_and_path() {
        for (url, address, path) in [
            ("http://127.0.0.1:8080/a/b?c", "127.0.0.1:8080", "/a/b?c"),
            ("http://10.0.0.1", "10.0.0.1:80", "/"),
            ("http://[::1]:81/", "[::1]:81", "/"),
        ] {
            let (target, found) = parse_url(url).unwrap();
            assert_eq!((target.to_string().as_str(), found.as_str()), (address, path));
        }
    }

    #[test]
    fn a_name_or_another_scheme_is_refused_with_an_example() {
        for url in ["https://127.0.0.1/", "http://localhost/", "127.0.0.1"] {
            let failure = parse_url(url).unwrap_err();
            assert!(failure.remedy.contains("http://127.0.0.1:8080"), "{failure:?}");
        }
    }
}
