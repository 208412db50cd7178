//! Cells that verl's and TRL's Parquet files share, and the file they are written to.

use std::collections::HashMap;
use std::marker::PhantomData;
use std::path::Path;
use std::sync::Arc;

use arrow::datatypes::{DataType, Field, FieldRef, Schema};
use serde::de::{self, Deserializer, Visitor};
use serde::{Deserialize, Serialize, Serializer};
use serde_json::{Map, Value, json};

use super::target::{Picture, TableSink, Written};
use crate::parquet_io::{TableError, TableWriter};
use crate::prompt::PromptMessage;

/// Largest row group: readers hold one at a time, and offsets of 32 bits end at 2 GiB.
const ROW_GROUP_BYTES: usize = 64 << 20;

/// A file's bytes: Parquet's binary, not a list of numbers.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Bytes(pub Vec<u8>);

impl Serialize for Bytes {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_bytes(&self.0)
    }
}

impl<'de> Deserialize<'de> for Bytes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct BytesVisitor;
        impl Visitor<'_> for BytesVisitor {
            type Value = Bytes;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("bytes")
            }
            fn visit_bytes<E: de::Error>(self, bytes: &[u8]) -> Result<Bytes, E> {
                Ok(Bytes(bytes.to_vec()))
            }
            fn visit_byte_buf<E: de::Error>(self, bytes: Vec<u8>) -> Result<Bytes, E> {
                Ok(Bytes(bytes))
            }
        }
        deserializer.deserialize_byte_buf(BytesVisitor)
    }
}

/// A picture as `datasets` and verl read it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ImageCell {
    /// The file's bytes.
    pub bytes: Option<Bytes>,
    /// Its path.
    pub path: Option<String>,
}

/// A message whose content is text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MessageCell {
    /// `system`, `user` or `assistant`.
    pub role: String,
    /// Its text; `<image>` marks a picture.
    pub content: String,
}

impl MessageCell {
    pub(super) fn of(message: &PromptMessage) -> Self {
        Self { role: message.role.name().to_owned(), content: message.content.clone() }
    }
}

impl ImageCell {
    pub(super) fn of(picture: &Picture) -> Self {
        Self { bytes: picture.bytes.clone().map(Bytes), path: Some(picture.path.clone()) }
    }
}

/// The columns but for those named, described for `datasets`: without this it takes pictures for structures of bytes
/// and text.
fn schema(mut fields: Vec<FieldRef>, without: &[&str]) -> Schema {
    fields.retain(|field| !without.contains(&field.name().as_str()));
    // `datasets` takes its description only where the column's type is, to the letter, that of its own pictures.
    let bytes = Field::new("bytes", DataType::Binary, true);
    let picture = DataType::Struct(vec![bytes, Field::new("path", DataType::Utf8, true)].into());
    let pictures = DataType::List(Arc::new(Field::new("item", picture, true)));
    for field in fields.iter_mut().filter(|f| holds_bytes(f)) {
        *field = Arc::new(Field::new("images", pictures.clone(), true));
    }
    let features: Option<Map<String, Value>> =
        fields.iter().map(|f| Some((f.name().clone(), feature(f)?))).collect();
    let info = features.map(|f| json!({ "info": { "features": f } }).to_string());
    let metadata: HashMap<_, _> = info.map(|info| ("huggingface".to_owned(), info)).into_iter().collect();
    Schema::new_with_metadata(fields, metadata)
}

/// Whether a column is of pictures with their bytes, as [`ImageCell`] holds them.
fn holds_bytes(field: &Field) -> bool {
    let DataType::List(item) = field.data_type() else { return false };
    matches!(item.data_type(), DataType::Struct(fields) if fields.iter().any(|f| f.name() == "bytes"))
}

/// A column as `datasets` describes it.
/// `None` for a type it has no name for here.
fn feature(field: &Field) -> Option<Value> {
    let value = |name: &str| Some(json!({ "dtype": name, "_type": "Value" }));
    match field.data_type() {
        DataType::Utf8 => value("string"),
        DataType::LargeUtf8 => value("large_string"),
        DataType::Int64 => value("int64"),
        DataType::Float64 => value("float64"),
        DataType::List(_) if holds_bytes(field) => Some(json!([{ "_type": "Image" }])),
        DataType::List(item) => Some(json!([feature(item)?])),
        DataType::Struct(fields) => {
            let features = fields.iter().map(|f| Some((f.name().clone(), feature(f)?)));
            features.collect::<Option<Map<String, Value>>>().map(Value::Object)
        }
        _ => None,
    }
}

/// A Parquet file of rows of `T`.
pub(super) struct Sink<T> {
    writer: TableWriter<T>,
    row: PhantomData<T>,
}

impl<T> Sink<T>
where
    T: for<'a> From<&'a Written> + Serialize + for<'de> Deserialize<'de> + Send + 'static,
{
    /// Creates the file without the columns named.
    pub(super) fn create(path: &Path, without: &[&str]) -> Result<Box<dyn TableSink>, TableError> {
        let writer = TableWriter::create_for(path, Some(ROW_GROUP_BYTES), |fields| schema(fields, without))?;
        Ok(Box::new(Self { writer, row: PhantomData }))
    }
}

impl<T> TableSink for Sink<T>
where
    T: for<'a> From<&'a Written> + Serialize + for<'de> Deserialize<'de> + Send,
{
    fn write(&mut self, rows: &[Written]) -> Result<(), TableError> {
        let rows: Vec<T> = rows.iter().map(T::from).collect();
        self.writer.write(&rows)
    }

    fn finish(self: Box<Self>) -> Result<u64, TableError> {
        self.writer.finish()
    }
}
