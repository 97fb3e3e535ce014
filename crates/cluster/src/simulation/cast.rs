//! The processes of a simulated run: a head that comes back from its checkpoints, and nodes that join again.

use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use bonfire_data::Dataset;
use bonfire_learn::Layout;
use bonfire_report::{RunFolder, Summary};
use bonfire_wire::proto::frame::Body;
use bonfire_wire::{Outbox, proto};

use super::link::SimulatedNetwork;
use super::world::{Killed, SimulatedTime, World};
use crate::mail::{Mail, News, Post, mailbox_in};
use crate::remote::{Answer, await_answer};
use crate::roles::head;
use crate::roles::network::Network;
use crate::roles::node::{self, Connections, Equipment, HeadGone};
use crate::roles::registry::{Entry, Registry};
use bonfire_run::checkpoint::layout_digest;
use bonfire_run::job::{Job, Scale};
use bonfire_run::run::Run;
use bonfire_run::run_file::Settings;

/// What all processes of a run share.
#[derive(Debug)]
pub(crate) struct Play {
    pub world: Arc<World>,
    pub settings: Settings,
    pub dataset: Arc<Dataset>,
    pub layout: Layout,
    pub folder: PathBuf,
    /// What a sample takes each machine, the head's first; nothing if none is said.
    pub sample_ms: Vec<f64>,
    /// Addresses are never used twice.
    lives: AtomicU64,
    processes: AtomicU64,
}

/// How long a head waits for its nodes, and they for it.
const WAIT: Duration = Duration::from_secs(120);

impl Play {
    pub(crate) fn new(
        world: Arc<World>,
        settings: Settings,
        dataset: Arc<Dataset>,
        (folder, sample_ms): (PathBuf, Vec<f64>),
    ) -> Result<Self> {
        let layout = settings.file.model.build(&dataset.shape)?.layout().clone();
        Ok(Self {
            world,
            settings,
            dataset,
            layout,
            folder,
            sample_ms,
            lives: AtomicU64::new(0),
            processes: AtomicU64::new(1),
        })
    }

    /// Runs a process on a machine, and again after each of its deaths that it comes back from.
    pub(crate) fn stage<T>(&self, machine: usize, live: impl Fn(u64) -> Result<T>) -> Option<T> {
        self.world.begin(machine);
        let mut ended = None;
        for life in 0.. {
            match catch_unwind(AssertUnwindSafe(|| live(life))) {
                Ok(Ok(end)) => ended = Some(end),
                Ok(Err(error)) => self.world.blame(format!("machine {machine}: {error:#}")),
                Err(payload) if payload.is::<Killed>() => {
                    if self.is_back(machine) {
                        continue;
                    }
                }
                Err(_) => self.world.blame(format!("machine {machine} panicked")),
            }
            break;
        }
        self.world.leave(machine);
        ended
    }

    /// Waits until a machine that went down is up again, if it ever is.
    fn is_back(&self, machine: usize) -> bool {
        let back = self.world.lock().machines[machine].back;
        let Some(back) = back else { return false };
        // Nothing else can kill what is down, but the end of everything.
        let slept = catch_unwind(AssertUnwindSafe(|| self.world.sleep(machine, back)));
        let mut state = self.world.lock();
        state.machines[machine].is_down = false;
        let name = state.machines[machine].name.clone();
        state.tell(format!("{name} is back"));
        slept.is_ok()
    }

    fn mailbox(&self, machine: usize, address: &str) -> (Post, crate::mail::Mailbox) {
        let time = SimulatedTime { world: Arc::clone(&self.world), machine };
        let (post, mailbox) = mailbox_in(Arc::new(time));
        self.world.lock().listeners.insert(address.to_owned(), (machine, post.clone()));
        (post, mailbox)
    }

    /// A head, which goes on where it was when it died.
    pub(crate) fn head(&self, life: u64) -> Result<Summary> {
        let (_post, mailbox) = self.mailbox(0, HEAD);
        let job = Job::on(self.settings.clone(), Arc::clone(&self.dataset), Scale::Nodes)?;
        let mut run = match life {
            0 => Run::create(job, &self.folder, Vec::new(), Instant::now())?,
            _ => Run::resume(job, RunFolder::open(&self.folder)?, Vec::new(), Instant::now())?,
        };
        let registry = Registry::new(Entry {
            version: String::new(),
            run_file: String::new(),
            data_digest: Vec::new(),
            layout_digest: layout_digest(&self.layout).into_bytes(),
            shipment: None,
            payload_bytes: usize::MAX,
            // Every node, whenever it is brought to a version.
            compare_every: 1,
        });
        let led = head::lead(&mut run, registry, &mailbox, &AtomicBool::new(false), WAIT);
        run.end(led)
    }

