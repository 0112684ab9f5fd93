//! From what the user asked to a plan, before anything starts.

pub(crate) mod command_files;
pub mod host;
pub mod host_settings;
pub(crate) mod image_check;
pub mod prepare;
pub mod text;
