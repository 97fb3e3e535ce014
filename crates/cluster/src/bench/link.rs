//! How fast the way between two hosts is, as a run has it: frames over gRPC with TLS.
//!
//! One host answers, another measures. There is a little language of pieces for it: a ping comes back, data are
//! counted, and at their end comes back how many they were and what they took of the processor.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::UdpSocket;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail};
use bonfire_wire::proto::frame::Body;
use bonfire_wire::{Frame, Identity, ListenSecurity, Listener, Outbox, Secret, Sink, Timeouts, Wire, proto};
use bytes::Bytes;
use serde::{Deserialize, Serialize};

use super::core_time::Watch;
use crate::mail::{Mailbox, News, Post, mailbox};
use crate::plan::figures::FrameFigures;
use crate::remote::listen;
use crate::roles::network::{Grpc, Network};

/// Where somebody answers, and what it takes to be let in.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct LinkAnswer {
    pub port: u16,
    fingerprint: Vec<u8>,
    secret: [u8; 16],
}

/// What one who measures is told: an answer, and where its host may be.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct LinkQuestion {
    pub answer: LinkAnswer,
    pub addresses: Vec<String>,
}

/// The way from a host to another and back.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct LinkSpeed {
    /// From one process to the other.
    pub latency_s: f64,
    /// Bytes a second, one way at a time.
    pub up: f64,
    pub down: f64,
    /// Bytes that go at once after a rest.
    pub burst: f64,
    pub send: FrameFigures,
    pub receive: FrameFigures,
    /// What it takes of the processor beyond that when threads have to be woken for a frame: on its way out, and in.
    pub wake_s: f64,
}

/// What a piece asks for, or answers.
pub(super) mod step {
    /// To be sent back.
    pub(crate) const PING: u32 = 0;
    /// To be counted.
    pub(crate) const DATA: u32 = 1;
    /// How much was there, and what it took; counting begins anew.
    pub(crate) const END: u32 = 2;
    /// So many bytes are to be sent, and then their end.
    pub(crate) const GIVE: u32 = 3;
}

/// How long somebody who measures is waited for, and an answer to each of its questions.
const ANSWERS_FOR: Duration = Duration::from_secs(120);
pub(super) const PATIENCE: Duration = Duration::from_secs(15);

/// Frames of these sizes are sent: about as large as chunks, and much smaller.
const LARGE: usize = 64 << 10;
const SMALL: usize = 1 << 10;
const SMALL_FRAMES: usize = 300;

/// So many are sent and come back, one after the other: each finds all threads asleep.
const PINGS: usize = 101;

/// Answers whoever measures, until the input ends. Prints first where, and what it takes to be let in.
///
/// # Errors
/// When it cannot listen, or cannot print.
pub fn answer(input: impl Read + Send + 'static, out: &mut impl Write) -> Result<()> {
    let wire = Wire::start()?;
    let (post, mailbox) = mailbox();
    let (_listener, said) = open(&wire, &post)?;
    writeln!(out, "{}", serde_json::to_string(&said)?)?;
    out.flush()?;
    let gone: &'static AtomicBool = Box::leak(Box::new(AtomicBool::new(false)));
    thread::spawn(move || {
        let _ = std::io::copy(&mut { input }, &mut std::io::sink());
        gone.store(true, Ordering::Relaxed);
    });
    let until = Instant::now() + ANSWERS_FOR;
    let mut callers: BTreeMap<u64, Outbox> = BTreeMap::new();
    let mut counted = Counted::new();
    while !gone.load(Ordering::Relaxed) && Instant::now() < until {
        let Some(mail) = mailbox.next(Duration::from_millis(100)) else { continue };
        match mail.news {
            News::Opened(outbox) => drop(callers.insert(mail.link, outbox)),
            News::Frame(frame) => {
                if let Some(caller) = callers.get(&mail.link) {
                    // One who has gone is heard of in the mail.
                    let _ = reply(caller, frame, &mut counted);
                }
            }
            News::Closed(_) => drop(callers.remove(&mail.link)),
            News::Stranger(_) => {}
        }
    }
    Ok(())
}

/// Lets others in, whose mail comes by this post; with what it takes.
pub(super) fn open(wire: &Wire, post: &Post) -> Result<(Listener, LinkAnswer)> {
    let (identity, secret) = (Identity::generate()?, Secret::generate()?);
    let fingerprint = identity.fingerprint().as_bytes().to_vec();
    let security = ListenSecurity::Tls(identity);
    let most = Some(usize::MAX);
    // A machine without IPv6 has no such address.
    let any = if UdpSocket::bind("[::]:0").is_ok() { "[::]:0" } else { "0.0.0.0:0" };
    let listener = listen(wire, any, security, &secret, Timeouts::default(), post, most)?;
    let port = listener.local_addr().port();
    Ok((listener, LinkAnswer { port, fingerprint, secret: secret.reveal() }))
}

/// Data that came, and since when.
struct Counted {
    bytes: u64,
    watch: Watch,
}

impl Counted {
    fn new() -> Self {
        Self { bytes: 0, watch: Watch::start() }
    }
}

