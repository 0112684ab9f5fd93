//! Which processors take interrupts.

use std::path::{Path, PathBuf};

use super::request::{LEAVE_OUT, Request};
use crate::error::HostError;
use crate::setting::{Form, Setting};
use tilemark_units::ranges;

pub(super) fn of_device(request: &Request<'_>) -> Result<Vec<Setting>, HostError> {
    let processors = ranges(&request.processors()?);
    let vectors = vectors(request)?;
    let one = |vector: &u32| {
        let name = format!("{} (interrupt {vector})", request.key);
        let path = format!("/proc/irq/{vector}/smp_affinity_list");
        Ok(request.one(&name, &path, Form::Processors, &processors)?.of_a_vector())
    };
    vectors.iter().map(one).collect()
}

/// The vectors of the device's hardware that are in use: its own, or those of the bus device that it is a part of, as a virtio device is.
fn vectors(request: &Request<'_>) -> Result<Vec<u32>, HostError> {
    let device = request.parts[0];
    let places =
        ["net", "block"].map(|class| request.root.path(&format!("/sys/class/{class}/{device}/device")));
    let hardware = places.iter().find_map(|place| place.canonicalize().ok());
    let Some(hardware) = hardware else {
        return Err(request.absent(
            format!("no network or block device with hardware behind it is called {device}"),
            LEAVE_OUT,
        ));
    };
    let top = request.root.path("/sys").canonicalize().unwrap_or_else(|_| PathBuf::from("/sys"));
    let above = hardware.ancestors().take_while(|folder| folder.starts_with(&top));
    let mut vectors: Vec<u32> = above.map(vectors_in).find(|found| !found.is_empty()).unwrap_or_default();
    vectors.retain(|vector| request.root.path(&format!("/proc/irq/{vector}/smp_affinity_list")).exists());
    vectors.sort_unstable();
    if vectors.is_empty() {
        return Err(request.absent(format!("{device} has no interrupts that can be moved"), LEAVE_OUT));
    }
    Ok(vectors)
}

/// `msi_irqs` has a file for each; `irq` names the one of a device without messages.
fn vectors_in(folder: &Path) -> Vec<u32> {
    let entries = std::fs::read_dir(folder.join("msi_irqs")).into_iter().flatten().flatten();
    let messages: Vec<u32> =
        entries.filter_map(|entry| entry.file_name().to_string_lossy().parse().ok()).collect();
    if !messages.is_empty() {
        return messages;
    }
    let line = std::fs::read_to_string(folder.join("irq")).ok().and_then(|text| text.trim().parse().ok());
    line.into_iter().filter(|line| *line > 0).collect()
}
