//! The catalogue on a folder that plays a host.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use super::*;
use crate::setting::reach::{KERNEL, Kernel};
use crate::setting::{Form, Journal};

/// A folder that plays a host.
struct Fake {
    folder: tempfile::TempDir,
}

impl Fake {
    fn with(files: &[(&str, &str)]) -> Self {
        let fake = Self { folder: tempfile::tempdir().unwrap() };
        files.iter().for_each(|(path, text)| fake.write(path, text));
        fake
    }

    fn write(&self, path: &str, text: &str) {
        let file = self.root().path(path);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, text).unwrap();
    }

    fn root(&self) -> Root {
        Root::at(self.folder.path())
    }

    fn resolve(&self, key: &str, value: &str) -> Result<Vec<Setting>, HostError> {
        resolve(&self.root(), key, value)
    }

    fn text(&self, path: &str) -> String {
        fs::read_to_string(self.root().path(path)).unwrap()
    }

    fn journal(&self) -> Journal {
        Journal::at(self.folder.path().join("settings.json"), "this-boot")
    }

    /// What is refused, and what to do about it.
    fn refused(&self, key: &str, value: &str) -> String {
        let error = self.resolve(key, value).unwrap_err();
        format!("{}. {}", error.in_a_line(), error.remedy())
    }

    /// The files that are only held for a key at a value; what is set comes last.
    #[track_caller]
    fn followers(&self, key: &str, value: &str) -> Vec<String> {
        let settings = self.resolve(key, value).unwrap();
        let (own, followers) = settings.split_last().unwrap();
        assert!(own.value == value && !own.is_follower(), "{key}: {own:?}");
        assert!(followers.iter().all(Setting::is_follower), "{key}");
        let path = |follower: &Setting| {
            format!("/{}", follower.path.strip_prefix(self.folder.path()).unwrap().display())
        };
        followers.iter().map(path).collect()
    }

    /// `path = value` of each setting.
    fn shown(&self, key: &str, value: &str) -> Vec<String> {
        let shown = |setting: &Setting| {
            let path = setting.path.strip_prefix(self.folder.path()).unwrap();
            format!("/{} = {}", path.display(), setting.value)
        };
        self.resolve(key, value).unwrap().iter().map(shown).collect()
    }
}

const ONLINE: (&str, &str) = ("/sys/devices/system/cpu/online", "0-2\n");
const PRESENT: (&str, &str) = ("/sys/devices/system/cpu/present", "0-3\n");

/// Has this play the kernel: it is handed each file that is written, and the text.
fn plays(kernel: impl FnMut(&Path, &str) -> io::Result<()> + 'static) {
    let kernel: Kernel = Box::new(kernel);
    KERNEL.set(Some(kernel));
}

#[test]
fn every_key_is_there_once_and_has_its_source() {
    let mut keys: Vec<&str> = all().map(|known| known.key).collect();
    let count = keys.len();
    keys.sort_unstable();
    keys.dedup();
    assert_eq!(keys.len(), count);
    for known in all() {
        assert!(!known.source.is_empty() && !known.about.is_empty(), "{}", known.key);
        assert!(!known.about.ends_with('.'), "{}: it is a part of a sentence", known.key);
    }
}

#[test]
fn every_key_is_known_to_its_maker() {
    let fake = Fake::with(&[]);
    for known in all() {
        let value = match known.accepts {
            Accepts::OneOf(words) => words.split('|').next().unwrap().to_owned(),
            Accepts::Number { least, .. } => least.to_string(),
            _ => "0".to_owned(),
        };
        let key = known.key.replace(['{', '}'], "");
        let made = fake.resolve(&key, &value);
        assert!(!matches!(made, Err(HostError::UnknownSetting { .. })), "{key}: {made:?}");
    }
}

#[test]
fn a_key_is_matched_with_its_names() {
    assert_eq!(matched("block.{device}.scheduler", "block.*.scheduler"), Some(vec!["*"]));
    assert_eq!(matched("nic.{device}.tso", "nic.eth0.100.tso"), Some(vec!["eth0.100"]));
    assert_eq!(matched("module.{module}.{parameter}", "module.kvm.tdp_mmu"), Some(vec!["kvm", "tdp_mmu"]));
    for (pattern, key) in [
        ("thp", "thp.defrag"),
        ("block.{device}.scheduler", "block..scheduler"),
        ("block.{device}.scheduler", "block....scheduler"),
        ("module.{module}.{parameter}", "module.../etc.passwd"),
        ("service.{service}", "service."),
    ] {
        assert_eq!(matched(pattern, key), None, "{key}");
    }
}

#[test]
fn a_key_that_does_not_exist_is_refused_with_its_neighbours() {
    let fake = Fake::with(&[("/proc/sys/vm/swappiness", "60\n")]);
    let said = fake.refused("thp.defrg", "always");
    assert!(said.contains("`thp.defrg`. Did you mean `thp.defrag`"), "{said}");
    let said = fake.refused("vm.swapiness", "10");
    assert!(said.contains("there is no /proc/sys/vm/swapiness. Did you mean `vm.swappiness`?"), "{said}");
    let said = fake.refused("kernel.sched_min_granularity_ns", "10000000");
    assert!(said.contains("6.6") && said.contains("sched.base_slice_ns"), "{said}");
    let said = fake.refused("vm.//.//.shadow", "1");
    assert!(said.contains("no setting is called") || said.contains("there is no"), "{said}");
}

#[test]
fn a_sysctl_is_compared_word_by_word() {
    let fake = Fake::with(&[("/proc/sys/net/ipv4/tcp_rmem", "4096\t87380\t6291456\n")]);
    let [setting] = &fake.resolve("net.ipv4.tcp_rmem", "4096   87380 6291456").unwrap()[..] else { panic!() };
    assert_eq!((setting.now().unwrap(), &setting.form), (setting.value.clone(), &Form::Words));
    assert_eq!(find("net.ipv4.tcp_rmem").unwrap().place, Place::RunNetwork);
    assert_eq!(find("net.core.rmem_max").unwrap().place, Place::Host);
}

