//! What the compressor goes by, as data: `general.toml` and one file for each application. A folder of the user's own adds
//! applications, or puts its own in place of ours.

use std::collections::BTreeMap;
use std::path::Path;

use serde::{Deserialize, Serialize};

/// Rules of every application.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct General {
    /// Roles and their priorities (table 4).
    pub roles: Roles,
    /// Modal detection (appendices A and B).
    pub modal: ModalRules,
    /// Redundancy reduction (appendix C).
    pub reduce: ReduceRules,
    /// Semantic structuring (appendix D).
    pub structure: StructureRules,
    /// The desktop's bars around an application.
    pub shell: Shell,
}

/// The desktop's own bars, which are there whatever application is in front.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Shell {
    /// Roles of the elements that tell it.
    pub roles: Vec<String>,
    /// Their labels, in lower case and whole.
    pub names: Vec<String>,
    /// Its regions, which come before those of the application.
    #[serde(rename = "region")]
    pub regions: Vec<Region>,
}

/// Roles by priority.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs, reason = "the names are table 4's")]
pub struct Roles {
    pub highest: Vec<String>,
    pub high: Vec<String>,
    pub medium: Vec<String>,
    /// Edit fields by a role that other toolkits have for a label, told by its spelling.
    pub fields: Vec<String>,
    /// Roles whose value is worth showing.
    pub valued: Vec<String>,
    /// Other toolkits' words for them.
    pub alias: BTreeMap<String, String>,
}

/// Thresholds and words of appendices A and B, by their names there.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs, reason = "the names are the paper's; rules/general.toml says where each stands")]
pub struct ModalRules {
    pub epsilon_sta: f64,
    pub epsilon_dyn: f64,
    pub matching_ratio: f64,
    pub declared_tags: Vec<String>,
    pub declared_width: f64,
    pub large_modal_matches: usize,
    pub sparse_screen: usize,
    pub sparse_ratio: f64,
    pub shift_pairs: usize,
    pub shift_longest: f64,
    pub shift_agreement: f64,
    pub shift_spread: f64,
    pub interactive_tags: Vec<String>,
    pub decorative_tags: Vec<String>,
    pub tag_interactive: f64,
    pub tag_decorative: f64,
    pub decorative_floor: f64,
    pub decide: Vec<String>,
    pub func: Vec<String>,
    pub w_decide: f64,
    pub w_func: f64,
    pub few: usize,
    pub few_penalty: f64,
    pub many: usize,
    pub many_bonus: f64,
    pub t_modal: f64,
    pub persistence: f64,
    pub content_keywords: Vec<String>,
    pub action_keywords: Vec<String>,
    pub delta: f64,
    pub banner_bottom: f64,
    pub banner_top: f64,
    pub banner_aspect: f64,
    pub anchors_capped: usize,
    pub centrality: f64,
    pub structure_button: f64,
    pub structure_input: f64,
    pub structure_toggle: f64,
    pub structure_mixed: f64,
    pub accept: f64,
    pub accept_share: f64,
    pub least_anchors: usize,
    pub least_area: f64,
    pub most_area: f64,
    pub closing: Vec<String>,
}

/// Thresholds and words of appendix C.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReduceRules {
    /// Centres at most this far apart are close, in pixels.
    pub distance: f64,
    /// With equal names, this far in height.
    pub same_name_dy: i32,
    /// A label more than this many times as long as the other is another label.
    pub length_ratio: f64,
    /// Characters kept on each side of a keyword of the instruction.
    pub window: usize,
    /// Characters kept where there is none.
    pub default: usize,
    /// Roles whose text is shortened.
    pub paragraphs: Vec<String>,
    /// Characters beyond which any other text keeps its beginning and its end.
    pub long: usize,
    /// Words of an instruction that are no keywords (table 5).
    pub stop_words: Vec<String>,
    /// States that the compressed text says.
    pub states: Vec<String>,
    /// What is dropped, rule by rule.
    pub noise: Vec<Noise>,
}

