//! Mistakes in scenarios and flags are reported within a second, with their exit code, and start nothing.

#![allow(missing_docs, clippy::unwrap_used)]

mod common;

use common::Home;
use std::time::{Duration, Instant};

/// A mistake: what is typed, the exit code, and words of the message.
type Mistake = (&'static str, i32, &'static str);

const OF_FLAGS: &[Mistake] = &[
    ("plan", 2, "required arguments were not provided"),
    ("plan run", 2, "required arguments were not provided"),
    ("plan capacity", 2, "required arguments were not provided"),
    ("plan ab", 2, "required arguments were not provided"),
    ("plan quick web", 2, "unexpected argument 'web'"),
    ("plan compare one two", 2, "It plans `run`, `capacity`, `ab`, `interference`, `host try` and `quick`"),
    ("plan host", 2, "Plan `tilemark host try`"),
    ("plan host apply current", 2, "unrecognized subcommand 'apply'"),
    ("plan web --frobnicate", 2, "unexpected argument '--frobnicate'"),
    ("plan run web --on moon", 2, "invalid value 'moon'"),
    ("plan run web --set gate.p99", 2, "`gate.p99` is not KEY=VALUE"),
    ("plan run web --set =1", 2, "is not KEY=VALUE"),
    ("plan run web --tiles one", 2, "invalid value 'one'"),
    ("plan run web --tiles -1", 2, "unexpected argument '-1'"),
    ("plan run web --seed x", 2, "invalid value 'x'"),
    ("plan run web --within soon", 2, "`soon` is not a length of time"),
    ("plan capacity web --within 0x", 2, "`0x` is not a length of time"),
    ("plan quick --within", 2, "a value is required"),
    ("plan run web --resolved --json", 2, "cannot be used with"),
    ("plan ab web --a x", 2, "`x` is not KEY=VALUE"),
    ("plan ab web --on native --b measure.repeats=4 --tolerance much", 2, "much"),
    ("plan run web --on native --twin", 2, "`--twin` beside `--on native`"),
    ("plan capacity web --on emulated --twin", 2, "emulated guests give no capacity"),
    ("plan run web --on native --more last", 2, "`plan` does not take `--more`"),
    ("plan run web --on native --within 1s", 2, "ends before one whole repeat"),
    ("run", 2, "required arguments were not provided"),
    ("capacity web --tiles 1", 2, "unexpected argument '--tiles'"),
    ("ab web --on native --tolerance much", 2, "much"),
    ("quick --on native", 2, "unexpected argument '--on'"),
    ("compare one", 2, "required arguments were not provided"),
    ("report --html", 2, "a value is required"),
    ("runs wob", 2, "unrecognized subcommand 'wob'"),
    ("wob", 2, "unrecognized subcommand 'wob'"),
];

