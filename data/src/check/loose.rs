//! A value of any shape, from JSON or from Parquet.

use std::collections::BTreeMap;
use std::fmt;

use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};

/// A value: what `serde_json::Value` is, with bytes.
#[derive(Debug, Clone, PartialEq)]
pub enum Loose {
    /// Nothing.
    Null,
    /// True or false.
    Bool(bool),
    /// A number.
    Number(f64),
    /// A text.
    Text(String),
    /// Bytes.
    Bytes(Vec<u8>),
    /// Several values.
    List(Vec<Self>),
    /// Values with names.
    Map(BTreeMap<String, Self>),
}

impl Loose {
    /// The value of a name, where this is a map that has it, and it is not null.
    pub fn get(&self, name: &str) -> Option<&Self> {
        match self {
            Self::Map(fields) => fields.get(name).filter(|value| **value != Self::Null),
            _ => None,
        }
    }

    /// A text.
    pub fn text(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            _ => None,
        }
    }

    /// A number.
    pub fn number(&self) -> Option<f64> {
        match self {
            Self::Number(n) => Some(*n),
            _ => None,
        }
    }

    /// The values of a list.
    pub fn list(&self) -> Option<&[Self]> {
        match self {
            Self::List(values) => Some(values),
            _ => None,
        }
    }

    /// What it is, for a person.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Bool(_) => "true or false",
            Self::Number(_) => "a number",
            Self::Text(_) => "text",
            Self::Bytes(_) => "bytes",
            Self::List(_) => "a list",
            Self::Map(_) => "an object",
        }
    }
}

impl<'de> Deserialize<'de> for Loose {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(LooseVisitor)
    }
}

struct LooseVisitor;

impl<'de> Visitor<'de> for LooseVisitor {
    type Value = Loose;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }
    fn visit_unit<E: Error>(self) -> Result<Loose, E> {
        Ok(Loose::Null)
    }
    fn visit_none<E: Error>(self) -> Result<Loose, E> {
        Ok(Loose::Null)
    }
    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Loose, D::Error> {
        Loose::deserialize(deserializer)
    }
    fn visit_bool<E: Error>(self, value: bool) -> Result<Loose, E> {
        Ok(Loose::Bool(value))
    }
    fn visit_i64<E: Error>(self, value: i64) -> Result<Loose, E> {
        Ok(Loose::Number(value as f64))
    }
    fn visit_u64<E: Error>(self, value: u64) -> Result<Loose, E> {
        Ok(Loose::Number(value as f64))
    }
    fn visit_f64<E: Error>(self, value: f64) -> Result<Loose, E> {
        Ok(Loose::Number(value))
    }
    fn visit_str<E: Error>(self, value: &str) -> Result<Loose, E> {
        Ok(Loose::Text(value.to_owned()))
    }
    fn visit_string<E: Error>(self, value: String) -> Result<Loose, E> {
        Ok(Loose::Text(value))
    }
    fn visit_bytes<E: Error>(self, value: &[u8]) -> Result<Loose, E> {
        Ok(Loose::Bytes(value.to_vec()))
    }
    fn visit_byte_buf<E: Error>(self, value: Vec<u8>) -> Result<Loose, E> {
        Ok(Loose::Bytes(value))
    }
    fn visit_seq<A: SeqAccess<'de>>(self, mut sequence: A) -> Result<Loose, A::Error> {
        let mut values = Vec::new();
        while let Some(value) = sequence.next_element()? {
            values.push(value);
        }
        Ok(Loose::List(values))
    }
    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Loose, A::Error> {
        let mut fields = BTreeMap::new();
        while let Some((name, value)) = map.next_entry()? {
            fields.insert(name, value);
        }
        Ok(Loose::Map(fields))
    }
}
