//! The time line: every second of every repeat, thinned where a page could not hold it.

use super::View;
use serde::Serialize;
use std::collections::BTreeMap;
use tilemark_record::rows::{SecondRow, TelemetryRow};

/// Marks that a page holds at most, over all loads: about 0.3 MB of it.
const MARKS_MAX: usize = 5_000;

/// The time line.
#[derive(Serialize)]
pub(crate) struct Timeline {
    /// Seconds behind each mark.
    pub(crate) seconds_per_mark: u32,
    /// Every repeat that has seconds.
    pub(crate) repeats: Vec<RepeatLine>,
}

/// One repeat.
#[derive(Serialize)]
pub(crate) struct RepeatLine {
    point: usize,
    repeat: u32,
    void: Option<String>,
    loads: Vec<LoadLine>,
    host: Vec<HostMark>,
}

#[derive(Serialize)]
struct LoadLine {
    name: String,
    marks: Vec<Mark>,
}

/// Second, offered and completed a second, errors a second, p50, p99, max in ms: an array, to be small.
#[derive(Serialize)]
struct Mark(u32, f64, f64, f64, Option<f64>, Option<f64>, Option<f64>);

/// Second, then guest work, overhead, load, Tilemark, other, steal, and available memory in MiB.
#[derive(Serialize)]
struct HostMark(u32, [f64; 6], Option<u64>);

/// The seconds behind each mark, by its place.
type Marks<Row> = BTreeMap<u32, Vec<Row>>;

/// The time line of every repeat.
pub(crate) fn timeline(view: &View) -> Timeline {
    let report = view.report;
    let per_mark = (report.seconds.len().max(report.telemetry.len())).div_ceil(MARKS_MAX).max(1) as u32;
    let mut loads: BTreeMap<(usize, u32), BTreeMap<&str, Marks<&SecondRow>>> = BTreeMap::new();
    for row in &report.seconds {
        let lines = loads.entry((row.point, row.repeat)).or_default();
        lines.entry(&row.load).or_default().entry(row.second / per_mark).or_default().push(row);
    }
    let mut hosts: BTreeMap<(usize, u32), Marks<&TelemetryRow>> = BTreeMap::new();
    for row in &report.telemetry {
        let marks = hosts.entry((row.point, row.repeat)).or_default();
        marks.entry(row.second / per_mark).or_default().push(row);
    }
    let mut keys: Vec<(usize, u32)> = loads.keys().chain(hosts.keys()).copied().collect();
    keys.sort_unstable();
    keys.dedup();
    let repeats = keys
        .into_iter()
        .map(|key| RepeatLine {
            point: key.0,
            repeat: key.1,
            void: void(view, key),
            loads: loads.remove(&key).unwrap_or_default().into_iter().map(load_line).collect(),
            host: hosts.remove(&key).unwrap_or_default().into_values().map(|rows| host_mark(&rows)).collect(),
        })
        .collect();
    Timeline { seconds_per_mark: per_mark, repeats }
}

fn void(view: &View, (point, repeat): (usize, u32)) -> Option<String> {
    let point = view.report.result.points.iter().find(|other| other.index == point)?;
    point.repeats_voided.iter().find(|void| void.repeat == repeat).map(|void| void.reason.clone())
}

fn load_line((name, marks): (&str, Marks<&SecondRow>)) -> LoadLine {
    LoadLine { name: name.to_owned(), marks: marks.into_values().map(|rows| mark(&rows)).collect() }
}

/// Rates are means, latencies the worst: thinning must not hide a bad second.
fn mark(rows: &[&SecondRow]) -> Mark {
    let mean = |part: fn(&SecondRow) -> u64| {
        rows.iter().map(|row| part(row)).sum::<u64>() as f64 / rows.len().max(1) as f64
    };
    let worst = |part: fn(&SecondRow) -> Option<f64>| {
        rows.iter().filter_map(|row| part(row)).max_by(f64::total_cmp).map(four_digits)
    };
    Mark(
        rows.first().map_or(0, |row| row.second),
        four_digits(mean(|row| row.offered)),
        four_digits(mean(|row| row.completed)),
        four_digits(mean(|row| row.errors)),
        worst(|row| row.p50_ms),
        worst(|row| row.p99_ms),
        worst(|row| row.max_ms),
    )
}

fn host_mark(rows: &[&TelemetryRow]) -> HostMark {
    let mean = |part: fn(&TelemetryRow) -> f64| {
        let mean = rows.iter().map(|row| part(row)).sum::<f64>() / rows.len().max(1) as f64;
        (mean * 1_000.0).round() / 1_000.0
    };
    let parts = [
        mean(|row| row.guest_work),
        mean(|row| row.guest_overhead),
        mean(|row| row.load),
        mean(|row| row.tilemark),
        mean(|row| row.other),
        mean(|row| row.steal),
    ];
    let memory = rows.iter().filter_map(|row| row.memory_available_bytes).min().map(|bytes| bytes >> 20);
    HostMark(rows.first().map_or(0, |row| row.second), parts, memory)
}

/// Fewer digits, a smaller page: the page writes three.
fn four_digits(value: f64) -> f64 {
    if value == 0.0 || !value.is_finite() {
        return value;
    }
    let unit = 10f64.powi(3 - value.abs().log10().floor() as i32);
    (value * unit).round() / unit
}

#[cfg(test)]
mod tests {
    use super::*;

    fn second(second: u32, p99_ms: f64) -> SecondRow {
        SecondRow {
            point: 0,
            repeat: 1,
            load: "web".to_owned(),
            second,
            offered: 100,
            completed: 90,
            errors: 1,
            p50_ms: None,
            p99_ms: Some(p99_ms),
            max_ms: None,
        }
    }

    #[test]
    fn thinning_keeps_the_worst_second() {
        assert_eq!(four_digits(1_234.567), 1_235.0);
        assert_eq!(four_digits(0.012_345_6), 0.012_35);
        let (good, bad) = (second(4, 2.0), second(5, 80.0));
        let Mark(at, offered, completed, errors, p50, p99, _) = mark(&[&good, &bad]);
        assert_eq!((at, p50, p99), (4, None, Some(80.0)));
        assert_eq!((offered, completed, errors), (100.0, 90.0, 1.0));
    }
}
