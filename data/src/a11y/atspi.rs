//! `OSWorld`'s dump of an AT-SPI tree as XML, and the rules by which it becomes the linear form.
//!
//! The root is `desktop-frame` or `desktop`; a tag is a role with `-` for blanks. States, positions and values are attributes
//! of namespaces whose addresses end in `state`, `component`, `value`, `attributes`; their prefixes are free. Only internal
//! entities of XML itself are known, so that no file can grow while it is read.

use quick_xml::Reader;
use quick_xml::escape::unescape;
use quick_xml::events::{BytesStart, Event};

use super::tree::{MOST_ELEMENTS, Node, Rect, Tree, TreeError, Window, shown};

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
    /// The node; its id is its number in document order, from 0.
    pub node: Node,
    /// Its parent's number.
    pub parent: Option<u32>,
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
}

/// What a namespace holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Space {
    State,
    Component,
    Value,
    Attributes,
    Other,
}

impl Space {
    fn of(address: &str) -> Self {
        let last = |word: &str| address.rsplit(['/', ':']).next().is_some_and(|part| part.starts_with(word));
        if address.contains("document") || address.contains("text") && !address.contains("state") {
            Self::Other
        } else if last("state") {
            Self::State
        } else if last("component") {
            Self::Component
        } else if last("value") {
            Self::Value
        } else if last("attributes") || last("class") {
            Self::Attributes
        } else {
            Self::Other
        }
    }
}

/// Prefixes that the dump's own writers use, for files whose root declares none.
const USUAL: [(&str, Space); 4] =
    [("st", Space::State), ("cp", Space::Component), ("val", Space::Value), ("attr", Space::Attributes)];

/// Reads a dump.
///
/// # Errors
/// What is not well-formed XML, an unknown entity, a tree that is too deep or has too many nodes, a position or size that is
/// no pair of numbers; each by the byte it stands at.
pub fn read(text: &str) -> Result<Dump, TreeError> {
    let mut reader = Reader::from_str(text);
    let mut building = Building::default();
    loop {
        let at = reader.buffer_position();
        let event = reader.read_event().map_err(|e| wrong(reader.error_position(), &e.to_string()))?;
        match event {
            Event::Start(tag) => building.open(&tag).map_err(|reason| wrong(at, &reason))?,
            Event::Empty(tag) => {
                building.open(&tag).map_err(|reason| wrong(at, &reason))?;
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
    /// Windows of the open nodes.
    spaces: Vec<(String, Space)>,
}

impl Building {
    fn space(&self, prefix: &str) -> Space {
        let declared = self.spaces.iter().rev().find(|(name, _)| name == prefix).map(|(_, space)| *space);
        declared
            .or_else(|| USUAL.iter().find(|(name, _)| *name == prefix).map(|(_, space)| *space))
            .unwrap_or(Space::Other)
    }

    fn open(&mut self, tag: &BytesStart<'_>) -> Result<(), String> {
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
        let (mut corner, mut size) = (None, None);
        let mut attributes = Vec::new();
        for attribute in tag.attributes() {
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
        for (prefix, name, value) in attributes {
            match (self.space(&prefix), name.as_str()) {
                (Space::State, _) if value == "true" => node.states.push(name),
                (Space::Component, "screencoord") => corner = Some(pair(&name, &value)?),
                (Space::Component, "size") => size = Some(pair(&name, &value)?),
                (Space::Value, "value") => node.value = value,
                (Space::Attributes, "class") => node.class = value,
                (Space::Attributes, "description") => node.description = value,
                _ => {}
            }
        }
        node.rect = corner.zip(size).map(|((x, y), (width, height))| Rect { x, y, width, height });
        node.window = parent.and_then(|parent| self.dump.nodes[parent as usize].node.window);
        self.note_window(&mut node);
        self.dump.nodes.push(Dumped { node, parent });
        self.open.push(number as u32);
        Ok(())
    }

    /// Applications and showing windows are kept by name; what lies in a window says so.
    fn note_window(&mut self, node: &mut Node) {
        if node.role == "application" && !node.name.is_empty() {
            self.dump.applications.push(node.name.clone());
        }
        let is_window =
            matches!(node.role.as_str(), "frame" | "window" | "dialog" | "alert" | "file-chooser")
                || node.role.ends_with("-chooser");
        if is_window && node.is("showing") {
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
    let numbers = inner.and_then(|inner| inner.split_once(", "));
    numbers
        .and_then(|(a, b)| Some((a.parse().ok()?, b.parse().ok()?)))
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

/// Whether the linear form keeps a node: a role worth showing, visible, usable, with a name or a text, on the screen.
pub fn is_kept(node: &Node) -> bool {
    let role = node.role.as_str();
    let role_counts = role.starts_with("document")
        || role.ends_with("menu")
        || ENDINGS.iter().any(|ending| role.ends_with(ending))
        || ROLES.contains(&role);
    let usable = ["enabled", "editable", "expandable", "checkable"].iter().any(|state| node.is(state));
    let placed = node.rect.is_some_and(|r| r.x >= 0 && r.y >= 0 && r.width > 0 && r.height > 0);
    role_counts
        && node.is("showing")
        && node.is("visible")
        && usable
        && placed
        && !(node.name.is_empty() && node.text.is_empty())
}

impl Dump {
    /// The nodes that the linear form keeps, with the windows around them.
    pub fn into_tree(self) -> Tree {
        let nodes: Vec<Node> = { self.nodes.into_iter() }.map(|d| d.node).filter(is_kept).collect();
        let mut size = super::tree::DEFAULT_SIZE;
        for rect in self.windows.iter().filter_map(|window| window.rect) {
            size = (size.0.max(rect.right()), size.1.max(rect.bottom()));
        }
        Tree { nodes, windows: self.windows, applications: self.applications, size: Some(size) }
    }
}
