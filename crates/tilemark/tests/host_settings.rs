//! Settings of the host around the repeats of real native runs: root and an image are needed.
//!
//! Only the long trials (`cargo xtask soak settings`) change the host's own values. Elsewhere a file plays one of them, mounted over it where only
//! the run sees it.

#![allow(missing_docs, clippy::unwrap_used)]

mod common;

use common::{
    Line, Said, TILEMARK,
    real::{Process, Real, Running, keeper_of},
    words,
};
use rustix::process::{Pid, Signal, kill_process};
use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
    process::Command,
};
use tilemark_record::{result::SettingOutcome, summary::SettingRead};

/// The file that is played, and its key.
const PLAYED: &str = "/sys/kernel/mm/ksm/pages_to_scan";
const KEY: &str = "ksm.pages_to_scan";
const FOUND: &str = "100";

/// A run of one tile that is short, and may be disturbed.
static SHORT: Line = Line::new(|| {
    words(
        "--on native --offline --set measure.warmup=0s --set measure.length=1s --not-alone \
         --json",
    )
});

/// The program where a file plays the value.
fn played(file: &Path, arguments: &[&str]) -> Command {
    let script = format!("mount --bind \"$1\" {PLAYED} && shift && exec \"$@\"");
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-c", &script, "sh"]).arg(file).arg(TILEMARK).args(arguments);
    command
}

/// A home with an image, and the file that plays a value; nothing where that can't be.
fn with_file() -> Option<(Real, PathBuf)> {
    let real = Real::new()?;
    if !Path::new(PLAYED).exists() {
        common::skipped(&format!("this kernel has no {PLAYED}"));
        return None;
    }
    let file = real.home.file("played", &format!("{FOUND}\n"));
    Some((real, file))
}

fn value(file: &Path) -> String {
    fs::read_to_string(file).unwrap().trim().to_owned()
}

fn settings(real: &Real, run: &str, repeat: usize) -> Vec<SettingRead> {
    let record = real.record(run);
    record.summaries().unwrap().into_iter().find(|found| found.point == repeat).unwrap().settings
}

#[test]
fn both_sides_have_their_settings_and_the_host_has_its_own_afterwards() {
    let Some((real, file)) = with_file() else { return };
    let own = fs::read_to_string("/proc/sys/net/core/somaxconn").unwrap();
    let sides = ["ab", "web", "--set", "measure.repeats=1", "--a", "host.setting.net.core.somaxconn=1234"];
    let b = ["--b", "host.setting.net.core.somaxconn=2345", "--b", "host.setting.ksm.pages_to_scan=77"];
    let mut running = real.start_as(played(&file, &[&sides[..], &b, &SHORT].concat()));
    let said = running.said();
    let result = said.result();
    let expected = [("1234", FOUND, None), ("2345", "77", Some("77"))];
    for (point, (somaxconn, pages, set)) in expected.into_iter().enumerate() {
        let read = settings(&real, &result.run, point);
        let of = |key: &str| read.iter().find(|one| one.key == key).unwrap();
        assert_eq!(of("net.core.somaxconn").value.as_deref(), Some(somaxconn), "{read:?}");
        assert_eq!(of("net.core.somaxconn").place, "run-network");
        assert_eq!((of(KEY).value.as_deref(), of(KEY).set.as_deref()), (Some(pages), set), "{read:?}");
        assert_eq!(of(KEY).before.as_deref(), Some(FOUND));
    }
    assert_eq!(result.provenance.as_it_was, Some(true), "{said:?}");
    assert_eq!(value(&file), FOUND);
    assert_eq!(fs::read_to_string("/proc/sys/net/core/somaxconn").unwrap(), own);
    let differs: Vec<String> =
        result.comparison.unwrap().differences.into_iter().map(|found| found.key).collect();
    assert_eq!(differs, ["host.setting.ksm.pages_to_scan", "host.setting.net.core.somaxconn"]);
    real.all_gone(&BTreeSet::new(), &[]);
}

/// What the host had in each point's only repeat: the two settings of [`TWO`].
fn had(real: &Real, run: &str, point: usize) -> [Option<String>; 2] {
    let read = settings(real, run, point);
    ["net.core.somaxconn", KEY].map(|key| read.iter().find(|one| one.key == key)?.value.clone())
}

/// One setting of the run's network, and one of the host.
const TWO: [(&str, &str); 2] = [("net.core.somaxconn", "2345"), (KEY, "77")];

