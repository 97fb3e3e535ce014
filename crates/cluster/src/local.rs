//! A run whose nodes are threads of this process: the same roles over links of memory.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use bonfire_report::{Exit, Summary};
use bonfire_wire::proto;
use bonfire_yaml::YamlError;

use crate::mail::{mailbox, mailbox_of_one};
use crate::remote::machine_id;
use crate::roles::head;
use crate::roles::network::{Network, Switchboard};
use crate::roles::node::{self, Connections, Equipment};
use crate::roles::registry::{COMPARE_EVERY, Entry, Registry};
use crate::roles::vitals::Vitals;
use bonfire_run::checkpoint::layout_digest;
use bonfire_run::run::Run;
use bonfire_run::run_file::{Settings, ShareRule, Topology};

/// Threads of this process are there at once.
const WAIT: Duration = Duration::from_secs(60);

/// Trains in this process to the end: workers that are in step share memory, all others are nodes over links of memory.
pub fn finish(run: Run, stop: &AtomicBool) -> Result<Summary> {
    match run.job.settings.is_in_step() {
        true => run.finish(stop),
        false => run.finish_by(|run| train(run, stop)),
    }
}

/// Whether threads can have the shares that a run file asks for.
pub fn check_shares(settings: &Settings) -> Result<(), YamlError> {
    let threads: Vec<String> = (0..settings.topology.nodes()).map(name).collect();
    match &settings.shares {
        ShareRule::Equal => Ok(()),
        _ if matches!(settings.topology, Topology::Single { .. }) => {
            let key = if settings.says("shares") { "shares" } else { "dynamic" };
            Err(settings
                .wrong(key, "is for workers on several machines: these are on one, as `arch: single`"))
        }
        ShareRule::Named(weights) => match weights.keys().find(|name| !threads.contains(name)) {
            Some(unknown) => {
                let message = format!("no worker is called {unknown}: here they are {}", threads.join(", "));
                Err(settings.wrong(&format!("shares.{unknown}"), message))
            }
            None => Ok(()),
        },
        _ => Ok(()),
    }
}

/// What a node is called that is a thread.
fn name(index: usize) -> String {
    format!("thread-{}", index + 1)
}

/// Trains with a thread for every node that the run asks for.
pub(crate) fn train(run: &mut Run, stop: &AtomicBool) -> Result<Exit> {
    let switchboard = Arc::new(Switchboard::default());
    let (post, mail) = mailbox();
    switchboard.register("head", &post);
    let mut registry = Registry::new(Entry {
        version: String::new(),
        run_file: String::new(),
        data_digest: Vec::new(),
        layout_digest: layout_digest(run.job.layout()).into_bytes(),
        shipment: None,
        payload_bytes: usize::MAX,
        compare_every: COMPARE_EVERY,
    });
    let settings = &run.job.settings;
    let nodes = settings.topology.nodes() + usize::from(settings.file.evaluator);
    let mut workers = std::mem::take(&mut run.job.spare).into_iter();
    let cores = thread::available_parallelism().map_or(1, usize::from) as u32;
    thread::scope(|scope| {
        for i in 0..nodes {
            let (own_post, own_mail) = mailbox_of_one();
            let address = format!("node {}", i + 1);
            switchboard.register(&address, &own_post);
            let (head_link, link) = (own_post.number(), post.number());
            let (head, outbox) = bonfire_wire::memory_link(own_post.sink(head_link), post.sink(link));
            let join = proto::Join {
                name: name(i),
                machine: machine_id(),
                cores,
                address,
                ..proto::Join::default()
            };
            let number = registry.admit(link, outbox, join);
            if let Some(node) = registry.get_mut(number) {
                node.is_ready = true;
            }
            let equipment = Equipment {
                settings: run.job.settings.clone(),
                dataset: Arc::clone(&run.job.dataset),
                layout: run.job.layout().clone(),
                worker: None,
            };
            let network: Arc<dyn Network> = switchboard.clone();
            let connections = move || Connections {
                vitals: Some(Vitals::of_thread(Instant::now())),
                ..Connections::new(number, head_link, head, own_post, own_mail, network)
            };
            let equipment = (equipment, workers.next());
            thread::Builder::new()
                .name(format!("node-{number}"))
                .spawn_scoped(scope, move || {
                    let (equipment, worker) = equipment;
                    // What goes wrong in a node shows in the head, which loses it.
                    let _ = node::serve(&mut connections(), Equipment { worker, ..equipment }, &mut |_| ());
                })
                .context("cannot start a thread for a node")?;
        }
        head::lead(run, registry, &mail, stop, WAIT)
    })
}
