//! Parquet in and out: rows of serde structs, and tables of vectors.
//!
//! Files are zstd-compressed and written by arrow/parquet; the same rows give the same bytes.

use std::fs::File;
use std::marker::PhantomData;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, FixedSizeListArray, Float32Array, RecordBatch, StringArray};
use arrow::datatypes::{DataType, Field, FieldRef, Float32Type, Float64Type, Schema};
use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_reader::{ParquetRecordBatchReader, ParquetRecordBatchReaderBuilder};
use parquet::basic::{Compression, ZstdLevel};
use parquet::file::properties::WriterProperties;
use serde::{Deserialize, Serialize};
use serde_arrow::schema::{SchemaLike, TracingOptions};

/// A Parquet file that cannot be read or written.
#[derive(Debug, thiserror::Error)]
pub enum TableError {
    /// The file could not be opened, created or moved.
    #[error("{path}: {source}")]
    Io {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// Not a Parquet file, or a damaged one.
    #[error("{path}: not a readable Parquet file ({source})")]
    Parquet {
        /// The file.
        path: PathBuf,
        /// What the Parquet library said.
        source: parquet::errors::ParquetError,
    },
    /// The columns are not those expected.
    #[error("{path}: {reason}")]
    Schema {
        /// The file.
        path: PathBuf,
        /// Which column, and what was expected.
        reason: String,
    },
}

type Result<T> = std::result::Result<T, TableError>;

/// Rows of a batch in memory, and of a row group on disk.
const BATCH_ROWS: usize = 16_384;
/// Rows of a batch that may hold pictures.
const LOOSE_ROWS: usize = 64;

fn fields_of<T: for<'de> Deserialize<'de>>(path: &Path) -> Result<Vec<FieldRef>> {
    let options = TracingOptions::default()
        .enums_without_data_as_strings(true)
        .strings_as_large_utf8(false)
        .sequence_as_large_list(false);
    Vec::<FieldRef>::from_type::<T>(options)
        .map_err(|e| TableError::Schema { path: path.to_owned(), reason: e.to_string() })
}

fn properties() -> WriterProperties {
    properties_for(None)
}

fn properties_for(row_group_bytes: Option<usize>) -> WriterProperties {
    WriterProperties::builder()
        .set_max_row_group_bytes(row_group_bytes)
        .set_compression(Compression::ZSTD(ZstdLevel::default()))
        .set_max_row_group_row_count(Some(BATCH_ROWS * 8))
        .set_created_by(format!("tracemill {}", env!("CARGO_PKG_VERSION")))
        .build()
}

/// Writes rows of `T` to one Parquet file, batch by batch.
pub struct TableWriter<T> {
    path: PathBuf,
    fields: Vec<FieldRef>,
    writer: ArrowWriter<File>,
    rows: u64,
    row: PhantomData<T>,
}

impl<T: Serialize + for<'de> Deserialize<'de>> TableWriter<T> {
    /// Creates the file.
    pub fn create(path: &Path) -> Result<Self> {
        Self::create_for(path, None, Schema::new)
    }

    /// Creates the file with row groups bounded in bytes as well as rows, and with the schema that is made of the
    /// columns of `T`: some may be left out, or be of another type that holds the same.
    pub fn create_for(
        path: &Path,
        row_group_bytes: Option<usize>,
        schema: impl FnOnce(Vec<FieldRef>) -> Schema,
    ) -> Result<Self> {
        let schema = Arc::new(schema(fields_of::<T>(path)?));
        let fields = schema.fields().to_vec();
        let file = File::create(path).map_err(|source| TableError::Io { path: path.to_owned(), source })?;
        let writer = ArrowWriter::try_new(file, schema, Some(properties_for(row_group_bytes)))
            .map_err(|source| TableError::Parquet { path: path.to_owned(), source })?;
        Ok(Self { path: path.to_owned(), fields, writer, rows: 0, row: PhantomData })
    }

    /// Appends rows.
    pub fn write(&mut self, rows: &[T]) -> Result<()> {
        for chunk in rows.chunks(BATCH_ROWS) {
            let batch = serde_arrow::to_record_batch(&self.fields, &chunk)
                .map_err(|e| TableError::Schema { path: self.path.clone(), reason: e.to_string() })?;
            self.write_batch(&batch)?;
        }
        Ok(())
    }

