//! Versioned templates, and what they render to.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use minijinja::value::Serde;
use minijinja::{AutoEscape, Environment, UndefinedBehavior};
use serde::{Deserialize, Serialize};

use super::screen_text;
use crate::trace::Element;

/// Marks the place of an image in a message; training frameworks count it.
pub const IMAGE: &str = "<image>";
/// What frameworks take for a place of a picture, a film or a sound, wherever it stands.
pub const MARKS: [&str; 3] = [IMAGE, "<video>", "<audio>"];

/// Whom a message is from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// What the model is.
    System,
    /// What it is asked.
    User,
    /// What it answered.
    Assistant,
}

impl Role {
    /// The name in messages.
    pub fn name(self) -> &'static str {
        match self {
            Self::System => "system",
            Self::User => "user",
            Self::Assistant => "assistant",
        }
    }
}

/// One message of a prompt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PromptMessage {
    /// Whom it is from.
    pub role: Role,
    /// Its text; `<image>` marks the place of an image.
    pub content: String,
}

/// What a role is shown of the screen.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Shown<'a> {
    /// A screenshot, sent beside the text.
    Picture,
    /// The screen's elements, as text.
    Elements(&'a [Element]),
    /// The screen, rendered as text before.
    Text(&'a str),
    /// No screen: the State Tracker.
    Nothing,
}

impl<'a> Shown<'a> {
    /// The picture where there is one, else the elements.
    pub fn of(pictured: bool, elements: &'a [Element]) -> Self {
        if pictured { Self::Picture } else { Self::Elements(elements) }
    }
}

/// A prompt, ready to be sent or exported.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rendered {
    /// The messages, system first; a template without a system text gives none.
    pub messages: Vec<PromptMessage>,
    /// How many images it takes.
    pub images: usize,
    /// `name@version` of the template.
    pub template: String,
    /// Hash of the template's text: rows with the same hash were asked in the same words.
    pub hash: String,
}

/// A prompt that cannot be rendered.
#[derive(Debug, thiserror::Error)]
pub enum PromptError {
    /// No template of that name.
    #[error("no prompt `{name}`; known prompts: {known}")]
    Unknown {
        /// The name asked for.
        name: String,
        /// The names there are.
        known: String,
    },
    /// A value is missing, or the template is wrong.
    #[error("prompt `{name}`: {source}")]
    Render {
        /// The template.
        name: String,
        /// What the engine says.
        source: minijinja::Error,
    },
    /// A value holds the marker of an image.
    #[error("prompt `{name}`: a value holds `<image>`, which would be counted as an image; change the text")]
    Marker {
        /// The template.
        name: String,
    },
    /// The file of templates is not valid.
    #[error("prompts: {0}")]
    File(String),
}

/// A template as the file holds it.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Template {
    /// Goes up with every change.
    pub version: u32,
    /// System message; may be empty.
    pub system: String,
    /// User message.
    pub user: String,
}

impl Template {
    /// Hash of both texts, 32 hexadecimal digits.
    pub fn hash(&self) -> String {
        let text = format!("{}\0{}", self.system, self.user);
        format!("{:032x}", xxhash_rust::xxh3::xxh3_128(text.as_bytes()))
    }
}

/// All templates, ready to render.
#[derive(Debug)]
pub struct Registry {
    templates: BTreeMap<String, Template>,
    environment: Environment<'static>,
}

static REGISTRY: LazyLock<Registry> = LazyLock::new(|| {
    Registry::parse(include_str!("prompts.toml")).expect("the prompts that are compiled in are valid")
});

/// The registry that is compiled in.
pub fn registry() -> &'static Registry {
    &REGISTRY
}

impl Registry {
    /// Templates from TOML: a table of `version`, `system` and `user` for each.
    ///
    /// # Errors
    /// What is wrong with the file, or with which template.
    pub fn parse(toml: &str) -> Result<Self, PromptError> {
        let templates: BTreeMap<String, Template> =
            toml::from_str(toml).map_err(|e| PromptError::File(e.to_string()))?;
        let mut environment = Environment::new();
        environment.set_undefined_behavior(UndefinedBehavior::Strict);
        environment.set_auto_escape_callback(|_| AutoEscape::None);
        for (name, template) in &templates {
            for (part, text) in [("system", &template.system), ("user", &template.user)] {
                environment
                    .add_template_owned(format!("{name}.{part}"), text.clone())
                    .map_err(|source| PromptError::Render { name: name.clone(), source })?;
            }
        }
        Ok(Self { templates, environment })
    }

    /// Names and templates, in order.
    pub fn templates(&self) -> impl Iterator<Item = (&str, &Template)> {
        self.templates.iter().map(|(name, template)| (name.as_str(), template))
    }

