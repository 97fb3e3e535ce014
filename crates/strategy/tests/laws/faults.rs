//! What goes wrong in a simulated cluster.

use crate::cluster::{Cluster, Note, RelayNode};

impl Cluster {
    /// Something happens to some node. The first members and their first workers always come back, so that enough
    /// are left in the end.
    pub(crate) fn fault(&mut self) {
        let node = self.chance.index(self.nodes.len());
        if !self.nodes[node].connected {
            return;
        }
        let may_stay_away = !self.is_needed(node) && self.chance.percent(30);
        self.cut(node);
        self.restart_relay(node);
        if may_stay_away {
            self.nodes[node].gone_for_good = true;
        } else {
            self.reconnect(node, 300);
        }
    }

    fn is_needed(&self, node: usize) -> bool {
        match self.nodes[node].parent {
            None => node < self.rule.min_members,
            Some(relay) => relay < self.rule.min_members && self.children(relay).first() == Some(&node),
        }
    }

    /// Ends the connection of `child`; the parent notices a while later.
    fn cut(&mut self, child: usize) {
        if !self.nodes[child].connected {
            return;
        }
        self.up(child, Note::Closed);
        self.nodes[child].connected = false;
    }

    /// A relay that has lost its parent begins anew: its workers have to come back to it.
    fn restart_relay(&mut self, relay: usize) {
        let Some(node) = &mut self.nodes[relay].relay else { return };
        *node = RelayNode::new(node.rule.clone());
        for worker in self.children(relay) {
            self.nodes[worker].connected = false;
            // What the worker had sent was to the relay that is gone.
            self.nodes[worker].session += 1;
            self.reconnect(worker, 100);
        }
    }

    fn children(&self, relay: usize) -> Vec<usize> {
        (0..self.nodes.len()).filter(|&child| self.nodes[child].parent == Some(relay)).collect()
    }
}
