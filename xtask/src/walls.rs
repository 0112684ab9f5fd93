//! Which crate may know which, and the order of the folders of `tilemark-run`, both as docs/architecture.md has them; and that few files
//! of a crate use each other in a circle.

use crate::{
    cargo::{cargo_command, workspace},
    circles,
    sources::{files, without_tests},
};
use anyhow::{Context, Result, bail};
use proc_macro2::{TokenStream, TokenTree};
use serde_json::Value;
use std::{collections::BTreeSet, fs, path::Path};

const PAGE: &str = "docs/architecture.md";
/// The crate whose folders have an order.
const ORDERED: &str = "crates/tilemark-run/src";

/// Fails where a crate knows one that it must not, or is not in the table; and where too many files use each other.
pub(crate) fn check() -> Result<()> {
    let output = cargo_command(&["metadata", "--no-deps", "--format-version", "1", "--locked"])
        .output()
        .context("cargo metadata")?;
    let metadata: Value = serde_json::from_slice(&output.stdout).context("cargo metadata")?;
    let page = fs::read_to_string(workspace().join(PAGE)).with_context(|| PAGE.to_owned())?;
    let mut broken = broken(&metadata, &page);
    broken.extend(upwards(&page)?);
    broken.extend(in_circles(&metadata)?);
    if broken.is_empty() { Ok(()) } else { bail!("{}", broken.join("\n")) }
}

/// Crates that know another one of ours than those in their row of the page's table (tests aside).
fn broken(metadata: &Value, page: &str) -> Vec<String> {
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let may_use = |name: &str| {
        let (_, cells) = rows(page).find(|(known, _)| *known == name)?;
        Some(cells.get(1)?.trim().split(", ").map(str::to_owned).collect::<Vec<_>>())
    };
    let mut broken = Vec::new();
    for package in list(&metadata["packages"]) {
        let name = package["name"].as_str().unwrap_or_default();
        let allowed = may_use(name);
        for dependency in list(&package["dependencies"]).iter().filter(|one| one["kind"].is_null()) {
            let known = dependency["name"].as_str().unwrap_or_default();
            let Some(short) = known.strip_prefix("tilemark-") else { continue };
            match &allowed {
                Some(allowed) if !allowed.iter().any(|one| one == short) => {
                    broken.push(format!("{name} must not know {known}"));
                }
                None if name != "xtask" => broken.push(format!("{name} is in no table of {PAGE}")),
                _ => {}
            }
        }
    }
    broken
}

/// The rows of a page's tables: name and cells, the name without its backticks and `/`.
fn rows(page: &str) -> impl Iterator<Item = (&str, Vec<&str>)> {
    page.lines().filter_map(|line| {
        let cells: Vec<&str> = line.strip_prefix("| `")?.trim_end_matches('|').split(" | ").collect();
        Some((cells[0].trim().trim_end_matches('`').trim_end_matches('/'), cells[1..].to_vec()))
    })
}

/// Folders of `tilemark-run` that use one below them in the page's table.
fn upwards(page: &str) -> Result<Vec<String>> {
    let root = workspace().join(ORDERED);
    let order: Vec<&str> = rows(page).map(|(name, _)| name).filter(|name| root.join(name).is_dir()).collect();
    let mut upwards = Vec::new();
    for (place, folder) in order.iter().enumerate() {
        for path in files(&root.join(folder), "rs")? {
            let source = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
            let used = used_of_crate(&source, &path)?;
            upwards.extend(order[place + 1..].iter().filter(|below| used.contains(**below)).map(|below| {
                let name = path.strip_prefix(&root).unwrap_or(&path).display();
                format!("{ORDERED}/{name} must not use `{below}`, which is below `{folder}` in {PAGE}")
            }));
        }
    }
    Ok(upwards)
}

/// The first names after `crate::` in a source, tests aside.
fn used_of_crate(source: &str, path: &Path) -> Result<BTreeSet<String>> {
    let Ok(tokens) = source.parse::<TokenStream>() else { bail!("{} is not Rust", path.display()) };
    let mut used = BTreeSet::new();
    collect(tokens, &mut used);
    Ok(used)
}

