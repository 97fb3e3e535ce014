use std::collections::BTreeMap;
use std::mem;
use std::time::Duration;

use crate::group::Pace;
use crate::keyed;
use crate::words::counted;
use crate::{Deck, Unit};

mod event;
mod member;
#[cfg(test)]
mod tests;

pub use event::{Action, Contribution, Event, Rule};
use member::{ServerMember, Standing};

/// The decisions of a parameter server: when an update is made of which pushes, and who works on what.
///
/// Sync, backup workers and async with bounded staleness are one rule: the pushes that are here become one update as
/// soon as that update cannot make the push of anybody who still computes too stale. With a bound of 0 that is when
/// nobody computes any more, with a large one it is always.
#[derive(Clone, Debug)]
pub struct Server {
    rule: Rule,
    deck: Deck,
    version: u64,
    next_order: u64,
    started: bool,
    finished: bool,
    members: BTreeMap<u64, ServerMember>,
    /// The pushes that wait, by arrival. A push outlives its member: it has arrived whole.
    held: Vec<WaitingPush>,
    /// How many members were missing when it was last said.
    missing: usize,
}

#[derive(Clone, Debug)]
struct WaitingPush {
    member: u64,
    order: u64,
    version: u64,
    since: Duration,
    done: Vec<Unit>,
    empty: bool,
}

impl Server {
    /// A server whose parameters have `version`, with what `deck` says still to do.
    pub fn new(rule: Rule, deck: Deck, version: u64) -> Self {
        assert!(rule.take != Some(0), "an update of no push at all would be made for ever");
        Self {
            rule,
            deck,
            version,
            next_order: 1,
            started: false,
            finished: false,
            members: BTreeMap::new(),
            held: Vec::new(),
            missing: 0,
        }
    }

    /// What to do about `event`, in this order.
    pub fn on(&mut self, event: Event, now: Duration) -> Vec<Action> {
        let mut actions = Vec::new();
        match event {
            Event::Joined { member, lease } => self.joined(member, lease, now),
            Event::Lease { member, lease } => self.leased(member, lease, now),
            Event::Start => self.started = true,
            Event::Lost { member } => self.lost(member),
            Event::Pushed { member, order, done, unused, empty } => {
                self.pushed(member, order, (done, unused), empty, now, &mut actions);
            }
            Event::Paced { pace } => self.set_pace(pace),
            Event::Tick => {}
        }
        self.go_on(now, &mut actions);
        actions
    }

    /// When to send the next [`Event::Tick`], if nothing else happens before.
    pub fn next_deadline(&self) -> Option<Duration> {
        let patience = self.rule.straggler?;
        let waits = self.started && !self.finished && self.missing == 0 && self.hindered().next().is_some();
        let first = self.held.first().filter(|_| waits)?;
        Some(first.since + patience)
    }

    /// The live members in order of id.
    fn members(&self) -> impl Iterator<Item = (u64, &ServerMember)> {
        self.members.iter().map(|(&id, member)| (id, member))
    }

    /// How many updates the parameters have had.
    pub fn version(&self) -> u64 {
        self.version
    }

    /// How many units a worker does by itself for a push that is computed on `version`.
    pub fn steps_on(&self, version: u64) -> u64 {
        self.rule.pace.steps_in(version + 1)
    }

    /// Whether [`Action::Finished`] was said.
    pub fn is_finished(&self) -> bool {
        self.finished
    }

    /// Some may be at work for the next update, in the way that holds.
    fn set_pace(&mut self, Pace { after, steps }: Pace) {
        assert!(steps > 0, "pushes without a unit never end");
        self.rule.pace = Pace { after: after.max(self.version + 1), steps };
    }

    fn joined(&mut self, id: u64, lease: u32, now: Duration) {
        if let Some(before) = self.members.remove(&id) {
            self.give_back(before.units);
        }
        self.members.insert(id, ServerMember::new(lease, now));
    }

    fn leased(&mut self, id: u64, lease: u32, now: Duration) {
        let Some(member) = self.members.get_mut(&id) else { return };
        member.lease = lease;
        if member.standing == Standing::Resting {
            member.stand(Standing::Idle, now);
        }
    }

