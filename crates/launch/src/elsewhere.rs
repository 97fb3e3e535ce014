//! A run that another machine has started: what the head's host was told of it, so that this one can come back to it.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use crate::error::LaunchError;
use crate::fleet::Fleet;
use crate::inventory::Host;
use crate::remote_run::RemoteRun;
use crate::run_list::{RunList, RunRecord, choose};
use crate::ssh::PATIENCE;
use crate::trouble::{Trouble, last_line};

/// Notes a run in its folder on the head's host. Only its owner may read it, as all that is there.
const NOTE: &str = r#"
umask 077
folder="$HOME/.bonfire/runs/$1"
cat > "$folder/launch.json.part" && mv -f "$folder/launch.json.part" "$folder/launch.json"
"#;

/// Prints what was noted there of all runs.
const READ: &str = r#"
for note in "$HOME"/.bonfire/runs/*/launch.json; do
    if test -f "$note"; then cat "$note"; fi
done
"#;

/// How long a host may take to note or to print it.
const TIME: Duration = Duration::from_secs(20);

impl RemoteRun {
    /// Tells the head's host what this machine knows of the run.
    pub(crate) fn note_at_head(&self) -> Result<(), Trouble> {
        let note = serde_json::to_vec(&self.record).map_err(|error| Trouble::Other(error.to_string()))?;
        let outcome = self.head().remote.run(NOTE, &[&self.record.id], note.as_slice(), TIME)?;
        if outcome.succeeded() { Ok(()) } else { Err(Trouble::Other(last_line(&outcome.stderr))) }
    }

    /// The run whose head is on a host and whose name begins so; without a name the newest there. From now on it is in
    /// the list of this machine, to which its folder comes: to `out`, or below `runs`. Hosts of the run that are among
    /// `known` are reached as these say.
    ///
    /// # Errors
    /// When the host is out of reach, or has no such run.
    pub fn from_host(
        list: RunList,
        host: &Host,
        run: Option<&str>,
        out: Option<PathBuf>,
        known: &[Host],
    ) -> Result<Self, LaunchError> {
        let mut record = choose(notes(&said_by(host)?), run).map_err(|error| error.on_host(&host.name))?;
        let out = out.unwrap_or_else(|| PathBuf::from("runs").join(&record.id));
        record.out = std::path::absolute(&out).map_err(|error| LaunchError::Unfit(error.to_string()))?;
        if fs::read_dir(&record.out).is_ok_and(|mut entries| entries.next().is_some()) {
            let message = format!("{} is not empty; --out names another folder", record.out.display());
            return Err(LaunchError::Unfit(message));
        }
        record.launcher = None;
        reach_as(&mut record, host, known);
        let run = Self::of(list, record)?;
        run.save()?;
        Ok(run)
    }
}

/// What a host has noted. Its login ends here: the run's own logins take its place.
fn said_by(host: &Host) -> Result<String, LaunchError> {
    let fleet = Fleet::of(vec![host.clone()], PATIENCE)?;
    let remote = &fleet.hosts[0].remote;
    let said = remote.log_in().and_then(|()| remote.ask(READ, &[], TIME));
    said.map_err(|trouble| LaunchError::Failed(format!("{}: {trouble}", host.name)))
}

/// The runs that a host has noted. What another version has noted and this one cannot read is passed over.
fn notes(said: &str) -> Vec<RunRecord> {
    let values = serde_json::Deserializer::from_str(said).into_iter::<serde_json::Value>();
    let mut runs: Vec<RunRecord> =
        values.map_while(Result::ok).filter_map(|value| serde_json::from_value(value).ok()).collect();
    runs.sort_by(|a, b| a.id.cmp(&b.id));
    runs
}

/// The ways to the hosts are this machine's own: keys of the other one are not here.
fn reach_as(record: &mut RunRecord, head: &Host, known: &[Host]) {
    let head_index = record.processes[0].host;
    for (i, entry) in record.hosts.iter_mut().enumerate() {
        let name = entry.host.name.clone();
        let (own, slots) = (known.iter().find(|host| host.name == name), entry.host.slots);
        match own {
            _ if i == head_index => entry.host = Host { name, slots, ..head.clone() },
            Some(own) => entry.host = Host { slots, ..own.clone() },
            None => entry.host.key = entry.host.key.take().filter(|key| key.is_file()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::deadline;
    use crate::facts::Facts;
    use crate::place::ProcessRole;
    use crate::run_list::{HostRecord, ProcessPlan};
    use std::process::Command;

    fn record(id: &str) -> RunRecord {
        let host = |name: &str| HostRecord {
            host: Host { key: Some("/nowhere/key".into()), ..Host::at(name) },
            facts: Facts::default(),
        };
        let head = ProcessPlan {
            number: 0,
            host: 1,
            role: ProcessRole::Head,
            name: "pi2".into(),
            command: Vec::new(),
            pid: None,
            exit_code: None,
        };
        RunRecord {
            hosts: ["pi1", "pi2", "pi3"].map(host).into(),
            processes: vec![head],
            ..RunRecord::of_test(id, false)
        }
    }

    #[test]
    fn what_is_noted_is_found_again() {
        let home = tempfile::tempdir().expect("a folder");
        let run = |script: &str, arguments: &[&str], input: &[u8]| {
            let mut sh = Command::new("sh");
            sh.args(["-c", script, "sh"]).args(arguments).env("HOME", home.path());
            deadline::run(&mut sh, input, TIME).expect("a shell")
        };
        assert_eq!(run(READ, &[], b"").stdout, b"", "nothing is there");
        for id in ["b-2", "a-1"] {
            fs::create_dir_all(home.path().join(".bonfire/runs").join(id)).expect("a folder");
            let note = serde_json::to_vec(&record(id)).expect("JSON");
            assert!(run(NOTE, &[id], &note).succeeded());
        }
        assert!(!run(NOTE, &["none"], b"{}").succeeded(), "a run that is not there is not made");
        let said = String::from_utf8(run(READ, &[], b"").stdout).expect("UTF-8");
        assert_eq!(notes(&said), [record("a-1"), record("b-2")]);
        assert_eq!(notes(&format!("{{\"id\": \"older\"}}{said}")).len(), 2, "one that cannot be read");
    }

    #[test]
    fn hosts_are_reached_as_this_machine_does() {
        let mut run = record("a");
        let head = Host { user: Some("me".into()), ..Host::at("10.0.0.2") };
        let known = [Host { user: Some("pi".into()), ..Host::at("pi3") }];
        reach_as(&mut run, &head, &known);
        let shown: Vec<_> =
            run.hosts.iter().map(|it| (&*it.host.name, &*it.host.address, it.host.user.as_deref())).collect();
        assert_eq!(
            shown,
            [("pi1", "pi1", None), ("pi2", "10.0.0.2", Some("me")), ("pi3", "pi3", Some("pi"))]
        );
        assert!(run.hosts.iter().all(|it| it.host.key.is_none()), "keys of the other machine");
    }
}
