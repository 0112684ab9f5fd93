//! A resolved scenario, as a file that can be run.

use crate::scenario::Scenario;
use serde_json::Value;
use std::collections::BTreeMap;

/// The scenario as TOML, without presets: their values are in place. Reading the text gives the same scenario.
///
/// # Errors
/// When a value has no form in TOML.
pub fn as_toml(scenario: &Scenario) -> Result<String, toml::ser::Error> {
    let scenario = Scenario { preset: BTreeMap::new(), ..scenario.clone() };
    let mut document = serde_json::to_value(&scenario).unwrap_or_default();
    drop_nulls(&mut document);
    toml::to_string(&document)
}

/// TOML has no null: a key without a value is left out.
fn drop_nulls(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.retain(|_, value| !value.is_null());
            fields.values_mut().for_each(drop_nulls);
        }
        Value::Array(values) => values.iter_mut().for_each(drop_nulls),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{builtin::BUILTINS, parse::Draft};

    #[test]
    fn a_resolved_scenario_is_read_as_the_same_with_every_preset() {
        for builtin in BUILTINS {
            let draft = Draft::from_toml(builtin.text, builtin.name).unwrap();
            let presets = draft.finish().unwrap().preset.into_keys().map(Some);
            for preset in std::iter::once(None).chain(presets) {
                let mut draft = draft.clone();
                if let Some(preset) = &preset {
                    draft.apply_preset(preset).unwrap();
                }
                let scenario = Scenario { preset: BTreeMap::new(), ..draft.finish().unwrap() };
                let text = as_toml(&scenario).unwrap();
                let read = Draft::from_toml(&text, "resolved").unwrap().finish().unwrap();
                assert_eq!(read, scenario, "{} {preset:?}:\n{text}", builtin.name);
            }
        }
    }
}
