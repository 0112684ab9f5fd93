//! What every report keeps, whatever it is about.

mod fixture;

use std::collections::BTreeMap;
use tilemark_fixtures::figures::guest_figures;
use tilemark_plan::{
    plan::{Backend, Point, SideName},
    scenario::{LoopKind, Role, Surge, SurgeAt},
    screening::LeftOut,
    sides::Sides,
};
use tilemark_record::{
    clients::{ClientComparison, ClientFigures, ClientOutcome},
    result::{
        ComparisonOutcome, FailureComparison, Fairness, Figure, Function, GateMeasure, Interference,
        LatencyMs, LeftOver, LimitResource, MeasureEffect, PagesResult, PointResult, RoleFailure, Screening,
        Served, SettingEffect, SettingOutcome, Slowdown, SurgeResult, SurgeTime, VerdictStatus, Voided,
    },
    rows::SecondRow,
    store::{SteadyWindow, StoreFigures},
    summary::{GuestFigures, GuestUse, Incident, SettingRead},
};
use tilemark_report::{Colour, Report, Style, csv, html, redact, terminal};

/// The size that a page may have.
const PAGE_BYTES_MAX: usize = 1_200_000;

#[test]
fn a_page_is_one_file_that_asks_nobody_for_anything() {
    for (name, report) in fixture::all() {
        let page = html(&report);
        for asks in ["src=\"", "href=\"http", "@import", "url(http", "<link", "<iframe"] {
            assert!(!page.contains(asks), "{name} holds {asks}");
        }
        assert!(page.contains("default-src &#39;none&#39;"), "{name} has no content policy");
    }
}

#[test]
fn a_page_stays_small_however_long_the_run_was() {
    let mut report = fixture::twenty_steps();
    let rows: Vec<SecondRow> = report.seconds.clone();
    for hour in 1..30 {
        report
            .seconds
            .extend(rows.iter().map(|row| SecondRow { second: row.second + hour * 10, ..row.clone() }));
    }
    for point in &mut report.result.points {
        for load in &mut point.loads {
            let guests = load.guests.clone();
            load.guests = guests.iter().cycle().take(1_000).cloned().collect();
        }
    }
    assert!(report.seconds.len() > 80_000, "a long run");
    for report in fixture::all().into_iter().map(|(_, report)| report).chain([report]) {
        let bytes = html(&report).len();
        assert!(bytes <= PAGE_BYTES_MAX, "{} has {bytes} bytes", report.result.run);
    }
}

#[test]
fn what_others_felt_of_a_surge_is_shown_before_during_and_after() {
    let mut report = fixture::trusted();
    assert!(!html(&report).contains("What a surge does"));
    let surge = Surge { tile: 1, factor: 16, at: SurgeAt::Half };
    report.plan.points.iter_mut().for_each(|point| point.measure.surge = Some(surge));
    let figure =
        |value: f64| Some(Figure { value, low: Some(value * 0.9), high: Some(value * 1.1), n_repeats: 5 });
    let time = |mean: f64| SurgeTime {
        throughput: Some(1_000.0),
        mean_ms: Some(mean),
        p99_ms: Some(mean * 5.0),
        errors: Some(0.0),
    };
    let at = report.result.points.iter_mut().find(|point| point.tiles == 8).expect("8 are tried");
    at.loads[0].surge = Some(SurgeResult {
        before: time(4.0),
        during: time(7.32),
        after: time(4.1),
        slowdown_during: figure(1.83),
        slowdown_after: figure(1.02),
        p: Some(0.001),
        certain: Some(true),
    });
    let text = terminal(&report, Style { colour: Colour::Plain, width: 400 });
    let wanted = "From second 10 to 15 the users of tile 1 asked 16 times as much. At 8 tiles, KVM guests: requests of web-steady in other tiles took \
        1.83 [1.65, 2.01] times as long meanwhile.";
    assert!(text.contains(wanted), "{text}");
    let rows: Vec<String> = ["during", "after"].iter().map(|when| words_of_row(&text, when)).collect();
    assert_eq!(rows[0], "1,000 7.32 36.6 0 1.83 [1.65, 2.01]", "{text}");
    assert_eq!(rows[1], "1,000 4.10 20.5 0 1.02 [0.918, 1.12]", "{text}");
    assert!(html(&report).contains("What a surge does to others"));

    // Its interval is above 1, and it is not certain among all loads.
    let at = report.result.points.iter_mut().find(|point| point.tiles == 8).expect("8 are tried");
    at.loads[0].surge.as_mut().expect("it was planted").certain = Some(false);
    let text = terminal(&report, Style { colour: Colour::Plain, width: 400 });
    assert!(text.contains("At 8 tiles, KVM guests: no other tile is known to have felt it."), "{text}");

    // Requests that are refused at once take no time.
    let at = report.result.points.iter_mut().find(|point| point.tiles == 8).expect("8 are tried");
    let surge = at.loads[0].surge.as_mut().expect("it was planted");
    surge.during.errors = Some(0.4);
    surge.slowdown_during = figure(0.6);
    let text = terminal(&report, Style { colour: Colour::Plain, width: 400 }).replace('\u{202f}', " ");
    let wanted = "At 8 tiles, KVM guests: 40.0 % of the requests of web-steady in other tiles failed meanwhile, 0 before.";
    assert!(text.contains(wanted), "{text}");
    assert!(!text.contains("no other tile is known to have felt it"), "{text}");
    let row = words_of_row(&text, "during");
    assert!(row.starts_with("1,000 7.32 36.6 40.0 % \u{2013}") && !row.contains("0.6"), "{row}");
    assert!(text.contains("requests failed: their times are not compared"), "{text}");
}

#[test]
fn others_that_failed_before_a_surge_or_were_answered_nothing_have_their_own_words() {
    let style = Style { colour: Colour::Plain, width: 400 };
    let with = |change: fn(&mut SurgeResult)| {
        let mut report = with_surge(fixture::trusted(), |_| 1.83);
        for point in &mut report.result.points {
            change(point.loads[0].surge.as_mut().expect("it was planted"));
        }
        terminal(&report, style).replace('\u{202f}', " ")
    };
    let few = with(|surge| (surge.before.errors, surge.during.errors) = (Some(0.002), Some(0.6)));
    let wanted = "60.0 % of the requests of web-steady in other tiles failed meanwhile, 0.200 % before.";
    assert!(few.contains(wanted), "{few}");
    let both = with(|surge| (surge.before.errors, surge.during.errors) = (Some(0.05), Some(0.05)));
    assert!(both.contains("KVM guests: no other tile is known to have felt it."), "{both}");
    assert!(both.contains("requests failed: their times are not compared"), "{both}");
    let row = words_of_row(&both, "during");
    assert!(row.contains('\u{2013}') && !row.contains("1.83"), "{row}");
    let unanswered = with(|surge| {
        surge.during = SurgeTime { throughput: Some(0.0), ..SurgeTime::default() };
        surge.slowdown_during = None;
    });
    let wanted = "KVM guests: web-steady in other tiles received no answer meanwhile.";
    assert!(unanswered.contains(wanted), "{unanswered}");
}

/// What guests of other tiles felt of a surge that made them so many times slower.
fn felt(slowdown: f64) -> SurgeResult {
    let time = |mean: f64, errors: f64| SurgeTime {
        throughput: Some(1_000.0),
        mean_ms: Some(mean),
        p99_ms: Some(mean * 5.0),
        errors: Some(errors),
    };
    let figure = |value: f64| Figure { value, low: Some(value * 0.9), high: Some(value * 1.1), n_repeats: 5 };
    SurgeResult {
        before: time(4.0, 0.0),
        during: time(4.0 * slowdown, 0.0),
        after: time(4.0, 0.0),
        slowdown_during: Some(figure(slowdown)),
        slowdown_after: Some(figure(1.0)),
        p: None,
        certain: None,
    }
}

