//! One run's directory.
//!
//! ```text
//! plan.json  facts.json  events.ndjson  result.json  report.html  report.csv
//! points/NN/repeat-M/{summary.json,latency.hlog,seconds.csv,telemetry.csv,guests.csv,hook-before.txt,hook-after.txt}
//! points/NN/repeat-M/guests/NAME/{console.log,qemu.arguments,LOAD.txt,LOAD.json}
//! manifest.json      SHA-256 of each of these; written last: without it the run never came to its end
//! before/            documents from before a session that continues the run, while that is under way
//! ```

use crate::{
    bounds::check_numbers,
    error::RecordError,
    events::Events,
    file::{
        lock_within, make_folder, open_any_length, open_lines, read, sha256_of_plain, write_in_parts,
        write_whole,
    },
    result::{RESULT_SCHEMA, RunResult},
    rows::{GuestRow, SecondRow, TelemetryRow},
    summary::RepeatSummary,
};
use hdrhistogram::serialization::{
    V2DeflateSerializer,
    interval_log::{IntervalLogWriterBuilder, IntervalLogWriterError, Tag},
};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use std::{
    collections::BTreeMap,
    fs,
    io::{self, Write},
    path::{Component, Path, PathBuf},
    time::{Duration, SystemTime},
};
use tilemark_plan::{
    facts::HostFacts,
    plan::{PLAN_SCHEMA, Plan},
};

const MANIFEST: &str = "manifest.json";
/// The version of the format of `manifest.json`.
const MANIFEST_SCHEMA: u32 = 1;

/// So long a lock of a record is waited for: whoever only looks holds it for a moment, too.
const LOCKED_WITHIN: Duration = Duration::from_millis(100);

/// Where a session that continues a closed record keeps the documents from before it, with their manifest.
const BEFORE: &str = "before/";

/// A record that a run writes: nobody else opens, restores or removes it while this lives.
#[derive(Debug)]
pub struct Held {
    _lock: fs::File,
}

/// One run's directory, being written or read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunDirectory {
    path: PathBuf,
}

#[derive(Debug, Serialize, Deserialize)]
struct Manifest {
    schema: u32,
    /// SHA-256 by path within the directory.
    files: BTreeMap<String, String>,
}

impl RunDirectory {
    /// Makes a new one, with its plan. A bad place fails now and not after an hour.
    pub fn create(path: &Path, plan: &Plan) -> Result<Self, RecordError> {
        let write_error = RecordError::write(path);
        make_folder(path).map_err(write_error)?;
        if fs::read_dir(path).map_err(write_error)?.next().is_some() {
            return Err(RecordError::Occupied { path: path.to_owned() });
        }
        let directory = Self { path: path.to_owned() };
        directory.write_json("plan.json", plan)?;
        Ok(directory)
    }

    /// Holds a new record for the run that writes it.
    ///
    /// # Errors
    /// When another run holds it, or its folder cannot be opened.
    pub fn hold(&self) -> Result<Held, RecordError> {
        Ok(Held { _lock: self.lock()? })
    }

    /// Takes back what `create` made, for a run that cannot begin.
    pub fn discard(&self) {
        // What cannot be removed is a record that was never closed, and says so.
        let _ = fs::remove_file(self.path.join("plan.json"));
        let _ = fs::remove_dir(&self.path);
    }

    /// Removes a record with all its files.
    ///
    /// # Errors
    /// When the folder is no record, a run writes it at this moment, or a file cannot be removed.
    pub fn remove(self) -> Result<(), RecordError> {
        // A link would lead to another folder.
        let is_folder = fs::symlink_metadata(&self.path).is_ok_and(|found| found.is_dir());
        if !is_folder || self.plan().is_err() {
            return Err(RecordError::NoRecord { path: self.path });
        }
        let _lock = self.lock()?;
        fs::remove_dir_all(&self.path).map_err(RecordError::write(&self.path))
    }

