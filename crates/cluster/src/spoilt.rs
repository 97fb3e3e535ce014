//! Everything that a node makes of what its peers send, under damaged input: each is taken or refused, and none takes the
//! program down or more memory than the run's layout allows.

use std::sync::Arc;

use bonfire_learn::layout::Init;
use bonfire_learn::{Gradient, Layout, OptimizerSpec};
use bonfire_spoil::{Chance, Trial};
use bonfire_strategy::Unit;
use bonfire_wire::proto::frame::Body;
use bonfire_wire::{Closed, Frame, Outbox, Pool, memory_link, proto};
use bytes::Bytes;

use crate::allreduce::{Circle, Gather};
use crate::exchange::{Codec, Parcel, bytes_to_floats};
use crate::mail::{Mail, News};
use crate::roles::registry::{Entry, Registry};
use crate::station::{Station, pack_state, unpack_state};
use bonfire_run::replica::Replica;
use bonfire_run::run_file::{Compression, Overrides, Settings};
use bonfire_run::worker::Worker;

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
    let good = pack_state(&Replica::new(&layout(), adam(), 1), 3, true);
    let make = |chance: &mut Chance| {
        let bytes = if chance.percent(60) { chance.spoil(&good.1) } else { good.1.to_vec() };
        let moments = if chance.percent(50) { good.0.moments } else { chance.number() as u32 };
        let state = proto::State { round: chance.number(), steps: chance.number(), moments };
        ((state, bytes), vectors(2))
    };
    let mut replica = Replica::new(&layout(), adam(), 1);
    Trial { name: "states", cases: 40_000 }.run(make, |(state, bytes)| {
        let before = replica.digest();
        let taken = unpack_state(&mut replica, &state, &bytes).is_ok();
        assert!(taken || replica.digest() == before, "what does not fit changes nothing");
        assert_eq!(bytes_to_floats(&bytes, &mut [0.0; 5]).is_ok(), bytes.len() == 20);
        taken
    });
}

