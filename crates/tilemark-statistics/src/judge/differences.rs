//! All that differs between two points, so that a cause is named only where one thing does.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;
use tilemark_plan::plan::{HostSummary, Plan, Point};
use tilemark_plan::sides::SideSetting;
use tilemark_record::result::Difference;

/// What differs by design and is no cause.
const NOT_A_CAUSE: [&str; 4] = ["index", "side", "seed", "vary"];

/// What of a scenario is in no point, or is named otherwise: which steps are compared is in the points.
const NOT_OF_A_POINT: [&str; 6] = ["schema", "name", "about", "preset", "vary", "ladder"];

/// The value of a key that a scenario leaves out.
const DEFAULT: &str = "the default";

/// What of a point its scenario does not decide.
const NOT_OF_A_SCENARIO: [&str; 2] = ["tiles", "backend"];

/// What differs between the two sides of a plan, by the keys that their user typed. An older plan has none: there it is what differs
/// between the first points of the sides.
pub(crate) fn of_sides(plan: &Plan, a: &Point, b: &Point) -> Vec<Difference> {
    let found = of_points(a, b);
    match &plan.sides {
        Some(sides) if !found.is_empty() => {
            sides.differences(&plan.scenario).into_iter().map(typed).collect()
        }
        _ => found,
    }
}

fn typed(SideSetting { key, a, b }: SideSetting) -> Difference {
    // What a host has where nothing sets it is not known to a plan.
    let nothing = if key.starts_with("host.setting.") { "not set" } else { DEFAULT };
    let shown = |value: Option<String>| value.unwrap_or_else(|| nothing.to_owned());
    Difference { key, a: shown(a), b: shown(b) }
}

/// What differs between two points, by dotted key; one that many guests share is listed once.
pub(crate) fn of_points(a: &Point, b: &Point) -> Vec<Difference> {
    let value = |point: &Point| serde_json::to_value(point).expect("a plan can be written as JSON");
    let mut found = Found::default();
    found.compare("", &value(a), &value(b));
    found.differences
}

/// What differs between two plans before any point of theirs: the scenario and the host.
pub(crate) fn of_plans(a: &Plan, b: &Plan) -> Vec<Difference> {
    let (of_a, of_b) = (&a.scenario.name, &b.scenario.name);
    let scenario = Difference { key: "scenario".to_owned(), a: of_a.clone(), b: of_b.clone() };
    let mut found: Vec<Difference> = Some(scenario).filter(|found| found.a != found.b).into_iter().collect();
    found.extend(of_scenarios(a, b));
    found.extend(of_hosts(&a.host, &b.host));
    found
}

/// What differs between two compared points of two plans, by keys of the point. Where their scenarios differ, the rest of a point follows
/// from that, down to the addresses of its guests: a key as its user typed it says more.
pub(crate) fn of_compared(plans: [&Plan; 2], points: [&Point; 2]) -> Vec<Difference> {
    let mut found = of_points(points[0], points[1]);
    if !of_scenarios(plans[0], plans[1]).is_empty() {
        found.retain(|difference| NOT_OF_A_SCENARIO.contains(&difference.key.as_str()));
    }
    found
}

/// What differs between the scenarios of two plans, by the keys of `--set`.
fn of_scenarios(a: &Plan, b: &Plan) -> Vec<Difference> {
    let of = |plan: &Plan| {
        let mut scenario = serde_json::to_value(&plan.scenario).expect("a scenario can be written as JSON");
        if let Some(keys) = scenario.as_object_mut() {
            keys.retain(|key, _| !NOT_OF_A_POINT.contains(&key.as_str()));
        }
        scenario
    };
    let mut found = Found::default();
    found.compare("", &of(a), &of(b));
    found.differences
}

/// What differs between two hosts.
pub(crate) fn of_hosts(a: &HostSummary, b: &HostSummary) -> Vec<Difference> {
    let difference = |key: &str, of: &dyn Fn(&HostSummary) -> String| {
        let found = Difference { key: key.to_owned(), a: of(a), b: of(b) };
        (found.a != found.b).then_some(found)
    };
    let all = [
        difference("host", &|host| host.name.clone()),
        difference("host.kernel", &|host| host.kernel.clone()),
        difference("host.processor", &|host| host.processor.clone()),
        difference("host.threads", &|host| host.threads.len().to_string()),
        difference("host.memory", &|host| host.memory_total.rounded()),
    ];
    all.into_iter().flatten().collect()
}