/// With a surge at every point; the slowdown is made from the point.
fn with_surge(mut report: Report, slowdown: impl Fn(&PointResult) -> f64) -> Report {
    let surge = Surge { tile: 1, factor: 16, at: SurgeAt::Half };
    report.plan.points.iter_mut().for_each(|point| point.measure.surge = Some(surge));
    for point in &mut report.result.points {
        let slowdown = slowdown(point);
        point.loads[0].surge = Some(felt(slowdown));
    }
    report
}

#[test]
fn a_surge_is_shown_of_guests_and_not_of_their_twin_and_of_each_side_by_name() {
    let style = Style { colour: Colour::Plain, width: 400 };
    let slower_natively = |point: &PointResult| if point.backend == Backend::Native { 3.0 } else { 1.83 };
    let text = terminal(&with_surge(fixture::trusted(), slower_natively), style);
    assert!(
        text.contains("At 8 tiles, KVM guests: requests of web-steady in other tiles took 1.83"),
        "{text}"
    );
    assert!(!text.contains("took 3.00"), "{text}");
    let slower_b = |point: &PointResult| if point.side == Some(SideName::B) { 3.0 } else { 1.83 };
    let text = terminal(&with_surge(fixture::sides(), slower_b), style);
    assert!(text.contains("At 4 tiles, A: requests of web-steady in other tiles took 1.83"), "{text}");
    assert!(text.contains("At 4 tiles, B: requests of web-steady in other tiles took 3.00"), "{text}");
    assert_eq!(text.matches("Slowdown: how many times").count(), 1, "{text}");
}

#[test]
fn what_each_guest_used_is_of_guests_and_not_of_their_twin() {
    let mut report = fixture::trusted();
    let used = |guest: &str, processors| GuestUse {
        guest: guest.to_owned(),
        role: Role::Web,
        guests: 8,
        vcpus: 2,
        processors,
        processors_max: processors,
        disk_bytes_per_s: None,
        network_bytes_per_s: None,
    };
    for point in &mut report.result.points {
        let processors = if point.backend == Backend::Native { 0.5 } else { 1.2 };
        point.uses = vec![used("front", processors), used("inner", processors)];
    }
    let text = terminal(&report, Style { colour: Colour::Plain, width: 400 });
    let (_, uses) = text.split_once("What each guest used").expect("a tile has two guests");
    assert!(uses.contains("Step: 8, KVM guests."), "{uses}");
    assert!(words_of_row(uses, "front").contains("1.20 60.0 %"), "{uses}");
}

#[test]
fn clients_are_shown_as_guests_saw_them_and_not_their_twin() {
    let mut report = fixture::trusted();
    for point in &mut report.result.points {
        let (outcome, sentence) = match point.backend {
            Backend::Native => (ClientOutcome::Differs, "client c3 is slower than the others"),
            _ => (ClientOutcome::Alike, "its clients are alike"),
        };
        let (named, sentence) = (Vec::new(), sentence.to_owned());
        point.clients = Some(ClientComparison { outcome, named, sentence, why: None, measures: Vec::new() });
    }
    let text = terminal(&report, Style { colour: Colour::Plain, width: 400 });
    let (_, clients) = text.split_once("Client machines").expect("they were compared");
    assert!(clients.contains("tiles: its clients are alike."), "{clients}");
}

#[test]
fn a_hostile_record_neither_hangs_nor_ends_the_report() {
    let mut report = fixture::trusted();
    report.result.answer.holds = Some(u32::MAX - 1);
    report.result.answer.breaks.as_mut().expect("something breaks").tiles = u32::MAX;
    let ends = [-0.01, f64::NAN, f64::NEG_INFINITY];
    for (point, idle) in report.result.points.iter_mut().zip(ends.into_iter().cycle()) {
        point.processor.as_mut().expect("it was measured").idle = idle;
    }
    let page = html(&report);
    assert!(page.contains("4294967295 breaks"), "the page shows what the record has");
    assert!(page.matches("<i class=").count() <= 40, "a strip has at most 40 squares");
}

#[test]
fn mean_and_p99_against_tiles_need_two_steps_of_which_something_counts() {
    assert!(html(&fixture::clients()).contains("chart-response"));
    assert!(!html(&fixture::one_of_two_discarded()).contains("id=\"chart-response\""));
}

#[test]
fn the_page_of_a_broker_says_where_its_load_ran() {
    let mut report = fixture::messaging();
    let (here, apart) = (
        "the load on the same machine, no network card between",
        "the load on client machines, with the network between",
    );
    let page = html(&report);
    assert!(page.contains(here) && !page.contains(apart));
    report.repeats[0].clients = vec![ClientFigures { name: "c1".to_owned(), ..ClientFigures::default() }];
    let page = html(&report);
    assert!(page.contains(apart) && !page.contains(here));
    report.repeats[0].clients[0].same_machine = true;
    assert!(html(&report).contains(here));
}

#[test]
fn the_chart_of_p99_says_whose_steps_it_draws_and_has_its_limit_in_full() {
    let style = Style { colour: Colour::Plain, width: 120 };
    let gate = |report: &mut Report| {
        report.plan.scenario.gate.p99 = tilemark_units::Span::from_milliseconds(1_234);
    };
    let mut one = fixture::trusted();
    gate(&mut one);
    let text = terminal(&one, style);
    assert!(text.contains("p99 in ms against tiles; the line is the gate, 1,234 ms"), "{text}");
    let bench = fixture::Bench { scenario: fixture::DISK, tiles: vec![1, 2], ..fixture::Bench::new() };
    let mut several = bench.measure();
    gate(&mut several);
    let text = terminal(&several, style);
    let wanted =
        "p99 in ms against tiles, of 512B, the first of 5 groups of steps; the line is the gate, 1,234 ms";
    assert!(text.contains(wanted), "{text}");
}

/// The values of an attribute in a page.
fn attributes<'a>(page: &'a str, name: &str) -> Vec<&'a str> {
    let open = format!(" {name}=\"");
    page.split(&*open).skip(1).map(|rest| rest.split('"').next().unwrap_or_default()).collect()
}

#[test]
fn ids_of_a_page_are_unique_and_each_mark_leads_to_its_own_reason() {
    let mut surges = with_surge(fixture::sides(), |_| 1.5);
    for point in &mut surges.result.points {
        let surge = point.loads[0].surge.as_mut().expect("it was planted");
        surge.during.errors = Some(0.4);
    }
    let all = fixture::all().into_iter().chain([("surges", surges)]);
    for (name, report) in all {
        let page = html(&report);
        // The scripts hold markup of their own.
        let page = page.split("<script>").next().unwrap_or_default();
        let ids = attributes(page, "id");
        for (place, id) in ids.iter().enumerate() {
            assert!(!ids[..place].contains(id), "{name} has the id {id} twice");
        }
        for target in attributes(page, "href").iter().filter_map(|target| target.strip_prefix('#')) {
            assert!(ids.contains(&target), "{name} has no {target}");
        }
    }
}