    /// Takes up one that exists, whole or not.
    pub fn at(path: &Path) -> Self {
        Self { path: path.to_owned() }
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Its events, to append to.
    pub fn events(&self) -> Result<Events, RecordError> {
        Events::open(&self.path.join("events.ndjson"))
    }

    /// Writes a document of the run.
    pub fn write_json(&self, name: &str, document: &impl Serialize) -> Result<(), RecordError> {
        let mut text = serde_json::to_vec_pretty(document).expect("documents have only text keys");
        text.push(b'\n');
        write_whole(&self.path.join(name), &text)
    }

    /// Writes a text of the run, such as its report.
    pub fn write_text(&self, name: &str, text: &str) -> Result<(), RecordError> {
        write_whole(&self.path.join(name), text.as_bytes())
    }

    /// The plan.
    pub fn plan(&self) -> Result<Plan, RecordError> {
        self.read_versioned("plan.json", PLAN_SCHEMA)
    }

    /// What the host was when the run began.
    pub fn facts(&self) -> Result<HostFacts, RecordError> {
        self.read_json(Path::new("facts.json"))
    }

    /// The result.
    pub fn result(&self) -> Result<RunResult, RecordError> {
        self.read_versioned("result.json", RESULT_SCHEMA)
    }

    /// Reads a document unless its format is newer than this program knows.
    fn read_versioned<T: DeserializeOwned>(&self, name: &str, known: u32) -> Result<T, RecordError> {
        #[derive(Deserialize)]
        struct Versioned {
            schema: u32,
        }
        let path = self.path.join(name);
        let found: Versioned = self.read_json(Path::new(name))?;
        if found.schema > known {
            return Err(RecordError::Newer { path, found: found.schema, known });
        }
        self.read_json(Path::new(name))
    }

    fn read_json<T: DeserializeOwned>(&self, name: &Path) -> Result<T, RecordError> {
        let damaged = |error: serde_json::Error| RecordError::Damaged {
            path: self.path.join(name),
            what: error.to_string(),
        };
        let text = read(&self.path, name)?;
        check_numbers(&text).map_err(damaged)?;
        serde_json::from_str(&text).map_err(damaged)
    }

    /// The files of one repeat; the folder is made.
    pub fn repeat(&self, point: usize, repeat: u32) -> Result<RepeatFiles, RecordError> {
        let path = self.path.join(format!("points/{point:02}/repeat-{repeat}"));
        make_folder(&path).map_err(RecordError::write(&path))?;
        Ok(RepeatFiles { record: self.path.clone(), path })
    }

    /// Every repeat whose summary was written, by point and repeat.
    ///
    /// # Errors
    /// When a folder of them is a link: it would lead to another folder of the host.
    pub fn repeats(&self) -> Result<Vec<RepeatFiles>, RecordError> {
        let mut found = Vec::new();
        for point in folders(&self.path.join("points"))? {
            for repeat in folders(&point)? {
                if repeat.join("summary.json").exists() {
                    found.push(RepeatFiles { record: self.path.clone(), path: repeat });
                }
            }
        }
        Ok(found)
    }

    /// Every whole repeat in figures.
    pub fn summaries(&self) -> Result<Vec<RepeatSummary>, RecordError> {
        self.repeats()?.iter().map(RepeatFiles::summary).collect()
    }

    /// Says that the run came to its end: from now on any change to a file is damage.
    pub fn close(&self) -> Result<(), RecordError> {
        let mut files = BTreeMap::new();
        for file in files_below(&self.path)? {
            let name = self.name_of(&file);
            if name != MANIFEST && !name.starts_with(BEFORE) {
                let hash = sha256_of_plain(&self.path, Path::new(&name))?;
                files.insert(name, hash);
            }
        }
        self.write_json(MANIFEST, &Manifest { schema: MANIFEST_SCHEMA, files })?;
        // A further session has come to its end: nobody restores what was before. What stays of it harms nothing.
        let _ = fs::remove_dir_all(self.before());
        Ok(())
    }

    /// The folder of what a further session changes, without the slash at its end: with that a link in its place would be followed.
    fn before(&self) -> PathBuf {
        self.path.join(BEFORE.trim_end_matches('/'))
    }

    /// Opens a closed record for further repeats. Until it is closed again it has no manifest, so it says that it is unfinished, also
    /// after a crash. What the further session will change is kept in `before`, for [`RunDirectory::restore`].
    ///
    /// # Errors
    /// When it is not closed, another run has it open, a file cannot be copied, or something in it is neither a file nor a folder: a
    /// session writes below its folders, and a link would lead elsewhere.
    pub fn reopen(&self) -> Result<Held, RecordError> {
        let lock = self.lock()?;
        if !self.is_closed() {
            return Err(self.unfinished());
        }
        if let Some(path) = files_below(&self.path)?.into_iter().find(|path| !is_plain(path)) {
            let what = "it is not a plain file; remove it to continue this record".to_owned();
            return Err(RecordError::Damaged { path, what });
        }
        let before = self.before();
        let write_error = RecordError::write(&before);
        if before.exists() {
            // Of an older session, which was closed.
            fs::remove_dir_all(&before).map_err(write_error)?;
        }
        make_folder(&before).map_err(write_error)?;
        for name in self.manifest()?.files.keys().filter(|name| is_at_top(name)) {
            fs::copy(self.path.join(name), before.join(name)).map_err(write_error)?;
            fs::File::open(before.join(name)).and_then(|file| file.sync_all()).map_err(write_error)?;
        }
        let kept = fs::rename(self.path.join(MANIFEST), before.join(MANIFEST));
        kept.and_then(|()| self.sync(&before)).map_err(write_error)?;
        Ok(Held { _lock: lock })
    }

    /// Whether a session that continued this record never came to its end. It may still be under way.
    pub fn is_half_continued(&self) -> bool {
        // A link could lead to files that are not of this record.
        let before = self.before();
        let is_folder = fs::symlink_metadata(&before).is_ok_and(|found| found.is_dir());
        !self.is_closed() && is_folder && before.join(MANIFEST).exists()
    }

    /// Takes back a session that continued this record and was killed: the record is as before that session. Returns whether there
    /// was one. What it measured is removed.
    ///
    /// # Errors
    /// When that session is still under way, or a file cannot be moved; restoring it again goes on from there.
    pub fn restore(&self) -> Result<bool, RecordError> {
        if !self.is_half_continued() {
            return Ok(false);
        }
        let _lock = self.lock()?;
        // It may have been closed while this one asked for the lock.
        if !self.is_half_continued() {
            return Ok(false);
        }
        let before = self.path.join(BEFORE);
        let manifest = self.manifest_at(&format!("{BEFORE}{MANIFEST}"))?;
        let write_error = RecordError::write(&self.path);
        for file in files_below(&self.path)? {
            let name = self.name_of(&file);
            if !name.starts_with(BEFORE) && !manifest.files.contains_key(&name) {
                fs::remove_file(&file).map_err(write_error)?;
            }
        }
        remove_empty_folders(&self.path).map_err(write_error)?;
        for name in manifest.files.keys().filter(|name| is_at_top(name)) {
            match fs::rename(before.join(name), self.path.join(name)) {
                // An interrupted restoring moved it already.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                moved => moved.map_err(write_error)?,
            }
        }
        let closed = fs::rename(before.join(MANIFEST), self.path.join(MANIFEST));
        closed
            .and_then(|()| fs::remove_dir_all(&before))
            .and_then(|()| self.sync(&self.path))
            .map_err(write_error)?;
        Ok(true)
    }

    fn unfinished(&self) -> RecordError {
        RecordError::Unfinished { path: self.path.clone() }
    }

    /// One run at a time writes, continues or restores a record. The kernel releases the lock when its process ends, however it ends.
    fn lock(&self) -> Result<fs::File, RecordError> {
        let folder = fs::File::open(&self.path).map_err(RecordError::read(&self.path))?;
        match lock_within(&folder, LOCKED_WITHIN) {
            Ok(()) => Ok(folder),
            Err(fs::TryLockError::WouldBlock) => Err(RecordError::Busy { path: self.path.clone() }),
            Err(fs::TryLockError::Error(source)) => Err(RecordError::read(&self.path)(source)),
        }
    }

    /// Makes renames last in a folder below, and in this one.
    fn sync(&self, folder: &Path) -> io::Result<()> {
        fs::File::open(folder)?.sync_all()?;
        fs::File::open(&self.path)?.sync_all()
    }

    fn manifest(&self) -> Result<Manifest, RecordError> {
        self.manifest_at(MANIFEST)
    }

    /// A manifest whose names are of files within the record.
    fn manifest_at(&self, name: &str) -> Result<Manifest, RecordError> {
        let manifest: Manifest = self.read_versioned(name, MANIFEST_SCHEMA)?;
        let is_within = |name: &&String| {
            let mut parts = Path::new(name).components();
            parts.all(|part| matches!(part, Component::Normal(_)))
        };
        match manifest.files.keys().find(|name| !is_within(name)) {
            None => Ok(manifest),
            Some(outside) => Err(RecordError::Damaged {
                path: self.path.join(name),
                what: format!("it names {outside:?}, which is not a file within the record"),
            }),
        }
    }

    fn name_of(&self, file: &Path) -> String {
        file.strip_prefix(&self.path).expect("found below it").to_string_lossy().into_owned()
    }

    /// Whether a run writes it at this moment.
    pub fn is_under_way(&self) -> bool {
        self.lock().is_err_and(|error| error.is_busy())
    }

    /// Whether the run came to its end.
    pub fn is_closed(&self) -> bool {
        self.path.join(MANIFEST).exists()
    }

    /// Checks that the run came to its end and every file is what it was then. A report drawn again is no
    /// damage, and neither are files that were added.
    pub fn verify(&self) -> Result<(), RecordError> {
        self.verify_those(|name| !name.starts_with("report."))
    }

    /// The same of plan and result alone: where many records are read for their answers, hashing every second of each takes minutes.
    pub fn verify_result(&self) -> Result<(), RecordError> {
        self.verify_those(|name| ["plan.json", "result.json"].contains(&name))
    }

    /// Checks that the run came to its end and the files with these names, such as `points/03/repeat-2/summary.json`, are what they were
    /// then: for whoever reads few files of many records.
    pub fn verify_those(&self, is_wanted: impl Fn(&str) -> bool) -> Result<(), RecordError> {
        if !self.is_closed() {
            // One that a run writes at this moment is not one that was never closed.
            return Err(match self.is_under_way() {
                true => RecordError::Busy { path: self.path.clone() },
                false => self.unfinished(),
            });
        }
        for (name, hash) in self.manifest()?.files {
            if is_wanted(&name) && sha256_of_plain(&self.path, Path::new(&name))? != hash {
                let what = "its SHA-256 is not the one in manifest.json".to_owned();
                return Err(RecordError::Damaged { path: self.path.join(&name), what });
            }
        }
        Ok(())
    }
}

/// The files of one repeat.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RepeatFiles {
    record: PathBuf,
    path: PathBuf,
}

