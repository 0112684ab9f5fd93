//! What a plan refuses because a run could not do it, or would do something else than what was asked: by name, with what to write.

#![allow(clippy::unwrap_used, reason = "helpers of tests, which clippy does not see as such")]

use tilemark_fixtures::{self as fixtures, host};
use tilemark_plan::{
    parse::Draft,
    plan::Backend,
    problem::Problems,
    resolve::{Request, Sides, resolve},
};
use tilemark_units::Bytes;

/// One guest with one load in a ladder of one and two tiles: the guest's keys, the load's keys with its workload, and all other sections.
fn text(guest: &str, load: &str, rest: &str) -> String {
    format!(
        "schema = 1\nname = \"t\"\nabout = \"t\"\n[[guest]]\nname = \"g\"\n{guest}\n[[load]]\nname = \"l\"\nguest = \"g\"\n{load}\n\
         [ladder]\ntiles = [1, 2]\n{rest}\n"
    )
}

const WEB: &str = "role = \"web\"";
const WEB_LOAD: &str = "rate = \"100/s\"\n[load.web]";

fn asked() -> Request {
    fixtures::request(&[Backend::Native])
}

fn said(text: &str, request: &Request) -> String {
    let words = |problems: Problems| format!("{problems} ({})", problems.remedy());
    let draft = match Draft::from_toml(text, "t.toml") {
        Ok(draft) => draft,
        Err(problems) => return words(problems),
    };
    resolve(&draft, request, &host(8, Bytes::from_gib(64))).map_or_else(words, |_| String::new())
}

/// What is reported of a scenario: nothing where it is right.
fn reported(guest: &str, load: &str, rest: &str) -> String {
    said(&text(guest, load, rest), &asked())
}

/// Checks the words of a report, in their order.
#[track_caller]
fn has(report: &str, words: &[&str]) {
    let mut rest = report;
    for word in words {
        let at = rest.find(word);
        rest = at.map_or_else(|| panic!("`{word}` is missing in: {report}"), |at| &rest[at + word.len()..]);
    }
}

fn sides(a: &[(&str, &str)], b: &[(&str, &str)]) -> Request {
    let settings = |pairs: &[(&str, &str)]| {
        pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
    };
    Request { sides: Some(Sides { a: settings(a), b: settings(b) }), ..asked() }
}

#[test]
fn sides_cannot_differ_in_what_is_taken_once_and_the_message_says_so() {
    let web = text(WEB, WEB_LOAD, "");
    for key in ["image", "host.load_processors", "ladder.tiles", "headline"] {
        let report = said(&web, &sides(&[], &[(key, "x"), ("load.l.rate", "200/s")]));
        has(
            &report,
            &[
                &format!("side B sets `{key}`, which is the same in the whole plan"),
                "`--set`",
                "tilemark compare",
            ],
        );
    }
    assert_eq!(said(&web, &sides(&[("load.l.rate", "200/s")], &[])), "");
}

#[test]
fn a_side_does_not_replace_what_varies() {
    let web = text(WEB, WEB_LOAD, "[vary.rate]\nkey = \"load.l.rate\"\nvalues = [\"1/s\", \"2/s\"]");
    let report = said(&web, &sides(&[("load.l.rate", "3/s")], &[]));
    has(&report, &["side A sets `load.l.rate`, and `vary.rate` varies it", "not both"]);
    assert_eq!(said(&web, &sides(&[("gate.p99", "20ms")], &[])), "");
}

#[test]
fn values_that_make_one_scenario_are_no_comparison() {
    let varies = |key: &str, values: &str| {
        reported(WEB, WEB_LOAD, &format!("[vary.x]\nkey = \"{key}\"\nvalues = {values}"))
    };
    has(&varies("load.l.rate", "[\"10/s\", \"10.0/s\"]"), &["x 10/s and x 10.0/s are the same"]);
    assert_eq!(varies("load.l.rate", "[\"10/s\", \"11/s\"]"), "");
}

#[test]
fn what_varies_has_values_also_for_a_search() {
    let rest = "[vary.x]\nkey = \"load.l.rate\"\nvalues = []";
    let search = Request { search: true, ..asked() };
    has(&said(&text(WEB, WEB_LOAD, rest), &search), &["`vary.x.values` is empty", "leave it out"]);
}

#[test]
fn bursts_fit_the_measurement() {
    let bursts = |keys: &str, length: &str| {
        let load = format!("rate = \"500/s\"\narrival = \"bursts\"\n{keys}\n[load.web]");
        reported(WEB, &load, &format!("[measure]\nlength = \"{length}\""))
    };
    for (keys, length, period, proposed) in [
        ("burst_every = \"24h\"\nburst_length = \"1ms\"", "10s", "24h", "24h"),
        ("burst_every = \"60s\"", "10s", "1m", "1m"),
        ("", "12s", "5s", "15s"),
        ("burst_every = \"1500ms\"", "10s", "1500ms", "12s"),
    ] {
        let (length_is, period_is) =
            (format!("`measure.length = \"{length}\"`"), format!("`burst_every = \"{period}\"`"));
        let remedy = format!("write `measure.length = \"{proposed}\"`");
        has(&bursts(keys, length), &[&length_is, &period_is, &remedy]);
    }
    let too_long = bursts("burst_every = \"25h\"", "10s");
    has(&too_long, &["`burst_every = \"25h\"`", "(give a `burst_every` that divides"]);
    for (keys, length) in [("", "10s"), ("burst_every = \"2500ms\"", "10s"), ("burst_every = \"20s\"", "20s")]
    {
        assert_eq!(bursts(keys, length), "");
    }
    let closed = "loop = \"closed\"\narrival = \"bursts\"\n[load.web]";
    assert_eq!(reported(WEB, closed, "[measure]\nlength = \"12s\""), "", "nothing comes in bursts");
}

#[test]
fn a_burst_has_a_length_within_its_period() {
    for length in ["0s", "6s"] {
        let load = format!("rate = \"500/s\"\narrival = \"bursts\"\nburst_length = \"{length}\"\n[load.web]");
        let report = reported(WEB, &load, "");
        has(&report, &[&format!("a burst of {length} every 5s"), "above 0 and at most `burst_every`"]);
    }
}
