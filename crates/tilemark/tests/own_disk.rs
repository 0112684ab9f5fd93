//! Guests that boot from a disk of the user's own: root, QEMU, mmdebstrap and a mirror are needed for the whole run.

#![allow(missing_docs, clippy::unwrap_used)]

mod common;

use common::{Home, Said, is_root, skipped};
use std::{
    fs,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    process::Command,
    time::Instant,
};
use tilemark_record::{RunDirectory, result::RunResult, sha256_of};

/// A disk as cloud images are, which this firmware boots: `bios` or `uefi`. It is made once and kept with what was built; nothing where that
/// can't be.
fn cloud_disk(name: &str, firmware: &str) -> Option<PathBuf> {
    if !is_root() {
        skipped("guests need root");
        return None;
    }
    let disk = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    if !disk.exists() {
        for part in ["part", "root"] {
            let left = disk.with_extension(format!("raw.{part}"));
            let _ = fs::remove_file(&left).or_else(|_| fs::remove_dir(&left));
        }
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/own_disk.sh");
        let made =
            Command::new("unshare").args(["-m", "sh"]).arg(script).arg(&disk).arg(firmware).output().unwrap();
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    }
    Some(disk)
}

fn put(bytes: &mut [u8], at: usize, value: &[u8]) {
    bytes[at..at + value.len()].copy_from_slice(value);
}

/// An empty qcow2 of 2 GiB with clusters of 64 KiB; where it is backed, by a file of this name, which is raw.
fn qcow2(backing: Option<&str>) -> Vec<u8> {
    let mut bytes = vec![0; 4 << 16];
    put(&mut bytes, 0, b"QFI\xfb\0\0\0\x03");
    put(&mut bytes, 20, &16_u32.to_be_bytes());
    put(&mut bytes, 24, &(2_u64 << 30).to_be_bytes());
    put(&mut bytes, 36, &4_u32.to_be_bytes());
    put(&mut bytes, 40, &(3_u64 << 16).to_be_bytes());
    put(&mut bytes, 48, &(1_u64 << 16).to_be_bytes());
    put(&mut bytes, 56, &1_u32.to_be_bytes());
    put(&mut bytes, 96, &4_u32.to_be_bytes());
    put(&mut bytes, 100, &104_u32.to_be_bytes());
    put(&mut bytes, 1 << 16, &(2_u64 << 16).to_be_bytes());
    put(&mut bytes, 2 << 16, &1_u16.to_be_bytes().repeat(4));
    if let Some(name) = backing {
        put(&mut bytes, 104, b"\xe2\x79\x2a\xca\0\0\0\x03raw");
        put(&mut bytes, 8, &200_u64.to_be_bytes());
        put(&mut bytes, 16, &u32::try_from(name.len()).unwrap().to_be_bytes());
        put(&mut bytes, 200, name.as_bytes());
    }
    bytes
}

/// A scenario with one guest that boots this disk, and these lines after it.
fn scenario(home: &Home, from: &str, rest: &str) -> String {
    let text = format!(
        "schema = 1\nname = \"own\"\nabout = \"Own.\"\n{}[[guest]]\nname = \"own\"\nfrom = {from:?}\nmemory = \"512MiB\"\n{rest}\n\
         [ladder]\ntiles = [1]\n[measure]\nwarmup = \"1s\"\nlength = \"4s\"\nrepeats = 1\n",
        if rest.contains("[[load]]") { "headline = \"pages\"\n" } else { "" }
    );
    let path = home.path().join("own.toml");
    fs::write(&path, text).unwrap();
    path.to_str().unwrap().to_owned()
}

fn run(home: &Home, scenario: &str) -> Said {
    home.says(&["run", scenario, "--on", "emulated", "--offline", "--not-alone", "--trust", "--json"])
}

const LOADS: &str = r#"
ready = { port = 8080, within = "400s" }
[[load]]
name = "pages"
guest = "own"
rate = "2/s"
[load.web]
path = "/common-licenses/GPL-3"
contains = "GNU GENERAL PUBLIC LICENSE"
any_length = true
[[load]]
name = "release"
guest = "own"
[load.command]
run = ["/bin/cat", "/etc/debian_version"]
figure = '^([0-9.]+)'
unit = "release"
better = "higher"
"#;

