//! `store`: an online store's customers.

use super::{
    database::{CLIENTS_MAX, Data, FRAMES_EACH, StoreDatabase, StoreDurability, check_database_fits},
    facts::{At, Exclusive, Facts, InFlight, LoadKeys, Place},
};
use crate::JsonSchema;
use crate::problem::{Fault, Say};
use crate::program::Program;
use crate::scenario::{
    guest::Guest,
    measure::Measure,
    role::Role,
    timing::{Arrival, LoopKind},
};
use serde::{Deserialize, Serialize};
use std::ops::RangeInclusive;
use tilemark_units::{Bytes, Span};

/// For role `database`: customers of an online store log in, look around and buy; afterwards the database is audited.
///
/// The first data disk of the guest holds the database and the second its log; a single disk holds both. The disks are filled
/// once, and cloned before each repeat. A database is always booted, never cloned with its memory. The scenario's image must
/// have the server (`image = "database"`).
///
/// An order that found too little stock and was undone counts neither as an order nor as an error; the record counts them
/// separately.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct StoreParameters {
    /// Which database serves it.
    pub database: StoreDatabase,
    /// What a commit promises.
    pub durability: StoreDurability,
    /// Size of the data as CSV: 10 MB to 100 GB. The first disk needs three times as much and 256 MiB. The log needs a
    /// quarter of the guest's memory (16 MiB to 2 GiB; PostgreSQL twice that) and 64 MiB, on the second disk or beside the
    /// data.
    pub data: Bytes,
    /// Customers at the same time, each with a connection.
    pub clients: u32,
    /// Mean pause between the orders of a customer, at most `24h`; in a closed loop only.
    pub think_time: Span,
    /// Whether the customers' connections use TLS (1.3): the guest's database makes a certificate when it starts, and any is
    /// accepted.
    pub tls: bool,
    /// Length of the steady window that the report shows beside the whole measured time: its last seconds, at most
    /// `measure.length`, in whole seconds. Default: all seconds after the load had settled.
    pub window: Option<Span>,
}

impl StoreParameters {
    /// Orders a second that customers can come at.
    const RATES: RangeInclusive<f64> = 0.001..=100_000.0;

    fn rate_fault(rate: f64) -> Option<Fault> {
        let (least, most) = (Self::RATES.start(), Self::RATES.end());
        let remedy = format!("use {least}/s to {most}/s");
        Fault::unless(Self::RATES.contains(&rate), "rate", format!("{rate} orders a second"), remedy)
    }

    /// The values of `clients`, `think_time` and `window` with which no load can run, in a scenario or alone, and those of its rate
    /// in orders a second and arrival, where it has an open loop. `length` is the measured time.
    pub fn faults(&self, open: Option<(f64, Arrival)>, length: Span) -> impl Iterator<Item = Fault> {
        let (rate, arrival) = open.unzip();
        let is_whole = |window: Span| !window.get().is_zero() && window.get().subsec_nanos() == 0;
        [
            Fault::outside(1..=CLIENTS_MAX, "clients", self.clients),
            rate.and_then(Self::rate_fault),
            Fault::unless(
                arrival != Some(Arrival::Bursts),
                "arrival",
                "bursts, which the store does not do",
                "write `arrival = \"poisson\"` or `arrival = \"even\"`",
            ),
            Fault::outside(Span::default()..=Measure::LENGTH_MAX, "think_time", self.think_time),
            self.window.and_then(|window| {
                Fault::unless(
                    is_whole(window) && window <= length,
                    "window",
                    format!("{window} in a measurement of {length}"),
                    "use whole seconds up to the measured time, or leave it out",
                )
            }),
        ]
        .into_iter()
        .flatten()
    }
}

impl Default for StoreParameters {
    fn default() -> Self {
        Self {
            database: StoreDatabase::default(),
            durability: StoreDurability::default(),
            data: Bytes::new(20_000_000),
            clients: 32,
            think_time: Span::default(),
            tls: false,
            window: None,
        }
    }
}

impl Facts for StoreParameters {
    fn role(&self) -> Role {
        Role::Database
    }

    fn programs(&self) -> Vec<Program> {
        vec![self.database.program()]
    }

    fn place(&self) -> Place {
        Place::Outside
    }

    fn unit(&self) -> &'static str {
        "orders"
    }

    fn in_flight(&self, _at: At) -> InFlight {
        let is_steady = self.think_time.get().is_zero();
        InFlight { is_steady, ..InFlight::steady(self.clients.into(), "order") }
    }

    fn connections(&self, _at: At) -> u32 {
        self.clients
    }

    fn check(&self, load: &LoadKeys<'_>, guest: &Guest, measure: &Measure, say: &mut Say<'_>) {
        let name = load.name;
        let is_open = load.loop_kind == LoopKind::Open;
        // A rate that is missing is reported elsewhere.
        let rate = load.rate.map(|rate| rate.get()).filter(|rate| *rate > 0.0).unwrap_or(1.0);
        for fault in self.faults(is_open.then_some((rate, load.arrival)), measure.length) {
            say(format!("load `{name}`: {fault}"), &fault.remedy);
        }
        if !(Bytes::new(10_000_000)..=Bytes::new(100_000_000_000)).contains(&self.data) {
            say(format!("load `{name}` has {} of data", self.data), "use 10MB to 100GB");
        }
        if is_open && !self.think_time.get().is_zero() {
            let message = format!("load `{name}` has a rate and a `think_time` of {}", self.think_time);
            say(message, "leave one out: customers who come at a rate do not wait for their previous order");
        }
        let data = Data { load: name, size: self.data, key: "data" };
        check_database_fits(self.database, &data, guest, say);
    }

    fn exclusive(&self) -> Option<Exclusive> {
        Some(Exclusive::Database)
    }

    fn shapes_service(&self) -> bool {
        true
    }

    /// One guest alone served 2,730 orders a minute.
    fn emulated_seconds(&self) -> Option<f64> {
        Some(0.022)
    }

    fn service_has_tls(&self) -> bool {
        self.tls
    }

    fn database_clients(&self) -> Option<u32> {
        Some(self.clients)
    }

    fn data(&self) -> Option<Bytes> {
        Some(self.data)
    }

    fn frames_each(&self) -> u64 {
        FRAMES_EACH
    }
}
