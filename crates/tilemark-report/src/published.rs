//! The figures of the four papers, as data (`published.toml`), as tables.

use crate::number::three;
use tilemark_plan::scenario::{Role, Scenario};
use toml::{Table, Value};

const PUBLISHED: &str = include_str!("../published.toml");

/// Columns that say what was done, in the order of a reader's questions.
const FIRST: [&str; 8] = ["system", "setting", "tiles", "guests", "vcpus", "luns", "size_bytes", "bound"];

/// What one paper published.
pub(crate) struct Paper {
    /// Its title.
    pub(crate) title: String,
    /// Who, when, on what.
    pub(crate) about: String,
    /// Heads of the columns.
    pub(crate) heads: Vec<String>,
    /// Rows of cells.
    pub(crate) rows: Vec<Vec<String>>,
}

/// The papers; those whose kind of guest the scenario has come first.
pub(crate) fn papers(scenario: &Scenario) -> Vec<Paper> {
    let data: Table = PUBLISHED.parse().expect("published.toml is our own; a test parses it");
    let has = |role| scenario.guest.iter().any(|guest| guest.role == role);
    let mut names = vec![
        ("messaging", has(Role::Broker)),
        ("block_io", has(Role::Disk)),
        ("oltp", has(Role::Database)),
        ("consolidation", has(Role::Web)),
    ];
    names.sort_by_key(|(_, fits)| !fits);
    let tables = names.into_iter().filter_map(|(name, _)| data.get(name).and_then(Value::as_table));
    tables.flat_map(paper).collect()
}

/// One paper can publish several tables.
fn paper(data: &Table) -> Vec<Paper> {
    let source = data.get("source").and_then(Value::as_table);
    let told = |key: &str| source.and_then(|source| source.get(key)).map(plain).unwrap_or_default();
    let details: Vec<String> = ["publisher", "year", "host", "guest", "load"]
        .into_iter()
        .map(told)
        .filter(|text| !text.is_empty())
        .collect();
    let parts = data.iter().filter(|(name, _)| *name != "source");
    parts
        .map(|(name, part)| {
            let rows: Vec<Table> = match part {
                Value::Array(rows) => rows.iter().filter_map(Value::as_table).flat_map(spread).collect(),
                Value::Table(row) => spread(row),
                _ => Vec::new(),
            };
            let mut heads: Vec<&String> = Vec::new();
            for key in rows.iter().flat_map(Table::keys) {
                if !heads.contains(&key) {
                    heads.push(key);
                }
            }
            // What was done stands before what came of it.
            heads.sort_by_key(|head| FIRST.iter().position(|first| first == head).unwrap_or(FIRST.len()));
            let cells = |row: &Table| {
                heads.iter().map(|head| row.get(*head).map(plain).unwrap_or_default()).collect()
            };
            Paper {
                title: format!("{}: {}", told("title"), name.replace('_', " ")),
                about: details.join("; "),
                rows: rows.iter().map(cells).collect(),
                heads: heads.iter().map(|head| head_words(head)).collect(),
            }
        })
        .collect()
}

/// Lists of equal length side by side become one row for each place.
fn spread(row: &Table) -> Vec<Table> {
    let length = row.values().filter_map(Value::as_array).map(Vec::len).max();
    let Some(length) = length else {
        return vec![row.clone()];
    };
    let at = |place: usize| {
        let cells = row.iter().filter_map(|(key, value)| match value {
            Value::Array(values) => Some((key.clone(), values.get(place)?.clone())),
            other => Some((key.clone(), other.clone())),
        });
        cells.collect::<Table>()
    };
    (0..length).map(at).collect()
}

fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Integer(whole) if (1_000..3_000).contains(whole) => whole.to_string(),
        Value::Integer(whole) => crate::number::whole(whole.unsigned_abs()),
        Value::Float(number) => three(*number),
        other => other.to_string(),
    }
}

/// `bridged_transfers_per_s` is `bridged transfers/s`.
fn head_words(key: &str) -> String {
    if key == "bound" {
        return "the paper says".to_owned();
    }
    key.replace("_per_s", "/s").replace("_per_minute", "/min").replace('_', " ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_published_figure_becomes_a_row() {
        let data: Table = PUBLISHED.parse().expect("the file that ships parses");
        let rows: Vec<usize> = ["messaging", "block_io", "oltp", "consolidation"]
            .into_iter()
            .flat_map(|name| paper(data[name].as_table().expect("a paper is a table")))
            .map(|paper| paper.rows.len())
            .collect();
        assert_eq!(
            rows,
            [7, 9, 7, 2, 4, 2, 1],
            "latency, throughput; results, rivals; results; effects, result"
        );
    }
}
