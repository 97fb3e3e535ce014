//! What the links of hosts carry, and what frames take of their processors, by pairs of hosts.

use bonfire_cluster::bench::link::LinkSpeed;
use bonfire_cluster::plan::figures::{HostFigures, LinkFigures};

/// A way between two hosts, by their numbers.
pub(super) type Way = (usize, usize, LinkSpeed);

/// Gives every host, by its number, its link.
pub(super) fn take(hosts: &mut [(usize, HostFigures)], ways: &[Way]) {
    for (number, figures) in hosts.iter_mut() {
        if let Some(link) = link(ways, *number) {
            figures.link = link;
        }
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
            rest_s: 0.0,
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
}
