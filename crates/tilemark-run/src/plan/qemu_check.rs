//! Whether the QEMU of this host has the machine types, processor models and firmware of a plan, whether the host has what the guests' devices need, and whether sides that differ in QEMU's keys differ in
//! what they become.

use crate::{
    failure::{Failure, FailureCode},
    program::is_root,
};
use rustix::fs::{Access, access};
use std::{
    collections::{BTreeMap, BTreeSet},
    fs::File,
    io::Read,
    path::{Path, PathBuf},
};
use tilemark_guests::{
    Accelerator, QemuLists, QemuVersion, USUAL_FIRMWARE, USUAL_MACHINE, find_firmware, find_qemu,
    loads_kernels,
};
use tilemark_image::foreign::Elf;
use tilemark_plan::{
    plan::{Backend, Plan, Point},
    scenario::QemuTable,
};
use tilemark_record::sha256_of;

/// Asks each QEMU of a plan, within some hundredths of a second.
///
/// # Errors
/// When a program is not a QEMU, or too old; when a machine type or processor model is not there, with the nearest names; or when both sides become the same.
pub(crate) fn check(plan: &Plan) -> Result<(), Failure> {
    versions_serve(plan)?;
    let mut known = BTreeMap::new();
    for (backend, table) in plan.qemus() {
        let mut points = plan.points.iter().filter(|point| point.backend == backend && point.qemu == *table);
        let start = if points.any(has_image_guests) { StartsFrom::Kernel } else { StartsFrom::Disk };
        check_one(backend, table, start, &mut known)?;
    }
    has_vhost(plan, Path::new(VHOST_NET))?;
    let Some((a, b)) = plan.sides_of_qemu().filter(|(a, _)| a.backend != Backend::Native) else {
        return Ok(());
    };
    let one = meant(a, &mut known)?;
    if one != meant(b, &mut known)? {
        return Ok(());
    }
    let cpus: Vec<String> = one.cpus.into_iter().collect();
    Err(Failure::new(
        FailureCode::BadInput,
        format!(
            "both sides have the same QEMU: {} as {} with the processor {}",
            one.binary.display(),
            one.machine,
            cpus.join(" and ")
        ),
        "give one side another value than QEMU has by itself",
    ))
}

fn versions_serve(plan: &Plan) -> Result<(), Failure> {
    let named = plan.qemus().into_iter().map(|(_, table)| table.binary.as_deref().map(Path::new));
    for named in named.collect::<BTreeSet<_>>() {
        let binary = find_qemu(named)?;
        // Whoever may not start it may still ask what root would do.
        if is_root() || access(&binary, Access::EXEC_OK).is_ok() {
            QemuVersion::of(&binary)?;
        }
    }
    Ok(())
}

/// What the guests of a QEMU are started from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum StartsFrom {
    /// One of them at least from the kernel of an image.
    Kernel,
    /// Each from a disk of its own.
    Disk,
}

fn has_image_guests(point: &Point) -> bool {
    point.guests.iter().any(|guest| guest.from.is_none())
}

/// The device by which QEMU has the kernel move frames.
const VHOST_NET: &str = "/dev/vhost-net";

fn has_vhost(plan: &Plan, device: &Path) -> Result<(), Failure> {
    let in_qemu = plan.points.iter().filter(|point| point.backend != Backend::Native);
    let mut guests = in_qemu.flat_map(|point| &point.guests);
    match guests.find(|guest| guest.net.vhost).filter(|_| !device.exists()) {
        None => Ok(()),
        Some(guest) => Err(Failure::new(
            FailureCode::HostUnfit,
            format!(
                "guest `{}`: `net.vhost` needs {}, which this host lacks",
                guest.name_in_tile(),
                device.display()
            ),
            "load the kernel's module (`modprobe vhost_net`), or leave out `net.vhost`",
        )),
    }
}

type Known = BTreeMap<PathBuf, QemuLists>;

