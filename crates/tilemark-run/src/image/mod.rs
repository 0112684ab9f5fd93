//! Guest images: built by an engine, listed, shown, entered and moved by the command.

pub mod build;
pub mod cache;
pub mod shell;
pub mod show;
mod streams;
