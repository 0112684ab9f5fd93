//! Files of the host that a web load takes its requests, a body or certificates from. What they hold is put into the plan, so that the
//! record has what was sent.

use crate::{
    failure::{Failure, FailureCode},
    plan::scenario_file::find,
};
use std::{collections::BTreeMap, path::Path};
use tilemark_plan::{
    plan::Plan,
    problem::{Problem, Problems},
    workload::REQUEST_FILE_BYTES_MAX,
};
use tilemark_sys::text_file;

/// Bytes that files may add to a plan, whose every guest has its own copy.
const ADDED_BYTES_MAX: usize = 128 << 20;

/// Reads all of them, each once.
///
/// # Errors
/// When a file cannot be read, what it holds cannot be sent, or the plan would be too large.
pub(crate) fn read(plan: &mut Plan) -> Result<(), Failure> {
    let folder = Path::new(&plan.origin).parent().map(Path::to_owned).unwrap_or_default();
    let mut known: BTreeMap<String, String> = BTreeMap::new();
    let mut added = 0;
    let mut problems = Vec::new();
    for web in plan.works_mut().filter_map(|work| work.web_mut()) {
        if web.unread_files().next().is_none() {
            continue;
        }
        web.read_files(|key, path| {
            let text = match known.get(path) {
                Some(text) => text.clone(),
                None => known.entry(path.to_owned()).or_insert(text_of(&folder, path, key)?).clone(),
            };
            added += text.len();
            if added > ADDED_BYTES_MAX { Err(ReadError::Read(too_much(path, text.len()))) } else { Ok(text) }
        })
        .map_err(Failure::from)?;
        web.check_alone("web", &mut |message: String, remedy: &str| {
            let problem = Problem::new(message, remedy);
            if !problems.contains(&problem) {
                problems.push(problem);
            }
        });
    }
    if problems.is_empty() { Ok(()) } else { Err(Problems(problems).into()) }
}

/// What keeps a file from being used.
enum ReadError {
    Read(Failure),
    Holds(Problem),
}

impl From<Problem> for ReadError {
    fn from(problem: Problem) -> Self {
        Self::Holds(problem)
    }
}

impl From<ReadError> for Failure {
    fn from(error: ReadError) -> Self {
        match error {
            ReadError::Read(failure) => failure,
            ReadError::Holds(problem) => Problems::from(problem).into(),
        }
    }
}

fn text_of(folder: &Path, path: &str, key: &str) -> Result<String, ReadError> {
    let message = format!("cannot read {} (`load.NAME.web.{key}`)", folder.join(path).display());
    let remedy = "give the path of a file of UTF-8 text with at most 512 KiB, from the scenario's file";
    let found = find(folder, path, &message, remedy).map_err(ReadError::Read)?;
    let text = found.file().and_then(|file| text_file::text_of(file, REQUEST_FILE_BYTES_MAX));
    text.map_err(|error| ReadError::Read(Failure::caused_by(&error, FailureCode::BadInput, message, remedy)))
}

fn too_much(path: &str, bytes: usize) -> Failure {
    Failure::new(
        FailureCode::BadInput,
        format!(
            "{path} has {bytes} bytes, and a plan with a copy for each guest would add more than 128 MiB"
        ),
        "use a shorter file, or fewer tiles",
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fakes::{TILE, ladder, plan_of};
    use std::fs;
    use tilemark_plan::workload::Work;

    /// A plan whose load asks a server of its own, with these keys; its scenario is in `folder`.
    fn plan(folder: &Path, keys: &str) -> Plan {
        let tile = TILE
            .replace("[load.web]\n", &format!("[load.web]\n{keys}\n"))
            .replace("role = \"web\"\n", "role = \"web\"\npages = \"/srv/shop\"\n");
        Plan { origin: folder.join("t.toml").display().to_string(), ..plan_of(&tile, &ladder()) }
    }

    #[test]
    fn texts_of_files_are_in_every_load_of_the_plan_and_their_names_are_not() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("requests.toml"), "[[request]]\npath = \"/a\"\nweight = 3\n").unwrap();
        fs::write(folder.path().join("body.json"), "{}").unwrap();
        let mut plan = plan(
            folder.path(),
            "request_file = \"requests.toml\"\nbody_file = \"body.json\"\nmethod = \"POST\"",
        );
        read(&mut plan).unwrap();
        let mut loads = 0;
        for work in plan.works_mut() {
            let Work::Web(web) = work else { continue };
            assert_eq!((web.request.len(), web.request[0].weight, web.body.as_deref()), (1, 3, Some("{}")));
            assert_eq!(web.unread_files().count(), 0);
            loads += 1;
        }
        assert!(loads > 2, "the scenario and its points: {loads}");
    }

    #[test]
    fn a_file_that_cannot_be_used_is_named_with_what_is_wrong() {
        let folder = tempfile::tempdir().unwrap();
        let said = |name: &str, text: &str, keys: &str| {
            fs::write(folder.path().join(name), text).unwrap();
            read(&mut plan(folder.path(), keys)).unwrap_err().message
        };
        let absent = read(&mut plan(folder.path(), "request_file = \"nowhere.toml\"")).unwrap_err();
        assert!(absent.message.contains("nowhere.toml"), "{}", absent.message);
        // What it leads to is not what `--trust` was asked for.
        std::os::unix::fs::symlink("/etc/passwd", folder.path().join("link.json")).unwrap();
        let keys = "path = \"/\"\nmethod = \"POST\"\nbody_file = \"link.json\"";
        let misled = read(&mut plan(folder.path(), keys)).unwrap_err();
        assert!(
            misled.message.contains("link.json (`load.NAME.web.body_file`): a link leads out"),
            "{misled:?}"
        );
        let odd = said("odd.toml", "[[request]]\nwieght = 1\n", "request_file = \"odd.toml\"");
        assert!(odd.contains("odd.toml: line 2: there is no key `wieght`"), "{odd}");
        let bad = said("bad.toml", "[[request]]\npath = \"no path\"\n", "request_file = \"bad.toml\"");
        assert!(bad.contains("is not a valid path of a URL"), "{bad}");
        let ca = said("ca.pem", "hello", "path = \"/\"\ntls = true\nca_file = \"ca.pem\"");
        assert!(ca.contains("`ca` holds no certificate"), "{ca}");
    }
}
