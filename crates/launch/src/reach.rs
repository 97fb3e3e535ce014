//! Whether one host reaches another, and how fast: a small transfer over TCP between two processes of this program.

use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream, ToSocketAddrs};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

/// What a transfer showed.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Speed {
    /// There and back, the best of several.
    pub round_trip_ms: f64,
    pub mb_per_s: f64,
}

/// What both sides were given, so that no stranger is served: hexadecimal digits.
pub(crate) type Token = [u8; 32];

/// A token from the system's randomness.
pub(crate) fn new_token() -> io::Result<String> {
    let mut bytes = [0; 16];
    std::fs::File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

const PINGS: usize = 8;
const CHUNK: usize = 256 << 10;

/// The most that is sent, and how long at most.
const MOST_BYTES: u64 = 64 << 20;
const MOST_TIME: Duration = Duration::from_millis(700);

/// How long either side waits for the other.
const PATIENCE: Duration = Duration::from_secs(5);

/// Connects and hangs up again; how long that took.
pub(crate) fn reach(address: &str, time: Duration) -> io::Result<Duration> {
    let started = Instant::now();
    connect(address, time).map(|_| started.elapsed())
}

fn connect(address: &str, time: Duration) -> io::Result<TcpStream> {
    let mut last = io::Error::new(io::ErrorKind::NotFound, format!("{address} has no address"));
    for address in address.to_socket_addrs()? {
        match TcpStream::connect_timeout(&address, time) {
            Ok(stream) => return Ok(stream),
            Err(error) => last = error,
        }
    }
    Err(last)
}

/// Answers those that show the token, one after the other, until `is_over`.
pub(crate) fn answer(listener: &TcpListener, token: &Token, is_over: &dyn Fn() -> bool) -> io::Result<()> {
    listener.set_nonblocking(true)?;
    while !is_over() {
        match listener.accept() {
            // One that breaks off is its own trouble.
            Ok((stream, _)) => drop(answer_one(stream, token)),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                std::thread::sleep(Duration::from_millis(2));
            }
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

fn answer_one(mut stream: TcpStream, token: &Token) -> io::Result<()> {
    stream.set_nonblocking(false)?;
    prepare(&stream)?;
    let mut shown = Token::default();
    stream.read_exact(&mut shown)?;
    if shown != *token {
        return Ok(());
    }
    for _ in 0..PINGS {
        let mut ping = [0];
        stream.read_exact(&mut ping)?;
        stream.write_all(&ping)?;
    }
    let count = io::copy(&mut (&mut stream).take(2 * MOST_BYTES), &mut io::sink())?;
    stream.write_all(&count.to_le_bytes())
}

/// Measures the way to whoever answers at an address.
pub(crate) fn measure(address: &str, token: &Token) -> io::Result<Speed> {
    let mut stream = connect(address, PATIENCE)?;
    prepare(&stream)?;
    stream.write_all(token)?;
    let mut best = f64::INFINITY;
    for _ in 0..PINGS {
        let started = Instant::now();
        let mut ping = [7];
        stream.write_all(&ping)?;
        stream.read_exact(&mut ping)?;
        best = best.min(started.elapsed().as_secs_f64());
    }
    let (chunk, started, mut sent) = (vec![0x5a; CHUNK], Instant::now(), 0);
    while sent < MOST_BYTES && started.elapsed() < MOST_TIME {
        stream.write_all(&chunk)?;
        sent += CHUNK as u64;
    }
    stream.shutdown(std::net::Shutdown::Write)?;
    let mut count = [0; 8];
    stream.read_exact(&mut count)?;
    // Only when all has arrived the time is over: until then much of it waits in buffers.
    let seconds = started.elapsed().as_secs_f64();
    if u64::from_le_bytes(count) != sent {
        return Err(io::Error::other("not all that was sent has arrived"));
    }
    Ok(Speed { round_trip_ms: best * 1e3, mb_per_s: sent as f64 / seconds / 1e6 })
}

fn prepare(stream: &TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(2 * PATIENCE))?;
    stream.set_write_timeout(Some(2 * PATIENCE))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicBool, Ordering};

    #[test]
    fn only_who_has_the_token_is_answered() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address").to_string();
        let over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let is_over = || over.load(Ordering::Relaxed);
            let answering = scope.spawn(move || answer(&listener, &[1; 32], &is_over));
            assert!(measure(&address, &[2; 32]).is_err());
            assert!(reach(&address, PATIENCE).is_ok());
            let speed = measure(&address, &[1; 32]).expect("a speed");
            assert!(speed.round_trip_ms < 1000.0 && speed.mb_per_s > 1.0, "{speed:?}");
            over.store(true, Ordering::Relaxed);
            answering.join().expect("no panic").expect("no error");
        });
        assert!(reach(&address, PATIENCE).is_err(), "nobody listens any more");
    }
}