    fn write_batch(&mut self, batch: &RecordBatch) -> Result<()> {
        self.rows += batch.num_rows() as u64;
        self.writer.write(batch).map_err(|source| TableError::Parquet { path: self.path.clone(), source })
    }

    /// Writes the footer; returns the number of rows.
    pub fn finish(self) -> Result<u64> {
        let path = self.path;
        self.writer.close().map_err(|source| TableError::Parquet { path, source })?;
        Ok(self.rows)
    }
}

/// Writes all of `rows` to `path`; returns their number.
pub fn write_table<T: Serialize + for<'de> Deserialize<'de>>(path: &Path, rows: &[T]) -> Result<u64> {
    let mut writer = TableWriter::create(path)?;
    writer.write(rows)?;
    writer.finish()
}

fn open(path: &Path) -> Result<ParquetRecordBatchReader> {
    let file = File::open(path).map_err(|source| TableError::Io { path: path.to_owned(), source })?;
    ParquetRecordBatchReaderBuilder::try_new(file)
        .and_then(|b| b.with_batch_size(BATCH_ROWS).build())
        .map_err(|source| TableError::Parquet { path: path.to_owned(), source })
}

/// Reads the rows of `path` batch by batch, in file order.
pub fn read_batches<T: for<'de> Deserialize<'de>>(
    path: &Path,
) -> Result<impl Iterator<Item = Result<Vec<T>>> + use<T>> {
    let owned = path.to_owned();
    Ok(open(path)?.map(move |batch| {
        let batch = batch.map_err(|e| TableError::Parquet { path: owned.clone(), source: e.into() })?;
        serde_arrow::from_record_batch(&batch)
            .map_err(|e| TableError::Schema { path: owned.clone(), reason: e.to_string() })
    }))
}

/// Reads rows of any columns, one at a time; of a file that was not written by this program.
///
/// # Errors
/// Besides those of reading, a row group of more than `max_group_bytes`.
pub fn read_loose<T: for<'de> Deserialize<'de>>(
    path: &Path,
    max_group_bytes: i64,
) -> Result<impl Iterator<Item = Result<T>> + use<T>> {
    let parquet = |source| TableError::Parquet { path: path.to_owned(), source };
    let file = File::open(path).map_err(|source| TableError::Io { path: path.to_owned(), source })?;
    let builder = ParquetRecordBatchReaderBuilder::try_new(file).map_err(parquet)?;
    if let Some(large) =
        builder.metadata().row_groups().iter().find(|g| g.total_byte_size() > max_group_bytes)
    {
        let reason = format!("a row group of {} bytes; write smaller ones", large.total_byte_size());
        return Err(TableError::Schema { path: path.to_owned(), reason });
    }
    let owned = path.to_owned();
    let batches = builder.with_batch_size(LOOSE_ROWS).build().map_err(parquet)?;
    Ok(batches.flat_map(move |batch| {
        let rows = batch.map_err(|e| TableError::Parquet { path: owned.clone(), source: e.into() }).and_then(
            |batch| {
                serde_arrow::from_record_batch::<Vec<T>>(&batch)
                    .map_err(|e| TableError::Schema { path: owned.clone(), reason: e.to_string() })
            },
        );
        match rows {
            Ok(rows) => rows.into_iter().map(Ok).collect::<Vec<_>>(),
            Err(error) => vec![Err(error)],
        }
    }))
}

/// Reads all rows of `path`.
pub fn read_table<T: for<'de> Deserialize<'de>>(path: &Path) -> Result<Vec<T>> {
    let mut rows = Vec::new();
    for batch in read_batches(path)? {
        rows.extend(batch?);
    }
    Ok(rows)
}

/// Vectors with ids: the content of `R/embeddings/<view>.parquet` and of `cluster --vectors`.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Vectors {
    /// One id for each vector.
    pub ids: Vec<String>,
    /// Dimension of each vector.
    pub dim: usize,
    /// Row-major values, `ids.len() × dim`.
    pub data: Vec<f32>,
}

impl Vectors {
    /// Number of vectors.
    pub fn len(&self) -> usize {
        self.ids.len()
    }

    /// True when there is none.
    pub fn is_empty(&self) -> bool {
        self.ids.is_empty()
    }

    /// Vector `i`.
    pub fn row(&self, i: usize) -> &[f32] {
        &self.data[i * self.dim..(i + 1) * self.dim]
    }
}

