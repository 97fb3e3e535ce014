//! A node: joins a run, gets the data, and is whatever the head tells it to be.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use bonfire_data::Dataset;
use bonfire_learn::Layout;
use bonfire_report::Phases;
use bonfire_wire::proto::assignment::Role;
use bonfire_wire::proto::frame::Body;
use bonfire_wire::{Frame, Outbox, proto};

use super::network::Network;
use super::registry::turned_away;
use super::vitals::Vitals;
use super::{evaluator, group_server, member, relay, worker};
use crate::mail::{Mail, Mailbox, News, Post};
use crate::remote::supply;
use crate::trainer::{Trainer, Unreadable};
use bonfire_exchange::world::World;
use bonfire_run::job::{Job, Scale, weigh_classes};
use bonfire_run::run_file::Settings;
use bonfire_run::worker::Worker;

/// Where a node sits: its mail, its way to the head, and its way to others.
#[derive(Debug)]
pub(crate) struct Connections {
    /// This node's number.
    pub node: u64,
    pub head_link: u64,
    pub head: Outbox,
    pub post: Post,
    pub mailbox: Mailbox,
    pub network: Arc<dyn Network>,
    /// Who has connected to this node before its role asked for them.
    pub callers: Vec<Caller>,
    /// Who has connected and not said who it is.
    pub waiting: Vec<(u64, Outbox)>,
    /// The data as they were shipped, if they are kept: others may ask for them.
    pub pack: Option<PathBuf>,
    /// What this node tells of itself, if it does.
    pub vitals: Option<Vitals>,
}

/// Somebody who has connected and said who it is.
#[derive(Debug)]
pub(crate) struct Caller {
    pub link: u64,
    pub outbox: Outbox,
    pub hello: proto::Hello,
    /// What it has said since: it may know of its role before this node knows of its own.
    pub said: Vec<Frame>,
}

/// How long the last words to the head may take.
const FAREWELL: Duration = Duration::from_secs(3);

/// More than anybody says before it is answered.
const MOST_SAID: usize = 16;

/// More threads than any machine has cores for one worker.
const MAX_THREADS: usize = 1024;

/// What comes after a role.
#[derive(Debug)]
pub(crate) enum Next {
    Assigned(proto::Assignment),
    /// The same role once more.
    Again,
    Stopped(proto::Stop),
}

/// The link to the head is gone, and why: the head may come back.
#[derive(Debug)]
pub(crate) struct HeadGone(pub String);

impl std::fmt::Display for HeadGone {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "the head is gone: {}", self.0)
    }
}

impl std::error::Error for HeadGone {}

/// What a node trains on and with.
#[derive(Debug)]
pub(crate) struct Equipment {
    pub settings: Settings,
    pub dataset: Arc<Dataset>,
    pub layout: Layout,
    /// Made beforehand, where nodes are threads of one process.
    pub worker: Option<Worker>,
}

impl Connections {
    pub(crate) fn new(
        node: u64,
        head_link: u64,
        head: Outbox,
        post: Post,
        mailbox: Mailbox,
        network: Arc<dyn Network>,
    ) -> Self {
        let (callers, waiting, pack, vitals) = Default::default();
        Self { node, head_link, head, post, mailbox, network, callers, waiting, pack, vitals }
    }

    /// Tells the head where the time went, if it is time.
    pub(crate) fn tell_vitals(&mut self, phases: &mut Phases) {
        let Some(vitals) = &mut self.vitals else { return };
        if let Some(told) = vitals.tell(self.mailbox.now(), phases) {
            // A head that is gone is heard of in the mail.
            let _ = self.head.send(Body::Vitals(told));
        }
    }

    /// Deals with mail that is not the role's own. Some if the role is over.
    pub(crate) fn hear(&mut self, mail: Mail) -> Result<Option<Next>> {
        match mail.news {
            News::Opened(outbox) => self.waiting.push((mail.link, outbox)),
            News::Frame(Frame { body: Body::Hello(hello), .. }) => {
                if let Some(place) = self.waiting.iter().position(|(link, _)| *link == mail.link) {
                    let (link, outbox) = self.waiting.swap_remove(place);
                    self.callers.push(Caller { link, outbox, hello, said: Vec::new() });
                }
            }
            News::Frame(frame) if mail.link == self.head_link => match frame.body {
                Body::Assignment(assignment) => return Ok(Some(Next::Assigned(assignment))),
                Body::Stop(stop) => return Ok(Some(Next::Stopped(stop))),
                Body::Refused(refused) => bail!("the head refused this node: {}", refused.reason),
                _ => {}
            },
            News::Closed(reason) if mail.link == self.head_link => return Err(HeadGone(reason).into()),
            News::Closed(_) => {
                self.waiting.retain(|(link, _)| *link != mail.link);
                self.callers.retain(|caller| caller.link != mail.link);
            }
            News::Frame(Frame { body: Body::Fetch(fetch), .. }) => {
                if let Some((_, outbox)) = self.waiting.iter().find(|(link, _)| *link == mail.link) {
                    supply(outbox, self.pack.as_deref(), fetch.offset);
                }
            }
            News::Frame(frame) => {
                let caller = self.callers.iter_mut().find(|caller| caller.link == mail.link);
                if let Some(caller) = caller.filter(|caller| caller.said.len() < MOST_SAID) {
                    caller.said.push(frame);
                }
            }
            News::Stranger(reason) => {
                let reason = turned_away(&reason);
                // A head that is gone is heard of in the mail.
                let _ = self.head.send(Body::Trouble(proto::Trouble { reason, ..proto::Trouble::default() }));
            }
        }
        Ok(None)
    }

