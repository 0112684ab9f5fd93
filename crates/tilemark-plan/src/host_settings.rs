//! Settings of the host that a point is measured with: each has a key and a value, and a profile is a list of them.
//!
//! Keys are text with dots of their own (`net.core.somaxconn`, `thp` and `thp.defrag`), so that below `host.setting` everything up to the
//! value is one key. What a key means, and what a host has of it, is not known here.

use crate::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, de::Error as _};
use serde_json::{Map, Value};
use std::collections::{BTreeMap, BTreeSet};

/// The key in a scenario below which settings are.
pub(crate) const SETTING: &str = "host.setting";
/// The value of `host.profile` that names none.
pub const NO_PROFILE: &str = "none";

/// Settings of the host that a point is measured with.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct HostSettings {
    /// The profile that was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub profile: Option<String>,
    /// Value by key: those of the profile, and over them those that the scenario names.
    pub setting: BTreeMap<String, String>,
    /// Keys of the profile that are left out where the host lacks them.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub optional: BTreeSet<String>,
}

/// What a profile sets.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ProfileSettings {
    /// Value by key.
    pub setting: BTreeMap<String, String>,
    /// Keys that are left out where the host lacks them.
    pub optional: BTreeSet<String>,
}

impl HostSettings {
    /// Whether nothing is asked for.
    pub fn is_empty(&self) -> bool {
        self.profile.is_none() && self.setting.is_empty()
    }

    /// Those that a scenario asks for. Its profile is not read yet: see [`Plan::expand_profiles`](crate::plan::Plan::expand_profiles).
    pub(crate) fn asked(profile: Option<&String>, setting: &BTreeMap<String, String>) -> Self {
        Self {
            profile: profile.filter(|name| *name != NO_PROFILE).cloned(),
            setting: setting.clone(),
            optional: BTreeSet::new(),
        }
    }

    /// Adds what the profile sets; what was asked for by its key stays.
    pub(crate) fn expand(&mut self, profile: &ProfileSettings) {
        for (key, value) in &profile.setting {
            if !self.setting.contains_key(key) {
                self.setting.insert(key.clone(), value.clone());
                if profile.optional.contains(key) {
                    self.optional.insert(key.clone());
                }
            }
        }
    }
}

/// Puts a setting in place where a key names one, and returns whether it did.
pub(crate) fn set(document: &mut Value, key: &str, value: &Value) -> Option<Result<(), String>> {
    let own = own_key(key)?;
    Some(table(document).map(|table| drop(table.insert(own.to_owned(), value.clone()))))
}

/// A setting's own key: all after `host.setting.`. Nothing where a key names no setting.
pub(crate) fn own_key(key: &str) -> Option<&str> {
    key.strip_prefix(SETTING)?.strip_prefix('.').filter(|own| !own.is_empty())
}

/// Makes the tables of a scenario's settings flat, as they are in a file with `[host.setting]` or with dotted keys.
///
/// # Errors
/// Where one key has two values.
pub(crate) fn flatten(document: &mut Value) -> Result<(), String> {
    let Some(Value::Object(nested)) = document.pointer("/host/setting").cloned() else { return Ok(()) };
    let mut flat = Map::new();
    flatten_into(&mut flat, "", &nested)?;
    *table(document)? = flat;
    Ok(())
}

fn flatten_into(
    flat: &mut Map<String, Value>,
    above: &str,
    table: &Map<String, Value>,
) -> Result<(), String> {
    for (name, value) in table {
        let key = if above.is_empty() { name.clone() } else { format!("{above}.{name}") };
        match value {
            Value::Object(below) => flatten_into(flat, &key, below)?,
            value if !flat.contains_key(&key) => drop(flat.insert(key, value.clone())),
            _ => return Err(format!("`{SETTING}.{key}` is there twice")),
        }
    }
    Ok(())
}

/// The table of settings of a scenario's document.
fn table(document: &mut Value) -> Result<&mut Map<String, Value>, String> {
    let mut place = document;
    for name in SETTING.split('.') {
        let table = place.as_object_mut().ok_or_else(|| format!("`{SETTING}` leads nowhere"))?;
        place = table.entry(name).or_insert_with(|| Value::Object(Map::new()));
    }
    place.as_object_mut().ok_or_else(|| format!("`{SETTING}` is not a table: write `{SETTING}.KEY = VALUE`"))
}

