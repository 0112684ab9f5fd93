//! From the text of a scenario, with presets and settings applied, to a checked [`Scenario`].

pub use crate::check::text::SCENARIO_BYTES_MAX;

use crate::{
    check::{
        check,
        text::{check_document, check_text},
    },
    host_settings,
    problem::{Problem, Problems},
    request::HOST_PRESET,
    scenario::Scenario,
    settings,
    unreadable::{self, Typed},
};
use serde_json::Value;
use std::collections::BTreeMap;
use tilemark_units::in_our_words;

/// A scenario as a document on which settings can still be put.
#[derive(Debug, Clone, PartialEq)]
pub struct Draft {
    document: Value,
    origin: String,
    typed: Typed,
}

impl Draft {
    /// Reads TOML. `origin` is the file or name, for messages.
    pub fn from_toml(text: &str, origin: &str) -> Result<Self, Problems> {
        check_text(text, origin, "scenario")?;
        let table: toml::Table = text.parse().map_err(|error: toml::de::Error| {
            Problem::new(not_toml(text, origin, &error), "correct the line that is named")
        })?;
        if let Some(message) = settings::not_finite(&toml::Value::Table(table.clone()), "") {
            return Err(Problem::new(format!("{origin}: {message}"), settings::FINITE).into());
        }
        let document = serde_json::to_value(table).map_err(|error| {
            Problem::new(format!("{origin}: {error}"), "use text, numbers, lists and tables only")
        })?;
        Self::from_document(document, origin)
    }

    /// Takes a document with the keys that a scenario's text has. `origin` is what made it, for messages.
    pub fn from_document(mut document: Value, origin: &str) -> Result<Self, Problems> {
        host_settings::flatten(&mut document)
            .map_err(|message| Problem::new(format!("{origin}: {message}"), "leave out one of them"))?;
        check_document(&document, origin)?;
        Ok(Self { document, origin: origin.to_owned(), typed: Typed::new() })
    }

    /// The file or name that it was read from, or what made it.
    pub fn origin(&self) -> &str {
        &self.origin
    }

    /// Whether the scenario has such a preset.
    pub fn has_preset(&self, name: &str) -> bool {
        self.document.get("preset").and_then(|presets| presets.get(name)).is_some()
    }

    /// Puts the values of a preset in place.
    pub fn apply_preset(&mut self, name: &str) -> Result<(), Problems> {
        let presets = self.document.get("preset").and_then(Value::as_object).cloned().unwrap_or_default();
        let Some(values) = presets.get(name).and_then(Value::as_object) else {
            // That of every scenario is last.
            let own = presets.keys().map(String::as_str).filter(|own| *own != HOST_PRESET);
            let known: Vec<&str> = own.chain([HOST_PRESET]).collect();
            let remedy = format!("this scenario has: {}", known.join(", "));
            return Err(Problem::new(format!("no preset `{name}`"), remedy).into());
        };
        for (key, value) in values {
            self.set(key, value.clone())?;
        }
        Ok(())
    }

    /// Puts one value in place.
    pub fn set(&mut self, key: &str, value: Value) -> Result<(), Problems> {
        settings::set(&mut self.document, key, value).map_err(|message| {
            Problem::new(message, "see the keys with `tilemark scenarios show NAME`").into()
        })
    }

    /// Puts `KEY=VALUE` settings in place.
    pub fn apply_settings(&mut self, settings: &BTreeMap<String, String>) -> Result<(), Problems> {
        self.apply_typed("--set", settings)
    }

    /// The same, of another flag than `--set`, such as `--a`: messages show it.
    pub fn apply_typed(
        &mut self,
        flag: &'static str,
        settings: &BTreeMap<String, String>,
    ) -> Result<(), Problems> {
        self.typed.extend(settings.keys().map(|key| (key.clone(), flag)));
        let mut problems = Vec::new();
        for (key, text) in settings {
            match settings::value_of_flag(key, text) {
                Ok(value) => {
                    problems.extend(self.set(key, value).err().into_iter().flat_map(|found| found.0))
                }
                Err(message) => problems.push(Problem::new(message, settings::FINITE)),
            }
        }
        if problems.is_empty() { Ok(()) } else { Err(Problems(problems)) }
    }

    /// The scenario, checked as far as it can be without a host. All problems are reported at once.
    pub fn finish(&self) -> Result<Scenario, Problems> {
        let mut scenario = unreadable::read(&self.document, &self.typed)?;
        if let ([only], None) = (&scenario.load[..], &scenario.headline) {
            scenario.headline = Some(only.name.clone());
        }
        let problems = check(&scenario);
        if problems.is_empty() { Ok(scenario) } else { Err(Problems(problems)) }
    }
}

/// Where a text is no TOML: `shop.toml, line 14: key with no value, expected `=`: [ladder`.
pub(crate) fn not_toml(text: &str, origin: &str, error: &toml::de::Error) -> String {
    /// Characters of the line, and of the reason, that are shown.
    const SHOWN: usize = 250;
    let cut = |text: &str| match text.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{} [...]", &text[..end]),
        None => text.to_owned(),
    };
    let start = error.span().map_or(0, |span| span.start.min(text.len()));
    let number = text.as_bytes()[..start].iter().filter(|byte| **byte == b'\n').count();
    let line = text.lines().nth(number).unwrap_or_default().trim();
    let reason = in_our_words(&error.message().replace('\n', ", "));
    format!("{origin}, line {}: {}: {}", number + 1, cut(&reason), cut(line))
}