#[test]
fn every_folder_of_sysctls_has_a_key() {
    let fake = Fake::with(&[("/proc/sys/abi/vsyscall32", "1\n"), ("/proc/sys/crypto/fips_enabled", "0\n")]);
    assert_eq!(fake.shown("abi.vsyscall32", "0"), ["/proc/sys/abi/vsyscall32 = 0"]);
    assert_eq!(find("crypto.fips_enabled").unwrap().danger, Danger::Security);
    assert_eq!(fake.shown("crypto.fips_enabled", "0"), ["/proc/sys/crypto/fips_enabled = 0"]);
    for folder in ["abi", "crypto", "debug", "dev", "fs", "kernel", "net", "sunrpc", "user", "vm"] {
        assert!(find(&format!("{folder}.value")).is_ok(), "{folder}");
    }
}

/// The keys of all sysctls of the network that may be written here, without those of devices that only some hosts have.
fn network_keys() -> BTreeSet<String> {
    let mut folders = vec![PathBuf::from("/proc/sys/net")];
    let mut keys = BTreeSet::new();
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            let is_everywhere = matches!(&*name, "all" | "default" | "lo");
            match entry.metadata() {
                Ok(found) if found.is_dir() => {
                    let is_of_devices = folder.ends_with("conf") || folder.ends_with("neigh");
                    folders.extend((!is_of_devices || is_everywhere).then(|| entry.path()));
                }
                Ok(found) if !found.permissions().readonly() => {
                    let path = entry.path();
                    let path = path.strip_prefix("/proc/sys").unwrap().to_string_lossy();
                    keys.insert(path.replace('/', "."));
                }
                _ => {}
            }
        }
    }
    keys
}

#[test]
fn a_sysctl_of_the_network_is_the_runs_own_where_a_new_namespace_has_it() {
    if !rustix::process::geteuid().is_root() {
        return tilemark_fixtures::skipped("a network namespace needs root");
    }
    let new = std::thread::spawn(|| {
        tilemark_sys::namespace::own_network().unwrap();
        network_keys()
    });
    let (all, new) = (network_keys(), new.join().unwrap());
    assert!(new.contains("net.core.somaxconn") && new.len() < all.len());
    // Kernels before 6.8 have it for the whole host.
    let is_compared = |key: &&String| *key != "net.core.optmem_max";
    let is_wrong = |key: &&String| {
        let own = if new.contains(*key) { Place::RunNetwork } else { Place::Host };
        // One that does nothing any more has no entry.
        find(key).is_ok_and(|known| known.place != own)
    };
    let wrong: Vec<&String> = all.iter().filter(is_compared).filter(is_wrong).collect();
    assert!(wrong.is_empty(), "{wrong:?}");
}

#[test]
fn a_limit_in_bytes_is_held_with_its_ratio_and_0_is_refused() {
    let fake = Fake::with(&[("/proc/sys/vm/dirty_bytes", "0\n"), ("/proc/sys/vm/dirty_ratio", "20\n")]);
    assert_eq!(
        fake.shown("vm.dirty_bytes", "100000000"),
        ["/proc/sys/vm/dirty_bytes = 100000000", "/proc/sys/vm/dirty_ratio = 0"]
    );
    assert!(fake.refused("vm.dirty_bytes", "0").contains("vm.dirty_ratio"));
}

#[test]
fn what_the_kernel_changes_along_with_a_value_is_held_with_it() {
    let policy = "/sys/devices/system/cpu/cpufreq/policy0";
    let fake = Fake::with(&[
        (&format!("{policy}/scaling_governor"), "powersave\n"),
        (&format!("{policy}/energy_performance_preference"), "balance_performance\n"),
        ("/proc/sys/vm/overcommit_kbytes", "0\n"),
        ("/proc/sys/vm/overcommit_ratio", "50\n"),
        ("/proc/sys/vm/min_free_kbytes", "67584\n"),
        ("/sys/kernel/mm/transparent_hugepage/enabled", "always madvise [never]\n"),
        ("/sys/block/vda/queue/scheduler", "none [mq-deadline]\n"),
        ("/sys/block/vda/queue/nr_requests", "256\n"),
        ("/sys/block/vda/queue/iosched/async_depth", "192\n"),
        ("/sys/block/vda/queue/iosched/read_expire", "500\n"),
        ("/proc/sys/net/ipv4/tcp_congestion_control", "cubic\n"),
        ("/proc/sys/net/ipv4/tcp_allowed_congestion_control", "reno cubic\n"),
        ("/proc/sys/net/ipv4/ip_forward", "0\n"),
        ("/proc/sys/net/ipv4/conf/all/forwarding", "0\n"),
        ("/proc/sys/net/ipv4/conf/all/accept_redirects", "0\n"),
        ("/proc/sys/net/ipv4/conf/eth0/forwarding", "1\n"),
        ("/proc/sys/net/ipv6/conf/all/forwarding", "0\n"),
        ("/proc/sys/net/ipv6/conf/eth0/forwarding", "1\n"),
        ("/proc/sys/net/ipv6/conf/all/hop_limit", "64\n"),
        ("/proc/sys/net/ipv6/conf/eth0/hop_limit", "64\n"),
    ]);
    let of_every_device =
        ["force_forwarding", "addr_gen_mode", "ignore_routes_with_linkdown", "disable_ipv6"];
    for name in of_every_device {
        for (device, value) in [("all", "0\n"), ("default", "0\n"), ("eth0", "1\n")] {
            fake.write(&format!("/proc/sys/net/ipv6/conf/{device}/{name}"), value);
        }
    }
    let [ip4, ip6] = ["ipv4", "ipv6"].map(|version| format!("/proc/sys/net/{version}/conf"));
    let queue = "/sys/block/vda/queue";
    for (key, value, along) in [
        ("cpu.governor", "performance", &[format!("{policy}/energy_performance_preference")][..]),
        ("thp", "madvise", &["/proc/sys/vm/min_free_kbytes".to_owned()]),
        (
            "block.vda.scheduler",
            "none",
            &["iosched/async_depth", "iosched/read_expire", "nr_requests"]
                .map(|file| format!("{queue}/{file}")),
        ),
        ("block.vda.nr_requests", "64", &[format!("{queue}/iosched/async_depth")]),
        (
            "net.ipv4.ip_forward",
            "1",
            &[format!("{ip4}/eth0/forwarding"), format!("{ip4}/all/accept_redirects")],
        ),
        (
            "net.ipv4.conf.all.forwarding",
            "1",
            &[format!("{ip4}/eth0/forwarding"), format!("{ip4}/all/accept_redirects")],
        ),
        ("net.ipv6.conf.all.forwarding", "1", &[format!("{ip6}/eth0/forwarding")]),
        (
            "net.ipv4.tcp_congestion_control",
            "bbr",
            &["/proc/sys/net/ipv4/tcp_allowed_congestion_control".to_owned()],
        ),
        ("net.ipv6.conf.all.hop_limit", "32", &[]),
        ("net.ipv6.conf.eth0.addr_gen_mode", "2", &[]),
    ] {
        assert_eq!(fake.followers(key, value), along, "{key}");
    }
    for name in of_every_device {
        let along = ["default", "eth0"].map(|device| format!("{ip6}/{device}/{name}"));
        assert_eq!(fake.followers(&format!("net.ipv6.conf.all.{name}"), "1"), along);
    }
    assert_eq!(
        fake.shown("vm.overcommit_kbytes", "1000000"),
        ["/proc/sys/vm/overcommit_kbytes = 1000000", "/proc/sys/vm/overcommit_ratio = 0"]
    );
    assert!(fake.refused("vm.overcommit_kbytes", "0").contains("vm.overcommit_ratio"));
    // In the network of a run nobody may write it.
    let allowed = fake.root().path("/proc/sys/net/ipv4/tcp_allowed_congestion_control");
    fs::set_permissions(&allowed, fs::Permissions::from_mode(0o444)).unwrap();
    assert_eq!(fake.followers("net.ipv4.tcp_congestion_control", "bbr"), [""; 0]);
}

