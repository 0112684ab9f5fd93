//! Writes cpio archives of the form `newc`, the one that the kernel unpacks as an initramfs.
//!
//! Everything that could differ between two builds (times, inode numbers, owners) is fixed, so equal contents give
//! equal bytes.

/// What the kernel expects at the end of each archive.
const TRAILER: &str = "TRAILER!!!";
/// Archives are filled up to this, so that another can follow: the kernel reads joined archives as one.
const BLOCK_BYTES: usize = 512;

/// The kind and permission bits of an entry, as `stat` has them.
#[derive(Clone, Copy)]
enum Mode {
    Directory = 0o040_755,
    File = 0o100_644,
    Executable = 0o100_755,
    CharacterDevice = 0o020_600,
}

/// A device number, in the kernel's words.
#[derive(Clone, Copy, Default)]
pub(crate) struct DeviceNumber {
    pub(crate) major: u32,
    pub(crate) minor: u32,
}

/// An archive being written into memory. Directories must be added before what is in them.
#[derive(Default)]
pub(crate) struct CpioWriter {
    bytes: Vec<u8>,
    entries: u32,
}

impl CpioWriter {
    /// Adds an empty directory.
    pub(crate) fn directory(&mut self, path: &str) {
        self.entry(path, Mode::Directory as u32, DeviceNumber::default(), &[]);
    }

    /// Adds a file that everybody may read.
    pub(crate) fn file(&mut self, path: &str, content: &[u8]) {
        self.entry(path, Mode::File as u32, DeviceNumber::default(), content);
    }

    /// Adds a file that everybody may run.
    pub(crate) fn executable(&mut self, path: &str, content: &[u8]) {
        self.entry(path, Mode::Executable as u32, DeviceNumber::default(), content);
    }

    /// Adds a character device for root.
    pub(crate) fn character_device(&mut self, path: &str, device: DeviceNumber) {
        self.entry(path, Mode::CharacterDevice as u32, device, &[]);
    }

    /// Ends the archive.
    pub(crate) fn finish(mut self) -> Vec<u8> {
        self.entry(TRAILER, 0, DeviceNumber::default(), &[]);
        self.bytes.resize(self.bytes.len().next_multiple_of(BLOCK_BYTES), 0);
        self.bytes
    }

    fn entry(&mut self, path: &str, mode: u32, device: DeviceNumber, content: &[u8]) {
        let content_bytes =
            u32::try_from(content.len()).expect("what goes into an initramfs is far below 4 GiB");
        let path_bytes = u32::try_from(path.len() + 1).expect("a path is far below 4 GiB");
        let links = if mode == Mode::Directory as u32 { 2 } else { 1 };
        self.entries += 1;
        let fields = [
            self.entries,
            mode,
            0, // owner
            0, // group
            links,
            0, // time
            content_bytes,
            0, // device that holds the file
            0,
            device.major,
            device.minor,
            path_bytes,
            0, // checksum: unused in this form
        ];
        self.bytes.extend_from_slice(b"070701");
        for field in fields {
            self.bytes.extend_from_slice(format!("{field:08X}").as_bytes());
        }
        self.bytes.extend_from_slice(path.as_bytes());
        self.bytes.push(0);
        self.align();
        self.bytes.extend_from_slice(content);
        self.align();
    }

    fn align(&mut self) {
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::process::{Command, Stdio};

    fn sample() -> Vec<u8> {
        let mut archive = CpioWriter::default();
        archive.directory("dev");
        archive.character_device("dev/console", DeviceNumber { major: 5, minor: 1 });
        archive.file("list", b"one\n");
        archive.executable("init", b"\x7fELF");
        archive.finish()
    }

    fn cpio(arguments: &[&str], input: &[u8]) -> Option<String> {
        let mut child = Command::new("cpio")
            .args(arguments)
            .env("TZ", "UTC")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .ok()?;
        child.stdin.take().expect("it was piped").write_all(input).expect("cpio reads all of it");
        let output = child.wait_with_output().expect("cpio ends");
        assert!(output.status.success());
        Some(String::from_utf8(output.stdout).expect("ASCII names"))
    }

    #[test]
    fn the_cpio_program_reads_back_names_kinds_sizes_and_device_numbers() {
        let Some(listing) = cpio(&["-tv", "--quiet"], &sample()) else {
            return tilemark_fixtures::skipped("the program cpio is not installed");
        };
        let lines: Vec<Vec<&str>> = listing.lines().map(|line| line.split_whitespace().collect()).collect();
        let kinds: Vec<&str> = lines.iter().map(|words| words[0]).collect();
        assert_eq!(kinds, ["drwxr-xr-x", "crw-------", "-rw-r--r--", "-rwxr-xr-x"]);
        let names: Vec<&str> = lines.iter().map(|words| *words.last().expect("a name")).collect();
        assert_eq!(names, ["dev", "dev/console", "list", "init"]);
        assert!(listing.contains("5,   1"), "{listing}");
        assert_eq!(lines[2][4], "4");
    }

    #[test]
    fn a_joined_archive_starts_on_a_block() {
        assert_eq!(sample().len() % BLOCK_BYTES, 0);
    }

    #[test]
    fn contents_start_and_end_on_four_bytes() {
        let archive = sample();
        let content = archive.windows(4).position(|bytes| bytes == b"one\n").expect("it is in there");
        assert_eq!(content % 4, 0);
        assert_eq!(&archive[content + 4..content + 10], b"070701");
    }
}
