//! Everything that this crate makes of what peers send, under damaged input: each is taken or refused, and none takes
//! the program down or more memory than the run's layout allows.

use std::sync::Arc;

use bonfire_learn::layout::Init;
use bonfire_learn::{Gradient, Layout, OptimizerSpec};
use bonfire_run::replica::Replica;
use bonfire_spoil::{Chance, Trial};
use bonfire_wire::{Incoming, Outbox, memory_link, proto};
use bytes::Bytes;

use crate::bytes_to_floats;
use crate::chunks::Chunks;
use crate::codec::{ChunkEncoder, Coding, Parcel};
use crate::collector::Collector;
use crate::parameters::{ParameterEncoder, put_parameters};
use crate::state::{Intake, piece_of};

/// A table of 40 rows of 3, a dense tensor of 9 and a statistic of 2.
pub(crate) fn layout() -> Layout {
    let mut layout = Layout::default();
    layout.rows("table".into(), 40, 3, Init::Uniform(1.0));
    layout.vector("dense".into(), 9, Init::Uniform(1.0));
    layout.buffer("mean".into(), 2, Init::Constant(0.0));
    layout
}

/// A gradient that touches some rows.
pub(crate) fn gradient(chance: &mut Chance) -> Gradient {
    let mut gradient = Gradient::new(&layout());
    gradient.weight = 1.0 + chance.below(8) as f64;
    for row in 0..40 {
        if chance.percent(30) {
            gradient.touch(0, row).fill(chance.below(9) as f32);
        }
    }
    gradient.write(1).fill(0.5);
    gradient.write(2).fill(0.25);
    gradient.finish();
    gradient
}

/// Memory for some vectors of the layout and a little: lists of parts, and errors in words with the way they came.
fn vectors(count: usize) -> usize {
    count * layout().len() * 4 + (16 << 10)
}

#[test]
fn no_state_takes_a_replica_down() {
    let from = Replica::new(&layout(), adam(), 1);
    let wanted = proto::StateWanted { round: 3, offset: 0, parameters_only: false };
    let good = piece_of(&from, 3, &wanted);
    let make = |chance: &mut Chance| {
        let bytes = if chance.percent(60) { chance.spoil(&good.1) } else { good.1.to_vec() };
        let moments = if chance.percent(50) { good.0.moments } else { chance.number() as u32 };
        let round = if chance.percent(50) { 3 } else { chance.number() };
        let offset = if chance.percent(80) { 0 } else { chance.number() };
        ((proto::State { round, steps: chance.number(), moments, offset }, bytes), vectors(2))
    };
    let mut replica = Replica::new(&layout(), adam(), 1);
    Trial { name: "states", cases: 40_000 }.run(make, |(state, bytes)| {
        let before = replica.digest();
        let mut intake = Intake::new(&replica, 3, false);
        intake.wanted();
        let taken = intake.take(&mut replica, &state, &bytes).is_ok() && intake.is_whole();
        assert!(taken || replica.digest() == before, "what does not fit changes nothing");
        assert_eq!(bytes_to_floats(&bytes, &mut [0.0; 5]).is_ok(), bytes.len() == 20);
        taken
    });
}

fn adam() -> OptimizerSpec {
    serde_json::from_str(r#"{"adam": {}}"#).expect("an optimiser")
}

/// A gradient on its way as one chunk: all that the layout takes.
fn parcel(coding: Coding, chance: &mut Chance) -> Parcel {
    ChunkEncoder::new(&Arc::new(Chunks::of(&layout())), coding).encode(&gradient(chance), 0, false)
}

#[test]
fn no_gradient_takes_a_head_down() {
    let codings = [
        ("gradients", Coding::PLAIN),
        ("halves", Coding::F16),
        ("bytes", Coding::INT8),
        ("packed", Coding::Packed),
        ("few", Coding::Largest(0.1)),
    ];
    for (name, coding) in codings {
        let goods: Vec<Parcel> = (0..8).map(|seed| parcel(coding, &mut Chance::new(name, seed))).collect();
        let make = |chance: &mut Chance| {
            let good = chance.pick(&goods).clone();
            let weight = if chance.percent(80) { good.weight } else { chance.float() };
            let piece = proto::Piece {
                generation: chance.below(3) as u64,
                round: 7,
                index: if chance.percent(90) { 0 } else { chance.number() as u32 },
                weight,
                plain: good.is_plain ^ chance.percent(5),
                ..proto::Piece::default()
            };
            ((piece, Bytes::from(chance.spoil(&good.payload)), weight), vectors(6))
        };
        let mut total = Gradient::new(&layout());
        let mut collector = Collector::new(&layout(), coding);
        Trial { name, cases: 20_000 }.run(make, |(piece, payload, weight)| {
            let is_taken = collector.take(1, &piece, payload).is_ok();
            let is_whole = is_taken && collector.check((1, 7), weight).is_ok();
            if is_whole {
                collector.sum_ahead(&[(1, 7)], 0, false);
                collector.finish(&[(1, 7)], false);
            }
            collector.take(1, &piece, goods[0].payload.clone()).unwrap_or_default();
            assert!(collector.accumulate((1, 7), &mut total).is_ok(), "what was taken can be added");
            total.clear();
            is_whole
        });
    }
}

#[test]
fn no_changes_take_a_worker_down() {
    let mut encoder = ParameterEncoder::new(&layout());
    let good = encoder.changes(&layout().initial(1), &[(0, &[3, 7, 30])]).swap_remove(0);
    let (chunks, mut parameters) = (Chunks::of(&layout()), layout().initial(2));
    let make = |chance: &mut Chance| {
        let payload = Bytes::from(chance.spoil(&good.payload));
        (Parcel { payload, is_plain: chance.percent(10), weight: 0.0 }, vectors(0))
    };
    Trial { name: "changes", cases: 40_000 }
        .run(make, |parcel| put_parameters(&chunks[0], &parcel, &mut parameters).is_ok());
}

/// A link whose other side hears everything and says nothing.
pub(crate) fn outbox() -> (Outbox, Outbox) {
    memory_link(Box::new(|_: Incoming| ()), Box::new(|_: Incoming| ()))
}
