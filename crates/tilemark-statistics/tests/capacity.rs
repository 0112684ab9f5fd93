//! The search and the judge against hosts whose capacity is known: how often an answer that is called trusted is wrong, how wide it
//! is, and what it takes.
//!
//! A repeat of a host is a histogram for each guest: exponential beyond its median, scaled so that its p99 follows the host's curve,
//! times noise of the repeat, of the run and of the guest. `TILEMARK_TEST_CAPACITIES` sets the answers for each case.

#![allow(clippy::unwrap_used, reason = "a test file: helpers may unwrap as tests do")]

use std::collections::BTreeMap;
use std::sync::LazyLock;

use hdrhistogram::Histogram;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rand_distr::{Distribution, StandardNormal};
use tilemark_fixtures::{self as fixtures, figures};
use tilemark_plan::plan::{Backend, Plan, Point};
use tilemark_plan::resolve::Request;
use tilemark_plan::scenario::Role;
use tilemark_record::result::{LatencyMs, LatenessUs, VerdictStatus};
use tilemark_record::summary::{
    EncodedHistogram, GuestFigures, HostFigures, LoadFigures, ProcessorFigures, RepeatSummary,
};
use tilemark_statistics::judge::{CapacitySearch, Ended, Judgement, Known, Next, judge};
use tilemark_units::Bytes;

/// The gate of the default scenario, in milliseconds.
const GATE_MS: f64 = 50.0;

#[derive(Clone, Copy, Debug)]
enum Shape {
    /// p99 = 8 ms / (1 − tiles / most), as a queue fills.
    Queue,
    /// p99 grows with the square of the tiles.
    Flat,
    /// p99 is 22 ms whatever the tiles, and 70 ms and more beyond the capacity: a slow disk, and a processor that is full.
    Wall,
}

#[derive(Clone, Copy, Debug)]
struct Host {
    /// The largest count that holds; the gate is passed midway to the next.
    capacity: u32,
    shape: Shape,
    /// Standard deviation of a repeat's ln p99.
    noise: f64,
    /// The same of a whole run.
    run: f64,
    /// The same of each guest in each repeat.
    guests: f64,
    /// Guests that have noise of their own, whatever the tiles.
    guests_with_noise: usize,
    /// One repeat in so many is five times slower; 0: none.
    hiccup_every: u32,
    /// Repeats that the plan wants.
    repeats: u32,
}

impl Host {
    const fn new(capacity: u32, noise: f64, repeats: u32) -> Self {
        Self {
            capacity,
            shape: Shape::Queue,
            noise,
            run: 0.0,
            guests: 0.0,
            guests_with_noise: 1,
            hiccup_every: 0,
            repeats,
        }
    }

    /// The p99 of all guests together in a repeat without noise of its own, for each guest's p99 without its own noise: guests that
    /// scatter have a higher p99 together than each has. Found by halving, over 400 quantiles of the noise.
    fn mixture(&self) -> f64 {
        let normal = statrs::distribution::Normal::standard();
        let quantiles: Vec<f64> = (0..400)
            .map(|part| {
                let z = statrs::distribution::ContinuousCDF::inverse_cdf(
                    &normal,
                    (f64::from(part) + 0.5) / 400.0,
                );
                (self.guests * z).exp()
            })
            .collect();
        let beyond = |factor: f64| {
            quantiles.iter().map(|scale| 0.01_f64.powf(factor / scale)).sum::<f64>() / quantiles.len() as f64
        };
        let (mut low, mut high) = (0.5_f64, 3.0_f64);
        for _ in 0..50 {
            let middle = low.midpoint(high);
            if beyond(middle) > 0.01 { low = middle } else { high = middle }
        }
        low
    }

    fn p99_ms(&self, tiles: u32) -> f64 {
        let boundary = f64::from(self.capacity) + 0.5;
        match self.shape {
            Shape::Queue => 8.0 / (1.0 - f64::from(tiles) * 0.84 / boundary).max(0.004),
            Shape::Wall if tiles > self.capacity => 70.0 * f64::from(tiles) / boundary,
            Shape::Wall => 22.0,
            Shape::Flat => GATE_MS * (f64::from(tiles) / boundary).powi(2),
        }
    }
}

struct World {
    plan: Plan,
    host: Host,
    random: ChaCha8Rng,
    of_run: f64,
    mixture: f64,
    repeats: Vec<RepeatSummary>,
}

