//! From what load processes told, second by second, to a repeat in figures. Pure.
//!
//! Percentiles come from merged histograms, never from averaged percentiles. The histograms of each
//! second are kept as they came, tagged with guest and load.

use hdrhistogram::{Histogram, serialization::Deserializer};
use std::collections::BTreeMap;
use tilemark_agent_protocol::{Counts, LoadEvent, Sender, StreamSecond, StreamTotal};
use tilemark_plan::{
    plan::{LoadPlan, Point, Work},
    scenario::LoopKind,
};
use tilemark_record::{
    TaggedSecond,
    result::{Fairness, LatencyMs, LatenessUs, Measured},
    rows::SecondRow,
    store::StoreFigures,
    summary::{
        Busy, Drift, DriftOf, EncodedHistogram, GuestFigures, Incident, IncidentKind, LoadFigures,
        WorstSecond,
    },
};
use tilemark_statistics::{Demanded, fairness_by_demand, percentile_admissible};

/// A histogram that a load process sent and that does not decode.
#[derive(Debug, thiserror::Error)]
#[error("the load process sent a histogram that does not decode: {0}")]
pub(crate) struct BadHistogram(String);

/// What was told of one load on one guest.
#[derive(Debug, Clone, Default)]
pub(crate) struct StreamTold {
    seconds: Vec<StreamSecond>,
    output: Option<String>,
    total: Option<StreamTotal>,
}

impl StreamTold {
    /// All seconds in one histogram. Totals come without: those of hundreds of streams would be longer than
    /// a frame may be.
    fn all(&self, of: impl Fn(&StreamSecond) -> &[u8]) -> Result<Histogram<u64>, BadHistogram> {
        let mut all = Merged::new().latency;
        for second in &self.seconds {
            add(&mut all, &decoded(of(second))?)?;
        }
        Ok(all)
    }
}

/// What all load processes of a pass told.
#[derive(Debug, Default)]
pub(crate) struct Told {
    /// By the load's place in the point's list.
    streams: BTreeMap<u32, StreamTold>,
    /// How busy the outside sender was, second by second.
    busy: Vec<f64>,
    /// What the outside sender got of the kernel.
    pub(crate) sender: Option<Sender>,
}

impl Told {
    /// Takes an event of the outside load process, whose streams are numbered like the point's loads.
    pub(crate) fn outside(&mut self, event: LoadEvent) {
        match event {
            LoadEvent::Busy { fraction, .. } => self.busy.push(fraction),
            LoadEvent::Started(sender) => self.sender = Some(sender),
            other => self.stream_event(other, |id| id),
        }
    }

    /// Takes an event of the load that runs inside a guest, which is the point's load `place`.
    pub(crate) fn inside(&mut self, place: u32, event: LoadEvent) {
        self.stream_event(event, |_| place);
    }

    fn stream_event(&mut self, event: LoadEvent, place: impl Fn(u32) -> u32) {
        match event {
            LoadEvent::Second(second) => {
                self.streams.entry(place(second.id)).or_default().seconds.push(second);
            }
            LoadEvent::Output { id, text } => {
                self.streams.entry(place(id)).or_default().output = Some(text);
            }
            LoadEvent::Done(totals) => {
                for total in totals {
                    let place = place(total.id);
                    self.streams.entry(place).or_default().total = Some(total);
                }
            }
            LoadEvent::Started(_) | LoadEvent::Busy { .. } | LoadEvent::Failed { .. } => {}
        }
    }

    /// What a load said to have completed in each of so many seconds, by its place in the point's list.
    pub(crate) fn completed_by_second(&self, place: u32, seconds: u32) -> Vec<u64> {
        let mut completed = vec![0; seconds as usize];
        for second in self.streams.get(&place).iter().flat_map(|stream| &stream.seconds) {
            // A guest may say what it likes: what lies outside the measurement is nobody's.
            if let Some(completed) = completed.get_mut(second.second as usize) {
                *completed += second.counts.completed;
            }
        }
        completed
    }

