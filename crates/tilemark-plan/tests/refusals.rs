//! What a plan refuses because a run could not do it, or would do something else than what was asked: by name, with what to write.

#![allow(clippy::unwrap_used, reason = "helpers of tests, which clippy does not see as such")]

use tilemark_fixtures::{self as fixtures, host, settings};
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

const DATABASE: &str = "role = \"database\"\nmemory = \"1GiB\"\n[[guest.disk]]\nsize = \"4GiB\"";

#[test]
fn a_store_is_asked_what_its_engine_can_ask() {
    let store = |load: &str| reported(DATABASE, load, "");
    for rate in ["200000/s", "0.0001/s"] {
        let report = store(&format!("rate = \"{rate}\"\n[load.store]"));
        has(&report, &["load `l`: `rate` is", "orders a second", "use 0.001/s to 100000/s"]);
    }
    let report = store("loop = \"closed\"\n[load.store]\nthink_time = \"48h\"");
    has(&report, &["`think_time` is 48h", "use 0s to 24h"]);
    assert_eq!(store("rate = \"0.001/s\"\n[load.store]"), "");
    assert_eq!(store("loop = \"closed\"\n[load.store]\nthink_time = \"24h\""), "");
}

#[test]
fn the_files_of_a_web_server_fit_its_memory_together() {
    let files = |sizes: &[&str]| {
        let each = sizes.iter().map(|size| format!("{{ size = \"{size}\", weight = 1 }}"));
        let list = each.collect::<Vec<_>>().join(", ");
        reported(WEB, &format!("rate = \"1/s\"\n[load.web]\nfiles = [{list}]"), "")
    };
    has(&files(&["64MiB", "63MiB"]), &["files of 127MiB in all", "64MiB together"]);
    assert_eq!(files(&["64MiB", "64MiB"]), "", "one file is made once");
    assert_eq!(files(&["32MiB", "31MiB"]), "");
}

#[test]
fn a_disk_holds_a_block() {
    let disk = |size: &str, load: &str| {
        reported(&format!("role = \"disk\"\n[[guest.disk]]\nsize = \"{size}\""), load, "")
    };
    for (size, block) in [("1MiB", "2MiB"), ("0B", "4KiB"), ("1B", "512B")] {
        for load in ["rate = \"1/s\"\n[load.disk]", "[load.disk]\nsaturate = true"] {
            let report = disk(size, &format!("{load}\nblock_size = \"{block}\""));
            has(&report, &["a disk of guest `g` has", "`block_size` of", "larger disk"]);
        }
    }
    assert_eq!(disk("1MiB", "rate = \"1/s\"\n[load.disk]\nblock_size = \"1MiB\""), "");
}

#[test]
fn a_database_without_disks_fits_the_memory_of_its_guest() {
    let small = "role = \"database\"\nmemory = \"256MiB\"";
    let report = reported(small, "loop = \"closed\"\n[load.store]\ndata = \"100GB\"", "");
    has(&report, &["100000 MB of data", "guest `g` has no disk and 256MiB of memory", "lower `data`"]);
    let report = reported(small, "rate = \"1/s\"\n[load.sysbench]\nrows = 100000000", "");
    has(&report, &["20000 MB of data", "256MiB of memory", "lower `rows`"]);
    assert_eq!(reported(small, "loop = \"closed\"\n[load.store]", ""), "");
    assert_eq!(reported(small, "rate = \"1/s\"\n[load.sysbench]", ""), "");
    let own = format!("{small}\nfrom = \"disk.raw\"");
    let report = reported(&own, "loop = \"closed\"\n[load.store]\ndata = \"1GB\"", "");
    assert!(!report.contains("has no disk"), "{report}");
}

#[test]
fn programs_that_count_whole_seconds_have_a_warm_up_of_whole_seconds() {
    let measure = "[measure]\nwarmup = \"1500ms\"";
    let whole = "[measure]\nwarmup = \"2s\"";
    let words = ["`measure.warmup = \"1500ms\"`", "load `l`", "whole seconds"];
    let sysbench = "rate = \"1/s\"\n[load.sysbench]";
    has(&reported(DATABASE, sysbench, measure), &words);
    let command = "[load.command]\nrun = [\"a\", \"--time={total_seconds}\"]\nrate = '([0-9]+)'";
    has(&reported("role = \"idle\"", command, measure), &words);
    assert_eq!(reported(DATABASE, sysbench, whole), "");
    assert_eq!(reported(DATABASE, sysbench, "[measure]\nwarmup = \"0s\""), "");
    assert_eq!(reported("role = \"idle\"", command, whole), "");
    // It does not see the warm-up.
    assert_eq!(reported("role = \"idle\"", &command.replace("total_", ""), measure), "");
    assert_eq!(reported(WEB, WEB_LOAD, measure), "");
}

