//! Samples become seconds and totals. It knows neither sockets nor clocks, and runs beside the hot path.
//!
//! A second of a stream stays open, as plain samples, until all its requests ended; then it becomes a
//! histogram, is reported and forgotten. So memory follows the samples of open seconds, not histograms.

use crate::{
    clock::SECOND_NS,
    conversation::Verdict,
    figures::{encode, histogram},
    sample::{Ended, NO_LATENESS, Sample},
};
use hdrhistogram::Histogram;
use std::collections::BTreeMap;
use tilemark_agent_protocol::{Counts, LoadEvent, StreamSecond, StreamTotal};
use tilemark_units::Span;

/// Errors of one stream that are kept in words.
pub(crate) const ERRORS_KEPT: usize = 5;

/// What all workers reported. A stream goes by its place. Work that learns of each request as it begins uses it by itself: it says that one has
/// [begun](Account::begun), gives its [sample](Account::samples) at its end, and says which seconds are [over](Account::over_before).
pub struct Account {
    streams: Vec<StreamAccount>,
    seconds: Vec<SecondOfWorkers>,
    /// Empty lists of ended seconds, to be used again.
    spare: Vec<Vec<u64>>,
    scratch: Histogram<u64>,
    workers: usize,
}

/// How many workers reported their processor time of a second, the most, and as parts of the second that of each place among the job's
/// processors.
#[derive(Debug, Default, Clone)]
struct SecondOfWorkers {
    reported: usize,
    most_cpu_ns: u64,
    parts: Vec<f64>,
}

struct StreamAccount {
    id: u32,
    /// Workers that send a part of it.
    parts: usize,
    /// Within so many nanoseconds an answer is good, and tolerable. Nothing is where the work names no times.
    enough: Option<[u64; 2]>,
    open: BTreeMap<u32, OpenSecond>,
    counts: Counts,
    errors: Vec<String>,
    completed_in_time: u64,
}

#[derive(Default)]
struct OpenSecond {
    counts: Counts,
    ended: u64,
    parts_reported: usize,
    latency: Vec<u64>,
    lateness: Vec<u64>,
}

impl Account {
    /// `streams`: for each place in the job its id and the number of workers that send a part of it.
    pub fn new(streams: impl Iterator<Item = (u32, usize)>, workers: usize) -> Self {
        let streams = streams.map(|(id, parts)| StreamAccount {
            id,
            parts,
            enough: None,
            open: BTreeMap::new(),
            counts: Counts::default(),
            errors: Vec::new(),
            completed_in_time: 0,
        });
        Self {
            streams: streams.collect(),
            seconds: Vec::new(),
            spare: Vec::new(),
            scratch: histogram(),
            workers,
        }
    }

    /// The times within which an answer of a stream is good and tolerable.
    pub(crate) fn good_and_tolerable(&mut self, stream: usize, times: [Span; 2]) {
        let nanoseconds = |time: Span| u64::try_from(time.get().as_nanos()).unwrap_or(u64::MAX);
        self.streams[stream].enough = Some(times.map(nanoseconds));
    }

    fn open(&mut self, stream: u32, second: u32) -> &mut OpenSecond {
        let spare = &mut self.spare;
        self.streams[stream as usize].open.entry(second).or_insert_with(|| OpenSecond {
            latency: spare.pop().unwrap_or_default(),
            lateness: spare.pop().unwrap_or_default(),
            ..OpenSecond::default()
        })
    }

    /// Takes ended requests.
    pub fn samples(&mut self, samples: &[Sample]) {
        for sample in samples {
            let enough = self.streams[sample.stream as usize].enough;
            let open = self.open(sample.stream, sample.second);
            open.ended += 1;
            open.counts.bytes += sample.body_bytes;
            match sample.verdict {
                Verdict::Right => {
                    let is_within = |time: u64| u64::from(sample.latency <= time);
                    let [good, tolerable] = enough.map_or([0, 0], |times| times.map(is_within));
                    open.counts.completed += 1;
                    open.counts.good += good;
                    open.counts.tolerable += tolerable;
                }
                Verdict::Wrong => open.counts.wrong += 1,
                Verdict::Failed => open.counts.failed += 1,
            }
            open.latency.push(sample.latency);
            if sample.lateness != NO_LATENESS {
                open.lateness.push(sample.lateness);
            }
        }
    }

    /// One worker's count of what was intended in a second that is over.
    pub(crate) fn offered(&mut self, stream: u32, second: u32, count: u64) {
        let open = self.open(stream, second);
        open.counts.offered += count;
        open.parts_reported += 1;
    }

    /// A request began that was intended in this second.
    pub fn begun(&mut self, stream: u32, second: u32) {
        self.open(stream, second).counts.offered += 1;
    }

