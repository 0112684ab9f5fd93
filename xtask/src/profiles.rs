//! `docs/host-settings.md`, made from the profiles: `profiles.md` beside this file has its text.

use crate::{cargo::workspace, promises};
use anyhow::{Context, Result, bail};
use std::{fmt::Write, fs};
use tilemark_plan::profile::{PROFILES, Profile, ProfileSetting, Today};

const FILE: &str = "docs/host-settings.md";
const TEMPLATE: &str = include_str!("profiles.md");
const HEAD: &str =
    "<!-- Made by `cargo xtask profiles` from xtask/src/profiles.md and the files in profiles/. -->\n";

/// Writes the page.
pub(crate) fn write() -> Result<()> {
    fs::write(workspace().join(FILE), page()?).with_context(|| format!("cannot write {FILE}"))
}

/// Fails where the page is not what would be made now, or names a test that does not exist.
pub(crate) fn check_fresh() -> Result<()> {
    let page = page()?;
    if fs::read_to_string(workspace().join(FILE)).unwrap_or_default() != page {
        bail!("{FILE} is out of date: run `cargo xtask profiles`");
    }
    let faults = promises::faults(&workspace(), &page);
    if faults.is_empty() { Ok(()) } else { bail!("{FILE}: {}", faults.join(", ")) }
}

fn page() -> Result<String> {
    let mut tables = String::new();
    let mut names = Vec::new();
    for builtin in PROFILES {
        let profile =
            Profile::from_toml(builtin.text, builtin.name).map_err(|faults| anyhow::anyhow!("{faults}"))?;
        names.push(format!("`{}`", profile.name));
        table(&mut tables, &profile)?;
    }
    Ok(HEAD.to_owned() + &TEMPLATE.replace("{{names}}", &names.join(", ")).replace("{{tables}}\n", &tables))
}

fn table(out: &mut String, profile: &Profile) -> Result<()> {
    let Profile { name, about, source, settings, .. } = profile;
    writeln!(out, "## `{name}`\n\n{about} Source: {source}.\n")?;
    let is_paper = settings.iter().any(|setting| setting.then.is_some());
    if is_paper {
        writeln!(
            out,
            "| then | today | key | value | effect claimed | what became of it | source | test |\n|---|---|---|---|---|---|---|---|"
        )?;
    } else {
        writeln!(out, "| key | value | why | source | test |\n|---|---|---|---|---|")?;
    }
    for setting in settings {
        let ProfileSetting { key, value, source, then, today, effect, note, .. } = setting;
        let text = |text: &Option<String>| cell(text.as_deref().unwrap_or_default());
        let value = value.as_ref().map_or_else(|| "not set".to_owned(), |value| format!("`{value}`"));
        let (note, test) = (text(note), test(setting));
        if is_paper {
            let effect = effect.as_deref().map_or_else(|| "none claimed by itself".to_owned(), cell);
            let today = today.map_or("", word);
            writeln!(
                out,
                "| {} | {today} | `{key}` | {value} | {effect} | {note} | {} | {test} |",
                text(then),
                cell(source)
            )?;
        } else {
            writeln!(out, "| `{key}` | {value} | {note} | {} | {test} |", cell(source))?;
        }
    }
    writeln!(out)?;
    Ok(())
}

/// Text in a table: a bar would end its cell, and a star or an underline may be markup.
fn cell(text: &str) -> String {
    text.replace('|', "\\|").replace('*', "\\*").replace('_', "\\_")
}

fn word(today: Today) -> &'static str {
    match today {
        Today::Same => "same",
        Today::Default => "default",
        Today::Renamed => "renamed",
        Today::Gone => "gone",
        Today::Obsolete => "obsolete",
    }
}

/// The row of the table of tests.
fn test(setting: &ProfileSetting) -> &'static str {
    let key = setting.key.as_str();
    match (key.split('.').next().unwrap_or(key), setting.value.is_some()) {
        ("place", _) => "pin",
        ("libvirt", true) => "libvirt",
        ("libvirt", false) => "doctor",
        ("boot", _) if setting.today == Some(Today::Same) => "boot",
        (_, false) => "none",
        // The table of neighbours is the host's, whatever its name says.
        ("net", true) if key.starts_with("net.ipv4.") && !key.starts_with("net.ipv4.neigh.") => "network",
        ("net" | "vm" | "kernel" | "fs", true) => "sysctl",
        ("thp" | "ksm" | "hugepages" | "block", true) => "lab",
        ("cpu", true) if key == "cpu.idle_latency_us" => "latency",
        ("cpu", true) => "governor",
        ("service" | "irqbalance", true) => "service",
        (_, true) => "key",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_setting_of_every_profile_has_its_row() {
        let page = page().unwrap();
        for builtin in PROFILES {
            let profile = Profile::from_toml(builtin.text, builtin.name).unwrap();
            let section = page.split(&format!("## `{}`\n", profile.name)).nth(1).unwrap();
            let section = section.split("\n## ").next().unwrap();
            let rows = section.lines().filter(|line| line.starts_with("| ") && line.contains('`')).count();
            assert_eq!(rows, profile.settings.len(), "{}", profile.name);
        }
    }

    #[test]
    fn every_row_names_a_row_of_the_table_of_tests() {
        let page = page().unwrap();
        for builtin in PROFILES {
            let profile = Profile::from_toml(builtin.text, builtin.name).unwrap();
            for setting in &profile.settings {
                assert!(page.contains(&format!("\n| {} | ", test(setting))), "{}", setting.key);
            }
        }
    }

    #[test]
    fn what_would_end_a_cell_or_be_markup_is_escaped() {
        assert_eq!(cell("a|b *c_d*"), "a\\|b \\*c\\_d\\*");
    }
}
