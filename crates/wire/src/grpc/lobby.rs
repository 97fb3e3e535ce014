use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

/// How many callers may be unknown at a time, each for the time of a handshake.
pub(crate) const MAX_UNKNOWN: usize = 64;

/// Where callers are until they have shown the secret.
///
/// It never closes: when it is full, whoever comes takes the place of another. That is one of those from where most come,
/// so that a crowd from one address displaces itself and nobody else; among these it is one that has not got far, and
/// among these the one that has been here longest. A node that is displaced nevertheless calls again.
#[derive(Debug, Default)]
pub(crate) struct Lobby {
    guests: Mutex<Guests>,
}

#[derive(Debug, Default)]
struct Guests {
    /// The oldest first.
    here: Vec<Guest>,
    next: u64,
}

#[derive(Debug)]
struct Guest {
    number: u64,
    origin: IpAddr,
    has_progressed: bool,
    out: Arc<Notify>,
}

/// A caller's place in the lobby, free again when it is dropped.
#[derive(Debug)]
pub(crate) struct Place {
    lobby: Arc<Lobby>,
    number: u64,
    out: Arc<Notify>,
}

impl Lobby {
    /// A place for a caller; if there is none, somebody else's.
    pub(crate) fn enter(self: &Arc<Self>, address: IpAddr) -> Place {
        let mut guests = self.guests();
        if guests.here.len() >= MAX_UNKNOWN
            && let Some(victim) = guests.victim()
        {
            guests.here.remove(victim).out.notify_one();
        }
        let (number, out) = (guests.next, Arc::new(Notify::new()));
        guests.next += 1;
        let guest = Guest { number, origin: origin(address), has_progressed: false, out: Arc::clone(&out) };
        guests.here.push(guest);
        Place { lobby: Arc::clone(self), number, out }
    }

    fn guests(&self) -> MutexGuard<'_, Guests> {
        self.guests.lock().unwrap_or_else(PoisonError::into_inner)
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

impl Guests {
    /// Who is to go.
    fn victim(&self) -> Option<usize> {
        let crowd = |origin: IpAddr| self.here.iter().filter(|guest| guest.origin == origin).count();
        // Of several that are alike, `min_by_key` takes the first, which is the oldest.
        let places = self.here.iter().enumerate();
        let rank = |guest: &Guest| (std::cmp::Reverse(crowd(guest.origin)), guest.has_progressed);
        places.min_by_key(|(_, guest)| rank(guest)).map(|(place, _)| place)
    }
}

impl Place {
    /// Ends when another has taken this place.
    pub(crate) async fn is_taken(&self) {
        self.out.notified().await;
    }

    /// The caller has shown that it speaks the language, which costs it something.
    pub(crate) fn progress(&self) {
        let mut guests = self.lobby.guests();
        if let Some(guest) = guests.here.iter_mut().find(|guest| guest.number == self.number) {
            guest.has_progressed = true;
        }
    }

    /// Gives the place up for a better one. False if it has been taken.
    pub(crate) fn leave(self) -> bool {
        self.lobby.guests().remove(self.number)
    }
}

impl Guests {
    fn remove(&mut self, number: u64) -> bool {
        let before = self.here.len();
        self.here.retain(|guest| guest.number != number);
        self.here.len() < before
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.lobby.guests().remove(self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    /// The numbers of those who are still there.
    fn here(lobby: &Lobby) -> Vec<u64> {
        lobby.guests().here.iter().map(|guest| guest.number).collect()
    }

    #[test]
    fn a_crowd_displaces_itself() {
        let lobby = Arc::new(Lobby::default());
        let node = lobby.enter(address("10.0.0.2"));
        let crowd: Vec<Place> = (0..1000).map(|_| lobby.enter(address("10.0.0.1"))).collect();
        assert_eq!(here(&lobby).len(), MAX_UNKNOWN);
        assert!(here(&lobby).contains(&0), "who comes from elsewhere stays");
        let newest = crowd[1000 - 63..].iter().map(|place| place.number).collect::<Vec<_>>();
        assert_eq!(here(&lobby)[1..], newest, "the oldest of the crowd went");
        assert!(node.leave());
        assert!(!crowd.into_iter().next().unwrap().leave(), "its place was taken");
    }

    #[test]
    fn who_got_further_stays_longer() {
        let lobby = Arc::new(Lobby::default());
        let node = lobby.enter(address("10.0.0.1"));
        node.progress();
        let _crowd: Vec<Place> = (0..1000).map(|_| lobby.enter(address("10.0.0.1"))).collect();
        assert!(node.leave());
    }

    #[test]
    fn where_nobody_comes_in_a_crowd_the_oldest_goes() {
        let lobby = Arc::new(Lobby::default());
        let all: Vec<Place> = (0..65).map(|i| lobby.enter(address(&format!("10.0.0.{i}")))).collect();
        assert_eq!(here(&lobby), (1..65).collect::<Vec<u64>>());
        drop(all);
        assert_eq!(here(&lobby), [0; 0]);
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
