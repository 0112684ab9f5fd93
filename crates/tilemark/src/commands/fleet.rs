//! `tilemark fleet`: many hosts over ssh, Slurm or another command.

use super::{places, run::asked};
use crate::{
    PROGRAM,
    arguments::{FleetCommand, FleetNamed, FleetPlanArguments, FleetRunArguments, FleetWork},
    screen::{self, Form},
};
use clap::ValueEnum;
use serde::Serialize;
use std::{path::Path, process::ExitCode};
use tilemark_fleet::{
    Fleet, FleetError, FleetFolder, FleetOrder, FleetSaid, PlannedHost, Site, Watch, collect_all, fleets,
    plan, run, status,
};
use tilemark_run::{
    failure::{Failure, FailureCode},
    plan::prepare::{self, Asked},
};

/// A scenario's file is a part of the script that each host gets.
const SCENARIO_BYTES_MAX: usize = 32 << 10;
const NO_HOST_IS_FIT: u8 = 3;

/// Does what was asked of a fleet.
pub(crate) fn fleet(command: &FleetCommand) -> ExitCode {
    match command {
        FleetCommand::Plan(arguments) => planned(arguments),
        FleetCommand::Run(arguments) => {
            let form = Form::of(arguments.json.json);
            screen::show_with(measured(arguments), form, FleetSaid::text, FleetSaid::exit_code)
        }
        FleetCommand::Status(named) => {
            let form = Form::of(named.json.json);
            screen::show(doing(named), form, |doing| {
                let lines = doing.hosts.iter().map(|host| format!("{}  {}", host.name, host.doing));
                std::iter::once(format!("fleet run {}", doing.fleet))
                    .chain(lines)
                    .collect::<Vec<_>>()
                    .join("\n")
            })
        }
        FleetCommand::Collect(named) => {
            let form = Form::of(named.json.json);
            screen::show_with(collected(named), form, FleetSaid::text, FleetSaid::exit_code)
        }
    }
}

fn failure(error: FleetError) -> Failure {
    let code = if error.is_bad_input() { FailureCode::BadInput } else { FailureCode::HostUnfit };
    Failure::from_error(code, &error, error.remedy())
}

/// What is to be measured, as each host gets it.
fn new_fleet(scenario: &str, site: &Path, work: &FleetWork, at_once: Option<u16>) -> Result<Fleet, Failure> {
    let site = Site::read(site).map_err(failure)?;
    let checked =
        Asked { scenario: scenario.to_owned(), tiles: work.tiles.clone(), ..asked(&work.resolution) };
    let name = prepare::scenario_name(&checked)?;
    let is_file = scenario.contains('/') || scenario.ends_with(".toml");
    let text = if is_file { Some(prepare::text_of(scenario)?) } else { None };
    if let Some(text) = text.as_ref().filter(|text| text.len() > SCENARIO_BYTES_MAX) {
        let message = format!(
            "{scenario} has {} bytes, and a fleet's scenario at most {SCENARIO_BYTES_MAX}",
            text.len()
        );
        return Err(Failure::new(
            FailureCode::BadInput,
            message,
            "make it shorter, or put the scenario on each host and run it there",
        ));
    }
    let program_sha256 = tilemark_record::sha256_of(Path::new("/proc/self/exe"))?;
    let seed = work.resolution.seed.map_or_else(prepare::drawn_seed, Ok)?;
    let order = FleetOrder {
        flags: flags(if is_file { "./scenario.toml" } else { scenario }, work),
        scenario: name,
        scenario_text: text,
        seed,
        version: PROGRAM.version.to_owned(),
        program_sha256,
        at_once: at_once.map(usize::from),
    };
    Ok(Fleet::new(order, site, &fleets(&places())))
}

/// The flags of `tilemark` on a host.
fn flags(scenario: &str, work: &FleetWork) -> Vec<String> {
    let resolution = &work.resolution;
    let mut flags = vec![if work.capacity { "capacity" } else { "run" }.to_owned(), scenario.to_owned()];
    let mut add = |flag: &str, value: String| flags.extend([flag.to_owned(), value]);
    if let Some(on) = resolution.on.to_possible_value() {
        add("--on", on.get_name().to_owned());
    }
    resolution.preset.iter().for_each(|preset| add("--preset", preset.clone()));
    resolution.set.iter().for_each(|(key, value)| add("--set", format!("{key}={value}")));
    if let Some(tiles) = &work.tiles {
        add("--tiles", tiles.iter().map(u32::to_string).collect::<Vec<_>>().join(","));
    }
    work.within.iter().for_each(|within| add("--within", within.to_string()));
    flags.extend(
        [(resolution.trust, "--trust"), (work.offline, "--offline")]
            .iter()
            .filter(|(is_set, _)| *is_set)
            .map(|(_, flag)| (*flag).to_owned()),
    );
    flags
}

