use std::fmt;
use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use h2::server::{self, SendResponse};
use h2::{Reason, RecvStream};
use http::{Request, Response};
use rustls::ServerConfig;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::AbortHandle;
use tokio::time::{interval, sleep, timeout};

use super::end::{drive, text};
use super::handshake;
use super::handshakes::{HandshakeSlot, Handshakes};
use super::outgoing::{FrameBytes, Side};
use super::pulse::{Pulse, WatchedStream};
use super::reader::start_reader;
use super::reports::Reports;
use super::status::{CONTENT_TYPE, GrpcStatus};
use super::{
    CONNECTION_WINDOW_BYTES, GrpcEnd, HEADER_BYTES, PATH, PIECE_BYTES, QUEUE_BYTES, UNKNOWN_BYTES,
    WINDOW_BYTES, Wire,
};
use crate::identity::Identity;
use crate::link::{FIRST_PAYLOAD_BYTES, Outbox, Sink, Timeouts};
use crate::pool::PayloadPool;
use crate::ticket::Secret;

/// How many peers may be connected.
const MAX_PEERS: usize = 1024;

/// How long one that is refused may take to hear why.
const FAREWELL: Duration = Duration::from_secs(1);

/// How often it is looked whether there is something to sum up.
const LOOK: Duration = Duration::from_secs(1);

/// Whether links are encrypted.
#[derive(Clone, Debug)]
pub enum ListenSecurity {
    /// With this certificate.
    Tls(Identity),
    /// Everyone in between can read and change what is sent.
    Plain,
}

/// An address at which peers are let in, until it is dropped; their links stay.
pub struct Listener {
    address: SocketAddr,
    task: AbortHandle,
    door: Arc<Door>,
}

impl Listener {
    /// Where it listens, with the port that port 0 has become.
    pub fn local_addr(&self) -> SocketAddr {
        self.address
    }

    /// Tells of all strangers that were counted and not told, at the end of what they are told to.
    pub fn sum_up(&self) {
        let told = self.door.reports().close();
        told.iter().for_each(|(address, what)| (self.door.strangers)(*address, what));
    }
}

impl fmt::Debug for Listener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Listener").field(&self.address).finish()
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Wire {
    /// Listens at an address. For each peer that shows the secret, `accept` gets its address and the link's sending
    /// end, and says where its frames go. All others are turned away. Of these `strangers` hears: of the first from an
    /// address that did something at once, of more like it now and then, in a sum.
    pub fn listen(
        &self,
        address: &str,
        security: ListenSecurity,
        secret: &Secret,
        timeouts: Timeouts,
        accept: impl Fn(SocketAddr, Outbox) -> Sink + Send + Sync + 'static,
        strangers: impl Fn(SocketAddr, &str) + Send + Sync + 'static,
    ) -> io::Result<Listener> {
        let runtime = self.runtime()?;
        let named =
            |error: io::Error| io::Error::new(error.kind(), format!("cannot listen on {address}: {error}"));
        let listener = std::net::TcpListener::bind(address).map_err(named)?;
        listener.set_nonblocking(true)?;
        let local = listener.local_addr()?;
        let _in_runtime = runtime.enter();
        let listener = TcpListener::from_std(listener)?;
        let door = Arc::new(Door {
            tls: match security {
                ListenSecurity::Tls(identity) => Some(identity.config()),
                ListenSecurity::Plain => None,
            },
            secret: secret.clone(),
            timeouts,
            pool: self.pool.clone(),
            accept: Box::new(accept),
            strangers: Box::new(strangers),
            reports: Mutex::default(),
        });
        let task = runtime.spawn(stand_at(Arc::clone(&door), listener)).abort_handle();
        Ok(Listener { address: local, task, door })
    }
}

type Accept = Box<dyn Fn(SocketAddr, Outbox) -> Sink + Send + Sync>;
type Strangers = Box<dyn Fn(SocketAddr, &str) + Send + Sync>;

struct Door {
    tls: Option<Arc<ServerConfig>>,
    secret: Secret,
    timeouts: Timeouts,
    pool: PayloadPool,
    accept: Accept,
    strangers: Strangers,
    reports: Mutex<Reports>,
}

