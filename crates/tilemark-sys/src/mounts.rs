//! What is mounted, as the kernel lists it in `mountinfo` (proc_pid_mountinfo(5)).

use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

/// The list of the calling thread, which may have mounts of its own.
pub const MOUNTINFO: &str = "/proc/thread-self/mountinfo";

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

/// The mounts that the calling thread sees. One on top of another comes after it.
///
/// # Errors
/// Where `/proc` cannot be read.
pub fn of_this_thread() -> io::Result<Vec<Mount>> {
    Ok(parse(&fs::read(MOUNTINFO)?))
}

/// The mounts in such a list. A line of another form is left out. Any user may mount something at a folder whose name is not UTF-8.
pub fn parse(mountinfo: &[u8]) -> Vec<Mount> {
    mountinfo.split(|byte| *byte == b'\n').filter_map(parse_line).collect()
}

/// Number, parent, device, root, point, flags, optional fields, `-`, kind, source, options.
fn parse_line(line: &[u8]) -> Option<Mount> {
    let mut fields = line.split(|byte| *byte == b' ');
    let id = str::from_utf8(fields.next()?).ok()?.parse().ok()?;
    let root = text(fields.nth(2)?);
    let point = OsString::from_vec(unescape(fields.next()?)).into();
    let mut fields = fields.skip_while(|field| *field != b"-").skip(1);
    let (kind, source) = (text(fields.next()?), text(fields.next()?));
    let options = fields.next().unwrap_or_default();
    Some(Mount {
        id,
        root,
        point,
        kind,
        source,
        options: options.split(|byte| *byte == b',').map(text).collect(),
    })
}

fn text(field: &[u8]) -> String {
    String::from_utf8_lossy(&unescape(field)).into_owned()
}

/// Blanks, backslashes and `#` are written as three octal digits: `\040`.
fn unescape(mut rest: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(rest.len());
    while let Some((&first, behind)) = rest.split_first() {
        let escaped = octal(rest);
        bytes.push(escaped.unwrap_or(first));
        rest = if escaped.is_some() { &rest[4..] } else { behind };
    }
    bytes
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
        let text = b"36 35 98:0 /a\\040b /mnt/c\\040d rw,noatime shared:1 master:2 - ext3 /dev/loop\\0437 rw,errors=a\\040b\n\
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
            mount(36, "/a b", "/mnt/c d", "ext3", "/dev/loop#7", &["rw", "errors=a b"]),
            mount(40, "net:[4026532300]", "/run/netns/x", "nsfs", "nsfs", &["rw"]),
        ];
        assert_eq!(parse(text), wanted);
    }

    #[test]
    fn a_point_keeps_bytes_that_are_not_utf_8() {
        let mounts = parse(b"36 35 0:5 / /a\xff\\040b rw - tmpfs none rw\n");
        assert_eq!(mounts[0].point.as_os_str().as_encoded_bytes(), b"/a\xff b");
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
            assert_eq!(text(field.as_bytes()), wanted, "{field}");
        }
    }
}
