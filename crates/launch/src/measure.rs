//! How fast hosts are, and the ways between them.

use std::io;
use std::net::IpAddr;
use std::time::Duration;

use crate::checkup::CheckedFleet;
use crate::facts::Facts;
use crate::fleet::FleetHost;
use crate::inventory::Host;
use crate::program::call;
use crate::reach::{self, Speed};
use crate::session::{Session, SessionNews};
use crate::trouble::Trouble;

/// A command of the program that tells how fast a host is.
#[derive(Clone, Copy, Debug)]
pub struct SpeedTest {
    /// Its arguments on a host with so many cores.
    pub arguments: fn(cores: usize) -> Vec<String>,
    /// The number that counts in the JSON that it prints.
    pub result: &'static str,
}

/// How long a measurement may take, on a slow machine that does something else.
const MEASURES_FOR: Duration = Duration::from_secs(60);

impl CheckedFleet {
    /// How fast every host is that has the program.
    pub fn measure_speeds(&mut self, test: SpeedTest) {
        let (place, able) = (self.place(), self.with_program());
        let cores = |number: usize| self.checkups[number].facts.as_ref().and_then(|facts| facts.cores);
        let speeds =
            self.fleet.each_of(&able, |number, host| test.measure(host, &place, cores(number).unwrap_or(1)));
        for (number, speed) in able.into_iter().zip(speeds) {
            let checkup = &mut self.checkups[number];
            match speed {
                Ok(speed) => checkup.samples_per_s = Some(speed),
                Err(trouble) => checkup.rule_out(format!("its speed cannot be measured: {trouble}")),
            }
        }
    }

    /// The ways from every host to the first, of those that have the program: one after the other, so that none is
    /// disturbed by another.
    pub fn measure_network(&mut self) {
        let (place, able) = (self.place(), self.with_program());
        let Some((&head, others)) = able.split_first() else { return };
        if others.is_empty() {
            return;
        }
        let Some(facts) = &self.checkups[head].facts else { return };
        let head = &self.fleet.hosts[head];
        let addresses = addresses(&head.host, facts);
        let Ok(answering) = Answering::start(head, &place) else { return };
        for &other in others {
            let (from, checkup) = (&self.fleet.hosts[other], &mut self.checkups[other]);
            let mut speeds = addresses.iter().map(|address| answering.measure(from, &place, address));
            match speeds.find(Result::is_ok) {
                Some(speed) => checkup.network = speed.ok(),
                None => checkup.rule_out(format!(
                    "it cannot reach {} at {}; does a firewall block it?",
                    head.name(),
                    addresses.join(" or ")
                )),
            }
        }
    }
}

/// What somebody on a host was asked said, by the host's number.
pub type Said = Vec<(usize, Result<Vec<u8>, Trouble>)>;

/// What one host said of the way to another, by their numbers.
#[derive(Debug)]
pub struct WaySaid {
    pub from: usize,
    pub to: usize,
    pub said: Result<Vec<u8>, Trouble>,
}

/// So many partners every host has, of those that there are.
const PARTNERS: u32 = 2;

impl CheckedFleet {
    /// Hosts that have the program, together where they share a machine.
    fn by_machine(&self) -> Vec<Vec<usize>> {
        let mut machines: Vec<(Option<&String>, Vec<usize>)> = Vec::new();
        for number in self.with_program() {
            let machine = self.checkups[number].facts.as_ref().and_then(|facts| facts.machine.as_ref());
            match machines.iter_mut().find(|(other, _)| machine.is_some() && *other == machine) {
                Some((_, hosts)) => hosts.push(number),
                None => machines.push((machine, vec![number])),
            }
        }
        machines.into_iter().map(|(_, hosts)| hosts).collect()
    }

    /// Calls the program on every host that has it, with an input that depends on how many hosts its machine has. All
    /// at the same time, but for those of one machine: they would disturb each other.
    pub fn call_in_turns(
        &self,
        arguments: &[&str],
        input: impl Fn(usize) -> Vec<u8> + Sync,
        time: Duration,
    ) -> Said {
        let (place, machines) = (self.place(), self.by_machine());
        let first: Vec<usize> = machines.iter().map(|hosts| hosts[0]).collect();
        let said = self.fleet.each_of(&first, |number, _| {
            let hosts = machines.iter().find(|hosts| hosts[0] == number).cloned().unwrap_or_default();
            let input = input(hosts.len());
            let call = |&host: &usize| {
                let remote = &self.fleet.hosts[host].remote;
                (host, call(remote, &place, arguments, input.as_slice(), time))
            };
            hosts.iter().map(call).collect::<Vec<_>>()
        });
        said.into_iter().flatten().collect()
    }

