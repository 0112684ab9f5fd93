//! From what a messaging load counted to seconds and totals of a stream. Pure.

use hdrhistogram::Histogram;
use tilemark_agent_protocol::{Counts, StreamSecond, StreamTotal};
use tilemark_amqp_load::{LatencyLoad, LatencyReport, ThroughputLoad, ThroughputReport};
use tilemark_load::figures::encode;
use tilemark_plan::workload::{Finding, IncidentKind};

/// Errors that are reported in words.
const SHOWN: usize = 5;

const LOST: &str = "lost";
const UNDELIVERED: &str = "not delivered when the broker ended";
const DUPLICATED: &str = "duplicated";
const REORDERED: &str = "delivered after a later one";
const DAMAGED: &str = "damaged";

/// What went through a broker up to a moment.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Reading {
    pub(super) published: u64,
    pub(super) received: u64,
    /// Receipts that were doubled, out of order or damaged.
    pub(super) wrong: u64,
    /// Refused by the broker.
    pub(super) refused: u64,
    /// Processor time of the stream's threads, in nanoseconds.
    pub(super) cpu_ns: u64,
    /// When it was read, in seconds of any clock.
    pub(super) at_s: f64,
}

/// A stream that goes as fast as it can: what was read at the beginning of the measurement and at the end of each
/// second.
#[derive(Debug, Default)]
pub(super) struct FlatOut {
    pub(super) readings: Vec<Reading>,
}

impl FlatOut {
    /// The seconds and the total. What went wrong is in the second in which it came; in the warm-up, in none. What
    /// is known at the end only is in the last second, since nobody can say that it belongs to the warm-up: losses,
    /// what came after that second, and what two competing subscribers both got.
    /// A load of so many messages is reported as a whole: from its beginning to the last receipt.
    pub(super) fn stream_report(
        &self,
        id: u32,
        load: &ThroughputLoad,
        report: &ThroughputReport,
    ) -> StreamReport {
        let size_bytes = load.messages.size.get();
        let mut seconds: Vec<StreamSecond> = (0..)
            .zip(self.readings.windows(2))
            .map(|(second, pair)| {
                let wrong = pair[1].wrong - pair[0].wrong;
                let completed = (pair[1].received - pair[0].received).saturating_sub(wrong);
                let counts = Counts {
                    offered: pair[1].published - pair[0].published,
                    completed,
                    failed: pair[1].refused - pair[0].refused,
                    wrong,
                    bytes: completed * size_bytes,
                    ..Counts::default()
                };
                StreamSecond { id, second, counts, latency: Vec::new(), lateness: Vec::new() }
            })
            .collect();
        let wrong =
            [(report.duplicated, DUPLICATED), (report.reordered, REORDERED), (report.damaged, DAMAGED)];
        let failed = [(report.lost, LOST), (report.refused, "refused by the broker")];
        if let (Some(last), Some(read)) = (seconds.last_mut(), self.readings.last()) {
            last.counts.failed += sum(&failed).saturating_sub(read.refused);
            last.counts.wrong += sum(&wrong).saturating_sub(read.wrong);
        }
        let span = match self.readings[..] {
            [first, .., last] => [first, last],
            _ => [Reading::default(); 2],
        };
        let mut counts: Counts = seconds.iter().map(|second| second.counts).sum();
        let mut length_s = span[1].at_s - span[0].at_s;
        if load.count().is_some() {
            counts.offered = report.published;
            counts.completed = report.received.saturating_sub(report.reordered);
            counts.bytes = counts.completed * size_bytes;
            counts.failed = sum(&failed);
            counts.wrong = sum(&wrong);
            length_s = report.elapsed_s;
        }
        let total = StreamTotal {
            id,
            counts,
            // Receipts are read at both ends of the measurement.
            completed_in_time: counts.completed,
            seconds: length_s,
            client_cpu_s: (span[1].cpu_ns - span[0].cpu_ns) as f64 / 1e9,
            errors: errors(
                &[&failed[..], &wrong[..]].concat(),
                &report.errors,
                report.ended_by_broker.as_ref(),
            ),
            findings: findings(
                report.lost,
                report.duplicated,
                report.damaged,
                report.ended_by_broker.as_ref(),
            ),
        };
        StreamReport { seconds, total }
    }
}

/// What one stream reports when it has ended.
pub(super) struct StreamReport {
    pub(super) seconds: Vec<StreamSecond>,
    pub(super) total: StreamTotal,
}

