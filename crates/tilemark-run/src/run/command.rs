//! `tilemark run` from the command's side: plan, lock, image, record, engine, judgement, report.

use crate::{
    failure::{Failure, FailureCode, place_failed, state_failed},
    image::build::obtain,
    job::command::{self, Afterwards, FinishedJob, do_job, other_job_done},
    job::lock::{self, NotTaken, WhenBusy},
    job::quiet,
    job::read_back::Found,
    job::remains,
    job::resources,
    job::state_folder::StateFolder,
    job::types::{ImageReady, Job, JobDone, RunDone, RunJob},
    plan::checks,
    plan::image_check::check_image,
    plan::own_disks,
    plan::prepare::{Asked, Prepared, need_trust, prepare},
    plan::text,
    program::{Program, need_root},
    progress::Listener,
    run::continue_record::{EarlierRecord, RecordToContinue},
    run::{idle_power, job_sizes, result},
    stop::interrupted,
};
use std::{
    fs::File,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};
use tilemark_guests::{own_bridge::refuse_addresses_in_use, uplink_name};
use tilemark_host::setting::{
    known::{self, Place as WhereInForce},
    wake_limit,
};
use tilemark_plan::plan::Plan;
use tilemark_record::{
    RecordError, RunDirectory, Runs,
    places::Places,
    result::{Hooks, Provenance, RunResult},
    sha256_of,
};
use tilemark_sys::files::{OPEN_FOLDER, Place, trusted};
use tilemark_units::{Sha256Hash, Span};

/// A run that was asked for.
#[derive(Debug, Clone)]
pub struct RunRequest {
    /// What to measure.
    pub asked: Asked,
    /// Where the record goes instead of among the runs.
    pub output: Option<PathBuf>,
    /// Nothing may be fetched.
    pub offline: bool,
    /// What to do when another run is under way; `None`: run beside it.
    pub when_busy: Option<WhenBusy>,
    /// The record to continue instead of making a new one.
    pub continues: Option<RecordToContinue>,
    /// The command line of the user.
    pub command: String,
    /// The user's own commands around the measured seconds of each repeat.
    pub hooks: Hooks,
    /// Wait so long for a quiet host, before the first repeat and after each one that others disturbed.
    pub wait_quiet: Option<Span>,
}

/// A run that was measured, judged and closed.
#[derive(Debug, Clone)]
pub struct Measured {
    /// What it found.
    pub result: RunResult,
    /// Where its record is.
    pub record: PathBuf,
    /// What ended it before its plan was done: the result is of the repeats before it.
    pub failed: Option<Failure>,
}

