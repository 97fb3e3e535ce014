use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::mem;
use std::net::{Shutdown, TcpStream};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use bytes::buf::Chain;
use bytes::{Buf, Bytes};
use socket2::SockRef;

use super::records::{LEAST_ROOM, SEALED_BYTES, Sealer};
use super::sign;
use crate::link::{MAX_WAITING_BYTES, MAX_WAITING_FRAMES, Unsent};

/// A frame: its head, then its payload.
pub(super) type FrameBytes = Chain<Bytes, Bytes>;

/// So much is sealed before it is written.
const STAGED_BYTES: usize = 8 * SEALED_BYTES + (LEAST_ROOM - SEALED_BYTES);

/// The outgoing half of a link. A frame goes from the sender's thread straight into the socket. What that does not take
/// waits here, and the link's writer moves it on.
#[derive(Debug)]
pub(super) struct Outgoing {
    half: Mutex<Half>,
    /// Something waits, or nothing will any more.
    changed: Condvar,
    /// Whether sealing is worth another thread, if there is one.
    seals_apart: bool,
}

#[derive(Debug)]
struct Half {
    /// None while the writer has it.
    carrier: Option<Carrier>,
    waiting: VecDeque<WaitingFrame>,
    waiting_bytes: u64,
    /// Nothing may be sent after what waits.
    is_closed: bool,
    /// Nothing is moved any more.
    is_over: bool,
    /// When the socket last took something, or had to.
    moved: Instant,
    /// Whether it took something since somebody last asked.
    has_spoken: bool,
}

#[derive(Debug)]
struct WaitingFrame {
    frame: FrameBytes,
    len: u64,
    /// Some of it is on its way.
    is_begun: bool,
}

impl Outgoing {
    pub(super) fn new(socket: Arc<TcpStream>, sealer: Option<Sealer>, seals_apart: bool) -> Self {
        let staged = if sealer.is_some() { vec![0; STAGED_BYTES] } else { Vec::new() };
        let half = Half {
            carrier: Some(Carrier { socket, sealer, staged, left: 0..0 }),
            waiting: VecDeque::new(),
            waiting_bytes: 0,
            is_closed: false,
            is_over: false,
            moved: Instant::now(),
            has_spoken: false,
        };
        Self { half: Mutex::new(half), changed: Condvar::new(), seals_apart }
    }

    /// Sends a frame, or lets it wait after those that wait.
    pub(super) fn send(&self, frame: FrameBytes) -> Result<(), Unsent> {
        let mut half = self.half();
        if half.is_closed {
            return Err(Unsent::Closed);
        }
        self.put(&mut half, frame)
    }

    fn put(&self, half: &mut Half, frame: FrameBytes) -> Result<(), Unsent> {
        let mut next = WaitingFrame { len: frame.remaining() as u64, frame, is_begun: false };
        if half.waiting.is_empty()
            && !self.seals_apart
            && let Some(carrier) = &mut half.carrier
        {
            match carrier.carry(&mut next.frame, Patience::None) {
                Ok(progress) => {
                    half.note(progress.bytes);
                    if progress.is_done {
                        return Ok(());
                    }
                    (next.is_begun, half.moved) = (true, Instant::now());
                }
                Err(_) => {
                    half.end();
                    return Err(Unsent::Closed);
                }
            }
        }
        let bytes = half.waiting_bytes + next.len;
        if bytes > MAX_WAITING_BYTES || half.waiting.len() >= MAX_WAITING_FRAMES {
            return Err(Unsent::Full { frames: half.waiting.len(), bytes: half.waiting_bytes });
        }
        if half.waiting.is_empty() && half.carrier.is_some() {
            half.moved = Instant::now();
        }
        half.waiting.push_back(next);
        half.waiting_bytes = bytes;
        self.changed.notify_all();
        Ok(())
    }

    /// Ends this half after what waits; with a reason, after the frame that is on its way.
    pub(super) fn finish(&self, refusal: Option<&str>) {
        let mut half = self.half();
        if mem::replace(&mut half.is_closed, true) {
            return;
        }
        if refusal.is_some() {
            half.forget_waiting();
        }
        // If there is no room for it, the other side is far behind, and hears of the end by the socket's.
        let _ = self.put(&mut half, sign::end(refusal));
        if half.waiting.is_empty() && half.carrier.is_some() {
            half.end();
        }
        drop(half);
        self.changed.notify_all();
    }

    /// Whether this side has ended the half.
    pub(super) fn is_closed(&self) -> bool {
        self.half().is_closed
    }

    /// Whether all was sent that will be.
    pub(super) fn is_over(&self) -> bool {
        self.half().is_over
    }

    /// A sign of life, if nothing else has gone out since the last one and nothing waits.
    pub(super) fn show_life(&self) {
        let mut half = self.half();
        if !mem::take(&mut half.has_spoken) && !half.is_closed && half.waiting.is_empty() {
            let _ = self.put(&mut half, sign::alive());
        }
    }

