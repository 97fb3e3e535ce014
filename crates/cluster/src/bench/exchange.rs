//! How fast processes exchange gradients: over all members, or through a server.
//!
//! One process starts the others and introduces them to each other over their standard input and output; from then on
//! they talk as the nodes of a run do.

mod server;

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail, ensure};
use bonfire_learn::layout::Init;
use bonfire_learn::{Gradient, Layout};
use bonfire_wire::proto::frame::Body;
use bonfire_wire::{Frame, Identity, ListenSecurity, Listener, Outbox, Secret, Timeouts, Wire, proto};
use bytes::Bytes;
use rayon::ThreadPoolBuilder;
use serde::{Deserialize, Serialize};

use super::acquaint::{AllLinks, Broken, PATIENCE, acquaint, pieces};
use crate::mail::{Mailbox, News, Post, mailbox};
use crate::roles::network::{Grpc, Network};
use bonfire_exchange::codec::Coding;
use bonfire_exchange::gradient_sums::GradientSums;
use bonfire_exchange::owners::parts;
use bonfire_exchange::peers::{Early, Gather, Peers};
use bonfire_exchange::sharded::ShardedSums;
use bonfire_run::run_file::Compression;

/// How gradients are exchanged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Via {
    /// Sums sharded over all workers.
    Sharded,
    Server,
}

/// What is measured.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Task {
    pub via: Via,
    pub workers: usize,
    /// How many more processes only sum for the others.
    pub servers: usize,
    /// Of the buffer that every worker has.
    pub bytes: usize,
    pub seconds: f64,
    pub tls: bool,
    pub compression: Compression,
}

/// One measurement.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ExchangeSpeed {
    pub via: Via,
    pub workers: usize,
    pub servers: usize,
    pub bytes: usize,
    pub tls: bool,
    pub compression: Compression,
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

/// Measures an exchange between processes of this program, which `command` starts so that they call [`take_part`].
pub fn measure(task: Task, command: impl Fn() -> Result<Command>) -> Result<ExchangeSpeed> {
    ensure!(task.workers > 0 && task.workers <= 64, "--workers must be from 1 to 64");
    ensure!(task.workers > 1 || task.via == Via::Server, "a group of one has nothing to exchange");
    ensure!(task.bytes >= 4 && task.bytes <= 1 << 30, "--bytes must be from 4 to {}", 1 << 30);
    ensure!(task.seconds > 0.0 && task.seconds.is_finite(), "--seconds must be above 0");
    ensure!(task.servers == 0 || task.via == Via::Sharded, "--servers is for --via sharded");
    ensure!(task.servers <= task.workers, "--servers must be at most --workers");
    let is_by_factors = matches!(task.compression, Compression::PowerSgd(_));
    ensure!(
        !is_by_factors || (task.via == Via::Sharded && task.servers == 0),
        "--compression powersgd is for --via sharded without --servers"
    );
    let processes = task.workers + task.servers + usize::from(task.via == Via::Server);
    let secret = Secret::generate()?.reveal();
    let mut children = Children(Vec::new());
    for _ in 0..processes {
        let mut child = command()?.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let pipes = (child.stdin.take(), child.stdout.take().map(BufReader::new));
        let (Some(stdin), Some(stdout)) = pipes else { bail!("a process without pipes") };
        children.0.push((child, stdin, stdout));
    }
    // Each first needs to know whether to use TLS, then who the others are.
    let introduction = |index: usize, peers: Vec<Peer>| Introduction { task, index, secret, peers };
    let mut peers = Vec::new();
    for (index, process) in children.0.iter_mut().enumerate() {
        write_line(&mut process.1, &introduction(index, Vec::new()))?;
        peers.push(read_line(&mut process.2)?);
    }
    for (index, process) in children.0.iter_mut().enumerate() {
        write_line(&mut process.1, &introduction(index, peers.clone()))?;
    }
    // All are done before the first is let go: one that ends takes what it has not sent yet with it.
    let mut speeds = Vec::new();
    for process in &mut children.0[..processes - task.servers] {
        speeds.push(read_line(&mut process.2)?);
    }
    Ok(speeds.swap_remove(0))
}

