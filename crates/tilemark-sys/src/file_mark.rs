//! Knowing again a file that nobody changed, without reading it.

use std::{
    fs::Metadata,
    os::unix::fs::MetadataExt,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

/// A file's times move in ticks of the kernel's clock, on some file systems in whole seconds: of two changes within one
/// tick the second leaves no trace. Git calls such a file racy.
const SETTLED_AFTER: Duration = Duration::from_secs(2);

/// Represents the content of a file: which file it is, its size and when it was last changed (ctime, which nobody can
/// set). What a failing disk does to it is not seen.
///
/// `None` at a time `now` at which a change to come might leave the same mark: too soon after the last one, or before
/// it, since the clock was set back. Take `now` before the file is read.
pub fn file_mark(found: &Metadata, now: SystemTime) -> Option<String> {
    let seconds = u64::try_from(found.ctime()).ok()?;
    let changed = UNIX_EPOCH + Duration::new(seconds, u32::try_from(found.ctime_nsec()).ok()?);
    if now.duration_since(changed).ok()? < SETTLED_AFTER {
        return None;
    }
    let time = format!("{seconds}.{:09}", found.ctime_nsec());
    Some(format!("{} {} {} {time}", found.dev(), found.ino(), found.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_changed_just_now_has_no_mark_and_one_changed_long_ago_has() {
        let found = std::fs::metadata(std::env::current_exe().unwrap()).unwrap();
        let changed = UNIX_EPOCH + Duration::new(found.ctime() as u64, found.ctime_nsec() as u32);
        assert_eq!(file_mark(&found, changed), None);
        assert_eq!(file_mark(&found, changed + Duration::from_millis(1999)), None);
        assert_eq!(file_mark(&found, changed - Duration::from_secs(60)), None, "the clock was set back");
        let mark = file_mark(&found, changed + SETTLED_AFTER).unwrap();
        assert_eq!(file_mark(&found, changed + Duration::from_secs(60)), Some(mark));
    }
}