fn plan(repeats: u32) -> Plan {
    let request = Request {
        settings: BTreeMap::from([("measure.repeats".to_owned(), repeats.to_string())]),
        search: true,
        ..fixtures::request(&[Backend::Kvm])
    };
    let scenario = format!("{}search_limit = 1000\n", fixtures::TILE);
    fixtures::plan(&scenario, &request, &fixtures::host(8, Bytes::from_gib(1024)))
}

/// A histogram of so many latencies with this p99: exponential, by its quantiles, so that it costs no draws.
fn histogram(p99_ms: f64, requests: u64) -> Histogram<u64> {
    // What the steps of the quantiles add to the p99.
    static TOO_MUCH: LazyLock<f64> =
        LazyLock::new(|| raw_histogram(100.0, 4_000).value_at_quantile(0.99) as f64 / 1e8);
    raw_histogram(p99_ms / *TOO_MUCH, requests)
}

fn raw_histogram(p99_ms: f64, requests: u64) -> Histogram<u64> {
    let mut histogram = Histogram::new(3).unwrap();
    let scale_ns = p99_ms * 1e6 / 100.0_f64.ln();
    const PARTS: u64 = 200;
    let mut rest = requests;
    for part in 0..PARTS {
        // The last parts are finer: the tail is what is looked at.
        let share = (part as f64 + 0.5) / PARTS as f64;
        let below = 1.0 - (1.0 - share).powi(3);
        let count = (requests as f64 * 3.0 * (1.0 - share).powi(2) / PARTS as f64).round().max(1.0) as u64;
        let count = count.min(rest);
        rest -= count;
        let value = -(1.0 - below).ln() * scale_ns;
        histogram.record_n(value.max(1_000.0) as u64, count.max(1)).unwrap();
    }
    histogram
}

fn latency(histogram: &Histogram<u64>) -> LatencyMs {
    let at = |quantile| Some(histogram.value_at_quantile(quantile) as f64 / 1e6);
    LatencyMs {
        n: histogram.len(),
        mean: Some(histogram.mean() / 1e6),
        p50: at(0.5),
        p90: at(0.9),
        p99: at(0.99),
        max: at(1.0),
        ..LatencyMs::default()
    }
}

impl World {
    fn new(host: Host, seed: u64) -> Self {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let of_run: f64 = StandardNormal.sample(&mut random);
        Self {
            plan: plan(host.repeats),
            host,
            random,
            of_run: host.run * of_run,
            mixture: host.mixture(),
            repeats: Vec::new(),
        }
    }

    fn normal(&mut self) -> f64 {
        StandardNormal.sample(&mut self.random)
    }

    fn point(&mut self, tiles: u32) -> Point {
        if let Some(point) = self.plan.points.iter().find(|point| point.tiles == tiles) {
            return point.clone();
        }
        let point = self.plan.point_at(&self.plan.points[0], self.plan.points.len(), tiles);
        self.plan.points.push(point.clone());
        point
    }

    fn measure(&mut self, tiles: u32) {
        let point = self.point(tiles);
        let host = self.host;
        let mut of_repeat = host.noise * self.normal() + self.of_run;
        if host.hiccup_every > 0 && self.random.random_range(0..host.hiccup_every) == 0 {
            of_repeat += 5.0_f64.ln();
        }
        let p99 = host.p99_ms(tiles) * of_repeat.exp() / self.mixture;
        let count = if host.guests > 0.0 { host.guests_with_noise } else { 1 };
        let mut all = Histogram::<u64>::new(3).unwrap();
        let guests: Vec<GuestFigures> = (0..count)
            .map(|index| {
                let own = (host.guests * self.normal()).exp();
                let histogram = histogram(p99 * own, 4_000);
                all.add(&histogram).unwrap();
                let name = format!("tile-{:03}-web", index + 1);
                GuestFigures {
                    latency_histogram: Some(EncodedHistogram::of(&histogram)),
                    ..figures::guest_figures(&name, index as u32 + 1, 4_000, latency(&histogram))
                }
            })
            .collect();
        let had = self.repeats.iter().filter(|repeat| repeat.point == point.index).count() as u32;
        self.repeats.push(RepeatSummary {
            loads: vec![load(guests, &all)],
            host: quiet(),
            ..figures::repeat(&point, had + 1, had + 1)
        });
    }

