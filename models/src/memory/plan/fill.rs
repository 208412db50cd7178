//! Slots filled with steps: from exemplars, from a skill, from a stored plan, or from default action templates; values
//! bound from the command, and every step with its origin.

use std::collections::BTreeSet;

use tracemill_data::adapters::parse_instruction;
use tracemill_data::artifact::{
    AliasMap, Bound, Coverage, Mapped, MappedArg, Origin, PlanArg, PlanStep, Skill, TraceStep,
};
use tracemill_data::views::UnitAction;

use super::bind::{Param, bind, candidates};
use super::decompose::Slot;
use super::memory::{PlanMemory, PlanTrace, StoredUnit, is_icon_of};
use super::words::{padded, quoted, stem, stems, tokens, verb_class};
use crate::skill::align::align;

/// Steps whose values are not bound yet.
#[derive(Default)]
struct Sketch {
    steps: Vec<SketchStep>,
    /// Parameters by what they were recognised by: arguments that had the same value have the same parameter.
    params: Vec<(String, Param)>,
    origin: Option<(Origin, String)>,
}

struct SketchStep {
    verb: String,
    args: Vec<SketchArg>,
}

struct SketchArg {
    field: String,
    kind: String,
    content: Content,
}

enum Content {
    Literal(String),
    Parameter { at: usize, affix: Affix },
}

/// Words before and after the part of a value that varies: `weather in …`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Affix {
    before: String,
    after: String,
}

impl Affix {
    /// What several values begin and end with, in whole words. Two values must share two words, for two people may
    /// have the same first name; three or more must share one.
    fn of(values: &[&str]) -> Self {
        let mut distinct: Vec<Vec<&str>> = values.iter().map(|v| v.split(' ').collect()).collect();
        distinct.sort();
        distinct.dedup();
        let Some((first, rest)) = distinct.split_first().filter(|(_, rest)| !rest.is_empty()) else {
            return Self::default();
        };
        let shortest = distinct.iter().map(Vec::len).min().unwrap_or(0);
        let alike = |from_end: bool, i: usize| {
            let at = |v: &Vec<&str>| if from_end { v.len() - 1 - i } else { i };
            rest.iter().all(|v| v[at(v)] == first[at(first)])
        };
        let before = (0..shortest - 1).take_while(|&i| alike(false, i)).count();
        let after = (0..shortest - 1 - before).take_while(|&i| alike(true, i)).count();
        let letters = |words: &[&str]| words.iter().any(|w| w.chars().any(char::is_alphabetic));
        let (start, end) = (&first[..before], &first[first.len() - after..]);
        if before + after + rest.len() < 3 || !(letters(start) || letters(end)) {
            return Self::default();
        }
        let spaced = |words: &[&str], tail: bool| match (words.is_empty(), tail) {
            (true, _) => String::new(),
            (false, true) => format!(" {}", words.join(" ")),
            (false, false) => format!("{} ", words.join(" ")),
        };
        Self { before: spaced(start, false), after: spaced(end, true) }
    }

    fn middle<'v>(&self, value: &'v str) -> &'v str {
        let inner = value.strip_prefix(self.before.as_str()).unwrap_or(value);
        inner.strip_suffix(self.after.as_str()).unwrap_or(inner)
    }

    fn around(&self, middle: &str) -> String {
        format!("{}{middle}{}", self.before, self.after)
    }
}

/// Fields whose value belongs to the way, not to the task.
const FIXED: [&str; 2] = ["key", "direction"];
/// Predicates that act on an element.
const POINTERS: [&str; 6] = ["click", "double_click", "right_click", "long_press", "hover", "drag"];
/// Types of values: a label that is a date is this user's date.
const VALUES: [&str; 3] = ["<date>", "<number>", "<email>"];

impl Sketch {
    fn parameter(&mut self, class: String, kind: &str, examples: Vec<String>) -> usize {
        if let Some(at) = self.params.iter().position(|(c, _)| *c == class) {
            let param = &mut self.params[at].1;
            // The text that was typed says more of the type than the label it was found under.
            if param.kind == "<element>" {
                kind.clone_into(&mut param.kind);
            }
            param
                .examples
                .extend(examples.into_iter().filter(|e| !param.examples.contains(e)).collect::<Vec<_>>());
            return at;
        }
        self.params.push((class, Param { kind: kind.to_owned(), examples }));
        self.params.len() - 1
    }