fn lists(known: &mut Known, table: &QemuTable) -> Result<(PathBuf, QemuLists), Failure> {
    let binary = find_qemu(table.binary.as_deref().map(Path::new))?;
    if let Some(found) = known.get(&binary) {
        return Ok((binary, found.clone()));
    }
    let found = QemuLists::of(&binary)?;
    known.insert(binary.clone(), found.clone());
    Ok((binary, found))
}

const fn accelerator_of(backend: Backend) -> Accelerator {
    match backend {
        Backend::Kvm => Accelerator::Kvm,
        Backend::Emulated | Backend::Native => Accelerator::Emulated,
    }
}

fn check_one(
    backend: Backend,
    table: &QemuTable,
    start: StartsFrom,
    known: &mut Known,
) -> Result<(), Failure> {
    let QemuTable { machine, cpu, firmware, .. } = table;
    if let Some(firmware) = firmware {
        let found = find_firmware(&find_qemu(table.binary.as_deref().map(Path::new))?, firmware)?;
        if start == StartsFrom::Kernel {
            loads_kernels(&found, firmware)?;
        }
    }
    // Nothing that its program could lack.
    if machine.is_none() && cpu.is_none() {
        return Ok(());
    }
    let (binary, lists) = lists(known, table)?;
    let lacks = |key: &str, value: &str, what: &str, nearest: Vec<&str>| {
        Failure::new(
            FailureCode::BadInput,
            format!(
                "`{key} = {value:?}`: {} has no such {what} for {} guests",
                binary.display(),
                backend.name()
            ),
            format!("the nearest names are {}", nearest.join(", ")),
        )
    };
    if let Some(machine) = machine.as_deref().filter(|machine| lists.machine(machine).is_none()) {
        return Err(lacks("qemu.machine", machine, "machine type", lists.machines_like(machine)));
    }
    if let Some(machine) = machine.as_deref() {
        starts_guests(machine, lists.machine(machine).unwrap_or(machine))?;
    }
    if let Some(cpu) = cpu.as_deref().filter(|cpu| !lists.has_cpu(cpu, accelerator_of(backend))) {
        return Err(lacks("qemu.cpu", cpu, "processor model", lists.cpus_like(cpu)));
    }
    Ok(())
}

/// Machine types on which no guest starts: without PCI, on which guests have their disks and networks, or for other hypervisors.
const WITHOUT_GUESTS: [(&str, &str); 6] = [
    ("microvm", "guests need PCI and the timers of a PC"),
    ("isapc", "guests need PCI for their disks and networks"),
    ("none", "it has no processor and no devices"),
    ("x-remote", "it is a part of another machine"),
    ("xenpv", "it is for Xen only"),
    ("xenfv", "it is for Xen only"),
];

/// Refuses a machine type on which no guest starts; `name` is the one behind an alias.
fn starts_guests(machine: &str, name: &str) -> Result<(), Failure> {
    let found = WITHOUT_GUESTS.into_iter().find(|(kind, _)| {
        // Versions of one follow its name: `xenfv-4.2`.
        name == *kind || name.strip_prefix(kind).is_some_and(|rest| rest.starts_with('-'))
    });
    match found {
        None => Ok(()),
        Some((_, why)) => Err(Failure::new(
            FailureCode::BadInput,
            format!("`qemu.machine = {machine:?}`: no guest starts on it: {why}"),
            "use `pc`, `q35`, or a version of one of them",
        )),
    }
}