    /// All figures of the point's loads, in the order of their first appearance.
    pub(crate) fn figures(&self, point: &Point, repeat: u32) -> Result<Figures, BadHistogram> {
        let mut figures = Figures::default();
        let mut names: Vec<&str> = Vec::new();
        for load in &point.loads {
            if !names.contains(&load.name.as_str()) {
                names.push(&load.name);
            }
        }
        for name in names {
            self.one_load(point, repeat, name, &mut figures)?;
        }
        Ok(figures)
    }

    fn one_load(
        &self,
        point: &Point,
        repeat: u32,
        name: &str,
        into: &mut Figures,
    ) -> Result<(), BadHistogram> {
        let mut merged = Merged::new();
        let mut by_second: BTreeMap<u32, Merged> = BTreeMap::new();
        let mut guests = Vec::new();
        let mut of_load = None;
        for (place, load) in point.loads.iter().enumerate().filter(|(_, load)| load.name == name) {
            let place = u32::try_from(place).expect("a point has at most a thousand guests");
            let told = self.streams.get(&place).cloned().unwrap_or_default();
            guests.push(one_guest(point, load, &told, &mut merged, &mut by_second, &mut into.latency)?);
            of_load = Some(load);
        }
        let Some(load) = of_load else { return Ok(()) };
        into.seconds
            .extend(by_second.iter().map(|(second, merged)| merged.row(point.index, repeat, name, *second)));
        into.loads.push(LoadFigures {
            name: name.to_owned(),
            role: point.guests[load.guest as usize].role,
            loop_kind: load.demand.loop_kind(),
            measured: measured(&load.work),
            unit: unit(&load.work).to_owned(),
            seconds: merged.seconds,
            offered: merged.counts.offered,
            completed: merged.counts.completed,
            completed_in_time: Some(merged.completed_in_time),
            failed: merged.counts.failed,
            wrong: merged.counts.wrong,
            bytes: merged.counts.bytes,
            latency_ms: LatencyMs {
                deviation_of_seconds: deviation_of_seconds(&by_second),
                ..latency_ms(&merged.latency)
            },
            latency_histogram: Some(EncodedHistogram::of(&merged.latency)),
            send_lateness_us: lateness_us(&merged.lateness),
            client_cpu_s: merged.client_cpu_s,
            sender_busy: if measured(&load.work) == Measured::Outside {
                self.sender_busy()
            } else {
                Busy::default()
            },
            fairness: fairness_of(&guests, load.demand.loop_kind()),
            guests,
            errors: merged.errors,
            drift: drift_of(&by_second, merged.seconds, load.demand.loop_kind()),
            store: self.stores(point, name),
        });
        Ok(())
    }

    /// What store loads of this name found, guest by guest.
    fn stores(&self, point: &Point, name: &str) -> Vec<StoreFigures> {
        let output = |place: usize| self.streams.get(&u32::try_from(place).ok()?)?.output.as_ref();
        let loads = point.loads.iter().enumerate().filter(|(_, load)| load.name == name);
        let of = |(place, load): (usize, &LoadPlan)| {
            let Work::Store(_) = load.work else { return None };
            let found: StoreFigures = serde_json::from_str(output(place)?).ok()?;
            Some(StoreFigures { guest: point.guests[load.guest as usize].name.clone(), ..found })
        };
        loads.filter_map(of).collect()
    }

    /// Databases whose load told no audit: nobody can say whether what it did was right.
    pub(crate) fn unaudited<'a>(&'a self, point: &'a Point) -> impl Iterator<Item = Incident> + 'a {
        let is_store = |load: &LoadPlan| matches!(load.work, Work::Store(_));
        let told =
            |name: &str, guest: &str| self.stores(point, name).iter().any(|store| store.guest == guest);
        point.loads.iter().filter(move |load| is_store(load)).filter_map(move |load| {
            let guest = point.guests[load.guest as usize].name.clone();
            let what = "its database was not audited".to_owned();
            (!told(&load.name, &guest)).then_some(Incident {
                kind: IncidentKind::Unproven,
                what,
                guest: Some(guest),
            })
        })
    }

    /// What loads found lost, doubled or damaged by their own account.
    pub(crate) fn wrong_answers<'a>(&'a self, point: &'a Point) -> impl Iterator<Item = Incident> + 'a {
        self.streams.iter().flat_map(move |(place, told)| {
            let guest = || Some(point.guests[point.loads.get(*place as usize)?.guest as usize].name.clone());
            let total = told.total.iter().flat_map(|total| &total.wrong_answers);
            total.map(move |what| Incident {
                kind: IncidentKind::WrongAnswers,
                what: what.clone(),
                guest: guest(),
            })
        })
    }

