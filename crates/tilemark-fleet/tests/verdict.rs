//! Fleets with a known truth: who is named, who is not, how hosts that are missing or damaged are shown.

#![allow(clippy::unwrap_used, reason = "a test file: helpers may unwrap as tests do")]

mod made;

use made::{Host, attempt, fleet, hosts, write_end, write_host};
use serde_json::json;
use std::{collections::BTreeMap, fs, os::unix::fs::symlink};
use tempfile::TempDir;
use tilemark_fleet::{
    End,
    verdict::{self, FleetOutcome, FleetVerdict},
};
use tilemark_report::{Colour, FleetHost, Style, redact_drift};

fn made_of(hosts: &[Host], also_asked: &[&str]) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    fleet(folder.path(), hosts, also_asked);
    folder
}

fn judged(hosts: &[Host]) -> FleetVerdict {
    verdict::of(made_of(hosts, &[]).path()).unwrap()
}

fn host<'v>(found: &'v FleetVerdict, name: &str) -> &'v FleetHost {
    found.hosts.iter().find(|host| host.name == name).unwrap()
}

#[test]
fn a_slow_host_is_the_one_that_is_named_with_what_is_unusual_about_it() {
    let mut hosts = hosts(12);
    hosts[6].slow = 1.08;
    hosts[6] = hosts[6].clone().with("/frequency/governors", json!({ "value": ["powersave"] }));
    hosts[2] = hosts[2].clone().with("/memory/transparent_huge_pages", json!({ "value": "always" }));
    let found = judged(&hosts);
    assert_eq!(found.named, ["h7"], "{}", found.sentence);
    assert_eq!(found.verdict, FleetOutcome::Differs);
    assert!(
        found.sentence.starts_with("12 asked, 12 measured, 12 trusted. h7 differs from the median"),
        "{}",
        found.sentence
    );
    let slow = host(&found, "h7");
    let change = &slow.changes[0];
    assert_eq!(change.measure, "web p50");
    assert!((change.change.value - 0.08).abs() < 0.02, "{change:?}");
    let unusual: Vec<(&str, &str, &str, usize)> =
        slow.unusual.iter().map(|fact| (&*fact.fact, &*fact.value, &*fact.usual, fact.hosts)).collect();
    assert_eq!(unusual, [("governor", "powersave", "performance", 1)]);
    // Names of disks and a little memory differ on every host, and are no news.
    assert_eq!(host(&found, "h1").unusual, []);
    assert_eq!(host(&found, "h3").unusual[0].fact, "transparent huge pages");
    let html = found.html();
    assert!(html.contains("powersave") && html.contains("h7 differs"), "the page has the host and the fact");
    // It differed once: whether it is out of line is not known before it was measured again.
    assert!(
        found.sentence.contains("h7 is a suspect: each host was measured in one run only."),
        "{}",
        found.sentence
    );
    let text = shown(&found);
    assert!(!found.confirmed && text.contains("[CANNOT TELL]") && !text.contains("[TRUSTED]"), "{text}");
}

#[test]
fn alike_hosts_are_alike_and_none_is_named() {
    let mut hosts = hosts(8);
    for host in &mut hosts {
        host.noise = 0.004;
    }
    let found = judged(&hosts);
    assert_eq!(found.verdict, FleetOutcome::Alike, "{} {:?}", found.sentence, found.reasons);
    assert_eq!(found.named, [] as [&str; 0]);
    assert!(
        found.sentence.contains("All 8 hosts are alike within 3 % in web p50 and 5 % in web p99"),
        "{}",
        found.sentence
    );
    assert!(
        found.sentence.contains("The fleet holds at least 32 tiles: 4 on the host with the fewest"),
        "{}",
        found.sentence
    );
    let group = &found.groups[0];
    assert_eq!((group.name.as_str(), group.step.as_deref()), ("all hosts", Some("at 4 tiles on kvm")));
    let capacity = group.capacity.unwrap();
    assert_eq!((capacity.min, capacity.median, capacity.sum, capacity.at_least), (4, 4.0, 32, 8));
    assert_eq!(group.facts["memory"], "125.7 GiB");
    assert_eq!(group.facts["microcode"], "0xa0011d5");
}

#[test]
fn repeats_that_scatter_cannot_tell_and_the_page_says_how_many_would() {
    let mut hosts = hosts(6);
    for host in &mut hosts {
        host.noise = 0.03;
    }
    let found = judged(&hosts);
    assert_eq!(found.verdict, FleetOutcome::CannotTell);
    let reason = found.reasons.join(" ");
    assert!(reason.contains("repeats of each host would show whether they are alike within 3 %"), "{reason}");
    assert!(found.sentence.contains("It is not known whether the hosts are alike"), "{}", found.sentence);
}

#[test]
fn missing_hosts_are_named_and_the_fleet_is_not_said_to_hold() {
    let folder = made_of(&hosts(5), &["h6", "h7"]);
    write_end(folder.path(), "h7", 1, End::Lost, "the engine says NODE_FAIL");
    let found = verdict::of(folder.path()).unwrap();
    assert_eq!((found.asked, found.measured, found.trusted), (7, 5, 5));
    assert_eq!(found.missing, ["h6", "h7"]);
    assert!(
        found.sentence.starts_with("7 asked, 5 measured, 5 trusted. Missing: h6 (never started), h7 (lost)."),
        "{}",
        found.sentence
    );
    assert!(!found.sentence.contains("fleet holds"), "{}", found.sentence);
    assert!(found.sentence.contains("The 5 hosts with a trusted answer carry"), "{}", found.sentence);
    assert_ne!(found.verdict, FleetOutcome::Alike);
    assert_eq!(host(&found, "h7").because, "the engine says NODE_FAIL");
}

#[test]
fn hosts_of_other_hardware_or_settings_are_never_compared() {
    let mut hosts = hosts(9);
    for (place, path, value) in [
        (0, "/processors/microcode", json!({ "value": "0xa001173" })),
        (1, "/kernel/release", json!({ "value": "6.1.0-32-amd64" })),
        (2, "/memory/bytes_total", json!({ "value": 67_000_000_000_u64 })),
        (3, "/tools/0/version", json!({ "value": "7.2.22" })),
        (4, "/mitigations/value/1/state", json!("Vulnerable")),
    ] {
        // So slow that it would be named among the others.
        hosts[place] = Host { slow: 1.3, ..hosts[place].clone().with(path, value) };
    }
    let found = judged(&hosts);
    assert_eq!(found.named, [] as [&str; 0], "{}", found.sentence);
    let sizes: Vec<usize> = found.groups.iter().map(|group| group.hosts.len()).collect();
    assert_eq!(sizes, [4, 1, 1, 1, 1, 1]);
    assert_eq!(found.groups[0].hosts, ["h6", "h7", "h8", "h9"]);
    assert_eq!(found.verdict, FleetOutcome::CannotTell);
    let reasons = found.reasons.join(" ");
    assert!(reasons.contains("5 of 9 hosts have no other host of equal hardware and settings"), "{reasons}");
}

#[test]
fn groups_that_the_user_made_are_kept_apart_by_scenario_even_so() {
    let mut hosts = hosts(8);
    hosts[0] = hosts[0].clone().with("/kernel/release", json!({ "value": "6.1.0" }));
    hosts[1].scenario = hosts[1].scenario.replace("name = \"made\"", "name = \"other\"");
    let folder = made_of(&hosts, &[]);
    let groups: BTreeMap<String, String> =
        hosts.iter().map(|host| (host.name.clone(), "rack 1".to_owned())).collect();
    let found = verdict::of_grouped(folder.path(), &groups).unwrap();
    let made: Vec<(&str, usize)> =
        found.groups.iter().map(|group| (&*group.name, group.hosts.len())).collect();
    assert_eq!(made, [("rack 1", 7), ("rack 1 (2)", 1)]);
}