    /// Closes the link to the head, and waits until what was sent has left: a process that ends would take it along.
    fn part(&mut self) {
        self.head.close();
        let until = self.mailbox.now() + FAREWELL;
        while self.mailbox.now() < until {
            match self.mailbox.next(Duration::from_millis(100)) {
                Some(Mail { link, news: News::Closed(_) }) if link == self.head_link => return,
                _ => {}
            }
        }
    }

    /// Waits for the head's word.
    pub(crate) fn await_word(&mut self) -> Result<Next> {
        loop {
            let Some(mail) = self.mailbox.next(Duration::from_secs(1)) else { continue };
            if let Some(next) = self.hear(mail)? {
                return Ok(next);
            }
        }
    }
}

/// Does what the head says until the run is over for this node, telling each role it gets. Returns why it is over.
pub(crate) fn serve(
    connections: &mut Connections,
    equipment: Equipment,
    tell: &mut dyn FnMut(&str),
) -> Result<proto::Stop> {
    let mut world = enter_world(&equipment.settings)?;
    let served = perform(connections, equipment, &mut world, tell);
    if let Err(error) = &served
        && let Some(Unreadable { sample, .. }) = error.downcast_ref()
    {
        let (reason, sample) = (error.to_string(), Some(*sample));
        // The head looks whether it can read it: perhaps the data are damaged, perhaps this machine is.
        let _ = connections.head.send(Body::Trouble(proto::Trouble { reason, unreachable: 0, sample }));
        connections.part();
    }
    if let (Some(world), Err(_)) = (world.take(), &served) {
        world.abandon();
    }
    served
}

/// The world of MPI, if the run's group is carried by it.
fn enter_world(settings: &Settings) -> Result<Option<World>> {
    if !settings.topology.uses_mpi() {
        return Ok(None);
    }
    let (world, needed) = (World::enter()?, settings.topology.nodes() + usize::from(settings.file.evaluator));
    let found = world.ranks();
    if found != needed {
        world.abandon();
        bail!(
            "MPI knows {found} ranks where the run has {needed}: is the launcher of the same MPI as this program?"
        );
    }
    Ok(Some(world))
}

/// One role after the other.
fn perform(
    connections: &mut Connections,
    equipment: Equipment,
    world: &mut Option<World>,
    tell: &mut dyn FnMut(&str),
) -> Result<proto::Stop> {
    let mut divided = false;
    let Equipment { settings, dataset, layout, mut worker } = equipment;
    let mut next = connections.await_word()?;
    let mut assignment = proto::Assignment::default();
    loop {
        match next {
            Next::Stopped(stop) => return Ok(stop),
            Next::Assigned(other) => assignment = other,
            Next::Again => {}
        }
        let threads = (assignment.threads as usize).clamp(1, MAX_THREADS);
        let mut trainer = || {
            let worker = match worker.take() {
                Some(worker) => worker,
                None => build_worker(&settings, &dataset, threads)?,
            };
            Trainer::new(&settings, &dataset, worker, assignment.samples as usize)
        };
        let role = assignment.role.clone().context("the head gave no role")?;
        if let (Some(world), false) = (world.as_mut(), std::mem::replace(&mut divided, true)) {
            world.divide(matches!(role, Role::GroupMember(_)));
        }
        tell(match role {
            Role::Worker(_) => "a worker",
            Role::Relay(_) => "a relay",
            Role::Evaluator(_) => "the evaluator",
            Role::GroupMember(_) => "a member of the group",
            Role::GroupServer(_) => "a server of the group",
        });
        next = match role {
            Role::Worker(role) => {
                let mut trainer = trainer()?;
                worker::work(connections, &settings, &mut trainer, role.parent.as_ref())?
            }
            Role::Relay(role) => relay::relay(connections, &settings, &layout, &role)?,
            Role::Evaluator(_) => {
                let job = Job::on(settings.clone(), Arc::clone(&dataset), Scale::Nodes);
                evaluator::evaluate(connections, &mut job?)?
            }
            Role::GroupServer(_) => group_server::sum(connections, &settings, &layout, assignment.samples)?,
            Role::GroupMember(_) => {
                let mut trainer = trainer()?;
                member::take_part(connections, &settings, &mut trainer, world.as_ref())?
            }
        };
    }
}

pub(crate) fn build_worker(settings: &Settings, dataset: &Dataset, threads: usize) -> Result<Worker> {
    Worker::build(threads, || {
        let mut model = settings.file.model.build(&dataset.shape)?;
        weigh_classes(settings, &mut *model)?;
        Ok(model)
    })
}
