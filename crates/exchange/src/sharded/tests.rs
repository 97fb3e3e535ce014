use bonfire_learn::layout::Init;
use bonfire_learn::random::Random;
use bonfire_learn::sum::sum;
use bonfire_spoil::{Chance, Trial};
use bonfire_wire::{Outbox, proto};

use super::*;
use crate::adasum::adasum;
use crate::among::{Gone, among};
use crate::owners::parts;
use crate::peers::{Early, Gather};
use crate::spoilt::outbox;
use crate::sums::combined;

/// A table, dense tensors and a statistic, of about so many values.
fn layout(size: usize) -> Layout {
    let mut layout = Layout::default();
    layout.vector("first".into(), size / 3, Init::Uniform(1.0));
    layout.rows("table".into(), size / 30, 7, Init::Uniform(1.0));
    layout.vector("second".into(), size / 2, Init::Uniform(1.0));
    layout.buffer("mean".into(), size / 50, Init::Constant(0.0));
    layout
}

/// What a member has found in a round: about a third of the rows, or nothing at all.
fn gradient(layout: &Layout, member: usize, round: u64) -> Gradient {
    let mut random = Random::at(round, &[member as u64]);
    let mut gradient = Gradient::new(layout);
    gradient.values.fill(f32::NAN);
    gradient.weight = (1 + random.below(5)) as f64;
    let value = |random: &mut Random| random.between(-1.0, 1.0);
    gradient.write(0).iter_mut().for_each(|to| *to = value(&mut random));
    for row in 0..(layout.tensors()[1].range.len() / 7) as u32 {
        if random.chance(0.3) {
            gradient.touch(1, row).iter_mut().for_each(|to| *to = value(&mut random));
        }
    }
    gradient.write(2).iter_mut().for_each(|to| *to = value(&mut random) * 1e-3);
    gradient.write(3).iter_mut().for_each(|to| *to = value(&mut random));
    gradient.finish();
    gradient
}

/// The sums of some rounds as every member has them, the last of them exact.
fn rounds(layout: &Layout, members: usize, rounds: u64, coding: Coding) -> Vec<Vec<Gradient>> {
    among(members, |peers| {
        let mut sums = ShardedSums::new(layout, coding);
        sums.share_out(&vec![1.0; members]);
        let mut all = Vec::new();
        for round in 1..=rounds {
            (peers.round, peers.step) = (round, 0);
            let mut own = gradient(layout, peers.index, round);
            sums.sum(peers, &mut own, round == rounds).expect("a sum");
            all.push(own);
        }
        all
    })
}

/// The bits of all that counts.
fn bits(layout: &Layout, gradient: &Gradient) -> (Vec<u32>, Vec<u32>, u64) {
    let mut touched = gradient.rows(1).expect("a table").touched.clone();
    touched.sort_unstable();
    let table = layout.tensors()[1].range.clone();
    let dense = |at: &usize| !table.contains(at);
    let mut values: Vec<u32> =
        (0..layout.len()).filter(dense).map(|at| gradient.values[at].to_bits()).collect();
    for row in &touched {
        let start = table.start + *row as usize * 7;
        values.extend(gradient.values[start..start + 7].iter().map(|value| value.to_bits()));
    }
    (values, touched, gradient.weight.to_bits())
}

#[test]
fn a_sum_is_that_of_one_process() {
    for members in 1..=5 {
        for (size, coding) in [60, 3000, 100_000]
            .into_iter()
            .flat_map(|size| [Coding::PLAIN, Coding::Packed, Coding::Sparse].map(|coding| (size, coding)))
        {
            let layout = layout(size);
            let ends = rounds(&layout, members, 3, coding);
            for round in 1..=3 {
                let all: Vec<Gradient> =
                    (0..members).map(|member| gradient(&layout, member, round)).collect();
                let mut expect = Gradient::new(&layout);
                sum(&layout, &all, &mut expect);
                for end in &ends {
                    let found = &end[round as usize - 1];
                    assert_eq!(
                        bits(&layout, found),
                        bits(&layout, &expect),
                        "{members} members, {size}, {coding:?}"
                    );
                }
            }
        }
    }
}