#[test]
fn what_a_congestion_control_allows_to_every_user_is_taken_back_after_it() {
    let [default, allowed] = ["tcp_congestion_control", "tcp_allowed_congestion_control"]
        .map(|name| format!("/proc/sys/net/ipv4/{name}"));
    let fake = Fake::with(&[(&default, "cubic\n"), (&allowed, "reno cubic\n")]);
    let journal = Journal::at(fake.folder.path().join("settings.json"), "this-boot");
    journal.hold(&fake.resolve("net.ipv4.tcp_congestion_control", "bbr").unwrap()).unwrap();
    // As the kernel does it.
    fs::write(fake.root().path(&allowed), "reno cubic bbr\n").unwrap();
    journal.restore().unwrap();
    let read = |path: &str| fs::read_to_string(fake.root().path(path)).unwrap();
    assert_eq!([read(&default), read(&allowed)], ["cubic\n", "reno cubic\n"]);
}

/// The kernel keeps the folder of a group whose processors were taken offline, and answers every read there with EBUSY.
#[test]
fn a_group_of_processors_that_are_offline_has_no_governor_to_set() {
    let frequency = "/sys/devices/system/cpu/cpufreq";
    let files = ["scaling_governor", "energy_performance_preference", "boost"];
    let fake = Fake::with(&[
        (&format!("{frequency}/policy0/scaling_governor"), "powersave\n"),
        (&format!("{frequency}/policy0/energy_performance_preference"), "balance_performance\n"),
        (&format!("{frequency}/policy0/boost"), "1\n"),
        (&format!("{frequency}/boost"), "1\n"),
    ]);
    let offline = |policy: &str| {
        // A read of a folder fails too.
        let folder = |file: &&str| fake.root().path(&format!("{frequency}/{policy}/{file}"));
        files.iter().for_each(|file| fs::create_dir_all(folder(file)).unwrap());
    };
    offline("policy1");
    for (key, value, file) in [
        ("cpu.governor", "performance", "policy0/scaling_governor"),
        ("cpu.energy_preference", "performance", "policy0/energy_performance_preference"),
        ("cpu.turbo", "off", "boost"),
    ] {
        let shown: Vec<String> = fake
            .resolve(key, value)
            .unwrap()
            .into_iter()
            .filter(|setting| !setting.is_follower())
            .map(|setting| setting.path.display().to_string())
            .collect();
        let [only] = &shown[..] else { panic!("{key}: {shown:?}") };
        assert!(only.ends_with(&format!("{frequency}/{file}")), "{key}: {only}");
    }
    fs::remove_dir_all(fake.root().path(&format!("{frequency}/policy0"))).unwrap();
    assert!(fake.resolve("cpu.governor", "performance").unwrap_err().is_lacking());
}

#[test]
fn what_a_governor_loses_when_it_is_left_is_held_with_it() {
    let frequency = "/sys/devices/system/cpu/cpufreq";
    let fake = Fake::with(&[
        (&format!("{frequency}/policy0/scaling_governor"), "schedutil\n"),
        (&format!("{frequency}/policy0/schedutil/rate_limit_us"), "500\n"),
        (&format!("{frequency}/policy0/scaling_setspeed"), "<unsupported>\n"),
        (&format!("{frequency}/policy0/boost"), "0\n"),
        (&format!("{frequency}/policy1/scaling_governor"), "ondemand\n"),
        (&format!("{frequency}/policy1/boost"), "1\n"),
        (&format!("{frequency}/policy2/scaling_governor"), "ondemand\n"),
        (&format!("{frequency}/policy3/scaling_governor"), "userspace\n"),
        (&format!("{frequency}/policy3/scaling_setspeed"), "1200000\n"),
        (&format!("{frequency}/ondemand/up_threshold"), "80\n"),
        (&format!("{frequency}/ondemand/sampling_rate"), "4000\n"),
        (&format!("{frequency}/boost"), "1\n"),
    ]);
    let held = |key: &str, value: &str| -> Vec<String> {
        let settings = fake.resolve(key, value).unwrap().into_iter().filter(Setting::is_follower);
        let path = |one: Setting| one.path.strip_prefix(fake.root().path(frequency)).unwrap().to_owned();
        settings.map(|one| path(one).display().to_string()).collect()
    };
    assert_eq!(
        held("cpu.governor", "performance"),
        [
            "ondemand/sampling_rate",
            "ondemand/up_threshold",
            "policy0/schedutil/rate_limit_us",
            "policy3/scaling_setspeed"
        ]
    );
    assert_eq!(held("cpu.turbo", "off"), ["policy0/boost", "policy1/boost"]);
    assert_eq!(
        fake.resolve("cpu.turbo", "off").unwrap().pop().unwrap().turn(),
        2,
        "a group's own comes after it"
    );
    // Where Intel's driver switches turbo, the groups have no value of their own.
    fake.write("/sys/devices/system/cpu/intel_pstate/no_turbo", "0\n");
    assert_eq!(held("cpu.turbo", "off"), [""; 0]);

    let journal = Journal::at(fake.folder.path().join("settings.json"), "this-boot");
    let knob = fake.root().path(&format!("{frequency}/policy0/schedutil/rate_limit_us"));
    journal.hold(&fake.resolve("cpu.governor", "performance").unwrap()).unwrap();
    // As the kernel makes it again.
    fs::write(&knob, "1000\n").unwrap();
    journal.restore().unwrap();
    assert_eq!(fs::read_to_string(&knob).unwrap(), "500\n");
}

