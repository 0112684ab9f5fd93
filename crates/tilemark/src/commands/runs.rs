//! `tilemark runs`, and its `show`, `rm`, `tag` and `note`.

use crate::{
    places::{places, roots_are_apart},
    records::{find, notes, tags_of},
    screen::{self, Form},
};
use serde_json::{Value, json};
use std::{collections::BTreeSet, process::ExitCode};
use tilemark_record::{Baselines, NoAnswer, RunDirectory, RunNotes, Runs, result::VerdictStatus};
use tilemark_run::failure::{Failure, FailureCode};

/// Longest tag.
const TAG_MAX: usize = 64;
/// Longest note, in bytes.
const NOTE_MAX: usize = 4096;

/// Lists what was measured.
pub(crate) fn list(is_json: bool) -> ExitCode {
    let listed = Runs::new(&places().runs).list();
    match Form::of(is_json) {
        Form::Json => {
            let document: Vec<_> = listed
                .iter()
                .map(|run| {
                    serde_json::json!({
                        "id": run.id, "path": run.path, "verdict": run.verdict, "sentence": run.sentence,
                        "began": run.began, "host": run.host, "no_answer": run.no_answer, "error": run.error,
                        "tags": tags_of(&RunDirectory::at(&run.path)).unwrap_or_default(),
                    })
                })
                .collect();
            screen::print_json(&serde_json::json!({ "runs": document }));
        }
        Form::Text if listed.is_empty() => {
            screen::print_text(&format!(
                "No runs yet. `tilemark quick` makes one.{}",
                roots_are_apart("runs")
            ));
        }
        Form::Text => {
            for run in &listed {
                let verdict = match run.verdict {
                    Some(VerdictStatus::Trusted) => "trusted",
                    Some(VerdictStatus::NotTrusted) => "not trusted",
                    Some(VerdictStatus::CannotTell) => "cannot tell",
                    None => run.no_answer.map_or("", NoAnswer::words),
                };
                let words = run.sentence.as_deref().or(run.error.as_deref()).unwrap_or("");
                screen::print_text(&format!("{}  {verdict:<12}  {words}", run.id));
            }
        }
    }
    ExitCode::SUCCESS
}

