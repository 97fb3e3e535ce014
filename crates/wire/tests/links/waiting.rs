//! What waits for a peer that does not read, and that nobody else waits.

use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use bonfire_wire::{Closed, Incoming, MAX_WAITING_BYTES, MAX_WAITING_FRAMES, Outbox, Sink, Timeouts};
use bytes::Bytes;

use crate::{DEADLINE, Hall, TIMEOUTS, Transport, closed, inbox, next, piece};

const NETWORKS: [Transport; 2] = [Transport::Plain, Transport::Tls];

/// A sink that takes nothing until its gate opens, and then keeps all that comes.
fn gated_inbox() -> (Sink, Sender<()>, Receiver<Incoming>) {
    let (open, gate) = channel::<()>();
    let (mut keep, came) = inbox();
    let mut waits = true;
    let sink = move |incoming: Incoming| {
        if std::mem::take(&mut waits) {
            let _ = gate.recv_timeout(DEADLINE);
        }
        keep.take(incoming);
    };
    (Box::new(sink), open, came)
}

/// More of these than 30 fit into no window, queue or socket on the way.
fn mebibyte() -> Bytes {
    Bytes::from(vec![7; 1 << 20])
}

fn send_all(outbox: &Outbox, payload: &Bytes, frames: u32) {
    for step in 0..frames {
        assert_eq!(outbox.send(piece(step, payload.clone())), Ok(()), "frame {step}");
    }
}

fn expect_all(came: &Receiver<Incoming>, payload: &Bytes, frames: u32) {
    for step in 0..frames {
        let (number, bytes) = next(came);
        assert_eq!(number, step);
        assert!(bytes == *payload, "frame {step} has other bytes");
    }
}

#[test]
fn who_sends_does_not_wait_for_a_peer_that_reads_nothing() {
    for transport in NETWORKS {
        let hall = Hall::open(transport, TIMEOUTS);
        let (gated, open, came) = gated_inbox();
        let (a, b) = hall.link(inbox().0, gated);
        b.accept_payloads_up_to(1 << 20);
        let (to_other, from_a) = inbox();
        let (other, _other_end) = hall.link(inbox().0, to_other);
        let payload = mebibyte();
        let mut sending = Duration::ZERO;
        for step in 0..200 {
            let start = Instant::now();
            a.send(piece(step, payload.clone())).unwrap();
            sending += start.elapsed();
            other.send(piece(step, Bytes::new())).unwrap();
            assert_eq!(next(&from_a).0, step, "{transport:?}: the link beside stands still");
        }
        assert!(sending < Duration::from_secs(1), "{transport:?}: {sending:?}");
        assert_eq!(a.traffic().sent_frames, 200, "{transport:?}");
        open.send(()).unwrap();
        expect_all(&came, &payload, 200);
        drop(a);
        assert_eq!(closed(&came), "the other side closed the link", "{transport:?}");
    }
}

#[test]
fn a_peer_that_takes_frames_slowly_is_not_lost() {
    let timeouts = Timeouts { patience: Duration::from_millis(600), ..TIMEOUTS };
    let hall = Hall::open(Transport::Plain, TIMEOUTS);
    let (mut keep, came) = inbox();
    let slow = move |incoming: Incoming| {
        thread::sleep(Duration::from_millis(10));
        keep.take(incoming);
    };
    let (a, b) = hall.link_by(&hall.address(), timeouts, inbox().0, Box::new(slow));
    b.accept_payloads_up_to(1 << 20);
    let payload = mebibyte();
    let start = Instant::now();
    send_all(&a, &payload, 120);
    expect_all(&came, &payload, 120);
    assert!(start.elapsed() > timeouts.patience);
}