    /// The output of the tool or engine behind each load, by its place in the point's list.
    pub(crate) fn tool_outputs(&self) -> impl Iterator<Item = (u32, &str)> {
        self.streams.iter().filter_map(|(place, told)| Some((*place, told.output.as_deref()?)))
    }

    /// All that was told of one stream.
    pub(crate) fn of_one_stream(&self, id: u32) -> Result<OneStream, BadHistogram> {
        let Some(told) = self.streams.get(&id) else { return Ok(OneStream::default()) };
        let Some(total) = told.total.clone() else { return Ok(OneStream::default()) };
        Ok(OneStream {
            counts: total.counts,
            completed_in_time: total.completed_in_time,
            seconds: total.seconds,
            client_cpu_s: total.client_cpu_s,
            latency_ms: latency_ms(&told.all(|second| &second.latency)?),
            lateness_us: lateness_us(&told.all(|second| &second.lateness)?),
            errors: total.errors,
        })
    }

    /// How busy the outside sender was.
    pub(crate) fn sender_busy(&self) -> Busy {
        let count = self.busy.len().max(1) as f64;
        let mean_fraction = self.busy.iter().sum::<f64>() / count;
        Busy { mean_fraction, max_fraction: self.busy.iter().copied().fold(0.0, f64::max) }
    }
}

/// One load on one target, in figures.
#[derive(Debug, Default)]
pub(crate) struct OneStream {
    pub(crate) counts: Counts,
    pub(crate) completed_in_time: u64,
    pub(crate) seconds: f64,
    pub(crate) client_cpu_s: f64,
    pub(crate) latency_ms: LatencyMs,
    pub(crate) lateness_us: LatenessUs,
    pub(crate) errors: Vec<String>,
}

/// All that one pass's loads come to.
#[derive(Debug, Default)]
pub(crate) struct Figures {
    /// Each load.
    pub(crate) loads: Vec<LoadFigures>,
    /// Each load's seconds.
    pub(crate) seconds: Vec<SecondRow>,
    /// The histograms of each guest, load and second.
    pub(crate) latency: Vec<TaggedSecond>,
}

/// From where a workload is measured.
pub(crate) const fn measured(work: &Work) -> Measured {
    match work {
        Work::Disk(_) | Work::Sysbench(_) => Measured::Inside,
        Work::Web(_) | Work::Messaging(_) | Work::Store(_) => Measured::Outside,
    }
}

const fn unit(work: &Work) -> &'static str {
    match work {
        Work::Web(_) | Work::Disk(_) => "requests",
        Work::Messaging(_) => "messages",
        Work::Store(_) => "orders",
        Work::Sysbench(_) => "transactions",
    }
}

/// Histograms and counts that were added up.
struct Merged {
    latency: Histogram<u64>,
    lateness: Histogram<u64>,
    counts: Counts,
    completed_in_time: u64,
    seconds: f64,
    client_cpu_s: f64,
    errors: Vec<String>,
}

impl Merged {
    fn new() -> Self {
        // Three digits: a value is kept within one part in a thousand.
        let empty = || Histogram::new(3).expect("three significant digits are allowed");
        Self {
            latency: empty(),
            lateness: empty(),
            counts: Counts::default(),
            completed_in_time: 0,
            seconds: 0.0,
            client_cpu_s: 0.0,
            errors: Vec::new(),
        }
    }

    fn add_counts(&mut self, counts: Counts) {
        self.counts.offered += counts.offered;
        self.counts.completed += counts.completed;
        self.counts.failed += counts.failed;
        self.counts.wrong += counts.wrong;
        self.counts.bytes += counts.bytes;
    }

    fn row(&self, point: usize, repeat: u32, load: &str, second: u32) -> SecondRow {
        let at = |quantile| ms_at(&self.latency, quantile);
        SecondRow {
            point,
            repeat,
            load: load.to_owned(),
            second,
            offered: self.counts.offered,
            completed: self.counts.completed,
            errors: self.counts.failed + self.counts.wrong,
            p50_ms: at(0.5),
            p99_ms: at(0.99),
            max_ms: at(1.0),
        }
    }
}

