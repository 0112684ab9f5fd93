//! What an emulated guest is asked: what it can serve, so that its right answers show that it works.
//!
//! A processor of an emulated guest is a thread of the host that translates, many times slower than the host itself. Asked
//! for a scenario's whole rate it answers late or not at all, and a page of failed requests shows nothing.

use crate::{
    plan::{Backend, Demand, LoadPlan, Point},
    problem::Problem,
    scenario::Arrival,
};
use tilemark_units::{Rate, Span, counted};

/// Part of what was measured flat out that is asked: another machine may be so many times slower, or busier.
const PART: f64 = 0.1;
/// A guest that is asked nothing shows nothing: so many requests in the measurement are asked even where that is more.
const REQUESTS_MIN: f64 = 3.0;
/// Fewer requests than this come evenly: by chance a guest might get none of so few.
const BY_CHANCE_MIN: f64 = 20.0;
/// Part of the threads' time that all requests of a measurement may take together. Guests that wait take some too, and a machine may be slower.
const FILLED_MAX: f64 = 0.5;
/// A measurement that has to be so many times as long is no remedy.
const LONGER_MAX: f64 = 100.0;
/// Bursts of a load that has none.
const NO_BURSTS: Span = Span::from_seconds(1);

/// Between what the loads of a point are asked.
#[derive(Clone, Copy)]
struct Bounds {
    /// Time of a thread that a load may take in each second.
    most: f64,
    /// Requests a second.
    least: f64,
}

impl Bounds {
    /// Those of so many loads on so many threads, in a measurement of so many seconds.
    fn new(loads: f64, threads: f64, length: f64) -> Self {
        // Where there are more guests that work than threads, they share.
        let share = (threads / loads.max(1.0)).min(1.0);
        Self { most: PART * share, least: REQUESTS_MIN / length }
    }

    /// What is asked of a load's guest, so that it can serve a burst and a surge too; nothing where it is not known what it can serve.
    fn rate(self, load: &LoadPlan) -> Option<Rate> {
        let most = self.most / seconds_of(load)?;
        let most = match load.demand {
            Demand::Open { arrival: Arrival::Bursts, burst_every, burst_length, .. } => {
                most * burst_length.as_seconds() / burst_every.as_seconds()
            }
            Demand::Open { .. } | Demand::Closed => most,
        };
        let most = two_digits_down(most / times_in_surge(load));
        Rate::per_second(if load.work.facts().has_whole_rate() {
            most.floor().max(self.least.ceil())
        } else {
            most.max(two_digits_up(self.least))
        })
    }

    /// Whether this is so little that it comes evenly. Who wants whole rates has an arrival of its own.
    fn is_even(self, load: &LoadPlan, rate: Rate) -> bool {
        rate.get() < self.least * BY_CHANCE_MIN / REQUESTS_MIN && !load.work.facts().has_whole_rate()
    }
}

/// Lowers the rates of a point's loads to what its emulated guests can serve together on so many threads, in a measurement of this
/// length, and gives closed loops beside them a rate. Loads whose rate or loop the user chose keep it.
pub(crate) fn lower(
    loads: &mut [LoadPlan],
    threads: usize,
    length: Span,
    is_chosen: impl Fn(&LoadPlan) -> bool,
) {
    let bounds = Bounds::new(loads.len() as f64, threads as f64, length.as_seconds());
    // Alone, closed loops take nothing from anybody who waits for an answer.
    let paces = loads.iter().any(|load| matches!(load.demand, Demand::Open { .. }));
    for load in loads.iter_mut().filter(|load| !is_chosen(load)) {
        let Some(asked) = bounds.rate(load) else { continue };
        let is_even = bounds.is_even(load, asked);
        match load.demand {
            Demand::Open { .. } => lower_one(load, asked, is_even),
            Demand::Closed if paces && !load.work.facts().is_flat_out() => pace(load, asked, is_even),
            Demand::Closed => {}
        }
    }
}

