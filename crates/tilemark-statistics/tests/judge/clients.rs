//! What client machines do to a repeat.

use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use rand_distr::{Distribution, Normal, StudentT};
use tilemark_plan::{plan::Backend, share::share_out};
use tilemark_record::{
    clients::{ClientComparison, ClientFigures, ClientLoad, ClientOutcome},
    result::VerdictStatus,
    summary::{Busy, RepeatSummary},
};

use crate::run::ladder;

fn fit() -> ClientFigures {
    ClientFigures {
        name: "c2".to_owned(),
        tiles: vec![1],
        uncertainty_ms: Some(0.2),
        intended_begin_ns: Some(1_000_000_000),
        actual_begin_ns: Some(1_000_400_000),
        busy: Busy { mean_fraction: 0.2, max_fraction: 0.3 },
        steal: Some(0.0),
        other: Some(0.01),
        line_used: Some(0.5),
        loads: vec![ClientLoad {
            name: "steady".to_owned(),
            send_lateness_p99_us: Some(60.0),
            ..ClientLoad::default()
        }],
        ..ClientFigures::default()
    }
}

/// Why the first repeat was discarded, where its client is this one.
fn why_discarded(change: impl Fn(&mut ClientFigures)) -> Option<String> {
    let mut client = fit();
    change(&mut client);
    let with = |repeat: &mut RepeatSummary| repeat.clients = vec![client.clone()];
    let judged = ladder(&[Backend::Kvm], &[1]).first(1, 1, with).judged();
    judged.points[0].repeats_voided.first().map(|voided| voided.reason.clone())
}

#[test]
fn a_client_that_ran_out_of_something_is_named_with_it_and_discards_the_repeat() {
    type Change = fn(&mut ClientFigures);
    let cases: [(&str, Change); 10] = [
        ("client c2: a thread used 81 % of its processor", |client| client.busy.max_fraction = 0.81),
        ("client c2: the hypervisor took 2.1 % of its processors as steal", |client| {
            client.steal = Some(0.021)
        }),
        ("client c2: other programs used 5.1 % of its processors", |client| client.other = Some(0.051)),
        ("client c2: its network carried 81 % of its line rate", |client| client.line_used = Some(0.81)),
        ("client c2: requests of load steady were sent up to 3.00 ms late", |client| {
            client.loads[0].send_lateness_p99_us = Some(3_000.0);
        }),
        ("client c2: its clock was uncertain by 10.1 ms", |client| client.uncertainty_ms = Some(10.1)),
        ("client c2: its load began 10.5 ms late", |client| client.actual_begin_ns = Some(1_010_500_000)),
        ("client c2: it did not report when its load began", |client| client.actual_begin_ns = None),
        ("client c2: its clock was not read", |client| client.uncertainty_ms = None),
        ("client c2: a thread used NaN % of its processor", |client| client.busy.max_fraction = f64::NAN),
    ];
    for (wanted, change) in cases {
        let why = why_discarded(change);
        assert!(why.as_deref().is_some_and(|why| why.contains(wanted)), "{wanted}: {why:?}");
    }
}

#[test]
fn a_client_that_has_enough_of_everything_discards_nothing() {
    assert_eq!(why_discarded(|_| ()), None);
    // On the measured host itself the guests are others too.
    let here = |client: &mut ClientFigures| (client.same_machine, client.other) = (true, Some(0.9));
    assert_eq!(why_discarded(here), None);
    let judged = ladder(&[Backend::Kvm], &[1]).first(1, 1, |repeat| repeat.clients = vec![fit()]).judged();
    assert_eq!(judged.verdict.status, VerdictStatus::Trusted, "{:?}", judged.verdict.reasons);
}

#[test]
fn a_point_says_from_where_its_loads_came_and_how_far_that_is() {
    let far = || ClientFigures {
        name: "c1".to_owned(),
        idle_round_trip_ms: Some(0.25),
        intended_begin_ns: Some(1_000_000),
        actual_begin_ns: Some(1_400_000),
        ..fit()
    };
    let here = ClientFigures { same_machine: true, ..fit() };
    let judged = ladder(&[Backend::Kvm], &[1])
        .first(1, 1, |repeat| repeat.clients = vec![here.clone(), far()])
        .judged();
    let notes = &judged.points[0].notes;
    assert!(
        notes.iter().any(|note| note
            == "loads came from the client machines c1, c2; idle round trip up to 0.25 ms; clocks known within 0.20 ms; each began \
                within 0.40 ms of its time"),
        "{notes:?}"
    );
    assert!(notes.iter().any(|note| note.starts_with("this host itself is client c2")), "{notes:?}");
}

