//! The online store alone: `tilemark load store` and `tilemark data store --into`, against any database.

use crate::{
    failure::{Failure, FailureCode},
    plan::host::emulated_reason,
    progress::{Listener, Progress},
    standalone::interruptible::{OnInterrupt, until_interrupted_again},
    standalone::password,
    standalone::port::{self, Protocol},
    standalone::store_data::{SHOWN_FROM, StoreDataRequest, generator},
    standalone::trust::{ca_of_host, text_of},
    stop::interrupted,
};
use serde::Serialize;
use std::{
    net::ToSocketAddrs,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};
use tilemark_plan::workload::REQUEST_FILE_BYTES_MAX;
use tilemark_store::{
    CertificateCheck, DatabaseKind, Endpoint, LoadProgress, LoadedTable, Secret, StoreError, load_database,
    run_load,
};
use tilemark_store_data::StoreDataError;
use tilemark_sys::limits::raise_open_files;

pub use tilemark_store::{DatabaseAddress, Demand, Latency, LoadResult, Pace, Status};

/// Understands an address; the password may be in the environment instead.
pub fn address(text: &str) -> Result<DatabaseAddress, Failure> {
    let mut address = text.parse::<DatabaseAddress>()?;
    if address.password.is_none() {
        address.password = password::of_environment(password::DATABASE).map(Secret::new);
    }
    read_authorities(&mut address)?;
    Ok(address)
}

/// Reads the authorities that may have signed the server's certificate, where they are asked for.
fn read_authorities(address: &mut DatabaseAddress) -> Result<(), Failure> {
    let Some(tls) = address.tls.as_mut().filter(|tls| tls.check != CertificateCheck::Any) else {
        return Ok(());
    };
    let of_database = match address.kind {
        DatabaseKind::Mariadb => ("ssl-ca", "`ssl-mode=required`"),
        DatabaseKind::Postgresql => ("sslrootcert", "`sslmode=require`"),
    };
    let (word, any) = of_database;
    tls.ca = Some(match &tls.ca_file {
        Some(file) => text_of(file, word, REQUEST_FILE_BYTES_MAX)?,
        None => ca_of_host(&format!(
            "install ca-certificates, add `{word}=FILE` to the address, or accept any certificate with {any}"
        ))?,
    });
    Ok(())
}

/// Fails where another protocol is spoken at a database's port. A name that is not known is the database's library to say.
fn check_port(database: &DatabaseAddress) -> Result<(), Failure> {
    let Endpoint::Tcp { host, port } = &database.endpoint else { return Ok(()) };
    let wanted = match database.kind {
        DatabaseKind::Mariadb => Protocol::Mysql,
        DatabaseKind::Postgresql => Protocol::Postgresql,
    };
    let Ok(addresses) = (host.trim_matches(['[', ']']), *port).to_socket_addrs() else { return Ok(()) };
    port::check(&addresses.collect::<Vec<_>>(), wanted)
}

/// Sends the store's customers to a database that holds a store, and audits it.
pub fn load(
    database: DatabaseAddress,
    demand: Demand,
    listener: &mut dyn Listener,
) -> Result<LoadResult, Failure> {
    // Before its time is shown.
    demand.check()?;
    check_port(&database)?;
    raise_open_files();
    let expected = (demand.warmup + demand.measure).as_secs_f64();
    let stop = Arc::new(AtomicBool::new(false));
    let began = Instant::now();
    let look = |listener: &mut dyn Listener| {
        stop.fetch_or(interrupted(), Ordering::Relaxed);
        let seconds_done = began.elapsed().as_secs_f64();
        let doing = if seconds_done < expected { "orders are sent" } else { "the database is audited" };
        let doing = doing.to_owned();
        listener.progress(&Progress {
            doing,
            seconds_done,
            seconds_expected: expected,
            seconds_at_most: None,
        });
    };
    let stopped = Arc::clone(&stop);
    let sent = until_interrupted_again(listener, &ON_INTERRUPT, look, move || {
        Ok(run_load(&database, &demand, &stopped)?)
    });
    sent.map(on_this_host)
}

const ON_INTERRUPT: OnInterrupt = OnInterrupt {
    first: "stopping the load, then auditing the database and printing the figures; Ctrl-C again stops it immediately",
    remedy: "nothing to do: the database takes back what was not committed, and nothing was audited",
};

/// No figure of a host that is itself emulated is trusted.
fn on_this_host(mut result: LoadResult) -> LoadResult {
    if let Some(reason) = emulated_reason() {
        result.verdict.status = Status::NotTrusted;
        result.verdict.reasons.push(reason);
    }
    result
}

/// The mean pause of a client after an order.
pub fn think_time(time: f64) -> Result<Duration, Failure> {
    Duration::try_from_secs_f64(time).map_err(|_| {
        Failure::new(
            FailureCode::BadInput,
            format!("`--think-time {time}` is not a valid time"),
            "give 0 or more",
        )
    })
}

