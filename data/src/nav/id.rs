//! Control identifiers: `primary_id|control_type|ancestor_path` (paper, section 4.1; reading 1).

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// What stands for a control that has neither an id nor a name.
pub const UNNAMED: &str = "[Unnamed]";

/// A control's identity, whichever source it was seen in.
///
/// As text the three parts are joined by `|` and the ancestors by `/`. Inside a part a backslash stands before
/// `\` and `|`, inside an ancestor also before `/`. An empty primary id is written [`UNNAMED`] (and a control that
/// is really called so, `\[Unnamed]`); a path of one nameless ancestor is written `\e`. What needs none of this is
/// written as it is, so that ids of the exploration logs stay what they were.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct ControlId {
    /// The toolkit's own id, else the name, else nothing.
    pub primary: String,
    /// The source's word for the kind of control: `push button`, `TabItem`, `android.widget.Switch`.
    pub control_type: String,
    /// Names of the ancestors, outermost first.
    pub ancestors: Vec<String>,
}

impl ControlId {
    /// An id of these parts.
    pub fn new<S: Into<String>>(
        primary: impl Into<String>,
        control_type: impl Into<String>,
        ancestors: impl IntoIterator<Item = S>,
    ) -> Self {
        Self {
            primary: primary.into(),
            control_type: control_type.into(),
            ancestors: ancestors.into_iter().map(Into::into).collect(),
        }
    }

    /// An id as exploration logs write it: the same parts, with nothing escaped.
    ///
    /// `control_type` tells where the primary id ends, since names hold `|` too; without it the last two `|` do. A
    /// `/` in an ancestor's name cannot be told from the next ancestor, so it counts as one. Text without two `|`
    /// is a primary id.
    pub fn from_log(raw: &str, control_type: Option<&str>) -> Self {
        let parts = match control_type {
            Some(control_type) => {
                let middle = format!("|{control_type}|");
                raw.split_once(&middle).map(|(primary, path)| (primary, control_type, path))
            }
            None => { raw.rsplit_once('|') }
                .and_then(|(rest, path)| rest.rsplit_once('|').map(|(primary, kind)| (primary, kind, path))),
        };
        let Some((primary, kind, path)) = parts else {
            return Self::new(raw, control_type.unwrap_or_default(), [""; 0]);
        };
        let primary = if primary == UNNAMED { "" } else { primary };
        match path {
            "" => Self::new(primary, kind, [""; 0]),
            path => Self::new(primary, kind, path.split('/')),
        }
    }

    /// The same control, below one more ancestor.
    #[must_use]
    pub fn below(mut self, ancestor: &str) -> Self {
        self.ancestors.insert(0, ancestor.to_owned());
        self
    }
}

/// Text that is no control id.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is no control id: {reason}")]
pub struct IdError {
    text: String,
    reason: &'static str,
}

fn escaped(out: &mut fmt::Formatter<'_>, part: &str, special: &[char]) -> fmt::Result {
    if !part.contains(special) {
        return out.write_str(part);
    }
    for c in part.chars() {
        if special.contains(&c) {
            out.write_str("\\")?;
        }
        write!(out, "{c}")?;
    }
    Ok(())
}

impl fmt::Display for ControlId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.primary.as_str() {
            "" => f.write_str(UNNAMED)?,
            UNNAMED => write!(f, "\\{UNNAMED}")?,
            primary => escaped(f, primary, &['\\', '|'])?,
        }
        f.write_str("|")?;
        escaped(f, &self.control_type, &['\\', '|'])?;
        f.write_str("|")?;
        if self.ancestors.len() == 1 && self.ancestors[0].is_empty() {
            return f.write_str("\\e");
        }
        for (i, ancestor) in self.ancestors.iter().enumerate() {
            f.write_str(if i == 0 { "" } else { "/" })?;
            escaped(f, ancestor, &['\\', '|', '/'])?;
        }
        Ok(())
    }
}

/// The parts of `text` between unescaped `separator`s, still escaped.
fn parts(text: &str, separator: char) -> Vec<&str> {
    let (mut parts, mut start, mut after_backslash) = (Vec::new(), 0, false);
    for (i, c) in text.char_indices() {
        if c == separator && !after_backslash {
            parts.push(&text[start..i]);
            start = i + c.len_utf8();
        }
        after_backslash = c == '\\' && !after_backslash;
    }
    parts.push(&text[start..]);
    parts
}

fn unescaped(part: &str) -> Result<String, &'static str> {
    let mut out = String::with_capacity(part.len());
    let mut chars = part.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' => match chars.next() {
                Some('e') => {}
                Some(c @ ('\\' | '|' | '/' | '[')) => out.push(c),
                _ => return Err("a backslash stands before nothing that needs one"),
            },
            c => out.push(c),
        }
    }
    Ok(out)
}

impl FromStr for ControlId {
    type Err = IdError;

    fn from_str(text: &str) -> Result<Self, IdError> {
        let error = |reason| IdError { text: text.chars().take(80).collect(), reason };
        let [primary, control_type, path] = parts(text, '|')[..] else {
            return Err(error("expected `primary|type|ancestors`, with `\\|` for a `|` in a name"));
        };
        let primary = if primary == UNNAMED { String::new() } else { unescaped(primary).map_err(error)? };
        let ancestors: Result<Vec<String>, _> = match path {
            "" => Ok(Vec::new()),
            path => parts(path, '/').into_iter().map(unescaped).collect(),
        };
        Ok(Self {
            primary,
            control_type: unescaped(control_type).map_err(error)?,
            ancestors: ancestors.map_err(error)?,
        })
    }
}

impl Serialize for ControlId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for ControlId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn ids_of_logs_stay_what_they_were() {
        for (raw, role) in [
            ("File|menu|frame:MAIN/menu bar", "menu"),
            ("/|toggle button|frame:MAIN", "toggle button"),
            ("Paste      |menu item|window:/menu", "menu item"),
        ] {
            assert_eq!(ControlId::from_log(raw, Some(role)).to_string(), raw);
            assert_eq!(ControlId::from_log(raw, None).to_string(), raw);
        }
        let id = ControlId::from_log("File | Send|table cell|window:/table", Some("table cell"));
        assert_eq!(id, ControlId::new("File | Send", "table cell", ["window:", "table"]));
        assert_eq!(id.to_string(), r"File \| Send|table cell|window:/table");
        assert_eq!(ControlId::from_log("|text|w", None).to_string(), "[Unnamed]|text|w");
        let point = ControlId::from_log("RCLICK@7,2", Some("document"));
        assert_eq!(point.to_string(), "RCLICK@7,2|document|");
    }

    #[test]
    fn text_that_is_no_id_is_refused() {
        for text in ["", "File", "File|menu", "a|b|c|d", r"a\x|b|c", r"a|b|c\"] {
            assert!(text.parse::<ControlId>().is_err(), "{text}");
        }
    }

    proptest! {
        #[test]
        fn ids_come_back_from_text(
            primary in r"[\\|/\[\]a#e]{0,6}|\[Unnamed\]",
            control_type in r"[\\|/ b]{0,4}",
            ancestors in proptest::collection::vec(r"[\\|/ ce]{0,4}", 0..4),
        ) {
            let id = ControlId { primary, control_type, ancestors };
            prop_assert_eq!(id.to_string().parse(), Ok(id));
        }
    }
}