fn adam() -> OptimizerSpec {
    serde_json::from_str(r#"{"adam": {}}"#).expect("an optimiser")
}

#[test]
fn no_gradient_takes_a_head_down() {
    for (name, compression) in [("gradients", Compression::None), ("halves", Compression::F16)] {
        let mut codec = Codec::new(&layout(), compression);
        let goods: Vec<Bytes> =
            (0..8).map(|seed| codec.pack(&gradient(&mut Chance::new(name, seed)))).collect();
        let make = |chance: &mut Chance| {
            let weight = if chance.percent(80) { 3.0 } else { chance.float() };
            let good = &goods[chance.below(goods.len())];
            (Parcel { payload: chance.spoil(good).into(), weight }, vectors(4))
        };
        let good = Parcel { payload: goods[0].clone(), weight: 2.0 };
        let (mut total, mut spare) = (Gradient::new(&layout()), Gradient::new(&layout()));
        Trial { name, cases: 20_000 }.run(make, |parcel| {
            let is_fit = codec.check(&parcel.payload).is_ok();
            let summed = codec.sum(&[parcel.clone(), good.clone()], &mut total);
            assert!(!is_fit || summed.is_ok(), "what was checked can be summed: {summed:?}");
            let added = codec.add(&parcel, &mut total, &mut spare);
            assert!(!is_fit || added.is_ok(), "and added: {added:?}");
            is_fit
        });
    }
}

#[test]
fn no_changes_take_a_worker_down() {
    let mut codec = Codec::new(&layout(), Compression::None);
    let good = codec.pack_changes(&layout().initial(1), &[&[3, 7, 30]]);
    let mut parameters = layout().initial(2);
    let make = |chance: &mut Chance| (chance.spoil(&good), vectors(0));
    Trial { name: "changes", cases: 40_000 }
        .run(make, |bytes| codec.unpack_changes(&bytes, &mut parameters).is_ok());
}

/// A link whose other side hears everything and says nothing.
fn outbox() -> (Outbox, Outbox) {
    memory_link(Box::new(|_| ()), Box::new(|_| ()))
}

/// A piece as a left neighbour might make it up: mostly one that fits, of a ring of three and a buffer of so many floats.
pub(crate) fn pieces(chance: &mut Chance, len: usize) -> Vec<(proto::Piece, Bytes)> {
    let mut all = Vec::new();
    // What the member with index 0 waits for: of every hop the segment that is then here.
    for hop in 0..4usize {
        let segment = (6 - hop - 1) % 3;
        let (start, end) = (len * segment / 3, len * (segment + 1) / 3);
        let piece = proto::Piece { generation: 1, round: 1, step: hop as u32, index: start as u32 };
        all.push((piece, Bytes::from(vec![1; (end - start) * 4])));
    }
    if chance.percent(80) {
        let place = chance.below(all.len());
        let (piece, bytes) = &mut all[place];
        match chance.below(6) {
            0 => piece.step = chance.number() as u32,
            1 => piece.index = chance.number() as u32,
            2 => (piece.generation, piece.round) = (chance.number(), chance.number()),
            3 => *bytes = chance.spoil(bytes).into(),
            4 => drop(all.remove(place)),
            _ => {
                let other = chance.below(4);
                all.swap(place, other);
            }
        }
    }
    all
}

/// The first of three members, whose left neighbour says this and then leaves.
pub(crate) fn with_circle<T>(
    said: Vec<(proto::Piece, Bytes)>,
    exchange: impl FnOnce(Circle<'_, Gone>) -> T,
) -> T {
    let (right, _neighbour) = outbox();
    let mut said = said.into_iter();
    let mut receive = || said.next().ok_or(Gone);
    let pool = Pool::default();
    exchange(Circle {
        index: 0,
        members: 3,
        right: &right,
        receive: &mut receive,
        generation: 1,
        round: 1,
        pool: &pool,
    })
}

/// Why an exchange ended early.
#[derive(Debug)]
pub(crate) struct Gone;

impl From<Closed> for Gone {
    fn from(_: Closed) -> Self {
        Self
    }
}

impl From<anyhow::Error> for Gone {
    fn from(_: anyhow::Error) -> Self {
        Self
    }
}

#[test]
fn no_piece_takes_a_ring_down() {
    let make = |chance: &mut Chance| {
        let len = *chance.pick(&[3, 10, 1000, 3001]);
        // The sums, what is sent on in buffers of a pool, and their places.
        ((len, pieces(chance, len)), 4 * len + 8 * (5 << 10) + 16 * len + 4096)
    };
    Trial { name: "ring pieces", cases: 50_000 }.run(make, |(len, said)| {
        let mut buffer = vec![1.0; len];
        with_circle(said, |mut circle| circle.sum(&mut buffer, &mut Vec::new()).is_ok())
    });
    let make = |chance: &mut Chance| {
        let mut said: Vec<_> = (0..2usize)
            .map(|hop| {
                let index = (6 - hop - 1) % 3;
                let piece = proto::Piece { generation: 1, round: 1, step: hop as u32, index: index as u32 };
                (piece, Bytes::from_static(&[7; 12]))
            })
            .collect();
        if chance.percent(70) {
            said[chance.below(2)].0.step = chance.number() as u32;
            said[chance.below(2)].0.index = chance.number() as u32;
        }
        (said, 4096)
    };
    Trial { name: "gathered", cases: 50_000 }.run(make, |said| {
        with_circle(said, |mut circle| circle.gather(Bytes::from_static(&[1; 12])).is_ok())
    });
}

/// What somebody with the ticket might say to a head.
fn body(chance: &mut Chance) -> Body {
    let digest = |chance: &mut Chance| {
        if chance.percent(60) { Bytes::from_static(b"same") } else { chance.bytes(4).into() }
    };
    match chance.below(8) {
        0..=2 => Body::Join(proto::Join {
            version: if chance.percent(80) { "1".to_owned() } else { chance.text() },
            name: chance.text(),
            machine: chance.text(),
            cores: chance.number() as u32,
            memory_mb: chance.number(),
            address: chance.text(),
            fingerprint: if chance.percent(50) { Bytes::new() } else { Bytes::from_static(&[0; 32]) },
            rank: chance.percent(50).then(|| chance.number() as u32),
            cpus: if chance.percent(50) { "0-3,8".to_owned() } else { chance.text() },
        }),
        3 => Body::Fetch(proto::Fetch { offset: chance.number() }),
        4 | 5 => Body::Ready(proto::Ready {
            data_digest: digest(chance),
            layout_digest: digest(chance),
            error: if chance.percent(80) { String::new() } else { chance.text() },
        }),
        6 => Body::Push(proto::Push {
            order: chance.number(),
            weight: chance.float(),
            ..proto::Push::default()
        }),
        _ => Body::Trouble(proto::Trouble { reason: chance.text(), unreachable: chance.number() }),
    }
}

/// A registry hears from three links, in any order. What it tells of them is short, whatever they say.
#[test]
fn no_guest_takes_a_registry_down() {
    let make = |chance: &mut Chance| {
        let said: Vec<(u64, Option<Body>)> = (0..chance.below(12))
            .map(|_| (chance.below(3) as u64, chance.percent(80).then(|| body(chance))))
            .collect();
        // Names and addresses are kept while a node is; texts are in what it says.
        (said, 64 << 10)
    };
    Trial { name: "registry", cases: 10_000 }.run(make, |said| {
        let mut registry = Registry::new(Entry {
            version: "1".into(),
            run_file: "epochs: 1".into(),
            data_digest: b"same".to_vec(),
            layout_digest: b"same".to_vec(),
            shipment: Some(Bytes::from_static(&[7; 100])),
            payload_bytes: 1000,
        });
        let mut there = Vec::new();
        for (link, body) in said {
            let news = match body {
                Some(body) => News::Frame(Frame::bare(body)),
                None => {
                    let (here, other) = outbox();
                    there.push(other);
                    News::Opened(here)
                }
            };
            if let Some(crate::roles::registry::Notice::Refused(told)) = registry.hear(Mail { link, news }) {
                assert!(told.len() < 2000 && !told.contains(char::is_control), "{told:?}");
            }
        }
        let is_short = |node: &crate::roles::registry::Node| node.address.len() + node.machine.len() < 1000;
        assert!(registry.nodes().all(is_short));
        registry.nodes().any(|node| node.is_ready)
    });
}

/// Orders as a parent might make them up.
#[test]
fn no_order_takes_a_worker_down() {
    let run_file =
        "{model: {mlp: {hidden: [3]}}, data: {name: digits, train: 40, test: 10}, batch_size: 4, workers: 2}";
    let settings = Settings::read("a test", run_file, &Overrides::default(), 1).expect("settings");
    let dataset = settings.file.data.load().expect("data");
    let worker = Worker::build(1, || settings.file.model.build(&dataset.shape)).expect("a worker");
    let mut station = Station::new(&settings, &dataset, worker).expect("a station");
    let len = station.layout().len();
    let update = station.codec.pack(&Gradient::new(station.layout()));
    let parameters = Arc::new(station.codec.pack_parameters(&station.replica.parameters));
    let make = |chance: &mut Chance| {
        let news = chance.below(5) as i32;
        let good = if news == 2 { Bytes::clone(&parameters) } else { update.clone() };
        let payload = if chance.percent(50) { chance.spoil(&good).into() } else { good };
        let go =
            proto::Go { news, lr: chance.float() as f32, weight: chance.float(), ..proto::Go::default() };
        let unit = Unit { epoch: chance.number(), index: chance.number() as u32 };
        ((go, payload, unit), 8 * len + (256 << 10))
    };
    Trial { name: "orders", cases: 1_000 }.run(make, |(go, payload, unit)| {
        let is_taken = station.take(&go, payload).is_ok();
        let has = station.has(unit);
        if has {
            station.compute(unit);
        }
        is_taken && has
    });
}