fn one_guest(
    point: &Point,
    load: &LoadPlan,
    told: &StreamTold,
    merged: &mut Merged,
    by_second: &mut BTreeMap<u32, Merged>,
    log: &mut Vec<TaggedSecond>,
) -> Result<GuestFigures, BadHistogram> {
    let guest = &point.guests[load.guest as usize];
    let mut worst: Option<WorstSecond> = None;
    for second in &told.seconds {
        let latency = decoded(&second.latency)?;
        // Beyond its 99th percentile lies nothing where a second had fewer than a hundred requests.
        let highest = ms_at(&latency, if latency.len() < 100 { 1.0 } else { 0.99 });
        if let Some(latency_ms) = highest.filter(|value| worst.is_none_or(|worst| *value > worst.latency_ms))
        {
            worst = Some(WorstSecond { second: second.second, latency_ms });
        }
        let of_second = by_second.entry(second.second).or_insert_with(Merged::new);
        of_second.add_counts(second.counts);
        add(&mut of_second.latency, &latency)?;
        log.push(TaggedSecond {
            tag: format!("{}/{}", guest.name, load.name),
            second: second.second,
            latency,
        });
    }
    let mut latency_ms_of_guest = LatencyMs::default();
    let mut latency_histogram = None;
    let mut counts = Counts::default();
    let mut completed_in_time = None;
    if let Some(total) = &told.total {
        let latency = told.all(|second| &second.latency)?;
        latency_ms_of_guest = latency_ms(&latency);
        latency_histogram = Some(EncodedHistogram::of(&latency));
        counts = total.counts;
        add(&mut merged.latency, &latency)?;
        add(&mut merged.lateness, &told.all(|second| &second.lateness)?)?;
        merged.add_counts(counts);
        completed_in_time = Some(total.completed_in_time);
        merged.completed_in_time += total.completed_in_time;
        merged.seconds = merged.seconds.max(total.seconds);
        merged.client_cpu_s += total.client_cpu_s;
        let room = 5_usize.saturating_sub(merged.errors.len());
        merged.errors.extend(total.errors.iter().take(room).map(|error| format!("{}: {error}", guest.name)));
    }
    Ok(GuestFigures {
        name: guest.name.clone(),
        tile: guest.tile,
        offered: counts.offered,
        completed: counts.completed,
        completed_in_time,
        errors: counts.failed + counts.wrong,
        latency_ms: latency_ms_of_guest,
        latency_histogram,
        worst_second: worst,
    })
}

fn decoded(bytes: &[u8]) -> Result<Histogram<u64>, BadHistogram> {
    if bytes.is_empty() {
        return Ok(Merged::new().latency);
    }
    Deserializer::new().deserialize(&mut &*bytes).map_err(|error| BadHistogram(format!("{error:?}")))
}

fn add(sum: &mut Histogram<u64>, part: &Histogram<u64>) -> Result<(), BadHistogram> {
    sum.auto(true);
    sum.add(part).map_err(|error| BadHistogram(error.to_string()))
}

fn ms_at(histogram: &Histogram<u64>, quantile: f64) -> Option<f64> {
    (!histogram.is_empty()).then(|| histogram.value_at_quantile(quantile) as f64 / 1e6)
}

/// Latency of a histogram in nanoseconds. Percentiles with fewer than 20 requests beyond them are left out.
pub(crate) fn latency_ms(histogram: &Histogram<u64>) -> LatencyMs {
    let at = |fraction| {
        percentile_admissible(histogram.len(), fraction).ok().and_then(|()| ms_at(histogram, fraction))
    };
    LatencyMs {
        n: histogram.len(),
        mean: (!histogram.is_empty()).then(|| histogram.mean() / 1e6),
        deviation: (histogram.len() > 1).then(|| histogram.stdev() / 1e6),
        deviation_of_seconds: None,
        p50: at(0.5),
        p90: at(0.9),
        p99: at(0.99),
        p999: at(0.999),
        max: (!histogram.is_empty()).then(|| histogram.max() as f64 / 1e6),
    }
}

