//! `runs trend`: the runs of one scenario over time.

use crate::{
    failure::{Failure, FailureCode, ROOTS_RUNS},
    program::is_root,
    run::compare::made_with,
};
use std::collections::{BTreeMap, BTreeSet};
use tilemark_plan::{
    plan::{Backend, Plan},
    workload::Better,
};
use tilemark_record::{
    RunDirectory,
    result::{Difference, Figure, PointResult, Provenance, RunResult, VerdictStatus},
};
use tilemark_report::{LeftOutRun, TREND_SCHEMA, Trend, TrendChange, TrendMeasure, TrendRun, TrendSeries};
use tilemark_statistics::{LEAST_CHANGE, LEAST_CHANGE_OF_TAIL, LevelChange, level_changes};

/// Measures of a series, among which the chance of a false alarm is shared.
const MEASURES: usize = 3;

/// A record with its tags.
#[derive(Debug, Clone)]
pub struct Tagged {
    /// The record.
    pub record: RunDirectory,
    /// Its tags.
    pub tags: Vec<String>,
}

/// A run that can be followed.
struct Followed {
    tags: Vec<String>,
    plan: Plan,
    result: RunResult,
    backend: Backend,
}

/// In which series a run belongs.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    host: String,
    backend: &'static str,
    how: String,
    preset: Option<String>,
    settings: BTreeMap<String, String>,
}

/// Follows the runs of a scenario, which is named as in its file, or by the path that it was asked for by.
///
/// # Errors
/// When there is no run of it.
pub fn trend(scenario: &str, records: Vec<Tagged>) -> Result<Trend, Failure> {
    let mut series: BTreeMap<Key, Vec<Followed>> = BTreeMap::new();
    let mut left_out = Vec::new();
    let mut known = BTreeSet::new();
    for Tagged { record, tags } in records {
        let id = record.path().file_name().unwrap_or_default().to_string_lossy().into_owned();
        let plan = match record.plan() {
            Ok(plan) => plan,
            // A record that cannot be read shows its scenario only in its id.
            Err(error) if id.ends_with(&format!("-{scenario}")) => {
                left_out.push(LeftOutRun { id, why: error.to_string() });
                continue;
            }
            Err(_) => continue,
        };
        if plan.scenario.name != scenario && plan.origin != scenario {
            known.insert(plan.scenario.name);
            continue;
        }
        match followed(&record, plan, tags) {
            Ok(run) => series.entry(key(&run)).or_default().push(run),
            Err(why) => left_out.push(LeftOutRun { id, why }),
        }
    }
    if series.is_empty() && left_out.is_empty() {
        let known: Vec<String> = known.into_iter().take(10).collect();
        let remedy = match known.as_slice() {
            [] => {
                let own = "make one with `tilemark run` or `tilemark capacity`";
                if is_root() { own.to_owned() } else { format!("{own}; {ROOTS_RUNS}") }
            }
            some => format!("`tilemark runs` lists all; there are runs of {}", some.join(", ")),
        };
        return Err(Failure::new(
            FailureCode::BadInput,
            format!("no run of the scenario `{scenario}`"),
            remedy,
        ));
    }
    let series = series.into_iter().map(|(key, runs)| one_series(key, runs));
    let mut series: Vec<TrendSeries> = series.collect();
    // What has the most runs first.
    series.sort_by_key(|one| std::cmp::Reverse(one.runs.len()));
    Ok(Trend { schema: TREND_SCHEMA, scenario: scenario.to_owned(), series, left_out })
}

/// Reads a run, or why it cannot be followed.
fn followed(record: &RunDirectory, plan: Plan, tags: Vec<String>) -> Result<Followed, String> {
    record.verify_result().map_err(|error| error.to_string())?;
    let result = record.result().map_err(|error| error.to_string())?;
    if plan.screening.is_some() {
        return Err("it screens settings of the host".to_owned());
    }
    if result.points.iter().any(|point| point.side.is_some()) {
        return Err("it compares two sides".to_owned());
    }
    if result.interference.is_some() {
        return Err("it measures roles alone and in pairs".to_owned());
    }
    let real = result.points.iter().map(|point| point.backend).find(|backend| *backend != Backend::Emulated);
    let backend = result.answer.backend.or(real).filter(|backend| !plan.host.emulates(*backend));
    let Some(backend) = backend else {
        let why = match result.points.is_empty() {
            true => "no step was measured",
            false => "its guests were emulated, and their times say nothing about the host",
        };
        return Err(why.to_owned());
    };
    Ok(Followed { tags, plan, result, backend })
}

