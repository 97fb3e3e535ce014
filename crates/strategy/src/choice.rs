//! Which way of exchanging suits a run, by what its first rounds took.

use crate::words::counted;

/// A round as it was measured.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Measured {
    /// Of the slowest member.
    pub compute_s: f64,
    /// Of the member that waited least for the others.
    pub exchange_s: f64,
    /// What of that an exchange without values would take.
    pub latency_s: f64,
    /// What the fastest member alone would take to compute what all do in a round.
    pub alone_s: f64,
    /// Through the link of one member, or of who serves all of them.
    pub sent_bytes: f64,
    pub members: usize,
    pub through: Through,
    /// No wire is between the members.
    pub is_one_machine: bool,
}

/// Whose link is the busiest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Through {
    /// The members' own are all alike.
    Members,
    /// All goes through the server's.
    Server,
    /// More goes through a relay's than through the server's.
    Relay,
}

/// How members exchange what they have learnt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Way {
    pub int8: bool,
    /// How many units a member does between two exchanges.
    pub steps: u64,
}

/// What may be changed about the way that was measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Freedom {
    pub compression: bool,
    pub steps: bool,
    /// See [`most_steps`].
    pub most_steps: u64,
}

/// The way that suits, with its reason in words.
#[derive(Clone, Debug, PartialEq)]
pub struct Choice {
    pub way: Way,
    /// What an exchange will cost for every unit a member does, by estimate.
    pub exchange_s: f64,
    pub reason: String,
}

/// What int8 leaves of the bytes of f32: a byte a value, and a scale for 512 of them.
const INT8: f64 = 0.252;

/// How much of the time of computing an exchange may take.
const BEARABLE: f64 = 0.1;

/// What rounds the values or makes exchanges rarer has to save so much of the time.
const LEAST_GAIN: f64 = 0.1;

/// From so many bits a second on the processors hold an exchange up, not the wire: fewer bytes are no gain.
const FAST: f64 = 2e9;

/// With so many rounds of one unit left, and so many exchanges, local steps cost about half a point of accuracy. The
/// mean of several small steps is shorter than one large step: a shorter run ends before it has made up for that.
const LEAST_ROUNDS: u64 = 1000;
const LEAST_EXCHANGES: u64 = 100;

/// Up to this round, or a tenth of all, members exchange after every unit: at first they would go the farthest apart.
const TOGETHER: u64 = 100;

/// How many units members may do between two exchanges in a run that has so many rounds of one unit left.
pub fn most_steps(rounds_per_epoch: u64, rounds_left: u64) -> u64 {
    if rounds_left < LEAST_ROUNDS {
        return 1;
    }
    // A round is no longer than an epoch.
    (rounds_left / LEAST_EXCHANGES).min(rounds_per_epoch).max(1)
}

/// Up to which round of so many members exchange after every unit.
pub fn together_up_to(rounds: u64) -> u64 {
    (rounds / 10).min(TOGETHER)
}

/// The first of none, int8, int8 with 8, 16, 32 steps whose exchange is bearable, so far as there is freedom.
/// Fewer steps than 8 learn no better, because the momentum of all workers together helps only after many.
/// What was measured is one unit a member and round where steps are free, and f32 where compression is.
pub fn choose(measured: &Measured, freedom: Freedom) -> Choice {
    let &Measured { compute_s, exchange_s, .. } = measured;
    let as_it_is = Way { int8: false, steps: 1 };
    let latency_s = measured.latency_s.clamp(0.0, exchange_s);
    let left = |way: Way| if way.int8 { INT8 } else { 1.0 };
    let cost = |way: Way| (latency_s + (exchange_s - latency_s) * left(way)) / way.steps as f64;
    let int8 = freedom.compression;
    let longer = [8, 16, 32].into_iter().filter(|&steps| freedom.steps && steps <= freedom.most_steps);
    let ways = std::iter::once(Way { int8, steps: 1 }).chain(longer.map(|steps| Way { int8, steps }));
    let mut best = as_it_is;
    for way in ways {
        if cost(best) <= BEARABLE * compute_s {
            break;
        }
        best = way;
    }
    let gain = 1.0 - (compute_s + cost(best)) / (compute_s + exchange_s);
    let wire = wire(measured);
    if !freedom.compression && !freedom.steps {
        return Choice { way: as_it_is, exchange_s, reason: wire };
    }
    if measured.is_one_machine {
        let reason = "all members are on one machine, so there is no wire to save".to_owned();
        return Choice { way: as_it_is, exchange_s, reason };
    }
    if best == as_it_is && measured.members > 1 && cost(best) > BEARABLE * compute_s {
        let reason = format!("{wire}; too few rounds are left for local steps");
        return Choice { way: as_it_is, exchange_s, reason };
    }
    if measured.members < 2 || gain.is_nan() || gain < LEAST_GAIN {
        let reason = format!("{wire}; fewer bytes would gain less than a tenth");
        return Choice { way: as_it_is, exchange_s, reason };
    }
    if rate(measured) > FAST {
        let reason = format!("{wire}; that is not the wire but the processors");
        return Choice { way: as_it_is, exchange_s, reason };
    }
    let reason = format!("{wire}; {}: {}", in_words(best), time(cost(best)));
    Choice { way: best, exchange_s: cost(best), reason }
}

