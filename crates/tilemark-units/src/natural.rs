//! The order of names for people.

/// What a name is sorted by: numbers within names count as numbers, so `n2` comes before `n10`. No two names have the same key.
pub fn natural_key(name: &str) -> Vec<(String, u64)> {
    let mut parts = Vec::new();
    let mut rest = name;
    while !rest.is_empty() {
        let (text, after) = split(rest, |character| character.is_ascii_digit());
        let (digits, after) = split(after, |character| !character.is_ascii_digit());
        // A text without a number comes before the same text with one. A number that is too large comes last.
        let number = if digits.is_empty() { 0 } else { digits.parse().unwrap_or(u64::MAX) };
        parts.push((text.to_owned(), number));
        rest = after;
    }
    // Names that differ in leading zeros only must not be taken for one.
    parts.push((name.to_owned(), 0));
    parts
}

/// The text before the first character that `is_end`, and the rest.
fn split(text: &str, is_end: impl Fn(char) -> bool) -> (&str, &str) {
    text.split_at(text.find(is_end).unwrap_or(text.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_in_names_are_sorted_as_numbers() {
        let sorted =
            ["", "1", "2a", "10", "c1", "c2", "c10", "n", "n1-2", "n1-10", "n2", "n99999999999999999999"];
        let mut names = sorted;
        names.reverse();
        names.sort_by_cached_key(|name| natural_key(name));
        assert_eq!(names, sorted);
    }

    #[test]
    fn names_that_differ_in_zeros_only_are_two() {
        assert_ne!(natural_key("n1"), natural_key("n01"));
    }
}
