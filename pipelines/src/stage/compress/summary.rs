//! What was read, what came out, and by which rules.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use tracemill_data::a11y::Found;

use super::files::What;
use super::{Counts, Part};
use crate::table::{Table, grouped};

/// A compressed screen, in figures.
#[derive(Debug, Clone)]
pub struct Screen {
    pub tree: String,
    pub app: String,
    pub modal: Option<Found>,
    pub tokens_in: usize,
    pub tokens_out: usize,
    /// Elements of the source.
    pub elements_in: usize,
    /// Whether elements were read, and none is shown on the screen.
    pub is_empty: bool,
    /// Whether the source was cut to a length.
    pub is_cut: bool,
    /// Elements by fate and rule.
    pub rules: BTreeMap<String, usize>,
}

impl Screen {
    /// Elements that the text names: those with a line, and cells that hold something.
    fn elements_out(&self) -> usize {
        let of = |name: &str| self.rules.get(name).copied().unwrap_or(0);
        of("kept") + of("tabled/cell-with-value") + of("tabled/cell-of-instruction")
    }
}

#[derive(Debug, Clone, Default)]
struct Sum {
    screens: usize,
    modals: usize,
    tokens_in: usize,
    tokens_out: usize,
    most_tokens_out: usize,
    elements_in: usize,
    elements_out: usize,
}

impl Sum {
    fn add(&mut self, screen: &Screen) {
        self.screens += 1;
        self.modals += usize::from(screen.modal.is_some());
        self.tokens_in += screen.tokens_in;
        self.tokens_out += screen.tokens_out;
        self.most_tokens_out = self.most_tokens_out.max(screen.tokens_out);
        self.elements_in += screen.elements_in;
        self.elements_out += screen.elements_out();
    }

    fn ratio(&self) -> f64 {
        self.tokens_out as f64 / self.tokens_in.max(1) as f64
    }

    fn as_json(&self) -> Value {
        let mean = |sum: usize| sum as f64 / self.screens.max(1) as f64;
        json!({
            "screens": self.screens, "modals": self.modals, "tokens_in": self.tokens_in, "tokens_out": self.tokens_out,
            "ratio": self.ratio(), "tokens_in_mean": mean(self.tokens_in), "tokens_out_mean": mean(self.tokens_out),
            "tokens_out_most": self.most_tokens_out,
            "elements_in": self.elements_in, "elements_out": self.elements_out,
        })
    }
}

/// All screens, in figures.
pub struct Summary {
    tokens: String,
    pooled: Sum,
    apps: BTreeMap<String, Sum>,
    rules: BTreeMap<String, usize>,
    trees: Vec<Value>,
    skipped: Vec<String>,
    /// Trees, and elements of trees, that could not be read.
    refused: usize,
    refused_elements: usize,
    empty: usize,
    cut: usize,
}

impl Summary {
    pub fn of<'a>(
        tokens: &str,
        screens: impl Iterator<Item = &'a Screen>,
        parts: &[Part],
        skipped: &[String],
    ) -> Self {
        let mut summary = Self {
            tokens: tokens.to_owned(),
            pooled: Sum::default(),
            apps: BTreeMap::new(),
            rules: BTreeMap::new(),
            trees: Vec::new(),
            skipped: skipped.to_vec(),
            refused: 0,
            refused_elements: 0,
            empty: 0,
            cut: 0,
        };
        for refused in parts.iter().flat_map(|part| &part.refused) {
            match refused.what {
                What::Tree => summary.refused += 1,
                What::Element => summary.refused_elements += 1,
            }
        }
        for screen in screens {
            summary.pooled.add(screen);
            summary.empty += usize::from(screen.is_empty);
            summary.cut += usize::from(screen.is_cut);
            summary.apps.entry(screen.app.clone()).or_default().add(screen);
            for (rule, count) in &screen.rules {
                *summary.rules.entry(rule.clone()).or_default() += count;
            }
            summary.trees.push(json!({
                "tree": screen.tree, "app": screen.app, "modal": screen.modal,
                "tokens_in": screen.tokens_in, "tokens_out": screen.tokens_out,
                "elements_in": screen.elements_in, "elements_out": screen.elements_out(), "rules": screen.rules,
            }));
        }
        summary
    }

    pub fn screens(&self) -> usize {
        self.pooled.screens
    }

    /// What is refused, in words, where it is more than this share of the trees or of their elements.
    pub fn more_refused_than(&self, share: f64) -> Option<String> {
        let told = |refused: usize, read: usize, of: &str| {
            let all = refused + read;
            let is_more = refused as f64 > share * all as f64;
            let percent = 100.0 * refused as f64 / all.max(1) as f64;
            is_more.then(|| format!("{refused} of {all} {of} cannot be read ({percent:.1} %)"))
        };
        told(self.refused, self.pooled.screens, "trees")
            .or_else(|| told(self.refused_elements, self.pooled.elements_in, "elements"))
    }

    pub fn as_json(&self) -> Value {
        let apps: BTreeMap<&String, Value> =
            self.apps.iter().map(|(app, sum)| (app, sum.as_json())).collect();
        json!({
            "tokenizer": self.tokens, "pooled": self.pooled.as_json(), "apps": apps, "rules": self.rules,
            "trees": self.trees, "skipped": self.skipped, "refused": self.refused,
            "refused_elements": self.refused_elements, "empty": self.empty, "cut": self.cut,
        })
    }

    pub fn counts(&self) -> Counts {
        BTreeMap::from([
            ("screens".to_owned(), json!(self.pooled.screens)),
            ("elements".to_owned(), json!(self.pooled.elements_in)),
            ("refused".to_owned(), json!(self.refused)),
            ("refused_elements".to_owned(), json!(self.refused_elements)),
            ("skipped".to_owned(), json!(self.skipped.len())),
        ])
    }

    /// For a person: applications, then rules.
    pub fn told(&self) -> String {
        let mut apps = Table::new(&[
            "application",
            "screens",
            "modals",
            "elements",
            "named",
            "tokens before",
            "after",
            "ratio",
            "mean",
            "most",
        ]);
        let all = [("all".to_owned(), &self.pooled)];
        for (app, sum) in self.apps.iter().map(|(app, sum)| (app.clone(), sum)).chain(all) {
            let count = |n: usize| grouped(n as i64);
            apps.row(&[
                &app,
                &count(sum.screens),
                &count(sum.modals),
                &count(sum.elements_in),
                &count(sum.elements_out),
                &count(sum.tokens_in),
                &count(sum.tokens_out),
                &format!("{:.3}", sum.ratio()),
                &count(sum.tokens_out / sum.screens.max(1)),
                &count(sum.most_tokens_out),
            ]);
        }
        let mut rules = Table::new(&["elements", "became"]);
        for (rule, count) in &self.rules {
            rules.row(&[&grouped(*count as i64), rule]);
        }
        let mut text = format!("{apps}\n{rules}");
        if !self.skipped.is_empty() {
            text += &format!("{} other files left alone (summary.json lists them)\n", self.skipped.len());
        }
        for (count, what) in [
            (self.refused, "files or trees refused (rejects.jsonl)"),
            (self.refused_elements, "elements refused (rejects.jsonl)"),
            (self.empty, "screens have no element that is shown"),
            (self.cut, "trees were cut to a length before"),
        ] {
            if count > 0 {
                text += &format!("{count} {what}\n");
            }
        }
        text
    }
}