    fn lost(&mut self, id: u64) {
        if let Some(member) = self.members.remove(&id) {
            self.give_back(member.units);
        }
    }

    fn pushed(
        &mut self,
        id: u64,
        order: u64,
        (done, unused): (Vec<Unit>, Vec<Unit>),
        empty: bool,
        now: Duration,
        actions: &mut Vec<Action>,
    ) {
        if self.finished {
            return;
        }
        let mut discard = |reason| actions.push(Action::Discard { member: id, order, late: false, reason });
        let Some(member) = self.members.get_mut(&id) else {
            return discard("is not a member".to_owned());
        };
        let version = match member.standing {
            Standing::Running { order: current, version } if current == order => version,
            Standing::Running { order: current, .. } => {
                return discard(format!("answers order {order}; its order is {current}"));
            }
            _ => return discard(format!("answers order {order}; it has no order to answer")),
        };
        let claim = member.check_claim(&done, &unused);
        if claim.is_err() || done.is_empty() {
            member.stand(Standing::Resting, now);
            let units = mem::take(&mut member.units);
            discard(claim.err().unwrap_or_else(|| "hands back what it was to do".to_owned()));
            return self.give_back(units);
        }
        let named = keyed::set(done.iter().chain(&unused).copied());
        member.units.retain(|unit| !named.contains(unit));
        member.stand(Standing::Held { order, version }, now);
        self.give_back(unused);
        self.held.push(WaitingPush { member: id, order, version, since: now, done, empty });
        self.drop_late(now, actions);
    }

    /// Does whatever has become possible.
    fn go_on(&mut self, now: Duration, actions: &mut Vec<Action>) {
        if !self.started || self.ends(actions) || self.is_short(actions) {
            return;
        }
        while let Some(count) = self.ready(now, actions) {
            self.apply(count, now, actions);
            if self.ends(actions) {
                return;
            }
        }
        self.release_idle(now, actions);
    }

    fn ends(&mut self, actions: &mut Vec<Action>) -> bool {
        if self.finished {
            return true;
        }
        let is_bounded = self.rule.max_updates.is_some_and(|bound| self.version >= bound);
        if !self.deck.is_complete() && !is_bounded {
            return false;
        }
        self.finished = true;
        self.held.clear();
        actions.push(Action::Finished);
        true
    }

    fn is_short(&mut self, actions: &mut Vec<Action>) -> bool {
        let able = self.members.values().filter(|member| member.lease > 0).count();
        let missing = self.rule.min_members.saturating_sub(able);
        if missing != mem::replace(&mut self.missing, missing) && missing > 0 {
            let reason = format!("{able} of at least {} members are there", self.rule.min_members);
            actions.push(Action::Waiting { reason });
        }
        missing > 0
    }

    /// The members that compute on a version which is just within the bound: one more update, and their push is
    /// worthless. Those that are beyond it already hinder nobody.
    fn hindered(&self) -> impl Iterator<Item = (u64, &ServerMember)> {
        self.members().filter(|(_, member)| match member.standing {
            Standing::Running { version, .. } => self.version - version == self.rule.max_staleness,
            _ => false,
        })
    }

    /// How many of the waiting pushes make an update now: the first ones of a rule that takes so many; all, if nobody
    /// who computes falls too far behind by it, or if those who would are late.
    fn ready(&self, now: Duration, actions: &mut Vec<Action>) -> Option<usize> {
        let first = self.held.first()?;
        let here = self.held.len();
        if let Some(enough) = self.rule.take.filter(|&enough| here >= enough) {
            return Some(enough);
        }
        if self.hindered().next().is_none() {
            return Some(here);
        }
        if now.saturating_sub(first.since) < self.rule.straggler? {
            return None;
        }
        for (member, running) in self.hindered() {
            let reason = format!(
                "is late, round {} goes on without it: no push for {:.1} s",
                self.version + 1,
                now.saturating_sub(running.since).as_secs_f64()
            );
            actions.push(Action::Late { member, reason });
        }
        Some(here)
    }

