//! `sysbench`: Debian's sysbench inside a database guest.

use super::{
    database::{CLIENTS_MAX, Data, StoreDatabase, check_database_fits},
    facts::{At, Exclusive, Facts, InFlight, LoadKeys, Place},
    whole_seconds::check_whole_warmup,
};
use crate::JsonSchema;
use crate::problem::Say;
use crate::program::{MARIADB, Program, SYSBENCH};
use crate::scenario::{
    guest::Guest,
    measure::Measure,
    role::Role,
    timing::{Arrival, LoopKind},
};
use serde::{Deserialize, Serialize};
use std::time::Duration;
use tilemark_units::Bytes;

/// What a row takes, as CSV would.
const ROW: u64 = 200;
/// With one client in a closed loop an emulated guest on a busy host did 30 transactions a second.
const EMULATED_SECONDS: f64 = 0.033;
/// An estimate, on the safe side: a guest without disks of its own fills its tables itself, beside other guests on a busy host.
const PREPARES_WITHIN: Duration = Duration::from_secs(300);

/// For role `database`: sysbench's read-write transactions on MariaDB, run and measured inside the guest by Debian's sysbench.
/// Its output stays in the record. Its tables are made once, and every guest has a copy of them from its start. A `rate` is a whole number, its arrivals are
/// `poisson`, and `measure.warmup` is whole seconds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct SysbenchParameters {
    /// Tables. The default is sysbench's own.
    pub tables: u32,
    /// Rows of each table. The default is sysbench's own.
    pub rows: u32,
    /// Clients at the same time.
    pub threads: u32,
}

impl Default for SysbenchParameters {
    fn default() -> Self {
        Self { tables: 1, rows: 10_000, threads: 16 }
    }
}

impl SysbenchParameters {
    /// What its rows take as CSV.
    fn bytes(&self) -> Bytes {
        let rows = u64::from(self.tables).saturating_mul(u64::from(self.rows));
        Bytes::new(rows.saturating_mul(ROW))
    }
}

impl Facts for SysbenchParameters {
    fn role(&self) -> Role {
        Role::Database
    }

    fn programs(&self) -> Vec<Program> {
        vec![MARIADB, SYSBENCH]
    }

    fn place(&self) -> Place {
        Place::Inside
    }

    fn unit(&self) -> &'static str {
        "transactions"
    }

    fn in_flight(&self, _at: At) -> InFlight {
        InFlight::steady(self.threads.into(), "transaction")
    }

    fn check(&self, load: &LoadKeys<'_>, guest: &Guest, measure: &Measure, say: &mut Say<'_>) {
        let name = load.name;
        let SysbenchParameters { tables, rows, threads } = *self;
        for (what, count, most) in
            [("threads", threads, CLIENTS_MAX), ("tables", tables, 1_000), ("rows", rows, 1_000_000_000)]
        {
            if !(1..=most).contains(&count) {
                say(format!("load `{name}` has {count} {what}"), &format!("use 1 to {most}"));
            }
        }
        let rate = load.rate.map_or(0.0, |rate| rate.get());
        let is_whole = rate >= 1.0 && rate.fract() == 0.0;
        if load.loop_kind == LoopKind::Open && (!is_whole || load.arrival != Arrival::Poisson) {
            let message = format!("load `{name}` has a rate or an `arrival` that sysbench does not do");
            say(
                message,
                "write a whole number such as `rate = \"100/s\"` and `arrival = \"poisson\"`, or `loop = \"closed\"`",
            );
        }
        check_whole_warmup(name, "sysbench", measure, say);
        let data = Data { load: name, size: self.bytes(), key: "rows" };
        check_database_fits(StoreDatabase::Mariadb, &data, guest, say);
    }

    fn exclusive(&self) -> Option<Exclusive> {
        Some(Exclusive::Database)
    }

    fn emulated_seconds(&self) -> Option<f64> {
        Some(EMULATED_SECONDS)
    }

    fn has_whole_rate(&self) -> bool {
        true
    }

    fn shapes_service(&self) -> bool {
        true
    }

    fn data(&self) -> Option<Bytes> {
        Some(self.bytes())
    }

    /// Clients and their rate change nothing in the tables.
    fn rows(&self) -> Option<String> {
        Some(format!("sysbench {}x{}", self.tables, self.rows))
    }

    fn database_clients(&self) -> Option<u32> {
        Some(self.threads)
    }

    fn prepares_within(&self) -> Duration {
        PREPARES_WITHIN
    }
}
