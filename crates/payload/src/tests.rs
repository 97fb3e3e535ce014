use super::*;
use bonfire_spoil::{Chance, Trial};

/// Around 0, and of very different sizes.
fn value(chance: &mut Chance) -> f32 {
    let unit = (chance.bits() >> 40) as f32 / (1 << 23) as f32 - 1.0;
    unit * [1.0, 1e-2, 1e-4][chance.below(3)]
}

/// A schema of tensors `(rows, width)`, where width 0 makes a dense part of so many values.
fn schema(tensors: &[(usize, usize)]) -> Schema {
    let mut start = 0;
    let part = |&(count, width): &(usize, usize)| {
        let range = start..start + count * width.max(1);
        start = range.end;
        if width == 0 { Section::Dense { range } } else { Section::Rows { range, width } }
    };
    Schema::new(tensors.iter().map(part).collect())
}

fn schemas() -> Vec<Schema> {
    [
        &[][..],
        &[(7, 0)],
        &[(0, 0), (1, 0)],
        &[(100, 3)],
        &[(1, 1), (300, 0)],
        &[(5, 0), (40, 7), (3, 0), (60, 50), (9, 1)],
        &[(130, 0), (200, 129), (257, 0)],
    ]
    .map(schema)
    .to_vec()
}

/// Some values, and for each table a share of its rows in any order. Rows that do not count hold rubbish.
fn vector(schema: &Schema, share: f32, chance: &mut Chance) -> (Vec<f32>, Vec<Vec<u32>>) {
    let mut values: Vec<f32> = (0..schema.len()).map(|_| value(chance)).collect();
    let mut tables = Vec::new();
    for part in schema.sections() {
        let Section::Rows { range, width } = part else { continue };
        let mut touched = Vec::new();
        for row in 0..range.len() / width {
            if (chance.below(1000) as f32) < share * 1000.0 {
                touched.insert(chance.below(touched.len() + 1), row as u32);
            } else {
                values[range.start + row * width..][..*width].fill(f32::NAN);
            }
        }
        tables.push(touched);
    }
    (values, tables)
}

fn encoded(schema: &Schema, values: &[f32], rows: &[Vec<u32>], precision: Precision) -> Vec<u8> {
    let rows: Vec<&[u32]> = rows.iter().map(Vec::as_slice).collect();
    let mut out = Vec::new();
    Encoder::default().encode(schema, values, &rows, precision, &mut out);
    out
}

/// The vector of a payload, in which rows that did not come are zero.
fn decoded(schema: &Schema, view: &EncodedVector<'_>) -> Vec<f32> {
    let mut out = vec![0.0; schema.len()];
    for (i, part) in schema.sections().iter().enumerate() {
        let target = &mut out[part.range()];
        match (view.section(i), part) {
            (EncodedSection::Dense(values), _) => values.copy_to(target),
            (EncodedSection::Rows { rows, values }, Section::Rows { width, .. }) => {
                for (k, row) in rows.iter().enumerate() {
                    assert_eq!(rows.find(row), Some(k));
                    let row = &mut target[row as usize * width..][..*width];
                    values.slice(k * width..(k + 1) * width).copy_to(row);
                }
            }
            (EncodedSection::Rows { .. }, Section::Dense { .. } | Section::Exact { .. }) => {
                panic!("rows of part {i}, which has none")
            }
        }
    }
    out
}

/// What should arrive: the values with zeros for the rows that do not count.
fn expected(schema: &Schema, values: &[f32], rows: &[Vec<u32>]) -> Vec<f32> {
    let mut expect = values.to_vec();
    let tables = schema.sections().iter().filter_map(|part| match part {
        Section::Rows { range, width } => Some((range, width)),
        Section::Dense { .. } | Section::Exact { .. } => None,
    });
    for ((range, width), touched) in tables.zip(rows) {
        for (row, values) in expect[range.clone()].chunks_exact_mut(*width).enumerate() {
            if !touched.contains(&(row as u32)) {
                values.fill(0.0);
            }
        }
    }
    expect
}

fn largest(values: &[f32]) -> f32 {
    values.iter().fold(0.0, |largest, value| value.abs().max(largest))
}

