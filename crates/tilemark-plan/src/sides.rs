//! Two sides that are measured in turn: what each of them sets, and so what differs between them.

use crate::{JsonSchema, scenario::Scenario, settings};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// Settings of two sides, by dotted key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Sides {
    /// Of the first.
    pub a: BTreeMap<String, String>,
    /// Of the second.
    pub b: BTreeMap<String, String>,
}

/// A key that has another value on each of two sides.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SideSetting {
    /// The key, as it was typed.
    pub key: String,
    /// Its value on the first side; nothing where neither that side nor the scenario has one.
    pub a: Option<String>,
    /// The same on the second side.
    pub b: Option<String>,
}

impl Sides {
    /// What differs between them, by the keys that were typed. A side that does not set a key has the scenario's value.
    pub fn differences(&self, scenario: &Scenario) -> Vec<SideSetting> {
        let scenario = serde_json::to_value(scenario).expect("a scenario can be written as JSON");
        let value = |side: &BTreeMap<String, String>, key: &str| {
            side.get(key).cloned().or_else(|| settings::get(&scenario, key).map(as_typed))
        };
        let keys: BTreeSet<&String> = self.a.keys().chain(self.b.keys()).collect();
        let setting =
            |key: &String| SideSetting { key: key.clone(), a: value(&self.a, key), b: value(&self.b, key) };
        keys.into_iter().map(setting).filter(|setting| setting.a != setting.b).collect()
    }
}

/// A value as a flag would have it.
fn as_typed(value: Value) -> String {
    match value {
        Value::String(text) => text,
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse::Draft;

    const TILE: &str = "schema = 1\nname = \"t\"\nabout = \"a test\"\n[[guest]]\nname = \"db\"\nrole = \"idle\"\nvcpus = 2\n\
                        [ladder]\ntiles = [1]\n[host.setting]\nksm = \"off\"\n";

    #[test]
    fn a_side_that_does_not_set_a_key_has_the_scenarios_value_and_equal_values_do_not_differ() {
        let scenario = Draft::from_toml(TILE, "t").unwrap().finish().unwrap();
        let of = |pairs: &[(&str, &str)]| {
            pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
        };
        let a = [("guest.db.vcpus", "4"), ("host.setting.ksm", "on"), ("host.setting.thp", "always")];
        let b = [
            ("guest.db.memory", "1GiB"),
            ("host.setting.thp", "always"),
            ("host.setting.vm.swappiness", "10"),
        ];
        let found = Sides { a: of(&a), b: of(&b) }.differences(&scenario);
        let shown: Vec<_> = found.iter().map(|one| (&*one.key, one.a.as_deref(), one.b.as_deref())).collect();
        assert_eq!(
            shown,
            [
                ("guest.db.memory", Some("256MiB"), Some("1GiB")),
                ("guest.db.vcpus", Some("4"), Some("2")),
                ("host.setting.ksm", Some("on"), Some("off")),
                ("host.setting.vm.swappiness", None, Some("10")),
            ]
        );
    }
}