/// What `fleet plan --json` prints.
#[derive(Serialize)]
struct Planned {
    asked: usize,
    fit: usize,
    hosts: Vec<PlannedHost>,
}

fn planned(arguments: &FleetPlanArguments) -> ExitCode {
    let form = Form::of(arguments.json.json);
    let asked = || -> Result<Planned, Failure> {
        let fleet = new_fleet(&arguments.scenario, &arguments.site, &arguments.work, None)?;
        let hosts = plan(&fleet).map_err(failure)?;
        Ok(Planned { asked: hosts.len(), fit: hosts.iter().filter(|host| host.fit).count(), hosts })
    };
    screen::show_with(
        asked(),
        form,
        plan_text,
        |planned| if planned.fit < planned.asked { NO_HOST_IS_FIT } else { 0 },
    )
}

fn plan_text(planned: &Planned) -> String {
    let mut lines = vec![format!("{} asked, {} fit.", planned.asked, planned.fit)];
    for host in &planned.hosts {
        let time = host.time.as_ref().map(|time| format!(", measures for about {time}")).unwrap_or_default();
        let version =
            host.version.as_ref().map(|version| format!(", Tilemark {version}")).unwrap_or_default();
        lines.push(format!("\n{}  {}{version}{time}", host.name, if host.fit { "fit" } else { "unfit" }));
        lines.extend(host.problems.iter().map(|problem| format!("  error: {problem}")));
        lines.extend(host.notes.iter().map(|note| format!("  note: {note}")));
    }
    lines.join("\n")
}

fn measured(arguments: &FleetRunArguments) -> Result<FleetSaid, Failure> {
    let fleets = fleets(&places());
    let folder = match (&arguments.resume, &arguments.scenario, &arguments.site) {
        (None, Some(scenario), Some(site)) => {
            let fleet = new_fleet(scenario, site, &arguments.work, arguments.at_once)?;
            FleetFolder::create(&fleets, &fleet).map_err(failure)?
        }
        (resume, ..) => {
            let wanted = resume.clone().flatten().unwrap_or_else(|| "last".to_owned());
            FleetFolder::find(&fleets, &wanted).map_err(failure)?
        }
    };
    let fleet = folder.read().map_err(failure)?;
    screen::note(&format!(
        "fleet run {}: if this command ends, the work on the hosts goes on; `tilemark fleet run --resume {}` waits for it again",
        fleet.id, fleet.id
    ));
    let watch = Watch { detach: arguments.detach, at_most: arguments.wait_at_most.map(|span| span.get()) };
    run(&folder, watch, &|text| screen::note(text)).map_err(failure)?;
    said(&folder)
}

fn said(folder: &FleetFolder) -> Result<FleetSaid, Failure> {
    let fleet = folder.read().map_err(failure)?;
    let outcomes = folder.outcomes(&fleet);
    Ok(FleetSaid::new(&fleet, outcomes))
}

/// Finds a fleet run; with another site file its hosts are reached as that has them from now on.
fn found(named: &FleetNamed) -> Result<FleetFolder, Failure> {
    let folder = FleetFolder::find(&fleets(&places()), &named.fleet).map_err(failure)?;
    if let Some(path) = &named.site {
        let site = Site::read(path).map_err(failure)?;
        folder.reach_by(path, site).map_err(failure)?;
    }
    Ok(folder)
}

/// What `fleet status --json` prints.
#[derive(Serialize)]
struct Doing {
    fleet: String,
    hosts: Vec<HostDoing>,
}

#[derive(Serialize)]
struct HostDoing {
    name: String,
    doing: String,
}

fn doing(named: &FleetNamed) -> Result<Doing, Failure> {
    let folder = found(named)?;
    let fleet = folder.read().map_err(failure)?.id;
    let hosts = status(&folder).map_err(failure)?;
    Ok(Doing { fleet, hosts: hosts.into_iter().map(|(name, doing)| HostDoing { name, doing }).collect() })
}

fn collected(named: &FleetNamed) -> Result<FleetSaid, Failure> {
    let folder = found(named)?;
    collect_all(&folder, &|text| screen::note(text)).map_err(failure)?;
    said(&folder)
}
