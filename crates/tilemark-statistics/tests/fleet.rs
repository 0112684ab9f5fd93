//! The promises about fleets, on synthetic fleets with fixed seeds: alike hosts are not named, a slow one is.

#![allow(clippy::unwrap_used, reason = "a test file: helpers may unwrap as tests do")]

use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use rand_distr::{Binomial, Distribution, Normal, StudentT};
use tilemark_statistics::{
    DriftMeasure, GroupMeasure, HOST_LEAST_CHANGE, HOST_LEAST_CHANGE_OF_ERRORS, HostPair, HostVerdict,
    compare_fleets, compare_hosts,
};

const HOSTS: usize = 40;
const REPEATS: usize = 5;
/// Deviation of a repeat, as a part.
const OF_REPEATS: f64 = 0.012;

/// How many fleets are made; `cargo xtask soak comparisons` asks for more.
fn fleets() -> u64 {
    std::env::var("TILEMARK_TEST_COMPARISONS").ok().and_then(|text| text.parse().ok()).unwrap_or(1_000)
}

/// How repeats scatter.
#[derive(Clone, Copy)]
enum Noise {
    Normal,
    /// Student's t of 3 degrees, with the same deviation: now and then one repeat is far off.
    HeavyTails,
}

/// A fleet whose hosts differ harmlessly by `between`, its first host `slow` times as slow.
fn fleet(seed: u64, between: f64, slow: f64, noise: Noise) -> Vec<Vec<f64>> {
    fleet_of(REPEATS, seed, between, slow, noise)
}

fn fleet_of(repeats: usize, seed: u64, between: f64, slow: f64, noise: Noise) -> Vec<Vec<f64>> {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let (normal, heavy) = (Normal::new(0.0, 1.0).unwrap(), StudentT::new(3.0).unwrap());
    let mut host = |level: f64| {
        let own = between * normal.sample(&mut random);
        let mut one = || match noise {
            Noise::Normal => normal.sample(&mut random),
            Noise::HeavyTails => heavy.sample(&mut random) / 3_f64.sqrt(),
        };
        (0..repeats).map(|_| 1_000.0 * level * (own + OF_REPEATS * one()).exp()).collect()
    };
    (0..HOSTS).map(|place| host(if place == 0 { slow } else { 1.0 })).collect()
}

/// Which hosts are named in the first measure of two; the second is of equal hosts, so that the correction is that of a real fleet.
fn named(seed: u64, between: f64, slow: f64, noise: Noise) -> Vec<usize> {
    let first = GroupMeasure {
        hosts: fleet(seed, between, slow, noise),
        least_change: HOST_LEAST_CHANGE,
        in_blocks: false,
    };
    let other = GroupMeasure {
        hosts: fleet(!seed, between, 1.0, noise),
        least_change: HOST_LEAST_CHANGE,
        in_blocks: false,
    };
    let found = compare_hosts(&[first, other]);
    let of_either = |place: &usize| {
        found.iter().any(|measure| measure.as_ref().unwrap().hosts[*place].verdict == HostVerdict::Differs)
    };
    (0..HOSTS).filter(of_either).collect()
}

/// In how many fleets this is so.
fn count(what: &str, is_so: impl Fn(u64) -> bool) -> u64 {
    let found = (0..fleets()).filter(|&seed| is_so(seed)).count() as u64;
    println!("measured: {what}: {found} of {}", fleets());
    found
}

#[test]
fn of_100_fleets_of_40_alike_hosts_at_most_one_names_a_host() {
    for (what, between) in [("no spread between hosts", 0.0), ("hosts 1 % apart", 0.01)] {
        let found = count(&format!("alike fleets that name a host, {what}"), |seed| {
            !named(seed, between, 1.0, Noise::Normal).is_empty()
        });
        assert!(found * 100 <= fleets(), "{what}: {found}");
    }
}

#[test]
fn heavy_tails_do_not_make_alike_fleets_name_a_host() {
    let found = count("alike fleets that name a host, hosts 1 % apart, repeats with heavy tails", |seed| {
        !named(seed, 0.01, 1.0, Noise::HeavyTails).is_empty()
    });
    assert!(found * 100 <= fleets(), "{found}");
}

#[test]
fn a_host_that_is_8_percent_slower_is_found_in_95_of_100_fleets_and_is_the_only_one() {
    // A throughput 8 % lower, and a latency 8 % higher.
    for (what, slow) in [("throughput", 0.92), ("latency", 1.08)] {
        let found = count(&format!("the host 8 % slower in {what} is found, and it alone"), |seed| {
            named(seed, 0.01, slow, Noise::Normal) == [0]
        });
        assert!(found * 100 >= 95 * fleets(), "{what}: {found}");
    }
}

#[test]
fn fleets_whose_hosts_are_equal_are_called_alike_with_ten_repeats() {
    let found = count("fleets without a spread between hosts that are called alike, 10 repeats", |seed| {
        let hosts = fleet_of(10, seed, 0.0, 1.0, Noise::Normal);
        let measure = GroupMeasure { hosts, least_change: HOST_LEAST_CHANGE, in_blocks: false };
        compare_hosts(&[measure])[0].as_ref().unwrap().verdict == HostVerdict::Alike
    });
    assert!(found * 100 >= 95 * fleets(), "{found}");
}