#[test]
fn damaged_records_and_ends_are_named_and_the_others_are_judged() {
    let folder = made_of(&hosts(8), &[]);
    let path = |name: &str, file: &str| attempt(folder.path(), name, 1).join(file);
    fs::write(path("h1", "end.json"), "{").unwrap();
    fs::write(path("h2", "record/result.json"), "{").unwrap();
    fs::write(path("h3", "record/facts.json"), "[]").unwrap();
    fs::remove_file(path("h4", "record/manifest.json")).unwrap();
    let summary = path("h5", "record/points/01/repeat-2/summary.json");
    fs::write(&summary, fs::read_to_string(&summary).unwrap().replace("\"repeat\": 2", "\"repeat\": 9"))
        .unwrap();
    let found = verdict::of(folder.path()).unwrap();
    let problems = |name: &str| host(&found, name).problems.join(" ");
    assert!(problems("h1").contains("attempt 1: end.json is damaged"), "{}", problems("h1"));
    assert_eq!(host(&found, "h1").end, End::Trusted, "its record is whole");
    assert!(host(&found, "h1").measured);
    assert!(problems("h2").contains("result.json is damaged"), "{}", problems("h2"));
    assert!(problems("h3").contains("facts.json is damaged"), "{}", problems("h3"));
    assert!(problems("h4").contains("was never closed"), "{}", problems("h4"));
    let why = host(&found, "h5").why.clone().unwrap();
    assert!(why.contains("points/01/repeat-2/summary.json is damaged"), "{why}");
    assert_eq!(found.missing, ["h2", "h3", "h4"]);
    assert_eq!((found.asked, found.measured), (8, 5));
    let page = found.html();
    assert!(
        !page.contains(&*folder.path().display().to_string()),
        "a page names no folder of the collecting machine"
    );
}

#[test]
fn a_result_that_was_changed_and_is_still_json_is_damage() {
    let folder = made_of(&hosts(3), &[]);
    let path = attempt(folder.path(), "h2", 1).join("record/result.json");
    let text = fs::read_to_string(&path).unwrap();
    fs::write(&path, text.replacen("\"trusted\"", "\"not-trusted\"", 1)).unwrap();
    let found = verdict::of(folder.path()).unwrap();
    let problems = host(&found, "h2").problems.join(" ");
    assert!(problems.contains("SHA-256"), "{problems}");
    assert_eq!(found.missing, ["h2"]);
}

#[test]
fn what_the_list_of_hosts_says_counts_where_no_attempt_says_more() {
    let folder = made_of(&hosts(3), &[]);
    let document = json!({ "schema": 1, "scenario": "made", "hosts": [
        { "name": "h1", "step": "over", "job": null, "end": null },
        { "name": "h2", "step": "over" }, { "name": "h3", "step": "over" },
        { "name": "h4", "step": "over", "end": { "end": "no-answer", "exit_code": null, "because": "ssh: timed out" } },
        { "name": "h5", "step": "submitted", "end": null },
        { "name": "h6", "step": "waiting", "end": null },
    ] });
    fs::write(folder.path().join("fleet.json"), document.to_string()).unwrap();
    // A record may be trusted where a setting of its host was not restored: the host is not.
    write_end(folder.path(), "h2", 1, End::NotRestored, "vm.swappiness");
    let found = verdict::of(folder.path()).unwrap();
    assert!(
        found.sentence.starts_with(
            "6 asked, 3 measured, 2 trusted. Missing: h4 (no answer), h5 (not collected yet), h6 (not submitted yet)."
        ),
        "{}",
        found.sentence
    );
    assert_eq!(host(&found, "h4").because, "ssh: timed out");
    let reasons = found.reasons.join(" ");
    assert!(
        reasons.contains("not restored: h2. To restore a host: `sudo tilemark recover` on it"),
        "{reasons}"
    );
}

#[test]
fn of_several_attempts_the_newest_whole_one_counts() {
    let folder = made_of(&hosts(4), &[]);
    // The first attempt of h1 was slow; its second one is whole and quick; its third one was lost.
    fs::remove_dir_all(attempt(folder.path(), "h1", 1)).unwrap();
    write_host(folder.path(), &Host { slow: 1.5, ..Host::new(1) });
    write_host(folder.path(), &Host { attempt: 2, ..Host::new(1) });
    write_end(folder.path(), "h1", 3, End::Lost, "NODE_FAIL");
    let found = verdict::of(folder.path()).unwrap();
    let first = host(&found, "h1");
    assert_eq!((first.attempt, first.attempts, first.end), (Some(2), 3, End::Trusted));
    assert_eq!(first.problems, ["attempt 3 left no record: lost: NODE_FAIL"]);
    assert_eq!(found.named, [] as [&str; 0]);
}

#[test]
fn a_newer_attempt_that_did_not_restore_its_host_is_not_hidden_by_an_older_record() {
    let folder = made_of(&hosts(4), &[]);
    write_end(folder.path(), "h1", 2, End::NotRestored, "vm.swappiness");
    write_end(folder.path(), "h1", 3, End::Lost, "NODE_FAIL");
    write_end(folder.path(), "h2", 2, End::GuestFailed, "web 1 ended");
    let found = verdict::of(folder.path()).unwrap();
    let first = host(&found, "h1");
    assert_eq!((first.end, first.attempt, &*first.because), (End::NotRestored, Some(1), "vm.swappiness"));
    assert!(first.measured && !first.trusted);
    assert!(found.sentence.contains("4 measured, 3 trusted. Not restored: h1 ("), "{}", found.sentence);
    // Its record is as good as before.
    let second = host(&found, "h2");
    assert_eq!((second.end, &*second.because), (End::Trusted, "attempt 2: guest failed: web 1 ended"));
    assert!(second.trusted);
}

#[test]
fn hosts_that_are_not_compared_are_not_among_the_others() {
    let mut hosts = hosts(12);
    for host in &mut hosts {
        host.noise = 0.004;
    }
    hosts[6].slow = 1.2;
    let found = judged(&hosts);
    assert_eq!(found.named, ["h7"]);
    assert!(found.sentence.contains("The other 11 hosts are alike within"), "{}", found.sentence);
    // One is of other hardware, and one of two repeats at each step is not enough to be compared.
    hosts[2] = hosts[2].clone().with("/kernel/release", json!({ "value": "6.1.0-32-amd64" }));
    hosts[1].repeats = 2;
    for slow in [1.2, 1.0] {
        hosts[6].slow = slow;
        let found = judged(&hosts);
        let others = if slow > 1.0 { "9 others" } else { "10 hosts" };
        let said = format!("{others} are alike with the others of their group within");
        assert!(found.sentence.contains(&said), "{}", found.sentence);
        let said = "Not compared: h2 (only 2 repeats count at 4 tiles on kvm, and 3 are needed), h3 (no other host of its group).";
        assert!(found.sentence.contains(said), "{}", found.sentence);
        let reasons = found.reasons.join("; ");
        assert!(reasons.contains("1 of 12 hosts have no other host of equal hardware"), "{reasons}");
        assert!(reasons.contains("not compared: h2, h3"), "{reasons}");
    }
}

#[test]
fn the_first_screen_has_the_reason_of_a_host_that_cannot_be_compared() {
    let mut hosts = hosts(3);
    for host in &mut hosts {
        host.repeats = 2;
    }
    let folder = made_of(&hosts, &[]);
    let because = "at 4 tiles on native: all 6 repeats were discarded: other programs used 5.6 % of the host";
    write_end(folder.path(), "h1", 1, End::NotTrusted, because);
    let found = verdict::of(folder.path()).unwrap();
    let wanted = format!("h1, not trusted: {because}");
    assert!(found.reasons.contains(&wanted), "{:?}", found.reasons);
    let text = found.terminal(Style { colour: Colour::Plain, width: 80 });
    assert!(text.contains("other programs used"), "{text}");
}

