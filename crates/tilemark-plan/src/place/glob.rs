//! Names with `*` in them.

/// Whether a name is what a pattern says: `*` matches any text, also for none, and every other character for itself.
pub(super) fn matches(pattern: &str, name: &str) -> bool {
    let mut parts = pattern.split('*');
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = name.strip_prefix(first) else { return false };
    let mut parts: Vec<&str> = parts.collect();
    let Some(last) = parts.pop() else { return rest.is_empty() };
    for part in parts {
        // The first place that fits leaves the most for the parts after it.
        let Some(at) = rest.find(part) else { return false };
        rest = &rest[at + part.len()..];
    }
    rest.ends_with(last)
}

#[cfg(test)]
mod tests {
    use super::matches;

    #[test]
    fn a_star_stands_for_any_text() {
        for (pattern, name, wanted) in [
            ("tile-001-web", "tile-001-web", true),
            ("tile-001-web", "tile-001-web2", false),
            ("*", "tile-001-web", true),
            ("*-web", "tile-001-web", true),
            ("*-web", "tile-001-web-2", false),
            ("tile-00*-web", "tile-003-web", true),
            ("tile-00*-web", "tile-013-web", false),
            ("tile-*-*b", "tile-001-web", true),
            ("*a*a", "a", false),
            ("*a*a", "aa", true),
            ("", "a", false),
        ] {
            assert_eq!(matches(pattern, name), wanted, "{pattern} {name}");
        }
    }
}