    fn argument(&mut self, class: String, field: &str, kind: &str, values: &[&str]) -> SketchArg {
        let affix = Affix::of(values);
        let mut examples: Vec<String> = values.iter().map(|v| affix.middle(v).to_owned()).collect();
        examples.dedup();
        let at = self.parameter(class, kind, examples);
        SketchArg {
            field: field.to_owned(),
            kind: kind.to_owned(),
            content: Content::Parameter { at, affix },
        }
    }
}

fn literal(field: &str, kind: &str, value: &str) -> SketchArg {
    SketchArg { field: field.to_owned(), kind: kind.to_owned(), content: Content::Literal(value.to_owned()) }
}

fn lower(text: &str) -> String {
    text.trim().to_lowercase()
}

/// A trace's step as Φ's, for the alignment.
fn as_mapped(step: &TraceStep) -> Mapped<'_> {
    let args = step.args.iter().map(|a| MappedArg { field: &a.field, value: &a.value, hint: Some(&a.kind) });
    Mapped { predicate: &step.verb, args: args.collect(), rule: "", coverage: Coverage::Rule }
}

/// The steps of `base`, with parameters where the other exemplars have other values. What was typed is always a
/// parameter, and so is every label that equals it.
fn sketch_exemplars(base: &PlanTrace, others: &[&PlanTrace], map: &AliasMap) -> Sketch {
    let mut sketch = Sketch { origin: Some((Origin::Unit, base.unit_id.clone())), ..Sketch::default() };
    // A click on nobody knows what is no step of a plan.
    let kept = |s: &&TraceStep| !s.args.is_empty() || !POINTERS.contains(&s.verb.as_str());
    let base = &PlanTrace { steps: base.steps.iter().filter(kept).cloned().collect(), ..base.clone() };
    let mapped: Vec<Mapped> = base.steps.iter().map(as_mapped).collect();
    let aligned: Vec<(Vec<Option<usize>>, &PlanTrace)> = others
        .iter()
        .map(|other| {
            let theirs: Vec<Mapped> = other.steps.iter().map(as_mapped).collect();
            (align(&mapped.iter().collect::<Vec<_>>(), &theirs.iter().collect::<Vec<_>>()), *other)
        })
        .collect();
    let typed: Vec<String> = base.steps.iter().filter_map(|s| s.value("text")).map(lower).collect();
    for (i, step) in base.steps.iter().enumerate() {
        let mut args = Vec::new();
        for arg in &step.args {
            let theirs = aligned.iter().filter_map(|(at, other)| other.steps[at[i]?].value(&arg.field));
            let values: Vec<&str> = std::iter::once(arg.value.as_str()).chain(theirs).collect();
            let same = values.iter().all(|v| *v == arg.value);
            let value = VALUES.contains(&map.value_type("text", &arg.value, None));
            let constant = same && !value && arg.field != "text" && !typed.contains(&lower(&arg.value));
            args.push(if constant || FIXED.contains(&arg.field.as_str()) || step.verb == "open" {
                literal(&arg.field, &arg.kind, &arg.value)
            } else {
                let class = lower(Affix::of(&values).middle(&arg.value));
                sketch.argument(class, &arg.field, &arg.kind, &values)
            });
        }
        sketch.steps.push(SketchStep { verb: step.verb.clone(), args });
    }
    sketch
}

/// A skill's steps; its parameters have the examples it kept and those of its representative traces.
fn sketch_skill(skill: &Skill, memory: &PlanMemory) -> Sketch {
    let mut sketch = Sketch { origin: Some((Origin::Skill, skill.skill_id.clone())), ..Sketch::default() };
    let same = |(t, s): (&TraceStep, &tracemill_data::artifact::SkillStep)| {
        t.verb == s.verb || (t.verb == "open" && s.verb == "click")
    };
    let same_way =
        |t: &&PlanTrace| t.steps.len() == skill.steps.len() && t.steps.iter().zip(&skill.steps).all(same);
    let found = skill.representative_unit_ids.iter().filter_map(|id| memory.trace(id));
    let traces: Vec<&PlanTrace> = found.filter(same_way).collect();
    for (i, step) in skill.steps.iter().enumerate() {
        let mut args = Vec::new();
        let label = step.args.iter().find(|a| a.field == "target").and_then(|a| a.value.as_deref());
        let app = label.and_then(|l| memory.environments.keys().find(|app| is_icon_of(l, app)));
        if let Some(app) = app.filter(|_| step.verb == "click" && i == 0) {
            sketch
                .steps
                .push(SketchStep { verb: "open".to_owned(), args: vec![literal("app", "<app>", app)] });
            continue;
        }
        if step.args.is_empty() && POINTERS.contains(&step.verb.as_str()) {
            continue;
        }
        for arg in &step.args {
            let of_traces: Vec<&str> = traces.iter().filter_map(|t| t.steps[i].value(&arg.field)).collect();
            let fixed =
                arg.examples.first().filter(|_| FIXED.contains(&arg.field.as_str()) || step.verb == "open");
            if let Some(value) = arg.value.as_ref().or(fixed) {
                args.push(literal(&arg.field, &arg.kind, value));
                continue;
            }
            let mut values: Vec<&str> =
                arg.examples.iter().map(String::as_str).chain(of_traces.clone()).collect();
            values.dedup();
            let affix = Affix::of(&values);
            let known = if of_traces.is_empty() { &values } else { &of_traces };
            let class = known.iter().map(|v| lower(affix.middle(v))).collect::<Vec<_>>().join("\u{1f}");
            args.push(sketch.argument(class, &arg.field, &arg.kind, &values));
        }
        sketch.steps.push(SketchStep { verb: step.verb.clone(), args });
    }
    sketch
}

