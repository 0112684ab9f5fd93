//! `tilemark run`, `capacity`, `interference`, `host try`, `quick` and `ab`: all that measure.

use crate::{
    arguments::{
        AbArguments, CapacityArguments, Continuing, InterferenceArguments, Measuring, QuickArguments,
        RunArguments, TryArguments,
    },
    asked,
    carried::PROGRAM,
    exit,
    places::places,
    screen::{self, Form, Watcher},
    site::with_site,
};
use std::process::ExitCode;
use tilemark_record::{
    RunDirectory,
    result::{Hooks, Provenance},
};
use tilemark_run::{
    failure::Failure,
    host::apply::{self, Consent},
    job::lock::WhenBusy,
    plan::prepare::Asked,
    plan_words::shell_word,
    run::command::{self, Measured, RunRequest},
    run::compare::{self, Tolerance},
    run::continue_record::RecordToContinue,
    run::keep,
    run::record,
    stop::interrupted,
};

/// `tilemark run`
pub(crate) fn run(arguments: &RunArguments) -> ExitCode {
    let asked = with_site(asked::of_run(arguments), &arguments.site);
    let more = which(&arguments.continuing);
    finish(asked.and_then(|asked| measured(asked, &arguments.measuring, more)), &arguments.measuring)
}

/// `tilemark capacity`
pub(crate) fn capacity(arguments: &CapacityArguments) -> ExitCode {
    let asked = with_site(asked::of_capacity(arguments), &arguments.site);
    let more = which(&arguments.continuing);
    finish(asked.and_then(|asked| measured(asked, &arguments.measuring, more)), &arguments.measuring)
}

/// `tilemark interference`
pub(crate) fn interference(arguments: &InterferenceArguments) -> ExitCode {
    let asked = with_site(asked::of_interference(arguments), &arguments.site);
    finish(asked.and_then(|asked| measured(asked, &arguments.measuring, None)), &arguments.measuring)
}

/// `tilemark host try`
pub(crate) fn host_try(arguments: &TryArguments) -> ExitCode {
    let form = Form::of(arguments.measuring.json);
    if let Err(failure) = arguments.keep.as_deref().map_or(Ok(()), |path| keep::check(path, &places())) {
        return screen::fail(&failure, form);
    }
    let outcome = measured(asked::of_try(arguments), &arguments.measuring, None);
    let (Ok(measured), Some(path)) = (&outcome, &arguments.keep) else {
        return finish(outcome, &arguments.measuring);
    };
    let applied = |name: &str, consent: &Consent| apply::apply(&places(), name, consent);
    match keep::keep(&measured.result, path, &applied) {
        Err(failure) => screen::fail(&failure, form),
        Ok(kept) => {
            screen::note(&kept.said);
            let code = finish(outcome, &arguments.measuring);
            // The one document of `--json` is the result; this goes to standard error.
            kept.failed.map_or(code, |failure| screen::fail(&failure, Form::Text))
        }
    }
}

/// `tilemark quick`: guests if this host runs them at speed; else the native capacity, and a tile of
/// emulated guests to see whether they work.
pub(crate) fn quick(arguments: &QuickArguments) -> ExitCode {
    let asked = asked::of_quick(arguments);
    finish(measured(asked, &arguments.measuring, which(&arguments.continuing)), &arguments.measuring)
}

/// `tilemark ab`
pub(crate) fn ab(arguments: &AbArguments) -> ExitCode {
    let form = Form::of(arguments.measuring.json);
    let no_verdict = |failure: &Failure, form| {
        let code = screen::fail(failure, form);
        if arguments.verdict.exit_verdict { exit::no_verdict(failure, interrupted()) } else { code }
    };
    // Before anything is measured for minutes.
    let asked_for = &arguments.verdict;
    let tolerance = match Tolerance::read(&asked_for.tolerance, asked_for.tolerance_p99.as_deref()) {
        Ok(tolerance) => tolerance,
        Err(failure) => return no_verdict(&failure, form),
    };
    let asked = with_site(asked::of_ab(arguments), &arguments.site);
    let outcome = asked.and_then(|asked| measured(asked, &arguments.measuring, None));
    if !arguments.verdict.exit_verdict {
        return finish(outcome, &arguments.measuring);
    }
    let judged = outcome.and_then(|measured| {
        let code = compare::exit_verdict_of_sides(&RunDirectory::at(&measured.record), tolerance)?;
        show(&measured, form)?;
        Ok((measured, code))
    });
    match judged {
        Err(failure) => no_verdict(&failure, form),
        Ok((measured, code)) => match failed(&measured) {
            Some(failure) => no_verdict(&failure, Form::Text),
            // The user ended it: what its whole repeats show must not let a bisection go on.
            None if interrupted() => ExitCode::from(exit::STOP_BISECT),
            None => ExitCode::from(code),
        },
    }
}

