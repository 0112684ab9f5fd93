//! Network devices of the caller's network namespace.

use std::fs;
use std::io;

/// Their names. Not from `/sys`, which shows those of whoever mounted it.
///
/// # Errors
/// Where `/proc` cannot be read.
pub fn network_devices() -> io::Result<Vec<String>> {
    let text = fs::read_to_string("/proc/thread-self/net/dev")?;
    // Two lines of headings; a name may hold anything but a blank and a slash, and ends at the last colon before the counts.
    let name = |line: &str| line.split_whitespace().next()?.rsplit_once(':').map(|(name, _)| name.to_owned());
    Ok(text.lines().skip(2).filter_map(name).collect())
}
