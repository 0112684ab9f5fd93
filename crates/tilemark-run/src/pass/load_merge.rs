//! One load over all its guests, second by second: decoded, one second is in memory at a time. Pure.

use crate::pass::histograms::{add, histogram, latency_ms, ms_at};
use hdrhistogram::Histogram;
use std::{collections::BTreeMap, ops::Range};
use tilemark_agent_protocol::{Counts, StreamSecond, StreamTotal};
use tilemark_plan::{plan::GuestPlan, workload::Details};
use tilemark_record::{
    TaggedSecond,
    histogram::{BadHistogram, decode},
    rows::SecondRow,
    summary::{AroundSurge, EncodedHistogram, GuestFigures, Quality, SurgePart, WorstSecond},
};
use tilemark_units::Span;

/// What one load on one guest reported.
#[derive(Debug, Clone, Default)]
pub(crate) struct StreamReports {
    pub(crate) seconds: Vec<StreamSecond>,
    pub(crate) output: Option<String>,
    pub(crate) details: Option<Details>,
    pub(crate) total: Option<StreamTotal>,
}

impl StreamReports {
    /// All seconds in one histogram. Totals come without: those of hundreds of streams would be longer than
    /// a frame may be.
    pub(crate) fn all(&self, of: impl Fn(&StreamSecond) -> &[u8]) -> Result<Histogram<u64>, BadHistogram> {
        let mut all = histogram();
        for second in &self.seconds {
            add(&mut all, &decode(of(second))?)?;
        }
        Ok(all)
    }
}

/// Histograms and counts that were added up.
pub(crate) struct Merged {
    pub(crate) latency: Histogram<u64>,
    pub(crate) lateness: Histogram<u64>,
    pub(crate) counts: Counts,
    pub(crate) completed_in_time: u64,
    pub(crate) seconds: f64,
    pub(crate) client_cpu_s: f64,
    pub(crate) errors: Vec<String>,
}

impl Default for Merged {
    fn default() -> Self {
        Self {
            latency: histogram(),
            lateness: histogram(),
            counts: Counts::default(),
            completed_in_time: 0,
            seconds: 0.0,
            client_cpu_s: 0.0,
            errors: Vec::new(),
        }
    }
}

fn add_counts(sum: &mut Counts, counts: Counts) {
    sum.offered = sum.offered.saturating_add(counts.offered);
    sum.completed = sum.completed.saturating_add(counts.completed);
    sum.failed = sum.failed.saturating_add(counts.failed);
    sum.wrong = sum.wrong.saturating_add(counts.wrong);
    sum.bytes = sum.bytes.saturating_add(counts.bytes);
    sum.good = sum.good.saturating_add(counts.good);
    sum.tolerable = sum.tolerable.saturating_add(counts.tolerable);
}

/// One load over all its guests, while it is put together.
#[derive(Default)]
pub(crate) struct LoadMerge<'a> {
    pub(crate) guests: Vec<GuestMerge<'a>>,
    pub(crate) merged: Merged,
}

impl<'a> LoadMerge<'a> {
    /// Merges the seconds, one after the other over all guests: decoded, those of hundreds of guests would take gigabytes.
    pub(crate) fn take_seconds(
        &mut self,
        name: &str,
        log: &mut Vec<TaggedSecond<'a>>,
    ) -> Result<Vec<SecondLoadMerge>, BadHistogram> {
        let mut parts: BTreeMap<u32, Vec<(usize, &'a StreamSecond)>> = BTreeMap::new();
        for (place, guest) in self.guests.iter().enumerate() {
            for second in guest.reports.iter().flat_map(|reports| &reports.seconds) {
                parts.entry(second.second).or_default().push((place, second));
            }
        }
        let mut seconds = Vec::new();
        for (second, parts) in parts {
            let (mut counts, mut latency) = (Counts::default(), histogram());
            for (place, part) in parts {
                let guest = &mut self.guests[place];
                let of_part = decode(&part.latency)?;
                guest.take(second, &of_part)?;
                add_counts(&mut counts, part.counts);
                add(&mut latency, &of_part)?;
                if guest.total().is_some() {
                    add(&mut self.merged.latency, &of_part)?;
                    add(&mut self.merged.lateness, &decode(&part.lateness)?)?;
                }
                log.push(TaggedSecond {
                    tag: format!("{}/{name}", guest.plan.name),
                    second,
                    latency: &part.latency,
                });
            }
            seconds.push(SecondLoadMerge::of(second, counts, &latency));
        }
        Ok(seconds)
    }
}

impl LoadMerge<'_> {
    /// What guests of other tiles than this one were served around these seconds.
    pub(crate) fn around_surge(
        &self,
        tile: u32,
        surge: Range<u32>,
        length: u32,
    ) -> Result<AroundSurge, BadHistogram> {
        let mut around = AroundSurge {
            before: self.part(tile, 0..surge.start)?,
            during: self.part(tile, surge.clone())?,
            after: self.part(tile, surge.end..length)?,
        };
        // A program that reports all its latencies with its last second has times of no part.
        let parts = [&mut around.before, &mut around.during, &mut around.after];
        if parts.iter().any(|part| part.completed > 0 && part.mean_ms.is_none()) {
            parts.into_iter().for_each(|part| (part.mean_ms, part.p99_ms) = (None, None));
        }
        Ok(around)
    }

