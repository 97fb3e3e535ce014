use super::*;

/// A group whose answers are read as lines of text.
struct Bench(Group);

fn line(action: Action) -> String {
    match action {
        Action::Halt { generation, members, reason } => format!("halt g{generation} {members:?}: {reason}"),
        Action::Form { view, source, learners, reason: _ } => {
            let from = source.map_or("start".to_owned(), |id| id.to_string());
            let View { generation, members, round, units_done, pace: _ } = view;
            let learn = if learners.is_empty() { String::new() } else { format!(", {learners:?} learn") };
            format!("form g{generation} {members:?} r{round} u{units_done} from {from}{learn}")
        }
        Action::RoundDone { round, epoch_done: None } => format!("done r{round}"),
        Action::RoundDone { round, epoch_done: Some(epoch) } => format!("done r{round} epoch {epoch}"),
        Action::Expel { member, reason } => format!("expel {member}: {reason}"),
        Action::Waiting { reason } => format!("waiting: {reason}"),
        Action::StateLost { round, reason } => format!("state lost r{round}: {reason}"),
        Action::Finished { members } => format!("finished {members:?}"),
    }
}

impl Bench {
    fn new(members: u64, units_per_epoch: u32, min_members: usize) -> Self {
        let plan = Plan { units_per_epoch, epochs: Some(2), max_rounds: None, pace: Pace::UNIT, turns: None };
        let mut bench = Self(Group::new(plan, Rule { min_members, answer: Duration::from_secs(5) }));
        for member in 1..=members {
            bench.check(0, Event::Joined { member }, &[]);
        }
        bench
    }

    /// A group of members 1 to 3 that has started, with 5 units an epoch.
    fn started() -> Self {
        let mut bench = Self::new(3, 5, 2);
        bench.check(0, start(), &["form g1 [1, 2, 3] r0 u0 from start"]);
        bench.begun([1, 2, 3], 0);
        bench
    }

    fn check(&mut self, now_s: u64, event: Event, expect: &[&str]) {
        let told = format!("{event:?}");
        let actions = self.0.on(event, Duration::from_secs(now_s));
        assert_eq!(actions.into_iter().map(line).collect::<Vec<_>>(), expect, "{told}");
    }

    /// The members of the first group have taken the state it was started from.
    fn begun<const N: usize>(&mut self, members: [u64; N], round: u64) {
        for member in members {
            self.done(member, 1, round, &[]);
        }
    }

    /// Members 1 to 3 have done round 1.
    fn first_round(&mut self) {
        for member in 1..=3 {
            self.done(member, 1, 1, if member == 3 { &["done r1"] } else { &[] });
        }
    }

    fn done(&mut self, member: u64, generation: u64, round: u64, expect: &[&str]) {
        self.check(1, Event::Done { member, generation, round }, expect);
    }

    fn broken(&mut self, member: u64, generation: u64, round: u64, expect: &[&str]) {
        self.check(1, Event::Broken { member, generation, round }, expect);
    }

    /// A learner has heard a round, and has all of the state if it is `whole`.
    fn learned(&mut self, member: u64, generation: u64, round: u64, whole: bool, expect: &[&str]) {
        self.check(1, Event::Learned { member, generation, round, whole }, expect);
    }

    fn lose(&mut self, member: u64, expect: &[&str]) {
        self.check(1, Event::Lost { member, reason: "closed".to_owned() }, expect);
    }
}

fn start() -> Event {
    Event::Start { round: 0, units_done: 0 }
}

#[test]
fn rounds_are_done_when_all_have_done_them() {
    let mut bench = Bench::started();
    bench.done(2, 1, 1, &[]);
    bench.done(1, 1, 1, &[]);
    bench.done(1, 1, 1, &[]);
    bench.done(2, 1, 2, &[]);
    bench.done(3, 1, 1, &["done r1"]);
    bench.done(3, 1, 2, &[]);
    bench.done(1, 1, 2, &["done r2 epoch 0"]);
    for member in 1..=3 {
        bench.done(member, 1, 3, if member == 3 { &["done r3"] } else { &[] });
    }
    bench.done(1, 1, 4, &[]);
    bench.done(2, 1, 4, &[]);
    bench.done(3, 1, 4, &["done r4 epoch 1", "finished [1, 2, 3]"]);
    bench.lose(1, &[]);
}