#[test]
fn who_suffers_compares_shares_of_demand_in_an_open_loop_and_names_nobody_where_all_are_equal() {
    let mut report = fixture::consolidation();
    let holds = report.result.answer.holds.expect("some count holds");
    let at = report.result.points.iter_mut().find(|point| point.tiles == holds).expect("it was measured");
    let closed = at.loads.iter().find(|load| load.loop_kind == LoopKind::Closed).expect("some do not wait");
    let closed = closed.fairness.as_ref().expect("many guests").least_served.guest.clone();
    let (open, rest) = at.loads.split_first_mut().expect("it has loads");
    assert_eq!(open.loop_kind, LoopKind::Open);
    let equal = |name: &str| Served { guest: name.to_owned(), of_mean: 1.0 };
    open.fairness =
        Some(Fairness { jain: 1.0, least_served: equal("tile-001-web"), most_served: equal("tile-018-web") });
    let other = rest.iter().find(|load| load.loop_kind == LoopKind::Open).expect("several wait");
    let least = other.fairness.as_ref().expect("many guests").least_served.guest.clone();
    let text = terminal(&report, Style { colour: Colour::Plain, width: 300 }).replace('\u{202f}', " ");
    let (_, section) = text.split_once("Who suffers\n").expect("many tiles have it");
    let section = section.split("\n\n").next().unwrap_or_default();
    let got =
        "by the share of its demand that was answered; in a closed loop, by the requests that it answered.";
    assert!(section.contains(got), "{section}");
    let web = section.lines().find(|line| line.trim_start().starts_with("web ")).unwrap_or_default();
    assert!(web.matches("all equal").count() == 2 && !web.contains("tile-0"), "{web}");
    let line_of = |guest: &str| section.lines().find(|line| line.contains(guest)).unwrap_or_default();
    assert!(!line_of(&least).contains("per s"), "{}", line_of(&least));
    assert!(line_of(&closed).contains(" per s"), "{}", line_of(&closed));
}

#[test]
fn the_chart_of_fairness_compares_what_its_table_compares() {
    let mut report = fixture::trusted();
    let data = |report: &Report| -> serde_json::Value {
        let page = html(report);
        let (_, data) = page.split_once("id=\"data\">").expect("a page has data");
        serde_json::from_str(data.split("</script>").next().expect("the element ends")).expect("it is JSON")
    };
    assert_eq!(data(&report)["details"][1]["by_demand"], false, "the repeats have no figures of guests");
    let at = report.result.points.iter().find(|point| point.tiles == 2).expect("2 are tried").clone();
    for repeat in report.repeats.iter_mut().filter(|repeat| repeat.point == at.index) {
        let load = repeat.loads.iter_mut().find(|load| load.name == "web-steady").expect("it is loaded");
        load.guests = vec![asked("tile-001-web", 4_100, 4_100), asked("tile-002-web", 3_900, 3_900)];
    }
    let shares = |report: &Report| -> Vec<f64> {
        let detail = &data(report)["details"][at.index];
        assert_eq!(detail["by_demand"], true);
        let guests = detail["guests"].as_array().expect("guests").iter();
        guests.filter_map(|one| one["of_mean"].as_f64()).collect()
    };
    assert_eq!(shares(&report), [1.0, 1.0], "each got all of its demand");
    for repeat in report.repeats.iter_mut().filter(|repeat| repeat.point == at.index) {
        let load = repeat.loads.iter_mut().find(|load| load.name == "web-steady").expect("it is loaded");
        load.completed_in_time = Some(load.completed);
        load.guests.push(asked("tile-003-web", 0, 0));
    }
    assert_eq!(shares(&report), [1.5, 1.5, 0.0], "the load of one ended with it");
}

/// What a guest of tile 1 was asked, and what it answered.
fn asked(name: &str, offered: u64, completed: u64) -> GuestFigures {
    GuestFigures { offered, ..guest_figures(name, 1, completed, LatencyMs::default()) }
}

#[test]
fn a_guest_whose_load_ended_with_it_is_named_as_served_nothing() {
    let mut report = fixture::consolidation();
    let holds = report.result.answer.holds.expect("some count holds");
    let at = report.result.points.iter_mut().find(|point| point.tiles == holds).expect("it was measured");
    let (point, load) = (at.index, &mut at.loads[0]);
    assert_eq!(load.loop_kind, LoopKind::Open);
    let (name, died) = (load.name.clone(), &mut load.guests[3]);
    (died.throughput, died.latency_ms) = (0.0, LatencyMs::default());
    let died = died.name.clone();
    let worst = |report: &Report| {
        let text = terminal(report, Style { colour: Colour::Plain, width: 400 });
        let (_, worst) = text.split_once("The 10 slowest of 174 guests").expect("ten are named");
        worst.split_once("Some guest is always").expect("the sentence ends").0.to_owned()
    };
    // Of an older record it is not known whether something was asked of it.
    assert!(!worst(&report).contains(&died), "{}", worst(&report));
    for repeat in report.repeats.iter_mut().filter(|repeat| repeat.point == point) {
        let own = repeat.loads.iter_mut().find(|own| own.name == name).expect("it is loaded");
        own.completed_in_time = Some(own.completed);
        own.guests.push(asked(&died, 0, 0));
    }
    assert!(worst(&report).contains(&format!(": {died} was served nothing, ")), "{}", worst(&report));
}

#[test]
fn pages_and_what_each_guest_used_have_sections_of_their_own() {
    let mut report = fixture::trusted();
    let page = html(&report);
    assert!(!page.contains("How good pages were") && !page.contains("What each guest used"));
    let part =
        |value: f64| Some(Figure { value, low: Some(value - 0.004), high: Some(value + 0.02), n_repeats: 5 });
    let used = |guest: &str, role, processors| GuestUse {
        guest: guest.to_owned(),
        role,
        guests: 8,
        vcpus: 2,
        processors,
        processors_max: processors * 1.5,
        disk_bytes_per_s: None,
        network_bytes_per_s: Some(2.5e6),
    };
    let at = report.result.points.iter_mut().find(|point| point.tiles == 8).expect("8 are tried");
    at.loads[0].pages = Some(PagesResult {
        good: part(0.962),
        tolerable: part(0.995),
        good_ms: 3_000.0,
        tolerable_ms: 5_000.0,
    });
    at.uses = vec![used("front", Role::Web, 1.2), used("backend", Role::Backend, 0.04)];
    let text = terminal(&report, Style { colour: Colour::Plain, width: 400 });
    let (_, pages) = text.split_once("How good pages were").expect("a load has pages");
    // No part is above all of them.
    assert_eq!(
        words_of_row(pages, "8, KVM guests"),
        "web-steady 96.2 % [95.8 %, 98.2 %] 99.5 % [99.1 %, 100 %] 57.3 3,000 5,000",
        "{pages}"
    );
    let (_, uses) = text.split_once("What each guest used").expect("a tile has two guests");
    assert!(uses.contains("Step: 8, KVM guests. The busiest backend used 3.00 % of its vCPUs."), "{uses}");
    assert_eq!(words_of_row(uses, "front"), "web 8 1.20 60.0 % 1.80 \u{2013} 2.50", "{uses}");
    let page = html(&report);
    assert!(page.contains("How good pages were") && page.contains("What each guest used"));
}

/// What a page of 256 guests may have.
const LARGE_PAGE_BYTES_MAX: usize = 3_000_000;

#[test]
fn a_report_of_256_guests_can_be_read() {
    let report = fixture::consolidation();
    let largest = report.result.points.iter().max_by_key(|point| point.guests).expect("there are points");
    assert_eq!((largest.tiles, largest.guests), (32, 256));
    let bytes = html(&report).len();
    assert!(bytes <= LARGE_PAGE_BYTES_MAX, "{bytes} bytes");
    for width in [80, 100, 120, 200] {
        let text = terminal(&report, Style { colour: Colour::Plain, width });
        let count = text.lines().count();
        assert!(count <= 60, "{count} lines at {width} columns:\n{text}");
        assert!(text.contains("Who suffers") && text.contains("more steps: on the page."), "{text}");
    }
}