    /// A request that began is not counted after all.
    pub fn withdrawn(&mut self, stream: u32, second: u32) {
        self.open(stream, second).counts.offered -= 1;
    }

    /// All requests of the seconds before this one have begun.
    pub fn over_before(&mut self, stream: u32, second: u32) {
        let StreamAccount { open, parts, .. } = &mut self.streams[stream as usize];
        open.range_mut(..second).for_each(|(_, open)| open.parts_reported = *parts);
    }

    /// Keeps an error in words while there are few.
    pub(crate) fn trouble(&mut self, stream: u32, text: String) {
        let errors = &mut self.streams[stream as usize].errors;
        if errors.len() < ERRORS_KEPT {
            errors.push(text);
        }
    }

    /// One worker's processor time in a second that is over, and the place of its processor among the job's. The event, when all workers
    /// reported theirs.
    pub(crate) fn used(&mut self, second: u32, place: Option<usize>, cpu_ns: u64) -> Option<LoadEvent> {
        let index = second as usize;
        if self.seconds.len() <= index {
            self.seconds.resize(index + 1, SecondOfWorkers::default());
        }
        let entry = &mut self.seconds[index];
        entry.reported += 1;
        entry.most_cpu_ns = entry.most_cpu_ns.max(cpu_ns);
        let part = |cpu_ns: u64| cpu_ns as f64 / SECOND_NS as f64;
        if let Some(place) = place {
            entry.parts.resize(entry.parts.len().max(place + 1), 0.0);
            entry.parts[place] += part(cpu_ns);
        }
        (entry.reported == self.workers).then(|| {
            let (fraction, parts) = (part(entry.most_cpu_ns), std::mem::take(&mut entry.parts));
            LoadEvent::Busy { second, fraction, parts }
        })
    }

    /// Reports every second whose requests have all ended.
    pub fn close_ready(&mut self, events: &mut dyn FnMut(LoadEvent)) {
        for stream in 0..self.streams.len() {
            let account = &self.streams[stream];
            let is_ready =
                |open: &OpenSecond| open.parts_reported == account.parts && open.ended == open.counts.offered;
            let ready: Vec<u32> =
                account.open.iter().filter(|(_, open)| is_ready(open)).map(|(second, _)| *second).collect();
            for second in ready {
                events(LoadEvent::Second(self.close(stream, second)));
            }
        }
    }

    fn close(&mut self, stream: usize, second: u32) -> StreamSecond {
        let account = &mut self.streams[stream];
        let mut open = account.open.remove(&second).expect("the caller found it open");
        let mut pack = |values: &mut Vec<u64>| {
            self.scratch.reset();
            for value in values.drain(..) {
                self.scratch.record(value).expect("it grows with its values");
            }
            encode(&self.scratch)
        };
        let latency = pack(&mut open.latency);
        let lateness = pack(&mut open.lateness);
        self.spare.extend([open.latency, open.lateness]);
        account.counts = [account.counts, open.counts].into_iter().sum();
        StreamSecond { id: account.id, second, counts: open.counts, latency, lateness }
    }

    /// The sum of the seconds that it reported.
    pub fn counts(&self, stream: u32) -> Counts {
        self.streams[stream as usize].counts
    }

