//! The kernel's small notations, and how a failed reading is worded.

use std::fmt::Display;
use std::str::FromStr;

use tilemark_plan::facts::Fact;

use crate::view::HostView;

/// Numbers in a list: as many processors as Linux can be built for (`NR_CPUS`, arch/x86/Kconfig). Of NUMA nodes it has fewer.
const LIST_MAX: usize = 8192;

/// Reads the kernel's list of numbers (`0-3,8,10-11`); nothing where the text is none, or names more than 8192.
pub fn parse_list(text: &str) -> Option<Vec<u32>> {
    let mut numbers = Vec::new();
    for part in text.trim().split(',').filter(|part| !part.is_empty()) {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last): (u32, u32) = (first.parse().ok()?, last.parse().ok()?);
        let count = usize::try_from(last.checked_sub(first)?).ok()?.checked_add(1)?;
        if count > LIST_MAX - numbers.len() {
            return None;
        }
        numbers.extend(first..=last);
    }
    Some(numbers)
}

/// Why something at `path` is missing.
pub(super) fn missing<T>(path: &str, reason: impl Display) -> Fact<T> {
    Fact::Missing(format!("{path}: {reason}"))
}

/// A file's text without white space around it.
pub(super) fn text(host: &dyn HostView, path: &str) -> Fact<String> {
    match host.read(path) {
        Err(error) => missing(path, error),
        Ok(text) if text.trim().is_empty() => missing(path, "empty"),
        Ok(text) => Fact::Value(text.trim().to_owned()),
    }
}

/// A file that holds one number.
pub(super) fn number<T: FromStr>(host: &dyn HostView, path: &str) -> Fact<T> {
    match text(host, path) {
        Fact::Missing(reason) => Fact::Missing(reason),
        Fact::Value(text) => {
            text.parse().map_or_else(|_| missing(path, format!("`{text}` is not a number")), Fact::Value)
        }
    }
}

/// The word in brackets of a file like `always [madvise] never`.
pub(super) fn selected(host: &dyn HostView, path: &str) -> Fact<String> {
    match text(host, path) {
        Fact::Missing(reason) => Fact::Missing(reason),
        Fact::Value(text) => {
            match text.split_whitespace().find_map(|word| word.strip_prefix('[')?.strip_suffix(']')) {
                Some(word) => Fact::Value(word.to_owned()),
                None => missing(path, format!("nothing is selected in `{text}`")),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_read_as_the_kernel_writes_them() {
        assert_eq!(parse_list("0-3,8,10-11\n"), Some(vec![0, 1, 2, 3, 8, 10, 11]));
        assert_eq!(parse_list("0\n"), Some(vec![0]));
        assert_eq!(parse_list("\n"), Some(vec![]));
        assert_eq!(parse_list("a-b"), None);
    }
}