#[test]
fn few_chunks_give_the_same_sums_and_may_be_many_again() {
    let (layout, members) = (layout(400_000), 3);
    for coding in [Coding::PLAIN, Coding::Packed, Coding::INT8] {
        let expect = rounds(&layout, members, 6, coding);
        let found = among(members, |peers| {
            let mut sums = ShardedSums::new(&layout, coding);
            let mut all = Vec::new();
            for round in 1..=6 {
                let is_few = coding != Coding::INT8 && (3..=4).contains(&round);
                match round {
                    1 => sums.share_out(&[1.0; 3]),
                    // What is lost in rounding goes by chunks: then they stay as they are.
                    3 if coding != Coding::INT8 => sums.share_out_few(&[0.7, 0.3, 0.0]),
                    5 if coding != Coding::INT8 => sums.share_out(&[1.0; 3]),
                    _ => {}
                }
                assert_eq!(sums.chunks.count() < 20, is_few, "{} chunks", sums.chunks.count());
                (peers.round, peers.step) = (round, 0);
                let mut own = gradient(&layout, peers.index, round);
                sums.sum(peers, &mut own, round == 6).expect("a sum");
                all.push(own);
            }
            sums.set_coding(Coding::INT8);
            sums.share_out_few(&[1.0; 3]);
            assert!(sums.chunks.count() > 20, "rounded values keep their chunks");
            all
        });
        for (found, expect) in found.iter().flatten().zip(expect.iter().flatten()) {
            assert_eq!(bits(&layout, found), bits(&layout, expect), "{coding:?}");
        }
    }
}

#[test]
fn who_passes_something_on_hears_that_it_is_there() {
    let is_there = std::sync::Mutex::new([false; 3]);
    among(3, |peers| {
        let index = peers.index;
        if index == 1 {
            std::thread::sleep(std::time::Duration::from_millis(100));
        }
        is_there.lock().expect("no panic")[index] = true;
        let mut when = None;
        let payload = Bytes::from(vec![index as u8; 1000]);
        peers.pass_on(payload, || when = Some(*is_there.lock().expect("no panic"))).expect("an answer");
        let when = when.expect("it was told");
        assert!(when[(index + 1) % 3], "{index} to one that was not there");
        // Who sends to one that is late waits for it; who hears from one that is late does not.
        assert_eq!(when[1], index != 2, "{index}: {when:?}");
        assert_eq!(peers.step, 1);
    });
}

/// The sums of some rounds as every member has them, with so many servers, the last round exact.
fn rounds_with_servers(
    layout: &Layout,
    (members, servers): (usize, usize),
    coding: Coding,
) -> Vec<Vec<Gradient>> {
    let mut ends = among(members + servers, |peers| {
        let serving: Vec<Outbox> = peers.links[members..].iter().flatten().cloned().collect();
        let is_server = peers.index >= members;
        let mut peers = Peers {
            index: peers.index,
            links: &peers.links[..members],
            servers: if is_server { &[] } else { &serving },
            receive: &mut *peers.receive,
            early: &mut *peers.early,
            generation: 1,
            round: 0,
            step: 0,
        };
        let mut sums = ShardedSums::new(layout, coding);
        sums.share_out(&parts(members, servers));
        let mut all = Vec::new();
        for round in 1..=4 {
            (peers.round, peers.step) = (round, 0);
            if is_server {
                sums.serve(&mut peers, round == 4).expect("sums");
                continue;
            }
            let mut own = gradient(layout, peers.index, round);
            sums.sum(&mut peers, &mut own, round == 4).expect("a sum");
            all.push(own);
        }
        all
    });
    ends.truncate(members);
    ends
}

