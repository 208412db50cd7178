//! `OSWorld`'s dump of an AT-SPI tree as XML, and the rules by which it becomes the linear form.
//!
//! The root is `desktop-frame` or `desktop`; a tag is a role with `-` for blanks. States, positions and values are attributes
//! of namespaces whose addresses end in `state`, `component`, `value`, `attributes`; their prefixes are free. Only internal
//! entities of XML itself are known, so that no file can grow while it is read.
//!
//! The linear form keeps what [`is_kept`] says. A node's text is what stands before its first child, as upstream reads it
//! (`node.text` of an `ElementTree`) and as its dump writes it; what stands after a child belongs to no node. The columns
//! `class` and `description` come from the namespaces of Windows, so that both are empty on Ubuntu, as in upstream's files.

use quick_xml::Reader;
use quick_xml::escape::unescape;
use quick_xml::events::{BytesStart, Event};

use super::tree::{
    self, MOST_ELEMENTS, MOST_REJECTS, NOT_IN_LINEAR_FORM, NOT_SHOWN, Node, Rect, Tree, TreeError,
    UNREADABLE, Window, shown,
};

/// Levels that a tree may have; the dump itself stops at 50.
const DEEPEST: usize = 1_000;

/// Whether `text` begins as such a dump does.
pub fn is_atspi(text: &str) -> bool {
    let start: String = text.chars().take(2_000).collect();
    start.contains("<desktop-frame") || start.contains("<desktop")
}

/// A node of the dump with what the linear form asks of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Dumped {
    /// The node; its id is its number in document order, from 0, its class and description are the linear form's.
    pub node: Node,
    /// Its parent's number.
    pub parent: Option<u32>,
    /// The description that the linear form does not show.
    pub described: String,
    /// Whether its position and size can be read, where it has them.
    pub readable: bool,
}

/// What a dump was made on: the linear form's rules differ.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Platform {
    /// AT-SPI: what is on the screen is `showing` and `visible`.
    #[default]
    Ubuntu,
    /// UIA, and the accessibility interface of macOS, which upstream has no rule for: `visible` is enough.
    Windows,
}

/// A dump as it stands, with the nodes that are not shown.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Dump {
    /// The nodes, in document order.
    pub nodes: Vec<Dumped>,
    /// The windows that are showing.
    pub windows: Vec<Window>,
    /// Names of the applications.
    pub applications: Vec<String>,
    /// What it was made on.
    pub platform: Platform,
    /// Nodes whose position or size cannot be read.
    pub rejects: Vec<TreeError>,
}

/// What a namespace holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Space {
    State(Option<Platform>),
    Component,
    Value,
    Attributes(Option<Platform>),
    Class,
    Other,
}

impl Space {
    fn of(address: &str) -> Self {
        let last = |word: &str| address.rsplit(['/', ':']).next().is_some_and(|part| part.starts_with(word));
        let platform = if address.contains("ubuntu") {
            Some(Platform::Ubuntu)
        } else {
            let is_other = address.contains("windows") || address.contains("macos");
            is_other.then_some(Platform::Windows)
        };
        if address.contains("document") || address.contains("text") && !address.contains("state") {
            Self::Other
        } else if last("state") {
            Self::State(platform)
        } else if last("component") {
            Self::Component
        } else if last("value") {
            Self::Value
        } else if last("attributes") {
            Self::Attributes(platform)
        } else if last("class") {
            Self::Class
        } else {
            Self::Other
        }
    }
}

/// Prefixes that the dump's own writers use, for files whose root declares none.
const USUAL: [(&str, Space); 5] = [
    ("st", Space::State(None)),
    ("cp", Space::Component),
    ("val", Space::Value),
    ("attr", Space::Attributes(None)),
    ("class", Space::Class),
];

/// Attributes of one node, and namespaces of one dump: far above any, and little enough to be looked through.
const MOST_ATTRIBUTES: usize = 1_000;
const MOST_SPACES: usize = 1_000;

