//! The files of a folder, and what is left of a Rust source without its tests.

use anyhow::{Context, Result};
use proc_macro2::{Delimiter, TokenStream, TokenTree};
use std::{
    fs,
    path::{Path, PathBuf},
};

/// The files of a folder and those below it whose names end so, those of tests aside.
pub(crate) fn files(folder: &Path, ending: &str) -> Result<Vec<PathBuf>> {
    let is_test = |stem: &str| stem == "tests" || stem == "testing" || stem.ends_with("_tests");
    files_where(folder, ending, &|stem| !is_test(stem))
}

/// The same with those of tests.
pub(crate) fn files_with_tests(folder: &Path, ending: &str) -> Result<Vec<PathBuf>> {
    files_where(folder, ending, &|_| true)
}

fn files_where(folder: &Path, ending: &str, is_wanted: &dyn Fn(&str) -> bool) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).with_context(|| folder.display().to_string())? {
        let path = entry?.path();
        let stem = path.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
        if !is_wanted(stem) {
            continue;
        } else if path.is_dir() {
            files.extend(files_where(&path, ending, is_wanted)?);
        } else if path.extension().is_some_and(|found| found == ending) {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

/// The tokens without the items that only tests have. What is inside groups is left for the next call.
pub(crate) fn without_tests(tokens: TokenStream) -> Vec<TokenTree> {
    let mut kept = Vec::new();
    let mut tokens = tokens.into_iter();
    while let Some(token) = tokens.next() {
        match &token {
            TokenTree::Group(group)
                if group.delimiter() == Delimiter::Bracket && is_test(&group.stream()) =>
            {
                // The sign before the attribute, and the test itself.
                kept.pop();
                tokens.by_ref().find(is_end);
            }
            _ => kept.push(token),
        }
    }
    kept
}

/// Whether an attribute marks what only tests have.
fn is_test(attribute: &TokenStream) -> bool {
    let text = attribute.to_string().replace(' ', "");
    text == "test" || (text.starts_with("cfg(") && text.contains("test") && !text.contains("not("))
}

/// Whether an item ends here: with its body, or with its declaration.
fn is_end(token: &TokenTree) -> bool {
    match token {
        TokenTree::Group(group) => group.delimiter() == Delimiter::Brace,
        TokenTree::Punct(sign) => sign.as_char() == ';',
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tests_are_left_out_and_what_follows_them_is_kept() {
        let source =
            "#[cfg(test)] #[path = \"x\"] mod x; use a; #[test] fn f() { b } #[cfg(not(test))] fn c() { d }";
        let kept: TokenStream = without_tests(source.parse().unwrap()).into_iter().collect();
        let right: TokenStream = "use a; #[cfg(not(test))] fn c() { d }".parse().unwrap();
        assert_eq!(kept.to_string(), right.to_string());
    }
}
