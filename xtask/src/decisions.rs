//! The pages of `docs/decisions`: numbered without gaps, each named in the list, and every replacement said on both pages.

use crate::cargo::workspace;
use anyhow::{Context, Result, bail};
use std::{collections::BTreeMap, fmt::Write, fs};

const FOLDER: &str = "docs/decisions";
const LIST: &str = "README.md";
const LIST_HEAD: &str = "<!-- Made by `cargo xtask decisions` from the pages. -->
# Decisions

One page each: context, choice, what we gave up, and what was measured where something was. A decision that replaces another one, or a part of it,
says so in its first line, and the other page says by what it was replaced. Old pages keep the words of their time.

";

/// A page's file name and text.
type Pages = BTreeMap<String, String>;

/// Writes the list.
pub(crate) fn write() -> Result<()> {
    let path = workspace().join(FOLDER).join(LIST);
    fs::write(&path, list(&pages()?)).with_context(|| path.display().to_string())
}

/// Fails where a number is missing, a replacement is said on one page only, or the list is not what the pages say.
pub(crate) fn check() -> Result<()> {
    let pages = pages()?;
    let mut faults = faults(&pages);
    if fs::read_to_string(workspace().join(FOLDER).join(LIST)).unwrap_or_default() != list(&pages) {
        faults.push(format!("{FOLDER}/{LIST} is out of date: run `cargo xtask decisions`"));
    }
    if faults.is_empty() { Ok(()) } else { bail!("{}", faults.join("\n")) }
}

fn pages() -> Result<Pages> {
    let mut pages = Pages::new();
    for entry in fs::read_dir(workspace().join(FOLDER)).with_context(|| FOLDER.to_owned())? {
        let path = entry?.path();
        let name = path.file_name().and_then(|name| name.to_str()).context("a page has a name")?;
        if name != LIST {
            pages.insert(name.to_owned(), fs::read_to_string(&path)?);
        }
    }
    Ok(pages)
}

fn faults(pages: &Pages) -> Vec<String> {
    let mut faults = Vec::new();
    for (number, (name, text)) in (1..).zip(pages) {
        let number = format!("{number:04}");
        if !name.starts_with(&format!("{number}-")) {
            faults.push(format!("{name}: the page before it has the number before {number}"));
        }
        if !text.starts_with(&format!("# {}: ", &name[..name.len().min(4)])) {
            faults.push(format!("{name}: its first line is not `# NUMBER: TITLE` with its own number"));
        }
        if head(text).any(|line| line.starts_with("Changes")) {
            faults
                .push(format!("{name}: write `Replaces:`, with a line `Partly replaced:` on the other page"));
        }
        for line in status(text) {
            let other_says = if line.starts_with("Replaces") { "eplaced" } else { "Replaces" };
            for other in linked([line].into_iter()) {
                let is_answered = pages.get(other).is_some_and(|text| {
                    linked(status(text).filter(|line| line.contains(other_says))).any(|page| page == name)
                });
                if !is_answered {
                    faults.push(format!("{name}: {other} does not say so too in its first lines"));
                }
            }
        }
    }
    faults
}

/// The lines between a page's title and its first paragraph that say what it replaces, or what replaced it.
fn status(text: &str) -> impl Iterator<Item = &str> {
    head(text).filter(|line| line.starts_with("Replace") || line.starts_with("Partly replaced"))
}

/// The lines between a page's title and its first paragraph.
fn head(text: &str) -> impl Iterator<Item = &str> {
    text.lines().skip(1).take_while(|line| !line.starts_with("**"))
}

/// The pages that lines link to.
fn linked<'t>(lines: impl Iterator<Item = &'t str>) -> impl Iterator<Item = &'t str> {
    lines.flat_map(|line| line.split("](").skip(1)).filter_map(|rest| Some(rest.split_once(')')?.0))
}

fn list(pages: &Pages) -> String {
    let mut text = LIST_HEAD.to_owned();
    for (name, page) in pages {
        let title = page.lines().next().unwrap_or_default().trim_start_matches("# ");
        let (number, title) = title.split_once(": ").unwrap_or((name, title));
        let gone = status(page).filter(|line| !line.starts_with("Replaces"));
        let by: Vec<&str> = linked(gone).map(|page| page.split('-').next().unwrap_or(page)).collect();
        let part = if page.contains("\nPartly replaced") { "partly " } else { "" };
        let end = if by.is_empty() {
            String::new()
        } else {
            format!(" ({part}replaced by {})", unique(&by).join(", "))
        };
        // A String takes all that is written.
        let _ = writeln!(text, "- [{number}]({name}) {title}{end}");
    }
    text
}

fn unique<'n>(names: &[&'n str]) -> Vec<&'n str> {
    let mut unique = names.to_vec();
    unique.sort_unstable();
    unique.dedup();
    unique
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(pages: &[(&str, &str)]) -> Pages {
        pages.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect()
    }

    const OLD: (&str, &str) =
        ("0001-a.md", "# 0001: A\n\nReplaced by [0002](0002-b.md).\n\n**Context.** Old.\n");
    const NEW: (&str, &str) =
        ("0002-b.md", "# 0002: B\n\nReplaces: [0001](0001-a.md).\n\n**Context.** New.\n");

    #[test]
    fn pages_that_say_the_same_of_each_other_are_listed() {
        let pages = of(&[OLD, NEW]);
        assert_eq!(faults(&pages), [""; 0]);
        assert!(
            list(&pages).ends_with("\n- [0001](0001-a.md) A (replaced by 0002)\n- [0002](0002-b.md) B\n")
        );
    }

    #[test]
    fn a_gap_a_wrong_title_and_a_replacement_said_once_are_found() {
        let gap = faults(&of(&[OLD, NEW, ("0004-d.md", "# 0004: D\n")]));
        assert_eq!(gap, ["0004-d.md: the page before it has the number before 0003"]);
        let title = faults(&of(&[("0001-a.md", "# 1. A\n")]));
        assert_eq!(title, ["0001-a.md: its first line is not `# NUMBER: TITLE` with its own number"]);
        let silent = faults(&of(&[("0001-a.md", "# 0001: A\n\n**Context.** [0002](0002-b.md)\n"), NEW]));
        assert_eq!(silent, ["0002-b.md: 0001-a.md does not say so too in its first lines"]);
        let silent = faults(&of(&[OLD, ("0002-b.md", "# 0002: B\n\n**Context.** New.\n")]));
        assert_eq!(silent, ["0001-a.md: 0002-b.md does not say so too in its first lines"]);
        let partly = OLD.1.replace("Replaced by", "Partly replaced: x, by");
        let silent = faults(&of(&[(OLD.0, &partly), ("0002-b.md", "# 0002: B\n\n**Context.** New.\n")]));
        assert_eq!(silent.len(), 1);
        let changes = NEW.1.replace("Replaces:", "Changes:");
        let unseen = faults(&of(&[("0001-a.md", "# 0001: A\n"), (NEW.0, &changes)]));
        assert_eq!(
            unseen,
            ["0002-b.md: write `Replaces:`, with a line `Partly replaced:` on the other page"]
        );
    }

    #[test]
    fn the_decisions_are_numbered_and_listed() {
        check().unwrap();
    }
}
