use super::*;

fn lesson(id: &str, kind: LessonKind, domain: &str) -> Lesson {
    Lesson {
        lesson_id: id.to_owned(),
        kind,
        domain: domain.to_owned(),
        condition: String::new(),
        actions: Vec::new(),
        expected: String::new(),
        text: format!("text of {id}"),
        episode_id: format!("e-{id}"),
        evidence_steps: vec![1, 2],
        made_by: "test@1".to_owned(),
    }
}

/// A vector of length 1 whose cosine with `[1, 0]` is exactly `cosine`.
fn at(cosine: f32) -> Vec<f32> {
    vec![cosine, (1.0 - cosine * cosine).sqrt()]
}

fn below(value: f32) -> f32 {
    f32::from_bits(value.to_bits() - 1)
}

const SETTINGS: StoreSettings = StoreSettings { dedupe: 0.7, threshold: 0.5, top: 5 };

fn ids(index: &LessonIndex) -> Vec<&str> {
    index.entries().iter().map(|(l, _)| l.lesson_id.as_str()).collect()
}

#[test]
fn a_lesson_replaces_from_the_threshold_on() {
    for (cosine, replaces) in [(0.7, true), (below(0.7), false)] {
        let mut index = LessonIndex::default();
        index.file(lesson("old", LessonKind::Failure, "d"), at(1.0), SETTINGS);
        let filed = index.file(lesson("new", LessonKind::Failure, "d"), at(cosine), SETTINGS);
        if replaces {
            let Filed::Replacing(replaced) = filed else { panic!("{cosine} replaces") };
            let [one] = replaced.as_slice() else { panic!("one is replaced") };
            assert_eq!((one.lesson_id.as_str(), one.replaced_by.as_str(), one.cosine), ("old", "new", 0.7));
            assert_eq!((one.episode_id.as_str(), one.evidence_steps.as_slice()), ("e-old", &[1, 2][..]));
            assert_eq!(ids(&index), ["new"]);
        } else {
            assert_eq!(filed, Filed::New);
            assert_eq!(ids(&index), ["old", "new"]);
        }
    }
}

#[test]
fn only_its_kind_and_domain_are_replaced_and_never_requirements() {
    let mut index = LessonIndex::default();
    for (id, kind, domain) in [
        ("a", LessonKind::Failure, "d"),
        ("b", LessonKind::Success, "d"),
        ("c", LessonKind::Failure, "other"),
        ("r", LessonKind::Require, "d"),
        ("s", LessonKind::Require, "d"),
    ] {
        assert_eq!(index.file(lesson(id, kind, domain), at(1.0), SETTINGS), Filed::New, "{id}");
    }
    index.file(lesson("n", LessonKind::Failure, "d"), at(1.0), SETTINGS);
    assert_eq!(ids(&index), ["b", "c", "r", "s", "n"]);
}

#[test]
fn every_older_one_that_is_near_is_replaced_and_told() {
    let mut index = LessonIndex::default();
    index.file(lesson("far", LessonKind::Success, "d"), at(0.8), SETTINGS);
    // Apart from each other, both near to the third.
    index.file(lesson("near", LessonKind::Success, "d"), vec![0.8, -(1.0f32 - 0.64).sqrt()], SETTINGS);
    assert_eq!(ids(&index), ["far", "near"]);
    let Filed::Replacing(replaced) = index.file(lesson("new", LessonKind::Success, "d"), at(1.0), SETTINGS)
    else {
        panic!("both are replaced")
    };
    assert_eq!(
        replaced.iter().map(|r| r.lesson_id.as_str()).collect::<Vec<_>>(),
        ["far", "near"],
        "ties by id"
    );
}

#[test]
fn retrieval_begins_at_its_threshold_and_ends_at_five() {
    let mut index = LessonIndex::default();
    index.file(lesson("on", LessonKind::Success, "d"), at(0.5), SETTINGS);
    index.file(lesson("under", LessonKind::Failure, "d"), at(below(0.5)), SETTINGS);
    index.file(lesson("elsewhere", LessonKind::Success, "x"), at(1.0), SETTINGS);
    for id in ["r1", "r2"] {
        index.file(lesson(id, LessonKind::Require, "d"), at(0.0), SETTINGS);
    }
    index.file(lesson("all", LessonKind::Require, ""), at(0.0), SETTINGS);
    let found = index.retrieve(&at(1.0), Some("D"), SETTINGS);
    assert_eq!(found.hits.iter().map(|h| h.lesson.lesson_id.as_str()).collect::<Vec<_>>(), ["on"]);
    assert_eq!(found.required.len(), 3, "whatever their cosine");
    let keep = StoreSettings { dedupe: 2.0, ..SETTINGS };
    for i in 0..9 {
        index.file(lesson(&format!("m{i}"), LessonKind::Success, "d"), at(0.9), keep);
    }
    let found = index.retrieve(&at(1.0), Some("d"), keep);
    assert_eq!((found.hits.len(), found.required.len()), (5, 3), "requirements use up no place");
    assert_eq!(found.hits[0].lesson.lesson_id, "m0");
}

#[test]
fn a_synthesis_has_five_bullets_and_requirements_come_first() {
    let hit = |id: &str, kind| LessonHit { lesson: lesson(id, kind, "d"), cosine: 0.9 };
    let mut found = Retrieved {
        required: vec![lesson("r", LessonKind::Require, "d")],
        hits: (0..4).map(|i| hit(&format!("s{i}"), LessonKind::Success)).collect(),
    };
    found.hits.push(hit("f", LessonKind::Failure));
    let bullets = synthesise(&found);
    assert_eq!(bullets, ["text of r", "text of f", "text of s0", "text of s1", "text of s2"]);
    found.required = (0..7).map(|i| lesson(&format!("r{i}"), LessonKind::Require, "")).collect();
    let bullets = synthesise(&found);
    assert_eq!(bullets.len(), 5);
    assert_eq!(bullets[4], "text of r4; text of r5; text of r6", "no requirement is lost");
    found.hits[0].lesson.text = "long ".repeat(100);
    found.required.clear();
    assert!(synthesise(&found).iter().all(|b| b.chars().count() <= 240));
    assert!(synthesise(&Retrieved::default()).is_empty());
}