#[test]
fn a_side_with_a_profile_has_its_values_and_the_side_without_has_those_of_the_host() {
    let Some((real, file)) = with_file() else { return };
    let b = format!("host.profile={}", profile_of(&real, &TWO));
    let sides = ["ab", "web", "--set", "measure.repeats=1", "--a", "host.profile=none", "--b", &b, "--trust"];
    let said = real.start_as(played(&file, &[&sides[..], &SHORT].concat())).said();
    let result = said.result();
    let [[somaxconn, pages], with] = [0, 1].map(|point| had(&real, &result.run, point));
    assert_eq!(pages.as_deref(), Some(FOUND), "{said:?}");
    assert!(somaxconn.is_some_and(|own| own != "2345"), "{said:?}");
    assert_eq!(with, [Some("2345".to_owned()), Some("77".to_owned())], "{said:?}");
    assert_eq!((result.provenance.as_it_was, &*value(&file)), (Some(true), FOUND), "{said:?}");
    real.all_gone(&BTreeSet::new(), &[]);
}

#[test]
fn a_setting_that_varies_has_each_value_in_its_own_repeats() {
    let Some((real, file)) = with_file() else { return };
    let shown = real.home.says(&["scenarios", "show", "web"]);
    let vary = "[vary.pages]\nkey = \"host.setting.ksm.pages_to_scan\"\nvalues = [\"77\", \"88\"]\n";
    let scenario = real.home.file("vary.toml", &format!("{}\n{vary}", shown.out));
    let run = ["run", scenario.to_str().unwrap(), "--tiles", "1", "--set", "measure.repeats=1", "--trust"];
    let said = real.start_as(played(&file, &[&run[..], &SHORT].concat())).said();
    let result = said.result();
    let values: BTreeSet<&str> = result.points.iter().map(|point| &*point.vary["pages"]).collect();
    assert_eq!(values, ["77", "88"].into());
    for (place, point) in result.points.iter().enumerate() {
        assert_eq!(had(&real, &result.run, place)[1].as_ref(), Some(&point.vary["pages"]), "{said:?}");
    }
    assert_eq!((result.provenance.as_it_was, &*value(&file)), (Some(true), FOUND), "{said:?}");
    real.all_gone(&BTreeSet::new(), &[]);
}

/// A loop device without a use, which goes with this.
struct Loop {
    device: String,
}

impl Loop {
    fn of(file: &Path) -> Self {
        let made = Command::new("losetup").args(["--find", "--show"]).arg(file).output().unwrap();
        let device = String::from_utf8(made.stdout).unwrap().trim().replace("/dev/", "");
        assert!(device.starts_with("loop"), "{device}");
        Self { device }
    }

    fn queue(&self, name: &str) -> String {
        fs::read_to_string(format!("/sys/block/{}/queue/{name}", self.device)).unwrap()
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        let _ = Command::new("losetup").args(["--detach", &format!("/dev/{}", self.device)]).status();
    }
}

/// The kernel gives a queue another depth with another scheduler: that is restored too, and is no change by another program.
#[test]
fn a_scheduler_is_set_with_what_it_changes_along_and_both_are_restored() {
    let Some((real, _)) = with_file() else { return };
    let blank = real.home.file("blank", "");
    fs::File::options().write(true).open(&blank).unwrap().set_len(1 << 20).unwrap();
    let device = Loop::of(&blank);
    let before = ["scheduler", "nr_requests"].map(|name| device.queue(name));
    if !(before[0].contains("[none]") && before[0].contains("mq-deadline")) {
        return common::skipped(&format!("the schedulers of a loop device are {}", before[0]));
    }
    let key = format!("block.{}.scheduler", device.device);
    let set = format!("host.setting.{key}=mq-deadline");
    let run = ["run", "web", "--tiles", "1", "--set", "measure.repeats=1", "--set", &set];
    let said = real.home.says(&[&run[..], &SHORT].concat());
    let result = said.result();
    let read = settings(&real, &result.run, 0);
    let values: Vec<_> = read.iter().map(|one| (one.key.as_str(), one.value.as_deref())).collect();
    assert_eq!(values, [(key.as_str(), Some("mq-deadline"))], "{said:?}");
    let voided = format!("{:?}", result.points[0].repeats_voided);
    assert!(!voided.contains("another program"), "{voided}");
    assert_eq!(["scheduler", "nr_requests"].map(|name| device.queue(name)), before);
}

