//! `tilemark guests`

use crate::{
    arguments::{GuestsCommand, GuestsUpArguments},
    asked::{backend, settings},
    fleet_failure,
    places::places,
    screen::{self, Form, Watcher},
    site::wanted_bridge,
};
use std::{
    collections::BTreeMap,
    io::{stderr, stdout},
    path::Path,
    process::ExitCode,
};
use tilemark_run::{
    WantedBridge,
    failure::{Failure, FailureCode},
    guests_up::command::{self as guests, UpRequest},
    job::types::GuestsReady,
    plan_words::counted,
};
use tilemark_site::Site;

/// Starts, lists, talks to and ends guests.
pub(crate) fn guests(command: GuestsCommand) -> ExitCode {
    match command {
        GuestsCommand::Up(arguments) => up(&arguments),
        GuestsCommand::List(flags) => list(Form::of(flags.json)),
        GuestsCommand::Exec { guest, command } => exec(&guest, &command),
        GuestsCommand::Console { guest } => console(&guest),
        GuestsCommand::Down { id, json } => down(id.as_deref(), Form::of(json.json)),
    }
}

fn up(arguments: &GuestsUpArguments) -> ExitCode {
    let form = Form::of(arguments.json);
    let network = match arguments.site.as_deref().map(network).transpose() {
        Ok(network) => network,
        Err(failure) => return screen::fail(&failure, form),
    };
    let request = UpRequest {
        count: arguments.count,
        role: arguments.role.clone(),
        on: backend(arguments.on),
        start: if arguments.boot { "boot" } else { "clone" }.to_owned(),
        memory: arguments.memory.to_string(),
        settings: settings(&arguments.set),
        read_memory: !arguments.no_memory,
        offline: arguments.offline,
        network,
    };
    let mut watcher = Watcher::new();
    let outcome = guests::up(&places(), &request, &mut watcher);
    drop(watcher);
    screen::show(outcome, form, described)
}

/// The bridge that a site file names. Its client machines send nothing to guests that nobody measures.
fn network(path: &Path) -> Result<WantedBridge, Failure> {
    let site = Site::read_for_run(path).map_err(fleet_failure::failure)?;
    wanted_bridge(&site).ok_or_else(|| {
        Failure::new(
            FailureCode::BadInput,
            format!("the site file {} has no [network], and `guests up` uses nothing else of it", path.display()),
            "add `[network]` with bridge and addresses (docs/own-bridge.md); to have loads from client machines, \
             use `tilemark run SCENARIO --site FILE`",
        )
    })
}

fn described(ready: &GuestsReady) -> String {
    let Some(seconds) = ready.seconds_to_ready else {
        return format!("{}: {} guests are being started", ready.id, ready.backend.name());
    };
    let memory = ready.pss_mib_per_guest.map(|mib| format!(", {mib:.1} MiB each")).unwrap_or_default();
    let mut lines = vec![format!(
        "{}: {} ready in {:.2} s (p50 {:.2}, p99 {:.2}){memory}",
        ready.id,
        counted(ready.ready, &format!("{} guest", ready.backend.name())),
        seconds.max,
        seconds.p50,
        seconds.p99,
    )];
    lines.extend(ready.guests.iter().map(|guest| {
        let how = guest.ended.as_ref().map_or(guest.how.clone(), |ended| format!("ended: {ended}"));
        let pid = guest.pid.map_or_else(|| "-".to_owned(), |pid| pid.to_string());
        let place = guest.place.as_ref().map(|place| format!("  {place}")).unwrap_or_default();
        let line =
            format!("  {:<20} {:<15} {}  {pid:>8}  {how}{place}", guest.name, guest.address, guest.mac);
        let elsewhere = guest.elsewhere.as_ref().map(|what| format!("\n    not where it was put: {what}"));
        line + &elsewhere.unwrap_or_default()
    }));
    if ready.is_on_emulated_host() {
        lines.push("This host is itself emulated: these times mean nothing.".to_owned());
    }
    lines.push("End them with `tilemark guests down`.".to_owned());
    lines.join("\n")
}

fn list(form: Form) -> ExitCode {
    if !tilemark_run::program::is_root() {
        screen::note(
            "Guests are started by root and kept in its folder: `sudo tilemark guests list` shows them.",
        );
    }
    let listed = guests::list(&places()).map(|listed| {
        listed.left.iter().for_each(|left| screen::note(left));
        listed.kept
    });
    screen::show_list(listed, form, "guests", ("No guests.", described))
}

fn exec(guest: &str, command: &[String]) -> ExitCode {
    match guests::execute(&places(), guest, command) {
        Err(failure) => screen::fail(&failure, Form::Text),
        Ok(executed) => {
            screen::pass_on(stdout(), &executed.output);
            screen::pass_on(stderr(), &executed.error);
            executed.cuts().iter().for_each(|cut| screen::note(cut));
            ExitCode::from(u8::try_from(executed.code).unwrap_or(1))
        }
    }
}

fn console(guest: &str) -> ExitCode {
    let printed = guests::console(&places(), guest).and_then(|path| {
        let read = std::fs::read(&path);
        read.map_err(|error| Failure {
            code: FailureCode::HostUnfit,
            message: format!("cannot read {}", path.display()),
            causes: vec![error.to_string()],
            remedy: "be root".to_owned(),
        })
    });
    match printed {
        Err(failure) => screen::fail(&failure, Form::Text),
        Ok(text) => {
            screen::print_text(&String::from_utf8_lossy(&text));
            ExitCode::SUCCESS
        }
    }
}

fn down(id: Option<&str>, form: Form) -> ExitCode {
    let ended = guests::down(&places(), id).map(|ended| BTreeMap::from([("ended", ended)]));
    screen::show(ended, form, |ended| match ended["ended"].as_slice() {
        [] => "No guests.".to_owned(),
        some => format!("Ended {}; nothing of them is left.", some.join(", ")),
    })
}
