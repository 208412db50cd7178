//! Real screens of Linux applications, where they are there.

use std::collections::BTreeMap;
use std::path::Path;

use super::tests::{check_fates, compressor};
use super::tree::Rect;
use super::*;

/// A folder of the shared data, where it is there.
fn shared(folder: &str) -> Option<std::path::PathBuf> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared/data").join(folder);
    if !path.is_dir() {
        eprintln!("skipped: {} is not here", path.display());
        return None;
    }
    Some(path)
}

/// The row that a merged element is part of.
fn survivor<'r>(rows: &'r [AuditRow], row: &'r AuditRow) -> &'r AuditRow {
    row.into.map_or(row, |into| survivor(rows, &rows[into as usize]))
}

#[test]
fn on_real_screens_every_target_of_the_linear_form_survives() {
    let Some(root) = shared("desktop-a11y") else { return };
    let compressor = compressor();
    let (mut screens, mut targets, mut lost, mut absent) = (0, 0_u32, Vec::new(), Vec::new());
    for app in ["calc", "chromium", "galculator", "gedit", "gimp", "mousepad", "writer"] {
        let folder = root.join(app);
        let mut before = None;
        let mut audits: BTreeMap<String, Vec<AuditRow>> = BTreeMap::new();
        for number in 1.. {
            let name = format!("{number:03}");
            let Ok(text) = std::fs::read_to_string(folder.join(format!("{name}.tsv"))) else { break };
            let tree = linear::read(&text).unwrap();
            assert_eq!((linear::write(&tree.nodes), tree.linear()), (text.clone(), text), "{app}/{name}");
            let compressed = compressor.compress(&tree, before.as_ref(), "");
            check_fates(&tree, &compressed);
            audits.insert(name, compressed.audit(app, &tree).collect());
            before = Some(compressed.seen);
            screens += 1;
        }
        for line in std::fs::read_to_string(folder.join("steps.jsonl")).unwrap().lines() {
            let step: serde_json::Value = serde_json::from_str(line).unwrap();
            let control = &step["action"]["control"];
            let (Some(name), Some(rows)) =
                (control["name"].as_str(), step["before"].as_str().and_then(|b| audits.get(b)))
            else {
                continue;
            };
            let bbox = step["action"]["bbox"].as_array().into_iter().flatten();
            let sides: Vec<i32> =
                bbox.filter_map(serde_json::Value::as_i64).map(|side| side as i32).collect();
            let is_target = |row: &&AuditRow| {
                let rect = [row.x, row.y, row.width, row.height];
                row.label.trim() == name.trim() && rect.iter().flatten().eq(sides.iter())
            };
            let named =
                format!("{app}/{}: {} {name}", step["step"], control["role"].as_str().unwrap_or_default());
            let found: Vec<&AuditRow> = rows.iter().filter(is_target).collect();
            targets += 1;
            if found.is_empty() {
                absent.push(named);
                continue;
            }
            let target = Rect { x: sides[0], y: sides[1], width: sides[2], height: sides[3] };
            let is_there = |row: &&AuditRow| {
                let row = survivor(rows, row);
                let side = |side: Option<i32>| side.unwrap_or(i32::MIN);
                let rect =
                    Rect { x: side(row.x), y: side(row.y), width: side(row.width), height: side(row.height) };
                row.fate != "dropped" && target.contains(rect.centre())
            };
            if !found.iter().any(is_there) {
                lost.push(named);
            }
        }
    }
    assert!(screens >= 100 && targets >= 30, "{screens} screens, {targets} targets");
    // The linear form itself has no page tabs; read from the dumps they are there.
    assert!(absent.iter().all(|target| target.contains("page tab")) && absent.len() <= 5, "{absent:?}");
    assert_eq!(lost, Vec::<String>::new(), "{targets} targets");
}
