//! What spoils a repeat: what was done to it from outside. Each rule names what was seen and the limit that it passed. What guests and
//! services did wrong is a finding ([`super::failures`]); a processor that slows for heat slows because of the load.

use std::collections::BTreeMap;

use tilemark_plan::{plan::Point, scenario::LoopKind};
use tilemark_record::{
    clients::ClientFigures,
    summary::{HostFigures, IncidentKind, LoadFigures, RepeatSummary},
};
use tilemark_units::median;

use crate::percentile::percentile_admissible;

/// Most processor use outside the run, as a part of the host (decision 0016).
pub const FOREIGN_FRACTION_MAX: f64 = 0.05;

/// Most processor time taken by the hypervisor under this host, as a part of it. Stricter than for foreign
/// load: what is stolen is gone while a guest is in the midst of a request and nobody here can see by whom.
pub const STEAL_FRACTION_MAX: f64 = 0.02;

/// Largest step of the clock in a second, in milliseconds. Slewing by NTP stays below 0.5 ms in a second.
pub const CLOCK_STEP_MS_MAX: f64 = 10.0;

/// Above this a load thread is too busy to be on time (decision 0016).
pub const SENDER_BUSY_MAX: f64 = 0.8;

/// Most that a client's clock may be uncertain by, with its drift: seconds of its loads belong to the host's by it. The same as the
/// largest step of the host's own clock.
const CLIENT_CLOCK_MS_MAX: f64 = CLOCK_STEP_MS_MAX;

/// Above this part of its line rate a client's network is too full to be on time.
const LINE_USED_MAX: f64 = 0.8;

/// Lateness p99 above this part of the typical p99 is our own time reported as the guest's (decision 0016). Typical is the median over
/// all repeats of the points that are compared: a repeat is never discarded by its own result.
pub const LATENESS_OF_P99_MAX: f64 = 0.1;

/// Lateness p99 below this part of the gate's p99 moves no answer, however fast the guests are: a timer that
/// wakes 0.1 ms late is no saturated load.
pub const LATENESS_OF_GATE_MIN: f64 = 0.01;

/// What a repeat is worth.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Soundness {
    /// Its figures count.
    Sound,
    /// Its loads were late or too busy: its figures are partly our own.
    Saturated(String),
    /// Something else spoiled it.
    Spoiled(String),
}

/// The p99 of each load, in milliseconds: the median over repeats.
#[derive(Clone, Debug, Default)]
pub(crate) struct TypicalP99(BTreeMap<String, f64>);

impl TypicalP99 {
    /// Over all repeats of the points that are compared with each other. A load without a p99 has its largest value in its place.
    pub(crate) fn of<'a>(repeats: impl IntoIterator<Item = &'a RepeatSummary>) -> Self {
        let mut values: BTreeMap<String, Vec<f64>> = BTreeMap::new();
        for load in repeats.into_iter().flat_map(|repeat| &repeat.loads) {
            let p99 = load.latency_ms.p99;
            let p99 = p99.filter(|_| percentile_admissible(load.latency_ms.n, 0.99).is_ok());
            values.entry(load.name.clone()).or_default().extend(p99.or(load.latency_ms.max));
        }
        Self(values.into_iter().filter_map(|(name, values)| Some((name, median(values)?))).collect())
    }

    fn of_load(&self, name: &str) -> Option<f64> {
        self.0.get(name).copied()
    }
}

pub(crate) fn soundness(point: &Point, repeat: &RepeatSummary, typical: &TypicalP99) -> Soundness {
    let spoiled = spoiled(point, repeat);
    if !spoiled.is_empty() {
        return Soundness::Spoiled(spoiled.join("; "));
    }
    let gate_ms = point.gate.p99.as_milliseconds();
    let late = repeat.loads.iter().filter_map(|load| saturation(load, gate_ms, typical.of_load(&load.name)));
    let late_clients = repeat.clients.iter().flat_map(|client| exhausted(client, gate_ms, typical));
    let late: Vec<String> = late.chain(late_clients).collect();
    if late.is_empty() { Soundness::Sound } else { Soundness::Saturated(late.join("; ")) }
}