    /// The ways between hosts in pairs: a program answers on one, and one that measures on the other is told what that
    /// printed first, and where it may be. Pairs of a round have no host in common; where hosts share a machine they
    /// take turns all the same.
    pub fn call_in_pairs(&self, answer: &[&str], measure: &[&str], time: Duration) -> Vec<WaySaid> {
        let able = self.with_program();
        let takes_turns = self.by_machine().iter().any(|hosts| hosts.len() > 1);
        let mut said = Vec::new();
        for round in 0..PARTNERS {
            let mut pairs = pairs(able.len(), round);
            pairs.iter_mut().for_each(|(from, to)| (*from, *to) = (able[*from], able[*to]));
            let way = |from: usize, to: usize| {
                let said = self.ask_the_way((from, to), answer, measure, time);
                WaySaid { from, to, said }
            };
            if takes_turns {
                said.extend(pairs.into_iter().map(|(from, to)| way(from, to)));
                continue;
            }
            let first: Vec<usize> = pairs.iter().map(|(from, _)| *from).collect();
            let to = |from: usize| pairs.iter().find(|pair| pair.0 == from).map_or(from, |pair| pair.1);
            said.extend(self.fleet.each_of(&first, |from, _| way(from, to(from))));
        }
        said
    }

    /// Lets the program do something together on all hosts that have it. On each it reads a first line, which depends
    /// on how many hosts its machine has, and data; prints how to reach it; is told in a line of its place among all,
    /// of all of them, and also `more`; and prints what came of it. None ends before all have done so. Nobody says
    /// anything where there is only one.
    pub fn call_together(
        &self,
        arguments: &[&str],
        (first, data): (impl Fn(usize) -> String + Sync, &[u8]),
        (more, time): (&serde_json::Value, Duration),
    ) -> Result<Vec<(usize, String)>, Trouble> {
        let (able, machines) = (self.with_program(), self.by_machine());
        if able.len() < 2 {
            return Ok(Vec::new());
        }
        let answering = self.fleet.each_of(&able, |number, _| {
            let hosts = machines.iter().find(|hosts| hosts.contains(&number)).map_or(1, Vec::len);
            self.answering(number, arguments, (&first(hosts), data))
        });
        let answering = answering.into_iter().collect::<Result<Vec<_>, _>>()?;
        let (mut sessions, answers): (Vec<_>, Vec<_>) = answering.into_iter().unzip();
        for (index, session) in sessions.iter_mut().enumerate() {
            let mut question = serde_json::json!({"index": index, "all": answers});
            if let (Some(all), Some(more)) = (question.as_object_mut(), more.as_object()) {
                all.extend(more.clone());
            }
            session.say(format!("{question}\n").as_bytes());
        }
        let said = |(number, session): (&usize, &Session)| match session.next(time) {
            SessionNews::Line(said) => Ok((*number, said)),
            SessionNews::Nothing => Err(Trouble::TimedOut),
            SessionNews::End => {
                Err(Trouble::Other(format!("{} broke off", self.fleet.hosts[*number].name())))
            }
        };
        able.iter().zip(&sessions).map(said).collect()
    }

    /// Starts a program on a host that reads a line and data, and prints how to reach it; with that and where the host
    /// may be.
    fn answering(
        &self,
        number: usize,
        arguments: &[&str],
        (first, data): (&str, &[u8]),
    ) -> Result<(Session, serde_json::Value), Trouble> {
        let host = &self.fleet.hosts[number];
        let addresses = self.checkups[number].facts.as_ref().map(|facts| addresses(&host.host, facts));
        let mut session = Session::start(&host.remote, &self.place(), arguments, first)?;
        session.say(data);
        let said = match session.next(Duration::from_secs(20)) {
            SessionNews::Line(said) => said,
            SessionNews::Nothing => return Err(Trouble::TimedOut),
            SessionNews::End => {
                return session.end().and(Err(Trouble::Other("nobody answers there".to_owned())));
            }
        };
        let said: serde_json::Value =
            serde_json::from_str(&said).map_err(|error| Trouble::Other(error.to_string()))?;
        Ok((session, serde_json::json!({"answer": said, "addresses": addresses.unwrap_or_default()})))
    }

    fn ask_the_way(
        &self,
        (from, to): (usize, usize),
        answer: &[&str],
        measure: &[&str],
        time: Duration,
    ) -> Result<Vec<u8>, Trouble> {
        let (_session, question) = self.answering(to, answer, ("", &[]))?;
        let input = serde_json::to_vec(&question).map_err(|error| Trouble::Other(error.to_string()))?;
        call(&self.fleet.hosts[from].remote, &self.place(), measure, input.as_slice(), time)
    }
}

