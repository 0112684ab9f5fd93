//! `tilemark load`: a load alone, against any address, from the caller's own network.

use crate::{
    failure::{Failure, FailureCode},
    pass::load_alone::{End, run_alone},
    pass::load_figures::LoadReports,
    pass::load_process::{AgentProcess, load_failed},
    plan::host::emulated_reason,
    program::Program,
    standalone::port::{self, Protocol},
    standalone::trust::{Trust, text_of},
};
use serde::Serialize;
use std::{
    collections::BTreeMap,
    net::{SocketAddr, ToSocketAddrs},
    path::{Path, PathBuf},
};
use tilemark_agent_protocol::{LoadJob, Stream};
use tilemark_plan::{
    plan::Demand,
    problem::{Problem, Problems},
    scenario::{Arrival, Gate},
    workload::{REQUEST_FILE_BYTES_MAX, WebParameters, Work, parse_requests},
};
use tilemark_record::result::{LatencyMs, LatenessUs, Verdict, VerdictStatus};
use tilemark_statistics::judge::{LATENESS_OF_P99_MAX, SENDER_BUSY_MAX};
use tilemark_units::{Rate, Span};

/// How long a load waits for its last answers after its end: a slow service has not failed.
const LAST_ANSWERS: Span = Span::from_seconds(10);

