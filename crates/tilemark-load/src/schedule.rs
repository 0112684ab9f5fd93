//! Intended times.

use crate::{LoadError, clock::SECOND_NS};
use rand_chacha::{
    ChaCha8Rng,
    rand_core::{Rng, SeedableRng},
};
use tilemark_plan::{plan::Demand, scenario::Arrival};

/// The intended start of every request of an open loop, in nanoseconds from the start of the schedule,
/// rising. The same seed gives the same times, on any machine.
#[derive(Debug, Clone)]
pub struct Schedule {
    kind: Kind,
    swell: Option<Warp>,
}

/// A time in which requests come faster: the schedule's own time runs so many times as fast in it. That keeps the kind of arrival.
#[derive(Debug, Clone, Copy)]
struct Warp {
    from_ns: f64,
    length_ns: f64,
    factor: f64,
}

impl Warp {
    /// When the clock shows what the schedule's own time is.
    fn clock(self, own: f64) -> f64 {
        let into = own - self.from_ns;
        match into {
            into if into <= 0.0 => own,
            into if into <= self.length_ns * self.factor => self.from_ns + into / self.factor,
            _ => own - self.length_ns * (self.factor - 1.0),
        }
    }
}

#[derive(Debug, Clone)]
enum Kind {
    /// Request k at (k + phase) / rate, multiplied out, so that nothing drifts.
    Even { gap_ns: f64, phase: f64, next: u64 },
    /// Exponential gaps, drawn in busy time; with bursts, busy time runs only within each burst.
    Poisson { gap_ns: f64, busy_ns: f64, random: Box<ChaCha8Rng>, bursts: Option<Bursts> },
}

#[derive(Debug, Clone, Copy)]
struct Bursts {
    every_ns: f64,
    length_ns: f64,
}

/// More than any sender on one host can send: a gap of 100 ns.
const RATE_MAX: f64 = 1e7;

impl Schedule {
    /// The schedule of an open loop; `None` for a closed one. `stream` names it in errors.
    pub fn new(demand: &Demand, seed: u64, stream: u32) -> Result<Option<Self>, LoadError> {
        let Demand::Open { rate, arrival, burst_every, burst_length, surge } = demand else {
            return Ok(None);
        };
        let rate = rate.get();
        let most = rate * surge.map_or(1.0, |swell| f64::from(swell.factor));
        if !(rate > 0.0 && most <= RATE_MAX) {
            return Err(LoadError::BadRate { stream, rate });
        }
        let gap_ns = SECOND_NS as f64 / rate;
        let random = || Box::new(ChaCha8Rng::seed_from_u64(seed));
        let kind = match arrival {
            Arrival::Even => Kind::Even { gap_ns, phase: Self::phase(seed), next: 0 },
            Arrival::Poisson => Kind::Poisson { gap_ns, busy_ns: 0.0, random: random(), bursts: None },
            Arrival::Bursts => {
                let every_ns = burst_every.get().as_nanos() as f64;
                let length_ns = burst_length.get().as_nanos() as f64;
                if !(length_ns > 0.0 && length_ns <= every_ns) {
                    return Err(LoadError::BadBursts { stream });
                }
                // All of a period's requests come in its burst.
                let gap_ns = gap_ns * length_ns / every_ns;
                let bursts = Some(Bursts { every_ns, length_ns });
                Kind::Poisson { gap_ns, busy_ns: 0.0, random: random(), bursts }
            }
        };
        let swell = surge.map(|swell| Warp {
            from_ns: swell.from.get().as_nanos() as f64,
            length_ns: swell.length.get().as_nanos() as f64,
            factor: f64::from(swell.factor),
        });
        Ok(Some(Self { kind, swell }))
    }

    /// The part of a gap after which the first of even requests comes. It is drawn from the seed: streams of the same rate would otherwise
    /// all send at the same instants.
    pub fn phase(seed: u64) -> f64 {
        unit(&mut ChaCha8Rng::seed_from_u64(seed))
    }
}

/// A number from 0 up to, not including, 1.
fn unit(random: &mut ChaCha8Rng) -> f64 {
    // 53 bits: what the fraction of an f64 holds.
    (random.next_u64() >> 11) as f64 / (1_u64 << 53) as f64
}

