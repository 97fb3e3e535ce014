//! Who is let in, and what others hear.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::{Duration, Instant};

use bonfire_wire::proto::{self, Hello};
use bonfire_wire::{
    Body, ConnectErrorKind, ConnectSecurity, Fingerprint, Frame, Incoming, Secret, Timeouts, Wire,
};
use bytes::{BufMut, Bytes, BytesMut};
use http::{Request, StatusCode};
use prost::Message;

use crate::{DEADLINE, Hall, TIMEOUTS, Transport, inbox};

const LENIENT: Timeouts = TIMEOUTS;

/// Why there is no link, by the kind of the error and by its text.
fn refused(
    wire: &Wire,
    address: &str,
    security: ConnectSecurity,
    secret: &Secret,
) -> (ConnectErrorKind, String) {
    let start = Instant::now();
    let timeouts = Timeouts { handshake: Duration::from_secs(5), ..TIMEOUTS };
    let error = wire.connect(address, security, secret, timeouts, inbox().0).unwrap_err();
    assert!(start.elapsed() < Duration::from_secs(8));
    let text = error.to_string();
    assert!(text.contains(address), "{text}");
    (error.kind, text)
}

#[test]
fn a_wrong_secret_is_refused() {
    for transport in [Transport::Plain, Transport::Tls] {
        let hall = Hall::open(transport, LENIENT);
        let wrong = Secret::generate().unwrap();
        for _ in 0..3 {
            let (kind, _) = refused(&hall.wire, &hall.address(), hall.security, &wrong);
            assert_eq!(kind, ConnectErrorKind::WrongSecret, "{transport:?}");
        }
        // It is told once.
        assert_eq!(hall.strangers.recv_timeout(DEADLINE).unwrap(), "showed a wrong secret");
        assert!(hall.strangers.try_recv().is_err() && hall.guests.try_recv().is_err());
        // Others still come in.
        let _ = hall.link(inbox().0, inbox().0);
    }
}

#[test]
fn another_certificate_is_refused() {
    let hall = Hall::open(Transport::Tls, LENIENT);
    let other = ConnectSecurity::Tls(Fingerprint::from([1; 32]));
    let (kind, text) = refused(&hall.wire, &hall.address(), other, &hall.secret);
    assert_eq!(kind, ConnectErrorKind::OtherCertificate);
    assert!(text.contains("another run"), "{text}");
    let reported = hall.strangers.recv_timeout(DEADLINE).unwrap();
    assert!(reported.starts_with("did not accept the certificate"), "{reported}");
}

#[test]
fn both_must_agree_on_tls() {
    let encrypted = Hall::open(Transport::Tls, LENIENT);
    let plain = Hall::open(Transport::Plain, LENIENT);
    for (hall, security) in [(&encrypted, plain.security), (&plain, encrypted.security)] {
        let (kind, text) = refused(&hall.wire, &hall.address(), security, &hall.secret);
        assert!(matches!(kind, ConnectErrorKind::NotBonfire(_)), "{text}");
        let reported = hall.strangers.recv_timeout(DEADLINE).unwrap();
        assert!(reported.starts_with("did not speak"), "{reported}");
    }
}

#[test]
fn nobody_there_is_unreachable() {
    let wire = Wire::start().unwrap();
    let secret = Secret::generate().unwrap();
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    for address in [&free[..], "no.such.host.invalid:1", "no port"] {
        let (kind, text) = refused(&wire, address, ConnectSecurity::Plain, &secret);
        assert!(matches!(kind, ConnectErrorKind::Unreachable(_)), "{address}: {text}");
    }
}

