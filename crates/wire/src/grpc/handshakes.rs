use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

/// How many callers may be unknown at a time, each for the time of a handshake.
pub(crate) const MAX_UNKNOWN: usize = 64;

/// The handshakes that are under way: those of callers that have not shown the secret.
///
/// Their number is bounded, and nobody is kept out by that: when all slots are taken, a new caller takes the slot of
/// another. That is one of those from where most come, so that a crowd from one address displaces itself and nobody
/// else; among these it is one that has not got far, and among these the one that has been here longest. A node that is
/// displaced nevertheless calls again.
#[derive(Debug, Default)]
pub(crate) struct Handshakes {
    callers: Mutex<UnknownCallers>,
}

#[derive(Debug, Default)]
struct UnknownCallers {
    /// The oldest first.
    here: Vec<UnknownCaller>,
    next: u64,
}

#[derive(Debug)]
struct UnknownCaller {
    number: u64,
    origin: IpAddr,
    has_progressed: bool,
    out: Arc<Notify>,
}

/// A caller's slot among the handshakes, free again when it is dropped.
#[derive(Debug)]
pub(crate) struct HandshakeSlot {
    handshakes: Arc<Handshakes>,
    number: u64,
    out: Arc<Notify>,
}

impl Handshakes {
    /// A slot for a caller; if there is none, somebody else's.
    pub(crate) fn enter(self: &Arc<Self>, address: IpAddr) -> HandshakeSlot {
        let mut callers = self.callers();
        if callers.here.len() >= MAX_UNKNOWN
            && let Some(victim) = callers.victim()
        {
            callers.here.remove(victim).out.notify_one();
        }
        let (number, out) = (callers.next, Arc::new(Notify::new()));
        callers.next += 1;
        let caller =
            UnknownCaller { number, origin: origin(address), has_progressed: false, out: Arc::clone(&out) };
        callers.here.push(caller);
        HandshakeSlot { handshakes: Arc::clone(self), number, out }
    }

    fn callers(&self) -> MutexGuard<'_, UnknownCallers> {
        self.callers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Where a caller comes from. Whoever has one address of IPv6 has all that begin alike.
fn origin(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => {
            let [a, b, c, d, ..] = address.segments();
            Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0).into()
        }
        address => address,
    }
}

impl UnknownCallers {
    /// Who is to go.
    fn victim(&self) -> Option<usize> {
        let crowd = |origin: IpAddr| self.here.iter().filter(|caller| caller.origin == origin).count();
        // Of several that are alike, `min_by_key` takes the first, which is the oldest.
        let places = self.here.iter().enumerate();
        let rank = |caller: &UnknownCaller| (std::cmp::Reverse(crowd(caller.origin)), caller.has_progressed);
        places.min_by_key(|(_, caller)| rank(caller)).map(|(place, _)| place)
    }
}

impl HandshakeSlot {
    /// Ends when another has taken this slot.
    pub(crate) async fn is_taken(&self) {
        self.out.notified().await;
    }

    /// The caller has shown that it speaks the language, which costs it something.
    pub(crate) fn progress(&self) {
        let mut callers = self.handshakes.callers();
        if let Some(caller) = callers.here.iter_mut().find(|caller| caller.number == self.number) {
            caller.has_progressed = true;
        }
    }

    /// Gives the slot up: the handshake is done. False if it has been taken.
    pub(crate) fn leave(self) -> bool {
        self.handshakes.callers().remove(self.number)
    }
}

impl UnknownCallers {
    fn remove(&mut self, number: u64) -> bool {
        let before = self.here.len();
        self.here.retain(|caller| caller.number != number);
        self.here.len() < before
    }
}

impl Drop for HandshakeSlot {
    fn drop(&mut self) {
        self.handshakes.callers().remove(self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    /// The numbers of those who are still there.
    fn here(handshakes: &Handshakes) -> Vec<u64> {
        handshakes.callers().here.iter().map(|caller| caller.number).collect()
    }

    #[test]
    fn a_crowd_displaces_itself() {
        let handshakes = Arc::new(Handshakes::default());
        let node = handshakes.enter(address("10.0.0.2"));
        let crowd: Vec<HandshakeSlot> = (0..1000).map(|_| handshakes.enter(address("10.0.0.1"))).collect();
        assert_eq!(here(&handshakes).len(), MAX_UNKNOWN);
        assert!(here(&handshakes).contains(&0), "who comes from elsewhere stays");
        let newest = crowd[1000 - 63..].iter().map(|slot| slot.number).collect::<Vec<_>>();
        assert_eq!(here(&handshakes)[1..], newest, "the oldest of the crowd went");
        assert!(node.leave());
        assert!(!crowd.into_iter().next().unwrap().leave(), "its slot was taken");
    }

    #[test]
    fn who_got_further_stays_longer() {
        let handshakes = Arc::new(Handshakes::default());
        let node = handshakes.enter(address("10.0.0.1"));
        node.progress();
        let _crowd: Vec<HandshakeSlot> = (0..1000).map(|_| handshakes.enter(address("10.0.0.1"))).collect();
        assert!(node.leave());
    }

    #[test]
    fn where_nobody_comes_in_a_crowd_the_oldest_goes() {
        let handshakes = Arc::new(Handshakes::default());
        let all: Vec<HandshakeSlot> =
            (0..65).map(|i| handshakes.enter(address(&format!("10.0.0.{i}")))).collect();
        assert_eq!(here(&handshakes), (1..65).collect::<Vec<u64>>());
        drop(all);
        assert_eq!(here(&handshakes), [0; 0]);
    }

    #[test]
    fn addresses_that_one_caller_has_are_one_origin() {
        let check = |one: &str, other: &str, expect: bool| {
            assert_eq!(origin(address(one)) == origin(address(other)), expect, "{one} and {other}");
        };
        check("2001:db8::1", "2001:db8::ffff:1", true);
        check("2001:db8::1", "2001:db8:0:1::1", false);
        check("::ffff:10.0.0.1", "10.0.0.1", true);
        check("10.0.0.1", "10.0.0.2", false);
    }
}
