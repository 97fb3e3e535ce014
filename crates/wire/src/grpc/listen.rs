use std::collections::HashSet;
use std::future::poll_fn;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use h2::server::{self, SendResponse};
use h2::{Reason, RecvStream};
use http::{Request, Response};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::AbortHandle;
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsAcceptor;

use super::end::{Fate, Parts, Role, drive, start_reader, text};
use super::pulse::{Heard, Pulse};
use super::status::{CONTENT_TYPE, Status};
use super::{ENCRYPTED_BYTES, GrpcEnd, HEADER_BYTES, PATH, PIECE_BYTES, QUEUE_BYTES, WINDOW_BYTES, Wire};
use crate::identity::Identity;
use crate::link::{FIRST_PAYLOAD_BYTES, Outbox, Sink, Timeouts};
use crate::pool::Pool;
use crate::ticket::Secret;

/// How many peers may be connected.
const MAX_PEERS: usize = 1024;

/// How many of them may be unknown, each for the time of a handshake; more wait to be accepted.
const MAX_UNKNOWN: usize = 64;

/// How many kinds of strangers are reported before it is enough.
const MAX_REPORTS: usize = 1024;

/// Whether links are encrypted.
#[derive(Clone, Debug)]
pub enum ListenSecurity {
    /// With this certificate.
    Tls(Identity),
    /// Everyone in between can read and change what is sent.
    Plain,
}

/// An address at which peers are let in, until it is dropped; their links stay.
#[derive(Debug)]
pub struct Listener {
    address: SocketAddr,
    task: AbortHandle,
}

impl Listener {
    /// Where it listens, with the port that port 0 has become.
    pub fn local_addr(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Wire {
    /// Listens at an address. For each peer that shows the secret, `accept` gets its address and the link's sending
    /// end, and says where its frames go. All others are turned away, and `strangers` hears of each address and kind
    /// once.
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
            acceptor: match security {
                ListenSecurity::Tls(identity) => Some(TlsAcceptor::from(identity.config())),
                ListenSecurity::Plain => None,
            },
            secret: secret.clone(),
            timeouts,
            pool: self.pool.clone(),
            accept: Box::new(accept),
            strangers: Box::new(strangers),
            reported: Mutex::default(),
        });
        let task = runtime.spawn(stand_at(door, listener)).abort_handle();
        Ok(Listener { address: local, task })
    }
}

type Accept = Box<dyn Fn(SocketAddr, Outbox) -> Sink + Send + Sync>;
type Strangers = Box<dyn Fn(SocketAddr, &str) + Send + Sync>;

