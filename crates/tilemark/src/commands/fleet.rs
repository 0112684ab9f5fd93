//! `tilemark fleet`: many hosts over ssh, Slurm or another command.

use crate::{
    arguments::{
        FleetCommand, FleetCompareArguments, FleetConfirmArguments, FleetForms, FleetNamed,
        FleetPlanArguments, FleetReportArguments, FleetRunArguments, FleetWork,
    },
    asked,
    carried::PROGRAM,
    exit::{GUEST_FAILED, HOST_UNFIT, NOT_RESTORED, NOT_TRUSTED},
    fleet_failure::failure,
    places::places,
    screen::{self, Form},
};
use clap::ValueEnum;
use serde::Serialize;
use std::{path::Path, process::ExitCode};
use tilemark_fleet::{
    End, EndedWork, Fleet, FleetFolder, FleetOrder, PlannedHost, Site, Watch, cancel, clean, collect_all,
    fleets, plan, run, status,
    verdict::{self, FleetDrift, FleetVerdict, Groups, ToConfirm, Unconfirmable, VerdictError},
};
use tilemark_run::{
    failure::{Failure, FailureCode},
    plan::prepare::{self, Asked},
    run::result::draw_to,
};
use tilemark_units::{Span, counted};

/// A scenario's file is a part of the script that each host gets.
const SCENARIO_BYTES_MAX: usize = 32 << 10;

/// Does what was asked of a fleet.
pub(crate) fn fleet(command: &FleetCommand) -> ExitCode {
    match command {
        FleetCommand::Plan(arguments) => planned(arguments),
        FleetCommand::Run(arguments) => {
            let found = measured(arguments).map(|found| {
                let code = if arguments.detach { code_when_detached(&found) } else { code_of(&found) };
                (found, code)
            });
            shown_with(found, arguments.json.json)
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
        FleetCommand::Collect(named) => shown(collected(named), named.json.json),
        FleetCommand::Cancel(named) => {
            let form = Form::of(named.json.json);
            screen::show_with(cancelled(named), form, cancelled_text, |cancelled| {
                let is_recorded = cancelled.verdict.hosts.iter().any(|host| host.end == End::NotRestored);
                if is_recorded || cancelled.hosts.iter().any(|host| host.not_restored) {
                    NOT_RESTORED
                } else {
                    all_done(&cancelled.hosts)
                }
            })
        }
        FleetCommand::Clean(named) => {
            let form = Form::of(named.json.json);
            screen::show_with(
                cleaned(named),
                form,
                |cleaned| done_text("cleaned", &cleaned.hosts),
                |cleaned| all_done(&cleaned.hosts),
            )
        }
        FleetCommand::Report(arguments) => shown(reported(arguments), arguments.forms.json.json),
        FleetCommand::Compare(arguments) => {
            let form = Form::of(arguments.forms.json.json);
            match compared(arguments) {
                Err(failure) => screen::fail(&failure, form),
                Ok(drift) => {
                    match form {
                        Form::Json => screen::print_json(&drift),
                        Form::Text => screen::print_painted(&drift.terminal(screen::style())),
                    }
                    ExitCode::SUCCESS
                }
            }
        }
        FleetCommand::Confirm(arguments) => shown_with(confirmed(arguments), arguments.json.json),
    }
}

/// Prints a verdict, and ends with the worst of what the hosts ended as.
fn shown(found: Result<FleetVerdict, Failure>, json: bool) -> ExitCode {
    shown_with(
        found.map(|found| {
            let code = code_of(&found);
            (found, code)
        }),
        json,
    )
}

/// Prints a verdict, and ends with this code.
fn shown_with(found: Result<(FleetVerdict, u8), Failure>, json: bool) -> ExitCode {
    let form = Form::of(json);
    match found {
        Err(failure) => screen::fail(&failure, form),
        Ok((found, code)) => {
            match form {
                Form::Json => screen::print_json(&found),
                Form::Text => screen::print_painted(&format!(
                    "{}\n\n{}",
                    first_line(&found),
                    found.terminal(screen::style())
                )),
            }
            ExitCode::from(code)
        }
    }
}

fn code_of(found: &FleetVerdict) -> u8 {
    exit_code(&ends(found), found.measured, found.trusted)
}

/// The same of a command that does not wait: all is well where each host has its work, or is trusted already.
fn code_when_detached(found: &FleetVerdict) -> u8 {
    let is_well = |end: &End| matches!(end, End::NotCollectedYet | End::Trusted);
    if ends(found).iter().all(is_well) { 0 } else { code_of(found) }
}

fn ends(found: &FleetVerdict) -> Vec<End> {
    found.hosts.iter().map(|host| host.end).collect()
}

/// The worse one of two exit codes of fleet runs.
fn worse(one: u8, other: u8) -> u8 {
    const FROM_BEST: [u8; 5] = [0, NOT_TRUSTED, HOST_UNFIT, GUEST_FAILED, NOT_RESTORED];
    let rank = |code: u8| FROM_BEST.iter().position(|known| *known == code);
    if rank(one) > rank(other) { one } else { other }
}

/// Always the first line: whoever reads no further knows who is missing.
fn first_line(found: &FleetVerdict) -> String {
    let counts = format!("{} asked, {} measured, {} trusted.", found.asked, found.measured, found.trusted);
    if found.missing.is_empty() { counts } else { format!("{counts} Missing: {}.", found.missing.join(", ")) }
}

/// 6 where a host was not restored, 4 where a guest failed, 3 where no host left figures and none may leave some later, 5 where one is
/// missing or not trusted, 0 where all are trusted.
fn exit_code(ends: &[End], measured: usize, trusted: usize) -> u8 {
    let is_to_come = ends.iter().any(|end| matches!(end, End::NotCollectedYet | End::NotSubmittedYet));
    if ends.contains(&End::NotRestored) {
        NOT_RESTORED
    } else if ends.contains(&End::GuestFailed) {
        GUEST_FAILED
    } else if measured == 0 && !is_to_come {
        HOST_UNFIT
    } else if trusted < ends.len() {
        NOT_TRUSTED
    } else {
        0
    }
}

/// What is to be measured, as each host gets it.
fn new_fleet(scenario: &str, site: &Path, work: &FleetWork, at_once: Option<u16>) -> Result<Fleet, Failure> {
    let site = Site::read(site).map_err(failure)?;
    let checked = Asked {
        scenario: scenario.to_owned(),
        tiles: work.tiles.clone(),
        ..asked::of_resolution(&work.resolution)
    };
    let name = prepare::scenario_name_for_fleet(&checked)?;
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
    screen::note(&format!("seed {seed}"));
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
        |planned| if planned.fit < planned.asked { HOST_UNFIT } else { 0 },
    )
}

