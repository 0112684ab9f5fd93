//! Profiles on a folder that plays a host.

use crate::{
    failure::{Failure, FailureCode},
    host::{
        apply::{
            Consent, Done, agreed, apply_on, none_in, not_applied, restore_from, status_from, to_set,
            verified,
        },
        plan::{HostPlan, State, plan_on},
    },
    job::host_journal::{Applied, HostJournal},
};
use serde_json::Value;
use std::{
    collections::BTreeSet,
    fs::{self, Permissions},
    os::unix::fs::{PermissionsExt, symlink},
    path::Path,
};
use tempfile::TempDir;
use tilemark_host::{
    HostError,
    setting::{
        Form, Now, Setting,
        known::{self, Root},
    },
};
use tilemark_plan::profile::Profile;

/// Values of a host, as they are before anything is applied.
const FILES: [(&str, &str); 7] = [
    ("/proc/sys/vm/swappiness", "60\n"),
    ("/proc/sys/net/ipv4/tcp_rmem", "4096\t131072\t6291456\n"),
    ("/proc/sys/kernel/randomize_va_space", "2\n"),
    ("/sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never\n"),
    ("/sys/block/vda/queue/nr_requests", "256\n"),
    ("/sys/block/vda/device/vendor", "0x1af4\n"),
    ("/sys/kernel/mm/ksm/run", "0\n"),
];

struct Host {
    folder: TempDir,
}

impl Host {
    fn new() -> Self {
        let host = Self { folder: tempfile::tempdir().unwrap() };
        for (path, text) in FILES {
            host.write(path, text);
        }
        host
    }

    fn root(&self) -> Root {
        Root::at(self.folder.path())
    }

    fn write(&self, path: &str, text: &str) {
        let file = self.root().path(path);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, text).unwrap();
    }

    fn read(&self, path: &str) -> String {
        fs::read_to_string(self.root().path(path)).unwrap()
    }

    fn journal_in(&self, boot: &str) -> HostJournal {
        HostJournal::in_boot(&self.folder.path().join("state"), boot.to_owned())
    }

    fn journal(&self) -> HostJournal {
        self.journal_in("this-boot")
    }

    fn plan(&self, settings: &[(&str, &str)]) -> HostPlan {
        plan_on(&self.root(), &profile(settings))
    }

    fn apply(&self, settings: &[(&str, &str)]) -> Result<Done, Failure> {
        apply_on(&self.root(), &self.journal(), &profile(settings), &[])
    }

    #[track_caller]
    fn is_as_before(&self) {
        for (path, text) in FILES {
            assert_eq!(self.read(path), text, "{path}");
        }
    }
}

/// A profile with these keys and values. One that begins with `?` is optional.
fn profile(settings: &[(&str, &str)]) -> Profile {
    let line = |(key, value): &(&str, &str)| {
        let optional = key.starts_with('?');
        let key = key.trim_start_matches('?');
        format!("[[setting]]\nkey = {key:?}\nvalue = {value:?}\nsource = \"a test\"\noptional = {optional}\n")
    };
    let lines: String = settings.iter().map(line).collect();
    Profile::from_toml(&format!("schema = 1\nname = \"test\"\nabout = \"A test.\"\n{lines}"), "test").unwrap()
}

const SOME: [(&str, &str); 4] = [
    ("vm.swappiness", "10"),
    ("net.ipv4.tcp_rmem", "4096 131072 16777216"),
    ("thp", "madvise"),
    ("block.*.nr_requests", "64"),
];

fn states(plan: &HostPlan) -> Vec<(&str, State)> {
    plan.settings.iter().map(|planned| (planned.key.as_str(), planned.state)).collect()
}

