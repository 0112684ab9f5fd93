//! Which crate may know which, and the order of the folders of `tilemark-run`, both as docs/architecture.md has them; that few files
//! of a crate use each other in a circle; and in how many files the code names a workload.

use crate::{
    cargo::{cargo_command, list, workspace},
    circles,
    sources::{files, without_tests},
};
use anyhow::{Context, Result, bail};
use proc_macro2::{Delimiter, Group, TokenStream, TokenTree};
use serde_json::Value;
use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
};

const PAGE: &str = "docs/architecture.md";
/// The crate whose folders have an order.
const ORDERED: &str = "crates/tilemark-run/src";
/// The heading of the part that draws the crates.
const CRATES: &str = "## Crates";
/// Crates that only tests and developers use.
const NOT_DRAWN: [&str; 3] = ["tilemark-fixtures", "tilemark-fuzz", "xtask"];
/// Two workloads that many files once named: the name, the number of files whose code names it, and folders that are not counted, since its
/// engine is there. Add another workload when its name spreads.
const WORKLOADS: [(&str, usize, &[&str]); 2] = [
    ("sysbench", 6, &[]),
    (
        "messaging",
        14,
        &["tilemark-amqp", "tilemark-amqp-load", "tilemark-broker", "tilemark-workloads/src/messaging"],
    ),
];
/// Where the numbers are.
const PLACE: &str = "xtask/src/walls.rs";

/// Fails where a crate knows one that it must not, or is not in the table or the drawing; where too many files use each other; and where
/// other files than allowed name a workload.
pub(crate) fn check() -> Result<()> {
    let output = cargo_command(&["metadata", "--no-deps", "--format-version", "1", "--locked"])
        .output()
        .context("cargo metadata")?;
    let metadata: Value = serde_json::from_slice(&output.stdout).context("cargo metadata")?;
    let page = fs::read_to_string(workspace().join(PAGE)).with_context(|| PAGE.to_owned())?;
    let mut broken = broken(&metadata, &page);
    broken.extend(misdrawn(&metadata, &page));
    broken.extend(upwards(&page)?);
    broken.extend(in_circles(&metadata)?);
    broken.extend(spread(&workspace().join("crates"), &WORKLOADS)?);
    if broken.is_empty() { Ok(()) } else { bail!("{}", broken.join("\n")) }
}

