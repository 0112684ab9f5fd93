//! Values set from outside a scenario's text: presets, `--set`, sides and what varies, all by dotted key.
//!
//! A key names a path: `gate.p99`, `measure.repeats`. Guests and loads are named, not numbered:
//! `guest.web.memory`, `load.web-steady.rate`. Disks have no names: `guest.db.disk.cache` is a value of each disk of the guest.

use crate::host_settings;
use serde_json::Value;

/// Reads the value of a `KEY=VALUE` flag: a number, a boolean, a list or an inline table as TOML writes
/// it, and any other text as itself. The error names a number in it that is not finite.
pub(crate) fn value_of_flag(key: &str, text: &str) -> Result<Value, String> {
    let parsed = toml::from_str::<toml::Table>(&format!("value = {text}"));
    let value = parsed.ok().and_then(|mut table| table.remove("value"));
    if let Some(message) = value.as_ref().and_then(|value| not_finite(value, key)) {
        return Err(message);
    }
    let value = value.and_then(|value| serde_json::to_value(value).ok());
    Ok(value.unwrap_or_else(|| Value::String(text.to_owned())))
}

/// What to write in place of a number that is not finite.
pub(crate) const FINITE: &str = "write a finite number, or a text in quotes";

/// Names the first number in a value that is not finite, such as `nan`: JSON has none, so it would be read as nothing. `at` is the
/// value's own key; guests and loads are named.
pub(crate) fn not_finite(value: &toml::Value, at: &str) -> Option<String> {
    let below = |step: &str| if at.is_empty() { step.to_owned() } else { format!("{at}.{step}") };
    match value {
        toml::Value::Float(number) if !number.is_finite() => {
            // As TOML writes it; Rust would write `NaN`.
            Some(format!("`{at}` is {value}"))
        }
        toml::Value::Table(table) => table.iter().find_map(|(key, value)| not_finite(value, &below(key))),
        toml::Value::Array(items) => items.iter().enumerate().find_map(|(place, item)| {
            let name = item.get("name").and_then(toml::Value::as_str);
            not_finite(item, &below(name.unwrap_or(&place.to_string())))
        }),
        _ => None,
    }
}

/// Parts of a key; the format needs 6. Each makes a table inside another.
const PARTS_MAX: usize = 12;

/// Puts a value in its place. The error says which part of the key leads nowhere.
pub(crate) fn set(document: &mut Value, key: &str, value: Value) -> Result<(), String> {
    if let Some(done) = host_settings::set(document, key, &value) {
        return done;
    }
    if key.split('.').count() > PARTS_MAX {
        let start: String = key.chars().take(60).collect();
        return Err(format!("`{start}…` is a key of more than {PARTS_MAX} parts"));
    }
    if let Some((guest, own)) = of_disks(key) {
        return set_in_disks(document, key, guest, own, &value);
    }
    // An image may be given by its name alone.
    if key.starts_with("image.")
        && let Some(image) = document.get_mut("image").filter(|image| image.is_string())
    {
        *image = serde_json::json!({ "from": image.take() });
    }
    let mut place = document;
    let mut parts = key.split('.').peekable();
    while let Some(part) = parts.next() {
        let last = parts.peek().is_none();
        place = match place {
            Value::Object(table) if last => {
                table.insert(part.to_owned(), value);
                return Ok(());
            }
            Value::Object(table) => {
                table.entry(part).or_insert_with(|| Value::Object(serde_json::Map::new()))
            }
            Value::Array(items) if !last => {
                let known: Vec<String> = items.iter().filter_map(name_of).map(str::to_owned).collect();
                items
                    .iter_mut()
                    .find(|item| name_of(item) == Some(part))
                    .ok_or_else(|| format!("`{key}`: no `{part}`; there are: {}", known.join(", ")))?
            }
            _ => return Err(format!("`{key}`: `{part}` leads nowhere")),
        };
    }
    Err(format!("`{key}` is not a valid key"))
}

/// The value in a place, as `set` would put it there; nothing where the document leaves it out.
pub(crate) fn get(document: &Value, key: &str) -> Option<Value> {
    if let Some(own) = host_settings::own_key(key) {
        return document.pointer("/host/setting")?.get(own).cloned();
    }
    if let Some((guest, own)) = of_disks(key) {
        let disks = below(document.get("guest")?, guest)?.get("disk")?.as_array()?;
        let mut values: Vec<Value> = disks.iter().filter_map(|disk| get(disk, own)).collect();
        values.dedup();
        return if values.len() > 1 { Some(values.into()) } else { values.pop() };
    }
    key.split('.').try_fold(document, below).filter(|value| !value.is_null()).cloned()
}

