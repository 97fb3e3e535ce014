//! Who sums which chunk, and in which order a member sends its chunks there.

/// Which part of all chunks each of so many members carries, and after them each server: that with which all links are
/// busy for as long. A member sends and receives all that is not its own, and what is its own to and from the others;
/// a server what is its own, to and from all members.
pub fn parts(members: usize, servers: usize) -> Vec<f64> {
    let (n, k) = (members as f64, servers as f64);
    let own = (n - k).max(0.0) / (n * n + k * (n - 2.0));
    let server = if servers == 0 { 0.0 } else { (1.0 - n * own) / k };
    [vec![own; members], vec![server; servers]].concat()
}

/// The same with learners between members and servers, who carry nothing.
pub fn parts_with_learners(members: usize, learners: usize, servers: usize) -> Vec<f64> {
    // One alone would sum nothing; beside learners it does.
    let parts = parts(members.max(2), servers);
    let (own, sums) = (&parts[..members], &parts[members.max(2)..]);
    [own, &vec![0.0; learners], sums].concat()
}

/// The same for members with links of such speeds in bytes a second, without servers: the one that is done last is done
/// as soon as can be. Speeds that differ little count as equal, and so do all that are fast.
pub fn parts_by_links(speeds: &[f64]) -> Vec<f64> {
    let n = speeds.len();
    // With a part w a link carries 1 + (n - 2) w. Two members send all that they have to each other, whoever sums it.
    let by_speed = if n < 3 || are_fast(speeds) { None } else { done_together(speeds, n as f64 - 2.0) };
    by_speed.unwrap_or_else(|| parts(n, 0))
}

/// The same for the first `members` of some, of whom each heard the one before it at such a speed. Where links count
/// for nothing it is by the shares that they have of computing; without any, these are equal.
pub fn parts_by_speed(heard: &[f64], members: usize, shares: &[f64]) -> Vec<f64> {
    if members > 2 && !shares.is_empty() && is_linkless(heard) {
        return parts_by_shares(shares);
    }
    let speed = |member: usize| heard[member].max(heard[(member + 1) % heard.len()]);
    parts_by_links(&(0..members).map(speed).collect::<Vec<_>>())
}

/// The same by shares of computing alone.
fn parts_by_shares(shares: &[f64]) -> Vec<f64> {
    let n = shares.len();
    // When the last gradient is there, a member with a part w still takes (n - 1) w, sends as much, and takes the sums
    // of the others.
    done_together(shares, 2.0 * n as f64 - 3.0).unwrap_or_else(|| parts(n, 0))
}

/// Whether all links are so fast that it makes no difference how fast each is.
pub fn are_fast(speeds: &[f64]) -> bool {
    speeds.iter().all(|speed| *speed > FAST)
}

/// Whether links count for nothing, if each member heard another at such a speed. A busy one that listens late takes a
/// slow link for a fast one; not all do.
pub fn is_linkless(heard: &[f64]) -> bool {
    heard.iter().all(|speed| *speed > LINKLESS)
}

/// The parts with which all are done at the same time, where a part w is a load of 1 + `load` w. None if speeds differ
/// little, or some are not known.
fn done_together(speeds: &[f64], load: f64) -> Option<Vec<f64>> {
    let (slowest, fastest) = speeds.iter().fold((f64::MAX, 0.0f64), |(a, b), &s| (a.min(s), b.max(s)));
    if slowest <= 0.0 || fastest < DIFFERENT * slowest {
        return None;
    }
    // In a time t a member can have as much.
    let most = |t: f64| speeds.iter().map(move |speed| ((t * speed - 1.0) / load).max(0.0));
    // One of them has all at the latest then.
    let (mut less, mut more) = (0.0, (1.0 + load) / fastest);
    for _ in 0..100 {
        let t = (less + more) / 2.0;
        if most(t).sum::<f64>() < 1.0 { less = t } else { more = t }
    }
    let all: f64 = most(more).sum();
    Some(most(more).map(|part| part / all).collect())
}

/// Links whose speeds differ by less than this factor are as fast.
const DIFFERENT: f64 = 1.5;

/// Some more than 100 Mbit/s. Beyond it a busy processor looks like a slow link, and sums take it longer than bytes.
const FAST: f64 = 15e6;

/// Much more than 1 Gbit/s.
const LINKLESS: f64 = 300e6;

/// This part of all chunks may be on its way at a time, to their owners and back.
const WINDOW: usize = 4;

/// More bytes of a member need not be on their way: they fill every link, and are still in the cache when they are
/// read.
const WINDOW_BYTES: usize = 3 << 19;

/// How many of so many chunks, with so many bytes in all, a member may have on their way at a time. There is always one
/// for every owner; of small ones two, so that one can be on its way back.
pub fn window(chunks: usize, bytes: usize, members: usize) -> usize {
    let cached = WINDOW_BYTES * chunks / bytes.max(1);
    (chunks / WINDOW).max(2 * members).min(cached.max(members))
}

