//! What comes over a link, on its way to its sink.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::{io, thread};

use bytes::Bytes;
use h2::RecvStream;
use http::HeaderMap;
use tokio::sync::Notify;

use super::end::GrpcEnd;
use crate::frame::{Decoder, Frame, FrameError};
use crate::link::{Incoming, Sink};
use crate::pool::PayloadPool;

/// Starts to read a link. To be called where tasks can be spawned.
///
/// The task that has the stream gives frames to the sink itself as long as this takes them at once: a hand-over less.
/// A sink may also block, and is made by a call that may. So there is a thread, too, that waits for it, and has all
/// that comes until it has caught up.
pub(super) fn start_reader(
    end: Arc<GrpcEnd>,
    stream: RecvStream,
    pool: PayloadPool,
    sink: impl FnOnce() -> Sink + Send + 'static,
) -> io::Result<()> {
    let (to, from) = channel();
    let desk = Arc::new(Desk {
        reader: Mutex::new(None),
        // The sink is not there yet.
        waiting: AtomicUsize::new(1),
        taken: AtomicUsize::new(0),
        is_over: AtomicBool::new(false),
        news: Notify::new(),
    });
    let of_task = Arc::clone(&desk);
    let patient = move || {
        let reader = Reader { end: Arc::clone(&end), decoder: Decoder::new(pool), sink: sink() };
        *desk.reader() = Some(reader);
        desk.waiting.fetch_sub(1, Ordering::Release);
        let why = desk.attend(&end, &from);
        desk.is_over.store(true, Ordering::Relaxed);
        desk.news.notify_one();
        end.close();
        end.is_read();
        let reader = desk.reader().take();
        if let Some(mut reader) = reader {
            reader.sink.take(Incoming::Closed(why));
        }
    };
    thread::Builder::new().name("wire reader".to_owned()).spawn(patient)?;
    tokio::spawn(hear(stream, to, of_task));
    Ok(())
}

/// What the task and the thread of a link share.
struct Desk {
    /// None until there is a sink. Whoever has all that came has it, so nobody waits for the other.
    reader: Mutex<Option<Reader>>,
    /// How much of what came is the thread's. Only the task makes it more.
    waiting: AtomicUsize,
    /// Bytes that were read, of which the stream does not know yet.
    taken: AtomicUsize,
    /// Nobody wants more.
    is_over: AtomicBool,
    news: Notify,
}

/// Something that came, for the thread. The channel to it has no bound of its own: the window of HTTP/2 is one, since
/// only what was read makes room in it.
enum Arrival {
    Bytes {
        /// What the sink did not take at once.
        frame: Option<Frame>,
        rest: Bytes,
        /// How many there were.
        len: usize,
    },
    Malformed(FrameError),
    /// The last, with what ends the call.
    End(Result<Option<HeaderMap>, h2::Error>),
}

/// So many bytes are worth telling the stream of. It tells the peer much later.
const TOLD_BYTES: usize = 1 << 20;

/// Hears the stream. The thread does not do so itself: HTTP/2 holds its lock while it writes to the socket, and whoever
/// comes meanwhile has to sleep.
async fn hear(mut stream: RecvStream, to: Sender<Arrival>, desk: Arc<Desk>) {
    while !desk.is_over.load(Ordering::Relaxed) {
        let (arrival, is_last) = tokio::select! {
            biased;
            data = stream.data() => match data {
                Some(Ok(bytes)) => (desk.deliver(bytes), false),
                Some(Err(error)) => (Some(Arrival::End(Err(error))), true),
                None => (Some(Arrival::End(stream.trailers().await)), true),
            },
            () = desk.news.notified() => (None, false),
        };
        if let Some(arrival) = arrival {
            desk.waiting.fetch_add(1, Ordering::Relaxed);
            // Without a thread the link is over.
            let _ = to.send(arrival);
        }
        if is_last {
            return;
        }
        // An error comes again above.
        let _ = stream.flow_control().release_capacity(desk.taken.swap(0, Ordering::Relaxed));
    }
}

impl Desk {
    fn reader(&self) -> MutexGuard<'_, Option<Reader>> {
        self.reader.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives the sink what it takes at once, if nothing waits before it. Returns what is the thread's.
    fn deliver(&self, mut bytes: Bytes) -> Option<Arrival> {
        let len = bytes.len();
        let mut frame = None;
        if self.waiting.load(Ordering::Acquire) == 0
            && let Some(reader) = &mut *self.reader()
        {
            match reader.offer_all(&mut bytes) {
                Ok(None) => {
                    self.taken.fetch_add(len, Ordering::Relaxed);
                    return None;
                }
                Ok(held) => frame = held,
                Err(malformed) => return Some(Arrival::Malformed(malformed)),
            }
        }
        Some(Arrival::Bytes { frame, rest: bytes, len })
    }

    /// Waits for the sink where the task must not. Returns why no more comes.
    fn attend(&self, end: &GrpcEnd, from: &Receiver<Arrival>) -> String {
        loop {
            let delivered = match from.recv() {
                Ok(Arrival::Bytes { frame, rest, len }) => self.give(frame, rest).map(|()| len),
                Ok(Arrival::Malformed(malformed)) => Err(malformed),
                Ok(Arrival::End(Err(error))) => return end.broken_off(Some(&error)),
                Ok(Arrival::End(Ok(trailers))) => {
                    let is_whole =
                        self.reader().as_ref().is_some_and(|reader| reader.decoder.is_between_frames());
                    return match is_whole {
                        true => end.over(trailers.as_ref()),
                        false => "the link ended within a frame".to_owned(),
                    };
                }
                Err(_) => return end.broken_off(None),
            };
            match delivered {
                // Only now may the peer send more, so a sink that blocks makes it wait.
                Ok(len) => self.release(len),
                Err(malformed) => return end.refuse(&malformed),
            }
            self.waiting.fetch_sub(1, Ordering::Release);
        }
    }

    fn give(&self, frame: Option<Frame>, mut rest: Bytes) -> Result<(), FrameError> {
        let mut reader = self.reader();
        let Some(reader) = &mut *reader else { return Ok(()) };
        if let Some(frame) = frame {
            reader.sink.take(Incoming::Frame(frame));
        }
        while let Some(frame) = reader.next(&mut rest)? {
            reader.sink.take(Incoming::Frame(frame));
        }
        Ok(())
    }

    fn release(&self, bytes: usize) {
        let before = self.taken.fetch_add(bytes, Ordering::Relaxed);
        if before + bytes >= TOLD_BYTES {
            self.news.notify_one();
        }
    }
}

/// Makes frames of bytes, for the sink.
struct Reader {
    end: Arc<GrpcEnd>,
    decoder: Decoder,
    sink: Sink,
}

impl Reader {
    fn next(&mut self, bytes: &mut Bytes) -> Result<Option<Frame>, FrameError> {
        let Some((frame, len)) = self.decoder.next(bytes, self.end.payload_limit())? else { return Ok(None) };
        if self.end.is_cut() {
            // Who aborts a link wants no more of it.
            bytes.clear();
            return Ok(None);
        }
        self.end.has_received(len);
        Ok(Some(frame))
    }

    /// Offers the sink all frames. Returns one that it does not take at once, and leaves the rest.
    fn offer_all(&mut self, bytes: &mut Bytes) -> Result<Option<Frame>, FrameError> {
        while let Some(frame) = self.next(bytes)? {
            let held = self.sink.offer(frame);
            if held.is_some() {
                return Ok(held);
            }
        }
        Ok(None)
    }
}
