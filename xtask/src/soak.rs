//! `cargo xtask soak`: the trials that tests do in short, in their long sizes. The same tests, with their sizes set from
//! outside; what they print of themselves is in the table.

use crate::{
    attacks,
    bench::{Asked, Bench, Named, Skipped, masked, measurement, named, need_root, text_of, up_and_distinct},
    cargo::{cargo_command, target},
    fuzz, host_cuts,
    lab::build_program,
};
use anyhow::{Result, bail, ensure};
use serde_json::Value;
use std::{path::PathBuf, time::Instant};

const ALL: [Named<Vec<String>>; 23] = [
    named("clones-256", 2.0, |bench| clones(bench, 256), "256 emulated clones: no two are the same"),
    named("clones-500", 2.0, |bench| clones(bench, 500), "500 emulated clones: no two are the same"),
    named(
        "tiles-32",
        4.0,
        tiles_32,
        "32 tiles of consolidation, 256 native guests: each answers correctly, and all are gone afterwards",
    ),
    named("kills-native", 8.0, kills_native, "110 native runs, each killed at another moment"),
    named("kills-emulated", 16.0, kills_emulated, "100 emulated runs, each killed at another moment"),
    named(
        "kills-host",
        6.0,
        kills_host,
        "1,000 times a profile of the host applied or restored, each killed at another moment",
    ),
    named(
        "cuts-host",
        20.0,
        host_cuts::run,
        "20 power cuts of the lab while a profile is applied, and 100 kills: every setting as before",
    ),
    named(
        "lab",
        20.0,
        lab_at_length,
        "the tests in the lab that take minutes: wide guests in huge pages, 32 clones, data disks, a search, a tile of consolidation",
    ),
    named(
        "neighbour",
        160.0,
        neighbours,
        "20 real runs each with a neighbour that takes 30 % of the processor, and of the disk: named in the worst pair",
    ),
    named(
        "settings",
        120.0,
        settings_tried,
        "real screenings: 20 with one setting of eleven that harms, 20 with two that slow the load by 5 %, and one whose setting that pays is kept",
    ),
    named(
        "fleet",
        30.0,
        fleet,
        "processes and hosts killed, cables and disks that fail, under fleets of real hosts and clients with ssh and Slurm",
    ),
    named(
        "fleet-deaths",
        25.0,
        fleet_deaths,
        "100 hosts of fleets without power that had whole repeats, each at another moment: none lost",
    ),
    named(
        "fleet-verdict",
        35.0,
        fleet_verdict,
        "real fleets: a planted slow host is named and confirmed, and of 20 alike fleets none names a host",
    ),
    named("fleet-clients", 3.0, fleet_clients, "when three clients over ssh and Slurm begin, in 20 repeats"),
    named(
        "fleet-cost",
        15.0,
        fleet_cost,
        "what a fleet run over ssh costs a host beside its measurement, in turn with a plain run",
    ),
    named("emulated-tls", 8.0, emulated_tls, "brokers and databases in emulated guests serve over TLS"),
    named(
        "uefi",
        6.0,
        uefi,
        "a guest from a disk that only UEFI boots: it serves, and a BIOS does not boot it",
    ),
    named(
        "comparisons",
        60.0,
        comparisons,
        "series of 10,000 synthetic comparisons: A/A, drift, planted changes, failures, runs; changes over time",
    ),
    named(
        "capacities",
        45.0,
        capacities,
        "searches of hosts whose capacity is known: how often a trusted answer is wrong",
    ),
    named("power-cuts", 1.0, power_cuts, "1,000 power cuts of the broker's journal, and of broken ones"),
    named("large-data", 2.0, large_data, "13 GB of the store's data: sizes within 1 %"),
    // The fuzzing has flags of its own: `run` calls it.
    named(
        FUZZING,
        20.0,
        |_| fuzz::run(&fuzz::Wanted::default()),
        "each parser of foreign bytes under libFuzzer, 60 s: no panic, no hang, at most 512 MiB",
    ),
    named("attacks", 15.0, attacks::run, "every attack that SECURITY.md names, in full"),
];

const FUZZING: &str = "fuzzing";

