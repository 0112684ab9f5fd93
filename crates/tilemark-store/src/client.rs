//! One client: a thread, a connection, a customer after the other.

use std::num::NonZeroU64;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use rustix::thread::set_current_timer_slack;
use tilemark_plan::scenario::Arrival;

use crate::demand::{Demand, Pace};
use crate::error::StoreError;
use crate::figures::{Figures, Step};
use crate::ledger::{Ledger, Pieces};
use crate::observer::{Observer, OrderEnded, Outcome};
use crate::session::{Cart, Item, Purchase, Session};
use crate::shopper::{PASSWORD, Shopper, Visitor, delivery};

/// How often a step is tried when the database ends it to break a deadlock: as the classic driver does.
const TRIES: u32 = 10;

/// The first pause after a deadlock is up to this, and doubles with each try. (The classic driver pauses for up to a
/// second, which would be most of the latency today.)
const FIRST_PAUSE: Duration = Duration::from_millis(2);

/// A client that sleeps looks so often whether the run was stopped.
const GLANCE: Duration = Duration::from_millis(100);

/// When a run begins, begins to measure, and ends.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    pub(crate) start: Instant,
    pub(crate) warmup: Duration,
    pub(crate) measure: Duration,
}

impl Clock {
    /// How long after the beginning of the measured time a moment lies, if it lies in it.
    fn measured(&self, at: Instant) -> Option<Duration> {
        at.checked_duration_since(self.start + self.warmup).filter(|since| *since < self.measure)
    }

    fn end(&self) -> Instant {
        self.start + self.warmup + self.measure
    }

    /// The measured second in which a moment lies.
    fn second(&self, at: Instant) -> Option<usize> {
        self.measured(at).map(|since| since.as_secs() as usize)
    }
}

/// Intended starts of an open loop, taken by whichever client is free. The schedules of `tilemark-load` draw other times from a seed, and
/// a seed of a store keeps its own.
pub(crate) struct Schedule {
    state: Mutex<ScheduleState>,
    gap: Duration,
    arrivals: Arrival,
    /// Of even starts: how long after the start of the run the first comes. It is drawn: stores of the same rate would otherwise all be
    /// asked at the same instants.
    first: Duration,
}

struct ScheduleState {
    next: Duration,
    taken: u32,
    generator: ChaCha8Rng,
}

impl Schedule {
    /// `None` for a closed loop.
    pub(crate) fn of(demand: &Demand) -> Option<Self> {
        let Pace::Open { orders_per_second, arrivals } = demand.pace else { return None };
        let mut generator = ChaCha8Rng::from_seed(*b"tilemark store load schedule v1 ");
        generator.set_stream(demand.seed);
        let gap = Duration::from_secs_f64(1.0 / orders_per_second);
        let first = match arrivals {
            Arrival::Even => gap.mul_f64(unit(&mut generator)),
            Arrival::Poisson | Arrival::Bursts => Duration::ZERO,
        };
        let state = Mutex::new(ScheduleState { next: first, taken: 0, generator });
        Some(Self { state, gap, arrivals, first })
    }

    /// The next intended start, since the start of the run.
    fn next(&self) -> Duration {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let intended = state.next;
        state.taken += 1;
        state.next = match self.arrivals {
            // Multiplied out each time, so nothing drifts.
            Arrival::Even => self.first + self.gap * state.taken,
            Arrival::Poisson | Arrival::Bursts => {
                let uniform = unit(&mut state.generator);
                intended + self.gap.mul_f64(-uniform.ln())
            }
        };
        intended
    }
}

/// A number between 0 and 1, and neither of them.
fn unit(generator: &mut ChaCha8Rng) -> f64 {
    ((generator.next_u64() >> 11) as f64 + 0.5) / (1_u64 << 53) as f64
}

/// What the clients of a run share.
pub(crate) struct Shared<'a> {
    pub(crate) clock: Clock,
    pub(crate) demand: &'a Demand,
    pub(crate) schedule: Option<Schedule>,
    pub(crate) pieces: Pieces,
    pub(crate) observer: &'a dyn Observer,
    pub(crate) stop: &'a AtomicBool,
}

/// A client at work.
pub(crate) struct Client<'a> {
    shared: &'a Shared<'a>,
    session: Box<dyn Session>,
    shopper: Shopper,
    cart: Cart,
    /// When the order in flight was paid, or refused because stock was short.
    paid: Option<Instant>,
    /// How late it was begun.
    lateness: Option<Duration>,
    done: ClientDone,
}

/// What a client leaves behind.
pub(crate) struct ClientDone {
    pub(crate) figures: Figures,
    pub(crate) ledger: Ledger,
    /// Processor time of the client's thread.
    pub(crate) cpu: Duration,
    /// Orders begun, warm-up and failures included.
    pub(crate) begun: u64,
    /// Measured orders that found no client free at their intended start.
    pub(crate) waited: u64,
    /// Whether it gave up before the end.
    pub(crate) gave_up: bool,
}

