//! The messaging loads alone: `tilemark load messaging-…`.

use crate::{
    failure::{Failure, FailureCode},
    plan::host::emulated_reason,
    progress::Listener,
    standalone::interruptible::{OnInterrupt, until_interrupted_again},
    standalone::password,
    standalone::port::{self, Protocol},
    standalone::trust::Trust,
    stop::interrupted,
};
use serde::Serialize;
use std::time::{Duration, Instant};
use tilemark_amqp_load::{
    BrokerAddress, Director, Gauge, LatencyLoad, LatencyReport, LoadError, ThroughputLoad, ThroughputReport,
    latency_under, throughput_under,
};
use tilemark_record::result::{Verdict, VerdictStatus};
use tilemark_statistics::judge::LATENESS_OF_P99_MAX;
use tilemark_sys::limits::raise_open_files;

pub use tilemark_amqp_load::{MessagingMode, MessagingParameters};

/// Leads a load by itself, which Ctrl-C or SIGTERM ends early: what was sent is still received, accounted for and taken
/// from the broker.
#[derive(Debug, Default)]
struct UntilInterrupted(Gauge);

impl Director for UntilInterrupted {
    fn thread_begins(&self) {}

    fn ready(&self) -> Option<Instant> {
        // One that was interrupted before sends nothing, and says so like any other.
        Some(Instant::now())
    }

    fn is_over(&self) -> bool {
        interrupted()
    }

    fn gauge(&self) -> &Gauge {
        &self.0
    }

    fn keeps_what_was_measured(&self) -> bool {
        true
    }
}

const ON_INTERRUPT: OnInterrupt = OnInterrupt {
    first: "stopping the load and printing its figures; Ctrl-C again stops it immediately",
    remedy: "delete queues whose names begin with `tilemark-` from the broker if they are still there after two minutes: most brokers do so themselves",
};

/// Sends a load that Ctrl-C ends.
fn send<R: Send + 'static>(
    listener: &mut dyn Listener,
    load: impl FnOnce() -> Result<R, Failure> + Send + 'static,
) -> Result<R, Failure> {
    raise_open_files();
    until_interrupted_again(listener, &ON_INTERRUPT, |_| {}, load)
}

/// A report with its verdict.
#[derive(Debug, Clone, Serialize)]
pub struct Judged<R> {
    /// The figures.
    pub figures: R,
    /// Whether they can be trusted.
    pub verdict: Verdict,
}

/// As many messages as the broker takes, published for so many seconds. The broker is such as
/// `amqp://guest:guest@127.0.0.1:5672`; a user without a password has that of [`password::BROKER`].
pub fn throughput(
    broker: &str,
    trust: &Trust,
    messages: MessagingParameters,
    seconds: u64,
    listener: &mut dyn Listener,
) -> Result<Judged<ThroughputReport>, Failure> {
    let seconds = Duration::from_secs(seconds);
    let broker = address(broker, trust)?;
    let messages = MessagingParameters { tls: broker.has_tls(), ..messages };
    let load = ThroughputLoad { messages, seconds, ..ThroughputLoad::new(broker) };
    send(listener, move || send_throughput(&load))
}

fn send_throughput(load: &ThroughputLoad) -> Result<Judged<ThroughputReport>, Failure> {
    let figures = throughput_under(load, &UntilInterrupted::default())?;
    let verdict = verdict(
        &[
            ("lost", figures.lost),
            ("duplicated", figures.duplicated),
            ("reordered", figures.reordered),
            ("damaged", figures.damaged),
            ("refused", figures.refused),
        ],
        &figures.errors,
    );
    Ok(Judged { figures, verdict })
}

/// How long messages take at so many a second, published for so many seconds.
pub fn latency(
    broker: &str,
    trust: &Trust,
    messages: MessagingParameters,
    rate: u64,
    seconds: u64,
    listener: &mut dyn Listener,
) -> Result<Judged<LatencyReport>, Failure> {
    let seconds = Duration::from_secs(seconds);
    let broker = address(broker, trust)?;
    let messages = MessagingParameters { tls: broker.has_tls(), ..messages };
    let load = LatencyLoad { messages, rate, seconds, ..LatencyLoad::new(broker) };
    send(listener, move || send_latency(&load))
}

