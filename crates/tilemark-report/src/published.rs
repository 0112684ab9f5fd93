//! The figures of the four papers, as data (`published.toml`), as tables.

use crate::number::three;
use tilemark_plan::scenario::{Guest, Role, Scenario};
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
    let has = |role| scenario.guest.iter().any(|guest| guest.serves(role));
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

fn oltp() -> Table {
    let data: Table = PUBLISHED.parse().expect("published.toml is our own; a test parses it");
    data["oltp"].as_table().expect("a paper is a table; a test reads it").clone()
}

/// What so many guests of the database paper did together, over what one did.
pub(crate) fn oltp_relative(guests: u32) -> Option<f64> {
    let oltp = oltp();
    let row = oltp.get("result")?.as_array()?.first()?;
    let counts = row.get("guests")?.as_array()?;
    let place = counts.iter().position(|count| count.as_integer() == Some(i64::from(guests)))?;
    row.get("relative")?.as_array()?.get(place)?.as_float()
}

/// What the consolidation paper published of its throughput against tiles: no figure of a step, but that it grew in proportion to tiles.
#[derive(serde::Serialize)]
pub(crate) struct PublishedScaling {
    /// Up to so many tiles.
    pub(crate) tiles: i64,
    /// Its limit on the mean response.
    pub(crate) mean_ms: f64,
    /// Who published it, when, on what.
    pub(crate) about: String,
}

/// Of the consolidation paper, where a scenario consolidates: its tile has web guests and others.
pub(crate) fn scaling(scenario: &Scenario) -> Option<PublishedScaling> {
    let is_web = |guest: &Guest| guest.roles() == [Role::Web];
    if !scenario.guest.iter().any(is_web) || scenario.guest.iter().all(is_web) {
        return None;
    }
    let data: Table = PUBLISHED.parse().expect("published.toml is our own; a test parses it");
    let (paper, result) = (data.get("consolidation")?, data.get("consolidation")?.get("result")?);
    let source =
        |key: &str| paper.get("source").and_then(|source| source.get(key)).map(plain).unwrap_or_default();
    (result.get("scaling")?.as_str()? == "linear").then_some(())?;
    Some(PublishedScaling {
        tiles: result.get("tiles")?.as_integer()?,
        mean_ms: 1_000.0 * result.get("mean_response_s")?.as_float()?,
        about: format!("{}, {}, {}", source("publisher"), source("year"), source("host")),
    })
}

/// The database paper's host and guests.
pub(crate) fn oltp_machine() -> String {
    let oltp = oltp();
    let source = |key: &str| oltp.get("source").and_then(|all| all.get(key)).map(plain).unwrap_or_default();
    format!("{}; guests of {}", source("host"), source("guest"))
}