#[test]
fn a_plan_shows_what_is_what_would_be_and_what_this_host_lacks() {
    let host = Host::new();
    let plan = host.plan(&[&SOME[..], &[("?module.absent.x", "1"), ("thp.defrag", "always")]].concat());
    assert_eq!(
        states(&plan),
        [
            ("vm.swappiness", State::Changes),
            ("net.ipv4.tcp_rmem", State::Changes),
            ("thp", State::AsWanted),
            ("block.*.nr_requests", State::Changes),
            ("module.absent.x", State::Skipped),
            ("thp.defrag", State::Refused),
        ]
    );
    let json = serde_json::to_value(&plan).unwrap();
    let first = &json["settings"][1];
    for (key, value) in [
        ("key", "net.ipv4.tcp_rmem"),
        ("now", "4096 131072 6291456"),
        ("wanted", "4096 131072 16777216"),
        ("source", "a test"),
        ("danger", "none"),
        ("where", "run-network"),
    ] {
        assert_eq!(first[key], value, "{first}");
    }
    assert!(first["path"].as_str().unwrap().ends_with("/proc/sys/net/ipv4/tcp_rmem"));
    assert!(json["settings"][4]["path"].is_null() && json["settings"][4]["now"].is_null());
    let text = plan.text();
    assert!(text.contains("3 settings would change") && text.contains("vm.swappiness: 60 -> 10"), "{text}");
    assert!(text.contains("source: a test"), "{text}");
    let without = "schema = 1\nname = \"test\"\nabout = \"A test.\"\n[[setting]]\nkey = \"vm.swappiness\"\nvalue = \"10\"\n";
    let text = plan_on(&host.root(), &Profile::from_toml(without, "test").unwrap()).text();
    assert!(text.contains("vm.swappiness: 60 -> 10") && !text.contains("source:"), "{text}");
    host.is_as_before();
    assert!(!host.folder.path().join("state").exists(), "a plan touches nothing");
}

#[test]
fn what_is_applied_stays_until_it_is_restored_and_then_it_is_byte_for_byte_as_before() {
    let host = Host::new();
    let done = host.apply(&SOME).unwrap();
    assert_eq!((done.changed.len(), done.as_wanted), (3, 1));
    assert_eq!(host.read("/proc/sys/vm/swappiness"), "10");
    assert_eq!(verified(plan_on(&host.root(), &profile(&SOME)), &[], &[]).differences, Vec::<String>::new());
    let status = status_from(&host.journal()).unwrap();
    assert_eq!((status.profile.as_deref(), status.settings.len()), (Some("test"), 3));
    // Nobody tries settings for hours that could not be applied afterwards.
    let refused = none_in(&host.journal()).unwrap_err();
    assert!(refused.message.contains("`test` is applied already"), "{refused:?}");
    assert!(status.settings.iter().all(|changed| changed.now == Now::Ours));
    // What recover does.
    assert_eq!(host.journal().restore_half().unwrap(), [], "it is whole: recover leaves it");
    assert_eq!(host.read("/proc/sys/vm/swappiness"), "10");
    let restored = restore_from(&host.journal()).unwrap();
    assert_eq!((restored.restored.len(), restored.changed_by_others.len()), (3, 0));
    host.is_as_before();
    none_in(&host.journal()).unwrap();
    assert_eq!(status_from(&host.journal()).unwrap().profile, None);
    assert_eq!(restore_from(&host.journal()).unwrap().restored.len(), 0, "once");
    let differences = verified(plan_on(&host.root(), &profile(&SOME)), &[], &[]).differences;
    assert_eq!(differences.len(), 3);
    assert!(differences[0].contains("is 60, and the profile wants 10"), "{differences:?}");
}

const MOVED: [(&str, &str); 1] = [("irq.eth0.affinity", "1")];

fn vector(number: u32) -> String {
    format!("/proc/irq/{number}/smp_affinity_list")
}

/// A host whose eth0 has the vectors 26 and 27.
fn host_with_vectors() -> Host {
    let host = Host::new();
    let pci = "/sys/devices/pci0000:00/0000:00:03.0";
    host.write("/sys/devices/system/cpu/online", "0-3\n");
    for number in [26, 27] {
        host.write(&format!("{pci}/msi_irqs/{number}"), "");
        host.write(&vector(number), "0-3\n");
    }
    let class = host.root().path("/sys/class/net/eth0");
    fs::create_dir_all(&class).unwrap();
    symlink(host.root().path(pci), class.join("device")).unwrap();
    host
}

