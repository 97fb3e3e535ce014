//! Strangers that speak HTTP/2 well enough to abuse it. None of them has the secret.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use bonfire_spoil::{Chance, Trial};
use bonfire_wire::{Incoming, ListenSecurity, Outbox, Secret, Sink, Timeouts, proto};
use bytes::Bytes;

use crate::door::message;
use crate::{DEADLINE, Hall, TIMEOUTS, Transport, closed, inbox, next, piece};

const TOO_MUCH: &str = "said too much before it showed a secret";

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RESET: u8 = 3;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const WINDOW_UPDATE: u8 = 8;
const CONTINUATION: u8 = 9;
const END_HEADERS: u8 = 4;

/// A frame of HTTP/2.
fn frame(kind: u8, flags: u8, stream: u32, content: &[u8]) -> Vec<u8> {
    let mut bytes = (content.len() as u32).to_be_bytes()[1..].to_vec();
    bytes.extend([kind, flags]);
    bytes.extend(stream.to_be_bytes());
    bytes.extend(content);
    bytes
}

/// Headers, each spelled out.
fn headers(fields: &[(&str, &str)]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (name, value) in fields {
        bytes.push(0);
        for text in [name, value] {
            assert!(text.len() < 127, "a length of one byte");
            bytes.push(text.len() as u8);
            bytes.extend(text.as_bytes());
        }
    }
    bytes
}

const CALL: [(&str, &str); 5] = [
    (":method", "POST"),
    (":scheme", "http"),
    (":path", "/bonfire.v1.Fire/Link"),
    (":authority", "head"),
    ("content-type", "application/grpc"),
];

/// A call on a stream, without a secret.
fn call(stream: u32) -> Vec<u8> {
    frame(HEADERS, END_HEADERS, stream, &headers(&CALL))
}

/// Says all of this after HTTP/2's greeting, again and again up to so many bytes. The listener must hang up, within a
/// few seconds although a handshake may take a minute, and say why; others must come in meanwhile.
#[track_caller]
fn check(what: &str, opening: &[u8], again: &[u8], expect: &[&str]) {
    let timeouts = Timeouts { handshake: Duration::from_secs(60), ..TIMEOUTS };
    let hall = Hall::open(Transport::Plain, timeouts);
    let mut stream = TcpStream::connect(hall.address()).unwrap();
    stream.set_read_timeout(Some(DEADLINE)).unwrap();
    let begun = Instant::now();
    let greeting = [PREFACE, &frame(SETTINGS, 0, 0, &[]), opening].concat();
    let mut said = greeting.len();
    let mut hung_up = stream.write_all(&greeting).is_err();
    let many = again.repeat(1 + 4096 / again.len());
    while !hung_up && said < 8 << 20 {
        hung_up = stream.write_all(&many).is_err();
        said += many.len();
    }
    // Reads what there is to be read, so that nothing but the listener ends this.
    let end = stream.read_to_end(&mut Vec::new());
    assert!(end.is_ok() || hung_up, "{what}: {end:?}");
    assert!(hung_up, "{what}: it listened to {said} bytes");
    assert!(begun.elapsed() < Duration::from_secs(10), "{what}: {:?}", begun.elapsed());
    let reported = hall.strangers.recv_timeout(DEADLINE).unwrap();
    assert!(expect.contains(&&reported[..]), "{what}: {reported}");
    let _ = hall.link(inbox().0, inbox().0);
}

#[test]
fn floods_end_after_a_few_kilobytes() {
    let (too_much, no_call) = (&[TOO_MUCH], &["did not call"]);
    check("pings", &[], &frame(PING, 0, 0, &[7; 8]), too_much);
    check("settings", &[], &frame(SETTINGS, 0, 0, &[]), too_much);
    check("windows", &[], &frame(WINDOW_UPDATE, 0, 0, &[0, 0, 0, 1]), too_much);
    // Headers that never end, and one that is too long for its frame to be waited for.
    let endless = frame(HEADERS, 0, 1, &headers(&[("a", "b")]));
    check("endless headers", &endless, &frame(CONTINUATION, 0, 1, &[]), no_call);
    let filler = headers(&[("x-filler", &"x".repeat(100))]);
    check("long headers", &endless, &frame(CONTINUATION, 0, 1, &filler.repeat(9)), no_call);
    let vast = &[&[0xf, 0xff, 0xff, HEADERS, END_HEADERS, 0, 0, 0, 1][..], &[0; 100]].concat();
    check("a vast frame", vast, &[0; 100], too_much);
    check("a frame beyond all limits", &[0xff, 0xff, 0xff, DATA, 0, 0, 0, 0, 1], &[0; 100], no_call);
}

#[test]
fn floods_after_a_call_without_a_secret_end_too() {
    // All of it may be here before the call is looked at.
    let check =
        |what, again: &[u8]| check(what, &call(1), again, &["showed no secret", TOO_MUCH, "did not call"]);
    check("data", &frame(DATA, 0, 1, &[0; 1000]));
    check("many small data", &frame(DATA, 0, 1, &[0]));
    check("empty data", &frame(DATA, 0, 1, &[]));
    check("pings", &frame(PING, 0, 0, &[7; 8]));
    let resets: Vec<u8> = (3..400u32)
        .step_by(2)
        .flat_map(|stream| [call(stream), frame(RESET, 0, stream, &[0, 0, 0, 8])].concat())
        .collect();
    check("rapid resets", &resets);
    let streams: Vec<u8> = (3..400u32).step_by(2).flat_map(call).collect();
    check("many streams", &streams);
}

