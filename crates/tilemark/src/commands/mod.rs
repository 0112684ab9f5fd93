//! One file for each command. Each gives the exit code of the program.

mod about;
mod baseline;
mod broker;
mod compare;
mod data;
mod doctor;
mod fleet;
mod guests;
mod host;
mod host_pin;
mod image;
mod load;
mod load_store;
mod plan;
mod recover;
mod report;
mod run;
mod runs;
mod scenarios;
mod trend;

use crate::{
    arguments::{Command, GuestsCommand, HostCommand, ImageCommand, RunsCommand},
    places::places,
    screen::{self, Form},
};
use std::process::ExitCode;

/// Whether a command counts Ctrl-C and ends in order. The broker hears of it by itself; all others have nothing to keep or to
/// restore, and just end.
pub(crate) fn ends_in_order(command: &Command) -> bool {
    match command {
        Command::Quick(_)
        | Command::Run(_)
        | Command::Capacity(_)
        | Command::Interference(_)
        | Command::Ab(_)
        | Command::Load(_)
        | Command::Data(_) => true,
        Command::Guests(command) => matches!(command, GuestsCommand::Up(_)),
        Command::Image(command) => matches!(command, ImageCommand::Build { .. }),
        // Those that change the host must not be ended halfway. Watching ends with Ctrl-C.
        Command::Host(command) => matches!(
            command,
            HostCommand::Apply { .. }
                | HostCommand::Restore(_)
                | HostCommand::Try(_)
                | HostCommand::Pin { .. }
                | HostCommand::Unpin(_)
        ),
        Command::Doctor(_)
        | Command::Plan(_)
        | Command::Compare(_)
        // The work on the hosts goes on when the command ends.
        | Command::Fleet(_)
        | Command::Report(_)
        | Command::Runs(_)
        | Command::Broker(_)
        | Command::Scenarios(_)
        | Command::Recover(_)
        | Command::Notices
        | Command::Completion { .. }
        | Command::Man { .. } => false,
    }
}

/// Does what was asked, unless our own folders have paths that cannot be used.
pub(crate) fn dispatch(command: Command, form: Form) -> ExitCode {
    if let Err(failure) = tilemark_run::program::check_places(&places()) {
        return screen::fail(&failure, form);
    }
    match command {
        Command::Doctor(arguments) => doctor::doctor(&arguments),
        Command::Plan(arguments) => plan::plan(&arguments),
        Command::Quick(arguments) => run::quick(&arguments),
        Command::Run(arguments) => run::run(&arguments),
        Command::Capacity(arguments) => run::capacity(&arguments),
        Command::Interference(arguments) => run::interference(&arguments),
        Command::Ab(arguments) => run::ab(&arguments),
        Command::Fleet(command) => fleet::fleet(&command),
        Command::Compare(arguments) => compare::compare(&arguments),
        Command::Report(arguments) => report::report(&arguments),
        Command::Runs(arguments) => match &arguments.command {
            None => runs::list(arguments.json.json),
            Some(RunsCommand::Show { run, json }) => runs::show(run, json.json),
            Some(RunsCommand::Rm { runs: unwanted, yes, json }) => runs::remove(unwanted, *yes, json.json),
            Some(RunsCommand::Tag { run, tags, remove, json }) => runs::tag(run, tags, *remove, json.json),
            Some(RunsCommand::Note { run, text, json }) => runs::note(run, text.as_deref(), json.json),
            Some(RunsCommand::Trend { scenario, html, json }) => {
                trend::trend(scenario, html.as_deref(), json.json)
            }
            Some(RunsCommand::Baseline { name, runs: of_set, remove, json }) => {
                baseline::baseline(name.as_deref(), of_set, *remove, json.json)
            }
        },
        Command::Guests(command) => guests::guests(command),
        Command::Load(command) => load::load(command),
        Command::Data(command) => data::data(&command),
        Command::Broker(arguments) => broker::broker(arguments),
        Command::Image(command) => image::image(command),
        Command::Host(command) => host::host(command),
        Command::Scenarios(command) => scenarios::scenarios(command),
        Command::Recover(flags) => recover::recover(flags.json),
        Command::Notices => about::notices(),
        Command::Completion { shell } => about::completion(shell),
        Command::Man { folder } => about::man(&folder, form),
    }
}
