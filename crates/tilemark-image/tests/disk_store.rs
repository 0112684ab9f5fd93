//! The disk store for real: needs root, loop devices and XFS. It runs in a mount namespace of its own, so that
//! nothing it mounts is seen outside.

#![allow(clippy::unwrap_used, reason = "a test file: helpers may unwrap as tests do")]

use std::fs::{self, File, OpenOptions};
use std::os::fd::AsFd;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::process::Command;

use tilemark_image::ImageError;
use tilemark_image::disk_store::{DiskStore, LoopAccess, LoopCaching, LoopDevice, LoopOptions, attach_loop};

const MIB: u64 = 1 << 20;
const CAPACITY: u64 = 1024 * MIB;
/// Names the test to run in the process that has its own mount namespace.
const INSIDE: &str = "TILEMARK_TEST_INSIDE";

/// Runs `test` in a process of its own, in a private mount namespace, with a folder that goes afterwards.
fn inside(name: &str, test: impl FnOnce(&Path)) {
    if std::env::var_os(INSIDE).is_some() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        return test(folder.path());
    }
    if !rustix::process::geteuid().is_root() {
        assert!(std::env::var_os("TILEMARK_CI").is_none(), "CI runs as root");
        return println!("skipped: mounting a disk store needs root");
    }
    let program = std::env::current_exe().expect("this program has a path");
    let status = Command::new("unshare")
        .args(["--mount", "--propagation", "private", "--"])
        .arg(program)
        .args([name, "--exact", "--nocapture"])
        .env(INSIDE, "1")
        .status()
        .expect("util-linux is installed");
    assert!(status.success(), "{name} failed inside");
}

/// Makes an empty disk in a store that is mounted there.
fn make_disk(mount_point: &Path, name: &str, bytes: u64) -> PathBuf {
    let path = mount_point.join(name);
    File::create_new(&path).and_then(|file| file.set_len(bytes)).expect("the store takes a disk");
    path
}

fn blocks_used(path: &Path) -> u64 {
    let room = rustix::fs::statvfs(path).expect("it is mounted");
    room.f_blocks - room.f_bfree
}

#[test]
fn a_clone_shares_its_blocks_until_it_is_written_and_then_differs() {
    inside("a_clone_shares_its_blocks_until_it_is_written_and_then_differs", |folder| {
        let mount_point = folder.join("disks");
        let store = DiskStore::open(&folder.join("store"), &mount_point, CAPACITY).unwrap();
        let golden = make_disk(&mount_point, "golden", 256 * MIB);
        let file = OpenOptions::new().write(true).open(&golden).unwrap();
        file.write_all_at(&vec![7; 64 << 20], 0).unwrap();
        file.sync_all().unwrap();
        let before = blocks_used(&mount_point);
        let clones: Vec<_> =
            (0..8).map(|number| store.clone_disk("golden", &format!("clone-{number}")).unwrap()).collect();
        // Eight clones of 64 MiB, and not even one more is used.
        let block = rustix::fs::statvfs(&mount_point).unwrap().f_frsize;
        assert!((blocks_used(&mount_point) - before) * block < 8 * MIB);
        OpenOptions::new().write(true).open(&clones[0]).unwrap().write_all_at(b"changed", 0).unwrap();
        let start = |path: &Path| {
            let mut bytes = [0; 7];
            File::open(path).unwrap().read_exact_at(&mut bytes, 0).unwrap();
            bytes
        };
        assert_eq!(&start(&clones[0]), b"changed");
        assert_eq!([start(&golden), start(&clones[1])], [[7; 7]; 2]);
        assert_eq!(fs::metadata(&clones[1]).unwrap().len(), 256 * MIB);
    });
}

#[test]
fn disks_stay_from_one_mount_to_the_next_and_two_mounts_at_once_are_refused() {
    inside("disks_stay_from_one_mount_to_the_next_and_two_mounts_at_once_are_refused", |folder| {
        let file = folder.join("store");
        let open = |place: &str| DiskStore::open(&file, &folder.join(place), CAPACITY);
        let store = open("one").unwrap();
        make_disk(&folder.join("one"), "data", MIB);
        assert!(matches!(open("two"), Err(ImageError::StoreBusy { .. })));
        store.clone_disk("data", "other").unwrap();
        let again = store.clone_disk("data", "other");
        assert!(matches!(again, Err(ImageError::Io { .. })), "it is there already: {again:?}");
        store.remove_disk("other").unwrap();
        drop(store);
        let store = open("two").unwrap();
        assert_eq!(store.disks().unwrap(), ["data"]);
        store.remove_disk("data").unwrap();
        store.remove_disk("data").unwrap();
        assert!(store.disks().unwrap().is_empty());
        drop(store);
        drop(open("three").unwrap());
        // The store's file is sparse: a gigabyte of room, little of it taken.
        assert!(fs::metadata(&file).unwrap().blocks() * 512 < 128 * MIB);
    });
}