    fn apply(&mut self, count: usize, now: Duration, actions: &mut Vec<Action>) {
        let mut applied: Vec<WaitingPush> = self.held.drain(..count).collect();
        // By id and not by arrival: a sum of floats depends on the order, and a run shall not depend on the network.
        applied.sort_by_key(|push| (push.member, push.order));
        let contribution = |push: &WaitingPush| Contribution {
            member: push.member,
            order: push.order,
            staleness: self.version - push.version,
            empty: push.empty,
        };
        let pushes = applied.iter().map(contribution).collect();
        self.version += 1;
        let mut epochs = Vec::new();
        for push in applied {
            self.answered(push.member, push.order, now);
            for unit in push.done {
                let done = self.deck.done(unit);
                assert!(done.is_ok(), "{unit} was held and not out");
                epochs.extend(done.ok().flatten().map(Action::EpochDone));
            }
        }
        actions.push(Action::Apply { pushes, version: self.version, open: self.deck.open() });
        actions.append(&mut epochs);
        for member in self.members.values_mut().filter(|member| member.standing == Standing::Resting) {
            member.stand(Standing::Idle, now);
        }
        self.drop_late(now, actions);
    }

    /// Drops the waiting pushes that are beyond the bound.
    fn drop_late(&mut self, now: Duration, actions: &mut Vec<Action>) {
        let (bound, current) = (self.rule.max_staleness, self.version);
        let late: Vec<WaitingPush> =
            self.held.extract_if(.., |push| current - push.version > bound).collect();
        for push in late {
            let reason = format!(
                "is {} behind; at most {bound} are taken",
                counted(current - push.version, "version")
            );
            let (member, order) = (push.member, push.order);
            actions.push(Action::Discard { member, order, late: true, reason });
            self.give_back(push.done);
            self.answered(member, order, now);
        }
    }

    /// The member's push is dealt with: it may have new work. It may also be gone, or back as another.
    fn answered(&mut self, id: u64, answered: u64, now: Duration) {
        let Some(member) = self.members.get_mut(&id) else { return };
        if matches!(member.standing, Standing::Held { order, .. } if order == answered) {
            member.stand(Standing::Idle, now);
        }
    }

    fn release_idle(&mut self, now: Duration, actions: &mut Vec<Action>) {
        let mut dealt = self.deal();
        for (&id, member) in &mut self.members {
            if member.standing != Standing::Idle {
                continue;
            }
            let units = dealt.remove(&id).unwrap_or_default();
            member.units.extend(&units);
            // A member that holds units needs an order to answer, also when there is nothing new for it.
            if member.units.is_empty() {
                continue;
            }
            let (order, version) = (self.next_order, self.version);
            self.next_order += 1;
            member.stand(Standing::Running { order, version }, now);
            actions.push(Action::Release { member: id, order, version, units });
        }
    }

    /// What those who could work are to do: all have their first units, then all their second ones. So each unit lies
    /// where it would lie if there were as many updates by one unit a worker.
    fn deal(&mut self) -> BTreeMap<u64, Vec<Unit>> {
        let mut dealt: BTreeMap<u64, Vec<Unit>> = BTreeMap::new();
        for step in 1..=self.steps_on(self.version) {
            let idle = self.members.iter().filter(|(_, member)| member.standing == Standing::Idle);
            let mut is_over = true;
            for (&id, member) in idle {
                let units = dealt.entry(id).or_default();
                let most =
                    usize::try_from(u64::from(member.lease).saturating_mul(step)).unwrap_or(usize::MAX);
                let room = most.saturating_sub(member.units.len() + units.len());
                let before = units.len();
                units.extend(std::iter::from_fn(|| self.deck.deal()).take(room));
                is_over &= units.len() == before;
            }
            if is_over {
                break;
            }
        }
        dealt
    }

    fn give_back(&mut self, units: Vec<Unit>) {
        for unit in units {
            let back = self.deck.give_back(unit);
            assert!(back.is_ok(), "{unit} was a member's and not out");
        }
    }
}
