//! Links over gRPC: the one call `bonfire.v1.Fire/Link`, with its messages framed here.
//!
//! Any gRPC client made from `proto/fire.proto` can speak to it. The framing is our own because payloads are large:
//! they go to the socket from where they are, and come from it with one copy at most.

mod connect;
mod end;
mod handshake;
mod handshakes;
mod listen;
mod outgoing;
mod pulse;
mod reader;
mod records;
mod reports;
mod status;
mod tls;

use std::io;
use std::thread;

use tokio::runtime::{Builder, Runtime};

pub use connect::{ConnectError, ConnectErrorKind, ConnectSecurity};
pub(crate) use end::GrpcEnd;
pub use listen::{ListenSecurity, Listener};

use crate::pool::PayloadPool;

/// The one call.
const PATH: &str = "/bonfire.v1.Fire/Link";

/// How much may be on its way to a peer that does not read.
const WINDOW_BYTES: u32 = 16 << 20;

/// The longest piece in which a payload is read from the socket: each costs a hand-over and its own memory.
const PIECE_BYTES: u32 = 1 << 20;

/// How much HTTP/2 may hold before it is sent. What is sent beyond it waits in the link.
const QUEUE_BYTES: usize = 4 << 20;

/// How much may be on its way on all streams of a connection together. There is one stream, and its window is the one
/// that counts; but HTTP/2 takes many small pieces for an attack once they are worth half of this.
const CONNECTION_WINDOW_BYTES: u32 = (1 << 31) - 1;

/// How much an unknown caller may say in all. A handshake and a call take a few kilobytes, and a caller that does not
/// wait for the answer may send as much as HTTP/2's first window of 64 KiB.
const UNKNOWN_BYTES: usize = 128 << 10;

/// Headers of a call are short.
const HEADER_BYTES: u32 = 8 << 10;

/// The network side of a process: a few threads that move bytes. Links end when it is dropped.
#[derive(Debug)]
pub struct Wire {
    /// Always there, until the drop takes it.
    runtime: Option<Runtime>,
    pool: PayloadPool,
}

impl Wire {
    /// Starts the threads.
    pub fn start() -> io::Result<Self> {
        // One thread moves all that one core computes on; a second helps a head with many workers.
        let threads = if thread::available_parallelism().is_ok_and(|cores| cores.get() > 2) { 2 } else { 1 };
        keep_freed_memory();
        let runtime = Builder::new_multi_thread()
            .worker_threads(threads)
            .max_blocking_threads(4)
            .thread_name("wire")
            .enable_all()
            .build()?;
        Ok(Self { runtime: Some(runtime), pool: PayloadPool::default() })
    }

    fn runtime(&self) -> io::Result<&Runtime> {
        self.runtime.as_ref().ok_or_else(|| io::Error::other("the wire has been taken down"))
    }
}

/// Makes the C library keep what HTTP/2 frees after each piece, instead of giving it back to the system and paying for
/// it with page faults at the next. It does so for sizes that it has seen freed. Costs no memory, as none is touched.
fn keep_freed_memory() {
    drop(std::hint::black_box(Vec::<u8>::with_capacity(24 << 20)));
}

impl Drop for Wire {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            // Looking up a name may take long, and nobody wants the answer any more.
            runtime.shutdown_background();
        }
    }
}