#[test]
fn what_is_encoded_arrives() {
    let mut chance = Chance::new("payload", 1);
    for schema in schemas() {
        for share in [0.0, 0.05, 0.5, 0.95, 1.0] {
            let (values, rows) = vector(&schema, share, &mut chance);
            let expect = expected(&schema, &values, &rows);
            let bytes = encoded(&schema, &values, &rows, Precision::F32);
            let view = EncodedVector::parse(&schema, &bytes).unwrap();
            let bits = |values: &[f32]| values.iter().map(|value| value.to_bits()).collect::<Vec<_>>();
            assert_eq!(bits(&decoded(&schema, &view)), bits(&expect), "{schema:?} {share}");
            assert!(view.is_finite() && bytes.len() <= schema.most_bytes(Precision::F32));

            let bytes = encoded(&schema, &values, &rows, Precision::F16);
            let view = EncodedVector::parse(&schema, &bytes).unwrap();
            let found = decoded(&schema, &view);
            assert!(view.is_finite() && bytes.len() <= schema.most_bytes(Precision::F16));
            for part in schema.sections() {
                let (found, expect) = (&found[part.range()], &expect[part.range()]);
                // Half a unit in the eleventh digit; below 2^-29 of the largest there are fewer digits.
                let floor = largest(expect) * 2f32.powi(-38);
                for (found, expect) in found.iter().zip(expect) {
                    let error = (found - expect).abs();
                    assert!(error <= expect.abs() * 2f32.powi(-11) + floor, "{found} for {expect}");
                }
            }
        }
    }
}

#[test]
fn bytes_are_as_near_as_their_steps() {
    let mut chance = Chance::new("bytes", 1);
    for schema in schemas() {
        for share in [0.0, 0.05, 0.95, 1.0] {
            let (values, rows) = vector(&schema, share, &mut chance);
            let expect = expected(&schema, &values, &rows);
            let bytes = encoded(&schema, &values, &rows, Precision::Int8);
            assert!(bytes.len() <= schema.most_bytes(Precision::Int8), "{schema:?} {share}");
            let view = EncodedVector::parse(&schema, &bytes).unwrap();
            assert!(view.is_finite());
            let found = decoded(&schema, &view);
            for part in schema.sections() {
                let (found, expect) = (&found[part.range()], &expect[part.range()]);
                for (found, expect) in found.chunks(part.block()).zip(expect.chunks(part.block())) {
                    let step = largest(expect) / 127.0;
                    for (found, expect) in found.iter().zip(expect) {
                        assert!((found - expect).abs() <= step * 0.5001, "{found} for {expect}, step {step}");
                    }
                }
            }
        }
    }
}

#[test]
fn what_is_no_number_shows_in_bytes() {
    let schema = schema(&[(1000, 0)]);
    for wrong in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
        let mut values = vec![1.0; 1000];
        values[700] = wrong;
        let bytes = encoded(&schema, &values, &[], Precision::Int8);
        assert!(!EncodedVector::parse(&schema, &bytes).unwrap().is_finite(), "{wrong}");
    }
}

#[test]
fn exact_parts_are_never_rounded() {
    let schema = Schema::new(vec![Section::Dense { range: 0..5 }, Section::Exact { range: 5..9 }]);
    let values: Vec<f32> = (0..9).map(|i| (i as f32).sqrt()).collect();
    for precision in [Precision::F32, Precision::F16, Precision::Int8] {
        let bytes = encoded(&schema, &values, &[], precision);
        assert!(bytes.len() <= schema.most_bytes(precision));
        let found = decoded(&schema, &EncodedVector::parse(&schema, &bytes).unwrap());
        assert_eq!(found[5..], values[5..], "{precision:?}");
        assert_eq!(found[1] == values[1] && found[2] == values[2], precision == Precision::F32);
    }
}