#[test]
fn servers_sum_as_members_do() {
    for (members, servers) in [(2, 1), (3, 2), (3, 3), (4, 1)] {
        for coding in [Coding::PLAIN, Coding::Packed, Coding::INT8, Coding::Largest(0.1)] {
            let layout = layout(30_000);
            let ends = rounds_with_servers(&layout, (members, servers), coding);
            let expect = rounds(&layout, members, 4, coding);
            for (round, ends) in (0..4).map(|round| (round, ends.iter().map(move |end| &end[round]))) {
                for found in ends {
                    let expect = bits(&layout, &expect[0][round]);
                    assert!(bits(&layout, found) == expect, "{members} and {servers}, {coding:?}, {round}");
                }
            }
        }
    }
}

#[test]
fn a_gradient_that_leaves_in_parts_gives_the_same_sum() {
    for coding in [Coding::PLAIN, Coding::INT8, Coding::Packed, Coding::Largest(0.1)] {
        let layout = layout(40_000);
        let whole = rounds(&layout, 3, 4, coding);
        let in_parts = among(3, |peers| {
            let mut sums = ShardedSums::new(&layout, coding);
            sums.share_out(&[1.0; 3]);
            let mut all = Vec::new();
            for round in 1..=4 {
                (peers.round, peers.step) = (round, 0);
                let mut own = gradient(&layout, peers.index, round);
                sums.begin(peers, round == 4);
                for tensor in layout.tensors().iter().rev() {
                    // What is not settled yet is nothing that may leave.
                    let mut half = own.clone();
                    half.values[..tensor.range.start].fill(f32::NAN);
                    sums.advance(peers, &half, tensor.range.start).expect("a part");
                }
                sums.complete(peers, &mut own).expect("a sum");
                all.push(own);
            }
            all
        });
        for (a, b) in whole.iter().flatten().zip(in_parts.iter().flatten()) {
            assert_eq!(bits(&layout, a), bits(&layout, b), "{coding:?}");
        }
    }
}

#[test]
fn who_has_the_rows_that_all_touch_gets_less_of_the_rest() {
    let mut layout = Layout::default();
    layout.rows("table".into(), 80_000, 10, Init::Uniform(1.0));
    layout.vector("dense".into(), 200_000, Init::Uniform(1.0));
    let loads = among(3, |peers| {
        let mut sums = ShardedSums::new(&layout, Coding::PLAIN);
        sums.share_out(&[1.0; 3]);
        peers.round = 1;
        let mut own = Gradient::new(&layout);
        own.weight = 1.0;
        (0..3000).for_each(|row| own.touch(0, row).fill(1.0));
        own.finish();
        sums.sum(peers, &mut own, false).expect("a sum");
        let load = |member| {
            let own = (0..sums.chunks.count()).filter(|&index| sums.owners[index] == member);
            own.map(|index| sums.loads[index]).sum::<usize>()
        };
        [0, 1, 2].map(load)
    });
    assert_eq!(loads[0], loads[1], "all share out alike");
    let (least, most) = (loads[0].iter().min().expect("three"), loads[0].iter().max().expect("three"));
    assert!(*most as f64 / (*least as f64) < 1.1, "{:?}", loads[0]);
}