/// As drivers/cpufreq/amd-pstate.c does it: with the governor `performance` a group prefers speed, and it stays so.
#[test]
fn a_governor_and_an_energy_preference_are_set_in_each_group_and_restored() {
    let file = |group: u32, name: &str| format!("/sys/devices/system/cpu/cpufreq/policy{group}/{name}");
    let [governor, preference] = ["scaling_governor", "energy_performance_preference"];
    let before = ["powersave\n", "balance_performance\n", "powersave\n", "power\n"];
    for (key, value, then) in [
        ("cpu.governor", "performance", ["performance"; 4]),
        (
            "cpu.energy_preference",
            "performance",
            ["powersave\n", "performance", "powersave\n", "performance"],
        ),
    ] {
        let files = [file(0, governor), file(0, preference), file(1, governor), file(1, preference)];
        let fake = Fake::with(&[]);
        for (path, text) in files.iter().zip(before) {
            fake.write(path, text);
        }
        let now = || files.each_ref().map(|path| fake.text(path));
        plays(move |path, text| {
            fs::write(path, text)?;
            let is_fast = path.ends_with(governor) && text == "performance";
            if is_fast { fs::write(path.with_file_name(preference), text) } else { Ok(()) }
        });
        fake.journal().hold(&fake.resolve(key, value).unwrap()).unwrap();
        assert_eq!(now(), then, "{key}");
        assert!(fake.journal().restore().unwrap().iter().all(|one| one.refused.is_none()), "{key}");
        assert_eq!(now(), before, "{key}");
    }
}

#[test]
fn interrupts_of_threads_that_are_switched_off_alone_are_held() {
    let core =
        |processor: u32| format!("/sys/devices/system/cpu/cpu{processor}/topology/thread_siblings_list");
    let fake = Fake::with(&[
        ("/sys/devices/system/cpu/online", "0-3\n"),
        (&core(0), "0,2\n"),
        (&core(1), "1,3\n"),
        (&core(2), "0,2\n"),
        (&core(3), "1,3\n"),
        ("/sys/devices/system/cpu/smt/control", "on\n"),
        ("/proc/irq/9/smp_affinity_list", "0-3\n"),
        ("/proc/irq/10/smp_affinity_list", "2-3\n"),
        ("/proc/irq/11/smp_affinity_list", "1\n"),
        ("/proc/irq/default_smp_affinity", "f\n"),
    ]);
    assert_eq!(
        fake.shown("smt", "off"),
        ["/proc/irq/10/smp_affinity_list = 2-3", "/sys/devices/system/cpu/smt/control = off"]
    );
    assert_eq!(fake.shown("smt", "on"), ["/sys/devices/system/cpu/smt/control = on"]);
}

#[test]
fn a_processor_that_was_switched_off_is_off_again_after_hardware_threads_were_switched() {
    let (control, offline) = ("/sys/devices/system/cpu/smt/control", "/sys/devices/system/cpu/cpu3/online");
    let fake = Fake::with(&[ONLINE, PRESENT, (control, "on\n"), (offline, "0\n")]);
    let journal = Journal::at(fake.folder.path().join("settings.json"), "this-boot");
    let settings = fake.resolve("smt", "off").unwrap();
    assert_eq!(fake.shown("smt", "off"), [format!("{offline} = 0"), format!("{control} = off")]);
    journal.hold(&settings).unwrap();
    // As the kernel does it when `on` is written.
    fs::write(fake.root().path(offline), "1\n").unwrap();
    assert!(journal.restore().unwrap().iter().all(super::super::Outcome::is_settled));
    assert_eq!(
        [control, offline].map(|path| fs::read_to_string(fake.root().path(path)).unwrap()),
        ["on\n", "0\n"]
    );
    let [follower, _] = &fake.resolve("smt", "on").unwrap()[..] else { panic!() };
    assert!(follower.is_follower());
}

#[test]
fn what_could_not_be_restored_is_named() {
    let fake = Fake::with(&[
        ("/proc/sys/net/ipv6/conf/all/disable_ipv6", "0\n"),
        ("/proc/sys/net/ipv6/conf/eth0/disable_ipv6", "1\n"),
        ("/sys/kernel/mm/ksm/run", "1\n"),
        ("/sys/kernel/mm/ksm/merge_across_nodes", "1\n"),
    ]);
    let is_one_way = |settings: &[(&str, &str)]| {
        let all: Vec<Setting> =
            settings.iter().flat_map(|(key, value)| fake.resolve(key, value).unwrap()).collect();
        all.iter().any(|setting| one_way(setting, &all).is_some())
    };
    let switch = "net.ipv6.conf.all.disable_ipv6";
    assert!(is_one_way(&[(switch, "1")]));
    assert!(!is_one_way(&[(switch, "0")]));
    assert!(
        !is_one_way(&[("net.ipv6.conf.eth0.disable_ipv6", "0")]),
        "it has addresses then, and loses none"
    );
    let merge = ("ksm.merge_across_nodes", "0");
    assert!(is_one_way(&[merge]), "it runs");
    assert!(!is_one_way(&[merge, ("ksm", "off")]));
    assert!(!is_one_way(&[("ksm.merge_across_nodes", "1")]), "nothing changes");
    fs::write(fake.root().path("/sys/kernel/mm/ksm/run"), "0\n").unwrap();
    assert!(!is_one_way(&[merge]));
    assert!(is_one_way(&[merge, ("ksm", "on")]));
}