/// The limits are set in a run of the lab (`xtask/tests/lab.rs`): root in many containers may not raise one.
#[test]
fn a_limit_that_could_not_be_restored_is_refused_with_the_reason() {
    let Some(real) = Real::new() else { return };
    let mut command = Command::new("setpriv");
    command.args(["--bounding-set", "-sys_resource", TILEMARK, "run", "web", "--tiles", "1"]);
    command.args(&*SHORT).args(["--set", "measure.repeats=2", "--set", "host.setting.limit.memlock=4096"]);
    let error = &real.start_as(command).said().ended(3).json()["error"];
    let message = error["message"].as_str().unwrap();
    assert!(message.starts_with("the setting limit.memlock of the host could not be applied: "), "{error}");
    assert!(
        message.ends_with(
            ": it could not be raised again, which needs CAP_SYS_RESOURCE in the host's user namespace"
        ),
        "{error}"
    );
    real.all_gone(&BTreeSet::new(), &[]);
}

#[test]
fn a_limit_of_open_files_that_the_run_exceeds_is_refused_before_anything_is_made() {
    let Some(real) = Real::new() else { return };
    let run = ["run", "web", "--tiles", "1", "--set", "host.setting.limit.nofile=60"];
    let said = real.home.says(&[&run[..], &SHORT].concat()).ended(2);
    let message = said.json()["error"]["message"].to_string();
    assert!(message.contains("open files in one process, and limit.nofile is 60"), "{message}");
    assert!(!real.home.path().join("runs").exists(), "{said:?}");
}

/// A run that holds the played value for a minute, once it does.
fn holding<'a>(real: &'a Real, file: &Path) -> Running<'a> {
    let long = ["--set", "measure.length=60s", "--set", "host.setting.ksm.pages_to_scan=77"];
    let run = ["run", "web", "--tiles", "1", "--on", "native", "--offline", "--not-alone", "--json"];
    let mut running = real.start_as(played(file, &[&run[..], &long].concat()));
    running.until("the value is set", |_| (value(file) == "77").then_some(()));
    running
}

#[test]
fn a_run_that_is_killed_or_interrupted_while_it_holds_a_setting_restores_it() {
    let Some((real, file)) = with_file() else { return };
    for signal in [Signal::KILL, Signal::INT] {
        let mut running = holding(&real, &file);
        let under_way = running.until("a keeper", keeper_of);
        let processes = Process::descendants(running.child.id() as i32);
        running.signal(signal);
        let ended = running.child.wait().unwrap();
        real.all_gone(&processes, under_way.cgroup.as_slice());
        assert_eq!(value(&file), FOUND, "{signal:?}: {ended:?}");
    }
}

/// A run whose keeper was killed while it held the played value, which is left.
fn left_by_a_killed_keeper(real: &Real, file: &Path) {
    let mut running = holding(real, file);
    let under_way = running.until("a keeper", keeper_of);
    let keeper = Pid::from_raw(under_way.keeper.unwrap() as i32).unwrap();
    kill_process(keeper, Signal::KILL).unwrap();
    running.child.wait().unwrap();
    assert_eq!(value(file), "77", "nobody was left to restore it");
}

/// What a command says where the file plays the value.
fn says(real: &Real, file: &Path, arguments: &[&str]) -> Said {
    Said::of(&played(file, arguments).env("TILEMARK_HOME", real.home.path()).output().unwrap())
}

#[test]
fn a_setting_that_a_killed_keeper_left_is_restored_by_recover() {
    let Some((real, file)) = with_file() else { return };
    left_by_a_killed_keeper(&real, &file);
    let said = says(&real, &file, &["recover", "--json"]).ended(0);
    assert_eq!(value(&file), FOUND, "{said:?}");
}

#[test]
fn a_setting_that_a_killed_keeper_left_is_restored_by_the_next_run_which_names_it() {
    let Some((real, file)) = with_file() else { return };
    left_by_a_killed_keeper(&real, &file);
    let run = ["run", "web", "--tiles", "1", "--set", "measure.repeats=1"];
    let said = real.start_as(played(&file, &[&run[..], &SHORT].concat())).said();
    let restored = format!("it was {FOUND}, Tilemark set 77, and it is {FOUND} again");
    assert!(said.error.contains("restored: ") && said.error.contains(&restored), "{said:?}");
    assert_eq!(value(&file), FOUND, "{said:?}");
}