fn key(run: &Followed) -> Key {
    let how = match &run.plan.search {
        Some(_) => "capacity".to_owned(),
        None => {
            let own = run.plan.points.iter().filter(|point| point.backend == run.backend);
            let tiles: BTreeSet<u32> = own.map(|point| point.tiles).collect();
            let tiles: Vec<String> = tiles.iter().map(u32::to_string).collect();
            format!("run at {} tiles", tiles.join(", "))
        }
    };
    Key {
        host: run.result.provenance.host.clone(),
        backend: run.backend.name(),
        how,
        preset: run.plan.preset.clone(),
        settings: run.plan.settings.clone(),
    }
}

fn one_series(key: Key, mut runs: Vec<Followed>) -> TrendSeries {
    runs.sort_by(|one, other| when(one).cmp(&when(other)));
    let backend = runs.first().map_or(Backend::Native, |run| run.backend);
    let described = runs.iter().enumerate().map(|(place, run)| TrendRun {
        id: run.result.run.clone(),
        began: run.result.provenance.began.clone(),
        verdict: run.result.verdict.status,
        sentence: run.result.sentence.clone(),
        tags: run.tags.clone(),
        changed: place
            .checked_sub(1)
            .map(|before| changed(&runs[before].result, &run.result))
            .unwrap_or_default(),
    });
    let described = described.collect();
    let mut measures = vec![capacity(&runs)];
    measures.extend(at_a_step(&runs));
    let Key { host, backend: _, how, preset, settings } = key;
    TrendSeries { host, backend, how, preset, settings, runs: described, measures }
}

fn when(run: &Followed) -> (&str, &str) {
    (&run.result.provenance.began, &run.result.run)
}

/// What differs between two runs in host, kernel, QEMU, Tilemark, image and scenario.
fn changed(a: &RunResult, b: &RunResult) -> Vec<Difference> {
    let memory = |of: &Provenance| format!("{:.1} GiB", of.memory_bytes as f64 / f64::from(1_u32 << 30));
    let scenario = |of: &Provenance| {
        let hash = of.hashes.get("scenario").map_or("unknown", String::as_str);
        hash.chars().take(12).collect::<String>()
    };
    let (of_a, of_b) = (&a.provenance, &b.provenance);
    let pairs = [
        ("host.kernel", of_a.kernel.clone(), of_b.kernel.clone()),
        ("host.processor", of_a.processor.clone(), of_b.processor.clone()),
        ("host.threads", of_a.threads.to_string(), of_b.threads.to_string()),
        ("host.memory", memory(of_a), memory(of_b)),
        ("scenario", scenario(of_a), scenario(of_b)),
        ("rule of the judge", a.judged_by.to_string(), b.judged_by.to_string()),
    ];
    let pairs = pairs.into_iter().filter(|(_, a, b)| a != b);
    let mut found: Vec<Difference> =
        pairs.map(|(key, a, b)| Difference { key: key.to_owned(), a, b }).collect();
    found.extend(made_with(of_a, of_b));
    found
}

/// How many tiles the host carries: by the law through all repeats where every trusted answer has one, else the largest count that holds.
fn capacity(runs: &[Followed]) -> TrendMeasure {
    let answers = || runs.iter().filter(|run| is_trusted(run) && run.result.answer.carries().is_some());
    let by_law = answers().next().is_some() && answers().all(|run| run.result.answer.capacity.is_some());
    let values = runs.iter().map(|run| {
        let answer = &run.result.answer;
        if by_law {
            return answer.capacity;
        }
        answer.carries().map(|tiles| Figure { value: f64::from(tiles), low: None, high: None, n_repeats: 1 })
    });
    let nothing_broke =
        |run: &Followed| run.result.answer.holds.is_some() && run.result.answer.breaks.is_none();
    let at_least = runs.iter().map(|run| !by_law && nothing_broke(run)).collect();
    let name = if by_law { "capacity, estimated" } else { "capacity, the largest count that holds" };
    let measure = measure(runs, name.to_owned(), "tiles", true, values.collect(), LEAST_CHANGE);
    TrendMeasure { at_least, ..measure }
}