/// A web load that was asked for.
#[derive(Debug, Clone)]
pub struct WebLoadRequest {
    /// Such as `https://shop.example:8443/index.html`.
    pub url: String,
    /// File of requests with weights, instead of the URL's path.
    pub requests: Option<PathBuf>,
    /// Method of the requests.
    pub method: Option<String>,
    /// Headers, each as `Name: value`.
    pub headers: Vec<String>,
    /// Body of the requests; with `@` before it, the path of a file with the body.
    pub body: Option<String>,
    /// Status of a right answer.
    pub expect_status: Option<u16>,
    /// Text that a right answer contains.
    pub contains: Option<String>,
    /// Answers may have any length.
    pub any_length: bool,
    /// File with the certificates of authorities; `None`: those of the host.
    pub ca: Option<PathBuf>,
    /// Any certificate is accepted.
    pub insecure: bool,
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
    /// Requests answered correctly.
    pub completed: u64,
    /// Requests answered correctly, a second.
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
    let url = Url::read(&asked.url)?;
    let parameters = parameters(asked, &url)?;
    let target = url.resolve()?;
    if !url.tls {
        port::check(&[target], Protocol::Http)?;
    }
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
    let work = Work::Web(parameters);
    let stream = Stream {
        connections: asked.connections,
        seed: asked.seed,
        drain: LAST_ANSWERS,
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

/// A file whose name starts the body of `--body`.
const OF_FILE: char = '@';
/// What is asked, checked.
fn parameters(asked: &WebLoadRequest, url: &Url) -> Result<WebParameters, Failure> {
    let request = match &asked.requests {
        None => Vec::new(),
        Some(file) if url.path != "/" => {
            return Err(Failure::new(
                FailureCode::BadInput,
                format!("`--requests {}` beside the path `{}`", file.display(), url.path),
                "leave the path out: the file has the paths",
            ));
        }
        Some(file) => {
            let text = text_of(file, "--requests", REQUEST_FILE_BYTES_MAX)?;
            parse_requests(&text, &file.display().to_string()).map_err(Problems::from)?
        }
    };
    let body = match &asked.body {
        Some(text) => Some(match text.strip_prefix(OF_FILE) {
            Some(file) => text_of(Path::new(file), "--body", REQUEST_FILE_BYTES_MAX)?,
            None => text.clone(),
        }),
        None => None,
    };
    if !url.tls && (asked.ca.is_some() || asked.insecure) {
        return Err(Failure::new(
            FailureCode::BadInput,
            format!("`{}` has no TLS, and `--ca` or `--insecure` was given", url.text),
            "write https://, or leave out `--ca` and `--insecure`",
        ));
    }
    let trust = Trust { ca: asked.ca.clone(), insecure: asked.insecure };
    let ca = if url.tls { trust.ca()? } else { None };
    let parameters = WebParameters {
        path: asked.requests.is_none().then(|| url.path.clone()),
        request,
        host: Some(url.host_header()),
        tls: url.tls,
        ca,
        insecure: asked.insecure,
        method: asked.method.clone(),
        headers: headers(&asked.headers)?,
        body,
        expect_status: asked.expect_status,
        contains: asked.contains.clone(),
        any_length: asked.any_length,
        ..WebParameters::default()
    };
    let mut problems = Vec::new();
    parameters.check_alone("web", &mut |message: String, remedy: &str| {
        problems.push(Problem::new(message, remedy))
    });
    if problems.is_empty() { Ok(parameters) } else { Err(Problems(problems).into()) }
}

fn headers(lines: &[String]) -> Result<BTreeMap<String, String>, Failure> {
    let header = |line: &String| {
        let (name, value) = line.split_once(':').ok_or_else(|| {
            Failure::new(
                FailureCode::BadInput,
                format!("`--header {line}` is not a header"),
                "write it like --header 'Accept: text/html'",
            )
        })?;
        Ok((name.trim().to_owned(), value.trim().to_owned()))
    };
    lines.iter().map(header).collect()
}

/// `http://HOST[:PORT]/PATH` or `https://…`.
#[derive(Debug, PartialEq, Eq)]
struct Url {
    text: String,
    tls: bool,
    /// As it is written: with the brackets of IPv6.
    host: String,
    port: u16,
    path: String,
}

impl Url {
    fn read(text: &str) -> Result<Self, Failure> {
        let wrong = |why: &str| {
            Failure::new(
                FailureCode::BadInput,
                format!("`{text}` cannot be loaded: {why}"),
                "write it like http://127.0.0.1:8080/index.html or https://shop.example/",
            )
        };
        let (tls, rest) = match (text.strip_prefix("http://"), text.strip_prefix("https://")) {
            (Some(rest), _) => (false, rest),
            (_, Some(rest)) => (true, rest),
            _ => return Err(wrong("it starts with neither http:// nor https://")),
        };
        let (place, path) = rest.split_at(rest.find(['/', '?']).unwrap_or(rest.len()));
        if place.contains('@') {
            return Err(wrong("a user in the address is not supported; give --header 'Authorization: …'"));
        }
        let path = if path.starts_with('/') { path.to_owned() } else { format!("/{path}") };
        let host_ends = if place.starts_with('[') { place.find(']').map_or(0, |end| end + 1) } else { 0 };
        let (host, port) = match place[host_ends..].split_once(':') {
            Some((_, port)) => {
                let number = port.parse::<u16>().ok().filter(|port| *port > 0);
                let number = number.ok_or_else(|| wrong("its port is not a number from 1 to 65535"))?;
                (&place[..place.len() - port.len() - 1], number)
            }
            None => (place, if tls { 443 } else { 80 }),
        };
        if host.is_empty() {
            return Err(wrong("it has no host"));
        }
        Ok(Self { text: text.to_owned(), tls, host: host.to_owned(), port, path })
    }

    /// As it is sent to the server: without the port that its scheme has anyway.
    fn host_header(&self) -> String {
        let usual = if self.tls { 443 } else { 80 };
        if self.port == usual { self.host.clone() } else { format!("{}:{}", self.host, self.port) }
    }

    /// Its first address. A name is looked up once, before anything is measured.
    fn resolve(&self) -> Result<SocketAddr, Failure> {
        let host = self.host.trim_matches(['[', ']']);
        let unknown = |cause: String| Failure {
            causes: vec![cause],
            ..Failure::new(
                FailureCode::HostUnfit,
                format!("the host `{}` is not known", self.host),
                "check its spelling and this host's DNS, or give an address",
            )
        };
        let mut found = (host, self.port).to_socket_addrs().map_err(|error| unknown(error.to_string()))?;
        found.next().ok_or_else(|| unknown("it has no address".to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_read_with_and_without_port_and_path() {
        for (text, address, host, path) in [
            ("http://127.0.0.1:8080/a/b?c", "127.0.0.1:8080", "127.0.0.1:8080", "/a/b?c"),
            ("http://10.0.0.1", "10.0.0.1:80", "10.0.0.1", "/"),
            ("http://[::1]:81/", "[::1]:81", "[::1]:81", "/"),
            ("https://[::1]", "[::1]:443", "[::1]", "/"),
            ("https://127.0.0.1:443/x", "127.0.0.1:443", "127.0.0.1", "/x"),
            ("http://127.0.0.1?q", "127.0.0.1:80", "127.0.0.1", "/?q"),
        ] {
            let url = Url::read(text).unwrap();
            let found = (url.resolve().unwrap().to_string(), url.host_header(), url.path.clone());
            assert_eq!(found, (address.to_owned(), host.to_owned(), path.to_owned()), "{text}");
        }
    }

    #[test]
    fn an_invalid_url_is_refused_with_an_example() {
        for text in ["ftp://127.0.0.1/", "127.0.0.1", "http://", "http://a:b/", "http://a:0/", "http://u@a/"]
        {
            let failure = Url::read(text).unwrap_err();
            assert!(failure.remedy.contains("http://127.0.0.1:8080"), "{failure:?}");
        }
    }
}
