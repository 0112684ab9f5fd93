//! A home whose path holds all that separates something for somebody: QEMU's options, the kernel's, a shell's, a list's.

#![allow(missing_docs, clippy::unwrap_used)]

mod common;

use common::{Home, real::Real, words};
use std::{collections::BTreeSet, process::Command};
use tilemark_record::RunDirectory;

const ODD: &str = "tilemark a,b:c d'\"%s\\=[x]$HOME;&-";

/// Measures one tile for some seconds, in which even an emulated guest on a busy host answers something, whatever else the host does; the record is in a place just as odd.
fn measures(backend: &str) {
    let Some(real) = Real::at(|| Home::called(ODD)) else { return };
    let record = real.home.path().join("records").join(ODD);
    let run = words(
        "run web --offline --tiles 1 --json --not-alone --set measure.repeats=1 --set measure.warmup=1s \
         --set measure.length=8s",
    );
    let place = ["--on", backend, "--output", record.to_str().unwrap()];
    let said = real.home.says(&[&run[..], &place].concat()).measured();
    let result = said.result();
    let summaries = RunDirectory::at(&record).summaries().unwrap();
    assert!(summaries[0].loads[0].completed > 0, "no request was answered: {said:?}");
    assert_eq!(result.provenance.as_it_was, Some(true), "{said:?}");
    let drawn = real.home.says(&["report", record.to_str().unwrap(), "--json"]).json();
    assert_eq!(drawn["run"], said.json()["run"], "{drawn}");
    real.all_gone(&BTreeSet::new(), &[]);
}

#[test]
fn native_twins_serve_in_an_odd_home() {
    measures("native");
}

#[test]
fn emulated_guests_serve_in_an_odd_home() {
    measures("emulated");
}

#[test]
fn an_image_is_not_built_where_its_tools_would_read_the_path_as_something_else() {
    if !common::is_root() {
        return common::skipped("building an image needs root");
    }
    let home = Home::called("tilemark a,b-");
    let said = home.says(&["image", "build"]).ended(3);
    assert!(said.error.contains("its path holds ' '") && said.error.contains("TILEMARK_HOME"), "{said:?}");
}

#[test]
fn a_home_with_the_end_of_a_line_in_it_is_refused_by_name() {
    let output =
        Command::new(common::TILEMARK).args(["runs", "--json"]).env("TILEMARK_HOME", "/a\nb").output();
    let said = common::Said::of(&output.unwrap()).ended(2);
    assert!(said.message().contains("\"/a\\nb/cache\""), "{said:?}");
}