/// Time of a host's thread for one request; nothing where it is not known.
fn seconds_of(load: &LoadPlan) -> Option<f64> {
    let seconds = load.work.facts().emulated_seconds()?;
    // A guest that sends a load works about as long for a request as the one that answers it.
    Some(if load.from.is_some() { 2.0 * seconds } else { seconds })
}

/// How many times its rate a load asks while its surge lasts; 1 without a surge.
fn times_in_surge(load: &LoadPlan) -> f64 {
    match load.demand {
        Demand::Open { surge: Some(swell), .. } => f64::from(swell.factor),
        Demand::Open { surge: None, .. } | Demand::Closed => 1.0,
    }
}

fn lower_one(load: &mut LoadPlan, asked: Rate, is_even: bool) {
    let Demand::Open { rate, arrival, .. } = &mut load.demand else { return };
    if asked < *rate {
        load.lowered_from = Some(std::mem::replace(rate, asked));
        if is_even {
            *arrival = Arrival::Even;
        }
    }
}

/// The same for a load that would go flat out.
fn pace(load: &mut LoadPlan, rate: Rate, is_even: bool) {
    let (burst_every, burst_length) = (NO_BURSTS, NO_BURSTS);
    let arrival = if is_even { Arrival::Even } else { Arrival::Poisson };
    load.demand = Demand::Open { rate, arrival, burst_every, burst_length, surge: None };
    load.paced = true;
}

/// Points whose guests cannot serve in their measurement the least that each is asked, with the number of tiles that can, or the length
/// in which they can.
pub(crate) fn problems(points: &[Point], threads: usize) -> Vec<Problem> {
    points.iter().filter_map(|point| problem(point, threads)).collect()
}

fn problem(point: &Point, threads: usize) -> Option<Problem> {
    if point.backend != Backend::Emulated {
        return None;
    }
    let asked = Asked::of(point, threads as f64);
    let (length, has) = (point.measure.length, asked.has());
    if asked.work <= has {
        return None;
    }
    let message = format!(
        "{} of emulated guests cannot serve what they are asked. That takes about {:.0} s of a thread. Requests may take half of the time \
         of the {} that guests use: {:.0} s in a measurement of {length}",
        counted(point.tiles, "tile"),
        (asked.work * asked.length).ceil(),
        counted(threads as u64, "thread"),
        (has * asked.length).floor(),
    );
    let fewer = asked
        .tiles_that_fit()
        .map(|tiles| format!("measure at most {} (`--tiles {tiles}`)", counted(tiles, "tile")));
    let longer = asked
        .seconds_that_fit()
        .map(|seconds| format!("measure for longer (`--set measure.length={seconds}s`)"));
    let remedy = match (fewer, longer) {
        (Some(fewer), Some(longer)) => format!("{fewer}, or {longer}"),
        (Some(one), None) | (None, Some(one)) => one,
        (None, None) => "leave out some of its loads".to_owned(),
    };
    Some(Problem::new(message, remedy))
}

/// What we ask of a point's emulated guests.
struct Asked<'p> {
    point: &'p Point,
    threads: f64,
    /// Seconds of its measurement.
    length: f64,
    /// Time of threads that it takes in each second.
    work: f64,
}

impl<'p> Asked<'p> {
    fn of(point: &'p Point, threads: f64) -> Self {
        let work = ours(point).filter_map(work_a_second).sum();
        Self { point, threads, length: point.measure.length.as_seconds(), work }
    }

    /// Time of threads that requests may take in each second.
    fn has(&self) -> f64 {
        FILLED_MAX * self.threads
    }

    /// Whether the point would be accepted with so many tiles and seconds.
    fn fits(&self, tiles: u32, length: f64) -> bool {
        let part = f64::from(tiles) / f64::from(self.point.tiles);
        let bounds = Bounds::new(part * self.point.loads.len() as f64, self.threads, length);
        let work =
            |load: &LoadPlan| Some(most_asked(load, bounds)? * times_in_surge(load) * seconds_of(load)?);
        part * ours(self.point).filter_map(work).sum::<f64>() <= self.has()
    }

