//! Edits of JSON documents by bytes: a random change of a text is mostly no JSON any more, and an edit always is.

use serde_json::{Value, json};

/// Bytes of an edit: which document, which of its values (two bytes), and what becomes of it.
pub(crate) const EDIT_BYTES: usize = 4;

/// Does all edits that these bytes name.
pub(crate) fn edit(documents: &mut [Value], edits: &[u8]) {
    for edit in edits.chunks_exact(EDIT_BYTES) {
        let [document, high, low, what] = [edit[0], edit[1], edit[2], edit[3]];
        let count = documents.len().max(1);
        let Some(document) = documents.get_mut(usize::from(document) % count) else { return };
        let place = usize::from(u16::from_be_bytes([high, low])) % values(document);
        change(nth(document, &mut { place }).expect("it is below the number of values"), what);
    }
}

/// How many values a document has, with lists and objects and itself.
fn values(value: &Value) -> usize {
    1 + match value {
        Value::Array(items) => items.iter().map(values).sum(),
        Value::Object(fields) => fields.values().map(values).sum(),
        _ => 0,
    }
}

fn nth<'v>(value: &'v mut Value, left: &mut usize) -> Option<&'v mut Value> {
    if *left == 0 {
        return Some(value);
    }
    *left -= 1;
    match value {
        Value::Array(items) => items.iter_mut().find_map(|item| nth(item, left)),
        Value::Object(fields) => fields.values_mut().find_map(|field| nth(field, left)),
        _ => None,
    }
}

/// Lists become no longer than this.
const ITEMS_MAX: usize = 200;

fn change(value: &mut Value, what: u8) {
    match (what % 24, &mut *value) {
        (0, Value::Array(items)) => items.truncate(items.len() / 2),
        (1, Value::Array(items)) if items.len() < ITEMS_MAX => items.extend(items.clone()),
        (2, Value::Array(items)) => items.reverse(),
        (3, Value::Array(items)) => drop(items.pop()),
        (0 | 1, Value::Object(fields)) => {
            if let Some(first) = fields.keys().next().cloned() {
                fields.remove(&first);
            }
        }
        (2 | 3, Value::Object(fields)) => {
            if let Some(last) = fields.keys().next_back().cloned() {
                fields.remove(&last);
            }
        }
        (0, Value::Number(number)) => {
            *value = number.as_u64().map_or(json!(1), |number| json!(number.wrapping_add(1)))
        }
        (1, Value::Number(number)) => *value = number.as_f64().map_or(json!(0), |number| json!(-number)),
        (2, Value::Number(number)) => *value = number.as_f64().map_or(json!(0), |number| json!(number * 1e9)),
        (what, _) => *value = extreme(what),
    }
}

/// The ends of all types.
fn extreme(what: u8) -> Value {
    match what {
        0 => json!(0),
        1 => json!(1),
        2 => json!(-1),
        3 => json!(u32::MAX),
        4 => json!(u64::MAX),
        5 => json!(i64::MIN),
        6 => json!(1e308),
        7 => json!(-1e308),
        8 => json!(5e-324),
        9 => json!(0.5),
        10 => Value::Null,
        11 => json!(""),
        12 => json!("\u{1b}[31m\u{202e}<script>=1+1"),
        13 => json!("x".repeat(3000)),
        14 => json!([]),
        15 => json!({}),
        16 => json!(true),
        17 => json!("native"),
        18 => json!("100%"),
        19 => json!("5124095576030431h"),
        20 => json!("16777215TiB"),
        21 => json!("../../etc/passwd"),
        22 => json!(100_000),
        _ => json!(3),
    }
}
