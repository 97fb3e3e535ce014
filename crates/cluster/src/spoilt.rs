//! Everything that a node makes of what its peers send, under damaged input: each is taken or refused, and none takes
//! the program down or more memory than the run's layout allows.

use bonfire_learn::Gradient;
use bonfire_spoil::{Chance, Trial};
use bonfire_strategy::Unit;
use bonfire_wire::proto::frame::Body;
use bonfire_wire::{Frame, Incoming, Outbox, memory_link, proto};
use bytes::Bytes;

use crate::mail::{Mail, News};
use crate::roles::registry::{COMPARE_EVERY, Entry, Registry};
use crate::trainer::Trainer;
use bonfire_exchange::codec::Parcel;
use bonfire_exchange::parameters::ParameterEncoder;
use bonfire_exchange::updates::step;
use bonfire_run::run_file::{Overrides, Settings};
use bonfire_run::worker::Worker;

/// A link whose other side hears everything and says nothing.
pub(crate) fn outbox() -> (Outbox, Outbox) {
    memory_link(Box::new(|_: Incoming| ()), Box::new(|_: Incoming| ()))
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
            process: chance.percent(75).then(|| chance.number() % 3),
        }),
        3 => Body::Fetch(proto::Fetch { offset: chance.number() }),
        4 | 5 => Body::Ready(proto::Ready {
            samples: chance.number(),
            data_digest: digest(chance),
            layout_digest: digest(chance),
            error: if chance.percent(80) { String::new() } else { chance.text() },
        }),
        6 => Body::Push(proto::Push {
            order: chance.number(),
            weight: chance.float(),
            ..proto::Push::default()
        }),
        _ => Body::Trouble(proto::Trouble {
            reason: chance.text(),
            unreachable: chance.number(),
            sample: chance.percent(50).then(|| chance.number()),
        }),
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
            compare_every: COMPARE_EVERY,
        });
        let (mut there, now) = (Vec::new(), std::time::Instant::now());
        for (link, body) in said {
            let news = match body {
                Some(body) => News::Frame(Frame::bare(body)),
                None => {
                    let (here, other) = outbox();
                    there.push(other);
                    News::Opened(here)
                }
            };
            if let Some(crate::roles::registry::Notice::Refused(told)) =
                registry.hear(Mail { link, news }, now)
            {
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
    let mut trainer = Trainer::new(&settings, &dataset, worker, 0).expect("a trainer");
    let len = trainer.layout().len();
    let mut nothing = Gradient::new(trainer.layout());
    (nothing.weight, nothing.values) = (1.0, vec![0.5; len]);
    let update: Vec<Parcel> =
        (0..trainer.encoder.chunks().count()).map(|i| trainer.encoder.encode(&nothing, i, false)).collect();
    let parameters = ParameterEncoder::new(trainer.layout()).all(&trainer.replica.parameters);
    let make = |chance: &mut Chance| {
        let news = chance.below(5) as i32;
        let is_update = news != 2;
        let goods = if is_update { &update } else { &parameters };
        let spoilt = chance.percent(50).then(|| chance.below(goods.len()));
        let mut pieces = Vec::new();
        for (index, good) in goods.iter().enumerate() {
            let payload = match spoilt == Some(index) {
                true => chance.spoil(&good.payload).into(),
                false => good.payload.clone(),
            };
            let step = if is_update { step::SUM } else { step::PARAMETERS };
            let (index, plain) = (index as u32, good.is_plain);
            pieces.push((proto::Piece { round: 3, step, index, plain, ..proto::Piece::default() }, payload));
        }
        let (lr, weight) = (chance.float() as f32, chance.float());
        let go = proto::Go { version: 3, news, lr, weight, ..proto::Go::default() };
        let unit = Unit { epoch: chance.number(), index: chance.number() as u32 };
        ((go, pieces, unit), 8 * len + (256 << 10))
    };
    Trial { name: "orders", cases: 1_000 }.run(make, |(go, pieces, unit)| {
        let Trainer { replica, updates, .. } = &mut trainer;
        let mut pieces = pieces.into_iter();
        let is_taken = pieces.all(|(piece, payload)| updates.piece(&piece, payload).is_ok())
            && updates.apply(replica, &go).is_ok();
        let has = trainer.has(&unit.into());
        if has {
            trainer.compute(unit).expect("data in memory");
        }
        is_taken && has
    });
}
