//! How a link ends when nobody ends it.

use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

use bonfire_wire::{Closed, Identity, Incoming, ListenSecurity, Timeouts, Wire};
use bytes::Bytes;

use crate::proxy::Proxy;
use crate::{DEADLINE, Hall, TIMEOUTS, Transport, closed, inbox, next, piece};

const NETWORKS: [Transport; 2] = [Transport::Plain, Transport::Tls];

#[test]
fn a_peer_that_is_gone_shows_at_once() {
    for transport in NETWORKS {
        let hall = Hall::open(transport, TIMEOUTS);
        let elsewhere = Wire::start().unwrap();
        let ((to_a, from_b), (to_b, from_a)) = (inbox(), inbox());
        let a = elsewhere.connect(&hall.address(), hall.security, &hall.secret, TIMEOUTS, to_a).unwrap();
        let (b, give) = hall.guests.recv_timeout(DEADLINE).unwrap();
        assert!(give.send(to_b).is_ok());
        a.send(piece(1, Bytes::new())).unwrap();
        assert_eq!(next(&from_a).0, 1);
        let start = Instant::now();
        drop(elsewhere);
        assert_eq!(closed(&from_a), "the connection closed", "{transport:?}");
        assert_eq!(closed(&from_b), "the connection closed", "{transport:?}");
        assert!(start.elapsed() < Duration::from_secs(2));
        assert_eq!(b.send(piece(1, Bytes::new())), Err(Closed));
    }
}

#[test]
fn a_peer_that_stands_still_is_silent() {
    for transport in NETWORKS {
        let timeouts = Timeouts { silence: Duration::from_millis(500), ..TIMEOUTS };
        let hall = Hall::open(transport, timeouts);
        let proxy = Proxy::to(hall.listener.local_addr());
        let ((to_a, from_b), (to_b, from_a)) = (inbox(), inbox());
        let (a, _b) = hall.link_by(&proxy.address().to_string(), timeouts, to_a, to_b);
        a.send(piece(1, Bytes::new())).unwrap();
        assert_eq!(next(&from_a).0, 1);
        // As long as the other side is only quiet, nothing happens.
        let quiet = from_a.recv_timeout(Duration::from_millis(1500));
        assert!(matches!(quiet, Err(RecvTimeoutError::Timeout)), "{transport:?}: {quiet:?}");
        let start = Instant::now();
        proxy.freeze();
        assert_eq!(closed(&from_a), "silent for 0.5 s", "{transport:?}");
        assert_eq!(closed(&from_b), "silent for 0.5 s", "{transport:?}");
        assert!(start.elapsed() < Duration::from_millis(1500), "{transport:?}: {:?}", start.elapsed());
    }
}

#[test]
fn a_sink_that_computes_is_not_silent() {
    for transport in NETWORKS {
        let timeouts = Timeouts { silence: Duration::from_millis(300), ..TIMEOUTS };
        let hall = Hall::open(transport, timeouts);
        let (open, gate) = channel::<()>();
        let (mut send, came) = inbox();
        let mut computes = true;
        let sink = Box::new(move |incoming: Incoming| {
            if std::mem::take(&mut computes) {
                let _ = gate.recv_timeout(DEADLINE);
            }
            send.take(incoming);
        });
        let (to_a, from_b) = inbox();
        let (a, _b) = hall.link_by(&hall.address(), timeouts, to_a, sink);
        a.send(piece(1, Bytes::new())).unwrap();
        let quiet = from_b.recv_timeout(Duration::from_millis(1200));
        assert!(matches!(quiet, Err(RecvTimeoutError::Timeout)), "{transport:?}: {quiet:?}");
        a.send(piece(2, Bytes::new())).unwrap();
        open.send(()).unwrap();
        assert_eq!((next(&came).0, next(&came).0), (1, 2), "{transport:?}");
    }
}

#[test]
fn patience_with_a_peer_that_takes_nothing_ends() {
    let timeouts = Timeouts { patience: Duration::from_millis(300), ..TIMEOUTS };
    let hall = Hall::open(Transport::Plain, TIMEOUTS);
    let (_open, gate) = channel::<()>();
    let (to_a, from_b) = inbox();
    let blocked = Box::new(move |_: Incoming| {
        let _ = gate.recv_timeout(DEADLINE);
    });
    let (a, b) = hall.link_by(&hall.address(), timeouts, to_a, blocked);
    b.accept_payloads_up_to(1 << 20);
    let payload = Bytes::from(vec![0; 1 << 20]);
    for step in 0..64 {
        a.send(piece(step, payload.clone())).unwrap();
    }
    assert_eq!(closed(&from_b), "took no frame for 0.3 s");
    assert_eq!(a.send(piece(64, payload)), Err(Closed));
}

/// Bytes that tell when they are dropped.
struct Payload {
    bytes: Vec<u8>,
    _held: Sender<()>,
}

impl AsRef<[u8]> for Payload {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

#[test]
fn aborting_drops_what_waits() {
    for transport in NETWORKS {
        let hall = Hall::open(transport, TIMEOUTS);
        let (_open, gate) = channel::<()>();
        let (begun, begins) = channel();
        let blocked = Box::new(move |_: Incoming| {
            let _ = begun.send(());
            let _ = gate.recv_timeout(DEADLINE);
        });
        let (to_a, from_b) = inbox();
        let (a, b) = hall.link(to_a, blocked);
        b.accept_payloads_up_to(1 << 20);
        let (held, dropped) = channel();
        let payload = Bytes::from_owner(Payload { bytes: vec![0; 1 << 20], _held: held });
        for step in 0..64 {
            a.send(piece(step, payload.clone())).unwrap();
        }
        drop(payload);
        begins.recv_timeout(DEADLINE).unwrap();
        let start = Instant::now();
        a.abort("no longer");
        assert_eq!(a.send(piece(64, Bytes::new())), Err(Closed), "{transport:?}");
        assert_eq!(closed(&from_b), "no longer", "{transport:?}");
        assert_eq!(dropped.recv_timeout(DEADLINE), Err(RecvTimeoutError::Disconnected), "{transport:?}");
        assert!(start.elapsed() < Duration::from_secs(2), "{transport:?}");
    }
}

#[test]
fn a_listener_that_is_dropped_leaves_its_links() {
    let Hall { wire, listener, secret, security, guests, .. } = Hall::open(Transport::Plain, TIMEOUTS);
    let address = listener.local_addr().to_string();
    let ((to_a, _from_b), (to_b, from_a)) = (inbox(), inbox());
    let a = wire.connect(&address, security, &secret, TIMEOUTS, to_a).unwrap();
    let (_b, give) = guests.recv_timeout(DEADLINE).unwrap();
    assert!(give.send(to_b).is_ok());
    drop(listener);
    a.send(piece(4, Bytes::new())).unwrap();
    assert_eq!(next(&from_a).0, 4);
}

#[test]
fn an_address_in_use_is_named() {
    let hall = Hall::open(Transport::Plain, TIMEOUTS);
    let identity = Identity::generate().unwrap();
    let failed = hall.wire.listen(
        &hall.address(),
        ListenSecurity::Tls(identity),
        &hall.secret,
        TIMEOUTS,
        |_, _| inbox().0,
        |_, _| {},
    );
    let text = failed.unwrap_err().to_string();
    assert!(text.starts_with(&format!("cannot listen on {}: ", hall.address())), "{text}");
}
