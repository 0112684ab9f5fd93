//! Guests in QEMU: with the processor's virtualization or its translator, booted or cloned.
//!
//! ```text
//! template:  boot -> agent ready -> service warm -> idle -> stopped, state into memory -> QEMU ends
//!                                                                       |  memory sealed
//! clone:     QEMU starts with the commands already in its monitor  <----+  mapped copy-on-write
//!            -> state loaded -> runs on (RESUME) -> agent answers
//! ```

mod command;
mod confinement;
mod firmware;
mod lists;
mod manager;
mod place;
mod program;
mod qmp;
mod settings;
mod template;
mod template_key;

pub use firmware::{USUAL_FIRMWARE, find_firmware, loads_kernels};
pub use lists::QemuLists;
pub use manager::{QEMU_ARGUMENTS, QemuManager};
pub use settings::{Accelerator, BootFiles, QemuSettings, QemuVersion, USUAL_MACHINE, find_qemu};
