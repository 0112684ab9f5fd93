//! A sheet as Markdown, for a comment or a summary page: tables as GitHub draws them.

use super::{Finding, Sheet};
use crate::view::{Cell, GroupHead, Part, Section, Table};
use tilemark_units::is_unprintable;

/// The sheet.
pub(super) fn markdown(sheet: &Sheet) -> String {
    let mut out = format!("# {}\n", text(&sheet.title));
    sheet.lead.iter().for_each(|one| section(&mut out, one));
    out.push_str("\n## What was found\n");
    sheet.findings.iter().for_each(|one| finding(&mut out, one));
    sheet.sections.iter().for_each(|one| section(&mut out, one));
    out
}

fn finding(out: &mut String, finding: &Finding) {
    if !finding.head.is_empty() {
        out.push_str(&format!("\n### {}\n", text(&finding.head)));
    }
    let chip = finding.chip.map(|chip| format!("**{}** ", chip.word())).unwrap_or_default();
    out.push_str(&format!("\n{chip}{}\n", text(&finding.text)));
    if !finding.reasons.is_empty() {
        out.push('\n');
    }
    for reason in &finding.reasons {
        out.push_str(&format!("- {}\n", text(reason)));
    }
}

fn section(out: &mut String, section: &Section) {
    out.push_str(&format!("\n## {}\n", text(section.title)));
    for part in &section.parts {
        match part {
            Part::Text(about) => out.push_str(&format!("\n{}\n", text(about))),
            Part::Table(table) => self::table(out, table),
        }
    }
}

fn table(out: &mut String, table: &Table) {
    let heads = table.columns.iter().map(|column| match &column.unit {
        Some(unit) => format!("{} ({})", text(&column.head), text(unit)),
        None => text(&column.head),
    });
    row(out, heads.collect());
    // The first column has the rows' heads, and words are at the left, as in the other forms.
    let ruler =
        table.columns.iter().enumerate().map(|(place, column)| match place == 0 || column.is_left() {
            true => "---".to_owned(),
            false => "---:".to_owned(),
        });
    row(out, ruler.collect());
    let blank = |from: usize| (from..table.columns.len()).map(|_| String::new());
    for group in &table.groups {
        match &group.head {
            Some(GroupHead::Named(name)) => {
                row(out, [format!("**{}**", text(name))].into_iter().chain(blank(1)).collect());
            }
            Some(GroupHead::Emulated { proof, .. }) => {
                row(out, [format!("**EMULATED** {}", text(proof))].into_iter().chain(blank(1)).collect());
            }
            None => {}
        }
        for one in &group.rows {
            for (place, line) in one.lines.iter().enumerate() {
                let head = if place == 0 { cell(&one.head) } else { String::new() };
                let struck = |each: &Cell| {
                    if one.struck || each.struck { format!("~~{}~~", cell(each)) } else { cell(each) }
                };
                let cells = [head].into_iter().chain(line.iter().map(struck)).chain(blank(line.len() + 1));
                row(out, cells.collect());
            }
        }
    }
    let notes = (1..).zip(&table.notes).map(|(number, note)| format!("{number}. {note}"));
    for below in notes.chain(table.absent.iter().chain(&table.below).map(|below| format!("{below}."))) {
        out.push_str(&format!("\n{}\n", text(&below)));
    }
}

fn row(out: &mut String, cells: Vec<String>) {
    // A table needs an empty line before it, and none within.
    if !out.ends_with("|\n") {
        out.push('\n');
    }
    out.push_str(&format!("| {} |\n", cells.join(" | ")));
}

fn cell(cell: &Cell) -> String {
    match &cell.aside {
        Some(aside) if !cell.text.is_empty() => format!("{} ({})", text(&cell.text), text(aside)),
        _ => text(&cell.text),
    }
}

/// Text that stays text: no sign of Markdown or HTML in it means anything, and it is one line.
fn text(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '\\' | '`' | '*' | '_' | '{' | '}' | '[' | ']' | '#' | '|' | '~' | '!' | '@' => {
                out.push('\\');
                out.push(character);
            }
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '&' => out.push_str("&amp;"),
            '\n' | '\r' | '\t' | '\u{202f}' => out.push(' '),
            c if is_unprintable(c) => out.push('\u{fffd}'),
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn foreign_text_is_neither_markup_nor_another_cell() {
        assert_eq!(text("a|b <img> `x` [y](z)\n# *w*"), "a\\|b &lt;img&gt; \\`x\\` \\[y\\](z) \\# \\*w\\*");
        assert_eq!(text("\u{1b}[2J @everyone"), "\u{fffd}\\[2J \\@everyone");
    }
}
