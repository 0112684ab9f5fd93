//! How many guests libvirt's daemon manages at once.
//!
//! The consolidation paper had to raise four limits beyond 20 tiles of 8 guests (section 5.4): it set each to 300 for 256 guests.
//! `max_requests` is gone since; the other three are in `libvirtd.conf` and `virtqemud.conf`.

use super::finding::{Finding, Severity};
use crate::view::HostView;

/// Daemons that manage QEMU: the one of current versions, and the one for everything. Each with its configuration.
const DAEMONS: [(&str, &str); 2] =
    [("virtqemud", "/etc/libvirt/virtqemud.conf"), ("libvirtd", "/etc/libvirt/libvirtd.conf")];

/// A limit with the value that a daemon of today has where its file says nothing.
const LIMITS: [(&str, u64); 3] = [("max_clients", 5000), ("max_workers", 20), ("max_client_requests", 5)];

/// Guests for which the paper's values were enough: 256, and a reserve.
const GUESTS_OF_THE_PAPER: u64 = 256;
const ENOUGH: u64 = 300;

/// What libvirt is short of for the guests of the paper; nothing where it is not installed. Of two daemons the one that runs counts.
pub fn libvirt(host: &dyn HostView) -> Vec<Finding> {
    let installed: Vec<(&str, &str, String)> =
        DAEMONS.iter().filter_map(|(daemon, path)| Some((*daemon, *path, host.read(path).ok()?))).collect();
    let runs = |daemon: &str| host.read(&format!("/run/{daemon}.pid")).is_ok();
    let is_one_known = installed.iter().any(|(daemon, ..)| runs(daemon));
    let counting = installed.into_iter().filter(|(daemon, ..)| !is_one_known || runs(daemon));
    counting.filter_map(|(daemon, path, text)| shortage(daemon, path, &text)).collect()
}

fn shortage(daemon: &str, path: &str, text: &str) -> Option<Finding> {
    let now = LIMITS.map(|(name, default)| (name, value_of(text, name).unwrap_or(default)));
    let short: Vec<(&str, u64)> = now.into_iter().filter(|(_, value)| *value < ENOUGH).collect();
    if short.is_empty() {
        return None;
    }
    let listed: Vec<String> = short.iter().map(|(name, value)| format!("{name} = {value}")).collect();
    let orders: Vec<String> = short.iter().map(|(name, _)| format!("{name} = {ENOUGH}")).collect();
    Some(Finding {
        key: format!("{daemon}-limits"),
        severity: Severity::NiceToHave,
        blocks: Vec::new(),
        what: format!("{daemon} has {} ({path})", listed.join(", ")),
        cost: "its tools wait or fail where more guests than that are started or asked at once; Tilemark's own guests do not need it"
            .to_owned(),
        remedy: format!(
            "for N guests give each of them N at least; for {GUESTS_OF_THE_PAPER} write {} into {path}, then: systemctl restart {daemon}",
            orders.join(", ")
        ),
    })
}

/// The last line that gives a name its value; a line with `#` before it is a comment.
fn value_of(text: &str, name: &str) -> Option<u64> {
    let mut values = text.lines().filter_map(|line| {
        let (found, value) = line.split_once('=')?;
        let value = value.split('#').next().unwrap_or_default();
        (found.trim() == name).then(|| value.trim().parse().ok()).flatten()
    });
    values.next_back()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_are_no_values_and_the_last_line_counts() {
        let text = "#max_workers = 20\nmax_workers = 40\n max_workers=300 # more\nmax_workers_x = 1\nmax_clients = \"a\"\n";
        assert_eq!(value_of(text, "max_workers"), Some(300));
        assert_eq!(value_of(text, "max_clients"), None);
        assert_eq!(value_of(text, "max_client_requests"), None);
    }
}
