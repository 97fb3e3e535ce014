//! What two programs compare to know that they mean the same by a place in a flat vector.

use bonfire_learn::Layout;
use bonfire_learn::layout::{Tensor, TensorKind};
use serde_json::json;
use sha2::{Digest, Sha256};

/// The digest of everything that gives the places of a flat vector their meaning: names, shapes, kinds, ranges and the
/// order of memory. It depends on that alone, and not on how the code writes it down or on what a model begins with.
pub fn layout_digest(layout: &Layout) -> String {
    hex_digest(description(layout).as_bytes())
}

/// A line of JSON for every tensor.
fn description(layout: &Layout) -> String {
    let line = |tensor: &Tensor| {
        let kind = match tensor.kind {
            TensorKind::Dense => json!("dense"),
            TensorKind::Rows { width } => json!(["rows", width]),
            TensorKind::Buffer => json!("buffer"),
        };
        let (range, order) = (&tensor.range, steps(tensor.memory_order()));
        let facts = json!([tensor.name, tensor.shape, kind, range.start, range.end, order]);
        format!("{facts}\n")
    };
    layout.tensors().iter().map(line).collect()
}

/// An order of memory as loops, the outermost first: how often, and how far in PyTorch's order. Loops that are one are
/// written as one, so that equal orders have equal loops however their axes are cut.
fn steps((factors, axes): (&[usize], &[usize])) -> Vec<[usize; 2]> {
    let mut steps: Vec<[usize; 2]> = Vec::new();
    for &axis in axes {
        let (count, stride) = (factors[axis], factors[axis + 1..].iter().product::<usize>());
        match steps.last_mut() {
            _ if count == 1 => {}
            Some(outer) if outer[1] == count * stride => *outer = [outer[0] * count, stride],
            _ => steps.push([count, stride]),
        }
    }
    steps
}

/// The SHA-256 of some bytes, as text.
pub fn hex_digest(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes))
}

/// Bytes as text.
pub(super) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use bonfire_learn::layout::Init;
    use bonfire_learn::{ModelSpec, Shape};

    fn layout<T>(add: impl FnOnce(&mut Layout) -> T) -> Layout {
        let mut layout = Layout::default();
        add(&mut layout);
        layout
    }

    #[test]
    fn only_what_matters_is_in_a_digest() {
        let row = |name: &str, init| layout(|layout| layout.vector(name.into(), 12, init));
        let table = |rows, width| layout(|layout| layout.rows("a".into(), rows, width, Init::Uniform(0.1)));
        let check = |a: &Layout, b: &Layout, is_same: bool| {
            let both = (description(a), description(b));
            assert_eq!(layout_digest(a) == layout_digest(b), is_same, "{both:?}");
        };
        let plain = row("a", Init::Uniform(0.1));
        check(&plain, &row("a", Init::Normal { deviation: 0.5, zero_row: None }), true);
        check(&plain, &row("b", Init::Uniform(0.1)), false);
        check(&plain, &layout(|layout| layout.buffer("a".into(), 12, Init::Uniform(0.1))), false);
        check(&plain, &table(1, 12), false);
        check(&table(2, 6), &table(3, 4), false);
        let two = |names: [&str; 2]| {
            layout(|layout| names.map(|name| layout.vector(name.into(), 6, Init::Uniform(0.1))))
        };
        check(&two(["a", "b"]), &two(["b", "a"]), false);
    }

    #[test]
    fn equal_orders_have_equal_loops() {
        let check = |factors: &[usize], axes: &[usize], expect: &[[usize; 2]]| {
            assert_eq!(steps((factors, axes)), expect, "{factors:?} {axes:?}");
        };
        check(&[12], &[0], &[[12, 1]]);
        check(&[2, 6], &[0, 1], &[[12, 1]]);
        check(&[2, 1, 3, 2], &[1, 0, 2, 3], &[[12, 1]]);
        check(&[2, 6], &[1, 0], &[[6, 1], [2, 6]]);
        check(&[2, 3, 2], &[1, 2, 0], &[[6, 1], [2, 6]]);
        check(&[2, 2, 3], &[0, 2, 1], &[[2, 6], [3, 1], [2, 3]]);
    }

    #[test]
    fn a_description_says_all_of_a_tensor() {
        let layout = layout(|layout| {
            layout.vector("fc \"1\"".into(), 24, Init::Uniform(1.0));
            layout.rows("words".into(), 5, 2, Init::Constant(0.0));
            layout.buffer("mean".into(), 3, Init::Constant(0.0))
        });
        let expect = [
            r#"["fc \"1\"",[24],"dense",0,24,[[24,1]]]"#,
            r#"["words",[5,2],["rows",2],24,34,[[10,1]]]"#,
            r#"["mean",[3],"buffer",34,37,[[3,1]]]"#,
        ];
        assert_eq!(description(&layout).lines().collect::<Vec<_>>(), expect);
    }

    /// States of format 0 are taken without a look at the order of memory, and a digest that changes keeps every other
    /// checkpoint from being resumed. If this fails, write a new format, and turn what the old ones hold into it.
    #[test]
    fn the_models_lie_in_memory_as_ever() {
        let expect = [
            ("cnn", "1982c7837fc715d1"),
            ("lenet", "7761f7682f62bedd"),
            ("lenet5", "0ba732a83178debf"),
            ("mlp", "a199ad28823db9b5"),
            ("resnet18", "a5f0833e9502f0a6"),
            ("resnet20", "f5607f67cacffc7b"),
            ("resnet50", "36996b286d640945"),
            ("vgg11", "cf1b50391ee085e5"),
            ("vgg16", "fdc572ee20626f90"),
            ("tagger", "4e9c782eee980e26"),
            ("sentiment", "e49e3a9370090f58"),
        ];
        let digest = |name: &str| {
            let spec: ModelSpec = serde_json::from_value(json!({name: {}})).expect("a model");
            let shape = match name {
                "tagger" => Shape::Tagging { words: 50, tags: 7 },
                "sentiment" => Shape::Texts { words: 50, classes: 5 },
                _ => Shape::Images { height: 32, width: 32, channels: 3, classes: 10 },
            };
            layout_digest(spec.build(&shape).expect("a model").layout())[..16].to_owned()
        };
        let found = expect.map(|(name, _)| (name, digest(name)));
        assert_eq!(found, expect.map(|(name, digest)| (name, digest.to_owned())));
    }
}
