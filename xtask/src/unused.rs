//! Dependencies that no code of their crate names.

use crate::{
    cargo::list,
    sources::{files, without_tests},
};
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
    let crate_name = package["name"].as_str().unwrap_or_default();
    let mut exempt: BTreeSet<&str> =
        list(&package["metadata"][EXEMPT[0]][EXEMPT[1]]).iter().filter_map(Value::as_str).collect();
    let mut found = Vec::new();
    for dependency in list(&package["dependencies"]).iter().filter(|one| one["kind"] != "dev") {
        let name = ["rename", "name"].iter().find_map(|key| dependency[*key].as_str()).unwrap_or_default();
        let is_named = named.contains(&name.replace('-', "_"));
        if !is_named && !exempt.remove(name) {
            found.push(format!("{crate_name} depends on {name}, which no code of it names: remove it"));
        }
    }
    let stale = exempt.iter().map(|name| {
        let list = EXEMPT.join(".");
        format!("{crate_name} lists {name} in `package.metadata.{list}`, but its code names it, or it does not depend on it: remove it there")
    });
    found.extend(stale);
    found
}

/// The crates and modules that the sources of a crate name, its tests aside: `name::…`, `use name`, `extern crate name`.
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
    let tokens = without_tests(tokens);
    let is_sign =
        |place: usize| matches!(tokens.get(place), Some(TokenTree::Punct(sign)) if sign.as_char() == ':');
    let brings_in =
        |token: &TokenTree| matches!(token, TokenTree::Ident(word) if word == "use" || word == "crate");
    for (place, token) in tokens.iter().enumerate() {
        match token {
            TokenTree::Group(group) => collect(group.stream(), named),
            TokenTree::Ident(name) => {
                let is_brought_in = place.checked_sub(1).is_some_and(|before| brings_in(&tokens[before]));
                if is_brought_in || (is_sign(place + 1) && is_sign(place + 2)) {
                    named.insert(name.to_string());
                }
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
        let source = "// b\nuse a_b::X; fn f(d: c::Y) { d.g() }\n#[cfg(test)] mod tests { use e::Z; }";
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
        assert_eq!(names(&package), ["b", "d", "e"]);
        package["metadata"] = json!({ "tilemark": { "only-for-features": ["b", "d", "e"] } });
        assert_eq!(names(&package), [""; 0]);
        package["metadata"]["tilemark"]["only-for-features"] = json!(["a-b", "b", "d", "e", "gone"]);
        let found = unused(&json!({ "packages": [package] })).unwrap();
        let stale: Vec<&str> =
            found.iter().filter_map(|line| line.strip_prefix("ours lists ")?.split(' ').next()).collect();
        assert_eq!(stale, ["a-b", "gone"], "{found:?}");
    }
}