/// Else the profile's journal would have the run's value for that of the host.
#[test]
fn a_setting_that_a_killed_keeper_left_is_not_what_a_profile_restores() {
    let Some((real, file)) = with_file() else { return };
    left_by_a_killed_keeper(&real, &file);
    let profile = profile_of(&real, &[(KEY, "200")]);
    let said = says(&real, &file, &["host", "apply", &profile, "--yes"]);
    assert_eq!((said.code, value(&file).as_str()), (Some(0), "200"), "{said:?}");
    assert!(said.out.contains(&format!("it is {FOUND} again")), "{said:?}");
    let said = says(&real, &file, &["host", "restore"]);
    assert_eq!((said.code, value(&file).as_str()), (Some(0), FOUND), "{said:?}");
}

#[test]
fn what_cannot_be_set_is_named_before_anything_starts() {
    let Some(real) = Real::new() else { return };
    let says = |command: &[&str]| real.home.says(&[command, &SHORT].concat());
    for (setting, names) in [
        ("host.setting.vm.swapiness=10", "Did you mean `vm.swappiness`?"),
        ("host.setting.ksm=perhaps", "it accepts on, off"),
        ("host.profile=nowhere", "no profile `nowhere`"),
    ] {
        let error = says(&["run", "web", "--set", setting]).ended(2).json()["error"].to_string();
        assert!(error.contains(names), "{names}: {error}");
    }
    // Of most sysctls only the kernel knows what they accept.
    says(&["run", "web", "--set", "host.setting.vm.swappiness=often"])
        .ended(3)
        .with_output("the setting vm.swappiness of the host could not be applied");
    let now = fs::read_to_string("/proc/sys/vm/swappiness").unwrap();
    let same = format!("host.setting.vm.swappiness={}", now.trim());
    let said = says(&["ab", "web", "--a", &same, "--b", &same]);
    said.ended(2).with_output("both sides have the same settings");
}

#[test]
fn a_screening_of_a_run_networks_settings_ends_with_a_table_and_keeps_what_paid_in_a_profile() {
    let Some(real) = Real::new() else { return };
    let profile = "schema = 1\nname = \"p\"\nabout = \"A test.\"\nsource = \"a test\"\n\
        [[setting]]\nkey = \"net.core.somaxconn\"\nvalue = \"1234\"\neffect = \"the paper: 8 % more\"\n\
        [[setting]]\nkey = \"net.ipv4.tcp_autocorking\"\nvalue = \"0\"\n\
        [[setting]]\nkey = \"ksm\"\nvalue = \"perhaps\"\n";
    let bad = real.home.file("bad.toml", profile);
    let good = real.home.file("p.toml", profile.rsplit_once("[[setting]]").unwrap().0);
    let kept = real.home.path().join("kept.toml");
    let kept = kept.to_str().unwrap();
    let short = ["--pairs", "0", "--set", "measure.repeats=4", "--keep", kept, "--profile"];
    let run = |profile: &Path| {
        let profile = profile.to_str().unwrap();
        real.home.says(&[&["host", "try", "web"][..], &SHORT, &short, &[profile]].concat())
    };
    run(&bad).ended(2).with_output("perhaps");
    let said = run(&good);
    let result = said.result();
    let found = result.screening.unwrap();
    let keys: Vec<&str> = found.settings.iter().map(|setting| setting.key.as_str()).collect();
    assert_eq!(keys, ["net.core.somaxconn", "net.ipv4.tcp_autocorking"]);
    assert_eq!(found.settings[0].claim.as_deref(), Some("the paper: 8 % more"));
    assert_eq!(result.points.len(), 8, "four rows and their mirror images");
    let runs = "2 settings of the profile p are screened in 32 repeats (settings tested one at a time would need 47 \
                with a shared baseline, 64 in pairs)";
    assert!(said.error.contains(runs), "{said:?}");
    assert!(said.error.contains("smallest effect that is found"), "{said:?}");
    assert!(found.of(SettingOutcome::Pays).count() == 0, "nothing is confirmed: {found:?}");
    assert!(said.error.contains(&format!("No setting is known to pay: {kept} was not written")), "{said:?}");
    let page =
        fs::read_to_string(real.home.path().join("runs").join(&result.run).join("report.html")).unwrap();
    assert!(page.contains("Which settings pay") && page.contains("Settings of the host"));
}

