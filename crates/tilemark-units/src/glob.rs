//! Names with wildcards.

/// Whether a whole name matches a pattern, in which `*` is any text and `?` any one character; all else is itself.
pub fn matches_glob(pattern: &str, name: &str) -> bool {
    let (pattern, name): (Vec<char>, Vec<char>) = (pattern.chars().collect(), name.chars().collect());
    let (mut at, mut seen) = (0, 0);
    // Where the last `*` is, and how much of the name it has taken: all that a mismatch needs to go back to.
    let mut star: Option<(usize, usize)> = None;
    while seen < name.len() {
        match pattern.get(at) {
            Some('*') => {
                star = Some((at, seen));
                at += 1;
            }
            Some(&wanted) if wanted == '?' || wanted == name[seen] => {
                at += 1;
                seen += 1;
            }
            _ => {
                let Some((place, taken)) = star else { return false };
                star = Some((place, taken + 1));
                at = place + 1;
                seen = taken + 1;
            }
        }
    }
    pattern[at..].iter().all(|left| *left == '*')
}

#[cfg(test)]
mod tests {
    use super::matches_glob;

    #[test]
    fn a_star_is_any_text_and_a_question_mark_one_character() {
        for (pattern, name, expected) in [
            ("jack", "jack", true),
            ("jack", "jacky", false),
            ("node0-*", "node0-web", true),
            ("node0-*", "node0-", true),
            ("node0-*", "node1-web", false),
            ("*-db", "tile-1-db", true),
            ("*-db", "tile-1-db2", false),
            ("a*b*c", "aXbYbZc", true),
            ("a*b*c", "aXbYbZ", false),
            ("web?", "web1", true),
            ("web?", "web", false),
            ("web?", "web12", false),
            ("*", "", true),
            ("", "", true),
            ("", "a", false),
            ("?", "é", true),
            // A pattern that goes back at every star takes no longer for it.
            (
                "*a*a*a*a*a*a*a*a*a*b",
                "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
                false,
            ),
        ] {
            assert_eq!(matches_glob(pattern, name), expected, "{pattern} {name}");
        }
    }
}
