//! What a guest that boots from a disk of the user's own cannot be.

use crate::{
    own_disk::BOOTS_WITHIN,
    problem::Say,
    scenario::{Guest, Ready, Role},
};
use tilemark_units::Span;

/// Bytes of its path.
const PATH_BYTES_MAX: usize = 4096;
/// The longest time that may be asked for.
const BOOTS_WITHIN_MAX: Span = Span::from_seconds(3600);

/// Reports what a guest with a disk of its own cannot be, and keys that need one.
pub(super) fn check(guest: &Guest, say: &mut Say<'_>) {
    let name = &guest.name;
    let Some(path) = &guest.from else {
        if guest.boots_within.is_some() {
            let message = format!("guest `{name}` has `boots_within` and no `from`");
            say(message, "leave it out: it is for a guest that boots from a disk of your own");
        }
        return;
    };
    if path.is_empty() || path.len() > PATH_BYTES_MAX || path.contains('\0') {
        let message = format!("`from` of guest `{name}` is not a path");
        say(message, "write the path of a qcow2 or raw file, such as `from = \"debian-13.qcow2\"`");
    }
    let within = guest.boots_within.unwrap_or(BOOTS_WITHIN);
    if within.get().is_zero() || within > BOOTS_WITHIN_MAX {
        say(format!("`boots_within` of guest `{name}` is {within}"), "write 1s to 3600s");
    }
    for role in guest.roles().into_iter().filter(|role| !works_by_itself(*role)) {
        let message = format!(
            "guest `{name}` boots from {path:?}, and service `{}` needs programs of Tilemark's image",
            role.name()
        );
        let remedy = "leave it out and wait for the disk's own service, as with `ready = { port = 80 }`, or start a program of the \
                      disk with `run`";
        say(message, remedy);
    }
}

/// Whether a role needs nothing but the agent.
const fn works_by_itself(role: Role) -> bool {
    match role {
        Role::Idle | Role::Client | Role::Program => true,
        Role::Web | Role::Disk | Role::Broker | Role::Database | Role::Compute | Role::Backend => false,
    }
}

/// Nobody reads what the disk's own services print.
pub(super) fn check_ready(name: &str, ready: &Ready, say: &mut Say<'_>) {
    if ready.line.is_some() {
        let message = format!("guest `{name}` waits for a line, and has no `run` that could print it");
        say(message, "write the port of the disk's own service, as in `ready = { port = 80 }`, or add `run`");
    }
}

#[cfg(test)]
mod tests {
    use crate::parse::Draft;

    /// What is reported of a guest with these lines.
    fn reported(guest: &str) -> String {
        let text = format!(
            "schema = 1\nname = \"s\"\nabout = \"s\"\n[[guest]]\nname = \"g\"\n{guest}\n[ladder]\ntiles = [1]\n"
        );
        let finished = Draft::from_toml(&text, "test").and_then(|draft| draft.finish());
        finished.map_or_else(|problems| problems.to_string(), |_| String::new())
    }

    #[test]
    fn a_disk_of_ones_own_needs_no_role_and_takes_those_that_need_no_image() {
        for guest in [
            "",
            "role = \"idle\"",
            "role = \"client\"",
            "ready = { port = 80 }",
            "run = [\"/usr/bin/app\"]\nready = { line = \"listening\" }",
            "boots_within = \"90s\"",
        ] {
            assert_eq!(reported(&format!("from = \"debian.qcow2\"\n{guest}")), "", "{guest}");
        }
    }

    #[test]
    fn what_such_a_guest_cannot_be_is_named() {
        for (guest, wanted) in [
            ("from = \"\"\n", "`from` of guest `g` is not a path"),
            ("role = \"idle\"\nboots_within = \"90s\"", "has `boots_within` and no `from`"),
            ("from = \"d.raw\"\nboots_within = \"2h\"", "`boots_within` of guest `g`"),
            (
                "from = \"d.raw\"\nrole = \"database\"\nmemory = \"1GiB\"",
                "service `database` needs programs of Tilemark's image",
            ),
            ("from = \"d.raw\"\nservices = [\"web\"]", "service `web` needs programs"),
            ("from = \"d.raw\"\nready = { line = \"a\" }", "has no `run` that could print it"),
            ("from = \"d.raw\"\nready = { port = 0 }", "has an empty `port`"),
            ("from = \"d.raw\"\nrole = \"idle\"\nready = { port = 80 }", "has `idle` beside other services"),
        ] {
            let reported = reported(guest);
            assert!(reported.contains(wanted), "{wanted}: {reported}");
        }
    }
}