    /// Since when the other side has taken nothing of what waits for it.
    pub(super) fn stuck_since(&self) -> Option<Instant> {
        let half = self.half();
        let waits = !half.waiting.is_empty() || half.carrier.is_none();
        (waits && !half.is_over).then_some(half.moved)
    }

    /// Drops what waits: nobody moves it any more.
    pub(super) fn discard(&self) {
        self.half().end();
        self.changed.notify_all();
    }

    /// Moves what waits, as the socket takes it, until nothing will any more: the writer's life.
    pub(super) fn move_waiting(&self) {
        let mut half = self.half();
        loop {
            half = self
                .changed
                .wait_while(half, |half| half.waiting.is_empty() && !half.is_over)
                .unwrap_or_else(PoisonError::into_inner);
            if half.is_over {
                return;
            }
            let (Some(mut carrier), Some(mut next)) = (half.carrier.take(), half.waiting.pop_front()) else {
                return;
            };
            drop(half);
            next.is_begun = true;
            let carried = carrier.carry(&mut next.frame, Patience::Some);
            half = self.half();
            half.carrier = Some(carrier);
            if half.is_over {
                return;
            }
            match carried {
                Err(_) => half.end(),
                Ok(progress) => {
                    half.note(progress.bytes);
                    match progress.is_done {
                        true => half.waiting_bytes = half.waiting_bytes.saturating_sub(next.len),
                        false => half.waiting.push_front(next),
                    }
                }
            }
            if half.waiting.is_empty() {
                // A long queue is gone with its memory.
                drop(half.forget_waiting());
                if half.is_closed {
                    half.end();
                }
            }
        }
    }

    fn half(&self) -> MutexGuard<'_, Half> {
        self.half.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Half {
    fn note(&mut self, bytes: usize) {
        if bytes > 0 {
            (self.moved, self.has_spoken) = (Instant::now(), true);
        }
    }

    /// All that waits but a frame of which some is on its way.
    fn forget_waiting(&mut self) -> VecDeque<WaitingFrame> {
        let is_begun = self.waiting.front().is_some_and(|front| front.is_begun);
        let begun = if is_begun { self.waiting.pop_front() } else { None };
        self.waiting_bytes = begun.as_ref().map_or(0, |begun| begun.len);
        mem::replace(&mut self.waiting, begun.into_iter().collect())
    }

    /// Nothing goes out any more.
    fn end(&mut self) {
        (self.is_closed, self.is_over) = (true, true);
        self.waiting = VecDeque::new();
        if let Some(carrier) = &self.carrier {
            // An error means that it is shut anyway.
            let _ = carrier.socket.shutdown(Shutdown::Write);
        }
    }
}

/// What has the socket, and seals what goes there.
#[derive(Debug)]
struct Carrier {
    socket: Arc<TcpStream>,
    sealer: Option<Sealer>,
    /// What is sealed, and which of it is not written yet.
    staged: Vec<u8>,
    left: std::ops::Range<usize>,
}

/// Whether to wait for the socket, for as long as it is set to.
#[derive(Clone, Copy, PartialEq)]
enum Patience {
    None,
    Some,
}

struct Progress {
    is_done: bool,
    /// What the socket took.
    bytes: usize,
}

impl Carrier {
    /// Writes what is left of a frame: as much as the socket takes, or with patience some of it.
    fn carry(&mut self, frame: &mut FrameBytes, patience: Patience) -> io::Result<Progress> {
        let flags = match patience {
            Patience::None => NO_SIGNAL | libc::MSG_DONTWAIT,
            Patience::Some => NO_SIGNAL,
        };
        let mut bytes = 0;
        loop {
            if self.left.is_empty()
                && let Some(sealer) = &mut self.sealer
            {
                self.left = 0..sealer.seal(frame, &mut self.staged)?;
            }
            let socket = SockRef::from(&*self.socket);
            let wrote = match &self.sealer {
                Some(_) if self.left.is_empty() => return Ok(Progress { is_done: true, bytes }),
                Some(_) => socket.send_with_flags(&self.staged[self.left.clone()], flags),
                None if !frame.has_remaining() => return Ok(Progress { is_done: true, bytes }),
                None => {
                    let mut parts = [IoSlice::new(&[]); 2];
                    let count = frame.chunks_vectored(&mut parts);
                    socket.send_vectored_with_flags(&parts[..count], flags)
                }
            };
            match wrote {
                Ok(n) => {
                    bytes += n;
                    match &self.sealer {
                        Some(_) => self.left.start += n,
                        None => frame.advance(n),
                    }
                    if patience == Patience::Some {
                        let is_done = !frame.has_remaining() && self.left.is_empty();
                        return Ok(Progress { is_done, bytes });
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if is_full(&error) => return Ok(Progress { is_done: false, bytes }),
                Err(error) => return Err(error),
            }
        }
    }
}

/// Who has gone is an error and no signal. Sockets of Apple's systems are set so from the beginning.
#[cfg(not(target_vendor = "apple"))]
const NO_SIGNAL: i32 = libc::MSG_NOSIGNAL;
#[cfg(target_vendor = "apple")]
const NO_SIGNAL: i32 = 0;

fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut)
}
