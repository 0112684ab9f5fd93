//! Files that are there whole or not at all.

use crate::{error::RecordError, faults};
use sha2::{Digest, Sha256};
use std::{
    fs::{self, File},
    io::{self, Read, Write},
    path::{Path, PathBuf},
};

/// Writes a file aside, syncs it and renames it into its place.
pub fn write_whole(path: &Path, bytes: &[u8]) -> Result<(), RecordError> {
    write_in_parts(path, |file| file.write_all(bytes))
}

/// The same for what is made while it is written, since it would be large in memory.
pub(crate) fn write_in_parts(
    path: &Path,
    fill: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> Result<(), RecordError> {
    write_aside(path, fill).map_err(|source| RecordError::Write { path: path.to_owned(), source })
}

fn write_aside(path: &Path, fill: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> io::Result<()> {
    let aside = aside_of(path);
    let written = (|| {
        faults::space()?;
        let mut file = faults::Checked(File::create(&aside)?);
        fill(&mut file)?;
        file.0.sync_all()?;
        faults::space()?;
        fs::rename(&aside, path)?;
        let folder = path.parent().unwrap_or(Path::new("."));
        File::open(folder)?.sync_all()
    })();
    if written.is_err() {
        // Best effort: the error that counts is the one above.
        let _ = fs::remove_file(&aside);
    }
    written
}

fn aside_of(path: &Path) -> PathBuf {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    path.with_file_name(format!(".{name}.{}.aside", std::process::id()))
}

/// SHA-256 of a file, in hexadecimal.
pub fn sha256_of(path: &Path) -> Result<String, RecordError> {
    let hashed = || -> io::Result<String> {
        let mut file = File::open(path)?;
        let mut hash = Sha256::new();
        let mut buffer = vec![0; 1 << 16];
        loop {
            match file.read(&mut buffer)? {
                0 => break,
                count => hash.update(&buffer[..count]),
            }
        }
        Ok(hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect())
    };
    hashed().map_err(|source| RecordError::Read { path: path.to_owned(), source })
}

pub(crate) fn read(path: &Path) -> Result<String, RecordError> {
    fs::read_to_string(path).map_err(|source| RecordError::Read { path: path.to_owned(), source })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_cannot_be_finished_leaves_the_old_one_and_nothing_aside() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("result.json");
        fs::create_dir(&path).unwrap();
        assert!(matches!(write_whole(&path, b"new"), Err(RecordError::Write { .. })));
        let left: Vec<_> =
            fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(left, ["result.json"]);
    }

    #[test]
    fn the_hash_is_the_published_one() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("abc");
        write_whole(&path, b"abc").unwrap();
        // FIPS 180-2, appendix B.1.
        assert_eq!(
            sha256_of(&path).unwrap(),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
        );
    }
}
