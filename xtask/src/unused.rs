//! Dependencies that no code of their crate names.

use crate::sources::{files, without_tests};
use anyhow::{Context, Result, bail};
use proc_macro2::{TokenStream, TokenTree};
use serde_json::Value;
use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

/// Where a `Cargo.toml` lists dependencies whose features alone matter: `package.metadata.tilemark.only-for-features`.
const EXEMPT: [&str; 2] = ["tilemark", "only-for-features"];

/// The unused dependencies of all crates in `cargo metadata`, those that only tests have aside.
pub(crate) fn unused(metadata: &Value) -> Result<Vec<String>> {
    let mut unused = Vec::new();
    for package in metadata["packages"].as_array().context("cargo metadata names no package")? {
        let manifest = PathBuf::from(package["manifest_path"].as_str().unwrap_or_default());
        let folder = manifest.parent().context("a manifest without a folder")?;
        unused.extend(unused_of(package, &named_in(folder)?));
    }
    Ok(unused)
}

fn unused_of(package: &Value, named: &BTreeSet<String>) -> Vec<String> {
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let crate_name = package["name"].as_str().unwrap_or_default();
    let exempt = list(&package["metadata"][EXEMPT[0]][EXEMPT[1]]);
    let mut found = Vec::new();
    for dependency in list(&package["dependencies"]).iter().filter(|one| one["kind"] != "dev") {
        let name = ["rename", "name"].iter().find_map(|key| dependency[*key].as_str()).unwrap_or_default();
        let is_named = named.contains(&name.replace('-', "_"));
        let is_exempt = exempt.iter().any(|one| one == name);
        if !is_named && !is_exempt {
            found.push(format!("{crate_name} depends on {name}, which no code of it names: remove it"));
        } else if is_named && is_exempt {
            found.push(format!("{crate_name} has {name} in `{}`, and its code names it", EXEMPT.join(".")));
        }
    }
    found
}

/// All names in the sources of a crate, its tests aside.
fn named_in(folder: &Path) -> Result<BTreeSet<String>> {
    let mut sources = files(&folder.join("src"), "rs")?;
    sources.extend(Some(folder.join("build.rs")).filter(|script| script.exists()));
    let mut named = BTreeSet::new();
    for path in sources {
        let source = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
        let Ok(tokens) = source.parse() else { bail!("{} is not Rust", path.display()) };
        collect(tokens, &mut named);
    }
    Ok(named)
}

fn collect(tokens: TokenStream, named: &mut BTreeSet<String>) {
    for token in without_tests(tokens) {
        match token {
            TokenTree::Group(group) => collect(group.stream(), named),
            TokenTree::Ident(name) => {
                named.insert(name.to_string());
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_dependency_that_only_tests_name_is_unused() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("src")).unwrap();
        let source = "// b\nuse a_b::X; fn f() -> c::Y { d!() }\n#[cfg(test)] mod tests { use e::Z; }";
        fs::write(folder.path().join("src/lib.rs"), source).unwrap();
        fs::write(folder.path().join("build.rs"), "fn main() { built::write() }").unwrap();
        let dependency = |name: &str, kind| json!({ "name": name, "kind": kind });
        let mut package = json!({
            "name": "ours", "manifest_path": folder.path().join("Cargo.toml"),
            "dependencies": [
                dependency("a-b", Value::Null), dependency("b", Value::Null), dependency("d", Value::Null),
                dependency("e", Value::Null), dependency("f", json!("dev")), dependency("built", json!("build")),
                { "name": "long", "rename": "c", "kind": null },
            ],
        });
        let names = |package: &Value| {
            let found = unused(&json!({ "packages": [package] })).unwrap();
            found.iter().map(|line| line.split([' ', ',']).nth(3).unwrap().to_owned()).collect::<Vec<_>>()
        };
        assert_eq!(names(&package), ["b", "e"]);
        package["metadata"] = json!({ "tilemark": { "only-for-features": ["b", "e"] } });
        assert_eq!(names(&package), [""; 0]);
        package["metadata"]["tilemark"]["only-for-features"] = json!(["b", "d", "e"]);
        let found = unused(&json!({ "packages": [package] })).unwrap();
        assert!(found.len() == 1 && found[0].starts_with("ours has d in"), "{found:?}");
    }
}