#[test]
fn fio_mixes_by_whole_per_cents() {
    let disk = "role = \"disk\"\n[[guest.disk]]\nsize = \"64MiB\"";
    let reads = |reads: &str, load: &str| reported(disk, &format!("{load}reads = \"{reads}\""), "");
    for flat_out in ["[load.disk]\nsaturate = true\n", "loop = \"closed\"\n[load.disk]\n"] {
        has(&reads("0.3%", flat_out), &["`reads = \"0.3%\"`", "whole per cents", "\"1%\""]);
        has(&reads("99.7%", flat_out), &["`reads = \"99.7%\"`", "\"99%\""]);
        for whole in ["0%", "7%", "29%", "57%", "100%"] {
            assert_eq!(reads(whole, flat_out), "", "{whole}");
        }
    }
    assert_eq!(reads("0.3%", "rate = \"1/s\"\n[load.disk]\n"), "", "at a rate any share is drawn");
}

#[test]
fn a_surge_swells_something() {
    let surge = |tile: u32| format!("[measure]\nsurge = {{ tile = {tile}, factor = 20 }}");
    let idle = text("role = \"idle\"", "", &surge(2)).replace("[[load]]\nname = \"l\"\nguest = \"g\"\n", "");
    has(
        &said(&idle, &asked()),
        &["`measure.surge` asks more of the headline load, and there is no load", "leave out"],
    );
    let web = text(WEB, WEB_LOAD, &surge(2));
    assert_eq!(said(&web, &asked()), "");
    // Sides are compared at the first step.
    let of_sides = sides(&[], &[("gate.p99", "20ms")]);
    has(
        &said(&web, &of_sides),
        &["the surge of tile 2 is in none of the points: they have 1 tile", "`--tiles 2`"],
    );
    assert_eq!(said(&web, &Request { tiles: Some(vec![2]), ..of_sides }), "");
    let search = |limit: &str| {
        let web = web.replace("tiles = [1, 2]", &format!("tiles = [1, 2]\nsearch_limit = {limit}"));
        said(&web, &Request { search: true, ..asked() })
    };
    has(
        &search("1"),
        &["the surge of tile 2 is in none of the counts: the search ends at 1 tile", "`ladder.search_limit`"],
    );
    assert_eq!(search("2"), "");
    let pairs = format!("{web}[[guest]]\nname = \"h\"\nrole = \"web\"\n");
    let report = said(&pairs, &Request { interference: true, ..asked() });
    has(&report, &["roles are measured in pairs, without a surge", "leave out `measure.surge`"]);
}

#[test]
fn a_load_without_a_workload_is_shown_no_other_load_as_an_example() {
    for (load, words) in [
        (
            "rate = \"1/s\"",
            &["`load.l` has no workload (add one of: `[load.web]`, ", "docs/scenarios.md"][..],
        ),
        (
            "rate = \"1/s\"\nweb = {}\ndisk = {}",
            &["`load.l` has several workloads: `disk`, `web` (leave out all but one; docs/scenarios.md"],
        ),
    ] {
        let report = reported(WEB, load, "");
        has(&report, words);
        assert!(!report.contains("write it like"), "{report}");
    }
}

#[test]
fn a_mistyped_workload_is_one_mistake_beside_the_others_of_its_load() {
    let report = reported(WEB, "rate = \"1/s\"\n[load.wbe]", "");
    has(&report, &["`load.l`: there is no key `wbe`. Did you mean `web`? There are: ", "`disk`"]);
    let report = reported(WEB, "rate = \"1/s\"\nconnections = 2.5\n[load.wbe]", "");
    has(&report, &["2 problems:", "no key `wbe`", "it is the number 2.5, and a whole number"]);
    // Without a workload beside it, a mistyped key is not one.
    has(&reported(WEB, "rte = \"1/s\"", ""), &["2 problems:", "no key `rte`", "`load.l` has no workload"]);
}

#[test]
fn a_list_of_tables_has_two_brackets() {
    let web = text(WEB, WEB_LOAD, "");
    has(
        &said(&web.replace("[[load]]", "[load]"), &asked()),
        &["`load`", "write `[[load]]`, with two brackets"],
    );
    has(&said(&web.replace("[[guest]]", "[guest]"), &asked()), &["`guest`", "write `[[guest]]`, with two"]);
    let disk = text("role = \"disk\"\n[guest.disk]\nsize = \"4MiB\"", "saturate = true\n[load.disk]", "");
    has(&said(&disk, &asked()), &["`guest.disk`", "write `[[guest.disk]]`, with two brackets"]);
}

