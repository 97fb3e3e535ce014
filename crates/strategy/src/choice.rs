//! Which way of exchanging suits a run, by what its first rounds took.

use crate::words::counted;

/// A round as it was measured.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Measured {
    /// Of the slowest member.
    pub compute_s: f64,
    /// Of the member that waited least for the others.
    pub exchange_s: f64,
    /// By one member.
    pub sent_bytes: f64,
    pub members: usize,
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
    /// A round is no longer than an epoch.
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

/// The first of none, int8, int8 with 2, 4, 8, 16, 32 steps whose exchange is bearable, so far as there is freedom.
/// What was measured is one unit a member and round where steps are free, and f32 where compression is.
pub fn choose(measured: &Measured, freedom: Freedom) -> Choice {
    let &Measured { compute_s, exchange_s, .. } = measured;
    let as_it_is = Way { int8: false, steps: 1 };
    let cost = |way: Way| exchange_s * if way.int8 { INT8 } else { 1.0 } / way.steps as f64;
    let int8 = freedom.compression;
    let longer = [2, 4, 8, 16, 32].into_iter().filter(|&steps| freedom.steps && steps <= freedom.most_steps);
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

/// Whether the wire takes more than a third of the time.
pub fn is_wire_bound(measured: &Measured) -> bool {
    measured.exchange_s * 2.0 > measured.compute_s && rate(measured) <= FAST
}

/// Bits a second.
fn rate(measured: &Measured) -> f64 {
    measured.sent_bytes * 8.0 / measured.exchange_s.max(1e-9)
}

/// "the wire takes 641 ms of 680 ms: 7.9 MB at 98 Mbit/s"
fn wire(measured: &Measured) -> String {
    let &Measured { compute_s, exchange_s, sent_bytes, .. } = measured;
    format!(
        "the wire takes {} of {}: {:.1} MB at {} Mbit/s",
        time(exchange_s),
        time(compute_s + exchange_s),
        sent_bytes / 1e6,
        (rate(measured) / 1e6).round()
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

    #[track_caller]
    fn check(ms: (f64, f64), megabytes: f64, freedom: Freedom, expect: (bool, u64, &str)) {
        let (compute_s, exchange_s) = (ms.0 / 1e3, ms.1 / 1e3);
        let measured = Measured { compute_s, exchange_s, sent_bytes: megabytes * 1e6, members: 8 };
        let choice = choose(&measured, freedom);
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
        let short = Freedom { most_steps: 5, ..FREE };
        check((39.0, 641.0), 7.9, short, (true, 4, &format!("{wire}; int8 and 4 local steps: 40 ms")));
        let nothing = Freedom { compression: false, steps: false, most_steps: 1 };
        check((39.0, 641.0), 7.9, nothing, (false, 1, wire));
    }

    #[test]
    fn a_member_alone_exchanges_nothing() {
        let alone = Measured { compute_s: 0.1, exchange_s: 0.9, sent_bytes: 1e6, members: 1 };
        assert_eq!(choose(&alone, FREE).way, Way { int8: false, steps: 1 });
    }
}
