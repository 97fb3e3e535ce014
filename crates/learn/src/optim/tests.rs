//! What follows a sum has the same bits on every processor: so the members of a group stay equal, of whatever kind they
//! are. The numbers below are the same for every instruction set and architecture.

use super::*;
use crate::layout::Init;
use crate::random::Random;
use crate::{Gradient, Layout};

/// The parameters after some steps, each by gradients of three workers and clipped, as one number.
fn after_steps(optimizer: &str) -> u64 {
    let mut layout = Layout::default();
    let table = layout.rows("words".into(), 40, 7, Init::Uniform(0.5)).tensor;
    let dense = layout.matrix("weights".into(), 77, 501, Init::Uniform(0.1)).tensor;
    let spec = serde_json::from_str(optimizer).expect("an optimiser");
    let (mut parameters, mut optimizer) = (layout.initial(1), Optimizer::new(spec, &layout));
    for step in 0..12 {
        let gradient = |worker: u64| {
            let (mut random, mut gradient) = (Random::at(step, &[worker]), Gradient::new(&layout));
            gradient.write(dense).fill_with(|| random.between(-0.01, 0.01));
            for row in [step as u32, 20 + worker as u32] {
                gradient.touch(table, row).fill_with(|| random.between(-1.0, 1.0));
            }
            gradient.weight = 10.0 + worker as f64;
            gradient
        };
        optimizer.step(&mut parameters, &[0, 1, 2].map(gradient), 0.003, Some(0.02));
    }
    let bits = parameters.iter().map(|value| u64::from(value.to_bits()));
    bits.fold(0xCBF2_9CE4_8422_2325, |hash, bits| (hash ^ bits).wrapping_mul(0x0100_0000_01B3))
}

#[test]
fn every_processor_makes_the_same_update_of_the_same_gradients() {
    let check = |optimizer: &str, expect: u64| {
        assert_eq!(after_steps(optimizer), expect, "{optimizer}");
    };
    check(r#"{"sgd": {"weight_decay": 0.01}}"#, 0xAC2B_DF4F_1CB9_AC12);
    check(r#"{"sgd": {"momentum": 0.9, "nesterov": true}}"#, 0x0F05_4A17_AB1B_17A6);
    check(r#"{"adam": {"weight_decay": 0.01}}"#, 0x3189_CD06_C26A_1A44);
    check(r#"{"adamw": {"weight_decay": 0.01, "rows": "touched"}}"#, 0x3F37_6DE4_5800_6FE4);
    check(r#"{"rmsprop": {"momentum": 0.9}}"#, 0x9C31_16FD_A713_0EFD);
    check(r#"{"adagrad": {"lr_decay": 0.01}}"#, 0x128B_9123_0671_9329);
    check(r#"{"nadam": {}}"#, 0x93BE_7A4D_FEDB_D63D);
}

/// How many steps after a row was touched for the last time it still moves; none if it does in the end.
fn steps_moving(spec: &OptimizerSpec) -> Option<u32> {
    let mut layout = Layout::default();
    let table = layout.rows("words".into(), 2, 8, Init::Uniform(0.5)).tensor;
    let (mut parameters, mut optimizer) = (layout.initial(1), Optimizer::new(spec.clone(), &layout));
    let mut random = Random::new(7);
    let mut last = None;
    for step in 0..2000 {
        let mut gradient = Gradient::new(&layout);
        gradient.touch(table, 1).fill(0.1);
        if step < 20 {
            gradient.touch(table, 0).fill_with(|| random.between(-1.0, 1.0));
        }
        gradient.weight = 1.0;
        let before = parameters[..8].to_vec();
        optimizer.step(&mut parameters, &[gradient], spec.lr(), None);
        if parameters[..8] != before[..] {
            last = Some(step - 19);
        }
    }
    last.filter(|last| *last < 1900)
}

#[test]
fn rows_move_for_as_long_as_momentum_lasts() {
    let check = |optimizer: &str, is_ever: bool| {
        let spec: OptimizerSpec = serde_json::from_str(optimizer).expect("an optimiser");
        let (found, said) = (steps_moving(&spec), spec.steps_of_momentum());
        assert_eq!((found.is_none(), said.is_none()), (is_ever, is_ever), "{optimizer}: {found:?} {said:?}");
        let (Some(found), Some(said)) = (found, said) else { return };
        assert!(found.abs_diff(said) <= 2 + said / 3, "{optimizer}: {found}, said to be {said}");
    };
    check(r#"{"sgd": {}}"#, false);
    check(r#"{"sgd": {"momentum": 0.9}}"#, false);
    check(r#"{"adam": {}}"#, false);
    check(r#"{"adam": {"rows": "touched"}}"#, false);
    check(r#"{"adam": {"weight_decay": 0.01}}"#, true);
    check(r#"{"rmsprop": {"momentum": 0.8}}"#, false);
    check(r#"{"adagrad": {}}"#, false);
    check(r#"{"nadam": {}}"#, false);
}
