//! Records come home: each as its length, its bytes and their SHA-256, unpacked beside its place, checked against its own manifest,
//! and renamed as a whole. Collecting again goes on where a killed one was cut.

use crate::{
    carrier::{CarrierError, FETCH, Question, ask},
    end::{End, HostEnd},
    error::FleetError,
    folder::{Fleet, FleetFolder},
    job::end_of,
};
use flate2::read::GzDecoder;
use rustix::fs::{CWD, RenameFlags, renameat_with};
use std::{
    error::Error,
    ffi::OsString,
    fs::{self, File, Permissions},
    io::{self, Read, Write},
    os::unix::{ffi::OsStringExt, fs::PermissionsExt},
    path::{Component, Path, PathBuf},
    time::Duration,
};
use tar::{Archive, EntryType, PaxExtensions};
use tilemark_record::{RunDirectory, write_whole};
use tilemark_site::Host;
use tilemark_sys::files::{OPEN_FOLDER, make_folder};

/// A record of a thousand guests over an hour is far below both.
const FILES_MAX: usize = 1 << 20;
const UNPACKED_BYTES_MAX: u64 = 32 << 30;
/// What a file or a folder takes of a disk, however short it is.
const ENTRY_BYTES_MIN: u64 = 4 << 10;
/// What precedes a file in an archive takes memory only, and time.
const DESCRIPTION_BYTES_MIN: u64 = 512;
/// A host that is started again and again has as many, and its numbers are below this.
pub(crate) const ATTEMPTS_MAX: u32 = 1_000;
/// What the work of a host makes in the folder of an attempt (`job.sh`). Nothing else of it is unpacked.
const OF_AN_ATTEMPT: [&str; 7] = ["record", "exit", "log", "began", "scenario.toml", "exit.new", "began.new"];
const LOG_BYTES_MAX: u64 = 1 << 20;
/// Everybody may read a record, as where it was measured.
const OPEN_FILE: u32 = 0o644;
/// How an attempt ended, as this machine writes it.
const END: &str = "end.json";
/// How a folder begins in which an attempt is unpacked.
const BESIDE: &str = ".attempt-";
/// What precedes a file in an archive and describes it: its long name (PATH_MAX of linux/limits.h is 4,096), or times and names of POSIX.
const DESCRIPTION_BYTES_MAX: u64 = 64 << 10;
/// A record of gigabytes over a slow line.
const FETCH_WITHIN: Duration = Duration::from_secs(3600);

/// An attempt, as a host reports it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AttemptState {
    Running,
    /// With the exit code.
    Ended(i32),
    Lost,
}

/// What a host reports of its attempts, by number.
pub(crate) fn attempts(lines: &[String]) -> Vec<(u32, AttemptState)> {
    let read = |line: &String| match line.split(' ').collect::<Vec<_>>().as_slice() {
        ["attempt", number, "running"] => Some((number.parse().ok()?, AttemptState::Running)),
        ["attempt", number, "lost"] => Some((number.parse().ok()?, AttemptState::Lost)),
        ["attempt", number, "ended", code] => {
            Some((number.parse().ok()?, AttemptState::Ended(code.parse().ok()?)))
        }
        _ => None,
    };
    let mut found: Vec<(u32, AttemptState)> = lines.iter().filter_map(read).collect();
    // A shell lists the tenth before the second.
    found.sort_by_key(|(number, _)| *number);
    found
}

/// Refuses what would be fetched and kept without end.
fn not_too_many(found: &[(u32, AttemptState)]) -> Result<(), CarrierError> {
    if found.len() > ATTEMPTS_MAX as usize || found.iter().any(|(number, _)| *number > ATTEMPTS_MAX) {
        return Err(CarrierError::Odd(format!("it reports more than {ATTEMPTS_MAX} attempts")));
    }
    Ok(())
}

