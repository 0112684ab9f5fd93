//! Files under `/proc` and `/sys` that stay open: reading again from the start gives fresh counters for one system call.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// First size of the buffer that all files share: nearly every file fits.
const BUFFER_BYTES: usize = 16 << 10;

/// No file that is read here is longer: it would be no file of counters.
const FILE_BYTES_MAX: usize = 64 << 20;

/// Where files are read to, one after the other.
#[derive(Debug)]
pub(super) struct Buffer(Vec<u8>);

impl Buffer {
    pub(super) fn new() -> Self {
        Self(vec![0; BUFFER_BYTES])
    }
}

/// A file that stays open and is read again and again.
#[derive(Debug)]
pub(super) struct OpenFile(File);

impl OpenFile {
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        File::open(path).map(Self)
    }

    /// A file that the kernel makes in one piece smaller than a page: one system call.
    pub(super) fn read_small<'b>(&self, buffer: &'b mut Buffer) -> io::Result<&'b [u8]> {
        let length = self.0.read_at(&mut buffer.0, 0)?;
        Ok(&buffer.0[..length])
    }

    /// A file of any length, which the kernel may give in pieces.
    pub(super) fn read_whole<'b>(&self, buffer: &'b mut Buffer) -> io::Result<&'b [u8]> {
        let mut length = 0;
        loop {
            if length >= FILE_BYTES_MAX {
                let why = format!("longer than {FILE_BYTES_MAX} bytes");
                return Err(io::Error::new(io::ErrorKind::FileTooLarge, why));
            }
            if length == buffer.0.len() {
                buffer.0.resize(length * 2, 0);
            }
            match self.0.read_at(&mut buffer.0[length..], length as u64)? {
                0 => return Ok(&buffer.0[..length]),
                more => length += more,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_longer_than_the_buffer_is_read_whole_and_fresh_each_time() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("long");
        std::fs::write(&path, vec![7; 100_000]).unwrap();
        let (file, mut buffer) = (OpenFile::open(&path).unwrap(), Buffer::new());
        assert_eq!(file.read_whole(&mut buffer).unwrap().len(), 100_000);
        std::fs::write(&path, b"short").unwrap();
        assert_eq!(file.read_whole(&mut buffer).unwrap(), b"short");
    }
}