#[test]
fn vectors_that_the_kernel_spreads_itself_are_unchanged_and_named_and_the_others_are_moved() {
    let host = host_with_vectors();
    fs::set_permissions(host.root().path(&vector(27)), Permissions::from_mode(0o444)).unwrap();
    let plan = host.plan(&MOVED);
    assert_eq!(
        plan.settings.iter().map(|one| one.state).collect::<Vec<_>>(),
        [State::Changes, State::Spread]
    );
    assert!(plan.text().contains("1 setting unchanged, because the kernel spreads"), "{}", plan.text());
    let done = host.apply(&MOVED).unwrap();
    assert_eq!((done.changed.len(), host.read(&vector(26)).as_str()), (1, "1"));
    assert!(done.immovable[0].contains("interrupt 27") && done.immovable.len() == 1, "{done:?}");
    let verified = verified(host.plan(&MOVED), &[], &[]);
    assert_eq!((verified.differences.len(), verified.skipped.len()), (0, 1), "{verified:?}");
    restore_from(&host.journal()).unwrap();
    assert_eq!([26, 27].map(|number| host.read(&vector(number))), ["0-3\n", "0-3\n"]);
}

/// Before Linux 6.12 the file of such a vector looks like any other one, and the kernel refuses only the write: then the journal names it.
#[test]
fn a_vector_that_could_not_be_moved_is_no_difference_while_its_profile_is_applied() {
    let host = host_with_vectors();
    host.apply(&MOVED).unwrap();
    host.write(&vector(27), "0-3\n");
    let refused = known::resolve(&host.root(), MOVED[0].0, MOVED[0].1).unwrap().remove(1);
    let file = host.folder.path().join("state/.host/applied.json");
    let mut journal: Value = serde_json::from_slice(&fs::read(&file).unwrap()).unwrap();
    journal["immovable"] = serde_json::json!([refused]);
    fs::write(&file, journal.to_string()).unwrap();
    let Applied { immovable, .. } = host.journal().applied().unwrap().unwrap();
    assert_eq!(verified(host.plan(&MOVED), &[], &[]).differences.len(), 1);
    let compared = verified(host.plan(&MOVED), &[], &immovable);
    assert_eq!((compared.differences.len(), compared.skipped.len()), (0, 1), "{compared:?}");
    assert!(compared.skipped[0].contains("interrupt 27"), "{compared:?}");
}

#[test]
fn what_could_not_be_restored_is_not_applied() {
    let host = Host::new();
    host.write("/proc/sys/net/ipv6/conf/all/disable_ipv6", "0\n");
    host.write("/sys/kernel/mm/ksm/merge_across_nodes", "1\n");
    let (switch, merge) = (("net.ipv6.conf.all.disable_ipv6", "1"), ("ksm.merge_across_nodes", "0"));
    for (settings, said) in [
        (vec![("vm.swappiness", "10"), switch], "the kernel drops the IPv6 addresses"),
        (vec![merge, ("ksm", "on")], "KSM is on"),
    ] {
        let refused = host.apply(&settings).unwrap_err();
        assert!(refused.message.contains(said) && refused.message.contains("restored"), "{refused:?}");
        host.is_as_before();
    }
    host.apply(&[merge]).unwrap();
    restore_from(&host.journal()).unwrap();
    host.is_as_before();
}

#[test]
fn huge_pages_that_no_memory_is_available_for_are_refused_by_the_plan() {
    let host = Host::new();
    let counts = ["hugepages-2048kB", "hugepages-1048576kB"]
        .map(|folder| format!("/sys/kernel/mm/hugepages/{folder}/nr_hugepages"));
    host.write(&counts[0], "100\n");
    host.write(&counts[1], "4\n");
    // 200 pages of 2 MiB.
    host.write("/proc/meminfo", "MemAvailable: 409600 kB\nSwapTotal: 0 kB\nSwapFree: 0 kB\n");
    let swappiness = ("vm.swappiness", "10");
    assert!(host.plan(&[("hugepages.2MiB", "300"), swappiness]).is_applicable());
    let too_many = [("hugepages.2MiB", "301"), swappiness];
    let plan = host.plan(&too_many);
    assert_eq!(states(&plan), [("hugepages.2MiB", State::Refused), ("vm.swappiness", State::Changes)]);
    let refused = host.apply(&too_many).unwrap_err();
    assert_eq!(refused.code, FailureCode::HostUnfit);
    assert!(refused.message.contains("402 MiB") && refused.message.contains("400 MiB"), "{refused:?}");
    assert!(refused.remedy.contains("host show"), "{refused:?}");
    host.is_as_before();
    let compared = verified(plan, &[], &[]);
    assert!(compared.differences[0].contains("is 100, and the profile wants 301"), "{compared:?}");
    // What another size frees is available too.
    assert!(host.plan(&[("hugepages.2MiB", "800"), ("hugepages.1GiB", "3")]).is_applicable());
    assert!(!host.plan(&[("hugepages.2MiB", "200"), ("hugepages.1GiB", "5")]).is_applicable(), "together");
}

