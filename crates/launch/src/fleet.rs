//! Hosts that are logged into once, and asked all at the same time.

use std::io;
use std::thread::{self, ScopedJoinHandle};
use std::time::Duration;

use serde::de::DeserializeOwned;

use crate::error::LaunchError;
use crate::inventory::Host;
use crate::program::call;
use crate::ssh::{Remote, Ssh};
use crate::trouble::Trouble;

/// Some hosts. Dropped, all are logged out.
#[derive(Debug)]
pub(crate) struct Fleet {
    pub hosts: Vec<FleetHost>,
    _ssh: Ssh,
}

/// One of them.
#[derive(Clone, Debug)]
pub(crate) struct FleetHost {
    pub host: Host,
    pub(crate) remote: Remote,
}

/// How long a host may take to do what it is asked.
const ASKS_FOR: Duration = Duration::from_secs(30);

impl Fleet {
    /// The hosts of an inventory, not yet logged into. Each has `patience` to answer.
    pub(crate) fn of(hosts: Vec<Host>, patience: Duration) -> Result<Self, LaunchError> {
        let ssh = Ssh::new(patience)
            .map_err(|error| LaunchError::Unfit(format!("cannot make a folder for logins: {error}")))?;
        let host = |(number, host): (usize, Host)| FleetHost { remote: ssh.host(number, &host), host };
        Ok(Self { hosts: hosts.into_iter().enumerate().map(host).collect(), _ssh: ssh })
    }

    /// Only these hosts, in this order.
    pub(crate) fn narrow(self, hosts: &[usize]) -> Self {
        let hosts = hosts.iter().map(|&host| self.hosts[host].clone()).collect();
        Self { hosts, ..self }
    }

    /// Does something with all hosts at the same time.
    pub(crate) fn each<T: Send>(&self, work: impl Fn(usize, &FleetHost) -> T + Sync) -> Vec<T> {
        let all: Vec<usize> = (0..self.hosts.len()).collect();
        self.each_of(&all, work)
    }

    /// The same with some of them.
    pub(crate) fn each_of<T: Send>(
        &self,
        hosts: &[usize],
        work: impl Fn(usize, &FleetHost) -> T + Sync,
    ) -> Vec<T> {
        let work = &work;
        thread::scope(|scope| {
            let at_work: Vec<_> =
                hosts.iter().map(|&number| scope.spawn(move || work(number, &self.hosts[number]))).collect();
            let result = |thread: ScopedJoinHandle<'_, T>| match thread.join() {
                Ok(result) => result,
                // A bug there is a bug here.
                Err(panic) => std::panic::resume_unwind(panic),
            };
            at_work.into_iter().map(result).collect()
        })
    }
}

impl FleetHost {
    pub(crate) fn name(&self) -> &str {
        &self.host.name
    }

    /// What a short command of the program at a place there printed.
    pub(crate) fn ask(&self, place: &str, arguments: &[&str]) -> Result<Vec<u8>, Trouble> {
        call(&self.remote, place, arguments, io::empty(), ASKS_FOR)
    }

    /// The same for one that prints JSON.
    pub(crate) fn ask_json<T: DeserializeOwned>(
        &self,
        place: &str,
        arguments: &[&str],
    ) -> Result<T, Trouble> {
        let said = self.ask(place, arguments)?;
        serde_json::from_slice(&said).map_err(|error| Trouble::Other(error.to_string()))
    }
}
