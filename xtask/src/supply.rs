//! What the program is made of: licences, second versions and sources of all crates, checked by `deny.toml`; and that program and
//! agent have the same features of the crates that both use, and no crate a dependency that it does not use.

use crate::{
    cargo::{cargo_command, workspace},
    unused::unused,
};
use anyhow::{Context, Result, bail};
use serde_json::Value;
use spdx::{Expression, Licensee, ParseMode};
use std::{
    collections::{BTreeMap, BTreeSet},
    path::PathBuf,
};

/// The only target that the program is built for.
const TARGET: &str = "x86_64-unknown-linux-gnu";

/// A crate that somebody else wrote.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Package {
    pub(crate) name: String,
    pub(crate) version: String,
    /// Its licence expression.
    pub(crate) license: String,
    /// Where it was fetched from; nothing for a folder or a repository named by path.
    pub(crate) source: Option<String>,
    pub(crate) repository: Option<String>,
    /// The folder of its files.
    pub(crate) folder: PathBuf,
}

impl Package {
    /// As `deny.toml` names it.
    pub(crate) fn id(&self) -> String {
        format!("{}@{}", self.name, self.version)
    }
}

/// What `deny.toml` says.
#[derive(Debug, Clone, Default)]
pub(crate) struct Policy {
    /// Licences, those first that are chosen first.
    pub(crate) licenses: Vec<Licensee>,
    /// Second versions that are allowed.
    skip: BTreeSet<String>,
    registries: BTreeSet<String>,
}

impl Policy {
    pub(crate) fn read() -> Result<Self> {
        let path = workspace().join("deny.toml");
        let text = std::fs::read_to_string(&path).with_context(|| path.display().to_string())?;
        Self::parse(&text).context("deny.toml")
    }

    fn parse(text: &str) -> Result<Self> {
        let table: toml::Table = text.parse()?;
        let list = |section: &str, key: &str| {
            let value = table.get(section).and_then(|section| section.get(key));
            value.and_then(toml::Value::as_array).cloned().with_context(|| format!("no {section}.{key}"))
        };
        let texts = |values: Vec<toml::Value>| {
            values.into_iter().filter_map(|value| value.as_str().map(str::to_owned))
        };
        let licenses = texts(list("licenses", "allow")?).map(|name| Licensee::parse(&name).context(name));
        let mut skip = BTreeSet::new();
        for entry in list("bans", "skip")? {
            let field = |key: &str| entry.get(key).and_then(toml::Value::as_str);
            match (field("crate"), field("reason")) {
                (Some(id), Some(_)) => skip.insert(id.to_owned()),
                _ => bail!("an entry of bans.skip without `crate` or `reason`: {entry}"),
            };
        }
        let registries = texts(list("sources", "allow-registry")?).collect();
        Ok(Self { licenses: licenses.collect::<Result<_>>()?, skip, registries })
    }

    /// The licences of an expression that are chosen; nothing where it asks for one that is not allowed.
    pub(crate) fn chosen(&self, expression: &str) -> Option<Vec<String>> {
        // Some crates still write `/` for OR.
        let expression = Expression::parse_mode(expression, ParseMode::LAX).ok()?;
        let chosen = expression.minimized_requirements(&self.licenses).ok()?;
        Some(chosen.iter().map(ToString::to_string).collect())
    }

    fn broken(&self, packages: &[Package]) -> Vec<String> {
        let mut broken = Vec::new();
        let mut versions: BTreeMap<&str, Vec<&Package>> = BTreeMap::new();
        for package in packages {
            versions.entry(&package.name).or_default().push(package);
            if self.chosen(&package.license).is_none() {
                broken.push(format!("{}: the licence `{}` is not allowed", package.id(), package.license));
            }
            match package.source.as_deref().map(|source| source.strip_prefix("registry+").unwrap_or(source)) {
                Some(source) if self.registries.contains(source) => {}
                source => broken.push(format!("{} comes from {}", package.id(), source.unwrap_or("nowhere"))),
            }
        }
        let mut unused = self.skip.clone();
        for (name, all) in versions {
            let left: Vec<String> =
                all.iter().map(|package| package.id()).filter(|id| !unused.remove(id)).collect();
            if left.len() > 1 {
                broken.push(format!("{name} is there more than once: {}", left.join(", ")));
            } else if left.is_empty() {
                broken.push(format!("bans.skip names every version of {name}"));
            }
        }
        broken.extend(unused.iter().map(|id| format!("bans.skip names {id}, which is not used")));
        broken
    }
}

