//! The compressor: a screen in, the text that a model is shown out, and what became of every element.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use super::audit::{AuditRow, Fate, Rule};
use super::item::{Item, Vocabulary, on_one_line};
use super::modal::{self, Found, Modal, Seen};
use super::reduce::{self, Keywords};
use super::region::{Layout, lay_out};
use super::rules::Rules;
use super::sheet::Sheet;
use super::structure;
use super::tree::{Node, Rect, Tree};
use super::windows;

/// The three phases, each of which can be switched off.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Phases {
    /// Modal detection (Eq. 1).
    pub modal: bool,
    /// Redundancy reduction (Eq. 2).
    pub reduce: bool,
    /// Semantic structuring (Eq. 3 and 4).
    pub structure: bool,
}

impl Default for Phases {
    fn default() -> Self {
        Self { modal: true, reduce: true, structure: true }
    }
}

/// Compresses screens by a set of rules.
#[derive(Debug, Clone)]
pub struct Compressor {
    rules: Rules,
    vocabulary: Vocabulary,
    phases: Phases,
}

/// A compressed screen.
#[derive(Debug, Clone)]
pub struct Compressed {
    /// The text.
    pub text: String,
    /// Key of the application: `calc`, or `generic`.
    pub app: String,
    /// How a modal was found, if there is one.
    pub modal: Option<Found>,
    /// The gap, in pixels, beyond which a new block begins.
    pub theta: Option<f64>,
    /// What became of each element.
    pub fates: Vec<Fate>,
    /// What the next state is compared with.
    pub seen: Seen,
    /// The rule that shortened each element's text.
    shortened: Vec<Option<Rule>>,
    in_modal: Vec<bool>,
    interactive: Vec<bool>,
    /// The same of what the reader left out.
    left_interactive: Vec<bool>,
    regions: Vec<String>,
    region_of: Vec<usize>,
}

impl Compressor {
    /// A compressor of these rules and phases.
    pub fn new(rules: Rules, phases: Phases) -> Self {
        Self { vocabulary: Vocabulary::new(&rules.general.roles), rules, phases }
    }

    /// The rules it goes by.
    pub fn rules(&self) -> &Rules {
        &self.rules
    }

    /// Compresses a screen. `before` is the state before it in the same session, `instruction` what the user wants.
    pub fn compress(&self, tree: &Tree, before: Option<&Seen>, instruction: &str) -> Compressed {
        let general = &self.rules.general;
        let items = self.vocabulary.items(tree);
        let layout = lay_out(&self.rules, tree, &items);
        let found = if self.phases.modal {
            modal::detect(&general.modal, tree, &items, &layout, before)
        } else {
            Modal { found: None, of: vec![false; items.len()] }
        };
        let seen = Seen::of(&items, &layout, &found.of);
        let mut work = Work {
            rules: &self.rules,
            phases: self.phases,
            tree,
            keywords: Keywords::of(instruction, &general.reduce),
            fates: vec![Fate::Kept; items.len()],
            shortened: vec![None; items.len()],
            items,
            layout,
            modal: found,
        };
        if self.phases.reduce {
            work.reduce();
        }
        let (text, theta) = if self.phases.structure { work.structured() } else { (work.flat(), None) };
        let Work { items, layout, modal, fates, shortened, .. } = work;
        let mut regions: Vec<String> = layout.regions.iter().map(|region| region.name.clone()).collect();
        regions.push("CONTENT".to_owned());
        let region_of = layout.of.iter().map(|region| region.unwrap_or(regions.len() - 1)).collect();
        Compressed {
            text,
            app: layout.app.key.clone(),
            modal: modal.found,
            theta,
            fates,
            seen,
            shortened,
            in_modal: modal.of,
            interactive: items.iter().map(Item::is_interactive).collect(),
            left_interactive: tree.left_out.iter().map(|l| self.vocabulary.is_interactive(&l.node)).collect(),
            regions,
            region_of,
        }
    }
}

