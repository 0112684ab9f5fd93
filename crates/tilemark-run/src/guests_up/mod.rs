//! `guests up`: guests that stay until they are asked to go.

pub mod command;
pub(crate) mod engine;
