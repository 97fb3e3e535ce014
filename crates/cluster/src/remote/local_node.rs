//! A node in the process of its own head: it shares the head's data, and hears of it over memory. Others reach it as
//! they reach every node.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use bonfire_wire::proto::frame::Body;
use bonfire_wire::{memory_link, proto, random_number};

use super::gate::Gate;
use super::{Part, introduce, timeouts};
use crate::mail::mailbox;
use crate::roles::network::Grpc;
use crate::roles::node::{self, Connections, Equipment};
use crate::roles::registry::Registry;
use crate::roles::vitals::Vitals;
use crate::trainer::Unreadable;
use bonfire_run::run::Run;

/// A node of this process, on a thread of its own.
#[derive(Debug)]
pub(crate) struct LocalNode {
    /// Closes when the node is at its end.
    ended: Receiver<()>,
}

/// How long the node may take to end after its head.
const FAREWELL: Duration = Duration::from_secs(5);

impl LocalNode {
    /// Starts a node that has joined already, as rank 0. Without a name it is called by its machine and rank.
    pub(crate) fn move_in(
        name: Option<String>,
        run: &Run,
        gate: &Gate,
        registry: &mut Registry,
    ) -> Result<Self> {
        let ticket = gate.ticket();
        let (post, mail) = mailbox();
        let part = Part {
            name,
            listen: gate.open_host().map(|host| SocketAddr::new(host, 0).to_string()),
            wait: Duration::ZERO,
            patience: Duration::ZERO,
            cache: None,
            rank: Some(0),
            watts: None,
        };
        let (listener, join) = introduce(&gate.wire, ticket, (&part, random_number()?), &post)?;
        let (head_link, link) = (post.number(), gate.post.number());
        let (head, outbox) = memory_link(post.sink(head_link), gate.post.sink(link));
        let number = registry.admit(link, outbox, join);
        if let Some(node) = registry.get_mut(number) {
            (node.is_ready, node.is_resident) = (true, true);
            node.samples = run.job.dataset.train.len() as u64;
        }
        let settings = run.job.settings.clone();
        let (wire, secret) = (Arc::clone(&gate.wire), ticket.secret.clone());
        let (timeouts, head_address) = (timeouts(&settings), ticket.address.clone());
        let network = Arc::new(Grpc { wire, secret, timeouts, head: head_address });
        let (dataset, layout) = (Arc::clone(&run.job.dataset), run.job.layout().clone());
        let (end, ended) = sync_channel(1);
        thread::Builder::new()
            .name("local_node".to_owned())
            .spawn(move || {
                let (_listener, _end) = (listener, end);
                let mut connections = Connections::new(number, head_link, head, post, mail, network);
                connections.vitals = Some(Vitals::of_thread(Instant::now()));
                let equipment = Equipment { settings, dataset, layout, worker: None };
                if let Err(error) = node::serve(&mut connections, equipment, &mut |_| ())
                    && !error.is::<Unreadable>()
                {
                    let reason = format!("{error:#}");
                    // A head that is gone does not lose this node, but the run.
                    let _ = connections
                        .head
                        .send(Body::Trouble(proto::Trouble { reason, ..proto::Trouble::default() }));
                }
            })
            .context("cannot start a thread for a node")?;
        Ok(Self { ended })
    }

    /// Waits for its end, but not for long: one that hangs ends with the process.
    pub(crate) fn move_out(self) {
        let _ = self.ended.recv_timeout(FAREWELL);
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::sync::atomic::AtomicBool;
    use std::time::Instant;

    use bonfire_learn::ClassWeights;
    use bonfire_report::View;
    use bonfire_run::{Job, Overrides, Scale, Settings};

    use super::super::{Access, take_part};
    use super::*;

    /// How long the test may wait for anything.
    const WAIT: Duration = Duration::from_secs(60);

    fn ready(text: &str, folder: &std::path::Path) -> Run {
        let settings = Settings::read("run.yml", text, &Overrides::default(), 2).expect("a run file");
        let job = Job::prepare(settings, Scale::Nodes).expect("a job");
        Run::create(job, folder, vec![View::Quiet], Instant::now()).expect("a run")
    }

    #[test]
    fn a_run_goes_on_without_a_resident_that_failed() {
        for arch in
            ["arch: flat, parameter_server: {num_workers: 2}", "arch: allreduce, allreduce: {num_workers: 2}"]
        {
            let temp = tempfile::tempdir().expect("a folder");
            let folder = temp.path().join("run");
            let data = "data: {name: digits, train: 400, test: 50}, num_server_rounds: 5";
            let mut run = ready(&format!("{{{data}, {arch}}}"), &folder);
            // Its model cannot have these. Other nodes take what they know from the run file, which has none.
            run.job.settings.class_weights = Some(ClassWeights::new(&[1.0, 2.0]).expect("weights"));
            let access = Access {
                listen: Some("127.0.0.1:0".to_owned()),
                advertise: None,
                insecure: true,
                wait: WAIT,
            };
            let gate = Gate::open(&access, &run.job.settings, None).expect("a gate");
            let ticket = gate.ticket().clone();
            let part = Part {
                name: None,
                listen: None,
                wait: WAIT,
                patience: Duration::ZERO,
                cache: None,
                rank: None,
                watts: None,
            };
            let node = thread::spawn(move || take_part(&ticket, &part, &mut |_| ()));
            let summary = gate.lead_at_work(run, &AtomicBool::new(false), Some("here".to_owned()));
            assert_eq!(summary.expect(arch).rounds, 5, "{arch}");
            node.join().expect("a thread").expect(arch);
            let events = fs::read_to_string(folder.join("events.jsonl")).expect("a log");
            let lost: Vec<&str> = events.lines().filter(|line| line.contains("\"node_lost\"")).collect();
            assert!(lost.len() == 1 && lost[0].contains("\"here\""), "{arch}: {lost:?}");
            assert!(events.contains("the model tells 10 classes apart"), "{arch}: the reason is told");
        }
    }
}