#[test]
fn someone_who_never_answers_is_unreachable_in_time() {
    let mute = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = mute.local_addr().unwrap().to_string();
    let wire = Wire::start().unwrap();
    let timeouts = Timeouts { handshake: Duration::from_millis(300), ..TIMEOUTS };
    for security in [ConnectSecurity::Plain, ConnectSecurity::Tls(Fingerprint::from([1; 32]))] {
        let secret = Secret::generate().unwrap();
        let error = wire.connect(&address, security, &secret, timeouts, inbox().0).unwrap_err();
        assert_eq!(error.to_string(), format!("cannot reach {address}: no answer within 0.3 s"));
    }
}

#[test]
fn random_bytes_are_turned_away() {
    for transport in [Transport::Plain, Transport::Tls] {
        let hall = Hall::open(transport, LENIENT);
        let mut stream = TcpStream::connect(hall.address()).unwrap();
        stream.set_read_timeout(Some(DEADLINE)).unwrap();
        let bytes: Vec<u8> = (0..100_000u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
        // The other side may hang up before it has all.
        let _ = stream.write_all(&bytes);
        let reported = hall.strangers.recv_timeout(DEADLINE).unwrap();
        assert!(reported.starts_with("did not speak"), "{transport:?}: {reported}");
        let _ = hall.link(inbox().0, inbox().0);
    }
}

#[test]
fn who_says_nothing_is_dropped() {
    for transport in [Transport::Plain, Transport::Tls] {
        let timeouts = Timeouts { handshake: Duration::from_millis(300), ..TIMEOUTS };
        let hall = Hall::open(transport, timeouts);
        let mut stream = TcpStream::connect(hall.address()).unwrap();
        stream.set_read_timeout(Some(DEADLINE)).unwrap();
        let end = stream.read_to_end(&mut Vec::new());
        assert!(end.is_ok(), "{transport:?}: {end:?}");
        let reported = hall.strangers.recv_timeout(DEADLINE).unwrap();
        assert_eq!(reported, "did not finish the handshake in time", "{transport:?}");
    }
}

#[test]
fn many_who_say_nothing_do_not_keep_others_out() {
    for transport in [Transport::Plain, Transport::Tls] {
        // Nobody is dropped for being slow: there is room because the oldest give way.
        let timeouts = Timeouts { handshake: Duration::from_secs(600), ..TIMEOUTS };
        let hall = Hall::open(transport, timeouts);
        let mute: Vec<_> = (0..400).map(|_| TcpStream::connect(hall.address()).unwrap()).collect();
        let start = Instant::now();
        for _ in 0..10 {
            let _ = hall.link_by(&hall.address(), TIMEOUTS, inbox().0, inbox().0);
        }
        assert!(start.elapsed() < Duration::from_secs(5), "{transport:?}: {:?}", start.elapsed());
        let reported = hall.strangers.recv_timeout(DEADLINE).unwrap();
        assert_eq!(reported, "had to make room for others before it finished the handshake");
        // All others are told in a sum.
        hall.listener.sum_up();
        let reported = hall.strangers.recv_timeout(DEADLINE).unwrap();
        let more: u64 = reported.split_whitespace().rev().nth(3).unwrap().parse().unwrap();
        assert!((400 - 64 - 1..400).contains(&more), "{transport:?}: {reported}");
        assert!(hall.strangers.try_recv().is_err());
        drop(mute);
    }
}

/// Calls as any gRPC program would, without this crate's own framing. Returns the status, the answers and the
/// gRPC status.
fn foreign_call(
    hall: &Hall,
    path: &str,
    bearer: Option<&str>,
    messages: &[Bytes],
) -> (StatusCode, Bytes, String) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let call = async {
        let tcp = tokio::net::TcpStream::connect(hall.address()).await.unwrap();
        let (mut caller, connection) = h2::client::handshake(tcp).await.unwrap();
        tokio::spawn(connection);
        let mut request = Request::post(format!("http://head{path}"))
            .header("content-type", "application/grpc+proto")
            .header("te", "trailers");
        if let Some(bearer) = bearer {
            request = request.header("authorization", bearer);
        }
        let (response, mut sending) = caller.send_request(request.body(()).unwrap(), false).unwrap();
        for message in messages {
            let _ = sending.send_data(message.clone(), false);
        }
        let _ = sending.send_data(Bytes::new(), true);
        let (head, mut body) = response.await.unwrap().into_parts();
        let mut answers = BytesMut::new();
        while let Some(Ok(data)) = body.data().await {
            answers.extend_from_slice(&data);
        }
        let trailers = body.trailers().await.unwrap().unwrap_or(head.headers);
        let status = trailers.get("grpc-status").map(|status| status.to_str().unwrap().to_owned());
        (head.status, answers.freeze(), status.unwrap_or_default())
    };
    runtime.block_on(async { tokio::time::timeout(DEADLINE, call).await.unwrap() })
}

