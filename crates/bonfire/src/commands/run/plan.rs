//! What is to run, checked before any host is asked.

use std::fs;

use anyhow::{Context, Result, bail};
use bonfire_data::source::known;
use bonfire_launch::Host;
use bonfire_launch::place::{self, Role};
use bonfire_run::run_file::Topology;
use bonfire_run::run_file::cast::{Wanted, wanted};
use bonfire_run::{Overrides, Settings};

use super::RunOnHostsArgs;

/// A run file with the roles that it has to give.
#[derive(Debug)]
pub struct Plan {
    pub settings: Settings,
    /// The text of the run file, as the head gets it.
    pub text: String,
    /// `key=value` over it, those of the user first.
    pub set: Vec<String>,
    /// The head first.
    pub roles: Vec<Role>,
}

impl Plan {
    /// Reads the run file, and finds out whether there are hosts for all its roles.
    pub fn read(args: &RunOnHostsArgs, hosts: &[Host]) -> Result<Self> {
        let (origin, text) = match &args.run_file {
            Some(path) => {
                let read = fs::read_to_string(path);
                (
                    path.display().to_string(),
                    read.with_context(|| format!("cannot read the run file {}", path.display()))?,
                )
            }
            None => ("run file".to_owned(), String::new()),
        };
        let mut set = args.set.clone();
        let read =
            |set: &[String]| Settings::read(&origin, &text, &Overrides { set, ..Overrides::default() }, 1);
        let settings = read(&set)?;
        if matches!(settings.topology, Topology::Single { .. }) && !settings.says("workers") {
            let slots: usize = hosts.iter().map(|host| host.slots).sum();
            let others = 1 + usize::from(settings.file.evaluator);
            // With too few hosts, one worker is what is missing.
            set.push(format!("workers={}", slots.saturating_sub(others).max(1)));
        }
        let is_made = known(&settings.file.data.name).is_some_and(|known| known.made);
        if !settings.says("distribute") && (!is_made || args.data.is_some()) {
            set.push("distribute=ship".to_owned());
        }
        let settings = read(&set)?;
        let roles = roles(&settings);
        let slots: Vec<usize> = hosts.iter().map(|host| host.slots).collect();
        place::in_order(&roles, &slots)?;
        if let Some(out) = &args.out
            && fs::read_dir(out).is_ok_and(|mut entries| entries.next().is_some())
        {
            bail!("{}: is not empty; choose another folder with --out", out.display());
        }
        Ok(Self { settings, text, set, roles })
    }

    /// What to do about data that the head does not find.
    pub fn data_hint(&self, args: &RunOnHostsArgs) -> &'static str {
        let is_made = known(&self.settings.file.data.name).is_some_and(|known| known.made);
        if is_made || args.data.is_some() {
            ""
        } else {
            "; if its data are here: --data PATH copies them there"
        }
    }
}

fn roles(settings: &Settings) -> Vec<Role> {
    let role = |wanted: &Wanted| match wanted {
        Wanted::Relay(_) => Role::Relay,
        Wanted::Worker | Wanted::RingMember => Role::Worker,
        Wanted::Evaluator => Role::Evaluator,
    };
    let others = wanted(&settings.topology, settings.file.evaluator);
    std::iter::once(Role::Head).chain(others.iter().map(role)).collect()
}