    /// As the pipeline searches, without limits of time.
    fn search(&mut self) -> Ended {
        let limit = self.plan.search.as_ref().unwrap().limit;
        let search = CapacitySearch::new(1, limit, self.host.repeats);
        loop {
            let points: Vec<&Point> = self.plan.points.iter().collect();
            match search.next(&Known::of(&points, &self.repeats)) {
                Next::Probe(tiles) => self.measure(tiles),
                Next::Ended(ended) => return ended,
            }
        }
    }

    /// As the pipeline searches with time for so many repeats, each of which takes the same time.
    fn search_with(&mut self, repeats_max: usize) {
        let limit = self.plan.search.as_ref().unwrap().limit;
        let mut search = CapacitySearch::new(1, limit, self.host.repeats);
        loop {
            let points: Vec<&Point> = self.plan.points.iter().collect();
            let known = Known::of(&points, &self.repeats);
            let Next::Probe(tiles) = search.next(&known) else { return };
            let is_new = known.repeats(tiles) == 0 && !search.is_settled();
            let kept_back = if is_new { search.to_confirm(&known, tiles).len() } else { 0 };
            if self.repeats.len() + 1 + kept_back <= repeats_max {
                self.measure(tiles);
            } else if !search.settle() {
                return;
            }
        }
    }

    fn judged(&self) -> Judgement {
        judge(&self.plan, &self.repeats)
    }
}

fn load(guests: Vec<GuestFigures>, all: &Histogram<u64>) -> LoadFigures {
    LoadFigures {
        completed_in_time: Some(all.len()),
        latency_histogram: Some(EncodedHistogram::of(all)),
        send_lateness_us: LatenessUs { p99: Some(50.0), ..LatenessUs::default() },
        guests,
        ..figures::load_figures("web", Role::Web, all.len(), latency(all))
    }
}

fn quiet() -> HostFigures {
    HostFigures {
        seconds: 20,
        processor: ProcessorFigures { guest_work: 0.5, idle: 0.5, ..ProcessorFigures::default() },
        guest_processors_busy: Some(0.95),
        memory_total: 1 << 40,
        ..HostFigures::default()
    }
}

/// What many answers about one host came to.
#[derive(Default, Debug)]
struct Tally {
    answers: u32,
    trusted: u32,
    /// Trusted, and the truth is not in the range.
    wrong: u32,
    /// Ranges of at most three counts that hold the truth.
    within_three: u32,
    repeats: u32,
    /// Sum of the estimated capacity over the true one, less 1, of answers that have one.
    bias: f64,
    with_capacity: u32,
    /// The law's 95 % interval holds the truth.
    covered: u32,
}

fn tally(host: Host, answers: u32, seed: u64) -> Tally {
    let mut tally = Tally::default();
    for index in 0..answers {
        let mut world = World::new(host, seed * 1_000_003 + u64::from(index));
        world.search();
        let judged = world.judged();
        let answer = &judged.answer;
        let broke = answer.breaks.as_ref().map(|broke| broke.tiles);
        let holds = answer.holds.is_none_or(|held| held <= host.capacity)
            && broke.is_none_or(|broke| host.capacity < broke);
        let width = broke.map_or(u32::MAX, |broke| broke - answer.holds.unwrap_or(0));
        tally.answers += 1;
        tally.repeats += world.repeats.len() as u32;
        let is_trusted = judged.verdict.status == VerdictStatus::Trusted;
        tally.trusted += u32::from(is_trusted);
        tally.wrong += u32::from(is_trusted && !holds);
        tally.within_three += u32::from(holds && width <= 3);
        if let Some(capacity) = answer.capacity {
            let truth = f64::from(host.capacity) + 0.5;
            tally.with_capacity += 1;
            tally.bias += capacity.value / truth - 1.0;
            tally.covered += u32::from(capacity.low.unwrap() <= truth && truth <= capacity.high.unwrap());
        }
    }
    tally
}

/// Answers for each case: few in every test run, many where that is asked for.
fn answers() -> u32 {
    std::env::var("TILEMARK_TEST_CAPACITIES").ok().and_then(|text| text.parse().ok()).unwrap_or(2)
}

