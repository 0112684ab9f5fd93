//! Profiles in the formats of other programs.
#![allow(clippy::unwrap_used)] // only tests

use std::collections::BTreeMap;

use tilemark_host::exchange::{Format, export, import_tuned};
use tilemark_host::setting::known;
use tilemark_plan::profile::{PROFILES, Profile, builtin};

const FORMATS: [Format; 3] = [Format::Tuned, Format::Sysctl, Format::KernelLine];

fn profile(name: &str) -> Profile {
    Profile::from_toml(builtin(name).unwrap().text, name).unwrap()
}

fn all() -> impl Iterator<Item = Profile> {
    PROFILES.into_iter().map(|builtin| profile(builtin.name))
}

#[test]
fn exports_of_the_consolidation_paper() {
    for format in FORMATS {
        insta::assert_snapshot!(
            format!("consolidation_{}", format.name()),
            export(&profile("consolidation-2009"), format)
        );
    }
}

#[test]
fn exports_of_the_current_profile() {
    for format in FORMATS {
        insta::assert_snapshot!(format!("current_{}", format.name()), export(&profile("current"), format));
    }
}

#[test]
fn exports_of_devices_nodes_and_boot_parameters() {
    let text = r#"
schema = 1
name = "mine"
about = "Two lines\nof text."
[[setting]]
key = "nic.eth0.rx_ring"
value = "4096"
[[setting]]
key = "nic.eth0.tx_ring"
value = "1024"
[[setting]]
key = "nic.eth1.tso"
value = "off"
[[setting]]
key = "nic.eth1.rps_cpus"
value = "0-3"
[[setting]]
key = "block.*.read_ahead_kb"
value = "128"
[[setting]]
key = "block.sda.nr_requests"
value = "64"
[[setting]]
key = "hugepages.1GiB.node0"
value = "2"
[[setting]]
key = "hugepages.1GiB.node1"
value = "3"
[[setting]]
key = "hugepages.2MiB"
value = "100"
[[setting]]
key = "cpu.idle_latency_us"
value = "0"
[[setting]]
key = "cpuset.isolated"
value = "2-3"
[[setting]]
key = "irqbalance"
value = "stopped"
[[setting]]
key = "module.kvm_amd.avic"
value = "1"
[[setting]]
key = "smt"
value = "off"
[[setting]]
key = "kernel.core_pattern"
value = "a\nb"
[[setting]]
key = "boot.iommu"
then = "iommu=pt"
today = "same"
[[setting]]
key = "boot.divider"
then = "divider=10"
today = "obsolete"
"#;
    let mine = Profile::from_toml(text, "mine").unwrap();
    for format in FORMATS {
        insta::assert_snapshot!(format!("mine_{}", format.name()), export(&mine, format));
    }
}

#[test]
fn no_setting_is_dropped_by_any_format() {
    for profile in all() {
        for format in FORMATS {
            let text = export(&profile, format);
            for setting in profile.settings.iter().filter(|setting| setting.value.is_none()) {
                let then = setting.then.as_deref().unwrap_or("nothing of then");
                assert!(
                    text.contains(&setting.key) || text.contains(then),
                    "{}: {}",
                    profile.name,
                    setting.key
                );
            }
            let values = profile.settings.iter().filter(|setting| setting.value.is_some()).count();
            let left_out = text.lines().filter(|line| line.starts_with("# not in this format: ")).count();
            assert_eq!(said(&text, format), values - left_out, "{} {}\n{text}", profile.name, format.name());
        }
    }
}

/// How many settings a text has, comments apart.
fn said(text: &str, format: Format) -> usize {
    let lines = text.lines().filter(|line| !line.starts_with('#') && !line.is_empty());
    match format {
        Format::Sysctl => lines.count(),
        Format::Tuned => lines
            .filter(|line| !line.starts_with('['))
            .filter(|line| !["summary=", "type=", "devices="].iter().any(|start| line.starts_with(start)))
            .count(),
        Format::KernelLine => {
            let line: String = lines.collect();
            let is_word = |word: &&str| word.contains('=') || *word == "nosmt";
            let of_boot = ["intel_iommu=", "iommu=", "hugepagesz="];
            line.split_whitespace()
                .filter(is_word)
                .filter(|word| !of_boot.iter().any(|start| word.starts_with(start)))
                .count()
        }
    }
}

