//! Colours, widths and clean text.

use super::style::Colour;
use tilemark_units::is_unprintable;

/// What a piece of text is, so that colours mean one thing each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ink {
    /// Held, trusted.
    Good,
    /// Broke, not trusted.
    Bad,
    /// Cannot tell, emulated.
    Warn,
    /// What must be read.
    Strong,
    /// What need not.
    Dim,
    /// Shown, and not to be believed.
    Struck,
    /// As it is.
    Plain,
}

/// Puts colour on text, or leaves it alone.
pub(super) struct Paint(pub(super) Colour);

impl Paint {
    /// `text` in the colour of `ink`. Without colours, what is struck says so in words.
    pub(super) fn ink(&self, ink: Ink, text: &str) -> String {
        if text.trim().is_empty() {
            return text.to_owned();
        }
        let code = match ink {
            Ink::Good => "32;1",
            Ink::Bad => "31;1",
            Ink::Warn => "33;1",
            Ink::Strong => "1",
            Ink::Dim => "2",
            Ink::Struck => "9",
            Ink::Plain => return text.to_owned(),
        };
        match self.0 {
            Colour::Ansi => format!("\u{1b}[{code}m{text}\u{1b}[0m"),
            Colour::Plain => text.to_owned(),
        }
    }
}

/// Text from a record as one line, without characters that a terminal obeys.
pub(super) fn clean(text: &str) -> String {
    let safe = |c: char| match c {
        '\u{202f}' | '\n' | '\t' => ' ',
        c if is_unprintable(c) => '\u{fffd}',
        c => c,
    };
    text.chars().map(safe).collect()
}

/// Lines of at most `width` characters, broken between words; a longer word is cut.
pub(super) fn wrap(text: &str, width: usize) -> Vec<String> {
    let mut lines = Vec::new();
    let mut line = String::new();
    for word in text.split_whitespace() {
        let mut word: Vec<char> = word.chars().collect();
        if !line.is_empty() && line.chars().count() + 1 + word.len() > width {
            lines.push(std::mem::take(&mut line));
        }
        while word.len() > width {
            lines.push(word.drain(..width).collect());
        }
        if !line.is_empty() {
            line.push(' ');
        }
        line.extend(word);
    }
    if !line.is_empty() {
        lines.push(line);
    }
    lines
}

/// Columns that `text` takes. Text is ours, numbers and cleaned names: a character is a column.
pub(super) fn columns(text: &str) -> usize {
    text.chars().count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escape_sequences_of_a_hostile_name_do_not_reach_the_terminal() {
        assert_eq!(clean("web\u{1b}[2J\r\u{202e}"), "web\u{fffd}[2J\u{fffd}\u{fffd}");
    }

    #[test]
    fn lines_never_pass_the_width() {
        assert_eq!(wrap("one two three", 7), ["one two", "three"]);
        assert_eq!(wrap("abcdefghij k", 4), ["abcd", "efgh", "ij k"]);
    }
}