#[test]
fn rounded_sums_are_the_same_for_all_and_lose_nothing_in_the_end() {
    for coding in [Coding::F16, Coding::INT8, Coding::Largest(0.02)] {
        let (members, layout) = (3, layout(20_000));
        let ends = rounds(&layout, members, 12, coding);
        for end in &ends {
            for (a, b) in end.iter().zip(&ends[0]) {
                assert_eq!(bits(&layout, a), bits(&layout, b), "{coding:?}");
            }
        }
        // What every round has lost came in a later one: all rounds together have lost nothing.
        let (mut expect, mut found) = (vec![0.0f64; layout.len()], vec![0.0f64; layout.len()]);
        let add = |to: &mut [f64], from: &Gradient| {
            for (i, tensor) in layout.tensors().iter().enumerate().take(3) {
                for at in tensor.range.clone() {
                    let row = ((at - tensor.range.start) / 7) as u32;
                    if from.rows(i).is_none_or(|rows| rows.is_touched(row)) {
                        to[at] += f64::from(from.values[at]);
                    }
                }
            }
        };
        for (round, sum) in ends[0].iter().enumerate() {
            (0..members).for_each(|member| add(&mut expect, &gradient(&layout, member, round as u64 + 1)));
            add(&mut found, sum);
        }
        for (at, (expect, found)) in expect.iter().zip(&found).enumerate() {
            assert!((expect - found).abs() < 2e-5, "{coding:?}: {found} for {expect} at {at}");
        }
    }
}

#[test]
fn a_broken_exchange_leaves_what_was_lost_as_it_was() {
    let layout = layout(20_000);
    let (mut one, mut other) =
        (ShardedSums::new(&layout, Coding::INT8), ShardedSums::new(&layout, Coding::INT8));
    let (right, _there) = outbox();
    let links = [None, Some(right)];
    let run = |sums: &mut ShardedSums, round: u64| {
        sums.share_out(&[1.0, 1.0]);
        let mut own = gradient(&layout, 0, round);
        let mut peers = Peers {
            index: 0,
            links: &links,
            servers: &[],
            receive: &mut |_| Err(Gone),
            early: &mut Early::new(),
            generation: 1,
            round,
            step: 0,
        };
        assert!(sums.sum(&mut peers, &mut own, false).is_err());
    };
    run(&mut one, 1);
    run(&mut one, 2);
    let next = gradient(&layout, 0, 3);
    for index in 0..one.chunks.count() {
        let (one, other) = (one.own.encode(&next, index, false), other.own.encode(&next, index, false));
        assert_eq!(one.payload, other.payload, "chunk {index}");
    }
}

#[test]
fn who_has_nothing_to_send_in_an_exact_round_owes_nothing_after_it() {
    let layout = layout(20_000);
    among(2, |peers| {
        let mut sums = ShardedSums::new(&layout, Coding::INT8);
        sums.share_out(&[1.0, 1.0]);
        for round in 1..=3 {
            (peers.round, peers.step) = (round, 0);
            let mut own = gradient(&layout, peers.index, round);
            if round == 3 && peers.index == 1 {
                own.clear();
                own.finish();
            }
            sums.sum(peers, &mut own, round == 3).expect("a sum");
        }
        // A run that goes on from here after it was killed knows of nothing that was lost.
        let (next, mut fresh) = (gradient(&layout, 0, 4), ShardedSums::new(&layout, Coding::INT8));
        for index in 0..sums.chunks.count() {
            let (one, other) = (sums.own.encode(&next, index, false), fresh.own.encode(&next, index, false));
            assert_eq!(one.payload, other.payload, "chunk {index}");
        }
    });
}

#[test]
fn chunks_are_shared_out_by_parts() {
    let chunks = Chunks::of(&layout(1_000_000));
    let check = |parts: &[f64]| {
        let loads: Vec<usize> = chunks.iter().map(Chunk::load).collect();
        let owners = owners(&loads, parts);
        let all: f64 = parts.iter().sum();
        let total: usize = chunks.iter().map(|chunk| chunk.load()).sum();
        for (member, part) in parts.iter().enumerate() {
            let own = |(chunk, owner): (&Chunk, &usize)| match *owner == member {
                true => chunk.load(),
                false => 0,
            };
            let own: usize = chunks.iter().zip(&owners).map(own).sum();
            let share = own as f64 / total as f64;
            assert!((share - part / all).abs() < 0.03, "{parts:?}: member {member} has {share}");
        }
    };
    check(&[1.0]);
    check(&[1.0; 7]);
    check(&[1.0, 0.0, 3.0]);
    check(&[10.0, 1.0, 1.0, 1.0]);
}

