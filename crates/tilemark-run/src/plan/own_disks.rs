//! Disks of the user's own that guests boot from: found from the scenario's file, looked at before anything starts, and known afterwards by
//! what they hold.

use crate::{
    failure::{Failure, FailureCode},
    plan::scenario_file::callers,
};
use std::{
    collections::{BTreeMap, BTreeSet},
    fs::File,
    io,
    path::{Path, PathBuf},
};
use tilemark_image::own_disk::{Level, OwnDisk, look_at, refuse_writable};
use tilemark_plan::{own_disk::OwnDisk as Named, plan::Plan};
use tilemark_record::result::GuestDisk;
use tilemark_units::{Bytes, Sha256Hash};

/// Files up to this are hashed whole, which takes seconds. Larger ones are known by their length, their time and their beginning.
const HASHED_MAX: Bytes = Bytes::from_gib(4);
/// So much of a larger one is hashed.
const BEGINNING: Bytes = Bytes::from_mib(64);

/// Looks at every disk that a guest boots from, and makes its path absolute.
///
/// # Errors
/// When no guest can boot from one of them; the message says why.
pub(crate) fn find(plan: &mut Plan) -> Result<(), Failure> {
    let folder = Path::new(&plan.origin).parent().map(Path::to_owned).unwrap_or_default();
    let mut found: BTreeMap<String, String> = BTreeMap::new();
    let of_points = plan.points.iter_mut().flat_map(|point| &mut point.guests);
    let of_points = of_points.filter_map(|guest| guest.from.as_mut()).map(|Named { path, .. }| path);
    let of_scenario = plan.scenario.guest.iter_mut().filter_map(|guest| guest.from.as_mut());
    for path in of_scenario.chain(of_points) {
        let absolute = match found.get(path) {
            Some(known) => known.clone(),
            None => {
                let disk = looked_at(&folder.join(&*path))?;
                let absolute = disk.levels[0].path.to_string_lossy().into_owned();
                found.entry(path.clone()).or_insert(absolute).clone()
            }
        };
        *path = absolute;
    }
    Ok(())
}

fn looked_at(path: &Path) -> Result<OwnDisk, Failure> {
    let looked = look_at(path).and_then(|disk| refuse_writable(&disk, &callers()).map(|()| disk));
    looked.map_err(|error| Failure::from_error(FailureCode::BadInput, &error, error.remedy()))
}

/// The disks of a plan, as a person reads them. Those that may not be opened are in it by their names only.
pub(crate) fn in_words(plan: &Plan, may_open: bool) -> Vec<String> {
    let of_points = plan.points.iter().flat_map(|point| &point.guests);
    let named: BTreeSet<(&str, &str, String)> = of_points
        .filter_map(|guest| {
            let own = guest.from.as_ref()?;
            Some((guest.name_in_tile(), own.path.as_str(), own.boots_within.to_string()))
        })
        .collect();
    let line = |(guest, path, within): (&str, &str, String)| {
        let mut known = String::new();
        if may_open {
            let disk = look_at(Path::new(path)).ok()?;
            known = format!(" ({}, {})", disk.levels[0].format.name(), disk.size.rounded());
        }
        Some(format!(
            "`{guest}` boots {path}{known}, which is never written to; its agent must answer within {within}"
        ))
    };
    named.into_iter().filter_map(line).collect()
}

/// What each disk of a plan is, for its record.
///
/// # Errors
/// When one cannot be read.
pub(crate) fn recorded(plan: &Plan) -> Result<Vec<GuestDisk>, Failure> {
    let of_points = plan.points.iter().flat_map(|point| &point.guests);
    let named: BTreeSet<(&str, &str)> = of_points
        .filter_map(|guest| Some((guest.name_in_tile(), guest.from.as_ref()?.path.as_str())))
        .collect();
    let mut disks = Vec::new();
    // Guests may share a disk, and disks a backing file: each is read once.
    let mut marks: BTreeMap<PathBuf, String> = BTreeMap::new();
    for (guest, path) in named {
        for Level { path, format, bytes } in looked_at(Path::new(path))?.levels {
            let mark = match marks.get(&path) {
                Some(mark) => mark.clone(),
                None => mark(&path, bytes).map_err(|error| {
                    let message = format!("cannot read the disk {}", path.display());
                    Failure::caused_by(&error, FailureCode::BadInput, message, "let root read it")
                })?,
            };
            marks.insert(path.clone(), mark.clone());
            let file = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            disks.push(GuestDisk {
                guest: guest.to_owned(),
                file,
                format: format.name().to_owned(),
                bytes: bytes.get(),
                mark,
                kernel: None,
            });
        }
    }
    Ok(disks)
}

/// By what a file is known again.
fn mark(path: &Path, bytes: Bytes) -> io::Result<String> {
    let file = File::open(path)?;
    if bytes <= HASHED_MAX {
        return Ok(format!("sha256 {}", Sha256Hash::of_reader(file)?));
    }
    let changed = file.metadata()?.modified()?.duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    let beginning = Sha256Hash::of_reader(io::Read::take(file, BEGINNING.get()))?;
    Ok(format!(
        "changed {}.{:09}, sha256 of the first {BEGINNING} {beginning}",
        changed.as_secs(),
        changed.subsec_nanos()
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fakes::{TILE, ladder, plan_of};
    use tilemark_image::own_disk::write_overlay;
    use tilemark_plan::{plan::Backend, resolve::Request};

    fn plan(folder: &Path) -> Plan {
        let guest = "[[guest]]\nname = \"own\"\nfrom = \"d.qcow2\"\n[ladder]";
        let request = Request { backends: vec![Backend::Emulated], tiles: Some(vec![1]), ..ladder() };
        let mut plan = plan_of(&TILE.replace("[ladder]", guest), &request);
        plan.origin = folder.join("s.toml").display().to_string();
        plan
    }

    #[test]
    fn a_disk_is_found_beside_the_scenario_and_recorded_by_what_it_holds() {
        let folder = tempfile::tempdir().unwrap();
        let mut planned = plan(folder.path());
        let missing = find(&mut planned).unwrap_err();
        assert!(missing.message.contains("cannot read the disk"), "{missing:?}");
        assert!(missing.remedy.contains("guest.NAME.from"), "{missing:?}");
        write_overlay(&folder.path().join("d.qcow2"), Bytes::from_gib(2)).unwrap();
        find(&mut planned).unwrap();
        let own = planned.points[0].guests.iter().find_map(|guest| guest.from.clone()).unwrap();
        assert!(Path::new(&own.path).is_absolute() && own.path.ends_with("/d.qcow2"), "{own:?}");
        let words = in_words(&planned, true).join("");
        assert!(words.starts_with("`own` boots /") && words.contains("(qcow2, 2 GiB)"), "{words}");
        let unopened = in_words(&planned, false).join("");
        assert!(unopened.starts_with("`own` boots /") && !unopened.contains("2 GiB"), "{unopened}");
        let recorded = recorded(&planned).unwrap();
        assert_eq!((recorded.len(), &recorded[0].file[..], recorded[0].bytes), (1, "d.qcow2", 4 << 16));
        let hash = Sha256Hash::of(&std::fs::read(&own.path).unwrap());
        assert_eq!(recorded[0].mark, format!("sha256 {hash}"));
        // Somebody else could write it before QEMU opens it.
        std::fs::set_permissions(&own.path, std::os::unix::fs::PermissionsExt::from_mode(0o666)).unwrap();
        let refused = find(&mut planned).unwrap_err();
        assert!(refused.message.contains("may be written by other users (mode 666)"), "{refused:?}");
    }
}
