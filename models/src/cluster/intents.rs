//! x
/// x
pub struct IntentAssignment;
/// x
pub struct IntentSettings;
/// x
pub fn intent_groups() {}