/// What clients measure: the level of each repeat differs by 10 %, and each tile in each repeat by 2 % of its own.
#[derive(Clone, Copy)]
struct Made {
    seed: u64,
    tiles: &'static [u32],
    clients: u32,
    repeats: u32,
    /// Client 1 takes so many times as long.
    slow: f64,
    /// Tiles, and clients, differ by so much for good.
    tiles_apart: f64,
    clients_apart: f64,
    /// Client 1 scatters so many times as much.
    noisy: f64,
    /// One value in many is far off.
    heavy_tails: bool,
}

const ALIKE: Made = Made {
    seed: 0,
    tiles: &[6],
    clients: 3,
    repeats: 5,
    slow: 1.0,
    tiles_apart: 0.0,
    clients_apart: 0.0,
    noisy: 1.0,
    heavy_tails: false,
};

impl Made {
    /// What the judge finds at each step.
    fn judged(self) -> Vec<ClientComparison> {
        let mut random = ChaCha8Rng::seed_from_u64(self.seed);
        let (normal, heavy) = (Normal::new(0.0, 1.0).unwrap(), StudentT::new(3.0).unwrap());
        let mut run = ladder(&[Backend::Kvm], self.tiles);
        run.repeats.retain(|repeat| repeat.repeat <= self.repeats);
        let mut levels =
            |apart: f64| -> Vec<f64> { (0..100).map(|_| apart * normal.sample(&mut random)).collect() };
        let (of_tiles, of_clients) = (levels(self.tiles_apart), levels(self.clients_apart));
        for repeat in &mut run.repeats {
            let tiles = run.plan.points[repeat.point].tiles;
            let shares = share_out(self.seed, repeat.block, tiles, self.clients);
            let level = 0.1 * normal.sample(&mut random);
            let mut client = |place: u32| {
                let own: Vec<usize> = (0..tiles as usize).filter(|tile| shares[*tile] == place).collect();
                let mut latency = |base: f64| {
                    let mut one = |tile: &usize| {
                        let noise = match self.heavy_tails {
                            true => heavy.sample(&mut random) / 3_f64.sqrt(),
                            false => normal.sample(&mut random),
                        };
                        of_tiles[*tile] + 0.02 * noise * if place == 0 { self.noisy } else { 1.0 }
                    };
                    let mean = own.iter().map(&mut one).sum::<f64>() / own.len() as f64;
                    let own = of_clients[place as usize];
                    Some(base * (level + mean + own).exp() * if place == 0 { self.slow } else { 1.0 })
                };
                let (p50_ms, p99_ms) = (latency(1.0), latency(8.0));
                ClientFigures {
                    name: format!("c{}", place + 1),
                    tiles: own.iter().map(|tile| *tile as u32 + 1).collect(),
                    idle_round_trip_ms: Some(if place == 0 { 0.4 } else { 0.2 }),
                    loads: vec![ClientLoad { p50_ms, p99_ms, ..fit().loads.remove(0) }],
                    ..fit()
                }
            };
            let clients: Vec<ClientFigures> =
                (0..self.clients).filter(|place| shares.contains(place)).map(&mut client).collect();
            repeat.clients = clients;
        }
        run.judged().points.into_iter().filter_map(|point| point.clients).collect()
    }
}

/// How many runs are made; `cargo xtask soak comparisons` asks for more.
fn runs() -> u64 {
    std::env::var("TILEMARK_TEST_COMPARISONS").ok().and_then(|text| text.parse().ok()).unwrap_or(300)
}

fn count(what: &str, is_so: impl Fn(u64) -> bool) -> u64 {
    let found = (0..runs()).filter(|&seed| is_so(seed)).count() as u64;
    println!("measured: {what}: {found} of {}", runs());
    found
}