/// A histogram of latencies in nanoseconds over one second, and whose it is.
#[derive(Debug, Clone)]
pub struct TaggedSecond<'a> {
    /// `guest/load`.
    pub tag: String,
    /// Which second of the measurement, from 0.
    pub second: u32,
    /// Latencies in nanoseconds, encoded: decoded, those of hundreds of guests would take gigabytes.
    pub latency: &'a [u8],
}

impl RepeatFiles {
    /// Where they are.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Where a guest's console and other files go; the folder is made.
    pub fn guest(&self, name: &str) -> Result<PathBuf, RecordError> {
        let path = self.path.join("guests").join(name);
        make_folder(&path).map_err(RecordError::write(&path))?;
        Ok(path)
    }

    /// Writes all figures of the repeat. The summary comes last: a repeat with a summary is whole. Rows of guests are
    /// written as they come: a thousand guests have a million of them in a quarter of an hour.
    pub fn write(
        &self,
        summary: &RepeatSummary,
        seconds: &[SecondRow],
        telemetry: &[TelemetryRow],
        guests: impl Iterator<Item = GuestRow>,
        latency: &[TaggedSecond<'_>],
    ) -> Result<(), RecordError> {
        write_in_parts(&self.path.join("latency.hlog"), |file| write_histogram_log(file, summary, latency))?;
        write_whole(&self.path.join("seconds.csv"), &csv_of(seconds))?;
        write_whole(&self.path.join("telemetry.csv"), &csv_of(telemetry))?;
        write_in_parts(&self.path.join(GUESTS), |file| write_rows(file, guests))?;
        RunDirectory::at(&self.path).write_json("summary.json", summary)
    }

    /// The repeat in figures.
    pub fn summary(&self) -> Result<RepeatSummary, RecordError> {
        RunDirectory::at(&self.record).read_json(&self.named("summary.json"))
    }

    /// Its seconds, by load.
    pub fn seconds(&self) -> Result<Vec<SecondRow>, RecordError> {
        rows_of(&self.record, &self.named("seconds.csv"), ROWS_MAX)
    }

    /// The host's seconds.
    pub fn telemetry(&self) -> Result<Vec<TelemetryRow>, RecordError> {
        rows_of(&self.record, &self.named("telemetry.csv"), ROWS_MAX)
    }

    /// The guests' seconds; none in a record from before they were kept.
    pub fn guest_seconds(&self) -> Result<Vec<GuestRow>, RecordError> {
        let is_there = fs::symlink_metadata(self.path.join(GUESTS)).is_ok();
        if is_there { rows_of(&self.record, &self.named(GUESTS), ROWS_MAX) } else { Ok(Vec::new()) }
    }

    /// Opens a file of the repeat by its name below it, such as a guest's console. It may have any length.
    ///
    /// # Errors
    /// When there is none, or it is not a plain file, or a link is on the way to it.
    pub fn open(&self, name: &Path) -> Result<fs::File, RecordError> {
        open_any_length(&self.record, &self.named(name))
    }

    /// The name of a file of it within the record.
    fn named(&self, file: impl AsRef<Path>) -> PathBuf {
        self.path.strip_prefix(&self.record).expect("it is below its record").join(file)
    }
}

/// The guests' seconds of a repeat.
const GUESTS: &str = "guests.csv";

fn write_rows<T: Serialize>(file: &mut dyn Write, rows: impl Iterator<Item = T>) -> io::Result<()> {
    // The kind of an error decides its remedy: a full disk must stay one.
    let as_io_error = |error: csv::Error| match error.into_kind() {
        csv::ErrorKind::Io(source) => source,
        other => io::Error::other(format!("{other:?}")),
    };
    let mut writer = csv::WriterBuilder::new().buffer_capacity(ROWS_BUFFER).from_writer(file);
    for row in rows {
        writer.serialize(row).map_err(as_io_error)?;
    }
    writer.flush()
}

/// Rows of about a second of a thousand guests.
const ROWS_BUFFER: usize = 1 << 16;

fn csv_of<T: Serialize>(rows: &[T]) -> Vec<u8> {
    let mut writer = csv::Writer::from_writer(Vec::new());
    for row in rows {
        writer.serialize(row).expect("rows are flat and memory takes them");
    }
    writer.into_inner().expect("memory takes them")
}

/// Rows of seconds that are read of a record, as many as ten repeats of a whole day with eight loads have. A row takes some ten times as much
/// memory as the shortest text of one, so that the length of a file does not bound it.
pub const ROWS_MAX: usize = 10_000_000;

fn rows_of<T: DeserializeOwned>(record: &Path, name: &Path, most: usize) -> Result<Vec<T>, RecordError> {
    let lines = open_lines(record, name)?;
    let damaged = |what: String| RecordError::Damaged { path: record.join(name), what };
    let mut reader = csv::Reader::from_reader(lines);
    let rows: Result<Vec<T>, csv::Error> = reader.deserialize().take(most + 1).collect();
    let rows = rows.map_err(|error| damaged(error.to_string()))?;
    if rows.len() > most {
        return Err(damaged(format!("it has more than {most} rows")));
    }
    Ok(rows)
}

/// The interval log format of HdrHistogram 1.3, values in nanoseconds, maxima in milliseconds. Written as it is made: one second
/// is in memory at a time.
fn write_histogram_log(
    mut file: &mut dyn Write,
    summary: &RepeatSummary,
    seconds: &[TaggedSecond<'_>],
) -> io::Result<()> {
    let began = SystemTime::UNIX_EPOCH + Duration::from_millis(summary.began_unix_ms);
    let mut serializer = V2DeflateSerializer::new();
    let mut writer = IntervalLogWriterBuilder::new()
        .add_comment("Latencies in nanoseconds by second of intended start; tags are guest/load.")
        .with_start_time(began)
        .with_base_time(began)
        .with_max_value_divisor(1e6)
        .begin_log_with(&mut file, &mut serializer)?;
    for second in seconds {
        let start = Duration::from_secs(second.second.into());
        let tag = Tag::new(&second.tag);
        let latency = crate::histogram::decode(second.latency).map_err(io::Error::other)?;
        let written = writer.write_histogram(&latency, start, Duration::from_secs(1), tag);
        written.map_err(|error| match error {
            IntervalLogWriterError::IoError(error) => error,
            other => io::Error::other(format!("{other:?}")),
        })?;
    }
    Ok(())
}

fn folders(path: &Path) -> Result<Vec<PathBuf>, RecordError> {
    let link = |path: &Path| {
        let what = "it is a link, and a record has no links".to_owned();
        RecordError::Damaged { path: path.to_owned(), what }
    };
    if fs::symlink_metadata(path).is_ok_and(|found| found.is_symlink()) {
        return Err(link(path));
    }
    let Ok(entries) = fs::read_dir(path) else { return Ok(Vec::new()) };
    let mut found = Vec::new();
    for entry in entries.flatten() {
        match entry.file_type() {
            Ok(kind) if kind.is_symlink() => return Err(link(&entry.path())),
            Ok(kind) if kind.is_dir() => found.push(entry.path()),
            _ => {}
        }
    }
    // `repeat-10` comes after `repeat-9`.
    found.sort_by_key(|path| (path.as_os_str().len(), path.clone()));
    Ok(found)
}

/// Documents of the whole run; files of repeats are never changed.
fn is_at_top(name: &str) -> bool {
    !name.contains('/')
}

fn remove_empty_folders(path: &Path) -> io::Result<()> {
    for entry in fs::read_dir(path)? {
        let entry = entry?;
        let path = entry.path();
        if entry.file_type()?.is_dir() {
            remove_empty_folders(&path)?;
            if fs::read_dir(&path)?.next().is_none() {
                fs::remove_dir(&path)?;
            }
        }
    }
    Ok(())
}

fn is_plain(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|found| found.is_file())
}

fn files_below(path: &Path) -> Result<Vec<PathBuf>, RecordError> {
    let read_error = RecordError::read(path);
    let mut found = Vec::new();
    for entry in fs::read_dir(path).map_err(read_error)? {
        let entry = entry.map_err(read_error)?;
        let path = entry.path();
        // A link to a folder is a file here: what it points at is not part of the record.
        let is_folder = entry.file_type().map_err(read_error)?.is_dir();
        if is_folder { found.extend(files_below(&path)?) } else { found.push(path) }
    }
    Ok(found)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn no_more_rows_are_read_than_the_reader_has_room_for() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("rows.csv"), "second\n1\n2\n3\n").unwrap();
        #[derive(Debug, serde::Deserialize)]
        struct Row {
            second: u32,
        }
        let read = |most| rows_of::<Row>(folder.path(), Path::new("rows.csv"), most);
        assert_eq!(read(3).unwrap().iter().map(|row| row.second).sum::<u32>(), 6);
        let error = read(2).unwrap_err();
        assert!(
            matches!(&error, RecordError::Damaged { what, .. } if what == "it has more than 2 rows"),
            "{error:?}"
        );
    }
}
