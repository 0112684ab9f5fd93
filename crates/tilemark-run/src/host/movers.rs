//! Programs that bind guests themselves while they run, and would undo what `host pin` has bound.
//!
//! irqbalance moves interrupts only, and libvirt binds a guest where it starts it or is asked to: neither is one of them.

use super::rivals::processes_of_root;
use serde::Serialize;
use std::collections::BTreeSet;
use tilemark_host::setting::known::Root;
use tilemark_sys::text_file::read_text;

/// A program that runs and binds guests.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Mover {
    /// Its name, which is that of its service.
    pub program: String,
    /// Its process.
    pub process: u32,
    /// What it does with guests.
    pub what: String,
    /// What to do.
    pub remedy: String,
}

/// Those that run on this host.
pub(super) fn movers(root: &Root) -> Vec<Mover> {
    let found = processes_of_root(&root.path("/proc"), |name| matches!(name, "numad" | "tuned"));
    let mut movers: Vec<Mover> =
        found.iter().filter_map(|(process, name)| mover(root, *process, name)).collect();
    movers.sort_by_key(|mover| mover.process);
    movers
}

fn mover(root: &Root, process: u32, name: &str) -> Option<Mover> {
    let (what, remedy) = match name {
        "numad" => (
            "moves guests between nodes too".to_owned(),
            "stop it with `systemctl stop numad`, or have it leave a guest alone with `numad -x PROCESS`",
        ),
        _ => (
            format!(
                "keeps threads away from the processors that its profile {} isolates",
                isolating_profile(root)?
            ),
            "pin guests to other processors, or choose another profile with `tuned-adm profile`",
        ),
    };
    Some(Mover { program: name.to_owned(), process, what, remedy: remedy.to_owned() })
}

impl Mover {
    /// `numad runs (process 17) and moves guests between nodes too: stop it with …`.
    pub fn in_words(&self) -> String {
        let Self { program, process, what, remedy } = self;
        format!("{program} runs (process {process}) and {what}: {remedy}")
    }
}

/// Where tuned has its profiles, the first of a name counts (tuned-profiles(7)).
const TUNED_PROFILES: [&str; 4] =
    ["/etc/tuned/profiles", "/etc/tuned", "/usr/lib/tuned/profiles", "/usr/lib/tuned"];
/// Largest file of tuned that is read.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// The active profile of tuned that isolates processors, itself or by one that it includes.
fn isolating_profile(root: &Root) -> Option<String> {
    let text = |path: &str| read_text(&root.path(path), FILE_BYTES_MAX).ok();
    let mut names: Vec<String> =
        text("/etc/tuned/active_profile")?.split_whitespace().map(str::to_owned).collect();
    let mut seen = BTreeSet::new();
    while let Some(name) = names.pop() {
        if !seen.insert(name.clone()) {
            continue;
        }
        let profile = TUNED_PROFILES.iter().find_map(|folder| text(&format!("{folder}/{name}/tuned.conf")));
        let profile = profile.unwrap_or_default();
        let options = profile.lines().filter_map(|line| line.split_once('='));
        for (option, value) in options {
            match option.trim() {
                "isolated_cores" => return Some(name),
                // A name with `-` before it need not exist.
                "include" => names
                    .extend(value.split([',', ';', ' ']).map(|name| name.trim_start_matches('-').to_owned())),
                _ => {}
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    struct Host(tempfile::TempDir);

    impl Host {
        /// A folder that plays a host on which these programs run, from process 17 on, as this user.
        fn with(programs: &[&str], user: u32) -> Self {
            let host = Self(tempfile::tempdir().unwrap());
            for (process, name) in (17..).zip(programs) {
                host.put(&format!("/proc/{process}/comm"), &format!("{name}\n"));
                host.put(
                    &format!("/proc/{process}/status"),
                    &format!("Uid:\t{user}\t{user}\t{user}\t{user}\n"),
                );
            }
            host
        }

        fn put(&self, path: &str, text: &str) {
            let path = Root::at(self.0.path()).path(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }

        fn movers(&self) -> Vec<String> {
            movers(&Root::at(self.0.path())).iter().map(Mover::in_words).collect()
        }
    }

    #[test]
    fn numad_is_named_with_what_to_do_and_programs_that_bind_no_guest_are_not() {
        let host = Host::with(&["irqbalance", "numad", "libvirtd", "tuned"], 0);
        assert_eq!(
            host.movers(),
            [
                "numad runs (process 18) and moves guests between nodes too: stop it with `systemctl stop numad`, or have it leave a \
              guest alone with `numad -x PROCESS`"
            ]
        );
        // Any user can call a program so.
        assert_eq!(Host::with(&["numad"], 1000).movers(), [""; 0]);
    }

    #[test]
    fn tuned_is_named_where_its_profile_or_one_that_this_includes_isolates_processors() {
        let host = Host::with(&["tuned"], 0);
        host.put("/etc/tuned/active_profile", "mine\n");
        host.put(
            "/etc/tuned/mine/tuned.conf",
            "[main]\nsummary=Mine\ninclude=virtual-host, cpu-partitioning\n",
        );
        host.put(
            "/usr/lib/tuned/virtual-host/tuned.conf",
            "[main]\ninclude=mine\n[sysctl]\nvm.swappiness=10\n",
        );
        assert_eq!(host.movers(), [""; 0]);
        let isolating = "[scheduler]\nisolated_cores=${isolated_cores}\n";
        host.put("/usr/lib/tuned/profiles/cpu-partitioning/tuned.conf", isolating);
        let [said] = host.movers().try_into().unwrap();
        assert!(
            said.starts_with(
                "tuned runs (process 17) and keeps threads away from the processors that its profile cpu-partitioning isolates: "
            ),
            "{said}"
        );
        host.put("/etc/tuned/active_profile", "virtual-host\n");
        host.put("/usr/lib/tuned/virtual-host/tuned.conf", "[sysctl]\nvm.swappiness=10\n");
        assert_eq!(host.movers(), [""; 0]);
    }
}