#[test]
fn the_sysctl_of_huge_pages_is_set_node_by_node() {
    let pages =
        |node: u32| format!("/sys/devices/system/node/node{node}/hugepages/hugepages-2048kB/nr_hugepages");
    let fake = Fake::with(&[
        ("/proc/sys/vm/nr_hugepages", "7\n"),
        ("/proc/meminfo", "HugePages_Total: 7\nHugepagesize:       2048 kB\n"),
        (&pages(0), "7\n"),
        (&pages(1), "0\n"),
    ]);
    assert_eq!(
        fake.shown("vm.nr_hugepages", "5"),
        [format!("{} = 3", pages(0)), format!("{} = 2", pages(1))]
    );
    assert_eq!(find("vm.nr_hugepages").unwrap().danger, Danger::Stability);
    assert!(Fake::with(&[]).refused("vm.nr_hugepages", "5").contains("no huge pages"));
    let by_policy = Fake::with(&[("/proc/sys/vm/nr_hugepages_mempolicy", "7\n")]);
    assert!(by_policy.refused("vm.nr_hugepages_mempolicy", "5").contains("use vm.nr_hugepages"));
}

#[test]
fn of_all_disks_those_of_scsi_have_a_depth() {
    let fake = Fake::with(&[
        ("/sys/block/sda/device/queue_depth", "32\n"),
        ("/sys/block/vda/device/vendor", "0x1af4\n"),
    ]);
    for key in ["block.*.queue_depth", "block.sda.queue_depth"] {
        assert_eq!(fake.shown(key, "64"), ["/sys/block/sda/device/queue_depth = 64"]);
    }
    assert!(fake.refused("block.vda.queue_depth", "64").contains("/sys/block/vda/device/queue_depth"));
}

#[test]
fn of_all_disks_those_that_several_paths_lead_to_have_nothing_that_waits() {
    let fake = Fake::with(&[
        ("/sys/block/nvme0n1/queue/scheduler", "none\n"),
        ("/sys/block/nvme0n1/queue/nr_requests", "128\n"),
        ("/sys/block/nvme0n1/queue/nomerges", "0\n"),
        ("/sys/block/nvme0n1/device/model", "a\n"),
        ("/sys/block/nvme0c0n1/queue/scheduler", "[none] mq-deadline\n"),
        ("/sys/block/nvme0c0n1/queue/nr_requests", "1023\n"),
        ("/sys/block/nvme0c0n1/queue/nomerges", "0\n"),
        ("/sys/block/nvme0c0n1/device/model", "a\n"),
    ]);
    for (key, value) in [("nr_requests", "64"), ("scheduler", "mq-deadline")] {
        let shown = fake.shown(&format!("block.*.{key}"), value);
        assert!(shown.contains(&format!("/sys/block/nvme0c0n1/queue/{key} = {value}")), "{shown:?}");
        assert!(!shown.iter().any(|setting| setting.contains("nvme0n1")), "{shown:?}");
    }
    assert!(fake.refused("block.nvme0n1.scheduler", "mq-deadline").contains("it accepts none"));
    assert_eq!(fake.shown("block.*.nomerges", "1").len(), 2, "what both have is set of both");
}

#[test]
fn words_and_numbers_that_a_setting_cannot_have_are_refused_with_those_that_it_can() {
    let fake = Fake::with(&[
        ("/sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never\n"),
        ("/sys/block/vda/queue/scheduler", "[none] mq-deadline\n"),
        ("/sys/block/vda/device/vendor", "0x1af4\n"),
        ("/sys/block/loop0/queue/scheduler", "[none]\n"),
        ("/sys/kernel/mm/ksm/run", "0\n"),
        ("/sys/module/kvm/parameters/nx_huge_pages", "N\n"),
    ]);
    assert!(fake.refused("thp", "sometimes").contains("it accepts always, madvise, never"));
    assert_eq!(
        fake.shown("block.*.scheduler", "mq-deadline"),
        ["/sys/block/vda/queue/scheduler = mq-deadline"]
    );
    assert!(fake.refused("block.vda.scheduler", "bfq").contains("none, mq-deadline"));
    assert!(fake.refused("block.sdz.scheduler", "none").contains("there are loop0, vda"));
    assert_eq!(fake.shown("ksm", "on"), ["/sys/kernel/mm/ksm/run = 1"]);
    assert!(fake.refused("ksm", "").contains("on, off"));
    assert_eq!(fake.shown("kvm.nx_huge_pages", "on"), ["/sys/module/kvm/parameters/nx_huge_pages = Y"]);
    assert!(fake.refused("kvm.nx_huge_pages", "never").contains("one way"));
    assert_eq!(find("kvm.nx_huge_pages").unwrap().danger, Danger::Security);
}

#[test]
fn processors_and_nodes_that_do_not_exist_or_are_offline_are_named() {
    let fake = Fake::with(&[
        ONLINE,
        PRESENT,
        ("/sys/devices/virtual/workqueue/cpumask", "f\n"),
        ("/sys/devices/system/node/node0/hugepages/hugepages-2048kB/nr_hugepages", "0\n"),
        ("/sys/devices/system/node/node1/hugepages/hugepages-2048kB/nr_hugepages", "5\n"),
    ]);
    assert_eq!(fake.shown("workqueue.cpumask", "1-2"), ["/sys/devices/virtual/workqueue/cpumask = 6"]);
    assert!(fake.refused("workqueue.cpumask", "0,3").contains("processor 3 is offline"));
    assert!(fake.refused("workqueue.cpumask", "7").contains("processor 7 does not exist"));
    assert!(fake.refused("workqueue.cpumask", "all").contains("0-3,8"));
    assert!(fake.refused("hugepages.2MiB.node7", "1").contains("its nodes are 0-1"));
    assert_eq!(
        fake.shown("hugepages.2MiB", "5"),
        [
            "/sys/devices/system/node/node0/hugepages/hugepages-2048kB/nr_hugepages = 3",
            "/sys/devices/system/node/node1/hugepages/hugepages-2048kB/nr_hugepages = 2",
        ]
    );
}

