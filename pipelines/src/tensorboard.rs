//! `TensorBoard` event files: scalars only.
//!
//! A record is its length, a masked CRC-32C of the length, the protobuf message and a masked
//! CRC-32C of the message; the messages are `tensorboard.Event` cut to the fields used.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result};
use prost::Message;

#[derive(Clone, PartialEq, Message)]
struct Event {
    #[prost(double, tag = "1")]
    wall_time: f64,
    #[prost(int64, tag = "2")]
    step: i64,
    #[prost(oneof = "What", tags = "3, 5")]
    what: Option<What>,
}

#[derive(Clone, PartialEq, prost::Oneof)]
enum What {
    #[prost(string, tag = "3")]
    FileVersion(String),
    #[prost(message, tag = "5")]
    Summary(Summary),
}

#[derive(Clone, PartialEq, Message)]
struct Summary {
    #[prost(message, repeated, tag = "1")]
    value: Vec<Scalar>,
}

#[derive(Clone, PartialEq, Message)]
struct Scalar {
    #[prost(string, tag = "1")]
    tag: String,
    #[prost(float, tag = "2")]
    simple_value: f32,
}

/// Writes one event file.
pub struct EventWriter {
    out: BufWriter<File>,
}

impl EventWriter {
    /// Creates `events.out.tfevents.tracemill` in `folder`.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn create(folder: &Path) -> Result<Self> {
        let path = folder.join("events.out.tfevents.tracemill");
        let file = File::create(&path).with_context(|| format!("{}", path.display()))?;
        let mut writer = Self { out: BufWriter::new(file) };
        writer.write(0, What::FileVersion("brain.Event:2".to_owned()))?;
        Ok(writer)
    }

    /// Appends scalars at `step`.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn scalars(&mut self, step: u64, values: &[(&str, f64)]) -> Result<()> {
        let value = values
            .iter()
            .map(|(tag, value)| Scalar { tag: (*tag).to_owned(), simple_value: *value as f32 })
            .collect();
        self.write(step as i64, What::Summary(Summary { value }))?;
        self.out.flush().context("TensorBoard events")
    }

    fn write(&mut self, step: i64, what: What) -> Result<()> {
        let wall_time = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |d| d.as_secs_f64());
        let message = Event { wall_time, step, what: Some(what) }.encode_to_vec();
        let length = (message.len() as u64).to_le_bytes();
        let records: [&[u8]; 4] =
            [&length, &masked_crc(&length).to_le_bytes(), &message, &masked_crc(&message).to_le_bytes()];
        for part in records {
            self.out.write_all(part).context("TensorBoard events")?;
        }
        Ok(())
    }
}

fn masked_crc(bytes: &[u8]) -> u32 {
    crc32c::crc32c(bytes).rotate_right(15).wrapping_add(0xa282_ead8)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_have_the_lengths_and_checksums_readers_expect() {
        let dir = tempfile::tempdir().expect("temporary folder");
        let mut writer = EventWriter::create(dir.path()).expect("creates");
        writer.scalars(3, &[("loss/total", 0.5)]).expect("writes");
        let bytes = std::fs::read(dir.path().join("events.out.tfevents.tracemill")).expect("reads");
        let mut events = Vec::new();
        let mut rest = bytes.as_slice();
        while !rest.is_empty() {
            let length = u64::from_le_bytes(rest[..8].try_into().expect("8 bytes")) as usize;
            assert_eq!(u32::from_le_bytes(rest[8..12].try_into().expect("4 bytes")), masked_crc(&rest[..8]));
            events.push(Event::decode(&rest[12..12 + length]).expect("an event"));
            rest = &rest[16 + length..];
        }
        assert_eq!(events[0].what, Some(What::FileVersion("brain.Event:2".into())));
        assert_eq!(events[1].step, 3);
        let Some(What::Summary(summary)) = &events[1].what else { panic!("no summary") };
        assert_eq!((summary.value[0].tag.as_str(), summary.value[0].simple_value), ("loss/total", 0.5));
        // The checksum of "123456789" is the standard check value of CRC-32C.
        assert_eq!(crc32c::crc32c(b"123456789"), 0xe306_9283);
    }
}
