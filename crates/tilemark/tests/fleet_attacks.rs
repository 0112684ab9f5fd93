//! Attacks on fleets of real hosts with ssh and Slurm, in the lab (`cargo xtask fleet-lab`): hosts, processes, cables and disks fail in
//! the middle of the work. Each failure is named with what to do, nothing is measured twice, and nothing is left on a host.

#![allow(missing_docs, clippy::unwrap_used)]

mod common;

use common::{Said, fleet_lab};
use serde_json::Value;
use tilemark_record::summary::RepeatSummary;

const SCRIPT: &str = include_str!("fleet_attacks.sh");

/// Runs attacks in one lab; what each printed. `None` where the lab cannot be here.
fn attacked(attacks: &str, rounds: usize) -> Option<Vec<Value>> {
    let mut lab = fleet_lab()?;
    lab.args(["sh", "-c", SCRIPT]);
    lab.env("ATTACKS", attacks).env("ROUNDS", rounds.to_string());
    let said = Said::of(&lab.output().unwrap());
    assert_eq!(said.code, Some(0), "{}\n{}", said.out, said.error);
    let lines: Vec<Value> = said.out.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    for line in lines.iter().filter(|line| line["summary"].is_null()) {
        println!("{line}");
    }
    Some(lines)
}

/// How many rounds the measurement is to have.
fn rounds(own: usize) -> usize {
    std::env::var("TILEMARK_TEST_ROUNDS").map_or(own, |rounds| rounds.parse().unwrap())
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
#[ignore = "takes half an hour: `cargo xtask soak fleet` runs it"]
fn every_attack_on_a_fleet_is_named_and_leaves_nothing() {
    // Clients last: for them the submitting host joins a bridge.
    let attacks = "submitter script command_there sshd ssh command_here stepd srun requeue phases collect link \
        disk_before disk_meanwhile two queue limit clients";
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
            "requeued-by-slurm",
            "killed-while-it-is-asked",
            "killed-while-its-record-is-fetched",
            "collect-cut-and-killed",
            "link-cut-5s",
            "link-cut-until-lost",
            "disk-full-before",
            "disk-full-while-measuring",
            "two-at-once-ssh.toml",
            "two-at-once-slurm-ssh.toml",
            "job-that-never-starts",
            "limit-of-time",
            "client-agent-over-ssh",
            "client-agent-over-srun",
            "client-ssh",
            "client-srun",
            "client-stepd",
            "client-cable",
        ],
    );
}

/// A measurement: `cargo xtask soak fleet-cost`.
#[test]
#[ignore = "takes a quarter of an hour: `cargo xtask soak fleet-cost` runs it"]
fn what_a_fleet_run_costs_a_host_beside_its_measurement() {
    let Some(lines) = attacked("cost", rounds(1)) else { return };
    all_withstood(&lines, &["cost"]);
}

/// A measurement: `cargo xtask soak fleet-clients`. The lab's hosts have one kernel, so their true offset is 0: their readings of the
/// clock are compared as they are, and each interval of an offset must hold 0.
#[test]
#[ignore = "a measurement: `cargo xtask soak fleet-clients` runs it"]
fn clients_over_ssh_and_slurm_begin_together() {
    let Some(lines) = attacked("begin", rounds(3)) else { return };
    all_withstood(&lines, &["begin"]);
    let repeats = lines.iter().filter(|line| !line["summary"].is_null());
    let repeats: Vec<RepeatSummary> =
        repeats.map(|line| serde_json::from_value(line["summary"].clone()).unwrap()).collect();
    assert!(repeats.len() >= rounds(3), "{} repeats", repeats.len());
    for repeat in &repeats {
        assert_eq!(repeat.clients.len(), 3, "{:?}", repeat.incidents);
        let began: Vec<u64> = repeat.clients.iter().map(|client| client.actual_begin_ns.unwrap()).collect();
        let apart = (began.iter().max().unwrap() - began.iter().min().unwrap()) as f64 / 1e6;
        let uncertain =
            repeat.clients.iter().map(|client| client.uncertainty_ms.unwrap()).fold(0.0, f64::max);
        for client in &repeat.clients {
            for clock in [client.clock_before, client.clock_after.unwrap()] {
                assert!(clock.least_ns <= 0 && 0 <= clock.most_ns, "{client:?}");
            }
        }
        println!("{}", serde_json::json!({"apart_ms": apart, "uncertain_ms": uncertain}));
    }
}

/// The long form: `cargo xtask soak fleet-verdict`. No host that is like the others is named, and the one that is slow is.
#[test]
#[ignore = "takes half an hour: `cargo xtask soak fleet-verdict` runs it"]
fn of_real_hosts_the_slow_one_is_named_and_of_alike_ones_none() {
    let Some(lines) = attacked("slow alike", rounds(1)) else { return };
    all_withstood(&lines, &["slow-host", "alike"]);
    let alike = lines.iter().find(|line| line["fleets"].is_u64()).unwrap();
    assert_eq!(alike["named"], 0, "{alike}");
}

/// The long form: `cargo xtask soak fleet-deaths`.
#[test]
#[ignore = "takes half an hour: `cargo xtask soak fleet-deaths` runs it"]
fn hosts_that_die_at_any_moment_lose_no_whole_repeat() {
    let rounds = std::env::var("TILEMARK_TEST_KILLS").map_or(3, |kills| kills.parse().unwrap());
    let Some(lines) = attacked("deaths", rounds) else { return };
    all_withstood(&lines, &["deaths"]);
}