/// Runs the named trials, or all; every failure is reported, and the command fails at the end.
pub(crate) fn run(arguments: &[&str]) -> Result<()> {
    let names: Vec<&str> = ALL.iter().map(|trial| trial.name).collect();
    let (wanted, mut arguments) = fuzzing_flags(arguments)?;
    if !wanted.only.is_empty() && arguments.is_empty() {
        arguments.push(FUZZING);
    }
    let asked = Asked::parse(&arguments, &names)?;
    if asked.list {
        for trial in &ALL {
            println!("{:<16} about {:>3} min  {}", trial.name, trial.minutes, trial.about);
        }
        return Ok(());
    }
    let home = std::env::var_os("TILEMARK_HOME").map_or_else(|| target().join("bench-home"), PathBuf::from);
    let bench = Bench { home, n: asked.n };
    let (mut table, mut failed) = (Vec::new(), Vec::new());
    for trial in ALL.iter().filter(|trial| asked.wants(trial.name)) {
        eprintln!("\n== {}: {}", trial.name, trial.about);
        let began = Instant::now();
        let outcome = if trial.name == FUZZING { fuzz::run(&wanted) } else { (trial.run)(&bench) };
        let (word, details) = match outcome {
            Ok(details) => ("passed", details),
            Err(error) if error.is::<Skipped>() => ("SKIPPED", vec![error.to_string()]),
            Err(error) => {
                failed.push(trial.name);
                ("FAILED", vec![masked(&format!("{error:#}"))])
            }
        };
        let minutes = began.elapsed().as_secs_f64() / 60.0;
        table.push(format!("{:<16} {word:<8} {minutes:>5.1} min  {}", trial.name, details.join("; ")));
    }
    println!("{}", table.join("\n"));
    if failed.is_empty() { Ok(()) } else { bail!("failed: {}", failed.join(", ")) }
}

/// Takes out the flags of the fuzzing.
fn fuzzing_flags<'a>(arguments: &[&'a str]) -> Result<(fuzz::Wanted, Vec<&'a str>)> {
    let (mut wanted, mut others) = (fuzz::Wanted::default(), Vec::new());
    let mut left = arguments.iter();
    while let Some(&argument) = left.next() {
        match argument {
            "--seconds" => match left.next().and_then(|text| text.parse().ok()) {
                Some(seconds @ 1..) => wanted.seconds = Some(seconds),
                _ => bail!("--seconds wants a whole number above 0"),
            },
            "--only" => match left.next() {
                Some(name) => wanted.only.push((*name).to_owned()),
                None => bail!("--only wants the name of a fuzz target"),
            },
            other => others.push(other),
        }
    }
    Ok((wanted, others))
}

fn clones(bench: &Bench, count: u32) -> Result<Vec<String>> {
    let printed = up_and_distinct(bench, count, &["--no-memory"])?;
    Ok(vec![format!(
        "{count} ready, the slowest {} s after the template",
        printed["seconds_to_ready"]["max"]
    )])
}

/// The image is built before: the test has only its own cache.
fn tiles_32(bench: &Bench) -> Result<Vec<String>> {
    bench.image_called("consolidation")?;
    let test = "each_of_256_guests_answers_correctly_and_all_are_gone_afterwards";
    let lines = measurement(bench, &["-p", "tilemark", "--test", "consolidation"], test, &[])?;
    let right = lines.iter().filter_map(|line| {
        Some(format!("{} right {} of {}", line["right"], line["unit"].as_str()?, line["load"].as_str()?))
    });
    let guests = lines.iter().filter(|line| line["guests"].is_u64());
    let ready =
        guests.map(|line| format!("{} guests ready after {} s", line["guests"], line["ready_after_s"]));
    Ok(right.chain(ready).collect())
}

fn kills_native(bench: &Bench) -> Result<Vec<String>> {
    kills(bench, "native", "a_killed_command_leaves_nothing_at_any_moment", 110)
}

fn kills_emulated(bench: &Bench) -> Result<Vec<String>> {
    kills(bench, "emulated", "a_killed_command_leaves_nothing_of_emulated_guests", 100)
}

fn kills(bench: &Bench, file: &str, test: &str, own: usize) -> Result<Vec<String>> {
    let settings = [("TILEMARK_TEST_KILLS", bench.times(own).to_string())];
    let lines = measurement(bench, &["-p", "tilemark", "--test", file], test, &settings)?;
    let gone: Vec<f64> = lines.iter().filter_map(|line| line["gone_after_s"].as_f64()).collect();
    let slowest = gone.iter().copied().fold(0.0, f64::max);
    Ok(vec![format!("{} kills, everything gone each time, the slowest after {slowest:.2} s", gone.len())])
}

