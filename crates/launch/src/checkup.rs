//! Whether hosts can be used: each is logged into and asked, and gets the program that it lacks.

use std::io;
use std::net::IpAddr;
use std::time::{Duration, Instant};

use serde::Serialize;

use crate::error::LaunchError;
use crate::facts::Facts;
use crate::fleet::{Fleet, FleetHost};
use crate::inventory::Host;
use crate::place::{self, ProcessRole};
use crate::program::{Program, call};
use crate::programs::Programs;
use crate::reach::Speed;
use crate::trouble::Trouble;

/// Hosts that were asked, and the program that is to run on them.
#[derive(Debug)]
pub struct CheckedFleet {
    pub(crate) fleet: Fleet,
    /// One for every host, in their order.
    pub(crate) checkups: Vec<Checkup>,
    pub(crate) programs: Programs,
}

/// What is known of a host.
#[derive(Clone, Debug, Serialize)]
pub struct Checkup {
    pub host: String,
    pub address: String,
    pub is_usable: bool,
    /// Why it cannot be used, in words.
    pub trouble: Option<String>,
    /// Whether that is because the inventory names it, its user or its key wrongly.
    #[serde(skip)]
    is_mistaken: bool,
    pub facts: Option<Facts>,
    /// Whether this program, byte for byte, is there.
    pub has_program: bool,
    pub samples_per_s: Option<f64>,
    /// To the first host that can be used.
    pub network: Option<Speed>,
}

/// What a run needs for its own files beside program and data.
const ROOM_MB: u64 = 30;

/// How long a program that was copied may take to tell its version.
const STARTS_FOR: Duration = Duration::from_secs(20);

impl Checkup {
    fn of(host: &FleetHost, programs: &Programs, data_bytes: u64) -> Self {
        let asked = host.remote.log_in().and_then(|()| Facts::ask(&host.remote, &programs.place()));
        let is_mistaken = asked.as_ref().is_err_and(Trouble::is_mistake);
        let (facts, mut trouble) = match asked {
            Ok(facts) => (Some(facts), None),
            Err(trouble) => (None, Some(trouble.to_string())),
        };
        let mut has_program = false;
        if let Some(facts) = &facts {
            let program = programs.for_host(facts);
            has_program = program.as_ref().is_ok_and(|it| facts.program_sha256.as_ref() == Some(&it.sha256));
            trouble = match program {
                Ok(program) => {
                    let program_bytes = if has_program { 0 } else { program.bytes };
                    too_full(facts, ROOM_MB + (program_bytes + data_bytes) / 1_000_000)
                }
                Err(missing) => Some(missing),
            };
        }
        Self {
            host: host.host.name.clone(),
            address: host.host.address.clone(),
            is_usable: trouble.is_none(),
            trouble,
            is_mistaken,
            facts,
            has_program,
            samples_per_s: None,
            network: None,
        }
    }

    /// Whether it is reached by an address of IPv6.
    pub fn has_v6(&self) -> bool {
        let written = self.address.trim_matches(['[', ']']).split('%').next().and_then(|it| it.parse().ok());
        let reached = self.facts.as_ref().and_then(|facts| facts.reached_at);
        written.into_iter().chain(reached).any(|ip: IpAddr| ip.is_ipv6())
    }

    /// It cannot be used after all.
    pub(crate) fn rule_out(&mut self, trouble: String) {
        self.is_usable = false;
        self.trouble = Some(trouble);
    }
}

/// Why a host has no room.
fn too_full(facts: &Facts, room_mb: u64) -> Option<String> {
    match facts.free_mb {
        Some(free) if free < room_mb => {
            Some(format!("its disk is full: {free} MB are free in {}, {room_mb} MB are needed", facts.home))
        }
        _ => None,
    }
}

