//! What is in a qcow2: its header, and whether its tables lie inside it. The format is QEMU's `docs/interop/qcow2.txt`.

use super::{DiskFormat, OwnDiskError, damaged, read_at};
use std::{fs::File, path::Path};

/// The first cluster holds the header, its extensions and the name of what backs it; the least cluster has so many bytes.
const HEADER_BYTES: usize = 64 << 10;
/// The longest name of what backs a disk.
const NAME_MAX: u32 = 1023;
/// QEMU takes no longer first table: 32 MiB.
const L1_BYTES_MAX: u64 = 32 << 20;
/// So much of the second tables is looked at, which is enough for a full disk of 256 GiB with usual clusters: a plan must not take long.
const L2_BYTES_MAX: u64 = 32 << 20;
/// Bits of an entry that are the place of what it points to: 9 to 55.
const PLACE: u64 = 0x00FF_FFFF_FFFF_FE00;
/// The entry is of a compressed cluster.
const COMPRESSED: u64 = 1 << 62;

/// Incompatible features, by bit.
const CORRUPT: u64 = 1 << 1;
const DATA_FILE: u64 = 1 << 2;
const EXTENDED_L2: u64 = 1 << 4;
/// Dirty, corrupt, external data file, compression type, extended entries.
const KNOWN: u64 = 0b1_1111;

/// Kinds of header extensions.
const END: u32 = 0;
const BACKING_FORMAT: u32 = 0xE279_2ACA;

/// What is known of one.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Qcow2 {
    /// What its guest sees, in bytes.
    pub(super) size: u64,
    /// The name of what backs it, as it is in the file.
    pub(super) backing: Option<Vec<u8>>,
    /// How that is read, where it says so.
    pub(super) backing_format: Option<DiskFormat>,
}

/// The header's numbers.
struct Header {
    version: u32,
    backing_at: u64,
    backing_bytes: u32,
    cluster_bits: u32,
    size: u64,
    encryption: u32,
    l1_entries: u32,
    l1_at: u64,
    counts_at: u64,
    features: u64,
    length: u32,
}

fn number(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_be_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

fn long(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_be_bytes(bytes.get(at..at + 8)?.try_into().ok()?))
}

impl Header {
    /// `None`: the file ends before its header does.
    fn of(bytes: &[u8]) -> Option<Self> {
        let version = number(bytes, 4)?;
        let is_old = version < 3;
        Some(Self {
            version,
            backing_at: long(bytes, 8)?,
            backing_bytes: number(bytes, 16)?,
            cluster_bits: number(bytes, 20)?,
            size: long(bytes, 24)?,
            encryption: number(bytes, 32)?,
            l1_entries: number(bytes, 36)?,
            l1_at: long(bytes, 40)?,
            counts_at: long(bytes, 48)?,
            features: if is_old { 0 } else { long(bytes, 72)? },
            length: if is_old { 72 } else { number(bytes, 100)? },
        })
    }

    const fn cluster(&self) -> u64 {
        1 << self.cluster_bits
    }

    /// Bytes of an entry of a second table.
    const fn entry(&self) -> u64 {
        if self.features & EXTENDED_L2 == 0 { 8 } else { 16 }
    }

    /// Bytes of the disk that one entry of the first table is for.
    const fn covered(&self) -> u64 {
        self.cluster() * (self.cluster() / self.entry())
    }

    /// The bytes of a compressed cluster begin in the file here.
    const fn compressed(&self, entry: u64) -> u64 {
        entry & ((1 << (62 - (self.cluster_bits - 8))) - 1)
    }
}

/// Reads the file, which has so many bytes.
pub(super) fn read(file: &File, path: &Path, bytes: u64) -> Result<Qcow2, OwnDiskError> {
    let head = read_at(file, path, 0, HEADER_BYTES)?;
    let header = Header::of(&head).ok_or_else(|| damaged(path, "it ends before its header does"))?;
    check_header(&header, path)?;
    let backing = backing_name(&header, &head).map_err(|what| damaged(path, what))?;
    let backing_format =
        match extension(&header, &head, BACKING_FORMAT).map_err(|what| damaged(path, what))? {
            None | Some(b"") => None,
            Some(b"raw") => Some(DiskFormat::Raw),
            Some(b"qcow2") => Some(DiskFormat::Qcow2),
            Some(other) => {
                let what = format!("a backing file in the format {:?}", String::from_utf8_lossy(other));
                return Err(OwnDiskError::Unknown { path: path.to_owned(), what });
            }
        };
    check_tables(&header, file, path, bytes)?;
    Ok(Qcow2 { size: header.size, backing, backing_format })
}

