//! Synthetic runs: a plan by the real resolution, and repeats that are undisturbed and well within the gate until a
//! test says otherwise.

use tilemark_fixtures::{self as fixtures, figures};
pub(crate) use tilemark_fixtures::{COMMAND, figures::latency};
use tilemark_plan::plan::{Backend, Plan, Point, SideName};
use tilemark_plan::resolve::{Request, Sides};
use tilemark_plan::scenario::LoopKind;
use tilemark_plan::screening::Screening;
use tilemark_record::result::LatencyMs;
use tilemark_record::summary::{
    HostFigures, LoadFigures, MemoryFigures, ProcessorFigures, RepeatSummary, SecondsToReady, WorstSecond,
};
use tilemark_statistics::judge::{Judgement, judge};
use tilemark_units::Bytes;

/// Two web guests a tile: one under a steady rate that is the headline, one whose users come in bursts.
pub(crate) const SCENARIO: &str = r#"
schema = 1
name = "example"
about = "two web guests a tile"
headline = "steady"
guest = [
    { name = "web", role = "web" },
    { name = "burst", role = "web" },
]
load = [
    { name = "steady", guest = "web", rate = "200/s", web = {} },
    { name = "bursts", guest = "burst", rate = "200/s", arrival = "bursts", web = {} },
]
[ladder]
tiles = [1]
[measure]
repeats = 5
"#;

/// One disk guest a tile, flat out.
pub(crate) const CLOSED: &str = r#"
schema = 1
name = "flat-out"
about = "one disk guest a tile"
guest = [{ name = "disk", role = "disk", disk = [{ size = "64MiB" }] }]
load = [{ name = "disk", guest = "disk", loop = "closed", disk = { saturate = true } }]
ladder.tiles = [1]
measure.repeats = 5
"#;

/// What a command prints that nothing slows, in its unit.
pub(crate) const FIGURE: f64 = 4.0;

pub(crate) struct Run {
    pub(crate) plan: Plan,
    pub(crate) repeats: Vec<RepeatSummary>,
}

fn request(backends: &[Backend], tiles: &[u32]) -> Request {
    Request { tiles: Some(tiles.to_vec()), seed: 7, ..fixtures::request(backends) }
}

fn resolved(text: &str, request: &Request) -> Run {
    let plan = fixtures::plan(text, request, &fixtures::host(8, Bytes::from_gib(64)));
    let repeats =
        plan.passes.iter().map(|pass| quiet(&plan.points[pass.point], pass.repeat, pass.block)).collect();
    Run { plan, repeats }
}

/// Every repeat of a ladder, undisturbed and within the gate.
pub(crate) fn ladder(backends: &[Backend], tiles: &[u32]) -> Run {
    resolved(SCENARIO, &request(backends, tiles))
}

pub(crate) fn of_scenario(text: &str, tiles: &[u32]) -> Run {
    of_scenario_on(text, &[Backend::Kvm], tiles)
}

pub(crate) fn of_scenario_on(text: &str, backends: &[Backend], tiles: &[u32]) -> Run {
    resolved(text, &request(backends, tiles))
}

/// Each role alone and beside every other one.
pub(crate) fn roles(text: &str, backend: Backend) -> Run {
    resolved(text, &Request { tiles: None, interference: true, ..request(&[backend], &[1]) })
}

/// Settings of the host screened, with so many repeats of each row.
pub(crate) fn screened(text: &str, screening: Screening, repeats: u32) -> Run {
    let mut request =
        Request { tiles: None, screening: Some(screening), ..request(&[Backend::Native], &[1]) };
    request.settings.insert("measure.repeats".to_owned(), repeats.to_string());
    resolved(text, &request)
}

/// Two sides in turn, that differ in what is set.
pub(crate) fn sides(text: &str, repeats: u32, a: &[(&str, &str)], b: &[(&str, &str)]) -> Run {
    sides_at(text, &[1], repeats, a, b)
}

pub(crate) fn sides_at(
    text: &str,
    tiles: &[u32],
    repeats: u32,
    a: &[(&str, &str)],
    b: &[(&str, &str)],
) -> Run {
    let settings = fixtures::settings(&[("measure.repeats", &repeats.to_string())]);
    let sides = Some(Sides { a: fixtures::settings(a), b: fixtures::settings(b) });
    resolved(text, &Request { settings, sides, ..request(&[Backend::Kvm], tiles) })
}

impl Run {
    pub(crate) fn judged(&self) -> Judgement {
        judge(&self.plan, &self.repeats)
    }

    /// Changes every repeat at a step on a backend.
    pub(crate) fn at(mut self, tiles: u32, change: impl Fn(&mut RepeatSummary)) -> Self {
        let points = &self.plan.points;
        self.repeats.iter_mut().filter(|repeat| points[repeat.point].tiles == tiles).for_each(change);
        self
    }

    /// Changes the first repeats at a step.
    pub(crate) fn first(mut self, count: usize, tiles: u32, change: impl Fn(&mut RepeatSummary)) -> Self {
        let points = &self.plan.points;
        let at = self.repeats.iter_mut().filter(|repeat| points[repeat.point].tiles == tiles);
        at.take(count).for_each(change);
        self
    }

