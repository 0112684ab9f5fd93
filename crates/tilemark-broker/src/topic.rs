//! Topic patterns: words between dots, `*` for one word, `#` for any number of words.

/// Whether a routing key fits a pattern.
pub(crate) fn matches(pattern: &[u8], key: &[u8]) -> bool {
    let pattern: Vec<&[u8]> = words(pattern);
    let key: Vec<&[u8]> = words(key);
    let mut at = (0, 0);
    // Where to go on when a `#` has to swallow one more word, as in matching file names with `*`.
    let mut retry: Option<(usize, usize)> = None;
    loop {
        match pattern.get(at.0) {
            Some(&b"#") => {
                retry = Some((at.0 + 1, at.1));
                at.0 += 1;
                continue;
            }
            Some(&word) if at.1 < key.len() && (word == b"*" || word == key[at.1]) => {
                at = (at.0 + 1, at.1 + 1);
                continue;
            }
            None if at.1 == key.len() => return true,
            _ => {}
        }
        match retry {
            Some((after, swallowed)) if swallowed < key.len() => {
                retry = Some((after, swallowed + 1));
                at = (after, swallowed + 1);
            }
            _ => return false,
        }
    }
}

fn words(text: &[u8]) -> Vec<&[u8]> {
    if text.is_empty() { Vec::new() } else { text.split(|&byte| byte == b'.').collect() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_fit_the_keys_that_the_specification_says() {
        for (pattern, key, fits) in [
            ("*.stock.#", "usd.stock", true),
            ("*.stock.#", "eur.stock.db", true),
            ("*.stock.#", "stock.nasdaq", false),
            ("#", "", true),
            ("#", "a.b.c", true),
            ("*", "", false),
            ("*", "a", true),
            ("*", "a.b", false),
            ("a.#.b", "a.b", true),
            ("a.#.b", "a.x.b.y.b", true),
            ("a.#.b", "a.x.b.y", false),
            ("#.a.#", "b.a", true),
            ("#.a.#.b", "a.a.b", true),
            ("a.*.c", "a..c", true),
            ("", "", true),
            ("", "a", false),
            ("a", "", false),
        ] {
            assert_eq!(matches(pattern.as_bytes(), key.as_bytes()), fits, "{pattern} {key}");
        }
    }
}
