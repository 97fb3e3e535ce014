use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};

use bytes::Bytes;
use h2::RecvStream;
use http::HeaderMap;
use tokio::sync::Notify;

/// What comes over a stream, one after the other, for a thread that may take its time.
///
/// The thread does not ask the stream itself: HTTP/2 holds its lock while it writes to the socket, and whoever comes
/// meanwhile has to sleep. The channel between them has no bound of its own: the window of HTTP/2 is one, since only
/// what the thread is done with makes room in it.
pub(crate) struct Arrivals {
    from: Receiver<Arrival>,
    taken: Arc<Taken>,
}

/// Something that came.
pub(crate) enum Arrival {
    Bytes(Bytes),
    /// The last, with what ends the call.
    End(Result<Option<HeaderMap>, h2::Error>),
}

/// What the thread is done with.
#[derive(Debug, Default)]
struct Taken {
    /// Those of which the stream does not know yet.
    bytes: AtomicUsize,
    /// The thread wants no more.
    is_over: AtomicBool,
    news: Notify,
}

/// So many bytes are worth telling the stream of. It tells the peer much later.
const TOLD_BYTES: usize = 1 << 20;

impl Arrivals {
    /// Of a stream. To be called where tasks can be spawned.
    pub(crate) fn of(stream: RecvStream) -> Self {
        let (to, from) = channel();
        let taken = Arc::<Taken>::default();
        tokio::spawn(pass_on(stream, to, Arc::clone(&taken)));
        Self { from, taken }
    }

    /// Waits for the next one; none if nothing moves the stream any more.
    pub(crate) fn next(&self) -> Option<Arrival> {
        self.from.recv().ok()
    }

    /// So much more may come: the thread is done with as much.
    pub(crate) fn release(&self, bytes: usize) {
        let before = self.taken.bytes.fetch_add(bytes, Ordering::Relaxed);
        if before + bytes >= TOLD_BYTES {
            self.taken.news.notify_one();
        }
    }
}

impl Drop for Arrivals {
    fn drop(&mut self) {
        self.taken.is_over.store(true, Ordering::Relaxed);
        self.taken.news.notify_one();
    }
}

async fn pass_on(mut stream: RecvStream, to: Sender<Arrival>, taken: Arc<Taken>) {
    while !taken.is_over.load(Ordering::Relaxed) {
        tokio::select! {
            biased;
            data = stream.data() => match data {
                Some(Ok(bytes)) => drop(to.send(Arrival::Bytes(bytes))),
                Some(Err(error)) => return drop(to.send(Arrival::End(Err(error)))),
                None => return drop(to.send(Arrival::End(stream.trailers().await))),
            },
            () = taken.news.notified() => {}
        }
        // An error comes again above.
        let _ = stream.flow_control().release_capacity(taken.bytes.swap(0, Ordering::Relaxed));
    }
}
