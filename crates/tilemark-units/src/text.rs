//! The number-then-unit texts that all units are read from, and the one error they share.

/// A text that is not a quantity of the wanted kind.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not {wanted}")]
pub struct UnitError {
    /// What was written.
    pub text: String,
    /// What would have been right, with examples.
    pub wanted: &'static str,
}

/// Splits `"1.5GiB"` into `1.5` and `"GiB"`. White space around and between is allowed.
pub(crate) fn split<'a>(text: &'a str, wanted: &'static str) -> Result<(f64, &'a str), UnitError> {
    let trimmed = text.trim();
    let end = trimmed
        .find(|character: char| !character.is_ascii_digit() && character != '.')
        .unwrap_or(trimmed.len());
    let (number, unit) = trimmed.split_at(end);
    let wrong = || UnitError { text: text.to_owned(), wanted };
    let number: f64 = number.parse().map_err(|_| wrong())?;
    Ok((number, unit.trim()))
}

/// A count with its noun: `1 tile`, `16 tiles`.
pub fn counted(count: impl Into<u64>, noun: &str) -> String {
    let count = count.into();
    format!("{count} {noun}{}", if count == 1 { "" } else { "s" })
}

/// Prints a number with at most `decimals` decimals and no trailing zeros.
pub(crate) fn shortest(number: f64, decimals: usize) -> String {
    let text = format!("{number:.decimals$}");
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
}

/// Gives a unit its text form: `Display`, `FromStr`, serde and JSON Schema as a string.
macro_rules! textual {
    ($type:ty, $example:literal) => {
        impl std::fmt::Debug for $type {
            fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                std::fmt::Display::fmt(self, formatter)
            }
        }
        impl serde::Serialize for $type {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }
        impl<'de> serde::Deserialize<'de> for $type {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let text = <String as serde::Deserialize>::deserialize(deserializer)?;
                text.parse().map_err(serde::de::Error::custom)
            }
        }
        #[cfg(feature = "schema")]
        impl schemars::JsonSchema for $type {
            fn schema_name() -> std::borrow::Cow<'static, str> {
                stringify!($type).into()
            }
            fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
                schemars::json_schema!({ "type": "string", "examples": [$example] })
            }
        }
    };
}
pub(crate) use textual;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_unit_of_one_is_singular() {
        let texts = [0_u32, 1, 2].map(|count| counted(count, "tile"));
        assert_eq!(texts, ["0 tiles", "1 tile", "2 tiles"]);
    }
}