/// One paper can publish several tables.
fn paper(data: &Table) -> Vec<Paper> {
    let source = data.get("source").and_then(Value::as_table);
    let of_source = |key: &str| source.and_then(|source| source.get(key)).map(plain).unwrap_or_default();
    let details: Vec<String> = ["publisher", "year", "host", "guest", "load"]
        .into_iter()
        .map(of_source)
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
            // What was done comes before its results.
            heads.sort_by_key(|head| FIRST.iter().position(|first| first == head).unwrap_or(FIRST.len()));
            let cells = |row: &Table| {
                heads.iter().map(|head| row.get(*head).map(plain).unwrap_or_default()).collect()
            };
            Paper {
                title: format!("{}: {}", of_source("title"), name.replace('_', " ")),
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

/// What the messaging paper published, for charts. Rates are transfers: a message in is one, a message out another.
pub(crate) struct MessagingPaper {
    /// Who published it.
    pub(crate) publisher: String,
    /// When.
    pub(crate) year: i64,
    /// On which host.
    pub(crate) host: String,
    /// In which guests.
    pub(crate) guest: String,
    /// Throughput of two guests summed, the median of nine runs.
    pub(crate) throughput: Vec<PublishedThroughput>,
    /// Latency at 1,000 messages a second with the network card passed through, the run with the median deviation of nine.
    pub(crate) latency: Vec<PublishedLatency>,
}

/// Throughput at one size.
pub(crate) struct PublishedThroughput {
    /// Bytes of a message.
    pub(crate) size: u64,
    /// Transfers a second over a bridge.
    pub(crate) bridged: f64,
    /// The same in 10^6 bytes a second; the paper's figure is in 2^20.
    pub(crate) bridged_megabytes: f64,
    /// Transfers a second with the network card passed through.
    pub(crate) passthrough: f64,
    /// The same in 10^6 bytes a second.
    pub(crate) passthrough_megabytes: f64,
}

/// Latency at one size, milliseconds.
pub(crate) struct PublishedLatency {
    /// Bytes of a message.
    pub(crate) size: u64,
    /// Mean of one guest.
    pub(crate) one_mean: f64,
    /// Its deviation.
    pub(crate) one_deviation: f64,
    /// Mean of two guests together.
    pub(crate) two_mean: f64,
    /// Its deviation.
    pub(crate) two_deviation: f64,
}

impl MessagingPaper {
    /// All sizes that it has.
    pub(crate) fn sizes(&self) -> impl Iterator<Item = u64> {
        self.throughput.iter().map(|point| point.size).chain(self.latency.iter().map(|point| point.size))
    }
}

/// The figures of the messaging paper.
pub(crate) fn messaging() -> MessagingPaper {
    const OWN: &str = "published.toml is our own; a test reads it";
    let data: Table = PUBLISHED.parse().expect(OWN);
    let paper = data["messaging"].as_table().expect(OWN);
    let source = |key: &str| paper["source"][key].as_str().expect(OWN).to_owned();
    let rows = |part: &str| -> Vec<Table> {
        let rows = paper[part].as_array().expect(OWN);
        rows.iter().filter_map(Value::as_table).flat_map(spread).collect()
    };
    let number = |row: &Table, key: &str| match &row[key] {
        Value::Integer(whole) => *whole as f64,
        other => other.as_float().expect(OWN),
    };
    let megabytes = |row: &Table, key: &str| number(row, key) * f64::from(1 << 20) / 1e6;
    let size = |row: &Table| row["size_bytes"].as_integer().expect(OWN).unsigned_abs();
    MessagingPaper {
        publisher: source("publisher"),
        year: paper["source"]["year"].as_integer().expect(OWN),
        host: source("host"),
        guest: source("guest"),
        throughput: rows("throughput")
            .iter()
            .map(|row| PublishedThroughput {
                size: size(row),
                bridged: number(row, "bridged_transfers_per_s"),
                bridged_megabytes: megabytes(row, "bridged_mebibytes_per_s"),
                passthrough: number(row, "passthrough_transfers_per_s"),
                passthrough_megabytes: megabytes(row, "passthrough_mebibytes_per_s"),
            })
            .collect(),
        latency: rows("latency")
            .iter()
            .map(|row| PublishedLatency {
                size: size(row),
                one_mean: number(row, "one_guest_mean_ms"),
                one_deviation: number(row, "one_guest_deviation_ms"),
                two_mean: number(row, "two_guests_mean_ms"),
                two_deviation: number(row, "two_guests_deviation_ms"),
            })
            .collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_database_paper_says_how_much_more_guests_did() {
        let relative: Vec<Option<f64>> = [1, 2, 3, 4, 8].into_iter().map(oltp_relative).collect();
        assert_eq!(relative, [Some(1.0), Some(1.99), None, Some(3.51), Some(5.43)]);
        assert!(oltp_machine().contains("X5550") && oltp_machine().contains("2 vCPU"));
    }

    #[test]
    fn the_consolidation_paper_s_line_is_for_tiles_of_web_guests_and_others() {
        let draft = |others: &str| {
            let text = format!(
                "schema = 1\nname = \"t\"\nabout = \"t\"\nheadline = \"w\"\n[[guest]]\nname = \"web\"\nrole = \"web\"\n{others}[[load]]\nname = \"w\"\nguest = \"web\"\nrate = \"9/s\"\n[load.web]\n[ladder]\ntiles = [1]\n"
            );
            let draft = tilemark_plan::parse::Draft::from_toml(&text, "t").expect("it parses");
            let host = tilemark_fixtures::host(8, tilemark_units::Bytes::from_gib(16));
            let request = tilemark_fixtures::request(&[tilemark_plan::plan::Backend::Kvm]);
            tilemark_plan::resolve::resolve(&draft, &request, &host).expect("it resolves").scenario
        };
        assert!(scaling(&draft("")).is_none());
        let found = scaling(&draft("[[guest]]\nname = \"idle\"\nrole = \"idle\"\n")).expect("web and idle");
        assert_eq!((found.tiles, found.mean_ms), (32, 1_000.0));
        assert!(found.about.contains("2009") && found.about.contains("48 cores"), "{}", found.about);
    }

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

    #[test]
    fn the_paper_s_mebibytes_are_its_transfers_times_the_size() {
        let paper = messaging();
        assert_eq!((paper.throughput.len(), paper.latency.len()), (9, 7));
        for point in &paper.throughput {
            let computed = point.bridged * point.size as f64 / 1e6;
            assert!((point.bridged_megabytes / computed - 1.0).abs() < 1e-3, "{} B", point.size);
        }
        // 637.515 MiB/s of 4096 B, bridged.
        assert!((paper.throughput[8].bridged_megabytes - 668.483).abs() < 0.01);
    }
}
