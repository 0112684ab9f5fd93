//! Foreign text on its way to a terminal: what guests, records, images and files say.
//!
//! A terminal obeys what it prints: an escape sequence moves the cursor, changes colours, sets the window's title or makes
//! the terminal type something itself. Whoever writes a name, a console or a file would rule the terminal of whoever reads it.

use std::{borrow::Cow, fmt::Write};

/// Whether a terminal would obey this character, or a reader not see it as it is.
///
/// Control characters (the C1 set too, which begins escape sequences with one character), signs that change the direction of
/// writing, and signs without any width. Line ends and tabs are control characters.
pub fn is_unprintable(character: char) -> bool {
    character.is_control()
        || matches!(character,
            // Direction of writing.
            '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}'
            // Line and paragraph ends.
            | '\u{2028}' | '\u{2029}'
            // No width: not joiners, which scripts of India and Persia need.
            | '\u{ad}' | '\u{200b}' | '\u{2060}'..='\u{2064}' | '\u{206a}'..='\u{206f}' | '\u{feff}'
            | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
}

/// Text of several lines, fit for a terminal: line ends and tabs stay, everything else that is not printable is shown by its
/// number, such as `\u{1b}`. A carriage return right before a line end goes.
///
/// ```
/// assert_eq!(tilemark_units::printable("up\r\n\u{1b}[2J\tdown"), "up\n\\u{1b}[2J\tdown");
/// ```
pub fn printable(text: &str) -> Cow<'_, str> {
    escaped(text, |character| matches!(character, '\n' | '\t'), show_number)
}

/// The same of text that must stay on one line: line ends and tabs are shown by their number too.
pub fn printable_line(text: &str) -> Cow<'_, str> {
    escaped(text, |_| false, show_number)
}

/// A JSON document, fit for a terminal. It means the same: its strings hold the same characters.
pub fn printable_json(document: &str) -> Cow<'_, str> {
    escaped(
        document,
        |character| matches!(character, '\n' | '\t'),
        |out, character| {
            for unit in character.encode_utf16(&mut [0; 2]) {
                write!(out, "\\u{unit:04x}").expect("strings take all");
            }
        },
    )
}

/// Text in our own colours, fit for a terminal: only the sequences that Tilemark itself prints stay.
///
/// Who paints foreign text makes it [`printable`] before; this is for what was forgotten.
pub fn printable_painted(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('\u{1b}') {
        out.push_str(&printable(&rest[..at]));
        let length = colour_length(&rest[at..]).unwrap_or(0);
        let (colour, after) = rest[at..].split_at(length.max(1));
        if length == 0 {
            show_number(&mut out, '\u{1b}')
        } else {
            out.push_str(colour)
        }
        rest = after;
    }
    out.push_str(&printable(rest));
    out
}

/// What Tilemark paints with: `ESC [ code m`. A code that hides text, blinks or swaps colours is not among them.
const COLOURS: [&str; 10] = ["0", "1", "2", "31", "32", "33", "31;1", "32;1", "33;1", "9;2"];

/// Length of the sequence at the beginning, if it is one of [`COLOURS`].
fn colour_length(text: &str) -> Option<usize> {
    let (code, _) = text.strip_prefix("\u{1b}[")?.split_once('m')?;
    COLOURS.contains(&code).then_some(2 + code.len() + 1)
}

fn show_number(out: &mut String, character: char) {
    write!(out, "{}", character.escape_unicode()).expect("strings take all");
}

