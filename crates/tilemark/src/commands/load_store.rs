//! `tilemark load store`

use crate::{
    arguments::LoadStoreArguments,
    screen::{self, Form, Watcher},
};
use std::{process::ExitCode, time::Duration};
use tilemark_run::{
    failure::Failure,
    progress::Listener,
    standalone::password,
    standalone::store_load::{self, Demand, Latency, LoadResult, Pace, Status},
};

/// Sends a store's customers to a database.
pub(crate) fn store(arguments: &LoadStoreArguments) -> ExitCode {
    let form = Form::of(arguments.json);
    screen::show_with(send(arguments), form, described, |result| {
        if result.verdict.status == Status::Trusted { 0 } else { 5 }
    })
}

fn send(arguments: &LoadStoreArguments) -> Result<LoadResult, Failure> {
    let database = store_load::address(&arguments.database)?;
    let demand = Demand {
        clients: arguments.clients,
        pace: match arguments.rate {
            Some(orders_per_second) => Pace::Open { orders_per_second, arrivals: arguments.arrival.into() },
            None => Pace::Closed { think_time: store_load::think_time(arguments.think_time)? },
        },
        warmup: Duration::from_secs(arguments.warmup),
        measure: Duration::from_secs(arguments.seconds),
        window: arguments.window.map(Duration::from_secs),
        new_customer_percent: arguments.new_customers,
        searches_mean: arguments.searches,
        search_rows_mean: arguments.search_rows,
        items_mean: arguments.items,
        seed: arguments.seed,
        ..Demand::default()
    };
    let mut watcher = Watcher::new();
    if let Some(advice) = password::advice(&arguments.database, password::DATABASE) {
        watcher.note(&advice);
    }
    store_load::load(database, demand, &mut watcher)
}

fn described(result: &LoadResult) -> String {
    let number = |value: Option<f64>| value.map_or("none".to_owned(), |value| format!("{value:.0}"));
    let percent = |part: Option<f64>| part.map_or("none".to_owned(), |part| format!("{:.2} %", 100.0 * part));
    let mut lines = vec![
        format!(
            "{} orders a minute over {:.0} s, all committed, by {} clients",
            number(result.orders_per_minute),
            result.measured_s,
            result.demand.clients
        ),
        format!(
            "rolled back because stock ran out: {} ({}); tried again: {}; errors: {}",
            result.rollbacks,
            percent(result.rollback_fraction),
            result.retries,
            result.errors
        ),
    ];
    lines.extend(result.latency_ms.iter().map(|(step, latency)| line_of(step, latency, "ms")));
    lines.extend(result.send_lateness_us.iter().map(|late| line_of("sent late", late, "µs")));
    if let Some(steady) = result.steady {
        let (from, to, rate) = (steady.from_s, steady.to_s, steady.orders_per_minute);
        lines.push(format!("steady from second {from} to {to}: {rate:.0} orders a minute"));
    }
    lines.push(format!("audit: {}", result.audit));
    lines.push(format!("server: {}", result.store.server));
    let settings: Vec<String> =
        result.store.settings.iter().map(|setting| format!("{} = {}", setting.name, setting.value)).collect();
    lines.push(format!("durability and memory: {}", settings.join(", ")));
    lines.push(format!("processor time of the clients: {:.2} s", result.client_cpu_s));
    let word = match result.verdict.status {
        Status::Trusted => "trusted",
        Status::NotTrusted => "not trusted",
        Status::CannotTell => "cannot tell",
    };
    lines.extend(result.verdict.reasons.iter().map(|reason| format!("{word}: {reason}")));
    lines.join("\n")
}

fn line_of(what: &str, latency: &Latency, unit: &str) -> String {
    let of = |value: Option<f64>| value.map_or("too few".to_owned(), |value| format!("{value:.2}"));
    format!(
        "{what:>13}: p50 {}, p99 {}, max {:.2} {unit} ({} times)",
        of(latency.p50),
        of(latency.p99),
        latency.max,
        latency.count
    )
}
