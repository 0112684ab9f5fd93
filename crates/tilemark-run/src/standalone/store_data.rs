//! `tilemark data store`: the online store's data as CSV files.

use crate::{
    failure::{Failure, FailureCode, place_failed},
    progress::{Listener, Progress},
    stop::interrupted,
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
    /// Row counts and labels of DVD Store 2.
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
        Store::ds2(request.size.parse::<Ds2Size>()?, request.seed)
    } else {
        Store::of_size(request.size.parse::<DataSize>()?, request.seed)
    };
    Ok(Generator::new(store, request.threads)?)
}

/// Writes the data into files in a folder, new or empty. Ctrl-C ends it, and removes what was written so far.
pub fn store(
    request: &StoreDataRequest,
    out: &Path,
    listener: &mut dyn Listener,
) -> Result<StoreDataWritten, Failure> {
    let generator = generator(request)?;
    let failed = |source| StoreDataError::Create { path: out.to_owned(), source };
    // What was made for this run only is taken away again where it fails.
    let is_new = !out.exists();
    let place = Place::of_folder(out, OPEN_FOLDER).map_err(|error| place_failed(error, failed))?;
    let written = write(generator, place.path(), listener);
    if is_new && written.is_err() {
        // The error that led here is the one to report.
        let _ = std::fs::remove_dir(out);
    }
    written.map_err(|failure| failure.shown_as(place.path(), out))
}

fn write(generator: Generator, out: &Path, listener: &mut dyn Listener) -> Result<StoreDataWritten, Failure> {
    let stop = generator.stop_flag();
    let expected = generator.store().expected_bytes();
    let began = Instant::now();
    let mut table = "";
    let (mut finished, mut of_table) = (0, 0);
    let manifest = write_files(&generator, out, |progress| {
        if interrupted() {
            stop.store(true, Ordering::Relaxed);
        }
        if progress.table.name() != table {
            (finished, table) = (finished + of_table, progress.table.name());
        }
        of_table = progress.bytes;
        let seconds_done = began.elapsed().as_secs_f64();
        let part = (finished + of_table) as f64 / expected.max(1) as f64;
        if part < SHOWN_FROM {
            return;
        }
        let seconds_expected = seconds_done / part;
        listener.progress(&Progress {
            doing: format!("writing {table}"),
            seconds_done,
            seconds_expected,
            seconds_at_most: None,
        });
    })?;
    let bytes = manifest.tables.iter().map(|table| table.sum.bytes).sum();
    Ok(StoreDataWritten { manifest, bytes, seconds: began.elapsed().as_secs_f64() })
}

/// The part of a whole from which on its time can be shown.
pub(crate) const SHOWN_FROM: f64 = 0.01;

/// What was asked wrongly is the user's to change, what was stopped the user stopped; the rest is the host's.
impl From<StoreDataError> for Failure {
    fn from(error: StoreDataError) -> Self {
        let code = match error {
            StoreDataError::SizeNotUnderstood(_)
            | StoreDataError::SizeOutOfRange { .. }
            | StoreDataError::Ds2SizeUnknown(_)
            | StoreDataError::Threads(_) => FailureCode::BadInput,
            StoreDataError::Stopped => FailureCode::Interrupted,
            StoreDataError::OutputNotEmpty(_)
            | StoreDataError::Create { .. }
            | StoreDataError::DiskShort { .. }
            | StoreDataError::Write { .. }
            | StoreDataError::Sink { .. } => FailureCode::HostUnfit,
        };
        Self::from_error(code, &error, error.remedy())
    }
}
