//! PROMISES.md names the test of each promise; one that was renamed or removed would prove nothing.

use crate::workspace;
use anyhow::{Context, Result, bail};
use std::{fs, path::Path};

const FILE: &str = "PROMISES.md";

/// Fails where PROMISES.md names a test that is not there.
pub(crate) fn check() -> Result<()> {
    let workspace = workspace();
    let text = fs::read_to_string(workspace.join(FILE)).with_context(|| format!("cannot read {FILE}"))?;
    let missing: Vec<String> =
        tests(&text).filter(|(path, name)| !is_there(&workspace, path, name)).map(told).collect();
    if missing.is_empty() { Ok(()) } else { bail!("{FILE} names what is not there: {}", missing.join(", ")) }
}

/// File and function of each test that is named between backticks, as `run/src/lock.rs::a_second_run_is_told`.
fn tests(text: &str) -> impl Iterator<Item = (&str, &str)> {
    text.lines()
        .flat_map(|line| line.split('`').skip(1).step_by(2))
        .filter_map(|quoted| quoted.split_once("::"))
        .filter(|(path, _)| path.ends_with(".rs"))
}

/// A path stands below `crates/tilemark-`; but for those of the command and of the developer's commands.
fn is_there(workspace: &Path, path: &str, name: &str) -> bool {
    let file = match path.split_once('/') {
        Some(("tilemark", _)) => workspace.join("crates").join(path),
        Some(("xtask", _)) => workspace.join(path),
        _ => workspace.join(format!("crates/tilemark-{path}")),
    };
    fs::read_to_string(file).is_ok_and(|source| source.contains(&format!("fn {name}(")))
}

fn told((path, name): (&str, &str)) -> String {
    format!("{path}::{name}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_tests_between_backticks_are_read() {
        let text = "A test is named `crate/path::name`.\n| it is so | `run/src/lock.rs::is_told`, `run/a.rs::b`; see c.rs::d, `x` |";
        assert_eq!(tests(text).collect::<Vec<_>>(), [("run/src/lock.rs", "is_told"), ("run/a.rs", "b")]);
    }

    #[test]
    fn a_test_that_is_not_there_is_found_out() {
        let is_there = |path, name| is_there(&workspace(), path, name);
        assert!(is_there("xtask/src/promises.rs", "a_test_that_is_not_there_is_found_out"));
        assert!(is_there("tilemark/tests/store.rs", "a_mariadb_store_is_filled_loaded_and_audited"));
        assert!(is_there("run/src/lock.rs", "a_second_run_is_told_the_name_of_the_first"));
        assert!(!is_there("run/src/lock.rs", "a_second_run_is_told_the_name_of_the"));
        assert!(!is_there("run/src/no.rs", "check"));
    }

    #[test]
    fn every_test_that_a_promise_names_is_there() {
        check().unwrap();
    }
}