/// That one machine alone would be faster than all together with an exchange of so many seconds, if it would.
pub fn alone(measured: &Measured, exchange_s: f64) -> Option<String> {
    let &Measured { compute_s, alone_s, .. } = measured;
    let times = (compute_s + exchange_s) / alone_s;
    let is_faster = alone_s > 0.0 && times > 1.0 + LEAST_GAIN;
    is_faster.then(|| format!("one machine alone: {}, {times:.1} times as fast", time(alone_s)))
}

/// Whether the wire takes more than a third of the time.
pub fn is_wire_bound(measured: &Measured) -> bool {
    measured.exchange_s * 2.0 > measured.compute_s && rate(measured) <= FAST
}

/// Bits a second, over the whole exchange.
fn rate(measured: &Measured) -> f64 {
    measured.sent_bytes * 8.0 / measured.exchange_s.max(1e-9)
}

/// "the wire takes 641 ms of 680 ms: 7.9 MB at 98 Mbit/s"
fn wire(measured: &Measured) -> String {
    let &Measured { compute_s, exchange_s, latency_s, sent_bytes, .. } = measured;
    let through = match measured.through {
        Through::Members => "",
        Through::Server => " through the server's link",
        Through::Relay => " through a relay's link",
    };
    // Where there is no telling them apart, all of it is the bytes.
    let has_latency = latency_s > exchange_s * BEARABLE && latency_s < exchange_s * (1.0 - BEARABLE);
    let bytes_s = if has_latency { exchange_s - latency_s } else { exchange_s };
    let latency = if has_latency { format!(", {} of latency", time(latency_s)) } else { String::new() };
    format!(
        "the wire takes {} of {}: {:.1} MB{through} at {} Mbit/s{latency}",
        time(exchange_s),
        time(compute_s + exchange_s),
        sent_bytes / 1e6,
        (sent_bytes * 8.0 / bytes_s.max(1e-9) / 1e6).round()
    )
}

fn in_words(way: Way) -> String {
    let steps = counted(way.steps, "local step");
    match way {
        Way { int8: true, steps: 1 } => "int8".to_owned(),
        Way { int8: true, .. } => format!("int8 and {steps}"),
        Way { int8: false, .. } => steps,
    }
}