/// Measures a scenario.
///
/// # Errors
/// When the host is unfit or busy, what was asked cannot be planned, or no repeat was measured.
pub fn run(
    program: &Program,
    places: &Places,
    request: &RunRequest,
    listener: &mut dyn Listener,
) -> Result<Measured, Failure> {
    need_root("measuring guests")?;
    // Before the host is looked at: what a killed run had set is no value of it.
    remains::restore_first(places, &[], listener)?;
    let earlier = earlier_record(places, request, listener)?;
    let asked = match &earlier {
        Some(earlier) => earlier.asked(&request.asked)?,
        None => request.asked.clone(),
    };
    let mut prepared = prepare(&asked)?;
    need_trust(&asked, &prepared)?;
    // An image that may not be fetched is reported when it is obtained, after the places that cannot be written.
    checks::look(&prepared, places, request.output.as_deref(), false)?
        .warnings
        .iter()
        .for_each(|warning| listener.note(warning));
    announce(&asked, &prepared, listener);
    let (id, path) = id_and_path(places, request, earlier.as_ref(), &prepared);
    let locks = locks_with_room(places, request, &prepared.plan, &id, &path, listener)?;
    // The run that it waited for may have been killed.
    if !locks.is_empty() && remains::restore_first(places, &locks, listener)? {
        prepared = prepared_again(asked, &prepared)?;
    }
    // Once it is its turn: the run before it on this host may have had the same ones.
    if let Some(own) = &prepared.plan.host.own_bridge {
        refuse_addresses_in_use(own)?;
    }
    if request.wait_quiet.is_none() && quiet::is_disturbed_by_others(&prepared.plan) {
        let others = quiet::look(quiet::FIRST_LOOK, vec![std::process::id()], &interrupted);
        others.as_ref().and_then(quiet::warning).iter().for_each(|warning| listener.note(warning));
    }
    job_sizes::fit(&mut prepared.plan, program, &places.cache, listener)?;
    if let Some(earlier) = &earlier {
        earlier.check_clients(&prepared.plan, prepared.site.as_ref().map_or(&[], |site| &site.clients))?;
    }
    let mut provenance = provenance(program, &prepared, request)?;
    // Before an image is built for minutes: a bad place, or a record that cannot be continued, fails now.
    let record = match &earlier {
        Some(earlier) => continued(earlier, &prepared.plan, &provenance, listener)?,
        None => new_record(&path, &prepared.plan)?,
    };
    let discard = |_: &Failure| {
        if earlier.is_none() {
            record.discard();
        }
    };
    // Nobody removes it, or takes it for dead, before this run has ended.
    let hold = || record.hold().map_err(Failure::from).inspect_err(discard);
    let _held = earlier.is_none().then(hold).transpose()?;
    let image = image_of(&prepared, places, request.offline, listener).inspect_err(discard)?;
    if let Some(image) = &image {
        add_image(&mut provenance, image);
    }
    if let Some(within) = request.wait_quiet {
        wait_until_quiet(within, listener).inspect_err(discard)?;
    }
    // What was predicted holds the seconds of idle power, and so does what was taken.
    let began = Instant::now();
    let (plan, idle_power_w, judged_before) = match &earlier {
        Some(earlier) => {
            earlier.check_hashes(&provenance)?;
            let judged = result::judged_again(&earlier.record, &earlier.result)?;
            (earlier.plan_from_here(&prepared.plan)?, earlier.result.idle_power_w, Some(judged))
        }
        None => {
            let idle_power_w = idle_power::measure(&prepared.plan.host, listener).inspect_err(discard)?;
            record.write_json("facts.json", &prepared.facts)?;
            (prepared.plan.clone(), idle_power_w, None)
        }
    };

    let state = StateFolder::create(&places.state, &id, "run", Some(&path)).map_err(state_failed)?;
    let uplink = plan.host.own_bridge.as_ref().map(|_| uplink_name(std::process::id()));
    let state = state.with_uplink(uplink).holding(wake_limit::awake(prepared.plan.kept_awake()));
    let job = RunJob {
        id: id.clone(),
        plan,
        record: path.clone(),
        continues: earlier.is_some(),
        state: state.path().to_owned(),
        cache: places.cache.clone(),
        image: image.map(|image| image.folder),
        beside_others: request.when_busy.is_none(),
        hooks: request.hooks.clone(),
        wait_quiet: request.wait_quiet,
        site: prepared.site.clone(),
    };
    let _reopened = earlier.as_ref().map(|earlier| earlier.record.reopen()).transpose()?;
    let (mut done, found) = in_engine(job, &state, locks, listener)?;
    add_outcome(&mut provenance, &done, found, began.elapsed());
    if let (Some(earlier), Some(judged)) = (&earlier, &judged_before) {
        done = earlier.with_doubts(done, judged);
        provenance = earlier.with(provenance);
    }
    let result = result::close(&record, &id, provenance, idle_power_w, &done)?;
    Ok(Measured { result, record: path, failed: done.failed })
}

/// The same plan on the host as it is now.
fn prepared_again(asked: Asked, earlier: &Prepared) -> Result<Prepared, Failure> {
    prepare(&Asked { seed: Some(earlier.plan.seed), ..asked })
}

/// Waits for a quiet host before anything is started.
fn wait_until_quiet(within: Span, listener: &mut dyn Listener) -> Result<(), Failure> {
    let own = || vec![std::process::id()];
    quiet::wait(within, || quiet::look(quiet::QUIET_FOR, own(), &interrupted), &mut |text| {
        listener.note(&text);
    })?;
    if interrupted() {
        let message = "ended while it waited for a quiet host";
        return Err(Failure::new(FailureCode::Interrupted, message, "nothing to do: nothing was begun"));
    }
    Ok(())
}

/// The image that guests boot; nothing where each of them has a disk of its own.
fn image_of(
    prepared: &Prepared,
    places: &Places,
    offline: bool,
    listener: &mut dyn Listener,
) -> Result<Option<ImageReady>, Failure> {
    let scenario = &prepared.plan.scenario;
    if !scenario.needs_image() {
        return Ok(None);
    }
    let image = obtain(places, &prepared.image, offline, listener)?;
    check_image(scenario, &image.folder)?;
    Ok(Some(image))
}