/// Reads a dump.
///
/// # Errors
/// What is not well-formed XML, an unknown entity, a tree that is too deep or has too many nodes; each by the byte it stands
/// at. A position or size that is no pair of numbers is a reject of its node alone.
pub fn read(text: &str) -> Result<Dump, TreeError> {
    let mut reader = Reader::from_str(text);
    let mut building = Building::default();
    loop {
        let at = reader.buffer_position();
        let event = reader.read_event().map_err(|e| wrong(reader.error_position(), &e.to_string()))?;
        match event {
            Event::Start(tag) => building.open(&tag, at).map_err(|reason| wrong(at, &reason))?,
            Event::Empty(tag) => {
                building.open(&tag, at).map_err(|reason| wrong(at, &reason))?;
                building.open.pop();
            }
            Event::End(_) => {
                building.open.pop();
            }
            Event::Text(text) => {
                let decoded = text.xml10_content().map_err(|e| wrong(at, &e.to_string()))?;
                building.text(&decoded);
            }
            Event::CData(text) => {
                let decoded = text.decode().map_err(|e| wrong(at, &e.to_string()))?;
                building.text(&decoded);
            }
            Event::GeneralRef(entity) => {
                let name = entity.decode().map_err(|e| wrong(at, &e.to_string()))?;
                let reference = format!("&{name};");
                let decoded = unescape(&reference).map_err(|e| wrong(at, &e.to_string()))?;
                building.text(&decoded);
            }
            Event::DocType(_) => return Err(wrong(at, "a document type: such dumps have none")),
            Event::Eof => break,
            Event::Decl(_) | Event::PI(_) | Event::Comment(_) => {}
        }
    }
    if let Some(open) = building.open.last() {
        let role = &building.dump.nodes[*open as usize].node.role;
        return Err(wrong(text.len() as u64, &format!("`{role}` is not closed; the file is cut off")));
    }
    if building.dump.nodes.is_empty() {
        return Err(wrong(0, &format!("no element; expected an AT-SPI dump, found {}", shown(text))));
    }
    Ok(building.dump)
}

fn wrong(at: u64, reason: &str) -> TreeError {
    TreeError::new(format!("byte {at}"), reason)
}

#[derive(Default)]
struct Building {
    dump: Dump,
    /// Numbers of the nodes that are open.
    open: Vec<u32>,
    /// Namespaces by their prefixes.
    spaces: Vec<(String, Space)>,
}

impl Building {
    fn space(&self, prefix: &str) -> Space {
        let declared = self.spaces.iter().rev().find(|(name, _)| name == prefix).map(|(_, space)| *space);
        declared
            .or_else(|| USUAL.iter().find(|(name, _)| *name == prefix).map(|(_, space)| *space))
            .unwrap_or(Space::Other)
    }

    fn open(&mut self, tag: &BytesStart<'_>, at: u64) -> Result<(), String> {
        if self.open.len() >= DEEPEST {
            return Err(format!("more than {DEEPEST} levels: this is no screen"));
        }
        let number = self.dump.nodes.len();
        if number >= MOST_ELEMENTS {
            return Err(format!("more than {MOST_ELEMENTS} nodes: this is no screen"));
        }
        let parent = self.open.last().copied();
        if parent.is_none() && number > 0 {
            return Err("a second root".to_owned());
        }
        let role = std::str::from_utf8(tag.local_name().into_inner()).map_err(|e| e.to_string())?.to_owned();
        let mut node = Node { id: number.to_string(), role, ..Node::default() };
        let attributes = self.attributes(tag, &mut node)?;
        if parent.is_none() {
            self.dump.platform = self.platform(&node.role);
        }
        let mut dumped = Dumped { node, parent, described: String::new(), readable: true };
        if let Err(reason) = self.fill(&mut dumped, attributes) {
            if self.dump.rejects.len() >= MOST_REJECTS {
                return Err(format!(
                    "more than {MOST_REJECTS} nodes that cannot be read, the last: {reason}"
                ));
            }
            dumped.readable = false;
            let named = format!("`{}` {}: {reason}", dumped.node.role, shown(&dumped.node.name));
            self.dump.rejects.push(wrong(at, &named));
        }
        dumped.node.window = parent.and_then(|parent| self.dump.nodes[parent as usize].node.window);
        self.note_window(&mut dumped);
        self.dump.nodes.push(dumped);
        self.open.push(number as u32);
        Ok(())
    }

