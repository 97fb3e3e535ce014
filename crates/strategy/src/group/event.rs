use std::time::Duration;

use super::{Pace, View};

/// When a group goes on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    /// With fewer members than that the group is not formed.
    pub min_members: usize,
    /// How long a member may take to say how far it is after a halt; then it is put out.
    pub answer: Duration,
}

/// What happens to a group, as its head sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A member is there, for the first time or again.
    Joined { member: u64 },
    /// All members can have the state of `round`, in which `units_done` units are done: the seed's, or a
    /// checkpoint's. Begins the run, and begins it again after [`Action::StateLost`].
    Start { round: u64, units_done: u64 },
    /// A member is gone; `reason` says how that was noticed.
    Lost { member: u64, reason: String },
    /// A member has stopped. It has done `round` and no more: because it was halted in this generation, or because
    /// the group of this generation broke under it. A member without a state says 0, and so does one that has not got
    /// all of it yet.
    Broken { member: u64, generation: u64, round: u64 },
    /// A member has done a round; or, in a group without a source, it has taken the state of the start, which it
    /// reports as the round of that.
    Done { member: u64, generation: u64, round: u64 },
    /// A learner has brought what it has of the state to this round. One that has the whole of it keeps the others from
    /// doing another round until it is a member.
    Learned { member: u64, generation: u64, round: u64, whole: bool },
    /// Members are to exchange in another way: they form anew, at this pace if it is another one. Rounds that are done
    /// by then were of the pace before.
    Changed { pace: Option<Pace> },
    /// Time has passed. To be sent at [`Group::next_deadline`](super::Group::next_deadline).
    Tick,
}

/// What the caller has to do now, in this order. What a person would ask about comes with its reason in words; that of
/// a member is the text after its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Tell these members to stop and to answer with [`Event::Broken`] in this generation. Without a reason the caller
    /// has asked for it.
    Halt { generation: u64, members: Vec<u64>, reason: String },
    /// Tell the members of `view` to go on as this group. They have the state of `view.round`, the `source` is one of
    /// them. Meanwhile `learners` take the state from them, and say how far they are by [`Event::Learned`]. Without a
    /// source everybody first takes the state that [`Event::Start`] has named, and says so by [`Event::Done`] of its
    /// round.
    Form { view: View, source: Option<u64>, learners: Vec<u64>, reason: String },
    /// All members of the group have this round.
    RoundDone { round: u64, epoch_done: Option<u64> },
    /// Close the connection of a member: it is out.
    Expel { member: u64, reason: String },
    /// Too few members; said once per number that is missing.
    Waiting { reason: String },
    /// Nobody who has the parameters is left. Answer with [`Event::Start`] at the newest checkpoint.
    StateLost { round: u64, reason: String },
    /// Nothing is left to do; `members` have the final state.
    Finished { members: Vec<u64> },
}
