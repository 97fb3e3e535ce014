use std::fmt;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use h2::RecvStream;
use h2::client;
use http::{HeaderValue, Request, Response, StatusCode};
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::end::{Fate, drive, text};
use super::handshake;
use super::outgoing::{FrameBytes, Side};
use super::pulse::{Pulse, WatchedStream};
use super::reader::start_reader;
use super::status::{CONTENT_TYPE, GrpcStatus};
use super::tls::TlsStream;
use super::{GrpcEnd, HEADER_BYTES, PATH, PIECE_BYTES, QUEUE_BYTES, WINDOW_BYTES, Wire};
use crate::identity::{Fingerprint, NAME, client_config};
use crate::link::{MAX_PAYLOAD_BYTES, Outbox, Sink, Timeouts};
use crate::ticket::Secret;

/// Whether the link is encrypted, and with whom.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConnectSecurity {
    /// Only with the peer that has this certificate.
    Tls(Fingerprint),
    /// Everyone in between can read and change what is sent.
    Plain,
}

/// Why there is no link.
#[derive(Debug)]
pub struct ConnectError {
    /// Where it was tried.
    pub address: String,
    /// What went wrong.
    pub kind: ConnectErrorKind,
}

/// What went wrong, by what can be done about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ConnectErrorKind {
    /// Nobody is there, or not yet.
    Unreachable(String),
    /// Someone is there with another certificate.
    OtherCertificate,
    /// The secret is of another run.
    WrongSecret,
    /// Whoever is there speaks something else.
    NotBonfire(String),
    /// This process cannot: it lacks threads or the like.
    Local(String),
}

impl fmt::Display for ConnectError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let address = &self.address;
        match &self.kind {
            ConnectErrorKind::Unreachable(reason) => write!(f, "cannot reach {address}: {reason}"),
            ConnectErrorKind::OtherCertificate => write!(
                f,
                "{address} shows another certificate than the ticket says: is the ticket of another run?"
            ),
            ConnectErrorKind::WrongSecret => {
                write!(f, "{address} does not accept the ticket's secret: is the ticket of another run?")
            }
            ConnectErrorKind::NotBonfire(reason) => {
                write!(f, "{address} does not answer as Bonfire does: {reason}")
            }
            ConnectErrorKind::Local(reason) => write!(f, "cannot connect to {address}: {reason}"),
        }
    }
}

impl std::error::Error for ConnectError {}

impl Wire {
    /// Connects to a listener, within the handshake's time.
    pub fn connect(
        &self,
        address: &str,
        security: ConnectSecurity,
        secret: &Secret,
        timeouts: Timeouts,
        sink: Sink,
    ) -> Result<Outbox, ConnectError> {
        let end = self.call(address, security, secret, timeouts, sink);
        end.map(Outbox::grpc).map_err(|kind| ConnectError { address: address.to_owned(), kind })
    }

    fn call(
        &self,
        address: &str,
        security: ConnectSecurity,
        secret: &Secret,
        timeouts: Timeouts,
        sink: Sink,
    ) -> Result<Arc<GrpcEnd>, ConnectErrorKind> {
        let runtime = self.runtime().map_err(local)?;
        let fate = Arc::new(Fate::default());
        let called = runtime.block_on(async {
            let call = reach(address, security, secret, timeouts, &fate);
            timeout(timeouts.handshake, call).await.unwrap_or_else(|_| {
                fate.cut("the handshake took too long".to_owned());
                let seconds = timeouts.handshake.as_secs_f64();
                Err(ConnectErrorKind::Unreachable(format!("no answer within {seconds:.1} s")))
            })
        });
        let (end, receiving) = called?;
        let _spawning = runtime.enter();
        start_reader(Arc::clone(&end), receiving, self.pool.clone(), move || sink).map_err(|error| {
            fate.cut(error.to_string());
            local(error)
        })?;
        Ok(end)
    }
}

fn local(error: io::Error) -> ConnectErrorKind {
    ConnectErrorKind::Local(error.to_string())
}

async fn reach(
    address: &str,
    security: ConnectSecurity,
    secret: &Secret,
    timeouts: Timeouts,
    fate: &Arc<Fate>,
) -> Result<(Arc<GrpcEnd>, RecvStream), ConnectErrorKind> {
    let tcp = dial(address, timeouts.handshake).await?;
    let pulse = Pulse::new();
    let io = WatchedStream::new(tcp, &pulse).map_err(local)?;
    let io: Pin<Box<dyn Channel>> = match security {
        ConnectSecurity::Plain => Box::pin(io),
        ConnectSecurity::Tls(fingerprint) => Box::pin(encrypt(io, fingerprint).await?),
    };
    let (mut caller, connection) =
        settings().handshake::<_, FrameBytes>(io).await.map_err(|error| no_http2(security, error))?;
    let (response, sending) =
        caller.send_request(request(secret), false).map_err(|error| no_http2(security, error))?;
    let end = GrpcEnd::new(
        address.to_owned(),
        Side::Caller,
        timeouts,
        MAX_PAYLOAD_BYTES,
        sending,
        Arc::clone(fate),
    );
    let end = Arc::new(end);
    tokio::spawn(carry(connection, pulse, Arc::clone(&end), timeouts.silence));
    let response = response.await.map_err(|error| no_http2(security, error));
    let receiving = response.and_then(examine).inspect_err(|_| fate.cut("not let in".to_owned()))?;
    Ok((end, receiving))
}

