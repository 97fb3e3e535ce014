//! Each law is checked over every transport.

use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

use bonfire_wire::{Closed, Incoming};
use bytes::Bytes;

use crate::{DEADLINE, Link, TRANSPORTS, Transport, closed, inbox, next, piece};

fn over_all(law: impl Fn(Transport, Link)) {
    for transport in TRANSPORTS {
        law(transport, Link::new(transport));
    }
}

#[test]
fn frames_come_in_order() {
    over_all(|transport, link| {
        for step in 0..3000 {
            link.a.send(piece(step, Bytes::from(vec![step as u8; step as usize % 50]))).unwrap();
        }
        for step in 0..3000 {
            let expect = (step, Bytes::from(vec![step as u8; step as usize % 50]));
            assert_eq!(next(&link.from_a), expect, "{transport:?}");
        }
    });
}

#[test]
fn both_directions_at_once() {
    over_all(|transport, link| {
        let payload = Bytes::from(vec![5; 64 << 10]);
        thread::scope(|scope| {
            for outbox in [&link.a, &link.b] {
                let payload = payload.clone();
                scope.spawn(move || {
                    (0..400).for_each(|step| outbox.send(piece(step, payload.clone())).unwrap());
                });
            }
            for step in 0..400 {
                assert_eq!(next(&link.from_a), (step, payload.clone()), "{transport:?}");
                assert_eq!(next(&link.from_b), (step, payload.clone()), "{transport:?}");
            }
        });
    });
}

#[test]
fn large_and_empty_payloads() {
    over_all(|transport, link| {
        let large = Bytes::from((0..20_000_003u32).map(|i| ((i * 7) >> 3) as u8).collect::<Vec<_>>());
        for payload in [large.clone(), Bytes::new(), large, Bytes::from_static(b"end")] {
            link.a.send(piece(1, payload.clone())).unwrap();
            let (_, came) = next(&link.from_a);
            assert!(came == payload, "{transport:?}: {} of {} bytes", came.len(), payload.len());
            if transport != Transport::Memory && !came.is_empty() {
                assert_eq!(came.as_ptr().align_offset(64), 0, "{transport:?}");
            }
        }
    });
}

#[test]
fn closing_delivers_what_was_sent() {
    over_all(|transport, link| {
        let payload = Bytes::from(vec![1; 100_000]);
        link.b.send(piece(7, Bytes::new())).unwrap();
        for step in 0..50 {
            link.a.send(piece(step, payload.clone())).unwrap();
        }
        link.a.close();
        assert_eq!(link.a.send(piece(50, Bytes::new())), Err(Closed), "{transport:?}");
        for step in 0..50 {
            assert_eq!(next(&link.from_a).0, step, "{transport:?}");
        }
        assert_eq!(closed(&link.from_a), "the other side closed the link", "{transport:?}");
        assert_eq!(next(&link.from_b).0, 7);
        assert_eq!(closed(&link.from_b), "closed here", "{transport:?}");
        assert_eq!(link.b.send(piece(1, Bytes::new())), Err(Closed), "{transport:?}");
        link.a.close();
        link.b.abort("again");
    });
}

#[test]
fn the_called_side_can_close_and_dropping_closes() {
    over_all(|transport, link| {
        let Link { a, b, from_a, from_b, hall } = link;
        b.send(piece(1, Bytes::new())).unwrap();
        drop(b);
        assert_eq!(next(&from_b).0, 1);
        assert_eq!(closed(&from_b), "the other side closed the link", "{transport:?}");
        assert_eq!(closed(&from_a), "closed here", "{transport:?}");
        drop((a, hall));
    });
}

#[test]
fn aborting_ends_both_sides() {
    over_all(|transport, link| {
        link.a.abort("enough of it");
        assert_eq!(closed(&link.from_b), "enough of it", "{transport:?}");
        assert_eq!(closed(&link.from_a), "the connection closed", "{transport:?}");
        assert_eq!(link.a.send(piece(1, Bytes::new())), Err(Closed), "{transport:?}");
        assert_eq!(link.b.send(piece(1, Bytes::new())), Err(Closed), "{transport:?}");
    });
}

#[test]
fn a_payload_over_the_limit_ends_the_link() {
    over_all(|transport, link| {
        link.b.accept_payloads_up_to(1000);
        link.a.send(piece(1, Bytes::from(vec![0; 1000]))).unwrap();
        // Whether the sender hears of it at once depends on the transport.
        let _ = link.a.send(piece(2, Bytes::from(vec![0; 1001])));
        assert_eq!(next(&link.from_a).0, 1);
        let what = "a frame with 1001 bytes where at most 1000 are accepted";
        assert_eq!(closed(&link.from_a), format!("the other side sent {what}"), "{transport:?}");
        assert_eq!(closed(&link.from_b), format!("the other side refused {what}"), "{transport:?}");
    });
}