#[test]
fn a_loss_repeats_the_round_it_was_in() {
    let mut bench = Bench::started();
    bench.first_round();
    bench.lose(2, &["halt g2 [1, 3]: member 2 is lost: closed"]);
    bench.broken(1, 1, 1, &[]);
    bench.broken(1, 2, 1, &[]);
    bench.broken(3, 2, 1, &["form g2 [1, 3] r1 u3 from 1"]);
    bench.done(1, 1, 2, &[]);
    bench.done(1, 2, 2, &[]);
    bench.done(3, 2, 2, &["done r2 epoch 0"]);
}

#[test]
fn who_is_ahead_goes_on_and_the_others_learn() {
    let mut bench = Bench::started();
    bench.lose(1, &["halt g2 [2, 3]: member 1 is lost: closed"]);
    bench.broken(2, 2, 0, &[]);
    bench.broken(3, 2, 1, &["form g2 [3] r1 u3 from 3, [2] learn", "done r1"]);
    bench.done(2, 2, 2, &[]);
    bench.learned(2, 2, 2, false, &[]);
    bench.done(3, 2, 2, &["done r2"]);
    bench.done(3, 2, 3, &["done r3 epoch 0"]);
    bench.learned(2, 2, 4, true, &[]);
    bench.learned(2, 2, 3, true, &["halt g3 [2, 3]: member 2 has the state"]);
    bench.broken(2, 3, 3, &[]);
    bench.broken(3, 3, 3, &["form g3 [2, 3] r3 u5 from 2"]);
}

#[test]
fn a_loss_during_a_halt_asks_again() {
    let mut bench = Bench::new(4, 5, 1);
    bench.check(0, start(), &["form g1 [1, 2, 3, 4] r0 u0 from start"]);
    bench.begun([1, 2, 3, 4], 0);
    bench.lose(1, &["halt g2 [2, 3, 4]: member 1 is lost: closed"]);
    bench.broken(2, 2, 0, &[]);
    bench.lose(3, &["halt g3 [2, 4]: member 3 is lost: closed"]);
    bench.broken(4, 2, 0, &[]);
    bench.broken(4, 3, 0, &[]);
    bench.broken(2, 3, 0, &["form g3 [2, 4] r0 u0 from start"]);
}

#[test]
fn before_the_first_round_a_joiner_need_not_wait() {
    let mut bench = Bench::started();
    bench.check(1, Event::Joined { member: 9 }, &["halt g2 [1, 2, 3, 9]: member 9 joins"]);
    for member in 1..=3 {
        bench.broken(member, 2, 0, &[]);
    }
    bench.broken(9, 2, 7, &["form g2 [1, 2, 3, 9] r0 u0 from start"]);
}

#[test]
fn a_joiner_learns_whatever_it_says() {
    let mut bench = Bench::started();
    bench.first_round();
    bench.check(1, Event::Joined { member: 9 }, &[]);
    bench.done(1, 1, 2, &[]);
    bench.done(2, 1, 2, &[]);
    bench.done(3, 1, 2, &["done r2 epoch 0", "halt g2 [1, 2, 3, 9]: member 9 joins"]);
    for member in 1..=3 {
        bench.broken(member, 2, 2, &[]);
    }
    bench.broken(9, 2, 7, &["form g2 [1, 2, 3] r2 u6 from 1, [9] learn"]);
}

#[test]
fn who_waits_to_join_is_not_missed() {
    let mut bench = Bench::started();
    bench.first_round();
    bench.check(1, Event::Joined { member: 9 }, &[]);
    bench.lose(9, &[]);
    for member in 1..=3 {
        bench.done(member, 1, 2, if member == 3 { &["done r2 epoch 0"] } else { &[] });
    }
}