/// What is dropped as noise.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Noise {
    /// The rule's name in the audit.
    pub rule: String,
    /// Roles it is about.
    pub roles: Vec<String>,
    /// Labels, in lower case and whole; any where there are none.
    #[serde(default)]
    pub names: Vec<String>,
    /// Only elements without a label.
    #[serde(default)]
    pub unlabelled: bool,
    /// Only where an application stands before the desktop and its bars.
    #[serde(default)]
    pub only_behind: bool,
}

/// Thresholds of appendix D.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StructureRules {
    /// Centres at most this far apart in height are of one row.
    pub row_pixels: i32,
    /// Share of the smaller gaps whose median is the base gap (D.5.1).
    pub gap_share: f64,
    /// The least base gap, in pixels.
    pub gap_least: f64,
    /// Multipliers N of the base gap, the strictest first (D.5.2).
    pub multipliers: Vec<f64>,
    /// More blocks than these are too many.
    pub most_blocks: usize,
    /// More blocks than these are too many where most hold one element.
    pub some_blocks: usize,
    /// Share of blocks of one element that is most of them.
    pub single_share: f64,
    /// Weight of clues by which an application is told.
    pub least_weight: u32,
}

/// An application: how it is told, and its regions.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct App {
    /// Its name in artifacts: `calc`.
    pub key: String,
    /// Its name for a model: `LibreOffice Calc`.
    pub name: String,
    /// What tells it; each counts once.
    #[serde(default, rename = "clue")]
    pub clues: Vec<Clue>,
    /// Its regions; the first that fits an element has it. One without conditions comes last.
    #[serde(default, rename = "region")]
    pub regions: Vec<Region>,
    /// Views with regions of their own.
    #[serde(default, rename = "view")]
    pub views: Vec<View>,
    /// Regions where a modal of an initial state may be; all dynamic ones where none is named.
    #[serde(default)]
    pub modal_regions: Vec<String>,
    /// The region whose cells are written as a table.
    #[serde(default)]
    pub sheet: Option<String>,
    /// Where `x_max = "split"` is looked for.
    #[serde(default)]
    pub split: Option<Split>,
    /// The desktop itself.
    #[serde(default)]
    pub desktop: bool,
    /// Windows are told apart by their title bars.
    #[serde(default)]
    pub find_windows: bool,
}

/// A clue to an application: an element, or the title of a window.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Clue {
    /// Roles of the element; any where there are none.
    #[serde(default)]
    pub roles: Vec<String>,
    /// Parts of its label, in lower case; any where there are none.
    #[serde(default)]
    pub names: Vec<String>,
    /// Whether the label must be one of `names`.
    #[serde(default)]
    pub exact: bool,
    /// Parts of a window's title or an application's name, in lower case.
    #[serde(default)]
    pub windows: Vec<String>,
    /// What it counts.
    pub weight: u32,
}

/// A region: bounds of an element's centre, and what must stand in it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Region {
    /// Its name: `MENUBAR`.
    pub name: String,
    /// From here, `115px` or `6%` of the screen.
    #[serde(default)]
    pub x_min: Option<Bound>,
    /// To before here.
    #[serde(default)]
    pub x_max: Option<Bound>,
    /// From here.
    #[serde(default)]
    pub y_min: Option<Bound>,
    /// To before here.
    #[serde(default)]
    pub y_max: Option<Bound>,
    /// Roles that belong here.
    #[serde(default)]
    pub roles: Vec<String>,
    /// Parts of labels that belong here, in lower case; with roles, either is enough.
    #[serde(default)]
    pub names: Vec<String>,
    /// Its elements move, as by scrolling (A.2).
    #[serde(default)]
    pub dynamic: bool,
    /// Its elements stand in a grid, and are read column by column.
    #[serde(default)]
    pub grid: bool,
}