    /// Changes every repeat of a side.
    pub(crate) fn on(mut self, side: SideName, change: impl Fn(&mut RepeatSummary)) -> Self {
        let points = &self.plan.points;
        self.repeats.iter_mut().filter(|repeat| points[repeat.point].side == Some(side)).for_each(change);
        self
    }

    /// Changes every repeat on a backend.
    pub(crate) fn backend(mut self, backend: Backend, change: impl Fn(&mut RepeatSummary)) -> Self {
        self.repeats.iter_mut().filter(|repeat| repeat.backend == backend).for_each(change);
        self
    }

    /// Leaves out repeats.
    pub(crate) fn without(mut self, which: impl Fn(&RepeatSummary, &Point) -> bool) -> Self {
        let points = &self.plan.points;
        self.repeats.retain(|repeat| !which(repeat, &points[repeat.point]));
        self
    }
}

/// An undisturbed repeat: p99 20 ms, everything served, one request in a thousand thousand late.
pub(crate) fn quiet(point: &Point, repeat: u32, block: u32) -> RepeatSummary {
    let wobble = figures::wobble(point, repeat);
    let mut names: Vec<&str> = point.loads.iter().map(|load| load.name.as_str()).collect();
    names.sort_unstable();
    names.dedup();
    RepeatSummary {
        loads: names.into_iter().map(|name| load(point, name, wobble)).collect(),
        host: host(),
        memory: Some(MemoryFigures {
            pss_mib_per_guest: 90.0,
            pss_mib_max: 95.0,
            ..MemoryFigures::default()
        }),
        ready_s: Some(2.0),
        seconds_to_ready: Some(SecondsToReady { p50: 1.0, p99: 1.5, max: 2.0 }),
        ..figures::repeat(point, repeat, block)
    }
}

fn load(point: &Point, name: &str, wobble: f64) -> LoadFigures {
    let planned = point.loads.iter().find(|load| load.name == name).unwrap();
    let figure = figures::printed(planned, FIGURE * wobble);
    // A command with one figure is all that is done, and has no latency.
    let has_figure = figure.is_some();
    let each = if has_figure { 1 } else { 4_000 };
    let latency = |n| if has_figure { LatencyMs::default() } else { latency(n, 20.0 * wobble) };
    let mut load = LoadFigures { figure, ..figures::load_of_point(point, name, each, latency) };
    load.seconds /= if load.loop_kind == LoopKind::Closed { wobble } else { 1.0 };
    for guest in &mut load.guests {
        guest.worst_second = Some(WorstSecond { second: 3, latency_ms: 25.0 });
    }
    load
}

fn host() -> HostFigures {
    HostFigures {
        seconds: 20,
        processor: ProcessorFigures {
            guest_work: 0.40,
            guest_overhead: 0.05,
            load: 0.10,
            tilemark: 0.01,
            other: 0.01,
            idle: 0.43,
            ..ProcessorFigures::default()
        },
        guest_processors_busy: Some(0.6),
        run_queue_wait_fraction: Some(0.01),
        memory_available_min: Some(50 << 30),
        memory_total: 64 << 30,
        swapped_pages: Some(0),
        oom_kills: Some(0),
        throttled: Some(0),
        clock_step_ms_max: 0.1,
        disk_busy_fraction: Some(0.1),
        pressure_cpu_some: Some(0.0),
        pressure_memory_some: Some(0.0),
        pressure_io_some: Some(0.0),
        network_bytes_per_s: Some(1e6),
        ..HostFigures::default()
    }
}

/// A command prints a figure so many times as large.
pub(crate) fn prints(factor: f64) -> impl Fn(&mut RepeatSummary) {
    move |repeat| {
        for figure in repeat.loads.iter_mut().filter_map(|load| load.figure.as_mut()) {
            figure.value *= factor;
        }
    }
}

/// Makes the steady guest of a tile slow: its p99 is so many milliseconds, give or take by repeat.
pub(crate) fn slow(tile: u32, p99: f64) -> impl Fn(&mut RepeatSummary) {
    move |repeat| {
        let p99 = p99 * (1.0 + (f64::from(repeat.repeat) - 3.0) / 50.0);
        let load = repeat.loads.iter_mut().find(|load| load.name == "steady").unwrap();
        let guest = load.guests.iter_mut().find(|guest| guest.tile == tile).unwrap();
        guest.latency_ms = latency(guest.completed, p99);
        guest.worst_second = Some(WorstSecond { second: 11, latency_ms: 3.0 * p99 });
    }
}

/// Makes a whole load slow, each guest alike.
pub(crate) fn all_slow(p99: f64) -> impl Fn(&mut RepeatSummary) {
    move |repeat| {
        for load in &mut repeat.loads {
            load.latency_ms = latency(load.latency_ms.n, p99);
            for guest in &mut load.guests {
                guest.latency_ms = latency(guest.latency_ms.n, p99);
            }
        }
    }
}
