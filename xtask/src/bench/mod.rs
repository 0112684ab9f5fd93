//! `cargo xtask bench`: the figures that the project set out to reach, each as a named bench that runs ours and its
//! peer in turn and says reached or not. No test asserts any of them.

mod commands;
mod figure;
mod fleet;
mod flushes;
mod guests;
mod load;
mod machine;
mod messaging;
mod sides;
mod store;
mod tools;

pub(crate) use commands::{Asked, run};
pub(crate) use guests::{measurement, test_with_guests, up_and_distinct};
pub(crate) use tools::{Bench, Named, Skipped, masked, named, need_root, text_of};
