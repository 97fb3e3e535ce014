use super::*;
use crate::proto::{Group, Hello, Peer, Piece};
use bonfire_spoil::{Chance, Trial};

const LIMIT: usize = 1 << 20;

fn decoder() -> Decoder {
    Decoder::new(PayloadPool::default())
}

fn wire(frame: &Frame) -> Vec<u8> {
    [&frame.encode_head()[..], &frame.payload].concat()
}

/// A message with its gRPC prefix.
fn prefixed(message: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0];
    bytes.extend((message.len() as u32).to_be_bytes());
    bytes.extend(message);
    bytes
}

fn frames() -> Vec<Frame> {
    let peer = Peer { node: 7, name: "a".repeat(300), address: "b:1".to_owned(), fingerprint: Bytes::new() };
    vec![
        Frame::bare(Body::Hello(Hello { node: 1, generation: 2 })),
        Frame { body: Body::Piece(Piece::default()), payload: Bytes::from_static(b"abcdefg") },
        Frame { body: Body::Piece(Piece::default()), payload: Bytes::from(vec![9; 100_000]) },
        Frame::bare(Body::Group(Group { members: vec![peer; 3], ..Group::default() })),
    ]
}

#[test]
fn frames_are_what_generated_code_makes_of_them() {
    for frame in frames() {
        let message = proto::Frame { body: Some(frame.body.clone()), payload: frame.payload.clone() };
        assert_eq!(wire(&frame), prefixed(&message.encode_to_vec()));
        assert_eq!(wire(&frame).len(), frame.wire_len());
    }
}

#[test]
fn frames_come_back_however_they_are_cut() {
    let sent = frames();
    let all: Vec<u8> = sent.iter().flat_map(wire).collect();
    for size in [1, 2, 3, 7, 100, 4096, all.len()] {
        let mut decoder = decoder();
        let mut came = Vec::new();
        for chunk in all.chunks(size) {
            let mut chunk = Bytes::copy_from_slice(chunk);
            while let Some((frame, len)) = decoder.next(&mut chunk, LIMIT).unwrap() {
                assert_eq!(len, frame.wire_len());
                came.push(frame);
            }
        }
        assert_eq!(came, sent, "in pieces of {size}");
        assert!(decoder.is_between_frames());
    }
}

#[test]
fn only_a_large_piece_that_came_whole_stays_where_it_came() {
    let check = |body: Body, len: usize, cut: usize, expect: bool| {
        let bytes = Bytes::from(wire(&Frame { body, payload: Bytes::from(vec![3; len]) }));
        let (mut first, mut second) = (bytes.slice(..bytes.len() - cut), bytes.slice(bytes.len() - cut..));
        let mut decoder = decoder();
        let mut frame = decoder.next(&mut first, LIMIT).unwrap();
        if frame.is_none() {
            frame = decoder.next(&mut second, LIMIT).unwrap();
        }
        let payload = frame.unwrap().0.payload;
        assert_eq!(payload, vec![3; len]);
        assert_eq!(bytes.as_ptr_range().contains(&payload.as_ptr()), expect, "{len} bytes, cut at {cut}");
    };
    let piece = || Body::Piece(Piece { step: 1, ..Piece::default() });
    check(piece(), SHARED_BYTES, 0, true);
    check(piece(), SHARED_BYTES - 1, 0, false);
    check(piece(), SHARED_BYTES, 1, false);
    check(Body::Push(proto::Push::default()), SHARED_BYTES, 0, false);
}

#[test]
fn what_is_no_frame_is_refused_before_it_costs_memory() {
    let check = |bytes: &[u8], expect: &str| {
        let mut decoder = decoder();
        let result = decoder.next(&mut Bytes::copy_from_slice(bytes), LIMIT);
        let refused = result.map(|_| ()).unwrap_err().to_string();
        assert!(refused.contains(expect), "{bytes:?}: {refused}");
    };
    let payload_key = [0xfa, 0x7f];
    check(&[1, 0, 0, 0, 0], "compressed");
    check(&[0, 0xff, 0xff, 0xff, 0xff], "4294967295 bytes");
    check(&prefixed(&[]), "says nothing");
    check(&prefixed(&[&payload_key[..], &[3, 1, 2, 3]].concat()), "says nothing");
    // Lengths that do not fit.
    check(&prefixed(&[0x0a, 5, 1]), "longer than the frame");
    check(&prefixed(&[0x09, 1, 2]), "longer than the frame");
    check(&prefixed(&[0x0a, 0x80]), "longer than the frame");
    check(
        &prefixed(&[&payload_key[..], &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1]].concat()),
        "longer",
    );
    check(&prefixed(&[0xff; 20]), "does not end");
    // Groups and kinds that do not exist.
    for kind in [3, 4, 6, 7] {
        check(&prefixed(&[0x08 | kind, 0]), "no known kind");
    }
    // A body whose content is no message.
    check(&prefixed(&[0x0a, 2, 0xff, 0xff]), "do not parse");
    let too_large = Frame { body: Body::Piece(Piece::default()), payload: Bytes::from(vec![0; LIMIT + 1]) };
    check(&wire(&too_large)[..20], "1048577 bytes where at most 1048576");
    let chatty = Frame::bare(Body::Refused(proto::Refused { reason: "x".repeat(MAX_CONTROL_BYTES) }));
    check(&wire(&chatty), "where at most");
}

