//! `tilemark runs baseline`: named sets of runs to compare with.

use crate::{
    places::places,
    records::found,
    screen::{self, Form},
};
use std::{collections::BTreeMap, process::ExitCode};
use tilemark_record::{Baselines, Runs};
use tilemark_run::failure::{Failure, FailureCode};

/// Adds, lists or removes.
pub(crate) fn baseline(name: Option<&str>, runs: &[String], remove: bool, json: bool) -> ExitCode {
    let form = Form::of(json);
    match changed(name, runs, remove) {
        Err(failure) => screen::fail(&failure, form),
        Ok(baselines) => {
            match form {
                Form::Json => screen::print_json(&serde_json::json!({ "baselines": baselines })),
                Form::Text if baselines.is_empty() => {
                    screen::print_text("No baselines yet. `tilemark runs baseline NAME RUN...` makes one.")
                }
                Form::Text => baselines.iter().for_each(|(name, runs)| {
                    screen::print_text(&format!("{name}: {}", words(runs)));
                }),
            }
            ExitCode::SUCCESS
        }
    }
}

fn words(runs: &[String]) -> String {
    if runs.is_empty() { "removed".to_owned() } else { runs.join(", ") }
}

/// Does it, and returns what is listed: the named one, or all.
fn changed(
    name: Option<&str>,
    runs: &[String],
    remove: bool,
) -> Result<BTreeMap<String, Vec<String>>, Failure> {
    let baselines = Baselines::new(&places().runs);
    let Some(name) = name else { return Ok(baselines.all()?) };
    check(name)?;
    let known = baselines.find(name)?;
    let own = match (remove, known) {
        (_, None) if remove || runs.is_empty() => {
            let message = format!("no baseline is called `{name}`");
            let remedy =
                "`tilemark runs baseline` lists all; add runs with `tilemark runs baseline NAME RUN...`";
            return Err(Failure::new(FailureCode::BadInput, message, remedy));
        }
        (true, own) => baselines.remove(name, &called(&baselines, runs, &own.unwrap_or_default())?)?,
        (false, Some(own)) if runs.is_empty() => own,
        (false, _) => baselines.add(name, &found(runs)?)?,
    };
    Ok([(name.to_owned(), own)].into())
}

/// What runs are called in a baseline that has these. One that is named as there need not exist any more.
fn called(baselines: &Baselines, runs: &[String], own: &[String]) -> Result<Vec<String>, Failure> {
    let known = Runs::new(&places().runs);
    let called = |run: &String| match own.contains(run) {
        true => Ok(run.clone()),
        false => Ok(baselines.called(&known.find(run)?)),
    };
    runs.iter().map(called).collect()
}

/// A name that cannot be taken for a run: ids begin with a digit.
fn check(name: &str) -> Result<(), Failure> {
    let is_plain = name.chars().all(|each| each.is_ascii_alphanumeric() || "-_".contains(each));
    if is_plain && name.starts_with(|each: char| each.is_ascii_alphabetic()) && name != "last" {
        return Ok(());
    }
    Err(Failure::new(
        FailureCode::BadInput,
        format!("`{name}` cannot be the name of a baseline"),
        "use letters, digits, `-` and `_`, with a letter first; `last` is the newest run",
    ))
}