/// A store that was loaded into a database.
#[derive(Debug, Clone, Serialize)]
pub struct StoreLoaded {
    /// Where, without password.
    pub database: String,
    /// What the server says it is.
    pub server: String,
    /// Tables with rows, bytes and checksums.
    pub tables: Vec<LoadedTable>,
    /// Bytes of CSV that were sent.
    pub bytes: u64,
    /// How long it took, checks included.
    pub seconds: f64,
}

/// Makes the store in an empty database: rows go from the generator straight into its bulk loader. Ctrl-C ends it, and
/// removes the tables that it made.
pub fn load_into(
    request: &StoreDataRequest,
    database: &DatabaseAddress,
    listener: &mut dyn Listener,
) -> Result<StoreLoaded, Failure> {
    let generator = Arc::new(generator(request)?);
    check_port(database)?;
    let (stop, address) = (generator.stop_flag(), database.clone());
    let at = Arc::new(Mutex::new(None::<LoadProgress>));
    let began = Instant::now();
    let look = |listener: &mut dyn Listener| {
        stop.fetch_or(interrupted(), Ordering::Relaxed);
        if let Some(at) = at.lock().unwrap_or_else(PoisonError::into_inner).take() {
            progress_of(&at, began.elapsed()).iter().for_each(|progress| listener.progress(progress));
        }
    };
    let latest = Arc::clone(&at);
    let loaded = until_interrupted_again(listener, &ON_INTERRUPTED_LOADING, look, move || {
        let mut keep = |at| *latest.lock().unwrap_or_else(PoisonError::into_inner) = Some(at);
        Ok(load_database(&address, &generator, &mut keep)?)
    })?;
    let bytes = loaded.tables.iter().map(|table| table.sum.bytes).sum();
    let seconds = began.elapsed().as_secs_f64();
    let (server, tables) = (loaded.server, loaded.tables);
    Ok(StoreLoaded { database: database.to_string(), server, tables, bytes, seconds })
}

const ON_INTERRUPTED_LOADING: OnInterrupt = OnInterrupt {
    first: "ending it and removing the tables that were made; Ctrl-C again stops it immediately",
    remedy: "the store may be half loaded: drop its tables and load_state (or the whole database, if it holds nothing else) before it is loaded once more",
};

/// Nothing where too little was loaded to say how long the rest will take.
fn progress_of(at: &LoadProgress, elapsed: Duration) -> Option<Progress> {
    let seconds_done = elapsed.as_secs_f64();
    let (doing, part) = match at {
        LoadProgress::Rows { bytes, bytes_expected } => {
            ("loading rows", ROWS_PART * *bytes as f64 / (*bytes_expected).max(1) as f64)
        }
        LoadProgress::Checking => ("making foreign keys and checking", ROWS_PART),
    };
    (part >= SHOWN_FROM).then(|| Progress {
        doing: doing.to_owned(),
        seconds_done,
        seconds_expected: seconds_done / part,
        seconds_at_most: None,
    })
}

/// Part of a load's time in which rows are sent and indexed; the rest makes foreign keys and checks.
const ROWS_PART: f64 = 0.85;

/// What was asked wrongly is the user's to change, what was stopped the user stopped; the rest is the database's or its host's.
impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        if let StoreError::Data(StoreDataError::Stopped) = error {
            let message = "stopped before the store was whole";
            let remedy = "start again; the tables that were made were removed again";
            return Self::new(FailureCode::Interrupted, message, remedy);
        }
        let code = match &error {
            StoreError::Address(_) | StoreError::Authorities { .. } | StoreError::Demand(_) => {
                FailureCode::BadInput
            }
            _ => FailureCode::HostUnfit,
        };
        Self::from_error(code, &error, error.remedy())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_that_is_left_is_shown_once_it_is_known() {
        let of =
            |bytes| progress_of(&LoadProgress::Rows { bytes, bytes_expected: 1_000 }, Duration::from_secs(1));
        assert_eq!((of(0).is_some(), of(5).is_some()), (false, false), "hours would be shown");
        let left = of(500).map(|progress| progress.seconds_expected - progress.seconds_done);
        assert!(left.is_some_and(|left| (1.0..2.0).contains(&left)), "{left:?}");
    }

    #[test]
    fn nonsense_is_bad_input_and_a_missing_server_is_not() {
        assert_eq!(address("mysql://db").unwrap_err().code, FailureCode::BadInput);
        let unreadable =
            address("mysql://web@db/store?ssl-mode=verify-ca&ssl-ca=/nowhere/ca.pem").unwrap_err();
        assert_eq!(unreadable.code, FailureCode::BadInput);
        assert!(
            unreadable.message.contains("cannot read `ssl-ca /nowhere/ca.pem`"),
            "{}",
            unreadable.message
        );
        let down = StoreError::Down { address: "x".into(), source: "refused".into() };
        assert_eq!(Failure::from(down).code, FailureCode::HostUnfit);
        assert_eq!(Failure::from(StoreError::from(StoreDataError::Stopped)).code, FailureCode::Interrupted);
    }
}
