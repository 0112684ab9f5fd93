//! Names and numbers of a scenario stay within bounds. A scenario may come from anybody: its names become parts of paths and of
//! kernel objects that root makes, and its numbers become memory.

use crate::{
    problem::Say,
    scenario::{Guest, Load, Measure, Scenario},
};
use std::collections::BTreeSet;
use tilemark_units::Bytes;

/// Guests of a tile, and its loads.
const PER_TILE_MAX: usize = 100;
/// Data disks of a guest: they are called `vdb` to `vdq` in it.
const DISKS_MAX: usize = 16;
/// Names of what varies.
const VARY_MAX: usize = 16;
/// Disks, loads and files of all points of a plan together: each is an entry of it.
const ENTRIES_IN_PLAN_MAX: u64 = 2_000_000;
/// Characters of a name. With the number of a tile before it, it is a host name (RFC 1123: 63) and a folder.
const NAME_MAX: usize = 40;
/// Repeats of a point: weeks, for any point that takes a minute.
const REPEATS_MAX: u32 = 10_000;
/// Repeats of all points of a plan: each is an entry of it.
const PASSES_MAX: u64 = 100_000;
/// Guests of all points of a plan together: each is an entry of it.
const GUESTS_IN_PLAN_MAX: u64 = 200_000;
/// Values of what varies, combined.
const COMBINATIONS_MAX: u64 = 1_000;
/// Connections of a load to one guest: a client has about 64,000 ports for one address.
const CONNECTIONS_MAX: u32 = 50_000;

/// Reports names that are no plain words, and numbers that no host could serve.
pub(crate) fn check(scenario: &Scenario, say: &mut Say<'_>) {
    check_host_settings(scenario, say);
    check_names(scenario, say);
    check_counts(scenario, say);
    check_size_of_plan(scenario, say);
    for (key, span) in
        [("measure.warmup", scenario.measure.warmup), ("measure.length", scenario.measure.length)]
    {
        if span > Measure::LENGTH_MAX {
            say(format!("`{key} = \"{span}\"` is too long"), "measure 24h at most, and more repeats");
        }
    }
    for guest in &scenario.guest {
        check_working_set(guest, say);
    }
    for load in &scenario.load {
        check_load(load, say);
    }
}

/// Characters of the value of a setting of the host.
const SETTING_VALUE_MAX: usize = 256;

/// Keys and values of settings of the host become paths and what is written there.
fn check_host_settings(scenario: &Scenario, say: &mut Say<'_>) {
    let is_of_key = |c: char| c.is_ascii_alphanumeric() || "._-*:@".contains(c);
    for (key, value) in &scenario.host.setting {
        if key.contains("..") || !key.chars().all(is_of_key) {
            say(
                format!("`host.setting.{key}` is not a valid key"),
                "use letters, digits, `.`, `-`, `_`, `:`, `@` and `*`",
            );
        }
        if value.is_empty()
            || value.chars().count() > SETTING_VALUE_MAX
            || value.chars().any(char::is_control)
        {
            say(
                format!("`host.setting.{key}` has the value {value:?}"),
                "write a value of 1 to 256 characters in one line",
            );
        }
    }
}

/// A guest needs the other half for its kernel and its service.
fn check_working_set(guest: &Guest, say: &mut Say<'_>) {
    let half = Bytes::new(guest.memory.get() / 2);
    if let Some(size) = guest.working_set.filter(|size| *size > half) {
        say(
            format!("guest `{}` has {} of memory and is to write {size} of it", guest.name, guest.memory),
            &format!("write `working_set = \"{half}\"` or less, or give it more `memory`"),
        );
    }
}

fn check_names(scenario: &Scenario, say: &mut Say<'_>) {
    let guests = scenario.guest.iter().map(|guest| ("guest", guest.name.as_str()));
    let loads = scenario.load.iter().map(|load| ("load", load.name.as_str()));
    let vary = scenario.vary.keys().map(|name| ("vary", name.as_str()));
    let wrong: BTreeSet<(&str, &str)> =
        guests.chain(loads).chain(vary).filter(|(_, name)| !is_name(name)).collect();
    for (what, name) in wrong {
        // As Rust would write it: a name may hold anything, and this goes to a terminal.
        say(
            format!("{name:?} is not a valid name of a {what}"),
            "use 1 to 40 of `a` to `z`, `0` to `9` and `-`",
        );
    }
}