/// What HTTP/2 needs of a connection, encrypted or not.
trait Channel: AsyncRead + AsyncWrite + Send {}

impl<T: AsyncRead + AsyncWrite + Send> Channel for T {}

/// Tries each address that the name stands for.
async fn dial(address: &str, limit: Duration) -> Result<TcpStream, ConnectErrorKind> {
    let unreachable = |error: io::Error| ConnectErrorKind::Unreachable(error.to_string());
    let places: Vec<SocketAddr> = tokio::net::lookup_host(address).await.map_err(unreachable)?.collect();
    let mut failure = ConnectErrorKind::Unreachable("the name stands for no address".to_owned());
    for place in &places {
        // One that swallows everything must leave time for the next.
        match timeout(limit / places.len() as u32, TcpStream::connect(place)).await {
            Ok(Ok(tcp)) => return Ok(tcp),
            Ok(Err(error)) => failure = unreachable(error),
            Err(_) => {
                let seconds = limit.as_secs_f64();
                failure = ConnectErrorKind::Unreachable(format!("no answer within {seconds:.1} s"));
            }
        }
    }
    Err(failure)
}

async fn encrypt(io: WatchedStream, fingerprint: Fingerprint) -> Result<TlsStream, ConnectErrorKind> {
    let config = client_config(fingerprint).map_err(|error| ConnectErrorKind::Local(error.to_string()))?;
    let name = ServerName::try_from(NAME).map_err(|error| ConnectErrorKind::Local(error.to_string()))?;
    handshake::call(io, config, name).await.map_err(|error| {
        let cause = error.get_ref().and_then(|cause| cause.downcast_ref());
        match cause {
            Some(rustls::Error::InvalidCertificate(_)) => ConnectErrorKind::OtherCertificate,
            None => hung_up(&error),
            Some(_) => {
                ConnectErrorKind::NotBonfire(format!("no TLS there ({error}); was it started as insecure?"))
            }
        }
    })
}

/// A listener with many strangers drops some callers early; it may have room at the next attempt.
fn hung_up(error: &io::Error) -> ConnectErrorKind {
    ConnectErrorKind::Unreachable(format!("it hung up during the handshake ({error})"))
}

fn no_http2(security: ConnectSecurity, error: h2::Error) -> ConnectErrorKind {
    if error.is_io()
        && let Some(error) = error.into_io()
    {
        return hung_up(&error);
    }
    ConnectErrorKind::NotBonfire(match security {
        ConnectSecurity::Plain => "no plain HTTP/2 there; does it want TLS?".to_owned(),
        ConnectSecurity::Tls(_) => "no HTTP/2 there".to_owned(),
    })
}

fn settings() -> client::Builder {
    let mut settings = client::Builder::new();
    settings
        .initial_window_size(WINDOW_BYTES)
        .initial_connection_window_size(WINDOW_BYTES)
        .max_frame_size(PIECE_BYTES)
        .max_send_buffer_size(QUEUE_BYTES)
        .max_header_list_size(HEADER_BYTES)
        // The window bounds what waits here; the peer is known, so that many small frames are no attack.
        .data_frame_budget(usize::MAX)
        .enable_push(false);
    settings
}

async fn carry(
    mut connection: client::Connection<Pin<Box<dyn Channel>>, FrameBytes>,
    pulse: Pulse,
    end: Arc<GrpcEnd>,
    silence: Duration,
) {
    let Some(pings) = connection.ping_pong() else { return };
    drive(|context| Pin::new(&mut connection).poll(context).map(drop), pulse, pings, end, silence).await;
}

fn request(secret: &Secret) -> Request<()> {
    let mut request = Request::new(());
    *request.method_mut() = http::Method::POST;
    *request.version_mut() = http::Version::HTTP_2;
    *request.uri_mut() = http::Uri::from_static(concat!("http://bonfire", "/bonfire.v1.Fire/Link"));
    let headers = request.headers_mut();
    headers.insert(http::header::CONTENT_TYPE, CONTENT_TYPE);
    headers.insert(http::header::TE, HeaderValue::from_static("trailers"));
    if let Ok(mut bearer) = HeaderValue::from_str(&secret.bearer()) {
        bearer.set_sensitive(true);
        headers.insert(http::header::AUTHORIZATION, bearer);
    }
    debug_assert_eq!(request.uri().path(), PATH);
    request
}

/// What comes after the answer, if the answer is that of a peer that lets this one in.
fn examine(response: Response<RecvStream>) -> Result<RecvStream, ConnectErrorKind> {
    let headers = response.headers();
    if GrpcStatus::Unauthenticated.is_in(headers) {
        return Err(ConnectErrorKind::WrongSecret);
    }
    if GrpcStatus::is_failure(headers) {
        return Err(ConnectErrorKind::NotBonfire(GrpcStatus::message(headers).to_owned()));
    }
    let is_grpc = text(headers, "content-type").is_some_and(|kind| kind.starts_with("application/grpc"));
    if response.status() != StatusCode::OK || !is_grpc {
        return Err(ConnectErrorKind::NotBonfire(format!("HTTP status {}", response.status())));
    }
    Ok(response.into_body())
}