/// Writes vectors to one Parquet file, batch by batch: columns `<id_name>: utf8` and `vector:
/// fixed-size list of f32`.
pub struct VectorWriter {
    path: PathBuf,
    schema: Arc<Schema>,
    item: FieldRef,
    dim: usize,
    writer: ArrowWriter<File>,
    rows: u64,
}

impl VectorWriter {
    /// Creates the file for vectors of `dim` values.
    pub fn create(path: &Path, id_name: &str, dim: usize) -> Result<Self> {
        let item: FieldRef = Arc::new(Field::new("item", DataType::Float32, false));
        let list = DataType::FixedSizeList(item.clone(), dim as i32);
        let schema = Arc::new(Schema::new(vec![
            Field::new(id_name, DataType::Utf8, false),
            Field::new("vector", list, false),
        ]));
        let file = File::create(path).map_err(|source| TableError::Io { path: path.to_owned(), source })?;
        let writer = ArrowWriter::try_new(file, schema.clone(), Some(properties()))
            .map_err(|source| TableError::Parquet { path: path.to_owned(), source })?;
        Ok(Self { path: path.to_owned(), schema, item, dim, writer, rows: 0 })
    }

    /// Appends vectors: `data` is row-major, `ids.len() × dim`.
    pub fn write<S: AsRef<str>>(&mut self, ids: &[S], data: &[f32]) -> Result<()> {
        let io =
            |e: arrow::error::ArrowError| TableError::Parquet { path: self.path.clone(), source: e.into() };
        let values = Arc::new(Float32Array::from(data.to_vec()));
        let list =
            FixedSizeListArray::try_new(self.item.clone(), self.dim as i32, values, None).map_err(io)?;
        let ids: StringArray = ids.iter().map(|id| Some(id.as_ref())).collect();
        let batch =
            RecordBatch::try_new(self.schema.clone(), vec![Arc::new(ids), Arc::new(list)]).map_err(io)?;
        self.rows += batch.num_rows() as u64;
        self.writer.write(&batch).map_err(|source| TableError::Parquet { path: self.path.clone(), source })
    }

    /// Writes the footer; returns the number of vectors.
    pub fn finish(self) -> Result<u64> {
        let path = self.path;
        self.writer.close().map_err(|source| TableError::Parquet { path, source })?;
        Ok(self.rows)
    }
}

/// Writes all of `vectors` to `path`; returns their number.
pub fn write_vectors(path: &Path, id_name: &str, vectors: &Vectors) -> Result<u64> {
    let mut writer = VectorWriter::create(path, id_name, vectors.dim)?;
    writer.write(&vectors.ids, &vectors.data)?;
    writer.finish()
}

/// Reads a table of vectors: an id column (`id_names`, the first one present; text or integers)
/// and `vector`, a list or fixed-size list of f32 or f64.
///
/// # Errors
/// Names the column that is missing or of another type, and the row whose length differs.
pub fn read_vectors(path: &Path, id_names: &[&str]) -> Result<Vectors> {
    let schema_error = |reason: String| TableError::Schema { path: path.to_owned(), reason };
    let mut out = Vectors::default();
    for batch in open(path)? {
        let batch = batch.map_err(|e| TableError::Parquet { path: path.to_owned(), source: e.into() })?;
        let ids = id_names
            .iter()
            .find_map(|name| batch.column_by_name(name))
            .ok_or_else(|| schema_error(format!("no id column; expected one of {}", id_names.join(", "))))?;
        let ids = arrow::compute::cast(ids, &DataType::Utf8)
            .map_err(|e| schema_error(format!("column of ids: {e}")))?;
        out.ids.extend(ids.as_string::<i32>().iter().map(|id| id.unwrap_or_default().to_owned()));
        let column = batch.column_by_name("vector").ok_or_else(|| {
            schema_error("no column `vector` (list or fixed-size list of f32 or f64)".to_owned())
        })?;
        push_vectors(column, &mut out).map_err(schema_error)?;
    }
    Ok(out)
}