#[test]
fn everybody_hears_everybody() {
    for members in 1..=4 {
        let ends = among(members, |peers| {
            let own = Bytes::from(vec![peers.index as u8; peers.index + 1]);
            let all = peers.gather(own).expect("all");
            all.iter().enumerate().for_each(|(i, bytes)| assert_eq!(*bytes, vec![i as u8; i + 1]));
            all.len()
        });
        assert_eq!(ends, vec![members; members]);
    }
}

#[test]
fn adasum_is_the_same_for_all() {
    let layout = layout(3000);
    let ends = among(3, |peers| {
        let mut own = gradient(&layout, peers.index, 1);
        combined(peers, &layout, &mut own).expect("adasum");
        own
    });
    assert!(ends.iter().all(|end| bits(&layout, end) == bits(&layout, &ends[0])));
    let mut means: Vec<Vec<f32>> = (0..3)
        .map(|member| {
            let own = gradient(&layout, member, 1);
            own.values[..1000].iter().map(|value| value / own.weight as f32).collect()
        })
        .collect();
    adasum(&mut means);
    let weight = ends[0].weight as f32;
    for (found, expect) in ends[0].values.iter().zip(&means[0]) {
        assert!((found / weight - expect).abs() < 1e-6);
    }
}

/// What the two others of three members say in a round, mostly as they should, and then they leave.
fn said(chance: &mut Chance, layout: &Layout, coding: Coding) -> Vec<(usize, proto::Piece, Bytes)> {
    let chunks = Arc::new(Chunks::of(layout));
    let loads: Vec<usize> = chunks.iter().map(Chunk::load).collect();
    let owners = owners(&loads, &[1.0; 3]);
    let mut encoder = ChunkEncoder::new(&chunks, coding);
    let mut all = Vec::new();
    for (index, &owner) in owners.iter().enumerate() {
        let froms = if owner == 0 { vec![1, 2] } else { vec![owner] };
        for from in froms {
            let parcel = encoder.encode(&gradient(layout, from, 1), index, false);
            let step = if owner == 0 { THERE } else { BACK };
            let Parcel { payload, is_plain: plain, weight } = parcel;
            let piece = proto::Piece { generation: 1, round: 1, step, index: index as u32, weight, plain };
            all.push((from, piece, payload));
        }
    }
    if chance.percent(80) {
        let place = chance.below(all.len());
        let (_, piece, bytes) = &mut all[place];
        match chance.below(7) {
            0 => piece.step = chance.number() as u32,
            1 => piece.index = chance.number() as u32,
            2 => (piece.generation, piece.round) = (chance.number(), chance.number()),
            3 => *bytes = chance.spoil(bytes).into(),
            4 => drop(all.remove(place)),
            5 => piece.plain = !piece.plain,
            _ => piece.weight = chance.float(),
        }
    }
    all
}

#[test]
fn no_piece_takes_a_member_down() {
    let layout = layout(15_000);
    let (right, _there) = outbox();
    let links = [None, Some(right.clone()), Some(right)];
    for (name, coding) in [("pieces", Coding::PLAIN), ("bytes", Coding::INT8), ("packed", Coding::Packed)] {
        let make = |chance: &mut Chance| (said(chance, &layout, coding), 1 << 20);
        let mut sums = ShardedSums::new(&layout, coding);
        Trial { name, cases: 3_000 }.run(make, |said| {
            sums.share_out(&[1.0; 3]);
            let mut said = said.into_iter();
            let mut peers = Peers {
                index: 0,
                links: &links,
                servers: &[],
                receive: &mut |_| said.next().map(Some).ok_or(Gone),
                early: &mut Early::new(),
                generation: 1,
                round: 1,
                step: 0,
            };
            let mut own = gradient(&layout, 0, 1);
            sums.sum(&mut peers, &mut own, false).is_ok()
        });
    }
}
