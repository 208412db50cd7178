//! JSON and YAML values whose objects hold every key once.
//!
//! serde keeps the last of two equal keys and says nothing. Here the second one is an error: which
//! of the two is meant would be a guess.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

use super::source::Fault;
use crate::trace::RejectKind;

/// Deserialises a [`Value`]; a key that an object holds twice is an error.
#[derive(Debug, Clone, Copy)]
pub struct Unique;

/// Parses YAML of one document.
///
/// # Errors
/// [`RejectKind::Malformed`] with line and column.
pub fn parse_yaml(text: &str) -> Result<Value, Fault> {
    let value = Unique.deserialize(serde_yaml_ng::Deserializer::from_str(text));
    value.map_err(|e| Fault::new(RejectKind::Malformed, format!("malformed YAML: {e}")))
}

impl<'de> DeserializeSeed<'de> for Unique {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Unique {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_unit<E: Error>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Value, E> {
        Number::from_f64(value).map(Value::Number).ok_or_else(|| E::custom("a number that is not finite"))
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_string<E: Error>(self, value: String) -> Result<Value, E> {
        Ok(Value::String(value))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut sequence: A) -> Result<Value, A::Error> {
        let mut values = Vec::new();
        while let Some(value) = sequence.next_element_seed(Self)? {
            values.push(value);
        }
        Ok(Value::Array(values))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Value, A::Error> {
        let mut values = Map::new();
        while let Some(key) = map.next_key::<String>()? {
            if values.contains_key(&key) {
                return Err(A::Error::custom(format!("key `{key}` stands twice in one object")));
            }
            values.insert(key, map.next_value_seed(Self)?);
        }
        Ok(Value::Object(values))
    }
}

#[cfg(test)]
mod tests {
    use super::super::source::parse_json;
    use super::*;

    #[test]
    fn values_are_those_of_the_usual_parser() {
        let text = r#"{"b": [1, -2, 2.5, true, null, "x\n"], "a": {"c": {}}}"#;
        assert_eq!(parse_json(text), Ok(serde_json::from_str(text).expect("JSON")));
        let yaml = parse_yaml("b: [1, -2, 2.5, true, null, \"x\\n\"]\na: {c: {}}\n");
        assert_eq!(yaml, Ok(serde_json::from_str(text).expect("JSON")));
    }

    #[test]
    fn a_key_twice_is_refused_at_any_depth() {
        for text in [r#"{"a": 1, "a": 1}"#, r#"[{"b": {"a": 1, "c": 2, "a": 3}}]"#] {
            let fault = parse_json(text).expect_err("twice");
            assert!(fault.reason.contains("key `a` stands twice"), "{}", fault.reason);
        }
        let fault = parse_yaml("a: 1\nb: 2\na: 3\n").expect_err("twice");
        assert!(fault.reason.contains("key `a` stands twice"), "{}", fault.reason);
        assert!(parse_json(r#"[{"a": 1}, {"a": 1}]"#).is_ok());
    }

    #[test]
    fn numbers_without_a_value_and_several_documents_are_refused() {
        assert!(parse_yaml("a: .nan").is_err());
        assert!(parse_yaml("a: 1\n---\nb: 2\n").is_err());
        assert!(parse_json("1 2").is_err());
    }
}