/// A bound of a region.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Bound {
    /// Pixels.
    Pixels(f64),
    /// A share of the screen, from 0 to 1.
    Share(f64),
    /// Where the layout is split.
    Split,
}

impl TryFrom<String> for Bound {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let number = |text: &str| text.trim().parse::<f64>().ok().filter(|x| x.is_finite());
        if text == "split" {
            return Ok(Self::Split);
        }
        if let Some(found) = text.strip_suffix("px").and_then(number) {
            return Ok(Self::Pixels(found));
        }
        let share = text.strip_suffix('%').and_then(number).map(|percent| Self::Share(percent / 100.0));
        share.ok_or_else(|| format!("`{text}` is no bound: write `115px`, `6%` or `split`"))
    }
}

impl From<Bound> for String {
    fn from(bound: Bound) -> Self {
        match bound {
            Bound::Pixels(x) => format!("{x}px"),
            Bound::Share(x) => format!("{}%", x * 100.0),
            Bound::Split => "split".to_owned(),
        }
    }
}

/// A view of an application that has regions of its own.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct View {
    /// Its name: `settings`.
    pub name: String,
    /// Labels, in lower case, of which `least` must be on the screen.
    pub names: Vec<String>,
    /// How many of them.
    pub least: usize,
    /// Whether elements above and below the screen are left out.
    #[serde(default)]
    pub simplify_off_screen: bool,
    /// Its regions.
    #[serde(default, rename = "region")]
    pub regions: Vec<Region>,
}

/// Where the boundary between a list and what it shows is looked for.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Split {
    /// Not before here.
    pub min: Bound,
    /// Not after here.
    pub max: Bound,
    /// Here where the layout does not say.
    pub default: Bound,
}

/// All rules.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Rules {
    /// Of every application.
    pub general: General,
    /// Applications, in the order in which they are tried; the earlier of two equally likely ones is taken.
    pub apps: Vec<App>,
    /// Any other.
    pub generic: App,
}

/// Why rules cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("{file}: {reason}")]
pub struct RulesError {
    /// The file.
    pub file: String,
    /// What is wrong in it.
    pub reason: String,
}

const GENERAL: &str = include_str!("rules/general.toml");
const GENERIC: &str = include_str!("rules/generic.toml");
/// Applications that are known without a file of the user's.
const APPS: [(&str, &str); 9] = [
    ("calc.toml", include_str!("rules/calc.toml")),
    ("impress.toml", include_str!("rules/impress.toml")),
    ("writer.toml", include_str!("rules/writer.toml")),
    ("gimp.toml", include_str!("rules/gimp.toml")),
    ("vlc.toml", include_str!("rules/vlc.toml")),
    ("vscode.toml", include_str!("rules/vscode.toml")),
    ("thunderbird.toml", include_str!("rules/thunderbird.toml")),
    ("chrome.toml", include_str!("rules/chrome.toml")),
    ("os.toml", include_str!("rules/os.toml")),
];

impl Rules {
    /// The rules that come with the program.
    pub fn builtin() -> Self {
        let own = |file, text| parse::<App>(file, text).expect("the program's own rules are valid");
        Self {
            general: toml::from_str(GENERAL).expect("the program's own rules are valid"),
            apps: APPS.iter().map(|(file, text)| own(file, text)).collect(),
            generic: own("generic.toml", GENERIC),
        }
    }

