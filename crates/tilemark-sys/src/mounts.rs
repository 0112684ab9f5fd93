//! What is mounted, as the kernel lists it in `mountinfo` (proc_pid_mountinfo(5)).

use std::ffi::OsString;
use std::io;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

use crate::files::read_kernel_text;

/// The list of the process that reads it.
pub const OWN: &str = "/proc/self/mountinfo";

/// A mount.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Mount {
    /// Its number, which no other mount has while it exists.
    pub id: u32,
    /// What of its file system is mounted: `/`, a folder, or a namespace (`net:[4026531840]`).
    pub root: String,
    /// Where.
    pub point: PathBuf,
    /// The kind of its file system.
    pub kind: String,
    /// What it was mounted from: a device, or a name.
    pub source: String,
    /// Options of its file system. Flags of the mount itself, such as `nosuid`, are not among them.
    pub options: Vec<String>,
}

/// The mounts that the calling thread sees, in the order in which they were made.
///
/// # Errors
/// Where `/proc` cannot be read.
pub fn mounts() -> io::Result<Vec<Mount>> {
    Ok(parse(&read_kernel_text(Path::new("/proc/thread-self/mountinfo"))?))
}

/// The mounts in such a list. A line of another form is left out.
pub fn parse(mountinfo: &str) -> Vec<Mount> {
    mountinfo.lines().filter_map(parse_line).collect()
}

/// Number, parent, device, root, point, flags, optional fields, ` - `, kind, source, options.
fn parse_line(line: &str) -> Option<Mount> {
    let (before, after) = line.split_once(" - ")?;
    let mut before = before.split(' ');
    let id = before.next()?.parse().ok()?;
    let root = unescape(before.nth(2)?);
    let point = unescape(before.next()?);
    let mut after = after.split(' ');
    Some(Mount {
        id,
        root: root.to_string_lossy().into_owned(),
        point: point.into(),
        kind: after.next()?.to_owned(),
        source: unescape(after.next()?).to_string_lossy().into_owned(),
        options: after.next().unwrap_or_default().split(',').map(str::to_owned).collect(),
    })
}

/// Blanks, backslashes and `#` are written as three octal digits: `\040`.
fn unescape(field: &str) -> OsString {
    let mut bytes = Vec::with_capacity(field.len());
    let mut rest = field.as_bytes();
    while let Some((&first, behind)) = rest.split_first() {
        let (byte, behind) = match octal(rest) {
            Some(byte) => (byte, &rest[4..]),
            None => (first, behind),
        };
        bytes.push(byte);
        rest = behind;
    }
    OsString::from_vec(bytes)
}

fn octal(text: &[u8]) -> Option<u8> {
    let digits = text.strip_prefix(b"\\")?.get(..3)?;
    // `from_str_radix` takes a sign too.
    let digits = digits.iter().all(u8::is_ascii_digit).then_some(digits)?;
    u8::from_str_radix(str::from_utf8(digits).ok()?, 8).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_read_with_its_escapes_and_whatever_optional_fields_it_has() {
        let text = "36 35 98:0 /a\\040b /mnt/c\\040d rw,noatime shared:1 master:2 - ext3 /dev/loop\\0437 rw,errors=continue\n\
            nonsense\n40 30 0:4 net:[4026532300] /run/netns/x rw - nsfs nsfs rw\n";
        let mount = |id, root: &str, point: &str, kind: &str, source: &str, options: &[&str]| Mount {
            id,
            root: root.to_owned(),
            point: point.into(),
            kind: kind.to_owned(),
            source: source.to_owned(),
            options: options.iter().map(ToString::to_string).collect(),
        };
        let wanted = [
            mount(36, "/a b", "/mnt/c d", "ext3", "/dev/loop#7", &["rw", "errors=continue"]),
            mount(40, "net:[4026532300]", "/run/netns/x", "nsfs", "nsfs", &["rw"]),
        ];
        assert_eq!(parse(text), wanted);
    }

    #[test]
    fn only_a_backslash_with_three_octal_digits_is_an_escape() {
        for (field, wanted) in [
            ("/a\\011b\\012c\\134d", "/a\tb\nc\\d"),
            ("/a\\134040", "/a\\040"),
            ("/a\\04", "/a\\04"),
            ("/a\\+40", "/a\\+40"),
            ("/a\\777", "/a\\777"),
            ("/a\\\\040", "/a\\ "),
        ] {
            assert_eq!(unescape(field), wanted, "{field}");
        }
    }
}