    /// The largest number of tiles that would be accepted. The least of each load grows with the tiles, and what guests can serve
    /// together does not, so that the number is found by trying.
    fn tiles_that_fit(&self) -> Option<u32> {
        let (fits, tiles) = (|tiles: u32| self.fits(tiles, self.length), self.point.tiles);
        (tiles > 1 && fits(1)).then(|| last_accepted(1, tiles, fits))
    }

    /// The shortest length of a measurement that would be accepted, in seconds: the longer it is, the lower is the rate of the least. No
    /// length is enough where whole rates, or what guests can serve, take too much.
    fn seconds_that_fit(&self) -> Option<u32> {
        let fits = |seconds: u32| self.fits(self.point.tiles, f64::from(seconds));
        let (refused, accepted) = (self.length as u32, (LONGER_MAX * self.length).ceil() as u32);
        fits(accepted).then(|| last_accepted(accepted, refused, fits))
    }
}

/// Between a number that is accepted and one that is refused: one that is accepted and whose neighbour is refused.
fn last_accepted(mut accepted: u32, mut refused: u32, is_accepted: impl Fn(u32) -> bool) -> u32 {
    while accepted.abs_diff(refused) > 1 {
        let middle = accepted.min(refused) + accepted.abs_diff(refused) / 2;
        if is_accepted(middle) {
            accepted = middle;
        } else {
            refused = middle;
        }
    }
    accepted
}

/// Loads whose rate is ours. One that the user chose, or that was not lowered, is the user's own affair.
fn ours(point: &Point) -> impl Iterator<Item = &LoadPlan> {
    point.loads.iter().filter(|load| load.lowered_from.is_some() || load.paced)
}

/// Requests a second that a load whose rate is ours would be asked at most within other bounds. That one came in bursts is not known where
/// it comes evenly now.
fn most_asked(load: &LoadPlan, bounds: Bounds) -> Option<f64> {
    let wanted = load.lowered_from.map_or(f64::INFINITY, Rate::get);
    Some(bounds.rate(load)?.get().min(wanted))
}

/// Time of threads that a load takes in each second, while its surge lasts if it has one.
fn work_a_second(load: &LoadPlan) -> Option<f64> {
    let Demand::Open { rate, .. } = &load.demand else { return None };
    Some(rate.get() * times_in_surge(load) * seconds_of(load)?)
}

/// Rounded down to two digits, so that a person can read it.
fn two_digits_down(value: f64) -> f64 {
    let unit = unit_of_two_digits(value);
    (value / unit).floor() * unit
}

/// Rounded up to two digits. What has two digits keeps them, however it is stored.
fn two_digits_up(value: f64) -> f64 {
    let unit = unit_of_two_digits(value);
    (value / unit - 1e-9).ceil() * unit
}

