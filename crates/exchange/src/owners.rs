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

/// This part of all chunks may be on its way at a time, to their owners and back.
const WINDOW: usize = 4;

/// How many of so many chunks a member may have on their way at a time.
pub fn window(chunks: usize, members: usize) -> usize {
    (chunks / WINDOW).max(2 * members)
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