/// Processes that end when this does.
struct Children(Vec<(Child, ChildStdin, BufReader<ChildStdout>)>);

/// How long processes may take to end by themselves.
const FAREWELL: Duration = Duration::from_secs(2);

impl Drop for Children {
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
    let (mut party, own) = Party::open(task, index, secret.into())?;
    write_line(&mut stdout, &own)?;
    let Introduction { peers, .. } = read_line(&mut stdin)?;
    // Links end with their ends, and others may be at work yet when this process is done.
    let mut links = Vec::new();
    let seconds = match task.via {
        Via::Sharded if index >= task.workers => return sum_for_others(&mut party, &peers, &mut links),
        Via::Sharded => among(&mut party, &peers, &mut links)?,
        Via::Server if index < task.workers => server::push_and_pull(&party, &peers, &mut links)?,
        Via::Server => server::serve(&party, &mut links)?,
    };
    let Task { via, workers, servers, bytes, tls, compression, .. } = task;
    let gb_per_s = bytes as f64 / seconds / 1e9;
    write_line(
        &mut stdout,
        &ExchangeSpeed { via, workers, servers, bytes, tls, compression, ms: seconds * 1e3, gb_per_s },
    )?;
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
        let wire = Arc::new(Wire::start()?);
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
        let network = Grpc { wire, secret, timeouts: Timeouts::default(), head: String::new() };
        Ok((Self { task, index, network, post, mailbox, _listener: listener }, own))
    }

    fn connect(&self, peers: &[Peer], to: usize) -> Result<Outbox> {
        let outbox = self.network.connect(&peers[to].to_proto(to), self.post.sink(self.post.number()))?;
        outbox.send(Body::Hello(proto::Hello { node: self.index as u64, generation: 1 }))?;
        Ok(outbox)
    }

    fn connect_to_all(&self, peers: &[Peer], early: &mut Early) -> Result<AllLinks> {
        let Task { workers, servers, .. } = self.task;
        acquaint((self.index, workers, workers + servers), (&self.post, &self.mailbox), early, |to, sink| {
            self.network.connect(&peers[to].to_proto(to), sink())
        })
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

/// Sums what is its own for the workers, until they go.
fn sum_for_others(party: &mut Party, peers: &[Peer], links: &mut Vec<Outbox>) -> Result<()> {
    let Task { workers, servers, bytes, compression, .. } = party.task;
    let mut early = Early::new();
    let (members, outboxes) = party.connect_to_all(peers, &mut early)?;
    links.extend(outboxes.iter().flatten().cloned());
    let mut sums = ShardedSums::new(&layout(bytes), Coding::of(compression));
    sums.share_out(&parts(workers, servers));
    let mut peers = Peers {
        index: party.index,
        links: &outboxes[..workers],
        servers: &[],
        receive: &mut pieces(&mut party.mailbox, &members),
        early: &mut early,
        generation: 1,
        round: 1,
        step: 0,
    };
    while sums.serve(&mut peers, false).is_ok() {
        (peers.round, peers.step) = (peers.round + 1, 0);
    }
    Ok(())
}

/// The seconds of a sum over all members.
fn among(party: &mut Party, peers: &[Peer], links: &mut Vec<Outbox>) -> Result<f64> {
    let Task { workers, servers, bytes, seconds, compression, .. } = party.task;
    let mut early = Early::new();
    let (members, outboxes) = party.connect_to_all(peers, &mut early)?;
    links.extend(outboxes.iter().flatten().cloned());
    let to_servers: Vec<Outbox> = outboxes[workers..].iter().flatten().cloned().collect();
    let mut peers = Peers {
        index: party.index,
        links: &outboxes[..workers],
        servers: &to_servers,
        receive: &mut pieces(&mut party.mailbox, &members),
        early: &mut early,
        generation: 1,
        round: 0,
        step: 0,
    };
    let layout = layout(bytes);
    let mut sums = GradientSums::new(&layout, compression, 0);
    sums.share_out(&parts(workers, servers));
    let pool = ThreadPoolBuilder::new().num_threads(1).build()?;
    let mut gradient = Gradient::new(&layout);
    fill(&mut gradient);
    let mut turns = |peers: &mut Peers<'_, Broken>, count: usize| {
        let started = Instant::now();
        for _ in 0..count {
            (peers.round, peers.step) = (peers.round + 1, 0);
            gradient.weight = 1.0;
            // The sums grow out of bounds, which costs nothing.
            sums.begin(peers, false);
            sums.complete(peers, &mut gradient, false, &pool)?;
        }
        Ok::<f64, Broken>(started.elapsed().as_secs_f64() / count as f64)
    };
    // Beside the rounds, which servers count.
    let agree = |peers: &mut Peers<'_, Broken>, word: &[u8]| {
        peers.step += WORD;
        peers.gather(Bytes::copy_from_slice(word))
    };
    let measured = (|| {
        turns(&mut peers, 3)?;
        let one = turns(&mut peers, 3)?;
        // All make as many turns as the first says.
        let count = ((seconds / 3.0 / one) as u32).max(3);
        let counts = agree(&mut peers, &count.to_le_bytes())?;
        let count = counts[0].as_ref().try_into().map(u32::from_le_bytes).unwrap_or(3) as usize;
        let mut best = f64::INFINITY;
        for _ in 0..3 {
            agree(&mut peers, b"ready")?;
            best = best.min(turns(&mut peers, count)?);
        }
        agree(&mut peers, b"done")?;
        Ok(best)
    })();
    measured.map_err(|Broken(error)| error)
}

