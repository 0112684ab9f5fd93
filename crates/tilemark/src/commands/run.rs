//! `tilemark run`, `capacity`, `quick` and `ab`: all that measure.

use super::{backend, fleet, places, settings};
use crate::{
    PROGRAM,
    arguments::{
        AbArguments, CapacityArguments, Continuing, InterferenceArguments, Measuring, QuickArguments,
        Resolution, RunArguments, SiteFile, TryArguments,
    },
    screen::{self, Form, Watcher},
};
use std::process::ExitCode;
use tilemark_record::{
    RunDirectory,
    result::{Hooks, Provenance},
};
use tilemark_run::{
    WantedBridge,
    failure::Failure,
    host::apply::{self, Consent},
    job::lock::WhenBusy,
    plan::host::demonstration,
    plan::prepare::{Asked, AskedScreening},
    plan_words::{Backend, Sides, shell_word},
    run::command::{self, Measured, RunRequest},
    run::compare::{self, Tolerance},
    run::continue_record::RecordToContinue,
    run::keep,
    run::record,
    stop::interrupted,
};
use tilemark_site::{Network, Site};

/// `tilemark run`
pub(crate) fn run(arguments: &RunArguments) -> ExitCode {
    let asked = with_site(asked_of_run(arguments), &arguments.site);
    let more = which(&arguments.continuing);
    finish(asked.and_then(|asked| measured(asked, &arguments.measuring, more)), &arguments.measuring)
}

/// What `tilemark run` is asked for.
pub(crate) fn asked_of_run(arguments: &RunArguments) -> Asked {
    Asked {
        scenario: arguments.scenario.clone(),
        tiles: arguments.tiles.clone(),
        twin: arguments.twin,
        within: arguments.within,
        ..asked(&arguments.resolution)
    }
}

/// `tilemark capacity`
pub(crate) fn capacity(arguments: &CapacityArguments) -> ExitCode {
    let asked = with_site(asked_of_capacity(arguments), &arguments.site);
    let more = which(&arguments.continuing);
    finish(asked.and_then(|asked| measured(asked, &arguments.measuring, more)), &arguments.measuring)
}

/// What `tilemark capacity` is asked for.
pub(crate) fn asked_of_capacity(arguments: &CapacityArguments) -> Asked {
    Asked {
        scenario: arguments.scenario.clone(),
        search: true,
        twin: arguments.twin,
        within: arguments.within,
        ..asked(&arguments.resolution)
    }
}

/// `tilemark interference`
pub(crate) fn interference(arguments: &InterferenceArguments) -> ExitCode {
    let asked = with_site(asked_of_interference(arguments), &arguments.site);
    finish(asked.and_then(|asked| measured(asked, &arguments.measuring, None)), &arguments.measuring)
}

/// What `tilemark interference` is asked for.
pub(crate) fn asked_of_interference(arguments: &InterferenceArguments) -> Asked {
    Asked { scenario: arguments.scenario.clone(), interference: true, ..asked(&arguments.resolution) }
}

/// `tilemark host try`
pub(crate) fn host_try(arguments: &TryArguments) -> ExitCode {
    let form = Form::of(arguments.measuring.json);
    if let Err(failure) = arguments.keep.as_deref().map_or(Ok(()), keep::check) {
        return screen::fail(&failure, form);
    }
    let outcome = measured(asked_of_try(arguments), &arguments.measuring, None);
    let (Ok(measured), Some(path)) = (&outcome, &arguments.keep) else {
        return finish(outcome, &arguments.measuring);
    };
    let applied = |name: &str, consent: &Consent| apply::apply(&places(), name, consent);
    match keep::keep(&measured.result, path, &applied) {
        Err(failure) => screen::fail(&failure, form),
        Ok(kept) => {
            screen::note(&kept.said);
            let code = finish(outcome, &arguments.measuring);
            // The one document of `--json` is the result; this goes to standard error besides.
            kept.failed.map_or(code, |failure| screen::fail(&failure, Form::Text))
        }
    }
}

/// What `tilemark host try` is asked for.
pub(crate) fn asked_of_try(arguments: &TryArguments) -> Asked {
    Asked {
        scenario: arguments.scenario.clone(),
        tiles: arguments.tiles.map(|tiles| vec![tiles]),
        screening: Some(AskedScreening {
            profile: arguments.profile.clone(),
            allow: arguments.allow.clone(),
            pairs: arguments.pairs,
        }),
        ..asked(&arguments.resolution)
    }
}

