//! What an emulated guest is asked: what it can serve, so that its right answers show that it works.
//!
//! A processor of an emulated guest is a thread of the host that translates, many times slower than the host itself. Asked
//! for a scenario's whole rate it answers late or not at all, and a page of failed requests shows nothing.

use crate::{
    plan::{Demand, LoadPlan},
    scenario::Arrival,
};
use tilemark_units::{Rate, Span};

/// Part of what was measured flat out that is asked: another machine may be so many times slower, or busier.
const PART: f64 = 0.1;
/// A guest that is asked nothing shows nothing: so many requests in the measurement, by the mean, are asked even where that is more.
const REQUESTS_MIN: f64 = 5.0;

/// Lowers the rates of a point's loads to what its emulated guests can serve together on so many threads, in a measurement of this
/// length. Loads whose rate the user chose keep it.
pub(crate) fn lower(
    loads: &mut [LoadPlan],
    threads: usize,
    length: Span,
    is_chosen: impl Fn(&LoadPlan) -> bool,
) {
    let least = REQUESTS_MIN / length.as_seconds();
    // Where there are more guests that work than threads, they share.
    let share = (threads as f64 / loads.len().max(1) as f64).min(1.0);
    for load in loads.iter_mut().filter(|load| !is_chosen(load)) {
        if let Some(seconds) = load.work.facts().emulated_seconds() {
            // A guest that sends a load works about as long for a request as the one that answers it.
            let seconds = if load.from.is_some() { 2.0 * seconds } else { seconds };
            lower_one(load, PART * share / seconds, least);
        }
    }
}

/// At most so many requests a second, in a burst too, but the least.
fn lower_one(load: &mut LoadPlan, most: f64, least: f64) {
    let Demand::Open { rate, arrival, burst_every, burst_length, .. } = &mut load.demand else { return };
    let most = match arrival {
        Arrival::Bursts => most * burst_length.as_seconds() / burst_every.as_seconds(),
        Arrival::Poisson | Arrival::Even => most,
    };
    let most = two_digits(most).max(two_digits(least));
    let most = if load.work.facts().has_whole_rate() { most.floor().max(1.0) } else { most };
    if let Some(lower) = Rate::per_second(most).filter(|lower| *lower < *rate) {
        load.lowered_from = Some(std::mem::replace(rate, lower));
    }
}

/// Rounded down to two digits, so that a person can read it.
fn two_digits(value: f64) -> f64 {
    let unit = 10_f64.powf(value.log10().floor() - 1.0);
    (value / unit).floor() * unit
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::{SysbenchParameters, WebFile, WebParameters, Work};
    use tilemark_units::Bytes;

    fn load(work: Work, rate: f64, arrival: Arrival) -> LoadPlan {
        LoadPlan {
            name: "a".to_owned(),
            tile: 1,
            guest: 0,
            from: None,
            from_clients: false,
            demand: Demand::Open {
                rate: Rate::per_second(rate).unwrap(),
                arrival,
                burst_every: Span::from_seconds(5),
                burst_length: Span::from_seconds(1),
                surge: None,
            },
            lowered_from: None,
            connections: 1,
            work,
            seed: 1,
        }
    }

    fn rate(load: &LoadPlan) -> f64 {
        match load.demand {
            Demand::Open { rate, .. } => rate.get(),
            Demand::Closed => panic!("it has a rate"),
        }
    }

    fn lowered(mut loads: Vec<LoadPlan>, threads: usize) -> Vec<LoadPlan> {
        lower(&mut loads, threads, Span::from_seconds(60), |_| false);
        loads
    }

    fn web(size: Bytes) -> Work {
        Work::Web(WebParameters { files: vec![WebFile { size, weight: 1 }], ..WebParameters::default() })
    }

    #[test]
    fn a_rate_is_lowered_and_never_raised_and_the_plan_knows_what_it_was() {
        let fast = lowered(vec![load(web(Bytes::from_kib(1)), 900.0, Arrival::Poisson)], 1).remove(0);
        assert!(rate(&fast) < 100.0, "{fast:?}");
        assert_eq!(fast.lowered_from, Rate::per_second(900.0));
        let slow = lowered(vec![load(web(Bytes::from_kib(1)), 0.5, Arrival::Poisson)], 1).remove(0);
        assert_eq!((rate(&slow), slow.lowered_from), (0.5, None));
    }

    #[test]
    fn larger_files_bursts_and_fewer_threads_lower_it_further() {
        let small = || load(web(Bytes::from_kib(1)), 900.0, Arrival::Poisson);
        let alone = rate(&lowered(vec![small()], 2)[0]);
        let large = rate(&lowered(vec![load(web(Bytes::from_mib(1)), 900.0, Arrival::Poisson)], 2)[0]);
        assert!(large < alone / 4.0, "{large} {alone}");
        let bursts = rate(&lowered(vec![load(web(Bytes::from_kib(1)), 900.0, Arrival::Bursts)], 2)[0]);
        assert!((bursts * 5.0 - alone).abs() < alone / 10.0, "{bursts} {alone}");
        let among_four = rate(&lowered(vec![small(), small(), small(), small()], 2)[0]);
        assert!((among_four * 2.0 - alone).abs() < alone / 10.0, "{among_four} {alone}");
        assert_eq!(rate(&lowered(vec![small(), small()], 2)[0]), alone);
    }

    #[test]
    fn a_load_that_an_emulated_guest_sends_is_lowered_further() {
        let sent = || load(web(Bytes::from_kib(1)), 900.0, Arrival::Poisson);
        let from_outside = rate(&lowered(vec![sent()], 1)[0]);
        let from_guest = rate(&lowered(vec![LoadPlan { from: Some(1), ..sent() }], 1)[0]);
        assert!((from_guest * 2.0 - from_outside).abs() < from_outside / 10.0, "{from_guest} {from_outside}");
    }

    #[test]
    fn every_guest_is_asked_something_however_many_share_the_threads() {
        let large = || load(web(Bytes::from_mib(64)), 900.0, Arrival::Poisson);
        let mut loads: Vec<LoadPlan> = (0..100).map(|_| large()).collect();
        for (length, wanted) in [(20, 0.25), (60, 0.083)] {
            lower(&mut loads, 1, Span::from_seconds(length), |_| false);
            assert_eq!(rate(&loads[0]), wanted, "{length} s");
        }
        let mut rare = vec![load(web(Bytes::from_mib(64)), 0.01, Arrival::Poisson)];
        lower(&mut rare, 1, Span::from_seconds(20), |_| false);
        assert_eq!(rate(&rare[0]), 0.01, "no rate is raised");
    }

    #[test]
    fn sysbench_keeps_a_rate_that_is_a_whole_number() {
        let sysbench = || load(Work::Sysbench(SysbenchParameters::default()), 50.0, Arrival::Poisson);
        assert_eq!(rate(&lowered(vec![sysbench(), sysbench()], 1)[0]), 1.0);
    }

    #[test]
    fn a_rate_that_the_user_chose_is_kept() {
        let mut loads = vec![load(web(Bytes::from_kib(1)), 900.0, Arrival::Poisson)];
        lower(&mut loads, 1, Span::from_seconds(60), |load| load.name == "a");
        assert_eq!((rate(&loads[0]), loads[0].lowered_from), (900.0, None));
    }
}