#[derive(Default)]
struct Found {
    seen: BTreeSet<String>,
    differences: Vec<Difference>,
}

impl Found {
    fn compare(&mut self, key: &str, a: &Value, b: &Value) {
        match (a, b) {
            (Value::Object(a), Value::Object(b)) => {
                let names: BTreeSet<&String> = a.keys().chain(b.keys()).collect();
                for name in names.into_iter().filter(|name| !NOT_A_CAUSE.contains(&name.as_str())) {
                    let below = if key.is_empty() { name.clone() } else { format!("{key}.{name}") };
                    let of = |object: &serde_json::Map<String, Value>| {
                        object.get(name).cloned().unwrap_or(Value::Null)
                    };
                    self.compare(&below, &of(a), &of(b));
                }
            }
            (Value::Array(a), Value::Array(b)) if LISTS_BY_NAME.contains(&key) => self.by_name(key, a, b),
            (Value::Array(a), Value::Array(b)) if a.len() == b.len() && !is_of_numbers(a) => {
                a.iter().zip(b).for_each(|(a, b)| self.compare(key, a, b));
            }
            _ if a != b => self.note(key, &text(key, a), &text(key, b)),
            _ => {}
        }
    }

    /// Compares guests or loads of a scenario in pairs of one name, as a user names them.
    fn by_name(&mut self, key: &str, a: &[Value], b: &[Value]) {
        let named = |items: &[Value]| -> BTreeMap<String, Value> {
            let name = |item: &Value| item.get("name").and_then(Value::as_str).unwrap_or_default().to_owned();
            items.iter().map(|item| (name(item), item.clone())).collect()
        };
        let (a, b) = (named(a), named(b));
        let names: BTreeSet<&String> = a.keys().chain(b.keys()).collect();
        for name in names {
            let below = format!("{key}.{name}");
            match (a.get(name), b.get(name)) {
                (Some(a), Some(b)) => self.compare(&below, a, b),
                (of_a, of_b) => {
                    let is_there = |of: Option<&Value>| if of.is_some() { "there" } else { "not there" };
                    self.note(&below, is_there(of_a), is_there(of_b));
                }
            }
        }
    }

    fn note(&mut self, key: &str, a: &str, b: &str) {
        if self.seen.insert(format!("{key}\0{a}\0{b}")) {
            self.differences.push(Difference { key: key.to_owned(), a: a.to_owned(), b: b.to_owned() });
        }
    }
}

/// Lists of a scenario whose items have names.
const LISTS_BY_NAME: [&str; 2] = ["guest", "load"];

/// Whether a list is one thing, such as processors or the bytes of an address.
fn is_of_numbers(items: &[Value]) -> bool {
    items.iter().all(Value::is_number)
}

fn text(key: &str, value: &Value) -> String {
    let joined = |items: &[Value], by: &str, each: &dyn Fn(&Value) -> String| {
        items.iter().map(each).collect::<Vec<_>>().join(by)
    };
    match value {
        Value::Array(items) if key.ends_with(".mac") => {
            joined(items, ":", &|byte| format!("{:02x}", byte.as_u64().unwrap_or_default()))
        }
        Value::Array(items) if is_of_numbers(items) && !items.is_empty() => {
            joined(items, ",", &Value::to_string)
        }
        Value::String(text) => text.clone(),
        Value::Null => DEFAULT.to_owned(),
        Value::Array(items) => format!("{} of them", items.len()),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_list_of_numbers_differs_as_one_thing_and_an_address_is_shown_as_such() {
        let of = |mac: u8, processors: [u32; 2]| json!({"guests": [{"mac": [82, 84, 0, 192, 0, mac]}], "place": {"processors": processors}});
        let mut found = Found::default();
        found.compare("", &of(2, [0, 1]), &of(71, [2, 3]));
        let shown: Vec<_> =
            found.differences.iter().map(|one| format!("{} {} {}", one.key, one.a, one.b)).collect();
        assert_eq!(shown, ["guests.mac 52:54:00:c0:00:02 52:54:00:c0:00:47", "place.processors 0,1 2,3"]);
    }
}
