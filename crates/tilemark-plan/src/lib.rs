//! Scenario, HostFacts and Plan: what shall happen, fully resolved. Pure: nothing here reads a file,
//! a clock or a host.
//!
//! Each of these uses those above it only:
//!
//! ```text
//! scenario/guest, disk, role, place ...     what a user writes of a tile, in small types
//! workload/                                 the workloads: parameters and facts of each, then the table of all
//! scenario/load, scenario                   a load asks for a workload; the whole scenario
//! request, sides, facts                     what is asked for with it; what is known of a host
//! check/, parse                             a text is read and checked, as far as it can be without a host
//! plan                                      what will happen: types only, some in files of their own
//! place/, emulated, order, expect, resolve  from all of these to a plan
//! ```

mod backend;
pub mod builtin;
mod check;
mod emulated;
mod examples;
pub mod expect;
pub mod facts;
pub mod guest_image;
pub mod host_settings;
pub mod image_needs;
pub mod interference;
mod left_out;
mod network;
mod order;
pub mod own_bridge;
pub mod own_disk;
pub mod parse;
pub mod place;
pub mod plan;
pub mod problem;
pub mod profile;
pub mod program;
mod qemu_keys;
pub mod relative_paths;
mod request;
pub mod resolve;
pub mod resolved;
pub mod scenario;
pub mod screening;
pub mod search;
mod seed;
pub mod services;
mod settings;
pub mod share;
pub mod sides;
pub mod trust;
mod unreadable;
mod vary;
pub mod workload;

/// For `derive(JsonSchema)`: schemars' own, or without the feature `schema` one that derives nothing.
#[cfg(feature = "schema")]
pub(crate) use schemars::JsonSchema;
#[cfg(not(feature = "schema"))]
pub(crate) use tilemark_schema::JsonSchema;
