//! The overlay of a disk: an empty qcow2 that takes what a guest writes. It names no file: QEMU's arguments name what backs it.

use std::{
    fs::OpenOptions,
    io,
    os::unix::fs::{FileExt, OpenOptionsExt},
    path::Path,
};
use tilemark_units::Bytes;

/// Bits of its clusters: 64 KiB, as QEMU makes them.
const CLUSTER_BITS: u32 = 16;
const CLUSTER: u64 = 1 << CLUSTER_BITS;
/// Bytes of the disk that one entry of the first table is for: a second table is one cluster of entries of 8 bytes.
const COVERED: u64 = CLUSTER * (CLUSTER / 8);
/// Counts have 16 bits, which is 2 to the power of this.
const COUNT_BITS: u32 = 4;
const HEADER_BYTES: u32 = 104;

/// Places of its four clusters: the header, the table of counts, the one block of counts, the first table.
const COUNTS: u64 = CLUSTER;
const BLOCK: u64 = 2 * CLUSTER;
const L1: u64 = 3 * CLUSTER;
const ALL: u64 = 4 * CLUSTER;

/// Makes the file, for its owner only, with a disk of this size. At most [`super::DISK_MAX`].
///
/// # Errors
/// When it cannot be written; one that is there is not replaced.
pub fn write_overlay(path: &Path, size: Bytes) -> io::Result<()> {
    if size > super::DISK_MAX {
        return Err(io::Error::from(io::ErrorKind::FileTooLarge));
    }
    let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    file.set_len(ALL)?;
    file.write_all_at(&header(size), 0)?;
    file.write_all_at(&BLOCK.to_be_bytes(), COUNTS)?;
    // Each of the four clusters is used once.
    file.write_all_at(&1_u16.to_be_bytes().repeat(4), BLOCK)
}

/// QEMU's `docs/interop/qcow2.txt`, "Header".
fn header(size: Bytes) -> Vec<u8> {
    let entries = u32::try_from(size.get().div_ceil(COVERED)).expect("the size was checked");
    let mut bytes = b"QFI\xfb".to_vec();
    bytes.extend(3_u32.to_be_bytes());
    // No backing file: its place, and the length of its name.
    bytes.extend(0_u64.to_be_bytes());
    bytes.extend(0_u32.to_be_bytes());
    bytes.extend(CLUSTER_BITS.to_be_bytes());
    bytes.extend(size.get().to_be_bytes());
    // No encryption.
    bytes.extend(0_u32.to_be_bytes());
    bytes.extend(entries.to_be_bytes());
    bytes.extend(L1.to_be_bytes());
    bytes.extend(COUNTS.to_be_bytes());
    bytes.extend(1_u32.to_be_bytes());
    // No snapshots: how many, and their place.
    bytes.extend(0_u32.to_be_bytes());
    bytes.extend(0_u64.to_be_bytes());
    // No features: incompatible, compatible, those that clear themselves.
    bytes.extend([0; 24]);
    bytes.extend(COUNT_BITS.to_be_bytes());
    bytes.extend(HEADER_BYTES.to_be_bytes());
    bytes
}