/// A stream that goes by a schedule of so many messages a second. What went wrong is in the second in which the
/// message was to be sent; in the warm-up, in none.
pub(super) fn by_schedule(
    id: u32,
    load: &LatencyLoad,
    client_cpu_s: f64,
    report: &LatencyReport,
) -> StreamReport {
    let size_bytes = load.messages.size.get();
    let lateness = |second: usize| report.lateness_histograms.get(second);
    let seconds: Vec<StreamSecond> = (0..)
        .zip(report.histograms.iter().enumerate())
        .map(|(second, (place, latency))| {
            let troubles = report.troubles.get(place).copied().unwrap_or_default();
            let completed = latency.len().saturating_sub(troubles.reordered);
            let counts = Counts {
                offered: lateness(place).map_or(0, Histogram::len),
                completed,
                failed: troubles.lost,
                wrong: troubles.duplicated + troubles.reordered + troubles.damaged,
                bytes: completed * size_bytes,
                ..Counts::default()
            };
            let lateness = lateness(place).map(encode).unwrap_or_default();
            StreamSecond { id, second, counts, latency: encode(latency), lateness }
        })
        .collect();
    let wrong = [(report.duplicated, DUPLICATED), (report.reordered, REORDERED), (report.damaged, DAMAGED)];
    let failed = [(report.lost, LOST)];
    let counts: Counts = seconds.iter().map(|second| second.counts).sum();
    let total = StreamTotal {
        id,
        counts,
        completed_in_time: report.received_in_time,
        // What a schedule asks is measured by the schedule's time: an early end ends it too.
        seconds: counts.offered as f64 / load.rate as f64,
        client_cpu_s,
        errors: errors(&[&failed[..], &wrong[..]].concat(), &report.errors, report.ended_by_broker.as_ref()),
        findings: findings(report.lost, report.duplicated, report.damaged, report.ended_by_broker.as_ref()),
    };
    StreamReport { seconds, total }
}