#[test]
fn interrupts_of_a_virtio_device_are_those_of_its_bus_device() {
    let pci = "/sys/devices/pci0000:00/0000:00:03.0";
    let fake = Fake::with(&[
        ONLINE,
        (&format!("{pci}/msi_irqs/27"), ""),
        (&format!("{pci}/msi_irqs/26"), ""),
        (&format!("{pci}/msi_irqs/28"), ""),
        (&format!("{pci}/virtio1/net/eth0/mtu"), "1500"),
        ("/proc/irq/26/smp_affinity_list", "0-2\n"),
        ("/proc/irq/27/smp_affinity_list", "0-2\n"),
        ("/sys/class/net/lo/mtu", "65536"),
    ]);
    let class = fake.root().path("/sys/class/net/eth0");
    fs::create_dir_all(&class).unwrap();
    symlink(fake.root().path(&format!("{pci}/virtio1")), class.join("device")).unwrap();
    assert_eq!(
        fake.shown("irq.eth0.affinity", "1,2"),
        ["/proc/irq/26/smp_affinity_list = 1-2", "/proc/irq/27/smp_affinity_list = 1-2"]
    );
    assert!(fake.refused("irq.lo.affinity", "1").contains("called lo"));
    let fixed = |vector: u32| {
        let file = fake.root().path(&format!("/proc/irq/{vector}/smp_affinity_list"));
        fs::set_permissions(file, fs::Permissions::from_mode(0o444)).unwrap();
    };
    fixed(26);
    let settings = fake.resolve("irq.eth0.affinity", "1,2").unwrap();
    let delivered = |text: &str| {
        fs::write(fake.root().path("/proc/irq/27/effective_affinity_list"), text).unwrap();
        settings.iter().map(Setting::effective).collect::<Vec<_>>()
    };
    assert_eq!(settings[1].effective(), None, "kernels without the file");
    assert_eq!(delivered("\n"), [None, None], "nobody uses it");
    assert_eq!(delivered("0,1\n"), [None, Some("0-1".to_owned())]);
    assert_eq!(settings[1].clone().follower().effective(), None);
    assert_eq!(settings.iter().map(Setting::is_spread_by_kernel).collect::<Vec<_>>(), [true, false]);
    fixed(27);
    assert!(fake.refused("irq.eth0.affinity", "1").contains("cannot be changed"), "none can be moved");
}

#[test]
fn what_needs_a_reload_is_refused_with_how_to_do_it_unless_it_has_the_value() {
    let parameter = "/sys/module/kvm_amd/parameters/nested";
    let fake = Fake::with(&[(parameter, "Y\n")]);
    fs::set_permissions(fake.root().path(parameter), fs::Permissions::from_mode(0o444)).unwrap();
    assert_eq!(fake.shown("module.kvm-amd.nested", "1"), [format!("{parameter} = Y")]);
    let said = fake.refused("module.kvm-amd.nested", "0");
    assert!(said.contains("/etc/modprobe.d"), "{said}");
    assert!(fake.refused("module.absent.x", "0").contains("module absent is not loaded"));
}

#[test]
fn several_settings_of_a_key_are_held_and_restored_together() {
    let limit =
        |processor: u32| format!("/sys/devices/system/cpu/cpu{processor}/power/pm_qos_resume_latency_us");
    let fake = Fake::with(&[ONLINE, (&limit(0), "0\n"), (&limit(1), "20\n"), (&limit(2), "0\n")]);
    let journal = Journal::at(fake.folder.path().join("settings.json"), "this-boot");
    let settings = fake.resolve("cpu.idle_latency_us", "0").unwrap();
    assert_eq!(settings.len(), 3);
    assert_eq!(journal.hold(&settings).unwrap(), []);
    assert_eq!(fs::read_to_string(fake.root().path(&limit(1))).unwrap(), "n/a");
    assert!(journal.restore().unwrap().iter().all(super::super::Outcome::is_settled));
    assert_eq!(fs::read_to_string(fake.root().path(&limit(1))).unwrap(), "20\n");
}

#[test]
fn a_limit_of_processes_is_no_file() {
    let settings = resolve(&Root::real(), "limit.nofile", "1024").unwrap();
    assert_eq!((settings[0].path(), settings[0].to_string()), (None, "limit.nofile".to_owned()));
    let text = serde_json::to_string(&settings[0]).unwrap();
    assert_eq!(serde_json::from_str::<Setting>(&text).unwrap(), settings[0]);
    assert!(resolve(&Root::real(), "limit.nofile", "many").is_err());
}

/// Other spellings of a key that could reach the same thing.
fn spellings(key: &str) -> Vec<String> {
    let mut spellings = vec![format!("{key}."), format!(".{key}")];
    if key.starts_with("service.") {
        spellings.push(format!("{key}.service"));
        spellings.push(format!("{key}.service.service"));
    }
    for (place, _) in key.match_indices('.') {
        let (start, end) = key.split_at(place);
        for more in ["./", ".", "./.x.//"] {
            spellings.push(format!("{start}{more}{end}"));
        }
    }
    if let Some(parameter) = key.strip_prefix("kvm.") {
        spellings.push(format!("module.kvm.{parameter}"));
        spellings.push(format!("module.kvm.{}", parameter.replace('_', "-")));
        spellings.push(format!("module.kvm..{parameter}"));
    }
    spellings
}

#[test]
fn no_other_spelling_of_a_dangerous_key_has_a_smaller_danger() {
    let names = |key: &str| key.replace("{device}", "all").replace("{name}", "bridge-nf-call-iptables");
    for guard in all().filter(|known| known.danger.needs_consent()) {
        for spelling in spellings(&names(guard.key)) {
            let danger = find(&spelling).map_or(guard.danger, |known| known.danger);
            assert_eq!(danger, guard.danger, "{spelling}");
        }
    }
    assert_eq!(find("module.kvm.nx_huge_pages").unwrap().key, "kvm.nx_huge_pages");
    assert_eq!(find("service.firewalld.service").unwrap().key, "service.firewalld");
    let fake = Fake::with(&[("/sys/module/kvm/parameters/nx_huge_pages", "N\n")]);
    assert!(fake.refused("module.kvm.nx_huge_pages", "never").contains("one way"));
}

