//! Scenario, HostFacts and Plan: what shall happen, fully resolved. Pure: nothing here reads a file,
//! a clock or a host.

mod backend;
pub mod builtin;
mod check_limits;
mod emulated;
pub mod expect;
pub mod facts;
pub mod guest_image;
pub mod host_settings;
pub mod image_needs;
pub mod interference;
mod order;
pub mod own_bridge;
pub mod own_disk;
pub mod parse;
pub mod place;
pub mod plan;
pub mod problem;
pub mod profile;
mod qemu_keys;
pub mod resolve;
pub mod resolved;
pub mod said;
pub mod scenario;
pub mod screening;
pub mod search;
mod seed;
pub mod services;
mod settings;
pub mod share;
pub mod trust;
mod unreadable;
mod vary;
pub mod workload;

/// For `derive(JsonSchema)`: schemars' own, or without the feature `schema` one that derives nothing.
#[cfg(feature = "schema")]
pub(crate) use schemars::JsonSchema;
#[cfg(not(feature = "schema"))]
pub(crate) use tilemark_schema::JsonSchema;
