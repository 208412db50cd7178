use proptest::prelude::*;

use super::*;

fn of(rewards: &[Option<f64>], settings: AdvantageSettings) -> GroupAdvantages {
    group_advantages(rewards, &settings).unwrap()
}

fn with(std: StdRule, single: SingleRule) -> AdvantageSettings {
    AdvantageSettings { std: Some(std), single, ..AdvantageSettings::default() }
}

#[test]
fn a_sample_without_a_reward_leaves_the_group() {
    let found = of(&[Some(1.0), None, Some(0.0)], AdvantageSettings::default());
    let alone = of(&[Some(1.0), Some(0.0)], AdvantageSettings::default());
    assert_eq!(found.advantages, [alone.advantages[0], None, alone.advantages[1]]);
    assert_eq!((found.scored, found.mean, found.dead), (2, 0.5, false));
    assert!((found.std - 0.5_f64.sqrt()).abs() < 1e-12);
}

/// In f32 verl gives each of three rewards of 0.9 an advantage of 0.056: rounding over eps.
#[test]
fn equal_rewards_are_dead_to_the_last_bit() {
    for reward in [0.9, 0.1, 0.7, -1e9, 0.0] {
        for std in [StdRule::Group, StdRule::Batch, StdRule::None] {
            let found = of(&[Some(reward); 7], with(std, SingleRule::Raw));
            assert_eq!(found.advantages, [Some(0.0); 7]);
            assert!(found.dead);
        }
    }
}

#[test]
fn a_group_of_one_or_none_is_dead_unless_raw() {
    let one = [None, Some(0.7), None];
    let zero = of(&one, AdvantageSettings::default());
    assert_eq!((zero.advantages, zero.dead, zero.std), (vec![None, Some(0.0), None], true, 0.0));
    let raw = of(&one, with(StdRule::Group, SingleRule::Raw));
    assert_eq!((raw.advantages[1], raw.dead), (Some(0.7 / (1.0 + 1e-6)), false));
    assert_eq!(of(&one, with(StdRule::None, SingleRule::Raw)).advantages[1], Some(0.7));
    for rewards in [&[None, None][..], &[]] {
        let found = of(rewards, with(StdRule::Group, SingleRule::Raw));
        assert_eq!((found.scored, found.mean, found.std, found.dead), (0, 0.0, 0.0, true));
        assert!(found.advantages.iter().all(Option::is_none));
    }
}

#[test]
fn the_batch_rule_divides_all_groups_by_one_deviation() {
    let groups = [vec![Some(1.0), Some(0.0)], vec![Some(5.0), None, Some(5.0)], vec![]];
    let found = batch_advantages(&groups, &with(StdRule::Batch, SingleRule::Zero)).unwrap();
    let std = 2.629_955_639_676_583_7; // of 1, 0, 5, 5
    assert!(found.iter().all(|g| (g.std - std).abs() < 1e-12));
    assert!((found[0].advantages[0].unwrap() - 0.5 / (std + 1e-6)).abs() < 1e-12);
    assert_eq!(found.iter().map(|g| g.dead).collect::<Vec<_>>(), [false, true, true]);
    let population = AdvantageSettings { ddof: 0, ..with(StdRule::Batch, SingleRule::Zero) };
    let found = batch_advantages(&groups, &population).unwrap();
    assert!((found[0].std - std * 0.75_f64.sqrt()).abs() < 1e-12);
}

#[test]
fn a_reward_that_is_no_number_is_named() {
    let groups = [vec![Some(1.0), None], vec![Some(0.0), Some(f64::NAN)]];
    let error = batch_advantages(&groups, &AdvantageSettings::default()).unwrap_err();
    assert!(error.to_string().starts_with("rewards[3] is NaN"), "{error}");
}

proptest! {
    #[test]
    fn they_are_centred_and_scaled(rewards in prop::collection::vec(prop::option::of(-3.0..3.0), 0..9)) {
        let found = of(&rewards, AdvantageSettings::default());
        let values: Vec<f64> = found.advantages.iter().flatten().copied().collect();
        prop_assert_eq!(values.len(), rewards.iter().flatten().count());
        prop_assert!(values.iter().sum::<f64>().abs() < 1e-6);
        prop_assert_eq!(found.dead, values.iter().all(|a| *a == 0.0));
        if values.len() > 1 && found.std > 0.01 {
            let variance = values.iter().map(|a| a * a).sum::<f64>() / (values.len() - 1) as f64;
            prop_assert!((variance - 1.0).abs() < 1e-3);
        }
        let shifted: Vec<_> = rewards.iter().map(|r| r.map(|r| 2.0 * r + 1.0)).collect();
        let without_eps = AdvantageSettings { eps: 0.0, ..AdvantageSettings::default() };
        let (a, b) = (of(&rewards, without_eps), of(&shifted, without_eps));
        for (a, b) in a.advantages.iter().flatten().zip(b.advantages.iter().flatten()) {
            prop_assert!(a.is_finite() && (a - b).abs() < 1e-6);
        }
    }
}