/// Reads the values of settings: text, whole numbers and yes or no, which is 1 or 0 as the kernel writes it.
pub(crate) fn texts<'de, D: Deserializer<'de>>(from: D) -> Result<BTreeMap<String, String>, D::Error> {
    let values = BTreeMap::<String, Value>::deserialize(from)?;
    let text = |(key, value): (String, Value)| match value {
        Value::String(text) => Ok((key, text)),
        Value::Number(number) => Ok((key, number.to_string())),
        Value::Bool(yes) => Ok((key, u8::from(yes).to_string())),
        other => Err(D::Error::custom(format!(
            "`{key}` has the value {other}: expected text, a number, true or false"
        ))),
    };
    values.into_iter().map(text).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{parse::Draft, scenario::Scenario};

    const TILE: &str = "schema = 1\nname = \"t\"\nabout = \"a test\"\n[[guest]]\nname = \"idle\"\nrole = \"idle\"\n\
                        [ladder]\ntiles = [1]\n";

    fn read(more: &str, set: &[(&str, Value)]) -> Result<Scenario, String> {
        let mut draft =
            Draft::from_toml(&format!("{TILE}{more}"), "test").map_err(|error| error.to_string())?;
        for (key, value) in set {
            draft.set(key, value.clone()).map_err(|error| error.to_string())?;
        }
        draft.finish().map_err(|error| error.to_string())
    }

    fn settings(more: &str, set: &[(&str, Value)]) -> Vec<(String, String)> {
        read(more, set).unwrap().host.setting.into_iter().collect()
    }

    fn pairs(wanted: &[(&str, &str)]) -> Vec<(String, String)> {
        wanted.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn a_key_is_written_with_dots_as_tables_or_in_quotes_and_a_value_as_text_number_or_yes_and_no() {
        let dotted = "[host]\nsetting.vm.swappiness = 10\nsetting.ksm = \"off\"\n";
        assert_eq!(settings(dotted, &[]), pairs(&[("ksm", "off"), ("vm.swappiness", "10")]));
        let tables = "[host.setting.net.core]\nsomaxconn = 4096\n[host.setting]\n\"thp.defrag\" = \"never\"\nthp = \"always\"\nsmt = true\n";
        let wanted =
            [("net.core.somaxconn", "4096"), ("smt", "1"), ("thp", "always"), ("thp.defrag", "never")];
        assert_eq!(settings(tables, &[]), pairs(&wanted));
    }

    #[test]
    fn a_setting_given_from_outside_takes_the_place_of_the_files_also_below_one_that_has_a_value() {
        let file = "[host]\nsetting.vm.swappiness = 10\nsetting.thp = \"always\"\n";
        let set = [
            ("host.setting.vm.swappiness", Value::from(60)),
            ("host.setting.thp.defrag", Value::from("defer")),
        ];
        let wanted = [("thp", "always"), ("thp.defrag", "defer"), ("vm.swappiness", "60")];
        assert_eq!(settings(file, &set), pairs(&wanted));
    }

    #[test]
    fn what_is_no_value_or_is_there_twice_is_named() {
        let list = read("[host]\nsetting.vm.swappiness = [1]\n", &[]).unwrap_err();
        assert!(list.contains("vm.swappiness") && list.contains("expected text"), "{list}");
        let twice = "[host.setting]\n\"vm.swappiness\" = 1\n[host.setting.vm]\nswappiness = 2\n";
        let twice = read(twice, &[]).unwrap_err();
        assert!(twice.contains("`host.setting.vm.swappiness` is there twice"), "{twice}");
        let text = read("", &[("host.setting", Value::from("x")), ("host.setting.ksm", Value::from("on"))]);
        assert!(text.unwrap_err().contains("not a table"));
    }

    #[test]
    fn what_is_named_by_its_key_is_kept_over_the_profiles_value() {
        let mut asked =
            HostSettings::asked(Some(&"fast".to_owned()), &[("ksm".to_owned(), "on".to_owned())].into());
        let profile = ProfileSettings {
            setting: [("ksm", "off"), ("thp", "always")]
                .map(|(key, value)| (key.to_owned(), value.to_owned()))
                .into(),
            optional: ["ksm", "thp"].map(str::to_owned).into(),
        };
        asked.expand(&profile);
        assert_eq!(asked.setting.into_iter().collect::<Vec<_>>(), pairs(&[("ksm", "on"), ("thp", "always")]));
        assert_eq!(asked.optional, ["thp".to_owned()].into(), "what is asked for by its key is not optional");
        assert!(HostSettings::asked(Some(&NO_PROFILE.to_owned()), &BTreeMap::new()).is_empty());
    }
}