    /// The same with a folder of the user's: `general.toml` changes what it names, `generic.toml` and files with the key of a
    /// known application take its place, others come before the known ones.
    ///
    /// # Errors
    /// A file that cannot be read or says what no rule knows.
    pub fn with_folder(mut self, folder: &Path) -> Result<Self, RulesError> {
        let wrong = |file: &Path, reason: String| RulesError { file: file.display().to_string(), reason };
        let listed = std::fs::read_dir(folder).map_err(|e| wrong(folder, e.to_string()))?;
        let mut files = Vec::new();
        for entry in listed {
            let path = entry.map_err(|e| wrong(folder, e.to_string()))?.path();
            if path.extension().is_some_and(|extension| extension == "toml") {
                files.push(path);
            }
        }
        if files.is_empty() {
            return Err(wrong(folder, "no .toml file in this folder".to_owned()));
        }
        files.sort();
        let mut new = Vec::new();
        for file in files {
            let text = std::fs::read_to_string(&file).map_err(|e| wrong(&file, e.to_string()))?;
            match file.file_name().and_then(|name| name.to_str()) {
                Some("general.toml") => self.overlay(&text).map_err(|reason| wrong(&file, reason))?,
                Some("generic.toml") => self.generic = parse(&file.display().to_string(), &text)?,
                _ => {
                    let app: App = parse(&file.display().to_string(), &text)?;
                    match self.apps.iter_mut().find(|known| known.key == app.key) {
                        Some(known) => *known = app,
                        None => new.push(app),
                    }
                }
            }
        }
        new.append(&mut self.apps);
        self.apps = new;
        Ok(self)
    }

    fn overlay(&mut self, text: &str) -> Result<(), String> {
        let mut all = toml::Value::try_from(&self.general).map_err(|e| e.to_string())?;
        let own: toml::Value = toml::from_str(text).map_err(|e| e.to_string())?;
        merge(&mut all, own);
        self.general = all.try_into().map_err(|e: toml::de::Error| e.to_string())?;
        Ok(())
    }
}

fn parse<T: serde::de::DeserializeOwned>(file: &str, text: &str) -> Result<T, RulesError> {
    toml::from_str(text).map_err(|e| RulesError { file: file.to_owned(), reason: e.to_string() })
}

fn merge(into: &mut toml::Value, from: toml::Value) {
    match (into, from) {
        (toml::Value::Table(into), toml::Value::Table(from)) => {
            for (key, value) in from {
                match into.get_mut(&key) {
                    Some(known) => merge(known, value),
                    None => {
                        into.insert(key, value);
                    }
                }
            }
        }
        (into, from) => *into = from,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_programs_own_rules_are_valid_and_end_in_a_region_for_all() {
        let rules = Rules::builtin();
        for app in rules.apps.iter().chain([&rules.generic]) {
            let views = app.views.iter().map(|view| &view.regions);
            for regions in views.chain([&app.regions]) {
                let last = regions.last().unwrap();
                let open = Region { name: last.name.clone(), dynamic: last.dynamic, ..Region::default() };
                assert_eq!(*last, open, "{}", app.key);
            }
        }
    }

    #[test]
    fn a_folder_changes_replaces_and_adds() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
        write("general.toml", "[reduce]\ndistance = 7.5\n");
        write("mine.toml", "key = \"mine\"\nname = \"Mine\"\n[[region]]\nname = \"ALL\"\nx_max = \"50%\"\n");
        write("vlc.toml", "key = \"vlc\"\nname = \"My VLC\"\n");
        let rules = Rules::builtin().with_folder(folder.path()).unwrap();
        assert_eq!((rules.general.reduce.distance, rules.general.reduce.window), (7.5, 50));
        assert_eq!((rules.apps[0].key.as_str(), rules.apps.len()), ("mine", 10));
        assert_eq!(rules.apps[0].regions[0].x_max, Some(Bound::Share(0.5)));
        assert!(rules.apps.iter().any(|app| app.name == "My VLC"));
        write("mine.toml", "key = \"mine\"\nname = \"Mine\"\n[[region]]\nname = \"ALL\"\nx_max = \"50\"\n");
        let error = Rules::builtin().with_folder(folder.path()).unwrap_err().to_string();
        assert!(error.contains("mine.toml") && error.contains("`50` is no bound"), "{error}");
        write("mine.toml", "key = \"mine\"\nname = \"Mine\"\nregions = []\n");
        let error = Rules::builtin().with_folder(folder.path()).unwrap_err().to_string();
        assert!(error.contains("regions"), "{error}");
    }
}
