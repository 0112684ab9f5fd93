//! Records side by side and over time, on records that the real judge closed.

use super::{
    compare::{Compared, Side, Tolerance, compare},
    result::close,
    trend::{Tagged, trend},
};
use crate::job::types::RunDone;
use serde_json::Value;
use std::{fs, path::Path};
use tilemark_fixtures::{self as fixtures, figures};
use tilemark_plan::{
    plan::{Backend, Plan, Point},
    resolve::Request,
};
use tilemark_record::{
    Event, RunDirectory,
    result::{Provenance, VerdictStatus},
    summary::{HostFigures, LoadFigures, ProcessorFigures, RepeatSummary},
};
use tilemark_report::{Colour, Style, Trend};
use tilemark_statistics::CHANGE_RUNS_MIN;
use tilemark_units::Bytes;

const WIDE: Style = Style { colour: Colour::Plain, width: 300 };

/// What a record is of.
#[derive(Clone)]
struct Made {
    id: String,
    began: String,
    host: &'static str,
    kernel: &'static str,
    qemu: &'static str,
    scenario: String,
    length: &'static str,
    repeats: u32,
    /// p99 in milliseconds.
    p99: f64,
    /// Whether the run says about itself that it cannot be trusted.
    is_doubted: bool,
}

/// The run of a day of January 2026.
fn day(day: u32) -> Made {
    Made {
        id: format!("202601{day:02}-100000-t"),
        began: format!("2026-01-{day:02}T10:00:00Z"),
        host: "testhost",
        kernel: "6.1",
        qemu: "7.2",
        scenario: fixtures::TILE.to_owned(),
        length: "20s",
        repeats: 8,
        p99: 20.0,
        is_doubted: false,
    }
}

impl Made {
    fn plan(&self) -> Plan {
        let mut request = Request { seed: 7, tiles: Some(vec![1, 2]), ..fixtures::request(&[Backend::Kvm]) };
        for (key, value) in
            [("measure.repeats", self.repeats.to_string()), ("measure.length", self.length.to_owned())]
        {
            request.settings.insert(key.to_owned(), value);
        }
        let mut host = fixtures::host(8, Bytes::from_gib(64));
        host.name = self.host.to_owned();
        host.kernel = self.kernel.to_owned();
        fixtures::plan(&self.scenario, &request, &host)
    }

    /// Writes the record and closes it by the real judge.
    fn write(&self, folder: &Path) -> RunDirectory {
        let plan = self.plan();
        let record = RunDirectory::create(&folder.join(&self.id), &plan).unwrap();
        for pass in &plan.passes {
            let repeat = self.repeat(&plan.points[pass.point], pass.repeat, pass.block);
            let files = record.repeat(pass.point, pass.repeat).unwrap();
            files.write(&repeat, &[], &[], std::iter::empty(), &[]).unwrap();
        }
        record.events().unwrap().append(&Event::Interrupted).unwrap();
        let provenance = Provenance {
            tilemark: "0.1.0".to_owned(),
            host: self.host.to_owned(),
            processor: "a processor".to_owned(),
            threads: 8,
            memory_bytes: 64 << 30,
            kernel: self.kernel.to_owned(),
            qemu: Some(self.qemu.to_owned()),
            began: self.began.clone(),
            ..Provenance::default()
        };
        let reasons = self.is_doubted.then(|| "another run was beside it".to_owned());
        let done = RunDone { reasons: reasons.into_iter().collect(), ..RunDone::default() };
        close(&record, &self.id, provenance, None, &done).unwrap();
        record
    }

    fn repeat(&self, point: &Point, repeat: u32, block: u32) -> RepeatSummary {
        let p99 = self.p99 * figures::wobble(point, repeat);
        let processor = ProcessorFigures {
            guest_work: 0.4 * self.p99 / 20.0,
            load: 0.1,
            idle: 0.4,
            ..ProcessorFigures::default()
        };
        let planned = &point.loads[0];
        let load = LoadFigures {
            figure: figures::printed(planned, p99),
            ..figures::load_of_point(point, &planned.name, 4_000, |n| figures::latency(n, p99))
        };
        RepeatSummary {
            loads: vec![load],
            host: HostFigures { seconds: 20, processor, memory_total: 64 << 30, ..HostFigures::default() },
            ..figures::repeat(point, repeat, block)
        }
    }
}

fn side(name: &str, folder: &Path, made: &[Made]) -> Side {
    Side { name: name.to_owned(), records: made.iter().map(|one| one.write(folder)).collect() }
}

fn compared(sides: &[Side]) -> Compared {
    compare(sides, Tolerance::read("2%", None).unwrap()).unwrap()
}

