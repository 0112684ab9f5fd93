//! What a load found, as it is printed and kept.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Serialize;

use crate::audit::AuditReport;
use crate::demand::Demand;
use crate::error::StoreError;
use crate::figures::{Figures, Latency};
use crate::inspect::StoreFacts;
use crate::steady::{SHORTEST_S, Steady};

/// Whether the figures can be believed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Status {
    /// They can.
    Trusted,
    /// Something went wrong that they do not show.
    NotTrusted,
    /// Too little was seen.
    CannotTell,
}

/// A status with its reasons.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Verdict {
    /// Whether the figures can be believed.
    pub status: Status,
    /// Why not, one sentence each.
    pub reasons: Vec<String>,
    /// Those of the reasons that are more than failed orders, which are counted as such: what the service did wrong, and what makes
    /// the run no evidence.
    pub findings: Vec<Finding>,
}

/// What a finding says about the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum FindingKind {
    /// The database lost or invented what it had confirmed.
    WrongAnswers,
    /// The database was gone or refused its clients.
    ServiceErrors,
    /// It was no fault of the database: it could not be checked, or the load was late or stopped.
    Unproven,
}

/// One thing that was found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// What it says about the run.
    pub kind: FindingKind,
    /// In words.
    pub what: String,
}

/// The result of a load.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LoadResult {
    /// The database before the run.
    pub store: StoreFacts,
    /// What was asked of it.
    pub demand: Demand,
    /// Seconds that were measured: what was asked, or less if the run ended early.
    pub measured_s: f64,
    /// Committed orders a minute over the measured time.
    pub orders_per_minute: Option<f64>,
    /// As the classic driver counts: orders that were rolled back are in it.
    pub orders_per_minute_ds2: Option<u64>,
    /// Committed orders in the measured time.
    pub orders: u64,
    /// Orders that found too little stock and were undone, in the measured time.
    pub rollbacks: u64,
    /// Share of them in all orders.
    pub rollback_fraction: Option<f64>,
    /// Steps done again because of a deadlock, in the whole run.
    pub retries: u64,
    /// Steps that failed, in the whole run.
    pub errors: u64,
    /// What failed and how often.
    pub error_kinds: BTreeMap<String, u64>,
    /// Processor time of all clients, warm-up included.
    pub client_cpu_s: f64,
    /// The same for each order begun.
    pub client_cpu_us_per_order: Option<f64>,
    /// Time of each step in milliseconds.
    pub latency_ms: BTreeMap<&'static str, Latency>,
    /// How late orders were begun by our own fault, in an open loop.
    pub send_lateness_us: Option<Latency>,
    /// Measured orders of an open loop that found all clients busy at their intended start. Their wait is in their
    /// latency; where there are many, more clients would show whether the store or their number is the limit.
    pub waited_for_client: u64,
    /// The part of the measured time in which the rate had settled.
    pub steady: Option<Steady>,
    /// Committed orders in each measured second.
    pub orders_by_second: Vec<u32>,
    /// The audit after the run in words: `agrees`, what does not, or why it could not be made.
    pub audit: String,
    /// What it compared; `None` if it could not be made.
    pub audit_report: Option<AuditReport>,
    /// Whether all this can be believed.
    pub verdict: Verdict,
}

/// An audit in words.
pub(crate) fn audit_in_words(audit: &Result<AuditReport, StoreError>) -> String {
    match audit {
        Ok(report) if report.agrees => "agrees".to_owned(),
        Ok(report) => report.findings.join("; "),
        Err(error) => format!("not made: {}", error.with_causes()),
    }
}

/// What the verdict is made from beside the figures.
pub(crate) struct Doubts<'a> {
    pub(crate) gave_up: usize,
    pub(crate) stopped: bool,
    pub(crate) steady: Option<Steady>,
    pub(crate) window: Option<Duration>,
    pub(crate) audit: &'a Result<AuditReport, StoreError>,
}

/// Judges a run.
pub(crate) fn judge(figures: &Figures, clients: u32, doubts: &Doubts<'_>) -> Verdict {
    let findings = findings(figures, clients, doubts);
    let mut reasons: Vec<String> = findings.iter().map(|finding| finding.what.clone()).collect();
    reasons.extend(figures.errors.iter().map(|(message, count)| format!("{count} errors: {message}")));
    let is_spoiled = !reasons.is_empty();
    if figures.orders == 0 {
        reasons.push("no order was committed in the measured time".to_owned());
    }
    if is_spoiled {
        return Verdict { status: Status::NotTrusted, reasons, findings };
    }
    if doubts.steady.is_none() {
        let shortest_s = doubts.window.map_or(0, |window| window.as_secs()).max(SHORTEST_S as u64);
        reasons.push(format!(
            "no steady window was found: the run is shorter than {shortest_s} s or its rate never settled for so long"
        ));
    }
    let status = if reasons.is_empty() { Status::Trusted } else { Status::CannotTell };
    Verdict { status, reasons, findings }
}

