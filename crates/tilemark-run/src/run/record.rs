//! What a record says about its run, read back.

use crate::failure::{Failure, FailureCode};
use std::{collections::BTreeSet, path::Path};
use tilemark_guests::ConsoleTail;
use tilemark_plan::plan::{Pass, Plan};
use tilemark_record::{
    Event, Events, ROWS_MAX, RecordError, RunDirectory,
    summary::{IncidentKind, RepeatSummary},
};
use tilemark_report::Report;

/// The plan with what was added to it while it ran: the points of a search.
pub fn plan_as_run(record: &RunDirectory) -> Result<Plan, RecordError> {
    let mut plan = record.plan()?;
    let number = |pass: &Pass| (pass.point, pass.repeat, pass.block);
    let mut known: BTreeSet<_> = plan.passes.iter().map(number).collect();
    for event in Events::read(&record.path().join("events.ndjson"))? {
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
                if known.insert(number(&pass)) {
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
        let name = Path::new("guests").join(guest).join("console.log");
        let console = ConsoleTail::of(&files.path().join(&name), files.open(&name).ok());
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

/// Reads all of a record that a report shows.
pub fn report_of(record: &RunDirectory) -> Result<Report, RecordError> {
    let mut report = Report {
        result: record.result()?,
        plan: plan_as_run(record)?,
        repeats: Vec::new(),
        seconds: Vec::new(),
        telemetry: Vec::new(),
    };
    for files in record.repeats()? {
        report.repeats.push(files.summary()?);
        report.seconds.extend(files.seconds()?);
        report.telemetry.extend(files.telemetry()?);
        if report.seconds.len().max(report.telemetry.len()) > ROWS_MAX {
            let what = format!("its repeats have more than {ROWS_MAX} rows of seconds");
            return Err(RecordError::Damaged { path: record.path().to_owned(), what });
        }
    }
    Ok(report)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        fakes::{FakeWorld, Guests, TILE, answered, ladder, plan_of, run},
        stop::StopSignal,
    };
    use std::{fs, os::unix::fs::symlink};
    use tilemark_guests::fake::{FakeManager, Fault};
    use tilemark_plan::{plan::Backend, resolve::Request};

    #[test]
    fn the_console_of_a_guest_that_ended_is_shown_and_no_file_that_a_link_leads_to() {
        let disk = "[[guest]]\nname = \"disk\"\nrole = \"disk\"\n[[guest.disk]]\nsize = \"64MiB\"\n[[load]]\nname = \"disk\"\n\
                    guest = \"disk\"\nrate = \"50/s\"\n[load.disk]\n[ladder]";
        let plan = plan_of(&TILE.replace("[ladder]", disk), &Request { tiles: Some(vec![1]), ..ladder() });
        let dies = FakeManager::new(Backend::Native).where_guest("tile-001-disk", Fault::DiesAfter(2));
        let world = FakeWorld::new(|job, _| answered(job, 5)).with(Guests::of(dies));
        let ran = run(&plan, &world, &StopSignal::default());
        let outside = tempfile::tempdir().unwrap();
        fs::write(outside.path().join("console.log"), "what root alone may read").unwrap();
        let message = || guest_that_ended(&ran.record).unwrap().unwrap().message;
        let first = ran.record.repeats().unwrap().remove(0);
        let folder = first.guest("tile-001-disk").unwrap();
        fs::write(folder.join("console.log"), "its last words").unwrap();
        assert!(message().contains("ends with:\n    its last words"), "{}", message());
        fs::remove_file(folder.join("console.log")).unwrap();
        symlink(outside.path().join("console.log"), folder.join("console.log")).unwrap();
        assert!(message().ends_with("console.log is empty"), "{}", message());
        fs::remove_dir_all(&folder).unwrap();
        symlink(outside.path(), &folder).unwrap();
        assert!(message().ends_with("console.log is empty"), "{}", message());
    }
}