/// Each load of [`LOADS`] had right answers.
fn was_served_and_commanded(home: &Home, result: &RunResult) {
    let folder = home.path().join("runs").join(&result.run);
    let repeat = &RunDirectory::at(&folder).repeats().unwrap()[0];
    let loads = repeat.summary().unwrap().loads;
    let pages = loads.iter().find(|load| load.name == "pages").unwrap();
    assert!(pages.completed > 0 && pages.failed == 0 && pages.wrong == 0, "{pages:?}");
    let release = loads.iter().find(|load| load.name == "release").unwrap();
    assert!(
        release.figure.as_ref().is_some_and(|release| (12.0..13.0).contains(&release.value)),
        "{release:?}"
    );
}

/// UEFI of Debian's package `ovmf`.
const OVMF: &str = "/usr/share/ovmf/OVMF.fd";

/// Its boot sector is that of a GPT, which boots nothing, and its only boot loader is a file of a partition that UEFI reads.
#[test]
#[ignore = "long; cargo xtask soak runs it"]
fn a_disk_that_only_uefi_boots_serves_with_its_firmware() {
    for tool in [OVMF, "/usr/sbin/sfdisk", "/usr/bin/mformat"] {
        if !Path::new(tool).exists() {
            return skipped(&format!("{tool} is absent: apt-get install ovmf fdisk mtools"));
        }
    }
    let Some(disk) = cloud_disk("uefi.raw", "uefi") else { return };
    let home = Home::new();
    symlink(&disk, home.path().join("uefi.raw")).unwrap();
    let bios = run(&home, &scenario(&home, "uefi.raw", "boots_within = \"30s\""));
    assert_eq!(bios.code, Some(4), "a BIOS boots it: {bios:?}");
    assert!(bios.json()["error"].to_string().contains("no agent answered in it"), "{bios:?}");
    let firmware = format!("{LOADS}[qemu]\nfirmware = {OVMF:?}\n");
    let began = Instant::now();
    let said = run(&home, &scenario(&home, "uefi.raw", &firmware));
    let seconds = began.elapsed().as_secs();
    assert!(matches!(said.code, Some(0 | 5)), "{said:?}");
    let result = said.result();
    was_served_and_commanded(&home, &result);
    println!("{}", serde_json::json!({"kernel": result.provenance.disks[0].kernel, "seconds": seconds}));
}

#[test]
fn a_cloud_image_serves_a_load_and_runs_a_command_and_is_not_written_to() {
    let Some(disk) = cloud_disk("cloud.raw", "bios") else { return };
    let home = Home::new();
    // It is backed by the file beside it. The scenario's own name of it is a link.
    let top = disk.with_extension("qcow2");
    fs::write(&top, qcow2(Some("cloud.raw"))).unwrap();
    symlink(&top, home.path().join("top.qcow2")).unwrap();
    let changed = |path: &Path| fs::metadata(path).unwrap().modified().unwrap();
    let before = [changed(&disk), changed(&top)];
    let result = run(&home, &scenario(&home, "top.qcow2", LOADS)).measured().result();
    was_served_and_commanded(&home, &result);
    let disks = &result.provenance.disks;
    assert_eq!(disks.iter().map(|disk| disk.file.as_str()).collect::<Vec<_>>(), ["cloud.qcow2", "cloud.raw"]);
    let kernel = disks[0].kernel.as_deref().unwrap_or_default();
    assert!(kernel.ends_with("-cloud-amd64"), "{disks:?}");
    assert_eq!(disks[1].mark, format!("sha256 {}", sha256_of(&disk).unwrap()), "it was written to");
    assert_eq!([changed(&disk), changed(&top)], before);
    assert_eq!(result.provenance.image, None);
    assert!(!home.path().join("cache/images").exists(), "an image was built that nobody boots");
    let left = fs::read_dir(home.path().join("state")).unwrap().flatten().map(|entry| entry.file_name());
    assert_eq!(left.filter(|name| name != "lock").collect::<Vec<_>>(), Vec::<std::ffi::OsString>::new());
}

