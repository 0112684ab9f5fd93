//! An impossible request is refused with the reason and what to do, with the right exit code, in words or as
//! one JSON document; and nothing is left behind.

#![allow(missing_docs, clippy::unwrap_used)]

mod common;

use common::{Home, Said, TILEMARK, is_root, record::record_of, skipped};
use std::{fs, os::unix::fs::PermissionsExt, path::PathBuf, process::Command};
use tilemark_fixtures::TILE as SCENARIO;

/// What is refused, and how.
struct Refused<'a> {
    arguments: &'a [&'a str],
    code: i32,
    message: &'a str,
    remedy: &'a str,
}

/// In words and as JSON, the refusal says the same and nothing else.
#[track_caller]
fn refused(home: &Home, wanted: &Refused<'_>) {
    let name = match wanted.code {
        2 => "bad-input",
        3 => "host-unfit",
        other => panic!("{other} is no refusal"),
    };
    let said = home.says(wanted.arguments);
    assert_eq!((said.code, said.out.as_str()), (Some(wanted.code), ""), "{said:?}");
    assert!(said.error.contains(wanted.message), "{:?}: {said:?}", wanted.arguments);
    assert!(said.error.contains(wanted.remedy), "{:?}: {said:?}", wanted.arguments);
    assert!(!said.error.contains("panicked"), "{said:?}");

    let arguments = [wanted.arguments, &["--json"]].concat();
    let said = home.says(&arguments);
    assert_eq!(said.code, Some(wanted.code), "{said:?}");
    let document = said.json();
    assert_eq!(document.as_object().unwrap().keys().collect::<Vec<_>>(), ["error"]);
    let error = &document["error"];
    assert_eq!(error["code"], name);
    assert!(error["message"].as_str().unwrap().contains(wanted.message), "{document}");
    assert!(error["remedy"].as_str().unwrap().contains(wanted.remedy), "{document}");
    assert!(
        !home.path().join("state").exists() || folder(home, "state").iter().all(|name| name == "lock"),
        "something is left"
    );
}

fn folder(home: &Home, name: &str) -> Vec<String> {
    let entries = fs::read_dir(home.path().join(name)).unwrap();
    entries.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned()).collect()
}

#[test]
fn flags_that_cannot_be_read() {
    let home = Home::new();
    for (arguments, message) in [
        (&["plan", "web", "--frobnicate"][..], "unexpected argument '--frobnicate'"),
        (&["plan", "web", "--on", "moon"], "invalid value 'moon' for '--on <ON>'"),
        (&["plan", "web", "--set", "gate.p99"], "`gate.p99` is not KEY=VALUE"),
        (&["plan", "web", "--seed", "-1"], "unexpected argument '-1'"),
        (
            &["plan", "web", "--tiles", "one"],
            "invalid value 'one' for '--tiles <COUNTS>': write whole numbers from 1 with commas, such as 1,2,4",
        ),
        (&["plan", "web", "--tiles", "1-4"], "write whole numbers from 1 with commas, such as 1,2,4"),
        (&["plan", "web", "--tiles", "99999999999"], "write whole numbers from 1 with commas, such as 1,2,4"),
        (&["load", "web", "http://127.0.0.1/", "--seconds", "1500ms"], "such as 90, 90s or 10m"),
        (&["plan", "web", "--seed", "99999999999999999999999"], "it is too large"),
        (&["load", "web", "http://127.0.0.1/", "--rate", "fast"], "it is not a number"),
        (&["plan"], "required arguments were not provided"),
        (&["wob"], "unrecognized subcommand 'wob'"),
        (&["guests", "up", "1001"], "1001 is not in 1..=1000"),
        (&["load", "web", "http://127.0.0.1/", "--seconds", "0"], "0 is not in 1..=86400"),
        (&["load", "web", "http://127.0.0.1/", "--connections", "0"], "0 is not in 1.."),
        (
            &["load", "messaging-throughput", "--broker", "amqp://guest@127.0.0.1", "--count", "0"],
            "0 is not in 1..",
        ),
    ] {
        refused(&home, &Refused { arguments, code: 2, message, remedy: "--help" });
    }
}