#[test]
fn a_second_profile_is_refused_with_the_name_of_the_first() {
    let host = Host::new();
    host.apply(&SOME).unwrap();
    let refused = host.apply(&[("ksm", "on")]).unwrap_err();
    assert!(refused.message.contains("`test`") && refused.remedy.contains("host restore"), "{refused:?}");
    assert_eq!(
        (refused.code, host.read("/sys/kernel/mm/ksm/run")),
        (FailureCode::HostUnfit, "0\n".to_owned())
    );
}

#[test]
fn a_half_applied_profile_is_restored_by_recover_and_by_the_next_who_applies() {
    let host = Host::new();
    let files = || host.folder.path().join("state/.host");
    for by_recover in [true, false] {
        host.apply(&SOME).unwrap();
        // As a command leaves it that is killed before its last step.
        fs::rename(files().join("applied.json"), files().join("applying.json")).unwrap();
        host.write("/proc/sys/vm/swappiness", "60\n");
        if by_recover {
            assert_eq!(host.journal().restore_half().unwrap().len(), 3);
        } else {
            host.write("/sys/block/vda/queue/nr_requests", "33\n");
            let done = host.apply(&[("ksm", "on")]).unwrap();
            let [other] = &done.changed_by_others[..] else { panic!("{done:?}") };
            assert!(other.contains("nr_requests") && other.contains("it is 33 now"), "{other}");
            restore_from(&host.journal()).unwrap();
            host.write("/sys/block/vda/queue/nr_requests", "256\n");
        }
        host.is_as_before();
    }
}

#[test]
fn a_value_that_the_kernel_rounded_before_the_command_was_killed_is_restored() {
    let host = Host::new();
    host.apply(&SOME).unwrap();
    let files = host.folder.path().join("state/.host");
    fs::rename(files.join("applied.json"), files.join("applying.json")).unwrap();
    // Written, and not read back; the next one was not written.
    host.write("/proc/sys/net/ipv4/tcp_rmem", "4096\t131072\t16777152\n");
    host.write("/sys/block/vda/queue/nr_requests", "256\n");
    assert!(host.journal().restore_half().unwrap().iter().all(|outcome| outcome.now == Now::AsFound));
    host.is_as_before();
}

#[test]
fn a_value_of_another_program_is_left_alone_and_named() {
    let host = Host::new();
    host.apply(&SOME).unwrap();
    host.write("/proc/sys/vm/swappiness", "33\n");
    let restored = restore_from(&host.journal()).unwrap();
    let [other] = &restored.changed_by_others[..] else { panic!("{restored:?}") };
    assert!(other.contains("it was 60, Tilemark set 10, and it is 33 now"), "{other}");
    assert_eq!((host.read("/proc/sys/vm/swappiness").as_str(), restored.restored.len()), ("33\n", 2));
}

#[test]
fn what_a_boot_undid_is_not_replayed() {
    let host = Host::new();
    host.apply(&SOME).unwrap();
    host.write("/proc/sys/vm/swappiness", "60\n");
    let next = host.journal_in("next-boot");
    assert_eq!(status_from(&next).unwrap().profile, None);
    assert_eq!(restore_from(&next).unwrap().restored.len(), 0);
    assert_eq!(host.read("/sys/block/vda/queue/nr_requests"), "64", "these are the new boot's own");
}

