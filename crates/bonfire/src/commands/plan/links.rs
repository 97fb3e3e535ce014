//! What the links of hosts carry, and what frames take of their processors: by pairs of hosts, and by all at once.

use std::collections::BTreeMap;

use bonfire_cluster::bench::link::LinkSpeed;
use bonfire_cluster::bench::mesh::{Echoes, MeshSpeed};
use bonfire_cluster::plan::figures::{HostFigures, LinkFigures};

/// A way between two hosts, by their numbers.
pub(super) type Way = (usize, usize, LinkSpeed);

/// What a host found on the ways to others while all were at it.
pub(super) struct Mesh {
    pub from: usize,
    pub to: Vec<usize>,
    pub speed: MeshSpeed,
}

/// Where so much of a machine's cores was at work, they were the limit, and not the links.
const CORES_FULL: f64 = 0.75;

/// Gives every host, by its number, its link.
pub(super) fn take(hosts: &mut [(usize, HostFigures)], ways: &[Way], mesh: &[Mesh]) {
    for (number, figures) in hosts.iter_mut() {
        if let Some(link) = link(ways, *number) {
            figures.link = link;
        }
    }
    if are_cores_full(hosts, mesh) {
        return;
    }
    let part = part(ways, mesh);
    for (_, figures) in hosts {
        figures.link.up *= part;
        figures.link.down *= part;
    }
}

/// What a host's link carries, by the ways that it is an end of: what the better of its partners got through.
fn link(ways: &[Way], host: usize) -> Option<LinkFigures> {
    let (mut found, mut seen): (Option<LinkFigures>, f64) = (None, 0.0);
    for &(from, _, speed) in ways.iter().filter(|(from, to, _)| *from == host || *to == host) {
        let (up, down) = if from == host { (speed.up, speed.down) } else { (speed.down, speed.up) };
        let found = found.get_or_insert(LinkFigures {
            up,
            down,
            burst: speed.burst,
            latency_s: speed.latency_s,
            wake_s: speed.wake_s,
            send: speed.send,
            receive: speed.receive,
        });
        if up + down > seen {
            (seen, found.burst) = (up + down, speed.burst);
        }
        found.up = found.up.max(up);
        found.down = found.down.max(down);
        found.latency_s = found.latency_s.min(speed.latency_s);
        if from == host {
            // Measured here, and not by the other side.
            (found.send, found.receive, found.wake_s) = (speed.send, speed.receive, speed.wake_s);
        }
    }
    // What the processors take on the way is counted apart.
    found.map(|found| {
        let processors_s = found.send.frame_s + found.receive.frame_s + 2.0 * found.wake_s;
        LinkFigures { latency_s: (found.latency_s - processors_s).max(found.latency_s * 0.1), ..found }
    })
}

/// Which part of what links carry alone goes through while all send to all: that of the fullest link. Others may have
/// waited for their partners'.
fn part(ways: &[Way], mesh: &[Mesh]) -> f64 {
    let mut carried: BTreeMap<usize, f64> = BTreeMap::new();
    for Mesh { from, to, speed } in mesh {
        for (to, rate) in to.iter().zip(&speed.rates) {
            // As much comes back; so each way of both links has it.
            *carried.entry(*from).or_default() += rate;
            *carried.entry(*to).or_default() += rate;
        }
    }
    let part =
        |(host, carried): (&usize, &f64)| link(ways, *host).map(|link| carried / link.up.min(link.down));
    carried.iter().filter_map(part).reduce(f64::max).map_or(1.0, |part| part.clamp(0.2, 1.0))
}

/// Whether a machine had no core left while all sent to all. Those who answer take as much as those who ask.
fn are_cores_full(hosts: &[(usize, HostFigures)], mesh: &[Mesh]) -> bool {
    let mut machines: BTreeMap<&str, (f64, f64)> = BTreeMap::new();
    for (number, figures) in hosts {
        let Some(found) = mesh.iter().find(|found| found.from == *number) else { continue };
        let Echoes { core_s, seconds, .. } = found.speed.large;
        let (busy, cores) = machines.entry(&figures.machine).or_default();
        *busy += 2.0 * core_s / seconds.max(1e-6);
        *cores = (*cores + figures.allowance).min(figures.cores as f64);
    }
    machines.values().any(|(busy, cores)| *busy > CORES_FULL * cores)
}

#[cfg(test)]
mod tests {
    use super::*;
    use bonfire_cluster::plan::figures::FrameFigures;

    const FRAME: FrameFigures = FrameFigures { frame_s: 0.0, byte_s: 0.0 };

    fn speed(up: f64, down: f64, latency_s: f64) -> LinkSpeed {
        let (send, receive) = (FRAME, FRAME);
        LinkSpeed { latency_s, up, down, burst: 0.0, send, receive, wake_s: 0.0 }
    }

    #[test]
    fn a_link_is_as_good_as_its_best_partner_lets_it_be() {
        let ways = [(0, 1, speed(10.0, 9.0, 0.3)), (2, 0, speed(90.0, 80.0, 0.1))];
        let found = link(&ways, 0).expect("a link");
        assert_eq!((found.up, found.down, found.latency_s), (80.0, 90.0, 0.1));
        assert!(link(&ways, 3).is_none());
    }

    fn mesh(from: usize, to: &[usize], rates: &[f64]) -> Mesh {
        let echoes = |bytes, core_s| Echoes { bytes, frames: 10.0, seconds: 1.0, core_s };
        let (large, small) = (echoes(3000, 0.08), echoes(1000, 0.04));
        Mesh { from, to: to.to_vec(), speed: MeshSpeed { rates: rates.to_vec(), large, small } }
    }

    #[test]
    fn links_that_are_full_both_ways_carry_less() {
        let ways = [(0, 1, speed(100.0, 100.0, 0.1)), (2, 0, speed(10.0, 10.0, 0.1))];
        // The slow host waits for nobody, and the others wait for it.
        let found = [mesh(0, &[1, 2], &[20.0, 3.0]), mesh(1, &[2], &[3.0]), mesh(2, &[0], &[3.0])];
        assert!((part(&ways, &found) - 0.9).abs() < 1e-9, "{}", part(&ways, &found));
    }
}