/// What is below a table by its key, or below a list by the name of a guest or load.
fn below<'v>(place: &'v Value, part: &str) -> Option<&'v Value> {
    match place {
        Value::Array(items) => items.iter().find(|item| name_of(item) == Some(part)),
        other => other.get(part),
    }
}

/// The guest of a key of its disks, and what of them it is: `db` and `cache` of `guest.db.disk.cache`.
fn of_disks(key: &str) -> Option<(&str, &str)> {
    let (guest, own) = key.strip_prefix("guest.")?.split_once('.')?;
    Some((guest, own.strip_prefix("disk.")?))
}

/// Puts a value in its place in each disk of a guest.
fn set_in_disks(
    document: &mut Value,
    key: &str,
    guest: &str,
    own: &str,
    value: &Value,
) -> Result<(), String> {
    let guests = document.get_mut("guest").and_then(Value::as_array_mut);
    let known: Vec<&mut Value> = guests.into_iter().flatten().collect();
    let names: Vec<String> = known.iter().filter_map(|item| name_of(item)).map(str::to_owned).collect();
    let found = known.into_iter().find(|item| name_of(item) == Some(guest));
    let found = found.ok_or_else(|| format!("`{key}`: no `{guest}`; there are: {}", names.join(", ")))?;
    let disks = found.get_mut("disk").and_then(Value::as_array_mut).filter(|disks| !disks.is_empty());
    let disks = disks.ok_or_else(|| format!("`{key}`: the guest `{guest}` has no `[[guest.disk]]`"))?;
    disks.iter_mut().try_for_each(|disk| set(disk, own, value.clone()))
}

/// The name of a guest or load.
pub(crate) fn name_of(item: &Value) -> Option<&str> {
    item.get("name").and_then(Value::as_str)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_load_is_named_and_not_numbered() {
        let mut document = json!({ "load": [{ "name": "steady", "rate": "1/s" }] });
        set(&mut document, "load.steady.rate", json!("2/s")).unwrap();
        assert_eq!(document["load"][0]["rate"], "2/s");
    }

    #[test]
    fn an_unknown_name_is_refused_with_those_that_exist() {
        let mut document = json!({ "load": [{ "name": "steady" }] });
        let error = set(&mut document, "load.stedy.rate", json!(1)).unwrap_err();
        assert_eq!(error, "`load.stedy.rate`: no `stedy`; there are: steady");
    }

    #[test]
    fn a_value_of_a_guests_disk_is_set_in_each_of_its_disks() {
        for name in ["db", "disk"] {
            let mut document = json!({ "guest": [{ "name": name, "disk": [{}, {}] }] });
            set(&mut document, &format!("guest.{name}.disk.cache"), json!("writeback")).unwrap();
            let each = json!([{ "cache": "writeback" }, { "cache": "writeback" }]);
            assert_eq!(document["guest"][0]["disk"], each);
        }
        let mut document = json!({ "guest": [{ "name": "db" }, { "name": "web" }] });
        let without = set(&mut document, "guest.web.disk.aio", json!("threads")).unwrap_err();
        assert_eq!(without, "`guest.web.disk.aio`: the guest `web` has no `[[guest.disk]]`");
        let absent = set(&mut document, "guest.x.disk.aio", json!("threads")).unwrap_err();
        assert_eq!(absent, "`guest.x.disk.aio`: no `x`; there are: db, web");
    }

    #[test]
    fn what_was_set_is_found_by_the_same_key() {
        let own = json!({ "guest": [{ "name": "db", "disk": [{}, {}] }], "load": [{ "name": "steady" }] });
        for key in ["load.steady.rate", "guest.db.disk.cache", "host.setting.net.core.somaxconn", "gate.p99"]
        {
            let mut document = own.clone();
            assert_eq!(get(&document, key), None, "{key}");
            set(&mut document, key, json!("x")).unwrap();
            assert_eq!(get(&document, key), Some(json!("x")), "{key}: {document}");
        }
        let disks =
            json!({ "guest": [{ "name": "db", "disk": [{ "aio": "threads" }, { "aio": "native" }] }] });
        assert_eq!(get(&disks, "guest.db.disk.aio"), Some(json!(["threads", "native"])));
    }

    #[test]
    fn a_section_that_the_text_left_out_is_made() {
        let mut document = json!({});
        set(&mut document, "qemu.machine", json!("q35")).unwrap();
        assert_eq!(document, json!({ "qemu": { "machine": "q35" } }));
    }

    #[test]
    fn flags_are_read_as_toml_where_they_are_toml() {
        let value = |text| value_of_flag("key", text).unwrap();
        assert_eq!(value("3"), json!(3));
        assert_eq!(value("[1, 2]"), json!([1, 2]));
        assert_eq!(value("50ms"), json!("50ms"));
        assert_eq!(value("\"a b\""), json!("a b"));
    }
}
