//! Intent units and their four views (IntentCUA, section 3.1): environment, action, keyword,
//! description.

mod incidental;
mod labeler;
mod segment;
mod unit;

pub use incidental::{CleanUnit, clean};
pub use labeler::{Labeler, RuleLabeler, VERSION as LABELER_VERSION};
pub use segment::{Boundary, SegmentSettings, Span, segment};
pub use unit::{Unit, UnitAction, UnitKind, View};
