//! `THIRD-PARTY-NOTICES.txt`: whose code is in the program, under which licence, with the texts that those licences ask for. The
//! program carries it and prints it (`tilemark notices`).

use crate::{
    cargo::workspace,
    supply::{Package, Policy, packages},
};
use anyhow::{Context, Result, bail};
use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write,
    fs,
    path::{Path, PathBuf},
};

const FILE: &str = "THIRD-PARTY-NOTICES.txt";
/// The licence of our own, whose text is in `LICENSE` and here once.
const APACHE: &str = "Apache-2.0";
/// The library of charts in every report.
const ECHARTS: &str = "crates/tilemark-report/vendor/echarts";

const HEAD: &str = "Third-party notices of Tilemark

The program, and the agent inside it, are built from the crates below. Where a crate offers several licences, the one that is named
was chosen. Besides them they hold:
- the standard library of Rust (Apache-2.0 or MIT, https://github.com/rust-lang/rust);
- in the agent, which is linked statically, the GNU C library (LGPL-2.1-or-later, https://sourceware.org/glibc/) of the system that
  built it; `cargo build` links it again with another one;
- in every report, Apache ECharts (Apache-2.0) with zrender and parts of d3 (BSD-3-Clause) and tslib (0BSD).

This file is made by `cargo xtask notices`.
";

/// Writes the file again.
pub(crate) fn write() -> Result<()> {
    let path = workspace().join(FILE);
    fs::write(&path, text()?).with_context(|| path.display().to_string())
}

/// Fails where the file is not what it would be made to now.
pub(crate) fn check_fresh() -> Result<()> {
    let had = fs::read_to_string(workspace().join(FILE)).unwrap_or_default();
    if had == text()? { Ok(()) } else { bail!("{FILE} is out of date: run `cargo xtask notices`") }
}

fn text() -> Result<String> {
    let built_in = ["--package", "tilemark", "--package", "tilemark-agent", "--edges", "normal"];
    let (policy, packages) = (Policy::read()?, packages(&built_in)?);
    let mut text = format!("{HEAD}\n");
    // Many crates have the very same text.
    let mut of_text: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for package in &packages {
        let chosen = policy
            .chosen(&package.license)
            .with_context(|| format!("{}: no licence of `{}` is allowed", package.id(), package.license))?;
        let chosen: BTreeSet<String> = chosen.into_iter().collect();
        let names: Vec<&str> = chosen.iter().map(String::as_str).collect();
        let place = package.repository.as_deref().unwrap_or("https://crates.io");
        writeln!(text, "{} {}: {} ({place})", package.name, package.version, names.join(" and "))?;
        for file in files_of(package, &chosen)? {
            of_text.entry(read(&file)?).or_default().insert(format!("{} {}", package.name, package.version));
        }
    }
    for (file, of) in [
        ("NOTICE", "Apache ECharts"),
        ("LICENSE-zrender", "zrender"),
        ("LICENSE-d3", "d3"),
        ("LICENSE-tslib", "tslib"),
    ] {
        of_text.entry(read(&workspace().join(ECHARTS).join(file))?).or_default().insert(of.to_owned());
    }
    // In the order of whom they belong to.
    let mut all: Vec<(Vec<String>, String)> =
        of_text.into_iter().map(|(text, of)| (of.into_iter().collect(), text)).collect();
    all.sort();
    all.push((vec![format!("all that are under {APACHE}")], read(&workspace().join("LICENSE"))?));
    for (of, its) in all {
        write!(text, "\n{}\nOf {}:\n\n{its}\n", "=".repeat(80), of.join(", "))?;
    }
    Ok(text)
}

/// With one kind of line end, and nothing after lines and text.
fn read(path: &Path) -> Result<String> {
    let text = fs::read_to_string(path).with_context(|| path.display().to_string())?;
    let lines: Vec<&str> = text.lines().map(str::trim_end).collect();
    Ok(lines.join("\n").trim().to_owned())
}

/// The files of a crate that its chosen licences ask to be passed on: their texts, but for the one that is here once, and notices.
fn files_of(package: &Package, chosen: &BTreeSet<String>) -> Result<Vec<PathBuf>> {
    let entries = fs::read_dir(&package.folder).with_context(|| package.folder.display().to_string())?;
    let mut names: Vec<String> =
        entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok()).collect();
    names.sort();
    let mut wanted: BTreeSet<&str> = names
        .iter()
        .map(String::as_str)
        .filter(|name| name.to_uppercase().starts_with("NOTICE") && package.folder.join(name).is_file())
        .collect();
    for license in chosen.iter().filter(|license| *license != APACHE) {
        let found = licence_file(&names, license)
            .with_context(|| format!("{}: no file holds the text of {license}", package.id()))?;
        wanted.insert(found);
    }
    Ok(wanted.into_iter().map(|name| package.folder.join(name)).collect())
}

/// The file that is named for a licence, as `LICENSE-MIT` is, or else the one that is named for none.
fn licence_file<'n>(names: &'n [String], license: &str) -> Option<&'n str> {
    let word = license.split('-').next().unwrap_or(license).to_uppercase();
    let is_licence = |name: &&String| {
        let name = name.to_uppercase();
        name.starts_with("LICENSE") || name.starts_with("LICENCE")
    };
    let plain = ["LICENSE", "LICENSE.TXT", "LICENSE.MD", "LICENCE"];
    let own = names.iter().filter(is_licence).find(|name| name.to_uppercase().contains(&word));
    let any = || names.iter().find(|name| plain.contains(&name.to_uppercase().as_str()));
    own.or_else(any).map(String::as_str)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn package(folder: &Path) -> Package {
        Package {
            name: "a".to_owned(),
            version: "1.0.0".to_owned(),
            license: String::new(),
            source: None,
            repository: None,
            folder: folder.to_owned(),
        }
    }

    #[test]
    fn the_text_of_the_chosen_licence_and_a_notice_are_passed_on() {
        let folder = tempfile::tempdir().unwrap();
        let files = |chosen: &[&str]| -> Result<Vec<String>> {
            let chosen = chosen.iter().map(|license| (*license).to_owned()).collect();
            let files = files_of(&package(folder.path()), &chosen)?;
            Ok(files.iter().map(|file| file.file_name().unwrap().to_str().unwrap().to_owned()).collect())
        };
        assert_eq!(files(&["Apache-2.0"]).unwrap(), [""; 0]);
        let refused = files(&["MIT"]).unwrap_err().to_string();
        assert_eq!(refused, "a@1.0.0: no file holds the text of MIT");
        for name in ["LICENSE-APACHE", "LICENSE-MIT", "LICENSE-UNICODE", "NOTICE.txt", "README.md"] {
            fs::write(folder.path().join(name), name).unwrap();
        }
        assert_eq!(files(&["Apache-2.0", "Unicode-3.0"]).unwrap(), ["LICENSE-UNICODE", "NOTICE.txt"]);
        assert_eq!(files(&["MIT"]).unwrap(), ["LICENSE-MIT", "NOTICE.txt"]);
        assert!(files(&["BSD-3-Clause"]).is_err());
        fs::write(folder.path().join("LICENSE.txt"), "").unwrap();
        assert_eq!(files(&["BSD-3-Clause"]).unwrap(), ["LICENSE.txt", "NOTICE.txt"]);
    }
}
