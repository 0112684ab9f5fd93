//! What reports say, word for word. `INSTA_UPDATE=always cargo test -p tilemark-report` writes them again.

mod fixture;

use tilemark_report::{Colour, Style, csv, html, terminal};

/// A page without its style, scripts and charts' data: those are looked at in a browser.
fn words_of(page: &str) -> String {
    let mut page = page.to_owned();
    for (open, close) in [
        ("<style>", "</style>"),
        ("<script type=\"application/json\" id=\"data\">", "</script>"),
        ("<script>", "</script>"),
        ("sha256-", "&#39;"),
        ("<details class=\"part words\">", "</details>"),
    ] {
        let mut from = 0;
        while let Some(start) = page[from..].find(open).map(|at| from + at + open.len()) {
            let end = page[start..].find(close).map_or(page.len(), |at| start + at);
            page.replace_range(start..end, "…");
            from = start + '…'.len_utf8();
        }
    }
    page
}

#[test]
fn pages_match_their_golden_files() {
    for (name, report) in fixture::all() {
        let words = words_of(&html(&report));
        assert!(words.contains("<main>") && words.contains("</main>"), "{name}: too much is left out");
        insta::assert_snapshot!(format!("{name}.html"), words);
    }
}

#[test]
fn terminal_output_matches_its_golden_files() {
    for (name, report) in fixture::all() {
        let plain = terminal(&report, Style { colour: Colour::Plain, width: 120 });
        insta::assert_snapshot!(format!("{name}.terminal"), plain);
    }
    let narrow = terminal(&fixture::trusted(), Style { colour: Colour::Plain, width: 60 });
    insta::assert_snapshot!("trusted.narrow", narrow);
    let ansi = terminal(&fixture::not_trusted(), Style { colour: Colour::Ansi, width: 100 });
    insta::assert_snapshot!("not-trusted.ansi", ansi.replace('\u{1b}', "ESC"));
}

#[test]
fn output_of_several_runs_matches_its_golden_files() {
    let (compared, over_time) = (fixture::several::compared(3), fixture::several::over_time(30));
    let style = Style { colour: Colour::Plain, width: 120 };
    insta::assert_snapshot!("compared.terminal", compared.terminal(style));
    insta::assert_snapshot!("compared.two.terminal", fixture::several::compared(2).terminal(style));
    insta::assert_snapshot!("compared.markdown", compared.markdown());
    insta::assert_snapshot!("compared.junit", compared.junit());
    insta::assert_snapshot!("trend.terminal", over_time.terminal(style));
    insta::assert_snapshot!("trend.html", words_of(&over_time.html()));
}

#[test]
fn no_line_of_several_runs_passes_the_width() {
    for width in [40, 80, 120] {
        let style = Style { colour: Colour::Plain, width };
        let all = [
            fixture::several::compared(2).terminal(style),
            fixture::several::compared(9).terminal(style),
            fixture::several::over_time(3).terminal(style),
            fixture::several::over_time(300).terminal(style),
        ];
        for line in all.iter().flat_map(|text| text.lines()) {
            assert!(line.chars().count() <= width, "{width}: {line}");
        }
    }
}

#[test]
fn tables_match_their_golden_files() {
    insta::assert_snapshot!("trusted.csv", csv(&fixture::trusted()));
    insta::assert_snapshot!("not-trusted.csv", csv(&fixture::not_trusted()));
}

/// The data of the charts of a small report: what the page's script is given.
#[test]
fn data_of_charts_matches_its_golden_files() {
    let page = html(&fixture::one_step());
    let open = "<script type=\"application/json\" id=\"data\">";
    let start = page.find(open).expect("a page has data") + open.len();
    let end = start + page[start..].find("</script>").expect("the element ends");
    let data: serde_json::Value = serde_json::from_str(&page[start..end]).expect("the data is JSON");
    insta::assert_json_snapshot!("one-step.charts", data);
}