fn kills_host(bench: &Bench) -> Result<Vec<String>> {
    let settings = [("TILEMARK_TEST_KILLS", bench.times(1000).to_string())];
    let test = "apply_killed_at_any_moment_is_whole_or_recovered_byte_for_byte";
    let lines = measurement(bench, &["-p", "tilemark", "--test", "host"], test, &settings)?;
    let line = |line: &Value| {
        format!(
            "{} kills, {} of them with some settings set: byte-equal each time",
            line["kills"], line["in_part"]
        )
    };
    Ok(lines.iter().map(line).collect())
}

/// Those of the lab that are `#[ignore]`d; every test run has the others.
fn lab_at_length(_: &Bench) -> Result<Vec<String>> {
    need_root()?;
    build_program()?;
    let arguments = ["test", "--package", "xtask", "--locked", "--test", "lab", "--", "--ignored"];
    let said = text_of(cargo_command(&arguments).env("TILEMARK_CI", "1"))?;
    let passed: Vec<&str> = said.lines().filter_map(passed).collect();
    ensure!(!passed.is_empty(), "no test of the lab is ignored: nothing was run");
    Ok(vec![format!("{} tests passed: {}", passed.len(), passed.join(", "))])
}

/// The name in `test NAME ... ok`.
fn passed(line: &str) -> Option<&str> {
    line.strip_prefix("test ")?.strip_suffix(" ... ok")
}

/// Both resources; a neighbour that is named too seldom fails the test.
fn neighbours(bench: &Bench) -> Result<Vec<String>> {
    let settings = [("TILEMARK_TEST_NEIGHBOURS", bench.times(20).to_string())];
    let mut named = Vec::new();
    for resource in ["processor", "disk"] {
        let test =
            format!("a_neighbour_that_takes_three_tenths_of_the_{resource}_is_named_in_the_worst_pair");
        let lines = measurement(bench, &["-p", "tilemark", "--test", "interference"], &test, &settings)?;
        named.push(format!("{resource}: named in {}", counted_as(&lines, "is_named")));
    }
    Ok(named)
}

fn settings_tried(bench: &Bench) -> Result<Vec<String>> {
    let settings = [("TILEMARK_TEST_SCREENINGS", bench.times(20).to_string())];
    let file = ["-p", "tilemark", "--test", "host_settings"];
    let mut said = Vec::new();
    for test in [
        "a_setting_that_harms_is_named_among_some_that_do_nothing",
        "two_settings_that_slow_the_load_by_five_percent_are_named_among_eleven",
    ] {
        let lines = measurement(bench, &file, test, &settings)?;
        said.push(format!("{test}: named in {}", counted_as(&lines, "is_named")));
        said.push(format!("another one named in {}", counted_as(&lines, "is_other_named")));
    }
    let kept = measurement(bench, &file, "a_setting_that_pays_stays_applied_until_it_is_restored", &[])?;
    said.push(format!("kept, applied and restored in {} of 1", kept.len()));
    Ok(said)
}

/// In how many of these lines that is true.
fn counted_as(lines: &[Value], key: &str) -> String {
    let is_so = lines.iter().filter(|line| line[key] == true).count();
    format!("{is_so} of {}", lines.len())
}

fn fleet(bench: &Bench) -> Result<Vec<String>> {
    let test = "every_attack_on_a_fleet_is_named_and_leaves_nothing";
    let lines = measurement(bench, &["-p", "tilemark", "--test", "fleet_attacks"], test, &[own_program()?])?;
    let line = |line: &Value| {
        format!("{}: {}", line["attack"].as_str().unwrap_or("?"), line["read"].as_str().unwrap_or("?"))
    };
    Ok(lines.iter().map(line).collect())
}

/// Tests find the lab by it.
fn own_program() -> Result<(&'static str, String)> {
    Ok(("TILEMARK_TEST_XTASK", std::env::current_exe()?.display().to_string()))
}

fn fleet_deaths(bench: &Bench) -> Result<Vec<String>> {
    let settings = [("TILEMARK_TEST_KILLS", bench.times(100).to_string()), own_program()?];
    let test = "hosts_that_die_at_any_moment_lose_no_whole_repeat";
    let lines = measurement(bench, &["-p", "tilemark", "--test", "fleet_attacks"], test, &settings)?;
    Ok(lines.iter().filter_map(|line| Some(line["read"].as_str()?.to_owned())).collect())
}

fn fleet_verdict(bench: &Bench) -> Result<Vec<String>> {
    let settings = [("TILEMARK_TEST_ROUNDS", bench.times(20).to_string()), own_program()?];
    let test = "of_real_hosts_the_slow_one_is_named_and_of_alike_ones_none";
    let lines = measurement(bench, &["-p", "tilemark", "--test", "fleet_attacks"], test, &settings)?;
    Ok(lines.iter().filter_map(|line| Some(line["read"].as_str()?.to_owned())).collect())
}

