//! A resolved scenario, as a file that can be run.

use crate::scenario::Scenario;
use crate::workload::{SessionShape, Work};
use serde_json::Value;
use std::collections::BTreeMap;

/// The scenario as TOML, without presets: their values are in place. Reading the text gives the same scenario. The pages of a site inside
/// the program are in comments, as a user can change them.
///
/// # Errors
/// When a value has no form in TOML.
pub fn as_toml(scenario: &Scenario) -> Result<String, toml::ser::Error> {
    let scenario = Scenario { preset: BTreeMap::new(), ..scenario.clone() };
    let mut document = serde_json::to_value(&scenario).unwrap_or_default();
    drop_nulls(&mut document);
    Ok(toml::to_string(&document)? + &pages_of_shapes(&scenario))
}

/// The pages of the sites inside the program that the scenario's users visit, as comments.
fn pages_of_shapes(scenario: &Scenario) -> String {
    let mut loads: BTreeMap<SessionShape, Vec<String>> = BTreeMap::new();
    for load in &scenario.load {
        match &load.work {
            Work::Sessions(sessions) if sessions.page.is_empty() => {
                loads.entry(sessions.shape).or_default().push(format!("`{}`", load.name));
            }
            _ => {}
        }
    }
    let comments = loads.into_iter().map(|(shape, loads)| {
        let lines = shape.pages_as_toml().lines().map(|line| format!("# {line}\n")).collect::<String>();
        format!(
            "\n# The pages of load {} (shape `{}`). To change them, put these lines without their `#` below the load's `[load.sessions]`.\n{lines}",
            loads.join(" and "),
            shape.name()
        )
    });
    comments.collect()
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
    fn the_pages_of_a_shape_can_be_copied_from_the_comments() {
        for shape in ["bank", "shop", "downloads"] {
            let text = format!(
                "schema = 1\nname = \"s\"\nabout = \"s\"\n[ladder]\ntiles = [1]\n[[guest]]\nname = \"g\"\nrole = \"web\"\n\
                 [[load]]\nname = \"s\"\nguest = \"g\"\nrate = \"10/s\"\n[load.sessions]\nshape = \"{shape}\"\n"
            );
            let read = |text: &str| {
                let scenario = Draft::from_toml(text, "test").unwrap().finish().unwrap();
                let Work::Sessions(sessions) = scenario.load[0].work.clone() else {
                    panic!("it has sessions")
                };
                (scenario, sessions)
            };
            let (scenario, sessions) = read(&text);
            let resolved = as_toml(&scenario).unwrap();
            assert!(resolved.contains(&format!("# The pages of load `s` (shape `{shape}`).")), "{resolved}");
            let pages = resolved.lines().filter_map(|line| line.strip_prefix("# "));
            let pages: Vec<&str> = pages.filter(|line| !line.starts_with("The pages")).collect();
            let (_, copied) = read(&format!("{text}{}", pages.join("\n")));
            assert!(!copied.page.is_empty() && copied.site() == sessions.site(), "{pages:?}");
        }
    }

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
                let has_shape = scenario.load.iter().any(|load| load.work.facts().brings_pages());
                assert_eq!(text.contains("# [load.sessions.page."), has_shape, "{text}");
                let read = Draft::from_toml(&text, "resolved").unwrap().finish().unwrap();
                assert_eq!(read, scenario, "{} {preset:?}:\n{text}", builtin.name);
            }
        }
    }
}