#[test]
fn an_example_of_a_setting_is_shown_as_it_is_typed_and_is_taken() {
    let set = |key: &str, value: &str| {
        let settings = [(key.to_owned(), value.to_owned())].into();
        said(&text(WEB, WEB_LOAD, ""), &Request { settings, ..asked() })
    };
    let right = "{ tile = 1, factor = 16 }";
    has(
        &set("measure.surge", "half"),
        &["a table is meant (write it like", &format!("`--set 'measure.surge={right}'`; docs/")],
    );
    assert_eq!(set("measure.surge", right), "");
    has(&set("measure.start", "lift"), &["write it like `--set measure.start="]);
    has(&set("measure.repeats", "99999999999"), &["`measure.repeats`: the number 99999999999 is too large"]);
}

#[test]
fn a_number_that_toml_cannot_hold_is_too_large() {
    let number = "99999999999999999999";
    let report = said(&text(WEB, WEB_LOAD, "").replace("[1, 2]", &format!("[{number}]")), &asked());
    has(&report, &["t.toml, line ", &format!("the number {number} is too large")]);
}

#[test]
fn names_that_a_tile_does_not_have_are_shown_with_those_that_it_has() {
    let web = text(WEB, WEB_LOAD, "");
    let of_guest = said(&web.replace("guest = \"g\"", "guest = \"gg\""), &asked());
    has(&of_guest, &["for guest `gg`, which the tile does not have. Did you mean `g`? (name one of: `g`)"]);
    let headline = said(&web.replace("name = \"t\"", "name = \"t\"\nheadline = \"page\""), &asked());
    has(&headline, &["`headline = \"page\"` names no load (name one of: `l`)"]);
    let disk = "role = \"disk\"\n[[guest.disk]]\nsize = \"4MiB\"";
    has(&reported(disk, WEB_LOAD, ""), &["needs a guest with role `web`", "(give guest `g` the role `web`)"]);
    let beside = reported(disk, WEB_LOAD, "[[guest]]\nname = \"h\"\nrole = \"web\"");
    has(&beside, &["(give guest `g` the role `web`, or name one of: `h`)"]);
    let from = reported(WEB, &format!("from = \"client\"\n{WEB_LOAD}"), "");
    has(&from, &["from guest `client`", "Did you mean `clients`? (add a guest with role `client`)"]);
}

#[test]
fn a_gate_that_no_request_can_keep_is_refused() {
    for time in ["0ms", "0s"] {
        let gate = |key: &str| reported(WEB, WEB_LOAD, &format!("[gate]\n{key} = \"{time}\""));
        has(
            &gate("p99"),
            &["no request can keep `gate.p99 = \"0s\"`", "write a time above 0, such as `20ms`"],
        );
        has(&gate("mean"), &["no request can keep `gate.mean = \"0s\"`"]);
    }
    assert_eq!(reported(WEB, WEB_LOAD, "[gate]\np99 = \"1ns\"\nmean = \"1ns\""), "");
}

#[test]
fn several_problems_have_each_remedy_once() {
    let report = reported(WEB, &WEB_LOAD.replace("rate", "rte"), "[gat]\n[measure]\nrepeats = \"three\"");
    has(&report, &["3 problems:", "(do what is written in brackets; docs/scenarios.md has every key)"]);
    for once in ["docs/scenarios.md", "write it like"] {
        assert_eq!(report.matches(once).count(), 1, "{once}: {report}");
    }
    let loads = WEB_LOAD.to_owned() + "\n[[load]]\nname = \"m\"\nguest = \"h\"\n[load.disk]";
    let report = said(&text(WEB, &loads, "").replace("guest = \"g\"", "guest = \"h\""), &asked());
    assert_eq!(report.matches("name one of: `g`").count(), 1, "{report}");
    // What helps against all of them is not in brackets.
    let zero = reported(WEB, WEB_LOAD, "[gate]\np99 = \"0s\"\nmean = \"0s\"");
    assert!(zero.ends_with("`gate.mean = \"0s\"` (write a time above 0, such as `20ms`)"), "{zero}");
    // Without a remedy in brackets there is nothing to do there.
    let keys = reported(WEB, &WEB_LOAD.replace("rate", "rte"), "[gat]");
    assert!(keys.ends_with(" (docs/scenarios.md has every key)"), "{keys}");
}

#[test]
fn a_number_that_is_none_is_named() {
    for number in ["nan", "-inf"] {
        let load = format!("rate = \"1/s\"\nconnections = {number}\n[load.web]");
        has(&reported(WEB, &load, ""), &[&format!("`load.l.connections` is {number}"), "finite number"]);
        let settings = [("load.l.web".to_owned(), format!("{{ a = {number} }}"))].into();
        let report = said(&text(WEB, WEB_LOAD, ""), &Request { settings, ..asked() });
        has(&report, &[&format!("`load.l.web.a` is {number}"), "finite number"]);
    }
}

#[test]
fn a_guest_without_a_processor_is_reported_once() {
    let report = reported("role = \"web\"\nvcpus = 0", WEB_LOAD, "");
    assert_eq!(report, "guest `g` has no processor (write `vcpus = 1` or more)");
}