#[test]
fn a_host_that_fails_fast_is_out_of_line_however_quick_it_is() {
    let mut hosts = hosts(6);
    hosts[3].errors = 0.3;
    let found = judged(&hosts);
    assert_eq!(found.named, ["h4"], "{}", found.sentence);
    assert!(
        found.sentence.contains("h4 differs from its group: it fails at 4 tiles on kvm where most hold"),
        "{}",
        found.sentence
    );
}

#[test]
fn a_host_that_answers_nothing_is_named_though_it_has_no_times() {
    let mut hosts = hosts(6);
    hosts[3].errors = 1.0;
    let found = judged(&hosts);
    assert_eq!(found.named, ["h4"], "{}", found.sentence);
    assert!(
        found.sentence.contains("it fails at 4 tiles on kvm where most hold: errors of web: 100.0 %"),
        "{}",
        found.sentence
    );
}

#[test]
fn a_host_that_is_slow_and_fails_has_both_in_its_sentence() {
    let mut hosts = hosts(6);
    hosts[3] = Host { errors: 0.3, slow: 1.2, ..hosts[3].clone() };
    let found = judged(&hosts);
    assert_eq!(found.named, ["h4"], "{}", found.sentence);
    assert!(found.sentence.contains("web p50 +"), "{}", found.sentence);
    assert!(found.sentence.contains("; it fails at 4 tiles on kvm where most hold"), "{}", found.sentence);
}

#[test]
fn hosts_are_not_alike_while_some_fail_and_others_hold() {
    for from_tiles in [1, 4] {
        let mut two = hosts(2);
        for host in &mut two {
            host.noise = 0.002;
        }
        let alike = judged(&two);
        assert_eq!(alike.verdict, FleetOutcome::Alike, "{} {:?}", alike.sentence, alike.reasons);
        two[1] = Host { errors: 0.01, from_tiles, ..two[1].clone() };
        let found = judged(&two);
        assert_eq!(found.verdict, FleetOutcome::CannotTell, "{}", found.sentence);
        assert_eq!(found.groups[0].outcome, FleetOutcome::CannotTell);
        assert_eq!(found.named, [] as [&str; 0]);
        let said = "h2 fails at 4 tiles on kvm where others hold: errors of web: 1.0 %";
        assert_eq!(found.reasons, [said]);
        assert!(found.sentence.contains(said), "{}", found.sentence);
        assert!(
            found.sentence.contains("It is not known whether the hosts are alike."),
            "{}",
            found.sentence
        );
        assert!(!found.sentence.contains("are alike within"), "{}", found.sentence);
        let why = "it fails at 4 tiles on kvm where others hold: errors of web: 1.0 %";
        assert_eq!(host(&found, "h2").why.as_deref(), Some(why));
        assert_eq!(host(&found, "h1").why.as_deref(), Some("others of its group fail at 4 tiles on kvm"));
        assert!(found.html().contains(why));
    }
}

#[test]
fn of_ten_hosts_with_five_that_fail_none_is_named_or_called_alike() {
    for errors in [0.01, 1.0] {
        let mut hosts = hosts(10);
        for host in &mut hosts {
            host.noise = 0.002;
        }
        for host in &mut hosts[5..] {
            *host = Host { errors, from_tiles: 4, ..host.clone() };
        }
        let found = judged(&hosts);
        assert_eq!(found.verdict, FleetOutcome::CannotTell, "{}", found.sentence);
        assert_eq!(found.named, [] as [&str; 0]);
        assert!(found.hosts.iter().all(|host| host.outcome != FleetOutcome::Alike), "{}", found.sentence);
        let said = "5 of 10 hosts fail at 4 tiles on kvm where others hold: h6, h7, h8, h9, h10";
        assert!(found.sentence.contains(said), "{}", found.sentence);
        assert!(found.reasons.iter().any(|reason| reason.contains(said)), "{:?}", found.reasons);
        let why = host(&found, "h6").why.clone().unwrap();
        assert!(why.starts_with("it fails at 4 tiles on kvm where others hold"), "{why}");
    }
}

#[test]
fn hosts_that_all_fail_are_compared_below_that_and_where_there_is_nothing_below_it_is_said() {
    let mut hosts = hosts(6);
    for host in &mut hosts {
        *host = Host { noise: 0.002, errors: 0.2, from_tiles: 4, ..host.clone() };
    }
    let found = judged(&hosts);
    assert_eq!(found.groups[0].step.as_deref(), Some("at 1 tile on kvm"));
    assert_eq!(found.verdict, FleetOutcome::Alike, "{}", found.sentence);
    for host in &mut hosts {
        host.from_tiles = 1;
    }
    let found = judged(&hosts);
    assert_eq!(found.verdict, FleetOutcome::Alike, "{}", found.sentence);
    assert!(found.sentence.contains("All 6 hosts fail at 1 tile on kvm."), "{}", found.sentence);
}

#[test]
fn a_host_that_does_not_carry_one_tile_counts_as_0_in_what_its_group_carries() {
    let mut hosts = hosts(5);
    hosts[2].errors = 0.3;
    let found = judged(&hosts);
    let capacity = found.groups[0].capacity.unwrap();
    assert_eq!(
        (capacity.min, capacity.median, capacity.sum, capacity.hosts, capacity.at_least),
        (0, 4.0, 16, 5, 4),
        "{}",
        found.sentence
    );
    let own = host(&found, "h3").capacity.clone().unwrap();
    assert_eq!((own.holds, own.breaks, &*own.words), (Some(0), Some(1), "less than 1 tile"));
    let said = "The fleet holds at least 16 tiles: 0 on the host with the fewest.";
    assert!(found.sentence.contains(said), "{}", found.sentence);
}

/// Hosts that fail 1 % of their requests, and a last one that fails so much; `seed` is added to that of each.
fn failing(last: f64, seed: u64) -> Vec<Host> {
    let mut all = hosts(11);
    for host in &mut all {
        (host.errors, host.seed) = (0.01, host.seed + seed);
    }
    all[10].errors = last;
    all
}

#[test]
fn of_hosts_that_all_fail_the_one_that_fails_far_more_is_named() {
    let found = judged(&failing(0.3, 0));
    assert_eq!(found.named, ["h11"], "{} {:?}", found.sentence, host(&found, "h11").errors);
    let said = "30.0 % of its requests fail, and 1.0 % is the median of the hosts that fail";
    assert!(found.sentence.contains(&format!("h11 differs from its group: {said}.")), "{}", found.sentence);
    assert!(found.sentence.contains("All 11 hosts fail at 1 tile on kvm"), "{}", found.sentence);
    assert!(found.html().contains(said));
    // A host that fails much less is none that is out of line.
    assert_eq!(judged(&failing(0.0003, 0)).named, [] as [&str; 0]);
    // It is confirmed where it fails as much again, and not where it fails as the others do.
    let first = made_of(&failing(0.3, 0), &[]);
    for (last, confirmed) in [(0.3, true), (0.01, false)] {
        let again = made_of(&failing(last, 100)[7..], &[]);
        let found = verdict::of_confirmed(first.path(), again.path(), &BTreeMap::new()).unwrap();
        assert_eq!(
            found.named.len(),
            usize::from(confirmed),
            "{last}: {} {:?}",
            found.sentence,
            found.reasons
        );
    }
    // It fails four times as much as the others, and all of them are within the gate.
    let mut sound = failing(0.0008, 100);
    sound[..10].iter_mut().for_each(|host| host.errors = 0.0002);
    let again = made_of(&sound[7..], &[]);
    let found = verdict::of_confirmed(first.path(), again.path(), &BTreeMap::new()).unwrap();
    assert_eq!(found.named, [] as [&str; 0], "{}", found.sentence);
    // Of two differences the sentence has the one that came again.
    let slow = |last, seed| {
        let mut all = failing(last, seed);
        all[10].slow = 1.3;
        all
    };
    let first = made_of(&slow(0.3, 0), &[]);
    assert!(verdict::of(first.path()).unwrap().sentence.contains(said));
    let again = made_of(&slow(0.01, 100)[7..], &[]);
    let found = verdict::of_confirmed(first.path(), again.path(), &BTreeMap::new()).unwrap();
    assert_eq!(found.named, ["h11"], "{} {:?}", found.sentence, found.reasons);
    assert!(!found.sentence.contains("of its requests fail"), "{}", found.sentence);
}

