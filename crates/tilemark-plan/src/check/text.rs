//! A text of a user's is plain and no longer than it has to be. It may come from anybody, and root reads it.

use crate::problem::Problem;
use serde_json::Value;

/// Bytes of a scenario's text: 160 times the longest inside the program.
pub const SCENARIO_BYTES_MAX: usize = 256 << 10;
/// Tables and lists inside each other; the format needs 6.
const DEPTH_MAX: usize = 16;

/// Refuses a text that is too long, or that a terminal would not just show: before anything of it is read or printed.
pub(crate) fn check_text(text: &str, origin: &str, kind: &str) -> Result<(), Problem> {
    if text.len() > SCENARIO_BYTES_MAX {
        let message = format!("{origin}: {} bytes are too long for a {kind}", text.len());
        return Err(Problem::new(message, format!("write {SCENARIO_BYTES_MAX} bytes at most")));
    }
    let line = |line: &str| line.chars().find(|c| c.is_control() && !"\t\r".contains(*c));
    match text.split('\n').enumerate().find_map(|(number, text)| Some((number + 1, line(text)?))) {
        Some((number, found)) => {
            let message = format!("{origin}: line {number} holds the character {found:?}");
            Err(Problem::new(message, format!("take it out: a {kind} is plain text")))
        }
        None => Ok(()),
    }
}

/// Refuses what is nested too deeply to be handled, and text that a terminal would not just show.
pub(crate) fn check_document(document: &Value, origin: &str) -> Result<(), Problem> {
    let odd = |text: &str| match text.contains(|c: char| c.is_control() && !"\t\r\n".contains(c)) {
        true => Err(Problem::new(
            format!("{origin}: {text:?} holds a character that is not printed"),
            "take it out: a scenario is plain text",
        )),
        false => Ok(()),
    };
    let mut rest = vec![(document, 1)];
    while let Some((value, depth)) = rest.pop() {
        if depth > DEPTH_MAX {
            let message = format!("{origin}: more than {DEPTH_MAX} tables and lists are inside each other");
            return Err(Problem::new(message, "the format in docs/scenarios.md needs fewer"));
        }
        match value {
            Value::String(text) => odd(text)?,
            Value::Array(items) => rest.extend(items.iter().map(|item| (item, depth + 1))),
            Value::Object(table) => {
                table.keys().try_for_each(|key| odd(key))?;
                rest.extend(table.values().map(|item| (item, depth + 1)));
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse::Draft;

    fn refused(text: &str) -> String {
        match Draft::from_toml(text, "t.toml").and_then(|draft| draft.finish()) {
            Ok(_) => String::new(),
            Err(problems) => problems.to_string(),
        }
    }

    #[test]
    fn a_text_that_is_too_long_too_deep_or_not_plain_is_refused_before_it_is_read() {
        let long = format!("schema = 1 # {}", "x".repeat(SCENARIO_BYTES_MAX));
        let many = 100_000;
        for (text, wanted) in [
            (long, "bytes are too long for a scenario"),
            ("about = \"a\u{1b}[2J\"".to_owned(), "line 1 holds the character '\\u{1b}'"),
            ("\nabout = \"a\\u001b[2J\"".to_owned(), "\"a\\u{1b}[2J\" holds a character"),
            ("\"a\\u001b[2J\" = 1".to_owned(), "holds a character that is not printed"),
            (format!("a = {}{}", "[".repeat(many), "]".repeat(many)), "t.toml"),
            (format!("a = {}{}", "[".repeat(40), "]".repeat(40)), "more than 16 tables and lists"),
            (format!("a = {}1{}", "{ a = ".repeat(30_000), " }".repeat(30_000)), "t.toml"),
            (format!("{}a = 1", "a.".repeat(many)), "t.toml"),
            (format!("[{}a]\nb = 1", "a.".repeat(many)), "t.toml"),
            (format!("{}a = 1", "a.".repeat(30)), "more than 16 tables and lists"),
        ] {
            let said = refused(&text);
            assert!(said.contains(wanted) && said.len() < 1_000, "{wanted}: {} {said:.500}", said.len());
        }
    }

    #[test]
    fn a_key_of_many_parts_makes_no_tables() {
        let mut draft = Draft::from_toml("schema = 1", "t.toml").unwrap();
        let long = format!("{}a", "a.".repeat(1_000_000));
        let said = draft.set(&long, 1.into()).unwrap_err().to_string();
        assert!(said.contains("is a key of more than 12 parts") && said.len() < 200, "{said:.500}");
    }

    #[test]
    fn the_first_of_many_mistakes_are_reported() {
        let text: String = (0..20_000).map(|number| format!("k{number} = 1\n")).collect();
        let said = refused(&text);
        assert!(said.starts_with("26 problems:") && said.contains("more than 25 mistakes"), "{said:.500}");
    }
}