/// What a payload of so many bytes loads a link with: some for the frame.
pub fn load(payload: usize) -> usize {
    payload + 64
}

/// The order in which a member sends its chunks: from the last to the first, and of each few, one for every member, the
/// own chunk last and before that those of the members that come after it. So no two send to the same one at a time.
pub fn order(owners: &[usize], index: usize, members: usize) -> Vec<usize> {
    let mut order: Vec<usize> = (0..owners.len()).rev().collect();
    for few in order.chunks_mut(members) {
        few.sort_by_key(|&chunk| (owners[chunk] + members - index - 1) % members);
    }
    order
}

/// Who owns which chunk, if each member is to carry such a part of all loads.
pub fn owners(loads: &[usize], parts: &[f64]) -> Vec<usize> {
    let mut owned = vec![0.0; parts.len()];
    let mut give = |load: usize| {
        let after = |member: usize| (owned[member] + load as f64) / parts[member];
        let member = (0..parts.len()).filter(|&member| parts[member] > 0.0);
        let member = member.min_by(|&a, &b| after(a).total_cmp(&after(b))).unwrap_or(0);
        owned[member] += load as f64;
        member
    };
    loads.iter().map(|&load| give(load)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn near(parts: &[f64], expect: &[f64]) {
        let is_near = parts.iter().zip(expect).all(|(part, expect)| (part - expect).abs() < 1e-6);
        assert!(is_near && parts.len() == expect.len(), "{parts:?} instead of {expect:?}");
    }

    #[test]
    fn without_links_slow_processors_sum_less() {
        let near = |shares: &[f64], expect: &[f64]| near(&parts_by_shares(shares), expect);
        // 1 + 5 w takes as long on each.
        near(&[100.0, 100.0, 200.0, 400.0], &[0.025, 0.025, 0.25, 0.7]);
        near(&[10.0, 10.0, 10.0, 90.0], &[0.0, 0.0, 0.0, 1.0]);
        near(&[30.0, 32.0, 32.0, 34.0], &[0.25; 4]);
        near(&[0.0, 10.0, 20.0, 30.0], &[0.25; 4]);
        assert!(is_linkless(&[1e9; 4]) && !is_linkless(&[1e9, 1e9, 1e8, 1e9]));
    }

    #[test]
    fn slow_links_carry_less() {
        let near = |speeds: &[f64], expect: &[f64]| near(&parts_by_links(speeds), expect);
        near(&[100.0, 90.0, 110.0, 95.0], &[0.25; 4]);
        near(&[100.0, 1.0], &[0.5; 2]);
        near(&[100e6, 16e6, 1000e6], &[1.0 / 3.0; 3]);
        near(&[100.0, 100.0, 100.0, 10.0], &[1.0 / 3.0, 1.0 / 3.0, 1.0 / 3.0, 0.0]);
        near(&[1000.0, 100.0, 100.0], &[1.0, 0.0, 0.0]);
        // 1 + 2 w is as long on each.
        near(&[100.0, 100.0, 60.0, 60.0], &[0.4375, 0.4375, 0.0625, 0.0625]);
    }

    #[test]
    fn a_window_is_a_quarter_or_what_a_cache_holds_but_one_for_every_owner() {
        assert_eq!(window(64, 64 * 16_000, 4), 16);
        assert_eq!(window(128, 128 << 18, 2), 6);
        assert_eq!(window(128, 128 << 18, 8), 8);
        assert_eq!(window(1, 0, 4), 8);
    }

    #[test]
    fn learners_carry_nothing() {
        assert_eq!(parts_with_learners(2, 1, 0), [0.5, 0.5, 0.0]);
        assert_eq!(parts_with_learners(4, 0, 2), parts(4, 2));
        for (members, learners, servers) in [(1, 1, 0), (1, 2, 1), (1, 1, 2), (3, 2, 2)] {
            let parts = parts_with_learners(members, learners, servers);
            assert_eq!(parts.len(), members + learners + servers);
            let owners = owners(&[100; 64], &parts);
            assert!(owners.iter().all(|owner| !(members..members + learners).contains(owner)), "{owners:?}");
        }
    }

    #[test]
    fn all_links_are_busy_for_as_long() {
        for (members, servers) in [(2, 0), (8, 0), (8, 1), (8, 3), (4, 4), (16, 5), (2, 1)] {
            let parts = parts(members, servers);
            let (n, k) = (members as f64, servers as f64);
            let bound = 2.0 * n * (n - 1.0) / (n * n + k * n - 2.0 * k);
            for (i, part) in parts.iter().enumerate() {
                let load = if i < members { 1.0 + (n - 2.0) * part } else { n * part };
                assert!((load - bound).abs() < 1e-9, "{members} and {servers}: {load} instead of {bound}");
            }
            assert!((parts.iter().sum::<f64>() - 1.0).abs() < 1e-9);
        }
    }
}
