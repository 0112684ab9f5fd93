//! A bad neighbour that is planted in real runs, natively, and must be named in the worst pair. Root and an image are needed.
//!
//! Ignored as tests: a run takes four minutes, and one that others disturb may miss it. `cargo xtask soak neighbour` counts them.

#![allow(missing_docs, clippy::unwrap_used)]

mod common;

use common::{
    Home,
    real::{Real, last_processor},
};
use serde_json::Value;
use tilemark_record::result::{Interference, RunResult, Slowdown};

/// Part of its resource that the neighbour takes.
const PART: f64 = 0.3;

/// Guests that are measured: one that suffers, one that does not care, and the neighbour.
struct Planted {
    /// The resource.
    what: &'static str,
    /// A guest with a load at a moderate rate.
    victim: &'static str,
    /// The neighbour, flat out.
    neighbour: &'static str,
}

const PROCESSOR: Planted = Planted {
    what: "processor",
    victim: "[[guest]]\nname = \"victim\"\nrole = \"web\"\n[[load]]\nname = \"victim\"\nguest = \"victim\"\nrate = \"300/s\"\n\
             connections = 2\n[load.web]\n",
    neighbour: "[[guest]]\nname = \"neighbour\"\nrole = \"compute\"\n[[load]]\nname = \"neighbour\"\nguest = \"neighbour\"\nDEMAND\n\
                [load.jobs]\nmix = { integer = 1 }\n",
};

const DISK: Planted = Planted {
    what: "disk",
    // Small requests of one at a time do not notice a fast disk that serves others too: large ones share its bandwidth.
    victim: "[[guest]]\nname = \"victim\"\nrole = \"disk\"\n[[guest.disk]]\nsize = \"256MiB\"\n[[load]]\nname = \"victim\"\n\
             guest = \"victim\"\nrate = \"200/s\"\n[load.disk]\nblock_size = \"1MiB\"\ndepth = 1\n",
    neighbour: "[[guest]]\nname = \"neighbour\"\nrole = \"disk\"\n[[guest.disk]]\nsize = \"256MiB\"\n[[load]]\nname = \"neighbour\"\n\
                guest = \"neighbour\"\nDEMAND\n[load.disk]\nblock_size = \"1MiB\"\ndepth = 4\nreads = \"0%\"\n",
};

impl Planted {
    /// The neighbour alone, as fast as it can.
    fn flat_out(&self) -> String {
        scenario("neighbour", &self.neighbour.replace("DEMAND", "loop = \"closed\""))
    }

    /// All three.
    fn tile(&self, rate: f64) -> String {
        let quiet = "[[guest]]\nname = \"quiet\"\nrole = \"web\"\n[[load]]\nname = \"quiet\"\nguest = \"quiet\"\nrate = \"20/s\"\n\
                     connections = 1\n[load.web]\n";
        let neighbour = self.neighbour.replace("DEMAND", &format!("rate = \"{rate:.2}/s\""));
        scenario("victim", &[self.victim, quiet, &neighbour].concat())
    }
}

fn scenario(headline: &str, guests: &str) -> String {
    format!(
        "schema = 1\nname = \"neighbours\"\nabout = \"a planted neighbour\"\nheadline = \"{headline}\"\n{guests}[ladder]\n\
         tiles = [1]\n[measure]\nwarmup = \"1s\"\nlength = \"3s\"\nrepeats = 3\n[gate]\np99 = \"10s\"\n"
    )
}

fn result(real: &Real, command: &str, text: &str, more: &[&str]) -> RunResult {
    let file = real.home.file("scenario.toml", text);
    // Twins on one processor: on a host with many they would not meet.
    let place = format!("place.map.*=cpus:{}", last_processor());
    let always = ["--on", "native", "--offline", "--not-alone", "--json", "--set", &place];
    let said = real.start(&[&[command, file.to_str().unwrap()], &always[..], more].concat()).said();
    let document = said.json();
    assert!(document["error"].is_null(), "{said:?}");
    serde_json::from_value(document).unwrap()
}

/// What the neighbour does in a second where it has its resource to itself.
fn rate_flat_out(real: &Real, planted: &Planted) -> f64 {
    let run = result(real, "run", &planted.flat_out(), &["--set", "measure.repeats=1"]).run;
    let record = real.record(&run);
    let load = record.repeats().unwrap()[0].summary().unwrap().loads.remove(0);
    assert_eq!((load.failed, load.wrong), (0, 0), "{load:?}");
    load.rate()
}

fn in_words(worst: Option<&Slowdown>) -> Value {
    worst.map_or(Value::Null, |worst| {
        let figure = worst.slowdown.unwrap();
        let [low, high] = [figure.low, figure.high].map(Option::unwrap_or_default);
        format!("{} beside {} {:.2} [{low:.2}, {high:.2}]", worst.role, worst.beside, figure.value).into()
    })
}

/// Finds it in real runs, as many as are asked for, and prints each.
fn find(planted: &Planted) {
    let Some(real) = Real::at(Home::new) else { return };
    let rounds = std::env::var("TILEMARK_TEST_NEIGHBOURS").map_or(1, |rounds| rounds.parse().unwrap());
    let mut named = 0;
    for _ in 0..rounds {
        // The host may be another one an hour later.
        let rate = PART * rate_flat_out(&real, planted);
        let found = result(&real, "interference", &planted.tile(rate), &[]).interference;
        let Interference { worst, slowdowns, .. } = found.unwrap();
        assert_eq!(slowdowns.len(), 9, "{slowdowns:?}");
        let is_named = worst.as_ref().is_some_and(|worst| worst.beside == "neighbour");
        named += u32::from(is_named);
        println!(
            "{}",
            serde_json::json!({"neighbour": planted.what, "rate": rate, "is_named": is_named, "worst": in_words(worst.as_ref())})
        );
    }
    assert!(20 * named >= 19 * rounds, "{}: named in {named} of {rounds}", planted.what);
}

#[test]
#[ignore = "minutes of real runs: `cargo xtask soak neighbour`"]
fn a_neighbour_that_takes_three_tenths_of_the_processor_is_named_in_the_worst_pair() {
    find(&PROCESSOR);
}

#[test]
#[ignore = "minutes of real runs: `cargo xtask soak neighbour`"]
fn a_neighbour_that_takes_three_tenths_of_the_disk_is_named_in_the_worst_pair() {
    find(&DISK);
}