fn reply(caller: &Outbox, frame: Frame, counted: &mut Counted) -> Result<()> {
    let Frame { body: Body::Piece(piece), payload } = frame else { return Ok(()) };
    match piece.step {
        step::PING => caller.send(Frame { body: Body::Piece(piece), payload })?,
        step::DATA => counted.bytes += payload.len() as u64,
        step::END => {
            let round = counted.bytes;
            let weight = counted.watch.core_s();
            caller.send(Body::Piece(proto::Piece { step: step::END, round, weight, ..piece }))?;
            *counted = Counted::new();
        }
        step::GIVE => send(caller, piece.round as usize, LARGE)?,
        _ => {}
    }
    Ok(())
}

/// Sends so many bytes in frames of a size, and then their end.
fn send(to: &Outbox, bytes: usize, size: usize) -> Result<()> {
    let payload = Bytes::from(vec![0x5a; size]);
    let piece = |step| proto::Piece { step, ..proto::Piece::default() };
    for start in (0..bytes).step_by(size) {
        let payload = payload.slice(..size.min(bytes - start));
        to.send(Frame { body: Body::Piece(piece(step::DATA)), payload })?;
    }
    Ok(to.send(Body::Piece(piece(step::END)))?)
}

/// One end of the way that is measured.
struct Probe {
    other: Outbox,
    mailbox: Mailbox,
}

/// Measures the way to one who answers.
///
/// # Errors
/// When it cannot be reached, or falls silent.
pub fn measure(question: &LinkQuestion) -> Result<LinkSpeed> {
    let wire = Arc::new(Wire::start()?);
    let (post, mailbox) = mailbox();
    let other = reach(&wire, question, || post.sink(post.number()))?;
    Probe { other, mailbox }.measure()
}

/// Connects to one who answers, at the first of its addresses that leads there.
pub(super) fn reach(wire: &Arc<Wire>, question: &LinkQuestion, sink: impl Fn() -> Sink) -> Result<Outbox> {
    let LinkQuestion { answer, addresses } = question;
    let (secret, timeouts) = (Secret::from(answer.secret), Timeouts::default());
    let network = Grpc { wire: wire.clone(), secret, timeouts, head: String::new() };
    let mut trouble = anyhow!("the other host has no address");
    for host in addresses {
        let (address, name) = (format!("{host}:{}", answer.port), host.clone());
        let fingerprint = answer.fingerprint.clone().into();
        let peer = proto::Peer { node: 0, name, address, fingerprint };
        match network.connect(&peer, sink()) {
            Ok(other) => {
                other.accept_payloads_up_to(usize::MAX);
                return Ok(other);
            }
            Err(error) => trouble = error,
        }
    }
    Err(trouble)
}

/// A transfer is long enough to be measured from this on, and never longer than that.
const LONG: Duration = Duration::from_millis(180);
const MOST_BYTES: usize = 24 << 20;

impl Probe {
    fn measure(&self) -> Result<LinkSpeed> {
        let (round_trip, ping_s) = self.round_trip()?;
        let mut sizes: Vec<(f64, f64)> = Vec::new();
        let mut bytes = 64 << 10;
        let sending = loop {
            // A link that has rested may take more at once.
            thread::sleep(Duration::from_millis(50));
            self.end()?;
            let (started, watch) = (Instant::now(), Watch::start());
            send(&self.other, bytes, LARGE)?;
            self.receive_end()?;
            let seconds = (started.elapsed().as_secs_f64() - round_trip / 2.0).max(1e-6);
            let sending = (bytes as f64, watch.core_s());
            sizes.push((bytes as f64, seconds));
            if seconds >= LONG.as_secs_f64() || bytes >= MOST_BYTES {
                break sending;
            }
            bytes *= if seconds < LONG.as_secs_f64() / 6.0 { 4 } else { 2 };
        };
        let (up, burst) = line(&sizes);
        let small = self.small_frames()?;
        let (down, receiving) = self.take(bytes)?;
        let latency_s = (round_trip / 2.0).max(1e-6);
        let send = frame_figures(sending, LARGE, small.0);
        let receive = frame_figures(receiving, LARGE, small.1);
        let wake_s = ((ping_s - send.frame_s - receive.frame_s) / 2.0).max(0.0);
        Ok(LinkSpeed { latency_s, up, down, burst, send, receive, wake_s })
    }

    fn say(&self, piece: proto::Piece) -> Result<()> {
        Ok(self.other.send(Body::Piece(piece))?)
    }

    fn next(&self) -> Result<(proto::Piece, Bytes)> {
        loop {
            match self.mailbox.next(PATIENCE).map(|mail| mail.news) {
                Some(News::Frame(Frame { body: Body::Piece(piece), payload })) => {
                    return Ok((piece, payload));
                }
                Some(News::Closed(reason)) => bail!("the other host is gone: {reason}"),
                Some(_) => {}
                None => bail!("the other host is silent"),
            }
        }
    }