impl Iterator for Schedule {
    type Item = u64;
    fn next(&mut self) -> Option<u64> {
        let own = match &mut self.kind {
            Kind::Even { gap_ns, phase, next } => {
                let time = (*next as f64 + *phase) * *gap_ns;
                *next += 1;
                time
            }
            Kind::Poisson { gap_ns, busy_ns, random, bursts } => {
                *busy_ns -= (1.0 - unit(random)).ln() * *gap_ns;
                match bursts {
                    None => *busy_ns,
                    Some(Bursts { every_ns, length_ns }) => {
                        let period = (*busy_ns / *length_ns).floor();
                        period * *every_ns + (*busy_ns - period * *length_ns)
                    }
                }
            }
        };
        Some(self.swell.map_or(own, |swell| swell.clock(own)) as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use tilemark_plan::plan::Swell;
    use tilemark_units::{Rate, Span};

    fn demand(rate: f64, arrival: Arrival) -> Demand {
        Demand::Open {
            rate: Rate::per_second(rate).unwrap(),
            arrival,
            burst_every: Span::from_seconds(5),
            burst_length: Span::from_seconds(1),
            surge: None,
        }
    }
    fn times(rate: f64, arrival: Arrival, seed: u64, until_s: u64) -> Vec<u64> {
        let schedule = Schedule::new(&demand(rate, arrival), seed, 0).unwrap().unwrap();
        schedule.take_while(|time| *time < until_s * SECOND_NS).collect()
    }

    #[test]
    fn a_surge_has_so_many_times_as_many_requests_and_others_are_where_they_were() {
        for arrival in [Arrival::Even, Arrival::Poisson, Arrival::Bursts] {
            let Demand::Open { rate, arrival, burst_every, burst_length, .. } = demand(200.0, arrival) else {
                unreachable!("it is an open loop")
            };
            let swell = Swell { from: Span::from_seconds(100), length: Span::from_seconds(50), factor: 16 };
            let surge = Some(swell);
            let demand = Demand::Open { rate, arrival, burst_every, burst_length, surge };
            let schedule = Schedule::new(&demand, 5, 0).unwrap().unwrap();
            let surged: Vec<u64> = schedule.take_while(|time| *time < 200 * SECOND_NS).collect();
            assert!(surged.is_sorted(), "{arrival:?}");
            let between = |times: &[u64], from: u64, to: u64| {
                times.iter().filter(|time| (from * SECOND_NS..to * SECOND_NS).contains(time)).count() as f64
            };
            let plain = times(200.0, arrival, 5, 200);
            assert_eq!(between(&surged, 0, 100), between(&plain, 0, 100), "{arrival:?}");
            let during = between(&surged, 100, 150) / (16.0 * 200.0 * 50.0);
            assert!((during - 1.0).abs() < 0.02, "{arrival:?}: {during}");
            let after = between(&surged, 150, 200) / (200.0 * 50.0);
            assert!((after - 1.0).abs() < 0.05, "{arrival:?}: {after}");
        }
    }

    #[test]
    fn even_times_do_not_drift_over_an_hour() {
        let times = times(300.0, Arrival::Even, 7, 3600);
        assert_eq!(times.len(), 300 * 3600);
        let gap = 1e9 / 300.0;
        let first = times[0] as f64;
        for (index, time) in times.iter().enumerate() {
            assert!((*time as f64 - first - index as f64 * gap).abs() < 2.0);
        }
    }

    #[test]
    fn poisson_gaps_are_exponential() {
        let times = times(1000.0, Arrival::Poisson, 11, 100);
        let gaps: Vec<f64> = times.windows(2).map(|pair| (pair[1] - pair[0]) as f64).collect();
        let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
        let variance = gaps.iter().map(|gap| (gap - mean).powi(2)).sum::<f64>() / gaps.len() as f64;
        // 100,000 gaps: the mean within 1.5 % is over four standard errors.
        assert!((mean / 1e6 - 1.0).abs() < 0.015, "{mean}");
        assert!((variance.sqrt() / mean - 1.0).abs() < 0.02, "{}", variance.sqrt());
        let above = gaps.iter().filter(|gap| **gap > 1e6).count() as f64 / gaps.len() as f64;
        assert!((above - (-1.0_f64).exp()).abs() < 0.01, "{above}");
    }

    #[test]
    fn bursts_hold_all_of_their_period_and_nothing_comes_between() {
        let times = times(200.0, Arrival::Bursts, 3, 50);
        assert!(times.iter().all(|time| time % (5 * SECOND_NS) < SECOND_NS));
        // 10,000 expected, standard deviation 100.
        assert!((9_600..10_400).contains(&times.len()), "{}", times.len());
    }

    #[test]
    fn a_seed_gives_its_times_again_and_another_gives_others() {
        for arrival in [Arrival::Even, Arrival::Poisson, Arrival::Bursts] {
            assert_eq!(times(100.0, arrival, 1, 10), times(100.0, arrival, 1, 10));
            assert_ne!(times(100.0, arrival, 1, 10), times(100.0, arrival, 2, 10));
        }
    }

    #[test]
    fn a_rate_that_gives_no_schedule_is_refused_by_name() {
        for rate in [0.0, 1e8] {
            let error = Schedule::new(&demand(rate, Arrival::Even), 1, 4).unwrap_err();
            assert!(error.to_string().starts_with("stream 4 asks for"), "{error}");
        }
        assert!(Schedule::new(&Demand::Closed, 1, 0).unwrap().is_none());
    }

    proptest! {
        #[test]
        fn times_rise(rate in 0.1_f64..1e6, seed: u64) {
            for arrival in [Arrival::Even, Arrival::Poisson, Arrival::Bursts] {
                let schedule = Schedule::new(&demand(rate, arrival), seed, 0).unwrap().unwrap();
                let times: Vec<u64> = schedule.take(200).collect();
                prop_assert!(times.is_sorted());
            }
        }
    }
}
