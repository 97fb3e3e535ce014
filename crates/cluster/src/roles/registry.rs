//! Who takes part in a run: the head's list of nodes, from the moment they join.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::time::{Duration, Instant};

use bonfire_wire::proto::frame::Body;
use bonfire_wire::{Frame, LinkTraffic, Outbox, proto};
use bytes::Bytes;

use super::claim::{plain, wrong_join};
use super::cpus::Cpus;
use crate::mail::{Mail, Mailbox, News};

/// The nodes of a run.
#[derive(Debug)]
pub(crate) struct Registry {
    nodes: BTreeMap<u64, Node>,
    /// Who is at the other end of a link.
    links: HashMap<u64, Caller>,
    /// Until when who is at the other end of a link has to ask to join; the oldest first. Some may have done so since.
    unasked: VecDeque<(Instant, u64)>,
    next: u64,
    entry: Entry,
    /// Whether nodes first tell what their data are: nobody is welcome before all have agreed.
    asks: bool,
    /// What those who are gone had sent and received.
    past: LinkTraffic,
}

/// What a node must know, and be, to take part.
#[derive(Debug)]
pub(crate) struct Entry {
    pub version: String,
    pub run_file: String,
    pub data_digest: Vec<u8>,
    pub layout_digest: Vec<u8>,
    /// The data as they are shipped, if they are.
    pub shipment: Option<Bytes>,
    /// The largest payload that a node may send.
    pub payload_bytes: usize,
    /// Members compare their parameters with the head's in every so many versions.
    pub compare_every: u64,
}

/// Seldom enough to cost nothing, and often enough to notice a machine that computes wrongly.
pub(crate) const COMPARE_EVERY: u64 = 100;

#[derive(Debug)]
enum Caller {
    /// Has not said who it is.
    Stranger(Outbox),
    Node(u64),
}

/// A process that takes part.
#[derive(Debug)]
pub(crate) struct Node {
    pub number: u64,
    pub name: String,
    /// What its process calls itself, the same whenever it joins, if it said.
    process: Option<u64>,
    pub rank: Option<u32>,
    pub machine: String,
    pub cores: u32,
    /// The processors that it may run on; empty if it did not say.
    pub cpus: Cpus,
    pub address: String,
    pub fingerprint: Bytes,
    pub link: u64,
    pub outbox: Outbox,
    pub is_ready: bool,
    /// How many samples it has to train on.
    pub samples: u64,
    /// The node that it takes the data from until it is ready, if that is not the head.
    supplier: Option<u64>,
    /// Whether it is in the head's process.
    pub is_resident: bool,
    pub role: Option<Role>,
}

/// What a node is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// Under a relay, or under the head.
    Worker {
        number: usize,
        relay: Option<u64>,
    },
    Relay {
        number: usize,
    },
    GroupMember {
        number: usize,
    },
    /// Only sums for the members.
    GroupServer {
        number: usize,
    },
    Evaluator,
}

/// What mail is about.
#[derive(Debug)]
pub(crate) enum Notice {
    /// A node has joined and loads its data.
    Joined,
    /// A node can be given a role.
    Ready(u64),
    /// Somebody was turned away, and why, in words.
    Refused(String),
    /// A node is gone.
    Lost { node: Box<Node>, reason: String },
    /// A node in its role has something to say.
    Frame(u64, Frame),
}

/// Names are for people.
const NAME_CHARS: usize = 64;

/// How long nodes may take to let go when the run is over.
const FAREWELL: Duration = Duration::from_secs(5);

/// How long somebody who has connected, and shown the secret, may take to ask to join. Nodes do so with their first
/// frame.
const ASK: Duration = Duration::from_secs(10);

/// How much data is shipped in one frame.
pub(crate) const CHUNK: usize = 1 << 20;

/// To so many at a time data are sent by the head, and by every node that has some of them: a tree.
const SUPPLIED: usize = 2;

impl std::fmt::Display for Role {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Worker { number, .. } => write!(f, "worker {number}"),
            Self::Relay { number } => write!(f, "relay {number}"),
            Self::GroupMember { number } => write!(f, "group member {number}"),
            Self::GroupServer { number } => write!(f, "group server {number}"),
            Self::Evaluator => f.write_str("evaluator"),
        }
    }
}

impl Node {
    /// How others find it.
    pub(crate) fn peer(&self) -> proto::Peer {
        proto::Peer {
            node: self.number,
            name: self.name.clone(),
            address: self.address.clone(),
            fingerprint: self.fingerprint.clone(),
        }
    }