    /// The totals, when all workers have ended. `cpu_ns` is the process's processor time in the measurement.
    pub(crate) fn totals(
        &mut self,
        ended: &[Ended],
        cpu_ns: u64,
        events: &mut dyn FnMut(LoadEvent),
    ) -> Vec<StreamTotal> {
        for part in ended.iter().flat_map(|ended| &ended.in_time) {
            self.streams[part.stream as usize].completed_in_time += part.completed;
        }
        self.close_ready(events);
        let schedule_ns = ended.iter().map(|ended| ended.schedule_ns).max().unwrap_or(0);
        let cpu_s = cpu_ns as f64 / SECOND_NS as f64 / self.streams.len().max(1) as f64;
        let total = |stream: &mut StreamAccount| StreamTotal {
            id: stream.id,
            counts: stream.counts,
            // Under overload answers still come after the schedule's end. They are in the counts and latencies, and
            // no rate is made of them: one straggler would stretch the time of all.
            completed_in_time: stream.completed_in_time,
            seconds: schedule_ns as f64 / SECOND_NS as f64,
            client_cpu_s: cpu_s,
            errors: std::mem::take(&mut stream.errors),
            ..StreamTotal::default()
        };
        self.streams.iter_mut().map(total).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{figures::decode, sample::InTime};

    fn sample(second: u32, latency: u64, verdict: Verdict) -> Sample {
        Sample { stream: 0, second, latency, lateness: 7, body_bytes: 10, verdict }
    }
    fn reported(account: &mut Account) -> Vec<StreamSecond> {
        let mut seconds = Vec::new();
        account.close_ready(&mut |event| match event {
            LoadEvent::Second(second) => seconds.push(second),
            other => panic!("{other:?}"),
        });
        seconds
    }

    #[test]
    fn a_second_is_reported_once_all_its_requests_ended_and_not_before() {
        let mut account = Account::new([(9, 2)].into_iter(), 2);
        account.samples(&[sample(0, 1_000, Verdict::Right), sample(0, 2_000, Verdict::Wrong)]);
        account.offered(0, 0, 2);
        assert!(reported(&mut account).is_empty(), "one of two workers has not reported its part");
        account.offered(0, 0, 1);
        assert!(reported(&mut account).is_empty(), "one request is under way");
        account.samples(&[sample(0, 3_000, Verdict::Failed)]);
        let seconds = reported(&mut account);
        assert_eq!(seconds.len(), 1);
        let counts = Counts { offered: 3, completed: 1, failed: 1, wrong: 1, bytes: 30, ..Counts::default() };
        assert_eq!((seconds[0].id, seconds[0].counts), (9, counts));
        let latency = decode(&seconds[0].latency).unwrap();
        assert_eq!((latency.len(), latency.max()), (3, 3_001));
        assert!(reported(&mut account).is_empty(), "it is reported once");
    }

    #[test]
    fn right_answers_are_good_and_tolerable_however_long_others_took_to_fail() {
        let mut account = Account::new([(9, 1)].into_iter(), 1);
        let ms = |ms: u64| ms * 1_000_000;
        let samples = |count, latency, verdict| vec![sample(0, ms(latency), verdict); count];
        let all = [
            samples(94, 1_000, Verdict::Right),
            samples(3, 10, Verdict::Failed),
            samples(3, 60_000, Verdict::Failed),
            samples(1, 2_000, Verdict::Right),
            samples(1, 3_000, Verdict::Right),
            samples(1, 6_000, Verdict::Right),
        ];
        account.good_and_tolerable(0, [Span::from_seconds(2), Span::from_seconds(5)]);
        all.iter().for_each(|samples| account.samples(samples));
        account.offered(0, 0, 103);
        let counts = reported(&mut account)[0].counts;
        assert_eq!((counts.good, counts.tolerable, counts.completed), (95, 96, 97));
        assert_eq!((account.counts(0).good, account.counts(0).tolerable), (95, 96));
        // Work that names no times has no good answers.
        let mut account = Account::new([(9, 1)].into_iter(), 1);
        account.samples(&[sample(0, 1, Verdict::Right)]);
        account.offered(0, 0, 1);
        assert_eq!(reported(&mut account)[0].counts.good, 0);
    }

    #[test]
    fn totals_are_the_sum_of_the_seconds_over_the_schedules_length() {
        let mut account = Account::new([(1, 1)].into_iter(), 1);
        for second in 0..2 {
            account.samples(&[sample(second, 500, Verdict::Right)]);
            account.offered(0, second, 1);
        }
        account.trouble(0, "first".to_owned());
        // Two workers; one of the two answers came after the end.
        let ended = |completed| Ended {
            schedule_ns: 2 * SECOND_NS,
            in_time: vec![InTime { stream: 0, completed }],
            cpu_ns: 0,
        };
        let totals = account.totals(&[ended(1), ended(0)], SECOND_NS / 2, &mut |_| ());
        assert_eq!(totals[0].counts.completed, 2);
        assert_eq!(totals[0].completed_in_time, 1);
        assert!((totals[0].seconds - 2.0).abs() < 1e-9 && (totals[0].client_cpu_s - 0.5).abs() < 1e-9);
        assert_eq!(totals[0].errors, ["first"]);
    }

    #[test]
    fn the_busiest_worker_is_known_when_all_have_reported() {
        let mut account = Account::new(std::iter::empty(), 2);
        assert_eq!(account.used(3, None, SECOND_NS / 4), None);
        assert_eq!(account.used(3, None, SECOND_NS / 2), Some(LoadEvent::busy(3, 0.5)));
        // Each that has a processor to itself counts at its place.
        assert_eq!(account.used(4, Some(1), SECOND_NS / 4), None);
        let parts = vec![0.5, 0.25];
        let busy = LoadEvent::Busy { second: 4, fraction: 0.5, parts };
        assert_eq!(account.used(4, Some(0), SECOND_NS / 2), Some(busy));
    }

    #[test]
    fn a_closed_loop_has_no_lateness() {
        let mut account = Account::new([(1, 1)].into_iter(), 1);
        account.samples(&[Sample { lateness: NO_LATENESS, ..sample(0, 5, Verdict::Right) }]);
        account.offered(0, 0, 1);
        assert!(decode(&reported(&mut account)[0].lateness).unwrap().is_empty());
    }
}