#[test]
fn a_setting_that_is_refused_refuses_all_of_them_and_nothing_is_touched() {
    let host = Host::new();
    for (bad, said) in [
        (("thp", "sometimes"), "it accepts always, madvise, never"),
        (("vm.swapiness", "1"), "Did you mean `vm.swappiness`?"),
        (("hugepages.2MiB.node3", "1"), "no node 3"),
        (("no.such", "1"), "no setting is called `no.such`"),
    ] {
        let refused = host.apply(&[("vm.swappiness", "10"), bad]).unwrap_err();
        assert!(refused.message.contains(said), "{refused:?}");
        host.is_as_before();
    }
    let refused = host.apply(&[("thp", "sometimes"), ("no.such", "1")]).unwrap_err();
    assert_eq!(refused.causes.len(), 2, "{refused:?}");
    let twice = [("block.*.nr_requests", "64"), ("block.vda.nr_requests", "32")];
    let refused = host.apply(&twice).unwrap_err();
    assert!(refused.message.contains("`block.*.nr_requests` wants 64"), "{refused:?}");
    host.is_as_before();
    assert!(host.apply(&[twice[0], ("block.vda.nr_requests", "64")]).is_ok(), "they agree");
}

#[test]
fn a_profile_that_is_refused_is_not_offered_and_a_mistake_in_it_is_not_taken_for_a_difference() {
    let host = Host::new();
    let two_values = [("block.*.nr_requests", "64"), ("block.vda.nr_requests", "32")];
    for (settings, is_mistake) in [
        (&[("vm.swapiness", "10")][..], true),
        (&[("no.such", "1")], true),
        (&[("thp", "sometimes")], true),
        (&two_values, true),
        // Another host, or this one with a module more, has it.
        (&[("hugepages.2MiB.node3", "1")], false),
    ] {
        let plan = host.plan(settings);
        assert!(!plan.is_applicable(), "{plan:?}");
        let refused = agreed(&plan, &Consent::default()).unwrap_err();
        assert_eq!(refused.code, FailureCode::HostUnfit);
        assert!(!refused.remedy.contains("--yes"), "{refused:?}");
        let checked = plan.check_profile().map_err(|failure| failure.code);
        assert_eq!(checked, if is_mistake { Err(FailureCode::BadInput) } else { Ok(()) }, "{plan:?}");
    }
    let lacking = host.plan(&[("hugepages.2MiB.node3", "1")]);
    assert!(agreed(&lacking, &Consent::default()).unwrap_err().remedy.contains("`optional = true`"));
    assert_eq!(verified(lacking, &[], &[]).differences.len(), 1);
    let fits = host.plan(&[("vm.swappiness", "10")]);
    assert!(fits.is_applicable() && fits.check_profile().is_ok());
}

/// The keys of all objects in a document.
fn keys_of(document: &Value, keys: &mut BTreeSet<String>) {
    match document {
        Value::Object(object) => {
            keys.extend(object.keys().cloned());
            object.values().for_each(|value| keys_of(value, keys));
        }
        Value::Array(items) => items.iter().for_each(|item| keys_of(item, keys)),
        _ => {}
    }
}

#[test]
fn the_page_of_the_record_has_every_field_and_state_of_a_plan() {
    let host = Host::new();
    host.write("/proc/17/comm", "tuned\n");
    let text = "schema = 1\nname = \"test\"\nabout = \"A test.\"\n[[setting]]\nkey = \"vm.swappiness\"\nvalue = \"10\"\n\
                then = \"0\"\neffect = \"more\"\nnote = \"a note\"\n[[setting]]\nkey = \"no.such\"\nvalue = \"1\"\n\
                [[setting]]\nkey = \"firmware.sleep\"\nthen = \"off\"\ntoday = \"gone\"\n";
    let plan = plan_on(&host.root(), &Profile::from_toml(text, "test").unwrap());
    assert!(!plan.rivals.is_empty() && !plan.not_set.is_empty(), "{plan:?}");
    let mut keys = BTreeSet::new();
    keys_of(&serde_json::to_value(&plan).unwrap(), &mut keys);
    assert!(
        ["why", "then", "effect", "note", "keys", "today"].iter().all(|key| keys.contains(*key)),
        "{keys:?}"
    );
    for state in
        [State::AsWanted, State::Changes, State::Skipped, State::Refused, State::LeftOut, State::Spread]
    {
        keys.insert(serde_json::to_value(state).unwrap().as_str().unwrap().to_owned());
    }
    let page = include_str!("../../../../docs/record.md");
    let row = page.lines().find(|line| line.starts_with("| `host plan` |")).unwrap();
    let is_missing =
        |key: &&String| !row.contains(&format!("`{key}`")) && !row.contains(&format!("`{key}[]`"));
    let missing: Vec<&String> = keys.iter().filter(is_missing).collect();
    assert!(missing.is_empty(), "{missing:?} are not in docs/record.md");
}