    pub(crate) fn role(&self) -> String {
        self.role.map_or_else(|| "node".to_owned(), |role| role.to_string())
    }
}

impl Registry {
    pub(crate) fn new(entry: Entry) -> Self {
        Self {
            nodes: BTreeMap::new(),
            links: HashMap::new(),
            unasked: VecDeque::new(),
            next: 1,
            entry,
            asks: false,
            past: LinkTraffic::default(),
        }
    }

    /// The same of nodes that first tell what their data are.
    pub(crate) fn asking(entry: Entry) -> Self {
        Self { asks: true, ..Self::new(entry) }
    }

    /// Welcomes all who were asked, now that it is known what they must be.
    pub(crate) fn welcome(&mut self, entry: Entry) {
        (self.asks, self.entry) = (false, entry);
        let numbers: Vec<u64> = self.nodes.keys().copied().collect();
        for number in numbers {
            if let Some(node) = self.nodes.get(&number) {
                node.outbox.accept_payloads_up_to(self.entry.payload_bytes);
            }
            self.greet(number);
        }
    }

    pub(crate) fn get(&self, node: u64) -> Option<&Node> {
        self.nodes.get(&node)
    }

    pub(crate) fn get_mut(&mut self, node: u64) -> Option<&mut Node> {
        self.nodes.get_mut(&node)
    }

    /// In the order in which they joined.
    pub(crate) fn nodes(&self) -> impl Iterator<Item = &Node> {
        self.nodes.values()
    }

    /// Those that are ready, in the order in which they get their roles: by rank, then as they joined.
    pub(crate) fn queue(&self) -> Vec<u64> {
        let mut ready: Vec<&Node> = self.nodes.values().filter(|node| node.is_ready).collect();
        ready.sort_by_key(|node| (node.rank.is_none(), node.rank, node.number));
        ready.iter().map(|node| node.number).collect()
    }

    /// The smallest number that no worker or member of a group has.
    pub(crate) fn free_number(&self) -> usize {
        let number = |node: &Node| match node.role {
            Some(Role::Worker { number, .. } | Role::GroupMember { number }) => Some(number),
            _ => None,
        };
        let taken: BTreeSet<usize> = self.nodes.values().filter_map(number).collect();
        (0..).zip(&taken).find(|(free, taken)| free != *taken).map_or(taken.len(), |(free, _)| free)
    }

    /// What all nodes sent to the head and received from it, those that are gone included.
    pub(crate) fn traffic(&self) -> LinkTraffic {
        self.nodes.values().fold(self.past, |sum, node| added(sum, node.outbox.traffic()))
    }

    /// Whether members compare their parameters with the head's at a version.
    pub(crate) fn compares(&self, version: u64) -> bool {
        version.is_multiple_of(self.entry.compare_every)
    }

    /// Takes a node that the caller has checked, or made, itself.
    pub(crate) fn admit(&mut self, link: u64, outbox: Outbox, join: proto::Join) -> u64 {
        let number = self.next;
        self.next += 1;
        outbox.accept_payloads_up_to(self.entry.payload_bytes);
        let node = Node {
            number,
            name: self.free_name(&join.name),
            process: join.process,
            machine: join.machine,
            cores: join.cores.max(1),
            cpus: Cpus::parse(&join.cpus),
            rank: join.rank,
            address: join.address,
            fingerprint: join.fingerprint,
            link,
            outbox,
            is_ready: false,
            samples: 0,
            supplier: None,
            is_resident: false,
            role: None,
        };
        self.nodes.insert(number, node);
        self.links.insert(link, Caller::Node(number));
        number
    }

    /// Names are for people, and tell nodes apart: several on one machine get a number.
    fn free_name(&self, wanted: &str) -> String {
        let clean: String = wanted.chars().filter(|c| !c.is_control()).take(NAME_CHARS).collect();
        let is_taken = |name: &str| self.nodes.values().any(|node| node.name == name);
        let mut names = std::iter::once(clean.clone()).chain((2..).map(|i| format!("{clean}-{i}")));
        names.find(|name| !is_taken(name)).unwrap_or(clean)
    }

    /// What a piece of mail is about, after what can be answered here was answered.
    pub(crate) fn hear(&mut self, mail: Mail, now: Instant) -> Option<Notice> {
        match mail.news {
            News::Opened(outbox) => {
                self.links.insert(mail.link, Caller::Stranger(outbox));
                self.unasked.push_back((now + ASK, mail.link));
                None
            }
            News::Stranger(reason) => Some(Notice::Refused(turned_away(&reason))),
            News::Closed(reason) => match self.links.remove(&mail.link)? {
                Caller::Stranger(_) => None,
                Caller::Node(node) => self.remove(node, reason),
            },
            News::Frame(frame) => match self.links.get(&mail.link)? {
                Caller::Stranger(_) => self.introduce(mail.link, frame),
                Caller::Node(node) => self.listen(*node, frame),
            },
        }
    }