/// `tilemark quick`: guests if this host runs them at speed; else the native capacity, and a tile of
/// emulated guests to see whether they work.
pub(crate) fn quick(arguments: &QuickArguments) -> ExitCode {
    let asked = asked_of_quick(arguments);
    finish(measured(asked, &arguments.measuring, which(&arguments.continuing)), &arguments.measuring)
}

/// What `tilemark quick` is asked for on this host.
pub(crate) fn asked_of_quick(arguments: &QuickArguments) -> Asked {
    let shown = demonstration();
    if let Some(why) = &shown.why_not_kvm {
        screen::note(&format!("No capacity answer for guests on this host: {why}"));
        screen::note(
            "Measuring natively instead. One tile of emulated guests then shows whether guests work.",
        );
    }
    Asked {
        scenario: "first-look".to_owned(),
        preset: Some("quick".to_owned()),
        on: Some(shown.backend),
        // A native run is the twin itself.
        twin: shown.backend == Backend::Kvm,
        demonstrate: shown.demonstrate,
        kvm: Some(shown.kvm),
        search: true,
        within: Some(arguments.within),
        seed: arguments.seed,
        ..Asked::default()
    }
}

/// `tilemark ab`
pub(crate) fn ab(arguments: &AbArguments) -> ExitCode {
    let form = Form::of(arguments.measuring.json);
    let no_verdict = |failure: &Failure, form| {
        let code = screen::fail(failure, form);
        if arguments.verdict.exit_verdict { screen::no_verdict(failure, interrupted()) } else { code }
    };
    // Before anything is measured for minutes.
    let asked_for = &arguments.verdict;
    let tolerance = match Tolerance::read(&asked_for.tolerance, asked_for.tolerance_p99.as_deref()) {
        Ok(tolerance) => tolerance,
        Err(failure) => return no_verdict(&failure, form),
    };
    let asked = with_site(asked_of_ab(arguments), &arguments.site);
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
            None if interrupted() => ExitCode::from(screen::STOP_BISECT),
            None => ExitCode::from(code),
        },
    }
}

/// What `tilemark ab` is asked for.
pub(crate) fn asked_of_ab(arguments: &AbArguments) -> Asked {
    Asked {
        scenario: arguments.scenario.clone(),
        tiles: arguments.tiles.clone(),
        within: arguments.within,
        sides: Some(Sides { a: settings(&arguments.a), b: settings(&arguments.b) }),
        ..asked(&arguments.resolution)
    }
}

/// The same with what the site file says for a run on this host.
///
/// # Errors
/// When that file cannot be read, or is wrong.
pub(crate) fn with_site(asked: Asked, file: &SiteFile) -> Result<Asked, Failure> {
    let site = site(file)?;
    Ok(Asked { network: site.as_ref().and_then(wanted_bridge), site, ..asked })
}

/// The site of a site file, where one was given.
///
/// # Errors
/// When that file cannot be read, or is wrong.
pub(crate) fn site(file: &SiteFile) -> Result<Option<Site>, Failure> {
    file.site.as_deref().map(Site::read_for_run).transpose().map_err(fleet::failure)
}

/// The user's own bridge, where a site names one.
pub(crate) fn wanted_bridge(site: &Site) -> Option<WantedBridge> {
    let wanted = |Network { bridge, first, last }| WantedBridge { bridge, first, last };
    site.network.clone().map(wanted)
}

pub(crate) fn asked(resolution: &Resolution) -> Asked {
    Asked {
        on: backend(resolution.on),
        preset: resolution.preset.clone(),
        settings: settings(&resolution.set),
        trust: resolution.trust,
        seed: resolution.seed,
        ..Asked::default()
    }
}

/// The record that is to be continued, if one is.
pub(crate) fn which(continuing: &Continuing) -> Option<RecordToContinue> {
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

/// The command as it was typed.
fn command_line() -> String {
    let arguments = std::env::args_os().skip(1).map(|argument| shell_word(&argument.to_string_lossy()));
    std::iter::once("tilemark".to_owned()).chain(arguments).collect::<Vec<_>>().join(" ")
}

fn finish(outcome: Result<Measured, Failure>, measuring: &Measuring) -> ExitCode {
    let form = Form::of(measuring.json);
    match outcome.and_then(|measured| show(&measured, form).map(|()| measured)) {
        Err(failure) => screen::fail(&failure, form),
        Ok(measured) => match failed(&measured) {
            // The one document of `--json` is the result; this goes to standard error besides.
            Some(failure) => screen::fail(&failure, Form::Text),
            None => ExitCode::from(screen::exit_code(measured.result.verdict.status)),
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
