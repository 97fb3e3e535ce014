//! Hosts of one machine have the same processor: what each was measured at is one try of several.

use std::collections::BTreeMap;

use super::figures::{HostFigures, WorkFigures};

/// Gives all hosts of a machine the figures in the middle of theirs.
pub fn even_out(hosts: &mut [HostFigures]) {
    let mut machines: BTreeMap<String, Vec<usize>> = BTreeMap::new();
    for (place, host) in hosts.iter().enumerate() {
        machines.entry(host.machine.clone()).or_default().push(place);
    }
    for places in machines.values().filter(|places| places.len() > 1) {
        let lists: Vec<Vec<f64>> = places
            .iter()
            .map(|&place| figures(&mut hosts[place].work).map(|figure| *figure).collect())
            .collect();
        // Who was measured at something else tells nothing of the others.
        if lists.iter().any(|list| list.len() != lists[0].len()) {
            continue;
        }
        for &place in places {
            for (number, figure) in figures(&mut hosts[place].work).enumerate() {
                *figure = middle(lists.iter().map(|list| list[number]).collect());
            }
        }
    }
}

/// What work takes, one figure after the other.
fn figures(work: &mut WorkFigures) -> impl Iterator<Item = &mut f64> {
    let steps = work.steps.iter_mut().flat_map(|step| [&mut step.work.core_s, &mut step.work.width]);
    let codecs = work
        .codecs
        .iter_mut()
        .flat_map(|codec| [&mut codec.encode_s, &mut codec.add_s, &mut codec.replace_s]);
    let others = [&mut work.update, &mut work.together].into_iter().chain(&mut work.factors);
    let crowds = work.crowds.iter_mut().map(|(_, times)| times);
    let rest = others.map(|work| &mut work.core_s).chain([&mut work.hop_s]).chain(&mut work.alone_s);
    steps.chain(codecs).chain(crowds).chain(rest)
}

/// The middle one, or the mean of the two in the middle; of no values nothing.
pub(crate) fn middle(mut values: Vec<f64>) -> f64 {
    if values.is_empty() {
        return 0.0;
    }
    values.sort_by(f64::total_cmp);
    let (low, high) = ((values.len() - 1) / 2, values.len() / 2);
    f64::midpoint(values[low], values[high])
}

#[cfg(test)]
mod tests {
    use super::super::sample;
    use super::*;

    #[test]
    fn hosts_of_a_machine_have_the_same_figures() {
        let mut hosts: Vec<HostFigures> = (0..5).map(|i| sample::host(&format!("pi{i}"), 1e6, 0.0)).collect();
        for (host, (machine, times)) in
            hosts.iter_mut().zip([("a", 1.0), ("b", 5.0), ("a", 9.0), ("a", 2.0), ("b", 1.0)])
        {
            host.machine = machine.to_owned();
            host.work.steps[1].work.core_s *= times;
            host.work.crowds = vec![(4, times)];
        }
        even_out(&mut hosts);
        let found: Vec<(f64, f64)> =
            hosts.iter().map(|host| (host.work.steps[1].work.core_s, host.work.crowds[0].1)).collect();
        assert_eq!(found, [(2.0, 2.0), (3.0, 3.0), (2.0, 2.0), (2.0, 2.0), (3.0, 3.0)]);
        // One that was measured otherwise leaves all as they are.
        hosts[0].work.crowds.clear();
        hosts[2].work.update.core_s = 7.0;
        even_out(&mut hosts);
        assert_eq!(hosts[2].work.update.core_s, 7.0);
    }
}
