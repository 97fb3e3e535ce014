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

/// Ways that carry this part of what the best does are about as fast.
const ABOUT: f64 = 0.95;

/// What a host's link carries, by the ways that it is an end of: what the better of its partners got through.
fn link(ways: &[Way], host: usize) -> Option<LinkFigures> {
    let own = || ways.iter().filter(move |(from, to, _)| *from == host || *to == host);
    let best = own().map(|(_, _, speed)| speed.up + speed.down).fold(0.0, f64::max);
    let mut found: Option<LinkFigures> = None;
    for &(from, _, speed) in own() {
        let (up, down) = if from == host { (speed.up, speed.down) } else { (speed.down, speed.up) };
        let found = found.get_or_insert(LinkFigures {
            up,
            down,
            burst: 0.0,
            latency_s: speed.latency_s,
            wake_s: speed.wake_s,
            rest_s: 0.0,
            send: speed.send,
            receive: speed.receive,
        });
        // A transfer that was held up hides a burst; over a slower way there seems to be more of it.
        if up + down > ABOUT * best {
            found.burst = found.burst.max(speed.burst);
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

    #[test]
    fn a_burst_is_the_largest_over_ways_that_are_about_as_fast() {
        let way = |to: usize, rate: f64, burst: f64| (0, to, LinkSpeed { burst, ..speed(rate, rate, 0.1) });
        let ways = [way(1, 100.0, 0.0), way(2, 98.0, 30.0), way(3, 50.0, 70.0)];
        assert_eq!(link(&ways, 0).expect("a link").burst, 30.0);
        assert_eq!(link(&ways, 3).expect("a link").burst, 70.0);
    }
}
