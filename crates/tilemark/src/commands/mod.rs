//! One file for each command. Each gives the exit code of the program.

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
    arguments::{Command, GuestsCommand, HostCommand, ImageCommand, On, RunsCommand},
    help,
    screen::{self, Form},
};
use std::{collections::BTreeMap, path::Path, process::ExitCode};
use tilemark_record::places::{Places, Surroundings};
use tilemark_run::{plan_words::Backend, run::result::write_pages};

/// Our own licence is at the end of it too.
const LICENCES: &str = concat!(
    "Tilemark is under the Apache License 2.0; its text is at the end.\n\n",
    include_str!("../../../../THIRD-PARTY-NOTICES.txt")
);

/// Something of the host was left as another program set it.
const NOT_RESTORED: u8 = 6;
/// Something of the host keeps the command from its work.
const HOST_UNFIT: u8 = 3;

/// Whether a command counts Ctrl-C and ends in order. The broker hears of it by itself; all others have nothing to keep or to
/// give back, and just end.
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

/// Where those of root are, for an ordinary user who sees none; nothing for root.
fn roots_are_apart(command: &str) -> String {
    if tilemark_run::program::is_root() {
        String::new()
    } else {
        format!(" Those of root: `sudo tilemark {command}`.")
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
            None => report::runs(arguments.json.json),
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
        Command::Notices => {
            screen::print_text(LICENCES);
            ExitCode::SUCCESS
        }
        Command::Completion { shell } => {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut help::command(), "tilemark", &mut script);
            screen::print_text(&String::from_utf8_lossy(&script));
            ExitCode::SUCCESS
        }
        Command::Man { folder } => man(&folder, form),
    }
}

fn man(folder: &Path, form: Form) -> ExitCode {
    match write_pages(folder, &help::manual()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => screen::fail(&failure, form),
    }
}

/// Where this user's things are.
fn places() -> Places {
    Places::of(&Surroundings::of_this_process())
}

/// The backend that a flag names; `None`: kvm, or stop.
fn backend(on: On) -> Option<Backend> {
    match on {
        On::Auto => None,
        On::Kvm => Some(Backend::Kvm),
        On::Emulated => Some(Backend::Emulated),
        On::Native => Some(Backend::Native),
    }
}

/// Settings by key; the last one of a key counts.
fn settings(pairs: &[(String, String)]) -> BTreeMap<String, String> {
    pairs.iter().cloned().collect()
}
