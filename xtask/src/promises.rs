//! PROMISES.md names the test of each promise, and SECURITY.md those of each protection; one that was renamed, removed or is never run
//! would prove nothing.

use crate::cargo::workspace;
use anyhow::{Context, Result, bail};
use std::{
    fs,
    path::{Path, PathBuf},
};

const FILES: [&str; 2] = ["PROMISES.md", "SECURITY.md"];

/// What runs the tests that a test run leaves out. A row that names one of them says with what its proof is run.
const RUNNERS: [&str; 3] = ["make lab", "cargo xtask soak", "cargo xtask bench"];

/// Fails where one of the files names a test that is not there, or that no test run runs.
pub(crate) fn check() -> Result<()> {
    let workspace = workspace();
    for file in FILES {
        let text = fs::read_to_string(workspace.join(file)).with_context(|| format!("cannot read {file}"))?;
        let faults = faults(&workspace, &text);
        if !faults.is_empty() {
            bail!("{file}: {}", faults.join(", "));
        }
    }
    Ok(())
}

/// Prints the name of every test as the sentence that it is, below its file.
pub(crate) fn list() -> Result<()> {
    let mut files = Vec::new();
    for folder in ["crates", "xtask"] {
        rust_files(&workspace().join(folder), &mut files)?;
    }
    files.sort();
    for path in files {
        let source = fs::read_to_string(&path)?;
        let tests = tests_in(&source);
        if !tests.is_empty() {
            println!("{}", path.strip_prefix(workspace()).unwrap_or(&path).display());
        }
        tests.iter().for_each(|name| println!("  {}", name.replace('_', " ")));
    }
    Ok(())
}

fn rust_files(folder: &Path, files: &mut Vec<PathBuf>) -> Result<()> {
    for entry in fs::read_dir(folder).with_context(|| folder.display().to_string())? {
        let path = entry?.path();
        if path.is_dir() {
            rust_files(&path, files)?;
        } else if path.extension().is_some_and(|ending| ending == "rs") {
            files.push(path);
        }
    }
    Ok(())
}

/// The names of the tests of a source, those that a macro makes too.
fn tests_in(source: &str) -> Vec<&str> {
    let lines: Vec<&str> = source.lines().map(str::trim).collect();
    let mut tests = Vec::new();
    for (place, line) in lines.iter().enumerate() {
        if let Some((name, _)) = line.strip_prefix("fn ").and_then(|rest| rest.split_once('(')) {
            let mut above = lines[..place].iter().rev().take_while(|line| line.starts_with(['#', '/']));
            if above.any(|line| *line == "#[test]") {
                tests.push(name);
            }
        } else if let Some(inside) = given_to_macro(line) {
            let is_ours = |name: &&str| lines.iter().any(|line| line.starts_with(&format!("fn {name}(")));
            let names = inside.map(str::trim).filter(is_ours);
            tests.extend(names.filter(|name| is_made_by_macro(&lines, name)));
        }
    }
    tests
}

/// What a text says about tests that are not there, or that no test run runs.
pub(crate) fn faults(workspace: &Path, text: &str) -> Vec<String> {
    let mut faults = Vec::new();
    for line in text.lines() {
        let is_run_apart = RUNNERS.iter().any(|runner| line.contains(runner));
        for (path, name) in tests_named(line) {
            let lacks = match found(workspace, path, name) {
                Found::Test => continue,
                Found::Ignored if is_run_apart => continue,
                Found::Ignored => "is ignored, and its row does not say what runs it",
                Found::NoTest => "is not a #[test]",
                Found::Nothing => "is not there",
            };
            faults.push(format!("{path}::{name} {lacks}"));
        }
        let of_no_test = quoted(line).filter(|path| path.ends_with(".rs") && !path.contains("::"));
        faults.extend(of_no_test.map(|path| format!("{path} is a file: its row names no test in it")));
    }
    faults
}

/// File and function of each test that a line names between backticks, as `run/src/lock.rs::a_second_run_is_refused`.
pub(crate) fn tests_named(line: &str) -> impl Iterator<Item = (&str, &str)> {
    quoted(line).filter_map(|quoted| quoted.split_once("::")).filter(|(path, _)| path.ends_with(".rs"))
}

/// What a line has between backticks.
fn quoted(line: &str) -> impl Iterator<Item = &str> {
    line.split('`').skip(1).step_by(2)
}

/// What is found where a test is to be.
#[derive(Debug, PartialEq, Eq)]
enum Found {
    /// One that every test run runs.
    Test,
    /// One that only a person or another command runs.
    Ignored,
    /// A function that is no test.
    NoTest,
    /// No function of this name, or no such file.
    Nothing,
}

/// A path is below `crates/tilemark-`; but for those of the command and of the developer's commands.
fn found(workspace: &Path, path: &str, name: &str) -> Found {
    let file = match path.split_once('/') {
        Some(("tilemark", _)) => workspace.join("crates").join(path),
        Some(("xtask", _)) => workspace.join(path),
        _ => workspace.join(format!("crates/tilemark-{path}")),
    };
    fs::read_to_string(file).map_or(Found::Nothing, |source| found_in(&source, name))
}