#[test]
fn a_payload_has_the_promised_size() {
    let check = |tensors: &[(usize, usize)], rows: &[Vec<u32>], precision, expect: usize| {
        let schema = schema(tensors);
        let values = vec![1.0; schema.len()];
        let bytes = encoded(&schema, &values, rows, precision);
        assert_eq!(bytes.len(), expect, "{tensors:?} {rows:?} {precision:?}");
        assert_eq!(
            decoded(&schema, &EncodedVector::parse(&schema, &bytes).unwrap()),
            expected(&schema, &values, rows)
        );
    };
    let some = |count: u32| vec![(0..count).rev().collect::<Vec<u32>>()];
    check(&[], &[], Precision::F32, 8);
    check(&[(10, 0)], &[], Precision::F32, 8 + 8 + 40);
    check(&[(11, 0)], &[], Precision::F16, 8 + 8 + 24);
    check(&[(100, 50)], &some(3), Precision::F32, 8 + 8 + 3 * (4 + 4 * 50));
    check(&[(100, 51)], &some(3), Precision::F16, 8 + 8 + 3 * 4 + 2 * 153 + 2);
    check(&[(100, 50)], &some(0), Precision::F32, 8 + 8);
    check(&[(1025, 0)], &[], Precision::Int8, 8 + 8 + 3 * 4 + 1028);
    check(&[(100, 51)], &some(3), Precision::Int8, 8 + 8 + 3 * (4 + 4) + 153 + 3);
    // Whole where that is fewer bytes.
    check(&[(100, 1)], &some(50), Precision::F32, 8 + 8 + 400);
    check(&[(100, 1)], &some(51), Precision::F32, 8 + 8 + 400);
    check(&[(100, 50)], &some(98), Precision::F32, 8 + 8 + 98 * 204);
    check(&[(100, 50)], &some(99), Precision::F32, 8 + 8 + 20_000);
    check(&[(100, 50)], &some(97), Precision::F16, 8 + 8 + 10_000);
}

#[test]
fn a_table_is_sent_whole_where_that_is_smaller() {
    let schema = schema(&[(100, 1)]);
    let check = |count: u32, whole: bool| {
        let bytes = encoded(&schema, &[2.0; 100], &[(0..count).collect()], Precision::F32);
        let view = EncodedVector::parse(&schema, &bytes).unwrap();
        assert_eq!(matches!(view.section(0), EncodedSection::Dense(_)), whole, "{count}");
    };
    check(0, false);
    check(50, false);
    check(51, true);
    check(100, true);
}

#[test]
fn values_are_copied_from_wherever_they_lie() {
    let values: Vec<f32> = (0..300).map(|i| i as f32 - 150.0).collect();
    let schema = schema(&[(300, 0)]);
    for precision in [Precision::F32, Precision::F16] {
        let mut bytes = vec![0; 1];
        // Behind one byte, so that nothing is where a float should lie.
        Encoder::default().encode(&schema, &values, &[], precision, &mut bytes);
        let view = EncodedVector::parse(&schema, &bytes[1..]).unwrap();
        let EncodedSection::Dense(sent) = view.section(0) else { panic!("not dense") };
        let mut all = vec![1.0; 300];
        sent.copy_to(&mut all);
        assert_eq!(all, values, "{precision:?}");
        let mut some = [0.0; 2];
        sent.slice(298..300).copy_to(&mut some);
        assert_eq!((some, sent.slice(7..7).is_empty()), ([148.0, 149.0], true));
    }
}

#[test]
fn halves_keep_values_of_every_size() {
    let schema = schema(&[(3, 0)]);
    let check = |largest: f32| {
        let values = [largest, -largest / 3.0, largest / 1e6];
        let bytes = encoded(&schema, &values, &[], Precision::F16);
        let found = decoded(&schema, &EncodedVector::parse(&schema, &bytes).unwrap());
        for (found, value) in found.iter().zip(values) {
            assert!((found - value).abs() <= value.abs() * 2f32.powi(-11), "{found} for {value}");
        }
    };
    for largest in [1.0, 65504.0, 65520.0, 1.999_999, 3e38, 1e-27] {
        check(largest);
    }
    let smallest = [f32::from_bits(1), 0.0, -f32::from_bits(3)];
    let bytes = encoded(&schema, &smallest, &[], Precision::F16);
    assert_eq!(decoded(&schema, &EncodedVector::parse(&schema, &bytes).unwrap()), smallest);
}

#[test]
fn halves_are_rounded_to_nearest_ties_to_even() {
    let schema = schema(&[(2, 0)]);
    let check = |value: f32, expect: f32| {
        let bytes = encoded(&schema, &[1.5, value], &[], Precision::F16);
        assert_eq!(decoded(&schema, &EncodedVector::parse(&schema, &bytes).unwrap()), [1.5, expect]);
    };
    let digit = 2f32.powi(-10);
    check(1.0 + 0.5 * digit, 1.0);
    check(1.0 + 0.501 * digit, 1.0 + digit);
    check(1.0 + 1.5 * digit, 1.0 + 2.0 * digit);
    check(-1.0 - 2.5 * digit, -1.0 - 2.0 * digit);
}

