//! A small FAT file system with a few files, as "Microsoft Extensible Firmware Initiative FAT32 File System Specification" (1.03)
//! describes FAT12. Written whole and at once; nothing of it changes later.

/// Bytes of a sector, which is a cluster.
const SECTOR: usize = 512;
/// Sectors of the whole: 128 KiB.
const SECTORS: u16 = 256;
/// Entries of the root folder, of 32 bytes each.
const ROOT_ENTRIES: u16 = 64;
const ENTRY: usize = 32;
/// One sector of the table has the clusters of all sectors: 12 bits each.
const TABLE_SECTORS: u16 = 1;
/// Before the clusters: the boot sector, the table, the root folder.
const BEFORE: usize = (1 + TABLE_SECTORS as usize) * SECTOR + ROOT_ENTRIES as usize * ENTRY;
/// Characters of a name in one entry.
const NAME_PART: usize = 13;
/// The last cluster of a file.
const LAST: u16 = 0xFFF;
/// A hard disk.
const MEDIUM: u8 = 0xF8;
const VOLUME: u8 = 0x08;
const LONG_NAME: u8 = 0x0F;
const ARCHIVE: u8 = 0x20;

/// A file: its name, which is ASCII, and its content.
pub(super) type File<'a> = (&'a str, Vec<u8>);