/// A set of runs from a day on, each with a level of its own, `factor` times as slow.
fn set(from: u32, count: u32, factor: f64) -> Vec<Made> {
    let level = |run: u32| factor * (1.0 + 0.002 * f64::from(run * 3 % 5));
    (0..count).map(|run| Made { p99: 20.0 * level(run), repeats: 3, ..day(from + run) }).collect()
}

/// The test cases of a JUnit file: name, what came of it, and its message. The parser is a foreign one.
fn cases(xml: &str) -> Vec<(String, String, String)> {
    let document = roxmltree::Document::parse(xml).unwrap();
    let all: Vec<_> = document.descendants().filter(|node| node.has_tag_name("testcase")).collect();
    let of = |node: &roxmltree::Node, tag: &str| node.children().filter(|one| one.has_tag_name(tag)).count();
    for suite in document.descendants().filter(|node| node.has_tag_name("testsuite")) {
        let own = || suite.children().filter(|one| one.has_tag_name("testcase"));
        for (attribute, tag) in [("failures", "failure"), ("errors", "error"), ("skipped", "skipped")] {
            let count: usize = own().map(|case| of(&case, tag)).sum();
            assert_eq!(suite.attribute(attribute), Some(&*count.to_string()), "{attribute}");
        }
        assert_eq!(suite.attribute("tests"), Some(&*own().count().to_string()));
    }
    assert_eq!(document.root_element().attribute("tests"), Some(&*all.len().to_string()));
    let case = |node: &roxmltree::Node| {
        let end =
            node.children().find(|one| ["failure", "error", "skipped"].contains(&one.tag_name().name()));
        let name = node.attribute("name").unwrap().to_owned();
        let came = end.map_or("passed", |end| end.tag_name().name()).to_owned();
        (name, came, end.and_then(|end| end.attribute("message")).unwrap_or_default().to_owned())
    };
    all.iter().map(case).collect()
}

#[test]
fn a_record_has_the_doubt_of_its_run_in_its_sentence() {
    let folder = tempfile::tempdir().unwrap();
    let result = Made { is_doubted: true, ..day(1) }.write(folder.path()).result().unwrap();
    assert_eq!(result.verdict.status, VerdictStatus::CannotTell);
    assert!(result.sentence.ends_with(" Cannot tell: another run was beside it."), "{}", result.sentence);
    assert!(!result.sentence.contains("the most tried"), "{}", result.sentence);
}

#[test]
fn any_number_of_records_are_a_table_with_dates_hosts_and_capacities_first() {
    let folder = tempfile::tempdir().unwrap();
    let sides = [
        side("before", folder.path(), &[day(1)]),
        side("second", folder.path(), &[Made { p99: 26.0, kernel: "6.12", ..day(2) }]),
        side("third", folder.path(), &[Made { host: "other", p99: 20.0, ..day(3) }]),
    ];
    let found = compared(&sides);
    let runs = &found.document["sides"];
    assert_eq!(
        (&runs[0]["label"], &runs[1]["label"], &runs[2]["label"]),
        (&"A".into(), &"B1".into(), &"B2".into())
    );
    assert_eq!(runs[1]["runs"][0]["id"], "20260102-100000-t");
    assert_eq!((&runs[2]["runs"][0]["host"], &runs[2]["runs"][0]["holds"]), (&"other".into(), &2.into()));
    let comparisons = found.document["comparisons"].as_array().unwrap();
    assert_eq!(comparisons.len(), 2);
    assert_eq!(comparisons[0]["comparison"]["outcome"], "differs-between-runs");
    let measure = &comparisons[0]["comparison"]["measures"][0];
    let value = |side: &str| (measure[side].as_f64().unwrap() * 10.0).round();
    assert_eq!((value("a"), value("b"), &measure["unit"]), (33.0, 43.0, &"ms".into()), "{measure}");
    for text in [found.text(WIDE), found.html(), found.markdown()] {
        let plain = text.replace('\u{202f}', " ");
        let place = |what: &str| plain.find(what).unwrap_or_else(|| panic!("{what} is not in {plain}"));
        assert!(place("2026-01-01 10:00") < place("differ in"), "dates come before what was found");
        assert!(place("at least 2 tiles") < place("differ in") && place("testhost") < place("differ in"));
        assert!(plain.contains("3.34 ms") && plain.contains("4.34 ms"), "values of both sides: {plain}");
        assert!(plain.contains("6.12") && plain.contains("other"), "{plain}");
    }
}