/// A stored unit: what was bound from its command is bound anew.
fn sketch_stored(plan_id: &str, command: &str, unit: &StoredUnit) -> Sketch {
    let mut sketch = Sketch { origin: Some((Origin::Plan, plan_id.to_owned())), ..Sketch::default() };
    for step in &unit.steps {
        let mut args = Vec::new();
        for arg in &step.args {
            args.push(match (&arg.value, arg.bound) {
                (Some(value), Bound::Memory) => literal(&arg.field, &arg.kind, value),
                (Some(value), _) => {
                    let (before, run, after) = run_in(value, command);
                    let affix = Affix { before: before.to_owned(), after: after.to_owned() };
                    let at = sketch.parameter(lower(run), &arg.kind, vec![run.to_owned()]);
                    let content = Content::Parameter { at, affix };
                    SketchArg { field: arg.field.clone(), kind: arg.kind.clone(), content }
                }
                (None, _) => {
                    // An open value is a parameter of its own, whatever else is open.
                    let class = format!("open {}", sketch.params.len());
                    sketch.argument(class, &arg.field, &arg.kind, &[])
                }
            });
        }
        sketch.steps.push(SketchStep { verb: step.verb.clone(), args });
    }
    sketch
}

/// The longest run of whole words of `value` that the command holds, with what stands before and after it; all of the
/// value where the command holds nothing of it.
pub(super) fn run_in<'v>(value: &'v str, command: &str) -> (&'v str, &'v str, &'v str) {
    let (words, command) = (tokens(value), padded(command));
    let mut best = 0..value.len();
    let mut longest = 0;
    for first in 0..words.len() {
        for last in (first..words.len()).rev() {
            let range = words[first].at.start..words[last].at.end;
            let run = &value[range.clone()];
            // Of two words the one that looks like a name is what was meant.
            let name = run.chars().any(|c| c.is_uppercase() || c.is_ascii_digit());
            let weight = 2 * (last + 1 - first) + usize::from(name);
            if weight > longest && !stems(run).is_empty() && command.contains(&padded(run)) {
                (longest, best) = (weight, range);
            }
        }
    }
    (&value[..best.start], &value[best.clone()], &value[best.end..])
}

/// Whether the command holds the value or a run of its words.
pub fn told_by(value: &str, command: &str) -> bool {
    let (_, run, _) = run_in(value, command);
    padded(command).contains(&padded(run)) && !stems(run).is_empty()
}

/// Fills slots.
pub(super) struct Filler<'a> {
    pub map: &'a AliasMap,
    pub memory: &'a PlanMemory,
}

