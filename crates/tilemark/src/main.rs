//! The command: flags, dispatch, and what a person or a program reads of the outcome.

#![deny(clippy::print_stdout, clippy::print_stderr)]

mod arguments;
mod asked;
mod carried;
mod commands;
mod exit;
mod fleet_failure;
mod help;
mod places;
mod records;
mod screen;
mod site;
mod values;

use arguments::{Arguments, unplanned_command, with_planned_command};
use carried::PROGRAM;
use clap::{FromArgMatches, error::ErrorKind};
use screen::Form;
use std::{panic::catch_unwind, process::ExitCode};

/// What the user asked for.
fn parsed() -> Result<Arguments, clap::Error> {
    let mut command = help::command();
    let given = with_planned_command(std::env::args_os());
    if let Some(named) = unplanned_command(&given) {
        let message = format!(
            "`plan` cannot plan `{named}`. It plans `run`, `capacity`, `ab`, `interference`, `host try` and `quick`; `plan SCENARIO` is `plan run SCENARIO`"
        );
        command.build();
        let plan = command.find_subcommand_mut("plan").expect("`plan` is a command");
        return Err(plan.error(ErrorKind::InvalidSubcommand, message));
    }
    let mut matches = command.try_get_matches_from_mut(given)?;
    Arguments::from_arg_matches_mut(&mut matches).map_err(|error| error.format(&mut command))
}

fn main() -> ExitCode {
    let given: Vec<String> =
        std::env::args_os().skip(1).map(|argument| argument.to_string_lossy().into_owned()).collect();
    if let Some(code) = tilemark_run::internal_main(&PROGRAM, &given) {
        return code;
    }
    let arguments = match parsed() {
        Ok(arguments) => arguments,
        Err(error) => return screen::ended(screen::refuse_flags(&error, &given)),
    };
    if commands::ends_in_order(&arguments.command) {
        tilemark_run::stop::count_interrupts();
    }
    let form = Form::of(given.iter().any(|argument| argument == "--json"));
    let done = || commands::dispatch(arguments.command, form);
    if exit::asks_verdict(&given) {
        // The panic itself reports what was going on.
        return screen::ended(catch_unwind(done).unwrap_or(ExitCode::from(exit::STOP_BISECT)));
    }
    screen::ended(done())
}
