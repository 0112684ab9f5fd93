//! A guest with several services and a program of one's own, whole and natively: root and an image are needed.

#![allow(missing_docs, clippy::unwrap_used)]

mod common;

use common::{Home, real::Real};
use std::fs;
use tilemark_record::RunDirectory;

/// A guest with a web server, somebody who computes, and this script, which is ready when it says `listening`.
fn scenario(home: &Home, script: &str) -> String {
    let text = format!(
        "schema = 1\nname = \"own\"\nabout = \"Own.\"\nheadline = \"web\"\n[[guest]]\nname = \"guest\"\n\
         services = [\"web\", \"compute\"]\nrun = [\"/bin/sh\", \"-c\", '{script}']\nready = {{ line = \"listening\" }}\n\
         [[load]]\nname = \"web\"\nguest = \"guest\"\nrate = \"100/s\"\n[load.web]\n[ladder]\ntiles = [1]\n\
         [measure]\nwarmup = \"1s\"\nlength = \"2s\"\nrepeats = 1\n"
    );
    let path = home.path().join("own.toml");
    fs::write(&path, text).unwrap();
    path.to_str().unwrap().to_owned()
}

const FLAGS: [&str; 5] = ["--on", "native", "--offline", "--not-alone", "--json"];

#[test]
fn a_guest_serves_beside_a_program_of_ones_own_whose_output_is_on_its_console() {
    let Some(real) = Real::new() else { return };
    let path = scenario(&real.home, "echo now listening; sleep 3600");
    let result = real.home.says(&[&["run", &path], &FLAGS[..]].concat()).measured().result();
    let folder = real.home.path().join("runs").join(&result.run);
    let repeat = &RunDirectory::at(&folder).repeats().unwrap()[0];
    let load = &repeat.summary().unwrap().loads[0];
    assert!(load.completed > 0 && load.failed == 0 && load.wrong == 0, "{load:?}");
    let console = folder.join("points/00/repeat-1/guests/tile-001-guest/console.log");
    let console =
        fs::read_to_string(&console).unwrap_or_else(|error| panic!("{}: {error}", console.display()));
    assert!(console.contains("now listening"), "{console}");
}

#[test]
fn a_program_that_ends_before_it_is_ready_is_named_with_its_last_line() {
    let Some(real) = Real::new() else { return };
    let path = scenario(&real.home, "echo no such table; exit 3");
    let said = real.home.says(&[&["run", &path], &FLAGS[..]].concat()).ended(4);
    let all = format!("{}{}", said.out, said.error);
    assert!(all.contains("/bin/sh ended with exit status: 3") && all.contains("no such table"), "{all}");
}