impl Filler<'_> {
    /// The steps of an exemplar, bound to the slot (Case 1).
    pub fn exemplars(&self, slot: &Slot, base: &PlanTrace, others: &[&PlanTrace]) -> Vec<PlanStep> {
        self.bound(slot, sketch_exemplars(base, others, self.map))
    }

    /// A skill's steps, bound to the slot (gap filling, Case 3).
    pub fn skill(&self, slot: &Slot, skill: &Skill) -> Vec<PlanStep> {
        self.bound(slot, sketch_skill(skill, self.memory))
    }

    /// A stored unit's steps, bound to the slot (Cases 2 and 3).
    pub fn stored(&self, slot: &Slot, plan_id: &str, command: &str, unit: &StoredUnit) -> Vec<PlanStep> {
        self.bound(slot, sketch_stored(plan_id, command, unit))
    }

    fn bound(&self, slot: &Slot, sketch: Sketch) -> Vec<PlanStep> {
        let labels: Vec<String> = sketch
            .steps
            .iter()
            .flat_map(|s| &s.args)
            .filter_map(|a| if let Content::Literal(value) = &a.content { Some(value) } else { None })
            .flat_map(|value| tokens(value))
            .map(|word| stem(&word.lower))
            .chain(slot.env.iter().flat_map(|env| tokens(env)).map(|word| stem(&word.lower)))
            .chain(self.memory.phrases().cloned())
            .collect();
        let found = candidates(&slot.context, &slot.clause, &labels, self.map);
        let params: Vec<Param> = sketch.params.into_iter().map(|(_, param)| param).collect();
        let values = bind(&params, &found, self.map);
        let (origin, id) = sketch.origin.expect("every sketch says where it is from");
        let argument = |arg: SketchArg| {
            let (value, bound) = match arg.content {
                Content::Literal(value) => (Some(value), Bound::Memory),
                Content::Parameter { at, affix } => match &values[at] {
                    Some(value) => (Some(affix.around(value)), Bound::Command),
                    None => (None, Bound::Open),
                },
            };
            PlanArg { field: arg.field, kind: arg.kind, value, bound }
        };
        let step = |step: SketchStep| PlanStep {
            verb: step.verb,
            args: step.args.into_iter().map(argument).collect(),
            from: origin,
            id: id.clone(),
        };
        let mut steps: Vec<PlanStep> = sketch.steps.into_iter().map(step).collect();
        self.open_what_is_named(slot, &mut steps);
        steps
    }

    /// An application that the command names is the one to open.
    fn open_what_is_named(&self, slot: &Slot, steps: &mut [PlanStep]) {
        let Some(env) = &slot.env else { return };
        for arg in steps.iter_mut().filter(|s| s.verb == "open").flat_map(|s| &mut s.args) {
            if arg.field == "app" && arg.value.as_deref().is_some_and(|v| lower(v) == lower(env)) {
                arg.bound = Bound::Command;
            }
        }
    }

    /// Steps from the command alone (no memory): a gesture that it names as Φ maps it, else the default way to do what
    /// the verb asks for with the values it holds.
    pub fn template(&self, slot: &Slot, opens: bool) -> Vec<PlanStep> {
        let mut steps = Vec::new();
        if let Some(env) = slot.env.as_ref().filter(|_| opens) {
            steps.push(self.step("open", &[("app", env)]));
        }
        if let Some(step) = self.gesture(slot) {
            steps.push(step);
            return steps;
        }
        let class = verb_class(&slot.act.verb);
        let object = slot.act.object.join(" ");
        if class == "open" && slot.env.is_some() {
            return steps;
        }
        if !object.is_empty() {
            steps.push(self.step("click", &[("target", &object)]));
        }
        for value in self.values(slot) {
            steps.push(self.step("text_input", &[("text", &value)]));
        }
        if class == "search" {
            steps.push(self.step("press", &[("key", "enter")]));
        } else if matches!(class, "create" | "change" | "save") {
            steps.push(self.step("save", &[]));
        }
        steps
    }

    /// Values that stand out by themselves: quoted, or of a type that their form decides.
    fn values(&self, slot: &Slot) -> Vec<String> {
        let mut out: Vec<String> =
            quoted(&slot.clause).into_iter().map(|r| slot.clause[r].to_owned()).collect();
        let wanted: Vec<Param> = ["<email>", "<url>", "<file_path>", "<date>", "<number>"]
            .iter()
            .map(|kind| Param { kind: (*kind).to_owned(), examples: vec![] })
            .collect();
        let found = candidates(&slot.clause, &slot.clause, &[], self.map);
        let typed = bind(&wanted, &found, self.map);
        out.extend(typed.into_iter().flatten());
        out
    }

    /// A command that is a gesture: `click Save`, `scroll down`, `type 'x'`.
    fn gesture(&self, slot: &Slot) -> Option<PlanStep> {
        let said = parse_instruction(&slot.clause);
        let verb = said.verb.filter(|v| !v.is_terminal())?;
        if said.target.is_none() && said.text.is_none() && said.direction.is_none() {
            return None;
        }
        let action = UnitAction {
            verb: verb.name().to_owned(),
            target: said.target,
            text: said.text,
            direction: said.direction.map(|d| d.name().to_owned()),
            phrase: Some(slot.clause.clone()),
            ..UnitAction::default()
        };
        let mapped = self.map.map(&action);
        let args: Vec<(&str, &str)> = mapped.args.iter().map(|a| (a.field, a.value)).collect();
        (mapped.coverage == Coverage::Rule).then(|| self.step(mapped.predicate, &args))
    }

    fn step(&self, verb: &str, args: &[(&str, &str)]) -> PlanStep {
        let argument = |(field, value): &(&str, &str)| PlanArg {
            field: (*field).to_owned(),
            kind: self.map.value_type(field, value, None).to_owned(),
            value: Some((*value).to_owned()),
            // Keys are part of the templates, like the verbs.
            bound: if *field == "key" { Bound::Memory } else { Bound::Command },
        };
        let args = args.iter().map(argument).collect();
        PlanStep { verb: verb.to_owned(), args, from: Origin::Template, id: verb.to_owned() }
    }

    /// The step that brings an application to the front.
    pub fn opening(&self, env: &str, named: bool) -> PlanStep {
        let mut step = self.step("open", &[("app", env)]);
        if !named {
            step.args.iter_mut().for_each(|a| a.bound = Bound::Memory);
        }
        step
    }
}