/// A disk whose boot sector prints a text on the serial port and stops.
fn that_stops(text: &str) -> Vec<u8> {
    // mov dx, 0x3f8; for each: mov al, BYTE; out dx, al; then: hlt, again.
    let mut code = vec![0xBA, 0xF8, 0x03];
    code.extend(text.bytes().flat_map(|byte| [0xB0, byte, 0xEE]));
    code.extend([0xF4, 0xEB, 0xFD]);
    let mut disk = vec![0; 1 << 20];
    put(&mut disk, 0, &code);
    put(&mut disk, 510, &[0x55, 0xAA]);
    disk
}

#[test]
fn a_disk_in_which_no_agent_answers_is_named_with_what_its_console_shows() {
    if !is_root() {
        return skipped("guests need root");
    }
    let home = Home::new();
    fs::write(home.path().join("d.raw"), that_stops("no cloud-init here\n")).unwrap();
    let said = run(&home, &scenario(&home, "d.raw", "boots_within = \"20s\""));
    said.fails_with(4, "d.raw, and no agent answered in it within 20 s", "cloud-init");
    assert!(said.message().contains("no cloud-init here"), "{said:?}");
}

#[test]
fn a_disk_that_no_guest_can_boot_is_named_by_plan_with_what_to_do() {
    let home = Home::new();
    let file = |name: &str, bytes: &[u8]| fs::write(home.path().join(name), bytes).unwrap();
    file("right.raw", &that_stops(""));
    file("right.qcow2", &qcow2(None));
    let mut encrypted = qcow2(None);
    put(&mut encrypted, 32, &2_u32.to_be_bytes());
    file("encrypted.qcow2", &encrypted);
    file("cut.qcow2", &qcow2(None)[..3 << 16]);
    file("alone.qcow2", &qcow2(Some("missing.raw")));
    file("outside.qcow2", &qcow2(Some("/etc/passwd")));
    file("packed.raw", b"\xfd7zXZ\0and so on");
    file("part.raw", &[0; 4096]);
    file("installer.iso", &[&[0; 32_769][..], b"CD001", &[0; 4096]].concat());
    fs::create_dir(home.path().join("folder")).unwrap();
    let emulated = |from: &str, rest: &str| {
        home.says(&["plan", "run", &scenario(&home, from, rest), "--on", "emulated", "--trust"])
    };
    for right in ["right.raw", "right.qcow2"] {
        let said = emulated(right, "").ended(0);
        assert!(
            said.words().contains("none is needed: every guest boots from a disk of its own"),
            "{said:?}"
        );
        assert!(said.words().contains("which is never written to"), "{said:?}");
    }
    for (from, rest, message, remedy) in [
        ("none.qcow2", "", "cannot read the disk", "correct the path"),
        ("folder", "", "is a folder", "name a qcow2 or raw file"),
        ("/dev/null", "", "is not a file", "name a qcow2 or raw file"),
        ("encrypted.qcow2", "", "is encrypted", "not encrypted"),
        ("cut.qcow2", "", "is damaged: its first table", "compare its checksum"),
        ("alone.qcow2", "", "missing.raw, which cannot be used", "put that file back"),
        ("outside.qcow2", "", "which is not in its folder", "needs no other file"),
        ("packed.raw", "", "is packed (xz)", "unpack it first"),
        ("installer.iso", "", "is an installer's CD", "install a system from it onto a disk first"),
        ("part.raw", "", "has no boot sector", "the whole disk"),
        ("right.raw", "role = \"database\"", "service `database` needs programs", "ready = { port"),
        ("right.raw", "boots_within = \"2h\"", "`boots_within` of guest `own` is 2h", "write 1s to 3600s"),
    ] {
        let said = emulated(from, rest);
        assert_eq!(said.code, Some(2), "{from} {rest}: {said:?}");
        assert!(said.error.contains(message) && said.error.contains(remedy), "{from} {rest}: {said:?}");
    }
    let path = scenario(&home, "right.raw", "");
    for flags in [&["--on", "native"][..], &["--on", "emulated", "--twin"]] {
        home.says(&[&["plan", "run", &path], flags].concat())
            .ended(2)
            .with_error("guest `own` boots from \"right.raw\", and has no native twin");
    }
    let said = home.says(&["run", &path, "--on", "emulated", "--offline", "--not-alone"]);
    assert!(said.error.contains("needs root") || said.error.contains("add `--trust`"), "{said:?}");
}
