//! fio's JSON: what it has counted so far.

use crate::WorkloadError;
use hdrhistogram::Histogram;
use serde_json::Value;
use std::collections::BTreeMap;
use tilemark_load::figures::histogram;

/// What fio had counted at one moment, over all its jobs, reads and writes together.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Snapshot {
    /// How long the longest job had run, in milliseconds.
    pub runtime_ms: u64,
    /// Requests that were done.
    pub requests: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Errors: fio ends a job at its first.
    pub errors: u64,
    /// Requests by latency (from submission to completion): fio's bins, of 1/64 of a power of two, by the
    /// nanoseconds in their middle.
    pub bins: BTreeMap<u64, u64>,
}

impl Snapshot {
    /// What happened after `earlier`.
    pub fn since(&self, earlier: &Self) -> Self {
        let bin = |(value, count): (&u64, &u64)| {
            let before = earlier.bins.get(value).copied().unwrap_or(0);
            (*value, count.saturating_sub(before))
        };
        Self {
            runtime_ms: self.runtime_ms.saturating_sub(earlier.runtime_ms),
            requests: self.requests.saturating_sub(earlier.requests),
            bytes: self.bytes.saturating_sub(earlier.bytes),
            errors: self.errors.saturating_sub(earlier.errors),
            bins: self.bins.iter().map(bin).filter(|(_, count)| *count > 0).collect(),
        }
    }

    /// The bins as a histogram of nanoseconds.
    pub fn histogram(&self) -> Histogram<u64> {
        let mut histogram = histogram();
        for (value, count) in &self.bins {
            histogram.record_n(*value, *count).expect("it grows with its values");
        }
        histogram
    }
}

/// Reads one JSON document of `--output-format=json+`.
pub fn parse_snapshot(text: &str) -> Result<Snapshot, WorkloadError> {
    let bad = |what| WorkloadError::BadReport { program: "fio", what };
    let report: Value = serde_json::from_str(text).map_err(|_| bad("JSON"))?;
    let jobs = report["jobs"].as_array().ok_or(bad("list of jobs"))?;
    let mut snapshot = Snapshot::default();
    for job in jobs {
        snapshot.errors += u64::from(job["error"].as_i64().ok_or(bad("error count"))? != 0);
        for direction in ["read", "write"] {
            let part = &job[direction];
            snapshot.runtime_ms = snapshot.runtime_ms.max(part["runtime"].as_u64().ok_or(bad("runtime"))?);
            add(&mut snapshot.requests, &part["total_ios"]).ok_or(bad("request count"))?;
            add(&mut snapshot.bytes, &part["io_bytes"]).ok_or(bad("byte count"))?;
            // A direction without requests has no bins.
            for (value, count) in part["lat_ns"]["bins"].as_object().into_iter().flatten() {
                let value: u64 = value.parse().map_err(|_| bad("latency bin"))?;
                add(snapshot.bins.entry(value).or_default(), count).ok_or(bad("latency bin"))?;
            }
        }
    }
    Ok(snapshot)
}

/// Adds a count of the report; `None` where it is none, or the sum does not fit.
fn add(sum: &mut u64, count: &Value) -> Option<()> {
    *sum = sum.checked_add(count.as_u64()?)?;
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const REPORT: &str = r#"{"jobs": [
        {"error": 0,
         "read": {"runtime": 1000, "total_ios": 3, "io_bytes": 30, "lat_ns": {"bins": {"1000": 2, "2000": 1}}},
         "write": {"runtime": 999, "total_ios": 1, "io_bytes": 10, "lat_ns": {"bins": {"2000": 1}}}},
        {"error": 5,
         "read": {"runtime": 0, "total_ios": 0, "io_bytes": 0, "lat_ns": {"min": 0}},
         "write": {"runtime": 0, "total_ios": 0, "io_bytes": 0, "lat_ns": {"min": 0}}}]}"#;

    #[test]
    fn jobs_and_directions_are_merged() {
        let snapshot = parse_snapshot(REPORT).unwrap();
        assert_eq!(
            (snapshot.runtime_ms, snapshot.requests, snapshot.bytes, snapshot.errors),
            (1000, 4, 40, 1)
        );
        assert_eq!(snapshot.bins, BTreeMap::from([(1000, 2), (2000, 2)]));
        assert_eq!(snapshot.histogram().len(), 4);
    }

    #[test]
    fn a_second_is_the_difference_of_two_snapshots() {
        let earlier = parse_snapshot(REPORT).unwrap();
        let mut later = earlier.clone();
        later.requests += 2;
        *later.bins.get_mut(&2000).unwrap() += 2;
        let second = later.since(&earlier);
        assert_eq!((second.requests, second.errors), (2, 0));
        assert_eq!(second.bins, BTreeMap::from([(2000, 2)]));
    }

    #[test]
    fn counts_that_do_not_fit_are_refused() {
        let most = u64::MAX;
        for (ios, bytes, bin) in [(most, 0, 0), (0, most, 0), (0, 0, most)] {
            let part = format!(
                r#"{{"runtime": 1, "total_ios": {ios}, "io_bytes": {bytes}, "lat_ns": {{"bins": {{"1000": {bin}}}}}}}"#
            );
            let text = format!(r#"{{"jobs": [{{"error": 0, "read": {part}, "write": {part}}}]}}"#);
            assert!(matches!(parse_snapshot(&text), Err(WorkloadError::BadReport { .. })), "{text}");
        }
    }

    #[test]
    fn latencies_and_counts_at_the_ends_of_their_numbers_make_a_histogram() {
        let bins = BTreeMap::from([(0, u64::MAX), (1, u64::MAX), (u64::MAX, u64::MAX), (u64::MAX - 1, 1)]);
        assert!(!Snapshot { bins, ..Snapshot::default() }.histogram().is_empty());
    }

    #[test]
    fn a_report_of_another_form_is_refused() {
        for text in ["{}", "fio: error", r#"{"jobs": [{"error": 0}]}"#] {
            assert!(matches!(parse_snapshot(text), Err(WorkloadError::BadReport { .. })), "{text}");
        }
    }
}
