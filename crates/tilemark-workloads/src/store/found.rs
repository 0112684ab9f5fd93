//! What a store load found, as it travels and is recorded.

use tilemark_plan::workload::{
    Finding, IncidentKind, ServerSetting, SteadyWindow, StepLatency, StoreFigures, StoreServer, StoreStatus,
    StoreVerdict,
};
use tilemark_store::{FindingKind, Latency, LoadResult, Status, Steady, StoreFacts, Verdict};

/// Its figures beside what every load has. The guest's name is not known here.
pub(super) fn figures(result: &LoadResult) -> StoreFigures {
    let steps = result.latency_ms.iter().map(|(step, latency)| ((*step).to_owned(), times(*latency)));
    StoreFigures {
        guest: String::new(),
        orders_per_minute: result.orders_per_minute,
        orders_per_minute_ds2: result.orders_per_minute_ds2,
        rollbacks: result.rollbacks,
        rollback_fraction: result.rollback_fraction,
        retries: result.retries,
        client_cpu_us_per_order: result.client_cpu_us_per_order,
        latency_ms: steps.collect(),
        steady: result.steady.map(window),
        audit: result.audit.clone(),
        store: server(&result.store),
        verdict: verdict(&result.verdict),
    }
}

fn times(Latency { count, mean, p50, p90, p99, p999, max }: Latency) -> StepLatency {
    StepLatency { count, mean, p50, p90, p99, p999, max }
}

fn window(Steady { from_s, to_s, orders_per_minute }: Steady) -> SteadyWindow {
    SteadyWindow { from_s, to_s, orders_per_minute }
}

fn server(found: &StoreFacts) -> StoreServer {
    let setting =
        |(name, value): (&str, &str)| ServerSetting { name: name.to_owned(), value: value.to_owned() };
    let settings = found.settings.iter().map(|found| setting((found.name, &found.value))).collect();
    StoreServer {
        server: found.server.clone(),
        settings,
        customers: found.customers,
        products: found.products,
    }
}

fn verdict(verdict: &Verdict) -> StoreVerdict {
    let finding =
        |found: &tilemark_store::Finding| Finding { kind: kind(found.kind), what: found.what.clone() };
    StoreVerdict {
        status: status(verdict.status),
        reasons: verdict.reasons.clone(),
        findings: verdict.findings.iter().map(finding).collect(),
    }
}

const fn status(status: Status) -> StoreStatus {
    match status {
        Status::Trusted => StoreStatus::Trusted,
        Status::NotTrusted => StoreStatus::NotTrusted,
        Status::CannotTell => StoreStatus::CannotTell,
    }
}

const fn kind(kind: FindingKind) -> IncidentKind {
    match kind {
        FindingKind::WrongAnswers => IncidentKind::WrongAnswers,
        FindingKind::ServiceErrors => IncidentKind::ServiceErrors,
        FindingKind::Unproven => IncidentKind::Unproven,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{collections::BTreeMap, time::Duration};
    use tilemark_store::{Demand, FoundSetting, Pace};

    /// A result with another value in each place.
    fn result() -> LoadResult {
        let latency =
            |mean, p50| Latency { count: 40, mean, p50, p90: None, p99: None, p999: None, max: 9.5 };
        let finding = |kind, what: &str| tilemark_store::Finding { kind, what: what.to_owned() };
        LoadResult {
            store: StoreFacts {
                server: "MariaDB 11".to_owned(),
                settings: vec![FoundSetting { name: "fsync", value: "on".to_owned() }],
                customers: 7,
                products: 8,
            },
            demand: Demand { pace: Pace::Closed { think_time: Duration::ZERO }, ..Demand::default() },
            measured_s: 10.0,
            orders_per_minute: Some(240.0),
            orders_per_minute_ds2: Some(241),
            orders: 40,
            rollbacks: 1,
            rollback_fraction: Some(0.024),
            retries: 2,
            errors: 3,
            error_kinds: BTreeMap::new(),
            client_cpu_s: 0.5,
            client_cpu_us_per_order: Some(12.5),
            latency_ms: BTreeMap::from([("order", latency(4.5, Some(4.0))), ("login", latency(1.5, None))]),
            send_lateness_us: None,
            waited_for_client: 0,
            steady: Some(Steady { from_s: 2, to_s: 9, orders_per_minute: 250.0 }),
            orders_by_second: vec![4; 10],
            audit: "agrees".to_owned(),
            audit_report: None,
            verdict: Verdict {
                status: Status::NotTrusted,
                reasons: vec!["7 errors: broken".to_owned()],
                findings: vec![
                    finding(FindingKind::WrongAnswers, "orders are gone"),
                    finding(FindingKind::ServiceErrors, "clients gave up"),
                    finding(FindingKind::Unproven, "it was stopped"),
                ],
            },
        }
    }

    #[test]
    fn figures_are_those_of_the_result_and_findings_keep_their_kind() {
        let result = result();
        // The result is kept as JSON too: both must say the same.
        let wanted: StoreFigures = serde_json::from_value(serde_json::to_value(&result).unwrap()).unwrap();
        assert_eq!(figures(&result), wanted);
        let kinds: Vec<_> = wanted.verdict.findings.iter().map(|finding| finding.kind).collect();
        assert_eq!(kinds, [IncidentKind::WrongAnswers, IncidentKind::ServiceErrors, IncidentKind::Unproven]);
    }
}