#[test]
fn a_side_that_the_judge_calls_worse_fails_in_junit_and_others_do_not() {
    let folder = tempfile::tempdir().unwrap();
    let sides = [
        side("before", folder.path(), &set(1, 8, 1.0)),
        side("same", folder.path(), &set(9, 8, 1.0)),
        side("slow", folder.path(), &set(17, 8, 1.3)),
    ];
    let found = compared(&sides);
    let outcomes: Vec<&Value> =
        (0..2).map(|at| &found.document["comparisons"][at]["comparison"]["outcome"]).collect();
    assert_eq!(outcomes, ["no-difference", "worse"], "{}", found.text(WIDE));
    assert_eq!((found.status(), found.exit_verdict), (VerdictStatus::Trusted, 1));
    let all = cases(&found.junit());
    let (same, slow) = all.split_at(all.len() / 2);
    let came = |cases: &[(String, String, String)], name: &str| {
        let case = cases
            .iter()
            .find(|(own, _, _)| own.starts_with(name))
            .unwrap_or_else(|| panic!("{name}: {cases:?}"));
        (case.1.clone(), case.2.clone())
    };
    assert!(same.iter().all(|(_, came, _)| came == "passed"), "{same:?}");
    assert_eq!(came(slow, "verdict").0, "failure");
    let (failed, message) = came(slow, "web p99 at 2 tiles");
    assert_eq!(failed, "failure");
    assert!(message.contains("+30") && message.contains("worse"), "{message}");
    assert_eq!(came(slow, "repeats beyond the gate at 2 tiles").0, "passed");
    let secondary = came(slow, "web p99 at 1 tile");
    assert_eq!(secondary.0, "passed", "what decides nothing fails nothing");
}

#[test]
fn records_that_cannot_be_compared_say_so_and_two_single_runs_fail_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let other_scenario = fixtures::TILE.replace("name = \"t\"", "name = \"u\"");
    let sides = [
        side("a", folder.path(), &[day(1)]),
        side("b", folder.path(), &[Made { p99: 40.0, length: "30s", ..day(2) }]),
        side("c", folder.path(), &[Made { scenario: other_scenario, host: "elsewhere", ..day(3) }]),
    ];
    let found = compared(&sides);
    let keys = |at: usize| -> Vec<String> {
        let all = found.document["comparisons"][at]["comparison"]["differences"].as_array().unwrap().clone();
        all.iter().map(|one| one["key"].as_str().unwrap().to_owned()).collect()
    };
    assert!(keys(0).contains(&"measure.length".to_owned()), "{:?}", keys(0));
    assert!(
        keys(1).contains(&"scenario".to_owned()) && keys(1).contains(&"host".to_owned()),
        "{:?}",
        keys(1)
    );
    let all = cases(&found.junit());
    assert!(all.iter().all(|(_, came, _)| came != "failure"), "{all:?}");
    assert!(
        all.iter()
            .any(|(name, came, why)| name == "verdict" && came == "skipped" && why.contains("two runs"))
    );
    // No step in common.
    let emulated = Made { scenario: fixtures::TILE.replace("tiles = [1, 2]", "tiles = [3]"), ..day(4) };
    let mut plan = emulated.plan();
    plan.points.clear();
    plan.passes.clear();
    let empty = RunDirectory::create(&folder.path().join("empty"), &plan).unwrap();
    empty.events().unwrap().append(&Event::Interrupted).unwrap();
    close(&empty, "empty", Provenance::default(), None, &RunDone::default()).unwrap();
    let found = compared(&[sides[0].clone(), Side { name: "empty".to_owned(), records: vec![empty] }]);
    let all = cases(&found.junit());
    assert_eq!((all.len(), &*all[0].1), (1, "error"), "{all:?}");
    assert!(all[0].2.contains("no step, value and backend in common"), "{all:?}");
}

#[test]
fn a_run_on_two_sides_and_a_side_without_runs_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let one = side("one", folder.path(), &[day(1)]);
    let other = side("other", folder.path(), &[day(2)]);
    let tolerance = Tolerance::read("2%", None).unwrap();
    let refused = |sides: &[Side]| compare(sides, tolerance).err().unwrap().message;
    assert!(refused(&[one.clone(), other.clone(), one.clone()]).contains("is on more than one side"));
    assert!(
        refused(&[one.clone(), Side { name: "none".to_owned(), records: Vec::new() }]).contains("has no run")
    );
    assert!(refused(std::slice::from_ref(&one)).contains("has no run"));
    assert!(compare(&[one.clone(), one], tolerance).is_ok(), "a run may be compared with itself");
}

