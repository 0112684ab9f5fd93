//! Services that a guest cannot have together, and programs that cannot be run.

use super::own_disk;
use crate::{
    guest_image::is_path,
    problem::Say,
    scenario::{BrokerService, Guest, Load, Ready, Role, Scenario},
    workload::StoreDatabase,
};
use std::collections::{BTreeMap, BTreeSet};
use tilemark_units::{Bytes, Span};

/// Words of a program with its arguments.
const WORDS_MAX: usize = 100;
/// Bytes of one of these words, and of the text that a line must hold.
const WORD_BYTES_MAX: usize = 4096;
/// The longest that a program may take until it is ready: the host waits a little longer for its guest's answer.
const WITHIN_MAX: Span = Span::from_seconds(400);

/// Reports services that a guest cannot have together, and programs that cannot be run.
pub(crate) fn check(scenario: &Scenario, say: &mut Say<'_>) {
    for guest in &scenario.guest {
        check_roles(guest, say);
        check_memory(guest, say);
        check_program(guest, say);
        own_disk::check(guest, say);
        check_ports(scenario, guest, say);
        check_pages(scenario, guest, say);
        check_brought(scenario, guest, say);
    }
}

fn check_roles(guest: &Guest, say: &mut Say<'_>) {
    let (name, roles) = (&guest.name, guest.roles());
    if guest.role.is_some() && !guest.services.is_empty() {
        say(
            format!("guest `{name}` has `role` and `services`"),
            "leave out `role`: it is the short form for one service",
        );
    }
    if roles.is_empty() {
        say(
            format!("guest `{name}` has no service"),
            "write `role = \"web\"`, `services = [\"web\", \"database\"]` or `run = [\"/opt/program\"]`",
        );
    }
    let mut seen = BTreeSet::new();
    if let Some(twice) = roles.iter().find(|role| !seen.insert(**role)) {
        say(format!("guest `{name}` has service `{}` twice", twice.name()), "name each service once");
    }
    let serves_nobody = |role: &&Role| matches!(role, Role::Idle | Role::Disk | Role::Client);
    if let Some(role) = roles.iter().find(serves_nobody).filter(|_| roles.len() > 1) {
        let message = format!("guest `{name}` has `{}` beside other services", role.name());
        say(message, "give it a guest of its own: a guest with this role runs nothing else");
    }
    let keeps_files = |role: &&Role| match role {
        Role::Database | Role::Compute => true,
        Role::Broker => guest.broker == BrokerService::Reference,
        _ => false,
    };
    let keeping: Vec<String> =
        roles.iter().filter(keeps_files).map(|role| format!("`{}`", role.name())).collect();
    if keeping.len() > 1 {
        let message = format!(
            "guest `{name}` has {}, which keep their files on its first data disk",
            keeping.join(" and ")
        );
        say(message, "give each of them a guest of its own");
    }
}

fn check_memory(guest: &Guest, say: &mut Say<'_>) {
    let (name, roles) = (&guest.name, guest.roles());
    for role in guest.service_memory.keys().filter(|role| !roles.contains(role)) {
        let role = role.name();
        say(
            format!("guest `{name}` sets the memory of `{role}`, but does not run that service"),
            "leave it out",
        );
    }
    let sum: u64 = guest.service_memory.values().fold(0, |sum, size| sum.saturating_add(size.get()));
    if sum > guest.memory.get() {
        let message = format!(
            "services of guest `{name}` have {} of memory, and the guest has {}",
            Bytes::new(sum),
            guest.memory
        );
        say(message, "lower `service_memory`, or give the guest more `memory`");
    }
    if let Some((role, _)) = guest.service_memory.iter().find(|(_, size)| size.as_mib() < 16.0) {
        say(
            format!("service `{}` of guest `{name}` has less than 16MiB of memory", role.name()),
            "give it more",
        );
    }
}

fn check_program(guest: &Guest, say: &mut Say<'_>) {
    let name = &guest.name;
    let Some(program) = guest.run.first() else {
        if let (Some(_), Some(ready)) = (&guest.from, &guest.ready) {
            own_disk::check_ready(name, ready, say);
            check_ready(name, ready, say);
        } else if guest.serves(Role::Program) {
            say(
                format!("guest `{name}` has service `program` and no `run`"),
                "write `run = [\"/opt/program\"]`",
            );
        } else if guest.ready.is_some() {
            say(format!("guest `{name}` has `ready` and no `run`"), "leave out `ready`, or write `run`");
        }
        return;
    };
    let is_odd = |word: &String| word.len() > WORD_BYTES_MAX || word.contains('\0');
    if guest.run.len() > WORDS_MAX || guest.run.iter().any(is_odd) {
        say(
            format!("`run` of guest `{name}` is too long"),
            "use 100 words of 4096 bytes at most, without NUL; put the rest into a file of the image",
        );
    }
    if program.is_empty() || (program.contains('/') && !program.starts_with('/')) {
        let message = format!("`run` of guest `{name}` names the program {program:?}");
        say(message, "write an absolute path in the image, or the name of a program in its PATH");
    }
    match &guest.ready {
        None => say(format!("guest `{name}` has `run`, and nothing says when it is ready"), READY_REMEDY),
        Some(ready) => check_ready(name, ready, say),
    }
}