fn time(seconds: f64) -> String {
    let ms = seconds * 1e3;
    if ms < 10.0 { format!("{ms:.1} ms") } else { format!("{ms:.0} ms") }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FREE: Freedom = Freedom { compression: true, steps: true, most_steps: 1000 };

    fn over_a_wire(compute_s: f64, exchange_s: f64, megabytes: f64) -> Measured {
        let (latency_s, sent_bytes) = (0.0, megabytes * 1e6);
        Measured {
            compute_s,
            exchange_s,
            latency_s,
            alone_s: compute_s * 8.0,
            sent_bytes,
            members: 8,
            through: Through::Members,
            is_one_machine: false,
        }
    }

    #[track_caller]
    fn check(ms: (f64, f64), megabytes: f64, freedom: Freedom, expect: (bool, u64, &str)) {
        let (compute_s, exchange_s) = (ms.0 / 1e3, ms.1 / 1e3);
        let choice = choose(&over_a_wire(compute_s, exchange_s, megabytes), freedom);
        let (int8, steps, reason) = expect;
        assert_eq!((choice.way, choice.reason.as_str()), (Way { int8, steps }, reason));
    }

    #[test]
    fn the_first_way_that_is_bearable_is_taken() {
        let wire = "the wire takes 641 ms of 680 ms: 7.9 MB at 99 Mbit/s";
        check((39.0, 641.0), 7.9, FREE, (true, 32, &format!("{wire}; int8 and 32 local steps: 5.0 ms")));
        let wire = "the wire takes 641 ms of 1041 ms: 7.9 MB at 99 Mbit/s";
        check((400.0, 641.0), 7.9, FREE, (true, 8, &format!("{wire}; int8 and 8 local steps: 20 ms")));
        let wire = "the wire takes 300 ms of 1300 ms: 3.7 MB at 99 Mbit/s";
        check((1000.0, 300.0), 3.7, FREE, (true, 1, &format!("{wire}; int8: 76 ms")));
    }

    #[test]
    fn nothing_is_lost_for_little() {
        let little = "fewer bytes would gain less than a tenth";
        check(
            (1000.0, 90.0),
            1.0,
            FREE,
            (false, 1, &format!("the wire takes 90 ms of 1090 ms: 1.0 MB at 89 Mbit/s; {little}")),
        );
        check(
            (1000.0, 120.0),
            1.5,
            FREE,
            (false, 1, &format!("the wire takes 120 ms of 1120 ms: 1.5 MB at 100 Mbit/s; {little}")),
        );
        check(
            (1.0, 2.0),
            1.0,
            FREE,
            (
                false,
                1,
                "the wire takes 2.0 ms of 3.0 ms: 1.0 MB at 4000 Mbit/s; that is not the wire but the processors",
            ),
        );
        check(
            (0.0, 0.0),
            0.0,
            FREE,
            (false, 1, &format!("the wire takes 0.0 ms of 0.0 ms: 0.0 MB at 0 Mbit/s; {little}")),
        );
    }

    #[test]
    fn what_the_run_file_says_stays() {
        let wire = "the wire takes 641 ms of 680 ms: 7.9 MB at 99 Mbit/s";
        let only_bytes = Freedom { steps: false, ..FREE };
        check((39.0, 641.0), 7.9, only_bytes, (true, 1, &format!("{wire}; int8: 162 ms")));
        let only_steps = Freedom { compression: false, ..FREE };
        check((39.0, 641.0), 7.9, only_steps, (false, 32, &format!("{wire}; 32 local steps: 20 ms")));
        let short = Freedom { most_steps: 9, ..FREE };
        check((39.0, 641.0), 7.9, short, (true, 8, &format!("{wire}; int8 and 8 local steps: 20 ms")));
        let nothing = Freedom { compression: false, steps: false, most_steps: 1 };
        check((39.0, 641.0), 7.9, nothing, (false, 1, wire));
    }

    #[test]
    fn where_one_machine_is_faster_that_is_said() {
        let measured = over_a_wire(0.01, 2.39, 7.9);
        let faster = "one machine alone: 80 ms, 30.0 times as fast";
        assert_eq!(alone(&measured, measured.exchange_s).as_deref(), Some(faster));
        assert_eq!(alone(&measured, 0.07), None, "as fast");
        assert_eq!(alone(&measured, 0.01), None);
        assert_eq!(alone(&Measured { alone_s: 0.0, ..measured }, 2.39), None, "not known");
        assert_eq!(alone(&Measured { alone_s: f64::NAN, ..measured }, 2.39), None);
    }

    #[test]
    fn all_goes_through_the_link_of_a_server() {
        for (through, whose) in [(Through::Server, "the server's"), (Through::Relay, "a relay's")] {
            let choice = choose(&Measured { through, ..over_a_wire(0.4, 0.641, 7.9) }, FREE);
            let wire = format!("the wire takes 641 ms of 1041 ms: 7.9 MB through {whose} link at 99 Mbit/s");
            assert_eq!(choice.reason, format!("{wire}; int8 and 8 local steps: 20 ms"));
        }
    }

    #[test]
    fn a_member_alone_exchanges_nothing() {
        let alone = Measured { members: 1, ..over_a_wire(0.1, 0.9, 1.0) };
        assert_eq!(choose(&alone, FREE).way, Way { int8: false, steps: 1 });
    }

    #[test]
    fn on_one_machine_there_is_no_wire() {
        let choice = choose(&Measured { is_one_machine: true, ..over_a_wire(0.1, 0.9, 1.0) }, FREE);
        assert_eq!(choice.way, Way { int8: false, steps: 1 });
        assert_eq!(choice.reason, "all members are on one machine, so there is no wire to save");
    }

    #[test]
    fn fewer_bytes_do_not_shorten_a_latency() {
        let choose = |latency_s: f64, freedom: Freedom| {
            let choice = choose(&Measured { latency_s, ..over_a_wire(0.1, 0.1, 0.5) }, freedom);
            (choice.way, choice.reason)
        };
        let bytes = Freedom { steps: false, ..FREE };
        let way = |int8, steps| Way { int8, steps };
        assert_eq!(choose(0.02, bytes).0, way(true, 1));
        let (chosen, reason) = choose(0.08, bytes);
        assert_eq!(chosen, way(false, 1));
        let wire = "the wire takes 100 ms of 200 ms: 0.5 MB at 200 Mbit/s, 80 ms of latency";
        assert_eq!(reason, format!("{wire}; fewer bytes would gain less than a tenth"));
        assert_eq!(choose(0.0, FREE).0, way(true, 8));
        assert_eq!(choose(0.08, FREE).0, way(true, 16));
        assert_eq!(choose(7.0, FREE).0, way(true, 16), "none is longer than the exchange");
    }

    #[test]
    fn a_short_run_exchanges_often() {
        let check = |rounds_per_epoch, left, expect| {
            assert_eq!(most_steps(rounds_per_epoch, left), expect, "{left} rounds left");
        };
        check(1000, 0, 1);
        check(1000, 999, 1);
        check(1000, 1000, 10);
        check(1000, 3200, 32);
        check(5, 1_000_000, 5);
        assert_eq!([16, 400, 5000].map(together_up_to), [1, 40, 100]);
        let few = Freedom { compression: false, steps: true, most_steps: 1 };
        let wire = "the wire takes 641 ms of 680 ms: 7.9 MB at 99 Mbit/s";
        check_reason(few, &format!("{wire}; too few rounds are left for local steps"));
    }

    #[track_caller]
    fn check_reason(freedom: Freedom, expect: &str) {
        check((39.0, 641.0), 7.9, freedom, (false, 1, expect));
    }
}
