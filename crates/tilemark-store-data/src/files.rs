//! A store as files in a folder.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::checksum::TableSum;
use crate::error::StoreDataError;
use crate::generate::{Generator, Progress};
use crate::plan::Store;
use crate::table::Table;

/// The file that says what the others are. It is written last: a folder without it is not complete.
pub const MANIFEST: &str = "store.json";

/// What the folder holds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Manifest {
    /// Version of the data's format: the same version, store and seed give the same bytes.
    pub format: u32,
    /// Row counts and seed.
    pub store: Store,
    /// One entry for each table.
    pub tables: Vec<ManifestTable>,
}

/// One file of the folder.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ManifestTable {
    /// The table.
    pub table: Table,
    /// Its file beside the manifest.
    pub file: String,
    /// Rows, bytes and checksum.
    pub sum: TableSum,
}

const FORMAT: u32 = 1;

/// Writes all tables as `TABLE.csv` and a manifest into `folder`, which is made if it does not exist and must be empty.
/// If anything fails, the files written so far are removed again, and so is the folder if it was made.
pub fn write_files(
    generator: &Generator,
    folder: &Path,
    mut progress: impl FnMut(Progress),
) -> Result<Manifest, StoreDataError> {
    let made = (!folder.exists()).then(|| folder.to_owned());
    let mut written = Written { files: Vec::new(), folder: made };
    prepare(folder, generator.store().expected_bytes())?;
    let mut tables = Vec::new();
    for table in Table::ALL {
        let file = format!("{table}.csv");
        let path = folder.join(&file);
        let mut sink = written.create(&path)?;
        let sum = generator.write_table(table, &mut sink, &mut progress).map_err(|error| match error {
            StoreDataError::Sink { source, .. } => StoreDataError::Write { path: path.clone(), source },
            other => other,
        })?;
        tables.push(ManifestTable { table, file, sum });
    }
    let manifest = Manifest { format: FORMAT, store: *generator.store(), tables };
    let path = folder.join(MANIFEST);
    let text = serde_json::to_string_pretty(&manifest).expect("a manifest has only strings and numbers");
    written
        .create(&path)?
        .write_all(text.as_bytes())
        .map_err(|source| StoreDataError::Write { path: path.clone(), source })?;
    written.keep();
    Ok(manifest)
}

/// What is removed again unless it is kept.
struct Written {
    files: Vec<PathBuf>,
    /// The folder, if there was none.
    folder: Option<PathBuf>,
}

impl Written {
    fn create(&mut self, path: &Path) -> Result<File, StoreDataError> {
        let file = File::create_new(path)
            .map_err(|source| StoreDataError::Create { path: path.to_owned(), source })?;
        self.files.push(path.to_owned());
        Ok(file)
    }

    fn keep(&mut self) {
        self.files.clear();
        self.folder = None;
    }
}

impl Drop for Written {
    fn drop(&mut self) {
        // The error that led here is the one to report.
        for path in &self.files {
            drop(fs::remove_file(path));
        }
        if let Some(folder) = &self.folder {
            drop(fs::remove_dir(folder));
        }
    }
}

fn prepare(folder: &Path, needed: u64) -> Result<(), StoreDataError> {
    let create_error = |source| StoreDataError::Create { path: folder.to_owned(), source };
    fs::create_dir_all(folder).map_err(create_error)?;
    if fs::read_dir(folder).map_err(create_error)?.next().is_some() {
        return Err(StoreDataError::OutputNotEmpty(folder.to_owned()));
    }
    let space = rustix::fs::statvfs(folder).map_err(|errno| create_error(io::Error::from(errno)))?;
    let free = space.f_bavail.saturating_mul(space.f_frsize);
    if free < needed {
        return Err(StoreDataError::DiskShort { folder: folder.to_owned(), free, needed });
    }
    Ok(())
}