    /// The attributes of a tag that stand in a namespace; its name goes to the node, its declarations are noted.
    fn attributes(
        &mut self,
        tag: &BytesStart<'_>,
        node: &mut Node,
    ) -> Result<Vec<(String, String, String)>, String> {
        let mut attributes = Vec::new();
        // Their own check for doubles compares each with all before it.
        for (count, attribute) in tag.attributes().with_checks(false).enumerate() {
            if count >= MOST_ATTRIBUTES {
                return Err(format!(
                    "more than {MOST_ATTRIBUTES} attributes: this is no element of a screen"
                ));
            }
            let attribute = attribute.map_err(|e| e.to_string())?;
            let key = std::str::from_utf8(attribute.key.into_inner()).map_err(|e| e.to_string())?;
            let raw = std::str::from_utf8(&attribute.value).map_err(|e| e.to_string())?;
            let value = unescape(raw).map_err(|e| format!("attribute `{key}`: {e}"))?;
            match key.split_once(':') {
                Some(("xmlns", prefix)) => {
                    // A declaration that stands again adds nothing.
                    let space = Space::of(&value);
                    if self.spaces.iter().rev().find(|(name, _)| name == prefix).is_none_or(|s| s.1 != space)
                    {
                        if self.spaces.len() >= MOST_SPACES {
                            return Err(format!("more than {MOST_SPACES} namespaces: this is no dump"));
                        }
                        self.spaces.push((prefix.to_owned(), space));
                    }
                }
                Some((prefix, name)) => {
                    attributes.push((prefix.to_owned(), name.to_owned(), value.into_owned()));
                }
                None if key == "name" => node.name = value.into_owned(),
                None => {}
            }
        }
        Ok(attributes)
    }

    /// What the namespace of the states says, else the root: `desktop-frame` on Ubuntu, `desktop` elsewhere.
    fn platform(&self, root: &str) -> Platform {
        let said = self.spaces.iter().find_map(|(_, space)| match space {
            Space::State(platform) => *platform,
            _ => None,
        });
        said.unwrap_or(if root == "desktop" { Platform::Windows } else { Platform::Ubuntu })
    }

    fn fill(&self, dumped: &mut Dumped, attributes: Vec<(String, String, String)>) -> Result<(), String> {
        let (mut corner, mut size) = (None, None);
        let on = self.dump.platform;
        for (prefix, name, value) in attributes {
            match (self.space(&prefix), name.as_str()) {
                (Space::State(_), _) if value == "true" => dumped.node.states.push(name),
                (Space::Component, "screencoord") => corner = Some(pair(&name, &value)),
                (Space::Component, "size") => size = Some(pair(&name, &value)),
                (Space::Value, "value") => dumped.node.value = value,
                // Upstream asks the attributes of Windows for the class, also on Ubuntu, where none has them.
                (Space::Attributes(Some(Platform::Windows)), "class") if on == Platform::Ubuntu => {
                    dumped.node.class = value;
                }
                (Space::Class, "class") if on == Platform::Windows => dumped.node.class = value,
                (Space::Attributes(of), "description") => match of.unwrap_or(on) {
                    Platform::Windows => dumped.node.description = value,
                    Platform::Ubuntu => dumped.described = value,
                },
                _ => {}
            }
        }
        let (corner, size) = (corner.transpose()?, size.transpose()?);
        dumped.node.rect = corner.zip(size).map(|((x, y), (width, height))| Rect { x, y, width, height });
        Ok(())
    }

    /// Applications and showing windows are kept by name; what lies in a window says so.
    fn note_window(&mut self, dumped: &mut Dumped) {
        let node = &mut dumped.node;
        if node.role == "application" && !node.name.is_empty() {
            self.dump.applications.push(node.name.clone());
        }
        let is_window = matches!(node.role.as_str(), "frame" | "window" | "dialog" | "alert" | "file-chooser")
                || node.role.ends_with("-chooser")
                // On Windows a role is a class's name; what stands below the desktop is a window.
                || self.dump.platform == Platform::Windows && dumped.parent == Some(0);
        let is_there = match self.dump.platform {
            Platform::Ubuntu => node.is("showing"),
            Platform::Windows => node.is("visible"),
        };
        if is_window && is_there {
            node.window = Some(self.dump.windows.len() as u32);
            self.dump.windows.push(Window {
                role: node.role.clone(),
                title: node.name.clone(),
                application: self.dump.applications.last().cloned().unwrap_or_default(),
                active: node.is("active"),
                modal: node.is("modal"),
                rect: node.rect,
            });
        }
    }

    /// Text before the first child is the node's.
    fn text(&mut self, text: &str) {
        let Some(&open) = self.open.last() else { return };
        if self.dump.nodes.len() == open as usize + 1 {
            self.dump.nodes[open as usize].node.text += text;
        }
    }
}

fn pair(name: &str, value: &str) -> Result<(i32, i32), String> {
    let inner = value.strip_prefix('(').and_then(|rest| rest.strip_suffix(')'));
    let numbers = inner.and_then(|inner| inner.split_once(','));
    numbers
        .and_then(|(a, b)| Some((a.trim().parse().ok()?, b.trim().parse().ok()?)))
        .ok_or_else(|| format!("`{name}` is {}, expected `(x, y)`", shown(value)))
}

