//! Places in a scenario's document.

use crate::settings::name_of;
use serde_json::Value;
use serde_path_to_error::{Path, Segment};

/// A place in a document: keys, and numbers in lists.
pub(super) type Way = Vec<String>;

/// Where something cannot be read, and what the reader says.
pub(super) type Mistake = (Way, String);

/// What a reader found below a place.
pub(super) fn described(mut way: Way, error: serde_path_to_error::Error<serde_json::Error>) -> Mistake {
    way.extend(way_of(error.path()));
    (way, error.into_inner().to_string())
}

fn way_of(path: &Path) -> Way {
    let step = |segment: &Segment| match segment {
        Segment::Seq { index } => Some(index.to_string()),
        Segment::Map { key } | Segment::Enum { variant: key } => Some(key.clone()),
        Segment::Unknown => None,
    };
    path.iter().map_while(step).collect()
}

/// A place as settings name it: guests and loads by their names.
pub(super) fn place(document: &Value, way: &[String]) -> String {
    let word = |end: usize| {
        let step = &way[end - 1];
        let is_number = step.parse::<usize>().is_ok();
        let item = document.pointer(&pointer(&way[..end])).filter(|_| is_number);
        item.and_then(name_of).unwrap_or(step)
    };
    (1..=way.len()).map(word).collect::<Vec<_>>().join(".")
}

/// A way as RFC 6901 writes it.
pub(super) fn pointer(way: &[String]) -> String {
    way.iter().map(|step| format!("/{}", step.replace('~', "~0").replace('/', "~1"))).collect()
}

/// Takes a value out of a document; says whether it was there.
pub(super) fn take_out(document: &mut Value, way: &[String]) -> bool {
    let Some((last, before)) = way.split_last() else { return false };
    match document.pointer_mut(&pointer(before)) {
        Some(Value::Object(table)) => table.remove(last).is_some(),
        Some(Value::Array(items)) => {
            let index = last.parse().ok().filter(|index: &usize| *index < items.len());
            index.map(|index| items.remove(index)).is_some()
        }
        _ => false,
    }
}
