use std::collections::VecDeque;
use std::future::poll_fn;
use std::mem;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::buf::Chain;
use bytes::{Buf, Bytes};
use h2::{Reason, SendStream};
use tokio::sync::Notify;
use tokio::time::timeout;

use super::status::GrpcStatus;
use crate::link::{Closed, MAX_WAITING_BYTES, MAX_WAITING_FRAMES};

/// A frame for HTTP/2: its head, then its payload.
pub(crate) type FrameBytes = Chain<Bytes, Bytes>;

/// Who called whom: a call ends with a status, which only the called side gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    Caller,
    Called,
}

/// The outgoing half of a link. A frame waits here until the task that has the socket moves it into the HTTP/2 stream's
/// queue, as it has room. The sender's thread does not do so itself: HTTP/2 holds its lock while it writes to the
/// socket.
#[derive(Debug)]
pub(crate) struct Outgoing {
    side: Side,
    half: Mutex<Half>,
    /// The first frame waits.
    begun: Notify,
    /// No frame waits any more.
    drained: Notify,
}

#[derive(Debug)]
struct Half {
    /// None after the last frame, and when nothing moves the frames any more. Then none waits.
    stream: Option<SendStream<FrameBytes>>,
    waiting: VecDeque<FrameBytes>,
    waiting_bytes: u64,
    /// Nothing may be sent after what waits.
    is_closed: bool,
}

/// For so many frames a queue keeps its memory.
const KEPT_FRAMES: usize = 64;

/// Why a frame was not sent.
#[derive(Debug)]
pub(crate) enum Unsent {
    Closed,
    /// So much waits already.
    Full {
        frames: usize,
        bytes: u64,
    },
}

impl Outgoing {
    pub(crate) fn new(side: Side, stream: SendStream<FrameBytes>) -> Self {
        let half =
            Half { stream: Some(stream), waiting: VecDeque::new(), waiting_bytes: 0, is_closed: false };
        Self { side, half: Mutex::new(half), begun: Notify::new(), drained: Notify::new() }
    }

    /// Sends a frame, after those that wait.
    pub(crate) fn send(&self, frame: FrameBytes) -> Result<(), Unsent> {
        let mut half = self.half();
        let Half { stream: Some(_), waiting, waiting_bytes, is_closed: false } = &mut *half else {
            return Err(Unsent::Closed);
        };
        let bytes = *waiting_bytes + frame.remaining() as u64;
        if bytes > MAX_WAITING_BYTES || waiting.len() >= MAX_WAITING_FRAMES {
            return Err(Unsent::Full { frames: waiting.len(), bytes: *waiting_bytes });
        }
        waiting.push_back(frame);
        *waiting_bytes = bytes;
        let is_first = waiting.len() == 1;
        drop(half);
        if is_first {
            self.begun.notify_one();
        }
        Ok(())
    }

    /// Ends this half after what waits; at once if the call has failed. Only the called side can say how it went.
    pub(crate) fn finish(&self, status: GrpcStatus, message: &str) {
        let mut half = self.half();
        half.is_closed = true;
        if status != GrpcStatus::Ok {
            half.forget_waiting();
        }
        if half.waiting.is_empty() {
            half.end(self.side, status, message);
        }
    }

    /// Whether this side has ended the half.
    pub(crate) fn is_closed(&self) -> bool {
        self.half().is_closed
    }

    /// Moves the frames that wait into the stream, as it has room for them. Ends when the peer has taken none of them
    /// for so long, with words for it.
    pub(crate) async fn move_waiting(&self, patience: Duration) -> String {
        loop {
            self.begun.notified().await;
            while !self.half().waiting.is_empty() {
                if timeout(patience, poll_fn(|context| self.poll_move(context))).await.is_err() {
                    return format!("took no frame for {:.1} s", patience.as_secs_f64());
                }
            }
        }
    }

    /// Moves as many frames as there is room for. Ready when some have moved, or none waits.
    fn poll_move(&self, context: &mut Context<'_>) -> Poll<()> {
        let mut half = self.half();
        let moved = half.poll_move(context);
        if half.waiting.is_empty() {
            if half.is_closed {
                half.end(self.side, GrpcStatus::Ok, "");
            }
            self.drained.notify_one();
        }
        moved
    }

    /// Waits until no frame waits. Nothing may be sent meanwhile.
    pub(crate) async fn is_drained(&self) {
        while !self.half().waiting.is_empty() {
            self.drained.notified().await;
        }
    }

    /// Drops what waits: nobody moves it any more.
    pub(crate) fn discard(&self) {
        let mut half = self.half();
        let dropped = (half.stream.take(), half.forget_waiting());
        drop(half);
        drop(dropped);
    }

    fn half(&self) -> MutexGuard<'_, Half> {
        self.half.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Half {
    fn poll_move(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let mut moved = Poll::Pending;
        while let (Some(stream), Some(next)) = (&mut self.stream, self.waiting.front()) {
            let len = next.remaining() as u64;
            let sent = match poll_room(stream, context) {
                Poll::Pending => return moved,
                Poll::Ready(Err(Closed)) => Err(Closed),
                Poll::Ready(Ok(())) => match self.waiting.pop_front() {
                    Some(frame) => stream.send_data(frame, false).map_err(|_| Closed),
                    None => Ok(()),
                },
            };
            match sent {
                Ok(()) => self.waiting_bytes -= len,
                // The stream is over, and its reader knows why.
                Err(Closed) => drop((self.stream.take(), self.forget_waiting())),
            }
            moved = Poll::Ready(());
        }
        // A long queue is gone with its memory.
        self.waiting.shrink_to(KEPT_FRAMES);
        Poll::Ready(())
    }

    fn forget_waiting(&mut self) -> VecDeque<FrameBytes> {
        self.waiting_bytes = 0;
        mem::take(&mut self.waiting)
    }

    fn end(&mut self, side: Side, status: GrpcStatus, message: &str) {
        let Some(mut stream) = self.stream.take() else { return };
        // An error means that the stream is over anyway.
        let _ = match side {
            Side::Called => stream.send_trailers(status.trailers(message)),
            Side::Caller if status == GrpcStatus::Ok => {
                stream.send_data(Bytes::new().chain(Bytes::new()), true)
            }
            Side::Caller => {
                stream.send_reset(Reason::CANCEL);
                Ok(())
            }
        };
    }
}

/// Ready when less is queued than the HTTP/2 connection is set to buffer, and the peer's window is open.
fn poll_room(stream: &mut SendStream<FrameBytes>, context: &mut Context<'_>) -> Poll<Result<(), Closed>> {
    stream.reserve_capacity(1);
    if stream.capacity() > 0 {
        return Poll::Ready(Ok(()));
    }
    loop {
        match ready!(stream.poll_capacity(context)) {
            Some(Ok(0)) => {}
            Some(Ok(_)) => return Poll::Ready(Ok(())),
            Some(Err(_)) | None => return Poll::Ready(Err(Closed)),
        }
    }
}
