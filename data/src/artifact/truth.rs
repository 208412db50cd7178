//! The true action of a step, as reward and evaluation rows hold it.

use std::fmt;

use serde::de::{Deserializer, Error, SeqAccess, Visitor};
use serde::{Deserialize, Serialize};

use crate::action::{ScreenSize, Verb};
use crate::grammar::vocabulary;

/// What a step's action should have been. Coordinates are in pixels of the row's screen.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Truth {
    /// The action's name, in any word of the [vocabulary](crate::grammar::vocabulary).
    #[serde(default)]
    pub action: String,
    /// `[x, y]`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub point: Option<[f64; 2]>,
    /// Boxes `[left, top, right, bottom]`, any of which will do. One box may be written as itself or as
    /// two corners.
    #[serde(
        default,
        rename = "bbox",
        deserialize_with = "boxes",
        serialize_with = "write_boxes",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub boxes: Vec<[f64; 4]>,
    /// Typed text, application, option.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// Direction's word, compared as written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub direction: Option<String>,
    /// Id of the element on a text screen.
    #[serde(default, deserialize_with = "id", skip_serializing_if = "Option::is_none")]
    pub element: Option<String>,
}

impl Truth {
    /// What an action cannot be told right or wrong without, by the strictest of the scorer's profiles (`paper`);
    /// `None` when nothing is missing. A row that lacks something abstains whatever its reply.
    pub fn lacks(&self, screen: Option<ScreenPixels>) -> Option<String> {
        let Some(meaning) = vocabulary().meaning(&self.action) else {
            return Some(match self.action.as_str() {
                "" => "the truth names no action".to_owned(),
                other => format!("the truth's action `{other}` is not in the vocabulary"),
            });
        };
        let missing = |what: &str| Some(format!("the truth of {} has no {what}", meaning.verb));
        match meaning.verb {
            Verb::Click
            | Verb::LongPress
            | Verb::DoubleClick
            | Verb::RightClick
            | Verb::Hover
            | Verb::Drag => {
                let sized = screen.is_some_and(|s| s.width > 0.0 && s.height > 0.0);
                match (self.element.is_some() || !self.boxes.is_empty(), self.point, sized) {
                    (true, ..) | (_, Some(_), true) => None,
                    (false, None, _) => missing("point, bbox or element"),
                    (false, Some(_), false) => Some("no screen size, and the truth has no bbox".to_owned()),
                }
            }
            Verb::Scroll if self.direction.is_none() => missing("direction"),
            Verb::Type | Verb::OpenApp | Verb::Select | Verb::Navigate | Verb::SwitchWindow
                if self.text.is_none() =>
            {
                missing("text")
            }
            Verb::Press if meaning.text.is_none() && self.text.is_none() => missing("key (text)"),
            _ => None,
        }
    }
}

/// Width and height as rows write them: `{"width": 840, "height": 1876}`.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct ScreenPixels {
    /// In pixels.
    pub width: f64,
    /// In pixels.
    pub height: f64,
}

impl From<ScreenSize> for ScreenPixels {
    fn from(size: ScreenSize) -> Self {
        Self { width: f64::from(size.width_px), height: f64::from(size.height_px) }
    }
}

/// A number, or a list of such: what boxes are written with.
enum Nested {
    Number(f64),
    List(Vec<Self>),
}

impl<'de> Deserialize<'de> for Nested {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct NestedVisitor;
        impl<'de> Visitor<'de> for NestedVisitor {
            type Value = Nested;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("numbers")
            }
            fn visit_f64<E>(self, n: f64) -> Result<Nested, E> {
                Ok(Nested::Number(n))
            }
            fn visit_i64<E>(self, n: i64) -> Result<Nested, E> {
                Ok(Nested::Number(n as f64))
            }
            fn visit_u64<E>(self, n: u64) -> Result<Nested, E> {
                Ok(Nested::Number(n as f64))
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut sequence: A) -> Result<Nested, A::Error> {
                let mut values = Vec::with_capacity(4);
                while let Some(value) = sequence.next_element()? {
                    values.push(value);
                }
                Ok(Nested::List(values))
            }
        }
        deserializer.deserialize_any(NestedVisitor)
    }
}

