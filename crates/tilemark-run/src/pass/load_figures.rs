//! From what load processes reported, second by second, to a repeat in figures. Pure.
//!
//! Percentiles come from merged histograms, never from averaged percentiles. The histograms of each
//! second are kept as they came, tagged with guest and load.

use crate::{
    pass::histograms::{add, histogram, latency_ms, lateness_us},
    pass::load_merge::{GuestMerge, LoadMerge, SecondLoadMerge, StreamReports, quality},
};
use std::collections::BTreeMap;
use tilemark_agent_protocol::{Counts, LoadEvent, Sender};
use tilemark_plan::{
    plan::{Demand, LoadPlan, Point},
    scenario::LoopKind,
    workload::{CommandFigure, Details},
};
use tilemark_record::{
    TaggedSecond,
    clients::ClientLoad,
    histogram::BadHistogram,
    jobs::JobsFigures,
    result::{Fairness, LatencyMs, LatenessUs, Measured},
    rows::SecondRow,
    store::StoreFigures,
    summary::{Busy, Drift, DriftOf, EncodedHistogram, GuestFigures, Incident, IncidentKind, LoadFigures},
};
use tilemark_statistics::{Demanded, fairness_by_demand};

/// What all load processes of a pass reported.
#[derive(Debug, Default)]
pub(crate) struct LoadReports {
    /// By the load's place in the point's list.
    streams: BTreeMap<u32, StreamReports>,
    /// How busy the outside sender was, second by second.
    busy: Vec<f64>,
    /// Whether each thread of the outside sender was bound to its processors; nothing where it has none of ours.
    is_in_place: Option<bool>,
    /// How busy loads were that run inside guests, by the load's place.
    busy_inside: BTreeMap<u32, Vec<f64>>,
    /// The same of client machines, by their places in the site file.
    busy_clients: BTreeMap<u32, Vec<f64>>,
    /// What the threads of client machines got of their kernels.
    senders: BTreeMap<u32, Sender>,
}

impl LoadReports {
    /// Takes an event of the outside load process, whose streams are numbered like the point's loads.
    pub(crate) fn outside(&mut self, event: LoadEvent) {
        match event {
            LoadEvent::Busy { fraction, .. } => self.busy.push(fraction),
            LoadEvent::Started(sender) if sender.workers > 0 => self.is_in_place = Some(sender.pinned),
            other => self.stream_event(other, |id| id),
        }
    }

    /// Whether each thread of the load on this host was where the plan has it.
    pub(crate) fn is_in_place(&self) -> Option<bool> {
        self.is_in_place
    }

    /// Takes an event of the load that runs inside a guest, which is the point's load `place`.
    pub(crate) fn inside(&mut self, place: u32, event: LoadEvent) {
        match event {
            LoadEvent::Busy { fraction, .. } => self.busy_inside.entry(place).or_default().push(fraction),
            other => self.stream_event(other, |_| place),
        }
    }

    /// Takes an event of the client machine at this place in the site file, whose streams are numbered like the point's loads.
    pub(crate) fn client(&mut self, place: u32, event: LoadEvent) {
        match event {
            LoadEvent::Busy { fraction, .. } => self.busy_clients.entry(place).or_default().push(fraction),
            LoadEvent::Started(sender) => {
                self.senders.insert(place, sender);
            }
            other => self.stream_event(other, |id| id),
        }
    }

    /// Nothing of a client machine counts that was lost: these are its tiles.
    pub(crate) fn forget_client(&mut self, place: u32, point: &Point, tiles: &[u32]) {
        self.busy_clients.remove(&place);
        self.streams.retain(|id, _| {
            let load = point.loads.get(*id as usize);
            !load.is_some_and(|load| load.from_clients && tiles.contains(&load.tile))
        });
    }

    /// How busy a client machine's threads were.
    pub(crate) fn client_busy(&self, place: u32) -> Busy {
        self.busy_clients.get(&place).map(|busy| busy_of(busy)).unwrap_or_default()
    }

    /// What a client machine's threads got of its kernel.
    pub(crate) fn client_sender(&self, place: u32) -> Option<&Sender> {
        self.senders.get(&place)
    }

