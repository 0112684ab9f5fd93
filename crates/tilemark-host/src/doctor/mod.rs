//! What a host lacks for measuring guests: what each shortfall is, what it costs, how to end it.
//!
//! [`diagnose`] and [`render_text`] are pure: facts in, findings and text out. [`libvirt()`] reads the configuration of a program that a host may
//! have beside Tilemark.

mod check;
mod finding;
mod libvirt;
mod render;

pub use check::diagnose;
pub use finding::{BackendState, DoctorReport, Finding, Severity, report};
pub use libvirt::libvirt;
pub use render::{Style, render_text};
