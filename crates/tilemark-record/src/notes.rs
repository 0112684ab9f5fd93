//! Tags and notes of runs, in one small file beside the records: a closed record stays as its manifest has it.

use crate::{RecordError, RunDirectory, beside_runs};
use serde::{Deserialize, Serialize};
use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
};

const FILE: &str = "notes.json";
const SCHEMA: u32 = 1;

/// The tags and notes of a folder of runs.
#[derive(Debug, Clone)]
pub struct Notes {
    folder: PathBuf,
}

/// What a user has written of a run.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunNotes {
    /// Its tags, each once.
    #[serde(default)]
    pub tags: BTreeSet<String>,
    /// Its note; empty where there is none.
    #[serde(default)]
    pub note: String,
}

impl RunNotes {
    fn is_empty(&self) -> bool {
        self.tags.is_empty() && self.note.is_empty()
    }
}

#[derive(Debug, Serialize, Deserialize)]
struct Stored {
    schema: u32,
    /// By id of a run, or path of one elsewhere.
    runs: BTreeMap<String, RunNotes>,
}

impl Notes {
    /// Those beside the runs in a folder, which need not exist.
    pub fn new(runs: &Path) -> Self {
        Self { folder: runs.to_owned() }
    }

    /// What is written of a run; nothing where nobody wrote anything.
    ///
    /// # Errors
    /// When the file of notes cannot be read, is damaged, or was written by a later version.
    pub fn of(&self, run: &RunDirectory) -> Result<RunNotes, RecordError> {
        Ok(self.all()?.remove(&beside_runs::called(&self.folder, run)).unwrap_or_default())
    }

    /// Changes what is written of a run, and returns it.
    ///
    /// # Errors
    /// When the file of notes cannot be read or written.
    pub fn change(
        &self,
        run: &RunDirectory,
        change: impl FnOnce(&mut RunNotes),
    ) -> Result<RunNotes, RecordError> {
        let mut all = self.all()?;
        let name = beside_runs::called(&self.folder, run);
        let mut own = all.remove(&name).unwrap_or_default();
        change(&mut own);
        if !own.is_empty() {
            all.insert(name, own.clone());
        }
        self.write(all)?;
        Ok(own)
    }

    fn all(&self) -> Result<BTreeMap<String, RunNotes>, RecordError> {
        let stored = beside_runs::read(&self.folder, FILE, SCHEMA, |stored: &Stored| stored.schema)?;
        Ok(stored.map_or_else(BTreeMap::new, |stored| stored.runs))
    }

    fn write(&self, runs: BTreeMap<String, RunNotes>) -> Result<(), RecordError> {
        beside_runs::write(&self.folder, FILE, &Stored { schema: SCHEMA, runs })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn what_is_written_of_a_run_is_kept_beside_it_and_forgotten_when_it_is_empty() {
        let folder = tempfile::tempdir().unwrap();
        let notes = Notes::new(folder.path());
        let run = RunDirectory::at(&folder.path().join("1"));
        assert_eq!(notes.of(&run).unwrap(), RunNotes::default());
        notes
            .change(&run, |own| {
                own.tags.insert("new-qemu".to_owned());
            })
            .unwrap();
        let own = notes.change(&run, |own| own.note = "After the update.".to_owned()).unwrap();
        assert_eq!(notes.of(&run).unwrap(), own);
        assert!(own.tags.contains("new-qemu") && own.note == "After the update.");
        assert!(!folder.path().join("1").exists(), "the record is not touched");
        notes.change(&run, |own| *own = RunNotes::default()).unwrap();
        assert!(notes.all().unwrap().is_empty());
    }

    #[test]
    fn a_damaged_or_newer_file_is_named_and_not_overwritten() {
        let folder = tempfile::tempdir().unwrap();
        let notes = Notes::new(folder.path());
        let run = RunDirectory::at(&folder.path().join("1"));
        for (text, said) in [("{", "damaged"), (r#"{"schema":9,"runs":{}}"#, "format 9")] {
            fs::write(folder.path().join(FILE), text).unwrap();
            let error = notes.change(&run, |own| own.note = "x".to_owned()).unwrap_err().to_string();
            assert!(error.contains(said), "{error}");
            assert_eq!(fs::read_to_string(folder.path().join(FILE)).unwrap(), text);
        }
    }
}
