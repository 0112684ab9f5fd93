//! Small JSON files beside the records of a folder of runs: how they are read and written, and what a run is called in them.

use crate::{
    RecordError, RunDirectory,
    file::{make_folder, write_whole},
};
use serde::{Serialize, de::DeserializeOwned};
use std::{fs, io, path::Path};

/// What a file of the folder holds; `None` where there is no such file. `schema` is the format that it says it has, and `known` the latest
/// that can be read.
///
/// # Errors
/// When it cannot be read, is damaged, or was written by a later version.
pub(crate) fn read<S: DeserializeOwned>(
    folder: &Path,
    file: &str,
    known: u32,
    schema: impl Fn(&S) -> u32,
) -> Result<Option<S>, RecordError> {
    let path = folder.join(file);
    let text = match fs::read(&path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(source) => return Err(RecordError::read(&path)(source)),
    };
    let stored: S = serde_json::from_slice(&text)
        .map_err(|error| RecordError::Damaged { path: path.clone(), what: error.to_string() })?;
    match schema(&stored) {
        found if found > known => Err(RecordError::Newer { path, found, known }),
        _ => Ok(Some(stored)),
    }
}

/// Writes a file of the folder whole, and the folder where it is not there.
///
/// # Errors
/// When it cannot be written.
pub(crate) fn write(folder: &Path, file: &str, stored: &impl Serialize) -> Result<(), RecordError> {
    let path = folder.join(file);
    make_folder(folder).map_err(RecordError::write(&path))?;
    let text = serde_json::to_vec_pretty(stored).expect("names, ids and texts can be written as JSON");
    write_whole(&path, &text)
}

/// The id of a run in the folder, or the whole path of one elsewhere.
pub(crate) fn called(folder: &Path, run: &RunDirectory) -> String {
    let whole = |path: &Path| fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let path = whole(run.path());
    match (path.parent(), path.file_name()) {
        (Some(parent), Some(id)) if parent == whole(folder) => id.to_string_lossy().into_owned(),
        _ => path.to_string_lossy().into_owned(),
    }
}