/// The disk. Nothing where the files have no room: together they may have about 100 KiB.
pub(super) fn disk(label: &str, files: &[File<'_>]) -> Option<Vec<u8>> {
    // The first two entries of the table are none of clusters.
    let mut table = vec![0xF00 | u16::from(MEDIUM), LAST];
    let mut root = entry(&short_name(label), VOLUME, 0, 0).to_vec();
    let mut clusters = Vec::new();
    for (index, (name, content)) in files.iter().enumerate() {
        let short = short_name(&format!("FILE{index}"));
        let first = if content.is_empty() { 0 } else { u16::try_from(table.len()).ok()? };
        let count = content.len().div_ceil(SECTOR);
        for place in 1..=count {
            let next = u16::try_from(table.len() + 1).ok()?;
            table.push(if place == count { LAST } else { next });
        }
        root.extend(long_name(name, &short));
        root.extend(entry(&short, ARCHIVE, first, u32::try_from(content.len()).ok()?));
        clusters.extend_from_slice(content);
        clusters.resize(clusters.len().next_multiple_of(SECTOR), 0);
    }
    let all = usize::from(SECTORS) * SECTOR;
    if root.len() > usize::from(ROOT_ENTRIES) * ENTRY || BEFORE + clusters.len() > all {
        return None;
    }
    let mut disk = boot_sector(label);
    disk.extend(packed(&table));
    disk.resize((1 + usize::from(TABLE_SECTORS)) * SECTOR, 0);
    disk.extend(root);
    disk.resize(BEFORE, 0);
    disk.extend(clusters);
    disk.resize(all, 0);
    Some(disk)
}

/// Eleven bytes, filled with blanks.
fn short_name(name: &str) -> [u8; 11] {
    let mut bytes = [b' '; 11];
    for (place, byte) in bytes.iter_mut().zip(name.bytes()) {
        *place = byte.to_ascii_uppercase();
    }
    bytes
}

fn boot_sector(label: &str) -> Vec<u8> {
    let mut sector = vec![0xEB, 0x3C, 0x90];
    sector.extend(b"TILEMARK");
    sector.extend((SECTOR as u16).to_le_bytes());
    // Sectors of a cluster, sectors before the table, tables.
    sector.extend([1, 1, 0, 1]);
    sector.extend(ROOT_ENTRIES.to_le_bytes());
    sector.extend(SECTORS.to_le_bytes());
    sector.push(MEDIUM);
    sector.extend(TABLE_SECTORS.to_le_bytes());
    // A geometry, which nobody uses; no hidden sectors; sectors in 32 bits are not used.
    sector.extend([32, 0, 64, 0]);
    sector.extend([0; 8]);
    // Drive, reserved, the mark of the fields that follow, a serial number.
    sector.extend([0x80, 0, 0x29]);
    sector.extend(*b"tmrk");
    sector.extend(short_name(label));
    sector.extend(*b"FAT12   ");
    sector.resize(SECTOR - 2, 0);
    sector.extend([0x55, 0xAA]);
    sector
}

/// Numbers of 12 bits, two in three bytes.
fn packed(table: &[u16]) -> Vec<u8> {
    let pair = |pair: &[u16]| {
        let (one, two) = (pair[0].to_le_bytes(), pair.get(1).copied().unwrap_or_default());
        [one[0], one[1] | (two << 4).to_le_bytes()[0], (two >> 4).to_le_bytes()[0]]
    };
    table.chunks(2).flat_map(pair).collect()
}

fn entry(name: &[u8; 11], attributes: u8, cluster: u16, bytes: u32) -> [u8; ENTRY] {
    let mut entry = [0; ENTRY];
    entry[..11].copy_from_slice(name);
    entry[11] = attributes;
    entry[26..28].copy_from_slice(&cluster.to_le_bytes());
    entry[28..].copy_from_slice(&bytes.to_le_bytes());
    entry
}

/// The entries of a long name, which come before that of the file, the last part first.
fn long_name(name: &str, short: &[u8; 11]) -> Vec<u8> {
    let sum = short.iter().fold(0_u8, |sum, byte| sum.rotate_right(1).wrapping_add(*byte));
    let parts: Vec<Vec<u16>> =
        name.encode_utf16().collect::<Vec<_>>().chunks(NAME_PART).map(<[u16]>::to_vec).collect();
    let count = parts.len();
    let one = |(index, mut part): (usize, Vec<u16>)| {
        if part.len() < NAME_PART {
            part.push(0);
        }
        part.resize(NAME_PART, 0xFFFF);
        let bytes: Vec<u8> = part.iter().flat_map(|unit| unit.to_le_bytes()).collect();
        let is_last = index + 1 == count;
        let mut entry = [0; ENTRY];
        entry[0] = u8::try_from(index + 1).unwrap_or(0x1F) | if is_last { 0x40 } else { 0 };
        entry[1..11].copy_from_slice(&bytes[..10]);
        entry[11] = LONG_NAME;
        entry[13] = sum;
        entry[14..26].copy_from_slice(&bytes[10..22]);
        entry[28..].copy_from_slice(&bytes[22..]);
        entry
    };
    parts.into_iter().enumerate().rev().flat_map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Cursor, Read};

    #[test]
    fn files_are_read_back_by_their_names_by_a_third_party_reader() {
        let long = b"0123456789".repeat(3000);
        let files = [
            ("meta-data", b"instance-id: a\n".to_vec()),
            ("network-config", long.clone()),
            ("exactly-13-ch", vec![7; 512]),
            ("empty", Vec::new()),
            ("user-data", b"#cloud-config\n".to_vec()),
        ];
        let mut disk = disk("cidata", &files).unwrap();
        let volume = fatfs::FileSystem::new(Cursor::new(&mut disk), fatfs::FsOptions::new()).unwrap();
        assert_eq!((volume.volume_label().as_str(), volume.fat_type()), ("CIDATA", fatfs::FatType::Fat12));
        let root = volume.root_dir();
        let names: Vec<String> = root.iter().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(names, files.iter().map(|(name, _)| (*name).to_owned()).collect::<Vec<_>>());
        for (name, content) in &files {
            let mut read = Vec::new();
            root.open_file(name).unwrap().read_to_end(&mut read).unwrap();
            assert!(read == *content, "{name}");
        }
    }

    #[test]
    fn files_without_room_are_refused() {
        assert!(disk("cidata", &[("a", vec![0; 200_000])]).is_none());
        let many: Vec<_> = (0..40).map(|_| ("name-of-a-file", Vec::new())).collect();
        assert!(disk("cidata", &many).is_none());
    }
}