    /// The median of some, and what each took of the processor here.
    fn round_trip(&self) -> Result<(f64, f64)> {
        let (mut times, watch) = (Vec::new(), Watch::start());
        for _ in 0..PINGS {
            let started = Instant::now();
            self.say(proto::Piece { step: step::PING, ..proto::Piece::default() })?;
            self.next()?;
            times.push(started.elapsed().as_secs_f64());
        }
        let core_s = watch.core_s() / PINGS as f64;
        times.sort_by(f64::total_cmp);
        Ok((times[times.len() / 2], core_s))
    }

    /// What the other side has counted, and what that took; it counts anew.
    fn end(&self) -> Result<(u64, f64)> {
        self.say(proto::Piece { step: step::END, ..proto::Piece::default() })?;
        self.receive_end()
    }

    /// The next end, from the other side, whatever comes before it.
    fn receive_end(&self) -> Result<(u64, f64)> {
        loop {
            let (piece, _) = self.next()?;
            if piece.step == step::END {
                return Ok((piece.round, piece.weight));
            }
        }
    }

    /// Seconds of a core for each of many small frames, of who sends and who receives.
    fn small_frames(&self) -> Result<(f64, f64)> {
        self.end()?;
        let watch = Watch::start();
        send(&self.other, SMALL * SMALL_FRAMES, SMALL)?;
        let (_, there) = self.receive_end()?;
        Ok((watch.core_s() / SMALL_FRAMES as f64, there / SMALL_FRAMES as f64))
    }

    /// Bytes a second from there to here, and what they took here: bytes, and seconds of a core.
    fn take(&self, bytes: usize) -> Result<(f64, (f64, f64))> {
        thread::sleep(Duration::from_millis(50));
        let (started, watch) = (Instant::now(), Watch::start());
        self.say(proto::Piece { step: step::GIVE, round: bytes as u64, ..proto::Piece::default() })?;
        self.receive_end()?;
        Ok((bytes as f64 / started.elapsed().as_secs_f64(), (bytes as f64, watch.core_s())))
    }
}

/// The slope and the burst of transfers, by their sizes and times: the last two are the longest.
fn line(sizes: &[(f64, f64)]) -> (f64, f64) {
    let Some(&(bytes, seconds)) = sizes.last() else { return (1.0, 0.0) };
    let Some(&(fewer, sooner)) = sizes.len().checked_sub(2).and_then(|place| sizes.get(place)) else {
        return (bytes / seconds, 0.0);
    };
    let rate = (bytes - fewer) / (seconds - sooner).max(1e-9);
    // A rate that is far from that of the whole is chance.
    if rate <= 0.0 || rate > bytes / seconds * 1.5 || rate < bytes / seconds * 0.5 {
        return (bytes / seconds, 0.0);
    }
    (rate, (bytes - rate * seconds).clamp(0.0, bytes * 0.5))
}

/// What a frame and a byte take, by large frames and by small ones.
fn frame_figures((bytes, core_s): (f64, f64), size: usize, small_s: f64) -> FrameFigures {
    let frames = (bytes / size as f64).max(1.0);
    let large_s = core_s / frames;
    let byte_s = ((large_s - small_s) / (size - SMALL) as f64).max(large_s / size as f64 * 0.2);
    FrameFigures { frame_s: (small_s - byte_s * SMALL as f64).max(0.0), byte_s }
}

/// Reads a question from the input and measures.
///
/// # Errors
/// When it is none, or the other host cannot be reached.
pub fn measure_from(input: impl Read) -> Result<LinkSpeed> {
    let question: LinkQuestion =
        serde_json::from_str(&std::io::read_to_string(input)?).context("the question is missing")?;
    measure(&question)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_way_to_this_process_is_measured() {
        let (hear, mut said) = std::io::pipe().expect("a pipe");
        let (stdin, keep) = std::io::pipe().expect("a pipe");
        let answering = thread::spawn(move || answer(stdin, &mut said).map_err(|error| error.to_string()));
        let mut line = String::new();
        std::io::BufRead::read_line(&mut std::io::BufReader::new(hear), &mut line).expect("a line");
        let answer: LinkAnswer = serde_json::from_str(&line).expect("an answer");
        let speed =
            measure(&LinkQuestion { answer, addresses: vec!["127.0.0.1".to_owned()] }).expect("a speed");
        assert!(speed.up > 1e6 && speed.down > 1e6 && speed.latency_s < 0.1, "{speed:?}");
        assert!(speed.send.byte_s > 0.0 && speed.receive.byte_s > 0.0, "{speed:?}");
        drop(keep);
        answering.join().expect("no panic").expect("no error");
    }

    #[test]
    fn a_burst_is_what_a_line_does_not_explain() {
        let (rate, burst) = line(&[(1e5, 0.001), (5e5, 0.03), (1e6, 0.08)]);
        assert!((rate - 1e7).abs() < 1.0 && (burst - 2e5).abs() < 1.0, "{rate} {burst}");
        assert_eq!(line(&[(1e6, 0.1)]), (1e7, 0.0));
        let (rate, burst) = line(&[(5e5, 0.05), (1e6, 0.1)]);
        assert!((rate - 1e7).abs() < 1.0 && burst < 1.0, "{rate} {burst}");
    }
}
