//! `docs/scenarios.md`, made from the types: `scenarios.md` beside this file has its text, and the types' own comments have the
//! meaning of each key.

use crate::cargo::workspace;
use anyhow::{Context, Result, bail};
use schemars::schema_for;
use serde::{
    Deserialize, Deserializer,
    de::{IgnoredAny, MapAccess, Visitor, value::Error},
    forward_to_deserialize_any,
};
use serde_json::{Map, Value};
use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write,
    fs,
};
use tilemark_plan::{
    place::PlaceTable,
    scenario::{
        Disk, Gate, Guest, HostTable, ImageTable, Ladder, Load, Measure, Net, QemuTable, Ready, Scenario,
        Surge, Vary,
    },
    workload::Work,
};

const FILE: &str = "docs/scenarios.md";
const TEMPLATE: &str = include_str!("scenarios.md");
const HEAD: &str =
    "<!-- Made by `cargo xtask scenarios` from xtask/src/scenarios.md and the comments of the types. -->\n";

/// Writes the page again.
pub(crate) fn write() -> Result<()> {
    fs::write(workspace().join(FILE), page(TEMPLATE)?).with_context(|| format!("cannot write {FILE}"))
}

/// Fails where the page is not what would be made now.
pub(crate) fn check_fresh() -> Result<()> {
    let had = fs::read_to_string(workspace().join(FILE)).unwrap_or_default();
    if had == page(TEMPLATE)? { Ok(()) } else { bail!("{FILE} is out of date: run `cargo xtask scenarios`") }
}

/// The keys of each table, in the order of the type. The schema has them too, sorted by name.
fn keys() -> Vec<(&'static str, Vec<String>)> {
    let owned = |keys: &[&str]| keys.iter().map(|key| (*key).to_owned()).collect();
    vec![
        ("Scenario", owned(fields::<Scenario>())),
        ("ImageTable", owned(fields::<ImageTable>())),
        ("Guest", owned(fields::<Guest>())),
        ("Disk", owned(fields::<Disk>())),
        ("Net", owned(fields::<Net>())),
        ("Load", load_keys()),
        ("Ready", owned(fields::<Ready>())),
        ("Ladder", owned(fields::<Ladder>())),
        ("Measure", owned(fields::<Measure>())),
        ("Surge", owned(fields::<Surge>())),
        ("Gate", owned(fields::<Gate>())),
        ("HostTable", owned(fields::<HostTable>())),
        ("PlaceTable", owned(fields::<PlaceTable>())),
        ("QemuTable", owned(fields::<QemuTable>())),
        ("Vary", owned(fields::<Vary>())),
    ]
}

/// The place of all workloads in the template.
const WORKLOADS: &str = "{{workloads}}";

/// The keys of a load: its own, then the name of each workload. Each key that may be left out is given here; a key that is forgotten
/// stops `rows`.
fn load_keys() -> Vec<String> {
    let load: Load = serde_json::from_value(
        serde_json::json!({ "name": "l", "guest": "g", "from": "clients", "web": {} }),
    )
    .expect("it is a load");
    let text = serde_json::to_string(&load).expect("a load can be written");
    let Ordered(mut keys) = serde_json::from_str(&text).expect("a load is a table");
    keys.pop();
    keys.extend(Work::NAMES.iter().map(|name| (*name).to_owned()));
    keys
}

/// The keys of a workload's parameters, in the order of their type.
fn parameter_keys(work: &Work) -> Result<Vec<String>> {
    let text = serde_json::to_string(work)?;
    let of_name: BTreeMap<String, Ordered> = serde_json::from_str(&text)?;
    let (_, Ordered(keys)) = of_name.into_iter().next().context("a workload has parameters")?;
    Ok(keys)
}

/// The keys of a table, as they come.
struct Ordered(Vec<String>);

impl<'de> Deserialize<'de> for Ordered {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Keys;
        impl<'de> Visitor<'de> for Keys {
            type Value = Ordered;
            fn expecting(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                formatter.write_str("a table")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Ordered, A::Error> {
                let mut keys = Vec::new();
                while let Some((key, IgnoredAny)) = map.next_entry()? {
                    keys.push(key);
                }
                Ok(Ordered(keys))
            }
        }
        deserializer.deserialize_map(Keys)
    }
}

