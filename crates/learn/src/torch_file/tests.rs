use super::*;
use crate::random::Random;

const FIXTURES: [(&str, &[u8]); 8] = [
    ("mlp", include_bytes!("../../fixtures/state_dict/mlp.pt")),
    ("parallel", include_bytes!("../../fixtures/state_dict/parallel.pt")),
    ("nested", include_bytes!("../../fixtures/state_dict/nested.pt")),
    ("types", include_bytes!("../../fixtures/state_dict/types.pt")),
    ("strided", include_bytes!("../../fixtures/state_dict/strided.pt")),
    ("lenet5", include_bytes!("../../fixtures/state_dict/lenet5.pt")),
    ("legacy", include_bytes!("../../fixtures/state_dict/legacy.pt")),
    ("module", include_bytes!("../../fixtures/state_dict/module.pt")),
];

fn fixture(name: &str) -> &'static [u8] {
    FIXTURES.iter().find(|(other, _)| *other == name).expect("a fixture").1
}

/// As `steps` of state_dict.py, before it is divided by 64.
fn whole(i: usize, phase: usize) -> f32 {
    ((i * 37 + phase * 11) % 101) as f32 - 50.0
}

fn weight(name: &str, shape: &[usize], value: impl Fn(usize) -> f32) -> Weight {
    let count = shape.iter().product();
    Weight { name: name.to_owned(), shape: shape.to_vec(), values: (0..count).map(value).collect() }
}

fn steps(name: &str, shape: &[usize], phase: usize) -> Weight {
    weight(name, shape, |i| whole(i, phase) / 64.0)
}

#[test]
fn state_dicts_are_found_plain_parallel_and_nested() {
    let shapes: [(&str, &[usize]); 4] =
        [("fc1.weight", &[4, 6]), ("fc1.bias", &[4]), ("fc2.weight", &[3, 4]), ("fc2.bias", &[3])];
    let expect: Vec<Weight> =
        shapes.iter().enumerate().map(|(phase, (name, shape))| steps(name, shape, phase)).collect();
    for name in ["mlp", "parallel", "nested"] {
        assert_eq!(parse(fixture(name)).expect(name), expect, "{name}");
    }
}

#[test]
fn numbers_of_every_type_are_read() {
    let weights = parse(fixture("types")).expect("types");
    let float = |i| whole(i, 2) / 64.0;
    let check = |name: &str, value: &dyn Fn(usize) -> f32| {
        let found = weights.iter().find(|weight| weight.name == name);
        assert_eq!(found, Some(&weight(name, &[3, 5], value)));
    };
    for name in ["float64", "float32", "float16", "bfloat16"] {
        check(name, &float);
    }
    for name in ["int64", "int32", "int16", "int8"] {
        check(name, &|i| whole(i, 2));
    }
    check("uint8", &|i| whole(i, 2) + 50.0);
    check("bool", &|i| (whole(i, 2) + 50.0) % 2.0);
    assert_eq!(weights.len(), 10);
}

#[test]
fn strides_and_offsets_are_honoured() {
    // Of the 4×6 numbers that all of them look at.
    let base = |row: usize, column: usize| whole(row * 6 + column, 1) / 64.0;
    let expect = [
        weight("transposed", &[6, 4], |i| base(i % 4, i / 4)),
        weight("part", &[2, 3], |i| base(1 + i / 3, 2 + i % 3)),
        weight("every_other", &[12], |i| base(0, 1 + 2 * i)),
        weight("expanded", &[2, 3], |_| base(0, 0)),
        weight("parameter", &[6], |i| base(0, i)),
        weight("scalar", &[], |_| base(2, 3)),
        weight("empty", &[4, 0], |_| 0.0),
        weight("bn.num_batches_tracked", &[], |_| 7.0),
    ];
    assert_eq!(parse(fixture("strided")).expect("strided"), expect);
}

