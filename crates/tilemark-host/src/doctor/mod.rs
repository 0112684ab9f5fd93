//! What a host lacks for measuring guests: what each shortfall is, what it costs, how to end it.
//!
//! [`diagnose`] and [`render_text`] are pure: facts in, findings and text out.

mod check;
mod finding;
mod render;

pub use check::diagnose;
pub use finding::{BackendState, DoctorReport, Finding, Severity, report};
pub use render::{Style, render_text};