/// What asking a host or taking its record home can fail with.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CollectError {
    #[error(transparent)]
    Carrier(#[from] CarrierError),
    #[error("its record is not whole: {0}")]
    Record(String),
    #[error(transparent)]
    Fleet(#[from] FleetError),
}

/// Takes all attempts of a host home that have ended and are not here yet; what the host reports of each.
pub(crate) fn collect(
    folder: &FleetFolder,
    fleet: &Fleet,
    host: &Host,
) -> Result<Vec<(u32, AttemptState)>, CollectError> {
    let place = folder.path().join("hosts").join(&host.name);
    remove_left(&place).map_err(FleetError::file(&place))?;
    let question = Question {
        verb: "state",
        fleet: &fleet.id,
        seconds: 0,
        attempt: 0,
        job: "",
        within: Duration::from_secs(90),
    };
    let found = attempts(&ask(&fleet.site, host, question)?.lines);
    not_too_many(&found)?;
    let is_missing = |(number, state): &&(u32, AttemptState)| match state {
        AttemptState::Running => false,
        AttemptState::Ended(_) => !is_home(folder, host, *number),
        AttemptState::Lost => folder.end(&host.name, *number).is_none(),
    };
    let missing: Vec<u32> = found.iter().filter(is_missing).map(|(number, _)| *number).collect();
    if !missing.is_empty() {
        let mut room = room_left(&place).map_err(FleetError::file(&place))?;
        missing.iter().try_for_each(|number| fetch(folder, fleet, host, *number, &mut room))?;
    }
    Ok(found)
}

/// Bytes that may be unpacked of a host still, whose attempts are in this folder: those of all its collections count.
fn room_left(hosts: &Path) -> io::Result<u64> {
    Ok(UNPACKED_BYTES_MAX.saturating_sub(bytes_in(hosts)?))
}

/// What the files and folders in a folder take, as far as it exists.
fn bytes_in(folder: &Path) -> io::Result<u64> {
    let entries = match fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(0),
        entries => entries?,
    };
    let mut bytes = 0_u64;
    for entry in entries {
        let found = entry?;
        let metadata = found.metadata()?;
        let below = if metadata.is_dir() { bytes_in(&found.path())? } else { 0 };
        let own = if metadata.is_dir() { 0 } else { metadata.len() };
        bytes = bytes.saturating_add(own.max(ENTRY_BYTES_MIN)).saturating_add(below);
    }
    Ok(bytes)
}

/// Whether an attempt is here as its host closed it.
fn is_home(folder: &FleetFolder, host: &Host, number: u32) -> bool {
    folder.attempt(&host.name, number).join("exit").exists() && folder.end(&host.name, number).is_some()
}

/// `room`: bytes that may be unpacked of the host still.
fn fetch(
    folder: &FleetFolder,
    fleet: &Fleet,
    host: &Host,
    number: u32,
    room: &mut u64,
) -> Result<(), CollectError> {
    let question = Question {
        verb: FETCH,
        fleet: &fleet.id,
        seconds: 0,
        attempt: number,
        job: "",
        within: FETCH_WITHIN,
    };
    let answer = ask(&fleet.site, host, question)?;
    let archive = answer.parts.into_iter().find(|(name, _)| name == "archive");
    let (_, archive) = archive.ok_or_else(|| CarrierError::Odd("it has no record".to_owned()))?;
    take_home(&folder.attempt(&host.name, number), archive, room)
}

