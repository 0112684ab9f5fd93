//! Numbers of documents stay so small that sums of them fit: a record may come from anybody.

use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use std::fmt;

/// The largest whole number of a document, either way: more than requests of a thousand guests in a day. Thousands of them add up
/// within 64 bits.
const NUMBER_MAX: u64 = 1 << 48;

/// Whole numbers that are no counts, or may be larger: seeds are any 64 bits, and bytes are many. Clocks of client machines count
/// nanoseconds from their boot, which pass the bound after 78 hours; they are never added up.
const UNBOUNDED: [&str; 7] =
    ["seed", "templates", "bytes", "intended_begin_ns", "actual_begin_ns", "least_ns", "most_ns"];

/// Checks a JSON document; the error names the number.
pub(crate) fn check_numbers(text: &str) -> Result<(), serde_json::Error> {
    let mut reader = serde_json::Deserializer::from_str(text);
    Numbers { bounded: true }.deserialize(&mut reader)
}

/// Reads a value and keeps nothing of it.
#[derive(Clone, Copy)]
struct Numbers {
    bounded: bool,
}

impl Numbers {
    fn check<E: Error>(self, number: u64, shown: &dyn fmt::Display) -> Result<(), E> {
        if self.bounded && number > NUMBER_MAX {
            return Err(E::custom(format!("the number {shown} is larger than any of a record")));
        }
        Ok(())
    }
}

impl<'de> DeserializeSeed<'de> for Numbers {
    type Value = ();
    fn deserialize<D: Deserializer<'de>>(self, reader: D) -> Result<(), D::Error> {
        reader.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Numbers {
    type Value = ();
    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a JSON value")
    }
    fn visit_bool<E>(self, _: bool) -> Result<(), E> {
        Ok(())
    }
    fn visit_i64<E: Error>(self, number: i64) -> Result<(), E> {
        self.check(number.unsigned_abs(), &number)
    }
    fn visit_u64<E: Error>(self, number: u64) -> Result<(), E> {
        self.check(number, &number)
    }
    fn visit_f64<E>(self, _: f64) -> Result<(), E> {
        Ok(())
    }
    fn visit_str<E>(self, _: &str) -> Result<(), E> {
        Ok(())
    }
    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }
    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        while items.next_element_seed(self)?.is_some() {}
        Ok(())
    }
    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<(), A::Error> {
        while let Some(key) = fields.next_key::<String>()? {
            let bounded = self.bounded && !UNBOUNDED.contains(&key.as_str());
            fields.next_value_seed(Self { bounded })?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_beyond_any_record_are_named_wherever_they_are() {
        let most = NUMBER_MAX;
        assert!(
            check_numbers(&format!(r#"{{"a":[1,-{most},{{"b":{most}}}],"c":1e300,"d":null,"e":"x"}}"#))
                .is_ok()
        );
        for text in [r#"{"a":[{"b":281474976710657}]}"#, r#"[-9223372036854775808]"#, "18446744073709551615"]
        {
            let error = check_numbers(text).unwrap_err().to_string();
            assert!(error.contains("larger than any of a record"), "{error}");
        }
    }

    #[test]
    fn seeds_and_bytes_are_any_numbers() {
        assert!(
            check_numbers(r#"{"seed":18446744073709551615,"loads":[{"bytes":18446744073709551615}]}"#)
                .is_ok()
        );
    }
}
