//! The end of a guest's console, fit to be shown.

use std::{
    fmt,
    fs::File,
    io::{Read, Seek, SeekFrom},
    path::{Path, PathBuf},
};
use tilemark_units::printable_line;

/// How many lines are shown.
const LINES: usize = 8;
/// How much of the file's end is read for them: more than a kernel's backtrace.
const BYTES: u64 = 16_384;
/// How Linux begins its last words; a backtrace follows, longer than what is shown.
const PANIC: &str = "Kernel panic - not syncing";

/// A console's path and its last lines.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConsoleTail {
    /// Where all that is kept of the console is.
    pub path: PathBuf,
    /// Its last lines, without characters that a terminal would obey.
    pub lines: Vec<String>,
}

impl ConsoleTail {
    /// Reads the end of the file; nothing when there is none.
    pub fn read(path: &Path) -> Self {
        Self::of(path, File::open(path).ok())
    }

    /// The same of a file that is open already, or could not be opened.
    pub fn of(path: &Path, file: Option<File>) -> Self {
        let mut bytes = Vec::new();
        if let Some(mut file) = file {
            let length = file.metadata().map_or(0, |metadata| metadata.len());
            let _ = file.seek(SeekFrom::Start(length.saturating_sub(BYTES)));
            let _ = file.take(BYTES).read_to_end(&mut bytes);
        }
        Self { path: path.to_owned(), lines: last_lines(&bytes) }
    }
}

fn last_lines(bytes: &[u8]) -> Vec<String> {
    let text = String::from_utf8_lossy(bytes);
    let shown = text.lines().map(|line| printable_line(line.trim_end()).into_owned());
    let lines: Vec<String> = shown.filter(|line| !line.is_empty()).collect();
    let first = lines.len().saturating_sub(LINES);
    match lines.iter().rposition(|line| line.contains(PANIC)) {
        Some(panic) if panic < first => [&lines[panic..=panic], &lines[first + 1..]].concat(),
        _ => lines[first..].to_vec(),
    }
}

impl fmt::Display for ConsoleTail {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = self.path.display();
        if self.lines.is_empty() {
            return write!(formatter, "its console {path} is empty");
        }
        write!(formatter, "its console {path} ends with:")?;
        self.lines.iter().try_for_each(|line| write!(formatter, "\n    {line}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_lines_are_shown_without_what_a_terminal_obeys() {
        let text: String = (1..20).map(|n| format!("line {n}\r\n")).collect();
        let mut bytes = text.into_bytes();
        bytes.extend_from_slice(b"\x1b[31mKernel panic\x07\n\n");
        let lines = last_lines(&bytes);
        assert_eq!(lines.len(), LINES);
        assert_eq!(lines[LINES - 1], "\\u{1b}[31mKernel panic\\u{7}");
        assert_eq!(lines[0], "line 13");
    }

    #[test]
    fn why_a_kernel_panicked_is_shown_however_long_its_backtrace_is() {
        let text = format!("up\n[1.2] {PANIC}: no init\n{}", "[1.3]  ? frame\n".repeat(30));
        let lines = last_lines(text.as_bytes());
        assert_eq!(lines.len(), LINES);
        assert_eq!(lines[0], "[1.2] Kernel panic - not syncing: no init");
        assert_eq!(last_lines(format!("{PANIC}\nx").as_bytes()), [PANIC, "x"]);
    }

    #[test]
    fn a_missing_console_is_an_empty_one() {
        let tail = ConsoleTail::read(Path::new("/nowhere/console.log"));
        assert_eq!(tail.to_string(), "its console /nowhere/console.log is empty");
    }
}