fn found_in(source: &str, name: &str) -> Found {
    let lines: Vec<&str> = source.lines().map(str::trim).collect();
    let head = format!("fn {name}(");
    let Some(place) = lines.iter().position(|line| line.starts_with(&head)) else { return Found::Nothing };
    // Between the function before and this one are its attributes and comments.
    let above =
        || lines[..place].iter().rev().take_while(|line| line.starts_with('#') || line.starts_with("//"));
    let is_test = above().any(|line| *line == "#[test]") || is_made_by_macro(&lines, name);
    let is_ignored = above().any(|line| line.starts_with("#[ignore"));
    match (is_test, is_ignored) {
        (false, _) => Found::NoTest,
        (true, true) => Found::Ignored,
        (true, false) => Found::Test,
    }
}

/// Whether a macro of this file makes a test of each name that it is given, and is given this one.
fn is_made_by_macro(lines: &[&str], name: &str) -> bool {
    let makes_tests = lines.iter().any(|line| line.contains("#[test] fn $name()"));
    let mut names = lines.iter().filter_map(|line| given_to_macro(line)).flatten();
    makes_tests && names.any(|named| named.trim() == name)
}

/// What is between the commas of a macro's call on one line.
fn given_to_macro(line: &str) -> Option<impl Iterator<Item = &str>> {
    let inside = line.split_once("!(").and_then(|(_, rest)| rest.strip_suffix(");"))?;
    Some(inside.split(','))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_tests_between_backticks_are_read() {
        let line = "| it is so | `run/src/lock.rs::is_refused`, `run/a.rs::b`; see c.rs::d, `x` |";
        assert_eq!(
            tests_named(line).collect::<Vec<_>>(),
            [("run/src/lock.rs", "is_refused"), ("run/a.rs", "b")]
        );
        assert_eq!(tests_named("A test is named `crate/path::name`.").count(), 0);
    }

    #[test]
    fn a_test_that_is_not_there_is_found_out() {
        let is_there = |path, name| found(&workspace(), path, name) == Found::Test;
        assert!(is_there("xtask/src/promises.rs", "a_test_that_is_not_there_is_found_out"));
        assert!(is_there("tilemark/tests/store.rs", "a_mariadb_store_is_filled_loaded_and_audited"));
        assert!(is_there("run/src/job/lock.rs", "a_second_run_is_refused_with_the_name_of_the_first"));
        assert!(!is_there("run/src/job/lock.rs", "a_second_run_is_refused_with_the_name_of_the"));
        assert!(!is_there("run/src/no.rs", "check"));
    }

    #[test]
    fn a_function_that_no_test_run_runs_proves_nothing() {
        let source = "\
            #[test]\nfn runs() {}\n\
            /// Helps.\nfn helps() {}\n\
            #[test]\n#[ignore = \"minutes; `make lab` runs it\"]\nfn waits() {}\n\
            fn forgotten(of: u32) {}\n";
        assert_eq!(found_in(source, "runs"), Found::Test);
        assert_eq!(found_in(source, "helps"), Found::NoTest);
        assert_eq!(found_in(source, "waits"), Found::Ignored);
        assert_eq!(found_in(source, "forgotten"), Found::NoTest);
        assert_eq!(found_in(source, "run"), Found::Nothing);
        let on_both = "fn one() {}\nfn two() {}\n$(#[test] fn $name() { super::$name(DatabaseKind::Mariadb); })*\non_both!(zero, one);\n";
        assert_eq!(found_in(on_both, "one"), Found::Test);
        assert_eq!(found_in(on_both, "two"), Found::NoTest);
        assert_eq!(tests_in(source), ["runs", "waits"]);
        assert_eq!(tests_in(on_both), ["one"]);
    }

    #[test]
    fn an_ignored_test_needs_a_word_of_what_runs_it() {
        let name =
            "xtask/tests/lab.rs::thirty_two_kvm_clones_have_their_own_identity_entropy_and_the_hosts_clock";
        let of = |row: &str| faults(&workspace(), &row.replace("TEST", &format!("`{name}`")));
        assert_eq!(
            of("| clones | TEST |"),
            [format!("{name} is ignored, and its row does not say what runs it")]
        );
        assert_eq!(of("| clones | TEST (`make lab`) |"), Vec::<String>::new());
    }

    #[test]
    fn a_file_without_a_test_proves_nothing() {
        let faults = faults(&workspace(), "| telemetry | `host/tests/hostile.rs` |");
        assert_eq!(faults, ["host/tests/hostile.rs is a file: its row names no test in it"]);
    }

    #[test]
    fn every_test_that_a_promise_or_a_protection_names_is_there_and_is_run() {
        check().unwrap();
    }

    #[test]
    fn every_protection_names_a_test() {
        let text = fs::read_to_string(workspace().join("SECURITY.md")).unwrap();
        let (_, table) = text.split_once("## Protection").unwrap();
        let rows = table.lines().filter(|line| line.starts_with("| **"));
        let without: Vec<&str> = rows.filter(|row| tests_named(row).next().is_none()).collect();
        assert!(without.is_empty(), "{without:#?}");
    }
}