#[test]
fn learners_are_waited_for_between_two_rounds() {
    let mut bench = Bench::new(1, 50, 1);
    bench.check(0, start(), &["form g1 [1] r0 u0 from start"]);
    bench.begun([1], 0);
    bench.done(1, 1, 1, &["done r1"]);
    bench.check(1, Event::Joined { member: 2 }, &[]);
    bench.check(1, Event::Joined { member: 3 }, &[]);
    bench.done(1, 1, 2, &["done r2", "halt g2 [1, 2, 3]: member 2 joins"]);
    bench.broken(2, 2, 0, &[]);
    bench.broken(3, 2, 0, &[]);
    bench.broken(1, 2, 2, &["form g2 [1] r2 u2 from 1, [2, 3] learn"]);
    bench.learned(2, 2, 3, true, &[]);
    bench.done(1, 2, 3, &["done r3"]);
    bench.check(1, Event::Joined { member: 4 }, &[]);
    bench.learned(3, 2, 3, false, &["halt g3 [1, 2, 3, 4]: member 2 has the state"]);
    bench.broken(1, 3, 3, &[]);
    bench.broken(2, 3, 3, &[]);
    bench.broken(3, 3, 0, &[]);
    bench.broken(4, 3, 0, &["form g3 [1, 2] r3 u3 from 1, [3, 4] learn"]);
    bench.lose(4, &["halt g4 [1, 2, 3]: member 4 is lost: closed"]);
}

#[test]
fn a_broken_link_re_forms_the_same_group() {
    let mut bench = Bench::started();
    bench.broken(2, 1, 0, &["halt g2 [1, 2, 3]: the group broke at member 2 after round 0"]);
    for member in 1..=2 {
        bench.broken(member, 2, 0, &[]);
    }
    bench.broken(3, 2, 0, &["form g2 [1, 2, 3] r0 u0 from start"]);
}

#[test]
fn a_group_changes_its_pace_between_two_rounds() {
    let pace = |bench: &Bench| bench.0.view().unwrap().pace;
    let mut bench = Bench::started();
    bench.first_round();
    let sooner = Pace { after: 0, steps: 4 };
    bench.check(1, Event::Changed { pace: Some(sooner) }, &["halt g2 [1, 2, 3]: "]);
    // One is lost meanwhile, another has done a round more than was told.
    bench.lose(1, &["halt g3 [2, 3]: member 1 is lost: closed"]);
    assert_eq!(pace(&bench), Pace::UNIT);
    bench.broken(2, 3, 1, &[]);
    bench.broken(3, 3, 2, &["form g3 [3] r2 u6 from 3, [2] learn", "done r2 epoch 0"]);
    assert_eq!(pace(&bench), Pace { after: 2, steps: 4 }, "what is done was of one step");
    bench.lose(2, &["halt g4 [3]: member 2 is lost: closed"]);
    bench.check(2, Event::Joined { member: 7 }, &["halt g5 [3, 7]: member 7 joins"]);
    bench.broken(3, 5, 2, &[]);
    bench.broken(7, 5, 0, &["form g5 [3] r2 u6 from 3, [7] learn"]);
    assert_eq!(pace(&bench), Pace { after: 2, steps: 4 }, "it stays");
    bench.check(2, Event::Changed { pace: None }, &["halt g6 [3, 7]: "]);
    bench.broken(3, 6, 2, &[]);
    bench.broken(7, 6, 2, &["form g6 [3] r2 u6 from 3, [7] learn"]);
    assert_eq!(pace(&bench), Pace { after: 2, steps: 4 });
}

#[test]
fn who_does_not_answer_is_put_out() {
    let mut bench = Bench::started();
    bench.lose(1, &["halt g2 [2, 3]: member 1 is lost: closed"]);
    bench.broken(2, 2, 0, &[]);
    assert_eq!(bench.0.next_deadline(), Some(Duration::from_secs(6)));
    bench.check(5, Event::Tick, &[]);
    bench.check(
        6,
        Event::Tick,
        &["expel 3: is out: it did not answer the halt for 5.0 s", "halt g3 [2]: 1 member did not answer"],
    );
    bench.broken(2, 3, 0, &["waiting: 1 of at least 2 members are there"]);
    assert_eq!(bench.0.next_deadline(), None);
}

#[test]
fn too_few_members_wait() {
    let mut bench = Bench::new(1, 5, 2);
    bench.check(0, start(), &["waiting: 1 of at least 2 members are there"]);
    bench.check(1, Event::Joined { member: 5 }, &["form g1 [1, 5] r0 u0 from start"]);
    bench.begun([1, 5], 0);
    bench.lose(1, &["halt g2 [5]: member 1 is lost: closed"]);
    bench.broken(5, 2, 1, &["waiting: 1 of at least 2 members are there"]);
    bench.check(2, Event::Joined { member: 1 }, &["halt g3 [1, 5]: member 1 joins"]);
    bench.broken(5, 3, 1, &[]);
    bench.broken(1, 3, 0, &["form g3 [5] r1 u2 from 5, [1] learn", "done r1"]);
}