const OF_SCENARIOS: &[Mistake] = &[
    ("plan wob", 2, "no scenario `wob`"),
    ("plan ./wob.toml", 2, "cannot read the scenario ./wob.toml"),
    ("plan capacity wob", 2, "no scenario `wob`"),
    ("plan ab wob --a measure.repeats=4", 2, "no scenario `wob`"),
    ("plan web --on native --preset quik", 2, "no preset `quik`"),
    ("plan web --on native --set gate.p99=soon", 2, "`gate.p99`: `soon` is not a"),
    ("plan web --on native --set gate.p98=1ms", 2, "there is no key `p98`"),
    ("plan web --on native --set gate.errors=2", 2, "write `--set gate.errors=2%`"),
    ("plan web --on native --set load.web.rate=300", 2, "`load.web.rate`: 300 has no unit"),
    ("plan web --on native --set load.web.rate=300", 2, "write `--set load.web.rate=300/s`"),
    ("plan web --on native --set gate.p99=20", 2, "write `--set gate.p99=20ms`"),
    ("plan web --on native --set guest.web.memory=512", 2, "write `--set guest.web.memory=512MiB`"),
    ("plan ab web --on native --b load.web.rate=300", 2, "write `--b load.web.rate=300/s`"),
    ("plan web --on native --preset quik", 2, "host"),
    ("plan web --on native --set load.wob.rate=1/s", 2, "no `wob`; there are: web"),
    ("data store --size 1GB", 2, "--out <DIR>|--into <URL>"),
    ("plan web --on native --set load.web.rate=0/s", 2, "an open loop with the rate 0"),
    ("plan web --on native --set load.web.rate=10/day", 2, "`10/day` is not a rate"),
    ("plan web --on native --set load.web.loop=open-ish", 2, "open-ish"),
    ("plan web --on native --set load.web.web.path=/", 2, "has no `pages`"),
    ("plan web --on native --set load.web.loop=closed", 2, "closed loop with a rate"),
    ("plan web --on native --set load.web.connections=0", 2, "has no connection"),
    ("plan web --on native --set load.web.guest=wob", 2, "which the tile does not have"),
    ("plan web --on native --set measure.repeats=three", 2, "a whole number from 0 is meant"),
    ("plan web --on native --set measure.repeats=-1", 2, "it is the number -1"),
    ("plan web --on native --set ladder.tiles=many", 2, "a list in brackets is meant"),
    ("plan web --on native --set measure.repeats=0", 2, "measures nothing"),
    ("plan web --on native --set measure.length=0s", 2, "not a whole number of seconds"),
    ("plan web --on native --set measure.length=1500ms", 2, "not a whole number of seconds"),
    ("plan web --on native --set measure.start=lift", 2, "lift"),
    ("plan web --on native --tiles 0", 2, "is not a valid ladder"),
    ("plan web --on native --tiles 4,2", 2, "is not a valid ladder"),
    ("plan web --on native --tiles 1200", 2, "1200 tiles are 1200 guests, and a bridge serves 1,000 at most"),
    ("plan web --on native --set guest.web.vcpus=0", 2, "has no processor"),
    ("plan web --on native --set guest.web.vcpus=4096", 2, "has 4096 processors"),
    ("plan web --on native --set guest.web.memory=1MiB", 2, "of memory"),
    ("plan web --on native --set guest.web.memory=2TiB", 2, "has 2 TiB of memory and this host has"),
    ("plan web --on emulated --set guest.web.memory=2TiB", 2, "of memory and this host has"),
    ("plan web --on native --set guest.web.role=wob", 2, "there is no value `wob`"),
    ("plan web --on native --set guest.web.role=disk", 2, "needs a guest with role `web`"),
    ("plan web --on native --set headline=wob", 2, "names no load"),
    ("plan web --on native --set name=a/b", 2, "is not a valid name"),
    ("plan web --on native --set schema=9", 2, "`schema = 9` is not known"),
    ("plan web --on native --set image=wob", 2, "wob"),
    ("plan web --on native --set image=./wob.toml", 2, "cannot read ./wob.toml"),
    ("plan sessions --on native --set image=first-look", 2, "has no PHP, which guest `web` needs"),
    ("plan web --on native --offline", 3, "is not in the cache"),
    ("plan web --on emulated --set qemu.binary=/nowhere/qemu", 3, "looked for /nowhere/qemu"),
    ("plan web --on emulated --set qemu.kernel=/nowhere/vmlinux", 2, "there is no kernel /nowhere/vmlinux"),
    (
        "plan web --on emulated --set qemu.kernel=/etc/passwd",
        2,
        "/etc/passwd (`qemu.kernel`) is not a kernel",
    ),
    ("plan web --on emulated --set qemu.machine=none", 2, "no guest starts on it"),
    ("plan web --on native --set host.setting.vm.wob=1", 2, "vm.wob"),
    ("plan capacity web --on native --within 1s", 2, "ends before one repeat of 1 tile"),
    ("plan ab web --on native", 2, "neither `--a` nor `--b` was given"),
    (
        "plan ab web --on native --a load.web.rate=300/s --b load.web.rate=300/s",
        2,
        "both sides have the same settings",
    ),
    (
        "plan ab web --on native --b image=database",
        2,
        "side B sets `image`, which is the same in the whole plan",
    ),
    ("plan ab web --on native --a wob=1", 2, "there is no key `wob`"),
    ("plan ab web --on emulated --b qemu.binary=/nowhere/qemu", 3, "looked for /nowhere/qemu"),
];