#[test]
fn a_copy_of_a_store_is_mounted_beside_it() {
    inside("a_copy_of_a_store_is_mounted_beside_it", |folder| {
        let (file, copy) = (folder.join("store"), folder.join("copy"));
        drop(DiskStore::open(&file, &folder.join("one"), CAPACITY).unwrap());
        fs::copy(&file, &copy).unwrap();
        let _store = DiskStore::open(&file, &folder.join("one"), CAPACITY).unwrap();
        let other = DiskStore::open(&copy, &folder.join("two"), CAPACITY).unwrap();
        assert!(other.disks().unwrap().is_empty());
    });
}

#[test]
fn a_loop_device_has_the_sectors_asked_for_passes_the_page_cache_and_goes_with_its_holder() {
    inside(
        "a_loop_device_has_the_sectors_asked_for_passes_the_page_cache_and_goes_with_its_holder",
        |folder| {
            let mount_point = folder.join("disks");
            let store = DiskStore::open(&folder.join("store"), &mount_point, CAPACITY).unwrap();
            let plain = make_disk(&mount_point, "plain", 16 * MIB);
            make_disk(&mount_point, "golden", 16 * MIB);
            let clone = store.clone_disk("golden", "clone").unwrap();
            for (disk, sector_bytes) in [(&plain, 512), (&clone, 4096)] {
                let device =
                    attach_loop(disk, LoopOptions { sector_bytes, ..LoopOptions::default() }).unwrap();
                assert_eq!(device.caching(), LoopCaching::Direct, "{}", disk.display());
                write_through(device, disk, sector_bytes);
            }
        },
    );
}

#[test]
fn a_loop_device_with_small_sectors_on_a_clone_works_and_says_how_it_is_cached() {
    inside("a_loop_device_with_small_sectors_on_a_clone_works_and_says_how_it_is_cached", |folder| {
        let mount_point = folder.join("disks");
        let store = DiskStore::open(&folder.join("store"), &mount_point, CAPACITY).unwrap();
        make_disk(&mount_point, "golden", 16 * MIB);
        let clone = store.clone_disk("golden", "clone").unwrap();
        // Some kernels (6.18 is one) write whole blocks only past the page cache of a file that shares some.
        let device = attach_loop(&clone, LoopOptions::default()).unwrap();
        println!("512-byte sectors on a clone: {:?}", device.caching());
        write_through(device, &clone, 512);
    });
}

/// Writes one sector by the device, reads it from the file below, and sees the device go.
fn write_through(device: LoopDevice, disk: &Path, sector_bytes: u32) {
    let block = Path::new("/sys/block").join(device.path().file_name().unwrap());
    let setting = |name: &str| fs::read_to_string(block.join(name)).unwrap().trim().to_owned();
    assert_eq!(setting("queue/logical_block_size"), sector_bytes.to_string());
    assert_eq!(setting("loop/autoclear"), "1");
    assert_eq!(setting("loop/dio") == "1", device.caching() == LoopCaching::Direct);
    let sector = vec![3; sector_bytes as usize];
    File::options().write(true).open(device.path()).unwrap().write_all_at(&sector, 0).unwrap();
    rustix::fs::fsync(device.as_fd()).unwrap();
    drop(device);
    // Somebody else may have bound the number again, but not to this file.
    let bound = fs::read_to_string(block.join("loop/backing_file")).unwrap_or_default();
    assert!(!bound.trim().ends_with(disk.to_str().unwrap()), "still bound to {bound}");
    let mut bytes = vec![0; sector_bytes as usize];
    File::open(disk).unwrap().read_exact_at(&mut bytes, 0).unwrap();
    assert_eq!(bytes, sector);
}

#[test]
fn a_read_only_loop_device_takes_no_writes() {
    inside("a_read_only_loop_device_takes_no_writes", |folder| {
        let path = folder.join("image");
        fs::write(&path, vec![1; 1 << 20]).unwrap();
        let options = LoopOptions {
            access: LoopAccess::ReadOnly,
            caching: LoopCaching::Cached,
            ..LoopOptions::default()
        };
        let device = attach_loop(&path, options).unwrap();
        assert!(
            File::options().write(true).open(device.path()).and_then(|file| file.write_at(&[2], 0)).is_err()
        );
        let mut bytes = [0; 4];
        File::open(device.path()).unwrap().read_exact_at(&mut bytes, 0).unwrap();
        assert_eq!(bytes, [1; 4]);
    });
}