#[test]
fn foreign_names_are_text_in_every_form() {
    let folder = tempfile::tempdir().unwrap();
    let evil = "<script>alert(\"1\")</script>&']]>|\u{1b}[31m\u{ffff}";
    let mut first = side(evil, folder.path(), &[day(1)]);
    let record = &first.records[0];
    let mut result: Value =
        serde_json::from_str(&fs::read_to_string(record.path().join("result.json")).unwrap()).unwrap();
    result["run"] = evil.into();
    result["scenario"] = evil.into();
    result["provenance"]["host"] = evil.into();
    result["provenance"]["began"] = evil.into();
    record.write_json("result.json", &result).unwrap();
    record.close().unwrap();
    first.name = evil.to_owned();
    let found = compared(&[first, side("b", folder.path(), &[day(2)])]);
    let (page, xml, markdown) = (found.html(), found.junit(), found.markdown());
    assert!(!page.contains("<script>alert") && page.contains("&lt;script&gt;alert"));
    let seen = cases(&xml);
    assert!(!seen.is_empty() && !xml.contains('\u{1b}') && !xml.contains('\u{ffff}'));
    assert!(!markdown.contains("<script") && !markdown.contains('\u{1b}') && markdown.contains("\\|"));
    assert!(!found.text(WIDE).contains('\u{1b}'));
}

fn followed(folder: &Path, made: &[Made]) -> Trend {
    let records = made.iter().map(|one| Tagged { record: one.write(folder), tags: Vec::new() });
    trend("t", records.collect()).unwrap()
}

/// Runs of many days: days 1 to 31 of January, then of February, each with a level of its own.
fn days(count: u32) -> Vec<Made> {
    let scatter = [0.3, -0.2, 0.1, -0.3, 0.2, 0.0, -0.1];
    let made = |number: u32| {
        let (month, of_month) = (1 + number / 28, 1 + number % 28);
        let p99 = 20.0 * (1.0 + scatter[number as usize % scatter.len()] / 100.0);
        Made {
            id: format!("2026{month:02}{of_month:02}-100000-t"),
            began: format!("2026-{month:02}-{of_month:02}T10:00:00Z"),
            p99,
            repeats: 3,
            ..day(1)
        }
    };
    (0..count).map(made).collect()
}

#[test]
fn a_level_that_changed_is_named_with_what_changed_between_the_two_runs() {
    let folder = tempfile::tempdir().unwrap();
    let mut made = days(20);
    for run in &mut made[11..] {
        run.p99 *= 1.3;
        run.kernel = "6.12";
    }
    let found = followed(folder.path(), &made);
    let [series] = &found.series[..] else { panic!("{:?}", found.series.len()) };
    assert_eq!((series.runs.len(), &*series.host, &*series.how), (20, "testhost", "run at 1, 2 tiles"));
    let p99 = &series.measures[1];
    assert_eq!((&*p99.name, p99.counted, p99.more_is_better), ("web p99 at 2 tiles", 20, false));
    let [change] = &p99.changes[..] else { panic!("{:?}", p99.changes) };
    assert_eq!((&change.last_before, &change.first_after), (&made[10].id, &made[11].id));
    assert!((change.change.unwrap() - 0.3).abs() < 0.01 && change.p < 0.003, "{change:?}");
    let keys: Vec<&str> = change.changed.iter().map(|one| &*one.key).collect();
    assert_eq!(keys, ["host.kernel"]);
    assert!(
        series.measures[0].changes.is_empty() && series.measures[2].changes.is_empty(),
        "only p99 changed"
    );
    let text = found.terminal(WIDE).replace('\u{202f}', " ");
    assert!(
        text.contains("web p99 at 2 tiles rose by 30") && text.contains("host.kernel 6.1 \u{2192} 6.12"),
        "{text}"
    );
    assert!(text.contains("\u{25b2} the level changed"), "{text}");
}

#[test]
fn a_host_that_carries_no_tile_any_more_has_the_value_0_and_its_level_changed() {
    let folder = tempfile::tempdir().unwrap();
    let mut made = days(20);
    made[11..].iter_mut().for_each(|run| run.p99 *= 20.0);
    let found = followed(folder.path(), &made);
    let capacity = &found.series[0].measures[0];
    assert_eq!((&*capacity.name, capacity.counted), ("capacity, the largest count that holds", 20));
    let value = |place: usize| (capacity.values[place].map(|figure| figure.value), capacity.at_least[place]);
    // Nothing broke in the first runs, which tried two tiles at most.
    assert_eq!((value(0), value(19)), ((Some(2.0), true), (Some(0.0), false)));
    let [change] = &capacity.changes[..] else { panic!("{:?}", capacity.changes) };
    assert_eq!((change.before, change.after, change.change), (2.0, 0.0, Some(-1.0)));
    let text = found.terminal(WIDE).replace('\u{202f}', " ");
    assert!(
        text.contains("at least 2 ") && text.contains("the largest count that holds fell by 100 %"),
        "{text}"
    );
}

