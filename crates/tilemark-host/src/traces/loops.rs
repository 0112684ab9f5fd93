//! Loop devices that have a file.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

/// A loop device with its file.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct LoopDevice {
    /// The device, such as `/dev/loop3`.
    pub path: PathBuf,
    /// Its file, as the kernel names it: from the root of its file system where the caller does not see that mounted.
    pub file: PathBuf,
}

/// All of the host. A kernel without block devices has none.
///
/// # Errors
/// Where `/sys` cannot be read.
pub fn loop_devices() -> io::Result<Vec<LoopDevice>> {
    let entries = match fs::read_dir("/sys/block") {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        listed => listed?,
    };
    let device = |entry: fs::DirEntry| {
        // Without a file it has no such entry.
        let mut file = fs::read(entry.path().join("loop/backing_file")).ok()?;
        if file.last() == Some(&b'\n') {
            file.pop();
        }
        let path = PathBuf::from("/dev").join(entry.file_name());
        (!file.is_empty()).then(|| LoopDevice { path, file: OsString::from_vec(file).into() })
    };
    Ok(entries.flatten().filter_map(device).collect())
}