/// Hosts by name: noise, runs that differ, wild repeats, a flat curve, guests with noise of their own.
fn hosts() -> Vec<(&'static str, Host)> {
    let mut hosts = Vec::new();
    for repeats in [3, 5] {
        for capacity in [17, 60, 200] {
            for noise in [0.1, 0.2, 0.3] {
                hosts.push(("noise", Host::new(capacity, noise, repeats)));
            }
            hosts.push(("runs differ by 10 %", Host { run: 0.1, ..Host::new(capacity, 0.2, repeats) }));
        }
        hosts.push(("1 in 20 is 5 x slower", Host { hiccup_every: 20, ..Host::new(17, 0.2, repeats) }));
        hosts.push(("flat curve", Host { shape: Shape::Flat, ..Host::new(17, 0.2, repeats) }));
        hosts.push(("wall", Host { shape: Shape::Wall, ..Host::new(17, 0.1, repeats) }));
        hosts.push(("wall", Host { shape: Shape::Wall, ..Host::new(60, 0.2, repeats) }));
        let guests = Host { guests: 0.2, guests_with_noise: 34, ..Host::new(17, 0.0, repeats) };
        hosts.push(("34 guests, 20 % each", guests));
    }
    hosts
}

/// One line of JSON that the long trials read, as other series print theirs.
fn print(name: &str, host: &Host, tally: &Tally) {
    let part = |count: u32| 100.0 * f64::from(count) / f64::from(tally.answers);
    let of_capacities = 100.0 / f64::from(tally.with_capacity.max(1));
    println!(
        "{}",
        serde_json::json!({
            "what": format!("{name}, {} tiles, noise {:.0} %, {} repeats", host.capacity, 100.0 * host.noise, host.repeats),
            "answers": tally.answers,
            "trusted_percent": part(tally.trusted),
            "trusted_and_wrong_percent": part(tally.wrong),
            "three_counts_with_the_truth_percent": part(tally.within_three),
            "interval_covers_percent": of_capacities * f64::from(tally.covered),
            "bias_percent": of_capacities * tally.bias,
            "repeats": f64::from(tally.repeats) / f64::from(tally.answers),
        })
    );
}

#[test]
fn an_answer_that_is_trusted_holds_the_truth_19_times_of_20_on_every_kind_of_host() {
    let (mut wrong, mut all) = (0, 0);
    for (name, host) in hosts() {
        if let Ok(only) = std::env::var("ONLY")
            && name != only
        {
            continue;
        }
        let tally = tally(host, answers(), 1);
        print(name, &host, &tally);
        // In a long series each kind of host by itself, in a short one all together.
        let allowed = 1.0 + 0.05 * f64::from(tally.answers);
        assert!(f64::from(tally.wrong) <= allowed, "{name}: {host:?} {tally:?}");
        wrong += tally.wrong;
        all += tally.answers;
    }
    assert!(f64::from(wrong) <= 1.0 + 0.05 * f64::from(all), "{wrong} of {all}");
}

#[test]
fn twenty_percent_of_noise_leaves_three_counts_at_most_and_no_bias() {
    let n = 12.max(answers());
    let tally = tally(Host::new(17, 0.2, 3), n, 2);
    assert!(f64::from(tally.within_three) >= 0.95 * f64::from(n) - 1.0, "{tally:?}");
    assert!(tally.trusted > n / 2, "an answer that nobody may trust is none: {tally:?}");
    assert!((tally.bias / f64::from(tally.with_capacity)).abs() < 0.02, "{tally:?}");
}

#[test]
fn a_host_that_runs_into_a_wall_gets_an_answer_that_is_trusted() {
    let tally = tally(Host { shape: Shape::Wall, ..Host::new(17, 0.1, 3) }, 5, 3);
    assert_eq!((tally.trusted, tally.wrong), (5, 0), "{tally:?}");
}

#[test]
fn a_search_with_little_time_spends_it_near_the_gate_and_says_how_much_more_would_decide() {
    for (repeats, seed) in (10..12).flat_map(|repeats| (0..5).map(move |seed| (repeats, seed))) {
        let mut world = World::new(Host::new(10, 0.05, 3), seed);
        world.search_with(repeats);
        let judged = world.judged();
        let answer = &judged.answer;
        let (held, broke) = (answer.holds.unwrap(), answer.breaks.as_ref().unwrap().tiles);
        assert!((8..=10).contains(&held) && (11..=12).contains(&broke), "{repeats}, {seed}: {answer:?}");
        assert_eq!(judged.verdict.status, VerdictStatus::CannotTell, "{repeats}, {seed}");
        assert!(answer.more.is_some(), "{repeats}, {seed}: {answer:?}");
    }
}
