//! Files of the host that a command brings along.

use crate::failure::{Failure, FailureCode};
use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};
use tilemark_agent_protocol::{BROUGHT_BYTES_MAX, BroughtFile, LoadJob};
use tilemark_plan::{
    plan::Plan,
    workload::{CommandFrom, Work},
};
use tilemark_sys::text_file::read_bytes;

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
                None => found.entry(path.clone()).or_insert(look_up(&folder.join(&*path))?).clone(),
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

fn look_up(path: &Path) -> Result<(PathBuf, u64), Failure> {
    let remedy = "correct the path in `load.NAME.command.files`: it is relative to the scenario's file, or to the folder that a fleet \
                  sends that file to: for a fleet, write a path that is absolute on each host";
    let message = || format!("a `load.command` needs the file {}, which can't be used", path.display());
    let failed = |error: std::io::Error| Failure::caused_by(&error, FailureCode::BadInput, message(), remedy);
    let absolute = fs::canonicalize(path).map_err(failed)?;
    let metadata = fs::metadata(&absolute).map_err(failed)?;
    if !metadata.is_file() {
        return Err(Failure::new(FailureCode::BadInput, format!("{}: it is not a file", message()), remedy));
    }
    Ok((absolute, metadata.len()))
}

/// Reads the files of a job that runs in a guest.
pub(crate) fn bring(mut job: LoadJob) -> Result<LoadJob, Failure> {
    for stream in &mut job.streams {
        let Work::Command(command) = &*stream.work else { continue };
        let read = |(name, path): (&String, &String)| {
            // Whoever owns it may have put another one there meanwhile.
            let bytes = read_bytes(Path::new(path), BROUGHT_BYTES_MAX as u64).map_err(|error| {
                let message = format!("cannot read {path}, which a command brings along");
                Failure::caused_by(
                    &error,
                    FailureCode::BadInput,
                    message,
                    "leave the file in its place while it is measured",
                )
            })?;
            Ok(BroughtFile { name: name.clone(), bytes })
        };
        stream.files = command.files.iter().map(read).collect::<Result<_, Failure>>()?;
    }
    Ok(job)
}
