//! The attacks on the walls, in full: every test that the table of walls in SECURITY.md names, with those that are too long for every
//! test run. **A new attack is added there**: in the row of its wall, as `` `crate/src/file.rs::name` ``. One that is long is
//! `#[ignore = "long; cargo xtask soak runs it"]`.

use crate::{
    bench::{Bench, test_with_guests},
    cargo::workspace,
    promises::tests_named,
};
use anyhow::{Context, Result, bail, ensure};
use std::{collections::BTreeSet, fs};

/// A test, and how cargo finds it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Attack {
    package: String,
    /// The program of tests; `None`: those inside of the crate.
    program: Option<String>,
    name: String,
}

/// Runs all; every one is run, whatever came of the others.
///
/// # Errors
/// When one does not hold, or is not there.
pub(crate) fn run(bench: &Bench) -> Result<Vec<String>> {
    let attacks = attacks()?;
    let mut failed = Vec::new();
    for attack in &attacks {
        let verdict = match attack.run(bench) {
            Ok(()) => "held",
            Err(error) => {
                failed.push(format!("{}: {error:#}", attack.name));
                "DID NOT HOLD"
            }
        };
        eprintln!("{verdict:<12} {} {}", attack.package, attack.name);
    }
    if failed.is_empty() {
        Ok(vec![format!("{} attacks, all held", attacks.len())])
    } else {
        bail!("{}", failed.join("; "))
    }
}

fn attacks() -> Result<BTreeSet<Attack>> {
    let text = fs::read_to_string(workspace().join("SECURITY.md")).context("SECURITY.md")?;
    let attacks: BTreeSet<Attack> =
        text.lines().flat_map(tests_named).map(|(path, name)| Attack::of(path, name)).collect();
    ensure!(!attacks.is_empty(), "SECURITY.md names no test");
    Ok(attacks)
}

impl Attack {
    /// Paths are those of PROMISES.md: below `crates/tilemark-`, but for those of the command and of the developer's commands.
    fn of(path: &str, name: &str) -> Self {
        let (folder, rest) = path.split_once('/').unwrap_or((path, ""));
        let package = if matches!(folder, "tilemark" | "xtask") {
            folder.to_owned()
        } else {
            format!("tilemark-{folder}")
        };
        let program = rest.strip_prefix("tests/").and_then(|file| file.split(['/', '.']).next());
        Self { package, program: program.map(str::to_owned), name: name.to_owned() }
    }

    /// Cargo refuses to test the library of a crate that has none.
    fn has_library(&self) -> bool {
        let folder = workspace();
        let folder = if self.package == "xtask" { folder } else { folder.join("crates") };
        folder.join(&self.package).join("src/lib.rs").exists()
    }

    fn run(&self, bench: &Bench) -> Result<()> {
        let mut arguments = vec!["-p", &self.package, "--all-features"];
        match &self.program {
            Some(program) => arguments.extend(["--test", program]),
            None if self.has_library() => arguments.extend(["--lib", "--bins"]),
            None => arguments.push("--bins"),
        }
        let said = test_with_guests(bench, &arguments, &[&self.name], &[])?;
        let ran =
            said.lines().any(|line| line.starts_with("test result: ok.") && !line.contains(" 0 passed"));
        ensure!(ran, "no test of this name was run");
        ensure!(!said.contains("skipped:"), "it was skipped");
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attacks_are_those_of_the_table_of_walls() {
        let attacks = attacks().unwrap();
        let of = |package: &str, program: Option<&str>, name: &str| Attack {
            package: package.to_owned(),
            program: program.map(str::to_owned),
            name: name.to_owned(),
        };
        let twin = "a_hostile_image_reaches_nothing_of_the_host_from_a_twin";
        assert!(attacks.contains(&of("tilemark-guests", Some("native"), twin)), "{attacks:#?}");
        let plain = of("tilemark-plan", None, "names_are_plain_words");
        assert!(attacks.contains(&plain) && plain.has_library(), "{attacks:#?}");
        let licence = "a_licence_that_is_not_allowed_is_named_and_one_of_several_is_enough";
        let licence = of("xtask", None, licence);
        assert!(attacks.contains(&licence) && !licence.has_library(), "{attacks:#?}");
    }
}