#[test]
fn no_host_one_host_and_two_hosts_have_their_own_words() {
    let none = judged(&[]);
    assert_eq!(none.sentence, "0 asked, 0 measured, 0 trusted.");
    assert_eq!((none.verdict, &*none.reasons.join(" ")), (FleetOutcome::CannotTell, "no host was asked"));
    let one = judged(&hosts(1));
    assert_eq!(one.verdict, FleetOutcome::CannotTell);
    assert!(
        one.sentence.contains("One host has nothing to be compared with. It holds at least 4 tiles."),
        "{}",
        one.sentence
    );
    let mut two = hosts(2);
    two[1].slow = 1.15;
    let two = judged(&two);
    assert_eq!(two.verdict, FleetOutcome::Differs);
    assert!(
        two.sentence.contains("With two hosts only, it is unknown which of them is out of line"),
        "{}",
        two.sentence
    );
    for found in [&none, &one, &two] {
        assert!(found.html().len() > 10_000);
        assert!(found.markdown().starts_with("# "));
        assert!(
            found
                .terminal(Style { colour: Colour::Plain, width: 80 })
                .lines()
                .all(|line| line.chars().count() <= 80)
        );
    }
}

#[test]
fn a_folder_that_is_no_fleet_says_so_and_a_damaged_list_of_hosts_is_a_doubt() {
    let folder = tempfile::tempdir().unwrap();
    let error = verdict::of(folder.path()).unwrap_err().to_string();
    assert!(error.contains("is not a fleet run: it has neither fleet.json nor hosts"), "{error}");
    let folder = made_of(&hosts(3), &[]);
    fs::write(folder.path().join("fleet.json"), "{\"hosts\": [\"../../etc\"]}").unwrap();
    let found = verdict::of(folder.path()).unwrap();
    assert_eq!(found.verdict, FleetOutcome::CannotTell);
    assert!(
        found.reasons[0].contains("fleet.json names the host \"../../etc\", which can be no folder"),
        "{:?}",
        found.reasons
    );
}