#[test]
fn an_address_that_is_none_is_said_with_one_that_is() {
    Home::new()
        .says(&["broker", "--listen", "here"])
        .ended(2)
        .with_error("it is not an address with a port, such as 127.0.0.1:5672");
}

#[test]
fn a_flag_error_as_json_says_which() {
    let home = Home::new();
    for (arguments, message) in [
        (&["plan", "--json"][..], "the following required arguments were not provided: <SCENARIO>"),
        (&["compare", "--json"], "the following required arguments were not provided: <RUN>, <RUN>"),
        (
            &["plan", "web", "--on", "moon", "--json"],
            "invalid value 'moon' for '--on <ON>' [possible values: auto, kvm, emulated, native]",
        ),
    ] {
        let said = home.says(arguments);
        assert_eq!(said.json()["error"]["message"], message, "{said:?}");
    }
}

#[test]
fn a_native_run_is_not_asked_for_a_twin() {
    let home = Home::new();
    let native = ["web", "--on", "native", "--twin", "--offline"];
    let message = "`--twin` beside `--on native`";
    let remedy = "leave out `--twin`";
    let arguments = [&["plan"], &native[..4]].concat();
    refused(&home, &Refused { arguments: &arguments, code: 2, message, remedy });
    if is_root() {
        let arguments = [&["run"], &native[..]].concat();
        refused(&home, &Refused { arguments: &arguments, code: 2, message, remedy });
    }
}

#[test]
fn a_search_among_emulated_guests_is_not_given_a_twin() {
    let home = Home::new();
    if is_root() {
        let arguments = &["capacity", "web", "--on", "emulated", "--twin", "--offline"];
        let message = "`capacity --twin` with `--on emulated`";
        refused(&home, &Refused { arguments, code: 2, message, remedy: "leave out `--twin`" });
    }
}

/// `git bisect run` takes 1 to 124 for "bad", skips a commit at 125, and stops from 128 on.
#[test]
fn what_no_other_commit_could_change_stops_a_bisection() {
    let home = Home::new();
    for arguments in [
        &["ab", "web", "--exit-verdict", "--frobnicate"][..],
        &["ab", "web", "--exit-verdit", "--json"],
        &["compare", "--exit-verdict", "--json"],
        &["compare", "one", "other", "--exit-verdict"],
        &["ab", "wob", "--exit-verdict"],
        &["ab", "web", "--on", "native", "--offline", "--exit-verdict", "--tolerance", "much"],
        &["ab", "web", "--on", "native", "--exit-verdict"],
        &["ab", "web", "--on", "emulated", "--b", "qemu.binary=/nowhere/qemu", "--exit-verdict"],
    ] {
        assert_eq!(home.says(arguments).code, Some(128), "{arguments:?}");
    }
    assert_eq!(home.says(&["ab", "--exit-verdict", "--help"]).code, Some(0), "help is no failure");
}

/// Before the scenario is read, the image looked for and anything measured.
#[test]
fn a_tolerance_that_cannot_be_read_is_refused_at_once() {
    let home = Home::new();
    for arguments in [
        &["ab", "wob", "--offline", "--tolerance", "much", "--json"][..],
        &["compare", "one", "other", "--tolerance", "much", "--json"],
    ] {
        let said = home.says(arguments).ended(2);
        assert_eq!(said.json()["error"]["remedy"], "write it like `--tolerance 2%`", "{said:?}");
    }
}

