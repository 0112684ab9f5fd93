//! Files of the host that a command brings along.

use crate::{
    failure::{Failure, FailureCode},
    plan::scenario_file,
};
use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};
use tilemark_agent_protocol::{BROUGHT_BYTES_MAX, BroughtFile, LoadJob};
use tilemark_plan::{
    plan::Plan,
    workload::{CommandFrom, Work},
};
use tilemark_sys::text_file::bytes_of;

/// Makes all paths absolute, as seen from the scenario's file, and sees that the files are there and small enough.
pub(crate) fn find(plan: &mut Plan) -> Result<(), Failure> {
    let folder = Path::new(&plan.origin).parent().map(Path::to_owned).unwrap_or_default();
    let mut found: BTreeMap<String, (PathBuf, u64)> = BTreeMap::new();
    for work in plan.works_mut() {
        let is_sent = work.command().is_some_and(|command| command.from == CommandFrom::Guest);
        let mut size = 0;
        for path in work.files_mut().into_iter().flat_map(BTreeMap::values_mut) {
            let (absolute, bytes) = match found.get(path) {
                Some(known) => known.clone(),
                None => found.entry(path.clone()).or_insert(look_up(&folder, path)?).clone(),
            };
            *path = absolute.to_string_lossy().into_owned();
            size += bytes;
        }
        if is_sent && size > BROUGHT_BYTES_MAX as u64 {
            return Err(Failure::new(
                FailureCode::BadInput,
                format!("the files of a `load.command` have {size} bytes together"),
                format!("bring {BROUGHT_BYTES_MAX} bytes at most; put larger ones into the image"),
            ));
        }
    }
    Ok(())
}

fn look_up(folder: &Path, path: &str) -> Result<(PathBuf, u64), Failure> {
    let remedy = "correct the path in `load.NAME.command.files`: it is relative to the scenario's file, or to the folder that a fleet \
                  sends that file to: for a fleet, write a path that is absolute on each host";
    let message =
        format!("a `load.command` needs the file {}, which can't be used", folder.join(path).display());
    let found = scenario_file::find(folder, path, &message, remedy)?;
    if !found.metadata().is_file() {
        return Err(Failure::new(FailureCode::BadInput, format!("{message}: it is not a file"), remedy));
    }
    let absolute = found.real_path();
    let absolute =
        absolute.map_err(|error| Failure::caused_by(&error, FailureCode::BadInput, message, remedy))?;
    Ok((absolute, found.metadata().len()))
}

/// Reads the files of a job that runs in a guest.
pub(crate) fn bring(mut job: LoadJob) -> Result<LoadJob, Failure> {
    for stream in &mut job.streams {
        let Work::Command(command) = &*stream.work else { continue };
        stream.files = command.files.iter().map(brought).collect::<Result<_, Failure>>()?;
    }
    Ok(job)
}

/// A file, by its name in the guest and its real path on the host.
fn brought((name, path): (&String, &String)) -> Result<BroughtFile, Failure> {
    // Whoever owns it may have put another one there meanwhile.
    let file = scenario_file::open_found(Path::new(path));
    let bytes = file.and_then(|file| bytes_of(file, BROUGHT_BYTES_MAX as u64)).map_err(|error| {
        let message = format!("cannot read {path}, which a command brings along");
        let remedy = "leave the file in its place while it is measured";
        Failure::caused_by(&error, FailureCode::BadInput, message, remedy)
    })?;
    Ok(BroughtFile { name: name.clone(), bytes })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fakes::{TILE, ladder, plan_of};
    use std::{fs, os::unix::fs::symlink};

    /// A plan whose command brings a file; its scenario is in `folder`.
    fn plan(folder: &Path) -> Plan {
        let load = "[[load]]\nname = \"own\"\nguest = \"idle\"\n[load.command]\nrun = [\"bench.sh\"]\n\
                    files = { \"bench.sh\" = \"bench.sh\" }\nfigure = '([0-9]+)'\nunit = \"s\"\nbetter = \"lower\"\n[ladder]";
        let mut plan = plan_of(&TILE.replace("[ladder]", load), &ladder());
        plan.origin = folder.join("t.toml").display().to_string();
        plan
    }

    #[test]
    fn a_file_that_is_exchanged_for_a_link_after_it_was_found_is_not_brought() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("bench.sh");
        symlink("/etc/passwd", &file).unwrap();
        let misled = find(&mut plan(folder.path())).unwrap_err();
        assert!(misled.message.contains("bench.sh, which can't be used: a link leads out"), "{misled:?}");
        fs::remove_file(&file).unwrap();
        fs::write(&file, "#!/bin/sh").unwrap();
        let mut found = plan(folder.path());
        find(&mut found).unwrap();
        let of_load = found.works_mut().find_map(|work| work.files_mut().cloned()).unwrap();
        let read = || brought(of_load.first_key_value().unwrap());
        assert_eq!(read().unwrap().bytes, b"#!/bin/sh");
        fs::remove_file(&file).unwrap();
        symlink("/etc/passwd", &file).unwrap();
        let refused = read().unwrap_err();
        assert!(refused.message.contains("bench.sh, which a command brings along"), "{refused:?}");
    }
}
