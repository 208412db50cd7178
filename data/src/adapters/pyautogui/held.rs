//! Keys and mouse buttons that code holds down and lets go.
//!
//! What is held is no action of its own. A mouse button pressed and let go is a click, or a drag where the
//! pointer moved between. Keys held while a key is pressed make a combination; held while the mouse is used,
//! they stand before [`Action::source_verb`]: `ctrl+pyautogui.click`; held and let go with nothing between,
//! they are pressed.

use super::{Fault, Place, actions, click_verb, combination, function, position, text, wrong};
use crate::action::{Action, Verb};
use crate::grammar::literal::Call;
use crate::trace::RejectKind;

/// More keys than this are in no combination.
const MAX_KEYS: usize = 8;

/// What the hands hold while code is read.
#[derive(Default)]
pub(super) struct Hands {
    done: Vec<Action>,
    keys: Vec<Key>,
    /// The press of the mouse button that is held; its end is where the pointer has moved since.
    button: Option<Action>,
}

struct Key {
    name: String,
    /// Whether anything was done while it was held.
    used: bool,
}

impl Hands {
    /// Reads the next call.
    ///
    /// # Errors
    /// As [`actions`]; a key or button that is let go without being held.
    pub(super) fn take(&mut self, call: &Call, place: Place) -> Result<(), Fault> {
        match function(call).as_str() {
            "keydown" => {
                let name = key(call)?;
                self.keys.push(Key { name, used: false });
                if self.keys.len() > MAX_KEYS { Err(held(call, "too many keys are held")) } else { Ok(()) }
            }
            "keyup" => self.key_up(call),
            "mousedown" => {
                let verb = click_verb(call)?;
                let press =
                    Action { point: position(call, 0, place)?, ..Action::new(verb, call.name.clone()) };
                match self.button.replace(press) {
                    None => Ok(()),
                    Some(_) => Err(held(call, "a mouse button is held already")),
                }
            }
            "mouseup" => self.mouse_up(call, place),
            _ => {
                let found = actions(call, place)?;
                found.into_iter().try_for_each(|action| self.act(call, action))
            }
        }
    }

    /// The actions, once the code has been read.
    ///
    /// # Errors
    /// When a key or button is still held.
    pub(super) fn finish(self) -> Result<Vec<Action>, Fault> {
        let still =
            self.keys.first().map(|key| key.name.as_str()).or(self.button.as_ref().map(|_| "a button"));
        match still {
            None => Ok(self.done),
            Some(what) => {
                let reason = format!("code: {what} is held down and not let go");
                Err(Fault::new(RejectKind::OutOfRange, reason))
            }
        }
    }

    fn act(&mut self, call: &Call, mut action: Action) -> Result<(), Fault> {
        if let Some(press) = self.button.as_mut() {
            return match action.verb {
                Verb::Hover => {
                    press.end = action.point;
                    Ok(())
                }
                Verb::Drag => {
                    press.end = action.end;
                    Ok(())
                }
                Verb::Wait => Ok(()),
                _ => Err(held(call, "a mouse button is held")),
            };
        }
        // A pause, or a move to the place, is not what the keys are held for.
        if !self.keys.is_empty() && !matches!(action.verb, Verb::Wait | Verb::Hover) {
            let keys = self.held_keys();
            if action.verb == Verb::Press {
                action.text = Some(format!("{keys}+{}", action.text.unwrap_or_default()));
            } else {
                action.source_verb = format!("{keys}+{}", action.source_verb);
            }
            self.keys.iter_mut().for_each(|key| key.used = true);
        }
        self.done.push(action);
        Ok(())
    }

    fn held_keys(&self) -> String {
        combination(self.keys.iter().map(|key| key.name.as_str()))
    }

    fn key_up(&mut self, call: &Call) -> Result<(), Fault> {
        let name = key(call)?;
        let Some(place) = self.keys.iter().position(|key| key.name == name) else {
            return Err(held(call, "this key is not held"));
        };
        if !self.keys[place].used {
            let text = Some(self.held_keys());
            self.done.push(Action { text, ..Action::new(Verb::Press, call.name.clone()) });
            self.keys.iter_mut().for_each(|key| key.used = true);
        }
        self.keys.remove(place);
        Ok(())
    }

    fn mouse_up(&mut self, call: &Call, place: Place) -> Result<(), Fault> {
        let Some(press) = self.button.take() else { return Err(held(call, "no mouse button is held")) };
        let end = position(call, 0, place)?.or(press.end);
        let dragged = end.filter(|end| Some(*end) != press.point);
        let verb = if dragged.is_some() { Verb::Drag } else { press.verb };
        self.act(call, Action { verb, end: dragged, ..press })
    }
}

fn key(call: &Call) -> Result<String, Fault> {
    let name = text(call, 0, "key")?;
    name.map(|name| combination([name])).ok_or_else(|| wrong(call, "key", "the name of a key"))
}

fn held(call: &Call, what: &str) -> Fault {
    Fault::new(RejectKind::OutOfRange, format!("`{}`: {what}", call.name))
}
