use std::collections::BTreeSet;
use std::time::Duration;

use crate::{Unit, keyed};

/// What the server knows about one member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ServerMember {
    /// How many units it may have in its hands.
    pub lease: u32,
    /// The units in its hands. Those of a push that has arrived are not among them.
    pub units: Vec<Unit>,
    pub standing: Standing,
    /// When it came into this standing.
    pub since: Duration,
}

/// What a member is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    /// It could work; there is nothing for it, or the run does not go on.
    Idle,
    /// It computes on `version` for its `order`.
    Running { order: u64, version: u64 },
    /// Its push is here and waits for others.
    Held { order: u64, version: u64 },
    /// Its last answer was of no use. Asking it again at once would go round in circles, so it is asked after the
    /// next update, or when it says that it has a new lease.
    Resting,
}

impl ServerMember {
    pub(super) fn new(lease: u32, now: Duration) -> Self {
        Self { lease, units: Vec::new(), standing: Standing::Idle, since: now }
    }

    pub(super) fn stand(&mut self, standing: Standing, now: Duration) {
        self.standing = standing;
        self.since = now;
    }

    /// Whether the units of a push are this member's to name, each once.
    pub(super) fn check_claim(&self, done: &[Unit], unused: &[Unit]) -> Result<(), String> {
        // Checked first, so that a claim of any length costs no more than the lease allows.
        let claimed = done.len() + unused.len();
        if claimed > self.units.len() {
            return Err(format!("it names {claimed} units and holds {}", self.units.len()));
        }
        let held = keyed::set(self.units.iter().copied());
        let mut seen = BTreeSet::new();
        for &unit in done.iter().chain(unused) {
            if !held.contains(&unit) {
                return Err(format!("it names {unit}, which it does not hold"));
            }
            if !seen.insert(unit) {
                return Err(format!("it names {unit} twice"));
            }
        }
        Ok(())
    }
}