fn spoiled(point: &Point, repeat: &RepeatSummary) -> Vec<String> {
    let mut reasons = Vec::new();
    if repeat.backend != point.backend {
        let (was, wanted) = (repeat.backend.name(), point.backend.name());
        reasons.push(format!("its guests were {was} where the plan says {wanted}"));
    }
    let planned = |name: &str| repeat.loads.iter().any(|load| load.name == name);
    let mut lacking: Vec<&str> =
        point.loads.iter().map(|load| load.name.as_str()).filter(|name| !planned(name)).collect();
    lacking.dedup();
    reasons.extend(lacking.into_iter().map(|name| format!("load {name} gave no figures")));
    let silent = repeat.loads.iter().filter(|load| load.offered == 0 && !may_starve(point, load));
    reasons.extend(silent.map(|load| format!("load {} asked nothing", load.name)));
    reasons.extend(by_host(&repeat.host));
    reasons.extend(repeat.clients.iter().flat_map(by_client));
    let says_nothing = |kind| matches!(kind, IncidentKind::Unproven | IncidentKind::Refused);
    let unproven = repeat.incidents.iter().filter(|incident| says_nothing(incident.kind));
    reasons.extend(unproven.map(|incident| match &incident.guest {
        Some(guest) => format!("{}: {}", guest, incident.what),
        None => incident.what.clone(),
    }));
    reasons
}

/// Whether a load that asked nothing may have been kept from it by the role beside it: a closed loop sends its next request when it is
/// answered.
fn may_starve(point: &Point, load: &LoadFigures) -> bool {
    load.loop_kind == LoopKind::Closed && point.together.as_ref().is_some_and(|of| of.second.is_some())
}

fn by_host(host: &HostFigures) -> Vec<String> {
    if host.seconds == 0 {
        return vec!["the host was not monitored, so disturbances cannot be excluded".to_owned()];
    }
    let mut reasons: Vec<String> = busy_host(host.processor.steal, host.processor.other).collect();
    // A NaN is a reason too.
    if host.clock_step_ms_max > CLOCK_STEP_MS_MAX || host.clock_step_ms_max.is_nan() {
        reasons.push(format!("the clock stepped by {:.0} ms", host.clock_step_ms_max));
    }
    reasons
}