fn findings(figures: &Figures, clients: u32, doubts: &Doubts<'_>) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut find = |kind, what| findings.push(Finding { kind, what });
    match doubts.audit {
        Ok(report) => report
            .findings
            .iter()
            .for_each(|finding| find(FindingKind::WrongAnswers, format!("audit: {finding}"))),
        Err(error) => {
            let kind = if error.is_of_server() { FindingKind::ServiceErrors } else { FindingKind::Unproven };
            find(kind, format!("the database could not be audited: {}", error.with_causes()));
        }
    }
    if doubts.gave_up > 0 {
        let what = format!("{} of {clients} clients gave up before the end", doubts.gave_up);
        find(FindingKind::ServiceErrors, what);
    }
    if let (Some(late), Some(order)) = (figures.lateness_us(), figures.latency_ms().get("order"))
        && let (Some(late), Some(order)) = (late.p99, order.p99)
        && late > order * 100.0
    {
        let what = format!("orders were begun {late:.0} µs late at p99, over a tenth of their latency");
        find(FindingKind::Unproven, what);
    }
    if doubts.stopped {
        let what = "it was stopped by Ctrl-C or SIGTERM; the figures are of what was done until then";
        find(FindingKind::Unproven, what.to_owned());
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figures::Step;

    fn agreeing() -> Result<AuditReport, StoreError> {
        let findings = Vec::new();
        Ok(AuditReport {
            agrees: true,
            findings,
            orders: 1,
            lines: 1,
            products: 1,
            customers: 0,
            net_cents: 1,
        })
    }

    fn verdict(change: impl Fn(&mut Figures, &mut Doubts<'_>)) -> Verdict {
        let audit = agreeing();
        let steady = Some(Steady { from_s: 0, to_s: 60, orders_per_minute: 1.0 });
        let mut doubts = Doubts { gave_up: 0, stopped: false, steady, window: None, audit: &audit };
        let mut figures = Figures::new(60);
        figures.orders = 1;
        change(&mut figures, &mut doubts);
        judge(&figures, 4, &doubts)
    }

    #[test]
    fn a_clean_run_is_trusted_and_each_doubt_is_reported() {
        assert_eq!(
            verdict(|_, _| {}),
            Verdict { status: Status::Trusted, reasons: Vec::new(), findings: Vec::new() }
        );
        assert_eq!(verdict(|figures, _| figures.error("broken".to_owned())).status, Status::NotTrusted);
        assert_eq!(
            verdict(|_, doubts| doubts.gave_up = 1).reasons,
            ["1 of 4 clients gave up before the end"]
        );
        assert_eq!(verdict(|_, doubts| doubts.steady = None).status, Status::CannotTell);
        let longer =
            verdict(|_, doubts| (doubts.steady, doubts.window) = (None, Some(Duration::from_secs(300))));
        assert!(longer.reasons[0].contains("shorter than 300 s"), "{longer:?}");
        assert_eq!(verdict(|_, doubts| doubts.stopped = true).status, Status::NotTrusted);
        assert_eq!(verdict(|figures, _| figures.orders = 0).status, Status::CannotTell);
    }

    #[test]
    fn what_the_database_did_is_distinguished_from_what_the_load_did() {
        let kinds = |audit: Result<AuditReport, StoreError>, gave_up, stopped| -> Vec<FindingKind> {
            let mut figures = Figures::new(60);
            figures.error("broken".to_owned());
            let doubts = Doubts { gave_up, stopped, steady: None, window: None, audit: &audit };
            judge(&figures, 4, &doubts).findings.iter().map(|finding| finding.kind).collect()
        };
        let lost =
            || Ok(AuditReport { findings: vec!["17 orders are gone".to_owned()], ..agreeing().unwrap() });
        let down = || Err(StoreError::Down { address: "x".to_owned(), source: "refused".into() });
        assert_eq!(kinds(agreeing(), 0, false), [], "a failed order is counted, and is the gate's to judge");
        assert_eq!(kinds(lost(), 0, false), [FindingKind::WrongAnswers]);
        assert_eq!(kinds(down(), 2, false), [FindingKind::ServiceErrors, FindingKind::ServiceErrors]);
        let unlike = Err(StoreError::HalfLoaded("rows are missing".to_owned()));
        assert_eq!(kinds(unlike, 0, true), [FindingKind::Unproven, FindingKind::Unproven]);
    }

    #[test]
    fn lateness_of_our_own_discards_a_run_from_a_tenth_of_the_latency_on() {
        let late_by = |late_us: u64| {
            verdict(|figures, _| {
                for _ in 0..3_000 {
                    figures.time(Step::Order, Duration::from_millis(10));
                    figures.late(Duration::from_micros(late_us));
                }
            })
        };
        assert_eq!(late_by(900).status, Status::Trusted);
        assert_eq!(late_by(1_100).status, Status::NotTrusted);
    }
}