fn page(template: &str) -> Result<String> {
    let schema = Schema::new()?;
    let (mut text, mut shown) = (HEAD.to_owned(), BTreeSet::new());
    for line in template.lines() {
        if line == WORKLOADS {
            for work in Work::all() {
                text += &schema.workload(&work, &mut shown)?;
            }
            continue;
        }
        match placeholder(line) {
            Some(("table", name)) => {
                shown.insert(name.to_owned());
                text += &schema.table(name)?;
            }
            Some(("about", name)) => text += &schema.about(name)?,
            Some((what, _)) => bail!("the template of {FILE} asks for an unknown {what}"),
            None => writeln!(text, "{line}")?,
        }
    }
    let forgotten: Vec<&str> = schema.tables().filter(|name| !shown.contains(*name)).collect();
    if forgotten.is_empty() { Ok(text) } else { bail!("{FILE} has no table of {}", forgotten.join(", ")) }
}

/// What a line such as `{{table Gate}}` asks for.
fn placeholder(line: &str) -> Option<(&str, &str)> {
    line.strip_prefix("{{")?.strip_suffix("}}")?.split_once(' ')
}

struct Schema(Value);

impl Schema {
    fn new() -> Result<Self> {
        Ok(Self(serde_json::to_value(schema_for!(Scenario))?))
    }

    fn definition(&self, name: &str) -> Result<&Value> {
        let found = if name == "Scenario" { Some(&self.0) } else { self.0["$defs"].get(name) };
        found.with_context(|| format!("a scenario has no {name}"))
    }

    /// The names of all types that have keys.
    fn tables(&self) -> impl Iterator<Item = &str> {
        let all = self.0["$defs"].as_object().into_iter().flatten();
        let inner = all.filter(|(_, definition)| definition.get("properties").is_some());
        inner.map(|(name, _)| name.as_str()).chain(["Scenario"])
    }

    /// The type's comment, one line a paragraph.
    fn about(&self, name: &str) -> Result<String> {
        let text = description(self.definition(name)?)?;
        let paragraphs: Vec<String> = text.split("\n\n").map(|part| part.replace('\n', " ")).collect();
        Ok(paragraphs.join("\n\n") + "\n")
    }

    fn table(&self, name: &str) -> Result<String> {
        let keys = keys();
        let (_, keys) = keys
            .iter()
            .find(|(known, _)| *known == name)
            .with_context(|| format!("xtask/src/scenarios.rs does not list the keys of {name}"))?;
        self.rows(name, keys)
    }

    /// The part of the page that a workload has: its text, its keys, and the tables in them.
    fn workload(&self, work: &Work, shown: &mut BTreeSet<String>) -> Result<String> {
        let name = work.name();
        let choice =
            choice_of(self.definition("Load")?, name).with_context(|| format!("no load has {name}"))?;
        let of = reference(&choice["properties"][name]).context("a workload has a type")?;
        let keys = parameter_keys(work)?;
        shown.insert(of.to_owned());
        let mut text = format!("### `[load.{name}]`\n\n{}\n{}\n", self.about(of)?, self.rows(of, &keys)?);
        self.inner_tables(of, &keys, shown, &mut text)?;
        Ok(text)
    }

    /// The tables of which a type's lists and tables of tables consist.
    fn inner_tables(
        &self,
        of: &str,
        keys: &[String],
        shown: &mut BTreeSet<String>,
        text: &mut String,
    ) -> Result<()> {
        for key in keys {
            let property = &self.definition(of)?["properties"][key];
            let inner =
                reference(&property["items"]).or_else(|| reference(&property["additionalProperties"]));
            let Some(inner) = inner else { continue };
            let properties = self.definition(inner)?["properties"].as_object();
            let keys: Vec<String> = properties.into_iter().flat_map(Map::keys).cloned().collect();
            shown.insert(inner.to_owned());
            writeln!(text, "Each of the `{key}`:\n\n{}", self.rows(inner, &keys)?)?;
            self.inner_tables(inner, &keys, shown, text)?;
        }
        Ok(())
    }

    fn rows(&self, name: &str, keys: &[String]) -> Result<String> {
        let definition = self.definition(name)?;
        let known = definition["properties"].as_object();
        let forgotten: Vec<&str> = known
            .into_iter()
            .flat_map(Map::keys)
            .filter(|key| !keys.contains(key))
            .map(String::as_str)
            .collect();
        if !forgotten.is_empty() {
            bail!("the table of {name} lacks {}", forgotten.join(", "));
        }
        let mut table = String::from("| key | type | default | meaning |\n|---|---|---|---|\n");
        for key in keys {
            let row = self.row(definition, key).with_context(|| format!("{name}.{key}"))?;
            writeln!(table, "{row}")?;
        }
        Ok(table)
    }