#[test]
fn scenarios_that_cannot_be_resolved() {
    let home = Home::new();
    for (arguments, message, remedy) in [
        (&["plan", "wob"][..], "no scenario `wob`", "there are: first-look, web, disk"),
        (&["plan", "./wob.toml"], "cannot read the scenario ./wob.toml", "check the path"),
        (
            &["plan", "web", "--on", "native", "--preset", "quik"],
            "no preset `quik`",
            "this scenario has: quick, host",
        ),
        (
            &["plan", "web", "--on", "native", "--set", "gate.p99=soon"],
            "`soon` is not a",
            "docs/scenarios.md",
        ),
        // Before it is found out whether this host has KVM.
        (&["plan", "web", "--set", "gate.p99=soon"], "`gate.p99`: `soon` is not a", "docs/scenarios.md"),
        (
            &["plan", "web", "--on", "native", "--set", "gate.p98=1ms"],
            "there is no key `p98`",
            "docs/scenarios.md",
        ),
        (
            &["plan", "web", "--on", "native", "--set", "load.wob.rate=1/s"],
            "no `wob`; there are: web",
            "scenarios show",
        ),
        (
            &["plan", "web", "--on", "native", "--set", "measure.repeats=0"],
            "`measure.repeats = 0` measures nothing",
            "write 1 or more",
        ),
        (
            &["plan", "web", "--on", "native", "--tiles", "0"],
            "`ladder.tiles = [0]` is not a valid ladder",
            "rising counts",
        ),
        (
            &["plan", "web", "--on", "native", "--tiles", "1200"],
            "1200 tiles are 1200 guests",
            "lower `ladder.tiles`",
        ),
        (
            &["plan", "web", "--on", "emulated", "--set", "guest.web.memory=2TiB"],
            "of memory; this host has",
            "",
        ),
        (&["capacity", "web", "--within", "soon"], "`soon` is not a length of time such as `50ms`", "--help"),
        (&["load", "web", "ftp://127.0.0.1/"], "neither http:// nor https://", "http://127.0.0.1:8080"),
        (&["load", "web", "http://127.0.0.1:9/", "--insecure"], "has no TLS", "write https://"),
        (&["load", "web", "http://127.0.0.1/", "--rate", "0"], "`--rate 0` is not a valid rate", "above 0"),
        (&["load", "web", "http://127.0.0.1/", "--rate", "0/s"], "`--rate 0` is not a valid rate", "above 0"),
    ] {
        refused(&home, &Refused { arguments, code: 2, message, remedy });
    }
}

#[test]
fn scenario_files_with_mistakes_name_the_key_or_the_line() {
    let home = Home::new();
    for (text, message) in [
        (SCENARIO.replace("rate =", "rte ="), "there is no key `rte`. Did you mean `rate`?"),
        (SCENARIO.replace("10/s", "10/day"), "`10/day` is not a rate"),
        (SCENARIO.replace("[ladder]", "[ladder"), "line 14: "),
        (SCENARIO.replace("role = \"web\"", "role = \"wob\""), "there is no value `wob`"),
    ] {
        let file = home.file("scenario.toml", &text);
        let arguments = ["plan", file.to_str().unwrap(), "--on", "native"];
        refused(&home, &Refused { arguments: &arguments, code: 2, message, remedy: "" });
    }
    // Several are reported at once.
    let text = SCENARIO.replace("10/s", "0/s").replace("[1, 2]", "[2, 1]");
    let file = home.file("scenario.toml", &text);
    let said = home.says(&["plan", file.to_str().unwrap(), "--on", "native"]);
    assert!(
        said.error.contains("open loop with the rate 0") && said.error.contains("is not a valid ladder"),
        "{said:?}"
    );
}

/// A closed record in this home; the figures in it are none.
fn record(home: &Home) -> PathBuf {
    record_of(home, "20260101-000000-web")
}

#[test]
fn a_record_with_a_changed_byte_is_refused_by_the_name_of_its_file() {
    let home = Home::new();
    let record = record(&home);
    let text = fs::read_to_string(record.join("plan.json")).unwrap();
    fs::write(record.join("plan.json"), text.replacen("500/s", "501/s", 1)).unwrap();
    let message = format!("{} is damaged", record.join("plan.json").display());
    let id = "20260101-000000-web";
    for arguments in
        [&["report"][..], &["report", "2026"], &["report", record.to_str().unwrap()], &["compare", id, id]]
    {
        refused(
            &home,
            &Refused { arguments, code: 2, message: &message, remedy: "restore the file from a copy" },
        );
    }
}