#[test]
fn links_in_the_folder_of_a_fleet_lead_to_no_other_files() {
    let secret = made_of(&hosts(3), &[]);
    // A host's folder, by its own name and by one that only `fleet.json` has; the folder of hosts; an end.
    for (link, target) in [("hosts/h1", "hosts/h1"), ("hosts/h9", "hosts/h1")] {
        let folder = made_of(&hosts(3), &[]);
        fs::write(folder.path().join("fleet.json"), r#"{"hosts": ["h1", "h2", "h3", "h9"]}"#).unwrap();
        let _ = fs::remove_dir_all(folder.path().join(link));
        symlink(secret.path().join(target), folder.path().join(link)).unwrap();
        let found = verdict::of(folder.path()).unwrap();
        let host = host(&found, &link[6..]);
        assert!(!host.measured && host.run.is_none(), "{host:?}");
        assert!(host.problems[0].contains("its folder is not read: it is a link"), "{host:?}");
    }
    let folder = made_of(&hosts(3), &[]);
    fs::remove_dir_all(folder.path().join("hosts")).unwrap();
    symlink(secret.path().join("hosts"), folder.path().join("hosts")).unwrap();
    assert!(verdict::of(folder.path()).is_err());
    let folder = made_of(&hosts(3), &[]);
    let end = attempt(folder.path(), "h2", 1).join("end.json");
    let aside = secret.path().join("end.json");
    fs::write(&aside, r#"{"end": "lost", "because": "SECRET"}"#).unwrap();
    let _ = fs::remove_file(&end);
    symlink(&aside, &end).unwrap();
    let found = verdict::of(folder.path()).unwrap();
    assert!(!format!("{found:?}").contains("SECRET"), "{:?}", host(&found, "h2"));
    assert!(host(&found, "h2").problems[0].contains("end.json cannot be read"), "{found:?}");
}

#[test]
fn only_suspects_that_differ_again_are_named() {
    let mut first = hosts(10);
    first[4].slow = 1.08;
    first[7].slow = 1.09;
    let folder = made_of(&first, &[]);
    let found = verdict::of(folder.path()).unwrap();
    assert_eq!(found.named, ["h5", "h8"]);
    let chosen = verdict::to_confirm(&found, 7).unwrap();
    assert_eq!(chosen.suspects, ["h5", "h8"]);
    assert_eq!(chosen.others.len(), 2);
    assert!(chosen.others.iter().all(|other| !found.named.contains(other)));
    assert_eq!(chosen.order.len(), 4);
    assert_eq!(verdict::to_confirm(&found, 7).unwrap(), chosen, "the same seed chooses the same hosts");
    assert!((8..30).any(|seed| verdict::to_confirm(&found, seed).unwrap().others != chosen.others));
    let measured_again = |slow_again: f64| {
        let again = chosen.order.iter().map(|name| {
            let number: u64 = name[1..].parse().unwrap();
            let slow = if name == "h5" { slow_again } else { 1.0 };
            Host { slow, seed: 100 + number, ..Host::new(number) }
        });
        let again = made_of(&again.collect::<Vec<Host>>(), &[]);
        verdict::of_confirmed(folder.path(), again.path(), &BTreeMap::new()).unwrap()
    };
    let group_differs = |found: &FleetVerdict| {
        let mut measures = found.groups.iter().flat_map(|group| &group.measures);
        measures.any(|measure| measure.outcome == FleetOutcome::Differs)
    };
    let none = measured_again(1.0);
    assert!(none.named.is_empty() && !group_differs(&none), "{:?}", none.groups);
    // h5 is slow again; what h8 had is gone.
    let found = measured_again(1.08);
    assert!(group_differs(&found), "{:?}", found.groups);
    assert_eq!(found.named, ["h5"], "{}", found.sentence);
    let confirmation = found.confirmation.as_ref().unwrap();
    assert_eq!(
        (&*confirmation.confirmed, &*confirmation.not_confirmed),
        (&["h5".to_owned()][..], &["h8".to_owned()][..])
    );
    assert!(found.sentence.contains("Confirmed by a second measurement"), "{}", found.sentence);
    assert!(found.sentence.contains("Not confirmed: h8"), "{}", found.sentence);
    differs_in_nothing(&found, "h8");
    let h5 = host(&found, "h5");
    assert!(h5.changes.iter().any(|change| change.outcome == FleetOutcome::Differs), "{h5:?}");
    assert!(found.confirmed && shown(&found).contains("[TRUSTED]"), "{}", shown(&found));
    assert_eq!(verdict::to_confirm(&judged(&hosts(3)), 1), None);
}

/// No measure of a host says what its sentence does not.
#[track_caller]
fn differs_in_nothing(found: &FleetVerdict, name: &str) {
    let host = host(found, name);
    let mut measures = host.changes.iter().chain(&host.errors);
    assert!(measures.all(|measure| measure.outcome != FleetOutcome::Differs), "{host:?}");
}

/// Six hosts of which h4 fails quickly, measured again with two others; `again` changes those three.
fn failed_and_again(from_tiles: u32, again: impl Fn(&mut Host)) -> FleetVerdict {
    let mut first = hosts(6);
    first[3] = Host { errors: 0.3, from_tiles, ..first[3].clone() };
    let folder = made_of(&first, &[]);
    let found = verdict::of(folder.path()).unwrap();
    assert_eq!(found.named, ["h4"], "{}", found.sentence);
    let chosen = verdict::to_confirm(&found, 7).unwrap();
    let mut hosts: Vec<Host> = first.into_iter().filter(|host| chosen.order.contains(&host.name)).collect();
    assert_eq!(hosts.len(), 3);
    for host in &mut hosts {
        host.seed += 100;
        again(host);
    }
    let again = made_of(&hosts, &[]);
    verdict::of_confirmed(folder.path(), again.path(), &BTreeMap::new()).unwrap()
}

#[test]
fn a_host_that_fails_again_is_confirmed() {
    for (from_tiles, errors) in [(1, 0.3), (4, 0.3), (4, 1.0)] {
        let found = failed_and_again(from_tiles, |host| {
            if host.name == "h4" {
                host.errors = errors;
            }
        });
        assert_eq!(found.named, ["h4"], "{} {:?}", found.sentence, found.reasons);
        assert_eq!(found.confirmation.as_ref().unwrap().confirmed, ["h4"]);
        assert!(found.sentence.contains("Confirmed by a second measurement"), "{}", found.sentence);
        assert!(!found.sentence.contains("Not confirmed"), "{}", found.sentence);
    }
}

#[test]
fn a_host_that_does_not_fail_again_is_not_confirmed_with_the_reason() {
    let reason = |found: &FleetVerdict| {
        assert_eq!(found.named, [] as [&str; 0], "{}", found.sentence);
        assert_eq!(found.verdict, FleetOutcome::CannotTell);
        let why = host(found, "h4").why.clone().unwrap();
        assert_eq!(found.reasons, [format!("h4: {why}")]);
        differs_in_nothing(found, "h4");
        why
    };
    let found = failed_and_again(1, |host| host.errors = 0.0);
    assert_eq!(found.confirmation.as_ref().unwrap().not_confirmed, ["h4"]);
    assert_eq!(reason(&found), "it failed once, and not when it was measured again");
    // Where the others fail too, it is not out of line, and it is not said that it held.
    let found = failed_and_again(1, |host| host.errors = 0.3);
    assert_eq!(found.confirmation.as_ref().unwrap().not_confirmed, ["h4"]);
    assert_eq!(
        reason(&found),
        "it failed again at 4 tiles on kvm, and half of the others or more did not hold either"
    );
    // Slow is not what it was named for.
    let found = failed_and_again(1, |host| {
        if host.name == "h4" {
            *host = Host { errors: 0.0, slow: 1.2, ..host.clone() };
        }
    });
    assert_eq!(reason(&found), "it failed once, and not when it was measured again");
    let found = failed_and_again(1, |host| host.repeats = 2);
    assert!(reason(&found).starts_with("it differed once, and was not measured again: "));
}

#[test]
fn a_slow_host_that_breaks_the_step_is_measured_again_at_the_same_step() {
    let mut first = hosts(6);
    first[3] = Host { slow: 60.0, from_tiles: 4, ..first[3].clone() };
    let folder = made_of(&first, &[]);
    let found = verdict::of(folder.path()).unwrap();
    assert_eq!(found.named, ["h4"], "{}", found.sentence);
    assert!(host(&found, "h4").capacity.as_ref().unwrap().breaks.is_some(), "it is over the limit of p99");
    let again: Vec<Host> =
        first[2..5].iter().map(|host| Host { seed: host.seed + 100, ..host.clone() }).collect();
    let again = made_of(&again, &[]);
    let found = verdict::of_confirmed(folder.path(), again.path(), &BTreeMap::new()).unwrap();
    assert_eq!(found.named, ["h4"], "{} {:?}", found.sentence, found.reasons);
}

/// Two fleet runs: hosts 1 to 6 unchanged, 7 to 12 with a new kernel and this much slower.
fn drifted(slow: f64, all: f64) -> (TempDir, TempDir) {
    let before = hosts(12);
    let mut after = hosts(12);
    for (place, host) in after.iter_mut().enumerate() {
        host.seed += 1_000;
        host.slow *= all;
        if place >= 6 {
            *host = host.clone().with("/kernel/release", json!({ "value": "6.13.1-amd64" }));
            host.slow *= slow;
        }
    }
    (made_of(&before, &[]), made_of(&after, &[]))
}

#[test]
fn what_changed_hosts_do_more_than_unchanged_ones_is_said_so() {
    let (before, after) = drifted(1.1, 1.0);
    let found = verdict::compare(before.path(), after.path()).unwrap();
    let against = &found.measures[0].against_controls;
    assert_eq!(against.outcome, FleetOutcome::Differs, "{}", found.sentence);
    assert!((against.change.unwrap().value - 0.1).abs() < 0.02);
    assert_eq!(found.measures[0].controls.outcome, FleetOutcome::Alike);
    assert_eq!((found.changes[0].fact.as_str(), found.changes[0].hosts.len()), ("kernel", 6));
    assert_eq!(found.verdict, FleetOutcome::Differs, "{}", found.sentence);
    let sure = "12 compared. web p50: 6 hosts on which something changed (kernel) changed by +";
    assert!(found.sentence.contains(sure), "{}", found.sentence);
    assert!(found.sentence.contains("more than the hosts on which nothing did"), "{}", found.sentence);
}

#[test]
fn what_all_hosts_share_is_blamed_on_nothing() {
    let (before, after) = drifted(1.0, 1.1);
    let found = verdict::compare(before.path(), after.path()).unwrap();
    assert_eq!(found.verdict, FleetOutcome::Differs);
    assert!(found.sentence.contains("is not the cause"), "{}", found.sentence);
    // Without a control: changed, and no cause.
    let mut changed = hosts(8);
    for host in &mut changed {
        host.seed += 2_000;
        host.slow = 1.1;
        *host = host.clone().with("/kernel/release", json!({ "value": "6.13.1-amd64" }));
    }
    let (before, after) = (made_of(&hosts(8), &[]), made_of(&changed, &[]));
    let found = verdict::compare(before.path(), after.path()).unwrap();
    assert!(
        found.sentence.contains("The cause is not known: something changed on every host"),
        "{}",
        found.sentence
    );
    assert!(!found.sentence.contains("because"), "{}", found.sentence);
    assert!(found.html().contains("6.13.1-amd64"));
}

#[test]
fn a_fleet_that_did_not_change_says_so() {
    let (before, after) = drifted(1.0, 1.0);
    let found = verdict::compare(before.path(), after.path()).unwrap();
    assert_eq!(found.verdict, FleetOutcome::Alike, "{}", found.sentence);
    assert_eq!(found.named, [] as [&str; 0]);
    let other = tempfile::tempdir().unwrap();
    fleet(other.path(), &[], &["x"]);
    let none = verdict::compare(before.path(), other.path()).unwrap();
    assert_eq!(none.verdict, FleetOutcome::CannotTell);
    assert!(none.sentence.starts_with("The two runs cannot be compared"), "{}", none.sentence);
}

/// Two fleet runs of 12 hosts, of which 7 to 12 have a new kernel in the later one; `change` changes the hosts of the later run.
fn updated(change: impl Fn(usize, &mut Host)) -> (TempDir, TempDir) {
    let quiet = || hosts(12).into_iter().map(|host| Host { noise: 0.002, ..host });
    let mut after: Vec<Host> = quiet().collect();
    for (place, host) in after.iter_mut().enumerate() {
        host.seed += 1_000;
        if place >= 6 {
            *host = host.clone().with("/kernel/release", json!({ "value": "6.13.1-amd64" }));
        }
        change(place, host);
    }
    (made_of(&quiet().collect::<Vec<_>>(), &[]), made_of(&after, &[]))
}

#[test]
fn hosts_that_fail_after_an_update_have_changed_though_their_times_have_not() {
    for (from_tiles, errors) in [(1, 0.2), (4, 0.2), (4, 1.0)] {
        let (before, after) = updated(|place, host| {
            if place >= 6 {
                *host = Host { errors, from_tiles, ..host.clone() };
            }
        });
        let found = verdict::compare(before.path(), after.path()).unwrap();
        assert_eq!(found.verdict, FleetOutcome::Differs, "{}", found.sentence);
        assert_eq!(found.named, ["h7", "h8", "h9", "h10", "h11", "h12"]);
        let said = format!(
            "6 hosts fail at 4 tiles on kvm and held before: h7, h8, h9, h10, h11, h12. What failed on h7: errors of web: {:.1} %. That is 6 \
             of 6 hosts on which something changed (kernel) and 0 of 6 hosts on which nothing did.",
            errors * 100.0
        );
        assert!(found.sentence.contains(&said), "{}", found.sentence);
        assert!(!found.sentence.contains("Changed by themselves"), "{}", found.sentence);
        assert!(found.failures.iter().all(|host| host.fails_now && !host.is_control));
        let text = found.terminal(Style { colour: Colour::Plain, width: 100 });
        assert!(text.contains("Hosts that fail, or no longer do"), "{text}");
        let mut redacted = found.clone();
        redact_drift(&mut redacted);
        let names: Vec<&str> = redacted.failures.iter().map(|host| &*host.name).collect();
        assert_eq!(names, ["host-7", "host-8", "host-9", "host-10", "host-11", "host-12"]);
        assert!(redacted.sentence.contains("What failed on host-7: errors of web"), "{}", redacted.sentence);
        // The other way round it is an improvement, and names the same hosts.
        let found = verdict::compare(after.path(), before.path()).unwrap();
        assert_eq!(found.verdict, FleetOutcome::Differs, "{}", found.sentence);
        let said = "6 hosts hold at 4 tiles on kvm and failed before: h7, h8, h9, h10, h11, h12.";
        assert!(found.sentence.contains(said), "{}", found.sentence);
        assert!(found.failures.iter().all(|host| !host.fails_now));
    }
}

#[test]
fn a_whole_fleet_that_fails_after_an_update_is_never_the_same() {
    // Quick failures; none but failures; failures with a queue at the larger step, which alone would move the comparison to the smaller one.
    for (errors, slow) in [(0.2, 1.0), (1.0, 1.0), (0.2, 60.0)] {
        let (before, after) = updated(|_, host| *host = Host { errors, slow, from_tiles: 4, ..host.clone() });
        let found = verdict::compare(before.path(), after.path()).unwrap();
        assert_eq!(found.step.as_deref(), Some("at 4 tiles on kvm"), "{}", found.sentence);
        assert_eq!(found.verdict, FleetOutcome::Differs, "{}", found.sentence);
        assert_eq!(found.named.len(), 12);
        let said =
            "That is 6 of 6 hosts on which something changed (kernel) and 6 of 6 hosts on which nothing did.";
        assert!(found.sentence.contains(said), "{}", found.sentence);
        assert!(found.html().len() > 10_000);
    }
}

#[test]
fn a_host_that_fails_in_both_runs_has_not_changed() {
    let mut both = hosts(6);
    for host in &mut both {
        *host = Host { noise: 0.002, errors: 0.2, ..host.clone() };
    }
    let before = made_of(&both, &[]);
    for host in &mut both {
        host.seed += 1_000;
    }
    let after = made_of(&both, &[]);
    let found = verdict::compare(before.path(), after.path()).unwrap();
    assert_eq!(found.failures, []);
    assert_eq!(found.verdict, FleetOutcome::Alike, "{}", found.sentence);
}

#[test]
fn hosts_that_fail_in_both_runs_and_far_more_in_the_later_one_have_changed() {
    let before = made_of(&failing(0.01, 0), &[]);
    let compared = |after: &[Host]| verdict::compare(before.path(), made_of(after, &[]).path()).unwrap();
    let found = compared(&failing(0.3, 100));
    assert_eq!((found.verdict, &*found.named), (FleetOutcome::Differs, &["h11".to_owned()][..]));
    let said = "h11: 30.0 % of its requests fail, and 1.0 % did before.";
    assert!(found.sentence.contains(said) && !found.sentence.contains("on average"), "{}", found.sentence);
    let mut all = failing(0.3, 100);
    all.iter_mut().for_each(|host| host.errors = 0.3);
    let found = compared(&all);
    assert_eq!((found.verdict, found.named.len()), (FleetOutcome::Differs, 11), "{}", found.sentence);
    let said = "Hosts that fail in both runs fail 30.0 times as often on average.";
    assert!(found.sentence.contains(said), "{}", found.sentence);
    let found = compared(&failing(0.01, 100));
    assert_eq!(found.named, [] as [&str; 0], "{}", found.sentence);
}

#[test]
fn a_host_that_fails_now_and_broke_by_time_before_is_a_doubt() {
    let quiet = || hosts(12).into_iter().map(|host| Host { noise: 0.002, ..host });
    let (mut before, mut after): (Vec<Host>, Vec<Host>) = (quiet().collect(), quiet().collect());
    before[2].slow = 60.0;
    after[2] = Host { slow: 60.0, errors: 0.2, ..after[2].clone() };
    for host in &mut after {
        host.seed += 1_000;
    }
    let (before, after) = (made_of(&before, &[]), made_of(&after, &[]));
    let found = verdict::compare(before.path(), after.path()).unwrap();
    assert_eq!(found.verdict, FleetOutcome::CannotTell, "{}", found.sentence);
    let doubt = "h3 failed at 4 tiles on kvm in one run only, and the other does not hold it";
    assert!(found.reasons.iter().any(|reason| reason == doubt), "{:?}", found.reasons);
}

#[test]
fn near_a_limit_a_host_that_fails_in_one_run_is_no_change() {
    let mut before = hosts(12);
    for host in &mut before[5..] {
        // p99 at one tile is about 50 ms, the limit, and repeats scatter around it.
        *host = Host { slow: 3.76, noise: 0.3, ..host.clone() };
    }
    let mut after = before.clone();
    after[2].errors = 0.2;
    let (before, after) = (made_of(&before, &[]), made_of(&after, &[]));
    let found = verdict::compare(before.path(), after.path()).unwrap();
    assert_eq!((found.failures.len(), found.named.len()), (0, 0), "{}", found.sentence);
    assert_eq!(found.verdict, FleetOutcome::CannotTell, "{}", found.sentence);
    let doubt = "h3 failed at 1 tile on kvm in one run only, and half of the hosts or more are undecided there: the step is near a limit";
    assert!(found.reasons.iter().any(|reason| reason == doubt), "{:?}", found.reasons);
}

fn shown(found: &FleetVerdict) -> String {
    found.terminal(Style { colour: Colour::Plain, width: 200 })
}

#[test]
fn a_fleet_of_which_most_hosts_are_gone_is_not_the_same() {
    let quiet = |count| hosts(count).into_iter().map(|host| Host { noise: 0.002, ..host });
    let before = made_of(&quiet(9).collect::<Vec<_>>(), &["h10"]);
    let later: Vec<Host> = quiet(3).map(|host| Host { seed: host.seed + 1_000, ..host }).collect();
    let after = made_of(&later, &["h4", "h5", "h6", "h7", "h8", "h9", "h10"]);
    let found = verdict::compare(before.path(), after.path()).unwrap();
    assert_eq!(found.verdict, FleetOutcome::CannotTell, "{}", found.sentence);
    assert_eq!(found.only_in_one, ["h4", "h5", "h6", "h7", "h8", "h9"]);
    let gone = "nly the earlier run measured 6 hosts: h4, h5, h6, h7, h8, h9";
    assert!(found.sentence.contains(gone), "{}", found.sentence);
    assert!(found.reasons.iter().any(|reason| reason.contains(gone)), "{:?}", found.reasons);
    let never = "either run measured 1 host: h10";
    assert!(found.sentence.contains(never), "{}", found.sentence);
    assert!(
        found.sentence.contains("web p50 is the same on the hosts that are compared: "),
        "{}",
        found.sentence
    );
    let text = found.terminal(Style { colour: Colour::Plain, width: 200 });
    assert!(!text.contains("TRUSTED"), "{text}");
    let mut redacted = found.clone();
    redact_drift(&mut redacted);
    for text in [redacted.sentence.clone(), redacted.html()] {
        assert!(!text.contains("h10") && !text.contains("h4"), "{text}");
    }
    // The other way round they are new.
    let found = verdict::compare(after.path(), before.path()).unwrap();
    assert_eq!(found.verdict, FleetOutcome::CannotTell, "{}", found.sentence);
    assert!(found.sentence.contains("nly the later run measured 6 hosts: h4, h5"), "{}", found.sentence);
    // One that both runs measured and that cannot be compared is a doubt too, and a change is one of a part.
    let mut later: Vec<Host> = quiet(9).map(|host| Host { seed: host.seed + 1_000, ..host }).collect();
    later[8].repeats = 2;
    let before = made_of(&quiet(9).collect::<Vec<_>>(), &[]);
    let found = verdict::compare(before.path(), made_of(&later, &[]).path()).unwrap();
    assert_eq!(found.verdict, FleetOutcome::CannotTell, "{}", found.sentence);
    assert!(found.sentence.contains("Not compared: h9."), "{}", found.sentence);
    later.iter_mut().for_each(|host| host.slow = 1.2);
    let found = verdict::compare(before.path(), made_of(&later, &[]).path()).unwrap();
    assert_eq!(found.verdict, FleetOutcome::Differs, "{}", found.sentence);
    let text = found.terminal(Style { colour: Colour::Plain, width: 200 });
    assert!(!text.contains("TRUSTED"), "{text}");
}

/// Five hosts of which only h1 and h2 have repeats enough, and h2 is slower.
fn only_two_compared() -> Vec<Host> {
    let mut five = hosts(5);
    five[1].slow = 1.15;
    five[2..].iter_mut().for_each(|host| host.repeats = 2);
    five
}

#[test]
fn of_two_hosts_that_differ_in_a_larger_group_neither_is_blamed() {
    let mut two = hosts(2);
    two[1].slow = 1.15;
    for (count, found) in [(2, judged(&two)), (5, judged(&only_two_compared()))] {
        assert_eq!(
            (found.measured, &*found.groups[0].named),
            (count, &["h1".to_owned(), "h2".to_owned()][..])
        );
        let beside = "h1 and h2 differ at 4 tiles on kvm. h1 beside h2: web p50 \u{2212}";
        assert!(found.sentence.contains(beside), "{}", found.sentence);
        assert!(
            found.sentence.contains("With two hosts only, it is unknown which of them is out of line."),
            "{}",
            found.sentence
        );
        assert!(
            !found.sentence.contains("median") && !found.sentence.contains("of the other."),
            "{}",
            found.sentence
        );
        let text = shown(&found);
        assert!(text.contains("% from the other host") && !text.contains("from the median"), "{text}");
        let page = found.html();
        assert!(page.contains("% from the other host") && !page.contains("from the median"));
        assert!(!text.contains("[TRUSTED]"), "they are suspects, {count}: {text}");
    }
}

#[test]
fn one_host_of_which_it_is_not_known_whether_it_is_alike_is_one() {
    let mut hosts = hosts(9);
    for host in &mut hosts {
        host.noise = 0.002;
    }
    hosts[3].noise = 0.06;
    let found = judged(&hosts);
    assert!(
        found.sentence.contains("It is not known of 1 host whether it is like the others."),
        "{}",
        found.sentence
    );
}

#[test]
fn a_fleet_run_does_not_confirm_itself() {
    let mut first = hosts(5);
    first[1].slow = 1.15;
    let folder = made_of(&first, &[]);
    let refused = |again: &std::path::Path| {
        verdict::of_confirmed(folder.path(), again, &BTreeMap::new()).unwrap_err().to_string()
    };
    assert!(refused(folder.path()).contains("it is the same fleet run"), "{}", refused(folder.path()));
    // Whatever the path is, and in a copy too.
    let dotted = folder.path().join(".");
    assert!(refused(&dotted).contains("it is the same fleet run"), "{}", refused(&dotted));
    let again = made_of(&first, &[]);
    let asked = |folder: &TempDir, id: &str, at: u64| {
        let names: Vec<&str> = first.iter().map(|host| &*host.name).collect();
        let document = json!({ "schema": 1, "id": id, "asked_unix_s": at, "hosts": names });
        fs::write(folder.path().join("fleet.json"), document.to_string()).unwrap();
    };
    asked(&folder, "a", 100);
    asked(&again, "a", 200);
    assert!(refused(again.path()).contains("it is the same fleet run"), "{}", refused(again.path()));
    for at in [99, 100] {
        asked(&again, "b", at);
        assert!(refused(again.path()).contains("it is not the later one"), "{}", refused(again.path()));
    }
    asked(&again, "b", 101);
    let found = verdict::of_confirmed(folder.path(), again.path(), &BTreeMap::new()).unwrap();
    assert_eq!(found.named, ["h2"], "{}", found.sentence);
}

#[test]
fn a_fleet_run_is_not_compared_with_itself_or_with_an_earlier_one() {
    let (before, after) = (made_of(&hosts(3), &[]), made_of(&hosts(3), &[]));
    let refused = |after: &std::path::Path| {
        let error = verdict::compare(before.path(), after).unwrap_err();
        assert!(matches!(error, verdict::VerdictError::NotSince { .. }), "{error}");
        error.to_string()
    };
    for same in [before.path(), &before.path().join(".")] {
        assert!(refused(same).ends_with("it is the same fleet run"), "{}", refused(same));
    }
    let asked = |folder: &TempDir, id: &str, at: u64| {
        let document = json!({ "schema": 1, "id": id, "asked_unix_s": at, "hosts": ["h1", "h2", "h3"] });
        fs::write(folder.path().join("fleet.json"), document.to_string()).unwrap();
    };
    asked(&before, "a", 100);
    asked(&after, "a", 200);
    assert!(refused(after.path()).ends_with("it is the same fleet run"), "{}", refused(after.path()));
    asked(&after, "b", 99);
    assert!(refused(after.path()).contains("it was asked earlier"), "{}", refused(after.path()));
    for at in [100, 101] {
        asked(&after, "b", at);
        assert_eq!(verdict::compare(before.path(), after.path()).unwrap().both, 3);
    }
}

#[test]
fn a_host_that_was_measured_and_not_restored_is_named_behind_the_counts_and_its_row_has_the_reason() {
    let mut hosts = hosts(5);
    hosts[1].end = End::NotRestored;
    let folder = made_of(&hosts, &["h6"]);
    write_end(folder.path(), "h2", 1, End::NotRestored, "the governor of CPU 3 is still performance");
    let found = verdict::of(folder.path()).unwrap();
    let first = "6 asked, 5 measured, 4 trusted. Missing: h6 (never started). Not restored: h2 (`sudo tilemark recover` on it).";
    assert!(found.sentence.starts_with(first), "{}", found.sentence);
    assert!(found.html().contains("the governor of CPU 3 is still performance"));
    // What is not an end that leaves something behind is the record's own matter.
    write_end(folder.path(), "h2", 1, End::CannotTell, "the governor of CPU 3 is still performance");
    let found = verdict::of(folder.path()).unwrap();
    assert!(!found.sentence.contains("Not restored"), "{}", found.sentence);
    assert!(!found.html().contains("the governor of CPU 3"));
}

#[test]
fn attempts_of_one_host_with_two_kernels_are_remarked_on() {
    let mut one = hosts(3);
    let folder = made_of(&one, &[]);
    assert_eq!(host(&verdict::of(folder.path()).unwrap(), "h2").problems, [] as [&str; 0]);
    one[1].attempt = 2;
    one[1] = one[1].clone().with("/kernel/release", json!({ "value": "6.13.1-amd64" }));
    made::write_host(folder.path(), &one[1]);
    let found = verdict::of(folder.path()).unwrap();
    let why = "attempt 2 had kernel 6.13.1-amd64, attempt 1 had 6.12.9-amd64";
    assert_eq!(host(&found, "h2").problems, [why]);
    assert!(found.html().contains("6.13.1-amd64, attempt 1 had 6.12.9-amd64"));
}

#[test]
fn other_work_confirms_nothing() {
    let mut first = hosts(5);
    first[1].slow = 1.15;
    let folder = made_of(&first, &[]);
    for host in &mut first {
        host.scenario = host.scenario.replace("name = \"made\"", "name = \"other\"");
    }
    let again = made_of(&first, &[]);
    let found = verdict::of_confirmed(folder.path(), again.path(), &BTreeMap::new()).unwrap();
    let confirmation = found.confirmation.as_ref().unwrap();
    assert_eq!(confirmation.confirmed, [] as [&str; 0], "{}", found.sentence);
    let why = "that run measured other work on it: it differs in scenario";
    assert_eq!(confirmation.not_measured["h2"], why);
}

#[test]
fn hosts_and_runs_that_differ_only_in_a_setting_measured_other_work() {
    let mut first = hosts(5);
    first[1].slow = 1.15;
    let mut again = first.clone();
    for host in &mut again {
        host.settings = [("gate.p99".to_owned(), "500ms".to_owned())].into();
    }
    let (folder, later) = (made_of(&first, &[]), made_of(&again, &[]));
    let found = verdict::of_confirmed(folder.path(), later.path(), &BTreeMap::new()).unwrap();
    let confirmation = found.confirmation.as_ref().unwrap();
    assert_eq!(confirmation.confirmed, [] as [&str; 0], "{}", found.sentence);
    let why = "that run measured other work on it: it differs in settings";
    assert_eq!(confirmation.not_measured["h2"], why);
    let drift = verdict::compare(folder.path(), later.path()).unwrap();
    assert_eq!(drift.not_compared.len(), 5, "{}", drift.sentence);
    let why = "the two runs measured other work: they differ in settings";
    assert!(drift.not_compared.values().all(|own| own == why), "{:?}", drift.not_compared);
    assert_eq!(drift.sentence, format!("The two runs cannot be compared: {why}."));
    assert_eq!(drift.verdict, FleetOutcome::CannotTell);
    let change = drift.changes.iter().find(|change| change.fact == "settings").unwrap();
    assert_eq!(change.before, "none");
    assert!(change.after.starts_with("gate.p99 (SHA-256 "), "{}", change.after);
    // The same key with another value is other work too.
    for host in &mut first {
        host.settings = [("gate.p99".to_owned(), "400ms".to_owned())].into();
    }
    let other = made_of(&first, &[]);
    assert_eq!(verdict::compare(later.path(), other.path()).unwrap().not_compared.len(), 5);
}

#[test]
fn two_hosts_that_differ_are_confirmed_as_a_pair() {
    let mut two = hosts(2);
    two[1].slow = 1.15;
    for first in [two, only_two_compared()] {
        let folder = made_of(&first, &[]);
        let found = verdict::of(folder.path()).unwrap();
        let chosen = verdict::to_confirm(&found, 7).unwrap();
        assert_eq!((&*chosen.suspects, chosen.others.len()), (&["h1".to_owned(), "h2".to_owned()][..], 0));
        assert_eq!((chosen.order.len(), chosen.unconfirmable.len()), (2, 0));
        let again = |slow: f64| {
            let mut again: Vec<Host> =
                first[..2].iter().map(|host| Host { seed: host.seed + 100, ..host.clone() }).collect();
            again[1].slow = slow;
            let again = made_of(&again, &[]);
            verdict::of_confirmed(folder.path(), again.path(), &BTreeMap::new()).unwrap()
        };
        let found = again(1.15);
        assert_eq!(found.named, ["h1", "h2"], "{} {:?}", found.sentence, found.reasons);
        assert!(
            found.sentence.contains("h1 and h2 differ at 4 tiles on kvm. h1 beside h2: "),
            "{}",
            found.sentence
        );
        assert!(found.sentence.contains("With two hosts only, it is unknown"), "{}", found.sentence);
        assert!(found.sentence.contains("Confirmed by a second measurement"), "{}", found.sentence);
        // The other way round, and not at all.
        for slow in [0.85, 1.0] {
            let found = again(slow);
            assert_eq!(
                found.confirmation.as_ref().unwrap().not_confirmed,
                ["h1", "h2"],
                "{}",
                found.sentence
            );
            assert_eq!(found.named, [] as [&str; 0], "{}", found.sentence);
        }
        // One of the two did not come back.
        let again = made_of(&first[..1], &["h2"]);
        let found = verdict::of_confirmed(folder.path(), again.path(), &BTreeMap::new()).unwrap();
        let why = &found.confirmation.as_ref().unwrap().not_measured;
        assert_eq!(why["h1"], "no other host was measured again with it");
        assert_eq!(why["h2"], "it has no whole record");
    }
}

#[test]
fn a_group_in_which_nobody_else_can_be_measured_is_not_measured_again() {
    let mut hosts = hosts(6);
    hosts[0].slow = 1.15;
    for host in &mut hosts[..3] {
        *host = host.clone().with("/kernel/release", json!({ "value": "6.1.0" }));
    }
    for host in &mut hosts[1..3] {
        host.end = End::CannotTell;
    }
    let found = judged(&hosts);
    assert_eq!(found.named, ["h1"], "{}", found.sentence);
    let chosen = verdict::to_confirm(&found, 7).unwrap();
    let group = host(&found, "h1").group.clone().unwrap();
    let unconfirmable = verdict::Unconfirmable { group, suspects: vec!["h1".to_owned()] };
    assert_eq!((&*chosen.unconfirmable, chosen.order.len()), (&[unconfirmable.clone()][..], 0));
    // Beside a group that can be confirmed it is left out.
    hosts[3].slow = 1.15;
    let chosen = verdict::to_confirm(&judged(&hosts), 7).unwrap();
    assert_eq!((&*chosen.suspects, chosen.order.len()), (&["h4".to_owned()][..], 3));
    assert_eq!(chosen.unconfirmable, [unconfirmable]);
}

#[test]
fn a_host_that_was_named_for_two_things_stays_so_for_what_was_confirmed() {
    let mut first = hosts(6);
    first[3] = Host { errors: 0.3, slow: 1.2, ..first[3].clone() };
    let folder = made_of(&first, &[]);
    let again = |errors: f64, slow: f64| {
        let mut again: Vec<Host> =
            first[2..5].iter().map(|host| Host { seed: host.seed + 100, ..host.clone() }).collect();
        again[1] = Host { errors, slow, ..again[1].clone() };
        let found =
            verdict::of_confirmed(folder.path(), made_of(&again, &[]).path(), &BTreeMap::new()).unwrap();
        assert_eq!(found.named, ["h4"], "{} {:?}", found.sentence, found.reasons);
        found.sentence
    };
    let both = again(0.3, 1.2);
    assert!(both.contains("web p50 +") && both.contains("; it fails at 4 tiles on kvm"), "{both}");
    let slow = again(0.0, 1.2);
    assert!(slow.contains("web p50 +"), "{slow}");
    assert!(slow.contains("; it failed once, and not when it was measured again."), "{slow}");
    let fails = again(0.3, 1.0);
    assert!(fails.contains("h4 differs from its group: it fails at 4 tiles on kvm"), "{fails}");
    assert!(!fails.contains("web p50 +"), "{fails}");
}
