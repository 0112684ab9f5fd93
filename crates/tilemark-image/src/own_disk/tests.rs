use super::*;
use std::{
    fs::Permissions,
    os::unix::fs::{PermissionsExt, chown, symlink},
};
use tempfile::TempDir;

/// A folder with a qcow2 of 1 GiB, `d.qcow2`, changed by `change`.
fn changed(change: impl FnOnce(&mut Vec<u8>)) -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = fs::canonicalize(folder.path()).unwrap().join("d.qcow2");
    write_overlay(&path, Bytes::from_gib(1)).unwrap();
    let mut bytes = fs::read(&path).unwrap();
    change(&mut bytes);
    fs::write(&path, bytes).unwrap();
    (folder, path)
}

fn put(bytes: &mut [u8], at: usize, value: &[u8]) {
    bytes[at..at + value.len()].copy_from_slice(value);
}

/// Names a backing file right behind the header.
fn back(bytes: &mut [u8], name: &str, format: &str) {
    put(bytes, 104, &0xE279_2ACA_u32.to_be_bytes());
    put(bytes, 108, &u32::try_from(format.len()).unwrap().to_be_bytes());
    put(bytes, 112, format.as_bytes());
    put(bytes, 8, &200_u64.to_be_bytes());
    put(bytes, 16, &u32::try_from(name.len()).unwrap().to_be_bytes());
    put(bytes, 200, name.as_bytes());
}

fn raw(folder: &Path, name: &str) -> PathBuf {
    let mut bytes = vec![0; 4096];
    put(&mut bytes, 510, &[0x55, 0xAA]);
    let path = folder.join(name);
    fs::write(&path, bytes).unwrap();
    path
}

fn refused(path: &Path) -> String {
    let error = look_at(path).unwrap_err();
    assert!(!error.remedy().is_empty());
    error.to_string()
}

#[test]
fn an_overlay_is_a_whole_qcow2_of_its_size() {
    let (_folder, path) = changed(|_| ());
    let disk = look_at(&path).unwrap();
    assert_eq!((disk.size, disk.levels.len()), (Bytes::from_gib(1), 1));
    assert_eq!((disk.levels[0].format, &disk.levels[0].path), (DiskFormat::Qcow2, &path));
    assert!(write_overlay(&path, Bytes::from_gib(1)).is_err(), "one that is there is replaced");
    assert!(write_overlay(&path.with_extension("2"), Bytes::from_gib(4097)).is_err());
}

#[test]
fn a_raw_disk_is_taken_with_its_boot_sector() {
    let folder = tempfile::tempdir().unwrap();
    let path = raw(folder.path(), "d.raw");
    let disk = look_at(&path).unwrap();
    assert_eq!((disk.size, disk.levels[0].format), (Bytes::new(4096), DiskFormat::Raw));
    fs::write(&path, vec![0; 4096]).unwrap();
    assert!(refused(&path).ends_with("has no boot sector"));
    fs::write(&path, vec![0; 4000]).unwrap();
    assert!(refused(&path).contains("it has 4000 bytes, which is not a whole number of sectors"));
    fs::write(&path, "").unwrap();
    assert!(refused(&path).contains("it has 0 bytes"));
}

#[test]
fn a_disk_that_is_damaged_encrypted_or_new_is_named_with_what_is_wrong() {
    type Change = fn(&mut Vec<u8>);
    let all: [(&str, Change); 14] = [
        ("it ends before its header does", |bytes| bytes.truncate(50)),
        ("needs version 9 of qcow2", |bytes| put(bytes, 4, &9_u32.to_be_bytes())),
        ("its clusters have 2^40 bytes", |bytes| put(bytes, 20, &40_u32.to_be_bytes())),
        ("is encrypted", |bytes| put(bytes, 32, &2_u32.to_be_bytes())),
        ("QEMU has marked it as corrupt", |bytes| put(bytes, 72, &2_u64.to_be_bytes())),
        ("keeps its sectors in a data file", |bytes| put(bytes, 72, &4_u64.to_be_bytes())),
        ("the features 0x80 of qcow2", |bytes| put(bytes, 72, &0x80_u64.to_be_bytes())),
        ("has 1000000 entries", |bytes| {
            put(bytes, 36, &100_000_000_u32.to_be_bytes());
            put(bytes, 36, &1_000_000_u32.to_be_bytes());
            put(bytes, 24, &u64::MAX.to_be_bytes());
        }),
        ("its first table begins at byte 1048576", |bytes| put(bytes, 40, &(1_u64 << 20).to_be_bytes())),
        ("its table of counts begins at byte 7", |bytes| put(bytes, 48, &7_u64.to_be_bytes())),
        ("a second table begins at byte 655360", |bytes| {
            put(bytes, 3 << 16, &((1_u64 << 63) | 10 << 16).to_be_bytes())
        }),
        ("a cluster begins at byte 1310720", |bytes| {
            put(bytes, 3 << 16, &((1_u64 << 63) | 4 << 16).to_be_bytes());
            bytes.extend(vec![0; 1 << 16]);
            put(bytes, 4 << 16, &((1_u64 << 63) | 20 << 16).to_be_bytes());
        }),
        ("which is not a number of sectors", |bytes| put(bytes, 24, &1000_u64.to_be_bytes())),
        ("its header has 9 bytes", |bytes| put(bytes, 100, &9_u32.to_be_bytes())),
    ];
    for (wanted, change) in all {
        let (_folder, path) = changed(change);
        let said = refused(&path);
        assert!(said.contains(wanted), "{wanted}: {said}");
    }
    let (_folder, path) = changed(|bytes| {
        put(bytes, 24, &(Bytes::from_gib(5000).get()).to_be_bytes());
        put(bytes, 36, &10_000_u32.to_be_bytes());
        bytes.extend(vec![0; 1 << 16]);
    });
    assert!(refused(&path).contains("a guest's disk may have 4 TiB at most"), "{}", refused(&path));
}

