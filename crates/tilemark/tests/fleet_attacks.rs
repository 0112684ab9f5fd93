//! Attacks on fleets of real hosts with ssh and Slurm, in the lab (`cargo xtask fleet-lab`): hosts, processes, cables and disks fail in
//! the middle of the work. Each failure is named with what to do, nothing is measured twice, and nothing is left on a host.

#![allow(missing_docs, clippy::unwrap_used)]

mod common;

use common::{Said, fleet_lab};
use serde_json::Value;

const SCRIPT: &str = include_str!("fleet_attacks.sh");

/// Runs attacks in one lab; what each printed. `None` where the lab cannot be here.
fn attacked(attacks: &str, rounds: usize) -> Option<Vec<Value>> {
    let mut lab = fleet_lab()?;
    lab.args(["sh", "-c", SCRIPT]);
    lab.env("ATTACKS", attacks).env("ROUNDS", rounds.to_string());
    let said = Said::of(&lab.output().unwrap());
    assert_eq!(said.code, Some(0), "{}\n{}", said.out, said.error);
    let lines: Vec<Value> = said.out.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    for line in &lines {
        println!("{line}");
    }
    Some(lines)
}

/// Fails where an attack has failed or is missing.
fn all_withstood(lines: &[Value], names: &[&str]) {
    for name in names {
        let line = lines.iter().find(|line| line["attack"] == *name);
        let line = line.unwrap_or_else(|| panic!("{name} did not come to its end: {lines:#?}"));
        assert!(line["read"].is_string(), "{line}");
    }
}

#[test]
fn a_fleet_whose_submitter_dies_beside_sbatch_is_given_to_slurm_once() {
    let Some(lines) = attacked("submitter", 0) else { return };
    all_withstood(&lines, &["submitter-killed-before-sbatch", "submitter-killed-after-sbatch"]);
}

#[test]
fn a_full_disk_of_a_host_and_a_killed_script_are_named_and_nothing_is_left() {
    let Some(lines) = attacked("script disk_before", 0) else { return };
    all_withstood(&lines, &["killed-script", "disk-full-before"]);
}

/// The long form: `cargo xtask soak fleet`.
#[test]
#[ignore = "takes a quarter of an hour: `cargo xtask soak fleet` runs it"]
fn every_attack_on_a_fleet_is_named_and_leaves_nothing() {
    let attacks = "submitter script command_there sshd ssh command_here stepd srun collect link disk_before disk_meanwhile two queue limit";
    let Some(lines) = attacked(attacks, 0) else { return };
    all_withstood(
        &lines,
        &[
            "submitter-killed-before-sbatch",
            "submitter-killed-after-sbatch",
            "killed-script",
            "killed-run",
            "killed-sshd",
            "killed-ssh",
            "killed-command",
            "killed-stepd",
            "killed-srun",
            "killed-command-over-srun",
            "collect-cut-and-killed",
            "link-cut-5s",
            "link-cut-until-lost",
            "disk-full-before",
            "disk-full-while-measuring",
            "two-at-once-ssh.toml",
            "two-at-once-slurm-ssh.toml",
            "job-that-never-starts",
            "limit-of-time",
        ],
    );
}

/// A measurement: `cargo xtask soak fleet-cost`.
#[test]
#[ignore = "takes a quarter of an hour: `cargo xtask soak fleet-cost` runs it"]
fn what_a_fleet_run_costs_a_host_beside_its_measurement() {
    let rounds = std::env::var("TILEMARK_TEST_ROUNDS").map_or(1, |rounds| rounds.parse().unwrap());
    let Some(lines) = attacked("cost", rounds) else { return };
    all_withstood(&lines, &["cost"]);
}

/// The long form: `cargo xtask soak fleet-deaths`.
#[test]
#[ignore = "takes half an hour: `cargo xtask soak fleet-deaths` runs it"]
fn hosts_that_die_at_any_moment_lose_no_whole_repeat() {
    let rounds = std::env::var("TILEMARK_TEST_KILLS").map_or(3, |kills| kills.parse().unwrap());
    let Some(lines) = attacked("deaths", rounds) else { return };
    all_withstood(&lines, &["deaths"]);
}
