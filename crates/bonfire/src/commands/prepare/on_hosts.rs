//! Preparing on many hosts is the work of another program, which not everybody builds.

use std::env;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Error, Result, bail};
use bonfire_data::prepare::{Preparation, Rules};

/// Which hosts.
#[derive(Debug, clap::Args)]
pub(crate) struct OnHostsArgs {
    /// Prepare on these hosts, by Ballista: a list as for `bonfire run`. Inputs are at the same place on all of them
    #[arg(long, short, value_name = "FILE", conflicts_with = "hosts")]
    inventory: Option<PathBuf>,
    /// The hosts themselves: a,b,c
    #[arg(long, short = 'H', value_name = "LIST")]
    hosts: Option<String>,
    /// The group of the inventory
    #[arg(long, value_name = "GROUP", requires = "inventory")]
    group: Option<String>,
}

/// The program that prepares on hosts.
const PROGRAM: &str = "bonfire-prepare";

impl OnHostsArgs {
    pub(crate) fn are_given(&self) -> bool {
        self.inventory.is_some() || self.hosts.is_some()
    }

    /// Becomes the program that does it.
    pub(crate) fn run(&self, preparation: &Preparation) -> Result<()> {
        let Preparation { inputs, out, rules, format, memory, is_strict, .. } = preparation;
        let Some(program) = find() else {
            bail!(
                "hosts need the program {PROGRAM}, which is neither beside this one nor on the PATH; to build it: \
                 cargo build --release --manifest-path crates/prepare/Cargo.toml"
            );
        };
        let mut command = Command::new(&program);
        command.arg("run").args(inputs).arg("--out").arg(out).args(["--format", format.name()]);
        command.args(["--rules", &in_json(rules)?, "--memory", &memory.to_string()]);
        command.args(is_strict.then_some("--strict"));
        for (option, value) in [("--hosts", &self.hosts), ("--group", &self.group)] {
            command.args(value.iter().flat_map(|value| [option, value]));
        }
        if let Some(inventory) = &self.inventory {
            command.arg("--inventory").arg(inventory);
        }
        let error = command.exec();
        Err(Error::new(error).context(format!("{} cannot be started", program.display())))
    }
}

fn in_json(rules: &Rules) -> Result<String> {
    serde_json::to_string(rules).context("the options cannot be written")
}

/// Beside this program, or on the PATH.
fn find() -> Option<PathBuf> {
    let own = env::current_exe().ok().and_then(|path| path.parent().map(Path::to_owned));
    let path = env::var_os("PATH").unwrap_or_default();
    let mut folders = own.into_iter().chain(env::split_paths(&path));
    folders.find_map(|folder| Some(folder.join(PROGRAM)).filter(|program| program.is_file()))
}
