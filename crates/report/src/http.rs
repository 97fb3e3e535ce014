//! HTTP by hand over threads, for what this program shows and answers itself: one short request, one answer.
//!
//! Every read and write has a deadline, and so many connections at most are open at a time; more are closed at once.
//! Off loopback a token is part of every address, or stands in the header `Authorization`.

mod answer;
mod request;

use std::fs;
use std::io::{self, Read};
use std::net::{IpAddr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

pub use answer::{Answer, Reply};
pub(crate) use request::decoded;
pub use request::{Method, Request};

/// What a server shows, or answers.
pub trait Site: Send + Sync + 'static {
    /// The most bytes that a request may bring; without any, nothing can be sent to it.
    const MOST_BODY: usize;

    /// What is answered to a request for a path, which begins behind the slash and the token.
    fn reply(&self, path: &str, request: &Request) -> Reply;
}

/// A server on threads of its own, as long as it lives.
#[derive(Debug)]
pub struct HttpServer {
    address: SocketAddr,
    token: Option<String>,
    state: Arc<ServerState>,
}

/// What all connections need.
#[derive(Debug)]
struct ServerState {
    token: Option<String>,
    address: SocketAddr,
    is_over: AtomicBool,
    connections: AtomicUsize,
}

/// More than the browsers of a few people open.
pub(crate) const MOST_CONNECTIONS: usize = 64;

/// How long the head of a request may take to come, and a part of an answer to be taken.
pub(crate) const PATIENCE: Duration = Duration::from_secs(5);

/// How long the body of a request may take to come.
const BODY: Duration = Duration::from_secs(30);

/// How long somebody who was refused may go on sending.
const LINGER: Duration = Duration::from_secs(1);

/// How long streams may take to end.
const FAREWELL: Duration = Duration::from_secs(2);

impl HttpServer {
    /// Serves on a listener.
    ///
    /// # Errors
    /// When no thread can be started, or an address that others reach has no token.
    pub fn start(listener: TcpListener, site: impl Site, token: Option<String>) -> io::Result<Self> {
        let address = listener.local_addr()?;
        if token.is_none() && !address.ip().is_loopback() {
            return Err(io::Error::other("pages that others can reach need a token"));
        }
        let state = Arc::new(ServerState {
            token: token.clone(),
            address,
            is_over: AtomicBool::new(false),
            connections: AtomicUsize::new(0),
        });
        let (shared, site) = (Arc::clone(&state), Arc::new(site));
        thread::Builder::new().name("http".into()).spawn(move || accept(&listener, &shared, &site))?;
        Ok(Self { address, token, state })
    }

    /// Where it is, for a browser on this machine.
    #[must_use]
    pub fn url(&self) -> String {
        let token = self.token.as_ref().map_or(String::new(), |token| format!("{token}/"));
        match self.address.ip().is_unspecified() {
            true => format!("http://localhost:{}/{token}", self.address.port()),
            false => format!("http://{}/{token}", self.address),
        }
    }

    #[cfg(test)]
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    #[cfg(test)]
    pub(crate) fn connections(&self) -> usize {
        self.state.connections.load(Ordering::Relaxed)
    }
}

/// Streams get what is left before they end.
impl Drop for HttpServer {
    fn drop(&mut self) {
        self.state.is_over.store(true, Ordering::Relaxed);
        // Wakes the thread that accepts; if it cannot be reached, it is gone.
        let _ = TcpStream::connect_timeout(&self.address, Duration::from_millis(200));
        let until = Instant::now() + FAREWELL;
        while self.state.connections.load(Ordering::Relaxed) > 0 && Instant::now() < until {
            thread::sleep(Duration::from_millis(20));
        }
    }
}