#[test]
fn closing_delivers_what_waits() {
    for transport in NETWORKS {
        let hall = Hall::open(transport, TIMEOUTS);
        let (payload, frames) = (mebibyte(), 60);
        for called_side_closes in [false, true] {
            let ((gated, open, came), (keep, own)) = (gated_inbox(), inbox());
            let (closing, other) = if called_side_closes {
                let (a, b) = hall.link(gated, keep);
                (b, a)
            } else {
                hall.link(keep, gated)
            };
            other.accept_payloads_up_to(1 << 20);
            send_all(&closing, &payload, frames);
            closing.close();
            assert_eq!(closing.send(piece(frames, Bytes::new())), Err(Closed), "{transport:?}");
            open.send(()).unwrap();
            expect_all(&came, &payload, frames);
            assert_eq!(closed(&came), "the other side closed the link", "{transport:?}");
            assert_eq!(closed(&own), "closed here", "{transport:?}");
        }
    }
}

#[test]
fn what_waits_comes_after_the_other_side_has_closed() {
    let timeouts = Timeouts { silence: Duration::from_secs(1), ..TIMEOUTS };
    let hall = Hall::open(Transport::Plain, timeouts);
    let ((gated, open, came), (keep, from_a)) = (gated_inbox(), inbox());
    let (a, b) = hall.link_by(&hall.address(), timeouts, gated, keep);
    let (payload, frames) = (mebibyte(), 60);
    send_all(&b, &payload, frames);
    a.close();
    assert_eq!(closed(&from_a), "the other side closed the link");
    // Longer than a link without anything to send would stay.
    let quiet = came.recv_timeout(2 * timeouts.silence);
    assert!(matches!(quiet, Err(RecvTimeoutError::Timeout)), "the gate is open");
    open.send(()).unwrap();
    expect_all(&came, &payload, frames);
    assert_eq!(closed(&came), "closed here");
}

#[test]
fn who_send_at_once_keep_each_its_order() {
    const SENDERS: u32 = 4;
    const FRAMES: u32 = 300;
    for transport in NETWORKS {
        let hall = Hall::open(transport, TIMEOUTS);
        let (gated, open, came) = gated_inbox();
        let (a, b) = hall.link(inbox().0, gated);
        b.accept_payloads_up_to(1 << 20);
        let payload = Bytes::from(vec![1; 100_000]);
        thread::scope(|scope| {
            for sender in 0..SENDERS {
                let (a, payload) = (a.clone(), payload.clone());
                scope.spawn(move || {
                    for step in 0..FRAMES {
                        a.send(piece(step * SENDERS + sender, payload.clone())).unwrap();
                    }
                });
            }
            // Some are sent while frames wait, some while they move on.
            open.send(()).unwrap();
            let mut steps = [0; SENDERS as usize];
            for _ in 0..SENDERS * FRAMES {
                let number = next(&came).0;
                let step = &mut steps[(number % SENDERS) as usize];
                assert_eq!(number / SENDERS, *step, "{transport:?}: sender {}", number % SENDERS);
                *step += 1;
            }
        });
    }
}

#[test]
fn a_peer_that_falls_too_far_behind_is_lost() {
    for payload in [Bytes::from(vec![0; 256 << 20]), Bytes::new()] {
        let hall = Hall::open(Transport::Plain, TIMEOUTS);
        let ((gated, _open, _came), (keep, from_b)) = (gated_inbox(), inbox());
        let (a, b) = hall.link(keep, gated);
        b.accept_payloads_up_to(1 << 20);
        // The last of these wait, and all others behind them.
        let first = 60;
        send_all(&a, &mebibyte(), first);
        let mut sent = 0;
        while a.send(piece(1, payload.clone())).is_ok() {
            sent += 1;
        }
        let most = (sent + 1) * piece(1, payload).wire_len() as u64 + (u64::from(first) << 20);
        let frames = sent + u64::from(first);
        assert!(sent < MAX_WAITING_FRAMES as u64, "{sent} frames");
        assert!(frames >= MAX_WAITING_FRAMES as u64 || most > MAX_WAITING_BYTES, "{sent} frames");
        let why = closed(&from_b);
        assert!(why.starts_with("fell too far behind: ") && why.ends_with(" MiB wait for it"), "{why}");
        assert_eq!(a.send(piece(2, Bytes::new())), Err(Closed));
    }
}
