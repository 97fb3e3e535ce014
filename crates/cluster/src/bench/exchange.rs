//! How fast processes exchange gradients: around a ring, or through a server.
//!
//! One process starts the others and introduces them to each other over their standard input and output; from then on
//! they talk as the nodes of a run do.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail, ensure};
use bonfire_learn::layout::Init;
use bonfire_learn::{Gradient, Layout};
use bonfire_wire::proto::frame::Body;
use bonfire_wire::{
    Closed, Frame, Identity, ListenSecurity, Listener, Outbox, Pool, Secret, Timeouts, Wire, proto,
};
use bytes::Bytes;
use serde::{Deserialize, Serialize};

use crate::allreduce::{Circle, Gather};
use crate::exchange::{Codec, Parcel};
use crate::mail::{Mailbox, News, Post, mailbox};
use crate::roles::network::{Grpc, Network};
use bonfire_run::run_file::Compression;

/// How gradients are exchanged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Via {
    Ring,
    Server,
}

/// What is measured.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Task {
    pub via: Via,
    pub workers: usize,
    /// Of the buffer that every worker has.
    pub bytes: usize,
    pub seconds: f64,
    pub tls: bool,
}

/// One measurement.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ExchangeSpeed {
    pub via: Via,
    pub workers: usize,
    pub bytes: usize,
    pub tls: bool,
    /// Of one exchange, the best of three repeats.
    pub ms: f64,
    pub gb_per_s: f64,
}