/// A length of time for a person; another host may say it in words that are none.
fn in_minutes(time: &str) -> String {
    time.parse::<Span>().map_or_else(|_| time.to_owned(), Span::rounded)
}

fn plan_text(planned: &Planned) -> String {
    let mut lines =
        vec![format!("{} of {} can measure.", planned.fit, counted(planned.asked as u64, "host"))];
    for host in &planned.hosts {
        let time = host
            .time
            .as_ref()
            .map(|time| format!(", measures for about {}", in_minutes(time)))
            .unwrap_or_default();
        let version =
            host.version.as_ref().map(|version| format!(", Tilemark {version}")).unwrap_or_default();
        lines.push(format!(
            "\n{}  {}{version}{time}",
            host.name,
            if host.fit { "can measure" } else { "cannot measure" }
        ));
        lines.extend(host.problems.iter().map(|problem| format!("  error: {problem}")));
        lines.extend(host.notes.iter().map(|note| format!("  note: {note}")));
    }
    lines.join("\n")
}

fn measured(arguments: &FleetRunArguments) -> Result<FleetVerdict, Failure> {
    let fleets = fleets(&places());
    let folder = match (&arguments.resume, &arguments.scenario, &arguments.site) {
        (None, Some(scenario), Some(site)) => {
            let fleet = new_fleet(scenario, site, &arguments.work, arguments.at_once)?;
            FleetFolder::create(&fleets, &fleet).map_err(failure)?
        }
        (resume, ..) => {
            let wanted = resume.as_ref().and_then(Option::as_deref).unwrap_or("last");
            found_own(wanted, arguments.site.as_deref())?
        }
    };
    let watch = Watch {
        detach: arguments.detach,
        at_most: arguments.wait_at_most.map(|span| span.get()),
        at_once: arguments.at_once.map(usize::from),
    };
    waited_for(&folder, watch)?;
    // One that confirms another one ends with the verdict of that, as `fleet confirm` does.
    let confirms = folder.read().map_err(failure)?.confirms.filter(|first| !first.contains('/'));
    let confirmed = confirms.and_then(|first| by_name(&first).ok());
    judged(&confirmed.unwrap_or(folder), &Groups::new())
}

