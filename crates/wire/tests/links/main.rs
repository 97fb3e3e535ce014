//! What every link promises, over every transport; and who is let in.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod door;
mod laws;
mod loss;
mod proxy;
mod strangers;
mod waiting;

use std::sync::Mutex;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use bonfire_wire::proto::Piece;
use bonfire_wire::{
    Body, ConnectSecurity, Frame, Identity, Incoming, Inlet, ListenSecurity, Listener, Outbox, Secret, Sink,
    Timeouts, Wire, memory_link,
};
use bytes::Bytes;

/// No event takes longer than this; most come at once.
const DEADLINE: Duration = Duration::from_secs(20);

const TIMEOUTS: Timeouts = Timeouts {
    handshake: Duration::from_secs(10),
    silence: Duration::from_secs(10),
    patience: Duration::from_secs(20),
};

#[derive(Clone, Copy, Debug, PartialEq)]
enum Transport {
    Memory,
    Plain,
    Tls,
}

const TRANSPORTS: [Transport; 3] = [Transport::Memory, Transport::Plain, Transport::Tls];

/// A link and both of its ends: `a` has called, `b` was called.
struct Link {
    a: Outbox,
    b: Outbox,
    from_b: Receiver<Incoming>,
    from_a: Receiver<Incoming>,
    hall: Option<Hall>,
}

/// Where callers come in.
struct Hall {
    wire: Wire,
    listener: Listener,
    secret: Secret,
    security: ConnectSecurity,
    guests: Receiver<(Outbox, Sender<Sink>)>,
    strangers: Receiver<String>,
}

impl Hall {
    fn open(transport: Transport, timeouts: Timeouts) -> Self {
        let (listening, security) = match transport {
            Transport::Tls => {
                let identity = Identity::generate().unwrap();
                let fingerprint = identity.fingerprint();
                (ListenSecurity::Tls(identity), ConnectSecurity::Tls(fingerprint))
            }
            _ => (ListenSecurity::Plain, ConnectSecurity::Plain),
        };
        let secret = Secret::generate().unwrap();
        let wire = Wire::start().unwrap();
        let (guest, guests) = channel();
        let (stranger, strangers) = channel();
        let (guest, stranger) = (Mutex::new(guest), Mutex::new(stranger));
        let accept = move |_, outbox| {
            let (give, take) = channel();
            guest.lock().unwrap().send((outbox, give)).unwrap();
            take.recv_timeout(DEADLINE).unwrap()
        };
        let turned_away = move |_, what: &str| drop(stranger.lock().unwrap().send(what.to_owned()));
        let listener = wire.listen("127.0.0.1:0", listening, &secret, timeouts, accept, turned_away).unwrap();
        Self { wire, listener, secret, security, guests, strangers }
    }

    fn address(&self) -> String {
        self.listener.local_addr().to_string()
    }

    /// A new link, by way of any address that leads here.
    fn link_by(&self, address: &str, timeouts: Timeouts, a: Sink, b: Sink) -> (Outbox, Outbox) {
        let called = self.wire.connect(address, self.security, &self.secret, timeouts, a).unwrap();
        let (outbox, give) = self.guests.recv_timeout(DEADLINE).unwrap();
        assert!(give.send(b).is_ok());
        (called, outbox)
    }

    fn link(&self, a: Sink, b: Sink) -> (Outbox, Outbox) {
        self.link_by(&self.address(), TIMEOUTS, a, b)
    }
}

impl Link {
    fn new(transport: Transport) -> Self {
        let hall = (transport != Transport::Memory).then(|| Hall::open(transport, TIMEOUTS));
        let ((to_a, from_b), (to_b, from_a)) = (inbox(), inbox());
        let (a, b) = match &hall {
            None => memory_link(to_a, to_b),
            Some(hall) => hall.link(to_a, to_b),
        };
        b.accept_payloads_up_to(64 << 20);
        Self { a, b, from_b, from_a, hall }
    }

    /// A second link next to this one.
    fn beside(&self, a: Sink, b: Sink) -> (Outbox, Outbox) {
        match &self.hall {
            None => memory_link(a, b),
            Some(hall) => hall.link(a, b),
        }
    }
}

/// A sink that keeps all that comes.
fn inbox() -> (Sink, Receiver<Incoming>) {
    let (send, receive) = channel();
    (Box::new(Keeper { send, offered: 0 }), receive)
}

/// Takes most frames at once; of seven it wants one to be brought by a thread that may wait.
struct Keeper {
    send: Sender<Incoming>,
    offered: usize,
}

impl Inlet for Keeper {
    fn take(&mut self, incoming: Incoming) {
        drop(self.send.send(incoming));
    }

    fn offer(&mut self, frame: Frame) -> Option<Frame> {
        self.offered += 1;
        if self.offered.is_multiple_of(7) {
            return Some(frame);
        }
        self.take(Incoming::Frame(frame));
        None
    }
}

fn piece(step: u32, payload: Bytes) -> Frame {
    Frame {
        body: Body::Piece(Piece { generation: 1, round: 2, step, index: 4, ..Piece::default() }),
        payload,
    }
}

/// The next frame's step and payload.
fn next(inbox: &Receiver<Incoming>) -> (u32, Bytes) {
    match inbox.recv_timeout(DEADLINE).unwrap() {
        Incoming::Frame(Frame { body: Body::Piece(piece), payload }) => (piece.step, payload),
        other => panic!("no piece: {other:?}"),
    }
}

/// Why the link is over. Nothing may come after it.
fn closed(inbox: &Receiver<Incoming>) -> String {
    match inbox.recv_timeout(DEADLINE).unwrap() {
        Incoming::Closed(why) => {
            // The sink is dropped, and with it the last way in here.
            assert!(inbox.recv_timeout(DEADLINE).is_err());
            why
        }
        other => panic!("not closed: {other:?}"),
    }
}