    /// How long the client machine of these tiles sent, in seconds: as planned, but as long as it took where a load counts its messages.
    pub(crate) fn seconds_of_client(&self, point: &Point, tiles: &[u32]) -> f64 {
        let planned = point.measure.length.get().as_secs_f64();
        let its = |(_, load): &(u32, &LoadPlan)| load.from_clients && tiles.contains(&load.tile);
        let of_load = |(place, load): (u32, &LoadPlan)| {
            let total = self.streams.get(&place).and_then(|reports| reports.total.as_ref());
            let counted = total.filter(|total| load.work.facts().count() > 0 && total.seconds > 0.0);
            counted.map_or(planned, |total| total.seconds)
        };
        let longest = (0..).zip(&point.loads).filter(its).map(of_load).reduce(f64::max);
        point.measure.warmup.get().as_secs_f64() + longest.unwrap_or(planned)
    }

    /// Each load that the client machine of these tiles sent, over its guests.
    pub(crate) fn loads_of_client(
        &self,
        point: &Point,
        tiles: &[u32],
    ) -> Result<Vec<ClientLoad>, BadHistogram> {
        let mut loads: Vec<ClientLoad> = Vec::new();
        let its = |(_, load): &(u32, &LoadPlan)| load.from_clients && tiles.contains(&load.tile);
        let mut by_name: BTreeMap<&str, Vec<&StreamReports>> = BTreeMap::new();
        for (place, load) in (0..).zip(&point.loads).filter(its) {
            by_name.entry(&load.name).or_default().extend(self.streams.get(&place));
        }
        for (name, streams) in by_name {
            let (mut latency, mut lateness, mut counts) = (histogram(), histogram(), Counts::default());
            for stream in streams {
                add(&mut latency, &stream.all(|second| &second.latency)?)?;
                add(&mut lateness, &stream.all(|second| &second.lateness)?)?;
                counts = [counts].into_iter().chain(stream.total.iter().map(|total| total.counts)).sum();
            }
            let latency = latency_ms(&latency);
            loads.push(ClientLoad {
                name: name.to_owned(),
                offered: counts.offered,
                completed: counts.completed,
                p50_ms: latency.p50,
                p99_ms: latency.p99,
                send_lateness_p99_us: lateness_us(&lateness).p99,
            });
        }
        Ok(loads)
    }

