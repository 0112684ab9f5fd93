//! `tilemark load`

use super::load_store;
use crate::{
    arguments::{
        Delivery, LatencyArguments, LoadCommand, LoadWebArguments, ThroughputArguments, TrustArguments,
    },
    carried::PROGRAM,
    exit,
    screen::{self, Form, Watcher},
};
use std::process::ExitCode;
use tilemark_run::{
    failure::Failure,
    progress::Listener,
    standalone::messaging::{self, Judged, MessagingMode, MessagingParameters},
    standalone::password,
    standalone::trust::Trust,
    standalone::web_load::{self, WebLoadRequest, WebLoadResult},
};
use tilemark_units::Bytes;

/// Sends a load alone.
pub(crate) fn load(command: LoadCommand) -> ExitCode {
    match command {
        LoadCommand::Web(arguments) => web(&arguments),
        LoadCommand::MessagingThroughput(arguments) => throughput(&arguments),
        LoadCommand::MessagingLatency(arguments) => latency(&arguments),
        LoadCommand::Store(arguments) => load_store::store(&arguments),
    }
}

fn web(arguments: &LoadWebArguments) -> ExitCode {
    let form = Form::of(arguments.json);
    let asked = WebLoadRequest {
        url: arguments.url.clone(),
        requests: arguments.requests.clone(),
        method: arguments.method.clone(),
        headers: arguments.headers.clone(),
        body: arguments.body.clone(),
        expect_status: arguments.expect_status,
        contains: arguments.contains.clone(),
        any_length: arguments.any_length,
        ca: arguments.ca.clone(),
        insecure: arguments.insecure,
        connections: arguments.connections,
        seconds: arguments.seconds,
        rate: arguments.rate,
        arrival: arguments.arrival.into(),
        seed: arguments.seed,
    };
    match web_load::web(&PROGRAM, &asked) {
        Err(failure) => screen::fail(&failure, form),
        Ok(result) => {
            match form {
                Form::Json => screen::print_json(&result),
                Form::Text => screen::print_text(&described(&result)),
            }
            ExitCode::from(exit::exit_code(result.verdict.status))
        }
    }
}

fn described(result: &WebLoadResult) -> String {
    let ms = |value: Option<f64>| value.map_or("too few".to_owned(), |value| format!("{value:.3} ms"));
    let latency = &result.latency_ms;
    let mut lines = vec![
        format!(
            "{:.1} requests/s over {:.1} s, {} loop, to {}",
            result.requests_per_s, result.seconds, result.loop_kind, result.target
        ),
        format!(
            "latency: p50 {}, p90 {}, p99 {}, p99.9 {}, max {}",
            ms(latency.p50),
            ms(latency.p90),
            ms(latency.p99),
            ms(latency.p999),
            ms(latency.max)
        ),
        format!("errors: {} of {}", result.errors, result.offered),
    ];
    lines.extend(result.error_examples.iter().map(|error| format!("  {error}")));
    lines.extend(result.verdict.reasons.iter().map(|reason| format!("not trusted: {reason}")));
    lines.join("\n")
}

fn throughput(arguments: &ThroughputArguments) -> ExitCode {
    let messages = MessagingParameters {
        size: Bytes::new(arguments.size as u64),
        queues: arguments.queues.into(),
        publishers: arguments.publishers.into(),
        subscribers: arguments.subscribers.into(),
        mode: match arguments.mode {
            Delivery::Shared => MessagingMode::Shared,
            Delivery::Fanout => MessagingMode::Fanout,
            Delivery::Topic => MessagingMode::Topic,
        },
        durable: arguments.durable,
        confirms: arguments.confirms,
        acknowledge: arguments.ack,
        prefetch: arguments.prefetch.into(),
        transactions: arguments.transactions,
        count: arguments.count.unwrap_or(0),
        ..MessagingParameters::default()
    };
    let mut watcher = Watcher::new();
    warn_of_password(&arguments.broker, &mut watcher);
    let sent = messaging::throughput(
        &arguments.broker,
        &trust(&arguments.trust),
        messages,
        arguments.seconds,
        &mut watcher,
    );
    show_judged(sent, Form::of(arguments.json), |figures| {
        format!(
            "{:.0} messages/s ({:.0} transfers/s), {:.1} MB/s in and out\nlost {}, duplicated {}, reordered {}\n\
             processor time of the load: {:.2} s",
            figures.messages_per_s,
            figures.transfers_per_s,
            figures.megabytes_per_s,
            figures.lost,
            figures.duplicated,
            figures.reordered,
            figures.client_cpu_s,
        )
    })
}

fn latency(arguments: &LatencyArguments) -> ExitCode {
    let (size, durable) = (Bytes::new(arguments.size as u64), arguments.durable);
    let messages = MessagingParameters { size, durable, ..MessagingParameters::default() };
    let mut watcher = Watcher::new();
    warn_of_password(&arguments.broker, &mut watcher);
    let LatencyArguments { broker, rate, seconds, .. } = arguments;
    let sent = messaging::latency(broker, &trust(&arguments.trust), messages, *rate, *seconds, &mut watcher);
    show_judged(sent, Form::of(arguments.json), |figures| {
        let latency = figures.latency_ms.map_or_else(
            || "none, for no message came".to_owned(),
            |latency| {
                format!(
                    "mean {:.3} ms (deviation {:.3}), p50 {:.3}, p99 {:.3}, p99.9 {:.3}, max {:.3}",
                    latency.mean, latency.deviation, latency.p50, latency.p99, latency.p999, latency.max
                )
            },
        );
        let late = figures.send_lateness_us.map_or_else(
            || "none was sent".to_owned(),
            |late| format!("p50 {:.1} µs, p99 {:.1} µs", late.p50, late.p99),
        );
        format!(
            "{:.0} messages/s\nlatency: {latency}\nsent late: {late}\nlost {}, duplicated {}, reordered {}",
            figures.messages_per_s, figures.lost, figures.duplicated, figures.reordered,
        )
    })
}

fn trust(given: &TrustArguments) -> Trust {
    Trust { ca: given.ca.clone(), insecure: given.insecure }
}

fn warn_of_password(broker: &str, watcher: &mut Watcher) {
    if let Some(advice) = password::advice(broker, password::BROKER) {
        watcher.note(&advice);
    }
}

/// Prints a report with its verdict; in JSON the verdict is among the figures.
fn show_judged<R: serde::Serialize>(
    outcome: Result<Judged<R>, Failure>,
    form: Form,
    described: impl Fn(&R) -> String,
) -> ExitCode {
    let judged = match outcome {
        Err(failure) => return screen::fail(&failure, form),
        Ok(judged) => judged,
    };
    match form {
        Form::Json => {
            let mut document = serde_json::to_value(&judged.figures).expect("reports have only text keys");
            document["verdict"] =
                serde_json::to_value(&judged.verdict).expect("verdicts have only text keys");
            screen::print_json(&document);
        }
        Form::Text => {
            screen::print_text(&described(&judged.figures));
            for reason in &judged.verdict.reasons {
                screen::print_text(&format!("not trusted: {reason}"));
            }
        }
    }
    ExitCode::from(exit::exit_code(judged.verdict.status))
}