/// Looks whether QEMU can enter a kernel of the user's own.
///
/// # Errors
/// When it is not there, or is no kernel that a guest can be started from.
pub(crate) fn check_kernel(kernel: &str) -> Result<(), Failure> {
    let refused = |message: String, remedy: &str| Err(Failure::new(FailureCode::BadInput, message, remedy));
    if !Path::new(kernel).is_file() {
        let message = format!("there is no kernel {kernel} (`qemu.kernel`)");
        return refused(message, "check the path, or leave out `qemu.kernel` to boot the image's own kernel");
    }
    let mut beginning = Vec::new();
    let read = File::open(kernel).and_then(|file| file.take(KERNEL_LOOKED_AT).read_to_end(&mut beginning));
    if let Err(error) = read {
        // Whoever may not read it may still ask what root would do.
        if error.kind() == std::io::ErrorKind::PermissionDenied && !is_root() {
            return Ok(());
        }
        let message = format!("cannot read the kernel {kernel} (`qemu.kernel`)");
        return Err(Failure::caused_by(
            &error,
            FailureCode::BadInput,
            message,
            "check the path and who may read it",
        ));
    }
    if is_packed_kernel(&beginning) {
        return Ok(());
    }
    let remedy = "name a 64-bit ELF `vmlinux` that was built with CONFIG_PVH";
    match Elf::new(&beginning) {
        None => {
            refused(format!("{kernel} (`qemu.kernel`) is not a kernel: it is not a 64-bit ELF file"), remedy)
        }
        Some(elf) if !elf.has_note("Xen", PVH_ENTRY_NOTE) => refused(
            format!("{kernel} (`qemu.kernel`) cannot be entered by PVH, and no guest starts from it"),
            remedy,
        ),
        Some(_) => Ok(()),
    }
}

/// Where QEMU enters is written before this in a kernel's file, whatever follows for debuggers.
const KERNEL_LOOKED_AT: u64 = 256 << 20;
/// `XEN_ELFNOTE_PHYS32_ENTRY`: where PVH enters (xen/include/public/elfnote.h).
const PVH_ENTRY_NOTE: u32 = 18;

/// Whether it is a packed kernel, as distributions have it in /boot (Documentation/arch/x86/boot.rst): QEMU has a loader for those too.
fn is_packed_kernel(bytes: &[u8]) -> bool {
    bytes.get(0x202..0x206) == Some(b"HdrS")
}

/// What a QEMU becomes, whatever of it is written out.
#[derive(PartialEq)]
struct Meant {
    binary: PathBuf,
    /// Its own name instead of an alias, then its options.
    machine: String,
    /// The processor models: guests with a disk of their own have another one by themselves.
    cpus: BTreeSet<String>,
    /// Hash of its firmware; nothing where the usual one is not where QEMU looks for it.
    firmware: Option<String>,
    rest: QemuTable,
}

fn meant(point: &Point, known: &mut Known) -> Result<Meant, Failure> {
    let table = &point.qemu;
    let (binary, lists) = lists(known, table)?;
    let machine = table.machine.as_deref().unwrap_or(USUAL_MACHINE);
    let options = machine.split_once(',').map_or(String::new(), |(_, options)| format!(",{options}"));
    let machine = format!("{}{options}", lists.machine(machine).unwrap_or(machine));
    let cpus = match &table.cpu {
        Some(cpu) => BTreeSet::from([cpu.clone()]),
        None => usual_cpus(point),
    };
    let firmware = firmware_of(&binary, table);
    let rest = QemuTable { binary: None, machine: None, cpu: None, firmware: None, ..table.clone() };
    Ok(Meant { binary, machine, cpus, firmware, rest })
}

fn usual_cpus(point: &Point) -> BTreeSet<String> {
    let accelerator = accelerator_of(point.backend);
    let usual = |has_own_disk: bool| {
        if has_own_disk { accelerator.usual_cpu_of_own_disk() } else { accelerator.usual_cpu() }
    };
    point.guests.iter().map(|guest| usual(guest.from.is_some()).to_owned()).collect()
}