fn is_name(name: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    (1..=NAME_MAX).contains(&name.len()) && name.bytes().all(is_plain)
}

fn check_counts(scenario: &Scenario, say: &mut Say<'_>) {
    let (guests, loads, vary) = (scenario.guest.len(), scenario.load.len(), scenario.vary.len());
    if guests > PER_TILE_MAX {
        say(
            format!("the tile has {guests} guests"),
            &format!("write {PER_TILE_MAX} at most, and more tiles"),
        );
    }
    if loads > PER_TILE_MAX {
        say(format!("the tile has {loads} loads"), &format!("write {PER_TILE_MAX} at most"));
    }
    if vary > VARY_MAX {
        say(format!("{vary} keys vary"), &format!("vary {VARY_MAX} at most at once"));
    }
    for guest in scenario.guest.iter().filter(|guest| guest.disk.len() > DISKS_MAX) {
        let message = format!("guest `{}` has {} disks", guest.name, guest.disk.len());
        say(message, &format!("give it {DISKS_MAX} at most"));
    }
}

fn check_size_of_plan(scenario: &Scenario, say: &mut Say<'_>) {
    let repeats = scenario.measure.repeats;
    if repeats > REPEATS_MAX {
        say(format!("`measure.repeats = {repeats}` is too many"), "write 10000 at most");
    }
    let values = scenario.vary.values().map(|vary| vary.values.len() as u64);
    let combinations = values.fold(1_u64, u64::saturating_mul);
    if combinations > COMBINATIONS_MAX {
        say(format!("what varies has {combinations} combinations"), "vary at most 1000 at once");
    }
    let points = combinations.saturating_mul(scenario.ladder.tiles.len() as u64);
    let passes = points.saturating_mul(repeats.into());
    if passes > PASSES_MAX && repeats <= REPEATS_MAX {
        say(
            format!("the plan has {passes} repeats in all"),
            "lower `measure.repeats`, `ladder.tiles` or `vary`",
        );
    }
    let tiles: u64 = scenario.ladder.tiles.iter().map(|tiles| u64::from(*tiles)).sum();
    let all_tiles = combinations.saturating_mul(tiles);
    let disks = scenario.guest.iter().map(|guest| guest.disk.len() as u64);
    let files = |load: &Load| load.work.facts().entries();
    let entries = disks.chain(scenario.load.iter().map(|load| 1 + files(load))).sum::<u64>();
    if all_tiles.saturating_mul(entries) > ENTRIES_IN_PLAN_MAX {
        say(
            format!("the plan has {} disks, loads and files in all", all_tiles.saturating_mul(entries)),
            "leave out steps of `ladder.tiles`, or vary less",
        );
    }
    let guests = all_tiles.saturating_mul(scenario.guest.len() as u64);
    if guests > GUESTS_IN_PLAN_MAX {
        say(
            format!("the plan's points have {guests} guests in all"),
            "leave out steps of `ladder.tiles`, or vary less",
        );
    }
}

fn check_load(load: &Load, say: &mut Say<'_>) {
    let name = &load.name;
    if load.connections > CONNECTIONS_MAX {
        say(format!("load `{name}` has {} connections", load.connections), "write 50000 at most");
    }
    if let Some(rate) = load.rate.filter(|rate| rate.get() > Load::RATE_MAX as f64) {
        say(format!("load `{name}` has a rate of {rate}"), "write 10000000/s at most");
    }
}

#[cfg(test)]
mod tests {
    use crate::parse::Draft;

    /// What is said about a scenario with this guest, these lines in its load and these after it.
    fn said(guest: &str, load: &str, rest: &str) -> String {
        // As JSON writes text, so may TOML.
        let guest = serde_json::to_string(guest).unwrap();
        let text = format!(
            "schema = 1\nname = \"m\"\nabout = \"m\"\nheadline = \"l\"\n[[guest]]\nname = {guest}\nrole = \"web\"\n\
             [[load]]\nname = \"l\"\nguest = {guest}\n{load}\n{rest}\n"
        );
        match Draft::from_toml(&text, "test").unwrap().finish() {
            Ok(_) => String::new(),
            Err(problems) => problems.to_string(),
        }
    }

    const LOAD: &str = "rate = \"10/s\"\n[load.web]";
    const LADDER: &str = "[ladder]\ntiles = [1]";