#[test]
fn a_report_of_256_guests_keeps_to_its_lines_however_much_there_is_to_say() {
    let mut report = fixture::consolidation();
    let long = |place: usize| format!("reason {place}: {}", "words that take a line or two ".repeat(12));
    report.result.verdict.reasons = (0..40).map(long).collect();
    report.result.sentence = (0..40).map(|place| format!("{}. ", long(place))).collect();
    report.result.provenance.changed_by_others = (0..40).map(long).collect();
    report.result.provenance.left =
        (0..40).map(|place| LeftOver { what: long(place), remedy: long(place) }).collect();
    for point in &mut report.result.points {
        point.notes = (0..3).map(long).collect();
    }
    for width in [40, 80, 200] {
        let text = terminal(&report, Style { colour: Colour::Plain, width });
        let count = text.lines().count();
        assert!(count <= 60, "{count} lines at {width} columns:\n{text}");
        assert!(text.contains("- reason 0: words") && text.contains("38 more are on the page."), "{text}");
        assert!(text.contains("On the page only: ") && text.contains("To repeat this run:"), "{text}");
        assert!(
            text.lines().all(|line| line.chars().count() <= width || line.contains("To repeat")),
            "{text}"
        );
    }
    // A report of few guests has all.
    let mut few = fixture::trusted();
    few.result.verdict.reasons = (0..40).map(long).collect();
    let text = terminal(&few, Style { colour: Colour::Plain, width: 80 });
    assert!((0..40).all(|place| text.contains(&format!("- reason {place}: "))), "{text}");
}

#[test]
fn who_suffers_has_a_row_for_each_role_and_names_the_worst_ten() {
    let report = fixture::consolidation();
    let holds = report.result.answer.holds.expect("some count holds");
    let text = terminal(&report, Style { colour: Colour::Plain, width: 200 });
    let (_, section) = text.split_once("Who suffers\n").expect("many tiles have it");
    let section = section.split("\n\n").next().unwrap_or_default();
    assert!(section.contains(&format!("At {holds} tiles, the largest count that holds.")), "{section}");
    let heads = ["web ", "inner ", "burst ", "files ", "logs ", "batch "];
    for head in heads {
        let rows = section.lines().filter(|line| line.trim_start().starts_with(head)).count();
        assert_eq!(rows, 1, "{head}: {section}");
    }
    let (_, worst) = section.split_once("The 10 slowest of 174 guests").expect("ten are named");
    let starved = &report.result.points.iter().find(|point| point.tiles == 29).unwrap().loads[0].guests[16];
    let first = worst.split_once(": ").map(|(_, names)| names.split(' ').next().unwrap_or_default());
    assert_eq!(first, Some(starved.name.as_str()), "{worst}");
    assert_eq!(worst.matches('\u{d7}').count(), 10, "{worst}");
    let load = &report.result.points.iter().find(|point| point.tiles == holds).unwrap().loads[0];
    let fair = load.fairness.as_ref().unwrap();
    for wanted in [&fair.least_served.guest, &fair.most_served.guest, &format!("{:.4}", fair.jain)] {
        assert!(section.contains(wanted.as_str()), "{wanted}: {section}");
    }
    let slowdown = load.slowdown_vs_one_tile.unwrap();
    assert!(section.contains(&format!("{:.1} [{:.1}, ", slowdown.value, slowdown.low.unwrap())), "{section}");
}

#[test]
fn a_note_that_several_steps_have_is_one_line() {
    let mut report = fixture::all().remove(0).1;
    let steps = report.result.points.len();
    report.result.points.iter_mut().for_each(|point| point.notes = vec!["all is in its place".to_owned()]);
    report.result.points[1].notes.push("one is not".to_owned());
    let text = terminal(&report, Style { colour: Colour::Plain, width: 400 });
    let lines: Vec<&str> = text.lines().filter(|line| line.starts_with("Note")).collect();
    let more = format!(", and {} more steps: all is in its place.", steps - 1);
    assert_eq!(lines.len(), 2, "{lines:?}");
    assert!(lines[0].ends_with(&more) && lines[1].ends_with(": one is not."), "{lines:?}");
    assert!(html(&report).contains(&more));
}

#[test]
fn nobody_suffers_where_one_tile_was_measured_or_speed_means_nothing() {
    for report in [fixture::vary(), fixture::emulated(), fixture::density(), fixture::sides()] {
        assert!(!html(&report).contains("Who suffers"), "{}", report.result.sentence);
    }
}

/// A ladder's record in which a role was measured beside another one, too.
fn with_slowdowns() -> Report {
    let mut report = fixture::all().remove(0).1;
    let figure = Figure { value: 1.83, low: Some(1.6), high: Some(2.1), n_repeats: 3 };
    let slowdown = |role: &str, slowdown: Option<Figure>| Slowdown {
        role: role.to_owned(),
        beside: "hog".to_owned(),
        slowdown,
        p: slowdown.map(|_| 0.02),
        certain: Some(slowdown.is_some()),
        fails: None,
    };
    let slowdowns = vec![slowdown("db", Some(figure)), slowdown("web", None)];
    report
        .result
        .missing
        .insert("interference.web.hog".to_owned(), "no block has repeats of both".to_owned());
    report.result.interference =
        Some(Interference { worst: Some(slowdowns[0].clone()), slowdowns, level: Some(0.05) });
    report
}

#[test]
fn who_slows_whom_comes_before_the_steps_with_its_intervals_and_reasons() {
    let report = with_slowdowns();
    let plain = Style { colour: Colour::Plain, width: 100 };
    for (text, steps) in [(html(&report), "<h2>Steps</h2>"), (terminal(&report, plain), "Tiles  Guests")] {
        let (table, steps) = (text.find("Who slows whom").unwrap(), text.find(steps).unwrap());
        assert!(table < steps, "the answer comes first");
        let table = &text[table..steps];
        for wanted in ["db", "hog", "1.83", "[1.60, 2.10]", "no block has repeats of both"] {
            assert!(table.contains(wanted), "{wanted}: {table}");
        }
    }
    assert!(html(&report).contains("--heat:49%"), "83 of 100 to the full colour");
    assert!(!html(&fixture::all().remove(0).1).contains("Who slows whom"));
}

#[test]
fn steps_of_roles_are_named_by_their_roles_and_have_no_charts_of_tiles() {
    let mut report = with_slowdowns();
    let names = ["web alone", "hog alone", "web + hog", "hog + hog"];
    for (point, name) in report.result.points.iter_mut().zip(names) {
        point.vary = [("roles".to_owned(), name.to_owned())].into();
    }
    let page = html(&report);
    let loads = &page[page.find("Every load").unwrap()..];
    for name in names {
        assert!(loads.contains(&format!(">{name}<")), "{name}: {loads}");
        assert!(page.contains(&format!("\"label\":\"{name}\"")), "{name}");
    }
    assert!(page.contains("\"axis\":\"roles\""));
    for chart in ["chart-bands", "chart-percentiles", "chart-fairness", "chart-left"] {
        assert!(!page.contains(&format!("id=\"{chart}\"")), "{chart}");
    }
}

#[test]
fn who_slows_whom_names_what_is_certain_over_all_ratios_unless_the_record_is_older() {
    let mut report = with_slowdowns();
    let plain = Style { colour: Colour::Plain, width: 400 };
    let certain = "Certain, with at most a 5 % chance of a false alarm over 1 ratio: db beside hog.";
    let text = terminal(&report, plain).replace('\u{202f}', " ");
    assert!(text.contains(certain), "{text}");
    report.result.interference.as_mut().unwrap().slowdowns[0].certain = Some(false);
    let text = terminal(&report, plain).replace('\u{202f}', " ");
    assert!(text.contains("over 1 ratio: none."), "{text}");
    report.result.interference.as_mut().unwrap().level = None;
    assert!(!terminal(&report, plain).contains("false alarm"));
}

