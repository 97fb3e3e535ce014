use bonfire_learn::{ModelSpec, Shape};
use rayon::ThreadPoolBuilder;
use serde_json::json;

use super::*;
use crate::among::{Gone, among};
use crate::peers::Early;

const IMAGES: Shape = Shape::Images { height: 8, width: 8, channels: 1, classes: 10 };

/// The layout of a model: linear layers of 64×48 and 48×10.
fn linear() -> Layout {
    layout(json!({ "mlp": { "hidden": [48] } }), &IMAGES)
}

/// With an embedding.
fn tagger() -> Layout {
    layout(json!({ "tagger": {} }), &Shape::Tagging { words: 300, tags: 7 })
}

/// With convolutions and statistics.
fn resnet() -> Layout {
    layout(json!({ "resnet20": {} }), &Shape::Images { height: 32, width: 32, channels: 3, classes: 10 })
}

fn layout(model: serde_json::Value, shape: &Shape) -> Layout {
    let model: ModelSpec = serde_json::from_value(model).expect("a model");
    model.build(shape).expect("a model").layout().clone()
}

fn pool(threads: usize) -> ThreadPool {
    ThreadPoolBuilder::new().num_threads(threads).build().expect("threads")
}

/// What a member has found in a round: some rows of a table, and all of everything else. Now and then nothing at all.
fn gradient(layout: &Layout, member: usize, round: u64) -> Gradient {
    let mut random = Random::at(round, &[member as u64]);
    let mut gradient = Gradient::new(layout);
    gradient.values.fill(f32::NAN);
    gradient.weight = random.below(4) as f64;
    for (i, tensor) in layout.tensors().iter().enumerate() {
        let value = |to: &mut f32| *to = random.between(-1.0, 1.0);
        match tensor.kind {
            TensorKind::Rows { width } => {
                let rows = (tensor.range.len() / width) as u32;
                let first = (member as u32 + round as u32) % 5;
                (first..rows).step_by(5).for_each(|row| gradient.touch(i, row).fill(row as f32 + 0.5));
            }
            TensorKind::Dense | TensorKind::Buffer => gradient.write(i).iter_mut().for_each(value),
        }
    }
    gradient.finish();
    gradient
}

/// The sum of what two members have, or of one, by a way of summing, in several rounds.
fn rounds(
    layout: &Layout,
    (members, rank, count): (usize, usize, u64),
    own: impl Fn(usize, u64) -> Gradient + Sync,
    is_exact: impl Fn(u64) -> bool + Sync,
) -> Vec<Vec<Gradient>> {
    among(members, |peers| {
        let pool = pool(1 + peers.index % 3);
        let mut sums = LowRankSums::new(layout, rank, 5);
        sums.share_out(&vec![1.0; members]);
        let sum = |round: u64| {
            (peers.round, peers.step) = (round, 0);
            let mut gradient = own(peers.index, round);
            sums.sum(peers, &mut gradient, is_exact(round), &pool).expect("a sum");
            gradient
        };
        (1..=count).map(sum).collect()
    })
}

/// The sum of all, added up as one process does.
fn whole_sum(layout: &Layout, members: usize, own: impl Fn(usize) -> Gradient) -> Gradient {
    let all: Vec<Gradient> = (0..members).map(own).collect();
    let mut sum = Gradient::new(layout);
    bonfire_learn::sum::sum(layout, &all, &mut sum);
    sum
}

/// The bits of some tensors; of tables those of touched rows.
fn bits(layout: &Layout, gradient: &Gradient, wanted: impl Fn(usize) -> bool) -> Vec<u32> {
    let mut bits = vec![gradient.weight as u32];
    for i in (0..layout.tensors().len()).filter(|tensor| wanted(*tensor)) {
        let values = gradient.tensor_values(i);
        match gradient.rows(i) {
            None => bits.extend(values.iter().map(|value| value.to_bits())),
            Some(rows) => {
                let mut touched = rows.touched.clone();
                touched.sort_unstable();
                for row in touched {
                    let start = row as usize * rows.width;
                    bits.push(row);
                    bits.extend(values[start..start + rows.width].iter().map(|value| value.to_bits()));
                }
            }
        }
    }
    bits
}

/// How far a vector is from another, beside its length.
fn distance(found: &[f32], expect: &[f32]) -> f64 {
    let square = |values: &mut dyn Iterator<Item = f64>| values.map(|value| value * value).sum::<f64>();
    let difference = &mut found.iter().zip(expect).map(|(a, b)| f64::from(*a) - f64::from(*b));
    (square(difference) / square(&mut expect.iter().map(|value| f64::from(*value)))).sqrt()
}

#[test]
fn members_are_equal_after_every_round_and_what_is_no_matrix_is_exact() {
    for (layout, members) in [(linear(), 1), (tagger(), 3), (resnet(), 4)] {
        let own = |member: usize, round: u64| gradient(&layout, member, round);
        let exact = 6;
        let ends = rounds(&layout, (members, 2, 8), own, |round| round == exact);
        let matrices = LowRankSums::new(&layout, 2, 5).matrices;
        let is_whole = |tensor: usize| !matrices.iter().any(|matrix| matrix.tensor == tensor);
        assert!(matrices.len() > 1, "the models have matrices");
        for round in 1..=8 {
            let found = |member: usize| &ends[member][round as usize - 1];
            let expect = whole_sum(&layout, members, |member| own(member, round));
            assert_eq!(bits(&layout, found(0), is_whole), bits(&layout, &expect, is_whole), "round {round}");
            for member in 1..members {
                let all = |found: &Gradient| bits(&layout, found, |_| true);
                assert!(all(found(member)) == all(found(0)), "member {member} of {members}, round {round}");
            }
        }
    }
}