#[test]
fn before_the_first_round_the_start_is_as_good_as_a_member() {
    let mut bench = Bench::new(2, 5, 1);
    bench.check(0, Event::Start { round: 4, units_done: 3 }, &["form g1 [1, 2] r4 u3 from start"]);
    bench.lose(1, &["halt g2 [2]: member 1 is lost: closed"]);
    // It has a state from elsewhere and has not taken the ring's.
    bench.broken(2, 2, 7, &["form g2 [2] r4 u3 from start"]);
}

#[test]
fn nobody_has_the_parameters() {
    let mut bench = Bench::new(2, 5, 1);
    bench.check(0, Event::Start { round: 4, units_done: 3 }, &["form g1 [1, 2] r4 u3 from start"]);
    bench.begun([1, 2], 4);
    bench.done(1, 1, 5, &[]);
    bench.done(2, 1, 5, &["done r5 epoch 0"]);
    bench.lose(1, &["halt g2 [2]: member 1 is lost: closed"]);
    bench.lose(2, &["waiting: 0 of at least 1 members are there"]);
    bench.check(1, Event::Joined { member: 2 }, &["halt g4 [2]: member 2 joins"]);
    bench.broken(2, 4, 0, &["state lost r5: no member of the group is left that has the parameters"]);
    bench.check(1, Event::Start { round: 2, units_done: 1 }, &["form g5 [2] r2 u1 from start"]);
}

#[test]
fn after_the_last_round_nobody_has_to_learn() {
    let mut bench = Bench::new(3, 1, 1);
    bench.check(0, start(), &["form g1 [1, 2, 3] r0 u0 from start"]);
    bench.begun([1, 2, 3], 0);
    bench.lose(1, &["halt g2 [2, 3]: member 1 is lost: closed"]);
    bench.broken(2, 2, 0, &[]);
    let end = ["form g2 [3] r1 u2 from 3, [2] learn", "done r1 epoch 1", "finished [3]"];
    bench.broken(3, 2, 1, &end);
}

#[test]
fn who_was_ahead_is_lost_before_the_others_have_its_state() {
    let mut bench = Bench::started();
    bench.lose(1, &["halt g2 [2, 3]: member 1 is lost: closed"]);
    bench.broken(2, 2, 0, &[]);
    bench.broken(3, 2, 1, &["form g2 [3] r1 u3 from 3, [2] learn", "done r1"]);
    bench.lose(3, &["halt g3 [2]: member 3 is lost: closed"]);
    bench.check(1, Event::Joined { member: 9 }, &["halt g4 [2, 9]: member 9 joins"]);
    bench.broken(9, 4, 1, &[]);
    // It may not have heard yet that it is to learn: what it has is of a round that counts no more.
    bench.broken(2, 4, 1, &["state lost r1: no member of the group is left that has the parameters"]);
}

#[test]
fn a_joiner_that_has_the_state_can_hand_it_on() {
    let mut bench = Bench::started();
    bench.first_round();
    bench.check(1, Event::Joined { member: 9 }, &[]);
    bench.lose(1, &["halt g2 [2, 3, 9]: member 1 is lost: closed"]);
    bench.broken(2, 2, 1, &[]);
    bench.broken(3, 2, 1, &[]);
    bench.broken(9, 2, 0, &["form g2 [2, 3] r1 u3 from 2, [9] learn"]);
    bench.lose(2, &["halt g3 [3, 9]: member 2 is lost: closed"]);
    bench.learned(9, 2, 2, true, &[]);
    bench.lose(3, &["halt g4 [9]: member 3 is lost: closed"]);
    bench.check(1, Event::Joined { member: 2 }, &["halt g5 [2, 9]: member 2 joins"]);
    bench.broken(2, 5, 0, &[]);
    bench.broken(9, 5, 2, &["form g5 [9] r2 u5 from 9, [2] learn", "done r2 epoch 0"]);
}

#[test]
fn an_impossible_round_is_not_a_state() {
    let mut bench = Bench::started();
    bench.lose(1, &["halt g2 [2, 3]: member 1 is lost: closed"]);
    bench.broken(2, 2, u64::MAX, &[]);
    bench.broken(3, 2, 1, &["form g2 [3] r1 u3 from 3, [2] learn", "done r1"]);
}