/// What of a scenario file is changed, into what, and words of the message. The file is one that can be planned.
const OF_FILES: &[(&str, &str, &str)] = &[
    ("[ladder]\ntiles = [1, 2]\n", "", "`ladder` is missing"),
    ("tiles = [1, 2]\n", "", "`ladder.tiles` is missing"),
    ("guest = \"web\"\n", "", "`load.web.guest` is missing"),
    ("role = \"web\"\n", "", "guest"),
    ("schema = 1\n", "", "`schema` is missing"),
    ("about = \"a test\"\n", "", "`about` is missing"),
    ("[1, 2]", "\"many\"", "`ladder.tiles`: it is the text \"many\", and a list in brackets is meant"),
    (
        "[1, 2]",
        "[1, \"two\"]",
        "`ladder.tiles.1`: it is the text \"two\", and a whole number from 0 is meant",
    ),
    ("[1, 2]", "[1, -2]", "it is the number -2, and a whole number from 0 is meant"),
    ("[1, 2]", "[1.5]", "it is the number 1.5, and a whole number from 0 is meant"),
    ("[1, 2]", "{}", "it is a table, and a list in brackets is meant"),
    ("\"10/s\"", "10", "`load.web.rate`: 10 has no unit"),
    ("\"10/s\"", "10", "write `rate = \"10/s\"`"),
    ("\"10/s\"", "true", "`load.web.rate`"),
    ("\"10/s\"", "\"fast\"", "`fast` is not a rate such as `200/s`"),
    ("name = \"t\"", "name = 5", "`name`: it is the number 5, and a text in quotes is meant"),
    ("about = \"a test\"", "about = []", "`about`: it is a list, and a text in quotes is meant"),
    ("schema = 1", "schema = \"1\"", "`schema`: it is the text \"1\", and a whole number from 0 is meant"),
    ("rate =", "rte =", "there is no key `rte`. Did you mean `rate`?"),
    ("[ladder]", "[ladder]\nsteps = 3", "`ladder`: there is no key `steps`"),
    ("role = \"web\"", "role = \"wb\"", "there is no value `wb`. Did you mean `web`?"),
    ("role = \"web\"", "role = 7", "`guest.web.role`"),
    ("[ladder]", "[measure]\nrepeats = \"three\"\n[ladder]", "write it like `repeats = "),
    ("[ladder]", "[measure]\nlength = 5\n[ladder]", "`measure.length`"),
    ("[ladder]", "[gate]\np99 = 50\n[ladder]", "`gate.p99`"),
    ("[ladder]", "[gate]\nerrors = \"few\"\n[ladder]", "`gate.errors`"),
    ("[ladder]", "[ladder", "line 14: "),
    ("[1, 2]", "[1, 2", "line 1"),
    ("name = \"t\"", "name = t", "line 3: "),
    ("name = \"t\"", "name = \"t\"\nname = \"u\"", "line 4: "),
];

/// Words of libraries, which say nothing to somebody who wrote a file.
const OF_LIBRARIES: [&str; 16] = [
    "invalid type",
    "invalid value:",
    "missing field",
    "unknown field",
    "unknown variant",
    "invalid digit",
    "invalid float literal",
    "target type",
    "expected u32",
    "expected struct",
    "expected a sequence",
    "TOML parse error",
    "MySqlError",
    "IoError",
    "ParseIntError",
    "serde",
];

fn of_library(said: &common::Said) -> Option<&'static str> {
    OF_LIBRARIES.into_iter().find(|words| said.error.contains(words) || said.out.contains(words))
}