fn waited_for(folder: &FleetFolder, watch: Watch) -> Result<(), Failure> {
    let id = folder.read().map_err(failure)?.id;
    screen::note(&format!(
        "fleet run {id}: if this command ends, the work on the hosts goes on; `tilemark fleet run --resume {id}` waits for it again"
    ));
    run(folder, watch, &|text| screen::note(text)).map_err(failure)
}

/// The verdict of what is collected, with the newest confirmation of it that measured a suspect.
fn verdict_of(folder: &FleetFolder, groups: &Groups) -> Result<FleetVerdict, Failure> {
    let measured = |found: &FleetVerdict| {
        let confirmation = found.confirmation.as_ref();
        confirmation.is_some_and(|one| !(one.confirmed.is_empty() && one.not_confirmed.is_empty()))
    };
    for again in folder.confirming(&fleets(&places())) {
        match verdict::of_confirmed(folder.path(), again.path(), groups) {
            Ok(found) if measured(&found) => return Ok(found),
            // Nothing of it came back, or it cannot be read: it confirms nothing.
            Ok(_) | Err(_) => {}
        }
    }
    verdict::of_grouped(folder.path(), groups).map_err(unreadable)
}

/// The verdict of what is collected, and its page in the fleet's folder.
fn judged(folder: &FleetFolder, groups: &Groups) -> Result<FleetVerdict, Failure> {
    let found = verdict_of(folder, groups)?;
    let page = folder.path().join("report.html");
    draw_to(&page, &found.html())?;
    screen::note(&format!("Report: {}", page.display()));
    Ok(found)
}

fn unreadable(error: VerdictError) -> Failure {
    Failure::from_error(FailureCode::BadInput, &error, "name another fleet run, or collect this one again")
}

fn by_name(wanted: &str) -> Result<FleetFolder, Failure> {
    FleetFolder::find(&fleets(&places()), wanted).map_err(failure)
}

/// One whose hosts are reached by the programs that its file names, and get the work that it names. A folder elsewhere is data that may be
/// of somebody else, and nothing is started because it says so. `or_else` is what can be done there.
fn own(wanted: &str, or_else: &str) -> Result<FleetFolder, Failure> {
    let (folder, fleets) = (by_name(wanted)?, fleets(&places()));
    let is_own = || Some(folder.path().canonicalize().ok()?.parent()? == fleets.canonicalize().ok()?);
    if is_own() == Some(true) {
        return Ok(folder);
    }
    let message = format!(
        "{wanted} is not in {}, where your fleet runs are, and its file names programs to start",
        fleets.display()
    );
    Err(Failure::new(FailureCode::BadInput, message, format!("{or_else}; or move it there if it is yours")))
}

fn reported(arguments: &FleetReportArguments) -> Result<FleetVerdict, Failure> {
    let folder = by_name(&arguments.fleet)?;
    let groups =
        if arguments.site_groups { groups_of_site(&folder.read().map_err(failure)?) } else { Groups::new() };
    let mut found = match &arguments.confirmed_by {
        Some(again) => {
            let again = by_name(again)?;
            verdict::of_confirmed(folder.path(), again.path(), &groups).map_err(unreadable)?
        }
        None => verdict_of(&folder, &groups)?,
    };
    if arguments.forms.redact {
        tilemark_report::redact_fleet(&mut found);
    }
    write_forms(&arguments.forms, || found.html(), || found.markdown())?;
    Ok(found)
}

/// The first of the groups that a host has in the site file.
fn groups_of_site(fleet: &Fleet) -> Groups {
    let hosts = fleet.site.hosts.iter();
    hosts.filter_map(|host| Some((host.name.clone(), host.groups.first()?.clone()))).collect()
}

fn compared(arguments: &FleetCompareArguments) -> Result<FleetDrift, Failure> {
    let (before, after) = (by_name(&arguments.before)?, by_name(&arguments.after)?);
    let mut drift = verdict::compare(before.path(), after.path()).map_err(unreadable)?;
    if arguments.forms.redact {
        tilemark_report::redact_drift(&mut drift);
    }
    write_forms(&arguments.forms, || drift.html(), || drift.markdown())?;
    Ok(drift)
}

fn write_forms(
    forms: &FleetForms,
    html: impl FnOnce() -> String,
    markdown: impl FnOnce() -> String,
) -> Result<(), Failure> {
    let written = |path: &Path, text: String| -> Result<(), Failure> {
        draw_to(path, &text)?;
        screen::note(&format!("Written: {}", path.display()));
        Ok(())
    };
    forms.html.as_deref().map(|path| written(path, html())).transpose()?;
    forms.markdown.as_deref().map(|path| written(path, markdown())).transpose()?;
    Ok(())
}