#[test]
fn unknown_fields_are_skipped_and_the_last_payload_counts() {
    let body =
        proto::Frame { body: Some(Body::Hello(Hello { node: 5, generation: 0 })), payload: Bytes::new() };
    let mut message = vec![0x98, 0x06, 0xff, 0x01]; // 99, a number
    message.extend([0x9d, 0x06, 1, 2, 3, 4]); // 99, four bytes
    message.extend([0x99, 0x06, 1, 2, 3, 4, 5, 6, 7, 8]); // 99, eight bytes
    message.extend([0xfa, 0x7f, 2, 1, 1]);
    message.extend([0x9a, 0x06, 2, 1, 2]); // 99, bytes
    message.extend(body.encode_to_vec());
    message.extend([0xfa, 0x7f, 3, 4, 5, 6]);
    let (frame, _) = decoder().next(&mut prefixed(&message).into(), LIMIT).unwrap().unwrap();
    assert_eq!(frame.body, Body::Hello(Hello { node: 5, generation: 0 }));
    assert_eq!(&frame.payload[..], [4, 5, 6]);
}

/// A message of any kind, with numbers as a peer might make them up.
fn body(chance: &mut Chance) -> Body {
    let mut number = || chance.number();
    let unit = proto::Unit { epoch: number(), index: number() as u32 };
    let tally = proto::Tally {
        loss: 0.5,
        weight: 0.5,
        answers: number(),
        correct: number(),
        samples: number(),
        words: number(),
    };
    let peer =
        Peer { node: number(), name: "n".to_owned(), address: "a:1".to_owned(), fingerprint: Bytes::new() };
    let (order, round, generation) = (number(), number(), number());
    let (many, text, payload) = (chance.below(5), chance.text(), chance.bytes(3).into());
    match chance.below(12) {
        0 => Body::Join(proto::Join { name: text, cores: 3, fingerprint: payload, ..proto::Join::default() }),
        1 => Body::Push(proto::Push {
            order,
            tally: Some(tally),
            units: vec![unit; many],
            ..proto::Push::default()
        }),
        2 => Body::Go(proto::Go {
            order: (many > 0).then_some(order),
            units: vec![unit; many],
            lr: 0.5,
            ..proto::Go::default()
        }),
        3 => Body::Group(Group { generation, members: vec![peer; many], round, ..Group::default() }),
        4 => Body::Piece(Piece { generation, round, ..Piece::default() }),
        5 => Body::State(proto::State { round, steps: order, moments: many as u32, offset: 7 }),
        6 => Body::Trouble(proto::Trouble { reason: text, unreachable: 0, sample: Some(order) }),
        7 => Body::Welcome(proto::Welcome { node: order, run_file: text, ..proto::Welcome::default() }),
        8 => Body::Fetch(proto::Fetch { offset: order }),
        9 => Body::GroupRound(proto::GroupRound {
            generation,
            round,
            tally: Some(tally),
            ..proto::GroupRound::default()
        }),
        10 => Body::Assignment(proto::Assignment {
            role: Some(proto::assignment::Role::Relay(proto::Relay { is_async: true, workers: many as u32 })),
            threads: order as u32,
            samples: order,
        }),
        _ => Body::Hello(Hello { node: order, generation }),
    }
}

/// Some frames one after the other, damaged, in pieces, and the largest payload that is accepted.
fn stream(chance: &mut Chance) -> (Vec<Bytes>, usize) {
    let limit = *chance.pick(&[0, 100, 5000, 64 << 10, 300 << 10]);
    let mut bytes = Vec::new();
    for _ in 0..1 + chance.below(3) {
        let len = if chance.percent(1) { 70_000 } else { chance.below(60) };
        let payload = chance.bytes(len).into();
        bytes.extend(wire(&Frame { body: body(chance), payload }));
    }
    let mut bytes = if chance.percent(90) { chance.spoil(&bytes) } else { bytes };
    if chance.percent(30) && bytes.len() > 5 {
        // A length that fits, so that what is in the frame is looked at.
        let len = (bytes.len() - 5) as u32;
        bytes[0] = 0;
        bytes[1..5].copy_from_slice(&len.to_be_bytes());
    }
    let mut bytes = Bytes::from(bytes);
    let mut pieces = Vec::new();
    while !bytes.is_empty() {
        let len = if chance.percent(50) { bytes.len() } else { 1 + chance.below(bytes.len()) };
        pieces.push(bytes.split_to(len));
    }
    (pieces, limit)
}

#[test]
fn any_bytes_are_survived() {
    let make = |chance: &mut Chance| {
        let (pieces, limit) = stream(chance);
        let len: usize = pieces.iter().map(Bytes::len).sum();
        // A payload's memory is taken once its length is known to be accepted, in powers of two. The smallest part of a
        // message, two bytes, is a peer of a group without anything: a hundred bytes, of which half as many may be
        // spare.
        let most = (2 * limit).max(4 << 10) + 192 * len + (16 << 10);
        ((pieces, limit), most)
    };
    Trial { name: "frames", cases: 100_000 }.run(make, |(pieces, limit)| {
        let mut decoder = decoder();
        for mut piece in pieces {
            loop {
                match decoder.next(&mut piece, limit) {
                    Ok(Some((frame, _))) => assert!(frame.payload.len() <= limit),
                    Ok(None) => break,
                    Err(_) => return false,
                }
            }
        }
        true
    });
}
