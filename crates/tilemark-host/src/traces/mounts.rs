//! Mounts of a mount namespace.

use std::fs;
use std::io;
use std::path::PathBuf;

use crate::cgroup::unescape;

/// A mount.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Mount {
    /// Its number, which no other mount has while it is there.
    pub id: u32,
    /// What of its file system is mounted: `/`, a folder, or a namespace (`net:[4026531840]`).
    pub root: String,
    /// Where.
    pub point: PathBuf,
    /// The kind of its file system.
    pub kind: String,
    /// What it was mounted from: a device, or a name.
    pub source: String,
}

/// The mounts that the caller sees.
///
/// # Errors
/// Where `/proc` cannot be read.
pub fn mounts() -> io::Result<Vec<Mount>> {
    Ok(parse(&fs::read("/proc/thread-self/mountinfo")?))
}

/// proc_pid_mountinfo(5): number, parent, device, root, point, options, optional fields, ` - `, kind, source.
pub(super) fn parse(mountinfo: &[u8]) -> Vec<Mount> {
    let text = String::from_utf8_lossy(mountinfo);
    text.lines().filter_map(parse_line).collect()
}

fn parse_line(line: &str) -> Option<Mount> {
    let (before, after) = line.split_once(" - ")?;
    let mut before = before.split(' ');
    let id = before.next()?.parse().ok()?;
    let root = unescape(before.nth(2)?);
    let point = unescape(before.next()?).into();
    let mut after = after.split(' ');
    Some(Mount { id, root, point, kind: after.next()?.to_owned(), source: unescape(after.next()?) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_read_with_its_blanks_and_whatever_optional_fields_it_has() {
        let text =
            b"36 35 98:0 /a\\040b /mnt/c\\040d rw,noatime shared:1 master:2 - ext3 /dev/loop7 rw\nnonsense\n\
            40 30 0:4 net:[4026532300] /run/netns/x rw - nsfs nsfs rw\n";
        let mount = |id, root: &str, point: &str, kind: &str, source: &str| Mount {
            id,
            root: root.to_owned(),
            point: point.into(),
            kind: kind.to_owned(),
            source: source.to_owned(),
        };
        let wanted = [
            mount(36, "/a b", "/mnt/c d", "ext3", "/dev/loop7"),
            mount(40, "net:[4026532300]", "/run/netns/x", "nsfs", "nsfs"),
        ];
        assert_eq!(parse(text), wanted);
    }
}