/// What the second digit of a number counts.
fn unit_of_two_digits(value: f64) -> f64 {
    10_f64.powf(value.log10().floor() - 1.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::Swell;
    use crate::workload::{WebFile, WebParameters, Work};
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
            paced: false,
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
    fn a_surge_is_no_more_than_the_guest_can_serve() {
        let swollen = |size, factor| {
            let mut load = load(web(size), 900.0, Arrival::Poisson);
            let Demand::Open { surge, .. } = &mut load.demand else { panic!("it has a rate") };
            *surge = Some(Swell { from: Span::from_seconds(30), length: Span::from_seconds(15), factor });
            load
        };
        let plain = rate(&lowered(vec![load(web(Bytes::from_kib(1)), 900.0, Arrival::Poisson)], 1)[0]);
        let surged = lowered(vec![swollen(Bytes::from_kib(1), 16)], 1).remove(0);
        assert!((rate(&surged) * 16.0 - plain).abs() < plain / 10.0, "{surged:?} {plain}");
        // What a surge asks of the least that a guest is asked counts whole.
        let huge = lowered(vec![swollen(Bytes::from_mib(1), 1_000)], 1).remove(0);
        assert_eq!(rate(&huge), 0.05, "three requests in the measurement");
        assert!((work_a_second(&huge).unwrap() / (50.0 * seconds_of(&huge).unwrap()) - 1.0).abs() < 1e-9);
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
        for (length, wanted) in [(20, 0.15), (60, 0.05)] {
            lower(&mut loads, 1, Span::from_seconds(length), |_| false);
            assert_eq!(rate(&loads[0]), wanted, "{length} s");
            assert!(
                matches!(loads[0].demand, Demand::Open { arrival: Arrival::Even, .. }),
                "none is missing by chance"
            );
        }
        let mut rare = vec![load(web(Bytes::from_mib(64)), 0.01, Arrival::Poisson)];
        lower(&mut rare, 1, Span::from_seconds(20), |_| false);
        assert_eq!(rate(&rare[0]), 0.01, "no rate is raised");
    }

    /// A workload whose rates are whole numbers.
    fn whole() -> Work {
        Work::all().into_iter().find(|work| work.facts().has_whole_rate()).unwrap()
    }

    #[test]
    fn a_rate_that_must_be_a_whole_number_stays_one() {
        let whole = || load(whole(), 50.0, Arrival::Poisson);
        assert_eq!(rate(&lowered(vec![whole(), whole()], 1)[0]), 1.0);
    }

    #[test]
    fn the_least_is_never_fewer_requests_than_it_says() {
        for length in 1..=120 {
            let mut loads = vec![load(web(Bytes::from_mib(64)), 900.0, Arrival::Poisson); 100];
            loads.push(load(whole(), 50.0, Arrival::Poisson));
            lower(&mut loads, 1, Span::from_seconds(length), |_| false);
            let requests = |load| rate(load) * length as f64;
            let (of_web, of_whole) = (requests(&loads[0]), requests(&loads[100]));
            assert!((2.999_999..3.4).contains(&of_web), "{of_web} in {length} s");
            assert!(of_whole >= REQUESTS_MIN, "{of_whole} in {length} s");
        }
    }

    #[test]
    fn a_load_that_is_asked_few_requests_comes_evenly_though_its_guest_could_serve_more_in_a_burst() {
        let arrival = |wanted| match lowered(vec![load(web(Bytes::from_mib(3)), 900.0, wanted)], 1)[0].demand
        {
            Demand::Open { arrival, rate, .. } => (arrival, rate.get() * 60.0 < BY_CHANCE_MIN),
            Demand::Closed => panic!("it has a rate"),
        };
        assert_eq!(arrival(Arrival::Bursts), (Arrival::Even, true));
        assert_eq!(arrival(Arrival::Poisson), (Arrival::Poisson, false));
    }

    fn closed(work: Work) -> LoadPlan {
        LoadPlan { demand: Demand::Closed, name: "b".to_owned(), ..load(work, 1.0, Arrival::Poisson) }
    }

    #[test]
    fn a_closed_loop_has_a_rate_beside_loads_at_a_rate_and_none_alone() {
        let open = || load(web(Bytes::from_kib(1)), 900.0, Arrival::Poisson);
        let beside = lowered(vec![open(), closed(web(Bytes::from_kib(1)))], 2);
        assert_eq!(rate(&beside[1]), rate(&beside[0]));
        assert!(beside[1].paced && beside[1].lowered_from.is_none() && !beside[0].paced, "{beside:?}");
        let alone = closed(web(Bytes::from_kib(1)));
        assert_eq!(lowered(vec![alone.clone()], 2), std::slice::from_ref(&alone));
        let mut chosen = vec![open(), alone.clone()];
        lower(&mut chosen, 2, Span::from_seconds(60), |load| load.name == "b");
        assert_eq!(chosen[1], alone);
    }

    #[test]
    fn a_rate_that_the_user_chose_is_kept() {
        let mut loads = vec![load(web(Bytes::from_kib(1)), 900.0, Arrival::Poisson)];
        lower(&mut loads, 1, Span::from_seconds(60), |load| load.name == "a");
        assert_eq!((rate(&loads[0]), loads[0].lowered_from), (900.0, None));
    }
}
