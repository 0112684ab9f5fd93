//! Each scenario that docs/your-own-guest.md shows is taken as it is printed, with the files that it speaks of. The way of a program is
//! walked to its end, natively: root and the image `first-look` are needed.

#![allow(missing_docs, clippy::unwrap_used)]

mod common;

use common::{Home, real::Real, words};
use std::fs;

const GUIDE: &str = include_str!("../../../docs/your-own-guest.md");

/// The whole scenarios among the blocks of a page.
fn scenarios(page: &str) -> Vec<&str> {
    let blocks = page.split("```toml\n").skip(1).map(|rest| rest.split("```").next().unwrap());
    blocks.filter(|block| block.starts_with("schema = 1")).collect()
}

/// The programs among the blocks of a page, by the order of the page.
fn programs(page: &str) -> Vec<&str> {
    page.split("```python\n").skip(1).map(|rest| rest.split("```").next().unwrap()).collect()
}

/// The files beside the scenarios of the guide.
fn bring(home: &Home) {
    fs::create_dir(home.path().join("site")).unwrap();
    home.file("site/index.php", "<html><?php echo 1; ?></html>");
    home.file("site.sql", "CREATE DATABASE site;");
    let programs = programs(GUIDE);
    assert_eq!(programs.len(), 2, "a server and what measures it");
    home.file("server.py", programs[0]);
    home.file("bench.py", programs[1]);
    // For a plan, a raw disk that BIOS would start is enough: a boot sector ends in these two bytes.
    let mut disk = vec![0; 1 << 20];
    disk[510..512].copy_from_slice(&[0x55, 0xaa]);
    fs::write(home.path().join("debian-13.qcow2"), disk).unwrap();
}

/// Where a scenario of the guide can run here: natively, or emulated if it brings a disk.
fn on(scenario: &str) -> &'static str {
    if scenario.contains("from = \"debian") { "emulated" } else { "native" }
}

#[test]
fn every_scenario_of_the_guide_can_be_planned_as_it_is_printed() {
    let home = Home::new();
    bring(&home);
    let all = scenarios(GUIDE);
    assert_eq!(all.len(), 3, "a web site, a disk, a program");
    for scenario in all {
        let file = home.file("guide.toml", scenario);
        let said = home.says(&["plan", file.to_str().unwrap(), "--on", on(scenario), "--tiles", "1"]);
        assert_eq!(said.code, Some(0), "{scenario}\n{said:?}");
        home.says(&["plan", "capacity", file.to_str().unwrap(), "--on", on(scenario)])
            .with_output("Then the tiles are doubled until a count does not hold");
        // The commands below it have the flag exactly if it is needed.
        let name = scenario.split("name = \"").nth(1).unwrap().split('"').next().unwrap();
        let needs_trust = said.words().contains("a run needs `--trust`");
        let commands: Vec<&str> = GUIDE
            .lines()
            .filter(|line| line.starts_with("$ sudo tilemark ") && line.contains(&format!(" {name}.toml ")))
            .collect();
        assert!(!commands.is_empty(), "{name}");
        for command in commands {
            assert_eq!(command.contains("--trust"), needs_trust, "{command}");
        }
    }
}

#[test]
fn the_program_of_the_guide_is_measured_as_it_is_printed() {
    let Some(real) = Real::with_image("first-look") else { return };
    bring(&real.home);
    let file = real.home.file("app.toml", scenarios(GUIDE)[2]);
    let short = words("--set measure.repeats=1 --set measure.warmup=1s --set measure.length=4s");
    let run = ["run", file.to_str().unwrap(), "--on", "native", "--tiles", "1", "--trust"];
    let run = [&run[..], &["--offline", "--not-alone", "--json"], &short].concat();
    let result = real.home.says(&run).measured().result();
    let record = real.record(&result.run);
    let load = &record.repeats().unwrap()[0].summary().unwrap().loads[0];
    // One every 10 ms for 4 s, on a processor that others use too.
    assert!((40..=400).contains(&load.completed) && load.failed == 0, "{load:?}");
}

#[test]
fn the_arguments_of_qemu_that_the_guide_compares_are_taken() {
    let home = Home::new();
    bring(&home);
    let file = home.file("mine.toml", scenarios(GUIDE)[0]);
    let row = GUIDE.lines().find(|line| line.contains("--a qemu.args=")).unwrap();
    let side = |flag: &str| {
        let rest = row.split(flag).nth(1).unwrap().split('\'').nth(1).unwrap();
        format!("qemu.args={rest}")
    };
    let (a, b) = (side("--a qemu.args="), side("--b qemu.args="));
    home.says(&["plan", "ab", file.to_str().unwrap(), "--on", "emulated", "--a", &a, "--b", &b]).ended(0);
}

#[test]
fn a_key_that_is_written_wrong_is_refused_in_each_of_them() {
    let home = Home::new();
    bring(&home);
    for scenario in scenarios(GUIDE) {
        let file = home.file("guide.toml", &scenario.replace("[gate]", "[gates]"));
        let plan = ["plan", file.to_str().unwrap(), "--on", on(scenario), "--tiles", "1"];
        home.says(&plan).ended(2).with_error("gates");
    }
}