/// Crates that know another one of ours than those in their row of the page's table (tests aside).
fn broken(metadata: &Value, page: &str) -> Vec<String> {
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

/// Crates that use one in their own line of the page's drawing or in a line above it, those of the program that are not drawn, and
/// names in the drawing that are no crates.
fn misdrawn(metadata: &Value, page: &str) -> Vec<String> {
    let drawing = page.split(CRATES).nth(1).and_then(|part| part.split("```").nth(1)).unwrap_or_default();
    let drawn = |(line, text): (usize, &'_ str)| -> Vec<(String, usize)> {
        text.split_whitespace().map(|name| (name.to_owned(), line)).collect()
    };
    let mut line_of: BTreeMap<String, usize> = drawing.lines().enumerate().flat_map(drawn).collect();
    let short = |name: &str| name.strip_prefix("tilemark-").unwrap_or(name).to_owned();
    let mut faults = Vec::new();
    for package in list(&metadata["packages"]) {
        let name = package["name"].as_str().unwrap_or_default();
        let Some(&line) = line_of.get(&short(name)) else {
            if !NOT_DRAWN.contains(&name) {
                faults.push(format!("{name} is not in the drawing of {PAGE}"));
            }
            continue;
        };
        for dependency in list(&package["dependencies"]).iter().filter(|one| one["kind"].is_null()) {
            let used = dependency["name"].as_str().unwrap_or_default();
            if line_of.get(&short(used)).is_some_and(|below| *below <= line) && used.starts_with("tilemark-")
            {
                faults.push(format!("{name} uses {used}, which is not below it in the drawing of {PAGE}"));
            }
        }
    }
    for package in list(&metadata["packages"]) {
        line_of.remove(&short(package["name"].as_str().unwrap_or_default()));
    }
    faults.extend(line_of.keys().map(|name| format!("{name} in the drawing of {PAGE} is not a crate")));
    faults
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

/// Workloads that the code of too many files of these crates names, and such that fewer name. Tests and comments do not count.
fn spread(crates: &Path, workloads: &[(&str, usize, &[&str])]) -> Result<Vec<String>> {
    let mut naming = vec![Vec::new(); workloads.len()];
    for path in files(crates, "rs")? {
        let inside = path.strip_prefix(crates).context("a file of another folder")?;
        if !inside.components().any(|part| part.as_os_str() == "src") {
            continue;
        }
        let source = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
        let Ok(tokens) = source.parse() else { bail!("{} is not Rust", path.display()) };
        let code = code(tokens).to_lowercase();
        for ((workload, _, own), naming) in workloads.iter().zip(&mut naming) {
            if code.contains(workload) && !own.iter().any(|own| inside.starts_with(own)) {
                naming.push(inside.display().to_string());
            }
        }
    }
    let faults = workloads.iter().zip(&naming).filter(|((_, most, _), naming)| naming.len() != *most);
    Ok(faults
        .map(|((workload, most, _), naming)| {
            let remedy = if naming.len() > *most {
                "Let a fact of the workload say what they need"
            } else {
                "Write the lower number"
            };
            format!(
                "{} files name {workload}, and {PLACE} has {most}: {}. {remedy}",
                naming.len(),
                naming.join(", ")
            )
        })
        .collect())
}

/// Names and texts of a source, without its tests and comments.
fn code(tokens: TokenStream) -> String {
    let mut code = String::new();
    for token in without_tests(tokens) {
        match token {
            TokenTree::Group(group) if is_comment(&group) => {}
            TokenTree::Group(group) => code += &self::code(group.stream()),
            token => code += &format!("{token} "),
        }
    }
    code
}

/// Comments of documentation are attributes for the compiler.
fn is_comment(group: &Group) -> bool {
    let first = group.stream().into_iter().next();
    group.delimiter() == Delimiter::Bracket && matches!(first, Some(TokenTree::Ident(name)) if name == "doc")
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
    fn a_crate_that_uses_one_above_it_or_is_not_drawn_is_found() {
        let page = "## Crates\n```\n a\n plan b\n```";
        let faults = |from: &str, to: &str, others: &[&str]| {
            let mut metadata = package(from, to, Value::Null);
            let packages = metadata["packages"].as_array_mut().unwrap();
            packages.extend(others.iter().map(|name| json!({ "name": name })));
            misdrawn(&metadata, page).join("; ")
        };
        let rest = ["tilemark-plan", "tilemark-b"];
        assert_eq!(faults("tilemark-a", "tilemark-plan", &rest), "");
        assert_eq!(faults("tilemark-a", "b", &rest), "");
        assert_eq!(faults("xtask", "tilemark-a", &["tilemark-a", "tilemark-plan", "tilemark-b"]), "");
        let up =
            "tilemark-plan uses tilemark-a, which is not below it in the drawing of docs/architecture.md";
        assert_eq!(faults("tilemark-plan", "tilemark-a", &["tilemark-a", "tilemark-b"]), up);
        let beside =
            "tilemark-plan uses tilemark-b, which is not below it in the drawing of docs/architecture.md";
        assert_eq!(faults("tilemark-plan", "tilemark-b", &["tilemark-a", "tilemark-b"]), beside);
        assert_eq!(
            faults("tilemark-a", "tilemark-plan", &["tilemark-b"]),
            "plan in the drawing of docs/architecture.md is not a crate"
        );
        let new = "tilemark-new is not in the drawing of docs/architecture.md";
        assert_eq!(faults("tilemark-new", "serde", &["tilemark-a", "tilemark-plan", "tilemark-b"]), new);
    }

    #[test]
    fn a_workload_that_too_many_files_name_is_found_and_one_that_fewer_name() {
        let folder = tempfile::tempdir().unwrap();
        let name = "fn f() { Web::new() }";
        let comment = "/// Web.\nfn f() {} // web\n#[cfg(test)] mod tests { use web; }";
        for (path, source) in [
            ("plan/src/web.rs", name),
            ("plan/src/a.rs", "const A: &str = \"web\";"),
            ("run/src/b.rs", name),
            ("run/src/b_tests.rs", name),
            ("run/src/c.rs", comment),
            ("run/tests/d.rs", name),
            ("web/src/e.rs", name),
        ] {
            let path = folder.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, source).unwrap();
        }
        let found = |most| spread(folder.path(), &[("web", most, &["web"])]).unwrap().join("; ");
        assert_eq!(found(3), "");
        assert!(
            found(2).starts_with("3 files name web, and xtask/src/walls.rs has 2: plan/src/a.rs, "),
            "{}",
            found(2)
        );
        assert!(found(4).ends_with("Write the lower number"), "{}", found(4));
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