fn firmware_of(binary: &Path, table: &QemuTable) -> Option<String> {
    let path = find_firmware(binary, table.firmware.as_deref().unwrap_or(USUAL_FIRMWARE)).ok()?;
    sha256_of(&path).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fakes::{TILE, ladder, plan_of};
    use tilemark_plan::{own_disk::OwnDisk, resolve::Request};

    #[test]
    fn a_processor_that_is_usual_for_a_disk_of_its_own_is_not_the_one_of_an_image() {
        let request = Request { backends: vec![Backend::Emulated], ..ladder() };
        let mut point = plan_of(TILE, &request).points[0].clone();
        assert_eq!(usual_cpus(&point), BTreeSet::from(["qemu64,+rdrand".to_owned()]));
        assert!(has_image_guests(&point));
        for guest in &mut point.guests {
            let path = "/d/debian.qcow2".to_owned();
            guest.from = Some(OwnDisk { path, boots_within: tilemark_units::Span::from_seconds(60) });
        }
        assert_eq!(usual_cpus(&point), BTreeSet::from(["max,la57=off".to_owned()]));
        assert!(!has_image_guests(&point));
    }

    #[test]
    fn a_machine_on_which_no_guest_starts_is_refused_by_name_and_its_versions_too() {
        for (machine, name) in [
            ("microvm", "microvm"),
            ("microvm,pcie=on", "microvm"),
            ("isapc", "isapc"),
            ("none", "none"),
            ("xenfv", "xenfv-4.2"),
        ] {
            let refused = starts_guests(machine, name).unwrap_err();
            assert_eq!(refused.code, FailureCode::BadInput);
            assert!(
                refused.message.starts_with(&format!("`qemu.machine = {machine:?}`: no guest")),
                "{refused:?}"
            );
        }
        for name in ["pc-i440fx-7.2", "pc-q35-7.2", "q35"] {
            starts_guests(name, name).unwrap();
        }
    }

    /// The beginning of an ELF file with one note of this kind.
    fn elf(note: u32) -> Vec<u8> {
        let mut elf = vec![0; 120];
        elf[..7].copy_from_slice(b"\x7fELF\x02\x01\x01");
        elf[32..40].copy_from_slice(&64_u64.to_le_bytes());
        elf[54..58].copy_from_slice(&[56, 0, 1, 0]);
        elf[64] = 4;
        elf[72..80].copy_from_slice(&120_u64.to_le_bytes());
        elf[96..104].copy_from_slice(&20_u64.to_le_bytes());
        for field in [4, 4, note] {
            elf.extend_from_slice(&field.to_le_bytes());
        }
        elf.extend_from_slice(b"Xen\0\x01\x02\x03\0");
        elf
    }

    #[test]
    fn a_kernel_that_no_guest_can_be_started_from_is_refused_with_the_reason() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("vmlinux");
        let path = path.to_str().unwrap();
        assert!(check_kernel(path).unwrap_err().message.starts_with("there is no kernel"));
        let packed = [&[0; 0x202][..], b"HdrS"].concat();
        for (content, wanted) in [
            (elf(PVH_ENTRY_NOTE), None),
            (packed, None),
            (elf(17), Some("cannot be entered by PVH")),
            (b"root:x:0:0:root:/root:/bin/bash\n".to_vec(), Some("is not a kernel")),
        ] {
            std::fs::write(path, content).unwrap();
            match wanted {
                None => check_kernel(path).unwrap(),
                Some(wanted) => {
                    let refused = check_kernel(path).unwrap_err();
                    assert!(
                        refused.message.contains(wanted) && refused.message.contains(path),
                        "{refused:?}"
                    );
                }
            }
        }
    }

    #[test]
    fn vhost_needs_its_device_and_a_twin_does_not() {
        let tile =
            TILE.replace("role = \"web\"\n[[guest]]", "role = \"web\"\n[guest.net]\nvhost = true\n[[guest]]");
        assert_ne!(tile, TILE);
        let on = |backend| plan_of(&tile, &Request { backends: vec![backend], ..ladder() });
        let absent = Path::new("/nowhere/vhost-net");
        let refused = has_vhost(&on(Backend::Emulated), absent).unwrap_err();
        assert_eq!(refused.code, FailureCode::HostUnfit);
        assert_eq!(
            refused.message,
            "guest `web`: `net.vhost` needs /nowhere/vhost-net, which this host lacks"
        );
        has_vhost(&on(Backend::Emulated), Path::new("/dev/null")).unwrap();
        has_vhost(&on(Backend::Native), absent).unwrap();
        has_vhost(&plan_of(TILE, &Request { backends: vec![Backend::Emulated], ..ladder() }), absent)
            .unwrap();
    }
}