/// A frame as any gRPC program puts it on the wire.
pub(crate) fn message(frame: &proto::Frame) -> Bytes {
    let mut bytes = BytesMut::new();
    bytes.put_u8(0);
    bytes.put_u32(frame.encoded_len() as u32);
    frame.encode(&mut bytes).unwrap();
    bytes.freeze()
}

#[test]
fn other_calls_get_a_status() {
    let hall = Hall::open(Transport::Plain, LENIENT);
    let check = |path, bearer, expect: &str, report: &str| {
        let (status, answers, grpc) = foreign_call(&hall, path, bearer, &[]);
        assert_eq!((status, answers.len(), &grpc[..]), (StatusCode::OK, 0, expect), "{path}");
        assert_eq!(hall.strangers.recv_timeout(DEADLINE).unwrap(), report);
    };
    check("/bonfire.v1.Fire/Other", None, "12", "made a call that is not known here");
    check("/bonfire.v1.Fire/Link", None, "16", "showed no secret");
    check("/bonfire.v1.Fire/Link", Some("Bearer x"), "16", "showed a wrong secret");
}

#[test]
fn any_grpc_program_can_call() {
    let secret = Secret::from([0; 16]);
    let bearer = format!("Bearer {}", "A".repeat(22));
    let hall = Hall::open(Transport::Plain, LENIENT);
    let wire = Wire::start().unwrap();
    let accept = |_, outbox: bonfire_wire::Outbox| {
        let sink: bonfire_wire::Sink = Box::new(move |incoming: Incoming| {
            if let Incoming::Frame(frame) = incoming {
                outbox.send(frame).unwrap();
            }
        });
        sink
    };
    let listener = wire
        .listen("127.0.0.1:0", bonfire_wire::ListenSecurity::Plain, &secret, LENIENT, accept, |_, _| {})
        .unwrap();
    let hall = Hall { wire, listener, secret, ..hall };
    let hello = proto::Frame {
        body: Some(Body::Hello(Hello { node: 3, generation: 4 })),
        payload: Bytes::from_static(b"12345"),
    };
    let frame = message(&hello);
    // Cut anywhere, and two at once.
    let parts = [frame.slice(..3), frame.slice(3..9), [&frame[9..], &frame[..]].concat().into()];
    let (status, answers, grpc) = foreign_call(&hall, "/bonfire.v1.Fire/Link", Some(&bearer), &parts);
    assert_eq!((status, &grpc[..]), (StatusCode::OK, "0"));
    assert_eq!(answers, [&frame[..], &frame[..]].concat());
    let wire_len = Frame { body: hello.body.clone().unwrap(), payload: hello.payload.clone() }.wire_len();
    assert_eq!(wire_len, frame.len());

    for (bytes, expect) in [
        (Bytes::from_static(&[0, 0, 0, 0, 0]), "3"),
        (Bytes::from_static(&[0, 0xff, 0, 0, 0]), "8"),
        (Bytes::from_static(&[1, 0, 0, 0, 0]), "3"),
    ] {
        let (_, answers, grpc) = foreign_call(&hall, "/bonfire.v1.Fire/Link", Some(&bearer), &[bytes]);
        assert_eq!((answers.len(), &grpc[..]), (0, expect));
    }
}