/// Measures the hosts that differ and as many others again; the verdict of the first run names what differs in both. With the exit code,
/// which is that of both runs.
fn confirmed(arguments: &FleetConfirmArguments) -> Result<(FleetVerdict, u8), Failure> {
    let folder = found_own(&arguments.fleet, arguments.site.as_deref())?;
    let first = folder.read().map_err(failure)?;
    let seed = arguments.seed.map_or_else(prepare::drawn_seed, Ok)?;
    let groups = if arguments.site_groups { groups_of_site(&first) } else { Groups::new() };
    let found = verdict::of_grouped(folder.path(), &groups).map_err(unreadable)?;
    let Some(chosen) = verdict::to_confirm(&found, seed) else {
        return Err(Failure::new(
            FailureCode::BadInput,
            format!("no host of the fleet run {} differs, so there is nothing to confirm", first.id),
            "`tilemark fleet report` shows its verdict",
        ));
    };
    can_be_confirmed(&chosen)?;
    if first.version != PROGRAM.version {
        screen::note(&format!(
            "the fleet run {} was measured by Tilemark {}: a host with another version, as this machine has ({}), cannot confirm it. To compare the fleet \
             as it is now: `tilemark fleet run`, then `tilemark fleet compare {}`",
            first.id, first.version, PROGRAM.version, first.id
        ));
    }
    screen::note(&format!("seed {seed}"));
    let fleets = fleets(&places());
    let again = FleetFolder::create(&fleets, &first.again(&chosen.order, seed, &fleets)).map_err(failure)?;
    waited_for(&again, Watch::default())?;
    let found = verdict::of_confirmed(folder.path(), again.path(), &groups).map_err(unreadable)?;
    draw_to(&folder.path().join("report.html"), &found.html())?;
    let of_again = verdict::of_grouped(again.path(), &groups).map_err(unreadable)?;
    let code = worse(code_of(&found), code_of(&of_again));
    Ok((found, code))
}

/// Names the groups in which nothing can be confirmed. Where it is so in all, nothing is measured.
fn can_be_confirmed(chosen: &ToConfirm) -> Result<(), Failure> {
    let words = |unconfirmable: &Unconfirmable| {
        let differ = unconfirmable.suspects.join(", ");
        format!(
            "{}: no other host that is trusted and compared can be measured again beside {differ}",
            unconfirmable.group
        )
    };
    let all: Vec<String> = chosen.unconfirmable.iter().map(words).collect();
    if chosen.suspects.is_empty() {
        return Err(Failure::new(
            FailureCode::BadInput,
            format!("nothing can be confirmed: {}", all.join("; ")),
            "measure the whole fleet again with `tilemark fleet run`, or put more hosts together with --site-groups",
        ));
    }
    all.iter().for_each(|words| screen::note(&format!("not confirmed: {words}")));
    Ok(())
}

/// Finds a fleet run of which no more work is given to hosts. With another site file its hosts are reached as that has them from now on; it
/// may be elsewhere then, where nobody else can change it.
fn found(wanted: &str, site: Option<&Path>) -> Result<FleetFolder, Failure> {
    let or_else = format!(
        "read it with `tilemark fleet report {wanted}`; or give your own site file, by which its hosts are reached: `--site FILE`"
    );
    let own = own(wanted, &or_else);
    let Some(path) = site else { return own };
    let folder = own.or_else(|_| of_nobody_else(wanted))?;
    reached(folder, path)
}

/// Finds a fleet run that may give work to its hosts.
fn found_own(wanted: &str, site: Option<&Path>) -> Result<FleetFolder, Failure> {
    let folder = own(wanted, &format!("read it with `tilemark fleet report {wanted}`"))?;
    match site {
        Some(path) => reached(folder, path),
        None => Ok(folder),
    }
}

fn reached(folder: FleetFolder, path: &Path) -> Result<FleetFolder, Failure> {
    folder.reach_by(path, Site::read(path).map_err(failure)?).map_err(failure)?;
    Ok(folder)
}