#[test]
fn a_record_elsewhere_is_found_by_the_name_of_its_folder() {
    let home = Home::new();
    fs::rename(record(&home), home.path().join("elsewhere")).unwrap();
    let mut command = home.command(&["report", "elsewhere"]);
    Said::of(&command.current_dir(home.path()).output().unwrap()).ended(0);
}

#[test]
fn a_redacted_page_is_written_where_the_flag_says_and_never_over_the_whole_one() {
    let home = Home::new();
    let own_page = record(&home).join("report.html");
    let said = home.says(&["report", "--redact"]).ended(0);
    assert!(said.error.contains("`--html FILE` writes one") && !own_page.exists(), "{said:?}");
    let page = home.path().join("page.html");
    let said = home.says(&["report", "--redact", "--html", page.to_str().unwrap()]);
    assert!(!said.error.contains("No page") && page.exists() && !own_page.exists(), "{said:?}");
}

#[test]
fn a_comparison_that_cannot_tell_is_shown_and_exits_as_one_that_is_not_trusted() {
    let home = Home::new();
    let (a, b) = ("20260101-000000-web", "20260102-000000-web");
    record_of(&home, a);
    record_of(&home, b);
    home.says(&["compare", a, b]).ended(5).with_output("because: the two have no step");
    let said = home.says(&["compare", a, b, "--json"]);
    assert_eq!((said.code, &said.json()["verdict"]["status"]), (Some(5), &serde_json::json!("cannot-tell")));
    assert_eq!(home.says(&["compare", a, b, "--exit-verdict"]).code, Some(125), "git bisect skips it");
}

#[test]
fn a_fleets_scenario_with_files_by_relative_paths_is_refused_before_a_host_is_asked() {
    let home = Home::new();
    let asked = home.path().join("asked");
    let site = home.file(
        "site.toml",
        &format!(
            "schema = 1\nengine = \"exec\"\nexec = [\"sh\", \"-c\", \"touch {}; exit 1\", \"{{host}}\"]\n[[host]]\nname = \"n1\"\n",
            asked.display()
        ),
    );
    let files = "[image]\nfrom = \"first-look\"\n[image.files]\n\"/srv/site\" = \"site\"\n[qemu]\nkernel = \"vmlinuz\"\n";
    let scenario = home.file("own.toml", &format!("{SCENARIO}\n{files}"));
    let (scenario, site) = (scenario.to_str().unwrap(), site.to_str().unwrap());
    for verb in ["plan", "run"] {
        refused(
            &home,
            &Refused {
                arguments: &["fleet", verb, scenario, "--site", site, "--on", "native"],
                code: 2,
                message: "names files by relative paths: \"vmlinuz\" (`qemu.kernel`), \"site\" (`image.files`)",
                remedy: "name them by absolute paths, and add `--trust`",
            },
        );
    }
    assert!(!asked.exists(), "a host was asked");
    // What a flag gives is looked for in that folder too.
    let own = home.file("plain.toml", SCENARIO);
    let said =
        home.says(&["fleet", "plan", own.to_str().unwrap(), "--site", site, "--set", "qemu.kernel=./k"]);
    assert_eq!(said.code, Some(2), "{said:?}");
    assert!(said.error.contains("\"./k\" (`qemu.kernel`)") && !asked.exists(), "{said:?}");
}

#[test]
fn a_record_that_was_never_closed_is_refused() {
    let home = Home::new();
    fs::remove_file(record(&home).join("manifest.json")).unwrap();
    refused(
        &home,
        &Refused { arguments: &["report"], code: 2, message: "was never closed", remedy: "events.ndjson" },
    );
}