impl CheckedFleet {
    /// Logs into every host and asks what it is. `data_bytes` more are to find room there.
    pub fn of(
        hosts: Vec<Host>,
        patience: Duration,
        programs: Programs,
        data_bytes: u64,
    ) -> Result<Self, LaunchError> {
        let fleet = Fleet::of(hosts, patience)?;
        let checkups = fleet.each(|_, host| Checkup::of(host, &programs, data_bytes));
        Ok(Self { fleet, checkups, programs })
    }

    pub fn checkups(&self) -> &[Checkup] {
        &self.checkups
    }

    /// The host with this number.
    pub fn host(&self, number: usize) -> &Host {
        &self.fleet.hosts[number].host
    }

    /// This program.
    pub fn program(&self) -> &Program {
        &self.programs.own
    }

    /// Where the program stands on all hosts.
    pub(crate) fn place(&self) -> String {
        self.programs.place()
    }

    /// The program for a host that can be used.
    fn program_for(&self, host: usize) -> Option<&Program> {
        self.programs.for_host(self.checkups[host].facts.as_ref()?).ok()
    }

    /// How many bytes are to be copied to hosts that lack the program.
    pub fn missing_bytes(&self) -> u64 {
        self.without_program().iter().filter_map(|&host| Some(self.program_for(host)?.bytes)).sum()
    }

    /// The hosts that can be used but do not have the program.
    pub fn without_program(&self) -> Vec<usize> {
        let lacks = |checkup: &Checkup| checkup.is_usable && !checkup.has_program;
        (0..self.checkups.len()).filter(|&host| lacks(&self.checkups[host])).collect()
    }

    /// The hosts that can be used and have the program.
    pub(crate) fn with_program(&self) -> Vec<usize> {
        let has = |checkup: &Checkup| checkup.is_usable && checkup.has_program;
        (0..self.checkups.len()).filter(|&host| has(&self.checkups[host])).collect()
    }

    /// Copies the program to the hosts that lack it; one that cannot take it cannot be used. `tell` is called with a
    /// host and the number of bytes that are on their way to it. Returns which hosts got how many bytes, and how long
    /// that took.
    pub fn install(&mut self, tell: &(dyn Fn(usize, u64) + Sync)) -> Vec<(String, u64, Duration)> {
        let (wanting, place) = (self.without_program(), self.place());
        let installed = self.fleet.each_of(&wanting, |number, host| {
            let missing = || Trouble::Other("there is no program for it".to_owned());
            let (started, program) = (Instant::now(), self.program_for(number).ok_or_else(missing)?);
            program.install(&host.remote, &place, |bytes| tell(number, bytes))?;
            // A program that does not start there, say for want of a library, is better found now.
            let said = call(&host.remote, &place, &["--version"], io::empty(), STARTS_FOR)?;
            self.programs.check_version(&String::from_utf8_lossy(&said)).map_err(Trouble::Other)?;
            Ok::<_, Trouble>((program.bytes, program.sha256.clone(), started.elapsed()))
        });
        let mut copied = Vec::new();
        for (number, result) in wanting.into_iter().zip(installed) {
            let checkup = &mut self.checkups[number];
            match result {
                Ok((bytes, sha256, time)) => {
                    checkup.has_program = true;
                    if let Some(facts) = &mut checkup.facts {
                        facts.program_sha256 = Some(sha256);
                    }
                    copied.push((checkup.host.clone(), bytes, time));
                }
                Err(trouble) => checkup.rule_out(format!("the program cannot be put there: {trouble}")),
            }
        }
        copied
    }

    /// An error that names all hosts that cannot be used, if there are any.
    pub fn require_all(&self) -> Result<(), LaunchError> {
        self.troubles().map_or(Ok(()), |troubles| Err(LaunchError::Failed(troubles)))
    }