/// The record that is to be continued, if one is.
fn earlier_record(
    places: &Places,
    request: &RunRequest,
    listener: &mut dyn Listener,
) -> Result<Option<EarlierRecord>, Failure> {
    let Some(which) = &request.continues else { return Ok(None) };
    let earlier = EarlierRecord::find(places, which, &request.asked)?;
    if earlier.was_restored {
        listener.note(&format!(
            "an earlier `--more` of {} was killed: what it measured is removed",
            earlier.result.run
        ));
    }
    Ok(Some(earlier))
}

/// Shows what will be measured, before anything is.
fn announce(asked: &Asked, prepared: &Prepared, listener: &mut dyn Listener) {
    if let Some(reason) = &prepared.out_of_reach {
        listener.note(&format!("no difference can be shown by this run: {reason}"));
    }
    prepared.left_out.iter().chain(&prepared.rivals).for_each(|line| listener.note(line));
    text::screening(&prepared.plan).iter().for_each(|line| listener.note(line));
    listener.note(&format!("this takes {}", text::time(&prepared.plan)));
    text::confirms(&prepared.plan).iter().for_each(|line| listener.note(line));
    if asked.seed.is_none() {
        listener.note(&format!(
            "seed {seed}: `--seed {seed}` repeats this order and these schedules",
            seed = prepared.plan.seed
        ));
    }
}

fn id_and_path(
    places: &Places,
    request: &RunRequest,
    earlier: Option<&EarlierRecord>,
    prepared: &Prepared,
) -> (String, PathBuf) {
    if let Some(earlier) = earlier {
        return (earlier.result.run.clone(), earlier.record.path().to_owned());
    }
    let runs = Runs::new(&places.runs);
    let id = new_id(&runs, &prepared.plan.scenario.name);
    let path = request.output.clone().unwrap_or_else(|| runs.path_of(&id));
    (id, path)
}

/// What to do when another run is under way; nothing where both may run. Of two that set the host each would restore what the other one
/// set: with `--not-alone` too the second stops.
pub(super) fn when_busy(request: &RunRequest, plan: &Plan) -> Option<WhenBusy> {
    let is_of_host = |key: &String| known::find(key).is_ok_and(|known| known.place == WhereInForce::Host);
    let sets_host = || plan.points.iter().flat_map(|point| point.host.setting.keys()).any(is_of_host);
    request.when_busy.or_else(|| sets_host().then_some(WhenBusy::Stop))
}

/// The run's locks, where it takes some, once disks and limits suffice.
fn locks_with_room(
    places: &Places,
    request: &RunRequest,
    plan: &Plan,
    id: &str,
    path: &Path,
    listener: &mut dyn Listener,
) -> Result<Vec<File>, Failure> {
    let take_as = |when| lock::take_for_run(&places.state, id, when);
    let when_busy = when_busy(request, plan);
    let take = || when_busy.map(take_as).transpose();
    // One that waits looks once it is its turn: the run before it holds what is free then.
    let locks = match when_busy {
        Some(WhenBusy::Wait) => {
            let locks = match take_as(WhenBusy::Stop) {
                Ok(locks) => Some(locks),
                Err(failure @ NotTaken::CannotLock(_)) => return Err(failure.into()),
                Err(NotTaken::Held(busy)) => {
                    listener.note(&format!("waiting: {}", busy.message));
                    take()?
                }
            };
            resources::enough(plan, places, path)?;
            locks
        }
        _ => {
            resources::enough(plan, places, path)?;
            take()?
        }
    };
    Ok(locks.unwrap_or_default())
}

/// The record of earlier sessions, where it may be continued.
fn continued(
    earlier: &EarlierRecord,
    plan: &Plan,
    provenance: &Provenance,
    listener: &mut dyn Listener,
) -> Result<RunDirectory, Failure> {
    trusted(earlier.record.path()).map_err(state_failed)?;
    earlier.check(plan, provenance)?;
    listener.note(&format!("the run {} is continued", earlier.result.run));
    Ok(earlier.record.clone())
}

/// A new record, in a folder that nobody else owns for the whole run.
fn new_record(path: &Path, plan: &Plan) -> Result<RunDirectory, Failure> {
    Place::of_folder(path, OPEN_FOLDER)
        .and_then(|_| Place::of_own_folder(path))
        .map_err(|error| place_failed(error, RecordError::write(path)))?;
    Ok(RunDirectory::create(path, plan)?)
}