fn collect(tokens: TokenStream, used: &mut BTreeSet<String>) {
    let tokens = without_tests(tokens);
    let is = |place: usize, sign: char| matches!(tokens.get(place), Some(TokenTree::Punct(found)) if found.as_char() == sign);
    for (place, token) in tokens.iter().enumerate() {
        match token {
            TokenTree::Group(group) => collect(group.stream(), used),
            TokenTree::Ident(name) if name == "crate" && is(place + 1, ':') => match tokens.get(place + 3) {
                Some(TokenTree::Ident(first)) => {
                    used.insert(first.to_string());
                }
                Some(TokenTree::Group(list)) => used.extend(first_names(list.stream())),
                _ => {}
            },
            _ => {}
        }
    }
}

/// The name at the beginning of each part of a list with commas.
fn first_names(list: TokenStream) -> Vec<String> {
    let tokens: Vec<TokenTree> = list.into_iter().collect();
    let parts = tokens.split(|token| matches!(token, TokenTree::Punct(sign) if sign.as_char() == ','));
    parts.filter_map(|part| Some(part.first()?.to_string())).collect()
}

/// Circles of files in the libraries and programs of the workspace.
fn in_circles(metadata: &Value) -> Result<Vec<String>> {
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let mut circles = Vec::new();
    for target in list(&metadata["packages"]).iter().flat_map(|package| list(&package["targets"])) {
        let is_ours = ["lib", "proc-macro", "bin"].iter().any(|kind| target["kind"][0] == *kind);
        if is_ours {
            let root = Path::new(target["src_path"].as_str().unwrap_or_default());
            let root = root.strip_prefix(workspace()).unwrap_or(root);
            circles.extend(circles::of_crate(root, &|file| fs::read_to_string(workspace().join(file)).ok())?);
        }
    }
    Ok(circles)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn page() -> String {
        fs::read_to_string(workspace().join(PAGE)).unwrap()
    }

    #[test]
    fn the_page_has_the_list_and_the_folders_keep_its_order() {
        let metadata = package("tilemark-plan", "tilemark-schema", Value::Null);
        assert_eq!(broken(&metadata, &page()), [""; 0]);
        assert_eq!(upwards(&page()).unwrap(), [""; 0]);
        let without = page().replace("| schema, units |", "| units |");
        assert_eq!(broken(&metadata, &without), ["tilemark-plan must not know tilemark-schema"]);
        let without = page().replace("| `tilemark-plan` |", "| `x` |");
        assert_eq!(broken(&metadata, &without), ["tilemark-plan is in no table of docs/architecture.md"]);
        let swapped =
            page().replace("| `guests/` |", "| `x/` |").replace("| `standalone/` |", "| `guests/` |");
        assert!(upwards(&swapped).unwrap().iter().any(|fault| fault.contains("must not use `guests`")));
    }

    #[test]
    fn what_a_source_uses_of_its_crate_is_found_and_its_tests_are_not_read() {
        let source = "use crate::{a::{b, c}, d};\nfn f() { crate::e::g() }\n#[cfg(test)]\nmod tests { use crate::h; }\nuse crate::i;";
        let used = used_of_crate(source, Path::new("x.rs")).unwrap();
        assert_eq!(used.iter().map(String::as_str).collect::<Vec<_>>(), ["a", "d", "e", "i"]);
    }

    fn package(name: &str, dependency: &str, kind: Value) -> Value {
        json!({ "packages": [{ "name": name, "dependencies": [{ "name": dependency, "kind": kind }] }] })
    }

    #[test]
    fn a_plan_that_knows_the_host_is_caught() {
        let metadata = package("tilemark-plan", "tilemark-host", Value::Null);
        assert_eq!(broken(&metadata, &page()), ["tilemark-plan must not know tilemark-host"]);
    }

    #[test]
    fn tests_may_know_more() {
        assert!(broken(&package("tilemark-plan", "tilemark-host", json!("dev")), &page()).is_empty());
    }
}