#[test]
fn a_disk_is_backed_by_files_of_its_folder_only() {
    for format in ["raw", "qcow2", ""] {
        let (folder, path) = changed(|bytes| back(bytes, "base.raw", format));
        assert!(refused(&path).contains("is backed by"), "{}", refused(&path));
        raw(folder.path(), "base.raw");
        match format {
            "qcow2" => assert!(refused(&path).contains("does not begin as a qcow2")),
            // An empty format is none, and what the file begins with counts.
            _ => assert_eq!(look_at(&path).unwrap().levels[1].format, DiskFormat::Raw),
        }
    }
    for name in ["/etc/passwd", "../base", "sub/base", "json:{}", "nbd://a", "..", "/"] {
        let (_folder, path) = changed(|bytes| back(bytes, name, "raw"));
        assert!(refused(&path).contains("which is not in its folder"), "{name}: {}", refused(&path));
    }
    let (folder, path) = changed(|bytes| back(bytes, "./link", "raw"));
    symlink("/etc/passwd", folder.path().join("link")).unwrap();
    assert!(refused(&path).contains("which is not in its folder"));
    let (_folder, path) = changed(|bytes| back(bytes, "d.qcow2", "qcow2"));
    assert!(refused(&path).contains("more than 8 levels deep"));
    let (_folder, path) = changed(|bytes| back(bytes, "a", "vmdk"));
    assert!(refused(&path).contains("a backing file in the format \"vmdk\""));
}

#[test]
fn a_disk_that_others_could_exchange_before_qemu_opens_it_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let here = fs::canonicalize(folder.path()).unwrap();
    raw(&here, "base.raw");
    let path = here.join("d.qcow2");
    write_overlay(&path, Bytes::new(4096)).unwrap();
    let mut bytes = fs::read(&path).unwrap();
    back(&mut bytes, "base.raw", "raw");
    fs::write(&path, bytes).unwrap();
    let disk = look_at(&path).unwrap();
    assert_eq!(disk.levels.len(), 2);
    let own = [rustix::process::geteuid().as_raw()];
    let set =
        |name: &str, mode: u32| fs::set_permissions(here.join(name), Permissions::from_mode(mode)).unwrap();
    refuse_writable(&disk, &own).unwrap();
    for (name, mode, closed) in [("d.qcow2", 0o646, 0o644), ("base.raw", 0o666, 0o644), ("", 0o777, 0o700)] {
        set(name, mode);
        let error = refuse_writable(&disk, &own).unwrap_err();
        let why = format!("may be written by other users (mode {mode:o})");
        assert!(error.to_string().contains(&why) && error.remedy().contains("chmod go-w"), "{name}: {error}");
        set(name, closed);
    }
    set("", 0o1777);
    refuse_writable(&disk, &own).unwrap();
    if !rustix::process::geteuid().is_root() {
        return tilemark_fixtures::skipped("giving a disk away needs root");
    }
    const OTHER: u32 = 65534;
    for name in ["base.raw", ""] {
        chown(here.join(name), Some(OTHER), Some(OTHER)).unwrap();
        let error = refuse_writable(&disk, &own).unwrap_err().to_string();
        assert!(error.contains("belongs to user 65534"), "{name}: {error}");
        refuse_writable(&disk, &[OTHER]).unwrap();
        chown(here.join(name), Some(0), Some(0)).unwrap();
    }
    // A group of its own is the user's; another one is not.
    for (group, is_refused) in [(0, false), (OTHER, true)] {
        chown(&path, Some(0), Some(group)).unwrap();
        set("d.qcow2", 0o664);
        assert_eq!(refuse_writable(&disk, &own).is_err(), is_refused, "{group}");
    }
}

#[test]
fn a_file_that_is_not_a_disk_is_named_with_what_it_is() {
    let folder = tempfile::tempdir().unwrap();
    assert!(refused(folder.path()).ends_with("is a folder"));
    assert!(refused("/dev/null".as_ref()).ends_with("is not a file"));
    let path = folder.path().join("f");
    assert!(refused(&path).starts_with("cannot read the disk"));
    rustix::fs::mkfifoat(rustix::fs::CWD, &path, rustix::fs::Mode::RUSR).unwrap();
    assert!(refused(&path).ends_with("is not a file"));
    fs::remove_file(&path).unwrap();
    for (bytes, wanted) in [
        (&b"\xfd7zXZ\0 and so on"[..], "is packed (xz)"),
        (b"\x1f\x8b and so on", "is packed (gzip)"),
        (b"KDMV and so on", "in the format VMDK"),
        (b"vhdxfile and so on", "in the format VHDX"),
    ] {
        fs::write(&path, bytes).unwrap();
        assert!(refused(&path).contains(wanted), "{wanted}");
    }
    fs::write(&path, [&[0; 32_769][..], b"CD001", &[0; 512]].concat()).unwrap();
    let error = look_at(&path).unwrap_err();
    assert!(
        error.to_string().contains("is an installer's CD") && error.remedy().starts_with("install"),
        "{error}"
    );
}