impl<'a> Client<'a> {
    pub(crate) fn new(shared: &'a Shared<'a>, session: Box<dyn Session>, shopper: Shopper) -> Self {
        let done = ClientDone {
            figures: Figures::new(shared.demand.measure.as_secs()),
            ledger: Ledger::default(),
            cpu: Duration::ZERO,
            begun: 0,
            waited: 0,
            gave_up: false,
        };
        Self { shared, session, shopper, cart: Cart::default(), paid: None, lateness: None, done }
    }

    /// Sends one customer after the other until the end, or until the connection is gone or nothing works any more.
    pub(crate) fn run(mut self) -> ClientDone {
        self.shared.observer.client_begins();
        if self.shared.schedule.is_some() {
            // Without it the kernel wakes sleepers up to 50 µs late. Where it is refused, the lateness shows it.
            set_current_timer_slack(NonZeroU64::new(1)).ok();
        }
        let mut failures_in_a_row = 0;
        while let Some(intended) = self.next_start() {
            let measured = self.shared.clock.measured(intended);
            measured.iter().for_each(|since| self.shared.observer.begun(*since));
            // A store that is too slow for its rate would be asked for minutes, for orders whose customers are gone.
            if Instant::now() >= self.shared.clock.end() + self.shared.demand.begun_until {
                self.give_up(intended, measured);
                continue;
            }
            self.done.begun += 1;
            let visited = self.visit(intended);
            if let Some(since) = measured {
                self.tell(intended, since, visited.as_ref().map_or(Outcome::Failed, |outcome| *outcome));
            }
            match visited {
                Ok(_) => failures_in_a_row = 0,
                Err(error) => {
                    failures_in_a_row += 1;
                    self.done.figures.error(error.with_causes());
                    if error.ends_connection() || failures_in_a_row == TRIES {
                        self.done.gave_up = true;
                        break;
                    }
                }
            }
            self.think();
        }
        self.done.cpu = Duration::from_nanos(tilemark_sys::clock::thread_ns());
        self.done
    }

    /// Counts an order that found no client free until long after the end: its customer waited until now.
    fn give_up(&mut self, intended: Instant, measured: Option<Duration>) {
        let Some(since) = measured else { return };
        let seconds = self.shared.demand.begun_until.as_secs_f64();
        self.done.figures.error(format!("not begun within {seconds} s after the end: no client was free"));
        self.tell(intended, since, Outcome::Failed);
    }

    /// Reports to the observer an order that ended now.
    fn tell(&self, intended: Instant, since: Duration, outcome: Outcome) {
        let ended = OrderEnded {
            intended: since,
            latency: self.paid.unwrap_or_else(Instant::now).saturating_duration_since(intended),
            lateness: self.lateness,
            outcome,
        };
        self.shared.observer.ended(ended);
    }

    /// Waits for the next order's intended start and returns it; `None` at the end of the run.
    fn next_start(&mut self) -> Option<Instant> {
        let clock = self.shared.clock;
        if self.shared.stop.load(Ordering::Relaxed) {
            return None;
        }
        let asked = Instant::now();
        (self.paid, self.lateness) = (None, None);
        let Some(schedule) = &self.shared.schedule else {
            return (asked < clock.end()).then_some(asked);
        };
        let intended = clock.start + schedule.next();
        if intended >= clock.end() {
            return None;
        }
        self.sleep_until(intended);
        if self.shared.stop.load(Ordering::Relaxed) {
            return None;
        }
        if clock.second(intended).is_some() {
            // While no client was free the store was slow, not we: that wait is in the latency, not in the lateness.
            let late = intended.max(asked).elapsed();
            self.done.figures.late(late);
            self.lateness = Some(late);
            self.done.waited += u64::from(asked > intended);
        }
        Some(intended)
    }

    fn think(&mut self) {
        if let Pace::Closed { think_time } = self.shared.demand.pace
            && !think_time.is_zero()
        {
            let pause = think_time.mul_f64(2.0 * self.shopper.fraction());
            self.sleep_until((Instant::now() + pause).min(self.shared.clock.end()));
        }
    }

    /// Sleeps until a moment, or until the run is stopped. A sleep never ends early by the standard library's promise.
    fn sleep_until(&self, moment: Instant) {
        while !self.shared.stop.load(Ordering::Relaxed) {
            let left = moment.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            thread::sleep(left.min(GLANCE));
        }
    }