#[test]
fn who_slows_whom_explains_a_role_that_is_faster_than_alone_and_says_how_wide_intervals_are() {
    let mut report = with_slowdowns();
    let plain = Style { colour: Colour::Plain, width: 400 };
    let text = terminal(&report, plain).replace('\u{202f}', " ");
    assert!(!text.contains("faster than alone"), "{text}");
    assert!(text.contains("is \u{b1}14.8 % (median), the widest \u{b1}14.8 %"), "{text}");
    let slowdowns = &mut report.result.interference.as_mut().unwrap().slowdowns;
    slowdowns[1].slowdown = Some(Figure { value: 0.71, low: Some(0.70), high: Some(0.73), n_repeats: 3 });
    let text = terminal(&report, plain).replace('\u{202f}', " ");
    assert!(text.contains("Below 1 a role is faster than alone: web beside hog."), "{text}");
    assert!(text.contains("(median), the widest \u{b1}14.8 %"), "{text}");
    // One without an interval has its reason.
    let short = Figure { value: 1.5, low: None, high: None, n_repeats: 2 };
    report.result.interference.as_mut().unwrap().slowdowns[1].slowdown = Some(short);
    report.result.missing.insert("interference.web.hog.low".to_owned(), "it needs 3 pairs".to_owned());
    assert!(terminal(&report, plain).contains("it needs 3 pairs"));
    report.result.interference.as_mut().unwrap().slowdowns[0].slowdown = None;
    report.result.interference.as_mut().unwrap().slowdowns[1].slowdown = None;
    assert!(terminal(&report, plain).contains("unknown: no slowdown has an interval"));
}

#[test]
fn steps_of_roles_are_one_line_each_on_the_terminal_and_say_whose_figures_they_are() {
    let mut report = with_slowdowns();
    let first = report.result.points[0].clone();
    let roles = |index: usize| {
        let name = if index == 0 { "web alone".to_owned() } else { format!("web + role{index}") };
        BTreeMap::from([("roles".to_owned(), name)])
    };
    let point = |index: usize| PointResult {
        index,
        tiles: 1 + index as u32 % 2,
        vary: roles(index),
        ..first.clone()
    };
    let of_plan = report.plan.points[0].clone();
    report.result.points = (0..25).map(point).collect();
    report.plan.points =
        (0..25).map(|index| Point { index, vary: roles(index), ..of_plan.clone() }).collect();
    let text = terminal(&report, Style { colour: Colour::Plain, width: 100 });
    let (_, steps) = text.split_once("Roles ").unwrap();
    assert!(text.lines().count() <= 60, "{text}");
    assert!(!text.contains(" 0 more steps"), "{text}");
    assert!(steps.contains("web alone") && steps.contains("more steps: on the page"), "{text}");
    for text in [&text, &html(&report)] {
        assert!(text.contains("Figures are of the first role of a pair, or of the second"), "{text}");
    }
    assert!(html(&report).contains("web + role24"));
}

#[test]
fn a_role_that_fails_beside_another_says_so_in_its_place_among_the_slowdowns() {
    let mut report = with_slowdowns();
    let why = "40 % of its requests failed, 0 % alone: times are not compared";
    report.result.missing.insert("interference.web.hog".to_owned(), why.to_owned());
    report.result.interference.as_mut().unwrap().slowdowns[1].fails =
        Some(RoleFailure { measure: GateMeasure::Errors, beside: 0.4, alone: 0.0, detail: None });
    let text = terminal(&report, Style { colour: Colour::Plain, width: 400 });
    let (_, table) = text.split_once("Who slows whom").expect("roles were measured together");
    assert_eq!(words_of_row(table, "web"), "\u{2013} \u{2013} fails\u{b9}", "{table}");
    assert!(table.contains(why) && html(&report).contains(why), "{table}");
}

/// A comparison's record in which settings of the host were screened and read back, too.
fn with_screening() -> Report {
    let mut report = fixture::sides();
    let effect = |measure: &str, value: f64, half: f64| MeasureEffect {
        measure: measure.to_owned(),
        change: Some(Figure { value, low: Some(value - half), high: Some(value + half), n_repeats: 24 }),
        p: Some(0.5),
        resolution: Some(0.03),
        margin: 0.03,
        more_is_better: measure == "throughput",
    };
    let setting = |key: &str, outcome, change: f64, claim: Option<&str>| SettingEffect {
        key: key.to_owned(),
        value: "10".to_owned(),
        found: Some("60".to_owned()),
        claim: claim.map(str::to_owned),
        screened: vec![effect("throughput", change, 0.0123), effect("p99", -change, 0.08)],
        confirmed: Vec::new(),
        failures: Vec::new(),
        outcome,
    };
    let failure = FailureComparison {
        name: "errors of rack7".to_owned(),
        a: 0.0,
        b: 0.02,
        p: Some(0.001),
        outcome: ComparisonOutcome::Worse,
    };
    let settings = vec![
        setting("vm.swappiness", SettingOutcome::Pays, 0.0512, Some("the paper: 8 % more")),
        SettingEffect {
            failures: vec![failure],
            ..setting("rack7.harm", SettingOutcome::Harms, -0.05, None)
        },
        setting("ksm", SettingOutcome::NoEffect, 0.0, None),
        setting("thp", SettingOutcome::CannotTell, 0.0, None),
    ];
    report.result.screening = Some(Screening {
        profile: "/root/rack7.toml".to_owned(),
        repeats: 48,
        level: 0.05,
        settings,
        together: vec![effect("throughput", 0.09, 0.01), effect("p99", 0.0, 0.1)],
        together_of: vec!["vm.swappiness".to_owned(), "smt".to_owned()],
        left_out: vec![LeftOut { key: "kvm.nx".to_owned(), why: "rack7 has no kvm".to_owned() }],
    });
    for repeat in &mut report.repeats {
        let is_b = report.plan.points[repeat.point].side == Some(SideName::B);
        repeat.settings.push(SettingRead {
            key: "vm.swappiness".to_owned(),
            what: "vm.swappiness (/proc/sys/vm/swappiness)".to_owned(),
            place: "host".to_owned(),
            set: is_b.then(|| "10".to_owned()),
            before: Some("60".to_owned()),
            value: Some(if is_b { "10" } else { "60" }.to_owned()),
            ..SettingRead::default()
        });
    }
    report
}

#[test]
fn which_settings_pay_is_one_table_with_effects_intervals_and_the_claim_before_the_steps() {
    let report = with_screening();
    let page = html(&report);
    let (from, to) = (page.find("Which settings pay").unwrap(), page.find("<h2>Steps</h2>").unwrap());
    assert!(from < to, "the answer comes first");
    let text = terminal(&report, Style { colour: Colour::Plain, width: 160 });
    let shown = &text[text.find("Which settings pay").unwrap()..];
    for table in [&page[from..to], shown] {
        for wanted in [
            "vm.swappiness = 10",
            "found 60",
            "+5.12 %",
            "[3.89, 6.35]",
            "pays",
            "harms",
            "no effect above 1.23 % (throughput), 8.00 % (p99)",
            "cannot tell",
            "the paper: 8 % more",
            "all that looked better",
            "vm.swappiness, smt",
            "kvm.nx (rack7 has no kvm)",
            "rack7.harm = 10: errors of rack7 2.00 % with it, 0 % without",
        ] {
            assert!(table.replace('\u{202f}', " ").contains(wanted), "{wanted}: {table}");
        }
    }
    assert!(!html(&fixture::sides()).contains("Which settings pay"));
}