#[test]
fn a_dangerous_setting_has_to_be_named() {
    let host = Host::new();
    let plan = host.plan(&[("kernel.randomize_va_space", "0"), ("vm.swappiness", "10")]);
    let needed: Vec<&str> = plan.needs_consent().iter().map(|planned| planned.key.as_str()).collect();
    assert_eq!(needed, ["kernel.randomize_va_space"]);
    assert!(plan.text().contains("--allow kernel.randomize_va_space"), "{}", plan.text());
    let agreed = |yes, allow: &[String]| agreed(&plan, &Consent { yes, allow: allow.to_vec() });
    let [named, absent] = ["kernel.randomize_va_space", "thp"].map(|key| vec![key.to_owned()]);
    assert!(agreed(false, &named).unwrap_err().remedy.contains("--yes"));
    assert!(agreed(true, &absent).unwrap_err().message.contains("`thp` is not a setting of the profile"));
    assert!(agreed(true, &named).is_ok());

    let dangerous = profile(&[("kernel.randomize_va_space", "0"), ("vm.swappiness", "10")]);
    let done = apply_on(&host.root(), &host.journal(), &dangerous, &[]).unwrap();
    assert_eq!((done.changed.len(), done.left_out.len()), (1, 1), "{done:?}");
    assert!(done.left_out[0].contains("`--allow kernel.randomize_va_space` includes it"), "{done:?}");
    let compared = |allow: &[String]| verified(plan_on(&host.root(), &dangerous), allow, &[]);
    assert_eq!((compared(&[]).differences.len(), compared(&[]).left_out.len()), (0, 1));
    assert_eq!((compared(&named).differences.len(), compared(&named).left_out.len()), (1, 0));
    restore_from(&host.journal()).unwrap();
    host.is_as_before();
    assert_eq!(apply_on(&host.root(), &host.journal(), &dangerous, &named).unwrap().changed.len(), 2);
    restore_from(&host.journal()).unwrap();
    host.is_as_before();
    // What has its value already changes nothing.
    assert!(host.plan(&[("kernel.randomize_va_space", "2")]).needs_consent().is_empty());
}

#[test]
fn a_program_that_changes_the_same_settings_is_named_with_what_to_do() {
    let host = Host::new();
    // Any user can call a program so.
    host.write("/proc/16/comm", "tuned\n");
    host.write("/proc/16/status", "Name:\ttuned\nUid:\t1000\t1000\t1000\t1000\n");
    host.write("/proc/17/comm", "tuned\n");
    host.write("/proc/17/status", "Name:\ttuned\nUid:\t0\t0\t0\t0\n");
    host.write("/proc/18/comm", "irqbalance\n");
    let refused = host.apply(&SOME).unwrap_err();
    assert!(refused.message.contains("tuned runs (process 17) and changes vm.swappiness"), "{refused:?}");
    assert!(refused.remedy.contains("systemctl stop tuned"), "{refused:?}");
    host.is_as_before();
    // It changes nothing of this one.
    assert_eq!(host.plan(&[("thp", "madvise")]).rivals, []);
    // Its plugin sysctl sets all of these.
    host.write("/proc/sys/fs/aio-max-nr", "65536\n");
    let refused = host.apply(&[("fs.aio-max-nr", "1048576")]).unwrap_err();
    assert!(refused.message.contains("tuned runs (process 17) and changes fs.aio-max-nr"), "{refused:?}");
}