/// What HTTP/2 takes for an attack from a stranger is what a member of a group may do while the head is busy.
#[test]
fn many_small_frames_for_a_busy_sink_are_no_attack() {
    const FRAMES: u32 = 100_000;
    let hall = Hall::open(Transport::Plain, TIMEOUTS);
    let (open, gate) = channel::<()>();
    let (mut send, came) = inbox();
    let mut is_busy = true;
    let sink = Box::new(move |incoming: Incoming| {
        if std::mem::take(&mut is_busy) {
            let _ = gate.recv_timeout(DEADLINE);
        }
        send.take(incoming);
    });
    let (a, _b) = hall.link(inbox().0, sink);
    (0..FRAMES).for_each(|step| a.send(piece(step, Bytes::new())).unwrap());
    open.send(()).unwrap();
    (0..FRAMES).for_each(|step| assert_eq!(next(&came).0, step));
    a.close();
    assert_eq!(closed(&came), "the other side closed the link");
}

#[test]
fn who_speaks_too_slowly_is_dropped() {
    for transport in [Transport::Plain, Transport::Tls] {
        let timeouts = Timeouts { handshake: Duration::from_millis(500), ..TIMEOUTS };
        let hall = Hall::open(transport, timeouts);
        let mut stream = TcpStream::connect(hall.address()).unwrap();
        let begun = Instant::now();
        // The beginning of a greeting of TLS, or of HTTP/2, by the byte.
        let tls = [&[22, 3, 1, 2, 0, 1, 0, 1, 0xfc, 3, 3][..], &[5; 200]].concat();
        let text = if transport == Transport::Tls { &tls[..] } else { PREFACE };
        for byte in text.iter().cycle() {
            if stream.write_all(&[*byte]).is_err() {
                break;
            }
            // How slow it is, is what is tested.
            std::thread::sleep(Duration::from_millis(20));
            assert!(
                begun.elapsed() < Duration::from_secs(5),
                "{transport:?}: it has all the time in the world"
            );
        }
        let reported = hall.strangers.recv_timeout(DEADLINE).unwrap();
        let expect = ["did not finish the handshake in time", "did not speak HTTP/2"];
        assert!(expect.contains(&&reported[..]), "{transport:?}: {reported}");
    }
}

/// What a peer might say from its greeting to its last frame, with something wrong in it.
fn conversation(chance: &mut Chance, bearer: &str) -> Vec<u8> {
    let fields = [&CALL[..], &[("authorization", bearer)]].concat();
    let mut parts =
        vec![PREFACE.to_vec(), frame(SETTINGS, 0, 0, &[]), frame(HEADERS, END_HEADERS, 1, &headers(&fields))];
    for step in 0..chance.below(4) {
        let len = chance.below(300);
        let whole = proto::Frame {
            body: Some(piece(step as u32, Bytes::new()).body),
            payload: chance.bytes(len).into(),
        };
        parts.push(frame(DATA, 0, 1, &message(&whole)));
    }
    for _ in 0..1 + chance.below(2) {
        // Of most cases only one part is wrong, so that the others are reached.
        let place = chance.below(parts.len());
        parts[place] = chance.spoil(&parts[place]);
    }
    parts.concat()
}

/// Through a real listener and real sockets. What a case costs in memory is not measured here, as other threads pay for
/// it.
#[test]
fn no_conversation_takes_the_listener_down() {
    let hall = Hall::open(Transport::Plain, TIMEOUTS);
    let (wire, secret) = (&hall.wire, Secret::from([0; 16]));
    let frames = Arc::new(AtomicU64::new(0));
    let heard = Arc::clone(&frames);
    let accept = move |_, _: Outbox| {
        let heard = Arc::clone(&heard);
        let sink: Sink = Box::new(move |incoming: Incoming| {
            if matches!(incoming, Incoming::Frame(_)) {
                heard.fetch_add(1, Ordering::Relaxed);
            }
        });
        sink
    };
    let timeouts =
        Timeouts { handshake: Duration::from_millis(500), silence: Duration::from_millis(500), ..TIMEOUTS };
    let listener =
        wire.listen("127.0.0.1:0", ListenSecurity::Plain, &secret, timeouts, accept, |_, _| {}).unwrap();
    let address = listener.local_addr();
    let bearer = format!("Bearer {}", "A".repeat(22));
    Trial { name: "conversations", cases: 2_000 }.run(
        |chance| (conversation(chance, &bearer), usize::MAX),
        |bytes| {
            let mut stream = TcpStream::connect(address).unwrap();
            stream.set_read_timeout(Some(DEADLINE)).unwrap();
            let before = frames.load(Ordering::Relaxed);
            let _ = stream.write_all(&bytes);
            let _ = stream.shutdown(Shutdown::Write);
            // A reset is an end, too.
            let _ = stream.read_to_end(&mut Vec::new());
            frames.load(Ordering::Relaxed) > before
        },
    );
    let (to_a, from_b) = inbox();
    let a = wire.connect(&address.to_string(), hall.security, &secret, TIMEOUTS, to_a).unwrap();
    a.send(piece(1, Bytes::new())).unwrap();
    a.close();
    closed(&from_b);
}