#[test]
fn the_smallest_change_of_a_screening_is_that_of_its_design() {
    let mut report = with_screening();
    report.result.comparison = None;
    let text = terminal(&report, Style { colour: Colour::Plain, width: 160 }).replace('\u{202f}', " ");
    let line = "Smallest change that this run can show: 3.00 % in throughput; 3.00 % in p99.";
    assert!(text.contains(line), "{text}");
}

#[test]
fn settings_of_the_host_are_listed_with_what_was_read_on_both_sides() {
    let text = terminal(&with_screening(), Style { colour: Colour::Plain, width: 160 });
    let section = &text[text.find("Settings of the host").unwrap()..];
    let row = section.lines().find(|line| line.contains("/proc/sys/vm/swappiness")).unwrap();
    let words: Vec<&str> = row.split_whitespace().collect();
    assert!(words.ends_with(&["the", "host", "60", "10"]), "{section}");
    assert!(!html(&fixture::sides()).contains("Settings of the host"));
}

#[test]
fn a_redacted_screening_names_no_machine() {
    let mut report = with_screening();
    redact(&mut report);
    assert!(!html(&report).contains("rack7"), "{:?}", report.result.screening);
}

#[test]
fn hostile_names_stay_text_everywhere() {
    let report = fixture::hostile();
    let page = html(&report);
    assert!(!page.contains("<script>document"), "a script got into the page");
    assert!(!page.contains("<img"), "an element got into the page");
    assert!(!page.contains('\u{202e}') && !page.contains('\u{1b}'), "a control character got into the page");
    for colour in [Colour::Plain, Colour::Ansi] {
        let text = terminal(&report, Style { colour, width: 100 });
        assert!(!text.contains("\u{1b}[2J") && !text.contains('\u{202e}'), "an escape got into the terminal");
    }
    assert!(!csv(&report).lines().any(|line| line.contains(",=cmd")), "a formula got into the table");
}

#[test]
fn without_colours_no_escape_is_written_and_every_line_fits() {
    for (name, report) in fixture::all() {
        for width in [60, 80, 120, 200] {
            let text = terminal(&report, Style { colour: Colour::Plain, width });
            assert!(!text.contains('\u{1b}'), "{name} holds an escape");
            // The command may be longer than a line: broken, it could not be copied.
            for line in text.lines().filter(|line| !line.starts_with("To repeat this run:")) {
                assert!(
                    line.chars().count() <= width,
                    "{name}: {} columns in {width}: {line}",
                    line.chars().count()
                );
            }
        }
    }
}

#[test]
fn a_note_is_left_out_with_the_column_that_has_its_mark() {
    let is_mark = |c: char| "⁰¹²³⁴⁵⁶⁷⁸⁹".contains(c);
    for (name, report) in fixture::all() {
        let text = terminal(&report, Style { colour: Colour::Plain, width: 60 });
        for line in text.lines().filter(|line| line.starts_with(is_mark)) {
            let mark = line.split(' ').next().expect("a mark and its note");
            let seen = text
                .lines()
                .any(|other| other.ends_with(mark) || other.contains(&format!("{mark} ")) && other != line);
            assert!(seen, "{name}: nothing bears {mark} in\n{text}");
        }
    }
}

#[test]
fn notes_below_a_table_are_numbered_without_a_gap_whatever_columns_fit() {
    const RAISED: [char; 10] = ['⁰', '¹', '²', '³', '⁴', '⁵', '⁶', '⁷', '⁸', '⁹'];
    let number = |line: &str| {
        let digits = line.chars().map_while(|c| RAISED.iter().position(|raised| *raised == c));
        digits.fold(0, |number, digit| 10 * number + digit)
    };
    for (name, report) in fixture::all() {
        for width in [60, 80, 100, 120] {
            let text = terminal(&report, Style { colour: Colour::Plain, width });
            let mut before = 0;
            for number in text.lines().map(number).filter(|number| *number > 0) {
                assert!(number == before + 1 || number == 1, "{name}: {number} after {before} in\n{text}");
                before = number;
            }
        }
    }
}

#[test]
fn what_a_run_left_and_what_others_changed_is_on_page_and_terminal_with_what_to_do() {
    let report = fixture::not_trusted();
    let provenance = &report.result.provenance;
    let (left, changed) = (&provenance.left[0], &provenance.changed_by_others[0]);
    let page = html(&report);
    assert!(page.contains(&left.what) && page.contains(&left.remedy) && page.contains(changed.as_str()));
    assert!(page.contains("your machine was NOT restored"));
    let plain = terminal(&report, Style { colour: Colour::Plain, width: 400 });
    assert!(plain.contains(&format!("Left   {}. To fix: {}", left.what, left.remedy)), "{plain}");
    assert!(
        plain.contains(&format!("Others Another program changed the {changed}; it was not restored")),
        "{plain}"
    );
}

#[test]
fn page_and_terminal_name_the_same_facts_and_whether_the_host_was_restored() {
    let mut report = fixture::trusted();
    let wanted = [
        (Some(true), "your machine was restored"),
        (Some(false), "your machine was NOT restored. To restore it: "),
        (None, "not checked whether your machine was restored"),
    ];
    for (is_restored, words) in wanted {
        report.result.provenance.as_it_was = is_restored;
        let plain = terminal(&report, Style { colour: Colour::Plain, width: 400 });
        let page = html(&report);
        for words in [words, "AMD EPYC 7313P, 32 threads, 128 GiB"] {
            assert!(plain.replace('\u{202f}', " ").contains(words), "{words}: {plain}");
            assert!(page.replace('\u{202f}', " ").contains(&format!("{words}<")), "{words}");
        }
    }
}

#[test]
fn a_redacted_report_names_no_machine_anywhere() {
    let mut report = fixture::not_trusted();
    report.result.provenance.host = "rack7.example.org".to_owned();
    report.plan.host.name = "rack7.example.org".to_owned();
    report.result.verdict.reasons.push("rack7 answered from 192.168.3.4".to_owned());
    report.repeats[0].loads[0].errors.push("connect 192.168.3.4:80: link 0c:42:a1:00:11:22 down".to_owned());
    report.plan.origin = "/home/mia/shop.toml".to_owned();
    report.plan.scenario.qemu.binary = Some("/home/mia/qemu".to_owned());
    report.result.provenance.hashes.insert("qemu /home/mia/qemu".to_owned(), "00".repeat(32));
    report.result.provenance.left[0].what = "the mount /home/mia/cache/held".to_owned();
    report.result.provenance.left[0].remedy = "`umount /home/mia/cache/held` on rack7".to_owned();
    report.result.provenance.changed_by_others[0] = "wake limit of rack7".to_owned();
    report.result.provenance.command = "ssh rack7 tilemark run first-look".to_owned();
    let of_side = |file: &str| [("qemu.binary".to_owned(), format!("/home/mia/{file}"))].into();
    report.plan.sides = Some(Sides { a: of_side("qemu-8"), b: of_side("qemu-9") });
    let before = report.clone();
    redact(&mut report);
    let all = serde_json::to_string(&report).expect("a report is JSON");
    for secret in ["rack7", "example.org", "192.168", "0c:42", "/home/mia"] {
        assert!(!all.contains(secret), "{secret} is still there");
        assert!(!html(&report).contains(secret), "{secret} is on the page");
    }
    assert_eq!(report.result.points, before.result.points, "figures changed");
    assert_eq!(report.seconds, before.seconds, "the time line changed");
}

