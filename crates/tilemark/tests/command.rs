//! What the command promises beside measuring: its documents parse, its help is true, its colours can be off.

#![allow(missing_docs, clippy::unwrap_used)]

mod common;

use common::{Home, TILEMARK, on_a_terminal};
use std::{
    collections::BTreeSet,
    fs,
    path::Path,
    process::{Command, Stdio},
};
use tilemark_record::RunDirectory;

/// Every file in the folder of scenarios, by its name.
fn scenarios_inside() -> BTreeSet<String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios");
    let files = fs::read_dir(folder).unwrap().map(|file| file.unwrap().path());
    files.map(|file| file.file_stem().unwrap().to_str().unwrap().to_owned()).collect()
}

#[test]
fn a_printed_plan_is_a_plan() {
    let home = Home::new();
    for scenario in &scenarios_inside() {
        let said = home.says(&["plan", scenario, "--on", "native", "--tiles", "1,2", "--json"]).ended(0);
        home.file("plan.json", &said.out);
        let plan = RunDirectory::at(home.path()).plan().unwrap();
        assert_eq!(serde_json::to_value(&plan).unwrap(), said.json(), "nothing is lost");
        assert_eq!(&plan.scenario.name, scenario);
        let text = home.says(&["plan", scenario, "--on", "native", "--tiles", "1,2"]).out;
        assert!(text.contains("Time      about") && text.contains("Root      needed"), "{text}");
        assert!(text.lines().all(|line| line.chars().count() <= 100), "{text}");
    }
    assert!(
        !home.path().join("state").exists() && !home.path().join("cache").exists(),
        "a plan touches nothing"
    );
}

#[test]
fn a_reader_that_has_gone_away_is_no_error() {
    for arguments in [["completion", "bash"], ["scenarios", "list"]] {
        let mut command = Command::new(TILEMARK);
        command.args(arguments).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        drop(child.stdout.take());
        let ended = child.wait_with_output().unwrap();
        assert!(ended.status.success(), "{arguments:?}: {ended:?}");
    }
}

#[test]
fn the_scenarios_inside_are_listed_and_shown() {
    let home = Home::new();
    let listed = home.says(&["scenarios", "list", "--json"]).json();
    let names: Vec<&str> =
        listed["scenarios"].as_array().unwrap().iter().map(|one| one["name"].as_str().unwrap()).collect();
    assert_eq!(names.first(), Some(&"first-look"));
    let sorted: BTreeSet<&str> = names.iter().copied().collect();
    assert_eq!(sorted, scenarios_inside().iter().map(String::as_str).collect());
    let text = home.says(&["scenarios", "list"]).out;
    for name in names {
        assert!(text.contains(name));
        // What is shown can be run from a file.
        let file = home.file("shown.toml", &home.says(&["scenarios", "show", name]).out);
        home.says(&["plan", file.to_str().unwrap(), "--on", "native", "--tiles", "1"]).ended(0);
    }
    assert_eq!(home.says(&["scenarios", "show", "wob"]).code, Some(2));
}

#[test]
fn a_profile_inside_is_shown_as_a_file_that_can_be_changed_and_planned() {
    let home = Home::new();
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../profiles/messaging-2009.toml");
    let said = home.says(&["host", "show", "messaging-2009"]);
    assert_eq!(
        (said.code, said.out.trim_end()),
        (Some(0), std::fs::read_to_string(path).unwrap().trim_end())
    );
    let fewer = said.out.replace("value = \"9000\"", "value = \"0\"");
    assert_ne!(fewer, said.out);
    let file = home.file("mine.toml", &fewer);
    let settings = home.says(&["host", "plan", file.to_str().unwrap(), "--json"]).json()["settings"]
        .as_array()
        .unwrap()
        .clone();
    let pages = settings.iter().find(|one| one["key"] == "hugepages.2MiB").unwrap();
    assert!(pages["wanted"] == "0" && pages["state"] != "refused", "{pages}");
    let said = home.says(&["host", "show", "wob"]);
    assert!(said.code == Some(2) && said.error.contains("there are: current"), "{said:?}");
}

/// Commands that a help text lists.
fn listed(help: &str) -> Vec<String> {
    let commands = help.split("Options:").next().unwrap();
    let commands = commands.split_once("Usage:").unwrap_or_default().1;
    let commands = commands.split("Arguments:").next().unwrap();
    let first = |line: &str| line.strip_prefix("  ")?.split(' ').next().map(str::to_owned);
    commands.lines().filter_map(first).filter(|word| !word.is_empty() && word != "help").collect()
}