/// A ZIP archive of stored entries; with `wide`, all that can have 64 bits has.
fn archive(entries: &[(&str, &[u8])], wide: bool) -> Vec<u8> {
    let (mut bytes, mut directory) = (Vec::new(), Vec::new());
    for (name, content) in entries {
        let start = bytes.len() as u32;
        let (size, name_len) = (content.len() as u32, name.len() as u16);
        bytes.extend([&b"PK\x03\x04"[..], &[0; 22], &name_len.to_le_bytes(), &3u16.to_le_bytes()].concat());
        bytes.extend([name.as_bytes(), b"pad", content].concat());
        let extra = [&[9, 0, 1, 0, 0, 1, 0, 24, 0][..], &u64::from(size).to_le_bytes()].concat();
        let extra =
            [extra, u64::from(size).to_le_bytes().into(), u64::from(start).to_le_bytes().into()].concat();
        let extra = if wide { extra } else { Vec::new() };
        let [size, start] = if wide { [u32::MAX; 2] } else { [size, start] };
        directory.extend([&b"PK\x01\x02"[..], &[0; 16], &size.to_le_bytes(), &size.to_le_bytes()].concat());
        directory.extend([name_len.to_le_bytes(), (extra.len() as u16).to_le_bytes()].concat());
        directory.extend([&[0; 10][..], &start.to_le_bytes(), name.as_bytes(), &extra].concat());
    }
    let (start, count) = (bytes.len(), entries.len());
    bytes.extend(&directory);
    if wide {
        let end = bytes.len() as u64;
        let [count, start] = [count as u64, start as u64].map(u64::to_le_bytes);
        bytes.extend([&b"PK\x06\x06"[..], &[0; 28], &count, &[0; 8], &start].concat());
        bytes.extend([&b"PK\x06\x07"[..], &[0; 4], &end.to_le_bytes(), &[0; 4]].concat());
    }
    let (count, start) = if wide { (u16::MAX, u32::MAX) } else { (count as u16, start as u32) };
    bytes.extend([&b"PK\x05\x06"[..], &[0; 6], &count.to_le_bytes(), &[0; 4]].concat());
    bytes.extend([&start.to_le_bytes()[..], &[0; 2]].concat());
    bytes
}

/// A pickled tensor: `len` numbers in storage 0, and how they are looked at, each below 256.
fn tensor(kind: &str, len: u8, offset: u8, shape: [u8; 2], strides: [u8; 2]) -> Vec<u8> {
    let mut bytes = b"ctorch._utils\n_rebuild_tensor_v2\n((U\x07storagectorch\n".to_vec();
    bytes.extend([kind.as_bytes(), b"\nU\x010U\x03cpuK", &[len], b"tQK", &[offset]].concat());
    for [a, b] in [shape, strides] {
        bytes.extend([b'K', a, b'K', b, 0x86]);
    }
    bytes.extend(b"\x89NtR");
    bytes
}

/// A pickled dict of one entry.
fn dict(key: &str, value: &[u8]) -> Vec<u8> {
    [b"}U", &[key.len() as u8][..], key.as_bytes(), value, b"s"].concat()
}

/// A file of PyTorch with this pickle and the floats 0, 1, 2, 3 and 4.
fn file(pickle: &[u8]) -> Vec<u8> {
    let numbers: Vec<u8> = (0..5).flat_map(|i| (i as f32).to_le_bytes()).collect();
    archive(&[("m/data.pkl", &[b"\x80\x02", pickle, b"."].concat()), ("m/data/0", &numbers)], false)
}

fn floats() -> Vec<u8> {
    tensor("FloatStorage", 5, 1, [2, 2], [1, 2])
}

#[test]
fn every_key_that_scripts_use_is_known() {
    let expect = [Weight { name: "w".into(), shape: vec![2, 2], values: vec![1.0, 3.0, 2.0, 4.0] }];
    let check = |pickle: &[u8]| assert_eq!(parse(&file(pickle)).expect("a state dict"), expect);
    check(&dict("w", &floats()));
    check(&dict("module.w", &floats()));
    for key in ["state_dict", "model_state_dict", "model", "model_sate_dict"] {
        check(&dict(key, &dict("w", &floats())));
        check(&dict(key, &dict("module.w", &floats())));
    }
}

#[test]
fn archives_with_wide_numbers_are_read() {
    let pickle = [b"\x80\x02", &dict("w", &tensor("ByteStorage", 3, 0, [1, 3], [200, 1]))[..], b"."].concat();
    for wide in [false, true] {
        let bytes = archive(&[("a/b/data.pkl", &pickle), ("a/b/data/0", &[7, 8, 9])], wide);
        assert_eq!(parse(&bytes).expect("a state dict")[0].values, [7.0, 8.0, 9.0], "wide: {wide}");
    }
}