#[test]
fn settings_that_tuned_can_express_are_exported_and_imported_unchanged() {
    for profile in all() {
        let text = export(&profile, Format::Tuned);
        let back = import_tuned(&text, &profile.name);
        assert_eq!(back.not_taken, [], "{}", profile.name);
        let values = |profile: &Profile| -> BTreeMap<String, String> {
            let set = profile.settings.iter();
            set.filter_map(|setting| Some((setting.key.clone(), setting.value.clone()?))).collect()
        };
        let mut sent = values(&profile);
        sent.retain(|key, _| !text.contains(&format!("# not in this format: {key} =")));
        assert_eq!(values(&back.profile), sent);
    }
}

#[test]
fn every_value_of_a_profile_has_a_key_of_the_catalogue() {
    for profile in all() {
        for setting in profile.settings.iter().filter(|setting| setting.value.is_some()) {
            known::find(&setting.key)
                .unwrap_or_else(|error| panic!("{}: {}", profile.name, error.in_a_line()));
        }
    }
}

#[test]
fn a_profile_of_tuned_is_read_and_what_cannot_be_taken_is_named() {
    let text = include_str!("tuned/database.conf");
    let imported = import_tuned(text, "data base");
    let toml = imported.to_toml();
    insta::assert_snapshot!("imported", toml);
    let again = Profile::from_toml(&toml, "imported").unwrap();
    assert_eq!(again, imported.profile);
}

#[test]
fn every_line_of_a_profile_of_tuned_is_taken_or_named() {
    let text = include_str!("tuned/database.conf");
    let imported = import_tuned(text, "database");
    // Lines that are about a section, or become the profile's `about`, and those that become two settings.
    let options =
        text.lines().filter(|line| line.contains('=') && !line.trim_start().starts_with(['#', ';']));
    let meta = ["type", "devices", "enabled", "summary"];
    let options = options.filter(|line| !meta.contains(&line.split('=').next().unwrap().trim())).count();
    let pairs = 3; // two devices, two rings, two offloads
    assert_eq!(imported.profile.settings.len() + imported.not_taken.len(), options + pairs);
}

#[test]
fn what_tuned_sets_on_other_hardware_only_is_not_taken() {
    let imported = import_tuned(include_str!("tuned/hardware.conf"), "hardware");
    let set = imported.profile.settings.iter();
    let set: Vec<(&str, &str)> =
        set.map(|one| (one.key.as_str(), one.value.as_deref().unwrap_or_default())).collect();
    assert_eq!(
        set,
        [
            ("vm.swappiness", "15"),
            ("kernel.core_pattern", "core#1"),
            ("net.core.somaxconn", "4096"),
            ("vm.dirty_ratio", "40"),
            ("vm.dirty_background_bytes", "100000000"),
            ("vm.zone_reclaim_mode", "0"),
        ]
    );
    assert_eq!(imported.profile.about, "Several kinds of hardware");
    for (line, why) in [
        (6, "line 7"),
        (12, "uname_regex"),
        (13, "uname_regex"),
        (18, "percent"),
        (22, "cpuinfo_regex"),
        (23, "cpuinfo_regex"),
        (27, "devices_udev_regex"),
        (28, "devices_udev_regex"),
        (33, "!sda"),
        (38, "!sdb"),
        (43, "variable"),
        (48, "not enabled"),
        (53, "line 60"),
    ] {
        let named = imported.not_taken.iter().find(|not_taken| not_taken.line == line);
        let named = named.unwrap_or_else(|| panic!("line {line} is not named: {:#?}", imported.not_taken));
        assert!(named.why.contains(why), "{named:?}");
    }
    assert_eq!(imported.not_taken.len(), 13, "{:#?}", imported.not_taken);
}

/// What a profile of tuned sets, `key=value`, and why its other lines are not taken.
fn of_tuned(text: &str) -> (Vec<String>, Vec<String>) {
    let imported = import_tuned(text, "test");
    let set = imported.profile.settings.into_iter();
    let set = set.map(|one| format!("{}={}", one.key, one.value.unwrap_or_default())).collect();
    (set, imported.not_taken.into_iter().map(|not_taken| not_taken.why).collect())
}

#[test]
fn a_limit_of_0_in_the_kernels_file_is_not_taken_for_one_that_lets_nothing_sleep() {
    for (line, key) in [
        ("pm_qos_resume_latency_us=n/a", "cpu.idle_latency_us=0"),
        ("pm_qos_resume_latency_us=100", "cpu.idle_latency_us=100"),
        // By /dev/cpu_dma_latency, where 0 lets nothing sleep.
        ("force_latency=0", "cpu.idle_latency_us=0"),
    ] {
        assert_eq!(of_tuned(&format!("[cpu]\n{line}\n")), (vec![key.to_owned()], vec![]));
    }
    let (set, not_taken) = of_tuned("[cpu]\npm_qos_resume_latency_us=0\n");
    assert!(set.is_empty() && not_taken[0].starts_with("0 means no limit"), "{set:?} {not_taken:?}");
}