#[test]
fn a_redacted_client_keeps_one_name_that_is_not_its_own() {
    let mut report = fixture::clients();
    redact(&mut report);
    let found = report.result.points[0].clients.as_ref().expect("its clients were compared");
    assert_eq!(found.named, ["client-3"]);
    assert!(found.sentence.starts_with("client client-3 is slower"), "{}", found.sentence);
    let changes: Vec<&str> = found.measures[0].clients.iter().map(|one| one.client.as_str()).collect();
    assert_eq!(changes, ["client-1", "client-2", "client-3"]);
    let senders: Vec<&str> = report.repeats[0].clients.iter().map(|one| one.name.as_str()).collect();
    assert_eq!(senders, changes);
    let page = html(&report);
    assert!(page.contains("client-3") && !page.contains("c3 is slower"), "the page has no name of it");
}

#[test]
fn a_redacted_report_has_no_words_of_the_carrier_of_a_lost_client() {
    let mut report = fixture::clients();
    let why = "its stream ended (Connection to lab3.corp.example.org closed by remote host.)";
    let reason = format!("client c1 was lost: {why}");
    report.repeats[0].clients[0].lost = Some(why.to_owned());
    report.repeats[0].incidents.push(Incident {
        kind: Default::default(),
        what: reason.clone(),
        guest: None,
    });
    report.result.verdict.reasons.push(reason.clone());
    report.result.points[0].repeats_voided.push(Voided { repeat: 1, reason });
    redact(&mut report);
    assert_eq!(report.repeats[0].clients[0].lost.as_deref(), Some("its stream ended"));
    let all = serde_json::to_string(&report).expect("a report is JSON");
    assert!(!all.contains("lab3") && !all.contains("closed by remote"), "{all}");
    assert_eq!(
        report.result.points[0].repeats_voided[0].reason,
        "client client-1 was lost: its stream ended"
    );
}

#[test]
fn emulated_figures_are_marked_and_stay_out_of_the_charts_of_real_ones() {
    let report = fixture::no_kvm();
    let page = html(&report);
    assert!(page.contains("PART EMULATED") && page.contains("its speed says nothing about this host"));
    assert!(!page.contains("guests work ("), "nothing in this record proves it");
    let page_of = |proven| {
        let mut report = fixture::no_kvm();
        let function = Function { proven, asked: 412, right: 400, wrong: 0, failed: 12, why_not: None };
        report.result.function = Some(function);
        html(&report)
    };
    assert!(page_of(true).contains("</span> guests work (400 of 412 requests answered correctly)"));
    assert!(page_of(false).contains("</span> not proven that guests work (400 of 412 requests"));
    let charts = &page[page.find("id=\"data\">").expect("a page has data")..];
    let lines = &charts[charts.find("\"lines\":").expect("lines")..charts.find("\"raw\":").expect("raw")];
    assert!(!lines.contains("emulated"), "an emulated line is beside a native one");
}

#[test]
fn what_is_not_trusted_is_struck_and_not_hidden() {
    let page = html(&fixture::not_trusted());
    assert!(page.contains("<span class=\"struck\"><b>This host carries"), "the answer is struck");
    assert!(page.contains("</span>Not trusted: "), "why it is not trusted is not struck");
    assert!(page.contains("<tr class=\"undecided struck\">"), "the doubtful step is struck");
    assert!(page.contains("<tr class=\"holds\">"), "a step that nothing spoiled is not struck");
}

#[test]
fn figures_of_one_message_size_are_struck_alone() {
    let mut report = fixture::messaging();
    report.result.verdict.status = VerdictStatus::NotTrusted;
    report.result.points[0].limit = Some(LimitResource::LoadGenerator);
    let (page, text) = (html(&report), terminal(&report, Style { colour: Colour::Plain, width: 120 }));
    assert!(page.contains("<td class=\"measured struck\">4,720,000"), "the size of the point is struck");
    assert!(page.contains("<td class=\"measured\">8,210,000"), "another tile count's is not");
    assert!(page.contains("td.measured.struck { text-decoration: line-through"), "the style strikes it");
    assert!(text.contains("(4,720,000 \u{b1} 0.198 %)") && !text.contains("(8,210,000"), "{text}");
}

#[test]
fn a_step_that_a_law_was_not_fitted_to_does_not_strike_it() {
    let mut report = fixture::twenty_steps();
    let last = report.result.points.last_mut().expect("there are steps");
    last.repeats_kept = 0;
    last.repeats_voided = vec![Voided { repeat: 1, reason: "foreign load".to_owned() }];
    let tiles = last.tiles;
    let is_struck = |report: &Report| {
        let text = terminal(report, Style { colour: Colour::Plain, width: 1_000 });
        let (_, law) = text.split_once("How throughput grows").expect("twenty steps have a law");
        law.contains("not trusted")
    };
    assert!(is_struck(&report), "it was fitted to a step without figures");
    report.result.scaling.iter_mut().for_each(|fit| fit.tiles.retain(|fitted| *fitted != tiles));
    assert!(!is_struck(&report));
}

#[test]
fn why_there_is_no_answer_is_not_struck() {
    let mut report = fixture::not_trusted();
    report.result.sentence = "No answer: every repeat was discarded.".to_owned();
    report.result.answer.none_because = Some("every repeat was discarded".to_owned());
    let text = terminal(&report, Style { colour: Colour::Plain, width: 100 });
    assert!(
        html(&report).contains("class=\"sentence\"") && !text.contains("discarded.\n(not trusted)"),
        "{text}"
    );
}