#[test]
fn what_is_not_finite_is_noticed() {
    let schema = schema(&[(400, 0), (20, 4)]);
    for precision in [Precision::F32, Precision::F16, Precision::Int8] {
        for bad in [f32::NAN, -f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
            for place in [0, 399, 400, 412] {
                let mut values = vec![1e-3; schema.len()];
                values[place] = bad;
                let bytes = encoded(&schema, &values, &[vec![3, 0]], precision);
                let view = EncodedVector::parse(&schema, &bytes).unwrap();
                assert!(!view.is_finite(), "{precision:?} {bad} at {place}");
                let found = decoded(&schema, &view)[place];
                assert!(!found.is_finite(), "{found} for {bad}");
            }
            // A row that does not count is not looked at.
            let mut values = vec![1.0; schema.len()];
            values[404] = bad;
            let bytes = encoded(&schema, &values, &[vec![3, 0]], precision);
            assert!(EncodedVector::parse(&schema, &bytes).unwrap().is_finite());
        }
    }
    // The largest float has more digits than a half, and rounded up it is beyond the floats.
    let values = vec![f32::MAX; schema.len()];
    let bytes = encoded(&schema, &values, &[vec![]], Precision::F16);
    let view = EncodedVector::parse(&schema, &bytes).unwrap();
    assert_eq!(view.is_finite(), decoded(&schema, &view).iter().all(|value| value.is_finite()));
}

#[test]
fn few_values_come_with_their_places() {
    let schema = schema(&[(12, 0), (10, 3)]);
    let mut values = vec![0.0; schema.len()];
    (values[2], values[9], values[10]) = (1.5, -0.0, -7.0);
    let sparse = encoded(&schema, &values, &[vec![]], Precision::Sparse);
    let whole = encoded(&schema, &values, &[vec![]], Precision::F32);
    assert_eq!(whole.len() - sparse.len(), 4 * 12 - 8 * 3);
    let view = EncodedVector::parse(&schema, &sparse).unwrap();
    let EncodedSection::Rows { rows, values: few } = view.section(0) else { panic!("all values came") };
    let found: Vec<(u32, u32)> =
        rows.iter().zip(few.iter()).map(|(place, value)| (place, value.to_bits())).collect();
    assert_eq!(found, [(2, 1.5f32.to_bits()), (9, (-0.0f32).to_bits()), (10, (-7.0f32).to_bits())]);
    // As many as that take more bytes with their places than all without.
    values[..7].fill(1.0);
    let many = encoded(&schema, &values, &[vec![]], Precision::Sparse);
    let many = EncodedVector::parse(&schema, &many).unwrap();
    assert!(matches!(many.section(0), EncodedSection::Dense(_)));
    // In another precision there are no such rows.
    let mut other = sparse.clone();
    other[3] = 0;
    let error = EncodedVector::parse(&schema, &other).unwrap_err().to_string();
    assert!(error.contains("has rows, expected all values"), "{error}");
}

#[test]
fn wrong_bytes_are_refused_in_words() {
    let schema = schema(&[(3, 0), (10, 3)]);
    let good = encoded(&schema, &[1.0; 33], &[vec![2, 5]], Precision::F16);
    let check = |place: usize, bytes: &[u8], expect: &str| {
        let mut bad = good.clone();
        bad[place..place + bytes.len()].copy_from_slice(bytes);
        let error = EncodedVector::parse(&schema, &bad).unwrap_err().to_string();
        assert!(error.contains(expect), "{error:?} should say {expect:?}");
    };
    check(0, b"x", "the payload does not begin as a payload does");
    check(3, &[4], "is of precision 4");
    check(4, &[3], "has 3 parts, expected 2");
    check(8, &[1], "part 0 of the payload has rows, expected all values");
    check(8, &[9], "is of kind 9");
    check(9, &[1], "has 1 in its header where 0 belongs");
    check(10, &[200, 0], "has the scale 2^200");
    check(12, &[4], "has 4 values, expected 3");
    check(22, &[1], "has something after its values");
    check(24 + 4, &[11], "part 1 of the payload has 11 rows of a table of 10");
    check(24 + 4, &[10], "has 10 rows of a table of 10, which should have been sent whole");
    check(24 + 4, &[0xFF; 4], "has 4294967295 rows");
    check(24 + 8, &[5], "has rows out of order");
    check(24 + 8, &[6], "has rows out of order");
    check(24 + 12, &[10], "has row 10 of a table that ends with row 9");
    let error = EncodedVector::parse(&schema, &good[..good.len() - 3]).unwrap_err().to_string();
    assert_eq!(error, "part 1 of the payload breaks off, at least 3 bytes are missing");
    let longer = [&good[..], &[0; 4]].concat();
    let error = EncodedVector::parse(&schema, &longer).unwrap_err().to_string();
    assert_eq!(error, "the payload has 4 bytes after its last part");
}

