//! A load from its first connection to its verdict.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use crate::address::{DatabaseAddress, DatabaseKind};
use crate::audit::audit;
use crate::books::{Books, DatabaseBooks};
use crate::client::{Client, ClientDone, Clock, Schedule, Shared};
use crate::demand::Demand;
use crate::error::StoreError;
use crate::figures::Figures;
use crate::inspect::{StoreFacts, inspect};
use crate::ledger::{Confirmed, Pieces};
use crate::mariadb::MariadbSession;
use crate::observer::{Observer, Unobserved};
use crate::open_within::open;
use crate::postgresql::PostgresqlSession;
use crate::result::{Doubts, LoadResult, audit_in_words, judge};
use crate::session::Session;
use crate::shopper::Shopper;
use crate::steady::find_steady;
use crate::threads::start_all;

/// Opens a client's connection.
pub fn open_session(address: &DatabaseAddress) -> Result<Box<dyn Session>, StoreError> {
    open(address, |address| -> Result<Box<dyn Session>, StoreError> {
        Ok(match address.kind {
            DatabaseKind::Mariadb => Box::new(MariadbSession::open(address)?),
            DatabaseKind::Postgresql => Box::new(PostgresqlSession::open(address)?),
        })
    })
}

/// Looks at the store, sends its customers, audits it, and judges. Setting `stop` ends the run early.
pub fn run_load(
    address: &DatabaseAddress,
    demand: &Demand,
    stop: &AtomicBool,
) -> Result<LoadResult, StoreError> {
    run_observed_load(address, demand, &Unobserved, stop)
}

/// The same, and reports every order to an observer.
pub fn run_observed_load(
    address: &DatabaseAddress,
    demand: &Demand,
    observer: &dyn Observer,
    stop: &AtomicBool,
) -> Result<LoadResult, StoreError> {
    demand.check()?;
    let facts = inspect(address, demand.clients)?;
    let mut books = DatabaseBooks::open(address)?;
    run_with(facts, demand, |_| open_session(address), &mut books, Watched { observer, stop })
}

/// The same on any store: `open` gives each client its connection. All are open before the first order.
pub fn run_load_with(
    store: StoreFacts,
    demand: &Demand,
    open: impl FnMut(u32) -> Result<Box<dyn Session>, StoreError>,
    books: &mut dyn Books,
    stop: &AtomicBool,
) -> Result<LoadResult, StoreError> {
    run_with(store, demand, open, books, Watched { observer: &Unobserved, stop })
}

/// Who looks on, and who may end it.
struct Watched<'a> {
    observer: &'a dyn Observer,
    stop: &'a AtomicBool,
}

fn run_with(
    store: StoreFacts,
    demand: &Demand,
    mut open: impl FnMut(u32) -> Result<Box<dyn Session>, StoreError>,
    books: &mut dyn Books,
    Watched { observer, stop }: Watched<'_>,
) -> Result<LoadResult, StoreError> {
    demand.check()?;
    let before = books.snapshot()?;
    let sessions = (0..demand.clients).map(&mut open).collect::<Result<Vec<_>, _>>()?;
    let clock =
        Clock { start: observer.ready(), warmup: demand.warmup, measure: whole_seconds(demand.measure) };
    let (schedule, pieces) = (Schedule::of(demand), Pieces::none(store.products));
    let shared = Shared { clock, demand, schedule, pieces, observer, stop };
    let done = run_clients(&store, &shared, sessions)?;
    // A run that was stopped, or whose clients all gave up, is measured over the time that it had.
    let measured = clock.start.elapsed().saturating_sub(clock.warmup).min(clock.measure);
    let pieces = shared.pieces;
    let mut summed = Summed::of(&done, demand);
    summed.figures.committed.truncate(measured.as_secs_f64().ceil() as usize);
    let gave_up = done.iter().filter(|client| client.gave_up).count();
    let confirmed = Confirmed::from_ledgers(done.into_iter().map(|client| client.ledger), pieces);
    let report = audit(books, &before, &confirmed);
    let steady = find_steady(&summed.figures.committed, demand.window.map(|window| window.as_secs()));
    let doubts = Doubts {
        gave_up,
        stopped: stop.load(Ordering::Relaxed),
        steady,
        window: demand.window,
        audit: &report,
    };
    let verdict = judge(&summed.figures, demand.clients, &doubts);
    let Summed { figures, begun, waited, cpu } = summed;
    let minutes = measured.as_secs_f64() / 60.0;
    let visits = figures.orders + figures.rollbacks;
    Ok(LoadResult {
        store,
        demand: demand.clone(),
        measured_s: measured.as_secs_f64(),
        orders_per_minute: (minutes > 0.0).then(|| figures.orders as f64 / minutes),
        orders_per_minute_ds2: (minutes > 0.0).then(|| (visits as f64 / minutes).floor() as u64),
        orders: figures.orders,
        rollbacks: figures.rollbacks,
        rollback_fraction: (visits > 0).then(|| figures.rollbacks as f64 / visits as f64),
        retries: figures.retries,
        errors: figures.errors.values().sum(),
        client_cpu_s: cpu.as_secs_f64(),
        client_cpu_us_per_order: (begun > 0).then(|| cpu.as_secs_f64() * 1e6 / begun as f64),
        latency_ms: figures.latency_ms(),
        send_lateness_us: figures.lateness_us(),
        waited_for_client: waited,
        steady,
        orders_by_second: figures.committed,
        error_kinds: figures.errors,
        audit: audit_in_words(&report),
        audit_report: report.ok(),
        verdict,
    })
}

fn whole_seconds(time: Duration) -> Duration {
    Duration::from_secs(time.as_secs())
}

fn run_clients(
    store: &StoreFacts,
    shared: &Shared<'_>,
    sessions: Vec<Box<dyn Session>>,
) -> Result<Vec<ClientDone>, StoreError> {
    thread::scope(|scope| {
        let clients = (0..).zip(sessions).map(|(number, session)| {
            let shopper = Shopper::new(shared.demand, store.customers, store.products, number);
            let client = Client::new(shared, session, shopper);
            move || client.run()
        });
        let clients = start_all(&thread::Builder::new, scope, clients, shared.stop)?;
        let done = clients.into_iter();
        Ok(done.map(|client| client.join().expect("a client reports its failures as errors")).collect())
    })
}

/// All clients' figures together.
struct Summed {
    figures: Figures,
    begun: u64,
    waited: u64,
    cpu: Duration,
}

impl Summed {
    fn of(clients: &[ClientDone], demand: &Demand) -> Self {
        let mut all = Self {
            figures: Figures::new(demand.measure.as_secs()),
            begun: 0,
            waited: 0,
            cpu: Duration::ZERO,
        };
        for client in clients {
            all.figures.merge(&client.figures);
            all.begun += client.begun;
            all.waited += client.waited;
            all.cpu += client.cpu;
        }
        all
    }
}
