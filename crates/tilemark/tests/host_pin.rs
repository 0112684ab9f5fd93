//! `tilemark host pin`, `unpin`, `export` and `import`, with processes that play QEMU.

#![allow(missing_docs, clippy::unwrap_used)]

mod common;

use common::{Home, Said, TILEMARK, hears_ctrl_c};
use serde_json::Value;
use std::{
    collections::BTreeMap,
    io::{BufRead, BufReader},
    process::{Command, Stdio},
};
use tilemark_fixtures::QemuPlayer;

fn processors(player: &QemuPlayer) -> String {
    let status = std::fs::read_to_string(format!("/proc/{}/status", player.id())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:")).unwrap();
    line.trim().to_owned()
}

/// A name that no other test has, and no guest of this host.
fn own(name: &str) -> String {
    format!("tilemark-test-{}-{name}", std::process::id())
}

#[test]
fn guests_are_pinned_by_a_file_and_unpinned_again() {
    let home = Home::new();
    let (mine, other) = (QemuPlayer::named(&own("one-web")), QemuPlayer::named(&own("other")));
    let before = processors(&mine);
    if before == "0" {
        common::skipped("it needs two processors that this process may use");
        return;
    }
    let file = home.file("pins", &format!("# mine\n{}* cpus 0\n", own("one-")));
    let document = home.says(&["host", "pin", file.to_str().unwrap(), "--json"]).ended(0).json();
    assert_eq!(document["pinned"][0]["pid"], mine.id());
    assert_eq!(document["pinned"].as_array().unwrap().len(), 1);
    assert_eq!((processors(&mine), processors(&other)), ("0".to_owned(), before.clone()));
    home.says(&["host", "unpin"]).ended(0).with_output("1 thread restored");
    assert_eq!(processors(&mine), before);
    let nothing = if common::is_root() {
        "No running guest is pinned."
    } else {
        "This user has pinned no running guest"
    };
    assert!(home.says(&["host", "unpin"]).out.starts_with(nothing));
}

#[test]
fn a_watch_pins_guests_that_start_later_and_keeps_everybody_else_out() {
    let home = Home::new();
    let file = home.file("pins", &format!("{} cpus 0\n", own("late")));
    let mut command = hears_ctrl_c();
    command.args(["host", "pin", file.to_str().unwrap(), "--watch"]).env("TILEMARK_HOME", home.path());
    let mut watch = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(watch.stderr.take().unwrap()).lines().map_while(Result::ok);
    assert!(lines.next().unwrap().starts_with("Looking for guests until Ctrl-C."));
    home.says(&["host", "unpin"]).ended(3).with_error(&format!("process {} is pinning", watch.id()));
    let late = QemuPlayer::named(&own("late"));
    // The watch prints a line when it has bound it, and one for a numad or tuned of this host.
    let line = lines.find(|line| line.starts_with(&own("late"))).unwrap();
    let bound = format!("{} (process {}): 1 thread on processors 0", own("late"), late.id());
    assert!(line.starts_with(&bound), "{line}");
    assert_eq!(processors(&late), "0");
    let interrupt = rustix::process::Pid::from_child(&watch);
    rustix::process::kill_process(interrupt, rustix::process::Signal::INT).unwrap();
    assert_eq!(watch.wait().unwrap().code(), Some(0));
    assert_eq!(processors(&late), "0", "it stays until `unpin`");
    assert_eq!(home.says(&["host", "unpin"]).code, Some(0));
}

/// The command where the kernel calls a player of QEMU `numad`, by a mount that nobody else sees.
fn beside_numad(home: &Home, player: &QemuPlayer, arguments: &[&str]) -> Command {
    let script = r#"mount --bind "$1" "/proc/$2/comm" && shift 2 && exec "$@""#;
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-c", script, "sh"]).arg(home.file("comm", "numad\n"));
    command.arg(player.id().to_string()).args(["env", "--default-signal=INT", TILEMARK, "host", "pin"]);
    command.args(arguments).env("TILEMARK_HOME", home.path());
    command
}

#[test]
fn a_numad_that_runs_is_named_beside_what_was_pinned_with_what_to_do() {
    if !common::is_root() {
        common::skipped("mounting needs root");
        return;
    }
    let home = Home::new();
    let (mine, plays_numad) = (QemuPlayer::named(&own("beside-numad")), QemuPlayer::named(&own("numad")));
    let file = home.file("pins", &format!("{} cpus 0\n", own("beside-*")));
    let file = file.to_str().unwrap();
    let says = |arguments: &[&str]| Said::of(&beside_numad(&home, &plays_numad, arguments).output().unwrap());
    let runs = format!("numad runs (process {})", plays_numad.id());
    let said = says(&[file]);
    assert_eq!((said.code, processors(&mine).as_str()), (Some(0), "0"), "{said:?}");
    assert!(said.out.contains(&format!("\nNote: {runs} and moves guests between nodes too: ")), "{said:?}");
    assert!(said.out.contains("`systemctl stop numad`"), "{said:?}");
    // A numad or tuned of this host may be there too.
    let report = says(&[file, "--json"]).json();
    let is_player = |binder: &&Value| binder["process"] == plays_numad.id();
    let binder = report["binders"].as_array().unwrap().iter().find(is_player).unwrap();
    assert_eq!(binder["program"], "numad");
    assert!(binder["what"].is_string() && binder["remedy"].is_string(), "{binder}");

    let mut watch = beside_numad(&home, &plays_numad, &[file, "--watch"]);
    let mut watch = watch.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(watch.stderr.take().unwrap()).lines().map_while(Result::ok);
    // It looks once to the end, whenever it is interrupted.
    let mut said = Vec::new();
    while !said.last().is_some_and(|line: &String| line.starts_with("Looking for guests")) {
        said.push(lines.next().unwrap());
    }
    let pid = rustix::process::Pid::from_child(&watch);
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    said.extend(lines);
    assert!(said.iter().any(|line| line.starts_with(&runs)), "{said:?}");
    assert_eq!(watch.wait().unwrap().code(), Some(0));

    let alone = home.says(&["host", "pin", file]);
    assert!(alone.code == Some(0) && !alone.out.contains(&runs), "{alone:?}");
    assert_eq!(home.says(&["host", "unpin"]).code, Some(0));
}

#[test]
fn what_cannot_be_pinned_is_bad_input_with_a_remedy() {
    let home = Home::new();
    let file = home.file("pins", "web 999\n");
    let said = home.says(&["host", "pin", file.to_str().unwrap()]).ended(2);
    assert!(said.error.contains("line 1: there is no node 999 on this host"), "{said:?}");
    assert!(said.error.contains("to fix: write one guest a line"), "{said:?}");
    let file = home.file("pins", &format!("{} cpus 0\n", own("nobody")));
    let said = home.says(&["host", "pin", file.to_str().unwrap(), "--json"]);
    assert_eq!(
        (said.code, said.json()["error"]["code"].as_str().unwrap().to_owned()),
        (Some(2), "bad-input".to_owned())
    );
}

#[test]
fn an_exported_profile_is_imported_again() {
    let home = Home::new();
    let exported = home.says(&["host", "export", "current", "--format", "tuned"]).ended(0);
    let file = home.file("mine/tuned.conf", &exported.out);
    let imported = home.says(&["host", "import", file.to_str().unwrap()]).ended(0);
    let profile = home.file("mine.toml", &imported.out);
    let keys = |profile: &str| -> BTreeMap<String, String> {
        let mut command = Command::new(TILEMARK);
        command.args(["host", "plan", profile, "--json"]).env("TILEMARK_HOME", home.path());
        let plan = Said::of(&command.output().unwrap()).json();
        let settings = plan["settings"].as_array().unwrap().iter();
        settings.map(|one| (one["name"].to_string(), one["wanted"].to_string())).collect()
    };
    assert_eq!(keys(profile.to_str().unwrap()), keys("current"));
}