/// What is beside the head of a row of a table in the terminal, one space between.
fn words_of_row(text: &str, head: &str) -> String {
    let row =
        text.lines().find_map(|line| line.trim_start().strip_prefix(head)).expect("there is such a row");
    row.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn orders_are_those_of_all_databases_whatever_the_headline_is() {
    let bench = fixture::Bench { scenario: fixture::SHOP, tiles: vec![1, 2], ..fixture::Bench::new() };
    let mut report = bench.measure();
    for point in &mut report.result.points {
        let orders_a_second = f64::from(point.tiles) * 10.0;
        point.throughput_vs_one_tile = Some(7.77);
        for load in point.loads.iter_mut().filter(|load| load.name != "pages") {
            load.throughput.as_mut().expect("it was measured").figure.value = orders_a_second;
        }
    }
    for load in report.repeats.iter_mut().flat_map(|repeat| &mut repeat.loads) {
        if load.name != "pages" {
            load.store = vec![StoreFigures { audit: "agrees".to_owned(), ..StoreFigures::default() }];
        }
    }
    let text = terminal(&report, Style { colour: Colour::Plain, width: 200 });
    // Two databases in each tile; the paper had 3.51 of one with four, and 1.99 with two.
    let row = |step: &str| words_of_row(&text, step);
    assert!(row("1, KVM guests").starts_with("1,200 not found 1.00\u{d7} 1.00\u{d7}"), "{text}");
    assert!(row("2, KVM guests").starts_with("2,400 not found 2.00\u{d7} 1.76\u{d7}"), "{text}");
}

/// Two databases of one tile, two repeats: in the second repeat one database never settled.
#[test]
fn the_steady_window_is_shown_and_a_missing_one_is_noted_and_discards_nothing() {
    let bench = fixture::Bench { scenario: fixture::SHOP, tiles: vec![1], ..fixture::Bench::new() };
    let mut report = bench.measure();
    let settled = |rate| Some(SteadyWindow { from_s: 4, to_s: 30, orders_per_minute: rate });
    let mut set = |late: Option<SteadyWindow>| {
        for repeat in &mut report.repeats {
            let last = repeat.repeat > 1;
            for load in repeat.loads.iter_mut().filter(|load| load.name != "pages") {
                let steady = if last && load.name == "orders" { late } else { settled(600.0) };
                load.store = vec![StoreFigures { steady, audit: "agrees".to_owned(), ..Default::default() }];
            }
        }
        let text = terminal(&report, Style { colour: Colour::Plain, width: 400 });
        (text, html(&report), report.repeats.len())
    };
    let (text, page, repeats) = set(settled(600.0));
    let shown = format!("1,200 (second 4 to 30, {repeats} of {repeats})");
    assert!(text.contains(&shown) && !text.contains("No steady window"), "{text}");
    assert!(page.contains("1,200 <span") && !page.contains("No steady window"));
    let (text, page, _) = set(None);
    assert!(text.contains(&format!("(second 4 to 30, 1 of {repeats})")), "{text}");
    assert!(
        text.contains("No steady window") && text.contains(&format!("agrees ({0} of {0})", 2 * repeats)),
        "{text}"
    );
    assert!(page.contains("No steady window"));
}

#[test]
fn power_is_shown_where_it_was_counted_and_not_mentioned_elsewhere() {
    let mut report = fixture::no_kvm();
    let both = |report: &_| (terminal(report, Style { colour: Colour::Plain, width: 400 }), html(report));
    let (text, page) = both(&report);
    assert!(!text.contains("Power") && !page.contains("id=\"power\""), "{text}");
    report.result.idle_power_w = Some(40.0);
    for point in &mut report.result.points {
        point.power_w = Some(52.5);
        if let Some(throughput) = &mut point.throughput {
            throughput.figure.value = 105.0;
        }
    }
    let (text, page) = both(&report);
    assert!(text.contains("Power\nIdle: 40.0 W.\n"), "{text}");
    let power = text.split_once("Power\n").expect("a section of its own").1;
    assert_eq!(words_of_row(power, "1, native (no guests)"), "52.5 W 12.5 W 2.00 requests", "{text}");
    // What emulated guests are served is no measure of this host.
    assert_eq!(words_of_row(power, "1, emulated"), "52.5 W 12.5 W \u{2013}", "{text}");
    assert!(
        page.contains("id=\"power\"") && page.contains("52.5\u{202f}W") && page.contains("2.00 requests")
    );
}

#[test]
fn the_figure_of_a_command_has_its_own_unit_and_is_not_a_rate() {
    let bench =
        fixture::Bench { scenario: tilemark_fixtures::COMMAND, tiles: vec![1, 2], ..fixture::Bench::new() };
    let mut report = bench.measure();
    report.result.idle_power_w = Some(40.0);
    for point in &mut report.result.points {
        point.power_w = Some(52.5);
        let of_loads = point.loads.iter_mut().filter_map(|load| load.throughput.as_mut());
        for throughput in point.throughput.iter_mut().chain(of_loads) {
            throughput.unit = "s".to_owned();
            let (value, low, high) = (4.02, Some(3.98), Some(4.06));
            throughput.figure = Figure { value, low, high, n_repeats: 5 };
        }
    }
    let (page, text) = (html(&report), terminal(&report, Style { colour: Colour::Plain, width: 400 }));
    assert_eq!(page.matches("Figure<small>s</small>").count(), 2, "the steps and all loads");
    assert!(page.contains("\"unit\":\"runs/s\"") && text.contains("for the figure"), "{text}");
    assert!(text.contains("Figure") && !text.contains("throughput"), "{text}");
    // A figure of a program that took 4 s is not work that a joule did.
    let power = text.split_once("Power\n").expect("a section of its own").1;
    assert_eq!(words_of_row(power, "1, KVM guests"), "52.5 W 12.5 W \u{2013}", "{text}");
}

#[test]
fn brokers_with_different_settings_have_lines_of_their_own() {
    let bench = fixture::Bench {
        scenario: fixture::MESSAGING_PREFETCHED,
        tiles: vec![1],
        backends: vec![Backend::Native],
        ..fixture::Bench::new()
    };
    let page = html(&bench.measure());
    for line in ["1 tile, prefetch 10", "1 tile, prefetch 100"] {
        assert!(page.contains(&format!("\"col\">{line}<small>transfers/s")), "{line} is no line of its own");
    }
}

#[test]
fn what_is_undecided_is_neither_drawn_as_holding_nor_as_breaking() {
    let report = fixture::undecided();
    let (page, text) = (html(&report), terminal(&report, Style { colour: Colour::Plain, width: 200 }));
    assert!(page.contains("<tr class=\"undecided\">") && page.contains("<i class=\"undecided\">"));
    assert!(page.contains("\"outcome\":\"undecided\"") && text.contains("\u{25d0} is undecided"));
    assert!(text.contains("its interval lies across the limit"), "{text}");
    assert!(csv(&report).lines().any(|line| line.ends_with(",undecided")));
    let capacity = "Capacity estimated from all repeats: 17.3 tiles [16.4, 18.2]; the probability that it is 16 to 18 is 97";
    assert!(text.contains(capacity) && page.replace('\u{202f}', " ").contains(capacity), "{text}");
}

#[test]
fn a_failure_is_named_and_an_older_rule_is_said() {
    let ended = fixture::guest_ended();
    let wide = Style { colour: Colour::Plain, width: 200 };
    assert!(html(&ended).contains("breaks: a guest ended"));
    assert!(terminal(&ended, wide).contains("breaks: a guest ended"));
    let rule = "This record was judged by an older rule";
    assert!(!html(&ended).contains(rule) && !terminal(&ended, wide).contains(rule));
    let older = fixture::older_rule();
    assert!(html(&older).contains(rule) && terminal(&older, wide).contains(rule));
}

#[test]
fn a_step_has_one_p99_on_the_whole_page() {
    let mut report = fixture::older_rule();
    for point in &mut report.result.points {
        // An older record: the percentile of its latency is another figure than the p99 that was judged.
        for load in &mut point.loads {
            load.latency_ms.p99 = Some(123.4);
        }
        point.latency_ms = point.loads.first().map(|load| load.latency_ms);
    }
    assert!(!html(&report).contains("123.4") && !html(&report).contains(">123<"));
    assert!(!csv(&report).contains("123.4"));
}

#[test]
fn a_p99_without_an_interval_says_why() {
    let report = fixture::one_step();
    let reason = "no interval: 1 repeat kept, it needs 3";
    assert!(html(&report).contains(&format!("data-tip=\"{reason}\"")));
    assert!(terminal(&report, Style { colour: Colour::Plain, width: 200 }).contains(reason));
}

#[test]
fn a_record_that_was_continued_says_in_how_many_sessions_it_was_measured() {
    let mut report = fixture::twenty_steps();
    let plain = Style { colour: Colour::Plain, width: 200 };
    let says =
        |report: &Report| [html(report), terminal(report, plain)].map(|text| text.contains("in 2 sessions"));
    assert_eq!(says(&report), [false, false]);
    report.result.provenance.sessions = 2;
    assert_eq!(says(&report), [true, true]);
}

#[test]
fn jobs_are_shown_by_kind_and_a_record_from_before_their_figures_is_read() {
    let mut report = fixture::jobs();
    let (page, plain) = (html(&report), terminal(&report, Style { colour: Colour::Plain, width: 120 }));
    for text in ["Time by kind of job", "Series and trigonometry in double precision", "sync-copy", "JTI"] {
        assert!(page.contains(text) && plain.contains(text), "{text}:\n{plain}");
    }
    for load in report.repeats.iter_mut().flat_map(|repeat| &mut repeat.loads) {
        let mut older = serde_json::to_value(&*load).unwrap();
        older.as_object_mut().unwrap().remove("jobs").unwrap();
        *load = serde_json::from_value(older).unwrap();
    }
    assert!(!html(&report).contains("Time by kind of job"));
}