#[test]
fn of_100_runs_with_alike_clients_at_most_one_names_a_client() {
    let cases = [
        ("2 clients, 3 repeats", Made { clients: 2, repeats: 3, tiles: &[2], ..ALIKE }),
        ("2 clients, 5 repeats, heavy tails", Made { clients: 2, heavy_tails: true, tiles: &[2], ..ALIKE }),
        ("3 clients, 3 repeats, 1 % apart", Made { repeats: 3, clients_apart: 0.01, tiles: &[3], ..ALIKE }),
        (
            "3 clients, 5 repeats, heavy tails, 1 % apart",
            Made { clients_apart: 0.01, heavy_tails: true, ..ALIKE },
        ),
        ("3 clients, 5 repeats, tiles 5 % apart", Made { tiles_apart: 0.05, ..ALIKE }),
        ("3 clients, 3 steps, 1 % apart", Made { tiles: &[3, 4, 6], clients_apart: 0.01, ..ALIKE }),
        ("8 clients, 5 repeats, 1 % apart", Made { clients: 8, tiles: &[8], clients_apart: 0.01, ..ALIKE }),
        ("3 clients, 5 repeats, one scatters 5 times as much", Made { noisy: 5.0, ..ALIKE }),
        ("3 clients, 5 repeats, one scatters 10 times as much", Made { noisy: 10.0, ..ALIKE }),
    ];
    for (what, made) in cases {
        let found = count(&format!("runs with alike clients that name one, {what}"), |seed| {
            let found = Made { seed, ..made }.judged();
            assert_eq!(found.len(), made.tiles.len());
            found.iter().any(|step| !step.named.is_empty())
        });
        assert!(found * 100 <= runs(), "{what}: {found}");
    }
}

#[test]
fn a_client_that_is_10_percent_slower_is_found_in_95_of_100_runs_and_is_the_only_one() {
    let cases = [
        ("3 clients, 5 repeats", Made { slow: 1.1, ..ALIKE }),
        (
            "8 clients, 5 repeats, 1 % apart",
            Made { clients: 8, tiles: &[16], clients_apart: 0.01, slow: 1.1, ..ALIKE },
        ),
    ];
    for (what, made) in cases {
        let found = count(&format!("the client 10 % slower is found, and it alone, {what}"), |seed| {
            Made { seed, ..made }.judged().remove(0).named == ["c1"]
        });
        assert!(found * 100 >= 95 * runs(), "{what}: {found}");
    }
}

#[test]
fn a_slow_client_is_named_with_what_it_adds_and_the_way_to_it() {
    let found = Made { slow: 1.5, ..ALIKE }.judged().remove(0);
    assert_eq!((found.outcome, &*found.named), (ClientOutcome::Differs, &["c1".to_owned()][..]));
    assert!(
        found.sentence.starts_with("client c1 is slower than the others: steady p50 +"),
        "{}",
        found.sentence
    );
    assert!(
        found.sentence.ends_with("; its idle round trip is 0.40 ms, that of the others 0.20 ms"),
        "{}",
        found.sentence
    );
    let two = Made { slow: 1.5, clients: 2, ..ALIKE }.judged().remove(0);
    assert_eq!(two.named, ["c1", "c2"]);
    assert!(two.sentence.starts_with("client c1 is slower than client c2: steady p50 +"), "{}", two.sentence);
    assert!(two.sentence.ends_with("it is unknown which of them is out of line"), "{}", two.sentence);
}

#[test]
fn what_cannot_be_compared_has_a_reason_and_one_client_no_comparison() {
    let why = |made: Made| made.judged().remove(0).why.unwrap();
    assert_eq!(
        why(Made { tiles: &[2], ..ALIKE }),
        "only 2 of 3 clients sent loads at the same time; they are compared from 3 tiles on"
    );
    assert_eq!(why(Made { repeats: 2, ..ALIKE }), "only 2 repeats, and an interval needs 3");
    assert_eq!(Made { clients: 1, ..ALIKE }.judged(), []);
    // A record from before medians were kept.
    let run = ladder(&[Backend::Kvm], &[2]).at(2, |repeat| {
        let client = |name: &str| ClientFigures { name: name.to_owned(), ..fit() };
        repeat.clients = vec![client("c1"), client("c2")];
    });
    let found = run.judged().points.remove(0).clients.unwrap();
    assert_eq!(found.outcome, ClientOutcome::CannotTell);
    assert_eq!(found.why.unwrap(), "5 of 5 repeats have no p50 of steady from client c1");
}