#[test]
fn a_gradient_of_low_rank_is_summed_to_float_accuracy() {
    let layout = linear();
    let own = |member: usize, round: u64| {
        let mut gradient = gradient(&layout, member, round);
        gradient.weight = 1.0;
        for (i, tensor) in layout.tensors().iter().enumerate().filter(|(_, tensor)| tensor.shape.len() == 2) {
            let columns = tensor.shape[0];
            let (rows, outputs) = (gradient.tensor_values(i).to_vec(), columns);
            for (row, values) in gradient.write(i).chunks_mut(columns).enumerate() {
                values.iter_mut().enumerate().for_each(|(j, value)| *value = rows[row] * rows[outputs + j]);
            }
        }
        gradient
    };
    // Two members with one direction each, in factors of rank 4: two of them have nothing to do.
    let ends = rounds(&layout, (2, 4, 5), own, |_| false);
    for round in 1..=5 {
        let expect = whole_sum(&layout, 2, |member| own(member, round));
        let away = distance(&ends[0][round as usize - 1].values, &expect.values);
        assert!(away < 1e-5, "{away} in round {round}");
    }
}

#[test]
fn what_was_lost_comes_later() {
    let layout = linear();
    let own = |member: usize, _: u64| {
        let mut gradient = gradient(&layout, member, 1);
        gradient.weight = 1.0;
        gradient
    };
    let count = 100;
    let ends = rounds(&layout, (3, 2, count), own, |round| round == count);
    let once = whole_sum(&layout, 3, |member| own(member, 1)).values;
    let mut so_far = vec![0.0; layout.len()];
    let mut away = Vec::new();
    for (round, sum) in ends[0].iter().enumerate() {
        so_far.iter_mut().zip(&sum.values).for_each(|(so_far, value)| *so_far += value);
        let expect: Vec<f32> = once.iter().map(|value| value * (round + 1) as f32).collect();
        away.push(distance(&so_far, &expect));
    }
    assert!(away[0] > 0.5, "one round of rank 2 has lost most of it: {}", away[0]);
    assert!(away[49] < 0.3 && away[98] < 0.6 * away[49], "{} and {}", away[49], away[98]);
    assert!(away[99] < 1e-5, "after an exact round nothing is missing: {}", away[99]);
}

#[test]
fn an_exact_round_leaves_nothing_behind() {
    let layout = tagger();
    let own = |member: usize, round: u64| gradient(&layout, member, round);
    let long = rounds(&layout, (3, 2, 6), own, |round| round == 3);
    let late = rounds(&layout, (3, 2, 3), |member, round| own(member, round + 3), |_| false);
    for (long, late) in long[0][3..].iter().zip(&late[0]) {
        assert!(bits(&layout, long, |_| true) == bits(&layout, late, |_| true), "as if it had begun there");
    }
}

#[test]
fn a_round_that_breaks_off_changes_nothing() {
    let layout = linear();
    among(2, |peers| {
        let mut sums = LowRankSums::new(&layout, 2, 5);
        sums.share_out(&[1.0, 1.0]);
        let pool = pool(1);
        let mut round = |sums: &mut LowRankSums, round: u64, exact: bool, most: usize| {
            let (mut came, mut first) = (0, 0);
            let mut receive = |wait| {
                if came == most {
                    return Err(Gone);
                }
                let next = (peers.receive)(wait)?;
                // Not what is left of rounds before.
                let step = next
                    .as_ref()
                    .filter(|(_, piece, _)| piece.round == round)
                    .map(|(_, piece, _)| piece.step);
                came += usize::from(step.is_some());
                first += usize::from(step.is_some_and(|step| step < 2));
                Ok(next)
            };
            let mut peers = Peers {
                index: peers.index,
                links: peers.links,
                servers: &[],
                receive: &mut receive,
                early: &mut Early::new(),
                generation: round,
                round,
                step: 0,
            };
            let mut own = gradient(&layout, peers.index, round);
            own.weight = 1.0;
            let summed = sums.sum(&mut peers, &mut own, exact, &pool);
            (summed.is_ok(), first)
        };
        let (is_done, first) = round(&mut sums, 1, false, usize::MAX);
        assert!(is_done && first > 0);
        let before = (sums.lost.clone(), sums.directions.clone());
        assert!(before.0.iter().any(|lost| *lost != 0.0) && before.1 != sums.initial);
        // In the first exchange, in the second, and in an exact round.
        for (number, most, exact) in [(2, 0, false), (3, first, false), (4, 0, true)] {
            assert!(!round(&mut sums, number, exact, most).0);
            assert!((sums.lost.clone(), sums.directions.clone()) == before, "round {number}");
        }
        assert!(round(&mut sums, 5, false, usize::MAX).0, "and the next one is a round like others");
    });
}

#[test]
fn only_tensors_that_become_much_smaller_are_factored() {
    let layout = linear();
    let factored = |rank: usize| {
        let sums = LowRankSums::new(&layout, rank, 1);
        let sizes =
            |matrix: &FactoredTensor| (matrix.values.len() / matrix.sizes.columns, matrix.sizes.columns);
        sums.matrices.iter().map(sizes).collect::<Vec<_>>()
    };
    assert_eq!(factored(1), [(64, 48), (48, 10)]);
    assert_eq!(factored(4), [(64, 48), (48, 10)]);
    assert_eq!(factored(5), [(64, 48)]);
    assert_eq!(factored(14), []);
}