/// A web server that sends files of 16 KiB at a rate that our own load can take with either setting: flat out, buffers of one page
/// would saturate it before the guest, and all its repeats would be discarded.
const DOWNLOADS: &str = r#"
schema = 1
name = "downloads"
about = "Files of 16 KiB, at a rate."
guest = [{ name = "web", role = "web" }]
load = [
    { name = "web", guest = "web", rate = "600/s", connections = 8, web = { files = [{ size = "16KiB", weight = 1 }] } },
]
ladder.tiles = [1]
measure = { warmup = "500ms", length = "1s" }
gate.p99 = "10s"
"#;

/// Buffers of one page for what is received, among settings that no download feels.
const ONE_HARMS: [(&str, &str); 11] = [
    ("net.ipv4.tcp_rmem", "4096 4096 4096"),
    ("net.ipv4.tcp_keepalive_time", "3600"),
    ("net.ipv4.tcp_keepalive_intvl", "33"),
    ("net.ipv4.tcp_keepalive_probes", "5"),
    ("net.ipv4.tcp_syn_retries", "4"),
    ("net.ipv4.tcp_synack_retries", "4"),
    ("net.ipv4.tcp_retries1", "4"),
    ("net.ipv4.tcp_retries2", "9"),
    ("net.ipv4.tcp_orphan_retries", "3"),
    ("net.ipv4.tcp_fin_timeout", "17"),
    ("net.ipv4.tcp_max_reordering", "301"),
];

/// The whole command on a real host, as often as is asked for. In at least 19 of 20 screenings all of these settings harm, and in at most
/// one of 20 another one is named. Each is printed.
fn name_those_that_harm(scenario: &str, profile: &str, more: &[&str], harmful: &[&str], real: &Real) {
    let screenings: u32 = std::env::var("TILEMARK_TEST_SCREENINGS").map_or(1, |count| count.parse().unwrap());
    assert!(screenings > 0, "nothing would be measured");
    let arguments = ["host", "try", scenario, "--profile", profile, "--on", "native", "--offline", "--json"];
    let (mut named, mut others) = (0, 0);
    for _ in 0..screenings {
        let result = real.start(&[&arguments[..], more].concat()).said().result();
        let settings = result.screening.unwrap().settings;
        let (planted, idle): (Vec<_>, Vec<_>) =
            settings.iter().partition(|setting| harmful.contains(&setting.key.as_str()));
        assert_eq!(planted.len(), harmful.len(), "this host has such a value already");
        let is_named = planted.iter().all(|setting| setting.outcome == SettingOutcome::Harms);
        let is_said = |outcome| matches!(outcome, SettingOutcome::Pays | SettingOutcome::Harms);
        let is_other_named = idle.iter().any(|setting| is_said(setting.outcome));
        (named, others) = (named + u32::from(is_named), others + u32::from(is_other_named));
        let document = serde_json::json!({
            "is_named": is_named, "is_other_named": is_other_named, "sentence": result.sentence,
        });
        println!("{document}");
    }
    assert!(
        20 * named >= 19 * screenings && 20 * others <= screenings,
        "named in {named} of {screenings}, others in {others}"
    );
}

#[test]
#[ignore = "minutes of real runs: `cargo xtask soak settings`"]
fn a_setting_that_harms_is_named_among_some_that_do_nothing() {
    let Some(real) = Real::new() else { return };
    let scenario = real.home.file("downloads.toml", DOWNLOADS);
    let profile = profile_of(&real, &ONE_HARMS);
    let scenario = scenario.to_str().unwrap();
    name_those_that_harm(scenario, &profile, &["--not-alone"], &["net.ipv4.tcp_rmem"], &real);
}

/// Counts rounds of work until `$1` seconds are over, and prints how many there were in each quarter of a second. A round has so much more to do as
/// real values of this host say: `$2` is a list of FILE=VALUE=PERCENT, and a file that has the value makes each round longer by the percentage.
const PLANTED: &str = r#"
until=$((${EPOCHREALTIME/./} + $1 * 1000000))
steps=2000
for planted in $2; do
    IFS='=' read -r file value percent <<<"$planted"
    read -r now <"$file"
    [ "$now" != "$value" ] || steps=$((steps * (100 + percent) / 100))
done
begun=${EPOCHREALTIME/./}
rounds=0
while :; do
    for ((step = 0; step < steps; step++)); do :; done
    rounds=$((rounds + 1))
    now=${EPOCHREALTIME/./}
    [ $((now - begun)) -ge 250000 ] || continue
    echo "rounds: $((rounds * 1000000 / (now - begun)))"
    [ "$now" -lt "$until" ] || break
    begun=$now
    rounds=0
