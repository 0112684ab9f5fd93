//! `tilemark data store`: the online store's data as CSV files.

use crate::{
    conduct::{self, Listener},
    measure::{place_failed, shown_as},
    wire::{Failure, FailureCode, Progress},
};
use serde::Serialize;
use std::{path::Path, sync::atomic::Ordering, time::Instant};
use tilemark_store_data::{DataSize, Ds2Size, Generator, Manifest, Store, StoreDataError, write_files};
use tilemark_sys::files::{OPEN_FOLDER, Place};

/// Data that was asked for.
#[derive(Debug, Clone)]
pub struct StoreDataRequest {
    /// Such as `4GB`.
    pub size: String,
    /// Row counts and labels of the old kit.
    pub as_ds2: bool,
    /// The same seed gives the same bytes, whatever the threads.
    pub seed: u64,
    /// Threads that make rows.
    pub threads: usize,
}

/// Data that was written.
#[derive(Debug, Clone, Serialize)]
pub struct StoreDataWritten {
    /// Tables with rows, bytes and checksums.
    pub manifest: Manifest,
    /// Bytes of all files.
    pub bytes: u64,
    /// How long it took.
    pub seconds: f64,
}

/// What makes the rows that were asked for.
pub(crate) fn generator(request: &StoreDataRequest) -> Result<Generator, Failure> {
    let store = if request.as_ds2 {
        Store::ds2(request.size.parse::<Ds2Size>().map_err(bad_input)?, request.seed)
    } else {
        Store::of_size(request.size.parse::<DataSize>().map_err(bad_input)?, request.seed)
    };
    Generator::new(store, request.threads).map_err(bad_input)
}

/// Writes the data into files in a folder, new or empty. Ctrl-C ends it, and removes what was written so far.
pub fn store(
    request: &StoreDataRequest,
    out: &Path,
    listener: &mut dyn Listener,
) -> Result<StoreDataWritten, Failure> {
    let generator = generator(request)?;
    let failed = |source| told(StoreDataError::Create { path: out.to_owned(), source });
    // What was made for this run only is taken away again where it fails.
    let is_new = !out.exists();
    let place = Place::of_folder(out, OPEN_FOLDER).map_err(|error| place_failed(error, failed))?;
    let written = write(generator, place.path(), listener);
    if is_new && written.is_err() {
        // The error that led here is the one to report.
        let _ = std::fs::remove_dir(out);
    }
    written.map_err(|failure| shown_as(failure, place.path(), out))
}

fn write(generator: Generator, out: &Path, listener: &mut dyn Listener) -> Result<StoreDataWritten, Failure> {
    let stop = generator.stop_flag();
    let expected = generator.store().expected_bytes();
    let began = Instant::now();
    let mut table = String::new();
    let (mut finished, mut of_table) = (0, 0);
    let manifest = write_files(&generator, out, |progress| {
        if conduct::interrupted() {
            stop.store(true, Ordering::Relaxed);
        }
        let name = format!("{:?}", progress.table).to_lowercase();
        if name != table {
            (finished, of_table, table) = (finished + of_table, 0, name);
        }
        of_table = progress.bytes;
        let seconds_done = began.elapsed().as_secs_f64();
        let part = (finished + of_table) as f64 / expected.max(1) as f64;
        if part < TOLD_FROM {
            return;
        }
        let seconds_expected = seconds_done / part;
        listener.progress(&Progress { doing: format!("writing {table}"), seconds_done, seconds_expected });
    })
    .map_err(told)?;
    let bytes = manifest.tables.iter().map(|table| table.sum.bytes).sum();
    Ok(StoreDataWritten { manifest, bytes, seconds: began.elapsed().as_secs_f64() })
}

fn told(error: StoreDataError) -> Failure {
    let remedy = error.remedy();
    let stopped = matches!(error, StoreDataError::Stopped);
    let code = if stopped { FailureCode::Interrupted } else { FailureCode::HostUnfit };
    Failure::new(code, &error, remedy)
}

/// The part of a whole from which on its time can be told.
pub(crate) const TOLD_FROM: f64 = 0.01;

fn bad_input(error: StoreDataError) -> Failure {
    let remedy = error.remedy();
    Failure::new(FailureCode::BadInput, &error, remedy)
}
