//! Typed parameters: the values of one field over the supporting members become a literal or a type.

use std::collections::BTreeMap;

use tracemill_data::artifact::{AliasMap, MappedArg, SkillArg};

/// Share of the members that must have the same value for it to stay a literal.
const LITERAL_SHARE: f64 = 0.9;

/// The values that the members have for one field of one step.
#[derive(Debug, Default)]
pub struct Values<'a> {
    /// Members by value, and by the type that the rule gives it.
    counts: BTreeMap<(&'a str, Option<&'a str>), u32>,
}

impl<'a> Values<'a> {
    /// Counts one member's value.
    pub fn add(&mut self, arg: &MappedArg<'a>) {
        *self.counts.entry((arg.value, arg.hint)).or_default() += 1;
    }

    /// Members that have a value.
    pub fn total(&self) -> u32 {
        self.counts.values().sum()
    }

    /// The typed argument, with at most `examples` values, most frequent first, ties by value.
    ///
    /// A value that at least 90 % of the members share stays a literal; of a field whose type is read
    /// off its values (typed text), only when two members agree, for one text is no constant. The type is
    /// that of more than half of the members' values, else the field's own.
    pub fn to_arg(&self, field: &str, map: &AliasMap, examples: usize) -> SkillArg {
        let total = self.total();
        let values = self.by_frequency();
        let free = map.fields().iter().any(|f| f.name == field && f.detect);
        let shared = values
            .first()
            .filter(|(_, n)| f64::from(*n) >= LITERAL_SHARE * f64::from(total) && (!free || total >= 2));
        SkillArg {
            field: field.to_owned(),
            kind: self.kind(field, map).to_owned(),
            value: shared.map(|(value, _)| (*value).to_owned()),
            examples: values.iter().take(examples).map(|(value, _)| (*value).to_owned()).collect(),
            more: (values.len() > examples).then(|| (values.len() - examples) as u32),
        }
    }

    fn by_frequency(&self) -> Vec<(&'a str, u32)> {
        let mut merged: BTreeMap<&str, u32> = BTreeMap::new();
        for ((value, _), count) in &self.counts {
            *merged.entry(value).or_default() += count;
        }
        let mut values: Vec<(&str, u32)> = merged.into_iter().collect();
        values.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(b.0)));
        values
    }

    fn kind<'m>(&self, field: &str, map: &'m AliasMap) -> &'m str
    where
        'a: 'm,
    {
        let mut votes: BTreeMap<&'m str, u32> = BTreeMap::new();
        for ((value, hint), count) in &self.counts {
            *votes.entry(map.value_type(field, value, *hint)).or_default() += count;
        }
        let majority = votes.into_iter().find(|(_, count)| 2 * count > self.total());
        majority.map_or_else(
            || map.fields().iter().find(|f| f.name == field).map_or("<text>", |f| f.kind.as_str()),
            |(kind, _)| kind,
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::skill::testing::MAP;

    fn arg(field: &str, hint: Option<&str>, values: &[&str]) -> SkillArg {
        let mut counted = Values::default();
        for value in values {
            counted.add(&MappedArg { field, value, hint });
        }
        counted.to_arg(field, &MAP, 2)
    }

    #[test]
    fn a_shared_value_is_a_literal_and_others_are_examples_by_frequency() {
        let save = arg("target", None, &["Save", "Save", "Save"]);
        assert_eq!((save.value.as_deref(), save.kind.as_str()), (Some("Save"), "<element>"));
        let dish = arg("text", Some("<query>"), &["sushi", "pizza", "ramen", "pizza"]);
        assert_eq!((dish.value, dish.kind.as_str()), (None, "<query>"));
        assert_eq!((dish.examples, dish.more), (vec!["pizza".to_owned(), "ramen".to_owned()], Some(1)));
    }

    #[test]
    fn nine_of_ten_are_nearly_all_and_eight_are_not() {
        let mut values = vec!["Save"; 9];
        values.push("Done");
        assert_eq!(arg("target", None, &values).value.as_deref(), Some("Save"));
        values[0] = "OK";
        assert_eq!(arg("target", None, &values).value, None);
    }

    #[test]
    fn one_text_is_no_constant_but_one_label_is() {
        assert_eq!(arg("text", None, &["hello"]).value, None);
        assert_eq!(arg("target", None, &["Save"]).value.as_deref(), Some("Save"));
    }

    #[test]
    fn the_type_needs_more_than_half_of_the_values() {
        assert_eq!(arg("text", None, &["a@b.org", "c@d.org", "me"]).kind, "<email>");
        assert_eq!(arg("text", None, &["a@b.org", "me"]).kind, "<text>");
        assert_eq!(arg("text", None, &[" 12 ", "13"]).examples[0], " 12 ");
    }
}