fn fleet_clients(bench: &Bench) -> Result<Vec<String>> {
    let settings = [("TILEMARK_TEST_ROUNDS", bench.times(20).to_string()), own_program()?];
    let test = "clients_over_ssh_and_slurm_begin_together";
    let lines = measurement(bench, &["-p", "tilemark", "--test", "fleet_attacks"], test, &settings)?;
    let of = |key: &str| lines.iter().filter_map(|line| line[key].as_f64()).collect();
    Ok(vec![
        median("from the first to the last beginning", "ms", of("apart_ms")),
        median("clocks uncertain by", "ms", of("uncertain_ms")),
    ])
}

fn fleet_cost(bench: &Bench) -> Result<Vec<String>> {
    let settings = [("TILEMARK_TEST_ROUNDS", bench.times(11).to_string()), own_program()?];
    let test = "what_a_fleet_run_costs_a_host_beside_its_measurement";
    let lines = measurement(bench, &["-p", "tilemark", "--test", "fleet_attacks"], test, &settings)?;
    let extra =
        lines.iter().filter_map(|line| Some((line["fleet_ms"].as_f64()? - line["plain_ms"].as_f64()?) / 1e3));
    let part = lines.iter().filter_map(|line| Some(line["part"].as_f64()? * 100.0));
    Ok(vec![
        median("wall time beside a plain run", "s", extra.collect()),
        median("processors", "%", part.collect()),
    ])
}

fn median(what: &str, unit: &str, mut values: Vec<f64>) -> String {
    values.sort_by(f64::total_cmp);
    let middle = tilemark_units::median(values.clone());
    let (Some(middle), Some(low), Some(high)) = (middle, values.first(), values.last()) else {
        return format!("{what}: no figure");
    };
    format!("{what}: {middle:.3} {unit} ({low:.3} to {high:.3}, n {})", values.len())
}

fn emulated_tls(bench: &Bench) -> Result<Vec<String>> {
    for image in ["brokers", "database"] {
        bench.image_called(image)?;
    }
    let test = "emulated_brokers_and_databases_serve_over_tls";
    let lines = measurement(bench, &["-p", "tilemark", "--test", "emulated"], test, &[])?;
    let line =
        |line: &Value| format!("{}: {} right answers", line["which"].as_str().unwrap_or("?"), line["right"]);
    Ok(lines.iter().map(line).collect())
}

fn uefi(bench: &Bench) -> Result<Vec<String>> {
    let test = "a_disk_that_only_uefi_boots_serves_with_its_firmware";
    let lines = measurement(bench, &["-p", "tilemark", "--test", "own_disk"], test, &[])?;
    let line = |line: &Value| format!("a run of {} s with kernel {}", line["seconds"], line["kernel"]);
    Ok(lines.iter().map(line).collect())
}

fn comparisons(bench: &Bench) -> Result<Vec<String>> {
    let settings = [("TILEMARK_TEST_COMPARISONS", bench.times(10_000).to_string())];
    let arguments = ["-p", "tilemark-statistics", "--test", "comparisons"];
    let mut printed = Vec::new();
    for test in [
        "of_200_comparisons_of_a_thing_with_itself_at_most_one_in_a_hundred_is_called_different",
        "a_drift_of_1_percent_a_minute_is_no_difference_when_the_order_is_random_in_blocks",
        "a_planted_slowdown_of_5_percent_is_found_95_times_of_100_in_pairs_and_unpaired",
        "a_p99_that_is_30_percent_worse_is_not_acquitted_at_any_noise",
        "equal_sides_are_acquitted_with_enough_pairs_and_a_tolerance_for_p99",
        "three_measures_of_a_thing_with_itself_are_called_different_once_in_a_hundred_at_most",
        "a_change_as_large_as_the_margin_is_called_none_at_most_once_in_twenty",
        "the_change_that_a_comparison_promises_to_see_is_seen_95_times_of_100",
        "a_side_that_fails_30_percent_is_never_called_better",
        "runs_of_one_thing_with_levels_of_their_own_are_called_different_once_in_a_hundred_at_most",
        "of_several_sides_of_one_thing_one_in_a_hundred_comparisons_as_a_whole_finds_a_difference_at_most",
    ] {
        printed.extend(measurement(bench, &arguments, test, &settings)?.iter().map(called));
    }
    let arguments = ["-p", "tilemark-statistics", "--test", "fleet"];
    for test in [
        "of_100_fleets_of_40_alike_hosts_at_most_one_names_a_host",
        "heavy_tails_do_not_make_alike_fleets_name_a_host",
        "a_host_that_is_8_percent_slower_is_found_in_95_of_100_fleets_and_is_the_only_one",
        "of_100_fleets_that_did_not_change_at_most_one_names_a_host",
    ] {
        printed.extend(measurement(bench, &arguments, test, &settings)?.iter().map(called));
    }
    let arguments = ["-p", "tilemark-statistics", "--test", "judge"];
    for test in [
        "clients::of_100_runs_with_alike_clients_at_most_one_names_a_client",
        "clients::a_client_that_is_10_percent_slower_is_found_in_95_of_100_runs_and_is_the_only_one",
    ] {
        printed.extend(measurement(bench, &arguments, test, &settings)?.iter().map(called));
    }
    let arguments = ["-p", "tilemark-statistics", "--lib"];
    for test in [
        "changepoint::tests::of_series_without_a_change_at_most_one_in_a_hundred_is_called_changed",
        "changepoint::tests::a_shift_of_three_deviations_in_the_middle_of_20_runs_is_found_95_times_of_100",
    ] {
        printed.extend(measurement(bench, &arguments, test, &settings)?.iter().map(called));
    }
    Ok(printed)
}

