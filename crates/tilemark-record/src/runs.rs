//! All runs of one place, and finding one among them.

use crate::{
    directory::RunDirectory,
    error::RecordError,
    result::{RunResult, VerdictStatus},
};
use serde::Serialize;
use std::{
    fs,
    path::{Path, PathBuf},
};

/// The folder that holds runs, one folder each, named by their ids.
#[derive(Debug, Clone)]
pub struct Runs {
    folder: PathBuf,
}

/// A run as a list shows it.
#[derive(Debug, Clone, PartialEq)]
pub struct Listed {
    /// Its id: when it began and its scenario.
    pub id: String,
    /// Where it is.
    pub path: PathBuf,
    /// The answer, where the run came to its end.
    pub sentence: Option<String>,
    /// The verdict, where the run came to its end.
    pub verdict: Option<VerdictStatus>,
    /// When it began, where the run came to its end.
    pub began: Option<String>,
    /// The host's name, where the run came to its end.
    pub host: Option<String>,
    /// Why it has no answer. Absent where it has one.
    pub no_answer: Option<NoAnswer>,
    /// What is wrong with its record, in words: the file, and in which way.
    pub error: Option<String>,
}

/// Why a listed run has no answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum NoAnswer {
    /// A run writes it at this moment.
    UnderWay,
    /// It never came to its end.
    Unfinished,
    /// Its result cannot be read.
    Damaged,
    /// Its result has a format that a later version of Tilemark wrote.
    NewerFormat,
}

impl NoAnswer {
    /// In words, for a list.
    pub const fn words(self) -> &'static str {
        match self {
            Self::UnderWay => "under way",
            Self::Unfinished => "unfinished",
            Self::Damaged => "damaged",
            Self::NewerFormat => "newer format",
        }
    }
}

impl Listed {
    fn of(id: String, path: PathBuf) -> Self {
        let record = RunDirectory::at(&path);
        // The result of a run that is being continued is that of the sessions before.
        let read = record.is_closed().then(|| record.result());
        let (no_answer, error) = match &read {
            None if record.is_under_way() => (Some(NoAnswer::UnderWay), None),
            None => (Some(NoAnswer::Unfinished), None),
            Some(Ok(_)) => (None, None),
            Some(Err(error @ RecordError::Newer { .. })) => {
                (Some(NoAnswer::NewerFormat), Some(error.to_string()))
            }
            Some(Err(error)) => (Some(NoAnswer::Damaged), Some(error.to_string())),
        };
        let result: Option<RunResult> = read.and_then(Result::ok);
        let verdict = result.as_ref().map(|result| result.verdict.status);
        let provenance = result.as_ref().map(|result| &result.provenance);
        let began = provenance.map(|provenance| provenance.began.clone());
        let host = provenance.map(|provenance| provenance.host.clone());
        let sentence = result.map(|result| result.sentence);
        Self { id, path, sentence, verdict, began, host, no_answer, error }
    }
}

impl Runs {
    /// The runs in a folder, which need not be there.
    pub fn new(folder: &Path) -> Self {
        Self { folder: folder.to_owned() }
    }

    /// Where a run with this id is or would be.
    pub fn path_of(&self, id: &str) -> PathBuf {
        self.folder.join(id)
    }

    /// Ids, oldest first: an id begins with its time.
    pub fn ids(&self) -> Vec<String> {
        let Ok(entries) = fs::read_dir(&self.folder) else { return Vec::new() };
        let is_run = |path: &Path| path.join("plan.json").exists();
        let mut ids: Vec<String> = entries
            .flatten()
            .filter(|entry| is_run(&entry.path()))
            .map(|entry| entry.file_name().to_string_lossy().into_owned())
            .collect();
        ids.sort();
        ids
    }

    /// All, oldest first.
    pub fn list(&self) -> Vec<Listed> {
        let listed = |id: String| {
            let path = self.path_of(&id);
            Listed::of(id, path)
        };
        self.ids().into_iter().map(listed).collect()
    }

