//! The end of a run: its repeats are judged, the result and the report written, the record closed.

use crate::{
    failure::{Failure, place_failed},
    job::types::RunDone,
    run::record::{plan_as_run, report_of},
};
use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};
use tilemark_plan::plan::Plan;
use tilemark_record::{
    RecordError, RunDirectory,
    result::{JUDGED_BY, Provenance, RESULT_SCHEMA, RunResult},
    summary::RepeatSummary,
};
use tilemark_report::Report;
use tilemark_statistics::judge::judge_run;
use tilemark_sys::files::{Distrust, OPEN_FOLDER, Place, distrust};

/// Judges what is in a record, writes result and report, and closes it.
pub fn close(
    record: &RunDirectory,
    id: &str,
    provenance: Provenance,
    idle_power_w: Option<f64>,
    done: &RunDone,
) -> Result<RunResult, RecordError> {
    let plan = plan_as_run(record)?;
    let repeats = record.summaries()?;
    let result = RunResult { idle_power_w, ..result(&plan, &repeats, id, provenance, done) };
    record.write_json("result.json", &result)?;
    draw(record, &report_of(record)?)?;
    remove_empty(&record.path().join("guests"));
    record.close()?;
    Ok(result)
}

/// What the repeats in a record say by themselves, without what its run added.
pub(crate) fn judged_again(record: &RunDirectory, had: &RunResult) -> Result<RunResult, RecordError> {
    let (plan, repeats) = (plan_as_run(record)?, record.summaries()?);
    Ok(result(&plan, &repeats, &had.run, had.provenance.clone(), &RunDone::default()))
}

fn result(
    plan: &Plan,
    repeats: &[RepeatSummary],
    id: &str,
    provenance: Provenance,
    done: &RunDone,
) -> RunResult {
    let judged = judge_run(plan, repeats, &done.reasons);
    let mut cost = judged.cost;
    if let Some(cost) = &mut cost {
        cost.unequal.extend(done.unequal.iter().cloned());
    }
    RunResult {
        schema: RESULT_SCHEMA,
        judged_by: JUDGED_BY,
        run: id.to_owned(),
        scenario: plan.scenario.name.clone(),
        preset: plan.preset.clone(),
        verdict: judged.verdict,
        answer: judged.answer,
        sentence: judged.sentence,
        cost,
        comparison: judged.comparison,
        function: judged.function,
        scaling: judged.scaling,
        interference: judged.interference,
        screening: judged.screening,
        points: judged.points,
        idle_power_w: None,
        provenance,
        missing: judged.missing,
    }
}

/// Removes folders below this one, and it, that hold no file: guests that are gone left them.
fn remove_empty(folder: &Path) {
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            remove_empty(&entry.path());
        }
    }
    // One that holds something is not empty, and stays.
    let _ = std::fs::remove_dir(folder);
}

/// Draws the report into the record.
fn draw(record: &RunDirectory, report: &Report) -> Result<(), RecordError> {
    record.write_text("report.html", &tilemark_report::html(report))?;
    record.write_text("report.csv", &tilemark_report::csv(report))
}

/// Writes a drawn page elsewhere.
///
/// # Errors
/// When a link of another user leads there, something that is no plain file is there, or the file cannot be written.
pub fn draw_to(path: &Path, text: &str) -> Result<(), Failure> {
    let place = Place::of_file(path).map_err(|error| place_failed(error, RecordError::write(path)))?;
    let written = tilemark_record::write_whole(place.path(), text.as_bytes());
    written.map_err(|error| Failure::from(error).shown_as(place.path(), path))
}

/// Writes pages into a folder, by the names of their files; the folder is made where it does not exist.
///
/// # Errors
/// When a link of another user leads there, or a page cannot be written.
pub fn write_pages(folder: &Path, pages: &BTreeMap<String, String>) -> Result<(), Failure> {
    let place = Place::of_folder(folder, OPEN_FOLDER)
        .map_err(|error| place_failed(error, RecordError::write(folder)))?;
    for (name, text) in pages {
        let written = tilemark_record::write_whole(&place.path().join(name), text.as_bytes());
        written.map_err(|error| Failure::from(error).shown_as(place.path(), folder))?;
    }
    Ok(())
}

/// What became of a page that was drawn again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Page {
    /// It is in the record.
    Written(PathBuf),
    /// The record belongs to this user and not to the caller: it stays as it is.
    OfUser(u32),
}

/// Writes a page that was drawn again into its record, if the caller owns it. Who owns a folder decides what is in it: root would
/// write into the hands of somebody else.
///
/// # Errors
/// When a link of another user leads to the record.
pub fn draw_again(record: &RunDirectory, page: &str) -> Result<Page, Failure> {
    const NAME: &str = "report.html";
    match Place::of_own_folder(record.path()) {
        Ok(place) => {
            // Where it cannot be written, as on a read-only disk, the page is there already.
            let _ = tilemark_record::write_whole(&place.path().join(NAME), page.as_bytes());
            Ok(Page::Written(record.path().join(NAME)))
        }
        Err(error) => match distrust(&error) {
            Some(Distrust::Owner { path, owner }) if path == record.path() => Ok(Page::OfUser(*owner)),
            _ => Err(place_failed(error, RecordError::write(record.path()))),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn pages_take_the_place_of_links_and_are_not_written_through_them() {
        let folder = tempfile::tempdir().unwrap();
        let (precious, manual) = (folder.path().join("precious"), folder.path().join("new/manual"));
        std::fs::write(&precious, "precious").unwrap();
        let pages = BTreeMap::from([("tilemark.1".to_owned(), "a page".to_owned())]);
        write_pages(&manual, &pages).unwrap();
        let page = manual.join("tilemark.1");
        std::fs::remove_file(&page).unwrap();
        symlink(&precious, &page).unwrap();
        write_pages(&manual, &pages).unwrap();
        let read = |path: &Path| std::fs::read_to_string(path).unwrap();
        assert_eq!((read(&page).as_str(), read(&precious).as_str()), ("a page", "precious"));
    }
}
