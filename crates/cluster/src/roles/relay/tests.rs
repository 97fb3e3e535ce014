use std::sync::mpsc::{Receiver, channel};

use bonfire_learn::Gradient;
use bonfire_learn::layout::Init;
use bonfire_wire::{Incoming, memory_link};

use super::*;
use bonfire_run::run_file::Overrides;

const BATCH: u64 = 4;

/// A relay with workers 1 and 2, and what it says to its parent.
struct Bench {
    relaying: Relaying,
    said: Receiver<Frame>,
    layout: Layout,
    /// The other ends of the workers' links.
    _links: Vec<Outbox>,
}

impl Bench {
    fn new(is_async: bool) -> Self {
        let text = format!("model: {{mlp: {{hidden: [4]}}}}\ndata: digits\nbatch_size: {BATCH}\nepochs: 1\n");
        let settings = Settings::read("relay.yml", &text, &Overrides::default(), 1).expect("a run file");
        let mut layout = Layout::default();
        layout.vector("all".into(), 3, Init::Uniform(1.0));
        let (sender, said) = channel();
        let hear = Box::new(move |incoming| {
            if let Incoming::Frame(frame) = incoming {
                let _ = sender.send(frame);
            }
        });
        let (parent, there) = memory_link(Box::new(|_| ()), hear);
        let role = proto::Relay { is_async, workers: 2 };
        let mut relaying = Relaying::new(parent, &settings, &layout, &role);
        let mut links = vec![there];
        for node in [1, 2] {
            let (here, there) = memory_link(Box::new(|_| ()), Box::new(|_| ()));
            relaying.welcome(node, here, node).expect("a worker");
            links.push(there);
        }
        Self { relaying, said, layout, _links: links }
    }

    fn order(&mut self, order: u64, indices: [u32; 2]) {
        let units = indices.map(|index| proto::Unit { epoch: 0, index }).to_vec();
        let go = proto::Go { order: Some(order), units, ..proto::Go::default() };
        self.relaying.ordered(&go).expect("an order");
    }

    /// A worker's push, a gradient of the same value everywhere.
    fn push(&mut self, worker: u64, order: u64, index: u32, value: f32) {
        let mut gradient = Gradient::new(&self.layout);
        gradient.write(0).fill(value);
        gradient.weight = BATCH as f64;
        gradient.finish();
        for frame in crate::push_frames(&gradient, &self.layout, order) {
            self.relaying.hear_worker(worker, frame).expect("a chunk");
        }
        let tally = proto::Tally { samples: BATCH, ..proto::Tally::default() };
        let push = proto::Push {
            order,
            weight: BATCH as f64,
            tally: Some(tally),
            units: vec![proto::Unit { epoch: 0, index }],
            ..proto::Push::default()
        };
        self.relaying.pushed(worker, &push).expect("a push");
    }

    /// What the head was told to warn of.
    fn complaints(&self) -> Vec<String> {
        let reason = |frame: Frame| match frame.body {
            Body::Trouble(trouble) => Some(trouble.reason),
            _ => None,
        };
        self.said.try_iter().filter_map(reason).collect()
    }

    /// The push that went up, with the first value of its gradient.
    fn pushed_up(&mut self) -> (proto::Push, f32) {
        let (mut value, mut pushed) = (f32::NAN, None);
        for frame in self.said.try_iter() {
            match frame.body {
                Body::Piece(piece) if piece.plain => {
                    value = f32::from_le_bytes(frame.payload[..4].try_into().expect("a float"));
                }
                Body::Push(push) => pushed = Some(push),
                _ => {}
            }
        }
        (pushed.expect("a push"), value)
    }
}

#[test]
fn what_was_done_for_a_void_order_does_not_go_up() {
    for is_async in [false, true] {
        let mut bench = Bench::new(is_async);
        bench.order(1, [0, 1]);
        bench.push(1, 1, 0, 100.0);
        // The parent has given units 0 and 1 to others.
        bench.order(2, [2, 3]);
        bench.push(1, 3, 2, 1.0);
        bench.push(2, 4, 3, 2.0);
        let (push, value) = bench.pushed_up();
        let units: Vec<u32> = push.units.iter().map(|unit| unit.index).collect();
        assert_eq!((push.order, units), (2, vec![2, 3]), "async: {is_async}");
        assert_eq!(push.weight, 2.0 * BATCH as f64, "async: {is_async}");
        assert_eq!(push.tally.unwrap_or_default().samples, 2 * BATCH, "async: {is_async}");
        assert_eq!(value, 3.0, "async: {is_async}");
    }
}

#[test]
fn the_head_hears_why_a_gradient_was_dropped() {
    let mut bench = Bench::new(false);
    bench.order(1, [0, 1]);
    bench.push(1, 7, 0, 1.0);
    assert_eq!(bench.complaints(), ["dropped a gradient: node 1 answers order 7; its order is 1"]);
}
