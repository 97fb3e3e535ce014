//! For tests: the members of a group as threads, connected over memory.

use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::Duration;

use bonfire_wire::proto::frame::Body;
use bonfire_wire::{Closed, Frame, Incoming, Outbox, memory_link};

use crate::peers::{Early, Peers};

/// Why an exchange ended early.
#[derive(Debug)]
pub(crate) struct Gone;

impl From<Closed> for Gone {
    fn from(_: Closed) -> Self {
        Self
    }
}

impl From<anyhow::Error> for Gone {
    fn from(_: anyhow::Error) -> Self {
        Self
    }
}

type Arrival = (usize, Incoming);

/// Every pair of members connected over memory: the links and the mail of each.
fn connected(members: usize) -> Vec<(Vec<Option<Outbox>>, Receiver<Arrival>)> {
    let (senders, inboxes): (Vec<SyncSender<Arrival>>, Vec<Receiver<Arrival>>) =
        (0..members).map(|_| sync_channel(100_000)).unzip();
    let mut links = vec![vec![None; members]; members];
    for (a, b) in (0..members).flat_map(|a| (a + 1..members).map(move |b| (a, b))) {
        let sink = |to: usize, from: usize| -> bonfire_wire::Sink {
            let sender = senders[to].clone();
            Box::new(move |incoming: Incoming| drop(sender.send((from, incoming))))
        };
        let (at_a, at_b) = memory_link(sink(a, b), sink(b, a));
        (links[a][b], links[b][a]) = (Some(at_a), Some(at_b));
    }
    links.into_iter().zip(inboxes).collect()
}

/// Runs one member a thread, and returns what each has in the end.
pub(crate) fn among<T: Send>(members: usize, member: impl Fn(&mut Peers<'_, Gone>) -> T + Sync) -> Vec<T> {
    let connected = connected(members);
    std::thread::scope(|scope| {
        let threads: Vec<_> = connected
            .into_iter()
            .enumerate()
            .map(|(index, (links, inbox))| {
                let member = &member;
                scope.spawn(move || {
                    let mut receive = move |wait| loop {
                        let patience = if wait { Duration::from_secs(20) } else { Duration::ZERO };
                        match inbox.recv_timeout(patience) {
                            Err(_) if !wait => return Ok(None),
                            Ok((from, Incoming::Frame(Frame { body: Body::Piece(piece), payload }))) => {
                                return Ok(Some((from, piece, payload)));
                            }
                            Ok((_, Incoming::Closed(_))) => {}
                            other => panic!("no piece but {other:?}"),
                        }
                    };
                    let mut early = Early::new();
                    let mut peers = Peers {
                        index,
                        links: &links,
                        servers: &[],
                        receive: &mut receive,
                        early: &mut early,
                        generation: 1,
                        round: 0,
                        step: 0,
                    };
                    member(&mut peers)
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().expect("a member")).collect()
    })
}
