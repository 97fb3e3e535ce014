//! A run of real processes on loopback: a head and its nodes.

use std::path::PathBuf;

use crate::program::{Dir, Outcome, Running};
use crate::record::Record;

/// A head that runs, and the nodes that were started for it.
#[derive(Debug)]
pub(crate) struct Fire {
    pub head: Running,
    pub ticket: String,
    pub nodes: Vec<Running>,
    folder: PathBuf,
}

impl Fire {
    /// Starts a head with these settings, a line each; `arguments` is what else its command line has.
    #[track_caller]
    pub(crate) fn light(dir: &Dir, name: &str, arguments: &str, settings: &str) -> Self {
        let line = format!("head --listen 127.0.0.1:0 --wait 60 --out {name} {arguments}");
        let mut head = dir.bonfire(&line).set(settings).start();
        let ticket = head.first_line();
        assert!(ticket.starts_with("bonfire://127.0.0.1:"), "{ticket}");
        Self { head, ticket, nodes: Vec::new(), folder: dir.path(name) }
    }

    /// Starts so many nodes more.
    pub(crate) fn join(mut self, dir: &Dir, nodes: usize) -> Self {
        for _ in 0..nodes {
            let name = format!("n{}", self.nodes.len() + 1);
            self.nodes.push(dir.bonfire("node").arg(&self.ticket).arg("--name").arg(name).start());
        }
        self
    }

    /// Starts the head again in the same folder; its nodes are as they were.
    #[track_caller]
    pub(crate) fn relight(mut self, dir: &Dir) -> Self {
        self.head.until("its end", || false);
        self.head = dir.bonfire("head --wait 60 --resume").arg(&self.folder).start();
        assert_eq!(self.head.first_line(), self.ticket, "the ticket is the same");
        self
    }

    /// The first node that has this role now.
    #[track_caller]
    pub(crate) fn index_of(&self, role: &str) -> usize {
        let expect = format!("works as {role}");
        let has =
            |node: &Running| node.said().lines().rfind(|line| line.starts_with("works")) == Some(&expect);
        let found = self.nodes.iter().position(has);
        found.unwrap_or_else(|| panic!("no node is {role}: {:#?}", self.nodes.iter().map(Running::said)))
    }

    /// Waits for the end of all, which must be a good one but for `harmed`, who may have missed it. What the head said.
    #[track_caller]
    pub(crate) fn end(mut self, harmed: Option<usize>) -> String {
        let head = self.head.wait().expect(0);
        // Dropped, it is killed: it would wait for a head that does not come back.
        harmed.map(|harmed| self.nodes.remove(harmed));
        for node in self.nodes {
            node.wait().expect(0);
        }
        head.stderr
    }

    /// Waits for the end of all, which must be a good one.
    #[track_caller]
    pub(crate) fn burn_down(self) -> Record {
        let head = self.head.wait();
        let said: Vec<Outcome> = self.nodes.into_iter().map(Running::wait).collect();
        head.expect(0);
        for node in said {
            node.expect(0);
        }
        Record::of(self.folder)
    }
}

/// A whole run with so many nodes.
#[track_caller]
pub(crate) fn burn(dir: &Dir, name: &str, nodes: usize, settings: &str) -> Record {
    Fire::light(dir, name, "--quiet", settings).join(dir, nodes).burn_down()
}