/// A folder elsewhere. What others can change in it could name other programs once the site was written into it, and a link leads elsewhere.
fn of_nobody_else(wanted: &str) -> Result<FleetFolder, Failure> {
    let folder = by_name(wanted)?;
    folder.can_be_trusted().map_err(|error| {
        let message =
            format!("the hosts of the fleet run {wanted} are not reached, because others could change its folder: {error}");
        let remedy = format!(
            "read it with `tilemark fleet report {wanted}`; or copy it into a folder of your own: `cp -rL {wanted} COPY`"
        );
        Failure::new(FailureCode::BadInput, message, remedy)
    })?;
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
    let folder = found(&named.fleet, named.site.as_deref())?;
    let fleet = folder.read().map_err(failure)?.id;
    let hosts = status(&folder).map_err(failure)?;
    Ok(Doing { fleet, hosts: hosts.into_iter().map(|(name, doing)| HostDoing { name, doing }).collect() })
}

fn collected(named: &FleetNamed) -> Result<FleetVerdict, Failure> {
    let folder = found(&named.fleet, named.site.as_deref())?;
    collect_all(&folder, &|text| screen::note(text)).map_err(failure)?;
    judged(&folder, &Groups::new())
}

/// What `fleet cancel --json` prints.
#[derive(Serialize)]
struct Cancelled {
    fleet: String,
    /// The work of each host; `done` where nothing of it goes on.
    hosts: Vec<EndedWork>,
    /// What was measured until then.
    verdict: FleetVerdict,
}

/// What `fleet clean --json` prints.
#[derive(Serialize)]
struct Cleaned {
    fleet: String,
    hosts: Vec<EndedWork>,
}

fn cancelled(named: &FleetNamed) -> Result<Cancelled, Failure> {
    let folder = found(&named.fleet, named.site.as_deref())?;
    let fleet = folder.read().map_err(failure)?.id;
    let hosts = cancel(&folder, &|text| screen::note(text)).map_err(failure)?;
    Ok(Cancelled { fleet, hosts, verdict: judged(&folder, &Groups::new())? })
}

fn cancelled_text(cancelled: &Cancelled) -> String {
    let done = done_text("ended", &cancelled.hosts);
    format!("{done}\n\n{}\n{}", first_line(&cancelled.verdict), cancelled.verdict.sentence)
}

fn cleaned(named: &FleetNamed) -> Result<Cleaned, Failure> {
    let folder = found(&named.fleet, named.site.as_deref())?;
    let fleet = folder.read().map_err(failure)?.id;
    let hosts = clean(&folder, &|text| screen::note(text)).map_err(failure)?;
    Ok(Cleaned { fleet, hosts })
}

/// How many hosts are done, and those that are not with the reason.
fn done_text(word: &str, hosts: &[EndedWork]) -> String {
    let left: Vec<&EndedWork> = hosts.iter().filter(|host| !host.done).collect();
    let mut lines = vec![format!("{} asked, {} {word}.", hosts.len(), hosts.len() - left.len())];
    lines.extend(left.iter().map(|host| format!("{}  {}", host.name, host.doing)));
    lines.join("\n")
}

/// A host whose work is left is missing, as in a verdict.
fn all_done(hosts: &[EndedWork]) -> u8 {
    if hosts.iter().all(|host| host.done) { 0 } else { NOT_TRUSTED }
}

#[cfg(test)]
mod tests {
    use super::{End, exit_code, in_minutes, worse};

    #[test]
    fn how_long_a_host_measures_is_for_people() {
        assert_eq!(in_minutes("473125ms"), "7 min 53 s");
        assert_eq!(in_minutes("long"), "long");
    }

    #[test]
    fn the_worst_end_of_a_host_is_the_exit_code() {
        for (ends, measured, trusted, code) in [
            (&[End::Trusted, End::Trusted][..], 2, 2, 0),
            (&[End::Trusted, End::CannotTell], 2, 1, 5),
            (&[End::Trusted, End::Lost], 1, 1, 5),
            (&[End::Lost, End::NoAnswer], 0, 0, 3),
            // They may still measure.
            (&[End::NotCollectedYet, End::NotSubmittedYet], 0, 0, 5),
            (&[End::Unfit, End::NotCollectedYet], 0, 0, 5),
            (&[End::Trusted, End::GuestFailed, End::Lost], 2, 1, 4),
            (&[End::GuestFailed, End::NotRestored], 2, 0, 6),
        ] {
            assert_eq!(exit_code(ends, measured, trusted), code, "{ends:?}");
        }
    }

    #[test]
    fn of_two_fleet_runs_the_worse_exit_code_counts() {
        for (one, other, code) in [(0, 0, 0), (0, 3, 3), (5, 3, 3), (3, 4, 4), (6, 4, 6), (5, 0, 5)] {
            assert_eq!((worse(one, other), worse(other, one)), (code, code));
        }
    }
}