/// The steps of an exchange are fewer.
const WORD: u32 = 1000;

/// Values as gradients have them: as many small ones as large ones, and no two alike.
fn fill(gradient: &mut Gradient) {
    let mut state = 1u32;
    for value in &mut gradient.values {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        let exponent = (state >> 8) % 8;
        *value = ((state >> 16) as f32 - 32_768.0) * 0.1f32.powi(exponent as i32 + 4);
    }
}

/// Matrices as large as the largest of `resnet18`, and a rest.
fn layout(bytes: usize) -> Layout {
    const ROWS: usize = 4608;
    const COLUMNS: usize = 512;
    let (mut layout, mut left) = (Layout::default(), bytes / 4);
    while left >= COLUMNS {
        let rows = (left / COLUMNS).min(ROWS);
        layout.matrix(format!("matrix {left}"), rows, COLUMNS, Init::Constant(0.0));
        left -= rows * COLUMNS;
    }
    if left > 0 {
        layout.vector("rest".into(), left, Init::Constant(0.0));
    }
    layout
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_measured_is_refused() {
        let task = Task {
            via: Via::Sharded,
            workers: 2,
            servers: 0,
            bytes: 4,
            seconds: 1.0,
            tls: false,
            compression: Compression::None,
        };
        let check = |task: Task, expect: &str| {
            let refused = measure(task, || bail!("started"));
            assert!(format!("{:#}", refused.expect_err("refused")).contains(expect), "{task:?}");
        };
        check(Task { workers: 0, ..task }, "--workers");
        check(Task { bytes: 0, ..task }, "--bytes");
        check(Task { servers: 3, ..task }, "--servers");
        check(Task { servers: 1, via: Via::Server, ..task }, "--servers");
        check(Task { seconds: f64::NAN, ..task }, "--seconds");
        let by_factors = Task { compression: Compression::PowerSgd(2), ..task };
        check(Task { servers: 1, ..by_factors }, "powersgd");
        check(Task { via: Via::Server, ..by_factors }, "powersgd");
        check(task, "started");
    }
}