    /// A node, which waits for a head that is gone. The head's last word, or none if the head does not come back.
    pub(crate) fn node(&self, machine: usize) -> Result<Option<proto::Stop>> {
        let process = self.processes.fetch_add(1, Ordering::Relaxed);
        if let Some(&ms) = self.sample_ms.get(machine) {
            let world = Arc::clone(&self.world);
            TOIL.set(Some(Toil { world, machine, sample_s: ms / 1e3 }));
        }
        loop {
            let life = self.lives.fetch_add(1, Ordering::Relaxed);
            let address = format!("machine {machine}, life {life}");
            let (post, mailbox) = self.mailbox(machine, &address);
            let network = Arc::new(SimulatedNetwork { world: Arc::clone(&self.world), machine });
            let head_link = post.number();
            let Some(head) = self.reach_head(machine, &network, &post, head_link) else { return Ok(None) };
            let name = self.world.lock().machines[machine].name.clone();
            let join = proto::Join {
                name,
                machine: format!("machine {machine}"),
                cores: 1,
                address,
                process: Some(process),
                ..Default::default()
            };
            let _ = head.send(Body::Join(join));
            let attended = await_answer(&mailbox, head_link, WAIT).and_then(|answer| {
                let Answer::Welcome(welcome) = answer else {
                    bail!("simulated nodes have no data to tell of")
                };
                let layout_digest = layout_digest(&self.layout).into_bytes().into();
                let _ = head.send(Body::Ready(proto::Ready { layout_digest, ..Default::default() }));
                let mut connections = Connections::new(welcome.node, head_link, head, post, mailbox, network);
                node::serve(&mut connections, self.equipment(), &mut |_| ())
            });
            match attended {
                Err(error) if error.is::<HeadGone>() => {}
                Err(error) => return Err(error),
                Ok(stop) => return Ok(Some(stop)),
            }
        }
    }

    /// Somebody who has the ticket, connects to the head, and says nothing for as long as that is put up with.
    pub(crate) fn mute(&self, machine: usize) -> Result<()> {
        let (post, mailbox) = self.mailbox(machine, "mute");
        let network = SimulatedNetwork { world: Arc::clone(&self.world), machine };
        let link = post.number();
        let Some(_head) = self.reach_head(machine, &network, &post, link) else { return Ok(()) };
        let connected = self.world.now();
        while !matches!(mailbox.next(WAIT), Some(Mail { news: News::Closed(_), .. })) {}
        let seconds = (self.world.now() - connected).as_secs_f64();
        self.world.lock().tell(format!("{MUTE_FOR}{seconds:.3}"));
        Ok(())
    }

    fn equipment(&self) -> Equipment {
        let (settings, dataset, layout) =
            (self.settings.clone(), Arc::clone(&self.dataset), self.layout.clone());
        Equipment { settings, dataset, layout, worker: None }
    }

    fn reach_head(
        &self,
        machine: usize,
        network: &SimulatedNetwork,
        post: &Post,
        link: u64,
    ) -> Option<Outbox> {
        let peer = proto::Peer { address: HEAD.to_owned(), ..proto::Peer::default() };
        let deadline = self.world.now() + WAIT;
        while self.world.now() < deadline {
            if let Ok(outbox) = network.connect(&peer, post.sink(link)) {
                return Some(outbox);
            }
            self.world.sleep(machine, Duration::from_millis(200));
        }
        None
    }
}

thread_local! {
    static TOIL: RefCell<Option<Toil>> = const { RefCell::new(None) };
}

/// What computing takes the machine of this thread.
struct Toil {
    world: Arc<World>,
    machine: usize,
    sample_s: f64,
}

/// Lets the time pass that so many samples take on the machine of this thread, if they take any.
pub(crate) fn toil(samples: u64) -> Option<Duration> {
    TOIL.with_borrow(|toil| {
        let toil = toil.as_ref()?;
        let time = Duration::from_secs_f64(toil.sample_s * samples as f64);
        toil.world.sleep(toil.machine, time);
        Some(time)
    })
}

/// How the story says how many seconds somebody was connected without a word.
pub(crate) const MUTE_FOR: &str = "nothing was said for ";

/// Where the head is found.
const HEAD: &str = "head";