fn escaped(text: &str, stays: impl Fn(char) -> bool, show: impl Fn(&mut String, char)) -> Cow<'_, str> {
    let is_bad = |character: char| is_unprintable(character) && !stays(character);
    let Some(first) = text.find(is_bad) else { return Cow::Borrowed(text) };
    let mut out = text[..first].to_owned();
    let mut characters = text[first..].chars().peekable();
    while let Some(character) = characters.next() {
        match character {
            '\r' if stays('\n') && characters.peek() == Some(&'\n') => {}
            bad if is_bad(bad) => show(&mut out, bad),
            good => out.push(good),
        }
    }
    Cow::Owned(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// What an attacker would send: clear the screen, set a title, a C1 sequence, overwrite a line, erase characters, turn
    /// the direction of writing, end a string, ring, hide text.
    const ATTACKS: [&str; 12] = [
        "\u{1b}[2J",
        "\u{1b}]0;owned\u{7}",
        "\u{1b}P+q\u{1b}\\",
        "\u{9b}2J",
        "\u{9d}0;owned\u{9c}",
        "trusted\rnot trusted",
        "not trusted\u{8}\u{8}\u{8}",
        "\u{202e}detsurt",
        "\u{2066}a\u{2069}",
        "\u{7f}\u{0}\u{b}\u{c}\u{e}\u{f}",
        "\u{85}\u{2028}\u{200b}\u{feff}",
        "\u{1b}[8mhidden\u{1b}c\u{1b}[?1049h",
    ];

    fn obeyed(text: &str) -> Vec<char> {
        text.chars().filter(|character| is_unprintable(*character)).collect()
    }

    #[test]
    fn no_attack_reaches_a_terminal() {
        for attack in ATTACKS {
            assert_eq!(obeyed(&printable(attack)), [], "{attack:?}");
            assert_eq!(obeyed(&printable_line(attack)), [], "{attack:?}");
            assert_eq!(obeyed(&printable_json(attack)), [], "{attack:?}");
            assert_eq!(obeyed(&printable_painted(attack)), [], "{attack:?}");
        }
    }

    #[test]
    fn what_is_not_printable_can_still_be_read() {
        assert_eq!(printable("a\u{1b}[2J\u{9b}\u{202e}b"), "a\\u{1b}[2J\\u{9b}\\u{202e}b");
        assert_eq!(printable("a\r\nb\rc\td"), "a\nb\\u{d}c\td");
        assert_eq!(printable_line("a\r\nb\tc"), "a\\u{d}\\u{a}b\\u{9}c");
    }

    #[test]
    fn ordinary_text_of_any_language_stays() {
        for text in ["", "tile-001-web", "Größe 3 µs ± 1 %", "ক্ষ نیم‌فاصله 中文 👩‍💻", "a\n\tb\n"]
        {
            assert!(matches!(printable(text), Cow::Borrowed(same) if same == text));
        }
    }

    #[test]
    fn colours_of_ours_stay_and_nothing_else_that_begins_as_they_do() {
        for code in COLOURS {
            let ours = format!("\u{1b}[{code}mtrusted\u{1b}[0m\n");
            assert_eq!(printable_painted(&ours), ours);
        }
        for foreign in [
            "\u{1b}[2J",
            "\u{1b}[",
            "\u{1b}",
            "\u{1b}[1\u{1b}[2J",
            "\u{1b}[1;2;3;4;5;6m",
            "\u{1b}]m",
            // Blinks, swaps colours, hides text, black on whatever is behind it.
            "\u{1b}[5m",
            "\u{1b}[7m",
            "\u{1b}[8m",
            "\u{1b}[30m",
            "\u{1b}[m",
        ] {
            assert_eq!(obeyed(&printable_painted(foreign)), [], "{foreign:?}");
        }
    }

    proptest! {
        #[test]
        fn nothing_that_a_terminal_obeys_is_left_of_any_text(text in any::<String>()) {
            prop_assert_eq!(obeyed(&printable_line(&text)), []);
            let lines = printable(&text).replace(['\n', '\t'], "");
            prop_assert_eq!(obeyed(&lines), []);
        }

        #[test]
        fn a_json_document_means_the_same(text in any::<String>()) {
            let document = format!("\"{}\"", text.replace(['\\', '"'], "").replace(|c: char| c < ' ', ""));
            let shown = printable_json(&document);
            prop_assert_eq!(obeyed(&shown), []);
            // What was shown by its number, read back.
            let back: Vec<u16> = units(&shown);
            prop_assert_eq!(String::from_utf16(&back).unwrap(), document);
        }
    }

    /// The UTF-16 units of a document in which `\uXXXX` is the only escape.
    fn units(document: &str) -> Vec<u16> {
        let mut parts = document.split("\\u");
        let mut units: Vec<u16> = parts.next().unwrap().encode_utf16().collect();
        for part in parts {
            units.push(u16::from_str_radix(&part[..4], 16).unwrap());
            units.extend(part[4..].encode_utf16());
        }
        units
    }
}
