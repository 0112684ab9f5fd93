//! Programs that bind guests too while they run, and would undo what `host pin` has bound.
//!
//! irqbalance moves interrupts only, and libvirt binds a guest where it starts it or is asked to: neither is one of them.

use super::rivals::processes_of_root;
use serde::Serialize;
use std::{collections::BTreeSet, path::Path};
use tilemark_host::{
    exchange::{TunedOption, tuned_options},
    setting::known::Root,
};
use tilemark_sys::text_file::read_text;

/// A program that runs and binds guests.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Binder {
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
pub(super) fn binders(root: &Root) -> Vec<Binder> {
    let found = processes_of_root(&root.path("/proc"), |name| matches!(name, "numad" | "tuned"));
    let mut binders: Vec<Binder> =
        found.iter().filter_map(|(process, name)| binder(root, *process, name)).collect();
    binders.sort_by_key(|binder| binder.process);
    binders
}

fn binder(root: &Root, process: u32, name: &str) -> Option<Binder> {
    let (what, remedy) = match name {
        "numad" => (
            "moves guests between nodes too".to_owned(),
            "stop it with `systemctl stop numad`, or have it leave a guest alone with `numad -x PROCESS`",
        ),
        _ => (
            what_tuned_does(root)?,
            "pin guests to other processors, or choose another profile with `tuned-adm profile`",
        ),
    };
    Some(Binder { program: name.to_owned(), process, what, remedy: remedy.to_owned() })
}

impl Binder {
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
/// The option of tuned's scheduler, and the variable that cpu-partitioning and realtime give it.
const ISOLATED: &str = "isolated_cores";

/// A profile of tuned.
struct TunedProfile {
    name: String,
    /// Its own folder.
    folder: String,
    text: String,
}

impl TunedProfile {
    /// The value of an option, which may be empty.
    fn value(&self, plugin: &str, name: &str) -> Option<&str> {
        let is_it = |option: &TunedOption<'_>| option.plugin == plugin && option.name == name;
        tuned_options(&self.text).into_iter().find(is_it).map(|option| option.value)
    }
}

/// What tuned does with threads where its scheduler isolates processors; `None` where it does not.
fn what_tuned_does(root: &Root) -> Option<String> {
    let profiles = tuned_profiles(root);
    let first = |name| profiles.iter().find_map(|profile| Some((profile, profile.value("scheduler", name)?)));
    let (profile, isolated) = first(ISOLATED)?;
    let isolates = match isolated.strip_prefix("${").and_then(|rest| rest.strip_suffix('}')) {
        Some(variable) if !variable.contains([':', '{']) => is_variable_set(root, &profiles, variable),
        _ => !isolated.is_empty(),
    };
    let leaves_some = first("ps_blacklist").is_some_and(|(_, programs)| !programs.is_empty());
    let but_for = if leaves_some { ", but for programs in its `ps_blacklist`" } else { "" };
    let name = &profile.name;
    isolates
        .then(|| format!("keeps threads away from the processors that its profile {name} isolates{but_for}"))
}

/// The active profiles of tuned and those that they include. What an earlier one sets counts.
fn tuned_profiles(root: &Root) -> Vec<TunedProfile> {
    let active = tuned_file(root, "/etc/tuned/active_profile").unwrap_or_default();
    let mut names: Vec<String> = active.split_whitespace().map(str::to_owned).collect();
    let (mut profiles, mut seen) = (Vec::new(), BTreeSet::new());
    while let Some(name) = names.pop() {
        if !seen.insert(name.clone()) {
            continue;
        }
        let found = TUNED_PROFILES.iter().find_map(|place| {
            let folder = format!("{place}/{name}");
            tuned_file(root, &format!("{folder}/tuned.conf")).map(|text| (folder, text))
        });
        let Some((folder, text)) = found else { continue };
        let profile = TunedProfile { name, folder, text };
        let included = profile.value("main", "include").unwrap_or_default().split([',', ';', ' ']);
        // A name with `-` before it need not exist.
        let included = included.map(|name| name.trim_start_matches('-')).filter(|name| !name.is_empty());
        names.extend(included.map(str::to_owned));
        profiles.push(profile);
    }
    profiles
}

/// Whether one of these profiles gives a variable a value, or a file of variables that it includes, as cpu-partitioning has its own in
/// `/etc/tuned/cpu-partitioning-variables.conf`.
fn is_variable_set(root: &Root, profiles: &[TunedProfile], name: &str) -> bool {
    let itself = format!("${{{name}}}");
    let is_value = |value: &str| !value.is_empty() && value != itself;
    profiles.iter().any(|profile| {
        let file = profile.value("variables", "include").and_then(|file| {
            let file = file.replace("${i:PROFILE_DIR}", &profile.folder);
            tuned_file(root, &Path::new(&profile.folder).join(file).to_string_lossy())
        });
        let in_file = file.is_some_and(|text| {
            tuned_options(&text).iter().any(|option| option.name == name && is_value(option.value))
        });
        in_file || profile.value("variables", name).is_some_and(is_value)
    })
}

fn tuned_file(root: &Root, path: &str) -> Option<String> {
    read_text(&root.path(path), FILE_BYTES_MAX).ok()
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

        fn binders(&self) -> Vec<String> {
            binders(&Root::at(self.0.path())).iter().map(Binder::in_words).collect()
        }
    }