/// Unpacks an attempt beside its place, checks it and puts it there, whole or not at all.
fn take_home(place: &Path, archive: File, room: &mut u64) -> Result<(), CollectError> {
    let failed = |source| CollectError::Fleet(FleetError::file(place)(source));
    let hosts = place.parent().expect("an attempt is below its host");
    make_folder(hosts, OPEN_FOLDER).map_err(failed)?;
    // Removed where this ends early; that of a killed one is removed by the next collection.
    let beside = tempfile::Builder::new().prefix(BESIDE).tempdir_in(hosts).map_err(failed)?;
    unpack(archive, beside.path(), room).map_err(|error| match error {
        UnpackError::Archive(error) => CollectError::Record(error.to_string()),
        UnpackError::Here(error) => failed(error),
    })?;
    let text = |name: &str| -> String {
        let mut bytes = Vec::new();
        let read = File::open(beside.path().join(name))
            .and_then(|file| file.take(LOG_BYTES_MAX).read_to_end(&mut bytes));
        read.map(|_| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default()
    };
    let record = RunDirectory::at(&beside.path().join("record"));
    let mut result = None;
    if record.is_closed() {
        record.verify().map_err(|error| CollectError::Record(error.to_string()))?;
        result = Some(record.result().map_err(|error| CollectError::Record(error.to_string()))?);
    }
    let end = match text("exit").trim().parse() {
        Ok(exit_code) => end_of(exit_code, result.as_ref(), &text("log")),
        Err(_) if beside.path().join("exit").exists() => {
            return Err(CollectError::Record("it has no exit code".to_owned()));
        }
        Err(_) => lost(&record),
    };
    write_end(beside.path(), &end)?;
    put(&beside.keep(), place).map_err(failed)
}

/// Removes what a killed collection left beside the attempts of a host. Whoever collects has the lock, so none of it is in use.
fn remove_left(hosts: &Path) -> io::Result<()> {
    let entries = match fs::read_dir(hosts) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        entries => entries?,
    };
    for entry in entries {
        let entry = entry?;
        if entry.file_name().as_encoded_bytes().starts_with(BESIDE.as_bytes()) {
            fs::remove_dir_all(entry.path())?;
        }
    }
    Ok(())
}

/// The end of an attempt that nobody closed, with what it had finished.
fn lost(record: &RunDirectory) -> HostEnd {
    if record.is_closed() {
        let because =
            "its job was ended while it measured; the run there closed its record and restored the host"
                .to_owned();
        return HostEnd { end: End::Lost, exit_code: None, because };
    }
    let whole = record.repeats().map_or(0, |repeats| repeats.len());
    let kept = match whole {
        0 => "no repeat was whole".to_owned(),
        1 => "one repeat was whole, and is in its record, which has no verdict".to_owned(),
        whole => format!("{whole} repeats were whole, and are in its record, which has no verdict"),
    };
    let because = format!("the host or its job was ended while it measured: {kept}");
    HostEnd { end: End::Lost, exit_code: None, because }
}

fn write_end(folder: &Path, end: &HostEnd) -> Result<(), FleetError> {
    let text = serde_json::to_vec_pretty(end).expect("documents have only text keys");
    Ok(write_whole(&folder.join(END), &text)?)
}

/// Renames a folder into its place, in exchange for what is there.
fn put(from: &Path, place: &Path) -> io::Result<()> {
    fs::set_permissions(from, Permissions::from_mode(OPEN_FOLDER))?;
    if place.exists() {
        renameat_with(CWD, from, CWD, place, RenameFlags::EXCHANGE)?;
        fs::remove_dir_all(from)?;
    } else {
        fs::rename(from, place)?;
    }
    File::open(place.parent().expect("an attempt is below its host"))?.sync_all()
}

/// Why an archive cannot be unpacked.
#[derive(Debug)]
enum UnpackError {
    /// By its own fault: that of one host.
    Archive(io::Error),
    /// Because of this machine: its disk is full, is damaged or may not be written.
    Here(io::Error),
}

impl UnpackError {
    /// Of reading it. Only this machine's own file can fail by a number of the system.
    fn reading(error: io::Error) -> Self {
        if is_of_system(&error) { Self::Here(error) } else { Self::Archive(error) }
    }

    /// Of making what it names: a name that cannot be made here is its fault.
    fn naming(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::NotFound
            | io::ErrorKind::AlreadyExists
            | io::ErrorKind::NotADirectory
            | io::ErrorKind::IsADirectory
            | io::ErrorKind::InvalidFilename
            | io::ErrorKind::InvalidInput => Self::Archive(error),
            _ => Self::Here(error),
        }
    }
}

