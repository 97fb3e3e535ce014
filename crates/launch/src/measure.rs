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
        let (place, able) = (self.program.place(), self.with_program());
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
        let (place, able) = (self.program.place(), self.with_program());
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