done
"#;

/// A scenario whose load is that program.
fn planted(real: &Real, what: &str) -> String {
    real.home.file("planted.sh", PLANTED);
    let text = format!(
        r#"
schema = 1
name = "work"
about = "A program that has more to do with some values of the host."
guest = [{{ name = "idle", role = "idle" }}]
ladder.tiles = [1]
measure = {{ warmup = "1s", length = "2s" }}
[[load]]
name = "work"
guest = "idle"
[load.command]
run = ["bash", "planted.sh", "{{total_seconds}}", "{what}"]
from = "host"
files = {{ "planted.sh" = "planted.sh" }}
rate = 'rounds: ([0-9]+)'
unit = "rounds"
"#
    );
    real.home.file("work.toml", &text).to_str().unwrap().to_owned()
}

/// A profile of these settings, and its file.
fn profile_of(real: &Real, settings: &[(&str, &str)]) -> String {
    let line = |(key, value): &(&str, &str)| format!("[[setting]]\nkey = {key:?}\nvalue = {value:?}\n");
    let lines: String = settings.iter().map(line).collect();
    let text =
        format!("schema = 1\nname = \"some\"\nabout = \"Some settings.\"\nsource = \"a trial\"\n{lines}");
    real.home.file("some.toml", &text).to_str().unwrap().to_owned()
}

/// None of them is a kernel's default, and none matters for some minutes.
const ELEVEN: [(&str, &str); 11] = [
    ("vm.stat_interval", "7"),
    ("vm.max_map_count", "65531"),
    ("vm.compaction_proactiveness", "21"),
    ("vm.extfrag_threshold", "501"),
    ("vm.vfs_cache_pressure", "101"),
    ("vm.page-cluster", "4"),
    ("vm.dirtytime_expire_seconds", "43201"),
    ("vm.watermark_scale_factor", "11"),
    ("fs.lease-break-time", "46"),
    ("fs.inotify.max_queued_events", "16385"),
    ("fs.aio-max-nr", "65537"),
];

#[test]
#[ignore = "minutes of real runs: `cargo xtask soak settings`"]
fn two_settings_that_slow_the_load_by_five_percent_are_named_among_eleven() {
    let Some(real) = Real::new() else { return };
    let scenario = planted(&real, "/proc/sys/vm/stat_interval=7=5 /proc/sys/vm/max_map_count=65531=5");
    let harmful = ["vm.stat_interval", "vm.max_map_count"];
    name_those_that_harm(&scenario, &profile_of(&real, &ELEVEN), &["--trust"], &harmful, &real);
}

/// The host's own value slows the load by a tenth.
#[test]
#[ignore = "minutes of a real run on a quiet host: `cargo xtask soak settings`"]
fn a_setting_that_pays_stays_applied_until_it_is_restored() {
    let Some(real) = Real::new() else { return };
    let value = || fs::read_to_string("/proc/sys/vm/stat_interval").unwrap();
    let found = value();
    if found.trim() == ELEVEN[0].1 {
        return common::skipped("this host has the value that is to pay already");
    }
    let scenario = planted(&real, &format!("/proc/sys/vm/stat_interval={}=10", found.trim()));
    let profile = profile_of(&real, &[ELEVEN[0], ELEVEN[2], ELEVEN[10]]);
    let kept = real.home.path().join("kept.toml");
    let arguments =
        ["host", "try", &scenario, "--profile", &profile, "--trust", "--keep", kept.to_str().unwrap()];
    let said = real.start(&[&arguments[..], &["--on", "native", "--offline"]].concat()).said();
    let applied = value();
    let status = real.home.says(&["host", "status", "--json"]);
    // Before anything can fail.
    let restored = real.home.says(&["host", "restore"]);
    assert_eq!(said.code, Some(0), "{said:?}");
    let text = fs::read_to_string(&kept).unwrap();
    assert!(text.contains("vm.stat_interval") && !text.contains("fs.aio-max-nr"), "{text}");
    assert_eq!((applied.trim(), &status.json()["profile"]), ("7", &"paid-here".into()), "{said:?}");
    assert_eq!((restored.code, value()), (Some(0), found), "{restored:?}");
    println!("{}", serde_json::json!({ "kept": text }));
}