/// Shows one run.
pub(crate) fn show(run: &str, is_json: bool) -> ExitCode {
    screen::show(shown(run), Form::of(is_json), |document| {
        let said = |key: &str| document[key].as_str().unwrap_or_default().to_owned();
        let tags: Vec<&str> =
            document["tags"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        let mut lines = vec![said("id"), format!("  {}", said("sentence"))];
        for key in ["verdict", "began", "host", "kernel", "qemu", "command", "path"] {
            lines.push(format!("  {key:<8} {}", document[key].as_str().unwrap_or("none")));
        }
        lines.push(format!(
            "  {:<8} {}",
            "tags",
            if tags.is_empty() { "none".to_owned() } else { tags.join(", ") }
        ));
        lines.push(format!(
            "  {:<8} {}",
            "note",
            document["note"].as_str().filter(|note| !note.is_empty()).unwrap_or("none")
        ));
        lines.join("\n")
    })
}

fn shown(run: &str) -> Result<Value, Failure> {
    let record = find(run)?;
    record.verify()?;
    let result = record.result()?;
    let RunNotes { tags, note } = notes().of(&record)?;
    let provenance = &result.provenance;
    Ok(json!({
        "id": result.run, "scenario": result.scenario, "verdict": result.verdict.status, "sentence": result.sentence,
        "began": provenance.began, "host": provenance.host, "kernel": provenance.kernel, "qemu": provenance.qemu,
        "command": provenance.command, "path": record.path(), "tags": tags, "note": note,
    }))
}

/// Removes records.
pub(crate) fn remove(runs: &[String], yes: bool, is_json: bool) -> ExitCode {
    screen::show(removed(runs, yes), Form::of(is_json), |document| {
        let paths = document["removed"].as_array().into_iter().flatten().filter_map(Value::as_str);
        paths.map(|path| format!("removed {path}")).collect::<Vec<_>>().join("\n")
    })
}

fn removed(runs: &[String], yes: bool) -> Result<Value, Failure> {
    // All are found before the first is removed.
    let records: Result<Vec<RunDirectory>, Failure> = runs.iter().map(|run| find(run)).collect();
    let mut records = records?;
    // Two names may be of one run.
    let mut known = BTreeSet::new();
    records.retain(|record| known.insert(whole(record).path().to_owned()));
    let paths: Vec<String> = records.iter().map(|record| record.path().display().to_string()).collect();
    if !yes {
        let message = format!("nothing was removed; these would be: {}", paths.join(", "));
        return Err(Failure::new(FailureCode::BadInput, message, "give `--yes` to remove them"));
    }
    let (notes, baselines) = (notes(), Baselines::new(&places().runs));
    for record in records {
        let whole = whole(&record);
        record.remove()?;
        // What was written of it goes with it, unless somebody holds the files of notes and baselines back.
        let _ = notes.change(&whole, |own| *own = RunNotes::default());
        let _ = baselines.forget(&whole);
    }
    Ok(json!({ "removed": paths }))
}

/// A record by its whole path, which names it also when it is gone.
fn whole(record: &RunDirectory) -> RunDirectory {
    std::fs::canonicalize(record.path()).map_or_else(|_| record.clone(), |path| RunDirectory::at(&path))
}

/// Adds tags to a run, or takes them away.
pub(crate) fn tag(run: &str, tags: &[String], take_away: bool, is_json: bool) -> ExitCode {
    screen::show(tagged(run, tags, take_away), Form::of(is_json), |document| {
        let tags: Vec<&str> =
            document["tags"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        format!(
            "{}: {}",
            document["id"].as_str().unwrap_or_default(),
            if tags.is_empty() { "no tags".to_owned() } else { tags.join(", ") }
        )
    })
}

fn tagged(run: &str, tags: &[String], take_away: bool) -> Result<Value, Failure> {
    let is_plain = |tag: &str| {
        !tag.is_empty()
            && tag.len() <= TAG_MAX
            && tag.chars().all(|each| each.is_ascii_alphanumeric() || ".-_".contains(each))
    };
    if let Some(odd) = tags.iter().find(|tag| !is_plain(tag)) {
        let message = format!("`{odd}` cannot be a tag");
        let remedy = format!(
            "use at most {TAG_MAX} letters, digits, `.`, `-` and `_`; for a sentence: `tilemark runs note`"
        );
        return Err(Failure::new(FailureCode::BadInput, message, remedy));
    }
    let record = find(run)?;
    let own = if tags.is_empty() {
        notes().of(&record)?
    } else {
        notes().change(&record, |own| {
            for tag in tags {
                if take_away {
                    own.tags.remove(tag)
                } else {
                    own.tags.insert(tag.clone())
                };
            }
        })?
    };
    Ok(json!({ "id": id_of(&record), "tags": own.tags }))
}

/// Writes or prints the note of a run.
pub(crate) fn note(run: &str, text: Option<&str>, is_json: bool) -> ExitCode {
    screen::show(noted(run, text), Form::of(is_json), |document| {
        let note = document["note"].as_str().filter(|note| !note.is_empty()).unwrap_or("no note");
        format!("{}: {note}", document["id"].as_str().unwrap_or_default())
    })
}

fn noted(run: &str, text: Option<&str>) -> Result<Value, Failure> {
    if let Some(long) = text.filter(|text| text.len() > NOTE_MAX) {
        let message = format!("a note of {} bytes is longer than {NOTE_MAX}", long.len());
        return Err(Failure::new(FailureCode::BadInput, message, "shorten it"));
    }
    let record = find(run)?;
    let own = match text {
        None => notes().of(&record)?,
        Some(text) => notes().change(&record, |own| own.note = text.trim().to_owned())?,
    };
    Ok(json!({ "id": id_of(&record), "note": own.note }))
}

fn id_of(record: &RunDirectory) -> String {
    record.path().file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
}