/// What a process must know of the others.
#[derive(Debug, Serialize, Deserialize)]
struct Introduction {
    task: Task,
    index: usize,
    secret: [u8; 16],
    peers: Vec<Peer>,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct Peer {
    address: String,
    fingerprint: Vec<u8>,
}

impl Peer {
    fn to_proto(&self, node: usize) -> proto::Peer {
        proto::Peer {
            node: node as u64,
            name: format!("process {node}"),
            address: self.address.clone(),
            fingerprint: self.fingerprint.clone().into(),
        }
    }
}

/// No process waits longer than this for another.
const PATIENCE: Duration = Duration::from_secs(60);

/// Measures an exchange between processes of this program, which `command` starts so that they call [`take_part`].
pub fn measure(task: Task, command: impl Fn() -> Result<Command>) -> Result<ExchangeSpeed> {
    ensure!(task.workers > 0 && task.workers <= 64, "--workers must be from 1 to 64");
    ensure!(task.workers > 1 || task.via == Via::Server, "a ring of one has nothing to exchange");
    ensure!(task.bytes >= 4 && task.bytes <= 1 << 30, "--bytes must be from 4 to {}", 1 << 30);
    ensure!(task.seconds > 0.0 && task.seconds.is_finite(), "--seconds must be above 0");
    let processes = task.workers + usize::from(task.via == Via::Server);
    let secret = Secret::generate()?.reveal();
    let mut group = Group(Vec::new());
    for _ in 0..processes {
        let mut child = command()?.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let pipes = (child.stdin.take(), child.stdout.take().map(BufReader::new));
        let (Some(stdin), Some(stdout)) = pipes else { bail!("a process without pipes") };
        group.0.push((child, stdin, stdout));
    }
    // Each first needs to know whether to use TLS, then who the others are.
    let introduction = |index: usize, peers: Vec<Peer>| Introduction { task, index, secret, peers };
    let mut peers = Vec::new();
    for (index, process) in group.0.iter_mut().enumerate() {
        write_line(&mut process.1, &introduction(index, Vec::new()))?;
        peers.push(read_line(&mut process.2)?);
    }
    for (index, process) in group.0.iter_mut().enumerate() {
        write_line(&mut process.1, &introduction(index, peers.clone()))?;
    }
    // All are done before the first is let go: one that ends takes what it has not sent yet with it.
    let mut speeds = Vec::new();
    for process in &mut group.0 {
        speeds.push(read_line(&mut process.2)?);
    }
    Ok(speeds.swap_remove(0))
}

/// Processes that end when this does.
struct Group(Vec<(Child, ChildStdin, BufReader<ChildStdout>)>);

/// How long processes may take to end by themselves.
const FAREWELL: Duration = Duration::from_secs(2);

impl Drop for Group {
    fn drop(&mut self) {
        // Whose standard input ends is done; one that is killed would let the others complain of it.
        let mut children: Vec<Child> = self.0.drain(..).map(|(child, ..)| child).collect();
        let deadline = Instant::now() + FAREWELL;
        while children.iter_mut().any(|child| matches!(child.try_wait(), Ok(None)))
            && Instant::now() < deadline
        {
            std::thread::sleep(Duration::from_millis(5));
        }
        for mut child in children {
            // One that has ended needs no killing.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

fn write_line(out: &mut impl Write, value: &impl Serialize) -> Result<()> {
    writeln!(out, "{}", serde_json::to_string(value)?)?;
    out.flush()?;
    Ok(())
}

fn read_line<T: serde::de::DeserializeOwned>(from: &mut impl BufRead) -> Result<T> {
    let mut line = String::new();
    from.read_line(&mut line)?;
    serde_json::from_str(&line).with_context(|| format!("a process said {line:?}"))
}

/// One process of a measurement: learns from its standard input what to do.
pub fn take_part() -> Result<()> {
    let (mut stdin, mut stdout) = (std::io::stdin().lock(), std::io::stdout().lock());
    let Introduction { task, index, secret, .. } = read_line(&mut stdin)?;
    let (party, own) = Party::open(task, index, secret.into())?;
    write_line(&mut stdout, &own)?;
    let Introduction { peers, .. } = read_line(&mut stdin)?;
    // Links end with their ends, and others may be at work yet when this process is done.
    let mut links = Vec::new();
    let seconds = match task.via {
        Via::Ring => around(&party, &peers, &mut links)?,
        Via::Server if index < task.workers => push_and_pull(&party, &peers, &mut links)?,
        Via::Server => serve(&party, &mut links)?,
    };
    let Task { via, workers, bytes, tls, .. } = task;
    let gb_per_s = bytes as f64 / seconds / 1e9;
    write_line(&mut stdout, &ExchangeSpeed { via, workers, bytes, tls, ms: seconds * 1e3, gb_per_s })?;
    // Until the parent has heard the same of all and lets go.
    let mut rest = String::new();
    let _ = stdin.read_line(&mut rest);
    Ok(())
}

/// A process with its mailbox and its way to the others.
struct Party {
    task: Task,
    index: usize,
    network: Grpc,
    post: Post,
    mailbox: Mailbox,
    _listener: Listener,
}

impl Party {
    fn open(task: Task, index: usize, secret: Secret) -> Result<(Self, Peer)> {
        let wire = std::sync::Arc::new(Wire::start()?);
        let (post, mailbox) = mailbox();
        let identity = task.tls.then(Identity::generate).transpose()?;
        let fingerprint = identity.as_ref().map(|identity| identity.fingerprint().as_bytes().to_vec());
        let security = identity.map_or(ListenSecurity::Plain, ListenSecurity::Tls);
        let accept = post.clone();
        let listener = wire.listen(
            "127.0.0.1:0",
            security,
            &secret,
            Timeouts::default(),
            move |_, outbox| {
                let link = accept.number();
                outbox.accept_payloads_up_to(usize::MAX);
                accept.announce(link, outbox);
                accept.sink(link)
            },
            |_, _| (),
        )?;
        let address = listener.local_addr().to_string();
        let own = Peer { address, fingerprint: fingerprint.unwrap_or_default() };
        let network = Grpc { wire, secret, timeouts: Timeouts::default() };
        Ok((Self { task, index, network, post, mailbox, _listener: listener }, own))
    }

    fn connect(&self, peers: &[Peer], to: usize) -> Result<Outbox> {
        let outbox = self.network.connect(&peers[to].to_proto(to), self.post.sink(self.post.number()))?;
        outbox.send(Body::Hello(proto::Hello { node: self.index as u64, generation: 1 }))?;
        Ok(outbox)
    }

    /// The next frame, from whomever.
    fn frame(&self, callers: &mut Vec<Outbox>) -> Result<Frame> {
        loop {
            let mail = self.mailbox.next(PATIENCE).ok_or_else(|| anyhow!("the others are silent"))?;
            match mail.news {
                News::Frame(Frame { body: Body::Hello(_), .. }) | News::Stranger(_) => {}
                News::Frame(frame) => return Ok(frame),
                News::Opened(outbox) => callers.push(outbox),
                News::Closed(reason) => bail!("a link closed: {reason}"),
            }
        }
    }
}

/// Why an exchange broke off.
struct Broken(anyhow::Error);

impl From<Closed> for Broken {
    fn from(closed: Closed) -> Self {
        Self(closed.into())
    }
}

/// The seconds of an exchange around the ring.
fn around(party: &Party, peers: &[Peer], links: &mut Vec<Outbox>) -> Result<f64> {
    let Task { workers, bytes, seconds, .. } = party.task;
    let right = party.connect(peers, (party.index + 1) % workers)?;
    links.push(right.clone());
    let mut receive = || match party.frame(links) {
        Ok(Frame { body: Body::Piece(piece), payload }) => Ok((piece, payload)),
        Ok(frame) => Err(Broken(anyhow!("{:?} is no piece", frame.body))),
        Err(error) => Err(Broken(error)),
    };
    let pool = Pool::default();
    let mut circle = Circle {
        index: party.index,
        members: workers,
        right: &right,
        receive: &mut receive,
        generation: 1,
        round: 0,
        pool: &pool,
    };
    let (mut buffer, mut spare) = (vec![1.0; bytes / 4], Vec::new());
    let mut turns = |circle: &mut Circle<'_, Broken>, count: usize| {
        let started = Instant::now();
        for _ in 0..count {
            circle.round += 1;
            // The sums grow out of bounds, which costs nothing.
            circle.sum(&mut buffer, &mut spare)?;
        }
        Ok::<f64, Broken>(started.elapsed().as_secs_f64() / count as f64)
    };
    let measured = (|| {
        turns(&mut circle, 3)?;
        let one = turns(&mut circle, 3)?;
        // All make as many turns as the first says.
        circle.round += 1;
        let count = ((seconds / 3.0 / one) as u32).max(3);
        let counts = circle.gather(Bytes::copy_from_slice(&count.to_le_bytes()))?;
        let count = counts[0].as_ref().try_into().map(u32::from_le_bytes).unwrap_or(3) as usize;
        let mut best = f64::INFINITY;
        for _ in 0..3 {
            circle.round += 1;
            circle.gather(Bytes::from_static(b"ready"))?;
            best = best.min(turns(&mut circle, count)?);
        }
        circle.round += 1;
        circle.gather(Bytes::from_static(b"done"))?;
        Ok(best)
    })();
    measured.map_err(|Broken(error)| error)
}

fn layout(bytes: usize) -> Layout {
    let mut layout = Layout::default();
    layout.vector("gradient".into(), bytes / 4, Init::Constant(0.0));
    layout
}

/// The seconds of a push and the answer to it. The first worker says when it is enough.
fn push_and_pull(party: &Party, peers: &[Peer], links: &mut Vec<Outbox>) -> Result<f64> {
    let Task { workers, bytes, seconds, .. } = party.task;
    let server = party.connect(peers, workers)?;
    links.push(server.clone());
    let layout = layout(bytes);
    let mut codec = Codec::new(&layout, Compression::None);
    let mut gradient = Gradient::new(&layout);
    gradient.values.fill(1.0);
    gradient.weight = 1.0;
    let mut sum = Gradient::new(&layout);
    let mut turn = |order: u64| -> Result<bool> {
        let push = proto::Push { order, weight: 1.0, ..proto::Push::default() };
        server.send(Frame { body: Body::Push(push), payload: codec.pack(&gradient) })?;
        let frame = party.frame(&mut Vec::new())?;
        let Body::Go(go) = frame.body else { return Ok(false) };
        codec.sum(&[Parcel { payload: frame.payload, weight: go.weight }], &mut sum)?;
        Ok(go.order > 0)
    };
    if party.index > 0 {
        let (started, mut count) = (Instant::now(), 1);
        while turn(1)? {
            count += 1;
        }
        return Ok(started.elapsed().as_secs_f64() / f64::from(count));
    }
    let mut turns = |count: usize| -> Result<f64> {
        let started = Instant::now();
        for _ in 0..count {
            turn(1)?;
        }
        Ok(started.elapsed().as_secs_f64() / count as f64)
    };
    turns(3)?;
    let count = ((seconds / 3.0 / turns(3)?) as usize).max(3);
    let mut best = f64::INFINITY;
    for _ in 0..3 {
        best = best.min(turns(count)?);
    }
    turn(0)?;
    Ok(best)
}

/// The server: answers all when all have pushed, until the first says that it is enough. The seconds of an answer.
fn serve(party: &Party, callers: &mut Vec<Outbox>) -> Result<f64> {
    let Task { workers, bytes, .. } = party.task;
    let layout = layout(bytes);
    let mut codec = Codec::new(&layout, Compression::None);
    let mut sum = Gradient::new(&layout);
    let (started, mut count) = (Instant::now(), 0);
    loop {
        count += 1;
        let (mut parcels, mut goes_on) = (Vec::new(), true);
        while parcels.len() < workers {
            let frame = party.frame(callers)?;
            let Body::Push(push) = frame.body else { continue };
            goes_on &= push.order > 0;
            parcels.push(Parcel { payload: frame.payload, weight: push.weight });
        }
        codec.sum(&parcels, &mut sum)?;
        let payload = codec.pack(&sum);
        for outbox in &*callers {
            let go = proto::Go { order: u64::from(goes_on), weight: sum.weight, ..proto::Go::default() };
            outbox.send(Frame { body: Body::Go(go), payload: payload.clone() })?;
        }
        if !goes_on {
            return Ok(started.elapsed().as_secs_f64() / f64::from(count));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_measured_is_refused() {
        let task = Task { via: Via::Ring, workers: 2, bytes: 4, seconds: 1.0, tls: false };
        let check = |task: Task, expect: &str| {
            let refused = measure(task, || bail!("started"));
            assert!(format!("{:#}", refused.expect_err("refused")).contains(expect), "{task:?}");
        };
        check(Task { workers: 0, ..task }, "--workers");
        check(Task { bytes: 0, ..task }, "--bytes");
        check(Task { seconds: f64::NAN, ..task }, "--seconds");
        check(task, "started");
    }
}
