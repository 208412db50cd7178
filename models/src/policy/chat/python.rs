//! What templates expect of Python: `json.dumps`, `strftime`, and the tags and functions that transformers adds to Jinja.

use std::fmt::Write as _;

use jiff::civil::DateTime;
use jiff::fmt::strtime;
use minijinja::value::{Kwargs, Value, ValueKind};
use minijinja::{Error, ErrorKind};
use serde_json::Value as Json;

/// Turns `{% generation %}` blocks, which mark the assistant's tokens for transformers, into blocks that Jinja knows. The
/// signs that trim white space stay.
pub(super) fn plain_blocks(source: &str) -> String {
    let mut out = String::with_capacity(source.len());
    let mut rest = source;
    while let Some((before, after)) = rest.split_once("{%") {
        out.push_str(before);
        out.push_str("{%");
        rest = after;
        let Some((inside, _)) = after.split_once("%}") else { continue };
        let name = inside.trim_matches(['-', '+']).trim();
        let plain = match name {
            "generation" => " if true ",
            "endgeneration" => " endif ",
            _ => continue,
        };
        let sign = |sign: Option<char>| {
            sign.filter(|c| matches!(c, '-' | '+')).map(String::from).unwrap_or_default()
        };
        out.push_str(&sign(inside.chars().next()));
        out.push_str(plain);
        out.push_str(&sign(inside.chars().last()));
        rest = &after[inside.len()..];
    }
    out.push_str(rest);
    out
}

/// `is iterable`: `None` is not.
pub(super) fn is_iterable(value: &Value) -> bool {
    use ValueKind::{Iterable, Map, Seq, String, Undefined};
    matches!(value.kind(), Iterable | Map | Seq | String | Undefined)
}

pub(super) fn raise_exception(message: &str) -> Result<String, Error> {
    Err(Error::new(ErrorKind::InvalidOperation, message.to_owned()))
}

pub(super) fn strftime(date: DateTime, format: &str) -> Result<String, Error> {
    strtime::format(format, date).map_err(|e| Error::new(ErrorKind::InvalidOperation, e.to_string()))
}

/// `tojson` as transformers defines it: `json.dumps` with `ensure_ascii=False`, nothing escaped for HTML.
pub(super) fn tojson(value: &Value, kwargs: Kwargs) -> Result<String, Error> {
    if value.is_undefined() {
        return Err(Error::new(ErrorKind::InvalidOperation, "tojson of an undefined value"));
    }
    let indent: Option<usize> = kwargs.get("indent")?;
    let separators: Option<Vec<String>> = kwargs.get("separators")?;
    let [item, key] = match separators {
        Some(given) => given
            .try_into()
            .map_err(|_| Error::new(ErrorKind::InvalidOperation, "tojson: separators are a pair"))?,
        None => [if indent.is_some() { "," } else { ", " }.to_owned(), ": ".to_owned()],
    };
    let style = Style {
        ensure_ascii: kwargs.get::<Option<bool>>("ensure_ascii")?.unwrap_or(false),
        sort_keys: kwargs.get::<Option<bool>>("sort_keys")?.unwrap_or(false),
        indent,
        item,
        key,
    };
    kwargs.assert_all_used()?;
    let json = serde_json::to_value(value)
        .map_err(|e| Error::new(ErrorKind::InvalidOperation, format!("tojson: {e}")))?;
    let mut out = String::new();
    style.write(&json, 1, &mut out);
    Ok(out)
}

/// How `json.dumps` was asked to write.
struct Style {
    ensure_ascii: bool,
    sort_keys: bool,
    indent: Option<usize>,
    item: String,
    key: String,
}

impl Style {
    fn write(&self, value: &Json, depth: usize, out: &mut String) {
        match value {
            Json::Array(values) => {
                let each = values.iter().map(|value| (None, value)).collect();
                self.write_items(['[', ']'], each, depth, out);
            }
            Json::Object(map) => {
                let mut each: Vec<_> = map.iter().map(|(key, value)| (Some(key.as_str()), value)).collect();
                if self.sort_keys {
                    each.sort_by_key(|(key, _)| *key);
                }
                self.write_items(['{', '}'], each, depth, out);
            }
            Json::String(text) => self.write_string(text, out),
            Json::Number(number) => match number.as_f64().filter(|_| number.is_f64()) {
                Some(float) => out.push_str(&repr(float)),
                None => out.push_str(&number.to_string()),
            },
            Json::Bool(_) | Json::Null => out.push_str(&value.to_string()),
        }
    }

    fn write_items(
        &self,
        [open, close]: [char; 2],
        each: Vec<(Option<&str>, &Json)>,
        depth: usize,
        out: &mut String,
    ) {
        let line = |depth: usize, out: &mut String| {
            if let Some(indent) = self.indent {
                out.push('\n');
                out.push_str(&" ".repeat(indent * depth));
            }
        };
        out.push(open);
        let empty = each.is_empty();
        for (i, (key, value)) in each.into_iter().enumerate() {
            if i > 0 {
                out.push_str(&self.item);
            }
            line(depth, out);
            if let Some(key) = key {
                self.write_string(key, out);
                out.push_str(&self.key);
            }
            self.write(value, depth + 1, out);
        }
        if !empty {
            line(depth - 1, out);
        }
        out.push(close);
    }

    fn write_string(&self, text: &str, out: &mut String) {
        let quoted = Json::from(text).to_string();
        if !self.ensure_ascii {
            out.push_str(&quoted);
            return;
        }
        for c in quoted.chars() {
            if c.is_ascii() {
                out.push(c);
            } else {
                for unit in c.encode_utf16(&mut [0; 2]) {
                    let _ = write!(out, "\\u{unit:04x}");
                }
            }
        }
    }
}

/// A float as Python writes it: the shortest digits that read back, with an exponent below 1e-4 and from 1e16 on.
fn repr(x: f64) -> String {
    let scientific = format!("{x:e}");
    let (digits, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    match exponent.parse::<i32>() {
        Ok(e) if !(-4..16).contains(&e) => {
            let sign = if e < 0 { '-' } else { '+' };
            format!("{digits}e{sign}{:02}", e.abs())
        }
        _ => format!("{x:?}"),
    }
}