impl Nested {
    fn number(&self) -> Option<f64> {
        match self {
            Self::Number(n) => Some(*n),
            Self::List(_) => None,
        }
    }

    fn numbers<const N: usize>(values: &[Self]) -> Option<[f64; N]> {
        let numbers: Vec<f64> = values.iter().map(Self::number).collect::<Option<_>>()?;
        numbers.try_into().ok()
    }

    /// `[l, t, r, b]` or `[[l, t], [r, b]]`.
    fn one_box(values: &[Self]) -> Option<[f64; 4]> {
        match values {
            [Self::List(first), Self::List(second)] => {
                let ([left, top], [right, bottom]) = (Self::numbers(first)?, Self::numbers(second)?);
                Some([left, top, right, bottom])
            }
            values => Self::numbers(values),
        }
    }
}

fn boxes<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<[f64; 4]>, D::Error> {
    let Some(Nested::List(values)) = Option::<Nested>::deserialize(deserializer)? else {
        return Ok(Vec::new());
    };
    if values.is_empty() {
        return Ok(Vec::new());
    }
    if let Some(one) = Nested::one_box(&values) {
        return Ok(vec![one]);
    }
    let each = values.iter().map(|value| match value {
        Nested::List(values) => Nested::one_box(values),
        Nested::Number(_) => None,
    });
    each.collect::<Option<_>>().ok_or_else(|| {
        D::Error::custom(
            "bbox: expected [left, top, right, bottom], [[left, top], [right, bottom]] or a list of these",
        )
    })
}

fn write_boxes<S: serde::Serializer>(boxes: &[[f64; 4]], serializer: S) -> Result<S::Ok, S::Error> {
    match boxes {
        [one] => one.serialize(serializer),
        several => several.serialize(serializer),
    }
}

/// An id written as text or as a number.
fn id<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<String>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Id {
        Text(String),
        Number(i64),
    }
    Ok(Option::<Id>::deserialize(deserializer)?.map(|id| match id {
        Id::Text(text) => text,
        Id::Number(n) => n.to_string(),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(json: &str) -> Truth {
        serde_json::from_str(json).unwrap_or_else(|e| panic!("{json}: {e}"))
    }

    #[test]
    fn boxes_are_read_however_they_are_written() {
        let one = vec![[1.0, 2.0, 3.0, 4.5]];
        assert_eq!(read(r#"{"action": "click", "bbox": [1, 2, 3, 4.5]}"#).boxes, one);
        assert_eq!(read(r#"{"bbox": [[1, 2], [3, 4.5]]}"#).boxes, one);
        assert_eq!(read(r#"{"bbox": [[1, 2, 3, 4.5]]}"#).boxes, one);
        assert_eq!(read(r#"{"bbox": [[[1, 2], [3, 4.5]], [5, 6, 7, 8]]}"#).boxes.len(), 2);
        for none in [r#"{"bbox": []}"#, r#"{"bbox": null}"#, "{}"] {
            assert_eq!(read(none).boxes, Vec::<[f64; 4]>::new());
        }
        for bad in [r#"{"bbox": [1, 2, 3]}"#, r#"{"bbox": [[1, 2], [3]]}"#, r#"{"bbox": "x"}"#] {
            assert!(serde_json::from_str::<Truth>(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_truth_is_written_as_it_is_read() {
        let text = r#"{"action":"click","point":[5.0,6.0],"bbox":[1.0,2.0,3.0,4.0],"element":"7"}"#;
        assert_eq!(serde_json::to_string(&read(text)).expect("serialises"), text);
        assert_eq!(read(r#"{"element": 7}"#).element.as_deref(), Some("7"));
    }
}