#[test]
fn a_program_whose_service_is_not_stopped_here_is_named_although_the_profile_stops_it() {
    let host = Host::new();
    host.write("/proc/17/comm", "tuned\n");
    // A folder that plays a host has no services.
    let plan = host.plan(&[("?service.tuned", "stopped"), ("vm.swappiness", "10")]);
    assert_eq!(states(&plan), [("service.tuned", State::Skipped), ("vm.swappiness", State::Changes)]);
    assert_eq!(plan.rivals.len(), 1);
    assert_eq!(plan.rivals[0].program, "tuned");
}

#[test]
fn an_optional_key_that_kernels_no_longer_have_is_skipped_as_one_that_this_host_lacks() {
    let host = Host::new();
    let optional = [("vm.swappiness", "10"), ("?kernel.sched_min_granularity_ns", "10000000")];
    let plan = host.plan(&optional);
    assert_eq!(plan.settings[1].state, State::Skipped);
    assert!(plan.is_applicable() && plan.check_profile().is_ok(), "{plan:?}");
    let compared = verified(plan, &[], &[]);
    assert_eq!((compared.differences.len(), compared.skipped.len()), (1, 1), "{compared:?}");
    assert_eq!(host.apply(&optional).unwrap().skipped.len(), 1);
    restore_from(&host.journal()).unwrap();
    let plain = host.plan(&[("kernel.sched_min_granularity_ns", "10000000")]);
    assert_eq!(plain.settings[0].state, State::Refused);
    assert_eq!(plain.check_profile().unwrap_err().code, FailureCode::BadInput);
}

#[test]
fn a_limit_of_processes_is_left_to_runs() {
    let host = Host::new();
    let plan = host.plan(&[("limit.nofile", "1048576")]);
    assert_eq!(states(&plan), [("limit.nofile", State::Skipped)]);
    assert!(plan.text().contains("host.setting.limit.nofile"), "{}", plan.text());
}

#[test]
fn a_journal_names_its_profile_even_where_a_setting_could_not_be_restored() {
    let host = Host::new();
    host.apply(&SOME).unwrap();
    let path = host.root().path("/proc/sys/vm/swappiness");
    // Root may write every file, but no folder.
    fs::remove_file(&path).unwrap();
    fs::create_dir(&path).unwrap();
    let failure = restore_from(&host.journal()).unwrap_err();
    assert_eq!(failure.code, FailureCode::NotRestored);
    assert!(failure.causes[0].contains("vm.swappiness") && failure.remedy.contains("by hand"), "{failure:?}");
    let applied = host.journal().applied().unwrap().unwrap();
    assert_eq!((applied.profile.as_str(), applied.held.len()), ("test", 1));
    fs::remove_dir(&path).unwrap();
    host.write("/proc/sys/vm/swappiness", "10");
    restore_from(&host.journal()).unwrap();
    host.is_as_before();
}

#[test]
fn a_setting_whose_device_is_gone_does_not_keep_the_next_profile_away() {
    let host = Host::new();
    host.apply(&SOME).unwrap();
    fs::remove_dir_all(host.root().path("/sys/block/vda")).unwrap();
    let restored = restore_from(&host.journal()).unwrap();
    assert_eq!((restored.restored.len(), restored.changed_by_others.len()), (2, 0));
    assert!(restored.gone[0].contains("nr_requests") && restored.gone[0].contains("gone"), "{restored:?}");
    assert_eq!(status_from(&host.journal()).unwrap().profile, None);
    host.apply(&[("ksm", "on")]).unwrap();
}

#[test]
fn what_another_program_changed_is_named_beside_what_could_not_be_restored() {
    let host = Host::new();
    host.apply(&SOME).unwrap();
    host.write("/sys/block/vda/queue/nr_requests", "33\n");
    let path = host.root().path("/proc/sys/vm/swappiness");
    fs::remove_file(&path).unwrap();
    fs::create_dir(&path).unwrap();
    let failure = restore_from(&host.journal()).unwrap_err();
    let [left, other] = &failure.causes[..] else { panic!("{failure:?}") };
    assert!(left.contains("vm.swappiness") && other.contains("it is 33 now"), "{failure:?}");
    assert!(failure.message.starts_with("1 setting could not"), "{failure:?}");
}

