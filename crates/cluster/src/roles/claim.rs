//! What members say of themselves, and how much of it is believed.

use bonfire_wire::proto;

/// The longest text of a peer that is repeated to people.
const TEXT_CHARS: usize = 300;

/// No machine's name, address or number is longer.
const NAME_BYTES: usize = 300;

/// No round lasts so long, and none has so many answers or so large a loss: sums of these do not overflow.
const SECONDS: f64 = 1e6;
const ANSWERS: u64 = 1 << 40;
const LOSS: f64 = 1e30;

/// A peer's text without what would confuse a terminal or fill a log.
pub(crate) fn plain(text: &str) -> String {
    let mut shown: String =
        text.chars().take(TEXT_CHARS).map(|c| if c.is_control() { ' ' } else { c }).collect();
    if shown.len() < text.len() && shown.chars().count() == TEXT_CHARS {
        shown.push('…');
    }
    shown
}

/// What is wrong with how a node introduces itself.
pub(crate) fn wrong_join(join: &proto::Join) -> Option<&'static str> {
    let longest =
        [&join.version, &join.name, &join.machine, &join.address].into_iter().map(String::len).max();
    match join.fingerprint.len() {
        _ if longest > Some(NAME_BYTES) => Some("its name, machine or address is too long to be one"),
        0 | 32 => None,
        _ => Some("its fingerprint is none: one has 32 bytes"),
    }
}

/// What is wrong with the numbers of a push by a member whose units are of at most so many samples in all.
pub(crate) fn wrong_push(push: &proto::Push, most: u64) -> Option<String> {
    let tally = push.tally.unwrap_or_default();
    if !push.weight.is_finite() || push.weight < 0.0 || push.weight > ANSWERS as f64 {
        return Some(format!("it weighs {}", push.weight));
    }
    if tally.loss.is_nan() || tally.loss.abs() > LOSS {
        return Some("its loss is not a number".to_owned());
    }
    // A number is no answer that could be right, but it weighs.
    if !(0.0..=tally.answers.max(tally.samples) as f64).contains(&tally.weight) {
        return Some(format!("its {} answers weigh {}", tally.answers, tally.weight));
    }
    if tally.samples > most || tally.answers > ANSWERS || tally.correct > tally.answers {
        let proto::Tally { samples, answers, correct, .. } = tally;
        return Some(format!(
            "it claims {samples} samples and {correct} of {answers} answers for {most} samples"
        ));
    }
    None
}

/// Seconds that may have passed.
pub(crate) fn seconds(claimed: f64) -> f64 {
    if claimed.is_finite() { claimed.clamp(0.0, SECONDS) } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_short_and_plain() {
        let check = |text: &str, expect: &str| assert_eq!(plain(text), expect);
        check("fine", "fine");
        check("two\nlines\u{1b}[31m", "two lines [31m");
        check(&"é".repeat(301), &format!("{}…", "é".repeat(300)));
        check(&"é".repeat(300), &"é".repeat(300));
    }

    #[test]
    fn a_push_claims_what_it_can_have_done() {
        let unit = proto::Unit::default();
        let push = |weight, loss, samples, answers, correct| proto::Push {
            weight,
            tally: Some(proto::Tally {
                loss,
                weight: answers as f64,
                answers,
                correct,
                samples,
                words: samples,
            }),
            units: vec![unit; 2],
            ..proto::Push::default()
        };
        let check = |push: &proto::Push, expect: Option<&str>| {
            let wrong = wrong_push(push, 64);
            assert_eq!(wrong.is_some(), expect.is_some(), "{push:?}: {wrong:?}");
            assert!(expect.is_none_or(|expect| wrong.unwrap_or_default().contains(expect)), "{push:?}");
        };
        check(&push(64.0, 3.5, 64, 900, 900), None);
        check(&push(0.0, 0.0, 0, 0, 0), None);
        check(&push(f64::NAN, 3.5, 64, 64, 1), Some("weighs NaN"));
        check(&push(-1.0, 3.5, 64, 64, 1), Some("weighs -1"));
        check(&push(1e300, 3.5, 64, 64, 1), Some("weighs 1"));
        check(&push(64.0, f64::INFINITY, 64, 64, 1), Some("loss"));
        check(&push(64.0, f64::MAX, 64, 64, 1), Some("loss"));
        check(&push(64.0, 3.5, 65, 64, 1), Some("65 samples"));
        check(&push(64.0, 3.5, u64::MAX, 64, 1), Some("samples"));
        check(&push(64.0, 3.5, 64, u64::MAX, 1), Some("answers"));
        check(&push(64.0, 3.5, 64, 64, 65), Some("65 of 64"));
    }
}