#[test]
fn a_line_for_network_devices_by_a_pattern_is_named_and_not_taken_for_some_of_them() {
    let (set, not_taken) = of_tuned("[net]\ndevices=eth0, ens*\ntxqueuelen=5000\n");
    assert!(set.is_empty() && not_taken[0].ends_with("devices=eth0, ens*"), "{set:?} {not_taken:?}");
    let (set, _) = of_tuned("[net]\ndevices=eth0, eth1\ntxqueuelen=5000\n");
    assert_eq!(set, ["nic.eth0.tx_queue_len=5000", "nic.eth1.tx_queue_len=5000"]);
}

#[test]
fn a_bar_parts_values_only_of_options_that_take_the_first_of_several() {
    for (line, set) in [
        ("[sysctl]\nkernel.core_pattern=|/bin/x %p", "kernel.core_pattern=|/bin/x %p"),
        ("[cpu]\ngovernor=schedutil|ondemand", "cpu.governor=schedutil"),
        ("[cpu]\nenergy_performance_preference=performance|0", "cpu.energy_preference=performance"),
        ("[disk]\nelevator=none|noop", "block.*.scheduler=none"),
    ] {
        assert_eq!(of_tuned(line), (vec![set.to_owned()], vec![]));
    }
}

/// A setting that no check of a profile has seen.
fn unchecked(key: &str, value: &str) -> Profile {
    let mut profile = profile("current");
    profile.settings.truncate(1);
    profile.settings[0] = tilemark_plan::profile::ProfileSetting {
        key: key.into(),
        value: Some(value.into()),
        ..profile.settings[0].clone()
    };
    profile
}

#[test]
fn neither_a_key_nor_a_value_adds_a_line_or_a_word_to_an_export() {
    for (key, value) in [
        ("vm.x = 1\nkernel.core_pattern = |/tmp/evil\nvm.y", "1"),
        ("vm.z init=/bin/sh", "1"),
        ("kernel.core_pattern", "a\" init=/bin/sh \""),
        ("thp", "never init=/bin/sh"),
        ("hugepages.2MiB", "1 init=/bin/sh"),
        ("no.such", "1\u{1b}[2J"),
    ] {
        for format in FORMATS {
            let text = export(&unchecked(key, value), format);
            let body = text.lines().filter(|line| !line.starts_with('#')).collect::<Vec<_>>().join("\n");
            let is_injected = body.lines().any(|line| line.starts_with("kernel.core_pattern = |/tmp/evil"))
                || (format == Format::KernelLine && body.contains("init="))
                || body.contains("vm.z init")
                || text.contains('\u{1b}');
            assert!(!is_injected, "{key:?} {value:?}: {text}");
        }
    }
    let boot = Profile { settings: Vec::new(), ..profile("current") };
    let line = |then: &str| {
        let mut boot = boot.clone();
        boot.settings = unchecked("boot.x", "").settings;
        boot.settings[0].value = None;
        boot.settings[0].then = Some(then.to_owned());
        boot.settings[0].today = Some(tilemark_plan::profile::Today::Same);
        export(&boot, Format::KernelLine)
    };
    assert!(line("iommu=pt").ends_with("\niommu=pt\n"));
    assert!(line("iommu=pt\nroot=/dev/sdz").ends_with("\n\n"), "{}", line("iommu=pt\nroot=/dev/sdz"));
}

#[test]
fn a_unit_has_its_own_name_in_an_export() {
    for (key, mask) in [
        ("service.cups.socket", "systemd.mask=cups.socket"),
        ("service.cups", "systemd.mask=cups.service"),
        ("service.cups.service", "systemd.mask=cups.service"),
        ("irqbalance", "systemd.mask=irqbalance.service"),
    ] {
        let text = export(&unchecked(key, "stopped"), Format::KernelLine);
        assert_eq!(text.lines().last(), Some(mask), "{text}");
    }
    let tuned = export(&unchecked("service.cups.socket", "stopped"), Format::Tuned);
    assert!(tuned.contains("service.cups.socket=stop"), "{tuned}");
}
