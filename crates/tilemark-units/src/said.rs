//! What a library says about a value that it cannot read, in the words of this program.

/// A library's message of a value that has another type, of a key that lacks or is too much, or of a word that is none: what is there,
/// and what was meant. Any other message, such as one of our own units, is returned unchanged.
pub fn in_our_words(message: &str) -> String {
    let said = missing(message).or_else(|| unknown(message)).or_else(|| wrong_type(message));
    said.unwrap_or_else(|| message.to_owned())
}

/// Keys or words that are named in one message; the rest are counted.
const NAMED_MAX: usize = 40;

fn missing(message: &str) -> Option<String> {
    let key = quoted(message.strip_prefix("missing field ")?).next()?;
    Some(format!("`{key}` is missing"))
}

/// `unknown field `rte`, expected one of `rate`, `loop``
fn unknown(message: &str) -> Option<String> {
    let (what, rest) =
        match (message.strip_prefix("unknown field "), message.strip_prefix("unknown variant ")) {
            (Some(rest), _) => ("key", rest),
            (_, Some(rest)) => ("value", rest),
            _ => return None,
        };
    let (found, known) =
        rest.split_once(", expected").or_else(|| rest.split_once(", there are")).unwrap_or((rest, ""));
    Some(there_is_no(what, found.trim_matches('`'), &quoted(known).collect::<Vec<_>>()))
}

/// ``there is no key `rte`. Did you mean `rate`? There are: `rate`, `loop` ``
pub fn there_is_no(what: &str, found: &str, known: &[&str]) -> String {
    let there_is_none = format!("there is no {what} `{found}`");
    if known.is_empty() {
        return there_is_none;
    }
    let meant = did_you_mean(found, known);
    let stop = if meant.is_empty() { "." } else { "" };
    format!("{there_is_none}{meant}{stop} There are: {}", listed(known))
}

/// The end of a sentence, as ``. Did you mean `rate`?``, where a known word is near, or nothing.
pub fn did_you_mean(found: &str, known: &[&str]) -> String {
    nearest(found, known).map(|near| format!(". Did you mean `{near}`?")).unwrap_or_default()
}

/// Words in backticks, with commas; of very many the first.
pub fn listed(words: &[&str]) -> String {
    let named: Vec<String> = words.iter().take(NAMED_MAX).map(|word| format!("`{word}`")).collect();
    let more = words.len().saturating_sub(NAMED_MAX);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    format!("{}{more}", named.join(", "))
}

/// `invalid type: integer `5`, expected a string`
fn wrong_type(message: &str) -> Option<String> {
    let rest = ["invalid type: ", "invalid value: ", "invalid length "];
    let (place, rest) =
        rest.iter().enumerate().find_map(|(place, start)| Some((place, message.strip_prefix(start)?)))?;
    let (found, expected) = rest.rsplit_once(", expected ")?;
    if let Some(number) = too_large(found, expected) {
        return Some(format!("the number {number} is too large"));
    }
    let is =
        if place == 2 { format!("it has {found} items") } else { format!("it is {}", found_words(found)) };
    Some(format!("{is}, and {} is meant", expected_words(expected)))
}

/// A whole number that does not fit where one is meant. TOML itself holds 64 bits.
fn too_large<'f>(found: &'f str, expected: &str) -> Option<&'f str> {
    let number = quoted(found.strip_prefix("integer ")?).next()?;
    let is_for_whole_numbers = matches!(expected, "u8" | "u16" | "u32" | "u64" | "usize");
    let is_too_large = expected == "any valid TOML value" || is_for_whole_numbers && !number.starts_with('-');
    is_too_large.then_some(number)
}

fn found_words(found: &str) -> String {
    let (kind, value) = found.split_once(' ').unwrap_or((found, ""));
    let value = value.trim_matches('`');
    match kind {
        "integer" => format!("the number {value}"),
        "floating" => format!("the number {}", value.trim_start_matches("point ").trim_matches('`')),
        "string" => format!("the text {value}"),
        "boolean" => format!("`{value}`"),
        "sequence" => "a list".to_owned(),
        "map" => "a table".to_owned(),
        "unit" | "null" | "Option" => "nothing".to_owned(),
        _ => found.to_owned(),
    }
}

