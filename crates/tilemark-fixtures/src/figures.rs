//! Figures of repeats, and a result: what tests of records, of the judge and of reports begin with.

use std::collections::BTreeMap;
use tilemark_plan::{
    plan::{LoadPlan, Point},
    scenario::{LoopKind, Role},
    workload::CommandParameters,
};
use tilemark_record::{
    result::{
        Answer, JUDGED_BY, LatencyMs, LatenessUs, Limit, LimitResource, Measured, Provenance, RESULT_SCHEMA,
        RunResult, Verdict, VerdictStatus,
    },
    summary::{Busy, CommandFigure, GuestFigures, HostFigures, LoadFigures, RepeatSummary},
};

/// A repeat of a point in which nothing was loaded, read or found.
pub fn repeat(point: &Point, repeat: u32, block: u32) -> RepeatSummary {
    RepeatSummary {
        point: point.index,
        repeat,
        block,
        began_unix_ms: 0,
        backend: point.backend,
        loads: Vec::new(),
        host: HostFigures::default(),
        incidents: Vec::new(),
        memory: None,
        ready_s: None,
        seconds_to_ready: None,
        uses: Vec::new(),
        kernel_errors: Vec::new(),
        settings: Vec::new(),
        place: None,
        is_load_in_place: None,
        levels: None,
        hooks: Vec::new(),
        clients: Vec::new(),
    }
}

/// A few thousandths around 1, other ones in each repeat: so that intervals have a width.
pub fn wobble(point: &Point, repeat: u32) -> f64 {
    1.0 + f64::from((repeat * 7 + point.index as u32 * 3) % 5) / 1_000.0
}

/// Latencies of so many requests, all in proportion to their p99 in milliseconds.
pub fn latency(n: u64, p99: f64) -> LatencyMs {
    LatencyMs {
        n,
        mean: Some(p99 / 5.0),
        p50: Some(p99 / 6.0),
        p90: Some(p99 / 2.0),
        p99: Some(p99),
        p999: Some(p99 * 1.5),
        max: Some(p99 * 2.0),
        ..LatencyMs::default()
    }
}

/// A guest that answered all of so many requests.
pub fn guest_figures(name: &str, tile: u32, requests: u64, latency_ms: LatencyMs) -> GuestFigures {
    GuestFigures {
        name: name.to_owned(),
        tile,
        offered: requests,
        completed: requests,
        completed_in_time: None,
        errors: 0,
        latency_ms,
        latency_histogram: None,
        worst_second: None,
        quality: None,
    }
}

/// A load of 20 s that answered all of so many requests, from a sender that had time left.
pub fn load_figures(name: &str, role: Role, requests: u64, latency_ms: LatencyMs) -> LoadFigures {
    LoadFigures {
        name: name.to_owned(),
        role,
        loop_kind: LoopKind::Open,
        measured: Measured::Outside,
        unit: "requests".to_owned(),
        seconds: 20.0,
        offered: requests,
        completed: requests,
        completed_in_time: None,
        failed: 0,
        wrong: 0,
        bytes: requests * 1_024,
        latency_ms,
        latency_histogram: None,
        quality: None,
        send_lateness_us: LatenessUs {
            p50: Some(20.0),
            p99: Some(80.0),
            p999: Some(200.0),
            max: Some(900.0),
        },
        client_cpu_s: 1.0,
        sender_busy: Busy { mean_fraction: 0.2, max_fraction: 0.3 },
        guests: Vec::new(),
        fairness: None,
        errors: Vec::new(),
        drift: None,
        surge: None,
        store: Vec::new(),
        jobs: Vec::new(),
        figure: None,
    }
}

/// The load of that name in a point, each of whose guests answered so many requests.
pub fn load_of_point(
    point: &Point,
    name: &str,
    each: u64,
    latency: impl Fn(u64) -> LatencyMs,
) -> LoadFigures {
    let planned: Vec<&LoadPlan> = point.loads.iter().filter(|load| load.name == name).collect();
    let guest = |load: &&LoadPlan| {
        guest_figures(&point.guests[load.guest as usize].name, load.tile, each, latency(each))
    };
    let guests: Vec<GuestFigures> = planned.iter().map(guest).collect();
    let all = each * guests.len() as u64;
    LoadFigures {
        loop_kind: planned[0].demand.loop_kind(),
        guests,
        ..load_figures(name, point.guests[planned[0].guest as usize].role, all, latency(all))
    }
}

/// The figure that the command of a load prints, where it prints one in place of a rate.
pub fn printed(load: &LoadPlan, value: f64) -> Option<CommandFigure> {
    let (unit, better) = load.work.command().and_then(CommandParameters::printed_figure)?;
    Some(CommandFigure { value, unit: unit.to_owned(), better })
}

/// A result without points and without an answer.
pub fn result(run: &str, scenario: &str) -> RunResult {
    RunResult {
        schema: RESULT_SCHEMA,
        judged_by: JUDGED_BY,
        run: run.to_owned(),
        scenario: scenario.to_owned(),
        preset: None,
        verdict: Verdict { status: VerdictStatus::CannotTell, reasons: Vec::new() },
        answer: Answer {
            backend: None,
            holds: None,
            undecided: None,
            breaks: None,
            confidence: None,
            capacity: None,
            more: None,
            untried: None,
            vcpus_per_thread: None,
            limit: Limit { resource: LimitResource::Unknown, evidence: Vec::new() },
            none_because: None,
        },
        sentence: String::new(),
        cost: None,
        comparison: None,
        function: None,
        scaling: Vec::new(),
        interference: None,
        screening: None,
        points: Vec::new(),
        idle_power_w: None,
        provenance: Provenance::default(),
        missing: BTreeMap::new(),
    }
}