#[test]
fn what_opens_the_host_or_loses_data_is_set_by_its_name_only() {
    let security = "vm.mmap_rnd_bits vm.unprivileged_userfaultfd vm.mmap_min_addr kernel.unprivileged_userns_clone \
        kernel.apparmor_restrict_unprivileged_userns kernel.io_uring_disabled kernel.modules_disabled \
        kernel.kexec_load_disabled kernel.unprivileged_bpf_disabled kernel.yama.ptrace_scope kernel.kptr_restrict \
        dev.tty.legacy_tiocsti net.core.bpf_jit_harden net.ipv4.ip_forward net.ipv4.conf.all.rp_filter \
        net.ipv4.conf.all.route_localnet net.ipv4.conf.eth0/100.accept_redirects net.ipv4.conf.all.accept_source_route \
        net.ipv4.conf.all.send_redirects net.ipv4.conf.default.secure_redirects net.ipv6.conf.all.forwarding \
        net.ipv6.conf.default.accept_ra net.ipv6.conf.eth0.accept_redirects net.ipv6.conf.all.accept_source_route \
        module.kvm_intel.vmentry_l1d_flush module.kvm-intel.vmentry_l1d_flush \
        module.vfio_iommu_type1.allow_unsafe_interrupts module.vfio-iommu-type1.allow_unsafe_interrupts \
        module.vfio.enable_unsafe_noiommu_mode module.module.sig_enforce";
    let data_loss = "vm.dirty_writeback_centisecs vm.dirty_expire_centisecs";
    let stability = "vm.panic_on_oom vm.nr_hugepages hugepages.2MiB kernel.panic module.nvme_core.io_timeout";
    let none = "vm.swappiness net.ipv4.tcp_rmem net.ipv4.conf.all.arp_filter net.ipv6.conf.all.hop_limit";
    for (keys, danger) in [
        (security, Danger::Security),
        (data_loss, Danger::DataLoss),
        (stability, Danger::Stability),
        (none, Danger::None),
    ] {
        for key in keys.split_whitespace() {
            assert_eq!(find(key).unwrap().danger, danger, "{key}");
            assert_eq!(danger.needs_consent(), danger >= Danger::Security);
        }
    }
}

#[test]
fn a_value_that_cannot_be_taken_back_is_refused_unless_it_is_there() {
    let values = [
        ("kernel.modules_disabled", "0", "1"),
        ("kernel.kexec_load_disabled", "0", "0x1"),
        ("kernel.unprivileged_bpf_disabled", "2", "1"),
        ("kernel.yama.ptrace_scope", "1", "3"),
        ("kernel.yama.ptrace_scope", "1", "3 1"),
        ("vm.drop_caches", "0", "3"),
    ];
    for (key, before, one_way) in values {
        let file = format!("/proc/sys/{}", key.replace('.', "/"));
        let fake = Fake::with(&[(&file, &format!("{before}\n"))]);
        assert!(fake.refused(key, one_way).contains("one way"), "{key}");
        assert_eq!(fake.shown(key, before), [format!("{file} = {before}")]);
        let fake = Fake::with(&[(&file, &format!("{one_way}\n"))]);
        assert_eq!(fake.shown(key, one_way).len(), 1, "{key}: nothing changes");
    }
    let fake = Fake::with(&[("/sys/module/module/parameters/sig_enforce", "N\n")]);
    assert!(fake.refused("module.module.sig_enforce", "1").contains("one way"));
}

#[test]
fn no_key_leads_out_of_the_kernels_folder() {
    let fake = Fake::with(&[
        ("/tmp/target-file", "1\n"),
        ("/proc/sys/net/bridge/bridge-nf-call-iptables", "1\n"),
        ("/proc/sys/net/ipv4/conf/eth0.100/rp_filter", "1\n"),
    ]);
    for key in ["net.bridge.//.//.//.//.tmp.target-file", "net.ipv4.//.//.//.//.tmp.target-file", "net.x.//"]
    {
        let said = fake.refused(key, "2");
        assert!(said.contains("no setting is called") || said.contains("there is no"), "{said}");
    }
    assert_eq!(fake.shown("net.bridge.bridge-nf-call-iptables", "0").len(), 1);
    assert_eq!(fake.shown("net.ipv4.conf.eth0/100.rp_filter", "0").len(), 1, "a slash is a dot in a name");
}

#[test]
fn a_service_is_one_unit_and_no_pattern_of_several() {
    for key in
        ["service.firewall*", "service.[f]irewalld", "service.firewall?", "service.a b", "service.a\tb"]
    {
        let said = resolve(&Root::real(), key, "stopped").unwrap_err().in_a_line();
        assert!(said.contains("no setting is called"), "{said}");
    }
}

#[test]
fn a_node_without_memory_has_no_share_of_huge_pages() {
    let fake = Fake::with(&[
        ("/sys/devices/system/node/has_memory", "0,2\n"),
        ("/sys/devices/system/node/node0/hugepages/hugepages-2048kB/nr_hugepages", "0\n"),
        ("/sys/devices/system/node/node1/cpulist", "4-7\n"),
        ("/sys/devices/system/node/node2/hugepages/hugepages-2048kB/nr_hugepages", "0\n"),
    ]);
    assert_eq!(
        fake.shown("hugepages.2MiB", "4"),
        [
            "/sys/devices/system/node/node0/hugepages/hugepages-2048kB/nr_hugepages = 2",
            "/sys/devices/system/node/node2/hugepages/hugepages-2048kB/nr_hugepages = 2",
        ]
    );
    assert!(fake.refused("hugepages.2MiB.node1", "1").contains("its nodes are 0,2"));
}

#[test]
fn a_knob_of_the_scheduler_needs_debugfs_and_a_kernel_that_has_it() {
    let without = Fake::with(&[]);
    let said = without.refused("sched.migration_cost_ns", "600000");
    assert!(
        said.contains("there is no /sys/kernel/debug/sched") && said.contains("mount -t debugfs none"),
        "{said}"
    );
    let [slice, cost] =
        ["base_slice_ns", "migration_cost_ns"].map(|knob| format!("/sys/kernel/debug/sched/{knob}"));
    let fake = Fake::with(&[(&slice, "3000000\n"), (&cost, "500000\n")]);
    assert_eq!(fake.shown("sched.migration_cost_ns", "600000"), [format!("{cost} = 600000")]);
    for gone in ["sched.latency_ns", "sched.min_granularity_ns", "sched.wakeup_granularity_ns"] {
        let said = fake.refused(gone, "1000000");
        assert!(said.contains("EEVDF") && said.contains("it has base_slice_ns, migration_cost_ns"), "{said}");
        assert!(said.contains("leave it out") && !said.contains("debugfs"), "{said}");
        for host in [&fake, &without] {
            assert!(host.resolve(gone, "1000000").unwrap_err().is_skipped_where_optional());
        }
    }
    fake.journal().hold(&fake.resolve("sched.base_slice_ns", "6000000").unwrap()).unwrap();
    assert_eq!([fake.text(&slice), fake.text(&cost)], ["6000000", "500000\n"]);
    fake.journal().restore().unwrap();
    assert_eq!(fake.text(&slice), "3000000\n");
}