const READY_REMEDY: &str =
    "write `ready = { port = 9000 }` or `ready = { line = \"listening\", within = \"60s\" }`";

fn check_ready(name: &str, Ready { port, line, within }: &Ready, say: &mut Say<'_>) {
    if port.is_some() == line.is_some() {
        say(format!("`ready` of guest `{name}` needs exactly one of `port` and `line`"), READY_REMEDY);
    }
    if *port == Some(0) || line.as_ref().is_some_and(|line| line.is_empty() || line.len() > WORD_BYTES_MAX) {
        say(format!("`ready` of guest `{name}` has an empty `port` or `line`"), READY_REMEDY);
    }
    if within.get().is_zero() || *within > WITHIN_MAX {
        say(format!("`ready.within` of guest `{name}` is {within}"), "write 1s to 400s");
    }
}

/// Ports that the services of a guest listen on, each with who does.
fn ports(scenario: &Scenario, guest: &Guest) -> Vec<(u16, Role)> {
    let roles = guest.roles();
    let loads: Vec<&Load> = scenario.load.iter().filter(|load| load.guest == guest.name).collect();
    let usual = |role: Role| match role {
        Role::Web => Some(80),
        Role::Broker => {
            let has_tls = loads.iter().any(|load| load.work.facts().service_has_tls());
            Some(if has_tls { 5671 } else { 5672 })
        }
        Role::Backend => Some(8080),
        Role::Database => {
            let store = loads.iter().find_map(|load| load.work.store());
            let is_postgresql = store.is_some_and(|store| store.database == StoreDatabase::Postgresql);
            Some(if is_postgresql { 5432 } else { 3306 })
        }
        Role::Program => guest.ready.as_ref().and_then(|ready| ready.port),
        Role::Idle | Role::Disk | Role::Compute | Role::Client => None,
    };
    let of_loads = loads.iter().flat_map(|load| {
        let facts = load.work.facts();
        facts.ports().into_iter().map(move |port| (port, facts.role()))
    });
    roles.iter().filter_map(|role| Some((usual(*role)?, *role))).chain(of_loads).collect()
}

fn check_ports(scenario: &Scenario, guest: &Guest, say: &mut Say<'_>) {
    let mut taken: BTreeMap<u16, Role> = BTreeMap::new();
    for (port, role) in ports(scenario, guest) {
        match taken.insert(port, role) {
            Some(other) if other != role => {
                let (name, one, other) = (&guest.name, role.name(), other.name());
                let remedy = if role == Role::Program || other == Role::Program.name() {
                    "let the program listen on another port, and write it in `ready`"
                } else {
                    "give each of them a guest of its own"
                };
                say(
                    format!("services `{other}` and `{one}` of guest `{name}` both listen on port {port}"),
                    remedy,
                );
            }
            _ => {}
        }
    }
}

/// Dynamic pages ask a back end. Beside a database a reader would take them for pages that ask it.
fn check_pages(scenario: &Scenario, guest: &Guest, say: &mut Say<'_>) {
    let is_of_pages = |load: &&Load| load.guest == guest.name && load.work.facts().brings_pages();
    let pages = scenario.load.iter().find(is_of_pages).filter(|_| guest.serves(Role::Database));
    if let Some(Load { name, .. }) = pages {
        let message =
            format!("pages of load `{name}` ask a back end, and not the database of guest `{}`", guest.name);
        say(message, "give the database a guest of its own, or load the web server with `load.web`");
    }
}

