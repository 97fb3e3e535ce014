//! What comes over the links of a node, one after the other.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::time::{Duration, Instant};

use bonfire_wire::{Frame, Incoming, Inlet, Outbox, Sink};

use crate::exertion::processor_time;

/// Something that came over a link.
#[derive(Debug)]
pub(crate) struct Mail {
    /// Numbers are given by this node, each once.
    pub link: u64,
    pub news: News,
}

/// What can come.
#[derive(Debug)]
pub(crate) enum News {
    /// Somebody has connected; this is how to answer.
    Opened(Outbox),
    Frame(Frame),
    /// The link is gone, and why.
    Closed(String),
    /// Somebody at an address was turned away, and why. Of no link.
    Stranger(String),
}

/// Puts mail into a mailbox.
#[derive(Clone, Debug)]
pub(crate) struct Post {
    sender: SyncSender<Mail>,
    next: Arc<AtomicU64>,
}

/// Where the mail of a node comes in. Nodes wait nowhere else, and by no other time.
#[derive(Debug)]
pub(crate) struct Mailbox {
    receiver: Receiver<Mail>,
    clock: Arc<dyn Clock>,
}

/// The time that a node lives in: that of the world, or a simulated one.
pub(crate) trait Clock: std::fmt::Debug + Send + Sync {
    fn now(&self) -> Instant;

    /// What this process has used of the processor so far; none where that tells nothing of one node.
    fn used(&self) -> Option<Duration> {
        None
    }

    /// The next mail, if any comes in time.
    fn receive(&self, receiver: &Receiver<Mail>, timeout: Duration) -> Option<Mail>;
}

#[derive(Debug)]
struct RealTime {
    /// Whether the process has other nodes, too.
    is_shared: bool,
}

impl Clock for RealTime {
    fn now(&self) -> Instant {
        Instant::now()
    }

    fn used(&self) -> Option<Duration> {
        (!self.is_shared).then(processor_time)
    }

    fn receive(&self, receiver: &Receiver<Mail>, timeout: Duration) -> Option<Mail> {
        receiver.recv_timeout(timeout).ok()
    }
}

/// How much mail may wait. Whoever sends more waits too.
const ROOM: usize = 1024;

/// An empty mailbox.
pub(crate) fn mailbox() -> (Post, Mailbox) {
    mailbox_in(Arc::new(RealTime { is_shared: false }))
}

/// An empty mailbox of a node that shares its process with others.
pub(crate) fn mailbox_of_one() -> (Post, Mailbox) {
    mailbox_in(Arc::new(RealTime { is_shared: true }))
}

/// An empty mailbox in some time.
pub(crate) fn mailbox_in(clock: Arc<dyn Clock>) -> (Post, Mailbox) {
    let (sender, receiver) = sync_channel(ROOM);
    (Post { sender, next: Arc::default() }, Mailbox { receiver, clock })
}

impl Post {
    /// A number for a link.
    pub(crate) fn number(&self) -> u64 {
        self.next.fetch_add(1, Ordering::Relaxed)
    }

    /// Takes what comes over a link.
    pub(crate) fn sink(&self, link: u64) -> Sink {
        Box::new(Slot { sender: self.sender.clone(), link })
    }

    /// Says that somebody was turned away. If there is no room for that, it is not worth waiting.
    pub(crate) fn stranger(&self, address: &str, reason: &str) {
        let news = News::Stranger(format!("{address} {reason}"));
        let _ = self.sender.try_send(Mail { link: u64::MAX, news });
    }

    /// Says that somebody has connected.
    pub(crate) fn announce(&self, link: u64, outbox: Outbox) {
        let _ = self.sender.send(Mail { link, news: News::Opened(outbox) });
    }
}

/// Where the mail of one link is put in.
struct Slot {
    sender: SyncSender<Mail>,
    link: u64,
}

// Without a mailbox the node is at its end, and nobody wants to know.
impl Inlet for Slot {
    fn take(&mut self, incoming: Incoming) {
        let news = match incoming {
            Incoming::Frame(frame) => News::Frame(frame),
            Incoming::Closed(reason) => News::Closed(reason),
        };
        let _ = self.sender.send(Mail { link: self.link, news });
    }

    fn offer(&mut self, frame: Frame) -> Option<Frame> {
        match self.sender.try_send(Mail { link: self.link, news: News::Frame(frame) }) {
            Err(TrySendError::Full(Mail { news: News::Frame(frame), .. })) => Some(frame),
            _ => None,
        }
    }
}

impl Mailbox {
    /// The next mail, if any comes in time.
    pub(crate) fn next(&self, timeout: Duration) -> Option<Mail> {
        self.clock.receive(&self.receiver, timeout)
    }

    pub(crate) fn now(&self) -> Instant {
        self.clock.now()
    }

    /// For who looks at it while somebody else has the mail.
    pub(crate) fn clock(&self) -> Arc<dyn Clock> {
        Arc::clone(&self.clock)
    }

    /// What this process has used of the processor so far; none where that tells nothing of one node.
    pub(crate) fn used(&self) -> Option<Duration> {
        self.clock.used()
    }
}