fn expected_words(expected: &str) -> String {
    let words = match expected {
        "a string" | "a borrowed string" | "string" | "string or map" => "a text in quotes",
        "u8" | "u16" | "u32" | "u64" | "usize" => "a whole number from 0",
        "i8" | "i16" | "i32" | "i64" | "isize" => "a whole number",
        "a nonzero u32" | "a nonzero u64" | "a nonzero u16" => "a whole number from 1",
        "f32" | "f64" => "a number",
        "a boolean" => "`true` or `false`",
        "a sequence" => "a list in brackets",
        "a map" => "a table",
        _ if expected.starts_with("struct ") => "a table",
        _ if expected.starts_with("enum ") || expected.starts_with("variant ") => {
            "one of its words in quotes"
        }
        _ if expected.starts_with("a tuple") || expected.starts_with("an array") => "a list in brackets",
        _ => expected,
    };
    words.to_owned()
}

/// All that is between backticks.
fn quoted(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

/// The known word that differs least, where it differs little.
pub fn nearest<'k>(found: &str, known: &[&'k str]) -> Option<&'k str> {
    let near = known.iter().map(|word| (distance(found, word), *word)).min()?;
    (near.0 <= 2 && near.0 < found.chars().count()).then_some(near.1)
}

/// Letters to change, add or take away to make one text of the other (Levenshtein's distance). `usize::MAX` where one is longer than any
/// name: the time grows with the square of the length.
pub fn distance(one: &str, other: &str) -> usize {
    const LONGEST: usize = 100;
    let (one, other): (Vec<char>, Vec<char>) = (one.chars().collect(), other.chars().collect());
    if one.len().max(other.len()) > LONGEST {
        return usize::MAX;
    }
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (i, from) in one.iter().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], i + 1);
        for (j, to) in other.iter().enumerate() {
            let changed = diagonal + usize::from(from != to);
            diagonal = row[j + 1];
            row[j + 1] = changed.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[other.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_library_s_message_says_what_is_there_and_what_is_meant() {
        for (message, words) in [
            ("missing field `ladder`", "`ladder` is missing"),
            (
                "unknown field `rte`, expected one of `name`, `rate`",
                "there is no key `rte`. Did you mean `rate`? There are: `name`, `rate`",
            ),
            ("unknown field `rte`, there are no fields", "there is no key `rte`"),
            (
                "unknown variant `frobnicate`, expected `clone` or `boot`",
                "there is no value `frobnicate`. There are: `clone`, `boot`",
            ),
            (
                "invalid type: integer `5`, expected a string",
                "it is the number 5, and a text in quotes is meant",
            ),
            (
                "invalid type: floating point `1.5`, expected u32",
                "it is the number 1.5, and a whole number from 0 is meant",
            ),
            (
                "invalid value: integer `-1`, expected u32",
                "it is the number -1, and a whole number from 0 is meant",
            ),
            (
                "invalid type: string \"a, b\", expected a sequence",
                "it is the text \"a, b\", and a list in brackets is meant",
            ),
            ("invalid value: integer `99999999999`, expected u32", "the number 99999999999 is too large"),
            (
                "invalid type: integer `99999999999999999999` as i128, expected any valid TOML value",
                "the number 99999999999999999999 is too large",
            ),
            ("invalid type: boolean `true`, expected struct Ladder", "it is `true`, and a table is meant"),
            ("invalid type: sequence, expected f64", "it is a list, and a number is meant"),
            (
                "`soon` is not a length of time such as `50ms`",
                "`soon` is not a length of time such as `50ms`",
            ),
        ] {
            assert_eq!(in_our_words(message), words);
        }
    }

    #[test]
    fn the_nearest_word_is_near() {
        assert_eq!(distance("kitten", "sitting"), 3);
        assert_eq!(nearest("tile", &["tiles", "title"]), Some("tiles"));
        assert_eq!(nearest("ab", &["cd"]), None);
        assert_eq!(nearest(&"x".repeat(10_000), &["rate"]), None);
    }
}