/// The record that is to be continued, if one is.
fn which(continuing: &Continuing) -> Option<RecordToContinue> {
    continuing.more.clone().map(|run| run.map_or(RecordToContinue::Newest, RecordToContinue::Named))
}

fn measured(
    asked: Asked,
    measuring: &Measuring,
    more: Option<RecordToContinue>,
) -> Result<Measured, Failure> {
    let request = RunRequest {
        asked,
        output: measuring.output.clone(),
        offline: measuring.offline,
        when_busy: match (measuring.not_alone, measuring.wait) {
            (true, _) => None,
            (false, true) => Some(WhenBusy::Wait),
            (false, false) => Some(WhenBusy::Stop),
        },
        continues: more,
        command: command_line(),
        hooks: Hooks { before: measuring.hook_before.clone(), after: measuring.hook_after.clone() },
        wait_quiet: measuring.wait_quiet,
    };
    command::run(&PROGRAM, &places(), &request, &mut Watcher::new())
}

/// The command as typed.
fn command_line() -> String {
    let arguments = std::env::args_os().skip(1).map(|argument| shell_word(&argument.to_string_lossy()));
    std::iter::once("tilemark".to_owned()).chain(arguments).collect::<Vec<_>>().join(" ")
}

fn finish(outcome: Result<Measured, Failure>, measuring: &Measuring) -> ExitCode {
    let form = Form::of(measuring.json);
    match outcome.and_then(|measured| show(&measured, form).map(|()| measured)) {
        Err(failure) => screen::fail(&failure, form),
        Ok(measured) => match failed(&measured) {
            // The one document of `--json` is the result; this goes to standard error.
            Some(failure) => screen::fail(&failure, Form::Text),
            None => ExitCode::from(exit::exit_code(measured.result.verdict.status)),
        },
    }
}

/// What went wrong in a run whose record is whole, if something did.
fn failed(measured: &Measured) -> Option<Failure> {
    command::not_restored(&measured.result)
        .or_else(|| measured.failed.clone())
        .or_else(|| guest_failed(measured))
}

/// A guest that failed in a run that was measured to its end.
fn guest_failed(measured: &Measured) -> Option<Failure> {
    let found = record::guest_that_ended(&RunDirectory::at(&measured.record));
    found.unwrap_or_else(|error| Some(error.into()))
}

fn show(measured: &Measured, form: Form) -> Result<(), Failure> {
    match form {
        Form::Json => screen::print_json(&measured.result),
        Form::Text => {
            let report = record::report_of(&RunDirectory::at(&measured.record))?;
            screen::print_painted(&tilemark_report::terminal(&report, screen::style()));
            screen::note(&format!("\nReport: {}", measured.record.join("report.html").display()));
            restored(&measured.result.provenance).iter().for_each(|line| screen::note(line));
            screen::note(&format!(
                "What stays: this record, the image cache in {}, and installed packages.",
                places().cache.display()
            ));
        }
    }
    Ok(())
}

/// What is printed about the machine. What is left on it is an error of its own.
fn restored(provenance: &Provenance) -> Vec<String> {
    if provenance.as_it_was != Some(true) {
        return Vec::new();
    }
    let changed = &provenance.changed_by_others;
    if changed.is_empty() {
        return vec!["Your machine was restored.".to_owned()];
    }
    let first = "Your machine was restored, except settings that another program has changed; those were not restored:";
    std::iter::once(first.to_owned()).chain(changed.iter().map(|setting| format!("  {setting}"))).collect()
}