    /// Turns the next one away that has not asked to join in time. To be called when all mail was heard: what somebody
    /// said in time may have waited there.
    fn turn_silent_away(&mut self, now: Instant) -> Option<Notice> {
        while let Some(&(deadline, link)) = self.unasked.front() {
            if let Some(Caller::Stranger(outbox)) = self.links.get(&link) {
                if now < deadline {
                    return None;
                }
                let reason = format!("it did not ask to join within {} s", ASK.as_secs());
                outbox.abort(&reason);
                let notice = Notice::Refused(format!("turned {} away: {reason}", host(outbox.peer())));
                self.links.remove(&link);
                return Some(notice);
            }
            self.unasked.pop_front();
        }
        None
    }

    /// Takes a node out of the list, also one whose link still stands.
    pub(crate) fn remove(&mut self, node: u64, reason: String) -> Option<Notice> {
        let node = self.nodes.remove(&node)?;
        self.links.remove(&node.link);
        self.past = added(self.past, node.outbox.traffic());
        Some(Notice::Lost { node: Box::new(node), reason })
    }

    /// The first frame of a link must ask to join.
    fn introduce(&mut self, link: u64, frame: Frame) -> Option<Notice> {
        let Some(Caller::Stranger(outbox)) = self.links.remove(&link) else { return None };
        let Body::Join(join) = frame.body else {
            outbox.abort("it did not ask to join");
            let peer = outbox.peer();
            return Some(Notice::Refused(format!("turned {} away: it did not ask to join", host(peer))));
        };
        if let Some(reason) = wrong_join(&join) {
            return Some(refuse(&outbox, &join.name, reason));
        }
        if join.version != self.entry.version {
            let reason = format!(
                "it runs Bonfire {}, the head runs {}: install the same version on both",
                plain(&join.version),
                self.entry.version
            );
            return Some(refuse(&outbox, &join.name, &reason));
        }
        let former = self.former(&join);
        let is_same = |node: &Node| {
            let is_other = Some(node.number) != former;
            is_other && node.role.is_none() && join.rank.is_some() && node.rank == join.rank
        };
        if let (Some(rank), Some(other)) = (join.rank, self.nodes.values().find(|node| is_same(node))) {
            let reason = format!("rank {rank} is there already, as {}: every node needs its own", other.name);
            return Some(refuse(&outbox, &join.name, &reason));
        }
        let replaced = former.and_then(|former| self.replace(former));
        let number = self.admit(link, outbox, join);
        self.greet(number);
        // Who hears that a node is lost hears of it again when it is ready.
        Some(replaced.unwrap_or(Notice::Joined))
    }

    /// Says to a node that has joined what it is to do first.
    fn greet(&mut self, number: u64) {
        let supplier = self.supplier(number);
        let run_file = self.entry.run_file.clone();
        let body = match self.asks {
            true => Body::Tell(proto::Tell { run_file }),
            false => Body::Welcome(proto::Welcome {
                node: number,
                run_file,
                data_digest: self.entry.data_digest.clone().into(),
                data_bytes: self.entry.shipment.as_ref().map_or(0, |data| data.len() as u64),
                ship: self.entry.shipment.is_some(),
                supplier: supplier.and_then(|node| self.nodes.get(&node)).map(Node::peer),
            }),
        };
        let Some(node) = self.nodes.get_mut(&number) else { return };
        node.supplier = supplier;
        // One that is gone already is heard of in the mail.
        let _ = node.outbox.send(body);
    }

    /// Who sends a newcomer the data: the first of the head and all nodes before it that has not enough to do with that
    /// already. None is the head, who sends by itself what is soon sent.
    fn supplier(&self, newcomer: u64) -> Option<u64> {
        self.entry.shipment.as_ref().filter(|data| data.len() > CHUNK)?;
        let before = || self.nodes.range(..newcomer).map(|(_, node)| node);
        let supplied = |supplier: Option<u64>| {
            before().filter(|node| !node.is_ready && node.supplier == supplier).count()
        };
        let others = before().filter(|node| !node.is_resident).map(|node| Some(node.number));
        let mut all = std::iter::once(None).chain(others);
        all.find(|&supplier| supplied(supplier) < SUPPLIED).flatten()
    }