/// An element as a compressed screen says it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SaidElement {
    /// Its position in the tree.
    pub element: u32,
    /// Its role in the words of the text.
    pub role: String,
    /// What the text says of it: its label, and what it holds.
    pub text: String,
    /// Positions of the elements that were merged into it.
    pub merged: Vec<u32>,
}

impl Compressor {
    /// The elements that the text of `compressed`, made of `tree` for `instruction`, says, in document order.
    pub fn said(&self, compressed: &Compressed, tree: &Tree, instruction: &str) -> Vec<SaidElement> {
        let general = &self.rules.general;
        let keywords = Keywords::of(instruction, &general.reduce);
        let items = self.vocabulary.items(tree);
        let mut merged: Vec<Vec<u32>> = vec![Vec::new(); items.len()];
        for index in 0..items.len() {
            let mut at = index;
            while let Fate::Merged { into, .. } = compressed.fates[at] {
                at = into;
            }
            if at != index {
                merged[at].push(index as u32);
            }
        }
        let is_said = |i: &usize| match &compressed.fates[*i] {
            Fate::Kept => true,
            Fate::Tabled(rule) => rule.0 != "cell-empty",
            _ => false,
        };
        (0..items.len())
            .filter(is_said)
            .map(|i| {
                let item = &items[i];
                let mut text = String::new();
                if self.phases.reduce {
                    reduce::say(general, &keywords, item, &mut text);
                } else {
                    text.push_str(&item.label);
                }
                let merged = std::mem::take(&mut merged[i]);
                SaidElement { element: i as u32, role: item.role.to_string(), text, merged }
            })
            .collect()
    }
}

impl Compressed {
    /// Whether each element is part of the modal.
    pub fn in_modal(&self) -> &[bool] {
        &self.in_modal
    }

    /// The audit: a row for each element of the source, last those that the reader left out.
    pub fn audit<'a>(&'a self, name: &'a str, tree: &'a Tree) -> impl Iterator<Item = AuditRow> + 'a {
        let left = tree.left_out.iter().zip(&self.left_interactive).enumerate();
        let count = tree.nodes.len();
        let left = left.map(move |(i, (left, acts))| AuditRow::left_out(name, count + i, left, *acts));
        let rows = tree.nodes.iter().enumerate().map(move |(i, node)| {
            let Rect { x, y, width, height } = node.rect.unwrap_or(Rect { x: 0, y: 0, width: 0, height: 0 });
            let placed = |value: i32| node.rect.map(|_| value);
            AuditRow {
                tree: name.to_owned(),
                element: i as u32,
                source_id: node.id.clone(),
                role: node.role.clone(),
                label: node.label().to_owned(),
                x: placed(x),
                y: placed(y),
                width: placed(width),
                height: placed(height),
                interactive: self.interactive[i],
                fate: self.fates[i].word().to_owned(),
                rule: self.fates[i].rule().map(str::to_owned),
                into: match &self.fates[i] {
                    Fate::Merged { into, .. } => Some(*into as u32),
                    _ => None,
                },
                shortened: self.shortened[i].as_ref().map(|rule| rule.0.to_string()),
                region: self.regions[self.region_of[i]].clone(),
                modal: self.in_modal[i],
            }
        });
        rows.chain(left)
    }
}

/// A screen on its way.
struct Work<'t, 'r> {
    rules: &'r Rules,
    phases: Phases,
    tree: &'t Tree,
    items: Vec<Item<'t>>,
    layout: Layout<'r>,
    modal: Modal,
    keywords: Keywords,
    fates: Vec<Fate>,
    shortened: Vec<Option<Rule>>,
}