/// Memory of 1 GiB in a row is rarely free: the kernel takes the count, and keeps as many as it found.
#[test]
fn a_count_of_1_gib_pages_that_reads_back_less_undoes_all_and_names_the_kernels_command_line() {
    let pages = "/sys/kernel/mm/hugepages/hugepages-1048576kB/nr_hugepages";
    let swappiness = "/proc/sys/vm/swappiness";
    for free in [0, 1] {
        let fake = Fake::with(&[(pages, "0\n"), (swappiness, "60\n")]);
        let count = fake.root().path(pages);
        plays(move |path, text| match path == count {
            true => fs::write(path, format!("{}\n", text.trim().parse::<u32>().unwrap().min(free))),
            false => fs::write(path, text),
        });
        let settings =
            [("vm.swappiness", "10"), ("hugepages.1GiB", "4")].map(|(key, value)| fake.resolve(key, value));
        let settings: Vec<Setting> = settings.into_iter().flat_map(Result::unwrap).collect();
        let error = fake.journal().hold(&settings).unwrap_err();
        assert!(error.to_string().contains(&format!("is {free} after 4 was written")), "{error}");
        assert!(error.remedy().contains("hugepagesz=1G hugepages=N"), "{}", error.remedy());
        assert_eq!([fake.text(pages), fake.text(swappiness)], ["0\n", "60\n"]);
        assert_eq!(fake.journal().held().unwrap(), []);
    }
}

/// A kernel before 6.12 lets the file of a vector that it spreads itself be opened, and answers the write with EIO; later ones with EPERM.
#[test]
fn a_vector_whose_write_the_kernel_refuses_stays_and_the_others_of_the_device_are_moved() {
    const REFUSED: [(i32, bool); 3] = [(5, true), (1, true), (22, false)];
    let pci = "/sys/devices/pci0000:00/0000:00:03.0";
    let vectors = [26, 27, 28].map(|number| format!("/proc/irq/{number}/smp_affinity_list"));
    for (number, is_spread) in REFUSED {
        let fake = Fake::with(&[ONLINE]);
        for (vector, name) in vectors.iter().zip(["26", "27", "28"]) {
            fake.write(vector, "0-2\n");
            fake.write(&format!("{pci}/msi_irqs/{name}"), "");
        }
        let class = fake.root().path("/sys/class/block/vda");
        fs::create_dir_all(&class).unwrap();
        symlink(fake.root().path(pci), class.join("device")).unwrap();
        let refused = fake.root().path(&vectors[1]);
        plays(move |path, text| match path == refused {
            true => Err(io::Error::from_raw_os_error(number)),
            false => fs::write(path, text),
        });
        let now = || vectors.each_ref().map(|vector| fake.text(vector));
        let held = fake.journal().hold(&fake.resolve("irq.vda.affinity", "1").unwrap());
        if is_spread {
            let immovable = held.unwrap();
            assert!(immovable.len() == 1 && immovable[0].name.contains("interrupt 27"), "{immovable:?}");
            assert_eq!(now(), ["1", "0-2\n", "1"]);
            assert_eq!(fake.journal().held().unwrap().len(), 2, "it is nobody's to restore");
            assert_eq!(fake.journal().immovable().unwrap(), immovable, "`host verify` asks for it");
            fake.journal().restore().unwrap();
        } else {
            assert!(held.unwrap_err().to_string().contains("interrupt 27"), "{number}");
        }
        assert_eq!(now(), ["0-2\n"; 3], "{number}");
        assert_eq!(fake.journal().held().unwrap(), []);
    }
}

/// As mm/page-writeback.c does it: setting one of the pair sets the other to 0, and 0 bytes are refused.
#[test]
fn a_limit_in_bytes_is_restored_by_its_ratio_where_the_kernel_takes_no_0() {
    let [bytes, ratio] = ["bytes", "ratio"].map(|unit| format!("/proc/sys/vm/dirty_{unit}"));
    for (before, key, value, then) in [
        (["0\n", "20\n"], "vm.dirty_bytes", "100000000", ["100000000", "0\n"]),
        (["100000000\n", "0\n"], "vm.dirty_bytes", "50000000", ["50000000", "0\n"]),
        (["100000000\n", "0\n"], "vm.dirty_ratio", "15", ["0\n", "15"]),
        (["0\n", "20\n"], "vm.dirty_ratio", "15", ["0\n", "15"]),
    ] {
        let fake = Fake::with(&[(&bytes, before[0]), (&ratio, before[1])]);
        let now = || [fake.text(&bytes), fake.text(&ratio)];
        let [of_bytes, of_ratio] = [&bytes, &ratio].map(|path| fake.root().path(path));
        plays(move |path, text| {
            let other = match path {
                path if path == of_bytes => Some(&of_ratio),
                path if path == of_ratio => Some(&of_bytes),
                _ => None,
            };
            if path == of_bytes && text.trim() == "0" {
                return Err(io::Error::from_raw_os_error(22));
            }
            fs::write(path, text)?;
            other.map_or(Ok(()), |other| fs::write(other, "0\n"))
        });
        let settings = fake.resolve(key, value).unwrap();
        fake.journal().hold(&settings).unwrap();
        assert_eq!(now(), then, "{key}");
        assert!(fake.journal().restore().unwrap().iter().all(|one| one.refused.is_none()), "{key}");
        assert_eq!(now(), before, "{key}");
        // The same where a later setting is refused.
        let ignored = Setting::file("a value that the kernel ignores", "/dev/null", Form::Whole, "1");
        fake.journal().hold(&[&settings[..], &[ignored]].concat()).unwrap_err();
        assert_eq!(now(), before, "{key}");
        assert_eq!(fake.journal().held().unwrap(), []);
    }
}