    /// Hosts that cannot be used are an error, unless the user goes on without them and enough are left for all roles.
    pub fn require(&self, roles: &[ProcessRole], skip_unusable: bool) -> Result<(), LaunchError> {
        let Some(troubles) = self.troubles() else { return Ok(()) };
        if skip_unusable {
            return place::in_order(roles, &self.slots()).map(|_| ()).map_err(|shortage| {
                LaunchError::Failed(format!("nothing was started: without them, {shortage}: {troubles}"))
            });
        }
        let message = format!(
            "nothing was started; --skip-unreachable goes on without such hosts if enough are left: {troubles}"
        );
        // The input was wrong, whatever else is.
        let is_mistaken = self.checkups.iter().any(|checkup| checkup.is_mistaken);
        Err(if is_mistaken { LaunchError::Unfit(message) } else { LaunchError::Failed(message) })
    }

    fn troubles(&self) -> Option<String> {
        let troubles: Vec<String> =
            self.unusable().iter().map(|(host, trouble)| format!("\n  {host}: {trouble}")).collect();
        let (bad, all) = (troubles.len(), self.checkups.len());
        (bad > 0).then(|| format!("{bad} of {all} hosts cannot be used{}", troubles.concat()))
    }

    /// The hosts that cannot be used, and why.
    pub fn unusable(&self) -> Vec<(&str, &str)> {
        self.checkups.iter().filter_map(|it| Some((it.host.as_str(), it.trouble.as_deref()?))).collect()
    }

    /// How many processes each host may take; none if it cannot be used.
    fn slots(&self) -> Vec<usize> {
        let slots = |(host, checkup): (&FleetHost, &Checkup)| match checkup.is_usable {
            true => host.host.slots,
            false => 0,
        };
        self.fleet.hosts.iter().zip(&self.checkups).map(slots).collect()
    }

    /// The hosts that can be used.
    pub fn usable(&self) -> Vec<Host> {
        let all = self.fleet.hosts.iter().zip(&self.checkups);
        all.filter(|(_, checkup)| checkup.is_usable).map(|(host, _)| host.host.clone()).collect()
    }

    /// Lets hosts that can be used take more processes, one after the other, until there is room for all roles. Returns
    /// those that got more than they were said to take.
    pub fn make_room(&mut self, roles: &[ProcessRole]) -> Vec<(String, usize)> {
        let usable: Vec<usize> = (0..self.checkups.len()).filter(|&i| self.checkups[i].is_usable).collect();
        let before = self.slots();
        // The first is the head's, and has enough to do.
        for &host in
            usable.iter().skip(1).chain(usable.first()).cycle().take(roles.len() * usable.len().min(1))
        {
            if place::in_order(roles, &self.slots()).is_ok() {
                break;
            }
            self.fleet.hosts[host].host.slots += 1;
        }
        let grown = self
            .fleet
            .hosts
            .iter()
            .zip(before)
            .filter(|(host, before)| *before > 0 && host.host.slots > *before);
        grown.map(|(host, _)| (host.name().to_owned(), host.host.slots)).collect()
    }

    /// Finds a host for every role, and lets the other hosts go. With `by_speed` the hosts that were measured to be the
    /// quickest lead.
    pub fn assign(self, roles: &[ProcessRole], by_speed: bool) -> Result<(Self, Vec<usize>), LaunchError> {
        let speed = |checkup: &Checkup| checkup.samples_per_s.unwrap_or(0.0);
        let places = match by_speed {
            true => {
                let speeds: Vec<f64> = self.checkups.iter().map(speed).collect();
                place::fastest_first(roles, &self.slots(), &speeds)
            }
            false => place::in_order(roles, &self.slots()),
        };
        let places = places
            .map_err(|shortage| LaunchError::Failed(format!("too few hosts can be used: {shortage}")))?;
        let used: Vec<usize> = (0..self.checkups.len()).filter(|host| places.contains(host)).collect();
        let place = |host: &usize| used.iter().position(|used| used == host).unwrap_or(0);
        let places = places.iter().map(place).collect();
        let checkups = used.iter().map(|&host| self.checkups[host].clone()).collect();
        Ok((Self { fleet: self.fleet.narrow(&used), checkups, ..self }, places))
    }
}