impl Work<'_, '_> {
    fn reduce(&mut self) {
        let general = &self.rules.general;
        reduce::drop_noise(general, self.tree, &self.items, self.layout.in_shell, &mut self.fates);
        if self.layout.simplify_off_screen {
            reduce::drop_off_screen(self.tree, &self.items, &mut self.fates);
        }
        // What lies in front and what lies behind it are two things, whatever they are called.
        let modal = &self.modal.of;
        reduce::merge(&general.reduce, &self.items, &|a, b| modal[a] == modal[b], &mut self.fates);
    }

    /// Elements that have a line, of the modal or of what is behind it.
    fn kept(&self, modal: bool) -> Vec<usize> {
        (0..self.items.len()).filter(|i| self.fates[*i] == Fate::Kept && self.modal.of[*i] == modal).collect()
    }

    /// Without structuring: the modal, then the rest, in document order.
    fn flat(&mut self) -> String {
        let mut out = String::new();
        let (modal, rest) = (self.kept(true), self.kept(false));
        if !modal.is_empty() {
            out += "[MODAL]\n";
            self.lines(&modal, &mut out);
            out += "[BACKGROUND]\n";
        }
        self.lines(&rest, &mut out);
        out
    }

    /// Eq. 4: the application, the modal, then region after region, each in reading order and in blocks.
    fn structured(&mut self) -> (String, Option<f64>) {
        let mut out = format!("APP: {}\n", self.app_name());
        let structure = &self.rules.general.structure;
        let mut modal = self.kept(true);
        structure::reading_order(structure, &self.items, &mut modal);
        let sheet = self.sheet();
        let mut parts = self.parts();
        for (_, grid, members) in &mut parts {
            if *grid {
                structure::grid_order(structure, &self.items, members);
            } else {
                structure::reading_order(structure, &self.items, members);
            }
        }
        let content: Vec<&[usize]> = { parts.iter() }
            .filter(|(_, grid, members)| !grid && members.first().is_some_and(|i| self.layout.is_dynamic(*i)))
            .map(|(_, _, members)| &members[..])
            .collect();
        let theta = structure::threshold(structure, &self.items, &content);
        if !modal.is_empty() {
            self.region("MODAL", &modal, theta, &mut out);
        }
        let mut sheet = sheet.map(|(name, sheet)| (name, Some(sheet)));
        for (name, grid, members) in parts {
            let table =
                sheet.as_mut().filter(|(region, _)| *region == name).and_then(|(_, sheet)| sheet.take());
            if members.is_empty() && table.is_none() {
                continue;
            }
            self.region(&name, &members, if grid { f64::INFINITY } else { theta }, &mut out);
            if let Some(table) = table {
                table.write(&self.items, &self.keywords, &mut out);
            }
        }
        (out, Some(theta))
    }