struct Door {
    acceptor: Option<TlsAcceptor>,
    secret: Secret,
    timeouts: Timeouts,
    pool: Pool,
    accept: Accept,
    strangers: Strangers,
    reported: Mutex<HashSet<(IpAddr, &'static str)>>,
}

async fn stand_at(door: Arc<Door>, listener: TcpListener) {
    let (peers, unknown) = (Arc::new(Semaphore::new(MAX_PEERS)), Arc::new(Semaphore::new(MAX_UNKNOWN)));
    while let Ok(unknown) = Arc::clone(&unknown).acquire_owned().await {
        match listener.accept().await {
            Ok((tcp, address)) => match Arc::clone(&peers).try_acquire_owned() {
                Ok(place) => {
                    tokio::spawn(greet(Arc::clone(&door), tcp, address, unknown, place));
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
    unknown: OwnedSemaphorePermit,
    _place: OwnedSemaphorePermit,
) {
    // Who hangs up without a word only looked whether somebody is here, as a launcher does before it starts nodes.
    match timeout(door.timeouts.handshake, tcp.peek(&mut [0])).await {
        Ok(Ok(0)) => return,
        Ok(_) => {}
        Err(_) => return door.report(address, "did not finish the handshake in time"),
    }
    let pulse = Pulse::new();
    let Ok(io) = Heard::new(tcp, &pulse) else { return };
    match &door.acceptor {
        None => meet(&door, async { Some(io) }, address, pulse, unknown).await,
        Some(acceptor) => {
            let encrypted = async {
                let mut io = acceptor.accept(io.reading_ahead()).await.ok()?;
                io.get_mut().1.set_buffer_limit(Some(ENCRYPTED_BYTES));
                Some(io)
            };
            meet(&door, encrypted, address, pulse, unknown).await;
        }
    }
}

async fn meet<IO: AsyncRead + AsyncWrite + Unpin + Send>(
    door: &Arc<Door>,
    io: impl Future<Output = Option<IO>>,
    address: SocketAddr,
    pulse: Pulse,
    unknown: OwnedSemaphorePermit,
) {
    let called = timeout(door.timeouts.handshake, async {
        let io = io.await.ok_or("did not speak TLS")?;
        let mut connection = settings().handshake(io).await.map_err(|_| "did not speak HTTP/2")?;
        let call = connection.accept().await.and_then(Result::ok).ok_or("did not call")?;
        Ok((connection, call))
    });
    match called.await {
        Err(_) => door.report(address, "did not finish the handshake in time"),
        Ok(Err(what)) => door.report(address, what),
        Ok(Ok((mut connection, (request, respond)))) => match door.examine(&request) {
            Err((status, what)) => {
                door.report(address, what);
                let _ =
                    timeout(door.timeouts.handshake, refuse(&mut connection, respond, status, what)).await;
            }
            Ok(()) => {
                let Some(fate) = door.let_in(address, request, respond) else { return };
                drop(unknown);
                carry(connection, pulse, fate, door.timeouts.silence).await;
            }
        },
    }
}

fn settings() -> server::Builder {
    let mut settings = server::Builder::new();
    settings
        .initial_window_size(WINDOW_BYTES)
        .initial_connection_window_size(WINDOW_BYTES)
        .max_frame_size(PIECE_BYTES)
        .max_send_buffer_size(QUEUE_BYTES)
        .max_header_list_size(HEADER_BYTES)
        .max_concurrent_streams(1)
        // The window bounds what waits here; the peer is known, so that many small frames are no attack.
        .data_frame_budget(usize::MAX);
    settings
}

impl Door {
    fn examine(&self, request: &Request<RecvStream>) -> Result<(), (Status, &'static str)> {
        let headers = request.headers();
        let is_grpc = text(headers, "content-type").is_some_and(|kind| kind.starts_with("application/grpc"));
        if request.uri().path() != PATH || request.method() != http::Method::POST || !is_grpc {
            return Err((Status::Unimplemented, "made a call that is not known here"));
        }
        match text(headers, "authorization") {
            Some(shown) if self.secret.is_shown_by(shown) => Ok(()),
            Some(_) => Err((Status::Unauthenticated, "showed a wrong secret")),
            None => Err((Status::Unauthenticated, "showed no secret")),
        }
    }

    /// Makes a link of a call, and a thread that reads it.
    fn let_in(
        self: &Arc<Self>,
        address: SocketAddr,
        request: Request<RecvStream>,
        mut respond: SendResponse<Parts>,
    ) -> Option<Arc<Fate>> {
        let mut response = Response::new(());
        response.headers_mut().insert(http::header::CONTENT_TYPE, CONTENT_TYPE);
        let sending = respond.send_response(response, false).ok()?;
        let fate = Arc::new(Fate::default());
        let end = GrpcEnd::new(
            address.to_string(),
            Role::Called,
            self.timeouts,
            FIRST_PAYLOAD_BYTES,
            sending,
            Arc::clone(&fate),
        );
        let end = Arc::new(end);
        let outbox = Outbox::grpc(Arc::clone(&end));
        let door = Arc::clone(self);
        let sink = move || (door.accept)(address, outbox);
        if start_reader(end, request.into_body(), self.pool.clone(), sink).is_err() {
            self.report(address, "is one too many: no thread for it");
            return None;
        }
        Some(fate)
    }

    fn report(&self, address: SocketAddr, what: &'static str) {
        let mut reported = self.reported.lock().unwrap_or_else(PoisonError::into_inner);
        let is_new = reported.len() < MAX_REPORTS && reported.insert((address.ip(), what));
        drop(reported);
        if is_new {
            (self.strangers)(address, what);
        }
    }
}

type Connection<IO> = server::Connection<IO, Parts>;

/// Answers a call with a status, and waits until the caller has it and leaves.
async fn refuse<IO: AsyncRead + AsyncWrite + Unpin>(
    connection: &mut Connection<IO>,
    mut respond: SendResponse<Parts>,
    status: Status,
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
    fate: Arc<Fate>,
    silence: Duration,
) {
    let Some(pings) = connection.ping_pong() else { return };
    drive(|context| advance(&mut connection, context), pulse, pings, fate, silence).await;
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
