//! Reading a text file that a user named, and that may be no text file at all.

use rustix::fs::OFlags;
use std::{
    fs::{File, OpenOptions},
    io::{self, Read},
    os::unix::fs::OpenOptionsExt,
    path::Path,
};

/// Reads a whole text file of at most so many bytes. A link is followed.
///
/// # Errors
/// When it cannot be read, is longer, or is no plain file: a pipe or a device might never end, and opening one may act on it.
pub fn read_text(path: &Path, bytes_max: u64) -> io::Result<String> {
    read(path, bytes_max, OFlags::empty())
}

/// The same of a file in a folder of somebody else, in which a link would lead to files that only the reader may read.
///
/// # Errors
/// As [`read_text`], and where it is a link.
pub fn read_text_of_others(path: &Path, bytes_max: u64) -> io::Result<String> {
    plain(path.symlink_metadata()?.is_file())?;
    read(path, bytes_max, OFlags::NOFOLLOW)
}

fn read(path: &Path, bytes_max: u64, flags: OFlags) -> io::Result<String> {
    text_of(open(path, flags)?, bytes_max)
}

/// Opens a file of whatever length. A link is followed.
///
/// # Errors
/// When it cannot be read, or is no plain file.
pub fn open_plain(path: &Path) -> io::Result<File> {
    let file = open(path, OFlags::empty())?;
    plain(file.metadata()?.is_file())?;
    Ok(file)
}

fn open(path: &Path, flags: OFlags) -> io::Result<File> {
    // Asked before it is opened too: opening some devices is enough to start something.
    plain(path.metadata()?.is_file())?;
    let flags = flags | OFlags::NONBLOCK | OFlags::NOCTTY;
    OpenOptions::new().read(true).custom_flags(flags.bits() as i32).open(path)
}

/// The whole text of an open file of at most so many bytes.
///
/// # Errors
/// As [`read_text`].
pub fn text_of(file: File, bytes_max: u64) -> io::Result<String> {
    let bytes = bytes_of(file, bytes_max)?;
    let odd =
        |_| io::Error::new(io::ErrorKind::InvalidData, "it is not text: it holds bytes that are not UTF-8");
    String::from_utf8(bytes).map_err(odd)
}

/// All bytes of an open file, at most so many, whatever they are.
///
/// # Errors
/// As [`read_text`].
pub fn bytes_of(file: File, bytes_max: u64) -> io::Result<Vec<u8>> {
    plain(file.metadata()?.is_file())?;
    let mut bytes = Vec::new();
    // Files of /proc say that they are empty, and others may grow while they are read.
    file.take(bytes_max.saturating_add(1)).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > bytes_max {
        let why = format!("it is longer than {bytes_max} bytes");
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, why));
    }
    Ok(bytes)
}

fn plain(is_plain: bool) -> io::Result<()> {
    let error = || io::Error::new(io::ErrorKind::InvalidInput, "it is not a plain file");
    if is_plain { Ok(()) } else { Err(error()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::{CWD, FileType, Mode, mknodat};
    use std::fs;

    #[test]
    fn only_a_plain_file_within_the_bound_is_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("text");
        fs::write(&path, "12345").unwrap();
        assert_eq!(read_text(&path, 5).unwrap(), "12345");
        let said = |path: &Path| read_text(path, 4).unwrap_err().to_string();
        assert_eq!(said(&path), "it is longer than 4 bytes");
        let link = folder.path().join("link");
        std::os::unix::fs::symlink(&path, &link).unwrap();
        assert_eq!(read_text(&link, 5).unwrap(), "12345");
        assert_eq!(read_text_of_others(&path, 5).unwrap(), "12345");
        assert_eq!(read_text_of_others(&link, 5).unwrap_err().to_string(), "it is not a plain file");
        // Nobody writes to it: reading it would never end.
        let pipe = folder.path().join("pipe");
        mknodat(CWD, &pipe, FileType::Fifo, Mode::from_raw_mode(0o600), 0).unwrap();
        for odd in [&pipe, Path::new("/dev/zero"), folder.path()] {
            assert_eq!(said(odd), "it is not a plain file", "{}", odd.display());
        }
    }
}