fn called(line: &Value) -> String {
    format!("{}: {} of {}", line["what"].as_str().unwrap_or("?"), line["called"], line["of"])
}

fn capacities(bench: &Bench) -> Result<Vec<String>> {
    let settings = [("TILEMARK_TEST_CAPACITIES", bench.times(100).to_string())];
    let test = "an_answer_that_is_trusted_holds_the_truth_19_times_of_20_on_every_kind_of_host";
    let lines = measurement(bench, &["-p", "tilemark-statistics", "--test", "capacity"], test, &settings)?;
    let line = |line: &Value| {
        let figure = |key: &str| format!("{:.1}", line[key].as_f64().unwrap_or(f64::NAN));
        format!(
            "{}: {} % trusted, {} % of all trusted and wrong, bias {} %, {} repeats",
            line["what"].as_str().unwrap_or("?"),
            figure("trusted_percent"),
            figure("trusted_and_wrong_percent"),
            figure("bias_percent"),
            figure("repeats")
        )
    };
    Ok(lines.iter().map(line).collect())
}

fn power_cuts(bench: &Bench) -> Result<Vec<String>> {
    let test = "journal::power_cut::a_thousand_power_cuts_lose_no_confirmed_message_and_bring_none_back";
    let lines = measurement(bench, &["-p", "tilemark-broker", "--lib"], test, &[])?;
    Ok(lines
        .iter()
        .map(|line| format!("{} cuts, {} confirmed, none lost", line["cuts"], line["confirmed"]))
        .collect())
}

fn large_data(bench: &Bench) -> Result<Vec<String>> {
    let arguments = ["-p", "tilemark-store-data", "--test", "data"];
    measurement(bench, &arguments, "large_sizes_have_the_asked_size", &[])?;
    Ok(vec!["1 GB from below and above, and 10 GB".to_owned()])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_of_an_even_count_is_between_the_two_in_the_middle() {
        assert_eq!(median("a", "s", vec![4.0, 1.0, 2.0, 3.0]), "a: 2.500 s (1.000 to 4.000, n 4)");
        assert_eq!(median("a", "s", vec![1.0]), "a: 1.000 s (1.000 to 1.000, n 1)");
        assert_eq!(median("a", "s", Vec::new()), "a: no figure");
    }

    #[test]
    fn tests_that_passed_are_named_and_no_others() {
        let said = "running 3 tests\ntest one ... ok\ntest two ... FAILED\ntest three has been running for over 60 seconds\n\
                    test three ... ok\ntest result: FAILED. 2 passed\n";
        assert_eq!(said.lines().filter_map(passed).collect::<Vec<_>>(), ["one", "three"]);
    }

    #[test]
    fn flags_of_the_fuzzing_are_taken_out_of_the_others() {
        let (wanted, others) =
            fuzzing_flags(&["--seconds", "5", "attacks", "--only", "frames", "--only", "elf"]).unwrap();
        assert_eq!(wanted, fuzz::Wanted { seconds: Some(5), only: vec!["frames".into(), "elf".into()] });
        assert_eq!(others, ["attacks"]);
        for wrong in [&["--seconds", "0"][..], &["--seconds"], &["--only"]] {
            assert!(fuzzing_flags(wrong).is_err(), "{wrong:?}");
        }
    }
}