fn check_header(header: &Header, path: &Path) -> Result<(), OwnDiskError> {
    let unknown = |what: String| OwnDiskError::Unknown { path: path.to_owned(), what };
    if !(2..=3).contains(&header.version) {
        return Err(unknown(format!("version {} of qcow2", header.version)));
    }
    if !(9..=21).contains(&header.cluster_bits) {
        return Err(damaged(path, format!("its clusters have 2^{} bytes", header.cluster_bits)));
    }
    if header.encryption != 0 {
        return Err(OwnDiskError::Encrypted { path: path.to_owned() });
    }
    if header.features & CORRUPT != 0 {
        return Err(damaged(path, "QEMU has marked it as corrupt"));
    }
    if header.features & DATA_FILE != 0 {
        return Err(OwnDiskError::DataFile { path: path.to_owned() });
    }
    if header.features & !KNOWN != 0 {
        return Err(unknown(format!("the features {:#x} of qcow2", header.features & !KNOWN)));
    }
    if header.features & EXTENDED_L2 != 0 && header.cluster_bits < 14 {
        return Err(damaged(path, "its clusters are too small for its tables"));
    }
    if header.version == 3 && !(104..=HEADER_BYTES as u32).contains(&header.length) {
        return Err(damaged(path, format!("its header has {} bytes", header.length)));
    }
    Ok(())
}

fn backing_name(header: &Header, head: &[u8]) -> Result<Option<Vec<u8>>, String> {
    if header.backing_at == 0 {
        return Ok(None);
    }
    let wrong =
        || format!("the name of what backs it has {} bytes at {}", header.backing_bytes, header.backing_at);
    if header.backing_bytes == 0 || header.backing_bytes > NAME_MAX {
        return Err(wrong());
    }
    let from = usize::try_from(header.backing_at).map_err(|_| wrong())?;
    let to = from.checked_add(header.backing_bytes as usize).ok_or_else(wrong)?;
    head.get(from..to).map(|name| Some(name.to_vec())).ok_or_else(wrong)
}

/// The content of the first header extension of this kind.
fn extension<'h>(header: &Header, head: &'h [u8], wanted: u32) -> Result<Option<&'h [u8]>, String> {
    let mut at = header.length as usize;
    // The name of what backs it follows them, or the first cluster ends.
    let end = usize::try_from(header.cluster().min(head.len() as u64)).unwrap_or(head.len());
    let end =
        if header.backing_at == 0 { end } else { end.min(usize::try_from(header.backing_at).unwrap_or(end)) };
    while let (Some(kind), Some(length)) = (number(head, at), number(head, at + 4)) {
        if kind == END || at + 8 > end {
            break;
        }
        let content = at + 8..(at + 8).saturating_add(length as usize);
        if content.end > end {
            return Err(format!("an extension of its header has {length} bytes"));
        }
        if kind == wanted {
            return Ok(head.get(content));
        }
        at = content.end.next_multiple_of(8);
    }
    Ok(None)
}

/// Every table and cluster must begin inside the file: one that was cut off has lost some.
fn check_tables(header: &Header, file: &File, path: &Path, bytes: u64) -> Result<(), OwnDiskError> {
    let l1_bytes = u64::from(header.l1_entries) * 8;
    let needed = header.size.div_ceil(header.covered());
    if l1_bytes > L1_BYTES_MAX || u64::from(header.l1_entries) < needed {
        let what = format!("its first table has {} entries, and its size needs {needed}", header.l1_entries);
        return Err(damaged(path, what));
    }
    let cut_off = |what: &str, at: u64| {
        damaged(
            path,
            format!("{what} begins at byte {at}, and the file has {bytes}: it is cut off or overwritten"),
        )
    };
    let is_inside = |at: u64, length: u64| at.checked_add(length).is_some_and(|end| end <= bytes);
    let is_whole = |at: u64| at.is_multiple_of(header.cluster());
    if header.counts_at == 0 || !is_whole(header.counts_at) || !is_inside(header.counts_at, 8) {
        return Err(cut_off("its table of counts", header.counts_at));
    }
    if needed > 0 && (header.l1_at == 0 || !is_whole(header.l1_at) || !is_inside(header.l1_at, l1_bytes)) {
        return Err(cut_off("its first table", header.l1_at));
    }
    let l1 = read_at(file, path, header.l1_at, usize::try_from(needed * 8).unwrap_or_default())?;
    let mut left = L2_BYTES_MAX / header.cluster();
    for entry in l1.chunks_exact(8).filter_map(|entry| long(entry, 0)) {
        let at = entry & PLACE;
        if at == 0 {
            continue;
        }
        if !is_whole(at) || !is_inside(at, header.cluster()) {
            return Err(cut_off("a second table", at));
        }
        if left == 0 {
            continue;
        }
        left -= 1;
        let l2 = read_at(file, path, at, header.cluster() as usize)?;
        for entry in l2.chunks_exact(header.entry() as usize).filter_map(|entry| long(entry, 0)) {
            let at = if entry & COMPRESSED != 0 { header.compressed(entry) } else { entry & PLACE };
            let is_right = entry & COMPRESSED != 0 || is_whole(at);
            // Nothing is there where it was never written, or holds zeros. The last cluster of a file may be short.
            if at != 0 && !(is_right && at < bytes) {
                return Err(cut_off("a cluster", at));
            }
        }
    }
    Ok(())
}
