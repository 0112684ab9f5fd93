//! One pass: one repeat of one point, from fresh guests to figures in the record.
//!
//! `one_pass.rs` is its order. It starts guests (`guests/start.rs`), has `measurement.rs` run the loads and watch the host, and
//! checks what guests and loads report: `report_check.rs`, `disk_check.rs`, `network_check.rs`, `guest_check.rs`. Settings of
//! the host are held meanwhile by `host_settings.rs`, and the user's own commands run by `hooks.rs`. A pass only notes
//! incidents; whether its repeat is discarded is decided when it is judged, in `tilemark-statistics`.

pub(crate) mod client_repeat;
mod disk_check;
mod guest_check;
mod guest_use;
mod histograms;
pub(crate) mod hooks;
mod host_hands;
pub(crate) mod host_settings;
pub(crate) mod host_watch;
#[cfg(test)]
mod hostile_tests;
pub(crate) mod load_alone;
pub(crate) mod load_figures;
pub mod load_frames;
mod load_jobs;
mod load_listener;
mod load_merge;
pub(crate) mod load_process;
mod measurement;
mod network_check;
pub(crate) mod one_pass;
pub(crate) mod place_watch;
pub(crate) mod real_world;
pub(crate) mod report_check;
pub(crate) mod time;
pub(crate) mod world;
