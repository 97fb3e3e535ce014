//! A step after the first ones allocates nothing, and neither does an evaluation.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use bonfire_learn::optim::{AdamOptions, SgdOptions};
use bonfire_learn::{Batch, Gradient, ModelSpec, Optimizer, OptimizerSpec, Shape, Tally};

/// The system's allocator, which counts what each thread asks of it.
struct AllocationCounter;

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

fn count() {
    // A thread that is ending has no counter any more, and nobody asks for it.
    let _ = ALLOCATIONS.try_with(|allocations| allocations.set(allocations.get() + 1));
}

// SAFETY: every call goes to the system's allocator unchanged; counting touches a number of the thread's own.
unsafe impl GlobalAlloc for AllocationCounter {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: the caller keeps the contract of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn realloc(&self, old: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count();
        // SAFETY: the caller keeps the contract of `realloc`.
        unsafe { System.realloc(old, layout, size) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: the caller keeps the contract of `dealloc`.
        unsafe { System.dealloc(memory, layout) }
    }
}

#[global_allocator]
static COUNTING: AllocationCounter = AllocationCounter;

/// How many allocations a training step and an evaluation make once they have been done a few times.
fn allocations(spec: &str, shape: &Shape, optimizer: &OptimizerSpec) -> u64 {
    let spec: ModelSpec = serde_json::from_str(spec).expect("a model's name and options");
    let mut model = spec.build(shape).expect("a model");
    // A model that only evaluates has less memory to begin with.
    let mut evaluator = spec.build(shape).expect("a model");
    let batch = Batch::random(shape, 5, 6, 1);
    let mut parameters = model.layout().initial(1);
    let mut gradient = Gradient::in_factors(model.layout());
    let mut optimizer = Optimizer::new(optimizer.clone(), model.layout());
    let mut steps = |count: u64| {
        for step in 0..count {
            let mut tally = Tally::default();
            model.gradient(&parameters, &batch, step, &mut gradient, &mut tally);
            optimizer.step(&mut parameters, std::slice::from_ref(&gradient), 0.01, Some(1.0));
            model.evaluate(&parameters, &batch, &mut tally);
            evaluator.evaluate(&parameters, &batch, &mut tally);
        }
    };
    steps(3);
    let before = ALLOCATIONS.get();
    assert!(before > 0, "the first steps are counted");
    steps(3);
    ALLOCATIONS.get() - before
}

#[test]
fn steps_allocate_nothing() {
    let images = |side| Shape::Images { height: side, width: side, channels: 3, classes: 4 };
    let cases = [
        (r#"{"cnn": {}}"#, images(20)),
        (r#"{"lenet": {}}"#, images(18)),
        (r#"{"lenet5": {}}"#, images(18)),
        (r#"{"mlp": {"hidden": [16, 8]}}"#, images(5)),
        // Large enough for factors.
        (r#"{"mlp": {"hidden": [500]}}"#, images(16)),
        (r#"{"resnet18": {"width": 16}}"#, images(16)),
        (r#"{"resnet20": {}}"#, images(9)),
        (r#"{"resnet50": {"width": 4}}"#, images(16)),
        (r#"{"vgg11": {"width": 16}}"#, images(32)),
        (r#"{"vgg13": {"width": 4, "batch_norm": false}}"#, images(32)),
        (r#"{"vgg11": {"width": 4, "pool": 3}}"#, images(70)),
        (r#"{"tagger": {}}"#, Shape::Tagging { words: 30, tags: 4 }),
        (r#"{"tagger": {"cell": "lstm", "hidden": 20}}"#, Shape::Tagging { words: 30, tags: 4 }),
        (r#"{"sentiment": {}}"#, Shape::Texts { words: 30, classes: 5 }),
        (r#"{"sentiment": {"cell": "gru", "classes": 5}}"#, Shape::Texts { words: 30, classes: 5 }),
    ];
    let momentum = OptimizerSpec::Sgd(SgdOptions { momentum: 0.9, ..SgdOptions::default() });
    let optimizers = [momentum, OptimizerSpec::Adam(AdamOptions::default())];
    let pool = rayon::ThreadPoolBuilder::new().num_threads(1).build().expect("a thread");
    for (spec, shape) in &cases {
        for optimizer in &optimizers {
            let made = pool.install(|| allocations(spec, shape, optimizer));
            assert_eq!(made, 0, "allocations of three steps of {spec} with {}", optimizer.name());
        }
    }
}