#[test]
fn a_fleet_with_a_host_at_the_least_change_is_called_alike_at_most_once_in_twenty() {
    let found = count("fleets with a host 3 % slower that are called alike", |seed| {
        let hosts = fleet(seed, 0.0, 1.0 / (1.0 + HOST_LEAST_CHANGE), Noise::Normal);
        let measure = GroupMeasure { hosts, least_change: HOST_LEAST_CHANGE, in_blocks: false };
        compare_hosts(&[measure])[0].as_ref().unwrap().verdict == HostVerdict::Alike
    });
    assert!(found * 20 <= fleets(), "{found}");
}

/// Hosts on which requests fail by chance alone, each with the same probability; the first one fails `more` times as much. Hosts with a repeat
/// without a failure are left out.
fn failing(seed: u64, requests: u64, part: f64, more: f64) -> Vec<Vec<f64>> {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let mut host = |part: f64| -> Vec<f64> {
        let law = Binomial::new(requests, part).unwrap();
        (0..REPEATS).map(|_| law.sample(&mut random) as f64 / requests as f64).collect()
    };
    let all = (0..HOSTS).map(|place| host(if place == 0 { part * more } else { part }));
    all.filter(|host| host.iter().all(|part| *part > 0.0)).collect()
}

fn named_by_errors(hosts: Vec<Vec<f64>>) -> Vec<usize> {
    let measure = GroupMeasure { hosts, least_change: HOST_LEAST_CHANGE_OF_ERRORS, in_blocks: false };
    let Ok(found) = compare_hosts(&[measure]).remove(0) else { return Vec::new() };
    let differ = found.hosts.iter().enumerate().filter(|(_, host)| host.verdict == HostVerdict::Differs);
    differ.map(|(place, _)| place).collect()
}

#[test]
fn hosts_that_fail_alike_are_not_named_by_how_much_they_fail_and_one_that_fails_far_more_is() {
    for (requests, part) in [(4_000, 0.01), (300, 0.02)] {
        let what = format!("alike fleets that name a host by its errors, {part} of {requests}");
        let found = count(&what, |seed| !named_by_errors(failing(seed, requests, part, 1.0)).is_empty());
        assert!(found * 100 <= fleets(), "{what}: {found}");
    }
    let found = count("the host that fails five times as much is found, and it alone", |seed| {
        named_by_errors(failing(seed, 4_000, 0.01, 5.0)) == [0]
    });
    assert!(found * 100 >= 95 * fleets(), "{found}");
}

/// A fleet measured twice: each run of each host has a level of its own, `level` apart. In the second run the first host is `slow` times as
/// slow.
fn measured_twice(hosts: usize, seed: u64, level: f64, slow: f64) -> DriftMeasure {
    let mut before = fleet(seed, level, 1.0, Noise::Normal);
    let mut after = fleet(!seed, level, slow, Noise::Normal);
    before.truncate(hosts);
    after.truncate(hosts);
    let pair = |(before, after)| HostPair { before, after, is_control: true };
    DriftMeasure { hosts: before.into_iter().zip(after).map(pair).collect(), least_change: HOST_LEAST_CHANGE }
}

/// The hosts that changed by themselves in either of two measures.
fn changed(measures: &[DriftMeasure; 2]) -> Vec<usize> {
    let found: Vec<_> =
        compare_fleets(measures).into_iter().map(|found| found.unwrap().hosts.unwrap()).collect();
    let of_either = |place: &usize| found.iter().any(|hosts| hosts[*place].verdict == HostVerdict::Differs);
    (0..found[0].len()).filter(of_either).collect()
}

/// Seeds of the second measure, beside those of the first.
const OF_SECOND: u64 = 1 << 40;

#[test]
fn of_100_fleets_that_did_not_change_at_most_one_names_a_host() {
    for hosts in [5, 8, 40] {
        for level in [0.01, 0.03, 0.05] {
            let what = format!("{hosts} hosts that did not change, levels {level} apart, that name a host");
            let found = count(&what, |seed| {
                let measures = [seed, seed ^ OF_SECOND].map(|seed| measured_twice(hosts, seed, level, 1.0));
                !changed(&measures).is_empty()
            });
            assert!(found * 100 <= fleets(), "{what}: {found}");
        }
    }
}

#[test]
fn of_100_fleets_that_did_not_change_at_most_one_has_another_mean() {
    let found = count("fleets that did not change and have another mean", |seed| {
        let found = compare_fleets(&[measured_twice(HOSTS, seed, 0.01, 1.0)]).remove(0).unwrap();
        found.all.unwrap().verdict == HostVerdict::Differs
    });
    assert!(found * 100 <= fleets(), "{found}");
}

#[test]
fn one_of_40_hosts_that_became_10_percent_slower_is_found_and_is_the_only_one() {
    let found = count("of 40 hosts the one that became 10 % slower is found, and it alone", |seed| {
        changed(&[seed, seed ^ OF_SECOND].map(|seed| measured_twice(HOSTS, seed, 0.01, 1.1))) == [0]
    });
    assert!(found * 10 >= 6 * fleets(), "{found}");
}
