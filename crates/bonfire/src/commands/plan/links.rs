//! What the links of hosts carry, and what frames take of their processors: by pairs of hosts, and by all at once.

use std::collections::BTreeMap;

use bonfire_cluster::bench::link::LinkSpeed;
use bonfire_cluster::bench::mesh::{Echoes, MeshSpeed};
use bonfire_cluster::plan::figures::{FrameFigures, HostFigures, LinkFigures};

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
    let is_full = are_cores_full(hosts, mesh);
    let part = part(ways, mesh);
    for (number, figures) in hosts {
        let Some(found) = mesh.iter().find(|found| found.from == *number) else { continue };
        if let Some((up, down)) = alone(ways, *number).filter(|_| !is_full) {
            (figures.link.up, figures.link.down) = (up * part, down * part);
        }
        let frame = frame_figures(&found.speed);
        (figures.link.send, figures.link.receive) = (frame, frame);
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
            (found.send, found.receive) = (speed.send, speed.receive);
        }
    }
    found
}

/// Bytes a second each way of a host's link, one way at a time: by the best of its partners.
fn alone(ways: &[Way], host: usize) -> Option<(f64, f64)> {
    let of = |&(from, to, speed): &Way| match host {
        _ if from == host => Some((speed.up_alone, speed.down_alone)),
        _ if to == host => Some((speed.down_alone, speed.up_alone)),
        _ => None,
    };
    ways.iter().filter_map(of).reduce(|(up, down), other| (up.max(other.0), down.max(other.1)))
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
    let part = |(host, carried): (&usize, &f64)| alone(ways, *host).map(|(up, down)| carried / up.min(down));
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

/// What a frame and a byte take: who asks sends each frame and receives it again, and as many are sent as received in
/// every exchange.
fn frame_figures(speed: &MeshSpeed) -> FrameFigures {
    let each = |echoes: Echoes| echoes.core_s / echoes.frames.max(1.0) / 2.0;
    let (large, small) = (each(speed.large), each(speed.small));
    let (bytes, few) = (speed.large.bytes as f64, speed.small.bytes as f64);
    let byte_s = ((large - small) / (bytes - few).max(1.0)).max(large / bytes * 0.2);
    FrameFigures { frame_s: (large - byte_s * bytes).max(0.0), byte_s }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FRAME: FrameFigures = FrameFigures { frame_s: 0.0, byte_s: 0.0 };

    fn speed(up: f64, down: f64, latency_s: f64) -> LinkSpeed {
        let (send, receive) = (FRAME, FRAME);
        LinkSpeed { latency_s, up_alone: up, down_alone: down, up, down, burst: 0.0, send, receive }
    }

    #[test]
    fn a_link_is_as_good_as_its_best_partner_lets_it_be() {
        let ways = [(0, 1, speed(10.0, 9.0, 0.3)), (2, 0, speed(90.0, 80.0, 0.1))];
        let found = link(&ways, 0).expect("a link");
        assert_eq!((found.up, found.down, found.latency_s), (80.0, 90.0, 0.1));
        assert_eq!(alone(&ways, 0), Some((80.0, 90.0)));
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
        let FrameFigures { frame_s, byte_s } = frame_figures(&found[0].speed);
        assert!((byte_s - 1e-6).abs() < 1e-12 && (frame_s - 1e-3).abs() < 1e-12, "{frame_s} {byte_s}");
    }
}