    fn row(&self, of: &Value, key: &str) -> Result<String> {
        if let Some(choice) = choice_of(of, key) {
            let text = description(choice)?.replace('\n', " ");
            return Ok(format!("| `{key}` | table | exactly one of these | {text} |"));
        }
        let property = &of["properties"][key];
        let is_needed = of["required"].as_array().is_some_and(|all| all.iter().any(|name| name == key));
        let text = description(property)?.replace('\n', " ");
        let (stated, mut meaning) = without_default(&text);
        let default = match (is_needed, property.get("default"), stated) {
            (true, ..) => "needed".to_owned(),
            (false, _, Some(stated)) => stated.to_owned(),
            (false, Some(value), None) => written_default(value)?,
            (false, None, None) => bail!("no default: say it in a sentence that begins with `Default:`"),
        };
        let kind = self.kind(property)?;
        for (word, about) in self.words(property)? {
            write!(meaning, "<br>`\"{word}\"`: {}", about.replace('\n', " "))?;
        }
        Ok(format!("| `{key}` | {kind} | {default} | {} |", meaning.trim()))
    }

    /// What a value is, in a word or two.
    fn kind(&self, property: &Value) -> Result<String> {
        let property = filled(property);
        if let Some(name) = reference(property) {
            return Ok(match name {
                "Bytes" => "size",
                "Span" => "time",
                "Rate" => "rate",
                "Fraction" => "part",
                _ if self.definition(name)?.get("properties").is_some() => "table",
                "RequestedImage" => "text or table",
                _ if self.definition(name)?.get("anyOf").is_some() => "word or table",
                _ => "one of these words",
            }
            .to_owned());
        }
        let kind = match &property["type"] {
            Value::String(kind) => kind.as_str(),
            Value::Array(kinds) => kinds.first().and_then(Value::as_str).unwrap_or_default(),
            _ => "any",
        };
        Ok(match kind {
            "string" => "text".to_owned(),
            "integer" => "whole number".to_owned(),
            "number" => "number".to_owned(),
            "boolean" => "`true` or `false`".to_owned(),
            "object" if property["additionalProperties"]["type"] == "integer" => {
                "table of whole numbers".to_owned()
            }
            "object" if property["additionalProperties"]["type"] == "string" => "table of texts".to_owned(),
            "object" if reference(&property["additionalProperties"]) == Some("ImageFile") => {
                "table of texts or tables".to_owned()
            }
            "object" => "table of tables".to_owned(),
            "array" => match self.kind(&property["items"])?.as_str() {
                "any value" => "list of values".to_owned(),
                "one of these words" => "list of these words".to_owned(),
                item => format!("list of {item}s"),
            },
            "any" => "any value".to_owned(),
            _ => bail!("{kind} has no name in {FILE}"),
        })
    }

    /// Each word that a value may be, and its meaning.
    fn words(&self, property: &Value) -> Result<Vec<(&str, &str)>> {
        let Some(name) = reference(filled(property)) else { return Ok(Vec::new()) };
        let words = self.definition(name)?["oneOf"].as_array().into_iter().flatten();
        words
            .map(|word| Ok((word["const"].as_str().context("a word is text")?, description(word)?)))
            .collect()
    }
}

/// The schema of the value that is there: a key that may be left out has `null` beside it.
fn filled(property: &Value) -> &Value {
    let choices = property["anyOf"].as_array().into_iter().flatten();
    let mut others = choices.filter(|choice| choice["type"] != "null");
    others.next().unwrap_or(property)
}

/// The choice that a key makes, where exactly one of several keys is needed.
fn choice_of<'a>(of: &'a Value, key: &str) -> Option<&'a Value> {
    of["oneOf"].as_array()?.iter().find(|choice| choice["properties"].get(key).is_some())
}

fn reference(property: &Value) -> Option<&str> {
    property["$ref"].as_str()?.strip_prefix("#/$defs/")
}

fn description(of: &Value) -> Result<&str> {
    of["description"].as_str().context("it has no comment")
}

/// Takes the sentence that begins with `Default:` out of a comment: the default, and the rest.
fn without_default(text: &str) -> (Option<&str>, String) {
    let Some((before, after)) = text.split_once("Default: ") else { return (None, text.to_owned()) };
    let (default, rest) = after.split_once(". ").unwrap_or((after.trim_end_matches('.'), ""));
    (Some(default), format!("{before}{rest}").trim_end().to_owned())
}