    fn part(&self, tile: u32, seconds: Range<u32>) -> Result<SurgePart, BadHistogram> {
        let (mut counts, mut latency) = (Counts::default(), histogram());
        let others = self.guests.iter().filter(|guest| guest.plan.tile != tile && guest.total().is_some());
        let reported = others.filter_map(|guest| guest.reports).flat_map(|reports| &reports.seconds);
        for second in reported.filter(|second| seconds.contains(&second.second)) {
            add_counts(&mut counts, second.counts);
            add(&mut latency, &decode(&second.latency)?)?;
        }
        let figures = latency_ms(&latency);
        Ok(SurgePart {
            seconds: u32::try_from(seconds.len()).unwrap_or(u32::MAX),
            offered: counts.offered,
            completed: counts.completed,
            errors: counts.failed.saturating_add(counts.wrong),
            mean_ms: figures.mean,
            p99_ms: figures.p99,
        })
    }
}

/// A second of a load over all its guests.
pub(crate) struct SecondLoadMerge {
    pub(crate) second: u32,
    pub(crate) counts: Counts,
    /// Requests whose latency is known.
    pub(crate) known: u64,
    pub(crate) mean_ms: f64,
    pub(crate) p50_ms: Option<f64>,
    p99_ms: Option<f64>,
    max_ms: Option<f64>,
}

impl SecondLoadMerge {
    fn of(second: u32, counts: Counts, latency: &Histogram<u64>) -> Self {
        let at = |quantile| ms_at(latency, quantile);
        Self {
            second,
            counts,
            known: latency.len(),
            mean_ms: latency.mean() / 1e6,
            p50_ms: at(0.5),
            p99_ms: at(0.99),
            max_ms: at(1.0),
        }
    }

    pub(crate) fn row(&self, point: usize, repeat: u32, load: &str) -> SecondRow {
        SecondRow {
            point,
            repeat,
            load: load.to_owned(),
            second: self.second,
            offered: self.counts.offered,
            completed: self.counts.completed,
            errors: self.counts.failed.saturating_add(self.counts.wrong),
            p50_ms: self.p50_ms,
            p99_ms: self.p99_ms,
            max_ms: self.max_ms,
        }
    }
}

/// How many of so many pages that ended were good and tolerable, by the load's own count: histograms do not show which ones failed.
pub(crate) fn quality(counts: &Counts, of: u64, [good, tolerable]: [Span; 2]) -> Quality {
    Quality {
        good: counts.good,
        tolerable: counts.tolerable,
        of,
        good_ms: good.as_milliseconds(),
        tolerable_ms: tolerable.as_milliseconds(),
    }
}

/// One guest of a load, while it is put together.
pub(crate) struct GuestMerge<'a> {
    plan: &'a GuestPlan,
    reports: Option<&'a StreamReports>,
    latency: Histogram<u64>,
    worst: Option<WorstSecond>,
}

impl<'a> GuestMerge<'a> {
    pub(crate) fn new(plan: &'a GuestPlan, reports: Option<&'a StreamReports>) -> Self {
        Self { plan, reports, latency: histogram(), worst: None }
    }

    fn total(&self) -> Option<&'a StreamTotal> {
        self.reports.and_then(|reports| reports.total.as_ref())
    }

    fn take(&mut self, second: u32, latency: &Histogram<u64>) -> Result<(), BadHistogram> {
        // Beyond its 99th percentile lies nothing where a second had fewer than a hundred requests.
        let highest = ms_at(latency, if latency.len() < 100 { 1.0 } else { 0.99 });
        let is_worse = |value: &f64| self.worst.is_none_or(|worst| *value > worst.latency_ms);
        if let Some(latency_ms) = highest.filter(is_worse) {
            self.worst = Some(WorstSecond { second, latency_ms });
        }
        add(&mut self.latency, latency)
    }

    /// Its figures; its total goes into that of the load.
    pub(crate) fn figures(&self, merged: &mut Merged, pages: Option<[Span; 2]>) -> GuestFigures {
        let total = self.total();
        let counts = total.map(|total| total.counts).unwrap_or_default();
        if let Some(total) = total {
            add_counts(&mut merged.counts, counts);
            merged.completed_in_time = merged.completed_in_time.saturating_add(total.completed_in_time);
            merged.seconds = merged.seconds.max(total.seconds);
            merged.client_cpu_s += total.client_cpu_s;
            let room = 5_usize.saturating_sub(merged.errors.len());
            let errors = total.errors.iter().take(room);
            merged.errors.extend(errors.map(|error| format!("{}: {error}", self.plan.name)));
        }
        GuestFigures {
            name: self.plan.name.clone(),
            tile: self.plan.tile,
            offered: counts.offered,
            completed: counts.completed,
            completed_in_time: total.map(|total| total.completed_in_time),
            errors: counts.failed.saturating_add(counts.wrong),
            latency_ms: total.map(|_| latency_ms(&self.latency)).unwrap_or_default(),
            latency_histogram: total.map(|_| EncodedHistogram::of(&self.latency)),
            worst_second: self.worst,
            quality: pages
                .filter(|_| total.is_some())
                .map(|times| quality(&counts, self.latency.len(), times)),
        }
    }
}
