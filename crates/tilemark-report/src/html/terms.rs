//! Words of the glossary: each where it is used, and all at the end of the page.

use super::markup::Markup;
use crate::words;

/// A word with its meaning: on hover, and by keyboard.
pub(super) fn term(page: &mut Markup, key: &str, text: &str) {
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

/// Writes all words with their meanings.
pub(super) fn glossary(page: &mut Markup) {
    page.raw("<details class=\"part words\"><summary>Words</summary><dl>");
    for word in &words::WORDS {
        page.raw("<div><dt>").text(word.word).raw("</dt><dd").attribute("id", &format!("word-{}", word.key));
        page.raw(">").text(word.meaning).raw("</dd></div>");
    }
    page.raw("</dl></details>\n");
}