/// Who measures the way to whom in a round, of so many. Everybody is in a pair, the last one perhaps in a second.
fn pairs(hosts: usize, round: u32) -> Vec<(usize, usize)> {
    let distance = 1 << round;
    let mut pairs: Vec<(usize, usize)> = (0..hosts)
        .filter(|host| host & distance == 0 && host + distance < hosts)
        .map(|host| if round == 0 { (host, host + distance) } else { (host + distance, host) })
        .collect();
    let is_left = |host: &usize| !pairs.iter().any(|&(from, to)| from == *host || to == *host);
    if round == 0
        && hosts > 1
        && let Some(left) = (0..hosts).find(is_left)
    {
        pairs.push((left, 0));
    }
    pairs
}

impl SpeedTest {
    fn measure(self, host: &FleetHost, place: &str, cores: usize) -> Result<f64, Trouble> {
        let arguments = (self.arguments)(cores);
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let said = call(&host.remote, place, &arguments, io::empty(), MEASURES_FOR)?;
        let value: serde_json::Value =
            serde_json::from_slice(&said).map_err(|error| Trouble::Other(error.to_string()))?;
        let unclear = || Trouble::Other(format!("the measurement has no {}", self.result));
        value[self.result].as_f64().ok_or_else(unclear)
    }
}

/// Where other hosts may reach this one, the likeliest first. The inventory's address if it is one; then where its sshd
/// was reached, which behind a jump host is its address on the inner network.
pub(crate) fn addresses(host: &Host, facts: &Facts) -> Vec<String> {
    let written: Option<IpAddr> = host.address.trim_matches(['[', ']']).parse().ok();
    let mut found: Vec<IpAddr> = [written, facts.reached_at].into_iter().flatten().collect();
    found.dedup();
    // Another machine does not get here by a loopback address; another emulated host on the same machine does.
    found.sort_by_key(IpAddr::is_loopback);
    found
        .iter()
        .map(|ip| match ip {
            IpAddr::V4(ip) => ip.to_string(),
            IpAddr::V6(ip) => format!("[{ip}]"),
        })
        .collect()
}

/// Somebody on a host who answers those that measure the way to it.
struct Answering {
    _session: Session,
    port: String,
    token: String,
}

impl Answering {
    fn start(host: &FleetHost, place: &str) -> Result<Self, Trouble> {
        let token = reach::new_token().map_err(|error| Trouble::Other(error.to_string()))?;
        let session = Session::start(&host.remote, place, &["host", "answer"], &token)?;
        match session.next(Duration::from_secs(20)) {
            SessionNews::Line(port) => Ok(Self { _session: session, port, token }),
            SessionNews::Nothing => Err(Trouble::TimedOut),
            SessionNews::End => session.end().and(Err(Trouble::Other("nobody answers there".to_owned()))),
        }
    }

    /// The way there from a host.
    fn measure(&self, from: &FleetHost, place: &str, address: &str) -> Result<Speed, Trouble> {
        let address = format!("{address}:{}", self.port);
        let (arguments, token) = (["host", "measure", &address], self.token.as_bytes());
        let said = call(&from.remote, place, &arguments, token, MEASURES_FOR)?;
        serde_json::from_slice(&said).map_err(|error| Trouble::Other(error.to_string()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_host_is_in_a_pair() {
        assert_eq!(pairs(1, 0), []);
        assert_eq!(pairs(2, 0), [(0, 1)]);
        assert_eq!(pairs(2, 1), []);
        assert_eq!(pairs(3, 0), [(0, 1), (2, 0)]);
        assert_eq!(pairs(4, 0), [(0, 1), (2, 3)]);
        assert_eq!(pairs(4, 1), [(2, 0), (3, 1)]);
        assert_eq!(pairs(5, 1), [(2, 0), (3, 1)]);
    }

    #[test]
    fn a_host_is_reached_where_the_inventory_or_its_sshd_says() {
        let check = |written: &str, reached: Option<&str>, expect: &[&str]| {
            let reached_at = reached.map(|ip| ip.parse().expect("an address"));
            let facts = Facts { reached_at, ..Facts::default() };
            assert_eq!(addresses(&Host::at(written), &facts), expect, "{written}");
        };
        check("10.0.0.7", Some("10.0.0.7"), &["10.0.0.7"]);
        check("pi1.local", Some("10.0.0.7"), &["10.0.0.7"]);
        check("pi1.local", None, &[]);
        check("127.0.0.1", Some("10.0.0.7"), &["10.0.0.7", "127.0.0.1"]);
        check("[fe80::1]", Some("10.0.0.7"), &["[fe80::1]", "10.0.0.7"]);
    }
}