#[test]
fn the_caller_has_a_limit_too() {
    over_all(|transport, link| {
        link.a.accept_payloads_up_to(10);
        let _ = link.b.send(piece(2, Bytes::from(vec![0; 11])));
        assert!(closed(&link.from_b).contains("11 bytes"), "{transport:?}");
        assert!(closed(&link.from_a).starts_with("the other side"), "{transport:?}");
    });
}

#[test]
fn a_sink_that_blocks_makes_only_its_own_link_wait() {
    over_all(|transport, link| {
        let (open, gate) = channel::<()>();
        let (send, came) = channel();
        let mut waits = true;
        let blocking = Box::new(move |incoming: Incoming| {
            if std::mem::take(&mut waits) {
                gate.recv_timeout(DEADLINE).unwrap();
            }
            drop(send.send(incoming));
        });
        let (a, b) = link.beside(inbox().0, blocking);
        b.accept_payloads_up_to(64 << 20);
        // More than fits into any window, queue or socket on the way.
        let (payload, frames) = (Bytes::from(vec![3; 1 << 20]), 64);
        let sender = a.clone();
        let sent = thread::spawn(move || {
            (0..frames).for_each(|step| sender.send(piece(step, payload.clone())).unwrap());
        });
        for step in 0..200 {
            link.a.send(piece(step, Bytes::new())).unwrap();
            assert_eq!(next(&link.from_a).0, step, "{transport:?}");
        }
        if transport == Transport::Memory {
            // Here the sender's thread is the one in the sink.
            assert!(!sent.is_finished(), "nothing held the sender back");
            open.send(()).unwrap();
            sent.join().unwrap();
        } else {
            sent.join().unwrap();
            assert!(came.try_recv().is_err(), "{transport:?}: nothing held the sink back");
            open.send(()).unwrap();
        }
        for step in 0..frames {
            assert_eq!(next(&came).0, step, "{transport:?}");
        }
        drop(a);
        assert_eq!(closed(&came), "the other side closed the link", "{transport:?}");
    });
}

#[test]
fn both_ends_count_the_same() {
    over_all(|transport, link| {
        for step in 0..10 {
            link.a.send(piece(step, Bytes::from(vec![0; 1000 * step as usize]))).unwrap();
        }
        link.b.send(piece(300, Bytes::new())).unwrap();
        (0..10).for_each(|step| assert_eq!(next(&link.from_a).0, step));
        next(&link.from_b);
        let (a, b) = (link.a.traffic(), link.b.traffic());
        assert_eq!((a.sent_frames, a.received_frames), (10, 1), "{transport:?}");
        assert_eq!((a.sent_bytes, a.received_bytes), (b.received_bytes, b.sent_bytes), "{transport:?}");
        assert_eq!((b.sent_frames, b.received_frames), (1, 10), "{transport:?}");
        assert_eq!(b.sent_bytes, piece(300, Bytes::new()).wire_len() as u64, "{transport:?}");
        assert!(a.sent_bytes > 45_000 && a.sent_bytes < 45_300, "{transport:?}: {a:?}");
    });
}

#[test]
fn a_sink_may_end_its_own_link() {
    over_all(|transport, link| {
        let (send, came) = channel();
        let (outbox, own) = channel::<bonfire_wire::Outbox>();
        let sink = Box::new(move |incoming: Incoming| {
            if matches!(incoming, Incoming::Frame(_)) {
                own.recv_timeout(DEADLINE).unwrap().abort("heard enough");
            }
            drop(send.send(incoming));
        });
        let (a, b) = link.beside(inbox().0, sink);
        outbox.send(b).unwrap();
        a.send(piece(1, Bytes::new())).unwrap();
        assert_eq!(next(&came).0, 1);
        assert_eq!(closed(&came), "heard enough", "{transport:?}");
    });
}

#[test]
fn nothing_comes_on_its_own() {
    over_all(|transport, link| {
        let quiet = link.from_a.recv_timeout(Duration::from_millis(50));
        assert!(matches!(quiet, Err(RecvTimeoutError::Timeout)), "{transport:?}");
        let memory = transport == Transport::Memory;
        assert_eq!(link.a.peer() == "memory", memory);
        assert_eq!(link.b.peer().starts_with("127.0.0.1:"), !memory);
    });
}