#[test]
fn runs_that_are_not_there() {
    let home = Home::new();
    let none = "make one with `tilemark quick`, or give the path of a record";
    for (arguments, message, remedy) in [
        (&["report"][..], "no run `last`: this user has no runs", none),
        (&["report", "2026"], "no run `2026`: this user has no runs", none),
        (&["compare", "a", "b"], "no run `a`: this user has no runs", none),
        (&["fleet", "status"], "there are no fleet runs yet", "start one with `tilemark fleet run"),
        (&["fleet", "report"], "there are no fleet runs yet", "start one with `tilemark fleet run"),
        (&["runs", "show", "/nowhere"], "/nowhere is not a record: it has no plan.json", "check the path"),
    ] {
        refused(&home, &Refused { arguments, code: 2, message, remedy });
    }
    assert_eq!(home.says(&["compare", "a", "b", "--exit-verdict"]).code, Some(128), "git bisect stops");
    let said = home.says(&["runs"]);
    assert_eq!((said.code, said.out.as_str()), (Some(0), "No runs yet. `tilemark quick` makes one.\n"));
    assert_eq!(home.says(&["runs", "--json"]).json(), serde_json::json!({ "runs": [] }));
}

#[test]
fn kvm_that_is_not_usable_is_refused_with_its_reason() {
    let home = Home::new();
    let facts = home.says(&["doctor", "--json"]).json();
    let kvm = &facts["accelerators"]["kvm"];
    if kvm["verdict"] == "usable" {
        return println!("not tried: kvm is usable here");
    }
    let reason = kvm["reason"].as_str().unwrap();
    assert!(!reason.is_empty());
    for arguments in [&["plan", "web", "--on", "kvm"][..], &["plan", "web"]] {
        let message = "kvm is not usable on this host: ";
        refused(&home, &Refused { arguments, code: 3, message, remedy: "`--on native`" });
    }
}

/// The program as anybody starts it; nothing when this process can't become anybody.
fn as_nobody(home: &Home, arguments: &[&str]) -> Option<Said> {
    if !is_root() {
        return Some(home.says(arguments));
    }
    // Where it was built nobody else may look.
    let program = home.path().join("tilemark");
    if !program.exists() {
        fs::copy(TILEMARK, &program).unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
        fs::set_permissions(home.path(), fs::Permissions::from_mode(0o755)).unwrap();
    }
    let mut command = Command::new("setpriv");
    command.args(["--reuid=65534", "--regid=65534", "--clear-groups", "--"]).arg(program).args(arguments);
    command.env("TILEMARK_HOME", home.path());
    command.output().ok().map(|output| Said::of(&output))
}

#[test]
fn what_needs_root_says_so_and_the_rest_does_not_need_it() {
    let home = Home::new();
    if as_nobody(&home, &["--version"]).is_none_or(|said| said.code != Some(0)) {
        return skipped("setpriv cannot start the program as nobody");
    }
    let needing: [&[&str]; 7] = [
        &["run", "web", "--on", "native"],
        &["capacity", "web", "--on", "native"],
        &["ab", "web", "--on", "native"],
        &["guests", "up", "1", "--on", "native"],
        &["guests", "down"],
        &["image", "build"],
        &["recover"],
    ];
    for arguments in needing {
        let said = as_nobody(&home, &[arguments, &["--json"]].concat()).unwrap();
        assert_eq!(said.code, Some(3), "{arguments:?}: {said:?}");
        let error = &said.json()["error"];
        assert_eq!(error["code"], "host-unfit");
        assert!(error["message"].as_str().unwrap().contains("needs root"), "{error}");
        assert!(error["remedy"].as_str().unwrap().contains("sudo"), "{error}");
    }
    as_nobody(&home, &["recover"]).unwrap().with_error("needs root: it removes files and control groups");
    for arguments in
        [&["guests", "exec", "tile-001-idle", "true"][..], &["guests", "console", "tile-001-idle"]]
    {
        let said = as_nobody(&home, arguments).unwrap();
        assert_eq!(said.code, Some(3), "{arguments:?}: {said:?}");
        assert!(said.error.contains("needs root") && said.error.contains("sudo"), "{said:?}");
    }
    let said = as_nobody(&home, &["guests", "list", "--json"]).unwrap();
    assert_eq!(said.json(), serde_json::json!({ "guests": [] }));
    assert!(said.error.contains("sudo tilemark guests list"), "none of root's are seen: {said:?}");
    for arguments in [
        &["plan", "web", "--on", "native"][..],
        &["scenarios", "list"],
        &["runs"],
        &["guests", "list"],
        &["doctor"],
    ] {
        let said = as_nobody(&home, arguments).unwrap();
        assert_eq!(said.code, Some(0), "{arguments:?}: {said:?}");
    }
}