#[test]
fn each_mistake_in_a_file_is_said_by_its_key_with_what_is_there_and_what_is_meant() {
    let home = Home::new();
    let mut wrong = Vec::new();
    for (from, to, words) in OF_FILES {
        assert!(tilemark_fixtures::TILE.contains(from), "{from}");
        let file = home.file("scenario.toml", &tilemark_fixtures::TILE.replacen(from, to, 1));
        let said = home.says(&["plan", file.to_str().unwrap(), "--on", "native"]);
        let message = said.error.split("\n  to fix: ").next().unwrap_or_default();
        let remedy = said.error.contains("\n  to fix: ");
        if said.code != Some(2) || !said.error.contains(words) || message.is_empty() || !remedy {
            wrong.push(format!("{from} -> {to}: wanted {words:?}: {said:?}"));
        }
        wrong.extend(of_library(&said).map(|library| format!("{from} -> {to}: says {library:?}: {said:?}")));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The text of a site file, the command that gets it, and words of the message.
const OF_SITES: &[(&str, &str, &str)] = &[
    ("", "plan web --on native", "`schema` is missing: add `schema = 1`"),
    ("schema = 1\n", "plan web --on native", "it has neither [[client]] nor [network]"),
    ("schema = 1\n[[clients]]\nname = \"c1\"\n", "plan web --on native", "Did you mean `client`?"),
    (
        "schema = 1\nengine = \"ssh\"\n[[host]]\nname = \"n1\"\n",
        "doctor",
        "`tilemark fleet plan SCENARIO --site FILE`",
    ),
    (
        "schema = 1\nengine = \"shh\"\n[[host]]\nname = \"n1\"\n",
        "fleet plan web --on native",
        "Did you mean `ssh`?",
    ),
    (
        "schema = 1\nengine = \"ssh\"\nlost_after = 60\n",
        "fleet plan web --on native",
        "write lost_after = \"60s\"",
    ),
    ("schema = 1\nengine = \"ssh\"\n", "fleet plan web --on native", "0 [[host]] entries: a fleet has 1 to"),
];

#[test]
fn each_mistake_in_a_site_file_is_said_in_our_words() {
    let home = Home::new();
    let mut wrong = Vec::new();
    for (text, command, words) in OF_SITES {
        let file = home.file("site.toml", text);
        let arguments: Vec<&str> = command.split(' ').chain(["--site", file.to_str().unwrap()]).collect();
        let said = home.says(&arguments);
        if said.code != Some(2) || !said.error.contains(words) || of_library(&said).is_some() {
            wrong.push(format!("{text:?}, {command}: wanted {words:?}: {said:?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Within this on a quiet machine; a busy one may be slower, and a test may not judge by it.
const GOAL: Duration = Duration::from_secs(1);

#[test]
fn each_mistake_is_reported_with_its_exit_code_and_starts_nothing() {
    let home = Home::new();
    assert!(OF_FLAGS.len() + OF_SCENARIOS.len() >= 60);
    let (mut wrong, mut slowest) = (Vec::new(), (Duration::ZERO, ""));
    for &(typed, code, words) in OF_FLAGS.iter().chain(OF_SCENARIOS) {
        let arguments: Vec<&str> = typed.split(' ').filter(|word| !word.is_empty()).collect();
        let began = Instant::now();
        let said = home.says(&arguments);
        slowest = slowest.max((began.elapsed(), typed));
        let has_words = said.error.contains(words) || said.out.contains(words);
        if said.code != Some(code) || !has_words || said.error.contains("panicked") {
            wrong.push(format!("{typed}: wanted {code} and {words:?}: {said:?}"));
        }
        wrong.extend(of_library(&said).map(|library| format!("{typed}: says {library:?}: {said:?}")));
    }
    println!("slowest: {:?} for `{}`; the goal is {GOAL:?}", slowest.0, slowest.1);
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    let left: Vec<_> = std::fs::read_dir(home.path()).unwrap().flatten().map(|entry| entry.path()).collect();
    assert!(left.is_empty(), "something was made: {left:?}");
}

/// What is resolved can be run, and says what it would have said.
#[test]
fn a_resolved_scenario_is_a_scenario() {
    let home = Home::new();
    let plan = ["plan", "run", "first-look", "--on", "native", "--set", "gate.p99=20ms", "--tiles", "1,3"];
    let said = home.says(&[&plan[..], &["--resolved", "--seed", "7"]].concat()).ended(0);
    assert!(said.out.contains("p99 = \"20ms\""), "{said:?}");
    let file = home.file("resolved.toml", &said.out);
    let of = |arguments: &[&str]| {
        home.says(&[arguments, &["--seed", "7", "--json"]].concat()).json()["points"].clone()
    };
    assert_eq!(of(&["plan", file.to_str().unwrap(), "--on", "native"]), of(&plan));
}

#[test]
fn a_plan_of_each_command_has_its_flags() {
    let home = Home::new();
    let ab =
        home.says(&["plan", "ab", "web", "--on", "native", "--a", "load.web.rate=300/s", "--json"]).json();
    assert_eq!(ab["points"].as_array().unwrap().len(), 2);
    let sides =
        ["plan", "ab", "web", "--on", "native", "--b", "load.web.rate=300/s", "--a", "load.web.rate=400/s"];
    home.says(&sides).with_output("\nSide A    load.web.rate = 400/s\nSide B    load.web.rate = 300/s\n");
    let gates = ["plan", "ab", "web", "--on", "native", "--a", "gate.p99=1ms", "--b", "gate.p99=2ms"];
    home.says(&gates).with_output("side A: p99 ≤ 1ms, ");
    home.says(&gates).with_output("side B: p99 ≤ 2ms, ");
    home.says(&["scenarios", "list"]).with_output("web (presets: quick, host)");
    let capacity =
        home.says(&["plan", "capacity", "web", "--on", "native", "--within", "10m", "--json"]).json();
    assert!(capacity["search"].is_object(), "{capacity}");
    let plain = home.says(&["plan", "web", "--on", "native", "--seed", "1"]);
    assert_eq!(plain.out, home.says(&["plan", "run", "web", "--on", "native", "--seed", "1"]).out);
    assert!(plain.out.contains("Image     `first-look`, not in the cache"), "{plain:?}");
}

/// The other figures of such a run are sound, and `run` measures them.
#[test]
fn too_few_requests_for_a_p99_are_a_warning_of_plan() {
    Home::new()
        .says(&["plan", "web", "--on", "native", "--set", "load.web.rate=5/s"])
        .ended(0)
        .with_output("\nWarning   no p99 from this run: it needs 2000 requests");
}

#[test]
fn what_interference_and_host_try_would_do_is_planned() {
    let home = Home::new();
    let roles = home.says(&["plan", "interference", "first-look", "--on", "native"]).ended(0);
    assert!(roles.out.contains("\nTime      about ") && roles.out.contains("roles web + burst"), "{roles:?}");
    let profile = "schema = 1\nname = \"p\"\nabout = \"A test.\"\nsource = \"a test\"\n\
        [[setting]]\nkey = \"net.core.somaxconn\"\nvalue = \"1234\"\n\
        [[setting]]\nkey = \"net.ipv4.tcp_autocorking\"\nvalue = \"0\"\n";
    let profile = home.file("p.toml", profile);
    let profile = profile.to_str().unwrap();
    let tried = home.says(&["plan", "host", "try", "web", "--on", "native", "--profile", profile]).ended(0);
    assert!(tried.out.contains("\nTries     2 settings of the profile p are screened in "), "{tried:?}");
    assert!(tried.out.contains(
        "\nTries     then each setting that seems to have an effect is confirmed alone in 12 pairs"
    ));
    let nowhere = ["plan", "host", "try", "web", "--profile", profile, "--keep", "/nowhere/kept.toml"];
    assert_eq!(
        home.says(&nowhere).code,
        Some(3),
        "a place that cannot be written is refused as by the command"
    );
}

/// A reader that leaves ends nothing; a full disk behind standard output is an error.
#[test]
fn a_result_that_cannot_be_written_is_an_error_and_a_reader_that_left_is_none() {
    let home = Home::new();
    let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
    let mut command = std::process::Command::new(common::TILEMARK);
    let output =
        command.args(["scenarios", "list"]).env("TILEMARK_HOME", home.path()).stdout(full).output().unwrap();
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(3), "{error}");
    assert!(
        error.contains("could not be written to standard output") && error.contains("to fix:"),
        "{error}"
    );

    for stream in ["1", "2"] {
        // The reading end is closed before the program begins.
        let typed = format!("exec {stream}> >(exec true); sleep 0.2; exec \"$0\" \"$@\"");
        let mut command = std::process::Command::new("bash");
        command.args(["-c", &typed, common::TILEMARK, "plan", "wob"]).env("TILEMARK_HOME", home.path());
        assert_eq!(command.output().unwrap().status.code(), Some(2), "stream {stream}");
        let mut command = std::process::Command::new("bash");
        command.args(["-c", &typed, common::TILEMARK, "scenarios", "list"]).env("TILEMARK_HOME", home.path());
        assert_eq!(command.output().unwrap().status.code(), Some(0), "stream {stream}");
    }
}