/// What went wrong, in words. What a broker that ended did not deliver is not lost by it, and no single message is named.
fn errors(counts: &[(u64, &'static str)], named: &[String], ended: Option<&String>) -> Vec<String> {
    let Some(ended) = ended else { return in_words(counts, named) };
    let undelivered =
        |(count, what): &(u64, &'static str)| (*count, if *what == LOST { UNDELIVERED } else { *what });
    let counts: Vec<(u64, &str)> = counts.iter().map(undelivered).collect();
    std::iter::once(ended.clone()).chain(in_words(&counts, &[])).take(SHOWN).collect()
}

/// What no broker may do with what it took, in the warm-up either, and that it ended: then what is missing may still be in it. Order is no
/// promise of it where subscribers compete.
fn findings(lost: u64, duplicated: u64, damaged: u64, ended: Option<&String>) -> Vec<Finding> {
    let lost = if ended.is_some() { 0 } else { lost };
    let what = in_words(&[(lost, LOST), (duplicated, DUPLICATED), (damaged, DAMAGED)], &[]);
    let wrong = what.into_iter().map(|what| Finding { kind: IncidentKind::WrongAnswers, what });
    let ended = ended.map(|what| Finding { kind: IncidentKind::ServiceErrors, what: what.clone() });
    ended.into_iter().chain(wrong).collect()
}

fn sum(counts: &[(u64, &str)]) -> u64 {
    counts.iter().map(|(count, _)| count).sum()
}

fn in_words(counts: &[(u64, &str)], named: &[String]) -> Vec<String> {
    let counted = counts.iter().filter(|(count, _)| *count > 0);
    let sums = counted.map(|(count, what)| format!("messages {what}: {count}"));
    sums.chain(named.iter().cloned()).take(SHOWN).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use tilemark_amqp_load::{BrokerAddress, MessagingParameters, SecondTroubles};

    fn broker() -> BrokerAddress {
        BrokerAddress::guest("127.0.0.1:1".parse().unwrap())
    }

    fn load(count: u64) -> ThroughputLoad {
        let messages = MessagingParameters { count, ..MessagingParameters::default() };
        ThroughputLoad { messages, ..ThroughputLoad::new(broker()) }
    }

    fn reading(messages: u64, at_s: f64) -> Reading {
        let (published, received) = (messages + 7, messages);
        Reading { published, received, cpu_ns: messages * 100, at_s, ..Reading::default() }
    }

    #[test]
    fn what_went_through_in_the_warm_up_does_not_count() {
        let flat_out =
            FlatOut { readings: vec![reading(1_000, 3.0), reading(1_500, 4.0), reading(2_100, 5.0)] };
        let of_stream = flat_out.stream_report(4, &load(0), &ThroughputReport::default());
        assert_eq!(
            of_stream.seconds.iter().map(|second| second.counts.completed).collect::<Vec<_>>(),
            [500, 600]
        );
        let counts = Counts { offered: 1_100, completed: 1_100, bytes: 17_600, ..Counts::default() };
        assert_eq!(of_stream.total.counts, counts);
        assert_eq!((of_stream.total.seconds, of_stream.total.client_cpu_s), (2.0, 0.000_11));
    }

    #[test]
    fn one_lost_message_is_a_failure_and_one_that_came_twice_is_wrong() {
        let flat_out = FlatOut { readings: vec![reading(0, 0.0), reading(10, 1.0)] };
        let report = ThroughputReport { lost: 1, duplicated: 2, reordered: 3, ..ThroughputReport::default() };
        let of_stream = flat_out.stream_report(0, &load(0), &report);
        assert_eq!((of_stream.total.counts.failed, of_stream.total.counts.wrong), (1, 5));
        assert_eq!(of_stream.total.errors[0], "messages lost: 1");
    }

    #[test]
    fn what_goes_wrong_counts_in_its_second_and_in_the_warm_up_in_none() {
        let at = |messages, at_s, wrong, refused| Reading { wrong, refused, ..reading(messages, at_s) };
        let flat_out = FlatOut {
            readings: vec![at(100, 3.0, 5, 1), at(200, 4.0, 6, 1), at(300, 5.0, 6, 4), at(400, 6.0, 8, 4)],
        };
        // One loss, and one double that only two subscribers together could see.
        let report =
            ThroughputReport { lost: 1, duplicated: 7, reordered: 2, refused: 4, ..Default::default() };
        let of_stream = flat_out.stream_report(0, &load(0), &report);
        let of = |count: fn(&Counts) -> u64| {
            of_stream.seconds.iter().map(|second| count(&second.counts)).collect()
        };
        let (wrong, failed, completed): (Vec<u64>, Vec<u64>, Vec<u64>) =
            (of(|counts| counts.wrong), of(|counts| counts.failed), of(|counts| counts.completed));
        assert_eq!((wrong, failed, completed), (vec![1, 0, 3], vec![0, 3, 1], vec![99, 100, 98]));
        assert_eq!((of_stream.total.counts.wrong, of_stream.total.counts.failed), (4, 4));
    }

    #[test]
    fn a_schedules_troubles_count_where_they_belong() {
        let of_three = || {
            let mut histogram = Histogram::new(3).unwrap();
            histogram.record_n(1_000, 3).unwrap();
            histogram
        };
        let broken = SecondTroubles { lost: 1, duplicated: 2, reordered: 1, damaged: 1 };
        let report = LatencyReport {
            histograms: vec![of_three(), of_three()],
            lateness_histograms: vec![of_three(), of_three()],
            troubles: vec![broken, SecondTroubles::default()],
            lost: 9,
            reordered: 1,
            received_in_time: 4,
            ..LatencyReport::default()
        };
        let of_stream = by_schedule(0, &LatencyLoad { rate: 3, ..LatencyLoad::new(broker()) }, 0.0, &report);
        let first = Counts { offered: 3, completed: 2, failed: 1, wrong: 4, bytes: 32, ..Counts::default() };
        let second = Counts { offered: 3, completed: 3, bytes: 48, ..Counts::default() };
        assert_eq!(of_stream.seconds.iter().map(|second| second.counts).collect::<Vec<_>>(), [first, second]);
        assert_eq!(of_stream.total.counts.failed, 1, "eight were lost in the warm-up");
        assert_eq!(of_stream.total.errors[0], "messages lost: 9", "and are reported all the same");
        let lost = Finding { kind: IncidentKind::WrongAnswers, what: "messages lost: 9".to_owned() };
        assert_eq!(of_stream.total.findings, [lost]);
        assert_eq!(of_stream.total.completed_in_time, 4, "as the load counted it");
    }

    #[test]
    fn a_broker_that_ended_is_named_and_what_is_missing_is_not_called_lost_by_it() {
        let flat_out = FlatOut { readings: vec![reading(0, 0.0), reading(10, 1.0)] };
        let ended_by_broker = Some("the broker hung up".to_owned());
        let errors = vec!["message 7 of publisher 0 was lost in queue 0".to_owned()];
        let report = ThroughputReport { lost: 3, errors, ended_by_broker, ..ThroughputReport::default() };
        let of_stream = flat_out.stream_report(0, &load(0), &report);
        let ended = Finding { kind: IncidentKind::ServiceErrors, what: "the broker hung up".to_owned() };
        assert_eq!(of_stream.total.findings, [ended]);
        assert_eq!(of_stream.total.counts.failed, 3, "they did not come through all the same");
        let errors = ["the broker hung up", "messages not delivered when the broker ended: 3"];
        assert_eq!(of_stream.total.errors, errors);
    }

    #[test]
    fn a_load_of_so_many_messages_counts_to_its_last_receipt() {
        let flat_out = FlatOut { readings: vec![reading(0, 0.0), reading(900, 1.0), reading(1_000, 1.4)] };
        let report = ThroughputReport {
            published: 1_000,
            received: 1_000,
            elapsed_s: 1.1,
            ..ThroughputReport::default()
        };
        let of_stream = flat_out.stream_report(0, &load(1_000), &report);
        assert_eq!((of_stream.total.counts.completed, of_stream.total.seconds), (1_000, 1.1));
    }
}
