//! The beginning and the end of every page, with its only style sheet and its two scripts.

use super::markup::Markup;
use crate::echarts::ECHARTS;
use base64::{Engine, engine::general_purpose::STANDARD};
use sha2::{Digest, Sha256};

const STYLE: &str = include_str!("../../assets/report.css");
const SCRIPT: &str = include_str!("../../assets/report.js");

/// Begins the page: its head, with the content policy and the style sheet.
pub(super) fn head(page: &mut Markup, title: &str, kind: &'static str) {
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

/// Ends the page, with the data of its charts and the scripts that draw them.
pub(super) fn foot(page: &mut Markup, charts: &impl serde::Serialize) {
    page.raw("</main>\n<div id=\"tip\" role=\"tooltip\" hidden></div>\n<div id=\"spoken\" aria-live=\"polite\"></div>\n");
    page.raw("<script type=\"application/json\" id=\"data\">").json(charts).raw("</script>\n");
    page.raw("<script>")
        .raw(ECHARTS)
        .raw("</script>\n<script>")
        .raw(SCRIPT)
        .raw("</script>\n</body>\n</html>\n");
}