    #[test]
    fn numad_is_named_with_what_to_do_and_programs_that_bind_no_guest_are_not() {
        let host = Host::with(&["irqbalance", "numad", "libvirtd", "tuned"], 0);
        assert_eq!(
            host.binders(),
            [
                "numad runs (process 18) and moves guests between nodes too: stop it with `systemctl stop numad`, or have it leave a \
              guest alone with `numad -x PROCESS`"
            ]
        );
        // Any user can call a program so.
        assert_eq!(Host::with(&["numad"], 1000).binders(), [""; 0]);
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
        assert_eq!(host.binders(), [""; 0]);
        host.put("/usr/lib/tuned/profiles/cpu-partitioning/tuned.conf", "[scheduler]\nisolated_cores=2-3\n");
        let [said] = host.binders().try_into().unwrap();
        assert!(
            said.starts_with(
                "tuned runs (process 17) and keeps threads away from the processors that its profile cpu-partitioning isolates: "
            ),
            "{said}"
        );
        host.put("/etc/tuned/active_profile", "virtual-host\n");
        host.put("/usr/lib/tuned/virtual-host/tuned.conf", "[sysctl]\nvm.swappiness=10\n");
        assert_eq!(host.binders(), [""; 0]);
    }

    /// What counts of tuned's cpu-partitioning, as of 2.24.
    const CPU_PARTITIONING: &str = "[main]\ninclude=network-latency\n[variables]\n\
        include=/etc/tuned/cpu-partitioning-variables.conf\nisolated_cores_assert_check = \\\\${isolated_cores}\n\
        isolated_cores = ${isolated_cores}\n[irqbalance]\nbanned_cpus=${isolated_cores}\n[scheduler]\n\
        isolated_cores=${isolated_cores}\nps_blacklist=.*pmd.*;.*qemu-kvm.*\n";

    #[test]
    fn tuned_is_named_only_where_its_scheduler_has_processors_to_isolate() {
        let host = Host::with(&["tuned"], 0);
        let variables = "/etc/tuned/cpu-partitioning-variables.conf";
        host.put("/etc/tuned/active_profile", "mine\n");
        host.put("/usr/lib/tuned/cpu-partitioning/tuned.conf", CPU_PARTITIONING);
        let of_child = |text: &str| {
            host.put("/etc/tuned/mine/tuned.conf", &format!("[main]\ninclude=cpu-partitioning\n{text}"))
        };
        let is_named = |variables_text: &str, child: &str| {
            host.put(variables, variables_text);
            of_child(child);
            !host.binders().is_empty()
        };
        // As it is installed.
        let installed = "# Examples:\n# isolated_cores=2,4-7\n";
        for (text, child, wanted) in [
            (installed, "", false),
            ("isolated_cores=\n", "", false),
            ("isolated_cores=2-3 # mine\n", "", true),
            ("isolated_cores=${f:calc_isolated_cores:1}\n", "", true),
            (installed, "[variables]\nisolated_cores=2-3\n", true),
            (installed, "[variables]\ninclude=own.conf\n", true),
            (installed, "[variables]\ninclude=${i:PROFILE_DIR}/own.conf\n", true),
            (installed, "[variables]\ninclude=absent.conf\n", false),
            (installed, "[bootloader]\nisolated_cores=2-3\n", false),
            (installed, "[scheduler]\nisolated_cores=2-3\n", true),
            (installed, "[mine]\ntype=scheduler\nisolated_cores=2-3\n", true),
            (installed, "[scheduler]\nenabled=0\nisolated_cores=2-3\n", false),
            // A profile replaces what it includes.
            ("isolated_cores=2-3\n", "[scheduler]\nisolated_cores=\n", false),
        ] {
            host.put("/etc/tuned/mine/own.conf", "isolated_cores=1\n");
            assert_eq!(is_named(text, child), wanted, "{text:?} {child:?}");
        }
        assert!(is_named("isolated_cores=2-3\n", ""));
        let [said] = host.binders().try_into().unwrap();
        assert!(
            said.contains(
                " profile cpu-partitioning isolates, but for programs in its `ps_blacklist`: pin guests "
            ),
            "{said}"
        );
    }
}