    fn stream_event(&mut self, event: LoadEvent, place: impl Fn(u32) -> u32) {
        match event {
            LoadEvent::Second(second) => {
                self.streams.entry(place(second.id)).or_default().seconds.push(second);
            }
            LoadEvent::Output { id, text } => {
                self.streams.entry(place(id)).or_default().output = Some(text);
            }
            LoadEvent::Details { id, details } => {
                self.streams.entry(place(id)).or_default().details = Some(*details);
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

    /// Nothing of a load counts that reported what cannot be.
    pub(crate) fn forget(&mut self, place: u32) {
        self.streams.remove(&place);
        self.busy_inside.remove(&place);
    }

    /// What only loads of its workload find, of the load at this place.
    pub(crate) fn details(&self, place: u32) -> Option<&Details> {
        self.streams.get(&place)?.details.as_ref()
    }

    /// What a load reported as completed in each of so many seconds, by its place in the point's list.
    pub(crate) fn completed_by_second(&self, place: u32, seconds: u32) -> Vec<u64> {
        let mut completed = vec![0_u64; seconds as usize];
        for second in self.streams.get(&place).iter().flat_map(|stream| &stream.seconds) {
            // A guest may say what it likes: what lies outside the measurement is nobody's.
            if let Some(completed) = completed.get_mut(second.second as usize) {
                *completed = completed.saturating_add(second.counts.completed);
            }
        }
        completed
    }

    /// All figures of the point's loads, in the order of their first appearance.
    pub(crate) fn figures<'a>(&'a self, point: &'a Point, repeat: u32) -> Result<Figures<'a>, BadHistogram> {
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

    fn one_load<'a>(
        &'a self,
        point: &'a Point,
        repeat: u32,
        name: &str,
        into: &mut Figures<'a>,
    ) -> Result<(), BadHistogram> {
        let mut of_load = LoadMerge::default();
        let mut last = None;
        for (place, load) in (0..).zip(&point.loads).filter(|(_, load)| load.name == name) {
            of_load
                .guests
                .push(GuestMerge::new(&point.guests[load.guest as usize], self.streams.get(&place)));
            last = Some(load);
        }
        let Some(load) = last else { return Ok(()) };
        let seconds = of_load.take_seconds(name, &mut into.latency)?;
        let pages = load.work.facts().good_and_tolerable();
        let guests: Vec<GuestFigures> =
            of_load.guests.iter().map(|guest| guest.figures(&mut of_load.merged, pages)).collect();
        let surge = surge_of(point)
            .map(|tile| {
                let length = u32::try_from(point.measure.length.get().as_secs()).unwrap_or(u32::MAX);
                of_load.around_surge(tile, point.measure.surge_seconds(), length)
            })
            .transpose()?;
        let merged = of_load.merged;
        into.seconds.extend(seconds.iter().map(|second| second.row(point.index, repeat, name)));
        into.loads.push(LoadFigures {
            name: name.to_owned(),
            role: point.guests[load.guest as usize].role,
            loop_kind: load.demand.loop_kind(),
            measured: measured(load),
            unit: load.work.facts().unit().to_owned(),
            seconds: merged.seconds,
            offered: merged.counts.offered,
            completed: merged.counts.completed,
            completed_in_time: Some(merged.completed_in_time),
            failed: merged.counts.failed,
            wrong: merged.counts.wrong,
            bytes: merged.counts.bytes,
            latency_ms: LatencyMs {
                deviation_of_seconds: deviation_of_seconds(&seconds),
                ..latency_ms(&merged.latency)
            },
            latency_histogram: Some(EncodedHistogram::of(&merged.latency)),
            quality: pages.map(|times| quality(&merged.counts, merged.latency.len(), times)),
            send_lateness_us: lateness_us(&merged.lateness),
            client_cpu_s: merged.client_cpu_s,
            sender_busy: self.sender_busy_of(point, name),
            fairness: fairness_of(&guests, load.demand.loop_kind()),
            guests,
            errors: merged.errors,
            // A surge is no drift.
            drift: match surge {
                None => drift_of(&seconds, merged.seconds, load.demand.loop_kind()),
                Some(_) => None,
            },
            surge,
            store: self.stores(point, name),
            jobs: self.jobs(point, name),
            figure: self.figure(point, name),
        });
        Ok(())
    }

    /// What store loads of this name found, guest by guest.
    fn stores(&self, point: &Point, name: &str) -> Vec<StoreFigures> {
        let loads = (0..).zip(&point.loads).filter(|(_, load)| load.name == name);
        let of = |(place, load): (u32, &LoadPlan)| {
            let Details::Store(found) = self.streams.get(&place)?.details.clone()? else { return None };
            Some(StoreFigures { guest: point.guests[load.guest as usize].name.clone(), ..found })
        };
        loads.filter_map(of).collect()
    }

    /// What loads of jobs of this name found, guest by guest. Rates are those of the totals.
    fn jobs(&self, point: &Point, name: &str) -> Vec<JobsFigures> {
        let loads = (0..).zip(&point.loads).filter(|(_, load)| load.name == name);
        let of = |(place, load): (u32, &LoadPlan)| {
            let reports = self.streams.get(&place)?;
            let Details::Jobs(found) = reports.details.clone()? else { return None };
            let guest = &point.guests[load.guest as usize];
            let users = load.in_flight(guest).count;
            let total = reports.total.as_ref().filter(|total| total.seconds > 0.0);
            let jobs_per_minute = total.map(|total| total.completed_in_time as f64 * 60.0 / total.seconds);
            Some(JobsFigures {
                guest: guest.name.clone(),
                users,
                jobs_per_minute,
                jobs_per_minute_and_user: jobs_per_minute.map(|rate| rate / users as f64),
                ..found
            })
        };
        loads.filter_map(of).collect()
    }

    /// The one figure of commands of this name: the mean over their guests.
    fn figure(&self, point: &Point, name: &str) -> Option<CommandFigure> {
        let loads = (0..).zip(&point.loads).filter(|(_, load)| load.name == name);
        let of = |(place, _): (u32, &LoadPlan)| match self.streams.get(&place)?.details.clone()? {
            Details::Command(figure) => Some(figure),
            Details::Store(_) | Details::Jobs(_) => None,
        };
        let figures: Vec<CommandFigure> = loads.filter_map(of).collect();
        let value = figures.iter().map(|figure| figure.value).sum::<f64>() / figures.len() as f64;
        figures.into_iter().next().map(|figure| CommandFigure { value, ..figure })
    }

    /// Databases whose load reported no audit: nobody can say whether what it did was right.
    pub(crate) fn unaudited<'a>(&'a self, point: &'a Point) -> impl Iterator<Item = Incident> + 'a {
        let is_store = |load: &LoadPlan| load.work.store().is_some();
        let is_audited =
            |name: &str, guest: &str| self.stores(point, name).iter().any(|store| store.guest == guest);
        point.loads.iter().filter(move |load| is_store(load)).filter_map(move |load| {
            let guest = point.guests[load.guest as usize].name.clone();
            let what = "its database was not audited".to_owned();
            (!is_audited(&load.name, &guest)).then_some(Incident {
                kind: IncidentKind::Unproven,
                what,
                guest: Some(guest),
            })
        })
    }

    /// What loads found by their own account.
    pub(crate) fn findings<'a>(&'a self, point: &'a Point) -> impl Iterator<Item = Incident> + 'a {
        self.streams.iter().flat_map(move |(place, reports)| {
            let guest = || Some(point.guests[point.loads.get(*place as usize)?.guest as usize].name.clone());
            let findings = reports.total.iter().flat_map(|total| &total.findings);
            findings.map(move |finding| Incident {
                kind: finding.kind,
                what: finding.what.clone(),
                guest: guest(),
            })
        })
    }

    /// The output of the tool or engine behind each load, by its place in the point's list.
    pub(crate) fn tool_outputs(&self) -> impl Iterator<Item = (u32, &str)> {
        self.streams.iter().filter_map(|(place, reports)| Some((*place, reports.output.as_deref()?)))
    }

    /// What one load's totals count; nothing without totals.
    pub(crate) fn counts(&self, place: u32) -> Counts {
        let total = self.streams.get(&place).and_then(|reports| reports.total.as_ref());
        total.map(|total| total.counts).unwrap_or_default()
    }

    /// All that one stream reported.
    pub(crate) fn of_one_stream(&self, id: u32) -> Result<OneStream, BadHistogram> {
        let Some(reports) = self.streams.get(&id) else { return Ok(OneStream::default()) };
        let Some(total) = reports.total.clone() else { return Ok(OneStream::default()) };
        Ok(OneStream {
            counts: total.counts,
            completed_in_time: total.completed_in_time,
            seconds: total.seconds,
            client_cpu_s: total.client_cpu_s,
            latency_ms: latency_ms(&reports.all(|second| &second.latency)?),
            lateness_us: lateness_us(&reports.all(|second| &second.lateness)?),
            errors: total.errors,
        })
    }

    /// How busy the outside sender was.
    pub(crate) fn sender_busy(&self) -> Busy {
        busy_of(&self.busy)
    }

    /// How busy the senders of the loads of this name were: of those in guests the busiest. What works in the guest that it loads is not a
    /// sender: it may use all of its processors.
    fn sender_busy_of(&self, point: &Point, name: &str) -> Busy {
        let loads = (0..).zip(&point.loads).filter(|(_, load)| load.name == name);
        let each = loads.map(|(place, load)| match (load.runs_in(), load.from) {
            (None, _) if load.from_clients => {
                let each = self.busy_clients.values().map(|busy| busy_of(busy));
                each.max_by(|one, other| one.max_fraction.total_cmp(&other.max_fraction)).unwrap_or_default()
            }
            (None, _) => self.sender_busy(),
            (Some(_), Some(_)) => self.busy_inside.get(&place).map(|busy| busy_of(busy)).unwrap_or_default(),
            (Some(_), None) => Busy::default(),
        });
        each.max_by(|one, other| one.max_fraction.total_cmp(&other.max_fraction)).unwrap_or_default()
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
pub(crate) struct Figures<'a> {
    /// Each load.
    pub(crate) loads: Vec<LoadFigures>,
    /// Each load's seconds.
    pub(crate) seconds: Vec<SecondRow>,
    /// The histograms of each guest, load and second.
    pub(crate) latency: Vec<TaggedSecond<'a>>,
}

/// The tile with a surge, where one was planned.
fn surge_of(point: &Point) -> Option<u32> {
    let has_surge = |load: &&LoadPlan| matches!(load.demand, Demand::Open { surge: Some(_), .. });
    point.loads.iter().find(has_surge).map(|load| load.tile)
}

/// From where a load is measured.
fn measured(load: &LoadPlan) -> Measured {
    if load.runs_in().is_some() { Measured::Inside } else { Measured::Outside }
}

fn busy_of(seconds: &[f64]) -> Busy {
    let mean_fraction = seconds.iter().sum::<f64>() / seconds.len().max(1) as f64;
    Busy { mean_fraction, max_fraction: seconds.iter().copied().fold(0.0, f64::max) }
}

/// How far the means of seconds lie apart, in milliseconds: sample deviation.
fn deviation_of_seconds(seconds: &[SecondLoadMerge]) -> Option<f64> {
    let means = seconds.iter().filter(|second| second.known > 0).map(|second| second.mean_ms);
    tilemark_statistics::sample_deviation(&means.collect::<Vec<_>>())
}

/// A median of fewer requests than this moves by chance.
const REQUESTS_OF_A_SECOND_MIN: u64 = 20;

/// Whether a load drifted over its whole seconds: its median latency, or what it was answered in a closed loop where the
/// seconds have too few requests for a latency.
fn drift_of(seconds: &[SecondLoadMerge], length_s: f64, loop_kind: LoopKind) -> Option<Drift> {
    let whole = length_s as u32;
    let seconds: Vec<&SecondLoadMerge> = seconds.iter().filter(|second| second.second < whole).collect();
    if seconds.len() != whole as usize {
        return None;
    }
    let test = |what, values: Vec<f64>| {
        let tilemark_statistics::Unsettled { first_half, second_half } = tilemark_statistics::drift(&values)?;
        Some(Drift { what, first_half, second_half, p: tilemark_statistics::FALSE_ALARMS_MAX })
    };
    if seconds.iter().all(|second| second.known >= REQUESTS_OF_A_SECOND_MIN) {
        return test(DriftOf::Latency, seconds.iter().filter_map(|second| second.p50_ms).collect());
    }
    let answered = || seconds.iter().map(|second| second.counts.completed as f64).collect();
    (loop_kind == LoopKind::Closed).then(|| test(DriftOf::Throughput, answered())).flatten()
}

/// How evenly guests were served; nothing where one shares with nobody.
fn fairness_of(guests: &[GuestFigures], loop_kind: LoopKind) -> Option<Fairness> {
    let demanded = |guest: &GuestFigures| Demanded {
        guest: guest.name.clone(),
        offered: guest.offered,
        completed: guest.completed,
        repeats: 1,
        // Without totals its load ended with it.
        lost: u32::from(guest.completed_in_time.is_none()),
    };
    fairness_by_demand(&guests.iter().map(demanded).collect::<Vec<_>>(), loop_kind).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        fakes::{TILE, ladder, plan_of},
        pass::load_jobs::{inside_job, outside_job},
        pass::report_check::{RefusedReport, ReportCheck, Reporter},
    };
    use hdrhistogram::serialization::{Serializer as _, V2DeflateSerializer};
    use std::time::Duration;
    use tilemark_agent_protocol::{StreamSecond, StreamTotal};
    use tilemark_plan::{
        plan::Plan,
        resolve::Request,
        workload::{JobKind, MessagingParameters, Work},
    };
    use tilemark_record::{jobs::JobTimes, summary::Quality};

    fn details(orders_per_minute: f64) -> LoadEvent {
        let found = StoreFigures {
            orders_per_minute: Some(orders_per_minute),
            audit: "a".repeat(2_000),
            ..StoreFigures::default()
        };
        LoadEvent::Details { id: 1, details: Box::new(Details::Store(found)) }
    }

    fn plan() -> Plan {
        let database = "[[guest]]\nname = \"db\"\nrole = \"database\"\nmemory = \"1GiB\"\n[[guest.disk]]\n\
                        size = \"8GiB\"\n[[load]]\nname = \"shop\"\nguest = \"db\"\nloop = \"closed\"\n[load.store]\n[ladder]";
        plan_of(&TILE.replace("[ladder]", database), &Request { tiles: Some(vec![1]), ..ladder() })
    }

    /// What the outside load process of the plan may report, when it is ready.
    fn check(plan: &Plan) -> ReportCheck {
        let job = outside_job(plan, &plan.points[0], 1, &vec![vec![1]; 8]).unwrap();
        let mut check = ReportCheck::of(&job, Reporter::Ours, Duration::from_secs(60));
        let sender = Sender { workers: 1, real_time: false, timer_slack_ns: 1, pinned: false };
        check.take(LoadEvent::Started(sender)).unwrap();
        check
    }

    #[test]
    fn what_a_store_found_is_in_its_figures_and_without_it_nobody_audited_it() {
        let plan = plan();
        let (mut reports, point) = (LoadReports::default(), &plan.points[0]);
        assert_eq!(reports.unaudited(point).count(), 1);
        reports.outside(check(&plan).take(details(240.0)).unwrap());
        assert_eq!(reports.unaudited(point).count(), 0);
        let loads = reports.figures(point, 1).unwrap().loads;
        let stores = &loads.iter().find(|load| load.name == "shop").unwrap().store;
        assert_eq!((stores[0].guest.as_str(), stores[0].orders_per_minute), ("tile-001-db", Some(240.0)));
        assert!(stores[0].audit.len() < 1_100, "words are cut");
        assert!(loads[0].store.is_empty());
    }

    fn job_times(count: u64, mean_ms: f64) -> JobTimes {
        JobTimes { count, mean_ms: Some(mean_ms), ..JobTimes::default() }
    }

    fn jobs(figures: JobsFigures) -> LoadEvent {
        LoadEvent::Details { id: 0, details: Box::new(Details::Jobs(figures)) }
    }

    /// What the load inside a guest with two users and a mix of two jobs may report, when it is ready.
    fn check_of_jobs() -> (Plan, ReportCheck) {
        let compute = "[[guest]]\nname = \"jobs\"\nrole = \"compute\"\n[[load]]\nname = \"jobs\"\nguest = \"jobs\"\n\
                       loop = \"closed\"\n[load.jobs]\nusers = 2\nmix = { sort = 2, read = 1 }\n[ladder]";
        let plan = plan_of(&TILE.replace("[ladder]", compute), &Request { tiles: Some(vec![1]), ..ladder() });
        let point = &plan.points[0];
        let load = point.loads.iter().find(|load| load.name == "jobs").unwrap();
        let job = inside_job(point, 1, load, &vec![vec![1]; 8]).unwrap();
        let mut check = ReportCheck::of(&job, Reporter::Guest, Duration::from_secs(10));
        let sender = Sender { workers: 1, real_time: false, timer_slack_ns: 1, pinned: false };
        check.take(LoadEvent::Started(sender)).unwrap();
        (plan, check)
    }

    #[test]
    fn what_jobs_found_is_in_the_figures_with_the_rates_of_the_totals() {
        let (plan, mut check) = check_of_jobs();
        let claimed = JobsFigures {
            guest: "another".to_owned(),
            users: 99,
            jobs_per_minute: Some(1e9),
            jti: Some(0.97),
            kinds: [(JobKind::Sort, job_times(40, 25.0))].into(),
            ..JobsFigures::default()
        };
        let mut reports = LoadReports::default();
        let place = plan.points[0].loads.iter().position(|load| load.name == "jobs").unwrap() as u32;
        reports.inside(place, check.take(jobs(claimed)).unwrap());
        let total = StreamTotal { id: 0, seconds: 2.0, completed_in_time: 41, ..StreamTotal::default() };
        reports.inside(place, LoadEvent::Done(vec![total]));
        let loads = reports.figures(&plan.points[0], 1).unwrap().loads;
        let found = &loads.iter().find(|load| load.name == "jobs").unwrap().jobs;
        let wanted = JobsFigures {
            guest: "tile-001-jobs".to_owned(),
            users: 2,
            jobs_per_minute: Some(1_230.0),
            jobs_per_minute_and_user: Some(615.0),
            jti: Some(0.97),
            kinds: [(JobKind::Sort, job_times(40, 25.0))].into(),
        };
        assert_eq!(found, &[wanted]);
    }

    #[test]
    fn jobs_that_cannot_be_are_refused() {
        let of = |kind, times| JobsFigures { kinds: [(kind, times)].into(), ..JobsFigures::default() };
        let with_jti = |jti| JobsFigures { jti: Some(jti), ..JobsFigures::default() };
        for (what, figures) in [
            ("a kind that is not in its mix", of(JobKind::Float, job_times(1, 1.0))),
            ("more jobs than answers", of(JobKind::Read, job_times(5_000, 1.0))),
            ("jobs beyond all counting", of(JobKind::Read, job_times(u64::MAX, 1.0))),
            ("a time that is no number", of(JobKind::Read, job_times(1, f64::NAN))),
            ("a time that is longer than the load", of(JobKind::Read, job_times(1, 1e9))),
            ("a time of no job", of(JobKind::Read, job_times(0, 1.0))),
            ("an index above 1", with_jti(1.01)),
            ("an index that is no number", with_jti(f64::NAN)),
        ] {
            let refused = check_of_jobs().1.take(jobs(figures));
            assert!(refused.is_err(), "{what}: {refused:?}");
        }
        let (_, mut check) = check_of_jobs();
        check.take(jobs(JobsFigures::default())).unwrap();
        assert!(matches!(check.take(jobs(JobsFigures::default())), Err(RefusedReport::NoDetails(0))));
        let (_, mut check) = check_of_jobs();
        let store = Box::new(Details::Store(StoreFigures::default()));
        let refused = check.take(LoadEvent::Details { id: 0, details: store });
        assert!(matches!(refused, Err(RefusedReport::NoDetails(0))), "a guest with jobs has no store");
        let store = plan();
        let jobs = Box::new(Details::Jobs(JobsFigures::default()));
        let refused = self::check(&store).take(LoadEvent::Details { id: 1, details: jobs });
        assert!(matches!(refused, Err(RefusedReport::NoDetails(1))), "a store has no jobs");
    }

    #[test]
    fn a_client_whose_load_counts_its_messages_sends_as_long_as_that_takes() {
        let text = TILE.replace("length = \"1s\"", "length = \"60s\"");
        let mut point = plan_of(&text, &ladder()).points.swap_remove(1);
        point.loads.iter_mut().for_each(|load| load.from_clients = true);
        assert_eq!(point.loads.iter().map(|load| load.tile).collect::<Vec<_>>(), [1, 2]);
        let mut reports = LoadReports::default();
        let totals = [(0, 8.0), (1, 600.0)];
        let totals = totals.map(|(id, seconds)| StreamTotal { id, seconds, ..StreamTotal::default() });
        reports.client(0, LoadEvent::Done(totals.into()));
        let seconds =
            |point: &Point| [&[1][..], &[2], &[1, 2]].map(|tiles| reports.seconds_of_client(point, tiles));
        // By time: the plan's, behind a second of warm-up.
        assert_eq!(seconds(&point), [61.0; 3]);
        for load in &mut point.loads {
            let counted = MessagingParameters { count: 1_000_000, ..MessagingParameters::default() };
            load.work = Work::Messaging(counted);
        }
        assert_eq!(seconds(&point), [9.0, 601.0, 601.0]);
        // One that was lost has no totals.
        assert_eq!(LoadReports::default().seconds_of_client(&point, &[1]), 61.0);
    }

    /// 100 requests of each of two streams are answered in each of 8 s, and one fails. They take so many milliseconds; none: it is not
    /// reported.
    fn served_for_8s(milliseconds: impl Fn(u32, u32) -> Option<u64>) -> LoadReports {
        let mut reports = LoadReports::default();
        for (id, second) in (0..2).flat_map(|id| (0..8).map(move |second| (id, second))) {
            let mut latency = crate::pass::histograms::histogram();
            if let Some(ms) = milliseconds(id, second) {
                latency.record_n(ms * 1_000_000, 100).unwrap();
            }
            let counts = Counts { offered: 101, completed: 100, failed: 1, ..Counts::default() };
            let lateness = encoded(&crate::pass::histograms::histogram());
            let latency = encoded(&latency);
            reports.outside(LoadEvent::Second(StreamSecond { id, second, counts, latency, lateness }));
        }
        let totals = (0..2).map(|id| StreamTotal { id, seconds: 8.0, ..StreamTotal::default() });
        reports.outside(LoadEvent::Done(totals.collect()));
        reports
    }

    fn plan_with_surge() -> Plan {
        let surge = "repeats = 3\nsurge = { tile = 1, factor = 16 }";
        let text = TILE.replace("length = \"1s\"", "length = \"8s\"").replace("repeats = 3", surge);
        plan_of(&text, &ladder())
    }

    #[test]
    fn latencies_that_come_with_the_last_second_are_of_no_part_around_a_surge() {
        let plan = plan_with_surge();
        let point = plan.points.iter().find(|point| point.tiles == 2).unwrap();
        let reports = served_for_8s(|_, second| (second == 7).then_some(5));
        let around = reports.figures(point, 1).unwrap().loads[0].surge.unwrap();
        for part in [around.before, around.during, around.after] {
            assert_eq!((part.mean_ms, part.p99_ms), (None, None), "{part:?}");
            assert_eq!(part.completed, 100 * u64::from(part.seconds));
        }
    }

    #[test]
    fn pages_are_good_within_the_shorter_time_and_tolerable_within_the_longer_and_those_that_failed_are_neither()
     {
        let sessions = "[load.sessions]\ngood = \"2s\"\ntolerable = \"4s\"";
        let plan = plan_of(&TILE.replace("[load.web]", sessions), &ladder());
        let mut latency = crate::pass::histograms::histogram();
        // Of 94 right pages 90 were good and all tolerable. Three failed at once and three late.
        for (ms, pages) in [(1_000, 93), (3_000, 4), (9_000, 3)] {
            latency.record_n(ms * 1_000_000, pages).unwrap();
        }
        let right = Counts { completed: 94, good: 90, tolerable: 94, ..Counts::default() };
        let counts = Counts { offered: 100, failed: 5, wrong: 1, ..right };
        let (latency, lateness) = (encoded(&latency), encoded(&crate::pass::histograms::histogram()));
        let mut reports = LoadReports::default();
        reports.outside(LoadEvent::Second(StreamSecond { id: 0, second: 0, counts, latency, lateness }));
        reports.outside(LoadEvent::Done(vec![StreamTotal {
            counts,
            seconds: 1.0,
            ..StreamTotal::default()
        }]));
        let loads = reports.figures(&plan.points[0], 1).unwrap().loads;
        let found = loads[0].quality.unwrap();
        let wanted = Quality { good: 90, tolerable: 94, of: 100, good_ms: 2_000.0, tolerable_ms: 4_000.0 };
        assert_eq!(found, wanted);
        assert_eq!(loads[0].guests[0].quality, Some(wanted), "it has the load alone");
    }

    #[test]
    fn what_other_tiles_were_served_around_a_surge_leaves_its_own_tile_out() {
        let plan = plan_with_surge();
        let point = plan.points.iter().find(|point| point.tiles == 2).unwrap();
        // In tile 2 a request takes 1 ms, in seconds 4 and 5 it takes 3 ms; in tile 1 always 90 ms.
        let reports = served_for_8s(|id, second| match (id, (4..6).contains(&second)) {
            (0, _) => Some(90),
            (_, true) => Some(3),
            (_, false) => Some(1),
        });
        let figures = reports.figures(point, 1).unwrap().loads;
        let around = figures[0].surge.unwrap();
        for (part, seconds, ms) in [(around.before, 4, 1.0), (around.during, 2, 3.0), (around.after, 2, 1.0)]
        {
            let each = u64::from(part.seconds);
            assert_eq!(
                (part.seconds, part.offered, part.completed, part.errors),
                (seconds, 101 * each, 100 * each, each)
            );
            assert!((part.mean_ms.unwrap() / ms - 1.0).abs() < 0.01, "{part:?}");
        }
        assert_eq!(figures[0].drift, None, "a surge is no drift");
        let one = plan.points.iter().find(|point| point.tiles == 1).unwrap();
        assert_eq!(reports.figures(one, 1).unwrap().loads[0].surge, None);
    }

    fn encoded(histogram: &hdrhistogram::Histogram<u64>) -> Vec<u8> {
        let mut bytes = Vec::new();
        V2DeflateSerializer::new().serialize(histogram, &mut bytes).unwrap();
        bytes
    }

    #[test]
    fn a_load_in_a_guest_is_as_busy_as_the_busiest_of_its_senders() {
        let plan = plan_of(tilemark_fixtures::TILE_WITH_CLIENT, &ladder());
        let (mut reports, busy) = (LoadReports::default(), |fraction| LoadEvent::busy(0, fraction));
        reports.outside(busy(0.2));
        for (place, fraction) in [(1, 0.1), (3, 0.4), (3, 0.8)] {
            reports.inside(place, busy(fraction));
        }
        let busy_of = |reports: &LoadReports, name| {
            let Busy { mean_fraction, max_fraction } = reports.sender_busy_of(&plan.points[0], name);
            (mean_fraction, max_fraction)
        };
        assert_eq!(busy_of(&reports, "web"), (0.2, 0.2));
        assert!((busy_of(&reports, "inside").0 - 0.6).abs() < 1e-9);
        assert_eq!(busy_of(&reports, "inside").1, 0.8);
        reports.forget(3);
        assert_eq!(busy_of(&reports, "inside"), (0.1, 0.1));
    }

    #[test]
    fn details_come_once_and_their_figures_are_numbers() {
        let plan = plan();
        let mut check = check(&plan);
        check.take(details(1.0)).unwrap();
        assert!(matches!(check.take(details(1.0)), Err(RefusedReport::NoDetails(1))));
        for no_number in [f64::NAN, f64::INFINITY, -1.0] {
            let refused = self::check(&plan).take(details(no_number));
            assert!(matches!(refused, Err(RefusedReport::Figure { .. })), "{no_number}: {refused:?}");
        }
    }
}