async fn stand_at(door: Arc<Door>, listener: TcpListener) {
    let (peers, handshakes) = (Arc::new(Semaphore::new(MAX_PEERS)), Arc::new(Handshakes::default()));
    let mut looks = interval(LOOK);
    loop {
        let came = tokio::select! {
            came = listener.accept() => came,
            _ = looks.tick() => {
                door.sum_up();
                continue;
            }
        };
        match came {
            Ok((tcp, address)) => match Arc::clone(&peers).try_acquire_owned() {
                Ok(permit) => {
                    let slot = handshakes.enter(address.ip());
                    tokio::spawn(greet(Arc::clone(&door), tcp, address, slot, permit));
                }
                Err(_) => door.report(address, "is one too many: all places are taken"),
            },
            // Mostly a lack of file handles, which others may give back.
            Err(_) => sleep(Duration::from_millis(100)).await,
        }
    }
}

/// One connection's life.
async fn greet(
    door: Arc<Door>,
    tcp: TcpStream,
    address: SocketAddr,
    slot: HandshakeSlot,
    _permit: OwnedSemaphorePermit,
) {
    if !has_something_to_say(&door, &tcp, address, &slot).await {
        return;
    }
    let pulse = Pulse::of_unknown(UNKNOWN_BYTES);
    let Ok(io) = WatchedStream::new(tcp, &pulse) else { return };
    match &door.tls {
        None => meet(&door, async { Ok(io) }, address, pulse, slot).await,
        Some(config) => {
            let encrypted =
                async { handshake::answer(io, Arc::clone(config)).await.map_err(|error| no_tls(&error)) };
            meet(&door, encrypted, address, pulse, slot).await;
        }
    }
}

/// Waits for a caller's first word. Who hangs up without one only looked whether somebody is here, as a launcher does
/// before it starts nodes.
async fn has_something_to_say(
    door: &Door,
    tcp: &TcpStream,
    address: SocketAddr,
    slot: &HandshakeSlot,
) -> bool {
    let mut first = [0];
    let word = timeout(door.timeouts.handshake, tcp.peek(&mut first));
    let silent = tokio::select! {
        word = word => match word {
            Ok(Ok(0)) => return false,
            Ok(_) => return true,
            Err(_) => LATE,
        },
        () = slot.is_taken() => DISPLACED,
    };
    door.report(address, silent);
    false
}

/// What strangers did who said too little.
const LATE: &str = "did not finish the handshake in time";
const DISPLACED: &str = "had to make room for others before it finished the handshake";

/// Why there is no encrypted connection. One that was refused is mostly a node with the ticket of another run.
fn no_tls(error: &io::Error) -> &'static str {
    match error.get_ref().and_then(|cause| cause.downcast_ref()) {
        Some(rustls::Error::AlertReceived(_)) => {
            "did not accept the certificate: is its ticket of another run?"
        }
        Some(_) => "did not speak TLS",
        None => "left during the handshake",
    }
}

async fn meet<IO: AsyncRead + AsyncWrite + Unpin + Send>(
    door: &Arc<Door>,
    io: impl Future<Output = Result<IO, &'static str>>,
    address: SocketAddr,
    pulse: Pulse,
    slot: HandshakeSlot,
) {
    let handshake = timeout(door.timeouts.handshake, async {
        let io = io.await?;
        slot.progress();
        let mut connection = settings().handshake(io).await.map_err(|_| "did not speak HTTP/2")?;
        let call = connection.accept().await.and_then(Result::ok).ok_or("did not call")?;
        Ok((connection, call))
    });
    let called = tokio::select! {
        called = handshake => called.unwrap_or(Err(LATE)),
        () = slot.is_taken() => Err(DISPLACED),
    };
    match called {
        Err(_) if pulse.is_spent() => door.report(address, "said too much before it showed a secret"),
        Err(what) => door.report(address, what),
        Ok((mut connection, (request, respond))) => match door.examine(&request) {
            Err((status, what)) => {
                door.report(address, what);
                // What it sends after its call is not kept.
                drop(request);
                let refusal = timeout(FAREWELL, refuse(&mut connection, respond, status, what));
                tokio::select! {
                    _ = refusal => {}
                    () = slot.is_taken() => {}
                }
            }
            Ok(()) => {
                if !slot.leave() {
                    return;
                }
                pulse.is_known();
                connection.set_target_window_size(CONNECTION_WINDOW_BYTES);
                let Some(end) = door.let_in(address, request, respond) else { return };
                carry(connection, pulse, end, door.timeouts.silence).await;
            }
        },
    }
}