#[test]
fn what_cannot_be_read_is_refused_with_the_reason() {
    let check = |bytes: &[u8], expect: &str| {
        let error = parse(bytes).expect_err(expect);
        assert!(error.contains(expect), "{error:?} should say {expect:?}");
    };
    check(fixture("legacy"), "before 1.6; load it and save it again with a newer torch, or as safetensors");
    check(fixture("module"), "holds a __main__.Mlp, and only dicts of tensors");
    check(b"", "not a whole ZIP archive");
    check(b"PK\x03\x04", "not a whole ZIP archive");
    check(&fixture("mlp")[..2000], "not a whole ZIP archive");
    check(&archive(&[("arr_0.npy", b"")], false), "has no data.pkl");
    check(&archive(&[("x/data.pkl", b"\x80\x04\x95")], false), "a pickle of protocol 4");
    check(&archive(&[("x/data.pkl", b"}."), ("x/byteorder", b"big")], false), "big-endian");

    let check = |pickle: &[u8], expect: &str| check(&file(pickle), expect);
    check(b"", "pickle is broken");
    check(b"cos\nsystem\n(U\x04truetR", "holds a os.system");
    check(b"c__builtin__\neval\n", "holds a __builtin__.eval");
    check(b"i", "no instruction 0x69");
    check(b"K\x05", "holds no state dict");
    check(b"}", "without tensors");
    check(b"}K\x01K\x02s", "keys are not names");
    check(&dict("epoch", b"K\x05"), "\"epoch\" is no tensor; save model.state_dict()");
    check(&dict("model", &dict("w", b"N")), "\"w\" is no tensor");
    let twice = [dict("w", &floats()), b"U\x01w".to_vec(), floats(), b"s".to_vec()].concat();
    check(&twice, "two tensors named w");

    let check = |tensor: &[u8], expect: &str| check(&dict("w", tensor), expect);
    check(&tensor("ComplexFloatStorage", 5, 0, [1, 1], [1, 1]), "torch.ComplexFloatStorage cannot be read");
    check(&tensor("FloatStorage", 6, 0, [1, 1], [1, 1]), "w: m/data/0 has 20 bytes, expected 6 numbers of 4");
    check(&tensor("FloatStorage", 5, 0, [255, 255], [0, 0]), "w: is larger than the whole file");
    check(&tensor("FloatStorage", 5, 2, [2, 2], [1, 2]), "w: lies outside of m/data/0");
    check(&tensor("FloatStorage", 5, 5, [1, 1], [1, 1]), "w: lies outside of m/data/0");
}

#[test]
fn damaged_numbers_and_packed_entries_are_noticed() {
    let mut bytes = fixture("mlp").to_vec();
    // The first number of the first storage; see the alignment that PyTorch keeps.
    let place = bytes.windows(4).position(|four| four == (-50f32 / 64.0).to_le_bytes()).expect("a number");
    bytes[place] ^= 1;
    assert_eq!(parse(&bytes).expect_err("damage"), "mlp/data/0: the checksum is wrong: the file is damaged");

    let mut bytes = fixture("mlp").to_vec();
    let place = bytes.windows(4).position(|four| four == b"PK\x01\x02").expect("a directory");
    bytes[place + 10] = 8;
    assert!(parse(&bytes).expect_err("packed").starts_with("mlp/data.pkl is packed"));
}

/// Whatever is done to a file, it is read or refused, and never takes more values than it has bytes.
#[test]
fn no_damage_ends_in_anything_but_an_error() {
    let seed = 20;
    let mut random = Random::named(seed, "damage");
    let mut below = |bound: usize| random.below(bound);
    let mut read = 0;
    for round in 0..20_000 {
        let (name, original) = FIXTURES[round % FIXTURES.len()];
        let mut bytes = original.to_vec();
        // Without checksums, so that damage gets as far as it can.
        for at in 0..bytes.len() - 20 {
            if bytes[at..].starts_with(b"PK\x01\x02") {
                bytes[at + 16..at + 20].fill(0);
            }
        }
        for _ in 0..1 + below(4) {
            let at = below(bytes.len());
            match below(4) {
                0 => bytes.truncate(at.max(1)),
                1 => bytes[at] = [0, 1, 0x7F, 0x80, 0xFF][below(5)],
                2 => bytes[at] ^= 1 << below(8),
                _ => bytes[at] = below(256) as u8,
            }
        }
        if let Ok(weights) = parse(&bytes) {
            let count: usize = weights.iter().map(|weight| weight.values.len()).sum();
            assert!(count <= bytes.len(), "{name}, round {round} of seed {seed}");
            read += 1;
        }
    }
    assert!(read > 1000, "some damage does not matter; only {read} files could be read");
}