#[test]
fn the_figure_of_a_command_is_followed_in_its_unit_and_direction() {
    let scenario = fixtures::TILE
        .replace("role = \"web\"", "role = \"compute\"")
        .replace("rate = \"10/s\"\n", "")
        .replace(
            "[load.web]",
            "[load.command]\nrun = [\"x\"]\nfigure = \"(.)\"\nunit = \"s\"\nbetter = \"lower\"",
        );
    let folder = tempfile::tempdir().unwrap();
    let made: Vec<Made> = days(3).into_iter().map(|one| Made { scenario: scenario.clone(), ..one }).collect();
    let found = followed(folder.path(), &made);
    let figure = &found.series[0].measures[2];
    assert_eq!((&*figure.name, &*figure.unit, figure.more_is_better), ("web figure at 2 tiles", "s", false));
    assert!((figure.values[0].unwrap().value - 20.1).abs() < 0.01, "{:?}", figure.values);
    let text = found.terminal(WIDE);
    assert!(text.contains("p99 and Figure are: ") && !text.contains("Served"), "{text}");
}

#[test]
fn fewer_runs_name_no_change_and_say_from_how_many_on_one_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let mut made = days(CHANGE_RUNS_MIN as u32 - 1);
    made[6..].iter_mut().for_each(|run| run.p99 *= 1.3);
    let found = followed(folder.path(), &made);
    assert!(found.series[0].measures.iter().all(|measure| measure.changes.is_empty()));
    let text = found.terminal(WIDE);
    assert!(text.contains("a change is named from 13 trusted runs on, and there are 12"), "{text}");
}

#[test]
fn only_trusted_runs_count_and_each_host_is_a_series_of_its_own() {
    let folder = tempfile::tempdir().unwrap();
    let mut made = days(20);
    // Another run was beside them, and they are slow because of it.
    for run in &mut made[12..] {
        run.is_doubted = true;
        run.p99 *= 2.0;
    }
    made.extend(
        (1..4)
            .map(|number| Made { host: "other", ..day(number) })
            .map(|one| Made { id: format!("{}-o", one.id), ..one }),
    );
    let found = followed(folder.path(), &made);
    let hosts: Vec<(&str, usize)> =
        found.series.iter().map(|series| (&*series.host, series.runs.len())).collect();
    assert_eq!(hosts, [("testhost", 20), ("other", 3)]);
    let p99 = &found.series[0].measures[1];
    assert_eq!(
        p99.counted,
        12,
        "{:?}",
        found.series[0].runs.iter().map(|run| run.verdict).collect::<Vec<_>>()
    );
    assert!(p99.changes.is_empty() && p99.not_searched.is_some());
    assert!(found.html().contains("\"stroke\":\"hollow\""), "an untrusted run is drawn as a ring");
}

#[test]
fn what_cannot_be_followed_is_left_out_with_its_reason() {
    let folder = tempfile::tempdir().unwrap();
    let whole = day(1).write(folder.path());
    let changed = day(2).write(folder.path());
    fs::write(changed.path().join("result.json"), "{}").unwrap();
    let unfinished = day(3).write(folder.path());
    fs::remove_file(unfinished.path().join("manifest.json")).unwrap();
    let without_plan = day(4).write(folder.path());
    fs::write(without_plan.path().join("plan.json"), "nonsense").unwrap();
    let other = Made { scenario: fixtures::TILE.replace("name = \"t\"", "name = \"u\""), ..day(5) }
        .write(folder.path());
    let all = [whole, changed, unfinished, without_plan, other];
    let tagged =
        || all.iter().map(|record| Tagged { record: record.clone(), tags: vec!["x".to_owned()] }).collect();
    let found = trend("t", tagged()).unwrap();
    assert_eq!(found.series.iter().map(|series| series.runs.len()).sum::<usize>(), 1);
    let why: Vec<&str> = found.left_out.iter().map(|left| &*left.why).collect();
    assert!(why[0].contains("result.json is damaged") && why[1].contains("never closed"), "{why:?}");
    assert!(why[2].contains("plan.json is damaged") && why.len() == 3, "{why:?}");
    let failure = trend("nothing", tagged()).unwrap_err();
    assert!(failure.message.contains("no run of the scenario `nothing`") && failure.remedy.contains("t, u"));
}
