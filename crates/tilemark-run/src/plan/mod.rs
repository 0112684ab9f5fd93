//! From what the user asked to a plan, before anything starts.

pub(crate) mod bridge_filter;
pub mod checks;
pub(crate) mod command_files;
pub mod host;
pub mod host_settings;
pub mod image_asked;
pub(crate) mod image_check;
pub(crate) mod own_disks;
pub mod prepare;
pub(crate) mod qemu_check;
mod root_files;
mod scenario_file;
pub mod text;
pub(crate) mod web_files;