#[test]
fn a_home_that_cannot_be_written_is_named() {
    if !is_root() {
        return skipped("runs need root");
    }
    let home = Home::new();
    let place = home.file("home", "a file").join("below");
    for arguments in [&["run", "web", "--on", "native", "--offline"][..], &["image", "build", "--offline"]] {
        let mut command = home.command(arguments);
        let said = Said::of(&command.env("TILEMARK_HOME", &place).output().unwrap());
        assert_eq!(said.code, Some(3), "{arguments:?}: {said:?}");
        assert!(said.error.contains(place.to_str().unwrap()), "{arguments:?}: {said:?}");
        assert!(said.error.contains("TILEMARK_HOME"), "{arguments:?}: {said:?}");
    }
}

/// `sudo tilemark image import` can read any file of the host.
#[test]
fn an_import_prints_nothing_of_a_file_that_is_no_image() {
    let home = Home::new();
    let secret = "root:$6$secret$hash:19000:0:99999:7:::\n";
    let lock = format!("{}/image.lock", "0".repeat(64));
    let tar = |text: &str| {
        let file = home.file("member", text);
        let archive = home.path().join("archive.tar");
        let mut pack = Command::new("tar");
        pack.arg("-cf").arg(&archive).arg("-C").arg(file.parent().unwrap());
        pack.arg(format!("--transform=s,member,{lock},")).arg("member");
        assert!(pack.status().unwrap().success());
        fs::read(archive).unwrap()
    };
    for (number, content) in
        [secret.as_bytes().to_vec(), secret.repeat(100).into_bytes(), tar(secret)].into_iter().enumerate()
    {
        let file = home.path().join(format!("file-{number}"));
        fs::write(&file, content).unwrap();
        for json in [&[][..], &["--json"]] {
            let arguments = [&["image", "import", file.to_str().unwrap()], json].concat();
            let said = home.says(&arguments);
            assert_ne!(said.code, Some(0), "{said:?}");
            assert!(!said.out.contains("$6$") && !said.error.contains("$6$"), "{said:?}");
            assert!(!said.out.contains("secret") && !said.error.contains("secret"), "{said:?}");
        }
    }
}

#[test]
fn images_that_cannot_be_had() {
    let home = Home::new();
    let file = home.file("image.toml", "nam = \"x\"\n");
    let file = file.to_str().unwrap();
    for (arguments, message, remedy) in [
        (&["image", "build", file][..], "unknown key `nam`", "correct the file"),
        (&["image", "build", "./wob.toml"], "cannot read ./wob.toml", "check the path"),
        (&["image", "build", "wob"], "`wob` is built in; there are: first-look", "image.toml"),
        (&["image", "export", "wob", "wob.tar"], "no image `wob`", "tilemark image list"),
        (&["image", "import", "/nowhere/wob.tar"], "cannot read /nowhere/wob.tar", "check the path"),
    ] {
        refused(&home, &Refused { arguments, code: 2, message, remedy });
    }
    if !is_root() {
        return skipped("runs need root");
    }
    let arguments = ["run", "web", "--on", "native", "--offline"];
    let message = "is not in the cache";
    refused(&home, &Refused { arguments: &arguments, code: 3, message, remedy: "--offline" });
    let mut records = std::fs::read_dir(home.path().join("runs")).into_iter().flatten();
    assert!(records.next().is_none(), "no record of what never began");
}
