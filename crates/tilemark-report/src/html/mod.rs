//! The report as one HTML file that needs no network, and no script for its figures: the charts are drawn by
//! the page's own script from data in the page; every figure stands in a table too.
//!
//! A content policy names the hashes of the page's two scripts. Nothing else can run in it.

mod below;
mod disclosure;
mod first_screen;
mod markup;
mod section;
mod sheet;
mod steps;

use crate::{Report, echarts::ECHARTS, view, words};
use base64::{Engine, engine::general_purpose::STANDARD};
pub(crate) use markup::Markup;
use sha2::{Digest, Sha256};
pub(crate) use sheet::sheet_page;

const STYLE: &str = include_str!("../../assets/report.css");
const SCRIPT: &str = include_str!("../../assets/report.js");

/// The whole report as one HTML file.
pub fn html(report: &Report) -> String {
    let view = view::View::of(report);
    let sections = view::sections(&view);
    let charts = view::charts(&view, &sections);
    let mut page = Markup::default();
    head(&mut page, &report.result.scenario, "report");
    page.raw("<body>\n<main>\n");
    first_screen::first_screen(&mut page, &view, &charts, &sections);
    steps::steps(&mut page, &view);
    below::below(&mut page, &view, &charts, &sections);
    disclosure::disclosure(&mut page, &view);
    glossary(&mut page);
    foot(&mut page, &charts);
    page.finish()
}

/// Ends the page, with the data of its charts and the scripts that draw them.
fn foot(page: &mut Markup, charts: &impl serde::Serialize) {
    page.raw("</main>\n<div id=\"tip\" role=\"tooltip\" hidden></div>\n<div id=\"spoken\" aria-live=\"polite\"></div>\n");
    page.raw("<script type=\"application/json\" id=\"data\">").json(charts).raw("</script>\n");
    page.raw("<script>")
        .raw(ECHARTS)
        .raw("</script>\n<script>")
        .raw(SCRIPT)
        .raw("</script>\n</body>\n</html>\n");
}

fn head(page: &mut Markup, title: &str, kind: &'static str) {
    page.raw("<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n");
    page.raw("<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n");
    page.raw("<meta name=\"color-scheme\" content=\"light dark\">\n<meta name=\"referrer\" content=\"no-referrer\">\n");
    let policy = format!(
        "default-src 'none'; style-src 'unsafe-inline'; img-src data:; script-src '{}' '{}'; base-uri 'none'; form-action 'none'",
        script_hash(ECHARTS),
        script_hash(SCRIPT)
    );
    page.raw("<meta http-equiv=\"Content-Security-Policy\"").attribute("content", &policy).raw(">\n");
    page.raw("<title>").text(title).raw(" \u{2013} Tilemark ").raw(kind).raw("</title>\n");
    page.raw("<style>\n").raw(STYLE).raw("</style>\n</head>\n");
}

fn script_hash(script: &str) -> String {
    format!("sha256-{}", STANDARD.encode(Sha256::digest(script.as_bytes())))
}

/// A word with its meaning: on hover, and by keyboard.
fn term(page: &mut Markup, key: &str, text: &str) {
    match words::meaning(key) {
        Some(word) => {
            page.raw("<dfn tabindex=\"0\"").attribute("data-tip", word.meaning);
            page.attribute("aria-describedby", &format!("word-{key}")).raw(">").text(text).raw("</dfn>");
        }
        None => {
            page.text(text);
        }
    }
}

fn glossary(page: &mut Markup) {
    page.raw("<details class=\"part words\"><summary>Words</summary><dl>");
    for word in &words::WORDS {
        page.raw("<div><dt>").text(word.word).raw("</dt><dd").attribute("id", &format!("word-{}", word.key));
        page.raw(">").text(word.meaning).raw("</dd></div>");
    }
    page.raw("</dl></details>\n");
}
