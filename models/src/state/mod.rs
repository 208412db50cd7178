//! State abstraction (`HiSA`, section 3.3): what an action changed on the screen, contexts that stay short however long
//! an episode grows, and lessons that outlive it.
//!
//! | file | concern |
//! | --- | --- |
//! | `region` | the changed region of two pictures |
//! | `tiles` | how much really changed in it, and where |
//! | `elements` | the difference of two screens that are known as elements |
//! | `step` | abstracted steps by rule: text, outcome, evidence |
//! | `refine` | refined contexts by rule: recursive and bounded |
//! | `lesson` | lessons by rule: failed attempts and what worked instead |
//! | `store` | dedupe, retrieval and synthesis of lessons |
//!
//! Nothing here reads files: pictures come in decoded, vectors computed.

mod elements;
mod lesson;
mod refine;
mod region;
mod step;
mod store;
mod tiles;

pub use elements::{ElementChange, element_change};
pub use lesson::{INDUCER, Trajectory, domain_of, induce, literals};
pub use refine::{Context, Done, REFINER, RefineSettings, clip};
pub use region::{Picture, PixelChange, Region, changed_region};
pub use step::{Abstracted, Change, LABELER, NO_CHANGE, Unseen, abstract_step};
pub use store::{Filed, LessonHit, LessonIndex, Retrieved, StoreSettings, synthesise};
pub use tiles::{Focus, focus};