/// Small payloads with the schemas they belong to.
fn samples() -> Vec<(Schema, Vec<u8>)> {
    let mut chance = Chance::new("payload", 3);
    let mut samples = Vec::new();
    for schema in schemas().into_iter().filter(|schema| schema.len() < 4000) {
        for (share, precision) in
            [(0.1, Precision::F32), (0.1, Precision::F16), (0.9, Precision::F16), (0.5, Precision::Int8)]
        {
            let (values, rows) = vector(&schema, share, &mut chance);
            samples.push((schema.clone(), encoded(&schema, &values, &rows, precision)));
        }
    }
    samples
}

/// Whether bytes are a payload; if so it can be used.
fn is_read(schema: &Schema, bytes: &[u8]) -> bool {
    let Ok(view) = EncodedVector::parse(schema, bytes) else { return false };
    let finite = decoded(schema, &view).iter().all(|value| value.is_finite());
    assert_eq!(view.is_finite(), finite);
    true
}

#[test]
fn no_payload_is_read_without_its_end() {
    for (schema, bytes) in samples() {
        assert!(is_read(&schema, &bytes));
        for len in 0..bytes.len() {
            assert!(!is_read(&schema, &bytes[..len]), "{len} of {} bytes of {schema:?}", bytes.len());
        }
    }
}

#[test]
fn no_changed_byte_takes_the_program_down() {
    for (schema, mut bytes) in samples() {
        // Past these are values only, or a longer payload of the same pieces.
        for place in 0..bytes.len().min(400) {
            let good = bytes[place];
            for change in [1, 2, 0x40, 0x80, 0x7F, 0xFF] {
                bytes[place] = good ^ change;
                is_read(&schema, &bytes);
            }
            bytes[place] = good;
        }
    }
}

#[test]
fn no_bytes_take_the_program_down() {
    let samples = samples();
    let make = |chance: &mut Chance| {
        let sample = chance.below(samples.len());
        let bytes = chance.spoil(&samples[sample].1);
        // The list of the parts, or an error in words.
        ((sample, bytes), 1024)
    };
    Trial { name: "payloads", cases: 300_000 }.run(make, |(sample, bytes)| {
        EncodedVector::parse(&samples[sample].0, &bytes).is_ok_and(|view| {
            std::hint::black_box(view.is_finite());
            true
        })
    });
    let most = |sample: usize| 1024 + 4 * samples[sample].0.len();
    let make = |chance: &mut Chance| {
        let sample = chance.below(samples.len());
        ((sample, chance.spoil(&samples[sample].1)), most(sample))
    };
    Trial { name: "payloads, used", cases: 100_000 }
        .run(make, |(sample, bytes)| is_read(&samples[sample].0, &bytes));
}

#[test]
fn an_encoder_that_is_warm_needs_no_memory() {
    let schema = schema(&[(50, 3), (10, 0)]);
    let (mut encoder, mut out) = (Encoder::default(), Vec::new());
    let rows: Vec<u32> = (0..40).rev().collect();
    let mut sizes = Vec::new();
    for _ in 0..3 {
        out.clear();
        encoder.encode(&schema, &[1.0; 160], &[&rows], Precision::F16, &mut out);
        sizes.push((encoder.sorted.capacity(), out.capacity(), out.as_ptr()));
    }
    assert_eq!(sizes[1], sizes[2]);
}

#[test]
#[should_panic(expected = "it should begin at 4")]
fn a_form_has_no_gaps() {
    Schema::new(vec![Section::Dense { range: 0..4 }, Section::Dense { range: 5..6 }]);
}

#[test]
#[should_panic(expected = "is not rows of 3")]
fn a_table_has_whole_rows() {
    Schema::new(vec![Section::Rows { range: 0..4, width: 3 }]);
}

#[test]
#[should_panic(expected = "must be listed once")]
fn a_row_is_listed_once() {
    encoded(&schema(&[(9, 9)]), &[0.0; 81], &[vec![3, 1, 3]], Precision::F32);
}
