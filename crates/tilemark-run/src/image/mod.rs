//! Guest images: built by an engine, listed and moved by the command.

pub mod build;
pub mod cache;
