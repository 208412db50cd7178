//! What a control can do, read from the words of four toolkits.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

/// A control pattern of UI Automation, as far as the declarations of section 3.5 need them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Pattern {
    /// Can be clicked for an effect.
    Invoke,
    /// Has a value that can be set as text.
    Value,
    /// Has a number in a range.
    RangeValue,
    /// Holds text whose lines and paragraphs can be selected.
    Text,
    /// Can be scrolled to a position.
    Scroll,
    /// Can be selected, alone or with others.
    Select,
    /// Is on or off.
    Toggle,
    /// Opens and closes.
    ExpandCollapse,
}

/// Kinds of controls that rules speak of, whatever the toolkit calls them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// A menu, or the item that opens one.
    Menu,
    /// An entry of a menu.
    MenuItem,
    /// A tab of a tab list.
    Tab,
    /// A list that drops down.
    ComboBox,
    /// A named group of controls.
    Group,
    /// A button, whether it stays down or not.
    Button,
    /// A box to be checked.
    CheckBox,
    /// One of several, of which one is on.
    Radio,
    /// A field to be typed into.
    Edit,
    /// Running text: documents, paragraphs, terminals.
    Document,
    /// Text that only tells.
    Label,
    /// A cell or row of data (`DataItem`).
    DataItem,
    /// An entry of a list or tree.
    ListItem,
    /// A scroll bar, or what scrolls.
    Scroll,
    /// A number to be set.
    Range,
    /// Anything else.
    Other,
}

impl Kind {
    /// The kind of a control that a source calls `control_type`: AT-SPI's roles, UIA's control types, Android's
    /// classes and `DroidTask`'s tags.
    pub fn of(control_type: &str) -> Self {
        let last = control_type.rsplit('.').next().unwrap_or_default();
        let word: String =
            last.chars().filter(|c| c.is_alphanumeric()).flat_map(char::to_lowercase).collect();
        match word.strip_suffix("control").unwrap_or(&word) {
            "menu" | "menubar" | "popupmenu" => Self::Menu,
            "menuitem" | "checkmenuitem" | "radiomenuitem" | "tearoffmenuitem" => Self::MenuItem,
            "pagetab" | "tabitem" | "tab" => Self::Tab,
            "combobox" | "spinner" | "select" | "dropdownlist" => Self::ComboBox,
            "group" | "panel" | "grouping" | "frame" | "filler" | "toolbar" => Self::Group,
            "button" | "pushbutton" | "togglebutton" | "splitbutton" | "imagebutton" | "pushbuttonmenu" => {
                Self::Button
            }
            "checkbox" | "switch" | "checkedtextview" => Self::CheckBox,
            "radiobutton" => Self::Radio,
            "edit" | "entry" | "edittext" | "input" | "passwordtext" | "textbox" | "searchbox"
            | "textfield" | "textarea" => Self::Edit,
            "text" | "document" | "documenttext" | "documentframe" | "documentweb" | "paragraph"
            | "terminal" => Self::Document,
            "label" | "static" | "statictext" | "textview" | "p" | "heading" => Self::Label,
            "tablecell" | "dataitem" | "cell" | "tablerow" => Self::DataItem,
            "listitem" | "treeitem" | "icon" | "option" => Self::ListItem,
            "scrollbar" | "scrollpane" | "scrollview" | "recyclerview" | "listview" => Self::Scroll,
            "slider" | "spinbutton" | "seekbar" | "progressbar" => Self::Range,
            _ => Self::Other,
        }
    }

    /// The types whose descriptions always go into the text form (section 4.2).
    pub fn is_key(self) -> bool {
        matches!(self, Self::Menu | Self::Tab | Self::ComboBox | Self::Group | Self::Button)
    }

    /// The patterns that a control of this kind has; `says(word)` tells whether the source gives it a state or an
    /// action of that name. A source that names no actions is taken at its control types.
    pub fn patterns(self, says: impl Fn(&str) -> bool) -> BTreeSet<Pattern> {
        use Pattern::{ExpandCollapse, Invoke, RangeValue, Scroll, Select, Text, Toggle, Value};
        let own: &[Pattern] = match self {
            Self::Menu => &[Invoke, ExpandCollapse],
            Self::MenuItem | Self::Button => &[Invoke],
            Self::Tab | Self::Radio | Self::ListItem => &[Invoke, Select],
            Self::ComboBox => &[Invoke, ExpandCollapse, Value],
            Self::CheckBox => &[Invoke, Toggle],
            Self::Edit => &[Text, Value],
            Self::Document => &[Text],
            Self::DataItem => &[Select, Value],
            Self::Scroll => &[Scroll],
            Self::Range => &[RangeValue],
            Self::Group | Self::Label | Self::Other => &[],
        };
        let mut patterns: BTreeSet<Pattern> = own.iter().copied().collect();
        let told: [(&[&str], Pattern); 7] = [
            (&["click", "press", "activate", "clickable"], Invoke),
            (&["checkable", "toggle"], Toggle),
            (&["selectable"], Select),
            (&["editable"], Value),
            (&["expandable", "expand or contract"], ExpandCollapse),
            (&["scrollable"], Scroll),
            (&["editable", "multi_line", "single_line"], Text),
        ];
        patterns.extend(told.iter().filter(|(words, _)| words.iter().any(|w| says(w))).map(|(_, p)| *p));
        patterns
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn toolkits_agree_on_kinds() {
        for (words, kind) in [
            (["page tab", "TabItem", "TabItemControl", "tab"], Kind::Tab),
            (["entry", "Edit", "android.widget.EditText", "input"], Kind::Edit),
            (["push button", "Button", "android.widget.ImageButton", "button"], Kind::Button),
            (["check box", "CheckBox", "android.widget.Switch", "checkbox"], Kind::CheckBox),
        ] {
            words.iter().for_each(|word| assert_eq!(Kind::of(word), kind, "{word}"));
        }
        assert_eq!(Kind::of("split pane"), Kind::Other);
    }

    #[test]
    fn patterns_come_from_kind_states_and_actions() {
        let none = |_: &str| false;
        assert!(Kind::Edit.patterns(none).contains(&Pattern::Value));
        assert!(Kind::Label.patterns(none).is_empty());
        assert!(Kind::Label.patterns(|w| w == "multi_line").contains(&Pattern::Text));
        assert!(Kind::Other.patterns(|w| w == "scrollable").contains(&Pattern::Scroll));
        assert!(!Kind::Document.patterns(none).contains(&Pattern::Value), "read only");
    }
}
