//! Profiles in the formats of other programs: written for tuned, sysctl and the kernel's command line, and read from tuned.
//!
//! What a format cannot say is a comment in it, with the reason; what cannot be taken from a file is named. Pure: no host is read.

mod body;
mod export;
mod import;
mod kernel_line;
mod key;
mod sysctl;
mod sysfs;
mod tuned;

pub use export::{Format, export};
pub use import::{Imported, NotTaken, TunedOption, import_tuned, tuned_options};