/// Roles that the linear form keeps by their ending.
const ENDINGS: [&str; 11] = [
    "item",
    "button",
    "heading",
    "label",
    "scrollbar",
    "searchbox",
    "textbox",
    "link",
    "tabelement",
    "textfield",
    "textarea",
];
/// Roles that it keeps by their name, the last seven of Windows.
const ROLES: [&str; 23] = [
    "alert",
    "canvas",
    "check-box",
    "combo-box",
    "entry",
    "icon",
    "image",
    "paragraph",
    "scroll-bar",
    "section",
    "slider",
    "static",
    "table-cell",
    "terminal",
    "text",
    "menu",
    "netuiribbontab",
    "start",
    "trayclockwclass",
    "traydummysearchcontrol",
    "uiimage",
    "uiproperty",
    "uiribboncommandbar",
];

/// Roles that a user acts on and the linear form has no line for, or none where they are not labelled.
const ACTED_ON: [&str; 18] = [
    "check-box",
    "column-header",
    "combo-box",
    "entry",
    "icon",
    "link",
    "list-item",
    "menu",
    "page-tab",
    "password-text",
    "row-header",
    "slider",
    "switch",
    "tab-item",
    "table-column-header",
    "table-row-header",
    "text",
    "tree-item",
];

/// Whether the linear form keeps a node (upstream's `judge_node`): a role worth showing, visible, usable, with a name or a
/// text, on the screen.
pub fn is_kept(node: &Node, platform: Platform) -> bool {
    let role = node.role.as_str();
    let role_counts = role.starts_with("document")
        || role.ends_with("menu")
        || ENDINGS.iter().any(|ending| role.ends_with(ending))
        || ROLES.contains(&role);
    role_counts
        && is_shown(node, platform)
        && is_usable(node)
        && is_placed(node)
        && !(node.name.is_empty() && node.text.is_empty())
}

fn is_shown(node: &Node, platform: Platform) -> bool {
    node.is("visible") && (platform == Platform::Windows || node.is("showing"))
}

fn is_usable(node: &Node) -> bool {
    ["enabled", "editable", "expandable", "checkable"].iter().any(|state| node.is(state))
}

fn is_placed(node: &Node) -> bool {
    node.rect.is_some_and(|r| r.x >= 0 && r.y >= 0 && r.width > 0 && r.height > 0)
}

/// Whether a user acts on a node that the linear form does not keep: a page tab, a button without a name.
fn is_acted_on(node: &Node, platform: Platform) -> bool {
    let role = node.role.as_str();
    let acts = role.ends_with("button") || role.ends_with("menu-item") || ACTED_ON.contains(&role);
    acts && is_shown(node, platform) && is_usable(node) && is_placed(node)
}

impl Dump {
    /// The nodes that the linear form keeps and those that a user acts on besides, with the windows around them; the others
    /// are left out by rule.
    pub fn into_tree(self) -> Tree {
        let mut size = tree::DEFAULT_SIZE;
        for rect in self.windows.iter().filter_map(|window| window.rect) {
            size = (size.0.max(rect.right()), size.1.max(rect.bottom()));
        }
        let mut tree = Tree {
            windows: self.windows,
            applications: self.applications,
            size: Some(size),
            rejects: self.rejects,
            ..Tree::default()
        };
        for Dumped { mut node, described, readable, .. } in self.nodes {
            let on = self.platform;
            let is_kept = is_kept(&node, on);
            if !readable {
                tree.leave_out(node, UNREADABLE);
            } else if is_kept || is_acted_on(&node, on) {
                if !is_kept {
                    tree.beyond_linear.push(tree.nodes.len() as u32);
                    // What the linear form does not show may still be what an unlabelled button is called.
                    if node.description.is_empty() {
                        node.description = described;
                    }
                } else if node.text.is_empty() && node.class.ends_with("EditWrapper") {
                    // What is written in a field of Windows is its value (upstream's rule).
                    node.text.clone_from(&node.value);
                }
                if !node.is("enabled") && !node.is("sensitive") {
                    node.states.push("disabled".to_owned());
                }
                tree.nodes.push(node);
            } else {
                let rule = if is_shown(&node, on) { NOT_IN_LINEAR_FORM } else { NOT_SHOWN };
                tree.leave_out(node, rule);
            }
        }
        tree
    }
}

#[cfg(test)]
#[path = "atspi_tests.rs"]
mod tests;