/// Has an engine measure it, and returns what was found after it.
fn in_engine(
    job: RunJob,
    state: &StateFolder,
    locks: Vec<File>,
    listener: &mut dyn Listener,
) -> Result<(RunDone, Found), Failure> {
    let FinishedJob { done, found } =
        do_job(Job::Run(Box::new(job)), state, locks, Afterwards::Gone, listener)?;
    match done {
        JobDone::Run(done) => Ok((done, found)),
        JobDone::Image(_) | JobDone::Guests(_) => Err(other_job_done()),
    }
}

fn add_image(provenance: &mut Provenance, image: &ImageReady) {
    provenance.image = Some(image.name.clone());
    provenance.guest_kernel = Some(image.kernel.clone());
    let hashes = image.hashes.iter();
    provenance.hashes.extend(hashes.map(|(name, hash)| (format!("image/{name}"), hash.clone())));
}

fn add_outcome(provenance: &mut Provenance, done: &RunDone, found: Found, took: Duration) {
    provenance.qemu.clone_from(&done.qemu);
    for disk in &mut provenance.disks {
        disk.kernel = done.kernels.get(&disk.guest).cloned();
    }
    provenance.hashes.extend(done.hashes.clone());
    provenance.seconds = took.as_secs_f64();
    provenance.as_it_was = Some(found.left.is_empty());
    provenance.left = found.left;
    provenance.changed_by_others = [found.changed_by_others, done.changed_by_others.clone()].concat();
}

/// An id begins with the time, so that ids sort; a second run in one second gets a letter.
fn new_id(runs: &Runs, scenario: &str) -> String {
    let now = jiff::Timestamp::now().strftime("%Y%m%d-%H%M%S");
    let base = format!("{now}-{scenario}");
    let letters = ('b'..='z').map(|letter| format!("{now}{letter}-{scenario}"));
    std::iter::once(base.clone()).chain(letters).find(|id| !runs.path_of(id).exists()).unwrap_or(base)
}

fn provenance(program: &Program, prepared: &Prepared, request: &RunRequest) -> Result<Provenance, Failure> {
    let host = &prepared.plan.host;
    let ours = sha256_of(Path::new("/proc/self/exe"))?;
    let hashes = [
        ("tilemark", ours),
        ("agent", Sha256Hash::of(program.agent).to_string()),
        ("scenario", Sha256Hash::of(prepared.scenario_text.as_bytes()).to_string()),
    ];
    Ok(Provenance {
        tilemark: program.version.to_owned(),
        host: host.name.clone(),
        processor: host.processor.clone(),
        threads: host.threads.len() as u32,
        memory_bytes: host.memory_total.get(),
        kernel: host.kernel.clone(),
        began: jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
        expected_seconds: prepared.plan.expected.time.as_seconds(),
        command: command_that_repeats(request, prepared.plan.seed),
        hooks: request.hooks.clone(),
        sessions: 1,
        hashes: hashes.map(|(name, hash)| (name.to_owned(), hash)).into(),
        disks: own_disks::recorded(&prepared.plan)?,
        ..Provenance::default()
    })
}

/// The command with the seed that was drawn, if one was.
fn command_that_repeats(request: &RunRequest, seed: u64) -> String {
    match request.asked.seed {
        Some(_) => request.command.clone(),
        None => format!("{} --seed {seed}", request.command),
    }
}

/// What a run that was measured left on the host, if it did: exit code 6.
pub fn not_restored(result: &RunResult) -> Option<Failure> {
    let Provenance { left, changed_by_others, .. } = &result.provenance;
    let found = Found { left: left.clone(), changed_by_others: changed_by_others.clone() };
    command::not_restored(&format!("the run {} is over", result.run), &found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_that_repeats_a_run_names_the_seed_that_was_drawn() {
        let command = |seed| {
            let request = RunRequest {
                asked: Asked { seed, ..Asked::default() },
                output: None,
                offline: false,
                when_busy: None,
                continues: None,
                command: "tilemark run web".to_owned(),
                hooks: Hooks::default(),
                wait_quiet: None,
            };
            command_that_repeats(&request, 7)
        };
        assert_eq!(command(None), "tilemark run web --seed 7");
        assert_eq!(command(Some(7)), "tilemark run web", "it was typed");
    }
}
