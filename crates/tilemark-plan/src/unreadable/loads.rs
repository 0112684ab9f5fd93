//! Loads, each by itself. In a scenario a load's workload is read with whatever keys are left over: one that is mistyped would be a
//! load without a workload, and the place of a mistake in one would be lost.

use super::way::{Mistake, described, pointer};
use crate::{scenario::Load, workload::Work};
use serde_json::Value;
use tilemark_units::listed;

/// The first mistake in the keys of loads, and in what they ask for.
pub(super) fn read_loads(document: &Value) -> Result<(), Mistake> {
    let known = [&Load::KEYS[..], Work::NAMES].concat();
    let loads = document.get("load").and_then(Value::as_array);
    for (index, load) in loads.into_iter().flatten().enumerate() {
        let way = || vec!["load".to_owned(), index.to_string()];
        for (name, parameters) in load.as_object().into_iter().flatten() {
            if !known.contains(&name.as_str()) {
                return Err((way(), format!("unknown field `{name}`, expected one of {}", listed(&known))));
            }
            if Work::NAMES.contains(&name.as_str()) {
                let work = serde_json::json!({ name: parameters });
                serde_path_to_error::deserialize::<_, Work>(&work)
                    .map_err(|error| described(way(), error))?;
            }
        }
    }
    Ok(())
}

/// The workloads of the load in this place; nothing where there is no load.
fn works_at<'d>(document: &'d Value, at: &[String]) -> Option<Vec<&'d str>> {
    let is_load = matches!(at, [list, _] if list == "load");
    let load = document.pointer(&pointer(at)).filter(|_| is_load)?.as_object()?;
    Some(load.keys().map(String::as_str).filter(|key| Work::NAMES.contains(key)).collect())
}

/// Where an unknown key of a load is a table, it is a workload whose name is mistyped: the load gets another one, so that the rest of it
/// is read.
pub(super) fn put_work_for(document: &mut Value, at: &[String], unknown: &[String]) {
    let is_table = document.pointer(&pointer(unknown)).is_some_and(Value::is_object);
    let lacks_work = works_at(document, at).is_some_and(|works| works.is_empty());
    if let (true, true, Some(load)) = (is_table, lacks_work, document.pointer_mut(&pointer(at))) {
        load[Work::NAMES[0]] = Value::Object(serde_json::Map::new());
    }
}

/// What is wrong with a load that asks for nothing, or for several things, and what to do.
pub(super) fn wrong_works(document: &Value, at: &[String]) -> Option<(String, String)> {
    let works = works_at(document, at)?;
    match works.len() {
        0 => {
            let tables: Vec<String> = Work::NAMES.iter().map(|name| format!("`[load.{name}]`")).collect();
            Some(("has no workload".to_owned(), format!("add one of: {}", tables.join(", "))))
        }
        1 => None,
        _ => Some((format!("has several workloads: {}", listed(&works)), "leave out all but one".to_owned())),
    }
}