fn accept<S: Site>(listener: &TcpListener, state: &Arc<ServerState>, site: &Arc<S>) {
    loop {
        let accepted = listener.accept();
        if state.is_over.load(Ordering::Relaxed) {
            return;
        }
        let Ok((connection, _)) = accepted else {
            // Too many open files, perhaps: they pass.
            thread::sleep(Duration::from_millis(100));
            continue;
        };
        if state.connections.fetch_add(1, Ordering::Relaxed) >= MOST_CONNECTIONS {
            state.connections.fetch_sub(1, Ordering::Relaxed);
            continue;
        }
        let (open, site) = (Connection(Arc::clone(state)), Arc::clone(site));
        // Whoever does not take its answer goes without.
        let serve = move || drop(open.0.serve(connection, &*site));
        // One that cannot be started is dropped, and counted off with it.
        let _ = thread::Builder::new().name("http-reader".into()).stack_size(2 << 20).spawn(serve);
    }
}

/// A connection that is counted as long as it lives, also when its thread breaks down.
struct Connection(Arc<ServerState>);

impl Drop for Connection {
    fn drop(&mut self) {
        self.0.connections.fetch_sub(1, Ordering::Relaxed);
    }
}

impl ServerState {
    fn serve<S: Site>(&self, mut connection: TcpStream, site: &S) -> io::Result<()> {
        connection.set_write_timeout(Some(PATIENCE))?;
        connection.set_nodelay(true)?;
        let until = Instant::now() + PATIENCE;
        let (mut request, begun) = match Request::read(&mut connection, S::MOST_BODY, until)? {
            Ok(read) => read,
            Err(status) => return refuse(connection, status),
        };
        if !self.is_host(&request.host) {
            return refuse(connection, "421 Misdirected Request");
        }
        let Some(path) = self.without_token(&request).map(str::to_owned) else {
            return refuse(connection, "404 Not Found");
        };
        // What strangers send is not read.
        request.read_body(&mut connection, begun, Instant::now() + BODY)?;
        match site.reply(&path, &request) {
            Reply::Answer(answer) => answer.write(&mut connection, request.method != Method::Head),
            Reply::Stream(stream) => stream(&mut connection, &self.is_over),
        }
    }

    /// Pages of other hosts' names could read this one under a name of their own.
    fn is_host(&self, host: &str) -> bool {
        let name = host.rsplit_once(':').filter(|(_, port)| port.bytes().all(|byte| byte.is_ascii_digit()));
        let name = name.map_or(host, |(name, _)| name).trim_matches(['[', ']']);
        match name.parse::<IpAddr>() {
            Ok(address) => address.is_loopback() || !self.address.ip().is_loopback(),
            Err(_) => {
                let own = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
                name == "localhost" || self.token.is_some() && name == own.trim()
            }
        }
    }

    fn without_token<'a>(&self, request: &'a Request) -> Option<&'a str> {
        let path = request.path.strip_prefix('/')?;
        let Some(token) = &self.token else { return Some(path) };
        if request.bearer.as_ref().is_some_and(|given| is_equal(given.as_bytes(), token.as_bytes())) {
            return Some(path);
        }
        let (given, rest) = path.split_once('/')?;
        is_equal(given.as_bytes(), token.as_bytes()).then_some(rest)
    }
}

/// Says no, and hears some of what is still sent: whoever sends to a closed connection may not see the answer.
fn refuse(mut connection: TcpStream, status: &'static str) -> io::Result<()> {
    Answer::none(status).write(&mut connection, true)?;
    connection.shutdown(Shutdown::Write)?;
    let until = Instant::now() + LINGER;
    let mut part = [0; 16 << 10];
    loop {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Ok(());
        }
        connection.set_read_timeout(Some(left))?;
        if connection.read(&mut part)? == 0 {
            return Ok(());
        }
    }
}

/// In a time that does not tell how much of it is right.
fn is_equal(a: &[u8], b: &[u8]) -> bool {
    a.len() == b.len() && a.iter().zip(b).fold(0, |differences, (a, b)| differences | (a ^ b)) == 0
}
