use std::sync::Arc;

use bonfire_learn::OptimizerSpec;
use bonfire_learn::layout::Init;

use super::*;
use crate::codec::ChunkEncoder;
use crate::state::{PIECE, piece_of};

fn layout() -> Layout {
    let mut layout = Layout::default();
    layout.vector("first".into(), PIECE + 100, Init::Uniform(1.0));
    layout.rows("table".into(), 1000, 90, Init::Uniform(1.0));
    layout.buffer("mean".into(), 50, Init::Constant(0.0));
    layout
}

/// The sum that makes a version.
fn sum(layout: &Layout, version: u64) -> Gradient {
    let mut sum = Gradient::new(layout);
    let value = |i: usize| ((i as u64 * 31 + version * 17) % 101) as f32 - 50.0;
    sum.write(0).iter_mut().enumerate().for_each(|(i, to)| *to = value(i));
    for row in (version as u32 % 7..1000).step_by(7) {
        sum.touch(1, row).iter_mut().enumerate().for_each(|(i, to)| *to = value(i + row as usize));
    }
    sum.write(2).iter_mut().enumerate().for_each(|(i, to)| *to = value(i));
    sum.weight = 32.0;
    sum.finish();
    sum
}

/// Sends an update to a member.
fn send(layout: &Layout, version: u64, attempt: u64, updates: &mut Updates) {
    let mut encoder = ChunkEncoder::new(&Arc::new(Chunks::of(layout)), crate::codec::Coding::PLAIN);
    for index in 0..encoder.chunks().count() {
        let Parcel { payload, is_plain: plain, weight } =
            encoder.encode(&sum(layout, version + attempt), index, false);
        let (step, index) = (step::SUM, index as u32);
        let piece = proto::Piece { generation: attempt, round: version, step, index, weight, plain };
        updates.piece(&piece, payload).expect("a chunk");
    }
}

fn go(version: u64) -> proto::Go {
    let mut go = proto::Go { version, lr: 0.1, weight: 32.0, ..proto::Go::default() };
    go.set_news(proto::News::Update);
    go
}

#[test]
fn a_state_that_comes_in_pieces_while_others_go_on_is_that_of_the_others() {
    let layout = layout();
    let new = |seed| Replica::new(&layout, OptimizerSpec::default(), seed);
    let (mut server, mut member) = (new(1), new(2));
    let mut updates = Updates::new(&layout, Some(1.0));
    let step = |server: &mut Replica, version: u64| {
        server.step(&[sum(&layout, version)], StepSize { lr: 0.1, clip: Some(1.0) });
    };
    (1..4).for_each(|version| step(&mut server, version));
    let mut wanted = updates.take_state(&member);
    let mut version = 3;
    while !wanted.is_empty() {
        // An update before every piece.
        version += 1;
        step(&mut server, version);
        send(&layout, version, 0, &mut updates);
        updates.apply(&mut member, &go(version)).expect("an update");
        let (state, payload) = piece_of(&server, version, &wanted.remove(0));
        wanted.extend(updates.state(&mut member, &state, &payload).expect("a piece").into_iter().flatten());
    }
    assert_eq!(member.digest(), server.digest());
    step(&mut server, version + 1);
    send(&layout, version + 1, 0, &mut updates);
    updates.apply(&mut member, &go(version + 1)).expect("an update");
    assert_eq!(member.digest(), server.digest(), "its moments are those of the server, too");
}

#[test]
fn another_attempt_takes_the_place_of_the_one_before() {
    let layout = layout();
    let (mut one, mut other) = (
        Replica::new(&layout, OptimizerSpec::default(), 1),
        Replica::new(&layout, OptimizerSpec::default(), 1),
    );
    let mut updates = Updates::new(&layout, None);
    send(&layout, 1, 0, &mut updates);
    send(&layout, 1, 1, &mut updates);
    updates.apply(&mut one, &go(1)).expect("an update");
    other.step(&[sum(&layout, 2)], StepSize { lr: 0.1, clip: None });
    assert_eq!(one.digest(), other.digest(), "rows of the first attempt do not count");
    assert!(updates.apply(&mut one, &go(2)).is_err(), "an update of which nothing came");
}