#[test]
fn help_lists_what_works_and_nothing_else() {
    let home = Home::new();
    let help = home.says(&["--help"]);
    assert_eq!(help.code, Some(0));
    // Where the pages are that remedies name.
    assert!(help.out.contains("/usr/local/share/doc/tilemark"), "{}", help.out);
    // What is later work comes into this list when it works, and not before: `watch`.
    let works = [
        "doctor",
        "plan",
        "quick",
        "run",
        "capacity",
        "interference",
        "ab",
        "fleet",
        "compare",
        "report",
        "runs",
        "guests",
        "load",
        "data",
        "broker",
        "image",
        "host",
        "scenarios",
        "recover",
        "completion",
        "man",
        "notices",
    ];
    let listed_here = listed(&help.out);
    assert_eq!(listed_here.len(), works.len(), "{}", help.out);
    for command in listed_here.iter().map(String::as_str) {
        assert!(works.contains(&command), "`{command}` is listed");
        let help = home.says(&[command, "--help"]);
        assert_eq!(help.code, Some(0));
        for below in listed(&help.out) {
            assert_eq!(home.says(&[command, &below, "--help"]).code, Some(0), "{command} {below}");
        }
        assert!(!help.out.to_lowercase().contains("not yet"), "{}", help.out);
    }
    let said = home.says(&[]);
    assert_eq!(said.code, Some(2), "without a command it says how it is used: {said:?}");
    assert!(said.error.contains("Usage: tilemark"), "{said:?}");
}

#[test]
fn the_cache_is_emptied_of_what_is_named_and_of_nothing_else() {
    let home = Home::new();
    for unclear in [&["image", "remove"][..], &["image", "remove", "first-look", "--unused"]] {
        assert_eq!(home.says(unclear).code, Some(2), "{unclear:?}");
    }
    let said = home.says(&["image", "remove", "first-look"]);
    assert_eq!(said.code, Some(2), "no such image is cached: {said:?}");
    let disks = home.file("cache/disks.xfs", "disks");
    let other = home.file("cache/other", "other");
    assert_eq!(home.says(&["image", "remove", "--unused"]).out.trim(), "Nothing to remove.");
    let removed = home.says(&["image", "remove", "--unused", "--disks", "--json"]).json();
    assert_eq!(removed["removed"].as_array().unwrap().len(), 1, "{removed}");
    assert_eq!(removed["removed"][0]["name"].as_str(), disks.to_str());
    assert!(removed["removed"][0]["bytes"].is_u64(), "{removed}");
    assert!(!disks.exists() && other.exists());
}

#[test]
fn completions_are_printed_for_shells() {
    let home = Home::new();
    for shell in ["bash", "zsh", "fish"] {
        let said = home.says(&["completion", shell]);
        assert_eq!(said.code, Some(0));
        assert!(said.out.contains("tilemark") && said.out.contains("capacity"), "{shell}: {}", said.out);
    }
}

#[test]
fn no_color_means_no_escape_codes() {
    let home = Home::new();
    for arguments in
        [&["--help"][..], &["doctor"], &["plan", "wob"], &["plan", "--wob"], &["scenarios", "list"]]
    {
        let plain = on_a_terminal(&home, arguments, Some("1"));
        assert!(!plain.is_empty() && !plain.contains('\x1b'), "{arguments:?}: {plain:?}");
    }
    // The same without it has colours: else nothing was tried above.
    assert!(on_a_terminal(&home, &["doctor"], None).contains('\x1b'));
    // An empty NO_COLOR is none.
    assert!(on_a_terminal(&home, &["doctor"], Some("")).contains('\x1b'));
    // Nobody's file or pipe gets colours.
    assert!(!home.says(&["doctor"]).out.contains('\x1b'));
    fs::remove_dir_all(home.path()).unwrap();
}

#[test]
fn the_program_prints_its_notices() {
    let said = Home::new().says(&["notices"]).ended(0);
    // The agent's, the report's and the program's own.
    for of in
        ["\nseccompiler ", "\nclap ", "Of zrender:", "Apache ECharts", "GNU C library", "Apache License"]
    {
        assert!(said.out.contains(of), "{of}: {:.2000}", said.out);
    }
}