    /// The application's name in the rules; one that has no rules is called what the source calls it, where that is one thing.
    fn app_name(&self) -> Cow<'_, str> {
        let app = self.layout.app;
        let called = |name: &'_ str| Some(on_one_line(name).into_owned()).filter(|name| !name.is_empty());
        if app.key != self.rules.generic.key {
            return Cow::Borrowed(&app.name);
        }
        let active = self.tree.windows.iter().filter(|window| window.active).find_map(|w| called(&w.title));
        let only = || match &self.tree.applications[..] {
            [name] => called(name),
            _ => None,
        };
        active.or_else(only).map_or(Cow::Borrowed(&app.name), Cow::Owned)
    }

    /// The cells that are written as a table, with their region.
    fn sheet(&mut self) -> Option<(String, Sheet)> {
        let name = self.layout.app.sheet.clone()?;
        let cells: Vec<usize> =
            self.kept(false).into_iter().filter(|i| self.layout.name(*i) == name).collect();
        let sheet = Sheet::of(&self.items, &cells);
        let members: Vec<(usize, &str)> = sheet.members(&self.items, &self.keywords).collect();
        if members.is_empty() {
            return None;
        }
        for (index, rule) in members {
            self.fates[index] = Fate::Tabled(Rule::named(rule));
        }
        Some((name, sheet))
    }

    /// The regions in the rules' order, with their elements; on a desktop its windows are regions of their own.
    fn parts(&self) -> Vec<(String, bool, Vec<usize>)> {
        let rest = self.kept(false);
        let own = if self.layout.app.find_windows {
            windows::find(self.tree, &self.items, &rest)
        } else {
            windows::Windows::default()
        };
        let mut parts: Vec<(String, bool, Vec<usize>)> = Vec::new();
        for region in &self.layout.regions {
            if parts.iter().all(|(name, ..)| *name != region.name) {
                parts.push((region.name.clone(), region.grid, Vec::new()));
            }
        }
        if parts.iter().all(|(name, ..)| name != "CONTENT") {
            parts.push(("CONTENT".to_owned(), false, Vec::new()));
        }
        let mut framed: Vec<(String, bool, Vec<usize>)> =
            own.titles.iter().map(|title| (title.clone(), false, Vec::new())).collect();
        for index in rest {
            let name = self.layout.name(index);
            if let Some(window) = own.of.get(&index) {
                framed[*window].2.push(index);
            } else if let Some((.., members)) = parts.iter_mut().find(|(part, ..)| part == name) {
                members.push(index);
            }
        }
        parts.append(&mut framed);
        parts
    }

    fn region(&mut self, name: &str, members: &[usize], theta: f64, out: &mut String) {
        *out += &format!("[{name}]\n");
        let breaks = structure::breaks(&self.items, members, theta);
        let mut start = 0;
        for end in breaks.into_iter().chain([members.len()]) {
            if start > 0 {
                *out += "[BLOCK]\n";
            }
            self.lines(&members[start..end], out);
            start = end;
        }
    }

    /// A line for each element; in reading order elements of one role that stand side by side share one.
    fn lines(&mut self, members: &[usize], out: &mut String) {
        let mut before: Option<usize> = None;
        for &index in members {
            if !self.phases.reduce {
                raw_line(self.items[index].node, out);
                continue;
            }
            if before.is_some_and(|before| self.phases.structure && self.share_a_line(before, index)) {
                out.pop();
                *out += "; ";
            } else {
                let role = &self.items[index].role;
                *out += if role.is_empty() { "element" } else { role };
                out.push(' ');
            }
            self.element(index, out);
            out.push('\n');
            before = Some(index);
        }
    }

    fn share_a_line(&self, a: usize, b: usize) -> bool {
        let (a, b) = (&self.items[a], &self.items[b]);
        let row = f64::from(self.rules.general.structure.row_pixels);
        let beside = a
            .centre
            .zip(b.centre)
            .is_some_and(|((_, ay), (_, by))| (f64::from(ay) - f64::from(by)).abs() <= row);
        a.role == b.role && beside
    }

    /// `Save (114,38)`: label, what it holds, its centre, its states.
    fn element(&mut self, index: usize, out: &mut String) {
        let item = &self.items[index];
        let general = &self.rules.general;
        let said = out.len();
        self.shortened[index] = reduce::say(general, &self.keywords, item, out);
        if let Some((x, y)) = item.centre {
            *out += &format!("{}({x},{y})", if out.len() == said { "" } else { " " });
        }
        let states = &general.reduce.states;
        for state in states.iter().filter(|state| item.node.is(state)) {
            out.push(' ');
            *out += state;
        }
    }
}

/// Without reduction an element is said as the source says it.
fn raw_line(node: &Node, out: &mut String) {
    let Rect { x, y, width, height } = node.rect.unwrap_or(Rect { x: 0, y: 0, width: 0, height: 0 });
    let place = match node.rect {
        Some(_) => Cow::Owned(format!("({x}, {y})\t({width}, {height})")),
        None => Cow::Borrowed("\t"),
    };
    let Node { role, name, text, class, description, .. } = node;
    *out += &format!("{role}\t{name}\t{text}\t{class}\t{description}\t{place}\n");
}