#[test]
fn a_refused_profile_that_could_not_be_undone_is_not_called_unapplied() {
    let host = Host::new();
    let refused = || HostError::NoControlGroups;
    let failure = not_applied(&host.journal(), refused());
    assert_eq!(failure.code, FailureCode::HostUnfit);
    assert!(failure.message.starts_with("nothing was applied: "), "{failure:?}");
    // As the journal is left where a later setting is refused and an earlier one cannot be undone.
    host.apply(&SOME).unwrap();
    let files = host.folder.path().join("state/.host");
    fs::rename(files.join("applied.json"), files.join("applying.json")).unwrap();
    host.write("/proc/sys/vm/swappiness", "60\n");
    let failure = not_applied(&host.journal(), refused());
    assert_eq!(failure.code, FailureCode::NotRestored);
    assert!(!failure.message.contains("nothing was applied"), "{failure:?}");
    assert!(failure.message.contains("2 settings could not be restored"), "{failure:?}");
    assert!(failure.causes.iter().any(|cause| cause.contains("nr_requests")), "{failure:?}");
    let status = status_from(&host.journal()).unwrap();
    assert_eq!((status.profile.as_deref(), status.in_part, status.settings.len()), (Some("test"), true, 3));
    // Where it is all undone, the kernel's refusal is what counts.
    host.journal().restore_half().unwrap();
    assert_eq!(not_applied(&host.journal(), refused()).code, FailureCode::HostUnfit);
    host.is_as_before();
}

#[test]
fn what_has_its_value_already_is_looked_at_too_since_a_service_may_set_it_back() {
    let host = Host::new();
    let guard = ("kernel.randomize_va_space", "2");
    let set = |allow: &[String]| {
        let plan = host.plan(&[&SOME[..], &[guard, ("?module.absent.x", "1")]].concat());
        to_set(&plan, allow).into_iter().map(|setting| setting.name).collect::<Vec<_>>()
    };
    let some = ["vm.swappiness", "net.ipv4.tcp_rmem", "thp", "block.vda.nr_requests"];
    assert_eq!(set(&[]), some);
    assert_eq!(set(&[guard.0.to_owned()]), [&some[..], &[guard.0]].concat());
    let done = host.apply(&SOME).unwrap();
    assert_eq!((done.changed.len(), done.as_wanted), (3, 1), "without such a service it is nobody's");
    assert_eq!(host.journal().applied().unwrap().unwrap().held.len(), 3);
}

#[test]
fn the_depth_of_each_queue_is_held_where_two_lines_name_its_scheduler() {
    let host = Host::new();
    host.write("/sys/block/vdb/queue/nr_requests", "128\n");
    host.write("/sys/block/vdb/device/vendor", "0x1af4\n");
    for device in ["vda", "vdb"] {
        host.write(&format!("/sys/block/{device}/queue/scheduler"), "[none] mq-deadline\n");
    }
    let plan = host.plan(&[("block.vda.scheduler", "mq-deadline"), ("block.*.scheduler", "mq-deadline")]);
    assert_eq!(plan.settings.len(), 2);
    let mut depths: Vec<String> =
        plan.changes().flat_map(|planned| &planned.followers).map(|depth| depth.name.clone()).collect();
    depths.sort();
    depths.dedup();
    assert_eq!(depths, ["block.vda.nr_requests", "block.vdb.nr_requests"]);
}

/// Prints how long the largest profile takes, on files. Run it with `cargo test -- --ignored --nocapture`.
#[test]
#[ignore = "it prints times, and asserts none: `cargo xtask bench profile` runs it"]
fn times_of_a_large_profile() {
    let host = Host::new();
    let settings: Vec<Setting> = (0..300)
        .map(|number| {
            let path = format!("/proc/sys/vm/value{number}");
            host.write(&path, "1\n");
            Setting::file(format!("value {number}"), host.root().path(&path), Form::Words, "2")
        })
        .collect();
    let begun = std::time::Instant::now();
    host.journal().apply("large", &settings).unwrap();
    let applied = begun.elapsed();
    assert!(host.journal().restore_all().unwrap().len() == 300);
    let restored = begun.elapsed() - applied;
    println!("{{\"apply_s\":{},\"restore_s\":{}}}", applied.as_secs_f64(), restored.as_secs_f64());
    assert!(Path::new(&host.folder.path().join("state/.host")).exists());
}
