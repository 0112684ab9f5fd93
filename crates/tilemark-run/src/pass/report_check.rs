//! What a load process may report: each thing once, finite, within the plan, and not too much of it. Pure.
//!
//! A load that runs inside a guest is as hostile as its guest. What it reports and cannot be is refused before it is kept, so
//! that neither memory nor figures of other guests can be harmed by it.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};
use tilemark_agent_protocol::{Counts, LoadEvent, LoadJob, Stream, StreamSecond, StreamTotal};
use tilemark_plan::workload::{
    CommandFigure, CommandParameters, Details, Finding, JobTimes, JobsFigures, JobsParameters, StepLatency,
    StoreFigures, StoreServer, StoreVerdict,
};
use tilemark_record::histogram::{self, BadHistogram};

/// Why a report is refused: it cannot be.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RefusedReport {
    #[error("its load reported second {second} of a measurement of {seconds} s")]
    SecondOutside { second: u32, seconds: u32 },
    #[error("its load reported second {0} twice")]
    SecondTwice(u32),
    #[error("its load reported on stream {0}, which it does not have")]
    UnknownStream(u32),
    #[error("its load reported the totals of stream {0} twice")]
    TotalsTwice(u32),
    #[error("its load reported the output of stream {0} twice")]
    OutputTwice(u32),
    #[error("its load reported details of stream {0}, which has none")]
    NoDetails(u32),
    #[error("its load reported {value} {what}, which is impossible")]
    Count { what: &'static str, value: u64 },
    #[error("its load reported {value} as {what}, which is impossible")]
    Figure { what: &'static str, value: f64 },
    #[error("its load reported what cannot be read")]
    Histogram(#[from] BadHistogram),
    #[error("its load reported a time of {} s, longer than it lasted", .0.as_secs())]
    Time(Duration),
    #[error("its load reported {total} answers in all, and {seconds} in its seconds")]
    MoreThanItsSeconds { total: u64, seconds: u64 },
    #[error("its load reported more than {most} bytes {what}")]
    TooMuch { what: &'static str, most: u64 },
    #[error("its load reported {0} before it was ready")]
    TooEarly(&'static str),
    #[error("its load reported twice that it was ready")]
    ReadyTwice,
}

/// A figure is a number over 0, and what it is was planned.
fn check_command(figure: &mut CommandFigure, command: &CommandParameters) -> Result<(), RefusedReport> {
    let value = figure.value;
    if command.figure.is_none() || !value.is_finite() || value <= 0.0 {
        return Err(RefusedReport::Figure { what: "the figure of its command", value });
    }
    figure.unit = command.unit.clone().unwrap_or_default();
    figure.better = command.better.unwrap_or(figure.better);
    Ok(())
}

/// Requests of a stream in a second: more than any device or server answers.
const COUNTS_OF_A_SECOND_MAX: u64 = 1_000_000_000;
/// Bytes of histograms for each second of a stream, on average: an allowance, not a measurement.
pub(crate) const BYTES_OF_A_SECOND: u64 = 32 << 10;
/// Bytes of histograms that a stream may have in any case: short loads have them in one second.
const BYTES_MIN: u64 = 1 << 20;
/// Bytes of one histogram.
const HISTOGRAM_BYTES_MAX: u64 = 256 << 10;
/// Errors of a stream that are kept, and characters of each.
const ERRORS_MAX: usize = 5;
const ERROR_CHARACTERS_MAX: usize = 1_000;
/// Findings of a load's own account that are kept.
const FINDINGS_MAX: usize = 64;
/// Tools inside a guest count seconds by themselves, and may find one more than was asked for.
const SECONDS_LATE: u32 = 1;

/// Who reports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reporter {
    /// The load process beside the guests, which is ours: a second may come in parts, when requests end late, and a load with a
    /// fixed number of messages may take longer than planned.
    Ours,
    /// The agent of a guest.
    Guest,
}

/// What one load process has reported up to now.
pub(crate) struct ReportCheck {
    reporter: Reporter,
    /// Whole seconds that were planned.
    seconds: u32,
    /// No time that it reports can be longer.
    longest: Duration,
    streams: BTreeMap<u32, StreamSoFar>,
    is_ready: bool,
    busy: u32,
}

#[derive(Default)]
struct StreamSoFar {
    /// The mix that it does.
    jobs: Option<JobsParameters>,
    /// The command that it runs.
    command: Option<CommandParameters>,
    seconds: BTreeSet<u32>,
    /// Answers in all seconds, and in the one with the most.
    answers: u64,
    answers_of_a_second: u64,
    parts: u32,
    bytes: u64,
    has_output: bool,
    has_details: bool,
    has_total: bool,
}

impl ReportCheck {
    /// Of a job that ends `within` this time by the host's clock.
    pub(crate) fn of(job: &LoadJob, reporter: Reporter, within: Duration) -> Self {
        Self {
            reporter,
            seconds: whole_seconds(job.length.get()),
            longest: within,
            streams: job.streams.iter().map(|stream| (stream.id, StreamSoFar::of(stream))).collect(),
            is_ready: false,
            busy: 0,
        }
    }

    /// Takes what it reports next, with words that are too long cut off.
    pub(crate) fn take(&mut self, mut event: LoadEvent) -> Result<LoadEvent, RefusedReport> {
        match &mut event {
            LoadEvent::Started(_) if self.is_ready => return Err(RefusedReport::ReadyTwice),
            LoadEvent::Started(_) => self.is_ready = true,
            LoadEvent::Second(second) => self.second(second)?,
            LoadEvent::Busy { fraction, .. } => self.busy(*fraction)?,
            LoadEvent::Output { id, .. } => self.output(*id)?,
            LoadEvent::Details { id, details } => self.details(*id, details)?,
            LoadEvent::Done(totals) => self.totals(totals)?,
            LoadEvent::Failed { message, remedy } => {
                shorten(message);
                shorten(remedy);
            }
        }
        Ok(event)
    }

    fn second(&mut self, second: &StreamSecond) -> Result<(), RefusedReport> {
        self.need_ready("a second")?;
        let seconds = self.seconds;
        let last = match self.reporter {
            Reporter::Guest => seconds.saturating_add(SECONDS_LATE),
            Reporter::Ours => whole_seconds(self.longest).max(seconds),
        };
        if second.second >= last {
            return Err(RefusedReport::SecondOutside { second: second.second, seconds });
        }
        check_counts(&second.counts, 1.0 + f64::from(seconds))?;
        let longest = self.longest;
        let reporter = self.reporter;
        let stream = self.stream(second.id)?;
        let is_first = stream.seconds.insert(second.second);
        if !is_first && reporter == Reporter::Guest {
            return Err(RefusedReport::SecondTwice(second.second));
        }
        stream.parts += 1;
        stream.answers = stream.answers.saturating_add(second.counts.completed);
        stream.answers_of_a_second = stream.answers_of_a_second.max(second.counts.completed);
        let parts_max = 16 * last.saturating_add(1);
        if stream.parts > parts_max {
            return Err(RefusedReport::Count { what: "parts of seconds", value: stream.parts.into() });
        }
        stream.histogram(&second.latency, seconds, longest)?;
        stream.histogram(&second.lateness, seconds, longest)
    }

    /// Figures of how busy it was count from a load process of ours only.
    fn busy(&mut self, fraction: f64) -> Result<(), RefusedReport> {
        self.busy += 1;
        let most = 2 * (whole_seconds(self.longest) + 1);
        if self.busy > most {
            return Err(RefusedReport::Count { what: "busy seconds", value: self.busy.into() });
        }
        within("a part of a second", fraction, 2.0)
    }

    /// A frame bounds its length.
    fn output(&mut self, id: u32) -> Result<(), RefusedReport> {
        self.need_ready("an output")?;
        let stream = self.stream(id)?;
        if std::mem::replace(&mut stream.has_output, true) {
            return Err(RefusedReport::OutputTwice(id));
        }
        Ok(())
    }

    /// A store's come from the load process of ours only; those of jobs are within their mix.
    fn details(&mut self, id: u32, details: &mut Details) -> Result<(), RefusedReport> {
        self.need_ready("details")?;
        let (reporter, longest) = (self.reporter, self.longest);
        let stream = self.stream(id)?;
        if std::mem::replace(&mut stream.has_details, true) {
            return Err(RefusedReport::NoDetails(id));
        }
        match (details, &stream.jobs) {
            (Details::Store(store), None) if reporter == Reporter::Ours => check_store(store),
            (Details::Jobs(jobs), Some(parameters)) => {
                check_jobs(jobs, parameters, longest)?;
                stream.check_answers(jobs.kinds.values().fold(0, |sum, kind| sum.saturating_add(kind.count)))
            }
            (Details::Command(figure), None) => {
                let Some(command) = &stream.command else { return Err(RefusedReport::NoDetails(id)) };
                check_command(figure, command)
            }
            _ => Err(RefusedReport::NoDetails(id)),
        }
    }

    fn totals(&mut self, totals: &mut [StreamTotal]) -> Result<(), RefusedReport> {
        self.need_ready("its totals")?;
        let (seconds, reporter, seconds_max) = (self.seconds, self.reporter, self.longest.as_secs_f64());
        for total in totals {
            let stream = self.stream(total.id)?;
            if std::mem::replace(&mut stream.has_total, true) {
                return Err(RefusedReport::TotalsTwice(total.id));
            }
            check_counts(&total.counts, seconds_max)?;
            let most = COUNTS_OF_A_SECOND_MAX as f64 * seconds_max;
            if total.completed_in_time as f64 > most {
                return Err(RefusedReport::Count { what: "answers in time", value: total.completed_in_time });
            }
            within("the seconds of its measurement", total.seconds, seconds_max)?;
            if reporter == Reporter::Guest {
                check_length(total.seconds, seconds)?;
                stream.check_answers(total.counts.completed.max(total.completed_in_time))?;
            }
            within("seconds of processor time", total.client_cpu_s, seconds_max * THREADS_MAX)?;
            shorten_all(&mut total.errors, ERRORS_MAX);
            shorten_findings(&mut total.findings);
        }
        Ok(())
    }

    fn need_ready(&self, what: &'static str) -> Result<(), RefusedReport> {
        if self.is_ready { Ok(()) } else { Err(RefusedReport::TooEarly(what)) }
    }

    fn stream(&mut self, id: u32) -> Result<&mut StreamSoFar, RefusedReport> {
        self.streams.get_mut(&id).ok_or(RefusedReport::UnknownStream(id))
    }
}

impl StreamSoFar {
    fn of(stream: &Stream) -> Self {
        let (jobs, command) = (stream.work.jobs().cloned(), stream.work.command().cloned());
        Self { jobs, command, ..Self::default() }
    }

    /// Totals are those of the seconds. What was answered around the first and the last of them may be in one of the two only.
    fn check_answers(&self, total: u64) -> Result<(), RefusedReport> {
        let most = self.answers.saturating_add(self.answers_of_a_second).saturating_add(ANSWERS_AT_ENDS);
        if total <= most {
            Ok(())
        } else {
            Err(RefusedReport::MoreThanItsSeconds { total, seconds: self.answers })
        }
    }

    fn histogram(&mut self, bytes: &[u8], seconds: u32, longest: Duration) -> Result<(), RefusedReport> {
        let most = BYTES_MIN + BYTES_OF_A_SECOND * u64::from(seconds);
        self.bytes = self.bytes.saturating_add(bytes.len() as u64);
        if bytes.len() as u64 > HISTOGRAM_BYTES_MAX {
            return Err(RefusedReport::TooMuch { what: "in one histogram", most: HISTOGRAM_BYTES_MAX });
        }
        if self.bytes > most {
            return Err(RefusedReport::TooMuch { what: "of histograms", most });
        }
        let histogram = histogram::decode(bytes)?;
        let counts = u128::from(histogram.len());
        if counts > u128::from(COUNTS_OF_A_SECOND_MAX) * (longest.as_secs() as u128 + 1) {
            return Err(RefusedReport::Count { what: "times", value: histogram.len() });
        }
        let longest_reported = Duration::from_nanos(histogram.max());
        // A guest's clock may run at another pace than ours, and a warm-up's requests may end in the measurement.
        if longest_reported > 2 * longest {
            return Err(RefusedReport::Time(longest_reported));
        }
        Ok(())
    }
}

/// Answers under way at the ends of a measurement, where its seconds have none.
const ANSWERS_AT_ENDS: u64 = 1_000;

/// What a guest measured lasted as long as was planned: a shorter time would make its rate higher. Tools begin and end up to a second
/// off, and a full disk ends some seconds late.
fn check_length(reported: f64, planned: u32) -> Result<(), RefusedReport> {
    let planned = f64::from(planned);
    if ((0.9 * planned - 1.0).max(0.4 * planned)..=1.1 * planned + 10.0).contains(&reported) {
        return Ok(());
    }
    Err(RefusedReport::Figure { what: "the seconds of its measurement", value: reported })
}

/// More threads than a host has, for processor time.
const THREADS_MAX: f64 = 65_536.0;

fn check_counts(counts: &Counts, seconds: f64) -> Result<(), RefusedReport> {
    let Counts { offered, completed, failed, wrong, bytes, good, tolerable } = *counts;
    let right_in_time = good.max(tolerable);
    if right_in_time > completed {
        return Err(RefusedReport::Count { what: "good or tolerable answers", value: right_in_time });
    }
    let most = COUNTS_OF_A_SECOND_MAX as f64 * (seconds + 1.0);
    let requests =
        [(offered, "requests"), (completed, "answers"), (failed, "failures"), (wrong, "wrong answers")];
    // At most 1,000 bytes for each possible request.
    let bytes = [(bytes / 1_000, "thousand bytes")];
    let too_many = requests.into_iter().chain(bytes).find(|(count, _)| *count as f64 > most);
    too_many.map_or(Ok(()), |(value, what)| Err(RefusedReport::Count { what, value }))
}

fn within(what: &'static str, value: f64, most: f64) -> Result<(), RefusedReport> {
    // Not finite is not within.
    if (0.0..=most).contains(&value) { Ok(()) } else { Err(RefusedReport::Figure { what, value }) }
}

fn whole_seconds(time: Duration) -> u32 {
    u32::try_from(time.as_secs()).unwrap_or(u32::MAX / 64).min(u32::MAX / 64)
}

/// Figures that a record can hold, and words that are not too long.
fn check_store(store: &mut StoreFigures) -> Result<(), RefusedReport> {
    let StoreFigures { orders_per_minute, rollback_fraction, client_cpu_us_per_order, .. } = *store;
    let of_step = |at: &StepLatency| [Some(at.mean), at.p50, at.p90, at.p99, at.p999, Some(at.max)];
    let steady = store.steady.map(|steady| steady.orders_per_minute);
    let figures = [orders_per_minute, rollback_fraction, client_cpu_us_per_order, steady];
    for figure in figures.into_iter().chain(store.latency_ms.values().flat_map(of_step)).flatten() {
        within("a figure of its store", figure, f64::MAX)?;
    }
    if store.latency_ms.len() > FINDINGS_MAX {
        return Err(RefusedReport::Count { what: "steps of an order", value: store.latency_ms.len() as u64 });
    }
    let StoreFigures { audit, store: StoreServer { server, settings, .. }, verdict, .. } = store;
    let StoreVerdict { status: _, reasons, findings } = verdict;
    [audit, server].into_iter().for_each(shorten);
    settings.truncate(FINDINGS_MAX);
    settings.iter_mut().flat_map(|setting| [&mut setting.name, &mut setting.value]).for_each(shorten);
    shorten_all(reasons, FINDINGS_MAX);
    shorten_findings(findings);
    Ok(())
}

/// Figures of kinds that are in the mix, with times that can be. What the host knows better is not taken from a guest.
fn check_jobs(
    jobs: &mut JobsFigures,
    parameters: &JobsParameters,
    longest: Duration,
) -> Result<(), RefusedReport> {
    *jobs = JobsFigures { jti: jobs.jti, kinds: std::mem::take(&mut jobs.kinds), ..JobsFigures::default() };
    if let Some(jti) = jobs.jti {
        within("the index of its users' times", jti, if parameters.users > 1 { 1.0 } else { -1.0 })?;
    }
    let is_planned = |kind| parameters.mix.get(kind).is_some_and(|weight| *weight > 0);
    if !jobs.kinds.keys().all(is_planned) {
        return Err(RefusedReport::Count { what: "kinds of jobs", value: jobs.kinds.len() as u64 });
    }
    let longest_ms = 2e3 * longest.as_secs_f64();
    for JobTimes { count, not_right, mean_ms, p50_ms, p90_ms } in jobs.kinds.values() {
        let most = COUNTS_OF_A_SECOND_MAX as f64 * (longest.as_secs_f64() + 1.0);
        if let Some(value) = [*count, *not_right].into_iter().find(|count| *count as f64 > most) {
            return Err(RefusedReport::Count { what: "jobs of a kind", value });
        }
        for time in [mean_ms, p50_ms, p90_ms].into_iter().flatten() {
            // A time of no job cannot be.
            within("a time of its jobs", *time, if *count > 0 { longest_ms } else { -1.0 })?;
        }
    }
    Ok(())
}

fn shorten_findings(findings: &mut Vec<Finding>) {
    findings.truncate(FINDINGS_MAX);
    findings.shrink_to_fit();
    findings.iter_mut().for_each(|finding| shorten(&mut finding.what));
}

fn shorten_all(texts: &mut Vec<String>, most: usize) {
    texts.truncate(most);
    // A frame of a million empty texts would else keep 24 MB.
    texts.shrink_to_fit();
    texts.iter_mut().for_each(shorten);
}

fn shorten(text: &mut String) {
    if let Some((end, _)) = text.char_indices().nth(ERROR_CHARACTERS_MAX) {
        text.truncate(end);
        text.push('…');
    }
}