    /// One customer: in, around, out.
    fn visit(&mut self, intended: Instant) -> Result<Outcome, StoreError> {
        self.cart.customer_id = self.enter()?;
        for _ in 0..self.shopper.searches() {
            let search = self.shopper.search();
            self.step(Step::Browse, |session| session.browse(&search))?;
        }
        self.shopper.fill(&mut self.cart);
        let cart = std::mem::take(&mut self.cart);
        let bought = self.step(Step::Purchase, |session| session.purchase(&cart));
        self.cart = cart;
        if matches!(&bought, Err(error) if error.ends_connection()) {
            self.done.ledger.in_doubt += 1;
        }
        let purchase = bought?;
        self.paid = Some(Instant::now());
        let second = self.time(Step::Order, intended);
        match purchase {
            Purchase::Committed(receipt) => {
                self.done.ledger.order(&self.cart, &receipt);
                self.shared.pieces.sold(&self.cart.items);
                if let Some(second) = second {
                    self.done.figures.orders += 1;
                    self.done.figures.committed[second] += 1;
                }
                Ok(Outcome::Committed)
            }
            Purchase::Short(item) => {
                self.done.figures.rollbacks += u64::from(second.is_some());
                self.restock(item).map(|()| Outcome::RolledBack)
            }
        }
    }

    fn enter(&mut self) -> Result<i32, StoreError> {
        let id = match self.shopper.visitor() {
            Visitor::Known { username } => self
                .step(Step::Login, |session| session.login(&username, PASSWORD))?
                .ok_or_else(|| StoreError::HalfLoaded(format!("customer `{username}` is unknown")))?,
            Visitor::New(mut customer) => loop {
                let added = self.step(Step::NewCustomer, |session| session.new_customer(&customer))?;
                if let Some(id) = added {
                    self.done.ledger.customer(id);
                    break id;
                }
                customer.username = self.shopper.new_name();
            },
        };
        Ok(i32::try_from(id).expect("the schema's ids have 32 bits"))
    }

    fn restock(&mut self, short: Item) -> Result<(), StoreError> {
        let pieces = delivery(short.prod_id);
        if self.step(Step::Restock, |session| session.restock(short, pieces))? {
            self.shared.pieces.delivered(short.prod_id, pieces);
        }
        Ok(())
    }

    /// Does a step, all of it again if the database ended it because of a deadlock. The tries are part of its time.
    fn step<T>(
        &mut self,
        step: Step,
        mut act: impl FnMut(&mut dyn Session) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let from = Instant::now();
        let mut pause = FIRST_PAUSE;
        for _ in 1..TRIES {
            match act(&mut *self.session) {
                Err(StoreError::Deadlock { .. }) => {
                    self.done.figures.retries += 1;
                    thread::sleep(pause.mul_f64(self.shopper.fraction()));
                    pause *= 2;
                }
                other => {
                    self.time(step, from);
                    return other;
                }
            }
        }
        act(&mut *self.session)
    }

    /// Records a step that ends now, if this is in the measured time; says in which second.
    fn time(&mut self, step: Step, from: Instant) -> Option<usize> {
        let now = Instant::now();
        let second = self.shared.clock.second(now)?;
        self.done.figures.time(step, now - from);
        Some(second)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn starts(arrivals: Arrival, count: usize) -> Vec<Duration> {
        starts_of(arrivals, 1, count)
    }

    fn starts_of(arrivals: Arrival, seed: u64, count: usize) -> Vec<Duration> {
        let pace = Pace::Open { orders_per_second: 100.0, arrivals };
        let schedule = Schedule::of(&Demand { pace, seed, ..Demand::default() }).unwrap();
        (0..count).map(|_| schedule.next()).collect()
    }

    #[test]
    fn even_starts_do_not_drift_and_independent_ones_have_the_same_rate() {
        let even = starts(Arrival::Even, 1_001);
        assert_eq!(even[1_000] - even[0], Duration::from_secs(10));
        let poisson = starts(Arrival::Poisson, 20_001);
        let gaps: Vec<f64> = poisson.windows(2).map(|pair| (pair[1] - pair[0]).as_secs_f64()).collect();
        let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
        let deviation = (gaps.iter().map(|gap| (gap - mean).powi(2)).sum::<f64>() / gaps.len() as f64).sqrt();
        assert!((0.0097..0.0103).contains(&mean), "{mean}");
        assert!((0.95..1.05).contains(&(deviation / mean)), "exponential gaps deviate as much as their mean");
    }

    #[test]
    fn even_starts_of_two_seeds_are_at_other_instants() {
        let gap = Duration::from_millis(10);
        let firsts: Vec<Duration> = (1..=8).map(|seed| starts_of(Arrival::Even, seed, 1)[0]).collect();
        assert!(firsts.iter().all(|first| *first < gap), "{firsts:?}");
        let distinct: std::collections::BTreeSet<_> = firsts.iter().collect();
        assert_eq!(distinct.len(), 8, "{firsts:?}");
        assert_eq!(starts_of(Arrival::Even, 7, 3), starts_of(Arrival::Even, 7, 3));
    }

    #[test]
    fn only_the_measured_time_has_seconds() {
        let start = Instant::now();
        let clock = Clock { start, warmup: Duration::from_secs(2), measure: Duration::from_secs(3) };
        let at = |ms| clock.second(start + Duration::from_millis(ms));
        assert_eq!((at(1_999), at(2_000), at(4_999), at(5_000)), (None, Some(0), Some(2), None));
    }
}