/// What was done to a client from outside, and a clock that nobody knows well enough.
fn by_client(client: &ClientFigures) -> Vec<String> {
    let name = &client.name;
    let too_much = |what: fn(f64, &str) -> String, fraction: Option<f64>, most: f64| {
        let fraction = fraction.filter(|fraction| *fraction > most || fraction.is_nan())?;
        Some(format!("client {name}: {}", what(100.0 * fraction, "its processors")))
    };
    // On the measured host itself the guests are others too, and the host is judged by its own figures.
    let (steal, other) = if client.same_machine { (None, None) } else { (client.steal, client.other) };
    let unknown = client.uncertainty_ms.filter(|ms| *ms > CLIENT_CLOCK_MS_MAX || ms.is_nan());
    let unknown = unknown.map(|ms| {
        format!("client {name}: its clock was uncertain by {ms:.1} ms, over {CLIENT_CLOCK_MS_MAX:.0} ms")
    });
    // One that was lost is an incident of the repeat.
    let never_known = (client.uncertainty_ms.is_none() && client.lost.is_none())
        .then(|| format!("client {name}: its clock was not read after the loads"));
    let late_ms = client
        .intended_begin_ns
        .zip(client.actual_begin_ns)
        .map(|(intended, actual)| (i128::from(actual) - i128::from(intended)) as f64 / 1e6);
    let late = match late_ms {
        Some(ms) if ms.abs() > CLIENT_CLOCK_MS_MAX => {
            Some(format!("client {name}: its load began {ms:.1} ms late"))
        }
        None if client.lost.is_none() => {
            Some(format!("client {name}: it did not report when its load began"))
        }
        _ => None,
    };
    [
        too_much(steal_words, steal, STEAL_FRACTION_MAX),
        too_much(foreign_words, other, FOREIGN_FRACTION_MAX),
        unknown,
        never_known,
        late,
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// What a client itself ran out of: its figures are partly its own.
fn exhausted(client: &ClientFigures, gate_p99_ms: f64, typical: &TypicalP99) -> Vec<String> {
    let name = &client.name;
    let mut reasons = Vec::new();
    let busy = client.busy.max_fraction;
    if busy > SENDER_BUSY_MAX || busy.is_nan() {
        reasons.push(format!("client {name}: a thread used {:.0} % of its processor", 100.0 * busy));
    }
    if let Some(used) = client.line_used.filter(|used| *used > LINE_USED_MAX || used.is_nan()) {
        reasons.push(format!("client {name}: its network carried {:.0} % of its line rate", 100.0 * used));
    }
    for load in &client.loads {
        let (Some(late_us), Some(typical)) = (load.send_lateness_p99_us, typical.of_load(&load.name)) else {
            continue;
        };
        let late_ms = late_us / 1_000.0;
        if late_ms > LATENESS_OF_P99_MAX * typical && late_ms > LATENESS_OF_GATE_MIN * gate_p99_ms {
            reasons.push(format!(
                "client {name}: requests of load {} were sent up to {late_ms:.2} ms late (p99)",
                load.name
            ));
        }
    }
    reasons
}

/// How a host is too busy for a measurement, by the parts of it that its hypervisor (`steal`) and programs outside the run (`other`)
/// took; nothing where it is quiet.
pub fn busy_host(steal: f64, other: f64) -> impl Iterator<Item = String> {
    let too_much = |what: fn(f64, &str) -> String, fraction: f64, most: f64| {
        (fraction > most || fraction.is_nan()).then(|| what(100.0 * fraction, "the host"))
    };
    let steal = too_much(steal_words, steal, STEAL_FRACTION_MAX);
    steal.into_iter().chain(too_much(foreign_words, other, FOREIGN_FRACTION_MAX))
}

/// Too much use by programs outside the run: reports look for the first three words to name these programs. Without brackets: the
/// programs follow in brackets, and a redacted report takes those out.
fn foreign_words(percent: f64, of: &str) -> String {
    format!("other programs used {percent:.1} % of {of}")
}

/// Too much time taken by the hypervisor, without brackets for the same reason.
fn steal_words(percent: f64, of: &str) -> String {
    format!("the hypervisor took {percent:.1} % of {of} as steal")
}

/// Why a load's figures are partly our own; `None` where they are not. `typical_p99_ms` comes from all repeats, so that the fast
/// ones are not discarded and the slow ones kept.
pub(crate) fn saturation(
    load: &LoadFigures,
    gate_p99_ms: f64,
    typical_p99_ms: Option<f64>,
) -> Option<String> {
    let busy = load.sender_busy.max_fraction;
    if busy > SENDER_BUSY_MAX {
        return Some(format!("load {}: a thread used {:.0} % of its processor", load.name, 100.0 * busy));
    }
    let lateness_ms = load.send_lateness_us.p99? / 1_000.0;
    let typical = typical_p99_ms?;
    let late =
        lateness_ms > LATENESS_OF_P99_MAX * typical && lateness_ms > LATENESS_OF_GATE_MIN * gate_p99_ms;
    late.then(|| {
        format!(
            "load {}: requests were sent up to {lateness_ms:.2} ms late (p99), over 10 % of the {typical:.2} ms that its p99 \
             typically is",
            load.name
        )
    })
}