fn push_vectors(column: &ArrayRef, out: &mut Vectors) -> std::result::Result<(), String> {
    for i in 0..column.len() {
        if column.is_null(i) {
            return Err(format!("row {}: `vector` is null", out.data.len() / out.dim.max(1)));
        }
        let row = match column.data_type() {
            DataType::FixedSizeList(..) => column.as_fixed_size_list().value(i),
            DataType::List(_) => column.as_list::<i32>().value(i),
            DataType::LargeList(_) => column.as_list::<i64>().value(i),
            other => return Err(format!("column `vector` is {other}; expected a list of f32 or f64")),
        };
        if row.null_count() > 0 {
            return Err(format!("row {i}: `vector` holds a null"));
        }
        if out.dim == 0 && out.data.is_empty() {
            out.dim = row.len();
        }
        if row.len() != out.dim || row.is_empty() {
            return Err(format!(
                "row {i}: `vector` has {} values, the rows before it {}",
                row.len(),
                out.dim
            ));
        }
        match row.data_type() {
            DataType::Float32 => out.data.extend(row.as_primitive::<Float32Type>().values()),
            DataType::Float64 => {
                out.data.extend(row.as_primitive::<Float64Type>().values().iter().map(|&v| v as f32));
            }
            other => return Err(format!("column `vector` holds {other}; expected f32 or f64")),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::action::{Action, Point, Thousandths, Verb};
    use crate::trace::{Episode, EpisodeRow, Format, Outcome, Platform, Step, StepRow};

    fn episode() -> Episode {
        let mut action = Action::new(Verb::Click, "CLICK");
        action.point = Some(Point::<Thousandths>::new(1.0, 2.0).into());
        Episode {
            episode_id: "gui-odyssey:1".into(),
            format: Format::GuiOdyssey,
            source: "annotations/1.json".into(),
            source_key: String::new(),
            platform: Platform::Mobile,
            instruction: "Do it — 试试".into(),
            apps: vec!["Clock".into()],
            domain: None,
            outcome: Outcome::Unknown,
            split: None,
            extra: None,
            steps: vec![
                Step::new(0, "steps[0]", action),
                Step::new(1, "steps[1]", Action::new(Verb::Home, "CLICK")),
            ],
        }
    }

    #[test]
    fn rows_come_back_as_written() {
        let dir = tempfile::tempdir().expect("temporary folder");
        let (row, steps) = episode().into_rows();
        let (a, b) = (dir.path().join("e.parquet"), dir.path().join("s.parquet"));
        write_table(&a, std::slice::from_ref(&row)).expect("writes");
        write_table(&b, &steps).expect("writes");
        assert_eq!(read_table::<EpisodeRow>(&a).expect("reads"), vec![row]);
        assert_eq!(read_table::<StepRow>(&b).expect("reads"), steps);
    }

    /// Readers hold a row group at a time: with pictures in the rows it must not grow with their number.
    #[test]
    fn row_groups_are_bounded_in_bytes() {
        #[derive(Serialize, Deserialize)]
        struct Row {
            text: String,
        }
        let dir = tempfile::tempdir().expect("temporary folder");
        let path = dir.path().join("rows.parquet");
        let mut rng = xxhash_rust::xxh3::Xxh3::new();
        let mut noise = || -> String {
            let hex = |_| {
                rng.update(b"x");
                format!("{:032x}", rng.digest128())
            };
            (0..400).map(hex).collect::<Vec<_>>().concat()
        };
        let limit = 200 << 10;
        let mut writer = TableWriter::create_for(&path, Some(limit), Schema::new).expect("created");
        for _ in 0..20 {
            let rows: Vec<Row> = (0..5).map(|_| Row { text: noise() }).collect();
            writer.write(&rows).expect("written");
        }
        assert_eq!(writer.finish().expect("finished"), 100);
        let file = File::open(&path).expect("opened");
        let builder = ParquetRecordBatchReaderBuilder::try_new(file).expect("read");
        let groups = builder.metadata().row_groups();
        // 100 rows of 12.8 kB are six times the limit.
        assert!(groups.len() >= 6, "{}", groups.len());
        let largest = groups.iter().map(parquet::file::metadata::RowGroupMetaData::total_byte_size).max();
        assert!(largest <= Some(2 * limit as i64), "{largest:?}");
    }

    #[test]
    fn vectors_come_back_as_written() {
        let dir = tempfile::tempdir().expect("temporary folder");
        let path = dir.path().join("v.parquet");
        let vectors = Vectors { ids: vec!["a".into(), "b".into()], dim: 2, data: vec![1.0, 2.0, 3.0, 4.5] };
        write_vectors(&path, "unit_id", &vectors).expect("writes");
        assert_eq!(read_vectors(&path, &["id", "unit_id"]).expect("reads"), vectors);
        let error = read_vectors(&path, &["name"]).expect_err("no such column");
        assert!(error.to_string().contains("no id column"), "{error}");
    }
}