/// Plan units of an episode: its units as a plan that was approved, values that its command tells marked as such.
///
/// A label that the unit's skill has as a literal stays one, even if the command happens to say the word.
pub(super) fn recorded_steps(
    trace: &PlanTrace,
    command: &str,
    skill: Option<&Skill>,
    map: &AliasMap,
) -> Vec<PlanStep> {
    let constants: BTreeSet<&str> = skill
        .into_iter()
        .flat_map(|s| &s.steps)
        .flat_map(|s| &s.args)
        .filter_map(|a| a.value.as_deref())
        .collect();
    let argument = |verb: &str, arg: &tracemill_data::artifact::TraceArg| {
        let constant =
            constants.contains(arg.value.as_str()) || FIXED.contains(&arg.field.as_str()) || verb == "open";
        let told = !constant && told_by(&arg.value, command);
        let value = VALUES.contains(&map.value_type("text", &arg.value, None));
        let typed = (arg.field == "text" || (value && !constant)) && !told;
        PlanArg {
            field: arg.field.clone(),
            kind: arg.kind.clone(),
            // What one user typed and did not say is not for the next one.
            value: (!typed).then(|| arg.value.clone()),
            bound: if typed {
                Bound::Open
            } else if told {
                Bound::Command
            } else {
                Bound::Memory
            },
        }
    };
    let step = |s: &TraceStep| PlanStep {
        verb: s.verb.clone(),
        args: s.args.iter().map(|a| argument(&s.verb, a)).collect(),
        from: Origin::Unit,
        id: trace.unit_id.clone(),
    };
    let kept = |s: &&TraceStep| !s.args.is_empty() || !POINTERS.contains(&s.verb.as_str());
    trace.steps.iter().filter(kept).map(step).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn affixes_need_enough_in_common() {
        let affix = Affix::of(&["weather in Oslo", "weather in New York"]);
        assert_eq!(
            (affix.middle("weather in Oslo"), affix.around("Lima").as_str()),
            ("Oslo", "weather in Lima")
        );
        assert_eq!(
            Affix::of(&["Ben Osei", "Ben Frank"]),
            Affix::default(),
            "one word of two values is chance"
        );
        assert_eq!(
            Affix::of(&["555 0134", "555 0177", "555 0102"]),
            Affix::default(),
            "numbers have no affix"
        );
        let label = Affix::of(&["Claim of Ann", "Claim of Bob", "Claim of Cy Ng"]);
        assert_eq!(label.middle("Claim of Cy Ng"), "Cy Ng");
        assert_eq!(Affix::of(&["same", "same"]), Affix::default());
    }

    #[test]
    fn the_longest_run_that_the_command_holds_is_what_was_told() {
        assert_eq!(
            run_in("weather in Oslo", "check the weather forecast for Oslo"),
            ("weather in ", "Oslo", "")
        );
        assert_eq!(run_in("Easy ramen - Home", "cook ramen"), ("Easy ", "ramen", " - Home"));
        assert_eq!(run_in("nothing", "else"), ("", "nothing", ""));
        assert!(told_by("Ann Lee", "text Ann Lee now") && !told_by("blue-kettle", "join the network"));
    }
}
