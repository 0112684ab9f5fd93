//! A writer of HTML through which no foreign text passes unescaped.

use std::fmt::Write;
use tilemark_units::is_unprintable;

/// HTML under construction. Markup is `&'static str`, so it can only come from our own source; everything
/// that comes from a record goes through [`Markup::text`] or [`Markup::attribute`].
#[derive(Default)]
pub(crate) struct Markup(String);

impl Markup {
    /// Appends markup from our own source.
    pub(crate) fn raw(&mut self, markup: &'static str) -> &mut Self {
        self.0.push_str(markup);
        self
    }

    /// Appends text, escaped.
    pub(crate) fn text(&mut self, text: &str) -> &mut Self {
        escape(&mut self.0, text);
        self
    }

    /// Appends ` name="value"`, the value escaped.
    pub(crate) fn attribute(&mut self, name: &'static str, value: &str) -> &mut Self {
        self.0.push(' ');
        self.0.push_str(name);
        self.0.push_str("=\"");
        escape(&mut self.0, value);
        self.0.push('"');
        self
    }

    /// Appends `<tag class="class">text</tag>`.
    pub(crate) fn element(&mut self, tag: &'static str, class: &str, text: &str) -> &mut Self {
        self.raw("<").raw(tag);
        if !class.is_empty() {
            self.attribute("class", class);
        }
        self.raw(">").text(text).raw("</").raw(tag).raw(">")
    }

    /// Appends JSON so that a script element can hold it: nothing in it can end the element or open another.
    pub(crate) fn json(&mut self, value: &impl serde::Serialize) -> &mut Self {
        let json = serde_json::to_string(value).expect("views hold nothing that JSON cannot");
        for character in json.chars() {
            match character {
                '<' | '>' | '&' | '\u{2028}' | '\u{2029}' => {
                    write!(self.0, "\\u{:04x}", u32::from(character)).expect("strings take all");
                }
                c if is_unprintable(c) => self.0.push_str("\\ufffd"),
                _ => self.0.push(character),
            }
        }
        self
    }

    /// The finished text.
    pub(crate) fn finish(self) -> String {
        self.0
    }
}

fn escape(out: &mut String, text: &str) {
    for character in text.chars() {
        match character {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            '\n' | '\t' => out.push(character),
            // Control characters are no HTML; signs that change the direction of writing could forge a sentence.
            c if is_unprintable(c) || matches!(c, '\u{fffe}' | '\u{ffff}') => out.push('\u{fffd}'),
            c => out.push(c),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hostile_text_stays_text() {
        let mut page = Markup::default();
        page.element("b", "x\" onload=\"evil()", "<script>alert('1')</script>&\u{1b}[31m\u{202e}");
        assert_eq!(
            page.finish(),
            "<b class=\"x&quot; onload=&quot;evil()\">&lt;script&gt;alert(&#39;1&#39;)&lt;/script&gt;&amp;\u{fffd}[31m\u{fffd}</b>"
        );
    }

    #[test]
    fn json_cannot_leave_its_script() {
        let mut page = Markup::default();
        page.json(&"</script><!--\u{2028}&\u{202e}");
        assert_eq!(page.finish(), "\"\\u003c/script\\u003e\\u003c!--\\u2028\\u0026\\ufffd\"");
    }
}
