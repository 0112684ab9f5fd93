//! The lines of power.

use super::labelled;
use super::paint::Paint;
use crate::view::{self, View};

/// Idle power, and at each step what was taken and served for it.
pub(super) fn power(view: &View, paint: &Paint, width: usize) -> String {
    let Some(power) = view::power(view) else { return String::new() };
    let mut out = String::from("\n");
    labelled(&mut out, paint, width, "Power", &format!("idle: {}", power.idle));
    for row in &power.rows {
        let struck = if row.struck { " (not trusted)" } else { "" };
        let text = format!(
            "{}: {}{struck}, {} above idle; served for a joule: {}",
            row.step, row.watts, row.above_idle, row.per_joule
        );
        labelled(&mut out, paint, width, "", &text);
    }
    labelled(&mut out, paint, width, "", view::POWER_ABOUT);
    out
}