    #[test]
    fn names_are_plain_words() {
        assert_eq!(said("web-1", LOAD, LADDER), "");
        assert_eq!(said(&"a".repeat(40), LOAD, LADDER), "");
        for name in ["", "x/../../etc", "..", "Web", "a b", "a_b", "w\u{f6}b", &"a".repeat(41)] {
            let said = said(name, LOAD, LADDER);
            assert!(said.contains("is not a valid name of a guest"), "{name:?}: {said}");
        }
        let vary = format!("{LADDER}\n[vary.\"a/b\"]\nkey = \"load.l.rate\"\nvalues = [\"1/s\"]");
        assert!(said("web", LOAD, &vary).contains("\"a/b\" is not a valid name of a vary"));
    }

    #[test]
    fn numbers_that_would_exhaust_the_hosts_memory_are_refused_before_there_is_a_plan() {
        let ladder = |rest: &str| format!("{LADDER}\n{rest}");
        let every_count: Vec<String> = (1..=1_000).map(|tiles| tiles.to_string()).collect();
        let long = format!("[ladder]\ntiles = [{}]", every_count.join(", "));
        let values = |count: u32| {
            let values: Vec<String> = (1..=count).map(|rate| format!("\"{rate}/s\"")).collect();
            format!("values = [{}]", values.join(", "))
        };
        let vary =
            format!("[vary.a]\nkey = \"load.l.rate\"\n{0}\n[vary.b]\nkey = \"load.l.rate\"\n{0}", values(40));
        for (load, rest, wanted) in [
            (LOAD, ladder("[measure]\nrepeats = 4294967295"), "`measure.repeats = 4294967295` is too many"),
            (LOAD, ladder("[measure]\nlength = \"100000s\""), "is too long"),
            (LOAD, ladder("[measure]\nwarmup = \"100000s\""), "is too long"),
            (LOAD, format!("{long}\n[measure]\nrepeats = 200"), "the plan has 200000 repeats in all"),
            (LOAD, format!("{long}\n[measure]\nrepeats = 2"), "have 500500 guests in all"),
            (LOAD, ladder(&vary), "what varies has 1600 combinations"),
            ("rate = \"10/s\"\nconnections = 50001\n[load.web]", LADDER.to_owned(), "has 50001 connections"),
            ("rate = \"10000001/s\"\n[load.web]", LADDER.to_owned(), "has a rate of"),
            (
                "rate = \"1/s\"\n[load.web]\nfiles = [{ size = \"65MiB\", weight = 1 }]",
                LADDER.to_owned(),
                "asks for a file of 65MiB",
            ),
        ] {
            let said = said("web", load, &rest);
            assert!(said.contains(wanted), "{wanted}: {said}");
        }
    }

    #[test]
    fn guests_loads_disks_and_keys_that_vary_are_counted() {
        let guests = |count: u32| {
            (0..count).map(|n| format!("[[guest]]\nname = \"g{n}\"\nrole = \"idle\"\n")).collect::<String>()
        };
        let loads = |count: u32| {
            let load = |n| format!("[[load]]\nname = \"l{n}\"\nguest = \"w\"\n{LOAD}\n");
            (0..count).map(load).collect::<String>()
        };
        let vary = |count: u32| {
            let vary = |n| format!("[vary.v{n}]\nkey = \"measure.repeats\"\nvalues = [1]\n");
            (0..count).map(vary).collect::<String>()
        };
        // In the load that comes last.
        let files = format!("files = [{}]\n", "{ size = \"1KiB\", weight = 1 }, ".repeat(1_000));
        let steps: Vec<String> = (1..=70).map(|tiles| tiles.to_string()).collect();
        for (rest, wanted) in [
            (guests(100), "the tile has 101 guests"),
            (loads(100), "the tile has 101 loads"),
            (vary(17), "17 keys vary"),
            (
                format!(
                    "[[guest]]\nname = \"d\"\nrole = \"disk\"\n{}",
                    "[[guest.disk]]\nsize = \"1MiB\"\n".repeat(17)
                ),
                "guest `d` has 17 disks",
            ),
            (format!("{}{files}", loads(1)), "disks, loads and files in all"),
        ] {
            let tiles = if wanted.contains("in all") { steps.join(", ") } else { "1".to_owned() };
            let said = said("w", LOAD, &format!("[ladder]\ntiles = [{tiles}]\n{rest}"));
            assert!(said.contains(wanted), "{wanted}: {said:.1000}");
        }
    }
}
