//! Whether the QEMU of this host has the machine types and processor models of a plan, and whether sides that differ in QEMU's keys differ in
//! what they become.

use crate::failure::{Failure, FailureCode};
use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};
use tilemark_guests::{Accelerator, QemuLists, USUAL_MACHINE, find_qemu};
use tilemark_plan::{
    plan::{Backend, Plan},
    scenario::QemuWishes,
};

/// Asks each QEMU of a plan, within some hundredths of a second.
///
/// # Errors
/// When a machine type or processor model is not there, with the nearest names; or when both sides become the same.
pub(crate) fn check(plan: &Plan) -> Result<(), Failure> {
    let mut known = BTreeMap::new();
    for (backend, wishes) in plan.qemus() {
        check_one(backend, wishes, &mut known)?;
    }
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
    let QemuWishes { machine, cpu, .. } = wishes;
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
    rest: QemuWishes,
}

fn meant(backend: Backend, wishes: &QemuWishes, known: &mut Known) -> Result<Meant, Failure> {
    let (binary, lists) = lists(known, wishes)?;
    let machine = wishes.machine.as_deref().unwrap_or(USUAL_MACHINE);
    let options = machine.split_once(',').map_or(String::new(), |(_, options)| format!(",{options}"));
    let machine = format!("{}{options}", lists.machine(machine).unwrap_or(machine));
    let usual = accelerator_of(backend).usual_cpu();
    let cpu = wishes.cpu.clone().unwrap_or_else(|| usual.to_owned());
    let rest = QemuWishes { binary: None, machine: None, cpu: None, ..wishes.clone() };
    Ok(Meant { binary, machine, cpu, rest })
}