fn settings() -> server::Builder {
    let mut settings = server::Builder::new();
    // The window of the connection stays as small as it is at first, and with it what HTTP/2 puts up with, until the
    // peer is known.
    settings
        .initial_window_size(WINDOW_BYTES)
        .max_frame_size(PIECE_BYTES)
        .max_send_buffer_size(QUEUE_BYTES)
        .max_header_list_size(HEADER_BYTES)
        .max_concurrent_streams(1);
    settings
}

impl Door {
    fn examine(&self, request: &Request<RecvStream>) -> Result<(), (GrpcStatus, &'static str)> {
        let headers = request.headers();
        let is_grpc = text(headers, "content-type").is_some_and(|kind| kind.starts_with("application/grpc"));
        if request.uri().path() != PATH || request.method() != http::Method::POST || !is_grpc {
            return Err((GrpcStatus::Unimplemented, "made a call that is not known here"));
        }
        match text(headers, "authorization") {
            Some(shown) if self.secret.is_shown_by(shown) => Ok(()),
            Some(_) => Err((GrpcStatus::Unauthenticated, "showed a wrong secret")),
            None => Err((GrpcStatus::Unauthenticated, "showed no secret")),
        }
    }

    /// Makes a link of a call, and a thread that reads it.
    fn let_in(
        self: &Arc<Self>,
        address: SocketAddr,
        request: Request<RecvStream>,
        mut respond: SendResponse<FrameBytes>,
    ) -> Option<Arc<GrpcEnd>> {
        let mut response = Response::new(());
        response.headers_mut().insert(http::header::CONTENT_TYPE, CONTENT_TYPE);
        let sending = respond.send_response(response, false).ok()?;
        let end = GrpcEnd::new(
            address.to_string(),
            Side::Called,
            self.timeouts,
            FIRST_PAYLOAD_BYTES,
            sending,
            Arc::default(),
        );
        let end = Arc::new(end);
        let outbox = Outbox::grpc(Arc::clone(&end));
        let door = Arc::clone(self);
        let sink = move || (door.accept)(address, outbox);
        if start_reader(Arc::clone(&end), request.into_body(), self.pool.clone(), sink).is_err() {
            self.report(address, "is one too many: no thread for it");
            return None;
        }
        Some(end)
    }

    fn reports(&self) -> MutexGuard<'_, Reports> {
        self.reports.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn report(&self, address: SocketAddr, what: &'static str) {
        let is_first = self.reports().is_first(address, what, Instant::now());
        if is_first {
            (self.strangers)(address, what);
        }
    }

    fn sum_up(&self) {
        let told = self.reports().sum_up(Instant::now());
        told.iter().for_each(|(address, what)| (self.strangers)(*address, what));
    }
}

type Connection<IO> = server::Connection<IO, FrameBytes>;

/// Answers a call with a status, and waits until the caller has it and leaves.
async fn refuse<IO: AsyncRead + AsyncWrite + Unpin>(
    connection: &mut Connection<IO>,
    mut respond: SendResponse<FrameBytes>,
    status: GrpcStatus,
    what: &str,
) {
    if respond.send_response(status.refusal(&format!("the caller {what}")), true).is_ok() {
        drop(respond);
        connection.graceful_shutdown();
        let _ = poll_fn(|context| connection.poll_closed(context)).await;
    }
}

async fn carry<IO: AsyncRead + AsyncWrite + Unpin>(
    mut connection: Connection<IO>,
    pulse: Pulse,
    end: Arc<GrpcEnd>,
    silence: Duration,
) {
    let Some(pings) = connection.ping_pong() else { return };
    drive(|context| advance(&mut connection, context), pulse, pings, end, silence).await;
}

fn advance<IO: AsyncRead + AsyncWrite + Unpin>(
    connection: &mut Connection<IO>,
    context: &mut Context<'_>,
) -> Poll<()> {
    loop {
        match connection.poll_accept(context) {
            // A connection has one link.
            Poll::Ready(Some(Ok((_, mut respond)))) => respond.send_reset(Reason::REFUSED_STREAM),
            Poll::Ready(Some(Err(_)) | None) => return Poll::Ready(()),
            Poll::Pending => return Poll::Pending,
        }
    }
}
