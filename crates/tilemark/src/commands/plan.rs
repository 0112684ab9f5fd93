//! `tilemark plan`: what a command that measures would do, and what would stop it.

use crate::{
    arguments::{Continuing, Measuring, PlanArguments, PlanCommand, PlanHostCommand},
    asked,
    carried::PROGRAM,
    places::places,
    screen::{self, Form},
    site::with_site,
};
use std::process::ExitCode;
use tilemark_run::{
    clients::look,
    failure::{Failure, FailureCode},
    plan::checks::{self, Looked},
    plan::prepare::{Asked, Prepared, prepare, resolved},
    plan::text,
    run::compare::Tolerance,
    run::keep,
};

/// Prints what would be done, or the reason why it cannot be.
pub(crate) fn plan(arguments: &PlanArguments) -> ExitCode {
    match &arguments.command {
        PlanCommand::Run { arguments, form } => {
            let asked = with_site(asked::of_run(arguments), &arguments.site);
            show(asked, &arguments.measuring, Some(&arguments.continuing), form.resolved)
        }
        PlanCommand::Capacity { arguments, form } => {
            let asked = with_site(asked::of_capacity(arguments), &arguments.site);
            show(asked, &arguments.measuring, Some(&arguments.continuing), form.resolved)
        }
        PlanCommand::Ab { arguments, form } => {
            let verdict = &arguments.verdict;
            let tolerance = Tolerance::read(&verdict.tolerance, verdict.tolerance_p99.as_deref());
            let asked = tolerance.and_then(|_| with_site(asked::of_ab(arguments), &arguments.site));
            show(asked, &arguments.measuring, None, form.resolved)
        }
        PlanCommand::Interference { arguments, form } => {
            let asked = with_site(asked::of_interference(arguments), &arguments.site);
            show(asked, &arguments.measuring, None, form.resolved)
        }
        PlanCommand::Host(PlanHostCommand::Try { arguments, form }) => {
            let kept = arguments.keep.as_deref().map_or(Ok(()), |path| keep::check(path, &places()));
            show(kept.map(|()| asked::of_try(arguments)), &arguments.measuring, None, form.resolved)
        }
        PlanCommand::Quick { arguments, form } => {
            let asked = Ok(asked::of_quick(arguments));
            show(asked, &arguments.measuring, Some(&arguments.continuing), form.resolved)
        }
    }
}

fn show(
    asked: Result<Asked, Failure>,
    measuring: &Measuring,
    continuing: Option<&Continuing>,
    as_resolved: bool,
) -> ExitCode {
    let form = Form::of(measuring.json);
    let planned = continuing.map_or(Ok(()), nothing_continued).and_then(|()| looked_at(&asked?, measuring));
    match planned {
        Err(failure) => screen::fail(&failure, form),
        Ok((prepared, looked)) => {
            let clients = match form {
                Form::Text if as_resolved => None,
                _ => prepared.site.as_ref().map(|site| look::look(&PROGRAM, site)),
            };
            match form {
                Form::Json => match &clients {
                    Some(clients) => screen::print_json(&look::with_clients(&prepared.plan, clients)),
                    None => screen::print_json(&prepared.plan),
                },
                Form::Text if as_resolved => match resolved(&prepared) {
                    Ok(text) => screen::print_text(&text),
                    Err(failure) => return screen::fail(&failure, form),
                },
                Form::Text => {
                    screen::print_text(&text::of(&prepared, &looked));
                    if let Some(clients) = &clients {
                        screen::print_text(&format!("\nClients: {}", look::text(clients)));
                    }
                }
            }
            let unusable = clients.as_deref().and_then(look::unusable);
            unusable.map_or(ExitCode::SUCCESS, |failure| screen::fail(&failure, Form::Text))
        }
    }
}

/// What further repeats would do depends on what the record's repeats show.
fn nothing_continued(continuing: &Continuing) -> Result<(), Failure> {
    if continuing.more.is_none() {
        return Ok(());
    }
    Err(Failure::new(FailureCode::BadInput, "`plan` does not take `--more`", "leave it out"))
}

fn looked_at(asked: &Asked, measuring: &Measuring) -> Result<(Prepared, Looked), Failure> {
    let prepared = prepare(asked)?;
    let looked = checks::look(&prepared, &places(), measuring.output.as_deref(), measuring.offline)?;
    Ok((prepared, looked))
}
