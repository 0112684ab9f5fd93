//! The excerpt of a console that is stored: its first and its last MiB, however long the console is.
//!
//! ```text
//! first MiB | how many bytes were left out | last bytes: at least one MiB, at most two
//! ```
//! It is plain text at any moment, so that a person can read it while the guest runs and after the engine was killed.

use rustix::fs::OFlags;
use std::{
    fs::File,
    io,
    os::unix::fs::{FileExt, OpenOptionsExt},
    path::Path,
};

/// So many bytes of a console's beginning and of its end are kept.
pub(super) const KEPT: u64 = 1 << 20;
/// Bytes of the line that counts what was left out; always the same, since it is written again and again.
const NOTE: u64 = 64;

/// The file and what is in it.
#[derive(Debug)]
pub(super) struct ConsoleFile {
    file: File,
    /// Bytes in the file.
    length: u64,
    /// Bytes of the console that are not in the file.
    left_out: u64,
    /// Where the last bytes begin, once something was left out.
    last_from: Option<u64>,
}

impl ConsoleFile {
    /// Makes the file, empty. One that is a link is refused.
    pub(super) fn create(path: &Path) -> io::Result<Self> {
        let mut options = File::options();
        options
            .read(true)
            .write(true)
            .create(true)
            .truncate(true)
            .custom_flags(OFlags::NOFOLLOW.bits() as i32);
        let file = options.open(path)?;
        Ok(Self { file, length: 0, left_out: 0, last_from: None })
    }

    /// Appends. Bytes that cannot be written, since the disk is full, count as left out.
    pub(super) fn append(&mut self, bytes: &[u8]) {
        if self.last() >= 2 * KEPT {
            self.shorten();
        }
        // It could not be shortened: the file must not grow all the same.
        let has_room = self.last() < 2 * KEPT;
        if has_room && self.file.write_all_at(bytes, self.length).is_ok() {
            self.length += bytes.len() as u64;
        } else {
            self.left_out += bytes.len() as u64;
        }
    }

    /// Leaves the first and the last MiB, when nothing more is to come.
    pub(super) fn finish(&mut self) {
        if self.last() > KEPT || (self.left_out > 0 && self.last_from.is_none()) {
            self.shorten();
        }
    }

    /// How many bytes follow the first MiB and the note.
    fn last(&self) -> u64 {
        self.length.saturating_sub(self.last_from.unwrap_or(KEPT))
    }

    /// Leaves out what lies between the first and the last MiB. Where the disk fails, the file stays as it is.
    fn shorten(&mut self) {
        let from = self.last_from.unwrap_or_else(|| KEPT.min(self.length));
        let kept = (self.length - from).min(KEPT);
        let left_out = self.left_out + (self.length - from - kept);
        let target = KEPT.min(from) + NOTE;
        let mut last = vec![0; usize::try_from(kept).expect("at most a MiB")];
        let shortened = self
            .file
            .read_exact_at(&mut last, self.length - kept)
            .and_then(|()| self.file.write_all_at(note(left_out).as_bytes(), target - NOTE))
            .and_then(|()| self.file.write_all_at(&last, target))
            .and_then(|()| self.file.set_len(target + kept));
        if shortened.is_ok() {
            (self.length, self.left_out, self.last_from) = (target + kept, left_out, Some(target));
        }
    }
}

/// A line of its own, of [`NOTE`] bytes.
fn note(left_out: u64) -> String {
    format!("\n{:<width$}\n", format!("[{left_out} bytes were left out here]"), width = NOTE as usize - 2)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    /// What is kept of a console of so many bytes, each of them its place's, that came in parts of this size.
    fn kept(bytes: usize, part: usize) -> (Vec<u8>, Vec<u8>, u64) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("console.log");
        let all: Vec<u8> = (0..bytes).map(|place| b"abcdefghijklmnopqrstuvw"[place % 23]).collect();
        let mut console = ConsoleFile::create(&path).unwrap();
        let mut largest = 0;
        for part in all.chunks(part) {
            console.append(part);
            largest = largest.max(fs::metadata(&path).unwrap().len());
        }
        console.finish();
        (all, fs::read(path).unwrap(), largest)
    }

    #[test]
    fn a_console_of_two_mib_is_kept_whole() {
        for bytes in [0, 1, KEPT, 2 * KEPT] {
            let (all, file, _) = kept(bytes as usize, 10_007);
            assert!(all == file, "{bytes} bytes changed");
        }
    }

    #[test]
    fn of_a_longer_console_the_first_and_the_last_mib_are_kept_and_the_rest_is_counted() {
        let mib = KEPT as usize;
        for (bytes, part) in
            [(2 * mib + 1, 10_007), (3 * mib, 32 << 10), (20 * mib + 77, 65_536), (9 * mib, 999)]
        {
            let (all, file, largest) = kept(bytes, part);
            assert!(file[..mib] == all[..mib], "the first MiB of {bytes} bytes changed");
            assert!(file[file.len() - mib..] == all[bytes - mib..], "the last MiB of {bytes} bytes changed");
            let note = String::from_utf8(file[mib..file.len() - mib].to_vec()).unwrap();
            assert_eq!(note.trim(), format!("[{} bytes were left out here]", bytes - 2 * mib));
            assert!(largest <= 3 * KEPT + NOTE + part as u64, "the file grew to {largest} bytes");
        }
    }

    #[test]
    fn what_a_full_disk_did_not_take_is_counted() {
        // A file to which nothing can be written plays the disk.
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("console.log");
        let mut console = ConsoleFile::create(&path).unwrap();
        console.append(b"begin");
        let writable = std::mem::replace(&mut console.file, File::open(&path).unwrap());
        console.append(b"lost");
        console.file = writable;
        console.finish();
        let text = fs::read_to_string(&path).unwrap();
        assert!(text.starts_with("begin\n[4 bytes were left out here]"), "{text}");
    }
}