#[test]
fn a_client_that_differs_is_a_note_of_its_step_and_discards_nothing() {
    let run = ladder(&[Backend::Kvm], &[2]).at(2, |repeat| {
        let client = |name: &str, ms: f64| ClientFigures {
            name: name.to_owned(),
            loads: vec![ClientLoad {
                p50_ms: Some(ms + f64::from(repeat.repeat) / 1e3),
                ..fit().loads.remove(0)
            }],
            ..fit()
        };
        repeat.clients = vec![client("c1", 1.0), client("c2", 1.0), client("c3", 1.2)];
    });
    let judged = run.judged();
    let point = &judged.points[0];
    assert_eq!(point.repeats_kept, 5);
    assert!(
        point.notes.iter().any(|note| note.starts_with("client c3 is slower than the others")),
        "{:?}",
        point.notes
    );
}

/// Twelve clients, the last five of them slow.
fn twelve_clients(repeat: &mut RepeatSummary) {
    let client = |number: u32| {
        let ms = 1.0 + f64::from(repeat.repeat) / 1e3 + if number > 7 { 0.2 } else { 0.0 };
        ClientFigures {
            name: format!("c{number}"),
            loads: vec![ClientLoad { p50_ms: Some(ms), ..fit().loads.remove(0) }],
            ..fit()
        }
    };
    repeat.clients = (1..=12).map(client).collect();
}

#[test]
fn clients_are_in_the_order_of_their_numbers() {
    let found =
        ladder(&[Backend::Kvm], &[12]).at(12, twelve_clients).judged().points.remove(0).clients.unwrap();
    let order: Vec<&str> = found.measures[0].clients.iter().map(|one| &*one.client).collect();
    assert_eq!(order, ["c1", "c2", "c3", "c4", "c5", "c6", "c7", "c8", "c9", "c10", "c11", "c12"]);
    assert_eq!(found.named, ["c8", "c9", "c10", "c11", "c12"]);
    assert!(found.sentence.ends_with("; these differ too: c11, c12"), "{}", found.sentence);
}

#[test]
fn clients_of_an_emulated_step_are_not_compared_and_widen_no_correction() {
    let mut run = ladder(&[Backend::Kvm], &[12, 13]).at(12, twelve_clients).at(13, twelve_clients);
    let emulated = run.plan.points.iter_mut().find(|point| point.tiles == 13).unwrap();
    emulated.backend = Backend::Emulated;
    let place = emulated.index;
    run.repeats
        .iter_mut()
        .filter(|repeat| repeat.point == place)
        .for_each(|repeat| repeat.backend = Backend::Emulated);
    let points = run.judged().points;
    let clients = |tiles: u32| points.iter().find(|point| point.tiles == tiles).unwrap().clients.clone();
    assert_eq!(clients(13), None);
    let alone = ladder(&[Backend::Kvm], &[12]).at(12, twelve_clients).judged().points.remove(0).clients;
    assert_eq!(clients(12), alone);
}

#[test]
fn a_comparison_whose_interval_has_no_end_is_read_back() {
    let run = ladder(&[Backend::Kvm], &[2]).at(2, |repeat| {
        let client = |name: &str, ms: f64| ClientFigures {
            name: name.to_owned(),
            loads: vec![ClientLoad { p50_ms: Some(ms), ..fit().loads.remove(0) }],
            ..fit()
        };
        let wild = [1e-300, 1e300, 1e-300, 1e300, 1.0];
        repeat.clients = vec![client("c1", wild[repeat.repeat as usize % wild.len()]), client("c2", 1.0)];
    });
    let found = run.judged().points.remove(0).clients.unwrap();
    let text = serde_json::to_string(&found).unwrap();
    let read: ClientComparison = serde_json::from_str(&text).unwrap();
    assert_eq!(read.measures[0].clients[0].simultaneous_high, None);
    assert!(read.measures[0].clients[0].simultaneous_low.is_some());
}