    /// Renders the template `name` with `values`, a struct or map of the names it uses.
    ///
    /// # Errors
    /// An unknown template, a value missing, a value that holds `<image>`.
    pub fn render(&self, name: &str, values: &impl Serialize) -> Result<Rendered, PromptError> {
        let Some(template) = self.templates.get(name) else {
            let known = self.templates.keys().map(String::as_str).collect::<Vec<_>>().join(", ");
            return Err(PromptError::Unknown { name: name.to_owned(), known });
        };
        let fault = |source| PromptError::Render { name: name.to_owned(), source };
        let values = minijinja::Value::from(Serde(values));
        let mut messages = Vec::with_capacity(2);
        for (role, part, source) in
            [(Role::System, "system", &template.system), (Role::User, "user", &template.user)]
        {
            if source.is_empty() {
                continue;
            }
            let found = self.environment.get_template(&format!("{name}.{part}")).map_err(fault)?;
            let content = found.render(&values).map_err(fault)?;
            if content.matches(IMAGE).count() != source.matches(IMAGE).count() {
                return Err(PromptError::Marker { name: name.to_owned() });
            }
            messages.push(PromptMessage { role, content });
        }
        let images = messages.iter().map(|m| m.content.matches(IMAGE).count()).sum();
        let label = format!("{name}@{}", template.version);
        Ok(Rendered { messages, images, template: label, hash: template.hash() })
    }

    /// A role's prompt: the template `name` for a picture, `name-text` with the elements of `screen` where
    /// there is none, and `name` alone for a role that sees no screen. What a person, a model or a screen
    /// wrote is not counted as a picture: `<image>` in a value becomes `‹image›`, as do the other [`MARKS`].
    ///
    /// # Errors
    /// Those of [`Registry::render`].
    pub fn role(
        &self,
        name: &str,
        mut values: BTreeMap<&'static str, String>,
        screen: Shown<'_>,
    ) -> Result<Rendered, PromptError> {
        let template = match screen {
            Shown::Picture | Shown::Nothing => name.to_owned(),
            Shown::Elements(elements) => {
                values.insert("screen", screen_text(elements));
                format!("{name}-text")
            }
            Shown::Text(text) => {
                values.insert("screen", text.trim_end().to_owned());
                format!("{name}-text")
            }
        };
        values.values_mut().for_each(unmarked);
        self.render(&template, &values)
    }

    /// The state of an episode whose source has none, from what its steps so far did (`paper` leaves this
    /// open; used for AMEX, AITZ and the like).
    ///
    /// # Errors
    /// Those of [`Registry::render`].
    pub fn rule_state(&self, steps: &[String]) -> Result<String, PromptError> {
        self.state_of("state", steps)
    }

    /// A state told of `steps` by the template `name`: `state`, or `last-actions`.
    ///
    /// # Errors
    /// Those of [`Registry::render`].
    pub fn state_of(&self, name: &str, steps: &[String]) -> Result<String, PromptError> {
        let mut steps = steps.to_vec();
        steps.iter_mut().for_each(unmarked);
        let rendered = self.render(name, &BTreeMap::from([("steps", steps)]))?;
        Ok(rendered.messages.into_iter().map(|m| m.content).collect())
    }
}

/// Takes marks out of a text.
fn unmarked(text: &mut String) {
    for mark in MARKS {
        if text.contains(mark) {
            *text = text.replace(mark, &format!("‹{}›", &mark[1..mark.len() - 1]));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(pairs: &[(&'static str, &'static str)]) -> BTreeMap<&'static str, &'static str> {
        pairs.iter().copied().collect()
    }

    #[test]
    fn a_coordinator_is_asked_as_in_appendix_c() {
        let asked = values(&[("task", "Set a {{timer}} & go"), ("state", "Nothing <done>.")]);
        let prompt = registry().render("coordinator", &asked).expect("renders");
        assert_eq!((prompt.images, prompt.template.as_str()), (1, "coordinator@1"));
        assert_eq!(prompt.messages[0].role, Role::System);
        let user = &prompt.messages[1].content;
        assert!(user.starts_with("Screenshot: <image>\nHigh-level task: Set a {{timer}} & go\n"), "{user}");
        assert!(user.contains("Current_state: Nothing <done>."), "{user}");
    }

    #[test]
    fn a_missing_value_an_unknown_prompt_and_a_marker_in_a_value_are_errors() {
        let error = registry().render("coordinator", &values(&[("task", "t")])).expect_err("no state");
        assert!(matches!(error, PromptError::Render { .. }), "{error}");
        let error = registry().render("planner", &values(&[])).expect_err("unknown");
        assert!(error.to_string().contains("coordinator, coordinator-text"), "{error}");
        let asked = values(&[("task", "see <image>"), ("state", "s")]);
        assert!(matches!(registry().render("coordinator", &asked), Err(PromptError::Marker { .. })));
    }

    #[test]
    fn states_are_told_from_steps() {
        let state = |steps: &[&str]| {
            let steps: Vec<String> = steps.iter().map(|s| (*s).to_owned()).collect();
            registry().rule_state(&steps).expect("renders")
        };
        assert_eq!(state(&[]), crate::adapters::FIRST_STATE);
        assert_eq!(state(&["Tap Timer.", "Tap Save."]), "So far: 1. Tap Timer. 2. Tap Save.");
    }

    /// The hash tells training that its rows were asked in other words: it must not change unnoticed.
    #[test]
    fn templates_keep_their_hashes_until_their_version_changes() {
        let lines: Vec<String> =
            registry().templates().map(|(name, t)| format!("{name}@{} {}", t.version, t.hash())).collect();
        insta::assert_snapshot!(lines.join("\n"));
    }

    #[test]
    fn a_file_that_is_no_registry_is_refused() {
        assert!(matches!(Registry::parse("[a]\nversion = 1"), Err(PromptError::File(_))));
        let broken = "[a]\nversion = 1\nsystem = \"\"\nuser = \"{{ x\"";
        assert!(matches!(Registry::parse(broken), Err(PromptError::Render { .. })));
    }
}