/// Whether the system gave this error, or one below it.
fn is_of_system(error: &(dyn Error + 'static)) -> bool {
    let mut all = std::iter::successors(Some(error), |&error| error.source());
    all.any(|error| error.downcast_ref::<io::Error>().is_some_and(|error| error.raw_os_error().is_some()))
}

/// Unpacks the archive of an attempt into a folder, at most so many bytes.
///
/// # Errors
/// When it is damaged, has more, or has what no attempt has.
pub fn unpack_attempt(archive: File, into: &Path, bytes_max: u64) -> io::Result<()> {
    unpack(archive, into, &mut { bytes_max }).map_err(|error| match error {
        UnpackError::Archive(error) | UnpackError::Here(error) => error,
    })
}

/// Unpacks plain files and folders of at most so many bytes, and refuses all else: an archive is a host's word.
fn unpack(archive: File, into: &Path, room: &mut u64) -> Result<(), UnpackError> {
    let bad = |what: String| UnpackError::Archive(io::Error::new(io::ErrorKind::InvalidData, what));
    let mut archive = Archive::new(GzDecoder::new(archive).take(UNPACKED_BYTES_MAX));
    let mut folders = vec![into.to_owned()];
    let mut long_name = None;
    // Raw: what describes the next file is else read whole into memory, however long it is.
    let entries = archive.entries().map_err(UnpackError::reading)?;
    for (count, entry) in entries.raw(true).enumerate() {
        let mut entry = entry.map_err(UnpackError::reading)?;
        if count >= FILES_MAX {
            return Err(bad(format!("it has more than {FILES_MAX} files")));
        }
        let kind = entry.header().entry_type();
        // Also of what is not unpacked: reading it takes time.
        *room = room.checked_sub(room_of(kind, entry.size())).ok_or_else(|| {
            bad(format!("with it, this host's attempts have more than {UNPACKED_BYTES_MAX} bytes here"))
        })?;
        match kind {
            EntryType::GNULongName | EntryType::XHeader if long_name.is_some() => {
                return Err(bad("it has two long names for one file".to_owned()));
            }
            EntryType::GNULongName => {
                let name = description(&mut entry).map_err(UnpackError::reading)?;
                let name = name.strip_suffix(b"\0").unwrap_or(&name).to_vec();
                long_name = Some(PathBuf::from(OsString::from_vec(name)));
                continue;
            }
            EntryType::XHeader => {
                let header = description(&mut entry).map_err(UnpackError::reading)?;
                long_name = posix_name(&header).map_err(UnpackError::reading)?;
                continue;
            }
            // A comment.
            EntryType::XGlobalHeader => continue,
            _ => {}
        }
        let name = match long_name.take() {
            Some(name) => name,
            None => entry.path().map_err(UnpackError::reading)?.into_owned(),
        };
        let parts: Vec<Component<'_>> = name.components().filter(|part| *part != Component::CurDir).collect();
        if !parts.iter().all(|part| matches!(part, Component::Normal(_))) {
            return Err(bad(format!("it names {name:?}, which is outside of it")));
        }
        if !matches!(kind, EntryType::Directory | EntryType::Regular) {
            return Err(bad(format!("it has {name:?}, which is neither a file nor a folder: {kind:?}")));
        }
        match parts.first().and_then(|first| first.as_os_str().to_str()) {
            Some(END) => return Err(bad(format!("it has {END}, which no host writes"))),
            Some(name) if OF_AN_ATTEMPT.contains(&name) => {}
            _ => continue,
        }
        let path: PathBuf = parts.iter().fold(into.to_owned(), |path, part| path.join(part));
        if kind == EntryType::Directory {
            make_folder(&path, OPEN_FOLDER).map_err(UnpackError::naming)?;
            folders.push(path);
            continue;
        }
        let mut file = File::create_new(&path).map_err(UnpackError::naming)?;
        file.set_permissions(Permissions::from_mode(OPEN_FILE)).map_err(UnpackError::Here)?;
        copy(&mut entry, &mut file)?;
        file.sync_all().map_err(UnpackError::Here)?;
    }
    folders.iter().try_for_each(|folder| File::open(folder)?.sync_all()).map_err(UnpackError::Here)
}

/// The room that an entry of an archive takes.
fn room_of(kind: EntryType, bytes: u64) -> u64 {
    match kind {
        EntryType::GNULongName | EntryType::XHeader | EntryType::XGlobalHeader => {
            bytes.max(DESCRIPTION_BYTES_MIN)
        }
        _ => bytes.max(ENTRY_BYTES_MIN),
    }
}

/// Copies a file of an archive. `io::copy` does not show whether reading or writing failed.
fn copy(entry: &mut impl Read, file: &mut File) -> Result<(), UnpackError> {
    let mut buffer = vec![0; 64 << 10];
    loop {
        match entry.read(&mut buffer) {
            Ok(0) => return Ok(()),
            Ok(length) => file.write_all(&buffer[..length]).map_err(UnpackError::Here)?,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(UnpackError::reading(error)),
        }
    }
}

/// What an entry says about the next one.
fn description(entry: &mut impl Read) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    entry.take(DESCRIPTION_BYTES_MAX + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > DESCRIPTION_BYTES_MAX {
        let what = format!("it describes a file by more than {DESCRIPTION_BYTES_MAX} bytes");
        return Err(io::Error::new(io::ErrorKind::InvalidData, what));
    }
    Ok(bytes)
}

/// The name in a POSIX header, where it has one.
fn posix_name(header: &[u8]) -> io::Result<Option<PathBuf>> {
    let mut name = None;
    for extension in PaxExtensions::new(header) {
        let extension = extension.map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
        match extension.key_bytes() {
            b"path" => name = Some(PathBuf::from(OsString::from_vec(extension.value_bytes().to_vec()))),
            // The length in the file's own header is then not its length.
            b"size" => {
                let what = "it has a file of more than 8 GiB".to_owned();
                return Err(io::Error::new(io::ErrorKind::InvalidData, what));
            }
            _ => {}
        }
    }
    Ok(name)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use flate2::{Compression, write::GzEncoder};
    use std::io::{Seek, SeekFrom};

    fn home(place: &Path, archive: File) -> Result<(), CollectError> {
        take_home(place, archive, &mut { UNPACKED_BYTES_MAX })
    }

    fn unpacked(archive: File, into: &Path) -> Result<(), UnpackError> {
        unpack(archive, into, &mut { UNPACKED_BYTES_MAX })
    }

    fn archive(files: &[(&str, &str)]) -> File {
        let mut builder =
            tar::Builder::new(GzEncoder::new(tempfile::tempfile().unwrap(), Compression::fast()));
        for (name, text) in files {
            let mut header = tar::Header::new_gnu();
            header.set_size(text.len() as u64);
            header.set_mode(0o644);
            header.as_gnu_mut().unwrap().name[..name.len()].copy_from_slice(name.as_bytes());
            header.set_cksum();
            builder.append(&header, text.as_bytes()).unwrap();
        }
        let mut file = builder.into_inner().unwrap().finish().unwrap();
        file.seek(SeekFrom::Start(0)).unwrap();
        file
    }

    #[test]
    fn an_attempt_without_a_record_is_taken_home_with_its_reason() {
        let folder = tempfile::tempdir().unwrap();
        let place = folder.path().join("n1/attempt-0");
        home(&place, archive(&[("./exit", "3\n"), ("./log", "error: no image\n")])).unwrap();
        let end: HostEnd = serde_json::from_slice(&fs::read(place.join("end.json")).unwrap()).unwrap();
        assert_eq!(end, HostEnd { end: End::Unfit, exit_code: Some(3), because: "no image".into() });
        // Taken home again it is the same, and nothing is beside it.
        home(&place, archive(&[("./exit", "4\n")])).unwrap();
        let end: HostEnd = serde_json::from_slice(&fs::read(place.join("end.json")).unwrap()).unwrap();
        assert_eq!(end.end, End::GuestFailed);
        assert_eq!(fs::read_dir(place.parent().unwrap()).unwrap().count(), 1);
    }

    #[test]
    fn what_leads_outside_or_is_damaged_leaves_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let place = folder.path().join("n1/attempt-0");
        for files in [
            &[("../exit", "0")][..],
            &[("/exit", "0")],
            &[("exit", "x")],
            &[("exit", "0"), ("exit", "0")],
            &[("exit", "0"), ("record/manifest.json", "{\"schema\":1,\"files\":{\"plan.json\":\"00\"}}")],
        ] {
            assert!(home(&place, archive(files)).is_err(), "{files:?}");
            assert_eq!(fs::read_dir(place.parent().unwrap()).unwrap().count(), 0, "{files:?}");
        }
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    fn of_archive(unpacked: Result<(), UnpackError>) -> io::Error {
        match unpacked {
            Err(UnpackError::Archive(error)) => error,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_damaged_archive_is_the_fault_of_its_host_and_a_full_disk_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let mut noise = GzEncoder::new(tempfile::tempfile().unwrap(), Compression::fast());
        noise.write_all(&[b'x'; 2048]).unwrap();
        let mut noise = noise.finish().unwrap();
        noise.seek(SeekFrom::Start(0)).unwrap();
        let long = format!("record/{}", "x".repeat(300));
        for (what, archive) in [
            ("no tar", noise),
            ("a name of 300 letters", described(EntryType::GNULongName, long.len() as u64, &long)),
            ("a file below a file", archive(&[("exit", "0"), ("exit/log", "x")])),
            ("an end", archive(&[("exit", "0"), ("end.json/x", "x")])),
            ("an end of its own", archive(&[("exit", "0"), ("end.json", "x")])),
        ] {
            let error = home(&folder.path().join("n1/attempt-0"), archive).unwrap_err();
            assert!(matches!(error, CollectError::Record(_)), "{what}: {error:?}");
        }
        // ENOSPC, EIO, EACCES, EROFS and EMFILE, while something is made and while the archive is read.
        for number in [28, 5, 13, 30, 24] {
            let error = || io::Error::from_raw_os_error(number);
            assert!(matches!(UnpackError::naming(error()), UnpackError::Here(_)), "{number}");
            assert!(matches!(UnpackError::reading(error()), UnpackError::Here(_)), "{number}");
        }
    }

    /// An archive with one entry of this kind and length, zeros or `text`, and a file `exit` behind it.
    fn described(kind: EntryType, length: u64, text: &str) -> File {
        let mut builder =
            tar::Builder::new(GzEncoder::new(tempfile::tempfile().unwrap(), Compression::fast()));
        let mut header = tar::Header::new_gnu();
        header.set_entry_type(kind);
        header.set_size(length);
        header.set_cksum();
        let zeros = io::repeat(0).take(length - text.len() as u64);
        builder.append(&header, text.as_bytes().chain(zeros)).unwrap();
        let mut header = tar::Header::new_gnu();
        header.set_size(1);
        header.set_mode(0o644);
        header.as_gnu_mut().unwrap().name[..4].copy_from_slice(b"exit");
        header.set_cksum();
        builder.append(&header, &b"0"[..]).unwrap();
        let mut file = builder.into_inner().unwrap().finish().unwrap();
        file.seek(SeekFrom::Start(0)).unwrap();
        file
    }

    /// The most memory that this process has had.
    fn memory_peak_kib() -> u64 {
        let status = fs::read_to_string("/proc/self/status").unwrap();
        let line = status.lines().find(|line| line.starts_with("VmHWM:")).unwrap();
        line.split_whitespace().nth(1).unwrap().parse().unwrap()
    }

    /// Set where this test program is a process of its own for one test: others would add to its memory, and have its umask.
    const ALONE: &str = "TILEMARK_TEST_UNPACKS_ALONE";

    /// Whether this process runs one test only; if not, one that does is started, and must succeed.
    fn is_alone(test: &str) -> bool {
        if std::env::var_os(ALONE).is_some() {
            return true;
        }
        let mut alone = std::process::Command::new(std::env::current_exe().unwrap());
        let output = alone.args(["--exact", &format!("collect::tests::{test}")]).env(ALONE, "1").output();
        let output = output.unwrap();
        let printed = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success() && printed.contains("1 passed"), "{printed}");
        false
    }

    #[test]
    fn a_record_that_came_home_can_be_read_by_all_whatever_the_umask() {
        if !is_alone("a_record_that_came_home_can_be_read_by_all_whatever_the_umask") {
            return;
        }
        let (folder, from) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        fs::create_dir_all(from.path().join("record/points/00")).unwrap();
        fs::write(from.path().join("record/points/00/summary.json"), "{}").unwrap();
        fs::write(from.path().join("exit"), "4").unwrap();
        let mut builder =
            tar::Builder::new(GzEncoder::new(tempfile::tempfile().unwrap(), Compression::fast()));
        builder.append_dir_all(".", from.path()).unwrap();
        let mut archive = builder.into_inner().unwrap().finish().unwrap();
        archive.seek(SeekFrom::Start(0)).unwrap();
        rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o077));
        home(&folder.path().join("hosts/n1/attempt-0"), archive).unwrap();
        let mode = |name: &str| {
            fs::metadata(folder.path().join("hosts").join(name)).unwrap().permissions().mode() & 0o7777
        };
        let folders = ["", "n1", "n1/attempt-0", "n1/attempt-0/record", "n1/attempt-0/record/points/00"];
        assert_eq!(folders.map(mode), [0o755; 5]);
        let files = ["exit", "end.json", "record/points/00/summary.json"];
        assert_eq!(files.map(|name| mode(&format!("n1/attempt-0/{name}"))), [0o644; 3]);
    }

    #[test]
    fn a_name_of_a_hundred_megabytes_is_refused_and_not_kept_in_memory() {
        if !is_alone("a_name_of_a_hundred_megabytes_is_refused_and_not_kept_in_memory") {
            return;
        }
        let folder = tempfile::tempdir().unwrap();
        for kind in [EntryType::GNULongName, EntryType::XHeader, EntryType::GNULongLink, EntryType::GNUSparse]
        {
            // A tenth of a megabyte of an archive.
            let hostile = described(kind, 100 << 20, "");
            let before = memory_peak_kib();
            let error = of_archive(unpacked(hostile, folder.path()));
            assert_eq!(error.kind(), io::ErrorKind::InvalidData, "{kind:?}: {error}");
            assert!(memory_peak_kib() < before + (50 << 10), "{kind:?}");
        }
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    }

    #[test]
    fn long_names_of_gnu_and_of_posix_are_read_as_tar_writes_them() {
        let folder = format!("record/{}", "folder".repeat(20));
        let long = format!("{folder}/{}", "file".repeat(40));
        for format in ["gnu", "posix"] {
            let (from, into) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
            fs::create_dir_all(from.path().join(&folder)).unwrap();
            fs::write(from.path().join(&long), "text").unwrap();
            // Elsewhere: tar fails where the folder that it reads changes.
            let packed = tempfile::tempdir().unwrap();
            let archive = packed.path().join("archive");
            let tar = std::process::Command::new("tar")
                .args([&format!("--format={format}"), "-czf"])
                .arg(&archive)
                .arg("-C")
                .arg(from.path())
                .arg(".")
                .status();
            assert!(tar.unwrap().success());
            unpacked(File::open(archive).unwrap(), into.path()).unwrap();
            assert_eq!(fs::read_to_string(into.path().join(&long)).unwrap(), "text", "{format}");
        }
        let folder = tempfile::tempdir().unwrap();
        for (kind, text) in [
            (EntryType::GNULongName, "../outside"),
            (EntryType::XHeader, "19 path=../outside\n"),
            (EntryType::XHeader, "13 size=9999\n"),
        ] {
            let error = of_archive(unpacked(described(kind, text.len() as u64, text), folder.path()));
            assert_eq!(error.kind(), io::ErrorKind::InvalidData, "{kind:?}: {error}");
        }
    }

    #[test]
    fn a_host_fills_no_disk_with_what_no_attempt_has_nor_with_many_attempts() {
        let folder = tempfile::tempdir().unwrap();
        let place = folder.path().join("n1/attempt-0");
        home(&place, archive(&[("exit", "3"), ("junk", "zeros"), ("more/junk", "zeros")])).unwrap();
        let mut names: Vec<_> =
            fs::read_dir(&place).unwrap().flatten().map(|entry| entry.file_name()).collect();
        names.sort();
        assert_eq!(names, ["end.json", "exit"]);
        // Room is for all attempts of a host together.
        let mut room = 2 * ENTRY_BYTES_MIN + 1;
        take_home(&folder.path().join("n1/attempt-1"), archive(&[("exit", "3"), ("log", "abc")]), &mut room)
            .unwrap();
        assert_eq!(room, 1);
        let error = take_home(&folder.path().join("n1/attempt-2"), archive(&[("exit", "33")]), &mut room)
            .unwrap_err();
        assert!(error.to_string().contains("this host's attempts have more than"), "{error}");
        assert!(!folder.path().join("n1/attempt-2").exists());
        let many = |count: u32| {
            not_too_many(&(0..count).map(|number| (number, AttemptState::Lost)).collect::<Vec<_>>())
        };
        assert!(many(ATTEMPTS_MAX).is_ok() && many(ATTEMPTS_MAX + 1).is_err());
        assert!(not_too_many(&[(u32::MAX, AttemptState::Lost)]).is_err());
    }

    /// An archive of so many folders, which hold nothing.
    fn folders(count: usize, of: &str) -> File {
        let mut builder =
            tar::Builder::new(GzEncoder::new(tempfile::tempfile().unwrap(), Compression::fast()));
        for number in 0..count {
            let mut header = tar::Header::new_gnu();
            header.set_entry_type(EntryType::Directory);
            header.set_size(0);
            builder.append_data(&mut header, format!("{of}/{number}"), io::empty()).unwrap();
        }
        let mut file = builder.into_inner().unwrap().finish().unwrap();
        file.seek(SeekFrom::Start(0)).unwrap();
        file
    }

    #[test]
    fn folders_and_what_is_left_out_take_room_too_and_collections_share_it() {
        let folder = tempfile::tempdir().unwrap();
        let hosts = folder.path().join("n1");
        for of in ["record", "junk"] {
            let mut room = 10 * ENTRY_BYTES_MIN;
            let error = take_home(&hosts.join("attempt-0"), folders(100, of), &mut room).unwrap_err();
            assert!(error.to_string().contains("this host's attempts have more than"), "{of}: {error}");
            assert_eq!(fs::read_dir(&hosts).unwrap().count(), 0, "{of}");
        }
        assert_eq!(room_left(&folder.path().join("none")).unwrap(), UNPACKED_BYTES_MAX);
        let long = "x".repeat(3 * ENTRY_BYTES_MIN as usize);
        home(&hosts.join("attempt-0"), archive(&[("exit", "3"), ("log", &long)])).unwrap();
        // The folder of the attempt, `exit`, `end.json`, and the log.
        assert_eq!(room_left(&hosts).unwrap(), UNPACKED_BYTES_MAX - 6 * ENTRY_BYTES_MIN);
    }

    #[test]
    fn lines_of_attempts_are_read() {
        let lines =
            ["attempt 0 lost", "attempt 10 running", "attempt 9 ended 5", "attempt x running", "other"]
                .map(str::to_owned);
        assert_eq!(
            attempts(&lines),
            [(0, AttemptState::Lost), (9, AttemptState::Ended(5)), (10, AttemptState::Running)]
        );
    }
}
