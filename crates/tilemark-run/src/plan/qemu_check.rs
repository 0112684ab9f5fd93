//! Whether the QEMU of this host has the machine types, processor models and firmware of a plan, whether the host has what the guests' devices need, and whether sides that differ in QEMU's keys differ in
//! what they become.

use crate::failure::{Failure, FailureCode};
use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};
use tilemark_guests::{
    Accelerator, FIRMWARE_OF_MICROVM, QemuLists, USUAL_FIRMWARE, USUAL_MACHINE, find_firmware, find_qemu,
};
use tilemark_plan::{
    plan::{Backend, Plan},
    scenario::QemuWishes,
};
use tilemark_record::sha256_of;

/// Asks each QEMU of a plan, within some hundredths of a second.
///
/// # Errors
/// When a machine type or processor model is not there, with the nearest names; or when both sides become the same.
pub(crate) fn check(plan: &Plan) -> Result<(), Failure> {
    let mut known = BTreeMap::new();
    for (backend, wishes) in plan.qemus() {
        check_one(backend, wishes, &mut known)?;
    }
    has_vhost(plan, Path::new(VHOST_NET))?;
    let Some((a, b)) = plan.sides_of_qemu().filter(|(a, _)| a.backend != Backend::Native) else {
        return Ok(());
    };
    let one = meant(a.backend, &a.qemu, &mut known)?;
    if one != meant(b.backend, &b.qemu, &mut known)? {
        return Ok(());
    }
    Err(Failure::new(
        FailureCode::BadInput,
        format!(
            "both sides have the same QEMU: {} as {} with the processor {}",
            one.binary.display(),
            one.machine,
            one.cpu
        ),
        "give one side another value than QEMU has by itself",
    ))
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

fn lists(known: &mut Known, wishes: &QemuWishes) -> Result<(PathBuf, QemuLists), Failure> {
    let binary = find_qemu(wishes.binary.as_deref().map(Path::new))?;
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

fn check_one(backend: Backend, wishes: &QemuWishes, known: &mut Known) -> Result<(), Failure> {
    let QemuWishes { machine, cpu, firmware, .. } = wishes;
    if let Some(firmware) = firmware {
        find_firmware(&find_qemu(wishes.binary.as_deref().map(Path::new))?, firmware)?;
    }
    // Nothing that its program could lack.
    if machine.is_none() && cpu.is_none() {
        return Ok(());
    }
    let (binary, lists) = lists(known, wishes)?;
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
    if let Some(cpu) = cpu.as_deref().filter(|cpu| !lists.has_cpu(cpu, accelerator_of(backend))) {
        return Err(lacks("qemu.cpu", cpu, "processor model", lists.cpus_like(cpu)));
    }
    Ok(())
}

/// What a QEMU becomes, whatever of it is written out.
#[derive(PartialEq)]
struct Meant {
    binary: PathBuf,
    /// Its own name instead of an alias, then its options.
    machine: String,
    cpu: String,
    /// Hash of its firmware; nothing where the usual one is not where QEMU looks for it.
    firmware: Option<String>,
    rest: QemuWishes,
}

fn meant(backend: Backend, wishes: &QemuWishes, known: &mut Known) -> Result<Meant, Failure> {
    let (binary, lists) = lists(known, wishes)?;
    let machine = wishes.machine.as_deref().unwrap_or(USUAL_MACHINE);
    let options = machine.split_once(',').map_or(String::new(), |(_, options)| format!(",{options}"));
    let machine = format!("{}{options}", lists.machine(machine).unwrap_or(machine));
    let usual = accelerator_of(backend).usual_cpu();
    let cpu = wishes.cpu.clone().unwrap_or_else(|| usual.to_owned());
    let firmware = firmware_of(&binary, &machine, wishes);
    let rest = QemuWishes { binary: None, machine: None, cpu: None, firmware: None, ..wishes.clone() };
    Ok(Meant { binary, machine, cpu, firmware, rest })
}

fn firmware_of(binary: &Path, machine: &str, wishes: &QemuWishes) -> Option<String> {
    let usual = if machine.starts_with("microvm") { FIRMWARE_OF_MICROVM } else { USUAL_FIRMWARE };
    let path = find_firmware(binary, wishes.firmware.as_deref().unwrap_or(usual)).ok()?;
    sha256_of(&path).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fakes::{TILE, ladder, plan_of};
    use tilemark_plan::resolve::Request;

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