fn send_latency(load: &LatencyLoad) -> Result<Judged<LatencyReport>, Failure> {
    let figures = latency_under(load, &UntilInterrupted::default())?;
    let mut errors = figures.errors.clone();
    errors.extend(late(&figures));
    let verdict = verdict(
        &[
            ("lost", figures.lost),
            ("duplicated", figures.duplicated),
            ("reordered", figures.reordered),
            ("damaged", figures.damaged),
        ],
        &errors,
    );
    Ok(Judged { figures, verdict })
}

/// Why the latency is partly the load's own; nothing where it is not. A run forgives lateness that is little beside its gate; here the
/// latency itself is the answer.
fn late(figures: &LatencyReport) -> Option<String> {
    let (lateness, latency) = (figures.send_lateness_us?, figures.latency_ms?);
    let late_ms = lateness.p99 / 1e3;
    (late_ms > LATENESS_OF_P99_MAX * latency.p99).then(|| {
        format!(
            "messages were sent {late_ms:.2} ms late at p99, over {:.0} % of their p99 of {:.2} ms: part of the latency is the load's own",
            100.0 * LATENESS_OF_P99_MAX,
            latency.p99
        )
    })
}

/// Understands an address; the password of its user may be in the environment instead.
fn address(text: &str, trust: &Trust) -> Result<BrokerAddress, Failure> {
    let apart = password::of_environment(password::BROKER);
    let broker = BrokerAddress::read(text, apart.as_deref())?;
    if !broker.has_tls() && (trust.ca.is_some() || trust.insecure) {
        return Err(Failure::new(
            FailureCode::BadInput,
            "the broker's address has no TLS, and `--ca` or `--insecure` was given",
            "write amqps://, or leave out `--ca` and `--insecure`",
        ));
    }
    if !broker.has_tls() {
        port::check(broker.sockets(), Protocol::Amqp)?;
    }
    let ca = if broker.has_tls() { trust.ca()? } else { None };
    Ok(broker.trusting(ca))
}

impl From<LoadError> for Failure {
    fn from(error: LoadError) -> Self {
        let (code, remedy) = match &error {
            LoadError::Address { .. } => (
                FailureCode::BadInput,
                format!("give it as amqp://USER@HOST:5672/ with the password in {}", password::BROKER),
            ),
            LoadError::NoPassword { .. } => (FailureCode::BadInput, format!("set {}", password::BROKER)),
            LoadError::Setting(_) => (FailureCode::BadInput, error.remedy().to_owned()),
            _ => (FailureCode::HostUnfit, error.remedy().to_owned()),
        };
        Self::from_error(code, &error, remedy)
    }
}

fn verdict(counts: &[(&str, u64)], errors: &[String]) -> Verdict {
    let mut reasons: Vec<String> = counts
        .iter()
        .filter(|(_, count)| *count > 0)
        .map(|(what, count)| format!("{count} messages were {what}"))
        .collect();
    reasons.extend(errors.iter().cloned());
    if interrupted() {
        reasons.push(
            "it was stopped by Ctrl-C or SIGTERM; the figures are of what was done until then".to_owned(),
        );
    }
    reasons.extend(emulated_reason());
    let status = if reasons.is_empty() { VerdictStatus::Trusted } else { VerdictStatus::NotTrusted };
    Verdict { status, reasons }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tilemark_amqp_load::{LatencyFigures, LatenessFigures};

    #[test]
    fn messages_that_were_sent_late_make_a_latency_of_the_load_s_own() {
        let of = |late_us: f64, latency_ms: f64| {
            late(&LatencyReport {
                send_lateness_us: Some(LatenessFigures { p99: late_us, ..LatenessFigures::default() }),
                latency_ms: Some(LatencyFigures { p99: latency_ms, ..LatencyFigures::default() }),
                ..LatencyReport::default()
            })
        };
        let late = of(90_000.0, 120.0).unwrap();
        assert!(late.contains("90.00 ms late at p99") && late.contains("120.00 ms"), "{late}");
        assert_eq!(of(90.0, 1.0), None);
        assert_eq!(self::late(&LatencyReport::default()), None);
    }
}
