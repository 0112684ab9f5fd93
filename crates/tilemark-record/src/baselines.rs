//! Named sets of runs, in one small file beside the records: with several runs of the same thing, a comparison knows how far runs of
//! one thing lie apart.

use crate::{RecordError, RunDirectory, beside_runs};
use serde::{Deserialize, Serialize};
use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

const FILE: &str = "baselines.json";
const SCHEMA: u32 = 1;

/// The baselines of a folder of runs.
#[derive(Debug, Clone)]
pub struct Baselines {
    folder: PathBuf,
}

#[derive(Debug, Serialize, Deserialize)]
struct Stored {
    schema: u32,
    /// Ids of runs, or paths of those elsewhere, by name.
    baselines: BTreeMap<String, Vec<String>>,
}

impl Baselines {
    /// Those beside the runs in a folder, which need not exist.
    pub fn new(runs: &Path) -> Self {
        Self { folder: runs.to_owned() }
    }

    /// All, by name: ids of runs, or paths of runs elsewhere.
    pub fn all(&self) -> Result<BTreeMap<String, Vec<String>>, RecordError> {
        let stored = beside_runs::read(&self.folder, FILE, SCHEMA, |stored: &Stored| stored.schema)?;
        Ok(stored.map_or_else(BTreeMap::new, |stored| stored.baselines))
    }

    /// The runs of one; `None` where no baseline has this name.
    pub fn find(&self, name: &str) -> Result<Option<Vec<String>>, RecordError> {
        Ok(self.all()?.remove(name))
    }

    /// Adds runs; one that it has already is not added twice.
    pub fn add(&self, name: &str, runs: &[RunDirectory]) -> Result<Vec<String>, RecordError> {
        let mut all = self.all()?;
        let own = all.entry(name.to_owned()).or_default();
        for run in runs.iter().map(|run| beside_runs::called(&self.folder, run)) {
            if !own.contains(&run) {
                own.push(run);
            }
        }
        let own = own.clone();
        self.write(all)?;
        Ok(own)
    }

    /// What a run is called in a baseline: its id, or its whole path where it is elsewhere.
    pub fn called(&self, run: &RunDirectory) -> String {
        beside_runs::called(&self.folder, run)
    }

    /// Takes a run out of all baselines: its record was removed. A baseline that had no other run goes.
    ///
    /// # Errors
    /// When the file of baselines cannot be read or written.
    pub fn forget(&self, run: &RunDirectory) -> Result<(), RecordError> {
        let (before, removed) = (self.all()?, self.called(run));
        let mut all = before.clone();
        all.values_mut().for_each(|runs| runs.retain(|run| *run != removed));
        all.retain(|_, runs| !runs.is_empty());
        if all == before { Ok(()) } else { self.write(all) }
    }

    /// Takes runs out, as they are called in it, or the whole baseline where none is named. The records stay, and need not exist any more.
    /// What is left of it is returned.
    pub fn remove(&self, name: &str, removed: &[String]) -> Result<Vec<String>, RecordError> {
        let mut all = self.all()?;
        let mut own = all.remove(name).unwrap_or_default();
        own.retain(|run| !removed.is_empty() && !removed.contains(run));
        if !own.is_empty() {
            all.insert(name.to_owned(), own.clone());
        }
        self.write(all)?;
        Ok(own)
    }

    fn write(&self, baselines: BTreeMap<String, Vec<String>>) -> Result<(), RecordError> {
        beside_runs::write(&self.folder, FILE, &Stored { schema: SCHEMA, baselines })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn runs_are_added_once_listed_and_removed() {
        let folder = tempfile::tempdir().unwrap();
        let baselines = Baselines::new(&folder.path().join("runs"));
        assert!(baselines.all().unwrap().is_empty());
        let run = |id: &str| {
            let path = folder.path().join("runs").join(id);
            fs::create_dir_all(&path).unwrap();
            RunDirectory::at(&path)
        };
        let elsewhere = folder.path().join("elsewhere");
        fs::create_dir(&elsewhere).unwrap();
        baselines.add("before", &[run("1"), run("2"), run("1")]).unwrap();
        let all = baselines.add("before", &[RunDirectory::at(&elsewhere), run("2")]).unwrap();
        let path = fs::canonicalize(&elsewhere).unwrap().to_string_lossy().into_owned();
        assert_eq!(all, ["1", "2", &path]);
        assert_eq!(baselines.find("before").unwrap().unwrap(), all);
        assert_eq!(baselines.find("after").unwrap(), None);
        assert_eq!(baselines.remove("before", &["1".to_owned()]).unwrap(), ["2", &path]);
        baselines.add("after", &[run("2")]).unwrap();
        baselines.forget(&run("2")).unwrap();
        assert_eq!(
            baselines.all().unwrap().into_iter().collect::<Vec<_>>(),
            [("before".to_owned(), vec![path])]
        );
        assert!(baselines.remove("before", &[]).unwrap().is_empty());
        assert!(baselines.all().unwrap().is_empty());
    }

    #[test]
    fn a_damaged_or_newer_file_is_named_and_not_overwritten() {
        let folder = tempfile::tempdir().unwrap();
        let baselines = Baselines::new(folder.path());
        for (text, said) in [("{", "damaged"), (r#"{"schema":9,"baselines":{}}"#, "format 9")] {
            fs::write(folder.path().join(FILE), text).unwrap();
            let error = baselines.add("before", &[]).unwrap_err().to_string();
            assert!(error.contains(said), "{error}");
            assert_eq!(fs::read_to_string(folder.path().join(FILE)).unwrap(), text);
        }
    }
}