/// The features of each crate that a package of ours is built of, by name and version.
fn features(package: &str) -> Result<BTreeMap<String, String>> {
    let tree = ["tree", "--package", package, "--target", TARGET, "--edges", "normal,build"];
    let format = ["--prefix", "none", "--no-dedupe", "--format", "{p}|{f}", "--locked"];
    let tree = cargo(&[&tree[..], &format].concat())?;
    let of_line = |line: &str| {
        let (package, features) = line.split_once('|')?;
        let (name, version) = name_and_version(package)?;
        Some((format!("{name}@{version}"), features.to_owned()))
    };
    Ok(tree.lines().filter_map(of_line).collect())
}

/// Crates with other features in the agent than in the program: `make build` would compile them, and all that uses them, twice.
fn compiled_twice(program: &BTreeMap<String, String>, agent: &BTreeMap<String, String>) -> Vec<String> {
    let other = agent.iter().filter_map(|(id, features)| {
        let in_program = program.get(id).filter(|in_program| *in_program != features)?;
        Some(format!(
            "{id} has the features `{in_program}` in the program and `{features}` in the agent: ask for the same ones in \
             crates/tilemark-agent/Cargo.toml"
        ))
    });
    other.collect()
}

/// Fails where a crate breaks the policy.
pub(crate) fn check() -> Result<()> {
    let everything = ["--workspace", "--all-features", "--edges", "normal,build,dev"];
    let mut broken = Policy::read()?.broken(&packages(&everything)?);
    broken.extend(compiled_twice(&features("tilemark")?, &features("tilemark-agent")?));
    let metadata = cargo(&["metadata", "--no-deps", "--format-version", "1", "--locked"])?;
    broken.extend(unused(&serde_json::from_str(&metadata)?)?);
    if broken.is_empty() { Ok(()) } else { bail!("{}", broken.join("; ")) }
}

/// Foreign crates that `cargo tree` finds with these flags, sorted: it knows which features are on, and `cargo metadata` the rest.
pub(crate) fn packages(flags: &[&str]) -> Result<Vec<Package>> {
    let tree =
        [&["tree", "--target", TARGET, "--prefix", "none", "--format", "{p}", "--locked"], flags].concat();
    let tree = cargo(&tree)?;
    let used: BTreeSet<(&str, &str)> = tree.lines().filter_map(name_and_version).collect();
    let metadata = cargo(&["metadata", "--format-version", "1", "--filter-platform", TARGET, "--locked"])?;
    let metadata: Value = serde_json::from_str(&metadata)?;
    let ours = metadata["workspace_members"].as_array().cloned().unwrap_or_default();
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let mut found = Vec::new();
    for package in metadata["packages"].as_array().context("cargo metadata names no package")? {
        let (name, version) = (text(&package["name"]), text(&package["version"]));
        let (Some(name), Some(version)) = (name, version) else { continue };
        if ours.contains(&package["id"]) || !used.contains(&(name.as_str(), version.as_str())) {
            continue;
        }
        let manifest = PathBuf::from(package["manifest_path"].as_str().unwrap_or_default());
        found.push(Package {
            name,
            version,
            license: text(&package["license"]).unwrap_or_else(|| "none".to_owned()),
            source: text(&package["source"]),
            repository: text(&package["repository"]),
            folder: manifest.parent().context("a manifest without a folder")?.to_owned(),
        });
    }
    found.sort();
    Ok(found)
}

/// `serde v1.0.1 (proc-macro) (*)`.
fn name_and_version(line: &str) -> Option<(&str, &str)> {
    let mut words = line.split(' ');
    Some((words.next()?, words.next()?.strip_prefix('v')?))
}

