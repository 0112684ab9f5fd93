//! `events.ndjson`: what happened, in order, one line each, appended and checked. A line is
//! `{"crc32":"…","event":{…}}`; the sum is over the bytes of the event. A last line that was cut off by
//! a crash is left out when read; any other damage is an error.

use crate::{
    bounds::check_numbers,
    error::RecordError,
    file::{LINES_MAX, read_up_to},
};
use serde::{Deserialize, Serialize};
use std::{
    fs::File,
    path::{Path, PathBuf},
};
use tilemark_plan::plan::{MemoryEnd, Pass, Point};

/// Something that happened.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "event")]
pub enum Event {
    /// The run began.
    Began {
        /// In milliseconds since 1970.
        unix_ms: u64,
        /// Its id.
        run: String,
    },
    /// A closed record was opened again for further repeats. What follows belongs to a further session.
    Continued {
        /// In milliseconds since 1970.
        unix_ms: u64,
    },
    /// A point that the plan did not have, found necessary by a search.
    PointAdded {
        /// The point.
        point: Box<Point>,
    },
    /// A pass began.
    PassBegan {
        /// In milliseconds since 1970.
        unix_ms: u64,
        /// Which pass.
        pass: Pass,
    },
    /// All guests of the pass are ready.
    GuestsReady {
        /// How long it took.
        seconds: f64,
        /// How many were cloned, booted or started natively.
        guests: u32,
    },
    /// A pass ended with its figures written.
    PassEnded {
        /// Which pass.
        pass: Pass,
    },
    /// A pass could not be finished.
    PassFailed {
        /// Which pass.
        pass: Pass,
        /// Why.
        message: String,
    },
    /// Something to report that is not a failure.
    Note {
        /// In words.
        text: String,
    },
    /// A count that a search wanted does not fit into the host's memory.
    DoesNotFit {
        /// What it needs and what there is.
        end: MemoryEnd,
    },
    /// The run was interrupted by its user.
    Interrupted,
    /// The run ended.
    Ended {
        /// In milliseconds since 1970.
        unix_ms: u64,
    },
}

#[derive(Serialize, Deserialize)]
struct Line {
    crc32: String,
    event: Box<serde_json::value::RawValue>,
}

/// The file, open for appending.
#[derive(Debug)]
pub struct Events {
    file: File,
    path: PathBuf,
}

impl Events {
    /// Opens or creates it.
    pub fn open(path: &Path) -> Result<Self, RecordError> {
        let file = crate::file::open_to_append(path).map_err(RecordError::write(path))?;
        Ok(Self { file, path: path.to_owned() })
    }

    /// Appends one event and syncs it.
    pub fn append(&mut self, event: &Event) -> Result<(), RecordError> {
        let text = serde_json::to_string(event).expect("an event has only text keys and finite numbers");
        let crc32 = format!("{:08x}", crc32fast::hash(text.as_bytes()));
        let line = format!("{{\"crc32\":\"{crc32}\",\"event\":{text}}}\n");
        let written =
            crate::faults::write_all(&mut self.file, line.as_bytes()).and_then(|()| self.file.sync_data());
        written.map_err(RecordError::write(&self.path))
    }

    /// Reads all events of a file.
    pub fn read(path: &Path) -> Result<Vec<Event>, RecordError> {
        let (record, name) = (path.parent().unwrap_or(Path::new("")), path.file_name().unwrap_or_default());
        let record = if record.as_os_str().is_empty() { Path::new(".") } else { record };
        let text = read_up_to(record, Path::new(name), LINES_MAX)?;
        let (whole, _cut_off) = text.rsplit_once('\n').unwrap_or(("", &text));
        let event = |(number, line)| {
            event_of(line).map_err(|what| {
                let what = format!("line {}: {what}", number + 1);
                RecordError::Damaged { path: path.to_owned(), what }
            })
        };
        whole.lines().enumerate().map(event).collect()
    }
}

fn event_of(line: &str) -> Result<Event, String> {
    let line: Line = serde_json::from_str(line).map_err(|error| error.to_string())?;
    let text = line.event.get();
    if line.crc32 != format!("{:08x}", crc32fast::hash(text.as_bytes())) {
        return Err("its checksum is wrong".to_owned());
    }
    check_numbers(text).and_then(|()| serde_json::from_str(text)).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn three_events() -> (tempfile::TempDir, PathBuf, Vec<Event>) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("events.ndjson");
        let events: Vec<Event> =
            ["one", "two", "three"].map(|text| Event::Note { text: text.to_owned() }).into();
        let mut file = Events::open(&path).unwrap();
        events.iter().for_each(|event| file.append(event).unwrap());
        (folder, path, events)
    }

    #[test]
    fn cut_at_any_byte_all_whole_lines_are_read() {
        let (_folder, path, events) = three_events();
        let bytes = fs::read(&path).unwrap();
        for length in 0..=bytes.len() {
            fs::write(&path, &bytes[..length]).unwrap();
            let whole = bytes[..length].iter().filter(|byte| **byte == b'\n').count();
            assert_eq!(Events::read(&path).unwrap(), events[..whole]);
        }
    }

    #[test]
    fn a_flipped_bit_in_any_whole_line_is_named() {
        let (_folder, path, events) = three_events();
        let bytes = fs::read(&path).unwrap();
        for place in 0..bytes.len() - 1 {
            let mut damaged = bytes.clone();
            damaged[place] ^= 1;
            fs::write(&path, &damaged).unwrap();
            match Events::read(&path) {
                Err(RecordError::Damaged { .. } | RecordError::Read { .. }) => {}
                Ok(read) => assert_eq!(read, events, "byte {place}"),
                Err(error) => panic!("byte {place}: {error}"),
            }
        }
    }
}
