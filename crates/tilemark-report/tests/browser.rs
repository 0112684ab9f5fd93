//! Draws pages in a real Chromium: every chart is drawn, nothing failed, the first screen fits 1280 × 720.

mod fixture;

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

/// Pixels below which nothing of the first screen may lie.
const SCREEN: (u32, u32) = (1280, 720);

fn browser() -> Option<PathBuf> {
    let path = env::var_os("PATH")?;
    let names = ["chromium", "chromium-browser", "google-chrome"];
    env::split_paths(&path).flat_map(|folder| names.map(|name| folder.join(name))).find(|file| file.is_file())
}

/// What the browser writes to its output when it gets the option `ask`, which is made from the folder of the page; the folder with it.
fn browsed(browser: &PathBuf, page: &str, ask: impl Fn(&Path) -> String) -> (String, tempfile::TempDir) {
    let folder = tempfile::tempdir().expect("a folder for the browser");
    let file = folder.path().join("report.html");
    fs::write(&file, page).expect("the page is written");
    let output = Command::new(browser)
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"])
        .args(["--disable-background-networking", "--disable-component-update", "--disable-sync"])
        .arg(format!("--user-data-dir={}", folder.path().join("profile").display()))
        .arg(format!("--window-size={},{}", SCREEN.0, SCREEN.1))
        .arg(ask(folder.path()))
        .arg(format!("file://{}", file.display()))
        .stderr(Stdio::null())
        .output()
        .expect("the browser starts");
    (String::from_utf8_lossy(&output.stdout).into_owned(), folder)
}

/// The document as it is after its scripts ran.
fn drawn(browser: &PathBuf, page: &str) -> String {
    browsed(browser, page, |_| "--dump-dom".to_owned()).0
}

/// Sheets of paper that a page takes.
fn sheets(browser: &PathBuf, page: &str) -> usize {
    let paper = |folder: &Path| folder.join("report.pdf");
    let (_, folder) = browsed(browser, page, |folder| format!("--print-to-pdf={}", paper(folder).display()));
    let pdf = fs::read(paper(folder.path())).expect("the page was printed");
    let objects = String::from_utf8_lossy(&pdf);
    objects.matches("/Type /Page").count() - objects.matches("/Type /Pages").count()
}

/// The value of a `data-` attribute of the document.
fn attribute<'a>(document: &'a str, name: &str) -> &'a str {
    let head = &document[..document.find("<head").unwrap_or(document.len())];
    let start = head.find(&format!("{name}=\"")).map(|at| at + name.len() + 2);
    let start = start.unwrap_or_else(|| panic!("the page says nothing of {name}: {head}"));
    &head[start..start + head[start..].find('"').expect("an attribute ends")]
}

#[test]
fn chromium_draws_every_chart_without_an_error() {
    let Some(browser) = browser() else {
        assert!(env::var("TILEMARK_CI").is_err(), "no Chromium on PATH: apt-get install chromium");
        println!("skipped: no Chromium on PATH (apt-get install chromium)");
        return;
    };
    let cases = [
        (fixture::trusted(), 9),
        (fixture::sides(), 8),
        (fixture::no_kvm(), 9),
        (fixture::undecided(), 9),
        (fixture::guest_ended(), 9),
        (fixture::twenty_steps(), 9),
        (fixture::consolidation(), 9),
        (fixture::hostile(), 9),
        (fixture::density(), 4),
        (fixture::messaging(), 8),
        (fixture::store(), 9),
        (fixture::one_of_two_discarded(), 8),
        (fixture::empty(), 0),
    ];
    for (report, charts) in cases {
        let sentence = &report.result.sentence;
        let document = drawn(&browser, &tilemark_report::html(&report));
        assert_eq!(attribute(&document, "data-errors"), "", "{sentence}");
        assert_eq!(attribute(&document, "data-charts"), charts.to_string(), "{sentence}");
        assert!(document.matches("<svg").count() >= charts, "{sentence}");
        assert!(!document.contains("data-owned"), "foreign script ran: {sentence}");
        let ends: u32 = attribute(&document, "data-first-screen-ends").parse().expect("pixels");
        assert!(ends <= SCREEN.1, "the first screen ends at {ends}: {sentence}");
    }
}

#[test]
fn limits_in_charts_are_printed_in_full() {
    let Some(browser) = browser() else {
        println!("skipped: no Chromium on PATH (apt-get install chromium)");
        return;
    };
    let mut report = fixture::trusted();
    for point in &mut report.plan.points {
        point.gate.p99 = tilemark_units::Span::from_milliseconds(1_234);
        point.gate.achieved = tilemark_units::Fraction::new(0.9995).expect("a fraction");
    }
    // The share of the demand is drawn where it is below its limit.
    report.result.points[5].achieved_fraction = Some(0.9);
    let document = drawn(&browser, &tilemark_report::html(&report));
    assert_eq!(attribute(&document, "data-errors"), "");
    assert!(document.contains("gate 1,234 ms") && !document.contains("gate 1,230"), "the limit of p99");
    assert!(document.contains("gate 99.95\u{202f}%"), "the limit of the achieved share");
    assert!(!document.contains("gate, p99 1,234"), "the mean has no limit");
    for point in &mut report.plan.points {
        point.gate.mean = Some(tilemark_units::Span::from_milliseconds(1_021));
    }
    let document = drawn(&browser, &tilemark_report::html(&report));
    assert_eq!(attribute(&document, "data-errors"), "");
    assert!(document.contains("gate, p99 1,234 ms"), "the limit of p99");
    assert!(document.contains("gate, mean 1,021 ms"), "the limit of the mean");
}

#[test]
fn chromium_draws_pages_of_several_runs_without_an_error() {
    let Some(browser) = browser() else {
        println!("skipped: no Chromium on PATH (apt-get install chromium)");
        return;
    };
    // Two series of three charts each.
    let cases = [
        (fixture::several::compared(2).html(), 1),
        (fixture::several::compared(5).html(), 1),
        (fixture::several::over_time(30).html(), 6),
        (fixture::several::over_time(300).html(), 6),
    ];
    for (page, charts) in cases {
        let document = drawn(&browser, &page);
        assert_eq!(attribute(&document, "data-errors"), "");
        assert_eq!(attribute(&document, "data-charts"), charts.to_string());
        assert!(!document.contains("<host>") && !document.contains("-<b>"), "a name became markup");
    }
}

#[test]
fn a_report_is_printed_on_three_sheets() {
    let Some(browser) = browser() else {
        println!("skipped: no Chromium on PATH (apt-get install chromium)");
        return;
    };
    for (name, report) in [
        ("trusted", fixture::trusted()),
        ("not trusted", fixture::not_trusted()),
        ("undecided", fixture::undecided()),
        ("no KVM", fixture::no_kvm()),
    ] {
        assert_eq!(sheets(&browser, &tilemark_report::html(&report)), 3, "{name}");
    }
}

/// How soon is printed: `docs/benchmarks.md` has it from a quiet machine.
#[test]
fn a_page_of_256_guests_becomes_interactive() {
    let Some(browser) = browser() else {
        println!("skipped: no Chromium on PATH (apt-get install chromium)");
        return;
    };
    let page = tilemark_report::html(&fixture::consolidation());
    let time = || attribute(&drawn(&browser, &page), "data-interactive-ms").parse().expect("milliseconds");
    let mut times: Vec<u32> = (0..5).map(|_| time()).collect();
    times.sort_unstable();
    println!("interactive after {times:?} ms");
}
