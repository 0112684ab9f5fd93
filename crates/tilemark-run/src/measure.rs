//! `tilemark run` from the command's side: plan, lock, image, record, engine, judgement, report.

use crate::{
    conduct::{self, Afterwards, Conducted, conduct},
    failure::{Failure, FailureCode, place_failed, state_failed},
    image_job,
    job::{Job, JobDone, RunJob},
    judge,
    lock::{self, WhenBusy},
    more::{Earlier, Which},
    plan_text, power,
    prepare::{Asked, Prepared, need_trust, prepare},
    program::{Program, need_root, sha256},
    progress::Listener,
    read_back::Found,
    room,
    state::StateFolder,
};
use std::{
    path::{Path, PathBuf},
    time::Instant,
};
use tilemark_guests::ConsoleTail;
use tilemark_host::setting::wake_limit;
use tilemark_record::{
    Event, RecordError, RunDirectory, Runs,
    places::Places,
    result::{Provenance, RunResult},
    sha256_of,
    summary::{IncidentKind, RepeatSummary},
};
use tilemark_sys::files::{OPEN_FOLDER, Place, trusted};

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
    pub more: Option<Which>,
    /// The command, as it was typed.
    pub command: String,
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
pub fn run(
    program: &Program,
    places: &Places,
    request: &RunRequest,
    listener: &mut dyn Listener,
) -> Result<Measured, Failure> {
    need_root("measuring guests")?;
    let runs = Runs::new(&places.runs);
    let earlier =
        request.more.as_ref().map(|which| Earlier::find(places, which, &request.asked)).transpose()?;
    let asked = match &earlier {
        Some(earlier) => {
            if earlier.was_restored {
                listener.note(&format!(
                    "an earlier `--more` of {} was killed: what it measured is removed",
                    earlier.result.run
                ));
            }
            earlier.asked(&request.asked)?
        }
        None => request.asked.clone(),
    };
    let prepared = prepare(&asked)?;
    need_trust(&asked, &prepared)?;
    if let Some(reason) = &prepared.out_of_reach {
        listener.note(&format!("no difference can be shown by this run: {reason}"));
    }
    listener.note(&format!("this takes {}", plan_text::time(&prepared.plan)));
    if asked.seed.is_none() {
        listener.note(&format!(
            "seed {seed}: `--seed {seed}` repeats this order and these schedules",
            seed = prepared.plan.seed
        ));
    }
    let id = match &earlier {
        Some(earlier) => earlier.result.run.clone(),
        None => new_id(&runs, &prepared.plan.scenario.name),
    };
    let path = match &earlier {
        Some(earlier) => earlier.record.path().to_owned(),
        None => request.output.clone().unwrap_or_else(|| runs.path_of(&id)),
    };
    // One that waits looks once it is its turn: the run before it holds what is free then.
    let waits = matches!(request.when_busy, Some(WhenBusy::Wait));
    if !waits {
        room::enough(&prepared.plan, places, &path)?;
    }
    let locks = request.when_busy.map(|when| lock::take_for_run(&places.state, &id, when)).transpose()?;
    if waits {
        room::enough(&prepared.plan, places, &path)?;
    }
    let mut provenance = provenance(program, &prepared, request)?;
    // Before an image is built for minutes: a bad place, or a record that cannot be continued, fails now.
    let record = match &earlier {
        Some(earlier) => {
            trusted(earlier.record.path()).map_err(state_failed)?;
            earlier.check(&prepared.plan, &provenance)?;
            listener.note(&format!("the run {id} is continued"));
            earlier.record.clone()
        }
        None => {
            place_for_record(&path)?;
            RunDirectory::create(&path, &prepared.plan)?
        }
    };
    let discard = || {
        if earlier.is_none() {
            record.discard();
        }
    };
    let image = image_job::obtain(places, &prepared.plan.scenario.image, request.offline, listener);
    let image = image.inspect_err(|_| discard())?;
    provenance.image = Some(image.name.clone());
    provenance.guest_kernel = Some(image.kernel.clone());
    provenance.hashes.extend(image.hashes.iter().map(|(name, hash)| (format!("image/{name}"), hash.clone())));
    // What was predicted holds the seconds of idle power, and so does what was taken.
    let began = Instant::now();
    let (plan, idle_power_w, judged_before) = match &earlier {
        Some(earlier) => {
            earlier.check_hashes(&provenance)?;
            let judged = judge::judged_again(&earlier.record, &earlier.result)?;
            (earlier.plan_from_here(&prepared.plan)?, earlier.result.idle_power_w, Some(judged))
        }
        None => {
            let idle_power_w = power::idle(&prepared.plan.host, listener).inspect_err(|_| discard())?;
            record.write_json("facts.json", &prepared.facts)?;
            (prepared.plan.clone(), idle_power_w, None)
        }
    };

    let state = StateFolder::create(&places.state, &id, "run", Some(&path)).map_err(state_failed)?;
    let state = state.holding(wake_limit::awake(prepared.plan.kept_awake()));
    let job = RunJob {
        id: id.clone(),
        plan,
        record: path.clone(),
        continues: earlier.is_some(),
        state: state.path().to_owned(),
        cache: places.cache.clone(),
        image: image.folder,
        not_alone: request.when_busy.is_none(),
    };
    let _reopened = earlier.as_ref().map(|earlier| earlier.record.reopen()).transpose()?;
    let locks = locks.unwrap_or_default();
    let Conducted { done, found } =
        conduct(Job::Run(Box::new(job)), &state, locks, Afterwards::Gone, listener)?;
    let JobDone::Run(mut done) = done else {
        return Err(Failure::new(
            FailureCode::Bug,
            "the engine did another job than it was given",
            "report it",
        ));
    };
    provenance.qemu.clone_from(&done.qemu);
    provenance.hashes.extend(done.hashes.clone());
    provenance.seconds = began.elapsed().as_secs_f64();
    provenance.as_it_was = Some(found.left.is_empty());
    provenance.left = found.left;
    provenance.changed_by_others = found.changed_by_others;
    if let (Some(earlier), Some(judged)) = (&earlier, &judged_before) {
        done = earlier.with_doubts(done, judged);
        provenance = earlier.with(provenance);
    }
    let result = judge::close(&record, &id, provenance, idle_power_w, &done)?;
    Ok(Measured { result, record: path, failed: done.failed })
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
        ("agent", sha256(program.agent)),
        ("scenario", sha256(prepared.scenario_text.as_bytes())),
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
        sessions: 1,
        hashes: hashes.map(|(name, hash)| (name.to_owned(), hash)).into(),
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

/// The plan as it was carried out: with the points that a search added.
pub fn plan_as_run(record: &RunDirectory) -> Result<tilemark_plan::plan::Plan, RecordError> {
    let mut plan = record.plan()?;
    for event in tilemark_record::Events::read(&record.path().join("events.ndjson"))? {
        match event {
            Event::PointAdded { point } => plan.points.push(*point),
            Event::DoesNotFit { end } => {
                if let Some(search) = &mut plan.search {
                    search.memory_end = Some(end);
                }
            }
            Event::PassBegan { pass, .. } => {
                let tiles = plan.points.get(pass.point).map_or(0, |point| point.tiles);
                if let Some(search) = &mut plan.search {
                    // A later session found the memory that an earlier one lacked.
                    search.memory_end = search.memory_end.filter(|end| tiles < end.tiles);
                }
                if !plan.passes.contains(&pass) {
                    plan.passes.push(pass);
                }
            }
            _ => {}
        }
    }
    Ok(plan)
}

/// A guest that ended in the last session of a record while it was measured: a run whose guests are given has failed then. A search
/// looks for the count that breaks, and has found it.
///
/// # Errors
/// When the record cannot be read.
pub fn guest_that_ended(record: &RunDirectory) -> Result<Option<Failure>, RecordError> {
    if record.plan()?.search.is_some() {
        return Ok(None);
    }
    let repeats: Vec<_> = record
        .repeats()?
        .into_iter()
        .map(|files| Ok((files.summary()?, files)))
        .collect::<Result<_, RecordError>>()?;
    let session = |summary: &RepeatSummary| summary.levels.as_ref().map_or(1, |levels| levels.session);
    let last = repeats.iter().map(|(summary, _)| session(summary)).max();
    let of_last = repeats.iter().filter(|(summary, _)| Some(session(summary)) == last);
    for (summary, files) in of_last {
        let mut ended = summary.incidents.iter().filter(|incident| incident.kind == IncidentKind::GuestEnded);
        let Some((incident, guest)) = ended.find_map(|incident| Some((incident, incident.guest.as_ref()?)))
        else {
            continue;
        };
        let console = ConsoleTail::read(&files.path().join("guests").join(guest).join("console.log"));
        return Ok(Some(Failure::new(
            FailureCode::GuestFailed,
            format!("guest `{guest}` failed in repeat {}: {}; {console}", summary.repeat, incident.what),
            format!(
                "read {}, and look with `dmesg` whether memory ran out; the record is whole",
                console.path.display()
            ),
        )));
    }
    Ok(None)
}

/// What a run that was measured left on the host, if it did: exit code 6.
pub fn not_restored(result: &RunResult) -> Option<Failure> {
    let Provenance { left, changed_by_others, .. } = &result.provenance;
    let found = Found { left: left.clone(), changed_by_others: changed_by_others.clone() };
    conduct::not_restored(&format!("the run {} is over", result.run), &found)
}

/// Makes the folder that a record is to be written into for a whole run: nobody else may own it.
fn place_for_record(path: &Path) -> Result<(), Failure> {
    let failed = |source| RecordError::Write { path: path.to_owned(), source }.into();
    Place::of_folder(path, OPEN_FOLDER)
        .and_then(|_| Place::of_own_folder(path))
        .map(drop)
        .map_err(|error| place_failed(error, failed))
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
                more: None,
                command: "tilemark run web".to_owned(),
            };
            command_that_repeats(&request, 7)
        };
        assert_eq!(command(None), "tilemark run web --seed 7");
        assert_eq!(command(Some(7)), "tilemark run web", "it was typed");
    }
}