/// A default as it would be written in a scenario.
fn written_default(value: &Value) -> Result<String> {
    let is_table = |value: &Value| value.as_object().is_some_and(|table: &Map<_, _>| !table.is_empty());
    Ok(match value {
        Value::Null => {
            bail!(
                "the default is not a value: say what then happens in a sentence that begins with `Default:`"
            )
        }
        Value::Array(list) if list.is_empty() => "none".to_owned(),
        Value::Object(table) if table.is_empty() => "none".to_owned(),
        table if is_table(table) => "that of each key".to_owned(),
        value => format!("`{}`", toml(value)),
    })
}

/// JSON as inline TOML.
fn toml(value: &Value) -> String {
    match value {
        Value::Array(list) => format!("[{}]", list.iter().map(toml).collect::<Vec<_>>().join(", ")),
        Value::Object(table) => {
            let pairs: Vec<String> =
                table.iter().map(|(key, value)| format!("{key} = {}", toml(value))).collect();
            format!("{{ {} }}", pairs.join(", "))
        }
        value => value.to_string(),
    }
}

/// The keys that a type reads, in the order of its fields: what its `Deserialize` asks for.
fn fields<'de, T: Deserialize<'de>>() -> &'static [&'static str] {
    let mut fields: &[&str] = &[];
    // It cannot succeed: there is nothing to read.
    drop(T::deserialize(Asked(&mut fields)));
    fields
}

/// Reads nothing, and keeps which keys were asked for.
struct Asked<'f>(&'f mut &'static [&'static str]);

impl<'de> Deserializer<'de> for Asked<'_> {
    type Error = Error;

    fn deserialize_any<V: Visitor<'de>>(self, _: V) -> Result<V::Value, Error> {
        Err(serde::de::Error::custom("only the keys of a table are asked for"))
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        *self.0 = fields;
        self.deserialize_any(visitor)
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option unit unit_struct
        newtype_struct seq tuple tuple_struct map enum identifier ignored_any
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_key_has_its_type_its_default_and_its_meaning_in_the_order_of_the_file() {
        let table = Schema::new().unwrap().table("Gate").unwrap();
        let rows: Vec<&str> = table.lines().skip(2).collect();
        assert!(rows[0].starts_with("| `p99` | time | `\"50ms\"` | 99 of 100 requests"), "{table}");
        assert!(rows[1].starts_with("| `errors` | part | `\"0.1%\"` | "), "{table}");
        assert_eq!(rows.len(), 6);
    }

    #[test]
    fn a_table_has_every_key_of_the_schema() {
        let schema = Schema::new().unwrap();
        for (name, keys) in keys() {
            schema.rows(name, &keys).unwrap();
            let fewer = &keys[..keys.len() - 1];
            let is_choice = choice_of(schema.definition(name).unwrap(), &keys[keys.len() - 1]).is_some();
            assert_eq!(schema.rows(name, fewer).is_err(), !is_choice, "{name}");
        }
        let loads = schema.table("Load").unwrap();
        let row = loads.lines().find(|row| row.starts_with("| `from` | text |")).expect("who sends a load");
        assert!(row.contains("role `client`") && row.contains("[clients.md](clients.md)"), "{row}");
    }

    #[test]
    fn each_word_of_a_value_has_its_meaning() {
        let table = Schema::new().unwrap().table("Disk").unwrap();
        let row = table.lines().find(|row| row.starts_with("| `on` |")).unwrap();
        assert!(row.starts_with("| `on` | one of these words | `\"store\"` | Where its bytes are.<br>`\"store\"`: In the disk store"));
    }

    #[test]
    fn a_key_without_a_default_is_refused() {
        let row = |property: Value| {
            let of = json!({ "properties": { "kernel": property } });
            Schema(json!({})).row(&of, "kernel").map_err(|error| error.to_string())
        };
        let about = "Its kernel. Default: the image's. An ELF file.";
        let stated = row(json!({ "description": about, "type": ["string", "null"], "default": null }));
        assert_eq!(stated.unwrap(), "| `kernel` | text | the image's | Its kernel. An ELF file. |");
        let silent =
            row(json!({ "description": "Its kernel.", "type": ["string", "null"], "default": null }));
        assert!(silent.unwrap_err().starts_with("the default is not a value"));
        assert_eq!(row(json!({ "type": "string" })).unwrap_err(), "it has no comment");
    }

    #[test]
    fn a_table_that_the_page_forgets_is_found() {
        let short = TEMPLATE.replace("{{table Ladder}}", "");
        assert_eq!(page(&short).unwrap_err().to_string(), "docs/scenarios.md has no table of Ladder");
    }

    #[test]
    fn the_page_is_what_the_types_say() {
        check_fresh().unwrap();
    }
}
