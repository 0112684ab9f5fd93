//! Disks of the user's own that guests boot.

use crate::record::memory_folder;
use std::fs;
use tilemark_image::own_disk::{DISK_MAX, look_at, write_overlay};
use tilemark_units::Bytes;

/// Takes bytes as a disk, beside a raw one that it may be backed by. Whatever it says, only files of its folder are levels of it.
pub fn take_disk(bytes: &[u8]) {
    let folder = tempfile::tempdir_in(memory_folder()).expect("a folder can be made");
    let inside = fs::canonicalize(folder.path()).expect("it is there");
    let path = inside.join("d");
    fs::write(&path, bytes).expect("a file can be written");
    fs::write(inside.join("base"), [0; 1024]).expect("a file can be written");
    if let Ok(disk) = look_at(&path) {
        assert!(disk.size > Bytes::default() && disk.size <= DISK_MAX, "{disk:?}");
        assert!(disk.levels.iter().all(|level| level.path.parent() == Some(&inside)), "{disk:?}");
    }
}

pub(crate) fn disks() -> Vec<Vec<u8>> {
    let folder = tempfile::tempdir_in(memory_folder()).expect("a folder can be made");
    let path = folder.path().join("d");
    write_overlay(&path, Bytes::from_gib(1)).expect("a file can be written");
    let plain = fs::read(&path).expect("it is there");
    let mut backed = plain.clone();
    let put = |bytes: &mut [u8], at: usize, value: &[u8]| bytes[at..at + value.len()].copy_from_slice(value);
    put(&mut backed, 104, b"\xe2\x79\x2a\xca\0\0\0\x03raw");
    put(&mut backed, 8, &[0, 0, 0, 0, 0, 0, 0, 200, 0, 0, 0, 4]);
    put(&mut backed, 200, b"base");
    let mut raw = vec![0; 1024];
    put(&mut raw, 510, &[0x55, 0xaa]);
    // Without its tables, which are mostly zeros: a short input is changed in more places.
    let short = plain[..1024].to_vec();
    vec![plain, backed, raw, short]
}