/// Pages and rows of the user's own, which are in the image.
fn check_brought(scenario: &Scenario, guest: &Guest, say: &mut Say<'_>) {
    let name = &guest.name;
    let brought = [("pages", &guest.pages, Role::Web), ("sql", &guest.sql, Role::Database)];
    for (key, path, role) in brought {
        let Some(path) = path else { continue };
        if !guest.serves(role) {
            let role = role.name();
            say(format!("guest `{name}` has `{key}` and no service `{role}`"), "add it to its `services`");
        }
        // nginx reads its configuration as words.
        let is_plain = |c: char| c.is_ascii_alphanumeric() || "/_.+@~-".contains(c);
        if !is_path(path) || (role == Role::Web && !path.chars().all(is_plain)) {
            say(
                format!("`{key}` of guest `{name}` is {path:?}"),
                "write an absolute path in the image, and bring what is there with `[image.files]`",
            );
        }
    }
    for load in scenario.load.iter().filter(|load| load.guest == guest.name) {
        if guest.pages.is_some() && load.work.facts().brings_pages() {
            say(
                format!("load `{}` has pages of its own, and guest `{name}` has `pages`", load.name),
                "leave out `pages`, or ask them with `load.web`",
            );
        }
        let is_postgresql =
            load.work.store().is_some_and(|store| store.database == StoreDatabase::Postgresql);
        if guest.sql.is_some() && is_postgresql {
            say(
                format!(
                    "guest `{name}` has `sql`, which MariaDB runs, and PostgreSQL for load `{}`",
                    load.name
                ),
                "leave out `sql`, or give each database a guest of its own",
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::parse::Draft;

    /// What is reported of a guest with these lines.
    fn said(guest: &str, load: &str) -> String {
        let text = format!(
            "schema = 1\nname = \"s\"\nabout = \"s\"\n{}[[guest]]\nname = \"g\"\n{guest}\n{load}\n[ladder]\ntiles = [1]\n",
            if load.is_empty() { "" } else { "headline = \"l\"\n" }
        );
        let finished = Draft::from_toml(&text, "test").and_then(|draft| draft.finish());
        finished.map_or_else(|problems| problems.to_string(), |_| String::new())
    }

    const WEB: &str = "[[load]]\nname = \"l\"\nguest = \"g\"\nrate = \"1/s\"\n[load.web]\npath = \"/\"";
    const FILES: &str = "[[load]]\nname = \"l\"\nguest = \"g\"\nrate = \"1/s\"\n[load.web]";
    const SESSIONS: &str =
        "[[load]]\nname = \"l\"\nguest = \"g\"\nrate = \"1/s\"\n[load.sessions]\nshape = \"shop\"";

    #[test]
    fn services_that_fit_together_are_taken() {
        let pages = "memory = \"1GiB\"\nservices = [\"database\", \"web\"]\nservice_memory = { database = \"512MiB\" }";
        assert_eq!(said(pages, FILES), "");
        let site = "memory = \"1GiB\"\nservices = [\"database\", \"web\"]\npages = \"/srv/site\"\nsql = \"/srv/site.sql\"";
        assert_eq!(said(site, WEB), "");
        assert_eq!(said("run = [\"/opt/app.py\", \"--port\", \"9000\"]\nready = { port = 9000 }", WEB), "");
        let line =
            "services = [\"database\"]\nrun = [\"app\"]\nready = { line = \"listening\", within = \"5s\" }";
        assert_eq!(said(line, ""), "");
    }

    #[test]
    fn what_a_guest_cannot_serve_is_named() {
        let program = "run = [\"/opt/app\"]\n";
        for (guest, load, wanted) in [
            ("", "", "guest `g` has no service"),
            ("role = \"web\"\nservices = [\"web\"]", "", "has `role` and `services`"),
            ("services = [\"web\", \"web\"]", "", "has service `web` twice"),
            ("services = [\"web\", \"idle\"]", "", "has `idle` beside other services"),
            ("services = [\"compute\", \"database\"]", "", "keep their files on its first data disk"),
            (
                "role = \"web\"\nservice_memory = { database = \"64MiB\" }",
                "",
                "but does not run that service",
            ),
            (
                "role = \"web\"\nservice_memory = { web = \"1GiB\" }",
                "",
                "have 1GiB of memory, and the guest has 256MiB",
            ),
            ("role = \"program\"", "", "has service `program` and no `run`"),
            ("role = \"idle\"\nready = { port = 1 }", "", "has `ready` and no `run`"),
            (program, "", "nothing says when it is ready"),
            (&format!("{program}ready = {{ within = \"5s\" }}"), "", "exactly one of `port` and `line`"),
            (&format!("{program}ready = {{ port = 0 }}"), "", "has an empty `port` or `line`"),
            (&format!("{program}ready = {{ port = 1, within = \"1000s\" }}"), "", "is 1000s"),
            ("run = [\"opt/app\"]\nready = { port = 1 }", "", "names the program \"opt/app\""),
            ("role = \"web\"\nrun = [\"app\"]\nready = { port = 80 }", "", "both listen on port 80"),
            ("services = [\"web\", \"backend\"]\nmemory = \"1GiB\"", SESSIONS, "both listen on port 8080"),
            (
                "services = [\"web\", \"database\"]\nmemory = \"1GiB\"",
                SESSIONS,
                "ask a back end, and not the database",
            ),
            ("run = [\"app\"]\nready = { line = \"ok\" }", WEB, "whose program names no port"),
            ("role = \"web\"\nsql = \"/a.sql\"", "", "has `sql` and no service `database`"),
            ("role = \"database\"\npages = \"/a\"", "", "has `pages` and no service `web`"),
            ("role = \"web\"\npages = \"a\"", WEB, "`pages` of guest `g` is \"a\""),
            ("role = \"web\"\npages = \"/a\"", FILES, "asks for the files of our web server"),
            ("role = \"web\"\npages = \"/a\"\nmemory = \"1GiB\"", SESSIONS, "has pages of its own"),
        ] {
            let said = said(guest, load);
            assert!(said.contains(wanted), "{wanted}: {said}");
        }
    }
}