fn cargo(arguments: &[&str]) -> Result<String> {
    let output = cargo_command(arguments).output().context("cargo does not start")?;
    if !output.status.success() {
        bail!("cargo {} failed: {}", arguments.join(" "), String::from_utf8_lossy(&output.stderr));
    }
    String::from_utf8(output.stdout).context("cargo printed no text")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn crates_with_other_features_in_the_agent_are_named() {
        let crates = |list: &[(&str, &str)]| -> BTreeMap<String, String> {
            list.iter().map(|(id, features)| ((*id).to_owned(), (*features).to_owned())).collect()
        };
        let program = crates(&[("a@1.0.0", "std"), ("b@1.0.0", "std,more"), ("c@1.0.0", "")]);
        let agent = crates(&[("a@1.0.0", "std"), ("b@1.0.0", "std"), ("d@1.0.0", "x")]);
        let found = compiled_twice(&program, &agent);
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].starts_with("b@1.0.0 has the features `std,more`"), "{found:?}");
    }

    const CRATES_IO: &str = "registry+https://github.com/rust-lang/crates.io-index";

    fn policy(skip: &str) -> Policy {
        let text = format!(
            "[licenses]\nallow = [\"Apache-2.0\", \"MIT\", \"Unicode-3.0\"]\n[bans]\nskip = [{skip}]\n\
             [sources]\nallow-registry = [\"https://github.com/rust-lang/crates.io-index\"]\n"
        );
        Policy::parse(&text).unwrap()
    }

    fn package(name: &str, version: &str, license: &str, source: Option<&str>) -> Package {
        Package {
            name: name.to_owned(),
            version: version.to_owned(),
            license: license.to_owned(),
            source: source.map(str::to_owned),
            repository: None,
            folder: PathBuf::new(),
        }
    }

    #[test]
    fn a_licence_that_is_not_allowed_is_named_and_one_of_several_is_enough() {
        let broken = |license| policy("").broken(&[package("a", "1.0.0", license, Some(CRATES_IO))]);
        for fine in ["MIT", "MIT/Apache-2.0", "GPL-3.0-only OR MIT", "(MIT OR Apache-2.0) AND Unicode-3.0"] {
            assert_eq!(broken(fine), [""; 0], "{fine}");
        }
        for bad in ["GPL-3.0-only", "MIT AND GPL-3.0-only", "none", "", "SSPL-1.0"] {
            assert_eq!(broken(bad), [format!("a@1.0.0: the licence `{bad}` is not allowed")]);
        }
        let chosen = policy("").chosen("(MIT OR Apache-2.0) AND Unicode-3.0").unwrap();
        assert_eq!(chosen.iter().collect::<BTreeSet<_>>().len(), 2);
        assert!(chosen.contains(&"Apache-2.0".to_owned()), "{chosen:?}");
    }

    #[test]
    fn a_crate_from_elsewhere_is_named() {
        for source in [None, Some("git+https://example.org/a"), Some("registry+https://example.org/index")] {
            let broken = policy("").broken(&[package("a", "1.0.0", "MIT", source)]);
            assert!(broken.len() == 1 && broken[0].starts_with("a@1.0.0 comes from"), "{broken:?}");
        }
    }

    #[test]
    fn a_second_version_needs_a_reason_and_a_reason_a_second_version() {
        let two =
            [package("a", "1.0.0", "MIT", Some(CRATES_IO)), package("a", "2.0.0", "MIT", Some(CRATES_IO))];
        let skip = "{ crate = \"a@1.0.0\", reason = \"b needs it\" }";
        assert_eq!(policy("").broken(&two), ["a is there more than once: a@1.0.0, a@2.0.0"]);
        assert_eq!(policy(skip).broken(&two), [""; 0]);
        assert_eq!(policy(skip).broken(&two[1..]), ["bans.skip names a@1.0.0, which is not used"]);
        let parse = |skip: &str| Policy::parse(&format!("[licenses]\nallow = []\n[bans]\nskip = [{skip}]"));
        assert!(
            parse("{ crate = \"a@1.0.0\" }").unwrap_err().to_string().contains("without `crate` or `reason`")
        );
    }
}
