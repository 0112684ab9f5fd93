//! `tilemark load`

use crate::{
    PROGRAM,
    arguments::{LoadCommand, LoadWebArguments},
    screen::{self, Form},
};
use std::process::ExitCode;
use tilemark_record::result::VerdictStatus;
use tilemark_run::{
    alone::{self, AloneResult, WebAlone},
    plan_words::Arrival,
};

/// Sends a load alone.
pub fn load(command: LoadCommand) -> ExitCode {
    match command {
        LoadCommand::Web(arguments) => web(&arguments),
    }
}

fn web(arguments: &LoadWebArguments) -> ExitCode {
    let form = Form::of(arguments.json);
    let asked = WebAlone {
        url: arguments.url.clone(),
        connections: arguments.connections,
        seconds: arguments.seconds,
        rate: arguments.rate,
        arrival: if arguments.arrival == "even" { Arrival::Even } else { Arrival::Poisson },
        seed: arguments.seed,
    };
    match alone::web(&PROGRAM, &asked) {
        Err(failure) => screen::fail(&failure, form),
        Ok(result) => {
            match form {
                Form::Json => screen::print_json(&result),
                Form::Text => screen::print_text(&described(&result)),
            }
            ExitCode::from(if result.verdict.status == VerdictStatus::Trusted { 0 } else { 5 })
        }
    }
}

fn described(result: &AloneResult) -> String {
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