    /// Finds a run by id, unique start of an id, `last`, or path.
    pub fn find(&self, wanted: &str) -> Result<RunDirectory, RecordError> {
        let path = Path::new(wanted);
        let path = if path.is_file() { path.parent().unwrap_or(path) } else { path };
        let plan = path.join("plan.json");
        let is_path = plan.try_exists().map_err(RecordError::read(&plan));
        if wanted.contains('/') || wanted == "." {
            let not_a_record = RecordError::NotARecord { path: PathBuf::from(wanted) };
            return if is_path? { Ok(RunDirectory::at(path)) } else { Err(not_a_record) };
        }
        let ids = self.ids();
        if wanted == "last"
            && let Some(id) = ids.last()
        {
            return Ok(RunDirectory::at(&self.path_of(id)));
        }
        if ids.iter().any(|id| id == wanted) {
            return Ok(RunDirectory::at(&self.path_of(wanted)));
        }
        let matches: Vec<String> = ids.iter().filter(|id| id.starts_with(wanted)).cloned().collect();
        match matches.as_slice() {
            [only] => Ok(RunDirectory::at(&self.path_of(only))),
            // A folder here, named as `--output` named it.
            [] if is_path? && path.is_dir() => Ok(RunDirectory::at(path)),
            [] => {
                let known = ids.into_iter().rev().take(3).collect();
                Err(RecordError::NoSuchRun { wanted: wanted.to_owned(), known })
            }
            _ => Err(RecordError::NotUnique { wanted: wanted.to_owned(), matches }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn runs(ids: &[&str]) -> (tempfile::TempDir, Runs) {
        let folder = tempfile::tempdir().unwrap();
        for id in ids {
            fs::create_dir(folder.path().join(id)).unwrap();
            fs::write(folder.path().join(id).join("plan.json"), "{}").unwrap();
        }
        let runs = Runs::new(folder.path());
        (folder, runs)
    }

    #[test]
    fn a_run_is_found_by_id_start_last_and_path() {
        let (folder, runs) = runs(&["20260101-100000-web", "20260102-100000-web"]);
        let path = folder.path().join("20260101-100000-web");
        for wanted in ["20260101-100000-web", "20260101", path.to_str().unwrap()] {
            assert_eq!(runs.find(wanted).unwrap().path(), path);
        }
        assert!(runs.find("last").unwrap().path().ends_with("20260102-100000-web"));
    }

    #[test]
    fn a_start_of_several_ids_is_refused_with_all_of_them() {
        let (_folder, runs) = runs(&["2026a", "2026b"]);
        assert_eq!(runs.find("2026").unwrap_err().to_string(), "`2026` begins 2026a and 2026b");
    }

    #[test]
    fn an_unknown_run_is_refused_with_the_newest() {
        let (_folder, runs) = runs(&["2026a"]);
        assert_eq!(runs.find("x").unwrap_err().to_string(), "no run `x`; the newest are: 2026a");
    }

    #[test]
    fn where_there_are_no_runs_it_is_the_user_who_has_none() {
        let (_folder, runs) = runs(&[]);
        let error = runs.find("last").unwrap_err();
        assert_eq!(error.to_string(), "no run `last`: this user has no runs");
        assert!(error.remedy().contains("`tilemark quick`"), "{}", error.remedy());
    }

    #[test]
    fn a_run_without_an_answer_is_listed_with_the_reason() {
        let (folder, runs) = runs(&["1", "2", "3", "4"]);
        let write =
            |id: &str, name: &str, text: &str| fs::write(folder.path().join(id).join(name), text).unwrap();
        for id in ["2", "3", "4"] {
            write(id, "manifest.json", "{}");
        }
        write("1", "result.json", "{");
        write("2", "result.json", "{");
        write("3", "result.json", r#"{"schema": 99}"#);
        let listed = runs.list();
        let reasons: Vec<&str> = listed.iter().filter_map(|run| Some(run.no_answer?.words())).collect();
        assert_eq!(reasons, ["unfinished", "damaged", "newer format", "damaged"]);
        let errors: Vec<bool> = listed.iter().map(|run| run.error.is_some()).collect();
        assert_eq!(errors, [false, true, true, true], "the file that is wrong is named");
        assert!(listed[2].error.as_deref().unwrap().contains("has format 99"), "{listed:?}");
    }

    #[test]
    fn a_path_without_a_record_is_named_as_a_path() {
        let (folder, runs) = runs(&["2026a"]);
        let path = folder.path().to_str().unwrap();
        for wanted in [path, "./nowhere"] {
            let error = runs.find(wanted).unwrap_err();
            assert_eq!(error.to_string(), format!("{wanted} is not a record: it has no plan.json"));
            assert_eq!(error.remedy(), "check the path");
        }
    }
}