    /// The node that a process was before its link broke, if that link is not given up yet.
    fn former(&self, join: &proto::Join) -> Option<u64> {
        let process = Some(join.process?);
        let is_former = |node: &&Node| node.process == process && node.machine == join.machine;
        self.nodes.values().find(is_former).map(|node| node.number)
    }

    /// Makes room for a node that has joined over another link.
    fn replace(&mut self, former: u64) -> Option<Notice> {
        let reason = "it came back over another link";
        self.nodes.get(&former)?.outbox.abort(reason);
        self.remove(former, reason.to_owned())
    }

    fn listen(&mut self, number: u64, frame: Frame) -> Option<Notice> {
        let node = self.nodes.get_mut(&number)?;
        match frame.body {
            // Later it could only be a way to have the head wait for who does not read.
            Body::Fetch(fetch) if !node.is_ready => {
                let all = self.entry.shipment.as_ref()?;
                let start = (fetch.offset as usize).min(all.len());
                let payload = all.slice(start..(start + CHUNK).min(all.len()));
                let body = Body::Data(proto::Data { offset: start as u64 });
                let _ = node.outbox.send(Frame { body, payload });
                None
            }
            Body::Ready(ready) if node.role.is_none() => {
                let reason = if !ready.error.is_empty() {
                    plain(&ready.error)
                } else if ready.data_digest != self.entry.data_digest {
                    "its data are not the head's: `distribute: ship` sends it the head's".to_owned()
                } else if ready.layout_digest != self.entry.layout_digest {
                    "its model is laid out otherwise: install the same version on both".to_owned()
                } else if u32::try_from(ready.samples).is_err() {
                    format!("it claims to have {} samples", ready.samples)
                } else {
                    (node.is_ready, node.samples) = (true, ready.samples);
                    return Some(Notice::Ready(number));
                };
                self.turn_away(number, &reason)
            }
            _ if node.is_ready || self.asks => Some(Notice::Frame(number, frame)),
            _ => None,
        }
    }

    /// Lets a node go that cannot take part after all.
    pub(crate) fn turn_away(&mut self, node: u64, reason: &str) -> Option<Notice> {
        let node = self.nodes.remove(&node)?;
        self.links.remove(&node.link);
        Some(refuse(&node.outbox, &node.name, reason))
    }

    /// The next notice, if one comes in time.
    pub(crate) fn next(&mut self, mailbox: &Mailbox, timeout: Duration) -> Option<Notice> {
        let mail = match mailbox.next(Duration::ZERO) {
            Some(mail) => mail,
            None => {
                let silent = self.turn_silent_away(mailbox.now());
                if silent.is_some() {
                    return silent;
                }
                mailbox.next(timeout)?
            }
        };
        self.hear(mail, mailbox.now())
    }

    /// Tells all that the run is over, and lets them go. Waits until they have heard it, but not for long.
    pub(crate) fn dismiss(&mut self, stop: &proto::Stop, mailbox: &Mailbox) {
        for node in self.nodes.values() {
            let _ = node.outbox.send(Body::Stop(stop.clone()));
            node.outbox.close();
        }
        let deadline = mailbox.now() + FAREWELL;
        while !self.nodes.is_empty() && mailbox.now() < deadline {
            if let Some(mail) = mailbox.next(Duration::from_millis(100)) {
                self.hear(mail, mailbox.now());
            }
        }
    }
}

fn refuse(outbox: &Outbox, name: &str, reason: &str) -> Notice {
    let _ = outbox.send(Body::Refused(proto::Refused { reason: reason.to_owned() }));
    outbox.close();
    let name: String = plain(name).chars().take(NAME_CHARS).collect();
    Notice::Refused(format!("turned {name} at {} away: {reason}", host(outbox.peer())))
}

/// What is said of who did not even get in.
pub(crate) fn turned_away(stranger: &str) -> String {
    format!("turned a stranger away: {stranger}")
}

/// An address without its port, which is another each time.
fn host(address: &str) -> &str {
    address.rsplit_once(':').map_or(address, |(host, _)| host)
}

fn added(a: LinkTraffic, b: LinkTraffic) -> LinkTraffic {
    LinkTraffic {
        sent_bytes: a.sent_bytes + b.sent_bytes,
        received_bytes: a.received_bytes + b.received_bytes,
        sent_frames: a.sent_frames + b.sent_frames,
        received_frames: a.received_frames + b.received_frames,
    }
}

#[cfg(test)]
mod tests;