/// How far the means of seconds lie apart, in milliseconds: sample deviation.
fn deviation_of_seconds(seconds: &BTreeMap<u32, Merged>) -> Option<f64> {
    let means: Vec<f64> = seconds
        .values()
        .filter(|second| !second.latency.is_empty())
        .map(|second| second.latency.mean() / 1e6)
        .collect();
    tilemark_statistics::sample_deviation(&means)
}

/// A median of fewer requests than this moves by chance.
const REQUESTS_OF_A_SECOND_MIN: u64 = 20;

/// Whether a load drifted over its whole seconds: its median latency, or what it was answered in a closed loop where the
/// seconds do not tell their latency.
fn drift_of(by_second: &BTreeMap<u32, Merged>, length_s: f64, loop_kind: LoopKind) -> Option<Drift> {
    let seconds: Option<Vec<&Merged>> = (0..length_s as u32).map(|second| by_second.get(&second)).collect();
    let seconds = seconds?;
    let test = |what, values: Vec<f64>| {
        let tilemark_statistics::Unsettled { first_half, second_half } = tilemark_statistics::drift(&values)?;
        Some(Drift { what, first_half, second_half, p: tilemark_statistics::FALSE_ALARMS_MAX })
    };
    if seconds.iter().all(|second| second.latency.len() >= REQUESTS_OF_A_SECOND_MIN) {
        let medians = seconds.iter().filter_map(|second| ms_at(&second.latency, 0.5));
        return test(DriftOf::Latency, medians.collect());
    }
    let answered = || seconds.iter().map(|second| second.counts.completed as f64).collect();
    (loop_kind == LoopKind::Closed).then(|| test(DriftOf::Throughput, answered())).flatten()
}

/// Lateness of a histogram in nanoseconds. Percentiles with fewer than 20 requests beyond them are left out.
pub(crate) fn lateness_us(histogram: &Histogram<u64>) -> LatenessUs {
    let at = |fraction| {
        percentile_admissible(histogram.len(), fraction)
            .ok()
            .map(|()| histogram.value_at_quantile(fraction) as f64 / 1e3)
    };
    LatenessUs {
        p50: at(0.5),
        p99: at(0.99),
        p999: at(0.999),
        max: (!histogram.is_empty()).then(|| histogram.max() as f64 / 1e3),
    }
}

/// How evenly guests were served; nothing where one shares with nobody.
fn fairness_of(guests: &[GuestFigures], loop_kind: LoopKind) -> Option<Fairness> {
    let demanded = |guest: &GuestFigures| Demanded {
        guest: guest.name.clone(),
        offered: guest.offered,
        completed: guest.completed,
    };
    fairness_by_demand(&guests.iter().map(demanded).collect::<Vec<_>>(), loop_kind).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use tilemark_store::{Finding, FindingKind, Status, Verdict};

    #[test]
    fn what_a_store_load_found_becomes_incidents_of_their_kind() {
        let finding = |kind, what: &str| Finding { kind, what: what.to_owned() };
        let verdict = Verdict {
            status: Status::NotTrusted,
            reasons: vec!["7 errors: broken".to_owned()],
            findings: vec![
                finding(FindingKind::WrongAnswers, "orders are gone"),
                finding(FindingKind::ServiceErrors, "clients gave up"),
                finding(FindingKind::Unproven, "it was stopped"),
            ],
        };
        let verdict = serde_json::from_value(serde_json::to_value(verdict).unwrap()).unwrap();
        let store = StoreFigures { guest: "tile-001-db".to_owned(), verdict, ..StoreFigures::default() };
        let incidents: Vec<Incident> = store.incidents().collect();
        assert!(incidents.iter().all(|incident| incident.guest.as_deref() == Some("tile-001-db")));
        let kinds: Vec<_> =
            incidents.iter().map(|incident| (incident.kind, incident.what.as_str())).collect();
        assert_eq!(
            kinds,
            [
                (IncidentKind::WrongAnswers, "orders are gone"),
                (IncidentKind::ServiceErrors, "clients gave up"),
                (IncidentKind::Unproven, "it was stopped"),
            ],
            "failed orders are counted as failed requests and are no incident"
        );
    }
}