/// p99 and throughput of the headline load, or the one figure of its command, at the step that most trusted runs measured; of several the
/// largest.
fn at_a_step(runs: &[Followed]) -> Vec<TrendMeasure> {
    let mut counts: BTreeMap<(u32, &BTreeMap<String, String>), usize> = BTreeMap::new();
    for run in runs {
        for point in own_points(run).filter(|point| point.repeats_kept > 0) {
            // One trusted run counts more than all others.
            let weight = if is_trusted(run) { runs.len() + 1 } else { 1 };
            *counts.entry((point.tiles, &point.vary)).or_default() += weight;
        }
    }
    let most = counts.iter().max_by_key(|((tiles, _), count)| (**count, *tiles));
    let Some(((tiles, vary), _)) = most else { return Vec::new() };
    let at = |run: &Followed| -> Option<PointResult> {
        own_points(run).find(|point| point.tiles == *tiles && point.vary == **vary).cloned()
    };
    let points: Vec<Option<PointResult>> = runs.iter().map(at).collect();
    let headline = runs.iter().find_map(|run| run.plan.scenario.headline.clone()).unwrap_or_default();
    let place =
        vary.iter().fold(format!("at {}", tilemark_units::counted(*tiles, "tile")), |text, (name, value)| {
            format!("{text}, {name} {value}")
        });
    let figures = |of: &dyn Fn(&PointResult) -> Option<Figure>| -> Vec<Option<Figure>> {
        points.iter().map(|point| point.as_ref().and_then(of)).collect()
    };
    let p99 = figures(&|point| point.p99_ms);
    let served = figures(&|point| point.throughput.as_ref().map(|throughput| throughput.figure));
    let unit = points.iter().flatten().find_map(|point| Some(point.throughput.as_ref()?.unit.clone()));
    let better = runs.iter().find_map(|run| better_of_figure(&run.plan, &headline));
    let what = if better.is_some() { "figure" } else { "served" };
    let rate = measure(
        runs,
        format!("{headline} {what} {place}"),
        &unit.unwrap_or_default(),
        better != Some(Better::Lower),
        served,
        LEAST_CHANGE,
    );
    vec![
        measure(runs, format!("{headline} p99 {place}"), "ms", false, p99, LEAST_CHANGE_OF_TAIL),
        TrendMeasure { is_of_command: better.is_some(), ..rate },
    ]
}

/// Which way the one figure of a load's command is better, where it has one.
fn better_of_figure(plan: &Plan, load: &str) -> Option<Better> {
    plan.points.iter().find_map(|point| point.figure_of(load)).map(|(_, better)| better)
}

fn own_points(run: &Followed) -> impl Iterator<Item = &PointResult> {
    run.result.points.iter().filter(|point| point.backend == run.backend && point.side.is_none())
}

fn is_trusted(run: &Followed) -> bool {
    run.result.verdict.status == VerdictStatus::Trusted
}

fn measure(
    runs: &[Followed],
    name: String,
    unit: &str,
    more_is_better: bool,
    values: Vec<Option<Figure>>,
    least_change: f64,
) -> TrendMeasure {
    let counted: Vec<(usize, f64)> = runs
        .iter()
        .zip(&values)
        .enumerate()
        .filter(|(_, (run, _))| is_trusted(run))
        .filter_map(|(place, (_, figure))| Some((place, (*figure)?.value)))
        .collect();
    let series: Vec<f64> = counted.iter().map(|(_, value)| *value).collect();
    let (changes, not_searched) = match level_changes(&series, MEASURES, least_change) {
        Ok(changes) => (changes, None),
        Err(missing) => (Vec::new(), Some(missing.reason)),
    };
    let change = |one: &LevelChange| {
        let (before, after) = (&runs[counted[one.at - 1].0].result, &runs[counted[one.at].0].result);
        TrendChange {
            last_before: before.run.clone(),
            first_after: after.run.clone(),
            before: one.before,
            after: one.after,
            change: one.change(),
            p: one.p,
            changed: changed(before, after),
        }
    };
    let changes = changes.iter().map(change).collect();
    TrendMeasure {
        name,
        unit: unit.to_owned(),
        is_of_command: false,
        more_is_better,
        at_least: vec![false; values.len()],
        values,
        counted: counted.len(),
        changes,
        not_searched,
    }
}
