use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::task::{Context, Poll, Waker, ready};
use std::time::{Duration, Instant};

use h2::{Ping, PingPong};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::sleep_until;

/// When something last came from the peer.
///
/// Any byte counts, not only the answer to a ping: on a slow network that answer waits behind the frames that are on
/// their way. What was sent does not count, because a machine takes bytes for a process that stands still.
#[derive(Clone, Debug)]
pub(crate) struct Pulse {
    start: Instant,
    heard_us: Arc<AtomicU64>,
    /// How many more bytes may come.
    quota: Arc<AtomicUsize>,
}

impl Pulse {
    pub(crate) fn new() -> Self {
        Self { start: Instant::now(), heard_us: Arc::default(), quota: Arc::new(AtomicUsize::new(NO_END)) }
    }

    /// Of a peer that may say so much until it is known.
    pub(crate) fn of_unknown(bytes: usize) -> Self {
        let pulse = Self::new();
        pulse.quota.store(bytes, Ordering::Relaxed);
        pulse
    }

    /// The peer may say what it likes from now on.
    pub(crate) fn is_known(&self) {
        self.quota.store(NO_END, Ordering::Relaxed);
    }

    /// Whether an unknown peer has said more than it may.
    pub(crate) fn is_spent(&self) -> bool {
        self.quota.load(Ordering::Relaxed) == 0
    }

    /// Takes so many bytes off the quota.
    fn spend(&self, bytes: usize) {
        let spent = |quota: usize| (quota != NO_END).then(|| quota.saturating_sub(bytes));
        let _ = self.quota.fetch_update(Ordering::Relaxed, Ordering::Relaxed, spent);
    }

    fn beat(&self, now: Instant) {
        self.heard_us.store((now - self.start).as_micros() as u64, Ordering::Relaxed);
    }

    fn heard(&self) -> Instant {
        self.start + Duration::from_micros(self.heard_us.load(Ordering::Relaxed))
    }

    /// Pings when it is quiet. Ends when the peer was silent for so long, with words for it.
    pub(crate) async fn watch(self, mut pings: PingPong, silence: Duration) -> String {
        let interval = silence / 5;
        let mut looked = Instant::now();
        loop {
            let next = (looked + interval).min(self.heard() + silence);
            sleep_until(next.into()).await;
            let now = Instant::now();
            if now - next > interval {
                // It was this process that stood still: what the peer sent meanwhile is yet to be read.
                self.beat(now);
            }
            let quiet = now - self.heard();
            if quiet >= silence {
                return format!("silent for {:.1} s", silence.as_secs_f64());
            }
            if quiet >= interval / 2 {
                // The last answer must be taken before the next ping; without one, that ping is still on its way.
                let _ = pings.poll_pong(&mut Context::from_waker(Waker::noop()));
                let _ = pings.send_ping(Ping::opaque());
            }
            looked = now;
        }
    }
}

const NO_END: usize = usize::MAX;

/// A connection that notes in its pulse when something comes.
#[derive(Debug)]
pub(crate) struct WatchedStream {
    tcp: TcpStream,
    pulse: Pulse,
}

/// An unknown peer is read in pieces of this size: there may be many.
const UNKNOWN_PIECE_BYTES: usize = 4 << 10;

impl WatchedStream {
    pub(crate) fn new(tcp: TcpStream, pulse: &Pulse) -> io::Result<Self> {
        tcp.set_nodelay(true)?;
        Ok(Self { tcp, pulse: pulse.clone() })
    }

    /// Whether the peer may say what it likes.
    pub(crate) fn is_known(&self) -> bool {
        self.pulse.quota.load(Ordering::Relaxed) == NO_END
    }
}

impl AsyncRead for WatchedStream {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let Self { tcp, pulse } = self.get_mut();
        let before = buffer.filled().len();
        let result = match pulse.quota.load(Ordering::Relaxed) {
            NO_END => Pin::new(tcp).poll_read(context, buffer),
            0 => return Poll::Ready(Err(io::Error::other("an unknown peer has said too much"))),
            quota => read_some(tcp, context, buffer, quota),
        };
        let n = buffer.filled().len() - before;
        if n > 0 {
            pulse.beat(Instant::now());
            pulse.spend(n);
        }
        result
    }
}

/// Reads no more than so many bytes.
fn read_some(
    tcp: &mut TcpStream,
    context: &mut Context<'_>,
    buffer: &mut ReadBuf<'_>,
    most: usize,
) -> Poll<io::Result<()>> {
    let mut memory = [0; UNKNOWN_PIECE_BYTES];
    let len = memory.len().min(most).min(buffer.remaining());
    let mut place = ReadBuf::new(&mut memory[..len]);
    ready!(Pin::new(tcp).poll_read(context, &mut place))?;
    buffer.put_slice(place.filled());
    Poll::Ready(Ok(()))
}

impl AsyncWrite for WatchedStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.tcp).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.tcp).poll_write_vectored(context, parts)
    }

    fn is_write_vectored(&self) -> bool {
        self.tcp.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.tcp).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.tcp).poll_shutdown(context)
    }
}
